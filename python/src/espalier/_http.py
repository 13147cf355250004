"""Connections to web servers, for the transfers of python/core/python_transfer.h.

Sockets, TLS, certificates, names and proxies are Python's. What a request asks for, what of its response is believed,
retries and redirects are the library's (native/http), as for the command line.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import os
import queue
import re
import selectors
import socket
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ._core import VERSION

# How long a call waits before the core looks whether it was cancelled.
_MOMENT = 0.25
# Bytes that are received at once: what the allocator keeps, as larger ones are mapped anew each time.
_PART = 64 << 10
# The most that a proxy may say before it connects us.
_PROXY_HEAD = 64 << 10


class Cancelled(Exception):
    """The call that the request is for was given up."""


# What may not happen the next time. A host that is not there and a bad certificate are not among it.
TRANSIENT = (
    ConnectionResetError, ConnectionAbortedError, BrokenPipeError, TimeoutError, ssl.SSLEOFError, ssl.SSLZeroReturnError,
)  # fmt: skip


def why(error: BaseException) -> str:
    """In words, without an end."""
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


class Target(NamedTuple):
    """Where a request goes: http::Url."""

    scheme: str
    host: str
    port: str
    path: str
    url: str
    is_this_machine: bool

    @property
    def address(self) -> str:
        """The host as sockets and certificates have it."""
        if self.host.isascii():
            return self.host.strip("[]")
        name = self.host.encode("idna").decode()
        # Some letters become others, such as a slash.
        if not re.fullmatch(r"[\w.-]+", name, re.ASCII):
            raise OSError("this is not the name of a host")
        return name

    @property
    def authority(self) -> str:
        name = f"[{self.address}]" if self.host.startswith("[") else self.address
        return name if self.port == {"http": "80", "https": "443"}[self.scheme] else f"{name}:{self.port}"


class Login(NamedTuple):
    """What a request says about the user: http::Credentials."""

    token: bytes
    user: bytes
    password: bytes
    from_netrc: bool
    headers: list[tuple[str, bytes]]

    def fields(self, target: Target) -> list[tuple[str, bytes]]:
        user, password = self.user, self.password
        if self.from_netrc:
            user, password = _netrc(target.address)
        if self.token:
            return [("Authorization", b"Bearer " + self.token), *self.headers]
        if user or password:
            return [("Authorization", b"Basic " + base64.b64encode(user + b":" + password)), *self.headers]
        return self.headers


def _netrc(host: str) -> tuple[bytes, bytes]:
    import netrc  # which few need

    try:
        found = netrc.netrc().authenticators(host)
    except (OSError, netrc.NetrcParseError):  # It need not be there, nor be what we can read.
        return b"", b""
    return (found[0].encode(), (found[2] or "").encode()) if found else (b"", b"")


class _Proxy(NamedTuple):
    host: str
    port: int
    fields: list[tuple[str, bytes]]


def _proxy_of(target: Target) -> _Proxy | None:
    """The proxy that the environment or the system names. Tokens go to this machine in plain text, so not through one."""
    if target.is_this_machine:
        return None
    import urllib.request  # which takes time

    proxies = urllib.request.getproxies()
    named = proxies.get(target.scheme) or proxies.get("all")
    if not named or urllib.request.proxy_bypass(target.address):
        return None
    parts = urllib.parse.urlsplit(named if "://" in named else f"http://{named}")
    if parts.scheme != "http" or not parts.hostname:
        raise OSError(f"the proxy for {target.scheme} is not an http:// URL, the only kind that can be used")
    user, password = (urllib.parse.unquote_to_bytes(each or "") for each in (parts.username, parts.password))
    login = [("Proxy-Authorization", b"Basic " + base64.b64encode(user + b":" + password))] if user or password else []
    return _Proxy(parts.hostname, parts.port or 80, login)


class _Patience:
    """How long a connection may take to come about."""

    def __init__(self, seconds: float, is_cancelled: Callable[[], bool]):
        self.end = time.monotonic() + seconds
        self._is_cancelled = is_cancelled

    def check(self) -> None:
        if self._is_cancelled():
            raise Cancelled
        if time.monotonic() > self.end:
            raise TimeoutError("no connection")

    def share(self, count: int) -> _Patience:
        """That of one of `count` tries that are left."""
        return _Patience((self.end - time.monotonic()) / count, self._is_cancelled)


def _addresses(host: str, port: int, patience: _Patience) -> list[tuple[int, int, int, str, tuple[object, ...]]]:
    # Nothing ends a look-up that hangs, so a thread does it that nobody has to wait for.
    answers: queue.SimpleQueue[object] = queue.SimpleQueue()

    def look_up() -> None:
        try:
            answers.put(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except Exception as error:
            answers.put(error)

    threading.Thread(target=look_up, daemon=True).start()
    while True:
        with contextlib.suppress(queue.Empty):
            answer = answers.get(timeout=_MOMENT)
            break
        patience.check()
    if isinstance(answer, Exception):
        raise answer
    return answer  # type: ignore[return-value]


@contextlib.contextmanager
def _closed_after_errors(opened: socket.socket) -> Iterator[socket.socket]:
    try:
        yield opened
    except BaseException:
        opened.close()
        raise


def _connected_to(host: str, port: int, patience: _Patience) -> socket.socket:
    found = _addresses(host, port, patience)
    for i, (family, kind, protocol, _, address) in enumerate(found):
        try:
            with _closed_after_errors(socket.socket(family, kind, protocol)) as opened:
                _connect(opened, address, patience.share(len(found) - i))
                return opened
        except OSError:
            if i == len(found) - 1:
                raise
    raise OSError("the name has no address")


def _connect(opened: socket.socket, address: tuple[object, ...], patience: _Patience) -> None:
    opened.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        opened.connect(address)
    with selectors.DefaultSelector() as waiting:
        waiting.register(opened, selectors.EVENT_WRITE)
        while not waiting.select(_MOMENT):
            patience.check()
    code = opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise OSError(code, os.strerror(code))
    opened.settimeout(_MOMENT)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _send(connected: socket.socket, data: bytes, patience: _Patience) -> None:
    left = memoryview(data)
    while left:
        try:
            left = left[connected.send(left) :]
        except TimeoutError:
            patience.check()


def _tunnel(connected: socket.socket, target: Target, proxy: _Proxy, patience: _Patience) -> None:
    """Has a proxy connect us to the target."""
    place = f"{target.address if ':' not in target.address else f'[{target.address}]'}:{target.port}"
    _send(connected, _head(f"CONNECT {place} HTTP/1.1", [("Host", place.encode()), *proxy.fields]), patience)
    head = b""
    while b"\r\n\r\n" not in head:
        try:
            part = connected.recv(_PART)
        except TimeoutError:
            part = None
        if part == b"" or len(head) > _PROXY_HEAD:
            raise OSError("the proxy does not answer as one")
        head += part or b""
        patience.check()
    if not re.match(rb"HTTP/1\.[01] 2\d\d\b", head):
        status = re.match(rb"HTTP/1\.[01] (\d{3})\b", head)
        raise OSError(f"the proxy does not connect to this host (status {status[1].decode() if status else 'unknown'})")


@functools.lru_cache(maxsize=4)
def _tls(*_: str | None) -> ssl.SSLContext:
    """The certificates that Python trusts, or those that the environment names: these take time to read."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    # The names for which it was made stand in another field, for 20 years.
    context.hostname_checks_common_name = False
    return context


