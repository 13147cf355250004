"""What an OddServer does to a reader, and the error that each must give: for the command line and for Python alike.

Each manner is for a file of some MB, of which a second request is made. `code` is that of docs/errors.md, and `text` a
part of the message.
"""

from typing import NamedTuple


class Refusal(NamedTuple):
    code: str
    text: str


def _io(text):
    return Refusal("io_error", text)


def _changed(text="the file changed on the server"):
    return Refusal("file_changed", text)


LIES = {
    "then-whole": _io("it did at first, and now sends the whole file"),
    "huge": _io("does not support ranges (it sends the whole file of 21474836480 bytes)"),
    "endless": _io("does not support ranges (it sends the whole file)"),
    "short": _io("the connection broke off"),
    "short-says-nothing": _io("the response ended after"),
    "less": _io("in place of bytes 0-"),
    "longer": _io("longer than it says"),
    "wrong-begin": _io("it sends bytes 1-"),
    "wrong-range": _io("longer than it says"),
    "odd-range": _io("no valid Content-Range"),
    "no-range": _io("no valid Content-Range"),
    "two-ranges": _io("no valid Content-Range"),
    "no-total": _io("no valid Content-Range"),
    "compressed": _io("compresses its response (gzip)"),
    "changed-etag": _changed(),
    "changed-date": _changed(),
    "changed-size": _changed(),
    "cut": _changed("it is shorter now"),
    "limited": _io("status 429); try again in 3600 seconds"),
    "reset": _io("no response"),
    "garbage": _io("no response"),
    "flood": _io("65536 bytes of headers"),
    "flood-in-one-line": _io("65536 bytes of headers"),
    "trailer-flood": _io("65536 bytes of headers"),
    # libcurl has words of its own for this one.
    "trailer-flood-in-one-line": _io("check the link"),
    "interim-flood": _io("65536 bytes of headers"),
    "circle": _io("redirects more than 10 times"),
    "to-file": _io("something other than an http or https URL"),
    "to-ftp": _io("something other than an http or https URL"),
    "to-nowhere": _io("something other than an http or https URL"),
    "to-odd-url": _io("something other than an http or https URL"),
    # Good at first.
    "then-wrong-begin": _io("in place of bytes"),
    "then-endless": _io("it did at first, and now sends the whole file"),
    "then-endless-part": _io("longer than it says"),
    "then-bomb": _io("compresses its response (gzip)"),
    # Headers that programs read in different ways.
    "folded": _io("headers that the server sends are not valid HTTP"),
    "two-lengths": _io("headers that the server sends are not valid HTTP"),
    "bad-chunks": _io("are not valid HTTP"),
}

# Those that a reader has to wait for; it waits as long as it is told.
STALLS = {
    "silent": _io("sent nothing"),
    "stalls": _io("sent nothing"),
    "drips": _io("less than 1 KiB per second"),
    "drips-headers": _io("less than 1 KiB per second"),
}

# What is odd and no lie: these are read.
GOOD = (
    "more", "weak-etag", "moved", "moved-relative", "elsewhere", "short-once", "busy-once", "reset-once", "signed-for-one",
    "whole", "whole-without-length", "with-user", "hints",
)
