"""Espalier: training checkpoints as one nested tree over flat tensor bytes.

    import espalier
    espalier.save("run.espalier", {"model": weights, "optimizer": moments, "step": 7})
    state = espalier.load("run.espalier")
    with espalier.open("run.espalier") as checkpoint:
        rows = checkpoint["model"]["layers"][0]["weight"][0:128]
"""

from ._core import VERSION as __version__

# What type checkers take to be true, and Python does not: this is typing's, whose import would take as long as all else here.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from . import torch as torch
    from ._api import load, load_bytes, open, save, save_async, save_bytes, save_safetensors
    from ._apply import Update, apply, prepare_update
    from ._async import AsyncSave, NotInThisProcess
    from ._checkpoint import Checkpoint, Note, VerifyReport
    from ._checkpointer import Checkpointer, DamagedCheckpoint
    from ._doctor import Diagnosis, Finding, HealthWarning, Unhealthy, doctor
    from ._errors import (
        Cancelled,
        CheckpointExists,
        CheckpointNotFound,
        CheckpointOSError,
        CodeWarning,
        Corrupt,
        EspalierError,
        Incomplete,
        KeyPathError,
        LossWarning,
        MissingPackage,
        SliceError,
        Unsupported,
    )
    from ._like import ANY, SKIP, Ledger, Mismatch, TreeMismatch, spec
    from ._map import MappedCheckpoint, MapTarget, key_maps, map
    from ._node import Node
    from ._orbax import save_orbax
    from ._registry import register
    from ._tensor import Tensor
    from ._wrappers import AxisNamed, Labelled, OrderedSet, Packed, Placeholder, Record
else:
    # The same for Python, which imports a module when the first of its names is used. A test compares the two lists.
    _NAMES_OF = {
        "_api": "load load_bytes open save save_async save_bytes save_safetensors",
        "_apply": "Update apply prepare_update",
        "_async": "AsyncSave NotInThisProcess",
        "_checkpoint": "Checkpoint Note VerifyReport",
        "_checkpointer": "Checkpointer DamagedCheckpoint",
        "_doctor": "Diagnosis Finding HealthWarning Unhealthy doctor",
        "_errors": "Cancelled CheckpointExists CheckpointNotFound CheckpointOSError CodeWarning Corrupt EspalierError Incomplete KeyPathError LossWarning MissingPackage SliceError Unsupported",
        "_like": "ANY SKIP Ledger Mismatch TreeMismatch spec",
        "_map": "MapTarget MappedCheckpoint key_maps map",
        "_node": "Node",
        "_orbax": "save_orbax",
        "_registry": "register",
        "_tensor": "Tensor",
        "_wrappers": "AxisNamed Labelled OrderedSet Packed Placeholder Record",
    }
    _MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names.split()}

    def __getattr__(name):
        from importlib import import_module

        if name == "torch":
            return import_module(".torch", __name__)
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(f".{_MODULE_OF[name]}", __name__), name)
        globals()[name] = found  # The next use finds it without this function.
        return found

    def __dir__():
        from importlib.util import find_spec

        # help() imports what is listed.
        return sorted({*globals(), *__all__, *(["torch"] if find_spec("torch") else [])})


__all__ = [
    "ANY", "AsyncSave", "AxisNamed", "Cancelled", "Checkpoint", "CheckpointExists", "CheckpointNotFound",
    "CheckpointOSError", "Checkpointer", "CodeWarning", "Corrupt", "DamagedCheckpoint", "Diagnosis", "EspalierError", "Finding", "HealthWarning", "Incomplete", "KeyPathError",
    "Labelled", "Ledger", "LossWarning", "MapTarget", "MappedCheckpoint", "Mismatch", "MissingPackage", "Node", "Note", "NotInThisProcess", "OrderedSet", "Packed", "Placeholder",
    "Record", "SKIP", "SliceError", "Tensor", "TreeMismatch", "Unhealthy", "Unsupported", "Update", "VerifyReport", "__version__", "apply", "doctor", "key_maps", "load", "load_bytes", "map", "open", "prepare_update", "register",
    "save", "save_async", "save_bytes", "save_orbax", "save_safetensors", "spec",
]  # fmt: skip
