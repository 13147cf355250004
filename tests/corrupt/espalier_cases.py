"""The hostile Espalier files: each is wrong in one place, and all its hashes are right but one under test."""

import copy
import struct
from dataclasses import replace

from corpus_case import INDEX, Case, broken, reference
from espalier_build import (
    HEADER,
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
    h64,
    h128,
)
from espalier_codecs import PLANES, ZSTD, frame, join, planes, seal
from index_edits import entry, extra_field, gaps, insert, move_vtable, poke, slot, table, u32, vector, vtable
from odd_chunks import OddChunk, odd_chunks
from table_edits import append, drop, node, put, retext, row, swap

NO_CHUNK = 2**32 - 1
MIB = 1 << 20
TEXT, INT = 1, 2  # Kinds of keys.
NULL, LIST, SET, RECORD, TENSOR, PLACEHOLDER = 1, 10, 12, 13, 14, 15


def byte_tensor(data=b"data", *shape):
    return Array("u8", shape or (len(data),), data)


def hole(dtype="u8", shape=(4,), **options):
    return Placeholder(dtype, shape, **options)


def two():
    """Two tensors of one byte each, 64 bytes apart."""
    return {"a": byte_tensor(b"a"), "b": byte_tensor(b"b")}


def extend(vector, data):
    """Adds bytes to `text` or `bytes`."""
    return lambda tables: setattr(tables, vector, getattr(tables, vector) + data)


def set_all(vector, rows):
    return lambda tables: setattr(tables, vector, copy.deepcopy(rows))


def flip(data, at):
    """Damage: the lowest bit of one byte."""
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def cases():
    for group in (headers, hashes, indexes, trees, scalars, keys, orders, texts, labels, shapes, tensors,
                  blocks, axes, chunks, codecs, limits):  # fmt: skip
        yield from group()


# --- Section 1 ------------------------------------------------------------------------------------


def headers():
    value = {"w": byte_tensor()}
    good = broken(value)
    size = len(good)

    def with_header(name, code, at, tail=b"", **fields):
        return Case(f"header-{name}", code, broken(value, header=fields, tail=tail), at)

    yield Case("header-empty", "truncated", b"", 0)
    yield Case("header-cut-after-magic", "truncated", good[:8], 8)
    yield Case("header-cut-in-version", "truncated", good[:11], 11)
    yield Case("header-cut-by-one", "truncated", good[:127], 127)
    yield Case("header-alone", "truncated", good[:128], 128)
    yield Case("file-cut-in-index", "truncated", good[:200], 200)
    yield Case("file-cut-by-one", "truncated", good[:-1], size - 1)
    yield Case("file-cut-before-blobs", "truncated", good[:-4], size - 4)
    yield Case("file-with-one-byte-more", "trailing_bytes", good + b"\0", size)
    yield Case("file-twice", "trailing_bytes", good + good, size)
    # Readers of zip files start at the end, so the same bytes would be two files.
    yield Case("file-with-zip-behind", "trailing_bytes", good + b"PK\5\6" + bytes(18), size)
    yield Case("file-with-zip-before", "truncated", b"PK\3\4" + bytes(26) + good, 30 + size)

    yield with_header("magic-wrong", "not_a_checkpoint", 0, magic=b"\x89ESPM\r\n\x1a")
    yield with_header("magic-without-first-byte", "not_a_checkpoint", 0, magic=b"\x09ESPL\r\n\x1a")
    yield Case("header-zeros", "not_a_checkpoint", bytes(128), 0)  # A save that was interrupted.
    yield Case("header-crlf-to-lf", "not_a_checkpoint", good.replace(b"\r\n", b"\n"), 0)
    yield Case("header-lf-to-crlf", "not_a_checkpoint", good.replace(b"\n", b"\r\n"), 0)
    yield Case("header-cut-at-control-z", "truncated", good[: good.index(b"\x1a")], 7)
    yield Case("header-latin1-to-utf8", "not_a_checkpoint", good.decode("latin1").encode(), 0)

    yield with_header("major-0", "unsupported_version", 8, major=0)
    yield with_header("major-2", "unsupported_version", 8, major=2)
    yield with_header("major-65535", "unsupported_version", 8, major=65535)
    # After eight bytes, a brace: as in a safetensors file.
    yield with_header("major-of-brace", "unsupported_version", 8, major=0x7B)
    yield with_header("minor-1", "header_invalid", 10, minor=1)
    yield with_header("minor-2", "unsupported_version", 8, minor=2)
    # Another version may keep its hash elsewhere, and may have a shorter header.
    newer = broken(value, header={"major": 2, "header_hash": b"elsewhere"[:8]})
    yield Case("header-newer-without-our-hash", "unsupported_version", newer, 8)
    yield Case("header-newer-and-short", "unsupported_version", newer[:12], 8)
    yield Case("header-big-endian", "unsupported_version", big_endian(good), 8)
    words = b"".join(good[i : i + 4][::-1] for i in range(0, size - size % 4, 4))
    yield Case("header-words-swapped", "not_a_checkpoint", words, 0)

    yield with_header("feature-2", "header_invalid", 10, features=4)
    yield with_header("feature-3", "header_invalid", 10, features=8)
    for bit in (4, 63):
        yield with_header(f"feature-{bit}", "unsupported_feature", 16, features=1 << bit)
    for bit in (0, 1):
        yield with_header(f"feature-{bit}-unused", "header_invalid", INDEX, features=1 << bit)
    # An unknown bit beside known ones.
    yield with_header("features-all", "unsupported_feature", 16, features=2**64 - 1)
    yield with_header("reserved-first", "header_invalid", 12, zero=1)
    yield with_header("reserved-high-byte", "header_invalid", 12, zero=1 << 31)
    yield with_header("reserved-at-80", "header_invalid", 80, zeros=b"\1" + bytes(39))
    yield with_header("reserved-at-119", "header_invalid", 80, zeros=bytes(39) + b"\1")

    yield with_header("length-too-long", "truncated", size, file_length=size + 1)
    yield with_header("length-too-short", "trailing_bytes", size - 1, file_length=size - 1)
    yield with_header("length-of-index", "trailing_bytes", size - 4, file_length=size - 4)
    yield with_header("length-largest", "truncated", size, file_length=2**64 - 1)
    yield with_header("length-0", "header_invalid", 40, file_length=0)
    yield with_header("length-128", "header_invalid", 40, file_length=128)
    for offset in (0, 120, 136, 2**32 + 128, 2**64 - 128):
        yield with_header(f"index-at-{offset}", "header_invalid", 32, index_offset=offset)
    yield with_header("index-length-0", "header_invalid", 40, index_length=0)
    yield with_header("index-length-past-end", "header_invalid", 40, index_length=size - 127)
    yield with_header("index-length-wraps", "header_invalid", 40, index_length=2**64 - 128)
    # One more than the format allows, in a file that claims to have room for it.
    large = {"file_length": 2**40, "index_length": 2**31}
    yield with_header("index-length-over-cap", "header_invalid", 40, **large)
    large = {"file_length": 2**40, "index_length": 2**31 - 1}
    yield with_header("index-length-at-cap", "limit_exceeded", 40, **large)
    # Within the format's cap, and over the reader's: refused before memory for it is asked for.
    large = {"file_length": 2**40, "index_length": 2**30 + 1}
    yield with_header("index-length-over-limit", "limit_exceeded", 40, **large)


