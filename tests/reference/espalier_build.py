"""A builder of Espalier files, good ones and bad ones, written from docs/format.md alone.

    tables = from_tree({"step": 7, "w": Array("f32", (2,), bytes(8))}, metadata={"by": "a test"})
    data = build(tables)                        a valid file

`Tables` is the index as plain lists of records. A test that wants a wrong file changes any number
in them before it calls `build`, which looks at nothing: it lays the tables out, fills in what is
left as None, and computes the hashes, so that the file is wrong in that one place and nowhere else:

    tables.nodes[2].kind = 99
    data = build(tables)

`build` can also change the index after it is laid out (`edit_index`), and any field of the header
(`header`, by the names in HEADER); a hash that is given there is not computed.

The trees are made of None, bool, int, float, complex, str, bytes, dict, list, tuple, set, frozenset
and the classes Set, Record, Array, Placeholder and Labelled. An Array that occurs twice, as the
same object, is one tensor with two nodes.
"""

from __future__ import annotations

import itertools
import struct
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable

import needed_packages  # noqa: F401
import xxhash

MIB = 1 << 20

DTYPES = (
    "bool i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64 c64 c128 f8_e4m3fn f8_e5m2 f8_e4m3fnuz "
    "f8_e5m2fnuz f8_e8m0fnu f4_e2m1fn i4 u4 i2 u2 f6_e2m3fn f6_e3m2fn opaque"
).split()  # Code 1 is the first.


def h128(data: bytes) -> bytes:
    """XXH3-128 as the format stores it: a little-endian number of 128 bits."""
    return xxhash.xxh3_128_intdigest(data).to_bytes(16, "little")


def h64(data: bytes) -> bytes:
    return xxhash.xxh3_64_intdigest(data).to_bytes(8, "little")


# --- Trees ----------------------------------------------------------------------------------------


@dataclass(eq=False)
class Labelled:
    """A value with a label."""

    label: str
    value: Any


@dataclass(eq=False)
class Record:
    """A container with named fields, in the order of the dict."""

    fields: dict


@dataclass(eq=False)
class Set:
    """A set whose elements Python cannot hash, or whose order matters to the test."""

    elements: list


@dataclass(eq=False)
class Array:
    """A tensor. `dtype` is a name of section 5; `block` is (name, elements, bytes) if opaque."""

    dtype: str
    shape: tuple
    data: bytes
    axis_names: tuple | None = None
    block: tuple | None = None


@dataclass(eq=False)
class Placeholder:
    """A tensor without its data."""

    dtype: str
    shape: tuple
    axis_names: tuple | None = None
    block: tuple | None = None


# --- Tables ---------------------------------------------------------------------------------------


@dataclass
class NodeRecord:
    kind: int
    key_kind: int = 0
    key: int = 0
    value: int = 0
    count: int = 0
    zero: int = 0

    def pack(self) -> bytes:
        return struct.pack(
            "<BBHIII", self.kind, self.key_kind, self.zero, self.key, self.value, self.count
        )


@dataclass
class TensorRecord:
    dtype: int
    shape: int
    first_chunk: int
    block: int = 0
    zero: int = 0

    def pack(self) -> bytes:
        return struct.pack(
            "<BBHII", self.dtype, self.zero, self.block, self.shape, self.first_chunk
        )


@dataclass
class ChunkRecord:
    """A chunk and the bytes that `build` writes for it.

    `starts_tensor` says whether those bytes are placed at a multiple of 64. What is None in the
    record follows from the bytes and their place.
    """

    data: bytes
    starts_tensor: bool
    offset: int | None = None
    hash: bytes | None = None
    stored: int | None = None
    file: int = 0
    codec: int = 0
    zero: int = 0

    def pack(self, place: int) -> bytes:
        return struct.pack(
            "<Q16sIHBB",
            place if self.offset is None else self.offset,
            h128(self.data) if self.hash is None else self.hash,
            len(self.data) if self.stored is None else self.stored,
            self.file,
            self.codec,
            self.zero,
        )


