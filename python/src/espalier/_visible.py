"""Names from files, for people: nothing in them does something to a terminal, or looks like another name."""

from __future__ import annotations

from . import _core


def visible(text: str) -> str:
    """The text with control characters, line breaks, and characters without width or that turn the direction of writing,
    as \\n, \\x1b and \\u{202e}: as the command line has it. Escaping twice is the same as escaping once."""
    if text.isascii() and text.isprintable():  # as nearly all are
        return text
    try:
        # Bytes of a file's name that are not UTF-8 are surrogates here.
        return _core.escaped(text.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return _core.escaped(text.encode("utf-8", "backslashreplace"))
