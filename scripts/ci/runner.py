"""Runs the steps of scripts/test: each as soon as the steps that it needs have passed, and one more at once than there
are processors."""
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree
from collections.abc import Callable


def processors(quota="/sys/fs/cgroup/cpu.max"):
    """How many this process may keep busy: those of its affinity, and no more than its container's quota pays for.

    https://docs.kernel.org/admin-guide/cgroup-v2.html#cpu-interface-files
    """
    found = len(os.sched_getaffinity(0))
    with contextlib.suppress(OSError, ValueError):
        microseconds, period = map(int, pathlib.Path(quota).read_text().split())
        found = min(found, max(1, microseconds // period))
    return found


PROCESSORS = processors()
# One more than there are processors: browsers and servers wait much of their time.
AT_ONCE = PROCESSORS + 1


@dataclasses.dataclass(frozen=True)
class Report:
    """The number of passed and failed checks of a step.

    `shown` tells of the failures, and `names` is whose they are. `seconds` has the time of each check whose time is known.
    """
    passed: int
    failed: int
    shown: str = ""
    names: tuple[str, ...] = ()
    seconds: tuple[tuple[str, float], ...] = ()


def last_lines(text, count):
    return "\n".join(text.splitlines()[-count:])


def one_check(output, is_ok):
    """Counts a command as one check."""
    return Report(1, 0) if is_ok else Report(0, 1, last_lines(output, 60))


def of_suite(run, broken, shown, names, output, is_ok, seconds=()):
    """The report of a test program. A program that failed, ran nothing or reported nothing has a failure."""
    if run == 0 or (not is_ok and broken == 0):
        return Report(run, 1, last_lines(output, 60), (), tuple(seconds))
    return Report(run - broken, broken, shown, tuple(names), tuple(seconds))


def junit(*paths, prefix=""):
    """Counts the tests in the JUnit files that CTest, doctest and pytest write. A test that was skipped or disabled did not pass.

    Tests of pytest are called as it takes them, with `prefix` before their file.
    """
    def name_of(case):
        name, file = case.get("name"), case.get("file")
        if file is None:
            return name
        # With the class, if there is one: it follows the module's name.
        module = file.removesuffix(".py").replace("/", ".")
        inner = (case.get("classname") or "").removeprefix(module).strip(".").replace(".", "::")
        return "::".join(filter(None, (prefix + file, inner, name)))

    def why(case):
        """Nothing of a test that passed."""
        found = [each for each in case if each.tag in ("failure", "error", "skipped")]
        texts = [text for each in found for text in (each.get("message"), each.text) if text]
        if not found and case.get("status") in (None, "run"):
            return ""
        what = found[0].tag if found else case.get("status")
        return f"{what}\n{last_lines(chr(10).join(texts) or case.findtext('system-out') or '', 15)}"

    def read(output, is_ok):
        cases, missing = [], []
        for path in paths:
            try:
                cases += xml.etree.ElementTree.parse(path).getroot().iter("testcase")
            except (OSError, xml.etree.ElementTree.ParseError):
                missing.append(str(path))
        broken = [case for case in cases if why(case)]
        shown = "\n".join(f"{name_of(case)}: {why(case)}" for case in broken[:20])
        seconds = [(name_of(case), float(case.get("time") or 0)) for case in cases]
        if missing:
            lines = [shown, last_lines(output, 60), f"no report of tests: {', '.join(missing)}"]
            return Report(len(cases) - len(broken), len(broken) + len(missing), "\n".join(filter(None, lines)))
        return of_suite(len(cases), len(broken), shown, map(name_of, broken), output, is_ok, seconds)
    return read


def tap(output, is_ok):
    """Counts the tests of Node's test runner. A test that was skipped or is a to-do did not pass, and no file that has no test."""
    totals = {name: int(count) for name, count in re.findall(r"^# (\w+) (\d+)$", output, re.M)}
    broken = sum(totals.get(name, 0) for name in ("fail", "cancelled", "skipped", "todo"))
    shown = re.findall(r"^ *not ok.*(?:\n.*){0,12}", output, re.M)[:8]
    left_out = re.findall(r"^ *ok \d+ - (.*?) # (SKIP|TODO).*$", output, re.M)
    shown += [f"{name}: {what}" for name, what in left_out[:20]]
    # Node takes a file that registers no test for a test.
    empty = re.findall(r"^ok \d+ - (\S+\.test\.m?js)$", output, re.M)
    broken += len(empty)
    shown += [f"{name}: this file has no test" for name in empty]
    # A group fails with its tests, and as a pattern it would stand for all of them.
    failed = re.findall(r"^ *not ok \d+ - (.*)\n((?: +(?!ok|not ok|#).*\n)*)", output + "\n", re.M)
    names = [name for name, details in failed if "failureType: 'subtestsFailed'" not in details]
    names += [name for name, _ in left_out]
    # Those of a file or a group are there, too, and begin further to the left.
    found = re.findall(r"^( *)(?:not )?ok \d+ - (.*)\n *---\n *duration_ms: ([\d.]+)", output, re.M)
    groups = {name for indent, name, _ in found if f"{indent}# Subtest: {name}\n{indent}    #" in output}
    seconds = [(name, float(milliseconds) / 1000) for _, name, milliseconds in found if name not in groups]
    return of_suite(totals.get("tests", 0), broken, "\n".join(shown), names, output, is_ok, seconds)


def tap_if_any(output, is_ok):
    """The same for a command that may have no test to run."""
    return Report(0, 0) if is_ok and "TAP version" not in output else tap(output, is_ok)


@dataclasses.dataclass(frozen=True)
class Step:
    """A command for Bash. The steps that `needs` names must pass first, and those of `after` must end first if they run at all."""
    stage: str
    task: str
    command: str
    needs: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    # Names of resources that the step needs exclusively, such as a folder. Steps that share a lock take turns.
    locks: tuple[str, ...] = ()
    read: Callable[[str, bool], Report] = one_check
    # The command that runs the tests with these names again, and nothing else; none if it would be the step's own.
    again: Callable[[tuple[str, ...]], str] | None = None
    # The sets of steps that it belongs to, such as "quick"; see stages.py.
    sets: tuple[str, ...] = ()
    # What takes longer hangs: it is ended, and has failed.
    minutes: float = 45

    @property
    def name(self):
        return f"{self.stage} {self.task}"


    def alone(self, names=()):
        """The command that runs this step again, or only its tests with these names."""
        if self.again and names:
            return self.again(names[:20])
        seed = os.environ.get("ESPALIER_SEED", "1")
        return f"scripts/test '{self.name}'" + (f" --seed {seed}" if seed != "1" else "")


@dataclasses.dataclass(frozen=True)
class Result:
    step: Step
    report: Report
    begun: float = 0  # seconds since the first step
    seconds: float = 0
    cpu_seconds: float = 0


def selected(steps, wanted):
    """The steps that `wanted` has by their set, stage or name, and those that they need, in the order of `steps`."""
    names = {step.name for step in steps if {step.stage, step.name, *step.sets} & set(wanted)}
    for step in reversed(steps):
        if step.name in names:
            names.update(step.needs)
    return [step for step in steps if step.name in names]


def end_group(process, seconds=10, *, reaps=True):
    """Ends what a step started and left behind: asks first, as browsers end their own processes then.

    `reaps` is False in a thread while another one waits for the step's end, which must learn of it.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if reaps:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(process.pid, os.WNOHANG)
            os.killpg(process.pid, 0)
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)


def run(steps, logs):
    """Runs each step after the steps it needs. Returns the results in the order in which the steps ended.

    A step is a group of processes, of which none outlives it, nor this program, unless that is killed.
    """
    logs.mkdir(parents=True, exist_ok=True)
    # A signal that comes while a step is started ends this program once the step is known, and so ended, too.
    is_starting, ended_by = False, []

    def be_ended(number, _):
        ended_by.append(number)
        if not is_starting:
            raise SystemExit(128 + number)

    # A program that a shell started in the background ignores Ctrl-C, and so would the tests that are about it.
    handlers = {number: signal.signal(number, be_ended) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    # A test may print what the terminal has no characters for.
    with contextlib.suppress(AttributeError):
        sys.stdout.reconfigure(errors="backslashreplace")
    begun = time.monotonic()
    names = {step.name for step in steps}
    waiting, running, results, expired = list(steps), {}, {}, set()

    def say(text):
        elapsed = int(time.monotonic() - begun)
        print(f"{elapsed // 60:3}:{elapsed % 60:02}  {text}", flush=True)

    def finish(result, log=None):
        results[result.step.name] = result
        report = result.report
        counts = f"{report.passed} passed" + (f", {report.failed} failed" if report.failed else "")
        say(f"{result.step.name}: {counts} ({result.seconds:.0f} s, {result.cpu_seconds:.0f} s of processor time)")
        if report.failed:
            print(report.shown, f"(all of it: {log})" if log else "", sep="\n")
            print_failure(result)

    def expire(step, process):
        expired.add(step.name)
        end_group(process, reaps=False)

    def start(step):
        nonlocal is_starting
        say(f"{step.name} ...")
        is_starting = True
        log = logs / f"{step.name.replace(' ', '-')}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(["bash", "-euo", "pipefail", "-c", step.command], stdin=subprocess.DEVNULL,
                                       stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        limit = threading.Timer(step.minutes * 60, expire, (step, process))
        limit.daemon = True
        limit.start()
        running[process.pid] = (step, process, log, time.monotonic(), limit)
        is_starting = False
        if ended_by:
            raise SystemExit(128 + ended_by[0])

    def report_of(step, log, is_ok):
        output = log.read_text(encoding="utf-8", errors="replace")
        report = step.read(output, is_ok and step.name not in expired)
        if step.name not in expired:
            return report
        return dataclasses.replace(report, failed=max(1, report.failed),
                                   shown=f"{last_lines(output, 40)}\nended after {step.minutes:g} minutes")

    try:
        while waiting or running:
            for step in list(waiting):
                failed = [name for name in step.needs if name in results and results[name].report.failed]
                taken = {lock for other, *_ in running.values() for lock in other.locks}
                if failed:
                    waiting.remove(step)
                    finish(Result(step, Report(0, 1, f"Not run, because it needs: {', '.join(failed)}")))
                elif len(running) < AT_ONCE and taken.isdisjoint(step.locks) and results.keys() >= {*step.needs, *names.intersection(step.after)}:
                    waiting.remove(step)
                    start(step)
            if not running:
                if waiting:
                    raise ValueError(f"steps that need what is not selected: {', '.join(step.name for step in waiting)}")
                continue
            pid, status, usage = os.wait4(-1, 0)
            if pid not in running:  # an orphan, if this is the first process of a container
                continue
            step, process, log, since, limit = running.pop(pid)
            limit.cancel()
            process.returncode = os.waitstatus_to_exitcode(status)
            end_group(process)
            report = report_of(step, log, process.returncode == 0)
            finish(Result(step, report, since - begun, time.monotonic() - since, usage.ru_utime + usage.ru_stime), log)
    finally:
        for _, process, *_, limit in running.values():
            limit.cancel()
            end_group(process)
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return list(results.values())


def print_failure(result):
    """What failed, and how to run that alone."""
    names = result.report.names
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    print(": ".join(filter(None, ["FAILED", result.step.name, ", ".join(names[:20]) + more])))
    print(f"    that alone: {result.step.alone(names)}", flush=True)


def print_slowest(results):
    """The ten checks that took longest."""
    checks = [(seconds, result.step.name, name) for result in results for name, seconds in result.report.seconds]
    for seconds, step, name in sorted(checks, reverse=True)[:10]:
        print(f"{seconds:8.1f} s  {step}: {name}")


def grown(results, recorded):
    """The steps that took more than a fifth more processor time than `recorded` has for them, in seconds by step name.

    Builds are left out, because their time depends on the compiler cache, and short steps, because it is noise.
    """
    steps = [(result, recorded[result.step.name]) for result in results
             if result.step.name in recorded and result.step.task != "build"]
    return [f"{result.step.name}: {result.cpu_seconds:.0f} s of processor time, and {before:.0f} before"
            for result, before in steps if result.cpu_seconds > max(1.2 * before, before + 5)]


def timeline(results):
    """The steps as a trace, which chrome://tracing and https://ui.perfetto.dev show."""
    ends, events = [], []
    for result in sorted(results, key=lambda result: result.begun):
        row = next((row for row, end in enumerate(ends) if end <= result.begun), len(ends))
        ends[row:row + 1] = [result.begun + result.seconds]
        events.append({"name": result.step.name, "ph": "X", "pid": 1, "tid": row, "ts": round(result.begun * 1e6),
                       "dur": round(result.seconds * 1e6),
                       "args": {"processor seconds": round(result.cpu_seconds, 1), "passed": result.report.passed,
                                "failed": result.report.failed}})  # fmt: skip
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})