@dataclass
class FileRecord:
    """A file beside this one; `name` is the number of a text."""

    length: int
    head_hash: bytes
    tree_digest: bytes
    name: int
    head: int

    def pack(self) -> bytes:
        return struct.pack(
            "<Q16s16sII", self.length, self.head_hash, self.tree_digest, self.name, self.head
        )


@dataclass
class Tables:
    """The index: one list per vector, under the names and in the order of section 2.

    Rows of `labels`, `dict_orders`, `axes` and `blocks` are tuples of numbers, in the order of
    their fields. `tree_digest` goes to the header.
    """

    nodes: list[NodeRecord] = field(default_factory=list)
    tensors: list[TensorRecord] = field(default_factory=list)
    chunks: list[ChunkRecord] = field(default_factory=list)
    shape_ends: list[int] = field(default_factory=list)
    dims: list[int] = field(default_factory=list)
    words: list[int] = field(default_factory=list)
    text_ends: list[int] = field(default_factory=list)
    text: bytes = b""
    bytes: bytes = b""
    labels: list[tuple] = field(default_factory=list)
    dict_orders: list[tuple] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    axes: list[tuple] = field(default_factory=list)
    axis_names: list[int] = field(default_factory=list)
    blocks: list[tuple] = field(default_factory=list)
    # Section 11. None is version 1.0, whose index lacks both vectors.
    files: list["FileRecord"] | None = None
    bases: list[ChunkRecord] = field(default_factory=list)
    tree_digest: bytes = b"\0" * 16

    def set_texts(self, texts: list[bytes]) -> None:
        """Replaces the text pool, in the order given."""
        self.text = b"".join(texts)
        self.text_ends = list(itertools.accumulate(map(len, texts)))

    def texts(self) -> list[bytes]:
        return [self.text[a:b] for a, b in zip([0, *self.text_ends], self.text_ends)]


# --- From a tree to tables ------------------------------------------------------------------------


@dataclass
class _Node:
    """A value on its way into the tables. `children` are (key, value), from node `first` on."""

    kind: int
    key: Any
    label: str | None
    value: Any
    children: list
    first: int = 0


def _describe(key: Any, value: Any) -> _Node:
    label = None
    if isinstance(value, Labelled):
        label, value = value.label, value.value
    elements: list = []
    if value is None:
        kind = 1
    elif isinstance(value, bool):
        kind = 2
    elif isinstance(value, int):
        kind = 3 if -(2**63) <= value < 2**63 else 4
    elif isinstance(value, float):
        kind = 5
    elif isinstance(value, complex):
        kind = 6
    elif isinstance(value, str):
        kind = 7
    elif isinstance(value, bytes):
        kind = 8
    elif isinstance(value, dict):
        return _Node(9, key, label, value, list(value.items()))
    elif isinstance(value, list):
        kind, elements = 10, value
    elif isinstance(value, tuple):
        kind, elements = 11, list(value)
    elif isinstance(value, (set, frozenset)):
        kind, elements = 12, sorted(value, key=repr)  # So that every run builds the same file.
    elif isinstance(value, Set):
        kind, elements = 12, value.elements
    elif isinstance(value, Record):
        return _Node(13, key, label, value, list(value.fields.items()))
    elif isinstance(value, Array):
        kind = 14
    elif isinstance(value, Placeholder):
        kind = 15
    else:
        raise TypeError(f"no kind of node for {value!r}")
    return _Node(kind, key, label, value, [(None, element) for element in elements])


def _number_nodes(tree: Any, metadata: Any) -> list[_Node]:
    """The nodes in the order of the walk of section 4."""
    nodes = [_describe(None, tree), _describe(None, metadata)]
    stack = [1, 0]
    while stack:
        node = nodes[stack.pop()]
        node.first = len(nodes)
        nodes += [_describe(key, value) for key, value in node.children]
        stack += range(len(nodes) - 1, node.first - 1, -1)
    return nodes


