"""Storage for torch.distributed.checkpoint: torch plans who saves what, and these write and read the files.

A checkpoint is a folder. Each process writes one file, `rank_<number>.<id>.espalier`, of the tensors and parts that torch
gives it: a whole tensor under its name, and parts as a list of {"offsets", "data"}. The coordinator then replaces
`index.espalier`, and removes the files of processes to which no file of the folder refers: those of the save before, and of saves
that failed. So the folder always holds one whole checkpoint.

`index.espalier` is a file of the whole state, nested as it was saved: it refers to the chunks in the files of the processes, and
so opens as any other file does. Its metadata say what is where, for EspalierReader, and tell by digests whether files were mixed
up.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import math
import os
import pathlib
import re
import uuid
import warnings
from typing import Any

import torch
from torch.distributed.checkpoint import FileSystemReader
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
)
from torch.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
from torch.futures import Future

from .. import _core, _rank_files
from .._checkpoint import Checkpoint
from .._checkpointer import DamagedCheckpoint
from .._errors import CheckpointExists, Corrupt, EspalierError, Unsupported
from .._node import Node
from .._options import Check, checks_hashes
from .._rank_files import Place
from .._tensor import Tensor
from .._tree import below
from ._plan import item_of, whole_of

_INDEX = "index.espalier"
_FORMAT = "torch.distributed.checkpoint"
_VERSION = 2  # of the index; 1 was the state of its file, and is still read
_RANK_FILE = re.compile(r"rank_\d+\.[0-9a-f]{32}\.espalier")
_LAYOUTS = {"torch.strided": torch.strided}
_MEMORY_FORMATS = {
    str(each): each for each in (torch.contiguous_format, torch.channels_last, torch.preserve_format)
}  # fmt: skip


def _folder(path: str | os.PathLike[str]) -> pathlib.Path:
    if "://" in os.fspath(path):
        raise Unsupported(f"{os.fspath(path)}: a folder of this machine is needed, and this is a URL")
    return pathlib.Path(path)


class EspalierWriter(StorageWriter):  # type: ignore[misc]  # torch's types are not checked
    """Saves with torch.distributed.checkpoint: `dcp.save(state, storage_writer=EspalierWriter(folder))`.

    The folder, or its index.espalier, opens as the state that was saved: `espalier.load(folder)`, `espalier show FOLDER`. Whole
    tensors, and parts along the first axis that begin at multiples of a MiB, are stored once. Other tensors that were cut are
    stored a second time, put together in index.espalier.

    A save replaces the checkpoint of the folder. It removes files of processes (rank_*.espalier) to which no file of the folder
    refers, and nothing else. It is an error if another file refers to index.espalier itself, or if the folder has a checkpoint of
    torch's own writer. If a file cannot be read that may refer to others, nothing is removed.

    `compression` is 0 for none, 1 to 9; with `sync`, files are on the disk when the save returns. All processes must see the
    folder.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        compression: int = 0,
        sync: bool = True,
        threads: int = 0,
    ):
        super().__init__()
        self._path = None if path is None else _folder(path)
        self._options: dict[str, Any] = {"compression": compression, "sync": sync, "threads": threads}

    @property
    def checkpoint_id(self) -> pathlib.Path:
        if self._path is None:
            raise EspalierError("pass a folder: EspalierWriter(folder), or checkpoint_id=folder")
        return self._path

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        if checkpoint_id:
            self._path = _folder(checkpoint_id)

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        if not kwargs.get("use_collectives", True):
            raise Unsupported("saves without a coordinator (use_collectives=False) would have no index")
        self.checkpoint_id.mkdir(parents=True, exist_ok=True)
        if is_coordinator:
            _check_replaceable(self.checkpoint_id)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        return [dataclasses.replace(plan, storage_data=f"rank_{i}") for i, plan in enumerate(plans)]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        # A planner may give the plan of an earlier save, whose files must stay as they are until the index is replaced.
        name = f"{plan.storage_data}.{uuid.uuid4().hex}.espalier"
        items = [item_of(item, planner.resolve_data(item)) for item in plan.items]
        places = _rank_files.write(self.checkpoint_id / name, items, metadata={"format": _FORMAT}, **self._options)
        results = [
            WriteResult(index=item.index, size_in_bytes=item.tensor_storage_size() or 0, storage_data=place)
            for item, place in zip(plan.items, places, strict=True)
        ]
        future: Future[list[WriteResult]] = Future()
        future.set_result(results)
        return future

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        metadata.storage_data = {result.index: result.storage_data for each in results for result in each}
        folder = self.checkpoint_id
        with _rank_files.locked(folder):
            _check_replaceable(folder)
            state, tensors, names = _whole_state(folder, metadata)
            _core.save_joined(
                os.fsencode(folder / _INDEX),
                state,
                {"format": _FORMAT, "index": _index_of(metadata)},
                self._options["compression"],
                self._options["sync"],
                self._options["threads"],
                [os.fsencode(folder / name) for name in names],
                tensors,
            )
            for problem in _rank_files.remove_unneeded(folder, _RANK_FILE, set(names)):
                warnings.warn(str(problem), DamagedCheckpoint, stacklevel=2)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return "://" not in os.fspath(checkpoint_id)

    def storage_meta(self) -> StorageMeta | None:
        return StorageMeta(checkpoint_id=self.checkpoint_id)


