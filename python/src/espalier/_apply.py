"""Updates of arrays in memory by the patches of a checkpoint."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from . import _core
from ._checkpoint import Checkpoint
from ._errors import EspalierError, Unsupported
from ._options import Path, check_bool, check_threads
from ._progress import Progress, reporting
from ._tree import DICT, DTYPE_NAMES, RECORD, below

if TYPE_CHECKING:
    import numpy as np


class Update:
    """What turns arrays in memory into those of a checkpoint: see prepare_update().

    The arrays have `chunks` chunks of up to 1 MiB: `unchanged` hold the checkpoint's state already, `patched` were patched, and
    `read` were read whole. commit() writes `changed_bytes` bytes. `values` has the checkpoint's other values by key path, such
    as a step.
    """

    chunks: int
    unchanged: int
    patched: int
    read: int
    changed_bytes: int
    values: dict[str, Any]

    def __init__(self, core: _core.PreparedUpdate, arrays: list[Any], values: dict[str, Any]):
        self._core = core
        self._arrays: list[Any] = arrays  # whose memory commit() writes to, and where that was
        self.values = values
        self.chunks, self.unchanged, self.patched, self.read, self.changed_bytes = core.counts

    def commit(self) -> None:
        """Writes the changes into the arrays. It reads nothing and takes the time of copying what changed: pause what reads
        the arrays for it. A second call does nothing. Raises EspalierError, and writes nothing, if an array has other memory
        by now."""
        for path, array, memory in self._arrays:
            if _memory_of(path, array)[2:] != memory:
                raise EspalierError(f"{path or 'the root'}: the array was resized or moved since the update was prepared", path=path)
        self._core.commit()
        self._arrays = []

    def __repr__(self) -> str:
        return (
            f"<update of {self.chunks} chunks: {self.unchanged} unchanged, {self.patched} patched, {self.read} read, "
            f"{self.changed_bytes} bytes change>"
        )


def prepare_update(
    path: Path,
    arrays: Any,
    *,
    at: str | None = None,
    strict: Literal[True, "template"] = True,
    read_others: bool = False,
    progress: Progress = None,
    threads: int = 0,
    storage_options: Mapping[str, Any] | None = None,
) -> Update:
    """Prepares to bring arrays in memory to the state of a checkpoint that was saved against an earlier one of theirs.

    `arrays` is an array of numpy, a tensor of torch on the CPU, a module, or dicts, lists and tuples of these, as the
    checkpoint has them (or what is `at` a key path of it). They hold the state of a base of the checkpoint, of any of the
    steps that it has patches for, or its own. Each MiB is compared by its hash. Where the file has a patch for it, the patch
    is applied to a copy and the result compared with its hash; the elements that differ are kept, at 6 bytes each for
    bfloat16. No array changes before commit(), which reads no file. So an error leaves the arrays as they are, and you can
    repeat an update.

    Raises Corrupt (code "base_mismatch") if an array is of none of these steps; with `read_others`, what differs there is read
    whole, if its files are there. The dtypes and shapes must be those of the file, and the file has no further arrays, or
    `strict="template"` leaves them out. Do not change the arrays before commit(). A path with "://" is a URL, as open() says.
    """
    check_bool("read_others", read_others)
    if strict not in (True, "template"):
        raise EspalierError(f'strict must be True or "template", not {strict!r}')
    count = check_threads(threads)
    with Checkpoint(path, mapped=False, threads=count, storage_options=storage_options) as checkpoint:
        file = checkpoint._opened
        node, where = (file.state, "") if at is None else checkpoint._find_path(file.state, at)
        matched = _Matched(file)
        matched.match(node, where, arrays)
        if strict is True:
            matched.check_complete(node, where)
        with reporting(progress, f"preparing an update from {checkpoint.name}") as report:
            core = file.prepare_update(matched.nodes, matched.memory, read_others, count, report)
        values = {path: file.load(each, True, False) for path, each in _leaves(file, node, where) if file.array(each) is None}
    return Update(core, matched.arrays, values)


def apply(
    path: Path,
    arrays: Any,
    *,
    at: str | None = None,
    strict: Literal[True, "template"] = True,
    read_others: bool = False,
    progress: Progress = None,
    threads: int = 0,
    storage_options: Mapping[str, Any] | None = None,
) -> Update:
    """Brings arrays in memory to the state of a checkpoint, by its patches: prepare_update(), and its commit()."""
    update = prepare_update(
        path, arrays, at=at, strict=strict, read_others=read_others, progress=progress, threads=threads,
        storage_options=storage_options,
    )  # fmt: skip
    update.commit()
    return update


def _leaves(file: _core.File, node: int, path: str) -> Iterator[tuple[str, int]]:
    """The nodes below one that have no children, with their key paths; empty containers, too."""
    pending = [(path, node)]
    while pending:
        path, node = pending.pop()
        if not DICT <= file.kind(node) <= RECORD or file.size(node) == 0:
            yield path, node
            continue
        children = list(zip(file.keys(node), file.children(node), strict=True))
        pending.extend((below(path, key), child) for key, child in reversed(children))


class _Matched:
    """Finds the file's tensor for each array."""

    def __init__(self, file: _core.File):
        self._file = file
        self.nodes: list[int] = []
        self.memory: list[tuple[int, int]] = []
        self.arrays: list[Any] = []

    def match(self, node: int, path: str, value: Any) -> None:
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.nn.Module):
            value = dict(value.state_dict())
        if isinstance(value, Mapping):
            self._match_all(node, path, dict(value))
        elif isinstance(value, (list, tuple)):
            self._match_all(node, path, dict(enumerate(value)))
        else:
            self._add(node, path, value, *_memory_of(path, value))

    def _match_all(self, node: int, path: str, values: dict[Any, Any]) -> None:
        there: dict[Any, int] = {}
        if DICT <= self._file.kind(node) <= RECORD:
            there = dict(zip(self._file.keys(node), self._file.children(node), strict=True))
        for key, value in values.items():
            inside = below(path, key)
            if key not in there:
                raise EspalierError(
                    f"{inside}: the checkpoint has nothing there; leave it out, or say with at= which part of it this is",
                    path=inside,
                )
            self.match(there[key], inside, value)

    def _add(self, node: int, path: str, array: Any, dtype: int, shape: tuple[int, ...], address: int, size: int) -> None:
        found = self._file.array(node)
        if found is None:
            raise EspalierError(f"{path or 'the root'}: the checkpoint has no array there", path=path)
        if found[1:3] != (dtype, shape):
            raise EspalierError(
                f"{path or 'the root'}: the checkpoint has {DTYPE_NAMES[found[1]]} {list(found[2])} there, and the array is "
                f"{DTYPE_NAMES[dtype]} {list(shape)}",
                path=path,
            )
        self.nodes.append(node)
        self.memory.append((address, size))
        self.arrays.append((path, array, (address, size)))

    def check_complete(self, node: int, path: str) -> None:
        """Checks that every tensor of the file has an array: a model with a part of an older step would be wrong in silence."""
        matched = set(self.nodes)
        numbers = {found[0] for each in self.nodes if (found := self._file.array(each)) is not None}
        for inside, each in _leaves(self._file, node, path):
            found = self._file.array(each)
            if found is not None and each not in matched and found[0] not in numbers and not found[4]:
                raise EspalierError(
                    f'{inside}: the checkpoint has an array there, and none is given; give it, or leave it out with '
                    'strict="template"',
                    path=inside,
                )


