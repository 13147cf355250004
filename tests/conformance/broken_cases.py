"""Files that break one rule and no other one, where those of ../corrupt break others as well.

A reader that lacks the check of the rule accepts them: all hashes are right, the tree digest too.
"""

from __future__ import annotations

import copy
import importlib.util
import pathlib
import struct
import sys
from typing import Callable, Iterator

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "reference")]

import espalier_reference as reference
from espalier_build import (
    MIB,
    Array,
    ChunkRecord,
    FileRecord,
    NodeRecord,
    Placeholder,
    Tables,
    TensorRecord,
    build,
    from_tree,
    h64,
    h128,
    patch,
    put_patch,
    refer,
    tree_digest,
)
from espalier_codecs import PLANES, RAW, ZSTD, frame, seal
from index_edits import insert, slot, table, u32, vector

PATCH = 3
Case = tuple[str, str, bytes, "dict[str, bytes]"]  # Name, which begins with the rule; about; the file; those beside it.


def lenient_reader() -> object:
    """A reference reader that refuses nothing."""
    spec = importlib.util.spec_from_file_location("lenient_reader", reference.__file__)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # Data classes look for their module.
    spec.loader.exec_module(module)
    module.need = lambda *_: None  # type: ignore[attr-defined]
    return module


LENIENT = lenient_reader()


def with_digest(data: bytes) -> bytes:
    """The file with the tree digest that a reader computes who does not see what is wrong."""
    file = LENIENT.open_file(data)  # type: ignore[attr-defined]
    LENIENT.compute_digests(file)  # type: ignore[attr-defined]
    head = data[:64] + file.digests[0] + data[80:120]
    return head + h64(head) + data[128:]


def changed(tree: object, *changes: Callable[[Tables], object], metadata: object = None, **options: object) -> bytes:
    """The file of a tree after changes of its tables."""
    tables = from_tree(tree, metadata if metadata is not None else {})
    for change in changes:
        change(tables)
    return with_digest(build(tables, **options))  # type: ignore[arg-type]


def set_all(rows: str, name: str, *values: int) -> Callable[[Tables], None]:
    """Sets a field of the first rows of a vector that are records."""

    def change(tables: Tables) -> None:
        for row, value in zip(getattr(tables, rows), values):
            setattr(row, name, value)

    return change


def put(name: str, value: object) -> Callable[[Tables], None]:
    return lambda tables: setattr(tables, name, value)


def nodes_from(first: int, name: str, *values: int) -> Callable[[Tables], None]:
    def change(tables: Tables) -> None:
        for number, value in enumerate(values, first):
            setattr(tables.nodes[number], name, value)

    return change


def one(data: bytes, dtype: str = "u8") -> Array:
    return Array(dtype, (len(data),), data)


def broken() -> Iterator[Case]:
    for name, about, data in [*headers(), *layouts(), *pools(), *nodes(), *tensors(), *chunks()]:
        yield name, about, data, {}
    yield from stored_bytes()
    yield from other_files()
    yield from names_of_files()
    yield from shared_bytes()
    yield from several_chunks()
    yield from patches()
    yield from bases_here()


# --- Sections 1 and 2 -----------------------------------------------------------------------------


def headers() -> Iterator[tuple[str, str, bytes]]:
    yield "R-1.2-major-2", "version 2.0 with all that version 1.0 has", changed({}, header={"major": 2})
    yield "R-1.2-major-0", "version 0.0 with all that version 1.0 has", changed({}, header={"major": 0})
    yield "R-1.6-minor-1-without-feature", "version 1.1 with both vectors, which are empty", changed({}, put("files", []))


def share_empty_vector(index: bytes) -> bytes:
    """The last two vectors, both empty, are one."""
    cut = table(index) + 64
    assert vector(14)(index) == cut and u32(index, cut) == u32(index, cut + 4) == 0
    result = bytearray(index[:cut] + index[cut + 4 :])
    for number in range(14):
        at = slot(number)(index)
        struct.pack_into("<I", result, at, u32(index, at) - 4)
    return bytes(result)


