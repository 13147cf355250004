"""The hostile msgpack files, as flax writes them (docs/formats.md)."""

import struct

from corpus_case import Case

BAD_ARRAY = "an array is not [shape, name of its dtype, bytes]"
BAD_KEY = "the key of a map is neither a text nor an integer of 64 bits"
BAD_COMPLEX = "a complex number is not an array of two floats"
CUT = "the file ends inside an object; copy or download it again"
CUT_ARRAY = "the file ends inside an array; copy or download it again"


def number(value, width):
    return value.to_bytes(width, "big")


def text(value):
    raw = value.encode() if isinstance(value, str) else value
    return (bytes([0xA0 + len(raw)]) if len(raw) < 32 else b"\xda" + number(len(raw), 2)) + raw


def binary(raw):
    return b"\xc4" + number(len(raw), 1) + raw


def mapping(**members):
    return bytes([0x80 + len(members)]) + b"".join(text(key) + value for key, value in members.items())


def extension(kind, payload):
    return b"\xc7" + number(len(payload), 1) + struct.pack("b", kind) + payload


def array(shape, dtype, data, kind=1):
    axes = b"".join(b"\xcf" + number(axis, 8) if axis > 127 else bytes([axis]) for axis in shape)
    return extension(kind, b"\x93" + bytes([0x90 + len(shape)]) + axes + text(dtype) + binary(data))


GOOD = array((2,), "int8", b"ab")


def refused(name, says, data, at=None, path=None, code="foreign_invalid", **more):
    return Case(f"msgpack-{name}", code, data, at, path, says=says, **more)


def inside(name, says, value, at=3, path="a", **more):
    """A map of one value, which begins at 3."""
    return refused(name, says, mapping(a=value), at, path, **more)


def cases():
    for group in (containers, texts, arrays, chunks, numbers, ends, limits):
        yield from group()


def containers():
    counted = "a container says that it has {} values, more than the rest of the file can hold".format
    for name, head, count in (
        ("list-of-15", b"\x9f", 15),
        ("list-of-16-bits", b"\xdc\xff\xff", 65535),
        ("list-of-32-bits", b"\xdd\xff\xff\xff\xff", 2**32 - 1),
        ("map-of-15", b"\x8f", 15),
        ("map-of-16-bits", b"\xde\xff\xff", 65535),
        ("map-of-32-bits", b"\xdf\xff\xff\xff\xff", 2**32 - 1),
        # Twice as many values, in 32 bits none.
        ("map-that-wraps", b"\xdf\x80\x00\x00\x00", 2**31),
    ):
        yield inside(f"{name}-in-3-bytes", counted(count), head + b"\xc0\xc0\xc0")
    yield inside("list-one-too-many", counted(4), b"\x94\xc0\xc0\xc0")
    # Two values each.
    yield inside("map-one-too-many", counted(2), b"\x82\xa0\xc0\x00")
    yield refused("root-largest", counted(2**32 - 1), b"\xdf\xff\xff\xff\xff\xa1a\x01", 0)
    for name, key in (
        ("nil", b"\xc0"),
        ("bool", b"\xc3"),
        ("float", b"\xca" + bytes(4)),
        ("bytes", b"\xc4\x01x"),
        ("list", b"\x90"),
        ("list-of-one", b"\x91\xc0"),
        ("map", b"\x80"),
        ("array", GOOD),
        ("extension", b"\xd4\x05x"),
        ("u64-over-int64", b"\xcf" + number(2**63, 8)),
        ("complex", extension(2, b"\x92\xca" + bytes(4) + b"\xca" + bytes(4))),
    ):
        yield inside(f"key-{name}", BAD_KEY, b"\x81" + key + b"\xc0", 4)
    twice = "a map has the same key twice"
    yield refused("key-twice", twice, b"\x82\xa1a\x01\xa1a\x02", path="a")
    yield refused("key-twice-in-two-forms", twice, b"\x82\xa1a\x01\xd9\x01a\x02", path="a")
    yield refused("key-twice-apart", twice, b"\x83\xa1a\x01\xa1b\x01\xa1a\x02", path="a")
    yield inside("int-key-twice", twice, b"\x82\x01\xc0\xd1\x00\x01\xc0", None, "a/1")


