"""torch.distributed.checkpoint and single files: folders become files, and the processes of a job read a file by parts."""

import os
import pathlib
import subprocess
import sys

import espalier
import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
from espalier.torch import EspalierReader, EspalierWriter, FileReader  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.checkpoint.api import CheckpointException  # noqa: E402
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own


def objects():
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 7), nn.BatchNorm1d(7))
    return model, torch.optim.AdamW(model.parameters())


def full_state():
    model, optimizer = objects()
    model(torch.ones(4, 6)).sum().backward()
    optimizer.step()
    return {
        "model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 7, "text": "a",
        "large": torch.randn(700, 1000), "columns": torch.randn(5, 1000).bfloat16(),
        "history": [{"loss": 1.5}, torch.ones(2)], "plain": [1, (2, "b")], "pair": (torch.ones(2), 1),
    }  # fmt: skip


def empty(state):
    def other(value):
        return torch.zeros_like(value) if isinstance(value, torch.Tensor) else type(value)()

    emptied = torch.utils._pytree.tree_map(other, state)
    return {**emptied, **{name: type(emptied[name])() for name in ("plain", "pair") if name in emptied}}


def equal(found, wanted):
    """As torch.distributed.checkpoint has it, the keys of dicts become texts."""
    if isinstance(wanted, torch.Tensor):
        found = found.full_tensor() if hasattr(found, "full_tensor") else found
        return found.dtype == wanted.dtype and torch.equal(found, wanted)
    if isinstance(wanted, dict):
        found, wanted = ({str(key): value for key, value in each.items()} for each in (found, wanted))
        return found.keys() == wanted.keys() and all(equal(found[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list | tuple):
        return type(found) is type(wanted) and len(found) == len(wanted) and all(map(equal, found, wanted))
    return type(found) is type(wanted) and found == wanted


def worker(rank, world, folder):
    """What one of the processes does: it reads the file into shards, and the job saves a folder of its own."""
    from torch.distributed.tensor import Shard, distribute_tensor

    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    mesh = dist.device_mesh.init_device_mesh("cpu", (world,))
    state = empty(full_state())
    state["large"] = distribute_tensor(state["large"], mesh, [Shard(0)])
    state["columns"] = distribute_tensor(state["columns"], mesh, [Shard(1)])
    dcp.load(state, storage_reader=FileReader(pathlib.Path(folder, "run.espalier")))
    assert equal(state, full_state())
    dcp.save(state, checkpoint_id=f"{folder}/of_torch")
    dcp.save(state, storage_writer=EspalierWriter(f"{folder}/ours"))
    resume(rank, mesh, pathlib.Path(folder))
    dist.destroy_process_group()


def resume(rank, mesh, folder):
    """Four steps of a sharded model, and two of them again: after the folder that was saved, and after one file of it."""
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.fsdp import fully_shard

    def begin(seed):
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.3), nn.Linear(16, 2))
        fully_shard(model, mesh=mesh)
        torch.manual_seed(seed + rank)
        return model, torch.optim.AdamW(model.parameters())

    def state_of(model, optimizer):
        states = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
        return {**states, "random": {f"of {rank}": espalier.torch.random_state()}}

    def two_steps(model, optimizer):
        for _ in range(2):
            model(torch.randn(4, 8)).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        weights = {name: value.full_tensor() for name, value in model.state_dict().items()}
        return {"weights": weights, "random": torch.get_rng_state()}

    whole = begin(5)
    two_steps(*whole)
    dcp.save(state_of(*whole), storage_writer=EspalierWriter(folder / "sharded"))
    wanted = two_steps(*whole)
    if rank == 0:
        espalier.save(folder / "whole.espalier", espalier.load(folder / "sharded", framework="torch"))
    dist.barrier()
    for reader in (EspalierReader(folder / "sharded"), FileReader(folder / "whole.espalier")):
        again = begin(9)
        state = state_of(*again)
        dcp.load(state, storage_reader=reader)
        set_state_dict(*again, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        espalier.torch.set_random_state(state["random"][f"of {rank}"])
        assert equal(two_steps(*again), wanted)


def test_processes_read_a_file_and_their_folders_become_files(tmp_path):
    espalier.save(tmp_path / "run.espalier", full_state(), compression=1)
    commands = [[sys.executable, "-W", "ignore", __file__, str(rank), "2", str(tmp_path)] for rank in range(2)]
    processes = [subprocess.Popen(each, env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"}) for each in commands]
    try:
        assert [process.wait(300) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    dcp_to_torch_save(tmp_path / "of_torch", tmp_path / "theirs.pt")
    theirs = torch.load(tmp_path / "theirs.pt", weights_only=False)
    for folder in ("of_torch", "ours"):
        loaded = espalier.load(tmp_path / folder, framework="torch")
        assert equal(loaded, theirs) and equal(loaded, full_state())
        # One file, and back to a folder of torch's own, which torch reads.
        espalier.save(tmp_path / f"{folder}.espalier", loaded)
        whole = espalier.load(tmp_path / f"{folder}.espalier", framework="torch")
        dcp.save(whole, checkpoint_id=tmp_path / f"{folder}.back", no_dist=True)
        state = empty(full_state())
        dcp.load(state, checkpoint_id=tmp_path / f"{folder}.back", no_dist=True)
        assert equal(state, full_state())
        model, optimizer = objects()
        rest = espalier.torch.load_into({"model": model, "optimizer": optimizer}, tmp_path / folder)
        assert equal({"model": model.state_dict(), "optimizer": optimizer.state_dict(), **rest}, full_state())


def load(state, path, **options):
    dcp.load(state, storage_reader=FileReader(path, **options), no_dist=True)
    return state


def test_files_of_other_formats(tmp_path):
    state = full_state()
    torch.save(state, tmp_path / "run.pt")
    espalier.save_safetensors(tmp_path / "model.safetensors", dict(state["model"]))
    espalier.save("memory://run.espalier", state)
    dcp.save(state, checkpoint_id=tmp_path / "of_torch", no_dist=True)
    dcp.save(state, storage_writer=EspalierWriter(tmp_path / "ours"), no_dist=True)
    for path in (tmp_path / "run.pt", "memory://run.espalier", tmp_path / "of_torch", tmp_path / "ours"):
        assert equal(load(empty(state), path), state)
    assert equal(load(empty(state["model"]), tmp_path / "model.safetensors", mapped=False), state["model"])
    emptied = empty(state["model"])
    dcp.load(emptied, checkpoint_id=tmp_path / "model.safetensors", storage_reader=FileReader(), no_dist=True)
    assert equal(emptied, state["model"])


class Evil:
    def __reduce__(self):
        return (print, ("this was run",))


def test_nothing_of_a_folder_is_unpickled(tmp_path, capsys):
    dcp.save({"w": torch.ones(3), "own": Evil()}, checkpoint_id=tmp_path, no_dist=True)
    state = load({"w": torch.zeros(3), "own": 1}, tmp_path)
    assert isinstance(state["own"], espalier.Record) and state["w"].sum() == 3
    assert "this was run" not in capsys.readouterr().out


def test_elements_of_all_kinds(file):
    state = {
        "f4": torch.arange(12, dtype=torch.uint8).reshape(3, 4).view(torch.float4_e2m1fn_x2), "scalar": torch.tensor(2.5),
        "f8": torch.ones(4).to(torch.float8_e4m3fn), "complex": torch.ones(2, dtype=torch.complex64), "none": torch.zeros(0, 3),
        "flag": torch.tensor([True]),
    }  # fmt: skip
    espalier.save(file, {**state, "numpy": np.float32(1.5), "wide": espalier.spec((2, 2), "f32")})

    def bits(tensor):
        return tensor.contiguous().view(torch.uint8).tolist() if tensor.dim() else tensor.item()

    loaded = load({name: torch.empty_like(value) for name, value in state.items()}, file)
    assert all(bits(loaded[name]) == bits(value) for name, value in state.items())
    assert load({"numpy": torch.zeros(())}, file)["numpy"] == 1.5
    assert load({"scalar": torch.zeros((), dtype=torch.float64)}, file)["scalar"].dtype == torch.float64
    with pytest.raises(CheckpointException, match="wide is a placeholder"):
        load({"wide": torch.zeros(2, 2)}, file)


def test_what_is_refused(file):
    espalier.save(file, {"a": {1: torch.ones(2), "b": 3}})
    with pytest.raises(CheckpointException, match=r"a\.2"):
        load({"a": {2: torch.ones(2)}}, file)
    with pytest.raises(CheckpointException, match=r"size mismatch|Size mismatch"):
        load({"a": {1: torch.ones(3)}}, file)
    espalier.save(file, {"a": {1: torch.ones(2), "1": torch.ones(2)}})
    with pytest.raises(CheckpointException, match="torch would give two values one name"):
        load({"a": {1: torch.ones(2)}}, file)
    espalier.save(file, [1])
    with pytest.raises(CheckpointException, match="its state is no dict"):
        load({"a": 1}, file)
    with pytest.raises(CheckpointException, match="pass a file"):
        load({"a": 1}, None)
    espalier.save(file, {"a": torch.ones(1 << 19)})
    data = bytearray(file.read_bytes())
    data[data.index(b"\0\0\x80\x3f" * 8) + 6] ^= 1
    file.write_bytes(data)
    with pytest.raises(CheckpointException, match="hash"):
        load({"a": torch.zeros(1 << 19)}, file)


if __name__ == "__main__":
    worker(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
