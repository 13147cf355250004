#!/usr/bin/env python3
"""Compares the command line with the independent reader, on good files and on wrong ones.

Usage: ESPALIER=path/to/espalier test_cross.py. The last line is "N passed, N failed".
"""

import json
import math
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

import espalier_reference as reference
import numpy as np
import random_damage
import report
from espalier_build import build, from_tree
from espalier_codecs import at_random, compress
from espalier_rebuild import rebuild
from odd_chunks import good_chunks
from random_trees import RandomTree, edge_trees
from test_reference import broken_files

ESPALIER = os.environ.get("ESPALIER") or sys.exit("ESPALIER must name the command line")
RANDOM_TREES = 300

# Dtypes that the command line decodes to numpy's numbers; test_cli.py checks the others.
NUMPY = {
    "bool": "?", "i8": "i1", "u8": "u1", "i16": "<i2", "u16": "<u2", "i32": "<i4", "u32": "<u4",
    "i64": "<i8", "u64": "<u8", "f16": "<f2", "f32": "<f4", "f64": "<f8", "c64": "<c8",
    "c128": "<c16",
}  # fmt: skip


def run(*arguments, expect=0):
    done = subprocess.run([ESPALIER, *arguments], capture_output=True, timeout=60, check=False)
    if expect is not None and done.returncode != expect:
        raise AssertionError(f"{arguments}: exit code {done.returncode}: {done.stderr.decode()}")
    return done.stdout


def run_json(*arguments, expect=0):
    return json.loads(run(*arguments, "--json", expect=expect))


# --- The expected output of the command line, from the independent reader ------------------------------


def cli_int(value):
    return value if abs(value) < 2**53 else str(value)


def cli_float(word):
    value = struct.unpack("<d", struct.pack("<Q", word))[0]
    return finite_or_text(value)


