"""A state without its tensors, and the tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ._encode import Encoded, at_path, encode_other, plain_parts
from ._errors import EspalierError
from ._tree import DICT, LIST, RECORD, TUPLE, below
from ._wrappers import Placeholder

_SIMPLE = (type(None), bool, int, float, complex, str, bytes)

# The name of the dtype, the shape and the tensor itself, and something that is equal for the same memory, or None; None for other
# values.
Described = tuple[str, tuple[int, ...], Any, Any] | None


class Split:
    """`skeleton` is the state with a Placeholder for each tensor, in which nothing changes when the state does.

    `tensors` has them by key path, each one once: `twins` has the path of the first for other paths of the same tensor.
    """

    def __init__(self, state: Any, describe: Callable[[Any], Described]):
        self.tensors: dict[str, Any] = {}
        self.twins: dict[str, str] = {}
        first: dict[Any, str] = {}

        def replace(value: Any, path: str) -> Any:
            described = describe(value)
            if described is None:
                return None
            dtype, shape, tensor, same = described
            if same is not None and first.setdefault(same, path) != path:
                self.twins[path] = first[same]
            else:
                self.tensors[path] = tensor
            return Placeholder(dtype, shape)

        self.skeleton = rebuilt(state, replace)


def rebuilt(value: Any, replace: Callable[[Any, str], Any], path: str = "") -> Any:
    """The state with `replace(value, path)` where that is not None, and with copies of numpy's arrays."""
    numpy = sys.modules.get("numpy")
    if type(value) in _SIMPLE:
        return value
    try:
        replaced = replace(value, path)
        if replaced is not None:
            return replaced
        if numpy is not None and type(value) is numpy.ndarray:
            return value.copy()
        kind, label, content = plain_parts(value) or encode_other(value)
    except EspalierError as error:
        raise at_path(error, path) from None
    if kind in (DICT, RECORD):
        keys, values = content
        if not all(type(key) in (str, int) for key in keys):
            return value  # The save refuses it, and says where.
        made = [rebuilt(each, replace, below(path, key)) for key, each in zip(keys, values, strict=True)]
        new: Any = (keys, made)
        if type(content) is not tuple:  # with attributes
            new = type(content)(new)
            vars(new).update(vars(content))
        return Encoded((kind, label, new))
    if kind in (LIST, TUPLE):
        return Encoded((kind, label, [rebuilt(each, replace, below(path, i)) for i, each in enumerate(content)]))
    return Encoded((kind, label, content))
