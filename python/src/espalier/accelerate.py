"""Espalier for Accelerate: save_state() writes one file without pickle, and load_state() resumes exactly, also in an epoch.

    from espalier.accelerate import EspalierAccelerator
    accelerator = EspalierAccelerator()
    ...
    accelerator.save_state("saved")     # anywhere in the loop
    accelerator.load_state("saved")     # after prepare(), in the next run
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import accelerate
import numpy as np
import torch
from accelerate.utils import DistributedType, broadcast_object_list, gather_object
from torch.utils.data import IterableDataset

from . import _urls
from ._api import load, save
from ._api import open as open_checkpoint
from ._checkpointer import DamagedCheckpoint
from ._errors import CheckpointExists, CheckpointNotFound, EspalierError, Unsupported
from .torch._batches import Batches, sampler_of, samplers_of
from .torch._load_into import load_into
from .torch._random import random_state, set_random_state

if TYPE_CHECKING:
    from accelerate import Accelerator as _Accelerator
else:
    _Accelerator = object

FILE = "state.espalier"
_FORMAT = 1
_NAMED = re.compile(r"checkpoint_(\d+)")  # folders of automatic_checkpoint_naming
_OF_ACCELERATE = re.compile(r"random_states_\d+\.pkl")  # a file that each folder of accelerate itself has
_NEEDED = (
    "_custom_objects", "_dataloaders", "_load_model_state_pre_hook", "_models", "_optimizers", "_save_model_state_pre_hook",
    "_schedulers", "project_configuration", "scaler", "step",
)  # fmt: skip
_REFUSED = {
    "FSDP": "FSDP: save with torch.distributed.checkpoint and espalier.torch.EspalierWriter",
    "DEEPSPEED": "DeepSpeed: use its own checkpoints, with accelerate.Accelerator",
    "MEGATRON_LM": "Megatron-LM: use its own checkpoints, with accelerate.Accelerator",
    "XLA": "XLA devices: use accelerate.Accelerator",
}
_KINDS = {
    "models": "model", "optimizers": "optimizer", "schedulers": "scheduler", "custom": "registered object", "dataloaders": "dataloader",
}  # fmt: skip


class _Iteration:
    """One pass through a loader. It lives as long as the loop over it."""

    def __init__(self, batches: Iterator[Any], given: int, states: list[Any], device: Any, tell: Callable[[int], None]):
        self._batches = batches
        self._states = states  # random numbers to set before the next batches
        self._device = device
        self.fetched = given
        self.has_ended = False
        self.before: Any = None
        self._tell = tell

    @property
    def given(self) -> int:
        return self.fetched - (0 if self.has_ended else 1)

    def __del__(self) -> None:
        self._tell(self.given)

    def __iter__(self) -> _Iteration:
        return self

    def __next__(self) -> Any:
        if self._states:
            set_random_state(self._states.pop(0), self._device)
        self.before = random_state(self._device)
        try:
            batch = next(self._batches)
        except StopIteration:
            self.has_ended = True
            raise
        self.fetched += 1
        return batch


class _Tracked:
    """Stands for the loader below accelerate's, which reads it one batch ahead, and knows where the loop over it is."""

    resumed: Any
    left: int | None

    def __init__(self, loader: Any, shard: Any, device: Any):
        index = "batch_sampler" if loader.batch_sampler is not None else "sampler"
        is_stream = isinstance(loader.dataset, IterableDataset)
        batches = None if is_stream else Batches(getattr(loader, index), device, skips=True)
        if batches is not None:
            vars(loader)[index] = batches  # DataLoader.__setattr__() refuses this name.
        if hasattr(loader, "load_state_dict"):
            loader.load_state_dict({})  # It has begun already, for accelerate, and with the sampler as it was.
        vars(self).update(
            _loader=loader, _shard=weakref.ref(shard), _device=device, _batches=batches, _iteration=lambda: None, _begin=None,
            _is_stream=is_stream, resumed=None, left=None,
        )  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["_loader"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in vars(self):
            vars(self)[name] = value
        else:
            setattr(self._loader, name, value)

    def __len__(self) -> int:
        return len(self._loader)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(vars(self)["_loader"])

    def __iter__(self) -> Iterator[Any]:
        resumed, self.resumed = self.resumed, None
        shard, loader = self._shard(), self._loader
        if resumed is None:
            self._begin = {"random": random_state(self._device), "samplers": _sampler_states(loader)}
            return self._begun(loader, 0, [])
        if shard.iteration != resumed["iteration"]:
            raise EspalierError(
                f"load_state() has put this dataloader into epoch {resumed['iteration']}, and set_epoch({shard.iteration}) asks for "
                "another; begin the loop over epochs at dataloader.iteration"
            )
        begin: Any = resumed["begin"]
        self._begin = begin
        if resumed["has_ended"]:
            set_random_state(resumed["random"], self._device)
            shard.iteration += 1  # accelerate does not count an epoch without batches.
            return iter(())
        _set_sampler_states(loader, begin["samplers"])
        set_random_state(begin["random"], self._device)
        states = [resumed["before"], resumed["random"]]
        if self._batches is not None and loader.num_workers == 0:
            # The skipped batches draw from the random numbers of the epoch's start, too.
            self._batches.resumed, states = (resumed["batches"], *states), []
        elif self._batches is not None:
            self._batches.resumed, states = (resumed["batches"], None, None), [resumed["random"]]
        elif resumed["state"] is not None:
            loader.load_state_dict(resumed["state"])
        return self._begun(loader, resumed["batches"], states)

    def _begun(self, loader: Any, given: int, states: list[Any]) -> _Iteration:
        owner, epoch = weakref.ref(self), self._shard().iteration

        def tell(after: int) -> None:
            found = owner()
            if found is not None and (shard := found._shard()) is not None and shard.iteration == epoch:  # accelerate has not counted it.
                found.left = after

        self.left = None
        iteration = _Iteration(iter(loader), given, states, self._device, tell)
        self._iteration = weakref.ref(iteration)
        return iteration

    def position(self) -> dict[str, Any]:
        """Where the loop is."""
        shard, iteration = self._shard(), self._iteration()
        if self.resumed is not None:
            return {name: value for name, value in self.resumed.items() if name != "random"}
        now: dict[str, Any] = {
            "iteration": shard.iteration, "in_loop": iteration is not None, "samplers": None, "state": None, "dataset": None,
        }  # fmt: skip
        if iteration is None or iteration.has_ended:
            now["samplers"] = _sampler_states(self._loader)
            if hasattr(self._loader.dataset, "state_dict"):
                now["dataset"] = self._loader.dataset.state_dict()
        elif self._is_stream and hasattr(self._loader, "state_dict"):
            now["state"] = shard.state_dict()
        if iteration is None:
            return now
        reads_itself = self._batches is not None and self._loader.num_workers == 0
        return {
            **now,
            "batches": iteration.given,
            "has_ended": iteration.has_ended,
            "begin": self._begin,
            "before": self._batches.before if reads_itself else iteration.before,
        }

    def go_to(self, position: Mapping[str, Any], random: Any) -> None:
        shard = self._shard()
        shard.iteration = position["iteration"]
        if position["samplers"] is not None:
            _set_sampler_states(self._loader, position["samplers"])
        if position["dataset"] is not None:
            self._loader.dataset.load_state_dict(position["dataset"])
        if position["in_loop"]:
            self.resumed = {**position, "random": random}

    def unrepeatable(self) -> str | None:
        """Why no resume could go on in the middle of this loader."""
        loader, shard = self._loader, self._shard()
        if type(shard) is not accelerate.data_loader.DataLoaderShard:
            return "dispatch_batches=True (the default for an IterableDataset): pass DataLoaderConfiguration(dispatch_batches=False)"
        has_state = hasattr(loader.dataset, "state_dict") and hasattr(loader.dataset, "load_state_dict")
        if self._is_stream and not (has_state and hasattr(loader, "state_dict")):
            return (
                "an IterableDataset without a state: give it state_dict() and load_state_dict(), and pass "
                "DataLoaderConfiguration(use_stateful_dataloader=True)"
            )
        if not self._is_stream and has_state:
            return "a dataset with indices that has a state of its own, which is one batch ahead: make it an IterableDataset"
        if not getattr(loader, "in_order", True) and loader.num_workers > 1:
            return "in_order=False, with which batches come as workers have them: leave it out"
        return None

    def settings(self) -> dict[str, Any]:
        """What the position depends on."""
        shard, loader = self._shard(), self._loader
        found: dict[str, Any] = {"sampler": sampler_of(loader)}
        for name, get in (
            ("length of the data", lambda: len(loader.dataset)),
            ("batches of an epoch", lambda: len(loader)),
            ("batch size of all processes", lambda: shard.total_batch_size),
            ("drop_last", lambda: shard._drop_last),
        ):
            with contextlib.suppress(Exception):
                found[name] = get()
        return found


def _sampler_states(loader: Any) -> list[dict[str, Any]]:
    """The states of the loader's generator, and of its samplers."""
    states = []
    for each in [loader, *samplers_of(loader)]:
        state: dict[str, Any] = {name: _vars(each)[name] for name in ("epoch", "initial_seed") if name in _vars(each)}
        generator = getattr(each, "generator", None)
        if isinstance(generator, torch.Generator):
            state["generator"] = generator.get_state()
        if each is not loader and hasattr(each, "state_dict") and hasattr(each, "load_state_dict"):
            state["state"] = each.state_dict()
        states.append(state)
    return states


def _set_sampler_states(loader: Any, states: list[Mapping[str, Any]]) -> None:
    for each, state in zip([loader, *samplers_of(loader)], states, strict=False):
        for name in ("epoch", "initial_seed"):
            if name in state and name in _vars(each):
                vars(each)[name] = state[name]
        generator = getattr(each, "generator", None)
        if "generator" in state and isinstance(generator, torch.Generator):
            generator.set_state(torch.as_tensor(state["generator"]).cpu())
        if "state" in state and hasattr(each, "load_state_dict"):
            each.load_state_dict(state["state"])


def _vars(value: Any) -> Mapping[str, Any]:
    return getattr(value, "__dict__", {})


class EspalierMixin(_Accelerator):  # type: ignore[misc]  # accelerate's types are not checked
    """Makes an Accelerator save one Espalier file and resume exactly: `class Mine(EspalierMixin, Accelerator): pass`.

    save_state(folder) writes `folder/state.espalier`, completely or not at all: models, optimizers, schedulers, scaler,
    registered objects, the random numbers of each process, gradients in the middle of an accumulation, and for each dataloader
    its epoch, its place in it, the states of its samplers and of the batch that is read ahead. Hooks run before it, as
    accelerate runs them; a model whose weights a hook takes out is not in the file. `save_options`, a class attribute, has
    further options of espalier.save(): `{"compression": 1}`.

    load_state(folder), after prepare(), puts all of it back. In the next loop, a dataloader goes on where it was:
    `for epoch in range(dataloader.iteration, epochs): for batch in dataloader: ...`, without skip_first_batches(). After a save at the
    last batch of an epoch, this first loop has no batches, and the end of the epoch comes. A loop that was left with `break` before
    the save begins anew, with a warning. What the file has and the program lacks, and the reverse, is an error, or a warning where
    the run can go on. If the data are others (length, batch size, sampler, number of processes, settings of DataLoaderConfiguration),
    resuming in the middle of an epoch is an error; `restart_data=True` begins the epoch anew.

    With automatic_checkpoint_naming, old folders go once the new file is there, load_state() takes the newest folder whose every
    byte is intact, and the next save has the next number. A folder that accelerate itself wrote is loaded by accelerate.

    Random numbers that a dataset draws in `__getitem__` are repeated without workers only. For one process, and for several with the
    same weights (DDP), which must all see the folder.
    """

    save_options: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        lacking = [name for name in _NEEDED if not hasattr(self, name)]
        if lacking:
            raise Unsupported(
                f"this is accelerate {accelerate.__version__}, whose Accelerator has no {', '.join(lacking)}; espalier.accelerate was "
                "tested with 1.15"
            )
        for name, what in _REFUSED.items():
            if self.distributed_type == getattr(DistributedType, name, None):
                raise Unsupported(f"EspalierAccelerator does not go with {what}")

    def prepare_data_loader(self, data_loader: Any, *args: Any, **options: Any) -> Any:
        prepared = super().prepare_data_loader(data_loader, *args, **options)
        if not hasattr(prepared, "base_dataloader"):
            raise Unsupported(
                f"this is accelerate {accelerate.__version__}, whose dataloaders have no base_dataloader; espalier.accelerate was tested "
                "with 1.15"
            )
        if type(vars(prepared)["base_dataloader"]) is not _Tracked:
            prepared.base_dataloader = _Tracked(prepared.base_dataloader, prepared, self.device)
        return prepared

    def skip_first_batches(self, dataloader: Any, num_batches: int = 0) -> Any:
        if num_batches and (found := getattr(dataloader, "base_dataloader", None)) is not None:
            if type(found) is _Tracked and found.resumed is not None:
                raise EspalierError(
                    "load_state() has put this dataloader where it was, so skip_first_batches() would skip twice; iterate over the "
                    "dataloader itself"
                )
        return super().skip_first_batches(dataloader, num_batches)

    # Saving

    def save_state(self, output_dir: Any = None, safe_serialization: bool = True, **save_model_func_kwargs: Any) -> str:
        if not safe_serialization:
            raise EspalierError("safe_serialization=False asks for pickle, which EspalierAccelerator does not write; leave it out")
        if save_model_func_kwargs:
            raise EspalierError(f"save_state() of EspalierAccelerator takes no {', '.join(save_model_func_kwargs)}")
        config = self.project_configuration
        if config.automatic_checkpoint_naming:
            output_dir = os.path.join(self.project_dir, "checkpoints", f"checkpoint_{self.save_iteration}")
            if os.path.isdir(output_dir) and any(name == FILE or _OF_ACCELERATE.fullmatch(name) for name in os.listdir(output_dir)):
                raise CheckpointExists(
                    f"{output_dir}: there is a checkpoint already; load it with load_state(), after which saves go on, or set "
                    "project_configuration.iteration to the number of the next one"
                )
        elif output_dir is None:
            raise EspalierError("save_state() needs a folder, or ProjectConfiguration(automatic_checkpoint_naming=True)")
        _urls.check_local(output_dir, "save_state()")
        self.wait_for_everyone()
        output_dir = str(os.path.expanduser(os.fspath(output_dir)))
        os.makedirs(output_dir, exist_ok=True)
        models = [self.unwrap_model(model, keep_torch_compile=False) for model in self._models]
        weights = [model.state_dict() for model in models]
        numbers = {id(each): number for number, each in enumerate(weights)}
        for hook in self._save_model_state_pre_hook.values():
            hook(self._models, weights, output_dir)
        if len(weights) == len(models):
            kept = dict(enumerate(weights))
        elif all(id(each) in numbers for each in weights):
            kept = {numbers[id(each)]: each for each in weights}
        else:
            raise EspalierError("a hook of save_state() has put weights in the place of others; change them where they are, or remove them")
        ranks = list(gather_object([self._of_this_process(models)]))
        self._refuse_unrepeatable(ranks)
        path = os.path.join(output_dir, FILE)
        writes = self.is_local_main_process if config.save_on_each_node else self.is_main_process
        self._on(writes, lambda: save(path, self._state(kept, ranks), **{"views": "copy", **self.save_options}))
        config.iteration += 1
        if config.automatic_checkpoint_naming and writes:
            self._prune(os.path.dirname(output_dir), output_dir)
        self.wait_for_everyone()
        return str(output_dir)

    def _of_this_process(self, models: list[Any]) -> dict[str, Any]:
        gradients = None
        if not self.gradient_state.sync_gradients:
            all_of = {number: [parameter.grad for parameter in model.parameters()] for number, model in enumerate(models)}
            if any(each is not None for of_model in all_of.values() for each in of_model):
                gradients = all_of
                if self.num_processes > 1:
                    gradients = {number: [None if each is None else each.cpu() for each in of] for number, of in all_of.items()}
        loaders = [each.base_dataloader for each in self._dataloaders]
        positions = [each.position() for each in loaders]
        if not any(at["in_loop"] for at in positions):
            for number, each in enumerate(loaders):
                if each.left is not None:
                    warnings.warn(
                        f"the loop over dataloader {number} was left after {each.left} batches, so a resumed run begins that epoch anew, as "
                        "this one would; to go on in its middle, call save_state() in the loop, before `break`",
                        stacklevel=4,
                    )
        unrepeatable = [each.unrepeatable() if at["in_loop"] else None for each, at in zip(loaders, positions, strict=True)]
        return {
            "random": random_state(self.device),
            "loaders": positions,
            "gradients": gradients,
            "unrepeatable": unrepeatable,
        }

    def _refuse_unrepeatable(self, ranks: list[dict[str, Any]]) -> None:
        for of_rank in ranks:
            for number, what in enumerate(of_rank.pop("unrepeatable")):
                if what is not None:
                    raise Unsupported(
                        f"dataloader {number} is in the middle of an epoch, and no resume could go on there with {what}, or save after the "
                        "epoch's end"
                    )

    def _state(self, models: dict[int, Any], ranks: list[Any]) -> dict[str, Any]:
        custom = {number: each.state_dict() for number, each in enumerate(self._custom_objects)}
        return {
            "models": models,
            "optimizers": {number: _below(each, "optimizer") for number, each in enumerate(self._optimizers)},
            "schedulers": {number: _below(each, "scheduler") for number, each in enumerate(self._schedulers)},
            "scaler": self.scaler,
            "custom": custom,
            "ranks": ranks,
            "run": {
                "format": _FORMAT,
                "step": self.step,
                "iteration": self.save_iteration,
                "classes": self._classes(models),
                "settings": self._settings(),
                "dataloaders": [each.base_dataloader.settings() for each in self._dataloaders],
                "numpy": list(_numpy_paths(custom)),
            },
        }

    def _classes(self, models: Mapping[int, Any]) -> dict[str, dict[int, str]]:
        """The class of each object that has a state here, by its number."""
        objects = {
            "models": {number: self.unwrap_model(self._models[number], keep_torch_compile=False) for number in models},
            "optimizers": {number: _below(each, "optimizer") for number, each in enumerate(self._optimizers)},
            "schedulers": {number: _below(each, "scheduler") for number, each in enumerate(self._schedulers)},
            "custom": dict(enumerate(self._custom_objects)),
            "dataloaders": {number: each.base_dataloader for number, each in enumerate(self._dataloaders)},
        }
        return {kind: {number: each.__class__.__qualname__ for number, each in of.items()} for kind, of in objects.items()}

    def _settings(self) -> dict[str, Any]:
        return {
            "number of processes": self.num_processes,
            "gradient_accumulation_steps": self.gradient_state.num_steps,
            "split_batches": self.split_batches,
            "even_batches": self.even_batches,
            "use_seedable_sampler": self.use_seedable_sampler,
        }

    def _on(self, writes: bool, action: Callable[[], Any]) -> Any:
        """Does it in the processes that write; an error of one is an error of all."""
        error, result = None, None
        if writes:
            try:
                result = action()
            except Exception as caught:
                error = caught
        if self.num_processes == 1:
            if error is not None:
                raise error
            return result
        told = [each for each in gather_object([None if error is None else f"{type(error).__name__}: {error}"]) if each]
        if error is not None:
            raise error
        if told:
            raise EspalierError(f"another process failed: {told[0]}")
        return result

    def _prune(self, folder: str, newest: str) -> None:
        limit = self.project_configuration.total_limit
        if limit is None:
            return
        found = [(number, path) for number, path in _numbered(folder) if path != newest]
        for _, path in found[: max(len(found) + 1 - limit, 0)]:
            try:
                shutil.rmtree(path)
            except OSError as error:
                warnings.warn(f"{path} could not be removed: {error}", DamagedCheckpoint, stacklevel=3)

    # Loading

    def load_state(
        self, input_dir: Any = None, load_kwargs: Any = None, restart_data: bool = False, **load_model_func_kwargs: Any
    ) -> None:
        """Loads what save_state() wrote, or a folder that accelerate itself wrote.

        `restart_data` begins the epoch of each dataloader anew, and takes a change of what its place depends on.
        """
        if input_dir is not None:
            _urls.check_local(input_dir, "load_state()")
        folder = self._newest() if input_dir is None else os.path.expanduser(os.fspath(input_dir))
        path = folder if os.path.isfile(folder) else os.path.join(folder, FILE)
        of_accelerate = os.path.isdir(folder) and any(map(_OF_ACCELERATE.fullmatch, os.listdir(folder)))
        if not os.path.exists(path):
            if of_accelerate:
                super().load_state(folder, load_kwargs, **load_model_func_kwargs)
                return
            what = "has no" if os.path.isdir(folder) else "does not exist: no"
            raise CheckpointNotFound(f"{folder} {what} {FILE}, which save_state() writes")
        if of_accelerate:
            warnings.warn(
                f"{folder} has files of accelerate itself beside {FILE}, which is the one that is loaded; remove the others", stacklevel=2
            )
        if load_kwargs or load_model_func_kwargs.keys() - {"map_location"}:
            names = sorted({*(["load_kwargs"] if load_kwargs else []), *load_model_func_kwargs} - {"map_location"})
            raise EspalierError(f"{path}: load_state() of an Espalier file takes no {', '.join(names)}")
        self._load(path, restart_data)

    def _load(self, path: str, restart_data: bool) -> None:
        run = load(path, at="run")
        if run["format"] > _FORMAT:
            raise Unsupported(f"{path} was saved by a later version of espalier.accelerate; update Espalier")
        models = list(self._models)
        numbers = {id(each): number for number, each in enumerate(models)}
        for hook in self._load_model_state_pre_hook.values():
            hook(models, os.path.dirname(path))
        left = {numbers[id(each)]: self.unwrap_model(each, keep_torch_compile=False) for each in models if id(each) in numbers}
        self._compare(path, run["classes"], self._classes(left))
        ranks = load(path, at="ranks")
        is_mid_epoch = any(position["in_loop"] for each in ranks for position in each["loaders"])
        self._compare_data(path, run, is_mid_epoch and not restart_data)
        objects: dict[str, Any] = {
            "models": left,
            "optimizers": {number: _below(each, "optimizer") for number, each in enumerate(self._optimizers)},
            "schedulers": {number: _below(each, "scheduler") for number, each in enumerate(self._schedulers)},
        }
        has_scaler = "scale" in (load(path, at="scaler") or {})
        if has_scaler and self.scaler is not None:
            objects["scaler"] = self.scaler
        elif has_scaler or (self.scaler is not None and self.scaler.is_enabled()):
            has, lacks = ("the file", "this program") if has_scaler else ("this program", "the file")
            warnings.warn(f"{path}: {has} has a scaler of gradients, and {lacks} has none; mixed_precision may be another", stacklevel=3)
        rest = load_into(objects, path)
        custom = _with_numpy(rest["custom"], run["numpy"])
        for number, each in enumerate(self._custom_objects):
            each.load_state_dict(custom[number])
        self.step = run["step"]
        if self.project_configuration.automatic_checkpoint_naming:
            self.project_configuration.iteration = run["iteration"] + 1
        if self.process_index >= len(ranks):
            return
        mine = rest["ranks"][self.process_index]
        if mine["gradients"] is not None:
            for number, model in left.items():
                for parameter, gradient in zip(model.parameters(), mine["gradients"][number], strict=True):
                    parameter.grad = None if gradient is None else gradient.clone().to(parameter)
        for each, position in zip(self._dataloaders, mine["loaders"], strict=True):
            if not restart_data:
                each.base_dataloader.go_to(position, mine["random"])
            else:
                each.iteration = position["iteration"]
        set_random_state(mine["random"], self.device)

    def _compare(self, path: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        for kind, name in _KINDS.items():
            if before[kind].keys() != now[kind].keys():
                raise EspalierError(
                    f"{path} has {_listed(before[kind], name)}, and this program has {_listed(now[kind], name)}; prepare() and register "
                    "the same before load_state()"
                )
            pairs = [(number, was, now[kind][number]) for number, was in before[kind].items()]
            changed = [f"{name} {number} was {was} and is {is_now}" for number, was, is_now in pairs if was != is_now]
            if changed:
                warnings.warn(f"{path}: {'; '.join(changed)}; it takes the state of the other class", stacklevel=5)

    def _compare_data(self, path: str, run: Mapping[str, Any], is_needed: bool) -> None:
        settings = self._settings()
        changed = [
            f"{name} was {was} and is {settings.get(name)}" for name, was in run["settings"].items() if settings.get(name) != was
        ]
        for number, (was, each) in enumerate(zip(run["dataloaders"], self._dataloaders, strict=True)):
            now = each.base_dataloader.settings()
            changed += [
                f"{name} of dataloader {number} was {was.get(name)} and is {now.get(name)}"
                for name in {**was, **now}
                if was.get(name) != now.get(name)
            ]
        if not changed:
            return
        if is_needed:
            raise EspalierError(
                f"{path}: {'; '.join(changed)}: so the place in the epoch is lost; set it as it was, or begin the epoch anew with "
                "load_state(folder, restart_data=True)"
            )
        warnings.warn(
            f"{path}: {'; '.join(changed)}: the run goes on with other data or random numbers than one that was not interrupted",
            stacklevel=4,
        )

    def _newest(self) -> str:
        """The newest numbered folder whose every byte is intact, or that accelerate itself wrote."""
        if not self.project_configuration.automatic_checkpoint_naming:
            raise EspalierError("load_state() needs a folder, or ProjectConfiguration(automatic_checkpoint_naming=True)")
        folder = os.path.join(self.project_dir, "checkpoints")
        found: list[Any] = [None, []]
        if self.is_main_process:
            for _, path in reversed(_numbered(folder)):
                problem = _problem(path)
                if problem is None:
                    found[0] = path
                    break
                found[1].append(f"{path} is passed over: {problem}")
        if self.num_processes > 1:
            broadcast_object_list(found)
        for each in found[1]:
            warnings.warn(each, DamagedCheckpoint, stacklevel=3)
        if found[0] is None:
            raise CheckpointNotFound(f"{folder} has no checkpoint that could be loaded")
        return str(found[0])


class EspalierAccelerator(EspalierMixin, accelerate.Accelerator):  # type: ignore[misc]
    """accelerate.Accelerator with EspalierMixin."""


def _below(wrapper: Any, name: str) -> Any:
    """What accelerate has put its wrapper around."""
    return getattr(wrapper, name) if type(wrapper).__module__.startswith("accelerate.") else wrapper


def _listed(classes: Mapping[int, str], name: str) -> str:
    plural = name if len(classes) == 1 else f"{name}s"
    return f"{len(classes)} {plural}" + (f" ({', '.join(classes.values())})" if classes else "")


def _numbered(folder: str) -> list[tuple[int, str]]:
    names = os.listdir(folder) if os.path.isdir(folder) else []
    matches = [match for match in map(_NAMED.fullmatch, names) if match]
    return sorted((int(match[1]), os.path.join(folder, match[0])) for match in matches)


def _problem(folder: str) -> str | None:
    path = os.path.join(folder, FILE)
    if not os.path.exists(path):
        is_of_accelerate = any(map(_OF_ACCELERATE.fullmatch, os.listdir(folder)))
        return None if is_of_accelerate else f"it has no {FILE}, as a save that was cut off"
    try:
        with open_checkpoint(path) as checkpoint:
            checkpoint.verify()
    except EspalierError as error:
        return str(error)
    return None


def _numpy_paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where arrays of numpy are: they are loaded as tensors of torch otherwise."""
    if isinstance(value, np.ndarray):
        yield path
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _numpy_paths(each, (*path, key))
    elif isinstance(value, (list, tuple)):
        for number, each in enumerate(value):
            yield from _numpy_paths(each, (*path, number))


def _with_numpy(value: Any, paths: list[tuple[Any, ...]]) -> Any:
    if not paths:
        return value
    if () in paths:
        return value.numpy() if isinstance(value, torch.Tensor) else value
    below: dict[Any, list[tuple[Any, ...]]] = {}
    for first, *rest in paths:
        below.setdefault(first, []).append(tuple(rest))
    if isinstance(value, (list, tuple)):
        made = [_with_numpy(each, below.get(number, [])) for number, each in enumerate(value)]
        return type(value)(made) if type(value) in (list, tuple) else type(value)(*made)
    for key, each in below.items():
        value[key] = _with_numpy(value[key], each)
    return value


__all__ = ["FILE", "EspalierAccelerator", "EspalierMixin"]
