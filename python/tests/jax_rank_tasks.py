"""What processes of jax.distributed do together in the tests: forked from one process, which has imported JAX.

Reads tasks from its input, a line of JSON each, and prints the exit codes of the ranks and what they said.
"""

import json
import os
import pathlib
import signal
import socket
import sys
import tempfile
import traceback
import warnings

import espalier
import jax
import numpy as np
import pytest
from espalier import _rank_files
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def whole():
    rng = np.random.default_rng(0)
    return {
        "both": rng.standard_normal((600, 1200)), "rows": rng.standard_normal((3000, 130)).astype(np.float32),
        "all": np.arange(6, dtype=np.float32), "half": rng.standard_normal((4, 6)).astype(jax.numpy.bfloat16),
    }  # fmt: skip


SPECS = {"both": P("a", "b"), "rows": P(("a", "b")), "all": P(), "half": P(None, "b")}
OTHERS = {"both": P("b"), "rows": P(None, "a"), "all": P("b"), "half": P("a")}


def state_of(values, specs):
    """The values over all devices, and beside them one that each process has."""
    devices = np.array(jax.devices()).reshape(-1, 2)
    mesh = jax.sharding.Mesh(devices, ("a", "b"))
    made = {
        name: jax.make_array_from_callback(each.shape, NamedSharding(mesh, specs[name]), lambda index, each=each: each[index])
        for name, each in values.items()
    }
    one = jax.numpy.ones(2)
    ones = [one if jax.process_index() == 1 else one + 0 for _ in range(6)]
    rows = made["rows"]
    again = jax.make_array_from_single_device_arrays(rows.shape, rows.sharding, [each.data for each in rows.addressable_shards])
    return {**made, "tied": [rows, again], "ones": ones, "local": jax.numpy.arange(3), "key": jax.random.key(7), "step": 5, "lr": (0.1, None)}


def check(state, count=5):
    for name, wanted in whole().items():
        for shard in state[name].addressable_shards:
            assert np.array_equal(np.asarray(shard.data), wanted[shard.index]), name
    assert (state["step"], state["lr"]) == (count, (0.1, None)) and np.array_equal(state["local"], np.arange(3))
    assert [each.tolist() for each in state["ones"]] == [[1, 1]] * 6
    assert jax.random.key_data(state["key"]).tolist() == jax.random.key_data(jax.random.key(7)).tolist()


def template(specs):
    return {**state_of({name: each * 0 for name, each in whole().items()}, specs), "step": 0}


def save(folder):
    rank = jax.process_index()
    ck = espalier.Checkpointer(folder, distributed=True, keep=None)
    state = state_of(whole(), SPECS)
    ck.save(1, state, metrics={"loss": rank}, per_rank={"rank": rank, "key": jax.random.key(rank)})
    # The donated memory is used again while the save goes on.
    added = jax.jit(lambda each: each + 1, donate_argnums=0)(state["rows"])
    added.block_until_ready()
    ck.wait()
    for specs in (SPECS, OTHERS):
        loaded, step = ck.restore(like=template(specs))
        assert step == 1
        check(loaded)
        assert loaded["rows"] is loaded["tied"][0] is loaded["tied"][1]
    own = ck.load_per_rank(1)
    assert own["rank"] == rank and jax.random.key_data(own["key"]).tolist() == [0, rank]

    def refused(*given, **options):
        raise OSError(28, "No space left on device")

    plain = _rank_files.write
    if rank == 1:
        _rank_files.write = refused
    ck.save(2, {"all": loaded["all"]})
    with pytest.raises(espalier.CheckpointOSError, match="step 2 was not saved: rank 1: .*No space left"):
        ck.wait()
    with pytest.raises(espalier.EspalierError, match="rank 1 has f64 .7., and another rank f64 .6."):
        ck.save(2, {"all": jax.numpy.zeros(6 + rank)})
    assert ck.steps == [1]
    _rank_files.write = plain
    ck.save(2, {**loaded, "step": 6})
    ck.wait()
    if rank == 3:  # In the middle of its file.
        _rank_files.write = lambda *given, **options: plain(*given, **{**options, "progress": lambda *_: os.kill(os.getpid(), signal.SIGKILL)})
    ck.save(3, loaded)
    ck.close()  # An error, unless the coordination service ends this process before.


def load(folder, newest):
    ck = espalier.Checkpointer(folder, distributed=True, keep=None)
    loaded, step = ck.restore(like=template(OTHERS))
    assert step == newest and ck.load_per_rank(step) is None
    check(loaded, 6)
    ck.save(newest + 1, loaded)
    ck.close()
    assert ck.steps == [*range(1, newest + 2)]
    jax.distributed.shutdown()


TASKS = {"save": save, "load": load}


def run(task, folder, ranks, **arguments):
    """Forks the ranks; returns their exit codes, negative for signals, and what each said."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    logs, pids = [tempfile.TemporaryFile("w+") for _ in range(ranks)], []
    for rank, log in enumerate(logs):
        pids.append(os.fork())
        if pids[-1] == 0:
            os.dup2(log.fileno(), 1)  # What the test reads are the exit codes.
            os.dup2(log.fileno(), 2)
            os._exit(child(task, folder, address, rank, ranks, arguments))
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    for log in logs:
        log.seek(0)
    return codes, [log.read() for log in logs]


def child(task, folder, address, rank, ranks, arguments):
    try:
        signal.alarm(120)
        jax.config.update("jax_num_cpu_devices", 4 // ranks)
        jax.distributed.initialize(address, ranks, rank, heartbeat_timeout_seconds=10)
        TASKS[task](pathlib.Path(folder), **arguments)
        return 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        return 1


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # JAX's own, of forks: it has no threads yet
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    for line in sys.stdin:
        print(json.dumps(run(**json.loads(line))), flush=True)
