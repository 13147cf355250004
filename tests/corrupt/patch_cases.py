"""Espalier files with patches that are wrong in one place, and patches whose base is not what it was."""

import copy

from corpus_case import INDEX, Case, broken, reference
from espalier_build import Array, ChunkRecord, build, from_tree, h128, patch, put_patch, refer
from odd_patches import BASE, DATA, odd_bases, odd_patches, sparse

SUFFIX = "espalier"
OPENED = "next.espalier"
BASE_NAME = "base.espalier"
BASE_FILE = broken({"x": Array("u8", (len(BASE),), BASE)})
BLOB = len(BASE_FILE) - len(BASE)


def cases():
    yield from in_one_file()
    yield from against_a_base()


def in_one_file():
    for odd in odd_patches():
        data = odd.file()
        at = len(data) - len(odd.stored)
        yield Case(f"patch-{odd.name}", "chunk_corrupt", data, at, "b", "read")
    for name, data, words in odd_bases():
        if name == "chain-of-33":  # Its index is large: see one-more-than-32.
            continue
        code, at = "chunk_invalid", None
        if "belong to version" in words:
            code, at = "header_invalid", 10
        elif "the features that the file uses" in words:
            code, at = "header_invalid", INDEX
        yield Case(f"base-{name}", code, data, at)
    # The base is a chunk, too, which a reader meets first.
    tables = from_tree({"a": Array("u8", (300,), BASE), "b": Array("u8", (300,), DATA)})
    base = copy.copy(tables.chunks[0])
    put_patch(tables, 1, sparse(), [base])
    data = bytearray(build(tables))
    at = data.rindex(BASE)
    data[at] ^= 1
    yield Case("base-bit-here", "chunk_corrupt", bytes(data), at, "a", "read")


def against(*changes, value=None, dtype="u8", stored=None, files=None, bases=None, check=True, **options):
    """A file whose last tensor is a patch of bytes of the base, after changes of its tables."""
    value = value or {"b": Array(dtype, (len(DATA),), DATA)}
    files = {BASE_NAME: BASE_FILE} if files is None else files
    tables = from_tree(value)
    refer(tables, files, {})
    base = ChunkRecord(BASE, False, BLOB, h128(BASE), len(BASE), 1)
    put_patch(tables, len(tables.chunks) - 1, stored or sparse(), bases or [base])
    if check:
        reference.verify(reference.open_file(build(tables), files))
    for change in changes:
        change(tables)
    return build(tables, **options)


def set_base(**fields):
    def change(tables):
        for name, value in fields.items():
            setattr(tables.bases[0], name, value)

    return change


def folder(name, code, data, says=None, found_by="open", beside=None, **more):
    beside = {BASE_NAME: BASE_FILE} if beside is None else beside
    return Case(f"patches-{name}", code, data, says=says, found_by=found_by, opens=OPENED, beside=beside, **more)


def against_a_base():
    wrong = "the bytes that a patch is applied to are not those that it was made for"
    flipped = bytearray(BASE_FILE)
    flipped[BLOB + 7] ^= 1
    yield folder("base-bit", "chunk_corrupt", against(), wrong, "read", {BASE_NAME: bytes(flipped)}, at=BLOB, path="b")
    yield folder("base-elsewhere", "chunk_corrupt", against(set_base(offset=BLOB - 1)), wrong, "read", at=BLOB - 1, path="b")
    # The base is right, so it is the patch that is wrong: its offset is known here alone.
    data = against(set_base(hash=h128(BASE)), stored=sparse(moves=b"\2\4"), check=False)
    yield folder("patch-of-other-bytes", "chunk_corrupt", data, found_by="read", at=len(data) - 21, path="b")
    yield folder("base-missing", "file_missing", against(), found_by="read", beside={})
    yield folder("base-longer", "base_mismatch", against(), found_by="read", beside={BASE_NAME: BASE_FILE + b"\0"})
    past = "a base reaches past the end of its file"
    for name, offset in (("past-end", BLOB + 1), ("offset-wraps", 2**64 - 2), ("offset-largest", 2**64 - 1)):
        yield folder(f"base-{name}", "chunk_invalid", against(set_base(offset=offset)), past, path="b")
    malformed = "the record of a base is malformed"
    yield folder("base-of-file-2", "chunk_invalid", against(set_base(file=2)), malformed, path="b")
    yield folder("base-of-file-65535", "chunk_invalid", against(set_base(file=65535)), malformed, path="b")
    yield folder("base-reserved-field", "chunk_invalid", against(set_base(zero=1)), malformed, path="b")
    longer = "a raw base has the wrong length"
    yield folder("base-raw-and-longer", "chunk_invalid", against(set_base(offset=0, stored=len(BASE) + 1)), longer, path="b")
    yield folder("base-of-codec-4", "chunk_invalid", against(set_base(codec=4)), "a chunk has the unknown codec 4", path="b")
    here = "a base in this file is no chunk before its patch"
    yield folder("base-here", "chunk_invalid", against(set_base(file=0)), here, path="b")
    yield folder("no-feature-of-files", "header_invalid", against(header={"features": 8}), at=INDEX)
    yield folder("no-feature-of-patches", "header_invalid", against(header={"features": 4}), at=INDEX)
    # Thirty-two patches over a chunk in another file, and a wrong one among them.
    layers, data = [], BASE
    for i in range(32):
        following = bytes([data[0] ^ 1]) + data[1:]
        layers.append((patch(1, data, following), following))
        data = following
    blobs = b"".join(stored for stored, _ in layers[:-1])
    bases = [ChunkRecord(BASE, False, BLOB, h128(BASE), len(BASE), 1)]
    at = 0
    for stored, following in layers[:-1]:
        bases.insert(0, ChunkRecord(stored, False, at, h128(following), len(stored), 2, 3))
        at += len(stored)
    files = {BASE_NAME: BASE_FILE, "patches.bin": blobs}
    value = {"b": Array("u8", (len(data),), data)}
    made = against(value=value, stored=layers[-1][0], files=files, bases=bases)
    broken_blobs = bytearray(blobs)
    broken_blobs[-1] ^= 4
    # One layer more, of the same kind.
    last = patch(1, data, BASE)
    more = [ChunkRecord(layers[-1][0], False, 0, h128(data), len(layers[-1][0]), 2, 3), *bases]
    over = against(value={"b": Array("u8", (len(BASE),), BASE)}, stored=last, files=files, bases=more, check=False)
    yield folder("one-more-than-32", "chunk_invalid", over, "a chunk has more than 32 patches", beside=files, path="b")
    # The head of that file has all of it.
    beside = {BASE_NAME: BASE_FILE, "patches.bin": bytes(broken_blobs)}
    yield folder("one-of-32-files-bit", "base_mismatch", made, found_by="read", beside=beside)
