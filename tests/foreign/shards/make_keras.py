#!/usr/bin/env python3
"""Makes keras.tar.xz with Keras: weights in several files, and in a .keras file whose entries somebody has compressed. keras.json has what
Keras loads from them: the weights of each layer by its name, and the variables of the optimizer.

Usage: make_keras.py. Needs keras 3.15 and jax from PyPI; the test of these files needs neither.
"""

import hashlib
import io
import json
import os
import pathlib
import tarfile
import tempfile
import zipfile

os.environ["KERAS_BACKEND"] = "jax"
import keras
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent


def make_model(seed):
    keras.backend.clear_session()
    keras.utils.set_random_seed(seed)
    layers = [keras.layers.Dense(8, name="first"), *(keras.layers.Dense(8) for _ in range(10)), keras.layers.BatchNormalization(),
              keras.layers.Dense(2, name="head")]  # fmt: skip
    model = keras.Sequential([keras.layers.Input((4,)), *layers])
    model.compile("adam", "mse")
    model.fit(np.ones((2, 4)), np.zeros((2, 2)), verbose=0)
    return model


def main():
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        model = make_model(1)
        model.save_weights(folder / "x.weights.json", max_shard_size=1.2e-6)
        model.save(folder / "stored.keras")
        with zipfile.ZipFile(folder / "stored.keras") as stored, zipfile.ZipFile(folder / "deflated.keras", "w", zipfile.ZIP_DEFLATED) as new:
            for name in stored.namelist():
                new.writestr(zipfile.ZipInfo(name), stored.read(name), zipfile.ZIP_DEFLATED)
        (folder / "stored.keras").unlink()
        loaded = make_model(2)
        loaded.load_weights(folder / "x.weights.json")

        def describe(value):
            array = np.asarray(value)
            return [array.dtype.name, list(array.shape), hashlib.sha256(array.tobytes()).hexdigest()]

        expected = {layer.name: [describe(value) for value in layer.weights] for layer in loaded.layers}
        expected["optimizer"] = [describe(value) for value in loaded.optimizer.variables]
        for layer in expected:
            # Those that Keras compares with itself: both are the same model.
            other = model.optimizer.variables if layer == "optimizer" else model.get_layer(layer).weights
            assert expected[layer] == [describe(value) for value in other], layer
        (HERE / "keras.json").write_text(json.dumps(expected) + "\n")
        with tarfile.open(HERE / "keras.tar.xz", "w:xz") as archive:
            for path in sorted(folder.iterdir()):
                info = tarfile.TarInfo(path.name)
                info.size = path.stat().st_size
                archive.addfile(info, io.BytesIO(path.read_bytes()))


if __name__ == "__main__":
    main()
