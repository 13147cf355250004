"""The examples run."""

import pathlib
import runpy
import sys

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples"


def test_look_into(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["look_into.py"])
    runpy.run_path(str(EXAMPLES / "look_into.py"))
    printed = capsys.readouterr().out
    assert "16,384  f32    [64, 64]         model/layers/0/weight" in printed and "has_hashes=True" in printed
