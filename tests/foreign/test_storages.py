#!/usr/bin/env python3
"""Compares tensors that foreign formats store with strides, in another byte order, negated,
conjugated or in pieces with what numpy makes of the same bytes.

Usage: READ_STORAGES=path/to/read_storages test_storages.py [CASES [SEED]]. The last line is
"N passed, N failed".
"""

import os
import pathlib
import random
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "reference")]

import needed_packages  # noqa: F401
import numpy as np

READER = os.environ.get("READ_STORAGES") or sys.exit("READ_STORAGES must name the reader")
CASES = 10_000
CHUNK = 1 << 20
FILE_BYTES = 24 << 20
STRIDED, SWAPPED, NEGATED, CONJUGATED = 1, 2, 4, 8

# The number of each dtype in the format, and the numpy dtype that holds its bits.
DTYPES = {
    1: "u1", 2: "i1", 3: "u1", 4: "i2", 5: "u2", 6: "i4", 7: "u4", 8: "i8", 9: "u8",
    10: "f2", 11: "u2", 12: "f4", 13: "f8", 14: "c8", 15: "c16", 16: "u1",
}  # fmt: skip
BF16 = 11
CANNOT_BE_NEGATED = {1, 16}


# Results of more than 32 MiB, which a save goes through in bands: of the first axis, and of the second.
LARGE_CASES = [
    (2, STRIDED, 0, 9_000_000, [9, 1000, 9000], [0, 1, 1000], [(3, 4, 1)], [i * CHUNK for i in range(9)]),
    (2, STRIDED, 5, 500_100, [3, 70, 500_000], [7, 0, 1], [(1, 2, 1), (0, 2, 1)], [99]),
]  # fmt: skip


def random_view(rng, most):
    """Shape, strides, offset and elements of a view that steps through at most `most` elements."""
    rank = rng.randint(0, 5)
    shape = [rng.choice([1, 2, 3, 5, 8, 13]) for _ in range(rank)]
    if rank and rng.random() < 0.3:
        shape[rng.randrange(rank)] = rng.randint(0, 700)
    kind = rng.choice(["permuted", "permuted", "padded", "repeated", "overlapping"])
    strides = [0] * rank
    if kind == "overlapping":
        strides = [rng.randint(0, 9) for _ in shape]
    else:
        step = rng.choice([1, 1, 2, 3]) if kind == "padded" else 1
        for axis in rng.sample(range(rank), rank):
            strides[axis] = step
            step *= max(shape[axis], 1)
            if kind == "padded":
                step += rng.randint(0, 3)
        if kind == "repeated":
            for axis in range(rank):
                if rng.random() < 0.5:
                    strides[axis] = 0
    last = sum((n - 1) * s for n, s in zip(shape, strides)) if all(shape) else 0
    if last + 20 > most or np.prod(shape, dtype=object) > most:
        return random_view(rng, most)
    offset = rng.choice([0, 0, 1, 7])
    return shape, strides, offset, offset + last + 1 + rng.choice([0, 0, 5])


