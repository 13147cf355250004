"""Lightning with Espalier files: all that Lightning keeps comes back, and a resumed run ends with the same bits."""

import io
import random

import espalier
import espalier.lightning
import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")
import lightning.pytorch as lightning  # noqa: E402
from espalier.lightning import EspalierIO, RandomState  # noqa: E402
from lightning.fabric.plugins.io import TorchCheckpointIO  # noqa: E402
from lightning.fabric.utilities import cloud_io  # noqa: E402
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint  # noqa: E402
from lightning.pytorch.core import saving  # noqa: E402
from lightning.pytorch.plugins import MixedPrecision  # noqa: E402
from torch import nn  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of the frameworks


class Crash(Exception):
    pass


class Crashing(lightning.Callback):
    def __init__(self, at):
        self.at = at

    def on_train_batch_end(self, trainer, *_):
        if trainer.global_step == self.at:
            raise Crash


class Model(lightning.LightningModule):
    def __init__(self, hidden=16, names=("a", "b")):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(8, hidden), nn.Dropout(0.2), nn.Linear(hidden, 1))

    def training_step(self, batch, batch_idx):
        loss = ((self.net(batch[0]) - batch[1]) ** 2).mean() + float(np.random.random()) + random.random()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), 1e-2)
        return [optimizer], [{"scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 5), "interval": "step"}]

    def on_save_checkpoint(self, checkpoint):
        checkpoint["own"] = {"x": (1, 2), 3: torch.ones(2)}


class Resumable:
    """A shuffling loader whose position is part of a checkpoint, as a StatefulDataLoader of torchdata is."""

    def __init__(self, data, size):
        self.data, self.size, self.begun, self.done, self.resumed = data, size, None, 0, None

    def __len__(self):
        return len(self.data) // self.size

    def __iter__(self):
        resumed, self.resumed = self.resumed, None
        self.begun, skipped = resumed or (int(torch.randint(2**31, ())), 0)
        order = torch.randperm(len(self.data), generator=torch.Generator().manual_seed(self.begun))
        for self.done in range(skipped + 1, len(self) + 1):
            yield self.data[order[(self.done - 1) * self.size : self.done * self.size]]

    def state_dict(self):
        return {"begun": self.begun, "done": self.done}

    def load_state_dict(self, state):
        self.resumed = state["begun"], state["done"]


def loader(is_resumable):
    generator = torch.Generator().manual_seed(1)
    data = torch.utils.data.TensorDataset(
        torch.randn(64, 8, generator=generator), torch.randn(64, 1, generator=generator)
    )
    return Resumable(data, 4) if is_resumable else torch.utils.data.DataLoader(data, 4, shuffle=True)


def fit(folder, saves, cut=None, path=None, is_resumable=False, io=None, **options):
    """Three epochs of 8 steps, of two batches each."""
    lightning.seed_everything(99 if path else 0, verbose=False)
    if path:
        random.seed(5)
    stopping = EarlyStopping("loss", patience=99, mode="max", min_delta=99, check_on_train_epoch_end=True)
    checkpoints = ModelCheckpoint(folder, save_top_k=-1, filename="{step}", **saves)
    options = {
        "max_epochs": 3, "accumulate_grad_batches": 2, "callbacks": [checkpoints, stopping, RandomState(), Crashing(cut)],
        "plugins": [io or EspalierIO()], "logger": False, "enable_progress_bar": False, "enable_model_summary": False,
        "accelerator": "cpu", **options,
    }  # fmt: skip
    trainer, model = lightning.Trainer(**options), Model()
    trainer.fit(model, loader(is_resumable), ckpt_path=path)
    return trainer, model, stopping


def bits(trainer, model, stopping):
    return espalier.save_bytes({
        "model": model, "optimizers": trainer.optimizers, "schedules": [each.scheduler for each in trainer.lr_scheduler_configs],
        "stopping": stopping.state_dict(), "precision": trainer.precision_plugin.state_dict(), "step": trainer.global_step,
        "epoch": trainer.current_epoch, "loop": trainer.fit_loop.epoch_loop.batch_progress.state_dict(),
        "rng": (random.getstate(), np.random.get_state(), torch.get_rng_state()),
    })  # fmt: skip


AT_EPOCHS_END = {"save_on_train_epoch_end": True}
IN_BETWEEN = {"every_n_train_steps": 5}


@pytest.mark.parametrize(
    ("saves", "is_resumable", "at", "cut"),
    [(AT_EPOCHS_END, False, 16, 20), (IN_BETWEEN, True, 10, 12)],
    ids=["epochs_end", "in_between"],
)
@pytest.mark.parametrize("background", [True, False])
def test_a_resumed_run_ends_with_the_same_bits(saves, is_resumable, at, cut, background, tmp_path):
    whole = fit(tmp_path / "whole", saves, is_resumable=is_resumable)
    wanted = bits(*whole)
    with pytest.raises(Crash):
        fit(tmp_path / "cut", saves, cut, is_resumable=is_resumable, io=EspalierIO(background=background))
    path = tmp_path / f"cut/step={at}.ckpt"
    with espalier.open(path) as file:
        assert file.verify().has_hashes
    again = fit(tmp_path / "cut", saves, path=path, is_resumable=is_resumable)
    assert again[2].wait_count == whole[2].wait_count == 2
    assert bits(*again) == wanted


def scaled():
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3)
    return {"plugins": [EspalierIO(), MixedPrecision("16-mixed", "cpu", scaler)]}


def test_the_scaler_keeps_its_scale(tmp_path):
    whole = fit(tmp_path / "whole", AT_EPOCHS_END, **scaled())
    wanted = bits(*whole)
    with pytest.raises(Crash):
        fit(tmp_path / "cut", AT_EPOCHS_END, 20, **scaled())
    again = fit(tmp_path / "cut", AT_EPOCHS_END, path=tmp_path / "cut/step=16.ckpt", **scaled())
    assert again[0].precision_plugin.scaler.get_scale() == 8.0 * 2**8
    assert bits(*again) == wanted


def test_what_a_program_adds_is_there(tmp_path):
    trainer, _, _ = fit(tmp_path, AT_EPOCHS_END)
    state = EspalierIO().load_checkpoint(tmp_path / "step=8.ckpt")
    assert state["own"]["x"] == (1, 2) and torch.equal(state["own"][3], torch.ones(2))
    assert state["hyper_parameters"] == {"hidden": 16, "names": ("a", "b")} and state["epoch"] == 0
    assert list(state["callbacks"])  # of ModelCheckpoint, EarlyStopping and RandomState
    trainer.strategy.remove_checkpoint(tmp_path / "step=8.ckpt")
    assert not (tmp_path / "step=8.ckpt").exists()


def test_a_checkpoint_that_torch_wrote_is_resumed_by_torch(tmp_path, monkeypatch):
    options = {"callbacks": [ModelCheckpoint(tmp_path, save_top_k=-1, filename="{step}")], "plugins": []}
    fit(tmp_path, {}, **options)
    assert (tmp_path / "step=16.ckpt").read_bytes()[:2] == b"PK"
    loaded, plain = [], TorchCheckpointIO.load_checkpoint
    monkeypatch.setattr(TorchCheckpointIO, "load_checkpoint", lambda *each: loaded.append(each[1]) or plain(*each))
    trainer, _, _ = fit(tmp_path / "again", AT_EPOCHS_END, path=tmp_path / "step=16.ckpt")
    assert trainer.global_step == 24 and loaded == [str(tmp_path / "step=16.ckpt")]


def parts(folder, cut, io, is_there=True):
    """Options of fit() for a checkpoint at each epoch's end, with or without EspalierIO and RandomState."""
    callbacks = [ModelCheckpoint(folder, save_top_k=-1, filename="{step}", **AT_EPOCHS_END), *[RandomState()] * is_there, Crashing(cut)]
    return {"callbacks": callbacks, "plugins": [EspalierIO()] * io}


def end(trainer, model, _):
    return espalier.save_bytes({"model": model, "rng": (random.getstate(), np.random.get_state(), torch.get_rng_state())})


def test_random_states_that_torch_saved_are_resumed(tmp_path, monkeypatch):
    wanted = end(*fit(tmp_path, {}, **parts(tmp_path / "whole", None, True)))
    with pytest.raises(Crash):
        fit(tmp_path, {}, **parts(tmp_path / "cut", 20, False))
    path = tmp_path / "cut/step=16.ckpt"
    assert path.read_bytes()[:2] == b"PK"
    for io in (True, False):
        assert end(*fit(tmp_path, {}, path=path, **parts(tmp_path / "again", None, io))) == wanted
    # As it was saved before: with an array of numpy.
    state = torch.load(path, weights_only=True)
    for rank in state["callbacks"]["RandomState"]["ranks"]:
        name, keys, *rest = rank["numpy"]
        rank["numpy"] = (name, np.asarray(keys).astype(np.uint32), *rest)
    torch.save(state, path)
    assert end(*fit(tmp_path, {}, path=path, **parts(tmp_path / "again", None, True))) == wanted


class Evil:
    def __reduce__(self):
        return (print, ("this was run",))


def test_what_torch_does_not_load_safely_is_named(tmp_path, capsys):
    path = tmp_path / "a.ckpt"
    torch.save({"own": Evil()}, path)
    with pytest.raises(espalier.EspalierError, match=r"a\.ckpt: torch .*weights_only=False"):
        EspalierIO().load_checkpoint(path)
    assert not capsys.readouterr().out


def test_a_device_s_random_numbers_are_those_of_before_too(tmp_path, monkeypatch):
    with pytest.raises(Crash):
        fit(tmp_path, {}, **parts(tmp_path, 9, True))
    path = tmp_path / "step=8.ckpt"
    state = espalier.load(path, framework="torch")
    [mine] = state["callbacks"]["RandomState"]["ranks"]
    mine.pop("device", None)
    mine["cuda"] = torch.arange(16, dtype=torch.uint8)
    espalier.save(path, state)
    given = []
    monkeypatch.setattr(espalier.lightning, "set_random_state", given.append)
    with pytest.raises(Crash):
        fit(tmp_path, {}, path=path, **parts(tmp_path, 9, True))
    [[device]] = [each["device"] for each in given]
    assert torch.equal(device, mine["cuda"])


class Data(lightning.LightningDataModule):
    def __init__(self, conf):
        super().__init__()
        self.save_hyperparameters(conf)
        self.seen = 0

    def train_dataloader(self):
        return loader(False)

    def state_dict(self):
        return {"seen": 7}

    def load_state_dict(self, state):
        self.seen = state["seen"]


class Larger(Model):
    def __init__(self, **options):
        super().__init__(**options)
        self.more = nn.Linear(2, 2)


@pytest.fixture
def unpatched(monkeypatch):
    monkeypatch.setattr(saving, "pl_load", cloud_io._load)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """The model, and a folder with its checkpoint as EspalierIO saves it, and as Lightning does."""
    folder = tmp_path_factory.mktemp("fitted")
    for name, plugins in {"ours": [EspalierIO()], "theirs": []}.items():
        lightning.seed_everything(0, verbose=False)
        model = Model(hidden=5, names=("c",))
        options = {"logger": False, "accelerator": "cpu", "enable_progress_bar": False, "enable_model_summary": False}
        options = {**options, "max_steps": 1, "callbacks": [RandomState()], "enable_checkpointing": False}
        trainer = lightning.Trainer(plugins=plugins, **options)
        trainer.fit(model, datamodule=Data({"rows": 3}))
        trainer.save_checkpoint(folder / f"{name}.ckpt")
        trainer.strategy.checkpoint_io.teardown()
    return model, folder


def same(model, other):
    state, wanted = model.state_dict(), other.state_dict()
    return state.keys() == wanted.keys() and all(torch.equal(state[name], wanted[name]) for name in state)


def test_load_from_checkpoint(fitted, unpatched):
    model, folder = fitted
    path = folder / "ours.ckpt"
    with pytest.raises(Exception, match="invalid load key"):
        Model.load_from_checkpoint(path, weights_only=False)
    espalier.lightning.patch()
    patched = saving.pl_load
    espalier.lightning.patch()
    assert saving.pl_load is patched
    url = "memory://fitted/ours.ckpt"
    espalier.save(url, espalier.load(path, framework="torch"))
    with open(path, "rb") as opened:
        opened.read(8)
        whole = io.BytesIO(opened.read(8) + path.read_bytes())
        whole.seek(8)
        opened.seek(0)
        for source in (path, str(path), opened, whole, url):
            loaded = Model.load_from_checkpoint(source)
            assert loaded.hparams == {"hidden": 5, "names": ("c",)} and loaded.net[0].out_features == 5
            assert same(loaded, model)
    assert Model.load_from_checkpoint(path, names=1, weights_only=True).hparams == {"hidden": 5, "names": 1}
    with pytest.raises(RuntimeError, match="size mismatch"):
        Model.load_from_checkpoint(path, hidden=6)
    with pytest.raises(RuntimeError, match=r"more\.weight"):
        Larger.load_from_checkpoint(path)
    assert torch.equal(Larger.load_from_checkpoint(path, strict=False).net[0].weight, model.net[0].weight)
    data = Data.load_from_checkpoint(path)
    assert data.hparams == {"rows": 3} and data.seen == 7
    with pytest.raises(espalier.EspalierError, match=r"list\.ckpt: this is no checkpoint of Lightning's"):
        espalier.save(folder / "list.ckpt", [1])
        Model.load_from_checkpoint(folder / "list.ckpt")


def test_what_torch_saved_is_loaded_by_torch_as_before(fitted, monkeypatch):
    model, folder = fitted
    by_torch, plain = [], torch.load
    monkeypatch.setattr(torch, "load", lambda *each, **options: by_torch.append(each) or plain(*each, **options))
    monkeypatch.setattr(saving, "pl_load", cloud_io._load)
    path, old, url = folder / "theirs.ckpt", folder / "old.ckpt", "memory://fitted/theirs.ckpt"
    torch.save(plain(path, weights_only=True), old, _use_new_zipfile_serialization=False)
    cloud_io._atomic_save(plain(path, weights_only=True), url)
    espalier.lightning.patch()
    for source in (path, old, io.BytesIO(path.read_bytes()), url):
        loaded = Model.load_from_checkpoint(source, map_location="cpu", weights_only=True)
        assert same(loaded, model) and loaded.hparams == {"hidden": 5, "names": ("c",)} and by_torch.pop()
    for source in (old, url):
        assert EspalierIO().load_checkpoint(source)["hyper_parameters"] == {"hidden": 5, "names": ("c",)} and by_torch.pop()
    evil = folder / "evil.ckpt"
    torch.save({"own": Evil()}, evil)
    with pytest.raises(Exception, match="Weights only load failed"):
        Model.load_from_checkpoint(evil, weights_only=True)


def test_map_location_means_what_it_does_for_torch(tmp_path):
    one = torch.ones(3)
    torch.save({"a": [one, 2], "b": one}, tmp_path / "theirs.ckpt")
    espalier.save(tmp_path / "ours.ckpt", {"a": [one, 2], "b": one})
    called = []

    def note(storage, location):
        called.append((type(storage), storage.nbytes(), location))

    places = [None, "cpu", "meta", torch.device("meta"), {"cpu": "meta"}, {"cuda:0": "cpu"}, note, lambda storage, _: storage]
    for place in places:
        states = [EspalierIO().load_checkpoint(tmp_path / name, place) for name in ("ours.ckpt", "theirs.ckpt")]
        devices = [[state["a"][0].device.type, state["b"].device.type] for state in states]
        assert devices[0] == devices[1], place
        assert states[0]["a"][1] == 2
    assert called[0] == called[-1] == (torch.UntypedStorage, 12, "cpu")
    moved = EspalierIO().load_checkpoint(tmp_path / "ours.ckpt", "meta")
    assert moved["a"][0] is moved["b"]
    moved = EspalierIO().load_checkpoint(tmp_path / "ours.ckpt", lambda _, __: torch.UntypedStorage(12, device="meta"))
    assert moved["b"].device.type == "meta"


def test_a_lightning_without_what_patch_replaces_is_refused(monkeypatch):
    monkeypatch.delattr(saving, "pl_load")
    with pytest.raises(espalier.Unsupported, match="pl_load"):
        espalier.lightning.patch()


def test_a_checkpoint_without_random_state_is_named(tmp_path):
    for io in (True, False):
        with pytest.raises(Crash):
            fit(tmp_path, {}, **parts(tmp_path / str(io), 9, io, False))
        path = tmp_path / str(io) / "step=8.ckpt"
        with pytest.warns(UserWarning, match="has no state of RandomState.*other random numbers"), pytest.raises(Crash):
            fit(tmp_path, {}, path=path, **parts(tmp_path / "again", 9, io))


def test_fewer_processes_than_now_are_named(tmp_path):
    with pytest.raises(Crash):
        fit(tmp_path, {}, **parts(tmp_path, 9, True))
    path = tmp_path / "step=8.ckpt"
    state = espalier.load(path, framework="torch")
    state["callbacks"]["RandomState"]["ranks"] = []
    espalier.save(path, state)
    with pytest.warns(UserWarning, match="saved by 0 processes, and this is process 0 of 1"), pytest.raises(Crash):
        fit(tmp_path, {}, path=path, **parts(tmp_path, 9, True))


def test_only_fit_sets_the_random_state(tmp_path):
    class Noting(lightning.Callback):
        def on_train_start(self, *_):
            assert random.getstate() == wanted
            raise Crash

    with pytest.raises(Crash):
        fit(tmp_path, {}, **parts(tmp_path, 9, True))
    options = {"logger": False, "accelerator": "cpu", "enable_progress_bar": False, "enable_model_summary": False}
    trainer, model = lightning.Trainer(callbacks=[RandomState(), Noting()], plugins=[EspalierIO()], **options), Model()
    model.predict_step = lambda batch, batch_idx: batch[0]
    trainer.predict(model, loader(False), ckpt_path=tmp_path / "step=8.ckpt")
    random.seed(5)
    wanted = random.getstate()
    with pytest.raises(Crash):
        trainer.fit(model, loader(False))


def test_a_strategy_that_loads_late_gets_the_random_state(tmp_path):
    class Late(lightning.strategies.SingleDeviceStrategy):
        """As those of FSDP and DeepSpeed do."""

        restore_checkpoint_after_setup = True

    wanted = end(*fit(tmp_path, {}, **parts(tmp_path / "whole", None, True)))
    with pytest.raises(Crash):
        fit(tmp_path, {}, **parts(tmp_path / "cut", 20, True))
    path = tmp_path / "cut/step=16.ckpt"
    assert end(*fit(tmp_path, {}, path=path, strategy=Late("cpu"), **parts(tmp_path / "again", None, True))) == wanted


def test_errors_of_a_save_in_the_background_are_raised(tmp_path):
    io = EspalierIO()
    io.save_checkpoint({"a": torch.ones(3)}, tmp_path / "a.ckpt")
    (tmp_path / "folder.ckpt").mkdir()
    io.save_checkpoint({"a": torch.ones(3)}, tmp_path / "folder.ckpt")
    with pytest.raises(espalier.CheckpointOSError, match=r"folder\.ckpt"):
        io.teardown()
    assert io.load_checkpoint(tmp_path / "a.ckpt")["a"].sum() == 3
    with pytest.raises(espalier.Unsupported, match=r"^own/0"):
        io.save_checkpoint({"own": [object()]}, tmp_path / "b.ckpt")
    with pytest.raises(espalier.EspalierError, match="storage_options"):
        io.save_checkpoint({}, tmp_path / "b.ckpt", storage_options={})
    espalier.save(tmp_path / "list.espalier", [1])
    with pytest.raises(espalier.EspalierError, match="no checkpoint of Lightning's"):
        io.load_checkpoint(tmp_path / "list.espalier")
