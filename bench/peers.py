#!/usr/bin/env python3
"""Compares compression and whole training states with Espalier's peers. bench/README.md explains it."""

import argparse
import dataclasses
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

import charts
from harness import (BUILD_OURS, BUILD_PEER, GIB, MIB, OURS, PEER, PEER_FOLDER, ROOT, Row, as_list, at_least,
                     attempt, build, duration, evict, execute, interleave, machine_facts, middle, one_of,
                     put_between_markers, reload, require_programs, speed, table, working_folder)

GROUPS = ("size", "codec", "state", "counts", "linear")
BEGIN, END = "<!-- figures begin: bench/peers.py writes the lines below -->", "<!-- figures end -->"
CLI = ROOT / "build/release/espalier"
BUILD_CLI = [["cmake", "--build", "build/release", "--target", "espalier"]]
HOME = ROOT / "build/bench-peers"
PYTHON = HOME / "venv/bin/python"
PYTHON_PEERS = ROOT / "bench/peers/python_peers.py"
REQUIREMENTS = ROOT / "bench/requirements.txt"
MINIMUM_FREE = 24 * GIB

MOMENTS, DTYPES = ("weights", "adam-m", "adam-v"), ("bf16", "f16", "f32", "f8_e4m3fn")
SYNTHETIC = {"bf16": 1.48, "f16": 1.16, "f32": 1.18, "f32-of-bf16": 2.9, "random": None}  # with targets
LEVELS = (1, 3, 9)
STATE_PEERS = {"safetensors": "safetensors (Python)", "torch": "torch (Python)",
               "torch-mmap": "torch mmap (Python)", "orbax": "orbax (Python)"}


@dataclasses.dataclass
class Part:
    """A part of a state: our key path, the prefix of dotted names, and optionally rows of one tensor."""
    name: str
    path: str = ""
    prefix: str = ""
    rows: tuple = ()


PARTS = (Part("load all"),
         Part("load a subtree", "optimizer/layers/1", "optimizer.layers.1."),
         Part("load one tensor", "model/layers/0/mlp/up/weight", "model.layers.0.mlp.up.weight"),
         Part("load a slice of 1 MiB", "model/layers/1/mlp/up/weight", "model.layers.1.mlp.up.weight", (64, 192)))


@dataclasses.dataclass
class Scale:
    """How much work a run does."""
    synthetic: int  # bytes
    state: int
    codec: int
    rounds: int
    cold_parts: int  # how many of PARTS are loaded from a cold cache
    training: tuple
    slow: int  # bytes of each set for the slow programs and our slow levels
    slowest: int
    tensors: tuple
    sizes: tuple


FULL = Scale(GIB, 400_000_000, 256 * MIB, 5, 4, ("--steps", 200), 128 * MIB, 16 * MIB,
             (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000), tuple(MIB << n for n in (0, 3, 6, 9, 11, 13)))
QUICK = Scale(64 * MIB, 100_000_000, 32 * MIB, 2, 1, ("--steps", 30, "--width", 192, "--layers", 2), 4 * MIB, MIB,
              (1, 10, 100, 1_000, 10_000), tuple(MIB << n for n in (0, 3, 6)))


class Page:
    """The results of a run: rows with verdicts, further tables, and charts."""

    def __init__(self):
        self.rows, self.sections, self.charts = [], [], {}

    def add(self, row):
        self.rows.append(row)
        print(": ".join(filter(None, (row.figure, row.shown, " ".join(row.verdict())))), file=sys.stderr, flush=True)

    def add_table(self, title, head, lines):
        cells = [head, ["---"] * len(head), *lines]
        self.sections.append(f"### {title}\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in cells))

    def ratio(self, figure, ours, peer, target, shown, note=""):
        """A row that compares two lists of figures, by round: the peer's median by ours."""
        value = statistics.median(peer) / statistics.median(ours)
        by_round = [p / o for o, p in zip(ours, peer)]
        self.add(Row(figure, shown(statistics.median(ours)), shown(statistics.median(peer)) + note, value,
                     f"{value:.2f}x ({min(by_round):.2f} - {max(by_round):.2f})", target))

    def missing(self, figure, peer, reason, target):
        self.add(Row(figure, "", f"{peer}: no figure: {reason}", float("nan"), "", target))


def set_up():
    """Makes the peers' environment, unless it exists. A peer that does not install is left out."""
    done, wanted = HOME / "requirements.txt", REQUIREMENTS.read_text()
    if done.exists() and done.read_text() == wanted:
        return json.loads((HOME / "failed.json").read_text())
    HOME.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "venv", HOME / "venv"], check=True)
    failed = {}
    for line in filter(None, (line.split("#")[0].strip() for line in wanted.splitlines())):
        print(f"installing {line}", file=sys.stderr, flush=True)
        run = subprocess.run([PYTHON, "-m", "pip", "install", "--quiet", "--constraint", REQUIREMENTS, line],
                             capture_output=True, text=True)
        if run.returncode:
            failed[line] = (run.stderr.strip().splitlines() or ["pip failed"])[-1][:200]
    (HOME / "failed.json").write_text(json.dumps(failed))
    done.write_text(wanted)
    return failed