def _check_replaceable(folder: pathlib.Path) -> None:
    """That a new index would not break a checkpoint of the folder."""
    if (folder / ".metadata").exists():
        raise CheckpointExists(
            f"{folder} has a checkpoint of torch's own writer (.metadata), and a folder of two opens as neither; save to another "
            "folder, or move the files of that one away",
            "file_exists",
        )
    _rank_files.check_replaceable(folder / _INDEX)


def _whole_state(
    folder: pathlib.Path, metadata: Metadata
) -> tuple[Any, list[tuple[list[str], list[_rank_files.Part]]], list[str]]:
    """The state that all processes saved, with placeholders for tensors; each tensor's key path, in a list, with its parts, as
    (number of the file, key path there, offset); and the names of the files."""
    names = sorted({place.file for place in metadata.storage_data.values()})
    numbers = {name: number for number, name in enumerate(names)}
    found: dict[tuple[str | int, ...], Any] = {}
    parts: dict[tuple[str | int, ...], list[_rank_files.Part]] = {}
    with contextlib.ExitStack() as stack:
        files = {name: stack.enter_context(Checkpoint(folder / name)) for name in names}
        for name, path in _paths_of(metadata).items():
            each = metadata.state_dict_metadata[name]
            if isinstance(each, BytesStorageMetadata):
                place = metadata.storage_data[MetadataIndex(name)]
                found[path] = _plain(files[place.file][place.keys[0]])
                continue
            whole = whole_of(each)
            places = {
                offsets: metadata.storage_data[MetadataIndex(name, chunk.offsets)]
                for (offsets, _), chunk in zip(whole.parts, each.chunks, strict=True)
                if math.prod(chunk.sizes)
            }
            found[path], parts[path] = _rank_files.parts_of(whole, places, numbers)
    tensors = [([functools.reduce(below, path, "")], each) for path, each in parts.items()]
    return _nested(found), tensors, names


def _paths_of(metadata: Metadata) -> dict[str, tuple[str | int, ...]]:
    """By name: where in the state it was, as torch's planner says, or the name alone."""
    told: dict[str, Any] = metadata.planner_data if isinstance(metadata.planner_data, dict) else {}
    paths: dict[str, tuple[str | int, ...]] = {}
    for name in metadata.state_dict_metadata:
        path: Any = told.get(name)
        is_path = isinstance(path, tuple) and path and all(type(key) in (str, int) for key in path)
        paths[name] = path if is_path else (name,)
    # One path below or at another: the later one keeps its name. There is no such state in Python.
    taken: set[tuple[str | int, ...]] = set()
    for name, path in paths.items():
        if path in taken or any(path[:length] in paths.values() for length in range(1, len(path))):
            paths[name] = (name,)
        taken.add(paths[name])
    return paths


