"""python -m espalier."""

import os
import subprocess
import sys

import pytest


def run(folder, *arguments):
    environment = {**os.environ, "PATH": str(folder), "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.run(
        [sys.executable, "-m", "espalier", *arguments], capture_output=True, text=True, env=environment
    )


def test_it_runs_the_program_of_the_path(tmp_path):
    program = tmp_path / "espalier"
    program.write_text('#!/bin/sh\necho "$@"\nexit 3\n')
    program.chmod(0o755)
    done = run(tmp_path, "ls", "a b", "--tree")
    assert (done.stdout, done.returncode, done.stderr) == ("ls a b --tree\n", 3, "")


def test_without_the_program_it_says_so(tmp_path):
    if os.path.exists(os.path.join(os.path.dirname(sys.executable), "espalier")):
        pytest.fail("an environment with the program beside Python cannot test this")
    done = run(tmp_path, "ls")
    assert done.returncode == 1 and done.stdout == "" and done.stderr.count("\n") == 1
    assert "is a program of its own" in done.stderr
