"""The hostile GGUF files (docs/formats.md)."""

import struct

from corpus_case import Case

VALUES = "u8 i8 u16 i16 u32 i32 f32 bool string array u64 i64 f64".split()
F32, Q4_0, Q4_K, I8 = 0, 2, 12, 24
REMOVED = {
    4: "q4_2",
    5: "q4_3",
    31: "q4_0_4_4",
    32: "q4_0_4_8",
    33: "q4_0_8_8",
    36: "iq4_nl_4_4",
    37: "iq4_nl_4_8",
    38: "iq4_nl_8_8",
}
COUNTS = 24  # Where the counts end and the pairs begin.
HUGE = 2**63
CUT = "; copy or download it again"


def u32(number):
    return struct.pack("<I", number)


def u64(number):
    return struct.pack("<Q", number)


def text(name):
    raw = name.encode() if isinstance(name, str) else name
    return u64(len(raw)) + raw


def pair(key, kind, value=b""):
    return text(key) + u32(VALUES.index(kind) if isinstance(kind, str) else kind) + value


def array(key, element, count, elements=b""):
    return pair(
        key, "array", u32(VALUES.index(element) if isinstance(element, str) else element) + u64(count) + elements
    )


def tensor(name, dims, kind=F32, offset=0):
    return text(name) + u32(len(dims)) + b"".join(map(u64, dims)) + u32(kind) + u64(offset)


def file(pairs=(), tensors=(), data=0, *, version=3, pair_count=None, tensor_count=None, padding=32):
    """A file with `data` bytes after its padded header; without data, the padding is left out."""
    header = b"GGUF" + u32(version)
    header += u64(len(tensors) if tensor_count is None else tensor_count)
    header += u64(len(pairs) if pair_count is None else pair_count) + b"".join(pairs) + b"".join(tensors)
    return header + bytes(-len(header) % padding if data else 0) + bytes(i * 37 % 251 for i in range(data))


KEY = pair("k", "u32", u32(7))
W = tensor("w", (4,))


def refused(name, says, data, at=None, path=None, code="foreign_invalid", **more):
    return Case(f"gguf-{name}", code, data, at, path, says=says, **more)


def cases():
    for group in (starts, counts, pairs, alignments, types, shapes, places, ends, limits):
        yield from group()


def starts():
    good = file([KEY], [W], 32)
    known = "and 1 to 3 are known"
    yield refused(
        "magic-alone",
        f"the header goes on for 8 bytes here and the file has only 4{CUT}",
        good[:4],
        0,
        code="truncated",
    )
    for version in (0, 4, 2**32 - 1):
        yield refused(
            f"version-{version}",
            f"the file is of GGUF version {version}, {known}",
            good[:4] + u32(version) + good[8:],
            4,
            code="unsupported_version",
        )
    big = b"GGUF" + struct.pack(">IQQ", 3, 1, 0) + struct.pack(">Q", 1) + b"w" + struct.pack(">IQIQ", 1, 4, 0, 0)
    yield refused(
        "big-endian",
        "the file is a big-endian GGUF file, and those for little-endian machines are read; "
        "convert it with gguf_convert_endian.py of llama.cpp",
        big + bytes(-len(big) % 32) + bytes(16),
        4,
        code="unsupported_version",
    )
    yield refused(
        "cut-in-counts",
        f"the header goes on for 16 bytes here and the file has only 15{CUT}",
        good[:23],
        8,
        code="truncated",
    )


