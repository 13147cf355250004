"""save(), load() and open()."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, overload

from . import _core, _urls
from ._async import AsyncSave
from ._checkpoint import Checkpoint
from ._errors import EspalierError, Unsupported
from ._frameworks import Framework
from ._node import Node
from ._options import Check, Path, check_bool, check_compression, check_exact, check_metadata, check_threads, checks_hashes
from ._progress import Progress, reporting
from ._step_store import Saving
from ._tensor import Tensor

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._like import Ledger, Strict

T = TypeVar("T")
OPENING = ("mapped", "nest", "threads", "storage_options")  # the options of open()


class _OfMemory(TypedDict, total=False):
    """The options of load_bytes() that do not change the type of what it returns."""

    at: str | None
    keys: Literal["exact", "text"]
    cast: Literal["float"] | None
    check: Check
    exact: bool
    framework: Framework
    device: Any
    dtype: Any
    nest: bool
    threads: int


class _OfFile(_OfMemory, total=False):
    """The same of load()."""

    mapped: bool
    progress: Progress
    storage_options: Mapping[str, Any] | None


def open(
    path: Path,
    *,
    mapped: bool = True,
    nest: bool = False,
    threads: int = 0,
    storage_options: Mapping[str, Any] | None = None,
) -> Checkpoint:
    """Opens a checkpoint and validates its tree. Reads no tensor.

    A path with "://" is a URL, which is read in part, and hf:org/name[/file][@revision] names a model of the Hugging Face Hub. For
    these, http:// and https://, `storage_options` may have `headers`, a
    dict that no other server gets, and a `timeout` in seconds. fsspec reads all other URLs, and they are for it.

    `mapped=False` reads into memory instead of mapping the file: for network file systems, and files that others may
    change. `nest` makes nested dicts of dotted names, as safetensors files have them.
    """
    return Checkpoint(path, mapped=mapped, nest=nest, threads=threads, storage_options=storage_options)


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
    base: Path | Sequence[Path] = (),
    patches: bool = True,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Saves nested state to a file, completely or not at all.

    The old file stays until the new one is complete and, with `sync`, on the disk. `compression` is 0 for none, 1
    (fast) to 9 (thorough). Without `replace`, an existing file is an error. `metadata` is a dict without arrays.
    `views="copy"` saves arrays that share some of their memory each in full. `progress` is True, or a function of the
    bytes done and in total. Do not change arrays during the call. Ctrl-C leaves the old file.

    `base` names one or more checkpoints, of any format, in the folder of the new file. Each MiB of an array that is equal at
    the same key path of a base is not written again: the file refers to it, and needs the base for as long as it lives
    (`espalier needs FILE` in the shell lists what a file needs). With `patches`, one that differs a little is written as its
    differences, where they take at most 3/4 of the space; the file then also needs the files that the base refers to.
    A file that would come to more than 60 % of one without a base is written without. Everything opens such files as any
    other.

    A path with "://" is a URL: the file is written to a temporary folder, and fsspec puts it there. `storage_options`
    are for fsspec. `replace=False` then only looks whether the file exists.

    Raises Unsupported, with the key path, for a value that no checkpoint can hold.
    """
    copy, plain = copies_views(views), check_metadata(metadata)
    level, count = check_compression(compression), check_threads(threads)
    sync, replace = check_bool("sync", sync), check_bool("replace", replace)
    patches = check_bool("patches", patches)
    bases = [os.fsencode(each) for each in ([base] if isinstance(base, (str, bytes, os.PathLike)) else base)]

    def write(file: Path, sync: bool) -> None:
        with reporting(progress, f"saving {_urls.shown(os.fsdecode(path))}") as report:
            _core.save(os.fsencode(file), state, plain, level, sync, replace, count, copy, bases, patches, report)

    if _urls.is_url(path):
        if bases:
            raise EspalierError("a file at a URL cannot refer to a base; save it beside the base, and copy both")
        _urls.put(os.fsdecode(path), storage_options, replace, lambda file: write(file, False))
        return
    _urls.check_options(storage_options)
    write(path, sync)


