"""Open checkpoints: handles that read only what is asked for."""

from __future__ import annotations

import functools
import operator
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from . import _core, _frameworks, _near, _urls
from ._errors import Corrupt, EspalierError, KeyPathError, SliceError, Unsupported
from ._options import check_bool, check_text, check_threads
from ._progress import reporting
from ._tree import ATTRIBUTES, DICT, DTYPE_NAMES, KIND_NAMES, PLACEHOLDER, RECORD, TENSOR, below
from ._visible import visible
from ._wrappers import AxisNamed, Labelled, Packed, Placeholder

if TYPE_CHECKING:
    import numpy as np

Path = str | bytes | os.PathLike[str]
Check = Literal["hashes", "nothing"]
Progress = bool | Callable[[int, int], object] | None


class Note(NamedTuple):
    """What was noticed when a file of another format was opened."""

    kind: Literal["loss", "warning", "code"]
    """A loss: the checkpoint lacks something that the file has. A warning: something may not be what it seems. Code: the
    program that the file's format belongs to would import or call what it names; nothing was run here."""
    path: str
    """The key path that it is about; empty for the whole file. Exact: escape it before you print it."""
    message: str
    """One sentence, in which names from the file are escaped."""


class VerifyReport(NamedTuple):
    """What verify() checked, all of it intact."""

    chunks: int
    bytes: int
    has_hashes: bool
    checksums: int = 0
    """Of a format without hashes: what was compared in their place, such as the CRC-32 of zip archives. None: nothing was."""


def _checks(check: str) -> bool:
    if check not in ("hashes", "nothing"):
        raise EspalierError(f'check must be "hashes" or "nothing", not {check!r}')
    return check == "hashes"


def _check_exact(exact: bool, framework: str) -> None:
    check_bool("exact", exact)
    if framework != "numpy":
        _frameworks.adapter(framework)
        if exact:
            raise EspalierError("exact=True gives arrays of numpy; leave out framework=")


def load_node(
    file: Checkpoint,
    node: int,
    path: str,
    check: bool,
    exact: bool,
    framework: _frameworks.Framework,
    progress: Progress = None,
) -> Any:
    """All below a node, as Python objects."""
    try:
        with reporting(progress, f"loading {file.name}") as report:
            value = file._opened.load(node, check, exact, framework, report)
    except Unsupported as error:
        raise located(error, file, path) from None
    if not exact:
        file._restore_attributes(value, path)
    return value


def find_path(file: Checkpoint, node: int, path: str) -> tuple[int, str]:
    """What a key path leads to from a node, and the path as it is printed."""
    opened = file._opened
    check_text("a key path", path)
    try:
        return opened.at(node, path), opened.printed_path(node, path)
    except KeyPathError as error:
        raise _near.explained(error, opened, node) from None


