"""Types of options, and checks: what the extension module would refuse with its own signature."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from typing import Any, Literal

from . import _frameworks
from ._errors import EspalierError

Path = str | bytes | os.PathLike[str]
Check = Literal["hashes", "nothing"]


def check_int(name: str, value: object, least: int, most: int | None = None) -> int:
    """The option as an int, also of one of numpy or of a framework."""
    limits = f"at least {least}" if most is None else f"{least} to {most}"
    try:
        if isinstance(value, (bool, float)):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise EspalierError(f"{name} must be an int, {limits}, not {value!r}") from None
    if number < least or (most is not None and number > most):
        raise EspalierError(f"{name} must be {limits}, not {number}")
    return number


def check_threads(value: object) -> int:
    return check_int("threads", value, 0, 2**16)


def check_compression(value: object) -> int:
    return check_int("compression", value, 0, 9)


def check_bool(name: str, value: object) -> bool:
    if value is True or value is False:
        return value
    raise EspalierError(f"{name} must be True or False, not {value!r}")


def check_text(name: str, value: object) -> str:
    """A key path or a pattern."""
    if not isinstance(value, str):
        raise EspalierError(f"{name} must be a str, not {value!r}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise EspalierError(f"{name} has lone surrogates, which no text of a file has: {value!r}") from None
    return value


def check_metadata(value: Mapping[str, Any] | None, name: str = "metadata") -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise EspalierError(f"{name} must be a dict, not a {type(value).__name__}")
    return dict(value)


def checks_hashes(check: str) -> bool:
    if check not in ("hashes", "nothing"):
        raise EspalierError(f'check must be "hashes" or "nothing", not {check!r}')
    return check == "hashes"


def check_exact(exact: bool, framework: str) -> None:
    check_bool("exact", exact)
    if framework != "numpy":
        _frameworks.adapter(framework)
        if exact:
            raise EspalierError("exact=True gives arrays of numpy; leave out framework=")
