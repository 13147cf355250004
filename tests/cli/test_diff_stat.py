"""Runs `espalier diff --stat` and `--verify`, and computes the same figures with Python's own numbers.

Usage: ESPALIER=path/to/espalier MAKE_SAMPLE=path/to/make_sample python3 test_diff_stat.py
"""

import math
import pathlib
import random
import re
import struct
import sys
from fractions import Fraction

from test_cli import CHECK_FAILED, EQUAL_BY_HASHES, OK, USAGE, Cli
from test_write import safetensors

CODES = {"F64": "d", "F32": "f", "F16": "e", "I64": "q", "U64": "Q", "I8": "b", "BOOL": "?"}


def rounded(exact_square):
    """The square root of a fraction, for numbers of any size."""
    if exact_square == 0:
        return 0.0
    # Two more bits than a double has, after scaling by an even power of two.
    shift = (exact_square.denominator.bit_length() - exact_square.numerator.bit_length()) // 2 + 64
    scaled = exact_square * Fraction(4) ** shift
    root = Fraction(math.isqrt(scaled.numerator // scaled.denominator)) / Fraction(2) ** shift
    try:
        return float(root)
    except OverflowError:
        return math.inf


def figures(before, after):
    """The figures of two lists of numbers, exact but for the last rounding."""
    pairs = [(x, y) for x, y in zip(before, after) if math.isfinite(x) and math.isfinite(y)]
    exact = [(Fraction(x), Fraction(y)) for x, y in pairs]
    delta = sum(((x - y) ** 2 for x, y in exact), Fraction(0))
    a, b = (sum((pair[side] ** 2 for pair in exact), Fraction(0)) for side in (0, 1))
    both = sum((x * y for x, y in exact), Fraction(0))
    differ = [(x, y) for x, y in zip(before, after) if x != y and not (math.isnan(x) and math.isnan(y))]
    finite = [abs(Fraction(x) - Fraction(y)) for x, y in differ if math.isfinite(x) and math.isfinite(y)]
    return {
        "elements": len(before),
        "changed": len(differ),
        "changed_share": len(differ) / len(before),
        "not_comparable": len(differ) - len(finite),
        "delta_norm": rounded(delta),
        "a_norm": rounded(a),
        "b_norm": rounded(b),
        "relative": 0.0 if delta == 0 else math.inf if a == 0 else rounded(delta / a),
        "max_delta": float(max(finite)) if finite else None,
        "cosine": None if a == 0 or b == 0 else rounded(both * both / (a * b)) * (-1 if both < 0 else 1),
    }


class Figures(Cli):
    def setUp(self):
        super().setUp()
        self.contents = {"a": [], "b": []}
        self.expected = {}

    def add(self, path, dtype, before, after):
        code = CODES[dtype]
        for side, values in (("a", before), ("b", after)):
            data = struct.pack(f"<{len(values)}{code}", *values)
            self.contents[side].append((path, dtype, [len(values)], data))
        stored = [struct.unpack(f"<{len(v)}{code}", struct.pack(f"<{len(v)}{code}", *v)) for v in (before, after)]
        self.expected[path] = figures(*stored)

    def files(self):
        for side, content in self.contents.items():
            with open(self.new(f"{side}.safetensors"), "wb") as file:
                file.write(safetensors(content))
        return self.new("a.safetensors"), self.new("b.safetensors")

    def stat(self, *options, expect=CHECK_FAILED):
        return self.json("diff", *self.files(), "--stat", *options, expect=expect)["stat"]

    def check(self, found, expected):
        for name, value in expected.items():
            if isinstance(value, float):
                got = float(found[name])
                self.assertTrue(got == value or math.isclose(got, value, rel_tol=1e-12, abs_tol=1e-300),
                                (found.get("path"), name, got, value))
            else:
                self.assertEqual(found[name], value, (found.get("path"), name))

    def test_like_python(self):
        chance = random.Random(3)
        normal = [chance.gauss(0, 1) for _ in range(3000)]
        moved = [x + chance.gauss(0, 1e-3) if i % 7 == 0 else x for i, x in enumerate(normal)]
        self.add("w.f64", "F64", normal, moved)
        self.add("w.f32", "F32", normal, moved)
        self.add("w.f16", "F16", normal, moved)
        self.add("i8", "I8", [i % 100 for i in range(500)], [i % 99 for i in range(500)])
        self.add("bool", "BOOL", [True, False, True], [True, True, True])
        self.add("i64", "I64", [2**62, -5, 7], [2**62 + 2**20, -5, -7])
        self.add("u64", "U64", [2**64 - 1, 2**63], [0, 2**63])
        self.add("nan", "F32", [math.nan, 1.0, math.inf, 2.0, math.inf], [math.nan, math.nan, math.inf, 2.5, -math.inf])
        self.add("all_nan", "F32", [math.nan, 1.0], [1.0, math.nan])
        self.add("zero", "F32", [0.0, 0.0], [0.0, 3.0])
        self.add("to_zero", "F32", [0.0, 3.0], [0.0, 0.0])
        self.add("large", "F64", [3e300, 4e300, 1.0], [3e300, 0.0, 2.0])
        self.add("small", "F64", [3e-300, 4e-300], [3e-300, 0.0])
        self.add("both", "F64", [1e300, 1e-300, 1e-200], [1e299, 1e-300, 3e-200])
        self.add("far", "F64", [1e154, -1e154], [-1e154, 1e154])
        self.add("tiny", "F64", [5e-324, 1e-320], [0.0, 1e-320])
        found = {one["path"]: one for one in self.stat()["tensors"]}
        self.assertEqual(set(found), set(self.expected))
        for path, expected in self.expected.items():
            self.check(found[path], expected)

    def test_several_chunks_and_any_number_of_threads(self):
        chance = random.Random(5)
        before = [chance.random() for _ in range(400_000)]  # 3.2 MB: four chunks
        after = list(before)
        after[5] += 1
        after[399_999] -= 1
        self.add("x", "F64", before, after)
        one, *others = (self.json("diff", *self.files(), "--stat", "--threads", str(count), expect=CHECK_FAILED)
                        for count in (1, 2, 5))
        self.check(one["stat"]["tensors"][0], self.expected["x"])
        for other in others:
            self.assertEqual(one, other)
        # With hashes, the chunks that are equal count as much.
        for side in "ab":
            self.text("convert", self.new(f"{side}.safetensors"), self.new(f"{side}.espalier"), "-q")
        hashed = self.json("diff", self.new("a.espalier"), self.new("b.espalier"), "--stat", expect=CHECK_FAILED)
        self.assertEqual(hashed["stat"]["tensors"], one["stat"]["tensors"])

    def test_layers(self):
        for layer in range(3):
            scale = layer + 1
            self.add(f"model.layers.{layer}.q", "F32", [3.0, 4.0], [3.0, 4.0 + scale])
            self.add(f"model.layers.{layer}.k.w", "F32", [1.0, 0.0], [1.0, 0.5])
            self.add(f"model.layers.{layer}.gate", "F32", [1e6], [2e6])
        self.add("model.embed", "F32", [1.0] * 4, [1.0] * 4)
        self.add("count", "I64", [100], [200])
        stat = self.stat("--sort", "norm")
        layers = {one["path"]: one for one in stat["layers"]}
        self.assertEqual([one["path"] for one in stat["layers"]],
                         ["model.layers.2", "model.layers.1", "model.layers.0", ""])  # "count" is no weight
        for layer in range(3):
            found = layers[f"model.layers.{layer}"]
            self.assertEqual(found["tensors"], 3)
            # Single numbers, such as steps, are left out.
            self.check(found, figures([3.0, 4.0, 1.0, 0.0], [3.0, 5.0 + layer, 1.0, 0.5]))
        self.check(layers[""], figures([100], [200]))
        self.assertEqual((stat["total"]["tensors"], stat["total"]["elements"]), (10, 12))

    def test_orders(self):
        self.add("b", "F32", [1.0, 1.0, 1.0, 1.0], [1.5, 1.0, 1.0, 1.0])  # relative 0.25
        self.add("a", "F32", [100.0, 0.0], [101.0, 1.0])  # relative 0.014, cosine nearly 1
        self.add("d", "F32", [1.0, 0.0], [0.0, 1.0])  # cosine 0
        self.add("c", "F32", [1.0, 1.0], [math.nan, 1.0])
        self.add("same", "F32", [1.0], [1.0])
        for order, expected in {"relative": "cdba", "norm": "cadb", "changed": "cadb", "max": "cadb", "cosine": "cdba",
                                "path": "abcd"}.items():
            found = "".join(one["path"] for one in self.stat("--sort", order)["tensors"])
            if order in ("norm", "changed"):  # Equal ones are in the order of the tree.
                self.assertEqual((found[0], found[-1], set(found)), ("c", "b", set("abcd")), order)
            elif order == "max":
                self.assertEqual((found[0], found[-1], set(found)), ("c", "b", set("abcd")), order)
            else:
                self.assertEqual(found, expected, order)
        self.assertEqual([one["path"] for one in self.stat("--top", "2")["tensors"]], ["c", "d"])

    def test_text(self):
        self.add("l.0.w", "F32", [3.0, 4.0], [3.0, 0.0])
        self.add("l.1.w", "F32", [3.0, 4.0], [3.0, 4.5])
        self.add("same", "F32", [1.0], [1.0])
        lines = self.text("diff", *self.files(), "--stat", expect=CHECK_FAILED).splitlines()
        self.assertEqual([line.split() for line in lines], [
            ["relative", "||delta||", "||A||", "||B||", "max|delta|", "changed", "cosine", "tensor"],
            ["0.8", "4", "5", "3", "4", "50%", "0.600000", "l.0.w"],
            ["0.1", "0.5", "5", "5.408", "0.5", "50%", "0.998460", "l.1.w"], [],
            ["relative", "||delta||", "||A||", "||B||", "max|delta|", "changed", "cosine", "layer"],
            ["0.8", "4", "5", "3", "4", "50%", "0.600000", "l.0", "(1", "tensor)"],
            ["0.1", "0.5", "5", "5.408", "0.5", "50%", "0.998460", "l.1", "(1", "tensor)"],
            ["0.5701", "4.031", "7.071", "6.185", "4", "50%", "0.823193", "all", "layers", "(2", "tensors)"], [],
            "2 changed tensors; 1 tensor equal".split()])
        text = self.text("diff", *self.files(), "--stat", "--top", "1", expect=CHECK_FAILED)
        self.assertEqual(text.count("which --top 0 shows"), 2)
        self.assertNotIn("l.1", text)
        self.assertEqual(self.text("diff", *self.files(), "--stat", "-q", expect=CHECK_FAILED), "")

    def test_weights_come_first(self):
        for i in range(4):
            self.add(f"model.{i}.w", "F32", [3.0, 4.0], [3.0, 4.0 + 2.0**i / 8])
            self.add(f"optimizer.state.{i}.exp_avg", "F32", [1.0, 1.0], [-9.0, 1.0])
        self.add("rng", "I64", [1, 2], [3, 4])
        stat = self.stat()
        self.assertEqual([one["part"] for one in stat["tensors"]], ["weights"] * 4 + ["optimizer"] * 4 + ["rest"])
        self.assertEqual([(one["path"], one["times_median"]) for one in stat["tensors"][:4]],
                         [("model.3.w", 2), ("model.2.w", 1), ("model.1.w", 0.5), ("model.0.w", 0.25)])
        self.assertIsNone(stat["tensors"][-1]["times_median"])
        self.assertEqual([(one["part"], one["tensors"], one["elements"]) for one in stat["parts"]],
                         [("weights", 4, 8), ("optimizer", 4, 8), ("rest", 1, 2)])
        self.assertEqual((stat["total"]["tensors"], stat["total"]["elements"]), (9, 18))
        self.assertEqual([(one["part"], one["path"]) for one in stat["layers"]][::4],
                         [("weights", "model.3"), ("optimizer", "optimizer.state.0"), ("rest", "")])
        lines = self.text("diff", *self.files(), "--stat", expect=CHECK_FAILED).splitlines()
        self.assertEqual([line for line in lines if line.endswith("changed tensors") or line.endswith("changed tensor")],
                         ["weights: 4 changed tensors", "optimizer: 4 changed tensors", "rest: 1 changed tensor"])
        self.assertEqual(lines[2].split()[:3], ["0.2", "2", "1"])

    def test_structure_comes_first(self):
        self.add("w", "F32", [1.0, 2.0], [1.0, 3.0])
        self.contents["a"] += [("t", "F32", [2, 3], bytes(24)), ("gone", "F32", [1], bytes(4))]
        self.contents["b"] += [("t", "F32", [3, 2], bytes(24))]
        lines = self.text("diff", *self.files(), "--stat", expect=CHECK_FAILED).splitlines()
        self.assertEqual(lines[:4], ["~ t: shape [2, 3] -> [3, 2] (transposed?)", "- gone: tensor f32 [1]", "",
                                     "relative  ||delta||  ||A||  ||B||  max|delta|  changed    cosine  tensor"])
        self.assertEqual(lines[-1], "1 changed tensor, 2 differences of structure; 0 tensors equal")
        lines = self.text("diff", *self.files(), "--stat", "--top", "1", expect=CHECK_FAILED).splitlines()
        self.assertEqual((lines[0][:3], lines[1]), ("~ t", ""))
        self.assertEqual(lines[-1], "1 changed tensor, 1 difference of structure, 1 other difference, which diff without --stat "
                                    "lists; 0 tensors equal")

    def test_not_finite_has_a_column(self):
        self.add("x", "F32", [1.0, 2.0], [1.0, math.inf])
        text = self.text("diff", *self.files(), "--stat", expect=CHECK_FAILED)
        self.assertRegex(text, r"cosine  not finite  tensor\n.* 1  x\n")

    def test_equal_files(self):
        self.add("x", "F32", [1.0, 2.0], [1.0, 2.0])
        self.assertEqual(self.text("diff", *self.files(), "--stat"), "equal\n")
        self.assertEqual(self.stat(expect=OK)["tensors"], [])


class Samples(Cli):
    def test_tied_tensors_are_one_row(self):
        stat = self.json("diff", self.path("sample"), self.path("element"), "--stat", expect=CHECK_FAILED)["stat"]
        self.assertEqual([(one["path"], one["tied_paths"], one["max_delta"]) for one in stat["tensors"]],
                         [("model/embed", ["model/head"], 0.5)])
        self.assertEqual(stat["total"]["elements"], 12)
        text = self.text("diff", self.path("sample"), self.path("element"), "--stat", expect=CHECK_FAILED)
        self.assertIn(" model/embed (and 1 tied)\n", text)

    def test_other_differences_are_counted(self):
        text = self.text("diff", self.path("sample"), self.path("value"), "--stat", expect=CHECK_FAILED)
        self.assertRegex(text, r"\A0 changed tensors, 1 other difference, which diff without --stat lists; \d+ tensors equal "
                               r"by recorded hashes, not verified\n\Z")

    def test_chunks_with_equal_hashes_are_read_from_one_file(self):
        damaged = self.damaged("bad", self.data_offset("x", "large"), source="large-changed")
        self.run_cli("diff", self.path("large"), damaged, "--stat", expect=CHECK_FAILED)
        self.run_cli("diff", damaged, self.path("large"), "--stat", expect=3)

    def test_usage(self):
        for options in (["--sort", "norm"], ["--top", "3"], ["--stat", "--sort", "size"], ["--stat", "--top", "-1"],
                        ["--stat", "--top", "x"], ["--stat", "--rtol", "0.1"], ["--stat", "--atol", "1"]):
            self.run_cli("diff", self.path("sample"), self.path("element"), *options, expect=USAGE)


class Verify(Cli):
    """Equal hashes are taken for equal tensors, and diff says so."""

    def setUp(self):
        super().setUp()
        self.bad = self.damaged("bad", self.data_offset("model/embed"))

    def test_equal_by_hashes(self):
        text = self.text("diff", self.path("sample"), self.bad)
        self.assertEqual(text, EQUAL_BY_HASHES)
        report = self.json("diff", self.path("sample"), self.bad)
        self.assertEqual((report["equal"], report["verified"]), (True, False))
        # Placeholders and tensors without bytes need no hashes.
        self.assertLess(report["equal_by_hashes"], report["equal_tensors"])
        self.assertGreater(report["equal_by_hashes"], 10)
        self.assertEqual(self.text("diff", self.path("sample"), self.bad, "--state-only"), text)

    def test_verified(self):
        self.assertEqual(self.text("diff", self.path("sample"), self.path("sample"), "--verify"), "equal\n")
        report = self.json("diff", self.path("sample"), self.path("value"), "--verify", expect=CHECK_FAILED)
        self.assertEqual((report["equal"], report["verified"], len(report["differences"])), (False, True, 1))
        text = self.text("diff", self.path("sample"), self.path("value"), "--verify", expect=CHECK_FAILED)
        self.assertTrue(text.endswith("\n1 difference\n"), text)
        text = self.text("diff", self.path("sample"), self.path("value"), expect=CHECK_FAILED)
        self.assertRegex(text, r"\n1 difference; \d+ tensors equal by recorded hashes, not verified\n\Z")

    def test_damage(self):
        for files in ((self.path("sample"), self.bad), (self.bad, self.path("sample"))):
            text = self.text("diff", *files, "--verify", expect=CHECK_FAILED)
            self.assertRegex(text, r"\A%s: DAMAGED \(1 error\)\n  [^\n]+ in model/embed\)\nnot compared\n\Z" % re.escape(self.bad))
            report = self.json("diff", *files, "--verify", expect=CHECK_FAILED)
            self.assertEqual((report["equal"], report["differences"], report["verified"]), (None, None, False))
            counts = [report["damage"][side]["error_count"] for side in "ab"]
            self.assertEqual(counts, [int(file == self.bad) for file in files])
            [error] = report["damage"]["ab"[files.index(self.bad)]]["errors"]
            self.assertEqual((error["code"], error["path"]), ("chunk_corrupt", "model/embed"))
        self.assertEqual(self.text("diff", self.path("sample"), self.bad, "--verify", "-q", expect=CHECK_FAILED), "")

    def test_without_hashes_all_is_read(self):
        flat = self.new("flat.safetensors")
        self.text("extract", self.path("sample"), "-o", flat, "model", "-q", "--unrepresentable=drop")
        report = self.json("diff", flat, flat)
        self.assertEqual((report["equal"], report["equal_by_hashes"]), (True, 0))
        self.assertGreater(report["equal_tensors"], 0)
        self.assertEqual(self.text("diff", flat, flat), "equal\n")


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
    import report
    sys.exit(report.main())
