"""The checkpoints of trainings that were killed, in torch and in Equinox, open elsewhere: in the command line, in a program in
C++, and in the viewer's page in two browsers.
"""

import json
import pathlib
import re
import subprocess

import espalier
import pytest
from builds import ROOT, needed
from killed_training import end_of_killed_training

HERE = pathlib.Path(__file__).resolve().parent


@pytest.fixture(scope="module", params=["torch_training", "equinox_training"])
def file(request, tmp_path_factory):
    return str(end_of_killed_training(request.param, tmp_path_factory.mktemp(request.param), kills=2))


@pytest.fixture(scope="module")
def tensors(file):
    with espalier.open(file) as checkpoint:
        found = [node for _, node in checkpoint.find("") if isinstance(node, espalier.Tensor)]
        return [{"path": each.path, "dtype": each.dtype, "shape": list(each.shape), "hash": each.hash} for each in found]


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, encoding="utf-8").stdout


def test_the_command_line(file, tensors, command_line):
    listed = json.loads(run(command_line, "ls", "--long", "--json", file))["nodes"]
    assert len(tensors) > 30
    assert [{key: node[key] for key in tensors[0]} for node in listed] == tensors
    [verified] = json.loads(run(command_line, "verify", "--json", file))["files"]
    assert verified["ok"] and verified["hashes"] and verified["tensors"] == len({node["tensor"] for node in listed})
    drawn = run(command_line, "tree", file)
    for name in ("model", "losses", "epoch", "permutation"):
        assert f"── {name}: " in drawn


def test_a_program_in_cpp(file, tensors):
    program = needed(ROOT / "build/release/examples/inspect", "build the release build")
    *lines, verdict = run(program, file).splitlines()
    assert verdict == "intact"
    assert [(line.split()[0], line.split()[2]) for line in lines] == [(each["dtype"], each["path"]) for each in tensors]


def test_the_viewer(file, tensors, node):
    needed(ROOT / "web_demo/dist/index.html", "run scripts/viewer --build")
    seen = [json.loads(line) for line in run(*node, str(HERE / "view_file.mjs"), file).splitlines()]
    assert [each["kind"] for each in seen] == ["chrome", "firefox"]
    for each in seen:
        assert each["faults"] == [] and "all is well" in each["verified"]
        shown = [name.lstrip("-") for name in each["names"]]
        for tensor in tensors:
            assert re.split("[/.]", tensor["path"])[-1] in shown  # the page nests names at their dots
