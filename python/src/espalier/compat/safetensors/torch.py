"""The interface of safetensors.torch: dicts of tensors by their flat names, and whole modules.

It has the names with an underscore that other libraries import: _end_ptr, _find_shared_tensors, _is_complete and
_remove_duplicate_names. Left out are those that only safetensors itself needs, such as _TYPES, _SIZE, _flatten_as_ptr and
_view2torch.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Collection
from typing import Any

from ... import _dtypes
from ..._errors import EspalierError, Unsupported
from . import _open, _save
from ._open import safe_open

torch: Any = importlib.import_module("torch")

Tensors = dict[str, Any]


class SharedMemory(EspalierError, RuntimeError):
    """Tensors share memory, which a safetensors file cannot say."""


class NoData(Unsupported, RuntimeError):
    """A tensor on the meta device."""


def _checked(tensors: Tensors, metadata: dict[str, str] | None) -> Tensors:
    if not isinstance(tensors, dict):
        raise EspalierError(f"expected a dict of [str, torch.Tensor], not {type(tensors)}")
    _save.check_texts(tensors, metadata)
    numbers = _torch_dtypes()
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise EspalierError(f"{name!r} must be a torch.Tensor, not {type(tensor)}")
        if tensor.layout != torch.strided:
            raise EspalierError(f"{name!r} is sparse, which the format cannot hold; save to_dense() of it")
        if tensor.device.type == "meta":
            raise NoData(f"{name!r}: Cannot copy out of meta tensor, which has no data; load it first", "unrepresentable", name)
        _save.check_dtype(name, numbers.get(tensor.dtype), tensor.dtype)
    shared = [sorted(names) for names in _find_shared_tensors(tensors) if len(names) > 1]
    if shared:
        raise SharedMemory(
            f"these tensors share memory, and would be saved twice: {shared}; save_model() saves each once"
        )
    for name, tensor in tensors.items():
        if not tensor.is_contiguous():
            raise EspalierError(
                f"{name!r} is not contiguous; call contiguous() first, or save all of what it is a view of"
            )
    # detach(): parameters become plain tensors.
    return {name: tensor.detach() for name, tensor in tensors.items()}


def _torch_dtypes() -> dict[Any, str]:
    from ... import _torch

    return {dtype: _dtypes.NAMES[number] for dtype, number in _torch.by_dtype().items()}


def save_file(tensors: Tensors, filename: str | os.PathLike[str], metadata: dict[str, str] | None = None) -> None:
    """Saves tensors as a safetensors file, or as an Espalier file if the name ends in .espalier.

    Complete or not at all, and on the disk when it returns. As with safetensors, a tensor that is not contiguous is a
    ValueError, and tensors that share memory are a RuntimeError.
    """
    _save.write(_checked(tensors, metadata), filename, metadata)


def save(tensors: Tensors, metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of the safetensors file."""
    return _save.to_bytes(_checked(tensors, metadata), metadata)


def load_file(filename: str | os.PathLike[str], device: Any = "cpu", *, backend: str = "mmap") -> Tensors:
    """All tensors of a file of either format, by their names. They are yours to change."""
    return _open.load_file(filename, "pt", device, backend)


def load(data: bytes) -> Tensors:
    """The same of the bytes of a file."""
    return _open.load_bytes(data, "pt")


def _duplicates(tensors: Tensors, preferred: set[str], unwanted: Collection[str] = ()) -> dict[str, str]:
    """For each name that is left out of a file, the name whose tensor stands for it."""
    kept_for: dict[str, str] = {}
    for group in map(sorted, _find_shared_tensors(tensors)):
        if len(group) == 1:
            continue
        whole = [name for name in group if _is_complete(tensors[name])]
        if not whole:
            raise SharedMemory(f"{group} share memory, and none of them has all of it; save clones of them")
        wanted = [name for name in whole if name not in unwanted] or whole
        kept = next((name for name in whole if name in preferred), wanted[0])
        kept_for.update({name: kept for name in group if name != kept})
    return kept_for


def storage_ptr(tensor: Any) -> int:
    """The address of the memory that the tensor is a view of; 0 without."""
    return int(tensor.untyped_storage().data_ptr())


def storage_size(tensor: Any) -> int:
    """The bytes of the memory that the tensor is a view of."""
    return int(tensor.untyped_storage().nbytes())


