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

    A state of another number of devices is an error, and then nothing was set. A state without an accelerator's random numbers
    leaves those as they are.
    """
    lacking = [name for name in ("python", "numpy", "torch") if name not in state]
    if lacking:
        raise EspalierError(f"this is no state of random_state(): it has no {' and no '.join(lacking)}")
    version, values, gauss = state["python"]
    name, keys, *rest = state["numpy"]
    kept = [_as_tensor(each) for each in state.get("device", ())]
    module = _module(device) if kept else None
    if module is not None and len(kept) > 1 and len(kept) != module.device_count():
        raise EspalierError(
            f"the state has random numbers of {len(kept)} devices, and this process sees {module.device_count()}; make as many "
            "visible, or leave out state['device']"
        )
    random.setstate((version, tuple(values), gauss))
    np.random.set_state((name, np.asarray(keys).astype(np.uint32), *rest))
    torch.set_rng_state(_as_tensor(state["torch"]))
    if module is not None:
        if len(kept) > 1:
            module.set_rng_state_all(kept)
        else:
            module.set_rng_state(kept[0])


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