def finite_or_text(value):
    if math.isfinite(value):
        return float(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def signed(raw):
    return int.from_bytes(raw, "little", signed=True)


def cli_value(file, i):
    """The value of a scalar node."""
    kind, _, _, _, value, count = file.index.nodes.rows[i]
    words, pool = file.index.words.rows, file.index.bytes.rows
    return {
        reference.NULL: lambda: None,
        reference.BOOL: lambda: bool(value),
        reference.INT64: lambda: cli_int(reference.to_signed(words[value])),
        reference.BIGINT: lambda: str(signed(pool[value : value + count])),
        reference.FLOAT64: lambda: cli_float(words[value]),
        reference.COMPLEX128: lambda: [cli_float(words[value]), cli_float(words[value + 1])],
        reference.STRING: lambda: file.texts[value],
        reference.BYTES: lambda: pool[value : value + count].hex(),
    }[kind]()


class Expected:
    """The nodes of one file as `docs/cli.md` describes them."""

    def __init__(self, data):
        self.file = reference.open_file(data)
        reference.verify(self.file)
        self.paths = dict(reference.printed_paths(self.file, 0))
        self.metadata_paths = dict(reference.printed_paths(self.file, 1))

    def path(self, i):
        return self.paths[i] if i in self.paths else self.metadata_paths[i]

    def node(self, i, stored=False):
        """A node as in `ls --all`; with `stored`, as in `ls --all --long`."""
        kind, _, _, _, value, count = self.file.index.nodes.rows[i]
        node = {"path": self.path(i), "kind": reference.KINDS[kind]}
        if i in self.file.labels:
            node["label"] = self.file.labels[i]
        if kind in reference.CONTAINERS:
            node["children"] = count
        elif kind in (reference.TENSOR, reference.PLACEHOLDER):
            node |= self.tensor(value)
            if stored:
                node |= self.stored(value)
        else:
            node["value"] = cli_value(self.file, i)
        return node

    def tensor(self, number):
        tensor = self.file.tensors[number]
        result = {"dtype": reference.DTYPES[tensor.dtype][0]}
        if tensor.block:
            result["block"] = dict(zip(("name", "elements", "bytes"), tensor.block))
        result["shape"] = [cli_int(axis) for axis in tensor.shape]
        if tensor.axis_names is not None:
            result["axis_names"] = list(tensor.axis_names)
        result["elements"] = cli_int(math.prod(tensor.shape))
        return result | {"bytes": cli_int(tensor.size), "tensor": number}

    def stored(self, number):
        tensor = self.file.tensors[number]
        chunks = [self.file.index.chunks.rows[c] for c, _ in reference.chunks_of(tensor)]
        names = {reference.RAW: "raw", reference.ZSTD: "zstd", reference.PLANES: "planes"}
        codecs = "+".join(names[codec] for codec in sorted({chunk[4] for chunk in chunks}))
        digest = None if tensor.placeholder else reference.tensor_digest(self.file, tensor).hex()
        return {"offset": chunks[0][0] if chunks else None, "chunks": len(chunks),
                "stored": cli_int(sum(chunk[2] for chunk in chunks)),
                "codec": codecs or "-", "hash": digest}  # fmt: skip

    def totals(self, numbers):
        held = [self.file.tensors[n] for n in numbers if not self.file.tensors[n].placeholder]
        elements = sum(math.prod(tensor.shape) for tensor in held)
        size = sum(tensor.size for tensor in held)
        return {"tensors": len(numbers), "elements": cli_int(elements), "bytes": cli_int(size)}

    def tree(self, root):
        nodes, tensors = {}, {}
        for i in reversed(range(len(self.file.parents))):
            kind, _, _, _, value, count = self.file.index.nodes.rows[i]
            nodes[i] = self.node(i)
            tensors[i] = {value} if kind in (reference.TENSOR, reference.PLACEHOLDER) else set()
            if kind in reference.CONTAINERS:
                children = range(value, value + count)
                tensors[i] = set().union(*(tensors[child] for child in children))
                nodes[i]["totals"] = self.totals(tensors[i])
                nodes[i]["children"] = [nodes[child] for child in children]
        return nodes[root]

    def list(self):
        """The nodes of `ls --all --long`: the tree in the order in which it is drawn."""
        result, stack = [], [0]
        while stack:
            i = stack.pop()
            result.append(self.node(i, stored=True))
            kind, _, _, _, first, count = self.file.index.nodes.rows[i]
            if kind in reference.CONTAINERS:
                stack.extend(range(first + count - 1, first - 1, -1))
        return result

    def shown(self, i):
        """A tensor or scalar as in `show`. Values are left out where numpy has no such dtype."""
        kind, _, _, _, number, _ = self.file.index.nodes.rows[i]
        node = self.node(i, stored=True)
        if kind not in (reference.TENSOR, reference.PLACEHOLDER):
            return node
        tied = [each["path"] for each in self.list() if each.get("tensor") == number]
        node["tied"] = tied if len(tied) > 1 else []
        tensor = self.file.tensors[number]
        dtype = reference.DTYPES[tensor.dtype][0]
        if tensor.placeholder or dtype == "opaque" or math.prod(tensor.shape) > 1000:
            node["values"] = None
        elif dtype in NUMPY:
            raw = np.frombuffer(reference.read_tensor(self.file, number), "u1")
            raw = raw != 0 if dtype == "bool" else raw.view(NUMPY[dtype])
            node["values"] = nest([cli_element(value) for value in raw.tolist()], tensor.shape)
        return node


def cli_element(value):
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return cli_int(value)
    if isinstance(value, complex):
        return [finite_or_text(value.real), finite_or_text(value.imag)]
    return finite_or_text(value)


def nest(values, shape):
    """Nested lists, in C order. (numpy has no arrays of 64 axes.)"""
    if not shape:
        return values[0]
    for axis in shape[:0:-1]:
        if not values:  # The command line prints no list of empty lists.
            return []
        values = [values[at : at + axis] for at in range(0, len(values), axis)]
    return values


def exact(value, narrow=False):
    """The same value with the bits of its floats, so that 0.0 and -0.0, and 1 and 1.0, differ.

    With `narrow`, floats are those of an f32, of which the command line prints no more digits.
    """
    if isinstance(value, dict):
        return {key: exact(item, narrow) for key, item in value.items()}
    if isinstance(value, list):
        return [exact(item, narrow) for item in value]
    if isinstance(value, float):
        return np.float32(value).tobytes() if narrow else struct.pack("<d", value)
    return (type(value), value)


# --- The tests ------------------------------------------------------------------------------------


class Folder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name)

    @classmethod
    def write(cls, name, data):
        path = cls.folder / name
        path.write_bytes(data)
        return str(path)