def located(error: Unsupported, file: Checkpoint, path: str) -> BaseException:
    """The same error with the path of the first tensor below this one that it is of: arrays are made by those who do not know
    theirs.
    """
    is_of = getattr(error, "is_of", None)
    if is_of is None:
        return error
    from ._encode import at_path

    for found, each in file.find("**"):
        is_below = not path or found == path or found.startswith(f"{path}/")
        if is_below and isinstance(each, Tensor) and is_of(each):
            return at_path(error, found)
    return error


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
        """The name of the element type: "f32", "bf16", "f8_e4m3fn", ... `numpy_dtype` is that of numpy."""
        return DTYPE_NAMES[self._parts[1]]

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The dtype of an array of such elements: float32 for "f32", and ml_dtypes' bfloat16 for "bf16"."""
        from . import _dtypes

        found = _dtypes.numpy_dtype(self.dtype)
        if found is None:
            lacks = _dtypes.lacks(self.dtype)
            raise Unsupported(f"numpy has no dtype for {self.dtype}{lacks}", "unrepresentable", self.path)
        return found

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
        if not isinstance(value, (numpy.ndarray, numpy.generic)):  # a key of JAX, or what numpy has no dtype for
            value = self._core.load(self._node, _checks(check), True)
            value = value.value if isinstance(value, Labelled) else value
            value = value.array if isinstance(value, AxisNamed) else value
        if isinstance(value, (Placeholder, Packed)):
            why = "a placeholder, which has no data" if isinstance(value, Placeholder) else f"of {value.dtype}, which numpy lacks"
            raise Unsupported(f"{self.path or 'the root'} is {why}", path=self.path)
        array: np.ndarray[Any, Any] = numpy.asarray(value)
        return array.copy() if writable else array

    def torch(self, device: Any = None, *, check: Check = "hashes") -> Any:
        """The elements as a torch.Tensor that is yours to change, on the CPU or a device. See load(framework="torch")."""
        made = self._core.load(self._node, _checks(check), False, "torch")
        if isinstance(made, Packed):
            raise Unsupported(f"{self.path or 'the root'}: torch has no tensor of {made.dtype}", path=self.path)
        if not hasattr(made, "to"):  # a scalar of numpy
            import torch

            made = torch.from_numpy(self.numpy(writable=True))
        return made if device is None else made.to(device)

    def jax(self, sharding: Any = None, *, check: Check = "hashes") -> Any:
        """The elements as a jax.Array, on a device or with a sharding, whose parts are then read one by one."""
        if hasattr(sharding, "device_set") and len(sharding.device_set) > 1:
            return _frameworks.adapter("jax").sharded(self, sharding)
        made = load_node(self._file, self._node, self.path, _checks(check), False, "jax")
        if sharding is None:
            return made
        import jax

        return jax.device_put(made, sharding)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        import numpy

        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(f"an array of {dtype} is a copy")
            return array.astype(dtype)
        return numpy.array(array) if copy else array

    def __getitem__(self, index: Any) -> np.ndarray[Any, Any]:
        array: np.ndarray[Any, Any] = self._slice(index, "numpy")
        return array

    def _slice(self, index: Any, framework: _frameworks.Framework) -> Any:
        """The elements at an index of ints, slices and an ellipsis, as an array of the framework."""
        axes = list(index) if isinstance(index, tuple) else [index]
        at = next((i for i, item in enumerate(axes) if item is Ellipsis), None)
        if at is not None:
            if any(item is Ellipsis for item in axes[at + 1 :]):
                raise SliceError("an index has at most one ellipsis")
            axes[at : at + 1] = [slice(None)] * (self.ndim - len(axes) + 1)
        if len(axes) > self.ndim:
            raise SliceError(f"{self.path or 'the tensor'} has {self.ndim} axes, and {len(axes)} are indexed")
        ranges, dropped = [], []
        for axis, (item, length) in enumerate(zip(axes, self.shape, strict=False)):
            if isinstance(item, slice):
                step = 1 if item.step is None else position_of(item.step)
                if step < 1:
                    raise SliceError("a step must be positive; turn the array around once it is read")
                ranges.append((_index(item.start), _index(item.stop), step))
                continue
            position = position_of(item)
            if not -length <= position < length:
                raise SliceError(f"index {position} is outside of axis {axis}, which has {length} elements")
            position %= length
            ranges.append((position, position + 1, 1))
            dropped.append(axis)
        array = self._core.slice(self._node, ranges, framework)
        if dropped and isinstance(array, Packed):
            raise SliceError(f"{self.path or 'the tensor'}: its elements have no type here, so none can be taken; take a slice, [0:1]")
        return array.squeeze(tuple(dropped)) if dropped else array

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor without axes has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        kind = "placeholder" if self.is_placeholder else "tensor"
        return f"<{kind} {visible(self.path or '(root)')}: {self.dtype} {list(self.shape)}, {self.nbytes:,} bytes>"

    def _repr_html_(self) -> str:
        from . import _html

        return _html.of_tensor(self._core, self._node, self.path, self.axis_names, self.hash)


def _index(value: Any) -> int | None:
    return None if value is None else position_of(value)


