"""Saves in the background, and folders of checkpoints."""

import _thread
import asyncio
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

import espalier
import numpy as np
import pytest

F32 = np.arange(6, dtype=np.float32)


def test_the_copy_is_saved(file):
    array = np.ones(1 << 22)
    save = espalier.save_async(file, {"a": array}, metadata={"m": 1}, compression=1)
    array[:] = 2
    assert save.result() is None and save.done() and save.exception() is None
    assert (espalier.load(file)["a"] == 1).all() and espalier.open(file).metadata == {"m": 1}
    done, total = save.progress()
    assert done == total > 0


def test_errors_come_where_they_are_asked_for(file, tmp_path):
    with pytest.raises(espalier.Unsupported, match="^a: "):
        espalier.save_async(file, {"a": object()})
    save = espalier.save_async(tmp_path / "none" / "x", F32)
    assert isinstance(save.exception(timeout=60), FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        save.result()


def test_cancel_and_timeout_and_await(file):
    espalier.save(file, 1)
    noise = np.random.default_rng(1).standard_normal(1 << 24)
    save = espalier.save_async(file, noise, compression=9, threads=1)
    with pytest.raises(TimeoutError):
        save.result(timeout=0.001)
    save.cancel()
    with pytest.raises(espalier.Cancelled):
        save.result()
    assert espalier.load(file) == 1

    async def run():
        await espalier.save_async(file, 2)
        return espalier.load(file)

    assert asyncio.run(run()) == 2


def interrupt(call, after):
    """Calls it, with a Ctrl-C after so many seconds that it must not survive.

    How long a call takes varies with the machine's load: one that ends before its Ctrl-C is called again, with half the time,
    and one whose Ctrl-C comes before it begins with twice the time.
    """
    begun = ended = False
    timer = threading.Timer(after, _thread.interrupt_main)
    try:
        timer.start()
        begun = True
        call()
        ended = True
        while True:  # until the Ctrl-C comes; one of this kind does not end a sleep
            time.sleep(0.01)
    except KeyboardInterrupt:
        pass
    timer.join()
    if not begun:
        interrupt(call, after * 2)
    if ended:
        assert after > 0.001, "the call ends before any Ctrl-C"
        interrupt(call, after / 2)


def test_ctrl_c_ends_the_copy(file, tmp_path, handled_interrupts):
    espalier.save(file, 1)
    before, threads = file.read_bytes(), len(os.listdir("/proc/self/task"))
    state = {"a": np.ones(1 << 25)}
    folder = espalier.Checkpointer(tmp_path / "run")
    interrupt(lambda: espalier.save_async(file, state, threads=1), 0.01)
    interrupt(lambda: folder.save(1, state), 0.01)
    for after in (0.01, 0.04, 0.16):
        interrupt(lambda: espalier.save_bytes(state), after)
    assert sorted(os.listdir(tmp_path)) == ["run", file.name] and file.read_bytes() == before and folder.steps == []
    espalier.save_async(file, 2).result()  # not held up by those before
    until = time.monotonic() + 60  # A thread ends soon after its result is there; others may have ended meanwhile.
    while len(os.listdir("/proc/self/task")) > threads and time.monotonic() < until:
        time.sleep(0.01)
    assert len(os.listdir("/proc/self/task")) <= threads


def run(program, *arguments, **options):
    return subprocess.run([sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True, **options)


def test_the_program_s_end_waits_and_tells(file, tmp_path):
    program = "import espalier, numpy, sys; espalier.save_async(sys.argv[1], numpy.ones(1 << 23), compression=3)"
    done = run(program, file)
    assert (done.returncode, done.stderr) == (0, "") and espalier.load(file).shape == (1 << 23,)
    done = run(program, tmp_path / "none" / "x")
    assert done.stderr.startswith("espalier: a save in the background failed: ") and "none/x" in done.stderr


def test_a_forked_child_leaves_the_save_alone(file):
    program = """
import espalier, numpy, os, sys, warnings
warnings.simplefilter("ignore")
save = espalier.save_async(sys.argv[1], numpy.random.default_rng(1).standard_normal(1 << 20), compression=9, threads=1)
child = os.fork()
if child == 0:
    try:
        save.result()
    except espalier.NotInThisProcess:
        sys.exit(7)
    sys.exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
save.result()
"""
    done = run(program, file)
    assert (done.returncode, done.stderr) == (0, "") and espalier.load(file).shape == (1 << 20,)
    assert os.listdir(file.parent) == [file.name]


def test_a_folder(tmp_path):
    with espalier.Checkpointer(tmp_path / "run", every=10, keep=2, keep_every=50, best=("val/loss", "min")) as ck:
        assert ck.restore(like={"w": F32}) == ({"w": pytest.approx(F32)}, 0) and ck.latest is ck.best is None
        for step in range(1, 101):
            loss = np.float32(abs(step - 30))
            assert ck.save(step, {"w": F32 * step, "step": step}, metrics={"val/loss": loss}) == (step % 10 == 0)
        ck.wait()
        assert ck.steps == [30, 50, 90, 100] and ck.latest == 100 and ck.best == 30
        state, step = ck.restore(like={"w": F32, "step": 0})
        assert step == state["step"] == 100 and np.array_equal(state["w"], F32 * 100)
        metadata = espalier.open(ck.path(30)).metadata
        assert metadata["metrics"] == {"val/loss": 0.0} and abs(metadata["time"] - time.time()) < 600
        assert ck.save(101, state, force=True) and not ck.save(102, state)
        with pytest.raises(espalier.TreeMismatch, match="step_00000101.espalier: the file differs"):
            ck.restore(like={"v": F32})


@pytest.mark.parametrize(("background", "patches"), [(False, False), (True, False), (True, True)])
def test_incremental_saves_write_what_changed(tmp_path, background, patches):
    state = {"frozen": np.random.default_rng(1).standard_normal(1 << 19), "adapter": np.zeros(500)}
    with espalier.Checkpointer(tmp_path / "run", keep=2, background=background, incremental=True, patches=patches) as ck:
        for step in range(1, 11):
            state["adapter"] += 1
            ck.save(step, state)
        ck.wait()
        sizes = [os.path.getsize(ck.path(step)) for step in ck.steps]
        # A patch needs its base, which needs that before it.
        assert ck.steps == (list(range(1, 11)) if patches else [1, 9, 10])
        assert sizes[0] > 1 << 22 and max(sizes[1:]) < (3000 if patches else 10_000)
        found, step = ck.restore(like=state)
        assert step == 10 and all(np.array_equal(found[key], state[key]) for key in state)


def test_patches_are_of_incremental_saves(tmp_path):
    with pytest.raises(espalier.EspalierError, match="set incremental=True"):
        espalier.Checkpointer(tmp_path, patches=True)


def test_a_damaged_checkpoint_is_passed_over(tmp_path):
    ck = espalier.Checkpointer(tmp_path, background=False)
    for step in (1, 2):
        ck.save(step, {"w": F32 * step})
    with open(ck.path(2), "r+b") as damaged:
        damaged.seek(-1, 2)
        damaged.write(b"x")
    with pytest.warns(espalier.DamagedCheckpoint, match="step 2 is passed over"):
        assert ck.restore()[1] == 1
    os.truncate(ck.path(1), 100)
    with pytest.raises(espalier.Corrupt):
        ck.restore()


def test_the_next_call_raises_the_error_of_a_save(tmp_path):
    ck = espalier.Checkpointer(tmp_path / "run")
    (tmp_path / "elsewhere").symlink_to(tmp_path)
    (tmp_path / "run" / "step_00000001.espalier").symlink_to(tmp_path / "elsewhere")
    ck.save(1, 1)
    with pytest.raises(espalier.Unsupported):  # An error of its own state comes first, and that of the save is not lost.
        ck.save(2, object())
    with pytest.raises(OSError, match="link.*; the save of step 2 has begun$"):
        ck.save(2, 2)
    assert ck.save(3, 3)
    ck.close()
    assert ck.steps[-2:] == [2, 3] and ck.restore()[1] == 3


def test_one_save_at_a_time(tmp_path):
    noise = np.random.default_rng(1).standard_normal(1 << 20)
    with espalier.Checkpointer(tmp_path, busy="skip", compression=9, threads=1) as ck:
        assert ck.save(1, noise) and not ck.save(2, noise)
    with espalier.Checkpointer(tmp_path, busy="raise", compression=9, threads=1) as ck:
        ck.save(3, noise)
        with pytest.raises(espalier.EspalierError, match="goes on"):
            ck.save(4, noise)
    assert ck.steps == [1, 3]


def test_wrong_arguments(tmp_path):
    for wrong in ({"busy": "x"}, {"keep": None, "keep_every": 2}, {"every": 0}, {"best": ("loss", "low")}, {"keep": 0}):
        with pytest.raises(espalier.EspalierError):
            espalier.Checkpointer(tmp_path / "x", **wrong)


TRAINING = """
import espalier, numpy as np, os, sys, time
with espalier.Checkpointer(sys.argv[1], every=3, keep=2, sync=False) as ck:
    state, step = ck.restore(like={"w": np.zeros(100_000), "rng": [0] * 3, "losses": espalier.ANY})
    w = np.array(state["w"])
    losses = [] if step == 0 else state["losses"]
    end = step + int(sys.argv[2]) if len(sys.argv) > 2 else 0
    for step in range(step + 1, 61):
        w = np.cos(w + step)
        losses.append(float(w[0]))
        ck.save(step, {"w": w, "rng": [step, step * 2, step * 3], "losses": losses})
        if step == end:  # at any point of a save in the background
            time.sleep(float(sys.argv[3]))
            os.kill(os.getpid(), 9)
print(w.tobytes().hex()[:64], len(losses))
"""


def test_a_training_that_is_killed_goes_on(tmp_path):
    expected = run(TRAINING, tmp_path / "whole", check=True).stdout
    chance = random.Random(7)
    for _ in range(5):
        killed = run(TRAINING, tmp_path / "killed", chance.randrange(1, 12), chance.random() * 0.002)
        assert killed.returncode == -signal.SIGKILL
    done = run(TRAINING, tmp_path / "killed")
    assert (done.stdout, done.stderr) == (expected, "")
    assert not [name for name in os.listdir(tmp_path / "killed") if name.endswith(".tmp")]


def test_a_metric_that_best_lacks_is_an_error(tmp_path):
    with espalier.Checkpointer(tmp_path / "run", best=("los", "min"), background=False) as ck:
        with pytest.raises(espalier.EspalierError, match="step 1 has the metrics 'loss', and best= goes by 'los'"):
            ck.save(1, {}, metrics={"loss": 1.0})
        assert ck.steps == []
        # A step that was not measured: nothing is damaged, and the words are those of Python.
        with pytest.warns(UserWarning, match="correct the name in best=.*in metrics/los") as told:
            assert ck.save(1, {})
    assert ck.steps == [1] and told[0].category is UserWarning and "::" not in str(told[0].message)


def test_nothing_is_saved_after_close(tmp_path):
    for end in (lambda ck: ck.close(), lambda ck: ck.__exit__(None), lambda ck: ck.__exit__(KeyError)):
        ck = espalier.Checkpointer(tmp_path / "run")
        end(ck)
        with pytest.raises(espalier.EspalierError, match="was closed, and step 7"):
            ck.save(7, {})
        ck.close()
        assert ck.steps == [] and ck.restore() == (None, 0)


def test_a_loop_in_which_no_step_was_due_is_told(tmp_path):
    wanted = r"nothing was saved, as no step from 1 to 60 was due by every=100; choose less, or save the last step with save\("
    with pytest.warns(UserWarning, match=wanted) as told:  # noqa: SIM117
        with espalier.Checkpointer(tmp_path / "run", every=100) as checkpointer:
            for step in range(1, 61):
                assert not checkpointer.save(step, {"step": step})
    assert [warning.filename for warning in told] == [__file__]
    checkpointer = espalier.Checkpointer(tmp_path / "run", every_minutes=30)
    checkpointer.save(7, {})
    with pytest.warns(UserWarning, match="from 7 to 7 was due by every_minutes=30;") as told:
        checkpointer.close()
    assert [warning.filename for warning in told] == [__file__]
    checkpointer.close()  # tells it once


def test_a_loop_that_saved_is_silent(tmp_path):
    with espalier.Checkpointer(tmp_path / "run", every=100) as checkpointer:
        checkpointer.save(60, {}, force=True)
        checkpointer.save(61, {})
    with espalier.Checkpointer(tmp_path / "run", every=100) as checkpointer:
        assert checkpointer.steps == [60]
    with pytest.raises(ZeroDivisionError), espalier.Checkpointer(tmp_path / "other", every=100) as checkpointer:
        checkpointer.save(1, {})
        1 / 0  # noqa: B018  # which says enough


def test_restore_takes_a_step(tmp_path):
    with espalier.Checkpointer(tmp_path, keep=None) as checkpointer:
        for step in (5, 10, 15):
            checkpointer.save(step, {"a": np.full(3, step), "b": step})
    assert checkpointer.restore(step=10)[0]["b"] == 10 and checkpointer.restore(step=10)[1] == 10
    state, step = checkpointer.restore(step=5, like={"a": np.zeros(3, np.int64), "b": 0})
    assert (state["b"], step) == (5, 5) and checkpointer.restore()[1] == 15
    with pytest.raises(espalier.CheckpointNotFound, match="there is no step 7; it has 5, 10, 15"):
        checkpointer.restore(step=7)
    with pytest.raises(espalier.CheckpointNotFound, match="there is no step 7; it has no steps"):
        espalier.Checkpointer(tmp_path / "none").restore(step=7)
    path = pathlib.Path(checkpointer.path(10))
    data = bytearray(path.read_bytes())
    data[data.index(np.full(3, 10).tobytes())] ^= 1
    path.write_bytes(data)
    with pytest.raises(espalier.Corrupt, match="step_00000010.espalier.*hash"):
        checkpointer.restore(step=10)


def test_restore_takes_the_best(tmp_path):
    with espalier.Checkpointer(tmp_path, keep=9, best=("loss", "min")) as checkpointer:
        with pytest.raises(espalier.CheckpointNotFound, match="there is no best step: no step here has its metric"):
            checkpointer.restore(best=True)
        for step, loss in ((5, 3.0), (10, 1.0), (15, 2.0)):
            checkpointer.save(step, {"b": step}, metrics={"loss": loss})
        checkpointer.save(20, {"b": 20}, metrics={"loss": 0.5})
        assert checkpointer.restore(best=True) == ({"b": 20}, 20)  # though its save goes on
    pathlib.Path(checkpointer.path(20)).unlink()
    assert checkpointer.restore(best=True) == ({"b": 10}, 10)
    with pytest.raises(espalier.EspalierError, match="two choices of a step"):
        checkpointer.restore(step=5, best=True)
    with pytest.raises(espalier.CheckpointNotFound, match="has no best="):
        espalier.Checkpointer(tmp_path).restore(best=True)


def test_restore_names_an_option_that_it_has_not(tmp_path):
    checkpointer = espalier.Checkpointer(tmp_path)
    with pytest.raises(TypeError, match=r"restore\(\) has no option 'steps': it has those of load\(\) for a file"):
        checkpointer.restore(steps=3)
    checkpointer.restore(framework="torch", at="a")
