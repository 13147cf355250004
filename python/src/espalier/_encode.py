"""What to save for values that the extension module does not know by itself.

It knows None, bool, int, float, complex, str, bytes, dict, list, tuple, set and numpy.ndarray, exactly these types. It
calls encode_other() for all others, and the label that this gives a value names its type.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from . import _frameworks, _registry
from ._errors import EspalierError, Unsupported
from ._tree import (
    BOOL, BYTES, COMPLEX, DICT, FLOAT, INT, LIST, NULL, PLACEHOLDER, RECORD, SET, STRING, TENSOR, TUPLE,
    Parts, TensorParts, pairs, public_name,
)  # fmt: skip
from ._visible import visible
from ._wrappers import AxisNamed, Labelled, OrderedSet, Packed, Placeholder, Record


def at_path(error: BaseException, path: str) -> BaseException:
    """The same error, which tells where in the state it is."""
    if isinstance(error, EspalierError) and not error.path:
        where = path or "the root"
        error.args = (visible(f"{where}: {error}"),)
        error.path = path
    return error


def overlap(one: str, other: str) -> Unsupported:
    return Unsupported(
        f"{one or 'the root'} and {other or 'the root'} share some of their memory, and would not share it any more "
        'when they are loaded; copy one of them, or pass views="copy" to save both in full',
        path=other,
    )


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


def _axis_named(value: AxisNamed) -> Parts:
    array = value.array
    kind, label, parts = plain_parts(array) or encode_other(array)
    if kind not in (TENSOR, PLACEHOLDER):
        raise Unsupported(f"an AxisNamed of a {type(array).__name__}, which is no array")
    return kind, label, parts._replace(axis_names=tuple(value.axis_names))


@dataclasses.dataclass(frozen=True)
class Encoded:
    """What encode_other() gave for a value, perhaps with other children."""

    parts: Parts


_WRAPPERS: dict[type, Callable[[Any], Parts]] = {
    Encoded: lambda v: v.parts,
    Record: lambda v: (RECORD, v.label, pairs(v)),
    Labelled: _labelled,
    OrderedSet: lambda v: (SET, None, list(v.elements)),
    AxisNamed: _axis_named,
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


@functools.lru_cache(256)
def _elements(dtype: Any) -> tuple[str, str | None]:
    """The format's name for an array's dtype, and the label of one that is stored as another."""
    from . import _dtypes

    if dtype.kind in "mM":
        return "i64", dtype.newbyteorder("=").name
    name = _dtypes.name_of(dtype.newbyteorder("="))
    if name is None:
        hint = {"O": "save its objects as a list", "U": "save a list of str", "S": "save a list of bytes"}
        raise Unsupported(
            f"an array of dtype {dtype}, which the format has no elements for; "
            + hint.get(dtype.kind, "convert it with astype()")
        )
    return name, None


def array_type(array: Any) -> tuple[str, str | None]:
    """The name of an array's dtype, and its label. It has no more than elements, or is refused."""
    import numpy as np

    if isinstance(array, np.ma.MaskedArray):
        raise Unsupported("a masked array; save its data and its mask")
    if type(array) is not np.ndarray:
        raise Unsupported(f"a {type(array).__name__}, a subclass of numpy.ndarray; save numpy.asarray() of it")
    return _elements(array.dtype)


def array_parts(array: Any) -> Parts:
    """An array that does not lie in memory as in a file: not in C order, byte-swapped, or of a dtype that is packed."""
    import numpy as np

    from . import _dtypes

    name, label = array_type(array)
    if label is not None:
        array = array.view(np.dtype("i8").newbyteorder(array.dtype.byteorder))
    native = array.dtype.newbyteorder("=")
    # asarray and ascontiguousarray would make one axis of none.
    data = np.array(array, dtype=native, order="C", copy=None)
    is_private = not np.may_share_memory(data, array) if data.size else True
    if name in _dtypes.PACKED:
        fitting = 8 // math.gcd(8, _dtypes.PACKED[name])
        if data.size % fitting:
            raise Unsupported(
                f"an array of {data.dtype} with {data.size} elements, which fill no whole bytes; pad its last axis, so that the "
                f"number of elements is a multiple of {fitting}, or save astype() of it"
            )
        data, is_private = _dtypes.pack(data, _dtypes.PACKED[name]), True
    return TENSOR, label, TensorParts(_dtypes.NUMBERS[name], array.shape, data, is_private=is_private)


