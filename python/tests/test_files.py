"""Golden files, random trees, handles, errors, signals and threads."""

import _thread
import math
import os
import pickle
import sys
import threading
import time

import espalier
import hypothesis
import hypothesis.strategies as st
import ml_dtypes
import numpy as np
import pytest
from hypothesis.extra import numpy as hnp
from trees import TREES, equal

STATE = {
    "model": {"layers": [{"weight": np.arange(600.0).reshape(20, 30)}], "8": 1, "a/b": 2},
    "optimizer": {0: {"step": 7}, "name": "adam"},
}


@pytest.fixture
def saved(file):
    espalier.save(file, STATE, metadata={"epoch": 3}, sync=False)
    return file


def test_golden_files_come_back_byte_for_byte(repository):
    golden = sorted((repository / "tests/golden").glob("*.espalier"))
    assert len(golden) > 8
    for path in golden:
        checkpoint = espalier.open(path)
        level = {"compressed": 1, "compressed_9": 9}.get(path.stem, 0)
        again = espalier.save_bytes(
            checkpoint.load(exact=True), metadata=checkpoint.load_metadata(exact=True), compression=level
        )
        assert again == path.read_bytes(), path.name
        checkpoint.load()
        checkpoint.verify()


@hypothesis.settings(
    max_examples=int(os.environ.get("ESPALIER_EXAMPLES", "300")), deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture, hypothesis.HealthCheck.too_slow],
)  # fmt: skip
@hypothesis.given(state=TREES, compression=st.sampled_from([0, 1]))
def test_random_trees(state, compression, file):
    espalier.save(file, state, compression=compression, sync=False, views="copy")
    data = file.read_bytes()
    assert equal(state, espalier.load(file))
    exact = espalier.load(file, exact=True)
    assert espalier.save_bytes(exact, compression=compression) == data
    checkpoint = espalier.open(file, mapped=False)
    assert equal(state, checkpoint.load())
    checkpoint.verify()


def test_handles(saved):
    with espalier.open(saved) as checkpoint:
        assert list(checkpoint) == ["model", "optimizer"] and len(checkpoint) == 2 and "model" in checkpoint
        assert checkpoint.metadata == {"epoch": 3} and checkpoint["optimizer"][0]["step"] == 7
        model = checkpoint["model"]
        assert model.kind == "dict" and model.keys() == ["layers", "8", "a/b"] and model["a/b"] == 2
        assert model["8"] == 1 and 8 not in model and checkpoint.at("model/8") == 1
        weight = model["layers"][-1]["weight"]
        assert weight.path == "model/layers/0/weight" and checkpoint.at(weight.path) == weight
        assert checkpoint.at("model.layers.0.weight") == model.at("layers/0/weight") == weight
        assert (weight.dtype, weight.shape, weight.nbytes, weight.is_placeholder) == ("f64", (20, 30), 4800, False)
        assert [path for path, _ in checkpoint.find("**/weight")] == [weight.path]
        assert len(weight.hash) == len(checkpoint.digest) == 32
        assert np.array_equal(np.asarray(weight), STATE["model"]["layers"][0]["weight"])
        for missing in ("x", 0, "model/layers"):
            with pytest.raises(KeyError):
                model[missing]
        with pytest.raises(KeyError, match="at\\(\\) a key path"):
            checkpoint["model/layers"]
        with pytest.raises(espalier.SliceError, match="1 elements"):
            model["layers"][1]
        with pytest.raises(espalier.SliceError, match=r"model/layers is a list of 1 elements; .*load\(\) it for slices") as caught:
            model["layers"][0:1]
        assert isinstance(caught.value, IndexError) and caught.value.code == "invalid_slice"
        assert model.get("x", 5) == 5 and True not in checkpoint["optimizer"]
        assert "20, 30" in repr(weight) and "digest" in repr(checkpoint)
        array = weight.numpy()
    assert array[1, 1] == 31  # after the close
    with pytest.raises(espalier.EspalierError, match="was closed"):
        checkpoint["model"]


@hypothesis.settings(max_examples=200, deadline=None, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
@hypothesis.given(data=st.data())
def test_slices_are_those_of_numpy(data, file):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, max_side=6))
    array = np.arange(math.prod(shape)).reshape(shape)
    espalier.save(file, array, sync=False)
    index = data.draw(hnp.basic_indices(shape, allow_newaxis=False))
    steps = [item.step for item in (index if isinstance(index, tuple) else (index,)) if isinstance(item, slice)]
    tensor = espalier.open(file).state
    if any(step is not None and step < 1 for step in steps):
        with pytest.raises(espalier.SliceError, match="positive"):
            tensor[index]
    else:
        assert np.array_equal(tensor[index], array[index])


