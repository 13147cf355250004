"""`espalier` and `python -m espalier`: which program they start. test_program.py has the real one."""

import os
import pathlib
import shutil
import subprocess
import sys

import espalier
import pytest


@pytest.fixture
def package(tmp_path):
    """The module alone, in a package without the program."""
    folder = tmp_path / "package"
    folder.mkdir()
    shutil.copy(pathlib.Path(espalier.__file__).parent / "__main__.py", folder)
    return folder


def write_program(folder, text='echo "$@"\nexit 3\n'):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "espalier").write_text("#!/bin/sh\n" + text)
    (folder / "espalier").chmod(0o755)


def run(package, path, *arguments):
    return subprocess.run(
        [sys.executable, package, *arguments], capture_output=True, text=True, env={**os.environ, "PATH": str(path)}
    )


def test_it_runs_the_program_of_the_package(package, tmp_path):
    write_program(package / "program", "echo own\n")
    write_program(tmp_path / "bin")
    assert run(package, tmp_path / "bin").stdout == "own\n"


def test_it_runs_the_program_of_the_path(package, tmp_path):
    write_program(tmp_path / "bin")
    done = run(package, tmp_path / "bin", "ls", "a b", "--tree")
    assert (done.stdout, done.returncode, done.stderr) == ("ls a b --tree\n", 3, "")


def test_without_the_program_it_says_so(package, tmp_path):
    # What pip writes for this package is no program: it would start itself for ever.
    write_program(tmp_path / "bin", "# from espalier.__main__ import main\necho pip\n")
    done = run(package, tmp_path / "bin", "ls")
    assert done.returncode == 1 and done.stdout == "" and done.stderr.count("\n") == 1
    assert "was built without the command line" in done.stderr
