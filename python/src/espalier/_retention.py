"""Which steps stay: the rule of the library's CheckpointDir, for stores that are not folders."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple


class Retention(NamedTuple):
    last: int | None
    """How many of the latest steps stay; None: all."""
    every: int = 0
    """Steps that are its multiples stay; 0: none."""
    best: tuple[str, bool, int] | None = None
    """A metric, whether the greatest is best, and how many stay."""

    def kept(self, metrics: Mapping[int, Mapping[str, float] | None]) -> set[int]:
        """Those of the steps that stay. Among equal metrics the later step is better; NaN and a step without the metric never is."""
        steps = sorted(metrics, reverse=True)
        if self.last is None:
            return set(steps)
        kept = {*steps[: self.last], *(step for step in steps if self.every and step % self.every == 0)}
        if self.best is not None:
            name, is_greatest, count = self.best
            measured = [(-metric if is_greatest else metric, -step) for step in steps if (metric := number(metrics[step], name)) is not None]
            kept.update(-step for _, step in sorted(measured)[:count])
        return kept


def number(metrics: Mapping[str, float] | None, name: str) -> float | None:
    """A metric; None if there is none, or none that the library takes: NaN, or an int beyond 64 bits."""
    found = (metrics or {}).get(name)
    if type(found) is int:
        return float(found) if is_int64(found) else None
    return found if isinstance(found, float) and not math.isnan(found) else None


def is_int64(value: int) -> bool:
    return -(2**63) <= value < 2**63
