"""The hostile checkpoints of Orbax (docs/formats.md). Each is a folder: a database of OCDBT, or plain files, and JSON."""

import gzip
import json
import struct

from corpus_case import Case
from espalier_codecs import LARGEST_BLOCK, block, frame, skippable
from tensorflow_cases import crc32c, varint

MANIFEST = "manifest.ocdbt"
TREE = "_METADATA"
CHECKPOINT = "_CHECKPOINT_METADATA"
OF_MANIFEST, OF_NODE = bytes.fromhex("0cdb3a2a"), bytes.fromhex("0cdb20de")
AGAIN = "; copy or download the checkpoint again"
DATA = struct.pack("<2i", 7, 8)
NONE = 2**64 - 1


def u64(number):
    return struct.pack("<Q", number & NONE)


def crc_of(data):
    return struct.pack("<I", crc32c(data))


def varints(*numbers):
    return b"".join(map(varint, numbers))


# --- OCDBT ----------------------------------------------------------------------------------------


def envelope(magic, body, *, version=0, method=0, longer=0, crc=0, head=None, behind=b""):
    """`longer` and `crc` make the length and the checksum wrong."""
    inner = (varints(version, method) if head is None else head) + body
    made = magic + u64(len(inner) + 16 + longer) + inner
    return made + struct.pack("<I", crc32c(made) ^ crc) + behind


def packed(body, **more):
    return dict(body=frame(body, **more), method=1)


def files(*paths, count=None, prefix=None, suffix=None, base=None):
    """A list of files, whose paths begin with nothing of the one before."""
    number = len(paths)
    joined = [folder + name for folder, name in paths]
    return b"".join((
        varint(number if count is None else count),
        varints(*([0] * (number - 1) if prefix is None else prefix)),
        varints(*(map(len, joined) if suffix is None else suffix)),
        varints(*(len(folder) for folder, _ in paths) if base is None else base),
        *joined,
    ))  # fmt: skip


D0 = (b"", b"d/0")
D1 = (b"", b"d/1")


def keys(entries, count=None, prefix=None, suffix=None):
    return b"".join((
        varint(len(entries) if count is None else count),
        varints(*([0] * (len(entries) - 1) if prefix is None else prefix)),
        varints(*(len(key) for key, *_ in entries) if suffix is None else suffix),
    ))  # fmt: skip


def leaf(entries, listed=(), *, height=0, table=None, lengths=None, kinds=None, behind=b"", **columns):
    """Values are bytes in the node, or (file, offset, length)."""
    beside = [value for _, value in entries if isinstance(value, tuple)]
    inline = [value for _, value in entries if isinstance(value, bytes)]
    if lengths is None:
        lengths = [value[2] if isinstance(value, tuple) else len(value) for _, value in entries]
    if kinds is None:
        kinds = [isinstance(value, tuple) for _, value in entries]
    return b"".join((
        bytes([height]), files(*listed) if table is None else table, keys(entries, **columns),
        *(key for key, _ in entries), varints(*lengths), bytes(kinds),
        varints(*(value[0] for value in beside)), varints(*(value[1] for value in beside)), *inline, behind,
    ))  # fmt: skip


def branch(height, entries, listed=(D0,), *, common=None, **columns):
    """Entries are a key, and the (file, offset, length) of a node."""
    places = [place for _, place in entries]
    return b"".join((
        bytes([height]), files(*listed), keys(entries, **columns), varints(*(common or [0] * len(entries))),
        *(key for key, _ in entries), *(varints(*(place[i] for place in places)) for i in range(3)), bytes(3 * len(entries)),
    ))  # fmt: skip


def configuration(kind=0, arity=4, inline=1024, method=b"\0"):
    return b"u" * 16 + bytes([kind]) + varints(inline, 10**8) + bytes([arity]) + method


def manifest(length, offset=0, *, height=0, listed=(D0,), table=None, file=0, versions=1, behind=b"\0", **more):
    table = files(*listed) if table is None else table
    one = [[1], [height], [file], [offset], [length], [1], [1], [0]]
    made = varint(versions) + b"".join(
        bytes(column * versions) if i == 1 else varints(*column * versions) for i, column in enumerate(one)
    )
    return configuration(**more) + table + made + bytes(8 * versions) + behind


# --- zarr and the tree ----------------------------------------------------------------------------


def text(value):
    return json.dumps(value, separators=(",", ":")).encode()


def without(value, drop):
    return text({key: each for key, each in value.items() if key not in drop})


def zarr2(drop=(), **more):
    return without(
        {"chunks": [2], "compressor": None, "dtype": "<i4", "fill_value": None, "filters": None, "order": "C", "shape": [2],
         "zarr_format": 2} | more, drop)  # fmt: skip


def named(name, **configuration):
    return {"name": name, "configuration": configuration}


BYTES = named("bytes", endian="little")
ZSTD = named("zstd", level=3, checksum=False)
CRC = {"name": "crc32c"}


def zarr3(drop=(), chunk=(2,), codecs=(BYTES,), **more):
    return without(
        {"zarr_format": 3, "node_type": "array", "shape": [2], "data_type": "int32",
         "chunk_grid": named("regular", chunk_shape=list(chunk)), "chunk_key_encoding": named("default", separator="/"),
         "fill_value": 0, "codecs": list(codecs)} | more, drop)  # fmt: skip


def shard(*chunk, codecs=(BYTES,), index=(BYTES, CRC), **more):
    return named("sharding_indexed", chunk_shape=list(chunk), codecs=list(codecs), index_codecs=list(index), **more)


def entry(*path, type="np.ndarray", key_type=2, **more):
    """A value of the tree, by its keys or what stands in place of one."""
    of = [key if isinstance(key, dict) else {"key": key, "key_type": key_type} for key in path]
    return {"key_metadata": of, "value_metadata": {"value_type": type, "skip_deserialize": False} | more}


def tree(*entries, **more):
    return text({"tree_metadata": {str(i): each for i, each in enumerate(entries)}} | more)


W = tree(entry("w"))
GOOD = [(b"w/.zarray", zarr2()), (b"w/0", DATA)]


# --- Cases ----------------------------------------------------------------------------------------


def case(name, says, data, code="foreign_invalid", opens=MANIFEST, **more):
    files_beside = {path: each for path, each in more.pop("beside", {}).items() if each is not None}
    return Case(f"orbax-{name}", code, data, says=says, opens=opens, beside=files_beside, **more)


def folder(name, says, node=None, *, root=None, metadata=W, values=None, beside=(), code="foreign_invalid", **more):
    """A database with one node: what lies in d/0."""
    node = envelope(OF_NODE, leaf(GOOD)) if node is None else node
    root = envelope(OF_MANIFEST, manifest(len(node))) if root is None else root
    everything = {TREE: metadata, "d/0": node, "d/1": values} | dict(beside)
    return case(name, says, root, code, beside=everything, **more)


def opened(name, says=None, *arguments, **more):
    return folder(name, says, *arguments, code="-", found_by="opens", **more)


def array(name, says, entries, code="foreign_invalid", listed=(D1,), **more):
    return folder(name, says, envelope(OF_NODE, leaf(entries, listed)), code=code, **more)


