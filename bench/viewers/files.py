"""Makes the files that the viewers open, with the writers that people use: `files.py FOLDER CLI BENCH DIGITS SCALE`."""

import pathlib
import struct
import subprocess
import sys

import h5py
import numpy
import safetensors
import safetensors.numpy

GIB = 1 << 30


def main():
    folder, cli, bench, digits = map(pathlib.Path, sys.argv[1:5])
    wanted = sys.argv[5].split(",")
    makers = {name: maker for name, maker in globals().items() if name.startswith("make_")}
    for name in wanted:
        makers[f"make_{name}"](folder, cli, bench, digits)


def convert(cli, source, target, *options):
    subprocess.run([cli, "convert", "--quiet", "--no-sync", "--force", *options, source, target], check=True)


def nested(names):
    """Dotted names as nested dicts."""
    tree = {}
    for name, value in names.items():
        *parents, last = name.split(".")
        at = tree
        for part in parents:
            at = at.setdefault(part, {})
        at[last] = value
    return tree


def spec(dtype, shape, array):
    """The package's form of an array, which must live until it is written."""
    return safetensors.TensorSpec(dtype=dtype, shape=shape, data_ptr=array.ctypes.data, data_len=array.nbytes)


def make_small(folder, cli, bench, digits):
    """A real training state: flat, nested, as its trainer would have saved it, and damaged."""
    plain = folder / "small.safetensors"
    plain.write_bytes(digits.read_bytes())
    convert(cli, plain, folder / "small.espalier", "--nest")
    arrays = safetensors.numpy.load_file(plain)
    numpy.savez(folder / "small.npz", **arrays)
    with h5py.File(folder / "small.h5", "w") as file:
        for name, array in arrays.items():
            file[name.replace(".", "/")] = array
    try:
        import torch
        torch.save(nested({name: torch.from_numpy(array.copy()) for name, array in arrays.items()}), folder / "small.pt")
    except ImportError:
        pass
    # One byte within the last tensor of each.
    for name in ("small.safetensors", "small.espalier"):
        damaged = bytearray((folder / name).read_bytes())
        at = len(damaged) - 100 if name.endswith("safetensors") else len(damaged) // 2
        damaged[at] ^= 0x55
        (folder / f"damaged{pathlib.Path(name).suffix}").write_bytes(damaged)
    (folder / "length.safetensors").write_bytes(struct.pack("<Q", 1 << 62) + b'{"only_one":1}' + bytes(64))
    header = b'{"only_one":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"only_one":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}'
    (folder / "twice.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + struct.pack("<ff", 1, 2))
    header = b'{"only_one":{"dtype":"F32","shape":[1000],"data_offsets":[0,4000]}}'
    (folder / "beyond.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(16))
    # 1.0, NaN and -Inf in the narrow types: bit patterns, as NumPy has no such types.
    bf16 = numpy.full(64, 0x3F80, "<u2")
    bf16[[5, 6, 7]] = 0x7FC0, 0x7FC0, 0xFF80
    e4m3 = numpy.full(64, 0x38, "u1")
    e4m3[9] = 0x7F
    e5m2 = numpy.full(64, 0x3C, "u1")
    e5m2[[3, 4]] = 0x7E, 0x7C
    kinds = {"bf16": ("bfloat16", bf16), "e4m3": ("float8_e4m3fn", e4m3), "e5m2": ("float8_e5m2", e5m2)}
    parts = {name: spec(dtype, [8, 8], bits) for name, (dtype, bits) in kinds.items()}
    (folder / "special.safetensors").write_bytes(safetensors.serialize(parts))
    convert(cli, folder / "special.safetensors", folder / "special.espalier")


def make_gib(folder, cli, bench, digits):
    """One bf16 tensor of 1 GiB, of normally distributed numbers; as HDF5, which has no such type, f16."""
    piece = numpy.random.default_rng(1).normal(0, 0.02, 1 << 24).astype("<f4")
    bits = (piece.view("<u4") + 0x8000 >> 16).astype("<u2")
    header = b'{"weight":{"dtype":"BF16","shape":[32768,16384],"data_offsets":[0,1073741824]}}'
    header += b" " * (-len(header) % 8)
    with open(folder / "gib.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        for turn in range(32):
            file.write(numpy.roll(bits, 4099 * turn).tobytes())
    convert(cli, folder / "gib.safetensors", folder / "gib.espalier")
    sparse_h5(folder / "gib.h5", 1)


def sparse_h5(path, count):
    """Datasets of 1 GiB each that are holes."""
    with h5py.File(path, "w") as file:
        options = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        options.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        options.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        space = h5py.h5s.create_simple((16384, 16384))
        for i in range(count):
            h5py.h5d.create(file.id, b"zeros%d" % i, h5py.h5t.IEEE_F32LE, space, options)


def make_large(folder, cli, bench, digits):
    """20 GiB of zeros, which are holes; the .espalier file of the same is made elsewhere."""
    entries = ",".join(f'"zeros{i}":{{"dtype":"F32","shape":[16384,16384],"data_offsets":[{i * GIB},{(i + 1) * GIB}]}}' for i in range(20))
    header = ("{" + entries + "}").encode()
    header += b" " * (-len(header) % 8)
    with open(folder / "large.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + 20 * GIB)
    sparse_h5(folder / "large.h5", 20)


def many(folder, cli, bench, count, name):
    zero = numpy.zeros(1, "<f4")
    data = spec("float32", [1], zero)
    with open(folder / f"{name}.safetensors", "wb") as file:
        file.write(safetensors.serialize({f"layers.{i // 10}.p{i % 10}": data for i in range(count)}))
    subprocess.run([bench, "make", folder / f"{name}.espalier", "--tensors", str(count - 1), "--names", "training", "--no-sync"],
                   check=True, stdout=subprocess.DEVNULL)


def make_many(folder, cli, bench, digits):
    many(folder, cli, bench, 100_000, "many")
    with h5py.File(folder / "many.h5", "w", libver="latest") as file:
        space = h5py.h5s.create_simple((1,))
        for i in range(10_000):
            group = file.create_group(f"layers/{i}")
            for j in range(10):
                h5py.h5d.create(group.id, b"p%d" % j, h5py.h5t.IEEE_F32LE, space)


def make_million(folder, cli, bench, digits):
    many(folder, cli, bench, 1_000_000, "million")


if __name__ == "__main__":
    main()
