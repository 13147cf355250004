#!/usr/bin/env python3
"""A reader of Espalier files, written from docs/format.md alone.

It shares no code with the library, so that a mistake in the one is not repeated in the other.
It is built to be read beside the page: the parts below carry the page's section numbers. It reads
whole files into memory and favours plain code over speed.

    file = open_file(data)        everything in section 9, point 1
    verify(file)                  everything in section 9, point 3
    read_tensor(file, number)     the bytes of one tensor, every chunk checked
    printed_paths(file)           the key path of every node (section 10)
    parse_path(text)              its inverse

All of them raise FormatError: one sentence and the byte of the file it is about.

As a program, `espalier_reference.py FILE` checks the whole file and prints it as JSON. It exits
with 0, or 2 (cannot read the file, wrong usage), or 3 (no valid file: one line on stderr says why).


The JSON dump
-------------

The text is ASCII, and the same file always gives the same text. An *INT* is a JSON number, or a
string of decimal digits if its absolute value is above 2^53. A *HEX* is lower-case hexadecimal, the
bytes in the order in which they stand in the file (so also for floats and hashes).

    {"header": {"version": "1.0", "features": INT, "file_length": INT, "index_length": INT,
                "index_hash": HEX, "tree_digest": HEX},
     "tensors": [TENSOR, ...],
     "tree": NODE,
     "metadata": NODE}

A NODE is an object with "kind", then "label" (only if it has one), and then, by kind:

    null         nothing
    bool         "value": true or false
    int64        "value": INT
    bigint       "hex": HEX of the stored bytes; "value": decimal string (only up to 1024 bytes)
    float64      "bits": HEX of the 8 bytes; "value": a string for people: "0.1", "nan", "-inf"
    complex128   "bits": [HEX, HEX], "value": [string, string]: real, imaginary
    string       "value": string
    bytes        "hex": HEX
    dict, record         "items": [[KEY, NODE], ...] in insertion order
    list, tuple, set     "items": [NODE, ...]
    tensor, placeholder  "tensor": index in "tensors"

A KEY is {"text": string} or {"int": INT}. A TENSOR is an object with, in this order:

    "dtype"        its name in section 5
    "shape"        [INT, ...]
    "axis_names"   [string, ...] or null
    "block"        {"name": string, "elements": INT, "bytes": INT}, or null unless dtype is "opaque"
    "placeholder"  true or false
    "bytes"        INT, the length of its data (what it would be, for a placeholder)
    "digest"       HEX, its hash in section 8: of dtype, shape, block, axis names and data
    "xxh3_128"     HEX, the hash of all its data, or null for a placeholder
    "first_bytes"  HEX of its first 64 bytes (all, if it has no more), or null for a placeholder
    "chunks"       [{"offset": INT, "stored": INT, "codec": INT, "hash": HEX}, ...]
"""

import json
import re
import struct
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace

import needed_packages  # noqa: F401
import numpy as np
import xxhash
import zstandard

MAGIC = bytes.fromhex("89 45 53 50 4C 0D 0A 1A")
HEADER_SIZE = 128
CHUNK_SIZE = 1 << 20
NO_CHUNK = 2**32 - 1
MAX_AXES = 64

KINDS = {
    1: "null", 2: "bool", 3: "int64", 4: "bigint", 5: "float64", 6: "complex128", 7: "string",
    8: "bytes", 9: "dict", 10: "list", 11: "tuple", 12: "set", 13: "record", 14: "tensor",
    15: "placeholder",
}  # fmt: skip
(NULL, BOOL, INT64, BIGINT, FLOAT64, COMPLEX128, STRING, BYTES, DICT, LIST, TUPLE, SET, RECORD,
 TENSOR, PLACEHOLDER) = range(1, 16)  # fmt: skip
CONTAINERS = (DICT, LIST, TUPLE, SET, RECORD)

DTYPES = {
    1: ("bool", 8), 2: ("i8", 8), 3: ("u8", 8), 4: ("i16", 16), 5: ("u16", 16), 6: ("i32", 32),
    7: ("u32", 32), 8: ("i64", 64), 9: ("u64", 64), 10: ("f16", 16), 11: ("bf16", 16),
    12: ("f32", 32), 13: ("f64", 64), 14: ("c64", 64), 15: ("c128", 128), 16: ("f8_e4m3fn", 8),
    17: ("f8_e5m2", 8), 18: ("f8_e4m3fnuz", 8), 19: ("f8_e5m2fnuz", 8), 20: ("f8_e8m0fnu", 8),
    21: ("f4_e2m1fn", 4), 22: ("i4", 4), 23: ("u4", 4), 24: ("i2", 2), 25: ("u2", 2),
    26: ("f6_e2m3fn", 6), 27: ("f6_e3m2fn", 6), 28: ("opaque", None),
}  # fmt: skip
OPAQUE = 28

# Section 6: the codecs, the feature bit of each, and the dtypes whose elements have planes as
# (bytes of an element, whether its sign moves).
RAW, ZSTD, PLANES = 0, 1, 2
FEATURES = {ZSTD: 1 << 0, PLANES: 1 << 1}
ELEMENTS = {
    "i16": (2, False), "u16": (2, False), "i32": (4, False), "u32": (4, False),
    "i64": (8, False), "u64": (8, False), "f16": (2, True), "bf16": (2, True), "f32": (4, True),
    "f64": (8, True), "c64": (4, True), "c128": (8, True),
}  # fmt: skip
LARGEST_BLOCK = 128 * 1024
ZSTD_MAGIC = 0xFD2FB528
SEAL_SIZE = 8

