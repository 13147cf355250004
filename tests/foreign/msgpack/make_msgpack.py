#!/usr/bin/env python3
"""Makes the .msgpack files beside it with flax, and what flax reads from them in expected.json.

Usage: make_msgpack.py. Needs flax and jax from PyPI; the test of these files needs neither.
"""

import hashlib
import json
import pathlib

import flax.linen as nn
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
from flax import serialization
from flax.training import train_state

HERE = pathlib.Path(__file__).resolve().parent
KINDS = {dict: "dict", str: "string", bytes: "bytes", complex: "complex128", int: "int", float: "float64"}


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.Dense(12)(x)
        x = nn.BatchNorm(use_running_average=True)(x)
        return nn.Dense(3, dtype=jnp.bfloat16, param_dtype=jnp.bfloat16)(nn.relu(x))


def train():
    net = Net()
    variables = net.init(jax.random.PRNGKey(0), jnp.ones((2, 5)))
    state = train_state.TrainState.create(apply_fn=net.apply, params=variables["params"], tx=optax.adamw(1e-3))
    grads = jax.tree_util.tree_map(jnp.ones_like, state.params)
    return state.apply_gradients(grads=grads)


def odd():
    numbers = np.arange(24).reshape(2, 3, 4)
    names = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 complex64 complex128".split()
    return {
        "dtypes": {name: numbers.astype(name) for name in names},
        "small": {name: numbers.astype(getattr(ml_dtypes, name)) for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2")},
        "scalars": {"f32": np.float32(1.5), "i64": np.int64(-3), "bf16": ml_dtypes.bfloat16(2.5), "bool": np.bool_(True)},
        "python": {"nothing": None, "yes": True, "no": False, "int": -(2**63), "uint": 2**64 - 1, "real": 0.1,
                   "complex": 1.5 - 2j, "text": "né", "bytes": b"\0\xff", "empty": {}, "": "no name"},
        "list": [1, {"a": np.ones(2)}, [np.zeros((), "f4")]],
        "fortran": np.asfortranarray(numbers[0]), "empty": np.zeros((0, 3)), "zero-d": np.array(7),
        "times": np.array(["2024-01-01", "2025-02-03"], "M8[D]"), "time": np.array("2024-01-01", "M8[D]"),
        "many": {f"k{i}": i for i in range(40)},
    }  # fmt: skip


def chunked():
    # Whole chunks of 1 MiB would make a large file, so the test makes one for itself; these cannot be joined.
    serialization.MAX_CHUNK_SIZE = 64
    return {"w": np.arange(100, dtype="i4").reshape(4, 25), "b": np.ones(2, "f4")}


def describe(value):
    if isinstance(value, dict):
        return {"kind": "dict", "children": {key: describe(child) for key, child in value.items()}}
    if isinstance(value, list):
        return {"kind": "list", "children": [describe(child) for child in value]}
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        return {"kind": "tensor", "dtype": array.dtype.name, "shape": list(array.shape),
                "scalar": isinstance(value, np.generic), "sha256": hashlib.sha256(array.tobytes()).hexdigest()}  # fmt: skip
    if value is None:
        return {"kind": "null"}
    if isinstance(value, bool):
        return {"kind": "bool", "value": value}
    shown = value.hex() if isinstance(value, bytes) else repr(value) if isinstance(value, (complex, float, int)) else value
    return {"kind": KINDS[type(value)], "value": shown}


def main():
    serialization.MAX_CHUNK_SIZE = 2**30
    expected = {}
    for name, make in (("train", train), ("odd", odd), ("chunked", chunked)):
        content = serialization.to_bytes(make())
        (HERE / f"{name}.msgpack").write_bytes(content)
        import msgpack

        if name == "chunked":  # As it is in the file: flax joins the chunks.
            value = msgpack.unpackb(content, ext_hook=serialization._msgpack_ext_unpack, raw=False)
        else:
            value = serialization.msgpack_restore(content)
        expected[name] = describe(value)
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
