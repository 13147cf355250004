"""Stored bytes of compressed chunks: good ones of every form, and ones that break one rule of section 6.

All seals are right but where a seal is what is wrong, so that it is the rule that refuses the chunk.
"""

import struct
from dataclasses import dataclass

from espalier_build import MIB, Array, build, from_tree, h64
from espalier_codecs import (
    ELEMENTS,
    LARGEST_BLOCK,
    MAGIC,
    PLANES,
    ZSTD,
    block,
    blocks,
    checksum,
    compress,
    frame,
    join,
    planes,
    seal,
    skippable,
    split,
    zstd_frame,
)
from random_trees import BITS


@dataclass
class OddChunk:
    """The only chunk of a tensor of `dtype` that holds `data`. `words` are those of the independent reader."""

    name: str
    dtype: str
    data: bytes
    codec: int
    stored: bytes
    words: str = ""

    def array(self):
        block = ("q", 1, 1) if self.dtype == "opaque" else None
        elements = 8 * len(self.data) // BITS.get(self.dtype, 8)
        return Array(self.dtype, (elements,), self.data, None, block)

    def tables(self):
        """The tree is a dict with the tensor as `a`."""
        return compress(from_tree({"a": self.array()}), lambda *_: (self.codec, self.stored))

    def file(self):
        return build(self.tables())


# --- Frames ---------------------------------------------------------------------------------------

DATA = b"an espalier " + bytes(200) + b" on a wall"
SIZE = len(DATA)
WINDOW = b"\x50"  # Of 1 MiB.


