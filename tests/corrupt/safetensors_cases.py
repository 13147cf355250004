"""The hostile safetensors files, and hostile trees that such a file carries (docs/safetensors.md)."""

import json
import struct

from corpus_case import Case

BEGIN = 8  # Where the header begins.
ENTRY = '{"dtype":"U8","shape":[4],"data_offsets":[0,4]}'
DATA = b"data"


def file(header, data=b"", length=None):
    raw = header.encode() if isinstance(header, str) else header
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


def cases():
    for group in (lengths, syntax, names, fields, sizes, places, metadata, limits, carried):
        yield from group()


def case(name, header, data=DATA, *, at=None, path=None, code="safetensors_invalid", length=None, **more):
    return Case(f"safetensors-{name}", code, file(header, data, length), at, path, **more)


def lengths():
    good = f'{{"t":{ENTRY}}}'
    whole = len(good)
    yield Case("safetensors-of-9-bytes", "safetensors_invalid", file("{"), 0)
    yield case("length-0", good, at=0, length=0)
    yield case("length-1", good, at=0, length=1)
    yield case("length-past-end", good, at=0, length=whole + 5)
    yield case("length-largest", good, at=0, length=2**64 - 1)
    yield case("length-wraps", good, at=0, length=2**64 - 8)
    yield case("length-over-cap", good, at=0, length=100_000_001)  # The file is no longer than it is.
    yield case("length-short", good, length=whole - 1)
    yield case("length-long", good, at=BEGIN + whole, length=whole + 4)  # The data read as JSON.
    yield Case("safetensors-cut", "truncated", file(good, DATA)[:-1], b"t", "t")
    yield Case("safetensors-cut-in-header", "safetensors_invalid", file(good, DATA)[:40], 0)
    yield Case("safetensors-empty-header", "not_a_checkpoint", file("", DATA), 0)
    yield case("empty-header-then-spaces", "  ", b"", at=BEGIN)
    yield case("trailing-byte", good, DATA + b"x", code="trailing_bytes", at=BEGIN + whole + 4)
    yield case("data-without-tensors", "{}", b"x", code="trailing_bytes", at=BEGIN + 2)
    yield case("over-limit", good, at=0, code="limit_exceeded", limits={"foreign_header_bytes": whole - 1})


def syntax():
    good = f'{{"t":{ENTRY}}}'
    yield case("leading-space", " " + good, at=BEGIN)
    yield case("leading-newline", "\n" + good, at=BEGIN)
    yield case("byte-order-mark", "\ufeff" + good, at=BEGIN)
    yield case("array", f"[{good}]", at=BEGIN)
    yield case("two-objects", good + "{}", at=BEGIN + len(good))
    yield case("padded-with-zeros", good + "\0\0", at=BEGIN + len(good))
    yield case("padded-with-newline", good + "\n", at=BEGIN + len(good))
    yield case("padded-with-tab", good + "\t ", at=BEGIN + len(good))
    yield case("unterminated", good[:-1])
    yield case("unterminated-string", '{"t')
    yield case("comment", "{/* */" + good[1:])
    yield case("trailing-comma", good[:-1] + ",}")
    yield case("single-quotes", good.replace('"', "'"))
    yield case("control-character", '{"a\nb":' + ENTRY + "}")
    yield case("zero-byte-in-name", '{"a\0b":' + ENTRY + "}", at=BEGIN + 3)
    yield case("nan", '{"t":{"dtype":"U8","shape":[NaN],"data_offsets":[0,4]}}')
    yield case("utf-16", good.encode("utf-16-le"))
    # Nothing nested is entered, so no depth of it can exhaust a stack or a clock.
    yield case("deep-arrays", '{"t":' + "[" * 4000, b"")
    yield case("deep-objects", '{"t":' * 800, b"")
    yield case("deep-field", '{"t":{"dtype":' + "[" * 4000, b"")
    yield case("deep-metadata", '{"__metadata__":{"k":' + "[" * 4000, b"")
    yield case("wide-field", '{"t":{"extra":[' + "1," * 2000, b"", path="t")


