"""Which process of jax.distributed writes what: each its shards, rank 0 the arrays of one process, and those
that are replicated over the processes are dealt out by their names.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from . import _jax
from ._errors import EspalierError, Unsupported
from ._rank_files import Item, Numbers, Whole
from ._split import Described, Split
from ._tree import DTYPE_NAMES


class JaxPlan:
    """The plan of one save: see _rank_folder.Plan."""

    def __init__(self, rank: int, count: int):
        self._rank, self._count = rank, count
        self._own: list[tuple[str, Numbers, Any]] = []

    def split(self, state: Any) -> Split:
        return Split(state, _described)

    def local(self, tensors: Mapping[str, Any]) -> dict[str, Whole]:
        plan: dict[str, Whole] = {}
        for name, value in tensors.items():
            number, shape = _jax.spec_of(value)
            own = [(offsets, part) for offsets, part in self._parts(name, value)]
            self._own += [(name, offsets, part) for offsets, part in own]
            plan[name] = Whole(DTYPE_NAMES[number], shape, [(offsets, part.shape) for offsets, part in own])
        self._tensors = plan
        return plan

    def _parts(self, name: str, value: Any) -> list[tuple[Numbers, Any]]:
        """What this process writes of an array, with the offsets."""
        if value.is_fully_addressable:  # Each process has one of its own, and they may differ.
            return [((0,) * value.ndim, value)] if self._rank == 0 else []
        if value.is_fully_replicated:
            ranks = sorted({device.process_index for device in value.sharding.device_set})
            is_own = ranks[zlib.crc32(name.encode("utf-8", "surrogatepass")) % len(ranks)] == self._rank
            return [((0,) * value.ndim, value.addressable_data(0))] if is_own else []
        parts = []
        for shard in value.addressable_shards:
            if shard.replica_id == 0:
                parts.append((tuple(each.start or 0 for each in shard.index), shard.data))
        return parts

    def deal(self, plans: Sequence[dict[str, Whole]], twins: Mapping[str, str]) -> tuple[list[set[str]], dict[str, Whole]]:
        tensors: dict[str, Whole] = {}
        for rank, plan in enumerate(plans):
            for name, each in plan.items():
                if name in twins:
                    continue
                known = tensors.setdefault(name, Whole(each.dtype, each.shape, []))
                if known[:2] != each[:2]:
                    raise EspalierError(
                        f"{name}: rank {rank} has {each.dtype} {list(each.shape)}, and another rank {known.dtype} {list(known.shape)}",
                        path=name,
                    )
                known.parts.extend(each.parts)
        return [set(twins)] * len(plans), tensors

    def items(self, dealt: set[str], copies: bool) -> list[Item]:
        return [
            Item(name, offsets, part.shape, self._tensors[name].shape, np.array(part) if copies else np.asarray(part))
            for name, offsets, part in self._own
            if name not in dealt
        ]

    def own_copy(self, value: Any) -> Any:
        if not isinstance(value, jax.Array):
            return None
        if not value.is_fully_addressable:
            raise Unsupported("an array of all processes; save it in the state, and what one process has in per_rank=")
        return value.copy()


def _described(value: Any) -> Described:
    """For Split. A key is a value of its own kind, which rank 0 writes."""
    if not isinstance(value, jax.Array) or _jax.is_key(value):
        return None
    _jax.check_elements(value)
    number, shape = _jax.spec_of(value)
    # device_put() makes another array of the same memory.
    memory = [(str(shard.index), shard.data.unsafe_buffer_pointer()) for shard in value.addressable_shards]
    return DTYPE_NAMES[number], shape, value, (number, shape, *memory) if value.size and memory else None
