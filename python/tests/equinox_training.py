"""A small transformer in Equinox, with optax's AdamW, a schedule, dropout and a typed PRNG key."""

import equinox as eqx
import espalier
import jax
import jax.numpy as jnp
import optax
from killed_training import Batches


class Block(eqx.Module):
    attention: eqx.nn.MultiheadAttention
    mlp: eqx.nn.MLP
    norms: list[eqx.nn.LayerNorm]
    dropout: eqx.nn.Dropout

    def __init__(self, key):
        keys = jax.random.split(key)
        self.attention = eqx.nn.MultiheadAttention(4, 32, key=keys[0])
        self.mlp = eqx.nn.MLP(32, 32, 64, 1, activation=jax.nn.gelu, key=keys[1])
        self.norms = [eqx.nn.LayerNorm(32), eqx.nn.LayerNorm(32)]
        self.dropout = eqx.nn.Dropout(0.1)

    def __call__(self, hidden, key):
        keys = jax.random.split(key)
        normed = jax.vmap(self.norms[0])(hidden)
        hidden += self.dropout(self.attention(normed, normed, normed), key=keys[0])
        return hidden + self.dropout(jax.vmap(self.mlp)(jax.vmap(self.norms[1])(hidden)), key=keys[1])


class Transformer(eqx.Module):
    embed: eqx.nn.Embedding
    position: jax.Array
    blocks: list[Block]

    def __init__(self, key):
        keys = jax.random.split(key, 4)
        self.embed = eqx.nn.Embedding(17, 32, key=keys[0])
        self.position = jax.random.normal(keys[1], (12, 32))
        self.blocks = [Block(keys[2]), Block(keys[3])]

    def __call__(self, tokens, key):
        hidden = jax.vmap(self.embed)(tokens) + self.position
        for block, each in zip(self.blocks, jax.random.split(key, len(self.blocks)), strict=True):
            hidden = block(hidden, each)
        return hidden @ self.embed.weight.T


def train(folder, steps):
    # What one process compiled the next ones take: a start takes a second or two, not ten.
    jax.config.update("jax_compilation_cache_dir", str(folder.parent / "compiled"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    optimizer = optax.adamw(optax.cosine_onecycle_schedule(steps, 1e-2))
    model = Transformer(jax.random.key(0))
    data = Batches()

    @eqx.filter_jit
    def advance(model, opt, key, tokens):
        key, now = jax.random.split(key)

        def loss_of(model):
            logits = jax.vmap(model)(tokens[:, :-1], jax.random.split(now, len(tokens)))
            return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

        loss, gradients = eqx.filter_value_and_grad(loss_of)(model)
        updates, opt = optimizer.update(gradients, opt, eqx.filter(model, eqx.is_array))
        return eqx.apply_updates(model, updates), opt, key, loss

    state = {
        "model": model, "opt": optimizer.init(eqx.filter(model, eqx.is_array)), "key": jax.random.key(1),
        "data": data.state_dict(), "losses": espalier.ANY,
    }  # fmt: skip
    with espalier.Checkpointer(folder, keep=2, sync=False) as checkpointer:
        state, step = checkpointer.restore(like=state)
        losses = state["losses"] if step else []
        data.load_state_dict(state["data"])
        model, opt, key = state["model"], state["opt"], state["key"]
        for step in range(step + 1, steps + 1):
            model, opt, key, loss = advance(model, opt, key, jnp.asarray(next(data)))
            losses.append(float(loss))
            state = {"model": model, "opt": opt, "key": key, "data": data.state_dict(), "losses": losses}
            checkpointer.save(step, state)
    assert len(losses) == steps
