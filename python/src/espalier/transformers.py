"""Espalier for the Trainer of Hugging Face transformers: one file for each checkpoint, and an exact resume.

    from espalier.transformers import EspalierTrainer
    trainer = EspalierTrainer(model, args, train_dataset=data)
    trainer.train(resume_from_checkpoint="auto")    # the same line after a crash
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import tempfile
import time
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import transformers
from torch.utils.data import DataLoader, IterableDataset
from transformers.trainer_callback import ExportableState
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from ._api import load
from ._checkpointer import Checkpointer, DamagedCheckpoint
from ._errors import EspalierError, Unsupported
from .torch._batches import Batches, sampler_of
from .torch._load_into import load_into
from .torch._random import random_state, set_random_state

if TYPE_CHECKING:
    from transformers import Trainer as _Trainer
else:
    _Trainer = object

FOLDER = "espalier"
_STATE = "trainer_state.json"
_OF_THE_TRAINER = re.compile(rf"{PREFIX_CHECKPOINT_DIR}-(\d+)")  # folders that the Trainer itself writes
# What the order of the data depends on, as far as a version of transformers has it.
_SETTINGS = ("dataloader_drop_last", "train_sampling_strategy", "group_by_length", "length_column_name")
_ACCELERATOR_SETTINGS = ("split_batches", "dispatch_batches", "even_batches", "use_seedable_sampler")
# What the mixin replaces or calls: a Trainer without one of these would save or resume in its own way, without a word.
_NEEDED = (
    "_finalize_training", "_get_output_dir", "_init_training_state", "_load_best_model", "_load_callback_state",
    "_load_from_checkpoint", "_load_optimizer_and_scheduler", "_load_rng_state", "_load_scaler", "_maybe_log_save_evaluate",
    "_run_epoch", "_save_checkpoint", "get_train_dataloader", "store_flos",
)  # fmt: skip


class _Hooks(transformers.TrainerCallback):  # type: ignore[misc]
    """What must happen between two steps of the Trainer's own loop."""

    def __init__(self, trainer: Any):
        self._trainer = trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        return self._trainer._go_on(control)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._trainer._epoch_ended = True


