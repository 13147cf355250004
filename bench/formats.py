#!/usr/bin/env python3
"""Times Orbax, HDF5, ONNX and TensorFlow checkpoints as Espalier reads them, beside the libraries that they come from. bench/README.md explains it."""

import argparse
import dataclasses
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from harness import (BUILD_OURS, GIB, MIB, OURS, ROOT, Row, as_list, at_least, build, duration, execute, files_of,
                     interleave, machine_facts, one_of, put_between_markers, table, working_folder)

BEGIN, END = "<!-- figures begin: bench/formats.py writes the lines below -->", "<!-- figures end -->"
CLI = ROOT / "build/release/espalier"
BUILD_CLI = [["cmake", "--build", "build/release", "--target", "espalier"]]
PEERS = ROOT / "bench/peers/format_peers.py"
GROUPS = ("list", "convert", "decode")


@dataclasses.dataclass
class Format:
    name: str
    folder: str  # in tests/foreign, whose requirements.txt names the packages
    ending: str
    others: tuple = ()  # further ways to list it


FORMATS = (Format("hdf5", "hdf5", "h5"), Format("onnx", "onnx", "onnx"),
           Format("onnx-external", "onnx", "onnx"), Format("tensorflow", "tensorflow", "index"),
           Format("orbax", "orbax", "orbax", ("tensorstore",)))
COMPRESSED = ("hdf5", "orbax")


@dataclasses.dataclass
class Run:
    options: argparse.Namespace
    work: pathlib.Path

    def python(self, form):
        """The Python that has the format's library; makes it if it is not there."""
        home = self.options.environments / form.folder
        if not (home / "bin/python").exists():
            print(f"installing the packages of tests/foreign/{form.folder}/requirements.txt", file=sys.stderr, flush=True)
            subprocess.run([sys.executable, "-m", "venv", home], check=True)
            subprocess.run([home / "bin/pip", "install", "--quiet", "-r",
                            ROOT / "tests/foreign" / form.folder / "requirements.txt"], check=True)
        return home / "bin/python"

    def make(self, form, tensors, size, *how):
        """A new folder with the file, and the file in it."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.work))
        path = folder / f"checkpoint.{form.ending}"
        given = path.with_suffix("") if form.name == "tensorflow" else path
        execute(self.python(form), PEERS, "make", form.name, given, "--tensors", tensors, "--bytes", size, *how)
        return path

    def peer(self, command, form, path, repeat, name=None):
        return (self.python(form), PEERS, command, name or form.name, path, "--repeat", repeat)


def process(*command):
    """Runs a program; its whole time and that of its processor, user and system."""
    start = time.monotonic_ns()
    with open(os.devnull, "wb") as nowhere:
        child = subprocess.Popen([str(word) for word in command], stdout=nowhere)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit status {child.returncode}")
    return {"wall_ns": time.monotonic_ns() - start, "cpu_ns": int((usage.ru_utime + usage.ru_stime) * 1e9)}


def middle(report, kind):
    """Of a process that takes several samples, the median without the first."""
    found = report[kind]
    return statistics.median(found[1:] or found) if isinstance(found, list) else found


def rows(figure, ours, peer, target):
    """Ratios of the peer's time to ours, by the processor's time, which others on the machine disturb less, and the clock's."""
    for kind, words in (("cpu_ns", "processor"), ("wall_ns", "clock")):
        left, right = ([middle(report, kind) for report in side] for side in (ours, peer))
        each = [b / a for a, b in zip(left, right)]
        ratio = statistics.median(right) / statistics.median(left)
        yield Row(f"{figure}: {words}", duration(statistics.median(left)), duration(statistics.median(right)), ratio,
                  f"{ratio:.2f}x ({min(each):.2f} - {max(each):.2f})", target)


