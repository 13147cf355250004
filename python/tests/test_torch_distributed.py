"""torch.distributed.checkpoint with our files: saved by four processes, loaded by two and by one."""

import pathlib
import shutil
import subprocess
import sys
import warnings

import espalier
import pytest

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
from espalier.torch import EspalierReader, EspalierWriter  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.checkpoint.api import CheckpointException  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own


def full_state():
    """What all processes together have."""
    torch.manual_seed(3)
    weights = {
        "uneven": torch.randn(10, 7), "columns": torch.randn(3, 16).bfloat16(), "replicated": torch.randn(5),
        "few": torch.arange(3), "scalar": torch.tensor(2.5), "large": torch.randn(700, 1000), "aligned": torch.randn(8, 1 << 18), "wide": torch.randn(4, 1 << 19),
    }  # fmt: skip
    return {"model": weights, "step": 7, "betas": (0.9, 0.999), "history": [{"loss": 1.5}, torch.ones(2)]}


def sharded(state, mesh):
    """The same with DTensors."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    placements = {
        "uneven": [Shard(0)], "columns": [Shard(1)], "replicated": [Replicate()], "large": [Shard(0)], "aligned": [Shard(0)],
        "wide": [Shard(1)],
    }  # fmt: skip
    model = {
        name: distribute_tensor(value, mesh, placements[name]) if name in placements else value
        for name, value in state["model"].items()
    }
    return {**state, "model": model}


def empty(state):
    return torch.utils._pytree.tree_map(lambda v: torch.zeros_like(v) if isinstance(v, torch.Tensor) else type(v)(), state)


def check(state):
    for name, value in full_state()["model"].items():
        found = state["model"][name]
        found = found.full_tensor() if hasattr(found, "full_tensor") else found
        assert torch.equal(found, value), name
    assert state["step"] == 7 and state["betas"] == (0.9, 0.999) and state["history"][0] == {"loss": 1.5}
    assert torch.equal(state["history"][1], torch.ones(2))


def worker(task, rank, world, folder):
    """What one of the processes does."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/{task}.store", rank=rank, world_size=world)
    mesh = dist.device_mesh.init_device_mesh("cpu", (world,))
    target = pathlib.Path(folder) / "checkpoint"
    if task == "save":
        old = sharded(torch.utils._pytree.tree_map(lambda v: v + 1 if isinstance(v, torch.Tensor) else v, full_state()), mesh)
        dcp.save(old, storage_writer=EspalierWriter(target))
        dcp.save(sharded(full_state(), mesh), storage_writer=EspalierWriter(target, compression=1))
        dcp.save(sharded(full_state(), mesh), checkpoint_id=str(target) + ".torch")
    else:
        state = sharded(empty(full_state()), mesh)
        dcp.load(state, storage_reader=EspalierReader(target))
        check(state)
    dist.destroy_process_group()


def run(task, world, folder):
    processes = [
        subprocess.Popen([sys.executable, "-W", "ignore", __file__, task, str(rank), str(world), str(folder)])
        for rank in range(world)
    ]
    assert [process.wait(300) for process in processes] == [0] * world


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("distributed")
    run("save", 4, folder)
    return folder


def load(folder, state=None):
    state = empty(full_state()) if state is None else state
    dcp.load(state, storage_reader=EspalierReader(folder), no_dist=True)
    return state


def test_four_processes_save_and_two_load(saved):
    run("load", 2, saved)


def test_four_processes_save_and_one_loads(saved):
    check(load(saved / "checkpoint"))


def test_a_folder_has_one_checkpoint_whose_every_byte_is_hashed(saved):
    names = sorted(path.name for path in (saved / "checkpoint").iterdir())
    assert [name.split(".")[0] for name in names] == ["index", "rank_0", "rank_1", "rank_2", "rank_3"]
    for path in (saved / "checkpoint").iterdir():
        with espalier.open(path) as file:
            assert file.verify().has_hashes
    with espalier.open(saved / "checkpoint" / names[1]) as file:
        assert file["model.large"][0]["offsets"].load() == (0, 0)
        assert file["model.large"][0]["data"].shape == (175, 1000)


def test_torch_s_own_reader_gives_the_same(saved):
    state = empty(full_state())
    dcp.load(state, checkpoint_id=str(saved) + "/checkpoint.torch", no_dist=True)
    check(state)