def large_view(rng, width):
    """A view of a storage that has two chunks or three."""
    rows = rng.choice([200, 333, 512])
    columns = rng.randint(CHUNK // width // rows + 1, 5 * CHUNK // 2 // width // rows)
    kind = rng.randrange(4)
    if kind == 0:
        shape, strides = [columns, rows], [1, columns]
    elif kind == 1:
        shape, strides = [rows // 8, columns, 8], [8 * columns, 1, columns]
    elif kind == 2:
        shape, strides = [3, rows, columns // 2], [0, columns, 2]
    else:
        shape, strides = [columns, rows // 2], [1, 2 * columns - 3]
    last = sum((n - 1) * s for n, s in zip(shape, strides))
    return shape, strides, 3, last + 4


def random_slices(rng, shape):
    slices = []
    for axis in shape[: rng.randint(0, len(shape))]:
        begin = rng.randint(-axis - 1, axis + 1) if rng.random() < 0.6 else 0
        end = rng.randint(-axis - 1, axis + 1) if rng.random() < 0.6 else axis
        slices.append((begin, end, rng.choice([1, 1, 1, 2, 3, axis + 1])))
    return slices


def chunk_offsets(rng, stored):
    """Where the chunks of a storage lie: one after the other, or with other bytes between."""
    count = -(-stored // CHUNK)
    apart = rng.random() < 0.5
    at = rng.randint(0, 1000)
    offsets = []
    for _ in range(count):
        offsets.append(at)
        at += CHUNK + (rng.randint(0, 3 * CHUNK) if apart else 0)
    return offsets


def expected(contents, case):
    number, flags, offset, elements, shape, strides, slices, offsets = case
    dtype = np.dtype(DTYPES[number])
    stored = elements * dtype.itemsize
    pieces = [contents[at : at + min(CHUNK, stored - i * CHUNK)] for i, at in enumerate(offsets)]
    order = ">" if flags & SWAPPED else "<"
    flat = np.frombuffer(b"".join(pieces), dtype=dtype.newbyteorder(order))
    if flags & STRIDED:
        array = np.lib.stride_tricks.as_strided(
            flat[offset:] if all(shape) else flat, shape, [s * dtype.itemsize for s in strides]
        )
    else:
        array = flat.reshape(shape)
    array = array[tuple(slice(*s) for s in slices)].astype(dtype.newbyteorder("<"))
    if flags & NEGATED:
        array = array ^ np.uint16(0x8000) if number == BF16 else np.negative(array)
    if flags & CONJUGATED:
        array = np.conj(array)
    return np.asarray(array).astype(dtype.newbyteorder("<")).tobytes()


def random_case(rng):
    number = rng.choice(list(DTYPES))
    dtype = np.dtype(DTYPES[number])
    flags = rng.randrange(16)
    if dtype.itemsize == 1:
        flags &= ~SWAPPED
    if dtype.kind != "c":
        flags &= ~CONJUGATED
    if number in CANNOT_BE_NEGATED:
        flags &= ~NEGATED
    flags = flags or STRIDED
    if rng.random() < 0.03:
        shape, strides, offset, elements = large_view(rng, dtype.itemsize)
    else:
        shape, strides, offset, elements = random_view(rng, 20_000)
    if not flags & STRIDED:
        strides, offset = [], 0
        elements = int(np.prod(shape, dtype=object))
    offsets = chunk_offsets(rng, elements * dtype.itemsize)
    return number, flags, offset, elements, shape, strides, random_slices(rng, shape), offsets


def line_of(case):
    number, flags, offset, elements, shape, strides, slices, offsets = case
    numbers = [number, flags, offset, elements, len(shape), *shape, *strides, len(slices)]
    for one in slices:
        numbers += one
    return " ".join(map(str, [*numbers, len(offsets), *offsets]))


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else CASES
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 16
    rng = random.Random(seed)
    contents = np.random.default_rng(seed).bytes(FILE_BYTES)
    cases = LARGE_CASES + [random_case(rng) for _ in range(count - len(LARGE_CASES))]
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder, "data")
        data.write_bytes(contents)
        lines = "\n".join(map(line_of, cases)) + "\n"
        done = subprocess.run([READER, data], input=lines.encode(), stdout=subprocess.PIPE)
    at = failed = 0
    for number, case in enumerate(cases, 1):
        want = expected(contents, case)
        if done.stdout[at : at + len(want)] != want:
            print(f"case {number} differs from numpy: {line_of(case)}")
            failed += 1
            break
        at += len(want)
    if not failed and (at != len(done.stdout) or done.returncode != 0):
        print(f"the reader gave {len(done.stdout)} bytes for {at}, and exit code {done.returncode}")
        failed += 1
    print(f"{count - failed if not failed else number - 1} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
