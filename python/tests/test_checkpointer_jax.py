"""Checkpointer(distributed=True) with processes of jax.distributed."""

import json
import pathlib
import signal
import subprocess
import sys

import espalier
import numpy as np
import pytest
from espalier._split import rebuilt

jax = pytest.importorskip("jax")


@pytest.fixture
def run():
    """Runs a task of jax_rank_tasks.py in so many processes, and returns how they ended and what they said."""
    script = pathlib.Path(__file__).with_name("jax_rank_tasks.py")
    with subprocess.Popen([sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def run(task, folder, ranks, **arguments):
            process.stdin.write(json.dumps({"task": task, "folder": str(folder), "ranks": ranks, **arguments}) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield run
        process.stdin.close()


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


def test_four_processes_save_one_is_killed_and_two_and_one_go_on(run, tmp_path):
    ended, said = run("save", tmp_path, 4)
    assert ended[3] == -signal.SIGKILL, said[3]
    # JAX ends what is left of the job, or the save finds out before.
    for code, text in zip(ended[:3], said, strict=False):
        assert code == -signal.SIGABRT or "another process of the group ended" in text, text
    assert sorted(path.name for path in tmp_path.glob("step*") if ".r" not in path.name) == ["step_00000001.espalier", "step_00000002.espalier"]
    for ranks, newest in ((2, 2), (1, 3)):
        ended, said = run("load", tmp_path, ranks, newest=newest)
        assert ended == [0] * ranks, said
    # A step opens as any file.
    rng = np.random.default_rng(0)
    both = rng.standard_normal((600, 1200))
    for step, ranks in ((1, 4), (2, 4), (3, 2), (4, 1)):
        path = tmp_path / f"step_{step:08}.espalier"
        with espalier.open(path) as file:
            assert file.verify().verdict == "ok" and len(file.metadata["ranks"]) == ranks
        state = espalier.load(path)
        assert np.array_equal(state["both"], both) and state["step"] == (5 if step == 1 else 6)
        assert state["rows"] is state["tied"][0] is state["tied"][1]
    # What the killed process left went with the next save.
    assert len(list(tmp_path.glob("step_*.r*"))) == 4 + 4 + 2 + 1
