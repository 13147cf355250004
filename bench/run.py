#!/usr/bin/env python3
"""Times Espalier beside its peers and judges the project's targets. bench/README.md explains it."""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
OURS = ROOT / "build/release/espalier_bench"
PEER_FOLDER = ROOT / "bench/peers/safetensors_rs"
PEER = PEER_FOLDER / "target/release/safetensors_rs"
BUILD_OURS = [["cmake", "--preset", "release"],
              ["cmake", "--build", "build/release", "--target", "espalier_bench"]]
BUILD_PEER = [["cargo", "build", "--release"]]
GROUPS = ("open", "read", "save", "memory")
BEGIN, END = "<!-- figures begin: bench/run.py writes what follows -->", "<!-- figures end -->"
MIB, GIB = 1 << 20, 1 << 30
TENSORS = 64  # of the large files
MINIMUM_FREE = 8 * GIB


@dataclasses.dataclass
class Scale:
    """How much work a run does."""
    divisor: int  # of tensor counts above 1,000, and of bytes
    pairs: int
    address_space: int  # for the save from producers; large enough for the program itself

    def tensors(self, count):
        return count if count <= 1000 else count // self.divisor

    def bytes(self, count):
        return count // self.divisor


FULL, QUICK = Scale(1, 11, 512 * MIB), Scale(16, 3, 128 * MIB)


@dataclasses.dataclass
class Row:
    """A line of the result. `value` is compared with the target (relation, bound)."""
    figure: str
    ours: str
    peer: str
    value: float
    shown: str
    target: tuple = None

    def verdict(self):
        if self.target is None:
            return "none", ""
        relation, bound, text = self.target
        met = self.value >= bound if relation == ">=" else self.value <= bound
        return f"{relation} {text}", "met" if met else "MISSED"


def at_least(ratio):
    return (">=", ratio, f"{ratio}x")


def at_most(bound, unit):
    return ("<=", bound, f"{bound:,.0f} {unit}")


def execute(program, *arguments, address_space=None):
    """Runs a program in a fresh process: what it reports, or None if it failed under a limit."""
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True,
                          preexec_fn=limit if address_space else None)
    if done.returncode == 0:
        return json.loads(done.stdout)
    if address_space:
        return None
    sys.exit(f"{program} {' '.join(map(str, arguments))}: {done.stderr.strip()}")


def middle(report, *spans):
    """The median over a process's samples, each the sum of `spans`, without its first one."""
    return statistics.median([sum(parts) for parts in zip(*(report[s] for s in spans))][1:])


def interleave(pairs, *sides, settle=lambda: None):
    """Runs every side once in each round, every second round backwards. Reports by side."""
    reports = [[] for _ in sides]
    for i in range(pairs):
        order = range(len(sides)) if i % 2 == 0 else reversed(range(len(sides)))
        for side in order:
            settle()
            reports[side].append(execute(*sides[side]))
    settle()
    return reports


def reload(file):
    """Brings a file into the page cache afresh, so that how it was written leaves no trace."""
    with open(file, "rb", buffering=0) as opened:
        os.fsync(opened)
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while opened.read(MIB):
            pass


def duration(ns):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}" if ns < 100 * size else f"{ns / size:.0f} {unit}"
    return f"{ns:.0f} ns"


def speed(ns, size):
    return f"{duration(ns)}, {size / ns:.1f} GB/s"


def compare(figure, ours, peer, target=None, size=None):
    """How many times the peer's time is ours; both are lists of processes' medians, by pair."""
    show = (lambda ns: speed(ns, size)) if size else duration
    ratio = statistics.median(peer) / statistics.median(ours)
    by_pair = [p / o for o, p in zip(ours, peer)]
    return Row(figure, show(statistics.median(ours)), show(statistics.median(peer)), ratio,
               f"{ratio:.2f}x ({min(by_pair):.2f} - {max(by_pair):.2f})",
               at_least(target) if target else None)


