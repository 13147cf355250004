#!/usr/bin/env python3
"""Compares the command line with the independent reader, on good files and on wrong ones.

Usage: ESPALIER=path/to/espalier [PART=N] test_cross.py. The last line is "N passed, N failed". PART is for an Nth of the files.
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

import espalier_reference as reference
import random_damage
import report
import test_vectors
from espalier_build import Array, build, from_tree
from espalier_codecs import at_random, compress
from espalier_rebuild import rebuild
from expected_json import Expected, cli_element, exact
from odd_chunks import good_chunks
from odd_patches import chain, good_bases, good_patches
from random_trees import BITS, RandomTree, edge_trees
from test_reference import broken_files

ESPALIER = os.environ.get("ESPALIER") or sys.exit("ESPALIER must name the command line")
PART = int(os.environ.get("PART", "1"))
RANDOM_TREES = 300 // PART


def run(*arguments, expect=0):
    done = subprocess.run([ESPALIER, *arguments], capture_output=True, timeout=60, check=False)
    if expect is not None and done.returncode != expect:
        raise AssertionError(f"{arguments}: exit code {done.returncode}: {done.stderr.decode()}")
    return done.stdout


def run_json(*arguments, expect=0):
    return json.loads(run(*arguments, "--json", expect=expect))


# --- The tests ------------------------------------------------------------------------------------


class Folder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name)

    @classmethod
    def write(cls, name, data):
        path = cls.folder / name
        path.write_bytes(data)
        return str(path)


class GoodFiles(Folder):
    """Golden files, random ones, and ones at the edges."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.files = {}
        for path in sorted((HERE.parent / "golden").glob("*.espalier")):
            cls.files[path.name] = path.read_bytes()
        for name, (tree, metadata) in edge_trees().items():
            cls.files[f"edge {name}"] = build(from_tree(tree, metadata))
        for seed in range(RANDOM_TREES):
            made = RandomTree(random.Random(seed))
            cls.files[f"random {seed}"] = build(from_tree(made.tree, made.metadata))
        for seed in range(RANDOM_TREES // 3):
            generator = random.Random(seed)
            made = RandomTree(generator, compressible=True)
            tables = from_tree(made.tree, made.metadata)
            cls.files[f"compressed {seed}"] = build(compress(tables, at_random(generator)))
        for good in good_patches():
            cls.files[f"patch {good.name}"] = good.file()
        cls.files |= dict(good_bases())
        for chunk in good_chunks():
            cls.files[f"chunk {chunk.name}"] = chunk.file()
        cls.paths = {name: cls.write(f"{n}.espalier", data)
                     for n, (name, data) in enumerate(cls.files.items())}  # fmt: skip
        cls.expected = {name: Expected(data) for name, data in cls.files.items()}

    def same(self, found, expected, narrow=False):
        if exact(found, narrow) != exact(expected, narrow):
            self.assertEqual(found, expected)
            self.fail(f"differ in types or signs: {found} and {expected}")

    def test_all_kinds_and_dtypes_occur(self):
        nodes = [node for expected in self.expected.values() for node in expected.list()]
        self.assertEqual({node["kind"] for node in nodes}, set(reference.KINDS.values()))
        dtypes = {node["dtype"] for node in nodes if node["kind"] == "tensor"}
        self.assertEqual(dtypes, {name for name, _ in reference.DTYPES.values()})
        codecs = [row[4] for expected in self.expected.values()
                  for row in expected.file.index.chunks.rows]  # fmt: skip
        for codec in (reference.RAW, reference.ZSTD, reference.PLANES):
            self.assertGreater(codecs.count(codec), 50 // PART, codec)
        for field in ("label", "axis_names", "block"):
            self.assertGreater(sum(field in node for node in nodes), 50 // PART, field)

    def test_verify(self):
        found = run_json("verify", *self.paths.values())["files"]
        for (name, path), result in zip(self.paths.items(), found, strict=True):
            file = self.expected[name].file
            expected = {"file": path, "ok": True, "hashes": True, "tensors": len(file.tensors),
                        "chunks": len(file.index.chunks.rows), "error_count": 0}  # fmt: skip
            with self.subTest(name=name):
                self.same({key: result.get(key) for key in expected}, expected)

    def test_ls(self):
        for name, path in self.paths.items():
            with self.subTest(name=name):
                found = run_json("ls", "--all", "--long", path)["nodes"]
                self.same(found, self.expected[name].list())

    def test_tree(self):
        for name, path in self.paths.items():
            with self.subTest(name=name):
                self.same(run_json("tree", path)["tree"], self.expected[name].tree(0))
                found = run_json("tree", "--metadata", path)["tree"]
                self.same(found, self.expected[name].tree(1))

    def test_show(self):
        """One scalar or tensor of every file, and all tensors of the golden ones."""
        shown = 0
        for name, path in self.paths.items():
            expected = self.expected[name]
            # No argument of a program can hold a zero byte.
            leaves = [node for node in expected.list()
                      if "children" not in node and "\0" not in node["path"]]  # fmt: skip
            if name.endswith(".espalier"):
                chosen = leaves
            else:
                chosen = random.Random(name).sample(leaves, min(1, len(leaves)))
            numbers = {path: i for i, path in expected.paths.items()}
            for leaf in chosen:
                with self.subTest(name=name, path=leaf["path"]):
                    found = json.loads(run("show", "--json", "--", path, leaf["path"]))["node"]
                    right = expected.shown(numbers[leaf["path"]])
                    if "values" in found and "values" not in right:
                        del found["values"]
                    self.same(found, right, leaf.get("dtype") in ("f16", "f32", "c64"))
                    shown += 1
        self.assertGreater(shown, RANDOM_TREES // 2)

    def test_convert(self):
        """The library writes the same bytes as the independent builder, and undoes every codec."""
        out = str(self.folder / "converted")
        for name, path in self.paths.items():
            with self.subTest(name=name):
                run("convert", "--force", "--no-sync", "--to", "espalier", path, out)
                same = pathlib.Path(out).read_bytes() == rebuild(self.files[name], raw=True)
                self.assertTrue(same, "other bytes than those of the independent builder")


class Elements(Folder):
    def test_values_of_the_page(self):
        """What section 17 says of the elements of every dtype."""
        for dtype, data, _ in test_vectors.element_rows():
            tensor = Array(dtype, (8 * len(data) // BITS[dtype],), data)
            path = self.write(f"{dtype}.espalier", build(from_tree({"t": tensor})))
            found = run_json("show", path, "t")["node"]["values"]
            expected = [cli_element(value) for value in test_vectors.values_of(dtype, data)]
            narrow = dtype not in ("f64", "c128")  # Floats of at most 32 bits are printed as f32.
            with self.subTest(dtype=dtype):
                self.assertEqual(exact(found, narrow), exact(expected, narrow), found)


def verdict(data):
    """The independent reader's verdict: "ok", "damaged" (it opens) or "refused"; and the reason."""
    try:
        file = reference.open_file(data)
    except reference.FormatError as error:
        return "refused", str(error)
    try:
        reference.verify(file)
    except reference.FormatError as error:
        return "damaged", str(error)
    return "ok", ""


class WrongFiles(Folder):
    """Both readers give the same verdict, and at the same stage of section 9."""

    def compare(self, files, ok=range(1), mostly="refused"):
        verdicts = {}
        names = list(files)
        for begin in range(0, len(names), 250):
            some = names[begin : begin + 250]
            paths = [self.write(f"{n}.espalier", files[name]) for n, name in enumerate(some)]
            found = run_json("verify", *paths, expect=None)["files"]
            for name, result in zip(some, found, strict=True):
                errors = [result["failure"]] if "failure" in result else result["errors"]
                says = "refused" if "failure" in result else "ok" if result["ok"] else "damaged"
                verdicts[name] = (says, errors)
        counts = {"ok": 0, "damaged": 0, "refused": 0}
        for name, (says, errors) in verdicts.items():
            expected, why = verdict(files[name])
            counts[expected] += 1
            with self.subTest(name=name):
                self.assertEqual(says, expected, f"the library: {errors}; the page: {why}")
        self.assertIn(counts["ok"], range(ok.start // PART, max(ok.stop // PART, 1)), counts)
        self.assertGreater(counts[mostly], len(names) // 4, counts)

    def random_files(self, change, count, ok=range(1), compressed=False):
        files = {}
        for seed in range(0, count, PART):
            generator = random.Random(f"{change.__name__} {seed}")
            made = RandomTree(generator, compressed)
            tables = from_tree(made.tree, made.metadata)
            if compressed:
                compress(tables, at_random(generator))
            files[seed] = change(generator, tables)
        self.compare(files, ok)

    def test_one_check_each(self):
        self.compare({name: data for name, data, _ in broken_files()})

    # Some wrong numbers make another valid file; no other damage does.
    def test_wrong_numbers(self):
        self.random_files(random_damage.wrong_number, 1200, range(100, 400))

    def test_wrong_index(self):
        self.random_files(random_damage.wrong_index, 1000, range(20, 300))

    def test_wrong_layout(self):
        self.random_files(random_damage.wrong_layout, 300)

    def test_wrong_header(self):
        self.random_files(random_damage.wrong_header, 300)

    def test_wrong_anything(self):
        self.random_files(random_damage.wrong_anything, 400)

    def test_wrong_numbers_of_compressed_files(self):
        self.random_files(random_damage.wrong_number, 400, range(30, 150), compressed=True)

    def test_wrong_index_of_compressed_files(self):
        self.random_files(random_damage.wrong_index, 200, range(4, 60), compressed=True)

    def test_wrong_anything_in_compressed_files(self):
        self.random_files(random_damage.wrong_anything, 200, compressed=True)

    def test_wrong_numbers_of_patched_files(self):
        good = [odd.tables() for odd in good_patches()] + [chain(4), chain(9)]
        files = {}
        for seed in range(0, 500, PART):
            generator = random.Random(f"patched {seed}")
            files[seed] = random_damage.wrong_number(generator, generator.choice(good))
        self.compare(files, range(20, 200))

    def test_wrong_chunks(self):
        """Some are as good as others, such as a byte of a frame that nothing depends on."""
        files = {}
        for seed in range(0, 600, PART):
            generator = random.Random(f"chunk {seed}")
            made = RandomTree(generator, compressible=True)
            files[seed] = random_damage.wrong_chunk(generator, from_tree(made.tree))
        self.compare(files, range(100, 400), "damaged")


if __name__ == "__main__":
    sys.setrecursionlimit(10000)  # For trees of depth 250.
    sys.exit(report.main())
