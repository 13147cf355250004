"""The hostile ONNX models (docs/formats.md), written field by field."""

from corpus_case import Case

FLOAT, INT8, INT64, STRING = 1, 3, 7, 8


def varint(value):
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def piece(field, contents):
    raw = contents.encode() if isinstance(contents, str) else contents
    return varint(field << 3 | 2) + varint(len(raw)) + raw


def model(*graph):
    return number(1, 8) + piece(7, b"".join(graph))


def fields(kind=FLOAT, shape=(2,), name="w"):
    """A tensor without its numbers."""
    return b"".join(number(1, axis) for axis in shape) + number(2, kind) + piece(8, name)


def raw(length=8):
    return piece(9, bytes(range(1, length + 1)))


def one(*parts):
    return model(piece(5, b"".join(parts)))


def key(name, value):
    return piece(13, piece(1, name) + piece(2, value))


def external(location="w.bin", **keys):
    return fields() + number(14, 1) + key("location", location) + b"".join(key(*item) for item in keys.items())


GOOD = piece(5, fields() + raw())


def refused(name, says, data, path=None, code="foreign_invalid", **more):
    return Case(f"onnx-{name}", code, data, None, path, says=says, **more)


def cases():
    for group in (wire, numbers, values, shapes, names, places, beside, limits):
        yield from group()


def wire():
    beyond = "a field goes on after the end of its message"
    none = "the model has no field where one should be"
    yield refused("cut", "the model goes on after the end of the file", model(GOOD)[:-1], code="truncated")
    yield refused("two-graphs", "a message has field 7 twice", model(GOOD) + piece(7, GOOD))
    yield refused("field-beyond", beyond, model(GOOD + b"\x2a\x7f"))
    yield refused("field-beyond-by-one", beyond, model(GOOD + b"\x2a\x01"))
    yield refused("field-of-2-64", beyond, model(GOOD + b"\x2a" + varint(2**64 - 1)))
    yield refused("half-a-field", beyond, model(GOOD + b"\x2a"))
    yield refused("group", none, model(GOOD + b"\x2b"))
    yield refused("wire-type-7", none, model(GOOD + b"\x2f"))
    yield refused("field-0", none, model(GOOD + b"\x02\x01x"))
    yield refused("field-2-29", none, model(GOOD + varint(2**29 << 3) + b"\0"))
    yield refused("varint-of-11-bytes", none, model(GOOD + b"\x28" + b"\x80" * 10 + b"\0"))
    yield refused("varint-of-65-bits", none, model(GOOD + b"\x28" + b"\xff" * 9 + b"\x02"))
    yield refused("number-for-a-name", "field 8 of a message has another type than in ONNX", one(number(8, 1), raw()))
    yield refused("name-twice", "a message has field 8 twice", one(fields(), piece(8, "v"), raw()))
    nested = GOOD
    for _ in range(32):
        nested = piece(1, piece(5, piece(6, nested)))
    yield refused("graphs-33-deep", "the graphs are nested more than 32 deep", model(nested), code="limit_exceeded")
    # A function of Python's protobuf that calls itself: CVE-2025-4565.
    nested = GOOD
    for _ in range(250):
        nested = piece(1, piece(5, piece(6, nested)))
    yield refused("graphs-251-deep", "the graphs are nested more than 32 deep", model(nested), code="limit_exceeded")


def numbers():
    twice = "the tensor has its numbers twice"
    yield refused("raw-twice", "a message has field 9 twice", one(fields(), raw(), raw()))
    yield refused("raw-and-typed", twice, one(fields(), piece(4, bytes(8)), raw()))
    yield refused("typed-and-raw", twice, one(fields(), raw(), piece(4, bytes(8))))
    yield refused("two-typed-fields", twice, one(fields(), piece(4, bytes(8)), piece(5, b"\1\2")))
    yield refused("raw-and-external", twice, one(external(), raw()))
    wrong = "the tensor has its numbers in a field that is not that of its type, onnx.float"
    yield refused("floats-as-integers", wrong, one(fields(), piece(5, b"\1\2")))
    yield refused("floats-as-strings", wrong, one(fields(), piece(6, "a"), piece(6, "b")))
    each = "the tensor does not have a string for each of its elements"
    yield refused("raw-strings", each, one(fields(STRING), raw()))
    yield refused("string-missing", each, one(fields(STRING), piece(6, "a")))
    yield refused("string-too-many", each, one(fields(STRING), piece(6, "a") * 3))
    yield refused("segment", "the tensor is a segment of a larger one", one(fields(), piece(3, ""), raw()),
                  code="unsupported_feature")  # fmt: skip
    yield refused("sparse-without-indices", "a sparse tensor has no values or no indices", model(piece(15, piece(1, fields() + raw()))))
    constant = piece(2, "c") + piece(4, "Constant")
    yield refused("constant-of-two-values", "a constant has two values",
                  model(piece(1, constant + piece(5, piece(1, "value_int") + number(3, 1) + number(8, 2)))))  # fmt: skip