def big_endian(data):
    """The same header as a writer would store it that forgot to swap bytes."""
    codes = "".join(code for _, code in HEADER)
    front = struct.pack(">" + codes, *struct.unpack("<" + codes, data[:120]))
    return front + h64(front)[::-1] + data[128:]


# --- Hashes, and bytes that only verifying looks at -----------------------------------------------


def hashes():
    value = two()
    good = broken(value)
    first, second = good.rindex(b"a"), good.rindex(b"b")
    yield Case("hash-of-header", "header_corrupt", broken(value, header={"header_hash": b"wrong..."}), 120)
    yield Case("hash-of-header-bit", "header_corrupt", flip(good, 127), 120)
    yield Case("header-bit-flipped", "header_corrupt", flip(good, 70), 120)
    yield Case("hash-of-index", "index_corrupt", broken(value, header={"index_hash": bytes(16)}), INDEX)
    swapped = broken(value, header={"index_hash": good[56:64] + good[48:56]})
    yield Case("hash-of-index-high-first", "index_corrupt", swapped, INDEX)
    yield Case("index-bit-flipped", "index_corrupt", flip(good, INDEX + 40), INDEX)

    wrong = broken(value, row("chunks", 1, hash=bytes(16)))
    yield Case("hash-of-chunk", "chunk_corrupt", wrong, second, "b", "read")
    yield Case("chunk-bit-flipped-first", "chunk_corrupt", flip(good, first), first, "a", "read")
    yield Case("chunk-bit-flipped-last", "chunk_corrupt", flip(good, second), second, "b", "read")
    exchanged = bytearray(good)
    exchanged[first], exchanged[second] = good[second], good[first]
    yield Case("chunks-exchanged", "chunk_corrupt", bytes(exchanged), first, "a", "read")

    yield Case("padding-after-index", "padding_corrupt", flip(good, first - 1), first - 1, "a", "verify")
    yield Case("padding-between-blobs", "padding_corrupt", flip(good, first + 1), first + 1, "b", "verify")
    yield Case("padding-before-second", "padding_corrupt", flip(good, second - 1), second - 1, "b", "verify")

    wrong = broken(value, header={"tree_digest": bytes(16)})
    yield Case("tree-digest-zero", "digest_mismatch", wrong, 64, None, "verify")
    other = broken({"a": 1}, put("words", 0, 2))
    yield Case("tree-digest-of-another-tree", "digest_mismatch", other, 64, None, "verify")
    renamed = broken({"a": 1}, retext(b"a", b"b"))
    yield Case("tree-digest-of-another-key", "digest_mismatch", renamed, 64, None, "verify")
    relabelled = broken(Labelled("a", 1), retext(b"a", b"b"))
    yield Case("tree-digest-of-another-label", "digest_mismatch", relabelled, 64, None, "verify")
    reshaped = broken(byte_tensor(b"ab", 2, 1), swap("dims", 0, 1))
    yield Case("tree-digest-of-another-shape", "digest_mismatch", reshaped, 64, None, "verify")
    rehashed = broken(byte_tensor(), row("chunks", 0, data=b"DATA"))
    yield Case("tree-digest-of-other-data", "digest_mismatch", rehashed, 64, None, "verify")
    yield Case("set-with-equal-elements", "tree_invalid", broken({"s": [1, 1]}, node("s", kind=SET)), None,
               "s", "verify")  # fmt: skip
    yield Case("set-with-equal-containers", "tree_invalid",
               broken({"s": [{"a": 1, "b": 2}, {"b": 2, "a": 1}]}, node("s", kind=SET)), None, "s",
               "verify")  # fmt: skip
    equal = broken(None, node_of_metadata("s", kind=SET), metadata={"s": [None, None]})
    yield Case("set-with-equal-elements-in-metadata", "tree_invalid", equal, None, "(metadata)/s", "verify")


def node_of_metadata(key, **values):
    def change(tables):
        root = tables.nodes[1]
        for child in tables.nodes[root.value : root.value + root.count]:
            if tables.texts()[child.key].decode() == key:
                for name, value in values.items():
                    setattr(child, name, value)

    return change


# --- Section 2 ------------------------------------------------------------------------------------


