"""What a key path was probably meant to be. Files are not trusted: the work is limited."""

from __future__ import annotations

from . import _core
from ._errors import KeyPathError
from ._tree import DICT, RECORD, below

# difflib takes some microseconds for each pair of letters.
_KEYS = 200
_LENGTH = 64
_SEGMENTS = 32
_SHOWN = 5


def _has_keys(file: _core.File, node: int) -> bool:
    return file.kind(node) in (DICT, RECORD)


def _meant(file: _core.File, node: int, key: str) -> list[str | int]:
    """The keys of a dict or record that are like one that it lacks."""
    digits = key.removeprefix("-")
    if len(key) < 19 and digits.isascii() and digits.isdecimal() and file.find_int(node, int(key)) is not None:
        return [int(key)]
    if len(key) > _LENGTH or digits.isdecimal():  # A number is no misspelling of another one.
        return []
    names = [name for name in file.first_keys(node, _KEYS) if isinstance(name, str) and len(name) <= _LENGTH]
    import difflib  # which takes time, and only mistakes need

    return list(difflib.get_close_matches(key, names, 3))


def hint(file: _core.File, node: int, key: str | int, path: str | None = None, joined: str = "") -> str:
    """What to say after "without that key": keys that are like it, or like what it is `joined` to, or the first.

    `path` is that of the node, if paths are to be shown in place of keys.
    """
    if not _has_keys(file, node):
        return ""

    def shown(found: str | int) -> str:
        return repr(found if path is None else below(path, found))

    if isinstance(key, str):
        meant = _meant(file, node, key) or _meant(file, node, joined)
    else:
        meant = [str(key)] if -(2**63) <= key < 2**63 and file.find_key(node, str(key)) is not None else []
    if meant:
        *others, last = [shown(each) for each in meant]
        return f"; did you mean {', '.join(others)}{' or ' if others else ''}{last}?"
    size = file.size(node)
    if size == 0:
        return "; it is empty"
    keys = [each for each in file.first_keys(node, _SHOWN) if isinstance(each, int) or len(each) <= _LENGTH]
    if not keys:
        return ""
    more = f" and {size - len(keys):,} more" if size > len(keys) else ""
    return f"; its keys are {', '.join(map(repr, keys))}{more}"


def _child(file: _core.File, node: int, segment: str) -> tuple[int, str | int] | None:
    """The child that a segment of a printed path leads to, and its key."""
    if not DICT <= file.kind(node) <= RECORD:
        return None
    if not segment.startswith("~2") and len(segment) < 20:
        try:
            number: int | None = int(segment)
        except ValueError:
            number = None
        if number is not None and -(2**63) <= number < 2**63:
            found = file.find_int(node, number)
            if found is not None:
                return found, number
    key = _key(segment)
    found = file.find_key(node, key) if _has_keys(file, node) else None
    return None if found is None else (found, key)


def _key(segment: str) -> str:
    return segment.removeprefix("~2").replace("~1", "/").replace("~0", "~")


def explained(error: KeyPathError, file: _core.File, node: int) -> KeyPathError:
    """The error of the library for a key path that leads nowhere from `node`, with a hint."""
    message, code, after = str(error).rpartition(" (code ")
    if error.code != "not_found" or not message.endswith("without that key"):
        return error
    # A path without slashes may have dots in their place, and keys with dots as well.
    is_dotted = "/" not in error.path
    segments, path = error.path.split("." if is_dotted else "/"), ""
    while segments:
        found, count = _child(file, node, segments[0]), 1
        rest = [_key(each) for each in segments[:_SEGMENTS]]
        joined = None if found else _joined(file, node, rest, "./" if is_dotted else "/.")
        if joined and is_dotted:
            found, count = joined[:2], joined[2]
        if found is None:
            if joined:
                hinted = f"; did you mean {below(path, joined[1])!r}, one key?"
            else:
                hinted = hint(file, node, rest[0], path, ".".join(rest))
            return KeyPathError(f"{message}{hinted}{code}{after}", error.code, error.path, error.offset)
        node, path = found[0], below(path, found[1])
        segments = segments[count:]
    return error


def _joined(file: _core.File, node: int, rest: list[str], between: str) -> tuple[int, str, int] | None:
    """The child whose key has one of the letters `between` segments, such as "0.weight" of a state dict; that key, and how many
    segments it is."""
    if not _has_keys(file, node) or sum(map(len, rest)) > _SEGMENTS * _LENGTH:
        return None
    for count in range(len(rest), 1, -1):
        for letter in between:
            key = letter.join(rest[:count])
            found = file.find_key(node, key)
            if found is not None:
                return found, key, count
    return None
