"""The hostile HDF5 files: one structure is wrong in each, and often more than once in the history of libhdf5 (docs/formats.md)."""

import struct
import zlib

from corpus_case import Case

SUFFIX = "h5"
MAGIC = b"\x89HDF\r\n\x1a\n"
UNDEFINED = 2**64 - 1
F32 = struct.pack("<B3BI2H4BI", 0x11, 0x20, 31, 0, 4, 0, 32, 23, 8, 0, 23, 127)
TEXT = bytes([0x19, 1, 0, 0]) + struct.pack("<I", 16) + bytes([0x13, 0, 0, 0]) + struct.pack("<I", 1)
BEYOND = "a structure lies beyond the end of the file; copy or download it again"


def lookup3(data):
    """Bob Jenkins's hash, as in his lookup3.c: hashlittle()."""
    mask = 2**32 - 1

    def rot(x, k):
        return (x << k | x >> (32 - k)) & mask

    a = b = c = (0xDEADBEEF + len(data)) & mask
    while len(data) > 12:
        x, y, z = struct.unpack_from("<3I", data)
        a, b, c = (a + x) & mask, (b + y) & mask, (c + z) & mask
        a, c = (a - c ^ rot(c, 4)) & mask, (c + b) & mask
        b, a = (b - a ^ rot(a, 6)) & mask, (a + c) & mask
        c, b = (c - b ^ rot(b, 8)) & mask, (b + a) & mask
        a, c = (a - c ^ rot(c, 16)) & mask, (c + b) & mask
        b, a = (b - a ^ rot(a, 19)) & mask, (a + c) & mask
        c, b = (c - b ^ rot(b, 4)) & mask, (b + a) & mask
        data = data[12:]
    if not data:
        return c
    x, y, z = struct.unpack("<3I", data.ljust(12, b"\0"))
    a, b, c = (a + x) & mask, (b + y) & mask, (c + z) & mask
    for p, q, k in (("c", "b", 14), ("a", "c", 11), ("b", "a", 25), ("c", "b", 16), ("a", "c", 4), ("b", "a", 14), ("c", "b", 24)):
        values = {"a": a, "b": b, "c": c}
        values[p] = ((values[p] ^ values[q]) - rot(values[q], k)) & mask
        a, b, c = values["a"], values["b"], values["c"]
    return c


def summed(data):
    return data + struct.pack("<I", lookup3(data))


def message(kind, body, flags=0):
    body += bytes(-len(body) % 8)
    return struct.pack("<HHB3x", kind, len(body), flags) + body


def header(*messages, size=None):
    """An object header of version 1."""
    body = b"".join(messages)
    return struct.pack("<BxHIIxxxx", 1, len(messages), 1, len(body) if size is None else size) + body


def space(*shape, rank=None, flags=0, most=()):
    axes = (*shape, *most)
    return message(1, struct.pack(f"<BBB5x{len(axes)}Q", 1, len(shape) if rank is None else rank, flags, *axes))


def contiguous(address, size):
    return message(8, struct.pack("<BBQQ", 3, 1, address, size))


def compact(data):
    return message(8, struct.pack("<BBH", 3, 0, len(data)) + data)


def chunked(address, *chunk):
    return message(8, struct.pack(f"<BBBQ{len(chunk)}I", 3, 2, len(chunk), address, *chunk))


def filters(*ids):
    return message(11, bytes([2, len(ids)]) + b"".join(struct.pack("<HHH", each, 0, len(values)) + struct.pack(f"<{len(values)}I", *values)
                                                       if each < 256 else struct.pack("<HHHH", each, 0, 0, 0) for each, values in ids))  # fmt: skip


def link(name, address, kind=None):
    name = name.encode() if isinstance(name, str) else name
    target = struct.pack("<Q", address) if kind is None else kind
    return message(6, bytes([1, 0 if kind is None else 8, *([] if kind is None else [kind[0]]), len(name)]) + name + (target if kind is None else kind[1:]))


def attribute(name, kind, shape, data, sizes=None):
    name = name.encode() + b"\0"
    dataspace = struct.pack(f"<BBB5x{len(shape)}Q", 1, len(shape), 0, *shape)
    sizes = sizes or (len(name), len(kind), len(dataspace))
    parts = [part + bytes(-len(part) % 8) for part in (name, kind, dataspace)]
    return message(12, struct.pack("<BxHHH", 1, *sizes) + b"".join(parts) + data)


