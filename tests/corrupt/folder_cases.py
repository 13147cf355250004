"""Hostile checkpoints in several files (docs/formats.md): sharded models, distributed checkpoints of PyTorch, and GGUF
models in several files. Each case is a folder, and names the file in it that is opened."""

import json
import struct
import zlib

import dcp_files
import gguf_cases as gguf
from corpus_case import Case, build, from_tree
from dcp_files import (
    FILE, METADATA, VALUE, box, call, fields, group, info, instance, integer, listed, mapped, named, parameter, pickled, place, saved, saved_value, size, tensor, text, zipped,
)  # fmt: skip


def cases():
    for group in (
        indexes,
        index_names,
        parts,
        disagreements,
        index_limits,
        splits,
        items,
        boxes,
        metadata,
        metadata_names,
        paths,
        metadata_limits,
    ):
        yield from group()


# --- Sharded models -------------------------------------------------------------------------------

INDEX = "model.safetensors.index.json"


def safetensors(*names, data=b"data"):
    entry = lambda i: {"dtype": "U8", "shape": [len(data)], "data_offsets": [i * len(data), (i + 1) * len(data)]}
    header = json.dumps({name: entry(i) for i, name in enumerate(names)}, separators=(",", ":")).encode()
    return struct.pack("<Q", len(header)) + header + data * len(names)


def index(weight_map, **more):
    return json.dumps({**more, "weight_map": weight_map}, separators=(",", ":")).encode()


MAP = {"x": "one", "y": "two"}
SHARDS = {"one": safetensors("x"), "two": safetensors("y")}


def model(name, says, text, shards=SHARDS, code="foreign_invalid", at=None, path=None, **more):
    text = text.encode() if isinstance(text, str) else text
    return Case(f"shards-{name}", code, text, at, path, says=says, opens=INDEX, beside=shards, **more)


def indexes():
    damaged = "the index is damaged: it is not JSON; download it again"
    good = index(MAP).decode()
    broken = {
        "cut": good[:-1],
        "cut-in-name": good[:20],
        "two-objects": good + "{}",
        "trailing-comma": good[:-1] + ",}",
        "single-quotes": good[:-1] + ",'a':1}",
        "comment": "{/* */" + good[1:],
        "nan": good[:-1] + ',"a":NaN}',
        "hexadecimal": good[:-1] + ',"a":0x1}',
        "leading-zero": good[:-1] + ',"a":01}',
        "key-number": good[:-1] + ",1:1}",
        "half-character": good[:-1] + ',"a":"\\ud800"}',
        "control-character": good.replace("two", "t\no"),
        "unknown-escape": good.replace("two", "\\x"),
    }
    for name, text in broken.items():
        yield model(name, damaged, text)
    no_text = "weight_map does not name the file of a tensor with a text"
    yield model("file-no-utf-8", no_text, good.encode().replace(b"two", b"\xff"), path="y")
    yield model("file-half-character", no_text, good.replace("two", "\\udc00"), path="y")
    yield model("no-utf-8-in-metadata", "a string is not UTF-8", good[:-1].encode() + b',"a":"\xc0\xaf"}')
    one = "the index does not have one weight_map that says which file has which tensor"
    for name, text in (
        ("map-inside", {"a": {"weight_map": {}}}),
        ("map-list", {"weight_map": ["one"]}),
        ("map-null", {"weight_map": None}),
        ("map-text", {"weight_map": "one"}),
        ("map-number", {"weight_map": 1}),
        ("map-as-text", {"a": "weight_map", "b": {"weight_map": MAP}}),
    ):
        yield model(name, one, json.dumps(text))
    yield model("map-twice", one, good[:-1] + "," + good[1:])
    yield model("map-twice-by-escape", one, good[:-1] + "," + good[1:].replace("_", "\\u005f"))
    for name, value in (("number", 1), ("null", None), ("true", True), ("list", ["two"]), ("object", {})):
        yield model(f"file-{name}", no_text, index({"x": "one", "y": value}), path="y")
    twice = "the index has the same name twice"
    yield model("tensor-twice", twice, good.replace('"y"', '"x"'), path="x")
    yield model("tensor-twice-by-escape", twice, good.replace('"y"', '"\\u0078"'), path="x")
    yield model("tensor-twice-apart", twice, good[:-2] + ',"x":"two"}}', path="x")
    yield model("metadata-twice", twice, good[:-1] + ',"a":1,"a":2}', path="(metadata)/index/a")
    yield model("metadata-twice-inside", twice, good[:-1] + ',"a":{"b":1,"b":1}}', path="(metadata)/index/a/b")


def index_names():
    """Names that lead elsewhere must not be opened: ONNX had CVE-2022-25882, CVE-2024-27318, CVE-2025-51480."""
    outside = "the index names the file '{}'; files of a model must have plain names, in the folder of the index".format
    names = {
        "parent": "../one",
        "absolute": "/etc/passwd",
        "parent-of-folder": "a/../one",
        "folder": "a/one",
        "here": "./one",
        "parent-alone": "..",
        "here-alone": ".",
        "none": "",
        "slash": "/",
        "backslash": "..\\one",
        "backslash-inside": "a\\b",
        "drive": "C:one",
        "drive-and-path": "C:\\one",
        "stream": "one:x",
        "share": "\\\\host\\one",
        "url": "https://host/one",
        "home": "~/one",
        "metadata": "index",
    }
    for name, file in names.items():
        yield model(f"names-{name}", outside(file), index({"x": "one", "y": file}), path="y")
    for name, file in (
        ("nul", "two\0"),
        ("nul-inside", "two\0.safetensors"),
        ("newline", "a\nb"),
        ("escape", "\x1b[2J"),
        ("delete", "a\x7f"),
    ):
        yield model(f"names-{name}", "files of a model must have plain names", index({"x": "one", "y": file}), path="y")
    yield model(
        "names-parent-by-escape", outside("../one"), '{"weight_map":{"x":"\\u002e\\u002e\\u002fone"}}', path="x"
    )
    yield model("names-parent-first", outside("../one"), index({"x": "../one", "y": "../one"}), path="x")


