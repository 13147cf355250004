#!/usr/bin/env python3
"""The runner notices readers that are wrong. The last line is "N passed, N failed"."""

from __future__ import annotations

import json
import pathlib
import re
import shlex
import subprocess
import sys
import tarfile
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

import report

ROWS = json.loads((HERE / "manifest.json").read_text(encoding="ascii"))
RIGHT = f"{sys.executable} {HERE / 'readers/reference.py'}"
# A reader that changes what the right one says; `line` is the document, and `path` the file.
CHANGED = """
import json, subprocess, sys
done = subprocess.run({right} + sys.argv[1:], capture_output=True, text=True, check=True)
for path, text in zip(sys.argv[1:], done.stdout.splitlines()):
    line = json.loads(text)
    {change}
    print(json.dumps(line))
"""
SOME = "golden/(empty|tied|keys|metadata)|files/(refer-esp|patch-of-other|missing-(absent|base)|tree-ties)|zstd-frames/lib"


class Runner(unittest.TestCase):
    def run_on(self, command: str, only: str = SOME, *options: str) -> tuple[int, list[str]]:
        done = subprocess.run([sys.executable, str(HERE / "run.py"), "--reader", command, "--only", only, *options],
                              capture_output=True, text=True, check=False)  # fmt: skip
        return done.returncode, done.stdout.splitlines()

    def changed(self, change: str) -> tuple[int, list[str]]:
        with tempfile.NamedTemporaryFile("w", suffix=".py") as stream:
            stream.write(CHANGED.format(right=shlex.split(RIGHT), change=change))
            stream.flush()
            return self.run_on(f"{sys.executable} {stream.name} {{files}}")

    def fails(self, change: str, *words: str) -> None:
        status, lines = self.changed(change)
        self.assertEqual(status, 1, lines)
        self.assertNotIn(", 0 failed", lines[-1])
        for each in words:
            self.assertTrue(any(each in line for line in lines), (each, lines))

    def test_a_right_reader_passes_one_by_one_and_in_batches(self):
        for command in (RIGHT + " {file}", RIGHT + " {files}"):
            status, lines = self.run_on(command)
            self.assertEqual(status, 0, lines)
            self.assertRegex(lines[-1], r"^[1-9]\d* passed, 0 failed$")

    def test_wrong_verdicts(self):
        self.fails("line['verdict'] = 'accept'", "missing-absent/opened.espalier: accept, and not incomplete")
        self.fails("line = {'verdict': 'refuse', 'why': 'no'}", "accept: no", "golden/empty.espalier: refuse, and not accept")
        self.fails("line['verdict'] = 'maybe'", '"verdict" is not one of')

    def test_wrong_contents(self):
        self.fails("line['digest'] = '00' * 16", "/digest: ")
        self.fails("line['version'] = '1.0'", "/version: '1.0', and not '1.1'")
        self.fails("line['tree'] = None", "/tree: 'None', and not")
        self.fails("line['tensors'] and line['tensors'][0].update(sha256='00')", "/tensors/0/sha256")
        self.fails("line['tensors'] and line['tensors'][0].pop('block')", "'block' is missing")
        self.fails("line['metadata'].update(value=1)", "/metadata: 'value' is not expected")
        self.fails("line['tree'].get('items') and line['tree']['items'].pop()", "elements, and not")

    def test_readers_that_fail(self):
        self.fails("sys.exit(3)", "exit code 3")
        self.fails("print('hello')", "2 lines on standard output")
        self.fails("import os; os.kill(os.getpid(), 11)", "exit code -11")
        status, lines = self.run_on("sh -c 'sleep 9' {file}", "golden/empty", "--timeout", "0.1")
        self.assertEqual((status, lines[-1]), (1, "0 passed, 1 failed"))
        self.assertIn("no answer within 0.1 s", lines[0])

    def test_only_newlines_end_a_line(self):
        # U+2028, U+2029 and U+0085 may stand in the text of a JSON document as they are.
        words = "sys.stdout.reconfigure(encoding='utf-8'); print(json.dumps(line | {'why': 'a\\u2028b\\u2029c\\u0085d'}, ensure_ascii=False)); continue"
        status, lines = self.changed(words)
        self.assertEqual(status, 0, lines)
        self.fails("print(json.dumps(line)); print()", "lines on standard output for 1 files")

    def test_the_digest_of_a_hostile_file_to_accept_must_be_right(self):
        rows = [row for row in ROWS if row["file"].startswith("../corrupt/") and row["verdict"] != "refuse"]
        self.assertTrue(rows and all("digest" in row for row in rows))
        with tempfile.NamedTemporaryFile("w", suffix=".py") as stream:
            stream.write(CHANGED.format(right=shlex.split(RIGHT), change="line['digest'] = '00' * 16"))
            stream.flush()
            for only in ("files/limit-rank", "corrupt/files/files-missing/", "zstd-frames/fse"):
                status, lines = self.run_on(f"{sys.executable} {stream.name} {{files}}", only)
                self.assertEqual(status, 1, only)
                self.assertIn("the tree digest is 0000", lines[0])

    def test_one_bad_file_of_a_batch_fails_alone(self):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as stream:
            stream.write(CHANGED.format(right=shlex.split(RIGHT), change="'tied' in path and sys.exit(1)"))
            stream.flush()
            status, lines = self.run_on(f"{sys.executable} {stream.name} {{files}}", "golden/[ekmt]")
        self.assertEqual((status, lines[-1]), (1, "5 passed, 1 failed"))

    def test_nothing_to_run_is_no_success(self):
        status, lines = self.run_on(RIGHT + " {file}", "no such file")
        self.assertEqual((status, lines[-1]), (1, "0 passed, 0 failed"))

    def test_plain_python_says_which_files_it_did_not_run(self):
        # Without its folder of packages, Python has none of those that make the large files.
        done = subprocess.run([sys.executable, "-S", str(HERE / "run.py"), "--reader", f"{RIGHT} {{files}}", "--only", "large/|golden/e"],
                              capture_output=True, text=True, check=False)  # fmt: skip
        large = sum(row["file"].startswith("large/") for row in ROWS)
        self.assertIn(f"{large} large files were not run: this Python lacks numpy, xxhash, zstandard", done.stdout)
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (0, "3 passed, 0 failed"), done.stderr)

    def test_the_archive_needs_nothing_else(self):
        with tempfile.TemporaryDirectory() as folder:
            archive = pathlib.Path(folder, "kit.tar.xz")
            subprocess.run([sys.executable, str(HERE / "make_kit.py"), "pack", str(archive)], capture_output=True, check=True)
            with tarfile.open(archive) as tar:
                tar.extractall(folder)
            kit = pathlib.Path(folder, "espalier-conformance-kit")
            for page in ("README.md", "format.md"):
                self.assertNotIn("../", (kit / page).read_text(encoding="utf-8"))
            done = subprocess.run([sys.executable, "-S", str(kit / "run.py"), "--reader", f"{RIGHT} {{files}}"],
                                  capture_output=True, text=True, check=False)  # fmt: skip
            self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (0, f"{len(ROWS)} passed, 0 failed"), done.stderr)
            # The files are those of the archive, and the runner does look at them.
            (kit / "hostile/files-missing/base.espalier").write_bytes((kit / "golden/empty.espalier").read_bytes())
            (kit / "golden/empty.espalier").write_bytes(b"")
            done = subprocess.run([sys.executable, "-S", str(kit / "run.py"), "--reader", f"{RIGHT} {{file}}", "--only", "empty.espalier"],
                                  capture_output=True, text=True, check=False)  # fmt: skip
            self.assertIn("golden/empty.espalier: refuse, and not accept", done.stdout)

    def test_a_reader_that_accepts_what_it_may_refuse_must_be_right(self):
        said = lambda change: f"path.endswith('beyond-shape.espalier') and line['tensors'][0].update({change})"
        with tempfile.NamedTemporaryFile("w", suffix=".py") as stream:
            stream.write(CHANGED.format(right=shlex.split(RIGHT), change=said("shape=[2**60, 0]")))
            stream.flush()
            status, lines = self.run_on(f"{sys.executable} {stream.name} {{files}}", "files/beyond")
        self.assertEqual(status, 1)
        self.assertTrue(any("/tensors/0/shape" in line for line in lines), lines)
        self.assertEqual(self.run_on(RIGHT + " {files}", "files/beyond")[0], 0)

    def test_the_readme_counts_the_files(self):
        readme = " ".join((HERE / "README.md").read_text(encoding="utf-8").split())
        large = sum(row["file"].startswith("large/") for row in ROWS)
        self.assertIn(f"there are {len(ROWS) - large} files, and {large} large ones", readme)
        self.assertIn(f"says that {large} large files were not run", readme)
        self.assertIn(f"an archive of all {len(ROWS)} files", readme)

    def test_every_kind_of_verdict_and_every_rule_of_the_reader_occurs(self):
        rows = ROWS
        self.assertEqual({row["verdict"] for row in rows}, {"accept", "refuse", "incomplete", "either"})
        for row in rows:
            self.assertTrue(row["file"].startswith("large/") or (HERE / row["file"]).is_file(), row["file"])
        source = (HERE.parent / "reference" / "espalier_reference.py").read_text(encoding="utf-8")
        rules = set(re.findall(r'"(R-\d+\.\d+)"', source))
        self.assertEqual(rules - {row.get("rule") for row in rows}, set())


if __name__ == "__main__":
    sys.exit(report.main())
