"""The programs in the README run."""

import pathlib
import re


def test_the_readme_s_programs_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    readme = (pathlib.Path(__file__).resolve().parent.parent / "README.md").read_text()
    programs = re.findall(r"```python\n(.*?)```", readme, re.S)
    assert programs
    for program in programs:
        exec(compile(program, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert printed.startswith("model/layers/0/weight f32 (20, 30)\n")
    assert printed.endswith("[50, 90, 100] 50\n")
    assert "model: dict in the file, record in the template\n" in printed
