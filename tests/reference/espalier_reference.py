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

All of them raise FormatError: the number of the rule, one sentence and the byte of the file it is about.

As a program, `espalier_reference.py FILE` checks the whole file, and those beside it that it names,
and prints it as JSON. It exits
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
    "chunks"       [{"offset": INT, "stored": INT, "codec": INT, "hash": HEX}, ...]; one in another
                   file has its name: "file": TEXT
"""

import json
import pathlib
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
RAW, ZSTD, PLANES, PATCH = 0, 1, 2, 3
FEATURES = {ZSTD: 1 << 0, PLANES: 1 << 1, PATCH: 1 << 3}
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
    "File": [("length", "<u8"), ("head_hash", "V16"), ("tree_digest", "V16"), ("name", "<u4"),
             ("head", "<u4")],
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


# Section 11: version 1.1.
VECTORS_OF_11 = VECTORS + [("files", "File", 8), ("bases", "Chunk", 8)]
OTHER_FILES = 1 << 2
MAX_BASES = 32
FILE_NAME = re.compile(r"(?![.-])[A-Za-z0-9._-]{1,128}(?<!\.)")
DEVICE_NAME = re.compile(r"(con|prn|aux|nul|(com|lpt)[0-9])(\..*)?", re.IGNORECASE)


class FormatError(Exception):
    """The file breaks a rule of the page. `offset` is the byte of the file it is about."""

    def __init__(self, rule, sentence, offset):
        super().__init__(f"{sentence} (byte {offset}, {rule})")
        self.rule = rule
        self.sentence = sentence
        self.offset = offset


def need(rule, condition, sentence, offset):
    if not condition:
        raise FormatError(rule, sentence, offset)


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
    others: list = field(default_factory=list)  # Section 11: the other files' bytes, or None.
    bases: dict = field(default_factory=dict)  # Section 12: of each patch, the records that it takes.
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
        need("R-3.5", number < len(self.texts), f"text {number} does not exist", offset)
        self.text_used[number] = 1
        return self.texts[number]


# --- Section 1: the header ------------------------------------------------------------------------


def read_header(data):
    need("R-1.1", data[:8] == MAGIC[: len(data)], "this is not an Espalier file: wrong magic", 0)
    # The version comes before all that a later version may have changed, such as the header's size.
    need("R-1.3", len(data) >= 12, "the file ends before its version", len(data))
    major, minor = struct.unpack_from("<HH", data, 8)
    need("R-1.2", major == 1 and minor <= 1, f"version {major}.{minor} is unknown", 8)
    need("R-1.3", len(data) >= HEADER_SIZE, "the file ends within its header", len(data))
    need("R-1.4", h64(data[:120]) == data[120:128], "the header is damaged: its hash is wrong", 120)
    zero, features, length, index_offset, index_length = struct.unpack_from("<IQQQQ", data, 12)
    need("R-1.7", zero == 0, "the reserved bytes after the version are not zero", 12)
    unknown = features & ~(sum(FEATURES.values()) | OTHER_FILES)
    need("R-1.5", unknown == 0, f"the file requires unknown features {unknown:#x}", 16)
    right = minor == (1 if features & (OTHER_FILES | FEATURES[PATCH]) else 0)
    need("R-1.6", right, f"the features {features:#x} do not belong to version 1.{minor}", 10)
    need("R-1.8", len(data) >= length, f"the file is truncated: {len(data)} of {length} bytes", len(data))
    need("R-1.8", len(data) <= length, f"the file has trailing bytes after its {length}", length)
    need("R-1.9", index_offset == HEADER_SIZE, f"the index is said to stand at {index_offset}", 32)
    need("R-1.9", 1 <= index_length < 2**31, f"the index is said to have {index_length} bytes", 40)
    need("R-1.9", HEADER_SIZE + index_length <= length, "the index reaches beyond the file", 40)
    need("R-1.7", data[80:120] == bytes(40), "the reserved bytes of the header are not zero", 80)
    index = data[HEADER_SIZE : HEADER_SIZE + index_length]
    need("R-1.10", h128(index) == data[48:64], "the index is damaged: its hash is wrong", 48)
    return {
        "version": f"{major}.{minor}",
        "features": features,
        "file_length": length,
        "index_length": index_length,
        "index_hash": data[48:64].hex(),
        "tree_digest": data[64:80].hex(),
    }


# --- Section 2: the index, a FlatBuffer -----------------------------------------------------------



def read_vectors(index, all_vectors):
    """The vectors of the index, and that it is laid out in the one way there is."""
    vtable_size, table_size = 4 + 2 * len(all_vectors), 4 + 4 * len(all_vectors)
    table, positions, counts = follow_references(index, all_vectors)
    vectors = SimpleNamespace()
    end = len(index)  # Where all that has a place yet begins; it moves towards the start.
    for (name, element, alignment), position, count in zip(all_vectors, positions, counts):
        record = np.dtype(RECORDS[element])
        size = count * record.itemsize
        gap = -(len(index) - end + size) % (max(4, alignment) if count else 4)
        start = end - gap - size
        fits = start >= table + table_size + 4
        need("R-2.3", fits, f"the vector `{name}` has no room for its {count} elements", at(index, position))
        right = position == start - 4
        need("R-2.3", right, f"the vector `{name}` does not stand at {start - 4}", at(index, position))
        need_zeros(index, end - gap, end, f"the gap after the vector `{name}`")
        raw = index[start : end - gap]
        rows = raw if element == "u8" else np.frombuffer(raw, record).tolist()
        setattr(vectors, name, Vector(HEADER_SIZE + start, record, rows))
        end = position
    need("R-2.4", table + table_size == end, "there is a gap after the root table", HEADER_SIZE + end)

    eights = any(count and row[2] == 8 for count, row in zip(counts, all_vectors))
    front = table - vtable_size
    right = front - 8 == -(len(index) - front + 8) % (8 if eights else 4)
    need("R-2.4", right, "the gap before the vtable has the wrong length", HEADER_SIZE + 8)
    need_zeros(index, 8, front, "the gap before the vtable")
    return vectors


def follow_references(index, all_vectors):
    """The position of the table, and of every vector its position and its number of elements.

    That all of them are the right ones is for the caller to check.
    """

    vtable_size, table_size = 4 + 2 * len(all_vectors), 4 + 4 * len(all_vectors)

    def number(rule, code, position, what):
        inside = position <= len(index) - struct.calcsize(code)
        need(rule, inside, f"{what} lies outside the index", at(index, position))
        return struct.unpack_from(code, index, position)[0]

    table = number("R-2.1", "<I", 0, "the position of the root table")
    need("R-2.1", index[4:8] == b"ESPL", "the index has the wrong file identifier", at(index, 4))
    inside = 8 + vtable_size <= table <= len(index) - table_size
    need("R-2.1", inside, "the root table has no place in the index", HEADER_SIZE)
    vtable = table - number("R-2.1", "<i", table, "the root table")
    right = vtable == table - vtable_size
    need("R-2.2", right, "the vtable does not stand directly before the table", HEADER_SIZE + table)
    offsets = [table_size - 4 - 4 * n for n in range(len(all_vectors))]
    expected = [vtable_size, table_size, *offsets]
    for i, value in enumerate(expected):
        right = number("R-2.2", "<H", vtable + 2 * i, "the vtable") == value
        need("R-2.2", right, f"number {i} of the vtable is not {value}", HEADER_SIZE + vtable + 2 * i)

    positions, counts = [], []
    for (name, _, _), offset in zip(all_vectors, offsets):
        field = table + offset
        positions.append(field + number("R-2.3", "<I", field, f"the field `{name}`"))
        counts.append(number("R-2.3", "<I", positions[-1], f"the vector `{name}`"))
    return table, positions, counts


def at(index, position):
    """The byte of the file to name for a position in the index, which may lie outside it."""
    return HEADER_SIZE + min(position, len(index))


def need_zeros(index, begin, end, what):
    for position in range(begin, end):
        need("R-2.4", index[position] == 0, f"{what} holds bytes", HEADER_SIZE + position)


# --- Section 3: pools -----------------------------------------------------------------------------


def check_ends(file, ends, items):
    """The (begin, end) pairs of a pool whose parts are given by the vector `ends`."""
    vector, size = getattr(file.index, ends), len(getattr(file.index, items).rows)
    begin, pairs = 0, []
    for i, end in enumerate(vector.rows):
        need("R-3.1", begin <= end, f"`{ends}` decreases at {i}", vector.at(i))
        need("R-3.1", end <= size, f"`{ends}` leaves `{items}` at {i}", vector.at(i))
        pairs.append((begin, end))
        begin = end
    need("R-3.1", begin == size, f"`{ends}` does not cover `{items}`", vector.at(len(vector.rows)))
    return pairs


def check_texts(file):
    previous = None
    for i, (begin, end) in enumerate(check_ends(file, "text_ends", "text")):
        raw = file.index.text.rows[begin:end]
        offset = file.index.text.at(begin)
        ascending = previous is None or previous < raw
        need("R-3.3", ascending, f"text {i} is not above the one before it", offset)
        need("R-3.2", is_utf8(raw), f"text {i} is not UTF-8", offset)
        file.texts.append(raw.decode("utf-8", "replace"))
        previous = raw
    file.text_used = bytearray(len(file.texts))


def is_utf8(raw):
    try:
        raw.decode("utf-8")
        return True
    except UnicodeDecodeError:
        return False


def check_shapes(file):
    previous = None
    for i, (begin, end) in enumerate(check_ends(file, "shape_ends", "dims")):
        shape = tuple(file.index.dims.rows[begin:end])
        offset = file.index.dims.at(begin)
        need("R-3.6", len(shape) <= MAX_AXES, f"shape {i} has more than {MAX_AXES} axes", offset)
        ascending = previous is None or previous < (len(shape), shape)
        need("R-3.7", ascending, f"shape {i} is not above the one before it", offset)
        file.shapes.append(shape)
        previous = (len(shape), shape)


# --- Section 4: nodes -----------------------------------------------------------------------------


def check_walk(file):
    """The walk of section 4, which proves that the nodes are a tree."""
    nodes = file.index.nodes.rows
    need("R-4.1", len(nodes) >= 2, "there are fewer than two nodes", file.index.nodes.start - 4)
    need("R-4.1", nodes[1][0] == DICT, "node 1, the metadata, is not a dict", file.index.nodes.at(1, "kind"))
    file.parents = [None] * len(nodes)
    free, stack = 2, [1, 0]
    while stack:
        i = stack.pop()
        if i == 1:
            file.metadata_children = free
        kind, _, _, _, value, count = nodes[i]
        need("R-4.2", kind in KINDS, f"node {i} has the unknown kind {kind}", file.index.nodes.at(i, "kind"))
        if kind not in CONTAINERS:
            continue
        offset = file.index.nodes.at(i, "value")
        need("R-4.3", value == free, f"the children of node {i} do not start at node {free}", offset)
        room = count <= len(nodes) - free
        need("R-4.3", room, f"node {i} has more children than there are nodes", offset)
        for child in range(free, free + count):
            file.parents[child] = i
        stack.extend(range(free + count - 1, free - 1, -1))
        free += count
    need("R-4.4", free == len(nodes), f"node {free} is not reached", file.index.nodes.at(free))


def check_values(file):
    """Keys, and what every node takes from the pools, in node order."""
    next_word, next_byte = 0, 0
    pool = file.index.bytes.rows

    def take_words(index, count, offset):
        nonlocal next_word
        need("R-3.9", index == next_word, f"word {next_word} is the next, not {index}", offset)
        next_word += count
        need("R-3.9", next_word <= len(file.index.words.rows), "there are too few words", offset)

    for i, (kind, key_kind, zero, key, value, count) in enumerate(file.index.nodes.rows):
        key_at, value_at, count_at = (file.index.nodes.at(i, f) for f in ("key", "value", "count"))
        need("R-2.5", zero == 0, f"a reserved field of node {i} is not zero", file.index.nodes.at(i, "zero"))

        parent = file.parents[i]
        parent_kind = file.index.nodes.rows[parent][0] if parent is not None else None
        allowed = {DICT: (1, 2), RECORD: (1,)}.get(parent_kind, (0,))
        right = key_kind in allowed
        need("R-4.9", right, f"node {i} cannot have key kind {key_kind}", file.index.nodes.at(i, "key_kind"))
        if key_kind == 0:
            need("R-4.10", key == 0, f"node {i} has a key, but no key kind", key_at)
            file.keys.append(None)
        elif key_kind == 1:
            file.keys.append(file.use_text(key, key_at))
        else:
            take_words(key, 1, key_at)
            file.keys.append(to_signed(file.index.words.rows[key]))

        if kind == NULL:
            need("R-4.6", value == 0, f"node {i} is null and has a value", value_at)
        elif kind == BOOL:
            need("R-4.6", value <= 1, f"node {i} is neither true nor false", value_at)
        elif kind in (INT64, FLOAT64):
            take_words(value, 1, value_at)
        elif kind == COMPLEX128:
            take_words(value, 2, value_at)
        elif kind == STRING:
            file.use_text(value, value_at)
        elif kind in (BYTES, BIGINT):
            need("R-3.10", value == next_byte, f"byte {next_byte} is the next, not {value}", value_at)
            next_byte += count
            need("R-3.10", next_byte <= len(pool), "there are too few bytes", count_at)
            raw = pool[value:next_byte]
            if kind == BIGINT:
                need("R-4.7", len(raw) > 8, f"node {i} is a bigint within the range of an int64", count_at)
                sign = 0xFF if raw[-2] & 0x80 else 0
                need("R-4.7", raw[-1] != sign, f"node {i} is not the shortest bigint", count_at)
        if kind not in CONTAINERS + (BYTES, BIGINT):
            need("R-4.6", count == 0, f"node {i} has a count", count_at)
    words = file.index.words
    need("R-3.9", next_word == len(words.rows), "words are left over", words.at(next_word))
    need("R-3.10", next_byte == len(pool), "bytes are left over", file.index.bytes.at(next_byte))


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
            need("R-4.11", differ, f"two children of node {i} have the same key", offset)
        if count <= 8 or places == list(range(count)):
            continue
        have = next_entry < len(orders) and orders[next_entry][0] == i
        offset = file.index.dict_orders.at(next_entry)
        need("R-4.12", have, f"`dict_orders` lacks node {i} where it should stand", offset)
        in_sequence = orders[next_entry][1] == next_number
        need("R-4.13", in_sequence, f"`order` of node {i} is not in sequence", offset + 4)
        right = order[next_number : next_number + count] == places
        need("R-4.13", right, f"`order` of node {i} is wrong", file.index.order.at(next_number))
        next_entry += 1
        next_number += count
    offset = file.index.dict_orders.at(next_entry)
    need("R-4.12", next_entry == len(orders), "`dict_orders` has an entry that must not be", offset)
    offset = file.index.order.at(next_number)
    need("R-4.13", next_number == len(order), "`order` has numbers left over", offset)


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
        need("R-4.14", node > previous, f"label {i} is not in ascending order of nodes", offset)
        exists = node < len(file.index.nodes.rows)
        need("R-4.14", exists, f"label {i} is of node {node}, which does not exist", offset)
        file.labels[node] = file.use_text(text, offset + 4)
        previous = node


# --- Section 5: tensors ---------------------------------------------------------------------------


def check_tensors(file):
    records = file.index.tensors
    blocks = check_blocks(file)
    shape_used, block_used = [False] * len(file.shapes), [False] * len(blocks)
    for i, (dtype, zero, block, shape, first_chunk) in enumerate(records.rows):
        need("R-5.4", dtype in DTYPES, f"tensor {i} has the unknown dtype {dtype}", records.at(i, "dtype"))
        need("R-2.5", zero == 0, f"a reserved field of tensor {i} is not zero", records.at(i, "zero"))
        shape_at, block_at = records.at(i, "shape"), records.at(i, "block")
        need("R-5.5", shape < len(file.shapes), f"shape {shape} does not exist", shape_at)
        shape_used[shape] = True
        tensor = Tensor(dtype, file.shapes[shape], first_chunk=first_chunk)
        elements = count_elements(tensor.shape)
        need("R-5.6", elements < 2**64, f"tensor {i} has 2^64 elements or more", shape_at)
        if dtype == OPAQUE:
            need("R-5.8", 1 <= block <= len(blocks), f"tensor {i} has no block that exists", block_at)
            block_used[block - 1] = True
            tensor.block = blocks[block - 1]
            _, per_block, block_bytes = tensor.block
            whole = tensor.shape and tensor.shape[-1] % per_block == 0
            need("R-5.10", whole, f"the last axis of tensor {i} does not hold whole blocks", shape_at)
            tensor.size = elements // per_block * block_bytes
        else:
            need("R-5.8", block == 0, f"tensor {i} has a block, but is not opaque", block_at)
            bits = elements * DTYPES[dtype][1]
            need("R-5.7", bits % 8 == 0, f"tensor {i} does not fill its last byte", shape_at)
            tensor.size = bits // 8
        need("R-5.6", tensor.size < 2**63, f"tensor {i} has 2^63 bytes or more", shape_at)
        file.tensors.append(tensor)
    if False in shape_used:
        unused = shape_used.index(False)
        raise FormatError("R-3.8", f"shape {unused} is not used", file.index.shape_ends.at(unused))
    if False in block_used:
        unused = block_used.index(False)
        raise FormatError("R-5.9", f"block {unused} is not used", file.index.blocks.at(unused))


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
        need("R-5.9", ascending, f"block {i} is not above the one before it", offset)
        need("R-5.9", elements and size, f"block {i} has a zero", offset)
        blocks.append((file.use_text(name, offset), elements, size))
        previous = row
    return blocks


def check_tensor_names(file):
    """Every tensor is named by nodes, in sequence, and a placeholder's only by its own."""
    named = {}  # The kind of the first node of each tensor.
    for i, (kind, _, _, _, value, _) in enumerate(file.index.nodes.rows):
        if kind not in (TENSOR, PLACEHOLDER):
            continue
        offset = file.index.nodes.at(i, "value")
        need("R-4.5", i < file.metadata_children, f"node {i}, a tensor, stands in the metadata", offset)
        need("R-5.1", value < len(file.tensors), f"tensor {value} does not exist", offset)
        need("R-5.1", value <= len(named), f"tensor {value} is named before tensor {len(named)}", offset)
        if value not in named:
            named[value] = kind
            file.tensors[value].placeholder = kind == PLACEHOLDER
        else:
            shared = kind == named[value] == TENSOR
            need("R-5.2", shared, f"node {i} shares the tensor of a placeholder", offset)
    complete = len(named) == len(file.tensors)
    need("R-5.3", complete, f"tensor {len(named)} has no node", file.index.tensors.at(len(named)))


