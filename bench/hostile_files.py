"""The safetensors files that bench/hostile.py reads, and what the specification says about each.

The specification is the section "Format" of the README of huggingface/safetensors.
"""

import dataclasses
import json
import pathlib
import struct
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOSTILE = ROOT / "tests/corrupt"
GOOD = ROOT / "tests/data/safetensors"
MIB, GIB = 1 << 20, 1 << 30
HEADER = 64 * MIB
MANY = 1_000_000

FORBIDDEN, VALID, OPEN, CARRIED = "forbidden", "valid", "open", "carried"

TWICE = "duplicate keys are disallowed, but \"not all parsers may respect this\""
NO_BOUND = "no bound is given"
LEFT_OPEN = {
    "name-twice": TWICE, "name-twice-empty": TWICE, "name-twice-by-escape": TWICE, "name-twice-apart": TWICE,
    "tensor-dtype-twice": TWICE, "tensor-shape-twice": TWICE, "tensor-data_offsets-twice": TWICE,
    "tensor-dtype-twice-by-escape": TWICE, "metadata-key-twice": TWICE, "metadata-key-twice-by-escape": TWICE,
    "metadata-twice": TWICE, "metadata-twice-by-escape": TWICE,
    "padded-with-newline": "padding is spaces; JSON allows other white space",
    "padded-with-tab": "padding is spaces; JSON allows other white space",
    "tensor-with-another-field": "further fields are not mentioned",
    "tensor-product-wraps-before-0": "no elements, but the product passes 2^64 on the way",
    "rank-65": NO_BOUND,
    "place-empty-inside-another": "overlaps are ruled out, but no byte is in both",
}  # fmt: skip


@dataclasses.dataclass
class File:
    """`rule` is one of the words above; `why` explains an open question. `make` writes a file that is made each time."""
    name: str
    rule: str
    why: str = ""
    path: pathlib.Path = None
    make: Callable = None


def hostile():
    """The corpus, except for files that only lowered limits refuse."""
    for entry in json.loads((HOSTILE / "expected.json").read_text()):
        if not entry["file"].endswith(".safetensors"):
            continue
        path = HOSTILE / "files" / entry["file"]
        name = path.stem.removeprefix("safetensors-")
        if entry["found_by"] == "restore":
            yield File(name, CARRIED, path=path)
        elif "limits" not in entry:
            yield File(name, OPEN if name in LEFT_OPEN else FORBIDDEN, LEFT_OPEN.get(name, ""), path)


def limited():
    """The number of corpus files left out: with the default limits they are not hostile."""
    entries = json.loads((HOSTILE / "expected.json").read_text())
    return sum(e["file"].endswith(".safetensors") and e["found_by"] == "open" and "limits" in e for e in entries)


def good():
    for path in sorted(GOOD.glob("*.safetensors")):
        yield File(f"{path.stem} (a good file)", VALID, path=path)


def write(path, pieces, data=0, length=None):
    """A file of header pieces and `data` zero bytes, as a hole; `length` is N if it is not the header's length."""
    with open(path, "wb") as file:
        file.write(bytes(8))
        for piece in pieces:
            file.write(piece)
        end = file.tell()
        file.seek(0)
        file.write(struct.pack("<Q", end - 8 if length is None else length))
        file.truncate(end + data)


