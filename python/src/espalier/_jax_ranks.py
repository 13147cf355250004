"""The processes of jax.distributed, which exchange Python objects through its coordination service: collectives of devices would
mix with those of training.
"""

from __future__ import annotations

import base64
import itertools
import pickle
import zlib
from collections.abc import Sequence
from typing import Any, TypeVar

from ._ranks import Group

T = TypeVar("T")

_TIMEOUT = 30 * 60 * 1000  # milliseconds, as gloo's
_groups = itertools.count()


def client() -> Any:
    """JAX's own client of the service; None before jax.distributed.initialize(). It is not public."""
    from jax._src import distributed

    return distributed.global_state.client


class JaxRanks(Group):
    """All processes of the job. Made by all of them in the same order."""

    def __init__(self) -> None:
        super().__init__()
        from jax._src import distributed

        self._client = client()
        self.rank = distributed.global_state.process_id
        self.count = distributed.global_state.num_processes
        self._prefix = f"espalier/{next(_groups)}"
        self._number = 0  # of the message
        self._kept = 0  # the first message whose keys are in the service

    def _next(self) -> str:
        self._number += 1
        return f"{self._prefix}/{self._number}"

    def _tell(self, key: str, value: Any) -> None:
        with self._answered():
            self._client.key_value_set(key, base64.b64encode(zlib.compress(pickle.dumps(value))).decode())

    def _hear(self, key: str) -> Any:
        with self._answered():
            told = self._client.blocking_key_value_get(key, _TIMEOUT)
        return pickle.loads(zlib.decompress(base64.b64decode(told)))  # of a process of this job

    def gather(self, value: T) -> list[T]:
        key = self._next()
        if self.rank != 0:
            self._tell(f"{key}/{self.rank}", value)
            return []
        found = [value, *(self._hear(f"{key}/{rank}") for rank in range(1, self.count))]
        # All processes have heard what was told before.
        for number in range(self._kept, self._number):
            with self._answered():
                self._client.key_value_delete(f"{self._prefix}/{number}/")
        self._kept = self._number
        return found

    def _broadcast(self, value: Any) -> Any:
        key = f"{self._next()}/all"
        if self.rank == 0:
            self._tell(key, value)
            return value
        return self._hear(key)

    def _scatter(self, values: Sequence[Any]) -> Any:
        key = self._next()
        for rank, value in enumerate(values):
            if rank > 0:
                self._tell(f"{key}/{rank}", value)
        return values[0] if self.rank == 0 else self._hear(f"{key}/{self.rank}")