def parts():
    """A file that is lost is a note, and its tensors are placeholders; all else can be read."""

    def lost(name, code, file, says=None, **more):
        shards = {"one": SHARDS["one"]} | ({} if file is None else {"two": file})
        return model(f"part-{name}", says, index(MAP), shards, code, found_by="verify", **more)

    good = SHARDS["two"]
    yield lost("missing", "file_missing", None)
    for name, file in (
        ("percent", "%2e%2e%2fone"),
        ("question", "two?"),
        ("hash", "#two"),
        ("dots", "..."),
        ("space", " "),
    ):
        yield model(
            f"part-missing-{name}", None, index({"x": "one", "y": file}), code="file_missing", found_by="verify"
        )
    yield lost("empty", "truncated", b"", "the file is empty; nothing was ever written to it")
    yield lost(
        "cut",
        "truncated",
        good[:-1],
        "the file ends 1 byte before the end of the tensor; copy or download it again",
        path="y",
    )
    yield lost("cut-in-header", "safetensors_invalid", good[:30])
    yield lost("with-more", "trailing_bytes", good + b"x", "the file goes on for 1 byte after its last tensor")
    yield lost("of-nothing", "not_a_checkpoint", b"hello, world, this is no file of tensors at all")
    further = "the file names further files; a part of a sharded model must not"
    yield lost("index", "foreign_invalid", index({"y": "three"}), further)
    yield model("part-itself", further, index({"x": "one", "y": INDEX}), code="foreign_invalid", found_by="verify")
    yield lost(
        "index-of-nothing",
        "foreign_invalid",
        index({}),
        "a file of format sharded cannot be a part of a sharded model; open it by itself",
    )
    yield lost("int-keys", "foreign_invalid", b"\x82\xa1y\xc0\x01\xc0", "the file is not a dict whose keys are names")
    yield lost("gguf-cut", "truncated", gguf.file([], [gguf.W], 16)[:-1], "the file ends before the end of the tensor")
    own = build(from_tree({"y": None}))
    alone = "a file of format espalier cannot be a part of a sharded model; open it by itself"
    yield lost("espalier", "foreign_invalid", own, alone)
    yield lost("name-twice", "foreign_invalid", b"\x82\xa1y\xc0\xa1y\xc0", "a map has the same key twice")


def disagreements():
    def lost(name, says, text, shards, path):
        return model(name, says, text, shards, "foreign_invalid", path=path, found_by="verify")

    yield lost(
        "tensor-elsewhere",
        "the index says that this tensor is in one, which does not have it",
        index({"x": "one", "y": "one"}),
        {"one": safetensors("x")},
        "y",
    )
    yield lost(
        "tensor-in-two-files",
        "two has another tensor of this name, which is left out because the index does not name it",
        index(MAP),
        SHARDS | {"two": safetensors("y", "x")},
        "x",
    )
    yield model(
        "tensor-unnamed",
        "the index does not name this tensor, which is in two",
        index(MAP),
        SHARDS | {"two": safetensors("y", "z")},
        "-",
        path="z",
        found_by="opens",
    )


def more_files(wanted, allowed):
    return f"the checkpoint has bytes in {wanted} further files and Limits::files allows {allowed}"


def index_limits():
    """With one more of each, all of these are good: so they are the files of the others, unbroken."""
    limited = dict(code="limit_exceeded")
    good = index(MAP, metadata={"total_size": 8, "list": [None, True, 0.5, "text", 2**64 - 1, -1]})
    yield model(
        "limit-index",
        f"the index has {len(good)} bytes and Limits::foreign_header_bytes allows {len(good) - 1}",
        good,
        limits={"foreign_header_bytes": len(good) - 1},
        at=0,
        **limited,
    )
    yield model("limit-files", more_files(2, 1), index(MAP), limits={"files": 1}, **limited)
    wide = {"one": safetensors("x", "long-name-of-a-tensor-that-stands-in-no-index"), "two": SHARDS["two"]}
    header = len(wide["one"]) - 16
    yield model(
        "limit-header-of-part",
        f"the header has {header} bytes and Limits::foreign_header_bytes allows {header - 1}",
        index(MAP),
        wide,
        limits={"foreign_header_bytes": header - 1},
        **limited,
    )
    yield model(
        "limit-depth",
        "the tree is deeper than the 5 levels that readers accept (Limits::depth)",
        index(MAP, a=[[[[1]]]]),
        limits={"depth": 5},
        **limited,
    )
    yield model(
        "limit-nodes",
        "the tree has more nodes than the 3 that readers accept (Limits::nodes)",
        index(MAP),
        limits={"nodes": 3},
        **limited,
    )
    yield model(
        "limit-nodes-of-index",
        "the tree has more nodes than the 8 that readers accept (Limits::nodes)",
        index(MAP, a=[1, 2, 3]),
        limits={"nodes": 8},
        **limited,
    )
    yield model(
        "limit-chunks",
        "the file has more chunks than fit in Limits::index_bytes",
        index(MAP),
        limits={"index_bytes": 63},
        **limited,
    )
    yield model(
        "limit-path",
        "a name is longer than the 3 bytes that Limits::path_bytes allows",
        index({"long": "one"}),
        {"one": safetensors("long")},
        limits={"path_bytes": 3},
        **limited,
    )
    yield model(
        "limit-bigint",
        "an integer takes more than the 8 bytes that readers accept (Limits::bigint_bytes)",
        good,
        limits={"bigint_bytes": 8},
        **limited,
    )
    yield model("deep", "the JSON text is nested too deeply", index({})[:-1] + b',"a":' + b"[" * 2000, {}, **limited)
    yield model(
        "deep-objects", "the JSON text is nested too deeply", index({})[:-1] + b',"a":' + b'{"":' * 500, {}, **limited
    )


