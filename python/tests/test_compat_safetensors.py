"""The interface of safetensors, compared with safetensors itself."""

import inspect
import os
import subprocess
import sys

import espalier
import espalier.compat.safetensors as ours
import espalier.compat.safetensors.numpy as our_numpy
import ml_dtypes
import numpy as np
import pytest

safetensors = pytest.importorskip("safetensors")
import safetensors.numpy as their_numpy  # noqa: E402

BF16 = ml_dtypes.bfloat16
DTYPES = [
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64",
    "complex64", BF16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fnuz,
    ml_dtypes.float8_e5m2fnuz,
    ml_dtypes.float8_e8m0fnu,
]  # fmt: skip


def many():
    made = {
        f"layer.{i}.{np.dtype(dtype).name}": np.arange(6).reshape(2, 3).astype(dtype) for i, dtype in enumerate(DTYPES)
    }
    return {**made, "none": np.zeros((0, 3), np.float32), "one": np.array(1.5), 'odd "name"\n': np.zeros(3, np.uint8)}


def readable():
    """Those that safetensors reads into numpy."""
    return {name: array for name, array in many().items() if "float8" not in name}


def equal(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def all_equal(a, b):
    return a.keys() == b.keys() and all(equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}, {}], ids=str)
def test_files_are_byte_for_byte_those_of_safetensors(tmp_path, metadata):
    assert our_numpy.save(many(), metadata) == their_numpy.save(many(), metadata)
    our_numpy.save_file(many(), tmp_path / "ours.safetensors", metadata)
    their_numpy.save_file(many(), tmp_path / "theirs.safetensors", metadata)
    assert (tmp_path / "ours.safetensors").read_bytes() == (tmp_path / "theirs.safetensors").read_bytes()


def test_without_tensors():
    assert our_numpy.save({}) == their_numpy.save({})
    their_numpy.load(our_numpy.save({}, {}))  # safetensors 0.8.0 itself writes a header that is no JSON


def test_several_metadata_are_the_same_in_any_order(tmp_path):
    described = {str(i): "é" * i for i in range(9)}
    our_numpy.save_file(readable(), tmp_path / "x.safetensors", described)
    with safetensors.safe_open(tmp_path / "x.safetensors", "np") as theirs:
        assert theirs.metadata() == described
        assert all_equal(theirs.get_tensors(), readable())
    with ours.safe_open(tmp_path / "x.safetensors", "np") as file:
        assert file.metadata() == described


def test_the_ending_chooses_the_format(tmp_path):
    for name in ("x.safetensors", "x.safetensors.tmp", "x", "x.bin", "x.pt"):
        our_numpy.save_file(readable(), tmp_path / name)
        assert all_equal(safetensors.numpy.load_file(tmp_path / name), readable())
    our_numpy.save_file(readable(), tmp_path / "x.espalier", {"format": "np"})
    with espalier.open(tmp_path / "x.espalier") as file:
        assert file.digest and file.verify().has_hashes and file.metadata == {"format": "np"}
    assert all_equal(our_numpy.load_file(str(tmp_path / "x.espalier")), readable())


@pytest.mark.parametrize("backend", ["mmap", "pread"])
@pytest.mark.parametrize("of", ["x.safetensors", "x.espalier"])
def test_reading_is_that_of_safetensors(tmp_path, of, backend):
    their_numpy.save_file(readable(), tmp_path / "x.safetensors", {"a": "b"})
    our_numpy.save_file(readable(), tmp_path / "x.espalier", {"a": "b"})
    with safetensors.safe_open(tmp_path / "x.safetensors", "np") as theirs:
        with ours.safe_open(tmp_path / of, framework="numpy", backend=backend) as file:
            assert file.keys() == theirs.keys() and file.metadata() == theirs.metadata()
            if of.endswith(".safetensors"):
                assert file.offset_keys() == theirs.offset_keys()
            for name in theirs.keys():
                mine, other = file.get_tensor(name), theirs.get_tensor(name)
                assert equal(mine, other) and mine.flags.writeable == other.flags.writeable
                assert file.get_slice(name).get_shape() == theirs.get_slice(name).get_shape()
                assert file.get_slice(name).get_dtype() == theirs.get_slice(name).get_dtype()
            mine, other = file.get_slice("layer.10.float32"), theirs.get_slice("layer.10.float32")
            for index in (
                0,
                -1,
                slice(0, 1),
                (slice(None), slice(0, 3, 2)),
                (1, 2),
                ...,
                (..., 1),
                (slice(0, 1), slice(0, 0)),
                (),
            ):
                assert equal(np.asarray(mine[index]), other[index]), index
            kept = file.get_tensor("one")
        assert kept == 1.5
        for call in (
            file.keys,
            file.metadata,
            file.get_tensors,
            lambda: file.get_tensor("one"),
            lambda: file.get_slice("one"),
        ):
            with pytest.raises(ours.SafetensorError, match="closed"):
                call()
    assert all_equal(our_numpy.load((tmp_path / of).read_bytes()), readable())