def script(path, *words):
    subprocess.run([PYTHON, ROOT / "bench/data" / path, *map(str, words)], check=True)


def trained(scale):
    """The folder with the training results; it is kept for the next run."""
    folder = HOME / ("model" + "".join(str(word).strip("-") for word in scale.training))
    if not (folder / "model.txt").exists():
        folder.mkdir(exist_ok=True)
        print("training a small model", file=sys.stderr, flush=True)
        script("train.py", folder, *scale.training)
    return folder


def convert(source, target, *options):
    target.unlink(missing_ok=True)
    subprocess.run([CLI, "convert", "--quiet", source, target, *options], check=True)
    return target


def tensor_bytes(file):
    """Bytes of a safetensors file's tensors, without the header."""
    with open(file, "rb") as opened:
        return file.stat().st_size - 8 - int.from_bytes(opened.read(8), "little")


def size_figures(page, work, scale):
    real = trained(scale)
    sets = {f"{name} {dtype}": real / f"{name}-{dtype}.safetensors" for name in MOMENTS for dtype in DTYPES}
    for dtype in SYNTHETIC:
        sets[f"synthetic {dtype}"] = file = work / f"synthetic-{dtype}.safetensors"
        script("synthetic.py", file, "--bytes", scale.synthetic, "--dtype", dtype)
    limits = {"zstd-9": scale.slow, "npz": scale.slow, "h5py gzip": scale.slow, "zstd-19": scale.slowest}
    peers = execute(PYTHON, PYTHON_PEERS, "size", *sets.values(), "--limits",
                    *(f"{name}={limit}" for name, limit in limits.items()))
    ratios = {}  # by set, by program; None where there is no figure
    errors = {}
    for name, file in sets.items():
        raw = tensor_bytes(file)
        ratios[name] = {}
        for level in LEVELS:
            whole = level == 1 or raw <= scale.slow
            ratios[name][f"espalier {level}"] = raw / convert(
                file, work / "size.espalier", f"--compress={level}").stat().st_size if whole else None
        for peer, found in peers[str(file)].items():
            ratios[name][peer] = found["raw"] / found["stored"] if "raw" in found else None
            if "error" in found:
                errors[f"{peer}, {name}"] = found["error"]
        file_is_made = name.startswith("synthetic")
        if file_is_made:
            file.unlink()
    size_rows(page, ratios)
    head = list(next(iter(ratios.values())))
    page.add_table("Ratios: bytes of the tensors by bytes stored", ["data", *head], [
        [name, *(f"{ratio:.3f}" if ratio else "-" for ratio in found.values())] for name, found in ratios.items()])
    page.sections.append(
        f"The real sets are of a language model, {(real / 'model.txt').read_text()}. For the large sets, zstd-9, npz "
        f"and h5py got the first {scale.slow // MIB} MiB, zstd-19 got {scale.slowest // MIB} MiB, and Espalier's levels "
        "above 1 did not run. " + " ".join(f"No figure for {what}: {why}." for what, why in errors.items()))
    for title, chosen in (("real", [f"{name} bf16" for name in MOMENTS]),
                          ("synthetic", [f"synthetic {dtype}" for dtype in SYNTHETIC])):
        page.charts[f"ratio-{title}"] = charts.bars(
            f"Compression ratio of {title} data: longer is smaller files",
            {name: {peer: ratios[name][peer] for peer in ("espalier 1", "zipnn", "zstd-3", "zarr")
                    if ratios[name].get(peer)} for name in chosen}, "")


