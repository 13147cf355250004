"""The programs in the README run."""

import pathlib
import re

import pytest


# Their warnings are not errors here.
TRAINERS = re.compile("^from espalier[.](transformers|lightning|accelerate|peft) import", re.M)


def programs_of(path):
    return re.findall(r"```python\n(.*?)```", path.read_text(), re.S)


# What torch says to a program of one process.
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_the_readme_s_programs_run(tmp_path, monkeypatch, capsys):
    for package in ("torch", "jax", "fsspec"):
        pytest.importorskip(package)
    here = pathlib.Path(__file__).resolve().parent.parent
    own = [each for each in programs_of(here / "README.md") if not TRAINERS.search(each)]
    front = programs_of(here.parent / "README.md")
    assert own and front
    for number, programs in enumerate((own, front)):
        (tmp_path / str(number)).mkdir()
        monkeypatch.chdir(tmp_path / str(number))
        for program in programs:
            exec(compile(program, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert printed.startswith("model/layers/0/weight f32 (20, 30)\n")
    assert printed.endswith("[50, 90, 100] 50\n")
    assert "model/weight: f32 [3, 2] in the file, f32 [2, 3] in the template\n" in printed


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("framework", ["transformers", "lightning", "accelerate"])
def test_training_resumes_by_the_same_line(framework, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    pytest.importorskip(framework)
    programs = programs_of(pathlib.Path(__file__).resolve().parent.parent / "README.md")
    [program] = [each for each in programs if (found := TRAINERS.search(each)) and found[1] == framework]
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        names = {}
        exec(compile(program, "README.md", "exec"), names)
        if framework == "accelerate":
            assert names["data"].iteration == 3 and names["epoch"] == 2
            continue
        state = names["trainer"].state if framework == "transformers" else names["trainer"]
        assert state.global_step == (20 if framework == "transformers" else 24)
    assert list(tmp_path.rglob("last.ckpt" if framework == "lightning" else "*.espalier"))


@pytest.mark.filterwarnings("ignore")
def test_the_program_for_adapters_runs(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    pytest.importorskip("peft")
    programs = programs_of(pathlib.Path(__file__).resolve().parent.parent / "README.md")
    [program] = [each for each in programs if (found := TRAINERS.search(each)) and found[1] == "peft"]
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(program, "README.md", "exec"), names)
    assert list(names["model"].peft_config) == ["default"] and (tmp_path / "adapter.espalier").exists()
