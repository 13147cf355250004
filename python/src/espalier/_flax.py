"""Values of flax: FrozenDict, and the State, Variables and Modules of nnx. Its dataclasses are as _jax.py has them."""

from __future__ import annotations

import sys
from typing import Any

from . import _registry
from ._frameworks import Leaf
from ._tree import DICT, PLACEHOLDER, RECORD, TENSOR, Parts, pairs, public_name, zipped

_FROZEN = "flax.core.FrozenDict"
_STATE = "flax.nnx.State"


def _frozen_dict() -> Any:
    return sys.modules["flax.core"].FrozenDict if "flax.core" in sys.modules else ()


def _nnx() -> Any:
    return sys.modules.get("flax.nnx")


def _is_module(value: Any) -> bool:
    """Whether a value is a Module of nnx, or another object that is built as these are, such as an Optimizer."""
    nnx = _nnx()
    return isinstance(value, getattr(nnx, "Pytree", nnx.Module)) and _registry.of_class(type(value)) is None


def encode(value: Any) -> Parts | None:
    if isinstance(value, _frozen_dict()):
        return DICT, _FROZEN, pairs(value)
    nnx = _nnx()
    if nnx is None:
        return None
    if isinstance(value, nnx.State):
        return DICT, _STATE, pairs(value)
    if isinstance(value, nnx.Variable):
        kind, label, content = _value_parts(value)
        if kind in (TENSOR, PLACEHOLDER) and label is None:
            return kind, public_name(type(value)), content
        # A value that has a label of its own, such as a typed key, or that is no tensor.
        return RECORD, public_name(type(value)), (["value"], [_value(value)])
    if _is_module(value):
        # Not as _jax.py would: a Variable at two places of a Module is one Variable.
        return DICT, _STATE, pairs(nnx.state(value))
    return None


def decode(kind: int, label: str, content: Any) -> Any:
    if kind == DICT and label == _FROZEN and "flax.core" in sys.modules:
        return _frozen_dict()(zipped(content))
    return NotImplemented


def leaf(template: Any) -> Leaf | None:
    nnx = _nnx()
    if nnx is None or not isinstance(template, nnx.Variable):
        return None
    from ._like import array_leaf

    inner = array_leaf(_value(template))
    if inner is None or inner.label is not None:
        return None
    read = inner.read
    return inner._replace(
        convert=lambda array: template.replace(inner.convert(array)),
        kind=None,
        read=None if read is None else lambda handle: template.replace(read(handle)),
        level="value",  # nnx.to_pure_dict() has none, and the State itself has one
    )


def rebuild(template: Any, content: Any) -> Any:
    nnx = _nnx()
    if isinstance(template, _frozen_dict()):
        return _frozen_dict()(content)
    if nnx is None:
        return NotImplemented
    if isinstance(template, nnx.State):
        return nnx.State({key: _plain(child) for key, child in content.items()})
    if isinstance(template, nnx.Variable):
        return template.replace(content["value"])
    if _is_module(template):
        structure, _ = nnx.split(template)
        return nnx.merge(structure, nnx.State({key: _plain(child) for key, child in content.items()}))
    return NotImplemented


def _plain(child: Any) -> Any:
    """A State within a State is a dict there."""
    return {key: _plain(each) for key, each in child.items()} if isinstance(child, _nnx().State) else child


def _value(variable: Any) -> Any:
    return variable.get_raw_value()


def _value_parts(variable: Any) -> Parts:
    from . import _encode

    value = _value(variable)
    return _encode.plain_parts(value) or _encode.encode_other(value)
