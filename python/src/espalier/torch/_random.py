"""random_state() and set_random_state(): the random numbers of a process, as a value that a file can hold."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from .._errors import EspalierError


def random_state(device: Any = None) -> dict[str, Any]:
    """The states of the random numbers of this process: Python's `random`, numpy's, torch's, and those of the accelerator.

        espalier.save("run.espalier", {"model": model, "random": espalier.torch.random_state()})
        espalier.torch.set_random_state(espalier.load("run.espalier", at="random"))

    `device` names the accelerator: "cuda", or "cpu" for none. By default it is the one that this process has begun to use. All
    devices that the process sees are taken, or, in a process group of torch.distributed, the current one. Generators of the
    program's own (torch.Generator, numpy.random.Generator) are not part of it.
    """
    name, keys, *rest = np.random.get_state()
    state: dict[str, Any] = {
        "python": random.getstate(),
        # As int32: torch loads no arrays of numpy from its own files, cannot send its uint32, and JAX has no 64 bits by default.
        "numpy": (name, torch.from_numpy(np.asarray(keys).view(np.int32).copy()), *rest),
        "torch": torch.get_rng_state(),
    }
    module = _module(device)
    if module is not None:
        takes_all = hasattr(module, "get_rng_state_all") and not _is_one_of_several()
        state["device"] = list(module.get_rng_state_all()) if takes_all else [module.get_rng_state()]
    return state


def set_random_state(state: Mapping[str, Any], device: Any = None) -> None:
    """Sets what random_state() gave. Its arrays may be of any framework, so load() and load_into() of all kinds go with it.

    A state of another number of devices is an error, and so is one that no generator can have, as of a hostile file. Then nothing was
    set. A state without an accelerator's random numbers leaves those as they are.
    """
    lacking = [name for name in ("python", "numpy", "torch") if name not in state]
    if lacking:
        raise EspalierError(f"this is no state of random_state(): it has no {' and no '.join(lacking)}")
    try:
        of_python, of_numpy = _of_python(state["python"]), _of_numpy(state["numpy"])
        of_torch = _as_tensor(state["torch"])
        torch.Generator().set_state(of_torch)  # which refuses what no generator has
        kept = [_as_tensor(each) for each in state.get("device", ())]
    except (AttributeError, KeyError, OverflowError, RuntimeError, TypeError, ValueError) as error:
        raise EspalierError(f"this is no state of random_state(), and nothing was set: {error}") from error
    module = _module(device) if kept else None
    if module is not None and len(kept) > 1 and len(kept) != module.device_count():
        raise EspalierError(
            f"the state has random numbers of {len(kept)} devices, and this process sees {module.device_count()}; make as many "
            "visible, or leave out state['device']"
        )
    random.setstate(of_python)
    np.random.set_state(of_numpy)
    torch.set_rng_state(of_torch)
    if module is not None:
        if len(kept) > 1:
            module.set_rng_state_all(kept)
        else:
            module.set_rng_state(kept[0])


def _of_python(state: Any) -> tuple[Any, ...]:
    version, values, gauss = state
    made = (version, tuple(values), None if gauss is None else float(gauss))
    random.Random().setstate(made)
    return made


def _of_numpy(state: Any) -> tuple[str, Any, int, int, float]:
    """numpy takes any position, and then reads past the end of its keys."""
    name, keys, position, has_gauss, gauss = state
    keys = np.asarray(keys)
    if name != "MT19937" or keys.shape != (624,) or keys.dtype.kind not in "iu":
        raise ValueError("numpy's is MT19937 with 624 integers")
    if type(position) is not int or not 0 <= position <= 624 or type(has_gauss) is not int or has_gauss not in (0, 1):
        raise ValueError("numpy's position is from 0 to 624, and its mark of a number that is left 0 or 1")
    return name, keys.astype(np.uint32), position, has_gauss, float(gauss)


def _module(device: Any) -> Any:
    """torch's module for the accelerator, or None."""
    if device is not None:
        found = torch.device(device)
        return None if found.type in ("cpu", "meta") else torch.get_device_module(found)
    if not torch.accelerator.is_available():
        return None
    module = torch.get_device_module(torch.accelerator.current_accelerator())
    # To ask a device that was not used would take memory there.
    return module if getattr(module, "is_initialized", lambda: True)() else None


def _is_one_of_several() -> bool:
    return bool(torch.distributed.is_available() and torch.distributed.is_initialized())


def _as_tensor(value: Any) -> Any:
    return value.cpu() if isinstance(value, torch.Tensor) else torch.from_numpy(np.array(value))
