"""Which errors of a store pass by themselves, and how often a request is repeated."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")

# Seconds before each repeated request, half of them by chance: a minute in all, which is what a store needs to get more servers.
DELAYS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)

# 409 is that of two conditional writes at once.
_STATUSES = (408, 409, 425, 429, 500, 502, 503, 504, 509, 529)
_NUMBERS = {
    number
    for name in (
        "EAGAIN", "EBUSY", "ECONNABORTED", "ECONNREFUSED", "ECONNRESET", "EHOSTDOWN", "EHOSTUNREACH", "EINTR", "EIO", "ENETDOWN",
        "ENETRESET", "ENETUNREACH", "EPIPE", "EREMOTEIO", "ETIMEDOUT",
    )
    if (number := getattr(errno, name, None)) is not None
}  # fmt: skip
# Errors of connections by name, as the packages that raise them (aiohttp, botocore, requests, urllib3, azure, google, httpx) may not be
# installed.
_CONNECTIONS = {
    "ChunkedEncodingError", "ClientConnectionError", "ClientPayloadError", "ConnectionError", "HTTPClientError", "IncompleteRead",
    "IncompleteReadError", "ProtocolError", "RemoteDisconnected", "ResponseParserError", "ServiceRequestError",
    "ServiceResponseError", "Timeout", "TimeoutError", "TransportError",
}  # fmt: skip


class ShortAnswer(ConnectionError):
    """Fewer bytes came than were asked for."""


def retried(call: Callable[[], T]) -> T:
    """What call() gives, which is called again while its error is one that passes. It must be safe to repeat."""
    for delay in DELAYS:
        try:
            return call()
        except Exception as error:
            if not is_passing(error):
                raise
        import random  # which takes time, and few need

        time.sleep(delay * random.uniform(0.5, 1))
    return call()


def is_passing(error: BaseException) -> bool:
    """Whether it is a server's or a network's trouble: 429, 5xx, a connection that broke. Never 403, 404 or 412."""
    chain = list(_causes(error))
    if any(isinstance(each, (FileNotFoundError, FileExistsError, PermissionError, ImportError)) for each in chain):
        return False
    # The first that says it: a server's answer counts before the number that was made of it, and a broken connection before what a
    # parser said of the part that came.
    for each in chain:
        if not _CONNECTIONS.isdisjoint(_names(type(each))):
            return True
        if (status := _status(each)) is not None:
            return status in _STATUSES
    return any(isinstance(each, OSError) and each.errno in _NUMBERS for each in chain)


def _causes(error: BaseException) -> Iterator[BaseException]:
    for _ in range(8):
        yield error
        if error.__cause__ is None:
            return
        error = error.__cause__


def status_of(error: BaseException) -> int | None:
    """The status of HTTP that an error or one of its causes has."""
    return next((status for each in _causes(error) if (status := _status(each)) is not None), None)


def _status(error: BaseException) -> int | None:
    """The status of HTTP in an error of aiohttp, gcsfs, azure, requests, httpx or botocore."""
    answer = getattr(error, "response", None)
    if isinstance(answer, dict):
        found = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
    else:
        places = ((error, "status"), (error, "status_code"), (answer, "status_code"), (error, "code"))
        # One after the other: aiohttp warns of its `code`.
        found = next((each for where, name in places if (each := getattr(where, name, None)) is not None), None)
    return found if type(found) is int and 400 <= found <= 599 else None


def _names(kind: type) -> set[str]:
    return {each.__name__ for each in kind.__mro__}
