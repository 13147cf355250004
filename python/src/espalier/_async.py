"""Saves in the background."""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from . import _core
from ._errors import EspalierError
from ._step_store import Saving
from ._visible import visible

if TYPE_CHECKING:
    from ._doctor import Finding


class NotInThisProcess(EspalierError):
    """The save belongs to the process that this one was forked from."""


class AsyncSave:
    """A save that goes on while the program does. Arrays were copied, or cannot change: go on with them at once.

    result() raises the save's error. The end of the program waits for the save, and prints an error that nobody asked for.
    """

    def __init__(self, saving: Saving, name: str):
        self._saving = saving
        self._process = os.getpid()
        self._failure: Exception | None = None
        self._has_ended = False
        self._is_told = False
        self.name = name
        _forget_the_done()
        _pending.append(self)

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise NotInThisProcess(f"{self.name}: the save belongs to process {self._process}, which this was forked from")

    def done(self) -> bool:
        self._check_process()
        return self._has_ended or self._saving.is_done()

    def progress(self) -> tuple[int, int]:
        """Bytes done, and in total; the total is 0 until the first are written."""
        self._check_process()
        return self._saving.progress()

    def cancel(self) -> None:
        """Gives up the save, and does not wait: the old file stays, and result() raises Cancelled. Too late, it does nothing."""
        self._check_process()
        self._saving.cancel()

    def exception(self, timeout: float | None = None) -> Exception | None:
        """Waits until the save is done: its error, or None. TimeoutError after `timeout` seconds."""
        self._wait(timeout)
        self._is_told = True
        return self._failure

    def _faults(self) -> tuple[Finding, ...]:
        """What the check of a save that is done has found."""
        raw = self._saving.faults()
        if not raw:
            return ()
        from ._doctor import as_findings

        return as_findings(raw)

    def result(self, timeout: float | None = None) -> None:
        """Waits until the save is done, and raises its error."""
        failure = self.exception(timeout)
        if failure is not None:
            raise failure

    def _wait(self, timeout: float | None = None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        delay = 0.0005
        while not self.done():
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(visible(f"{self.name}: the save goes on after {timeout} seconds"))
            time.sleep(delay)  # Ctrl-C ends it.
            delay = min(2 * delay, 0.02)
        if not self._has_ended:
            failure = self._saving.failure()
            self._failure = _named(failure, self.name) if hasattr(failure, "findings") else failure
            self._has_ended = True

    def __await__(self) -> Generator[Any, None, None]:
        import asyncio  # takes longer than all of this package

        async def finished() -> None:
            delay = 0.0005
            while not self.done():
                await asyncio.sleep(delay)
                delay = min(2 * delay, 0.02)
            self.result()

        return finished().__await__()

    def __repr__(self) -> str:
        if os.getpid() != self._process:
            return f"<save of another process to {visible(self.name)}>"
        return f"<save to {visible(self.name)}: {'done' if self.done() else 'going on'}>"


def _named(failure: Any, name: str) -> Exception:
    """The error of a state with faults, which does not know where it would be saved."""
    from ._doctor import at_step

    return at_step(failure, name)


# Not weak: a program may drop the handle, and the save must still be finished before it ends.
_pending: list[AsyncSave] = []


def _forget_the_done() -> None:
    for save in list(_pending):
        if not save.done():
            continue
        save._wait()
        if save._is_told or save._failure is None:
            _pending.remove(save)


def _finish_all() -> None:
    # Daemon threads first: a thread that comes back from native code after the end of Python would abort the process.
    _core.end_calls()
    for save in list(_pending):
        save._wait()
        if save._failure is not None and not save._is_told:
            print(f"espalier: a save in the background failed: {save._failure}", file=sys.stderr)
    _pending.clear()


atexit.register(_finish_all)
os.register_at_fork(after_in_child=_pending.clear)
os.register_at_fork(after_in_child=_core.forget_other_calls)