def lost(name, says, entries, **more):
    """An array that becomes a placeholder, with a note."""
    return array(name, says, entries, code="-", found_by="opens", path="w", **more)


def damaged(name, says, entries, found_by="verify", **more):
    """An array that contradicts itself."""
    return array(name, says, entries, found_by=found_by, **more)


def v2(*chunks, **more):
    return [(b"w/.zarray", zarr2(**more)), *((b"w/%d" % i, chunk) for i, chunk in enumerate(chunks) if chunk is not None)]


def v3(*chunks, **more):
    made = [(b"w/c/%d" % i, chunk) for i, chunk in enumerate(chunks) if chunk is not None]
    return [*made, (b"w/zarr.json", zarr3(**more))]


def cases():
    for group in (envelopes, manifests, tables, nodes, branches, trees, beside, checkpoints, second, third, shards, plain, limits):
        yield from group()


def envelopes():
    node, root = leaf(GOOD), lambda length: manifest(length)
    good = envelope(OF_NODE, node)
    yield opened("good")
    small = envelope(OF_NODE, **packed(node))
    yield opened("good-packed", None, small, root=envelope(OF_MANIFEST, **packed(root(len(small)))))
    for name, change, says in (
        ("length-more", dict(longer=1), "it says that it has"),
        ("length-less", dict(longer=-1), "it says that it has"),
        ("length-wraps", dict(longer=-(2**63)), "it says that it has"),
        ("behind", dict(behind=b"\0"), "it says that it has"),
        ("crc", dict(crc=1), "it does not match its CRC-32C"),
        ("method", dict(method=2), "its compression is unknown"),
        ("method-cut", dict(head=b"\0"), None),
        ("varint-long", dict(head=b"\x80" * 10 + b"\0"), "its compression is unknown"),
    ):
        for kind, magic, body in (("node", OF_NODE, node), ("manifest", OF_MANIFEST, None)):
            if name == "method-cut":
                # The method is the first byte of the body.
                body, says = b"", "its compression is unknown"
            made = envelope(magic, root(len(good)) if body is None else body, **change)
            yield folder(f"{kind}-{name}", says, **({"node": made} if kind == "node" else {"root": made}))
    yield folder("node-version", "it is of version 1 of OCDBT, and 0 is known", envelope(OF_NODE, node, version=1),
                 code="unsupported_version")  # fmt: skip
    yield folder("manifest-version", "it is of version 4294967296 of OCDBT", root=envelope(OF_MANIFEST, root(len(good)), version=2**32),
                 code="unsupported_version")  # fmt: skip
    yield folder("node-magic", "a node of the database is none", envelope(OF_MANIFEST, node))
    yield folder("node-version-tree", "a node of the database is none", envelope(bytes.fromhex("0cdb1234"), node))
    yield folder("node-of-15-bytes", "a node of the database is none", OF_NODE + bytes(11))
    yield folder("node-cut", "beyond the end of the file", good[:-1], root=envelope(OF_MANIFEST, root(len(good))), code="truncated")
    yield folder("manifest-cut", "it says that it has", root=envelope(OF_MANIFEST, root(len(good)))[:-1])
    yield folder("node-empty", "a node of the database is none", b"")
    no_frame = "is not one frame of zstd"
    for name, body in (
        ("no-frame", b"w" * 40),
        ("frame-cut", frame(node)[:-1]),
        ("two-frames", frame(node[:9]) + frame(node[9:])),
        ("frame-and-more", frame(node) + b"\0"),
        ("frame-to-skip", skippable(b"x") + frame(node)),
    ):
        yield folder(f"node-{name}", no_frame, envelope(OF_NODE, body, method=1))
    yield folder("node-bomb", "decompresses to more than the 134217728 bytes that are allowed",
                 envelope(OF_NODE, frame(node, 2**27 + 1), method=1), code="limit_exceeded")  # fmt: skip
    yield folder("node-bomb-beyond", "decompresses to more than", envelope(OF_NODE, frame(node, 2**64 - 3), method=1),
                 code="limit_exceeded")  # fmt: skip
    yield folder("manifest-bomb", "the body of the manifest decompresses to more than",
                 root=envelope(OF_MANIFEST, frame(root(len(good)), 2**40), method=1), code="limit_exceeded")  # fmt: skip
    yield folder("node-frame-claims-much", "claims more bytes than it can hold", envelope(OF_NODE, frame(node, 2**26), method=1))
    yield folder("node-frame-claims-more", "does not decompress", envelope(OF_NODE, frame(node, len(node) + 1), method=1))
    yield folder("node-frame-claims-less", "does not decompress", envelope(OF_NODE, frame(node, len(node) - 1), method=1))


def manifests():
    length = len(envelope(OF_NODE, leaf(GOOD)))
    of = lambda name, says, *arguments, **more: folder(f"root-{name}", says, root=envelope(OF_MANIFEST, manifest(*arguments, **more)))
    unknown = "its configuration is unknown"
    yield of("kind", unknown, length, kind=2)
    yield of("arity-0", unknown, length, arity=0)
    yield of("arity-17", unknown, length, arity=17)
    yield of("packing", unknown, length, method=b"\2")
    yield of("inline-bytes", unknown, length, inline=2**32)
    yield folder("manifest-config-cut", unknown, root=envelope(OF_MANIFEST, b"u" * 16))
    yield folder("manifest-numbered", "its manifests are numbered", root=envelope(OF_MANIFEST, configuration(kind=1)),
                 code="unsupported_feature")  # fmt: skip
    versions = "its versions are damaged"
    yield of("no-version", versions, length, versions=0)
    yield of("17-versions", versions, length, versions=17)
    yield of("version-nodes-64", versions, length, behind=varint(64) + bytes(14 * 64))
    yield of("version-nodes-cut", versions, length, behind=varint(1) + bytes(13))
    yield of("behind", versions, length, behind=b"\0\0")
    yield of("version-cut", versions, length, behind=b"")
    yield opened("manifest-version-nodes", None, root=envelope(OF_MANIFEST, manifest(length, behind=varint(1) + bytes(14))))
    yield opened("manifest-17-versions-of-32", None, root=envelope(OF_MANIFEST, manifest(length, versions=17, arity=5)))
    none = "the checkpoint has no array of its name, 'w'"
    yield folder("manifest-empty", none, root=envelope(OF_MANIFEST, manifest(NONE, NONE, listed=((b"", b""),))), found_by="verify", path="w")
    yield folder("manifest-half-empty", "beyond the end of the file", root=envelope(OF_MANIFEST, manifest(length, NONE)), code="truncated")
    beyond = dict(code="truncated")
    for name, offset in (("offset", 1), ("offset-wraps", 2**64 - 8)):
        yield folder(f"manifest-{name}", "beyond the end of the file", root=envelope(OF_MANIFEST, manifest(length, offset)), **beyond)
    for name, claimed in (("length-0", 0), ("length-16", 16)):
        yield folder(f"manifest-{name}", "it says that" if claimed else "a node of the database is none",
                     root=envelope(OF_MANIFEST, manifest(claimed)))  # fmt: skip
    for name, claimed in (("2-27", 2**27 + 1), ("2-63", 2**63), ("wraps", NONE)):
        yield folder(f"root-length-{name}", "a node of the OCDBT database has", root=envelope(OF_MANIFEST, manifest(claimed)),
                     code="limit_exceeded")  # fmt: skip
    yield of("height", "another height", length, height=1)
    yield of("height-255", "another height", length, height=255)
    yield of("file", "a file that is not listed", length, file=1)
    yield of("file-wraps", "a file that is not listed", length, file=NONE)
    yield folder("manifest-node-missing", "a node of the OCDBT database lies in it", beside={"d/0": None}, code="file_missing")