def check_axes(file):
    previous, next_name = -1, 0
    names = file.index.axis_names
    for i, (number, first) in enumerate(file.index.axes.rows):
        offset = file.index.axes.at(i)
        need("R-5.11", number > previous, f"axes {i} are not in ascending order of tensors", offset)
        exists = number < len(file.tensors)
        need("R-5.11", exists, f"axes {i} are of tensor {number}, which does not exist", offset)
        need("R-5.12", first == next_name, f"axes {i} do not use up `axis_names` in sequence", offset + 4)
        tensor = file.tensors[number]
        need("R-5.11", tensor.shape, f"axes {i} are of a tensor without axes", offset)
        next_name += len(tensor.shape)
        need("R-5.12", next_name <= len(names.rows), f"axes {i} leave `axis_names`", offset + 4)
        tensor.axis_names = tuple(
            file.use_text(names.rows[n], names.at(n)) for n in range(first, next_name)
        )
        previous = number
    complete = next_name == len(names.rows)
    need("R-5.12", complete, "`axis_names` has names left over", names.at(next_name))


# --- Section 11: the other files ------------------------------------------------------------------


def is_of_11(file):
    return file.header["version"].endswith(".1")


def check_files(file, files):
    """Reads the table of files, and finds those that are there: `files` has them by name."""
    if not is_of_11(file):
        return
    table, names = file.index.files, set()
    need("R-11.2", len(table.rows) <= 65534, "there are too many other files", table.start - 4)
    previous = -1
    for i, (length, head_hash, _, name, head) in enumerate(table.rows):
        need("R-11.4", name > previous, f"the name of file {i + 1} is out of order", table.at(i, "name"))
        previous = name
        text = file.use_text(name, table.at(i, "name"))
        good = FILE_NAME.fullmatch(text) and not DEVICE_NAME.fullmatch(text)
        need("R-11.5", good, f"{text!r} is no name of a file", table.at(i, "name"))
        differs = text.lower() not in names
        need("R-11.6", differs, f"{text!r} differs from another name only in case", table.at(i, "name"))
        names.add(text.lower())
        right = 1 <= head <= min(length, 65536)
        need("R-11.3", right, f"the head of file {i + 1} has {head} bytes", table.at(i, "head"))
        data = files.get(text)
        is_it = data is not None and len(data) == length and h128(data[:head]) == head_hash
        file.others.append(data if is_it else None)


