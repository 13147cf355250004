"""Compares what the command line finds in ONNX models with what the package `onnx` does; see make_files.py.

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
GRAPHS = json.loads((FOLDER / "graphs.json").read_text())
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
Json = typing.Any


def run(*arguments: object) -> Json:
    done = subprocess.run([ESPALIER, *map(str, arguments), "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def tensors_of(expected: Json, name: str = "") -> typing.Iterator[tuple[str, Json]]:
    """Each tensor by its flat name."""
    if expected["kind"] == "tensor":
        yield name, expected
    children = expected.get("children", ())
    items = children.items() if isinstance(children, dict) else enumerate(children)
    for key, child in items:
        yield from tensors_of(child, f"{name}.{key}" if name else str(key))


class Onnx(unittest.TestCase):
    maxDiff = 4000

    def setUp(self) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def check_tree(self, node: Json, expected: Json) -> None:
        path = node["path"]
        self.assertEqual(node["kind"], expected["kind"], path)
        self.assertEqual(node.get("label"), expected.get("label"), path)
        if expected["kind"] == "tensor":
            dtype = f"opaque {node['block']['name']}" if node["dtype"] == "opaque" else node["dtype"]
            self.assertEqual((dtype, node["shape"]), (expected["dtype"], expected["shape"]), path)
        elif "children" in expected:
            wanted = expected["children"]
            if isinstance(wanted, dict):
                keys = [child["path"][len(path) :].removeprefix("/") for child in node["children"]]
                self.assertEqual(keys, list(wanted), path)
                wanted = wanted.values()
            self.assertEqual(len(node["children"]), len(wanted), path)
            for child, one in zip(node["children"], wanted):
                self.check_tree(child, one)
        else:
            self.assertEqual(node["value"], expected["value"], path)

    def check_bytes(self, path: pathlib.Path, expected: Json) -> int:
        """Those of all tensors, by way of our own format and of safetensors."""
        ours, theirs = self.folder / "copy.espalier", self.folder / "copy.safetensors"
        subprocess.run([ESPALIER, "convert", path, ours, "--quiet", "--force"], check=True)
        self.assertEqual(run("verify", ours)["files"][0]["verdict"], "ok")
        subprocess.run([ESPALIER, "convert", ours, theirs, "--unrepresentable", "metadata", "--quiet", "--force"], check=True)
        data = theirs.read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8 : 8 + length])
        count = 0
        for name, one in tensors_of(expected):
            begin, end = header[name]["data_offsets"]
            found = hashlib.sha256(data[8 + length + begin : 8 + length + end]).hexdigest()
            self.assertEqual(found, one["sha256"], f"{path.name}: {name}")
            count += 1
        return count

    def test_files(self) -> None:
        for name, expected in EXPECTED.items():
            path = FOLDER / name
            self.assertEqual(run("ls", path)["format"], "onnx")
            self.check_tree(run("tree", path)["tree"], expected)
            self.assertGreater(self.check_bytes(path, expected), 25)

    def test_another_name(self) -> None:
        shutil.copy(FOLDER / "nested.onnx", self.folder / "model.bin")
        self.assertEqual(run("ls", self.folder / "model.bin")["format"], "onnx")

    def test_metadata(self) -> None:
        metadata = [node for node in run("tree", FOLDER / "nested.onnx", "--metadata")["tree"]["children"] if node["path"] != "model"]
        found = {node["path"]: node.get("value") or {child["path"]: child["value"] for child in node["children"]}
                 for node in metadata}  # fmt: skip
        self.assertEqual(found.pop("ir_version"), 14)
        self.assertEqual(found, {
            "producer_name": "make_files", "producer_version": "1", "model_version": 7, "doc_string": "A model.",
            "graph_name": "main", "opset_import": {"opset_import/ai.onnx": 21, "opset_import/d": 1},
            "metadata_props": {"metadata_props/author": "nobody", "metadata_props/note": "two\nlines"},
        })  # fmt: skip

    def test_the_graph_is_kept(self) -> None:
        """As onnx writes the model after its tensors have lost their numbers; a conversion copies it."""
        for name, sha256 in GRAPHS.items():
            copy = self.folder / "copy.espalier"
            subprocess.run([ESPALIER, "convert", FOLDER / name, copy, "--quiet", "--force"], check=True)
            for path in (FOLDER / name, copy):
                (model,) = (node for node in run("tree", path, "--metadata")["tree"]["children"] if node["path"] == "model")
                self.assertEqual((model["kind"], model["label"]), ("bytes", "onnx.ModelProto"))
                self.assertEqual(hashlib.sha256(bytes.fromhex(model["value"])).hexdigest(), sha256, name)

    def test_notes(self) -> None:
        self.assertNotIn("notes", run("ls", FOLDER / "nested.onnx"))
        odd = run("ls", FOLDER / "types.onnx")
        self.assertEqual(odd["note_count"], 28)
        self.assertIn("this tensor of onnx.uint4 does not fill whole bytes", odd["notes"][0]["message"])

    def test_external_data(self) -> None:
        """If their file is missing or cut, the tensors in it are placeholders, and `verify` fails."""
        for name in ("external.onnx", "external.bin"):
            shutil.copy(FOLDER / name, self.folder)
        path, data = self.folder / "external.onnx", self.folder / "external.bin"
        last = run("ls", path)["nodes"][-1]["path"]
        data.write_bytes(data.read_bytes()[:-1])
        nodes = {node["path"]: node["kind"] for node in run("ls", path)["nodes"]}
        self.assertEqual([node for node, kind in nodes.items() if kind == "placeholder"], [last])
        self.assertEqual(subprocess.run([ESPALIER, "verify", path], capture_output=True).returncode, 1)
        data.unlink()
        found = run("ls", path)
        self.assertEqual({node["kind"] for node in found["nodes"]}, {"placeholder"})
        (loss,) = (note["message"] for note in found["notes"] if note["kind"] == "loss")
        self.assertIn("(code file_missing, in file external.bin)", loss)
        self.assertEqual(subprocess.run([ESPALIER, "verify", path], capture_output=True).returncode, 6)

    def test_every_command(self) -> None:
        for command in ("ls", "tree", "stats", "verify", "doctor"):
            run(command, FOLDER / "nested.onnx")
        run("show", FOLDER / "nested.onnx", "if.then_branch/k")
        run("diff", FOLDER / "nested.onnx", FOLDER / "nested.onnx")


if __name__ == "__main__":
    sys.path.insert(0, str(FOLDER.parent.parent / "support"))
    import report

    sys.exit(report.main())