class GoodFiles(Folder):
    """Golden files, random ones, and ones at the edges."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.files = {}
        for path in sorted((HERE.parent / "golden").glob("*.espalier")):
            cls.files[path.name] = path.read_bytes()
        for name, (tree, metadata) in edge_trees().items():
            cls.files[f"edge {name}"] = build(from_tree(tree, metadata))
        for seed in range(RANDOM_TREES):
            made = RandomTree(random.Random(seed))
            cls.files[f"random {seed}"] = build(from_tree(made.tree, made.metadata))
        for seed in range(RANDOM_TREES // 3):
            generator = random.Random(seed)
            made = RandomTree(generator, compressible=True)
            tables = from_tree(made.tree, made.metadata)
            cls.files[f"compressed {seed}"] = build(compress(tables, at_random(generator)))
        for chunk in good_chunks():
            cls.files[f"chunk {chunk.name}"] = chunk.file()
        cls.paths = {name: cls.write(f"{n}.espalier", data)
                     for n, (name, data) in enumerate(cls.files.items())}  # fmt: skip
        cls.expected = {name: Expected(data) for name, data in cls.files.items()}

    def same(self, found, expected, narrow=False):
        if exact(found, narrow) != exact(expected, narrow):
            self.assertEqual(found, expected)
            self.fail(f"differ in types or signs: {found} and {expected}")

    def test_all_kinds_and_dtypes_occur(self):
        nodes = [node for expected in self.expected.values() for node in expected.list()]
        self.assertEqual({node["kind"] for node in nodes}, set(reference.KINDS.values()))
        dtypes = {node["dtype"] for node in nodes if node["kind"] == "tensor"}
        self.assertEqual(dtypes, {name for name, _ in reference.DTYPES.values()})
        codecs = [row[4] for expected in self.expected.values()
                  for row in expected.file.index.chunks.rows]  # fmt: skip
        for codec in (reference.RAW, reference.ZSTD, reference.PLANES):
            self.assertGreater(codecs.count(codec), 50, codec)
        for field in ("label", "axis_names", "block"):
            self.assertGreater(sum(field in node for node in nodes), 50, field)

    def test_verify(self):
        found = run_json("verify", *self.paths.values())["files"]
        for (name, path), result in zip(self.paths.items(), found, strict=True):
            file = self.expected[name].file
            expected = {"file": path, "ok": True, "hashes": True, "tensors": len(file.tensors),
                        "chunks": len(file.index.chunks.rows), "error_count": 0}  # fmt: skip
            with self.subTest(name=name):
                self.same({key: result.get(key) for key in expected}, expected)

    def test_ls(self):
        for name, path in self.paths.items():
            with self.subTest(name=name):
                found = run_json("ls", "--all", "--long", path)["nodes"]
                self.same(found, self.expected[name].list())

    def test_tree(self):
        for name, path in self.paths.items():
            with self.subTest(name=name):
                self.same(run_json("tree", path)["tree"], self.expected[name].tree(0))
                found = run_json("tree", "--metadata", path)["tree"]
                self.same(found, self.expected[name].tree(1))

    def test_show(self):
        """One scalar or tensor of every file, and all tensors of the golden ones."""
        shown = 0
        for name, path in self.paths.items():
            expected = self.expected[name]
            # No argument of a program can hold a zero byte.
            leaves = [node for node in expected.list()
                      if "children" not in node and "\0" not in node["path"]]  # fmt: skip
            if name.endswith(".espalier"):
                chosen = leaves
            else:
                chosen = random.Random(name).sample(leaves, min(1, len(leaves)))
            numbers = {path: i for i, path in expected.paths.items()}
            for leaf in chosen:
                with self.subTest(name=name, path=leaf["path"]):
                    found = json.loads(run("show", "--json", "--", path, leaf["path"]))["node"]
                    right = expected.shown(numbers[leaf["path"]])
                    if "values" in found and "values" not in right:
                        del found["values"]
                    self.same(found, right, leaf.get("dtype") in ("f16", "f32", "c64"))
                    shown += 1
        self.assertGreater(shown, RANDOM_TREES // 2)

    def test_convert(self):
        """The library writes the same bytes as the independent builder, and undoes every codec."""
        out = str(self.folder / "converted")
        for name, path in self.paths.items():
            with self.subTest(name=name):
                run("convert", "--force", "--no-sync", "--to", "espalier", path, out)
                same = pathlib.Path(out).read_bytes() == rebuild(self.files[name], raw=True)
                self.assertTrue(same, "other bytes than those of the independent builder")


def verdict(data):
    """The independent reader's verdict: "ok", "damaged" (it opens) or "refused"; and the reason."""
    try:
        file = reference.open_file(data)
    except reference.FormatError as error:
        return "refused", str(error)
    try:
        reference.verify(file)
    except reference.FormatError as error:
        return "damaged", str(error)
    return "ok", ""


