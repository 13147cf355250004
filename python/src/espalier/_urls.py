"""Files behind URLs: http:// and https:// by the library's own rules, and others (memory://, s3://, gs://, ...) through
fsspec.

Only what is needed is read: the head and the index to open a file, and the chunks of what is loaded, several at once.
With fsspec, credentials and timeouts are its own. What passes by itself (429, 5xx, a connection that broke) is tried again, also after
fsspec gave up.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import threading
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from . import _hub
from ._errors import CheckpointExists, CheckpointOSError, EspalierError, MissingPackage, not_found
from ._retry import ShortAnswer, retried

Options = Mapping[str, Any] | None
_USER = re.compile(r"://([^/]*:.*|[^/]*)@", re.DOTALL)
T = TypeVar("T")

# For long reads, which the library does not announce chunk by chunk: so much at once, as requests of this size.
_LONG_READ = 32 << 20
_REQUEST = 4 << 20
# Bytes that were fetched and are not used yet, with those between chunks that were fetched as one.
_KEPT = 64 << 20
# What file systems call the version of a file or a digest of its bytes: it decides whether a file is still the same.
_VERSIONS = (
    "etag", "generation", "version_id", "versionid", "version", "checksum", "content_md5", "md5hash", "md5", "crc32c", "sha256", "sha",
    "blob_id", "oid",
)  # fmt: skip
# And the times at which it was written, for those that have no version.
_TIMES = ("mtime", "last_modified", "lastmodified", "modified", "updated", "created")


def is_url(path: object) -> bool:
    """Whether a path is one. All that take a path ask this first, so what is none is told here."""
    path = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(path, (str, bytes)):
        raise TypeError(f"a path must be str, bytes or os.PathLike, not {type(path).__name__}; the path comes first: save(path, state)")
    text = path if isinstance(path, str) else os.fsdecode(path)
    return "://" in text or _hub.is_name(text)


def shown(url: str) -> str:
    """The URL as messages may have it: without a password or a token, which end up in logs."""
    # A password may have an @ or a / in it, though it should not.
    without_user = _USER.sub("://…@", url)
    return re.sub(r"([?#]).*", r"\1…", without_user, count=1, flags=re.DOTALL)


def _without_secrets(said: str, url: str) -> str:
    """What a file system says of a URL, which may be of a part of it, of what a redirect gave, or of the password."""
    said = said.replace(url, shown(url))
    if user := _USER.search(url):
        password = user[1].partition(":")[2]
        forms = {user[1], password, urllib.parse.unquote(password), urllib.parse.quote(password, "")} - {""}
        for secret in sorted(forms, key=len, reverse=True):
            said = said.replace(secret, "…")
    for tail in re.findall(r"[?#].+", url, re.DOTALL):
        said = said.replace(tail, f"{tail[0]}…")
    return re.sub(r"//[^/\s]*@", "//…@", re.sub(r"\?\S+", "?…", said))


def is_http(url: str) -> bool:
    """Whether the library reads it. A chain such as simplecache::https://... is for fsspec."""
    return url.lower().startswith(("http://", "https://"))


def http_options(url: str, options: Options) -> tuple[list[tuple[str, bytes]], int]:
    """The headers and the timeout in storage_options= for an http or https URL; a timeout of 0 is the usual one."""
    options = dict(options or {})
    headers, timeout = options.pop("headers", None) or {}, options.pop("timeout", 0)
    if options:
        names = ", ".join(map(repr, sorted(map(str, options))))
        raise EspalierError(f"{shown(url)}: storage_options= for http and https are 'headers' and 'timeout', without {names}")
    if type(timeout) is not int or not 0 <= timeout <= 3600:
        raise EspalierError(f"{shown(url)}: the timeout in storage_options= is not a number of seconds from 1 to 3600")
    if not isinstance(headers, Mapping) or not all(isinstance(each, str) for pair in headers.items() for each in pair):
        raise EspalierError(f"{shown(url)}: the headers in storage_options= are not a dict of names and values")
    return [(name, value.encode("utf-8", "surrogateescape")) for name, value in headers.items()], timeout