@pytest.mark.parametrize(
    "index",
    [[0, 2], None, np.array([True, False]), np.array([1]), "a", 1.5, True, (0, [1]), slice("a", None), (..., ...),
     slice(0, 2, 0.5)],
    ids=repr,
)  # fmt: skip
def test_an_index_that_tensors_do_not_take_is_an_index_error(index, saved):
    with pytest.raises(espalier.SliceError, match="ellipsis"):
        espalier.open(saved).at("model/layers/0/weight")[index]


def test_the_dtype_of_numpy(file, monkeypatch):
    of = [np.dtype(name) for name in ("bool", "<i4", "<f4", "<f8", "<c16")]
    of += [np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.int4)]
    packed = espalier.Packed("opaque", (32,), np.zeros(18, np.uint8), block=("q4_0", 32, 18))
    espalier.save(file, [*(np.zeros(2, dtype) for dtype in of), packed])
    tensors = list(espalier.open(file))
    assert [tensor.numpy_dtype for tensor in tensors[:-1]] == of == [tensor.numpy().dtype for tensor in tensors[:-1]]
    with pytest.raises(espalier.Unsupported, match="no dtype for opaque$"):
        _ = tensors[-1].numpy_dtype
    monkeypatch.setattr("espalier._dtypes._all", dict)  # As without ml_dtypes.
    with pytest.raises(espalier.Unsupported, match="bf16.*pip install"):
        _ = tensors[5].numpy_dtype


def test_pickles_open_the_file_again(saved):
    checkpoint = espalier.open(saved)
    weight = checkpoint.at("model/layers/0/weight")
    again = pickle.loads(pickle.dumps(weight))
    assert again.path == weight.path and np.array_equal(again.numpy(), weight.numpy())
    espalier.save(saved, {"other": 1})
    with pytest.raises(espalier.EspalierError, match="not the one that was pickled"):
        pickle.loads(pickle.dumps(checkpoint))
    error = pickle.loads(pickle.dumps(espalier.Corrupt("text", "chunk_corrupt", "a/b", 7)))
    assert (type(error), error.code, error.path, error.offset) == (espalier.Corrupt, "chunk_corrupt", "a/b", 7)


def test_a_save_against_a_base_writes_what_changed(tmp_path):
    random = np.random.default_rng(1)
    state = {"frozen": random.standard_normal((3, 1 << 17)), "adapter": np.zeros(1000), "step": 1}
    espalier.save(tmp_path / "one.espalier", state, sync=False)
    state.update(adapter=np.ones(1000), step=2)
    for bases in (tmp_path / "one.espalier", [str(tmp_path / "one.espalier")]):
        espalier.save(tmp_path / "two.espalier", state, base=bases, sync=False)
        assert (tmp_path / "two.espalier").stat().st_size < 2000  # The adapter differs by 1.0, and is a patch.
        assert equal(espalier.load(tmp_path / "two.espalier"), state)
    espalier.open(tmp_path / "two.espalier").verify()
    np.savez(tmp_path / "arrays.npz", frozen=state["frozen"])
    espalier.save(tmp_path / "three.espalier", state, base=[tmp_path / "arrays.npz", tmp_path / "one.espalier"], patches=False, sync=False)
    assert equal(espalier.load(tmp_path / "three.espalier"), state)
    (tmp_path / "one.espalier").rename(tmp_path / "away")
    espalier.open(tmp_path / "three.espalier").verify()
    checkpoint = espalier.open(tmp_path / "two.espalier")
    with pytest.raises(espalier.Incomplete, match="one.espalier.*; what is there is right") as incomplete:
        checkpoint.verify()
    assert (incomplete.value.code, incomplete.value.missing) == ("file_missing", ["one.espalier"])
    assert checkpoint["step"] == 2
    with pytest.raises(espalier.CheckpointOSError, match="one.espalier") as raised:
        checkpoint["frozen"].numpy()
    assert (raised.value.code, raised.value.path) == ("file_missing", "frozen")
    (tmp_path / "below").mkdir()
    with pytest.raises(espalier.EspalierError, match="in another folder"):
        espalier.save(tmp_path / "below/x.espalier", state, base=tmp_path / "two.espalier")
    with pytest.raises(espalier.EspalierError, match="would replace one that it refers to"):
        espalier.save(tmp_path / "two.espalier", state, base=tmp_path / "two.espalier")


