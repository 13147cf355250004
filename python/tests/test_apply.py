"""Updates of arrays in memory."""

import os

import espalier
import numpy as np
import pytest


def state_at(step):
    """1.5 MiB of weights: a step moves one in a hundred. One more array changes wholly, and one does not."""
    random = np.random.default_rng(1)
    weights = random.integers(0, 2**16, (3, 1 << 18), dtype=np.uint16)
    for i in range(step):
        moves = np.random.default_rng(100 + i)
        weights += (moves.random(weights.shape) < 0.01).astype(np.uint16)
    return {
        "layers": [{"w": weights}, {"b": np.full(7, step, np.float32)}],
        "frozen": np.arange(300_000),
        "step": step,
    }


def arrays_of(state):
    return {"layers": state["layers"], "frozen": state["frozen"]}


@pytest.fixture
def steps(tmp_path):
    """The files of steps 0 to 3, each against the one before."""
    paths = [tmp_path / f"{step}.espalier" for step in range(4)]
    for step, path in enumerate(paths):
        espalier.save(path, state_at(step), base=[paths[step - 1]] if step else [], sync=False)
    return paths


def same(left, right):
    return all(np.array_equal(a, b) for a, b in zip(leaves(left), leaves(right), strict=True))


def leaves(arrays):
    return [arrays["layers"][0]["w"], arrays["layers"][1]["b"], arrays["frozen"]]


def test_an_update_brings_any_earlier_step_to_that_of_the_file(steps):
    for before in range(4):
        live = arrays_of(state_at(before))
        update = espalier.prepare_update(steps[3], live)
        assert same(live, state_at(before))
        assert update.values == {"step": 3}
        assert (update.unchanged, update.read) == ((6, 0) if before == 3 else (3, 1)), update
        assert update.chunks == 6 and update.patched == update.chunks - update.unchanged - update.read
        update.commit()
        update.commit()
        assert same(live, state_at(3))
        assert espalier.apply(steps[3], live).changed_bytes == 0


def test_progress_and_parts(steps):
    live = state_at(2)["layers"]
    told = []
    update = espalier.apply(steps[3], live, at="layers", progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (live[0]["w"].nbytes + 28,) * 2 and update.values == {}
    assert np.array_equal(live[0]["w"], state_at(3)["layers"][0]["w"])


def test_what_does_not_fit_is_refused_and_nothing_changes(steps):
    def refused(kind, match, live, **options):
        with pytest.raises(kind, match=match) as raised:
            espalier.apply(steps[3], live, **options)
        return raised.value

    live = arrays_of(state_at(1))
    live["layers"][0]["w"][2, -1] += 1
    before = live["layers"][0]["w"].copy()
    error = refused(espalier.Corrupt, "neither at the state", live)
    assert (error.code, error.path) == ("base_mismatch", "layers/0/w")
    assert np.array_equal(live["layers"][0]["w"], before)
    assert espalier.apply(steps[3], live, read_others=True).read == 2
    assert same(live, state_at(3))

    live = arrays_of(state_at(1))
    error = refused(espalier.EspalierError, "none is given", {"layers": live["layers"]})
    assert error.path == "frozen"
    espalier.apply(steps[3], {"layers": live["layers"]}, strict="template")
    refused(espalier.EspalierError, "has nothing there", live | {"more": np.zeros(3)})
    refused(espalier.EspalierError, "has no array there", live | {"step": np.zeros(3)})
    refused(espalier.Unsupported, "int cannot be updated", live | {"step": 3})
    refused(espalier.EspalierError, "i64 .300000. there, and the array is i64 .3.", live | {"frozen": np.arange(3)})
    refused(espalier.Unsupported, "read-only", espalier.load(steps[1])["frozen"], at="frozen")
    refused(espalier.Unsupported, "not contiguous", np.arange(600_000)[::2], at="frozen")
    refused(espalier.Unsupported, "does not lie in memory", np.zeros(300_000, ">i8"), at="frozen")
    refused(espalier.KeyPathError, "none", live, at="none")
    refused(espalier.EspalierError, "strict must be", live, strict=False)
    os.remove(steps[2])
    error = refused(espalier.CheckpointOSError, "2.espalier", arrays_of(state_at(1)))
    assert error.code == "file_missing"
    espalier.apply(steps[3], arrays_of(state_at(2)))


def test_memory_that_moved_since_is_not_written_to(steps):
    live = arrays_of(state_at(2))
    update = espalier.prepare_update(steps[3], live)
    weights = live["layers"][0]["w"]
    before = weights.copy()
    live["layers"][1]["b"].resize(1 << 20, refcheck=False)
    with pytest.raises(espalier.EspalierError, match="layers/1/b: the array was resized or moved"):
        update.commit()
    assert np.array_equal(weights, before)
