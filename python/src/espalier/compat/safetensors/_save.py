"""Writes dicts of arrays, whose names and elements are checked already."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ... import _core, _urls
from ..._errors import Unsupported
from ..._wrappers import Labelled
from ._open import DTYPES


def check_dtype(name: str, dtype: str | None, shown: object) -> None:
    if dtype not in DTYPES:
        raise Unsupported(
            f"{name!r} is of {shown}, which safetensors has no elements for; convert it", "unrepresentable", name
        )


def check_texts(tensors: Mapping[str, Any], metadata: Mapping[str, str] | None) -> None:
    for name in tensors:
        if not isinstance(name, str):
            raise TypeError(f"the name of a tensor must be str, not {name!r}")
    for pair in (metadata or {}).items():
        if not all(isinstance(text, str) for text in pair):
            raise TypeError(f"metadata must be str, not {pair!r}")


def _metadata(metadata: Mapping[str, str] | None) -> Any:
    if metadata is None:
        return {}
    # A file with empty metadata is another one than a file without.
    return dict(metadata) if metadata else Labelled("safetensors.__metadata__", {})


def write(tensors: dict[str, Any], filename: str | os.PathLike[str], metadata: Mapping[str, str] | None) -> None:
    _urls.check_local(filename, "save_file()")
    path = os.fsencode(filename)
    if path.lower().endswith(b".espalier"):
        _core.save(path, tensors, dict(metadata or {}), 0, True, True, 0, True, [], False, None)
        return
    # Without a look at the ending, as safetensors does. What "drop" drops was checked: all that is left is that one
    # array has two names, and then it is written twice.
    _core.save_safetensors(path, tensors, _metadata(metadata), "drop", True, True, False, 0, True, None)


def to_bytes(tensors: dict[str, Any], metadata: Mapping[str, str] | None) -> bytes:
    return _core.save_safetensors_bytes(tensors, _metadata(metadata), "drop", 0, True)
