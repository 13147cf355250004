"""safe_open: tensors of a file by their flat names."""

from __future__ import annotations

import importlib
import json
import os
from typing import TYPE_CHECKING, Any, Literal

from ... import _core
from ..._checkpoint import Checkpoint
from ..._errors import EspalierError, SliceError
from ..._tensor import Tensor, position_of
from ..._tree import DICT, DTYPE_NAMES, RECORD, TENSOR
from ..._wrappers import Packed

if TYPE_CHECKING:
    from types import TracebackType

    from ..._frameworks import Framework

# What safetensors calls the dtypes. It has none for the rest: c128, and integers below one byte.
DTYPES = {
    "bool": "BOOL", "i8": "I8", "u8": "U8", "i16": "I16", "u16": "U16", "i32": "I32", "u32": "U32", "i64": "I64",
    "u64": "U64", "f16": "F16", "bf16": "BF16", "f32": "F32", "f64": "F64", "c64": "C64", "f8_e4m3fn": "F8_E4M3",
    "f8_e5m2": "F8_E5M2", "f8_e4m3fnuz": "F8_E4M3FNUZ", "f8_e5m2fnuz": "F8_E5M2FNUZ", "f8_e8m0fnu": "F8_E8M0",
    "f4_e2m1fn": "F4", "f6_e2m3fn": "F6_E2M3", "f6_e3m2fn": "F6_E3M2",
}  # fmt: skip

# The limit for all names together: a small file can put a million nodes below one long key, which is terabytes.
_NAMES_LENGTH = 1 << 28

_FRAMEWORKS = {
    "np": "numpy", "numpy": "numpy", "pt": "torch", "torch": "torch", "pytorch": "torch", "flax": "jax", "jax": "jax",
}  # fmt: skip


def _flat(file: _core.File) -> dict[str, int]:
    """The nodes of the tensors by their names, in the order of the file. Not recursive: a file chooses its depth."""
    found: dict[str, int] = {}
    left = _NAMES_LENGTH
    waiting = [(file.state, "")]
    while waiting:
        node, name = waiting.pop()
        kind = file.kind(node)
        if kind == TENSOR:
            if name in found:
                # {"a.b": x, "a": {"b": y}}: one of them would silently hide the other.
                raise EspalierError(
                    f"two tensors are called {name!r} once their keys are joined with dots", "name_collision"
                )
            found[name] = node
        elif DICT <= kind <= RECORD:
            children = [
                (file.child(node, i), f"{name}.{key}" if node != file.state else str(key))
                for i, key in enumerate(file.keys(node))
            ]
            left -= sum(len(name) for _, name in children)
            if left < 0:
                raise EspalierError(
                    "the names of the tensors take too much memory; use espalier.open()", "limit_exceeded"
                )
            waiting.extend(reversed(children))
    return found


def _framework(name: str) -> Framework:
    known = _FRAMEWORKS.get(name)
    if known is None:
        raise EspalierError(f"framework {name!r} is none of {', '.join(_FRAMEWORKS)}")
    return known  # type: ignore[return-value]


class Converter:
    """Makes arrays of a framework, on a device, of those that the core gives."""

    def __init__(self, framework: str, device: Any):
        self.framework = _framework(framework)
        self._module: Any = importlib.import_module("jax.numpy" if self.framework == "jax" else self.framework)
        self._device = device
        if self.framework == "torch":
            try:
                self._device = self._module.device(device)
            except RuntimeError as error:
                raise EspalierError(f"device {device!r} is invalid: {error}") from None
        elif device != "cpu":
            raise EspalierError(f"device {device!r} is not supported for {self.framework}; leave it out")

    @property
    def core(self) -> Framework:
        """What the core is to make."""
        return "torch" if self.framework == "torch" else "numpy"

    def make(self, loaded: Any, name: str) -> Any:
        """Plain arrays that the caller may write to, as safetensors gives them."""
        import numpy as np

        if isinstance(loaded, Packed):
            raise EspalierError(f"{self.framework} has no elements for {name!r}, which is of {loaded.dtype}", path=name)
        if self.framework == "torch" and isinstance(loaded, self._module.Tensor):
            return loaded.detach().to(self._device)
        array = np.array(loaded)
        if array.dtype.kind in "mM":  # Its label says that these are dates; get_dtype() says I64.
            array = array.view(np.int64)
        if self.framework == "torch":  # Its label says that it is a scalar of numpy.
            return self._module.from_numpy(array).to(self._device)
        return array if self.framework == "numpy" else self._module.asarray(array)

    def make_all(self, file: _core.File, names: dict[str, int]) -> dict[str, Any]:
        loaded = file.load_nodes(list(names.values()), True, False, self.core)
        return {name: self.make(each, name) for name, each in zip(names, loaded, strict=True)}


