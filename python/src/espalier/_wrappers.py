"""Values that Python has no type for, or whose type the program did not register."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ._visible import visible


class Record(Mapping[str, Any]):
    """Named fields in order, of a class that is not known here: `record.step`, `record["step"]`, `record.label`."""

    __slots__ = ("_fields", "label")

    def __init__(self, label: str | None = None, fields: Iterable[tuple[str, Any]] = ()):
        self.label = label
        self._fields = dict(fields)

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self._fields[name]
        except KeyError:
            fields = visible(", ".join(self._fields))
            raise AttributeError(f"this record has no field {name!r}; it has {fields}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        fields = ", ".join(f"{visible(name)}={value!r}" for name, value in self._fields.items())
        return f"{visible(self.label or 'Record')}({fields})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return self.label == other.label and list(self._fields.items()) == list(other._fields.items())

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[object, ...]:
        return Record, (self.label, list(self._fields.items()))


@dataclasses.dataclass(frozen=True)
class Labelled:
    """A value and the label that a file has for its type, as `load(exact=True)` gives them."""

    label: str
    value: Any


@dataclasses.dataclass(frozen=True)
class AxisNamed:
    """An array whose axes have names, as `load(exact=True)` gives it."""

    array: Any
    axis_names: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class OrderedSet:
    """A set in the order of its file, also of values that Python has no hash for, as `load(exact=True)` gives it."""

    elements: tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class Placeholder:
    """A tensor without data: its dtype ("f32", "bf16", ...), its shape, and names of its axes if it has any."""

    dtype: str
    shape: tuple[int, ...]
    axis_names: tuple[str, ...] = ()
    block: tuple[str, int, int] | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Packed:
    """A tensor whose elements numpy has no dtype for, as its packed bytes.

    `block` is the name, the elements and the bytes of a quantised block, for the dtype "opaque".
    """

    dtype: str
    shape: tuple[int, ...]
    data: Any
    axis_names: tuple[str, ...] = ()
    block: tuple[str, int, int] | None = None