def counts():
    """Counts and lengths that the file cannot hold: CVE-2024-21802, -21836, -23496, -23605, CVE-2026-33298."""
    claims = "the file claims {} and has only {} left, so it is truncated or damaged".format
    goes_on = "the header goes on for {} bytes here and the file has only {}; copy or download it again".format
    rest = len(KEY)
    # The least pair has 13 bytes: one more than fit.
    yield refused(
        "pairs-one-too-many",
        claims("2 key-value pairs", f"{rest + 8} bytes"),
        file([KEY, b"x" * 8], pair_count=2),
        COUNTS,
    )
    yield refused(
        "pairs-largest",
        claims(f"{2**64 - 1} key-value pairs", f"{rest} bytes"),
        file([KEY], pair_count=2**64 - 1),
        COUNTS,
    )
    # 13 times that is 8 in 64 bits.
    wraps = pow(13, -1, 2**64) * 8 % 2**64
    yield refused(
        "pairs-wrap", claims(f"{wraps} key-value pairs", f"{rest} bytes"), file([KEY], pair_count=wraps), COUNTS
    )
    yield refused(
        "tensors-one-too-many",
        claims("2 tensors", "47 bytes"),
        file([], [W], tensor_count=2) + bytes(47 - len(W)),
        COUNTS,
    )
    yield refused(
        "tensors-wrap", claims(f"{2**61} tensors", f"{len(W)} bytes"), file([], [W], tensor_count=2**61), COUNTS
    )
    cut = dict(code="truncated")
    yield refused("key-largest", goes_on(2**64 - 1, 40), file([u64(2**64 - 1) + bytes(40)]), COUNTS + 8, **cut)
    yield refused(
        "key-wraps-to-its-begin", goes_on(2**64 - 32, 40), file([u64(2**64 - 32) + bytes(40)]), COUNTS + 8, **cut
    )
    yield refused("key-one-too-long", goes_on(41, 40), file([u64(41) + bytes(40)]), COUNTS + 8, **cut)
    string = pair("k", "string")
    at = COUNTS + len(string) + 8
    yield refused(
        "string-largest", goes_on(2**64 - 1, 8), file([string + u64(2**64 - 1) + bytes(8)]), at, "(metadata)/k", **cut
    )
    yield refused("string-one-too-long", goes_on(9, 8), file([string + u64(9) + bytes(8)]), at, "(metadata)/k", **cut)
    yield refused("value-cut", goes_on(4, 3), file([KEY])[:-1], COUNTS + len(KEY) - 4, "(metadata)/k", **cut)
    yield refused("type-cut", goes_on(4, 3), file([pair("key", "u8")])[:-1], COUNTS + 11, "(metadata)/key", **cut)
    empty = array("k", "u64", 0)
    begin = COUNTS + len(empty)
    yield refused(
        "array-one-too-many",
        claims("6 elements", "47 bytes"),
        file([array("k", "u64", 6, bytes(47))]),
        begin,
        "(metadata)/k",
    )
    yield refused(
        "array-wraps",
        claims(f"{2**61 + 1} elements", "40 bytes"),
        file([array("k", "u64", 2**61 + 1, bytes(40))]),
        begin,
        "(metadata)/k",
    )
    yield refused(
        "array-of-strings-one-too-many",
        claims("6 elements", "47 bytes"),
        file([array("k", "string", 6, bytes(47))]),
        begin,
        "(metadata)/k",
    )
    # A count that no 32 bits hold, and would be 0 in them.
    yield refused(
        "array-over-u32",
        claims(f"{2**32} elements", "40 bytes"),
        file([array("k", "u8", 2**32, bytes(40))]),
        begin,
        "(metadata)/k",
    )
    inner = array("k", "string", 2, text("a") + u64(9) + bytes(8))
    yield refused(
        "string-in-array-one-too-long", goes_on(9, 8), file([inner]), COUNTS + len(inner) - 8, "(metadata)/k", **cut
    )
    inner = array("k", "string", 2, text("a") + u64(2**64 - 2) + bytes(8))
    yield refused(
        "string-in-array-wraps", goes_on(2**64 - 2, 8), file([inner]), COUNTS + len(inner) - 8, "(metadata)/k", **cut
    )
    # Version 1 has counts of 4 bytes.
    old = b"GGUF" + u32(1) + u32(1) + u32(0)
    yield refused("version-1-tensors-one-too-many", claims("1 tensor", "19 bytes"), old + bytes(19), 16)
    name = u32(2**32 - 1)
    yield refused("version-1-name-largest", goes_on(2**32 - 1, 40), old + name + bytes(40), 20, **cut)
    for width in (8, 4):
        short = b"GGUF" + (u32(3) + u64(0) + u64(1) if width == 8 else u32(1) + u32(0) + u32(1)) + bytes(width + 4)
        yield refused(
            f"pair-of-{width + 4}-bytes",
            claims("1 key-value pair", f"{width + 4} bytes"),
            short,
            len(short) - width - 4,
        )