# --- GGUF in several files ------------------------------------------------------------------------


def split(number, count, name, *more):
    u16 = lambda key, value: gguf.pair(key, "u16", struct.pack("<H", value))
    return gguf.file([u16("split.no", number), u16("split.count", count), *more], [gguf.tensor(name, (4,))], 16)


def splits():
    first, second = "m-00001-of-00002.gguf", "m-00002-of-00002.gguf"
    good = split(0, 2, "a")

    def gguf_set(name, says, other, code="foreign_invalid", opens=first, data=good, **more):
        return Case(
            f"gguf-set-{name}",
            code,
            data,
            says=says,
            opens=opens,
            beside={} if other is None else {second: other},
            **more,
        )

    # 118 bytes that ask for 65,534 files.
    yield gguf_set(
        "of-65535",
        more_files(65534, 1024),
        None,
        "limit_exceeded",
        opens="m-00001-of-65535.gguf",
        data=split(0, 65535, "a"),
    )
    third = {second.replace("of-00002", "of-00003"): split(1, 3, "b"), "m-00003-of-00003.gguf": split(2, 3, "c")}
    yield Case(
        "gguf-set-limit-files",
        "limit_exceeded",
        split(0, 3, "a"),
        says=more_files(2, 1),
        opens="m-00001-of-00003.gguf",
        beside=third,
        limits={"files": 1},
    )
    lost = dict(found_by="verify")
    another = "it does not say that it is file 2 of 2"
    yield gguf_set("missing", None, None, "file_missing", **lost)
    yield gguf_set(
        "cut", "the file ends before the end of the tensor", split(1, 2, "b")[:-1], "truncated", path="b", **lost
    )
    yield gguf_set("cut-in-header", "the header goes on", split(1, 2, "b")[:60], "truncated", **lost)
    yield gguf_set("empty", "the header goes on for 8 bytes here and the file has only 0", b"", "truncated", **lost)
    yield gguf_set("no-gguf", "the file is not a GGUF file", b"hello, world", **lost)
    yield gguf_set("first-again", another, good, **lost)
    yield gguf_set("third", another, split(2, 2, "b"), **lost)
    yield gguf_set("of-three", another, split(1, 3, "b"), **lost)
    yield gguf_set("not-split", another, gguf.file([], [gguf.W], 16), **lost)
    yield gguf_set("name-twice", "two tensors have the same name", split(1, 2, "a"), path="a")
    yield gguf_set(
        "key-twice",
        "two key-value pairs have the same key",
        split(1, 2, "b", gguf.KEY, gguf.KEY),
        path=f"(metadata)/{second}/k",
    )
    key = gguf.pair(second, "u8", b"\1")
    yield gguf_set(
        "key-as-file",
        "two key-value pairs have the same key",
        split(1, 2, "b", gguf.KEY),
        path=f"(metadata)/{second}",
        data=split(0, 2, "a", key),
    )
    yield gguf_set(
        "later-alone",
        "this is file 2 of the 2 of a model; open the first for the tensors of all",
        None,
        "-",
        opens=second,
        data=split(1, 2, "b"),
        found_by="opens",
    )
    for name, file in (("no-number", "m.gguf"), ("other-count", "m-00001-of-00003.gguf"), ("other-number", second)):
        yield gguf_set(
            f"named-with-{name}",
            "and the others cannot be found: its name does not end with -00001-of-00002.gguf",
            None,
            "-",
            opens=file,
            found_by="opens",
        )
    yield gguf_set(
        "limit-header-of-second",
        "that Limits::gguf_header_bytes allows",
        split(1, 2, "b", gguf.KEY),
        "limit_exceeded",
        limits={"gguf_header_bytes": 104 + len(gguf.KEY) - 1},
        **lost,
    )


# --- Distributed checkpoints of PyTorch -----------------------------------------------------------

class Folder(dcp_files.Folder):
    """With the case that it is."""

    def case(self, name, says, code="foreign_invalid", data=None, **more):
        # The rest opens with a note, and verifying finds this.
        if more.get("found_by") == "opens" and says and any(each in says for each in CONTRADICTIONS):
            code, more["found_by"] = "foreign_invalid", "verify"
        if data is None:
            data = pickled(self.state, self.storage, self.paths, **self.more)
        return Case(
            f"dcp-{name}",
            code,
            data,
            more.pop("at", None),
            more.pop("path", None),
            says=says,
            opens=".metadata",
            beside=self.files,
            **more,
        )


# What .metadata and the files cannot both be right about.
CONTRADICTIONS = (
    "another dtype or shape than .metadata says",
    "two parts of it overlap",
    "its parts do not make all of it",
    "reaches beyond its shape",
    "nothing was saved of it",
    "no item in the files belongs to",
)


def quarters():
    """With a tensor of 4 x 4 that was cut along both axes."""
    return Folder().cut(
        "w",
        (4, 4),
        ((0, 0), (2, 2), b"abef"),
        ((0, 2), (2, 2), b"cdgh"),
        ((2, 0), (2, 2), b"ijmn"),
        ((2, 2), (2, 2), b"klop"),
    )


