"""Espalier for Lightning's Trainer: its checkpoints as Espalier files, and the random numbers in them.

    from espalier.lightning import EspalierIO, RandomState
    trainer = lightning.pytorch.Trainer(plugins=[EspalierIO()], callbacks=[RandomState()])
    trainer.fit(model, data, ckpt_path="last")      # the same line after a crash

    espalier.lightning.patch()
    model = Model.load_from_checkpoint("last.ckpt")
"""

from __future__ import annotations

import functools
import os
import pickle
import warnings
from typing import Any

import numpy as np
import torch
from lightning import __version__ as lightning_version
from lightning.fabric.plugins.io import TorchCheckpointIO
from lightning.pytorch import Callback
from lightning.pytorch.core import saving
from lightning.pytorch.plugins.io import CheckpointIO

from . import _urls
from ._api import load, load_bytes, save, save_async
from ._async import AsyncSave
from ._checkpoint import Checkpoint
from ._errors import Corrupt, EspalierError, Unsupported
from .torch._random import random_state, set_random_state


class EspalierIO(CheckpointIO):  # type: ignore[misc]  # Lightning's types are not checked
    """Saves all that Lightning has for a checkpoint as an Espalier file: `Trainer(plugins=[EspalierIO()])`.

    The model, optimizers, schedules, loops, callbacks, hyper-parameters, data module and the precision plugin's scaler are in
    it, as Lightning has them, and so is what a program adds in on_save_checkpoint(). A value that no file can hold is an error
    with its key path. With `background`, the state is copied, and the file is written as training goes on; an error is raised
    by the next save, and by the end of fit(). Files that Lightning saved with torch are still loaded, by torch, which runs nothing of
    them unless you say fit(weights_only=False). Strategies that write their own files (DeepSpeed, sharded FSDP) do not call this.
    """

    def __init__(self, *, background: bool = True, compression: int = 0, sync: bool = True, threads: int = 0):
        super().__init__()
        self._background = background
        self._options: dict[str, Any] = {"compression": compression, "sync": sync, "threads": threads, "views": "copy"}
        self._saving: AsyncSave | None = None

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        if storage_options is not None:
            raise EspalierError("EspalierIO takes no storage_options; pass options to EspalierIO()")
        # The class of the hyper-parameters: a file has no classes, but their names.
        state = {key: _name_of(value) if isinstance(value, type) else value for key, value in checkpoint.items()}
        self.wait()
        path = os.fspath(path)
        if _urls.is_url(path):
            save(path, state, **self._options)
            return
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        if self._background:
            self._saving = save_async(path, state, **self._options)
        else:
            save(path, state, **self._options)

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        self.wait()
        path = os.fspath(path)
        return _load_torch_s(path, map_location, weights_only) if _is_torch_s(path) else _load_ours(path, map_location)

    def remove_checkpoint(self, path: Any) -> None:
        self.wait()
        TorchCheckpointIO().remove_checkpoint(path)

    def wait(self) -> None:
        """Waits for the save that goes on, and raises its error."""
        saving, self._saving = self._saving, None
        if saving is not None:
            saving.result()

    def teardown(self) -> None:
        self.wait()


