"""The Trainer of transformers with Espalier files: a run that is cut and resumed ends with the bits of one that is not."""

import dataclasses
import json
import pathlib
import random
import subprocess
import sys
import warnings

import espalier
import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from espalier.transformers import EspalierMixin, EspalierTrainer  # noqa: E402
from torch import nn  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of the frameworks

STEPS, CUT = 20, 12


class Crash(Exception):
    pass


class Crashing(transformers.TrainerCallback):
    def __init__(self, at):
        self.at = at

    def on_step_end(self, args, state, control, **_):
        if state.global_step == self.at:
            raise Crash


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.2), nn.Linear(16, 4))

    def forward(self, x, labels):
        logits = self.net(x)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


class Data(torch.utils.data.Dataset):
    """64 rows, with noise of each of the three kinds of random numbers if it is `noisy`."""

    def __init__(self, noisy=False, count=64):
        generator = torch.Generator().manual_seed(5)
        self.x, self.noisy = torch.randn(count, 8, generator=generator), noisy
        self.labels = torch.randint(0, 4, (count,), generator=generator)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        noise = torch.randn(8) + random.random() + float(np.random.random()) if self.noisy else 0
        return {"x": self.x[i] + noise, "labels": self.labels[i]}


class Stream(torch.utils.data.IterableDataset):
    """The same rows in their order, and their number is not known."""

    def __iter__(self):
        return (Data(count=256)[i] for i in range(256))


class Lengths(Data):
    """Rows of several lengths."""

    def __getitem__(self, i):
        return {**super().__getitem__(i), "input_ids": [0] * (1 + i % 7)}


def trainer(folder, cut=None, data=None, cls=EspalierTrainer, callbacks=(), **options):
    transformers.set_seed(0)
    options = {
        "max_steps": STEPS, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "save_strategy": "steps",
        "save_steps": 5, "logging_steps": 3, "learning_rate": 1e-2, "lr_scheduler_type": "cosine", "warmup_steps": 3,
        "report_to": [], "use_cpu": True, "disable_tqdm": True, "seed": 0, **options,
    }  # fmt: skip
    arguments = transformers.TrainingArguments(str(folder), **options)
    return cls(
        Model(), arguments, train_dataset=data or Data(), eval_dataset=Data(count=12), callbacks=[*callbacks, Crashing(cut)]
    )


TIMES = ("runtime", "per_second")


def result(run):
    """All that must be equal, as plain values and arrays."""
    logs = [{k: v for k, v in entry.items() if not k.endswith(TIMES)} for entry in run.state.log_history]
    state = {k: v for k, v in dataclasses.asdict(run.state).items() if k not in ("log_history", "best_model_checkpoint")}
    return {
        "model": run.model, "optimizer": run.optimizer, "schedule": run.lr_scheduler, "scaler": run.accelerator.scaler,
        "logs": logs, "state": state, "best": pathlib.Path(run.state.best_model_checkpoint or "").name,
        "rng": (random.getstate(), np.random.get_state(), torch.get_rng_state()),
    }  # fmt: skip


def bits(run):
    return espalier.save_bytes(result(run))


def whole_and_resumed(tmp_path, cut=CUT, resume=True, before=lambda run: None, **options):
    whole = trainer(tmp_path / "whole", **options)
    before(whole)
    whole.train()
    wanted, expected = bits(whole), result(whole)
    one = trainer(tmp_path / "cut", cut=cut, **options)
    before(one)
    with pytest.raises(Crash):
        one.train()
    transformers.set_seed(99)
    again = trainer(tmp_path / "cut", **options)
    before(again)
    random.seed(99)
    again.train(resume_from_checkpoint=resume)
    got = result(again)
    assert got["logs"] == expected["logs"]
    assert got["state"] == expected["state"]
    assert got["best"] == expected["best"]
    assert bits(again) == wanted
    return whole, again


