#!/usr/bin/env python3
"""The reference reader (tests/reference) for the kit. Usage: reference.py FILE..."""

from __future__ import annotations

import hashlib
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "reference")]

import espalier_reference as reference
import protocol


def judge(path: pathlib.Path) -> dict:
    data = path.read_bytes()
    is_alone = data[10:12] == b"\0\0"
    beside = {} if is_alone else {each.name: each.read_bytes() for each in path.parent.iterdir() if each.is_file()}
    try:
        file = reference.open_file(data, beside)
        unreadable: list[int] = []
        reference.verify(file, unreadable)
    except reference.FormatError as error:
        return {"verdict": "refuse", "rule": error.rule, "why": str(error)}
    return describe(file, set(unreadable))


def describe(file: reference.File, unreadable: set[int]) -> dict:
    head = {"verdict": "incomplete" if unreadable else "accept", "version": file.header["version"]}
    head["digest"] = file.header["tree_digest"]
    if len(file.index.nodes.rows) > protocol.LARGEST_TREE:
        return head | {"tensors": None, "tree": None, "metadata": None}
    tensors = [describe_tensor(file, number, unreadable) for number in range(len(file.tensors))]
    return head | {"tensors": tensors, "tree": describe_node(file, 0), "metadata": describe_node(file, 1)}


def describe_tensor(file: reference.File, number: int, unreadable: set[int]) -> dict:
    tensor = file.tensors[number]
    block = dict(zip(("name", "elements", "bytes"), tensor.block)) if tensor.block else None
    has_data = not tensor.placeholder and not unreadable & {chunk for chunk, _ in reference.chunks_of(tensor)}
    return {
        "dtype": reference.DTYPES[tensor.dtype][0],
        "shape": [protocol.number(axis) for axis in tensor.shape],
        "axis_names": list(tensor.axis_names) if tensor.axis_names is not None else None,
        "block": block,
        "placeholder": tensor.placeholder,
        "bytes": protocol.number(tensor.size),
        "hash": None if tensor.placeholder else reference.tensor_digest(file, tensor).hex(),
        "sha256": hashlib.sha256(reference.read_tensor(file, number)).hexdigest() if has_data else None,
    }


def describe_node(file: reference.File, i: int) -> dict:
    kind, _, _, _, value, count = file.index.nodes.rows[i]
    node: dict = {"kind": reference.KINDS[kind]}
    if i in file.labels:
        node["label"] = file.labels[i]
    words, pool = file.index.words.rows, file.index.bytes.rows
    bits = lambda word: word.to_bytes(8, "little").hex()
    if kind == reference.BOOL:
        node["value"] = bool(value)
    elif kind == reference.INT64:
        node["value"] = str(reference.to_signed(words[value]))
    elif kind == reference.BIGINT:
        node["value"] = str(int.from_bytes(pool[value : value + count], "little", signed=True))
    elif kind == reference.FLOAT64:
        node["bits"] = bits(words[value])
    elif kind == reference.COMPLEX128:
        node["bits"] = [bits(word) for word in words[value : value + 2]]
    elif kind == reference.STRING:
        node["value"] = file.texts[value]
    elif kind == reference.BYTES:
        node["hex"] = pool[value : value + count].hex()
    elif kind in (reference.DICT, reference.RECORD):
        node["items"] = [[describe_key(file.keys[c]), describe_node(file, c)] for c in range(value, value + count)]
    elif kind in reference.CONTAINERS:
        node["items"] = [describe_node(file, child) for child in range(value, value + count)]
    elif kind in (reference.TENSOR, reference.PLACEHOLDER):
        node["tensor"] = value
    return node


def describe_key(key: int | str) -> dict:
    return {"int": str(key)} if isinstance(key, int) else {"text": key}


if __name__ == "__main__":
    sys.exit(protocol.main(lambda paths: [judge(path) for path in paths]))
