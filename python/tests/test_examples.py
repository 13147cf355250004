"""The examples run."""

import pathlib
import runpy
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples"


def test_look_into(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["look_into.py"])
    runpy.run_path(str(EXAMPLES / "look_into.py"))
    printed = capsys.readouterr().out
    assert "16,384  f32    [64, 64]         model/layers/0/weight" in printed and "has_hashes=True" in printed


# A program for each wish that users of frameworks had for checkpoints elsewhere, in a process of its own: devices are chosen once.
@pytest.mark.parametrize(
    ("program", "printed"),
    [
        ("haliax_model", ["('dim', 'heads')", "blocks.2.linear.weight [8, 8]"]),
        ("part_of_a_model", ["[(16, 2), (1, 16)]", "step 20 equal: True"]),
        ("sharded_model", ["cpu:3 (256, 64)"]),
        ("same_files", ["model-00002-of-00002.safetensors", "{'epochs_run': 1, 'max_steps': None}"]),
        ("from_pt", ["verdict='ok'", "4 torch.Size([256, 256]) torch.float32", "equal"]),
    ],
)
def test_a_program_for_each_wish(tmp_path, program, printed):
    done = subprocess.run([sys.executable, EXAMPLES / f"{program}.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for each in printed:
        assert each in done.stdout
