"""A state without its tensors, and the tensors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ._encode import Encoded, at_path, encode_other, plain_parts
from ._errors import EspalierError
from ._tree import DICT, LIST, RECORD, SET, TENSOR, TUPLE, TensorParts, below
from ._wrappers import Placeholder

_SIMPLE = (type(None), bool, int, float, complex, str, bytes)

# The name of the dtype, the shape and the tensor itself, and something that is equal for the same tensor, or None if this process
# cannot tell; None for other values.
Described = tuple[str, tuple[int, ...], Any, Any] | None


class Split:
    """`skeleton` is the state with a Placeholder for each tensor, in which nothing changes when the state does.

    `tensors` has them by key path. `ties` has, for each path, the first one of the same tensor; none for a tensor of which this
    process has no element, which may or may not be another one. `keys` are the key paths of all that is in dicts and records.
    """

    def __init__(self, state: Any, describe: Callable[[Any], Described]):
        self.tensors: dict[str, Any] = {}
        self.ties: dict[str, str] = {}
        first: dict[Any, str] = {}

        def replace(value: Any, path: str) -> Any:
            described = describe(value)
            if described is None:
                return None
            dtype, shape, tensor, same = described
            self.tensors[path] = tensor
            if same is not None:
                self.ties[path] = first.setdefault(same, path)
            return Placeholder(dtype, shape)

        self.skeleton = rebuilt(state, replace)
        self.keys = list(_keys_of(self.skeleton, ""))


def _keys_of(value: Any, path: str) -> Iterator[str]:
    if type(value) is not Encoded:
        return
    kind, _, content = value.parts
    if kind in (DICT, RECORD):
        for key, each in zip(*content, strict=True):
            yield below(path, key)
            yield from _keys_of(each, below(path, key))
    elif kind in (LIST, TUPLE):
        for i, each in enumerate(content):
            yield from _keys_of(each, below(path, i))


def twins_of(paths: Iterable[str], ties: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The path of the first for each other path of the same tensor, where the ties of all processes say so."""
    first: dict[tuple[str | None, ...], str] = {}
    twins: dict[str, str] = {}
    for path in paths:
        said = tuple(each.get(path) for each in ties)
        if any(one is not None for one in said) and first.setdefault(said, path) != path:
            twins[path] = first[said]
    return twins


def rebuilt(value: Any, replace: Callable[[Any, str], Any]) -> Any:
    """The state with `replace(value, path)` where that is not None, and with copies of all other arrays."""
    return _rebuilt(value, replace, "", [])


def _rebuilt(value: Any, replace: Callable[[Any, str], Any], path: str, kept: list[Any]) -> Any:
    """`kept` gets the arrays: the memory of one that ended would be that of another, and tie the two."""
    if type(value) in _SIMPLE:
        return value
    try:
        replaced = replace(value, path)
        if replaced is not None:
            return replaced
        kind, label, content = plain_parts(value) or encode_other(value)
    except EspalierError as error:
        raise at_path(error, path) from None
    if kind in (DICT, RECORD):
        keys, values = content
        if not all(type(key) in (str, int) for key in keys):
            return value  # The save refuses it, and says where.
        made = [_rebuilt(each, replace, below(path, key), kept) for key, each in zip(keys, values, strict=True)]
        new: Any = (keys, made)
        if type(content) is not tuple:  # with attributes
            new = type(content)(new)
            vars(new).update(vars(content))
        return Encoded((kind, label, new))
    if kind in (LIST, TUPLE, SET):
        if kind == SET:  # Each process may have its elements in another order.
            replace = _nothing
        return Encoded((kind, label, [_rebuilt(each, replace, below(path, i), kept) for i, each in enumerate(content)]))
    if kind == TENSOR:
        kept.append((value, content))
        content = _copied(content)
    return Encoded((kind, label, content))


def _nothing(value: Any, path: str) -> None:
    return None


def _copied(parts: TensorParts) -> TensorParts:
    """The tensor in memory that nothing else has. Copies of the same array stay the same tensor."""
    if parts.is_private:
        return parts
    address, nbytes = parts.address, parts.nbytes
    if address is None:
        address, nbytes = parts.data.ctypes.data, parts.data.nbytes
    data = (ctypes.c_char * nbytes)()
    ctypes.memmove(data, address, nbytes)
    tie = (address, parts.dtype, parts.shape, parts.axis_names, parts.block) if nbytes else None
    return TensorParts(
        parts.dtype, parts.shape, data, parts.axis_names, parts.block, True, tie, ctypes.addressof(data), nbytes
    )
