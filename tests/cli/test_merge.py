"""Runs `espalier merge`.

Usage: ESPALIER=path/to/espalier MAKE_SAMPLE=path/to/make_sample python3 test_merge.py
"""

import os
import pathlib
import struct
import sys

from test_cli import BAD_INPUT, CHECK_FAILED, EQUAL_BY_HASHES, IO, OK, USAGE
from test_write import DIGITS, Writing, safetensors


def f32(*values):
    return struct.pack(f"<{len(values)}f", *values)


class Merge(Writing):
    def make(self, name, metadata=None, **tensors):
        """A file of one-element tensors; `a__b` is the name a.b."""
        return self.write(name, safetensors([(key.replace("__", "."), "F32", [1], f32(value))
                                             for key, value in tensors.items()], metadata))

    def merge(self, *args, out="out.espalier", expect=OK):
        return self.text("merge", *args, self.new(out), expect=expect)

    def values(self, out="out.espalier"):
        nodes = self.json("ls", self.new(out))["nodes"]
        return {node["path"]: self.json("show", self.new(out), node["path"])["node"]["values"][0] for node in nodes}

    def test_later_wins(self):
        a = self.make("a.safetensors", {"only_a": "1", "both": "a", "same": "s"}, w=1, v=2)
        b = self.make("b.safetensors", {"both": "b", "same": "s", "only_b": "2"}, v=3, u=4)
        c = self.make("c.safetensors", v=5)
        text = self.merge(a, b, c)
        self.assertEqual(list(self.values().items()), [("w", 1), ("v", 5), ("u", 4)])
        self.assertEqual(text.splitlines()[1:], [f"{b} replaced 2 values: v (a tensor), (metadata)/both (a string)",
                                                 f"{b} added 2 values: u (a tensor), (metadata)/only_b (a string)",
                                                 f"{c} replaced 1 value: v (a tensor)"])
        tree = self.json("tree", self.new("out.espalier"), "--metadata")["tree"]
        self.assertEqual({node["path"]: node["value"] for node in tree["children"]},
                         {"only_a": "1", "both": "b", "same": "s", "only_b": "2"})
        self.assertIn(": ok ", self.text("verify", self.new("out.espalier")))

    def test_json_and_quiet(self):
        a, b = self.make("a.safetensors", w=1, v=2), self.make("b.safetensors", v=3)
        result = self.json("merge", a, b, self.new("out.safetensors"))
        self.assertEqual(result, {"files": [a, b], "written": self.new("out.safetensors"),
                                  "bytes": len(self.read("out.safetensors")), "left_out": 0,
                                  "replaced": [{"file": b, "count": 1, "first": ["v"]}], "added": []})
        c = self.make("c.safetensors", **{f"n{i}": i for i in range(10)})
        result = self.json("merge", a, c, self.new("out.safetensors"), "-f")
        self.assertEqual((result["replaced"], result["added"]),
                         ([], [{"file": c, "count": 10, "first": [f"n{i}" for i in range(8)]}]))
        self.assertEqual(self.text("merge", a, b, self.new("out.safetensors"), "-q", "-f"), "")
        self.assertEqual(self.values("out.safetensors"), {"w": 1, "v": 3})

    def test_parts_make_the_whole(self):
        """Parts that were cut out give the file again, list elements and labels too."""
        parts = []
        for i, patterns in enumerate((["model", "optimizer", "layers/0"], ["layers/1", "betas"], ["**"])):
            parts.append(self.new(f"part{i}.espalier"))
            self.text("extract", self.path("sample"), "-o", parts[-1], *patterns)
        self.merge(*parts[:2])
        self.assertEqual(self.text("diff", self.path("sample"), self.new("out.espalier"), "layers", "model", "betas"),
                         EQUAL_BY_HASHES)
        self.merge(*parts, "-f")
        self.assertIn(": ok ", self.text("verify", self.new("out.espalier")))
        self.run_cli("diff", self.path("sample"), self.new("out.espalier"), "args", "layers", "types")

    def test_the_file_itself(self):
        text = self.merge(self.path("sample"), self.path("sample"))
        self.assertEqual(self.text("diff", self.path("sample"), self.new("out.espalier"), "--state-only"), EQUAL_BY_HASHES)
        self.assertNotIn("replaced", text)
        digits = self.merge(DIGITS, DIGITS, out="digits.safetensors")  # has no hashes
        self.assertNotIn("replaced", digits)
        self.assertNotIn("replaced", self.merge(DIGITS, self.new("digits.safetensors"), "-f"))

    def test_equal_values_are_not_replaced(self):
        a = self.make("a.safetensors", same=1, v=2, kind=3)
        b = self.write("b.safetensors", safetensors([("same", "F32", [1], f32(1)), ("v", "F32", [1], f32(3)),
                                                     ("kind", "I32", [1], f32(3))]))
        for name in ("a", "b"):
            self.text("convert", self.new(name + ".safetensors"), self.new(name + ".espalier"))
        for mine in (a, self.new("a.espalier")):
            for other in (b, self.new("b.espalier")):
                text = self.merge(mine, other, "-f")
                self.assertEqual(text.splitlines()[1:], [f"{other} replaced 2 values: v (a tensor), kind (a tensor)"])
        text = self.merge(self.path("sample"), self.path("element"), "-f")
        self.assertIn("replaced 2 values: model/embed (a tensor), model/head (a tensor)", text)

    def test_conflicts_of_kinds(self):
        a = self.new("a.espalier")
        self.text("convert", self.make("n.safetensors", x__w=1, x__v=2, y=3), a, "--nest")
        b = self.make("b.safetensors", x=9, y=8)
        self.merge(a, b, expect=USAGE)
        self.assertIn(f"{b}: this is a tensor, and a dict in the files before", self.stderr)
        self.assertIn("code name_collision, in x)", self.stderr)
        self.assertNotIn("out.espalier", self.files())
        text = self.merge(a, b, "--on-conflict", "last")
        self.assertEqual(text.splitlines()[1:], [f"{b} replaced 2 values: x (a dict with 2 tensors), y (a tensor)"])
        self.assertEqual(self.values(), {"x": 9, "y": 8})
        self.merge(a, b, "--on-conflict=first", "-f")
        self.assertEqual(self.values(), {"x/w": 1, "x/v": 2, "y": 8})
        self.merge(b, a, "-f", expect=USAGE)
        self.assertIn("this is a dict, and a tensor in the files before", self.stderr)

    def test_nested_names(self):
        a, b = self.make("a.safetensors", x__w=1), self.make("b.safetensors", x__v=2)
        self.merge(a, b, "--nest")
        self.assertEqual(self.values(), {"x/w": 1, "x/v": 2})
        self.text("convert", self.new("out.espalier"), self.new("out.safetensors"))
        self.assertEqual(self.values("out.safetensors"), {"x.v": 2, "x.w": 1})

    def test_names_beside_what_they_may_mean(self):
        """New names that read like values that are there are added, and a line says so."""
        a, b = self.new("a.espalier"), self.make("b.safetensors", x__w=2, y=3)
        self.text("convert", self.make("n.safetensors", x__w=1, x__v=1), a, "--nest")
        self.assertEqual(self.merge(a, b).splitlines()[1:], [
            f"{b} added 2 values: x.w (a tensor), y (a tensor)",
            "x.w is a new name at the root; --nest makes it the existing x/w"])
        self.assertEqual(self.values(), {"x/w": 1, "x/v": 1, "x.w": 2, "y": 3})
        self.assertEqual(self.merge(a, b, "-f", "--nest").splitlines()[1:],
                         [f"{b} replaced 1 value: x/w (a tensor)", f"{b} added 1 value: y (a tensor)"])
        self.assertEqual(self.values(), {"x/w": 2, "x/v": 1, "y": 3})

        numbers = self.make("numbers.safetensors", optimizer__0__exp_avg=1)
        self.text("extract", self.path("sample"), "-o", a, "optimizer/0", "-f")
        why = ", whose path has int keys or positions; a file with exactly this path replaces it"
        self.assertEqual(self.merge(a, numbers, "-f").splitlines()[1:], [
            f"{numbers} added 1 value: optimizer.0.exp_avg (a tensor)",
            "optimizer.0.exp_avg is new beside the existing optimizer/0/exp_avg" + why])
        self.assertEqual(self.merge(a, numbers, "-f", "--nest").splitlines()[1:], [
            f"{numbers} added 1 value: optimizer/~20 (a dict with 1 tensor)",
            "optimizer/~20 is new beside the existing optimizer/0" + why])
        positions = self.make("positions.safetensors", layers__1__w=1)
        self.assertIn("beside the existing layers/1/w" + why, self.merge(self.path("sample"), positions, "-f"))
        layers = self.make("layers.safetensors", layers=1)
        text = self.merge(self.path("sample"), layers, "-f", "--on-conflict=last")
        self.assertIn("replaced 1 value: layers (a list with 2 tensors)", text)

    def test_carried_trees_are_merged_not_copied(self):
        carried = self.new("carried.safetensors")
        self.text("convert", self.path("sample"), carried, "--unrepresentable", "metadata")
        extra = self.make("extra.safetensors", extra=1)
        self.merge(carried, extra)
        self.assertEqual(self.text("diff", self.path("sample"), self.new("out.espalier"), "model", "layers"), EQUAL_BY_HASHES)
        self.assertNotIn("espalier.tree", self.text("tree", self.new("out.espalier")))
        self.merge(carried, extra, "--unrepresentable=metadata", out="out.safetensors")
        self.text("convert", self.new("out.safetensors"), self.new("again.espalier"))
        self.assertEqual(self.read("again.espalier"), self.read("out.espalier"))
        self.merge(carried, extra, "--flat", "-f")
        self.assertNotIn("espalier.tree", self.text("tree", self.new("out.espalier")))

    def test_damage_names_the_file(self):
        bad = self.damaged("bad.espalier", self.data_offset("x", "large"), source="large")
        a = self.make("a.safetensors", w=1)
        for files in ((a, bad), (bad, a)):
            self.merge(*files, expect=BAD_INPUT)
            self.assertTrue(self.stderr.startswith(f"espalier: {bad}: "), self.stderr)
            self.assertIn("code chunk_corrupt, at byte", self.stderr)
            self.assertIn("in x)", self.stderr)
        self.merge(a, self.new("none"), expect=IO)
        self.assertEqual(self.files(), ["a.safetensors", "bad.espalier"])

    def test_mistakes(self):
        a, b = self.make("a.safetensors", w=1), self.make("b.safetensors", w=1)
        for args in ((a,), (a, b)):
            self.run_cli("merge", *args, expect=USAGE)
            self.assertIn("OUT is missing", self.stderr)
        self.run_cli("merge", a, b, self.new("out.npy"), expect=USAGE)
        self.assertIn("such a file holds one tensor", self.stderr)
        self.run_cli("merge", a, b, self.new("out"), "--to", "npy", expect=USAGE)
        self.run_cli("merge", a, b, a, expect=USAGE)
        self.assertIn("--force", self.stderr)
        self.text("extract", self.path("sample"), "-o", self.new("list.espalier"), "--root", "layers")
        self.merge(a, self.new("list.espalier"), expect=USAGE)
        self.assertIn("only dicts can be merged, and this is a list", self.stderr)
        self.text("merge", a, DIGITS, a, "--force")
        self.assertIn("model.layers.1.bias", self.text("ls", a))


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
    import report
    sys.exit(report.main())
