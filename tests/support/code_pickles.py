"""Checkpoints whose pickles name code in every way that a pickle can, put together byte by byte.

Nothing here is ever loaded with Python's pickle. What each file names is `posix.system`, with a command that would make the
file CANARY: if a reader ran it, the file would be there.
"""

import json
import pathlib
import struct
import sys
from dataclasses import dataclass

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "corrupt"))

import dcp_files as dcp  # noqa: E402
from foreign_files import (  # noqa: E402
    Entry, archive, integer, legacy, npy, pickled, storage, tensor, text, torch_archive, tuple_of,
)  # fmt: skip

CANARY = "espalier-canary"
CODE = "posix.system"

ARGUMENT = text(f"touch {CANARY}")
ARGUMENTS = ARGUMENT + b"\x85"
GLOBAL = b"cposix\nsystem\n"
STACK_GLOBAL = text("posix") + text("system") + b"\x93"
OBJECT = b"cbuiltins\nobject\n"

# Each leaves one value on the stack, in protocol 4. Every opcode that can name a class or a function, or call it, is in one.
CALLS = {
    "GLOBAL REDUCE": GLOBAL + ARGUMENTS + b"R",
    "STACK_GLOBAL REDUCE": STACK_GLOBAL + ARGUMENTS + b"R",
    "SHORT_BINUNICODE STACK_GLOBAL": b"\x8c\5posix\x8c\6system\x93" + ARGUMENTS + b"R",
    "from the memo": GLOBAL + b"q\x070h\x07" + ARGUMENTS + b"R",
    "by DUP": GLOBAL + b"2" + ARGUMENTS + b"R\x86",
    "INST": b"(" + ARGUMENT + b"iposix\nsystem\n",
    "OBJ": b"(" + GLOBAL + ARGUMENT + b"o",
    "NEWOBJ": GLOBAL + ARGUMENTS + b"\x81",
    "NEWOBJ_EX": GLOBAL + ARGUMENTS + b"}" + text("k") + ARGUMENT + b"s\x92",
    "BUILD": b"cm\nC\n)\x81" + GLOBAL + ARGUMENTS + b"Rb",
    "BUILD of an instance": GLOBAL + b")\x81}" + text("k") + ARGUMENT + b"sb",
    "popped": GLOBAL + ARGUMENTS + b"R0N",
    "popped to a mark": b"N(" + GLOBAL + ARGUMENTS + b"R1",
    "in the memo alone": GLOBAL + ARGUMENTS + b"Rq\x070N",
    "argument of data": b"ccollections\nOrderedDict\n" + GLOBAL + ARGUMENTS + b"R\x85R",
    "hooks of a tensor": None,  # see checkpoints()
    "key of a dict": b"}" + GLOBAL + ARGUMENTS + b"RNs",
    "element of a set": b"\x8f(" + GLOBAL + ARGUMENTS + b"R\x90",
    "item of an object": b"ccollections\nOrderedDict\n)R" + text("k") + GLOBAL + ARGUMENTS + b"Rs",
    "class with its source": tuple_of(text("module"), GLOBAL, text("f"), text("s")) + b"Q)\x81",
    "reconstructor": b"ccopyreg\n_reconstructor\n" + GLOBAL + OBJECT + b"N\x87R",
    "of a call": b"cbuiltins\ngetattr\n" + GLOBAL + text("__call__") + b"\x86R" + ARGUMENTS + b"R",
}
BARE = {
    "GLOBAL": GLOBAL,
    "STACK_GLOBAL": STACK_GLOBAL,
    "BINSTRING STACK_GLOBAL": b"U\5posixU\6system\x93",
    "from the memo": GLOBAL + b"q\x070h\x07",
    "popped": GLOBAL + b"0N",
    "popped to a mark": b"N(" + STACK_GLOBAL + b"1",
    "in the memo alone": GLOBAL + b"q\x070N",
    "in a tuple": GLOBAL + b"\x85",
    "in a list": b"](" + STACK_GLOBAL + b"e",
    "in a frozenset": b"(" + GLOBAL + b"\x91",
    "key of a dict": b"}" + STACK_GLOBAL + b"Ns",
    "factory": b"ccollections\ndefaultdict\n" + GLOBAL + b"\x85R",
    "state": b"cm\nC\n)\x81}" + text("k") + GLOBAL + b"sb",
    "type of a tensor": b"ctorch._tensor\n_rebuild_from_type_v2\n" + tuple_of(
        b"ctorch._utils\n_rebuild_tensor_v2\n", GLOBAL,
        tuple_of(storage(), integer(0), tuple_of(integer(4)), tuple_of(integer(1)), b"\x89", b")"), b"}") + b"R",
}  # fmt: skip
# It has a storage, which only an archive has here.
IN_ARCHIVES = {"type of a tensor"}


@dataclass
class Checkpoint:
    """`opens`: the file to open. `says`: a part of the note, or of the error if it does not open."""

    name: str
    files: dict
    opens: str
    is_open: bool = True
    says: str = ""

    def write(self, folder):
        """Puts the files into `folder`, and gives what to open."""
        for name, data in self.files.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return pathlib.Path(folder) / self.opens


