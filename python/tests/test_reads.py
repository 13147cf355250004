"""Reads tell their progress, and Ctrl-C or the end of the program ends them."""

import os
import signal
import subprocess
import sys
import time

import espalier
import numpy as np
import pytest

SIZE = 1 << 27


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    path = tmp_path_factory.mktemp("large") / "large.espalier"
    noise = np.random.default_rng(1).integers(0, 8, SIZE, dtype=np.uint8)
    espalier.save(path, {"a": noise, "b": {"c": 1, "d": np.zeros(10)}}, compression=1, sync=False)
    return path


def loaders(path):
    torch = pytest.importorskip("torch")
    folder = os.path.dirname(path)
    with espalier.Checkpointer(os.path.join(folder, "run"), background=False, sync=False) as checkpointer:
        if checkpointer.latest is None:
            checkpointer.save(1, espalier.load(path), force=True)
    return {
        "load": lambda **how: espalier.load(path, threads=1, **how),
        "at": lambda **how: espalier.load(path, threads=1, at="a", **how),
        "like": lambda **how: espalier.load(path, threads=1, like=espalier.ANY, **how),
        "torch": lambda **how: espalier.load(path, threads=1, framework="torch", **how),
        "checkpoint": lambda **how: espalier.open(path, threads=1).load(**how),
        "node": lambda **how: espalier.open(path, threads=1).state.load(**how),
        "verify": lambda **how: espalier.open(path, threads=1).verify(**how),
        "load_into": lambda **how: espalier.torch.load_into({"a": torch.zeros(SIZE, dtype=torch.uint8)}, path, threads=1, **how),
        "restore": lambda **how: espalier.Checkpointer(os.path.join(folder, "run"), threads=1).restore(**how),
    }


NAMES = ["load", "at", "like", "torch", "checkpoint", "node", "verify", "load_into", "restore"]


@pytest.mark.parametrize("name", NAMES)
def test_reads_tell_their_progress(large, name):
    seen = []
    loaders(large)[name](progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen) and len({total for _, total in seen}) == 1
    assert seen[-1][0] == seen[-1][1] > 1 << 20


class Stop(Exception):
    pass


@pytest.mark.parametrize("name", NAMES)
def test_what_progress_raises_ends_the_read(large, name):
    seen = []

    def stop(done, total):
        seen.append((done, total))
        raise Stop

    with pytest.raises(Stop):
        loaders(large)[name](progress=stop)
    assert len(seen) == 1


@pytest.fixture
def slow(large, monkeypatch):
    """A URL of `large`. Each read of it takes 5 ms. Counts them, and sends Ctrl-C to the program in one of them."""
    fsspec = pytest.importorskip("fsspec")
    from espalier import _urls

    memory = fsspec.filesystem("memory")
    memory.pipe_file("/large.espalier", large.read_bytes())
    counts = {"reads": 0, "interrupts_at": 0}
    original = _urls.Reader.read

    def read(self, offset, length):
        counts["reads"] += 1
        if counts["reads"] == counts["interrupts_at"]:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.005)
        return original(self, offset, length)

    monkeypatch.setattr(_urls.Reader, "read", read)
    yield counts
    memory.rm("/large.espalier")


READS = {
    "load": lambda checkpoint: checkpoint.load(),
    "torch": lambda checkpoint: checkpoint.load(framework="torch"),
    "verify": lambda checkpoint: checkpoint.verify(),
    "slice": lambda checkpoint: checkpoint["a"][::2],
}


@pytest.mark.parametrize("name", READS)
def test_ctrl_c_ends_a_read_long_before_its_end(slow, name, handled_interrupts):
    if name == "torch":
        pytest.importorskip("torch")
    checkpoint = espalier.open("memory://large.espalier", threads=1)
    slow["reads"] = 0
    READS[name](checkpoint)
    chunks = slow["reads"]
    assert chunks >= 32
    slow.update(reads=0, interrupts_at=2)
    with pytest.raises(KeyboardInterrupt):
        READS[name](checkpoint)
    assert slow["reads"] < chunks / 2


# The program ends while a daemon thread reads or saves for seconds.
AT_THE_END = """
import atexit, sys, threading, time, espalier
path, out, name = sys.argv[1:]
state = espalier.load(path)
began = threading.Event()

def work():
    def begin(done, total):
        began.set()
    if name == "load":
        for _ in range(1000):
            espalier.load(path, threads=1, progress=begin)
    elif name == "verify":
        for _ in range(1000):
            espalier.open(path, threads=1).verify(progress=begin)
    elif name == "slice":
        for _ in range(1000):
            began.set()
            espalier.open(path, threads=1)["a"][::2]
    elif name == "save":
        espalier.save(out, state, compression=9, threads=1, progress=begin)
    elif name == "save_bytes":
        began.set()
        espalier.save_bytes(state, compression=9, threads=1)
    elif name == "open":
        began.set()
        while True:
            espalier.open(path)

def outlive():
    try:
        work()
    finally:
        print("left", flush=True)

threading.Thread(target=outlive, daemon=True).start()
assert began.wait(60)
# The main thread may go on to use the package.
atexit.register(lambda: print(espalier.load(path, at="b/c"), flush=True))
"""


@pytest.mark.parametrize("name", ["load", "verify", "slice", "save", "save_bytes", "open"])
def test_the_program_may_end_while_a_daemon_thread_reads_or_saves(large, tmp_path, name):
    arguments = [sys.executable, "-c", AT_THE_END, large, tmp_path / "out", name]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "1" in done.stdout.split() and os.listdir(tmp_path) == []
    if name != "open":
        assert "left" in done.stdout.split()


def test_a_forked_child_does_not_wait_for_threads_that_it_lacks(large):
    program = """
import os, sys, threading, warnings, espalier
warnings.simplefilter("ignore")
began = threading.Event()

def work():
    espalier.load(sys.argv[1], threads=1, progress=lambda done, total: began.set())

threading.Thread(target=work, daemon=True).start()
assert began.wait(60)
child = os.fork()
if child == 0:
    sys.exit(espalier.load(sys.argv[1], at="b/c"))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", program, large], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")
