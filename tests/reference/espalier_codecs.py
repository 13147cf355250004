"""Compressed chunks for `espalier_build`, good ones and bad ones, written from docs/format.md alone.

    tables = from_tree({"w": Array("f32", (64,), bytes(256))})
    compress(tables, lambda dtype, data: (PLANES, planes(dtype, data)))
    data = build(tables)

The frames of `frame` have blocks of equal bytes and uncompressed blocks only: they are the same
whatever the version of zstd, and every part of them can be wrong. `zstd_frame` makes real ones.
"""

import struct

import needed_packages  # noqa: F401
import xxhash
import zstandard
from espalier_build import DTYPES, h64, h128

RAW, ZSTD, PLANES = 0, 1, 2
MAGIC = b"\x28\xb5\x2f\xfd"
LARGEST_BLOCK = 128 * 1024

# Section 6: bytes of an element, and whether its sign moves.
ELEMENTS = {name: (int(name[1:]) // 8, False) for name in "i16 u16 i32 u32 i64 u64".split()}
ELEMENTS |= {"bf16": (2, True), "c64": (4, True), "c128": (8, True)}
ELEMENTS |= {name: (int(name[1:]) // 8, True) for name in "f16 f32 f64".split()}


def seal(frame):
    return frame + h64(frame)


# --- Frames, RFC 8878 -----------------------------------------------------------------------------


def block(kind, size, body, last=False):
    """Kind 0 is `body` as it is, 1 a byte that repeats, 2 compressed, 3 reserved."""
    return (last | kind << 1 | size << 3).to_bytes(3, "little") + body


def blocks(data):
    """Blocks that decode to `data`: its long runs of a byte, and what stands between them."""
    parts, plain, at = [], b"", 0
    while at < len(data):
        ahead = data[at : at + (LARGEST_BLOCK if data[at : at + 1] == data[at + 1 : at + 2] else 1)]
        end = at + len(ahead) - len(ahead.lstrip(ahead[:1]))
        if end - at < 8:
            plain += data[at:end]
        if plain and (end - at >= 8 or end == len(data) or len(plain) > LARGEST_BLOCK - 8):
            parts.append((0, len(plain), plain))
            plain = b""
        if end - at >= 8:
            parts.append((1, end - at, data[at : at + 1]))
        at = end
    parts = parts or [(0, 0, b"")]
    return b"".join(block(*part, part is parts[-1]) for part in parts)


def content_size(size):
    """(flag for bits 7 and 6 of the descriptor, the field), the shortest there is."""
    if size < 256:
        return 0, struct.pack("<B", size)
    if size < 65536 + 256:
        return 1, struct.pack("<H", size - 256)
    return (2, struct.pack("<I", size)) if size < 2**32 else (3, struct.pack("<Q", size))


def frame(data, size=None, *, bits=0x20, fields=b"", body=None, magic=MAGIC, tail=b""):
    """A frame of `data`. The rest is for wrong ones.

    size    what it says that its content is long
    bits    of the descriptor, all but those for the content size
    fields  what stands before the content size
    body    its blocks
    """
    flag, length = content_size(len(data) if size is None else size)
    body = blocks(data) if body is None else body
    return magic + bytes([flag << 6 | bits]) + fields + length + body + tail


def skippable(content):
    return struct.pack("<II", 0x184D2A50, len(content)) + content


def checksum(data):
    return struct.pack("<I", xxhash.xxh64_intdigest(data) & 0xFFFFFFFF)


def zstd_frame(data, level=3):
    """A frame made by zstd itself, with a single segment."""
    parameters = zstandard.ZstdCompressionParameters.from_level(
        level, source_size=len(data), window_log=20, write_content_size=True
    )
    return zstandard.ZstdCompressor(compression_params=parameters).compress(data)


# --- Planes ---------------------------------------------------------------------------------------


def split(dtype, data):
    """The planes of a chunk."""
    width, moves = ELEMENTS[dtype]
    elements = [int.from_bytes(data[i : i + width], "little") for i in range(0, len(data), width)]
    if moves:
        elements = [move_sign(element, 8 * width) for element in elements]
    raw = b"".join(element.to_bytes(width, "little") for element in elements)
    return [raw[k::width] for k in range(width)]


def move_sign(element, bits):
    """`s eeeeeeee` in the highest bits becomes `eeeeeeee s`."""
    upper, lower = divmod(element, 1 << (bits - 9))
    sign, exponent = divmod(upper, 256)
    return (exponent << 1 | sign) << (bits - 9) | lower


def join(stored, lengths=None):
    """The bytes of a chunk from its stored planes."""
    lengths = [len(plane) for plane in stored] if lengths is None else lengths
    return struct.pack(f"<{len(lengths)}I", *lengths) + b"".join(stored)


def store_plane(plane, make=frame):
    """A plane in the shortest of the ways that there are."""
    if len(set(plane)) == 1:
        return plane[:1]
    return min(plane, seal(make(plane)), key=len)


def planes(dtype, data, make=frame):
    return join([store_plane(plane, make) for plane in split(dtype, data)])


# --- Chunks of tables -----------------------------------------------------------------------------


def compress(tables, choose):
    """Changes the chunks of fresh tables to the (codec, stored bytes) of `choose(dtype, data)`.

    Those that do not get shorter stay raw.
    """
    ends = [tensor.first_chunk for tensor in tables.tensors if tensor.first_chunk < 2**32 - 1]
    ends = iter([*ends[1:], len(tables.chunks)])
    for tensor in tables.tensors:
        if tensor.first_chunk == 2**32 - 1:
            continue
        for chunk in tables.chunks[tensor.first_chunk : next(ends)]:
            codec, stored = choose(DTYPES[tensor.dtype - 1], chunk.data)
            if codec != RAW and 0 < len(stored) < len(chunk.data):
                chunk.hash = h128(chunk.data)
                chunk.codec, chunk.data = codec, stored
    return tables


def smallest(dtype, data, make=frame):
    """The shortest that there is, for `compress`."""
    options = [(RAW, data), (ZSTD, seal(make(data)))]
    if dtype in ELEMENTS:
        options.append((PLANES, planes(dtype, data, make)))
    return min(options, key=lambda option: len(option[1]))


def at_random(random):
    """Any codec and any kind of frame, for `compress`."""

    def make(data):
        return zstd_frame(data, random.randrange(1, 10)) if random.random() < 0.5 else frame(data)

    def choose(dtype, data):
        codec = random.choice([RAW, ZSTD, PLANES, PLANES])
        if codec == PLANES and dtype in ELEMENTS:
            return PLANES, planes(dtype, data, make)
        return (codec, seal(make(data))) if codec == ZSTD else (RAW, data)

    return choose