CASES = {
    "steps": {},
    "logs_between": {"logging_steps": 7},
    "sampler_without_seed": {"accelerator_config": {"use_seedable_sampler": False}},
    "noise": {"data": Data(noisy=True)},
    "noise_without_accumulation": {"data": Data(noisy=True), "gradient_accumulation_steps": 1},
    "noise_one_batch_left": {"data": Data(noisy=True), "gradient_accumulation_steps": 1, "save_steps": 15, "cut": 17},
    "workers": {"dataloader_num_workers": 1},
    "grouped_by_length": {"data": Lengths(noisy=True), "train_sampling_strategy": "group_by_length"},
    "bf16": {"bf16": True},
    "best": {
        "eval_strategy": "steps", "eval_steps": 5, "metric_for_best_model": "loss", "greater_is_better": False,
        "load_best_model_at_end": True, "save_total_limit": 1,
    },
    # 8 steps each: the save is after an epoch's last step, and what the epoch's end does comes after it.
    "epochs_end": {"save_steps": 8, "logging_strategy": "epoch", "eval_strategy": "epoch", "cut": 9},
    "saved_by_epochs": {"save_strategy": "epoch", "logging_strategy": "epoch", "eval_strategy": "epoch", "cut": 9},
    "reduces_on_plateau": {
        "lr_scheduler_type": "reduce_lr_on_plateau", "eval_strategy": "steps", "eval_steps": 5,
        "metric_for_best_model": "loss", "lr_scheduler_kwargs": {"patience": 0},
    },
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_resumed_run_ends_with_the_same_bits(case, tmp_path):
    whole, again = whole_and_resumed(tmp_path, **CASES[case])
    assert again.state.global_step == STEPS and again.state.epoch == (2.5 if again.args.gradient_accumulation_steps == 2 else 1.25)
    files = [path.name for path in (tmp_path / "cut").rglob("*") if path.is_file() and not path.name.startswith(".")]
    assert files and all(name.endswith(".espalier") for name in files)  # no pickles
    assert whole.checkpointer.steps == again.checkpointer.steps


class Measured:
    """The accuracy rises once, and then stays."""

    def evaluation_loop(self, *args, **options):
        output = super().evaluation_loop(*args, **options)
        output.metrics["eval_accuracy"] = 0.5 if self.state.global_step < 10 else 0.75
        return output


class Metric(Measured, EspalierTrainer):
    pass


def test_the_best_is_the_first_of_equals_and_stays(tmp_path):
    options = {
        "cls": Metric, "eval_strategy": "steps", "eval_steps": 5, "metric_for_best_model": "accuracy",
        "load_best_model_at_end": True, "save_total_limit": 1,
    }  # fmt: skip
    _, again = whole_and_resumed(tmp_path, cut=17, **options)
    assert again.state.best_global_step == 10
    assert again.state.best_model_checkpoint == again.checkpointer.path(10)
    assert again.checkpointer.steps == [10, 20]
    best = espalier.load(again.checkpointer.path(10), at="model", framework="torch")
    assert all(torch.equal(best[name], value) for name, value in again.model.state_dict().items())


def test_callbacks_with_a_state_keep_it(tmp_path):
    def run(folder, cut=None, resume=None):
        callbacks = [transformers.EarlyStoppingCallback(early_stopping_patience=3)]
        made = trainer(
            folder, cut, cls=Metric, callbacks=callbacks, eval_strategy="steps", eval_steps=2, save_steps=2,
            metric_for_best_model="accuracy", load_best_model_at_end=True,
        )  # fmt: skip
        made.train(resume_from_checkpoint=resume)
        return made

    whole = run(tmp_path / "whole")
    with pytest.raises(Crash):
        run(tmp_path / "cut", cut=7)
    again = run(tmp_path / "cut", resume=True)
    assert whole.state.global_step == again.state.global_step == 8  # 2 is the best; 4, 6 and 8 are no better
    assert bits(again) == bits(whole)


def test_the_scaler_keeps_its_scale(tmp_path):
    def scaled(run):
        run.accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3)

    whole, again = whole_and_resumed(tmp_path, before=scaled)
    assert again.accelerator.scaler.get_scale() == whole.accelerator.scaler.get_scale() == 8.0 * 2 ** (STEPS // 3)


def test_auto_begins_and_goes_on(tmp_path):
    for _ in range(2):
        run = trainer(tmp_path / "run", cut=None)
        run.train(resume_from_checkpoint="auto")
        assert run.state.global_step == STEPS
    assert run.checkpointer.steps == [5, 10, 15, 20]
    with pytest.raises(ValueError, match="No valid checkpoint"):
        trainer(tmp_path / "other").train(resume_from_checkpoint=True)


def test_a_finished_run_does_no_more_steps(tmp_path):
    whole = trainer(tmp_path / "run")
    whole.train()
    again = trainer(tmp_path / "run")
    again.train(resume_from_checkpoint=True)
    assert again.state.global_step == STEPS
    assert all(torch.equal(a, b) for a, b in zip(whole.model.parameters(), again.model.parameters(), strict=True))


def test_a_damaged_file_is_passed_over(tmp_path):
    with pytest.raises(Crash):
        trainer(tmp_path / "run", cut=CUT).train()
    path = tmp_path / "run/espalier/step_00000010.espalier"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    again = trainer(tmp_path / "run")
    with pytest.warns(espalier.DamagedCheckpoint, match="step 10 is passed over"):
        again.train(resume_from_checkpoint=True)
    with pytest.raises(espalier.Corrupt, match="hash"):
        trainer(tmp_path / "run").train(resume_from_checkpoint=bytes(data) and _damaged(tmp_path, data))


def _damaged(tmp_path, data):
    path = tmp_path / "damaged.espalier"
    path.write_bytes(data)
    return path


def test_a_path_takes_that_file(tmp_path):
    whole = trainer(tmp_path / "whole")
    whole.train()
    again = trainer(tmp_path / "again")
    again.train(resume_from_checkpoint=whole.checkpointer.path(10))
    assert all(torch.equal(a, b) for a, b in zip(whole.model.parameters(), again.model.parameters(), strict=True))
    assert again.checkpointer.steps == [15, 20]


def test_a_checkpoint_of_the_trainer_itself_is_resumed(tmp_path):
    whole = trainer(tmp_path / "whole")
    whole.train()
    with pytest.raises(Crash):
        trainer(tmp_path / "run", cut=CUT, cls=transformers.Trainer).train()
    again = trainer(tmp_path / "run")
    again.train(resume_from_checkpoint=True)
    assert all(torch.equal(a, b) for a, b in zip(whole.model.parameters(), again.model.parameters(), strict=True))
    assert again.checkpointer.steps == [15, 20]


def test_the_best_may_be_one_of_the_trainer_itself(tmp_path):
    class Plain(Measured, transformers.Trainer):
        pass

    options = {
        "eval_strategy": "steps", "eval_steps": 5, "metric_for_best_model": "accuracy", "load_best_model_at_end": True,
    }  # fmt: skip
    with pytest.raises(Crash):
        trainer(tmp_path, cut=12, cls=Plain, **options).train()
    best = espalier.load(tmp_path / "checkpoint-10/model.safetensors", framework="torch")
    again = trainer(tmp_path, cls=Metric, **options)
    again.train(resume_from_checkpoint="auto")
    assert again.checkpointer.steps == [15, 20] and again.state.best_global_step == 10
    assert all(torch.equal(best[name], value) for name, value in again.model.state_dict().items())


def test_a_newer_checkpoint_of_the_trainer_itself_is_noticed(tmp_path):
    def cut(at, cls):
        with pytest.raises(Crash):
            trainer(tmp_path, cut=at, cls=cls).train()

    def resumed_at(resume="auto", **options):
        begun = []

        class Noting(transformers.TrainerCallback):
            def on_train_begin(self, args, state, control, **_):
                begun.append(state.global_step)
                raise Crash

        with pytest.raises(Crash):
            trainer(tmp_path, callbacks=[Noting()], **options).train(resume_from_checkpoint=resume)
        return begun[0]

    cut(11, transformers.Trainer)
    assert resumed_at() == 10  # "auto" does not begin where the Trainer would go on
    cut(6, EspalierTrainer)
    for resume in (True, "auto"):
        with pytest.warns(UserWarning, match=r"checkpoint-10 .*newer than .*step_00000005\.espalier"):
            assert resumed_at(resume) == 10
    (tmp_path / "checkpoint-10/trainer_state.json").unlink()
    with pytest.warns(espalier.DamagedCheckpoint, match=r"checkpoint-10 is passed over: it has no trainer_state\.json"):
        assert resumed_at() == 5
    cut(12, EspalierTrainer)
    with warnings.catch_warnings(record=True) as told:
        assert resumed_at() == 10
    assert not [each for each in told if "checkpoint-" in str(each.message)]


def test_later_steps_of_another_run_are_named(tmp_path):
    whole = trainer(tmp_path, max_steps=10)
    whole.train()
    with pytest.warns(UserWarning, match="steps 5, 10 are of another run.*another output_dir"), pytest.raises(Crash):
        trainer(tmp_path, cut=1).train()
    with pytest.warns(UserWarning, match="step 10 is of another run"), pytest.raises(Crash):
        trainer(tmp_path, cut=6).train(resume_from_checkpoint=whole.checkpointer.path(5))


def test_a_state_of_a_callback_that_is_gone_is_named(tmp_path):
    options = {
        "cls": Metric, "eval_strategy": "steps", "eval_steps": 5, "metric_for_best_model": "accuracy",
        "load_best_model_at_end": True,
    }  # fmt: skip
    with pytest.raises(Crash):
        trainer(tmp_path, 7, callbacks=[transformers.EarlyStoppingCallback(9)], **options).train()
    with pytest.warns(UserWarning, match="EarlyStoppingCallback"), pytest.raises(Crash):
        trainer(tmp_path, 6, **options).train(resume_from_checkpoint=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, "seed was 0 and is 1"),
        ({"per_device_train_batch_size": 2}, "batch size was 4 and is 2"),
        ({"gradient_accumulation_steps": 1}, "gradient_accumulation_steps was 2 and is 1"),
        ({"data": Data(count=32)}, "length of the training data was 64 and is 32"),
    ],
)
def test_a_change_of_what_the_position_depends_on_is_an_error(change, message, tmp_path):
    with pytest.raises(Crash):
        trainer(tmp_path / "run", cut=7).train()
    with pytest.raises(espalier.EspalierError, match=message):
        trainer(tmp_path / "run", **change).train(resume_from_checkpoint=True)
    run = trainer(tmp_path / "run", ignore_data_skip=True, **change)
    run.train(resume_from_checkpoint=True)
    assert run.state.global_step == STEPS