class File:
    """A file of version 0: structures by their names, whose addresses others may ask for."""

    def __init__(self, **structures):
        self.structures = structures

    def bytes(self, root="root", end=None, base=0, version=0, sizes=(8, 8)):
        places, at = {}, 96
        # Once for the sizes, and once more for the addresses.
        for _ in range(2):
            at = 96
            made = {}
            for name, make in self.structures.items():
                made[name] = make(places) if callable(make) else make
                places[name] = at
                at += len(made[name]) + -len(made[name]) % 8
        data = MAGIC + bytes([version, 0, 0, 0, 0, *sizes, 0]) + struct.pack("<HHI", 4, 16, 0)
        data += struct.pack("<4Q", base, UNDEFINED, at if end is None else end, UNDEFINED)
        data += struct.pack("<QQII16x", 0, places.get(root, root) if isinstance(root, str) else root, 0, 0)
        for each in made.values():
            data += each + bytes(-len(each) % 8)
        return data


def place(name):
    return lambda places: places.get(name, 0)


def with_array(*messages, kind=F32, **more):
    """A file with one array "a", whose messages may ask for addresses."""
    def array(places):
        return header(message(3, kind), *(each(places) if callable(each) else each for each in messages))

    return File(root=lambda places: header(link("a", places.get("array", 0))), array=array, **more)


def good(*messages, **more):
    return with_array(space(4), compact(bytes(16)), *messages, **more).bytes()


def refused(name, says, data, path=None, code="foreign_invalid", found_by="open", at=None, **more):
    return Case(f"hdf5-{name}", code, data, at, path, found_by, says=says, **more)


def damaged(name, says, *messages, path="a", kind=F32, **more):
    """An array that is damaged: the file opens, and its verification fails."""
    return refused(name, says, with_array(*messages, kind=kind, **more).bytes(), path, found_by="verify")


def noted(name, says, data, path="a"):
    return Case(f"hdf5-{name}", "-", data, None, path, "opens", says=says)


def cases():
    for group in (superblocks, headers, groups, arrays, types, attributes, chunks, heaps, limits):
        yield from group()


def superblocks():
    yield refused("signature-alone", "a structure ends within a field", MAGIC, at=0)
    yield refused("version-4", "a superblock of version 4, which is not known", good()[:8] + b"\4" + good()[9:], code="unsupported_version", at=0)
    yield refused("sizes-2", "addresses of 2 bytes and lengths of 8", with_array(space(1), compact(bytes(4))).bytes(sizes=(2, 8)),
                  code="unsupported_feature", at=0)  # fmt: skip
    yield refused("sizes-255", "addresses of 8 bytes and lengths of 255", with_array(space(1), compact(bytes(4))).bytes(sizes=(8, 255)),
                  code="unsupported_feature", at=0)  # fmt: skip
    yield refused("base-elsewhere", "it begins elsewhere than it does", with_array(space(2), compact(bytes(8))).bytes(base=8), at=0)
    cut = good()[:-8]
    yield refused("cut", "ends before the", cut, code="truncated", at=len(cut))
    yield refused("end-of-largest", "ends before the", with_array(space(3), compact(bytes(12))).bytes(end=2**64 - 2), code="truncated")
    yield refused("end-before-root", BEYOND, with_array(space(3), compact(bytes(12))).bytes(end=96))
    yield refused("root-beyond", BEYOND, File(a=bytes(8)).bytes(root=2**63))
    yield refused("root-undefined", BEYOND, File(a=bytes(8)).bytes(root=UNDEFINED))
    yield refused("root-of-zeros", "no object header stands", File(root=bytes(64)).bytes(), at=96)
    yield refused("root-is-an-array", "the root of the HDF5 file is no group", File(root=header(message(3, F32), space(4), compact(bytes(16)))).bytes())
    second = MAGIC + bytes([2, 8, 8, 0]) + struct.pack("<4Q", 0, UNDEFINED, 96, 48)
    yield refused("superblock-sum", "the superblock does not match its checksum", second + bytes(4) + bytes(48))
    yield refused("second-header-sum", "does not match its checksum", summed(second) + summed(b"OHDR\2\0\4" + bytes(4))[:-1] + b"x" + bytes(33), at=48)


