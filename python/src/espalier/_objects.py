"""A folder of objects in a store that fsspec reaches, such as S3: small requests, each of them repeated while its error passes."""

from __future__ import annotations

import contextlib
import datetime
import functools
import inspect
import os
from collections.abc import Callable
from typing import Any

from . import _urls
from ._errors import CheckpointNotFound, Corrupt, EspalierError
from ._retry import retried, status_of
from ._temporary import told

# Stores whose mode="create" is one request that fails if the object exists. Others look first, and two programs may do so at once.
_CONDITIONAL = {"abfs", "abfss", "adl", "az", "gcs", "gs", "memory", "s3", "s3a"}
_READ = 32 << 20  # bytes at a time
_SMALL = 1 << 20


class Objects:
    """The objects below a URL, by their names. Thread-safe as far as the file system is; those of fsspec are.

    Names are those of this package, which need no quotes. What the store refuses is an error that names the URL.
    """

    def __init__(self, url: str, options: _urls.Options = None):
        scheme, _, rest = url.partition("://")
        if "::" in url or not rest.strip("/"):
            raise EspalierError(f"{_urls.shown(url)}: checkpoints need a folder of one store, such as s3://bucket/run")
        if scheme in ("file", "local"):
            raise EspalierError(f"{_urls.shown(url)}: a folder of this machine has no scheme; leave out {scheme}://")
        if _urls.is_http(url):
            raise EspalierError(f"{_urls.shown(url)}: a web server takes no checkpoints; use the address of its store, such as s3://")
        self.url = f"{scheme}://{rest.rstrip('/')}"
        self.shown = _urls.shown(self.url)
        self._options = options
        self._fs, self._path = _urls.file_system(self.url, options)
        self._path = self._path.rstrip("/")

    @functools.cached_property
    def is_conditional(self) -> bool:
        """Whether create() is one request, so that of two programs only one creates an object."""
        protocol = self._fs.protocol
        put = getattr(self._fs, "_pipe_file", self._fs.pipe_file)
        takes_mode = "mode" in inspect.signature(put).parameters  # not in old versions
        return takes_mode and not _CONDITIONAL.isdisjoint({protocol} if isinstance(protocol, str) else protocol)

    def url_of(self, name: str) -> str:
        return f"{self.url}/{name}"

    def _ask(self, call: Callable[[], Any], name: str = "") -> Any:
        with _urls.told(self.url_of(name) if name else self.url):
            return retried(call)

    def _at(self, name: str) -> str:
        return f"{self._path}/{name}"

    def versions(self) -> dict[str, tuple[tuple[str, str], ...]]:
        """The names that a listing has, which may lack an object that was made a moment ago, with the objects' versions.

        A version is empty if the store has none.
        """

        def ask() -> Any:
            self._fs.invalidate_cache(self._path)
            try:
                return self._fs.ls(self._path, detail=True)
            except FileNotFoundError:
                # A training that begins anew, as its bucket's name is misspelt, is noticed too late.
                bucket, _, below = self._path.partition("/")
                if below and self.is_conditional and self._fs.protocol != "memory" and not self._fs.exists(bucket):
                    raise CheckpointNotFound(f"{self.shown}: there is no bucket {bucket!r}; make it, or correct the URL", "not_found") from None
                return []

        return {entry["name"].rpartition("/")[2]: _urls.version(entry) for entry in self._ask(ask) if entry["type"] == "file"}

    def read(self, name: str) -> bytes | None:
        """A small object, and of others the first MiB; None if there is none."""

        def ask() -> bytes | None:
            try:
                return bytes(self._fs.cat_file(self._at(name), start=0, end=_SMALL)[:_SMALL])
            except FileNotFoundError:
                return None
            except Exception as error:
                if status_of(error) != 416:  # An empty object has no range.
                    raise
                return b""

        return self._ask(ask, name)  # type: ignore[no-any-return]

    def write(self, name: str, data: bytes) -> None:
        self._ask(lambda: self._fs.pipe_file(self._at(name), data), name)

    def create(self, name: str, data: bytes) -> bool:
        """Makes a small object if there is none of that name. False may also mean that an answer was lost, and the object is ours."""

        def ask() -> bool:
            if not self.is_conditional:
                if self._fs.exists(self._at(name)):
                    return False
                self._fs.pipe_file(self._at(name), data)
                return True
            try:
                self._fs.pipe_file(self._at(name), data, mode="create")
            except Exception as error:
                if not _says_it_exists(error):
                    raise
                return False
            return True

        return self._ask(ask, name)  # type: ignore[no-any-return]

    def put(self, file: str, name: str, report: Callable[[int], None] | None = None) -> None:
        """Makes an object of a file's bytes. It is seen whole or not at all, where the store has that."""
        with _urls.told(self.url_of(name)):
            _urls.send(self._fs, file, self._at(name), report)

    def get(self, name: str, size: int, file: str, report: Callable[[int, int], object] | None = None) -> None:
        """Writes an object of that many bytes to a file. CheckpointNotFound; Corrupt if it has another size."""
        reader = _urls.Reader(self.url_of(name), self._options)
        if reader.size != size:
            raise Corrupt(
                f"{_urls.shown(self.url_of(name))}: the object has {reader.size} bytes, and {size} were saved",
                "truncated" if reader.size < size else "trailing_bytes",
            )
        reader.expect(True)
        folder = os.path.dirname(file)
        with told(folder):
            out = open(file, "wb")
        try:
            for offset in range(0, size, _READ):
                with told(folder):
                    out.write(reader.read(offset, min(_READ, size - offset)))
                if report is not None:
                    report(min(offset + _READ, size), size)
        finally:
            with told(folder):  # It writes the rest.
                out.close()

    def remove(self, name: str) -> None:
        def ask() -> None:
            with contextlib.suppress(FileNotFoundError):
                self._fs.rm_file(self._at(name))

        self._ask(ask, name)

    def age(self, name: str) -> float | None:
        """Seconds since an object was made, by the store's clock and this machine's; None if the store does not say."""
        try:
            made = self._ask(lambda: self._fs.modified(self._at(name)), name)
        except EspalierError as error:
            if isinstance(error.__cause__, (FileNotFoundError, NotImplementedError)):
                return None
            raise
        return _seconds_since(made)

    def remove_open_uploads(self, prefix: str, seconds: float) -> None:
        """Gives up uploads in parts, of names with that prefix, that began so long ago. Their writers were killed."""
        if not hasattr(self._fs, "call_s3"):
            return  # Others than S3 remove them by themselves: those of GCS after a week, as do blocks of Azure.
        bucket, key, _ = self._fs.split_path(self._at(prefix))
        found = self._ask(lambda: self._fs.call_s3("list_multipart_uploads", Bucket=bucket, Prefix=key))
        for each in found.get("Uploads", []):
            age = _seconds_since(each["Initiated"])
            if age is not None and age > seconds:
                self._ask(lambda each=each: self._fs.call_s3(  # type: ignore[misc]
                    "abort_multipart_upload", Bucket=bucket, Key=each["Key"], UploadId=each["UploadId"]
                ))  # fmt: skip


def _seconds_since(time: object) -> float | None:
    if not isinstance(time, datetime.datetime):
        return None
    aware = time if time.tzinfo is not None else time.replace(tzinfo=datetime.timezone.utc)
    return (datetime.datetime.now(datetime.timezone.utc) - aware).total_seconds()


def _says_it_exists(error: BaseException) -> bool:
    is_named = isinstance(error, FileExistsError) or type(error).__name__ == "ResourceExistsError"  # of Azure
    return is_named or status_of(error) == 412
