"""A container in an open file: a dict, record, list, tuple or set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import _frameworks, _near
from ._errors import KeyPathError, SliceError
from ._handle import Handle
from ._options import Check, check_exact, checks_hashes
from ._progress import Progress
from ._tree import DICT, KIND_NAMES, RECORD, below
from ._visible import visible


class Node(Handle):
    """A dict, record, list, tuple or set in a file.

    `node[key]` is exactly that key, a str or an int, or a position; it gives a Node, a Tensor, or a plain value.
    """

    __slots__ = ()

    @property
    def kind(self) -> str:
        """"dict", "record", "list", "tuple" or "set"."""
        return KIND_NAMES[self._core.kind(self._node)]

    @property
    def _has_keys(self) -> bool:
        return self._core.kind(self._node) in (DICT, RECORD)

    def __len__(self) -> int:
        return self._core.size(self._node)

    def keys(self) -> list[str | int]:
        """The keys in order; positions for a list, tuple or set."""
        return self._core.keys(self._node)

    def values(self) -> list[Any]:
        return [self._child(i, key) for i, key in enumerate(self.keys())]

    def items(self) -> list[tuple[str | int, Any]]:
        return [(key, self._child(i, key)) for i, key in enumerate(self.keys())]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys() if self._has_keys else self.values())

    def _child(self, i: int, key: str | int) -> Any:
        core = self._core
        return self._file._wrap(core.child(self._node, i), self._below(key))

    def _below(self, key: str | int) -> str:
        return below(self.path, key)

    def _find(self, key: object) -> int | None:
        if type(key) is str:
            return self._core.find_key(self._node, key) if self._has_keys and _is_text(key) else None
        if isinstance(key, bool) or not hasattr(key, "__index__"):
            return None
        position = key.__index__()
        if not self._has_keys and position < 0:
            position += len(self)
        if not -(2**63) <= position < 2**63:
            return None
        return self._core.find_int(self._node, position)

    def __contains__(self, key: object) -> bool:
        return self._find(key) is not None

    def __getitem__(self, key: str | int) -> Any:
        found = self._find(key)
        if found is None:
            kind = self.kind
            if not self._has_keys:
                hint = "; [] takes one position, so load() it for slices" if isinstance(key, slice) else ""
                raise SliceError(f"{self.path or 'the root'} is a {kind} of {len(self)} elements; {key!r} is not in it{hint}")
            hint = _near.hint(self._core, self._node, key) if isinstance(key, str | int) else ""
            if isinstance(key, str) and ("/" in key or "." in key):
                hint += "; [] takes one key, and at() a key path"
            raise KeyPathError(f"{self.path or 'the root'} is a {kind} without the key {key!r}{hint}", "not_found")
        if not self._has_keys and isinstance(key, int) and key < 0:
            key += len(self)
        return self._file._wrap(found, self._below(key))

    def get(self, key: str | int, default: Any = None) -> Any:
        return self[key] if key in self else default

    def at(self, path: str) -> Any:
        """What is at a key path below this node: `at("model/layers/0/weight")`, or with dots."""
        node, printed = self._file._find_path(self._node, path)
        full = f"{self.path}/{printed}" if self.path and printed else self.path or printed
        return self._file._wrap(node, full)

    def load(
        self,
        *,
        check: Check = "hashes",
        exact: bool = False,
        framework: _frameworks.Framework = "numpy",
        progress: Progress = None,
    ) -> Any:
        """All below this node as Python objects: see espalier.load()."""
        check_exact(exact, framework)
        self._file._tell_notes(self.path)
        return self._file._load_node(self._node, self.path, checks_hashes(check), exact, framework, progress)

    def __repr__(self) -> str:
        count = len(self)
        return f"<{self.kind} {visible(self.path or '(root)')}: {count} {'child' if count == 1 else 'children'}>"

    def _repr_html_(self) -> str:
        from . import _html

        return _html.of_node(self._core, self._node, f"<b>{_html.text(self.path or '(root)')}</b>")


def _is_text(key: str) -> bool:
    """Whether a file can have such a key: not one with lone surrogates."""
    return key.isascii() or not any("\ud800" <= character <= "\udfff" for character in key)
