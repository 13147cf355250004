"""Values of haliax: arrays whose axes have names."""

from __future__ import annotations

import dataclasses
from typing import Any

from ._errors import Unsupported
from ._frameworks import Leaf
from ._tree import PLACEHOLDER, TENSOR, Parts


def _names(value: Any) -> tuple[str, ...]:
    return tuple(axis.name for axis in value.axes)


def encode(value: Any) -> Parts | None:
    import haliax

    # One of a filtered tree has None in the place of its array: that is for _jax.py.
    if not isinstance(value, haliax.NamedArray) or not hasattr(value.array, "dtype"):
        return None
    from ._encode import encode_other

    kind, label, parts = encode_other(value.array)
    if kind not in (TENSOR, PLACEHOLDER) or len(parts.shape) != len(value.axes):
        raise Unsupported("a NamedArray of PRNG keys; save its array")
    return kind, label, parts._replace(axis_names=_names(value))


def decode(kind: int, label: str, content: Any) -> Any:
    return NotImplemented


def leaf(template: Any) -> Leaf | None:
    import haliax

    if not isinstance(template, haliax.NamedArray) or not hasattr(template.array, "dtype"):
        return None
    from ._like import array_leaf

    inner = array_leaf(template.array)
    if inner is None:
        return None

    def wrapped(array: Any) -> Any:
        return dataclasses.replace(template, array=array)

    read = inner.read
    return inner._replace(
        axis_names=_names(template),
        convert=lambda array: wrapped(inner.convert(array)),
        kind=("haliax", template.axes, inner.kind),
        read=None if read is None else lambda handle: wrapped(read(handle)),
        level=0,  # the array is the only child of JAX's tree
    )


def rebuild(template: Any, content: Any) -> Any:
    return NotImplemented


def named(array: Any, axis_names: tuple[str, ...]) -> Any:
    """The NamedArray of an array that was loaded; the array itself if haliax has no such axes."""
    import haliax

    try:
        return haliax.named(array, axis_names)
    except ValueError:
        return array
