"""The processes that save one checkpoint together, as a Checkpointer asks them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Ranks(Protocol):
    """Each method is called by all processes, in the same order. An error of one of them is raised in all."""

    @property
    def rank(self) -> int:
        """The number of this process, from 0."""

    def from_first(self, ask: Callable[[], T]) -> T:
        """What `ask()` gives in rank 0. It is called there alone."""

    def together(self) -> contextlib.AbstractContextManager[None]:
        """Ends once all processes are there."""


class OneProcess:
    """A process on its own."""

    rank = 0

    def from_first(self, ask: Callable[[], T]) -> T:
        return ask()

    def together(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()
