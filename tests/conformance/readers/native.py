#!/usr/bin/env python3
"""The native library for the kit: the command line for the verdict, and the C interface for the tree.

Usage: native.py FILE...

Without the environment variables ESPALIER (the program) and ESPALIER_LIBRARY (libespalier.so), it takes those of the build in
build/release, or else the installed ones.

The JSON of the command line has no types of keys, and the C interface no names of axes, so it takes both.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import hashlib
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
from ctypes import POINTER, byref, c_char_p, c_double, c_int64, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p

import protocol

BUILD = pathlib.Path(__file__).resolve().parents[3] / "build/release"


def find(variable: str, built: str, installed: str | None) -> str:
    """What the environment names, what was built here, or what is installed."""
    named = os.environ.get(variable) or (str(BUILD / built) if (BUILD / built).is_file() else installed)
    return named or sys.exit(f"{variable} names no file, and nothing was built: cmake --preset release && cmake --build build/release "
                             "--target espalier espalier_shared")  # fmt: skip


ESPALIER = find("ESPALIER", "espalier", shutil.which("espalier"))
LIBRARY = find("ESPALIER_LIBRARY", "native/c/libespalier.so", ctypes.util.find_library("espalier"))
KINDS = ("", "null", "bool", "int64", "bigint", "float64", "complex128", "string", "bytes", "dict", "list", "tuple", "set",
         "record", "tensor", "placeholder")  # fmt: skip


class Text(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("size", c_size_t)]

    def raw(self) -> bytes:
        return ctypes.string_at(self.data, self.size) if self.size else b""

    def text(self) -> str:
        return self.raw().decode()


class NodeInfo(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("kind", c_uint32), ("child_count", c_uint32), ("first_child", c_uint32),
                ("has_label", c_uint32), ("label", Text), ("integer", c_int64), ("real", c_double),
                ("imaginary", c_double), ("text", Text)]  # fmt: skip


class Key(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("is_integer", c_uint32), ("integer", c_int64), ("text", Text)]


class TensorInfo(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("dtype", c_uint32), ("is_placeholder", c_uint32), ("rank", c_uint32),
                ("number", c_uint32), ("shape", POINTER(c_uint64)), ("elements", c_uint64), ("bytes", c_uint64),
                ("stored_bytes", c_uint64), ("has_hash", c_uint32), ("block_elements", c_uint32),
                ("block_bytes", c_uint32), ("block_name", Text), ("hash", c_uint8 * 16)]  # fmt: skip


C = ctypes.CDLL(LIBRARY)
C.espalier_open.argtypes = [c_char_p, c_void_p, POINTER(c_void_p), c_void_p]
C.espalier_close.argtypes = [c_void_p]
C.espalier_state.argtypes = C.espalier_metadata.argtypes = [c_void_p]
C.espalier_state.restype = C.espalier_metadata.restype = c_uint32
C.espalier_get_node.argtypes = [c_void_p, c_uint32, POINTER(NodeInfo), c_void_p]
C.espalier_get_key.argtypes = [c_void_p, c_uint32, c_uint32, POINTER(Key), c_void_p]
C.espalier_get_tensor.argtypes = [c_void_p, c_uint32, POINTER(TensorInfo), c_void_p]
C.espalier_dtype_name.argtypes = [c_uint32]
C.espalier_dtype_name.restype = c_char_p
C.espalier_read.argtypes = [c_void_p, c_uint32, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p]


def run_json(command: str, *arguments: str) -> list[dict]:
    """What a command of several files says of each."""
    paths = list(arguments)
    done = subprocess.run([ESPALIER, command, "--json", "--", *paths], capture_output=True, check=False)
    if done.returncode < 0:
        raise RuntimeError(f"espalier {command} ended by signal {-done.returncode}")
    if not done.stdout and len(paths) == 1:  # One file that cannot be opened is an error alone.
        return [{"failure": {"message": done.stderr.decode(errors="replace")}}]
    found = json.loads(done.stdout)
    return found["files"] if "files" in found and command != "needs" else [found]


class File:
    """An open file, and what the kit wants to know of it."""

    def __init__(self, path: pathlib.Path) -> None:
        self.handle = c_void_p()
        self.check(C.espalier_open(os.fsencode(path), None, byref(self.handle), None))
        self.tensor_nodes: dict[int, int] = {}  # By number of the tensor: a node that names it.

    def close(self) -> None:
        C.espalier_close(self.handle)

    @staticmethod
    def check(status: int) -> None:
        if status != 0:
            raise RuntimeError(f"a function of the library failed with {status}")

    def info(self, node: int) -> NodeInfo:
        info = NodeInfo(ctypes.sizeof(NodeInfo))
        self.check(C.espalier_get_node(self.handle, node, byref(info), None))
        return info

    def nodes(self) -> int:
        """How many there are, at least: the last children of both trees have the highest numbers."""
        return max(self.info(root).first_child + self.info(root).child_count for root in self.roots())

    def roots(self) -> tuple[int, int]:
        return C.espalier_state(self.handle), C.espalier_metadata(self.handle)

    def node(self, number: int) -> dict:
        info = self.info(number)
        kind = KINDS[info.kind]
        found: dict = {"kind": kind}
        if info.has_label:
            found["label"] = info.label.text()
        bits = lambda value: struct.pack("<d", value).hex()
        if kind == "bool":
            found["value"] = bool(info.integer)
        elif kind == "int64":
            found["value"] = str(info.integer)
        elif kind == "bigint":
            found["value"] = str(int.from_bytes(info.text.raw(), "little", signed=True))
        elif kind == "float64":
            found["bits"] = bits(info.real)
        elif kind == "complex128":
            found["bits"] = [bits(info.real), bits(info.imaginary)]
        elif kind == "string":
            found["value"] = info.text.text()
        elif kind == "bytes":
            found["hex"] = info.text.raw().hex()
        elif kind in ("tensor", "placeholder"):
            found["tensor"] = self.tensor_info(number).number
            self.tensor_nodes.setdefault(found["tensor"], number)
        elif kind != "null":
            children = range(info.first_child, info.first_child + info.child_count)
            made = [self.node(child) for child in children]
            keys = [self.key(number, i) for i in range(info.child_count)] if kind in ("dict", "record") else None
            found["items"] = made if keys is None else [list(pair) for pair in zip(keys, made)]
        return found

    def key(self, parent: int, i: int) -> dict:
        key = Key(ctypes.sizeof(Key))
        self.check(C.espalier_get_key(self.handle, parent, i, byref(key), None))
        return {"int": str(key.integer)} if key.is_integer else {"text": key.text.text()}

    def tensor_info(self, node: int) -> TensorInfo:
        info = TensorInfo(ctypes.sizeof(TensorInfo))
        self.check(C.espalier_get_tensor(self.handle, node, byref(info), None))
        return info

    def tensor(self, node: int, axis_names: dict[int, list[str]]) -> dict:
        info = self.tensor_info(node)
        name = C.espalier_dtype_name(info.dtype).decode()
        block = None
        if name == "opaque":
            block = {"name": info.block_name.text(), "elements": info.block_elements, "bytes": info.block_bytes}
        return {
            "dtype": name,
            "shape": [protocol.number(info.shape[i]) for i in range(info.rank)],
            "axis_names": axis_names.get(info.number),
            "block": block,
            "placeholder": bool(info.is_placeholder),
            "bytes": protocol.number(info.bytes),
            "hash": bytes(info.hash).hex() if info.has_hash else None,
            "sha256": None if info.is_placeholder else self.content_hash(node, info.bytes),
        }

    def content_hash(self, node: int, size: int) -> str | None:
        memory = ctypes.create_string_buffer(max(1, size))
        status = C.espalier_read(self.handle, node, None, 0, memory, size, None)
        return hashlib.sha256(memory.raw[:size]).hexdigest() if status == 0 else None


def judge(paths: list[pathlib.Path]) -> list[dict]:
    reports = run_json("verify", *map(str, paths))
    assert len(reports) == len(paths)
    return [verdict(path, report) for path, report in zip(paths, reports)]


def verdict(path: pathlib.Path, report: dict) -> dict:
    if "failure" in report:
        return {"verdict": "refuse", "why": report["failure"]["message"]}
    if report["verdict"] == "damaged":
        return {"verdict": "refuse", "why": report["errors"][len(report["missing"])]["message"]}
    return {"verdict": {"ok": "accept"}.get(report["verdict"], report["verdict"])} | describe(path)


def describe(path: pathlib.Path) -> dict:
    with path.open("rb") as stream:
        header = stream.read(128)
    head = {"version": f"{header[8]}.{header[10]}", "digest": header[64:80].hex()}
    file = File(path)
    try:
        if file.nodes() > protocol.LARGEST_TREE:
            return head | {"tensors": None, "tree": None, "metadata": None}
        tree, metadata = (file.node(root) for root in file.roots())
        axis_names: dict[int, list[str]] = {}
        if file.tensor_nodes:
            for node in run_json("ls", str(path))[0]["nodes"]:
                if node.get("axis_names") is not None:
                    axis_names[node["tensor"]] = node["axis_names"]
        tensors = [file.tensor(node, axis_names) for _, node in sorted(file.tensor_nodes.items())]
        return head | {"tensors": tensors, "tree": tree, "metadata": metadata}
    finally:
        file.close()


if __name__ == "__main__":
    sys.exit(protocol.main(judge))