def indexes():
    # Every vector has elements, and those of 8 bytes do not happen to be aligned anyway.
    value = {
        "w": Array("f32", (2, 3), bytes(24), ("row", "")),
        "q": Array("opaque", (32,), bytes(18), None, ("q4", 32, 18)),
        "n": Labelled("label", {i: 7 for i in range(9, 0, -1)}),
        "b": b"bytes",
    }
    (length,) = struct.unpack_from("<Q", broken(value), 40)
    plain = broken(value)[INDEX : INDEX + length]

    def edited(name, edit, at=None):
        return Case(f"index-{name}", "index_invalid", broken(value, edit_index=edit), at)

    yield edited("of-1-byte", lambda index: index[:1])
    yield edited("of-7-bytes", lambda index: index[:7])
    yield edited("of-8-bytes", lambda index: index[:8])
    yield edited("of-zeros", lambda index: bytes(len(index)))
    yield edited("cut-by-one", lambda index: index[:-1])
    yield edited("cut-by-8", lambda index: index[:-8])
    yield edited("identifier-wrong", poke("<4s", lambda index: 4, b"ESPM"))
    yield edited("identifier-missing", poke("<4s", lambda index: 4, bytes(4)))
    yield edited("root-outside", poke("<I", lambda index: 0, 2**32 - 4))
    yield edited("root-at-end", poke("<I", lambda index: 0, len))
    yield edited("root-misaligned", poke("<I", lambda index: 0, lambda index: table(index) + 1))
    yield edited("root-0", poke("<I", lambda index: 0, 0))
    yield edited("vtable-before-index", poke("<i", table, 2**30))
    yield edited("vtable-after-index", poke("<i", table, -(2**30)))
    yield edited("vtable-misaligned", poke("<i", table, 33))
    yield edited("vtable-elsewhere", move_vtable)
    yield edited("vtable-short", poke("<H", vtable, 32))
    yield edited("vtable-odd", poke("<H", vtable, 33))
    yield edited("vtable-long", poke("<H", vtable, 65534))
    yield edited("table-long", poke("<H", lambda index: vtable(index) + 2, 68))
    yield edited("field-missing", poke("<H", entry(5), 0))
    yield edited("field-outside-table", poke("<H", entry(0), 64))
    yield edited("field-shared", poke("<H", entry(14), 8))
    yield edited("field-unknown", extra_field)
    yield edited("reference-outside", poke("<I", slot(0), 2**31))
    yield edited("reference-0", poke("<I", slot(0), 0))
    yield edited("reference-wraps", poke("<I", slot(0), 2**32 - 4))
    yield edited("vectors-shared", poke("<I", slot(10), lambda i: vector(9)(i) - slot(10)(i)))
    yield edited("vectors-overlap", poke("<I", slot(8), lambda i: u32(i, slot(8)(i)) - 4))
    yield edited("vector-too-long", poke("<I", vector(0), 2**32 - 1))
    # The size in bytes wraps around to a small number in 32 bits.
    yield edited("vector-length-wraps", poke("<I", vector(0), 2**28))
    yield edited("vector-over-table", poke("<I", vector(14), 3))
    yield edited("vector-short", poke("<I", vector(14), 0))
    yield edited("vector-misaligned", insert(vector(5), bytes(4)))
    yield edited("vector-misaligned-for-its-length", insert(vector(1), bytes(2)))
    yield edited("gap-at-end", insert(len))
    yield edited("gap-between-vectors", insert(vector(3)))
    yield edited("gap-after-table", insert(lambda index: table(index) + 64))
    yield edited("gap-after-vtable", insert(table))
    yield edited("gap-before-vtable", insert(lambda index: 8))
    for position in (gaps(plain)[0], gaps(plain)[-1]):
        name = "padding-before-vtable" if position < vtable(plain) else "padding-after-vector"
        yield edited(name, poke("B", lambda index, at=position: at, 1), INDEX + position)

    first, last = (poke("B", lambda index, at=at: at, 1) for at in (gaps(plain)[0], gaps(plain)[-1]))
    yield edited("padding-twice", lambda index: first(last(index)), INDEX + gaps(plain)[0])

    def laid_out(name, **layout):
        return Case(f"index-{name}", "index_invalid", broken(value, layout=layout))

    yield laid_out("vectors-out-of-order", vector_order=[1, 0, *range(2, 15)])
    yield laid_out("vectors-reversed", vector_order=[*range(14, -1, -1)])
    yield laid_out("fields-out-of-order", field_order=[*range(13), 14, 13])
    share = poke("<I", slot(13), lambda index: vector(14)(index) - slot(13)(index))
    yield Case("index-empty-vectors-shared", "index_invalid", broken(None, edit_index=share))


# --- Section 4: nodes -----------------------------------------------------------------------------


def trees():
    def case(name, data, at=None, path=None, code="tree_invalid"):
        return Case(f"tree-{name}", code, data, at, path)

    lists = {"a": [1], "b": [2]}  # Nodes: 0 root, 1 metadata, 2 a, 3 b, 4 of a, 5 of b.
    yield case("no-nodes", broken(None, set_all("nodes", [])), INDEX)
    yield case("one-node", broken(None, drop("nodes")), INDEX)
    yield case("cycle", broken(lists, node("a", value=2)), ("nodes", 2))
    yield case("cycle-through-root", broken(lists, node("a", value=0)), ("nodes", 2))
    yield case("root-is-its-own-child", broken([None], row("nodes", 0, value=0)), ("nodes", 0))
    yield case("two-parents", broken(lists, node("b", value=4)), ("nodes", 3))
    yield case("children-overlap", broken(lists, node("a", count=2)), ("nodes", 3))
    yield case("children-skip-a-node", broken(lists, node("a", value=5)), ("nodes", 2))
    yield case("children-out-of-bounds", broken(lists, node("b", count=2)), ("nodes", 3))
    yield case("children-wrap", broken(lists, node("b", count=2**32 - 1)), ("nodes", 3))
    yield case("children-start-past-end", broken(lists, node("b", value=2**32 - 1)), ("nodes", 3))
    yield case("empty-container-elsewhere", broken({"a": [], "b": [1]}, node("a", value=5)), ("nodes", 2))
    yield case("orphan", broken([1], append("nodes", NodeRecord(NULL))), ("nodes", 3))
    yield case("orphan-of-emptied-root", broken([None], row("nodes", 0, count=0)), ("nodes", 1))
    yield case("children-of-metadata-first", broken(
        [None], swap("nodes", 2, 3), row("nodes", 0, value=3), row("nodes", 1, value=2),
        metadata={"m": None}), ("nodes", 0))  # fmt: skip
    for kind in (0, 16, 255):
        yield case(f"kind-{kind}", broken([None], row("nodes", 2, kind=kind)), ("nodes", 2))
    yield case("container-as-scalar", broken([[1]], row("nodes", 2, kind=NULL, value=0, count=0)), ("nodes", 1))
    yield case("scalar-as-container", broken([None], row("nodes", 2, kind=LIST)), ("nodes", 2))
    yield case("reserved-field", broken([None], row("nodes", 2, zero=1)), ("nodes", 2))
    yield case("reserved-field-high-bit", broken([None], row("nodes", 2, zero=1 << 15)), ("nodes", 2))
    yield case("metadata-list", broken(None, row("nodes", 1, kind=LIST)), ("nodes", 1))
    yield case("metadata-record", broken(None, row("nodes", 1, kind=RECORD)), ("nodes", 1))
    yield case("metadata-null", broken(None, row("nodes", 1, kind=NULL, value=0)), ("nodes", 1))
    for name, kind in (("tensor", TENSOR), ("placeholder", PLACEHOLDER)):
        first = 0 if kind == TENSOR else NO_CHUNK
        added = broken(None, append("tensors", TensorRecord(3, 0, first)), append("shape_ends", 0),
                       node_of_metadata("t", kind=kind),
                       append("chunks", *([ChunkRecord(b"x", True)] if kind == TENSOR else [])),
                       metadata={"t": None})  # fmt: skip
        yield case(f"{name}-in-metadata", added, ("nodes", 2), "(metadata)/t")


