"""The examples: training that is cut goes on, with the frameworks if they are installed, else with stand-ins."""

import importlib.util
import pathlib
import runpy
import sys
import types

import espalier
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples"
STEPS = 20


class Crash(Exception):
    pass


def example(name):
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


def is_installed(name):
    return importlib.util.find_spec(name) is not None


def losing_weight(model, batch):
    return (model(batch) ** 2).mean()


def tools(model):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))


def seeded():
    torch.manual_seed(1)
    return nn.Linear(3, 2)


BATCH = torch.ones(4, 3)


class Loop:
    def __init__(self):
        self.done = 0

    def state_dict(self):
        return {"done": self.done}

    def load_state_dict(self, state):
        self.done = state["done"]


def lightning_stand_in(callback, crash_at):
    """What Lightning calls, in its order."""
    model = seeded()
    optimizer, scheduler = tools(model)
    trainer = types.SimpleNamespace(
        optimizers=[optimizer], lr_scheduler_configs=[types.SimpleNamespace(scheduler=scheduler)], fit_loop=Loop(),
        is_global_zero=True, global_step=0, callback_metrics={},
    )  # fmt: skip
    try:
        callback.on_fit_start(trainer, model)
        for step in range(trainer.fit_loop.done + 1, STEPS + 1):
            trainer.fit_loop.done = trainer.global_step = step
            optimizer.zero_grad()
            losing_weight(model, BATCH).backward()
            optimizer.step()
            scheduler.step()
            callback.on_train_batch_end(trainer, model, None, BATCH, step)
            if step == crash_at:
                raise Crash
        callback.on_train_end(trainer, model)
    except BaseException as exception:
        callback.on_exception(trainer, model, exception)
        raise
    return model, optimizer


def with_lightning(callback, crash_at):
    import lightning.pytorch as lightning

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = seeded()

        def training_step(self, batch, batch_idx):
            return losing_weight(self.layer, batch)

        def configure_optimizers(self):
            optimizer, scheduler = tools(self)
            return [optimizer], [{"scheduler": scheduler, "interval": "step"}]

    class Crashing(lightning.Callback):
        def on_train_batch_end(self, trainer, *_):
            if trainer.global_step == crash_at:
                raise Crash

    model = Model()
    trainer = lightning.Trainer(
        max_steps=STEPS, callbacks=[callback, Crashing()], accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(model, torch.utils.data.DataLoader(list(BATCH.repeat(7, 1)), batch_size=4))
    assert trainer.global_step == STEPS
    return model.layer, trainer.optimizers[0]


def transformers_stand_in(callback, crash_at):
    model = seeded()
    optimizer, scheduler = tools(model)
    state = types.SimpleNamespace(global_step=0, max_steps=STEPS, is_world_process_zero=True, log_history=[])
    control = types.SimpleNamespace(should_training_stop=False)
    objects = {"model": model, "optimizer": optimizer, "lr_scheduler": scheduler, "train_dataloader": [BATCH]}
    callback.on_train_begin(None, state, control, **objects)
    while state.global_step < STEPS and not control.should_training_stop:
        optimizer.zero_grad()
        loss = losing_weight(model, BATCH)
        loss.backward()
        optimizer.step()
        scheduler.step()
        state.global_step += 1
        state.log_history.append({"loss": loss.item(), "step": state.global_step})
        callback.on_step_end(None, state, control, **objects)
        if state.global_step == crash_at:
            raise Crash
    callback.on_train_end(None, state, control, **objects)
    return model, optimizer


def with_transformers(callback, crash_at):
    import tempfile

    import transformers

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = seeded()

        def forward(self, x):
            return {"loss": losing_weight(self.layer, x)}

    class Crashing(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            if state.global_step == crash_at:
                raise Crash

    model = Model()
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder, max_steps=STEPS, per_device_train_batch_size=4, save_strategy="no", report_to=[], use_cpu=True,
            disable_tqdm=True, logging_steps=1, max_grad_norm=0.0,
        )  # fmt: skip
        trainer = transformers.Trainer(
            model,
            arguments,
            train_dataset=[{"x": row} for row in BATCH],
            callbacks=[callback, Crashing()],
            optimizers=tools(model),
        )
        trainer.train()
    assert trainer.state.global_step == STEPS
    return model.layer, trainer.optimizer


def stand_in_for(name):
    made = types.ModuleType(name)
    names = (
        "Callback",
        "LightningModule",
        "Trainer",
        "TrainerCallback",
        "TrainerControl",
        "TrainerState",
        "TrainingArguments",
    )
    for each in names:
        setattr(made, each, type(each, (), {}))
    return made


@pytest.mark.parametrize(
    ("name", "framework", "real", "stand_in"),
    [
        ("lightning_callback", "lightning", with_lightning, lightning_stand_in),
        ("trainer_callback", "transformers", with_transformers, transformers_stand_in),
    ],
    ids=["lightning", "transformers"],
)
@pytest.mark.filterwarnings("default", "ignore:.*none of the checkpoints")  # of the frameworks; before the first validation
def test_training_that_is_cut_goes_on(name, framework, real, stand_in, tmp_path, monkeypatch):
    train = real
    if not is_installed(framework):
        train = stand_in
        for module in (framework, f"{framework}.pytorch"):
            monkeypatch.setitem(sys.modules, module, stand_in_for(module))
    make = example(name)["EspalierCheckpoint"]
    model, optimizer = train(make(tmp_path / "whole", every=5), crash_at=None)
    assert espalier.Checkpointer(tmp_path / "whole").steps == [10, 15, 20]
    callback = make(tmp_path / "cut", every=5, best=("loss", "min"))  # which a validation would measure later
    with pytest.raises(Crash):
        train(callback, crash_at=13)
    callback.checkpointer.wait()  # as the end of a program does
    checkpoints = espalier.Checkpointer(tmp_path / "cut")
    assert checkpoints.steps == [5, 10]
    again, optimizer_again = train(callback, crash_at=None)
    assert checkpoints.steps == [10, 15, 20]
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    moments, moments_again = (each.state_dict()["state"][0] for each in (optimizer, optimizer_again))
    assert moments["step"] == moments_again["step"] == STEPS and torch.equal(
        moments["exp_avg"], moments_again["exp_avg"]
    )


def test_the_examples_are_short():
    for path in EXAMPLES.glob("*_callback.py"):
        assert len(path.read_text().splitlines()) < 60, path


def test_look_into(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["look_into.py"])
    example("look_into")
    printed = capsys.readouterr().out
    assert "16,384  f32    [64, 64]         model/layers/0/weight" in printed and "has_hashes=True" in printed
