"""A haliax model in a checkpoint with its optimizer, and as the safetensors file that other libraries read (haliax#35)."""

import equinox as eqx
import espalier
import haliax as hax
import jax
import optax

Heads, Dim, Layers = hax.Axis("heads", 4), hax.Axis("dim", 8), hax.Axis("layers", 3)


class Block(eqx.Module):
    linear: hax.nn.Linear

    @staticmethod
    def init(key):
        return Block(hax.nn.Linear.init(Dim, Dim.alias("out"), key=key))


class Model(eqx.Module):
    first: hax.nn.Linear
    blocks: hax.nn.Stacked


def make(seed):
    keys = jax.random.split(jax.random.key(seed), 4)
    blocks = hax.nn.Stacked.init(Layers, Block)(key=keys[1:])
    return Model(hax.nn.Linear.init(Heads, Dim, key=keys[0]), blocks)


model = make(0)
optimizer = optax.adam(1e-3)
state = {"model": model, "optimizer": optimizer.init(eqx.filter(model, eqx.is_array)), "step": 7}
espalier.save("run.espalier", state)

# The axes have names in the file, and a template with others is an error.
with espalier.open("run.espalier") as checkpoint:
    print(checkpoint["model"]["first"]["weight"].axis_names)

# The result has the types of the template: modules, named arrays, the optimizer's records.
fresh = make(1)
template = {"model": fresh, "optimizer": optimizer.init(eqx.filter(fresh, eqx.is_array)), "step": 0}
loaded = espalier.load("run.espalier", like=template)
assert eqx.tree_equal(loaded, state)

# The names and shapes are those of haliax's own state dicts: a stack of layers becomes one layer each.
espalier.save_safetensors("model.safetensors", model, metadata={"format": "pt"})
for name, tensor in espalier.open("model.safetensors").items():
    print(name, list(tensor.shape))
