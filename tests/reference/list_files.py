#!/usr/bin/env python3
"""Prints a line of JSON for each file, as the independent reader sees it: its nodes, as `espalier ls --all --long --json`.

Tensors also have `sha256`, the hash of their elements' bytes. Usage: list_files.py FILE...
"""

import hashlib
import json
import sys

import espalier_reference as reference
from expected_json import Expected


def nodes(data):
    expected = Expected(data)
    listed = expected.list()
    for node in listed:
        if node["kind"] == "tensor":
            elements = reference.read_tensor(expected.file, node["tensor"])
            node["sha256"] = hashlib.sha256(elements).hexdigest()
    return listed


for name in sys.argv[1:]:
    with open(name, "rb") as stream:
        print(json.dumps(nodes(stream.read())))