Unrepresentable = Literal["error", "drop", "metadata"]


def save_safetensors(
    path: Path,
    state: Any,
    *,
    max_shard_size: int | str | None = None,
    like: Path | None = None,
    metadata: Mapping[str, Any] | None = None,
    unrepresentable: Unrepresentable = "error",
    sync: bool = True,
    replace: bool = True,
    views: Literal["error", "copy"] = "error",
    progress: Progress = None,
    threads: int = 0,
    storage_options: Mapping[str, Any] | None = None,
) -> list[tuple[str, str]]:
    """Saves a state as a safetensors file: nested keys are joined with dots. Completely or not at all, as save() does.

    The file is byte for byte what the safetensors library writes for the same tensors; only the order of several
    metadata pairs differs, which that library shuffles. safetensors holds tensors in dicts with text keys, and metadata
    of text. A module stands for its tensors: one of torch for its state_dict(), one of haliax or Equinox for its arrays, with the
    names that haliax's to_torch_compatible_state_dict() gives. `unrepresentable` says what becomes of all else: "error" raises Unsupported with the first such values;
    "drop" leaves them out, and saves an array once for each of its places; "metadata" carries the whole tree in the
    file's metadata, for `espalier convert` and C++ to restore.

    `max_shard_size="5GB"` writes several files if one would be larger: `model-00001-of-00003.safetensors` and so on beside the
    index `model.safetensors.index.json`, split as huggingface_hub and transformers split them. `like` is the index of an
    earlier save: each name goes into the file that it names, a new name into that of its nearest sibling. `path` is the name of
    one file, or the new index. The files are complete before the first old one is replaced, and the index changes in one step: it
    is that of the old model or of the new one. Then what the old index named and the new one does not is removed. Such files take
    no unrepresentable="metadata".

    A path with "://" is a URL, as for save(), where one file is saved.

    Returns what was dropped as (key path, what it is): the first 8, and then ("", "and 12 more").
    """
    if unrepresentable not in ("error", "drop", "metadata"):
        raise EspalierError(f'unrepresentable must be "error", "drop" or "metadata", not {unrepresentable!r}')
    if _urls.is_url(path):
        if max_shard_size is not None or like is not None:
            raise EspalierError("several files are saved to a folder of this machine; copy it to the URL, the index last")
        return _urls.put(
            os.fsdecode(path), storage_options, check_bool("replace", replace),
            lambda local: save_safetensors(
                local, state, metadata=metadata, unrepresentable=unrepresentable, sync=False, views=views, progress=progress,
                threads=threads,
            ),
        )  # fmt: skip
    _urls.check_options(storage_options)
    file, plain, copy = os.fsencode(path), check_metadata(metadata), copies_views(views)
    sync, replace = check_bool("sync", sync), check_bool("replace", replace)
    with reporting(progress, f"saving {os.fsdecode(path)}") as report:
        if max_shard_size is not None or like is not None:
            from . import _shards

            return _shards.save(
                path, state, plain, unrepresentable, sync, replace, copy, check_threads(threads), report, max_shard_size, like
            )
        from . import _named

        tensors = state if unrepresentable == "metadata" else _named.named(state)
        count, first = _core.save_safetensors(
            file, tensors, plain, unrepresentable, sync, replace, True, check_threads(threads), copy, report
        )
    return first if count == len(first) else [*first, ("", f"and {count - len(first)} more")]


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
    storage_options: Mapping[str, Any] | None = None,
) -> AsyncSave:
    """Begins save() and returns once all arrays are copied: change them at once.

    Takes the state's memory once more until the file is written. Arrays that JAX computed on a CPU cannot change, and are held in
    place of a copy: donate or delete them at once, too. JAX then takes other memory for what it would put in theirs. JAX forbids
    to write to one through torch.from_dlpack(); if you do, wait for the save first. What cannot be saved is an error here;
    all else is an error of the handle. Saves to one file complete in the order in which they begin. The program's end waits for
    them. A path with "://" is a URL, as for save(): a thread sends the temporary file once it is written.
    """
    plain, level, count = check_metadata(metadata), check_compression(compression), check_threads(threads)
    sync, replace, copy = check_bool("sync", sync), check_bool("replace", replace), copies_views(views)

    def begin(file: Path, sync: bool, replace: bool) -> Saving:
        return _core.save_async(os.fsencode(file), state, plain, level, sync, replace, count, copy)

    if _urls.is_url(path):
        from ._uploads import upload_to

        url = os.fsdecode(path)
        return AsyncSave(upload_to(url, storage_options, replace, lambda file: begin(file, False, True)), _urls.shown(url))
    _urls.check_options(storage_options)
    return AsyncSave(begin(path, sync, replace), os.fsdecode(path))