class EspalierMixin(_Trainer):  # type: ignore[misc]
    """Makes a Trainer save Espalier files and resume exactly: `class MyTrainer(EspalierMixin, Trainer): pass`.

    Where the Trainer writes a folder `checkpoint-500`, with pickles, this writes one file,
    `<output_dir>/espalier/step_00000500.espalier`: the model, the optimizer, the schedule, the scaler, the random numbers of
    each process, the Trainer's state with its logs, and the states of callbacks that have one (`ExportableState`). The save
    goes on in the background. `save_total_limit` is the number of latest files to keep, beside the best by
    `metric_for_best_model`. The class attribute `checkpointer_options` has further options of espalier.Checkpointer:
    `{"compression": 1}`.

    `train(resume_from_checkpoint=True)` resumes from the newest file whose every byte is intact. "auto" does so if there is
    one, and else begins. A path takes that file. A folder `checkpoint-500` that the Trainer itself wrote is resumed by the
    Trainer: if it is given, or if `True` or "auto" find none of our files with that step or a later one. Where there is one of an
    earlier step, a warning names both.

    A resumed run ends with the same bits as one that was not interrupted: weights, optimizer, random numbers, epoch, logs and
    best checkpoint. What the order of the data depends on must be the same, or resuming is an error that names it: seeds, batch
    size, accumulation, number of processes, length of the data, `dataloader_drop_last`, `train_sampling_strategy`, the sampler's
    class, the steps of an epoch, and the settings of `accelerator_config` about batches. Random numbers that a dataset draws in
    `__getitem__` are repeated without workers only (`dataloader_num_workers=0`).

    Data whose order no resume repeats are refused, unless `ignore_data_skip=True` lets each resume begin the data anew: an
    `IterableDataset`, `dispatch_batches=True`, `dataloader_in_order=False` with workers, and "batch_rebalance" in several
    processes.

    For one process, and for several with the same weights (DDP), which must all see the folder. FSDP and DeepSpeed are
    refused.
    """

    checkpointer_options: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, *args: Any, **options: Any):
        lacking = [name for name in _NEEDED if not hasattr(transformers.Trainer, name)]
        if lacking:
            raise Unsupported(
                f"this is transformers {transformers.__version__}, whose Trainer has no {', '.join(lacking)}; "
                "espalier.transformers is for transformers 5, and was tested with 5.24"
            )
        super().__init__(*args, **options)
        for is_set, what in (
            (self.is_fsdp_enabled, "FSDP: save with torch.distributed.checkpoint and espalier.torch.EspalierWriter"),
            (self.is_deepspeed_enabled, "DeepSpeed: use its own checkpoints"),
            (self.args.push_to_hub, "push_to_hub=True: call push_to_hub() after train()"),
            (self.args.save_only_model, "save_only_model=True: it leaves out what a resume needs; call save_model() after train()"),
            (
                getattr(self.args, "enable_jit_checkpoint", False),
                "enable_jit_checkpoint=True: it saves in the middle of a step; set control.should_save and "
                "control.should_training_stop in a callback's on_step_end()",
            ),
        ):
            if is_set:
                raise Unsupported(f"EspalierMixin does not go with {what}")
        self._checkpointer: Checkpointer | None = None
        self._resumed: dict[str, Any] | None = None  # what the file has beside the objects
        self._path = ""  # of that file
        self._check: Any = "hashes"
        self._skipped = 0  # batches of the epoch in which the resume begins
        self._is_epoch_pending = False  # whether the save was after an epoch's last step, and before its end
        self._is_rng_due = False
        self._epoch_ended = False
        self._epoch_rng: Any = None
        self._batches: Batches | None = None
        self._of_last_step: dict[str, Any] = {}
        self._told_by_the_loader: dict[str, Any] = {}
        self._began, self._elapsed = time.time(), 0.0
        self.add_callback(_Hooks(self))

    @property
    def checkpointer(self) -> Checkpointer:
        """The folder of the files: its steps, and the path of each."""
        if self._checkpointer is None:
            keep = self.args.save_total_limit or None
            best = ("best_step", "max") if keep and self.args.metric_for_best_model else None
            options = {"keep": keep, "best": best, **self.checkpointer_options}
            self._checkpointer = Checkpointer(os.path.join(self.args.output_dir, FOLDER), **options)
        return self._checkpointer

    # Saving

    def _maybe_log_save_evaluate(
        self,
        tr_loss: Any,
        grad_norm: Any,
        model: Any,
        trial: Any,
        epoch: Any,
        ignore_keys_for_eval: Any,
        start_time: Any,
        learning_rate: Any = None,
    ) -> None:
        norm = grad_norm.item() if isinstance(grad_norm, torch.Tensor) else grad_norm
        self._of_last_step = {"grad_norm": norm, "learning_rate": learning_rate}
        super()._maybe_log_save_evaluate(
            tr_loss, grad_norm, model, trial, epoch, ignore_keys_for_eval, start_time, learning_rate=learning_rate
        )

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        self.store_flos()
        step = self.state.global_step
        checkpointer = self.checkpointer
        if self.state.best_global_step:
            path = checkpointer.path(self.state.best_global_step)
            if self.state.best_global_step == step or os.path.exists(path):
                self.state.best_model_checkpoint = path
        states: dict[str, Any] = {}
        for callback in self._exportable():
            states.setdefault(type(callback).__name__, []).append(callback.state())
        self.state.stateful_callbacks = {name: each[0] if len(each) == 1 else each for name, each in states.items()}
        mine = {
            "rng": random_state(self.args.device),
            "epoch_rng": self._epoch_rng,
            "batch_rng": None if self._batches is None else self._batches.before,
            "loss": self._tr_loss.item(),
        }
        ranks = self._gathered(mine)
        if not self.args.should_save:
            return
        state = {
            "model": self.accelerator.unwrap_model(model),
            "optimizer": self.optimizer,
            "scheduler": self.lr_scheduler,
            "scaler": self.accelerator.scaler,
            "trainer": dataclasses.asdict(self.state),
            "loop": {
                "epoch_ended": self._epoch_ended,
                "total_loss": self._total_loss_scalar,
                "last_logged": self._globalstep_last_logged,
                "initial_step": self._initial_global_step,
                "elapsed": self._elapsed + time.time() - self._began,
                **self._of_last_step,
            },
            "ranks": ranks,
            "run": self._run(),
        }
        metrics = {
            name: value
            for entry in self.state.log_history
            if entry.get("step") == step
            for name, value in entry.items()
            if name not in ("step", "epoch") and isinstance(value, (int, float))
        }
        metrics["best_step"] = step if self.state.best_global_step == step else 0
        checkpointer.save(step, state, metrics=metrics, force=True, views="copy")

    def _exportable(self) -> list[Any]:
        return [each for each in [*self.callback_handler.callbacks, self.control] if isinstance(each, ExportableState)]

    def _gathered(self, mine: Any) -> list[Any]:
        if self.args.world_size == 1:
            return [mine]
        from accelerate.utils import gather_object

        return list(gather_object([mine]))

    def _run(self) -> dict[str, Any]:
        """What the position in the data depends on."""
        dataset = self.train_dataset
        return {
            "seed": self.args.seed,
            "data_seed": self.args.data_seed,
            "batch size": self._train_batch_size,
            "gradient_accumulation_steps": self.args.gradient_accumulation_steps,
            "number of processes": self.args.world_size,
            "length of the training data": len(dataset) if hasattr(dataset, "__len__") else None,
            **self._settings(),
            **self._told_by_the_loader,
        }

    def _settings(self) -> dict[str, Any]:
        config = getattr(self.args, "accelerator_config", None)
        pairs = [(self.args, name) for name in _SETTINGS] + [(config, name) for name in _ACCELERATOR_SETTINGS]
        values = {name: getattr(owner, name) for owner, name in pairs if hasattr(owner, name)}
        return {name: value if isinstance(value, (bool, int)) or value is None else str(value) for name, value in values.items()}

    def _changed(self) -> list[str]:
        """What the order of the data depends on, and is not as it was when the file was saved."""
        assert self._resumed is not None
        # Another version of transformers may lack a setting. The sampler and the number of batches tell of it all the same.
        now, of_loader = self._run(), self._told_by_the_loader
        before = {**{name: now[name] for name in (*self._settings(), *of_loader)}, **self._resumed["run"]}
        changed = [name for name in now if before.get(name) != now[name]]
        # What follows from a setting is told where no setting changed.
        told = [name for name in changed if name not in of_loader] or changed
        return [f"{name} was {before.get(name)} and is {now[name]}" for name in told]

    def _unrepeatable(self) -> str | None:
        """What makes an order of the data that a resumed run does not repeat."""
        args = self.args
        if isinstance(self.train_dataset, IterableDataset):
            return "an IterableDataset: use a dataset with indices"
        if getattr(getattr(args, "accelerator_config", None), "dispatch_batches", None):
            return "dispatch_batches=True: let each process read its own batches"
        if not getattr(args, "dataloader_in_order", True) and args.dataloader_num_workers > 1:
            return "dataloader_in_order=False, with which batches come as workers have them: leave it out"
        if getattr(args, "train_sampling_strategy", None) == "batch_rebalance" and args.world_size > 1:
            return 'train_sampling_strategy="batch_rebalance" in several processes: use "group_by_length"'
        return None

    # Resuming

    def train(self, resume_from_checkpoint: Any = None, trial: Any = None, ignore_keys_for_eval: Any = None) -> Any:
        if trial is not None:
            raise Unsupported("EspalierMixin does not go with a search for hyper-parameters; use a plain Trainer for it")
        if not self.args.ignore_data_skip and (what := self._unrepeatable()) is not None:
            raise Unsupported(
                f"EspalierMixin does not go with {what}, or begin the data anew on each resume with ignore_data_skip=True; a resumed "
                "run would see other data or random numbers than one that was not interrupted"
            )
        self._resumed, self._skipped, self._is_epoch_pending, self._is_rng_due = None, 0, False, False
        self._epoch_ended, self._elapsed = False, 0.0
        evaluates_first = self.args.eval_on_start
        try:
            self._path, self._check, of_the_trainer = self._file_of(resume_from_checkpoint)
            if not self._path:
                result = super().train(of_the_trainer, None, ignore_keys_for_eval)
            else:
                parts = ("trainer", "loop", "ranks", "run")
                self._resumed = {name: load(self._path, at=name, check=self._check) for name in parts}
                self.args.eval_on_start = False  # That was before the first step.
                # The Trainer reads this one file by name. The best checkpoint would have to be a folder.
                with tempfile.TemporaryDirectory() as folder:
                    with open(os.path.join(folder, _STATE), "w", encoding="utf-8") as file:
                        json.dump({**self._resumed["trainer"], "best_model_checkpoint": None}, file, default=float)
                    result = super().train(folder, None, ignore_keys_for_eval)
        except BaseException as error:
            self._close(error)
            raise
        finally:
            self.args.eval_on_start = evaluates_first
        self._close(None)
        return result

    def _close(self, error: BaseException | None) -> None:
        checkpointer, self._checkpointer = self._checkpointer, None
        if checkpointer is not None:
            checkpointer.__exit__(None if error is None else type(error), error, None)

    def _file_of(self, wanted: Any) -> tuple[str, Any, Any]:
        """The file to resume from, "" for none of ours; what to check of it; and what the Trainer is to resume from in its place."""
        if wanted is True or wanted == "auto":
            step, folder = self._newest(wanted) if self.args.process_index == 0 else (None, None)
            if self.args.world_size > 1:
                from accelerate.utils import broadcast_object_list

                step, folder = broadcast_object_list([step, folder])
            if folder is not None:
                return "", "nothing", os.path.join(self.args.output_dir, folder)
            if step is None:
                return "", "nothing", True if wanted is True else None
            return self.checkpointer.path(step), "nothing", None
        if not wanted or os.path.isdir(wanted):
            return "", "hashes", wanted
        return os.fspath(wanted), "hashes", None

    def _newest(self, wanted: Any) -> tuple[int | None, str | None]:
        """The step of the newest of our files whose every byte is intact; or the name of a folder that the Trainer itself wrote, if
        its step is later."""
        step, skipped = self.checkpointer._newest_intact()
        for other, problem in skipped:
            warnings.warn(f"step {other} is passed over: {problem}", DamagedCheckpoint, stacklevel=4)
        if step is None and wanted is True:
            return None, None  # The Trainer finds its own.
        output = self.args.output_dir
        names = os.listdir(output) if os.path.isdir(output) else []
        matches = [match for match in map(_OF_THE_TRAINER.fullmatch, names) if match]
        later = {int(match[1]): match[0] for match in matches if step is None or int(match[1]) > step}
        for number in sorted(later, reverse=True):
            folder = os.path.join(output, later[number])
            lacking = [each for each in (_STATE, "optimizer.pt", "scheduler.pt") if not os.path.isfile(os.path.join(folder, each))]
            if lacking:
                text = f"{folder} is passed over: it has no {' and no '.join(lacking)}, so no run can go on from it"
                warnings.warn(text, DamagedCheckpoint, stacklevel=4)
                continue
            if step is not None:
                warnings.warn(
                    f"{folder} was saved by a Trainer without EspalierMixin, and is newer than {self.checkpointer.path(step)}: the "
                    "run resumes from it, as the Trainer does; to resume from the other, pass its path",
                    UserWarning,
                    stacklevel=4,
                )
            return step, later[number]
        return step, None

    def _tell_later_steps(self) -> None:
        """Warns of files that a later resume would take, although this run did not make them."""
        if not self.args.should_save or not os.path.isdir(self.checkpointer.folder):
            return
        later = [step for step in self.checkpointer.steps if step > self.state.global_step]
        if later:
            steps = f"step {later[0]} is" if len(later) == 1 else f"steps {', '.join(map(str, later))} are"
            warnings.warn(
                f"{self.checkpointer.folder}: {steps} of another run, as this one begins at step {self.state.global_step}; a resume "
                "before it gets there would go on from that run. Remove these files, or use another output_dir",
                UserWarning,
                stacklevel=2,
            )

    def _init_training_state(
        self, max_steps: int, num_update_steps_per_epoch: int, num_train_epochs: int, resume_from_checkpoint: Any, trial: Any
    ) -> Any:
        self._told_by_the_loader["optimizer steps of an epoch"] = num_update_steps_per_epoch
        if self._resumed is not None and not self.args.ignore_data_skip:
            if changed := self._changed():
                raise EspalierError(
                    f"{self._path}: {'; '.join(changed)}: so the place in the training data is lost; set it as it was, or "
                    "begin the data anew with ignore_data_skip=True"
                )
        first = super()._init_training_state(
            max_steps, num_update_steps_per_epoch, num_train_epochs, resume_from_checkpoint, trial
        )
        if self._resumed is not None:
            step = self.state.global_step
            self._skipped = first[1]
            self._is_rng_due = True
            is_at_the_end = step % num_update_steps_per_epoch == 0 or step >= max_steps
            self._is_epoch_pending = is_at_the_end and not self._resumed["loop"]["epoch_ended"]
            if self.state.best_global_step:
                path = self.checkpointer.path(self.state.best_global_step)
                self.state.best_model_checkpoint = path if os.path.exists(path) else None
        self._tell_later_steps()
        return first

    def _load_callback_state(self) -> None:
        if self._resumed is None:
            super()._load_callback_state()
            return
        left = {name: list(each) if isinstance(each, list) else [each] for name, each in self.state.stateful_callbacks.items()}
        for callback in self._exportable():
            kept = left.get(type(callback).__name__)
            for name, value in (kept.pop(0).get("attributes", {}) if kept else {}).items():
                setattr(callback, name, value)
        if names := [name for name, each in left.items() if each]:
            warnings.warn(
                f"{self._path} has the state of a callback that this Trainer does not have: {', '.join(names)}; add it, or the run "
                "goes on without it",
                UserWarning,
                stacklevel=2,
            )

    def _load_from_checkpoint(self, resume_from_checkpoint: Any, model: Any = None) -> None:
        if self._resumed is None:
            super()._load_from_checkpoint(resume_from_checkpoint, model)
        else:
            load_into(self.accelerator.unwrap_model(model or self.model), self._path, at="model", check=self._check)

    def _load_optimizer_and_scheduler(self, checkpoint: Any) -> None:
        if self._resumed is None:
            super()._load_optimizer_and_scheduler(checkpoint)
        else:
            load_into(self.optimizer, self._path, at="optimizer", check=self._check)
            load_into(self.lr_scheduler, self._path, at="scheduler", check=self._check)

    def _load_scaler(self, checkpoint: Any) -> None:
        if self._resumed is None:
            super()._load_scaler(checkpoint)
        elif self.accelerator.scaler is not None:
            load_into(self.accelerator.scaler, self._path, at="scaler", check=self._check)

    def _load_rng_state(self, checkpoint: Any) -> None:
        if self._resumed is None:
            super()._load_rng_state(checkpoint)
        elif self._is_rng_due:
            self._is_rng_due = False
            self._set_random_state("rng")

    def _of_this_process(self, name: str) -> Any:
        assert self._resumed is not None
        ranks = self._resumed["ranks"]
        return ranks[self.args.process_index][name] if self.args.process_index < len(ranks) else None

    def _set_random_state(self, name: str) -> None:
        state = self._of_this_process(name)
        if state is not None:  # of a run with fewer processes
            set_random_state(state, self.args.device)

    def _go_on(self, control: Any) -> Any:
        """Puts back what the Trainer sets to zero just before its loop, and ends an epoch that was saved before its end."""
        self._began = time.time()
        if self._resumed is None:
            return control
        loop = self._resumed["loop"]
        loss = self._of_this_process("loss")
        self._tr_loss = torch.tensor(0.0 if loss is None else loss, device=self.args.device)
        self._total_loss_scalar = loop["total_loss"]
        self._globalstep_last_logged = loop["last_logged"]
        self._initial_global_step = loop["initial_step"]
        self._elapsed = loop["elapsed"]
        if not self._is_epoch_pending:
            return control
        self._load_rng_state(None)
        self.control = self.callback_handler.on_epoch_end(self.args, self.state, control)
        self._maybe_log_save_evaluate(
            self._tr_loss,
            loop["grad_norm"],
            self.model_wrapped,
            None,
            self.state.epoch,
            None,
            self._began - self._elapsed,
            learning_rate=loop["learning_rate"],
        )
        return self.control

    def get_train_dataloader(self) -> Any:
        loader = super().get_train_dataloader()
        inner: Any = getattr(loader, "base_dataloader", None)
        self._batches = None
        self._told_by_the_loader["sampler"] = sampler_of(loader)
        # Workers read with random numbers of their own.
        if type(inner) is DataLoader and inner.batch_sampler is not None and inner.num_workers == 0:
            self._batches = Batches(inner.batch_sampler, self.args.device, skips=False)
            vars(inner)["batch_sampler"] = self._batches  # DataLoader.__setattr__() refuses this name.
        return loader

    def _run_epoch(self, *args: Any, **options: Any) -> Any:
        if self.state.global_step >= self.state.max_steps:
            self.control.should_training_stop = True
            return None
        self._epoch_ended = False
        if self._is_rng_due and self._skipped:
            # The sampler of the epoch begins as it began, and goes on to where it was.
            self._set_random_state("epoch_rng")
            before = self._of_this_process("batch_rng")
            if self._batches is not None and before is not None:
                self._batches.resumed = (self._skipped, before, self._of_this_process("rng"))
                self._is_rng_due = False
        elif self._is_rng_due:
            self._load_rng_state(None)
        self._epoch_rng = random_state(self.args.device)
        return super()._run_epoch(*args, **options)

    def _finalize_training(self, trial: Any, num_train_samples: Any, start_time: Any) -> Any:
        return super()._finalize_training(trial, num_train_samples, start_time - self._elapsed)

    def _load_best_model(self) -> None:
        if os.path.isdir(self.state.best_model_checkpoint):  # of the Trainer itself, from which this run resumed
            super()._load_best_model()
            return
        self.checkpointer.wait()
        self.accelerator.wait_for_everyone()
        load_into(self.accelerator.unwrap_model(self.model), self.state.best_model_checkpoint, at="model")


class EspalierTrainer(EspalierMixin, transformers.Trainer):  # type: ignore[misc]
    """transformers.Trainer with EspalierMixin."""


__all__ = ["FOLDER", "EspalierMixin", "EspalierTrainer"]
