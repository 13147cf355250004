"""The hostile checkpoints of TensorFlow (docs/formats.md). Each is a folder: the index, and the files with its tensors."""

import struct

from corpus_case import Case

INDEX = "m.index"
SHARD = "m.data-00000-of-00001"
MAGIC = bytes.fromhex("57fb808b247547db")
AGAIN = "; copy or download it again"
GRAPH = b"_CHECKPOINTABLE_OBJECT_GRAPH"
HEADER = b"\x08\x01\x1a\x02\x08\x01"

TABLE = []
for number in range(256):
    for _ in range(8):
        number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
    TABLE.append(number)


def crc32c(data, crc=0):
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


assert crc32c(b"123456789") == 0xE3069283


def u32(number):
    return struct.pack("<I", number)


def masked(crc):
    return u32(((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def varint(number):
    number &= 2**64 - 1
    made = b""
    while number > 127:
        made += bytes([number & 127 | 128])
        number >>= 7
    return made + bytes([number])


# --- Messages -------------------------------------------------------------------------------------


def number(field, value):
    return varint(field << 3) + varint(value)


def message(field, contents):
    return varint(field << 3 | 2) + varint(len(contents)) + contents


def shape(*axes):
    return message(2, b"".join(message(2, number(1, axis)) for axis in axes))


def entry(dtype=1, axes=(2,), offset=0, size=None, crc=0, more=b"", shard=0):
    size = 4 * (axes[0] if axes else 1) if size is None else size
    place = number(3, shard) + number(4, offset) + number(5, size)
    return number(1, dtype) + shape(*axes) + place + b"\x35" + masked(crc) + more


def whole(data, dtype=1, axes=(2,), offset=0, more=b""):
    return entry(dtype, axes, offset, len(data), crc32c(data), more)


def slice_of(*extents):
    return message(7, b"".join(message(1, number(1, start) + number(2, length)) for start, length in extents))


def slice_key(name, *extents):
    numbers = b"".join(bytes([0x80 ^ (start & 255), 0x80 ^ (length & 255)]) for start, length in extents)
    return b"\0" + name + b"\0\1\1" + bytes([len(extents)]) + numbers


def string(data):
    """An entry of one string, and what is stored of it."""
    lengths = varint(len(data))
    crc = crc32c(u32(len(data)))
    stored = lengths + masked(crc) + data
    crc = crc32c(data, crc32c(masked(crc), crc))
    return number(1, 7) + message(2, b"") + number(5, len(stored)) + b"\x35" + masked(crc), stored


# --- Tables ---------------------------------------------------------------------------------------


def block(entries, restarts=None, shared=True):
    data, last, starts = b"", b"", []
    for i, (key, value) in enumerate(entries):
        same = 0
        if i % 16 == 0:
            starts.append(len(data))
        else:
            while shared and same < min(len(key), len(last)) and key[same] == last[same]:
                same += 1
        data += varint(same) + varint(len(key) - same) + varint(len(value)) + key[same:] + value
        last = key
    starts = [0] if not starts else starts
    starts = starts if restarts is None else restarts
    return data + b"".join(map(u32, starts)) + u32(len(starts))


def table(entries, *, kind=0, pack=lambda data: data, meta=(), padding=b"\0", index=None, crc=0, blocks=None, separator=None):
    """The entries in one block, or in `blocks` of given contents."""
    made, places = b"", []

    def put(data, kind=0):
        nonlocal made
        place = varint(len(made)) + varint(len(data))
        trailer = bytes([kind])
        made += data + trailer + u32(struct.unpack("<I", masked(crc32c(data + trailer)))[0] ^ crc)
        return place

    for contents in blocks or [block(entries)]:
        places.append(put(pack(contents), kind))
    last = entries[-1][0] if separator is None else separator
    keys = [last + bytes([i]) if len(places) > 1 else last for i in range(len(places))]
    keys[-1] = b"~" if len(places) > 1 else last
    handles = put(block(list(meta))) + put(block(list(zip(keys, places))) if index is None else index)
    return made + handles + padding * (40 - len(handles)) + MAGIC


DATA = struct.pack("<2f", 1.5, -2)
A = (b"a", whole(DATA))
GOOD = [(b"", HEADER), A]


def case(name, says, index, data=DATA, code="foreign_invalid", **more):
    beside = {} if data is None else {SHARD: data}
    return Case(f"tensorflow-{name}", code, index, says=says, opens=INDEX, beside=beside, **more)


def opens(name, index, says=None, data=DATA, **more):
    return case(name, says, index, data, "-", found_by="opens", **more)


def cases():
    for group in (tables, packed, headers, entries, places, narrow, cut, strings, graphs, limits):
        yield from group()


def tables():
    good = table(GOOD)
    yield opens("good", good)
    yield case("end-cut", f"the file does not end as the index of a TensorFlow checkpoint does{AGAIN}", good[:-1],
               code="truncated")  # fmt: skip
    yield case("end-damaged", f"the end of the file is damaged{AGAIN}", table(GOOD, padding=b"\1"))
    yield case("block-crc", f"a block of the index does not match its CRC-32C{AGAIN}", table(GOOD, crc=1))
    yield case("meta", "the index has a block of another kind", table(GOOD, meta=[(b"filter.x", b"")]))
    yield case("block-method", "a block of the index is compressed with method 2, and snappy (1) is read", table(GOOD, kind=2))
    handle = lambda offset, size: block([(b"~", varint(offset) + varint(size))])
    yield case("block-beyond", f"a block of the index lies beyond its end{AGAIN}", table(GOOD, index=handle(0, 2**40)))
    yield case("block-beyond-wraps", f"a block of the index lies beyond its end{AGAIN}", table(GOOD, index=handle(8, 2**64 - 1)))
    yield case("block-place", f"a place in the index is damaged{AGAIN}", table(GOOD, index=block([(b"~", b"\0")])))
    size = len(block(GOOD))
    twice = block([(b"y", varint(0) + varint(size)), (b"z", varint(0) + varint(size))])
    yield case("block-twice", f"blocks of the index overlap{AGAIN}", table(GOOD, index=twice))
    yield case("keys-unsorted", f"the index is not sorted{AGAIN}", table([(b"", HEADER), (b"b", A[1]), A]))
    yield case("keys-twice", f"the index is not sorted{AGAIN}", table([*GOOD, A]))
    yield case("keys-below-block", f"the index is not sorted{AGAIN}", table(GOOD, separator=b"Z"))
    damaged = f"an entry of the index is damaged{AGAIN}"
    yield case("entry-shares-too-much", damaged, table(GOOD, blocks=[b"\0\0\6" + HEADER + b"\1\0\0" + u32(0) + u32(1)]))
    yield case("entry-beyond", damaged, table(GOOD, blocks=[b"\0\0\6" + HEADER + b"\0\1\x7fa" + u32(0) + u32(1)]))
    yield case("entry-length-wraps", damaged,
               table(GOOD, blocks=[b"\0\0\6" + HEADER + b"\0" + varint(2**64 - 1) + b"\1a" + u32(0) + u32(1)]))  # fmt: skip
    yield case("restart-late", damaged, table(GOOD, blocks=[block(GOOD, [9])]))
    yield case("restart-nowhere", f"a block of the index is damaged{AGAIN}", table(GOOD, blocks=[block(GOOD, [0, 5])]))
    yield case("restarts-too-many", f"a block of the index is too short{AGAIN}",
               table(GOOD, blocks=[block(GOOD)[:-4] + u32(2**30)]))  # fmt: skip


def literal(data):
    return bytes([61 << 2]) + struct.pack("<H", len(data) - 1) + data


def packed():
    """Snappy."""
    pack = lambda data: varint(len(data)) + literal(data)
    yield opens("snappy", table(GOOD, kind=1, pack=pack))
    runs = [(b"", HEADER), (b"a" * 40, A[1])]
    halves = lambda data: varint(len(data)) + literal(data[:13]) + bytes([(39 - 1) << 2 | 2, 1, 0]) + literal(data[52:])
    yield opens("snappy-copies-itself", table(runs, kind=1, pack=halves))
    claims = "a block claims more bytes than its compressed data can hold"
    yield case("snappy-bomb", claims, table(GOOD, kind=1, pack=lambda data: varint(2**40) + literal(data)))
    damaged = "a compressed block is damaged"
    for name, change in (
        ("longer", lambda data: varint(len(data) + 1) + literal(data)),
        ("shorter", lambda data: varint(len(data) - 1) + literal(data)),
        ("literal-cut", lambda data: varint(len(data)) + literal(data)[:-1]),
        ("literal-length-cut", lambda data: varint(len(data)) + literal(data[:-1]) + bytes([63 << 2, 0])),
        ("copy-of-nothing", lambda data: varint(len(data)) + literal(data[:-4]) + b"\1\0"),
        ("copy-before", lambda data: varint(len(data)) + literal(data[:-4]) + b"\x01\xff"),
        ("copy-cut", lambda data: varint(len(data)) + literal(data[:-4]) + b"\2\1"),
        ("copy-beyond", lambda data: varint(len(data)) + literal(data[:-4]) + b"\x05\1"),
    ):
        yield case(f"snappy-{name}", damaged, table(GOOD, kind=1, pack=change))
    two = lambda data: varint(len(data)) + literal(data[:9]) + literal(data[9:])
    yield opens("snappy-twice", table(GOOD, kind=1, pack=two))


def headers():
    with_header = lambda header: table([(b"", header), A])
    yield case("version-1", "the file is a checkpoint of TensorFlow's first version, which is not read",
               with_header(message(1, b"\x0a\x00")), code="unsupported_version")  # fmt: skip
    yield case("big-endian", "the checkpoint was written on a big-endian machine", with_header(number(1, 1) + number(2, 1)),
               code="unsupported_version")  # fmt: skip
    yield case("later-version", "the checkpoint is for readers of version 2, and version 1 is known; use a newer Espalier",
               with_header(number(1, 1) + message(3, number(1, 2) + number(2, 2))), code="unsupported_version")  # fmt: skip
    yield case("shard-count", "the header of the index claims 4294967296 files", with_header(number(1, 2**32)))
    yield case("no-shards", "the tensor lies in file 0 of the 0 that the checkpoint has", with_header(number(2, 0)), path="a")


def entries():
    damaged = f"the entry of the tensor in the index is damaged{AGAIN}"
    of = lambda value, name=b"a": table([(b"", HEADER), (name, value)])
    place = number(5, 8) + b"\x35" + masked(crc32c(DATA))
    yield case("axis-negative", damaged, of(number(1, 1) + shape(2, -1) + place), path="a")
    yield case("rank-unknown", damaged, of(number(1, 1) + message(2, number(3, 1)) + place), path="a")
    yield case("shape-twice", damaged, of(number(1, 1) + shape(2) + shape(1) + place), path="a")
    yield case("size-twice", damaged, of(whole(DATA) + number(5, 4)), path="a")
    yield case("entry-cut", damaged, of(whole(DATA)[:-1]), path="a")
    yield case("shape-overflows", "the shape has 2^64 elements or more", of(entry(axes=(2**40, 2**40), size=8)), path="a")
    fits = "the tensor has 8 bytes, which do not fit its shape and its type {}".format
    yield case("size-wraps", fits("float32"), of(entry(axes=(2**62 + 2,), size=8)), path="a")
    yield case("size-too-small", fits("float64"), of(entry(2, (2,), size=8)), path="a")
    yield case("strings-too-many", fits("string"), of(entry(7, (2**40,), size=8)), path="a")
    yield case("variants-too-many", fits("variant"), of(entry(21, (2,), size=8)), path="a")
    none = "of which nothing can be stored"
    for dtype, name in ((0, "invalid"), (20, "resource"), (101, "reference"), (134, "reference")):
        yield case(f"type-{dtype}", f"the tensor is of the type {name} ({dtype}), {none}", of(entry(dtype, (2,))),
                   path="a", code="unsupported_feature")  # fmt: skip
    yield opens("type-later", of(entry(99, (2,))), "its type 99 is not known to this version; use a newer Espalier", path="a")
    yield opens("field-later", of(whole(DATA) + number(99, 1)), "1 field of the index are of a later version, and not read")
    yield case("name-not-text", "UTF-8", of(whole(DATA), b"\xff"))


def places():
    yield case("overlap", "the bytes of the tensor overlap those of another",
               table([*GOOD, (b"b", whole(DATA[4:], axes=(1,), offset=4))]), path="b")  # fmt: skip
    yield case("shard-beyond", "the tensor lies in file 1 of the 1 that the checkpoint has",
               table([(b"", HEADER), (b"a", entry(shard=1))]), path="a")  # fmt: skip
    yield case("offset-wraps", "the tensor lies beyond 2^63 bytes", table([(b"", HEADER), (b"a", entry(offset=-8))]), path="a")
    beyond = f"this value cannot be read: it lies beyond the end of {SHARD}, which has 7 bytes; copy or download that again"
    yield case("shard-cut", beyond, table(GOOD), DATA[:7], found_by="verify", path="a")
    yield case("shard-missing", "file", table(GOOD), None, "file_missing", found_by="verify")
    wrong = "the bytes do not match the CRC-32 that the file has for them; copy or download the file again"
    yield case("bit-flipped", wrong, table(GOOD), b"\1" + DATA[1:], "chunk_corrupt", found_by="verify", path="a")


def narrow():
    """Numbers of 4 bits, a byte each."""
    of = lambda data, dtype=29: table([(b"", HEADER), (b"a", whole(data, dtype, (len(data),)))])
    yield opens("int4-signs", of(b"\x0f\xf8"), data=b"\x0f\xf8")
    beyond = "a byte of 'a' has bits beyond the 4 of its number, which would be lost"
    for dtype, name in ((29, "int4"), (30, "uint4")):
        yield case(f"{name}-upper-bits", beyond, of(b"\x01\xf1", dtype), b"\x01\xf1", found_by="read")


def cut():
    """Tensors that were cut into slices."""
    size = lambda extents: extents[0][1]

    def of(*slices, axes=(2,), stored=None, dtype=1, kind=1):
        parts, at = [], 0
        for extents in slices if stored is None else stored:
            parts.append((slice_key(b"a", *extents), whole((DATA + DATA)[at : at + 4 * size(extents)], kind, (size(extents),), at)))
            at += 4 * size(extents)
        tensor = number(1, dtype) + shape(*axes) + b"".join(slice_of(*extents) for extents in slices)
        return table([(b"", HEADER), *sorted(dict(parts).items()), (b"a", tensor)])

    first, second = ((0, 1),), ((1, 1),)
    yield opens("slices", of(first, second))
    yield opens("slices-turned", of(second, first))
    unread = "this value cannot be read: {}".format
    verify = dict(found_by="verify", path="a")
    yield case("slices-hole", unread("its parts do not make all of it"), of(first), **verify)
    yield case("slices-overlap", unread("two parts of it overlap"), of(((0, 1),), ((0, 2),), axes=(2,)), DATA + DATA, **verify)
    yield case("slices-beyond", unread("a part of it reaches beyond its shape"), of(first, ((2, 1),)), **verify)
    yield case("slices-not-stored", unread("the index does not say where a part of it lies"),
               of(first, second, stored=[first]), **verify)  # fmt: skip
    yield case("slices-none-stored", unread("the index does not say where its parts lie"), of(first, stored=[]), **verify)
    yield case("slices-other-type", unread("a part of it has another type or shape"), of(first, second, kind=3), **verify)
    yield case("slices-of-strings", unread("it was cut, and its type is string"), of(first, dtype=7), **verify)
    yield opens("slices-unused", table([(b"", HEADER), (slice_key(b"b", (0, 1)), whole(DATA[4:], 1, (1,), 4)), (b"a", whole(DATA[:4], 1, (1,)))]),
                "1 part of tensors in the index belong to none")  # fmt: skip
    damaged = f"a part of a tensor has a damaged entry in the index{AGAIN}"
    good = slice_key(b"a", (0, 1))
    for name, key in (
        ("cut", good[:-1]),
        ("longer", good + b"\x80"),
        ("escape", b"\0a\0\2" + good[4:]),
        ("no-end", b"\0a"),
        ("rank", b"\0a\0\1\x08" + b"\xff" * 8),
        ("number-cut", good[:-1] + b"\xff"),
        ("number-too-long", good[:-1] + b"\xff\xff" + bytes(9)),
        ("number-above-63-bits", good[:-1] + b"\xff\xdf" + b"\xff" * 8),
    ):
        yield case(f"slice-key-{name}", damaged, table([(b"", HEADER), (key, whole(DATA[:4], 1, (1,))), A]))


def strings():
    value, data = string(b"text")
    of = lambda value: table([(b"", HEADER), (b"a", value)])
    yield opens("string", of(value), data=data)
    unread = "this value cannot be read: it does not match its CRC-32C"
    yield case("string-flipped", unread, of(value), data[:-1] + b"T", found_by="verify", path="a")
    yield case("string-lengths-flipped", unread, of(value), data[:1] + b"\0" + data[2:], found_by="verify", path="a")
    lengths = "this value cannot be read: the lengths of its elements do not fit its bytes"
    yield case("string-length", lengths, of(value), b"\x7f" + data[1:], found_by="verify", path="a")
    yield case("string-length-no-number", lengths, of(value), b"\xff" * len(data), found_by="verify", path="a")


def node(children=(), key=None, slots=(), name=b"VARIABLE_VALUE"):
    made = b"".join(message(1, number(1, child) + message(2, text)) for text, child in children)
    if key is not None:
        made += message(2, message(1, name) + message(3, key))
    made += b"".join(message(3, number(1, of) + message(2, text) + number(3, slot)) for of, text, slot in slots)
    return message(1, made)


def graph(*nodes, data=DATA):
    value, stored = string(b"".join(nodes))
    value = value.replace(number(5, len(stored)), number(4, len(data)) + number(5, len(stored)), 1)
    return table([(b"", HEADER), (GRAPH, value), A]), data + stored


def graphs():
    index, data = graph(node([(b"w", 1)]), node(key=b"a"))
    yield opens("graph", index, data=data)
    unread = "the object graph cannot be read, so the tensors stand under their whole names: it is no graph of objects"

    def bad(name, says, *nodes, **more):
        index, data = graph(*nodes)
        return case(f"graph-{name}", says, index, data, **more)

    yield bad("child-beyond", unread, node([(b"w", 2)]), node(key=b"a"), found_by="verify")
    yield bad("child-negative", unread, node([(b"w", -1)]), node(key=b"a"), found_by="verify")
    yield bad("slot-beyond", unread, node([(b"w", 1)], slots=[(1, b"m", 9)]), node(key=b"a"), found_by="verify")
    yield bad("cut", unread, node([(b"w", 1)])[:-1], found_by="verify")
    yield bad("empty", unread, found_by="verify")
    twice = "the object graph has two values under one name"
    yield bad("name-twice", twice, node([(b"w", 1), (b"w", 1)]), node(key=b"a"), path="w")
    yield bad("attribute-twice", twice, message(1, message(2, message(1, b"x") + message(3, b"a")) * 3), path=".x")
    missing = "the object graph names 'lost', which is not in the index"
    for name, nodes, says in (
        ("cycle", (node([(b"me", 0), (b"w", 1)]), node(key=b"a")), None),
        ("unclaimed", (node(),), None),
        ("missing", (node([(b"w", 1)]), node(key=b"lost")), missing),
    ):
        index, data = graph(*nodes)
        yield opens(f"graph-{name}", index, says, data)
    deep = [node([(b"d", i + 1)]) for i in range(20)] + [node(key=b"a", name=b"x")]
    index, data = graph(*deep)
    yield case("graph-depth", "the tree is deeper than the 20 levels that readers accept (Limits::depth)", index, data,
               "limit_exceeded", limits={"depth": 20})  # fmt: skip
    yield case("graph-nodes", "the object graph has more than the 41 nodes that readers accept (Limits::nodes)", index, data,
               "limit_exceeded", limits={"nodes": 41})  # fmt: skip


def limits():
    good = table(GOOD)
    limited = dict(code="limit_exceeded")
    yield case("limit-index", "Limits::foreign_header_bytes allows", good, limits={"foreign_header_bytes": len(good) - 1}, **limited)
    long = [(b"", HEADER), (b"a" * 1921, A[1])]
    runs = lambda data: varint(len(data)) + literal(data[:14]) + bytes([63 << 2 | 2, 1, 0]) * 30 + literal(data[1934:])
    small = table(long, kind=1, pack=runs, separator=b"b")
    yield case("limit-snappy", "are left of Limits::foreign_header_bytes", small,
               limits={"foreign_header_bytes": len(block(long)) - 1}, **limited)  # fmt: skip
    many = table([(b"", number(1, 2)), A, (b"b", entry(crc=crc32c(DATA), shard=1))])
    shards = {f"m.data-0000{i}-of-00002": DATA for i in range(2)}
    yield Case("tensorflow-limit-files", "limit_exceeded", many, says="Limits::files allows 1", opens=INDEX, beside=shards,
               limits={"files": 1})  # fmt: skip
    value, data = string(b"text" * 100)
    yield case("limit-strings", "the object graph and the strings of the checkpoint take more than the 405 bytes",
               table([(b"", HEADER), (b"a", value)]), data, limits={"foreign_header_bytes": 405}, **limited)  # fmt: skip