def scalars():
    def case(name, data, at=None, path=None, code="tree_invalid"):
        return Case(f"value-{name}", code, data, at, path)

    for name, value in (("null", None), ("bool", True), ("int64", 5), ("float64", 0.5),
                        ("complex128", 1j), ("string", "s"), ("tensor", byte_tensor()),
                        ("placeholder", hole())):  # fmt: skip
        yield case(f"{name}-with-count", broken({"a": value}, node("a", count=1)), ("nodes", 2), "a")
    yield case("null-with-value", broken({"a": None}, node("a", value=1)), ("nodes", 2), "a")
    yield case("bool-2", broken({"a": True}, node("a", value=2)), ("nodes", 2), "a")
    yield case("bool-256", broken({"a": True}, node("a", value=256)), ("nodes", 2), "a")
    yield case("string-past-pool", broken({"a": "s"}, node("a", value=2)), ("nodes", 2), "a", "text_invalid")

    numbers = [1, 2.0, 3j]  # Words: 0, 1, and 2 with 3.
    yield case("words-out-of-order", broken(numbers, row("nodes", 2, value=1), row("nodes", 3, value=0)),
               ("nodes", 2))  # fmt: skip
    yield case("word-shared", broken(numbers, row("nodes", 3, value=0)), ("nodes", 3))
    yield case("word-skipped", broken([1, 2], row("nodes", 3, value=2), append("words", 9)), ("nodes", 3))
    yield case("word-unused", broken(numbers, append("words", 9)), INDEX)
    yield case("word-missing", broken([1], drop("words")), ("nodes", 2))
    yield case("word-of-complex-missing", broken([1j], drop("words")), ("nodes", 2))
    yield case("words-without-numbers", broken(None, append("words", 9)), INDEX)

    blobs = {"a": b"abc", "b": b"de"}
    yield case("bytes-out-of-order", broken(blobs, node("a", value=2), node("b", value=0)), ("nodes", 2), "a")
    yield case("bytes-overlap", broken(blobs, node("b", value=2)), ("nodes", 3), "b")
    yield case("bytes-skipped", broken(blobs, node("b", value=4, count=1)), ("nodes", 3), "b")
    yield case("bytes-past-pool", broken(blobs, node("b", count=3)), ("nodes", 3), "b")
    yield case("bytes-wrap", broken(blobs, node("b", count=2**32 - 1)), ("nodes", 3), "b")
    yield case("bytes-unused", broken(blobs, extend("bytes", b"x")), INDEX)

    def bigint(name, value, size, more=b"", pool=None):
        change = lambda tables: setattr(tables, "bytes", tables.bytes + more if pool is None else pool)
        data = broken({"a": value}, change, node("a", count=size))
        return case(f"bigint-{name}", data, ("nodes", 2), "a")

    yield bigint("with-zero-too-many", 2**64, 10, b"\0")
    yield bigint("with-ff-too-many", -(2**64), 10, b"\xff")
    yield bigint("that-fits-int64", 2**64, 8, pool=b"\1" * 8)
    yield bigint("in-nine-bytes-that-fits-int64", 2**64, 9, pool=b"\1" * 8 + b"\0")
    yield bigint("negative-in-nine-bytes", -(2**64), 9, pool=b"\x80" * 8 + b"\xff")
    yield bigint("empty", 2**64, 0, pool=b"")


def keys():
    def case(name, data, at=None, path=None):
        return Case(f"key-{name}", "key_invalid", data, at, path)

    yield case("of-root", broken("a", row("nodes", 0, key_kind=TEXT)), ("nodes", 0))
    # Only the tree can tell: the word is the next one, and is used.
    yield case("of-root-int", broken(None, append("words", 9), row("nodes", 0, key_kind=INT)), ("nodes", 0))
    yield case("of-metadata", broken("a", row("nodes", 1, key_kind=TEXT)), ("nodes", 1))
    for name, value in (("list", ["a"]), ("tuple", ("a",)), ("set", Set(["a"]))):
        yield case(f"of-element-of-{name}", broken(value, row("nodes", 2, key_kind=TEXT)), ("nodes", 2))
    yield case("int-of-element", broken([None], append("words", 9), row("nodes", 2, key_kind=INT)), ("nodes", 2))
    yield case("missing-in-dict", broken({"a": "a"}, node("a", key_kind=0, key=0)), ("nodes", 2))
    yield case("missing-in-record", broken(Record({"a": "a"}), node("a", key_kind=0, key=0)), ("nodes", 2))
    yield case("int-in-record", broken(Record({"a": "a"}), node("a", key_kind=INT, key=0), append("words", 9)),
               ("nodes", 2))  # fmt: skip
    yield case("of-unknown-kind", broken({"a": "a"}, node("a", key_kind=3)), ("nodes", 2))
    yield case("without-kind", broken(["a", "b"], row("nodes", 3, key=1)), ("nodes", 3))
    yield case("past-text-pool", broken({"a": None}, node("a", key=1)), ("nodes", 2))
    yield case("past-text-pool-largest", broken({"a": None}, node("a", key=2**32 - 1)), ("nodes", 2))
    yield case("int-out-of-order", broken({1: None, 2: None}, node(1, key=1)), ("nodes", 2))
    yield case("int-past-words", broken({1: None}, drop("words")), ("nodes", 2))

    yield case("twice", broken({"a": "b", "b": None}, row("nodes", 3, key=0)), ("nodes", 3))
    yield case("twice-apart", broken({"a": "c", "b": "a", "c": None}, node("c", key=0)), ("nodes", 4))
    yield case("twice-descending", broken({"c": "b", "b": "a", "a": None}, node("a", key=1)), ("nodes", 4))
    yield case("twice-in-record", broken(Record({"a": "b", "b": None}), row("nodes", 3, key=0)), ("nodes", 3))
    yield case("int-twice", broken({1: None, 2: None}, put("words", 1, 1)), ("nodes", 3))
    eight = {i: None for i in range(8)}
    yield case("twice-in-dict-of-eight", broken(eight, put("words", 7, 0)), ("nodes", 9))
    nine = {i: None for i in range(9)}
    yield case("twice-in-large-dict", broken({"d": nine}, put("words", 8, 7)), ("nodes", 2), "d")
    reverse = {i: None for i in range(9, 0, -1)}
    yield case("twice-in-large-dict-with-order", broken({"d": reverse}, put("words", 8, 2)), ("nodes", 2), "d")
    signs = {i: None for i in (-1, *range(8))}
    # An int key is signed: as unsigned numbers these ascend.
    wrong = broken({"d": signs}, set_all("words", [*range(8), 2**64 - 1]))
    yield case("order-unsigned", wrong, ("nodes", 2), "d")