def headers():
    yield refused("header-larger-than-file", BEYOND, File(root=header(link("a", 96), size=2**32 - 1)).bytes())
    yield refused("message-beyond-header", "a structure ends within a field", File(root=header(struct.pack("<HHB3x", 6, 60000, 0))).bytes())
    circle = File(root=lambda places: header(message(16, struct.pack("<QQ", places.get("more", 0), 24))),
                  more=lambda places: message(16, struct.pack("<QQ", places.get("more", 0), 24)))  # fmt: skip
    yield refused("continuation-of-itself", "refer to each other without end", circle.bytes())
    yield refused("continuation-beyond", BEYOND, File(root=header(message(16, struct.pack("<QQ", 2**62, 2**62)))).bytes())
    yield refused("cache-image", "an object has a message of type 24", File(root=header(message(24, bytes(8)))).bytes(), code="unsupported_feature")
    yield refused("message-to-fail-on", "a message of type 77", File(root=header(message(77, bytes(8), flags=0x80))).bytes(), code="unsupported_feature")
    yield refused("object-of-nothing", "an object is neither a group nor an array nor a type", File(root=header(message(0, bytes(8)))).bytes())
    shared = struct.pack("<BB6xQ", 1, 0, 96)
    array = header(message(3, shared, flags=2), space(4), compact(bytes(16)))
    yield refused("shared-type-of-none", "an object refers to a message that another one has not",
                  File(root=lambda p: header(link("a", p.get("array", 0))), array=array).bytes(), "a", found_by="verify")  # fmt: skip


def groups():
    good_array = header(message(3, F32), space(1), compact(bytes(4)))
    yield refused("name-twice", "two links with the same name", File(root=lambda p: header(link("a", p.get("x", 0)), link("a", p.get("x", 0))), x=good_array).bytes())
    yield refused("name-empty", "is empty or has a slash", File(root=lambda p: header(link("", p.get("x", 0))), x=good_array).bytes())
    yield refused("name-with-slash", "is empty or has a slash", File(root=lambda p: header(link("a/b", p.get("x", 0))), x=good_array).bytes())
    yield refused("name-longer-than-message", "a structure ends within a field", File(root=header(message(6, b"\1\0\xffa"))).bytes())
    yield noted("name-no-utf8", "its name is not UTF-8 and is shown escaped",
                File(root=lambda p: header(link(b"\xff", p.get("x", 0))), x=good_array).bytes(), None)  # fmt: skip
    yield noted("cycle", "it is another name of /, which stands there", File(root=header(link("a", 96))).bytes())
    yield noted("soft-cycle", "it is a soft link to 'a', which is not there", File(root=header(link("a", 0, b"\1\1\0a"))).bytes())
    yield noted("external-link", "it is a link into another file", File(root=header(link("a", 0, b"\x40\4\0\0x\0y"))).bytes())
    yield noted("user-link", "it is a link of a kind that only its program knows", File(root=header(link("a", 0, b"\x41\1\0x"))).bytes())

    def old(tree, heap=None, nodes=b""):
        heap = heap or b"HEAP" + bytes(4)
        return File(root=lambda p: header(message(17, struct.pack("<QQ", p.get("tree", 0), p.get("heap", 0)))), tree=tree,
                    heap=lambda p: b"HEAP\0\0\0\0" + struct.pack("<QQQ", 16, UNDEFINED, p.get("names", 0)), names=b"\0a\0".ljust(16, b"\0"),
                    node=nodes, x=good_array).bytes()  # fmt: skip

    def tree(level, used, child="node", kind=0):
        return lambda p: b"TREE" + struct.pack("<BBHQQ", kind, level, used, UNDEFINED, UNDEFINED) + struct.pack("<QQQ", 0, p.get(child, 0), 8)

    def node(offset=1, count=1, address=lambda p: p.get("x", 0)):
        return lambda p: b"SNOD\1\0" + struct.pack("<H", count) + struct.pack("<QQII16x", offset, address(p), 0, 0)

    yield refused("tree-of-itself", "a node of a B-tree is in it twice", old(tree(1, 1, "tree"), nodes=node()))
    yield refused("tree-level-255", "another level than its place", old(tree(255, 1), nodes=node()))
    yield refused("tree-kind", "no B-tree of its kind", old(tree(0, 1, kind=1), nodes=node()))
    yield refused("tree-used-65535", BEYOND, old(tree(0, 65535), nodes=node()))
    yield refused("node-count-65535", BEYOND, old(tree(0, 1), nodes=node(count=65535)))
    yield refused("node-name-beyond-heap", "the name of a link lies beyond the heap", old(tree(0, 1), nodes=node(offset=2**40)))
    yield refused("node-name-without-end", "the name of a link lies beyond the heap", old(tree(0, 1), nodes=node(offset=15)).replace(b"\0a".ljust(16, b"\0"), b"\0a".ljust(16, b"x")))
    yield refused("node-of-nothing", BEYOND, old(tree(0, 1), nodes=node(address=lambda p: UNDEFINED)), "a", found_by="verify")


