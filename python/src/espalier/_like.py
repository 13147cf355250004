"""load(like=): a state of the template's types, and a list of all in which the file differs from it."""

from __future__ import annotations

import dataclasses
import datetime
import fractions
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

from . import _core, _decode, _encode, _registry
from ._errors import EspalierError, Unsupported
from ._tree import BIGINT, DICT, INT, KIND_NAMES, LIST, PLACEHOLDER, RECORD, TENSOR, TUPLE, below, pairs
from ._wrappers import AxisNamed, Labelled, Packed, Placeholder, Record

Strict = bool | Literal["template", "file"]
_SHOWN = 20
# Tuples whose elements are their value, not places in the tree.
_WHOLE = (range, slice, datetime.timedelta, fractions.Fraction)


class _Marker:
    def __init__(self, name: str, meaning: str):
        self._name = name
        self.__doc__ = meaning

    def __repr__(self) -> str:
        return f"espalier.{self._name}"

    def __reduce__(self) -> str:
        return self._name


ANY = _Marker("ANY", "In a template: takes what the file has there.")
SKIP = _Marker("SKIP", "In a template: leaves out what the file has there, and reads none of its bytes.")


class Mismatch(NamedTuple):
    """A place at which the file is not what the template wants."""

    path: str
    wanted: str
    found: str

    def __str__(self) -> str:
        return f"{self.path or 'the root'}: {self.found} in the file, {self.wanted} in the template"


@dataclasses.dataclass
class Ledger:
    """What load(like=) did with each place: key paths, in the template's order, then the file's."""

    loaded: list[str] = dataclasses.field(default_factory=list)
    missing: list[str] = dataclasses.field(default_factory=list)
    """In the template alone."""
    unexpected: list[str] = dataclasses.field(default_factory=list)
    """In the file alone."""
    mismatched: list[Mismatch] = dataclasses.field(default_factory=list)
    """Of another shape, dtype, kind or type."""
    kept: list[str] = dataclasses.field(default_factory=list)
    """The template's own value stays: it is missing, or cannot be in a file, such as a function."""
    cast: list[Mismatch] = dataclasses.field(default_factory=list)
    """Converted to the template's dtype, as cast="float" asks for."""
    relabelled: list[Mismatch] = dataclasses.field(default_factory=list)
    """Of another type with the same content: the template's is taken."""
    skipped: list[str] = dataclasses.field(default_factory=list)

    def differences(self, strict: Strict) -> list[str]:
        """What `strict` does not let pass, a line each."""
        lines = [str(mismatch) for mismatch in self.mismatched]
        if strict in (True, "template"):
            lines += [f"{path or 'the root'}: missing in the file" for path in self.missing]
        if strict in (True, "file"):
            lines += [f"{path or 'the root'}: in the file alone" for path in self.unexpected]
        return lines


class TreeMismatch(EspalierError):
    """The file is not what the template wants. `ledger` has all of it; the message has the first of it."""

    def __init__(self, message: str, ledger: Ledger):
        first = ledger.mismatched[0].path if ledger.mismatched else next(iter(ledger.missing + ledger.unexpected), "")
        super().__init__(message, "invalid_tree", first)
        self.ledger = ledger

    def __reduce__(self) -> tuple[object, ...]:
        return TreeMismatch, (str(self), self.ledger)


def spec(shape: Iterable[int], dtype: Any, axis_names: Iterable[str] = ()) -> Placeholder:
    """A place for a tensor in a template: its shape, and its dtype, as "f32" or as numpy has it."""
    from . import _dtypes

    name = dtype if isinstance(dtype, str) and dtype in _dtypes.NUMBERS else None
    if name is None:
        import numpy as np

        name = _dtypes.name_of(np.dtype(dtype))
    if name is None:
        raise EspalierError(f"the format has no elements of dtype {dtype!r}")
    return Placeholder(name, tuple(shape), tuple(axis_names))


class _Pending(NamedTuple):
    """What becomes of a value of the file once it is loaded."""

    number: int
    convert: Callable[[Any], Any]


