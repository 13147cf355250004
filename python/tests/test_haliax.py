"""haliax: arrays with named axes."""

import espalier
import numpy as np
import pytest

hax = pytest.importorskip("haliax")
import equinox as eqx  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import optax  # noqa: E402
from haliax import Axis  # noqa: E402
from jax.sharding import NamedSharding, PartitionSpec  # noqa: E402
from test_jax import Reads, mesh_of, same  # noqa: E402

HEADS, DIM, LAYERS = Axis("heads", 2), Axis("dim", 4), Axis("layers", 4)


class Block(eqx.Module):
    linear: hax.nn.Linear

    @staticmethod
    def init(key):
        return Block(hax.nn.Linear.init((HEADS,), DIM, key=key))


def test_named_arrays_come_back(file):
    normal = hax.random.normal(jax.random.key(0), (HEADS, DIM))
    state = {"w": normal, "s": hax.named(jnp.float32(1), ()), "raw": jnp.ones(2)}
    espalier.save(file, state)
    with espalier.open(file) as checkpoint:
        assert checkpoint["w"].axis_names == ("heads", "dim") and checkpoint["w"].label is None
    for loaded in (espalier.load(file, like=state), espalier.load(file, like=eqx.filter_eval_shape(lambda: state))):
        assert same(loaded, state)
    assert same(espalier.load(file, framework="jax")["w"], state["w"])
    assert np.array_equal(espalier.load(file)["w"], state["w"].array)


def test_haliax_35_two_axes_of_one_size_that_are_swapped_are_an_error(file):
    a, b = Axis("a", 3), Axis("b", 3)
    espalier.save(file, {"w": hax.ones((a, b))})
    with pytest.raises(espalier.TreeMismatch, match=r"w: f32 .* \['a', 'b'\] in the file, f32 .* \['b', 'a'\] in the"):
        espalier.load(file, like={"w": hax.ones((b, a))})
    # Names are compared where both have them.
    assert same(espalier.load(file, like={"w": jnp.zeros((3, 3))})["w"], jnp.ones((3, 3)))
    espalier.save(file, {"w": jnp.ones((3, 3))})
    assert same(espalier.load(file, like={"w": hax.zeros((b, a))})["w"], hax.ones((b, a)))


def test_haliax_35_an_array_below_a_level_of_its_own(file):
    named = hax.named(jnp.arange(6.0).reshape(2, 3), (Axis("a", 2), Axis("b", 3)))
    for there in ([named.array], (named.array,)):
        espalier.save(file, {"w": there})
        loaded, ledger = espalier.load(file, like={"w": hax.zeros(named.axes)}, strict=False)
        assert same(loaded["w"], named) and [each.path for each in ledger.relabelled] == ["w"]
    for wrong in ([named.array, 1], [], {"value": named.array}, [[named.array]], [1]):
        espalier.save(file, {"w": wrong})
        with pytest.raises(espalier.TreeMismatch):
            espalier.load(file, like={"w": hax.zeros(named.axes)})
    espalier.save(file, {"w": [named.array]})
    with pytest.raises(espalier.TreeMismatch):
        espalier.load(file, like={"w": jnp.zeros((2, 3))})
    with pytest.raises(espalier.TreeMismatch, match=r"w: f32 \[2, 3\]"):
        espalier.load(file, like={"w": hax.zeros((Axis("a", 3), Axis("b", 2)))})


def test_haliax_35_a_model_with_its_optimizer_s_state(file):
    model = hax.nn.Stacked.init(LAYERS, Block)(key=jax.random.split(jax.random.key(0), 4))
    state = {"model": model, "opt": optax.adam(1e-3).init(eqx.filter(model, eqx.is_array)), "key": jax.random.key(1)}
    espalier.save(file, state)
    assert same(espalier.load(file, like=state), state)
    with espalier.open(file) as checkpoint:
        weight = checkpoint.at("model/stacked/linear/weight")
        assert weight.shape == (4, 4, 2) and weight.axis_names == ("layers", "dim", "heads")
        assert checkpoint.at("opt/0/mu/stacked/linear/weight").axis_names == weight.axis_names


def test_haliax_35_names_with_dots_are_not_merged(file):
    state = {"a.b": hax.ones(DIM), "a": {"b": hax.zeros(DIM)}}
    espalier.save(file, state)
    assert same(espalier.load(file, like=state), state)
    # A safetensors file has one name for both: to_state_dict() of haliax takes the last without a word.
    arrays = {"a.b": np.ones(4, np.float32), "a": {"b": np.zeros(4, np.float32)}}
    with pytest.raises(espalier.EspalierError, match=r"a\.b"):
        espalier.save_safetensors(file.with_suffix(".safetensors"), arrays)
    assert not file.with_suffix(".safetensors").exists()


