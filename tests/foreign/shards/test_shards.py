#!/usr/bin/env python3
"""Opens the sharded model that huggingface_hub made, and compares all of it with what safetensors read.

Usage: ESPALIER=path/to/espalier test_shards.py
"""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import unittest
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ESPALIER = os.environ["ESPALIER"]
INDEX = "model.safetensors.index.json"
EXPECTED = json.loads((HERE / "expected.json").read_text())
KERAS = json.loads((HERE / "keras.json").read_text())
OK, IO, INCOMPLETE = 0, 4, 6


def run(*args, expect=OK):
    done = subprocess.run([ESPALIER, *map(str, args)], capture_output=True, timeout=100)
    if done.returncode != expect:
        raise AssertionError((args, done.returncode, done.stdout, done.stderr))
    return done.stdout.decode()


def read_safetensors(path):
    """A dict of (dtype, shape, SHA-256), and the metadata."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    metadata = header.pop("__metadata__", {})
    return {
        name: (entry["dtype"].lower(), entry["shape"], hashlib.sha256(data[slice(*entry["data_offsets"])]).hexdigest())
        for name, entry in header.items()
    }, metadata


class Shards(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def copy(self):
        return pathlib.Path(shutil.copytree(HERE / "model", self.folder / "model"))

    def check_tensors(self, path):
        tensors, _ = read_safetensors(path)
        wanted = {t["name"]: (t["dtype"], t["shape"], t["sha256"]) for t in EXPECTED["tensors"]}
        self.assertEqual(tensors, wanted)

    def test_every_tensor(self):
        listed = json.loads(run("ls", "--json", HERE / "model" / INDEX))
        self.assertEqual(listed["format"], "sharded")
        self.assertNotIn("notes", listed)
        self.assertEqual([node["path"] for node in listed["nodes"]], [t["name"] for t in EXPECTED["tensors"]])
        run("convert", "-q", HERE / "model" / INDEX, self.folder / "flat.safetensors", "--no-metadata")
        self.check_tensors(self.folder / "flat.safetensors")

    def test_through_an_espalier_file(self):
        run("convert", "-q", HERE / "model" / INDEX, self.folder / "a.espalier")
        run("verify", self.folder / "a.espalier")
        run("convert", "-q", self.folder / "a.espalier", self.folder / "a.safetensors", "--no-metadata")
        self.check_tensors(self.folder / "a.safetensors")

    def test_metadata(self):
        def plain(node):
            return {child["path"][len(node["path"]) :].lstrip("/"): plain(child) if child["kind"] == "dict" else child["value"]
                    for child in node["children"]}  # fmt: skip

        metadata = plain(json.loads(run("tree", "--json", "--metadata", HERE / "model" / INDEX))["tree"])
        self.assertEqual(metadata.pop("index"), {"metadata": EXPECTED["index"]})
        self.assertEqual(metadata, EXPECTED["metadata"])

    def test_every_command(self):
        for command in ("ls", "tree", "stats", "verify"):
            run(command, HERE / "model" / INDEX)
            run(command, HERE / "model" / INDEX, "--json")
        run("tree", HERE / "model" / INDEX, "--nest")
        run("show", HERE / "model" / INDEX, "model.scalar")

    def test_a_missing_file(self):
        model = self.copy()
        gone = EXPECTED["tensors"][0]["file"]
        (model / gone).unlink()
        listed = json.loads(run("ls", "--json", model / INDEX))
        self.assertEqual([node["path"] for node in listed["nodes"]], [t["name"] for t in EXPECTED["tensors"]])
        lost = {node["path"] for node in listed["nodes"] if node["kind"] == "placeholder"}
        self.assertEqual(lost, {t["name"] for t in EXPECTED["tensors"] if t["file"] == gone})
        self.assertIn(gone, " ".join(note["message"] for note in listed["notes"]))
        # A file that lacks tensors is not taken for the whole model.
        run("convert", "-q", model / INDEX, self.folder / "a.espalier", expect=IO)
        run("verify", model / INDEX, expect=INCOMPLETE)


class Keras(unittest.TestCase):
    """What make_keras.py made: weights in three files, and in a compressed archive."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        with tarfile.open(HERE / "keras.tar.xz") as archive:
            archive.extractall(self.folder)

    def check_weights(self, path):
        """Of each layer, by its name, in the order of Keras; and of the optimizer."""
        listed = json.loads(run("ls", "--json", path))
        paths = [node["path"] for node in listed["nodes"]]
        wanted = [f"{'' if layer == 'optimizer' else 'layers/'}{layer}/vars/{i}" for layer, weights in KERAS.items()
                  for i in range(len(weights))]  # fmt: skip
        self.assertEqual(sorted(paths), sorted(wanted))
        for layer in KERAS:
            inside = f"{layer}/vars/"
            self.assertEqual([each for each in paths if inside in each], [each for each in wanted if inside in each])
        copy = self.folder / "copy.safetensors"
        run("convert", "-q", path, copy, "--unrepresentable=metadata", "--force")
        tensors, _ = read_safetensors(copy)
        for name, each in zip(wanted, (each for weights in KERAS.values() for each in weights), strict=True):
            dtype, shape, sha256 = tensors[name.replace("/", ".")]
            self.assertEqual((dtype.replace("f", "float").replace("i", "int"), shape, sha256), tuple(each), name)

    def test_shards(self):
        index = self.folder / "x.weights.json"
        self.assertNotIn("notes", json.loads(run("ls", "--json", index)))
        self.check_weights(index)
        run("verify", index)
        run("convert", "-q", index, self.folder / "x.espalier")
        self.check_weights(self.folder / "x.espalier")

    def test_a_compressed_model(self):
        self.assertNotIn("notes", json.loads(run("ls", "--json", self.folder / "deflated.keras")))
        self.check_weights(self.folder / "deflated.keras")
        run("verify", self.folder / "deflated.keras")

    def test_a_compressed_model_that_grows_by_much(self):
        bomb = self.folder / "bomb.keras"
        with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("config.json", "{}")
            archive.writestr("model.weights.h5", bytes(70 << 20))
        done = subprocess.run([ESPALIER, "ls", bomb], capture_output=True, text=True, timeout=100)
        self.assertIn("compressed to less than a two-hundredth of 73400320 bytes", done.stderr)

    def test_a_missing_file(self):
        index = self.folder / "x.weights.json"
        (self.folder / "x_00001.weights.h5").unlink()
        listed = json.loads(run("ls", "--json", index))
        messages = " ".join(note["message"] for note in listed["notes"])
        self.assertIn("x_00001.weights.h5, which cannot be opened (file_missing)", messages)
        # The names of its layers are lost. One of the others is called as such a group is, so all have the keys of the files.
        kinds = {node["path"]: node["kind"] for node in listed["nodes"]}
        self.assertEqual((kinds["layers/dense_5/vars"], kinds["layers/dense/vars/0"]), ("placeholder", "tensor"))
        run("convert", "-q", index, self.folder / "x.espalier", expect=IO)
        run("verify", index, expect=INCOMPLETE)


if __name__ == "__main__":
    unittest.main()
