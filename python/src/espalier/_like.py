"""load(like=): a state of the template's types, and a list of all in which the file differs from it."""

from __future__ import annotations

import dataclasses
import functools
import sys
import warnings
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

from . import _core, _decode, _encode, _frameworks, _registry
from ._checkpoint import Checkpoint
from ._errors import EspalierError, Unsupported
from ._progress import Progress, reporting
from ._tree import (
    BIGINT, DICT, DTYPE_NAMES, DTYPE_NUMBERS, INT, KIND_NAMES, LIST, NULL, PLACEHOLDER, RECORD, STRING, TENSOR, TUPLE,
    below, pairs,
)  # fmt: skip
from ._visible import visible
from ._wrappers import AxisNamed, Labelled, Packed, Placeholder, Record

Strict = bool | Literal["template", "file"]
_SHOWN = 20
# Tuples whose elements are their value, not places in the tree.
_WHOLE = ("range", "slice", "datetime.timedelta", "fractions.Fraction")


class _Marker:
    def __init__(self, name: str, meaning: str):
        self._name = name
        self.__doc__ = meaning

    def __repr__(self) -> str:
        return f"espalier.{self._name}"

    def __reduce__(self) -> str:
        return self._name


# Any, as what stands for something of another type: load(like=) returns the template's type.
ANY: Any = _Marker("ANY", "In a template: takes what the file has there.")
SKIP: Any = _Marker("SKIP", "In a template: leaves out what the file has there, and reads none of its bytes.")


class Mismatch(NamedTuple):
    """A place at which the file is not what the template wants."""

    path: str
    wanted: str
    found: str

    def __str__(self) -> str:
        return visible(f"{self.path or 'the root'}: {self.found} in the file, {self.wanted} in the template")


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
    reclassed: list[Mismatch] = dataclasses.field(default_factory=list)
    """Records of a class of another name, whose fields are taken all the same: only strict=True refuses them."""
    skipped: list[str] = dataclasses.field(default_factory=list)

    def differences(self, strict: Strict) -> list[str]:
        """What `strict` does not let pass, a line each."""
        lines = [str(mismatch) for mismatch in self.mismatched]
        if strict is True:
            lines += map(str, self.reclassed)
        if strict in (True, "template"):
            lines += [visible(f"{path or 'the root'}: missing in the file") for path in self.missing]
        if strict in (True, "file"):
            lines += [visible(f"{path or 'the root'}: in the file alone") for path in self.unexpected]
        return lines


class TreeMismatch(EspalierError):
    """The file is not what the template wants. `ledger` has all of it; the message has the first of it."""

    def __init__(self, message: str, ledger: Ledger):
        changed = [each.path for each in ledger.mismatched + ledger.reclassed]
        first = next(iter(changed + ledger.missing + ledger.unexpected), "")
        super().__init__(message, "tree_invalid", first)
        # A line for each difference; those of Ledger.differences() have no line breaks of their own.
        self.args = ("\n".join(map(visible, message.split("\n"))),)
        self.ledger = ledger

    def __reduce__(self) -> tuple[object, ...]:
        return TreeMismatch, (str(self), self.ledger)


def spec(shape: Iterable[int], dtype: Any, axis_names: Iterable[str] = ()) -> Any:
    """A place for a tensor in a template: its shape, and its dtype, as "f32" or as numpy has it."""
    name = dtype if isinstance(dtype, str) and dtype in DTYPE_NUMBERS else None
    if name is None:
        import numpy as np

        from . import _dtypes

        name = _dtypes.name_of(np.dtype(dtype))
    if name is None:
        raise EspalierError(f"the format has no elements of dtype {dtype!r}")
    return Placeholder(name, tuple(shape), tuple(axis_names))


class _Pending(NamedTuple):
    """What becomes of a value of the file once it is loaded."""

    framework: _frameworks.Framework
    number: int
    convert: Callable[[Any], Any]
    kind: Hashable
    """Values of one number and kind are one object."""


class _Read(NamedTuple):
    """A value that is read by itself."""

    read: Callable[[], Any]
    number: int
    kind: Hashable


