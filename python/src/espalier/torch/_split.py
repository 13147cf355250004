"""A state without its tensors, and the tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from .. import _torch
from .._encode import Encoded, at_path, encode_other, plain_parts
from .._errors import EspalierError, Unsupported
from .._tree import DICT, DTYPE_NAMES, LIST, RECORD, TUPLE, below
from .._wrappers import Placeholder

_SIMPLE = (type(None), bool, int, float, complex, str, bytes)


class Split:
    """`skeleton` is the state with a Placeholder for each tensor, in which nothing changes when the state does.

    `tensors` has them by key path, DTensors among them, each one once: `twins` has the path of the first for other paths of the
    same tensor.
    """

    def __init__(self, state: Any):
        self.tensors: dict[str, torch.Tensor] = {}
        self.twins: dict[str, str] = {}
        self._first: dict[Any, str] = {}
        self.skeleton = rebuilt(state, self._tensor)

    def _tensor(self, value: torch.Tensor, path: str) -> Any:
        local = _torch.local_part(value)
        _torch.check(local)
        _torch.check_storage(local)
        shape = _torch.shape_of(value)
        if local.numel():
            same = local.device, local.data_ptr(), local.dtype, local.shape, local.stride(), shape
            first = self._first.setdefault(same, path)
            if first != path:
                self.twins[path] = first
        if path not in self.twins:
            self.tensors[path] = value.detach()
        return Placeholder(DTYPE_NAMES[_torch.by_dtype()[value.dtype]], shape)


def rebuilt(value: Any, tensor: Callable[[torch.Tensor, str], Any], path: str = "") -> Any:
    """The state with `tensor(value, path)` for each tensor with elements, and copies of numpy's arrays."""
    numpy = sys.modules.get("numpy")
    if type(value) in _SIMPLE:
        return value
    try:
        if isinstance(value, torch.Tensor) and not value.is_meta:
            return tensor(value, path)
        if numpy is not None and type(value) is numpy.ndarray:
            return value.copy()
        kind, label, content = plain_parts(value) or encode_other(value)
    except EspalierError as error:
        raise at_path(error, path) from None
    if kind in (DICT, RECORD):
        keys, values = content
        if not all(type(key) in (str, int) for key in keys):
            return value  # The save refuses it, and says where.
        made = [rebuilt(each, tensor, below(path, key)) for key, each in zip(keys, values, strict=True)]
        new: Any = (keys, made)
        if type(content) is not tuple:  # with attributes
            new = type(content)(new)
            vars(new).update(vars(content))
        return Encoded((kind, label, new))
    if kind in (LIST, TUPLE):
        return Encoded((kind, label, [rebuilt(each, tensor, below(path, i)) for i, each in enumerate(content)]))
    return Encoded((kind, label, content))


def copied(value: torch.Tensor, path: str) -> torch.Tensor:
    """For rebuilt(): a copy of a tensor that this process has whole."""
    if _torch.local_part(value) is not value:
        raise Unsupported(
            f"{path or 'the root'}: a DTensor is of all processes; save it in the state, and what one process has in per_rank=", path=path
        )
    return value.detach().to("cpu", copy=True)
