"""Espalier: training checkpoints as one nested tree over flat tensor bytes.

    import espalier
    espalier.save("run.espalier", {"model": weights, "optimizer": moments, "step": 7})
    state = espalier.load("run.espalier")
    with espalier.open("run.espalier") as checkpoint:
        rows = checkpoint["model"]["layers"][0]["weight"][0:128]
"""

from ._api import load, open, save, save_async, save_bytes
from ._async import AsyncSave, NotInThisProcess
from ._checkpoint import Checkpoint, Node, Tensor, VerifyReport
from ._checkpointer import Checkpointer, DamagedCheckpoint
from ._core import VERSION as __version__
from ._errors import (
    Cancelled,
    CheckpointExists,
    CheckpointNotFound,
    CheckpointOSError,
    Corrupt,
    EspalierError,
    KeyPathError,
    Unsupported,
)
from ._like import ANY, SKIP, Ledger, Mismatch, TreeMismatch, spec
from ._registry import register
from ._wrappers import AxisNamed, Labelled, OrderedSet, Packed, Placeholder, Record

__all__ = [
    "ANY", "AsyncSave", "AxisNamed", "Cancelled", "Checkpoint", "CheckpointExists", "CheckpointNotFound",
    "CheckpointOSError", "Checkpointer", "Corrupt", "DamagedCheckpoint", "EspalierError", "KeyPathError",
    "Labelled", "Ledger", "Mismatch", "Node", "NotInThisProcess", "OrderedSet", "Packed", "Placeholder", "Record",
    "SKIP", "Tensor", "TreeMismatch", "Unsupported", "VerifyReport", "__version__", "load", "open", "register",
    "save", "save_async", "save_bytes", "spec",
]  # fmt: skip
