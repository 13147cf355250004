"""The processes of torch.distributed, which exchange Python objects through groups of gloo of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch.distributed as dist

from .._errors import CheckpointOSError, EspalierError
from .._ranks import outcome, portable, raise_first, result_of

T = TypeVar("T")


class GlooRanks:
    """All processes of the default group. Their messages do not mix with those of training, or of other GlooRanks.

    Made by all of them at the same time. The methods of one are called by one thread at a time.
    """

    def __init__(self) -> None:
        if not (dist.is_available() and dist.is_initialized()):
            raise EspalierError("distributed=True saves with torch.distributed; call torch.distributed.init_process_group() first")
        self._group = dist.new_group(backend="gloo")
        self.rank: int = dist.get_rank()
        self.count: int = dist.get_world_size()

    def gather(self, value: T) -> list[T]:
        """The values of all processes by rank, in rank 0; nothing in others."""
        found: list[Any] = [None] * self.count
        with _answered():
            dist.gather_object(value, found if self.rank == 0 else None, group=self._group, group_dst=0)
        return found if self.rank == 0 else []

    def from_first(self, ask: Callable[[], T]) -> T:
        told: list[Any] = [outcome(ask) if self.rank == 0 else None]
        with _answered():
            dist.broadcast_object_list(told, group=self._group, group_src=0)
        result: T = result_of(told[0])
        return result

    def deal(self, ask: Callable[[], Sequence[T]]) -> T:
        """What `ask()` gives for this process in rank 0, where it is called: a value for each."""
        dealt: list[Any] | None = None
        if self.rank == 0:
            values, error = outcome(ask)
            dealt = [(None, error)] * self.count if values is None else [(value, None) for value in values]
        own: list[Any] = [None]
        with _answered():
            dist.scatter_object_list(own, dealt, group=self._group, group_src=0)
        result: T = result_of(own[0])
        return result

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        failure: Exception | None = None
        try:
            yield
        except Exception as error:
            failure = error
        errors: list[Any] = [None] * self.count
        with _answered():
            dist.all_gather_object(errors, None if failure is None else portable(failure), group=self._group)
        if failure is not None:
            raise failure
        raise_first(errors)


@contextlib.contextmanager
def _answered() -> Iterator[None]:
    """That all processes answered: gloo raises a RuntimeError once one ended, or the group's timeout has passed."""
    try:
        yield
    except RuntimeError as error:
        raise CheckpointOSError(
            f"another process of the group ended, or did not answer in time ({str(error).splitlines()[0]}); the last complete step "
            "stays, and restore() of the next run finds it",
            "io_error",
        ) from error