def layouts() -> Iterator[tuple[str, str, bytes]]:
    zeros = bytes(4)
    yield "R-2.3-empty-vectors-shared", "two empty vectors are one", changed({}, edit_index=share_empty_vector)
    yield "R-2.3-gap-between-vectors", "zeros between two vectors", changed({}, edit_index=insert(vector(0), zeros))
    yield "R-2.4-gap-after-table", "zeros between the table and the vectors", changed({}, edit_index=insert(lambda index: table(index) + 64, zeros))
    yield "R-2.4-gap-before-vtable", "four zeros too many before the vtable", changed({}, edit_index=insert(lambda _: 8, zeros))
    yield "R-2.4-gap-of-8-before-vtable", "eight zeros too many before the vtable", changed([1], edit_index=insert(lambda _: 8, bytes(8)))


# --- Section 3 ------------------------------------------------------------------------------------


def set_texts(*texts: bytes) -> Callable[[Tables], None]:
    return lambda tables: tables.set_texts(list(texts))


def swap(name: str) -> Callable[[Tables], None]:
    """The first two rows of a vector change places."""

    def change(tables: Tables) -> None:
        rows = getattr(tables, name)
        rows[0], rows[1] = rows[1], rows[0]

    return change


def pools() -> Iterator[tuple[str, str, bytes]]:
    for name, text in (("byte-ff", b"\xff"), ("overlong", b"\xc0\x80"), ("surrogate", b"\xed\xa0\x80"), ("above-10ffff", b"\xf4\x90\x80\x80"),
                       ("cut", b"\xe2\x82"), ("overlong-of-3", b"\xe0\x80\xaf"), ("overlong-of-4", b"\xf0\x80\x80\x80"),
                       ("continuation", b"\x80"), ("of-5", b"\xf8\x88\x80\x80\x80")):  # fmt: skip
        # In the metadata, which has no digest: so it does not matter what a reader makes of it.
        yield f"R-3.2-{name}", "a text that is not UTF-8, in the metadata", changed({}, set_texts(b"k", text), metadata={"k": "z"})
    yield "R-3.3-out-of-order", "texts that do not ascend", changed(["a", "b"], set_texts(b"b", b"a"), nodes_from(2, "value", 1, 0))
    yield "R-3.3-twice", "a text that stands twice", changed(["a", "b"], set_texts(b"a", b"a"))
    signed = changed(["a", "\u00e9"], set_texts("\u00e9".encode(), b"a"), nodes_from(2, "value", 1, 0))
    yield "R-3.3-signed-bytes", "texts that ascend only as signed bytes", signed
    yield "R-3.6-65-axes", "a shape of 65 axes", changed(Array("u8", (1,) * 65, b"x"))
    two = [Placeholder("u8", (1,)), Placeholder("u8", (2,))]
    swapped = changed(two, put("dims", [2, 1]), set_all("tensors", "shape", 1, 0))
    yield "R-3.7-out-of-order", "shapes that do not ascend", swapped
    yield "R-3.7-twice", "a shape that stands twice", changed(two, put("dims", [1, 1]))
    ranks = [Placeholder("u8", (9,)), Placeholder("u8", (1, 1))]
    first_axis = changed(ranks, put("dims", [1, 1, 9]), put("shape_ends", [2, 3]), set_all("tensors", "shape", 1, 0))
    yield "R-3.7-by-axis-first", "shapes in the order of their axes, and not by the number of axes first", first_axis
    keys = changed({5: None, 7: None}, put("words", [7, 5]), nodes_from(2, "key", 1, 0))
    yield "R-3.9-keys-out-of-order", "int keys that take the words of each other", keys
    yield "R-3.9-values-out-of-order", "int64s that take the words of each other", changed([5, 7], put("words", [7, 5]), nodes_from(2, "value", 1, 0))
    mixed = changed({5: 7}, put("words", [7, 5]), nodes_from(2, "key", 1), nodes_from(2, "value", 0))
    yield "R-3.9-value-before-key", "an int64 that takes its word before its key does", mixed
    pool = changed([b"ab", b"cd"], put("bytes", b"cdab"), nodes_from(2, "value", 2, 0))
    yield "R-3.10-out-of-order", "bytes that take those of each other", pool


# --- Section 4 ------------------------------------------------------------------------------------

UNSORTED = {key: None for key in "jihgfedcba"}