def bigint_bytes(value: int) -> bytes:
    """The shortest two's complement, little-endian."""
    bits = (value if value >= 0 else ~value).bit_length() + 1
    return value.to_bytes((bits + 7) // 8, "little", signed=True)


def _words(value: Any) -> list[int]:
    """The words of an int64 (or int key), float64 or complex128."""
    if isinstance(value, int):
        return [value % 2**64]
    if isinstance(value, float):
        return list(struct.unpack("<Q", struct.pack("<d", value)))
    return list(struct.unpack("<QQ", struct.pack("<dd", value.real, value.imag)))


def _key_order(node: _Node) -> list[int]:
    """The positions of the children in ascending order of keys: ints first, then texts as bytes."""

    def rank(position: int) -> tuple:
        key = node.children[position][0]
        return (1, key.encode()) if isinstance(key, str) else (0, key)

    return sorted(range(len(node.children)), key=rank)


def _split(data: bytes) -> list[bytes]:
    return [data[at : at + MIB] for at in range(0, len(data), MIB)]


def from_tree(tree: Any, metadata: dict | None = None) -> Tables:
    """The tables of a valid file that holds `tree`."""
    nodes = _number_nodes(tree, {} if metadata is None else metadata)
    arrays: list = []  # In the order of their numbers; found again by identity.
    for node in nodes:
        if node.kind in (14, 15) and not any(node.value is array for array in arrays):
            arrays.append(node.value)
    array_numbers = {id(array): number for number, array in enumerate(arrays)}

    used = {node.key for node in nodes if isinstance(node.key, str)}
    used |= {node.value for node in nodes if node.kind == 7}
    used |= {node.label for node in nodes if node.label is not None}
    used |= {name for array in arrays for name in array.axis_names or ()}
    used |= {array.block[0] for array in arrays if array.block}
    texts = sorted(text.encode() for text in used)
    text_numbers = {text.decode(): number for number, text in enumerate(texts)}
    shapes = sorted({tuple(array.shape) for array in arrays}, key=lambda s: (len(s), s))
    blocks = sorted({(text_numbers[a.block[0]], *a.block[1:]) for a in arrays if a.block})

    tables = Tables(blocks=blocks)
    tables.set_texts(texts)
    for shape in shapes:
        tables.dims += shape
        tables.shape_ends.append(len(tables.dims))

    for number, node in enumerate(nodes):
        record = NodeRecord(node.kind)
        if isinstance(node.key, str):
            record.key_kind, record.key = 1, text_numbers[node.key]
        elif node.key is not None:
            record.key_kind, record.key = 2, len(tables.words)
            tables.words += _words(node.key)
        if node.kind == 2:
            record.value = int(node.value)
        elif node.kind in (3, 5, 6):
            record.value = len(tables.words)
            tables.words += _words(node.value)
        elif node.kind in (4, 8):
            raw = node.value if node.kind == 8 else bigint_bytes(node.value)
            record.value, record.count = len(tables.bytes), len(raw)
            tables.bytes += raw
        elif node.kind == 7:
            record.value = text_numbers[node.value]
        elif node.kind in (14, 15):
            record.value = array_numbers[id(node.value)]
        elif node.kind >= 9:
            record.value, record.count = node.first, len(node.children)
        tables.nodes.append(record)
        if node.label is not None:
            tables.labels.append((number, text_numbers[node.label]))
        if node.kind in (9, 13) and len(node.children) > 8:
            order = _key_order(node)
            if order != sorted(order):
                tables.dict_orders.append((number, len(tables.order)))
                tables.order += order

    for number, array in enumerate(arrays):
        record = TensorRecord(DTYPES.index(array.dtype) + 1, shapes.index(tuple(array.shape)), 0)
        if array.block:
            block = (text_numbers[array.block[0]], *array.block[1:])
            record.block = 1 + blocks.index(block)
        if array.axis_names is not None:
            tables.axes.append((number, len(tables.axis_names)))
            tables.axis_names += [text_numbers[name] for name in array.axis_names]
        record.first_chunk = 2**32 - 1
        if isinstance(array, Array):
            record.first_chunk = len(tables.chunks)
            pieces = _split(array.data)
            tables.chunks += [ChunkRecord(piece, i == 0) for i, piece in enumerate(pieces)]
        tables.tensors.append(record)

    tables.tree_digest = _digests(nodes)[0]
    return tables


def tree_digest(tree: Any) -> bytes:
    """The digest of section 8, from the tree itself, without any tables."""
    return _digests(_number_nodes(tree, {}))[0]


def _digests(nodes: list[_Node]) -> list[bytes]:
    digests = [b""] * len(nodes)
    for i in reversed(range(len(nodes))):
        node = nodes[i]
        count = struct.pack("<I", len(node.children))
        children = digests[node.first : node.first + len(node.children)]
        label = b"\0" if node.label is None else b"\1" + h128(node.label.encode())
        body = b""
        if node.kind == 2:
            body = bytes([node.value])
        elif node.kind in (3, 5, 6):
            body = b"".join(word.to_bytes(8, "little") for word in _words(node.value))
        elif node.kind in (4, 8):
            raw = node.value if node.kind == 8 else bigint_bytes(node.value)
            body = struct.pack("<I", len(raw)) + raw
        elif node.kind == 7:
            body = h128(node.value.encode())
        elif node.kind in (10, 11):
            body = count + b"".join(children)
        elif node.kind == 12:
            body = count + b"".join(sorted(children))
        elif node.kind in (9, 13):
            body = count
            for position in _key_order(node):
                key = node.children[position][0]
                if isinstance(key, str):
                    body += b"\1" + h128(key.encode())
                else:
                    body += b"\2" + struct.pack("<q", key)
                body += children[position]
        elif node.kind in (14, 15):
            body = _array_digest(node.value)
        digests[i] = h128(bytes([node.kind]) + label + body)
    return digests


def _array_digest(array: Any) -> bytes:
    body = struct.pack("<BI", DTYPES.index(array.dtype) + 1, len(array.shape))
    body += b"".join(struct.pack("<Q", axis) for axis in array.shape)
    if array.block:
        body += h128(array.block[0].encode()) + struct.pack("<II", *array.block[1:])
    body += b"\0" if array.axis_names is None else b"\1"
    body += b"".join(h128(name.encode()) for name in array.axis_names or ())
    if isinstance(array, Array):
        body += b"".join(h128(piece) for piece in _split(array.data))
    return h128(body)


# --- From tables to a file ------------------------------------------------------------------------

# The header's fields: name, struct code.
HEADER = [
    ("magic", "8s"), ("major", "H"), ("minor", "H"), ("zero", "I"), ("features", "Q"),
    ("file_length", "Q"), ("index_offset", "Q"), ("index_length", "Q"), ("index_hash", "16s"),
    ("tree_digest", "16s"), ("zeros", "40s"),
]  # fmt: skip


class _Downward:
    """Writes a buffer from its end to its start, as the FlatBuffers builder does."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []  # The last piece stands first in the buffer.
        self.size = 0
        self.alignment = 1

    def align(self, length: int, alignment: int) -> None:
        """Pads so that the next part, of that length, starts at a multiple of `alignment`."""
        if length:  # The FlatBuffers builder aligns nothing for an empty vector.
            self.push(b"\0" * (-(self.size + length) % alignment))
            self.alignment = max(self.alignment, alignment)

    def push(self, data: bytes) -> int:
        self.pieces.append(data)
        self.size += len(data)
        return self.size

    def push_u32(self, value: int) -> int:
        self.align(4, 4)
        return self.push(struct.pack("<I", value))

    def push_reference(self, target: int) -> int:
        self.align(4, 4)
        return self.push_u32(self.size - target + 4)

    def vector(self, rows: list[bytes] | bytes, alignment: int) -> int:
        """`rows`: the elements. Those of one byte may come as `bytes`, as there are up to 64 MiB of them."""
        data = rows if isinstance(rows, bytes) else b"".join(rows)
        self.align(len(data), 4)
        self.align(len(data), alignment)
        self.push(data)
        return self.push_u32(len(rows))


def lay_out_index(
    tables: Tables,
    places: list[int] | None = None,
    vector_order: Iterable[int] | None = None,
    field_order: Iterable[int] | None = None,
) -> bytes:
    """The index as a FlatBuffer, laid out as section 2 says. `places`: where the chunks lie.

    Other orders than that of the fields give FlatBuffers that are well-formed, but not the one of section 2.
    """
    u32s = lambda values: [struct.pack("<I", value) for value in values]
    u64s = lambda values: [struct.pack("<Q", value) for value in values]
    tuples = lambda rows: [b"".join(u32s(row)) for row in rows]
    places = [0] * len(tables.chunks) if places is None else places
    vectors = [
        ([node.pack() for node in tables.nodes], 4),
        ([tensor.pack() for tensor in tables.tensors], 4),
        ([chunk.pack(place) for chunk, place in zip(tables.chunks, places)], 8),
        (u32s(tables.shape_ends), 4),
        (u64s(tables.dims), 8),
        (u64s(tables.words), 8),
        (u32s(tables.text_ends), 4),
        (bytes(tables.text), 1),
        (bytes(tables.bytes), 1),
        (tuples(tables.labels), 4),
        (tuples(tables.dict_orders), 4),
        (u32s(tables.order), 4),
        (tuples(tables.axes), 4),
        (u32s(tables.axis_names), 4),
        (tuples(tables.blocks), 4),
    ]
    if tables.files is not None:
        vectors.append(([file.pack() for file in tables.files], 8))
        vectors.append(([base.pack(0) for base in tables.bases], 8))
    out = _Downward()
    positions = {n: out.vector(*vectors[n]) for n in vector_order or range(len(vectors))}
    end_of_table = out.size
    entries = {n: out.push_reference(positions[n]) for n in field_order or range(len(vectors))}
    vtable_size = 4 + 2 * len(vectors)
    table = out.push_u32(vtable_size)  # The vtable stands just before the table.
    offsets = [table - entries[n] for n in range(len(vectors))]
    out.push(struct.pack(f"<HH{len(offsets)}H", vtable_size, table - end_of_table, *offsets))
    out.align(8, out.alignment)
    out.push(b"ESPL")
    out.push_reference(table)
    return b"".join(reversed(out.pieces))


def refer(
    tables: Tables, files: dict[str, bytes], chunks: dict[int, tuple[str, int]]
) -> None:
    """Makes tables of version 1.1 whose `chunks`, by number, lie at an offset of one of `files`."""
    old, names = tables.texts(), {name.encode() for name in files}
    texts = sorted({*old, *names})
    renumber = [texts.index(text) for text in old]
    for node in tables.nodes:
        if node.key_kind == 1:
            node.key = renumber[node.key]
        if node.kind == 7:
            node.value = renumber[node.value]
    tables.labels = [(node, renumber[text]) for node, text in tables.labels]
    tables.axis_names = [renumber[text] for text in tables.axis_names]
    tables.blocks = [(renumber[name], *sizes) for name, *sizes in tables.blocks]
    tables.set_texts(texts)
    order = sorted(files)
    tables.files = []
    for name in order:
        data = files[name]
        is_ours = data[:8] == b"\x89ESPL\r\n\x1a"
        head = 128 if is_ours else min(len(data), 65536)
        digest = data[64:80] if is_ours else bytes(16)
        number = texts.index(name.encode())
        tables.files.append(FileRecord(len(data), h128(data[:head]), digest, number, head))
    for number, (name, offset) in chunks.items():
        chunk = tables.chunks[number]
        chunk.stored, chunk.hash = len(chunk.data), chunk.hash or h128(chunk.data)
        chunk.offset, chunk.file = offset, order.index(name) + 1
    for number, chunk in enumerate(tables.chunks):  # Section 11: what comes after one elsewhere.
        if number and tables.chunks[number - 1].file and not chunk.file:
            chunk.starts_tensor = True


def zigzag(value: int, width: int) -> int:
    """Section 12: of a difference modulo 2^(8 width)."""
    value %= 1 << 8 * width
    signed = value - (1 << 8 * width) if value >> (8 * width - 1) else value
    return 2 * signed if signed >= 0 else -2 * signed - 1


def leb128(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def patch(width: int, base: bytes, data: bytes, store: Callable[[bytes], bytes] = bytes, dense: bool = False) -> bytes:
    """The stored bytes of a patch (section 12) with elements of `width` bytes; `store` is given each stream."""
    split = lambda raw: [int.from_bytes(raw[i : i + width], "little") for i in range(0, len(raw), width)]
    pairs = list(zip(split(base), split(data)))
    changed = [i for i, (a, b) in enumerate(pairs) if a != b or dense]
    is_dense = len(changed) == len(pairs)
    before = [-1, *changed]
    gaps = b"" if is_dense else b"".join(leb128(i - last - 1) for last, i in zip(before, changed))
    numbers = [zigzag(pairs[i][1] - pairs[i][0], width).to_bytes(width, "little") for i in changed]
    streams = [gaps, *(bytes(number[k] for number in numbers) for k in range(width))]
    stored = [store(stream) if stream else b"" for stream in streams]
    head = struct.pack(f"<{3 + width}I", len(changed), len(gaps), *map(len, stored))
    return head + b"".join(stored)


def put_patch(tables: Tables, number: int, stored: bytes, bases: list[ChunkRecord]) -> None:
    """Makes chunk `number` a patch with these bytes. Call it in the order of chunks."""
    chunk = tables.chunks[number]
    chunk.hash, chunk.codec, chunk.data = h128(chunk.data), 3, stored
    tables.files = tables.files or []
    tables.bases += bases


def build(
    tables: Tables,
    *,
    header: dict | None = None,
    edit_index: Callable[[bytes], bytes] | None = None,
    layout: dict | None = None,
    padding: int = 0,
    tail: bytes = b"",
) -> bytes:
    """The file of these tables.

    header      fields of the header to set (see HEADER, and "header_hash"); the rest is computed
    edit_index  is given the index and returns what to write instead
    layout      orders for `lay_out_index`
    padding     the byte between index and blobs, and between blobs
    tail        what follows the last chunk; the header's file length does not count it
    """
    index = lay_out_index(tables, **layout or {})
    # The length of an index does not depend on the numbers in it, so the places follow from it.
    places, blobs, end = [], b"", 128 + len(index)
    for chunk in tables.chunks:
        if chunk.file and tables.files is not None:  # It lies in another file, where it says.
            places.append(chunk.offset)
            continue
        gap = -end % 64 if chunk.starts_tensor else 0
        blobs += bytes([padding]) * gap + chunk.data
        places.append(end + gap)
        for base in tables.bases:  # One that shares a chunk's bytes has its record.
            if base.data is chunk.data and not base.file:
                base.offset = end + gap
        end += gap + len(chunk.data)
    index = lay_out_index(tables, places, **layout or {})
    if edit_index:
        index = edit_index(index)

    records = tables.chunks + tables.bases
    features = sum(1 << bit for bit in (0, 1) if any(record.codec == bit + 1 for record in records))
    if tables.files is not None:
        features |= 4 * any(record.file for record in records) + 8 * any(record.codec == 3 for record in records)
    values = {
        "magic": b"\x89ESPL\r\n\x1a",
        "major": 1,
        "minor": 0 if tables.files is None else 1,
        "zero": 0,
        "features": features,
        "file_length": 128 + len(index) + len(blobs),
        "index_offset": 128,
        "index_length": len(index),
        "index_hash": h128(index),
        "tree_digest": tables.tree_digest,
        "zeros": bytes(40),
    }
    given = dict(header or {})
    header_hash = given.pop("header_hash", None)
    assert given.keys() <= values.keys(), "there is no such field in the header"
    values |= given
    front = struct.pack("<" + "".join(code for _, code in HEADER), *(values[n] for n, _ in HEADER))
    return front + (header_hash or h64(front)) + index + blobs + tail
