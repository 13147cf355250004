"""save_orbax(): what it refuses. What Orbax saves and Espalier reads is compared in tests/foreign/orbax."""

import sys
import types

import espalier
import numpy as np
import pytest


def test_without_orbax_the_error_names_its_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "orbax", None)
    with pytest.raises(espalier.MissingPackage, match="pip install orbax-checkpoint"):
        espalier.save_orbax(tmp_path / "out", {"w": np.ones(2)})
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_there_is_replaced_only_if_asked(tmp_path, monkeypatch):
    saved = []

    class Checkpointer:
        def __init__(self, handler):
            self.handler = handler

        def __enter__(self):
            return self

        def __exit__(self, *error):
            saved.append("closed")

        def save(self, path, args, force):
            saved.append((path, self.handler, args, force))

    checkpoint = types.SimpleNamespace(
        Checkpointer=Checkpointer,
        PyTreeCheckpointHandler=lambda use_ocdbt: ("handler", use_ocdbt),
        args=types.SimpleNamespace(PyTreeSave=lambda state: ("state", state)),
    )
    orbax = types.ModuleType("orbax")
    orbax.checkpoint = checkpoint
    monkeypatch.setitem(sys.modules, "orbax", orbax)
    monkeypatch.setitem(sys.modules, "orbax.checkpoint", checkpoint)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    with pytest.raises(espalier.CheckpointExists, match="replace=True"):
        espalier.save_orbax("out", {"step": 1})
    assert saved == []
    espalier.save_orbax("out", {"step": 1}, replace=True)
    # Orbax takes absolute paths alone.
    assert saved == [(str(tmp_path / "out"), ("handler", True), ("state", {"step": 1}), True), "closed"]
