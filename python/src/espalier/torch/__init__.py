"""Espalier for PyTorch: live objects filled from a file, random numbers, and storage for torch.distributed.checkpoint.

    import espalier.torch
    espalier.save("run.espalier", {"model": model, "optimizer": optimizer, "step": 7})
    rest = espalier.torch.load_into({"model": model, "optimizer": optimizer}, "run.espalier")
    step = rest["step"]
"""

from typing import TYPE_CHECKING, Any

from ._load_into import load_into
from ._random import random_state, set_random_state

if TYPE_CHECKING:
    from ._distributed import EspalierReader, EspalierWriter
    from ._file_reader import FileReader


def __getattr__(name: str) -> Any:
    # torch.distributed.checkpoint takes a second to import.
    if name in ("EspalierReader", "EspalierWriter"):
        from . import _distributed

        return getattr(_distributed, name)
    if name == "FileReader":
        from ._file_reader import FileReader

        return FileReader
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["EspalierReader", "EspalierWriter", "FileReader", "load_into", "random_state", "set_random_state"]