# Section 2: the fields of a record as (name, numpy type), in the order in which they lie.
RECORDS = {
    "Node": [("kind", "u1"), ("key_kind", "u1"), ("zero", "<u2"), ("key", "<u4"),
             ("value", "<u4"), ("count", "<u4")],
    "Tensor": [("dtype", "u1"), ("zero", "u1"), ("block", "<u2"), ("shape", "<u4"),
               ("first_chunk", "<u4")],
    "Chunk": [("offset", "<u8"), ("hash", "V16"), ("stored", "<u4"), ("file", "<u2"),
              ("codec", "u1"), ("zero", "u1")],
    "Label": [("node", "<u4"), ("text", "<u4")],
    "DictOrder": [("node", "<u4"), ("first", "<u4")],
    "Axes": [("tensor", "<u4"), ("first", "<u4")],
    "Block": [("name", "<u4"), ("elements", "<u4"), ("bytes", "<u4")],
    "u8": "u1",
    "u32": "<u4",
    "u64": "<u8",
}  # fmt: skip

# Section 2: the vectors, in the order of their field numbers: name, element, alignment.
VECTORS = [
    ("nodes", "Node", 4), ("tensors", "Tensor", 4), ("chunks", "Chunk", 8),
    ("shape_ends", "u32", 4), ("dims", "u64", 8), ("words", "u64", 8), ("text_ends", "u32", 4),
    ("text", "u8", 1), ("bytes", "u8", 1), ("labels", "Label", 4), ("dict_orders", "DictOrder", 4),
    ("order", "u32", 4), ("axes", "Axes", 4), ("axis_names", "u32", 4), ("blocks", "Block", 4),
]  # fmt: skip


class FormatError(Exception):
    """The file is not a valid Espalier file. `offset` is the byte of the file it is about."""

    def __init__(self, sentence, offset):
        super().__init__(f"{sentence} (byte {offset})")
        self.sentence = sentence
        self.offset = offset


def need(condition, sentence, offset):
    if not condition:
        raise FormatError(sentence, offset)


def h128(data):
    """XXH3-128 as it is stored: low 64 bits first (xxhash gives the high bits first)."""
    return xxhash.xxh3_128_digest(data)[::-1]


def h64(data):
    """XXH3-64 as it is stored: a little-endian u64."""
    return xxhash.xxh3_64_digest(data)[::-1]


@dataclass
class Vector:
    """One vector of the index: where it lies in the file, and its rows (bytes, for one of u8)."""

    start: int
    record: np.dtype
    rows: "list | bytes"

    def at(self, row, field_name=None):
        inner = self.record.fields[field_name][1] if field_name else 0
        return self.start + row * self.record.itemsize + inner


@dataclass
class Tensor:
    """A tensor record with everything it refers to. `size` is the length of its data in bytes."""

    dtype: int
    shape: tuple
    block: tuple = None  # (name, elements, bytes)
    axis_names: tuple = None
    size: int = 0
    first_chunk: int = NO_CHUNK
    chunk_count: int = 0
    placeholder: bool = False


@dataclass
class File:
    """A file that has passed section 9, point 1."""

    data: bytes
    header: dict = field(default_factory=dict)
    index: SimpleNamespace = None  # The vectors: `index.nodes`, `index.tensors`...
    texts: list = field(default_factory=list)
    text_used: bytearray = b""
    shapes: list = field(default_factory=list)
    keys: list = field(default_factory=list)  # Per node: None, an int or a str.
    parents: list = field(default_factory=list)  # Per node; None for the two roots.
    metadata_children: int = 0  # The first node below the metadata.
    labels: dict = field(default_factory=dict)
    tensors: list = field(default_factory=list)
    digests: list = field(default_factory=list)  # Per node: D(node) of section 8. Set by verify().

    def use_text(self, number, offset):
        need(number < len(self.texts), f"text {number} does not exist", offset)
        self.text_used[number] = 1
        return self.texts[number]


# --- Section 1: the header ------------------------------------------------------------------------


def read_header(data):
    need(data[:8] == MAGIC[: len(data)], "this is not an Espalier file: wrong magic", 0)
    # The version comes before all that a later version may have changed, such as the header's size.
    need(len(data) >= 12, "the file ends before its version", len(data))
    major, minor = struct.unpack_from("<HH", data, 8)
    need((major, minor) == (1, 0), f"version {major}.{minor} is unknown", 8)
    need(len(data) >= HEADER_SIZE, "the file ends within its header", len(data))
    need(h64(data[:120]) == data[120:128], "the header is damaged: its hash is wrong", 120)
    zero, features, length, index_offset, index_length = struct.unpack_from("<IQQQQ", data, 12)
    need(zero == 0, "the reserved bytes after the version are not zero", 12)
    unknown = features & ~sum(FEATURES.values())
    need(unknown == 0, f"the file requires unknown features {unknown:#x}", 16)
    need(len(data) >= length, f"the file is truncated: {len(data)} of {length} bytes", len(data))
    need(len(data) <= length, f"the file has trailing bytes after its {length}", length)
    need(index_offset == HEADER_SIZE, f"the index is said to stand at {index_offset}", 32)
    need(index_length < 2**31, f"the index is too long: {index_length} bytes", 40)
    need(HEADER_SIZE + index_length <= length, "the index reaches beyond the file", 40)
    need(data[80:120] == bytes(40), "the reserved bytes of the header are not zero", 80)
    index = data[HEADER_SIZE : HEADER_SIZE + index_length]
    need(h128(index) == data[48:64], "the index is damaged: its hash is wrong", 48)
    return {
        "version": f"{major}.{minor}",
        "features": features,
        "file_length": length,
        "index_length": index_length,
        "index_hash": data[48:64].hex(),
        "tree_digest": data[64:80].hex(),
    }


# --- Section 2: the index, a FlatBuffer -----------------------------------------------------------