class Matcher:
    """Compares a template with a file, and then reads what both have."""

    def __init__(self, file: _core.File, keys: str, cast: str | None):
        if keys not in ("exact", "text"):
            raise EspalierError(f'keys must be "exact" or "text", not {keys!r}')
        if cast not in (None, "float"):
            raise EspalierError(f'cast must be None or "float", not {cast!r}')
        self.ledger = Ledger()
        self._file = file
        self._keys = keys
        self._cast = cast
        self._nodes: list[int] = []
        self._numbers: dict[tuple[str, int], int] = {}  # of a tensor, or of another node

    def load(self, node: int, path: str, template: Any, strict: Strict, check: bool) -> Any:
        if strict not in (True, False, "template", "file"):
            raise EspalierError(f'strict must be True, False, "template" or "file", not {strict!r}')
        planned = self._match(node, path, template)
        lines = self.ledger.differences(strict)
        if strict and lines:
            shown = "".join(f"\n  {line}" for line in lines[:_SHOWN])
            more = f"\n  and {len(lines) - _SHOWN} more: see the error's `ledger`" if len(lines) > _SHOWN else ""
            plural = "places" if len(lines) > 1 else "place"
            raise TreeMismatch(f"the file differs from the template at {len(lines)} {plural}:{shown}{more}", self.ledger)
        values = self._file.load_nodes(self._nodes, check, False)
        return _filled(planned, values)

    # Each of these gives the template's value, with _Pending in the places of what is to be read.

    def _match(self, node: int, path: str, template: Any) -> Any:
        cls = type(template)
        kind = self._file.kind(node)
        if template is ANY:
            return self._take(node, path)
        if template is SKIP:
            self.ledger.skipped.append(path)
            return SKIP
        if cls in (Placeholder, AxisNamed, Packed) or _is_array(template):
            return self._tensor(node, path, kind, template)
        try:
            wanted, label, content = _parts(template)
        except Unsupported:
            self.ledger.kept.append(path)
            return template
        if wanted != (INT if kind == BIGINT else kind):
            return self._mismatch(path, KIND_NAMES[wanted], self._describe(node, kind), template)
        found = self._file.label(node)
        if wanted == TENSOR:  # numpy's scalars, and arrays of dates
            return self._tensor(node, path, kind, template, label)
        if found != label and wanted not in (DICT, LIST, TUPLE, RECORD):
            return self._mismatch(path, label or KIND_NAMES[wanted], found or KIND_NAMES[kind], template)
        if found != label:
            self.ledger.relabelled.append(Mismatch(path, label or "no label", found or "no label"))
        if wanted in (DICT, RECORD):
            return self._keyed(node, path, template, list(content[0]), list(content[1]))
        if wanted in (LIST, TUPLE) and type(template) not in _WHOLE:
            return self._sequence(node, path, template, list(content))
        return self._take(node, path)

    def _take(self, node: int, path: str, convert: Callable[[Any], Any] = lambda value: value) -> _Pending:
        self.ledger.loaded.append(path)
        is_tensor = self._file.kind(node) in (TENSOR, PLACEHOLDER)
        # Ties: one object for all places of a tensor.
        key = ("tensor", self._file.tensor(node)[0]) if is_tensor else ("node", node)
        number = self._numbers.setdefault(key, len(self._nodes))
        if number == len(self._nodes):
            self._nodes.append(node)
        return _Pending(number, convert)

    def _tensor(self, node: int, path: str, kind: int, template: Any, label: str | None = None) -> Any:
        import numpy as np

        from . import _dtypes

        dtype, shape, names = _tensor_of(template)
        wanted = f"{dtype} {list(shape)}"
        if kind not in (TENSOR, PLACEHOLDER):
            return self._mismatch(path, wanted, self._describe(node, kind), template)
        _, number, there, axis_names, _, _, _, is_placeholder, _ = self._file.tensor(node)
        found = _dtypes.NAMES[number]
        text = f"{'a placeholder ' if is_placeholder else ''}{found} {list(there)}"
        if names and axis_names and names != axis_names:
            return self._mismatch(path, f"{wanted} {list(names)}", f"{text} {list(axis_names)}", template)
        if there != shape or is_placeholder:
            return self._mismatch(path, wanted, text, template)
        labelled = self._file.label(node)
        if _is_of_time(label) or _is_of_time(labelled):
            if label != labelled:
                return self._mismatch(path, label or wanted, labelled or text, template)
            return self._take(node, path)

        # A scalar of numpy is a tensor without axes, and comes back as what the template has.
        def as_template(value: Any) -> Any:
            if isinstance(template, np.generic):
                return np.asarray(value)[()]
            return np.asarray(value) if isinstance(value, np.generic) else value

        if found == dtype:
            return self._take(node, path, as_template)
        if self._cast != "float" or not (_is_float(found) and _is_float(dtype)):
            return self._mismatch(path, wanted, text, template)
        target = _dtypes.numpy_dtype(dtype)
        if target is None or _dtypes.numpy_dtype(found) is None:
            raise Unsupported(f"{path}: arrays of {found} and {dtype} need the package ml_dtypes", path=path)
        self.ledger.cast.append(Mismatch(path, dtype, found))
        return self._take(node, path, lambda value: as_template(value.astype(target)))

    def _keyed(self, node: int, path: str, template: Any, keys: list[Any], values: list[Any]) -> Any:
        children = {key: self._file.child(node, i) for i, key in enumerate(self._file.keys(node))}
        if self._keys == "text":
            by_text = {str(key): key for key in children}
            names = {key: by_text.get(str(key), key) for key in keys}
        else:
            names = {key: key for key in keys}
        items: dict[Any, Any] = {}
        for key, value in zip(keys, values, strict=True):
            inside = _below(path, key)
            # True is no key of a file, but equals 1.
            there = children.pop(names[key], None) if type(key) in (str, int) else None
            items[key] = self._absent(inside, value) if there is None else self._match(there, inside, value)
        self.ledger.unexpected += [below(path, key) for key in children]
        return _Rebuilt(template, items)

    def _sequence(self, node: int, path: str, template: Any, values: list[Any]) -> Any:
        count = self._file.size(node)
        elements = []
        for i, value in enumerate(values):
            inside = below(path, i)
            there = self._file.child(node, i) if i < count else None
            elements.append(self._absent(inside, value) if there is None else self._match(there, inside, value))
        self.ledger.unexpected += [below(path, i) for i in range(len(values), count)]
        return _Rebuilt(template, elements)

    def _absent(self, path: str, template: Any) -> Any:
        if template is SKIP:
            return SKIP
        try:
            if template is not ANY and not isinstance(template, (Placeholder, AxisNamed, Packed)):
                _parts(template)
        except Unsupported:
            self.ledger.kept.append(path)
            return template
        self.ledger.missing.append(path)
        self.ledger.kept.append(path)
        return template

    def _mismatch(self, path: str, wanted: str, found: str, template: Any) -> Any:
        self.ledger.mismatched.append(Mismatch(path, wanted, found))
        return template

    def _describe(self, node: int, kind: int) -> str:
        from . import _dtypes

        if kind in (TENSOR, PLACEHOLDER):
            parts = self._file.tensor(node)
            return f"{_dtypes.NAMES[parts[1]]} {list(parts[2])}"
        return KIND_NAMES[kind]