def tables():
    node = envelope(OF_NODE, leaf(GOOD))
    of = lambda name, says, code="foreign_invalid", **more: folder(
        f"paths-{name}", says, root=envelope(OF_MANIFEST, manifest(len(node), **more)), code=code)  # fmt: skip
    path = "a path is damaged"
    yield of("none", "a file that is not listed", listed=())
    yield of("count-2-40", None, table=varint(2**40) + bytes(40))
    yield of("count-wraps", None, table=varint(NONE) + bytes(40))
    yield of("prefix", path, table=files(D0, D1, prefix=[4]))
    yield of("base", path, table=files(D0, base=[4]))
    yield of("suffix", path, table=files(D0, suffix=[500]))
    yield of("suffix-2-16", path, table=files(D0, suffix=[65536]))
    outside = "which is no plain path below its folder; such files are never opened"
    for name, at in (
        ("root", (b"", b"/d/0")), ("up", (b"", b"../d/0")), ("up-inside", (b"", b"d/../../d/0")), ("base-up", (b"../", b"d/0")),
        ("base-root", (b"/", b"d/0")), ("dot", (b"", b"./d/0")), ("empty-part", (b"", b"d//0")), ("empty", (b"", b"")),
        ("slash-last", (b"", b"d/")), ("backslash", (b"", b"d\\0")), ("drive", (b"", b"C:d/0")), ("nul", (b"", b"d/0\0")),
        ("space", (b"", b"d/0 ")), ("no-ascii", (b"", "d/ö".encode())), ("17-parts", (b"", b"d/" * 16 + b"0")), ("newline", (b"", b"d\n0")),
        ("percent", (b"", b"%2e%2e/d/0")), ("url", (b"", b"file:///d/0")),
    ):  # fmt: skip
        yield of(name, outside, listed=(at,))
        yield array(f"value-path-{name}", outside, [GOOD[0], (b"w/0", (0, 0, 8))], listed=(at,), values=DATA)
    # A node behind a base path names files behind it.
    low = envelope(OF_NODE, leaf(GOOD))
    high = lambda name: envelope(OF_NODE, branch(1, [(b"w/.zarray", (0, 0, len(low)))], ((b"", name),)))
    root = lambda node: envelope(OF_MANIFEST, manifest(len(node), height=1, listed=((b"ocdbt.process_0/", b"d/h"),)))
    yield opened("paths-transitive", None, beside={"d/0": None, "ocdbt.process_0/d/h": high(b"d/0"), "ocdbt.process_0/d/0": low},
                 root=root(high(b"d/0")))  # fmt: skip
    up = high(b"../d/0")
    yield folder("paths-transitive-up", outside, beside={"ocdbt.process_0/d/h": up}, root=root(up))


def nodes():
    of = lambda name, says, *arguments, **more: folder(f"leaf-{name}", says, envelope(OF_NODE, leaf(*arguments, **more)))
    columns = "its columns do not fill it"
    yield of("height", "another height", GOOD, height=1)
    yield of("none", "it has no entries", [], prefix=[])
    yield of("count-2-20", None, GOOD, count=2**20 + 1)
    yield of("count-2-32", None, GOOD, count=2**32)
    yield of("count-more", None, GOOD, count=3)
    yield of("behind", columns, GOOD, behind=b"\0")
    yield of("unsorted", "its keys are not in order", GOOD[::-1])
    yield of("twice", "its keys are not in order", [*GOOD, GOOD[1]])
    yield of("prefix", "a key repeats more than the one before has", [(b"a", b""), (b"b", b"")], prefix=[2])
    yield of("prefix-2-16", columns, GOOD, prefix=[65536])
    yield of("suffix", columns, GOOD, suffix=[9, 4000])
    yield of("suffix-2-16", columns, GOOD, suffix=[9, 65536])
    yield of("kind", "the kind of a value is unknown", GOOD, kinds=[0, 2])
    yield of("inline-large", "a value in it has more than 1 MiB", GOOD, lengths=[len(GOOD[0][1]), 2**20 + 1])
    yield of("inline-wraps", "a value in it has more than 1 MiB", GOOD, lengths=[len(GOOD[0][1]), NONE])
    yield of("inline-beyond", columns, GOOD, lengths=[len(GOOD[0][1]), 9])
    yield of("inline-less", columns, GOOD, lengths=[len(GOOD[0][1]), 7])
    yield of("value-file", "a value lies in a file that is not listed", [GOOD[0], (b"w/0", (1, 0, 8))], (D1,))
    yield of("value-no-file", "a value lies in a file that is not listed", [GOOD[0], (b"w/0", (0, 0, 8))])
    yield of("table", "a path is damaged", GOOD, table=files(D1, base=[4]))
    yield of("table-large", None, GOOD, table=varint(300) + bytes(300))
    beyond = "a chunk of it lies beyond the end of d/1, which has 8 bytes; copy or download that again"
    for name, place in (("beyond", (0, 1, 8)), ("wraps", (0, NONE, 8)), ("length-wraps", (0, 8, NONE)), ("2-63", (0, 2**63, 8))):
        yield damaged(f"value-{name}", beyond, [GOOD[0], (b"w/0", place)], values=DATA, path="w")
    yield array("value-missing", None, [GOOD[0], (b"w/0", (0, 0, 8))], "file_missing", found_by="verify")
    yield opened("value-beside", None, envelope(OF_NODE, leaf([GOOD[0], (b"w/0", (0, 0, 8))], (D1,))), values=DATA)
    for name, place in (("beyond", (0, 9, 8)), ("wraps", (0, 8, NONE)), ("large", (0, 0, 2**40))):
        yield damaged(f"json-{name}", "its metadata cannot be read from d/1", [(b"w/.zarray", place), GOOD[1]], values=DATA, path="w")
    yield damaged("json-empty", "they are not JSON", [(b"w/.zarray", (0, 0, 0)), GOOD[1]], values=DATA, path="w")
    yield damaged("json-missing", "its metadata cannot be read from d/1", [(b"w/.zarray", (0, 0, 8)), GOOD[1]], path="w")
    yield opened("json-beside", None, envelope(OF_NODE, leaf([(b"w/.zarray", (0, 0, len(zarr2()))), GOOD[1]], (D1,))), values=zarr2())
    yield array("key-not-text", "UTF-8", [(b"\xff/.zarray", zarr2()), (b"\xff/0", DATA)], metadata=None)
    yield opened("key-of-no-name", "the array 'x' is in the database, and _METADATA does not name it", envelope(OF_NODE, leaf([*GOOD, (b"x/.zarray", zarr2())])))