def texts():
    bad = "a text is not UTF-8"
    for name, raw in (
        ("lone-byte", b"\xff"),
        ("overlong", b"\xc0\xaf"),
        ("surrogate", b"\xed\xa0\x80"),
        ("cut-character", b"a\xc3"),
    ):
        yield inside(f"text-{name}", bad, text(raw))
        yield inside(f"key-{name}", bad, b"\x81" + text(raw) + b"\x01", 4)
    yield inside("byte-c1", "the byte 0xC1 begins no msgpack object", b"\x91\xc1", 4, "a/0")


def arrays():
    raw = lambda name, says, payload, **more: inside(f"array-{name}", says, extension(1, payload), **more)
    whole = b"\x91\x02\xa4int8\xc4\x02ab"
    yield raw("of-two", BAD_ARRAY, b"\x92" + whole)
    yield raw("of-four", BAD_ARRAY, b"\x94" + whole + b"\xc0")
    yield raw("of-16-bits", BAD_ARRAY, b"\xdc\x00\x03" + whole)  # flax writes none.
    yield raw("map", BAD_ARRAY, b"\x83" + whole)
    yield raw("shape-no-list", BAD_ARRAY, b"\x93\x02\xa4int8\xc4\x02ab")
    yield raw("shape-map", BAD_ARRAY, b"\x93\x81\x02\xa4int8\xc4\x02ab")
    yield raw("axis-negative", BAD_ARRAY, b"\x93\x91\xff\xa4int8\xc4\x02ab")
    yield raw("axis-signed", BAD_ARRAY, b"\x93\x91\xd0\x02\xa4int8\xc4\x02ab")
    yield raw("axis-float", BAD_ARRAY, b"\x93\x91\xca" + struct.pack(">f", 2) + b"\xa4int8\xc4\x02ab")
    yield raw("axis-text", BAD_ARRAY, b"\x93\x91\xa12\xa4int8\xc4\x02ab")
    yield raw("axis-80", BAD_ARRAY, b"\x93\x91\x80\xa4int8\xc4\x02ab")
    yield raw("dtype-nil", BAD_ARRAY, b"\x93\x91\x02\xc0\xc4\x02ab")
    yield raw("dtype-bytes", BAD_ARRAY, b"\x93\x91\x02\xc4\x04int8\xc4\x02ab")
    yield raw("dtype-no-utf-8", BAD_ARRAY, b"\x93\x91\x02\xa4int\xff\xc4\x02ab")
    yield raw("data-text", BAD_ARRAY, b"\x93\x91\x02\xa4int8\xa2ab")
    yield raw("data-nil", BAD_ARRAY, b"\x93\x91\x00\xa4int8\xc0")
    parts = "the parts of an array take more or less than its {} bytes".format
    yield raw("byte-after-data", parts(13), b"\x93\x91\x02\xa4int8\xc4\x02abc")
    yield raw("data-longer-than-it", parts(12), b"\x93\x91\x02\xa4int8\xc4\x03ab")
    yield raw("data-largest", parts(15), b"\x93\x91\x02\xa4int8\xc6\xff\xff\xff\xffab")
    # The extension ends inside its parts; what follows would complete them.
    yield inside("array-parts-past-its-end", parts(3), b"\xc7\x03\x01" + b"\x93" + whole)
    axes = "an array has {} axes, more than 64".format
    yield raw("of-65-axes", axes(65), b"\x93\xdc\x00\x41" + b"\x01" * 65 + b"\xa4int8\xc4\x01a")
    yield raw("of-65535-axes", axes(65535), b"\x93\xdc\xff\xff" + b"\x01" * 70)
    yield raw("of-2-32-axes", axes(2**32 - 1), b"\x93\xdd\xff\xff\xff\xff" + b"\x01" * 70)
    fit = "the array has {}, which do not fit its shape and its dtype '{}'".format
    for name, shape, dtype, data in (
        ("more-elements", (3,), "int8", b"ab"),
        ("fewer-elements", (1,), "int8", b"ab"),
        ("no-elements", (0,), "int8", b"ab"),
        ("no-axes", (), "int8", b"ab"),
        ("another-dtype", (2,), "int16", b"ab"),
        ("elements-wrap", (2**63, 2), "int8", b""),
        ("elements-wrap-to-2", (2**63 + 1, 2), "int8", b"ab"),
        ("bytes-wrap", (2**61 + 1,), "float64", b"abcdefgh"),
        ("bytes-2-63", (2**63,), "int8", b""),
        ("unknown-dtype", (3,), "text", b"ab"),
        ("unknown-dtype-of-nothing", (3,), "text", b""),
        ("unknown-dtype-wraps", (2**63, 2), "text", b""),
        ("unknown-dtype-wraps-to-2", (2**63 + 1, 2), "text", b"ab"),
        ("unknown-dtype-of-none", (0,), "text", b"ab"),
    ):
        size = "1 byte" if len(data) == 1 else f"{len(data)} bytes"
        yield inside(f"array-{name}", fit(size, dtype), array(shape, dtype, data), None)
    yield inside("scalar-of-two", fit("2 bytes", "int8"), array((), "int8", b"ab", 3), None)
    # As chunks of an array that flax cut, they could be one; alone, each must fit.
    yield inside(
        "array-line-in-dtype",
        "the array has 2 bytes, which do not fit its shape and its dtype",
        array((3,), "a\nb", b"ab"),
        None,
    )


