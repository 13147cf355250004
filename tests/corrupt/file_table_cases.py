"""Espalier files of version 1.1 that are wrong in one place, and those that only lack a file beside them."""

import copy

from corpus_case import Case, broken, reference
from espalier_build import Array, build, from_tree, h128, refer
from table_edits import row

OPENED = "next.espalier"
BASE = "base.espalier"


def byte_tensor(data):
    return Array("u8", (len(data),), data)


BASE_FILE = broken({"x": byte_tensor(b"0123456789")})
BLOB = len(BASE_FILE) - 10
OTHER_FILE = b"0123456789"
VALUE = {"a": byte_tensor(b"0123"), "b": byte_tensor(b"here")}


def made(*changes, value=VALUE, files=None, chunks=None, check=True, **options):
    """A file whose first tensor lies in the base, after changes of its tables."""
    files = {BASE: BASE_FILE} if files is None else files
    tables = from_tree(value)
    refer(tables, files, {0: (BASE, BLOB)} if chunks is None else chunks)
    if check:
        reference.verify(reference.open_file(build(tables), files))
    for change in changes:
        change(tables)
    return build(tables, **options)


def case(name, code, data, says=None, found_by="open", beside=None, **more):
    beside = {BASE: BASE_FILE} if beside is None else beside
    return Case(f"files-{name}", code, data, says=says, found_by=found_by, opens=OPENED, beside=beside, **more)


def rename(name):
    """Gives the only file another name, in its place in the pool."""

    def change(tables):
        texts = tables.texts()
        old = texts[tables.files[0].name]
        new = sorted([text for text in texts if text != old] + [name])
        numbers = {text: new.index(name if text == old else text) for text in texts}
        for node in tables.nodes:
            if node.key_kind == 1:
                node.key = numbers[texts[node.key]]
        tables.set_texts(new)
        tables.files[0].name = numbers[old]

    return change


def cases():
    for group in (names, tables, chunks, versions, files_beside):
        yield from group()


def names():
    says = "the name of a further file is not one that a file may have, or is out of order"
    for name, text in (
        ("parent", b"../base"), ("dots", b".."), ("hidden", b".base"), ("option", b"-f"), ("slash", b"a/base"),
        ("backslash", b"a\\base"), ("drive", b"C:base"), ("nul", b"base\0"), ("empty", b""), ("of-129", b"x" * 129),
        ("ends-with-dot", b"base."), ("con", b"CON"), ("nul-device", b"nul.espalier"), ("com1", b"Com1.x"),
        ("lpt9", b"LPT9"), ("non-ascii", "b\u00e4se".encode()), ("percent", b"base%2e"), ("space", b"my base"),
        ("url", b"http:base"), ("newline", b"base\n"),
    ):  # fmt: skip
        yield case(f"name-{name}", "index_invalid", made(rename(text)), says)
    yield case("name-missing", "index_invalid", made(row("files", 0, name=99)), says)
    yield case("name-largest", "index_invalid", made(row("files", 0, name=2**32 - 1)), says)
    two = {"base.espalier": BASE_FILE, "other.bin": OTHER_FILE}
    both = dict(files=two, chunks={0: (BASE, BLOB), 1: ("other.bin", 0)}, value={"a": byte_tensor(b"0123"), "b": byte_tensor(b"0123")})
    twice = lambda tables: setattr(tables.files[1], "name", tables.files[0].name)
    swapped = lambda tables: tables.files.reverse()
    yield case("name-twice", "index_invalid", made(twice, **both), says, beside=two)
    yield case("names-unsorted", "index_invalid", made(swapped, **both), says, beside=two)
    twins = {"base.espalier": BASE_FILE, "BASE.espalier": OTHER_FILE}
    data = made(value=both["value"], files=twins, chunks={0: (BASE, BLOB), 1: ("BASE.espalier", 0)}, check=False)
    yield case("names-in-two-cases", "index_invalid", data, "two files have names that differ only in case", beside={})
    more = "the checkpoint has bytes in 2 further files and Limits::files allows 1"
    yield case("one-too-many", "limit_exceeded", made(**both), more, beside=two, limits={"files": 1}, reference_accepts=True)


def tables():
    head = "the head of a further file has the wrong length"
    for name, change in (
        ("head-0", row("files", 0, head=0)), ("head-beyond-file", row("files", 0, head=len(BASE_FILE) + 1)),
        ("head-largest", row("files", 0, head=2**32 - 1)), ("length-0", row("files", 0, length=0)),
    ):  # fmt: skip
        yield case(name, "index_invalid", made(change), head)
    long = lambda tables: (setattr(tables.files[0], "length", 2**40), setattr(tables.files[0], "head", 65537))
    yield case("head-of-65537", "index_invalid", made(long), head)
    spare = lambda tables: tables.files.append(copy.copy(tables.files[0]))
    named = lambda tables: (spare(tables), setattr(tables.files[1], "name", len(tables.text_ends) - 1))
    # The key "z" may be the name of a file as well.
    unused = made(named, value={"a": byte_tensor(b"0123"), "z": byte_tensor(b"here")})
    yield case("file-without-chunk", "index_invalid", unused, "a further file has no chunk")
    base = lambda tables: tables.bases.append(copy.copy(tables.chunks[1]))

    def with_base(tables):
        base(tables)
        tables.bases[0].offset = 0

    yield case("base-without-patch", "chunk_invalid", made(with_base), "a base belongs to no patch")