def list_figures(run, form):
    path = run.make(form, run.options.tensors, run.options.tensors * 128)
    for peer in (form.name, *form.others):
        label = f"list {run.options.tensors:,} tensors: {peer}"
        program, listed, theirs = interleave(
            run.options.rounds, ((process,), (CLI, "ls", path)), ((execute,), (OURS, "open", path, "--repeat", 5)),
            ((execute,), run.peer("list", form, path, 3, peer)), run=lambda how, command: how[0](*command))
        if {report["tensors"] for report in listed + theirs} != {run.options.tensors}:
            sys.exit(f"{peer}: the two programs did not list the same tensors")
        for report in listed:
            report["wall_ns"] = [sum(parts) for parts in zip(report["open_ns"], report["list_ns"])]
        yield from rows(f"{label}, in a process", listed, theirs, at_least(5.0))
        yield from rows(f"{label}, the whole `espalier ls`", program, theirs, at_least(1.0))


def convert_figures(run, form):
    """Beside cp, where the file has the bytes as they are."""
    path = run.make(form, 64, run.options.bytes)
    ours, theirs = run.work / "converted.espalier", run.work / "copied"

    def settle():
        for made in (ours, theirs):
            if made.exists():
                subprocess.run(["rm", "-r", made], check=True)
        os.sync()

    source = path.parent if form.name == "tensorflow" or form.name == "onnx-external" else path
    convert, copy = interleave(run.options.rounds + 1, (CLI, "convert", "--quiet", "--no-sync", path, ours),
                               ("cp", "-r", source, theirs), settle=settle, run=process)
    size = sum(each.stat().st_size for each in files_of(source))
    yield from rows(f"convert {size / MIB:,.0f} MiB that are not compressed, beside cp: {form.name}", convert[1:], copy[1:],
                    (">=", 1 / 1.3, "0.77x"))


def decode_figures(run, form):
    """Beside the decompression of all chunks alone, on one thread."""
    if form.name not in COMPRESSED:
        return
    path = run.make(form, 16, run.options.bytes // 8, "--compressed")
    made = run.work / "converted.espalier"

    def run_one(how, *command):
        made.unlink(missing_ok=True)
        return how(*command)

    convert, decode = interleave(
        run.options.rounds, (process, CLI, "convert", "--quiet", "--no-sync", "--threads", 1, path, made),
        (execute, *run.peer("decode", form, path, 3)), run=run_one)
    made.unlink(missing_ok=True)
    yield from rows(f"convert {run.options.bytes // 8 / MIB:,.0f} MiB from compressed chunks, beside decompression: "
                    f"{form.name}", convert, decode, (">=", 1 / 1.1, "0.91x"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", type=one_of(GROUPS), default=GROUPS, help=",".join(GROUPS))
    names = tuple(form.name for form in FORMATS)
    parser.add_argument("--formats", type=one_of(names), default=names, help=",".join(names))
    parser.add_argument("--tensors", type=int, default=10_000, help="of a list")
    parser.add_argument("--bytes", type=int, default=GIB, help="to convert; an eighth of it if compressed")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--environments", type=pathlib.Path, default=ROOT / "build/bench-formats",
                        help="a folder with a virtual environment for each folder of tests/foreign, made if it is not there")
    parser.add_argument("--work", type=pathlib.Path, help="folder for the inputs")
    parser.add_argument("--output", type=pathlib.Path, help="page to write the table into")
    parser.add_argument("--build", action="store_true", help="build our programs first")
    options = parser.parse_args()
    if options.build:
        build(BUILD_OURS + BUILD_CLI, ROOT)
    parent = working_folder(options.work, 5 * options.bytes)
    found = []
    with tempfile.TemporaryDirectory(prefix="bench-", dir=parent) as folder:
        work = pathlib.Path(folder)
        known = machine_facts(work) | {"Rounds": f"{options.rounds} of each figure"}
        for form in FORMATS:
            if form.name not in options.formats:
                continue
            for group in options.only:
                for row in globals()[f"{group}_figures"](Run(options, work), form):
                    found.append(row)
                    print(": ".join((row.figure, f"{row.ours} and {row.peer}", row.shown, " ".join(row.verdict()))),
                          file=sys.stderr, flush=True)
                subprocess.run(["find", work, "-mindepth", "1", "-delete"], check=True)
    text = as_list(known) + "\n\n" + table(found)
    print(text)
    if options.output:
        put_between_markers(options.output, text, BEGIN, END)


if __name__ == "__main__":
    main()