def nodes() -> Iterator[tuple[str, str, bytes]]:
    yield "R-4.2-kind-0", "a node of kind 0", changed([None], nodes_from(2, "kind", 0))
    yield "R-4.2-kind-16", "a node of kind 16", changed([None], nodes_from(2, "kind", 16))
    large = 2**64
    stored = large.to_bytes(10, "little")
    yield "R-4.7-byte-too-many", "a bigint with a zero too many", changed([large], put("bytes", stored), nodes_from(2, "count", 10))
    stored = (-large).to_bytes(10, "little", signed=True)
    yield "R-4.7-byte-too-many-of-negative", "a negative bigint with a byte too many", changed([-large], put("bytes", stored), nodes_from(2, "count", 10))
    for name, value in (("largest", 2**63 - 1), ("smallest", -(2**63))):
        data = changed([large], put("bytes", value.to_bytes(9, "little", signed=True)))
        yield f"R-4.7-{name}-int64", "a bigint of 9 bytes that is an int64", data
    yield "R-4.7-of-8-bytes", "a bigint of 8 bytes", changed([large], put("bytes", bytes(7) + b"\x40"), nodes_from(2, "count", 8))
    # The metadata has no digest. So what a reader makes of these nodes does not matter to it.
    texts = {"k": "k", "l": "l"}
    yield "R-4.6-bool-of-2", "a bool of 2, in the metadata", changed(None, nodes_from(2, "value", 2), metadata={"k": True})
    counted = changed(None, nodes_from(2, "count", 1), metadata={"k": True})
    yield "R-4.6-bool-with-count", "a bool with a count, in the metadata", counted
    yield "R-4.9-item-without-key", "a child of a dict without a key, in the metadata", changed(7, no_key_of(2), metadata={"k": "k"})
    fields = changed([7], nodes_from(3, "kind", 13), no_key_of(4), metadata={"r": {"k": "k"}})
    yield "R-4.9-field-without-key", "a child of a record without a key, in the metadata", fields
    int_field = changed([7], nodes_from(3, "kind", 13), metadata={"r": {5: "k"}})
    yield "R-4.9-field-with-int-key", "a child of a record with an int key, in the metadata", int_field
    keyed = changed([7], nodes_from(4, "key_kind", 1), metadata={"r": ["k"]})
    yield "R-4.9-element-with-key", "an element of a list with a key, in the metadata", keyed
    yield "R-4.11-text-twice", "a text key that stands twice", changed({"a": 1, "b": "b"}, nodes_from(3, "key", 0))
    yield "R-4.11-int-twice", "an int key that stands twice", changed({1: None, 2: None}, put("words", [1, 1]))
    yield "R-4.11-field-twice", "a field that stands twice", changed({"a": 1, "b": "b"}, nodes_from(0, "kind", 13), nodes_from(3, "key", 0))
    yield "R-4.12-of-another-node", "the entry of a dict that names another node", changed(UNSORTED, put("dict_orders", [(1, 0)]))
    yield "R-4.14-no-node", "a label of a node that does not exist", changed(["a"], put("labels", [(99, 0)]))
    yield "R-4.14-twice", "a node with two labels, in the metadata", changed(None, put("labels", [(2, 0), (2, 1)]), metadata=texts)
    yield "R-4.14-out-of-order", "labels that do not ascend, in the metadata", changed(None, put("labels", [(3, 0), (2, 1)]), metadata=texts)


def no_key_of(number: int) -> Callable[[Tables], None]:
    return nodes_from(number, "key_kind", 0)


def missing_texts() -> Iterator[tuple[str, str, bytes]]:
    """Numbers of texts that do not exist, in files whose texts are all used. The digest is that of the empty text in their place."""

    def made(tree: object, *changes: Callable[[Tables], object], seen_as: object = 7, metadata: "dict | None" = None) -> bytes:
        tables = from_tree(tree, metadata)
        for change in changes:
            change(tables)
        tables.tree_digest = tree_digest(seen_as)
        return build(tables)

    texts = {"k": "k"}
    yield "key", "a key that is no text", made(7, nodes_from(2, "key", 9), metadata=texts)
    yield "string", "a string that is no text", made(7, nodes_from(2, "value", 9), metadata=texts)
    yield "label", "a label that is no text", made(7, put("labels", [(2, 9)]), metadata=texts)
    block = lambda name: [Placeholder("opaque", (2,), None, (name, 1, 1)), "k"]
    yield "block", "a block whose name is no text", made(block("k"), put("blocks", [(9, 1, 1)]), seen_as=block(""))
    axis = lambda name: [Placeholder("u8", (2,), (name,)), "k"]
    yield "axis", "an axis whose name is no text", made(axis("k"), put("axis_names", [9]), seen_as=axis(""))


