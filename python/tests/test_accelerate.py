"""Accelerate with Espalier files: a run that stops anywhere and resumes ends with the bits of one that does not."""

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
accelerate = pytest.importorskip("accelerate")
from accelerate import DataLoaderConfiguration  # noqa: E402
from accelerate.state import AcceleratorState, GradientState  # noqa: E402
from accelerate.utils import ProjectConfiguration  # noqa: E402
from espalier.accelerate import FILE, EspalierAccelerator, EspalierMixin  # noqa: E402
from torch import nn  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of the frameworks

EPOCHS = 3
HAS_STATEFUL = accelerate.utils.is_torchdata_stateful_dataloader_available()


class Data(torch.utils.data.Dataset):
    """Rows with noise of each of the three kinds of random numbers."""

    def __init__(self, count=30):
        self.x = torch.randn(count, 8, generator=torch.Generator().manual_seed(5))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i] + torch.randn(8) + random.random() + float(np.random.random())


class Plain(Data):
    def __getitem__(self, i):
        return self.x[i]


class Stream(torch.utils.data.IterableDataset):
    """Noisy rows in their order."""

    def __iter__(self):
        return map(Data().__getitem__, range(30))


class StreamWithState(Stream):
    def __init__(self):
        self.done = 0

    def __iter__(self):
        begin, self.done = self.done, 0
        data = Data()
        for i in range(begin, len(data)):
            self.done = i + 1
            yield data[i]
        self.done = 0

    def state_dict(self):
        return {"done": self.done}

    def load_state_dict(self, state):
        self.done = state["done"]


class Ema:
    def __init__(self, model):
        self.values = [each.detach().clone() for each in model.parameters()]
        self.history = np.zeros(3)

    def update(self, model):
        self.history[0] += 1
        for value, each in zip(self.values, model.parameters(), strict=True):
            value.lerp_(each.detach(), 0.1)

    def state_dict(self):
        return {"values": self.values, "history": self.history}

    def load_state_dict(self, state):
        assert isinstance(state["history"], np.ndarray)
        self.values, self.history = [each.clone() for each in state["values"]], state["history"].copy()


class Run:
    """A training program."""

    def __init__(
        self, cls=EspalierAccelerator, data=None, stateful=False, seedable=False, workers=0, hidden=8, accumulation=2, size=4,
        objects=1, project=None, generator=False, **options,
    ):  # fmt: skip
        AcceleratorState._reset_state(True)
        GradientState._reset_state()
        config = DataLoaderConfiguration(use_stateful_dataloader=stateful, use_seedable_sampler=seedable, **options)
        self.accelerator = cls(
            cpu=True, gradient_accumulation_steps=accumulation, dataloader_config=config, project_config=project
        )
        model = nn.Sequential(nn.Linear(8, hidden), nn.Dropout(0.2), nn.Linear(hidden, 1))
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
        data = data or Data()
        own = torch.Generator().manual_seed(torch.randint(99, ()).item()) if generator else None
        shuffled = not isinstance(data, torch.utils.data.IterableDataset)
        loader = torch.utils.data.DataLoader(data, size, shuffle=shuffled, num_workers=workers, generator=own)
        self.model, self.optimizer, self.schedule, self.loader = self.accelerator.prepare(model, optimizer, schedule, loader)
        self.custom = [Ema(model) for _ in range(objects)]
        self.accelerator.register_for_checkpointing(*self.custom)
        self.losses, self.ends = {}, []
        self.step = 0

    def train(self, saves=None, folder=None, stop=None, epochs=EPOCHS):
        accelerator = self.accelerator
        for epoch in range(self.loader.iteration, epochs):
            for batch in self.loader:
                with accelerator.accumulate(self.model):
                    loss = self.model(batch).pow(2).mean() * (1 + random.random())
                    accelerator.backward(loss)
                    self.optimizer.step()
                    self.schedule.step()
                    self.optimizer.zero_grad()
                self.step += 1
                self.losses[self.step] = loss.item()
                for each in self.custom:
                    each.update(accelerator.unwrap_model(self.model))
                if self.step == saves:
                    accelerator.save_state(folder)
                if self.step == stop:
                    return self
            self.ends.append((epoch, random.random()))
            if saves == f"after epoch {epoch}":
                accelerator.save_state(folder)
                if stop:
                    return self
        return self

    def bits(self):
        unwrapped = self.accelerator.unwrap_model(self.model)
        return espalier.save_bytes({
            "model": unwrapped, "optimizer": self.optimizer.optimizer, "schedule": self.schedule.scheduler,
            "custom": [each.state_dict() for each in self.custom], "step": self.accelerator.step,
            "epoch": self.loader.iteration,
            "random": (random.getstate(), np.random.get_state(), torch.get_rng_state()),
        })  # fmt: skip