def repeated(text, count):
    """`text` repeated, in portions that keep this script small: its own memory would count as a reader's."""
    portion = max(1, MIB // len(text))
    for done in range(0, count, portion):
        yield text * min(portion, count - done)


def fill(begin, middle, end, size=HEADER):
    """A header of at most `size` bytes: `begin`, then `middle` repeated, then `end`."""
    yield begin
    yield from repeated(middle, (size - len(begin) - len(end)) // len(middle))
    yield end


def nest(begin, opening, core, closing, end, size=HEADER):
    """The same with an opening text repeated, then a closing text as often."""
    count = (size - len(begin) - len(core) - len(end)) // (len(opening) + len(closing))
    yield begin
    yield from repeated(opening, count)
    yield core
    yield from repeated(closing, count)
    yield end


def members(texts, size=10_000):
    """An object of many members, joined in portions."""
    yield b"{"
    portion, first = [], True
    for text in texts:
        portion.append(text)
        if len(portion) == size:
            yield (b"" if first else b",") + b",".join(portion)
            portion, first = [], False
    if portion:
        yield (b"" if first else b",") + b",".join(portion)
    yield b"}"


def tensor(name, begin, end, size=None):
    size = end - begin if size is None else size
    return b'"%s":{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]}' % (name, size, begin, end)


def names(count=MANY):
    return (b"t%06d" % i for i in range(count))


def row(count=MANY):
    """Tensors of one byte, one behind the other."""
    return (tensor(name, i, i + 1) for i, name in enumerate(names(count)))


def chained(*iterables):
    for iterable in iterables:
        yield from iterable


def pairs(keys):
    return chained([b'{"__metadata__":'], members(b'"%s":"v"' % key for key in keys), [b"}"])


def large():
    """Files that cost a reader time or memory: most headers have 64 MiB or a million members."""
    def case(name, rule, make, why=""):
        return File(f"large: {name}", rule, why, make=make)

    def header(name, rule, pieces, data=0, why=""):
        return case(name, rule, lambda path: write(path, pieces(), data), why)

    yield header("nested arrays", FORBIDDEN, lambda: nest(b'{"t":', b"[", b"", b"]", b"}"))
    yield header("nested objects", FORBIDDEN, lambda: nest(b'{"t":', b'{"t":', b"0", b"}", b"}"))
    yield header("nested arrays in only 32 kB", FORBIDDEN, lambda: nest(b'{"t":', b"[", b"", b"]", b"}", 32_000))
    yield header("nested arrays in metadata", FORBIDDEN, lambda: nest(
        b'{"__metadata__":{"k":', b"[", b"", b"]", b"}}"))
    yield header("nested arrays, never closed", FORBIDDEN, lambda: fill(b'{"t":', b"[", b""))
    yield header("an array of 33 million numbers", FORBIDDEN, lambda: fill(b'{"t":[1', b",1", b"]}"))
    yield header("a number of 64 MiB in a shape", FORBIDDEN, lambda: fill(
        b'{"t":{"dtype":"U8","shape":[1', b"0", b'],"data_offsets":[0,1]}}'), 1)
    yield header("a string of 64 MiB without an end", FORBIDDEN, lambda: fill(b'{"', b"a", b""))
    yield header("a million tensors", VALID, lambda: members(row()), MANY)
    yield header("a million tensors, last byte first", VALID, lambda: members(
        tensor(name, MANY - i - 1, MANY - i) for i, name in enumerate(names())), MANY)
    yield header("a million empty tensors", VALID, lambda: members(tensor(name, 0, 0) for name in names()))
    yield header("a million tensors, the last overlaps", FORBIDDEN, lambda: members(
        chained(row(MANY - 1), [tensor(b"last", MANY - 2, MANY)])), MANY)
    yield header("a million tensors, all in the same byte", FORBIDDEN, lambda: members(
        tensor(name, 0, 1) for name in names()), 1)
    yield header("a million tensors, the last one twice", OPEN, lambda: members(
        chained(row(), [tensor(b"t999999", MANY - 1, MANY)])), MANY, TWICE)
    yield header("a million times the same tensor", OPEN, lambda: members(
        tensor(b"t", 0, 1) for _ in range(MANY)), 1, TWICE)
    yield header("a million pairs of metadata", VALID, lambda: pairs(names()))
    yield header("a million times the same pair", OPEN, lambda: pairs(b"k" for _ in range(MANY)), why=TWICE)
    yield header("a metadata value of 64 MiB", VALID, lambda: fill(b'{"__metadata__":{"k":"', b"a", b'"}}'))
    yield header("a metadata value of 64 MiB in escapes", VALID, lambda: fill(
        b'{"__metadata__":{"k":"', rb"\ud83d\ude00", b'"}}'))
    yield header("a tensor's name of 64 MiB", OPEN, lambda: fill(
        b'{"', b"n", tensor(b"", 0, 1)[1:] + b"}"), 1, NO_BOUND)
    yield header("a shape of 33 million ones", OPEN, lambda: fill(
        b'{"t":{"dtype":"U8","shape":[1', b",1", b'],"data_offsets":[0,1]}}'), 1, NO_BOUND)
    yield header("64 MiB of white space", VALID, lambda: fill(b"{", b" ", b"}"))
    yield header("a header of 100,000,000 bytes", VALID, lambda: fill(b"{}", b" ", b"", 100_000_000))
    yield header("a header of 100,000,001 bytes", OPEN, lambda: fill(b"{}", b" ", b"", 100_000_001),
                 why="100 MB is given as the bound of the reference library")
    yield case("N = 2^63", FORBIDDEN, lambda path: write(path, [b"{}"], 4096, 2**63))
    yield case("N = 3 GiB, of zeros", FORBIDDEN, lambda path: write(path, [], 3 * GIB, 3 * GIB))
    yield header("a tensor of 3 GiB", VALID, lambda: members([tensor(b"t", 0, 3 * GIB)]), 3 * GIB)