def chunks():
    """What looks like an array that flax has cut, and is none: it stays a dict."""
    joined = "this looks like an array in chunks, but they cannot be joined; it stays a dict"
    mark, two = text("__msgpack_chunked_array__"), mapping(**{"0": b"\x02"})
    whole = mapping(**{"0": GOOD})

    def cut(shape=two, parts=whole, value=b"\xc3", second=text("shape"), third=text("chunks")):
        return b"\x83" + mark + value + second + shape + third + parts

    for name, made in (
        ("mark-false-number", cut(value=b"\x01")),
        ("mark-nil", cut(value=b"\xc0")),
        ("second-key-number", cut(second=b"\x01")),
        ("second-key-of-others", cut(second=text("shapes"))),
        ("third-key-number", cut(third=b"\x01")),
        ("third-key-of-others", cut(third=text("chunk"))),
        ("shape-list", cut(shape=b"\x91\x02")),
        ("shape-number", cut(shape=b"\x02")),
        ("shape-key-number", cut(shape=b"\x81\x00\x02")),
        ("shape-key-1", cut(shape=mapping(**{"1": b"\x02"}))),
        ("shape-key-00", cut(shape=mapping(**{"00": b"\x02"}))),
        ("shape-number-of-one", cut(shape=b"\x02", parts=mapping(**{"0": array((1,), "int8", b"a")}))),
        ("shape-bool", cut(shape=mapping(**{"0": b"\xc3"}), parts=mapping(**{"0": array((1,), "int8", b"a")}))),
        ("shape-negative", cut(shape=mapping(**{"0": b"\xfe"}))),
        ("shape-text", cut(shape=mapping(**{"0": text("2")}))),
        ("shape-of-others", cut(shape=mapping(**{"0": b"\x03"}))),
        ("list", cut(parts=b"\x91" + GOOD)),
        ("none", cut(parts=b"\x80")),
        ("key-1", cut(parts=mapping(**{"1": GOOD}))),
        ("no-array", cut(parts=mapping(**{"0": binary(b"ab")}))),
        ("scalar", cut(shape=b"\x80", parts=mapping(**{"0": array((), "int8", b"a", 3)}))),
        ("of-unknown-dtype", cut(parts=mapping(**{"0": array((2,), "text", b"ab")}))),
        ("of-two-dtypes", cut(parts=mapping(**{"0": array((0,), "int8", b""), "1": array((2,), "uint8", b"ab")}))),
        ("no-mib", cut(mapping(**{"0": b"\x04"}), mapping(**{"0": GOOD, "1": GOOD}))),
        ("empty", cut(mapping(**{"0": b"\x00"}), mapping(**{"0": array((0,), "int8", b"")}))),
    ):
        yield inside(f"chunks-{name}", joined, made, None, code="-", found_by="opens")


def numbers():
    good = b"\x92\xca" + bytes(4) + b"\xcb" + bytes(8)
    raw = lambda name, payload: inside(f"complex-{name}", BAD_COMPLEX, extension(2, payload))
    yield raw("of-integers", b"\x92\x01\x02")
    yield raw("of-one", b"\x91\xcb" + bytes(8))
    yield raw("of-three", b"\x93" + good[1:] + b"\xca" + bytes(4))
    yield raw("map", b"\x82" + good[1:])
    yield raw("with-a-byte-more", good + b"\xc0")
    yield raw("that-is-short", good[:-1])
    yield raw("empty", b"")


