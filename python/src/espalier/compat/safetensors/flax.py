"""The interface of safetensors.flax: dicts of JAX's arrays, by their flat names."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from . import _open, numpy
from ._open import safe_open

Arrays = dict[str, Any]


def _hosted(tensors: Arrays) -> dict[str, np.ndarray[Any, Any]]:
    return {name: np.asarray(array) for name, array in tensors.items()}


def save_file(tensors: Arrays, filename: str | os.PathLike[str], metadata: dict[str, str] | None = None) -> None:
    """See numpy.save_file()."""
    numpy.save_file(_hosted(tensors), filename, metadata)


def save(tensors: Arrays, metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of the safetensors file."""
    return numpy.save(_hosted(tensors), metadata)


def load_file(filename: str | os.PathLike[str], *, backend: str = "mmap") -> Arrays:
    """All tensors of a file of either format. As ever, JAX makes 32 bits of 64 unless jax_enable_x64 is set."""
    return _open.load_file(filename, "flax", "cpu", backend)


def load(data: bytes) -> Arrays:
    """The same of the bytes of a file."""
    return _open.load_bytes(data, "flax")


__all__ = ["load", "load_file", "safe_open", "save", "save_file"]