def test_errors(saved, tmp_path):
    with pytest.raises(FileNotFoundError) as missing:
        espalier.load(tmp_path / "none")
    assert missing.value.code == "file_not_found" and isinstance(missing.value, espalier.EspalierError)
    with pytest.raises(FileExistsError):
        espalier.save(saved, {}, replace=False)
    with pytest.raises(OSError, match="no/such"):
        espalier.save(tmp_path / "no/such", {})
    with pytest.raises(espalier.EspalierError, match="npy"):
        espalier.save(tmp_path / "x.npy", {})
    with pytest.raises(KeyError, match="model"):
        espalier.load(saved, at="model/x")
    data = bytearray(saved.read_bytes())
    at = espalier.open(saved).at("model/layers/0/weight")
    data[-8] ^= 1
    saved.write_bytes(data)
    with pytest.raises(espalier.Corrupt) as damaged:
        espalier.load(saved)
    assert damaged.value.path == at.path and damaged.value.offset is not None and str(saved) in str(damaged.value)
    assert espalier.load(saved, check="nothing")["optimizer"][0]["step"] == 7
    with pytest.raises(espalier.Corrupt) as damaged:
        espalier.open(saved).verify()
    assert len(damaged.value.errors) == 1
    for size in (0, 10, 200, len(data) - 1):
        saved.write_bytes(data[:size])
        with pytest.raises(espalier.Corrupt):
            espalier.open(saved)


def test_files_of_others_open(tmp_path):
    array = np.arange(6.0).reshape(2, 3)
    np.save(tmp_path / "x.npy", np.asfortranarray(array))
    np.savez(tmp_path / "x.npz", a=array)
    np.savez_compressed(tmp_path / "y.npz", a=array)
    (tmp_path / "x.pkl").write_bytes(pickle.dumps({"a": [1, (array, None)]}))
    assert np.array_equal(espalier.load(tmp_path / "x.npy"), array)
    for name in ("x.npz", "y.npz"):
        assert np.array_equal(espalier.load(tmp_path / name)["a"], array)
    one, (loaded, none) = espalier.load(tmp_path / "x.pkl")["a"]
    assert one == 1 and none is None and np.array_equal(loaded, array)
    (tmp_path / "bad.pkl").write_bytes(b"\x80\x04cposix\nsystem\nX\x02\0\0\0id\x85R.")
    with pytest.raises(espalier.EspalierError, match="would call posix.system"):
        espalier.open(tmp_path / "bad.pkl")


def test_files_of_others_are_to_be_saved_with_espalier(tmp_path):
    (tmp_path / "x.tflite").write_bytes(b"\x1c\0\0\0TFL3" + bytes(50))
    with pytest.raises(espalier.EspalierError, match=r"with espalier.save\(\)"):
        espalier.open(tmp_path / "x.tflite")


def test_found_are_tensors_nodes_and_values(file):
    espalier.save(file, {"a": np.ones(2), "b": {"c": None}, "d": 1})
    with espalier.open(file) as opened:
        below = [("a", opened["a"]), ("b", opened["b"]), ("b/c", None), ("d", 1)]
        assert opened.find("*") == below and opened.find("") == [("", opened.state), *below]
        assert opened.find("b") == [("b", opened["b"]), ("b/c", None)]
        assert [path for path, found in opened.find("") if isinstance(found, espalier.Tensor)] == ["a"]


