"""Makes the files beside this script with the public safetensors package.

    pip install safetensors==0.8.0 numpy ml_dtypes
    python make_files.py

Files have at most one pair of metadata, except those whose name says so: the package shuffles several
pairs, so making those anew changes their bytes.
"""

import pathlib

import ml_dtypes
import numpy as np
from safetensors import TensorSpec, serialize
from safetensors.numpy import save

HERE = pathlib.Path(__file__).parent


def write(name, data):
    (HERE / f"{name}.safetensors").write_bytes(data)


def pattern(count, start=0):
    """`count` bytes that differ from their neighbours."""
    return (np.arange(start, start + count) * 37 % 251).astype(np.uint8)


def every_dtype():
    """One tensor of each dtype that the package writes, in an order that is not the file's."""
    names = [
        "bool", "uint8", "int8", "float8_e5m2", "float8_e4m3fn", "float8_e8m0fnu",
        "float8_e4m3fnuz", "float8_e5m2fnuz", "int16", "uint16", "float16", "bfloat16",
        "int32", "uint32", "float32", "complex64", "float64", "int64", "uint64",
    ]  # fmt: skip
    widths = [1] * 8 + [2] * 4 + [4] * 3 + [8] * 4
    keep, specs = [], {}
    for i, (name, width) in enumerate(zip(names, widths)):
        data = pattern(6 * width, i) if name != "bool" else pattern(6) % 2
        keep.append(data)
        specs[f"t.{name}"] = TensorSpec(
            dtype=name, shape=[2, 3], data_ptr=data.ctypes.data, data_len=data.nbytes
        )
    # The package doubles the last axis of this one: it counts pairs.
    data = pattern(6)
    specs["t.float4"] = TensorSpec(
        dtype="float4_e2m1fn_x2", shape=[2, 3], data_ptr=data.ctypes.data, data_len=6
    )
    return serialize(specs)


def model(layers):
    rng = np.random.default_rng(7)
    tensors = {"embed.weight": rng.standard_normal((16, 8)).astype(np.float32)}
    for i in range(layers):
        base = f"layers.{i}"
        tensors[f"{base}.attn.q.weight"] = rng.standard_normal((8, 8)).astype(ml_dtypes.bfloat16)
        tensors[f"{base}.attn.q.bias"] = rng.standard_normal(8).astype(np.float32)
        tensors[f"{base}.mlp.weight"] = rng.standard_normal((8, 4)).astype(np.float16)
        tensors[f"{base}.steps"] = np.array(i, np.int64)
    tensors["big"] = np.resize(pattern(251), (3, 9000)).astype(np.uint8)
    return tensors


write("dtypes", every_dtype())
write("empty", save({}))
write("empty_metadata", save({"a": np.zeros(2, np.float32)}, metadata={}))
write("metadata_only", save({}, metadata={"format": "pt"}))
write("metadata_many", save({"a": np.ones(1, np.int8)}, metadata={f"key {i}": f"v\n{i}" for i in range(12)}))
write(
    "shapes",
    save(
        {
            "scalar": np.array(1.5, np.float64),
            "empty": np.zeros((0,), np.float32),
            "empty_in_the_middle": np.zeros((3, 0, 2), np.float32),
            "one": np.ones((1, 1, 1, 1), np.int8),
            "also.empty": np.zeros((0, 7), np.float64),
            "vector": np.arange(5, dtype=np.uint16),
        }
    ),
)
write(
    "names",
    save(
        {
            name: np.array([i], np.uint32)
            for i, name in enumerate(
                [
                    "", ".", "a..b", "a/b", "~0", "0", "-1", 'quote"back\\slash', "\b\f\n\r\t",
                    "\x00\x01\x1f\x7f", "é", "e\u0301", "日本語", "😀", "\u2028", " ", "../etc",
                    "\ufeff", "\ue000", "__metadata", "espalier.tree",
                ]  # fmt: skip
            )
        },
        metadata={'k"é\n': "😀\\"},
    ),
)
write("model", save(model(12), metadata={"format": "pt"}))
