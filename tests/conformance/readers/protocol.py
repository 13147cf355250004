"""What the readers in Python share: the arguments, and the output, as ../README.md describes it."""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Callable

LARGEST_TREE = 50_000  # Nodes. Larger trees may be left out.
LARGEST_DOCUMENT = 1 << 20


def number(value: int) -> int | str:
    """A length: not every reader of JSON has integers of 2^53 and more."""
    return value if value < 1 << 53 else str(value)


def document(verdict: dict) -> str:
    """The line for a file."""
    line = json.dumps(verdict)
    if len(line) > LARGEST_DOCUMENT and "tree" in verdict:
        line = json.dumps(verdict | {"tree": None, "metadata": None, "tensors": None})
    return line


def main(judge: Callable[[list[pathlib.Path]], list[dict]]) -> int:
    """Prints a line for each file. `judge` is given all of them at once."""
    sys.setrecursionlimit(20_000)
    if len(sys.argv) < 2:
        print(f"usage: {sys.argv[0]} FILE...", file=sys.stderr)
        return 2
    for verdict in judge([pathlib.Path(name) for name in sys.argv[1:]]):
        print(document(verdict))
    return 0