# --- Section 5 ------------------------------------------------------------------------------------


def tensors() -> Iterator[tuple[str, str, bytes]]:
    hole, array = Placeholder("u8", (3,)), one(b"abc")
    swapped = changed_order([one(b"abc"), one(b"def")])
    yield "R-5.1-out-of-order", "the second tensor is named before the first", swapped
    yield "R-5.2-placeholders-share", "two placeholders name the same tensor", changed([hole, hole])
    yield "R-5.2-placeholder-second", "a placeholder names the tensor of another node", changed([array, array], nodes_from(3, "kind", 15))
    yield "R-5.2-placeholder-first", "a tensor names that of a placeholder", changed([hole, hole], nodes_from(3, "kind", 14))
    unnamed = changed([one(b"")], lambda tables: tables.tensors.append(TensorRecord(3, 0, 0)))
    yield "R-5.3-unnamed", "a tensor without elements that no node names", unnamed
    yield "R-5.6-elements", "2^64 elements of 2 bits", changed(Placeholder("u2", (2**32, 2**32)))
    yield "R-5.6-bytes", "2^63 bytes", changed(Placeholder("u8", (2**63,)))
    yield "R-5.6-bytes-of-blocks", "few elements whose blocks have 2^63 bytes", changed(Placeholder("opaque", (2**32,), None, ("q", 1, 2**31)))
    for dtype, count in (("u4", 3), ("u2", 3), ("f6_e2m3fn", 2)):
        yield f"R-5.7-{count}-of-{dtype}", "elements that do not fill the last byte", changed(Placeholder(dtype, (count,)))
    two = [Placeholder("opaque", (2,), None, ("q", 1, 1)), Placeholder("opaque", (2,), None, ("q", 1, 2))]
    yield "R-5.9-out-of-order", "blocks that do not ascend", changed(two, swap("blocks"), set_all("tensors", "block", 2, 1))
    row = lambda tables: setattr(tables, "blocks", [tables.blocks[0]] * 2)
    yield "R-5.9-twice", "a block that stands twice", changed(two, row)
    yield "R-5.9-no-bytes", "a block of no bytes", changed(Placeholder("opaque", (2,), None, ("q", 1, 0)))
    yield "R-5.10-not-whole", "a last axis that is no multiple of the block", changed(Placeholder("opaque", (2, 3), None, ("q", 2, 1)))
    empty = Placeholder("opaque", (0, 3), None, ("q", 2, 1))
    yield "R-5.10-not-whole-beside-0", "the same beside an axis of 0", changed(empty)
    named = [Array("u8", (1,), b"a", ("x",)), Array("u8", (1,), b"b", ("y",))]
    swapped = changed(named, put("axes", [(1, 0), (0, 1)]))
    yield "R-5.11-out-of-order", "entries of `axes` that do not ascend", swapped
    yield "R-5.11-no-axes", "an entry of `axes` of a tensor without axes", changed(Array("u8", (), b"a", ()))
    crossed = changed(named, put("axes", [(0, 1), (1, 0)]))
    yield "R-5.12-out-of-order", "tensors that take the axis names of each other", crossed


def changed_order(pair: list) -> bytes:
    """Two tensors in the wrong order: the second is named first. The tree digest is that of this order."""
    tables = from_tree(pair)
    nodes_from(2, "value", 1, 0)(tables)
    tables.tree_digest = tree_digest(pair[::-1])
    return build(tables)


# --- Section 6 ------------------------------------------------------------------------------------


def chunks() -> Iterator[tuple[str, str, bytes]]:
    tree = {"a": one(b"four"), "b": one(bytes(4))}
    left = lambda tables: tables.chunks.append(ChunkRecord(b"", False))
    yield "R-6.2-left-over", "a record of a chunk that no tensor has", changed([one(b"four")], left)
    same = {"a": one(bytes(4)), "b": one(bytes(4))}
    second = placed(same)[1].offset
    yield "R-6.12-shared", "two tensors in the same place", changed(same, set_all("chunks", "offset", second, second))
    (alone,) = placed({"a": one(b"four")})
    for name, pad in (("4-further", 4), ("64-further", 64)):
        data = changed({"a": one(b"four")}, pad_before(bytes(pad)), set_all("chunks", "offset", alone.offset + pad))
        yield f"R-6.12-{name}", f"zeros before a chunk: it stands {pad} bytes behind its place", data
    packed = lambda tables: [setattr(chunk, "starts_tensor", False) for chunk in tables.chunks[1:]]
    yield "R-6.12-unaligned", "a tensor right behind the one before it", changed(tree, packed)
    two = [one(bytes(MIB) + b"end")]
    yield "R-6.12-aligned-within", "the second chunk of a tensor at a multiple of 64", changed(two, run(0), set_all("chunks", "starts_tensor", True, True))