def values():
    def i8(*parts, count=1):
        return one(fields(INT8, (count,)), *parts)

    fit = "which does not fit the dtype i8"
    yield refused("i8-300", f"is 300, {fit}", i8(number(5, 300)), "w")
    yield refused("i8-128", f"is 128, {fit}", i8(number(5, 128)), "w")
    yield refused("i8-minus-129", f"is -129, {fit}", i8(number(5, 2**64 - 129)), "w")
    yield refused("i8-of-33-bits", f"is 4294967297, {fit}", i8(number(5, 2**32 + 1)), "w")
    yield refused("bool-2", "is 2, which does not fit the dtype bool", one(fields(9, (1,)), number(5, 2)), "w")
    yield refused("u32-of-33-bits", "does not fit the dtype u32", one(fields(12, (1,)), number(11, 2**32)), "w")
    yield refused("float6-of-7-bits", "is 64, which does not fit the dtype f6_e2m3fn", one(fields(27, (4,)), piece(5, b"\x40\1\1\1")), "w")
    yield refused("number-missing", "it has 2 numbers and needs 3", i8(piece(5, b"\x01\x81\x00"), count=3), "w")
    yield refused("number-too-many", "it has more than the 2 numbers", i8(piece(5, b"\1\2\3"), count=2), "w")
    yield refused("number-cut", "one of its numbers is cut", i8(piece(5, b"\1\2\x83"), count=3), "w")
    few = "the tensor needs 8589934592 numbers and has only 4 bytes of them"
    yield refused("numbers-8-gib", few, i8(piece(5, b"\1\2"), count=2**33), "w")


def shapes():
    need = "the tensor has {} bytes, and its shape and type need {}".format
    yield refused("raw-short", need(7, 8), one(fields(), raw(7)), "w")
    yield refused("raw-long", need(9, 8), one(fields(), raw(9)), "w")
    yield refused("typed-short", need(4, 8), one(fields(), piece(4, bytes(4))), "w")
    yield refused("elements-wrap", "2^61 bytes", one(fields(FLOAT, (2**31, 2**31, 4)), raw()), "w")
    yield refused("bytes-wrap", "2^61 bytes", one(fields(FLOAT, (2**62,)), raw()), "w")
    yield refused("axis-negative", "a dimension is negative", one(fields(FLOAT, (2**64 - 1,)), raw()))
    yield refused("no-type", "the tensor has the type 0, which is none", one(piece(8, "w"), raw()))
    yield refused("type-29", "the tensor has the type 29, which this version does not know", one(fields(29), raw()))
    yield refused("type-2-64", "which this version does not know", one(fields(2**64 - 1), raw()))


def names():
    twice = "the model has two values with this name"
    yield refused("initializer-twice", twice, model(GOOD, GOOD), "w")
    constant = piece(2, "w") + piece(4, "Constant") + piece(5, piece(1, "value") + piece(5, fields() + raw()))
    yield refused("initializer-and-constant", twice, model(piece(1, constant), GOOD), "w")
    yield refused("name-not-utf-8", "UTF-8", one(fields(name=b"\xff"), raw()))
    yield refused("property-twice", twice, model(GOOD) + piece(14, piece(1, "k")) * 2, "(metadata)/metadata_props/k")
    yield refused("opset-twice", twice, model(GOOD) + piece(8, number(2, 1)) + piece(8, piece(1, "ai.onnx")),
                  "(metadata)/opset_import/ai.onnx")  # fmt: skip


