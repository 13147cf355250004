#!/usr/bin/env python3
"""The peers that are Python packages, each driven the way espalier_bench drives Espalier.

Every run prints one JSON object. bench/README.md describes each command; bench/peers.py runs it
in the peers' environment. A sample is a list entry in nanoseconds of the monotonic clock.
"""

import argparse
import dataclasses
import importlib.metadata
import io
import json
import os
import pathlib
import shutil
import tempfile
import time

# Before anything is imported: one thread, as the others have.
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = "1"
os.environ["JAX_PLATFORMS"] = "cpu"

PACKAGES = ("numpy", "safetensors", "torch", "h5py", "zarr", "zipnn", "zstandard", "orbax-checkpoint")
WIDTHS = {"F32": 4, "BF16": 2, "F16": 2, "F8_E4M3": 1, "U8": 1, "I64": 8}
ZIPNN_TYPES = {"F32": "float32", "BF16": "bfloat16", "F16": "float16", "F8_E4M3": "float8_e4m3fn"}


def raw_tensors(file, limit=None):
    """The file's tensors as (type, bytes): the first `limit` bytes of them."""
    from safetensors import deserialize
    for _, tensor in deserialize(pathlib.Path(file).read_bytes()):
        data = bytes(tensor["data"])
        if limit is not None:
            data = data[:limit - limit % WIDTHS[tensor["dtype"]]]
            limit -= len(data)
        if data:
            yield tensor["dtype"], data


def as_array(dtype, data):
    """An array of the same width: f32 as it is, everything else as unsigned integers, which numpy has."""
    import numpy
    return numpy.frombuffer(data, numpy.float32 if dtype == "F32" else f"<u{WIDTHS[dtype]}")


# Sizes: each takes the tensors and gives the bytes that they take.

def size_zstd(tensors, level):
    import zstandard
    coder = zstandard.ZstdCompressor(level=level)
    return sum(len(coder.compress(data)) for _, data in tensors)


def zipnn_coder(dtype):
    import zipnn
    return zipnn.ZipNN(input_format="byte", bytearray_dtype=ZIPNN_TYPES[dtype], threads=1)


def zipnn_streams(tensors):
    for dtype, data in tensors:
        # A copy, because the package works in the caller's memory.
        stored = zipnn_coder(dtype).compress(bytearray(data))
        if bytes(zipnn_coder(dtype).decompress(stored)) != data:
            raise ValueError("does not give the bytes back")
        yield bytes(stored)


def size_zipnn(tensors):
    """A file in the package's form: safetensors with streams as tensors, and the original types in the metadata."""
    import numpy
    from safetensors.numpy import save as serialize
    streams = {f"tensor.{i}": numpy.frombuffer(stream, numpy.uint8) for i, stream in enumerate(zipnn_streams(tensors))}
    entries = {name: {"dtype": ZIPNN_TYPES[dtype], "shape": f"[{len(data) // WIDTHS[dtype]}]"}
               for name, (dtype, data) in zip(streams, tensors)}
    return len(serialize(streams, {"znn_compressed_vectors": json.dumps(entries)}))


def size_npz(tensors):
    import numpy
    out = io.BytesIO()
    numpy.savez_compressed(out, *(as_array(*t) for t in tensors))
    return out.tell()


def size_h5py(tensors, **how):
    import h5py
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "data.h5"
        with h5py.File(file, "w") as out:
            for i, tensor in enumerate(tensors):
                out.create_dataset(str(i), data=as_array(*tensor), **how)
        return file.stat().st_size


def folder_bytes(folder):
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def size_zarr(tensors):
    import zarr
    with tempfile.TemporaryDirectory() as folder:
        group = zarr.open_group(folder, mode="w")
        for i, tensor in enumerate(tensors):
            group.create_array(str(i), data=as_array(*tensor))
        return folder_bytes(pathlib.Path(folder))


