"""doctor(): the findings of files and of states, and Checkpointer(check=)."""

import contextlib
import dataclasses
import pickle
import re
import tracemalloc
import uuid
import warnings

import espalier
import numpy as np
import pytest
from test_background import interrupt


def layers(dtype=np.float32, count=8):
    """A sound model of so many layers."""
    generator = np.random.default_rng(7)
    return {
        f"layer_{i}": {
            "weight": (generator.standard_normal((64, 96)) * 0.02).astype(dtype),
            "bias": generator.standard_normal(96).astype(dtype),
        }
        for i in range(count)
    }


def planted(dtype=np.float32):
    """A state with faults, warnings and notes."""
    model = layers(dtype)
    model["layer_1"]["weight"][5, 7] = np.nan
    model["layer_2"]["weight"][0, 3] = np.inf
    model["layer_3"]["weight"][10:30:2] = 0
    model["layer_4"]["weight"] *= 50
    model["layer_5"]["weight"][40] = model["layer_5"]["weight"][41]
    model["layer_7"]["bias"] = model["layer_6"]["bias"].copy()
    return {
        "model": model,
        "optimizer": {"exp_avg_sq": np.full((8, 8), -1, np.float32), "loss": float("nan"), "step": 7},
        # A save copies these arrays, or stores them in another form.
        "transposed": np.asfortranarray(layers(dtype)["layer_0"]["weight"]),
        "strided": layers(dtype)["layer_1"]["weight"][::2],
        "swapped": np.array([1, np.nan, 3], ">f8"),
        "scalars": [np.float32("nan"), np.float64(2)],
        "tied": model["layer_1"]["weight"],
        "empty": np.ones((0, 3), np.float32),
        "hole": espalier.Placeholder("f32", (2, 3)),
        "blocks": espalier.Packed("opaque", (32,), np.zeros(18, np.uint8), block=("q4_0", 32, 18)),
        "none": None,
        0: {"0": np.ones((5, 5)), 0: np.zeros((9, 9))},
    }


def same_of_both(state, file, *patterns):
    """What doctor() says of a state, which is what it says of its file."""
    espalier.save(file, state, views="copy")
    of_file, of_state = espalier.doctor(file, *patterns), espalier.doctor(state, *patterns)
    assert of_state.name == "the state" and of_file.name == str(file)
    assert of_state == dataclasses.replace(of_file, name="the state")
    assert espalier.doctor(state, *patterns, threads=1) == of_state
    return of_state


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_a_state_and_its_file_have_the_same_findings(dtype, file):
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    found = same_of_both(planted(np.dtype(dtype)), file)
    by_rule = {(finding.rule, finding.path) for finding in found.findings}
    assert by_rule >= {
        ("nan", "model/layer_1/weight"), ("infinite", "model/layer_2/weight"), ("dead_rows", "model/layer_3/weight"),
        ("norm", "model/layer_4/weight"), ("equal_rows", "model/layer_5/weight"), ("equal_tensors", "model/layer_7/bias"),
        ("negative_squares", "optimizer/exp_avg_sq"), ("nan", "optimizer/loss"), ("nan", "swapped"), ("nan", "scalars/0"),
    }  # fmt: skip
    assert [fault.rule for fault in found.faults] == ["nan", "nan", "nan", "infinite", "negative_squares"]
    assert (found.placeholders, found.opaque, found.ok, found.is_partial) == (1, 1, False, False)
    nan = next(fault for fault in found.faults if fault.path == "model/layer_1/weight")
    assert nan == ("fault", "nan", "model/layer_1/weight", "", "1 of 6,144 elements is NaN, the first at [5, 7]", 5 * 96 + 7)


def test_patterns_choose(file):
    found = same_of_both(planted(), file, "model/**", "swapped")
    assert found.is_partial and {fault.path.split("/")[0] for fault in found.faults} == {"model", "swapped"}
    assert found.tensors == 17
    for examined in (file, planted()):
        with pytest.raises(espalier.KeyPathError, match="modle"):
            espalier.doctor(examined, "modle/**")
        with pytest.raises(espalier.EspalierError, match="pattern"):
            espalier.doctor(examined, "a{")