def seed(number):
    random.seed(number)
    np.random.seed(number)
    torch.manual_seed(number)


def whole_and_resumed(folder, saves, step, **options):
    """A run to its end, which saves on its way; and another, seeded otherwise, that resumes from there."""
    seed(0)
    whole = Run(**options).train(saves, folder)
    wanted = whole.bits()
    seed(99)
    again = Run(**options)
    again.accelerator.load_state(folder)
    again.step = step
    again.train()
    assert again.losses == {number: loss for number, loss in whole.losses.items() if number > step}
    assert again.ends == whole.ends[-len(again.ends) :]
    assert again.bits() == wanted
    return whole, again


# 8 batches of 4 an epoch, the last of 2.
PLACES = {
    "middle": (12, 12), "between_two_of_an_accumulation": (11, 11), "one_batch_left": (15, 15), "last_batch": (16, 16),
    "after_the_epoch": ("after epoch 1", 16),
}  # fmt: skip
SAMPLERS = {"plain": {}, "seedable": {"seedable": True}, "own_generator": {"generator": True}}
STATEFUL = [False, pytest.param(True, marks=pytest.mark.skipif(not HAS_STATEFUL, reason="torchdata is not installed"))]


@pytest.mark.parametrize("stateful", STATEFUL, ids=["", "stateful"])
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("place", PLACES)
def test_a_resumed_run_ends_with_the_same_bits(place, sampler, stateful, tmp_path):
    _, again = whole_and_resumed(tmp_path, *PLACES[place], stateful=stateful, **SAMPLERS[sampler])
    assert again.ends[0][0] == (1 if place != "after_the_epoch" else 2)
    assert [path.name for path in tmp_path.iterdir()] == [FILE]  # no pickles


@pytest.mark.parametrize("stateful", STATEFUL, ids=["", "stateful"])
def test_workers(stateful, tmp_path):
    whole_and_resumed(tmp_path, 12, 12, stateful=stateful, workers=2, data=Plain())


def test_a_batch_size_that_divides_the_data(tmp_path):
    whole_and_resumed(tmp_path, 15, 15, size=3, accumulation=1)


@pytest.mark.skipif(not HAS_STATEFUL, reason="torchdata is not installed")
@pytest.mark.parametrize("place", ["middle", "last_batch", "after_the_epoch"])
def test_a_stream_with_a_state(place, tmp_path):
    whole_and_resumed(tmp_path, *PLACES[place], data=StreamWithState(), stateful=True, dispatch_batches=False)


def test_a_resume_of_a_resume(tmp_path):
    seed(0)
    whole = Run().train(10, tmp_path)
    seed(5)
    second = Run()
    second.accelerator.load_state(tmp_path)
    second.accelerator.save_state(tmp_path / "unchanged")  # before its first batch
    second.step = 10
    second.train(13, tmp_path, stop=13)
    for folder, step in ((tmp_path, 13), (tmp_path / "unchanged", 10)):
        seed(6)
        third = Run()
        third.accelerator.load_state(folder)
        third.step = step
        assert third.train().bits() == whole.bits()


