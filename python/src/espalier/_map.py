"""Key maps: checkpoints of one framework as those of another."""

from __future__ import annotations

import functools
import json
import math
import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from . import _core, _urls
from ._api import _load
from ._checkpoint import Checkpoint
from ._errors import EspalierError, KeyPathError, LossWarning, in_python
from ._frameworks import Framework
from ._options import Check, Path, check_bool, check_compression, check_int, check_text, check_threads
from ._progress import Progress, reporting
from ._tree import DTYPE_NAMES, below, keys_of
from ._visible import visible

if TYPE_CHECKING:
    from ._like import Strict

Work = Literal["rename", "block gather", "strided", "arithmetic"]


@dataclass(frozen=True)
class MapTarget:
    """What a map makes: a tensor, or with `dtype` None another value, which is kept as it is.

    `tied` are further names of the same tensor. `rule` counts from 1, and is None for what no rule took. `work` says how it
    is made, and `sources` names the tensors of the inputs that it is made from.
    """

    name: str
    tied: tuple[str, ...]
    rule: int | None
    work: Work
    dtype: str | None
    shape: tuple[int, ...]
    sources: tuple[str, ...]


class MappedCheckpoint(Checkpoint):
    """What a key map makes of checkpoints: see map(). It is an open checkpoint, whose tensors are made when they are read.

    Threads can share it. It does not pickle. Keep the files as they are for as long as it is used.
    """

    _mapped: _core.Mapped
    _inputs: list[MappedCheckpoint]
    _parameters: str  # the key path of map(at=)

    @functools.cached_property
    def targets(self) -> tuple[MapTarget, ...]:
        """What the map makes, and of what. Nothing was read for it but names, dtypes and shapes."""
        return tuple(
            MapTarget(name, tied, rule, _work(work), None if dtype is None else DTYPE_NAMES[dtype], shape, sources)
            for name, tied, rule, work, dtype, shape, sources in self._mapped.targets()
        )

    @functools.cached_property
    def dropped(self) -> dict[str, int | None]:
        """The tensors of the inputs that nothing is made of, and the rule that drops each; None for rest="drop"."""
        return self._mapped.dropped()

    @functools.cached_property
    def lora(self) -> dict[str, Any] | None:
        """Of an adapter that was mapped, what its adapter_config.json must say: r, use_rslora, target_modules, lora_alpha if it is
        known, and rank_pattern and alpha_pattern for modules that have others. None if map() had no `lora`."""
        text = self._mapped.lora()
        return None if text is None else json.loads(text)

    @functools.cached_property
    def map_notes(self) -> list[str]:
        """What the plan could not tell, a sentence each, such as of a kept tensor that may be state of a mapped one. map() warns of
        each, too."""
        return [in_python(note) for note in self._mapped.map_notes()]

    def check(self) -> None:
        """Checks what only data can tell: that tensors which the map ties are equal, and zeros are zero. save() does so, too.
        Raises EspalierError with code "map_data"; warns (LossWarning) of numbers that are lost where the map says "pad"."""
        for each in self._inputs:
            each.check()
        self._mapped.check()
        if count := self._mapped.lost_elements:
            self._warn_of_loss(f"{count} numbers other than 0 are lost where the map says 'pad'")

    def _check_data(self) -> None:
        self.check()

    def _warn_of_loss(self, message: str) -> None:
        warnings.warn(visible(f"{self.name}: {message}"), LossWarning, stacklevel=4)

    def _tell_overflows(self, before: int) -> None:
        if count := self._mapped.overflows - before:
            self._warn_of_loss(f"{count} numbers became infinite, as the map computes with them in a smaller dtype")

    def load(
        self,
        *,
        at: str | None = None,
        like: Any = None,
        strict: Strict = True,
        keys: Literal["exact", "text"] = "exact",
        cast: Literal["float"] | None = None,
        check: Check = "hashes",
        exact: bool = False,
        framework: Framework = "numpy",
        progress: Progress = None,
    ) -> Any:
        """The state that the map makes, or what is `at` a key path of it. The options are those of espalier.load()."""
        self.check()
        before = self._mapped.overflows
        loaded = _load(self, at, like, strict, keys, cast, check, exact, framework, progress)
        self._tell_overflows(before)
        return loaded

    def save(
        self,
        path: Path,
        *,
        at: str | None = None,
        unrepresentable: Literal["drop", "error"] | None = None,
        compression: int = 0,
        sync: bool = True,
        replace: bool = True,
        progress: Progress = None,
        threads: int = 0,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Saves what the map makes, completely or not at all, in bounded memory. The file's format is that of its ending:
        .safetensors, or .espalier and any other one.

        `at` saves what is at a key path alone, without the path in the names. A .safetensors file is a model: where map() has an
        `at`, it gets what is there, and a LossWarning says what stays behind. `at=""` saves all. What safetensors cannot hold, such as
        the step in a file's metadata, is left out of such a model, and a LossWarning tells it; elsewhere it is an error.
        `unrepresentable` chooses "drop" or "error".

        A map that writes names with labels makes a file for each: `path` is then a folder, which gets LABEL.espalier. The
        metadata of the inputs comes along, and "espalier.map" says which map it was. The other options are those of
        espalier.save(), and so are URLs, to which one file is saved.
        """
        if _urls.is_url(path):
            if self._mapped.labels() != [""]:
                raise EspalierError("this map makes several files, which are saved to a folder of this machine; copy it to the URL")
            _urls.put(
                os.fsdecode(path), storage_options, check_bool("replace", replace),
                lambda local: self.save(
                    local, at=at, unrepresentable=unrepresentable, compression=compression, sync=False, progress=progress, threads=threads
                ),
            )  # fmt: skip
            return
        _urls.check_options(storage_options)
        if unrepresentable not in (None, "drop", "error"):
            raise EspalierError(f'unrepresentable must be "drop" or "error", not {unrepresentable!r}')
        level, count = check_compression(compression), check_threads(threads)
        flags = check_bool("sync", sync), check_bool("replace", replace)
        labels = self._mapped.labels()
        names = {"": os.fsdecode(path)} if labels == [""] else _files_of(os.fsdecode(path), labels)
        where = check_text("at", at or "")
        if at is None and names.get("", "").endswith(".safetensors"):
            where = self._parameters_alone(names[""])
        self.check()
        before = self._mapped.overflows
        for label, name in names.items():
            is_safetensors = name.endswith(".safetensors")
            if is_safetensors and level:
                raise EspalierError("a safetensors file is not compressed; leave out compression=, or save to .espalier")
            with reporting(progress, f"saving {name}") as report:
                drops = unrepresentable == "drop" or (unrepresentable is None and where != "")
                lost = self._mapped.save(os.fsencode(name), label, where, is_safetensors, drops, level, *flags, count, report)
            self._tell_lost(name, lost)
        self._tell_overflows(before)

    def _tell_lost(self, file: str, lost: str) -> None:
        if lost:
            self._warn_of_loss(f"{file} lacks what safetensors cannot hold: {lost}")

    def _parameters_alone(self, file: str) -> str:
        """The key path of map(at=), or "" if nothing is there. Warns of what is beside it, which `file` will not have."""
        try:
            keys = keys_of(self._find_path(self._opened.state, self._parameters)[1])
        except KeyPathError:
            return ""
        path, beside = "", []
        for key in keys:
            beside += [below(path, other) for other in (self.at(path) if path else self._root()).keys() if other != key]
            path = below(path, key)
        if beside:
            shown = ", ".join(beside[:5]) + (f" and {len(beside) - 5} more" if len(beside) > 5 else "")
            text = f"{file} has what is at {path} alone, and not {shown}; pass at={path!r} to save() if that is meant, or at='' for all"
            self._warn_of_loss(text)
        return path

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(visible(f"{self.name}: a mapped checkpoint does not pickle; map the files again where it is needed"))


def _work(name: str) -> Work:
    return name  # type: ignore[return-value]  # of the library's names


def _files_of(folder: str, labels: list[str]) -> dict[str, str]:
    if not os.path.isdir(folder):
        raise EspalierError(f"{folder}: the map makes a file for each label, so this must be a folder")
    files: dict[str, str] = {}
    for label in labels:
        name = label or "model"
        # A label may come from a map of a stranger.
        if name.startswith(".") or any(c in name for c in "/\\\0"):
            raise EspalierError(f"the label {label!r} is no name of a file")
        path = os.path.join(folder, f"{name}.espalier")
        if path in files.values():
            raise EspalierError(f"{path}: two labels would make this file; another label than model is needed beside names without one")
        files[label] = path
    return files


def key_maps() -> dict[str, str]:
    """The maps that come with the package: their names, and their texts in JSON with comments."""
    return dict(_core.key_maps())


def _text_of(key_map: str | os.PathLike[str] | Mapping[str, Any]) -> tuple[str, str]:
    """A map's text, and what errors call it."""
    if isinstance(key_map, Mapping):
        try:
            return json.dumps(dict(key_map), allow_nan=False), "the key map"
        except (TypeError, ValueError) as error:
            raise EspalierError(f"the key map is no JSON object: {error}", "map_invalid") from None
    if not isinstance(key_map, (str, os.PathLike)):
        raise EspalierError(f"a key map is a name, a file or a dict, not a {type(key_map).__name__}")
    name = os.fspath(key_map)
    if isinstance(key_map, str) and "/" not in name and not name.endswith(".json"):
        known = key_maps()
        if name not in known:
            raise EspalierError(f"there is no key map called {name!r}; there are {', '.join(known)}; the name of a file ends in .json")
        return known[name], f"key map {name}"
    return _read_text(name), name


def _read_text(name: str) -> str:
    if _urls.is_url(name):
        raise EspalierError(f"{_urls.shown(name)}: key maps and configurations are files of this machine; download it, or pass a dict")
    most = 4 << 20
    try:
        with open(name, "rb") as file:
            content = file.read(most + 1)
    except FileNotFoundError:
        from ._errors import not_found

        raise not_found(f"{name}: no such file", name) from None
    if len(content) > most:
        raise EspalierError(f"{name} has more than the {most} bytes that are read of such a file", "limit_exceeded")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise EspalierError(f"{name} is not UTF-8: {error.reason} at byte {error.start}", "map_invalid") from None


def _texts_of(names: str | Iterable[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _configs_of(config: Any) -> list[str]:
    if config is None:
        return []
    return [_config_of(each) for each in config] if isinstance(config, (list, tuple)) else [_config_of(config)]


def _config_of(config: Any) -> str:
    if hasattr(config, "to_dict"):  # of transformers
        config = config.to_dict()
    if isinstance(config, Mapping):
        return json.dumps(dict(config), default=lambda _: None)  # what is no number is not asked for
    if isinstance(config, (str, os.PathLike)):
        return _read_text(os.fspath(config))
    raise EspalierError(f"config must be a dict, the name of a JSON file, or a list of these, not a {type(config).__name__}")


def _numbers_of(sizes: Mapping[str, float]) -> dict[str, float]:
    if not isinstance(sizes, Mapping):
        raise EspalierError(f"sizes must be a dict of words and numbers, not a {type(sizes).__name__}")
    numbers = {}
    for word, value in sizes.items():
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not isinstance(word, str) or isinstance(value, str) or not math.isfinite(number):
            raise EspalierError(f"sizes has {word!r}: {value!r}, which is no word and its number")
        numbers[word] = number
    return numbers


def map(
    inputs: Path | Checkpoint | Mapping[str, Path | Checkpoint],
    key_map: str | os.PathLike[str] | Mapping[str, Any],
    *,
    reverse: bool = False,
    sizes: Mapping[str, float] = {},
    config: Any = None,
    at: str = "",
    along: str | Iterable[str] = (),
    param_order: Iterable[str] = (),
    along_scaled: bool = False,
    lora: str | Iterable[str] = (),
    rest: Literal["error", "keep", "drop"] | None = None,
    partial: bool = False,
    like: Path | Checkpoint | None = None,
    memory: int = 256 << 20,
    threads: int = 0,
) -> MappedCheckpoint:
    """What a key map makes of checkpoints of another framework, planned and proved before a tensor is read.

        espalier.map("hf.safetensors", "llama-torchtune", config="config.json").save("torchtune.espalier")
        state = espalier.map("pytorch_model.bin", "llama-meta", reverse=True).load(framework="torch")

    `inputs` is a checkpoint of any format, or a dict of labels and checkpoints: `{"": "base.safetensors", "lora":
    "adapter.safetensors"}` for a map whose names start with `lora::`. `key_map` is a name of key_maps(), a file that ends in
    .json, or a dict; for one map after the other, map what map() gave. `reverse` reads it from right to left. `sizes` gives words of the map their sizes and numbers, and
    `config` is a model's configuration that has them: a dict, a file, or an object with to_dict(); of a list of these, the
    first that has a word counts.

    `at` is where the parameters stand, such as "model"; what stands elsewhere is kept. `along` says where the optimizer's
    state stands, with {param} and {slot}: "optimizer.state.{param}.{slot}". It follows its parameters; `along_scaled` also
    lets it follow those that the map multiplies. torch numbers the parameters of an optimizer: "optimizer.state.{param#}.{slot}".
    Their names are those of "param_names" in its groups, or `param_order`, or those of the parameters in the file's order. `rest` says what becomes of tensors that no rule takes, in place of what the
    map says. `partial` leaves out the rules that go the other way only. `like` is a checkpoint with the names, shapes and
    dtypes that must come out, such as a saved tree of spec() or of meta tensors. `memory` bounds the bytes of tensors that are put
    together at a time.

    `lora` says that the input is a LoRA adapter of what the map reads, and how factors are called on both sides: "peft",
    "torchtune", "mlx", or names such as "{module}.lora_{a|b}.weight", or two of these with " <-> " between them:

        espalier.map("adapter_model.safetensors", "phi3-torchtune", lora="peft <-> torchtune", config=["config.json", "adapter_config.json"])

    Factors follow the rules of their weights: A [r, in] the columns, B [out, r] the rows. Where weights are joined, ranks grow, and alpha
    with them: see MappedCheckpoint.lora.

    docs/key-maps.md describes the language. Raises EspalierError, whose code starts with "map_", and which names the rule,
    the tensors and the mend.
    """
    flags = {"reverse": reverse, "along_scaled": along_scaled, "partial": partial}
    for name, value in flags.items():
        check_bool(name, value)
    if rest not in (None, "error", "keep", "drop"):
        raise EspalierError(f'rest must be "error", "keep" or "drop", not {rest!r}')
    text, map_name = _text_of(key_map)
    named = inputs if isinstance(inputs, Mapping) else {"": inputs}
    if not named:
        raise EspalierError("there are no inputs to map")
    count = check_threads(threads)
    files, mapped_inputs = [], []
    for label, each in named.items():
        checkpoint = each if isinstance(each, Checkpoint) else Checkpoint(each, threads=count)
        files.append((checkpoint._opened, str(label), checkpoint.name))
        if isinstance(checkpoint, MappedCheckpoint):
            mapped_inputs.append(checkpoint)
    if like is not None and not isinstance(like, (str, bytes, os.PathLike, Checkpoint)):
        raise EspalierError(f"like must be a file or an open checkpoint, not a {type(like).__name__}; save the template first: spec() and meta tensors become placeholders")
    template = like if like is None or isinstance(like, Checkpoint) else Checkpoint(like, threads=count)
    where = map_name if len(files) > 1 else f"{files[0][2]}: {map_name}"
    mapped = _core.Mapped.make(
        text, files, reverse, partial, _numbers_of(sizes), _configs_of(config), at, _texts_of(along),
        list(param_order), along_scaled, _texts_of(lora), rest, None if template is None else template._opened, check_int("memory", memory, 1, 2**62), count, where,
    )  # fmt: skip
    made = MappedCheckpoint.__new__(MappedCheckpoint)
    made._options, made.name, made._path = {}, where, ""
    made._mapped, made._inputs, made._parameters = mapped, mapped_inputs, at
    made._open = mapped.open()
    for note in made.map_notes:
        warnings.warn(visible(f"{where}: {note}"), UserWarning, stacklevel=2)
    return made


__all__ = ["MapTarget", "MappedCheckpoint", "key_maps", "map"]