def places():
    """Names that lead elsewhere: CVE-2022-25882, CVE-2024-27318, CVE-2025-51480, CVE-2026-27489."""
    plain = "files of a model must have plain names, in its folder"
    for name, location in {
        "parent": "../w.bin", "absolute": "/etc/passwd", "folder": "a/w.bin", "folder-and-back": "a/../w.bin",
        "here-and-parent": "./../w.bin", "here-twice": "././w.bin", "none": "", "here-alone": "./", "backslash": "..\\w.bin",
        "drive": "C:w.bin", "nul": "w\0.bin", "newline": "w\n.bin", "url": "https://host/w.bin",
    }.items():  # fmt: skip
        yield refused(f"location-{name}", plain, one(external(location)))
    yield refused("location-memory", "the tensor lies in the memory of the program that wrote the model", one(external("*/_ORT_MEM_ADDR_/*")))
    yield refused("location-twice", "the tensor has two locations", one(external(), key("location", "w.bin")))
    yield refused("location-missing", "the tensor lies in another file, and none is named", one(fields(), number(14, 1)))
    yield refused("location-of-inside", "its data_location is not EXTERNAL", one(fields(), key("location", "w.bin")))
    yield refused("data-location-2", "the tensor has the data_location 2, and there are 0 and 1", one(fields(), number(14, 2), raw()))
    digits = "which is no number of digits"
    for name, offset in {"space": " 0", "underline": "1_0", "sign": "-1", "plus": "+1", "none": "", "hex": "0x1", "65-bits": str(2**64),
                         "fraction": "1.0"}.items():  # fmt: skip
        yield refused(f"offset-{name}", digits, one(external(offset=offset)))
    yield refused("length-sign", digits, one(external(length="-8")))
    yield refused("offset-twice", "the tensor has the key 'offset' twice", one(external(offset="0"), key("offset", "0")))
    yield refused("length-short", "the tensor has 7 bytes, and its shape and type need 8", one(external(length="7")), "w")
    yield refused("length-long", "the tensor has 9 bytes, and its shape and type need 8", one(external(length="9")), "w")


def beside():
    """What lies in another file may be lost: all else can be read."""

    def lost(name, says, code, path, data, size):
        files = {} if size is None else {"w.bin": bytes(size)}
        return Case(f"onnx-{name}", code, data, None, path, "verify", says=says, opens="m.onnx", beside=files)

    yield lost("file-missing", None, "file_missing", None, one(external()), None)
    yield lost("file-short", "it lies beyond the end of w.bin, which has 7 bytes", "truncated", "w", one(external()), 7)
    yield lost("offset-beyond", "it lies beyond the end", "truncated", "w", one(external(offset="9")), 8)
    yield lost("offset-largest", "it lies beyond the end", "truncated", "w", one(external(offset=str(2**64 - 1))), 8)
    petabytes = fields(FLOAT, (2**50,)) + number(14, 1) + key("location", "w.bin")
    yield lost("file-of-petabytes", "it lies beyond the end", "truncated", "w", one(petabytes), 8)


def limits():
    size = len(number(1, 8)) + 2 + len(GOOD) - 8
    yield refused("limit-header", f"is more than the {size - 1} bytes that Limits::foreign_header_bytes allows", model(GOOD),
                  code="limit_exceeded", limits={"foreign_header_bytes": size - 1})  # fmt: skip
    yield refused("limit-rank", "a tensor has 1 axis and readers accept 0 (Limits::rank)", model(GOOD), code="limit_exceeded",
                  limits={"rank": 0})  # fmt: skip
    numbers = one(fields(INT64, (1,)), number(7, 1))
    yield refused("limit-rank-of-numbers", "a tensor has 1 axis and readers accept 0 (Limits::rank)", numbers, code="limit_exceeded",
                  limits={"rank": 0})  # fmt: skip
    yield Case("onnx-limit-files", "limit_exceeded", one(external()), says="bytes in 1 further file and Limits::files allows 0",
               opens="m.onnx", beside={"w.bin": bytes(8)}, limits={"files": 0})  # fmt: skip
