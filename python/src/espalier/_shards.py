"""Models of several safetensors files with an index, as huggingface_hub, transformers and diffusers write them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from . import _core, _encode, _frameworks, _named
from ._errors import CheckpointOSError, EspalierError, Unsupported, make
from ._options import Path
from ._progress import Report
from ._tree import DICT, LIST, RECORD, SET, TENSOR, TUPLE, below

_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_INDEX = re.compile(r"(.+)\.safetensors\.index((?:\.[^.]+)?)\.json", re.S)
_DEPTH = 256


class Split(NamedTuple):
    files: dict[str, list[str]]
    """The tensors of each file, by its name."""
    listing: dict[str, Any] | None
    """None: one file, which needs none."""


class _Leaf(NamedTuple):
    value: Any
    path: str
    bytes: int
    elements: int
    storage: Any
    """The same for tensors that belong together; None for those that share no memory."""


def size_of(size: int | str) -> int:
    """The bytes of "5GB", as huggingface_hub counts them."""
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([KMGT]B)\s*", size, re.I) if isinstance(size, str) else None
    number = int(float(found[1]) * _UNITS[found[2].upper()]) if found else size
    if type(number) is not int or number < 1:
        raise EspalierError(f'max_shard_size must be a number of bytes or a text such as "5GB", not {size!r}')
    return number


def save(
    path: Path,
    state: Any,
    metadata: Any,
    unrepresentable: str,
    sync: bool,
    replace: bool,
    copy_views: bool,
    threads: int,
    report: Report | None,
    max_shard_size: int | str | None,
    like: Path | None,
) -> list[tuple[str, str]]:
    """save_safetensors() into several files."""
    if max_shard_size is not None and like is not None:
        raise EspalierError("pass max_shard_size= or like=, not both: like= has the files that its index names")
    if unrepresentable == "metadata":
        raise EspalierError(
            'unrepresentable="metadata" carries the tree in the metadata of one file; leave out max_shard_size= and like='
        )
    folder, single, index_name = _names(os.fsdecode(path))
    limit = None if max_shard_size is None else size_of(max_shard_size)
    wanted = None if like is None else _read_index(os.fsdecode(like))
    leaves, dropped = _flatten(_named.named(state), os.path.join(folder, single))
    if dropped and unrepresentable == "error":
        where, what = dropped[0]
        raise Unsupported(
            f"{os.fsdecode(path)}: safetensors cannot hold {where or 'the root'} ({what}); leave out what does not fit "
            '(unrepresentable="drop")',
            "unrepresentable",
            where,
        )
    if wanted is not None:
        split = _split_like(leaves, wanted, os.fsdecode(like or ""), _parameters(state, leaves))
    else:
        split = _split(leaves, limit or 1, single, _parameters(state, leaves))
    with _saving(os.path.join(folder, single)):
        dropped += _write(
            folder, single, index_name, split, leaves, metadata, unrepresentable, sync, replace, copy_views, threads, report
        )
    return dropped if len(dropped) < 10 else [*dropped[:8], ("", f"and {len(dropped) - 8} more")]


def _names(path: str) -> tuple[str, str, str]:
    """The folder, the file if one is enough, and the index."""
    folder, name = os.path.split(path)
    found = _INDEX.fullmatch(name)
    if found:
        return folder, f"{found[1]}{found[2]}.safetensors", name
    if name.endswith(".safetensors") and len(name) > len(".safetensors"):
        return folder, name, f"{name}.index.json"
    raise EspalierError(
        f"{path}: this is not the name of a model in several files; end it in .safetensors, or in .safetensors.index.json"
    )


def _is_plain(name: Any) -> bool:
    """A file beside the index: "../../.ssh/id_rsa" must be neither written nor removed."""
    return isinstance(name, str) and re.fullmatch(r"[^\x00-\x1f\x7f/\\:]+\.safetensors", name) is not None


def _read_index(path: str) -> dict[str, Any]:
    with _saving(path), open(path, "rb") as file:
        data = file.read()
    try:
        index = json.loads(data)
    except (ValueError, RecursionError):
        index = None
    files = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(files, dict) or not files:
        raise EspalierError(f"{path}: this is no index of a model in several files, such as model.safetensors.index.json")
    for name, file in files.items():
        if not _is_plain(file):
            raise EspalierError(
                f"{path}: the index has {name!r} in {file!r}; files of a model must have plain names that end in .safetensors"
            )
    metadata = index.get("metadata")
    return {"metadata": metadata if isinstance(metadata, dict) else {}, "weight_map": files}


def _flatten(state: Any, where: str) -> tuple[dict[str, _Leaf], list[tuple[str, str]]]:
    """The tensors by their names, and what is none."""
    leaves: dict[str, _Leaf] = {}
    dropped: list[tuple[str, str]] = []

    def visit(value: Any, path: str, name: str, depth: int) -> None:
        if _is_array(value):
            if depth == 0:
                dropped.append((path, "a tensor as the root"))
            if name in leaves:
                text = f'{where}: {leaves[name].path} and {path} would both get the name "{name}"; rename one of them'
                raise EspalierError(text, "name_collision", path)
            leaves[name] = _leaf(value, path)
            return
        try:
            kind, label, content = _encode.plain_parts(value) or _encode.encode_other(value)
        except Exception as error:
            raise _encode.at_path(error, path) from None
        if kind == TENSOR:
            leaves[name] = _Leaf(value, path, content.nbytes or getattr(content.data, "nbytes", 0), 0, None)
            return
        if kind not in (DICT, LIST, TUPLE, SET, RECORD):
            dropped.append((path, f"a value of {type(value).__name__}"))
            return
        if depth == _DEPTH:
            raise EspalierError(f"{where}: {path}: containers are nested more than {_DEPTH} deep", "limit_exceeded", path)
        keys, values = content if kind in (DICT, RECORD) else (range(len(content)), content)
        if kind != DICT:
            dropped.append((path, f"a {type(value).__name__}"))
        elif depth and (label is not None or not keys):
            dropped.append((path, "an empty dict" if label is None else "a label"))
        for key, each in zip(keys, values, strict=True):
            if type(key) not in (str, int):
                raise EspalierError(f"{path or 'the root'}: the key {key!r} is neither a str nor an int", path=path)
            if kind == DICT and type(key) is int:
                dropped.append((below(path, key), "int keys become text"))
            visit(each, below(path, key), f"{name}.{key}" if depth else str(key), depth + 1)

    visit(state, "", "", 0)
    return leaves, dropped


def _is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    if numpy is not None and type(value) is numpy.ndarray:
        return True
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return True
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.Array) and _frameworks.leaf(value) is not None


def _leaf(value: Any, path: str) -> _Leaf:
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(value, torch.Tensor):
        value = value.detach()
        if value.is_meta or value.layout is not torch.strided:  # The core refuses it.
            return _Leaf(value, path, 0, value.numel(), None)
        # As huggingface_hub counts: all of the memory that the tensor is a view of.
        storage = value.untyped_storage()
        return _Leaf(value, path, storage.nbytes(), value.numel(), (str(value.device), storage.data_ptr(), storage.nbytes()))
    if numpy is not None and type(value) is numpy.ndarray:
        tie = (value.ctypes.data, value.nbytes) if value.nbytes else None
        return _Leaf(value, path, value.nbytes, value.size, tie)
    return _Leaf(value, path, value.nbytes, value.size, id(value))


def _parameters(state: Any, leaves: dict[str, _Leaf]) -> int:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(state, torch.nn.Module):  # As transformers counts: no buffers.
        return sum(each.numel() for each in state.parameters())
    counted = {id(leaf) if leaf.storage is None else leaf.storage: leaf.elements for leaf in leaves.values()}
    return sum(counted.values())


def _split(leaves: dict[str, _Leaf], limit: int, single: str, parameters: int) -> Split:
    """As split_torch_state_dict_into_shards() of huggingface_hub does: next fit, in the order of the state."""
    shards: list[list[str]] = []
    current: list[str] = []
    filled = total = 0
    together: dict[Any, list[str]] = {}
    for name, leaf in leaves.items():
        if leaf.storage is not None:
            others = together.setdefault(leaf.storage, [])
            others.append(name)
            if len(others) > 1:
                continue
        total += leaf.bytes
        if leaf.bytes > limit:
            shards.append([name])
            continue
        if filled + leaf.bytes > limit:
            shards.append(current)
            current, filled = [], 0
        current.append(name)
        filled += leaf.bytes
    if current or not shards:
        shards.append(current)
    tied = {names[0]: names[1:] for names in together.values()}
    for shard in shards:
        shard += [other for name in list(shard) for other in tied.get(name, ())]
    if len(shards) == 1:
        return Split({single: shards[0]}, None)
    stem = single.removesuffix(".safetensors")
    files = {f"{stem}-{i:05d}-of-{len(shards):05d}.safetensors": shard for i, shard in enumerate(shards, 1)}
    places = {name: file for file, names in files.items() for name in names}
    return Split(files, {"metadata": {"total_parameters": parameters, "total_size": total}, "weight_map": places})


def _split_like(leaves: dict[str, _Leaf], index: dict[str, Any], like: str, parameters: int) -> Split:
    there = index["weight_map"]
    if leaves and not leaves.keys() & there.keys():
        raise EspalierError(f"{like}: the index has none of the names of this state; pass that of the same model")
    nearest: dict[str, str] = {}  # The file of the last name that begins so.
    for name, file in there.items():
        parts = name.split(".")
        nearest.update((".".join(parts[:count]), file) for count in range(len(parts)))
    files: dict[str, list[str]] = {file: [] for file in there.values()}
    places: dict[str, str] = {}
    for name in leaves:
        file = there.get(name)
        prefix = name
        while file is None:
            prefix = prefix.rpartition(".")[0]
            file = nearest.get(prefix)
        places[name] = file
        files[file].append(name)
    files = {file: names for file, names in files.items() if names}
    sizes = {id(leaf) if leaf.storage is None else leaf.storage: leaf.bytes for leaf in leaves.values()}
    metadata = dict(index["metadata"])
    if places != there or metadata.get("total_size") != sum(sizes.values()):
        metadata["total_size"] = sum(sizes.values())
        if "total_parameters" in metadata:
            metadata["total_parameters"] = parameters
    return Split(files, {"metadata": metadata, "weight_map": places})


@contextlib.contextmanager
def _saving(path: str) -> Iterator[None]:
    """What the system refuses, as an error of this package."""
    try:
        yield
    except EspalierError:
        raise
    except FileNotFoundError as error:
        raise make("file_not_found", f"no file is there: {error.strerror}", "", None, path) from error
    except OSError as error:
        made = CheckpointOSError(f"{path}: {error.strerror or error}", "io_error")
        made.errno, made.filename = error.errno, error.filename
        raise made from error


def _write(
    folder: str,
    single: str,
    index_name: str,
    split: Split,
    leaves: dict[str, _Leaf],
    metadata: Any,
    unrepresentable: str,
    sync: bool,
    replace: bool,
    copy_views: bool,
    threads: int,
    report: Report | None,
) -> list[tuple[str, str]]:
    """All files beside the old ones first, which the core then replaces so that a reader finds one whole model at each moment."""
    dropped: list[tuple[str, str]] = []
    model = _core.NewModel(os.fsencode(folder or "."), single, index_name, sync, replace)
    total = sum(leaf.bytes for leaf in leaves.values())
    done = 0
    for file, names in split.files.items():
        begun = done
        told = None if report is None else lambda now, _, begun=begun: report(begun + now, max(total, begun + now))
        part = {name: leaves[name].value for name in names}
        _, first = model.add(file, part, metadata, unrepresentable, threads, copy_views, told)
        dropped += first
        done += sum(leaves[name].bytes for name in names)
    model.replace("" if split.listing is None else _json(split.listing))
    return dropped


def _json(index: dict[str, Any]) -> str:
    return json.dumps(index, indent=2, sort_keys=True) + "\n"


__all__ = ["save", "size_of"]