def _positions(item: Any) -> list[int] | None:
    """The ints of a list or of an array of one axis; None for all else."""
    if getattr(item, "ndim", 0) == 1 and hasattr(item, "tolist"):
        item = item.tolist()
    is_list = isinstance(item, list) and all(hasattr(each, "__index__") and not isinstance(each, bool) for each in item)
    return [position_of(each) for each in item] if is_list else None


class Slice:
    """A tensor to index: reads only what the index needs."""

    def __init__(self, tensor: Tensor, name: str, converter: Converter):
        self._tensor, self._name, self._converter = tensor, name, converter

    def get_shape(self) -> list[int]:
        return list(self._tensor.shape)

    def get_dtype(self) -> str:
        """The dtype as safetensors has it, such as "BF16"; of the others Espalier's name in upper case."""
        dtype = self._tensor.dtype
        return DTYPES.get(dtype, dtype.upper())

    def __getitem__(self, index: Any) -> Any:
        axes = list(index) if isinstance(index, tuple) else [index]
        lists = [_positions(axis) for axis in axes]
        after: tuple[Any, ...] | None = None
        try:
            if any(axis is None or positions is not None for axis, positions in zip(axes, lists, strict=True)):
                axes, after = self._covering(axes, lists)
            sliced = self._tensor.sliced(tuple(axes), self._converter.core)
        except IndexError as error:
            raise SliceError(f"{self._name!r}: {error}") from None
        made = self._converter.make(sliced, self._name)
        try:
            return made if after is None else made[after]
        except (IndexError, RuntimeError) as error:  # Lists of two lengths, or a dtype torch does not index so.
            raise SliceError(f"{self._name!r}: {error}") from None

    def _covering(self, axes: list[Any], lists: list[list[int] | None]) -> tuple[list[Any], tuple[Any, ...]]:
        """The index of the slice that has all that lists of positions need, and what to index it with then. None is a new axis.

        The framework does the rest: what several lists and ints mean together differs between torch and numpy.
        """
        import numpy as np

        shape, count = self._tensor.shape, sum(item is not Ellipsis and item is not None for item in axes)
        if count > len(shape) or sum(item is Ellipsis for item in axes) > 1:
            raise SliceError(f"an index has at most {len(shape)} axes here, and one ellipsis")
        reading: list[Any] = []
        after: list[Any] = []
        for item, positions in zip(axes, lists, strict=True):
            if item is None:
                after.append(None)
                continue
            if item is Ellipsis or isinstance(item, slice):
                axis_count = len(shape) - count if item is Ellipsis else 1
                reading += [slice(None) if item is Ellipsis else item] * axis_count
                after += [slice(None)] * axis_count
                continue
            is_list = positions is not None
            if positions is None:
                positions = [position_of(item)]
            axis = len(reading)
            length = shape[axis]
            for position in positions:
                if not -length <= position < length:
                    raise SliceError(f"index {position} is outside of axis {axis}, which has {length} elements")
            places = [position % length for position in positions]
            first = min(places, default=0)
            reading.append(slice(first, max(places, default=-1) + 1))
            after.append(np.array([place - first for place in places], np.int64) if is_list else 0)
        if self._converter.framework == "torch":
            after = [item.tolist() if isinstance(item, np.ndarray) else item for item in after]
        return reading, tuple(after)


