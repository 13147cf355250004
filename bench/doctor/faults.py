"""Faults that are planted in one tensor of a state: what interrupted writes, wrong offsets, bad kernels and wrong scripts leave.

PLANTS has, by fault and magnitude, a function of a Site that returns the tensors to put in the place of some others. Needs NumPy alone.
"""

from typing import Callable, NamedTuple

import numpy as np

from state_file import BYTES, FLOATS, Tensor, decode, encode

KIB = 1024
FEW = 64  # elements: a stretch that is moved by less is nearly what it was


class Site(NamedTuple):
    """Where a fault is planted: the tensor, another one like it, and a source of chance."""
    target: Tensor
    other: Tensor
    chance: np.random.Generator

    def values(self):
        return decode(self.target)

    def with_values(self, values):
        return {self.target.name: self.target._replace(shape=values.shape, data=encode(values, self.target.dtype))}

    def with_bytes(self, data):
        return {self.target.name: self.target._replace(data=bytes(data))}

    def count(self, size):
        """Elements of so many bytes, at most half of the tensor."""
        return min(size // BYTES[self.target.dtype], self.target.elements // 2)

    def place(self, length):
        """The first of so many elements, not the beginning of the tensor."""
        return int(self.chance.integers(1, self.target.elements - length))


Plant = Callable[[Site], dict]


def matrix(values):
    """A view of it with rows and columns: the last axis has the columns, but the rows of a convolution are its filters."""
    is_convolution = sum(axis > 1 for axis in values.shape) > 2 and values.shape[-1] < 16
    return values.reshape(values.shape[0], -1) if is_convolution else values.reshape(-1, values.shape[-1])


def changed(change):
    """A fault of the elements: `change` alters an array, or returns another one."""
    def plant(site):
        values = site.values()
        result = change(values, site)
        return site.with_values(values if result is None else np.asarray(result, "f4"))
    return plant


def scaled(factor):
    return changed(lambda values, site: values * np.float32(factor))


def loud(factor, axis, share=0.0):
    def change(values, site):
        lines = matrix(values) if axis == 0 else matrix(values).T
        chosen = site.chance.choice(len(lines), max(1, int(share * len(lines))), replace=False)
        lines[chosen] *= np.float32(factor)
    return changed(change)


def zero_run(size):
    def change(values, site):
        length = site.count(size)
        begin = site.place(length)
        begin += begin % matrix(values).shape[1] == 0
        values.reshape(-1)[begin:begin + length] = 0
    return changed(change)


def zero_tail(share, into_row):
    def change(values, site):
        columns = matrix(values).shape[1]
        begin = int(values.size * (1 - share)) // columns * columns
        values.reshape(-1)[begin + (columns // 3 if into_row else 0):] = 0
    return changed(change)


def stretch(size, of_other):
    def change(values, site):
        source = (decode(site.other) if of_other else values.copy()).reshape(-1)
        length = min(site.count(size), source.size // 2)
        begin = taken_from = site.place(length)
        while abs(begin - taken_from) < FEW:
            taken_from = int(site.chance.integers(0, source.size - length))
        values.reshape(-1)[begin:begin + length] = source[taken_from:taken_from + length]
    return changed(change)


def same_rows(least, share):
    def change(values, site):
        rows = matrix(values)
        length = max(least, int(share * len(rows)))
        begin = int(site.chance.integers(0, len(rows) - length))
        rows[begin:begin + length] = rows[begin]
    return changed(change)


def levels(count):
    def change(values, site):
        middles = np.quantile(values, (np.arange(count) + 0.5) / count)
        return middles[np.clip(np.searchsorted(middles, values), 0, count - 1)]
    return changed(change)


def of_rank(rank):
    def change(values, site):
        u, s, v = np.linalg.svd(matrix(values), full_matrices=False)
        low = (u[:, :rank] * s[:rank]) @ v[:rank]
        return (low * np.sqrt(np.mean(values**2) / np.mean(low**2))).reshape(values.shape)
    return changed(change)


def one_element(value=None, factor=None):
    def change(values, site):
        flat = values.reshape(-1)
        at = site.place(1)
        flat[at] = value if factor is None else factor * np.sqrt(np.mean(flat**2))
    return changed(change)


def dead(axis, count):
    def change(values, site):
        lines = matrix(values) if axis == 0 else matrix(values).T
        lines[site.chance.choice(len(lines) - 1, count, replace=False)] = 0
    return changed(change)


def sparse(share):
    return changed(lambda values, site: np.where(site.chance.random(values.shape) < share, 0, values))


def shifted_mean(deviations):
    return changed(lambda values, site: values + deviations * values.std())


def constant(value):
    return changed(lambda values, site: np.full_like(values, value))


def in_bf16(values, site):
    return decode(Tensor("", "BF16", values.shape, encode(values, "BF16")))


def flipped_bit(site):
    """The second highest bit of an element, in its exponent."""
    data = bytearray(site.target.data)
    width = BYTES[site.target.dtype]
    data[site.place(1) * width + width - 1] ^= 0x40
    return site.with_bytes(data)


def swapped_bytes(size):
    def plant(site):
        width = BYTES[site.target.dtype]
        data = np.frombuffer(site.target.data, "u1").reshape(-1, width).copy()
        length = site.count(size)
        begin = site.place(length)
        data[begin:begin + length] = data[begin:begin + length, ::-1]
        return site.with_bytes(data.tobytes())
    return plant


def random_bytes(size):
    def plant(site):
        data = np.frombuffer(site.target.data, "u1").copy()
        length = min(size, len(data) // 2)
        begin = int(site.chance.integers(0, len(data) - length))
        data[begin:begin + length] = site.chance.integers(0, 256, length, "u1")
        return site.with_bytes(data.tobytes())
    return plant


def moved_bytes(site):
    return site.with_bytes(site.target.data[-1:] + site.target.data[:-1])


def copied(site):
    return site.with_bytes(site.other.data)


def exchanged(site):
    return {site.target.name: site.target._replace(data=site.other.data), site.other.name: site.other._replace(data=site.target.data)}


def missing(site):
    return {site.target.name: None}


def permuted_rows(values, site):
    return site.chance.permutation(matrix(values)).reshape(values.shape)


# Faults of matrices. The columns: fault, magnitude, plant.
MATRIX: list[tuple[str, str, Plant]] = [
    *(("scale", f"×{factor:g}" if factor > 1 else f"÷{1 / factor:g}", scaled(factor)) for factor in (1.5, 2, 3, 5, 10, 100, 1 / 2, 1 / 3, 1 / 10)),
    *(("loud row", f"×{factor}", loud(factor, 0)) for factor in (4, 10, 50)),
    *(("loud column", f"×{factor}", loud(factor, 1)) for factor in (4, 10, 50)),
    *(("half of the rows scaled", f"×{factor}", loud(factor, 0, 0.5)) for factor in (2, 4, 10)),
    *(("zeros inside rows", f"{size} KiB", zero_run(size * KIB)) for size in (5, 16)),
    *(("zero tail, whole rows", f"{share:.0%}", zero_tail(share, False)) for share in (0.1, 0.4)),
    *(("zero tail inside a row", f"{share:.0%}", zero_tail(share, True)) for share in (0.1, 0.4)),
    *(("stretch twice in it", f"{size} KiB", stretch(size * KIB, False)) for size in (4, 16)),
    *(("stretch of another tensor", f"{size} KiB", stretch(size * KIB, True)) for size in (4, 16)),
    ("equal rows", "3", same_rows(3, 0)), ("equal rows", "10%", same_rows(3, 0.1)), ("equal rows", "40%", same_rows(3, 0.4)),
    *(("few values", f"{count}", levels(count)) for count in (2, 16, 256)),
    ("all zero", "", constant(0)), ("constant", "", constant(0.013)), ("copy of a sibling", "", copied),
    *(("dead rows", f"{count}", dead(0, count)) for count in (2, 8)), *(("dead columns", f"{count}", dead(1, count)) for count in (2, 8)),
    ("shape", "transposed", changed(lambda values, site: np.ascontiguousarray(values.reshape(values.shape[0], -1).T))),
    ("shape", "a row short", changed(lambda values, site: values[:-1])), ("shape", "flat", changed(lambda values, site: values.reshape(-1))),
    *(("low rank", f"{rank}", of_rank(rank)) for rank in (1, 4, 12)),
    ("one element", "NaN", one_element(np.nan)), ("one element", "infinite", one_element(np.inf)), ("one element", "×1000", one_element(factor=1000)),
    ("one element", "a bit flipped", flipped_bit), ("enormous", "", one_element(3e38)),
    ("bytes", "moved by one", moved_bytes), ("bytes", "4 KiB swapped", swapped_bytes(4 * KIB)), ("bytes", "4 KiB random", random_bytes(4 * KIB)),
    ("sparse", "5%", sparse(0.05)), ("sparse", "30%", sparse(0.3)), ("shifted", "1 deviation", shifted_mean(1)), ("shifted", "3 deviations", shifted_mean(3)),
    ("rounded to bf16", "", changed(in_bf16)), ("missing", "", missing)]

# What the documentation says it does not find. These are measured, and not added to the sums.
UNSEEN: list[tuple[str, str, Plant]] = [
    ("swapped with a sibling", "", exchanged), ("square and transposed", "", changed(lambda values, site: np.ascontiguousarray(values.T))),
    ("rows permuted", "", changed(permuted_rows)), ("negated matrix", "", scaled(-1))]

VECTOR: list[tuple[str, str, Plant]] = [
    ("vector constant", "0.37", constant(0.37)), ("vector constant", "0", constant(0)),
    *(("vector scaled", f"×{factor}", scaled(factor)) for factor in (10, 30)), ("vector negated", "", scaled(-1)),
    ("zero in a gain", "", one_element(0.0)), ("vector, one element", "×300", one_element(factor=300)),
    ("vector, one element", "NaN", one_element(np.nan)), ("vector shape", "short", changed(lambda values, site: values[:-1]))]

SQUARES: list[tuple[str, str, Plant]] = [
    ("average of squares", "negated", scaled(-1)), ("average of squares", "zero", scaled(0)), ("average of squares", "4 rows zero", dead(0, 4)),
    ("average of squares", "÷1e6", scaled(1e-6))]
FIRST: list[tuple[str, str, Plant]] = [("average of gradients", "×1000", scaled(1000)), ("average of gradients", "zero", scaled(0)),
                                       ("average of gradients", "NaN", one_element(np.nan))]
STEP: list[tuple[str, str, Plant]] = [("steps", "half", scaled(0.5)), ("steps", "0", scaled(0))]


def is_float(tensor):
    return tensor.dtype in FLOATS


def applies(fault, magnitude, target):
    """Whether the fault is one in this tensor."""
    if fault == "rounded to bf16":
        return target.dtype == "F32"
    if fault == "enormous":
        return target.dtype != "F16"
    if magnitude == "transposed":
        return target.shape[0] != target.elements // target.shape[0]
    if fault == "square and transposed":
        return len(target.shape) == 2 and target.shape[0] == target.shape[1]
    if fault == "shape" and magnitude == "flat":
        return len(target.shape) > 1
    if fault in ("zero in a gain", "vector negated"):
        values = decode(target)
        return abs(values.mean()) > 0.8 * np.sqrt(np.mean(values**2)) and np.abs(values).min() > 0.2 * np.abs(values).max()
    return True
