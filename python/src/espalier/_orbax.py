"""Saving checkpoints of Orbax, by Orbax itself."""

import os
from typing import Any

from ._errors import MissingPackage, make
from ._options import Path


def save_orbax(path: Path, state: Any, *, replace: bool = False) -> None:
    """Saves a tree as a checkpoint of Orbax (the folder `path`), by the package orbax-checkpoint, which must be installed.

    The tree is one that Orbax takes: dicts, lists, tuples and registered classes of JAX with arrays of JAX or NumPy, numbers,
    texts and None. A state of load() is one, unless it has placeholders or bytes: `save_orbax("out", load("run.espalier"))`.
    Orbax saves tuples as lists, and named tuples and dataclasses as dicts; load() with `like=` makes them what they were.

    The folder appears under its name when all of it is written. If one is there, CheckpointExists is raised, or with `replace`
    Orbax removes it first. Errors of Orbax itself propagate. In a job of several processes, all of them call this.
    """
    folder = os.path.abspath(os.fsdecode(path))
    if os.path.lexists(folder) and not replace:
        raise make("file_exists", "it is there already; pass replace=True, or another name", "", None, folder)
    try:
        import orbax.checkpoint as ocp
    except ImportError as error:
        raise MissingPackage(
            f"save_orbax() needs the package orbax-checkpoint: pip install orbax-checkpoint ({error})"
        ) from error
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=True)) as checkpointer:
        checkpointer.save(folder, args=ocp.args.PyTreeSave(state), force=replace)