def scalar():
    """A scalar of NumPy: a tensor in the pickle itself."""
    return (b"cnumpy.core.multiarray\nscalar\n" + b"cnumpy\ndtype\n" + text("f4") + b"\x85R" + b"C\4\0\0\x80\x3f" + b"\x86R")  # fmt: skip


def note(verb):
    return f"Loading this with pickle would {verb} {CODE}"


def with_value(name, value, verb, in_archive=False):
    """A checkpoint with a tensor and `value`, in each container."""
    says = note(verb)
    body = b"](" + tensor() + value + b"e"
    yield Checkpoint(f"{name}, .pt", {"a.pt": torch_archive(pickled(body, 4))}, "a.pt", says=says)
    if in_archive:
        return
    shard = pickled(b"}(" + text("0") + tensor() + text("1") + value + b"u", 4)
    index = json.dumps({"weight_map": {"0": "m.bin", "1": "m.bin"}}).encode()
    yield Checkpoint(f"{name}, shard", {"m.bin": torch_archive(shard), "m.index.json": index}, "m.index.json", says=says)
    view = b"](" + tensor(of=storage(view=b"N")) + value + b"e"
    yield Checkpoint(f"{name}, .pt from before 1.6", {"a.pt": legacy(view)}, "a.pt", says=says)
    plain = b"](" + scalar() + value + b"e"
    yield Checkpoint(f"{name}, pickle", {"a.pkl": pickled(plain, 4)}, "a.pkl", says=says)
    # Without the opcode of the protocol.
    old = b"]q\0(" + scalar() + value + b"e."
    yield Checkpoint(f"{name}, old pickle", {"a.pkl": old}, "a.pkl", says=says)
    yield from in_folder(f"{name}, .metadata", says, more={"version": value})
    yield from in_folder(f"{name}, item", says, item=value)


def in_folder(name, says, more=None, item=None):
    """A distributed checkpoint."""
    made = dcp.Folder()
    made.more = more or {}
    if item is not None:
        made.value("v", item)
    metadata = dcp.pickled(made.state, made.storage, made.paths, **made.more)
    files = {"run/.metadata": metadata} | {f"run/{name}": data for name, data in made.files.items()}
    yield Checkpoint(name, files, "run/.metadata", says=says)


def hooks(value):
    return b"](" + tensor(more=b"\x89" + value) + b"e"


def second_pickles():
    """Behind a whole pickle, where scanners do not look."""
    evil = pickled(GLOBAL + ARGUMENTS + b"R", 4)
    bare = pickled(GLOBAL, 4)
    harmless = pickled(b"](" + scalar() + b"e", 4)
    says = "with another pickle"
    for name, more in {"a call": evil, "a bare name": bare, "two pickles": pickled(b"N") + evil}.items():
        for kind, data in {"a.pkl": harmless + more, "a.pt": torch_archive(pickled(b"](" + tensor() + b"e", 4) + more),
                           "old.pt": legacy(tensor(of=storage(view=b"N")), after=more)}.items():  # fmt: skip
            yield Checkpoint(f"{name} behind {kind}", {kind: data}, kind, is_open=False, says=says)


def refused():
    """Without tensors, a pickle that calls something is no checkpoint."""
    call = GLOBAL + ARGUMENTS + b"R"
    would = f"would call {CODE}"
    yield Checkpoint("only a call", {"a.pkl": pickled(call, 4)}, "a.pkl", False, would)
    yield Checkpoint("only a call, .pt", {"a.pt": torch_archive(pickled(call, 4))}, "a.pt", False, would)
    yield Checkpoint("only a call, protocol 0", {"a.pkl": b"cposix\nsystem\n(S'id'\ntR."}, "a.pkl", False, would)
    yield Checkpoint("only a call by INST", {"a.pkl": b"(S'id'\niposix\nsystem\n."}, "a.pkl", False, would)
    for name, opcode in {"EXT1": b"\x82\1", "EXT2": b"\x83\1\0", "EXT4": b"\x84\1\0\0\0", "PERSID": b"Pposix.system\n"}.items():
        says = "the pickle needs something outside it"
        yield Checkpoint(name, {"a.pkl": pickled(b"](" + scalar() + opcode + b"e", 4)}, "a.pkl", False, says)
    objects = npy(pickled(call, 4), descr="'|O'", shape="()")
    yield Checkpoint("array of objects", {"a.npy": objects}, "a.npy", False, "would run")
    wrapped = b"\x80\3cjoblib.numpy_pickle\nNumpyArrayWrapper\n)\x81}b\x0b\x0c\x0d"
    yield Checkpoint("joblib with arrays", {"a.joblib": wrapped}, "a.joblib", False, "joblib wrote this file")


def checkpoints():
    for name, value in CALLS.items():
        if value is None:
            body = pickled(hooks(GLOBAL + ARGUMENTS + b"R"), 4)
            yield Checkpoint(f"call: {name}, .pt", {"a.pt": torch_archive(body)}, "a.pt", says=note("call"))
            continue
        verb = "import" if name == "of a call" else "call"
        yield from with_value(f"call: {name}", value, verb)
    for name, value in BARE.items():
        yield from with_value(f"bare: {name}", value, "import", name in IN_ARCHIVES)
    yield from second_pickles()
    yield from refused()
