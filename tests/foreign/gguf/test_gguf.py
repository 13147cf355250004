"""Compares what the command line finds in GGUF files with what the package `gguf` does; see make_files.py.

Environment: ESPALIER, the program. Last line: "N passed, N failed".
"""

import hashlib
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import typing
import unittest

ESPALIER = os.environ["ESPALIER"]
FOLDER = pathlib.Path(__file__).resolve().parent
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
TYPES = {"UINT8": "u8", "INT8": "i8", "UINT16": "u16", "INT16": "i16", "UINT32": "u32", "INT32": "i32",
         "UINT64": "u64", "INT64": "i64", "FLOAT32": "f32", "FLOAT64": "f64", "BOOL": "bool", "STRING": "string"}
Json = typing.Any


def run(*arguments: object) -> Json:
    done = subprocess.run([ESPALIER, *map(str, arguments), "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def block_name(kind: str) -> str:
    """ggml's name for the package's: Q4_K is q4_K, IQ4_XS is iq4_xs."""
    name = kind.lower()
    return name[:-1] + "K" if name.endswith("_k") else name


def value_of(node: Json) -> Json:
    """What the expected tree says of this node."""
    if node["kind"] == "float64":
        return {"float": struct.pack("<d", float(node["value"])).hex()}
    if node["kind"] == "bigint" or (node["kind"] == "int64" and abs(int(node["value"])) >= 2**53):
        return str(node["value"])
    if node["kind"] == "bytes":
        return {"bytes": node["value"]}
    return node["value"]


class Gguf(unittest.TestCase):
    maxDiff = 4000

    def check_tensors(self, path: pathlib.Path, expected: list[Json]) -> None:
        nodes = [node for node in run("ls", path, "--long")["nodes"] if node["kind"] == "tensor"]
        self.assertEqual([node["path"] for node in nodes], [one["name"] for one in expected])
        for node, one in zip(nodes, expected):
            with self.subTest(file=path.name, tensor=one["name"]):
                dtype = node["block"]["name"] if node["dtype"] == "opaque" else "gguf." + node["dtype"]
                self.assertEqual(dtype, "gguf." + block_name(one["type"]))
                self.assertEqual(node["shape"], one["shape"])
                self.assertEqual(node["offset"], one["offset"])
                self.assertEqual(node["bytes"], one["bytes"])

    def check_bytes(self, path: pathlib.Path, expected: list[Json]) -> None:
        """The bytes of the tensors, by way of our own format and of safetensors."""
        with tempfile.TemporaryDirectory() as folder:
            ours = pathlib.Path(folder) / "copy.espalier"
            subprocess.run([ESPALIER, "convert", path, ours, "--quiet"], check=True)
            subprocess.run([ESPALIER, "verify", ours, "--quiet"], check=True, stdout=subprocess.DEVNULL)
            theirs = pathlib.Path(folder) / "copy.safetensors"
            subprocess.run([ESPALIER, "convert", ours, theirs, "--unrepresentable", "metadata", "--quiet"], check=True)
            data = theirs.read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8 : 8 + length])
        for one in expected:
            begin, end = header[one["name"]]["data_offsets"]
            found = hashlib.sha256(data[8 + length + begin : 8 + length + end]).hexdigest()
            self.assertEqual(found, one["sha256"], f"{path.name}: {one['name']}")

    def check_metadata(self, path: pathlib.Path, expected: Json) -> None:
        tree = run("tree", path, "--metadata")["tree"]
        self.assertEqual([node["path"] for node in tree["children"]], list(expected))
        for node in tree["children"]:
            with self.subTest(file=path.name, key=node["path"]):
                pair = expected[node["path"]]
                if "array" not in pair:
                    kind = TYPES[pair["type"]]
                    self.assertEqual(value_of(node), pair["value"])
                    self.assertEqual(node.get("label"), None if kind in ("bool", "string") else f"gguf.{kind}")
                    continue
                self.assertEqual(node["label"], f"gguf.array.{TYPES[pair['array']]}")
                if pair["array"] == "UINT8":
                    self.assertEqual(node["value"], bytes(pair["values"]).hex())
                else:
                    self.assertEqual([value_of(child) for child in node["children"]], pair["values"])

    def test_files(self) -> None:
        for name, expected in EXPECTED.items():
            path = FOLDER / name
            self.assertEqual(run("ls", path)["format"], "gguf")
            if name == "split-00001-of-00003.gguf":
                continue
            self.check_tensors(path, expected["tensors"])
            self.check_bytes(path, expected["tensors"])
            self.check_metadata(path, expected["metadata"])

    def test_split(self) -> None:
        """The first file of a model has the tensors of all, from any folder."""
        parts = [one for name, one in EXPECTED.items() if name.startswith("split")]
        path = FOLDER / "split-00001-of-00003.gguf"
        tensors = [tensor for part in parts for tensor in part["tensors"]]
        self.check_tensors(path, tensors)
        self.check_bytes(path, tensors)
        self.check_metadata(path, parts[0]["metadata"])
        self.assertNotIn("notes", run("ls", path))
        later = run("ls", FOLDER / "split-00002-of-00003.gguf")
        self.assertIn("this is file 2 of the 3", later["notes"][0]["message"])

    def test_split_in_part(self) -> None:
        """If a file is missing, damaged or another one, the tensors of the rest are there."""
        def missing(path: pathlib.Path) -> None:
            path.unlink()

        def cut(path: pathlib.Path) -> None:
            path.write_bytes(path.read_bytes()[:150])

        def another(path: pathlib.Path) -> None:
            path.write_bytes((FOLDER / "split-00003-of-00003.gguf").read_bytes())

        for damage, says in ((missing, "file_missing"), (cut, "truncated"), (another, "file 2 of 3")):
            with self.subTest(damage=damage.__name__), tempfile.TemporaryDirectory() as folder:
                for source in FOLDER.glob("split-*.gguf"):
                    shutil.copy(source, folder)
                damage(pathlib.Path(folder) / "split-00002-of-00003.gguf")
                found = run("ls", pathlib.Path(folder) / "split-00001-of-00003.gguf")
                self.assertEqual([node["path"] for node in found["nodes"]],
                                 ["blk.0.weight", "blk.1.weight", "blk.4.weight"])
                self.assertEqual(found["note_count"], 1)
                self.assertIn(says, found["notes"][0]["message"])
                self.assertIn("split-00002-of-00003.gguf", found["notes"][0]["message"])

    def test_renamed(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "renamed.gguf"
            shutil.copy(FOLDER / "split-00001-of-00003.gguf", path)
            found = run("ls", path)
            self.assertEqual(len(found["nodes"]), 2)
            self.assertIn("does not end with -00001-of-00003.gguf", found["notes"][0]["message"])


if __name__ == "__main__":
    sys.path.insert(0, str(FOLDER.parent.parent / "support"))
    import report

    sys.exit(report.main())
