"""Checkpointer(distributed=True) with processes of jax.distributed."""

import pathlib
import signal
import socket
import subprocess
import sys

import espalier
import numpy as np
import pytest
from espalier._split import rebuilt

jax = pytest.importorskip("jax")


def start(task, folder, ranks):
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    script = pathlib.Path(__file__).with_name("jax_rank_tasks.py")
    return [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", script, task, folder, str(rank), str(ranks), address], stderr=subprocess.PIPE, text=True
        )
        for rank in range(ranks)
    ]


def test_what_rank_0_saves_in_the_background_is_a_copy(tmp_path):
    """Also of arrays inside of other values, and of those that JAX took over from numpy."""
    memory = np.zeros(64 + 16, np.uint32)
    memory = memory[-memory.ctypes.data % 64 // 4 :][:2]  # as JAX takes it over
    taken = jax.device_put(memory)
    key = jax.random.wrap_key_data(taken)
    live = {
        "jax": taken, "key": key, "named": espalier.AxisNamed(taken, ("x",)), "packed": espalier.Packed("u32", (2,), memory.view(np.uint8)),
        "numpy": [memory, memory], "set": espalier.OrderedSet((memory,)),
    }  # fmt: skip
    copied = rebuilt(live, lambda value, path: None)
    memory[:] = 7
    assert np.array_equal(taken, [7, 7])
    del live, key, taken
    espalier.save(tmp_path / "copied.espalier", copied)
    with espalier.open(tmp_path / "copied.espalier") as file:
        for path in ("jax", "key", "named", "packed", "numpy/0", "numpy/1"):
            assert file.at(path)[:].tolist() == [0, 0], path
        assert file["named"].axis_names == ("x",)
    state = espalier.load(tmp_path / "copied.espalier", exact=True)
    assert state["numpy"][0] is state["numpy"][1] and state["set"].elements[0].tolist() == [0, 0]


def test_two_processes_save_one_is_killed_and_one_goes_on(tmp_path):
    processes = start("save", tmp_path, 2)
    errors = [process.communicate()[1] for process in processes]
    first, second = (process.returncode for process in processes)
    assert second == -signal.SIGKILL, errors[1]
    # JAX ends what is left of the job, or the save finds out before.
    assert first == -signal.SIGABRT or "another process of the group ended" in errors[0], errors[0]
    [process] = start("load", tmp_path, 1)
    assert process.communicate()[1] is not None and process.returncode == 0
    # A step opens as any file.
    with espalier.open(tmp_path / "step_00000004.espalier") as file:
        assert file.verify().verdict == "ok"
    state = espalier.load(tmp_path / "step_00000001.espalier")
    assert state["rows"] is state["tied"][0] is state["tied"][1]
    rng = np.random.default_rng(0)
    assert np.array_equal(state["both"], rng.standard_normal((600, 1200))) and state["step"] == 5
