"""Shared by the benchmark programs: runs processes in turns, compares them and writes the results."""

import argparse
import dataclasses
import datetime
import json
import math
import os
import pathlib
import re
import resource
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
OURS = ROOT / "build/release/espalier_bench"
PEER_FOLDER = ROOT / "bench/peers/safetensors_rs"
PEER = PEER_FOLDER / "target/release/safetensors_rs"
BUILD_OURS = [["cmake", "--preset", "release"],
              ["cmake", "--build", "build/release", "--target", "espalier_bench"]]
BUILD_PEER = [["cargo", "build", "--release"]]
MIB, GIB = 1 << 20, 1 << 30


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
        if math.isnan(self.value):
            return f"{relation} {text}", "no figure"
        met = self.value >= bound if relation == ">=" else self.value <= bound
        return f"{relation} {text}", "met" if met else "MISSED"


def at_least(ratio):
    return (">=", ratio, f"{ratio}x")


def at_most(bound, unit):
    return ("<=", bound, f"{bound:,.0f} {unit}")


def execute(program, *arguments, address_space=None):
    """Runs a program in a fresh process. Returns its report, or None if it failed under a limit."""
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


def attempt(program, *arguments):
    """Returns a program's report, or {"error": text}, because a peer may fail."""
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    words = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    return {"error": words[:200]}


def middle(report, *spans):
    """The median over a process's samples, each the sum of `spans`, without its first one."""
    return statistics.median([sum(parts) for parts in zip(*(report[s] for s in spans))][1:])


def interleave(pairs, *sides, settle=lambda: None, run=execute):
    """Runs every side once in each round, every second round backwards. Reports by side."""
    reports = [[] for _ in sides]
    for i in range(pairs):
        order = range(len(sides)) if i % 2 == 0 else reversed(range(len(sides)))
        for side in order:
            settle()
            reports[side].append(run(*sides[side]))
    settle()
    return reports


def evict(path):
    """Drops a file, or all of a folder, from the page cache."""
    for file in files_of(path):
        with open(file, "rb", buffering=0) as opened:
            os.fsync(opened)
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def files_of(path):
    return [path] if path.is_file() else [part for part in path.rglob("*") if part.is_file()]


def reload(path):
    """Reads a file, or all of a folder, into the page cache again, so that the way it was written has no effect."""
    evict(path)
    for file in files_of(path):
        with open(file, "rb", buffering=0) as opened:
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
    """The ratio of the peer's time to ours; both are lists of processes' medians, by pair."""
    show = (lambda ns: speed(ns, size)) if size else duration
    ratio = statistics.median(peer) / statistics.median(ours)
    by_pair = [p / o for o, p in zip(ours, peer)]
    return Row(figure, show(statistics.median(ours)), show(statistics.median(peer)), ratio,
               f"{ratio:.2f}x ({min(by_pair):.2f} - {max(by_pair):.2f})",
               at_least(target) if target else None)


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


def machine_facts(work):
    """The facts at the beginning of every page of figures."""
    cache = ROOT / "build/release/CMakeCache.txt"
    compiler = find(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache)
    memory = int(find(r"^MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo")))
    script = pathlib.Path(sys.argv[0]).name
    return {
        "Date": datetime.date.today().isoformat(),
        "Command": " ".join([f"bench/{script}", *sys.argv[1:]]),
        "Processor": find(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo"))
                     + f", {len(os.sched_getaffinity(0))} cores",
        "Memory": f"{memory / (1 << 20):.0f} GiB, transparent huge pages: "
                  + find(r"\[(\w+)\]", pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")),
        "Load when it began": f"{os.getloadavg()[0]:.1f} (must be near 0 for figures to cite)",
        "System": f"{os.uname().sysname} {os.uname().release}, {file_system(work)}",
        "Espalier": first_line("git", "describe", "--always", "--dirty") + ", "
                    + find(r"^CMAKE_BUILD_TYPE:\w+=(.*)$", cache) + ", "
                    + first_line(compiler, "--version"),
        "Crate": "safetensors " + find(r'^safetensors = .*?"=?([\d.]+)"', PEER_FOLDER / "Cargo.toml")
                 + ", " + first_line("rustc", "--version"),
    }


def as_list(facts):
    return "\n".join(f"- {name}: {value}" for name, value in facts.items())


def table(rows):
    lines = ["| Figure | Espalier | peer | ratio (lowest - highest pair) or value | target | |",
             "|---|---|---|---|---|---|"]
    for row in rows:
        lines.append("| " + " | ".join(
            (row.figure, row.ours, row.peer, row.shown, *row.verdict())) + " |")
    return "\n".join(lines)


def collect(groups, work, scale):
    """The rows of all groups of figures; prints each as soon as it is measured. Empties `work` after each group."""
    rows = []
    for figures in groups:
        for row in figures(work, scale):
            rows.append(row)
            print(": ".join(filter(None, (row.figure, row.shown, " ".join(row.verdict())))), file=sys.stderr,
                  flush=True)
        for file in work.iterdir():
            file.unlink()
    return rows


def put_between_markers(path, text, begin, end):
    page = path.read_text()
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        sys.exit(f"{path} must have these two lines, once each:\n{begin}\n{end}")
    before, after = page.split(begin)[0], page.split(end)[1]
    path.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}")


def build(commands, folder):
    for command in commands:
        subprocess.run(command, cwd=folder, check=True)


def require_programs():
    for program, commands in ((OURS, BUILD_OURS), (PEER, BUILD_PEER)):
        if not program.exists():
            where = f"(cd {program.parents[2].relative_to(ROOT)} && " if program == PEER else "("
            sys.exit(f"{program.relative_to(ROOT)} is missing; --build makes it, or:\n  "
                     + where + " && ".join(" ".join(c) for c in commands) + ")")


def working_folder(chosen, minimum_free):
    """The folder for large files, if its disk has enough space."""
    folder = (chosen or ROOT / "build").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if (free := shutil.disk_usage(folder).free) < minimum_free:
        sys.exit(f"{folder} has {free / GIB:.1f} GiB free; at least {minimum_free // GIB} are needed")
    return folder


def one_of(known):
    """For argparse: names out of `known`, separated by commas."""
    def parse(text):
        chosen = text.split(",")
        if unknown := set(chosen) - set(known):
            raise argparse.ArgumentTypeError(f"no such group: {', '.join(sorted(unknown))}")
        return chosen
    return parse
