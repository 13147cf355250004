"""The objects for values that have a label, or that Python has no plain type for.

A file's label chooses among the types of this module and those that the program registered. Nothing is ever imported or
called by a name from a file.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import decimal
import fractions
import pathlib
import sys
import types
import uuid
import zoneinfo
from collections.abc import Callable
from typing import Any

from . import _registry
from ._errors import Unsupported
from ._tree import BYTES, DICT, FACTORIES, LIST, RECORD, SET, STRING, TUPLE, zipped
from ._wrappers import AxisNamed, Labelled, OrderedSet, Packed, Placeholder, Record


def _text_of_zone(text: str) -> tuple[str, str | None, int]:
    text, _, fold = text.partition(";fold=")
    zone = None
    if text.endswith("]"):
        text, _, zone = text[:-1].partition("[")
    return text, zone, int(fold or 0)


def _make_datetime(content: str) -> datetime.datetime:
    text, zone, fold = _text_of_zone(content)
    value = datetime.datetime.fromisoformat(text)
    if zone is not None:
        value = value.replace(tzinfo=zoneinfo.ZoneInfo(zone))
    return value.replace(fold=fold)


def _make_time(content: str) -> datetime.time:
    text, _, fold = _text_of_zone(content)
    return datetime.time.fromisoformat(text).replace(fold=fold)


def _make_path(content: str) -> pathlib.PurePath:
    return pathlib.Path(content)


def _make_defaultdict(factory: Callable[[], Any]) -> Callable[[Any], Any]:
    return lambda content: collections.defaultdict(factory, zipped(content))


_DECODERS: dict[tuple[int, str], Callable[[Any], Any]] = {
    (DICT, "collections.OrderedDict"): lambda c: collections.OrderedDict(zipped(c)),
    (DICT, "collections.Counter"): lambda c: collections.Counter(dict(zipped(c))),
    (DICT, "collections.defaultdict"): lambda c: collections.defaultdict(None, zipped(c)),
    (LIST, "collections.deque"): collections.deque,
    (SET, "frozenset"): frozenset,
    (TUPLE, "range"): lambda c: range(*c),
    (TUPLE, "slice"): lambda c: slice(*c),
    (BYTES, "bytearray"): bytearray,
    (STRING, "datetime.datetime"): _make_datetime,
    (STRING, "datetime.date"): datetime.date.fromisoformat,
    (STRING, "datetime.time"): _make_time,
    (TUPLE, "datetime.timedelta"): lambda c: datetime.timedelta(*c),
    (STRING, "decimal.Decimal"): decimal.Decimal,
    (TUPLE, "fractions.Fraction"): lambda c: fractions.Fraction(*c),
    (STRING, "uuid.UUID"): uuid.UUID,
    (STRING, "pathlib.PurePosixPath"): pathlib.PurePosixPath,
    (STRING, "pathlib.PureWindowsPath"): pathlib.PureWindowsPath,
    (STRING, "pathlib.PosixPath"): _make_path,
    (STRING, "pathlib.WindowsPath"): pathlib.PureWindowsPath if sys.platform != "win32" else _make_path,
    (RECORD, "types.SimpleNamespace"): lambda c: types.SimpleNamespace(**dict(zipped(c))),
    (RECORD, "argparse.Namespace"): lambda c: argparse.Namespace(**dict(zipped(c))),
    **{
        (DICT, f"collections.defaultdict[{name}]"): _make_defaultdict(factory)
        for name, factory in FACTORIES.items()
    },
}


def _make_numpy_dtype(content: str) -> Any:
    import numpy as np

    from . import _dtypes

    for name in _dtypes.NUMBERS:
        dtype = _dtypes.numpy_dtype(name)
        if dtype is not None and content in (dtype.name, dtype.str, dtype.newbyteorder(">").str):
            return np.dtype(content) if content != dtype.name else dtype
    return content


def _plain(kind: int, content: Any) -> Any:
    if kind == DICT:
        return dict(zipped(content))
    if kind == TUPLE:
        return tuple(content)
    if kind == SET:
        return set(content)
    return content


def decode_other(kind: int, label: str | None, content: Any, exact: bool) -> Any:
    """The object for a value with a label, a set or a record. Called by the extension module.

    `content` is (keys, values) for dicts and records, a list for sequences and sets, and else the plain value. What a
    label promises and the content does not keep is no error: the value then comes back as a plain one.
    """
    if exact:
        if kind == RECORD:
            return Record(label, zipped(content))
        value = OrderedSet(tuple(content)) if kind == SET else _plain(kind, content)
        return value if label is None else Labelled(label, value)
    if label is not None:
        registered = _registry.of_label(label)
        if registered is not None and registered.kind == kind:
            return registered.decode(content)
        decoder = _DECODERS.get((kind, label))
        if kind == LIST and label.startswith("collections.deque[") and label[18:-1].isdecimal():
            decoder = lambda c: collections.deque(c, int(label[18:-1]))  # noqa: E731
        elif kind == STRING and label == "numpy.dtype":
            decoder = _make_numpy_dtype
        elif kind == STRING and label == "numpy.str_":
            decoder = _numpy_type("str_")
        elif kind == BYTES and label == "numpy.bytes_":
            decoder = _numpy_type("bytes_")
        if decoder is not None:
            try:
                return decoder(content)
            except (TypeError, ValueError, ArithmeticError, OverflowError, zoneinfo.ZoneInfoNotFoundError):
                pass
    if kind == RECORD:
        return Record(label, zipped(content))
    try:
        return _plain(kind, content)
    except TypeError:
        raise Unsupported(
            "a set holds a value that Python cannot put into one; load it with exact=True, which gives an OrderedSet"
        ) from None


def _numpy_type(name: str) -> Callable[[Any], Any]:
    import numpy as np

    return getattr(np, name)  # type: ignore[no-any-return]


def decode_tensor(
    label: str | None,
    dtype: int,
    shape: tuple[int, ...],
    axis_names: tuple[str, ...],
    block: tuple[str, int, int] | None,
    array: Any,
    exact: bool,
) -> Any:
    """The object for a tensor that is more than an array of its dtype. Called by the extension module.

    `array` has the elements; or the bytes as they are, if numpy has no such array; or is None, for a placeholder.
    """
    import numpy as np

    from . import _dtypes

    name = _dtypes.NAMES[dtype]
    if array is None:
        value: Any = Placeholder(name, shape, axis_names, block)
    else:
        value = array
        if _dtypes.by_number()[dtype] is None:
            known = _dtypes.numpy_dtype(name)
            if known is None:
                value = Packed(name, shape, array, axis_names, block)
            else:
                count = int(np.prod(shape, dtype=np.int64))
                value = _dtypes.unpack(array, name, count).view(known).reshape(shape)
                value.flags.writeable = False
        if exact and axis_names and not isinstance(value, Packed):
            value = AxisNamed(value, axis_names)
    if exact:
        return value if label is None else Labelled(label, value)
    if label is None or not isinstance(value, np.ndarray):
        return value
    if label.startswith(("datetime64", "timedelta64")) and name == "i64":
        try:
            return value.view(np.dtype(label))
        except (TypeError, ValueError):
            return value
    if label.startswith("numpy.") and not shape:
        if label == f"numpy.{value.dtype.name}":
            return value[()]
        if name == "i64" and label.startswith(("numpy.datetime64", "numpy.timedelta64")):
            try:
                return value.view(np.dtype(label[6:]))[()]
            except (TypeError, ValueError):
                return value
    return value
