"""The exceptions of the package."""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence

from ._visible import visible


class EspalierError(ValueError):
    """Something is wrong with a file, a state or a request.

    `code` is the library's name for it, which stays the same (docs/errors.md); `path` is the key path that it is
    about, or empty; `offset` is a position in the file, or None. The message is one line, in which names from files are
    escaped; `path` is exact.
    """

    def __init__(self, message: str, code: str = "invalid_argument", path: str = "", offset: int | None = None):
        super().__init__(visible(message))
        self.code = code
        self.path = path
        self.offset = offset

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.code, self.path, self.offset)


class Corrupt(EspalierError):
    """The file is damaged, cut or hostile. `errors` lists all that verify() found."""

    errors: Sequence[EspalierError] = ()


class Incomplete(EspalierError):
    """verify() found nothing wrong, but files that the checkpoint has tensors in are missing, are other files, or cannot be read, or
    a file of another format has tensors in a form that is not read. `missing` has the names of these files, `errors` says of each
    file, and then of each such tensor ("elements_missing"), why.
    """

    errors: Sequence[EspalierError] = ()
    missing: Sequence[str] = ()


class Unsupported(EspalierError):
    """A value that no checkpoint can hold, or a file that this version cannot read."""


class KeyPathError(EspalierError, KeyError):
    """Nothing is at that key path."""

    __str__ = Exception.__str__  # KeyError prints the repr.


class Cancelled(EspalierError):
    """The operation was given up. A save left the old file as it was."""


class CheckpointOSError(EspalierError, OSError):
    """The operating system refused."""

    __str__ = Exception.__str__


class CheckpointNotFound(CheckpointOSError, FileNotFoundError):
    """No such file."""


class CheckpointExists(CheckpointOSError, FileExistsError):
    """A file of that name exists, and may not be replaced."""


class MissingPackage(EspalierError, ImportError):  # type: ignore[misc]  # ImportError has a path, too: of a module
    """A package that has to be installed for this."""

    __str__ = Exception.__str__


class SliceError(EspalierError, IndexError):
    """An index that a tensor, list, tuple or set of a file does not have, or does not take."""

    def __init__(self, message: str, code: str = "invalid_slice", path: str = "", offset: int | None = None):
        super().__init__(message, code, path, offset)


class LossWarning(UserWarning):
    """A file of another format has something that its checkpoint lacks. `Checkpoint.notes` lists all of it."""


class CodeWarning(UserWarning):
    """A file names code, which the program that its format belongs to would import or call. Nothing of it was run.
    `Checkpoint.notes` lists all names.
    """


_UNSUPPORTED = {"unsupported_version", "unsupported_feature", "unsupported_codec", "elements_missing", "unrepresentable"}
_REQUESTS = {
    "invalid_key_path", "invalid_pattern", "wrong_kind", "invalid_slice", "invalid_argument", "tree_invalid",
    "incomplete", "name_collision", "not_contiguous",
}  # fmt: skip
_SYSTEM = {"io_error", "not_a_regular_file", "file_changed", "durability_unknown", "file_missing", "folder_in_use"}


# What the library says in the words of C++ or of its command line, and the same in those of Python.
_IN_PYTHON = (
    ("safetensors.torch.save_file()", "espalier.save()"),
    ("safetensors.numpy.save_file()", "espalier.save()"),
    ("CheckpointFile::open()", "espalier.open()"),
    ("CheckpointDir saved", "Checkpointer saved"),
    ("correct Best::metric", "correct the name in best="),
    ("Access::kRead reads it", "mapped=False reads it"),
    ("have other chunks read whole", "pass read_others=True"),
    (", or use a Walker", ""),
    ("say with OpenFileOptions::sibling where its further files are", "open it by its name"),
    (
        "; carry the whole tree in the file's metadata (Unrepresentable::kMetadata), or leave out what does not fit "
        "(Unrepresentable::kDrop)",
        "; save it to a file that ends in .espalier, which holds all, or leave it out (unrepresentable=\"drop\")",
    ),
    ("Limits::", "the limit "),
)
# The same for options of the command line.
_OPTION = re.compile(
    r"--set (?P<word>\w+)=(?P<number>\.\.\.|[\w.+-]*\w)|--along none|--(?P<flag>along-scaled|partial)\b"
    r"|--(?P<option>set|config|at|along|param-order|lora|like|memory)\b(?: (?='))?"
)


def _argument(option: re.Match[str]) -> str:
    if option["word"]:
        return f'sizes={{"{option["word"]}": {option["number"]}}}'
    if option["flag"]:
        return f"{option['flag'].replace('-', '_')}=True"
    if option["option"]:
        return "sizes=" if option["option"] == "set" else f"{option['option'].replace('-', '_')}="
    return 'along="none"'


def in_python(message: str) -> str:
    """What the library says, in the words of Python."""
    for library, here in _IN_PYTHON:
        message = message.replace(library, here)
    return _OPTION.sub(_argument, message) if "--" in message else message


def make(code: str, message: str, path: str, offset: int | None, where: str) -> Exception:
    """The exception for an error of the library; `where` is the file, or empty."""
    message = in_python(message)
    text = f"{where}: {message}" if where else message
    if code == "out_of_memory":
        return MemoryError(visible(text))
    if code == "file_not_found":
        kind: type[EspalierError] = CheckpointNotFound
    elif code == "file_exists":
        kind = CheckpointExists
    elif code in _SYSTEM:
        kind = CheckpointOSError
    elif code == "not_found":
        kind = KeyPathError
    elif code == "cancelled":
        kind = Cancelled
    elif code in _UNSUPPORTED:
        kind = Unsupported
    elif code in _REQUESTS or code.startswith("map_"):
        kind = EspalierError
    else:
        kind = Corrupt
    if kind is CheckpointNotFound:
        return not_found(text, where or None, path, offset)
    made = kind(text, code, path, offset)
    if isinstance(made, FileExistsError):
        made.errno, made.filename = errno.EEXIST, where or None
    return made


def not_found(message: str, where: str | None, path: str = "", offset: int | None = None) -> CheckpointNotFound:
    """That no file is at `where`."""
    made = CheckpointNotFound(message, "file_not_found", path, offset)
    made.errno, made.filename = errno.ENOENT, where
    return made