class safe_open:  # noqa: N801 (the name is safetensors')
    """Opens a file, and reads the tensors that are asked for: see safetensors.safe_open.

    `framework` is "pt" (or "torch"), "np" ("numpy") or "flax" ("jax"). `device` is a device of torch. `backend="pread"`
    reads into memory in place of mapping the file.
    """

    def __init__(
        self,
        filename: str | os.PathLike[str],
        framework: str,
        device: Any = "cpu",
        *,
        backend: str = "mmap",
    ):
        if backend not in ("mmap", "pread"):
            raise EspalierError(f'backend must be "mmap" or "pread", not {backend!r}')
        self._converter = Converter(framework, device)
        self._open: Checkpoint | None = Checkpoint(filename, mapped=backend == "mmap")
        self._open._tell_notes()
        self._names = _flat(self._open._opened)

    def __enter__(self) -> safe_open:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _traceback: TracebackType | None
    ) -> Literal[False]:
        self._open = None
        return False

    def _file(self) -> Checkpoint:
        if self._open is None:
            raise EspalierError("File is closed")
        return self._open

    def _node(self, name: str) -> int:
        if name not in self._names:
            raise EspalierError(f"File does not contain tensor {name}", "not_found")
        return self._names[name]

    def keys(self) -> list[str]:
        """The names of the tensors, sorted."""
        self._file()
        return sorted(self._names)

    def offset_keys(self) -> list[str]:
        """The names in the order of the file."""
        self._file()
        return list(self._names)

    def metadata(self) -> dict[str, str] | None:
        """The file's metadata, or None. In an Espalier file's, values that are not text become JSON."""
        found = self._file().metadata
        if not found or not isinstance(found, dict):
            return None
        return {
            str(key): value if isinstance(value, str) else json.dumps(value, default=repr)
            for key, value in found.items()
        }

    def get_tensor(self, name: str) -> Any:
        """The whole tensor."""
        file = self._file()._opened
        return self._converter.make_all(file, {name: self._node(name)})[name]

    def get_tensors(self) -> dict[str, Any]:
        """All tensors by their names."""
        return self._converter.make_all(self._file()._opened, self._names)

    def get_slice(self, name: str) -> Slice:
        """The tensor to index: `get_slice("weight")[:, ::8]` reads only what that needs.

        Lists of positions, such as `[:, [0, 2]]`, read all between the first and the last.
        """
        file = self._file()
        return Slice(Tensor(file, self._node(name), name), name, self._converter)


def _safe_open_handle(f: Any, framework: str, device: Any = "cpu", *, backend: str = "mmap") -> safe_open:
    """safe_open() of a file that Python or fsspec opened, by its name: it must be one of this machine."""
    f.fileno  # noqa: B018  # An AttributeError for what is no file, as safetensors has it.
    return safe_open(f.name, framework, device, backend=backend)


def load_bytes(data: bytes, framework: str) -> dict[str, Any]:
    file = _core.File.open_bytes(bytes(data), False, 0)
    return Converter(framework, "cpu").make_all(file, _flat(file))


def deserialize(data: bytes) -> list[tuple[str, dict[str, Any]]]:
    """The names, and of each tensor its "dtype", "shape" and "data" as bytes, of the bytes of a file."""
    file = _core.File.open_bytes(bytes(data), False, 0)
    names = _flat(file)
    found = []
    for (name, node), loaded in zip(
        names.items(), file.load_nodes(list(names.values()), True, False, "numpy"), strict=True
    ):
        dtype, shape = DTYPE_NAMES[file.tensor(node)[1]], list(file.tensor(node)[2])
        found.append((name, {"dtype": DTYPES.get(dtype, dtype.upper()), "shape": shape, "data": _bytes(loaded, dtype)}))
    return found


def _bytes(loaded: Any, dtype: str) -> bytearray:
    import numpy as np

    from ... import _dtypes

    if isinstance(loaded, Packed):
        loaded = loaded.data
    elif dtype in _dtypes.PACKED:
        loaded = _dtypes.pack(np.asarray(loaded), _dtypes.PACKED[dtype])
    return bytearray(np.asarray(loaded).tobytes())


def load_file(filename: str | os.PathLike[str], framework: str, device: Any, backend: str) -> dict[str, Any]:
    with safe_open(filename, framework, device, backend=backend) as file:
        return file.get_tensors()


__all__ = ["DTYPES", "Slice", "_safe_open_handle", "deserialize", "load_bytes", "load_file", "safe_open"]
