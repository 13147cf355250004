"""The interface of safetensors.numpy: dicts of arrays, by their flat names."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ... import _dtypes
from . import _open, _save
from ._open import safe_open

Arrays = dict[str, "np.ndarray[Any, Any]"]


def _checked(tensor_dict: Arrays, metadata: dict[str, str] | None) -> Arrays:
    _save.check_texts(tensor_dict, metadata)
    for name, array in tensor_dict.items():
        if not isinstance(array, np.ndarray):
            raise TypeError(f"{name!r} must be a numpy.ndarray, not {type(array).__name__}")
        is_number = array.dtype.kind not in "mM"  # Dates would come back as integers.
        _save.check_dtype(name, _dtypes.name_of(array.dtype.newbyteorder("=")) if is_number else None, array.dtype)
    # Those in files, in place of their subclass.
    return {name: np.asarray(array) if type(array) is np.memmap else array for name, array in tensor_dict.items()}


def save_file(tensor_dict: Arrays, filename: str | os.PathLike[str], metadata: dict[str, str] | None = None) -> None:
    """Saves arrays of any strides as a safetensors file, or as an Espalier file if the name ends in .espalier.

    Complete or not at all, and on the disk when it returns.
    """
    _save.write(_checked(tensor_dict, metadata), filename, metadata)


def save(tensor_dict: Arrays, metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of the safetensors file."""
    return _save.to_bytes(_checked(tensor_dict, metadata), metadata)


def load_file(filename: str | os.PathLike[str], *, backend: str = "mmap") -> Arrays:
    """All tensors of a file of either format, by their names. The arrays are yours to change."""
    return _open.load_file(filename, "np", "cpu", backend)


def load(data: bytes) -> Arrays:
    """The same of the bytes of a file."""
    return _open.load_bytes(data, "np")


__all__ = ["load", "load_file", "safe_open", "save", "save_file"]