class Matcher:
    """Compares a template with a file, and then reads what both have."""

    def __init__(self, checkpoint: Checkpoint, keys: str, cast: str | None, framework: _frameworks.Framework = "numpy"):
        if keys not in ("exact", "text"):
            raise EspalierError(f'keys must be "exact" or "text", not {keys!r}')
        if cast not in (None, "float"):
            raise EspalierError(f'cast must be None or "float", not {cast!r}')
        self.ledger = Ledger()
        self._checkpoint = checkpoint
        self._file = checkpoint._opened
        self._keys = keys
        self._cast = cast
        self._framework = framework
        self._absent_templates: list[Any] = []
        self._known: list[_frameworks.Values] | None = None
        self._nodes: dict[_frameworks.Framework, list[int]] = {}  # to load as arrays of each
        # By framework, and the number of a tensor, or -1 less that of another node: the place in the list above.
        self._numbers: dict[_frameworks.Framework, dict[int, int]] = {}

    def load(
        self,
        node: int,
        path: str,
        template: Any,
        strict: Strict,
        check: bool,
        progress: Progress = None,
        stacklevel: int = 4,
    ) -> Any:
        """`stacklevel` is that of a warning, for the caller of load()."""
        if strict not in (True, False, "template", "file"):
            raise EspalierError(f'strict must be True, False, "template" or "file", not {strict!r}')
        self._known = _frameworks.imported()
        planned = self._match(node, path, template)
        lines = self.ledger.differences(strict)
        if strict and lines:
            shown = "".join(f"\n  {line}" for line in lines[:_SHOWN])
            more = f"\n  and {len(lines) - _SHOWN} more: see the error's `ledger`" if len(lines) > _SHOWN else ""
            plural = "places" if len(lines) > 1 else "place"
            name = visible(self._checkpoint.name)
            text = f"{name}: the file differs from the template at {len(lines)} {plural}:{shown}{more}{_wrapped(self.ledger)}"
            raise TreeMismatch(text, self.ledger)
        if strict == "file" and not self.ledger.loaded and any(map(self._has_values, self._absent_templates)):
            first = self.ledger.missing[0] or "the root"
            text = f"the file has nothing of the template, so all of it would stay as it is: {first} and so on"
            raise TreeMismatch(f"{visible(self._checkpoint.name)}: {text}; pass strict=False if that is meant", self.ledger)
        if strict is False and not self.ledger.loaded and (lines := self.ledger.differences(True)):
            name = visible(self._checkpoint.name)
            warnings.warn(f"{name}: nothing was loaded, as nothing in the file matches the template: {lines[0]}", stacklevel=stacklevel)
        values = {}
        for framework, nodes in self._nodes.items():
            with reporting(progress, f"loading {self._checkpoint.name}") as report:
                values[framework] = self._file.load_nodes(nodes, check, False, framework, report)
        return _Filling(values).fill(planned)

    # Each of these gives the template's value, with _Pending in the places of what is to be read.

    def _match(self, node: int, path: str, template: Any) -> Any:
        if template is ANY:
            return self._take(node, path)
        if template is SKIP:
            self.ledger.skipped.append(path)
            return SKIP
        if type(template) is _frameworks.Own:
            return self._code(node, path, template)
        try:
            leaf = self._leaf(template)
            if leaf is not None:
                return self._tensor(node, path, template, leaf)
            wanted, label, content = _parts(template)
            kind = self._file.kind(node)
        except Unsupported:
            kind = self._file.kind(node)
            if kind != NULL:
                return self._mismatch(path, f"what no file holds ({type(template).__name__})", self._describe(node, kind), template)
            self.ledger.kept.append(path)
            return template
        if template is None and self._file.label(node) == _frameworks.CODE:  # of a tree without its functions
            self.ledger.kept.append(path)
            return None
        if wanted != (INT if kind == BIGINT else kind):
            if (order := self._order_as(wanted, label, node, kind)) is not None:
                self.ledger.relabelled.append(Mismatch(path, KIND_NAMES[wanted], self._describe(node, kind)))
                if wanted in (DICT, RECORD):
                    return self._keyed(node, path, template, list(content[0]), list(content[1]))
                return self._sequence(node, path, template, list(content), order)
            if kind == NULL and wanted in (DICT, LIST, TUPLE, RECORD) and not self._has_values(template):
                self.ledger.kept.append(path)  # Orbax saves None for what has no arrays, such as optax's EmptyState
                return template
            return self._mismatch(path, KIND_NAMES[wanted], self._describe(node, kind), template)
        found = self._file.label(node)
        if found != label and wanted not in (DICT, LIST, TUPLE, RECORD):
            return self._mismatch(path, label or KIND_NAMES[wanted], found or KIND_NAMES[kind], template)
        if wanted == RECORD and _is_other_class(label, found):
            self.ledger.reclassed.append(Mismatch(path, f"record {label}", f"record {found}"))
        elif found != label:
            self.ledger.relabelled.append(Mismatch(path, label or "no label", found or "no label"))
        if wanted in (DICT, RECORD):
            return self._keyed(node, path, template, list(content[0]), list(content[1]))
        if wanted in (LIST, TUPLE) and label not in _WHOLE:
            return self._sequence(node, path, template, list(content))
        return self._take(node, path)

    def _leaf(self, template: Any) -> _frameworks.Leaf | None:
        if type(template) in (Placeholder, AxisNamed, Packed):
            return _wrapped_leaf(template)._replace(framework=self._framework)
        return array_leaf(template, self._known)

    def _code(self, node: int, path: str, template: _frameworks.Own) -> Any:
        kind = self._file.kind(node)
        if kind != NULL:  # of a tree without its functions
            if kind != STRING:
                return self._mismatch(path, template.name, self._describe(node, kind), template.value)
            name = str(self._file.load(node, False, False))
            if not template.is_named(name):
                return self._mismatch(path, template.name, name, template.value)
        self.ledger.kept.append(path)
        return template.value

    def _take(
        self,
        node: int,
        path: str,
        convert: Callable[[Any], Any] = lambda value: value,
        framework: _frameworks.Framework | None = None,
        kind: Hashable = None,
        identity: int | None = None,
    ) -> _Pending:
        """`identity` is the number of the node's tensor, for callers that have it."""
        self.ledger.loaded.append(path)
        framework = framework or self._framework
        if identity is None:
            about = self._file.array(node)
            identity = None if about is None else about[0]
        nodes = self._nodes.setdefault(framework, [])
        # Ties: one object for all places of a tensor.
        numbers = self._numbers.setdefault(framework, {})
        number = numbers.setdefault(-1 - node if identity is None else identity, len(nodes))
        if number == len(nodes):
            nodes.append(node)
        return _Pending(framework, number, convert, kind)

    def _tensor(self, node: int, path: str, template: Any, leaf: _frameworks.Leaf) -> Any:
        dtype, shape, names, label = leaf.dtype, leaf.shape, leaf.axis_names, leaf.label
        about = self._file.array(node)
        if about is None and (inner := self._below_level(node, leaf.level)) is not None:
            self.ledger.relabelled.append(Mismatch(path, f"{dtype} {list(shape)}", self._describe(node, self._file.kind(node))))
            node, about = inner, self._file.array(inner)
        if about is None:
            return self._mismatch(path, f"{dtype} {list(shape)}", self._describe(node, self._file.kind(node)), template)
        identity, number, there, axis_names, is_placeholder, labelled = about
        found = DTYPE_NAMES[number]
        is_same = found == dtype and there == shape and label == labelled and not is_placeholder
        if is_same and leaf.read is None and not names and not _is_of_time(label):  # as nearly all are
            return self._take(node, path, leaf.convert, leaf.framework, leaf.kind, identity)
        wanted = f"{dtype} {list(shape)}"
        text = f"{'a placeholder ' if is_placeholder else ''}{found} {list(there)}"
        if names and axis_names and names != axis_names:
            return self._mismatch(path, f"{wanted} {list(names)}", f"{text} {list(axis_names)}", template)
        if there != shape or is_placeholder:
            return self._mismatch(path, wanted, text, template)
        if label != labelled and (_is_more(label) or _is_more(labelled)):
            return self._mismatch(path, label or wanted, labelled or text, template)
        if _is_of_time(label):
            return self._take(node, path)
        if found == dtype:
            if leaf.read is not None:
                self.ledger.loaded.append(path)
                return _Read(functools.partial(leaf.read, self._checkpoint._tensor(node, path)), identity, leaf.kind)
            return self._take(node, path, leaf.convert, leaf.framework, leaf.kind)
        if self._cast != "float" or not (_is_float(found) and _is_float(dtype)):
            return self._mismatch(path, wanted, text, template)
        convert = _frameworks.cast(leaf.framework, found, dtype)
        if convert is None:
            raise Unsupported(
                f"{path}: {leaf.framework} has no conversion from {found} to {dtype}; with the package ml_dtypes, numpy has",
                path=path,
            )
        self.ledger.cast.append(Mismatch(path, dtype, found))
        return self._take(
            node, path, lambda value: leaf.convert(convert(value)), leaf.framework, (dtype, leaf.kind)
        )

    def _below_level(self, node: int, level: str | int | None) -> int | None:
        """The tensor that is all there is below a node, under that key or position."""
        is_sequence = self._file.kind(node) in (LIST, TUPLE)
        if is_sequence != isinstance(level, int) or self._file.kind(node) not in (LIST, TUPLE, DICT):
            return None
        children = self._file.children(node)
        if len(children) != 1 or (not is_sequence and list(self._file.keys(node)) != [level]):
            return None
        return children[0] if self._file.array(children[0]) is not None else None

    def _keyed(self, node: int, path: str, template: Any, keys: list[Any], values: list[Any]) -> Any:
        children = dict(zip(self._file.keys(node), self._file.children(node), strict=True))
        if self._keys == "text":
            by_text = {str(key): key for key in children}
            exact = {(type(key), key) for key in children}
            names = {key: key if (type(key), key) in exact else by_text.get(str(key), key) for key in keys}
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

    def _order_as(self, wanted: int, label: str | None, node: int, kind: int) -> list[int] | None:
        """The children of a container that can stand for one of another kind: a dict for a record with the same names, as
        exports and other libraries have it, a dict whose keys are positions for a list, and a list for a tuple, as Orbax saves
        it. None if it cannot."""
        if wanted in (DICT, RECORD) and kind in (DICT, RECORD):
            return list(self._file.children(node))
        if wanted == TUPLE and kind == LIST and label not in _WHOLE:
            return list(self._file.children(node))
        if wanted not in (LIST, TUPLE) or kind != DICT or label in _WHOLE:
            return None
        children = {str(key): child for key, child in zip(self._file.keys(node), self._file.children(node), strict=True)}
        order = [children.get(str(i)) for i in range(len(self._file.children(node)))]
        return None if None in order else [child for child in order if child is not None]

    def _sequence(self, node: int, path: str, template: Any, values: list[Any], children: Sequence[int] | None = None) -> Any:
        children = self._file.children(node) if children is None else children
        elements = []
        for i, value in enumerate(values):
            inside = below(path, i)
            there = children[i] if i < len(children) else None
            elements.append(self._absent(inside, value) if there is None else self._match(there, inside, value))
        self.ledger.unexpected += [below(path, i) for i in range(len(values), len(children))]
        return _Rebuilt(template, elements)

    def _absent(self, path: str, template: Any) -> Any:
        if template is SKIP:
            return SKIP
        if type(template) is _frameworks.Own:
            self.ledger.kept.append(path)
            return template.value
        try:
            if template is not ANY and self._leaf(template) is None:
                _parts(template)
        except Unsupported:
            self.ledger.kept.append(path)
            return template
        self.ledger.missing.append(path)
        self.ledger.kept.append(path)
        self._absent_templates.append(template)
        return template

    def _has_values(self, template: Any) -> bool:
        """Whether a file could have something of a template: not if it is all functions."""
        if type(template) is _frameworks.Own:
            return False
        if template is ANY or template is SKIP:
            return template is ANY
        try:
            if self._leaf(template) is not None:
                return True
            kind, _, content = _parts(template)
        except Unsupported:
            return False
        if kind not in (DICT, LIST, TUPLE, RECORD):
            return True
        return any(map(self._has_values, content[1] if kind in (DICT, RECORD) else content))

    def _mismatch(self, path: str, wanted: str, found: str, template: Any) -> Any:
        self.ledger.mismatched.append(Mismatch(path, wanted, found))
        return template

    def _describe(self, node: int, kind: int) -> str:
        if kind in (TENSOR, PLACEHOLDER):
            parts = self._file.tensor(node)
            return f"{DTYPE_NAMES[parts[1]]} {list(parts[2])}"
        return KIND_NAMES[kind]


