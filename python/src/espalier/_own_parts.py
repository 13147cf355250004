"""A step that many processes saved. A process reads its own parts from its own file."""

from __future__ import annotations

import contextlib
import pathlib
from typing import Any

from ._checkpoint import Checkpoint
from ._errors import Corrupt, EspalierError
from ._frameworks import Framework
from ._node import Node
from ._tensor import Tensor


class StepOfRank(Checkpoint):
    """A part that is cut along a later axis than the first reaches into each MiB of the whole tensor. In the file `own` of the
    process that saved it, it lies in one piece. What is missing or damaged in that file comes from the step, which has everything."""

    def __init__(self, path: bytes, own: pathlib.Path, digest: str, **options: Any):
        super().__init__(path, **options)
        self._own: Checkpoint | None = None
        with contextlib.suppress(EspalierError):
            opened = Checkpoint(own, **options)
            if opened.digest == digest:  # Another one may have been put there.
                self._own = opened

    def close(self) -> None:
        super().close()
        if self._own is not None:
            self._own.close()

    def _tensor(self, node: int, path: str) -> Tensor:
        return _TensorOfRank(self, node, path, self._parts(path))

    def _parts(self, path: str) -> list[tuple[tuple[int, ...], Tensor]]:
        """The parts of a tensor in the own file, with their offsets in the whole."""
        parts = None if self._own is None else self._own["parts"].get(path)
        if not isinstance(parts, Node):  # none, or all of it
            return []
        return [(part["offsets"].load(), part["data"]) for part in parts.values()]


class _TensorOfRank(Tensor):
    __slots__ = ("_own",)

    def __init__(self, file: Checkpoint, node: int, path: str, own: list[tuple[tuple[int, ...], Tensor]]):
        super().__init__(file, node, path)
        self._own = own

    def sliced(self, index: Any, framework: Framework) -> Any:
        axes = index if isinstance(index, tuple) and len(index) == self.ndim else ()
        if self._own and all(isinstance(each, slice) and each.step in (None, 1) for each in axes):
            ranges = [each.indices(length) for each, length in zip(axes, self.shape, strict=False)]
            for offsets, part in self._own:
                if len(offsets) != len(ranges):  # a run of rows
                    continue
                sides = zip(ranges, offsets, part.shape, strict=True)
                if all(at <= start and stop <= at + length for (start, stop, _), at, length in sides):
                    with contextlib.suppress(Corrupt):
                        moved = (slice(start - at, stop - at) for (start, stop, _), at in zip(ranges, offsets, strict=True))
                        return part.sliced(tuple(moved), framework)
        return super().sliced(index, framework)