VTABLE_SIZE = 4 + 2 * len(VECTORS)
TABLE_SIZE = 4 + 4 * len(VECTORS)


def read_vectors(index):
    """The vectors of the index, and that it is laid out in the one way there is."""
    table, positions, counts = follow_references(index)
    vectors = SimpleNamespace()
    end = len(index)  # Where all that has a place yet begins; it moves towards the start.
    for (name, element, alignment), position, count in zip(VECTORS, positions, counts):
        record = np.dtype(RECORDS[element])
        size = count * record.itemsize
        gap = -(len(index) - end + size) % (max(4, alignment) if count else 4)
        start = end - gap - size
        fits = start >= table + TABLE_SIZE + 4
        need(fits, f"the vector `{name}` has no room for its {count} elements", at(index, position))
        right = position == start - 4
        need(right, f"the vector `{name}` does not stand at {start - 4}", at(index, position))
        need_zeros(index, end - gap, end, f"the gap after the vector `{name}`")
        raw = index[start : end - gap]
        rows = raw if element == "u8" else np.frombuffer(raw, record).tolist()
        setattr(vectors, name, Vector(HEADER_SIZE + start, record, rows))
        end = position
    need(table + TABLE_SIZE == end, "there is a gap after the root table", HEADER_SIZE + end)

    eights = any(count and row[2] == 8 for count, row in zip(counts, VECTORS))
    front = table - VTABLE_SIZE
    right = front - 8 == -(len(index) - front + 8) % (8 if eights else 4)
    need(right, "the gap before the vtable has the wrong length", HEADER_SIZE + 8)
    need_zeros(index, 8, front, "the gap before the vtable")
    return vectors


def follow_references(index):
    """The position of the table, and of every vector its position and its number of elements.

    That all of them are the right ones is for the caller to check.
    """

    def number(code, position, what):
        inside = position <= len(index) - struct.calcsize(code)
        need(inside, f"{what} lies outside the index", at(index, position))
        return struct.unpack_from(code, index, position)[0]

    table = number("<I", 0, "the position of the root table")
    need(index[4:8] == b"ESPL", "the index has the wrong file identifier", at(index, 4))
    inside = 8 + VTABLE_SIZE <= table <= len(index) - TABLE_SIZE
    need(inside, "the root table has no place in the index", HEADER_SIZE)
    vtable = table - number("<i", table, "the root table")
    right = vtable == table - VTABLE_SIZE
    need(right, "the vtable does not stand directly before the table", HEADER_SIZE + table)
    offsets = [TABLE_SIZE - 4 - 4 * n for n in range(len(VECTORS))]
    expected = [VTABLE_SIZE, TABLE_SIZE, *offsets]
    for i, value in enumerate(expected):
        right = number("<H", vtable + 2 * i, "the vtable") == value
        need(right, f"number {i} of the vtable is not {value}", HEADER_SIZE + vtable + 2 * i)

    positions, counts = [], []
    for (name, _, _), offset in zip(VECTORS, offsets):
        field = table + offset
        positions.append(field + number("<I", field, f"the field `{name}`"))
        counts.append(number("<I", positions[-1], f"the vector `{name}`"))
    return table, positions, counts


def at(index, position):
    """The byte of the file to name for a position in the index, which may lie outside it."""
    return HEADER_SIZE + min(position, len(index))


def need_zeros(index, begin, end, what):
    for position in range(begin, end):
        need(index[position] == 0, f"{what} holds bytes", HEADER_SIZE + position)


# --- Section 3: pools -----------------------------------------------------------------------------


def check_ends(file, ends, items):
    """The (begin, end) pairs of a pool whose parts are given by the vector `ends`."""
    vector, size = getattr(file.index, ends), len(getattr(file.index, items).rows)
    begin, pairs = 0, []
    for i, end in enumerate(vector.rows):
        need(begin <= end, f"`{ends}` decreases at {i}", vector.at(i))
        need(end <= size, f"`{ends}` leaves `{items}` at {i}", vector.at(i))
        pairs.append((begin, end))
        begin = end
    need(begin == size, f"`{ends}` does not cover `{items}`", vector.at(len(vector.rows)))
    return pairs


def check_texts(file):
    previous = None
    for i, (begin, end) in enumerate(check_ends(file, "text_ends", "text")):
        raw = file.index.text.rows[begin:end]
        offset = file.index.text.at(begin)
        ascending = previous is None or previous < raw
        need(ascending, f"text {i} is not above the one before it", offset)
        try:
            file.texts.append(raw.decode("utf-8"))
        except UnicodeDecodeError:
            raise FormatError(f"text {i} is not UTF-8", offset) from None
        previous = raw
    file.text_used = bytearray(len(file.texts))


def check_shapes(file):
    previous = None
    for i, (begin, end) in enumerate(check_ends(file, "shape_ends", "dims")):
        shape = tuple(file.index.dims.rows[begin:end])
        offset = file.index.dims.at(begin)
        need(len(shape) <= MAX_AXES, f"shape {i} has more than {MAX_AXES} axes", offset)
        ascending = previous is None or previous < (len(shape), shape)
        need(ascending, f"shape {i} is not above the one before it", offset)
        file.shapes.append(shape)
        previous = (len(shape), shape)


# --- Section 4: nodes -----------------------------------------------------------------------------


