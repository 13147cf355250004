"""The files of the kit that are not the golden ones and not the hostile ones, by the builder of ../reference."""

from __future__ import annotations

import copy
import pathlib
import sys
from dataclasses import dataclass, field
from typing import Callable, Iterator

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "reference")]

import broken_cases
import espalier_reference as reference
from espalier_build import (
    MIB,
    Array,
    ChunkRecord,
    Labelled,
    Placeholder,
    Record,
    Set,
    Tables,
    build,
    from_tree,
    h128,
    patch,
    put_patch,
    refer,
    tree_digest,
)
from espalier_codecs import ELEMENTS, PLANES, RAW, ZSTD, block, frame, planes, seal
from odd_chunks import good_chunks
from odd_patches import BASE, DATA, good_bases, good_patches, moved, odd_bases, smallest, sparse
from random_trees import BITS, edge_trees

OPENED = "opened.espalier"
PATCH = 3
ACCEPT, REFUSE, INCOMPLETE, EITHER = "accept", "refuse", "incomplete", "either"


@dataclass
class KitCase:
    """A file of the kit; `beside` has the further files by name, and the case is then a folder.

    `large`: the file is made when it is needed, and only its verdict and its digest are expected. `rule`: of a file that a reader
    may accept, because not every decoder of zstd sees that it breaks that rule.
    """

    name: str
    about: str
    data: bytes
    beside: dict[str, bytes] = field(default_factory=dict)
    verdict: str = ACCEPT
    large: bool = False
    rule: str = ""

    def path(self) -> str:
        return f"{self.name}/{OPENED}" if self.beside or self.verdict == INCOMPLETE else f"{self.name}.espalier"


def cases() -> Iterator[KitCase]:
    yield from trees()
    yield from codecs()
    yield from references()
    yield from patches()
    yield from recipes()
    yield from streams()
    yield from missing_files()
    yield from refused()
    yield from limits()
    yield from beyond_limits()
    yield from odd_frames()
    for name, about, data, beside in broken_cases.good_several():
        yield KitCase(name, about, data, beside)
    for name, about, data, beside in broken_cases.broken():
        yield KitCase(f"only-{name}", about, data, beside, REFUSE)


def large_cases() -> Iterator[KitCase]:
    """Files at the limits of section 16 that are too large to be checked in."""
    index = 64 * MIB
    room = index - len(build(from_tree({"b": b""}))) + 128
    yield KitCase("limit-index", "an index of 64 MiB", build(from_tree({"b": bytes(room)})), large=True)
    yield KitCase("limit-nodes", "1,048,576 nodes", build(from_tree([None] * (2**20 - 2))), large=True)
    text = "v" * 65536
    yield KitCase("limit-texts", "64 MiB of texts, counted once for each use", build(from_tree([text] * 1024)), large=True)
    beside = {f"f{n:03}.bin": bytes([n]) for n in range(256)}
    tables = from_tree([Array("u8", (1,), bytes([n])) for n in range(256)])
    refer(tables, beside, {n: (f"f{n:03}.bin", 0) for n in range(256)})
    yield KitCase("limit-files", "chunks in 256 other files", build(tables), beside, large=True)
    yield from large_refused()


def large_refused() -> Iterator[KitCase]:
    yield KitCase("only-R-11.2-65535-files", "chunks in 65,535 other files", broken_cases.too_many_files(), {}, REFUSE, large=True)


# --- Version 1.0 ----------------------------------------------------------------------------------


def trees() -> Iterator[KitCase]:
    wanted = {
        "leaf": "the root is null",
        "tensor": "the root is a tensor",
        "set of everything": "a set of elements of many kinds",
        "ties": "tensors with several nodes",
        "zeros": "0.0 and -0.0 differ, and so do 0 and false",
        "64 axes": "64 axes, with names",
        "no elements": "tensors without elements",
        "many children": "a dict whose order needs an entry",
        "many fields": "a record whose order needs an entry",
        "letters": "the edges of UTF-8",
        "labelled roots": "labels of both roots",
        "keys of metadata": "keys of all kinds in the metadata",
    }
    made = edge_trees()
    for name, about in wanted.items():
        tree, metadata = made[name]
        yield KitCase(f"tree-{name.replace(' ', '-')}", about, build(from_tree(tree, metadata)))
    names = {"axes": [Array("u8", (1, 2), b"ab", ("", "")), Array("u8", (1, 2), b"ab")]}
    yield KitCase("tree-empty-axis-names", "axis names that are all empty, beside none", build(from_tree(names)))
    truths = Array("bool", (4,), b"\0\1\2\xff")
    nothing = {"none": [Array("f32", (2**40, 2**40, 0), b""), Array("u2", (0, 2**52, 2**52), b""), Placeholder("i4", (2**40, 0, 2**40))]}
    yield KitCase("tree-zero-beside-large-axes", "no elements, beside axes whose product is beyond 2^64", build(from_tree(nothing)))
    yield KitCase("tree-bool-bytes", "bytes of a bool other than 0 and 1", build(from_tree({"b": truths})))
    types = {name: element_row(name, data) for name, data in elements().items()}
    yield KitCase("dtypes", "the elements of section 17", build(from_tree(types)))


