#!/usr/bin/env python3
"""The golden files, read by the independent reader. The last line is "N passed, N failed"."""

import pathlib
import re
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

import espalier_reference as reference
import report
from espalier_rebuild import rebuild

GOLDEN = HERE.parent / "golden"


class Golden(unittest.TestCase):
    """Three methods per file are added below."""

    def test_every_file_that_is_made_is_here_with_its_dump(self):
        source = (GOLDEN / "make_golden.cpp").read_text(encoding="utf-8")
        made = sorted(re.findall(r'push_back\(\s*\{"(\w+)"', source))
        self.assertGreaterEqual(len(made), 7)
        self.assertEqual(sorted(path.stem for path in GOLDEN.glob("*.espalier")), made)
        self.assertEqual(sorted(path.stem for path in GOLDEN.glob("*.json")), made)


def add_methods(name):
    data = (GOLDEN / f"{name}.espalier").read_bytes()

    def test_hashes(self):
        reference.verify(reference.open_file(data))

    def test_dump(self):
        expected = (GOLDEN / f"{name}.json").read_text(encoding="ascii")
        self.maxDiff = None
        self.assertEqual(reference.dump(reference.open_file(data)), expected)

    def test_bytes(self):
        """The writer of the library and the independent builder lay out the same file."""
        built = rebuild(data)
        same = next((i for i, (a, b) in enumerate(zip(built, data)) if a != b), len(data))
        self.assertTrue(built == data, f"{len(built)} bytes, different from byte {same} on")

    for method in (test_hashes, test_dump, test_bytes):
        setattr(Golden, f"{method.__name__}_of_{name}", method)


for file in sorted(GOLDEN.glob("*.espalier")):
    add_methods(file.stem)

if __name__ == "__main__":
    sys.exit(report.main())