def _end_ptr(tensor: Any) -> int:
    """The address after the last element of the tensor."""
    if tensor.numel() == 0:
        return int(tensor.data_ptr())
    last = sum((length - 1) * step for length, step in zip(tensor.shape, tensor.stride(), strict=True))
    return int(tensor.data_ptr() + (last + 1) * tensor.element_size())


def _find_shared_tensors(state_dict: Tensors) -> list[set[str]]:
    """Sets of names whose tensors overlap in one storage, in the order of their first names; a tensor that shares none of its
    elements is a set of its own.

    Without tensors that have no memory: those of an empty storage, and those on the device "meta".
    """
    areas = []
    for name, tensor in state_dict.items():
        if tensor.device.type != "meta" and storage_ptr(tensor) and storage_size(tensor):
            storage = (str(tensor.device), storage_ptr(tensor), storage_size(tensor))
            areas.append((storage, tensor.data_ptr(), _end_ptr(tensor), name))
    groups: list[set[str]] = []
    before, end = None, 0
    for storage, begin, stop, name in sorted(areas):
        if storage == before and begin < min(end, stop):
            groups[-1].add(name)
            end = max(end, stop)
        elif begin == stop:
            groups.insert(0, {name})
        else:
            groups.append({name})
            before, end = storage, stop
    order = {name: number for number, name in enumerate(state_dict)}
    return sorted(groups, key=lambda names: min(order[name] for name in names))


def _is_complete(tensor: Any) -> bool:
    """Whether the tensor is all of its storage."""
    return bool(tensor.data_ptr() == storage_ptr(tensor) and tensor.numel() * tensor.element_size() == storage_size(tensor))


def _remove_duplicate_names(
    state_dict: Tensors, *, preferred_names: list[str] | None = None, discard_names: list[str] | None = None
) -> dict[str, list[str]]:
    """For each tensor to keep, the names to leave out, as their tensors share its memory.

    Kept is the first name by the alphabet of those in `preferred_names`, or of those not in `discard_names`, or of all,
    if its tensor is all of the memory. A tensor that is a part of its storage, without one that is all of it, is an error.
    """
    for group in _find_shared_tensors(state_dict):
        if not any(_is_complete(state_dict[name]) for name in group):
            raise SharedMemory(f"{sorted(group)}: none of these is all of its memory; clone what is a view")
    left_out: dict[str, list[str]] = {}
    for name, kept in _duplicates(state_dict, set(preferred_names or ()), set(discard_names or ())).items():
        left_out.setdefault(kept, []).append(name)
    return left_out


def save_model(
    model: Any, filename: str | os.PathLike[str], metadata: dict[str, str] | None = None, force_contiguous: bool = True
) -> None:
    """Saves a module's state dict. Of tensors that share memory, the first by name; metadata names the others."""
    tensors = dict(model.state_dict())
    described = dict(metadata or {})
    for name, kept in _duplicates(tensors, set()).items():
        described.setdefault(name, kept)
        del tensors[name]
    for name, tensor in tensors.items():
        if not force_contiguous and not tensor.is_contiguous():
            raise EspalierError(f"{name!r} is not contiguous; use save_model(..., force_contiguous=True)")
        tensors[name] = tensor.contiguous()
    save_file(tensors, filename, metadata if metadata is None and not described else described)


def load_model(
    model: Any, filename: str | os.PathLike[str], strict: bool = True, device: Any = "cpu", *, backend: str = "mmap"
) -> tuple[set[str], list[str]]:
    """Loads a file into a module. Returns the names that the file lacks, and those that the module lacks.

    With `strict`, these are a RuntimeError. Tensors of the module that share memory with one in the file are loaded
    with it.
    """
    tensors = load_file(filename, device, backend=backend)
    duplicates = _duplicates(dict(model.state_dict()), set(tensors))
    absent, more = model.load_state_dict(tensors, strict=False)
    missing, unexpected = set(absent), list(more)
    for name in duplicates:
        if name in missing:
            missing.remove(name)
        else:
            unexpected.append(name)
    if strict and (missing or unexpected):
        said = f"Error(s) in loading state_dict for {type(model).__name__}:"
        for what, names in (("Missing", missing), ("Unexpected", unexpected)):
            if names:  # in torch's words
                said += f"\n    {what} key(s) in state_dict: " + ", ".join(f'"{name}"' for name in sorted(names))
        raise RuntimeError(said)
    return missing, unexpected


__all__ = [
    "SharedMemory", "load", "load_file", "load_model", "safe_open", "save", "save_file", "save_model", "storage_ptr",
    "storage_size",
]  # fmt: skip