def test_a_change_of_the_order_of_the_data_is_an_error(tmp_path):
    class Backwards(EspalierTrainer):
        def _get_train_sampler(self, train_dataset=None):
            return range(len(self.train_dataset))[::-1]

    class Half(EspalierTrainer):
        def _get_train_sampler(self, train_dataset=None):
            return torch.utils.data.RandomSampler(self.train_dataset, num_samples=32)

    with pytest.raises(Crash):
        trainer(tmp_path / "run", cut=7, data=Lengths(count=63)).train()
    for change, message in (
        ({"data_seed": 7}, "data_seed was None and is 7"),
        ({"dataloader_drop_last": True}, "dataloader_drop_last was False and is True"),
        ({"train_sampling_strategy": "sequential"}, "train_sampling_strategy was random and is sequential"),
        ({"train_sampling_strategy": "group_by_length"}, "train_sampling_strategy was random and is group_by_length"),
        ({"length_column_name": "long"}, "length_column_name was length and is long"),
        ({"accelerator_config": {"use_seedable_sampler": False}}, "use_seedable_sampler was True and is False"),
        ({"accelerator_config": {"split_batches": True}}, "split_batches was False and is True"),
        ({"accelerator_config": {"even_batches": False}}, "even_batches was True and is False"),
        ({"cls": Backwards}, "sampler was SeedableRandomSampler and is range"),
        ({"cls": Half}, "optimizer steps of an epoch was 8 and is 4"),
    ):
        with pytest.raises(espalier.EspalierError, match=f"{message}: .*set it as it was, or .*ignore_data_skip=True"):
            trainer(tmp_path / "run", **{"data": Lengths(count=63), **change}).train(resume_from_checkpoint=True)
    # These do not change it.
    options = {"dataloader_num_workers": 1, "dataloader_pin_memory": False, "logging_steps": 7}
    again = trainer(tmp_path / "run", data=Lengths(count=63), **options)
    again.train(resume_from_checkpoint=True)
    assert again.state.global_step == STEPS


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"accelerator_config": {"dispatch_batches": True}}, "dispatch_batches=True"),
        ({"dataloader_num_workers": 2, "dataloader_in_order": False}, "dataloader_in_order=False"),
    ],
)
def test_an_order_that_no_resume_repeats_is_refused(options, message, tmp_path):
    with pytest.raises(espalier.Unsupported, match=f"{message}.*ignore_data_skip=True"):
        trainer(tmp_path, **options).train()
    run = trainer(tmp_path, max_steps=1, ignore_data_skip=True, **options)
    run.train()
    assert run.state.global_step == 1