class _Rebuilt(NamedTuple):
    """A container of the template's type, with these children."""

    template: Any
    children: Any


def _filled(planned: Any, values: list[Any]) -> Any:
    """The planned state with what was read. Recurses as deep as the template, which encode() limits."""
    if type(planned) is _Pending:
        return planned.convert(values[planned.number])
    if type(planned) is not _Rebuilt:
        return planned
    children = planned.children
    if isinstance(children, dict):
        may_shrink = _parts(planned.template)[0] == DICT
        filled: Any = {
            key: _filled(child, values) for key, child in children.items() if child is not SKIP or not may_shrink
        }
    else:
        filled = [_filled(child, values) for child in children]
    return _retyped(filled, planned.template)


def _retyped(value: Any, like: Any) -> Any:
    """`value`, a dict or list of new children, as an object of the type of `like`."""
    cls = type(like)
    if type(value) is cls:
        return value
    if cls is tuple:
        return tuple(value)
    content = pairs(value) if isinstance(value, dict) else value
    registered = _registry.of_class(cls)
    if registered is not None:
        return registered.decode(content)
    if isinstance(like, Labelled):
        return Labelled(like.label, _retyped(value, like.value))
    if isinstance(like, Record):
        return Record(like.label, value.items())
    if isinstance(like, tuple):
        return cls(**value)
    if dataclasses.is_dataclass(like):
        return _registry.restored(cls, value)
    kind, label, _ = _parts(like)
    return _decode.decode_other(kind, label, content, False)


def _is_array(value: Any) -> bool:
    import numpy as np

    return type(value) is np.ndarray and value.dtype.kind not in "mMOSU"


def _is_float(name: str) -> bool:
    return name.startswith(("f", "bf"))


def _tensor_of(template: Any) -> tuple[str, tuple[int, ...], tuple[str, ...]]:
    from . import _dtypes

    if isinstance(template, (Placeholder, Packed)):
        return template.dtype, tuple(template.shape), tuple(template.axis_names)
    names = tuple(template.axis_names) if isinstance(template, AxisNamed) else ()
    array = template.array if isinstance(template, AxisNamed) else template
    parts = _encode.array_parts(array) if _is_array(array) else _encode.encode_other(array)
    return _dtypes.NAMES[parts[2].dtype], tuple(parts[2].shape), names


def _parts(template: Any) -> tuple[int, str | None, Any]:
    """The kind, label and content of a template, also of the types that the extension module knows."""
    plain = _encode.plain_parts(template)
    return plain if plain is not None else _encode.encode_other(template)


def _is_of_time(label: str | None) -> bool:
    return label is not None and label.removeprefix("numpy.").startswith(("datetime64", "timedelta64"))


def _below(path: str, key: Any) -> str:
    return below(path, key if type(key) in (str, int) else repr(key))
