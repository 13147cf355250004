#!/usr/bin/env python3
"""Makes beside.tar.xz with the last versions of Orbax and flax that wrote such checkpoints: msgpack files whose arrays lie in folders
beside them. beside.json has what Orbax and flax restored from them.

    pip install orbax-checkpoint==0.4.8 jax==0.4.23 jaxlib==0.4.23 flax==0.7.5 optax==0.1.8 chex==0.1.85 'numpy<2' 'scipy<1.12'
    make_beside.py TESTING

TESTING is the folder orbax/checkpoint/testing of a later orbax-checkpoint (such as 0.12.8), which has two checkpoints that its own tests
read (Apache License 2.0).
"""

import functools
import hashlib
import io
import json
import pathlib
import shutil
import sys
import tarfile
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from flax.training import checkpoints

HERE = pathlib.Path(__file__).resolve().parent


def state():
    return {
        "w": jnp.arange(12.0).reshape(3, 4), "bf": jnp.arange(10, dtype=jnp.bfloat16) / 3, "i": 3, "f": 1.5, "flag": True,
        "none": None, "list": [jnp.ones(2), {"in": jnp.zeros(3)}], "np": np.arange(3), "text": "héllo", "empty": {},
        "adam": optax.adam(1e-3).init({"w": jnp.ones(3)}),
    }  # fmt: skip


def describe(value):
    if isinstance(value, dict):
        return {key: describe(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [describe(child) for child in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    array = np.asarray(value)
    return f"{array.dtype.name} {list(array.shape)} {hashlib.sha256(array.tobytes()).hexdigest()}"


def save(path, value, arguments=None, **options):
    checkpointer = ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**options))
    checkpointer.save(path, value, arguments)
    return describe(checkpointer.restore(path))


def save_flax(folder):
    """What flax writes for arrays of several processes. One process has to do: it is told that the arrays are such."""
    value = {"params": {"w": jnp.arange(6.0).reshape(2, 3), "b": jnp.ones(2)}, "step": np.int32(3), "name": "run"}
    checkpoints.config.update("flax_use_orbax_checkpointing", False)
    checkpoints._is_multiprocess_array = lambda each: isinstance(each, jax.Array)
    manager = checkpoints.GlobalAsyncCheckpointManager()
    checkpoints.save_checkpoint_multiprocess(folder, value, 7, gda_manager=manager)
    manager.wait_until_finished()
    return describe(value)


def main():
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        value = state()
        all_of_it = functools.partial(jax.tree_util.tree_map, lambda _: ocp.SaveArgs(aggregate=True))
        some = {**jax.tree_util.tree_map(lambda _: ocp.SaveArgs(), value), "list": all_of_it(value["list"])}
        expected = {
            "ocdbt": save(folder / "ocdbt", value, use_ocdbt=True),
            "plain": save(folder / "plain", value, use_ocdbt=False),
            "inside": save(folder / "inside", value, all_of_it(value), use_ocdbt=True),
            "some": save(folder / "some", value, some, use_ocdbt=True),
            "flax": save_flax(folder / "flax"),
        }
        for path in pathlib.Path(sys.argv[1]).glob("aggregate_*.checkpoint"):
            shutil.copytree(path, folder / path.stem)
            expected[path.stem] = describe(ocp.PyTreeCheckpointer().restore(folder / path.stem))
        (HERE / "beside.json").write_text(json.dumps(expected, indent=1) + "\n")
        with tarfile.open(HERE / "beside.tar.xz", "w:xz") as archive:
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    info = tarfile.TarInfo(str(path.relative_to(folder)))
                    info.size = path.stat().st_size
                    archive.addfile(info, io.BytesIO(path.read_bytes()))


if __name__ == "__main__":
    main()
