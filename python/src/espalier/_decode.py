"""The objects for values that have a label, or that Python has no plain type for.

A file's label chooses among the types of this package and those that the program registered. Nothing is ever imported or
called by a name from a file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _frameworks, _registry
from ._errors import Unsupported
from ._tree import BYTES, DICT, LIST, RECORD, SET, STRING, TENSOR, TUPLE, zipped
from ._wrappers import AxisNamed, Labelled, OrderedSet, Packed, Placeholder, Record


def _make_numpy_dtype(content: str) -> Any:
    import re

    import numpy as np

    from . import _dtypes

    for name in _dtypes.NUMBERS:
        dtype = _dtypes.numpy_dtype(name)
        if dtype is not None and content in (dtype.name, dtype.str, dtype.newbyteorder(">").str):
            return np.dtype(content) if content != dtype.name else dtype
    # Only what numpy's `str` gives: other texts, with commas, make structures.
    time = re.fullmatch(r"[<>|=]?([mM])8(\[.*\])?", content)
    if time is not None and _is_time(f"datetime64{time[2] or ''}"):
        return np.dtype(content)
    if re.fullmatch(rf"[<>|=]?[{_dtypes.OTHER_KINDS}][0-9]{{0,9}}", content):
        return np.dtype(content)
    return content


# A hostile file can hold numbers of one hash, and putting n of them into a set takes n * n steps.
_MOST_OF_ONE_HASH = 1000


def _has_one_hash(values: list[Any]) -> bool:
    """Whether too many of the values have one hash. TypeError if one has none."""
    if len(values) <= _MOST_OF_ONE_HASH:
        return False
    import collections

    return max(collections.Counter(map(hash, values)).values()) > _MOST_OF_ONE_HASH


def _set(content: list[Any], label: str | None) -> Any:
    instead = "; load it with exact=True, which gives an OrderedSet"
    try:
        if _has_one_hash(content):
            raise Unsupported(
                f"a set has more than {_MOST_OF_ONE_HASH:,} elements of one hash, which take too long to put into one{instead}"
            )
        made = frozenset(content) if label == "frozenset" else set(content)
    except TypeError:
        raise Unsupported(f"a set holds a value that Python cannot put into one{instead}") from None
    if len(made) != len(content):  # 1, 1.0 and True are one element.
        raise Unsupported(
            f"a set has {len(content)} elements, and only {len(made)} would be left, because some are equal in Python{instead}"
        )
    return made


def _dict_of_items(content: list[Any]) -> dict[Any, Any]:
    """A dict of torch.save() or pickle whose keys are no texts and ints. ValueError or TypeError if Python cannot hold it."""
    keys = [key for key, _ in content]
    if _has_one_hash(keys):
        raise ValueError("too many keys of one hash")
    made = dict(content)
    if len(made) != len(keys):
        raise ValueError("some keys are equal in Python")
    return made


def _plain(kind: int, content: Any) -> Any:
    if kind == DICT:
        return dict(zipped(content))
    if kind == TUPLE:
        return tuple(content)
    return content


def _standard_decoder(kind: int, label: str) -> Callable[[Any], Any] | None:
    # It imports more than the rest of the package.
    from . import _standard

    return _standard.decoder(kind, label)


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
    if kind == SET:
        return _set(content, label)
    if label is not None:
        registered = _registry.of_label(label)
        if registered is not None and registered.kind == kind:
            return registered.decode(content)
        decoder = _standard_decoder(kind, label)
        if kind == STRING and label == "numpy.dtype":
            decoder = _make_numpy_dtype
        elif kind == STRING and label == "numpy.str_":
            decoder = _numpy_type("str_")
        elif kind == BYTES and label == "numpy.bytes_":
            decoder = _numpy_type("bytes_")
        elif kind == LIST and label == "dict.items":
            decoder = _dict_of_items
        try:
            made = _frameworks.decode(kind, label, content) if decoder is None else decoder(content)
            if made is not NotImplemented:
                return made
        except (TypeError, ValueError, ArithmeticError, LookupError, OSError):  # OSError: names of time zones
            pass
    if kind == RECORD:
        return Record(label, zipped(content))
    return _plain(kind, content)


def _numpy_type(name: str) -> Callable[[Any], Any]:
    import numpy as np

    return getattr(np, name)  # type: ignore[no-any-return]


def is_of_numpy(label: str) -> bool:
    """Whether a label says that a tensor is a value of numpy: a scalar, or dates."""
    return label.startswith(("numpy.", "datetime64", "timedelta64"))


def decode_tensor(
    label: str | None,
    dtype: int,
    shape: tuple[int, ...],
    axis_names: tuple[str, ...],
    block: tuple[str, int, int] | None,
    array: Any,
    exact: bool,
    framework: str,
) -> Any:
    """The object for a tensor that is more than an array of its dtype. Called by the extension module.

    `array` has the elements: of torch if that is the framework and has the dtype, and else of numpy. Or it has the bytes
    as they are, if there is no such array. Or it is None, for a placeholder.
    """
    from . import _dtypes

    name = _dtypes.NAMES[dtype]
    if label is not None and is_of_numpy(label):
        framework = "numpy"
    if framework == "torch":
        value = _torch_tensor(name, shape, axis_names, block, array)
    elif array is None:
        value = Placeholder(name, shape, axis_names, block)
    else:
        value = _numpy_array(dtype, name, shape, axis_names, block, array)
        if exact and axis_names and not isinstance(value, Packed):
            value = AxisNamed(value, axis_names)
    if exact:
        return value if label is None else Labelled(label, value)
    if isinstance(value, (Placeholder, Packed)):
        made = NotImplemented if framework == "numpy" or array is not None else _adapter(framework).placeholder(name, shape)
        return value if made is NotImplemented else made
    if framework != "numpy":
        return _adapter(framework).tensor(value, label, axis_names)
    return value if label is None else _of_numpy(label, name, shape, value)


def _adapter(framework: str) -> _frameworks.Adapter:
    return _frameworks.adapter(framework)


def _numpy_array(
    dtype: int, name: str, shape: tuple[int, ...], axis_names: tuple[str, ...], block: tuple[str, int, int] | None, array: Any
) -> Any:
    import numpy as np

    from . import _dtypes

    if _dtypes.by_number()[dtype] is not None:
        return array
    known = _dtypes.numpy_dtype(name)
    if known is None:
        return Packed(name, shape, array, axis_names, block)
    count = int(np.prod(shape, dtype=np.int64))
    value = _dtypes.unpack(array, name, count).view(known).reshape(shape)
    value.flags.writeable = False
    return value


def _torch_tensor(
    name: str, shape: tuple[int, ...], axis_names: tuple[str, ...], block: tuple[str, int, int] | None, array: Any
) -> Any:
    import numpy as np

    from . import _torch

    if array is None:
        return Placeholder(name, shape, axis_names, block)
    if not isinstance(array, np.ndarray):
        return array
    pairs = _torch.pairs(array, shape) if name == "f4_e2m1fn" else None
    return Packed(name, shape, array, axis_names, block) if pairs is None else pairs


def _is_time(text: str) -> bool:
    import re

    units = "Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as"
    return re.fullmatch(rf"(datetime64|timedelta64)(\[([1-9][0-9]{{0,8}})?({units})\])?", text) is not None


def _of_numpy(label: str, name: str, shape: tuple[int, ...], value: Any) -> Any:
    """What a label says that an array of numpy is, if it is that."""
    import numpy as np

    # numpy divides by the number after a slash, and reads structures from commas.
    is_time = _is_time(label.removeprefix("numpy.")) and name == "i64"
    if is_time and not label.startswith("numpy."):
        return value.view(np.dtype(label))
    if label.startswith("numpy.") and not shape:
        if label == f"numpy.{value.dtype.name}":
            return value[()]
        if is_time:
            return value.view(np.dtype(label[6:]))[()]
    try:
        made = _frameworks.decode(TENSOR, label, value)
    except (TypeError, ValueError):
        return value
    return value if made is NotImplemented else made