@pytest.fixture
def copy(saved, tmp_path):
    return pathlib.Path(shutil.copytree(saved / "checkpoint", tmp_path / "copy"))


def test_files_of_two_saves_are_not_mixed(copy):
    names = sorted(path.name for path in copy.iterdir())
    shutil.copy(copy / names[1], copy / names[2])
    with pytest.raises(CheckpointException, match="this is not the file that the index is of"):
        load(copy)


def test_damage_is_found(copy):
    path = sorted(copy.iterdir())[1]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointException, match="hash"):
        load(copy)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda i: i.update(files={"../../etc/passwd": "0"}), "is no name of a file of a process"),
        (lambda i: i.update(version=3), "this version reads index versions 1 and 2 alone"),
        (lambda i: i["tensors"]["model.few"].update(dtype="torch.load"), "is no dtype"),
        (lambda i: i["tensors"]["model.few"].update(size=("a",)), "this is no index"),
        (lambda i: i["places"][0].update(file="other"), "this is no index"),
        (lambda i: i["tensors"]["model.large"].update(chunks=[]), "the parts do not make up a tensor of"),
        (lambda i: i["tensors"]["model.large"]["chunks"].pop(), "the parts do not make up a tensor of"),
        (lambda i: i["tensors"]["model.few"].update(chunks=[((0,), (2**62,))]), "is not inside of a tensor"),
        (lambda i: i["places"].pop(), "has a part without a place"),
        (lambda i: i.update(version=[1]), "this version reads"),
        (lambda i: i.pop("places"), "this is no index"),
    ],
)
def test_an_index_from_a_stranger_is_checked(copy, change, message):
    with espalier.open(copy / "index.espalier") as file:
        metadata = file.metadata
    change(metadata["index"])
    espalier.save(copy / "index.espalier", {}, metadata=metadata)
    with pytest.raises(CheckpointException, match=message):
        load(copy)


def test_an_index_of_version_1_is_read(copy):
    with espalier.open(copy / "index.espalier") as file:
        index = file.metadata["index"]
    for each in index["tensors"].values():
        each["dtype"] = getattr(torch, each["dtype"].removeprefix("torch."))
    espalier.save(copy / "index.espalier", {**index, "version": 1}, metadata={"format": "torch.distributed.checkpoint"})
    check(load(copy))


def check_whole(state):
    check(state)
    wanted = full_state()
    assert list(state) == list(wanted) and set(state["model"]) == set(wanted["model"])
    assert type(state["history"]) is list and type(state["betas"]) is tuple
    assert all(state["model"][name].dtype == value.dtype for name, value in wanted["model"].items())


def test_the_folder_opens_as_the_state_that_was_saved(saved):
    check_whole(espalier.load(saved / "checkpoint", framework="torch"))
    check_whole(espalier.load(saved / "checkpoint/index.espalier", framework="torch"))
    template = {**full_state(), "step": 0}
    check_whole(espalier.load(saved / "checkpoint", like=template))
    assert espalier.load(saved / "checkpoint", at="history/0/loss") == 1.5
    with espalier.open(saved / "checkpoint") as file:
        assert file.verify().has_hashes
        assert (file["model"]["wide"][1:3, 5:7] == full_state()["model"]["wide"][1:3, 5:7].numpy()).all()


def test_parts_that_are_chunks_of_the_whole_are_stored_once(saved):
    size = (saved / "checkpoint/index.espalier").stat().st_size
    copied = sum(full_state()["model"][name].nbytes for name in ("uneven", "columns", "large", "wide"))
    assert copied * 0.8 < size < copied + 100_000  # and not "aligned", of 8 MiB


@pytest.mark.parametrize("compression", [0, 1])
def test_states_of_many_kinds(compression, tmp_path):
    state = {
        "model": nn.Linear(4, 3).state_dict(), "dotted.name": torch.ones(2), "zero": torch.zeros(0, 3), "flag": True,
        "tree": {"list": [torch.arange(3), {"x": None, "text": "a"}], "7": torch.tensor(1, dtype=torch.int8)},
        "f8": torch.ones(4).to(torch.float8_e4m3fn), "complex": torch.ones(2, dtype=torch.complex64), "path": pathlib.PurePosixPath("a"),
    }  # fmt: skip
    dcp.save(state, storage_writer=EspalierWriter(tmp_path, compression=compression), no_dist=True)
    loaded = espalier.load(tmp_path, framework="torch")
    assert torch.equal(loaded["model"]["weight"], state["model"]["weight"]) and loaded["zero"].shape == (0, 3)
    assert loaded["tree"]["list"][1] == {"x": None, "text": "a"} and loaded["flag"] is True
    assert torch.equal(loaded["tree"]["list"][0], torch.arange(3)) and loaded["tree"]["7"].dtype == torch.int8
    assert torch.equal(loaded["f8"].float(), torch.ones(4)) and loaded["complex"].dtype == torch.complex64
    assert torch.equal(loaded["dotted.name"], torch.ones(2))


