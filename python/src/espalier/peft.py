"""Espalier for adapters of PEFT: one file with the adapters, their configurations, and which base they belong to.

    import espalier.peft
    espalier.peft.save("adapter.espalier", model)               # a PeftModel
    model = espalier.peft.load("adapter.espalier", base)        # the same base, or a PeftModel of it
"""

from __future__ import annotations

import concurrent.futures
import copy
import hashlib
import json
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import peft
import torch

from . import _api
from ._checkpoint import Checkpoint
from ._errors import EspalierError
from ._node import Node
from ._options import Path, check_metadata

_KEY = "espalier.peft"
_VERSION = 1
# Adapters whose configurations make PEFT load nothing. That of SHADOW names a model to download, and that of MULTITASK_PROMPT_TUNING a
# file.
_TYPES = {
    "ADALORA", "BOFT", "C3A", "DELORA", "FOURIERFT", "HIRA", "HRA", "IA3", "LN_TUNING", "LOHA", "LOKR", "LORA", "MISS", "OFT",
    "P_TUNING", "PREFIX_TUNING", "PROMPT_TUNING", "RANDLORA", "ROAD", "SHIRA", "TRAINABLE_TOKENS", "VBLORA", "VERA",
}  # fmt: skip
# What makes PEFT import a module by name, or load other files, when one of these is added.
_REFUSED = ("megatron_config", "tokenizer_name_or_path", "prompt_tuning_init_state_dict_path")
_MOST_LAYERS = 4096
# PEFT matches these as regular expressions with the name of each module of the base.
_PATTERNS = re.compile(r".*_(modules|pattern)|modules_to_save|target_parameters")
_HASHED = 1 << 24


class _Base(NamedTuple):
    names: str
    """The hash of names, dtypes and shapes."""
    bytes: str | None
    """The hash of these and of all bytes."""