def arrays():
    yield damaged("contiguous-beyond", "an array lies beyond the end of the file", space(4), contiguous(2**62, 16))
    yield damaged("contiguous-wraps", "an array lies beyond the end of the file", space(4), contiguous(2**64 - 8, 16))
    yield damaged("contiguous-short", "an array has fewer bytes than its shape", space(4), contiguous(96, 8))
    yield damaged("over-header", "its elements overlap those of another array, or a structure", space(4), contiguous(96, 16))
    yield damaged("compact-short", "a compact array has another size", space(4), compact(bytes(12)))
    yield damaged("compact-longer-than-message", "a structure ends within a field", space(4), message(8, struct.pack("<BBH", 3, 0, 60000)))
    yield damaged("shape-wraps", "more bytes than it can", space(2**62, 2**62), compact(b""))
    yield damaged("rank-255", "a shape is malformed", space(1, rank=255), compact(b""))
    yield damaged("larger-than-most", "larger than it may grow", space(4, flags=1, most=(3,)), compact(bytes(16)))
    yield damaged("no-shape", "an array has no type, no shape or no layout", compact(bytes(16)))
    yield damaged("fill-short", "a fill value has another size than the elements", space(4), contiguous(UNDEFINED, 0),
                  message(5, struct.pack("<4BIH", 2, 2, 2, 1, 2, 7)))  # fmt: skip
    yield damaged("fill-longer-than-message", "a structure ends within a field", space(4), contiguous(UNDEFINED, 0),
                  message(5, struct.pack("<4BI", 2, 2, 2, 1, 2**31)))  # fmt: skip
    yield damaged("filters-without-chunks", "an array has filters and no chunks", space(4), compact(bytes(16)), filters((1, ())))
    yield noted("of-a-petabyte", "more than a thousand times those of the file", with_array(space(2**48), contiguous(UNDEFINED, 0)).bytes())
    yield noted("chunks-of-gigabytes", "more than a thousand times those of the file",
                with_array(space(400, 1), chunked(96, 1, 2**28, 4), filters((1, (6,)))).bytes())
    yield noted("external", "its elements are in external files", with_array(space(4), contiguous(UNDEFINED, 0), message(7, bytes(16))).bytes())
    yield noted("virtual", "it is a virtual dataset", with_array(space(4), message(8, bytes([4, 3]) + bytes(12))).bytes())
    for number, name in ((4, "szip"), (5, "nbit"), (6, "scaleoffset"), (32000, "lzf"), (32001, "blosc"), (32008, "bitshuffle"), (32015, "zstd"),
                         (40000, "number 40000")):  # fmt: skip
        yield noted(f"filter-{number}", f"the filter {name}, which is not read", with_array(space(4), chunked(UNDEFINED, 4, 4), filters((number, ()))).bytes())


