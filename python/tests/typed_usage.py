"""What type checkers know of the package: `scripts/python` and CI have mypy read this. Nothing runs it.

An `ignore` is of an error that there must be: mypy warns of those that ignore nothing.
"""

import dataclasses
from typing import Any, TypedDict, assert_type

import espalier
import jax
import numpy as np
import torch


@dataclasses.dataclass
class Run:
    weights: dict[str, torch.Tensor]
    step: int


class State(TypedDict):
    mean: np.ndarray[Any, Any]
    step: int


def of_the_template(run: Run, state: State, either: bool) -> None:
    assert_type(espalier.load("f", like=run), Run)
    assert_type(espalier.load("f", like=state, strict="file", cast="float", mapped=False), State)
    assert_type(espalier.load("f", like=run, strict=False), tuple[Run, espalier.Ledger])
    assert_type(espalier.load_bytes(b"", like=run.weights, at="weights"), dict[str, torch.Tensor])
    assert_type(espalier.load_bytes(b"", like=run, strict=False), tuple[Run, espalier.Ledger])
    assert_type(espalier.load("f", like=run, strict=either), Any)
    # These stand for something else.
    assert_type(espalier.load("f", like={"a": espalier.spec((3,), "f32"), "b": espalier.ANY}), dict[str, Any])
    espalier.load("f", like=run).steps  # type: ignore[attr-defined]


def of_a_file(framework_tree: dict[str, Any]) -> None:
    assert_type(espalier.load("f"), Any)
    assert_type(espalier.load("f", framework="torch", device="cpu", progress=True), Any)
    espalier.load("f", framework="tensorflow")  # type: ignore[call-overload]
    espalier.load("f", frame="torch")  # type: ignore[call-overload]
    espalier.load_bytes(b"", mapped=True)  # type: ignore[call-overload]
    with espalier.open("f") as file:
        tensor = file["w"]
        assert isinstance(tensor, espalier.Tensor)
        assert_type(tensor.numpy(), np.ndarray[Any, Any])
        assert_type(tensor[:3], np.ndarray[Any, Any])
        assert_type(tensor.torch("cpu"), torch.Tensor)
        assert_type(tensor.jax(), jax.Array)


def of_numbers(model: torch.nn.Module, state: dict[str, Any]) -> None:
    found = espalier.doctor("f", "model/**", threads=2, progress=True)
    assert_type(found, espalier.Diagnosis)
    assert_type(found.faults, tuple[espalier.Finding, ...])
    assert_type(found.findings[0].at, int | None)
    assert_type(espalier.doctor(model).ok and espalier.doctor(state).ok, bool)
    found.tensors = 3  # type: ignore[misc]
    espalier.Checkpointer("run", check="error")  # type: ignore[arg-type]


def of_a_run(checkpointer: espalier.Checkpointer, run: Run, model: torch.nn.Module) -> None:
    assert_type(checkpointer.restore(like=run, best=True), tuple[Run, int])
    assert_type(checkpointer.restore(into={"model": model}, assign=True), tuple[Any, int])
    assert_type(checkpointer.restore(step=3), tuple[Any, int])
    checkpointer.restore(like=run, into={"model": model})  # type: ignore[call-overload]
    checkpointer.restore(like=run)[0].steps  # type: ignore[attr-defined]