def test_nested_names_are_joined(file):
    nested = {"model": {"layers": [{"weight": np.ones(2)}, {"weight": np.zeros(2)}]}, "step": 7, 0: np.ones(1)}
    espalier.save(
        file,
        {**nested, "date": np.array(["2020-01-01"], "M8[D]"), "f": np.float32(2)},
        metadata={"epoch": 3, "by": "x"},
    )
    with ours.safe_open(file, "np") as opened:
        assert opened.offset_keys() == ["model.layers.0.weight", "model.layers.1.weight", "0", "date", "f"]
        assert opened.metadata() == {"epoch": "3", "by": "x"}
        assert opened.get_tensor("date").dtype == np.int64 and opened.get_slice("date").get_dtype() == "I64"
        assert opened.get_tensor("f") == 2 and opened.get_slice("model.layers.0.weight")[0] == 1
    espalier.save(file, np.ones(3))
    assert ours.safe_open(file, "np").keys() == [""]


def test_a_name_that_two_tensors_have_is_an_error(file):
    espalier.save(file, {"a.b": np.ones(2), "a": {"b": np.zeros(2)}})
    with pytest.raises(ours.SafetensorError, match="'a.b'"):
        ours.safe_open(file, "np")


def test_damage_is_an_error(file):
    our_numpy.save_file({"a": np.ones(2)}, file)
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(ours.SafetensorError, match="hash"):
        our_numpy.load_file(file)


def test_errors(tmp_path):
    errors = ours.SafetensorError
    with pytest.raises(FileNotFoundError):
        our_numpy.load_file(tmp_path / "none")
    (tmp_path / "text").write_text("text, and more of it")
    path = tmp_path / "x.safetensors"
    our_numpy.save_file(many(), path)
    opened = ours.safe_open(path, "np")
    part = opened.get_slice("layer.10.float32")
    for call in (
        lambda: our_numpy.load(b"xx"),
        lambda: our_numpy.load_file(tmp_path / "text"),
        lambda: ours.safe_open(path, "nothing"),
        lambda: ours.safe_open(path, "np", device="cuda:0"),
        lambda: ours.safe_open(path, "np", backend="x"),
        lambda: opened.get_tensor("x"),
        lambda: opened.get_slice("x"),
        lambda: part[2],
        lambda: part[::-1],
        lambda: part[True],
        lambda: part[0, 0, 0],
        lambda: our_numpy.save({"a": np.zeros(2, np.complex128)}),
        lambda: our_numpy.save({"a": np.array(["text"])}),
        lambda: our_numpy.save({"a": np.zeros(2, "M8[s]")}),
        lambda: our_numpy.save({"__metadata__": np.zeros(2)}),
        lambda: our_numpy.save_file({}, tmp_path / "no/such/x.safetensors"),
    ):
        with pytest.raises(errors):
            call()
    for call in (
        lambda: our_numpy.save({1: np.zeros(2)}),
        lambda: our_numpy.save({"a": [1]}),
        lambda: our_numpy.save({"a": np.zeros(2)}, {"a": 1}),
        lambda: ours.safe_open(path),
    ):
        with pytest.raises(TypeError):
            call()


