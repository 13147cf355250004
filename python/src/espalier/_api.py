"""save(), load() and open()."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

from . import _core
from ._async import AsyncSave
from ._checkpoint import Check, Checkpoint, Node, Path, Progress, Tensor, _checks
from ._errors import EspalierError
from ._like import Matcher, Strict
from ._progress import reporting


def open(path: Path, *, mapped: bool = True, nest: bool = False, threads: int = 0) -> Checkpoint:
    """Opens a checkpoint and validates its tree. Reads no tensor.

    `mapped=False` reads into memory instead of mapping the file: for network file systems, and files that others may
    change. `nest` makes nested dicts of dotted names, as safetensors files have them.
    """
    return Checkpoint(path, mapped=mapped, nest=nest, threads=threads)


def copies_views(views: str) -> bool:
    if views not in ("error", "copy"):
        raise EspalierError(f'views must be "error" or "copy", not {views!r}')
    return views == "copy"


def save(
    path: Path,
    state: Any,
    *,
    metadata: Mapping[str, Any] | None = None,
    compression: int = 0,
    sync: bool = True,
    replace: bool = True,
    views: Literal["error", "copy"] = "error",
    progress: Progress = None,
    threads: int = 0,
) -> None:
    """Saves nested state to a file, completely or not at all.

    The old file stays until the new one is complete and, with `sync`, on the disk. `compression` is 0 for none, 1
    (fast) to 9 (thorough). Without `replace`, an existing file is an error. `metadata` is a dict without arrays.
    `views="copy"` saves arrays that share some of their memory each in full. `progress` is True, or a function of the
    bytes done and in total. Do not change arrays during the call. Ctrl-C leaves the old file.

    Raises Unsupported, with the key path, for a value that no checkpoint can hold.
    """
    with reporting(progress, f"saving {os.fsdecode(path)}") as report:
        _core.save(
            os.fsencode(path), state, _plain(metadata), compression, sync, replace, threads, copies_views(views), report
        )


def save_async(
    path: Path,
    state: Any,
    *,
    metadata: Mapping[str, Any] | None = None,
    compression: int = 0,
    sync: bool = True,
    replace: bool = True,
    views: Literal["error", "copy"] = "error",
    threads: int = 0,
) -> AsyncSave:
    """Begins save() and returns once all arrays are copied: change them at once.

    Takes the state's memory once more until the save is done. What cannot be saved is an error here; all else is an error of
    the handle. Saves to one file complete in the order in which they begin. The program's end waits for them.
    """
    copy = copies_views(views)
    saving = _core.save_async(
        os.fsencode(path), state, _plain(metadata), compression, sync, replace, threads, copy
    )
    return AsyncSave(saving, os.fsdecode(path))


def save_bytes(
    state: Any,
    *,
    metadata: Mapping[str, Any] | None = None,
    compression: int = 0,
    views: Literal["error", "copy"] = "error",
    threads: int = 0,
) -> bytes:
    """The bytes of the file that save() writes."""
    return _core.save_bytes(state, _plain(metadata), compression, threads, copies_views(views))


def _plain(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    return {} if metadata is None else dict(metadata)


def load(
    path: Path,
    *,
    at: str | None = None,
    like: Any = None,
    strict: Strict = True,
    keys: Literal["exact", "text"] = "exact",
    cast: Literal["float"] | None = None,
    check: Check = "hashes",
    exact: bool = False,
    nest: bool = False,
    mapped: bool = True,
    threads: int = 0,
) -> Any:
    """Loads a checkpoint, or what is `at` a key path of it.

    Arrays are read-only views of the mapped file: they take no memory, and every byte is compared with its hash first,
    unless `check="nothing"`. Types come back as they were: those of Python, numpy, and the classes that the program
    registered. `exact=True` keeps what has no Python type (labels, axis names, packed elements) in wrappers, so that
    saving the result gives the same bytes again. Nothing in a file is ever imported or executed.

    `like` is a template: the result has its types, and the file must have what it has, of the same kinds, dtypes and
    shapes. Dicts match by key (with `keys="text"`, "0" and 0 are the same), sequences by position, NamedTuples and
    dataclasses by field. In place of an array, `espalier.spec(shape, dtype)` is as good; `espalier.ANY` takes what is
    there; `espalier.SKIP` leaves it out and reads none of it. What no file can hold, such as a function, stays the
    template's. TreeMismatch lists every difference. `strict="template"` lets the file have more, `strict="file"` lets it
    have less (the template's values stay), and `strict=False` gives the state and an espalier.Ledger. `cast="float"`
    converts floats of another dtype.
    """
    with Checkpoint(path, mapped=mapped, nest=nest, threads=threads) as checkpoint:
        opened = checkpoint._opened
        node = opened.state if at is None else opened.at(opened.state, at)
        if like is None:
            return opened.load(node, _checks(check), exact)
        if exact:
            raise EspalierError("exact=True gives the types of the file, and like= those of the template; choose one")
        matcher = Matcher(opened, keys, cast)
        state = matcher.load(node, "" if at is None else opened.printed_path(opened.state, at), like, strict, _checks(check))
        return state if strict else (state, matcher.ledger)


__all__ = ["Checkpoint", "Node", "Tensor", "load", "open", "save", "save_async", "save_bytes"]