def size_rows(page, ratios):
    for name, found in ratios.items():
        ours, zipnn, zstd = found["espalier 1"], found["zipnn"], found["zstd-3"]
        bound = SYNTHETIC.get(name.removeprefix("synthetic "))
        if name.startswith("synthetic") and bound:
            page.add(Row(f"ratio: {name}", f"{ours:.3f}", "", ours, f"{ours:.3f}", (">=", bound, f"{bound}")))
        elif name.endswith(" bf16"):
            gain = 1 - zstd / ours
            page.add(Row(f"smaller than zstd-3: {name}", f"{ours:.3f}", f"{zstd:.3f}", gain, f"{gain:.1%}",
                         (">=", 0.15, "15%")))
        target = at_least(1.0)
        if zipnn:
            page.add(Row(f"ratio against zipnn's (Python): {name}", f"{ours:.3f}", f"{zipnn:.3f}", ours / zipnn,
                         f"{ours / zipnn:.4f}x", target))
        else:
            page.missing(f"ratio against zipnn's (Python): {name}", "zipnn", "see below", target)
    worst = min(ratios, key=lambda name: ratios[name]["espalier 1"])
    larger = 1 / ratios[worst]["espalier 1"] - 1
    page.add(Row(f"a file at most 0.1% larger than its tensors (worst: {worst})", f"{1 + larger:.5f}", "", larger,
                 f"{larger:+.3%}", ("<=", 0.001, "0.1%")))


def codec_figures(page, work, scale):
    made = work / "codec.safetensors"
    script("synthetic.py", made, "--bytes", scale.codec, "--dtype", "bf16")
    bars = {}
    for name, file in (("synthetic bf16", made), ("weights bf16", trained(scale) / "weights-bf16.safetensors")):
        ours = (OURS, "codec", file, "--level", 1, "--repeat", 4)
        sides = {"espalier": ours, "espalier, 2 threads": (*ours, "--threads", 2),
                 "zstd-3": (OURS, "codec", file, "--zstd", "--level", 3, "--repeat", 4),
                 "zstd-1": (OURS, "codec", file, "--zstd", "--level", 1, "--repeat", 4),
                 "zipnn": (PYTHON, PYTHON_PEERS, "codec", file, "--repeat", 4)}
        found = dict(zip(sides, interleave(scale.rounds, *sides.values(), run=attempt)))
        errors, size = failures(found), tensor_bytes(file)
        for action in ("compress", "decode"):
            times = {side: [middle(r, f"{action}_ns") for r in reports] for side, reports in found.items()
                     if side not in errors}

            def show(ns):
                return speed(ns, size)
            for peer, bound in (("zstd-3", 1.6 if action == "compress" else 2.2), ("zipnn", 1.2)):
                figure = f"{action}, 1 thread, against {peer}{' (Python)' * (peer == 'zipnn')}: {name}"
                if peer in times:
                    page.ratio(figure, times["espalier"], times[peer], at_least(bound), show)
                else:
                    page.missing(figure, peer, errors[peer], at_least(bound))
            page.ratio(f"{action}, 2 threads (left) against 1: {name}", times["espalier, 2 threads"],
                       times["espalier"], at_least(1.8), show)
            bars[f"{action}, {name}"] = {side: size / statistics.median(ns) for side, ns in times.items()}
    level_table(page, trained(scale))
    page.charts["codec"] = charts.bars("Compressing and decoding in memory, one thread unless said", bars, "GB/s")


def level_table(page, real):
    """The ratio and speed of each level on real data."""
    lines = []
    for name in ("weights-bf16", "adam-v-bf16", "adam-v-f32"):
        size = tensor_bytes(real / f"{name}.safetensors")
        for level in range(1, 10):
            report = execute(OURS, "codec", real / f"{name}.safetensors", "--level", level, "--repeat", 3)
            times = [middle(report, "compress_ns"), middle(report, "decode_ns")]
            lines.append([name.replace("-", " "), str(level), f"{report['raw_bytes'] / report['stored_bytes']:.3f}",
                          *(f"{size / ns * 1000:,.0f} MB/s" for ns in times)])
    page.add_table("Levels: ratio of the chunks alone, and speed with one thread, hash included",
                   ["data", "level", "ratio", "compress", "decode"], lines)