def pairs():
    at = COUNTS + 9  # Where the type stands, and after it the value.
    for number in (13, 2**32 - 1):
        yield refused(
            f"value-type-{number}",
            f"the value has the type {number}, and there are 0 to 12",
            file([pair("k", number, bytes(16))]),
            at,
            "(metadata)/k",
        )
        yield refused(
            f"element-type-{number}",
            f"the array's elements have the type {number}, and there are 0 to 12",
            file([array("k", number, 1, bytes(16))]),
            at + 4,
            "(metadata)/k",
        )
    yield refused(
        "array-of-arrays",
        "the value is an array of arrays, which ggml does not read either",
        file([array("k", "array", 1, u32(0) + u64(1) + b"\1")]),
        at + 4,
        "(metadata)/k",
    )
    yield refused(
        "array-of-no-arrays",
        "the value is an array of arrays, which ggml does not read either",
        file([array("k", "array", 0)]),
        at + 4,
        "(metadata)/k",
    )
    yield refused("bool-2", "a bool is 2 and must be 0 or 1", file([pair("k", "bool", b"\2")]), at + 4, "(metadata)/k")
    yield refused(
        "bool-255-in-array",
        "a bool is 255 and must be 0 or 1",
        file([array("k", "bool", 3, b"\0\1\xff")]),
        at + 4 + 12 + 2,
        "(metadata)/k",
    )
    for name, raw, wrong in (
        ("lone-byte", b"a\xff", 1),
        ("overlong", b"\xc0\xaf", 0),
        ("surrogate", b"k\xed\xa0\x80", 1),
        ("cut-character", b"key\xc3", 3),
    ):
        yield refused(f"key-{name}", "a key is not UTF-8", file([pair(raw, "u8", b"\1")]), COUNTS + 8 + wrong)
        yield refused(
            f"tensor-name-{name}", "a tensor's name is not UTF-8", file([], [tensor(raw, (4,))], 16), COUNTS + 8 + wrong
        )
    same = "two key-value pairs have the same key"
    yield refused("key-twice", same, file([KEY, pair("k", "bool", b"\1")]), path="(metadata)/k")
    yield refused(
        "key-twice-apart", same, file([KEY, pair("b", "u8", b"\1"), pair("a", "u8", b"\1"), KEY]), path="(metadata)/k"
    )
    yield refused(
        "key-of-nothing-twice", same, file([pair("", "u8", b"\1"), pair("", "u8", b"\1")]), path="(metadata)/~2"
    )


def alignments():
    """The alignment decides where the data begin, so two opinions about it are two contents."""
    key = "general.alignment"
    at = COUNTS + len(pair(key, "u32"))
    path = f"(metadata)/{key}"
    for number in (0, 3, 24, 2**32 - 1):
        yield refused(
            f"alignment-{number}",
            f"the alignment is {number}, which is no power of two",
            file([pair(key, "u32", u32(number))], [W], 32),
            at,
            path,
        )
    for kind, value in (
        ("u64", u64(32)),
        ("i32", u32(32)),
        ("u8", b"\x20"),
        ("f32", struct.pack("<f", 32)),
        ("string", text("32")),
    ):
        yield refused(
            f"alignment-{kind}",
            f"the alignment must be a u32, and is of the type {kind}",
            file([pair(key, kind, value)], [W], 32),
            at + (8 if kind == "string" else 0),
            path,
        )
    yield refused(
        "alignment-array",
        "the alignment must be a u32, and is of the type array",
        file([array(key, "u32", 1, u32(32))], [W], 32),
        at + 12,
        path,
    )
    yield refused(
        "alignment-twice",
        "two key-value pairs have the same key",
        file([pair(key, "u32", u32(64)), pair(key, "u32", u32(32))], [W], 32),
        path=path,
    )
    # The second tensor stands as the default says, and not as the file does.
    two = [W, tensor("b", (4,), offset=32)]
    yield refused(
        "alignment-of-others",
        "the tensor begins at 32 of the data, and the one before it ends at 64",
        file([pair(key, "u32", u32(64))], two, 96, padding=64),
        path="b",
    )
    # llama.cpp#24759: the padding of an end wraps.
    wide = [pair(key, "u32", u32(2**31))]
    yield refused(
        "alignment-largest-and-gap",
        f"the tensor begins at {2**64 - 32} of the data, and the one before it ends at 0",
        file(wide, [tensor("a", (0,)), tensor("b", (4,), offset=2**64 - 32)]),
        path="b",
    )
    past = [tensor("a", (2**63 - 1,), I8), tensor("b", (2**63 - 1,), I8, 2**63)]
    yield refused("end-wraps-when-padded", "the tensor's end passes 2^64", file(wide, past), path="b")