def _refuse(path: str, what: str) -> Unsupported:
    return Unsupported(f"{path or 'the root'}: {what}", path=path)


def _memory_of(path: str, value: Any) -> tuple[int, tuple[int, ...], int, int]:
    """An array's dtype, shape, address and bytes."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _of_torch(path, value)
    return _of_numpy(path, value)


def _of_numpy(path: str, value: Any) -> tuple[int, tuple[int, ...], int, int]:
    numpy = sys.modules.get("numpy")
    if numpy is None or type(value) is not numpy.ndarray:
        raise _refuse(path, f"a {type(value).__name__} cannot be updated in place; leave it out, and look into `values`")
    from . import _dtypes

    array: np.ndarray[Any, Any] = value
    number = _dtypes.by_dtype().get(array.dtype)
    if number is None:
        raise _refuse(path, f"an array of {array.dtype} does not lie in memory as in a file; load the checkpoint instead")
    if not array.flags.c_contiguous:
        raise _refuse(path, "the array is not contiguous in C order; give one that is")
    if not array.flags.writeable:
        raise _refuse(path, "the array is read-only, as load() gives it; copy it once")
    return number, array.shape, array.ctypes.data, array.nbytes


def _of_torch(path: str, value: Any) -> tuple[int, tuple[int, ...], int, int]:
    from . import _torch

    try:
        # Others, such as a DTensor, have no memory of their own where data_ptr() says.
        _torch.check(value)
        _torch.check_storage(value)
    except Unsupported as error:
        raise _refuse(path, str(error)) from None
    if value.device.type != "cpu":
        raise _refuse(path, f"a tensor on {value.device} cannot be updated in place; update a copy on the CPU, and copy it over")
    number = _torch.by_dtype().get(value.dtype)
    if number is None or value.is_conj() or value.is_neg():
        raise _refuse(path, f"a tensor of {value.dtype} like this does not lie in memory as in a file")
    if not value.is_contiguous():
        raise _refuse(path, "the tensor is not contiguous; give one that is")
    shape = _torch.shape_of(value)
    return number, shape, value.data_ptr(), value.numel() * value.element_size()