def test_slices_by_lists_are_those_of_numpy(tmp_path):
    array = np.arange(60.0).reshape(3, 4, 5)
    our_numpy.save_file({"a": array}, tmp_path / "x.espalier")
    part = ours.safe_open(tmp_path / "x.espalier", "np").get_slice("a")
    for index in LISTS:
        assert equal(part[index], array[index]), index
    for index in (5, -4, [3], ([0], [9]), (0, 0, 0, [0]), ([0, 1], [0, 1, 2])):
        with pytest.raises(IndexError) as outside:
            part[index]
        assert isinstance(outside.value, ours.SafetensorError), index


def test_deserialize():
    data = our_numpy.save(many())
    assert dict(ours.deserialize(data)) == dict(safetensors.deserialize(data))  # theirs in any order
    assert ours.__version__ == safetensors.__version__
    with pytest.raises(ours.SafetensorError):
        ours.deserialize(b"xx")


LISTS = [
    [0, 2], [2, 0], [-1], [1, 1], [], np.array([0, 2]), (slice(None), [0, 2]), (..., [0, 2]), ([0], ..., [-1]),
    ([0, 2], [1, 3]), (1, [0, 2]), (slice(1, None), [3, 0], slice(None, None, 2)), ([1, 2], 1), (0, slice(None), [0, 2]),
    (slice(None), 1, [0, 2]), ([2, 1], slice(0, 2), [1, 0]), (np.int64(1), ..., [2]),
]  # fmt: skip


def test_arrays_of_any_order_are_saved_by_value(tmp_path):
    array = np.arange(12.0).reshape(3, 4)
    np.save(tmp_path / "x.npy", array)
    saved = {
        "t": array.T, "part": array[1:, ::2], "swapped": array.astype(">f8"), "twice": array, "again": array,
        "mapped": np.load(tmp_path / "x.npy", mmap_mode="r"),
    }  # fmt: skip
    loaded = their_numpy.load(our_numpy.save(saved))
    assert loaded.keys() == saved.keys() and all(np.array_equal(loaded[name], saved[name]) for name in saved)