def chunks():
    placed = "a chunk is not where the layout puts it"
    past = "a chunk reaches past the end of the file"
    for name, change, says in (
        ("chunk-of-unknown-file", row("chunks", 0, file=2), "a chunk's record is malformed"),
        ("chunk-of-file-65535", row("chunks", 0, file=65535), "a chunk's record is malformed"),
        ("chunk-past-end", row("chunks", 0, offset=len(BASE_FILE) - 3), past),
        ("chunk-offset-wraps", row("chunks", 0, offset=2**64 - 2), past),
        ("chunk-offset-largest", row("chunks", 0, offset=2**64 - 1), past),
        ("chunk-raw-and-longer", row("chunks", 0, stored=5), "a raw chunk has the wrong length"),
        ("chunk-of-codec-3", row("chunks", 0, codec=3, stored=1), "a patch has no base"),
        ("chunk-of-codec-4", row("chunks", 0, codec=4), "a chunk has the unknown codec 4"),
        ("chunk-after-unaligned", row("chunks", 1, starts_tensor=False), placed),
        ("chunk-reserved-field", row("chunks", 0, zero=1), "a chunk's record is malformed"),
    ):  # fmt: skip
        yield case(name, "chunk_invalid", made(change), says, path="b" if says == placed else "a")
    # Bytes that two tensors share are good; those of one tensor are not (tests/unit/validate_test.cpp).
    value = {"a": byte_tensor(b"0123"), "b": byte_tensor(b"2345"), "c": byte_tensor(b"here")}
    shared = made(value=value, chunks={0: (BASE, BLOB), 1: (BASE, BLOB + 2)})
    yield case("shared-by-two-tensors", "limit_exceeded", shared, limits={"nodes": 4}, reference_accepts=True)
    flipped = bytearray(BASE_FILE)
    flipped[BLOB] ^= 1
    wrong = "tensor bytes do not match their hash"
    yield case("base-bit", "chunk_corrupt", made(), wrong, "read", {BASE: bytes(flipped)}, at=BLOB, path="a")
    yield case("hash-of-other-bytes", "chunk_corrupt", made(row("chunks", 0, hash=h128(b"3210"))), wrong, "read", at=BLOB, path="a")
    yield case("chunk-one-byte-later", "chunk_corrupt", made(row("chunks", 0, offset=BLOB + 1)), wrong, "read", at=BLOB + 1, path="a")


def versions():
    lowest = "the version of the header is not the lowest that has the features of the file"
    yield case("minor-0", "header_invalid", made(header={"minor": 0}), lowest, at=10)
    yield case("minor-2", "unsupported_version", made(header={"minor": 2}), at=8)
    yield case("no-feature", "header_invalid", made(header={"features": 0}), lowest, at=10)
    yield case("feature-of-patches", "header_invalid", made(header={"features": 12}), at=128)
    yield case("feature-4", "unsupported_feature", made(header={"features": 20}), at=16)
    here = lambda tables: (row("chunks", 0, file=0)(tables), setattr(tables.chunks[0], "offset", None))
    unused = made(here, header={"features": 4})
    yield case("feature-unused", "index_invalid", unused, "a further file has no chunk")
    layout = "the index is not laid out as the format requires"
    alone = broken(VALUE, header={"features": 4, "minor": 1})
    yield case("index-of-1.0", "index_invalid", alone, layout)
    old = made(header={"features": 0, "minor": 0})
    yield case("index-of-1.1-in-1.0", "index_invalid", old, layout)


def files_beside():
    missing = dict(found_by="read")
    yield case("missing", "file_missing", made(), beside={}, **missing)
    two = {BASE: BASE_FILE, "other.bin": OTHER_FILE}
    value = {"a": byte_tensor(b"0123"), "b": byte_tensor(b"0123")}
    both = made(value=value, files=two, chunks={0: (BASE, BLOB), 1: ("other.bin", 0)})
    yield case("one-of-two-missing", "file_missing", both, **missing)
    other = "the file is not the one that the checkpoint was made with"
    yield case("longer", "base_mismatch", made(), other, beside={BASE: BASE_FILE + b"\0"}, **missing)
    yield case("cut", "base_mismatch", made(), other, beside={BASE: BASE_FILE[:-1]}, **missing)
    another = broken({"x": byte_tensor(b"9876543210")})
    yield case("another", "base_mismatch", made(), other, beside={BASE: another}, **missing)
    yield case("head-hash", "base_mismatch", made(row("files", 0, head_hash=bytes(16))), other, **missing)
    yield case("length", "base_mismatch", made(row("files", 0, length=2**63)), other, **missing)
    yield case("itself", "base_mismatch", made(rename(OPENED.encode())), other, beside={}, **missing)
    yield case("two-files-in-one-case", "file_missing", made(), beside={"Base.espalier": BASE_FILE}, **missing)
