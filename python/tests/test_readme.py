"""The programs in the README run."""

import pathlib
import re

import pytest


# What torch says to a program of one process.
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_the_readme_s_programs_run(tmp_path, monkeypatch, capsys):
    for package in ("torch", "jax", "fsspec"):
        pytest.importorskip(package)
    here = pathlib.Path(__file__).resolve().parent.parent
    own = re.findall(r"```python\n(.*?)```", (here / "README.md").read_text(), re.S)
    front = re.findall(r"```python\n(.*?)```", (here.parent / "README.md").read_text(), re.S)
    assert own and front
    for number, programs in enumerate((own, front)):
        (tmp_path / str(number)).mkdir()
        monkeypatch.chdir(tmp_path / str(number))
        for program in programs:
            exec(compile(program, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert printed.startswith("model/layers/0/weight f32 (20, 30)\n")
    assert printed.endswith("[50, 90, 100] 50\n")
    assert "model: dict in the file, record in the template\n" in printed
