"""The files of the processes of a job: each has the tensors and parts of tensors that torch plans for a process, and one file
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
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex, TensorStorageMetadata
from torch.distributed.checkpoint.planner import WriteItem, WriteItemType
from torch.distributed.checkpoint.storage import WriteResult

from .. import _api, _core
from .._checkpoint import Checkpoint
from .._errors import CheckpointExists, CheckpointOSError, EspalierError
from .._torch import by_dtype
from .._tree import DTYPE_NAMES, below
from .._wrappers import Placeholder

Part = tuple[int, str, list[int]]  # the number of its file, its key path there, and its offset in the whole


_CHUNK = 1 << 20  # bytes; docs/format.md


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
    items: Iterable[tuple[WriteItem, Any]],
    own: Mapping[str, Any] | None = None,
    runs: Collection[str] = (),
    **options: Any,
) -> list[WriteResult]:
    """Writes the file of a process. With `own`, what it has beside its items, these are under "parts". `runs` are the names of
    tensors to cut into runs. Options are those of save()."""
    state: dict[str, Any] = {}
    placed = [(item, *(_add_runs if item.index.fqn in runs else _add)(state, item, data)) for item, data in items]
    before: tuple[str, ...] = () if own is None else ("parts",)
    # Parts of one tensor may overlap in memory, if the program gave it twice.
    _api.save(path, state if own is None else {"parts": state, **own}, views="copy", **options)
    with Checkpoint(path) as checkpoint:
        digest = checkpoint.digest
    return [
        WriteResult(
            index=item.index,
            size_in_bytes=item.tensor_storage_size() or 0,
            storage_data=Place(path.name, digest, (*before, *keys), found),
        )
        for item, keys, found in placed
    ]


def _add(state: dict[str, Any], item: WriteItem, data: Any) -> tuple[tuple[str | int, ...], tuple[()]]:
    """Puts an item into the state of a file, and returns the keys to it."""
    name = item.index.fqn
    if item.type == WriteItemType.BYTE_IO:
        state[name] = data.getvalue()
        return (name,), ()
    chunk, data = item.tensor_data.chunk, data.detach()
    if chunk.sizes == item.tensor_data.size and name not in state:
        state[name] = data
        return (name,), ()
    parts = state.setdefault(name, [])
    parts.append({"offsets": tuple(chunk.offsets), "data": data})
    return (name, len(parts) - 1, "data"), ()


def _add_runs(state: dict[str, Any], item: WriteItem, data: Any) -> tuple[tuple[str | int, ...], tuple[tuple[int, int], ...]]:
    """The same for rows, as runs."""
    name, chunk, elements = item.index.fqn, item.tensor_data.chunk, data.detach().reshape(-1)
    row, step = math.prod(chunk.sizes[1:]), _CHUNK // data.element_size()
    start = chunk.offsets[0] * row
    end = start + len(elements)
    first = min(-(-start // step) * step, end)
    last = end if chunk.offsets[0] + chunk.sizes[0] == item.tensor_data.size[0] else max(end // step * step, first)
    parts = state.setdefault(name, [])
    found = []
    for begin, stop in ((start, first), (first, last), (last, end)):
        if begin < stop:
            found.append((len(parts), begin))
            parts.append({"offsets": (begin,), "data": elements[begin - start : stop - start]})
    return (name,), tuple(found)


def cut_in_rows(metadata: Metadata) -> set[str]:
    """The names of the tensors that can be cut into runs: each of their parts has whole rows."""
    found = set()
    for name, each in metadata.state_dict_metadata.items():
        if isinstance(each, TensorStorageMetadata) and len(each.chunks) > 1 and not _is_pairs(each):
            if all(chunk.sizes[1:] == each.size[1:] for chunk in each.chunks if math.prod(chunk.sizes)):
                found.add(name)
    return found


def _is_pairs(each: TensorStorageMetadata) -> bool:
    """Whether an item of torch has two elements."""
    return bool(each.properties.dtype == getattr(torch, "float4_e2m1fn_x2", None))


def files_of(metadata: Metadata) -> list[str]:
    """The names of the files that have the items."""
    return sorted({place.file for place in metadata.storage_data.values()})


def whole(metadata: Metadata, name: str, numbers: Mapping[str, int]) -> tuple[Placeholder, list[Part]]:
    """What a tensor is that was saved in parts, and its parts. `numbers` has those of the files."""
    each: TensorStorageMetadata = metadata.state_dict_metadata[name]
    twice = _is_pairs(each)
    parts: list[Part] = []
    for chunk in each.chunks:
        if math.prod(chunk.sizes):
            place = metadata.storage_data[MetadataIndex(name, chunk.offsets)]
            where = functools.reduce(below, place.keys, "")
            parts += [(numbers[place.file], f"{where}/{i}/data", [begin]) for i, begin in place.runs]
            if not place.runs:
                parts.append((numbers[place.file], where, list(_doubled(chunk.offsets, twice))))
    return Placeholder(DTYPE_NAMES[by_dtype()[each.properties.dtype]], _doubled(each.size, twice)), parts


def _doubled(numbers: Any, twice: bool) -> tuple[int, ...]:
    """Of elements, where an item of torch has two."""
    return (*numbers[:-1], 2 * numbers[-1]) if twice else tuple(numbers)


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
