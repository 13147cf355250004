"""Open checkpoints: handles that read only what is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from . import _core
from ._errors import Corrupt, EspalierError, KeyPathError
from ._tree import DICT, KIND_NAMES, PLACEHOLDER, RECORD, TENSOR, below

if TYPE_CHECKING:
    import numpy as np

Path = str | bytes | os.PathLike[str]
Check = Literal["hashes", "nothing"]
Progress = bool | Callable[[int, int], object] | None


class VerifyReport(NamedTuple):
    """What verify() checked, all of it intact."""

    chunks: int
    bytes: int
    has_hashes: bool


def _checks(check: str) -> bool:
    if check not in ("hashes", "nothing"):
        raise EspalierError(f'check must be "hashes" or "nothing", not {check!r}')
    return check == "hashes"


class _Handle:
    """A place in a file. Immutable, so threads can share it; it pickles as the file's path and its own."""

    __slots__ = ("_file", "_node", "path")

    def __init__(self, file: Checkpoint, node: int, path: str):
        self._file = file
        self._node = node
        self.path = path

    @property
    def _core(self) -> _core.File:
        return self._file._opened

    @property
    def label(self) -> str | None:
        """The type that the value had in its program, such as "collections.OrderedDict"."""
        return self._core.label(self._node)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Handle):
            return NotImplemented
        return self._file is other._file and self._node == other._node

    def __hash__(self) -> int:
        return hash((id(self._file), self._node))

    def __reduce__(self) -> tuple[object, ...]:
        return _at, (self._file, self.path)


class Tensor(_Handle):
    """A tensor in a file. Slicing it reads only the chunks that the slice needs: `tensor[0:128, :3]`."""

    __slots__ = ("_parts",)

    def __init__(self, file: Checkpoint, node: int, path: str):
        super().__init__(file, node, path)
        self._parts = file._opened.tensor(node)

    @property
    def dtype(self) -> str:
        """The name of the element type: "f32", "bf16", "f8_e4m3fn", ..."""
        from . import _dtypes

        return _dtypes.NAMES[self._parts[1]]

    @property
    def shape(self) -> tuple[int, ...]:
        return self._parts[2]

    @property
    def ndim(self) -> int:
        return len(self._parts[2])

    @property
    def axis_names(self) -> tuple[str, ...]:
        """A name for each axis, or nothing."""
        return self._parts[3]

    @property
    def block(self) -> tuple[str, int, int] | None:
        """The name, elements and bytes of a quantised block, if the dtype is "opaque"."""
        return self._parts[4]

    @property
    def nbytes(self) -> int:
        return self._parts[5]

    @property
    def stored_bytes(self) -> int:
        """Bytes in the file: fewer than `nbytes` if the tensor is compressed."""
        return self._parts[6]

    @property
    def is_placeholder(self) -> bool:
        """Whether the file has no data for it."""
        return self._parts[7]

    @property
    def hash(self) -> str | None:
        """A hash of dtype, shape and contents, equal for equal tensors of any file; None without hashes."""
        return self._parts[8]

    def numpy(self, *, writable: bool = False, check: Check = "hashes") -> np.ndarray[Any, Any]:
        """The elements: a read-only view of the mapped file if possible, or with `writable` a copy of your own."""
        import numpy

        value = self._core.load(self._node, _checks(check), False)
        array: np.ndarray[Any, Any] = value if isinstance(value, numpy.ndarray) else numpy.asarray(value)
        return array.copy() if writable else array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        import numpy

        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(f"an array of {dtype} is a copy")
            return array.astype(dtype)
        return numpy.array(array) if copy else array

    def __getitem__(self, index: Any) -> np.ndarray[Any, Any]:
        axes = list(index) if isinstance(index, tuple) else [index]
        if Ellipsis in axes:
            at = axes.index(Ellipsis)
            axes[at : at + 1] = [slice(None)] * (self.ndim - len(axes) + 1)
        if len(axes) > self.ndim:
            raise IndexError(f"{self.path or 'the tensor'} has {self.ndim} axes, and {len(axes)} are indexed")
        ranges, dropped = [], []
        for axis, (item, length) in enumerate(zip(axes, self.shape, strict=False)):
            if isinstance(item, slice):
                step = 1 if item.step is None else int(item.step)
                if step < 1:
                    raise IndexError("a step must be positive; turn the array around once it is read")
                ranges.append((_index(item.start), _index(item.stop), step))
                continue
            position = item.__index__()
            if not -length <= position < length:
                raise IndexError(f"index {position} is outside of axis {axis}, which has {length} elements")
            position %= length
            ranges.append((position, position + 1, 1))
            dropped.append(axis)
        array: np.ndarray[Any, Any] = self._core.slice(self._node, ranges)
        return array.squeeze(axis=tuple(dropped)) if dropped else array

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor without axes has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        kind = "placeholder" if self.is_placeholder else "tensor"
        return f"<{kind} {self.path or '(root)'}: {self.dtype} {list(self.shape)}, {self.nbytes:,} bytes>"


