"""An open file: what is at its key paths, loading and verifying it, and what was noticed when it was opened."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from . import _core, _frameworks, _hub, _near, _urls
from ._errors import CheckpointNotFound, Corrupt, EspalierError, Incomplete, KeyPathError, Unsupported
from ._node import Node
from ._options import Check, Path, check_bool, check_exact, check_text, check_threads, checks_hashes
from ._progress import Progress, reporting
from ._tensor import Tensor
from ._tree import ATTRIBUTES, DICT, PLACEHOLDER, RECORD, TENSOR
from ._visible import visible


class Note(NamedTuple):
    """What was noticed when a file of another format was opened."""

    kind: Literal["loss", "warning", "code"]
    """A loss: the checkpoint lacks something that the file has. A warning: something may not be what it seems. Code: the
    program that the file's format belongs to would import or call what it names; nothing was run here."""
    path: str
    """The key path that it is about; empty for the whole file. Exact: escape it before you print it."""
    message: str
    """One sentence, in which names from the file are escaped."""


class VerifyReport(NamedTuple):
    """What verify() checked, all of it intact."""

    chunks: int
    bytes: int
    has_hashes: bool
    checksums: int = 0
    """Of a format without hashes: what was compared in their place, such as the CRC-32 of zip archives. None: nothing was."""
    unchecked: int = 0
    """Stored bytes of tensors that have no checksum."""
    verdict: Literal["ok", "structure_only"] = "ok"
    """"structure_only": the format has nothing to check the tensors' bytes with."""