class _Rebuilt(NamedTuple):
    """A container of the template's type, with these children."""

    template: Any
    children: Any


class _Filling:
    """Puts what was read into a planned state. Recurses as deep as the template, which encode() limits."""

    def __init__(self, values: dict[_frameworks.Framework, list[Any]]):
        self._values = values
        self._converted: dict[tuple[str, int, Hashable], Any] = {}

    def fill(self, planned: Any) -> Any:
        if type(planned) is _Pending:
            return self._converted_value(planned)
        if type(planned) is _Read:
            key = ("read", planned.number, planned.kind)
            if planned.kind is None or key not in self._converted:
                self._converted[key] = planned.read()
            return self._converted[key]
        if type(planned) is not _Rebuilt:
            return planned
        children = planned.children
        if isinstance(children, dict):
            may_shrink = _parts(planned.template)[0] == DICT
            filled: Any = {key: self.fill(child) for key, child in children.items() if child is not SKIP or not may_shrink}
        else:
            filled = [self.fill(child) for child in children]
        return _retyped(filled, planned.template)

    def _converted_value(self, pending: _Pending) -> Any:
        framework, number, convert, kind = pending
        value = self._values[framework][number]
        if kind is None:
            return convert(value)
        key = (framework, number, kind)
        if key not in self._converted:
            self._converted[key] = convert(value)
        return self._converted[key]


