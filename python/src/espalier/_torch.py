"""Values of PyTorch, which the program has imported, or asked for by name."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch

from ._errors import EspalierError, Unsupported
from ._frameworks import Leaf, Stored
from ._tree import DTYPE_NAMES, DTYPE_NUMBERS, PLACEHOLDER, STRING, TENSOR, TUPLE, Parts, TensorParts, public_name

_TORCH = {
    "bool": "bool", "i8": "int8", "u8": "uint8", "i16": "int16", "u16": "uint16", "i32": "int32", "u32": "uint32",
    "i64": "int64", "u64": "uint64", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    "c64": "complex64", "c128": "complex128", "f8_e4m3fn": "float8_e4m3fn", "f8_e5m2": "float8_e5m2",
    "f8_e4m3fnuz": "float8_e4m3fnuz", "f8_e5m2fnuz": "float8_e5m2fnuz", "f8_e8m0fnu": "float8_e8m0fnu",
}  # fmt: skip
# Two elements in an item.
_PAIRS = "float4_e2m1fn_x2"

_PARAMETER = "torch.nn.Parameter"
_FROZEN = "torch.nn.Parameter[frozen]"
_TRACKED = "torch.Tensor[requires_grad]"


@functools.cache
def by_dtype() -> dict[Any, int]:
    """The numbers of torch's dtypes. This version of torch may lack some."""
    found = {getattr(torch, name): DTYPE_NUMBERS[dtype] for dtype, name in _TORCH.items() if hasattr(torch, name)}
    if hasattr(torch, _PAIRS):
        found[getattr(torch, _PAIRS)] = DTYPE_NUMBERS["f4_e2m1fn"]
    return found


def plain_dtypes() -> dict[Any, int]:
    """Those of by_dtype() whose elements lie in memory as in a file, whatever a tensor says: no complex ones, which may be
    conjugates."""
    return {dtype: number for dtype, number in by_dtype().items() if not dtype.is_complex and not _is_pairs(dtype)}


@functools.cache
def by_number() -> list[Any]:
    """The same by number; None where torch has no such dtype, or has pairs."""
    found: list[Any] = [None] * len(DTYPE_NAMES)
    for dtype, number in by_dtype().items():
        if dtype is not getattr(torch, _PAIRS, None):
            found[number] = dtype
    return found


def _is_pairs(dtype: Any) -> bool:
    return dtype is getattr(torch, _PAIRS, None)


def _label(value: Any) -> str | None:
    if type(value) is torch.nn.Parameter:
        return _PARAMETER if value.requires_grad else _FROZEN
    return _TRACKED if value.requires_grad else None


def check(value: Any) -> None:
    """That a tensor is one of elements in memory, and no more."""
    cls = type(value)
    is_plain = cls is torch.Tensor or cls is torch.nn.Parameter
    if isinstance(value, torch.nn.parameter.UninitializedTensorMixin):
        raise Unsupported(f"a {cls.__name__}, which has no shape yet; run the module once first")
    if not is_plain and hasattr(value, "full_tensor"):
        raise Unsupported(
            f"a {cls.__name__}, of which each process has a part; save with espalier.Checkpointer(folder, distributed=True), or its "
            "full_tensor()"
        )
    if value.is_nested:
        raise Unsupported("a nested tensor; save unbind() of it, a tuple of tensors")
    if value.layout is not torch.strided:
        raise Unsupported("a sparse tensor; save to_dense() of it, or its indices and values")
    if value.is_quantized:
        raise Unsupported("a quantised tensor; save its int_repr(), q_scale() and q_zero_point()")
    if not is_plain:
        raise Unsupported(
            f"a {public_name(cls)}, a subclass of torch.Tensor; save what it is made of, or register the class with "
            "espalier.register()"
        )
    if hasattr(value, "has_names") and value.has_names():  # torch had them until 2.14
        raise Unsupported("a tensor with named axes; save rename(None) of it in an espalier.AxisNamed")
    if value.dtype not in by_dtype():
        raise Unsupported(f"a tensor of {value.dtype}, which the format has no elements for; convert it with to()")


def shape_of(value: Any) -> tuple[int, ...]:
    shape = tuple(value.shape)
    if not _is_pairs(value.dtype):
        return shape
    if not shape:
        raise Unsupported(f"a tensor of {value.dtype} without axes")
    return (*shape[:-1], 2 * shape[-1])