def open_figures(work, scale):
    targets = {1_000: 8, 100_000: 25, 1_000_000: 25}
    for names in ("training", "flat"):
        nested = ["--nested-names"] if names == "training" else []
        for nominal, target in targets.items():
            count = scale.tensors(nominal)
            if names == "training":
                count -= count % 3  # a weight and its two moments: as many tensors on both sides
            our_file, peer_file = work / "open.espalier", work / "open.safetensors"
            execute(OURS, "make", our_file, "--tensors", count, "--names", names)
            execute(PEER, "make", peer_file, "--tensors", count, "--elements", 4, *nested)
            # The crate's own `open` refuses the header of a million tensors.
            peer_command = "parse" if nominal == 1_000_000 else "open"
            repeat = 101 if count <= 1000 else 7
            ours, peer = interleave(scale.pairs, (OURS, "open", our_file, "--repeat", repeat),
                                    (PEER, peer_command, peer_file, "--repeat", repeat))
            label = f"{names}, {count:,} tensors"
            both = [middle(r, "open_ns", "list_ns") for r in ours]
            if peer_command == "open":
                yield compare(f"open + list against open + list: {label}", both,
                              [middle(r, "open_ns", "list_ns") for r in peer], target)
            else:
                parse = [middle(r, "parse_ns") for r in peer]
                yield compare(f"open against parse: {label}",
                              [middle(r, "open_ns") for r in ours], parse, target)
                yield compare(f"open + list against parse: {label}", both, parse, target)
    for names in ("training", "model", "flat"):
        file = work / "open.espalier"
        execute(OURS, "make", file, "--tensors", scale.tensors(1_000_000), "--names", names)
        report = execute(OURS, "open", file)
        each = report["index_bytes"] / report["tensors"]
        yield Row(f"index bytes per tensor: {names}, {report['tensors']:,} tensors",
                  f"{report['index_bytes']:,} bytes", "", each, f"{each:.1f}",
                  at_most(80, "bytes") if names != "flat" else None)
    small, large = work / "small.espalier", work / "large.espalier"
    elements = scale.bytes(GIB) // 4 // 1024
    execute(OURS, "make", small, "--tensors", 1000, "--elements", 4, "--names", "training")
    execute(OURS, "make", large, "--tensors", 1000, "--elements", elements, "--names", "training")
    large_open, small_open = ([middle(r, "open_ns") for r in side] for side in interleave(
        scale.pairs, (OURS, "open", large, "--repeat", 101), (OURS, "open", small, "--repeat", 101)))
    yield compare(f"open alone: 1,000 tensors of {elements:,} elements (left) and of 4 (right)",
                  large_open, small_open)


def read_figures(work, scale):
    our_file, peer_file = work / "read.espalier", work / "read.safetensors"
    size = scale.bytes(GIB)
    content = ("--bytes", size, "--tensors", TENSORS, "--fresh")
    execute(OURS, "save", our_file, *content)
    execute(PEER, "save", peer_file, *content)
    reload(our_file)
    reload(peer_file)
    for threads in (1, 2):
        how = ("--threads", threads, "--repeat", 5)
        ours, peer = interleave(scale.pairs, (OURS, "read", our_file, *how),
                                (PEER, "read", peer_file, *how))
        if len({r["checksum"] for r in ours} | {int(r["checksum"], 16) for r in peer}) != 1:
            sys.exit("the two programs did not read the same bytes")
        label = f"{size // MIB:,} MiB, threads: {threads}"
        yield compare(f"read without check against read: {label}",
                      [middle(r, "read_ns") for r in ours],
                      [middle(r, "read_ns") for r in peer], 1.0, size)
        checked, verified, hashed = interleave(
            scale.pairs, (OURS, "read", our_file, "--check", *how),
            (OURS, "verify", our_file, *how), (OURS, "hash", our_file, *how))
        hashed = [middle(r, "hash_ns") for r in hashed]
        yield compare(f"read with check against XXH3-128 alone: {label}",
                      [middle(r, "read_ns") for r in checked], hashed, 0.8, size)
        yield compare(f"verify against XXH3-128 alone: {label}",
                      [middle(r, "verify_ns") for r in verified], hashed, size=size)


