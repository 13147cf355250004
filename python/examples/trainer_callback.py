"""Saves with Espalier as a Trainer of Hugging Face goes on, and goes on where it was.

    callback = EspalierCheckpoint("run", every=500, keep=3)
    trainer = transformers.Trainer(model, args, train_dataset=data, callbacks=[callback])
    trainer.train()                     # the same line after a crash

Use save_strategy="no". Each save is a copy of the state; the rest is in the background. The number of the step goes on,
and so training ends at max_steps; the data begin anew, as with ignore_data_skip. For one process, or several with the
same state (DDP): the first one saves, and all read the folder.
"""

from __future__ import annotations

import functools
from typing import Any

import espalier
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

SAVED = ("model", "optimizer", "lr_scheduler")


class EspalierCheckpoint(TrainerCallback):
    def __init__(self, folder: str, **options: Any):
        """The options are those of espalier.Checkpointer."""
        self._make = functools.partial(espalier.Checkpointer, folder, **options)
        self.checkpointer = self._make()

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **objects: Any
    ) -> None:
        self.checkpointer = self._make()  # The one of a train() before is closed.
        _, step = self.checkpointer.restore(into={name: objects[name] for name in SAVED})
        if step:
            state.global_step = step
            control.should_training_stop = step >= state.max_steps

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **objects: Any
    ) -> None:
        if state.is_world_process_zero and self.checkpointer.is_due(state.global_step):
            losses = [entry["loss"] for entry in state.log_history if "loss" in entry]
            saved = {name: objects[name] for name in SAVED}
            self.checkpointer.save(state.global_step, saved, metrics={"loss": losses[-1]} if losses else None)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **objects: Any
    ) -> None:
        self.checkpointer.close()