def test_batches_of_equal_cost_are_refused_in_several_processes(tmp_path, monkeypatch):
    run = trainer(tmp_path, data=Lengths(), train_sampling_strategy="batch_rebalance")
    with monkeypatch.context() as several, pytest.raises(espalier.Unsupported, match="batch_rebalance.*in several processes"):
        several.setattr(transformers.TrainingArguments, "world_size", 2)
        run.train()


def test_another_model_is_an_error_that_names_the_tensors(tmp_path):
    with pytest.raises(Crash):
        trainer(tmp_path / "run", cut=7).train()
    run = trainer(tmp_path / "run")
    run.model.net[2] = nn.Linear(16, 5)
    with pytest.raises(espalier.TreeMismatch, match=r"net.2.weight.*\[4, 16\]"):
        run.train(resume_from_checkpoint=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"save_only_model": True}, "save_only_model"),
        ({"push_to_hub": True, "hub_token": "none", "hub_model_id": "a/b"}, "push_to_hub"),
        ({"enable_jit_checkpoint": True}, "enable_jit_checkpoint"),
    ],
)
def test_what_does_not_go_with_it_is_refused(options, message, tmp_path, monkeypatch):
    monkeypatch.setattr(transformers.Trainer, "init_hf_repo", lambda *_, **__: None)
    with pytest.raises(espalier.Unsupported, match=message):
        trainer(tmp_path, **options)