def save_figures(work, scale):
    size = scale.bytes(GIB)
    file = work / "save"

    def settle():
        """Leaves no dirty page of one process to be written out during the next."""
        file.unlink(missing_ok=True)
        os.sync()

    for mode in ("--fresh", "--overwrite"):
        how = (file, "--bytes", size, "--tensors", TENSORS, mode, "--repeat", 4)
        save, write, peer = interleave(
            scale.pairs, (OURS, "save", *how, "--threads", 2), (OURS, "write", *how),
            (PEER, "save", *how), settle=settle)
        save = [middle(r, "save_ns") for r in save]
        label = f"{size // MIB:,} MiB, {mode[2:]}"
        yield compare(f"save with 2 threads against write(2): {label}", save,
                      [middle(r, "write_ns") for r in write], 0.9, size)
        yield compare(f"save with 2 threads against save: {label}", save,
                      [middle(r, "save_ns") for r in peer], 1.0, size)


def memory_figures(work, scale):
    def growth(figure, report, index_bytes):
        grown = report["peak_growth_kib"] / 1024
        allowed = index_bytes / MIB + 64
        return Row(figure, f"{grown:.1f} MiB", f"index: {index_bytes / MIB:.1f} MiB", grown,
                   f"{grown:.1f} MiB", at_most(allowed, "MiB (index + 64)"))

    file = work / "memory.espalier"

    def index_bytes():
        return execute(OURS, "open", file)["index_bytes"]

    size = scale.bytes(GIB)
    report = execute(OURS, "save", file, "--bytes", size, "--tensors", TENSORS, "--threads", 2,
                     "--fresh")
    yield growth(f"memory that a save adds: {size // MIB:,} MiB in {TENSORS} tensors", report,
                 index_bytes())
    for names in ("training", "flat"):
        report = execute(OURS, "make", file, "--tensors", scale.tensors(1_000_000), "--names",
                         names, "--threads", 2)
        yield growth(f"memory that a save adds: {names}, {report['tensors']:,} tensors", report,
                     index_bytes())
    size = scale.bytes(4 * GIB)
    state = (OURS, "save", file, "--bytes", size, "--tensors", TENSORS, "--threads", 2, "--fresh")
    produced = execute(*state, "--produced", address_space=scale.address_space)
    in_memory = execute(*state, address_space=scale.address_space)
    label = f"{size // MIB:,} MiB with {scale.address_space // MIB} MiB of address space"
    if produced is None or in_memory is not None:
        yield Row(f"save from producers: {label}", "failed" if produced is None else "saved",
                  "from memory: failed, as it must" if in_memory is None else
                  "from memory: saved, so that the limit shows nothing", 1, "",
                  ("<=", 0, "the limit"))
        return
    yield growth(f"save from producers (from memory it fails, as it must): {label}", produced,
                 index_bytes())


def first_line(*command):
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True,
                              check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"


