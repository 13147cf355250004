#!/usr/bin/env python3
"""Opens the files of this folder, which NumPy made, and compares every array with what numpy.load gave: names,
order, dtypes, shapes, bytes. make_files.py made the files and expected.json.

Usage: LIST_TENSORS=path/to/list_tensors test_numpy.py. The last line is "N passed, N failed".
"""

import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
LISTER = os.environ.get("LIST_TENSORS") or sys.exit("LIST_TENSORS must name the program")


def main():
    expected = json.loads((HERE / "expected.json").read_text())
    failed = 0
    for name, nodes in expected.items():
        run = subprocess.run([LISTER, HERE / name], capture_output=True, text=True, timeout=60)
        lines = [json.loads(line) for line in run.stdout.splitlines()]
        if run.returncode == 0 and lines == nodes:
            continue
        failed += 1
        print(f"{name}: {run.stderr.strip()}")
        for ours, theirs in zip(lines + [None] * len(nodes), nodes + [None] * len(lines)):
            if ours != theirs:
                print(f"  got {ours}\n  not {theirs}")
    print(f"{len(expected) - failed} passed, {failed} failed")
    return 1 if failed or not expected else 0


if __name__ == "__main__":
    sys.exit(main())
