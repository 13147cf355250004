"""The states that the doctor examines: lists of tensors, and their files in the form of safetensors. Needs NumPy alone."""

import json
import math
import struct
from typing import NamedTuple

import numpy as np

BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
NUMPY = {"F64": "f8", "F32": "f4", "F16": "f2", "I64": "i8", "I32": "i4", "I16": "i2", "I8": "i1", "U8": "u1", "BOOL": "?"}
OF_NUMPY = {np.dtype(kind): name for name, kind in NUMPY.items()}
FLOATS = ("F32", "F16", "BF16")


class Tensor(NamedTuple):
    name: str
    dtype: str
    shape: tuple
    data: bytes

    @property
    def elements(self):
        return math.prod(self.shape)


def encode(values, dtype):
    """The bytes of an array of f32 in one of FLOATS; f16 ends at its largest number."""
    values = np.ascontiguousarray(values, "f4")
    if dtype == "F32":
        return values.tobytes()
    if dtype == "F16":
        infinite = ~np.isfinite(values)
        return np.where(infinite, values, np.clip(values, -65504, 65504)).astype("f2").tobytes()
    bits = values.view("u4").astype("u8")
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("u2")
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded).tobytes()


def decode(tensor):
    """The elements of a tensor of FLOATS, as f32, in memory of their own."""
    if tensor.dtype == "BF16":
        return (np.frombuffer(tensor.data, "u2").astype("u4") << 16).view("f4").reshape(tensor.shape)
    return np.frombuffer(tensor.data, NUMPY[tensor.dtype]).astype("f4").reshape(tensor.shape)


def from_numpy(name, array):
    array = np.asarray(array)
    return Tensor(name, OF_NUMPY[array.dtype], array.shape, np.ascontiguousarray(array).tobytes())


def leaves(tree, path=""):
    """The tensors of nested dicts and lists of arrays, of NumPy, of PyTorch, and of what NumPy converts; others are left out."""
    if isinstance(tree, dict):
        children = tree.items()
    elif isinstance(tree, (list, tuple)):
        children = enumerate(tree)
    else:
        tensor = leaf(path, tree)
        return [tensor] if tensor is not None and tensor.elements else []
    return [tensor for key, child in children for tensor in leaves(child, f"{path}/{key}" if path else str(key))]


def leaf(path, value):
    if type(value).__module__.startswith("torch"):
        import torch
        if not isinstance(value, torch.Tensor):
            return None
        value = value.detach().cpu().contiguous()
        names = {"bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2"}
        dtype = names.get(str(value.dtype).removeprefix("torch."))
        if dtype:
            return Tensor(path, dtype, tuple(value.shape), value.reshape(-1).view(torch.uint8).numpy().tobytes())
        return from_numpy(path, value.numpy()) if not value.is_complex() else None
    if isinstance(value, float):
        return from_numpy(path, np.float32(value))
    if isinstance(value, (str, bytes, int, type(None))) or not hasattr(value, "shape"):
        return None
    array = np.asarray(value)
    if str(array.dtype) == "bfloat16":
        return Tensor(path, "BF16", array.shape, np.ascontiguousarray(array).tobytes())
    if array.dtype.kind == "u" and array.dtype != np.uint8:
        array = array.astype("i8")
    return from_numpy(path, array) if array.dtype in OF_NUMPY else None


def cast(tensors, dtype):
    """The same state with its f32 tensors in another dtype of FLOATS."""
    return [tensor if tensor.dtype != "F32" else Tensor(tensor.name, dtype, tensor.shape, encode(decode(tensor), dtype))
            for tensor in tensors]


def write(path, tensors, names=None):
    """Writes a state, under other names if they are given."""
    header, offset = {}, 0
    for name, tensor in zip(names or [tensor.name for tensor in tensors], tensors):
        header[name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": [offset, offset + len(tensor.data)]}
        offset += len(tensor.data)
    if len(header) != len(tensors):
        raise ValueError("two tensors have one name")
    text = json.dumps(header, ensure_ascii=False).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors:
            file.write(tensor.data)


def read(path):
    """The state in a file of this form."""
    with open(path, "rb") as file:
        content = file.read()
    end = 8 + struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:end])
    header.pop("__metadata__", None)
    return [Tensor(name, entry["dtype"], tuple(entry["shape"]), content[end + entry["data_offsets"][0]:end + entry["data_offsets"][1]])
            for name, entry in header.items()]
