#!/usr/bin/env python3
"""Measures what commands take for 100, 1,000, ... tensors of 16 bytes: time, memory, and how they grow.

    bench/scale.py --output docs/scale.md         # up to a million tensors, with build/release/espalier; some minutes, on an idle machine
    bench/scale.py --most 7 --only ls,convert     # up to ten million
    bench/scale.py --python PYTHON                # also the safetensors of that Python, on the same files

Each run is a process of its own. Commands take turns, for three rounds; the page has medians, the lowest and the highest. Memory is the
most that was resident, mapped pages included. Files are in the page cache and are not synced. A floor is measured in the same run: to
read a file, `cat` of it; to write one, `cp` of what the command wrote.
"""

import argparse
import json
import math
import multiprocessing
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

import charts
import harness

ESPALIER = harness.ROOT / "build/release/espalier"
OUT = "-f -q --no-sync"
# What each does, and the file that its floor reads, or writes if the command does: {} is the folder.
COMMANDS = {
    "ls": ("ls {}/a.espalier", "read a.espalier"),
    "ls of safetensors": ("ls {}/a.safetensors", "read a.safetensors"),
    "verify": ("verify {}/a.espalier", "read a.espalier"),
    "convert": (f"convert {{}}/a.safetensors -o {{}}/out.espalier {OUT}", "write out.espalier"),
    "convert back": (f"convert {{}}/a.espalier -o {{}}/out.safetensors {OUT}", "write out.safetensors"),
    "extract": (f"extract {{}}/a.espalier *.0.weight -o {{}}/out.espalier {OUT}", "read a.espalier"),
    "merge": (f"merge {{}}/a.safetensors {{}}/b.espalier -o {{}}/out.espalier {OUT}", "write out.espalier"),
    "map": (f"map {{}}/a.safetensors --map {{}}/map.json -o {{}}/out.espalier {OUT}", "write out.espalier"),
    "diff": ("diff {}/a.espalier {}/b.espalier", "read a.espalier"),
    "diff --stat": ("diff --stat {}/a.espalier {}/b.espalier", "read a.espalier"),
    "delta": (f"delta {{}}/a.espalier {{}}/b.espalier --most 100 -o {{}}/out.espalier {OUT}", "write out.espalier"),
    "stats": ("stats {}/a.espalier", "read a.espalier"),
    "doctor": ("doctor {}/a.espalier", "read a.espalier"),
}
PEER = {
    "safetensors load_file": "import sys; from safetensors.numpy import load_file; load_file(sys.argv[1] + '/a.safetensors')",
    "safetensors save_file": "import sys; from safetensors.numpy import load_file, save_file; "
                             "save_file(load_file(sys.argv[1] + '/a.safetensors'), sys.argv[1] + '/out.safetensors')",
}