def branches():
    low = envelope(OF_NODE, leaf(GOOD))
    at = lambda offset=0, length=len(low), file=0: (file, offset, length)

    def of(name, says, entries, *, height=1, inside=low, code="foreign_invalid", listed=(D0,), **columns):
        node = envelope(OF_NODE, branch(height, entries, listed, **columns))
        more = dict(found_by="opens") if code == "-" else {}
        root = envelope(OF_MANIFEST, manifest(len(node), height=height, listed=((b"", b"d/h"),)))
        return folder(f"branch-{name}", says, inside, root=root, beside={"d/h": node}, code=code, **more)

    first = b"w/.zarray"
    yield of("good", None, [(first, at())], code="-")
    yield of("least", "its first key is less than its parent's", [(b"w/0", at())])
    yield of("none", "it has no entries", [], prefix=[])
    yield of("same-node", "two branches lead to the same node", [(first, at()), (b"x", at())])
    yield of("overlap", "two nodes overlap", [(first, at()), (b"x", at(1, len(low) - 1))])
    yield of("file", "a file that is not listed", [(first, at(file=1))])
    yield of("length", "it says that it has", [(first, at(length=len(low) - 1))])
    yield of("length-2-40", "a node of the OCDBT database has", [(first, at(length=2**40))], code="limit_exceeded")
    yield of("beyond", "beyond the end of the file", [(first, at(1))], code="truncated")
    yield of("beyond-wraps", "beyond the end of the file", [(first, at(NONE))], code="truncated")
    yield of("child-height", "another height", [(first, at())], height=2)
    yield of("common", "a branch has a longer prefix than its key", [(first, at())], common=[10])
    yield of("common-2-16", "its columns do not fill it", [(first, at())], common=[65536])
    bare = envelope(OF_NODE, leaf([(b".zarray", GOOD[0][1]), (b"0", DATA)]))
    yield of("common-used", None, [(first, at(length=len(bare)))], inside=bare, common=[2], code="-")
    yield of("unsorted", "its keys are not in order", [(b"x", at()), (first, at(len(low)))], inside=low + low)
    other = envelope(OF_NODE, leaf([(b"z", b"")]))
    yield of("children-cross", "its keys are not in order", [(b"w", at(length=len(other))), (b"w/.zarray", at(len(other)))],
             inside=other + low)  # fmt: skip
    itself = [(first, (0, 0, 0))]
    length = len(envelope(OF_NODE, branch(1, itself, ((b"", b"d/h"),))))
    yield of("loop", "two branches lead to the same node", [(first, (0, 0, length))], listed=((b"", b"d/h"),))
    yield of("child-missing", "a node of the OCDBT database lies in it", [(first, at())], listed=((b"", b"d/2"),), code="file_missing")
    yield of("child-outside", "which is no plain path below its folder", [(first, at())], listed=((b"", b"../d/0"),))


def trees():
    of = lambda name, says, metadata, code="foreign_invalid", **more: folder(f"tree-{name}", says, metadata=metadata, code=code, **more)
    no_object = "the file is not a JSON object, as Orbax writes it"
    yield of("no-json", no_object, W[:-1])
    yield of("list", no_object, b"[" + W + b"]")
    yield of("empty", no_object, b"")
    yield of("two-values", no_object, W + W)
    yield of("no-utf-8", "UTF-8", W.replace(b'"w"', b'"\xff"'))
    yield of("nested-201", no_object, W[:-1] + b',"x":' + b"[" * 200 + b"]" * 200 + b"}")
    tree_of = "_METADATA does not describe a tree as Orbax does: {}".format
    yield of("none", tree_of("it has no tree_metadata"), text({"use_zarr3": False}))
    yield of("of-a-list", tree_of("it has no tree_metadata"), text({"tree_metadata": []}))
    lacks = tree_of("an entry has no key_metadata or no value_metadata")
    yield of("entry-null", lacks, tree(None))
    yield of("entry-text", lacks, tree("w"))
    yield of("entry-no-keys", lacks, tree({"value_metadata": {}}))
    yield of("entry-keys-object", lacks, tree(entry("w") | {"key_metadata": {"key": "w", "key_type": 2}}))
    yield of("entry-no-value", lacks, tree({"key_metadata": [{"key": "w", "key_type": 2}]}))
    yield of("entry-value-list", lacks, tree(entry("w") | {"value_metadata": []}))
    key_type = tree_of("a key is of an unknown type")
    for name, key in (
        ("0", {"key": "w", "key_type": 0}), ("3", {"key": "w", "key_type": 3}), ("negative", {"key": "w", "key_type": -1}),
        ("text", {"key": "w", "key_type": "2"}), ("real", {"key": "w", "key_type": 2.5}), ("large", {"key": "w", "key_type": 2**64 + 2}),
        ("null", {"key": "w", "key_type": None}), ("none", {"key": "w"}), ("key-number", {"key": 1, "key_type": 1}),
        ("key-null", {"key": None, "key_type": 2}), ("no-key", {"key_type": 2}), ("key-list", {"key": ["w"], "key_type": 2}),
    ):  # fmt: skip
        yield of(f"key-type-{name}", key_type, tree(entry(key)))
    yield of("key-not-object", key_type, tree(entry("w") | {"key_metadata": ["w"]}))
    yield of("twice", tree_of("two values have the same keys"), tree(entry("w"), entry("w")))
    yield of("below-a-value", tree_of("a value has others below it"), tree(entry("w"), entry("w", "x")))
    yield of("above-a-value", tree_of("two values have the same keys"), tree(entry("w", "x"), entry("w")))
    yield of("root-beside", tree_of("an entry without keys is beside others"), tree(entry("w"), entry()))
    yield of("key-surrogate", no_object, tree(entry("w"), entry("\ud800", type="None")))
    noted = dict(code="-", found_by="opens")
    none = lambda *path, **more: entry(*path, type="None", **more)
    holes = "some elements of this sequence are not in the checkpoint"
    yield of("list-hole", holes, tree(entry("w"), none("l", {"key": "1", "key_type": 1})), path="l", **noted)
    for name, position in (("00", "00"), ("negative", "-1"), ("plus", "+0"), ("2-64", str(2**64)), ("word", "x"), ("empty", "")):
        yield of(f"list-position-{name}", holes, tree(entry("w"), none("l", {"key": position, "key_type": 1})), path="l", **noted)
    yield of("list-mixed", holes, tree(entry("w"), none("l", {"key": "0", "key_type": 1}), none("l", "1")), path="l", **noted)
    collide = tree(entry("w", "x"), entry("w.x"))
    yield array("tree-names-collide", "were saved under the same name, 'w.x'", [(b"w.x/.zarray", zarr2()), (b"w.x/0", DATA)],
                metadata=collide, path="w.x", **noted)  # fmt: skip
    yield of("type-unknown", "is one of a program's own handler, which is not known", tree(entry("w"), entry("o", type="my.Type")),
             path="o", **noted)  # fmt: skip
    yield of("type-none", "is one of a program's own handler", tree(entry("w"), entry("o") | {"value_metadata": {}}), path="o", **noted)
    yield of("missing-array", "the checkpoint has no array of its name, 'v'", tree(entry("w"), entry("v")), found_by="verify", path="v")
    yield opened("no-tree", "_METADATA is missing", metadata=None)
    rich = lambda value: dict(value_metadata_tree=value if isinstance(value, str) else json.dumps(value))
    pair = (entry("w"), none("v"))
    record = lambda *names, **more: {"category": "namedtuple", "module": "os", "clazz": "system",
                                     "entries": [{"key": name, "value": {}} for name in names]} | more  # fmt: skip
    for name, value in (
        ("no-json", "{"), ("number", "7"), ("deep", "[" * 300), ("other-children", record("w")), ("other-names", record("w", "x")),
        ("same-name-twice", record("w", "w")), ("entries-text", record() | {"entries": "wv"}), ("entries-numbers", record() | {"entries": [1, 2]}),
        ("list", [1, 2]), ("record", record("v", "w")),
    ):  # fmt: skip
        yield opened(f"rich-{name}", None, metadata=tree(*pair, **rich(value)))


