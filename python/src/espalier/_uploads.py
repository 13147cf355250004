"""Saves in the background to a URL: a file of this machine is written first, and sent by a thread."""

from __future__ import annotations

import atexit
import concurrent.futures.thread  # noqa: F401  # see the end of this file
import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from . import _urls
from ._errors import Cancelled, EspalierError
from ._step_store import Saving
from ._temporary import TemporaryFolder, told

if TYPE_CHECKING:
    from ._doctor import RawFinding

Send = Callable[[str, Callable[[int], None]], None]


class Upload:
    """A save that is begun by `begin`, into a file of the name that it gets, and whose file `send` then takes elsewhere.

    `send` also gets what to call with the bytes sent so far, which raises Cancelled once the save was given up. Those of one
    `target` are sent in the order in which they begin. The file is removed at the end.
    """

    def __init__(self, target: str, name: str, begin: Callable[[str], Saving], send: Send):
        self._folder = TemporaryFolder()
        self._file = os.path.join(self._folder.name, name)
        try:
            self._saving = begin(self._file)
        except BaseException:
            self._folder.cleanup()
            raise
        self._target, self._send = target, send
        self._is_cancelled = False
        self._size: int | None = None
        self._sent = 0
        self._failure: Exception | None = EspalierError(f"{_urls.shown(target)}: the thread of the save ended early")
        # A daemon, as Python would wait for others only after it has closed what aiohttp sends with: see _finish().
        self._thread = threading.Thread(target=self._run, name="espalier-upload", daemon=True)
        with _lock:
            before = _last.get(target)
            self._before = before._thread if before else None
            _last[target] = self
            self._thread.start()

    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def cancel(self) -> None:
        self._is_cancelled = True
        self._saving.cancel()

    def progress(self) -> tuple[int, int]:
        """Bytes written and then sent, and both in total."""
        written, total = self._saving.progress()
        return written + self._sent, total + (total if self._size is None else self._size)

    def failure(self) -> Exception | None:
        self._thread.join()
        return self._failure

    def faults(self) -> list[RawFinding]:
        return self._saving.faults()

    def _run(self) -> None:
        try:
            delay = 0.0005
            while not self._saving.is_done():
                time.sleep(delay)
                delay = min(2 * delay, 0.02)
            if (failure := self._saving.failure()) is not None:
                with told(self._folder.name):
                    raise failure
            self._size = os.path.getsize(self._file)
            if self._before is not None:
                self._before.join()
            self._report(0)
            self._send(self._file, self._report)
            self._sent, self._failure = self._size, None
        except Exception as error:
            self._failure = error
        finally:
            self._before = None
            self._folder.cleanup()
            with _lock:
                if _last.get(self._target) is self:
                    del _last[self._target]

    def _report(self, sent: int) -> None:
        # All of it is there, perhaps under its name already.
        if self._is_cancelled and sent != self._size:
            raise Cancelled(f"{_urls.shown(self._target)}: the save was given up", "cancelled")
        self._sent = sent


def upload_to(url: str, options: _urls.Options, replace: bool, begin: Callable[[str], Saving]) -> Upload:
    """The save of one file to a URL."""
    fs, path = _urls.file_system(url, options)
    _urls.check_free(url, options, replace)

    def send(file: str, report: Callable[[int], None]) -> None:
        with _urls.told(url):
            _urls.send(fs, file, path, report)

    return Upload(url, _urls.local_name(path), begin, send)


_lock = threading.Lock()
_last: dict[str, Upload] = {}  # that goes on, by target; it waits for those before it


def _finish() -> None:
    """Waits for all uploads: the program may end without waiting, and its save must still be made."""
    while True:
        with _lock:
            upload = next(iter(_last.values()), None)
        if upload is None:
            return
        upload._thread.join()


# The end of Python first closes the thread pools of concurrent.futures, without which aiohttp finds no host, and only then calls
# what atexit has. What the module threading is told later, it calls earlier: so its pools must be imported before.
with contextlib.suppress(RuntimeError):  # at the end of Python already, where AsyncSave's own end waits
    getattr(threading, "_register_atexit", atexit.register)(_finish)


def _forget_all() -> None:
    """In a forked child, which has none of the threads, and where another one may have held the lock."""
    global _lock
    _lock = threading.Lock()
    _last.clear()


os.register_at_fork(after_in_child=_forget_all)