def placed(tree: object) -> list[ChunkRecord]:
    """The chunks of a good file with their offsets."""
    tables = from_tree(tree)
    rows = reference.open_file(build(tables)).index.chunks.rows
    for chunk, row in zip(tables.chunks, rows):
        chunk.offset = row[0]
    return tables.chunks


def pad_before(zeros: bytes) -> Callable[[Tables], None]:
    """Zeros before the first chunk; its record stays."""

    def change(tables: Tables) -> None:
        chunk = tables.chunks[0]
        chunk.hash, chunk.stored, chunk.data = h128(chunk.data), len(chunk.data), zeros + chunk.data

    return change


def run(*numbers: int) -> Callable[[Tables], None]:
    """Chunks that are one byte that repeats become frames."""

    def change(tables: Tables) -> None:
        for number in numbers:
            chunk = tables.chunks[number]
            chunk.hash, chunk.codec = h128(chunk.data), ZSTD
            chunk.data = seal(frame(chunk.data))

    return change


def stored_as(codec: int, stored: bytes, logical: bytes | None = None) -> Callable[[Tables], None]:
    """The first chunk has these stored bytes; `logical` are those that its hash is of, or else the chunk's."""

    def change(tables: Tables) -> None:
        chunk = tables.chunks[0]
        chunk.hash, chunk.codec, chunk.data = h128(chunk.data if logical is None else logical), codec, stored

    return change


def stored_bytes() -> Iterator[Case]:
    data = b"sixteen bytes ab"
    tree = {"a": one(data)}
    yield "R-6.4-codec-4", "a chunk of codec 4", changed(tree, stored_as(4, data[:-1], data[:-1])), {}
    yield "R-6.5-raw-longer", "a raw chunk of a byte more, whose hash is right", changed(tree, stored_as(RAW, data + b".", data + b".")), {}
    yield "R-6.5-raw-shorter", "a raw chunk of a byte less, whose hash is right", changed(tree, stored_as(RAW, data[:-1], data[:-1])), {}
    yield "R-6.5-frame-not-shorter", "a frame that is longer than its chunk", changed(tree, stored_as(ZSTD, seal(frame(data)))), {}
    size = len(seal(frame(bytes(19))))
    equal = seal(frame(bytes(size)))
    assert len(equal) == size
    yield "R-6.5-frame-as-long", "a frame that is as long as its chunk", changed({"a": one(bytes(size))}, stored_as(ZSTD, equal)), {}


# --- Section 11 -----------------------------------------------------------------------------------


def referring(tree: object, beside: dict[str, bytes], places: dict[int, tuple[str, int]], *changes: Callable[[Tables], object]) -> bytes:
    tables = from_tree(tree)
    refer(tables, beside, places)
    for change in changes:
        change(tables)
    return build(tables)


def other_files() -> Iterator[Case]:
    beside = {"a.bin": b"first", "b.bin": b"other"}
    tree = {"x": one(b"first"), "y": one(b"other")}
    places = {0: ("a.bin", 0), 1: ("b.bin", 0)}
    swapped = referring(tree, beside, places, swap("files"), set_all("chunks", "file", 2, 1))
    yield "R-11.4-out-of-order", "names of files that do not ascend", swapped, beside
    absent = {"absent.bin": b"first"}
    alone = {"x": one(b"first")}
    beyond = referring(alone, absent, {0: ("absent.bin", 1)})
    yield "R-11.7-beyond-missing-file", "a chunk that reaches beyond the length of its file, which is not there", beyond, {}
    wraps = referring(alone, absent, {0: ("absent.bin", 2**64 - 4)})
    yield "R-11.7-wraps", "the same with an offset whose sum wraps around", wraps, {}
    for rule, name, fields in wrong_records(5):
        set_fields = lambda tables, fields=fields: [setattr(tables.chunks[0], field, value) for field, value in fields.items()]
        data = referring(alone, absent, {0: ("absent.bin", 0)}, set_fields)
        yield f"{rule}-{name}-elsewhere", "a wrong record of a chunk in a file that is not there", data, {}