def names():
    good = f'{{"t":{ENTRY}}}'
    empty = '{"dtype":"U8","shape":[0],"data_offsets":[4,4]}'
    raw = lambda name: b'{"' + name + b'":' + ENTRY.encode() + b"}"
    for name, text in (("lone-byte", b"\xff"), ("overlong", b"\xc0\xaf"), ("surrogate", b"\xed\xa0\x80"),
                       ("cut-character", b"\xc3")):  # fmt: skip
        yield case(f"name-{name}", raw(text), at=BEGIN + 2)
    yield case("name-half-pair-low", raw(rb"\udc00"))
    yield case("name-half-pair-high", raw(rb"\ud800"))
    yield case("name-half-pair-twice", raw(rb"\ud800\ud800"))
    yield case("name-escape-cut", raw(rb"\u12"))
    yield case("name-escape-unknown", raw(rb"\x41"))
    yield case("name-twice", f'{{"t":{ENTRY},"t":{ENTRY}}}')
    yield case("name-twice-empty", f'{{"t":{ENTRY},"t":{empty}}}', path="t")
    yield case("name-twice-by-escape", f'{{"t":{ENTRY},"\\u0074":{empty}}}', path="t")
    yield case("name-twice-apart", f'{{"t":{empty},"s":{empty.replace("4,4", "0,0")},"t":{ENTRY}}}')
    yield case("name-no-string", "{1:" + good[5:])
    yield case("name-too-long-by-limit", good.replace("t", "long", 1), at=BEGIN + 2, code="limit_exceeded",
               limits={"path_bytes": 3})  # fmt: skip


def fields():
    def tensor(name, text, **options):
        options.setdefault("path", "t")
        return case(f"tensor-{name}", f'{{"t":{text}}}', **options)

    good = json.loads(ENTRY)
    for missing in good:
        rest = {key: value for key, value in good.items() if key != missing}
        yield tensor(f"without-{missing}", json.dumps(rest), at=b"t")
    # Correct in everything else, however a reader treats a missing field.
    yield tensor("without-dtype-of-four-bytes", '{"shape":[1],"data_offsets":[0,4]}', at=b"t")
    yield tensor("without-offsets-or-elements", '{"dtype":"U8","shape":[0]}', data=b"", at=b"t")
    yield tensor("empty", "{}", at=b"t")
    yield tensor("null", "null", at=BEGIN + 5)
    yield tensor("number", "7", at=BEGIN + 5)
    yield tensor("array", "[]", at=BEGIN + 5)
    yield tensor("string", '"t"')
    for field in good:
        twice = ENTRY[:-1] + f',"{field}":{json.dumps(good[field])}}}'
        yield tensor(f"{field}-twice", twice)
    yield tensor("dtype-twice-by-escape", ENTRY[:-1] + ',"dtyp\\u0065":"U8"}')
    yield tensor("with-another-field", ENTRY[:-1] + ',"x":1}', at=BEGIN + 2 + len('t":' + ENTRY) + 1)
    yield tensor("with-nul-after-field", ENTRY.replace("dtype", "dtype\\u0000"))
    for name, dtype in (("unknown", '"F128"'), ("lower-case", '"u8"'), ("empty", '""'), ("null", "null"),
                        ("number", "8"), ("array", '["U8"]'), ("ours", '"I4"')):  # fmt: skip
        yield tensor(f"dtype-{name}", ENTRY.replace('"U8"', dtype), at=None)

    numbers = {
        "negative": "-1", "minus-zero": "-0", "exponent": "1e3", "fraction": "4.0", "half": "0.5",
        "over-u64": "18446744073709551616", "over-double": "9" * 400, "leading-zero": "04", "plus": "+4",
        "hexadecimal": "0x4", "string": '"4"', "null": "null", "true": "true", "array": "[4]", "object": "{}",
        "nothing": "", "infinity": "Infinity",
    }  # fmt: skip
    for name, number in numbers.items():
        if number:  # [] is the shape of one element.
            yield tensor(f"shape-{name}", ENTRY.replace("[4]", f"[{number}]"), path=None)
        yield tensor(f"offset-{name}", ENTRY.replace("4]}", f"{number}]}}"), path=None)
    yield tensor("shape-no-array", ENTRY.replace("[4]", "4"))
    yield tensor("shape-is-null", ENTRY.replace("[4]", "null"))
    yield tensor("offsets-no-array", ENTRY.replace("[0,4]", "4"))
    yield tensor("offsets-one", ENTRY.replace("[0,4]", "[4]"))
    yield tensor("offsets-three", ENTRY.replace("[0,4]", "[0,4,4]"))
    yield tensor("offsets-none", ENTRY.replace("[0,4]", "[]"))


