"""A release's archive has the viewer's page, and scripts/viewer of it builds the command line alone.

Usage: test_archive.py, in a clone whose page is built. What would install packages and build is replaced by programs that write
down how they were called.
"""
import hashlib
import os
import pathlib
import subprocess
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# A program's name and arguments, one call a line. dpkg-query fails, so each package is missing.
NOTE = """#!/bin/sh
echo "$(basename "$0") $*" >>"$CALLS"
case $(basename "$0") in dpkg-query) exit 1 ;; esac
"""


def archive(*options):
    done = subprocess.run([ROOT / "scripts/source-archive", *options], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.strip(), done.stderr


class Archive(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        code, cls.name, said = archive("--as-is")
        if code != 0:
            raise AssertionError(said)

    def unpack(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        with tarfile.open(ROOT / self.name) as packed:
            packed.extractall(self.folder)
        [self.unpacked] = self.folder.glob("espalier-*")
        programs = self.folder / "programs"
        programs.mkdir()
        for name in ("apt-get", "cmake", "dpkg-query", "emcmake", "node", "npm", "sudo"):
            (programs / name).write_text(NOTE)
            (programs / name).chmod(0o755)
        self.environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "CALLS": str(self.folder / "calls")}

    def view(self):
        """What scripts/viewer --build calls."""
        (self.folder / "calls").write_text("")
        done = subprocess.run([self.unpacked / "scripts/viewer", "--build"], capture_output=True, text=True,
                              env=self.environment, check=False)
        return done, (self.folder / "calls").read_text()

    def test_it_has_the_page_and_the_sources_and_nothing_else(self):
        with tarfile.open(ROOT / self.name) as packed:
            members = packed.getmembers()
        names = {member.name.split("/", 1)[1] for member in members}
        for name in ("CMakeLists.txt", "scripts/viewer", "web_demo/src/main.tsx", "web_demo/dist/index.html",
                     "web_demo/dist/sources.txt", "web_demo/dist/NOTICES.txt"):
            self.assertIn(name, names)
        self.assertFalse([name for name in names if name.startswith(("build/", "wasm/dist/")) or "node_modules" in name])
        self.assertEqual({(member.uid, member.gid, member.mode & 0o022) for member in members if not member.issym()}, {(0, 0, 0)})

    def test_the_same_files_give_the_same_bytes(self):
        before = hashlib.sha256((ROOT / self.name).read_bytes()).digest()
        self.assertEqual(archive("--as-is")[:2], (0, self.name))
        self.assertEqual(hashlib.sha256((ROOT / self.name).read_bytes()).digest(), before)

    def test_its_viewer_builds_the_command_line_alone(self):
        self.unpack()
        done, calls = self.view()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("cmake --build build/release --target espalier\n", calls)
        self.assertIn("libevent-dev", calls)
        for name in ("emcmake", "npm ", "emscripten", "nodejs", "node "):
            self.assertNotIn(name, calls)

    def test_a_changed_source_makes_the_page_old(self):
        self.unpack()
        for name in ("web_demo/src/main.tsx", "src/espalier/base/utf8.cpp", "wasm/src/index.ts", "maps/llama-meta.json"):
            with self.subTest(name):
                file = self.unpacked / name
                text = file.read_bytes()
                file.write_bytes(text + b"\n")
                _, calls = self.view()
                self.assertIn("emscripten", calls)
                self.assertIn("emcmake", calls)
                file.write_bytes(text)
                self.assertNotIn("emscripten", self.view()[1])
        # What the page is not made of.
        with (self.unpacked / "native/cli/main.cpp").open("a") as file:
            file.write("\n")
        self.assertNotIn("emscripten", self.view()[1])

    def test_a_page_of_other_sources_is_refused(self):
        note = ROOT / "web_demo/dist/sources.txt"
        text = note.read_text()
        try:
            note.write_text("0" * 64 + "\n")
            code, _, said = archive("--as-is")
        finally:
            note.write_text(text)
        self.assertEqual(code, 1)
        self.assertIn("run scripts/viewer --build", said)


if __name__ == "__main__":
    unittest.main()
