#!/usr/bin/env python3
"""Times files of others as Espalier reads them, beside the libraries that they come from and zTensor. bench/README.md explains it.

Run it with a Python that has espalier, torch and numpy; ztensor and gguf are compared if they are there. Figures are medians over
the rounds, in one process and by turns; a ratio is ours to the peer's. Files are in the page cache.
"""

import argparse
import json
import os
import pathlib
import tempfile

import espalier
import numpy as np
import torch
from in_turns import by_turns, report, table, touch_memory

try:
    import ztensor
except ImportError:
    ztensor = None
try:
    import gguf
except ImportError:
    gguf = None

PEERS = ("ztensor", "torch", "numpy", "gguf")


def of_listing(folder, rounds):
    path = folder / "many.pt"
    torch.save({f"layers.{i // 10}.weight{i % 10}": torch.full((32,), float(i)) for i in range(20_000)}, path)

    def ours():
        with espalier.open(path) as file:
            return file.keys()

    def of_ztensor():
        with ztensor.open(str(path)) as source:
            return list(source)

    ways = {"espalier": ours, "torch mmap": lambda: list(torch.load(path, mmap=True))}
    if ztensor:
        ways["ztensor"] = of_ztensor
    report("list 20,000 tensors of a .pt", by_turns(ways, rounds), "ms", 1e3, "1/15 of ztensor")


def total(arrays):
    """Reads all bytes."""
    return sum(int(np.asarray(each).reshape(-1).view(np.uint64).sum()) for each in arrays)


def of_ztensor(path):
    with ztensor.open(str(path)) as source:
        return sum(int(np.frombuffer(memoryview(each), np.uint64).sum()) for each in source.values())


def of_reading(folder, rounds, size):
    state = {f"layers.{i}.weight": torch.randn(size // 32 // 4) for i in range(32)}
    path = folder / "large.pt"
    torch.save(state, path)
    ways = {
        "espalier": lambda: total(espalier.load(path, check="nothing").values()),
        "torch mmap": lambda: total(each.numpy() for each in torch.load(path, mmap=True).values()),
        "torch": lambda: total(each.numpy() for each in torch.load(path).values()),
    }
    if ztensor:
        ways["ztensor"] = lambda: of_ztensor(path)
    report(f"read all of a .pt of {size >> 20} MiB", by_turns(ways, rounds), "ms", 1e3, "1.0x of the fastest")

    arrays = {name: value.numpy() for name, value in state.items()}
    path = folder / "large.npz"
    np.savez(path, **arrays)
    ways = {
        "espalier": lambda: total(espalier.load(path, check="nothing").values()),
        "numpy": lambda: total(np.load(path).values()),
    }
    if ztensor:
        ways["ztensor"] = lambda: of_ztensor(path)
    report(f"read all of a .npz of {size >> 20} MiB", by_turns(ways, rounds), "ms", 1e3, "1.0x of the fastest")

    small = {name: value[: len(value) // 16] for name, value in arrays.items()}
    path = folder / "compressed.npz"
    np.savez_compressed(path, **small)
    ways = {
        "espalier": lambda: total(espalier.load(path, check="nothing").values()),
        "numpy": lambda: total(np.load(path).values()),
    }
    report(f"read all of a compressed .npz of {size >> 24} MiB", by_turns(ways, rounds), "ms", 1e3, "1.0x of the fastest")

    if gguf is None:
        return
    path = folder / "large.gguf"
    writer = gguf.GGUFWriter(str(path), "llama")
    for name, value in arrays.items():
        writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    ways = {
        "espalier": lambda: total(espalier.load(path, check="nothing").values()),
        "gguf": lambda: total(each.data for each in gguf.GGUFReader(path).tensors),
    }
    if ztensor:
        ways["ztensor"] = lambda: of_ztensor(path)
    report(f"read all of a GGUF of {size >> 20} MiB", by_turns(ways, rounds), "ms", 1e3, "1.0x of the fastest")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--mib", type=int, default=512, help="size of the large files")
    parser.add_argument("--work", type=pathlib.Path, help="a folder for files (default: a temporary one)")
    options = parser.parse_args()
    print(json.dumps({"cpus": os.cpu_count(), "load average": os.getloadavg()[0], "torch": torch.__version__}), flush=True)
    touch_memory()
    with tempfile.TemporaryDirectory(dir=options.work) as name:
        of_listing(pathlib.Path(name), options.rounds)
        of_reading(pathlib.Path(name), options.rounds, options.mib << 20)
    print(table(PEERS))


if __name__ == "__main__":
    main()