def test_torch(file):
    torch = pytest.importorskip("torch")
    torch.manual_seed(3)
    model = torch.nn.Sequential(*(torch.nn.Linear(48, 48, dtype=torch.bfloat16) for _ in range(8)))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        model(torch.randn(16, 48, dtype=torch.bfloat16)).square().mean().backward()
        optimizer.step()
    with torch.no_grad():
        model[2].weight[1, 2] = torch.nan
        model[5].weight[:8] = 0
    frozen = torch.randn(70, 80).t()
    frozen[3, 4] = torch.inf
    state = {"model": model, "optimizer": optimizer, "frozen": frozen, "head": model[0].weight, "neg": torch.randn(9, 9).mH}
    found = same_of_both(state, file)
    assert {(fault.rule, fault.path) for fault in found.faults} >= {("nan", "model/2.weight"), ("infinite", "frozen")}
    assert ("dead_rows", "model/5.weight") in {(finding.rule, finding.path) for finding in found.warnings}
    # A module alone, and its state_dict().
    for part in (model, model.state_dict()):
        assert [fault.path for fault in espalier.doctor(part).faults] == ["2.weight"]


def test_jax(file):
    jax = pytest.importorskip("jax")
    state = {"layers": [{"w": jax.random.normal(jax.random.key(i), (32, 32), jax.numpy.bfloat16)} for i in range(6)]}
    state["layers"][3]["w"] = state["layers"][3]["w"].at[1, 1].set(jax.numpy.nan)
    found = same_of_both(state, file)
    assert [(fault.rule, fault.path, fault.at) for fault in found.faults] == [("nan", "layers/3/w", 33)]