def _retyped(value: Any, like: Any) -> Any:
    """`value`, a dict or list of new children, as an object of the type of `like`."""
    cls = type(like)
    if type(value) is cls:
        return value
    if cls is tuple:
        return tuple(value)
    rebuilt = _frameworks.rebuild(like, value)
    if rebuilt is not NotImplemented:
        return rebuilt
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


# What DistributedDataParallel, torch.compile() and FullyShardedDataParallel put into the names of parameters.
WRAPPERS = ("module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")


def _wrapped(ledger: Ledger) -> str:
    """What to say if the names differ by what torch's wrappers put into them alone."""

    def unwrapped(paths: list[str]) -> set[str]:
        return {".".join(part for part in path.replace("/", ".").split(".") if part not in WRAPPERS) for path in paths}

    missing, unexpected = unwrapped(ledger.missing), unwrapped(ledger.unexpected)
    if not missing or missing != unexpected:
        return ""
    text = "\n  The names differ alone by what DDP or torch.compile() put into them: "
    if sum(map(len, ledger.unexpected)) > sum(map(len, ledger.missing)):
        return f'{text}load espalier.map(FILE, "unwrap"), which leaves it out, in place of the file'
    return f"{text}load into the module that is wrapped, such as model.module or model._orig_mod, and not into the wrapper"