def check_storage(value: Any) -> None:
    """That the storage has all elements: FSDP frees it with resize_(0) and keeps the tensor."""
    if value.numel() == 0:
        return
    last = value.storage_offset() + sum((n - 1) * stride for n, stride in zip(value.shape, value.stride(), strict=True))
    if (last + 1) * value.element_size() > value.untyped_storage().nbytes():
        raise Unsupported("a tensor whose storage was freed or cut with resize_(), as FSDP does; gather it first")


def _tensor(value: Any) -> Parts:
    check(value)
    label, number, shape = _label(value), by_dtype()[value.dtype], shape_of(value)
    if value.is_meta:
        return PLACEHOLDER, label, TensorParts(number, shape)
    tie = None
    try:
        value.data_ptr()
    except RuntimeError:
        raise Unsupported("a tensor inside of a transformation such as vmap, which has no elements of its own") from None
    check_storage(value)
    with torch.no_grad():
        data = value.detach().resolve_conj().resolve_neg()
        is_private = data.data_ptr() != value.data_ptr()
        if not data.is_cpu or not data.is_contiguous():
            # A tie has no address of its own in what is saved.
            tie = (str(value.device), value.data_ptr(), value.dtype, shape, value.stride(), value.is_conj(), value.is_neg())
            data = data.cpu().contiguous()
            is_private = True
    nbytes = data.numel() * data.element_size()
    address = data.data_ptr() if nbytes else 0
    return TENSOR, label, TensorParts(number, shape, data, (), None, is_private, tie, address, nbytes)


def encode(value: Any) -> Parts | None:
    if isinstance(value, torch.Tensor):
        return _tensor(value)
    if type(value) is torch.Size:
        return TUPLE, "torch.Size", list(value)
    if isinstance(value, torch.dtype):
        return STRING, "torch.dtype", str(value)
    if isinstance(value, torch.device):
        return STRING, "torch.device", str(value)
    if isinstance(value, torch.Generator):
        raise Unsupported("a torch.Generator; save its get_state()")
    if isinstance(value, (torch.UntypedStorage, torch.TypedStorage)):
        raise Unsupported("a storage; save a tensor of it")
    return None


def decode(kind: int, label: str, content: Any) -> Any:
    if kind == TUPLE and label == "torch.Size":
        is_size = all(type(each) is int and 0 <= each < 2**63 for each in content)
        return torch.Size(content) if is_size else NotImplemented
    if kind == STRING and label == "torch.dtype":
        # Not getattr(), which imports modules.
        dtype = vars(torch).get(content.removeprefix("torch."))
        return dtype if isinstance(dtype, torch.dtype) else content
    if kind == STRING and label == "torch.device":
        try:
            return torch.device(content)
        except RuntimeError:
            return content
    return NotImplemented


def tensor(array: Any, label: str | None, axis_names: tuple[str, ...] = ()) -> Any:
    if label in (_PARAMETER, _FROZEN):
        # Integers have no gradients, so no program made that label.
        if label == _FROZEN or array.is_floating_point() or array.is_complex():
            return torch.nn.Parameter(array, requires_grad=label == _PARAMETER)
    elif label == _TRACKED and (array.is_floating_point() or array.is_complex()):
        array.requires_grad_()
    return array


