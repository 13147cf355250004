"""Wrong files at random: one wrong number with all hashes right, or wrong bytes anywhere."""

import copy
import dataclasses
import struct

import espalier_reference as reference
import zstandard
from espalier_build import Tables, build, h64, h128
from espalier_codecs import (
    ELEMENTS,
    MAGIC,
    RAW,
    ZSTD,
    at_random,
    compress,
    frame,
    join,
    seal,
    skippable,
    split,
    store_plane,
)
from index_edits import insert, table, vector

VECTORS = [each.name for each in dataclasses.fields(Tables) if each.name != "tree_digest"]


def repair(data, and_digest=True):
    """The same file with the hashes of index and header, and the tree digest, made right."""
    data = bytearray(data)
    length = struct.unpack_from("<Q", data, 40)[0]
    data[48:64] = h128(data[128 : 128 + length])
    data[120:128] = h64(data[:120])
    if and_digest:
        try:
            file = reference.open_file(bytes(data))
            reference.compute_digests(file)
        except reference.FormatError:
            return bytes(data)
        data[64:80] = file.digests[0]
        data[120:128] = h64(data[:120])
    return bytes(data)


def other_number(random, number, bits):
    """Another number, near or far, that fits in `bits`."""
    other = random.choice([
        number + 1,
        number - 1,
        number ^ 1 << random.randrange(bits),
        random.randrange(4),
        random.randrange(32),
        random.getrandbits(bits),
        0,
        2**bits - 1,
        2 ** (bits - 1),
    ]) % 2**bits  # fmt: skip
    return other if other != number else number ^ 1


NODE = {"kind": 8, "key_kind": 8, "zero": 16, "key": 32, "value": 32, "count": 32}
TENSOR = {"dtype": 8, "zero": 8, "block": 16, "shape": 32, "first_chunk": 32}
CHUNK = {"offset": 64, "stored": 32, "file": 16, "codec": 8, "zero": 8}
WIDTHS = {"nodes": NODE, "tensors": TENSOR, "chunks": CHUNK, "bases": CHUNK, "dims": 64, "words": 64}


def change_tables(random, tables):
    """Changes one number or one row of the tables."""
    filled = [name for name in VECTORS if getattr(tables, name)]
    name = random.choice(filled)
    rows = getattr(tables, name)
    at = random.randrange(len(rows))
    if name in ("text", "bytes"):
        rows = bytearray(rows)
    action = random.random()
    if action < 0.06:
        rows.append(copy.copy(random.choice(rows)))
    elif action < 0.12:
        del rows[at]
    elif action < 0.2:
        other = random.randrange(len(rows))
        rows[at], rows[other] = rows[other], rows[at]
    elif name in ("text", "bytes"):
        rows[at] = other_number(random, rows[at], 8)
    elif isinstance(rows[at], tuple):
        row = list(rows[at])
        column = random.randrange(len(row))
        row[column] = other_number(random, row[column], 32)
        rows[at] = tuple(row)
    elif isinstance(rows[at], int):
        rows[at] = other_number(random, rows[at], WIDTHS.get(name, 32))
    else:
        rows[at] = row = copy.copy(rows[at])
        field = random.choice(list(WIDTHS[name]))
        number = getattr(row, field)
        if number is None:  # `build` fills it in: use a value near it.
            number = len(row.data) if field == "stored" else random.randrange(128, 4096)
        setattr(row, field, other_number(random, number, WIDTHS[name][field]))
    if name in ("text", "bytes"):
        setattr(tables, name, bytes(rows))


def wrong_number(random, tables):
    """A file with one or two wrong numbers in its index, and right hashes."""
    tables = copy.copy(tables)
    for name in VECTORS:
        if isinstance(getattr(tables, name), list):
            setattr(tables, name, list(getattr(tables, name)))
    for _ in range(random.choice([1, 1, 1, 2])):
        change_tables(random, tables)
    try:
        data = build(tables)
    except struct.error:  # The change needs a number that does not fit its field.
        return wrong_number(random, tables)
    return repair(data, random.random() < 0.8)


def wrong_bytes(random, data, begin, end):
    data = bytearray(data)
    for at in random.sample(range(begin, end), random.choice([1, 1, 1, 2, 4])):
        data[at] = other_number(random, data[at], 8)
    return bytes(data)


def wrong_index(random, tables):
    """A file with wrong bytes in its index, and right hashes."""
    data = build(tables)
    length = struct.unpack_from("<Q", data, 40)[0]
    # The start of the index, where its layout stands, as often as all the rest.
    end = random.choice([min(length, 200), length])
    return repair(wrong_bytes(random, data, 128, 128 + end), random.random() < 0.8)


