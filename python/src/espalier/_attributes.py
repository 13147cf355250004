"""The `_metadata` of torch's state_dict(): an attribute of an OrderedDict, which tells the versions of its modules.

Modules such as BatchNorm look at it in load_state_dict(). It is no entry of the dict, so it stands in the file's metadata:
under "torch.attributes", by the key path of the dict, as it does for files of torch.save() that are opened.
"""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from typing import Any

from ._errors import EspalierError, Unsupported
from ._tree import ATTRIBUTES, keys_of, pairs


class AttributedPairs(tuple[list[Any], list[Any]]):
    """The keys and values of a dict, and the attributes of the dict, which the extension module collects."""

    attributes: dict[str, Any]


def ordered_pairs(value: collections.OrderedDict[Any, Any]) -> tuple[list[Any], list[Any]]:
    """What to save for an OrderedDict."""
    if not vars(value):
        return pairs(value)
    others = [name for name in vars(value) if name != "_metadata"]
    versions = vars(value).get("_metadata")
    if others or not isinstance(versions, dict):
        raise Unsupported(
            f"an OrderedDict with the attribute {(others or ['_metadata'])[0]!r}, which would be lost; delete it, or save it "
            "under a key"
        )
    # Modules take no version for 1, and that is what nearly all have.
    kept = {name: each for name, each in versions.items() if each != {"version": 1}}
    if not kept:
        return pairs(value)
    made = AttributedPairs(pairs(value))
    made.attributes = {"_metadata": collections.OrderedDict(kept)}
    return made


def added(metadata: Mapping[str, Any] | None, found: Sequence[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """The metadata to save, with the attributes found at each key path. Called by the extension module."""
    plain = dict(metadata or {})
    known = plain.get(ATTRIBUTES, {})
    if not isinstance(known, dict):
        raise EspalierError(f"the metadata {ATTRIBUTES!r} are those that state dicts have as attributes; use another key")
    return {**plain, ATTRIBUTES: {**known, **dict(found)}}


def restore(kept: Any, value: Any, where: str) -> None:
    """Sets the attributes that stand in a file's metadata on the dicts in `value`, which was loaded from `where`."""
    if not isinstance(kept, dict):
        return
    for path, attributes in kept.items():
        if not isinstance(path, str) or not isinstance(attributes, dict):
            continue
        versions = attributes.get("_metadata")
        if where and path != where and not path.startswith(f"{where}/"):
            continue
        found = _at(value, keys_of(path[len(where) :].removeprefix("/") if where else path))
        # No other name is ever set: the file chose it, and an OrderedDict finds its methods by name.
        if type(found) is collections.OrderedDict and isinstance(versions, dict):
            found._metadata = versions  # type: ignore[attr-defined]


def _at(value: Any, keys: list[str | int]) -> Any:
    for key in keys:
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, (list, tuple)) and isinstance(key, int) and 0 <= key < len(value):
            value = value[key]
        elif isinstance(value, tuple) and key in getattr(value, "_fields", ()):
            value = getattr(value, str(key))
        else:
            value = getattr(value, "__dict__", {}).get(key)
    return value