def types():
    def kind(name, says, data, is_damage=False):
        maker = damaged if is_damage else None
        if maker:
            return damaged(f"type-{name}", says, space(1), compact(bytes(4)), kind=data)
        return noted(f"type-{name}", says, with_array(space(1), compact(bytes(4)), kind=data).bytes())

    def base(first, bits, size, rest=b""):
        return bytes([first]) + bits.to_bytes(3, "little") + struct.pack("<I", size) + rest

    yield kind("time", "elements of the type time", base(0x12, 0, 4, struct.pack("<H", 32)))
    yield kind("reference", "references to other objects", base(0x17, 0, 4))
    yield kind("class-15", "a type of the unknown class 15", base(0x1F, 0, 4))
    yield kind("integer-of-3-bytes", "integers of 24 bits in 3 bytes", base(0x10, 0, 3, struct.pack("<HH", 0, 24)))
    yield kind("vax", "numbers of a VAX", base(0x11, 0x41, 4, struct.pack("<HHBBBBI", 0, 32, 23, 8, 0, 23, 127)))
    yield kind("size-0", "no size that elements can have", base(0x10, 0, 0, struct.pack("<HH", 0, 32)), True)
    yield kind("version-0", "unknown version", base(0x00, 0, 4, struct.pack("<HH", 0, 32)), True)
    yield kind("cut", "a structure ends within a field", base(0x10, 0, 4), True)
    nested = F32
    for _ in range(17):
        nested = base(0x3A, 0, 4, bytes([1]) + struct.pack("<I", 1)) + nested
    yield kind("nested-17", "a type is nested too deep", nested, True)
    yield kind("array-wraps", "another size than its elements", base(0x3A, 0, 4, bytes([4]) + struct.pack("<4I", *[2**31] * 4)) + F32, True)
    yield kind("array-rank-0", "no rank that it can", base(0x3A, 0, 4, b"\0") + F32, True)
    member = b"a\0" + b"\0"
    yield kind("member-beyond", "lies beyond its elements", base(0x36, 1, 4, b"a\0\1") + F32, True)
    yield kind("members-overlap", "two members of a compound type overlap", base(0x36, 2, 6, member + F32 + b"b\0\2" + F32), True)
    yield kind("member-name-without-end", "a name does not end", base(0x36, 1, 4, b"a" * 16), True)
    yield kind("enumeration-of-floats", "values that are no integers", base(0x38, 1, 4) + F32 + b"a\0" + bytes(4), True)
    yield kind("enumeration-cut", "a structure ends within a field", base(0x38, 3, 4) + base(0x10, 0, 4, struct.pack("<HH", 0, 32)) + b"a\0b\0c\0" + bytes(2), True)  # fmt: skip


def attributes():
    def one(name, says, *more, code="foreign_invalid"):
        return refused(f"attribute-{name}", says, good(attribute(*more)), found_by="verify", code=code)

    yield one("short", "an attribute has fewer bytes than its shape", "b", F32, (5,), bytes(8))
    yield one("wraps", "an attribute has fewer bytes than its shape", "b", F32, (2**62, 4), b"")
    yield damaged("attribute-sizes", "a structure ends within a field", space(4), compact(bytes(16)), attribute("b", F32, (1,), bytes(4), (2, 60000, 16)))
    yield damaged("attribute-version", "an attribute has an unknown version", space(4), compact(bytes(16)), message(12, bytes([9]) + bytes(15)))
    reference = struct.pack("<IQI", 3, 2**60, 1)
    yield one("text-beyond", BEYOND, "b", TEXT, (), reference)
    zero = with_array(space(4), compact(bytes(16)), lambda p: attribute("b", TEXT, (), struct.pack("<IQI", 3, p.get("heap", 0), 1)),
                      heap=b"GCOL\1\0\0\0" + bytes(24)).bytes()  # fmt: skip
    yield refused("collection-of-0-bytes", "no room for its own header", zero, found_by="verify")

    def collection(*objects, size=64):
        heap = b"GCOL\1\0\0\0" + struct.pack("<Q", size) + b"".join(struct.pack("<HHIQ", i, 1, 0, n) + data for i, n, data in objects)
        return with_array(space(4), compact(bytes(16)), lambda p: attribute("b", TEXT, (), struct.pack("<IQI", 3, p.get("heap", 0), 1)),
                          heap=heap.ljust(64, b"\0")).bytes()  # fmt: skip

    yield refused("collection-object-beyond", "a structure ends within a field", collection((1, 2**63, b"abc".ljust(8, b"\0"))), found_by="verify")
    yield refused("collection-object-twice", "two objects with one number", collection((1, 3, b"abc".ljust(8, b"\0")), (1, 3, b"abc".ljust(8, b"\0"))), found_by="verify")
    yield refused("collection-without-object", "a reference names no object", collection((2, 3, b"abc".ljust(8, b"\0"))), found_by="verify")
    yield refused("collection-object-short", "shorter than its reference says", collection((1, 2, b"abc".ljust(8, b"\0"))), found_by="verify")