def beside():
    """The other files of an item."""
    no_object = "the file is not a JSON object, as Orbax writes it"
    with_text = tree(entry("w"), entry("s", type="string"))
    noted = dict(code="-", found_by="opens", metadata=with_text, path="s")
    lacks = "_strings.json does not have this text"
    yield folder("strings-missing", lacks, **noted)
    yield folder("strings-without", lacks, beside={"_strings.json": b"{}"}, **noted)
    yield folder("strings-number", lacks, beside={"_strings.json": b'{"s":1}'}, **noted)
    yield folder("strings-no-json", no_object, beside={"_strings.json": b"{"}, metadata=with_text)
    yield folder("strings-surrogate", no_object, beside={"_strings.json": b'{"s":"\\ud800"}'}, metadata=with_text)
    metadatas = lambda value: {"array_metadatas/process_0": value}
    yield folder("random-keys-no-json", no_object, beside=metadatas(b"x"))
    for name, value in (("number", 1), ("numbers", [1, None, "w"]), ("nothing", [{}]), ("half", [{"array_metadata": {"ext_metadata": 1}}])):
        yield opened(f"random-keys-{name}", None, beside=metadatas(text({"array_metadatas": value})))
    of_key = {"array_metadata": {"param_name": "w", "ext_metadata": {"random_key_impl": "\ud800"}}}
    yield folder("random-keys-surrogate", no_object, beside=metadatas(text({"array_metadatas": [of_key]})))


def checkpoints():
    """_CHECKPOINT_METADATA, and items in folders of their own."""
    node = envelope(OF_NODE, leaf(GOOD))
    item = {"a/" + MANIFEST: envelope(OF_MANIFEST, manifest(len(node))), "a/d/0": node, "a/" + TREE: W}
    tree_of = "orbax.checkpoint.StandardCheckpointHandler"

    def of(name, says, handlers, code="-", files_of=item, data=None, **more):
        data = text({"item_handlers": handlers} | more.pop("more", {})) if data is None else data
        found = dict(found_by="opens") if code == "-" else {}
        return case(f"items-{name}", says, data, code, CHECKPOINT, beside=files_of, **found, **more)

    yield of("good", None, {"a": tree_of})
    no_object = "the file is not a JSON object"
    yield of("no-json", no_object, {}, "foreign_invalid", data=b'{"item_handlers": {"a"')
    for name, at in (("up", "../a"), ("dots", ".."), ("root", "/a"), ("below", "a/b"), ("backslash", "..\\a"), ("nul", "a\0")):
        yield of(f"path-{name}", "cannot be read: its name is none of a folder in the checkpoint's", {"a": tree_of, at: tree_of})
    yield of("handler-null", "which is not known; it is left out", {"a": tree_of, "b": None})
    yield of("handler-unknown", "was saved by my.Handler, which is not known; it is left out", {"a": tree_of, "b": "my.Handler"})
    yield of("missing", "neither this file nor manifest.ocdbt is there", {"a": tree_of, "b": tree_of}, "file_missing", found_by="verify")
    yield of("none", "the checkpoint has no item with arrays", {"b": "my.Handler"}, "foreign_invalid")
    yield of("twice", "has the same key twice", {}, "foreign_invalid",
             data=b'{"item_handlers":{"a":"' + tree_of.encode() + b'","a":"' + tree_of.encode() + b'"}}')  # fmt: skip
    json_item = {"a": tree_of, "m": "orbax.checkpoint.JsonCheckpointHandler"}
    yield of("json-no-json", "m/metadata is not a JSON object", json_item, files_of=item | {"m/metadata": b"{"})
    yield of("json-list", "m/metadata is not a JSON object", json_item, files_of=item | {"m/metadata": b"[1]"})
    yield of("json-twice", "has the same key twice", json_item, "foreign_invalid", files_of=item | {"m/metadata": b'{"x":1,"x":2}'})
    broken = item | {"b/" + TREE: b"dummy"}
    yield of("one-damaged", no_object, {"a": tree_of, "b": tree_of}, "foreign_invalid", files_of=broken, found_by="verify")
    # Saves that did not finish.
    processes = {path: data for path, data in item.items() if MANIFEST not in path} | {"a/ocdbt.process_0/" + MANIFEST: b"x"}
    yield of("not-joined", "the save did not finish: its processes wrote their arrays", {"a": tree_of}, "foreign_invalid", files_of=processes)
    times = lambda commit: dict(init_timestamp_nsecs=1778718343952436035, commit_timestamp_nsecs=commit)
    yield of("not-committed", "the save did not finish", {"a": tree_of}, "foreign_invalid", more=times(None))
    yield of("committed", None, {"a": tree_of}, more=times(1778718343952436036))
    yield of("committed-by-file", None, {"a": tree_of}, more=times(None), files_of=item | {"commit_success.txt": b"done"})
    yield case("manifest-missing", "the checkpoint has arrays in an OCDBT database, whose manifest is missing",
               tree(entry("w"), use_ocdbt=True), "file_missing", TREE)  # fmt: skip


