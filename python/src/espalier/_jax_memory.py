"""Whether the memory of a JAX array on a CPU is JAX's own: then nothing changes it.

jax.device_put() of a numpy array and jax.dlpack.from_dlpack() may share memory that a program can write to, and JAX does not
tell. But each array knows where it was made: by a function that JAX compiled, whose results are in new memory, or by one that
takes over memory.
"""

from __future__ import annotations

import functools
import os
from types import CodeType
from typing import Any

# Where JAX calls what it compiled, below its own folder: a name of a function, or all of a folder. What takes over memory is
# elsewhere. The files in these folders get arrays from compiled functions alone.
_CALLS = {("_src/interpreters/pxla.py", "__call__"), ("_src/dispatch.py", "apply_primitive")}
_FOLDERS = ("_src/numpy/", "_src/lax/", "_src/nn/", "_src/random/")
_TAKES_OVER = "_src/numpy/array_constructors.py"


def is_own(*arrays: Any) -> bool:
    """Whether a function that JAX compiled made all of the arrays, as far as JAX tells."""
    return _tells() and all(map(_is_computed, arrays))


@functools.cache
def _tells() -> bool:
    """Whether this JAX tells what it takes over: else its functions have other names than those above."""
    import jax
    import numpy as np

    try:
        taken = jax.device_put(np.zeros(1, np.float32), jax.devices("cpu")[0])
        return not _is_computed(taken) and not _is_computed(jax.dlpack.from_dlpack(taken))
    except Exception:  # of a JAX that has no such functions, or no CPU
        return False


def _is_computed(array: Any) -> bool:
    made_by = getattr(array, "traceback", None)
    codes: list[CodeType] = [] if made_by is None else made_by.raw_frames()[0]
    return bool(codes) and _computes(codes[0])


@functools.lru_cache(4096)
def _computes(code: CodeType) -> bool:
    import jax

    folder = os.path.join(os.path.dirname(jax.__file__), "")
    if not code.co_filename.startswith(folder):
        return True  # a program's line that calls a compiled function
    name = code.co_filename.removeprefix(folder).replace(os.sep, "/")
    return (name, code.co_name) in _CALLS or name.startswith(_FOLDERS) and name != _TAKES_OVER