def check_walk(file):
    """The walk of section 4, which proves that the nodes are a tree."""
    nodes = file.index.nodes.rows
    need(len(nodes) >= 2, "there are fewer than two nodes", file.index.nodes.start - 4)
    need(nodes[1][0] == DICT, "node 1, the metadata, is not a dict", file.index.nodes.at(1, "kind"))
    file.parents = [None] * len(nodes)
    free, stack = 2, [1, 0]
    while stack:
        i = stack.pop()
        if i == 1:
            file.metadata_children = free
        kind, _, _, _, value, count = nodes[i]
        need(kind in KINDS, f"node {i} has the unknown kind {kind}", file.index.nodes.at(i, "kind"))
        if kind not in CONTAINERS:
            continue
        offset = file.index.nodes.at(i, "value")
        need(value == free, f"the children of node {i} do not start at node {free}", offset)
        room = count <= len(nodes) - free
        need(room, f"node {i} has more children than there are nodes", offset)
        for child in range(free, free + count):
            file.parents[child] = i
        stack.extend(range(free + count - 1, free - 1, -1))
        free += count
    need(free == len(nodes), f"node {free} is not reached", file.index.nodes.at(free))


def check_values(file):
    """Keys, and what every node takes from the pools, in node order."""
    next_word, next_byte = 0, 0
    pool = file.index.bytes.rows

    def take_words(index, count, offset):
        nonlocal next_word
        need(index == next_word, f"word {next_word} is the next, not {index}", offset)
        next_word += count
        need(next_word <= len(file.index.words.rows), "there are too few words", offset)

    for i, (kind, key_kind, zero, key, value, count) in enumerate(file.index.nodes.rows):
        key_at, value_at, count_at = (file.index.nodes.at(i, f) for f in ("key", "value", "count"))
        need(zero == 0, f"a reserved field of node {i} is not zero", file.index.nodes.at(i, "zero"))

        parent = file.parents[i]
        parent_kind = file.index.nodes.rows[parent][0] if parent is not None else None
        allowed = {DICT: (1, 2), RECORD: (1,)}.get(parent_kind, (0,))
        right = key_kind in allowed
        need(right, f"node {i} cannot have key kind {key_kind}", file.index.nodes.at(i, "key_kind"))
        if key_kind == 0:
            need(key == 0, f"node {i} has a key, but no key kind", key_at)
            file.keys.append(None)
        elif key_kind == 1:
            file.keys.append(file.use_text(key, key_at))
        else:
            take_words(key, 1, key_at)
            file.keys.append(to_signed(file.index.words.rows[key]))

        if kind == NULL:
            need(value == 0, f"node {i} is null and has a value", value_at)
        elif kind == BOOL:
            need(value <= 1, f"node {i} is neither true nor false", value_at)
        elif kind in (INT64, FLOAT64):
            take_words(value, 1, value_at)
        elif kind == COMPLEX128:
            take_words(value, 2, value_at)
        elif kind == STRING:
            file.use_text(value, value_at)
        elif kind in (BYTES, BIGINT):
            need(value == next_byte, f"byte {next_byte} is the next, not {value}", value_at)
            next_byte += count
            need(next_byte <= len(pool), "there are too few bytes", count_at)
            raw = pool[value:next_byte]
            if kind == BIGINT:
                need(len(raw) > 8, f"node {i} is a bigint within the range of an int64", count_at)
                sign = 0xFF if raw[-2] & 0x80 else 0
                need(raw[-1] != sign, f"node {i} is not the shortest bigint", count_at)
        if kind not in CONTAINERS + (BYTES, BIGINT):
            need(count == 0, f"node {i} has a count", count_at)
    words = file.index.words
    need(next_word == len(words.rows), "words are left over", words.at(next_word))
    need(next_byte == len(pool), "bytes are left over", file.index.bytes.at(next_byte))


def check_dict_orders(file):
    orders, order = file.index.dict_orders.rows, file.index.order.rows
    next_entry, next_number = 0, 0
    for i, (kind, _, _, _, first, count) in enumerate(file.index.nodes.rows):
        if kind not in (DICT, RECORD):
            continue
        places = sorted_children(file, i)
        for a, b in zip(places, places[1:]):
            differ = file.keys[first + a] != file.keys[first + b]
            offset = file.index.nodes.at(first + b)
            need(differ, f"two children of node {i} have the same key", offset)
        if count <= 8 or places == list(range(count)):
            continue
        have = next_entry < len(orders) and orders[next_entry][0] == i
        offset = file.index.dict_orders.at(next_entry)
        need(have, f"`dict_orders` lacks node {i} where it should stand", offset)
        in_sequence = orders[next_entry][1] == next_number
        need(in_sequence, f"`order` of node {i} is not in sequence", offset + 4)
        right = order[next_number : next_number + count] == places
        need(right, f"`order` of node {i} is wrong", file.index.order.at(next_number))
        next_entry += 1
        next_number += count
    offset = file.index.dict_orders.at(next_entry)
    need(next_entry == len(orders), "`dict_orders` has an entry that must not be", offset)
    offset = file.index.order.at(next_number)
    need(next_number == len(order), "`order` has numbers left over", offset)


def sorted_children(file, i):
    """The positions of a dict's or record's children, in ascending order of their keys."""
    _, _, _, _, first, count = file.index.nodes.rows[i]

    def rank(place):
        _, key_kind, _, key, _, _ = file.index.nodes.rows[first + place]
        # Texts are sorted and unique, so their numbers stand for them.
        return (1, key) if key_kind == 1 else (0, file.keys[first + place])

    return sorted(range(count), key=rank)


def check_labels(file):
    previous = -1
    for i, (node, text) in enumerate(file.index.labels.rows):
        offset = file.index.labels.at(i)
        need(node > previous, f"label {i} is not in ascending order of nodes", offset)
        exists = node < len(file.index.nodes.rows)
        need(exists, f"label {i} is of node {node}, which does not exist", offset)
        file.labels[node] = file.use_text(text, offset + 4)
        previous = node


# --- Section 5: tensors ---------------------------------------------------------------------------


