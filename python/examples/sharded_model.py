"""A model that no device holds: each device's shards are read by themselves, on another mesh than at the save (equinox#778)."""

import espalier
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

jax.config.update("jax_num_cpu_devices", 4)  # as many accelerators would be


def sharding(mesh_shape, names, *axes):
    return NamedSharding(Mesh(np.array(jax.devices()).reshape(mesh_shape), names), PartitionSpec(*axes))


# As it was trained: rows over two groups of devices, columns over the two of each.
rows_and_columns = sharding((2, 2), ("data", "model"), "data", "model")
weight = jax.device_put(np.arange(1 << 16, dtype=np.float32).reshape(256, 256), rows_and_columns)
espalier.save("run.espalier", {"weight": weight, "step": 7})

# The template says shapes, dtypes and shardings, and has no elements. Each shard is read once, by slices of the file.
columns = sharding((4,), ("model",), None, "model")
template = {"weight": jax.ShapeDtypeStruct((256, 256), np.float32, sharding=columns), "step": 0}
loaded = espalier.load("run.espalier", like=template)
for shard in loaded["weight"].addressable_shards:
    print(shard.device, shard.data.shape)
assert loaded["weight"].sharding == columns and np.array_equal(loaded["weight"], weight)
