"""A tensor in an open file: its facts, its elements as arrays, and slices, which read no more than they need."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from . import _frameworks
from ._errors import SliceError, Unsupported
from ._handle import Handle
from ._options import Check, checks_hashes
from ._tree import DTYPE_NAMES
from ._visible import visible
from ._wrappers import AxisNamed, Labelled, Packed, Placeholder

if TYPE_CHECKING:
    import jax
    import numpy as np
    import torch

    from ._checkpoint import Checkpoint


class Tensor(Handle):
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

        value = self._core.load(self._node, checks_hashes(check), False)
        if not isinstance(value, (numpy.ndarray, numpy.generic)):  # a key of JAX, or what numpy has no dtype for
            value = self._core.load(self._node, checks_hashes(check), True)
            value = value.value if isinstance(value, Labelled) else value
            value = value.array if isinstance(value, AxisNamed) else value
        if isinstance(value, (Placeholder, Packed)):
            why = "a placeholder, which has no data" if isinstance(value, Placeholder) else f"of {value.dtype}, which numpy lacks"
            raise Unsupported(f"{self.path or 'the root'} is {why}", path=self.path)
        array: np.ndarray[Any, Any] = numpy.asarray(value)
        return array.copy() if writable else array

    def torch(self, device: Any = None, *, check: Check = "hashes") -> torch.Tensor:
        """The elements as a torch.Tensor that is yours to change, on the CPU or a device. See load(framework="torch")."""
        made = self._core.load(self._node, checks_hashes(check), False, "torch")
        if isinstance(made, Packed):
            raise Unsupported(f"{self.path or 'the root'}: torch has no tensor of {made.dtype}", path=self.path)
        if not hasattr(made, "to"):  # a scalar of numpy
            import torch

            made = torch.from_numpy(self.numpy(writable=True))
        return made if device is None else made.to(device)

    def jax(self, sharding: Any = None, *, check: Check = "hashes") -> jax.Array:
        """The elements as a jax.Array, on a device or with a sharding, whose parts are then read one by one."""
        if hasattr(sharding, "device_set") and len(sharding.device_set) > 1:
            return _frameworks.adapter("jax").sharded(self, sharding)
        made = self._file._load_node(self._node, self.path, checks_hashes(check), False, "jax")
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
        array: np.ndarray[Any, Any] = self.sliced(index, "numpy")
        return array

    def sliced(self, index: Any, framework: _frameworks.Framework) -> Any:
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