def check_tensors(file):
    records = file.index.tensors
    blocks = check_blocks(file)
    shape_used, block_used = [False] * len(file.shapes), [False] * len(blocks)
    for i, (dtype, zero, block, shape, first_chunk) in enumerate(records.rows):
        need(dtype in DTYPES, f"tensor {i} has the unknown dtype {dtype}", records.at(i, "dtype"))
        need(zero == 0, f"a reserved field of tensor {i} is not zero", records.at(i, "zero"))
        shape_at, block_at = records.at(i, "shape"), records.at(i, "block")
        need(shape < len(file.shapes), f"shape {shape} does not exist", shape_at)
        shape_used[shape] = True
        tensor = Tensor(dtype, file.shapes[shape], first_chunk=first_chunk)
        elements = count_elements(tensor.shape)
        need(elements < 2**64, f"tensor {i} has 2^64 elements or more", shape_at)
        if dtype == OPAQUE:
            need(1 <= block <= len(blocks), f"tensor {i} has no block that exists", block_at)
            block_used[block - 1] = True
            tensor.block = blocks[block - 1]
            _, per_block, block_bytes = tensor.block
            whole = tensor.shape and tensor.shape[-1] % per_block == 0
            need(whole, f"the last axis of tensor {i} does not hold whole blocks", shape_at)
            tensor.size = elements // per_block * block_bytes
        else:
            need(block == 0, f"tensor {i} has a block, but is not opaque", block_at)
            bits = elements * DTYPES[dtype][1]
            need(bits % 8 == 0, f"tensor {i} does not fill its last byte", shape_at)
            tensor.size = bits // 8
        need(tensor.size < 2**63, f"tensor {i} has 2^63 bytes or more", shape_at)
        file.tensors.append(tensor)
    if False in shape_used:
        unused = shape_used.index(False)
        raise FormatError(f"shape {unused} is not used", file.index.shape_ends.at(unused))
    if False in block_used:
        unused = block_used.index(False)
        raise FormatError(f"block {unused} is not used", file.index.blocks.at(unused))


def count_elements(shape):
    if 0 in shape:
        return 0
    elements = 1
    for axis in shape:
        elements *= axis
        if elements >= 2**64:  # Too many for any other axes: stop multiplying.
            return elements
    return elements


def check_blocks(file):
    blocks, previous = [], None
    for i, (name, elements, size) in enumerate(file.index.blocks.rows):
        offset = file.index.blocks.at(i)
        row = (name, elements, size)
        ascending = previous is None or previous < row
        need(ascending, f"block {i} is not above the one before it", offset)
        need(elements and size, f"block {i} has a zero", offset)
        blocks.append((file.use_text(name, offset), elements, size))
        previous = row
    return blocks


def check_tensor_names(file):
    """Every tensor is named by nodes, in sequence, and a placeholder's only by its own."""
    named = []  # The kind of the first node of each tensor.
    for i, (kind, _, _, _, value, _) in enumerate(file.index.nodes.rows):
        if kind not in (TENSOR, PLACEHOLDER):
            continue
        offset = file.index.nodes.at(i, "value")
        need(i < file.metadata_children, f"node {i}, a tensor, stands in the metadata", offset)
        need(value < len(file.tensors), f"tensor {value} does not exist", offset)
        need(value <= len(named), f"tensor {value} is named before tensor {len(named)}", offset)
        if value == len(named):
            named.append(kind)
            file.tensors[value].placeholder = kind == PLACEHOLDER
        else:
            shared = kind == named[value] == TENSOR
            need(shared, f"node {i} shares the tensor of a placeholder", offset)
    complete = len(named) == len(file.tensors)
    need(complete, f"tensor {len(named)} has no node", file.index.tensors.at(len(named)))


def check_axes(file):
    previous, next_name = -1, 0
    names = file.index.axis_names
    for i, (number, first) in enumerate(file.index.axes.rows):
        offset = file.index.axes.at(i)
        need(number > previous, f"axes {i} are not in ascending order of tensors", offset)
        exists = number < len(file.tensors)
        need(exists, f"axes {i} are of tensor {number}, which does not exist", offset)
        need(first == next_name, f"axes {i} do not use up `axis_names` in sequence", offset + 4)
        tensor = file.tensors[number]
        need(tensor.shape, f"axes {i} are of a tensor without axes", offset)
        next_name += len(tensor.shape)
        need(next_name <= len(names.rows), f"axes {i} leave `axis_names`", offset + 4)
        tensor.axis_names = tuple(
            file.use_text(names.rows[n], names.at(n)) for n in range(first, next_name)
        )
        previous = number
    complete = next_name == len(names.rows)
    need(complete, "`axis_names` has names left over", names.at(next_name))


# --- Section 6: chunks ----------------------------------------------------------------------------