def _plain(pickled: Any) -> Any:
    """What torch's planner pickled, read as data: nothing is unpickled. Its bytes, if that cannot be."""
    try:
        with Checkpoint.of_bytes(pickled) as file:
            return file._load_node(file._opened.state, "", True, True, "numpy")
    except EspalierError:
        return pickled


def _nested(found: dict[tuple[str | int, ...], Any]) -> Any:
    """The tree of values by their paths: of integers, a list, as torch makes it, with None in the places that nothing has."""
    root: dict[str | int, Any] = {}
    for path, value in found.items():
        node = root
        for key in path[:-1]:
            node = node.setdefault(key, _Branch())
        node[path[-1]] = value
    return _lists(root)


class _Branch(dict[Any, Any]):
    """A dict of the tree, which no value is."""


def _lists(node: Any) -> Any:
    made = {key: _lists(value) if type(value) is _Branch else value for key, value in node.items()}
    if type(node) is _Branch and all(type(key) is int and 0 <= key < 2 * len(node) + 1000 for key in node):
        return [made.get(i) for i in range(max(node) + 1)]
    return made


def _index_of(metadata: Metadata) -> dict[str, Any]:
    tensors: dict[str, Any] = {}
    objects: list[str] = []
    for name, each in metadata.state_dict_metadata.items():
        if isinstance(each, BytesStorageMetadata):
            objects.append(name)
            continue
        properties = each.properties
        tensors[name] = {
            "dtype": str(properties.dtype),
            "layout": str(properties.layout),
            "memory_format": str(properties.memory_format),
            "requires_grad": properties.requires_grad,
            "pin_memory": properties.pin_memory,
            "strides": getattr(properties, "strides", None),
            "size": tuple(each.size),
            "chunks": [(tuple(chunk.offsets), tuple(chunk.sizes)) for chunk in each.chunks],
        }
    places = [
        {
            "name": index.fqn,
            "offset": None if index.offset is None else tuple(index.offset),
            "index": index.index,
            "file": place.file,
            "keys": list(place.keys),
        }
        for index, place in metadata.storage_data.items()
    ]
    return {
        "version": _VERSION,
        "torch_version": metadata.version,
        "tensors": tensors,
        "objects": objects,
        "planner_data": metadata.planner_data,
        "places": places,
        "files": {place.file: place.digest for place in metadata.storage_data.values()},
    }


def _metadata_of(index: Any, path: pathlib.Path) -> Metadata:
    """The reverse. The file may be a stranger's: what it says has its types, or is an error."""
    if not isinstance(index, dict) or type(index.get("version")) is not int or not 1 <= index["version"] <= _VERSION:
        raise Unsupported(f"{path}: this version reads index versions 1 and {_VERSION} alone")
    try:
        files = dict(index["files"])
        for name in files:
            # A name with a slash would lead out of the folder.
            if not _RANK_FILE.fullmatch(name):
                raise ValueError(f"{name!r} is no name of a file of a process")
        described: dict[str, Any] = {name: _tensor_of(each) for name, each in index["tensors"].items()}
        described.update({name: BytesStorageMetadata() for name in index["objects"]})
        places = {
            MetadataIndex(each["name"], each["offset"], each["index"]): Place(
                each["file"], files[each["file"]], tuple(each["keys"])
            )
            for each in index["places"]
        }
        for name, each in described.items():
            offsets = [None] if isinstance(each, BytesStorageMetadata) else [chunk.offsets for chunk in each.chunks]
            for offset in offsets:
                if MetadataIndex(name, offset) not in places:
                    raise ValueError(f"{name!r} has a part without a place")
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise Corrupt(f"{path}: this is no index of a distributed checkpoint: {error}", "tree_invalid") from error
    return Metadata(described, index.get("planner_data"), places, StorageMeta(), index.get("torch_version"))


