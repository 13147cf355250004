"""What torch.distributed.checkpoint plans, as tensors and parts of them for the files of the ranks."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.distributed.checkpoint import DefaultSavePlanner
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.planner import SavePlan, WriteItem, WriteItemType

from .. import _torch
from .._errors import EspalierError, Unsupported
from .._rank_files import Item, Numbers, Whole
from .._split import Split
from .._torch import by_dtype
from .._tree import DTYPE_NAMES


def item_of(item: WriteItem, data: Any) -> Item:
    """An item of a plan, with its data."""
    if item.type == WriteItemType.BYTE_IO:
        return Item(item.index.fqn, (), (), (), data.getvalue())
    chunk, twice = item.tensor_data.chunk, _is_pairs(item.tensor_data.properties.dtype)
    offsets, shape, whole = (_elements(each, twice) for each in (chunk.offsets, chunk.sizes, item.tensor_data.size))
    return Item(item.index.fqn, offsets, shape, whole, data.detach())


def whole_of(each: TensorStorageMetadata) -> Whole:
    """A tensor of the plan of all processes."""
    dtype = each.properties.dtype
    twice = _is_pairs(dtype)
    parts = [(_elements(chunk.offsets, twice), _elements(chunk.sizes, twice)) for chunk in each.chunks]
    return Whole(DTYPE_NAMES[by_dtype()[dtype]], _elements(each.size, twice), parts)


def _is_pairs(dtype: torch.dtype) -> bool:
    """Whether an item of torch has two elements."""
    return dtype is getattr(torch, "float4_e2m1fn_x2", None)


def _elements(numbers: Sequence[int], twice: bool) -> Numbers:
    return (*numbers[:-1], 2 * numbers[-1]) if twice else tuple(numbers)


class TorchPlan:
    """The plan of one save: see _rank_folder.Plan. DTensors are written by those who have their parts, and other tensors by rank 0:
    those of the processes may differ, as the statistics of BatchNorm do under DDP, which takes those of rank 0 as well."""

    def __init__(self, is_first: bool):
        self._is_first = is_first
        self._planner = DefaultSavePlanner(
            flatten_state_dict=False, flatten_sharded_tensors=False, dedup_save_to_lowest_rank=True
        )

    def split(self, state: Any) -> Split:
        return Split(state, _tensor)

    def local(self, tensors: Mapping[str, Any]) -> SavePlan:
        self._planner.set_up_planner(dict(tensors), is_coordinator=self._is_first)
        return self._planner.create_local_plan()

    def deal(self, plans: Sequence[SavePlan], twins: Mapping[str, str]) -> tuple[list[SavePlan], dict[str, Whole]]:
        own = [dataclasses.replace(plan, items=[item for item in plan.items if item.index.fqn not in twins]) for plan in plans]
        known: dict[str, tuple[int, str]] = {}
        for rank, plan in enumerate(own):
            for item in plan.items:
                if (about := item.tensor_data) is not None:
                    shown = f"{about.properties.dtype} {list(about.size)}"
                    first, other = known.setdefault(item.index.fqn, (rank, shown))
                    if shown != other:
                        raise EspalierError(
                            f"{item.index.fqn}: rank {rank} has {shown}, and rank {first} {other}; what is of one process goes into "
                            "per_rank=",
                            path=item.index.fqn,
                        )
        try:
            dealt, metadata = self._planner.create_global_plan(own)
        except ValueError as error:
            raise EspalierError(
                f"the parts of the processes do not make up the tensors ({error}); give all the same keys, with the same shapes and dtypes"
            ) from error
        return dealt, {name: whole_of(each) for name, each in metadata.state_dict_metadata.items()}

    def items(self, dealt: SavePlan, copies: bool) -> list[Item]:
        items = [item_of(item, self._planner.resolve_data(item)) for item in self._planner.finish_plan(dealt).items]
        return [item._replace(data=item.data.to("cpu", copy=True)) for item in items] if copies else items

    def own_copy(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.is_meta:
            return None
        if _torch.local_part(value) is not value:
            raise Unsupported("a DTensor is of all processes; save it in the state, and what one process has in per_rank=")
        return value.detach().to("cpu", copy=True)


def _tensor(value: Any) -> tuple[str, Numbers, Any, Any] | None:
    """For Split: a tensor with elements."""
    if not isinstance(value, torch.Tensor) or value.is_meta:
        return None
    local = _torch.local_part(value)
    _torch.check(local)
    _torch.check_storage(local)
    shape = _torch.shape_of(value)
    same = None
    if local.numel():
        parts = getattr(value, "placements", None)
        lies = local.device, local.data_ptr(), local.dtype, local.shape, local.stride(), local.is_conj(), local.is_neg()
        same = (*lies, shape, parts)
    return DTYPE_NAMES[by_dtype()[value.dtype]], shape, value.detach(), same