def test_a_stream_is_refused_or_begins_anew(tmp_path):
    with pytest.raises(espalier.Unsupported, match="IterableDataset"):
        trainer(tmp_path, data=Stream()).train()
    with pytest.raises(Crash):
        trainer(tmp_path, data=Stream(), cut=CUT, ignore_data_skip=True).train()
    again = trainer(tmp_path, data=Stream(), ignore_data_skip=True)
    again.train(resume_from_checkpoint=True)
    assert again.state.global_step == STEPS


def test_another_version_of_transformers_is_refused(tmp_path, monkeypatch):
    monkeypatch.delattr(transformers.Trainer, "_run_epoch")
    with pytest.raises(espalier.Unsupported, match=r"whose Trainer has no _run_epoch; espalier\.transformers is for"):
        trainer(tmp_path)


def test_options_of_the_checkpointer(tmp_path):
    class Own(EspalierMixin, transformers.Trainer):
        checkpointer_options = {"compression": 1, "keep_every": 10}

    run = trainer(tmp_path, cls=Own, save_total_limit=1)
    run.train()
    assert run.checkpointer.steps == [10, 20]


def worker(rank, folder, port):
    """One of two processes: a run that is not cut, one that is, and the resumed one."""
    import os

    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="localhost", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    folder = pathlib.Path(folder)
    options = {
        "ddp_backend": "gloo", "per_device_train_batch_size": 2, "data": Data(noisy=True), "logging_steps": 7,
    }  # fmt: skip
    whole = trainer(folder / "whole", **options)
    whole.train()
    wanted = {name: espalier.save_bytes(value) for name, value in result(whole).items()}
    try:
        trainer(folder / "cut", cut=CUT, **options).train()
    except Crash:
        pass
    again = trainer(folder / "cut", **options)
    again.train(resume_from_checkpoint=True)
    other = [name for name, value in result(again).items() if espalier.save_bytes(value) != wanted[name]]
    (folder / f"{rank}.json").write_text(json.dumps([other, again.state.global_step, again.state.epoch]))
    torch.distributed.destroy_process_group()


def test_two_processes(tmp_path):
    import socket

    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    program = [sys.executable, "-W", "ignore", __file__]
    processes = [subprocess.Popen([*program, str(rank), str(tmp_path), str(port)]) for rank in range(2)]
    assert [process.wait(300) for process in processes] == [0, 0]
    for rank in range(2):
        assert json.loads((tmp_path / f"{rank}.json").read_text()) == [[], STEPS, 2.5]


if __name__ == "__main__":
    worker(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