def ends():
    cut = dict(code="truncated")
    array_end = mapping(a=GOOD)
    yield refused("cut-in-array", CUT_ARRAY, array_end[:-1], 3, "a", **cut)
    yield refused("cut-before-data", CUT_ARRAY, array_end[:-2], 3, "a", **cut)
    yield refused("cut-in-head-of-array", CUT, array_end[:-3], 3, "a", **cut)
    yield refused("cut-in-text", CUT, mapping(a=text("text"))[:-1], 3, "a", **cut)
    yield refused("cut-in-bytes", CUT, mapping(a=binary(b"text"))[:-1], 3, "a", **cut)
    yield refused("cut-in-number", CUT, mapping(a=b"\xcf" + bytes(8))[:-1], 3, "a", **cut)
    yield refused("cut-in-extension", CUT, mapping(a=extension(5, b"text"))[:-1], 3, "a", **cut)
    yield inside("text-largest", CUT, b"\xdb\xff\xff\xff\xffx", **cut)
    yield inside("bytes-largest", CUT, b"\xc6\xff\xff\xff\xffx", **cut)
    yield inside("extension-largest", CUT, b"\xc9\xff\xff\xff\xff\x05x", **cut)
    yield inside("list-cut", CUT, b"\x92\x01\xa5", 5, "a/1", **cut)
    yield refused(
        "trailing-byte",
        "the file goes on for 1 byte after its object",
        array_end + b"\xc0",
        len(array_end),
        code="trailing_bytes",
    )
    yield refused(
        "twice",
        f"the file goes on for {len(array_end)} bytes after its object",
        array_end * 2,
        len(array_end),
        code="trailing_bytes",
    )
    deep = "the tree is deeper than the 256 levels that Limits::depth allows"
    yield inside("deep", deep, b"\x91" * 3000 + b"\xc0", code="limit_exceeded", at=258, path=None)
    yield inside("deep-maps", deep, b"\x81\xa0" * 1000 + b"\xc0", code="limit_exceeded", at=None, path=None)


def limits():
    """With one more of each, all of these are good: so they are the files of the others, unbroken."""
    limited = dict(code="limit_exceeded")
    axes = (1, 2)
    complexes = extension(2, b"\x92\xca" + bytes(4) + b"\xcb" + bytes(8))
    good = mapping(
        w=array(axes, "int8", b"ab"),
        l=b"\x93\xc0\xc3\xcf" + number(2**63, 8),
        d=b"\x82\x01\xd0\xff\xa1x" + complexes,
        s=array((), "float16", b"ab", 3),
        e=extension(5, b"x"),
        t=text("text"),
        b=binary(b"text"),
    )
    # Values outside arrays.
    plain = len(good) - 4
    says = "what is not in arrays takes more than the {} bytes that Limits::foreign_header_bytes allows".format
    yield refused("limit-header", says(plain - 1), good, limits={"foreign_header_bytes": plain - 1}, **limited)
    many = mapping(a=b"\xdc\x00\x64" + b"\x01" * 100)
    yield refused(
        "limit-nodes",
        "the tree has more nodes than the 102 that readers accept (Limits::nodes)",
        many,
        limits={"nodes": 102},
        **limited,
    )
    keys = mapping(**{f"k{i}": b"\x01" for i in range(12)})
    yield refused(
        "limit-nodes-of-map",
        "the tree has more nodes than the 13 that readers accept (Limits::nodes)",
        keys,
        limits={"nodes": 13},
        **limited,
    )
    yield refused(
        "limit-depth",
        "the tree is deeper than the 2 levels that Limits::depth allows",
        mapping(a=b"\x91\x91\xc0"),
        4,
        "a/0",
        limits={"depth": 2},
        **limited,
    )
    yield refused(
        "limit-rank",
        "a tensor has 2 axes and readers accept 1 (Limits::rank)",
        good,
        path="w",
        limits={"rank": 1},
        **limited,
    )
    yield refused(
        "limit-bigint",
        "an integer takes more than the 8 bytes that readers accept (Limits::bigint_bytes)",
        good,
        path="l/2",
        limits={"bigint_bytes": 8},
        **limited,
    )
    yield refused(
        "limit-chunks",
        "the file has more chunks than fit in Limits::index_bytes",
        good,
        limits={"index_bytes": 63},
        **limited,
    )
    yield refused(
        "limit-path",
        "a key path is longer than the 3 bytes that Limits::path_bytes allows",
        mapping(long=b"\xc0"),
        limits={"path_bytes": 3},
        **limited,
    )
    yield refused(
        "limit-text", "Limits::text_bytes allows 4", mapping(k=text("long")), limits={"text_bytes": 4}, **limited
    )