def items():
    """Items that are not what .metadata says: torch itself believes it."""

    def one(
        name,
        says,
        data,
        *,
        dtype="uint8",
        shift=0,
        longer=0,
        found_by="verify",
        code="foreign_invalid",
        file=FILE,
        path=None,
        **more,
    ):
        folder = Folder()
        at, length, file = folder.item(data, file)
        folder.state.append((text("w"), tensor((4,), box((0,), (4,)), dtype=dtype)))
        folder.storage.append((place("w", (0,)), info(at + shift, length + longer, file, **more)))
        return folder.case(f"item-{name}", says, "-" if found_by == "opens" else code, found_by=found_by, path=path)

    good = saved((4,), b"abcd")
    whole = len(good)
    beyond = f"an item is lost: it lies beyond the end of {FILE}, which has {whole} bytes; copy or download that again"
    yield one("past-end", beyond, good, shift=1)
    yield one("longer", beyond, good, longer=1)
    yield one("far", beyond, good, shift=2**63 - 1 - whole)
    yield one("largest", beyond, good, longer=2**63 - 1 - whole)
    yield one("largest-and-far", beyond, good, shift=2**63 - 1, longer=2**63 - 1 - whole)
    yield one("short", "an item is lost: ", good, longer=-1, code="truncated")
    yield one("of-no-bytes", "an item is lost: ", good, longer=-whole, code="truncated")
    yield one("begins-inside", "an item is lost: ", good, shift=4, longer=-4, code="foreign_invalid")
    yield one("no-archive", "an item is lost: ", b"x" * 2000, code="truncated")
    yield one("no-pickle", "an item is lost: it is a zip archive without a data.pkl", zipped({"a": b"b"}))
    yield one("storage-short", "an item is lost: ", saved((4,), b"abc"), code="foreign_invalid")
    yield one(
        "crc-wrong",
        "the bytes do not match the CRC-32 that the file has for them; copy or download the file again",
        good.replace(b"abcd", b"abce"),
        code="chunk_corrupt",
    )
    said = "this tensor cannot be read: "
    opens = dict(found_by="opens", path="w")
    differs = said + "an item of it has another dtype or shape than .metadata says"
    yield one("other-shape", differs, saved((2, 2), b"abcd"), **opens)
    yield one("fewer-elements", differs, saved((3,), b"abc"), **opens)
    yield one("more-elements", differs, saved((5,), b"abcde"), **opens)
    yield one("other-dtype", differs, saved((4,), b"abcd", storage="CharStorage"), **opens)
    yield one("wider-dtype", differs, saved((4,), b"abcdefgh", storage="ShortStorage", width=2), **opens)
    yield one("of-unknown-dtype", said + "its dtype is unknown", good, dtype="uint7", **opens)
    extension = (
        said
        + "it was written with the extension '{}', which is not supported; save the checkpoint without extensions "
        "where it was made"
    )
    yield one(
        "compressed",
        extension.format("stream.zstd/1"),
        good,
        transform_descriptors=listed(text("stream.zstd/1")),
        **opens,
    )
    yield one(
        "of-nameless-extension",
        said + "it was written with the extension 'an unknown extension'",
        good,
        transform_descriptors=integer(1),
        **opens,
    )
    yield one(
        "of-safetensors",
        said + "it lies in a.safetensors, which is a file of safetensors; open that",
        good,
        file="a.safetensors",
        **opens,
    )

    names = lambda count: listed(*[text("x")] * count)
    for form, value, shown in (
        ("tuple", group(text("x")), "x"),
        ("64", names(64), "x"),
        ("65", names(65), "an unknown extension"),
    ):
        said_so = extension.format(shown)
        yield one(f"of-extensions-{form}", said_so, good, transform_descriptors=value, **opens)
    # Taken for a plain tensor, the bytes would be those of something else.
    other = "the item of this tensor holds something else"
    yield one("deflated", other, saved((4,), b"abcd", deflated=("a/data/0",)), **opens)
    yield one("parameter", other, saved((4,), b"abcd", around=parameter), **opens)
    meta = lambda made: call(
        "torch._utils",
        "_rebuild_meta_tensor_no_storage",
        named("torch", "uint8"),
        group(integer(4)),
        group(integer(1)),
        b"\x89",
    )
    yield one("of-meta", other, saved((4,), b"abcd", around=meta), **opens)

    missing = quarters()
    del missing.files[FILE]
    yield missing.case("file-missing", None, "file_missing", found_by="verify")
    overlaps = f"an item is lost: it overlaps another item in {FILE}"
    same = Folder()
    at, length, file = same.item(saved((2,), b"ab"))
    same.state.append((text("w"), tensor((4,), box((0,), (2,)), box((2,), (2,)))))
    same.storage += [(place("w", (0,)), info(at, length)), (place("w", (2,)), info(at, length))]
    yield same.case("items-at-one-place", overlaps, found_by="verify")
    inside = Folder()
    at, length, file = inside.item(good)
    for name, shift in (("v", 0), ("w", 1)):
        inside.state.append((text(name), tensor((4,), box((0,), (4,)))))
        inside.storage.append((place(name, (0,)), info(at, length - shift) if shift else info(at, length)))
    inside.storage[-1] = (place("w", (0,)), info(at + length - 22, 22))
    yield inside.case("item-inside-another", overlaps, found_by="verify")
    # Values that no item belongs to, and an item that belongs to no value.
    no_item = Folder()
    no_item.state.append((text("v"), VALUE))
    yield no_item.case(
        "value-without-item",
        "this value cannot be read: no item in the files belongs to it",
        "-",
        path="v",
        found_by="opens",
    )
    unused = Folder()
    unused.storage.append((place("v"), info(*unused.item(saved_value(b"N")))))
    yield unused.case("item-of-no-name", "1 item in the files belong to no name in .metadata", "-", found_by="opens")
    lost = Folder().value("v", b"N")
    lost.files[FILE] = b"x" * len(lost.files[FILE])
    yield lost.case(
        "value-damaged", "an item is lost: the zip archive has no end record", "truncated", found_by="verify"
    )


