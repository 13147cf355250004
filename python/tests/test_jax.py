"""JAX: arrays, typed keys, sharded arrays and registered classes, saved and loaded."""

import ctypes
import pathlib
import pickle
import resource
import subprocess
import sys

import espalier
import ml_dtypes
import numpy as np
import pytest

jax = pytest.importorskip("jax")
optax = pytest.importorskip("optax")
import jax.numpy as jnp  # noqa: E402
from espalier import _encode, _jax, _jax_memory  # noqa: E402
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding  # noqa: E402

DTYPES = [
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "bfloat16", "float32", "complex64",
    "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn", "int4",
    "uint4", "int2", "uint2",
]  # fmt: skip


def same(a, b):
    """The same types, structure, dtypes, bits and devices."""
    one, structure = jax.tree.flatten(a)
    other, other_structure = jax.tree.flatten(b)
    return structure == other_structure and all(map(_same_leaf, one, other))


def _same_leaf(a, b):
    if not isinstance(a, jax.Array):
        return a is b or type(a) is type(b) and a == b
    if not isinstance(b, jax.Array) or a.dtype != b.dtype or a.shape != b.shape or a.sharding != b.sharding:
        return False
    if jax.dtypes.issubdtype(a.dtype, jax.dtypes.prng_key):
        a, b = jax.random.key_data(a), jax.random.key_data(b)
    return np.asarray(a).tobytes() == np.asarray(b).tobytes()


def shapes(state):
    return jax.eval_shape(lambda: state)


def mesh_of(*counts):
    return jax.make_mesh(counts, ("x", "y")[: len(counts)], devices=jax.devices()[: int(np.prod(counts))])


