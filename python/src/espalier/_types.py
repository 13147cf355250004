"""How Python's types map onto the tree and back: what the extension module does not know by itself.

It knows None, bool, int, float, complex, str, bytes, dict, list, tuple, set and numpy.ndarray, exactly these types. All
others come here. A label names the type; a file's label chooses among the types of this module and those that the
program registered, and nothing is ever imported or called by it.
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
import threading
import types
import uuid
import zoneinfo
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ._errors import EspalierError, Unsupported

NULL, BOOL, INT, BIGINT, FLOAT, COMPLEX, STRING, BYTES, DICT, LIST, TUPLE, SET, RECORD, TENSOR, PLACEHOLDER = range(
    1, 16
)
KIND_NAMES = (
    "", "null", "bool", "int64", "bigint", "float64", "complex128", "string", "bytes", "dict", "list", "tuple", "set",
    "record", "tensor", "placeholder",
)  # fmt: skip

Parts = tuple[int, "str | None", Any]  # a kind, a label, and what the extension module takes for that kind


class TensorParts(NamedTuple):
    """A tensor as the extension module takes it."""

    dtype: int
    shape: tuple[int, ...]
    data: Any = None  # an array of the packed bytes in C order; None for a placeholder
    axis_names: tuple[str, ...] = ()
    block: tuple[str, int, int] | None = None
    is_private: bool = False  # whether nobody else has this memory


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
            raise AttributeError(f"this record has no field {name!r}; it has {', '.join(self._fields)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self._fields.items())
        return f"{self.label or 'Record'}({fields})"

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


# --- from Python to the tree ---


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


def _pairs(items: Mapping[Any, Any]) -> tuple[list[Any], list[Any]]:
    return list(items.keys()), list(items.values())


_FACTORIES: dict[str, Callable[[], Any]] = {
    factory.__name__: factory for factory in (bool, bytes, complex, dict, float, frozenset, int, list, set, str, tuple)
}


def _defaultdict(value: collections.defaultdict[Any, Any]) -> Parts:
    factory: Any = value.default_factory
    if factory is None:
        return DICT, "collections.defaultdict", _pairs(value)
    name = getattr(factory, "__name__", "")
    if _FACTORIES.get(name) is not factory:
        raise Unsupported(
            f"a defaultdict whose factory is {factory!r} cannot be restored; make it a dict, or use a built-in type"
        )
    return DICT, f"collections.defaultdict[{name}]", _pairs(value)


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


def _labelled(value: Labelled) -> Parts:
    plain: Any = value.value
    simple: dict[type, int] = {type(None): NULL, bool: BOOL, int: INT, float: FLOAT, complex: COMPLEX, str: STRING, bytes: BYTES}
    kind = simple.get(type(plain))
    if kind is not None:
        return kind, value.label, plain
    if type(plain) is dict:
        return DICT, value.label, _pairs(plain)
    if type(plain) is Record:
        return RECORD, value.label, _pairs(plain)
    sequences: dict[type, int] = {list: LIST, tuple: TUPLE, set: SET}
    kind = sequences.get(type(plain))
    if kind is not None:
        return kind, value.label, list(plain)
    kind, label, content = encode_other(plain, also_known=True)
    if label is not None:
        raise Unsupported(f"a {type(plain).__name__} has a label of its own, {label!r}, and cannot get {value.label!r}")
    return kind, value.label, content


_ENCODERS: dict[type, Callable[[Any], Parts]] = {
    collections.OrderedDict: lambda v: (DICT, "collections.OrderedDict", _pairs(v)),
    collections.Counter: lambda v: (DICT, "collections.Counter", _pairs(v)),
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
    types.SimpleNamespace: lambda v: (RECORD, "types.SimpleNamespace", _pairs(vars(v))),
    argparse.Namespace: lambda v: (RECORD, "argparse.Namespace", _pairs(vars(v))),
    Record: lambda v: (RECORD, v.label, _pairs(v)),
    Labelled: _labelled,
    OrderedSet: lambda v: (SET, None, list(v.elements)),
    AxisNamed: lambda v: (TENSOR, None, _array_parts(v.array)[2]._replace(axis_names=tuple(v.axis_names))),
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


def _array_parts(array: Any) -> Parts:
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
        return _array_parts(value)
    if isinstance(value, numpy.generic):
        if isinstance(value, numpy.str_):
            return STRING, "numpy.str_", str(value)
        if isinstance(value, numpy.bytes_):
            return BYTES, "numpy.bytes_", bytes(value)
        kind, _, parts = _array_parts(numpy.array(value))
        return kind, f"numpy.{value.dtype.name}", parts
    if isinstance(value, numpy.dtype):
        return STRING, "numpy.dtype", value.name if value.kind == "V" else value.str
    return None


def encode_other(value: Any, also_known: bool = False) -> Parts:
    """What to save for a value whose type the extension module does not know. Called by it."""
    cls = type(value)
    with _lock:
        registered = _by_class.get(cls)
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
            return DICT, None, _pairs(state)
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


# --- from the tree to Python ---


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


def _zipped(content: tuple[list[Any], list[Any]]) -> zip[tuple[Any, Any]]:
    return zip(*content, strict=True)


def _make_defaultdict(factory: Callable[[], Any]) -> Callable[[Any], Any]:
    return lambda content: collections.defaultdict(factory, _zipped(content))


_DECODERS: dict[tuple[int, str], Callable[[Any], Any]] = {
    (DICT, "collections.OrderedDict"): lambda c: collections.OrderedDict(_zipped(c)),
    (DICT, "collections.Counter"): lambda c: collections.Counter(dict(_zipped(c))),
    (DICT, "collections.defaultdict"): lambda c: collections.defaultdict(None, _zipped(c)),
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
    (RECORD, "types.SimpleNamespace"): lambda c: types.SimpleNamespace(**dict(_zipped(c))),
    (RECORD, "argparse.Namespace"): lambda c: argparse.Namespace(**dict(_zipped(c))),
    **{
        (DICT, f"collections.defaultdict[{name}]"): _make_defaultdict(factory)
        for name, factory in _FACTORIES.items()
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
        return dict(_zipped(content))
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
            return Record(label, _zipped(content))
        value = OrderedSet(tuple(content)) if kind == SET else _plain(kind, content)
        return value if label is None else Labelled(label, value)
    if label is not None:
        with _lock:
            registered = _by_label.get(label)
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
        return Record(label, _zipped(content))
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


# --- classes of the program ---


class _Registered(NamedTuple):
    cls: type
    label: str
    kind: int
    encode: Callable[[Any], Parts]
    decode: Callable[[Any], Any]


_lock = threading.Lock()
_by_class: dict[type, _Registered] = {}
_by_label: dict[str, _Registered] = {}


def _record_of(cls: type, label: str, names: list[str], make: Callable[[dict[str, Any]], Any]) -> _Registered:
    def encode(value: Any) -> Parts:
        return RECORD, label, (names, [getattr(value, name) for name in names])

    def decode(content: tuple[list[str], list[Any]]) -> Any:
        fields = dict(_zipped(content))
        if set(fields) != set(names):
            missing, unexpected = sorted(set(names) - set(fields)), sorted(set(fields) - set(names))
            raise EspalierError(
                f"the file has other fields of {label} than the class: "
                + "; ".join(
                    f"{what} {', '.join(some)}" for what, some in (("missing", missing), ("unexpected", unexpected)) if some
                )
            )
        return make(fields)

    return _Registered(cls, label, RECORD, encode, decode)


def _restored(cls: type, fields: dict[str, Any]) -> Any:
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
            return RECORD, name, _pairs(there(value))

        made = _Registered(cls, name, RECORD, encode, lambda content: back(dict(_zipped(content))))
    elif issubclass(cls, enum.Enum):
        made = _Registered(cls, name, STRING, lambda v: (STRING, name, v.name), lambda c: cls[c])
    elif issubclass(cls, tuple) and hasattr(cls, "_fields"):
        made = _record_of(cls, name, list(cls._fields), lambda fields: cls(**fields))
    elif dataclasses.is_dataclass(cls):
        names = [field.name for field in dataclasses.fields(cls)]
        made = _record_of(cls, name, names, lambda fields: _restored(cls, fields))
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