# --- Section 6: chunks ----------------------------------------------------------------------------


def check_chunks(file):
    """Reads the chunks, and checks that each is at its only valid offset."""
    records, chunks = file.index.tensors, file.index.chunks
    next_chunk, end = 0, HEADER_SIZE + file.header["index_length"]
    features, used, here, next_base = 0, set(), True, 0
    for i, tensor in enumerate(file.tensors):
        first_at = records.at(i, "first_chunk")
        if tensor.placeholder:
            right = tensor.first_chunk == NO_CHUNK
            need("R-5.13", right, f"tensor {i} is a placeholder and has chunks", first_at)
            continue
        right = tensor.first_chunk == next_chunk
        need("R-6.1", right, f"the chunks of tensor {i} do not start at chunk {next_chunk}", first_at)
        tensor.chunk_count = -(-tensor.size // CHUNK_SIZE)
        enough = tensor.chunk_count <= len(chunks.rows) - next_chunk
        need("R-6.1", enough, f"there are too few chunks for tensor {i}", first_at)
        next_chunk += tensor.chunk_count
        elsewhere = []
        for c, length in chunks_of(tensor):
            offset, _, stored, other_file, codec, _ = chunks.rows[c]
            check_record(file, chunks, c, DTYPES[tensor.dtype][0], length, f"chunk {c}")
            features |= FEATURES.get(codec, 0)
            if codec == PATCH:
                begin, next_base = next_base, take_bases(file, c, tensor, length, next_base)
                for base in file.index.bases.rows[begin:next_base]:
                    features |= FEATURES.get(base[4], 0) | (OTHER_FILES if base[3] else 0)
                    used.add(base[3])
            was_here, here = here, other_file == 0
            if not here:
                elsewhere.append((other_file, offset, offset + stored, c))
                used.add(other_file)
                features |= OTHER_FILES
                continue
            place = round_up(end) if c == tensor.first_chunk or not was_here else end
            right = offset == place
            need("R-6.12", right, f"chunk {c} does not stand at {place}", chunks.at(c, "offset"))
            end = offset + stored
        elsewhere.sort()
        for (name, _, before, _), (other, begin, _, c) in zip(elsewhere, elsewhere[1:]):
            apart = name != other or before <= begin
            need("R-11.8", apart, f"chunk {c} shares bytes with another one of its tensor", chunks.at(c))
    for number in range(1, len(file.others) + 1):
        need("R-11.2", number in used, f"file {number} has no chunk", file.index.files.at(number - 1))
    complete = next_chunk == len(chunks.rows)
    need("R-6.2", complete, f"chunk {next_chunk} has no tensor", chunks.at(next_chunk))
    if is_of_11(file):
        bases = file.index.bases
        need("R-12.3", next_base == len(bases.rows), f"base {next_base} has no patch", bases.at(next_base))
    need("R-6.14", end == file.header["file_length"], "the file does not end with its last chunk", end)
    right = features == file.header["features"]
    need("R-1.11", right, f"the features that the file uses are {features:#x}", 16)


def check_record(file, records, number, dtype, length, name):
    """What holds for the record of a chunk, and of a base (section 12)."""
    offset, _, stored, other_file, codec, zero = records.rows[number]
    need("R-2.5", zero == 0, f"a reserved field of {name} is not zero", records.at(number, "zero"))
    known = other_file <= len(file.others)
    need("R-6.3", known, f"{name} lies in a file that is not listed", records.at(number, "file"))
    known = codec == RAW or codec in FEATURES
    need("R-6.4", known, f"{name} has the unknown codec {codec}", records.at(number, "codec"))
    right = stored == length if codec == RAW else 1 <= stored < length
    need("R-6.5", right, f"{name} has the wrong length", records.at(number, "stored"))
    allowed = codec != PLANES or dtype in ELEMENTS
    need("R-6.6", allowed, f"{name} is of {dtype}, which has no planes", records.at(number, "codec"))
    if other_file:
        right = offset + stored <= file.index.files.rows[other_file - 1][0]
        rule = "R-11.7" if records is file.index.chunks else "R-12.5"
        need(rule, right, f"{name} reaches beyond its file", records.at(number, "offset"))


def take_bases(file, chunk, tensor, length, first):
    """Section 12: the records that a patch takes from base `first` on. Returns the next one."""
    patch_at = file.index.chunks.at(chunk)
    have = is_of_11(file)
    need("R-6.4", have, f"chunk {chunk} is a patch, and the version is 1.0", patch_at)
    bases, number, codec = file.index.bases, first, PATCH
    while codec == PATCH:
        need("R-12.1", number < len(bases.rows), f"chunk {chunk} lacks a base", patch_at)
        need("R-12.2", number - first < MAX_BASES, f"chunk {chunk} has too many bases", bases.at(number))
        check_record(file, bases, number, DTYPES[tensor.dtype][0], length, f"base {number}")
        record = bases.rows[number]
        if record[3] == 0:
            same = record in file.index.chunks.rows[:chunk]
            need("R-12.4", same, f"base {number} is no chunk before its patch", bases.at(number))
        codec = record[4]
        number += 1
    file.bases[chunk] = bases.rows[first:number]
    return number


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
    need("R-6.8", len(raw) >= SEAL_SIZE, "the frame is too short for a seal", offset)
    frame, seal = raw[:-SEAL_SIZE], raw[-SEAL_SIZE:]
    need("R-6.8", h64(frame) == seal, "the frame is damaged: its seal is wrong", offset)
    check_frame(frame, size, offset)
    try:
        return zstandard.ZstdDecompressor().decompress(frame)
    except zstandard.ZstdError as error:
        raise FormatError("R-6.10", f"the frame cannot be decoded: {error}", offset) from None


def check_frame(frame, size, offset):
    """That `frame` is one zstd frame of `size` bytes by its outer parts, and nothing else.

    RFC 8878: magic, descriptor, content size, and blocks; each of these has a header of 3 bytes
    with a bit for the last one, two for its type and 21 for a size.
    """

    def number(begin, length):
        need("R-6.9", begin + length <= len(frame), "the frame is cut short", offset)
        return int.from_bytes(frame[begin : begin + length], "little")

    need("R-6.9", number(0, 4) == ZSTD_MAGIC, "this is no zstd frame: wrong magic", offset)
    descriptor = number(4, 1)
    right = descriptor & 0b111111 == 0b100000
    need("R-6.9", right, f"the frame has the descriptor {descriptor:#x}", offset)
    # With a single segment, the content size stands right behind the descriptor.
    length = 1 << (descriptor >> 6)
    content = number(5, length) + (256 if length == 2 else 0)
    need("R-6.9", content == size, f"the frame is of {content} bytes and not of {size}", offset)
    at, last = 5 + length, False
    while not last:
        head = number(at, 3)
        last, kind, block = head & 1, head >> 1 & 3, head >> 3
        need("R-6.9", kind != 3, "a block of the frame has the reserved type", offset)
        need("R-6.9", block <= LARGEST_BLOCK, "a block of the frame is larger than 128 KiB", offset)
        stored = 1 if kind == 1 else block  # Type 1 is one byte that repeats.
        number(at + 3, stored)
        at += 3 + stored
    need("R-6.9", at == len(frame), "something stands after the frame", offset)


def decode_streams(rule, raw, at, sizes, offset):
    """Streams of `sizes` bytes: their stored lengths stand at `at`, and they themselves behind these."""
    need(rule, len(raw) >= at + 4 * len(sizes), "the streams have no lengths", offset)
    lengths = struct.unpack_from(f"<{len(sizes)}I", raw, at)
    at += 4 * len(sizes)
    streams = []
    for k, (length, size) in enumerate(zip(lengths, sizes)):
        need(rule, min(size, 1) <= length <= size, f"stream {k} has the length {length}", offset)
        need(rule, at + length <= len(raw), f"stream {k} is cut short", offset)
        stream = raw[at : at + length]
        at += length
        if length < size:
            stream = stream * size if length == 1 else decode_sealed_frame(stream, size, offset)
        streams.append(stream)
    need(rule, at == len(raw), "something stands after the streams", offset)
    return streams


def elements_of(planes, width):
    """The little-endian elements whose bytes stand in planes."""
    columns = np.stack([np.frombuffer(plane, "u1") for plane in planes], axis=1)
    return columns.reshape(-1).view(f"<u{width}")


def apply_patch(raw, dtype, base, offset):
    """Section 12: what a patch makes of the bytes of its base."""
    width = ELEMENTS.get(dtype, (1,))[0]
    elements = np.frombuffer(base, f"<u{width}").copy()
    need("R-12.7", len(raw) >= 8, "the patch has no counts", offset)
    count, gap_bytes = struct.unpack_from("<II", raw)
    need("R-12.6", 1 <= count <= len(elements), f"the patch has {count} changes", offset)
    dense = count == len(elements)
    right = gap_bytes == 0 if dense else count <= gap_bytes <= len(base)
    need("R-12.6", right, f"the gaps have {gap_bytes} bytes", offset)
    gaps, *planes = decode_streams("R-12.7", raw, 8, [gap_bytes] + [count] * width, offset)
    zigzag = elements_of(planes, width)
    need("R-12.9", dense or zigzag.all(), "a difference is zero", offset)
    changed = np.arange(count) if dense else np.array(read_gaps(gaps, count, offset), int)
    need("R-12.8", (changed < len(elements)).all(), "the gaps lead beyond the chunk", offset)
    one = zigzag.dtype.type(1)
    elements[changed] += (zigzag >> one) ^ (~(zigzag & one) + one)
    return elements.tobytes()


def read_gaps(gaps, count, offset):
    """The numbers of the changed elements."""
    at, number, changed = 0, 0, []
    for _ in range(count):
        gap, shift, byte = 0, 0, 0x80
        while byte & 0x80:
            need("R-12.8", at < len(gaps), "the gaps are cut short", offset)
            byte = gaps[at]
            gap |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
        need("R-12.8", byte or shift == 7, "a gap is not in its shortest form", offset)
        number += gap
        changed.append(min(number, CHUNK_SIZE))  # Numbers beyond any chunk need no more bits.
        number += 1
    need("R-12.8", at == len(gaps), "there are gaps left over", offset)
    return changed


def decode_planes(raw, width, is_float, size, offset):
    planes = decode_streams("R-6.11", raw, 0, [size // width] * width, offset)
    elements = elements_of(planes, width)
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
            need("R-4.8", differ, f"two elements of the set at node {i} are equal", file.index.nodes.at(i))
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


def open_file(data, files=None):
    """Section 9, point 1. `files` has the bytes of the files beside it, by name (section 11)."""
    file = File(data)
    file.header = read_header(data)
    index = data[HEADER_SIZE : HEADER_SIZE + file.header["index_length"]]
    all_vectors = VECTORS_OF_11 if is_of_11(file) else VECTORS
    file.index = read_vectors(index, all_vectors)
    check_texts(file)
    check_files(file, files or {})
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
        raise FormatError("R-3.4", f"text {unused} is not used", file.index.text_ends.at(unused))
    check_chunks(file)
    return file


def read_chunk(file, tensor, number, length):
    """Section 9, point 2."""
    record, dtype, data = file.index.chunks.rows[number], DTYPES[tensor.dtype][0], b""
    # Section 12: the last base first.
    for offset, stored_hash, stored, other, codec, _ in [*reversed(file.bases.get(number, [])), record]:
        source = file.others[other - 1] if other else file.data
        need("R-11.9", source is not None, f"chunk {number} lies in a file that is missing or another", offset)
        raw = source[offset : offset + stored]
        if codec == PATCH:
            data = apply_patch(raw, dtype, data, offset)
        else:
            data = decode_chunk(raw, codec, dtype, length, offset)
    need("R-6.7", h128(data) == stored_hash, f"chunk {number} is damaged: its hash is wrong", offset)
    return data


def read_tensor(file, number):
    tensor = file.tensors[number]
    return b"".join(read_chunk(file, tensor, c, length) for c, length in chunks_of(tensor))


def verify(file, unreadable=None):
    """Section 9, point 3. Chunks whose files are not there (R-11.9) go to the list `unreadable`, if there is one."""
    end = HEADER_SIZE + file.header["index_length"]
    for tensor in file.tensors:
        for number, length in chunks_of(tensor):
            offset, _, stored, other, *_ = file.index.chunks.rows[number]
            if other == 0:
                for position in range(end, offset):
                    need("R-6.13", file.data[position] == 0, "a byte of padding is not zero", position)
                end = offset + stored
            try:
                read_chunk(file, tensor, number, length)
            except FormatError as error:
                if unreadable is None or error.rule != "R-11.9":
                    raise
                unreadable.append(number)
    compute_digests(file)  # This also compares the elements of sets.
    right = file.digests[0].hex() == file.header["tree_digest"]
    need("R-8.1", right, "the tree digest is wrong", 64)


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
        offset, stored_hash, stored, other, codec, _ = file.index.chunks.rows[c]
        chunk = {"offset": offset, "stored": stored, "codec": codec, "hash": stored_hash.hex()}
        if other:
            chunk["file"] = file.texts[file.index.files.rows[other - 1][3]]
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
        path = pathlib.Path(arguments[0])
        data = path.read_bytes()
        is_alone = data[10:12] == b"\0\0"
        beside = [] if is_alone else [each for each in path.parent.iterdir() if each.is_file()]
        files = {each.name: each.read_bytes() for each in beside}
    except OSError as error:
        print(error, file=sys.stderr)
        return 2
    try:
        file = open_file(data, files)
        verify(file)
    except FormatError as error:
        print(error, file=sys.stderr)
        return 3
    sys.stdout.write(dump(file))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