def state_figures(page, work, scale):
    source = work / "state.safetensors"
    script("synthetic.py", source, "--state", "--bytes", scale.state)
    nested = convert(source, work / "nested.espalier", "--nest")
    files = {"espalier": work / "state.espalier", "espalier, 2 threads": work / "threads.espalier",
             "espalier, compressed": work / "compressed.espalier",
             "crate": work / "crate.safetensors", **{STATE_PEERS[peer]: work / peer for peer in STATE_PEERS}}
    sizes, times, errors = save_states(page, scale, source, nested, files)
    alive = {side: file for side, file in files.items() if side not in errors}
    for part in PARTS:
        load_states(page, scale, alive, "warm", part, times, errors)
    for part in PARTS[:scale.cold_parts]:
        load_states(page, scale, alive, "cold", part, times, errors)
    compressed = sizes.pop("espalier, compressed")
    del sizes["espalier, 2 threads"]  # the same bytes
    for side, size in sizes.items():
        page.add(Row(f"compressed state against {side}'s file", f"{compressed / MIB:.1f} MiB", f"{size / MIB:.1f} MiB",
                     size / compressed, f"{size / compressed:.3f}x", at_least(1.0)))
    for cache in ("warm", "cold"):
        found = times[f"load all, {cache}"]
        peers = {side: ns for side, ns in found.items() if not side.startswith("espalier")}
        fastest = min(peers, key=lambda side: statistics.median(peers[side]))
        value = statistics.median(found["espalier, compressed"]) / statistics.median(peers[fastest])
        page.add(Row(f"load all compressed, {cache}, against the fastest uncompressed peer: {fastest}",
                     duration(statistics.median(found["espalier, compressed"])),
                     duration(statistics.median(peers[fastest])), value, f"{value:.2f}x of its time",
                     ("<=", 1.5, "1.5x")))
    sides = list(files)
    page.add_table("Whole states: medians", ["", *sides], [
        [name, *(duration(statistics.median(found[side])) if side in found else "-" for side in sides)]
        for name, found in times.items()])
    if errors:
        page.sections.append("Without a figure: " + "; ".join(f"{side}: {why}" for side, why in errors.items()) + ".")
    page.charts["state"] = charts.bars(
        "A training state, one thread, page cache warm: shorter is faster",
        {name: {side: statistics.median(ns) / 1e6 for side, ns in times[name].items()}
         for name in ("save", "load all, warm", "load a subtree, warm")}, "ms")


def failures(found):
    """The reasons for missing figures: the first error of each side."""
    errors = {side: [r["error"] for r in reports if "error" in r] for side, reports in found.items()}
    return {side: texts[0] for side, texts in errors.items() if texts}


def save_states(page, scale, source, nested, files):
    def settle():
        os.sync()
    ours = (OURS, "resave", nested, "--repeat", 3)
    sides = {"espalier": (*ours, "--out", files["espalier"]),
             "espalier, 2 threads": (*ours, "--threads", 2, "--out", files["espalier, 2 threads"]),
             "espalier, compressed": (*ours, "--level", 1, "--out", files["espalier, compressed"]),
             "crate": (PEER, "resave", source, "--out", files["crate"], "--repeat", 3),
             **{name: (PYTHON, PYTHON_PEERS, "save", source, "--peer", peer, "--out", files[name], "--repeat", 3)
                for peer, name in STATE_PEERS.items()}}
    found = dict(zip(sides, interleave(scale.rounds, *sides.values(), settle=settle, run=attempt)))
    errors = failures(found)
    saves = {side: [middle(r, "save_ns") for r in reports] for side, reports in found.items() if side not in errors}
    compare_sides(page, "save", saves, errors)
    return {side: found[side][0]["file_bytes"] for side in saves}, {"save": saves}, errors