def elements() -> dict[str, bytes]:
    """The bytes of each dtype in section 17."""
    import test_vectors

    return {dtype: data for dtype, data, _ in test_vectors.element_rows()}


def element_row(dtype: str, data: bytes) -> Array:
    bits = next(bits for name, bits in reference.DTYPES.values() if name == dtype)
    return Array(dtype, (8 * len(data) // bits,), data)


def codecs() -> Iterator[KitCase]:
    """Every form of a compressed chunk, each as a tensor of one file."""
    chunks = list(good_chunks())
    tables = from_tree({chunk.name: chunk.array() for chunk in chunks})
    for record, chunk in zip(tables.chunks, chunks, strict=True):
        record.hash, record.codec, record.data = h128(chunk.data), chunk.codec, chunk.stored
    yield KitCase("codecs", "every form of zstd and planes", build(tables))


# --- Section 11 -----------------------------------------------------------------------------------


def bytes_of(data: bytes) -> Array:
    return Array("u8", (len(data),), data)


def referred(
    tree: dict, beside: dict[str, bytes], chunks: dict[int, tuple[str, int]], change: Callable[[Tables], None] | None = None
) -> bytes:
    tables = from_tree(tree)
    refer(tables, beside, chunks)
    if change:
        change(tables)
    return build(tables)


BASE_FILE = build(from_tree({"x": bytes_of(b"0123456789")}))
BLOB = len(BASE_FILE) - 10


def references() -> Iterator[KitCase]:
    import test_vectors

    yield KitCase("vector-1.1", "the file of version 1.1 in section 17", *test_vectors.file_of_version_11())
    base = {"base.espalier": BASE_FILE}
    tree = {"a": bytes_of(b"0123"), "b": bytes_of(b"here")}
    yield KitCase("refer-espalier", "a chunk in another Espalier file", referred(tree, base, {0: ("base.espalier", BLOB)}), base)
    alone = {"a": bytes_of(b"3456")}
    yield KitCase("refer-all", "no chunk in this file", referred(alone, base, {0: ("base.espalier", BLOB + 3)}), base)
    other = {"model.bin": b"some bytes of any format"}
    foreign = {"a": bytes_of(b"bytes")}
    yield KitCase("refer-foreign", "a chunk in a file of another format, unaligned", referred(foreign, other, {0: ("model.bin", 5)}), other)
    tied = {"a": bytes_of(b"0123"), "b": bytes_of(b"2345"), "c": bytes_of(b"2345")}
    places = {n: ("base.espalier", BLOB + at) for n, at in enumerate((0, 2, 2))}
    yield KitCase("refer-shared", "tensors that share bytes of another file", referred(tied, base, places), base)
    no_digest = lambda tables: setattr(tables.files[0], "tree_digest", b"\xff" * 16)
    data = referred(tree, base, {0: ("base.espalier", BLOB)}, no_digest)
    yield KitCase("refer-other-digest", "the record of the other file has another tree digest, which no reader checks", data, base)
    long_head = lambda tables: (setattr(tables.files[0], "head", len(BASE_FILE)), setattr(tables.files[0], "head_hash", h128(BASE_FILE)))
    data = referred(tree, base, {0: ("base.espalier", BLOB)}, long_head)
    yield KitCase("refer-whole-head", "the head of the other Espalier file is the whole file", data, base)
    for head in (1, 127, 129, 200):
        given = lambda tables, head=head: set_head(tables, head, BASE_FILE)
        data = referred(tree, base, {0: ("base.espalier", BLOB)}, given)
        yield KitCase(f"refer-head-of-{head}", f"the head of the other Espalier file has {head} bytes", data, base)
    long = {"model.bin": bytes(65536) + b"0123"}
    data = referred(tree, long, {0: ("model.bin", 65536)})
    yield KitCase("refer-largest-head", "the head of the other file has 65,536 bytes, and the file more", data, long)
    yield itself()
    yield KitCase("refer-metadata", "metadata and labels beside chunks in another file", labelled(base), base)

    names = ["a", "Z" * 128, "com", "com10", "con_", "nul-1", "x.con", "1", "_", "a..b", "lpt.x"]
    many = {name: name.encode() for name in names}
    each = {f"t{n:02}": bytes_of(name.encode()) for n, name in enumerate(names)}
    places = {n: (name, 0) for n, name in enumerate(names)}
    yield KitCase("refer-names", "names that are just allowed", referred(each, many, places), many)

    # Compressed chunks elsewhere, and a tensor of several chunks some of which are here. A run of bytes is short as a frame.
    run = bytes(MIB)
    stored = seal(frame(run))
    flat = planes("u16", bytes(64))
    packed = {"packed.bin": b"xy" + stored + flat}

    def compress(tables: Tables) -> None:
        for number, codec, place in ((0, ZSTD, 2), (3, PLANES, 2 + len(stored)), (4, ZSTD, 2)):
            chunk = tables.chunks[number]
            chunk.codec, chunk.stored, chunk.offset = codec, len(flat if codec == PLANES else stored), place
        for number in (1, 2):
            chunk = tables.chunks[number]
            chunk.hash, chunk.codec = h128(chunk.data), ZSTD
            chunk.data = seal(frame(chunk.data))

    several = {
        "a": Array("u8", (2 * MIB + 100,), run + b"\1" * MIB + b"\2" * 100),
        "b": Array("u16", (32,), bytes(64)),
        "c": Array("u8", (MIB + 3,), run + b"end"),
    }
    places = {0: ("packed.bin", 2), 3: ("packed.bin", 2 + len(stored)), 4: ("packed.bin", 2)}
    made = referred(several, packed, places, compress)
    yield KitCase("refer-compressed", "compressed chunks in another file, between chunks here", made, packed)


def set_head(tables: Tables, head: int, data: bytes) -> None:
    tables.files[0].head, tables.files[0].head_hash = head, h128(data[:head])


def itself() -> KitCase:
    """A file that refers to itself: its first 48 bytes are known before the hash of its index is."""
    tables = from_tree({"a": bytes_of(b"here"), "b": bytes_of(b"\x89ESPL")})
    refer(tables, {OPENED: bytes(48)}, {1: (OPENED, 0)})
    tables.files[0].length = len(build(tables))
    set_head(tables, 48, build(tables))
    data = build(tables)
    return KitCase("refer-itself", "a chunk in a file that is this file itself", data, {OPENED: data})


def labelled(base: dict[str, bytes]) -> bytes:
    tree = {"m": Record({"w": Labelled("torch.nn.Parameter", Array("u8", (2, 2), b"0123", ("row", "")))}), "hole": Placeholder("f32", (3,))}
    tables = from_tree(tree, {"step": 7, "notes": ["base.espalier"]})
    refer(tables, base, {0: ("base.espalier", BLOB)})
    return build(tables)


# --- Section 12 -----------------------------------------------------------------------------------


def patches() -> Iterator[KitCase]:
    for odd in good_patches():
        wanted = ("bf16-every-7-small", "f32-every-2-raw", "f64-every-60-raw", "u8-every-7-raw", "c64-every-7-small", "bool-every-60-raw",
                  "i4-every-7-small", "opaque-every-60-raw", "bf16-every-1-small")  # fmt: skip
        name = odd.name.removeprefix("good-").removeprefix("dense-")
        if name in wanted or not name.startswith(tuple(reference.ELEMENTS) + ("u8", "bool", "f8", "i4", "opaque")):
            kind = "dense" if "every-1-" in name or "dense" in odd.name else "sparse"
            yield KitCase(f"patch-{kind}-{name}", f"a {kind} patch of a chunk in this file", odd.file())
    abouts = {
        "base-here": "the base is a chunk of this file",
        "base-of-many": "the base is one of many chunks",
        "chain-of-2": "a patch of a patch",
        "chain-of-32": "32 layers, each a chunk of this file",
        "base-framed": "the base is a chunk of zstd",
        "base-of-planes": "the base is a chunk of planes",
    }
    for name, data in good_bases():
        yield KitCase(f"patch-{name}", abouts[name], data)

    base_file = build(from_tree({"x": bytes_of(BASE)}))
    place = len(base_file) - len(BASE)
    base = {"base.espalier": base_file}
    yield KitCase("patch-of-other-file", "the base is in another file", against(base, place), base)
    framed = seal(frame(bytes(300)))
    data = bytes([1]) + bytes(299)
    other = {"packed.bin": b"-" + framed}
    record = ChunkRecord(framed, False, 1, h128(bytes(300)), len(framed), 1, ZSTD)
    made = against(other, 1, data=data, stored=patch(1, bytes(300), data), bases=[record])
    yield KitCase("patch-of-compressed-other-file", "the base is a chunk of zstd in another file", made, other)
    yield layers(base_file, place)
    yield another_recipe()


def add(*chunks: bytes) -> bytes:
    return bytes(sum(parts) % 256 for parts in zip(*chunks))


def element_width(dtype: str) -> int:
    return ELEMENTS.get(dtype, (1,))[0]


def array_of(dtype: str, data: bytes) -> Array:
    return Array(dtype, (8 * len(data) // BITS.get(dtype, 8),), data, None, ("q", 3, 3) if dtype == "opaque" else None)


STEP = bytes([1] + [0] * 299)


def there(data: bytes, at: int, file: int, codec: int, stored: bytes | None = None) -> ChunkRecord:
    """The record of a base in another file. `data` is what its hash is of."""
    stored = data if stored is None else stored
    return ChunkRecord(stored, False, at, h128(data), len(stored), file, codec)


def recipes() -> Iterator[KitCase]:
    """Where bases lie, and what readers need not compare."""
    base = {"raw.bin": b"-" + BASE}
    odd = against(base, 1, bases=[there(DATA, 1, 1, RAW, BASE)])
    yield KitCase("patch-base-hash", "the hash of a base in another file is wrong, and that of the chunk is right", odd, base)
    first = patch(1, BASE, add(BASE, STEP))
    both = {"raw.bin": b"-" + BASE, "step.bin": first}
    twice = add(BASE, STEP, STEP)
    last = patch(1, add(BASE, STEP), twice)
    middle = against(both, 1, data=twice, stored=last, bases=[there(DATA, 0, 2, PATCH, first), there(BASE, 1, 1, RAW)])
    yield KitCase("patch-layer-hash", "the hash of a patch that is a base is wrong, and that of the chunk is right", middle, both)

    # The chunk itself is a patch in another file.
    tables = from_tree({"a": bytes_of(b"own"), "b": bytes_of(DATA)})
    beside = {"patches.bin": b"xyz" + sparse(), "raw.bin": BASE}
    refer(tables, beside, {1: ("patches.bin", 3)})
    tables.chunks[1].codec, tables.chunks[1].stored = PATCH, len(sparse())
    tables.bases = [there(BASE, 0, 2, RAW)]
    yield KitCase("patch-elsewhere", "a chunk that is a patch in another file", build(tables), beside)
    tables = from_tree({"a": bytes_of(BASE), "b": bytes_of(DATA)})
    beside = {"patches.bin": b"xyz" + sparse()}
    refer(tables, beside, {1: ("patches.bin", 3)})
    tables.chunks[1].codec, tables.chunks[1].stored = PATCH, len(sparse())
    tables.bases = [copy.copy(tables.chunks[0])]
    yield KitCase("patch-elsewhere-of-base-here", "a patch in another file, whose base is a chunk here", build(tables), beside)

    # here (patch) -> there (patch) -> here (raw), and there -> here (a patch) -> there.
    tables = from_tree({"a": bytes_of(BASE), "b": bytes_of(twice)})
    beside = {"step.bin": first}
    refer(tables, beside, {})
    put_patch(tables, 1, last, [there(add(BASE, STEP), 0, 1, PATCH, first), copy.copy(tables.chunks[0])])
    yield KitCase("patch-chain-there-here", "a patch of a patch in another file, of a chunk here", build(tables), beside)
    tables = from_tree({"a": bytes_of(add(BASE, STEP)), "b": bytes_of(twice)})
    beside = {"raw.bin": BASE}
    refer(tables, beside, {})
    tables.chunks[1].starts_tensor = True
    put_patch(tables, 0, first, [there(BASE, 0, 1, RAW)])
    put_patch(tables, 1, last, [copy.copy(tables.chunks[0]), there(BASE, 0, 1, RAW)])
    yield KitCase("patch-chain-here-there", "a patch of a patch here, of a base in another file, whose bytes both share", build(tables), beside)

    # Bases that overlap each other and a chunk.
    tables = from_tree({"a": bytes_of(BASE[:50]), "b": bytes_of(DATA), "c": bytes_of(add(BASE, STEP))})
    beside = {"raw.bin": b"-" + BASE}
    refer(tables, beside, {0: ("raw.bin", 1)})
    shifted = (b"-" + BASE)[:300]
    put_patch(tables, 1, patch(1, BASE, DATA), [there(BASE, 1, 1, RAW)])
    changed = add(shifted, STEP)
    tables.chunks[2].data = changed
    tables.tree_digest = tree_digest({"a": bytes_of(BASE[:50]), "b": bytes_of(DATA), "c": bytes_of(changed)})
    put_patch(tables, 2, patch(1, shifted, changed), [there(shifted, 0, 1, RAW)])
    yield KitCase("patch-shared-bases", "bases that share bytes of another file with each other and with a chunk", build(tables), beside)

    halves = b"".join(bytes([i, 0x3F]) for i in range(100))
    stored = planes("bf16", halves)
    changed = moved("bf16", halves, 7)
    tables = from_tree({"a": array_of("bf16", changed)})
    beside = {"planes.bin": b"12345" + stored}
    refer(tables, beside, {})
    put_patch(tables, 0, patch(2, halves, changed), [there(halves, 5, 1, PLANES, stored)])
    yield KitCase("patch-of-planes-elsewhere", "the base is a chunk of planes in another file", build(tables), beside)

    run = bytes(MIB)
    framed = seal(frame(run))
    second = bytes([0, 0, 0, 5]) + bytes(MIB - 4)
    tables = from_tree({"a": bytes_of(run + second)})
    tables.chunks[0].hash, tables.chunks[0].codec, tables.chunks[0].data = h128(run), ZSTD, framed
    put_patch(tables, 1, patch(1, run, second), [copy.copy(tables.chunks[0])])
    yield KitCase("patch-in-one-tensor", "the base is the chunk before it of the same tensor", build(tables))

    # planes that are one repeated byte are right for every length, and a patch is for every longer one.
    short, long = bytes([1, 0]) * 20, bytes([1, 0]) * 30
    changed = moved("u16", long, 29)
    tables = from_tree({"a": array_of("u16", short), "b": array_of("u16", changed)})
    tables.chunks[0].hash, tables.chunks[0].codec, tables.chunks[0].data = h128(short), PLANES, planes("u16", short)
    put_patch(tables, 1, patch(2, long, changed), [copy.copy(tables.chunks[0])])
    yield KitCase("patch-of-shorter-planes", "the base is a shorter chunk of planes of one byte each", build(tables))
    longer = BASE + bytes(100)
    tables = from_tree({"a": bytes_of(BASE), "b": bytes_of(DATA), "c": bytes_of(longer)})
    beside = {"long.bin": longer}
    refer(tables, beside, {})
    patched = longer[:200] + DATA[200:202] + longer[202:]
    following = add(patched, STEP + bytes(100))
    tables.chunks[2].data = following
    tables.tree_digest = tree_digest({"a": bytes_of(BASE), "b": bytes_of(DATA), "c": bytes_of(following)})
    put_patch(tables, 1, sparse(), [copy.copy(tables.chunks[0])])
    put_patch(tables, 2, patch(1, patched, following), [copy.copy(tables.chunks[1]), there(longer, 0, 1, RAW)])
    yield KitCase("patch-of-shorter-patch", "the base is a patch here of a shorter chunk, over a longer base in another file", build(tables), beside)
    # The planes of the chunk are of f32, and those of the base, the same bytes, of u32.
    floats = array_of("f32", b"".join(bytes([i, 2, 0x80 | i, 0x3F]) for i in range(40)))
    stored = planes("f32", floats.data)
    other = planes_of_u32(stored)
    changed = moved("u32", other, 9)
    tables = from_tree({"a": floats, "b": array_of("u32", changed)})
    tables.chunks[0].hash, tables.chunks[0].codec, tables.chunks[0].data = h128(floats.data), PLANES, stored
    put_patch(tables, 1, patch(4, other, changed), [copy.copy(tables.chunks[0])])
    yield KitCase("patch-of-other-dtype", "the base of a patch of u32 is a chunk of planes of f32, without its signs moved back", build(tables))
    half = array_of("u16", BASE)
    tables = from_tree({"a": half, "b": bytes_of(DATA)})
    put_patch(tables, 1, sparse(), [copy.copy(tables.chunks[0])])
    yield KitCase("patch-of-raw-other-dtype", "the base of a patch of u8 is a raw chunk of u16", build(tables))


def planes_of_u32(stored: bytes) -> bytes:
    """What these stored planes are as a chunk of u32 of 40 elements."""
    return reference.decode_planes(stored, 4, False, 160, 0)


def streams() -> Iterator[KitCase]:
    """Every form of the streams of a patch, and every dtype."""
    dtypes = sorted({name for name, _ in reference.DTYPES.values()})
    for name, about, every, dense, store in (
        ("sparse", "a sparse patch of every dtype", 3, False, bytes),
        ("dense", "a dense patch of every dtype of 2 bytes and more, with differences of 0", 5, True, smallest),
    ):
        chosen = [dtype for dtype in dtypes if not dense or element_width(dtype) > 1]
        pairs, tree = {}, {}
        for number, dtype in enumerate(chosen):
            base = bytes((37 * i * i + number) % (2 if dtype == "bool" else 256) for i in range(240))
            data = moved(dtype, base, 40 if element_width(dtype) == 1 else every, 3)
            pairs[dtype] = base, data
            tree[f"{dtype}-0"], tree[f"{dtype}-1"] = array_of(dtype, base), array_of(dtype, data)
        tables = from_tree(tree)
        for number, dtype in enumerate(chosen):
            base, data = pairs[dtype]
            stored = patch(element_width(dtype), base, data, store, dense)
            assert len(stored) < len(data), (dtype, len(stored))
            tables.chunks[2 * number + 1].starts_tensor = True
            put_patch(tables, 2 * number + 1, stored, [copy.copy(tables.chunks[2 * number])])
        yield KitCase(f"patch-dtypes-{name}", about, build(tables))

    run = bytes(MIB)
    framed = seal(frame(run))
    for name, about, data, store in (
        ("gaps-of-3-bytes", "gaps of 1, 2 and 3 bytes, up to the end of a chunk of 1 MiB", at_places(127, 255, 16639, 33023, MIB - 1), bytes),
        ("largest-gap", "one gap, to the last byte of a chunk of 1 MiB", at_places(MIB - 1), bytes),
        ("gaps-of-one-byte", "gaps that are one repeated byte", at_places(*range(3, MIB // 64, 4)), smallest),
        ("framed-gaps", "gaps in a sealed frame", at_places(*range(3, 4000, 4), *range(4500, 9000, 5)), smallest),
        ("framed-plane", "a plane in a sealed frame", bytes(i // 700 + 1 for i in range(1400)) + bytes(MIB - 1400), smallest),
        ("full-dense", "a dense patch of 1 MiB whose plane is one repeated byte", b"\1" * MIB, smallest),
        ("full-dense-framed", "a dense patch of 1 MiB whose plane is a sealed frame", b"\1" * (MIB // 2) + b"\2" * (MIB // 2), smallest),
    ):
        tables = from_tree({"a": bytes_of(run), "b": bytes_of(data)})
        tables.chunks[0].hash, tables.chunks[0].codec, tables.chunks[0].data = h128(run), ZSTD, framed
        tables.chunks[1].starts_tensor = True
        put_patch(tables, 1, patch(1, run, data, store), [copy.copy(tables.chunks[0])])
        yield KitCase(f"patch-{name}", about, build(tables))


def at_places(*places: int) -> bytes:
    """1 MiB of zeros, but for ones at these places."""
    data = bytearray(MIB)
    for place in places:
        data[place] = 1
    return bytes(data)


def another_recipe() -> KitCase:
    """A base that equals a patch of this file, with another base below it than that patch has. Only the hash at the end counts."""
    flat = bytes(range(100)) * 3
    tree = {"a": flat, "b": add(flat, STEP), "c": DATA, "d": add(DATA, STEP, STEP)}
    tables = from_tree({name: bytes_of(data) for name, data in tree.items()})
    stored = patch(1, flat, tree["b"])
    tables.chunks[1].starts_tensor = True
    put_patch(tables, 1, stored, [copy.copy(tables.chunks[0])])
    # The record of chunk 1, which is a patch of `a` there, and here one of `c`.
    put_patch(tables, 3, patch(1, add(DATA, STEP), tree["d"]), [copy.copy(tables.chunks[1]), copy.copy(tables.chunks[2])])
    return KitCase("patch-with-another-base", "a base that is a patch of this file, with another base below it than there", build(tables))


def against(
    beside: dict[str, bytes], place: int, *, data: bytes = DATA, stored: bytes | None = None, bases: list[ChunkRecord] | None = None
) -> bytes:
    """A file with a patch of bytes of the first of the files beside it, and a tensor of its own."""
    tables = from_tree({"a": bytes_of(b"own"), "b": bytes_of(data)})
    refer(tables, beside, {})
    bases = bases or [ChunkRecord(BASE, False, place, h128(BASE), len(BASE), 1, RAW)]
    put_patch(tables, 1, stored or sparse(), bases)
    return build(tables)


def layers(base_file: bytes, place: int) -> KitCase:
    """Thirty-one patches in a file of their own, and one more here: 32 records and 32 layers."""
    made, data = [], BASE
    for i in range(32):
        following = data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :]
        made.append((patch(1, data, following), following))
        data = following
    bases = [ChunkRecord(BASE, False, place, h128(BASE), len(BASE), 1, RAW)]
    at = 0
    for stored, following in made[:-1]:
        bases.insert(0, ChunkRecord(stored, False, at, h128(following), len(stored), 2, 3))
        at += len(stored)
    beside = {"base.espalier": base_file, "patches.bin": b"".join(stored for stored, _ in made[:-1])}
    return KitCase("patch-32-layers", "32 layers in other files", against(beside, place, data=data, stored=made[-1][0], bases=bases), beside)


# --- Files that are not there ---------------------------------------------------------------------


def missing_files() -> Iterator[KitCase]:
    base = {"base.espalier": BASE_FILE}
    data = referred({"a": bytes_of(b"0123"), "b": bytes_of(b"here"), "c": 7}, base, {0: ("base.espalier", BLOB)})
    another = bytearray(BASE_FILE)
    another[127] ^= 1
    for name, about, beside in (
        ("absent", "the other file is not there", {}),
        ("longer", "the other file has another length", {"base.espalier": BASE_FILE + b"\0"}),
        ("another", "the other file begins differently", {"base.espalier": bytes(another)}),
    ):
        yield KitCase(f"missing-{name}", about, data, beside, INCOMPLETE)
    long = {"model.bin": bytes(65536) + b"0123"}
    other = referred({"a": bytes_of(b"0123")}, long, {0: ("model.bin", 65536)})
    last = {"model.bin": flipped(long["model.bin"], 65535)}
    yield KitCase("missing-largest-head", "the last byte of a head of 65,536 bytes is another", other, last, INCOMPLETE)
    yield KitCase("missing-folder", "a folder has the name of the other file", data, {"base.espalier/base.espalier": BASE_FILE}, INCOMPLETE)
    yield from damage_beside_missing()
    base_file = build(from_tree({"x": bytes_of(BASE)}))
    made = against({"base.espalier": base_file}, len(base_file) - len(BASE))
    yield KitCase("missing-base", "the file of a patch's base is not there", made, {}, INCOMPLETE)


def flipped(data: bytes, at: int) -> bytes:
    """The file with another byte."""
    changed = bytearray(data)
    changed[at] ^= 1
    return bytes(changed)


def damage_beside_missing() -> Iterator[KitCase]:
    """Damage wins over a missing file, wherever it is found."""
    base, both = {"base.espalier": BASE_FILE}, {"base.espalier": BASE_FILE, "other.bin": b"other"}
    places = {0: ("base.espalier", BLOB), 1: ("other.bin", 0)}
    tree = {"a": bytes_of(b"0123"), "b": bytes_of(b"other"), "c": bytes_of(b"here"), "d": bytes_of(b"\1")}
    good = referred(tree, both, places)
    yield KitCase("missing-one-of-two", "one of two other files is not there", good, base, INCOMPLETE)
    wrong = {"base.espalier": flipped(BASE_FILE, BLOB)}
    yield KitCase("damaged-other-file", "a byte of a chunk is wrong in another file whose head is right", good, wrong | {"other.bin": b"other"}, REFUSE)
    yield KitCase("damaged-other-file-and-missing", "the same, and a second file is not there", good, wrong, REFUSE)
    unused = {"base.espalier": BASE_FILE[:BLOB] + b"0123" + b"xxxxxx"}
    alone = referred({"a": bytes_of(b"0123")}, base, {0: ("base.espalier", BLOB)})
    yield KitCase("damaged-other-file-elsewhere", "bytes of another file that no chunk needs are wrong", alone, unused)
    place = good.rindex(b"here")
    yield KitCase("damaged-and-missing", "a chunk here is wrong, and another file is not there", flipped(good, place), base, REFUSE)
    yield KitCase("damaged-padding-and-missing", "a byte between chunks is wrong, and another file is not there", flipped(good, place + 5), base, REFUSE)
    wrong_digest = lambda tables: setattr(tables, "tree_digest", bytes(16))
    data = referred(tree, both, places, wrong_digest)
    yield KitCase("damaged-digest-and-missing", "the tree digest is wrong, and another file is not there", data, base, REFUSE)
    equal = {"a": bytes_of(b"0123"), "s": Set([1, 1])}
    data = referred(equal, base, {0: ("base.espalier", BLOB)})
    yield KitCase("damaged-set-and-missing", "two elements of a set are equal, and the other file is not there", data, {"else.bin": b""}, REFUSE)
    # A chunk is not checked at all if a part of its recipe is not there.
    base_file = build(from_tree({"x": bytes_of(BASE)}))
    odd = against({"base.espalier": base_file}, len(base_file) - len(BASE), stored=sparse(tail=b"\0"))
    yield KitCase("missing-base-of-odd-patch", "the file of the base of a patch that breaks R-12.7 is not there", odd, {}, INCOMPLETE)
    layered = layers(base_file, len(base_file) - len(BASE))
    bits = {"patches.bin": layered.beside["patches.bin"], "base.espalier": flipped(base_file, len(base_file) - 1)}
    yield KitCase("damaged-base", "a base in another file is wrong, below 32 layers", layered.data, bits, REFUSE)
    only = {"base.espalier": bits["base.espalier"]}
    ours = build(from_tree({"x": bytes_of(BASE)}))
    tables = from_tree({"a": bytes_of(DATA), "b": bytes_of(b"other")})
    beside = {"base.espalier": ours, "other.bin": b"other"}
    refer(tables, beside, {1: ("other.bin", 0)})
    put_patch(tables, 0, sparse(), [ChunkRecord(BASE, False, len(ours) - len(BASE), h128(BASE), len(BASE), 1, RAW)])
    bad_base = {"base.espalier": flipped(ours, len(ours) - 1)}
    yield KitCase("damaged-base-and-missing", "a base in another file is wrong, and a second file is not there", build(tables), bad_base, REFUSE)
    yield KitCase("missing-layer-of-damaged-base", "a base in another file is wrong, and the file of the layers between is not there", layered.data, only, INCOMPLETE)


# --- What is too large for the hostile corpus -----------------------------------------------------


def refused() -> Iterator[KitCase]:
    run = bytes(MIB)
    stored = seal(frame(run))
    packed = {"packed.bin": stored}

    def compress(tables: Tables) -> None:
        for chunk in tables.chunks:
            chunk.codec, chunk.stored, chunk.offset = ZSTD, len(stored), 0

    twice = referred({"a": Array("u8", (2 * MIB,), run + run)}, packed, {0: ("packed.bin", 0), 1: ("packed.bin", 0)}, compress)
    yield KitCase("refused-shared-bytes", "two chunks of one tensor share bytes of another file", twice, packed, REFUSE)
    (longest,) = (data for name, data, _ in odd_bases() if name == "chain-of-33")
    yield KitCase("refused-patch-in-1.0", "a patch in version 1.0", broken_cases.patch_in_1_0(), verdict=REFUSE)
    for name, about, data in broken_cases.missing_texts():
        yield KitCase(f"refused-text-of-{name}", f"{about}, and all texts are used", data, verdict=REFUSE)
    yield KitCase("refused-33-layers", "a chunk that takes 33 records", longest, verdict=REFUSE)


# --- Section 16 -----------------------------------------------------------------------------------


def limits() -> Iterator[KitCase]:
    deep: object = None
    for _ in range(128):
        deep = [deep]
    yield KitCase("limit-depth", "128 containers inside each other", build(from_tree(deep)))
    yield KitCase("limit-depth-of-metadata", "the same in the metadata", build(from_tree(None, {"m": nested(127)})))
    path: object = 1
    for _ in range(4):
        path = {"k" * 1024: path}
    yield KitCase("limit-path", "4,096 bytes of text keys on the way to a node", build(from_tree(path)))
    yield KitCase("limit-key", "one key of 4,096 bytes", build(from_tree({"k" * 4096: 1})))
    large = 2 ** (8 * 1024 - 2)
    yield KitCase("limit-bigint", "bigints of 1,024 bytes", build(from_tree([large, -large])))
    largest = 2**53 - 1
    shapes = [Placeholder("u8", (largest,)), Array("f32", (largest, 0), b""), Placeholder("opaque", (largest,), None, ("q", 1, 1))]
    yield KitCase("limit-shape", "axes, elements and bytes of 2^53 - 1", build(from_tree(shapes)))


def beyond_limits() -> Iterator[KitCase]:
    shapes = [Array("f32", (2**60, 0), b""), Array("f32", (0, 2**64 - 1), b"")]
    yield KitCase("beyond-shape", "axes of 2^60 and 2^64 - 1 beside 0", build(from_tree(shapes)), verdict=EITHER)
    holes = [Placeholder("u8", (2**53,)), Placeholder("u2", (2**63,))]
    yield KitCase("beyond-bytes", "2^53 bytes, and 2^63 elements", build(from_tree(holes)), verdict=EITHER)


def odd_frames() -> Iterator[KitCase]:
    """Frames by hand that break R-6.10, and that some decoders accept."""
    data = b"abcd" + b"d" * 34
    for bits in (1, 2, 3):
        # Four literals; one sequence, whose three codes have tables of one symbol; the reserved bits of their modes.
        body = bytes([4 << 3]) + b"abcd" + bytes([1, 0b01010100 | bits]) + bytes([4, 0, 31]) + b"\1"
        tables = from_tree({"a": bytes_of(data)})
        chunk = tables.chunks[0]
        chunk.hash, chunk.codec, chunk.data = h128(data), ZSTD, seal(frame(data, body=block(2, len(body), body, True)))
        about = f"the reserved bits of a header of sequences are {bits}"
        yield KitCase(f"frame-reserved-bits-{bits}", about, build(tables), verdict=EITHER, rule="R-6.10")


def nested(depth: int) -> object:
    value: object = None
    for _ in range(depth):
        value = [value]
    return value


def zstd_frames() -> dict[str, bytes]:
    """The files whose frames break R-6.10. They are checked in, because only tools of ours make such frames."""
    return {path.stem: path.read_bytes() for path in sorted((HERE / "zstd-frames").glob("*.espalier"))}

