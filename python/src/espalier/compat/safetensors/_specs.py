"""Tensors as addresses of memory: TensorSpec, serialize() and serialize_file()."""

from __future__ import annotations

import ctypes
import dataclasses
import operator
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ... import _dtypes
from ..._errors import EspalierError
from ..._wrappers import Packed
from . import _save
from ._open import DTYPES

# By the names that TensorSpec takes: torch's, where numpy has another.
_NAMES = {_dtypes.NUMPY_NAMES[name]: name for name in DTYPES if name not in _dtypes.PACKED}
_NAMES["float4_e2m1fn_x2"] = "f4_e2m1fn"
_BY_CODE = {code: name for name, code in DTYPES.items()}


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """A tensor in memory: `dtype` such as "float32", its shape, the address of its elements in C order, and their bytes.

    `dtype` becomes the name that a file has, such as "F32". An item of "float4_e2m1fn_x2" is two elements, so `shape` becomes
    that of the elements. The memory is the caller's: it must be there, unchanged, until serialize() or serialize_file() returns.
    """

    dtype: str
    shape: list[int]
    data_ptr: int
    data_len: int

    def __init__(self, *, dtype: str, shape: Sequence[int], data_ptr: int, data_len: int):
        name = _NAMES.get(dtype)
        if name is None:
            raise EspalierError(f"Unknown dtype {dtype!r}. Supported dtypes: {', '.join(_NAMES)}")
        lengths = [operator.index(length) for length in shape]
        if min([*lengths, data_ptr, data_len]) < 0:
            raise OverflowError("shape, data_ptr and data_len must not be negative")
        if name == "f4_e2m1fn" and lengths:
            lengths[-1] *= 2
        for field, value in (("dtype", DTYPES[name]), ("shape", lengths), ("data_ptr", data_ptr), ("data_len", data_len)):
            object.__setattr__(self, field, value)


def _packed(tensor_dict: Mapping[str, TensorSpec]) -> dict[str, Any]:
    import numpy as np

    packed = {}
    for name, spec in tensor_dict.items():
        if not isinstance(spec, TensorSpec):
            raise TypeError(f"{name!r} must be a TensorSpec, not {type(spec).__name__}")
        if spec.data_len and not spec.data_ptr:
            raise EspalierError(f"{name!r} has {spec.data_len} bytes at no address", path=str(name))
        memory: Any = (ctypes.c_uint8 * spec.data_len).from_address(spec.data_ptr) if spec.data_len else []
        packed[name] = Packed(_BY_CODE[spec.dtype], tuple(spec.shape), np.asarray(memory, np.uint8))
    return packed


def serialize(tensor_dict: Mapping[str, TensorSpec], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes of the safetensors file. Memory is read until this returns; see TensorSpec."""
    _save.check_texts(tensor_dict, metadata)
    return _save.to_bytes(_packed(tensor_dict), metadata)


def serialize_file(
    tensor_dict: Mapping[str, TensorSpec], filename: str | os.PathLike[str], metadata: Mapping[str, str] | None = None
) -> None:
    """See numpy.save_file(). Memory is read until this returns; see TensorSpec."""
    _save.check_texts(tensor_dict, metadata)
    _save.write(_packed(tensor_dict), filename, metadata)


__all__ = ["TensorSpec", "serialize", "serialize_file"]
