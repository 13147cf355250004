"""Distributed checkpoints of PyTorch, byte by byte: .metadata, and the items in its files."""

import struct
import zlib

METADATA = "torch.distributed.checkpoint.metadata"
FILE = "__0_0.distcp"


def text(value):
    raw = value.encode() if isinstance(value, str) else value
    return b"X" + struct.pack("<I", len(raw)) + raw


def integer(value):
    return b"\x8a\x08" + struct.pack("<q", value)


def group(*values):
    return b"(" + b"".join(values) + b"t"


def listed(*values):
    return b"](" + b"".join(values) + b"e"


def mapped(pairs):
    return b"}(" + b"".join(key + value for key, value in pairs) + b"u"


def fields(**values):
    return mapped([(text(key), value) for key, value in values.items()])


def named(module, name):
    return f"c{module}\n{name}\n".encode()


def call(module, name, *arguments):
    return named(module, name) + group(*arguments) + b"R"


def instance(name, state, module=METADATA):
    return named(module, name) + b")\x81" + state + b"b"


def size(axes):
    return call("torch", "Size", group(*map(integer, axes)))


def box(offset, axes):
    return instance("ChunkStorageMetadata", fields(offsets=size(offset), sizes=size(axes)))


def tensor(shape, *chunks, dtype="uint8"):
    layout = call("torch.serialization", "_get_layout", text("torch.strided"))
    properties = instance(
        "TensorProperties",
        group(named("torch", dtype), layout, b"\x89", call(METADATA, "_MEM_FORMAT_ENCODING", b"K\0"), b"\x89"),
    )
    return instance("TensorStorageMetadata", fields(properties=properties, size=size(shape), chunks=listed(*chunks)))


VALUE = instance("BytesStorageMetadata", b"}")


def place(name, offset=None):
    """The index of an item: of a value, or of the part of a tensor at an offset."""
    return instance(
        "MetadataIndex", fields(fqn=text(name), offset=b"N" if offset is None else size(offset), index=b"N")
    )


def info(offset, length, file=FILE, **more):
    state = fields(relative_path=text(file), offset=integer(offset), length=integer(length), **more)
    return instance("_StorageInfo", state, "torch.distributed.checkpoint.filesystem")


def pickled(state, storage, paths=None, **more):
    """.metadata, from lists of keys and values."""
    planner = b"N" if paths is None else mapped(paths)
    return (
        b"\x80\x02"
        + instance(
            "Metadata",
            fields(state_dict_metadata=mapped(state), planner_data=planner, storage_data=mapped(storage), **more),
        )
        + b"."
    )


def zipped(entries, deflated=()):
    made, directory = b"", b""
    for name, data in entries.items():
        method, crc, length = 8 * (name in deflated), zlib.crc32(data), len(data)
        if method:
            # One block that is stored.
            data = b"\1" + struct.pack("<HH", length, ~length & 0xFFFF) + data
        common = struct.pack("<HHHIIIIH", 20, 0, method, 0, crc, len(data), length, len(name))
        directory += (
            b"PK\1\2" + struct.pack("<H", 20) + common + bytes(12) + struct.pack("<I", len(made)) + name.encode()
        )
        made += b"PK\3\4" + common + bytes(2) + name.encode() + data
    end = struct.pack("<HHHHIIH", 0, 0, len(entries), len(entries), len(directory), len(made), 0)
    return made + directory + b"PK\5\6" + end


def saved(shape, data, strides=None, storage="ByteStorage", width=1, deflated=(), around=lambda made: made, more=b""):
    """A file of torch.save() with a tensor, or with what `around` makes of it."""
    if strides is None:
        strides = [1] * len(shape)
        for axis in range(len(shape) - 1, 0, -1):
            strides[axis - 1] = strides[axis] * shape[axis]
    key = group(text("storage"), named("torch", storage), text("0"), text("cpu"), integer(len(data) // width)) + b"Q"
    rebuilt = call(
        "torch._utils",
        "_rebuild_tensor_v2",
        key,
        integer(0),
        group(*map(integer, shape)),
        group(*map(integer, strides)),
        b"\x89",
        call("collections", "OrderedDict"),
        more,
    )
    return zipped({"a/data.pkl": b"\x80\x02" + around(rebuilt) + b".", "a/data/0": data}, deflated)


def saved_value(opcodes):
    return zipped({"a/data.pkl": b"\x80\x02" + opcodes + b"."})


def parameter(made):
    return call("torch._utils", "_rebuild_parameter", made, b"\x88", call("collections", "OrderedDict"))


class Folder:
    """A checkpoint in the making: the tensor "other", which is good, and what a case adds."""

    def __init__(self):
        self.state, self.storage, self.paths, self.files, self.more = [], [], [], {}, {}
        self.cut("other", (2,), ((0,), (2,), b"ok"), file="__1_0.distcp")

    def item(self, data, file=FILE):
        at = len(self.files.get(file, b""))
        self.files[file] = self.files.get(file, b"") + data
        return at, len(data), file

    def cut(self, name, shape, *parts, file=FILE):
        """A tensor in parts: each has an offset, a shape and bytes."""
        for offset, axes, data in parts:
            self.storage.append((place(name, offset), info(*self.item(saved(axes, data), file))))
        self.state.append((text(name), tensor(shape, *(box(offset, axes) for offset, axes, _ in parts))))
        return self

    def value(self, name, opcodes):
        self.storage.append((place(name), info(*self.item(saved_value(opcodes)))))
        self.state.append((text(name), VALUE))
        return self

    def path(self, name, *parts):
        self.paths.append((text(name), group(*parts)))
        return self