SIZES = {
    "zipnn": size_zipnn,
    "zipnn's streams alone": lambda t: sum(map(len, zipnn_streams(t))),
    "zstd-1": lambda t: size_zstd(t, 1),
    "zstd-3": lambda t: size_zstd(t, 3),
    "zstd-9": lambda t: size_zstd(t, 9),
    "zstd-19": lambda t: size_zstd(t, 19),
    "npz": size_npz,
    "h5py gzip": lambda t: size_h5py(t, compression="gzip"),
    "zarr": size_zarr,
}


def size(options):
    """Raw and stored bytes of each file with each program, over as much of it as its limit allows."""
    limits = dict(part.rsplit("=", 1) for part in options.limits)
    return {str(file): sizes_of(file, limits) for file in options.file}


def sizes_of(file, limits):
    result = {}
    for name, measure in SIZES.items():
        limit = int(limits[name]) if name in limits else None
        tensors = list(raw_tensors(file, limit))
        try:
            result[name] = {"raw": sum(len(data) for _, data in tensors), "stored": measure(tensors)}
        except Exception as error:  # Any error of a peer: the table shows it.
            result[name] = {"error": f"{type(error).__name__}: {error}"[:200]}
    return result


def codec(options):
    """zipnn in memory, one tensor after the other, on one thread; without hashes, because it has none."""
    tensors = list(raw_tensors(options.file))
    compress_ns, decode_ns = [], []
    for _ in range(options.repeat):
        copies = [(dtype, bytearray(data)) for dtype, data in tensors]
        start = time.monotonic_ns()
        stored = [zipnn_coder(dtype).compress(data) for dtype, data in copies]
        compress_ns.append(time.monotonic_ns() - start)
        start = time.monotonic_ns()
        decoded = [zipnn_coder(dtype).decompress(data) for (dtype, _), data in zip(copies, stored)]
        decode_ns.append(time.monotonic_ns() - start)
    if any(bytes(d) != data for d, (_, data) in zip(decoded, tensors)):
        raise SystemExit("zipnn does not give the bytes back")
    return {"raw_bytes": sum(len(data) for _, data in tensors), "stored_bytes": sum(map(len, stored)),
            "compress_ns": compress_ns, "decode_ns": decode_ns}


# States: `tensors` maps dotted names to torch tensors. A load gives tensors in fresh memory.

def nested(tensors):
    """The nested tree of dotted names; the step becomes an int and the random state bytes."""
    tree = {}
    for name, tensor in tensors.items():
        *path, last = name.split(".")
        at = tree
        for key in path:
            at = at.setdefault(key, {})
        at[last] = tensor
    tree["step"] = int(tree["step"])
    tree["random"] = bytes(tree["random"].tolist())
    return tree


def leaves(tree, prefix=""):
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


@dataclasses.dataclass
class Part:
    """The part to load: tensors whose names begin with `prefix`, and optionally a range of rows."""
    prefix: str = ""
    rows: tuple = ()


class Safetensors:
    """The Python package, with torch tensors."""

    def prepare(self, tensors):
        return tensors

    def save(self, tensors, path):
        from safetensors.torch import save_file
        save_file(tensors, path)

    def load(self, path, wanted):
        from safetensors import safe_open
        with safe_open(path, framework="pt") as file:
            # clone(): the result of get_tensor may still lie in the mapped file, unread.
            if wanted.rows:
                return [file.get_slice(wanted.prefix)[wanted.rows[0]:wanted.rows[1]].clone()]
            names = [name for name in file.offset_keys() if name.startswith(wanted.prefix)]
            return [file.get_tensor(name).clone() for name in names]


class Torch:
    """torch.save and torch.load of the nested state."""
    mmap = False

    def prepare(self, tensors):
        return nested(tensors)

    def save(self, tree, path):
        import torch
        torch.save(tree, path)

    def load(self, path, wanted):
        import torch
        tree = torch.load(path, mmap=self.mmap, weights_only=True)
        found = [value for name, value in leaves(tree) if name.startswith(wanted.prefix)]
        found = [value for value in found if isinstance(value, torch.Tensor)]
        if wanted.rows:
            found = [value[wanted.rows[0]:wanted.rows[1]] for value in found]
        return [value.clone() for value in found] if self.mmap else found