def sizes():
    def tensor(name, dtype, shape, begin, end, data=DATA, **options):
        entry = json.dumps({"dtype": dtype, "shape": shape, "data_offsets": [begin, end]})
        return case(f"tensor-{name}", f'{{"t":{entry}}}', data, at=b"t", path="t", **options)

    yield tensor("shape-too-large", "U8", [5], 0, 4)
    yield tensor("shape-too-small", "U8", [3], 0, 4)
    yield tensor("dtype-too-wide", "F32", [4], 0, 4)
    yield tensor("scalar-too-small", "F64", [], 0, 4)
    yield tensor("zero-elements-with-bytes", "U8", [0], 0, 4)
    yield tensor("ends-before-it-begins", "U8", [4], 4, 0)
    yield tensor("ends-before-it-begins-by-2^64", "U8", [4], 2**64 - 2, 2)
    yield tensor("shape-past-2^53", "U8", [2**53 + 1], 0, 4)
    yield tensor("product-wraps-to-size", "U8", [2**62 + 1, 4], 0, 4)
    yield tensor("product-wraps-to-0", "U8", [2**32, 2**32], 0, 0, b"")
    yield tensor("product-wraps-before-0", "U8", [2**63, 2, 0], 0, 0, b"")
    yield tensor("bits-wrap", "F64", [2**61], 0, 0, b"")
    yield tensor("bytes-of-2^63", "U8", [2**63], 0, 2**63)
    yield tensor("half-byte", "F4", [7], 0, 4)
    yield tensor("six-bits", "F6_E2M3", [5], 0, 4)
    yield tensor("past-end", "U8", [5], 0, 5, code="truncated")
    yield tensor("of-petabytes", "U8", [2**60], 0, 2**60, code="truncated")


def places():
    def two(name, first, second, data, code="safetensors_invalid", path="b"):
        entry = lambda begin, end: {"dtype": "U8", "shape": [end - begin], "data_offsets": [begin, end]}
        header = json.dumps({"a": entry(*first), "b": entry(*second)})
        return case(f"place-{name}", header, data, code=code, path=path)

    yield two("hole", (0, 2), (3, 5), b"12345")
    yield two("hole-at-begin", (1, 2), (2, 4), b"1234", path="a")
    yield two("overlap", (0, 3), (2, 4), b"1234")
    yield two("same-bytes", (0, 4), (0, 4), b"1234")
    yield two("inside-another", (0, 4), (1, 3), b"1234")
    yield two("hole-filled-twice", (0, 2), (0, 2), b"1234")
    yield two("empty-inside-another", (0, 4), (2, 2), b"1234")
    yield two("hole-at-end", (0, 1), (1, 2), b"1234", "trailing_bytes", None)
    yield two("largest", (0, 2), (2**64 - 2, 2**64 - 1), b"12")