def check_chunks(file):
    """Reads the chunks, and checks that each is at its only valid offset."""
    records, chunks = file.index.tensors, file.index.chunks
    next_chunk, end = 0, HEADER_SIZE + file.header["index_length"]
    features = 0
    for i, tensor in enumerate(file.tensors):
        first_at = records.at(i, "first_chunk")
        if tensor.placeholder:
            right = tensor.first_chunk == NO_CHUNK
            need(right, f"tensor {i} is a placeholder and has chunks", first_at)
            continue
        right = tensor.first_chunk == next_chunk
        need(right, f"the chunks of tensor {i} do not start at chunk {next_chunk}", first_at)
        tensor.chunk_count = -(-tensor.size // CHUNK_SIZE)
        enough = tensor.chunk_count <= len(chunks.rows) - next_chunk
        need(enough, f"there are too few chunks for tensor {i}", first_at)
        next_chunk += tensor.chunk_count
        for c, length in chunks_of(tensor):
            offset, _, stored, other_file, codec, zero = chunks.rows[c]
            need(zero == 0, f"a reserved field of chunk {c} is not zero", chunks.at(c, "zero"))
            need(other_file == 0, f"chunk {c} lies in another file", chunks.at(c, "file"))
            known = codec in (RAW, ZSTD, PLANES)
            need(known, f"chunk {c} has the unknown codec {codec}", chunks.at(c, "codec"))
            right = stored == length if codec == RAW else 1 <= stored < length
            need(right, f"chunk {c} has the wrong length", chunks.at(c, "stored"))
            dtype = DTYPES[tensor.dtype][0]
            allowed = codec != PLANES or dtype in ELEMENTS
            need(allowed, f"chunk {c} is of {dtype}, which has no planes", chunks.at(c, "codec"))
            features |= FEATURES.get(codec, 0)
            place = round_up(end) if c == tensor.first_chunk else end
            right = offset == place
            need(right, f"chunk {c} does not stand at {place}", chunks.at(c, "offset"))
            end = place + stored
    complete = next_chunk == len(chunks.rows)
    need(complete, f"chunk {next_chunk} has no tensor", chunks.at(next_chunk))
    need(end == file.header["file_length"], "the file does not end with its last chunk", end)
    right = features == file.header["features"]
    need(right, f"the features that the file uses are {features:#x}", 16)


def chunks_of(tensor):
    """(number, length in bytes before any codec) of each chunk of a tensor."""
    for n in range(tensor.chunk_count):
        yield tensor.first_chunk + n, min(CHUNK_SIZE, tensor.size - n * CHUNK_SIZE)


def round_up(offset):
    return -(-offset // 64) * 64


def decode_chunk(raw, codec, dtype, size, offset):
    """The `size` bytes of a chunk of a tensor of `dtype` whose stored bytes are `raw`."""
    if codec == ZSTD:
        return decode_sealed_frame(raw, size, offset)
    if codec == PLANES:
        return decode_planes(raw, *ELEMENTS[dtype], size, offset)
    return raw


def decode_sealed_frame(raw, size, offset):
    need(len(raw) >= SEAL_SIZE, "the frame is too short for a seal", offset)
    frame, seal = raw[:-SEAL_SIZE], raw[-SEAL_SIZE:]
    need(h64(frame) == seal, "the frame is damaged: its seal is wrong", offset)
    check_frame(frame, size, offset)
    try:
        return zstandard.ZstdDecompressor().decompress(frame)
    except zstandard.ZstdError as error:
        raise FormatError(f"the frame cannot be decoded: {error}", offset) from None


def check_frame(frame, size, offset):
    """That `frame` is one zstd frame of `size` bytes by its outer parts, and nothing else.

    RFC 8878: magic, descriptor, content size, and blocks; each of these has a header of 3 bytes
    with a bit for the last one, two for its type and 21 for a size.
    """

    def number(begin, length):
        need(begin + length <= len(frame), "the frame is cut short", offset)
        return int.from_bytes(frame[begin : begin + length], "little")

    need(number(0, 4) == ZSTD_MAGIC, "this is no zstd frame: wrong magic", offset)
    descriptor = number(4, 1)
    right = descriptor & 0b111111 == 0b100000
    need(right, f"the frame has the descriptor {descriptor:#x}", offset)
    # With a single segment, the content size stands right behind the descriptor.
    length = 1 << (descriptor >> 6)
    content = number(5, length) + (256 if length == 2 else 0)
    need(content == size, f"the frame is of {content} bytes and not of {size}", offset)
    at, last = 5 + length, False
    while not last:
        head = number(at, 3)
        last, kind, block = head & 1, head >> 1 & 3, head >> 3
        need(kind != 3, "a block of the frame has the reserved type", offset)
        need(block <= LARGEST_BLOCK, "a block of the frame is larger than 128 KiB", offset)
        stored = 1 if kind == 1 else block  # Type 1 is one byte that repeats.
        number(at + 3, stored)
        at += 3 + stored
    need(at == len(frame), "something stands after the frame", offset)


def decode_planes(raw, width, is_float, size, offset):
    count = size // width
    need(len(raw) >= 4 * width, "the planes have no lengths", offset)
    planes, at = [], 4 * width
    for k, length in enumerate(struct.unpack_from(f"<{width}I", raw)):
        need(1 <= length <= count, f"plane {k} has the length {length}", offset)
        need(at + length <= len(raw), f"plane {k} is cut short", offset)
        plane = raw[at : at + length]
        at += length
        if length < count:
            plane = plane * count if length == 1 else decode_sealed_frame(plane, count, offset)
        planes.append(np.frombuffer(plane, "u1"))
    need(at == len(raw), "something stands after the planes", offset)
    elements = np.stack(planes, axis=1).reshape(-1).view(f"<u{width}")
    return (move_signs_back(elements, 8 * width) if is_float else elements).tobytes()


def move_signs_back(elements, bits):
    """From `eeeeeeee s` in the highest bits to `s eeeeeeee`, as the elements were."""
    exponent = elements >> (bits - 8)
    sign = elements >> (bits - 9) & 1
    rest = elements & (2 ** (bits - 9) - 1)
    return sign << (bits - 1) | exponent << (bits - 9) | rest


# --- Section 8: the tree digest -------------------------------------------------------------------


def compute_digests(file):
    """D of every node, from the last to the first: children stand after their parents.

    It refuses sets with equal elements: their digests are equal.
    """
    u32 = struct.Struct("<I").pack
    text_hashes = {text: h128(text.encode()) for text in file.texts}
    tensor_digests = [tensor_digest(file, tensor) for tensor in file.tensors]
    file.digests = digests = [b""] * len(file.index.nodes.rows)

    def word(number, count=1):
        return struct.pack(f"<{count}Q", *file.index.words.rows[number : number + count])

    for i in reversed(range(len(digests))):
        kind, _, _, _, value, count = file.index.nodes.rows[i]
        label = file.labels.get(i)
        parts = [bytes([kind]), b"\0" if label is None else b"\1" + text_hashes[label]]
        children = range(value, value + count)
        if kind == BOOL:
            parts.append(bytes([value]))
        elif kind in (INT64, FLOAT64):
            parts.append(word(value))
        elif kind == COMPLEX128:
            parts.append(word(value, 2))
        elif kind == STRING:
            parts.append(text_hashes[file.texts[value]])
        elif kind in (BYTES, BIGINT):
            parts += [u32(count), file.index.bytes.rows[value : value + count]]
        elif kind in (LIST, TUPLE):
            parts += [u32(count), *(digests[c] for c in children)]
        elif kind == SET:
            elements = sorted(digests[c] for c in children)
            differ = all(a != b for a, b in zip(elements, elements[1:]))
            need(differ, f"two elements of the set at node {i} are equal", file.index.nodes.at(i))
            parts += [u32(count), *elements]
        elif kind in (DICT, RECORD):
            parts.append(u32(count))
            for place in sorted_children(file, i):
                _, key_kind, _, key, _, _ = file.index.nodes.rows[value + place]
                parts.append(bytes([key_kind]))
                parts.append(text_hashes[file.texts[key]] if key_kind == 1 else word(key))
                parts.append(digests[value + place])
        elif kind in (TENSOR, PLACEHOLDER):
            parts.append(tensor_digests[value])
        digests[i] = h128(b"".join(parts))


def tensor_digest(file, tensor):
    axes = len(tensor.shape)
    parts = [struct.pack(f"<BI{axes}Q", tensor.dtype, axes, *tensor.shape)]
    if tensor.block:
        name, elements, size = tensor.block
        parts.append(h128(name.encode()) + struct.pack("<II", elements, size))
    parts.append(b"\0" if tensor.axis_names is None else b"\1")
    parts += [h128(name.encode()) for name in tensor.axis_names or ()]
    parts += [file.index.chunks.rows[c][1] for c, _ in chunks_of(tensor)]
    return h128(b"".join(parts))


# --- Section 9: the checks of a reader --------------------------------------------------------------


def open_file(data):
    """Section 9, point 1."""
    file = File(data)
    file.header = read_header(data)
    index = data[HEADER_SIZE : HEADER_SIZE + file.header["index_length"]]
    file.index = read_vectors(index)
    check_texts(file)
    check_shapes(file)
    check_walk(file)
    check_values(file)
    check_dict_orders(file)
    check_labels(file)
    check_tensors(file)
    check_tensor_names(file)
    check_axes(file)
    if 0 in file.text_used:
        unused = file.text_used.index(0)
        raise FormatError(f"text {unused} is not used", file.index.text_ends.at(unused))
    check_chunks(file)
    return file


def read_chunk(file, tensor, number, length):
    """Section 9, point 2."""
    offset, stored_hash, stored, _, codec, _ = file.index.chunks.rows[number]
    raw = file.data[offset : offset + stored]
    data = decode_chunk(raw, codec, DTYPES[tensor.dtype][0], length, offset)
    need(h128(data) == stored_hash, f"chunk {number} is damaged: its hash is wrong", offset)
    return data


def read_tensor(file, number):
    tensor = file.tensors[number]
    return b"".join(read_chunk(file, tensor, c, length) for c, length in chunks_of(tensor))


def verify(file):
    """Section 9, point 3."""
    end = HEADER_SIZE + file.header["index_length"]
    for tensor in file.tensors:
        for number, length in chunks_of(tensor):
            offset, _, stored, *_ = file.index.chunks.rows[number]
            for position in range(end, offset):
                need(file.data[position] == 0, "a byte of padding is not zero", position)
            read_chunk(file, tensor, number, length)
            end = offset + stored
    compute_digests(file)  # This also compares the elements of sets.
    right = file.digests[0].hex() == file.header["tree_digest"]
    need(right, "the tree digest is wrong", 64)


# --- Section 10: key paths ------------------------------------------------------------------------

INT_PATTERN = re.compile(r"-?(0|[1-9][0-9]*)", re.ASCII)


def reads_as_int(text):
    # An i64 has at most 20 characters; the limit keeps int() from working on endless digits.
    if len(text) > 20 or text == "-0" or not INT_PATTERN.fullmatch(text):
        return False
    return -(2**63) <= int(text) < 2**63


def print_path(keys):
    """The key path of ints (int keys and positions) and strs (text keys), with all prefixes."""
    return "/".join(print_segment(key) for key in keys)


def print_segment(key, siblings=None):
    """The segment of a key; of a text key that looks like none of its `siblings` without prefix."""
    if isinstance(key, int):
        return str(key)
    if key == "" or (reads_as_int(key) and (siblings is None or int(key) in siblings)):
        return "~2" + key
    return key.replace("~", "~0").replace("/", "~1")


def parse_path(text):
    """The ints and strs that print as `text`; ValueError if there are none."""
    return [parse_segment(segment) for segment in text.split("/")] if text else []


def parse_segment(segment):
    if reads_as_int(segment):
        return int(segment)
    if segment.startswith("~2"):
        key = segment[2:]
        if key == "" or reads_as_int(key):
            return key
        raise ValueError(f"`~2` stands before a text that needs none: {segment!r}")
    if segment == "":
        raise ValueError("an empty segment: the empty text key is `~2`")
    if re.search("~(?![01])", segment):
        raise ValueError(f"`~` without 0 or 1 after it: {segment!r}")
    return segment.replace("~1", "/").replace("~0", "~")


def printed_paths(file, root=0):
    """(node, key path) of every node of the state tree (root 0) or of the metadata (root 1)."""
    segments = {root: []}
    ints = {}
    for i, key in enumerate(file.keys):
        if isinstance(key, int):
            ints.setdefault(file.parents[i], set()).add(key)
    for i, parent in enumerate(file.parents):  # Parents have lower numbers than their children.
        if parent in segments:
            key = file.keys[i]
            position = i - file.index.nodes.rows[parent][4]
            segment = print_segment(position if key is None else key, ints.get(parent, set()))
            segments[i] = segments[parent] + [segment]
    return [(i, "/".join(path)) for i, path in segments.items()]


def find_node(file, path, root=0):
    """The node that a key path names, or None."""
    for key in parse_path(path):
        first, count = file.index.nodes.rows[root][4:]
        kind = file.index.nodes.rows[root][0]
        if kind not in CONTAINERS:
            return None
        keys = [file.keys[child] for child in range(first, first + count)]
        keys = [i if k is None else k for i, k in enumerate(keys)]
        text = str(key) if isinstance(key, int) and key not in keys else key
        if text not in keys:
            return None
        root = first + keys.index(text)
    return root


# --- The JSON dump --------------------------------------------------------------------------------


def to_signed(word):
    return word - 2**64 if word >= 2**63 else word


def json_int(value):
    return value if abs(value) <= 2**53 else str(value)


def json_float(word):
    """(the 8 bytes in hex, a text for people)"""
    raw = struct.pack("<Q", word)
    return raw.hex(), repr(struct.unpack("<d", raw)[0])


def json_leaf(file, i):
    """The fields after "kind" and "label" for a node that is not a container."""
    kind, _, _, _, value, count = file.index.nodes.rows[i]
    if kind == BOOL:
        return {"value": bool(value)}
    if kind == INT64:
        return {"value": json_int(to_signed(file.index.words.rows[value]))}
    if kind == BIGINT:
        raw = file.index.bytes.rows[value : value + count]
        decimal = str(int.from_bytes(raw, "little", signed=True)) if count <= 1024 else None
        return {"hex": raw.hex()} | ({"value": decimal} if decimal else {})
    if kind == FLOAT64:
        bits, text = json_float(file.index.words.rows[value])
        return {"bits": bits, "value": text}
    if kind == COMPLEX128:
        real, imaginary = (json_float(w) for w in file.index.words.rows[value : value + 2])
        return {"bits": [real[0], imaginary[0]], "value": [real[1], imaginary[1]]}
    if kind == STRING:
        return {"value": file.texts[value]}
    if kind == BYTES:
        return {"hex": file.index.bytes.rows[value : value + count].hex()}
    if kind in (TENSOR, PLACEHOLDER):
        return {"tensor": value}
    return {}


def json_node(file, root):
    """The text of a NODE. It uses no recursion, so that no depth of nesting can end it."""
    out, stack = [], [(root, 1)]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            out.append(item)
            continue
        i, depth = item
        kind, _, _, _, first, count = file.index.nodes.rows[i]
        head = {"kind": KINDS[kind]}
        if i in file.labels:
            head["label"] = file.labels[i]
        if kind not in CONTAINERS:
            out.append(json.dumps(head | json_leaf(file, i)))
            continue
        out.append(json.dumps(head)[:-1] + ', "items": [')
        indent = "\n" + " " * min(depth, 60)
        pieces = []
        for child in range(first, first + count):
            pieces.append(indent if child == first else "," + indent)
            key = file.keys[child]
            if kind in (DICT, RECORD):
                tag = {"text": key} if isinstance(key, str) else {"int": json_int(key)}
                pieces += ["[" + json.dumps(tag) + ", ", (child, depth + 1), "]"]
            else:
                pieces.append((child, depth + 1))
        stack.extend(reversed(pieces + ["]}"]))
    return "".join(out)


def json_tensor(file, number):
    tensor = file.tensors[number]
    data = None if tensor.placeholder else read_tensor(file, number)
    block = None
    if tensor.block:
        block = dict(zip(("name", "elements", "bytes"), tensor.block))
    head = {
        "dtype": DTYPES[tensor.dtype][0],
        "shape": [json_int(axis) for axis in tensor.shape],
        "axis_names": tensor.axis_names,
        "block": block,
        "placeholder": tensor.placeholder,
        "bytes": json_int(tensor.size),
        "digest": tensor_digest(file, tensor).hex(),
        "xxh3_128": None if data is None else h128(data).hex(),
        "first_bytes": None if data is None else data[:64].hex(),
    }
    chunks = []
    for c, _ in chunks_of(tensor):
        offset, stored_hash, stored, _, codec, _ = file.index.chunks.rows[c]
        chunk = {"offset": offset, "stored": stored, "codec": codec, "hash": stored_hash.hex()}
        chunks.append("\n  " + json.dumps(chunk))
    return json.dumps(head)[:-1] + ', "chunks": [' + ",".join(chunks) + "]}"


def dump(file):
    """The whole file as JSON text, in the form that the top of this file describes."""
    header = {k: json_int(v) if isinstance(v, int) else v for k, v in file.header.items()}
    tensors = ["\n " + json_tensor(file, n) for n in range(len(file.tensors))]
    return (
        '{"header": ' + json.dumps(header)
        + ',\n"tensors": [' + ",".join(tensors)
        + '],\n"tree": ' + json_node(file, 0)
        + ',\n"metadata": ' + json_node(file, 1) + "}\n"
    )  # fmt: skip


def main(arguments):
    if len(arguments) != 1:
        print("usage: espalier_reference.py FILE", file=sys.stderr)
        return 2
    try:
        with open(arguments[0], "rb") as stream:
            data = stream.read()
    except OSError as error:
        print(error, file=sys.stderr)
        return 2
    try:
        file = open_file(data)
        verify(file)
    except FormatError as error:
        print(error, file=sys.stderr)
        return 3
    sys.stdout.write(dump(file))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