class Checkpoint:
    """An open file. `checkpoint["model"]` reads nothing but what it is asked for; load() reads all.

    Immutable, so threads can share it. It pickles as its path and digest, and is opened again where it is unpickled.
    close() ends reads through it; arrays that it gave out stay valid.
    """

    _told = False

    def __init__(
        self,
        path: Path,
        *,
        mapped: bool = True,
        nest: bool = False,
        threads: int = 0,
        storage_options: Mapping[str, Any] | None = None,
    ):
        threads, mapped, nest = check_threads(threads), check_bool("mapped", mapped), check_bool("nest", nest)
        if isinstance(path, bytes) and path.startswith(b"\x89ESPL"):
            raise EspalierError("these are the bytes of a file, not its name; load_bytes() reads them")
        self._options = {"mapped": mapped, "nest": nest, "threads": threads, "storage_options": storage_options}
        self._open: _core.File | None
        if _urls.is_url(path):
            self._open_url(os.fsdecode(path), nest, threads, storage_options)
        else:
            _urls.check_options(storage_options)
            self.name = os.fsdecode(path)
            self._path = os.path.abspath(self.name)
            self._open = _core.File.open(os.fsencode(path), mapped, nest, threads)

    def _open_url(self, url: str, nest: bool, threads: int, options: _urls.Options) -> None:
        self.name = _urls.shown(url)
        *others, self._path = _hub.addresses(url) if _hub.is_name(url) else [url]
        for address in others:
            with contextlib.suppress(CheckpointNotFound):
                self._open, self._path = self._opened_at(address, nest, threads, options), address
                return
        self._open = self._opened_at(self._path, nest, threads, options)

    def _opened_at(self, url: str, nest: bool, threads: int, options: _urls.Options) -> _core.File:
        if _urls.is_http(url):
            headers, timeout = _urls.http_options(url, options)
            return _core.File.open_url(url, headers, timeout, self.name, nest, threads)
        reader = _urls.Reader(url, options)
        return _core.File.open_source(reader, reader.sibling, reader.name, self.name, nest, threads)

    @classmethod
    def of_bytes(cls, data: bytes, *, nest: bool = False, threads: int = 0) -> Checkpoint:
        """A file in memory, which is copied once. It does not pickle."""
        # bytes(5) would be five zeros.
        content = bytes(memoryview(data))
        made = cls.__new__(cls)
        made._options, made.name, made._path = {}, f"{len(content):,} bytes in memory", ""
        made._open = _core.File.open_bytes(content, check_bool("nest", nest), check_threads(threads))
        return made

    def _check_data(self) -> None:
        """Checks what is to be checked before all of it is loaded."""

    @property
    def _opened(self) -> _core.File:
        if self._open is None:
            raise EspalierError(f"{self.name}: this checkpoint was closed; open it again")
        return self._open

    def close(self) -> None:
        self._open = None

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def state(self) -> Any:
        """The root of the state: a Node, or a Tensor or plain value if that is all there is."""
        return self._wrap(self._opened.state, "")

    @property
    def metadata(self) -> Any:
        """The file's metadata, as Python objects."""
        return self.load_metadata()

    def load_metadata(self, *, exact: bool = False) -> Any:
        """The same; with `exact` as load(exact=True) gives the state."""
        return self._opened.load(self._opened.metadata, True, check_bool("exact", exact))

    @property
    def digest(self) -> str | None:
        """One hash of the whole tree, equal for equal states however they are stored; None without hashes."""
        return self._opened.digest

    @property
    def format(self) -> str:
        """The file's format: "espalier", "safetensors", "torch", "npz", "gguf", "hdf5", "keras", "sharded", "dcp" and so on."""
        return self._opened.format

    @property
    def notes(self) -> list[Note]:
        """What the checkpoint lacks, or what may be wrong with it, although it opened: code that the file names, files that
        are missing, then the first 1,000 notes of other kinds. An intact Espalier file has none.
        """
        _, listed = self._opened.notes()
        return [Note(*note) for note in listed]

    def _tell_notes(self, within: str = "") -> None:
        """Warns, once, of code that the file names, and if a load of what is at the path `within` cannot give what the
        file has.
        """
        if self._told or self.format == "espalier":
            return
        self._told = True
        count, listed = self._opened.notes()
        others = " (open(...).notes has all)" if count > 1 else ""

        def warn(category: type[UserWarning], told: list[tuple[str, str]]) -> None:
            if told:
                import warnings

                # Several: the first of a file that means harm is harmless.
                said = " ".join(f"{path}: {message}" if path else message for path, message in told[:5])
                more = f" And {len(told) - 5} more of this kind." if len(told) > 5 else ""
                warnings.warn(visible(f"{self.name}: {said}{more}{others}"), category, stacklevel=5)

        from ._errors import CodeWarning, LossWarning

        # For the whole file: loading a part of it with pickle runs all of it.
        warn(CodeWarning, [(path, message) for kind, path, message in listed if kind == "code"])
        warn(LossWarning, [(path, message) for kind, path, message in listed if kind == "loss"
                           and (not path or not within or path == within or path.startswith(within + "/"))])  # fmt: skip

    @functools.cached_property
    def _attributes(self) -> Any:
        try:
            return self._opened.load(self._opened.at(self._opened.metadata, ATTRIBUTES), True, False)
        except (KeyPathError, Unsupported):
            return None

    def _restore_attributes(self, value: Any, path: str) -> None:
        """Sets the attributes of the dicts in what was loaded from `path`, if the file has any."""
        if self._attributes is not None and isinstance(value, (dict, list, tuple)):
            from ._attributes import restore

            restore(self._attributes, value, path)

    def _find_path(self, node: int, path: str) -> tuple[int, str]:
        """What a key path leads to from a node, and the path as it is printed."""
        opened = self._opened
        check_text("a key path", path)
        try:
            return opened.at(node, path), opened.printed_path(node, path)
        except KeyPathError as error:
            raise _near.explained(error, opened, node) from None

    def _wrap(self, node: int, path: str) -> Any:
        """What is at a node: a Tensor, a Node, or a plain value."""
        kind = self._opened.kind(node)
        if kind in (TENSOR, PLACEHOLDER):
            return self._tensor(node, path)
        if DICT <= kind <= RECORD:
            return Node(self, node, path)
        return self._opened.load(node, True, False)

    def _tensor(self, node: int, path: str) -> Tensor:
        return Tensor(self, node, path)

    def _load_node(
        self,
        node: int,
        path: str,
        check: bool,
        exact: bool,
        framework: _frameworks.Framework,
        progress: Progress = None,
        convert: Callable[[Any], Any] | None = None,
    ) -> Any:
        """All below a node, as Python objects; `convert` is called with each array."""
        try:
            with reporting(progress, f"loading {self.name}") as report:
                value = self._opened.load(node, check, exact, framework, report, convert)
        except Unsupported as error:
            raise self._located(error, path) from None
        if not exact:
            self._restore_attributes(value, path)
        return value

    def _located(self, error: Unsupported, path: str) -> BaseException:
        """The same error with the path of the first tensor below this one that it is of: those who make arrays do not know their
        paths.
        """
        is_of = getattr(error, "is_of", None)
        if is_of is None:
            return error
        from ._encode import at_path

        for found, each in self.find("**"):
            is_below = not path or found == path or found.startswith(f"{path}/")
            if is_below and isinstance(each, Tensor) and is_of(each):
                return at_path(error, found)
        return error

    def _root(self) -> Node:
        root = self.state
        if not isinstance(root, Node):
            raise EspalierError(f"{self.name}: the state is one value; load() gives it", "wrong_kind")
        return root

    def __getitem__(self, key: str | int) -> Any:
        return self._root()[key]

    def __contains__(self, key: object) -> bool:
        return key in self._root()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._root())

    def __len__(self) -> int:
        return len(self._root())

    def keys(self) -> list[str | int]:
        return self._root().keys()

    def values(self) -> list[Any]:
        return self._root().values()

    def items(self) -> list[tuple[str | int, Any]]:
        return self._root().items()

    def get(self, key: str | int, default: Any = None) -> Any:
        return self._root().get(key, default)

    def at(self, path: str) -> Any:
        """What is at a key path: `at("model/layers/0/weight")`, or with dots."""
        node, printed = self._find_path(self._opened.state, path)
        return self._wrap(node, printed)

    def find(self, pattern: str) -> list[tuple[str, Any]]:
        """Paths of all that a pattern such as "**/weight" matches, and what is there, parents first.

        As with at(), that is a Tensor, a Node, or a plain value such as 1 or None. A match brings all
        that is below it: `find("model")` gives that node and all in it, and `find("")` and `find("*")` all of the file,
        the first with the root. For tensors alone:
        `[(path, found) for path, found in checkpoint.find("") if isinstance(found, espalier.Tensor)]`.
        """
        found = self._opened.find(check_text("a pattern", pattern))
        return [(path, self._wrap(node, path)) for path, node in found]

    def load(
        self,
        *,
        check: Check = "hashes",
        exact: bool = False,
        framework: _frameworks.Framework = "numpy",
        progress: Progress = None,
    ) -> Any:
        """The whole state as Python objects: see espalier.load()."""
        check_exact(exact, framework)
        self._tell_notes()
        return self._load_node(self._opened.state, "", checks_hashes(check), exact, framework, progress)

    def verify(self, *, progress: Progress = None) -> VerifyReport:
        """Checks every byte of the file. Raises Corrupt, whose `errors` lists what is damaged; Incomplete, whose `missing` names
        the files, if nothing is damaged, but further files are missing, or tensors of another format are in a form that is not read.
        """
        with reporting(progress, f"verifying {self.name}") as report:
            verdict, has_hashes, chunks, size, checksums, unchecked, missing, count, errors = self._opened.verify(report)
        if count == 0:
            return VerifyReport(chunks, size, has_hashes, checksums, unchecked, "ok" if verdict == "ok" else "structure_only")
        more = f", and {count - 1} more" if count > 1 else ""
        if verdict == "incomplete":
            incomplete = Incomplete(f"{errors[0]}{more}; what is there is right", errors[0].code)
            incomplete.errors, incomplete.missing = errors, missing
            raise incomplete
        first = next(error for error in errors[len(missing) :] if error.code != "elements_missing")
        damaged = Corrupt(f"{first}{more}", first.code, first.path, first.offset)
        damaged.errors = errors
        raise damaged

    def __reduce__(self) -> tuple[object, ...]:
        if not self._path:
            raise TypeError(visible(f"{self.name}: a checkpoint of bytes has no name to open it again by"))
        return _reopen, (self._path, self._options, self.digest)

    def _reduce_at(self, path: str) -> tuple[object, ...]:
        """What a Tensor or a Node at a path pickles as."""
        return _at, (self, path)

    def __repr__(self) -> str:
        if self._open is None:
            return f"<closed checkpoint {visible(self.name)}>"
        return f"<checkpoint {visible(self.name)}: {self.state!r}, digest {self.digest}>"

    def _repr_html_(self) -> str:
        from . import _html

        return _html.of_checkpoint(self.name, self._open)


def _reopen(path: str, options: dict[str, Any], digest: str | None) -> Checkpoint:
    checkpoint = Checkpoint(path, **options)
    if checkpoint.digest != digest:
        other = f"its digest is {checkpoint.digest}"
        raise EspalierError(f"{checkpoint.name}: the file is not the one that was pickled: {other}")
    return checkpoint


def _at(file: Checkpoint, path: str) -> Any:
    return file.state.at(path) if isinstance(file.state, Node) else file.state