def _numpy(value: Any) -> Parts | None:
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    if isinstance(value, numpy.ndarray):
        kind, label, parts = array_parts(value)
        # Two arrays of the same elements are one tensor, although each is copied.
        tie = (value.ctypes.data, value.dtype.str, value.shape, value.strides)
        return kind, label, parts._replace(tie=tie) if parts.is_private else parts
    if isinstance(value, numpy.generic):
        if isinstance(value, numpy.str_):
            return STRING, "numpy.str_", str(value)
        if isinstance(value, numpy.bytes_):
            return BYTES, "numpy.bytes_", bytes(value)
        kind, _, parts = array_parts(numpy.array(value))
        return kind, f"numpy.{value.dtype.name}", parts
    if isinstance(value, numpy.dtype):
        from . import _dtypes

        if _dtypes.name_of(value.newbyteorder("=")) is None and value.kind not in _dtypes.OTHER_KINDS:
            raise Unsupported(f"the dtype {value}, which is of structures; save its fields")
        return STRING, "numpy.dtype", value.name if value.kind == "V" else value.str
    return None


@functools.cache
def _standard_encoders() -> dict[type, Callable[[Any], Parts]]:
    # It imports more than the rest of the package.
    from . import _standard

    return _standard.ENCODERS


def encode_other(value: Any) -> Parts:
    """What to save for a value whose type the extension module does not know. Called by it."""
    cls = type(value)
    registered = _registry.of_class(cls)
    if registered is not None:
        return registered.encode(value)
    if isinstance(value, type):  # Its fields and methods are those of its values.
        raise Unsupported(f"the class {public_name(value)} is code, and a checkpoint holds none; save its name")
    encoder = _WRAPPERS.get(cls) or _standard_encoders().get(cls)
    if encoder is not None:
        return encoder(value)
    found = _numpy(value) or _frameworks.encode(value)
    if found is not None:
        return found
    if isinstance(value, enum.Enum):
        return _registry.enum_parts(value, public_name(cls))
    if isinstance(value, tuple) and hasattr(cls, "_fields"):
        if len(cls._fields) != len(value):
            raise Unsupported(f"a {public_name(cls)} of {len(value)} values with the fields {list(cls._fields)}")
        return RECORD, public_name(cls), (list(cls._fields), list(value))
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        return RECORD, public_name(cls), (names, [getattr(value, name) for name in names])
    if callable(getattr(value, "state_dict", None)):
        state = value.state_dict()
        if state is value:
            raise Unsupported(f"the state_dict() of a {public_name(cls)} is that object itself")
        return plain_parts(state) or encode_other(state)
    raise Unsupported(_refusal(value))


def _refusal(value: Any) -> str:
    name = public_name(type(value))
    article = "an" if name[0] in "aeiouAEIOU" else "a"
    for known in (dict, list, tuple, set, str, bytes, int, float):
        if isinstance(value, known):
            return (
                f"{article} {name}, a subclass of {known.__name__} that would come back as {known.__name__}; save "
                f"{known.__name__}() of it, or register the class"
            )
    if isinstance(value, Iterator):
        return f"{article} {name}, which can be read only once; save list() of it"
    if isinstance(value, Mapping):
        return f"{article} {name}; save dict() of it, or register the class"
    if callable(value):
        return f"{article} {name} is code, and a checkpoint holds none; leave it out"
    return f"{article} {name} cannot be saved; save what it is made of, or register the class with espalier.register()"
