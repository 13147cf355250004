"""The frameworks that other tests use, as scripts/python installs them: they work, and on the CPU.

These tests are there since torch comes without libraries that it asks for (scripts/torch_for_tests.py).
"""

import importlib
import multiprocessing

import numpy as np
import pytest

torch = pytest.importorskip("torch")


def train():
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
    return model, optimizer


def test_torch_trains():
    model, optimizer = train()
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert optimizer.state_dict()["state"][0]["step"] == 1
    assert torch.linalg.svdvals(torch.eye(3)).tolist() == pytest.approx([1, 1, 1])


def test_torch_loads_what_it_saved(tmp_path):
    model, optimizer = train()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "state.pt")
    loaded = torch.load(tmp_path / "state.pt", mmap=True)
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded["model"][name], tensor)


def test_arrays_go_from_one_to_the_other():
    jax = pytest.importorskip("jax")
    numbers = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = torch.from_dlpack(numbers)
    assert tensor.data_ptr() == numbers.ctypes.data
    assert np.array_equal(np.from_dlpack(tensor), numbers)
    assert np.array_equal(np.asarray(jax.numpy.from_dlpack(tensor) @ numbers.T), numbers @ numbers.T)


def test_jax_packages_import():
    pytest.importorskip("jax")
    for name in ("equinox", "flax.linen", "flax.nnx", "haliax", "optax", "safetensors.torch", "fsspec"):
        importlib.import_module(name)


def add_ranks(rank, ranks, meeting, results):
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks)
    total = torch.tensor([float(rank)])
    torch.distributed.all_reduce(total)
    results.put(total.item())
    torch.distributed.destroy_process_group()


def test_torch_processes_exchange_tensors(tmp_path, monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    arguments = (4, str(tmp_path / "meeting"), results)
    processes = [context.Process(target=add_ranks, args=(rank, *arguments), daemon=True) for rank in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 4
    assert [results.get() for _ in processes] == [6.0] * 4