def metadata():
    def pairs(name, text, **options):
        return case(f"metadata-{name}", f'{{"__metadata__":{text}}}', b"", **options)

    value_at = BEGIN + len('{"__metadata__":')
    for name, text in (("null", "null"), ("string", '"x"'), ("array", "[]"), ("number", "1")):
        yield pairs(name, text, at=value_at if name != "string" else None)
    for name, text in (("null", "null"), ("number", "1"), ("true", "true"), ("array", "[]"), ("object", "{}")):
        yield pairs(f"value-{name}", f'{{"k":{text}}}', at=value_at + len('{"k":'))
    yield pairs("key-twice", '{"k":"a","k":"b"}')
    yield pairs("key-twice-by-escape", '{"k":"a","\\u006b":"b"}')
    yield pairs("twice", '{},"__metadata__":{}')
    yield pairs("twice-by-escape", '{},"\\u005f_metadata__":{}')
    yield pairs("key-half-pair", '{"\\udc00":"a"}')
    yield pairs("value-half-pair", '{"k":"\\udc00"}')
    yield case("metadata-value-bad-utf-8", b'{"__metadata__":{"k":"\xff"}}', at=value_at + len('{"k":"'))
    yield case("metadata-is-a-tensor", f'{{"__metadata__":{ENTRY}}}')


def limits():
    many = ",".join(f'"{i}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}' for i in range(9))
    pairs = ",".join(f'"{i}":""' for i in range(9))
    limited = {"code": "limit_exceeded"}
    yield case("limit-tensors", f"{{{many}}}", b"", limits={"nodes": 10}, **limited)
    yield case("limit-pairs", f'{{"__metadata__":{{{pairs}}}}}', b"", limits={"nodes": 10}, **limited)
    yield case("limit-rank", '{"t":' + ENTRY.replace("[4]", "[1,4]") + "}", limits={"rank": 1}, path="t", **limited)
    axes = ",".join(["1"] * 65)
    one = f'{{"t":{{"dtype":"U8","shape":[{axes}],"data_offsets":[0,1]}}}}'
    yield case("rank-65", one, b"d", path="t", code="limit_exceeded")
    yield case("limit-chunks", '{"c":' + ENTRY + "}", limits={"index_bytes": 31}, path="c", **limited)
    yield case("limit-key", '{"__metadata__":{"long":""}}', b"", limits={"path_bytes": 3}, **limited)
    yield case("limit-text", '{"__metadata__":{"k":"long"}}', b"", limits={"text_bytes": 4}, **limited)


# --- The carried tree -----------------------------------------------------------------------------


