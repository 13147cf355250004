"""Folders of checkpoints: when to save, what to keep, where to go on."""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from . import _api, _core
from ._async import AsyncSave
from ._checkpoint import Path
from ._errors import EspalierError
from ._like import Strict
from ._tree import below

Best = tuple[str, Literal["min", "max"]] | tuple[str, Literal["min", "max"], int]


class DamagedCheckpoint(UserWarning):
    """A checkpoint that restore() passed over, or that could not be removed."""


class _Rule(NamedTuple):
    name: str
    is_greatest: bool
    kept: int


def _rule(best: Best | None) -> _Rule | None:
    if best is None:
        return None
    name, order, count = (*best, 1)[:3]
    if order not in ("min", "max"):
        raise EspalierError(f'the order of `best` must be "min" or "max", not {order!r}')
    return _Rule(name, order == "max", int(count))


class Checkpointer:
    """Saves to a folder as training goes on, keeps the latest and the best, and finds where to go on.

    Each step is a file, step_00001000.espalier, with the metrics and the time in its metadata. A save is in the background
    unless `background=False`; its error is raised by the next call of save(), wait() or close(). One save goes on at a time:
    with `busy="wait"` the next one waits for it, with "skip" it is left out, with "raise" it is an error.

    `every` steps, or when `every_minutes` have passed, save() saves; with neither, always. `keep` is the number of latest
    steps to keep (None: all), `keep_every` keeps each step that is its multiple, and `best=("val_loss", "min", 2)` the best by
    a metric. Old files go only once a new one is on the disk, and never a file that no Checkpointer wrote.
    """

    def __init__(
        self,
        folder: Path,
        *,
        every: int | None = None,
        every_minutes: float | None = None,
        keep: int | None = 3,
        keep_every: int = 0,
        best: Best | None = None,
        background: bool = True,
        busy: Literal["wait", "skip", "raise"] = "wait",
        compression: int = 0,
        sync: bool = True,
        threads: int = 0,
    ):
        if busy not in ("wait", "skip", "raise"):
            raise EspalierError(f'busy must be "wait", "skip" or "raise", not {busy!r}')
        if keep is None and (keep_every or best):
            raise EspalierError("keep=None keeps every step; leave out keep_every and best, or say how many to keep")
        if every is not None and every < 1:
            raise EspalierError(f"every must be at least 1, not {every}")
        self.folder = os.fsdecode(folder)
        self._every, self._every_seconds = every, None if every_minutes is None else 60 * every_minutes
        self._best = _rule(best)
        self._background, self._busy = background, busy
        self._compression, self._sync, self._threads = compression, sync, threads
        rule = self._best and (below("metrics", self._best.name), self._best.is_greatest, self._best.kept)
        self._core = _core.Folder(os.fsencode(folder), keep, keep_every, rule, threads)
        self._saving: AsyncSave | None = None
        self._last_save = time.monotonic()
        self._problems: set[str] = set()

    def is_due(self, step: int) -> bool:
        """Whether save() would save this step."""
        if self._every is None and self._every_seconds is None:
            return True
        if self._every is not None and step % self._every == 0:
            return True
        return self._every_seconds is not None and time.monotonic() - self._last_save >= self._every_seconds

    def save(
        self,
        step: int,
        state: Any,
        *,
        metrics: Mapping[str, float] | None = None,
        metadata: Mapping[str, Any] | None = None,
        force: bool = False,
        views: Literal["error", "copy"] = "error",
    ) -> bool:
        """Saves the step if it is due, or with `force`. Returns whether it does.

        The state is copied, or saved, before the call returns. Raises the error of the save before.
        """
        if not (force or self.is_due(step)):
            return False
        if self._saving is not None and not self._saving.done():
            if self._busy == "skip":
                return False
            if self._busy == "raise":
                raise EspalierError(f"{self.folder}: the save before step {step} goes on")
        self.wait()
        described = {"time": time.time(), **(metadata or {}), "step": step}
        if metrics is not None:
            # Scalars of numpy and of frameworks are tensors, which metadata do not hold.
            described["metrics"] = {
                name: value if type(value) in (int, float) else float(value) for name, value in metrics.items()
            }
        copy = _api.copies_views(views)
        if self._background:
            saving = self._core.save_async(step, state, described, self._compression, self._sync, self._threads, copy)
            self._saving = AsyncSave(saving, self.path(step))
        else:
            self._core.save(step, state, described, self._compression, self._sync, self._threads, copy, None)
            self._warn()
        self._last_save = time.monotonic()
        return True

    def wait(self) -> None:
        """Waits for the save that goes on, and raises its error."""
        saving, self._saving = self._saving, None
        if saving is not None:
            saving.result()
            self._warn()

    def _warn(self) -> None:
        for problem in map(str, self._core.problems()):
            if problem not in self._problems:
                self._problems.add(problem)
                warnings.warn(problem, DamagedCheckpoint, stacklevel=3)

    @property
    def steps(self) -> list[int]:
        """The steps that have a file, ascending; some may be damaged."""
        return self._core.steps()

    @property
    def latest(self) -> int | None:
        """The last of them."""
        return max(self.steps, default=None)

    @property
    def best(self) -> int | None:
        """The step with the best metric; of equal ones the last. None without `best=`, or without the metric anywhere."""
        if self._best is None:
            return None
        found: tuple[float, int] | None = None
        for step in self.steps:
            with contextlib.suppress(EspalierError), _api.open(self.path(step)) as checkpoint:
                metric = checkpoint.metadata.get("metrics", {}).get(self._best.name)
                if not isinstance(metric, (int, float)) or metric != metric:
                    continue
                value = -metric if self._best.is_greatest else metric
                if found is None or value <= found[0]:
                    found = value, step
        return found[1] if found else None

    def path(self, step: int) -> str:
        """The file of a step, whether it exists or not."""
        return os.fsdecode(self._core.path(step))

    def restore(self, *, like: Any = None, strict: Strict = True, **options: Any) -> tuple[Any, int]:
        """The newest step whose every byte is intact, as (state, step); (like, 0) if there is none at all.

        Warns of newer ones that are damaged. If all are, the error is that of the newest: going on from nothing would remove
        what may still be repaired. Other options are those of load().
        """
        if strict is False:
            raise EspalierError("strict=False gives a ledger; load() the file of a step with it: path(step)")
        self.wait()
        found = self._core.latest(True)
        if found is None:
            return like, 0
        step, skipped = found
        for other, problem in skipped:
            warnings.warn(f"step {other} is passed over: {problem}", DamagedCheckpoint, stacklevel=2)
        # Every byte was checked just now.
        return _api.load(self.path(step), like=like, strict=strict, **{"check": "nothing", **options}), step

    def close(self) -> None:
        """Waits for the save that goes on, and raises its error."""
        self.wait()

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
            return
        # The exception that ends the block is the one to see; the save is finished all the same.
        saving, self._saving = self._saving, None
        if saving is not None and (failure := saving.exception()) is not None:
            warnings.warn(f"the last save failed: {failure}", DamagedCheckpoint, stacklevel=2)

    def __repr__(self) -> str:
        return f"<checkpointer {self.folder}: {len(self.steps)} steps>"
