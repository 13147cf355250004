"""Saves with Espalier as a Lightning Trainer goes on, and goes on where it was.

    callback = EspalierCheckpoint("run", every=500, keep=3)
    trainer = lightning.pytorch.Trainer(callbacks=[callback], enable_checkpointing=False)
    trainer.fit(model, data)            # the same line after a crash

Each save is a copy of the state; the rest is in the background. Training goes on after the last saved step. The rest of
an epoch that was cut begins with the epoch's first batches again, as Lightning's own checkpoints have it. For one
process, or several with the same state (DDP): the first one saves, and all read the folder.
"""

from __future__ import annotations

import functools
from typing import Any

import espalier
from lightning.pytorch import Callback, LightningModule, Trainer


class EspalierCheckpoint(Callback):
    def __init__(self, folder: str, **options: Any):
        """The options are those of espalier.Checkpointer."""
        self._make = functools.partial(espalier.Checkpointer, folder, **options)
        self.checkpointer = self._make()
        self._best = (options.get("best") or [None])[0]

    def objects(self, trainer: Trainer, module: LightningModule) -> dict[str, Any]:
        schedulers = [config.scheduler for config in trainer.lr_scheduler_configs]
        return {"model": module, "optimizers": list(trainer.optimizers), "schedulers": schedulers}

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.checkpointer = self._make()  # The one of a fit() before is closed.
        rest, step = self.checkpointer.restore(into=self.objects(trainer, pl_module))
        if step:
            trainer.fit_loop.load_state_dict(rest["loop"])

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        # Only after a step of the optimizer: several batches may be one.
        if trainer.is_global_zero and trainer.global_step and self.checkpointer.is_due(trainer.global_step):
            if trainer.global_step != self.checkpointer.latest:
                metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
                state = {**self.objects(trainer, pl_module), "loop": trainer.fit_loop.state_dict()}
                # Before the first validation, some are not measured.
                measured = metrics if self._best is None or self._best in metrics else None
                self.checkpointer.save(trainer.global_step, state, metrics=measured)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.checkpointer.close()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self.checkpointer.__exit__(type(exception), exception, None)
