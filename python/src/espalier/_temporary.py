"""Temporary folders of saves to stores and of restores from them. What killed processes left is removed by the next one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import tempfile
import weakref
from collections.abc import Iterator

from ._errors import CheckpointOSError, EspalierError

_PREFIX = "espalier-"
# A file that its process keeps locked. By host, as not every network file system has locks that other hosts see.
_LOCK = f".lock-{socket.gethostname().replace('/', '-')}"
_has_swept = False


class TemporaryFolder:
    """A folder in TMPDIR until cleanup(), the end of a `with` block, of the object or of the process. CheckpointOSError.

    A forked child has the object, but removes nothing.
    """

    def __init__(self) -> None:
        global _has_swept
        with told(tempfile.tempdir or os.environ.get("TMPDIR") or "the folder for temporary files"):
            parent = tempfile.gettempdir()
            if not _has_swept:
                _has_swept = True
                with contextlib.suppress(OSError):  # It may be made in, and not listed.
                    _remove_dead(parent)
            self.name = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
            self.cleanup = weakref.finalize(self, _remove, self.name, os.getpid(), _locked(self.name))

    def __enter__(self) -> str:
        return self.name

    def __exit__(self, *_: object) -> None:
        self.cleanup()


@contextlib.contextmanager
def told(folder: str) -> Iterator[None]:
    """What the system says of temporary files there, as an error that says what to do."""
    advice = "set TMPDIR to a folder that exists and has more room"
    try:
        yield
    except EspalierError as error:
        if error.code == "io_error" and str(error).startswith(folder):  # of the library
            error.args = (f"{error}; {advice}",)
        raise
    except OSError as error:
        raise CheckpointOSError(f"{folder}: a temporary file cannot be written there: {error}; {advice}", "io_error") from error


def _locked(folder: str) -> int | None:
    """The descriptor of a lock that ends with the process; None on file systems without locks."""
    file = os.path.join(folder, _LOCK)
    made = os.open(f"{file}.new", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(made, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(f"{file}.new", file)  # locked from the moment at which it is there
    except OSError:
        os.close(made)
        return None
    return made


def _remove(folder: str, process: int, lock: int | None) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
    if lock is not None:
        os.close(lock)


def _remove_dead(parent: str) -> None:
    """Removes the folders of this user whose processes have ended on this host."""
    for entry in os.scandir(parent):
        with contextlib.suppress(OSError):  # Its process removes it, or it stays.
            if not entry.name.startswith(_PREFIX) or entry.stat(follow_symlinks=False).st_uid != os.getuid():
                continue
            lock = os.open(os.path.join(entry.path, _LOCK), os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(entry.path, ignore_errors=True)
            finally:
                os.close(lock)