def test_memory_is_saved_by_its_address(tmp_path):
    memory = np.arange(24, dtype=np.uint8)

    def specs(module):
        of_memory = {"data_ptr": memory.ctypes.data, "data_len": 24}
        made = {}
        for dtype in DTYPES:
            name = np.dtype(dtype).name
            made[name] = module.TensorSpec(dtype=name, shape=[1, 24 // np.dtype(dtype).itemsize], **of_memory)
        made["f4"] = module.TensorSpec(dtype="float4_e2m1fn_x2", shape=(2, 12), **of_memory)
        made["part"] = module.TensorSpec(dtype="int8", shape=[], data_ptr=memory.ctypes.data + 3, data_len=1)
        made["none"] = module.TensorSpec(dtype="float32", shape=[0, 3], data_ptr=0, data_len=0)
        return made

    mine, theirs = specs(ours), specs(safetensors)
    assert ours.serialize(mine, {"a": "b"}) == safetensors.serialize(theirs, metadata={"a": "b"})
    ours.serialize_file(mine, tmp_path / "x.safetensors")
    assert (tmp_path / "x.safetensors").read_bytes() == safetensors.serialize(theirs)
    fields = ("dtype", "shape", "data_ptr", "data_len")
    for name, spec in mine.items():
        assert [getattr(spec, field) for field in fields] == [getattr(theirs[name], field) for field in fields]
        assert repr(spec) == repr(theirs[name])
    plain = {"dtype": "int8", "shape": [24], "data_ptr": memory.ctypes.data, "data_len": 24}
    for error, changed in (
        (ours.SafetensorError, {"dtype": "nonsense"}), (ours.SafetensorError, {"data_len": 23}),
        (ours.SafetensorError, {"data_ptr": 0}), (OverflowError, {"shape": [-24]}), (TypeError, {"shape": [24.0]}),
    ):  # fmt: skip
        with pytest.raises(error):
            ours.serialize({"a": ours.TensorSpec(**{**plain, **changed})})
    for refused in ({"a": memory}, {1: ours.TensorSpec(**plain)}):
        with pytest.raises(TypeError):
            ours.serialize(refused)


def test_files_that_are_open_already(tmp_path):
    path = tmp_path / "x.safetensors"
    their_numpy.save_file(readable(), path)
    with open(path, "rb") as opened, ours._safe_open_handle(opened, framework="np", device="cpu") as file:
        assert all_equal(file.get_tensors(), readable())
    with pytest.raises(AttributeError, match="fileno"):
        ours._safe_open_handle(path, "np")


SUBSTITUTED = """
import espalier.compat.safetensors as ours
ours.substitute()
ours.substitute()
import safetensors, safetensors.numpy, safetensors.flax
assert safetensors is ours and safetensors.safe_open is ours.safe_open
import espalier.compat.safetensors.numpy as our_numpy
assert safetensors.numpy is our_numpy
"""


@pytest.mark.parametrize("without_torch", [False, True])
def test_substitution(without_torch):
    first = "import sys; sys.modules['torch'] = None\n" if without_torch else ""
    last = "import safetensors.torch as t; assert t.__name__ == 'espalier.compat.safetensors.torch'" * (not without_torch)
    subprocess.run([sys.executable, "-W", "error", "-c", first + SUBSTITUTED + last], check=True)
    with pytest.raises(espalier.EspalierError, match="safetensors was imported before"):
        ours.substitute()
    assert sys.modules["safetensors"] is safetensors


def test_signatures_are_those_of_safetensors():
    for name in ("save", "save_file", "load", "load_file"):
        mine, theirs = (inspect.signature(getattr(module, name)) for module in (our_numpy, their_numpy))
        assert [(p.name, p.kind, p.default) for p in mine.parameters.values()] == [
            (p.name, p.kind, p.default) for p in theirs.parameters.values()
        ]
    public = {name for name in dir(safetensors.safe_open) if not name.startswith("_")}
    assert public <= set(dir(ours.safe_open))


def test_save_safetensors(tmp_path):
    path = tmp_path / "x.safetensors"
    nested = {"model": {"a": np.ones(2), "b": np.zeros((2, 2), BF16)}}
    assert espalier.save_safetensors(path, nested, metadata={"k": "v"}) == []
    assert path.read_bytes() == their_numpy.save({"model.a": np.ones(2), "model.b": np.zeros((2, 2), BF16)}, {"k": "v"})
    more = {**nested, "step": 7, "list": [np.ones(1)]}
    with pytest.raises(espalier.Unsupported, match='step .*unrepresentable="drop"') as refused:
        espalier.save_safetensors(path, more)
    assert refused.value.code == "unrepresentable"
    assert ("step", "an int64") in espalier.save_safetensors(path, more, unrepresentable="drop")
    assert their_numpy.load_file(path).keys() == {"model.a", "model.b", "list.0"}
    dropped = espalier.save_safetensors(path, {str(i): i for i in range(20)}, unrepresentable="drop")
    assert len(dropped) == 9 and dropped[-1] == ("", "and 12 more")
    assert espalier.save_safetensors(path, more, unrepresentable="metadata") == []
    assert "espalier.tree" in espalier.open(path).metadata
    for refused in (
        lambda: espalier.save_safetensors(path, more, unrepresentable="x"),
        lambda: espalier.save_safetensors(tmp_path / "x.espalier", nested),
        lambda: espalier.save_safetensors(path, None),
        lambda: espalier.save(path, nested),
    ):
        with pytest.raises(espalier.EspalierError):
            refused()
    with pytest.raises(FileExistsError):
        espalier.save_safetensors(path, nested, replace=False)
    assert os.listdir(tmp_path) == ["x.safetensors"]


def test_arrays_of_jax(tmp_path):
    jax_numpy = pytest.importorskip("jax.numpy")
    import espalier.compat.safetensors.flax as our_flax

    arrays = {"a": jax_numpy.ones((2, 3), jax_numpy.bfloat16), "b": jax_numpy.arange(3)}
    our_flax.save_file(arrays, tmp_path / "x.safetensors")
    loaded = our_flax.load(our_flax.save(our_flax.load_file(tmp_path / "x.safetensors")))
    assert all(loaded[name].dtype == arrays[name].dtype and (loaded[name] == arrays[name]).all() for name in arrays)


def test_a_small_file_with_long_names_is_refused(file, monkeypatch):
    espalier.save(file, {"x" * 10_000: [np.ones(1)] * 1000})
    monkeypatch.setattr("espalier.compat.safetensors._open._NAMES_LENGTH", 1_000_000)
    with pytest.raises(ours.SafetensorError, match="memory"):
        ours.safe_open(file, "np")
