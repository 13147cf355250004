#!/usr/bin/env python3
"""Times the npm package beside its peers and judges its targets. bench/README.md explains it."""

import argparse
import contextlib
import dataclasses
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

from harness import (BUILD_OURS, GIB, MIB, OURS, ROOT, Row, as_list, at_most, attempt, build, collect, compare,
                     duration, execute, first_line, interleave, machine_facts, middle, one_of, put_between_markers, speed,
                     table, working_folder)

GROUPS = ("size", "remote", "million", "decode", "large")
BEGIN, END = "<!-- figures begin: bench/web.py writes the lines below -->", "<!-- figures end -->"
WEB, PACKAGE = ROOT / "bench/web", ROOT / "wasm"
CLI = ROOT / "build/release/espalier"
MODULES = [PACKAGE / "dist" / name for name in ("core.wasm", "core-all.wasm", "engine.wasm")]
LATENCY_MS = 20
KB = 1024
MINIMUM_FREE = 4 * GIB


@dataclasses.dataclass
class Scale:
    """How much work a run does."""
    pairs: int
    samples: int  # of each process
    tensors: int
    arrays: int
    bytes: int  # of each file that is decoded; four times that is hashed
    large: int


FULL = Scale(5, 5, 999_999, 32, 64 * MIB, 20 * GIB)
QUICK = Scale(2, 3, 99_999, 8, 16 * MIB, 5 * GIB)


def node(script, *arguments):
    return ("node", "--expose-gc", "--no-warnings", WEB / script, *arguments)


def make(*arguments):
    execute(*node("data.mjs", *arguments))


@contextlib.contextmanager
def server(folder):
    """A server for the files of a folder: its address."""
    process = subprocess.Popen(["node", WEB / "server.mjs", folder, str(LATENCY_MS)], stdout=subprocess.PIPE, text=True)
    try:
        yield f"http://127.0.0.1:{json.loads(process.stdout.readline())['port']}"
    finally:
        process.terminate()
        process.wait()


def spread(values, show):
    """The median of the processes' figures, and their range."""
    return f"{show(statistics.median(values))} ({show(min(values))} - {show(max(values))})"


def within_ms(figure, values, bound, ours="", peer=""):
    """A row for times with an upper bound in milliseconds; one time for each process."""
    median = statistics.median(values) / 1e6
    return Row(figure, ours or spread(values, duration), peer, median, duration(median * 1e6),
               at_most(bound, "ms") if bound else None)


def throughput(figure, values, size, bound, peer=""):
    rates = [size / ns for ns in values]
    median = statistics.median(rates)
    return Row(figure, speed(statistics.median(values), size), peer, median,
               spread(rates, lambda rate: f"{rate:.1f}") + " GB/s",
               (">=", bound, f"{bound} GB/s") if bound else None)


def kilobytes(size):
    return f"{size / KB:.1f} KB"


def size_figures(work, scale):
    del work, scale
    sizes = execute(*node("size.mjs"))
    packed = {name: part["gzip"] for name, part in sizes.items() if isinstance(part, dict)}

    def row(figure, parts, bound=None, peer=""):
        total = sum(parts)
        return Row(figure, " + ".join(kilobytes(part) for part in parts), peer, total / KB, kilobytes(total),
                   at_most(bound, "KB") if bound else None)

    peers = "; ".join(f"{name}: {kilobytes(packed[key])}" for name, key in (
        ("huggingface.js", "huggingface"), ("hyparquet", "hyparquet"), ("h5wasm", "h5wasm")))
    yield row("gzipped: what a page that lists Espalier files loads, JavaScript and core.wasm",
              (packed["list"], packed["core"]), 64)
    yield row("gzipped: the same for all other formats, with core-all.wasm instead",
              (packed["list"], packed["all"]))
    yield row("gzipped: what a page that reads loads, with engine.wasm besides",
              (packed["open"], packed["core"], packed["engine"]), peer=peers)
    yield Row("the package, unpacked", f"{sizes['package']:,} bytes", "", sizes["package"],
              f"{sizes['package'] / 1e6:.2f} MB", ("<", 1.7e6, "1.7 MB"))