def names_of_files() -> Iterator[Case]:
    """Names that no file may have. None of these files is there, so a reader without the check calls them incomplete."""
    for name in ("prn", "aux", "com0", "lpt0", "com9.x", "con.tar.gz", "a+b", "a~b", "a=b", "a b", "a,b"):
        spelled = {"+": "-plus-", "~": "-tilde-", "=": "-equals-", " ": "-space-", ",": "-comma-", ".": "-"}
        label = "".join(spelled.get(letter, letter) for letter in name)
        data = referring({"x": one(b"first")}, {name: b"first"}, {0: (name, 0)})
        yield f"R-11.5-{label}", f"a file of the name {name!r}", data, {}


def shared_bytes() -> Iterator[Case]:
    """Chunks of one tensor that share some bytes of another file. The last chunk is raw, and the others are frames."""
    runs = [bytes([1]) * MIB, bytes([2]) * MIB]
    frames = [seal(frame(run)) for run in runs]

    def sharing(there: bytes, *places: int, tail: bytes) -> tuple[bytes, dict[str, bytes]]:
        """A tensor whose first chunks are frames at these places, and whose last one, at the last place, is raw."""
        count = len(places) - 1
        tables = from_tree({"a": one(b"".join(runs[:count]) + tail)})
        beside = {"parts.bin": there}
        refer(tables, beside, {number: ("parts.bin", place) for number, place in enumerate(places)})
        for number in range(count):
            tables.chunks[number].codec, tables.chunks[number].stored = ZSTD, len(frames[number])
        return build(tables), beside

    first, second = frames
    there = first + b"behind"
    data, beside = sharing(there, 0, len(first) - 4, tail=there[-10:])
    yield "R-11.8-partly", "a chunk begins within the one before it", data, beside
    data, beside = sharing(first, 0, 9, tail=first[9:15])
    yield "R-11.8-within", "a chunk lies within the one before it", data, beside
    there = b"before" + first
    data, beside = sharing(there, 6, 0, tail=there[:10])
    yield "R-11.8-backwards", "a chunk ends within the one before it", data, beside
    there = first + second
    data, beside = sharing(there, 0, len(first), 9, tail=first[9:15])
    yield "R-11.8-not-neighbours", "the first and the third chunk share bytes", data, beside


def wrong_records(length: int) -> Iterator[tuple[str, str, dict[str, int]]]:
    """Fields of records of u8 in another file that break a rule, whatever the bytes there are."""
    yield "R-6.4", "codec-4", {"codec": 4, "stored": length - 1}
    yield "R-6.4", "codec-255", {"codec": 255, "stored": length - 1}
    yield "R-6.5", "raw-shorter", {"stored": length - 1}
    yield "R-6.5", "no-bytes", {"codec": ZSTD, "stored": 0}
    yield "R-6.5", "frame-as-long", {"codec": ZSTD, "stored": length}
    yield "R-6.6", "planes-of-u8", {"codec": PLANES, "stored": length - 1}


# --- Section 11: tensors of several chunks --------------------------------------------------------

PLACES = "here", "there", "here"


def several(
    *where: str, change: Callable[[Tables], object] | None = None, tail: int = 100, gap: bytes = b""
) -> tuple[bytes, dict[str, bytes]]:
    """A tensor of one chunk for each of `where`, and one of a few bytes behind it. Each chunk is a byte that repeats, as a frame.

    `gap` stands at the beginning of the other file.
    """
    lengths = [MIB] * (len(where) - 1) + [tail]
    contents = [bytes([1 + i]) * length for i, length in enumerate(lengths)]
    frames = [seal(frame(content)) if len(content) > 40 else content for content in contents]
    there = gap + b"".join(made for made, place in zip(frames, where) if place == "there")
    beside = {"parts.bin": there} if "there" in where else {}
    tables = from_tree({"a": one(b"".join(contents)), "b": one(b"tail")})
    at, chosen = len(gap), {}
    for number, (made, place) in enumerate(zip(frames, where)):
        if place == "there":
            chosen[number] = ("parts.bin", at)
            at += len(made)
    refer(tables, beside, chosen)
    for number, (made, place) in enumerate(zip(frames, where)):
        chunk = tables.chunks[number]
        chunk.hash, chunk.codec = h128(contents[number]), ZSTD if made != contents[number] else RAW
        chunk.stored = len(made)
        if place == "here":
            chunk.data = made
    if change:
        change(tables)
    return build(tables), beside


