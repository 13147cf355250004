"""A place in an open file: what a Tensor and a Node share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _core

if TYPE_CHECKING:
    from ._checkpoint import Checkpoint


class Handle:
    """A place in a file. Immutable, so threads can share it; it pickles as the file's path and its own."""

    __slots__ = ("_file", "_node", "path")

    def __init__(self, file: Checkpoint, node: int, path: str):
        self._file = file
        self._node = node
        self.path = path

    @property
    def _core(self) -> _core.File:
        return self._file._opened

    @property
    def label(self) -> str | None:
        """The type that the value had in its program, such as "collections.OrderedDict"."""
        return self._core.label(self._node)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Handle):
            return NotImplemented
        return self._file is other._file and self._node == other._node

    def __hash__(self) -> int:
        return hash((id(self._file), self._node))

    def __reduce__(self) -> tuple[object, ...]:
        return self._file._reduce_at(self.path)
