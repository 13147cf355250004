#!/usr/bin/env python3
"""Compares the form that chunks take with all forms that they could take. bench/README.md explains it."""

import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

from harness import BUILD_OURS, GIB, OURS, ROOT, build, one_of, put_between_markers, working_folder

BEGIN, END = "<!-- kinds begin: bench/kinds.py writes the lines below -->", "<!-- kinds end -->"
CLI = ROOT / "build/release/espalier"
MAKE = ROOT / "bench/data/kinds.py"
KINDS = ("weights", "moments", "sines", "masks", "ids", "embeddings", "codes", "images", "counters", "text")
FORMS = ("raw", "zstd", "planes", "best", "chosen")
BOUND = 1.01


def convert(source, target):
    subprocess.run([CLI, "convert", source, target], check=True, stdout=subprocess.DEVNULL)
    return target


def measure(file, level, threads):
    """The sizes of each tensor's forms."""
    lines = subprocess.run([OURS, "forms", file, "--level", str(level), "--threads", str(threads)],
                           check=True, capture_output=True, text=True).stdout.splitlines()
    return [json.loads(line) for line in lines]


def gap(sizes):
    return f"{100 * (sizes['chosen'] / sizes['best'] - 1):+.2f}%"


def kind_and_name(tensor):
    return tensor.replace("~1", "/").split("/", 1)  # in a key path, `~1` stands for a slash in a name


def report(tensors, level):
    """A line for each kind, and the tensors beyond the bound."""
    sums, worst, beyond = collections.defaultdict(collections.Counter), {}, []
    for sizes in tensors:
        kind, _ = kind_and_name(sizes["tensor"])
        sums[kind].update({form: sizes[form] for form in FORMS})
        ratio = sizes["chosen"] / sizes["best"]
        if kind not in worst or ratio > worst[kind]["chosen"] / worst[kind]["best"]:
            worst[kind] = sizes
        if ratio > BOUND:
            beyond.append(sizes)
    rows = [[str(level), kind, *(f"{found[form]:,}" for form in FORMS), gap(found),
             f"{gap(worst[kind])} {kind_and_name(worst[kind]['tensor'])[1]}"] for kind, found in sums.items()]
    return rows, beyond


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--levels", default="1,2,3", help="compression levels, 1 to 9, separated by commas (default: 1,2,3)")
    parser.add_argument("--only", type=one_of(KINDS), default=KINDS, help=f"kinds out of {','.join(KINDS)}")
    parser.add_argument("--file", type=pathlib.Path, help="a checkpoint to use instead: its top level is the kinds")
    parser.add_argument("--tensors", action="store_true", help="also print every tensor, as JSON")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=pathlib.Path, help="write the figures between the markers in this file")
    parser.add_argument("--work", type=pathlib.Path, help="folder for the temporary data (default: below build)")
    parser.add_argument("--build", action="store_true", help="build the programs first")
    options = parser.parse_args()
    if options.build:
        build([*BUILD_OURS, ["cmake", "--build", "build/release", "--target", "espalier"]], ROOT)
    rows, beyond = [], []
    with tempfile.TemporaryDirectory(dir=working_folder(options.work, GIB)) as folder:
        work, source = pathlib.Path(folder), options.file
        if not source:
            source = work / "kinds.safetensors"
            subprocess.run([sys.executable, MAKE, source, "--only", ",".join(options.only)], check=True)
        file = convert(source, work / "kinds.espalier")
        for level in map(int, options.levels.split(",")):
            tensors = measure(file, level, options.threads)
            if options.tensors:
                print(*map(json.dumps, tensors), sep="\n")
            more_rows, more_beyond = report(tensors, level)
            rows += more_rows
            beyond += more_beyond
    head = ["level", "kind", *FORMS, "gap", "largest gap of a tensor"]
    text = "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))
    text = f"zstd {tensors[0]['zstd_version']}; sizes in bytes.\n\n{text}"
    if options.output:
        put_between_markers(options.output, text, BEGIN, END)
    print(text)
    for sizes in beyond:
        print(f"level {sizes['level']}: {sizes['tensor']}: {gap(sizes)}", file=sys.stderr)
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
