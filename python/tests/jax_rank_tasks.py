"""What a process of jax.distributed does in the tests: jax_rank_tasks.py TASK FOLDER RANK RANKS ADDRESS"""

import os
import pathlib
import signal
import sys

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


def check(state):
    for name, wanted in whole().items():
        for shard in state[name].addressable_shards:
            assert np.array_equal(np.asarray(shard.data), wanted[shard.index]), name
    assert (state["step"], state["lr"]) == (5, (0.1, None)) and np.array_equal(state["local"], np.arange(3))
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
    _rank_files.write = plain if rank == 0 else lambda *given, **options: os.kill(os.getpid(), signal.SIGKILL)
    ck.save(3, {"all": loaded["all"]})
    ck.close()  # An error, unless the coordination service ends this process before.


def load(folder):
    ck = espalier.Checkpointer(folder, distributed=True)
    loaded, step = ck.restore(like=template(OTHERS))
    assert step == 1 and ck.load_per_rank(1) is None
    check(loaded)
    ck.save(4, loaded)
    ck.close()
    assert ck.steps == [1, 4]
    jax.distributed.shutdown()


if __name__ == "__main__":
    task, folder, rank, ranks, address = sys.argv[1:]
    signal.alarm(120)
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 4 // int(ranks))
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(address, int(ranks), int(rank), heartbeat_timeout_seconds=10)
    {"save": save, "load": load}[task](pathlib.Path(folder))