def sharded(array, mesh, *axes):
    return jax.device_put(array, NamedSharding(mesh, PartitionSpec(*axes)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_of_every_dtype_come_back(file, dtype):
    numbers = jnp.arange(12) % 2 if dtype.endswith("2") else jnp.arange(12) % 7
    few = numbers.astype(getattr(jnp, dtype)).reshape(3, 4)
    state = {"few": few, "empty": few[:0], "many": jnp.tile(few, (50, 60))}
    if dtype not in ("float4_e2m1fn", "int4", "uint4", "int2", "uint2"):  # elements that fill bytes
        state["scalar"] = few[1, 1]
    espalier.save(file, state)
    assert same(espalier.load(file, framework="jax"), state)
    assert same(espalier.load(file, like=state), state)
    assert same(espalier.load(file, like=shapes(state)), state)
    with espalier.open(file) as checkpoint:
        assert same(checkpoint["few"].jax(), few)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64", "complex128"])
def test_arrays_of_64_bits_are_never_narrowed(file, dtype):
    state = {"a": np.arange(6).astype(dtype).reshape(2, 3)}
    espalier.save(file, state)
    for like in (None, {"a": jax.ShapeDtypeStruct((2, 3), np.dtype(dtype))}):
        message = rf"a: JAX would make .* of an array of {dtype} and shape \[2, 3\].*jax_enable_x64"
        with pytest.raises(espalier.Unsupported, match=message):
            espalier.load(file, like=like, framework="jax")
    espalier.save(file, {"a": [np.arange(6, dtype=np.int32), state["a"]]})
    with espalier.open(file) as checkpoint:
        for load in (
            lambda: espalier.load(file, at="a/1", framework="jax"), checkpoint["a"][1].jax,
            lambda: checkpoint["a"].load(framework="jax"), lambda: checkpoint.load(framework="jax"),
            lambda: espalier.load(file, like={"a": espalier.ANY}, framework="jax"),
        ):  # fmt: skip
            with pytest.raises(espalier.Unsupported, match="^a/1: JAX would make") as error:
                load()
            assert error.value.path == "a/1" and type(pickle.loads(pickle.dumps(error.value))) is espalier.Unsupported
    espalier.save(file, state)
    with jax.enable_x64(True):
        loaded = espalier.load(file, framework="jax")
        assert loaded["a"].dtype == dtype and same(espalier.load(file, like=loaded), loaded)
        assert np.array_equal(loaded["a"], state["a"])


def test_a_state_has_the_same_digest_from_jax_and_from_numpy(file):
    arrays = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros(3, np.int32)}
    on_devices = {"w": sharded(arrays["w"], mesh_of(2), "x"), "b": jnp.asarray(arrays["b"])}
    digests = set()
    for state in (arrays, on_devices):
        espalier.save(file, state)
        with espalier.open(file) as checkpoint:
            digests.add(checkpoint.digest)
    assert len(digests) == 1


def test_nothing_is_copied_on_a_cpu(file):
    state = {"f32": jnp.arange(1000.0), "bf16": jnp.ones(1000, jnp.bfloat16), "f8": jnp.ones(1000, jnp.float8_e5m2)}
    for array in state.values():
        _, _, parts = _encode.encode_other(array)
        assert parts.data.ctypes.data == array.unsafe_buffer_pointer() and not parts.is_private
    espalier.save(file, state)
    with espalier.open(file) as checkpoint:
        arrays, made = checkpoint.load(), checkpoint.load(framework="jax")
    for key in state:
        assert made[key].unsafe_buffer_pointer() == arrays[key].ctypes.data
    array = writable(1000)
    assert _jax.put(array).unsafe_buffer_pointer() != array.ctypes.data


def test_donating_what_was_loaded_leaves_the_file_alone(file):
    state = {"w": jnp.zeros(1000)}
    espalier.save(file, state)
    before = file.read_bytes()
    with espalier.open(file) as checkpoint:
        one, other = checkpoint.load(framework="jax"), checkpoint.load(framework="jax")
        done = jax.jit(lambda array: array + 1, donate_argnums=0)(one["w"])
        assert float(done.sum()) == 1000 and same(other, state)
        checkpoint.verify()
    assert file.read_bytes() == before


def writable(count):
    """An array of numpy whose memory JAX takes without a copy."""
    memory = np.zeros(4 * count + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + 4 * count].view(np.float32)


def alias(array):
    """A writable array of numpy in the memory of one of JAX."""
    elements = (ctypes.c_float * array.size).from_address(array.unsafe_buffer_pointer())
    return np.ctypeslib.as_array(elements)


@pytest.fixture
def held_up(file):
    """A save to the file that goes on for long: those after it wait. Call it to end it."""
    first = espalier.save_async(file, np.random.default_rng(1).standard_normal(1 << 23), compression=9, threads=1)

    def end():
        first.cancel()
        first.exception()

    yield end
    end()


def test_save_async_saves_what_was_there(file, held_up):
    computed = {name: jnp.arange(1000.0) + 1 for name in ("donated", "deleted", "tied", "tied2", "sliced")}
    numpy = {"put": writable(1000), "dlpack": writable(1000), "sharded": writable(1000)}
    taken = {"put": jax.device_put(numpy["put"]), "dlpack": jax.dlpack.from_dlpack(numpy["dlpack"])}
    whole = NamedSharding(mesh_of(1), PartitionSpec())
    taken["sharded"] = jax.make_array_from_single_device_arrays((1000,), whole, [jax.device_put(numpy["sharded"])])
    assert all(taken[name].addressable_data(0).unsafe_buffer_pointer() == numpy[name].ctypes.data for name in numpy)
    tied, first, sliced = alias(computed["tied"]), alias(computed["tied2"]), alias(computed["sliced"])[1:]
    packed, spread = jnp.arange(8).astype(jnp.int4), sharded(jnp.arange(8.0), mesh_of(2), "x")
    state = {"first": first, **computed, **taken, "numpy": tied, "part": sliced, "i4": packed, "s": spread}
    ones, few = np.arange(1000, dtype=np.float32) + 1, np.arange(8)
    expected = {**dict.fromkeys(computed, ones), **{name: array.copy() for name, array in numpy.items()}}
    expected |= {"first": ones, "numpy": ones, "part": ones[1:], "i4": few, "s": few}
    saving = espalier.save_async(file, state, views="copy")
    for key in ("donated", "i4", "s"):
        jax.jit(lambda array: array * 0, donate_argnums=0)(state[key]).block_until_ready()
        assert state[key].is_deleted() == (key != "donated")  # It is held, so JAX takes other memory for the result.
    computed["deleted"].delete()
    others = [jnp.zeros(1000) + i for i in range(20)]  # in the memory that is free again
    for array in [*numpy.values(), tied, first, sliced]:
        array[:] = -1
    held_up()
    saving.result()
    loaded = espalier.load(file)
    del others
    assert loaded.keys() == state.keys()
    for key in expected:
        assert np.array_equal(loaded[key], expected[key]), key


def test_arrays_that_cannot_change_are_not_copied_for_a_save_in_the_background(file, held_up):
    computed = jnp.zeros(1 << 25).block_until_ready()
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    state = {"a": {"b": computed}}
    try:  # too little memory for a copy
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + computed.nbytes // 2, before[1]))
        saving = espalier.save_async(file, state)
        failing = espalier.save_async(file, {"a": np.asarray(computed)})
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    saving.cancel()
    held_up()
    assert isinstance(saving.exception(), espalier.Cancelled)
    assert isinstance(failing.exception(), MemoryError)


def test_the_memory_of_an_array_is_jax_s_own_if_jax_computed_it():
    put, plus = jax.device_put(writable(8)), jax.jit(lambda array: array + 1)
    own = [plus(put), plus(put), put + 1, put + 1, jnp.array(writable(8)), jnp.reshape(put, (2, 4)), jnp.zeros(8), put[:4]]
    own += [put.copy(), put.at[0].set(1), jax.random.normal(jax.random.key(0), (8,)), jax.grad(lambda x: (x * x).sum())(put)]
    optimizer = optax.adam(1e-3)
    for _ in range(2):  # compiled, and called again
        own += jax.tree.leaves(optimizer.update({"w": own[0]}, optimizer.init({"w": put}))[0])
    assert [_jax_memory.is_own(array) for array in own] == [True] * len(own)
    whole = NamedSharding(mesh_of(1), PartitionSpec())
    taken = [put, put.addressable_data(0), jax.device_put(writable(8), whole), jax.dlpack.from_dlpack(writable(8))]
    taken += [jax.make_array_from_single_device_arrays((8,), whole, [put]), pickle.loads(pickle.dumps(own[0]))]
    taken += [jax.make_array_from_callback((8,), whole, lambda index: writable(8)[index]), jax.device_put(put, whole)]
    assert [_jax_memory.is_own(array) for array in taken] == [False] * len(taken)


def test_a_jax_that_does_not_tell_where_arrays_are_made_has_all_of_them_copied(monkeypatch):
    computed = jnp.zeros(8)
    for tells in (lambda array: True, lambda array: 1 / 0):
        _jax_memory._tells.cache_clear()
        monkeypatch.setattr(_jax_memory, "_is_computed", tells)
        assert not _jax_memory.is_own(computed)
    monkeypatch.undo()
    _jax_memory._tells.cache_clear()
    assert _jax_memory.is_own(computed)


def test_ties_stay_ties(file):
    array, spread = jnp.arange(6.0), sharded(jnp.arange(8.0), mesh_of(2), "x")
    parts = [shard.data for shard in spread.addressable_shards]
    again = jax.make_array_from_single_device_arrays((8,), spread.sharding, parts)
    small = jnp.ones(4, jnp.int4)
    state = {
        "a": array, "b": array, "c": array.addressable_data(0), "s": spread, "t": again, "i": small,
        "j": small.addressable_data(0),
    }  # fmt: skip
    assert state["c"] is not array and state["j"] is not small
    espalier.save(file, state)
    for loaded in (espalier.load(file, framework="jax"), espalier.load(file, like=state)):
        assert loaded["a"] is loaded["b"] and loaded["s"] is loaded["t"] and loaded["i"] is loaded["j"]
    assert loaded["s"].sharding == spread.sharding


@pytest.mark.parametrize("name", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_typed_keys(file, name):
    key = jax.random.key(7, impl=name)
    state = {"key": key, "keys": jax.random.split(key, 4), "raw": jax.random.PRNGKey(0)}
    espalier.save(file, state)
    with espalier.open(file) as checkpoint:
        assert checkpoint["key"].label == f"jax.random.key/{name}" and checkpoint["keys"].dtype == "u32"
    for loaded in (
        espalier.load(file, framework="jax"), espalier.load(file, like=state), espalier.load(file, like=shapes(state)),
    ):  # fmt: skip
        assert same(loaded, state)
        assert float(jax.random.normal(loaded["key"])) == float(jax.random.normal(key))
    assert jax.random.key_impl(espalier.load(file)["key"]) == name


def test_a_key_is_no_array_and_no_key_of_another_kind(file):
    espalier.save(file, {"k": jax.random.key(1, impl="rbg")})
    for wrong in (jax.random.key(1, impl="unsafe_rbg"), jnp.zeros(4, jnp.uint32), np.zeros(4, np.uint32)):
        with pytest.raises(espalier.TreeMismatch, match="jax.random.key/rbg in the file"):
            espalier.load(file, like={"k": wrong})
    espalier.save(file, {"k": jnp.zeros(4, jnp.uint32)})
    with pytest.raises(espalier.TreeMismatch, match="jax.random.key/rbg in the template"):
        espalier.load(file, like={"k": jax.random.key(1, impl="rbg")})
    for array in (np.zeros(3, np.uint32), np.zeros(2, np.float32)):
        for label in ("jax.random.key/threefry2x32", "jax.random.key/none", "jax.random.key/_private"):
            espalier.save(file, {"k": espalier.Labelled(label, array)})
            assert same(espalier.load(file, framework="jax")["k"], jax.device_put(array))
            assert type(espalier.load(file)["k"]) is np.ndarray


def test_shapes_are_placeholders(file):
    struct = jax.ShapeDtypeStruct
    state = {"w": struct((2, 3), jnp.bfloat16), "i": struct((4,), jnp.int4), "s": struct((), jnp.int8)}
    espalier.save(file, {**state, "key": shapes(jax.random.key(0))})
    loaded = espalier.load(file, framework="jax")
    assert loaded.pop("key") == jax.ShapeDtypeStruct((2,), jnp.uint32) and loaded == state
    assert espalier.load(file)["w"] == espalier.Placeholder("bf16", (2, 3))
    with pytest.raises(espalier.TreeMismatch, match=r"w: a placeholder bf16 \[2, 3\] in the file"):
        espalier.load(file, like={**state, "key": espalier.SKIP})


def _donated():
    array = jnp.ones(3)
    jax.jit(lambda a: a + 1, donate_argnums=0)(array)
    return array


class Leaf:
    pass


REFUSED = [
    (_donated, "an array that was deleted"),
    (lambda: jax.new_ref(jnp.ones(3)), r"a jax.Ref; save ref\["),
    (lambda: jnp.ones(2, jnp.int1), "an array of int1"),
    (lambda: jnp.ones(2, jnp.float8_e4m3), "an array of dtype float8_e4m3,"),
    (lambda: jax.ShapeDtypeStruct((2,), jnp.float8_e4m3), "an array of float8_e4m3,"),
    (lambda: jax.nn.relu, "is code"),
    (Leaf, r"Leaf cannot be saved; .*espalier.register"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_no_file_can_hold_is_an_error_with_its_path(file, make, message):
    with pytest.raises(espalier.Unsupported, match=message) as error:
        espalier.save(file, {"a": [make()]})
    assert error.value.path == "a/0"
    assert not file.exists()


def test_iterators_are_refused_without_a_warning(file):
    for value in (iter([1]), (i for i in "a"), zip()):
        with pytest.raises(espalier.Unsupported, match="x: .*read only once; save list"):
            espalier.save(file, {"x": value})


def test_a_tracer_has_no_elements(file):
    def step(array):
        espalier.save(file, {"a": array})

    with pytest.raises(espalier.Unsupported, match="a: a tracer.* outside of jit"):
        jax.jit(step)(jnp.ones(3))
    with pytest.raises(espalier.Unsupported, match="a: a tracer"):
        jax.jit(step)(jax.random.key(0))
    espalier.save(file, {"a": jnp.ones(3)})
    with pytest.raises(espalier.EspalierError, match="load outside of jit"):
        jax.jit(lambda array: espalier.load(file, like={"a": array}))(jnp.ones(3))


def test_an_array_goes_to_the_device_of_the_template_s(file):
    devices = jax.devices()
    state = {"here": jnp.ones(3), "there": jax.device_put(jnp.ones(3), devices[2]), "key": jax.random.key(0)}
    state["key there"] = jax.device_put(state["key"], devices[1])
    espalier.save(file, state)
    loaded = espalier.load(file, like=state)
    assert same(loaded, state) and loaded["there"].devices() == {devices[2]}
    assert [array.committed for array in loaded.values()] == [False, True, False, True]
    for key in ("there", "key there"):
        jax.jit(lambda array: array.reshape(-1), donate_argnums=0)(state[key]).block_until_ready()
    assert state["there"].is_deleted() and state["key there"].is_deleted()
    assert same(espalier.load(file, like=state), loaded)
    struct = jax.ShapeDtypeStruct((3,), jnp.float32, sharding=SingleDeviceSharding(devices[3]))
    there = espalier.load(file, like={"here": struct}, strict="template")["here"]
    assert there.devices() == {devices[3]} and there.committed
    with espalier.open(file) as checkpoint:
        assert checkpoint["here"].jax(devices[1]).devices() == {devices[1]}


def test_a_device_and_a_dtype_are_chosen_when_loading(file):
    state = {"w": jnp.arange(8.0), "i": jnp.arange(8), "k": jax.random.key(0), "n": np.float32(2)}
    espalier.save(file, state)
    device = jax.devices()[1]
    loaded = espalier.load(file, framework="jax", device=device, dtype=jnp.bfloat16)
    assert np.array_equal(loaded["w"], np.arange(8)) and loaded["w"].dtype == jnp.bfloat16 and loaded["w"].devices() == {device}
    assert loaded["i"].dtype == jnp.int32 and loaded["i"].devices() == loaded["k"].devices() == {device}
    assert jnp.array_equal(jax.random.key_data(loaded["k"]), jax.random.key_data(state["k"])) and type(loaded["n"]) is np.float32
    spread = NamedSharding(mesh_of(2), PartitionSpec("x"))
    assert espalier.load(file, framework="jax", at="w", device=spread).sharding == spread
    with pytest.raises(espalier.EspalierError, match=r"JAX cannot put an array of shape \[8\] on "):
        espalier.load(file, framework="jax", at="w", device=NamedSharding(mesh_of(3), PartitionSpec("x")))
    # And for numpy.
    loaded = espalier.load(file, dtype=np.float64)
    assert loaded["w"].dtype == np.float64 and loaded["i"].dtype == np.int32 and loaded["w"][7] == 7


def test_casts_are_asked_for(file):
    espalier.save(file, {"w": jnp.arange(8.0)})
    bf16 = jnp.zeros(8, jnp.bfloat16)
    for template in (bf16, sharded(bf16, mesh_of(2), "x"), espalier.spec((8,), "bf16")):
        with pytest.raises(espalier.TreeMismatch, match="f32 .* bf16"):
            espalier.load(file, like={"w": template})
        loaded = espalier.load(file, like={"w": template}, cast="float", framework="jax")["w"]
        assert loaded.dtype == jnp.bfloat16 and loaded.tolist() == list(range(8))
        if isinstance(template, jax.Array):
            assert loaded.sharding == template.sharding


def test_optimizers_of_optax_come_back_with_their_types(file):
    params = {"a": jnp.ones(2), "b": jnp.ones(3)}
    optimizers = [
        optax.adamw(1e-3), optax.chain(optax.clip(1.0), optax.sgd(0.1, momentum=0.9)), optax.lion(1e-3),
        optax.masked(optax.adam(1e-3), {"a": True, "b": False}), optax.MultiSteps(optax.adam(1e-3), 2),
        optax.inject_hyperparams(optax.adam)(learning_rate=optax.linear_schedule(1.0, 0.0, 10)),
        optax.multi_transform({"x": optax.adam(1e-3), "y": optax.sgd(0.1)}, {"a": "x", "b": "y"}),
    ]  # fmt: skip
    state = [optimizer.init(params) for optimizer in optimizers]
    espalier.save(file, state)
    assert same(espalier.load(file, like=state), state)
    assert same(espalier.load(file, like=shapes(state)), state)
    loaded = espalier.load(file, framework="jax")
    assert loaded[0][0].label == "optax.ScaleByAdamState" and same(loaded[0][0].mu, params) is False
    assert loaded[0][0].mu["a"].tolist() == [0, 0] and loaded[0][1].label == "optax.EmptyState"
    assert loaded[3].inner_state[0].mu["b"].label == "optax.MaskedNode"


@jax.tree_util.register_pytree_with_keys_class
class Keyed:
    def __init__(self, w, b, note):
        self.w, self.b, self.note = w, b, note

    def tree_flatten_with_keys(self):
        key = jax.tree_util.GetAttrKey
        return ((key("w"), self.w), (key("b"), self.b)), self.note

    @classmethod
    def tree_unflatten(cls, note, children):
        return cls(*children, note)


@jax.tree_util.register_pytree_node_class
class Positions(Keyed):
    def tree_flatten(self):
        return (self.w, self.b), self.note


def test_registered_classes_are_saved_by_their_children(file):
    state = {"keyed": Keyed(jnp.ones(2), None, "n"), "positions": Positions(jnp.zeros(2), [1], "m")}
    espalier.save(file, state)
    assert same(espalier.load(file, like=state), state)
    loaded = espalier.load(file)
    assert loaded["keyed"].label == "test_jax.Keyed" and list(loaded["keyed"]) == ["w", "b"]
    assert type(loaded["positions"]) is tuple and loaded["positions"][1] == [1]
    other = espalier.load(file, like={**state, "keyed": Keyed(jnp.zeros(2), None, "template's")})
    assert other["keyed"].note == "template's" and other["keyed"].w.tolist() == [1, 1]


class Reads:
    """The slices that are read of a tensor."""

    def __init__(self, monkeypatch):
        self.slices = []
        real = espalier.Tensor.__getitem__

        def getitem(tensor, index):
            array = real(tensor, index)
            self.slices.append((tensor.path, array.nbytes))
            return array

        monkeypatch.setattr(espalier.Tensor, "__getitem__", getitem)


AXES = [("x", "y"), ("x",), ((),), (None, "y"), (("x", "y"),)]


@pytest.mark.parametrize("axes", AXES, ids=str)
@pytest.mark.parametrize("compression", [0, 1])
def test_equinox_778_each_shard_is_read_once_and_no_array_whole(file, monkeypatch, axes, compression):
    whole = {"w": np.arange(1 << 16, dtype=np.float32).reshape(256, 256), "b": np.ones((8, 8), np.float32)}
    state = {key: sharded(array, mesh_of(2, 2), *axes) for key, array in whole.items()}
    espalier.save(file, state, compression=compression)
    reads = Reads(monkeypatch)
    parts = {"('x', 'y')": 4, "('x',)": 2, "((),)": 1, "(None, 'y')": 2, "(('x', 'y'),)": 4}[str(axes)]
    template = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=a.sharding), state)
    loaded = espalier.load(file, like=template)
    assert sorted(reads.slices) == sorted((key, whole[key].nbytes // parts) for key in "wb" * parts)
    assert same(loaded, state) and all(np.array_equal(loaded[key], whole[key]) for key in whole)
    with espalier.open(file) as checkpoint:
        assert same(checkpoint["w"].jax(state["w"].sharding), state["w"])


def test_equinox_778_another_mesh_than_at_the_save(file):
    array = jnp.arange(64, dtype=jnp.bfloat16).reshape(8, 8)
    espalier.save(file, {"w": sharded(array, mesh_of(4), "x"), "i": sharded(array.astype(jnp.int4), mesh_of(4), "x")})
    for mesh, axes in ((mesh_of(2), (None, "x")), (mesh_of(2, 2), ("y", "x")), (mesh_of(1), ())):
        state = {"w": sharded(array, mesh, *axes), "i": sharded(array.astype(jnp.int4), mesh, *axes)}
        assert same(espalier.load(file, like=state), state)
    assert np.array_equal(espalier.load(file)["w"], array)


def test_elements_that_jax_does_not_have(file):
    state = {"a": {"b": np.ones(4, ml_dtypes.float6_e2m3fn)}, "p": espalier.Placeholder("f6_e3m2fn", (4,))}
    espalier.save(file, state)
    with pytest.raises(espalier.Unsupported, match="^a/b: JAX has no elements of dtype float6_e2m3fn"):
        espalier.load(file, framework="jax")
    del state["a"]
    espalier.save(file, state)
    assert espalier.load(file, framework="jax") == state


def test_names_of_axes_without_haliax_s_types(file):
    state = {"w": espalier.AxisNamed(jnp.ones((2, 3)), ("x", "y"))}
    espalier.save(file, state)
    with espalier.open(file) as checkpoint:
        assert checkpoint["w"].axis_names == ("x", "y")
    assert same(espalier.load(file, like=state)["w"], jnp.ones((2, 3)))
    with pytest.raises(espalier.Unsupported, match="w: an AxisNamed of a list, which is no array"):
        espalier.save(file, {"w": espalier.AxisNamed([1], ("x",))})


def test_sharded_keys(file):
    keys = jax.random.split(jax.random.key(0), 8)
    for axes in (("x",), ((),)):
        state = {"keys": sharded(keys, mesh_of(2, 2), *axes)}
        espalier.save(file, state)
        assert same(espalier.load(file, like=state), state)
        assert same(espalier.load(file, framework="jax")["keys"], keys)


PROCESS = """
import sys
import espalier, jax, jax.numpy as jnp
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]))
mesh = jax.make_mesh((8,), ("x",))
sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
array = jax.make_array_from_callback((8,), sharding, lambda index: jnp.arange(8.0)[index])
try:
    espalier.save(sys.argv[3] + "-none", {"w": array})
except espalier.Unsupported as error:
    print(error)
loaded = espalier.load(sys.argv[3], like={"w": array})["w"]
print([float(shard.data[0]) for shard in loaded.addressable_shards])
"""


def test_equinox_778_several_processes(file):
    import socket

    espalier.save(file, {"w": np.arange(8, dtype=np.float32)})
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    command = [sys.executable, "-c", PROCESS]
    processes = [
        subprocess.Popen([*command, address, rank, str(file)], stdout=subprocess.PIPE, text=True) for rank in "01"
    ]
    for rank, process in enumerate(processes):
        printed, _ = process.communicate(timeout=120)
        assert "w: an array with parts in other processes; save with espalier.Checkpointer(folder, distributed=True)" in printed
        assert str([4.0 * rank + i for i in range(4)]) in printed


def test_nothing_is_imported_for_a_file(file):
    espalier.save(file, {"w": jnp.ones(2), "key": jax.random.key(0), "opt": optax.adam(1.0).init(jnp.ones(2))})
    program = f"import sys, espalier; print(espalier.load({str(file)!r})['key'].dtype); assert 'jax' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "uint32\n"
