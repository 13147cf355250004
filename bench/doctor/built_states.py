"""Transformers made with NumPy alone, by initialiser: what tests/health uses, too."""

import numpy as np

from catalog import add, number_of
from state_file import leaves

LAYERS, WIDTH, WORDS = 8, 96, 500


def orthogonal(chance, shape):
    q, r = np.linalg.qr(chance.standard_normal((max(shape), min(shape))))
    q = q * np.sign(np.diag(r))
    return q if q.shape == shape else q.T


def truncated(chance, shape):
    values = chance.standard_normal(shape)
    while (far := np.abs(values) > 2).any():
        values[far] = chance.standard_normal(int(far.sum()))
    return values * 0.02


# By name: a function of a source of chance, a shape and the share of the depth.
INITIALISERS = {
    "normal": lambda chance, shape, depth: chance.standard_normal(shape) * 0.02,
    "truncated": lambda chance, shape, depth: truncated(chance, shape),
    "xavier_uniform": lambda chance, shape, depth: chance.uniform(-1, 1, shape) * np.sqrt(6 / sum(shape)),
    "xavier_normal": lambda chance, shape, depth: chance.standard_normal(shape) * np.sqrt(2 / sum(shape)),
    "kaiming_uniform": lambda chance, shape, depth: chance.uniform(-1, 1, shape) * np.sqrt(1 / shape[-1]),
    "kaiming_normal": lambda chance, shape, depth: chance.standard_normal(shape) * np.sqrt(2 / shape[-1]),
    "orthogonal": lambda chance, shape, depth: orthogonal(chance, shape),
    "laplace": lambda chance, shape, depth: chance.laplace(size=shape) * 0.015,
    "by_depth": lambda chance, shape, depth: chance.standard_normal(shape) * 0.02 / np.sqrt(1 + LAYERS * depth),
    "small": lambda chance, shape, depth: chance.standard_normal(shape) * np.sqrt(2 / (5 * shape[-1])),
}


def transformer(chance, initialise, layers=LAYERS, width=WIDTH, separator="/", trained=0.0, wide=None):
    """Weights by path; `trained` is how far gains and biases have moved from ones and zeros."""
    wide = wide or 2 * width

    def moved(size):
        return trained * chance.standard_normal(size) if trained else np.zeros(size)

    state = {"embed/weight": chance.standard_normal((WORDS, width)) * 0.02}
    for layer in range(layers):
        depth = layer / layers
        shapes = {"attn/q": (width, width), "attn/k": (width, width), "attn/v": (width, width), "attn/o": (width, width),
                  "mlp/up": (wide, width), "mlp/down": (width, wide)}
        for name, shape in shapes.items():
            state[f"layers/{layer}/{name}/weight"] = initialise(chance, shape, depth)
            state[f"layers/{layer}/{name}/bias"] = moved(shape[0])
        for name in ("norm1", "norm2"):
            state[f"layers/{layer}/{name}/weight"] = 1 + moved(width)
            state[f"layers/{layer}/{name}/bias"] = moved(width)
    state["norm/weight"] = 1 + moved(width)
    state["head/weight"] = chance.standard_normal((WORDS, width)) * 0.02
    return {name.replace("/", separator): np.asarray(values, "f4") for name, values in state.items()}


def with_moments(chance, weights):
    """A training state: weights, Adam's averages and the step of each."""
    state = {f"model/{name}": values for name, values in weights.items()}
    for number, values in enumerate(weights.values()):
        gradient = chance.standard_normal(values.shape) * 1e-3 * chance.uniform(0.5, 2)
        squares = gradient**2 * chance.uniform(1, 4, values.shape) + 1e-9 * chance.random(values.shape)
        state[f"opt/state/{number}/exp_avg"] = gradient.astype("f4")
        state[f"opt/state/{number}/exp_avg_sq"] = squares.astype("f4")
        state[f"opt/state/{number}/step"] = np.float32(100)
    return state


def built(name, **options):
    chance = np.random.default_rng(number_of(name))
    return transformer(chance, INITIALISERS[name.split("-")[1]], **options)


for key in INITIALISERS:
    add("initialisers", f"built-{key}", lambda key=key: leaves(built(f"built-{key}")))
    add("initialisers", f"built-{key}-moved", lambda key=key: leaves(built(f"built-{key}-moved", trained=0.05)))
    add("initialisers", f"built-{key}-deep", lambda key=key: leaves(built(f"built-{key}-deep", layers=24, width=48, trained=0.02, separator=".")))
add("initialisers", "built-normal-adam",
    lambda: leaves(with_moments(np.random.default_rng(7), built("built-normal-adam", trained=0.05))))