def _secured(connected: socket.socket, host: str, patience: _Patience) -> socket.socket:
    context = _tls(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
    # A connection that is cut must not look like one that has ended.
    secured = context.wrap_socket(
        connected, server_hostname=host, do_handshake_on_connect=False, suppress_ragged_eofs=False
    )
    with _closed_after_errors(secured):
        while True:
            try:
                secured.do_handshake()
                return secured
            except TimeoutError:
                patience.check()


def _head(line: str, fields: list[tuple[str, bytes]]) -> bytes:
    return b"".join([line.encode(), b"\r\n", *(b"%s: %s\r\n" % (name.encode(), value) for name, value in fields), b"\r\n"])


class Connection:
    """A connection to one server after the other. For one thread at a time; the errors are OSErrors and Cancelled."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._server = ("", "", "")

    def request(
        self, target: Target, login: Login, range_: str, timeout: int, is_cancelled: Callable[[], bool]
    ) -> bool:
        """Sends a GET request. Whether it went over a connection that an earlier one has used."""
        patience = _Patience(timeout, is_cancelled)
        proxy = _proxy_of(target)
        server = (target.scheme, target.host, target.port)
        if self._server != server:
            self.close()
        is_reused = self._socket is not None
        if self._socket is None:
            self._socket = self._opened(target, proxy, patience)
            self._server = server
        is_forwarded = proxy is not None and target.scheme == "http"
        fields = [
            ("Host", target.authority.encode()),
            ("User-Agent", b"espalier/" + VERSION.encode()),
            ("Accept", b"*/*"),
            # A compressed range is of no use: it is part of another sequence of bytes.
            ("Accept-Encoding", b"identity"),
            ("Range", range_.encode()),
            *(proxy.fields if proxy is not None and is_forwarded else []),
        ]
        own = login.fields(target)
        replaced = {name.lower() for name, _ in own}
        fields = [field for field in fields if field[0].lower() not in replaced] + own
        line = f"GET {target.url if is_forwarded else target.path} HTTP/1.1"
        try:
            _send(self._socket, _head(line, fields), patience)
        except OSError:
            # It may have answered before it closed the connection, or was idle for too long: receive() sees.
            if not is_reused:
                raise
        return is_reused

    def _opened(self, target: Target, proxy: _Proxy | None, patience: _Patience) -> socket.socket:
        where = (proxy.host, proxy.port) if proxy else (target.address, int(target.port))
        connected = _connected_to(*where, patience)
        if target.scheme == "http":
            return connected
        with _closed_after_errors(connected):
            if proxy:
                _tunnel(connected, target, proxy, patience)
            return _secured(connected, target.address, patience)

    def receive(self) -> bytes | None:
        """What has come: b"" at the end of the connection, None if nothing came for a moment."""
        if self._socket is None:
            return b""
        try:
            return self._socket.recv(_PART)
        except TimeoutError:
            return None

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __del__(self) -> None:
        self.close()
