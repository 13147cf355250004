"""Equinox: modules, functions in them, state; and training that goes on bit for bit."""

import dataclasses

import espalier
import numpy as np
import pytest

eqx = pytest.importorskip("equinox")
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import optax  # noqa: E402
from espalier import SKIP  # noqa: E402
from test_jax import same  # noqa: E402

OPTIMIZER = optax.adam(1e-2)


def mlp(seed=0, **options):
    return eqx.nn.MLP(3, 2, 8, 5, key=jax.random.key(seed), **options)


def begin(seed):
    model = mlp(seed)
    opt = OPTIMIZER.init(eqx.filter(model, eqx.is_array))
    return {"model": model, "opt": opt, "key": jax.random.key(seed), "step": 0}


@eqx.filter_jit
def _advance(model, opt, key):
    key, now = jax.random.split(key)
    inputs = jax.random.normal(now, (16, 3))
    gradients = eqx.filter_grad(lambda m: jnp.mean((jax.vmap(m)(inputs) - inputs[:, :2]) ** 2))(model)
    updates, opt = OPTIMIZER.update(gradients, opt, eqx.filter(model, eqx.is_array))
    return eqx.apply_updates(model, updates), opt, key


def train(state, steps):
    for _ in range(steps):
        model, opt, key = _advance(state["model"], state["opt"], state["key"])
        state = {"model": model, "opt": opt, "key": key, "step": state["step"] + 1}
    return state


def test_equinox_216_training_goes_on_bit_for_bit(file):
    half = train(begin(0), 5)
    espalier.save(file, half)
    resumed = espalier.load(file, like=begin(1))
    assert same(resumed, half) and resumed["step"] == 5
    assert same(train(resumed, 5), train(begin(0), 10))
    assert same(espalier.load(file, like=eqx.filter_eval_shape(begin, 1)), half)


def test_static_fields_are_not_in_the_file(file):
    espalier.save(file, mlp())
    with espalier.open(file) as checkpoint:
        assert checkpoint.state.label == "equinox.nn.MLP"
        assert checkpoint.keys() == ["layers", "activation", "final_activation"]
        assert checkpoint["layers"][0].keys() == ["weight", "bias"] and checkpoint["activation"] == "jax.nn.relu"
    # Another width, which is static, is another shape.
    with pytest.raises(espalier.TreeMismatch, match=r"layers/0/weight: f32 \[8, 3\] in the file, f32 \[9, 3\]"):
        espalier.load(file, like=eqx.nn.MLP(3, 2, 9, 5, key=jax.random.key(0)))


def test_functions_are_compared_by_name_and_stay_the_template_s(file):
    espalier.save(file, mlp())
    model, ledger = espalier.load(file, like=mlp(1), strict=False)
    assert same(model, mlp()) and ledger.kept == ["activation", "final_activation"] and not ledger.mismatched
    gelu = mlp(activation=jax.nn.gelu)
    with pytest.raises(espalier.TreeMismatch, match="activation: jax.nn.relu in the file, jax.nn.gelu in the template"):
        espalier.load(file, like=gelu)
    kept, _ = espalier.load(file, like=gelu, strict=False)
    assert kept.activation is jax.nn.gelu and same(kept.layers, mlp().layers)
    espalier.save(file, eqx.tree_at(lambda m: m.activation, mlp(), 5))
    with pytest.raises(espalier.TreeMismatch, match="activation: int64 in the file, jax.nn.relu in the template"):
        espalier.load(file, like=mlp())


def tied(seed=0):
    embedding, linear = eqx.nn.Embedding(5, 3, key=jax.random.key(seed)), eqx.nn.Linear(3, 5, key=jax.random.key(seed))
    return {"lm": eqx.nn.Shared((embedding, linear), lambda pair: pair[1].weight, lambda pair: pair[0].weight), "step": 3}


