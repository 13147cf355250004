"""Batches: a batch sampler that can go on in the middle of an epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.utils.data import BatchSampler

from ._random import random_state, set_random_state


class Batches(BatchSampler):  # type: ignore[misc]  # torch's types are not checked
    """A batch sampler around another, which keeps the random numbers' state before the last batch was read.

    accelerate reads one batch ahead. So two batches of a resumed epoch are read with states of their own: the one that had
    been read before the save, and the one after it. `skips` says who leaves out the batches before: this, or its reader.
    """

    def __init__(self, inner: Any, device: Any, *, skips: bool):
        self._inner = inner
        self._device = device
        self._skips = skips
        self.before: Any = None
        self.resumed: tuple[int, Any, Any] | None = None  # batches to skip, the state before the next, and that of the save

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_inner"], name)

    def __len__(self) -> int:
        return len(self._inner)

    def __iter__(self) -> Iterator[Any]:
        (skipped, first, second), self.resumed = self.resumed or (0, None, None), None
        count = 0
        for count, batch in enumerate(self._inner, 1):
            if count == skipped + 1 and first is not None:
                set_random_state(first, self._device)
            elif count == skipped + 2 and second is not None:
                set_random_state(second, self._device)
            if count > skipped:
                self.before = random_state(self._device)
            if count > skipped or not self._skips:
                yield batch
        if count == skipped + 1 and second is not None:  # There is no batch ahead.
            set_random_state(second, self._device)


def sampler_of(loader: Any) -> str:
    """The class of the sampler that a loader reads by, below what accelerate and Batches put around it."""
    return type(samplers_of(loader)[-1]).__qualname__


def samplers_of(loader: Any) -> list[Any]:
    """What a loader reads by: its batch sampler, or sampler, and all that is below it."""
    found = [_below(loader)]
    while (inner := _below(found[-1])) is not None:
        found.append(inner)
    return found


def _below(sampler: Any) -> Any:
    if isinstance(sampler, Batches):
        return sampler._inner
    inner = getattr(sampler, "batch_sampler", None)
    return getattr(sampler, "sampler", None) if inner is None else inner
