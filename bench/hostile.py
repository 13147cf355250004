#!/usr/bin/env python3
"""Opens hostile safetensors files in Espalier and its peers, and shows the outcomes.

bench/README.md explains it.
"""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

import harness
from hostile_files import CARRIED, FORBIDDEN, GIB, MIB, OPEN, ROOT, VALID, good, hostile, large, limited

SANITIZED = ROOT / "build/hostile"
BUILD_SANITIZED = [
    ["cmake", "--preset", "asan-ubsan", "-B", str(SANITIZED), "-DESPALIER_BUILD_BENCHMARKS=ON",
     "-DESPALIER_BUILD_TESTS=OFF", "-DESPALIER_BUILD_CLI=OFF"],
    ["cmake", "--build", str(SANITIZED), "--target", "espalier_bench"],
]  # fmt: skip
CPP_FOLDER = ROOT / "bench/peers/safetensors_cpp"
CPP_COMMAND = ["-std=c++17", str(CPP_FOLDER / "main.cpp")]
CPP_PLAIN, CPP_SANITIZED = ROOT / "build/safetensors_cpp/plain", ROOT / "build/safetensors_cpp/sanitized"
PLAIN_FLAGS = ["-O2"]
SANITIZER_FLAGS = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-omit-frame-pointer"]
BEGIN, END = "<!-- results begin: bench/hostile.py writes the lines below -->", "<!-- results end -->"

# In processor time, which other processes hardly change; and in wall time, for a reader that waits.
SECONDS, WAITED_SECONDS, SANITIZED_SECONDS = 30, 120, 20
SLOW_SECONDS = 2  # Slower readers are not run with sanitizers, which take some ten times as long.
ADDRESS_SPACE, STACK = 4 * GIB, 8 * MIB
MINIMUM_FREE = 1 * GIB
REPORT_STATUS = 99  # The exit status of a process that AddressSanitizer ends.
ASAN_OPTIONS = f"exitcode={REPORT_STATUS}:detect_leaks=0:hard_rss_limit_mb={ADDRESS_SPACE // MIB}"

ACCEPTS, REFUSES, CRASH, LATE, NO_MEMORY = "accepts", "refuses", "crash", "over time", "out of memory"
FAILURES = (CRASH, LATE, NO_MEMORY)


@dataclasses.dataclass
class Outcome:
    """The outcome of one process; `reports` are the sanitizers' findings."""
    verdict: str
    seconds: float
    peak: int
    detail: str = ""
    tensors: int = None
    reports: tuple = ()

    def shown(self):
        if self.verdict not in FAILURES:
            return self.verdict
        return f"**{self.verdict}**" + f" ({self.detail})" * bool(self.detail)


@dataclasses.dataclass
class Reader:
    name: str
    program: pathlib.Path
    sanitized: pathlib.Path = None


def limits(seconds, address_space):
    def apply():
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        if address_space:
            resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
        resource.setrlimit(resource.RLIMIT_STACK, (STACK, STACK))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return apply


@dataclasses.dataclass
class Ended:
    """A process that has ended: `status` is negative for a signal, `late` says that a time limit ended it."""
    status: int
    late: bool
    seconds: float
    peak: int
    output: str
    errors: str


def execute(command, seconds, address_space=None, environment=None):
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdout=output, stderr=errors, stdin=subprocess.DEVNULL,
                                   preexec_fn=limits(seconds, address_space), env=environment)
        waited = threading.Event()

        def end():
            waited.set()
            os.kill(process.pid, signal.SIGKILL)
        timer = threading.Timer(WAITED_SECONDS, end)
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = status = os.waitstatus_to_exitcode(status)
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read(MIB).decode(errors="replace"))
        used = usage.ru_utime + usage.ru_stime
        late = waited.is_set() or status == -signal.SIGXCPU or (status == -signal.SIGKILL and used >= seconds)
        return Ended(status, late, used, usage.ru_maxrss * 1024, *texts)