def test_arrays_that_must_be_copied_are_copied_one_by_one():
    arrays = [np.asfortranarray(np.random.default_rng(i).standard_normal((512, 1024))) for i in range(12)]
    arrays[7][1, 1] = np.nan
    tracemalloc.start()
    found = espalier.doctor(arrays, threads=1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [fault.path for fault in found.faults] == ["7"] and found.bytes == 12 * arrays[0].nbytes
    assert arrays[0].nbytes <= peak < 2.5 * arrays[0].nbytes


def test_an_array_that_cannot_be_copied_again():
    class Fickle:
        def __init__(self, *copies):
            self.copies = list(copies)

        def state_dict(self):
            if not self.copies:
                raise RuntimeError("gone")
            return np.asfortranarray(self.copies.pop(0))

    nan = np.full((3, 4), np.nan)
    assert [fault.path for fault in espalier.doctor({"a": Fickle(np.ones((3, 4)), nan)}).faults] == ["a"]
    with pytest.raises(RuntimeError, match="gone"):
        espalier.doctor({"a": Fickle(nan)})
    with pytest.raises(espalier.CheckpointOSError, match="another size than before"):
        espalier.doctor({"a": Fickle(nan, nan[1:])})


def test_what_it_says(file):
    state = {"a": np.array([1, np.nan], np.float32), "w": layers(count=1)["layer_0"]["weight"], "s": float("nan")}
    espalier.save(file, state)
    found = espalier.doctor(file)
    assert str(found).splitlines() == [
        "fault   a: 1 of 2 elements is NaN, the first at [1]",
        "warning s: is NaN",
        f"{file}: 1 fault, 1 warning; 2 tensors examined, 24.0 KiB; 1 matrix is like no other: compared with none",
    ]
    assert repr(found) == f"<diagnosis of {file}: 1 fault, 1 warning>"
    assert found._repr_html_() == f"<pre>{found}</pre>"
    assert str(espalier.doctor({"a": np.arange(3.0)})) == "the state: nothing found; 1 tensor examined, 24 B"
    assert espalier.doctor({"a": np.arange(3.0)}).ok and not found.ok
    assert found.faults + found.warnings + found.notes == found.findings and len(found.warnings) == 1
    assert [str(fault) for fault in found.faults] == ["a: 1 of 2 elements is NaN, the first at [1]"]
    with pytest.raises(AttributeError):
        found.tensors = 3
    assert pickle.loads(pickle.dumps(found)) == found
    many = espalier.doctor([np.array([np.nan, i]) for i in range(23)])
    lines = str(many).splitlines()
    assert len(many.faults) == 23 and len(lines) == 22 and lines[-2] == "        3 more of nan: see findings"
    # A tensor at the root has no path.
    assert str(espalier.doctor(np.array(np.nan))).startswith("fault   (root): ")


def test_files_of_others_and_open_ones(file, tmp_path, monkeypatch):
    arrays = {name: value for name, value in layers(count=2)["layer_0"].items()}
    arrays["bias"][3] = np.nan
    np.savez(tmp_path / "a.npz", **arrays, names=np.array([None, "x"], dtype=object))
    found = espalier.doctor(tmp_path / "a.npz")
    assert [(fault.path, fault.at) for fault in found.faults] == [("bias", 3)]
    assert [note.path for note in found.code] == ["names"]
    assert str(found).startswith("  code: names: ") and "1 name of code, 1 fault" in str(found)
    espalier.save_safetensors(tmp_path / "a.safetensors", {"m": arrays})
    assert [fault.path for fault in espalier.doctor(tmp_path / "a.safetensors", "m/*", nest=True).faults] == ["m/bias"]
    espalier.save(file, arrays)
    with espalier.open(file) as checkpoint:
        assert [fault.path for fault in espalier.doctor(checkpoint).faults] == ["bias"]
    with pytest.raises(espalier.EspalierError, match="closed"):
        espalier.doctor(checkpoint)
    mapped = espalier.map(file, {"espalier_map": 1, "rules": ["bias <-> b"], "rest": "keep"})
    checked = []
    monkeypatch.setattr(espalier.MappedCheckpoint, "check", lambda mapped: checked.append(mapped))
    assert [fault.path for fault in espalier.doctor(mapped).faults] == ["b"] and checked == [mapped]


def test_a_url(file):
    pytest.importorskip("fsspec")
    url = f"memory://doctor/{uuid.uuid4().hex}.espalier"
    espalier.save(url, {"a": np.array([np.nan])})
    assert [fault.path for fault in espalier.doctor(url, storage_options={}).faults] == ["a"]


def test_damage_is_a_finding(file):
    espalier.save(file, {"a": np.ones(3), "b": np.arange(64.0)})
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    assert [(fault.rule, fault.path) for fault in espalier.doctor(file).faults] == [("unreadable", "b")]


def test_what_is_refused(file, tmp_path):
    with pytest.raises(espalier.Unsupported, match="^a: "):
        espalier.doctor({"a": object()})
    with pytest.raises(espalier.CheckpointNotFound):
        espalier.doctor(tmp_path / "none")
    for options in ({"nest": True}, {"storage_options": {}}):
        with pytest.raises(espalier.EspalierError, match="are for a path"):
            espalier.doctor({}, **options)
    espalier.save(file, {})
    with pytest.raises(espalier.EspalierError, match="storage_options"):
        espalier.doctor(file, storage_options={"headers": {}})
    with pytest.raises(espalier.EspalierError, match="threads"):
        espalier.doctor({}, threads=-1)


def test_progress_and_ctrl_c(handled_interrupts):
    state = {"a": np.random.default_rng(1).standard_normal(1 << 22), "b": np.asfortranarray(np.ones((1 << 10, 1 << 10)))}
    told = []
    espalier.doctor(state, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (5 << 23, 5 << 23) and sorted(told) == told

    def fail(done, total):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        espalier.doctor(state, progress=fail)
    interrupt(lambda: espalier.doctor(state), 0.05)


# Checkpointer(check=)


@pytest.fixture(params=["folder", "store"])
def folder(request, tmp_path):
    if request.param == "folder":
        return str(tmp_path / "run")
    pytest.importorskip("fsspec")
    return f"memory://doctor/{uuid.uuid4().hex}"


GOOD, BAD = {"w": np.arange(9.0), "n": 1}, {"w": np.array([1, np.nan, 3, np.nan]), "v": [np.array([np.inf, 1])]}


@pytest.mark.parametrize("background", [True, False])
def test_a_step_with_faults_replaces_nothing(folder, background):
    with espalier.Checkpointer(folder, keep=1, best=("loss", "min"), background=background, check="raise") as checkpointer:
        checkpointer.save(1, GOOD, metrics={"loss": 3})
        with pytest.raises(espalier.Unhealthy) as refused:
            checkpointer.save(2, BAD, metrics={"loss": 1})
            checkpointer.wait()
        assert checkpointer.steps == [1] and checkpointer.best == checkpointer.latest == 1
        error = refused.value
        assert [(fault.rule, fault.path, fault.at) for fault in error.findings] == [("nan", "w", 1), ("infinite", "v/0", 0)]
        assert (error.code, error.path) == ("tree_invalid", "w")
        assert re.match(r".*, step 2: the state has 2 faults, so it was not saved: w: 2 of 4 elements are NaN, the first at \[1\]; v/0: ", str(error))
        again = pickle.loads(pickle.dumps(error))
        assert (str(again), again.findings, again.path) == (str(error), error.findings, "w")
        assert np.array_equal(checkpointer.restore()[0]["w"], GOOD["w"])
        checkpointer.save(3, GOOD, metrics={"loss": 2})
        checkpointer.wait()
        assert checkpointer.steps == [3]


@pytest.mark.parametrize("background", [True, False])
def test_nothing_is_written_for_it(tmp_path, background):
    run = tmp_path / "run"
    checkpointer = espalier.Checkpointer(run, background=background, check="raise")
    with pytest.raises(espalier.Unhealthy):
        checkpointer.save(1, BAD)
        checkpointer.wait()
    assert [each.name for each in run.iterdir() if not each.name.startswith(".")] == []
    # Also over a step that is there.
    checkpointer.save(1, GOOD)
    with pytest.raises(espalier.Unhealthy):
        checkpointer.save(1, BAD)
        checkpointer.close()
    assert np.array_equal(checkpointer.restore()[0]["w"], GOOD["w"])


@pytest.mark.parametrize("background", [True, False])
def test_a_warning_for_each_step(folder, background):
    with warnings.catch_warnings(record=True) as caught, contextlib.ExitStack() as stack:
        warnings.simplefilter("always")
        checkpointer = stack.enter_context(espalier.Checkpointer(folder, keep=2, background=background, check="warn"))
        for step, state in enumerate([GOOD, BAD, BAD, GOOD]):
            checkpointer.save(step, state)
            checkpointer.wait()
            checkpointer.wait()
        assert checkpointer.steps == [2, 3]
    told = [each.message for each in caught if isinstance(each.message, espalier.HealthWarning)]
    assert [re.search(r"step (\d): the state has 2 faults, and was saved: w: 2 of 4", str(each))[1] for each in told] == ["1", "2"]
    assert [fault.path for fault in told[0].findings] == ["w", "v/0"]
    assert all(each.filename == __file__ for each in caught if isinstance(each.message, espalier.HealthWarning))


def test_the_copy_is_looked_at(folder):
    # Large enough that the copy is looked at after save() has returned.
    noise = np.random.default_rng(2).standard_normal(1 << 23)
    with espalier.Checkpointer(folder, check="raise") as checkpointer:
        state = {"a": noise.copy(), "b": np.array([np.nan])}
        checkpointer.save(1, state)
        state["b"][:] = 1
        with pytest.raises(espalier.Unhealthy):
            checkpointer.wait()
        checkpointer.save(2, state)
        state["a"][-1] = state["b"][0] = np.nan
        checkpointer.wait()
        assert checkpointer.steps == [2]


def test_going_back_to_the_last_good_step(folder):
    with espalier.Checkpointer(folder, check="raise") as checkpointer:
        checkpointer.save(1, GOOD)
        checkpointer.save(2, BAD)
        with pytest.raises(espalier.Unhealthy, match="step 2: .*; the save of step 3 has begun$"):
            checkpointer.save(3, BAD)
        with contextlib.suppress(espalier.Unhealthy):
            checkpointer.wait()
        assert checkpointer.restore()[1] == 1


def test_faults_alone_count(folder):
    with espalier.Checkpointer(folder, check="raise", keep=None) as checkpointer:
        # Warnings: a NaN that is no tensor, dead rows.
        state = layers()
        state["layer_3"]["weight"][10:30:2] = 0
        assert not espalier.doctor(state).ok
        checkpointer.save(1, {**state, "loss": float("nan")})
        # A mask.
        checkpointer.save(2, {"mask": np.where(np.tri(32, dtype=bool), 0, -np.inf)})
    with espalier.Checkpointer(folder, keep=None) as checkpointer:
        checkpointer.save(3, BAD)
        checkpointer.wait()
        assert checkpointer.steps == [1, 2, 3]
    for wrong in ("error", True, ""):
        with pytest.raises(espalier.EspalierError, match='check must be "warn", "raise" or None'):
            espalier.Checkpointer(folder, check=wrong)


def test_arrays_that_a_save_holds(folder):
    jnp = pytest.importorskip("jax.numpy")
    torch = pytest.importorskip("torch")
    with espalier.Checkpointer(folder, check="raise") as checkpointer:
        for step, state in enumerate([{"a": jnp.array([1, jnp.nan])}, {"a": torch.tensor([[1, torch.nan]], dtype=torch.bfloat16).t()}]):
            with pytest.raises(espalier.Unhealthy, match="a: 1 of 2 elements is NaN"):
                checkpointer.save(step, state)
                checkpointer.wait()
        assert checkpointer.steps == []


def test_incremental_steps(tmp_path):
    noise = np.random.default_rng(4).standard_normal(1 << 18)
    with espalier.Checkpointer(tmp_path / "run", check="raise", incremental=True) as checkpointer:
        checkpointer.save(1, {"a": noise})
        with pytest.raises(espalier.Unhealthy):
            checkpointer.save(2, {"a": np.append(noise[1:], np.nan)})
            checkpointer.wait()
        checkpointer.save(3, {"a": noise, "b": 1})
        checkpointer.wait()
        assert checkpointer.steps == [1, 3]