def save_bytes(
    state: Any,
    *,
    metadata: Mapping[str, Any] | None = None,
    compression: int = 0,
    views: Literal["error", "copy"] = "error",
    threads: int = 0,
) -> bytes:
    """The bytes of the file that save() writes; load_bytes() is the reverse."""
    plain, level = check_metadata(metadata), check_compression(compression)
    return _core.save_bytes(state, plain, level, check_threads(threads), copies_views(views))


@overload
def load(path: Path, *, like: None = None, strict: Strict = True, **options: Unpack[_OfFile]) -> Any: ...
@overload
def load(path: Path, *, like: T, strict: Literal[True, "template", "file"] = True, **options: Unpack[_OfFile]) -> T: ...
@overload
def load(path: Path, *, like: T, strict: Literal[False], **options: Unpack[_OfFile]) -> tuple[T, Ledger]: ...
@overload
def load(path: Path, *, like: Any, strict: bool, **options: Unpack[_OfFile]) -> Any: ...
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
    framework: Framework = "numpy",
    device: Any = None,
    dtype: Any = None,
    nest: bool = False,
    mapped: bool = True,
    progress: Progress = None,
    threads: int = 0,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """Loads a checkpoint, or what is `at` a key path of it.

    Arrays are read-only views of the mapped file: they take no memory, and every byte is compared with its hash first,
    unless `check="nothing"`; what has to be read into memory or decompressed is compared all the same. With
    `framework="torch"` they are tensors of torch. Writing to one copies the pages that change, and leaves the file as it is. With `framework="jax"` they are jax.Arrays on JAX's default device, and on a CPU
    views as well. No framework is chosen by what saved the file: without `framework`, arrays are numpy's. `device` is a device of torch, or
    a device or sharding of JAX, and `dtype` one of floats, such as "bf16" or torch.bfloat16, to which floats are converted. Types come back as they were: those of Python, numpy, and the classes that the program registered.
    `exact=True` keeps what has no Python type (labels, axis names, packed elements) in wrappers, so that saving the result
    gives the same bytes again. Nothing in a file is ever imported or executed.

    `like` is a template: the result has its types, and the file must have what it has, of the same kinds, dtypes and
    shapes. Dicts match by key (with `keys="text"`, "0" and 0 are the same), sequences by position, NamedTuples and
    dataclasses by field; only `strict=True` wants their classes to have the same name, in whatever module. A dict can
    stand for each of them, with the fields or positions as keys: `nest=True` gives such dicts. In place of an array,
    `espalier.spec(shape, dtype)` is as good; `espalier.ANY` takes what is there; `espalier.SKIP` leaves it out and reads none
    of it. What no file can hold, such as a function, stays the template's if the file has nothing there. TreeMismatch lists
    every difference. `strict="template"` lets the file have more, `strict="file"` lets it have less (the template's values
    stay), but not nothing, and `strict=False` gives the state and an espalier.Ledger. `cast="float"` converts floats of another dtype. An array of JAX with a sharding over several devices is read by slices, each once.

    `progress` is True, or a function of the stored bytes that are read or checked, and of all of them; slices do not count.
    Ctrl-C ends the read.

    A path with "://" is a URL, which fsspec reads, as open() says.
    """
    with Checkpoint(path, mapped=mapped, nest=nest, threads=threads, storage_options=storage_options) as checkpoint:
        return _load(checkpoint, at, like, strict, keys, cast, check, exact, framework, progress, device, dtype)