def good_several() -> Iterator[Case]:
    """Tensors of several chunks, here and in other files: files to accept."""
    for name in ("here-there-here", "there-here-here", "there-here-there-here", "here-here-there", "there-there-here", "here-there-there-here-here"):
        data, beside = several(*name.split("-"))
        yield f"several-{name}", "a tensor of several chunks, in this order here and there", data, beside
    data, beside = several("there", "there", gap=b"odd")
    yield "several-there-unaligned", "chunks in another file that begin anywhere", data, beside


def several_chunks() -> Iterator[Case]:
    def starts(*flags: bool) -> Callable[[Tables], object]:
        return set_all("chunks", "starts_tensor", *flags)

    def further(number: int, pad: int) -> Callable[[Tables], object]:
        """Zeros before a chunk, as many as `pad`; its record says so."""

        def change(tables: Tables) -> None:
            good = reference.open_file(build(tables)).index.chunks.rows
            chunk = tables.chunks[number]
            chunk.stored, chunk.offset = len(chunk.data), good[number][0] + pad
            chunk.data = bytes(pad) + chunk.data

        return change

    data, beside = several(*PLACES, change=starts(True, False, False))
    yield "R-6.12-after-other-unaligned", "a chunk after one in another file stands right behind the one before that", data, beside
    data, beside = several(*PLACES, change=further(2, 64))
    yield "R-6.12-after-other-64-further", "a chunk after one in another file stands at a multiple of 64, but not the first", data, beside
    data, beside = several("there", "here", "here", change=starts(True, False, False))
    yield "R-6.12-first-here-unaligned", "the first chunk of a tensor that is here stands at no multiple of 64", data, beside
    data, beside = several("there", "here", "here", change=starts(True, True, True))
    yield "R-6.12-after-one-here-aligned", "a chunk after one here, behind one in another file, stands at a multiple of 64", data, beside
    data, beside = several("there", "here", "here", change=further(1, 64))
    yield "R-6.12-first-here-64-further", "the first chunk here stands 64 bytes behind its place", data, beside
    data, beside = several("here", "there", change=lambda tables: setattr(tables.chunks[2], "starts_tensor", False))
    yield "R-6.12-next-tensor-unaligned", "the tensor after one that ends in another file stands at no multiple of 64", data, beside


# --- Section 12 -----------------------------------------------------------------------------------


