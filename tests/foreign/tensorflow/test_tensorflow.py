"""Folders of TensorFlow, and their checksums, by way of the command line. That their trees are TensorFlow's is the test
foreign.files.

Environment: ESPALIER, the program. Last line: "N passed, N failed".
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ESPALIER = os.environ["ESPALIER"]
FILES = pathlib.Path(__file__).resolve().parent / "files"


def run(*arguments):
    return subprocess.run([ESPALIER, *map(str, arguments)], capture_output=True, text=True)


class TensorFlow(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def copy(self, name):
        return pathlib.Path(shutil.copytree(FILES / f"{name}.tensorflow", self.folder / name))

    def verified(self, path):
        """The exit code, and what is said."""
        done = run("verify", path, "--json")
        return done.returncode, json.loads(done.stdout)["files"][0]

    def test_checksums(self):
        """Each tensor has a CRC-32C, and each part of one that was cut; a chunk of parts is checked by those of all."""
        for name, checksums in (("dtypes", 90), ("slices", 6), ("shards", 18)):
            code, said = self.verified(FILES / f"{name}.tensorflow")
            self.assertEqual((code, said["verdict"], said["bytes_unchecked"]), (0, "ok", 0), name)
            self.assertEqual(said["checksums"], checksums, name)

    def test_flipped_bit(self):
        """In the second part of a tensor that lies in one piece."""
        folder = self.copy("slices")
        shard = folder / "ckpt.data-00000-of-00001"
        data = bytearray(shard.read_bytes())
        at = data.index(b"\0\0\x0c\x43")  # 140, the first element of the second part
        data[at] ^= 1
        shard.write_bytes(data)
        code, said = self.verified(folder)
        self.assertEqual((code, said["verdict"]), (1, "damaged"))
        self.assertEqual([error["path"] for error in said["errors"]], ["rows"])

    def test_graph_flipped(self):
        """A damaged graph costs the tree, and no tensor; verification and conversion fail."""
        folder = self.copy("objects")
        shard = folder / "ckpt.data-00000-of-00001"
        data = shard.read_bytes()
        shard.write_bytes(data.replace(b"VARIABLE_VALUE", b"VARIABLE_WALUE", 1))
        done = run("ls", folder)
        self.assertIn("the tensors stand under their whole names: it does not match its CRC-32C", done.stdout + done.stderr)
        self.assertEqual(self.verified(folder)[0], 1)
        self.assertEqual(run("convert", folder, self.folder / "new.espalier").returncode, 3)

    def test_missing_shard(self):
        folder = self.copy("shards")
        (folder / "ckpt.data-00002-of-00009").unlink()
        code, said = self.verified(folder)
        self.assertEqual((code, said["verdict"]), (6, "incomplete"))
        self.assertEqual(run("ls", folder / "ckpt.index").returncode, 0)

    def test_the_name_that_tensorflow_gives(self):
        folder = self.copy("objects")
        index = next(folder.glob("*.index"))
        name = index.with_suffix("")
        self.assertEqual(run("ls", name).stdout, run("ls", index).stdout)
        # What is there is what was meant.
        name.mkdir()
        self.assertNotEqual(run("ls", name).returncode, 0)

    def test_folders(self):
        """A SavedModel, its folder of variables, and the text that names the newest checkpoint."""
        model = self.copy("saved_model")
        wanted = run("ls", model / "variables" / "variables.index").stdout
        for path in (model, model / "variables"):
            self.assertEqual(run("ls", path).stdout, wanted)
        folder = self.copy("strings")
        for text, says in (
            ('"../ckpt"', "names '../ckpt', which is no plain name"),
            ('"/ckpt"', "which is no plain name"),
            ('"' + "x" * 5000, "which is no plain name"),
            ("ckpt", "this is a folder; it holds a model in several files; open its file ckpt.index"),
            ('"other"', "names 'other', and there is no other.index"),
        ):
            (folder / "checkpoint").write_text(f"model_checkpoint_path: {text}\n")
            done = run("ls", folder)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(says, done.stderr)
        self.assertIn("open the file of that whose name ends with .index", run("ls", folder / "checkpoint").stderr)
        (folder / "ckpt.index").unlink()
        (folder / "checkpoint").unlink()
        self.assertIn("without its .index", run("ls", folder).stderr)

    def test_renamed_index(self):
        folder = self.copy("strings")
        (folder / "ckpt.index").rename(folder / "renamed")
        done = run("ls", folder / "renamed")
        self.assertEqual(done.returncode, 0)
        self.assertIn("its name does not end with .index", done.stdout + done.stderr)


if __name__ == "__main__":
    sys.path.insert(0, str(FILES.parents[2] / "support"))
    import report

    sys.exit(report.main())