def load_part(side, file, part):
    """The command that loads a part once, into fresh memory."""
    if side == "crate":
        return (PEER, "load", file, *(["--prefix", part.prefix] if part.prefix else []),
                *(["--begin", part.rows[0], "--end", part.rows[1]] if part.rows else []))
    if side in STATE_PEERS.values():
        peer = next(peer for peer, name in STATE_PEERS.items() if name == side)
        shown = ":".join(map(str, (part.prefix, *part.rows))) or ":"
        return PYTHON, PYTHON_PEERS, "load", file, "--peer", peer, "--part", shown
    # Slices and decoded chunks get their own memory, whatever the source.
    is_mapped = part.rows or "compressed" in side
    return (OURS, "load", file, "--path", part.path, *(["--rows", *part.rows] if part.rows else []),
            *(["--mapped"] if is_mapped else []), *(["--threads", 2] if "2 threads" in side else []))


def load_states(page, scale, files, cache, part, times, errors):
    """One sample for each process, because a program loads its checkpoint once and has no memory to reuse."""
    def settle():
        if cache == "cold":
            for file in files.values():
                evict(file)
    sides = {side: load_part(side, file, part) for side, file in files.items()
             if side != STATE_PEERS["orbax"] or not part.prefix}
    if cache == "warm":
        for file in files.values():
            reload(file)
    found = dict(zip(sides, interleave(scale.rounds, *sides.values(), settle=settle, run=attempt)))
    failed = failures(found)
    errors |= {f"{side}, {cache}": why for side, why in failed.items()}
    loads = {side: [r["load_ns"][0] for r in reports] for side, reports in found.items() if side not in failed}
    figure = f"{part.name}, {cache}"
    times[figure] = loads
    compare_sides(page, figure, loads, failed)


def compare_sides(page, figure, found, errors):
    for side, ns in found.items():
        if not side.startswith("espalier"):
            page.ratio(f"{figure}: against {side}", found["espalier"], ns, at_least(1.0), duration)
    for side, why in errors.items():
        page.missing(f"{figure}: against {side}", side, why, at_least(1.0))


