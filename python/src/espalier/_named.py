"""What save_safetensors() saves for modules and state dicts: names and their tensors."""

from __future__ import annotations

import collections
import sys
from typing import Any

from ._errors import EspalierError
from ._tree import DICT, RECORD, zipped

_DEPTH = 256  # of dicts; the core refuses what is deeper, such as a dict that contains itself


def named(state: Any, depth: int = 0) -> Any:
    """The state with dicts in place of modules, and of OrderedDicts: other readers of safetensors know no such type either.

    A module of haliax or Equinox stands for its arrays, as a module of torch does for its state_dict().
    """
    # The core refuses an OrderedDict with attributes of a program.
    if type(state) is dict or type(state) is collections.OrderedDict and vars(state).keys() <= {"_metadata"}:
        return {key: named(value, depth + 1) for key, value in state.items()} if depth < _DEPTH else state
    torch, equinox = sys.modules.get("torch"), sys.modules.get("equinox")
    if torch is not None and isinstance(state, torch.nn.Module):
        return dict(state.state_dict())
    if equinox is not None and isinstance(state, equinox.Module):
        names: dict[str, Any] = {}
        _add_arrays(names, state, "")
        return names
    return state


def _add_arrays(names: dict[str, Any], value: Any, name: str) -> None:
    """Adds the arrays in a part of a module, with the names that haliax's to_torch_compatible_state_dict() gives them."""
    from . import _jax, _registry

    haliax = sys.modules.get("haliax")
    if haliax is not None and isinstance(value, haliax.state_dict.ModuleWithStateDictSerialization | haliax.NamedArray):
        for each, array in _arrays_of_haliax(value, name).items():
            _add(names, array, each)
    elif hasattr(value, "shape") and hasattr(value, "dtype"):
        _add(names, value, name)
    elif isinstance(value, dict):
        for key, each in value.items():
            _add_arrays(names, each, _below(name, key))
    elif isinstance(value, (list, tuple)):
        for i, each in enumerate(value):
            _add_arrays(names, each, _below(name, i))
    elif (registered := _registry.of_class(type(value))) is not None:
        kind, _, content = registered.encode(value)
        if kind in (DICT, RECORD):
            for key, each in zipped(content):
                _add_arrays(names, each, _below(name, key))
    elif (found := _jax.node(value)) is not None:
        for key, each in _jax.persistent_children(value, found):
            _add_arrays(names, each, _below(name, key))


def _below(name: str, key: Any) -> str:
    return f"{name}.{key}" if name else str(key)


def _add(names: dict[str, Any], array: Any, name: str) -> None:
    if name in names:
        text = f'two arrays of the module would both get the name "{name}"; rename one of them'
        raise EspalierError(text, "name_collision", name)
    names[name] = array


def _arrays_of_haliax(value: Any, name: str) -> dict[str, Any]:
    """What to_torch_compatible_state_dict() gives, without its copy of each array."""
    import equinox
    import haliax
    import jax

    arrays = equinox.filter(value, haliax.jax_utils.is_jax_array_like)
    flat = haliax.state_dict.flatten_modules_for_export(arrays)
    try:
        names: dict[str, Any] = haliax.state_dict.to_state_dict(flat, prefix=name or None)
    except ValueError as error:
        text = f"haliax has no names for what {name or 'the module'} is made of ({error}); save a dict of names"
        raise EspalierError(text, path=name) from error
    # It takes the last of several arrays of one name without a word.
    if sum(each.size for each in names.values()) != sum(each.size for each in jax.tree.leaves(flat)):
        text = f"haliax gives two arrays of {name or 'the module'} the same name; rename one of them"
        raise EspalierError(text, "name_collision", name)
    return names