def _index(value: Any) -> int | None:
    return None if value is None else value.__index__()


class Node(_Handle):
    """A dict, record, list, tuple or set in a file.

    `node[key]` is exactly that key, a str or an int, or a position; it gives a Node, a Tensor, or a plain value.
    """

    __slots__ = ()

    @property
    def kind(self) -> str:
        """"dict", "record", "list", "tuple" or "set"."""
        return KIND_NAMES[self._core.kind(self._node)]

    @property
    def _has_keys(self) -> bool:
        return self._core.kind(self._node) in (DICT, RECORD)

    def __len__(self) -> int:
        return self._core.size(self._node)

    def keys(self) -> list[str | int]:
        """The keys in order; positions for a list, tuple or set."""
        return self._core.keys(self._node)

    def values(self) -> list[Any]:
        return [self._child(i, key) for i, key in enumerate(self.keys())]

    def items(self) -> list[tuple[str | int, Any]]:
        return [(key, self._child(i, key)) for i, key in enumerate(self.keys())]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys() if self._has_keys else self.values())

    def _child(self, i: int, key: str | int) -> Any:
        core = self._core
        return _wrap(self._file, core.child(self._node, i), self._below(key))

    def _below(self, key: str | int) -> str:
        return below(self.path, key)

    def _find(self, key: object) -> int | None:
        if type(key) is str:
            return self._core.find_key(self._node, key) if self._has_keys else None
        if isinstance(key, bool) or not hasattr(key, "__index__"):
            return None
        position = key.__index__()
        if not self._has_keys and position < 0:
            position += len(self)
        if not -(2**63) <= position < 2**63:
            return None
        return self._core.find_int(self._node, position)

    def __contains__(self, key: object) -> bool:
        return self._find(key) is not None

    def __getitem__(self, key: str | int) -> Any:
        found = self._find(key)
        if found is None:
            kind = self.kind
            if not self._has_keys:
                raise IndexError(f"{self.path or 'the root'} is a {kind} of {len(self)} elements; {key!r} is not in it")
            hint = ""
            if isinstance(key, str) and ("/" in key or "." in key):
                hint = "; [] takes one key, and at() a key path"
            raise KeyPathError(f"{self.path or 'the root'} is a {kind} without the key {key!r}{hint}", "not_found")
        if not self._has_keys and isinstance(key, int) and key < 0:
            key += len(self)
        return _wrap(self._file, found, self._below(key))

    def get(self, key: str | int, default: Any = None) -> Any:
        return self[key] if key in self else default

    def at(self, path: str) -> Any:
        """What is at a key path below this node: `at("model/layers/0/weight")`, or with dots."""
        core = self._core
        printed = core.printed_path(self._node, path)
        full = f"{self.path}/{printed}" if self.path and printed else self.path or printed
        return _wrap(self._file, core.at(self._node, path), full)

    def load(self, *, check: Check = "hashes", exact: bool = False) -> Any:
        """All below this node as Python objects: see espalier.load()."""
        return self._core.load(self._node, _checks(check), exact)

    def __repr__(self) -> str:
        count = len(self)
        return f"<{self.kind} {self.path or '(root)'}: {count} {'child' if count == 1 else 'children'}>"


def _wrap(file: Checkpoint, node: int, path: str) -> Any:
    kind = file._opened.kind(node)
    if kind in (TENSOR, PLACEHOLDER):
        return Tensor(file, node, path)
    if DICT <= kind <= RECORD:
        return Node(file, node, path)
    return file._opened.load(node, True, False)