def _is_other_class(label: str | None, found: str | None) -> bool:
    """Whether a record is of a class of another name: the state of another optimizer, with the same fields. Classes move from
    module to module."""
    return label is not None and found is not None and label.rpartition(".")[2] != found.rpartition(".")[2]


def _is_float(name: str) -> bool:
    return name.startswith(("f", "bf"))


def _wrapped_leaf(template: Placeholder | AxisNamed | Packed) -> _frameworks.Leaf:
    if not isinstance(template, AxisNamed):
        return _frameworks.Leaf(template.dtype, tuple(template.shape), tuple(template.axis_names))
    array = array_leaf(template.array)
    if array is None:
        raise Unsupported(f"an AxisNamed of a {type(template.array).__name__}, which is no array")
    return array._replace(axis_names=tuple(template.axis_names))


def array_leaf(template: Any, known: Sequence[_frameworks.Values] | None = None) -> _frameworks.Leaf | None:
    """What an array of numpy or a framework stands for; None for what is none. `known` is as for _frameworks.leaf()."""
    return _numpy_leaf(template) or _frameworks.leaf(template, known)


def _numpy_leaf(template: Any) -> _frameworks.Leaf | None:
    np = sys.modules.get("numpy")
    if np is None or not isinstance(template, (np.ndarray, np.generic)) or isinstance(template, (np.str_, np.bytes_)):
        return None
    if isinstance(template, np.ndarray):
        name, label = _encode.array_type(template)
        return _frameworks.Leaf(name, template.shape, (), label, "numpy", _as_array, np.ndarray)
    _, label, parts = _encode.encode_other(template)
    label = label if _is_of_time(label) else None
    cls: type = type(template)
    return _frameworks.Leaf(DTYPE_NAMES[parts.dtype], (), (), label, "numpy", _as_scalar, cls)


# A scalar of numpy is a tensor without axes, and comes back as what the template has.


def _as_array(value: Any) -> Any:
    np = sys.modules["numpy"]
    return np.asarray(value) if isinstance(value, np.generic) else value


def _as_scalar(value: Any) -> Any:
    return sys.modules["numpy"].asarray(value)[()]


def _parts(template: Any) -> tuple[int, str | None, Any]:
    """The kind, label and content of a template, also of the types that the extension module knows."""
    plain = _encode.plain_parts(template)
    return plain if plain is not None else _encode.encode_other(template)


def _is_of_time(label: str | None) -> bool:
    return label is not None and label.removeprefix("numpy.").startswith(("datetime64", "timedelta64"))


def _is_more(label: str | None) -> bool:
    """Whether a tensor of that label is of another type than the same numbers without it."""
    return _is_of_time(label) or label is not None and label.startswith("jax.random.key/")


def _below(path: str, key: Any) -> str:
    return below(path, key if type(key) in (str, int) else repr(key))