def position_of(value: Any) -> int:
    # For numpy and torch, True is a mask, and an array is a list of positions even if it has one.
    if not isinstance(value, bool) and not getattr(value, "ndim", 0):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise SliceError(
        f"{type(value).__name__} is no index of a tensor in a file: ints, slices and an ellipsis are; for more, "
        "index the array of numpy()"
    )


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
            return self._core.find_key(self._node, key) if self._has_keys and _is_text(key) else None
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
                hint = "; [] takes one position, so load() it for slices" if isinstance(key, slice) else ""
                raise SliceError(f"{self.path or 'the root'} is a {kind} of {len(self)} elements; {key!r} is not in it{hint}")
            hint = _near.hint(self._core, self._node, key) if isinstance(key, str | int) else ""
            if isinstance(key, str) and ("/" in key or "." in key):
                hint += "; [] takes one key, and at() a key path"
            raise KeyPathError(f"{self.path or 'the root'} is a {kind} without the key {key!r}{hint}", "not_found")
        if not self._has_keys and isinstance(key, int) and key < 0:
            key += len(self)
        return _wrap(self._file, found, self._below(key))

    def get(self, key: str | int, default: Any = None) -> Any:
        return self[key] if key in self else default

    def at(self, path: str) -> Any:
        """What is at a key path below this node: `at("model/layers/0/weight")`, or with dots."""
        node, printed = find_path(self._file, self._node, path)
        full = f"{self.path}/{printed}" if self.path and printed else self.path or printed
        return _wrap(self._file, node, full)

    def load(
        self,
        *,
        check: Check = "hashes",
        exact: bool = False,
        framework: _frameworks.Framework = "numpy",
        progress: Progress = None,
    ) -> Any:
        """All below this node as Python objects: see espalier.load()."""
        _check_exact(exact, framework)
        self._file._tell_notes(self.path)
        return load_node(self._file, self._node, self.path, _checks(check), exact, framework, progress)

    def __repr__(self) -> str:
        count = len(self)
        return f"<{self.kind} {visible(self.path or '(root)')}: {count} {'child' if count == 1 else 'children'}>"

    def _repr_html_(self) -> str:
        from . import _html

        return _html.of_node(self._core, self._node, f"<b>{_html.text(self.path or '(root)')}</b>")