def _at(file: Checkpoint, path: str) -> Any:
    return file.state.at(path) if isinstance(file.state, Node) else file.state


class Checkpoint:
    """An open file. `checkpoint["model"]` reads nothing but what it is asked for; load() reads all.

    Immutable, so threads can share it. It pickles as its path and digest, and is opened again where it is unpickled.
    close() ends reads through it; arrays that it gave out stay valid.
    """

    def __init__(self, path: Path, *, mapped: bool = True, nest: bool = False, threads: int = 0):
        self.name = os.fsdecode(path)
        self._options = {"mapped": mapped, "nest": nest, "threads": threads}
        self._open: _core.File | None = _core.File.open(os.fsencode(path), mapped, nest, threads)

    @property
    def _opened(self) -> _core.File:
        if self._open is None:
            raise EspalierError(f"{self.name}: this checkpoint was closed; open it again")
        return self._open

    def close(self) -> None:
        self._open = None

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def state(self) -> Any:
        """The root of the state: a Node, or a Tensor or plain value if that is all there is."""
        return _wrap(self, self._opened.state, "")

    @property
    def metadata(self) -> Any:
        """The file's metadata, as Python objects."""
        return self.load_metadata()

    def load_metadata(self, *, exact: bool = False) -> Any:
        """The same; with `exact` as load(exact=True) gives the state."""
        return self._opened.load(self._opened.metadata, True, exact)

    @property
    def digest(self) -> str | None:
        """One hash of the whole tree, equal for equal states however they are stored; None without hashes."""
        return self._opened.digest

    def _root(self) -> Node:
        root = self.state
        if not isinstance(root, Node):
            raise EspalierError(f"{self.name}: the state is one value; load() gives it", "wrong_kind")
        return root

    def __getitem__(self, key: str | int) -> Any:
        return self._root()[key]

    def __contains__(self, key: object) -> bool:
        return key in self._root()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._root())

    def __len__(self) -> int:
        return len(self._root())

    def keys(self) -> list[str | int]:
        return self._root().keys()

    def values(self) -> list[Any]:
        return self._root().values()

    def items(self) -> list[tuple[str | int, Any]]:
        return self._root().items()

    def get(self, key: str | int, default: Any = None) -> Any:
        return self._root().get(key, default)

    def at(self, path: str) -> Any:
        """What is at a key path: `at("model/layers/0/weight")`, or with dots."""
        opened = self._opened
        return _wrap(self, opened.at(opened.state, path), opened.printed_path(opened.state, path))

    def find(self, pattern: str) -> list[tuple[str, Any]]:
        """Paths and handles of all that a pattern such as "**/weight" matches, parents first."""
        return [(path, _wrap(self, node, path)) for path, node in self._opened.find(pattern)]

    def load(self, *, check: Check = "hashes", exact: bool = False) -> Any:
        """The whole state as Python objects: see espalier.load()."""
        return self._opened.load(self._opened.state, _checks(check), exact)

    def verify(self, *, progress: Progress = None) -> VerifyReport:
        """Checks every byte of the file. Raises Corrupt, whose `errors` lists what is damaged."""
        from ._progress import reporting

        with reporting(progress, f"verifying {self.name}") as report:
            has_hashes, chunks, size, count, errors = self._opened.verify(report)
        if count == 0:
            return VerifyReport(chunks, size, has_hashes)
        more = f", and {count - 1} more" if count > 1 else ""
        first = errors[0]
        damaged = Corrupt(f"{first}{more}", first.code, first.path, first.offset)
        damaged.errors = errors
        raise damaged

    def __reduce__(self) -> tuple[object, ...]:
        return _reopen, (os.path.abspath(self.name), self._options, self.digest)

    def __repr__(self) -> str:
        if self._open is None:
            return f"<closed checkpoint {self.name}>"
        return f"<checkpoint {self.name}: {self.state!r}, digest {self.digest}>"


def _reopen(path: str, options: dict[str, Any], digest: str | None) -> Checkpoint:
    checkpoint = Checkpoint(path, **options)
    if checkpoint.digest != digest:
        raise EspalierError(f"{path}: the file is not the one that was pickled: its digest is {checkpoint.digest}")
    return checkpoint
