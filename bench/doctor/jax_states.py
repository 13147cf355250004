"""Trees of JAX's libraries and of Keras: flax with optax, equinox, and models of Keras with their optimizers."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("KERAS_BACKEND", "jax")

import numpy as np

from catalog import add


def flax_text(steps, optimizer_name):
    import flax.linen as nn
    import jax
    import optax

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = x + nn.MultiHeadDotProductAttention(4)(nn.LayerNorm()(x))
            return x + nn.Dense(96)(nn.gelu(nn.Dense(192)(nn.LayerNorm()(x))))

    class Model(nn.Module):
        @nn.compact
        def __call__(self, words):
            x = nn.Embed(500, 96)(words) + self.param("places", nn.initializers.normal(0.02), (16, 96))
            for _ in range(6):
                x = Block()(x)
            return nn.Dense(500)(nn.LayerNorm()(x))

    model, key = Model(), jax.random.PRNGKey(0)
    words = jax.random.randint(key, (8, 16), 0, 400)
    weights = model.init(key, words)
    optimizer = getattr(optax, optimizer_name)(1e-3)
    state = optimizer.init(weights)

    def loss(weights, words):
        return optax.softmax_cross_entropy_with_integer_labels(model.apply(weights, words), words).mean()

    gradient = jax.jit(jax.grad(loss))
    for step in range(steps):
        update, state = optimizer.update(gradient(weights, words), state, weights)
        weights = optax.apply_updates(weights, update)
        words = jax.random.randint(jax.random.PRNGKey(step), (8, 16), 0, 400)
    parts = {}
    for entry in jax.tree_util.tree_leaves(state, is_leaf=lambda node: hasattr(node, "_fields")):
        for field in getattr(entry, "_fields", ()):
            value = getattr(entry, field)
            parts[field] = value["params"] if isinstance(value, dict) else np.asarray(value)
    return {"params": weights["params"], "opt": parts}


def flax_images():
    import flax.linen as nn
    import jax

    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            for width in (16, 32, 32, 32, 32, 32):
                x = nn.relu(nn.BatchNorm(use_running_average=False)(nn.Conv(width, (3, 3))(x)))
            return nn.Dense(10)(x.mean((1, 2)))
    return Model().init(jax.random.PRNGKey(0), np.zeros((2, 16, 16, 3), "f4"))


def of_equinox():
    import equinox
    import jax
    keys = jax.random.split(jax.random.PRNGKey(0), 5)
    model = {"mlp": equinox.nn.MLP(16, 4, 128, 6, key=keys[0]), "attention": equinox.nn.MultiheadAttention(4, 64, key=keys[1]),
             "conv": equinox.nn.Conv2d(3, 16, 3, key=keys[2]), "gru": equinox.nn.GRUCell(32, 64, key=keys[3]), "words": equinox.nn.Embedding(100, 32, key=keys[4])}
    parts = jax.tree_util.tree_leaves_with_path(equinox.filter(model, equinox.is_array))
    return {"/".join(str(getattr(part, "name", getattr(part, "key", getattr(part, "idx", part)))) for part in path): value for path, value in parts}


def of_keras(kind, steps):
    import keras
    keras.utils.set_random_seed(1)
    layers = keras.layers
    if kind == "dense":
        model = keras.Sequential([layers.Input((64,)), *[layer for _ in range(6) for layer in (layers.Dense(96, "relu"), layers.BatchNormalization())], layers.Dense(10)])
        x = np.random.standard_normal((256, 64))
    elif kind == "conv":
        model = keras.Sequential([layers.Input((16, 16, 3)), *[layer for _ in range(6) for layer in (layers.Conv2D(32, 3, padding="same"), layers.BatchNormalization(), layers.ReLU())],
                                  layers.GlobalAveragePooling2D(), layers.Dense(10)])
        x = np.random.standard_normal((64, 16, 16, 3))
    else:
        model = keras.Sequential([layers.Input((16,)), layers.Embedding(300, 64), *[layers.LSTM(64, return_sequences=True) for _ in range(4)], layers.GRU(64), layers.Dense(10)])
        x = np.random.randint(0, 250, (64, 16))
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    if steps:
        model.fit(x, np.random.randint(0, 10, len(x)), epochs=steps, batch_size=32, verbose=0)
    state = {f"model/{variable.path}": np.asarray(variable) for variable in model.variables}
    return state | {f"optimizer/{variable.path}": np.asarray(variable) for variable in model.optimizer.variables}


for key, count in (("adamw", 0), ("adamw", 20), ("adafactor", 20), ("lion", 20), ("rmsprop", 20), ("adagrad", 20)):
    add("JAX and Keras", f"flax-text-{key}-{count}", lambda key=key, count=count: flax_text(count, key))
add("JAX and Keras", "flax-images", flax_images)
add("JAX and Keras", "equinox", of_equinox)
for key in ("dense", "conv", "recurrent"):
    for count in (0, 3):
        add("JAX and Keras", f"keras-{key}-{count}", lambda key=key, count=count: of_keras(key, count))