def types():
    at = lambda made: len(made) - 12
    for number, name in REMOVED.items():
        made = file([], [tensor("w", (256,), number)])
        yield refused(
            f"type-{number}-removed",
            f"the tensor has the type {name}, which ggml has removed; quantise the model again",
            made + bytes(300),
            at(made),
            "w",
        )
    for number in (43, 2**32 - 1):
        made = file([], [tensor("w", (256,), number)])
        yield refused(
            f"type-{number}",
            f"the tensor has the type {number}, which this version does not know; use a newer Espalier",
            made + bytes(300),
            at(made),
            "w",
        )


def shapes():
    """Axes whose product wraps: CVE-2025-53630, CVE-2026-27940, llama.cpp#27203 and others."""
    rank = COUNTS + 9  # Where the rank of a tensor of a short name stands.
    elements, too_much = "the shape has 2^64 elements or more", "the tensor has 2^63 bytes or more"
    filled = "the last axis of an opaque tensor must be a multiple of the {} elements in a block".format
    many = "the tensor has {} axes and Limits::rank allows 64".format
    limited = dict(code="limit_exceeded")
    one = lambda *arguments: file([], [tensor("w", *arguments)], 64)
    yield refused("rank-65", many(65), one((1,) * 65), rank, "w", **limited)
    most = text("w") + u32(2**32 - 1)
    yield refused("rank-largest", many(2**32 - 1), file([], [most], 64), rank, "w", **limited)
    yield refused(
        "axes-past-end",
        f"the header goes on for 8 bytes here and the file has only 4{CUT}",
        file([], [text("w") + u32(3) + u64(1) * 2 + bytes(4)]),
        rank + 4 + 16,
        "w",
        code="truncated",
    )
    yield refused("elements-wrap-to-0", elements, one((HUGE, 2)), path="w")
    yield refused("elements-wrap-to-4", elements, one((2**62 + 1, 4)), path="w")
    yield refused("elements-int64-max-twice", too_much, one((HUGE - 1, 2)), path="w")
    yield refused("elements-wrap-in-three", elements, one((2**22, 2**21, 2**21)), path="w")
    yield refused("bytes-wrap", too_much, one((2**62 + 4,)), path="w")
    yield refused("bytes-2-63", too_much, one((2**61,)), path="w")
    yield refused("blocks-wrap", elements, one((2**62, 32), Q4_0), path="w")
    yield refused("blocks-not-filled", filled(32), one((33, 32), Q4_0), path="w")
    yield refused("blocks-in-the-other-axis", filled(256), one((1, 256), Q4_K), path="w")
    yield refused("blocks-without-axes", filled(32), one((), Q4_0), path="w")


def places():
    """Gaps could hide bytes, and overlaps show the same bytes under two names."""
    says = "the tensor begins at {} of the data, and the one before it ends at {}".format
    two = lambda second, **more: file([], [tensor("a", (4,)), tensor("b", (4,), offset=second)], 96, **more)
    first = lambda offset: file([], [tensor("w", (4,), offset=offset)], 64)
    for name, made, begin, end, path in (
        ("gap-first", first(32), 32, 0, "w"),
        ("gap-largest", first(2**64 - 32), 2**64 - 32, 0, "w"),
        ("unaligned", first(1), 1, 0, "w"),
        ("gap", two(64), 64, 32, "b"),
        ("overlap", two(0), 0, 32, "b"),
        ("overlap-in-part", two(8), 8, 32, "b"),
        ("without-padding", two(16), 16, 32, "b"),
    ):
        tensors = 2 if path == "b" else 1
        yield refused(name, says(begin, end), made, COUNTS + tensors * len(W) - 8, path)
    same = "two tensors have the same name"
    yield refused("name-twice", same, file([], [W, tensor("w", (4,), offset=32)], 64), path="w")
    yield refused("name-twice-empty", same, file([], [W, tensor("w", (0,), offset=32)], 32), path="w")
    # 2^61 f32 less 2^60 bytes, again and again.
    huge = [tensor(name, (2**60,), offset=number * 2**62) for number, name in enumerate("abcd")]
    yield refused("sum-passes-2-64", "the tensor's end passes 2^64", file([], huge, 64), path="d")
    whole = [tensor("a", (2**63 - 32,), I8), tensor("b", (2**63 - 32,), I8, 2**63 - 32)]
    yield refused("data-passes-2-64", "the data passes 2^64", file([], whole, 64))