def summarise(results, goal=None, recorded=None):
    """Prints a table of times, the slowest checks, what failed, and "N passed, N failed". Returns the exit status.

    Each failure is named again at the end, which is often all that is kept of a long log. `goal` is in minutes, and
    `recorded` as in grown().
    """
    print(f"\n{'':24}{'seconds':>9}{'processor':>11}{'passed':>8}{'failed':>8}")
    for result in sorted(results, key=lambda result: -result.cpu_seconds):
        print(f"{result.step.name:24}{result.seconds:9.0f}{result.cpu_seconds:11.0f}"
              f"{result.report.passed:8}{result.report.failed:8}")
    total = max((result.begun + result.seconds for result in results), default=0)
    print(f"{'all':24}{total:9.0f}{sum(result.cpu_seconds for result in results):11.0f}\n")
    print_slowest(results)
    for line in grown(results, recorded or {}):
        print(f"grew {line}")
    if goal:
        print(f"{total / 60:.1f} minutes; the goal is {goal}")
    passed = sum(result.report.passed for result in results)
    failed = sum(result.report.failed for result in results)
    for result in results:
        if result.report.failed:
            print_failure(result)
            if result.report.shown.startswith("Not run"):
                print(f"    {result.report.shown}")
    print(f"{passed} passed, {failed} failed", flush=True)
    return 0 if failed == 0 and passed > 0 else 1
