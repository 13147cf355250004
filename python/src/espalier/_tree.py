"""The nodes of a tree as the extension module and the package exchange them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

NULL, BOOL, INT, BIGINT, FLOAT, COMPLEX, STRING, BYTES, DICT, LIST, TUPLE, SET, RECORD, TENSOR, PLACEHOLDER = range(
    1, 16
)
KIND_NAMES = (
    "", "null", "bool", "int64", "bigint", "float64", "complex128", "string", "bytes", "dict", "list", "tuple", "set",
    "record", "tensor", "placeholder",
)  # fmt: skip

# The dtypes of docs/format.md, by number.
DTYPE_NAMES = (
    "", "bool", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64", "c64", "c128",
    "f8_e4m3fn", "f8_e5m2", "f8_e4m3fnuz", "f8_e5m2fnuz", "f8_e8m0fnu", "f4_e2m1fn", "i4", "u4", "i2", "u2",
    "f6_e2m3fn", "f6_e3m2fn", "opaque",
)  # fmt: skip
DTYPE_NUMBERS = {name: number for number, name in enumerate(DTYPE_NAMES) if name}

# Where a file's metadata keep the attributes of dicts: _attributes.py.
ATTRIBUTES = "torch.attributes"

Parts = tuple[int, "str | None", Any]  # a kind, a label, and what the extension module takes for that kind


class TensorParts(NamedTuple):
    """A tensor as the extension module takes it."""

    dtype: int
    shape: tuple[int, ...]
    data: Any = None  # an array of the packed bytes in C order; None for a placeholder
    axis_names: tuple[str, ...] = ()
    block: tuple[str, int, int] | None = None
    is_private: bool = False  # a copy that was made for this save, which no other array overlaps
    tie: Any = None  # hashable: two copies with the same are copies of one array
    address: int | None = None  # of the bytes, which `data` keeps, and their count; None for an array of numpy
    nbytes: int = 0
    is_constant: Callable[[], bool] | None = None
    """Whether nothing can change the bytes as long as `data` lives. Saves in the background ask, and copy all others."""


def public_name(cls: type) -> str:
    """The name under which users import a class: `optax.ScaleByAdamState`, not `optax._src.transform...`."""
    name = cls.__qualname__
    if cls.__module__ == "builtins":
        return name
    parts = cls.__module__.split(".")
    for length in range(1, len(parts) + 1):
        module = sys.modules.get(".".join(parts[:length]))
        if module is not None and getattr(module, name, None) is cls:
            return f"{'.'.join(parts[:length])}.{name}"
    return f"{cls.__module__}.{name}"


def pairs(items: Mapping[Any, Any]) -> tuple[list[Any], list[Any]]:
    return list(items.keys()), list(items.values())


def zipped(content: tuple[list[Any], list[Any]]) -> zip[tuple[Any, Any]]:
    return zip(*content, strict=True)


# What a defaultdict may call: the label in a file chooses one of these by its name.
FACTORIES: dict[str, Callable[[], Any]] = {
    factory.__name__: factory for factory in (bool, bytes, complex, dict, float, frozenset, int, list, set, str, tuple)
}


def _segment(key: str | int) -> str:
    """A key as key paths print it (docs/format.md, section 10)."""
    if isinstance(key, int):
        return str(key)
    if key and key[0] not in "-0123456789" and "/" not in key and "~" not in key:  # as nearly all keys are
        return key
    text = key.replace("~", "~0").replace("/", "~1")
    digits = text.removeprefix("-")
    is_int = text == "0" or (digits.isascii() and digits.isdecimal() and digits[0] != "0" and -(2**63) <= int(text) < 2**63)
    return "~2" + text if is_int or not text else text


def keys_of(path: str) -> list[str | int]:
    """The keys of a printed key path; none for that of the root."""

    def key(segment: str) -> str | int:
        if segment and segment[0] in "-0123456789":
            return int(segment)
        return segment.removeprefix("~2").replace("~1", "/").replace("~0", "~")

    return [key(segment) for segment in path.split("/")] if path else []


def below(path: str, key: str | int) -> str:
    """The printed key path of what is under `key` at `path`."""
    return f"{path}/{_segment(key)}" if path else _segment(key)
