"""Types of Python's standard library: what is saved for them, and what makes them again of that."""

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

from ._attributes import ordered_pairs
from ._errors import Unsupported
from ._tree import BYTES, DICT, FACTORIES, LIST, RECORD, SET, STRING, TUPLE, Parts, pairs, zipped


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


ENCODERS: dict[type, Callable[[Any], Parts]] = {
    collections.OrderedDict: lambda v: (DICT, "collections.OrderedDict", ordered_pairs(v)),
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
}


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


def _ints(content: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    # A Fraction of text such as "1e30000000" takes minutes.
    if len(content) != count or any(type(each) is not int for each in content):
        raise ValueError("not ints")
    return content


DECODERS: dict[tuple[int, str], Callable[[Any], Any]] = {
    (DICT, "collections.OrderedDict"): lambda c: collections.OrderedDict(zipped(c)),
    (DICT, "collections.Counter"): lambda c: collections.Counter(dict(zipped(c))),
    (DICT, "collections.defaultdict"): lambda c: collections.defaultdict(None, zipped(c)),
    (LIST, "collections.deque"): collections.deque,
    (TUPLE, "range"): lambda c: range(*_ints(c, 3)),
    (TUPLE, "slice"): lambda c: slice(*c),
    (BYTES, "bytearray"): bytearray,
    (STRING, "datetime.datetime"): _make_datetime,
    (STRING, "datetime.date"): datetime.date.fromisoformat,
    (STRING, "datetime.time"): _make_time,
    (TUPLE, "datetime.timedelta"): lambda c: datetime.timedelta(*_ints(c, 3)),
    (STRING, "decimal.Decimal"): decimal.Decimal,
    (TUPLE, "fractions.Fraction"): lambda c: fractions.Fraction(*_ints(c, 2)),
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


def _deque_of(content: list[Any], most: int) -> collections.deque[Any]:
    if len(content) > most:  # The rest would be lost.
        raise ValueError("more elements than the deque can have")
    return collections.deque(content, most)


def decoder(kind: int, label: str) -> Callable[[Any], Any] | None:
    """What makes the value that a label names; None for labels of others."""
    if kind == LIST and label.startswith("collections.deque[") and label[18:-1].isdecimal():
        return lambda content: _deque_of(content, int(label[18:-1]))
    return DECODERS.get((kind, label))