def orders():
    reverse = {i: None for i in range(9, 0, -1)}
    sorted_dict = {i: None for i in range(9)}

    def case(name, value, *changes, at=None, path=None, code="key_invalid"):
        return Case(f"dict-order-{name}", code, broken(value, *changes), at, path)

    d = {"d": reverse}
    at, path = ("nodes", 2), "d"
    yield case("missing", d, drop("dict_orders"), set_all("order", []), at=at, path=path)
    yield case("missing-for-last-two", {"d": sorted_dict}, swap("words", 7, 8), at=at, path=path)
    yield case("missing-for-texts-before-ints", {"d": {**sorted_dict, "t": None}},
               swap_keys(2 + 1 + 8, 2 + 1 + 9), at=at, path=path)  # fmt: skip
    yield case("needless", {"d": sorted_dict}, append("dict_orders", (2, 0)), append("order", *range(9)),
               at=at, path=path)  # fmt: skip
    yield case("of-small-dict", {"d": {2: None, 1: None}}, append("dict_orders", (2, 0)), append("order", 1, 0),
               at=INDEX)  # fmt: skip
    yield case("of-list", {"d": [None] * 9}, append("dict_orders", (2, 0)), append("order", *range(9)), at=INDEX)
    yield case("of-no-node", d, append("dict_orders", (10**6, 9)), at=INDEX)
    yield case("twice", d, append("dict_orders", (2, 9)), append("order", *range(8, -1, -1)), at=INDEX)
    yield case("wrong", d, swap("order", 0, 1), at=at, path=path)
    yield case("wrong-at-end", d, swap("order", 7, 8), at=at, path=path)
    yield case("position-twice", d, put("order", 8, 1), at=at, path=path)
    yield case("position-outside", d, put("order", 8, 9), at=at, path=path)
    yield case("position-largest", d, put("order", 0, 2**32 - 1), at=at, path=path)
    yield case("not-in-sequence", d, put("dict_orders", 0, (2, 1)), append("order", 0), at=at, path=path)
    yield case("cut-off", d, drop("order"), at=at, path=path)
    yield case("left-over", d, append("order", 0), at=INDEX)
    both_dicts = {"a": reverse, "b": reverse}
    yield case("entries-descending", both_dicts, swap("dict_orders", 0, 1), at=at, path="a")
    yield case("shared", both_dicts, put("dict_orders", 1, (3, 0)), at=("nodes", 3), path="b")
    record = {"d": Record({chr(105 - i): None for i in range(9)})}
    yield case("of-record-missing", record, drop("dict_orders"), set_all("order", []), at=at, path=path)


def swap_keys(a, b):
    """Exchanges the keys of two nodes: `a` has the last int key of the file, and `b` a text."""

    def change(tables):
        first, second = tables.nodes[a], tables.nodes[b]
        first.key_kind, second.key_kind = second.key_kind, first.key_kind
        first.key, second.key = second.key, first.key

    return change


# --- Section 3: texts -----------------------------------------------------------------------------


def texts():
    def case(name, data, at=None):
        return Case(f"text-{name}", "text_invalid", data, at)

    def of_bytes(name, raw, bad=0):
        """A string with those bytes; number `bad` is the first wrong one."""
        return case(name, broken("zz", retext(b"zz", raw)), ("text", bad))

    yield of_bytes("lone-continuation", b"a\x80", 1)
    yield of_bytes("byte-ff", b"a\xff", 1)
    yield of_bytes("cut-character", b"ab\xc3", 2)
    yield of_bytes("cut-character-of-four", b"\xf0\x9f\x98")
    yield of_bytes("overlong-nul", b"\xc0\x80")
    yield of_bytes("overlong-slash", b"\xe0\x80\xaf")
    yield of_bytes("overlong-of-four", b"\xf0\x80\x80\xaf")
    yield of_bytes("surrogate", b"\xed\xa0\x80")
    yield of_bytes("surrogate-pair", b"\xed\xa0\xbd\xed\xb8\x80")
    yield of_bytes("above-10ffff", b"\xf4\x90\x80\x80")
    yield of_bytes("lead-f5", b"\xf5\x80\x80\x80")
    yield of_bytes("bad-after-long-ascii", b"a" * 100 + b"\xfe", 100)
    # Both texts together are UTF-8; cut apart, neither is.
    split = broken(["a", "b"], lambda tables: tables.set_texts([b"a\xc3", b"\xa9"]))
    yield case("boundary-inside-character", split, ("text", 2))
    pool = lambda *raw: lambda tables: tables.set_texts([*raw])
    yield case("pool-unsorted", broken(["a", "b"], pool(b"b", b"a")), ("text_ends", 1))
    yield case("pool-unsorted-by-sign", broken(["a", "b"], pool("é".encode(), b"z")), ("text_ends", 1))
    yield case("pool-duplicate", broken(["a", "b"], pool(b"b", b"b")), ("text_ends", 1))
    yield case("pool-duplicate-empty", broken(["a", "b"], pool(b"", b"")), ("text_ends", 1))
    yield case("pool-longer-first", broken(["a", "b"], pool(b"ab", b"a")), ("text_ends", 1))
    yield case("unused", broken("a", pool(b"a", b"b")), ("text_ends", 1))
    yield case("unused-first", broken("b", pool(b"a", b"b"), row("nodes", 0, value=1)), ("text_ends", 0))
    yield case("unused-empty", broken(None, pool(b"")), ("text_ends", 0))
    many = [bytes([i]) for i in range(65)]
    unused = broken([chr(i) for i in range(64)], pool(*many))
    yield case("unused-after-64", unused, ("text_ends", 64))
    yield case("ends-decrease", broken(["a", "b"], put("text_ends", 0, 2), put("text_ends", 1, 1)), ("text_ends", 1))
    yield case("ends-past-pool", broken(["a", "b"], put("text_ends", 1, 3)), ("text_ends", 1))
    yield case("ends-short-of-pool", broken(["a", "b"], extend("text", b"c")), INDEX)
    yield case("pool-without-ends", broken(None, extend("text", b"c")), INDEX)


def labels():
    def case(name, data, at=None):
        return Case(f"label-{name}", "tree_invalid", data, at)

    value = [Labelled("a", None), Labelled("b", None)]
    yield case("out-of-order", broken(value, swap("labels", 0, 1)), ("labels", 1))
    yield case("twice", broken(value, put("labels", 1, (2, 1))), ("labels", 1))
    yield case("of-no-node", broken(value, put("labels", 1, (4, 1))), ("labels", 1))
    yield case("of-largest-node", broken(value, put("labels", 1, (2**32 - 1, 1))), ("labels", 1))
    yield case("without-text", broken(value, put("labels", 1, (3, 2))), ("labels", 1))


# --- Section 5 ------------------------------------------------------------------------------------


