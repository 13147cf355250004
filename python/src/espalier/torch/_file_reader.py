"""A reader for torch.distributed.checkpoint of one file: every process of a job takes its own parts of it."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from typing import Any

import torch
from torch.distributed.checkpoint import DefaultSavePlanner
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner
from torch.distributed.checkpoint.storage import StorageReader
from torch.futures import Future

from .._checkpoint import Checkpoint
from .._errors import EspalierError, Unsupported
from .._node import Node
from .._options import Path
from .._tensor import Tensor
from .._torch import by_dtype
from .._tree import DTYPE_NUMBERS
from ._distributed import _deliver, _ranges


class FileReader(StorageReader):  # type: ignore[misc]  # torch's types are not checked
    """Loads one file into the processes of a job: `dcp.load(state, storage_reader=FileReader("run.espalier"))`.

    The file is of any format that espalier.open() opens, such as safetensors or `.pt`, a URL, or a folder. Each process opens it,
    and reads and checks what its parts need alone. Names are torch's: the keys joined with dots, so that an optimizer's state
    is found under the number 0 and under the text "0". Values that are no tensors come back as plain values: nothing of the
    file is unpickled. As with torch's own reader, tensors get the dtype of the state's, and a name that the file lacks is an
    error.

    `mapped`, `threads` and `storage_options` are those of espalier.open().
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        mapped: bool = True,
        threads: int = 0,
        storage_options: Mapping[str, Any] | None = None,
    ):
        super().__init__()
        self._path = path
        self._options: dict[str, Any] = {"mapped": mapped, "threads": threads, "storage_options": storage_options}
        self._file: Checkpoint | None = None
        self._keys: dict[str, tuple[str | int, ...]] = {}

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        if checkpoint_id:
            self._path = checkpoint_id

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        if self._path is None:
            raise EspalierError("pass a file: FileReader(path), or checkpoint_id=path")
        self._file = Checkpoint(self._path, **self._options)
        state = self._file.state
        if not isinstance(state, Node) or state.kind != "dict":
            raise Unsupported(f"{self._file.name}: its state is no dict, which torch.distributed.checkpoint loads alone")
        self._file._tell_notes()
        # torch's own planner makes the names, as it does for a state to save.
        planner = DefaultSavePlanner()
        try:
            planner.set_up_planner(_outline(state), None, True)
        except ValueError as error:
            message = f"{self._file.name}: torch would give two values one name: {error}"
            raise EspalierError(message, "name_collision") from error
        _, metadata = planner.create_global_plan([planner.create_local_plan()])
        self._keys = metadata.planner_data
        return metadata

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        pass

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        assert self._file is not None
        with self._file as file:
            whole = []
            for item in plan.items:
                found = _at(file.state, self._keys[item.storage_index.fqn])
                if item.type == LoadItemType.BYTE_IO:
                    planner.load_bytes(item, _saved(_value(found)))
                    continue
                if found.is_placeholder:
                    raise EspalierError(f"{file.name}: {found.path} is a placeholder, which has no data", path=found.path)
                ranges = _ranges(item, found)
                if [(0, length, 1) for length in found.shape] == ranges:
                    whole.append((item, found._node))
                else:
                    _deliver(item, planner, file._opened.slice(found._node, ranges, "torch"))
            # One call reads and checks all of them, with all threads.
            loaded = file._opened.load_nodes([node for _, node in whole], True, False, "torch")
            for (item, _), tensor in zip(whole, loaded, strict=True):
                _deliver(item, planner, tensor)
        future: Future[None] = Future()
        future.set_result(None)
        return future

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return True


def _outline(found: Any) -> Any:
    """The state with tensors on the meta device, in the containers that torch's planner looks into: dicts and lists."""
    if isinstance(found, Tensor):
        return _meta(found)
    if isinstance(found, Node):
        if found.kind == "dict":
            return {key: _outline(value) for key, value in found.items()}
        if found.kind == "list":
            return [_outline(value) for value in found.values()]
    return found


def _meta(tensor: Tensor) -> Any:
    number = DTYPE_NUMBERS[tensor.dtype]
    dtype = next((dtype for dtype, each in by_dtype().items() if each == number), None)
    if dtype is None:
        return tensor  # a value for torch, and an error only if it is wanted
    shape = list(tensor.shape)
    if tensor.dtype == "f4_e2m1fn" and shape:  # An item of torch has two elements.
        shape[-1] //= 2
    return torch.empty(shape, dtype=dtype, device="meta")


def _at(found: Any, keys: tuple[str | int, ...]) -> Any:
    for key in keys:
        if isinstance(key, str) and key not in found:
            key = int(key)  # torch makes texts of the keys of dicts
        found = found[key]
    return found


def _value(found: Any) -> Any:
    if isinstance(found, Tensor):
        return found.torch()
    return found.load(framework="torch") if isinstance(found, Node) else found


def _saved(value: Any) -> io.BytesIO:
    """As torch's planner takes it. This process wrote it, so nothing of the file is unpickled."""
    made = io.BytesIO()
    torch.save(value, made)
    made.seek(0)
    return made


__all__ = ["FileReader"]