def pairs(array: Any, shape: tuple[int, ...]) -> Any:
    """A tensor of two elements of four bits in each item, of their bytes; None if torch has none."""
    if not hasattr(torch, _PAIRS) or not shape or shape[-1] % 2:
        return None
    data = torch.from_numpy(array.copy()).reshape(*shape[:-1], shape[-1] // 2)
    return data.view(getattr(torch, _PAIRS))


def dtype_name(dtype: Any) -> str | None:
    number = by_dtype().get(dtype) if isinstance(dtype, torch.dtype) else None
    return None if number is None else DTYPE_NAMES[number]


def moving(device: Any, dtype: str | None) -> Callable[[Any], Any]:
    target = None if dtype is None else by_number()[DTYPE_NUMBERS[dtype]]
    if dtype is not None and target is None:
        raise EspalierError(f"torch has no dtype for {dtype}")
    try:
        where = None if device is None else torch.empty(0, device=device).device
    except (RuntimeError, TypeError, AssertionError) as error:  # torch asserts that it was built with CUDA
        raise EspalierError(f"torch has no device {device!r}: {error}") from error

    def moved(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        data = value.detach()
        to = target if data.is_floating_point() and not _is_pairs(data.dtype) else None
        data = data.to(device=None if value.is_meta else where, dtype=to)
        return tensor(data, _label(value))

    return moved


def sharded(stored: Stored, sharding: Any) -> Any:
    raise TypeError("torch has no tensors over several devices; torch.distributed.tensor has")


def placeholder(dtype: str, shape: tuple[int, ...]) -> Any:
    known = by_number()[DTYPE_NUMBERS[dtype]]
    if known is None and dtype == "f4_e2m1fn" and hasattr(torch, _PAIRS) and shape and shape[-1] % 2 == 0:
        known, shape = getattr(torch, _PAIRS), (*shape[:-1], shape[-1] // 2)
    if known is None:
        return NotImplemented
    try:
        return torch.empty(shape, dtype=known, device="meta")
    except (RuntimeError, TypeError):  # a shape that no tensor can have
        return NotImplemented


def _is_dtensor(value: Any) -> bool:
    module = sys.modules.get("torch.distributed.tensor")  # Without it, there are none.
    return module is not None and isinstance(value, module.DTensor)


def local_part(value: torch.Tensor) -> torch.Tensor:
    """The part of a DTensor that this process has; another tensor itself."""
    if not _is_dtensor(value):
        return value
    dtensor: Any = value
    if any(each.is_partial() for each in dtensor.placements):
        raise Unsupported("a DTensor of partial sums; redistribute() it first, to Shard or Replicate")
    part: torch.Tensor = dtensor.detach().to_local()
    return part


def _dtensor_leaf(template: Any) -> Leaf:
    """A DTensor is made of this process's part, and the rest is not read."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    check(local_part(template))
    mesh, placements, shape, strides = template.device_mesh, template.placements, template.shape, template.stride()
    is_pairs, parts = _is_pairs(template.dtype), template.__create_chunk_list__()

    def read(stored: Stored) -> Any:
        [part] = parts
        index = [slice(start, start + size) for start, size in zip(part.offsets, part.sizes, strict=True)]
        if is_pairs:
            index[-1] = slice(2 * index[-1].start, 2 * index[-1].stop)
        local = stored.sliced(tuple(index), "torch").to(mesh.device_type)
        return DTensor.from_local(local, mesh, placements, run_check=False, shape=shape, stride=strides)

    def convert(whole: Any) -> Any:
        return distribute_tensor(whole.to(mesh.device_type), mesh, placements, src_data_rank=None)

    kind = ("DTensor", mesh, placements, strides)
    return Leaf(DTYPE_NAMES[by_dtype()[template.dtype]], shape_of(template), (), None, "torch", convert, kind, read)


def leaf(template: Any) -> Leaf | None:
    if not isinstance(template, torch.Tensor):
        return None
    if _is_dtensor(template):
        return _dtensor_leaf(template)
    check(template)
    return _leaf(template.dtype, shape_of(template), _label(template), template.device)


@functools.lru_cache(512)  # A state has many tensors of few shapes.
def _leaf(dtype: Any, shape: tuple[int, ...], label: str | None, device: Any) -> Leaf:
    is_elsewhere = device.type not in ("cpu", "meta")

    def convert(array: Any) -> Any:
        if not isinstance(array, torch.Tensor):  # a labelled one, such as a scalar of numpy
            import numpy as np

            array = torch.from_numpy(np.array(array))
        if is_elsewhere:
            array = array.to(device, non_blocking=True)
        if label is None and not array.requires_grad and type(array) is torch.Tensor:
            return array
        return tensor(array.detach(), label)

    return Leaf(DTYPE_NAMES[by_dtype()[dtype]], shape, (), None, "torch", convert, (label, device))


def cast(found: str, wanted: str) -> Callable[[Any], Any] | None:
    source, target = (by_number()[DTYPE_NUMBERS[name]] for name in (found, wanted))
    return None if source is None or target is None else lambda array: array.to(target)


def rebuild(template: Any, content: Any) -> Any:
    return torch.Size(content) if type(template) is torch.Size else NotImplemented