def second():
    """Metadata and chunks of zarr 2."""
    invalid = "its metadata are not those of a zarr array: {}".format
    of = lambda name, says, **more: damaged(f"zarr2-{name}", says, v2(DATA, **more), path="w")
    yield of("format", invalid("zarr_format is not 2"), zarr_format=3)
    for key in ("shape", "chunks"):
        yield of(f"no-{key}", invalid("it has no shape, or no chunks"), drop=(key,))
    for name, shape in (("negative", [-2]), ("real", [2.5]), ("text", ["2"]), ("null", None), ("number", 2), ("2-64", [2**64])):
        yield of(f"shape-{name}", invalid("it has no shape, or no chunks"), shape=shape)
        yield of(f"chunks-{name}", invalid("it has no shape, or no chunks"), chunks=shape)
    yield of("axes", invalid("the chunks have other axes"), chunks=[2, 1])
    yield of("chunk-0", invalid("a chunk without elements"), chunks=[0])
    yield of("order", invalid("its order is neither C nor F"), order="K")
    yield of("separator", invalid("its dimension_separator is neither . nor /"), dimension_separator="-")
    yield damaged("zarr2-no-json", invalid("they are not JSON"), [(b"w/.zarray", zarr2()[:-1]), GOOD[1]], path="w")
    yield damaged("zarr2-list", invalid("they are no JSON object"), [(b"w/.zarray", b"[1]"), GOOD[1]], path="w")
    yield damaged("zarr2-nested", invalid("they are not JSON"), [(b"w/.zarray", b"[" * 65 + b"]" * 65), GOOD[1]], path="w")
    yield damaged("zarr-of-both-versions", "of zarr 2 and of zarr 3", [*GOOD, (b"w/zarr.json", zarr3())], path="w")
    for name, fill in (("text", "x"), ("real", 1.5), ("hex", "0xzz000000"), ("hex-short", "0x7f"), ("list", [1]), ("object", {}), ("bool", True)):
        yield of(f"fill-{name}", invalid(""), fill_value=fill)
    yield of("fill-complex", invalid(""), fill_value=[1], dtype="<c8", shape=[1], chunks=[1])
    unread = lambda name, says, **more: lost(f"zarr2-{name}", says, v2(DATA, **more))
    yield unread("dtype-3", "its elements are of the dtype '<f3', which is not read", dtype="<f3")
    yield unread("dtype-object", "which is not read", dtype="|O")
    yield unread("dtype-text", "which is not read", dtype="<U2")
    yield unread("dtype-void", "which is not read", dtype="|V4")
    yield unread("dtype-time", "which is not read", dtype="<M8[ns]")
    yield unread("dtype-wide", "which is not read", dtype="<f16")
    yield unread("dtype-2-64", "which is not read", dtype="<i" + str(2**64 + 4))
    yield unread("dtype-empty", "its elements have fields, which are not read", dtype="")
    yield unread("fields", "its elements have fields, which are not read", dtype=[["x", "<i4"]])
    yield unread("filters", "it is coded by 'filters', which is not read", filters=[{"id": "delta"}])
    yield unread("compressor", "it is coded by 'blosc', which is not read", compressor={"id": "blosc"})
    yield unread("compressor-none", "it is coded by '', which is not read", compressor={})
    yield unread("compressor-text", "it is coded by '', which is not read", compressor="zstd")
    large = "it or a chunk of it has more than 2^62 bytes"
    yield unread("shape-2-62", large, shape=[2**61], chunks=[1])
    yield unread("shape-wraps", large, shape=[2**32, 2**32, 2], chunks=[1, 1, 1])
    yield unread("shape-wraps-by-0", large, shape=[0, 2**40, 2**40], chunks=[1, 1, 1])
    yield unread("chunk-2-62", large, chunks=[2**62])
    yield unread("chunks-many", "it has more chunks than Limits::nodes allows", shape=[2**40], chunks=[1])
    yield unread("axes-65", "it has more axes than Limits::rank allows", shape=[1] * 65, chunks=[1] * 65)
    large = zarr2(shape=[3, 1], chunks=[1, 2**20], compressor={"id": "zstd"})
    yield damaged("chunks-in-one-place", "its chunks have too few bytes for their shape",
                  [(b"w/.zarray", large), *((b"w/%d.0" % i, (0, 0, 100)) for i in range(3))], values=bytes(100), path="w")  # fmt: skip
    few = "a chunk of it has too few bytes for its shape"
    yield of("chunk-too-few", few, shape=[2**40], chunks=[2**40])
    yield damaged("zarr2-packed-too-few", few, v2(frame(DATA), compressor={"id": "zstd"}, shape=[2**40], chunks=[2**40]), path="w")
    absent = "it has chunks that are not stored, and Limits::made_bytes does not allow to fill so many of them"
    yield lost("zarr2-many-absent", absent, v2(shape=[2**25], chunks=[1]))
    yield lost("zarr2-all-absent", absent, v2(shape=[2**40], chunks=[2**39]))
    yield lost("zarr2-memory", "putting its chunks together takes more memory than Limits::made_bytes allows",
               [(b"w/.zarray", zarr2(shape=[2**17, 2**17], chunks=[2**17, 2**17], order="F")), (b"w/0.0", DATA)])  # fmt: skip
    yield opened("zarr2-absent", None, envelope(OF_NODE, leaf(v2(DATA, shape=[4]))))
    everything = tree(entry("w"), store_array_data_equal_to_fill_value=True)
    yield damaged("zarr2-lacks-chunk", "1 chunk of its 2 are missing, and the checkpoint says that it has all", v2(DATA, shape=[4]),
                  metadata=everything, path="w")  # fmt: skip
    stored = "a stored chunk of the array {}".format
    read = lambda name, says, chunk, **more: damaged(f"zarr2-{name}", stored(says), v2(chunk, **more), "read")
    yield read("chunk-short", "holds 7 bytes and not the 8 of its shape", DATA[:-1])
    yield read("chunk-empty", "holds 0 bytes and not the 8 of its shape", b"")
    yield read("chunk-long", "holds more than the 8 bytes of its shape", DATA + b"\0")
    zstd = dict(compressor={"id": "zstd", "level": 1})
    yield read("zstd-none", "is damaged: zstd refuses it", DATA, **zstd)
    yield read("zstd-empty", "ends too early", b"", **zstd)
    yield read("zstd-cut", "ends too early", frame(DATA)[:-1], **zstd)
    yield read("zstd-short", "holds 7 bytes and not the 8 of its shape", frame(DATA[:-1]), **zstd)
    yield read("zstd-long", "holds more than the 8 bytes of its shape", frame(DATA + b"x"), **zstd)
    bomb = frame(b"", 900 * LARGEST_BLOCK, body=block(1, LARGEST_BLOCK, b"x") * 899 + block(1, LARGEST_BLOCK, b"x", True))
    yield read("zstd-bomb", "holds more than the 8 bytes of its shape", bomb, **zstd)
    yield read("zstd-two-frames", "goes on after its compressed bytes end", frame(DATA[:4]) + frame(DATA[4:]), **zstd)
    yield read("zstd-behind", "goes on after its compressed bytes end", frame(DATA) + b"\0", **zstd)
    # A window of 2^41 bytes.
    window = frame(DATA, bits=0, fields=b"\xf8")
    yield read("zstd-window", "is damaged: zstd refuses it", window, **zstd)
    deflated = gzip.compress(DATA, mtime=0)
    of_gzip = dict(compressor={"id": "gzip", "level": 1})
    yield read("gzip-none", "is damaged: zlib refuses it", DATA, **of_gzip)
    yield read("gzip-crc", "is damaged: zlib refuses it", deflated[:-8] + bytes([deflated[-8] ^ 1]) + deflated[-7:], **of_gzip)
    yield read("gzip-cut", "ends too early", deflated[:-1], **of_gzip)
    yield read("gzip-twice", "goes on after its compressed bytes end", deflated + deflated, **of_gzip)
    yield read("zlib-gzip", "is damaged: zlib refuses it", deflated, compressor={"id": "zlib", "level": 1})
    beside_it = [(b"w/.zarray", zarr2(compressor={"id": "zstd"})), (b"w/0", (0, 0, len(frame(DATA)) - 1))]
    yield damaged("zarr2-zstd-beside-cut", stored("ends too early"), beside_it, "read", values=frame(DATA))