def judge(program, path):
    """A reader's verdict on a file; the status is that of the `check` commands."""
    end = execute([program, "check", path], SECONDS, ADDRESS_SPACE)
    outcome = Outcome(REFUSES, end.seconds, end.peak)
    how = signal.Signals(-end.status).name if end.status < 0 else f"status {end.status}"
    if end.late:
        outcome.verdict = LATE
    elif re.search(r"bad_alloc|memory allocation of \d+ bytes failed|out_of_memory", end.errors):
        outcome.verdict, outcome.detail = NO_MEMORY, how
    elif end.status not in (0, 1):
        outcome.verdict, outcome.detail = CRASH, how
    elif end.status == 0:
        outcome.verdict, outcome.tensors = ACCEPTS, json.loads(end.output)["tensors"]
    return outcome


def sanitize(program, path):
    """Findings of AddressSanitizer and UndefinedBehaviorSanitizer: kinds of errors, or the reason for no answer."""
    end = execute([program, "check", path], SANITIZED_SECONDS, environment=os.environ | {"ASAN_OPTIONS": ASAN_OPTIONS})
    found = re.findall(r"ERROR: AddressSanitizer: ([\w-]+)", end.errors)
    found += [f"undefined: {kind}" for kind in re.findall(r"runtime error: ([^\n]{,60})", end.errors)]
    if "hard rss limit exhausted" in end.errors:
        found.append(OVER_MEMORY)
    elif end.late:
        found.append(NO_END)
    elif not found and end.status not in (0, 1):
        found.append(f"status {end.status}")
    return tuple(dict.fromkeys(found))


# Not memory errors: the plain build decides if a reader exhausts a limit.
OVER_MEMORY, NO_END, SLOW = "memory limit with sanitizers", "time limit with sanitizers", "too slow for sanitizers"
NO_ANSWER = ("out-of-memory", "allocation-size-too-big", "requested", OVER_MEMORY, NO_END, SLOW)


def is_memory_error(report):
    return not report.startswith(("undefined", "status", "stack-overflow", *NO_ANSWER))


def read_all(files, readers, work):
    """The outcomes by file, in the order of the readers."""
    results = []
    for file in files:
        path = file.path
        if file.make:
            path = work / "large.safetensors"
            file.make(path)
        outcomes = []
        for reader in readers:
            outcome = judge(reader.program, path)
            if reader.sanitized:
                slow = outcome.seconds > SLOW_SECONDS
                outcome.reports = (SLOW,) if slow else sanitize(reader.sanitized, path)
            outcomes.append(outcome)
        results.append((file, outcomes))
        print(f"{file.name}: " + ", ".join(
            "; ".join([o.verdict, *o.reports]) + f" {o.seconds:.2f} s" for o in outcomes), file=sys.stderr, flush=True)
        if file.make:
            path.unlink()
    return results


def is_right(file, outcome):
    return outcome.verdict == {FORBIDDEN: REFUSES, VALID: ACCEPTS, CARRIED: ACCEPTS}[file.rule]


def mib(size):
    return f"{size / MIB:,.0f} MiB"