def wrong_layout(random, tables):
    """A file whose index is a well-formed FlatBuffer, but not laid out in the one way."""
    if random.random() < 0.5:
        order = list(range(15))
        a, b = random.sample(order, 2)
        order[a], order[b] = b, a
        return build(tables, layout={random.choice(["vector_order", "field_order"]): order})
    # Zero bytes between two parts, as many as keep all that follows aligned.
    zeros = bytes(random.choice([8, 8, 16, 64]))
    places = [lambda index: 8, lambda index: table(index) + 64, len]
    place = random.choice([*places, vector(random.randrange(15))])
    return build(tables, edit_index=insert(place, zeros))


def wrong_header(random, tables):
    """A file with wrong bytes in its header, and a right hash of that."""
    data = bytearray(wrong_bytes(random, build(tables), 0, 120))
    data[120:128] = h64(data[:120])
    return bytes(data)


def wrong_anything(random, tables):
    """A file with bytes changed, cut off, added, or in the wrong place; no hash is mended."""
    data = build(tables)
    choice = random.randrange(5)
    at, other = sorted(random.sample(range(len(data) + 1), 2))
    if choice == 0:
        return data[:at]
    if choice == 1:
        return data + random.randbytes(random.randrange(1, 100))
    if choice == 2:
        return data[:at] + data[other:]
    if choice == 3:
        return data[:at] + random.randbytes(random.randrange(1, 9)) + data[at:]
    return wrong_bytes(random, data, 0, len(data))


# --- Compressed chunks ----------------------------------------------------------------------------


def wrong_frame(random, good):
    """Another frame, which may or may not be a valid one of the same bytes."""
    at, end = sorted(random.sample(range(len(good) + 1), 2))
    return random.choice([
        lambda: wrong_bytes(random, good, 0, len(good)),
        lambda: wrong_bytes(random, good, 0, min(12, len(good))),
        lambda: good[:at],
        lambda: good[:at] + good[end:],
        lambda: good[:at] + random.randbytes(random.randrange(1, 5)) + good[at:],
        lambda: good + random.choice([b"\0", MAGIC, good, frame(b""), skippable(b""), skippable(b"x")]),
        lambda: random.choice([frame(b""), skippable(b""), skippable(b"x")]) + good,
        lambda: good[:4] + bytes([good[4] ^ 1 << random.randrange(6)]) + good[5:],
        lambda: good[:4] + bytes([good[4] ^ 1 << random.randrange(3)]) + random.randbytes(1) + good[5:],
    ])()  # fmt: skip


def wrong_planes(random, parts, count):
    """The stored bytes of planes of `count` bytes; one plane or the lengths are wrong."""
    parts, lengths = list(parts), [len(part) for part in parts]
    k, other = random.randrange(len(parts)), random.randrange(len(parts))
    choice = random.randrange(6)
    if choice == 0:
        lengths[k] = other_number(random, lengths[k], 32)
    elif choice == 1:
        lengths[k], lengths[other] = lengths[other], lengths[k]
    elif choice == 2:
        return join(parts) + random.randbytes(random.randrange(1, 20))
    elif choice == 3:
        return join(parts)[: -random.randrange(1, 20)]
    elif choice == 4:
        parts[k] = random.randbytes(random.choice([0, 1, 2, 7, 8, 9, count - 1, count + 1]))
        lengths[k] = len(parts[k])
    elif 1 < len(parts[k]) < count:
        parts[k] = seal(wrong_frame(random, parts[k][:-8]))
        lengths[k] = len(parts[k])
    return join(parts, lengths)


def wrong_chunk(random, tables):
    """A file with wrong compressed chunks, whose seals and hashes are right as far as they can be."""
    hashes = {}

    def choose(dtype, data):
        codec, stored = at_random(random)(dtype, data)
        if codec == RAW or random.random() < 0.3:
            return codec, stored
        if codec == ZSTD:
            other = wrong_frame(random, stored[:-8])
            stored = seal(other)
            hashes[stored] = h128(lenient(other, data))
        else:
            parts = [store_plane(plane) for plane in split(dtype, data)]
            stored = wrong_planes(random, parts, len(data) // ELEMENTS[dtype][0])
        return codec, stored

    compress(tables, choose)
    for chunk in tables.chunks:
        chunk.hash = hashes.get(chunk.data, chunk.hash)
    return repair(build(tables))


def lenient(wrong, data):
    """A frame's contents according to zstd if they are as long as `data`, otherwise `data`."""
    try:
        if zstandard.frame_content_size(wrong) == len(data):
            return zstandard.ZstdDecompressor().decompress(wrong)
    except zstandard.ZstdError:
        pass
    return data
