#!/usr/bin/env python3
"""Tests of the independent reader, with files from the independent builder.

Run it directly (the last line is "N passed, N failed") or with `python3 -m unittest`.
"""

import ast
import inspect
import itertools
import json
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile
import traceback
import unittest
from dataclasses import replace

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

import espalier_reference as reference
import report
from espalier_build import (
    DTYPES,
    HEADER,
    MIB,
    Array,
    ChunkRecord,
    Labelled,
    NodeRecord,
    Placeholder,
    Record,
    Set,
    TensorRecord,
    build,
    from_tree,
    h128,
    lay_out_index,
    tree_digest,
    refer,
)
from espalier_reference import FormatError
from espalier_codecs import PLANES, ZSTD, at_random, compress, frame, seal, smallest
from index_edits import (
    entry,
    extra_field,
    gaps,
    insert,
    move_vtable,
    poke,
    slot,
    table,
    vector,
    vtable,
)
from odd_chunks import OddChunk, good_chunks, odd_chunks
from odd_patches import good_bases, good_patches, odd_bases, odd_patches
from random_trees import RandomTree
from table_edits import add_text, append, both, drop, node, put, retext, row, swap, tree

PAGE = (HERE.parent.parent / "docs" / "format.md").read_text(encoding="utf-8")


def check(data):
    """Opens and verifies; the file if it is valid."""
    file = reference.open_file(data)
    reference.verify(file)
    return file


def read(tree, metadata=None):
    return check(build(from_tree(tree, metadata)))


def value_of(file, node=0):
    """The tree as the classes that the builder takes; tensors as tuples of everything they are."""
    kind, _, _, _, value, count = file.index.nodes.rows[node]
    children = range(value, value + count)
    pool, words = file.index.bytes.rows, file.index.words.rows
    unpack = lambda code, *numbers: struct.unpack(code, struct.pack(f"<{len(numbers)}Q", *numbers))
    name = reference.KINDS[kind]
    if name == "null":
        result = None
    elif name == "bool":
        result = bool(value)
    elif name == "int64":
        (result,) = unpack("<q", words[value])
    elif name == "bigint":
        result = int.from_bytes(pool[value : value + count], "little", signed=True)
    elif name == "float64":
        (result,) = unpack("<d", words[value])
    elif name == "complex128":
        result = complex(*unpack("<dd", *words[value : value + 2]))
    elif name == "string":
        result = file.texts[value]
    elif name == "bytes":
        result = pool[value : value + count]
    elif name in ("dict", "record"):
        items = [(file.keys[child], value_of(file, child)) for child in children]
        result = dict(items) if name == "dict" else ("record", items)
    elif name in ("list", "tuple", "set"):
        result = {"list": list, "tuple": tuple, "set": frozenset}[name](
            value_of(file, child) for child in children
        )
    else:
        tensor = file.tensors[value]
        dtype = reference.DTYPES[tensor.dtype][0]
        data = None if tensor.placeholder else reference.read_tensor(file, value)
        result = (name, dtype, tensor.shape, data, tensor.axis_names, tensor.block)
    return ("label", file.labels[node], result) if node in file.labels else result


class PageAndConstants(unittest.TestCase):
    """The constants of both programs are those of the page."""

    def rows(self, heading, cells):
        section = PAGE.split(heading)[1].split("\n## ")[0]
        lines = [[c.strip() for c in line.split("|")[1:-1]] for line in section.splitlines()]
        return [line for line in lines if len(line) == cells and line[0].isdigit()]

    def test_kinds(self):
        rows = self.rows("## 4. Nodes", 4)
        self.assertEqual({int(r[0]): r[1] for r in rows}, reference.KINDS)

    def test_dtypes(self):
        found = {}
        for row in self.rows("## 5. Tensors", 7):
            for code, name, bits in (row[:3], row[4:]):
                number = re.match("[0-9]+", bits)
                found[int(code)] = (name, int(number[0]) if number else None)
        self.assertEqual(found, reference.DTYPES)
        self.assertEqual([found[code + 1][0] for code in range(28)], DTYPES)

    def test_vectors(self):
        rows = self.rows("## 2. Index", 5)
        self.assertEqual([int(r[0]) for r in rows], list(range(15)))
        found = [(r[1].strip("`"), r[2], int(r[4])) for r in rows]
        self.assertEqual(found, reference.VECTORS)
        for _, _, element, size, _ in rows:
            dtype = reference.np.dtype(reference.RECORDS[element])
            self.assertEqual(dtype.itemsize, int(size), element)

    def test_records(self):
        lines = PAGE.split("Records, with the offset of each field:")[1].split("```")[1]
        for line in lines.strip().splitlines():
            record, rest = line.split(None, 1)
            dtype = reference.np.dtype(reference.RECORDS[record])
            found = re.findall(r"(\d+) (u8|u16|u32|u64|16 bytes) (\w+)", rest)
            sizes = {"u8": 1, "u16": 2, "u32": 4, "u64": 8, "16 bytes": 16}
            expected = [(name, (sizes[size], int(at))) for at, size, name in found]
            fields = [(n, (dtype[n].itemsize, dtype.fields[n][1])) for n in dtype.names]
            self.assertEqual(fields, expected, record)

    def test_rules(self):
        """Rules are numbered in sequence; the reader names those of its checks, and the page all that it refers to."""
        defined = re.findall(r"^- \*\*R-(\d+)\.(\d+)\*\* ", PAGE, re.MULTILINE)
        numbers = [(int(section), int(rule)) for section, rule in defined]
        for section, rules in itertools.groupby(numbers, lambda number: number[0]):
            rules = [rule for _, rule in rules]
            self.assertEqual(rules, list(range(1, len(rules) + 1)), f"section {section}")
            self.assertIn(f"R-{section}.1**", PAGE.split(f"\n## {section}. ")[1].split("\n## ")[0])
        defined = {f"R-{section}.{rule}" for section, rule in numbers}
        self.assertEqual(set(re.findall(r"R-\d+\.\d+", PAGE)) - defined, set())
        named = set(re.findall(r'"(R-\d+\.\d+)"', inspect.getsource(reference)))
        self.assertEqual(named - defined, set())
        # Key paths are in no file, and the vectors of 1.1 are checked with the layout of the index. is for writers.
        # say what a reader must not refuse.
        unchecked = {rule for rule in defined if rule.startswith("R-10.")} | {"R-11.1", "R-11.10", "R-11.11", "R-12.10", "R-12.11"}
        self.assertEqual(defined - named, unchecked)

    def test_header(self):
        rows = self.rows("## 1. Header", 3)
        sizes = [struct.calcsize(code) for _, code in HEADER] + [8]
        self.assertEqual([int(r[1]) for r in rows], sizes)
        offsets = [0, *itertools.accumulate(sizes)]
        self.assertEqual([int(r[0]) for r in rows] + [128], offsets)