def ends():
    """Data that the file does not have: CVE-2026-7482."""
    says = "the file ends before the end of the tensor; copy or download it again"
    cut = dict(code="truncated", at=COUNTS + 8, path="w")
    good = file([], [W], 16)
    yield refused("cut-by-one", says, good[:-1], **cut)
    yield refused("cut-in-padding", says, file([], [W]), **cut)
    yield refused("petabyte", says, file([], [tensor("w", (2**48,))], 16), **cut)
    yield refused("largest-tensor", says, file([], [tensor("w", (2**63 - 1,), I8)], 16), **cut)
    two = file([], [W, tensor("b", (4,), offset=32)], 48)
    yield refused("cut-in-second", says, two[:-1], COUNTS + len(W) + 8, "b", code="truncated")
    for field, end, left in (("offset", len(W), 7), ("type", len(W) - 8, 3)):
        made = file([], [W])[: COUNTS + end - 1]
        yield refused(
            f"cut-in-{field}",
            f"the header goes on for {left + 1} bytes here and the file has only {left}{CUT}",
            made,
            len(made) - left,
            "w",
            code="truncated",
        )


def limits():
    """With one more of each, all of these are good: so they are the files of the others, unbroken."""
    limited = dict(code="limit_exceeded")
    good = file(
        [
            KEY,
            pair("s", "string", text("x")),
            array("a", "string", 2, text("x") + text("")),
            pair("b", "bool", b"\1"),
            array("l", "bool", 3, b"\0\1\1"),
            array("u", "u8", 64, bytes(64)),
            array("f", "f64", 1, bytes(8)),
        ],
        [W, tensor("q", (32, 2), Q4_0, 32), tensor("f", (2, 3), F32, 96)],
        120,
    )
    header = good.rindex(u64(96)) + 8
    yield refused(
        "limit-header",
        f"the header has more than the {header - 1} bytes that Limits::gguf_header_bytes allows",
        good,
        header - 8,
        "f",
        limits={"gguf_header_bytes": header - 1},
        **limited,
    )
    yield refused(
        "limit-header-of-start",
        "the header has more than the 23 bytes that Limits::gguf_header_bytes allows",
        file(),
        8,
        limits={"gguf_header_bytes": 23},
        **limited,
    )
    # Two roots, a part, and what is in them; in arrays as well.
    yield refused(
        "limit-nodes",
        "the file has 18 tensors and values and Limits::nodes allows 17",
        good,
        limits={"nodes": 17},
        **limited,
    )
    yield refused(
        "limit-rank", "the tensor has 2 axes and Limits::rank allows 1", good, limits={"rank": 1}, path="q", **limited
    )
    yield refused(
        "limit-bigint",
        "a u64 takes more bytes than Limits::bigint_bytes allows",
        file([pair("k", "u64", u64(2**63))]),
        limits={"bigint_bytes": 8},
        **limited,
    )
    yield refused(
        "limit-chunks",
        "the file has more chunks than fit in Limits::index_bytes",
        good,
        limits={"index_bytes": 95},
        **limited,
    )
    yield refused(
        "limit-path",
        "a key path is longer than the 3 bytes that Limits::path_bytes allows",
        file([], [tensor("long", (4,))], 16),
        limits={"path_bytes": 3},
        **limited,
    )
    yield refused(
        "limit-text",
        "Limits::text_bytes allows 4",
        file([pair("k", "string", text("long"))]),
        limits={"text_bytes": 4},
        **limited,
    )
