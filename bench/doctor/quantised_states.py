"""Weights in fewer bits, as quantisers store them: integers with scales, packed integers, f8 with scales, and floats that hold few values."""

import numpy as np

from catalog import number_of, state
from state_file import Tensor

LAYERS, ROWS, COLUMNS, GROUP = 8, 128, 256, 32


def quantised(name, make):
    def all_layers():
        chance = np.random.default_rng(number_of(name))
        result = {}
        for layer in range(LAYERS):
            weight = (chance.standard_normal((ROWS, COLUMNS)) * 0.02).astype("f4")
            for key, value in make(chance, weight).items():
                result[f"model.layers.{layer}.proj.{key}"] = value
            result[f"model.layers.{layer}.norm.weight"] = np.ones(COLUMNS, "f2")
        return result
    state("quantised", name)(all_layers)


def groups(weight, largest):
    """Integers up to `largest`, and the scale of each group."""
    parts = weight.reshape(-1, GROUP)
    scale = np.abs(parts).max(1, keepdims=True) / largest
    return np.round(parts / scale), scale


def packed(chance, rows, columns):
    return chance.integers(-2**31, 2**31, (rows, columns)).astype("i4")


def int8(chance, weight):
    numbers, scale = groups(weight, 127)
    return {"weight": numbers.astype("i1").reshape(weight.shape), "scale": scale.reshape(ROWS, -1).astype("f2")}


def int8_by_row(chance, weight):
    scale = np.abs(weight).max(1, keepdims=True) / 127
    return {"weight": np.round(weight / scale).astype("i1"), "SCB": (scale[:, 0] * 127).astype("f4")}


def awq(chance, weight):
    return {"qweight": packed(chance, COLUMNS, ROWS // 8), "qzeros": packed(chance, COLUMNS // GROUP, ROWS // 8),
            "scales": (np.abs(weight.reshape(-1, GROUP)).max(1) / 7).reshape(COLUMNS // GROUP, ROWS).astype("f2")}


def gptq(chance, weight):
    zeros = np.full((COLUMNS // GROUP, ROWS // 8), 0x77777777, "i4")
    return {"qweight": packed(chance, COLUMNS // 8, ROWS), "qzeros": zeros, "g_idx": (np.arange(COLUMNS) // GROUP).astype("i4"),
            "scales": (np.abs(weight.reshape(-1, GROUP)).max(1) / 7).reshape(COLUMNS // GROUP, ROWS).astype("f2")}


def nf4(chance, weight):
    return {"weight": chance.integers(0, 256, (ROWS * COLUMNS // 2, 1)).astype("u1"), "weight.absmax": np.abs(weight.reshape(-1, 64)).max(1),
            "weight.quant_map": np.sort(np.tanh(np.linspace(-1.5, 1.5, 16))).astype("f4")}


def blocks(chance, weight):
    return {"weight": chance.integers(0, 256, (ROWS, COLUMNS // 32 * 18)).astype("u1")}


def dequantised(chance, weight):
    numbers, scale = groups(weight, 7)
    return {"weight": (numbers * scale).reshape(weight.shape).astype("f4")}


def dequantised_half(chance, weight):
    return {"weight": dequantised(chance, weight)["weight"].astype("f2")}


def ternary(chance, weight):
    return {"weight": np.clip(np.round(weight / np.abs(weight).mean()), -1, 1).astype("f4"), "scale": np.float32(np.abs(weight).mean())}


def ternary_scaled(chance, weight):
    return {"weight": (np.clip(np.round(weight / np.abs(weight).mean()), -1, 1) * np.abs(weight).mean()).astype("f4")}


def bf16_in_f32(chance, weight):
    return {"weight": (weight.view("u4") & 0xFFFF0000).view("f4")}


def f16_in_f32(chance, weight):
    return {"weight": weight.astype("f2").astype("f4")}


def binary(chance, weight):
    return {"weight": np.sign(weight), "alpha": np.abs(weight).mean(1)}


def codebook(chance, weight):
    return {"codes": chance.integers(0, 256, (ROWS, COLUMNS // 8)).astype("u1"), "codebook": (chance.standard_normal((256, 8)) * 0.02).astype("f4"),
            "scales": np.abs(weight).mean(1, keepdims=True)}


for key, maker in {"int8": int8, "int8 by row": int8_by_row, "awq": awq, "gptq": gptq, "nf4": nf4, "q4_0 blocks": blocks, "dequantised": dequantised,
                   "dequantised in f16": dequantised_half, "ternary": ternary, "ternary, scaled": ternary_scaled, "bf16 in f32": bf16_in_f32,
                   "f16 in f32": f16_in_f32, "binary": binary, "codebook": codebook}.items():
    quantised(key, maker)


def f8(name, dtype, largest, block):
    """f8 with a scale for the tensor, or for each block of 64 × 64. The elements of E4M3 and E5M2 are made from f16."""
    def make():
        chance = np.random.default_rng(number_of(name))
        tensors = []
        for layer in range(LAYERS):
            weight = chance.standard_normal((ROWS, COLUMNS)) * 0.02
            parts = weight.reshape(ROWS // 64, 64, COLUMNS // 64, 64)
            amax = np.abs(parts).max((1, 3)) if block else np.abs(weight).max()
            scale = amax / largest
            scaled = (parts / scale[:, None, :, None]).reshape(weight.shape) if block else weight / scale
            tensors.append(Tensor(f"layers.{layer}.weight", dtype, weight.shape, to_f8(scaled, dtype)))
            shape = scale.shape if block else (1,)
            tensors.append(Tensor(f"layers.{layer}.weight_scale_inv", "F32", shape, np.asarray(scale, "f4").tobytes()))
        return tensors
    state("quantised", name)(make)


def to_f8(values, dtype):
    """The nearest element of all that the dtype has."""
    exponents, mantissas, bias = (16, 8, 7) if dtype == "F8_E4M3" else (31, 4, 15)
    codes = np.arange(exponents * mantissas - (dtype == "F8_E4M3"))
    exponent, mantissa = np.divmod(codes, mantissas)
    magnitude = np.where(exponent > 0, 2.0 ** (exponent - bias) * (1 + mantissa / mantissas), 2.0 ** (1 - bias) * mantissa / mantissas)
    middles = (magnitude[1:] + magnitude[:-1]) / 2
    found = np.searchsorted(middles, np.abs(values)).astype("u1")
    return (found | np.where(values < 0, 0x80, 0).astype("u1")).tobytes()


f8("f8_e4m3 with a scale", "F8_E4M3", 448, False)
f8("f8_e4m3 with scales of blocks", "F8_E4M3", 448, True)
f8("f8_e5m2 with a scale", "F8_E5M2", 57344, False)
