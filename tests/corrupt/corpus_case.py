"""One hostile file, and the verdict of a correct reader."""

import pathlib
import struct
import sys
from dataclasses import dataclass, field

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "reference"))

import espalier_reference as reference
from espalier_build import build, from_tree
from index_edits import vector

INDEX = reference.HEADER_SIZE  # Where the index begins: the place of errors of the index as a whole.


@dataclass
class Case:
    """`at` is the byte to blame: a number, a (vector, row) of the index, or bytes of the file to find.

    None where a reader has a choice. The same holds for `path`. `found_by` is the first step that
    must fail: "open", "verify" (every byte is read, and the tensors stay readable), "read" (the same, but
    they do not) or "restore" (of the tree that a safetensors file carries). "opens": the file opens all
    the same, and a note says so; `code` is then "-". `says` is a part of the message, or of that of the
    note. `suffix` is that of the file, if not the usual one of its module. A checkpoint in several files
    is a folder: `opens` is the name of the file to open, and `beside` the other files by name. `limits`
    are those of the reader; others are the defaults. `reference_accepts`: the independent reader knows
    no limits.
    """

    name: str
    code: str
    data: bytes
    at: "int | tuple | bytes | None" = None
    path: "str | None" = None
    found_by: str = "open"
    limits: dict = field(default_factory=dict)
    reference_accepts: bool = False
    says: "str | None" = None
    suffix: "str | None" = None
    opens: "str | None" = None
    beside: dict = field(default_factory=dict)

    def offset(self):
        if isinstance(self.at, tuple):
            return offset_of_row(self.data, *self.at)
        if isinstance(self.at, bytes):
            return self.data.index(self.at)
        return self.at


def offset_of_row(data, name, number):
    """Where row `number` of a vector lies, by the references in the index itself."""
    (length,) = struct.unpack_from("<Q", data, 40)
    index = data[INDEX : INDEX + length]
    vectors = reference.VECTORS_OF_11
    names = [row[0] for row in vectors]
    size = reference.np.dtype(reference.RECORDS[vectors[names.index(name)][1]]).itemsize
    return INDEX + vector(names.index(name))(index) + 4 + number * size


def broken(value, *changes, metadata=None, **options):
    """The file of a tree after changes of its tables, with every hash mended.

    The file without them must be valid, so that it is the changes that are refused.
    """
    tables = from_tree(value, metadata)
    reference.verify(reference.open_file(build(tables)))
    for change in changes:
        change(tables)
    return build(tables, **options)