def _name_of(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _is_torch_s(path: str) -> bool:
    if _urls.is_url(path):
        try:
            with Checkpoint(path) as checkpoint:
                return checkpoint.format == "torch"
        except (Corrupt, Unsupported):
            return True  # and torch says why it loads it or does not
    with open(path, "rb") as file:
        return _begins_as_torch_s(file.read(2))


def _begins_as_torch_s(data: bytes) -> bool:
    """As a zip archive, or, before torch 1.6, as a pickle."""
    return data.startswith((b"PK", b"\x80"))


def _load_ours(source: Any, map_location: Any) -> dict[str, Any]:
    """The checkpoint in a file of a path, or of bytes."""
    state = load_bytes(source, framework="torch") if isinstance(source, bytes) else load(source, framework="torch")
    if not isinstance(state, dict):
        name = "these bytes" if isinstance(source, bytes) else source
        raise EspalierError(f"{name}: this is no checkpoint of Lightning's, which is a dict")
    return _moved(state, map_location)


def _moved(state: dict[str, Any], map_location: Any) -> dict[str, Any]:
    """With tensors where torch.load(map_location=...) puts those of the CPU: a file does not say on which device they were."""
    if isinstance(map_location, dict):
        map_location = map_location.get("cpu")
    if map_location is None:
        return state
    made: dict[int, torch.Tensor] = {}  # so that a tensor that is there twice stays one

    def move(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in made:
            if callable(map_location):
                storage = map_location(tensor.untyped_storage(), "cpu")
                device = tensor.device if storage is None else storage.device
            else:
                device = torch.device(map_location)
            made[id(tensor)] = tensor.to(device)
        return made[id(tensor)]

    moved: dict[str, Any] = torch.utils._pytree.tree_map_only(torch.Tensor, move, state)
    return moved


def patch() -> None:
    """Lets load_from_checkpoint() of Lightning's modules and data modules read what EspalierIO saved.

        espalier.lightning.patch()
        model = Model.load_from_checkpoint("fitted/last.ckpt")

    Lightning asks no plugin there, so this replaces the function that it reads files with, for the whole process. What torch
    saved is read as before. hparams_file=, strict= and keywords are Lightning's own and mean the same; map_location= means what
    it does for tensors that were saved on the CPU, as a file does not say where they were. To call this again does nothing.
    """
    plain = getattr(saving, "pl_load", None)
    if plain is None:
        raise Unsupported(
            f"Lightning {lightning_version} has no lightning.pytorch.core.saving.pl_load, which patch() replaces; use 2.6"
        )
    if getattr(plain, "func", None) is not _pl_load:
        saving.pl_load = functools.partial(_pl_load, plain)


def _pl_load(plain: Any, source: Any, map_location: Any = None, weights_only: bool | None = None) -> Any:
    if isinstance(source, (str, os.PathLike)):
        source = os.fspath(source)
        is_torch_s = _is_torch_s(source)
    else:
        begin = source.tell()
        is_torch_s = _begins_as_torch_s(source.read(2))
        source.seek(begin)
    if is_torch_s:
        return plain(source, map_location=map_location, weights_only=weights_only)
    return _load_ours(source if isinstance(source, str) else source.read(), map_location)


def _load_torch_s(path: str, map_location: Any, weights_only: bool | None) -> dict[str, Any]:
    # Arrays of numpy, in which RandomState had the random numbers, and which torch does not load by itself. They run nothing.
    reconstruct = np.zeros(1).__reduce__()[0]
    names = [f"numpy.{core}.multiarray._reconstruct" for core in ("core", "_core")]
    arrays = [*((reconstruct, name) for name in names), np.ndarray, np.dtype, type(np.dtype(np.uint32))]
    try:
        with torch.serialization.safe_globals(arrays):
            loaded: dict[str, Any] = TorchCheckpointIO().load_checkpoint(path, map_location, weights_only)
    except pickle.UnpicklingError as error:
        cause = next((line.strip() for line in str(error).splitlines() if "Unsupported" in line), str(error).splitlines()[0])
        raise EspalierError(
            f"{path}: torch does not load this file without running what it names ({cause.split('. Please')[0]}); if you trust the "
            "file, pass weights_only=False to fit()"
        ) from error
    return loaded


class RandomState(Callback):  # type: ignore[misc]
    """Saves the random numbers of each process with a checkpoint, which Lightning does not, and sets them again.

    It goes with EspalierIO and with torch's own files. A checkpoint that has none of this, and one of another number of processes,
    get a warning: the run resumes, and differs from one that was not interrupted.

    A resumed run then has the bits of one that was not interrupted, if the data goes on where it was: after a checkpoint of an
    epoch's end (`ModelCheckpoint(save_on_train_epoch_end=True)`), or, in the middle of one, with a data loader that has
    state_dict() and load_state_dict(), such as torchdata's StatefulDataLoader.
    """

    def __init__(self) -> None:
        self._is_mid_epoch = False
        self._has_begun = False
        self._resumed: dict[str, Any] | None = None

    def state_dict(self) -> dict[str, Any]:
        mine = random_state()
        ranks = [mine]
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            ranks = [mine] * torch.distributed.get_world_size()
            torch.distributed.all_gather_object(ranks, mine)
        return {"is_mid_epoch": self._is_mid_epoch, "ranks": ranks}

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._has_begun, self._resumed = False, None

    # Not load_state_dict(), which Lightning calls only if there is a state, and which has no trainer.
    def on_load_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        if trainer.state.fn != "fit":
            return
        state = checkpoint.get("callbacks", {}).get(self.state_key)
        if state is None:
            warnings.warn(
                f"{trainer.ckpt_path}: this checkpoint has no state of RandomState, as it was saved without that callback; the run "
                "resumes with other random numbers than one that was not interrupted",
                UserWarning,
                stacklevel=2,
            )
            return
        if len(state["ranks"]) != trainer.world_size:
            warnings.warn(
                f"{trainer.ckpt_path}: this checkpoint was saved by {len(state['ranks'])} processes, and this is process "
                f"{trainer.global_rank} of {trainer.world_size}; the run resumes with other random numbers than one that was not "
                "interrupted",
                UserWarning,
                stacklevel=2,
            )
        self._resumed = state
        if self._has_begun:  # Some strategies load only after on_fit_start().
            self._set(trainer, False)

    # The next iter() of the data draws from the random numbers. At an epoch's end they are those before it, and after it in an
    # epoch that goes on, whose iter() is the first of the resumed run alone.

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        self._has_begun = True
        self._set(trainer, False)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._set(trainer, True)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        self._is_mid_epoch = True

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self._is_mid_epoch = False

    def _set(self, trainer: Any, is_mid_epoch: bool) -> None:
        state = self._resumed
        if state is None or state["is_mid_epoch"] != is_mid_epoch:
            return
        self._resumed = None
        if trainer.global_rank >= len(state["ranks"]):
            return
        mine = state["ranks"][trainer.global_rank]
        if "cuda" in mine:  # as it was saved before "device"
            mine = {**mine, "device": [mine["cuda"]]}
        set_random_state(mine)


__all__ = ["EspalierIO", "RandomState", "patch"]
