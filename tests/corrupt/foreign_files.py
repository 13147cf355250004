"""Files of other formats, byte by byte: zip archives, arrays of NumPy, files of torch.save().

Each number of an archive may be another than it should be. The checks read a file with Python's own modules, which share
no code with the library: what they accept is valid.
"""

import ast
import io
import pickle
import struct
import zipfile
import zlib
from dataclasses import dataclass, field

# --- Zip archives ---------------------------------------------------------------------------------

DESCRIPTOR = 8  # The flag.


def raw_deflate(data):
    """A deflate stream of stored blocks, which no version of a compressor changes."""
    return b"\1" + struct.pack("<HH", len(data), len(data) ^ 0xFFFF) + data


@dataclass
class Entry:
    """`central` and `local` replace numbers of the two headers, by the names below."""

    name: bytes
    data: bytes = b""
    packed: "bytes | None" = None  # What the archive holds, if not `data`.
    method: int = 0
    flags: int = 0
    local_extra: bytes = b""
    central_extra: bytes = b""
    after: bytes = b""  # A descriptor, or a gap.
    central: dict = field(default_factory=dict)
    local: dict = field(default_factory=dict)


def headers(entry, offset):
    """The local header and the one in the directory, with their names and extra fields."""
    packed = entry.data if entry.packed is None else entry.packed
    numbers = {
        "signature": b"PK\3\4", "needed": 20, "flags": entry.flags, "method": entry.method, "time": 0, "date": 33,
        "crc": zlib.crc32(entry.data), "stored": len(packed), "length": len(entry.data),
        "name_bytes": len(entry.name), "extra_bytes": len(entry.local_extra), "name": entry.name,
    }  # fmt: skip
    # The writer of a descriptor does not know sizes yet.
    late = {"crc": 0, "stored": 0, "length": 0} if entry.flags & DESCRIPTOR else {}
    local = numbers | late | entry.local
    first = local.pop("signature")
    name = local.pop("name")
    local = first + struct.pack("<HHHHHIIIHH", *local.values()) + name + entry.local_extra
    numbers |= {"signature": b"PK\1\2", "extra_bytes": len(entry.central_extra), "comment_bytes": 0, "disk": 0,
                "attributes": 0, "more_attributes": 0, "offset": offset}  # fmt: skip
    central = numbers | entry.central
    first = central.pop("signature")
    name = central.pop("name")
    return local, first + struct.pack("<HHHHHHIIIHHHHHII", 20, *central.values()) + name + entry.central_extra


def archive(files, *, before=b"", comment=b"", zip64=None, between=b"", **end):
    """`before` is counted in all offsets. `end` replaces numbers of the end record. `zip64` makes the records of ZIP64,
    with the numbers in it replaced. `between` stands between the directory and the end records."""
    body, directory = before, b""
    for entry in files:
        local, central = headers(entry, len(body))
        body += local + (entry.data if entry.packed is None else entry.packed) + entry.after
        directory += central
    end = {"signature": b"PK\5\6", "disk": 0, "directory_disk": 0, "disk_entries": len(files), "entries": len(files),
           "size": len(directory), "offset": len(body), "comment_bytes": len(comment)} | end  # fmt: skip
    records = b""
    if zip64 is not None:
        large = {"signature": b"PK\6\6", "record": 44, "made": 45, "needed": 45, "disk": 0, "directory_disk": 0,
                 "disk_entries": len(files), "entries": len(files), "size": len(directory), "offset": len(body),
                 "middle": b"", "locator": b"PK\6\7", "locator_disk": 0,
                 "at": len(body + directory + between), "disks": 1} | zip64  # fmt: skip
        records = struct.pack("<4sQHHIIQQQQ", *list(large.values())[:10]) + large["middle"]
        records += struct.pack("<4sIQI", *list(large.values())[11:])
    return body + directory + between + records + struct.pack("<4sHHHHIIH", *end.values()) + comment


def directory_at(data):
    """Where the directory of a whole archive begins."""
    return struct.unpack_from("<I", data, data.rindex(b"PK\5\6") + 16)[0]


def check_zip(data):
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        assert opened.testzip() is None
        return {name: opened.read(name) for name in opened.namelist()}


# --- Arrays ---------------------------------------------------------------------------------------


