"""Files with patches (section 12): good ones of every form, and ones that break one rule.

Of each, tensor `a` is the base and `b` the patch of it, in one file, so that the file stands by itself. All seals
are right but where a seal is what is wrong, so that it is the rule that refuses the patch.
"""

import copy
import random
import struct
from dataclasses import dataclass

from espalier_build import Array, build, from_tree, h128, leb128, patch, put_patch
from espalier_codecs import ELEMENTS, PLANES, ZSTD, compress, frame, planes, seal
from random_trees import BITS


@dataclass
class OddPatch:
    """`words` are those of the independent reader: none for a good one. `offset` is what it names."""

    name: str
    dtype: str
    base: bytes
    data: bytes
    stored: bytes
    words: str = ""

    def array(self, data):
        block = ("q", 1, 1) if self.dtype == "opaque" else None
        return Array(self.dtype, (8 * len(data) // BITS.get(self.dtype, 8),), data, None, block)

    def tables(self):
        tables = from_tree({"a": self.array(self.base), "b": self.array(self.data)})
        put_patch(tables, 1, self.stored, [copy.copy(tables.chunks[0])])
        return tables

    def file(self, **options):
        return build(self.tables(), **options)


def smallest(stream):
    """A stream in the shortest of the ways that there are."""
    if len(stream) > 1 and len(set(stream)) == 1:
        return stream[:1]
    return min(stream, seal(frame(stream)), key=len)


def numbers(*values):
    return struct.pack(f"<{len(values)}I", *values)


# --- Good ones ------------------------------------------------------------------------------------


def moved(dtype, base, every, by=1):
    """One of `every` elements grows by `by`."""
    width = ELEMENTS.get(dtype, (1,))[0]
    out = bytearray(base)
    for at in range(0, len(base), width * every):
        value = int.from_bytes(out[at : at + width], "little") + by
        out[at : at + width] = (value % (1 << 8 * width)).to_bytes(width, "little")
    return bytes(out)


def good_patches():
    noise = random.Random(12).randbytes(960)
    for dtype in ("bf16", "f32", "f64", "u16", "i64", "c64", "c128", "u8", "bool", "f8_e4m3fn", "i4", "opaque"):
        width = ELEMENTS.get(dtype, (1,))[0]
        base = bytes(len(noise)) if dtype == "bool" else noise
        for every, by in ((1, 1), (2, 1), (7, -1), (60, 1)):
            data = moved(dtype, base, every, 1 if dtype == "bool" else by)
            for kind, store in (("raw", bytes), ("small", smallest)):
                stored = patch(width, base, data, store)
                if len(stored) < len(base):
                    yield OddPatch(f"good-{dtype}-every-{every}-{kind}", dtype, base, data, stored)
    data = moved("u16", noise, 100, 0x8000)
    yield OddPatch("good-lowest-difference", "u16", noise, data, patch(2, noise, data))
    data = moved("u16", noise, 3, 5)
    yield OddPatch("good-dense-with-zeros", "u16", noise, data, patch(2, noise, data, smallest, dense=True))


# --- Bad ones -------------------------------------------------------------------------------------

BASE = bytes(range(200)) + bytes(100)
DATA = BASE[:200] + b"\x01\xfe" + BASE[202:]
GAPS, MOVES = b"\xc8\x01\x00", b"\x02\x03"  # The example of section 12.


def sparse(count=2, gaps=GAPS, moves=MOVES, gap_bytes=None, lengths=None, tail=b""):
    gap_bytes = len(gaps) if gap_bytes is None else gap_bytes
    return numbers(count, gap_bytes, *(lengths or (len(gaps), len(moves)))) + gaps + moves + tail


def odd_patches():
    """Chunks of u8 that break one rule of the stored bytes."""
    assert patch(1, BASE, DATA) == sparse()
    n = len(BASE)
    gaps, cut, short = "the gaps have {} bytes", "the gaps are cut short", "a gap is not in its shortest form"
    beyond, left = "the gaps lead beyond the chunk", "there are gaps left over"
    for name, stored, words in (
        ("no-changes", sparse(0, b"", b""), "has 0 changes"),
        ("no-changes-and-gaps", sparse(0, b"\0", b"\2"), "has 0 changes"),
        ("one-more-than-elements", sparse(n + 1, b"", b"\2"), f"has {n + 1} changes"),
        ("changes-of-2^32", sparse(2**32 - 1), f"has {2**32 - 1} changes"),
        ("dense-with-gaps", sparse(n, gap_bytes=n, gaps=b"\0", moves=b"\2"), gaps.format(n)),
        ("dense-with-a-stored-gap", sparse(n, gap_bytes=0, gaps=b"\0", moves=b"\2"), "stream 0 has the length 1"),
        ("sparse-without-gaps", sparse(2, gaps=b""), gaps.format(0)),
        ("fewer-gap-bytes-than-changes", sparse(gaps=b"\0"), gaps.format(1)),
        ("more-gap-bytes-than-chunk", sparse(gap_bytes=n + 1, gaps=b"\0"), gaps.format(n + 1)),
        ("gap-bytes-of-2^32", sparse(gap_bytes=2**32 - 1, gaps=b"\0"), gaps.format(2**32 - 1)),
        ("gaps-too-few", sparse(gaps=b"\xc8\x01"), cut),
        ("gaps-too-many", sparse(gaps=GAPS + b"\0"), left),
        ("gap-of-two-bytes-for-one", sparse(gaps=b"\xc8\x01\x80\x00"), short),
        ("gap-of-three-bytes-for-two", sparse(gaps=b"\xc8\x81\x00\x00"), short),
        ("gap-without-end", sparse(gaps=b"\xc8\x01\x80"), cut),
        ("gaps-without-end", sparse(gaps=b"\xff" * 6), cut),
        ("gap-to-the-end", sparse(gaps=b"\xc8\x01\x63"), beyond),
        ("gap-of-2^31", sparse(gaps=b"\x00\x80\x80\x80\x80\x08"), beyond),
        ("gap-of-2^32-and-200", sparse(gaps=leb128(2**32 + 200) + b"\0"), beyond),
        ("gap-of-2^35-and-200", sparse(gaps=leb128(2**35 + 200) + b"\0"), beyond),
        ("gap-of-2^64-and-200", sparse(gaps=leb128(2**64 + 200) + b"\0"), beyond),
        ("difference-of-0", sparse(moves=b"\2\0"), "a difference is zero"),
        ("stream-of-no-bytes", sparse(moves=b""), "stream 1 has the length 0"),
        ("stream-longer", sparse(moves=b"\2\3\4"), "stream 1 has the length 3"),
        ("stream-beyond-patch", sparse(lengths=(3, 2), moves=b"\2"), "stream 1 is cut short"),
        ("stream-of-2^32", sparse(lengths=(3, 2**32 - 1)), f"stream 1 has the length {2**32 - 1}"),
        ("stream-of-neither-form", sparse(3, b"\xc8\x01\0\0", b"\2\3", lengths=(4, 2)), "too short for a seal"),
        ("and-a-byte", sparse(tail=b"\0"), "after the streams"),
        ("counts-cut", numbers(2), "has no counts"),
        ("lengths-cut", numbers(2, 3, 3), "the streams have no lengths"),
        ("streams-missing", numbers(2, 3, 3, 2), "stream 0 is cut short"),
        ("of-other-bytes", sparse(moves=b"\2\2"), "its hash is wrong"),
        ("one-further", sparse(gaps=b"\xc9\x01\x00"), "its hash is wrong"),
    ):  # fmt: skip
        yield OddPatch(name, "u8", BASE, DATA, stored, words)
    # Streams as frames.
    moves, gaps = b"\2" * 100, b"\0" * 100
    data = bytes(b + 1 for b in BASE[:100]) + BASE[100:]
    framed = seal(frame(moves))
    good = lambda body, size=100: numbers(100, size, 1, len(body)) + b"\0" + body
    yield OddPatch("frame-without-seal", "u8", BASE, data, good(frame(moves)), "its seal is wrong")
    yield OddPatch("frame-of-fewer", "u8", BASE, data, good(seal(frame(moves[1:]))), "the frame is of 99 bytes")
    yield OddPatch("frame-and-another", "u8", BASE, data, good(framed + framed), "its seal is wrong")
    yield OddPatch("frame-flipped", "u8", BASE, data, good(framed[:-1] + b"\0"), "its seal is wrong")
    yield OddPatch("gaps-one-fewer", "u8", BASE, data, good(framed, 99), "the gaps have 99 bytes")
    yield OddPatch("gaps-one-more", "u8", BASE, data, good(framed, 101), left)
    two = patch(2, bytes(200), moved("u16", bytes(200), 10))
    assert len(gaps) == 100
    yield OddPatch("of-one-byte-elements", "u8", bytes(200), moved("u16", bytes(200), 10), two, "after the streams")
    wide = numbers(2, 3, 3, 1, 1) + b"\3\0\x22" + b"\0\0"
    yield OddPatch("difference-of-0-in-both-planes", "u16", bytes(200), bytes(200), wide, "a difference is zero")


# --- Records of bases -----------------------------------------------------------------------------


def based(*changes, count=3, bases=None, value=None, **options):
    """The file of tensors `a`, `b`, `c`..., in which the last is a patch of `a`, after changes."""
    value = value or {chr(97 + i): Array("u8", (300,), BASE) for i in range(count - 1)}
    value = {**value, "z": Array("u8", (300,), DATA)}
    tables = from_tree(value)
    chosen = [0] if bases is None else bases
    put_patch(tables, len(value) - 1, sparse(), [copy.copy(tables.chunks[i]) for i in chosen])
    for change in changes:
        change(tables)
    return build(tables, **options)


def chain(count):
    """A chunk and `count` patches of it, one upon the other, each a chunk of its own."""
    data, value = BASE, {"t000": Array("u8", (300,), BASE)}
    for i in range(1, count + 1):
        data = bytes([data[0] ^ 1]) + data[1:]
        value[f"t{i:03}"] = Array("u8", (300,), data)
    tables = from_tree(value)
    for i in range(1, count + 1):
        before, now = (value[f"t{k:03}"].data for k in (i - 1, i))
        bases = [copy.copy(tables.chunks[k]) for k in range(i - 1, -1, -1)]
        put_patch(tables, i, patch(1, before, now), bases)
    return tables


def good_bases():
    """(name, file)"""
    yield "base-here", based()
    yield "base-of-many", based(count=9, bases=[5])
    yield "chain-of-2", build(chain(2))
    yield "chain-of-32", build(chain(32))
    yield "base-framed", build(base_of(ZSTD, seal(frame(bytes(300)))))
    yield "base-of-planes", build(base_of(PLANES, planes("u16", bytes(300)), "u16"))


def base_of(codec, stored, dtype="u8"):
    """Tables of a patch whose base is compressed."""
    data = moved(dtype, bytes(300), 40)
    elements = 300 // ELEMENTS.get(dtype, (1,))[0]
    tables = from_tree({"a": Array(dtype, (elements,), bytes(300)), "b": Array(dtype, (elements,), data)})
    made = patch(ELEMENTS.get(dtype, (1,))[0], bytes(300), data)
    compress(tables, lambda _, chunk: (codec, stored) if chunk == bytes(300) else (0, chunk))
    put_patch(tables, 1, made, [copy.copy(tables.chunks[0])])
    return tables


def set_base(number, **fields):
    def change(tables):
        for name, value in fields.items():
            setattr(tables.bases[number], name, value)

    return change


def odd_bases():
    """(name, file, words, whether the records are wrong, and not the file's bytes)"""
    add = lambda tables: tables.bases.append(copy.copy(tables.bases[0]))
    yield "missing", based(lambda tables: tables.bases.clear()), "chunk 2 lacks a base"
    yield "left-over", based(add), "base 1 has no patch"
    yield "of-itself", build(of_itself()), "base 0 is no chunk before its patch"
    later = {"a": Array("u8", (300,), DATA), "b": Array("u8", (300,), BASE)}
    tables = from_tree(later)
    put_patch(tables, 0, sparse(), [copy.copy(tables.chunks[1])])
    yield "later", build(tables), "base 0 is no chunk before its patch"
    yield "with-another-hash", based(set_base(0, hash=bytes(16))), "base 0 is no chunk before its patch"
    for name, fields in (("offset", {"offset": 5}), ("offset-largest", {"offset": 2**64 - 1})):
        # A copy of the bytes, so that the builder does not know that they are a chunk's.
        yield f"with-another-{name}", based(apart, set_base(0, **fields)), "base 0 is no chunk before its patch"
    yield "longer", based(apart, set_base(0, stored=301)), "base 0 has the wrong length"
    yield "shorter", based(apart, set_base(0, stored=299)), "base 0 has the wrong length"
    yield "of-unknown-codec", based(apart, set_base(0, codec=4)), "base 0 has the unknown codec 4"
    yield "not-shorter", based(apart, set_base(0, codec=1)), "base 0 has the wrong length"
    yield "of-planes", based(apart, set_base(0, codec=2, stored=9)), "base 0 is of u8, which has no planes"
    yield "of-file-1", based(apart, set_base(0, file=1)), "base 0 lies in a file that is not listed"
    yield "with-reserved-field", based(set_base(0, zero=1)), "a reserved field of base 0 is not zero"
    yield "patch-without-base", based(apart, set_base(0, codec=3, stored=9)), "base 0 is no chunk"
    yield "chain-of-33", build(chain(33)), "chunk 33 has too many bases"
    yield "chain-cut", build(cut(chain(2))), "chunk 2 lacks a base"
    yield "patch-of-no-bytes", based(lambda tables: setattr(tables.chunks[2], "data", b"")), "chunk 2 has the wrong length"
    longer = lambda tables: setattr(tables.chunks[2], "data", bytes(300))
    yield "patch-not-shorter", based(longer), "chunk 2 has the wrong length"
    yield "feature-missing", based(header={"features": 0, "minor": 1}), "do not belong to version 1.1"
    yield "feature-of-files", based(header={"features": 12}), "the features that the file uses are 0x8"
    yield "feature-of-zstd", based(header={"features": 9}), "the features that the file uses are 0x8"
    framed = base_of(ZSTD, seal(frame(bytes(300))))
    yield "feature-of-base-missing", build(framed, header={"features": 8}), "the features that the file uses are 0x9"
    unused = lambda tables: setattr(tables.chunks[2], "codec", 0)
    raw = lambda tables: (setattr(tables.chunks[2], "data", DATA), tables.bases.clear())
    yield "feature-unused", based(unused, raw, header={"features": 8}), "the features that the file uses are 0x0"
    yield "minor-0", based(header={"minor": 0}), "do not belong to version 1.0"


def of_itself():
    """Tables of a patch that is applied to `a`, and then, as its own base, once more."""
    once, data = (BASE[:200] + bytes([count, 256 - 2 * count]) + BASE[202:] for count in (1, 2))
    tables = from_tree({"a": Array("u8", (300,), BASE), "z": Array("u8", (300,), data)})
    put_patch(tables, 1, patch(1, BASE, once), [])
    tables.bases = [copy.copy(tables.chunks[1]), copy.copy(tables.chunks[0])]
    return tables


def apart(tables):
    base = tables.bases[0]
    base.hash, base.stored, base.offset = h128(base.data), len(base.data), 128 + 1000
    base.data = bytes(bytearray(base.data))


def cut(tables):
    tables.bases.pop()
    return tables