def traffic(report):
    size = report["bytes"]
    return f"{report['requests']} req., " + (kilobytes(size) if size < MIB else f"{size / MIB:.1f} MiB")


def remote_pair(scale, figure, base, ours, *peers):
    """A row for each peer. A side is a program, a task and a file."""
    samples = scale.samples + 1
    reports = interleave(scale.pairs, *(node("remote.mjs", program, task, base, file, samples)
                                        for program, task, file in (ours, *peers)))
    mine = reports[0]
    for (program, _, _), theirs in zip(peers, reports[1:]):
        for key in ("arrays", "elements", "read", "sample"):
            if mine[0].get(key) != theirs[0].get(key):
                sys.exit(f"{figure}: {program} did not see the same: {key}")
        row = compare(f"{figure}, beside {program}", [middle(r, "samples") for r in mine],
                      [middle(r, "samples") for r in theirs])
        row.ours = f"{traffic(mine[0])}, {row.ours}"
        row.peer = f"{traffic(theirs[0])}, {row.peer}"
        yield row


def remote_figures(work, scale):
    make("arrays", work, scale.arrays, 1 << 18)
    make("matrix", work / "matrix.espalier", 4096, 4096)
    execute(OURS, "make", work / "typical.espalier", "--tensors", 699, "--names", "training")
    execute(CLI, "convert", "--json", work / "typical.espalier", work / "typical.safetensors", "--no-sync",
            "--unrepresentable=drop")
    arrays = f"{scale.arrays} arrays of 1 MiB"
    with server(work) as base:
        for file, label in (("arrays.safetensors", arrays), ("typical.safetensors", "699 tensors")):
            yield from remote_pair(scale, f"open and list a .safetensors file, {label}", base,
                                   ("espalier", "list", file), ("huggingface", "list", file))
        for task, label in (("list", "open and list"), ("one", "open, list, read one array"),
                            ("all", "open, list, read all arrays")):
            yield from remote_pair(scale, f"{label}: {arrays}", base, ("espalier", task, "arrays.espalier"),
                                   ("hyparquet", task, "arrays.parquet"), ("h5wasm", task, "arrays.h5"))
        report = execute(*node("remote.mjs", "espalier", "list", base, "typical.espalier", 2))
        yield Row("requests to open and list 699 tensors, .espalier", traffic(report), "", report["requests"],
                  str(report["requests"]), at_most(1, "request"))
        yield Row("bytes for that", traffic(report), "", report["bytes"] / KB, kilobytes(report["bytes"]), at_most(64, "KiB"))
        report = execute(*node("remote.mjs", "espalier", "some", base, "arrays.espalier", 2))
        index = execute(OURS, "open", work / "arrays.espalier")["index_bytes"]
        share = report["bytes"] / (report["needed"] + index)
        yield Row(f"bytes to open, and to load every eighth of {arrays}, by index and stored bytes", traffic(report),
                  f"index: {kilobytes(index)}", share, f"{share:.3f}x", ("<=", 1.05, "1.05x"))
        report = execute(*node("remote.mjs", "espalier", "row", base, "matrix.espalier", 2))
        chunks = (report["bytes"] - 64 * KB) / MIB
        yield Row("chunks (of 1 MiB) to read one row of a 4096 x 4096 f32 matrix", traffic(report), "", chunks,
                  f"{chunks:.2f}", at_most(2, "chunks"))


