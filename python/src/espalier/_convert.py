"""load(device=, dtype=): what becomes of each array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _frameworks
from ._errors import EspalierError
from ._tree import DTYPE_NUMBERS

Convert = Callable[[Any], Any]


def converter(framework: _frameworks.Framework, device: Any, dtype: Any) -> Convert | None:
    """What to call with each array of the framework that was loaded; None if nothing is asked for."""
    if device is None and dtype is None:
        return None
    name = None if dtype is None else _float_name(dtype)
    if framework == "numpy":
        if device is not None:
            raise EspalierError('arrays of numpy have no device; pass framework="torch" or framework="jax", too')
        return _numpy(name)
    return _frameworks.adapter(framework).moving(device, name)


def _float_name(dtype: Any) -> str:
    """The format's name of a dtype of floats, given as "bf16", or as numpy or a framework has it."""
    name = dtype if isinstance(dtype, str) and dtype in DTYPE_NUMBERS else _frameworks.dtype_name(dtype)
    if name is None or not name.startswith(("f", "bf")):
        raise EspalierError(f'dtype must be one of floats, such as "bf16" or numpy.float32, not {dtype!r}: it converts floats alone')
    return name


def _numpy(name: str | None) -> Convert:
    import numpy as np

    from . import _dtypes

    target = _dtypes.numpy_dtype(name or "")
    if target is None:
        raise EspalierError(f"numpy has no dtype for {name}{_dtypes.lacks(name or '')}")

    def convert(array: Any) -> Any:
        if not isinstance(array, (np.ndarray, np.generic)):
            return array
        found = _dtypes.name_of(array.dtype)
        is_float = found is not None and found.startswith(("f", "bf"))
        return array.astype(target) if is_float and array.dtype != target else array

    return convert