def test_a_key_that_is_missing_brings_those_that_are_near(file):
    weights = {"0.weight": np.ones(2), "a/b": 2, "8": 3}
    long = {"k" * 1000 + str(i): i for i in range(10)}
    state = {"model": weights, "optimizer": {0: {"step": 7}}, "none": {}, "many": {f"w{i}": i for i in range(2000)}}
    espalier.save(file, {**state, "long": long, "step": 3})
    opened = espalier.open(file)
    for path, hint in {
        "modle": "; did you mean 'model'? (code",
        "modle/x": "; did you mean 'model'? (code",
        "model/0/weight": "; did you mean 'model/0.weight', one key? (code",
        "model.0.weigth": "; did you mean 'model/0.weight'? (code",
        "model.0.weight.x": "which has no children (code",
        "optimizer.0.stp": "; did you mean 'optimizer/0/step'? (code",
        "model/a/b": "; did you mean 'model/a~1b', one key? (code",
        "optimizer/0/stp": "; did you mean 'optimizer/0/step'? (code",
        "x": "; its keys are 'model', 'optimizer', 'none', 'many', 'long' and 1 more (code",
        "model/9": "; its keys are '0.weight', 'a/b', '8' (code",
        "none/x": "; it is empty (code",
        "many/qqqq": "; its keys are 'w0', 'w1', 'w2', 'w3', 'w4' and 1,995 more (code",
        "long/kkk": "without that key (code",
        "step/x": "which has no children (code",
    }.items():
        with pytest.raises(espalier.KeyPathError) as missing:
            opened.at(path)
        assert hint in str(missing.value), path
        assert (missing.value.code, missing.value.path) == ("not_found", path)
    espalier.save(file, {"a.b": {"c": 1}, "a/b": 2})
    for path, key in {"a/b": "a~1b", "a/b/c": "a~1b", "a.b/c": None}.items():
        if key is None:
            assert espalier.load(file, at=path) == 1
            continue
        with pytest.raises(espalier.KeyPathError, match=f"did you mean '{key}', one key"):
            espalier.load(file, at=path)
    with pytest.raises(KeyError, match="did you mean '0.weight'"):
        opened["model"].at("0/weight")
    with pytest.raises(KeyError, match="did you mean 'model'\\?$"):
        opened["modle"]
    with pytest.raises(KeyError, match="did you mean '8'\\?$"):
        opened["model"][8]
    with pytest.raises(KeyError, match="did you mean 0\\?$"):
        opened["optimizer"]["0"]


def test_looking_for_near_keys_ends(file):
    # Comparing each with all of a long key would take hours.
    espalier.save(file, {"x" * i + "y" * 60: i for i in range(1, 60)} | {"x" * 64 + str(i): i for i in range(9999)})
    opened = espalier.open(file)
    for key in ("y" * 10 + "x" * 50, "x" * 1_000_000, "x/" * 5000 + "x"):
        with pytest.raises(espalier.KeyPathError):
            opened.at(key)