def million_figures(work, scale):
    samples = scale.samples
    for names in ("training", "flat"):
        file = work / f"{names}.espalier"
        execute(OURS, "make", file, "--tensors", scale.tensors, "--names", names, "--no-sync")
        index = execute(OURS, "open", file)["index_bytes"]
        label = f"{names}, {scale.tensors:,} tensors"
        sides = [node("local.mjs", "open", file, samples), (OURS, "open", file, "--repeat", samples)]
        if names == "flat":
            make("header", work / "header.json", file)
            sides.append(node("local.mjs", "json", work / "header.json", 2))
        opened, native, *parsed = interleave(scale.pairs, *sides)
        again = [middle(r, "open_ns") for r in opened]
        beside = f"native: {duration(statistics.median(middle(r, 'open_ns') for r in native))}"
        yield within_ms(f"open from memory, first in its process: {label}", [r["open_ns"][0] for r in opened], 150)
        yield within_ms(f"open from memory, again: {label}", again, 150, peer=beside)
        if parsed:
            size = (work / "header.json").stat().st_size
            yield compare(f"open (left) beside JSON.parse of a safetensors header of {size / 1e6:.0f} MB: {label}", again,
                          [middle(r, "json_ns") for r in parsed[0]])
        memory = opened[0]["memory"]
        yield Row(f"memory of the core by index: {label}", f"{memory / MIB:.1f} MiB", f"index: {index / MIB:.1f} MiB",
                  memory / index, f"{memory / index:.2f}x", ("<=", 2, "2x"))
        with server(work) as base:
            report = execute(*node("remote.mjs", "espalier", "open", base, file.name, 2))
        yield Row(f"requests to open over HTTP: {label}", traffic(report), "", report["requests"], str(report["requests"]),
                  at_most(2, "requests"))
        matched = [execute(*node("local.mjs", "match", file, 2 * samples))["patterns"] for _ in range(scale.pairs)]
        patterns = [pattern for pattern, report in matched[0].items() if report["matches"] > 0]
        for when, take in (("first call", lambda r: r["match_ns"][0]), ("again", lambda r: middle(r, "match_ns"))):
            times = {p: [take(report[p]) for report in matched] for p in patterns}
            shown = ", ".join(f"`{p}` {duration(statistics.median(t))}" for p, t in times.items())
            yield within_ms(f"tensors() with a pattern, {when}, the slowest: {label}",
                            max(times.values(), key=statistics.median), 30, ours=shown)


def decode_figures(work, scale):
    samples = scale.samples
    for dtype in ("bf16", "f32"):
        plain, packed = work / f"{dtype}.safetensors", work / f"{dtype}.espalier"
        make("normal", plain, dtype, scale.bytes)
        execute(CLI, "convert", "--json", "--compress=1", "--no-sync", plain, packed)
        ours, codec, load = interleave(
            scale.pairs, node("local.mjs", "decode", packed, samples),
            (OURS, "codec", packed, "--level", 1, "--threads", 1, "--repeat", samples),
            (OURS, "load", packed, "--threads", 1, "--repeat", samples))
        label = f"{dtype}, {scale.bytes // MIB} MiB"
        yield compare(f"decode and check, core against native codec: {label}", [middle(r, "core_ns") for r in ours],
                      [middle(r, "decode_ns") for r in codec], 0.6, scale.bytes)
        yield compare(f"open and read all, API against native load: {label}", [middle(r, "api_ns") for r in ours],
                      [middle(r, "load_ns") for r in load], size=scale.bytes)
    file, size = work / "hash.espalier", 4 * scale.bytes
    execute(OURS, "save", file, "--bytes", size, "--tensors", 4, "--fresh")
    ours, native = interleave(scale.pairs, node("local.mjs", "verify", file, samples),
                              (OURS, "hash", file, "--threads", 1, "--populate", "--repeat", samples))
    beside = "native: " + speed(statistics.median(middle(r, "hash_ns") for r in native), size)
    for what, key in (("core", "core_ns"), ("API", "api_ns")):
        yield throughput(f"XXH3-128, verify without compression, {what}: {size // MIB} MiB", [middle(r, key) for r in ours],
                         size, 5 if what == "core" else None, beside)
    plain, file = work / "bf16.safetensors", work / "stats.espalier"
    execute(CLI, "convert", "--json", "--no-sync", plain, file)
    reports = [execute(*node("local.mjs", "stats", file, samples)) for _ in range(scale.pairs)]
    native = attempt(OURS, "stats", "--repeat", samples)
    beside = "" if "error" in native else f"native, 256 MiB: {speed(middle(native, 'bf16_ns'), 256 * MIB)}"
    label = f"{scale.bytes // MIB} MiB"
    yield throughput(f"bf16 statistics, counting alone: {label}", [middle(r, "count_ns") for r in reports],
                     reports[0]["counted"], None, beside)
    yield throughput(f"bf16 statistics, copied in and checked, core: {label}", [middle(r, "core_ns") for r in reports],
                     scale.bytes, None)
    yield throughput(f"bf16 statistics, checked, API, stats(): {label}", [middle(r, "api_ns") for r in reports], scale.bytes, 2)