def counts_figures(page, work, scale):
    source = work / "counts.safetensors"
    script("synthetic.py", source, "--bytes", scale.synthetic, "--dtype", "bf16")
    file = convert(source, work / "counts.espalier", "--compress")
    row = 8192  # bytes
    report = execute(OURS, "load", file, "--path", "weight", "--rows", 1000, 1000 + MIB // row)
    calls, read = report["read_calls"][0], report["read_bytes"][0]
    page.add(Row(f"one slice of 1 MiB of {scale.synthetic // MIB:,} MiB, compressed: chunks read",
                 f"{report['chunks']} chunks, {calls} reads, {read / MIB:.2f} MiB", "", calls, f"{calls}",
                 ("<=", 2, "2 chunks")))
    script("synthetic.py", source, "--state", "--bytes", scale.state)
    for options, kind in ((["--nest"], "uncompressed"), (["--nest", "--compress"], "compressed")):
        file = convert(source, work / "counts.espalier", *options)
        for access in ("read", "--mapped"):
            evict(file)
            report = execute(OURS, "load", file, "--path", "optimizer/layers/1",
                             *([access] if access.startswith("-") else []))
            stored, device = report["stored_bytes"], report["device_bytes"][0]
            page.add(Row(f"cold subtree, {kind}, {access.strip('-')}: bytes from the disk by bytes stored",
                         f"{device / MIB:.2f} MiB of {stored / MIB:.2f} MiB", "", device / stored,
                         f"{device / stored:.3f}x", ("<=", 1.1, "1.1x")))


def linear_figures(page, work, scale):
    file = work / "linear.espalier"
    by_tensors = {name: [] for name in ("save", "open", "list", "load", "verify")}
    for count in scale.tensors:
        saves = [execute(OURS, "make", file, "--tensors", count, "--names", "flat", "--no-sync")["save_ns"][0]
                 for _ in range(scale.rounds)]
        opened = execute(OURS, "open", file, "--repeat", 5)
        loaded = execute(OURS, "load", file, "--mapped", "--repeat", 5)
        verified = execute(OURS, "verify", file, "--repeat", 5)
        for name, samples in (("save", saves), ("open", opened["open_ns"]), ("list", opened["list_ns"]),
                              ("load", loaded["load_ns"]), ("verify", verified["verify_ns"])):
            by_tensors[name].append((count, max(min(samples), 1)))
        file.unlink()
    by_bytes = {f"{name}{kind}": [] for kind in ("", ", compressed") for name in ("save", "load", "verify")}
    for level, kind in ((0, ""), (1, ", compressed")):
        for size in scale.sizes:
            repeat = ["--repeat", 5 if size < GIB else 2]
            saved = execute(OURS, "save", file, "--bytes", size, "--tensors", 64, "--fresh", "--level", level, *repeat)
            loaded = execute(OURS, "load", file, *repeat)
            verified = execute(OURS, "verify", file, *repeat)
            for name, samples in (("save", saved["save_ns"]), ("load", loaded["load_ns"]),
                                  ("verify", verified["verify_ns"])):
                by_bytes[name + kind].append((size, min(samples)))
            file.unlink()
    for what, series, first in (("tensors", by_tensors, 100), ("bytes", by_bytes, 8 * MIB)):
        for name, line in series.items():
            large = [point for point in line if point[0] >= first]
            # Growth of the time by growth of the work, at its worst from one point to the next.
            steps = [(b[1] / a[1]) / (b[0] / a[0]) for a, b in zip(large, large[1:])]
            worst = max(steps, default=float("nan"))
            page.add(Row(f"growth with {what}: {name}, {large[0][0]:,} to {large[-1][0]:,}",
                         f"{duration(large[0][1])} to {duration(large[-1][1])}", "", worst,
                         f"{worst:.2f}x of linear at worst", ("<=", 1.5, "1.5x")))
        page.charts[f"linear-{what}"] = charts.lines(f"Time by {what}, one thread",
                                                    series, what, "nanoseconds")


def peer_facts(failed):
    versions = {name: version for name, version in execute(PYTHON, PYTHON_PEERS, "versions").items()}
    known = {"Python peers": ", ".join(f"{name} {version or '(not installed)'}" for name, version in versions.items())}
    if failed:
        known["Did not install"] = "; ".join(f"{name}: {why}" for name, why in failed.items())
    return known


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true",
                        help="small inputs, two rounds: to try the script out, not for results")
    parser.add_argument("--only", type=one_of(GROUPS), default=GROUPS, help=",".join(GROUPS))
    parser.add_argument("--work", type=pathlib.Path, help="folder for the inputs")
    parser.add_argument("--output", type=pathlib.Path, help="page to write the figures into, and charts beside it")
    parser.add_argument("--build", action="store_true", help="build the programs first")
    return parser.parse_args()


def show(page, known, options):
    text = as_list(known) + "\n\n" + table(page.rows)
    if options.quick:
        text = "**A quick run: small inputs, few rounds. Not results.**\n\n" + text
    if options.output:
        folder = options.output.resolve().parent / "charts"
        folder.mkdir(exist_ok=True)
        for name, chart in page.charts.items():
            (folder / f"{name}.svg").write_text(chart)
        text += "\n\n" + "\n\n".join(f"![{name}](charts/{name}.svg)" for name in page.charts)
    return "\n\n".join([text, *page.sections])


def main():
    options = arguments()
    if options.build:
        build(BUILD_OURS + BUILD_CLI, ROOT)
        build(BUILD_PEER, PEER_FOLDER)
    require_programs()
    if not CLI.exists():
        sys.exit(f"{CLI.relative_to(ROOT)} is missing; --build makes it")
    parent = working_folder(options.work, MINIMUM_FREE)
    failed = set_up()
    scale = QUICK if options.quick else FULL
    page = Page()
    with tempfile.TemporaryDirectory(prefix="peers-", dir=parent) as folder:
        for group in options.only:
            work = pathlib.Path(folder) / group
            work.mkdir()
            if group == options.only[0]:
                known = machine_facts(work) | {"Rounds": f"{scale.rounds}"} | peer_facts(failed)
            globals()[f"{group}_figures"](page, work, scale)
            shutil.rmtree(work)
    text = show(page, known, options)
    print(text)
    if options.output:
        put_between_markers(options.output, text, BEGIN, END)


if __name__ == "__main__":
    main()