def boxes():
    """Parts that do not make the tensor: what a reader gives for them is made up, or of another tensor."""
    said = "this tensor cannot be read: "
    opens = dict(code="-", path="w", found_by="opens")

    def two(name, says, *parts, shape=(4, 4)):
        filled = [(offset, axes, b"x" * (axes[0] * axes[1])) for offset, axes in parts]
        return Folder().cut("w", shape, *filled).case(f"parts-{name}", said + says, **opens)

    unusual = said + "a part of it is stored in an unusual form"
    negated = mapped([(text("neg"), b"\x88")])
    overlap, hole, beyond = (
        "two parts of it overlap",
        "its parts do not make all of it",
        "a part of it reaches beyond its shape",
    )
    yield two("overlap", overlap, ((0, 0), (3, 4)), ((2, 0), (2, 4)))
    yield two("overlap-and-hole", overlap, ((0, 0), (2, 4)), ((1, 0), (2, 4)))
    yield two("overlap-in-a-corner", overlap, ((0, 0), (3, 3)), ((2, 2), (2, 2)), ((0, 3), (2, 1)), ((3, 0), (1, 2)))
    yield two("hole", hole, ((0, 0), (1, 4)), ((2, 0), (2, 4)))
    yield two("hole-at-end", hole, ((0, 0), (2, 4)), ((2, 0), (1, 4)))
    yield two("hole-in-the-middle", hole, ((0, 0), (4, 1)), ((0, 1), (2, 3)), ((2, 2), (2, 2)))
    yield two("corner-alone", hole, ((0, 0), (2, 2)))
    yield two("beyond", beyond, ((0, 0), (2, 4)), ((2, 1), (2, 4)))
    yield two("beyond-by-one", beyond, ((0, 0), (2, 4)), ((3, 0), (2, 4)))
    yield two("far", beyond, ((0, 0), (2, 4)), ((2**63 - 1, 0), (2, 4)))
    yield two("beyond-without-elements", beyond, ((0, 0), (1, 1)), shape=(0, 4))
    bare = lambda name, says, *chunks, shape=(4,): bare_of(name, says, tensor(shape, *chunks))

    def bare_of(name, says, made):
        folder = Folder()
        folder.state.append((text("w"), made))
        return folder.case(name, said + says, **opens)

    yield bare("parts-none", "nothing was saved of it")
    yield bare("parts-without-item", "no item in the files belongs to a part of it", box((0,), (4,)))
    yield bare_of("parts-none-of-unknown-dtype", "its dtype is unknown", tensor((0,), dtype="uint7"))
    twice = Folder()
    part = (place("w", (0,)), info(*twice.item(saved((2,), b"ab"))))
    twice.storage.append(part)
    twice.state.append((text("w"), tensor((2,), box((0,), (2,)), box((0,), (2,)))))
    yield twice.case("parts-twice", said + overlap, **opens)
    differs = said + "an item of it has another dtype or shape than .metadata says"
    for name, says, dtype, made in (
        ("of-parameters", said + "a part of it is a tensor of a special class, or no tensor", "uint8", saved((1,), b"a", around=parameter)),
        ("negated", unusual, "float32", saved((1,), bytes(4), storage="FloatStorage", width=4, more=negated)),
    ):
        folder = Folder()
        folder.storage += [(place("w", (at,)), info(*folder.item(made))) for at in (0, 1)]
        folder.state.append((text("w"), tensor((2,), box((0,), (1,)), box((1,), (1,)), dtype=dtype)))
        yield folder.case(f"parts-{name}", says, **opens)
    texts = instance(
        "TensorStorageMetadata",
        fields(properties=instance("TensorProperties", group(text("uint8"))), size=size(()), chunks=listed()),
    )
    folder = Folder()
    folder.state.append((text("w"), texts))
    yield folder.case("parts-none-of-dtype-as-text", said + "nothing was saved of it", **opens)
    # The item of another part, and that of another name, would fit.
    elsewhere = Folder()
    elsewhere.storage += [(place("w", (at,)), info(*elsewhere.item(saved((2,), b"ab")))) for at in (0, 3)]
    elsewhere.state.append((text("w"), tensor((4,), box((0,), (2,)), box((2,), (2,)))))
    yield elsewhere.case("parts-with-item-elsewhere", said + "no item in the files belongs to a part of it", **opens)
    named_first = Folder()
    named_first.state, named_first.storage = [], []
    named_first.value("v", b"N").state.append((text("planner_data"), VALUE))
    yield named_first.case(
        "value-with-item-of-another",
        "this value cannot be read: no item in the files belongs to it",
        "-",
        path="planner_data",
        found_by="opens",
    )
    huge = Folder().cut("w", (2**30, 2**20), ((0, 0), (1, 1), b"x"), ((1, 0), (1, 1), b"x"))
    yield huge.case("parts-of-huge", said + hole, **opens)
    strided = Folder()
    for row in (0, 1):
        strided.storage.append((place("w", (row, 0)), info(*strided.item(saved((1, 2), b"a-b", strides=(3, 2))))))
    strided.state.append((text("w"), tensor((2, 2), box((0, 0), (1, 2)), box((1, 0), (1, 2)))))
    yield strided.case("parts-with-gaps", unusual, **opens)