def third():
    """Metadata of zarr 3, and its codecs."""
    invalid = "its metadata are not those of a zarr array: {}".format
    of = lambda name, says, **more: damaged(f"zarr3-{name}", says, v3(DATA, **more), path="w")
    yield opened("zarr3-good", None, envelope(OF_NODE, leaf(v3(DATA))))
    yield of("format", invalid("zarr_format is not 3"), zarr_format=2)
    yield of("no-format", invalid("zarr_format is not 3"), drop=("zarr_format",))
    yield of("no-shape", invalid("it has no shape"), drop=("shape",))
    yield of("axes", invalid("the chunks have other axes"), chunk=[1, 2])
    yield of("chunk-0", invalid("a chunk without elements"), chunk=[0])
    yield of("no-codecs", invalid("it has no list of codecs"), drop=("codecs",))
    yield of("codecs-empty", invalid("no codec makes bytes of its elements"), codecs=[])
    yield of("codec-no-name", invalid("a codec has no name"), codecs=[{}])
    yield of("codec-number", invalid("a codec has no name"), codecs=[3])
    turn = lambda *order: named("transpose", order=list(order))
    yield of("turned-alone", invalid("no codec makes bytes of its elements"), codecs=[turn(0)])
    for name, order in (("twice", [0, 0]), ("beyond", [0, 2]), ("negative", [0, -1]), ("2-64", [0, 2**64]), ("wraps", [0, 2**32 + 1])):
        says = invalid("a transpose has no order" if name in ("negative", "2-64") else "the order of a transpose is none")
        yield of(f"order-{name}", says, codecs=[turn(*order), BYTES], shape=[1, 2], chunk=[1, 2])
    for name, order in (("short", [0]), ("long", [0, 1, 2]), ("text", ["C"])):
        yield of(f"order-{name}", invalid("a transpose has no order"), codecs=[turn(*order), BYTES], shape=[1, 2], chunk=[1, 2])
    for name, fill in (("text", "x"), ("hex", "0x1"), ("real", 0.5)):
        yield of(f"fill-{name}", invalid(""), fill_value=fill)
    unread = lambda name, says, **more: lost(f"zarr3-{name}", says, v3(DATA, **more))
    yield unread("group", "it is a group of zarr, and no array", node_type="group")
    yield unread("member", "its metadata have 'later', which is not known", later=1)
    yield unread("member-must", "its metadata have 'later', which is not known", later={"must_understand": True})
    yield opened("zarr3-member-may", None, envelope(OF_NODE, leaf(v3(DATA, later={"must_understand": False}))))
    yield unread("transformers", "its metadata have 'storage_transformers', which is not known", storage_transformers=[1])
    yield unread("type", "its elements are of the dtype 'int128', which is not read", data_type="int128")
    yield unread("type-bits", "its elements are of the dtype 'r16', which is not read", data_type="r16")
    yield unread("type-object", "its data_type is not known", data_type={"name": "struct"})
    yield unread("grid", "its chunks are not cut regularly", chunk_grid=named("rectangular", chunk_shape=[2]))
    yield unread("grid-negative", "its chunks are not cut regularly", chunk=[-2])
    yield unread("grid-none", "its chunks are not cut regularly", drop=("chunk_grid",))
    yield unread("names", "its chunks have names in an unknown form", chunk_key_encoding=named("later"))
    yield unread("separator", "its chunks have names in an unknown form", chunk_key_encoding=named("default", separator="//"))
    yield unread("codec", "it is coded by 'blosc', which is not read", codecs=[BYTES, named("blosc")])
    yield unread("codec-first", "it is coded by 'zstd', which is not read", codecs=[ZSTD, BYTES])
    yield unread("codec-two", "it is coded by 'two codecs that compress', which is not read", codecs=[BYTES, ZSTD, ZSTD])
    yield unread("crc-twice", "it is coded by 'crc32c twice', which is not read", codecs=[BYTES, CRC, CRC])
    stored = "a stored chunk of the array {}".format
    read = lambda name, says, chunk, *codecs: damaged(f"zarr3-{name}", stored(says), v3(chunk, codecs=[BYTES, *codecs]), "read")
    yield read("crc", "does not match its CRC-32C", DATA + u64(0)[:4], CRC)
    yield read("crc-cut", "", (DATA + crc_of(DATA))[:-1], CRC)
    yield read("crc-none", "", b"", CRC)
    yield read("crc-behind", "holds more than the 8 bytes of its shape", DATA + crc_of(DATA) + b"\0", CRC)
    within = frame(DATA + crc_of(DATA))
    yield opened("zarr3-crc-packed", None, envelope(OF_NODE, leaf(v3(within, codecs=[BYTES, CRC, ZSTD]))))
    yield read("crc-within", "does not match its CRC-32C", frame(DATA + u64(0)[:4]), CRC, ZSTD)
    yield read("crc-within-none", "does not match its CRC-32C", frame(DATA), CRC, ZSTD)
    yield read("crc-around", "does not match its CRC-32C", frame(DATA) + u64(0)[:4], ZSTD, CRC)
    yield read("crc-around-cut", "is too short for its checksum", b"\0\0", ZSTD, CRC)