def test_haliax_35_state_dicts_are_saved_as_they_are(file):
    from haliax.state_dict import from_torch_compatible_state_dict, to_torch_compatible_state_dict

    model = hax.nn.Stacked.init(LAYERS, Block)(key=jax.random.split(jax.random.key(0), 4))
    exported = to_torch_compatible_state_dict(model)
    espalier.save(file, exported)
    loaded = espalier.load(file, like=exported)
    assert sorted(loaded)[:2] == ["0.linear.bias", "0.linear.weight"] and len(loaded) == 8
    fresh = hax.nn.Stacked.init(LAYERS, Block)(key=jax.random.split(jax.random.key(1), 4))
    assert same(from_torch_compatible_state_dict(fresh, espalier.load(file, framework="jax")), model)
    # A gap and a fifth layer are named.
    del exported["2.linear.weight"]
    exported["4.linear.weight"] = exported["0.linear.weight"]
    espalier.save(file, exported)
    with pytest.raises(espalier.TreeMismatch) as error:
        espalier.load(file, like=loaded)
    assert error.value.ledger.missing == ["2.linear.weight"] and error.value.ledger.unexpected == ["4.linear.weight"]


@pytest.mark.parametrize("options", [{"prefix": "lm.decoder"}, {"prefix": None}, {}], ids=["given", "None", "absent"])
def test_haliax_35_a_prefix_of_all_names(file, options):
    from haliax.state_dict import from_torch_compatible_state_dict, to_torch_compatible_state_dict

    model = hax.nn.Stacked.init(LAYERS, Block)(key=jax.random.split(jax.random.key(0), 4))
    exported = to_torch_compatible_state_dict(model, **options)
    prefix = "lm.decoder." if options.get("prefix") else ""
    assert f"{prefix}3.linear.weight" in exported and len(exported) == 8
    espalier.save(file, exported)
    loaded = espalier.load(file, framework="jax")
    fresh = hax.nn.Stacked.init(LAYERS, Block)(key=jax.random.split(jax.random.key(1), 4))
    assert same(from_torch_compatible_state_dict(fresh, loaded, **options), model)
    # The names as a tree, in which the prefix is a key path.
    nested = espalier.load(file, nest=True, at=f"{prefix}3.linear".replace(".", "/"))
    assert np.array_equal(nested["weight"], exported[f"{prefix}3.linear.weight"])


def test_haliax_35_a_key_map_renames_fields_and_leaves_levels_out(file):
    from haliax.state_dict import ModuleWithStateDictSerialization, from_state_dict, to_state_dict

    class Model(ModuleWithStateDictSerialization):
        transformer: Block
        norm: hax.nn.Linear

        def _state_dict_key_map(self):
            return {"transformer": None, "norm": "ln_f"}

        @staticmethod
        def init(seed):
            keys = jax.random.split(jax.random.key(seed))
            return Model(Block.init(keys[0]), hax.nn.Linear.init(DIM, HEADS, key=keys[1]))

    model = Model.init(0)
    exported = to_state_dict(model)
    assert sorted(exported) == ["linear.bias", "linear.weight", "ln_f.bias", "ln_f.weight"]
    espalier.save(file, exported)
    assert same(from_state_dict(Model.init(1), espalier.load(file, framework="jax")), model)
    # Our own file has the fields by their names: nothing is left out, so nothing can collide.
    espalier.save(file, model)
    with espalier.open(file) as checkpoint:
        assert checkpoint.keys() == ["transformer", "norm"]
    assert same(espalier.load(file, like=Model.init(1)), model)


def test_haliax_35_a_field_that_is_not_persistent_comes_from_the_template(file):
    class Rotary(eqx.Module):
        weight: hax.NamedArray
        table: hax.NamedArray = eqx.field(metadata={"persistent": False})

    espalier.save(file, Rotary(hax.ones(DIM), hax.ones((HEADS, DIM))))
    with espalier.open(file) as checkpoint:
        assert checkpoint.keys() == ["weight"] and checkpoint["weight"].axis_names == ("dim",)
    table = hax.zeros((LAYERS, DIM))
    assert same(espalier.load(file, like=Rotary(hax.zeros(DIM), table)), Rotary(hax.ones(DIM), table))