def summary(results, readers):
    def line(label, cell):
        return [label, *(cell([(file, outcomes[i]) for file, outcomes in results], r) for i, r in enumerate(readers))]

    def verdicts(rule, *wanted):
        return lambda mine, _: str(sum(f.rule == rule and o.verdict in wanted for f, o in mine))

    def right(mine, _):
        judged = [is_right(f, o) for f, o in mine if f.rule in (FORBIDDEN, VALID)]
        return f"{sum(judged)} of {len(judged)}"

    def failed(*wanted):
        return lambda mine, _: str(sum(o.verdict in wanted for _, o in mine))

    def reported(wanted):
        return lambda mine, r: str(sum(any(map(wanted, o.reports)) for _, o in mine)) if r.sanitized else "not run"

    def worst(value, show):
        def cell(mine, _):
            file, outcome = max(mine, key=lambda pair: value(pair[1]))
            return f"{show(value(outcome))} ({file.name.removeprefix('large: ')})"
        return cell

    count = {rule: sum(f.rule == rule for f, _ in results) for rule in (FORBIDDEN, VALID, OPEN, CARRIED)}
    rows = [
        line("right verdicts", right),
        line(f"of {count[FORBIDDEN]} forbidden files: refused", verdicts(FORBIDDEN, REFUSES)),
        line("- accepted wrongly", verdicts(FORBIDDEN, ACCEPTS)),
        line("- crash, over time, out of memory", verdicts(FORBIDDEN, *FAILURES)),
        line(f"of {count[VALID]} valid files: accepted", verdicts(VALID, ACCEPTS)),
        line("- refused wrongly", verdicts(VALID, REFUSES)),
        line("- crash, over time, out of memory", verdicts(VALID, *FAILURES)),
        line(f"of {count[OPEN]} files left open: accepted", verdicts(OPEN, ACCEPTS)),
        line("- refused", verdicts(OPEN, REFUSES)),
        line("- crash, over time, out of memory", verdicts(OPEN, *FAILURES)),
        line(f"of {count[CARRIED]} files with a bad carried tree: accepted, rightly", verdicts(CARRIED, ACCEPTS)),
        line("crashes, all files", failed(CRASH)),
        line(f"over {SECONDS} s, all files", failed(LATE)),
        line(f"out of memory (over {mib(ADDRESS_SPACE)}), all files", failed(NO_MEMORY)),
        line("memory errors (AddressSanitizer), all files", reported(is_memory_error)),
        line("undefined behaviour (UndefinedBehaviorSanitizer), all files",
             reported(lambda report: report.startswith("undefined"))),
        line("stack overflow (AddressSanitizer), all files", reported(lambda report: report == "stack-overflow")),
        line("no answer with sanitizers", reported(lambda report: report in NO_ANSWER)),
        line("longest time", worst(lambda o: o.seconds, lambda s: f"{s:.2f} s")),
        line("most memory", worst(lambda o: o.peak, mib)),
    ]
    return table(["", *(r.name for r in readers)], rows)


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def differences(results, readers):
    """The files without large ones on which readers differ, or on which one is wrong."""
    def is_told(file, outcomes):
        wrong = file.rule != OPEN and not all(is_right(file, o) for o in outcomes)
        return wrong or len({(o.verdict, o.tensors) for o in outcomes}) > 1 or any(o.reports for o in outcomes)

    def cell(file, outcome):
        text = outcome.shown()
        if file.rule != OPEN and outcome.verdict not in FAILURES and not is_right(file, outcome):
            text = f"**{text}**"
        return "; ".join([text, *outcome.reports])

    rows = [[f.name, f.rule, *(cell(f, o) for o in outcomes)] for f, outcomes in results
            if not f.make and is_told(f, outcomes)]
    return table(["file", "rule", *(r.name for r in readers)], rows)


def open_cases(results):
    """The open questions of the specification, with their files."""
    reasons = {}
    for file, _ in results:
        if file.rule == OPEN:
            reasons.setdefault(file.why, []).append(file.name.removeprefix("large: "))
    return "\n".join(f"- {why}: {', '.join(names)}" for why, names in reasons.items())


def large_files(results, readers):
    def cell(file, outcome):
        wrong = file.rule != OPEN and outcome.verdict not in FAILURES and not is_right(file, outcome)
        text = f"**{outcome.verdict}**" if wrong else outcome.shown()
        reports = [report for report in outcome.reports if report not in NO_ANSWER]
        return "; ".join([f"{text}, {outcome.seconds:.2f} s, {mib(outcome.peak)}", *reports])

    rows = [[f.name.removeprefix("large: "), f.rule, *(cell(f, o) for o in outcomes)]
            for f, outcomes in results if f.make]
    return table(["file", "rule", *(r.name for r in readers)], rows)


