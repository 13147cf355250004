"""Runs the command line on files that name very many others, on disk and on a server.

Usage: ESPALIER=path/to/espalier python3 test_fan_out.py
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import fan_out  # noqa: E402

ESPALIER = os.environ["ESPALIER"]
BAD_INPUT, IO = 3, 4
# Files that may fail before no more are asked for, and those that were asked for at the same time.
BORNE, AT_ONCE = 3, 8


class FanOut(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.files = fan_out.write(cls.folder)
        few = {f"t{i}": f"file-{i}.safetensors" for i in range(100)}
        (cls.folder / "few.json").write_text(json.dumps({"weight_map": few}))

    def serving(self, *args):
        server = fan_out.CountingServer(self.folder, *args)
        server.__enter__()
        self.addCleanup(server.__exit__)
        return server

    def fails(self, expect, *args):
        done = subprocess.run([ESPALIER, *map(str, args)], capture_output=True, text=True, timeout=100)
        self.assertEqual((done.returncode, done.stdout), (expect, ""), done.stderr)
        self.assertRegex(done.stderr, r"\Aespalier: [^\n]+\n\Z")
        return done.stderr

    def test_more_files_than_the_limit(self):
        server = self.serving()
        for kind, path in self.files.items():
            many = 65534 if kind == "gguf" else fan_out.MANY
            says = f"the checkpoint has bytes in {many} further files and Limits::files allows 1024"
            name = path.relative_to(self.folder)
            for command in ("ls", "tree", "verify", "doctor", "stats"):
                for file in (path, path.parent if kind == "dcp" else path, server.url(name)):
                    with self.subTest(command=command, file=file):
                        error = self.fails(BAD_INPUT, command, file)
                        self.assertIn(says, error)
                        self.assertIn("limit_exceeded", error)
                        self.assertIn("join the files with `espalier merge`", error)
        # Nothing but the files that were named.
        self.assertEqual(set(server.asked), {f"/{path.relative_to(self.folder)}" for path in self.files.values()})

    def test_a_server_that_refuses_the_others_is_not_asked_for_all(self):
        server = self.serving(lambda handler: handler.answer(403))
        error = self.fails(IO, "ls", server.url("few.json"))
        self.assertRegex(error, r"[4-9]|1[01] further files of 100 could not be read, so the others were not asked for")
        others = [path for path in server.asked if path != "/few.json"]
        self.assertLessEqual(len(others), BORNE + AT_ONCE)

    def test_redirects_to_another_port_are_few(self):
        other = self.serving()
        location = [("Location", other.url("secret"))]
        server = self.serving(lambda handler: handler.answer(302, headers=location))
        error = self.fails(IO, "ls", server.url("few.json"))
        self.assertIn("further files of 100 could not be read", error)
        self.assertLessEqual(len(other.asked), BORNE + AT_ONCE)

    def test_missing_files_are_no_refusal(self):
        server = self.serving()
        done = subprocess.run([ESPALIER, "ls", server.url("few.json")], capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len({path for path in server.asked if path != "/few.json"}), 100)


if __name__ == "__main__":
    unittest.main(verbosity=2)