def test_haliax_35_a_state_dict_is_written_byte_for_byte_as_by_haliax(tmp_path):
    from espalier.compat.safetensors.numpy import load_file, save_file
    from haliax.state_dict import load_state_dict, save_state_dict, to_numpy_state_dict

    model = hax.nn.Stacked.init(LAYERS, Block)(key=jax.random.split(jax.random.key(0), 4))
    exported = {name: np.asarray(array) for name, array in to_numpy_state_dict(model).items()}
    theirs, ours = tmp_path / "theirs.safetensors", tmp_path / "ours.safetensors"
    save_state_dict(exported, theirs)
    save_file(exported, ours, {"format": "pt"})
    assert ours.read_bytes() == theirs.read_bytes()
    espalier.save_safetensors(ours, exported, metadata={"format": "pt"})
    assert ours.read_bytes() == theirs.read_bytes()
    # And back: we read theirs, and haliax ours.
    for loaded in (espalier.load(theirs), load_file(theirs), load_state_dict(ours)):
        assert sorted(loaded) == sorted(exported) and all(np.array_equal(loaded[name], exported[name]) for name in exported)


def test_modules_are_written_as_safetensors_with_the_names_and_arrays_of_haliax(tmp_path):
    from haliax.state_dict import save_state_dict, to_torch_compatible_state_dict

    class Net(eqx.Module):
        """Of both libraries, with an array of numpy, and with parts that are no arrays."""

        blocks: list
        scale: np.ndarray
        out: eqx.nn.Linear
        act: object = jax.nn.relu
        rate: float = 0.5

    keys = jax.random.split(jax.random.key(0), 4)
    linear = hax.nn.Linear.init((HEADS, DIM), (DIM.alias("a"), HEADS.alias("b")), key=keys[0])  # is flattened to two axes
    blocks = [kind.init(LAYERS, Block)(key=keys) for kind in (hax.nn.BlockSeq, hax.nn.Stacked)]
    net = Net([linear, *blocks, {"norm": hax.nn.LayerNorm.init(DIM)}], np.arange(3.0), eqx.nn.Linear(2, 3, key=keys[1]))
    theirs, ours = tmp_path / "theirs.safetensors", tmp_path / "ours.safetensors"
    for module in (linear, net):
        save_state_dict({name: np.ascontiguousarray(a) for name, a in to_torch_compatible_state_dict(module).items()}, theirs)
        assert espalier.save_safetensors(ours, module, metadata={"format": "pt"}) == []
        assert ours.read_bytes() == theirs.read_bytes()
    assert espalier.load(ours)["blocks.0.weight"].shape == (8, 8) and "blocks.1.3.linear.bias" in espalier.load(ours)
    # Within a state, with a prefix; and in several files.
    names = to_torch_compatible_state_dict(net, prefix="model")
    espalier.save_safetensors(ours, {"model": net})
    loaded = espalier.load(ours)
    assert loaded.keys() == names.keys() and all(np.array_equal(loaded[name], names[name]) for name in names)
    espalier.save_safetensors(ours, {"model": net}, max_shard_size=100)
    assert espalier.load(tmp_path / "ours.safetensors.index.json").keys() == names.keys()

    class Twice(hax.state_dict.ModuleWithStateDictSerialization):
        a: jax.Array
        b: jax.Array

        def _state_dict_key_map(self):
            return {"a": "b"}

    class Dotted(eqx.Module):
        parts: dict

    for module in (Twice(jnp.ones(2), jnp.zeros(2)), Dotted({"a.b": jnp.ones(2), "a": {"b": jnp.zeros(2)}})):
        with pytest.raises(espalier.EspalierError, match="the same name|both get the name") as caught:
            espalier.save_safetensors(ours, {"m": module})
        assert caught.value.code == "name_collision"


def test_sharded_named_arrays_are_read_by_slices(file, monkeypatch):
    array = jax.device_put(jnp.arange(8.0).reshape(2, 4), NamedSharding(mesh_of(2), PartitionSpec(None, "x")))
    state = {"w": hax.named(array, (HEADS, DIM))}
    espalier.save(file, state)
    reads = Reads(monkeypatch)
    assert same(espalier.load(file, like=state), state)
    assert reads.slices == [("w", 16), ("w", 16)]


def test_a_tree_without_its_arrays(file):
    model = Block.init(jax.random.key(0))
    rest = eqx.filter(model, eqx.is_array, inverse=True)
    espalier.save(file, rest)
    assert same(espalier.load(file, like=rest), rest)


def test_axis_names_that_haliax_has_no_axes_for(file):
    espalier.save(file, {"w": espalier.AxisNamed(np.ones((2, 2), np.float32), ("a", "a"))})
    assert same(espalier.load(file, framework="jax")["w"], jnp.ones((2, 2)))
    with pytest.raises(espalier.Unsupported, match="k: a NamedArray of PRNG keys"):
        espalier.save(file, {"k": hax.named(jax.random.split(jax.random.key(0), 2), "heads")})
