"""Some arrays of an Equinox model alone, and the whole training for going on: model, optimizer, key and step (equinox#216)."""

import equinox as eqx
import espalier
import jax
import jax.numpy as jnp
import optax

optimizer = optax.adam(1e-2)


def start(seed):
    model_key, key = jax.random.split(jax.random.key(seed))
    model = eqx.nn.MLP(2, 1, 16, 2, key=model_key)
    return {"model": model, "optimizer": optimizer.init(eqx.filter(model, eqx.is_array)), "key": key, "step": jnp.array(0)}


@eqx.filter_jit
def train(state):
    key, batch_key = jax.random.split(state["key"])
    x = jax.random.normal(batch_key, (32, 2))
    loss = lambda model: jnp.mean((jax.vmap(model)(x)[:, 0] - x[:, 0] * x[:, 1]) ** 2)
    grads = eqx.filter_grad(loss)(state["model"])
    updates, moments = optimizer.update(grads, state["optimizer"])
    return {"model": eqx.apply_updates(state["model"], updates), "optimizer": moments, "key": key, "step": state["step"] + 1}


state = start(0)
for _ in range(10):
    state = train(state)
espalier.save("run.espalier", state)

# The file has a tree, so a part of it has a path. Only the bytes of these two arrays are read.
with espalier.open("run.espalier") as checkpoint:
    layers = checkpoint.at("model/layers")
    weights = [layers[0]["weight"].jax(), layers[2]["weight"].jax()]
print([w.shape for w in weights])

# Surgery: the first layer of the file in a new model.
model = start(1)["model"]
model = eqx.tree_at(lambda m: m.layers[0], model, espalier.load("run.espalier", at="model/layers/0", like=model.layers[0]))

# Going on from the file is the same as never having stopped, to the last bit.
again = espalier.load("run.espalier", like=start(2))
for _ in range(10):
    state, again = train(state), train(again)
print("step", int(again["step"]), "equal:", bool(eqx.tree_equal(again, state)))
