"""Values of Equinox. Its modules are what _jax.py makes of them: records of the fields that are not static."""

from __future__ import annotations

from typing import Any

from . import _jax
from ._frameworks import Leaf
from ._tree import RECORD, Parts


def encode(value: Any) -> Parts | None:
    found = _state(value)
    return None if found is None else _jax.node_parts(value, found)


def decode(kind: int, label: str, content: Any) -> Any:
    return NotImplemented


def leaf(template: Any) -> Leaf | None:
    return None


def rebuild(template: Any, content: Any) -> Any:
    found = _state(template)
    return NotImplemented if found is None else _jax.rebuilt(found, content)


def _state(value: Any) -> _jax.PyNode | None:
    """An eqx.nn.State, with the markers of its parts as keys where these are text: JAX has positions."""
    import equinox as eqx

    if not isinstance(value, eqx.nn.State):
        return None
    found = _jax.node(value)
    if found is None:
        return None
    data = found.structure.node_data()
    markers = list(data[1]) if data is not None else []
    if len(markers) != len(found.children) or not all(type(marker) is str for marker in markers):
        return found
    return found._replace(keys=markers, kind=RECORD)