def load_open(checkpoint: Checkpoint, **options: Any) -> Any:
    """load() of an open file, with the options of load() that are none of open()."""
    plain: Any = load
    defaults = {name: value for name, value in plain.__kwdefaults__.items() if name not in OPENING}
    return _load(checkpoint, **{**defaults, **options})


@overload
def load_bytes(data: bytes, *, like: None = None, strict: Strict = True, **options: Unpack[_OfMemory]) -> Any: ...
@overload
def load_bytes(
    data: bytes, *, like: T, strict: Literal[True, "template", "file"] = True, **options: Unpack[_OfMemory]
) -> T: ...
@overload
def load_bytes(data: bytes, *, like: T, strict: Literal[False], **options: Unpack[_OfMemory]) -> tuple[T, Ledger]: ...
@overload
def load_bytes(data: bytes, *, like: Any, strict: bool, **options: Unpack[_OfMemory]) -> Any: ...
def load_bytes(
    data: bytes,
    *,
    at: str | None = None,
    like: Any = None,
    strict: Strict = True,
    keys: Literal["exact", "text"] = "exact",
    cast: Literal["float"] | None = None,
    check: Check = "hashes",
    exact: bool = False,
    framework: Framework = "numpy",
    device: Any = None,
    dtype: Any = None,
    nest: bool = False,
    threads: int = 0,
) -> Any:
    """Loads a file that is in memory, such as save_bytes() gives it. Its bytes are copied once. See load()."""
    with Checkpoint.of_bytes(data, nest=nest, threads=threads) as checkpoint:
        return _load(checkpoint, at, like, strict, keys, cast, check, exact, framework, None, device, dtype)


def _load(
    checkpoint: Checkpoint,
    at: str | None,
    like: Any,
    strict: Strict,
    keys: Literal["exact", "text"],
    cast: Literal["float"] | None,
    check: Check,
    exact: bool,
    framework: Framework,
    progress: Progress,
    device: Any = None,
    dtype: Any = None,
) -> Any:
    check_bool("exact", exact)
    opened = checkpoint._opened
    node, where = (opened.state, "") if at is None else checkpoint._find_path(opened.state, at)
    checkpoint._tell_notes(where)
    if like is None:
        if strict is not True or keys != "exact" or cast is not None:
            raise EspalierError("strict=, keys= and cast= say how a template is matched; pass like=")
        check_exact(exact, framework)
        convert = None
        if device is not None or dtype is not None:
            from ._convert import converter

            if exact:
                raise EspalierError("exact=True gives what the file has; leave out device= and dtype=")
            convert = converter(framework, device, dtype)
        return checkpoint._load_node(node, where, checks_hashes(check), exact, framework, progress, convert)
    if device is not None or dtype is not None:
        raise EspalierError('like= says where tensors go and what they are; leave out device= and dtype=, and see cast="float"')
    if exact:
        raise EspalierError("exact=True gives the types of the file, and like= those of the template; choose one")
    from ._like import Matcher  # as much again as a load without a template needs

    matcher = Matcher(checkpoint, keys, cast, framework)
    try:
        state = matcher.load(node, where, like, strict, checks_hashes(check), progress)
    except Unsupported as error:
        raise checkpoint._located(error, where) from None
    checkpoint._restore_attributes(state, where)
    return state if strict else (state, matcher.ledger)


__all__ = ["Checkpoint", "Node", "Tensor", "load", "load_bytes", "open", "save", "save_async", "save_bytes", "save_safetensors"]