def test_shared_layers_come_back_tied(file):
    espalier.save(file, tied())
    with espalier.open(file) as opened:  # once, and a mark in the other place
        assert [path for path, found in opened.find("**/weight") if isinstance(found, espalier.Tensor)] == ["lm/pytree/0/weight"]
    loaded = espalier.load(file, like=tied(1))
    assert same(loaded["lm"](), tied()["lm"]()) and loaded["step"] == 3
    embedding, linear = loaded["lm"]()
    assert embedding.weight is linear.weight
    assert same(espalier.load(file, like=eqx.filter_eval_shape(tied, 1))["lm"](), tied()["lm"]())
    # Files of the arrays alone, and templates of these.
    arrays = eqx.filter(tied(), eqx.is_array)
    assert same(espalier.load(file, like={**eqx.filter(tied(1), eqx.is_array), "step": 0})["lm"], arrays["lm"])
    espalier.save(file, {**arrays, "step": 3})
    assert same(espalier.load(file, like=tied(1))["lm"](), tied()["lm"]())
    # An array in its place is no mark.
    espalier.save(file, {"lm": eqx.tree_at(lambda lm: lm.pytree[1].weight, tied()["lm"], jnp.ones(3)), "step": 3})
    with pytest.raises(espalier.TreeMismatch, match=r"lm/pytree/1/weight: f32 \[3\] in the file"):
        espalier.load(file, like=tied(1))


class Net(eqx.Module):
    functions: list


def test_functions_in_lists(file):
    saved = Net([jnp.tanh, (max, np.exp), {"a": jax.nn.silu}])
    espalier.save(file, saved)
    assert espalier.load(file)["functions"] == ["jax.numpy.tanh", ("max", "numpy.exp"), {"a": "jax.nn.silu"}]
    assert same(espalier.load(file, like=saved), saved)
    espalier.save(file, espalier.load(file))  # a Record, in which the names are text
    assert same(espalier.load(file, like=saved), saved)
    espalier.save(file, Net([]))
    assert same(espalier.load(file, like=saved, strict="file"), saved)
    espalier.save(file, Net([[1], 2]))
    with pytest.warns(UserWarning, match="nothing was loaded"):
        state, ledger = espalier.load(file, like=saved, strict=False)
    assert same(state, saved) and [each.path for each in ledger.mismatched] == ["functions/0", "functions/1"]


def test_functions_of_a_script_are_the_same_where_it_is_imported(file):
    def helper():
        pass

    helper.__module__, helper.__qualname__ = "__main__", "helper"
    espalier.save(file, Net([helper]))
    helper.__module__ = "script"
    assert espalier.load(file, like=Net([helper])).functions == [helper]
    espalier.save(file, Net([helper]))
    helper.__module__ = "__main__"
    assert espalier.load(file, like=Net([helper])).functions == [helper]
    helper.__qualname__ = "another"
    with pytest.raises(espalier.TreeMismatch, match="functions/0: script.helper in the file, __main__.another"):
        espalier.load(file, like=Net([helper]))


def test_trees_without_their_functions(file):
    model, arrays = mlp(), eqx.filter(mlp(), eqx.is_array)
    for saved, template in ((model, arrays), (arrays, model), (arrays, arrays)):
        espalier.save(file, saved)
        assert same(espalier.load(file, like=template), template)


def test_batch_norm_and_its_state(file):
    made = eqx.nn.make_with_state(eqx.nn.BatchNorm)(3, "batch", mode="batch")
    norm, state = made
    inputs = jnp.arange(12.0).reshape(4, 3)
    _, state = jax.vmap(norm, axis_name="batch", in_axes=(0, None), out_axes=(0, None))(inputs, state)
    espalier.save(file, (norm, state))
    with espalier.open(file) as checkpoint:
        assert checkpoint[1].label == "equinox.nn.State" and checkpoint[1].keys() == [
            "BatchNorm.batch_counter", "BatchNorm.batch_state_index",
        ]  # fmt: skip
    loaded_norm, loaded_state = espalier.load(file, like=made)
    assert same(loaded_state, state) and same(loaded_norm, norm)
    assert same(loaded_state.get(loaded_norm.batch_state_index), state.get(norm.batch_state_index))


