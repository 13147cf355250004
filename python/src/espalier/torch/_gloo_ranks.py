"""The processes of torch.distributed, which exchange Python objects through groups of gloo of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import torch.distributed as dist

from .._ranks import Group

T = TypeVar("T")


class GlooRanks(Group):
    """All processes of the default group. Their messages do not mix with those of training, or of other GlooRanks.

    Made by all of them at the same time. The timeout is that of gloo's groups, 30 minutes: torch has no public way to ask for
    that of the default group, and NCCL's 10 minutes may be less than a save takes.
    """

    def __init__(self) -> None:
        super().__init__()
        self._group = dist.new_group(backend="gloo")
        self.rank = dist.get_rank()
        self.count = dist.get_world_size()

    def gather(self, value: T) -> list[T]:
        found: list[Any] = [None] * self.count
        with self._answered():
            dist.gather_object(value, found if self.rank == 0 else None, group=self._group, group_dst=0)
        return found if self.rank == 0 else []

    def _broadcast(self, value: Any) -> Any:
        told = [value]
        with self._answered():
            dist.broadcast_object_list(told, group=self._group, group_src=0)
        return told[0]

    def _scatter(self, values: Sequence[Any]) -> Any:
        own: list[Any] = [None]
        with self._answered():
            dist.scatter_object_list(own, list(values) if self.rank == 0 else None, group=self._group, group_src=0)
        return own[0]