def _tensor_of(each: dict[str, Any]) -> TensorStorageMetadata:
    properties: dict[str, Any] = {
        # Not getattr(), which imports modules. Version 1 had the dtype itself.
        "dtype": vars(torch).get(each["dtype"].removeprefix("torch.")) if isinstance(each["dtype"], str) else each["dtype"],
        "layout": _LAYOUTS[each["layout"]],
        "memory_format": _MEMORY_FORMATS[each["memory_format"]],
        "requires_grad": each["requires_grad"],
        "pin_memory": each["pin_memory"],
    }
    if not isinstance(properties["dtype"], torch.dtype):
        raise TypeError(f"{each['dtype']!r} is no dtype of this version of torch")
    if "strides" in {field.name for field in dataclasses.fields(TensorProperties)}:
        properties["strides"] = each["strides"]
    size = torch.Size(each["size"])
    chunks = [ChunkStorageMetadata(torch.Size(offsets), torch.Size(sizes)) for offsets, sizes in each["chunks"]]
    _check_chunks(size, chunks)
    return TensorStorageMetadata(TensorProperties(**properties), size, chunks)


def _check_chunks(size: torch.Size, chunks: list[ChunkStorageMetadata]) -> None:
    """That the parts make up the whole: torch leaves memory as it is where there is none."""
    for chunk in chunks:
        parts = list(zip(chunk.offsets, chunk.sizes, size, strict=True))
        if any(offset < 0 or length < 0 or offset + length > whole for offset, length, whole in parts):
            raise ValueError(f"a part at {list(chunk.offsets)} is not inside of a tensor of {list(size)}")
    if len({tuple(chunk.offsets) for chunk in chunks}) != len(chunks):
        raise ValueError("two parts begin at the same place")
    if sum(math.prod(chunk.sizes) for chunk in chunks) != math.prod(size):
        raise ValueError(f"the parts do not make up a tensor of {list(size)}")