def make(folder, count):
    """Two files of the same names and other numbers, as the safetensors library would order them, and ours of them."""
    header = {f"model.layers.{i // 10:06}.block.{i % 10}.weight":
              {"dtype": "F32", "shape": [4], "data_offsets": [16 * i, 16 * i + 16]} for i in range(count)}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    for name in ("a", "b"):
        (folder / f"{name}.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + random.Random(name).randbytes(16 * count))
        run(ESPALIER, "convert", folder / f"{name}.safetensors", "-o", folder / f"{name}.espalier", "-q", "--no-sync")
    (folder / "map.json").write_text(json.dumps({"espalier_map": 1, "name": "wrap", "rules": ["{p...} <-> module.{p...}"]}))


def run(*command):
    """Seconds and the most resident bytes of a process. That files differ (1) is no failure."""
    start = time.perf_counter()
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stderr.close()
    if process.returncode not in (0, 1):
        sys.exit(f"{' '.join(map(str, command))}: {errors.decode()[-2000:]}")
    return seconds, usage.ru_maxrss * 1024


def floor_of(folder, kind):
    what, name = kind.split()
    if what == "read":
        return run("cat", folder / name)[0]
    return run("cp", folder / name, folder / "out.copy")[0]


def measure(folder, names, rounds, python):
    """Samples by command: seconds, bytes and the seconds of the floor."""
    samples = {name: [] for name in names}
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            if name in PEER:
                samples[name].append((*run(python, "-c", PEER[name], folder), None))
                continue
            command, floor = COMMANDS[name]
            taken = run(ESPALIER, *(part.replace("{}", str(folder)) for part in command.split()))
            # A base is in the folder of what is written against it, so this is all in one.
            samples[name].append((*taken, floor_of(folder, floor)))
            for file in folder.glob("out.*"):
                file.unlink()
    return samples


def slope(points):
    """The exponent of growth over the last decade: 1 is as the work."""
    (x1, y1), (x2, y2) = points[-2:]
    return math.log(y2 / y1) / math.log(x2 / x1)


def table(figures):
    lines = ["| command | tensors | time (lowest - highest) | each | memory | each | beside its floor | exponent |",
             "|---|---|---|---|---|---|---|---|"]
    for name, by_count in figures.items():
        count, samples = list(by_count.items())[-1]
        seconds = [sample[0] for sample in samples]
        middle, memory = statistics.median(seconds), statistics.median(sample[1] for sample in samples)
        floors = [sample[2] for sample in samples if sample[2]]
        beside = f"{middle / statistics.median(floors):.1f}x of {harness.duration(statistics.median(floors) * 1e9)}" if floors else ""
        points = [(each, statistics.median(s[0] for s in of)) for each, of in by_count.items()]
        grows = f"{slope(points):.2f}" if len(points) > 1 else ""
        lines.append(f"| {name} | {count:,} | {harness.duration(middle * 1e9)} ({min(seconds):.2f} - {max(seconds):.2f} s) "
                     f"| {middle / count * 1e6:.2f} µs | {memory / harness.MIB:,.0f} MiB | {memory / count:,.0f} bytes "
                     f"| {beside} | {grows} |")
    return "\n".join(lines)


def draw(figures, part, scale, title, unit, path):
    series = {name: [(count, statistics.median(sample[part] for sample in samples) * scale) for count, samples in by_count.items()]
              for name, by_count in figures.items()}
    path.write_text(charts.lines(title, series, "tensors", unit))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=6, help="up to 10 to this power")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", type=harness.one_of(COMMANDS), default=list(COMMANDS), help="commands, separated by commas")
    parser.add_argument("--python", type=pathlib.Path, help="a Python with safetensors and numpy, as the peer")
    parser.add_argument("--work", type=pathlib.Path, help="the folder for large files (default: below build/)")
    parser.add_argument("--output", type=pathlib.Path, help="the page that gets the table; its charts stand beside it")
    options = parser.parse_args()
    if not ESPALIER.exists():
        sys.exit("build/release/espalier is missing: cmake --preset release && cmake --build build/release --target espalier")
    names = options.only + (list(PEER) if options.python else [])
    figures = {name: {} for name in names}
    work = harness.working_folder(options.work, 4 * harness.GIB)
    facts = harness.machine_facts(work)
    for count in (10 ** power for power in range(2, options.most + 1)):
        with tempfile.TemporaryDirectory(dir=work) as folder:
            folder = pathlib.Path(folder)
            # In a process of its own: what this one has resident would count for those that it starts.
            maker = multiprocessing.Process(target=make, args=(folder, count))
            maker.start()
            maker.join()
            if maker.exitcode != 0:
                sys.exit(1)
            for name, samples in measure(folder, names, options.rounds, options.python).items():
                figures[name][count] = samples
                print(json.dumps({"command": name, "tensors": count, "samples": samples}), flush=True)
    text = f"{harness.as_list(facts)}\n\n{table(figures)}"
    print(text)
    if options.output:
        harness.put_between_markers(options.output, text, "<!-- figures begin: bench/scale.py writes the lines below -->",
                                    "<!-- figures end -->")
        draw(figures, 0, 1, "Time by the number of tensors", "seconds", options.output.parent / "charts/scale-time.svg")
        draw(figures, 1, 1 / harness.MIB, "Memory by the number of tensors", "MiB", options.output.parent / "charts/scale-memory.svg")


if __name__ == "__main__":
    main()