def chunks():
    def tree(*entries, used=None, level=0):
        def make(places):
            data = b"TREE" + struct.pack("<BBHQQ", 1, level, len(entries) if used is None else used, UNDEFINED, UNDEFINED)
            for size, mask, offset, name in entries:
                data += struct.pack("<IIQQQ", size, mask, offset, 0, places.get(name, 0) if isinstance(name, str) else name)
            return data + struct.pack("<IIQQ", 0, 0, 8, 0)
        return make

    def array(name, says, entries, *more, code="foreign_invalid", shape=(8,), **structures):
        more = more or (filters((1, (6,))),)
        data = with_array(space(*shape), lambda p: chunked(p.get("tree", 0), 4, 4), *more, tree=tree(*entries), one=bytes(16), two=bytes(16), **structures).bytes()
        return refused(f"chunk-{name}", says, data, found_by="read", code=code)

    # Where the mask of a chunk has a bit, it was stored without that filter.
    yield array("twice", "two chunks have the same place in an array", [(16, 1, 0, "one"), (16, 1, 0, "two")])
    yield array("overlap", "two chunks of an array overlap", [(16, 1, 0, "one"), (16, 1, 4, "one")])
    yield array("within-another", "a chunk begins within another one", [(16, 1, 2, "one")])
    yield array("beyond-file", "a chunk lies beyond the end of the file", [(16, 1, 0, 2**60)])
    yield array("short", "a chunk has 12 bytes and its shape asks for 16", [(12, 1, 0, "one")])
    yield array("not-deflated", "a chunk cannot be inflated", [(16, 0, 0, "one")], filters((1, (6,))))
    bomb = zlib.compress(bytes(100000), 9)
    yield array("bomb", "a chunk cannot be inflated", [(len(bomb), 0, 0, "packed")], filters((1, (6,))), packed=bomb)
    cut = zlib.compress(bytes(range(16)))[:-2]
    yield array("deflate-cut", "a chunk cannot be inflated", [(len(cut), 0, 0, "packed")], filters((1, (6,))), packed=cut)
    yield array("fletcher-wrong", "a chunk does not match its checksum", [(20, 0, 0, "packed")], filters((3, ())), packed=bytes(16) + b"abcd")
    yield array("fletcher-short", "has no room for its checksum", [(2, 0, 0, "packed")], filters((3, ())), packed=bytes(2))
    many = with_array(space(8), lambda p: chunked(p.get("tree", 0), 4, 4), filters((1, (6,))), tree=tree(used=65535)).bytes()
    yield refused("chunk-tree-used-65535", BEYOND, many, found_by="read")
    yield damaged("chunk-axis-0", "have an axis of 0", space(8), chunked(96, 0, 4))
    yield damaged("chunk-wraps", "have an axis of 0, or are larger than 4 GiB", space(8, 8), chunked(96, 2**31, 2**31, 4))
    yield damaged("chunk-rank", "another rank than the array", space(8), chunked(96, 4, 4, 4))
    yield damaged("chunk-element", "elements of another size", space(8), chunked(96, 4, 8))

    def fourth(index, parameters, address, flags=0, chunk=4):
        return message(8, bytes([4, 2, flags, 2, 1, chunk, 4, index]) + parameters + struct.pack("<Q", address))

    def indexed(name, says, index, parameters, structure, most=None, found_by="read"):
        most = () if most is None else (most,)
        data = with_array(space(8, flags=1 if most else 0, most=most), lambda p: fourth(index, parameters, p.get("index", 0)), filters((1, (6,))), index=structure, one=bytes(32)).bytes()
        return refused(f"index-{name}", says, data, found_by=found_by)

    yield indexed("single-of-two", "an array of several chunks has the index of one", 1, b"", bytes(8))
    yield indexed("implicit-that-grows", "has no index of its chunks", 2, b"", bytes(8), UNDEFINED)
    fixed = summed(b"FAHD\0\1" + bytes([14, 10]) + struct.pack("<QQ", 2**60, 96))
    yield indexed("fixed-of-2-60", "the index of chunks contradicts itself", 3, b"\x0a", fixed)
    fixed = summed(b"FAHD\0\1" + bytes([14, 10]) + struct.pack("<QQ", 2, 96))
    yield indexed("fixed-block-elsewhere", "does not match its checksum", 3, b"\x0a", fixed)
    yield indexed("fixed-sum", "does not match its checksum", 3, b"\x0a", fixed[:-1] + b"x")
    extensible = summed(b"EAHD\0\1" + bytes([14, 32, 4, 0, 4, 10]) + struct.pack("<7Q", 0, 0, 0, 0, 2, 2, 96))
    yield indexed("extensible-of-blocks-of-0", "the index of chunks contradicts itself", 4, bytes(5), extensible, UNDEFINED)
    second = summed(b"BTHD\0\13" + struct.pack("<IHHBBQHQ", 2048, 22, 60, 100, 40, 96, 1, 1))
    yield indexed("second-tree-depth-60", "the header of a B-tree contradicts itself", 5, bytes(6), second, UNDEFINED)
    second = summed(b"BTHD\0\13" + struct.pack("<IHHBBQHQ", 2048, 0, 0, 100, 40, 96, 1, 1))
    yield indexed("second-tree-records-of-0", "the header of a B-tree contradicts itself", 5, bytes(6), second, UNDEFINED)
    second = summed(b"BTHD\0\13" + struct.pack("<IHHBBQHQ", 2048, 22, 0, 100, 40, UNDEFINED, 0, 5))
    yield indexed("second-tree-of-no-records", "another number of records than its header says", 5, bytes(6), second, UNDEFINED)


