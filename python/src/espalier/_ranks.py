"""The processes that save one checkpoint together, as a Checkpointer asks them."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from ._errors import CheckpointOSError, EspalierError

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


class Group(Ranks, Protocol):
    """Several processes, which exchange Python objects. One thread at a time uses a group."""

    @property
    def count(self) -> int: ...

    def gather(self, value: T) -> list[T]:
        """The values of all processes by rank, in rank 0; nothing in others."""

    def deal(self, ask: Callable[[], Sequence[T]]) -> T:
        """What `ask()` gives for this process in rank 0, where it is called: a value for each."""


class OneProcess:
    """A process on its own."""

    rank = 0

    def from_first(self, ask: Callable[[], T]) -> T:
        return ask()

    def together(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()


def portable(error: Exception) -> Exception:
    """The error, or one of its text if another process could not have it."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return EspalierError(f"{type(error).__name__}: {error}")
    return error


def raise_first(errors: Sequence[Exception | None], note: str = "") -> None:
    """Raises the error of the first rank that has one."""
    failed = [rank for rank, error in enumerate(errors) if error is not None]
    if not failed:
        return
    error: Any = errors[failed[0]]
    more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    text = f"{note}rank {failed[0]}{more}: {error}"
    if isinstance(error, EspalierError):
        error.args = (text,)
        raise error
    # The text of others is not always their argument.
    raise (CheckpointOSError(text, "io_error") if isinstance(error, OSError) else EspalierError(text)) from error


def outcome(ask: Callable[[], T]) -> tuple[T | None, Exception | None]:
    try:
        return ask(), None
    except Exception as error:
        return None, portable(error)


def result_of(told: tuple[Any, Exception | None]) -> Any:
    value, error = told
    if error is not None:
        raise error
    return value
