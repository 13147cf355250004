"""The processes that save one checkpoint together, as a Checkpointer asks them."""

from __future__ import annotations

import abc
import contextlib
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
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


class Group(abc.ABC):
    """Several processes, which exchange Python objects. One thread at a time uses a group."""

    rank: int
    count: int

    def __init__(self) -> None:
        self._process = os.getpid()

    @contextlib.contextmanager
    def _answered(self) -> Iterator[None]:
        """For each message: that all processes answer. Frameworks raise a RuntimeError once one ended, or a timeout has passed."""
        if os.getpid() != self._process:
            raise EspalierError(
                f"this Checkpointer of several processes belongs to process {self._process}, which this one was forked from; save and "
                "restore there, and open() or load() the file of a step here"
            )
        try:
            yield
        except RuntimeError as error:
            raise CheckpointOSError(
                f"another process of the group ended, or did not answer in time ({str(error).splitlines()[0]}); the last complete step "
                "stays, and restore() of the next run finds it",
                "io_error",
            ) from error

    @abc.abstractmethod
    def gather(self, value: T) -> list[T]:
        """The values of all processes by rank, in rank 0; nothing in others."""

    @abc.abstractmethod
    def _broadcast(self, value: Any) -> Any:
        """The value of rank 0."""

    @abc.abstractmethod
    def _scatter(self, values: Sequence[Any]) -> Any:
        """The value for this process, of those in rank 0."""

    def from_first(self, ask: Callable[[], T]) -> T:
        result: T = _result(self._broadcast(_outcome(ask) if self.rank == 0 else None))
        return result

    def deal(self, ask: Callable[[], Sequence[T]]) -> T:
        """What `ask()` gives for this process in rank 0, where it is called: a value for each."""
        dealt: list[Any] = []
        if self.rank == 0:
            values, error = _outcome(ask)
            dealt = [(None, error)] * self.count if values is None else [(value, None) for value in values]
        result: T = _result(self._scatter(dealt))
        return result

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        failure: Exception | None = None
        try:
            yield
        except Exception as error:
            failure = error
        gathered = self.gather(None if failure is None else portable(failure))
        errors = self._broadcast(gathered)
        if failure is not None:
            raise failure
        raise_first(errors)


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


def _outcome(ask: Callable[[], T]) -> tuple[T | None, Exception | None]:
    try:
        return ask(), None
    except Exception as error:
        return None, portable(error)


def _result(told: tuple[Any, Exception | None]) -> Any:
    value, error = told
    if error is not None:
        raise error
    return value