def shapes():
    def case(name, data, at=None):
        return Case(f"shape-{name}", "tensor_invalid", data, at)

    value = [hole(shape=(2,)), hole(shape=(3,))]
    yield case("pool-unsorted", broken(value, swap("dims", 0, 1)), ("shape_ends", 1))
    yield case("pool-duplicate", broken(value, put("dims", 1, 2)), ("shape_ends", 1))
    yield case("pool-unsorted-by-axes",
               broken([hole(shape=(9,)), hole(shape=(1, 1))], set_all("shape_ends", [2, 3])), ("shape_ends", 1))
    deep = [hole(shape=(1, 2)), hole(shape=(1, 3))]
    yield case("pool-unsorted-by-last-axis", broken(deep, swap("dims", 1, 3)), ("shape_ends", 1))
    yield case("pool-duplicate-scalar", broken([hole(shape=())], append("shape_ends", 0)), ("shape_ends", 1))
    yield case("unused", broken(value, append("dims", 4), append("shape_ends", 3)), ("shape_ends", 2))
    yield case("unused-first", broken([hole(shape=(2,))], append("dims", 4), append("shape_ends", 2),
                                      row("tensors", 0, shape=1)), ("shape_ends", 0))  # fmt: skip
    yield case("ends-decrease", broken(value, set_all("shape_ends", [2, 1])), ("shape_ends", 1))
    yield case("ends-past-pool", broken(value, put("shape_ends", 1, 3)), ("shape_ends", 1))
    yield case("ends-short-of-pool", broken(value, append("dims", 4)), INDEX)
    yield case("of-65-axes", broken(hole(shape=(1,) * 64), append("dims", 1), put("shape_ends", 0, 65)),
               ("shape_ends", 0))  # fmt: skip


def tensors():
    def case(name, value, *changes, path="t", code="tensor_invalid", at=("nodes", 2)):
        return Case(f"tensor-{name}", code, broken(value, *changes), at, path)

    t = {"t": byte_tensor()}
    h = {"t": hole()}
    yield case("dtype-0", t, row("tensors", 0, dtype=0))
    yield case("dtype-29", t, row("tensors", 0, dtype=29))
    yield case("dtype-255-of-placeholder", h, row("tensors", 0, dtype=255))
    yield case("reserved-field", t, row("tensors", 0, zero=1))
    yield case("shape-missing", t, row("tensors", 0, shape=1))
    yield case("shape-largest", t, row("tensors", 0, shape=2**32 - 1))

    def shaped(name, dtype, shape, **options):
        """A placeholder, so that there are no chunks that could be wrong instead."""
        start = tuple(1 for _ in shape)
        tables = lambda dims: lambda tables: setattr(tables, "dims", list(dims))
        kind = lambda tables: setattr(tables.tensors[0], "dtype", dtype)
        return case(name, {"t": hole(shape=start)}, tables(shape), kind, **options)

    I4, F6, I2, C128, F64, U8 = 22, 26, 24, 15, 13, 3
    yield shaped("product-of-2^64", U8, (2**32, 2**32))
    yield shaped("product-wraps-to-0", U8, (2**63, 2))
    yield shaped("product-wraps-to-1", U8, (2**64 - 1, 2**64 - 1))
    yield shaped("product-wraps-later", U8, (2**63, 2, 3))
    yield shaped("bytes-of-2^63", U8, (2**63,))
    yield shaped("bytes-of-2^64-1", U8, (2**64 - 1,))
    yield shaped("bits-overflow", F64, (2**61,))
    yield shaped("bits-wrap-to-small", C128, (2**60 + 1,))
    yield shaped("six-bits-overflow", F6, (2**64 - 4,))
    yield shaped("four-bits-half-byte", I4, (3,))
    yield shaped("two-bits-half-byte", I2, (2,))
    yield shaped("six-bits-half-byte", F6, (2,))
    yield shaped("four-bits-half-byte-by-product", I4, (3, 5))

    yield case("zero-elements-with-chunk", {"t": byte_tensor(b"", 0)}, append("chunks", ChunkRecord(b"x", True)),
               code="chunk_invalid", at=("chunks", 0), path=None)  # fmt: skip
    # The axis of 0 decides, not the product of the others.
    yield case("zero-elements-as-one", t, put("dims", 0, 0), code="chunk_invalid", at=("chunks", 0), path=None)
    yield case("named-early", two_named(), row("nodes", 2, value=1), row("nodes", 3, value=0), path="a")
    yield case("missing", t, node("t", value=1))
    yield case("largest", t, node("t", value=2**32 - 1))
    # The next one in order, but there are no more.
    yield case("past-pool", {"a": byte_tensor(), "t": byte_tensor()}, drop("tensors"), at=("nodes", 3))
    yield case("unused", t, append("tensors", TensorRecord(3, 0, 1)), at=("tensors", 1), path=None)
    yield case("unused-placeholder", h, append("tensors", TensorRecord(3, 0, NO_CHUNK)), at=("tensors", 1), path=None)
    holes = {"a": hole(), "t": hole()}
    yield case("placeholder-shared", holes, node("t", value=0), at=("nodes", 3))
    mixed = {"a": byte_tensor(), "t": hole()}
    yield case("placeholder-of-tensor", mixed, node("t", value=0), at=("nodes", 3))
    yield case("of-placeholder", {"a": hole(), "t": byte_tensor()}, node("t", value=0), at=("nodes", 3))
    yield case("as-placeholder", t, node("t", kind=PLACEHOLDER))
    yield case("from-placeholder", h, node("t", kind=TENSOR))
    yield case("placeholder-with-chunk", h, row("tensors", 0, first_chunk=0))
    yield case("without-first-chunk", t, row("tensors", 0, first_chunk=NO_CHUNK))


def two_named():
    return {"a": byte_tensor(b"a", 1), "b": byte_tensor(b"bb", 2)}