class EspalierReader(StorageReader):  # type: ignore[misc]  # torch's types are not checked
    """Loads with torch.distributed.checkpoint: `dcp.load(state, storage_reader=EspalierReader(folder))`.

    By as many processes as you like, whatever number saved: each reads only what it needs, and checks its hashes. What is not
    a tensor was pickled by torch's planner, which unpickles it: load such checkpoints only from people you trust. Folders that
    torch's own FileSystemWriter made are read, too, by torch's reader.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        check: Check = "hashes",
        mapped: bool = True,
        threads: int = 0,
    ):
        super().__init__()
        self._path = None if path is None else _folder(path)
        self._check = checks_hashes(check)
        self._options: dict[str, Any] = {"mapped": mapped, "threads": threads}
        self._places: dict[MetadataIndex, Place] = {}
        self._of_torch: Any = None  # the reader of a folder that torch's own writer made

    @property
    def checkpoint_id(self) -> pathlib.Path:
        if self._path is None:
            raise EspalierError("pass a folder: EspalierReader(folder), or checkpoint_id=folder")
        return self._path

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        self._places = {}
        if checkpoint_id:
            self._path = _folder(checkpoint_id)

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        path = self.checkpoint_id / _INDEX
        self._of_torch = None
        if self.checkpoint_id.is_file():
            raise Unsupported(f"{self.checkpoint_id} is a file, and EspalierReader reads folders; espalier.torch.FileReader reads it")
        has_metadata = (self.checkpoint_id / ".metadata").exists()
        if path.exists() and has_metadata:  # One of them may be of an earlier save.
            raise EspalierError(
                f"{self.checkpoint_id} is a folder of two checkpoints, which {_INDEX} and .metadata name; move the files of one away"
            )
        if has_metadata:
            self._of_torch = FileSystemReader(self.checkpoint_id)
            return self._of_torch.read_metadata(*args, **kwargs)
        with Checkpoint(path, **self._options) as checkpoint:
            said = checkpoint.metadata
            index = said.get("index") if isinstance(said, dict) else None
            # Until version 1, the index was the state.
            return _metadata_of(checkpoint.state.load() if index is None else index, path)

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        self._places = metadata.storage_data
        if self._of_torch is not None:
            self._of_torch.set_up_storage_reader(metadata, is_coordinator, *args, **kwargs)

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan if self._of_torch is None else self._of_torch.prepare_local_plan(plan)

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans if self._of_torch is None else self._of_torch.prepare_global_plan(plans)

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        if self._of_torch is not None:
            return self._of_torch.read_data(plan, planner)
        by_file: dict[tuple[str, str | None], list[ReadItem]] = {}
        for item in plan.items:
            place = self._places[item.storage_index]
            by_file.setdefault((place.file, place.digest), []).append(item)
        for (name, digest), items in by_file.items():
            path = self.checkpoint_id / name
            with Checkpoint(path, **self._options) as checkpoint:
                if checkpoint.digest != digest:
                    raise Corrupt(f"{path}: this is not the file that the index is of: its digest is another", "index_corrupt")
                self._read(checkpoint, items, planner)
        future: Future[None] = Future()
        future.set_result(None)
        return future

    def _read(self, checkpoint: Checkpoint, items: list[ReadItem], planner: LoadPlanner) -> None:
        whole: list[tuple[ReadItem, Tensor]] = []
        for item in items:
            node = checkpoint.state
            for key in self._places[item.storage_index].keys:
                if not isinstance(node, Node):
                    raise Corrupt(f"{checkpoint.name}: {item.storage_index.fqn} is not where the index says", "tree_invalid")
                node = node[key]
            if item.type == LoadItemType.BYTE_IO:
                if not isinstance(node, bytes):
                    raise Corrupt(f"{checkpoint.name}: {item.storage_index.fqn} is not bytes there", "tree_invalid")
                planner.load_bytes(item, io.BytesIO(node))
            elif not isinstance(node, Tensor):
                raise Corrupt(f"{checkpoint.name}: {item.storage_index.fqn} is no tensor there", "tree_invalid")
            else:
                ranges = _ranges(item, node)
                if [(0, length, 1) for length in node.shape] == ranges:
                    whole.append((item, node))
                else:
                    _deliver(item, planner, checkpoint._opened.slice(node._node, ranges, "torch"))
        # One call reads and checks all of them, with all threads.
        loaded = checkpoint._opened.load_nodes([node._node for _, node in whole], self._check, False, "torch")
        for (item, _), tensor in zip(whole, loaded, strict=True):
            _deliver(item, planner, tensor)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return "://" not in os.fspath(checkpoint_id)


def _ranges(item: ReadItem, node: Tensor) -> list[tuple[int, int, int]]:
    """The part of the tensor in the file that an item wants, as (begin, end, step) for each axis."""
    ranges = [(offset, offset + length, 1) for offset, length in zip(item.storage_offsets, item.lengths, strict=True)]
    if node.dtype == "f4_e2m1fn":  # An item of torch has two elements.
        begin, end, step = ranges[-1]
        ranges[-1] = (2 * begin, 2 * end, step)
    return ranges


def _deliver(item: ReadItem, planner: LoadPlanner, tensor: torch.Tensor) -> None:
    target = planner.resolve_tensor(item).detach()
    if target.shape != tensor.shape:
        raise EspalierError(
            f"{item.storage_index.fqn}: the file has {list(tensor.shape)}, and the plan wants {list(target.shape)}",
            path=item.storage_index.fqn,
        )
    target.copy_(tensor)
    planner.commit_tensor(item, target)