def numbers(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


def patches() -> Iterator[Case]:
    base = bytes(range(64))
    data = base[:5] + bytes([base[5] + 1]) + base[6:]

    def made(stored: bytes, data: bytes, bases: list[ChunkRecord] | None = None) -> bytes:
        tables = from_tree({"a": one(base), "b": one(data)})
        put_patch(tables, 1, stored, bases or [copy.copy(tables.chunks[0])])
        return build(tables)

    good = patch(1, base, data)
    assert good == numbers(1, 1, 1, 1) + b"\x05\x02"
    reference.verify(reference.open_file(made(good, data)))
    yield "R-12.6-no-changes", "a patch of no changes, whose chunk equals its base", made(numbers(0, 0, 0, 0), base), {}
    dense = numbers(64, 64, 1, 1) + b"\0" + b"\0"
    yield "R-12.6-dense-with-gaps", "a dense patch with gaps of 0", made(dense, base), {}
    more = bytes(byte + 1 for byte in base)
    dense = numbers(64, 64, 1, 1) + b"\0" + b"\2"
    yield "R-12.6-dense-with-gaps-and-differences", "a dense patch with gaps of 0 and without a difference of 0", made(dense, more), {}
    yield "R-12.9-no-difference", "a sparse patch whose second difference is 0", made(numbers(2, 2, 2, 2) + b"\x05\x00\x02\x00", data), {}
    yield "R-12.8-two-bytes-for-one", "a gap in two bytes for one", made(numbers(1, 2, 2, 1) + b"\x85\x00\x02", data), {}
    yield "R-12.8-left-over", "a gap that no change takes", made(numbers(1, 2, 2, 1) + b"\x05\x00\x02", data), {}
    yield "R-12.7-byte-behind", "a byte behind the streams", made(good + b"\0", data), {}

    absent = {"absent.bin": base}

    def apart(at: int, **fields: int) -> bytes:
        tables = from_tree({"b": one(data)})
        refer(tables, absent, {})
        put_patch(tables, 0, good, [ChunkRecord(base, False, at, h128(base), len(base), 1, RAW)])
        for field, value in fields.items():
            setattr(tables.bases[0], field, value)
        return build(tables)

    yield "R-12.5-beyond-missing-file", "a base that reaches beyond the length of its file, which is not there", apart(1), {}
    yield "R-12.5-wraps", "the same with an offset whose sum wraps around", apart(2**64 - 4), {}
    for rule, name, fields in wrong_records(len(base)):
        yield f"{rule}-{name}-base", "a wrong record of a base in a file that is not there", apart(0, **fields), {}


def bases_here() -> Iterator[Case]:
    """Records of bases in this file that are not quite those of a chunk. Their recipes are right, so only R-12.4 refuses them."""
    base = bytes(300)
    step = bytes([1]) + bytes(299)
    stored = patch(1, base, step)

    def made(base_chunk: bytes, data: bytes, bytes_of_patch: bytes, change: Callable[[ChunkRecord], None]) -> bytes:
        tables = from_tree({"a": one(base_chunk), "b": one(data)})
        put_patch(tables, 1, bytes_of_patch, [copy.copy(tables.chunks[0])])
        at = reference.open_file(build(tables)).index.chunks.rows[0][0]
        record = tables.bases[0]
        record.offset, record.stored, record.hash = at, len(record.data), h128(record.data)
        record.data = b""  # So the builder does not know whose bytes these are.
        change(record)
        return build(tables)

    def fields(**values: object) -> Callable[[ChunkRecord], None]:
        return lambda record: [setattr(record, name, value) for name, value in values.items()] and None

    def moved(record: ChunkRecord) -> None:
        record.offset += 1

    yield "R-12.4-another-hash", "the record of a base that is that of a chunk but for the hash", made(base, step, stored, fields(hash=bytes(16))), {}
    # The zeros behind the chunk, up to the next multiple of 64, make up for the first one.
    yield "R-12.4-another-offset", "the record of a base that is that of a chunk but for the offset", made(base, step, stored, moved), {}
    # A raw chunk that begins with a frame.
    framed = seal(frame(base))
    holder = framed + bytes(300 - len(framed))
    another_codec = made(holder, step, stored, fields(codec=ZSTD, stored=len(framed)))
    yield "R-12.4-another-codec", "the record of a base that is that of a chunk but for the codec and the stored length", another_codec, {}

    # A patch as long as its chunk, and a longer one.
    for name, length in (("as-long", 18), ("longer", 16)):
        tables = from_tree({"a": one(base[:length]), "b": one(step[:length])})
        short = patch(1, base[:length], step[:length])
        assert len(short) == 18
        put_patch(tables, 1, short, [copy.copy(tables.chunks[0])])
        yield f"R-6.5-patch-{name}", f"a patch of 18 bytes of a chunk of {length}", build(tables), {}


def patch_in_1_0() -> bytes:
    """A patch in version 1.0, which has no vector for its base."""
    data = b"sixteen bytes ab"
    tables = from_tree({"a": one(data)})
    stored_as(PATCH, data[:-1])(tables)
    return build(tables)


def too_many_files() -> bytes:
    """A file that refers to 65,535 others, one more than there may be."""
    count = 65535
    tables = from_tree([Array("u8", (0,), b"")])
    tables.set_texts([b"%05d" % number for number in range(count)])
    tables.dims, one_byte = [1], h128(b"x")
    tables.tree_digest = tree_digest([one(b"x")] * count)
    tables.nodes[0].count, tables.nodes[1].value = count, 2 + count
    tables.nodes[2:] = [NodeRecord(14, value=number) for number in range(count)]
    tables.tensors = [TensorRecord(3, 0, number) for number in range(count)]
    tables.chunks = [ChunkRecord(b"x", True, 0, one_byte, 1, number + 1) for number in range(count)]
    tables.files = [FileRecord(1, one_byte, bytes(16), number, 1) for number in range(count)]
    return build(tables)