def test_other_layers_come_back(file):
    keys = jax.random.split(jax.random.key(0), 5)
    state = [
        eqx.nn.MultiheadAttention(2, 4, key=keys[0]), eqx.nn.GRUCell(2, 3, key=keys[1]), eqx.nn.LayerNorm(4),
        eqx.nn.Sequential([eqx.nn.Linear(2, 2, key=keys[2]), eqx.nn.Lambda(jax.nn.relu), eqx.nn.Dropout(0.5)]),
        eqx.nn.Conv2d(1, 2, 3, key=keys[3]), eqx.nn.Embedding(4, 2, key=keys[4]), eqx.nn.PReLU(), eqx.nn.Identity(),
    ]  # fmt: skip
    espalier.save(file, state)
    assert same(espalier.load(file, like=state), state)
    assert same(espalier.load(file, like=eqx.filter_eval_shape(lambda: state)), state)


def test_equinox_216_a_static_field_added_later_does_not_break_the_file(file):
    class Net(eqx.Module):
        w: jax.Array

    class Later(eqx.Module):
        w: jax.Array
        scale: float = eqx.field(static=True)
        act: object = jax.nn.relu

    Later.__qualname__ = Net.__qualname__  # a later version of it
    espalier.save(file, Net(jnp.ones(3)))
    later, ledger = espalier.load(file, like=Later(jnp.zeros(3), 0.5), strict=False)
    assert later.w.tolist() == [1, 1, 1] and later.scale == 0.5 and ledger.kept == ["act"] and not ledger.missing
    assert same(espalier.load(file, like=Later(jnp.zeros(3), 0.5)), Later(jnp.ones(3), 0.5))


def test_equinox_216_some_arrays_alone_are_read(file):
    model = eqx.nn.MLP(64, 64, 64, 5, key=jax.random.key(0))
    espalier.save(file, model)
    data = bytearray(file.read_bytes())
    for layer in model.layers[1:5]:  # Reading these would be an error.
        data[data.index(np.asarray(layer.weight).tobytes())] ^= 1
    file.write_bytes(data)
    template = eqx.filter_eval_shape(lambda: model)
    with pytest.raises(espalier.Corrupt):
        espalier.load(file, like=template)
    where = lambda m: [layer.weight for layer in m.layers[1:5]]  # noqa: E731
    some = espalier.load(file, like=eqx.tree_at(where, template, replace=[SKIP] * 4))
    assert same(some.layers[0], model.layers[0]) and same(some.layers[5], model.layers[5])
    assert all(weight is SKIP for weight in where(some))
    assert same(espalier.load(file, at="layers/5", like=template.layers[5]), model.layers[5])
    # Surgery: what was read goes into another model.
    other = eqx.tree_at(lambda m: m.layers[0], eqx.nn.MLP(64, 64, 64, 5, key=jax.random.key(1)), some.layers[0])
    assert same(other.layers[0], model.layers[0])


def test_a_field_that_is_not_persistent_stays_the_template_s(file):
    class Net(eqx.Module):
        w: jax.Array
        cache: jax.Array = eqx.field(metadata={"persistent": False})

    espalier.save(file, Net(jnp.ones(2), jnp.ones(1000)))
    assert list(espalier.load(file)) == ["w"]
    loaded = espalier.load(file, like=Net(jnp.zeros(2), jnp.zeros(3)))
    assert same(loaded, Net(jnp.ones(2), jnp.zeros(3)))


def test_dataclasses_that_jax_does_not_know_have_all_of_their_fields_saved(file):
    @dataclasses.dataclass
    class Config:
        width: int
        model: object

    espalier.save(file, Config(3, mlp()))
    loaded = espalier.load(file, like=Config(0, mlp(1)))
    assert type(loaded) is Config and loaded.width == 3 and same(loaded.model, mlp())