def test_a_file_of_a_process_that_is_missing_is_named(copy):
    [path] = copy.glob("rank_2.*")
    path.unlink()
    assert espalier.load(copy, at="step") == 7
    with pytest.raises(espalier.EspalierError, match=path.name):
        espalier.load(copy, at="model/aligned")


def test_a_folder_of_torch_s_own_writer_is_read(saved):
    check(load(saved / "checkpoint.torch"))
    with pytest.raises(CheckpointException, match=r"index\.espalier"):
        load(saved)


def test_a_save_that_fails_leaves_the_old_checkpoint(copy, monkeypatch):
    class Failing(EspalierWriter):
        def finish(self, metadata, results):
            raise OSError("the coordinator dies here")

    with pytest.raises(CheckpointException, match="dies here"):
        dcp.save(empty(full_state()), storage_writer=Failing(copy), no_dist=True)
    check(load(copy))
    dcp.save({"w": torch.ones(3)}, storage_writer=EspalierWriter(copy), no_dist=True)
    assert len(list(copy.iterdir())) == 2


def save(folder, state, **options):
    dcp.save(state, storage_writer=EspalierWriter(folder), no_dist=True, **options)


def rank_files(folder):
    return {path.name for path in folder.glob("rank_*")}


def test_a_save_keeps_files_of_processes_that_others_of_the_folder_need(tmp_path):
    first, second = ({"w": torch.arange(1 << 18) + i, "b": torch.ones(3) * i} for i in range(2))
    save(tmp_path, first)
    [old] = rank_files(tmp_path)
    shutil.copy(tmp_path / "index.espalier", tmp_path / "before.espalier")
    espalier.save(tmp_path / "on-top.espalier", {**first, "step": 1}, base=tmp_path / "index.espalier")
    save(tmp_path, second)
    for name, wanted in {"before": first, "on-top": {**first, "step": 1}, "index": second}.items():
        with espalier.open(tmp_path / f"{name}.espalier") as file:
            assert file.verify().verdict == "ok"
            assert torch.equal(file.load(framework="torch")["w"], wanted["w"])
    (tmp_path / "before.espalier").unlink()
    save(tmp_path, second)
    assert old in rank_files(tmp_path) and len(rank_files(tmp_path)) == 2
    (tmp_path / "on-top.espalier").unlink()
    save(tmp_path, second)
    assert len(rank_files(tmp_path)) == 1


def test_an_index_that_others_of_the_folder_need_is_not_replaced(copy):
    wide = espalier.load(copy, at="model/wide")  # cut by columns, so in the index itself
    espalier.save(copy / "on-top.espalier", {"wide": wide}, base=copy / "index.espalier")
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    with pytest.raises(CheckpointException, match=r"index\.espalier: another file of the folder refers to it"):
        save(copy, {"w": torch.ones(3)})
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before


def test_nothing_is_removed_on_a_guess(tmp_path):
    class Failing(EspalierWriter):
        def finish(self, metadata, results):
            raise OSError("the coordinator dies here")

    with pytest.raises(CheckpointException, match="dies here"):
        dcp.save({"w": torch.ones(3)}, storage_writer=Failing(tmp_path), no_dist=True)
    [left] = rank_files(tmp_path)
    espalier.save(tmp_path / "a.espalier", {"w": torch.arange(1 << 18)})
    espalier.save(tmp_path / "b.espalier", {"w": torch.arange(1 << 18), "x": 1}, base=tmp_path / "a.espalier")
    content = bytearray((tmp_path / "b.espalier").read_bytes())
    content[-1] ^= 1  # of the index, which says what it refers to
    (tmp_path / "b.espalier").write_bytes(content)
    with pytest.warns(espalier.DamagedCheckpoint, match=r"b\.espalier.*nothing was removed"):
        save(tmp_path, {"w": torch.ones(4)})
    assert left in rank_files(tmp_path) and espalier.load(tmp_path)["w"].shape == (4,)
    with pytest.raises(CheckpointException, match=r"b\.espalier"):  # It may refer to the index, too.
        save(tmp_path, {"w": torch.ones(5)})
    assert espalier.load(tmp_path)["w"].shape == (4,)