def test_a_save_that_fails_leaves_the_old_file(tmp_path):
    run = Run()
    run.accelerator.save_state(tmp_path)
    before = (tmp_path / FILE).read_bytes()
    run.accelerator.register_for_checkpointing(type("Bad", (), {"state_dict": lambda _: {"f": print}, "load_state_dict": None})())
    with pytest.raises(espalier.Unsupported, match="custom/1/f"):
        run.accelerator.save_state(tmp_path)
    assert (tmp_path / FILE).read_bytes() == before and len(list(tmp_path.iterdir())) == 1


def test_names_and_limit(tmp_path):
    def project():
        return ProjectConfiguration(str(tmp_path), automatic_checkpoint_naming=True, total_limit=2)

    run = Run(project=project())
    for _ in range(3):
        run.accelerator.save_state()
    folder = tmp_path / "checkpoints"
    assert sorted(path.name for path in folder.iterdir()) == ["checkpoint_1", "checkpoint_2"]
    data = bytearray((folder / "checkpoint_2" / FILE).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / "checkpoint_2" / FILE).write_bytes(data)
    (folder / "checkpoint_9").mkdir()
    again = Run(project=project())
    with pytest.warns(espalier.DamagedCheckpoint) as told:
        again.accelerator.load_state()
    assert ["checkpoint_9 is passed over: it has no state.espalier" in str(told[0].message), "hash" in str(told[1].message)] == [True, True]
    assert again.accelerator.save_iteration == 2
    with pytest.raises(espalier.CheckpointExists, match=r"checkpoint_2: .*project_configuration\.iteration"):
        again.accelerator.save_state()
    with pytest.raises(espalier.Corrupt, match="hash"):
        again.accelerator.load_state(folder / "checkpoint_2")
    with pytest.raises(espalier.CheckpointNotFound, match="has no checkpoint"):
        Run(project=ProjectConfiguration(str(tmp_path / "none"), automatic_checkpoint_naming=True)).accelerator.load_state()


def test_what_is_missing_is_told(tmp_path):
    run = Run()
    with pytest.raises(espalier.EspalierError, match="needs a folder"):
        run.accelerator.load_state()
    with pytest.raises(espalier.EspalierError, match="needs a folder"):
        run.accelerator.save_state()
    for use in (run.accelerator.save_state, run.accelerator.load_state):
        with pytest.raises(espalier.EspalierError, match="takes files, and s3://bucket/run is a URL"):
            use("s3://bucket/run")
    with pytest.raises(espalier.CheckpointNotFound, match=r"none does not exist: no state\.espalier"):
        run.accelerator.load_state(tmp_path / "none")
    with pytest.raises(espalier.CheckpointNotFound, match=r"has no state\.espalier"):
        run.accelerator.load_state(tmp_path)
    with pytest.raises(espalier.EspalierError, match="asks for pickle"):
        run.accelerator.save_state(tmp_path, safe_serialization=False)
    run.accelerator.save_state(tmp_path)
    with pytest.raises(espalier.EspalierError, match="takes no strict"):
        run.accelerator.load_state(tmp_path, strict=False)
    state = espalier.load(tmp_path / FILE)
    state["run"]["format"] = 2
    espalier.save(tmp_path / "later.espalier", state)
    with pytest.raises(espalier.Unsupported, match="later version"):
        run.accelerator.load_state(tmp_path / "later.espalier")


def test_a_folder_of_accelerate_itself_is_loaded(tmp_path):
    seed(0)
    plain = Run(accelerate.Accelerator).train(saves=4, folder=tmp_path, stop=4)
    again = Run()
    again.accelerator.load_state(str(tmp_path))
    for mine, its in zip(again.model.parameters(), plain.model.parameters(), strict=True):
        assert torch.equal(mine, its)
    again.accelerator.save_state(tmp_path)
    with pytest.warns(UserWarning, match="files of accelerate itself beside"):
        again.accelerator.load_state(tmp_path)


