#!/usr/bin/env python3
"""Compares the Python package with those of its peers, in one process, by turns. bench/README.md explains it.

Run it with a Python that has espalier, torch and numpy; safetensors, ztensor and orbax-checkpoint are compared if they are
there. Figures are medians over the rounds; a ratio is ours to the peer's, below 1 where ours takes less time. It prints a
line of JSON for each figure, and at the end all of them as the table of docs/python-benchmarks.md.
"""

import argparse
import json
import os
import logging
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import warnings

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # Orbax's

import espalier
import numpy as np
import torch
import torch.distributed.checkpoint as dcp
from in_turns import by_turns, report, table, touch_memory
from espalier.torch import EspalierReader, EspalierWriter
from torch.distributed.checkpoint.api import CheckpointException

try:
    import safetensors.numpy
    import safetensors.torch
except ImportError:
    safetensors = None
try:
    import ztensor
except ImportError:
    ztensor = None
try:
    import orbax.checkpoint as orbax
except ImportError:
    orbax = None

COUNT, LARGE = 20_000, 32
PEERS = ("safetensors", "ztensor", "torch", "orbax")


def small_state(count=COUNT):
    return {f"layers.{i // 10}.weight{i % 10}": torch.full((32,), float(i)) for i in range(count)}


def large_state(size):
    return {f"layers.{i}.weight": torch.randn(size // LARGE // 4) for i in range(LARGE)}


def write_ztensor(path, state):
    writer = ztensor.Writer(str(path))
    for name, value in sorted(state.items()):  # which it wants
        writer.add(name, value.numpy().view(np.uint8), list(value.shape), "f32")
    writer.finish()


def read_ztensor(path, take):
    with ztensor.open(str(path)) as source:
        return {name: take(tensor) for name, tensor in source.items()}


def orbax_ways(folder, arrays):
    """How Orbax saves arrays of numpy and restores them, as it does by default: it compresses, and syncs as it likes."""
    checkpointer = orbax.PyTreeCheckpointer()
    return lambda: checkpointer.save(folder, arrays, force=True), lambda: checkpointer.restore(folder)


def keys_of(path):
    with espalier.open(path) as file:
        return file.keys()


def safetensors_keys(path):
    with safetensors.safe_open(path, "np") as file:
        return list(file.keys())


def touch(state):
    """Reads the first byte of each page."""
    return sum(int(np.asarray(value).view(np.uint8)[::4096].sum()) for value in state.values())


def of_small(folder, rounds):
    state = small_state()
    arrays = {name: value.numpy() for name, value in state.items()}
    ours, theirs, other, plain = (folder / name for name in ("a.espalier", "a.safetensors", "a.zt", "a.pt"))
    each = 1e6 / COUNT
    saves = {"espalier": lambda: espalier.save(ours, state, sync=False), "torch": lambda: torch.save(state, plain)}
    numpy_saves = {"espalier": lambda: espalier.save(ours, arrays, sync=False)}
    if safetensors:
        saves["safetensors"] = lambda: safetensors.torch.save_file(state, theirs)
        numpy_saves["safetensors"] = lambda: safetensors.numpy.save_file(arrays, theirs)
    if ztensor:
        saves["ztensor"] = lambda: write_ztensor(other, state)
    if orbax:
        numpy_saves["orbax"], restore = orbax_ways(folder / "a.orbax", arrays)
    report("save 20,000 tensors of torch of 128 B, each", by_turns(saves, rounds), "us", each, "5 us")
    report("save 20,000 arrays of numpy, each", by_turns(numpy_saves, rounds), "us", each, "5 us")
    loads = {
        "espalier": lambda: espalier.load(ours, framework="torch"),
        "espalier unchecked": lambda: espalier.load(ours, framework="torch", check="nothing"),
        "torch mmap": lambda: torch.load(plain, mmap=True),
    }
    numpy_loads, names = {"espalier": lambda: espalier.load(ours)}, {"espalier": lambda: keys_of(ours)}
    if safetensors:
        loads["safetensors"] = lambda: safetensors.torch.load_file(theirs)
        numpy_loads["safetensors"] = lambda: safetensors.numpy.load_file(theirs)
        names["safetensors"] = lambda: safetensors_keys(theirs)
    if ztensor:
        loads["ztensor"] = lambda: read_ztensor(other, torch.from_dlpack)
        names["ztensor"] = lambda: ztensor.open(str(other)).keys()
    if orbax:
        numpy_loads["orbax"] = restore
    report("load them to torch, each", by_turns(loads, rounds), "us", each, "5 us")
    report("load them to numpy, each", by_turns(numpy_loads, rounds), "us", each, "2 us")
    report("list their names, each", by_turns(names, rounds), "us", each, "0.3 us")
    like = {
        "espalier": lambda: espalier.load(ours, like=state),
        "espalier numpy": lambda: espalier.load(ours, like=arrays),
    }
    report("load them with `like=`, each", by_turns(like, rounds), "us", each, "8 us")


def of_large(folder, rounds, size):
    state = large_state(size)
    ours, theirs, other, plain = (folder / name for name in ("b.espalier", "b.safetensors", "b.zt", "b.pt"))
    saves = {"espalier": lambda: espalier.save(ours, state, sync=False), "torch": lambda: torch.save(state, plain)}
    if safetensors:
        saves["safetensors"] = lambda: safetensors.torch.save_file(state, theirs)
    if ztensor:
        saves["ztensor"] = lambda: write_ztensor(other, state)
    arrays = {name: value.numpy() for name, value in state.items()}
    if orbax:
        saves["orbax"], restore = orbax_ways(folder / "b.orbax", arrays)
    report(f"save {size >> 20} MiB in 32 tensors", by_turns(saves, rounds), "ms", 1e3, "1.0x of safetensors")
    lazy = {
        "espalier": lambda: espalier.load(ours, framework="torch", check="nothing"),
        "torch mmap": lambda: torch.load(plain, mmap=True),
    }
    checked = {
        "espalier": lambda: espalier.load(ours, framework="torch"),
        "espalier numpy": lambda: espalier.load(ours),
    }
    copied = {
        "espalier": lambda: espalier.load(ours, framework="torch", mapped=False),
        "torch": lambda: torch.load(plain),
    }
    if safetensors:
        lazy["safetensors"] = lambda: safetensors.torch.load_file(theirs)
        copied["safetensors"] = lambda: {n: v.clone() for n, v in safetensors.torch.load_file(theirs).items()}
        copied["safetensors pread"] = lambda: safetensors.torch.load_file(theirs, backend="pread")
    if ztensor:
        lazy["ztensor"] = lambda: read_ztensor(other, torch.from_dlpack)
        checked["ztensor with verify()"] = lambda: (ztensor.verify(str(other)), read_ztensor(other, torch.from_dlpack))
    if orbax:
        copied["orbax numpy"] = restore
    report("load it to torch, mapped, nothing touched or checked", by_turns(lazy, rounds), "ms", 1e3, "1.0x of ztensor")
    often = {name: (lambda work: lambda: [work() for _ in range(100)] and None)(work) for name, work in lazy.items()}
    report("the same 100 times in a row, each", by_turns(often, rounds), "ms", 10)
    touched = {name: (lambda work: lambda: touch(work()))(work) for name, work in lazy.items()}
    report("the same and a byte of each page read", by_turns(touched, rounds), "ms", 1e3)
    report("the same with every byte checked", by_turns(checked, rounds), "ms", 1e3, "1.2x of ztensor verify")
    title = "load it to memory of its own (Espalier's is checked)"
    try:
        report(title, by_turns(copied, rounds), "ms", 1e3, "0.8x of safetensors")
    except TypeError:  # an older safetensors, without backends
        del copied["safetensors pread"]
        report(title, by_turns(copied, rounds), "ms", 1e3, "0.8x of safetensors")


def of_distributed(folder, rounds, size):
    """torch.distributed.checkpoint with our files and with torch's own, in one process. No fsync on either side."""
    warnings.filterwarnings("ignore", "torch.distributed is disabled|Detected an existing checkpoint")
    threads = os.cpu_count()
    writers = {
        "espalier": lambda at: EspalierWriter(at, sync=False),
        "torch": lambda at: dcp.FileSystemWriter(at, sync_files=False),
        f"torch {threads} threads": lambda at: dcp.FileSystemWriter(at, sync_files=False, thread_count=threads),
    }
    readers = {"espalier": EspalierReader, "torch": dcp.FileSystemReader, f"torch {threads} threads": dcp.FileSystemReader}
    at = {name: folder / f"dcp.{name}" for name in writers}

    def save(name, state):
        return lambda: dcp.save(state, storage_writer=writers[name](at[name]), no_dist=True)

    def load(name, state):
        return lambda: dcp.load(state, storage_reader=readers[name](at[name]), no_dist=True)

    for what, state in (
        ("2,000 tensors of 128 B", small_state(2000)),
        (f"{size >> 20} MiB in 32 tensors", large_state(size)),
    ):
        into = {name: torch.empty_like(value) for name, value in state.items()}
        saved = by_turns({name: save(name, state) for name in writers}, rounds)
        report(f"torch.distributed.checkpoint: save {what}", saved, "ms", 1e3)
        loaded = by_turns({name: load(name, into) for name in readers}, rounds)
        report("its load, Espalier's with every byte checked", loaded, "ms", 1e3)
        assert all(torch.equal(into[name], value) for name, value in state.items())
        sizes = {name: [sum(file.stat().st_size for file in path.iterdir())] for name, path in at.items()}
        report("its bytes on disk", sizes, "MB", 1e-6)
    found = {name: finds_damage(path, load(name, into)) for name, path in at.items()}
    print(json.dumps({"figure": "torch.distributed.checkpoint: load of a flipped bit is an error", **found}), flush=True)
    for path in at.values():
        shutil.rmtree(path)


def finds_damage(folder, load):
    """Whether a load fails after one bit of a tensor's data was flipped."""
    largest = max(folder.iterdir(), key=lambda file: file.stat().st_size)
    with open(largest, "r+b") as file:
        file.seek(largest.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    try:
        load()
    except (Exception, CheckpointException):  # which is no Exception
        return True
    return False


def of_background(folder, rounds, size):
    state = large_state(size)
    used = {name: torch.empty_like(value) for name, value in state.items()}

    def copy():
        for name, value in state.items():
            used[name].copy_(value)

    stalls, copies = [], []
    for number in range(rounds + 1):
        start = time.perf_counter()
        saving = espalier.save_async(folder / "c.espalier", state, sync=False)
        stall = time.perf_counter() - start
        saving.result()
        start = time.perf_counter()
        copy()
        if number > 0:
            stalls.append(stall)
            copies.append(time.perf_counter() - start)
    report(f"stall of `save_async` of {size >> 20} MiB", {"espalier": stalls, "torch memory copy": copies}, "ms", 1e3, "1.2x of a copy")

    # A thread of Python that counts while saves go on.
    def counted(seconds, work):
        count, stop = 0, threading.Event()

        def run():
            nonlocal count
            while not stop.is_set():
                count += 1

        thread = threading.Thread(target=run)
        thread.start()
        start = time.perf_counter()
        while time.perf_counter() - start < seconds:
            work()
        elapsed = time.perf_counter() - start
        stop.set()
        thread.join()
        return count / elapsed

    alone, beside = [], []
    for _ in range(rounds):
        alone.append(counted(1, lambda: time.sleep(0.05)))
        beside.append(counted(1, lambda: espalier.save(folder / "c.espalier", state, sync=False, threads=1)))
    row = {"figure": "speed of another Python thread during saves", "bar": "0.8x",
           "ratio": round(statistics.median(beside) / statistics.median(alone), 3)}  # fmt: skip
    print(json.dumps(row), flush=True)


def of_async(folder, rounds, size):
    """How long a save in the background keeps its caller, and until the file is complete, of torch and of JAX."""
    import jax
    import jax.numpy as jnp

    def measured(begin, number):
        start = time.perf_counter()
        wait = begin(number)
        returned = time.perf_counter() - start
        wait()
        return returned, time.perf_counter() - start

    def both(title, ways):
        returned, complete = {name: [] for name in ways}, {name: [] for name in ways}
        for number in range(rounds + 2):  # The first two warm up: memory that is kept for the next save, and imports.
            for name, begin in ways.items():
                took = measured(begin, number)
                if number > 1:
                    returned[name].append(took[0])
                    complete[name].append(took[1])
        report(f"`save_async` of {size >> 20} MiB of {title}, until it returns", returned, "ms", 1e3)
        report("the same until all is written", complete, "ms", 1e3)

    def ours(state):
        return lambda number: espalier.save_async(folder / "async.espalier", state, sync=False).result

    state = large_state(size)
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)

    def of_dcp(number):
        return dcp.async_save(state, checkpoint_id=folder / f"dcp{number % 2}", no_dist=False).result

    both("torch", {"espalier": ours(state), "torch DCP": of_dcp})
    torch.distributed.destroy_process_group()
    arrays = {f"layers.{i}": jax.random.normal(jax.random.key(i), (size // LARGE // 4,), jnp.float32) for i in range(LARGE)}
    jax.block_until_ready(arrays)
    ways = {"espalier": ours(arrays)}
    if orbax:
        checkpointer = orbax.AsyncCheckpointer(orbax.PyTreeCheckpointHandler())

        def of_orbax(number):
            checkpointer.save(folder / f"orbax{number % 2}", arrays, force=True)
            return checkpointer.wait_until_finished

        ways["orbax"] = of_orbax
    both("JAX", ways)


def of_import(folder, rounds):
    """CPU time in fresh processes, by turns."""

    def cpu_times(programs, before=""):
        samples = {name: [] for name in programs}
        for _ in range(rounds * 3):
            for name, text in programs.items():
                text = f"{before}\nimport time\nt = time.process_time()\n{text}\nprint(time.process_time() - t)"
                done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
                samples[name].append(float(done.stdout))
        return samples

    imports = {"espalier": "import espalier"}
    imports.update({name: f"import {name}" for name in ("safetensors", "ztensor") if globals()[name]})
    report("`import`, CPU time", cpu_times(imports), "ms", 1e3, "10 ms")
    ours, theirs = str(folder / "d.espalier"), str(folder / "d.safetensors")
    espalier.save(ours, {"a": np.ones(3)}, sync=False)
    loads = {"espalier": f"import espalier; espalier.load({ours!r})"}
    if safetensors:
        safetensors.numpy.save_file({"a": np.ones(3)}, theirs)
        loads["safetensors"] = f"import safetensors.numpy; safetensors.numpy.load_file({theirs!r})"
    title = "`import` and the first load of an array, CPU time besides numpy's import"
    report(title, cpu_times(loads, "import numpy"), "ms", 1e3)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="import,small,large,distributed,background,async", help="groups, with commas between them")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--mib", type=int, default=512, help="size of the large state; the background's is twice that")
    parser.add_argument("--work", type=pathlib.Path, help="a folder for files (default: a temporary one)")
    options = parser.parse_args()
    groups = options.only.split(",")
    versions = {each.__name__: each.__version__ for each in (torch, np, safetensors, orbax) if each}
    print(json.dumps({"cpus": os.cpu_count(), "load average": os.getloadavg()[0], **versions}), flush=True)
    logging.disable(logging.WARNING)  # Orbax's
    touch_memory()
    with tempfile.TemporaryDirectory(dir=options.work) as name:
        folder = pathlib.Path(name)
        if "import" in groups:
            of_import(folder, options.rounds)
        if "small" in groups:
            of_small(folder, options.rounds)
        if "large" in groups:
            of_large(folder, options.rounds, options.mib << 20)
        if "distributed" in groups:
            of_distributed(folder, options.rounds, options.mib << 20)
        if "background" in groups:
            of_background(folder, options.rounds, options.mib << 21)
        if "async" in groups:
            of_async(folder, options.rounds, options.mib << 20)
    print(table(PEERS))


if __name__ == "__main__":
    main()
