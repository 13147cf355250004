"""Golden files, random trees, handles, errors, signals and threads."""

import _thread
import math
import os
import pickle
import signal
import sys
import threading
import time

import espalier
import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis.extra import numpy as hnp
from test_types import same

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


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-(2**200), 2**200), st.floats(), st.complex_numbers(),
    st.text(), st.binary(max_size=50),
)  # fmt: skip
ARRAYS = hnp.arrays(
    st.one_of(
        hnp.boolean_dtypes(), hnp.integer_dtypes(), hnp.unsigned_integer_dtypes(), hnp.floating_dtypes(sizes=(16, 32, 64)),
        hnp.complex_number_dtypes(sizes=(64, 128)),
    ),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5),
)  # fmt: skip
KEYS = st.one_of(st.text(), st.integers(-(2**63), 2**63 - 1))
TREES = st.recursive(
    st.one_of(SCALARS, ARRAYS),
    lambda children: st.one_of(
        st.lists(children, max_size=4),
        st.lists(children, max_size=4).map(tuple),
        st.dictionaries(KEYS, children, max_size=4),
        st.lists(st.tuples(st.text(), children), max_size=3, unique_by=lambda pair: pair[0]).map(
            lambda pairs: espalier.Record("a.Label", pairs)
        ),
        children.map(lambda child: [child, child]),
    ),
    max_leaves=20,
)


def equal(a, b):
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and same(a.astype(a.dtype.newbyteorder("=")), b)
    if isinstance(a, espalier.Record):
        return a.label == b.label and list(a) == list(b) and all(equal(a[name], b[name]) for name in a)
    if isinstance(a, dict):
        return type(b) is dict and list(a) == list(b) and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, (float, complex)):
        return type(a) is type(b) and repr(a) == repr(b)
    return same(a, b)


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
        with pytest.raises(IndexError, match="1 elements"):
            model["layers"][1]
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
        with pytest.raises(IndexError, match="positive"):
            tensor[index]
    else:
        assert np.array_equal(tensor[index], array[index])


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


@pytest.fixture
def handled_interrupts():
    """A shell's background job ignores them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_leaves_the_old_file(file, handled_interrupts):
    espalier.save(file, 1)
    before = file.read_bytes()
    state = {"a": np.random.default_rng(1).standard_normal(1 << 25)}
    timer = threading.Timer(0.1, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        espalier.save(file, state, compression=9, threads=1)
    timer.join()
    assert file.read_bytes() == before and os.listdir(file.parent) == [file.name]


def test_other_threads_run_during_a_save(file):
    array = np.random.default_rng(1).standard_normal(1 << 22)
    count = 0
    done = threading.Event()

    def saving():
        espalier.save(file, array, compression=5, threads=1)
        done.set()

    thread = threading.Thread(target=saving)
    thread.start()
    while not done.is_set():
        count += 1
        time.sleep(0.001)
    thread.join()
    assert count > 20


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