def check_local(path: object, what: str) -> None:
    if is_url(path):
        url = shown(os.fsdecode(path))  # type: ignore[arg-type]
        raise EspalierError(f"{what} takes files, and {url} is a URL; save() takes URLs")


def check_options(options: Options) -> None:
    if options is not None:
        raise EspalierError("storage_options= are for URLs; leave them out for files")


def file_system(url: str, options: Options) -> tuple[Any, str]:
    if _hub.is_name(url):
        raise EspalierError(f"{shown(url)}: models of the Hub are read here; save a file, and upload it with huggingface_hub")
    try:
        fsspec: Any = importlib.import_module("fsspec.core")
    except ImportError as error:
        raise MissingPackage(
            f"{shown(url)} is a URL, which needs the package fsspec: pip install fsspec ({error})"
        ) from error
    try:
        with told(url):
            return fsspec.url_to_fs(url, **(options or {}))  # type: ignore[no-any-return]
    except CheckpointOSError as error:
        if not isinstance(error.__cause__, (TypeError, ValueError)):
            raise
        why = _without_secrets(str(error.__cause__), url)
        raise EspalierError(
            f"{shown(url)}: fsspec cannot open this: {why}; correct the URL or storage_options=, or install the package for such URLs"
        ) from error.__cause__


@contextlib.contextmanager
def told(url: str) -> Iterator[None]:
    """What a file system raises, as an error of this package that names the URL, and what raised it as the cause."""
    try:
        yield
    except (EspalierError, MemoryError):
        raise
    except Exception as error:
        raise _explained(error, url) from error


def _explained(error: Exception, url: str) -> EspalierError:
    name = shown(url)
    reason: BaseException = error
    cause = error.__cause__
    # fsspec has FileNotFoundError for all that keeps it from a file of HTTP, with the reason as its cause.
    is_of_http = isinstance(cause, TimeoutError) or type(cause).__module__.startswith(("aiohttp", "asyncio"))
    if isinstance(error, FileNotFoundError) and cause is not None and is_of_http:
        reason = cause
    status = getattr(reason, "status", None)
    # With its status comes the whole URL.
    said = f"{status} {getattr(reason, 'message', '')}" if type(status) is int else str(reason)
    why = _without_secrets(said, url) or type(reason).__name__
    if isinstance(reason, FileNotFoundError) or status in (404, 410):
        return not_found(f"{name}: no file is there; correct the URL", name)
    if isinstance(reason, ImportError):
        return MissingPackage(f"{name}: a package is missing that fsspec needs for this URL: {why}")
    if isinstance(reason, PermissionError) or status in (401, 403):
        return CheckpointOSError(f"{name}: access was refused: {why}; pass credentials in storage_options=", "io_error")
    if isinstance(reason, NotImplementedError) or status in (405, 501):
        return CheckpointOSError(f"{name}: nothing can be saved to such a URL: {why}; save a file, and copy it", "io_error")
    return CheckpointOSError(
        f"{name}: fsspec could not reach or use it: {why}; see that it can be reached, and try again", "io_error"
    )


def _beside(url: str, name: str) -> str:
    """The URL of the file `name` in the folder of `url`, or below it ("d/0f"). Without its query, which may sign that one file."""
    # In a chain of file systems, "zip://a.pt::https://host/b.zip", the first path is the file's.
    links = url.split("::")
    i = next(i for i, link in enumerate(links) if "://" in link)
    scheme, _, path = links[i].partition("://")
    if scheme in ("http", "https"):
        path, name = re.split(r"[?#]", path)[0], urllib.parse.quote(name, safe="/")
    links[i] = f"{scheme}://{path.rpartition('/')[0]}/{name}"
    return "::".join(links)


class _Block:
    """Bytes that are fetched together, or are being fetched."""

    def __init__(self, begin: int, end: int):
        self.begin, self.end = begin, end
        self.data: bytes | None = None
        self.unused = end - begin

    def has(self, begin: int, end: int) -> bool:
        return self.begin <= begin and end <= self.end


