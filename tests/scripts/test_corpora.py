"""Packs and unpacks a small corpus. The last line is "N passed, N failed"."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "scripts/ci"))
import corpora  # noqa: E402

FILES = {"b/empty": b"", "a.bin": bytes(range(256)), "b/deep/.hidden": b"x"}


class Corpora(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name) / "files"
        before = corpora.FOLDERS
        corpora.FOLDERS = {"small": self.folder}
        self.addCleanup(setattr, corpora, "FOLDERS", before)
        corpora.replace("small", FILES)

    def archive(self):
        return corpora.archive_of("small").read_bytes()

    def test_what_is_packed_comes_back(self):
        archive = self.archive()
        for path in FILES:
            (self.folder / path).unlink()
        (self.folder / "b/deep").rmdir()
        (self.folder / "b").rmdir()
        self.folder.rmdir()
        corpora.unpack("small")
        self.assertEqual(corpora.files_of(self.folder), FILES)
        self.assertEqual(corpora.pack("small"), len(FILES))
        self.assertEqual(self.archive(), archive, "an archive of the same files is not written again")

    def test_a_new_archive_replaces_the_folder(self):
        other = {"c": b"new"}
        corpora.archive_of("small").write_bytes(corpora.packed(other))
        corpora.unpack("small")
        self.assertEqual(corpora.files_of(self.folder), other)

    def test_what_is_in_no_archive_is_not_lost(self):
        corpora.unpack("small")
        mine = self.folder / "mine"
        mine.write_bytes(b"work")
        # Clocks of file systems are coarse: it may be as old as what was unpacked.
        later = mine.stat().st_mtime + 1
        os.utime(mine, (later, later))
        corpora.unpack("small")
        corpora.archive_of("small").write_bytes(corpora.packed({"c": b"new"}))
        with self.assertRaisesRegex(SystemExit, "mine was changed and is in no archive"):
            corpora.unpack("small")
        self.assertEqual((self.folder / "mine").read_bytes(), b"work")

    def test_processes_that_unpack_at_once(self):
        work = "import sys; sys.path.insert(0, sys.argv[1]); import corpora, pathlib; " \
               "corpora.FOLDERS = {'small': pathlib.Path(sys.argv[2])}; corpora.unpack('small'); " \
               "print(len(corpora.files_of(corpora.FOLDERS['small'])))"  # fmt: skip
        corpora.stamp_of("small").write_text("")
        command = [sys.executable, "-c", work, str(pathlib.Path(corpora.__file__).parent), str(self.folder)]
        running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(6)]
        self.assertEqual([process.communicate()[0] for process in running], [f"{len(FILES)}\n"] * 6)


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)