def blocks():
    q = ("q", 32, 18)
    value = {"t": Placeholder("opaque", (64,), None, q)}
    other = {"t": Placeholder("opaque", (64,), None, q), "u": Placeholder("opaque", (64,), None, ("r", 8, 9))}

    def case(name, value, *changes, at=("nodes", 2), path="t"):
        return Case(f"block-{name}", "tensor_invalid", broken(value, *changes), at, path)

    yield case("missing", value, row("tensors", 0, block=0))
    yield case("past-pool", value, row("tensors", 0, block=2))
    yield case("past-pool-largest", value, row("tensors", 0, block=65535))
    yield case("of-plain-dtype", {"t": hole(shape=(64,)), **{"u": value["t"]}}, row("tensors", 0, block=1))
    yield case("not-dividing-last-axis", value, put("dims", 0, 65))
    yield case("dividing-product-only", {"t": Placeholder("opaque", (64, 32), None, q)}, swap("dims", 0, 1),
               put("dims", 1, 48), put("dims", 0, 2))  # fmt: skip
    yield case("not-dividing-beside-0", {"t": Placeholder("opaque", (0, 32), None, q)}, put("dims", 1, 33))
    yield case("without-axes", value, set_all("dims", []), put("shape_ends", 0, 0))
    yield case("bytes-of-2^63", value, put("dims", 0, 2**62), set_all("blocks", [(0, 1, 2)]))
    yield case("bytes-wrap", value, put("dims", 0, 2**63), set_all("blocks", [(0, 1, 2**32 - 1)]))
    yield case("no-elements", value, set_all("blocks", [(0, 0, 18)]), at=("blocks", 0), path=None)
    yield case("no-bytes", value, set_all("blocks", [(0, 32, 0)]), at=("blocks", 0), path=None)
    yield case("without-name", value, set_all("blocks", [(2, 32, 18)]), at=("blocks", 0), path=None)
    yield case("unsorted", other, swap("blocks", 0, 1), at=("blocks", 1), path=None)
    yield case("duplicate", other, lambda t: t.blocks.__setitem__(1, t.blocks[0]), at=("blocks", 1), path=None)
    yield case("unused", value, lambda t: t.blocks.append((t.blocks[0][0], 32, 19)), at=("blocks", 1), path=None)
    # No node leads to this tensor, so nothing has looked at its block when texts are counted.
    of_unused = broken(value, append("tensors", TensorRecord(28, 0, NO_CHUNK, block=65535)))
    yield Case("block-past-pool-of-unused-tensor", "tensor_invalid", of_unused, ("tensors", 1),
               limits={"text_bytes": 1}, reference_accepts=False)  # fmt: skip


def axes():
    value = {
        "t": Placeholder("u8", (1, 2), ("a", "b")),
        "u": Placeholder("u8", (2,), ("a",)),
        "v": Placeholder("u8", ()),
    }

    def case(name, *changes, at=None):
        return Case(f"axes-{name}", "tensor_invalid", broken(value, *changes), at)

    yield case("out-of-order", put("axes", 0, (1, 0)), put("axes", 1, (0, 1)), at=("axes", 1))
    yield case("twice", put("axes", 1, (0, 2)), at=("axes", 1))
    yield case("of-no-tensor", put("axes", 1, (3, 2)), at=("axes", 1))
    yield case("not-in-sequence", put("axes", 1, (1, 1)), at=("axes", 1))
    yield case("shared-names", put("axes", 1, (1, 0)), at=("axes", 1))
    yield case("of-tensor-without-axes", append("axes", (2, 3)), at=("axes", 2))
    yield case("names-cut-off", drop("axis_names"), at=("axes", 1))
    yield case("names-left-over", append("axis_names", 0), at=INDEX)
    yield case("names-without-tensor", set_all("axes", []), at=INDEX)
    yield case("name-past-pool", put("axis_names", 0, 5), at=("axis_names", 0))
    # No node leads to this tensor, so nothing has looked at its shape when the names are counted.
    yield case("of-unused-tensor", append("tensors", TensorRecord(3, 2**28, NO_CHUNK)), append("axes", (3, 3)),
               at=("tensors", 3))  # fmt: skip


# --- Section 6 ------------------------------------------------------------------------------------


def chunks():
    def case(name, value, *changes, at=("chunks", 0), path="a", code="chunk_invalid", **options):
        return Case(f"chunk-{name}", code, broken(value, *changes, **options), at, path)

    second = {"at": ("chunks", 1), "path": "b"}
    start = len(broken(two())) - 65  # Where the first blob lies.
    yield case("gap", two(), row("chunks", 0, data=b"a" + bytes(64), stored=1), **second)
    yield case("gap-before-first", two(), row("chunks", 0, offset=start + 64))
    yield case("overlap", two(), row("chunks", 1, offset=start), **second)
    yield case("misaligned", two(), row("chunks", 1, starts_tensor=False), **second)
    yield case("unsorted", two(), row("chunks", 0, offset=start + 64), row("chunks", 1, offset=start))
    yield case("past-end", two(), row("chunks", 1, offset=start + 128), **second)
    cut = len(broken(two_named())) - 1
    cut_file = broken(two_named(), header={"file_length": cut})[:cut]
    yield Case("chunk-cut-by-one", "chunk_invalid", cut_file, ("chunks", 1), "b")
    yield case("offset-wraps", two(), row("chunks", 0, offset=2**64 - 64))
    yield case("offset-largest", two(), row("chunks", 0, offset=2**64 - 1))
    yield case("inside-header", two(), row("chunks", 0, offset=0))
    yield case("inside-index", two(), row("chunks", 0, offset=INDEX))
    yield case("codec-3", two(), row("chunks", 0, codec=3))
    yield case("codec-4", two(), row("chunks", 0, codec=4))
    yield case("codec-255", two(), row("chunks", 0, codec=255))
    yield case("raw-and-shorter", two_named(), row("chunks", 1, stored=1), **second)
    yield case("raw-and-longer", two(), row("chunks", 0, stored=2))
    yield case("raw-and-empty", two(), row("chunks", 0, stored=0))
    yield case("raw-and-largest", two(), row("chunks", 0, stored=2**32 - 1))
    yield case("other-file", two(), row("chunks", 0, file=1))
    yield case("other-file-with-feature", two(), row("chunks", 0, file=1), at=10, path=None,
               header={"features": 4}, code="header_invalid")  # fmt: skip
    yield case("reserved-field", two(), row("chunks", 0, zero=1))
    yield case("left-over", two(), append("chunks", ChunkRecord(b"c", True)), at=("chunks", 2), path=None)
    yield case("missing", two(), drop("chunks"), at=("nodes", 3), path="b")
    yield case("first-not-next", two(), row("tensors", 1, first_chunk=0), at=("nodes", 3), path="b")
    yield case("first-largest", two(), row("tensors", 1, first_chunk=2**32 - 2), at=("nodes", 3), path="b")
    yield case("first-of-empty-tensor", {"a": byte_tensor(), "b": byte_tensor(b"", 0)},
               row("tensors", 1, first_chunk=0), at=("nodes", 3), path="b")  # fmt: skip
    # A header that claims exbibytes must not make a reader count to their chunks.
    endless = [node("a", kind=TENSOR), row("tensors", 0, first_chunk=0)]
    yield case("endless", {"a": hole(shape=(2**62,))}, *endless, at=("nodes", 2))
    yield case("endless-2^63", {"a": hole(shape=(2**63 - 1,))}, *endless, at=("nodes", 2))
    no_features = {"header": {"features": 0}}
    # Chunks of one stored byte, so that a tensor of several fits here; what is wrong comes first.
    packed = lambda *more: [ChunkRecord(b"z", i == 0, codec=1) for i in range(2)] + [*more]
    several = {"a": hole(shape=(2 * MIB + 1,))}
    turned = [*endless, set_all("chunks", packed(ChunkRecord(b"r", False)))]
    yield case("gap-within-tensor", several, *turned, row("chunks", 1, starts_tensor=True), at=("chunks", 1),
               **no_features)  # fmt: skip
    yield case("past-end-within-tensor", several, *turned, row("chunks", 2, data=b"", stored=1),
               at=("chunks", 2), **no_features)  # fmt: skip
    yield case("last-of-tensor-missing", several, *turned, drop("chunks"), at=("nodes", 2), **no_features)
    yield case("full-length-at-end", several, *turned, row("chunks", 2, stored=MIB), at=("chunks", 2),
               **no_features)  # fmt: skip
    longer = len(broken(two())) + 1
    tailed = broken(two(), header={"file_length": longer}, tail=b"x")
    yield Case("chunk-last-ends-early", "chunk_invalid", tailed, longer - 1)
    index_only = len(broken(None))
    tailed = broken(None, header={"file_length": index_only + 1}, tail=b"x")
    yield Case("bytes-without-chunks", "chunk_invalid", tailed, index_only)