def _identity(info: Mapping[str, Any]) -> tuple[Any, ...]:
    """What of a file's info() stays the same while the file does: its size, and its version if the store has one.

    Other fields may change by themselves: links that are signed anew, counters, times of access.
    """
    return (info.get("size"), *(version(info) or _named(info, _TIMES)))


def version(info: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """What a file's info() says of its version; empty if the store has none."""
    return _named(info, _VERSIONS)


def _named(info: Mapping[str, Any], names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    known = {str(name).lower().replace("-", "_"): value for name, value in info.items() if value is not None}
    return tuple((name, str(known[name])) for name in names if name in known)


class Reader:
    """What the core reads a file of fsspec through: see python/core/python_source.h. Any thread may call it.

    Chunks that the core announced are fetched with the first of them that is read, by one call of cat_ranges(), whose
    requests run at once. After each such call the file must be what it was when it was opened, so that all bytes are of
    one version.
    """

    def __init__(self, url: str, options: Options = None):
        self._url = url
        self._options = options
        self._fs, self._path = file_system(url, options)
        self._pinned = self._identity_now()
        self.size = self._pinned[0]
        if not isinstance(self.size, int):
            raise CheckpointOSError(
                f"{shown(url)}: the server does not say how long the file is; copy it first", "io_error"
            )
        self._changed = threading.Condition()
        self._announced: list[tuple[int, int]] = []
        self._blocks: list[_Block] = []
        self._is_long = False
        self._long_end: int | None = None

    @property
    def name(self) -> str:
        """The last part of the path."""
        return str(self._path.rpartition("/")[2])

    def sibling(self, name: str) -> Reader | None:
        """A reader of the file of that name beside this one, or below its folder; None if there is none."""
        try:
            return Reader(_beside(self._url, name), self._options)
        except FileNotFoundError:
            return None

    def _identity_now(self) -> tuple[Any, ...]:
        def ask() -> Mapping[str, Any]:
            # Many file systems keep what they once heard of a file.
            self._fs.invalidate_cache(self._path)
            return self._fs.info(self._path)  # type: ignore[no-any-return]

        with told(self._url):
            return _identity(retried(ask))

    def expect(self, is_long: bool) -> None:
        with self._changed:
            self._is_long, self._long_end = is_long, None

    def prefetch(self, offset: int, length: int) -> None:
        with self._changed:
            if length and self._find(offset, offset + length) is None:
                self._announced.append((offset, offset + length))

    def read(self, offset: int, length: int) -> bytes:
        if not length:
            return b""
        end = offset + length
        while True:
            with self._changed:
                found = self._find(offset, end)
                if found is None:
                    batch = self._next_batch(offset, end)
                elif found.data is None:
                    self._changed.wait()
                    continue
                else:
                    return self._take(found, found.data, offset, end)
            self._fetch(batch)
            # At once: another thread's blocks may take the room meanwhile.
            own = next(block for block in batch if block.has(offset, end))
            assert own.data is not None
            with self._changed:
                return self._take(own, own.data, offset, end)

    def _find(self, begin: int, end: int) -> _Block | None:
        return next((block for block in self._blocks if block.has(begin, end)), None)

    def _next_batch(self, begin: int, end: int) -> list[_Block]:
        if self._is_long:
            # Threads read the chunks in almost their order, and none is to be fetched twice: one that lies a little
            # behind is fetched alone, and a long read begins where the one before ended.
            before = self._long_end
            if before is not None and before - 2 * _LONG_READ <= begin < before:
                ranges, self._long_end = [(begin, end)], max(before, end)
            else:
                if before is not None and before < begin < before + _LONG_READ:
                    begin = before
                self._long_end = max(end, min(begin + _LONG_READ, self.size))
                ranges = [(begin, self._long_end)]
        else:
            ranges, self._announced = self._announced, []
            if not any(first <= begin and end <= last for first, last in ranges):
                ranges.append((begin, end))
        batch = [_Block(*each) for each in ranges]
        self._blocks.extend(batch)
        return batch

    def _take(self, block: _Block, data: bytes, begin: int, end: int) -> bytes:
        block.unused -= end - begin
        if block.unused <= 0 and block in self._blocks:
            self._blocks.remove(block)
        return data if len(data) == end - begin else data[begin - block.begin : end - block.begin]

    def _fetch(self, batch: list[_Block]) -> None:
        parts = [
            (begin, min(begin + _REQUEST, block.end))
            for block in batch
            for begin in range(block.begin, block.end, _REQUEST)
        ]
        try:
            answers = iter(self._ranges(parts))
            data = [b"".join(next(answers) for _ in range(block.begin, block.end, _REQUEST)) for block in batch]
        except BaseException:
            with self._changed:
                self._blocks = [block for block in self._blocks if block not in batch]
                self._changed.notify_all()  # They try for themselves.
            raise
        with self._changed:
            for block, each in zip(batch, data, strict=True):
                block.data = each
            kept = sum(len(block.data) for block in self._blocks if block.data is not None)
            for block in list(self._blocks):
                if kept > _KEPT and block.data is not None and block not in batch:
                    self._blocks.remove(block)
                    kept -= len(block.data)
            self._changed.notify_all()

    def _ranges(self, parts: list[tuple[int, int]]) -> list[bytes]:
        starts, ends = [begin for begin, _ in parts], [end for _, end in parts]

        def ask() -> list[bytes]:
            answers = self._fs.cat_ranges([self._path] * len(parts), starts, ends)
            for answer, (begin, end) in zip(answers, parts, strict=True):
                if isinstance(answer, BaseException):
                    raise answer
                if len(answer) < end - begin:
                    raise ShortAnswer(f"{len(answer)} bytes came for {end - begin} at {begin}")
            return answers  # type: ignore[no-any-return]

        try:
            with told(self._url):
                answers = retried(ask)
        except CheckpointOSError as error:
            if not isinstance(error.__cause__, ShortAnswer):
                raise
            raise self._misfit(str(error.__cause__), starts[0]) from error.__cause__
        for answer, (begin, end) in zip(answers, parts, strict=True):
            if len(answer) != end - begin:
                raise self._misfit(f"{len(answer)} bytes came for {end - begin} at {begin}", begin)
        if self._identity_now() != self._pinned:
            raise CheckpointOSError(
                f"{shown(self._url)}: the file changed while it was read; open it again", "file_changed", offset=starts[0]
            )
        return [bytes(answer) for answer in answers]

    def _misfit(self, what: str, offset: int) -> CheckpointOSError:
        why = "the file was replaced, or the server ignores ranges"
        return CheckpointOSError(f"{shown(self._url)}: {what}; {why}", "file_changed", offset=offset)


def put(url: str, options: Options, replace: bool, save: Callable[[str], T]) -> T:
    """Calls `save` with the name of a file, and puts that at the URL: never seen in part where a put is atomic."""
    from . import _temporary  # which takes time, and few need

    fs, path = file_system(url, options)
    check_free(url, options, replace)
    with _temporary.TemporaryFolder() as folder, _temporary.told(folder):
        local = os.path.join(folder, local_name(path))
        result = save(local)
        with told(url):
            send(fs, local, path)
    return result


def check_free(url: str, options: Options, replace: bool) -> None:
    """That nothing stands at a URL where nothing may be replaced."""
    fs, path = file_system(url, options)
    with told(url):
        is_taken = not replace and retried(lambda: fs.exists(path))
    if is_taken:
        raise CheckpointExists(f"{shown(url)}: a file of that name exists", "file_exists")


def local_name(path: str) -> str:
    """The name of a file that goes to that path: with its ending, which says what the file is to be."""
    return "checkpoint" + os.path.splitext(path)[1]


def send(fs: Any, local: str, path: str, report: Callable[[int], None] | None = None) -> None:
    """Puts a file into a store. `report` gets the bytes sent, and may raise to give up."""
    from fsspec.callbacks import Callback

    def put() -> None:
        if report is None:
            fs.put_file(local, path)
        else:
            fs.put_file(local, path, callback=Callback(hooks={"report": lambda _, sent, **__: report(sent)}))

    retried(put)
