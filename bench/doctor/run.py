#!/usr/bin/env python3
"""What `espalier doctor` finds of planted faults, and what it says of clean states.

    PYTHON bench/doctor/run.py clean      # half an hour
    PYTHON bench/doctor/run.py faults     # half an hour
    PYTHON bench/doctor/run.py tables --output docs/doctor-benchmarks.md

Each step keeps its lines in build/doctor and goes on where it was; `--work DIR` is another folder, and `--only WORD` picks states.
PYTHON has the packages of requirements.txt. A module of states whose packages are missing is left out, and named.
"""

import argparse
import pathlib

import clean
import plant
import tables

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("clean", "faults", "tables"))
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/espalier")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/doctor")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--only", action="append", default=[])
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    if options.step == "clean":
        clean.run(options.program, options.work / "clean.jsonl", options.only)
    elif options.step == "faults":
        plant.run(options.program, options.work / "faults.jsonl", options.only)
    else:
        text = tables.page(options.work, options.program)
        options.output.write_text(text) if options.output else print(text)


if __name__ == "__main__":
    main()