def heaps():
    def dense(heap, tree=None):
        info = lambda p: message(2, bytes([0, 0]) + struct.pack("<QQ", p.get("heap", 0), p.get("tree", 0)))  # noqa: E731
        return File(root=lambda p: header(info(p)), heap=heap, tree=tree or bytes(8)).bytes()

    def heap(width=4, start=512, largest=65536, bits=32, root=UNDEFINED, rows=0, identity=7, filtered=0):
        return summed(b"FRHP\0" + struct.pack("<HHBI", identity, filtered, 2, 4096) + struct.pack("<QQQQ", 0, UNDEFINED, 0, UNDEFINED)
                      + bytes(64) + struct.pack("<HQQHHQH", width, start, largest, bits, 0, root, rows))  # fmt: skip

    contradicts = "the header of a heap contradicts itself"
    yield refused("heap-width-0", contradicts, dense(heap(width=0)))
    yield refused("heap-start-0", contradicts, dense(heap(start=0)))
    yield refused("heap-largest-of-2-63", contradicts, dense(heap(largest=2**63)))
    yield refused("heap-bits-65535", contradicts, dense(heap(bits=65535)))
    yield refused("heap-rows-65535", "a heap has more rows than it can", dense(heap(root=96, rows=65535)))
    yield refused("heap-root-beyond", BEYOND, dense(heap(root=2**50)))
    yield refused("heap-filtered", "stand in a compressed heap", dense(heap(filtered=4)), code="unsupported_feature")
    record = struct.pack("<I", 0)

    def tree(identity):
        leaf = summed(b"BTLF\0\5" + record + identity)
        return lambda p: summed(b"BTHD\0\5" + struct.pack("<IHHBBQHQ", 512, 4 + len(identity), 0, 100, 40, p.get("tree", 0) + 38, 1, 1)) + leaf

    yield refused("heap-object-beyond", "an ID names no object of a heap", dense(heap(), tree(b"\0" + struct.pack("<IH", 2**31, 5))))
    yield refused("heap-object-of-kind-3", "an ID names no object of a heap", dense(heap(), tree(b"\x30" + bytes(6))))
    yield refused("heap-huge-object-of-none", "an ID names no object of a heap", dense(heap(), tree(b"\x10" + bytes(6))))
    yield refused("heap-link-of-other-hash", "a link has another name than its record says",
                  dense(heap(identity=16), tree(b"\x2c" + b"\1\0\1x" + struct.pack("<Q", 96) + bytes(3))))  # fmt: skip


def limits():
    yield refused("limit-nodes", "more nodes than the 2", good(), code="limit_exceeded", limits={"nodes": 2})
    yield refused("limit-rank", "Limits::rank", with_array(space(1, 1), compact(bytes(4))).bytes(), code="limit_exceeded", limits={"rank": 1})
    yield refused("limit-text", "Limits::text_bytes", good(), code="limit_exceeded", limits={"text_bytes": 0})