def test_haliax_35_a_model_from_the_names_and_arrays_of_another_library(file):
    model = eqx.nn.MLP(2, 3, 4, 2, key=jax.random.key(0))
    fresh = eqx.nn.MLP(2, 3, 4, 2, key=jax.random.key(1))
    pairs = [(f"layers.{i}.{name}", getattr(model.layers[i], name)) for i in range(3) for name in ("weight", "bias")]
    names = {name: np.asarray(array) for name, array in pairs}
    espalier.save_safetensors(file.with_suffix(".safetensors"), names)
    assert same(espalier.load(file.with_suffix(".safetensors"), nest=True, like=fresh), model)
    flat = {"module": {name.replace("layers.", "l"): value for name, value in names.items()}}
    espalier.save(file, flat)
    named = {"espalier_map": 1, "right": {"tree": "nested"}, "rules": ["module.l{i}.{p*} <-> layers.{i}.{p*}"]}
    assert same(espalier.map(file, named).load(like=fresh), model)


def test_a_module_as_safetensors(tmp_path):
    class Scaled:
        def __init__(self, by):
            self.by = by

    class Net(eqx.Module):
        layers: tuple
        drop: eqx.nn.Dropout
        scaled: Scaled
        table: jax.Array = eqx.field(metadata={"persistent": False})

    espalier.register(Scaled, to=vars, of=lambda fields: Scaled(**fields))
    path = tmp_path / "m.safetensors"
    mlps = mlp(0), mlp(1)
    espalier.save_safetensors(path, Net(mlps, eqx.nn.Dropout(0.5), Scaled(jnp.arange(2.0)), jnp.zeros(9)))
    depth = len(mlps[0].layers)
    names = {f"layers.{i}.layers.{k}.{name}" for i in range(2) for k in range(depth) for name in ("weight", "bias")}
    loaded = espalier.load(path)
    assert loaded.keys() == {*names, "scaled.by"} and loaded["scaled.by"].tolist() == [0, 1]
    assert np.array_equal(loaded["layers.1.layers.0.weight"], mlps[1].layers[0].weight)
    # What a module has beside elements is refused, not left out.
    with pytest.raises(espalier.Unsupported, match="scaled.by"):
        espalier.save_safetensors(path, Net(mlps, None, Scaled(jax.random.key(0)), None))
    assert espalier.load(path).keys() == loaded.keys()


def test_levanter_part_of_a_state_into_a_skeleton(file, tmp_path):
    class TrainState(eqx.Module):
        step: jax.Array
        model: eqx.Module
        optimizer: optax.GradientTransformation = eqx.field(static=True)
        opt_state: object
        training_key: jax.Array

    def make(seed):
        model = mlp(seed)
        opt_state = OPTIMIZER.init(eqx.filter(model, eqx.is_array))
        return TrainState(jnp.asarray(seed), model, OPTIMIZER, opt_state, jax.random.key(seed))

    state, skeleton = make(1), eqx.filter_eval_shape(make, 0)
    espalier.save(file, state)
    # load_checkpoint(subpath="model")
    assert same(espalier.load(file, at="model", like=skeleton.model), state.model)
    # allow_missing
    del_opt = {"step": state.step, "model": state.model}
    espalier.save(file, del_opt)
    with pytest.raises(espalier.TreeMismatch, match=r"opt_state\b.*: missing in the file"):
        espalier.load(file, like=skeleton)
    initial = make(0)
    partly = espalier.load(file, like=initial, strict="file")
    assert same(partly.model, state.model) and partly.step == 1 and partly.training_key is initial.training_key
    partly = espalier.load(file, like={**del_opt, "training_key": state.training_key}, strict="file")
    assert partly["training_key"] is state.training_key
    # Load, or go on with what was initialised; keep the latest, and every n-th for good.
    with espalier.Checkpointer(tmp_path / "run", every=1, keep=2, keep_every=2) as checkpointer:
        assert checkpointer.restore(like=make(0))[1] == 0
        for step in range(1, 6):
            checkpointer.save(step, make(step))
    assert checkpointer.steps == [2, 4, 5]
    with espalier.Checkpointer(tmp_path / "run", every=1) as checkpointer:
        restored, step = checkpointer.restore(like=skeleton)
    assert step == 5 and same(restored, make(5))
    # Saved in float32, used in bfloat16.
    espalier.save(file, state.model)
    half = jax.tree.map(lambda a: a.astype(jnp.bfloat16) if eqx.is_array(a) else a, state.model)
    assert same(espalier.load(file, like=half, cast="float"), half)