def odd_frames():
    """(name, frame, words): each frame gets its seal."""
    good = frame(DATA)
    other_size = lambda size: f"the frame is of {size} bytes and not of {SIZE}"
    bits = lambda value: f"the frame has the descriptor {value:#x}"
    cut, behind, no_frame = "the frame is cut short", "stands after the frame", "wrong magic"
    undecoded = "the frame cannot be decoded"

    for size in (0, SIZE - 1, SIZE + 1, 2**31, 2**32 - 1, 2**63, 2**64 - 2, 2**64 - 1):
        yield f"says-{size}", frame(DATA, size), other_size(size)
    yield "has-less", frame(DATA[:-1]), other_size(SIZE - 1)
    yield "has-more", frame(DATA + b"."), other_size(SIZE + 1)
    yield "has-less-than-it-says", frame(DATA[:-1], SIZE), undecoded
    yield "has-more-than-it-says", frame(DATA + b".", SIZE), undecoded
    bomb = block(1, LARGEST_BLOCK, b"x") * 40 + block(0, 0, b"", True)  # 5 MiB in 163 bytes.
    yield "bomb", frame(b"", SIZE, body=bomb), undecoded
    yield "bomb-that-says-so", frame(b"", 5 * MIB, body=bomb), other_size(5 * MIB)
    yield "of-nothing", frame(b""), other_size(0)

    yield "and-a-byte", good + b"\0", behind
    yield "and-a-magic", good + MAGIC, behind
    yield "and-another", good + good, behind
    yield "and-an-empty-one", good + frame(b""), behind
    yield "behind-an-empty-one", frame(b"") + good, other_size(0)
    yield "in-two-halves", frame(DATA[:100]) + frame(DATA[100:]), other_size(100)
    yield "and-a-skippable-one", good + skippable(b"hidden"), behind
    yield "behind-a-skippable-one", skippable(b"hidden") + good, no_frame
    yield "skippable", skippable(bytes(SIZE // 2)), no_frame

    yield "without-size", MAGIC + b"\x00" + WINDOW + blocks(DATA), bits(0)
    sized = struct.pack("<I", SIZE)
    yield "with-window", MAGIC + b"\x80" + WINDOW + sized + blocks(DATA), bits(0x80)
    largest = MAGIC + b"\x80\xff" + sized + blocks(DATA)  # Almost 4 TiB.
    yield "with-window-of-terabytes", largest, bits(0x80)
    yield "with-checksum", frame(DATA, bits=0x24, tail=checksum(DATA)), bits(0x24)
    yield "with-wrong-checksum", frame(DATA, bits=0x24, tail=b"sums"), bits(0x24)
    yield "with-unused-bit", frame(DATA, bits=0x30), bits(0x30)
    yield "with-reserved-bit", frame(DATA, bits=0x28), bits(0x28)
    for code, size in ((1, 1), (2, 2), (3, 4)):
        fields = (7).to_bytes(size, "little")
        yield f"with-dictionary-{code}", frame(DATA, bits=0x20 | code, fields=fields), bits(0x20 | code)
    # Dictionary 0 is none: zstd takes this.
    yield "with-dictionary-of-0", frame(DATA, bits=0x21, fields=b"\0"), bits(0x21)

    for version in range(1, 8):
        magic = bytes([0x20 + version]) + MAGIC[1:] if version > 1 else b"\xfd\x2f\xb5\x1e"
        yield f"of-version-0.{version}", frame(DATA, magic=magic), no_frame
    # A version that zstd still reads; its blocks have other headers: kind, size, high bits first.
    old = [(1, 12, DATA[:12]), (2, 200, b"\0"), (1, 10, DATA[212:]), (3, 0, b"")]
    old = b"".join((kind << 22 | size).to_bytes(3, "big") + body for kind, size, body in old)
    yield "of-real-version-0.7", frame(DATA, magic=b"\x27" + MAGIC[1:], body=old), no_frame
    yield "with-magic-swapped", frame(DATA, magic=MAGIC[::-1]), no_frame
    yield "without-magic", frame(DATA, magic=b""), no_frame
    for size in (3, 4, 5, 8, len(good) - 1):
        yield f"cut-to-{size}", good[:size], cut

    yield "without-blocks", frame(DATA, body=b""), cut
    yield "without-last-block", frame(DATA, body=block(0, SIZE // 2, DATA[: SIZE // 2])), cut
    yield "with-reserved-block", frame(DATA, body=block(3, 0, b"", True)), "the reserved type"
    beyond = block(0, SIZE, DATA[: SIZE // 2], True)
    yield "with-block-past-end", frame(DATA, body=beyond), cut
    yield "with-largest-block", frame(DATA, body=block(0, 2**21 - 1, b"x", True)), "block of the frame is larger"
    yield "with-garbage-for-block", frame(DATA, body=block(2, 20, bytes(range(20)), True)), undecoded
    yield "with-empty-block", frame(DATA, body=block(2, 0, b"", True)), undecoded
    tail = block(0, 0, b"", True)
    yield "and-a-block", good + tail, behind
    yield "of-other-bytes", frame(DATA[::-1]), "chunk 0 is damaged"


def odd_seals():
    """(name, stored bytes, words)."""
    good = frame(DATA)
    wrong, short = "its seal is wrong", "too short for a seal"
    yield "seal-of-nothing", h64(b""), "the frame is cut short"
    yield "seal-of-zeros", good + bytes(8), wrong
    yield "seal-swapped", good + h64(good)[::-1], wrong
    yield "seal-of-contents", good + h64(DATA), wrong
    yield "seal-missing", good, wrong
    yield "seal-before", h64(good) + good, wrong
    yield "seal-cut", seal(good)[:-1], wrong
    yield "seal-and-a-byte", seal(good) + b"\0", wrong
    yield "seal-alone-and-cut", h64(b"")[:7], short
    yield "seal-of-one-byte", b"\0", short
    flipped = bytearray(seal(good))
    flipped[-9] ^= 0x80  # The last byte of the contents.
    yield "seal-of-other-bit", bytes(flipped), wrong


# --- Planes ---------------------------------------------------------------------------------------

# By plane: noise, a frame, and two that are constant.
PARTS = [bytes(range(64)), bytes(32) + b"\1" * 32, b"\7" * 64, b"\x3f" * 64]
WORDS = b"".join(bytes(part[i] for part in PARTS) for i in range(64))


def odd_planes():
    """(name, stored bytes, words) of a chunk of u32."""
    noise, framed, seven, last = PARTS[0], seal(frame(PARTS[1])), b"\7", b"\x3f"
    good = [noise, framed, seven, last]
    sizes = [len(part) for part in good]
    length = lambda k, size: f"stream {k} has the length {size}"
    cut, behind, wrong = "is cut short", "stands after the streams", "chunk 0 is damaged"

    def with_plane(k, part):
        return join([*good[:k], part, *good[k + 1 :]])

    def with_length(k, size):
        return join(good, [*sizes[:k], size, *sizes[k + 1 :]])

    yield "empty", with_plane(2, b""), length(2, 0)
    yield "all-empty", join([b""] * 4), length(0, 0)
    yield "longer-than-plane", with_plane(0, noise + b"x"), length(0, 65)
    yield "of-2^32", with_length(3, 2**32 - 1), length(3, 2**32 - 1)
    yield "of-2^31", with_length(0, 2**31), length(0, 2**31)
    yield "and-a-byte", join(good) + b"\0", behind
    yield "and-a-frame", join(good) + framed, behind
    yield "last-missing", join(good)[:-1], "stream 3 " + cut
    yield "all-missing", join([], sizes), "stream 0 " + cut
    yield "lengths-missing", b"".join(good)[:12], "the streams have no lengths"
    yield "lengths-cut", join(good)[:15], "the streams have no lengths"
    yield "lengths-of-one-byte", b"\1", "the streams have no lengths"
    swapped = struct.pack(">4I", *sizes) + b"".join(good)
    yield "lengths-swapped", swapped, length(0, 64 << 24)
    yield "one-fewer", join(good[:3]) + b"\x3f", "stream 1 " + cut
    yield "sum-too-short", with_length(0, 63), "its seal is wrong"
    yield "sum-too-long", with_length(3, 2), "stream 3 " + cut
    yield "constant-twice", with_plane(2, b"\7\7"), "too short for a seal"
    yield "without-seal", with_plane(1, frame(PARTS[1])), "its seal is wrong"
    for size in (1, 63, 65, 256):
        yield f"frame-of-{size}", with_plane(1, seal(frame(bytes(size)))), f"the frame is of {size} bytes"
    marked = seal(frame(PARTS[1], bits=0x24, tail=checksum(PARTS[1])))
    yield "frame-with-checksum", with_plane(1, marked), "the frame has the descriptor 0x24"
    yield "frame-and-another", with_plane(1, seal(frame(PARTS[1]) + frame(b""))), "after the frame"
    bomb = seal(frame(b"", 64, body=block(1, LARGEST_BLOCK, b"x") * 5 + block(0, 0, b"", True)))
    yield "bomb", with_plane(1, bomb), "the frame cannot be decoded"
    yield "exchanged", join([noise, framed, last, seven]), wrong
    yield "of-other-bytes", with_plane(0, noise[::-1]), wrong
    yield "with-signs-moved", planes("f32", WORDS), wrong


def odd_chunks():
    """All that opening cannot see, as OddChunks."""
    for name, each, words in odd_frames():
        yield OddChunk(f"frame-{name}", "u8", DATA, ZSTD, seal(each), words)
    for name, stored, words in odd_seals():
        yield OddChunk(name, "u8", DATA, ZSTD, stored, words)
    for name, stored, words in odd_planes():
        # Some wrong ones are longer than the chunk of the others.
        yield OddChunk(f"planes-{name}", "u32", WORDS, PLANES, stored, words)
    # zstd takes this, and decoders of streams do not.
    large = b"x" * (LARGEST_BLOCK + 1)
    too_large = seal(frame(large, body=block(1, len(large), b"x", True)))
    yield OddChunk("frame-with-block-too-large", "u8", large, ZSTD, too_large, "block of the frame is larger")
    floats = struct.pack("<40f", *(-1.5 if i % 3 else 1.25 for i in range(40)))
    unmoved = planes("u32", floats)
    yield OddChunk("planes-with-signs-unmoved", "f32", floats, PLANES, unmoved, "chunk 0 is damaged")


# --- Good chunks ----------------------------------------------------------------------------------


def good_chunks():
    """Every form of a chunk that the page allows."""
    for bits, size in ((0x60, 2), (0xA0, 4), (0xE0, 8)):
        data = DATA * 2  # At least 256 bytes, which a field of two bytes begins at.
        long = len(data) - (256 if size == 2 else 0)
        written = MAGIC + bytes([bits]) + long.to_bytes(size, "little") + blocks(data)
        yield OddChunk(f"size in {size} bytes", "u8", data, ZSTD, seal(written))
    nothing = block(0, 0, b"") + block(1, 0, b"x")
    padded = frame(DATA, body=nothing + blocks(DATA))
    yield OddChunk("blocks of nothing", "u8", DATA, ZSTD, seal(padded))
    yield OddChunk("as it came", "u8", bytes(19), ZSTD, seal(frame(bytes(19))))
    yield OddChunk("bits", "bool", bytes(50), ZSTD, seal(frame(bytes(50))))
    yield OddChunk("blocks", "opaque", bytes(50), ZSTD, seal(frame(bytes(50))))
    full = bytes(range(256)) * (MIB // 256)
    yield OddChunk("a full chunk", "f64", full, ZSTD, seal(zstd_frame(full)))
    full = bytes(MIB)
    yield OddChunk("a full chunk of planes", "f64", full, PLANES, planes("f64", full))

    for dtype, (width, _) in ELEMENTS.items():
        numbers = [0x9E3779B97F4A7C15 * i % 2**64 for i in range(96)]
        noise = b"".join(struct.pack("<Q", each)[:width] for each in numbers)
        alike = bytearray(noise)
        # The upper byte, or a float's exponent, has one value; the sign, two.
        alike[width - 1 :: width] = bytes(0x3F | i // 48 << 7 for i in range(96))
        alike[width - 2 :: width] = bytes(byte & 0x7F for byte in alike[width - 2 :: width])
        yield OddChunk(f"planes of {dtype}", dtype, bytes(alike), PLANES, planes(dtype, bytes(alike)))
        made = planes(dtype, bytes(alike), zstd_frame)
        yield OddChunk(f"planes of {dtype} by zstd", dtype, bytes(alike), PLANES, made)
        constant = bytes(range(width)) * 96
        yield OddChunk(f"constant {dtype}", dtype, constant, PLANES, planes(dtype, constant))
    framed = join([seal(frame(part)) if len(set(part)) < 3 else part for part in split("u32", WORDS)])
    yield OddChunk("constants in frames", "u32", WORDS, PLANES, framed)