class RoundTrips(unittest.TestCase):
    def same(self, tree, expected=None):
        file = read(tree)
        self.assertEqual(value_of(file), tree if expected is None else expected)
        return file

    def test_leaves(self):
        for value in (None, True, False, 0, -1, 2**63 - 1, -(2**63), "", "h\u00e9llo \U0001f333",
                      b"", b"\0\xff", 0.0, -1.5, float("inf"), 3 - 4j):  # fmt: skip
            with self.subTest(value=value):
                result = value_of(read(value))
                self.assertEqual((type(result), result), (type(value), value))

    def test_float_bits(self):
        for bits in (0x8000000000000000, 0x7FF8000000000001, 0xFFF0000000000123):
            tables = from_tree(0.0)
            tables.words = [bits]
            file = reference.open_file(build(tables))
            leaf = reference.json_leaf(file, 0)
            self.assertEqual(leaf["bits"], struct.pack("<Q", bits).hex())

    def test_bigints(self):
        for power in (63, 64, 71, 72, 79, 80, 127, 128, 1000):
            for value in (2**power, -(2**power) - 1, 2**power + 1):
                self.same(value)

    def test_containers(self):
        for tree in ([], (), {}, [[], (), {}], [1, [2, [3, (4,)]], 5], {"a": {"b": {"c": 1}}},
                     {1: "int", "1": "text", -1: 0, "": 0, "/": 0}):  # fmt: skip
            self.same(tree)
        self.same(set(), frozenset())
        elements = {1, "1", b"1", 2.5, None}
        self.same(elements, frozenset(elements))
        self.same(Set([Set([1]), Set([])]), frozenset({frozenset({1}), frozenset()}))
        self.same(Record({"b": 1, "a": 2}), ("record", [("b", 1), ("a", 2)]))

    def test_insertion_order_is_kept(self):
        mixed = [3, "b", -7, "a", 2**63 - 1, -(2**63), "\u00e9", "", "z", "\U0001f333"]
        names = [f"k{i}" for i in range(30)]
        for keys in (list(range(30)), list(range(30, 0, -1)), names, mixed):
            file = self.same({key: i for i, key in enumerate(keys)})
            self.assertEqual(file.keys[2:], keys)

    def test_dict_orders_stand_only_where_they_must(self):
        def orders(tree):
            return read(tree).index.dict_orders.rows

        self.assertEqual(orders({i: 0 for i in range(8, 0, -1)}), [])
        self.assertEqual(orders({i: 0 for i in range(9)}), [])
        self.assertEqual(orders({i: 0 for i in range(9, 0, -1)}), [(0, 0)])
        self.assertEqual(orders(Record({f"f{9 - i}": i for i in range(9)})), [(0, 0)])
        file = read([{i: 0 for i in range(9, 0, -1)}, {i: 0 for i in range(10, 0, -1)}])
        self.assertEqual(file.index.dict_orders.rows, [(2, 0), (3, 9)])
        self.assertEqual(file.index.order.rows, [*range(8, -1, -1), *range(9, -1, -1)])

    def test_ints_stand_before_texts_and_by_value(self):
        keys = ["b", 2, "a", -3, "", 10, "\uffff", "\U00010000", 0, 1]
        order = read({key: 0 for key in keys}).index.order.rows
        expected = [-3, 0, 1, 2, 10, "", "a", "b", "\uffff", "\U00010000"]
        self.assertEqual([keys[position] for position in order], expected)

    def test_labels(self):
        tree = Labelled("root", [Labelled("torch.Size", (1, 2)), Labelled("", None)])
        expected = ("label", "root", [("label", "torch.Size", (1, 2)), ("label", "", None)])
        self.same(tree, expected)

    def test_metadata(self):
        file = read(1, {"when": "today", "n": [1, {"deep": b"x"}]})
        self.assertEqual(value_of(file, 1), {"when": "today", "n": [1, {"deep": b"x"}]})
        self.assertEqual(file.header["tree_digest"], read(1).header["tree_digest"])

    def test_every_dtype(self):
        for dtype, bits in reference.DTYPES.values():
            if bits is None:
                continue
            with self.subTest(dtype=dtype):
                data = bytes(i % 251 for i in range(bits * 3))  # 3 x 8 elements
                self.same(Array(dtype, (3, 8), data), ("tensor", dtype, (3, 8), data, None, None))
                expected = ("placeholder", dtype, (5, 8), None, None, None)
                self.same(Placeholder(dtype, (5, 8)), expected)

    def test_sub_byte_sizes(self):
        for dtype, count, size in (("i4", 2, 1), ("u2", 4, 1), ("f6_e2m3fn", 4, 3), ("i2", 12, 3)):
            expected = ("tensor", dtype, (count,), bytes(size), None, None)
            self.same(Array(dtype, (count,), bytes(size)), expected)

    def test_no_axes_and_no_elements(self):
        self.same(Array("f64", (), bytes(8)), ("tensor", "f64", (), bytes(8), None, None))
        for shape in ((0,), (3, 0), (0, 2**63), (2**64 - 1, 2**64 - 1, 0)):
            self.same(Array("f32", shape, b""), ("tensor", "f32", shape, b"", None, None))
        tree = [Array("u8", (0,), b""), Array("u8", (1,), b"a"), Array("i4", (0, 1), b"")]
        file = read(tree)
        self.assertEqual([t.first_chunk for t in file.tensors], [0, 0, 1])

    def test_64_axes(self):
        shape = (1,) * 63 + (2,)
        self.same(Array("u8", shape, b"xy"), ("tensor", "u8", shape, b"xy", None, None))

    def test_opaque(self):
        block = ("ggml.q4_0", 32, 18)
        self.same(
            Array("opaque", (2, 64), bytes(72), ("r", "c"), block),
            ("tensor", "opaque", (2, 64), bytes(72), ("r", "c"), block),
        )
        self.same(Array("opaque", (2, 0), b"", None, block),
                  ("tensor", "opaque", (2, 0), b"", None, block))  # fmt: skip
        self.same(Placeholder("opaque", (32,), None, block),
                  ("placeholder", "opaque", (32,), None, None, block))  # fmt: skip

    def test_axis_names(self):
        names = ("batch", "", "batch")
        expected = ("tensor", "u8", (1, 2, 1), b"xy", names, None)
        self.same(Array("u8", (1, 2, 1), b"xy", names), expected)

    def test_tied_tensors(self):
        weights = Array("u8", (4,), b"abcd")
        file = read({"in": weights, "mid": Array("u8", (1,), b"z"), "out": weights})
        self.assertEqual([row[4] for row in file.index.nodes.rows[2:]], [0, 1, 0])
        self.assertEqual(len(file.index.chunks.rows), 2)

    def test_placeholders_take_no_chunks(self):
        file = read([Placeholder("u8", (9,)), Array("u8", (1,), b"a"), Placeholder("u8", (9,)),
                     Array("u8", (2,), b"bc")])  # fmt: skip
        self.assertEqual([t.first_chunk for t in file.tensors], [2**32 - 1, 0, 2**32 - 1, 1])

    def test_many_chunks(self):
        data = random.Random(1).randbytes(2 * MIB + 5)
        contents = (data, data[:MIB], b"!")
        file = read([Array("u8", (len(content),), content) for content in contents])
        self.assertEqual([t.chunk_count for t in file.tensors], [3, 1, 1])
        self.assertEqual(reference.read_tensor(file, 0), data)
        offsets = [row[0] for row in file.index.chunks.rows]
        self.assertEqual(offsets[1] - offsets[0], MIB)
        self.assertEqual(offsets[2] - offsets[1], MIB)
        self.assertEqual(offsets[3], -(-(offsets[2] + 5) // 64) * 64)
        # A chunk that ends at a multiple of 64 is followed at once.
        self.assertEqual(offsets[4], offsets[3] + MIB)
        damaged = bytearray(file.data)
        damaged[offsets[2] + 4] ^= 1
        with self.assertRaisesRegex(FormatError, "chunk 2 is damaged"):
            check(bytes(damaged))

    def test_deep_nesting(self):
        tree = 1
        for _ in range(20000):
            tree = [tree]
        file = read(tree)
        self.assertEqual(reference.dump(file).count('"list"'), 20000)
        self.assertEqual(file.digests[0], tree_digest(tree))

    def test_digest_of_builder_and_reader_agree(self):
        self.assertEqual(check(build(sample())).digests[0], sample().tree_digest)


class Codecs(unittest.TestCase):
    def test_every_good_form(self):
        for chunk in good_chunks():
            with self.subTest(name=chunk.name):
                tables = chunk.tables()
                self.assertEqual(tables.chunks[0].codec, chunk.codec)
                self.assertEqual(reference.read_tensor(check(build(tables)), 0), chunk.data)

    def test_every_odd_chunk_is_compressed(self):
        """It would be refused for nothing else than its stored bytes."""
        for chunk in odd_chunks():
            self.assertEqual(chunk.tables().chunks[0].codec, chunk.codec, chunk.name)
            reference.open_file(chunk.file())

    def test_every_good_patch(self):
        names = set()
        for good in good_patches():
            with self.subTest(name=good.name):
                self.assertEqual(reference.read_tensor(check(good.file()), 1), good.data)
                self.assertNotIn(good.name, names)
                names.add(good.name)
        self.assertGreater(len(names), 60)
        for name, data in good_bases():
            with self.subTest(name=name):
                file = check(data)
                self.assertEqual(file.header["version"], "1.1")
                self.assertTrue(file.bases)

    def test_every_odd_patch_is_refused_for_its_stored_bytes(self):
        for odd in odd_patches():
            reference.open_file(odd.file())

    def test_files_differ_only_in_codecs(self):
        """The same state and the same digest with any codecs."""
        for seed in range(40):
            generator = random.Random(seed)
            made = RandomTree(generator, compressible=True)
            plain = check(build(from_tree(made.tree)))
            file = check(build(compress(from_tree(made.tree), at_random(generator))))
            self.assertEqual(file.digests, plain.digests)
            for number, tensor in enumerate(plain.tensors):
                if not tensor.placeholder:
                    found = reference.read_tensor(file, number)
                    self.assertEqual(found, reference.read_tensor(plain, number))

    def test_planes_by_hand(self):
        """-1.0, 2.0 and so on; their upper 16 bits are BF80 and 4000."""
        numbers = struct.pack("<16f", *[-1.0, 2.0] * 8)
        # Moved: BF80 = 1 01111111 0000000 becomes 7F80, and 4000 = 0 10000000 0000000 becomes 8000.
        tops, signs = bytes([0x7F, 0x80] * 8), bytes([0x80, 0x00] * 8)
        stored = struct.pack("<4I", 1, 1, 16, 16) + b"\0\0" + signs + tops
        file = check(OddChunk("", "f32", numbers, PLANES, stored).file())
        self.assertEqual(file.index.chunks.rows[0][4], PLANES)
        self.assertEqual(reference.read_tensor(file, 0), numbers)

    def test_many_chunks(self):
        """The last one is shorter; raw ones stand among them."""
        noise = random.Random(1).randbytes(MIB)
        data = bytes(MIB) + noise + b"\0\1\2\3" * (MIB // 4) + b"\0\0\x80\x3f" * 50
        array = Array("f32", (len(data) // 4,), data)

        def choose(dtype, data):
            return smallest(dtype, data) if any(data) else (ZSTD, seal(frame(data)))

        file = check(build(compress(from_tree([array, Array("u8", (3,), b"end")]), choose)))
        self.assertEqual([row[4] for row in file.index.chunks.rows], [1, 0, 2, 2, 0])
        self.assertEqual(reference.read_tensor(file, 0), data)


class DigestByHand(unittest.TestCase):
    """Section 8, spelled out byte by byte."""

    def same(self, tree, encoding):
        self.assertEqual(read(tree).digests[0].hex(), h128(encoding).hex())

    def test_hash_is_stored_low_half_first(self):
        # XXH3-128 of no bytes: 99aa06d3014798d86001c324468d497f, high half first.
        self.assertEqual(reference.h128(b"").hex(), "7f498d4624c30160d8984701d306aa99")
        # XXH3-64 of no bytes: 2d06800538d394c2.
        self.assertEqual(reference.h64(b"").hex(), "c294d3380580062d")

    def test_leaves(self):
        self.same(None, b"\x01\x00")
        self.same(True, b"\x02\x00\x01")
        self.same(-2, b"\x03\x00" + b"\xfe" + b"\xff" * 7)
        self.same(2**63, b"\x04\x00" + b"\x09\0\0\0" + b"\0" * 7 + b"\x80\0")
        self.same(1.0, b"\x05\x00" + bytes.fromhex("000000000000f03f"))
        self.same(1j, b"\x06\x00" + bytes(8) + bytes.fromhex("000000000000f03f"))
        self.same("ab", b"\x07\x00" + h128(b"ab"))
        self.same(b"ab", b"\x08\x00" + b"\x02\0\0\0ab")

    def test_label(self):
        self.same(Labelled("L", None), b"\x01\x01" + h128(b"L"))

    def test_containers(self):
        none, true = h128(b"\x01\x00"), h128(b"\x02\x00\x01")
        self.same([], b"\x0a\x00" + bytes(4))
        self.same([None, True], b"\x0a\x00" + b"\x02\0\0\0" + none + true)
        self.same((True, None), b"\x0b\x00" + b"\x02\0\0\0" + true + none)
        both = b"".join(sorted([none, true]))
        self.same(Set([None, True]), b"\x0c\x00" + b"\x02\0\0\0" + both)
        self.same(Set([True, None]), b"\x0c\x00" + b"\x02\0\0\0" + both)

    def test_dict_and_record(self):
        none, true = h128(b"\x01\x00"), h128(b"\x02\x00\x01")
        by_key = b"\x02\0\0\0" + b"\x02" + b"\xff" * 8 + true + b"\x01" + h128(b"k") + none
        self.same({"k": None, -1: True}, b"\x09\x00" + by_key)
        self.same({-1: True, "k": None}, b"\x09\x00" + by_key)
        fields = b"\x01\0\0\0" + b"\x01" + h128(b"k") + none
        self.same(Record({"k": None}), b"\x0d\x00" + fields)

    def test_tensors(self):
        axes = b"\x02\0\0\0" + b"\x02" + bytes(7) + b"\x01" + bytes(7)
        tensor = b"\x03" + axes + b"\x00" + h128(b"xy")
        self.same(Array("u8", (2, 1), b"xy"), b"\x0e\x00" + h128(tensor))
        self.same(Placeholder("u8", (2, 1)), b"\x0f\x00" + h128(b"\x03" + axes + b"\x00"))
        named = b"\x03" + axes + b"\x01" + h128(b"r") + h128(b"") + h128(b"xy")
        self.same(Array("u8", (2, 1), b"xy", ("r", "")), b"\x0e\x00" + h128(named))
        axis = b"\x01\0\0\0" + b"\x02" + bytes(7)
        opaque = b"\x1c" + axis + h128(b"q") + b"\x02\0\0\0\x03\0\0\0" + b"\x00" + h128(b"abc")
        self.same(Array("opaque", (2,), b"abc", None, ("q", 2, 3)), b"\x0e\x00" + h128(opaque))
        data = bytes(MIB) + b"z"
        chunks = h128(bytes(MIB)) + h128(b"z")
        axis = b"\x01\0\0\0" + struct.pack("<Q", MIB + 1)
        big = b"\x03" + axis + b"\x00" + chunks
        self.same(Array("u8", (MIB + 1,), data), b"\x0e\x00" + h128(big))


# --- Files that break one "must" ------------------------------------------------------------------


def sample_tree():
    """Something of everything; every part of it is broken by some entry of BROKEN."""
    weights = Array("f32", (2, 3), bytes(range(24)), ("row", ""))
    return {
        "null": None,
        "bool": True,
        "int": -5,
        "big": 2**64,
        "float": 0.1,
        "complex": 1 - 2j,
        "string": "text",
        "bytes": b"\0\xff",
        "list": [1, (2,)],
        "set": Set([1, "1"]),
        "record": Labelled("torch.Size", Record({"b": 1, "a": 2})),
        "w": weights,
        "tied": weights,
        "q": Array("opaque", (2, 64), bytes(range(72)), None, ("q4", 32, 18)),
        "p": Placeholder("opaque", (32,), ("only",), ("q8", 32, 34)),
        "none": Array("i4", (0,), b""),
        "scalar": Array("u8", (), b"\x07"),
        7: Labelled("seven", "7"),
        -1: "minus",
        "sorted": {i: None for i in range(9)},
        "reversed": {i: None for i in range(9, 0, -1)},
    }


def sample():
    return from_tree(sample_tree(), {"by": "a test", "n": 1})


def equal_elements(tables):
    # A list with two equal elements becomes a set with two equal elements.
    tree([1, 1])(tables)
    tables.nodes[0].kind = 12


def in_metadata(value):
    return lambda tables: tables.__dict__.update(from_tree(None, {"t": value}).__dict__)


def int_key(value, number):
    """The tree `value`, where one node has an int key that it must not have."""

    def change(tables):
        tree(value)(tables)
        tables.set_texts([])
        tables.words.insert(0, 9)
        record = tables.nodes[number]
        record.key_kind, record.key = 2, 0
        if record.kind == 3:
            record.value = 1

    return change


ONE = Array("u8", (1,), b"x")
HOLE = Placeholder("u8", (1,))


# Name: (change of the tables, words of the error).
BROKEN = {
    # Section 3, texts
    "text ends decrease": (put("text_ends", 2, 0), "`text_ends` decreases at 2"),
    "text ends leave the text": (put("text_ends", -1, 10**6), "`text_ends` leaves `text`"),
    "text left over": (lambda t: setattr(t, "text", t.text + b"x"), "`text_ends` does not cover"),
    "text without ends": (both(tree(None), lambda t: setattr(t, "text", b"x")), "does not cover"),
    "text cut off": (retext(b"tied", b"tie\xc3"), "is not UTF-8"),
    "text with an overlong form": (retext(b"tied", b"tie\xc0\x80"), "is not UTF-8"),
    "text with a surrogate": (retext(b"tied", b"tie\xed\xa0\x80"), "is not UTF-8"),
    "text beyond Unicode": (retext(b"tied", b"tie\xf4\x90\x80\x80"), "is not UTF-8"),
    "texts not ascending": (retext(b"tied", b"a"), "is not above the one before it"),
    "text twice": (retext(b"tied", b"text"), "is not above the one before it"),
    "text unused": (add_text(b"\xf0\x9f\x8c\xb3"), "is not used"),
    # Section 3, shapes
    "shape ends decrease": (put("shape_ends", 2, 0), "`shape_ends` decreases at 2"),
    "shape ends leave dims": (put("shape_ends", -1, 99), "`shape_ends` leaves `dims`"),
    "dims left over": (append("dims", 1), "`shape_ends` does not cover `dims`"),
    "shapes not ascending": (swap("dims", 0, 1), "shape 2 is not above"),
    "shape twice": (both(append("dims", 2, 64), append("shape_ends", 8)), "is not above"),
    "shapes by axes first": (both(append("dims", 99), append("shape_ends", 7)), "is not above"),
    "shape unused": (both(append("dims", 9, 9), append("shape_ends", 8)), "is not used"),
    "65 axes": (tree(Array("u8", (1,) * 65, b"x")), "more than 64 axes"),
    # Section 3, words and bytes
    "word left over": (append("words", 1), "words are left over"),
    "too few words": (drop("words"), "too few words"),
    "too few words for a complex": (both(tree(1j), drop("words")), "too few words"),
    "word shared": (node("float", value=0), "is the next"),
    "word skipped": (node("list", 0, value=99), "is the next"),
    "key word shared": (node(7, key=0), "is the next"),
    "complex words shared": (node("complex", value=0), "is the next"),
    "byte left over": (lambda t: setattr(t, "bytes", t.bytes + b"x"), "bytes are left over"),
    "too few bytes": (lambda t: setattr(t, "bytes", t.bytes[:-1]), "too few bytes"),
    "bytes shared": (node("bytes", value=0), "byte 9 is the next"),
    "bigint bytes skipped": (node("big", value=1), "byte 0 is the next"),
    # Section 4, the tree
    "no nodes": (both(tree(None), lambda t: t.nodes.clear()), "fewer than two nodes"),
    "one node": (both(tree(None), drop("nodes")), "fewer than two nodes"),
    "metadata no dict": (row("nodes", 1, kind=10), "node 1, the metadata, is not a dict"),
    "metadata a record": (row("nodes", 1, kind=13), "node 1, the metadata, is not a dict"),
    "metadata null": (both(tree(None), row("nodes", 1, kind=1, value=0)), "is not a dict"),
    "metadata an empty list": (both(tree(None), row("nodes", 1, kind=10)), "is not a dict"),
    "tensor in the metadata": (in_metadata(Array("u8", (1,), b"x")), "stands in the metadata"),
    "placeholder in the metadata": (in_metadata([Placeholder("u8", (1,))]), "in the metadata"),
    "kind 0": (node("null", kind=0), "unknown kind 0"),
    "kind 16": (node("null", kind=16), "unknown kind 16"),
    "node reserved": (node("null", zero=1), "reserved field of node"),
    "child shared": (node("list", value=2), "do not start at node"),
    "child of itself": (row("nodes", 0, value=0), "do not start at node 2"),
    "node skipped": (node("list", value=99), "do not start at node"),
    "empty container elsewhere": (both(tree([[], 1]), row("nodes", 2, value=2)), "do not start"),
    "too many children": (row("nodes", 0, count=2**32 - 1), "more children than there are nodes"),
    "node not reached": (append("nodes", NodeRecord(1)), "is not reached"),
    "children not claimed": (row("nodes", 1, count=1), "is not reached"),
    # Section 4, values
    "null with a value": (node("null", value=1), "is null and has a value"),
    "null with a count": (node("null", count=1), "has a count"),
    "bool 2": (node("bool", value=2), "neither true nor false"),
    "bool with a count": (node("bool", count=1), "has a count"),
    "int64 with a count": (node("int", count=1), "has a count"),
    "float64 with a count": (node("float", count=1), "has a count"),
    "complex128 with a count": (node("complex", count=1), "has a count"),
    "string with a count": (node("string", count=1), "has a count"),
    "tensor with a count": (node("w", count=1), "has a count"),
    "placeholder with a count": (node("p", count=1), "has a count"),
    "string without its text": (node("string", value=999), "text 999 does not exist"),
    "bigint of int64": (both(tree(2**64), lambda t: setattr(t, "bytes", b"\1" * 8),
                             row("nodes", 0, count=8)), "within the range of an int64"),
    "bigint of no bytes": (both(tree(2**64), lambda t: setattr(t, "bytes", b""),
                                row("nodes", 0, count=0)), "within the range of an int64"),
    "bigint with a zero too many": (both(tree(2**64), row("nodes", 0, count=10),
                                         lambda t: setattr(t, "bytes", t.bytes + b"\0")),
                                    "not the shortest"),
    "bigint with an ff too many": (both(tree(-2**64), row("nodes", 0, count=10),
                                        lambda t: setattr(t, "bytes", t.bytes + b"\xff")),
                                   "not the shortest"),
    "int64 in nine bytes": (both(tree(2**64), lambda t: setattr(t, "bytes", b"\1" * 8 + b"\0")),
                            "not the shortest"),
    # Section 4, keys
    "root with a key": (row("nodes", 0, key_kind=1), "node 0 cannot have key kind 1"),
    "metadata with a key": (row("nodes", 1, key_kind=1), "node 1 cannot have key kind 1"),
    "element with a key": (node("list", 0, key_kind=1), "cannot have key kind 1"),
    "element of a set with a key": (node("set", 0, key_kind=2), "cannot have key kind 2"),
    "element with a key but no kind": (node("list", 0, key=1), "has a key, but no key kind"),
    "child of a dict without a key": (node("null", key_kind=0), "cannot have key kind 0"),
    "child of a dict with key kind 3": (node("null", key_kind=3), "cannot have key kind 3"),
    "child of a record with an int key": (node("record", "a", key_kind=2), "have key kind 2"),
    "child of a record without a key": (node("record", "a", key_kind=0), "cannot have key kind 0"),
    # The same, with pools that agree with the wrong key.
    "root with a text key": (both(tree("a"), row("nodes", 0, key_kind=1)), "node 0 cannot have"),
    "root with an int key": (int_key(5, 0), "node 0 cannot have key kind 2"),
    "metadata with an int key": (int_key(None, 1), "node 1 cannot have key kind 2"),
    "element with an int key": (int_key([5], 2), "node 2 cannot have key kind 2"),
    "element of a set with an int key": (int_key(Set([5]), 2), "node 2 cannot have key kind 2"),
    "field of a record with an int key": (int_key(Record({"a": 5}), 2), "node 2 cannot have key"),
    "item of a dict without any key": (both(tree({"a": None}), lambda t: t.set_texts([]),
                                            row("nodes", 2, key_kind=0)), "node 2 cannot have key"),
    "key without its text": (node("null", key=999), "text 999 does not exist"),
    "text key twice": (both(tree({"a": 1, "b": 2}), row("nodes", 3, key=0)), "have the same key"),
    "int key twice": (both(tree({5: 1, 6: 2}), put("words", 2, 5)), "have the same key"),
    "record key twice": (both(tree(Record({"a": 1, "b": 2})), row("nodes", 3, key=0)),
                         "have the same key"),
    # Section 4, dict orders
    "dict order missing": (drop("dict_orders"), "lacks node"),
    "dict order of a sorted dict": (both(tree({i: 0 for i in range(9)}), append("order", *range(9)),
                                         append("dict_orders", (0, 0))), "must not be"),
    "dict order of a small dict": (both(tree({2: 0, 1: 0}), append("dict_orders", (0, 0)),
                                        append("order", 1, 0)), "must not be"),
    "dict order of a list": (both(tree([1]), append("dict_orders", (0, 0)), append("order", 0)),
                             "must not be"),
    "dict order of no node": (append("dict_orders", (10**6, 30)), "must not be"),
    "dict order twice": (both(append("dict_orders", (0, 30))), "must not be"),
    "dict orders descending": (swap("dict_orders", 0, 1), "lacks node 0"),
    "dict order not in sequence": (put("dict_orders", 0, (0, 1)), "is not in sequence"),
    "dict order wrong": (swap("order", 0, 1), "`order` of node 0 is wrong"),
    "dict order no permutation": (put("order", 0, 99), "`order` of node 0 is wrong"),
    "dict order cut off": (drop("order"), "is wrong"),
    "order left over": (append("order", 0), "`order` has numbers left over"),
    # Section 4, labels
    "labels descending": (swap("labels", 0, 1), "label 1 is not in ascending order"),
    "label twice": (lambda t: t.labels.append(t.labels[-1]), "label 2 is not in ascending order"),
    "label of no node": (append("labels", (10**6, 0)), "which does not exist"),
    "label without its text": (put("labels", 0, (0, 999)), "text 999 does not exist"),
    # Section 5
    "dtype 0": (row("tensors", 0, dtype=0), "unknown dtype 0"),
    "dtype 29": (row("tensors", 0, dtype=29), "unknown dtype 29"),
    "tensor reserved": (row("tensors", 0, zero=1), "reserved field of tensor 0"),
    "tensor without its shape": (row("tensors", 0, shape=99), "shape 99 does not exist"),
    "block, not opaque": (row("tensors", 0, block=1), "has a block, but is not opaque"),
    "opaque, no block": (row("tensors", 1, block=0), "no block that exists"),
    "opaque, unknown block": (row("tensors", 1, block=3), "no block that exists"),
    "opaque without axes": (row("tensors", 1, shape=0), "does not hold whole blocks"),
    "opaque, half a block": (lambda t: put("blocks", 0, (t.blocks[0][0], 33, 18))(t),
                             "does not hold whole blocks"),
    "opaque, half a block of nothing": (tree(Placeholder("opaque", (0, 33), None, ("q", 32, 18))),
                                        "does not hold whole blocks"),
    "blocks descending": (swap("blocks", 0, 1), "block 1 is not above"),
    "block twice": (lambda t: t.blocks.append(t.blocks[-1]), "block 2 is not above"),
    "block unused": (lambda t: t.blocks.append((t.blocks[-1][0], 99, 1)), "block 2 is not used"),
    "block of no elements": (lambda t: t.blocks.insert(0, (t.blocks[0][0], 0, 18)), "has a zero"),
    "block of no bytes": (lambda t: t.blocks.insert(0, (t.blocks[0][0], 32, 0)), "has a zero"),
    "block without its text": (put("blocks", 1, (999, 32, 34)), "text 999 does not exist"),
    "half a byte": (tree(Array("i4", (3,), b"ab")), "does not fill its last byte"),
    "half a byte of a placeholder": (tree(Placeholder("f6_e3m2fn", (2, 3))), "its last byte"),
    "2^63 bytes": (tree(Placeholder("u8", (2**63,))), "2^63 bytes or more"),
    "2^64 - 1 bytes": (tree(Placeholder("u8", (2**64 - 1,))), "2^63 bytes or more"),
    "2^66 - 8 bytes": (tree(Placeholder("c64", (2**63 - 1,))), "2^63 bytes or more"),
    "2^64 elements": (tree(Placeholder("u2", (2**32, 2**32))), "2^64 elements or more"),
    "2^640 elements": (tree(Placeholder("u8", (2**63 + 1,) * 10)), "2^64 elements or more"),
    "2^94 elements in 2^62 bytes": (tree(Placeholder("opaque", (2**31, (2**32 - 1) * 2**31), None,
                                                     ("q", 2**32 - 1, 1))), "2^64 elements"),
    "2^63 bytes of blocks": (tree(Placeholder("opaque", (2**62,), None, ("q", 1, 2))),
                             "2^63 bytes or more"),
    "tensor numbered early": (both(node("w", value=1), node("q", value=0)), "before tensor 0"),
    "tensor that does not exist": (node("w", value=99), "tensor 99 does not exist"),
    "tensor without a node": (append("tensors", TensorRecord(3, 1, 2)), "has no node"),
    "placeholder shared": (both(tree([Placeholder("u8", (1,)), Placeholder("u8", (2,))]),
                                row("nodes", 3, value=0)), "shares the tensor of a placeholder"),
    "placeholder of a tensor": (both(tree([Array("u8", (1,), b"x"), Placeholder("u8", (1,))]),
                                     row("nodes", 3, value=0)), "shares the tensor"),
    "tensor of a placeholder": (both(tree([Placeholder("u8", (1,)), Array("u8", (1,), b"x")]),
                                     row("nodes", 3, value=0)), "shares the tensor"),
    # The same, with one thing wrong each.
    "placeholder twice": (tree([HOLE, HOLE]), "shares the tensor of a placeholder"),
    "placeholder, then tensor": (both(tree([HOLE, HOLE]), row("nodes", 3, kind=14)), "shares the"),
    "tensor, then placeholder": (both(tree([ONE, ONE]), row("nodes", 3, kind=15)), "shares the"),
    "axes descending": (both(put("axes", 0, (2, 0)), put("axes", 1, (0, 1))),
                        "axes 1 are not in ascending order"),
    "axes twice": (append("axes", (2, 3)), "axes 2 are not in ascending order"),
    "axes of no tensor": (append("axes", (99, 3)), "which does not exist"),
    "axes of a tensor without axes": (append("axes", (4, 3)), "without axes"),
    "axes not in sequence": (put("axes", 1, (2, 1)), "do not use up `axis_names` in sequence"),
    "axis names cut off": (drop("axis_names"), "leave `axis_names`"),
    "axis names left over": (append("axis_names", 0), "names left over"),
    "axis name without its text": (put("axis_names", 0, 999), "text 999 does not exist"),
    # Section 6
    "placeholder with a chunk": (row("tensors", 2, first_chunk=2), "a placeholder and has chunks"),
    "first chunk wrong": (row("tensors", 1, first_chunk=0), "do not start at chunk 1"),
    "first chunk of no chunks": (row("tensors", 3, first_chunk=0), "do not start at chunk 2"),
    "tensor as if a placeholder": (row("tensors", 0, first_chunk=2**32 - 1), "start at chunk 0"),
    "too few chunks": (drop("chunks"), "too few chunks for tensor 4"),
    "endless chunks": (both(tree(Placeholder("u8", (2**62,))), row("nodes", 0, kind=14),
                            row("tensors", 0, first_chunk=0)), "too few chunks"),
    "chunk left over": (append("chunks", ChunkRecord(b"x", True)), "chunk 3 has no tensor"),
    "chunk of no bytes": (both(tree(Array("u8", (0,), b"")),
                               append("chunks", ChunkRecord(b"", True))), "chunk 0 has no tensor"),
    "chunk reserved": (row("chunks", 0, zero=1), "reserved field of chunk 0"),
    "chunk elsewhere": (row("chunks", 0, file=1), "lies in a file that is not listed"),
    "zstd not shorter": (row("chunks", 0, codec=1), "chunk 0 has the wrong length"),
    "zstd longer": (row("chunks", 0, codec=1, stored=25), "chunk 0 has the wrong length"),
    "zstd of nothing": (row("chunks", 0, codec=1, data=b""), "chunk 0 has the wrong length"),
    "planes not shorter": (row("chunks", 0, codec=2), "chunk 0 has the wrong length"),
    "planes of nothing": (row("chunks", 0, codec=2, data=b""), "chunk 0 has the wrong length"),
    "planes of a block": (row("chunks", 1, codec=2, data=bytes(9)), "opaque, which has no planes"),
    "codec 3": (row("chunks", 0, codec=3, stored=1), "is a patch, and the version is 1.0"),
    "codec 4": (row("chunks", 0, codec=4), "unknown codec 4"),
    "stored too short": (row("chunks", 0, stored=23), "chunk 0 has the wrong length"),
    "stored too long": (row("chunks", 0, stored=25), "chunk 0 has the wrong length"),
    "stored nothing": (row("chunks", 0, stored=0), "chunk 0 has the wrong length"),
    "chunk too early": (row("chunks", 1, offset=0), "chunk 1 does not stand at"),
    "chunk not aligned": (row("chunks", 1, starts_tensor=False), "chunk 1 does not stand at"),
    "chunk beyond the file": (row("chunks", 0, offset=2**64 - 1), "chunk 0 does not stand at"),
    "hole between chunks": (row("chunks", 0, data=bytes(24 + 64), stored=24),
                            "chunk 1 does not stand at"),
    "hole within a tensor": (both(tree(Array("u8", (MIB + 1,), bytes(MIB + 1))),
                                  row("chunks", 0, data=bytes(MIB + 64), stored=MIB)),
                             "chunk 1 does not stand at"),
    # Sections 8 and 9
    "equal elements of a set": (equal_elements, "two elements of the set at node 0 are equal"),
    "equal dicts in a set": (tree(Set([{"a": 1, "b": 2}, {"b": 2, "a": 1}])), "are equal"),
    "equal sets in a set": (tree(Set([Set([1, 2]), Set([2, 1])])), "are equal"),
    "equal tensors in a set": (tree(Set([ONE, Array("u8", (1,), b"x")])), "are equal"),
    "tied tensors in a set": (tree(Set([ONE, ONE])), "are equal"),
    "equal placeholders in a set": (tree(Set([HOLE, Placeholder("u8", (1,))])), "are equal"),
    "equal elements in the metadata": (in_metadata(Set([None, None])), "are equal"),
    "chunk hash wrong": (row("chunks", 1, hash=bytes(16)), "chunk 1 is damaged"),
    "digest wrong": (lambda t: setattr(t, "tree_digest", bytes(16)), "the tree digest is wrong"),
}  # fmt: skip


# Name: (edit of the index, words of the error).
BROKEN_INDEX = {
    "no index": (lambda index: b"", "the index is said to have 0 bytes"),
    "index of 7 bytes": (lambda index: index[:7], "wrong file identifier"),
    "index cut off": (lambda index: index[:-1], "`nodes` does not stand"),
    "identifier": (poke("<4s", lambda i: 4, b"ESPM"), "wrong file identifier"),
    "table outside": (poke("<I", lambda i: 0, 2**32 - 4), "root table has no place"),
    "table too late": (poke("<I", lambda i: 0, lambda i: len(i) - 63), "root table has no place"),
    "table too early": (poke("<I", lambda i: 0, 41), "root table has no place"),
    "table over the vtable": (poke("<I", lambda i: 0, lambda i: table(i) - 4),
                              "the vtable does not stand"),
    "vtable before the index": (poke("<i", table, 2**30), "the vtable does not stand"),
    "vtable after the index": (poke("<i", table, -(2**30)), "the vtable does not stand"),
    "vtable elsewhere": (poke("<i", table, 33), "the vtable does not stand"),
    "vtable at the end": (move_vtable, "the vtable does not stand"),
    "vtable size": (poke("<H", vtable, 32), "number 0 of the vtable is not 34"),
    "table size": (poke("<H", lambda i: vtable(i) + 2, 68), "number 1 of the vtable is not 64"),
    "field missing": (poke("<H", entry(5), 0), "number 7 of the vtable is not 40"),
    "field outside the table": (poke("<H", entry(0), 64), "number 2 of the vtable is not 60"),
    "field shared": (poke("<H", entry(14), 8), "number 16 of the vtable is not 4"),
    "field unknown": (extra_field, "the vtable does not stand"),
    "reference outside": (poke("<I", slot(0), 2**31), "the vector `nodes` lies outside"),
    "reference to itself": (poke("<I", slot(0), 0), "`nodes` does not stand"),
    "vectors shared": (poke("<I", slot(10), lambda i: vector(9)(i) - slot(10)(i)),
                       "`dict_orders` does not stand"),
    "vector too long": (poke("<I", vector(0), 2**32 - 1), "`nodes` has no room"),
    "vector over the table": (poke("<I", vector(14), 3), "`blocks` has no room"),
    "vector short": (poke("<I", vector(14), 1), "`blocks` does not stand"),
    "vector not counted": (poke("<I", vector(14), 0), "`blocks` does not stand"),
    "gap at the end": (insert(len), "`nodes` does not stand"),
    "gap between vectors": (insert(vector(3)), "`dims` does not stand"),
    "gap after the table": (insert(lambda i: table(i) + 64), "a gap after the root table"),
    "gap between the tables": (insert(table), "the vtable does not stand"),
    "gap before the vtable": (insert(lambda i: 8), "gap before the vtable has the wrong length"),
    "gap of 4 bytes": (insert(lambda i: 8, bytes(4)), "gap before the vtable has the wrong length"),
    "gap of too few bytes": (lambda i: struct.pack("<I", table(i) - 1) + i[4:8] + i[9:],
                             "gap before the vtable has the wrong length"),
    "bytes before the vtable": (poke("B", lambda i: 8, 1), "gap before the vtable holds bytes"),
    "bytes after a vector": (poke("B", lambda i: gaps(i)[-1], 1), "the gap after the vector"),
}  # fmt: skip

# Name: (fields of the header, words of the error).
BROKEN_HEADER = {
    "magic": ({"magic": b"\x89ESPL\n\x1a\n"}, "wrong magic"),
    "major": ({"major": 2}, "version 2.0 is unknown"),
    "major 0": ({"major": 0}, "version 0.0 is unknown"),
    "minor": ({"minor": 1}, "features 0x0 do not belong to version 1.1"),
    "minor 2": ({"minor": 2}, "version 1.2 is unknown"),
    "reserved after the version": ({"zero": 1}, "reserved bytes after the version"),
    "feature 0 without use": ({"features": 1}, "that the file uses are 0x0"),
    "feature 1 without use": ({"features": 2}, "that the file uses are 0x0"),
    "wrong feature of zstd": ({"features": 2, "codec": 1, "data": b"zstd"}, "file uses are 0x1"),
    "wrong feature of planes": ({"features": 1, "codec": 2, "data": b"p"}, "file uses are 0x2"),
    "one feature too many": ({"features": 3, "codec": 1, "data": b"zstd"}, "file uses are 0x1"),
    "feature 2": ({"features": 4}, "features 0x4 do not belong to version 1.0"),
    "feature 3": ({"features": 8}, "do not belong to version 1.0"),
    "feature 4": ({"features": 16}, "unknown features 0x10"),
    "feature 63": ({"features": 1 << 63}, "unknown features 0x8"),
    "codec without its feature": ({"features": 0, "codec": 1, "data": b"zstd"}, "uses are 0x1"),
    "file length too large": ({"file_length": 2**64 - 1}, "the file is truncated"),
    "file length too small": ({"file_length": 128}, "the file has trailing bytes"),
    "index offset": ({"index_offset": 136}, "the index is said to stand at 136"),
    "index length of 2^31": ({"index_length": 2**31}, "the index is said to have 2147483648 bytes"),
    "index length beyond the file": ({"index_length": 2**31 - 1}, "reaches beyond the file"),
    "index length short": ({"index_length": 64}, "the index is damaged"),
    "index hash": ({"index_hash": bytes(16)}, "the index is damaged"),
    "tree digest": ({"tree_digest": bytes(16)}, "the tree digest is wrong"),
    "reserved at the end": ({"zeros": bytes(39) + b"\1"}, "reserved bytes of the header"),
    "header hash": ({"header_hash": bytes(8)[:7] + b"\1"}, "the header is damaged"),
}


def broken_files():
    """(name, file, words of the error) of everything above, and what fits none of the tables."""
    for name, (change, words) in BROKEN.items():
        tables = sample()
        change(tables)
        yield name, build(tables), words
    for name, (edit, words) in BROKEN_INDEX.items():
        yield "index: " + name, build(sample(), edit_index=edit), words
    for name, (header, words) in BROKEN_HEADER.items():
        tables, header = sample(), dict(header)
        tables.chunks[0].codec = header.pop("codec", 0)
        tables.chunks[0].data = header.pop("data", tables.chunks[0].data)
        yield "header: " + name, build(tables, header=header), words
    good = build(sample())
    yield "empty file", b"", "ends before its version"
    yield "version cut off", good[:11], "ends before its version"
    yield "header cut off", good[:127], "ends within its header"
    newer = build(sample(), header={"major": 2, "header_hash": b"a" * 8})
    yield "newer version with another header", newer, "version 2.0 is unknown"
    yield "newer version with a short header", newer[:12], "version 2.0 is unknown"
    swapped = {"vector_order": [1, 0, *range(2, 15)]}
    yield "vectors in another order", build(sample(), layout=swapped), "`nodes` does not stand"
    swapped = {"field_order": [*range(13), 14, 13]}
    yield "fields in another order", build(sample(), layout=swapped), "number 15 of the vtable"
    share = poke("<I", slot(13), lambda index: vector(14)(index) - slot(13)(index))
    shared = build(from_tree(None), edit_index=share)
    yield "empty vectors shared", shared, "`axis_names` does not stand"
    yield "trailing byte", good + b"\0", "trailing bytes"
    longer = {"file_length": len(good) + 1}
    tailed = build(sample(), header=longer, tail=b"\0")
    yield "byte after the last chunk", tailed, "does not end with its last chunk"
    yield "padding", build(sample(), padding=1), "padding is not zero"
    for name, (changes, words) in BROKEN_FILES_TABLE.items():
        yield "other files: " + name, build(referring(*changes)), words
    for chunk in odd_chunks():
        yield f"chunk: {chunk.name}", chunk.file(), chunk.words
    for odd in odd_patches():
        yield f"patch: {odd.name}", odd.file(), odd.words
    for name, data, words in odd_bases():
        yield f"base: {name}", data, words
    for dtype in ("bool", "i8", "u8", "f8_e5m2", "i4", "opaque"):
        chunk = OddChunk("", dtype, bytes(64), PLANES, b"planes")
        yield f"chunk: planes of {dtype}", chunk.file(), f"{dtype}, which has no planes"


# Section 11: what stands beside a file is not there in these tests.
MIB = 1 << 20
BESIDE = ("base", "other")


def referring(*changes):
    tables = from_tree({"a": Array("u8", (2 * MIB,), bytes(2 * MIB)), "b": Array("u8", (1,), b"b"), "zz": 1})
    beside = {name: bytes(MIB * 3) for name in BESIDE}
    refer(tables, beside, {0: ("base", 0), 1: ("other", MIB)})
    for change in changes:
        change(tables)
    return tables


def third_file(tables):
    tables.files.append(replace(tables.files[0], name=len(tables.text_ends) - 1))


BROKEN_FILES_TABLE = {
    "missing": ([], "lies in a file that is missing"),
    "too many": ([lambda tables: tables.files.extend([tables.files[0]] * 65533)], "too many other files"),
    "unsorted": ([lambda tables: tables.files.reverse()], "is out of order"),
    "no name": ([row("files", 0, name=99)], "text 99 does not exist"),
    "name": ([row("files", 1, name=0), row("files", 0, name=0)], "is out of order"),
    "device": ([retext(b"base", b"con.x")], "is no name of a file"),
    "same in another case": ([retext(b"base", b"nAme"), retext(b"other", b"name")], "differs from another name only in case"),
    "ends with a dot": ([retext(b"base", b"c.")], "is no name of a file"),
    "head": ([row("files", 0, head=0)], "has 0 bytes"),
    "unused": ([third_file], "file 3 has no chunk"),
    "beyond": ([row("chunks", 0, offset=3 * MIB)], "reaches beyond its file"),
    "shared": ([row("chunks", 1, offset=MIB - 1, file=1), row("chunks", 2, offset=0, file=2)], "shares bytes"),
}


class BrokenFiles(unittest.TestCase):
    """One method per file is added below."""

    def test_sample_is_valid(self):
        check(build(sample()))

    def test_every_check_of_the_reader_has_a_file_that_fails_it(self):
        source = inspect.getsource(reference)
        lines = source.splitlines()
        checks = {}
        for part in ast.walk(ast.parse(source)):
            call = part.value if isinstance(part, ast.Expr) else getattr(part, "exc", None)
            name = getattr(getattr(call, "func", None), "id", None)
            if name in ("need", "need_zeros", "FormatError"):
                checks[part.lineno] = part.end_lineno
        failed = set()
        for _, data, _ in broken_files():
            try:
                check(data)
            except FormatError as error:
                failed.update(f.lineno for f in traceback.extract_tb(error.__traceback__))
        missed = {a for a, b in checks.items() if not any(a <= line <= b for line in failed)}
        missed = {a for a in missed if "FormatError(rule, sentence, offset)" not in lines[a - 1]}
        self.assertEqual([lines[a - 1].strip() for a in sorted(missed)], [])


def add_broken_files():
    def method(data, words):
        def test(self):
            with self.assertRaises(FormatError) as caught:
                check(data)
            self.assertIn(words, caught.exception.sentence)
            self.assertTrue(0 <= caught.exception.offset <= len(data), caught.exception)

        return test

    for name, data, words in broken_files():
        title = "test_" + re.sub(r"\W+", "_", name)
        assert not hasattr(BrokenFiles, title), title
        setattr(BrokenFiles, title, method(data, words))


class Stages(unittest.TestCase):
    """Section 9: what opening leaves to reading and verifying."""

    def test_what_only_verifying_refuses(self):
        equal = from_tree(None)
        equal_elements(equal)
        padded = build(sample(), padding=1)
        damaged = sample()
        damaged.chunks[0].hash = bytes(16)
        digest = build(sample(), header={"tree_digest": bytes(16)})
        for data in (build(equal), padded, build(damaged), digest):
            file = reference.open_file(data)
            with self.assertRaises(FormatError):
                reference.verify(file)

    def test_no_byte_of_a_damaged_chunk_is_read(self):
        damaged = sample()
        damaged.chunks[0].hash = bytes(16)
        file = reference.open_file(build(damaged))
        reference.read_tensor(file, 1)
        with self.assertRaisesRegex(FormatError, "chunk 0 is damaged"):
            reference.read_tensor(file, 0)


class Damage(unittest.TestCase):
    def setUp(self):
        self.data = build(sample())

    def test_every_bit_flip_is_refused(self):
        for at in range(len(self.data)):
            for bit in range(8):
                damaged = bytearray(self.data)
                damaged[at] ^= 1 << bit
                with self.assertRaises(FormatError, msg=f"bit {bit} of byte {at}"):
                    check(bytes(damaged))

    def test_every_bit_flip_in_a_compressed_chunk_is_refused(self):
        wanted = ("blocks of nothing", "planes of f32", "constants in frames", "planes of f16 by zstd")
        chunks = [chunk for chunk in good_chunks() if chunk.name in wanted]
        self.assertEqual(len(chunks), len(wanted))
        for chunk in chunks:
            data = chunk.file()
            for at in range(len(data) - len(chunk.stored), len(data)):
                for bit in range(8):
                    damaged = bytearray(data)
                    damaged[at] ^= 1 << bit
                    file = reference.open_file(bytes(damaged))
                    with self.assertRaises(FormatError, msg=f"bit {bit} of byte {at}"):
                        reference.read_tensor(file, 0)

    def test_every_truncation_is_refused(self):
        for size in range(len(self.data)):
            with self.assertRaises(FormatError, msg=f"{size} bytes"):
                reference.open_file(self.data[:size])

    def test_trailing_bytes_are_refused(self):
        for tail in (b"\0", b"\n", self.data):
            with self.assertRaisesRegex(FormatError, "trailing bytes"):
                reference.open_file(self.data + tail)

    def test_no_index_makes_the_reader_fail_otherwise(self):
        """Wrong bytes under right hashes: refused, or another content; never another exception."""
        said = lambda dump: dump.split("\n", 1)[1]  # All but the header.
        original = reference.dump(reference.open_file(self.data))
        size = len(lay_out_index(sample()))
        refused = 0
        for at in range(size):
            for mask in (0x01, 0x04, 0x80, 0xFF):
                def edit(index):
                    return index[:at] + bytes([index[at] ^ mask]) + index[at + 1 :]
                try:
                    dump = reference.dump(reference.open_file(build(sample(), edit_index=edit)))
                except FormatError:
                    refused += 1
                else:
                    # No byte is without a meaning.
                    self.assertNotEqual(said(dump), said(original), f"{mask} at {at}")
        self.assertGreater(refused, 2 * size)

    def test_every_byte_between_the_parts_of_an_index_is_checked(self):
        trees = [None, 1, "a", [1.5, "ab"], {"abc": b"defgh"}, sample_tree()]
        found = 0
        for each in trees:
            for at in gaps(lay_out_index(from_tree(each))):
                change = poke("B", lambda index: at, 0x80)
                with self.assertRaisesRegex(FormatError, "gap .* holds bytes") as caught:
                    reference.open_file(build(from_tree(each), edit_index=change))
                self.assertEqual(caught.exception.offset, 128 + at)
                found += 1
        self.assertGreater(found, 40)

    def test_layouts_of_many_sizes(self):
        """Every length of text and bytes modulo 8, with and without vectors of alignment 8."""
        for text, size, leaf in itertools.product(range(9), range(9), (None, 7)):
            read([b"x" * size, "t" * text, leaf])


class KeyPaths(unittest.TestCase):
    PAIRS = {
        "": [],
        "optimizer/state/0/exp_avg": ["optimizer", "state", 0, "exp_avg"],
        "~2": [""],
        "~2/~2": ["", ""],
        "~20": ["0"],
        "~2-7": ["-7"],
        "-7": [-7],
        "-0": ["-0"],
        "00": ["00"],
        "~0": ["~"],
        "~1": ["/"],
        "~02": ["~2"],
        "~01": ["~1"],
        "a~1b~0c": ["a/b~c"],
        "9223372036854775807": [2**63 - 1],
        "9223372036854775808": ["9223372036854775808"],
        "~29223372036854775807": ["9223372036854775807"],
        "-9223372036854775808": [-(2**63)],
        "-9223372036854775809": ["-9223372036854775809"],
        "\u0661": ["\u0661"],  # A digit, but not one of 0 to 9.
        "1\n": ["1\n"],
    }
    NOT_PATHS = ["/", "a/", "/a", "a//b", "~", "~3", "a~", "~2a", "~2-0", "~200", "~2~0", "~2/~",
                 "~29223372036854775808", "a~20"]  # fmt: skip

    def test_pairs(self):
        for text, keys in self.PAIRS.items():
            self.assertEqual(reference.print_path(keys), text)
            self.assertEqual(reference.parse_path(text), keys)

    def test_what_is_no_path(self):
        for text in self.NOT_PATHS:
            with self.assertRaises(ValueError, msg=text):
                reference.parse_path(text)

    def test_every_short_text_is_a_path_or_not(self):
        paths = 0
        for length in range(7):
            for letters in itertools.product("~/012-a", repeat=length):
                text = "".join(letters)
                try:
                    keys = reference.parse_path(text)
                except ValueError:
                    continue
                self.assertEqual(reference.print_path(keys), text)
                paths += 1
        self.assertGreater(paths, 1000)

    def test_every_short_key_has_a_path_of_its_own(self):
        texts = {"".join(p) for n in range(6) for p in itertools.product("~/012-a", repeat=n)}
        keys = sorted(texts) + list(range(-300, 300)) + [2**63 - 1, -(2**63)]
        seen = set()
        for key in keys:
            path = reference.print_path([key])
            self.assertEqual(reference.parse_path(path), [key])
            seen.add(path)
        self.assertEqual(len(seen), len(keys))

    def test_printed_paths(self):
        file = read({"a": [1, {0: 1, "0": 2}], "": Record({"x/y": {1, 2}})}, {"m": {5: 1}})
        paths = dict(reference.printed_paths(file))
        self.assertEqual(
            sorted(paths.values()),
            sorted(["", "a", "a/0", "a/1", "a/1/0", "a/1/~20", "~2", "~2/x~1y", "~2/x~1y/0",
                    "~2/x~1y/1"]),
        )  # fmt: skip
        metadata = [path for _, path in reference.printed_paths(file, 1)]
        self.assertEqual(metadata, ["", "m", "m/5"])

    def test_paths_of_a_file_are_unique_and_parse(self):
        file = check(build(sample()))
        paths = reference.printed_paths(file)
        self.assertEqual(len({path for _, path in paths}), len(paths))
        metadata = reference.printed_paths(file, 1)
        self.assertEqual(len(paths) + len(metadata), len(file.index.nodes.rows))
        for node_number, path in paths:
            self.assertEqual(reference.find_node(file, path), node_number)

    def test_digits_name_the_int_key_or_else_the_text_key(self):
        file = read({"only text": {"8": 1, "-1": 2}, "both": {8: 1, "8": 2, "9": 3}, "list": [1]})
        paths = [path for _, path in reference.printed_paths(file)]
        for path in ["only text/8", "only text/-1", "both/8", "both/~28", "both/9", "list/0"]:
            self.assertIn(path, paths)
        at = {path: node for node, path in reference.printed_paths(file)}
        self.assertEqual(reference.find_node(file, "only text/~28"), at["only text/8"])
        self.assertEqual(reference.find_node(file, "both/~29"), at["both/9"])
        for path in ["only text/9", "both/~2-1", "list/~20", "list/1", "list/0/0"]:
            self.assertIsNone(reference.find_node(file, path))


class Program(unittest.TestCase):
    def run_on(self, data):
        with tempfile.NamedTemporaryFile(suffix=".espalier") as stream:
            stream.write(data)
            stream.flush()
            return self.run_program(stream.name)

    def run_program(self, *arguments):
        command = [sys.executable, str(HERE / "espalier_reference.py"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_dump(self):
        numbers = [2**53, 2**53 + 1, -(2**64), 0.5, 1j]
        tree = {"a": Array("u8", (2,), b"xy"), 2: numbers, "s": "\u00e9\n"}
        data = build(from_tree(tree, {"m": Labelled("L", None)}))
        result = self.run_on(data)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(result.stdout, reference.dump(check(data)))
        found = json.loads(result.stdout)
        digest = found["header"].pop("tree_digest")
        self.assertEqual(digest, tree_digest(tree).hex())
        length = len(lay_out_index(from_tree(tree, {"m": Labelled("L", None)})))
        place = -(-(128 + length) // 64) * 64
        self.assertEqual(found, {
            "header": {"version": "1.0", "features": 0, "file_length": len(data),
                       "index_length": length, "index_hash": h128(data[128 : 128 + length]).hex()},
            "tensors": [
                {"dtype": "u8", "shape": [2], "axis_names": None, "block": None,
                 "placeholder": False, "bytes": 2,
                 "digest": h128(b"\3\1\0\0\0\2" + bytes(8) + h128(b"xy")).hex(),
                 "xxh3_128": h128(b"xy").hex(),
                 "first_bytes": "7879", "chunks": [
                    {"offset": place, "stored": 2, "codec": 0, "hash": h128(b"xy").hex()}]},
            ],
            "tree": {"kind": "dict", "items": [
                [{"text": "a"}, {"kind": "tensor", "tensor": 0}],
                [{"int": 2}, {"kind": "list", "items": [
                    {"kind": "int64", "value": 2**53},
                    {"kind": "int64", "value": "9007199254740993"},
                    {"kind": "bigint", "hex": "0000000000000000ff", "value": str(-(2**64))},
                    {"kind": "float64", "bits": "000000000000e03f", "value": "0.5"},
                    {"kind": "complex128", "bits": ["0000000000000000", "000000000000f03f"],
                     "value": ["0.0", "1.0"]}]}],
                [{"text": "s"}, {"kind": "string", "value": "\u00e9\n"}]]},
            "metadata": {"kind": "dict", "items": [
                [{"text": "m"}, {"kind": "null", "label": "L"}]]},
        })  # fmt: skip

    def test_dump_of_the_sample(self):
        found = json.loads(reference.dump(check(build(sample()))))
        dtypes = [tensor["dtype"] for tensor in found["tensors"]]
        self.assertEqual(dtypes, ["f32", "opaque", "opaque", "i4", "u8"])
        self.assertEqual(found["tensors"][2]["block"], {"name": "q8", "elements": 32, "bytes": 34})
        self.assertEqual(found["tensors"][2]["xxh3_128"], None)
        self.assertEqual(len(found["tensors"][1]["first_bytes"]), 128)
        self.assertEqual(found["tensors"][3]["first_bytes"], "")

    def test_bad_file(self):
        result = self.run_on(build(sample())[:-1])
        self.assertEqual((result.returncode, result.stdout), (3, ""))
        line = r"\Athe file is truncated: \d+ of \d+ bytes \(byte \d+, R-1\.8\)\n\Z"
        self.assertRegex(result.stderr, line)

    def test_no_file(self):
        self.assertEqual(self.run_program(str(HERE / "there is no such file")).returncode, 2)
        self.assertEqual(self.run_program().returncode, 2)


add_broken_files()


if __name__ == "__main__":
    sys.exit(report.main())