def find(pattern, path):
    try:
        found = re.search(pattern, path.read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found.group(1) if found else "unknown"


def file_system(folder):
    """The type of the file system that holds `folder`: that of the longest mount point above."""
    mounts = [line.split()[1:3] for line in open("/proc/self/mounts", encoding="utf-8")]
    above = [m for m in mounts if folder.is_relative_to(m[0])]
    return max(above, key=lambda m: len(m[0]))[1]


def facts(work, scale):
    cache = ROOT / "build/release/CMakeCache.txt"
    compiler = find(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache)
    memory = int(find(r"^MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo")))
    return {
        "Date": datetime.date.today().isoformat(),
        "Command": " ".join(["bench/run.py", *sys.argv[1:]]),
        "Pairs": f"{scale.pairs} of each figure",
        "Processor": find(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo"))
                     + f", {len(os.sched_getaffinity(0))} cores",
        "Memory": f"{memory / (1 << 20):.0f} GiB, transparent huge pages: "
                  + find(r"\[(\w+)\]", pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")),
        "Load when it began": f"{os.getloadavg()[0]:.1f} (must be near 0 for figures to cite)",
        "System": f"{os.uname().sysname} {os.uname().release}, {file_system(work)}",
        "Espalier": first_line("git", "describe", "--always", "--dirty") + ", "
                    + find(r"^CMAKE_BUILD_TYPE:\w+=(.*)$", cache) + ", "
                    + first_line(compiler, "--version"),
        "Peer": "crate safetensors "
                + find(r'^safetensors = .*?"=?([\d.]+)"', PEER_FOLDER / "Cargo.toml")
                + ", " + first_line("rustc", "--version"),
    }


def table(rows):
    lines = ["| Figure | Espalier | peer | ratio (lowest - highest pair) or value | target | |",
             "|---|---|---|---|---|---|"]
    for row in rows:
        lines.append("| " + " | ".join(
            (row.figure, row.ours, row.peer, row.shown, *row.verdict())) + " |")
    return "\n".join(lines)


def put_between_markers(path, text, begin=BEGIN, end=END):
    page = path.read_text()
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        sys.exit(f"{path} must have these two lines, once each:\n{begin}\n{end}")
    before, after = page.split(begin)[0], page.split(end)[1]
    path.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}")


def build(commands, folder):
    for command in commands:
        subprocess.run(command, cwd=folder, check=True)


def arguments():
    def groups(text):
        chosen = text.split(",")
        if unknown := set(chosen) - set(GROUPS):
            raise argparse.ArgumentTypeError(f"no such group: {', '.join(sorted(unknown))}")
        return chosen
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a sixteenth of the size, three "
                        "pairs: to try the script out, not for results")
    parser.add_argument("--only", type=groups, default=GROUPS, help=",".join(GROUPS))
    parser.add_argument("--work", type=pathlib.Path, help="folder for the inputs")
    parser.add_argument("--output", type=pathlib.Path, help="page to write the table into")
    parser.add_argument("--build", action="store_true", help="build both programs first")
    return parser.parse_args()


def main():
    options = arguments()
    if options.build:
        build(BUILD_OURS, ROOT)
        build(BUILD_PEER, PEER_FOLDER)
    for program, commands in ((OURS, BUILD_OURS), (PEER, BUILD_PEER)):
        if not program.exists():
            where = f"(cd {program.parents[2].relative_to(ROOT)} && " if program == PEER else "("
            sys.exit(f"{program.relative_to(ROOT)} is missing; --build makes it, or:\n  "
                     + where + " && ".join(" ".join(c) for c in commands) + ")")
    parent = (options.work or ROOT / "build").resolve()
    parent.mkdir(parents=True, exist_ok=True)
    if (free := shutil.disk_usage(parent).free) < MINIMUM_FREE:
        sys.exit(f"{parent} has {free / GIB:.1f} GiB free; at least 8 are needed")
    scale = QUICK if options.quick else FULL
    with tempfile.TemporaryDirectory(prefix="bench-", dir=parent) as folder:
        work = pathlib.Path(folder)
        known = facts(work, scale)
        rows = []
        for group in options.only:
            for row in globals()[f"{group}_figures"](work, scale):
                rows.append(row)
                print(": ".join(filter(None, (row.figure, row.shown, " ".join(row.verdict())))),
                      file=sys.stderr, flush=True)
            for file in work.iterdir():
                file.unlink()
    text = "\n".join(f"- {name}: {value}" for name, value in known.items()) + "\n\n" + table(rows)
    if options.quick:
        text = "**A quick run: small inputs, few pairs. Not results.**\n\n" + text
    print(text)
    if options.output:
        put_between_markers(options.output, text)


if __name__ == "__main__":
    main()
