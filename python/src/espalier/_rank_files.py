"""The files of the processes of a job: each has the tensors and parts of tensors that this process writes, and one file
of the whole state refers to them.

A whole tensor is under its name, and parts are a list of {"offsets", "data"}. Parts along the first axis may be runs of elements
instead, without their shape: then a run is cut where a MiB of the whole tensor begins, so that its chunks are chunks of the whole
tensor, too, and only what is left at its ends has to be copied into the file of the whole state.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import functools
import math
import os
import pathlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from . import _api, _core
from ._checkpoint import Checkpoint
from ._errors import CheckpointExists, CheckpointOSError, EspalierError
from ._tree import below
from ._wrappers import Placeholder

Numbers = tuple[int, ...]  # one for each axis
Part = tuple[int, str, list[int]]  # the number of its file, its key path there, and its offset in the whole

_CHUNK = 1 << 20  # bytes; docs/format.md
_PACKED = {"f4_e2m1fn", "i4", "u4", "i2", "u2", "f6_e2m3fn", "f6_e3m2fn", "opaque"}  # whose elements are no bytes


class Item(NamedTuple):
    """A tensor, or a part of it, that one process writes: where it begins in the whole, its shape, that of the whole, and its
    elements. Or bytes, without axes."""

    name: str
    offsets: Numbers
    shape: Numbers
    whole: Numbers
    data: Any


class Whole(NamedTuple):
    """A tensor that several processes write: the name of its dtype, its shape, and the offsets and shapes of its parts."""

    dtype: str
    shape: Numbers
    parts: list[tuple[Numbers, Numbers]]


@dataclasses.dataclass(frozen=True)
class Place:
    """Where an item is: the file and its digest, and the keys that lead to it. If it was cut into runs, the keys lead to a list,
    and `runs` tells which of its elements they are, and where in the whole tensor each begins."""

    file: str
    digest: str | None
    keys: tuple[str | int, ...]
    runs: tuple[tuple[int, int], ...] = ()


def write(
    path: pathlib.Path,
    items: Iterable[Item],
    own: Mapping[str, Any] | None = None,
    runs: Collection[str] = (),
    **options: Any,
) -> list[Place]:
    """Writes the file of a process, and returns where each item is. With `own`, what it has beside its items, these are under
    "parts". `runs` are the names of tensors to cut into runs. Options are those of save()."""
    state: dict[str, Any] = {}
    placed = [_add_runs(state, item) if item.name in runs else (_add(state, item), ()) for item in items]
    before: tuple[str, ...] = () if own is None else ("parts",)
    # Parts of one tensor may overlap in memory, if the program gave it twice.
    _api.save(path, state if own is None else {"parts": state, **own}, views="copy", **options)
    with Checkpoint(path) as checkpoint:
        digest = checkpoint.digest
    return [Place(path.name, digest, (*before, *keys), found) for keys, found in placed]


def _add(state: dict[str, Any], item: Item) -> tuple[str | int, ...]:
    """Puts an item into the state of a file, and returns the keys to it."""
    if item.shape == item.whole and item.name not in state:
        state[item.name] = item.data
        return (item.name,)
    parts = state.setdefault(item.name, [])
    parts.append({"offsets": item.offsets, "data": item.data})
    return (item.name, len(parts) - 1, "data")


def _add_runs(state: dict[str, Any], item: Item) -> tuple[tuple[str | int, ...], tuple[tuple[int, int], ...]]:
    """The same for rows, as runs."""
    elements = item.data.reshape(-1)
    step = _CHUNK // item.data.dtype.itemsize
    start = item.offsets[0] * math.prod(item.shape[1:])
    end = start + len(elements)
    first = min(-(-start // step) * step, end)
    last = end if end == math.prod(item.whole) else max(end // step * step, first)
    parts = state.setdefault(item.name, [])
    found = []
    for begin, stop in ((start, first), (first, last), (last, end)):
        if begin < stop:
            found.append((len(parts), begin))
            parts.append({"offsets": (begin,), "data": elements[begin - start : stop - start]})
    return (item.name,), tuple(found)


def can_be_runs(tensor: Whole) -> bool:
    """Whether each of several parts has whole rows, of elements that fill bytes."""
    rows = all(shape[1:] == tensor.shape[1:] for _, shape in tensor.parts if math.prod(shape))
    return len(tensor.parts) > 1 and rows and tensor.dtype not in _PACKED


def parts_of(tensor: Whole, places: Mapping[Numbers, Place], numbers: Mapping[str, int]) -> tuple[Placeholder, list[Part]]:
    """What stands for a tensor in the whole state, and its parts. `places` has those of its parts by their offsets, and `numbers`
    those of the files."""
    parts: list[Part] = []
    for offsets, shape in tensor.parts:
        if not math.prod(shape):
            continue
        place = places[offsets]
        where = functools.reduce(below, place.keys, "")
        parts += [(numbers[place.file], f"{where}/{i}/data", [begin]) for i, begin in place.runs]
        if not place.runs:
            parts.append((numbers[place.file], where, list(offsets)))
    return Placeholder(tensor.dtype, tensor.shape), parts


@contextlib.contextmanager
def locked(folder: pathlib.Path) -> Iterator[None]:
    """Lets one save at a time replace the index of a folder, and remove files: another one would remove the files of this one,
    to which no index refers yet. Then that one ends first, and this one finds that its files are missing."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            # Not every file system of a cluster has locks.
            if error.errno not in (errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                raise
        yield
    finally:
        os.close(descriptor)


def check_replaceable(path: pathlib.Path) -> None:
    """That a new file would not break another one of the folder."""
    if path.exists() and path.name in _needed(path.parent, {path.name}):
        raise CheckpointExists(
            f"{path}: another file of the folder refers to it, and would lose what it needs; save to another folder, "
            "or make that file whole first with `espalier flatten` (`espalier needs` tells what a file refers to)",
            "file_exists",
        )


def _needed(folder: pathlib.Path, leaving: set[str]) -> set[str]:
    """The names of what the files of a folder refer to, those in `leaving` not counted. An error if one of them cannot be
    read."""
    return {os.fsdecode(name) for name in _core.needed_files(os.fsencode(folder), [os.fsencode(name) for name in leaving])}


def remove_unneeded(folder: pathlib.Path, names: re.Pattern[str], used: set[str]) -> list[EspalierError]:
    """Removes the files with such names to which no file that stays refers, except those used. Returns what went wrong: the
    checkpoint is saved, so nothing here is an error."""
    leaving = {path.name for path in folder.iterdir() if names.fullmatch(path.name)} - used
    try:
        while leaving and (stays := leaving & _needed(folder, leaving)):
            leaving -= stays  # What stays may refer to others.
    except EspalierError as error:
        error.args = (f"{error}; nothing was removed, as this file may refer to others",)
        return [error]
    problems: list[EspalierError] = []
    for name in leaving:
        try:
            (folder / name).unlink(missing_ok=True)
        except OSError as error:
            problems.append(CheckpointOSError(f"{folder / name} cannot be removed: {error}", "io_error"))
    return problems