@pytest.mark.parametrize("name", ["é.espalier", b"\xff\xfe.espalier", os.fsdecode(b"\xff.espalier")])
def test_names_of_files(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    espalier.save(name, STATE)
    assert os.listdir() == [os.fsdecode(name)] and espalier.load(name)["optimizer"] == STATE["optimizer"]
    os.truncate(name, 100)
    with pytest.raises(espalier.Corrupt, match="espalier: "):
        espalier.open(name)


def test_metadata_holds_no_arrays(file):
    with pytest.raises(espalier.EspalierError, match="metadata"):
        espalier.save(file, {}, metadata={"a": np.zeros(2)})
    assert not file.exists()


class Stop(Exception):
    pass


def large():
    return {"a": np.zeros(1 << 27, np.uint8), "b": np.ones(1 << 27, np.uint8)}


def test_progress_and_what_it_raises(file):
    seen = []
    espalier.save(file, large(), compression=3, progress=lambda done, total: seen.append((done, total)))
    assert seen and all(done <= total for done, total in seen) and seen == sorted(seen)
    before = file.read_bytes()

    def stop(done, total):
        raise Stop

    with pytest.raises(Stop):
        espalier.save(file, {**large(), "c": 1}, compression=9, progress=stop)
    assert file.read_bytes() == before and os.listdir(file.parent) == [file.name]


def test_ctrl_c_leaves_the_old_file(file, handled_interrupts):
    espalier.save(file, 1)
    before = file.read_bytes()
    state = {"a": np.random.default_rng(1).standard_normal(1 << 25)}

    has_begun = threading.Event()

    def interrupt():
        has_begun.wait()
        _thread.interrupt_main()

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        espalier.save(file, state, compression=9, threads=1, progress=lambda *_: has_begun.set())
    thread.join()
    assert file.read_bytes() == before and os.listdir(file.parent) == [file.name]


def test_other_threads_run_during_a_save(file):
    array = np.random.default_rng(1).standard_normal(1 << 22)
    has_seen_it = False
    has_begun, done = threading.Event(), threading.Event()

    def saving():
        espalier.save(file, array, compression=5, threads=1, progress=lambda *_: has_begun.set())
        done.set()

    thread = threading.Thread(target=saving)
    thread.start()
    while not done.is_set():
        has_seen_it = has_seen_it or (has_begun.is_set() and not done.is_set())
        time.sleep(0.001)
    thread.join()
    assert has_seen_it


def test_many_threads_share_a_checkpoint(saved):
    checkpoint = espalier.open(saved)
    expected = STATE["model"]["layers"][0]["weight"]
    failures = []

    def read():
        for _ in range(50):
            if not np.array_equal(checkpoint.at("model/layers/0/weight")[2:5], expected[2:5]):
                failures.append(1)
            if espalier.save_bytes(STATE) != espalier.save_bytes(STATE):
                failures.append(2)

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_importing_imports_no_framework():
    import subprocess

    code = "import sys, espalier; print([m for m in ('numpy', 'torch', 'jax', 'ml_dtypes') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_version_is_the_library_s(repository):
    assert f"VERSION {espalier.__version__}" in (repository / "CMakeLists.txt").read_text()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda path: espalier.open(path, mapped=5), "mapped must be True or False, not 5"),
        (lambda path: espalier.open(path, nest="yes"), "nest must be True or False, not 'yes'"),
        (lambda path: espalier.load(path, mapped=None), "mapped must be True or False, not None"),
        (lambda path: espalier.load(path, exact=1), "exact must be True or False, not 1"),
        (lambda path: espalier.load(path, at=5), "a key path must be a str, not 5"),
        (lambda path: espalier.load(path, at="\ud800"), "a key path has lone surrogates"),
        (lambda path: espalier.open(path).at(b"a"), "a key path must be a str, not b'a'"),
        (lambda path: espalier.open(path).find(None), "a pattern must be a str, not None"),
        (lambda path: espalier.open(path).load(exact="x"), "exact must be True or False, not 'x'"),
        (lambda path: espalier.open(path).load_metadata(exact=0), "exact must be True or False, not 0"),
        (lambda path: espalier.load_bytes(b"", nest=1), "nest must be True or False, not 1"),
        (lambda path: espalier.save(path, 1, sync=1), "sync must be True or False, not 1"),
        (lambda path: espalier.save(path, 1, replace="no"), "replace must be True or False, not 'no'"),
        (lambda path: espalier.save_async(path, 1, sync="x"), "sync must be True or False, not 'x'"),
        (lambda path: espalier.save_safetensors(path, {}, replace=0), "replace must be True or False, not 0"),
        (lambda path: espalier.Checkpointer(path.parent / "run", sync=2), "sync must be True or False, not 2"),
        (lambda path: espalier.Checkpointer(path.parent / "run").path("x"), "step must be an int"),
    ],
)  # fmt: skip
def test_an_option_of_another_type_is_named(call, message, saved):
    before = saved.read_bytes()
    with pytest.raises(espalier.EspalierError, match=f"^{message}"):
        call(saved)
    assert saved.read_bytes() == before


def test_bytes_are_bytes(saved):
    for data in (5, "text", None):
        with pytest.raises(TypeError, match="bytes-like"):
            espalier.load_bytes(data)
    assert espalier.load_bytes(bytearray(saved.read_bytes()))["optimizer"] == STATE["optimizer"]


def test_a_key_that_no_file_has_is_not_there(saved):
    assert "\ud800" not in espalier.open(saved)["model"]
    with pytest.raises(KeyError):
        espalier.open(saved)["model"]["\ud800"]


def test_an_error_has_the_name_of_its_file_once(saved, tmp_path):
    missing = tmp_path / "none" / "x"
    for path, call in (
        (missing, lambda: espalier.save(missing, {})),
        (saved, lambda: espalier.save(saved, {}, replace=False)),
        (tmp_path, lambda: espalier.save(tmp_path, {})),
        (missing, lambda: espalier.save_async(missing, {}).result()),
        (missing, lambda: espalier.load(missing)),
    ):
        with pytest.raises(espalier.EspalierError) as failed:
            call()
        message = str(failed.value)
        assert message.startswith(f"{path}: ") and message.count(str(path)) == 1 and "in file" not in message


def test_errors_are_in_the_words_of_python():
    from espalier import _errors

    for message in ("open it with CheckpointFile::open()", "save it, or correct Best::metric", "that Limits::nodes allows"):
        assert "::" not in str(_errors.make("not_found", message, "", None, ""))
