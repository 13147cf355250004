"""Hostile checkpoints whose files name others: msgpack files with arrays beside them, and sharded weights of Keras
(docs/formats.md). Each is a folder."""

import json

import hdf5_cases as hdf5
from corpus_case import Case
from msgpack_cases import mapping, text

CHECKPOINT = "checkpoint"
WEIGHTS = "x.weights.json"


def cases():
    for group in (names, arrays, groups, group_names):
        yield from group()


# --- msgpack files -----------------------------------------------------------------------------------


def zarr(**changes):
    metadata = {"chunks": [2], "compressor": None, "dtype": "|u1", "fill_value": None, "filters": None, "order": "C",
                "shape": [2], "zarr_format": 2}  # fmt: skip
    return json.dumps(metadata | changes, separators=(",", ":")).encode()


GOOD = {"w/.zarray": zarr(), "w/0": b"ab"}


def beside(name, says, data, files=GOOD, code="foreign_invalid", path="w", found_by="verify", **more):
    return Case(f"beside-{name}", code, data, None, path, found_by, says=says, opens=CHECKPOINT, beside=files, **more)


def names():
    outside = "is no path below the checkpoint's folder, so it was not saved there; nothing is read from elsewhere"
    for name, array in (
        ("above", "../w"),
        ("absolute", "/w"),
        ("into-and-above", "w/../../w"),
        ("dot", "./w"),
        ("two-slashes", "w//w"),
        ("backslash", "..\\w"),
        ("drive", "C:w"),
        ("dots", ".."),
        ("control-character", "w\n"),
        ("nul", "w\0"),
        ("deep", "w/" * 16 + "w"),
    ):
        yield beside(f"name-{name}", outside, mapping(w=text("PLACEHOLDER://" + array)))
    yield beside("flax-name-above", outside, mapping(w=text("//GDAPlaceholder:../w")))


def arrays():
    good = mapping(w=text("PLACEHOLDER://w"))
    lost = "this array cannot be read: its file w/.zarray is missing"
    yield beside("missing", lost, good, {}, "-", found_by="opens")
    yield beside("no-json", "this array cannot be read", good, GOOD | {"w/.zarray": b"{"})
    yield beside("manifest-damaged", "this is no manifest of OCDBT; copy or download the checkpoint again", good,
                 GOOD | {"manifest.ocdbt": b"\x0c\xdb\x3a\x2a"}, path=None)  # fmt: skip
    tie = "an earlier value of the file stands for the same array, so both are one (a tie)"
    yield beside("twice", tie, mapping(v=text("PLACEHOLDER://w"), w=text("PLACEHOLDER://w")), code="-", found_by="opens")
    yield beside("limit-files", "further files and Limits::files allows 6", good, code="limit_exceeded", path=None,
                 found_by="open", limits={"files": 6})  # fmt: skip


# --- Sharded weights of Keras --------------------------------------------------------------------------


def shard(*variables, name=None):
    """A file of Keras with the variables of the group /layers/dense/vars."""
    def array(number):
        return lambda places: hdf5.header(hdf5.message(3, hdf5.F32), hdf5.space(1), hdf5.compact(bytes([number] * 4)))

    def group(places):
        links = [hdf5.link(each, places.get(f"v{each}", 0)) for each in variables]
        kind = bytes([0x13, 0, 0, 0]) + len(name or "").to_bytes(4, "little")
        return hdf5.header(*([hdf5.attribute("name", kind, (), name.encode())] if name else []), *links)

    def one(key, child):
        return lambda places: hdf5.header(hdf5.link(key, places.get(child, 0)))

    return hdf5.File(root=one("layers", "layers"), layers=one("dense", "dense"), dense=one("vars", "group"), group=group,
                     **{f"v{each}": array(int(each)) for each in variables}).bytes()  # fmt: skip


GROUP = "/layers/dense/vars"
MAP = {GROUP: ["one", "two"]}
SHARDS = {"one": shard("0", name="head"), "two": shard("1")}


def sharded(name, says, weight_map=MAP, files=SHARDS, code="foreign_invalid", path=None, **more):
    text = weight_map if isinstance(weight_map, bytes) else json.dumps({"weight_map": weight_map}, separators=(",", ":")).encode()
    return Case(f"keras-{name}", code, text, None, path, says=says, opens=WEIGHTS, beside=files, **more)


def groups():
    lost = dict(found_by="verify")
    yield sharded("group-elsewhere", "the index says that this group is in two, which does not have it",
                  {GROUP: ["one", "two"], "/layers/other/vars": "two"}, path="layers/other/vars", **lost)  # fmt: skip
    yield sharded("group-is-array", "the index says that this group is in one, which does not have it",
                  {**MAP, GROUP + "/0/vars": "one"}, path="layers/dense/vars/0/vars", **lost)  # fmt: skip
    yield sharded("variable-twice", "two has another value here, which is left out", MAP,
                  SHARDS | {"two": shard("0", "1")}, path="layers/head/vars/0", **lost)  # fmt: skip
    yield sharded("file-unnamed-group", "the index does not say that two has this", {GROUP: "one", "/layers": "two"},
                  code="-", path="layers/head/vars/1", found_by="opens")  # fmt: skip
    yield sharded("file-missing", None, MAP, {"one": SHARDS["one"]}, "file_missing", **lost)
    yield sharded("limit-files", "the checkpoint has bytes in 2 further files and Limits::files allows 1", code="limit_exceeded",
                  limits={"files": 1})  # fmt: skip
    yield sharded("limit-depth", "a group of the index lies in more others than Limits::depth allows", code="limit_exceeded",
                  limits={"depth": 3}, path="~1layers~1dense~1vars")  # fmt: skip


def group_names():
    no_path = "the index has groups, and one is no path such as /layers/dense/vars"
    for name, key in (("empty-key", "/layers//vars"), ("root", "/"), ("ends-with-slash", "/layers/"), ("relative", "layers")):
        yield sharded(f"path-{name}", no_path, {**MAP, key: "one"})
    yield sharded("path-twice", "the index has the same name twice", b'{"weight_map":{"/a":"one","/a":"two"}}', path="~1a")
    for name, file in (("above", "../one"), ("absolute", "/one"), ("folder", "a/one"), ("empty", ""), ("index", "index")):
        yield sharded(f"file-{name}", f"the index names the file '{file}'", {GROUP: ["one", file]})
    no_text = "weight_map does not name the file of a tensor with a text"
    for name, value in (("number", 1), ("empty-list", []), ("list-of-lists", [["one"]]), ("object", {})):
        yield sharded(f"file-{name}", no_text, {GROUP: value})
    yield sharded("list-for-tensor", no_text, {"w": ["one"]}, path="w")
