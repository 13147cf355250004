"""Progress of long work: a function of the program, tqdm's bar, or a line on a terminal."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from ._visible import visible

Report = Callable[[int, int], object]
Progress = bool | Report | None


@contextlib.contextmanager
def reporting(progress: Progress, title: str) -> Iterator[Report | None]:
    """What to call with the bytes done and the bytes in total; None for silence."""
    title = visible(title)
    if not progress:
        yield None
    elif callable(progress):
        yield progress
    else:
        try:
            tqdm: Any = importlib.import_module("tqdm.auto").tqdm
        except ImportError:
            with _line(title) as report:
                yield report
            return
        with tqdm(desc=title, unit="B", unit_scale=True, unit_divisor=1024) as bar:
            yield _of_bar(bar)


def _of_bar(bar: Any) -> Report:
    def report(done: int, total: int) -> None:
        bar.total = total
        bar.update(done - bar.n)

    return report


@contextlib.contextmanager
def _line(title: str) -> Iterator[Report | None]:
    if not sys.stderr.isatty():
        yield None
        return

    def report(done: int, total: int) -> None:
        percent = 100 * done // total if total else 0
        print(f"\r{title}: {percent:3} %", end="", file=sys.stderr, flush=True)

    try:
        yield report
    finally:
        print(file=sys.stderr)
