"""Classes of the program: how their values are saved, and what makes them again."""

from __future__ import annotations

import dataclasses
import enum
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from ._errors import EspalierError
from ._tree import INT, RECORD, STRING, Parts, pairs, public_name, zipped


class Registered(NamedTuple):
    cls: type
    label: str
    kind: int
    encode: Callable[[Any], Parts]
    decode: Callable[[Any], Any]


_lock = threading.Lock()
_by_class: dict[type, Registered] = {}
_by_label: dict[str, Registered] = {}


def of_class(cls: type) -> Registered | None:
    with _lock:
        return _by_class.get(cls)


def of_label(label: str) -> Registered | None:
    with _lock:
        return _by_label.get(label)


def _record_of(cls: type, label: str, names: list[str], make: Callable[[dict[str, Any]], Any]) -> Registered:
    def encode(value: Any) -> Parts:
        return RECORD, label, (names, [getattr(value, name) for name in names])

    def decode(content: tuple[list[str], list[Any]]) -> Any:
        fields = dict(zipped(content))
        if set(fields) != set(names):
            missing, unexpected = sorted(set(names) - set(fields)), sorted(set(fields) - set(names))
            raise EspalierError(
                f"the file has other fields of {label} than the class: "
                + "; ".join(
                    f"{what} {', '.join(some)}" for what, some in (("missing", missing), ("unexpected", unexpected)) if some
                )
                + '; load(like=..., strict="file") takes the missing ones of a template, and strict="template" leaves out others'
            )
        return make(fields)

    return Registered(cls, label, RECORD, encode, decode)


def enum_parts(value: enum.Enum, label: str) -> Parts:
    # Several flags together have no name of their own.
    return (INT, label, value.value) if isinstance(value, enum.Flag) else (STRING, label, value.name)


def _member_of(cls: type[enum.Enum]) -> Callable[[str], enum.Enum]:
    def decode(name: str) -> enum.Enum:
        if name not in cls.__members__:
            raise EspalierError(f"the file has the member {name!r} of {public_name(cls)}, which the class lacks now")
        return cls[name]

    return decode


def restored(cls: type, fields: dict[str, Any]) -> Any:
    """An instance without a call of __init__ or __post_init__, as pickle restores them."""
    value: Any = object.__new__(cls)
    for name, field in fields.items():
        object.__setattr__(value, name, field)
    return value


def register(
    cls: type,
    to: Callable[[Any], Any] | None = None,
    of: Callable[[Any], Any] | None = None,
    *,
    label: str | None = None,
) -> type:
    """Saves values of `cls` under its name, and loads them as `cls` again. Returns `cls`, so it is a decorator, too.

    `cls` is a dataclass, a NamedTuple or an Enum, whose fields or member are saved. For other classes, `to(value)` is a
    dict of what to save, with str keys, and `of(dict)` makes the value again. `label` names the class in the file; by
    default it is the name under which it is imported.
    """
    name = label or public_name(cls)
    if to is not None or of is not None:
        if to is None or of is None:
            raise EspalierError("pass both `to` and `of`, or neither")
        there, back = to, of

        def encode(value: Any) -> Parts:
            return RECORD, name, pairs(there(value))

        made = Registered(cls, name, RECORD, encode, lambda content: back(dict(zipped(content))))
    elif issubclass(cls, enum.Flag):
        made = Registered(cls, name, INT, lambda v: enum_parts(v, name), cls)
    elif issubclass(cls, enum.Enum):
        made = Registered(cls, name, STRING, lambda v: enum_parts(v, name), _member_of(cls))
    elif issubclass(cls, tuple) and hasattr(cls, "_fields"):
        made = _record_of(cls, name, list(cls._fields), lambda fields: cls(**fields))
    elif dataclasses.is_dataclass(cls):
        names = [field.name for field in dataclasses.fields(cls)]
        made = _record_of(cls, name, names, lambda fields: restored(cls, fields))
    else:
        raise EspalierError(
            f"{public_name(cls)} is no dataclass, NamedTuple or Enum; pass functions: register(cls, to=..., of=...)"
        )
    with _lock:
        other = _by_label.get(name)
        if other is not None and public_name(other.cls) != public_name(cls):
            raise EspalierError(f"the label {name!r} is that of {public_name(other.cls)}; pass another label=")
        _by_class[cls] = made
        _by_label[name] = made
    return cls