def test_hooks_run(tmp_path):
    run, told = Run(), []

    def keeps_it_itself(models, weights, folder):
        told.append((len(models), list(weights[0])[0], folder))
        torch.save(weights.pop(), pathlib.Path(folder) / "own.pt")

    def loads_it_itself(models, folder):
        models.pop().load_state_dict(torch.load(pathlib.Path(folder) / "own.pt"))

    saving = run.accelerator.register_save_state_pre_hook(keeps_it_itself)
    run.accelerator.save_state(tmp_path)
    saving.remove()
    assert told == [(1, "0.weight", str(tmp_path))] and espalier.load(tmp_path / FILE, at="models") == {}
    again = Run()
    with pytest.raises(espalier.EspalierError, match=r"has 0 models, and this program has 1 model \(Sequential\)"):
        again.accelerator.load_state(tmp_path)
    again.accelerator.register_load_state_pre_hook(loads_it_itself)
    again.accelerator.load_state(tmp_path)
    assert torch.equal(again.model[0].weight, run.model[0].weight)


def test_another_program_is_an_error_or_a_warning(tmp_path):
    seed(0)
    Run().train(5, tmp_path, stop=5)
    with pytest.raises(espalier.EspalierError, match=r"has 1 registered object \(Ema\), and this program has 2 registered objects"):
        Run(objects=2).accelerator.load_state(tmp_path)
    with pytest.raises(espalier.TreeMismatch, match="models/0/0.weight"):
        Run(hidden=9).accelerator.load_state(tmp_path)
    for change, message in (
        ({"size": 3}, "batch size of all processes of dataloader 0 was 4 and is 3"),
        ({"data": Data(20)}, "length of the data of dataloader 0 was 30 and is 20"),
        ({"seedable": True}, "use_seedable_sampler was False and is True"),
        ({"accumulation": 1}, "gradient_accumulation_steps was 2 and is 1"),
        ({"even_batches": False}, "even_batches was True and is False"),
    ):
        with pytest.raises(espalier.EspalierError, match=f"{message}.*restart_data=True"):
            Run(**change).accelerator.load_state(tmp_path)
        run = Run(**change)
        with pytest.warns(UserWarning, match=message):
            run.accelerator.load_state(tmp_path, restart_data=True)
        assert len(run.train(epochs=1).losses) == len(run.loader)  # all of the epoch
    run = Run()
    run.accelerator.scaler = torch.amp.GradScaler("cpu")
    with pytest.warns(UserWarning, match="this program has a scaler of gradients, and the file has none"):
        run.accelerator.load_state(tmp_path)
    run = Run()
    run.accelerator._schedulers[0].scheduler = torch.optim.lr_scheduler.ExponentialLR(run.optimizer.optimizer, 0.9)
    with pytest.warns(UserWarning, match="scheduler 0 was StepLR and is ExponentialLR"):
        run.accelerator.load_state(tmp_path)


def test_the_scaler_keeps_its_scale(tmp_path):
    run, again = Run(), Run()
    run.accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    run.accelerator.scaler.scale(torch.ones(1))
    run.accelerator.scaler.update(4.0)
    run.accelerator.save_state(tmp_path)
    again.accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    again.accelerator.load_state(tmp_path)
    assert again.accelerator.scaler.get_scale() == 4.0


def test_another_epoch_or_a_second_skip_is_an_error(tmp_path):
    Run().train(10, tmp_path, stop=10)
    run = Run()
    run.accelerator.load_state(tmp_path)
    with pytest.raises(espalier.EspalierError, match="would skip twice"):
        run.accelerator.skip_first_batches(run.loader, 2)
    run.loader.set_epoch(0)
    with pytest.raises(espalier.EspalierError, match=r"into epoch 1, and set_epoch\(0\)"):
        next(iter(run.loader))