def _is_text(key: str) -> bool:
    """Whether a file can have such a key: not one with lone surrogates."""
    return key.isascii() or not any("\ud800" <= character <= "\udfff" for character in key)


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

    _told = False

    def __init__(
        self,
        path: Path,
        *,
        mapped: bool = True,
        nest: bool = False,
        threads: int = 0,
        storage_options: Mapping[str, Any] | None = None,
    ):
        threads, mapped, nest = check_threads(threads), check_bool("mapped", mapped), check_bool("nest", nest)
        if isinstance(path, bytes) and path.startswith(b"\x89ESPL"):
            raise EspalierError("these are the bytes of a file, not its name; load_bytes() reads them")
        self._options = {"mapped": mapped, "nest": nest, "threads": threads, "storage_options": storage_options}
        self._open: _core.File | None
        if _urls.is_url(path):
            self._path = os.fsdecode(path)
            self.name = _urls.shown(self._path)
            if _urls.is_http(self._path):
                headers, timeout = _urls.http_options(self._path, storage_options)
                self._open = _core.File.open_url(self._path, headers, timeout, self.name, nest, threads)
            else:
                reader = _urls.Reader(self._path, storage_options)
                self._open = _core.File.open_source(reader, reader.sibling, reader.name, self.name, nest, threads)
        else:
            _urls.check_options(storage_options)
            self.name = os.fsdecode(path)
            self._path = os.path.abspath(self.name)
            self._open = _core.File.open(os.fsencode(path), mapped, nest, threads)

    @classmethod
    def of_bytes(cls, data: bytes, *, nest: bool = False, threads: int = 0) -> Checkpoint:
        """A file in memory, which is copied once. It does not pickle."""
        # bytes(5) would be five zeros.
        content = bytes(memoryview(data))
        made = cls.__new__(cls)
        made._options, made.name, made._path = {}, f"{len(content):,} bytes in memory", ""
        made._open = _core.File.open_bytes(content, check_bool("nest", nest), check_threads(threads))
        return made

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
        return self._opened.load(self._opened.metadata, True, check_bool("exact", exact))

    @property
    def digest(self) -> str | None:
        """One hash of the whole tree, equal for equal states however they are stored; None without hashes."""
        return self._opened.digest

    @property
    def format(self) -> str:
        """The file's format: "espalier", "safetensors", "torch", "npz", "gguf", "sharded", "dcp" and so on."""
        return self._opened.format

    @property
    def notes(self) -> list[Note]:
        """What the checkpoint lacks, or what may be wrong with it, although it opened: code that the file names, files that
        are missing, then the first 1,000 notes of other kinds. An intact Espalier file has none.
        """
        _, listed = self._opened.notes()
        return [Note(*note) for note in listed]

    def _tell_notes(self, within: str = "") -> None:
        """Warns, once, of code that the file names, and if a load of what is at the path `within` cannot give what the
        file has.
        """
        if self._told or self.format == "espalier":
            return
        self._told = True
        count, listed = self._opened.notes()
        others = " (open(...).notes has all)" if count > 1 else ""

        def warn(category: type[UserWarning], told: list[tuple[str, str]]) -> None:
            if told:
                import warnings

                # Several: the first of a file that means harm is harmless.
                said = " ".join(f"{path}: {message}" if path else message for path, message in told[:5])
                more = f" And {len(told) - 5} more of this kind." if len(told) > 5 else ""
                warnings.warn(visible(f"{self.name}: {said}{more}{others}"), category, stacklevel=5)

        from ._errors import CodeWarning, LossWarning

        # For the whole file: loading a part of it with pickle runs all of it.
        warn(CodeWarning, [(path, message) for kind, path, message in listed if kind == "code"])
        warn(LossWarning, [(path, message) for kind, path, message in listed if kind == "loss"
                           and (not path or not within or path == within or path.startswith(within + "/"))])  # fmt: skip

    @functools.cached_property
    def _attributes(self) -> Any:
        try:
            return self._opened.load(self._opened.at(self._opened.metadata, ATTRIBUTES), True, False)
        except (KeyPathError, Unsupported):
            return None

    def _restore_attributes(self, value: Any, path: str) -> None:
        """Sets the attributes of the dicts in what was loaded from `path`, if the file has any."""
        if self._attributes is not None and isinstance(value, (dict, list, tuple)):
            from ._attributes import restore

            restore(self._attributes, value, path)

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
        node, printed = find_path(self, self._opened.state, path)
        return _wrap(self, node, printed)

    def find(self, pattern: str) -> list[tuple[str, Any]]:
        """Paths of all that a pattern such as "**/weight" matches, and what is there, parents first.

        As with at(), that is a Tensor, a Node, or a plain value such as 1 or None. A match brings all
        that is below it: `find("model")` gives that node and all in it, and `find("")` and `find("*")` all of the file,
        the first with the root. For tensors alone:
        `[(path, found) for path, found in checkpoint.find("") if isinstance(found, espalier.Tensor)]`.
        """
        found = self._opened.find(check_text("a pattern", pattern))
        return [(path, _wrap(self, node, path)) for path, node in found]

    def load(
        self,
        *,
        check: Check = "hashes",
        exact: bool = False,
        framework: _frameworks.Framework = "numpy",
        progress: Progress = None,
    ) -> Any:
        """The whole state as Python objects: see espalier.load()."""
        _check_exact(exact, framework)
        self._tell_notes()
        return load_node(self, self._opened.state, "", _checks(check), exact, framework, progress)

    def verify(self, *, progress: Progress = None) -> VerifyReport:
        """Checks every byte of the file. Raises Corrupt, whose `errors` lists what is damaged."""
        with reporting(progress, f"verifying {self.name}") as report:
            has_hashes, chunks, size, checksums, count, errors = self._opened.verify(report)
        if count == 0:
            return VerifyReport(chunks, size, has_hashes, checksums)
        more = f", and {count - 1} more" if count > 1 else ""
        first = errors[0]
        damaged = Corrupt(f"{first}{more}", first.code, first.path, first.offset)
        damaged.errors = errors
        raise damaged

    def __reduce__(self) -> tuple[object, ...]:
        if not self._path:
            raise TypeError(visible(f"{self.name}: a checkpoint of bytes has no name to open it again by"))
        return _reopen, (self._path, self._options, self.digest)

    def __repr__(self) -> str:
        if self._open is None:
            return f"<closed checkpoint {visible(self.name)}>"
        return f"<checkpoint {visible(self.name)}: {self.state!r}, digest {self.digest}>"

    def _repr_html_(self) -> str:
        from . import _html

        return _html.of_checkpoint(self.name, self._open)


def _reopen(path: str, options: dict[str, Any], digest: str | None) -> Checkpoint:
    checkpoint = Checkpoint(path, **options)
    if checkpoint.digest != digest:
        other = f"its digest is {checkpoint.digest}"
        raise EspalierError(f"{checkpoint.name}: the file is not the one that was pickled: {other}")
    return checkpoint
