"""Random states that Python saves, printed by three readers that go through all files: they print the same.

The readers are the independent one, the command line and the npm package. ESPALIER_EXAMPLES says how many states; by default
300.
"""

import json
import math
import os
import pathlib
import subprocess

import espalier
import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from trees import TREES

EXAMPLES = int(os.environ.get("ESPALIER_EXAMPLES", "300"))
HERE = pathlib.Path(__file__).resolve().parent
# The interpreter of the system has the packages that the independent reader needs.
REFERENCE = ["/usr/bin/python3", str(HERE.parent / "reference/list_files.py")]

# What chance may leave out: numbers at the edges, every kind, and tensors that are compressed.
EDGES = {
    "ints": [0, -1, 2**53 - 1, 2**53, -(2**53), 2**63 - 1, -(2**63), 2**63, -(2**63) - 1, 2**200],
    "floats": [0.0, -0.0, 1.0, 0.1, 1e300, 5e-324, math.inf, -math.inf, math.nan, 1j, -0.0j],
    "keys": {0: None, "0": True, -1: False, "-1": (), "": [], "~/.": "\u2028\0", 2**62: b"\0"},
    "record": espalier.Record("\u00e9", [("", {})]),
    "zstd": np.zeros((8, 100), np.uint8),
    "planes": np.linspace(1, 2, 1000, dtype=np.float32),
    "dtypes": [np.zeros(2, dtype) for dtype in "?bBhHiIqQefdFD"],
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trees")
    made = []

    @hypothesis.settings(
        max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )
    @hypothesis.given(state=TREES, compression=st.sampled_from([0, 1]))
    @hypothesis.example(state=EDGES, compression=0)
    @hypothesis.example(state=EDGES, compression=1)
    def save(state, compression):
        path = folder / f"{len(made)}.espalier"
        espalier.save(path, state, compression=compression, sync=False, views="copy")
        made.append(str(path))

    save()
    assert len(made) >= EXAMPLES
    return made


def printed(command):
    return subprocess.run(command, check=True, capture_output=True, text=True, encoding="utf-8").stdout


def printed_lines(command):
    # Not by splitlines(), to which some characters of names are ends of lines.
    return printed(command).rstrip("\n").split("\n")


def finite(item):
    return float(item["float"]) if item.keys() == {"float"} else item


@pytest.fixture(scope="module")
def reference(files):
    return list(map(json.loads, printed_lines([*REFERENCE, *files])))


def same(found, expected, files, *unknown):
    """Compares the nodes of each file, but for fields that the reader does not know."""
    assert len(found) == len(expected) == len(files)
    for nodes, right, file in zip(found, expected, files, strict=True):
        right = [{key: value for key, value in node.items() if key not in unknown} for node in right]
        # As text, in which 1, 1.0 and true differ, and 0.0 and -0.0.
        text, right_text = (json.dumps(each, sort_keys=True) for each in (nodes, right))
        assert text == right_text, file


def test_the_command_line_prints_what_the_independent_reader_does(files, reference, command_line):
    listed = json.loads(printed([command_line, "ls", "--all", "--long", "--json", *files]))["files"]
    same([file["nodes"] for file in listed], reference, files, "sha256")
    verified = json.loads(printed([command_line, "verify", "--json", *files]))["files"]
    assert [(file["file"], file["ok"]) for file in verified] == [(file, True) for file in files]


def test_the_npm_package_prints_what_the_independent_reader_does(files, reference, node):
    lines = printed_lines([*node, str(HERE / "list_files.mjs"), *files])
    listed = [json.loads(line, object_hook=finite) for line in lines]
    same(listed, reference, files, "offset", "chunks", "codec")


def test_the_files_are_of_many_kinds(reference):
    nodes = [node for each in reference for node in each]
    kinds = {node["kind"] for node in nodes}
    assert kinds == {
        "null", "bool", "int64", "bigint", "float64", "complex128", "string", "bytes", "dict", "list", "tuple", "record",
        "tensor",
    }  # fmt: skip
    assert len({node["dtype"] for node in nodes if "dtype" in node}) == 14
    assert {"raw", "zstd", "planes"} <= {node["codec"] for node in nodes if "codec" in node}