# --- Section 6: codecs ----------------------------------------------------------------------------


def codecs():
    for chunk in odd_chunks():
        data = chunk.file()
        # Opens, so that it is the stored bytes that are refused.
        reference.open_file(data)
        at = len(data) - len(chunk.stored)
        yield Case(f"codec-{chunk.name}", "chunk_corrupt", data, at, "a", "read")

    def refused(name, chunk, code="chunk_invalid", at=("chunks", 0), path="a", **header):
        tables = from_tree({"a": chunk.array()})
        (record,) = tables.chunks
        record.hash, record.codec, record.data = h128(record.data), chunk.codec, chunk.stored
        return Case(f"codec-{name}", code, build(tables, header=header), at, path)

    zeros = bytes(64)
    zstd = OddChunk("", "u8", zeros, ZSTD, seal(frame(zeros)))
    flat = OddChunk("", "f32", zeros, PLANES, planes("f32", zeros))
    for good in (zstd, flat):
        reference.verify(reference.open_file(good.file()))
    for dtype in ("bool", "i8", "u8", "f8_e5m2", "f8_e8m0fnu", "i4", "u2", "f6_e2m3fn", "opaque"):
        chunk = OddChunk("", dtype, zeros + bytes(32), PLANES, planes("u16", zeros + bytes(32)))
        yield refused(f"planes-of-{dtype}", chunk)
    yield refused("zstd-of-no-bytes", replace(zstd, stored=b""))
    yield refused("zstd-not-shorter", replace(zstd, stored=bytes(64)))
    yield refused("zstd-longer", replace(zstd, stored=seal(frame(bytes(range(64))))))
    yield refused("planes-of-no-bytes", replace(flat, stored=b""))
    yield refused("planes-not-shorter", replace(flat, stored=join([bytes(12)] * 4)))
    yield refused("planes-all-raw", replace(flat, stored=join([bytes(16)] * 4)))
    in_header = {"code": "header_invalid", "at": INDEX, "path": None}
    yield refused("zstd-without-feature", zstd, features=0, **in_header)
    yield refused("zstd-with-feature-of-planes", zstd, features=2, **in_header)
    yield refused("zstd-with-both-features", zstd, features=3, **in_header)
    yield refused("planes-without-feature", flat, features=0, **in_header)
    yield refused("planes-with-feature-of-zstd", flat, features=1, **in_header)
    yield refused("planes-with-both-features", flat, features=3, **in_header)

    # Damage, with no hash mended.
    for name, good in (("zstd", zstd), ("planes", flat)):
        data = good.file()
        at = len(data) - len(good.stored)
        yield Case(f"codec-{name}-flipped-first", "chunk_corrupt", flip(data, at), at, "a", "read")
        yield Case(f"codec-{name}-flipped-last", "chunk_corrupt", flip(data, len(data) - 1), at, "a", "read")
        wrong = build(compress_with(good, hash=bytes(16)))
        yield Case(f"codec-{name}-hash-of-chunk", "chunk_corrupt", wrong, at, "a", "read")
        # The hash is of the bytes before the codec.
        wrong = build(compress_with(good, hash=h128(good.stored)))
        yield Case(f"codec-{name}-hash-of-stored", "chunk_corrupt", wrong, at, "a", "read")
        wrong = build(good.tables(), header={"tree_digest": bytes(16)})
        yield Case(f"codec-{name}-tree-digest", "digest_mismatch", wrong, 64, None, "verify")


def compress_with(chunk, **fields):
    tables = chunk.tables()
    row("chunks", 0, **fields)(tables)
    return tables


# --- Limits of a reader: docs of Limits -----------------------------------------------------


def limits():
    """Where limits are given, one more of each is enough."""

    def case(name, value, limits=None, at=None, path=None, **options):
        data = broken(value, **options)
        return Case(f"limit-{name}", "limit_exceeded", data, at, path, limits=limits or {}, reference_accepts=True)

    def nested(depth):
        value = None
        for _ in range(depth):
            value = [value]
        return value

    yield case("nodes", [None] * 9, {"nodes": 10}, INDEX)
    yield case("depth", nested(65), {"depth": 64})
    yield case("depth-of-metadata", None, {"depth": 64}, metadata={"m": nested(64)})
    # With the default limits.
    deep = None
    for _ in range(17):
        deep = {"k" * 1000: deep}
    yield case("path", deep)
    yield case("bigint-by-default", {"a": 2 ** (8 * 1024)}, at=("nodes", 2), path="a")
    yield case("bigint", {"a": 2**128}, {"bigint_bytes": 16}, ("nodes", 2), "a")
    yield case("path-of-metadata", None, {"path_bytes": 9}, metadata={"k" * 10: None})
    yield case("path-of-one-key", {"k" * 10: None}, {"path_bytes": 9}, ("nodes", 2))
    # A small file that takes much memory once every node has a copy of its text.
    yield case("text-of-values", ["v" * 500] * 100, {"text_bytes": 49_999}, INDEX)
    yield case("text-of-keys", [{"k" * 500: None}] * 50, {"text_bytes": 24_999}, INDEX)
    yield case("text-of-labels", [Labelled("l" * 500, None) for _ in range(50)], {"text_bytes": 24_999}, INDEX)
    named = [Placeholder("u8", (1,) * 32, ("n" * 500,) * 32)]
    yield case("text-of-axes", named, {"text_bytes": 15_999}, INDEX)
    opaque = [Placeholder("opaque", (1,), None, ("b" * 500, 1, 1)) for _ in range(20)]
    yield case("text-of-blocks", opaque, {"text_bytes": 9_999}, INDEX)
    yield case("rank", hole(shape=(1,) * 5), {"rank": 4}, ("shape_ends", 0))
    yield case("index", None, {"index_bytes": len(broken(None)) - INDEX - 1}, 40)
