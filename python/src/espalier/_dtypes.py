"""The dtypes of the file format, and those of numpy and ml_dtypes.

This module imports numpy, so nothing imports it before an array
is seen.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ._tree import DTYPE_NAMES, DTYPE_NUMBERS

NAMES, NUMBERS = DTYPE_NAMES, DTYPE_NUMBERS

# Those that a file packs and numpy does not, with the bits of an element.
# Those of two and four bits lie in the low bits of a byte, as ml_dtypes has them.
PACKED = {"f4_e2m1fn": 4, "i4": 4, "u4": 4, "i2": 2, "u2": 2, "f6_e2m3fn": 6, "f6_e3m2fn": 6}

# Of dtypes that are values of their own, though no array of them can be saved: dates, text, objects, long doubles.
OTHER_KINDS = "mMSUOfc"

_NUMPY = {
    "bool": "bool", "i8": "int8", "u8": "uint8", "i16": "int16", "u16": "uint16", "i32": "int32", "u32": "uint32",
    "i64": "int64", "u64": "uint64", "f16": "float16", "f32": "float32", "f64": "float64", "c64": "complex64",
    "c128": "complex128",
}  # fmt: skip
_ML_DTYPES = {
    "bf16": "bfloat16", "f8_e4m3fn": "float8_e4m3fn", "f8_e5m2": "float8_e5m2", "f8_e4m3fnuz": "float8_e4m3fnuz",
    "f8_e5m2fnuz": "float8_e5m2fnuz", "f8_e8m0fnu": "float8_e8m0fnu", "f4_e2m1fn": "float4_e2m1fn", "i4": "int4",
    "u4": "uint4", "i2": "int2", "u2": "uint2", "f6_e2m3fn": "float6_e2m3fn", "f6_e3m2fn": "float6_e3m2fn",
}  # fmt: skip
# What numpy, ml_dtypes and torch call them.
NUMPY_NAMES = {**_NUMPY, **_ML_DTYPES}


@functools.cache
def _all() -> dict[str, np.dtype[Any]]:
    """By name, those of numpy, and of ml_dtypes if it is installed."""
    found = {name: np.dtype(numpy_name).newbyteorder("<") for name, numpy_name in _NUMPY.items()}
    try:
        import ml_dtypes
    except ImportError:
        return found
    for name, attribute in _ML_DTYPES.items():
        if hasattr(ml_dtypes, attribute):
            found[name] = np.dtype(getattr(ml_dtypes, attribute))
    return found


def numpy_dtype(name: str) -> np.dtype[Any] | None:
    """The dtype of an array with such elements, one per item; None if numpy and ml_dtypes have none."""
    return _all().get(name)


def lacks(name: str) -> str:
    """What to say of a name that numpy_dtype() has no dtype for: how to get one, or nothing."""
    return ", but ml_dtypes (a recent one) has: pip install -U ml_dtypes" if name in _ML_DTYPES else ""


def name_of(dtype: np.dtype[Any]) -> str | None:
    """The name of a dtype in native byte order; None if the format has no such elements."""
    for name, known in _all().items():
        if known == dtype:
            return name
    return None


@functools.cache
def by_dtype() -> dict[np.dtype[Any], int]:
    """The numbers of the dtypes whose arrays are stored as they lie in memory."""
    return {dtype: NUMBERS[name] for name, dtype in _all().items() if name not in PACKED}


@functools.cache
def by_number() -> list[np.dtype[Any] | None]:
    """The same by number; None where the bytes must be unpacked, or numpy has no such dtype."""
    return [None if name in PACKED else _all().get(name) for name in NAMES]


def pack(array: np.ndarray[Any, Any], bits: int) -> np.ndarray[Any, Any]:
    """Packs elements of one byte each: takes the low `bits` of each, and fills bytes from their low bits on."""
    elements = array.reshape(-1).view(np.uint8) & ((1 << bits) - 1)
    flat = ((elements[:, None] >> np.arange(bits, dtype=np.uint8)) & 1).reshape(-1)
    return np.packbits(flat, bitorder="little")


def unpack(data: np.ndarray[Any, Any], name: str, count: int) -> np.ndarray[Any, Any]:
    """The reverse, for `count` elements of the dtype `name`: one byte each."""
    bits = PACKED[name]
    flat = np.unpackbits(data, bitorder="little", count=count * bits).reshape(count, bits)
    elements: np.ndarray[Any, Any] = (flat << np.arange(bits, dtype=np.uint8)).sum(axis=1, dtype=np.uint8)
    return elements