def metadata():
    """What torch does not write."""

    def changed(name, says, change, **more):
        folder = quarters()
        change(folder)
        return folder.case(name, says, **more)

    def stored(index, where):
        return lambda folder: folder.storage.append((index, where))

    good = info(0, 1)
    index_bad = "an index in the storage data of .metadata is malformed"
    for name, value in (
        ("text", text("w")),
        ("tuple", group(text("w"))),
        ("without-name", instance("MetadataIndex", fields(index=b"N"))),
        ("of-other-class", instance("Index", fields(fqn=text("v")))),
        ("of-other-module", instance("MetadataIndex", fields(fqn=text("v")), "builtins")),
        ("name-number", instance("MetadataIndex", fields(fqn=integer(1)))),
        ("name-no-utf-8", instance("MetadataIndex", fields(fqn=text(b"\xff")))),
        ("list", instance("MetadataIndex", listed(text("fqn"), text("v")))),
        ("call", call(METADATA, "MetadataIndex", text("v"))),
    ):
        yield changed(f"index-{name}", index_bad, stored(value, good))
    offset = "the offset of a part of a tensor is malformed"
    for name, value in (
        ("negative", size((-1,))),
        ("text", text("0")),
        ("of-texts", group(text("0"))),
        ("of-floats", group(b"G" + bytes(8))),
        ("of-call-of-call", call("a", "b") + group(group(integer(0))) + b"R"),
        ("of-other-call", call("torch", "size", group(integer(0)))),
        ("of-two", call("torch", "Size", group(), group())),
        ("of-size-of-size-of-size", call("torch", "Size", call("torch", "Size", size((0,))))),
    ):
        state = fields(fqn=text("v"), offset=value)
        yield changed(f"offset-{name}", offset, stored(instance("MetadataIndex", state), good), path="v")
    bad = "the storage data of .metadata are malformed"
    storage_info = lambda **values: instance(
        "_StorageInfo", fields(**values), "torch.distributed.checkpoint.filesystem"
    )
    one = dict(relative_path=text(FILE), offset=integer(0), length=integer(1))
    for name, value in (
        ("no-instance", text(FILE)),
        ("of-65-fields", storage_info(**one, **{f"f{number}": b"N" for number in range(62)})),
        ("dict", fields(**one)),
        ("offset-negative", storage_info(**one | {"offset": integer(-1)})),
        ("length-negative", storage_info(**one | {"length": integer(-1)})),
        ("offset-2-63", storage_info(**one | {"offset": b"\x8a\x09" + bytes(7) + b"\x80\0"})),
        ("length-text", storage_info(**one | {"length": text("1")})),
        ("file-number", storage_info(**one | {"relative_path": integer(1)})),
        ("file-no-utf-8", storage_info(**one | {"relative_path": text(b"\xff")})),
        *(
            (f"without-{missing}", storage_info(**{key: value for key, value in one.items() if key != missing}))
            for missing in one
        ),
    ):
        yield changed(f"info-{name}", bad, stored(place("v"), value), path="v")

    added = lambda value, key=text("v"): lambda folder: folder.state.append((key, value))
    yield changed("name-number", "a name in .metadata is not a text", added(VALUE, integer(1)))
    yield changed("name-no-utf-8", "a name in .metadata is not a text", added(VALUE, text(b"\xff")))
    yield changed("name-escaped", "a name in .metadata is not a text", added(VALUE, b"V\\u0076\n"))
    yield changed("name-twice", "a name is in .metadata twice", added(VALUE, text("w")), path="w")
    bad = "the metadata of a tensor are malformed"
    tensor_of = lambda **values: instance("TensorStorageMetadata", fields(**values))
    for name, value in (
        ("none", b"N"),
        ("text", text("w")),
        ("call", call(METADATA, "BytesStorageMetadata")),
        ("of-other-class", instance("Tensor", fields(size=size(()), chunks=listed()))),
        ("without-size", tensor_of(chunks=listed())),
        ("without-chunks", tensor_of(size=size(()))),
        ("chunks-tuple", tensor_of(size=size(()), chunks=group())),
        ("size-negative", tensor_of(size=size((-1,)), chunks=listed())),
        ("size-of-texts", tensor_of(size=group(text("1")), chunks=listed())),
        ("size-number", tensor_of(size=integer(1), chunks=listed())),
        ("size-over-int64", tensor_of(size=group(b"\x8a\x09" + bytes(7) + b"\x80\0"), chunks=listed())),
    ):
        yield changed(f"tensor-{name}", bad, added(value), path="v")
    yield changed("tensor-too-large", "the shape has 2^64 elements or more", added(tensor((2**62, 1024))), path="v")
    part_bad = "a part of a tensor is malformed, or has other axes than the tensor"
    chunk = lambda **values: instance("ChunkStorageMetadata", fields(**values))
    for name, value in (
        ("none", b"N"),
        ("more-axes", box((0, 0), (4, 1))),
        ("no-axes", box((), ())),
        ("offset-more-axes", box((0, 0), (4,))),
        ("size-more-axes", box((0,), (4, 1))),
        ("without-sizes", chunk(offsets=size((0,)))),
        ("without-offsets", chunk(sizes=size((4,)))),
        ("negative-size", box((0,), (-4,))),
        ("negative-offset", box((-4,), (4,))),
    ):
        yield changed(f"part-{name}", part_bad, added(tensor((4,), value)), path="v")

    folder = quarters()
    whole = lambda **values: b"\x80\x02" + instance("Metadata", fields(**values)) + b"."
    state, storage = mapped(folder.state), mapped(folder.storage)
    foreign = "the pickle is not the metadata of a distributed checkpoint"
    yield folder.case("without-storage", foreign, data=whole(state_dict_metadata=state))
    yield folder.case("without-state", foreign, data=whole(x=text("state_dict_metadata"), storage_data=storage))
    no_dict = "the storage data of .metadata are not a dict"
    yield folder.case(
        "storage-instance", no_dict, data=whole(state_dict_metadata=state, storage_data=instance("Storage", storage))
    )
    yield folder.case(
        "dict",
        "this pickle holds no tensors, and loading it with pickle would call torch.distributed.",
        data=b"\x80\x02"
        + mapped([(text("Metadata"), b"N"), (text("state_dict_metadata"), state), (text("storage_data"), storage)])
        + b".",
    )
    yield folder.case(
        "state-list",
        "the state_dict_metadata of .metadata are not a dict",
        data=whole(state_dict_metadata=listed(), storage_data=storage),
    )
    yield folder.case(
        "storage-list",
        "the storage data of .metadata are not a dict; another writer than torch's made this checkpoint",
        data=whole(state_dict_metadata=state, storage_data=listed()),
    )
    good = pickled(folder.state, folder.storage)
    yield folder.case(
        "trailing-byte", "the file goes on for 1 byte after its pickle", "trailing_bytes", good + b"x", at=len(good)
    )
    yield folder.case(
        "with-a-pickle-behind",
        "the file goes on for 4 bytes after its pickle",
        "trailing_bytes",
        good + b"\x80\2N.",
        at=len(good),
    )
    yield folder.case("cut", "the pickle ends in the middle; copy or download the file again", "truncated", good[:-1])
    yield folder.case(
        "cut-in-half", "the pickle is damaged: it ends in the name of a class", "truncated", good[: len(good) // 2]
    )
    calls = (
        "this checkpoint holds no tensors, and loading it with torch would call posix.system; nothing was run; ask its "
        "author for a safetensors or .espalier file"
    )
    bomb = call("posix", "system", text("true"))
    bare = Folder()
    bare.state, bare.storage, bare.files = [], [], {}
    yield bare.value("v", bomb).case("call-in-value", calls)
    bare = Folder()
    bare.state, bare.storage, bare.files, bare.more = [], [], {}, {"version": bomb}
    yield bare.case("call-in-metadata", calls)
    yield from storage_metas()
    noted = quarters()
    noted.more = {"version": bomb}
    yield noted.case(
        "call-beside-tensors",
        "Loading this with pickle would call posix.system; nothing was run.",
        "-",
        found_by="opens",
    )


def storage_metas():
    """What .metadata says of the checkpoint as a whole."""

    def noted(name, says, **more):
        folder = quarters()
        folder.more = more
        return folder.case(name, says, "-", found_by="opens")

    def id_of(*parts):
        return instance("StorageMeta", fields(checkpoint_id=call("pathlib", "PosixPath", *parts)))

    lost = "the field 'checkpoint_id' of storage_meta in .metadata is not shown"
    yield noted("storage-meta-number", "the field 'storage_meta' of .metadata is not shown", storage_meta=integer(1))
    yield noted("id-of-nothing", lost, storage_meta=id_of())
    yield noted("id-of-number", lost, storage_meta=id_of(integer(1)))
    yield noted("id-of-65-parts", lost, storage_meta=id_of(*[text("a")] * 65))
    # No note: nothing is lost.
    yield noted("id-of-64-parts", None, storage_meta=id_of(*[text("a")] * 64))
    yield noted("field-of-none", None, unknown=b"N")
    yield noted("field-unknown", "the field 'unknown' of .metadata is not shown", unknown=integer(1))
    folder = Folder()
    yield folder.case("without-paths", None, "-", data=pickled(folder.state, folder.storage), found_by="opens")


def metadata_names():
    outside = "the checkpoint names the file '{}'; its files must have plain names, in the folder of .metadata".format
    names = {
        "parent": "../../etc/passwd",
        "absolute": "/etc/passwd",
        "folder": "a/__0_0.distcp",
        "here": "./__0_0.distcp",
        "parent-alone": "..",
        "here-alone": ".",
        "none": "",
        "backslash": "..\\x",
        "drive": "C:x",
        "stream": "x:y",
        "share": "\\\\host\\x",
    }
    for name, file in names.items():
        yield named_file(name, outside(file), file)
    for name, file in (("nul", "__0_0.distcp\0"), ("newline", "a\nb"), ("escape", "\x1b[2J"), ("delete", "\x7f")):
        yield named_file(name, "its files must have plain names, in the folder of .metadata", file)
    yield named_file("long-parent", f"names the file '../{'x' * 97}...'", "../" + "x" * 300)


def named_file(name, says, file):
    folder = quarters()
    folder.storage.append((place("v"), info(0, 10, file)))
    return folder.case(f"names-{name}", says, path="v")


def paths():
    malformed = "the path of a name in .metadata is malformed"
    path = lambda name, says, *parts, **more: quarters().path("w", *parts).case(f"path-{name}", says, **more)
    yield path("empty", malformed, path="w")
    yield path("of-lists", malformed, listed(), path="w")
    yield path("of-floats", malformed, b"G" + bytes(8), path="w")
    yield path("over-int64", malformed, b"\x8a\x09" + bytes(7) + b"\x80\0", path="w")
    yield path("no-utf-8", malformed, text(b"\xff"), path="w")
    text_path = quarters()
    text_path.paths.append((text("w"), text("w")))
    yield text_path.case("path-text", malformed, path="w")
    no_name = quarters()
    no_name.paths.append((integer(1), group(text("w"))))
    yield no_name.case("path-of-number", "a name in the planner data of .metadata is not a text")
    yield (
        quarters()
        .path("w", text("a"))
        .path("w", text("b"))
        .case("path-twice", "a name has two paths in .metadata", path="w")
    )
    index_twice = quarters()
    index_twice.storage.append((place("w", (0, 0)), info(0, 1)))
    yield index_twice.case("index-twice", "the storage data of .metadata have the same index twice")
    value_twice = Folder().value("v", b"N")
    value_twice.storage.append((place("v"), info(0, 1)))
    yield value_twice.case("index-of-value-twice", "the storage data of .metadata have the same index twice")
    same = "two values of the checkpoint are at the same path"
    yield quarters().path("w", text("other")).case("path-of-another", same, path="other")
    inside = quarters().path("other", text("m"), text("x")).path("w", text("m"))
    yield inside.case("path-of-a-dict", same, path="m")
    noted = dict(code="-", found_by="opens")
    folder = quarters()
    yield folder.case(
        "path-of-unknown-planner",
        "the planner data of .metadata are those of an unknown planner, so names are not nested",
        data=b"\x80\2"
        + instance(
            "Metadata",
            fields(
                state_dict_metadata=mapped(folder.state), planner_data=integer(1), storage_data=mapped(folder.storage)
            ),
        )
        + b".",
        **noted,
    )
    through = "the path of this name leads to another value or through one, so it stands under the name itself"
    yield quarters().path("w", text("other"), text("x")).case("path-through-a-tensor", through, path="w", **noted)
    no_name = ".metadata has a path for this name, and nothing is saved under it"
    yield quarters().path("nothing", text("a")).case("path-of-no-name", no_name, path="nothing", **noted)
    deep = "the tree is deeper than the 256 levels that readers accept (Limits::depth)"
    yield path("deep", deep, text("l"), *([b"K\0"] * 256), path="w", code="limit_exceeded")
    holes = "the lists in .metadata lack more elements than the file has bytes"
    length = len(quarters().path("w", text("l"), integer(0)).case("", "").data)
    many = f"{length} elements of lists are null because nothing was saved for them, as for empty dicts"
    yield path("list-with-as-many-holes-as-bytes", many, text("l"), integer(length), code="-", found_by="opens")
    yield path("list-with-one-hole-more", holes, text("l"), integer(length + 1), code="limit_exceeded")
    for number in (2**20, 2**40, 2**63 - 1):
        yield path(f"list-of-{number}", holes, text("l"), integer(number), code="limit_exceeded")


def metadata_limits():
    """With one more of each, all of these are good: so they are the files of the others, unbroken."""
    limited = dict(code="limit_exceeded")

    # As many fields as an instance may have.
    def wide():
        folder = quarters()
        fields_more = {f"f{number}": b"N" for number in range(61)}
        where = instance("MetadataIndex", fields(fqn=text("other"), offset=listed(integer(0)), index=b"N"))
        folder.storage[0] = (where, info(0, len(folder.files["__1_0.distcp"]), "__1_0.distcp", **fields_more))
        return folder

    good = lambda: (
        wide()
        .value("v", listed(b"N", integer(7)))
        .path("w", text("model"), text("w"))
        .path("v", text("list"), integer(0))
        .path("other", text("list"), integer(1))
    )
    length = len(good().case("", "").data)
    yield good().case(
        "limit-pickle",
        f"the pickle has {length} bytes and Limits::pickle_bytes allows {length - 1}",
        limits={"pickle_bytes": length - 1},
        **limited,
    )
    deep = quarters().path("w", *([text("a")] * 4))
    yield deep.case(
        "limit-depth",
        "the tree is deeper than the 3 levels that readers accept (Limits::depth)",
        path="w",
        limits={"depth": 3},
        **limited,
    )
    yield good().case(
        "limit-rank", "a tensor has 2 axes and readers accept 1 (Limits::rank)", limits={"rank": 1}, **limited
    )
    both = quarters()
    assert len(both.files) == 2
    yield both.case("limit-files", more_files(2, 1), limits={"files": 1}, **limited)
    many = Folder()
    many.state.append((text("w"), tensor((1,) * 65)))
    yield many.case("rank-65", "a tensor has 65 axes and readers accept 64 (Limits::rank)", **limited)
    yield good().case(
        "limit-nodes",
        "the tree has more nodes than the 8 that readers accept (Limits::nodes)",
        limits={"nodes": 8},
        **limited,
    )
    yield good().case(
        "limit-path",
        "a key path is longer than the 5 bytes that Limits::path_bytes allows",
        limits={"path_bytes": 5},
        **limited,
    )
    # One tensor of 100 parts, in 40 places: more parts than the file has bytes.
    shared = Folder()
    chunks = b"](" + box((0,), (1,)) + b"q\1" + b"h\1" * 99 + b"e"
    made = instance("TensorStorageMetadata", fields(size=size((1,)), chunks=chunks)) + b"q\2"
    shared.state += [(text(str(number)), b"h\2" if number else made) for number in range(40)]
    # As many parts as bytes are allowed.
    shared.more = {"version": text("")}
    free = 100 * 40 + 1 - len(pickled(shared.state, shared.storage, shared.paths, **shared.more))
    shared.more = {"version": text("x" * free)}
    no_item = "this tensor cannot be read: no item in the files belongs to a part of it"
    yield shared.case("parts-shared-once-less", no_item, "-", path="0", found_by="opens")
    shared.more = {"version": text("x" * (free - 1))}
    yield shared.case(
        "parts-shared",
        "objects in .metadata are shared so often that there would be more parts of tensors than bytes",
        **limited,
    )
    # One part of 64 axes, 600 times.
    numbers = Folder()
    axes = lambda number: call("torch", "Size", group(*[b"K" + bytes([number])] * 64))
    part = instance("ChunkStorageMetadata", fields(offsets=axes(0), sizes=axes(1)))
    chunks = b"](" + part + b"q\1" + b"h\1" * 599 + b"e"
    numbers.state.append((text("w"), instance("TensorStorageMetadata", fields(size=axes(1), chunks=chunks))))
    yield numbers.case(
        "numbers-shared",
        "objects in .metadata are shared so often that there would be more numbers and keys than bytes",
        **limited,
    )
