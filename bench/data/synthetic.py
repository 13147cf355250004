#!/usr/bin/env python3
"""Writes made-up weights: Gaussian, in rows of 4096 whose scales are log-normal. Seeded.

One tensor with `--bytes` bytes, of type `random` of random bits; or, with `--state`, a training state: the
weights of a language model as bf16, Adam's moments of them as f32, a step and the bytes of a random
generator. bench/peers.py runs it in the peers' environment; it needs numpy and safetensors.
"""

import argparse
import pathlib

import numpy
from safetensors import TensorSpec, serialize_file

ROW, SPREAD, TYPICAL = 4096, 0.3, 0.02
LAYER = {"attention/qkv": 3, "attention/out": 1, "mlp/up": 4, "mlp/down": 4}  # shares of a layer's rows


def gaussian(generator, rows):
    scales = TYPICAL * numpy.exp(SPREAD * generator.standard_normal((rows, 1), dtype=numpy.float32))
    return generator.standard_normal((rows, ROW), dtype=numpy.float32) * scales


def bf16(values):
    """The upper halves of f32 values, rounded to the nearest, ties to even."""
    bits = values.view(numpy.uint32)
    bits = bits + (0x7FFF + ((bits >> 16) & 1)).astype(numpy.uint32)
    return (bits >> 16).astype(numpy.uint16)


def f32_of_bf16(values):
    return (bf16(values).astype(numpy.uint32) << 16).view(numpy.float32)


CASTS = {"bf16": ("bfloat16", 2, bf16), "f16": ("float16", 2, lambda v: v.astype(numpy.float16)),
         "f32": ("float32", 4, lambda v: v), "f32-of-bf16": ("float32", 4, f32_of_bf16),
         "random": ("float32", 4, None)}


def filled(generator, rows, name):
    """Rows of a type, made a few at a time."""
    _, _, cast = CASTS[name]
    if cast is None:
        return generator.integers(0, 1 << 32, (rows, ROW), numpy.uint32)
    return numpy.concatenate([cast(gaussian(generator, min(1024, rows - r))) for r in range(0, rows, 1024)])


def state(generator, size):
    layers = 4
    rows = size // (10 * ROW * layers * sum(LAYER.values()))  # ten bytes for each parameter
    tensors = {}
    for layer in range(layers):
        for name, share in LAYER.items():
            path = f"layers.{layer}.{name.replace('/', '.')}"
            tensors[f"model.{path}.weight"] = "bfloat16", filled(generator, rows * share, "bf16")
            tensors[f"optimizer.{path}.exp_avg"] = "float32", filled(generator, rows * share, "f32")
            squares = numpy.square(filled(generator, rows * share, "f32"))
            tensors[f"optimizer.{path}.exp_avg_sq"] = "float32", squares
    tensors["step"] = "int64", numpy.array(12_000)
    tensors["random"] = "uint8", generator.integers(0, 256, 5056, numpy.uint8)
    return tensors


def write(file, tensors):
    """`tensors`: by name, a type and an array of as wide elements."""
    serialize_file({name: TensorSpec(dtype=dtype, shape=array.shape, data_ptr=array.ctypes.data, data_len=array.nbytes)
                    for name, (dtype, array) in tensors.items()}, str(file))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--bytes", type=int, required=True)
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--dtype", choices=CASTS)
    chosen.add_argument("--state", action="store_true")
    options = parser.parse_args()
    generator = numpy.random.default_rng(20_240)
    if options.state:
        tensors = state(generator, options.bytes)
    else:
        dtype, width, _ = CASTS[options.dtype]
        tensors = {"weight": (dtype, filled(generator, options.bytes // (ROW * width), options.dtype))}
    write(options.file, tensors)


if __name__ == "__main__":
    main()