def test_a_loop_that_was_left_begins_anew(tmp_path):
    run = Run()
    run.train(stop=3)
    with pytest.warns(UserWarning, match="dataloader 0 was left after 3 batches"):
        run.accelerator.save_state(tmp_path)
    seed(9)
    run.accelerator.load_state(tmp_path)
    assert len(run.train(epochs=1).ends) == 1 and run.step == 3 + 8


def test_a_break_at_an_epochs_end(tmp_path):
    run = Run()
    for _ in run.loader:
        if run.loader.end_of_dataloader:
            break
    with pytest.warns(UserWarning, match="dataloader 0 was left after 8 batches"):
        run.accelerator.save_state(tmp_path)
    run.train(epochs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        run.accelerator.save_state(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data": Stream()}, "dispatch_batches"),
        ({"data": Stream(), "dispatch_batches": False}, "an IterableDataset without a state"),
        ({"dispatch_batches": True}, "dispatch_batches"),
    ],
)
def test_what_no_resume_repeats_is_refused_in_an_epoch(options, message, tmp_path):
    with pytest.raises(espalier.Unsupported, match=f"dataloader 0 is in the middle of an epoch.*{message}.*after the epoch's end"):
        Run(**options).train(3, tmp_path)
    if options.get("dispatch_batches") is not True:
        whole_and_resumed(tmp_path, "after epoch 1", 16, **options)


@pytest.mark.parametrize("name", ["FSDP", "DEEPSPEED", "MEGATRON_LM"])
def test_sharded_training_is_refused(name, monkeypatch):
    kind = getattr(accelerate.utils.DistributedType, name)
    with monkeypatch.context() as other, pytest.raises(espalier.Unsupported, match="does not go with .*: (use|save)"):
        other.setattr(accelerate.Accelerator, "distributed_type", kind)
        Run()


def test_a_mixin_and_options(tmp_path):
    class Own(EspalierMixin, accelerate.Accelerator):
        save_options = {"compression": 1, "metadata": {"made": "here"}}

    Run(Own).accelerator.save_state(tmp_path)
    with espalier.open(tmp_path / FILE) as file:
        assert file.metadata == {"made": "here"}


def worker(rank, folder, port):
    """One of two processes."""
    import os

    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo",
        ACCELERATE_USE_CPU="true",
    )  # fmt: skip
    torch.set_num_threads(1)
    folder, equal = pathlib.Path(folder), {}
    # 4 batches of 4 an epoch in each process
    for name, saves, options in (
        ("middle", 6, {}), ("accumulating", 5, {}), ("seedable", 6, {"seedable": True}), ("last_batch", 8, {}),
        *([("stateful", 6, {"stateful": True})] if HAS_STATEFUL else []),
    ):  # fmt: skip
        try:
            whole_and_resumed(folder / name, saves, saves, **options)
            equal[name] = True
        except AssertionError:
            equal[name] = False
    error = ""
    run = Run()
    if rank == 0:
        (folder / "unwritable" / FILE).mkdir(parents=True)
    run.accelerator.wait_for_everyone()
    try:
        run.accelerator.save_state(folder / "unwritable")
    except espalier.EspalierError as caught:
        error = type(caught).__name__
    (folder / f"{rank}.json").write_text(json.dumps([equal, error]))
    torch.distributed.destroy_process_group()


def test_two_processes(tmp_path):
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = [sys.executable, "-W", "ignore", __file__]
    processes = [subprocess.Popen([*program, str(rank), str(tmp_path), str(port)]) for rank in range(2)]
    try:
        assert [process.wait(200) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
    for rank in range(2):
        equal, error = json.loads((tmp_path / f"{rank}.json").read_text())
        assert len(equal) == 4 + HAS_STATEFUL and set(equal.values()) == {True}, equal
        assert error
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(espalier.EspalierError, match="number of processes was 2 and is 1"):
            Run().accelerator.load_state(tmp_path / "middle")
        Run().accelerator.load_state(tmp_path / "middle", restart_data=True)
    assert [each for each in told if "number of processes was 2 and is 1" in str(each.message)]


if __name__ == "__main__":
    worker(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