def shards():
    pair = (DATA[:4], DATA[4:])

    def made(*chunks, index=None, crc=0, first=False, behind=b"", codecs=(BYTES, CRC)):
        at, entries = 16 * len(chunks) + 4 * (len(codecs) > 1) if first else 0, b""
        for chunk in chunks:
            entries += u64(NONE) + u64(NONE) if chunk is None else u64(at) + u64(len(chunk))
            at += len(chunk or b"")
        entries = b"".join(map(u64, index)) if index is not None else entries
        table = entries + (struct.pack("<I", crc32c(entries) ^ crc) if len(codecs) > 1 else b"")
        data = b"".join(chunk or b"" for chunk in chunks)
        return (table + data if first else data + table) + behind

    one = lambda **more: dict(codecs=[shard(1, **more)])
    yield opened("shard-good", None, envelope(OF_NODE, leaf(v3(made(*pair), **one()))))
    yield opened("shard-first", None, envelope(OF_NODE, leaf(v3(made(*pair, first=True), **one(index_location="start")))))
    yield opened("shard-no-crc", None, envelope(OF_NODE, leaf(v3(made(*pair, codecs=(BYTES,)), **one(index=[BYTES])))))
    yield opened("shard-absent", None, envelope(OF_NODE, leaf(v3(made(None, DATA[4:]), **one()))))
    # One place for two chunks is legal, and costs no more than two chunks.
    yield opened("shard-same-place", None, envelope(OF_NODE, leaf(v3(made(*pair, index=[0, 4, 0, 4]), **one()))))
    yield opened("shard-overlap", None, envelope(OF_NODE, leaf(v3(made(*pair, index=[0, 4, 2, 4]), **one()))))
    # Far larger than the array, and all in the same few bytes.
    large = [(b"w/c/0/0", made(*pair, index=[0, 4, 0, 4])), (b"w/zarr.json", zarr3(chunk=(2, 2**20), shape=[2, 1], codecs=[shard(1, 2**20)]))]
    yield damaged("shard-too-few", "a shard of the array has too few bytes for its chunks", large, "read")
    read = lambda name, says, chunk, **more: damaged(f"shard-{name}", says, v3(chunk, **one(**more)), "read")
    short, leads = "a shard of the array is shorter than its index", "a shard of the array has an index that leads out of it"
    sum_says = "a shard of the array has an index that does not match its CRC-32C"
    yield read("empty", short, b"")
    yield read("short", short, bytes(35))
    yield read("crc", sum_says, made(*pair, crc=1))
    yield read("cut", sum_says, made(*pair)[:-1])
    yield read("behind", sum_says, made(*pair, behind=b"\0"))
    yield read("at-the-end", sum_says, made(*pair), index_location="start")
    for name, index in (
        ("beyond", [0, 4, 41, 4]), ("length", [0, 4, 4, 99]), ("wraps", [0, 4, NONE - 1, 4]), ("length-wraps", [0, 4, 8, NONE - 4]),
        ("half-absent", [0, 4, NONE, 4]), ("absent-length", [0, 4, 4, NONE]), ("2-63", [0, 4, 2**63, 4]),
    ):  # fmt: skip
        yield read(f"index-{name}", leads, made(*pair, index=index))
    stored = "a stored chunk of the array {}".format
    yield read("chunk-short", stored("holds 3 bytes and not the 4 of its shape"), made(pair[0], pair[1][:3]))
    yield read("chunk-long", stored("holds more than the 4 bytes of its shape"), made(pair[0], pair[1] + b"\0"))
    yield read("chunk-empty", stored("holds 0 bytes and not the 4 of its shape"), made(pair[0], b""))
    yield damaged("shard-beside-index", leads, [(b"w/c/0", (0, 0, 44)), (b"w/zarr.json", zarr3(**one()))], "read",
                  values=made(*pair, index=[0, 4, 45, 4]) + bytes(40))  # fmt: skip
    invalid = "its metadata are not those of a zarr array: {}".format
    of = lambda name, says, *codecs, **more: damaged(f"shard-{name}", says, v3(made(*pair), codecs=codecs, **more), path="w")
    yield of("axes", invalid("a shard has other axes"), shard(1, 1))
    yield of("of-0", invalid("the chunks of a shard do not fill it"), shard(0))
    yield of("of-3", invalid("the chunks of a shard do not fill it"), shard(3))
    yield of("of-larger", invalid("the chunks of a shard do not fill it"), shard(4))
    yield of("negative", invalid("a shard has other axes"), shard(-1))
    yield of("index-nowhere", invalid("the index of a shard is at no known place"), shard(1, index_location="middle"))
    yield of("no-codecs", invalid("no codec makes bytes of its elements"), shard(1, codecs=[]))
    yield of("index-no-codecs", invalid("it has no list of codecs"), named("sharding_indexed", chunk_shape=[1], codecs=[BYTES]))
    unread = lambda name, says, *codecs, **more: lost(f"shard-{name}", says, v3(made(*pair), codecs=codecs, **more))
    index = "it is coded by 'sharding_indexed with an index in an unusual form', which is not read"
    yield unread("index-packed", index, shard(1, index=[BYTES, ZSTD]))
    yield unread("index-big", index, shard(1, index=[named("bytes", endian="big"), CRC]))
    yield unread("index-three", index, shard(1, index=[BYTES, CRC, CRC]))
    yield unread("index-empty", index, shard(1, index=[]))
    yield unread("packed", "it is coded by 'zstd', which is not read", shard(1), ZSTD)
    deep = "it is coded by 'sharding_indexed inside of two others', which is not read"
    yield unread("3-deep", deep, shard(1, codecs=[shard(1, codecs=[shard(1)])]))
    yield unread("many", "a shard of it has more than 2^24 chunks", shard(1), shape=[2**24 + 1], chunk=[2**24 + 1])
    # An index of 20 bytes, for 2^40 elements that are not there.
    absent = "it has chunks that are not stored, and Limits::made_bytes does not allow to fill so many of them"
    yield lost("shard-all-absent", absent, v3(made(None), shape=[2**40], chunk=[2**40], codecs=[shard(2**40)]))
    yield lost("shard-some-absent", absent, v3(made(pair[0], None), shape=[2**40], chunk=[2**40], codecs=[shard(2**39)]))


def plain():
    """Folders without a database."""
    array_files = {"w/.zarray": zarr2(), "w/0": DATA}
    of = lambda name, says, metadata=W, code="-", files_of=array_files, **more: case(
        f"plain-{name}", says, metadata, code, TREE, beside=files_of, **({"found_by": "opens"} if code == "-" else {}) | more)  # fmt: skip
    yield of("good", None)
    yield of("zarr3", None, tree(entry("w"), use_zarr3=True), files_of={"w/zarr.json": zarr3(), "w/c/0": DATA})
    yield of("no-array", "this array cannot be read: its file w/.zarray is missing", files_of={}, path="w")
    yield of("no-json", "they are not JSON", code="foreign_invalid", files_of={"w/.zarray": b"", "w/0": DATA}, found_by="verify", path="w")
    yield of("chunk-missing", None, files_of={"w/.zarray": zarr2()})
    everything = tree(entry("w"), store_array_data_equal_to_fill_value=True)
    yield of("lacks-chunk", "are missing, and the checkpoint says that it has all", everything, "foreign_invalid",
             files_of={"w/.zarray": zarr2()}, found_by="verify", path="w")  # fmt: skip
    yield of("chunk-short", "a stored chunk of the array holds 7 bytes and not the 8 of its shape", code="foreign_invalid",
             files_of=array_files | {"w/0": DATA[1:]}, found_by="read")  # fmt: skip
    yield of("chunk-long", "a stored chunk of the array holds more", code="foreign_invalid", files_of=array_files | {"w/0": DATA * 2},
             found_by="read")  # fmt: skip
    yield of("chunk-absent-many", "Limits::made_bytes does not allow to fill so many of them",
             files_of={"w/.zarray": zarr2(shape=[2**40], chunks=[2**38])}, path="w")  # fmt: skip
    outside = "is no path below the checkpoint's folder, so it was not saved there; nothing is read from elsewhere"
    for name, key in (("root", "/w"), ("up", "../w"), ("up-inside", "w/../../w"), ("dots", ".."), ("backslash", "..\\w"), ("nul", "w\0"),
                      ("empty-part", "w//x"), ("drive", "C:/w"), ("newline", "w\n")):  # fmt: skip
        yield of(f"name-{name}", outside, tree(entry("w"), entry(key)), "foreign_invalid", found_by="verify")


def limits():
    """With one more of each, all of these are good."""
    limited = dict(code="limit_exceeded")
    deep = tree(entry("w"), entry(*["a"] * 8, type="None"))
    yield folder("limit-depth", "a value of the tree has 8 keys and readers accept 7 (Limits::depth)", metadata=deep, limits={"depth": 7}, **limited)
    many = tree(*(entry(str(i), type="None") for i in range(9)), entry("w"))
    yield folder("limit-nodes", "Limits::nodes", metadata=many, limits={"nodes": 11}, **limited)
    files_of = {"w/.zarray": zarr2(shape=[8], chunks=[1])} | {f"w/{i}": DATA[:4] for i in range(8)}
    yield case("limit-files", "Limits::files", W, "limit_exceeded", TREE, beside=files_of, limits={"files": 13})
    yield folder("limit-header", "Limits::foreign_header_bytes", metadata=W + b" " * 500, limits={"foreign_header_bytes": len(W) + 499}, **limited)
