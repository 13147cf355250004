"""The random numbers of a process, saved and set again."""

import random

import espalier
import numpy as np
import pytest

torch = pytest.importorskip("torch")
from espalier.torch import load_into, random_state, set_random_state  # noqa: E402


def drawn():
    # gauss() keeps its second number, as numpy's does.
    return random.gauss(0, 1), np.random.standard_normal(3).tolist(), torch.rand(3).tolist()


@pytest.fixture
def file(tmp_path):
    return tmp_path / "random.espalier"


@pytest.mark.parametrize("framework", ["numpy", "torch", "jax"])
def test_the_next_numbers_come_again(framework, file):
    if framework == "jax":
        pytest.importorskip("jax")
    drawn()
    espalier.save(file, {"step": 1, "random": random_state()})
    wanted = [drawn(), drawn()]
    random.seed(9)
    np.random.seed(9)
    torch.manual_seed(9)
    set_random_state(espalier.load(file, at="random", framework=framework))
    assert [drawn(), drawn()] == wanted


def test_a_state_in_memory_and_beside_live_objects(file):
    model = torch.nn.Linear(2, 2)
    state = random_state()
    espalier.save(file, {"model": model, "random": state})
    wanted = drawn()
    set_random_state(state)
    assert drawn() == wanted
    set_random_state(load_into({"model": model}, file)["random"])
    assert drawn() == wanted


def test_a_file_of_torch_holds_it_too(file):
    torch.save(random_state(), file)
    wanted = drawn()
    set_random_state(torch.load(file, weights_only=True))
    assert drawn() == wanted


def test_another_state_is_an_error():
    before = random_state()
    with pytest.raises(espalier.EspalierError, match="it has no python and no torch"):
        set_random_state({"numpy": before["numpy"]})
    # What no generator has, as of a hostile file: numpy would take a position, and read past the end of its keys.
    python, (name, keys, position, *rest), of_torch = before["python"], before["numpy"], before["torch"]
    for part in (
        {"numpy": (name, keys, 10**9, *rest)}, {"numpy": (name, keys, -1, *rest)}, {"numpy": (name, keys, True, *rest)},
        {"numpy": (name, keys[:600], position, *rest)}, {"numpy": ("PCG64", keys, position, *rest)}, {"numpy": ()},
        {"python": (python[0], python[1][:-1] + (10**6,), None)}, {"python": (python[0], (1, 2), None)}, {"python": 5},
        {"torch": of_torch[:-1]}, {"torch": torch.full_like(of_torch, 255)}, {"torch": "x"}, {"device": 7},
    ):  # fmt: skip
        set_random_state(before)
        wanted = drawn()
        set_random_state(before)
        with pytest.raises(espalier.EspalierError, match="nothing was set"):
            set_random_state({**before, **part})
        assert drawn() == wanted


class Devices:
    """As torch's module for an accelerator."""

    def __init__(self, count):
        self.states = [torch.full((4,), number, dtype=torch.uint8) for number in range(count)]

    def device_count(self):
        return len(self.states)

    def get_rng_state_all(self):
        return list(self.states)

    def get_rng_state(self):
        return self.states[0]

    def set_rng_state_all(self, states):
        self.states = list(states)

    def set_rng_state(self, state):
        self.states[0] = state


def test_devices(monkeypatch, file):
    two, other, three = Devices(2), Devices(2), Devices(3)
    monkeypatch.setattr(torch, "get_device_module", lambda device: two)
    assert "device" not in random_state("cpu")
    two.states[1] += 5
    espalier.save(file, random_state("cuda"))
    state = espalier.load(file)
    monkeypatch.setattr(torch, "get_device_module", lambda device: other)
    set_random_state(state, "cuda")
    assert [each.tolist() for each in other.states] == [[0] * 4, [6] * 4]
    monkeypatch.setattr(torch, "get_device_module", lambda device: three)
    before = random.getstate()
    with pytest.raises(espalier.EspalierError, match="of 2 devices, and this process sees 3"):
        set_random_state(state, "cuda")
    assert random.getstate() == before
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    assert len(random_state("cuda")["device"]) == 1