def save(
    path: Path,
    model: Any,
    *,
    adapters: str | Sequence[str] | None = None,
    hash_base: Literal["bytes", "names"] = "bytes",
    previous: Path | Sequence[Path] = (),
    patches: bool = True,
    metadata: Mapping[str, Any] | None = None,
    compression: int = 0,
    sync: bool = True,
    replace: bool = True,
    threads: int = 0,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Saves adapters of a PeftModel: all, or those named.

    The state has, for each adapter, what peft.get_peft_model_state_dict() gives for it: a module of modules_to_save, DoRA's
    magnitudes, and embeddings that it trains or that were resized, are in it. The metadata have each adapter's configuration and,
    for the base, its name, its revision and a hash. The hash is BLAKE2b over the names, dtypes, shapes and bytes of the
    base's parameters but for those that are in the file, and no buffers; it takes a second for each GB, divided by the processors.
    `hash_base="names"` leaves out the bytes.

    `previous` is the `base` of espalier.save(): files of earlier steps in the same folder, which the new one refers to for all that
    did not change. The other options are those of espalier.save().
    """
    if not isinstance(model, peft.PeftModel):
        raise EspalierError(f"espalier.peft.save() takes a PeftModel, not a {type(model).__name__}; wrap it with peft.get_peft_model()")
    if hash_base not in ("bytes", "names"):
        raise EspalierError(f'hash_base must be "bytes" or "names", not {hash_base!r}')
    names = list(model.peft_config) if adapters is None else [adapters] if isinstance(adapters, str) else list(adapters)
    for name in names:
        if name not in model.peft_config:
            raise EspalierError(f"the model has no adapter {name!r}; it has {_listed(model.peft_config)}")
    if any(getattr(module, "merged", False) is True for module in model.modules()):
        raise EspalierError("adapters are merged into the base, whose bytes are others then; call model.unmerge_adapter() first")
    plain = check_metadata(metadata)
    if _KEY in plain:
        raise EspalierError(f"metadata= has {_KEY!r}, which is the place of the adapters' configurations")
    state, described = {}, {}
    for name in names:
        state[name] = _tensors(model, name)
        more = sorted(state[name].keys() - _tensors(model, name, False).keys())
        described[name] = {"config": _plain_config(model.peft_config[name], name), "embeddings": more}
    base = _base_state(model)
    memory = {each.data_ptr() for tensors in state.values() for each in tensors.values() if each.numel()}
    own = sorted(name for name, each in base.items() if each.numel() and each.data_ptr() in memory)
    hashed = _hash({name: each for name, each in base.items() if name not in own}, hash_base == "bytes", threads)
    config = next(iter(model.peft_config.values()))
    about = {
        "version": _VERSION,
        "adapters": described,
        "active": [name for name in _active(model) if name in names],
        "base": {
            "name": config.base_model_name_or_path or getattr(model.get_base_model(), "name_or_path", None) or None,
            "revision": config.revision,
            "names": hashed.names,
            "digest": hashed.bytes,
            "own": own,
        },
    }
    _api.save(
        path, state, metadata={**plain, _KEY: about}, compression=compression, sync=sync, replace=replace, views="copy",
        threads=threads, base=previous, patches=patches, storage_options=storage_options,
    )  # fmt: skip


def load(
    path: Path,
    model: Any,
    *,
    adapters: str | Sequence[str] | Mapping[str, str] | None = None,
    check_base: bool | Literal["names"] = True,
    mapped: bool = True,
    threads: int = 0,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """Loads adapters into a model, and returns it as a PeftModel.

    `model` is the base, or a PeftModel of it. An adapter that it lacks is added by the configuration in the file, with the file's
    dtypes; the random numbers stay as they were. One that it has gets the file's tensors. Before, the names, shapes and dtypes are
    compared: EspalierError lists what one has and the other lacks. Then a model is left as it was. `adapters` are the names of those
    to load, or a dict of the names in the file and in the model.

    The base must be the one of the save, by its hash; `check_base="names"` compares only names, dtypes and shapes, and
    `check_base=False` nothing. Nothing is imported, downloaded or executed by a name in the file: configurations that would make
    PEFT do so are refused, and so are regular expressions that may take hours to match.
    """
    if check_base not in (True, False, "names"):
        raise EspalierError(f'check_base must be True, False or "names", not {check_base!r}')
    if not isinstance(model, torch.nn.Module):
        raise EspalierError(f"espalier.peft.load() takes a module, not a {type(model).__name__}")
    is_wrapped = isinstance(model, peft.PeftModel)
    if not is_wrapped and hasattr(model, "peft_config"):
        raise EspalierError("the model has adapters, and is no PeftModel; pass its base, or a PeftModel of it")
    where = os.fsdecode(path)
    with Checkpoint(path, mapped=mapped, threads=threads, storage_options=storage_options) as file:
        about = _about(file.metadata, where)
        chosen = _chosen(adapters, about["adapters"], where)
        if check_base is not False:
            _check_base(model, about["base"], check_base == "names", threads, where)
        loaded = {name: _loaded(file, name, where) for name in chosen}
    most = sum(1 for _ in model.modules())
    configs = {name: _config(about["adapters"][name]["config"], name, most, where) for name in chosen}
    before = _Unchanged(model)
    added: list[str] = []
    try:
        for name, here in chosen.items():
            if not isinstance(model, peft.PeftModel) or here not in model.peft_config:
                model = _add(model, here, configs[name], loaded[name], where)
                added.append(here)
            _check_tensors(model, here, loaded[name], about["adapters"][name]["embeddings"], here in added, where)
    except BaseException:
        before.restore()
        raise
    for name, here in chosen.items():
        _put(model, here, loaded[name], where)
    active = [chosen[name] for name in about["active"] if name in chosen]
    if not is_wrapped and len(active) == 1:
        config = next(configs[name] for name, here in chosen.items() if here == active[0])
        model.set_adapter(active[0], inference_mode=config.inference_mode)
    return model


def _listed(names: Any, most: int = 8) -> str:
    shown = [repr(each) for each in sorted(names)]
    return ", ".join(shown[:most]) + (f" and {len(shown) - most} more" if len(shown) > most else "") or "none"


def _loaded(file: Checkpoint, name: str, where: str) -> dict[str, Any]:
    node = file.state[name]
    tensors = node.load(framework="torch") if isinstance(node, Node) else None
    if not isinstance(tensors, dict) or not all(isinstance(each, torch.Tensor) for each in tensors.values()):
        raise EspalierError(f"{where}: the adapter {name!r} is no dict of tensors")
    return tensors


def _active(model: Any) -> list[str]:
    active = model.active_adapters
    return [active] if isinstance(active, str) else list(active)


def _tensors(model: Any, name: str, embeddings: bool | Literal["auto"] = "auto") -> dict[str, Any]:
    with warnings.catch_warnings():  # of embeddings that are saved, too
        warnings.simplefilter("ignore")
        found = peft.get_peft_model_state_dict(model, adapter_name=name, save_embedding_layers=embeddings)
    return {key: value.detach() for key, value in found.items() if isinstance(value, torch.Tensor)}


def _plain_config(config: Any, name: str) -> dict[str, Any]:
    def refuse(value: object) -> Any:
        if isinstance(value, (set, frozenset)):
            return sorted(value)
        raise EspalierError(f"the configuration of the adapter {name!r} has a {type(value).__name__}, which no file can hold")

    made: dict[str, Any] = json.loads(json.dumps(config.to_dict(), default=refuse))
    return made


def _base_state(model: Any) -> dict[str, Any]:
    """The parameters of the base by their own names."""
    state = peft.get_base_model_state_dict(model) if isinstance(model, peft.PeftModel) else model.state_dict()
    parameters = {each.data_ptr() for each in model.parameters()}
    return {
        name: each.detach() for name, each in state.items() if isinstance(each, torch.Tensor) and each.data_ptr() in parameters
    }


def _hash(base: Mapping[str, Any], with_bytes: bool, threads: int) -> _Base:
    about = {name: json.dumps([name, str(each.dtype), list(each.shape)]) for name, each in base.items()}
    names = hashlib.blake2b("\n".join(about[name] for name in sorted(about)).encode(), digest_size=16)
    if not with_bytes:
        return _Base(names.hexdigest(), None)
    with concurrent.futures.ThreadPoolExecutor(threads or os.cpu_count()) as pool:
        digests = dict(zip(base, pool.map(_digest, base.keys(), base.values()), strict=True))
    whole = hashlib.blake2b("\n".join(f"{about[name]} {digests[name]}" for name in sorted(about)).encode(), digest_size=16)
    return _Base(names.hexdigest(), whole.hexdigest())


def _digest(name: str, tensor: Any) -> str:
    if tensor.is_meta:
        raise EspalierError(f'{name} of the base is on the device "meta" and has no bytes; pass hash_base="names" or check_base="names"')
    made = hashlib.blake2b(digest_size=16)
    flat = tensor.contiguous().reshape(-1).view(torch.uint8)
    for begin in range(0, flat.numel(), _HASHED):  # a GPU's in parts
        made.update(flat[begin : begin + _HASHED].cpu().numpy())
    return made.hexdigest()


def _about(metadata: Any, where: str) -> dict[str, Any]:
    about = metadata.get(_KEY) if isinstance(metadata, dict) else None
    if not isinstance(about, dict):
        raise EspalierError(f"{where}: this file has no adapters of espalier.peft; save them with espalier.peft.save()")
    if about.get("version") != _VERSION:
        raise EspalierError(f"{where}: the adapters are of version {about.get('version')!r}, and this reads {_VERSION}; update espalier")
    adapters, base, active = about.get("adapters"), about.get("base"), about.get("active")
    is_right = (
        isinstance(adapters, dict)
        and all(
            isinstance(name, str)
            and isinstance(each, dict)
            and isinstance(each.get("config"), dict)
            and _is_texts(each.get("embeddings"))
            for name, each in adapters.items()
        )
        and isinstance(base, dict)
        and isinstance(base.get("names"), str)
        and isinstance(base.get("digest"), (str, type(None)))
        and _is_texts(base.get("own"))
        and _is_texts(active)
    )
    if not is_right:
        raise EspalierError(f"{where}: the metadata of the adapters are damaged, or not of espalier.peft.save()")
    return about


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _chosen(adapters: Any, there: Mapping[str, Any], where: str) -> dict[str, str]:
    if adapters is None:
        chosen = {name: name for name in there}
    elif isinstance(adapters, Mapping):
        chosen = dict(adapters)
    else:
        chosen = {name: name for name in ([adapters] if isinstance(adapters, str) else adapters)}
    for name in chosen:
        if name not in there:
            raise EspalierError(f"{where}: the file has no adapter {name!r}; it has {_listed(there)}")
    if len({*chosen.values()}) < len(chosen):
        raise EspalierError("two adapters of the file would get the same name in the model")
    return chosen


def _check_base(model: Any, wanted: Mapping[str, Any], names_alone: bool, threads: int, where: str) -> None:
    with_bytes = not names_alone and wanted["digest"] is not None
    found = _hash({name: each for name, each in _base_state(model).items() if name not in wanted["own"]}, with_bytes, threads)
    if found.names != wanted["names"]:
        what = "has other names, dtypes or shapes"
    elif with_bytes and found.bytes != wanted["digest"]:
        what = "has the same names and shapes, and other numbers"
    else:
        return
    name = f" {wanted.get('name')!r}" if wanted.get("name") else ""
    revision = f" at revision {wanted.get('revision')!r}" if wanted.get("revision") else ""
    raise EspalierError(
        f"{where}: these adapters belong to another base{name}{revision}: this one {what}; load that base, or pass check_base=False"
    )


def _is_quick(pattern: str) -> bool:
    """Whether `re` matches a name in less than a second, however it is made: (a+)+ takes a time that doubles with each letter."""
    repeats, choices = re.findall(r"[*+{]", pattern), re.findall(r"[(?]", pattern)
    # A flag may make blanks between these count for nothing.
    nested, flags = re.search(r"[)?*+}][*+{]", pattern), re.search(r"\(\?[^:]", pattern)
    return len(pattern) <= 4096 and len(repeats) <= 3 and len(choices) <= 5 and not nested and not flags


class _Unchanged:
    """A module as it is now, to be as it was once PEFT has changed it and failed: its parts, hooks and settings, but no numbers."""

    def __init__(self, model: Any):
        self._attributes = [
            (vars(each), {key: copy.copy(value) if isinstance(value, (dict, list, set)) else value for key, value in vars(each).items()})
            for each in model.modules()
        ]
        self._trained = [(each, each.requires_grad) for each in model.parameters()]
        settings = getattr(model, "config", None)
        if hasattr(settings, "__dict__"):
            self._attributes.append((vars(settings), dict(vars(settings))))

    def restore(self) -> None:
        for attributes, before in self._attributes:
            attributes.clear()
            attributes.update(before)
        for each, is_trained in self._trained:
            each.requires_grad_(is_trained)


def _config(saved: Mapping[str, Any], name: str, most: int, where: str) -> Any:
    """The configuration, for a model of `most` modules."""
    if saved.get("peft_type") not in _TYPES:
        raise EspalierError(
            f"{where}: {name!r} is of the type {saved.get('peft_type')!r}, and not of those that are known to load nothing else: "
            f"{', '.join(sorted(_TYPES))}; add the adapter yourself, and load into it"
        )
    copies = saved.get("layer_replication") or ()
    is_right = all(isinstance(each, list) and len(each) == 2 and all(type(end) is int for end in each) for each in copies)
    if not is_right or sum(end - begin for begin, end in copies) > _MOST_LAYERS:
        raise EspalierError(f"{where}: the configuration of {name!r} has 'layer_replication' of no layers, or of more than {_MOST_LAYERS:,}")
    for key in _REFUSED:
        if saved.get(key):
            raise EspalierError(
                f"{where}: the configuration of {name!r} has {key!r}, by which PEFT would import or load something else; add the "
                "adapter yourself, and load into it"
            )
    for key, given in saved.items():
        if not _PATTERNS.fullmatch(key):
            continue
        if isinstance(given, (list, dict)) and len(given) > max(most, 256):
            raise EspalierError(f"{where}: the configuration of {name!r} has {len(given):,} {key!r}, and the model {most:,} modules")
        for pattern in [given] if isinstance(given, str) else given if isinstance(given, (list, dict)) else ():
            if isinstance(pattern, str) and not _is_quick(pattern):
                raise EspalierError(
                    f"{where}: the configuration of {name!r} has {key!r} with a regular expression that may take hours, {pattern!r}; "
                    "if you trust it, add the adapter yourself, and load into it"
                )
    # PiSSA, OLoRA and others change the base's weights as they begin, or need packages for it, and the file has all that an adapter has.
    begins = saved.get("init_lora_weights")
    try:
        made = peft.PeftConfig.from_peft_type(**{**saved, **({"init_lora_weights": True} if isinstance(begins, str) else {})})
        if isinstance(begins, str):
            made.init_lora_weights = begins
        return made
    except (ImportError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise EspalierError(f"{where}: PEFT {peft.__version__} does not take the configuration of {name!r}: {error}") from error


def _add(model: Any, name: str, config: Any, tensors: Mapping[str, Any], where: str) -> Any:
    # What PEFT would look for on the hub is the name of the model that it is, and not one of a file.
    base = model.get_base_model() if isinstance(model, peft.PeftModel) else model
    config.base_model_name_or_path = getattr(base, "name_or_path", None) or None
    config.auto_mapping = None
    begins = getattr(config, "init_lora_weights", None)
    if isinstance(begins, str):
        config.init_lora_weights = True
    try:
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if isinstance(model, peft.PeftModel):
                model.add_adapter(name, config, autocast_adapter_dtype=False)
            else:
                model = peft.get_peft_model(model, config, adapter_name=name, autocast_adapter_dtype=False)
    except Exception as error:
        raise EspalierError(f"{where}: PEFT {peft.__version__} cannot add the adapter {name!r} to this model: {error}") from error
    if isinstance(begins, str):
        config.init_lora_weights = begins
    live = {each.data_ptr(): each for each in model.parameters() if each.numel()}
    for key, now in _tensors(model, name, False).items():
        saved = tensors.get(key)
        parameter = live.get(now.data_ptr())
        if isinstance(saved, torch.Tensor) and parameter is not None and saved.dtype != now.dtype:
            parameter.data = parameter.data.to(saved.dtype)
    return model


def _check_tensors(
    model: Any, name: str, tensors: Mapping[str, Any], embeddings: Sequence[str], is_new: bool, where: str
) -> None:
    there = _tensors(model, name, bool(embeddings))
    wrong = []
    if more := tensors.keys() - there.keys():
        wrong.append(f"the file alone has {_listed(more)}")
    if less := there.keys() - tensors.keys():
        wrong.append(f"the model alone has {_listed(less)}")
    for key in sorted(tensors.keys() & there.keys()):
        saved, now = tensors[key], there[key]
        if saved.shape != now.shape or saved.dtype != now.dtype:
            wrong.append(f"{key} is {saved.dtype} {tuple(saved.shape)} in the file, and {now.dtype} {tuple(now.shape)} in the model")
    if wrong:
        text = "; ".join(wrong[:8]) + (f"; and {len(wrong) - 8} more" if len(wrong) > 8 else "")
        which = "that the file's configuration makes" if is_new else "in the model"
        raise EspalierError(f"{where}: the adapter {name!r} is another one than that {which}: {text}")


def _put(model: Any, name: str, tensors: Mapping[str, Any], where: str) -> None:
    with torch.no_grad():
        peft.set_peft_model_state_dict(model, dict(tensors), adapter_name=name)
    now = _tensors(model, name, True)
    lost = [key for key, saved in tensors.items() if key not in now or not _is_equal(saved, now[key])]
    if lost:
        raise EspalierError(f"{where}: PEFT {peft.__version__} did not take {_listed(lost)} of the adapter {name!r}; report this")


def _is_equal(one: Any, other: Any) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    one, other = (each.detach().cpu().contiguous().reshape(-1).view(torch.uint8) for each in (one, other))
    return bool(torch.equal(one, other))


__all__ = ["load", "save"]