def facts(options, compiler):
    lock = harness.PEER_FOLDER / "Cargo.lock"
    cache = ROOT / "build/release/CMakeCache.txt"
    command = ["bench/hostile.py"] + ["--sanitize"] * options.sanitize
    command += ["--safetensors-cpp", "DIR"] * bool(options.safetensors_cpp)
    known = {
        "Date": datetime.date.today().isoformat(),
        "Command": " ".join(command),
        "Processor": harness.find(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo"))
                     + f", {len(os.sched_getaffinity(0))} cores",
        "Load when it began": f"{os.getloadavg()[0]:.1f} (each time is processor time of one run: no benchmark)",
        "Limits": f"{SECONDS} s of processor time ({WAITED_SECONDS} s on the clock), {mib(ADDRESS_SPACE)} of address "
                  f"space, a stack of {mib(STACK)}; with sanitizers {SANITIZED_SECONDS} s and {mib(ADDRESS_SPACE)} "
                  "resident",
        "Memory of a process that does nothing": mib(execute(["true"], SECONDS).peak) + " (part of every figure)",
        "Espalier": harness.first_line("git", "describe", "--always", "--dirty") + ", Release, "
                    + harness.first_line(harness.find(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache), "--version"),
        "Crate safetensors": harness.find(r'name = "safetensors"\nversion = "([^"]+)"', lock) + ", "
                             + harness.first_line("rustc", "--version"),
    }
    if options.safetensors_cpp:
        commit = harness.first_line("git", "-C", str(options.safetensors_cpp), "rev-parse", "--short=7", "HEAD")
        known["safetensors-cpp"] = (f"commit {commit}, {harness.first_line(*compiler, '--version')}, "
                                    f"`{' '.join(PLAIN_FLAGS)}` and `{' '.join(SANITIZER_FLAGS)}`")
    return "\n".join(f"- {name}: {value}" for name, value in known.items())


def build_cpp(folder, compiler):
    CPP_PLAIN.parent.mkdir(parents=True, exist_ok=True)
    for program, flags in ((CPP_PLAIN, PLAIN_FLAGS), (CPP_SANITIZED, SANITIZER_FLAGS)):
        harness.build([[*compiler, *flags, *CPP_COMMAND, "-I", str(folder), "-o", str(program)]], ROOT)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--safetensors-cpp", type=pathlib.Path, metavar="DIR",
                        help="a checkout of that library; it is compiled against (with $CXX, or c++)")
    parser.add_argument("--sanitize", action="store_true", help="build and run Espalier with sanitizers, too")
    parser.add_argument("--build", action="store_true", help="build the release programs first")
    parser.add_argument("--only", metavar="REGEX", help="only files with such a name")
    parser.add_argument("--work", type=pathlib.Path, help="folder for the large files")
    parser.add_argument("--output", type=pathlib.Path, help="page to write the results into")
    return parser.parse_args()


def main():
    options = arguments()
    if options.build:
        harness.build(harness.BUILD_OURS, ROOT)
        harness.build(harness.BUILD_PEER, harness.PEER_FOLDER)
    if options.sanitize:
        harness.build(BUILD_SANITIZED, ROOT)
    for program in (harness.OURS, harness.PEER):
        if not program.exists():
            sys.exit(f"{program.relative_to(ROOT)} is missing; --build makes it")
    readers = [Reader("Espalier", harness.OURS, SANITIZED / "espalier_bench" if options.sanitize else None),
               Reader("crate safetensors", harness.PEER)]
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    if options.safetensors_cpp:
        build_cpp(options.safetensors_cpp.resolve(), compiler)
        readers.append(Reader("safetensors-cpp", CPP_PLAIN, CPP_SANITIZED))
    parent = (options.work or ROOT / "build").resolve()
    parent.mkdir(parents=True, exist_ok=True)
    if (free := shutil.disk_usage(parent).free) < MINIMUM_FREE:
        sys.exit(f"{parent} has {free / GIB:.1f} GiB free; at least 1 is needed")
    known = facts(options, compiler)
    files = [f for f in (*hostile(), *good(), *large()) if re.search(options.only or "", f.name)]
    with tempfile.TemporaryDirectory(prefix="hostile-", dir=parent) as folder:
        results = read_all(files, readers, pathlib.Path(folder))
    text = "\n\n".join([
        known, "### Summary", summary(results, readers),
        f"{limited()} files of the corpus are left out: they are hostile only to a reader with lowered limits.",
        "### Left open by the specification", open_cases(results),
        "### Small files on which readers differ, or one is wrong", differences(results, readers),
        "### Large files", large_files(results, readers)])
    print(text)
    if options.output:
        harness.put_between_markers(options.output, text, BEGIN, END)


if __name__ == "__main__":
    main()
