"""flax: FrozenDict, dataclasses of flax.struct, linen's variables, and nnx."""

import espalier
import numpy as np
import pytest

flax = pytest.importorskip("flax")
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import optax  # noqa: E402
from flax import linen, nnx, struct  # noqa: E402
from flax.core import FrozenDict, freeze  # noqa: E402
from flax.training.train_state import TrainState  # noqa: E402
from jax.sharding import NamedSharding, PartitionSpec  # noqa: E402
from test_jax import mesh_of, same  # noqa: E402


class Dense(linen.Module):
    @linen.compact
    def __call__(self, inputs):
        hidden = linen.BatchNorm(use_running_average=False)(linen.Dense(4)(inputs))
        init = linen.with_partitioning(linen.initializers.lecun_normal(), ("in", "out"))
        return linen.Dense(2, kernel_init=init)(hidden)


class Net(nnx.Module):
    def __init__(self, rngs):
        self.linear = nnx.Linear(2, 3, rngs=rngs)
        self.norm = nnx.BatchNorm(3, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.layers = nnx.List([nnx.Linear(3, 3, rngs=rngs)])
        self.tied = self.linear.kernel

    def __call__(self, inputs):
        return self.layers[0](self.dropout(self.norm(self.linear(inputs))))


def net(seed):
    return Net(nnx.Rngs(seed))


def test_frozen_dicts(file):
    state = freeze({"a": {"b": jnp.ones(2)}, "c": jnp.zeros(3)})
    espalier.save(file, state)
    for loaded in (espalier.load(file, framework="jax"), espalier.load(file, like=state)):
        assert type(loaded) is FrozenDict and same(loaded, state)
    template = {"a": {"b": espalier.ANY}, "c": jnp.ones(3)}
    assert same(espalier.load(file, like=template, framework="jax"), state.unfreeze())
    left = espalier.load(file, like=freeze({"a": espalier.SKIP, "c": jnp.ones(3)}))
    assert same(left, freeze({"c": jnp.zeros(3)}))


def test_dataclasses_of_flax(file):
    @struct.dataclass
    class State:
        w: jax.Array
        rate: float
        name: str = struct.field(pytree_node=False)

    espalier.save(file, State(jnp.ones(2), 0.5, "saved"))
    assert list(espalier.load(file)) == ["w", "rate"]
    assert same(espalier.load(file, like=State(jnp.zeros(2), 0.0, "mine")), State(jnp.ones(2), 0.5, "mine"))


def test_variables_and_train_state_of_linen(file):
    model = Dense()

    def make(seed):
        variables = model.init(jax.random.key(seed), jnp.ones((2, 3)))
        state = TrainState.create(apply_fn=model.apply, params=variables["params"], tx=optimizer)
        return {"train": state, "batch_stats": variables["batch_stats"]}

    optimizer = optax.adam(1e-3)
    state = make(0)
    espalier.save(file, state)
    assert same(espalier.load(file, like=make(1)), state)
    # JAX makes an array of the step, which flax begins with an int.
    template = jax.eval_shape(lambda: make(1))
    with pytest.raises(espalier.TreeMismatch, match=r"train/step: int64 in the file, i32 \[\] in the template"):
        espalier.load(file, like=template)
    template["train"] = template["train"].replace(step=0)
    assert same(espalier.load(file, like=template), state)
    kernel = espalier.load(file)["train"]["params"]["Dense_1"]["kernel"]
    assert kernel.label == "flax.core.meta.Partitioned" and list(kernel) == ["value"]


def test_states_of_nnx(file):
    state = nnx.state(net(0))
    espalier.save(file, state)
    with espalier.open(file) as checkpoint:
        assert checkpoint.state.label == "flax.nnx.State" and checkpoint.at("linear/kernel").label == "flax.nnx.Param"
        assert checkpoint.at("norm/mean").label == "flax.nnx.BatchStat"
        assert checkpoint["layers"].keys() == [0]
        assert checkpoint.at("dropout/rngs/key").label == "flax.nnx.RngKey"
    for template in (nnx.state(net(1)), nnx.state(nnx.eval_shape(lambda: net(1)))):
        loaded = espalier.load(file, like=template)
        assert same(loaded, state) and type(loaded["linear"]["kernel"]) is nnx.Param
        model = net(2)
        nnx.update(model, loaded)
        assert same(nnx.state(model), state)


def test_parameters_of_nnx_without_a_template(file):
    espalier.save(file, nnx.state(net(0), nnx.Param))
    loaded = espalier.load(file, framework="jax")
    assert type(loaded) is dict and list(loaded["layers"]) == [0] and isinstance(loaded["linear"]["kernel"], jax.Array)
    model = net(1)
    nnx.update(model, loaded)
    assert same(nnx.state(model, nnx.Param), nnx.state(net(0), nnx.Param))


def test_variables_of_nnx_below_a_level_of_their_own(file):
    module = nnx.Linear(2, 3, rngs=nnx.Rngs(0))
    levels = {"kernel": {"value": module.kernel[...]}, "bias": {"value": module.bias[...]}}
    for there in (levels, nnx.to_pure_dict(nnx.state(module))):
        espalier.save(file, there)
        loaded = espalier.load(file, like=nnx.Linear(2, 3, rngs=nnx.Rngs(1)))
        assert same(loaded.kernel[...], module.kernel[...]) and same(loaded.bias[...], module.bias[...])
    espalier.save(file, {**levels, "kernel": {"value": module.kernel[...], "mu": 1}})
    with pytest.raises(espalier.TreeMismatch, match="kernel: dict in the file"):
        espalier.load(file, like=module)


def test_modules_and_optimizers_of_nnx(file):
    def make(seed):
        model = net(seed)
        return {"model": model, "opt": nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)}

    state = make(0)
    gradients = nnx.grad(lambda model: jnp.mean(model(jnp.ones((4, 2))) ** 2))(state["model"])
    state["opt"].update(state["model"], gradients)
    espalier.save(file, state)
    for template in (make(1), nnx.eval_shape(lambda: make(1))):
        loaded = espalier.load(file, like=template)
        assert type(loaded["model"]) is Net and loaded["model"].tied is loaded["model"].linear.kernel
        assert all(same(nnx.state(loaded[key]), nnx.state(state[key])) for key in state)
    with espalier.open(file) as checkpoint:
        assert "tied" not in checkpoint["model"]
        assert checkpoint.at("opt/opt_state/0/mu/linear/kernel").label == "flax.nnx.OptVariable"


def test_streams_of_random_numbers_of_nnx(file):
    rngs = nnx.Rngs(0, dropout=1)
    rngs.dropout()
    espalier.save(file, rngs)
    loaded = espalier.load(file, like=nnx.Rngs(5, dropout=5))
    assert type(loaded) is nnx.Rngs and same(nnx.state(loaded), nnx.state(rngs))
    assert same(loaded.dropout(), rngs.dropout())


def test_sharded_variables_of_nnx(file):
    kernel = jax.device_put(jnp.arange(8.0).reshape(4, 2), NamedSharding(mesh_of(2), PartitionSpec("x")))
    state = nnx.State({"w": nnx.Param(kernel), "values": nnx.Variable({"a": jnp.ones(2), "n": 3})})
    espalier.save(file, state)
    loaded = espalier.load(file, like=state)
    assert same(loaded, state) and loaded["w"].get_raw_value().sharding == kernel.sharding
    assert np.array_equal(espalier.load(file)["w"], kernel) and espalier.load(file)["values"].value["n"] == 3
