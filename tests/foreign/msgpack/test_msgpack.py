#!/usr/bin/env python3
"""Opens the files that flax made, and compares all of them with what flax read.

Usage: ESPALIER=path/to/espalier test_msgpack.py
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

HERE = pathlib.Path(__file__).resolve().parent
ESPALIER = os.environ["ESPALIER"]
EXPECTED = json.loads((HERE / "expected.json").read_text())
BESIDE = json.loads((HERE / "beside.json").read_text())
DTYPES = {"bfloat16": "bf16", "float": "f", "int": "i", "uint": "u", "complex": "c"}
OPAQUE = ("datetime64[D]",)


def run(*args):
    return subprocess.run([ESPALIER, *map(str, args)], check=True, capture_output=True, timeout=100).stdout.decode()


def short(dtype):
    for long, prefix in DTYPES.items():
        if dtype.startswith(long):
            return prefix + dtype[len(long) :]
    return dtype


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def check(self, file, node, expected):
        path, kind = node["path"], expected["kind"]
        if kind in ("dict", "list"):
            self.assertEqual(node["kind"], kind, path)
            children = expected["children"]
            children = list(children.values()) if kind == "dict" else children
            self.assertEqual(len(node["children"]), len(children), path)
            if kind == "dict":
                keys = [child["path"][len(path) :].lstrip("/") for child in node["children"]]
                self.assertEqual(keys, [key or "~2" for key in expected["children"]])
            for child, wanted in zip(node["children"], children, strict=True):
                self.check(file, child, wanted)
        elif kind == "tensor":
            self.check_tensor(file, node, expected)
        elif kind == "complex128":
            self.assertEqual(complex(*node["value"]), complex(expected["value"].strip("()")), path)
        else:
            if kind == "int":
                self.assertIn(node["kind"], ("int64", "bigint"), path)
                self.assertEqual(str(node["value"]), expected["value"], path)
                return
            self.assertEqual(node["kind"], kind, path)
            value = expected.get("value")
            self.assertEqual(node["value"], float(value) if kind == "float64" else value, path)

    def check_tensor(self, file, node, expected):
        path = node["path"]
        self.assertEqual(node["kind"], "tensor", path)
        if expected["dtype"] in OPAQUE:
            self.assertEqual((node["dtype"], node["shape"]), ("opaque", expected["shape"] or [1]), path)
        else:
            self.assertEqual((node["dtype"].replace("_", ""), node["shape"]),
                             (short(expected["dtype"]).replace("_", ""), expected["shape"]), path)  # fmt: skip
        self.assertEqual(node.get("label"), "numpy." + expected["dtype"] if expected["scalar"] else None, path)
        out = self.folder / "tensor.raw"
        run("extract", "-q", file, path, "-o", out, "--force")
        self.assertEqual(hashlib.sha256(out.read_bytes()).hexdigest(), expected["sha256"], path)



class Msgpack(Files):
    def check_file(self, name, path=None):
        path = path or HERE / f"{name}.msgpack"
        self.check(path, json.loads(run("tree", "--json", path))["tree"], EXPECTED[name])

    def test_training_state(self):
        self.check_file("train")

    def test_every_kind_of_value(self):
        self.check_file("odd")
        notes = json.loads(run("ls", "--json", HERE / "odd.msgpack"))["notes"]
        self.assertEqual([note["path"] for note in notes], ["times", "time"])

    def test_chunks_that_cannot_be_joined(self):
        self.check_file("chunked")

    def test_conversion(self):
        for name in EXPECTED:
            run("convert", "-q", HERE / f"{name}.msgpack", self.folder / f"{name}.espalier")
            run("verify", self.folder / f"{name}.espalier")
            self.check_file(name, self.folder / f"{name}.espalier")
        run("convert", "-q", HERE / "train.msgpack", self.folder / "a.safetensors", "--unrepresentable=metadata")

    def test_every_command(self):
        for command in ("ls", "tree", "stats", "verify"):
            run(command, HERE / "odd.msgpack")
            run(command, HERE / "odd.msgpack", "--json")
        run("show", HERE / "train.msgpack", "params/Dense_0/bias")


class Beside(Files):
    """Files of make_beside.py, whose arrays lie in folders beside them."""

    def setUp(self):
        super().setUp()
        with tarfile.open(HERE / "beside.tar.xz") as archive:
            archive.extractall(self.folder)

    def check_value(self, file, node, expected):
        path = node["path"]
        if isinstance(expected, (dict, list)):
            self.assertEqual(node["kind"], "dict" if isinstance(expected, dict) else "list", path)
            if isinstance(expected, dict):
                keys = [child["path"].rpartition("/")[2] for child in node["children"]]
                self.assertEqual(sorted(keys), sorted(expected), path)
                expected = [expected[key] for key in keys]
            self.assertEqual(len(node["children"]), len(expected), path)
            for child, each in zip(node["children"], expected, strict=True):
                self.check_value(file, child, each)
        elif isinstance(expected, str) and len(expected.rpartition(" ")[2]) == 64:
            dtype, shape, sha256 = expected.partition(" ")[0], *expected.partition(" ")[2].rsplit(" ", 1)
            wanted = {"dtype": dtype, "shape": json.loads(shape), "sha256": sha256, "scalar": "label" in node}
            self.check_tensor(file, node, wanted)
        elif node["kind"] == "tensor":  # a number of Python, whose bytes lie in a file
            self.assertEqual(node["shape"], [], path)
            self.assertEqual(json.loads(run("show", file, path, "--json"))["node"]["values"], expected, path)
        else:
            self.assertEqual(node.get("value"), expected, path)

    def test_all_are_equal_to_what_orbax_and_flax_restore(self):
        self.assertEqual(len(BESIDE), 7)
        for name, expected in BESIDE.items():
            with self.subTest(name):
                path, copy = self.folder / name / ("checkpoint_7" if name == "flax" else ""), self.folder / f"{name}.espalier"
                self.assertNotIn("notes", json.loads(run("ls", "--json", path)))
                run("verify", path)
                run("convert", "-q", path, copy)
                tree = json.loads(run("tree", "--json", copy))["tree"]
                self.check_value(copy, tree, expected)
                if name != "flax":  # by the file in the folder
                    self.assertEqual(json.loads(run("tree", "--json", path / "checkpoint"))["tree"], tree)

    def test_what_is_missing_is_named(self):
        (self.folder / "plain/w/.zarray").unlink()
        (self.folder / "flax/checkpoint_7_gda/params/b/0").unlink()
        for path, key, says in (
            (self.folder / "plain", "w", "this array cannot be read: its file w/.zarray is missing"),
            (self.folder / "flax/checkpoint_7", "params/b", None),
        ):
            listed = json.loads(run("ls", "--json", "--all", path))
            kinds = {node["path"]: node["kind"] for node in listed["nodes"]}
            if says is None:  # zarr fills chunks that are not stored
                self.assertEqual(kinds[key], "tensor")
                continue
            self.assertEqual(kinds[key], "placeholder")
            self.assertEqual([(note["path"], note["message"]) for note in listed["notes"]], [(key, says)])
        (self.folder / "ocdbt/manifest.ocdbt").unlink()
        listed = json.loads(run("ls", "--json", "--all", self.folder / "ocdbt"))
        messages = [note["message"] for note in listed["notes"]]
        self.assertTrue(any("only the names are known of 12 arrays in folders beside the file" in each for each in messages), messages)
        self.assertTrue(any("the save did not finish" in each for each in messages), messages)
        done = subprocess.run([ESPALIER, "verify", self.folder / "ocdbt"], capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