def large_figures(work, scale):
    file = work / "large.espalier"
    make("sparse", file, scale.large)
    reports = [execute(*node("local.mjs", "large", file, scale.samples)) for _ in range(min(scale.pairs, 2))]
    report = reports[0]
    size = report["file_bytes"]
    label = f"{size / GIB:.0f} GiB, sparse, {report['tensors']} tensors"
    yield within_ms(f"open through a file handle: {label}", [middle(r, "open_ns") for r in reports], None,
                    peer=f"{report['requests']} reads, {kilobytes(report['bytesFetched'])}")
    yield within_ms(f"read and check the last 4 MiB of it: {label}", [middle(r, "read_ns") for r in reports], None)
    yield throughput(f"verify: {label}", [r["verify_ns"][0] for r in reports], size, None)
    memory = report["memory_verify"] / MIB
    yield Row(f"memory of the core: {label}", f"open: {report['memoryBytes'] / MIB:.1f} MiB, read: "
              f"{report['memory_read'] / MIB:.1f} MiB, verified: {memory:.1f} MiB", "", memory, f"{memory:.1f} MiB",
              at_most(256, "MiB"))


def peers():
    chosen = json.loads((WEB / "package.json").read_text())["devDependencies"]
    return ", ".join(f"{name} {version}" for name, version in chosen.items())


def prepare(wanted):
    """Builds everything, or names what is missing."""
    if wanted:
        build([*BUILD_OURS, ["cmake", "--build", "build/release", "--target", "espalier"], ["scripts/wasm"]], ROOT)
    for program in (OURS, CLI, *MODULES):
        if not program.exists():
            sys.exit(f"{program.relative_to(ROOT)} is missing; --build makes it")
    # In seconds, and always: what is timed is what stands there.
    for folder in (PACKAGE, WEB):
        if not (folder / "node_modules").exists():
            build([["npm", "ci"]], folder)
    build([["npm", "run", "--silent", "build"]], PACKAGE)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small inputs, few samples: to try the script out, not "
                        "for results")
    parser.add_argument("--only", type=one_of(GROUPS), default=GROUPS, help=",".join(GROUPS))
    parser.add_argument("--work", type=pathlib.Path, help="folder for the inputs")
    parser.add_argument("--output", type=pathlib.Path, help="page to write the table into")
    parser.add_argument("--build", action="store_true", help="build programs and package first")
    return parser.parse_args()


def main():
    options = arguments()
    prepare(options.build)
    parent = working_folder(options.work, MINIMUM_FREE)
    scale = QUICK if options.quick else FULL
    with tempfile.TemporaryDirectory(prefix="bench-web-", dir=parent) as folder:
        work = pathlib.Path(folder)
        known = machine_facts(work)
        del known["Crate"]
        known |= {"Node": first_line("node", "--version"), "Peers": peers(),
                  "Server": f"on the same machine, {LATENCY_MS} ms before each answer",
                  "Processes": f"{scale.pairs} of each figure"}
        rows = collect([globals()[f"{group}_figures"] for group in options.only], work, scale)
    text = as_list(known) + "\n\n" + table(rows)
    if options.quick:
        text = "**A quick run: small inputs, few samples. Not results.**\n\n" + text
    print(text)
    if options.output:
        put_between_markers(options.output, text, BEGIN, END)


if __name__ == "__main__":
    main()