class TorchMapped(Torch):
    """The same with mmap=True; every requested byte is copied out of the mapping."""
    mmap = True


class Orbax:
    """Orbax, which only loads whole trees here; it uses its own threads."""

    def prepare(self, tensors):
        import ml_dtypes
        import numpy
        import torch
        tree = nested({name: tensor.view(torch.uint16).numpy().view(ml_dtypes.bfloat16)
                       if tensor.dtype == torch.bfloat16 else tensor.numpy() for name, tensor in tensors.items()})
        tree["random"] = numpy.frombuffer(tree["random"], numpy.uint8)
        return tree

    def save(self, tree, path):
        import orbax.checkpoint
        with orbax.checkpoint.PyTreeCheckpointer() as checkpointer:
            checkpointer.save(path.resolve(), tree)

    def load(self, path, wanted):
        import orbax.checkpoint
        if wanted.prefix:
            raise SystemExit("is not tried with a part of a checkpoint")
        with orbax.checkpoint.PyTreeCheckpointer() as checkpointer:
            tree = checkpointer.restore(path.resolve())
        return [value for _, value in leaves(tree) if hasattr(value, "nbytes")]


STATES = {"safetensors": Safetensors, "torch": Torch, "torch-mmap": TorchMapped, "orbax": Orbax}


def remove(path):
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)


def start_up(peer):
    """Saves and loads something tiny, so that no import falls into the first sample."""
    import torch
    torch.set_num_threads(1)
    tiny = {"model.weight": torch.ones(4, 4), "step": torch.tensor(1), "random": torch.ones(3, dtype=torch.uint8)}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "tiny"
        peer.save(peer.prepare(tiny), path)
        peer.load(path, Part())


def save(options):
    from safetensors.torch import load_file
    peer = STATES[options.peer]()
    start_up(peer)
    content = peer.prepare({name: tensor.clone() for name, tensor in load_file(options.file).items()})
    save_ns = []
    for _ in range(options.repeat):
        remove(options.out)
        start = time.monotonic_ns()
        peer.save(content, options.out)
        save_ns.append(time.monotonic_ns() - start)
    taken = folder_bytes(options.out) if options.out.is_dir() else options.out.stat().st_size
    return {"save_ns": save_ns, "file_bytes": taken}


def load(options):
    peer = STATES[options.peer]()
    start_up(peer)
    start = time.monotonic_ns()
    loaded = peer.load(options.file, options.part)
    return {"load_ns": [time.monotonic_ns() - start], "bytes": sum(tensor.nbytes for tensor in loaded)}


def versions(options):
    def version(package):
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            return None
    return {package: version(package) for package in PACKAGES}


def parse_part(text):
    prefix, *rows = text.split(":")
    return Part(prefix, [int(row) for row in rows if row])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)

    def command(run):
        sub = commands.add_parser(run.__name__)
        sub.set_defaults(run=run)
        if run is not versions:
            sub.add_argument("file", type=pathlib.Path, nargs="+" if run is size else None)
        sub.add_argument("--repeat", type=int, default=1)
        return sub
    command(versions)
    command(size).add_argument("--limits", nargs="*", default=[], help="NAME=BYTES")
    command(codec)
    saver, loader = command(save), command(load)
    for sub in (saver, loader):
        sub.add_argument("--peer", choices=STATES, required=True)
    saver.add_argument("--out", type=pathlib.Path, required=True)
    loader.add_argument("--part", type=parse_part, required=True, help="PREFIX or NAME:BEGIN:END; : for everything")
    options = parser.parse_args()
    print(json.dumps(options.run(options)))


if __name__ == "__main__":
    main()