def npy_header(text, version=1, length=None):
    """A header with the text of a Python dict, padded as NumPy does."""
    raw = text.encode("latin-1") if isinstance(text, str) else text
    prelude = 10 if version == 1 else 12
    raw += b" " * (-(prelude + len(raw) + 1) % 64) + b"\n"
    count = len(raw) if length is None else length
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", count) + raw


def npy_text(descr="'|u1'", order="False", shape="(4,)"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"


def npy(data=b"data", **members):
    return npy_header(npy_text(**members)) + data


def check_npy(data):
    assert data[:6] == b"\x93NUMPY"
    (length,) = struct.unpack_from("<H" if data[6] == 1 else "<I", data, 8)
    at = 10 if data[6] == 1 else 12
    header = ast.literal_eval(data[at : at + length].decode("latin-1"))
    assert set(header) == {"descr", "fortran_order", "shape"}
    return header


# --- Pickles --------------------------------------------------------------------------------------


def text(value):
    """A text, as protocol 2 writes it."""
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def integer(value):
    if 0 <= value < 256:
        return b"K" + bytes([value])
    if -(2**31) <= value < 2**31:
        return b"J" + struct.pack("<i", value)
    raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


def call(module, name, arguments):
    """A call of a function with what `arguments` leaves on the stack, a tuple."""
    return b"c" + module.encode() + b"\n" + name.encode() + b"\n" + arguments + b"R"


def tuple_of(*values):
    return b"(" + b"".join(values) + b"t"


def sizes(*numbers):
    return tuple_of(*map(integer, numbers))


def storage(key="0", numel=4, cls="FloatStorage", location="cpu", module="torch", view=None):
    """A reference to a storage. A file from before 1.6 has a sixth part."""
    parts = [text("storage"), f"c{module}\n{cls}\n".encode(), text(key), text(location), integer(numel)]
    return tuple_of(*parts, *([view] if view else [])) + b"Q"


def tensor(of=None, offset=0, size=(4,), stride=(1,), more=b"\x89)", name="_rebuild_tensor_v2"):
    """`more`: requires_grad and hooks, and what else follows."""
    of = storage() if of is None else of
    return (f"ctorch._utils\n{name}\n".encode() + b"(" + of + integer(offset) + sizes(*size) + sizes(*stride) +
            more + b"tR")  # fmt: skip


def pickled(body, protocol=2):
    return b"\x80" + bytes([protocol]) + body + b"."


class Seen(dict):
    """An instance of any class: takes whatever a pickle does to it."""

    def __init__(self, *arguments):
        super().__init__()
        self.arguments = arguments

    def __hash__(self):
        return id(self)

    def __setstate__(self, state):
        self.state = state

    def __call__(self, *arguments):
        return Seen(*arguments)

    def append(self, value):
        pass

    def extend(self, values):
        pass


class Reader(pickle.Unpickler):
    """Runs a pickle and calls nothing but Seen."""

    def find_class(self, module, name):
        return type(name, (Seen,), {"__module__": module})

    def persistent_load(self, pid):
        return Seen(pid)


def check_pickle(data):
    """The pickle must end exactly where the bytes end."""
    stream = io.BytesIO(data)
    Reader(stream).load()
    assert stream.tell() == len(data)


def torch_archive(pickle_bytes, storages=None, *, more=(), folder=b"archive", **end):
    """What torch.save() writes since 1.6, without its padding."""
    storages = {"0": bytes(16)} if storages is None else storages
    entries = [Entry(folder + b"/data.pkl", pickle_bytes)]
    entries += [Entry(folder + b"/data/" + key.encode(), data) for key, data in storages.items()]
    return archive([*entries, *more], **end)


LEGACY = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03."
SYSTEM = b"}(" + text("protocol_version") + b"M\xe9\x03" + text("little_endian") + b"\x88u"


def legacy(body, keys=("0",), storages=None, *, system=SYSTEM, key_list=None, after=b""):
    """What torch.save() wrote before 1.6: five pickles and the storages, each with its number of elements."""
    storages = [(4, bytes(16))] if storages is None else storages
    key_list = b"](" + b"".join(map(text, keys)) + b"e" if key_list is None else key_list
    data = b"".join(struct.pack("<q", count) + raw for count, raw in storages)
    return LEGACY + pickled(system) + pickled(body) + pickled(key_list) + data + after


def check_legacy(data):
    stream = io.BytesIO(data)
    for _ in range(5):
        Reader(stream).load()