def carried():
    tensor = {"kind": "tensor", "name": "t"}

    def text(name, tree, code="safetensors_invalid", **more):
        header = '{"__metadata__":{"espalier.tree":' + json.dumps(tree) + '},"t":' + ENTRY + "}"
        return case(f"tree-{name}", header, code=code, found_by="restore", **more)

    def tree(name, state, code="safetensors_invalid", limits=None, **members):
        value = {"version": 1, "state": state} | members
        return text(name, json.dumps(value, separators=(",", ":")), code, limits=limits or {})

    def beside(name, node, **more):
        """A state of the tensor and, before it, a node that is wrong."""
        return tree(name, {"kind": "list", "items": [node, tensor]}, **more)

    for name, broken in (("empty-text", ""), ("no-json", "{"), ("array", "[]"), ("number", "1"),
                         ("two-values", "{}{}"), ("zero-byte", "{}\0"), ("without-version", "{}"),
                         ("without-state", '{"version":1}'), ("half-character", '{"version":1,"state":"\\ud800"}'),
                         ("state-twice", '{"version":1,"state":{"kind":"tensor","name":"t"},"state":null}'),
                         ("real-number", '{"version":1,"state":1.5}')):  # fmt: skip
        yield text(name, broken)
    yield text("version-2", '{"version":2}', "unsupported_version")
    yield text("version-0", '{"version":0}', "unsupported_version")
    yield text("version-text", '{"version":"1","state":null}')
    yield text("version-negative", '{"version":-1,"state":null}')
    yield tree("unknown-member", tensor, more=1)
    yield text("deep-json", "[" * 2000, "limit_exceeded")
    yield text("deep-objects", '{"a":[' * 390, "limit_exceeded")
    yield tree("too-deep", {"kind": "list", "items": [{"kind": "list", "items": [tensor]}]}, "limit_exceeded",
               limits={"depth": 1})  # fmt: skip
    yield tree("too-many-nodes", {"kind": "list", "items": [tensor] * 9}, "limit_exceeded", limits={"nodes": 9})

    yield tree("tensor-unused", None)
    yield tree("tensor-unknown", {"kind": "tensor", "name": "u"})
    yield tree("tensor-without-name", {"kind": "tensor"})
    yield tree("tensor-name-no-text", {"kind": "tensor", "name": 1})
    yield tree("tensor-in-metadata", tensor, metadata={"kind": "dict", "items": [["m", tensor]]})
    yield tree("metadata-list", tensor, metadata={"kind": "list", "items": []})
    yield tree("tensor-shape-alone", tensor | {"shape": [4]})
    yield tree("tensor-type-too-large", tensor | {"dtype": "i4", "shape": [9]})
    yield tree("tensor-type-too-small", tensor | {"dtype": "i4", "shape": [6]})
    yield tree("tensor-type-half-byte", tensor | {"dtype": "i4", "shape": [7]})
    yield tree("tensor-type-wraps", tensor | {"dtype": "c128", "shape": [2**60 + 1]})
    yield tree("tensor-type-unknown", tensor | {"dtype": "U8", "shape": [4]})
    yield tree("tensor-shape-negative", tensor | {"dtype": "u8", "shape": [-4]})
    yield tree("tensor-shape-no-array", tensor | {"dtype": "u8", "shape": 4})
    yield tree("tensor-shape-over-rank", tensor | {"dtype": "u8", "shape": [1] * 65}, "limit_exceeded")
    block = {"dtype": "opaque", "shape": [4], "block": ["q", 4, 4]}
    both = lambda first, second: {"kind": "list", "items": [tensor | first, tensor | second]}
    i4, axes = {"dtype": "i4", "shape": [8]}, {"axes": ["a"]}
    yield tree("tensor-tied-with-other-dtype", both(i4, {"dtype": "u4", "shape": [8]}))
    yield tree("tensor-tied-with-other-shape", both(i4, {"dtype": "i4", "shape": [2, 4]}))
    yield tree("tensor-tied-with-type-once", both(i4, {}))
    yield tree("tensor-tied-with-type-later", both({}, i4))
    yield tree("tensor-tied-with-other-axes", both(axes, {"axes": ["b"]}))
    yield tree("tensor-tied-with-axes-once", both(axes, {}))
    yield tree("tensor-tied-with-unknown-dtype", both({}, {"dtype": "f99", "shape": [4]}))
    opaque = lambda name, elements, size: {"dtype": "opaque", "shape": [4], "block": [name, elements, size]}
    yield tree("tensor-tied-with-other-block-name", both(opaque("q", 4, 4), opaque("p", 4, 4)))
    yield tree("tensor-tied-with-other-block-size", both(opaque("q", 4, 4), opaque("q", 2, 2)))
    yield tree("block-missing", tensor | {"dtype": "opaque", "shape": [4]})
    yield tree("block-of-plain-dtype", tensor | {"dtype": "u8", "shape": [4], "block": ["q", 4, 4]})
    yield tree("block-no-array", tensor | block | {"block": "q"})
    yield tree("block-of-two", tensor | block | {"block": ["q", 4]})
    yield tree("block-of-0-elements", tensor | block | {"block": ["q", 0, 4]})
    yield tree("block-of-0-bytes", tensor | block | {"block": ["q", 4, 0]})
    yield tree("block-over-u32", tensor | block | {"block": ["q", 4, 2**32 + 4]})
    yield tree("block-not-dividing", tensor | block | {"block": ["q", 3, 3]})
    yield tree("axes-too-few", tensor | {"axes": []})
    yield tree("axes-no-text", tensor | {"axes": [1]})
    yield tree("axes-no-array", tensor | {"axes": "a"})
    yield beside("placeholder-without-type", {"kind": "placeholder"})
    yield beside("placeholder-too-large", {"kind": "placeholder", "dtype": "u8", "shape": [2**63]})
    yield beside("placeholder-with-name", {"kind": "placeholder", "name": "t", "dtype": "u8", "shape": [4]})
    yield beside("placeholder-half-byte", {"kind": "placeholder", "dtype": "i4", "shape": [3]})

    empty = {"kind": "placeholder", "dtype": "opaque", "shape": [4], "block": ["q", 4, 0]}
    yield beside("placeholder-block-of-0-bytes", empty)

    yield beside("node-array", [])
    yield beside("kind-unknown", {"kind": "module"})
    yield beside("kind-missing", {"value": 1})
    yield beside("kind-number", {"kind": 1})
    yield beside("null-with-value", {"kind": "null", "value": None})
    yield beside("bool-number", {"kind": "bool", "value": 1})
    yield beside("bool-without-value", {"kind": "bool"})
    yield beside("int64-over", {"kind": "int64", "value": 2**63})
    yield beside("integer-over", 2**63)
    yield beside("string-number", {"kind": "string", "value": 1})
    yield beside("label-number", {"kind": "null", "label": 1})
    yield beside("scalar-with-items", {"kind": "int64", "value": 1, "items": []})
    for name, value in (("empty", ""), ("letters", "12a"), ("sign-alone", "-"), ("plus", "+" + "9" * 20),
                        ("spaces", " " + "9" * 20), ("that-fits-int64", "7")):  # fmt: skip
        yield beside(f"bigint-{name}", {"kind": "bigint", "value": value})
    yield beside("bigint-over-limit", {"kind": "bigint", "value": "9" * 40}, code="limit_exceeded",
                 limits={"bigint_bytes": 16})  # fmt: skip
    yield beside("float64-short", {"kind": "float64", "value": "00"})
    yield beside("float64-upper-case", {"kind": "float64", "value": "3FF8000000000000"})
    yield beside("float64-number", {"kind": "float64", "value": 1.5})
    yield beside("complex128-of-float64", {"kind": "complex128", "value": "3ff8000000000000"})
    yield beside("bytes-odd", {"kind": "bytes", "value": "abc"})
    yield beside("bytes-no-hex", {"kind": "bytes", "value": "zz"})
    yield beside("list-without-items", {"kind": "list"})
    yield beside("list-items-object", {"kind": "list", "items": {}})
    yield beside("dict-item-no-pair", {"kind": "dict", "items": [1]})
    yield beside("dict-item-of-three", {"kind": "dict", "items": [["a", 1, 2]]})
    yield beside("dict-key-null", {"kind": "dict", "items": [[None, 1]]})
    yield beside("record-key-int", {"kind": "record", "items": [[1, 1]]})
    yield beside("dict-key-twice", {"kind": "dict", "items": [["a", 1], ["b", 2], ["a", 3]]})
    yield beside("dict-int-key-twice", {"kind": "dict", "items": [[1, 1], ["1", 2], [1, 3]]})
    yield beside("record-key-twice", {"kind": "record", "items": [["a", 1], ["a", 1]]})
    twice = {"kind": "dict", "items": [["a", None], ["a", None]]}
    yield tree("metadata-key-twice", tensor, metadata=twice)
    yield text("key-twice-by-escape", '{"version":1,"state":{"kind":"dict","items":'
               '[["t",{"kind":"tensor","name":"t"}],["a",1],["\\u0061",2]]}}')  # fmt: skip