def test_a_planner_that_keeps_its_plans_gets_new_files(tmp_path):
    class Planner(dcp.DefaultSavePlanner):
        """With a class of its own, whose plans no other test keeps."""

    class Failing(EspalierWriter):
        def finish(self, metadata, results):
            raise OSError("the coordinator dies here")

    for value in (1, 2):
        save(tmp_path, {"w": torch.full((3,), value)}, planner=Planner(enable_plan_caching=True))
        assert espalier.load(tmp_path)["w"].tolist() == [value] * 3
    with pytest.raises(CheckpointException, match="dies here"):
        dcp.save({"w": torch.zeros(3)}, storage_writer=Failing(tmp_path), no_dist=True, planner=Planner(enable_plan_caching=True))
    assert espalier.load(tmp_path)["w"].tolist() == [2] * 3


def test_a_folder_of_torch_s_own_writer_is_not_saved_to(tmp_path):
    dcp.save({"w": torch.ones(3)}, checkpoint_id=tmp_path, no_dist=True)
    with pytest.raises(CheckpointException, match=r"\.metadata"):
        save(tmp_path, {"w": torch.zeros(3)})
    assert espalier.load(tmp_path)["w"].tolist() == [1] * 3


def test_two_saves_end_one_after_the_other(tmp_path, monkeypatch):
    import fcntl
    import os

    from espalier import _core

    held = []

    def joined(*given):
        other = os.open(tmp_path, os.O_RDONLY)
        try:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held.append(True)
        os.close(other)
        return plain(*given)

    plain = _core.save_joined
    monkeypatch.setattr(_core, "save_joined", joined)
    save(tmp_path, {"w": torch.ones(3)})
    assert held == [True]

    class Late(EspalierWriter):
        """Another job saves between the writing of the files and the index."""

        def finish(self, metadata, results):
            save(tmp_path, {"w": torch.full((3,), 2.0)})
            super().finish(metadata, results)

    with pytest.raises(CheckpointException, match=r"rank_0\."):
        dcp.save({"w": torch.full((3,), 3.0)}, storage_writer=Late(tmp_path), no_dist=True)
    assert espalier.load(tmp_path)["w"].tolist() == [2] * 3


def test_live_objects_and_async_saves(tmp_path):
    def objects():
        model = nn.Linear(4, 3)
        return {"model": model, "optimizer": torch.optim.AdamW(model.parameters())}

    def states(live):
        return {name: value.state_dict() for name, value in live.items()}

    live = objects()
    live["model"](torch.ones(2, 4)).sum().backward()
    live["optimizer"].step()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
        dcp.async_save(states(live), storage_writer=EspalierWriter(tmp_path / "run")).result()
        dist.destroy_process_group()
    other = objects()
    loaded = torch.utils._pytree.tree_map(lambda v: torch.zeros_like(v) if torch.is_tensor(v) else v, states(live))
    load(tmp_path / "run", loaded)
    other["model"].load_state_dict(loaded["model"])
    other["optimizer"].load_state_dict(loaded["optimizer"])
    assert torch.equal(other["model"].weight, live["model"].weight)
    assert torch.equal(other["optimizer"].state_dict()["state"][0]["exp_avg"], states(live)["optimizer"]["state"][0]["exp_avg"])


def test_a_url_is_refused():
    with pytest.raises(espalier.Unsupported, match="this is a URL"):
        EspalierWriter("s3://bucket/run")


def test_a_file_is_told_its_reader(file):
    espalier.save(file, {"w": torch.ones(2)})
    with pytest.raises(espalier.Unsupported, match="FileReader reads it"):
        EspalierReader(file).read_metadata()


def test_a_folder_of_two_checkpoints_is_none_of_them(tmp_path):
    for name in ("index.espalier", ".metadata"):
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(espalier.EspalierError, match="two checkpoints"):
        EspalierReader(tmp_path).read_metadata()
    with pytest.raises(espalier.EspalierError, match="two checkpoints"):
        espalier.load(tmp_path)


if __name__ == "__main__":
    worker(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
