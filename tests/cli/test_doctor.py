"""Runs `espalier doctor` on a model in which faults are planted.

Usage: ESPALIER=path/to/espalier MAKE_SAMPLE=path/to/make_sample python3 test_doctor.py
"""

import array
import json
import pathlib
import pickle
import random
import sys

from test_cli import CHECK_FAILED, USAGE
from test_write import Writing, safetensors

LAYERS, ROWS, COLUMNS = 8, 64, 48


def f32(values):
    return array.array("f", values).tobytes()


class Doctor(Writing):
    def setUp(self):
        super().setUp()
        noise = random.Random(1)
        self.tensors = {}
        for layer in range(LAYERS):
            self.tensors[f"layers.{layer}.q.weight"] = ([ROWS, COLUMNS], [noise.gauss(0, 0.02) for _ in range(ROWS * COLUMNS)])
            self.tensors[f"layers.{layer}.norm.weight"] = ([COLUMNS], [1.0] * COLUMNS)

    def file(self, name="model.safetensors"):
        return self.write(name, safetensors([(name, "F32", shape, f32(values)) for name, (shape, values) in self.tensors.items()], {}))

    def values(self, name):
        return self.tensors[name][1]

    def test_nothing(self):
        self.assertEqual(self.text("doctor", self.file()),
                         f"{self.file()}: nothing found; 16 tensors examined, 97.5 KiB\n")

    def test_six_faults(self):
        self.values("layers.1.q.weight")[5 * COLUMNS + 7] = float("nan")
        self.values("layers.2.q.weight")[0] = float("-inf")
        for row in range(ROWS):
            self.values("layers.3.q.weight")[row * COLUMNS + 9] *= 40
        self.values("layers.4.q.weight")[:] = [0.0] * (ROWS * COLUMNS)
        self.values("layers.5.q.weight")[: 4 * COLUMNS] = [0.0] * (4 * COLUMNS)
        self.values("layers.6.norm.weight")[:] = [1e4] * COLUMNS
        self.values("layers.7.q.weight")[:] = self.values("layers.0.q.weight")
        file = self.file()
        document = self.json("doctor", file, expect=CHECK_FAILED)
        self.assertEqual([(f["severity"], f["rule"], f["path"], f.get("at")) for f in document["findings"]], [
            ("fault", "nan", "layers.1.q.weight", 5 * COLUMNS + 7),
            ("fault", "infinite", "layers.2.q.weight", 0),
            ("warning", "all_zero", "layers.4.q.weight", None),
            ("warning", "dead_rows", "layers.5.q.weight", 0),
            ("warning", "outlier_columns", "layers.3.q.weight", 9),
            ("warning", "norm", "layers.6.norm.weight", None),
            ("warning", "equal_tensors", "layers.7.q.weight", None)])
        self.assertEqual((document["faults"], document["warnings"], document["notes"]), (2, 5, 0))
        self.assertEqual(document["findings"][-1]["other"], "layers.0.q.weight")
        # The same, whatever the number of threads and the container.
        self.assertEqual(self.json("doctor", file, "--threads", "1", expect=CHECK_FAILED), document)
        self.run_cli("convert", file, self.new("model.espalier"))
        converted = self.json("doctor", self.new("model.espalier"), expect=CHECK_FAILED)
        self.assertEqual(converted["findings"], document["findings"])
        # Patterns choose the tensors; kinds are then compared among themselves.
        one = self.json("doctor", file, "layers.1.*", expect=CHECK_FAILED)
        self.assertEqual([f["rule"] for f in one["findings"]], ["nan"])
        self.run_cli("doctor", file, "layers.0.*")
        self.run_cli("doctor", file, "nothing", expect=USAGE)
        text = self.text("doctor", file, expect=CHECK_FAILED)
        self.assertIn("fault   layers.1.q.weight: 1 of 3,072 elements is NaN, the first at [5, 7]\n", text)
        self.assertIn("warning layers.7.q.weight: has the same bytes as layers.0.q.weight\n", text)
        self.assertTrue(text.endswith(": 2 faults, 5 warnings; 16 tensors examined, 97.5 KiB\n"))

    def test_damage_is_a_finding(self):
        self.run_cli("convert", self.file(), self.new("model.espalier"))
        with open(self.new("model.espalier"), "r+b") as file:
            content = file.read()
            at = content.index(f32(self.values("layers.2.q.weight"))[:16])
            file.seek(at)
            file.write(bytes([content[at] ^ 1]))
        found = self.json("doctor", self.new("model.espalier"), expect=CHECK_FAILED)["findings"]
        self.assertEqual([(f["rule"], f["path"]) for f in found], [("unreadable", "layers.2.q.weight")])

    def test_what_lies_in_a_missing_file_is_a_fault(self):
        first, second = sorted(self.tensors)[:4], sorted(self.tensors)[4:8]
        for name, keys in ("model-00001-of-00002.safetensors", first), ("model-00002-of-00002.safetensors", second):
            self.write(name, safetensors([(key, "F32", self.tensors[key][0], f32(self.values(key))) for key in keys], {}))
        weights = {key: f"model-0000{1 + (key in second)}-of-00002.safetensors" for key in first + second}
        index = self.write("model.safetensors.index.json", json.dumps({"metadata": {}, "weight_map": weights}).encode())
        self.run_cli("doctor", index)
        pathlib.Path(self.new("model-00002-of-00002.safetensors")).unlink()
        [found] = self.json("doctor", index, expect=CHECK_FAILED)["findings"]
        self.assertEqual((found["rule"], found["path"]), ("unreadable", second[0]))
        self.assertRegex(found["text"], "model-00002-of-00002.safetensors.*; so are 3 more$")

    def test_what_is_not_judged_is_said(self):
        file = self.file()
        self.assertNotIn("judged", self.text("doctor", file))
        self.assertTrue(self.text("doctor", file, "layers.0.*").endswith(
            "; 1 matrix is like no other: size and sign are not judged; compared with each other alone\n"))
        self.assertEqual(self.json("doctor", file, "layers.[01].*")["alone"], 2)

    def test_notes(self):
        self.tensors["layers.0.lora_B.weight"] = ([8, 8], [0.0] * 64)
        file = self.file()
        self.assertIn("note    layers.0.lora_B.weight: all 64 elements are zero", self.text("doctor", file))
        self.assertNotIn("lora_B", self.text("doctor", file, "-q"))
        self.run_cli("doctor", file, "--strict", expect=CHECK_FAILED)

    def test_patterns_choose_numbers(self):
        nan = float("nan")
        file = self.write("run.pkl", pickle.dumps({"a": {"lr": nan, "z": complex(nan, 1)}, "b": {"lr": nan}}, protocol=2))
        paths = lambda *patterns: [f["path"] for f in self.json("doctor", file, *patterns, expect=CHECK_FAILED)["findings"]]
        self.assertEqual(paths(), ["a/lr", "a/z", "b/lr"])
        self.assertEqual(paths("a/l*", "b"), ["a/lr", "b/lr"])

    def test_names_of_files_are_escaped(self):
        text = self.text("doctor", self.file("a\n\x1b[31m.safetensors"))
        self.assertEqual(text.count("\n"), 1)
        self.assertNotIn("\x1b", text)

    def test_many_findings_are_shortened(self):
        for name in [name for name in self.tensors if name.endswith("q.weight")]:
            del self.tensors[name]
        for i in range(30):
            self.tensors[f"t.{i}"] = ([2, 2], [float("nan")] * 3 + [i])
        file = self.file()
        text = self.text("doctor", file, expect=CHECK_FAILED)
        self.assertEqual(text.count("are NaN"), 20)
        self.assertIn("10 more of nan: use --all\n", text)
        self.assertEqual(self.text("doctor", file, "--all", expect=CHECK_FAILED).count("are NaN"), 30)

    def test_several_files_and_state(self):
        self.values("layers.1.q.weight")[0] = float("nan")
        ill = self.file("ill.safetensors")
        self.values("layers.1.q.weight")[0] = 0.05
        well = self.file("well.safetensors")
        self.assertEqual([len(f["findings"]) for f in self.json("doctor", well, ill, expect=CHECK_FAILED)["files"]], [0, 1])
        self.run_cli("doctor", well)


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
    import report
    sys.exit(report.main())
