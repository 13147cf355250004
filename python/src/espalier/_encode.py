"""What to save for values that the extension module does not know by itself.

It knows None, bool, int, float, complex, str, bytes, dict, list, tuple, set and numpy.ndarray, exactly these types. It
calls encode_other() for all others, and the label that this gives a value names its type.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import pathlib
import sys
import types
import uuid
import zoneinfo
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from . import _registry
from ._errors import EspalierError, Unsupported
from ._tree import (
    BOOL, BYTES, COMPLEX, DICT, FACTORIES, FLOAT, INT, LIST, NULL, PLACEHOLDER, RECORD, SET, STRING, TENSOR, TUPLE,
    Parts, TensorParts, pairs, public_name,
)  # fmt: skip
from ._wrappers import AxisNamed, Labelled, OrderedSet, Packed, Placeholder, Record


def at_path(error: BaseException, path: str) -> BaseException:
    """The same error, which tells where in the state it is."""
    if isinstance(error, EspalierError) and not error.path:
        where = path or "the root"
        error.args = (f"{where}: {error}",)
        error.path = path
    return error


def overlap(one: str, other: str) -> Unsupported:
    return Unsupported(
        f"{one or 'the root'} and {other or 'the root'} share some of their memory, and would not share it any more "
        'when they are loaded; copy one of them, or pass views="copy" to save both in full',
        path=other,
    )


def _defaultdict(value: collections.defaultdict[Any, Any]) -> Parts:
    factory: Any = value.default_factory
    if factory is None:
        return DICT, "collections.defaultdict", pairs(value)
    name = getattr(factory, "__name__", "")
    if FACTORIES.get(name) is not factory:
        raise Unsupported(
            f"a defaultdict whose factory is {factory!r} cannot be restored; make it a dict, or use a built-in type"
        )
    return DICT, f"collections.defaultdict[{name}]", pairs(value)


def _datetime(value: datetime.datetime) -> Parts:
    fold = ";fold=1" if value.fold else ""
    if value.tzinfo is None or type(value.tzinfo) is datetime.timezone:
        return STRING, "datetime.datetime", value.isoformat() + fold
    if isinstance(value.tzinfo, zoneinfo.ZoneInfo) and value.tzinfo.key:
        return STRING, "datetime.datetime", f"{value.replace(tzinfo=None).isoformat()}[{value.tzinfo.key}]{fold}"
    raise Unsupported(f"the time zone {value.tzinfo!r} cannot be restored; use zoneinfo, or a fixed offset")


def _time(value: datetime.time) -> Parts:
    if value.tzinfo is not None and type(value.tzinfo) is not datetime.timezone:
        raise Unsupported(f"the time zone {value.tzinfo!r} of a time cannot be restored; use a fixed offset")
    return STRING, "datetime.time", value.isoformat() + (";fold=1" if value.fold else "")


def _deque(value: collections.deque[Any]) -> Parts:
    label = "collections.deque" if value.maxlen is None else f"collections.deque[{value.maxlen}]"
    return LIST, label, list(value)


def _path(value: pathlib.PurePath) -> Parts:
    return STRING, f"pathlib.{type(value).__name__}", str(value)


_SIMPLE: dict[type, int] = {
    type(None): NULL, bool: BOOL, int: INT, float: FLOAT, complex: COMPLEX, str: STRING, bytes: BYTES,
}  # fmt: skip
_SEQUENCES: dict[type, int] = {list: LIST, tuple: TUPLE, set: SET}


def plain_parts(value: Any) -> Parts | None:
    """What the extension module itself makes of a value, but for arrays; None for what it does not know."""
    cls = type(value)
    if cls in _SIMPLE:
        return _SIMPLE[cls], None, value
    if cls in _SEQUENCES:
        return _SEQUENCES[cls], None, list(value)
    return (DICT, None, pairs(value)) if cls is dict else None


def _labelled(value: Labelled) -> Parts:
    plain: Any = value.value
    kind, label, content = plain_parts(plain) or encode_other(plain)
    if label is not None:
        raise Unsupported(f"a {type(plain).__name__} has a label of its own, {label!r}, and cannot get {value.label!r}")
    return kind, value.label, content


_ENCODERS: dict[type, Callable[[Any], Parts]] = {
    collections.OrderedDict: lambda v: (DICT, "collections.OrderedDict", pairs(v)),
    collections.Counter: lambda v: (DICT, "collections.Counter", pairs(v)),
    collections.defaultdict: _defaultdict,
    collections.deque: _deque,
    frozenset: lambda v: (SET, "frozenset", list(v)),
    range: lambda v: (TUPLE, "range", [v.start, v.stop, v.step]),
    slice: lambda v: (TUPLE, "slice", [v.start, v.stop, v.step]),
    bytearray: lambda v: (BYTES, "bytearray", bytes(v)),
    datetime.datetime: _datetime,
    datetime.date: lambda v: (STRING, "datetime.date", v.isoformat()),
    datetime.time: _time,
    datetime.timedelta: lambda v: (TUPLE, "datetime.timedelta", [v.days, v.seconds, v.microseconds]),
    decimal.Decimal: lambda v: (STRING, "decimal.Decimal", str(v)),
    fractions.Fraction: lambda v: (TUPLE, "fractions.Fraction", [v.numerator, v.denominator]),
    uuid.UUID: lambda v: (STRING, "uuid.UUID", str(v)),
    pathlib.PurePosixPath: _path,
    pathlib.PureWindowsPath: _path,
    pathlib.PosixPath: _path,
    pathlib.WindowsPath: _path,
    types.SimpleNamespace: lambda v: (RECORD, "types.SimpleNamespace", pairs(vars(v))),
    argparse.Namespace: lambda v: (RECORD, "argparse.Namespace", pairs(vars(v))),
    Record: lambda v: (RECORD, v.label, pairs(v)),
    Labelled: _labelled,
    OrderedSet: lambda v: (SET, None, list(v.elements)),
    AxisNamed: lambda v: (TENSOR, None, array_parts(v.array)[2]._replace(axis_names=tuple(v.axis_names))),
    Placeholder: lambda v: (PLACEHOLDER, None, _placeholder_parts(v)),
    Packed: lambda v: (TENSOR, None, _packed_parts(v)),
}


def _number(name: str) -> int:
    from . import _dtypes

    try:
        return _dtypes.NUMBERS[name]
    except KeyError:
        raise EspalierError(f"{name!r} is no dtype; they are {', '.join(_dtypes.NUMBERS)}") from None


def _placeholder_parts(value: Placeholder) -> TensorParts:
    return TensorParts(_number(value.dtype), tuple(value.shape), None, tuple(value.axis_names), value.block)


def _packed_parts(value: Packed) -> TensorParts:
    import numpy as np

    data = np.ascontiguousarray(value.data, np.uint8).reshape(-1)
    return TensorParts(_number(value.dtype), tuple(value.shape), data, tuple(value.axis_names), value.block)


def array_parts(array: Any) -> Parts:
    """An array that does not lie in memory as in a file: not in C order, byte-swapped, or of a dtype that is packed."""
    import numpy as np

    from . import _dtypes

    if isinstance(array, np.ma.MaskedArray):
        raise Unsupported("a masked array; save its data and its mask")
    if type(array) is not np.ndarray:
        raise Unsupported(f"a {type(array).__name__}, a subclass of numpy.ndarray; save numpy.asarray() of it")
    dtype, label = array.dtype, None
    if dtype.kind in "mM":
        label = dtype.newbyteorder("=").name
        array = array.view(np.dtype("i8").newbyteorder(dtype.byteorder))
        dtype = array.dtype
    native = dtype.newbyteorder("=")
    name = _dtypes.name_of(native)
    if name is None:
        hint = {"O": "save its objects as a list", "U": "save a list of str", "S": "save a list of bytes"}
        raise Unsupported(
            f"an array of dtype {dtype}, which the format has no elements for; "
            + hint.get(dtype.kind, "convert it with astype()")
        )
    # asarray and ascontiguousarray would make one axis of none.
    data = np.array(array, dtype=native, order="C", copy=None)
    is_private = not np.may_share_memory(data, array) if data.size else True
    if name in _dtypes.PACKED:
        data, is_private = _dtypes.pack(data, _dtypes.PACKED[name]), True
    return TENSOR, label, TensorParts(_dtypes.NUMBERS[name], array.shape, data, is_private=is_private)


def _numpy(value: Any) -> Parts | None:
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    if isinstance(value, numpy.ndarray):
        return array_parts(value)
    if isinstance(value, numpy.generic):
        if isinstance(value, numpy.str_):
            return STRING, "numpy.str_", str(value)
        if isinstance(value, numpy.bytes_):
            return BYTES, "numpy.bytes_", bytes(value)
        kind, _, parts = array_parts(numpy.array(value))
        return kind, f"numpy.{value.dtype.name}", parts
    if isinstance(value, numpy.dtype):
        return STRING, "numpy.dtype", value.name if value.kind == "V" else value.str
    return None


def encode_other(value: Any) -> Parts:
    """What to save for a value whose type the extension module does not know. Called by it."""
    cls = type(value)
    registered = _registry.of_class(cls)
    if registered is not None:
        return registered.encode(value)
    encoder = _ENCODERS.get(cls)
    if encoder is not None:
        return encoder(value)
    found = _numpy(value)
    if found is not None:
        return found
    if isinstance(value, enum.Enum):
        return STRING, public_name(cls), value.name
    if isinstance(value, tuple) and hasattr(cls, "_fields"):
        return RECORD, public_name(cls), (list(cls._fields), list(value))
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        return RECORD, public_name(cls), (names, [getattr(value, name) for name in names])
    if callable(getattr(value, "state_dict", None)):
        state = value.state_dict()
        if type(state) is dict:
            return DICT, None, pairs(state)
        return encode_other(state)
    raise Unsupported(_refusal(value))


def _refusal(value: Any) -> str:
    name = public_name(type(value))
    for known in (dict, list, tuple, set, str, bytes, int, float):
        if isinstance(value, known):
            return (
                f"a {name}, a subclass of {known.__name__} that would come back as {known.__name__}; save "
                f"{known.__name__}() of it, or register the class"
            )
    if isinstance(value, Iterator):
        return f"a {name}, which can be read only once; save list() of it"
    if isinstance(value, Mapping):
        return f"a {name}; save dict() of it, or register the class"
    if callable(value):
        return f"a {name} is code, and a checkpoint holds none; leave it out"
    return f"a {name} cannot be saved; save what it is made of, or register the class with espalier.register()"
