"""One file of each kind that the README says opens: `tree` and `convert` work at the first try. The Python package has the same list.

Usage: ESPALIER=path/to/espalier test_every.py
"""

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
EVERY = json.loads((HERE / "every.json").read_text())


def run(*args):
    done = subprocess.run([ESPALIER, *map(str, args)], capture_output=True, text=True, timeout=100)
    if done.returncode != 0:
        raise AssertionError((args, done.returncode, done.stderr))
    return done.stdout


def plain(node):
    """What a conversion keeps of a tree."""
    kept = {key: value for key, value in node.items() if key in ("path", "kind", "label", "dtype", "shape", "value")}
    return kept | {"children": [plain(child) for child in node.get("children", [])]}


class Every(unittest.TestCase):
    maxDiff = 2000

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def test_tree_and_convert(self):
        for number, case in enumerate(EVERY):
            with self.subTest(case["path"]):
                folder = HERE.parent
                if "archive" in case:
                    folder = self.folder / str(number)
                    with tarfile.open(HERE.parent / case["archive"]) as archive:
                        archive.extractall(folder)
                path, copy = folder / case["path"], self.folder / f"{number}.espalier"
                self.assertIn("tensor", run("tree", path))
                self.assertEqual(json.loads(run("ls", "--json", path))["format"], case["format"])
                run("convert", "-q", path, copy)
                run("verify", copy)
                trees = [json.loads(run("tree", "--json", each))["tree"] for each in (path, copy)]
                self.assertEqual(plain(trees[0]), plain(trees[1]))

    def test_no_format_is_left_out(self):
        rows = [line.split()[0] for line in run("help", "formats").splitlines()[1:]]
        self.assertEqual({case["format"] for case in EVERY}, set(rows) - {"espalier"})


if __name__ == "__main__":
    unittest.main()