class WrongFiles(Folder):
    """Both readers give the same verdict, and at the same stage of section 9."""

    def compare(self, files, ok=range(1), mostly="refused"):
        verdicts = {}
        names = list(files)
        for begin in range(0, len(names), 250):
            some = names[begin : begin + 250]
            paths = [self.write(f"{n}.espalier", files[name]) for n, name in enumerate(some)]
            found = run_json("verify", *paths, expect=None)["files"]
            for name, result in zip(some, found, strict=True):
                errors = [result["failure"]] if "failure" in result else result["errors"]
                says = "refused" if "failure" in result else "ok" if result["ok"] else "damaged"
                verdicts[name] = (says, errors)
        counts = {"ok": 0, "damaged": 0, "refused": 0}
        for name, (says, errors) in verdicts.items():
            expected, why = verdict(files[name])
            counts[expected] += 1
            with self.subTest(name=name):
                self.assertEqual(says, expected, f"the library: {errors}; the page: {why}")
        self.assertIn(counts["ok"], ok, counts)
        self.assertGreater(counts[mostly], len(names) // 4, counts)

    def random_files(self, change, count, ok=range(1), compressed=False):
        files = {}
        for seed in range(count):
            generator = random.Random(f"{change.__name__} {seed}")
            made = RandomTree(generator, compressed)
            tables = from_tree(made.tree, made.metadata)
            if compressed:
                compress(tables, at_random(generator))
            files[seed] = change(generator, tables)
        self.compare(files, ok)

    def test_one_check_each(self):
        self.compare({name: data for name, data, _ in broken_files()})

    # Some wrong numbers make another valid file; no other damage does.
    def test_wrong_numbers(self):
        self.random_files(random_damage.wrong_number, 1200, range(100, 400))

    def test_wrong_index(self):
        self.random_files(random_damage.wrong_index, 1000, range(20, 300))

    def test_wrong_layout(self):
        self.random_files(random_damage.wrong_layout, 300)

    def test_wrong_header(self):
        self.random_files(random_damage.wrong_header, 300)

    def test_wrong_anything(self):
        self.random_files(random_damage.wrong_anything, 400)

    def test_wrong_numbers_of_compressed_files(self):
        self.random_files(random_damage.wrong_number, 400, range(30, 150), compressed=True)

    def test_wrong_index_of_compressed_files(self):
        self.random_files(random_damage.wrong_index, 200, range(4, 60), compressed=True)

    def test_wrong_anything_in_compressed_files(self):
        self.random_files(random_damage.wrong_anything, 200, compressed=True)

    def test_wrong_chunks(self):
        """Some are as good as others, such as a byte of a frame that nothing depends on."""
        files = {}
        for seed in range(600):
            generator = random.Random(f"chunk {seed}")
            made = RandomTree(generator, compressible=True)
            files[seed] = random_damage.wrong_chunk(generator, from_tree(made.tree))
        self.compare(files, range(100, 400), "damaged")


if __name__ == "__main__":
    sys.setrecursionlimit(10000)  # For trees of depth 250.
    sys.exit(report.main())
