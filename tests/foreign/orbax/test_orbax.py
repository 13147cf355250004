"""Compares what the command line finds in checkpoints of Orbax with what tensorstore does; see make_files.py.

Environment: ESPALIER, the program. Last line: "N passed, N failed".
"""

import hashlib
import http.server
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
import typing
import unittest

ESPALIER = os.environ["ESPALIER"]
HERE = pathlib.Path(__file__).resolve().parent
EXPECTED = json.loads((HERE / "expected.json").read_text())
# Those that do not open, and why.
REFUSED = {
    "missing_pytree_data_dir_d": "a node of the OCDBT database lies in it",
    "missing_pytree_data_file_manifest.ocdbt": "the save did not finish",
    "deleted_checkpointable": "nothing says what was saved",
    "unfinished": "the save did not finish",
    "numbered": "its manifests are numbered",
}
# Arrays that are placeholders, and why.
UNREAD = {"z2_blosc": "'blosc', which is not read", "z2_bz2": "'bz2', which is not read", "z2_lost": "says that it has all"}
# Arrays of all of them.
EQUAL = 284
Json = typing.Any


def run(*arguments: object) -> Json:
    done = subprocess.run([ESPALIER, *map(str, arguments), "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def tensors_of(path: pathlib.Path | str, folder: pathlib.Path) -> dict[str, Json]:
    """The tensors, by keys that are joined with dots, by way of our own format and of safetensors."""
    ours, theirs = folder / "copy.espalier", folder / "copy.safetensors"
    ours.unlink(missing_ok=True)
    theirs.unlink(missing_ok=True)
    subprocess.run([ESPALIER, "convert", path, ours, "--quiet"], check=True)
    subprocess.run([ESPALIER, "convert", ours, theirs, "--unrepresentable", "metadata", "--quiet"], check=True)
    data = theirs.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    found = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            digest = hashlib.sha256(data[8 + length + begin : 8 + length + end]).hexdigest()
            found[name] = {"shape": entry["shape"], "sha256": digest}
    return found


class Orbax(unittest.TestCase):
    maxDiff = 4000
    folder: pathlib.Path

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        with tarfile.open(HERE / "files.tar.xz") as archive:
            archive.extractall(cls.folder)

    def kinds(self, name: str) -> dict[str, str]:
        return {node["path"]: node["kind"] for node in run("ls", self.folder / name, "--all")["nodes"]}

    def test_all_arrays_are_equal_to_tensorstore(self) -> None:
        self.assertEqual(len(EXPECTED), 90)
        equal = 0
        for name, arrays in EXPECTED.items():
            with self.subTest(checkpoint=name):
                last = name.rpartition("/")[2]
                if last in REFUSED:
                    done = subprocess.run([ESPALIER, "ls", self.folder / name], capture_output=True, text=True)
                    self.assertIn(done.returncode, (3, 4), done.stderr)
                    self.assertIn(REFUSED[last], done.stderr)
                    continue
                if last in UNREAD:
                    listed = run("ls", self.folder / name)
                    self.assertIn(UNREAD[last], listed["notes"][0]["message"])
                    self.assertEqual([node["kind"] for node in listed["nodes"]], ["placeholder"])
                    continue
                # Names that safetensors cannot tell apart; two items. See below.
                if name in ("collide", "items/1"):
                    continue
                found = tensors_of(self.folder / name, self.folder)
                for array, one in arrays.items():
                    if one["shape"] == [] and array not in found:
                        continue  # a number of Python, see below
                    self.assertEqual(found[array], {"shape": one["shape"], "sha256": one["sha256"]}, array)
                    equal += 1
        self.assertEqual(equal, EQUAL)

    def test_trees_and_values(self) -> None:
        for name in ("z2", "z3"):
            text = subprocess.run([ESPALIER, "tree", self.folder / name], capture_output=True, text=True, check=True).stdout
            for line in ("f: float64 1.5", "flag: bool true", "i: int64 3", "none: null", "elist: list (empty)",
                         "empty: dict (empty)", "list: list (2 tensors", 'text: string "héllo"', "bf: tensor bf16 [10]",
                         "adam: list (3 tensors", "1: null", "nt: dict", "c~1d: tensor f32 [2]"):
                self.assertIn(line, text)
        rich = subprocess.run([ESPALIER, "tree", self.folder / "rich"], capture_output=True, text=True, check=True).stdout
        for line in ('0: record "optax._src.transform.ScaleByAdamState"', "adam: tuple", "2: tuple (empty)", "l: list",
                     'nt: record "__main__.Pair"', "1: null"):
            self.assertIn(line, rich)
        keys = {node["path"]: node["label"] for node in run("ls", self.folder / "prng")["nodes"]}
        self.assertEqual(keys, {"k": "jax.random.key/threefry2x32", "ks": "jax.random.key/rbg"})
        notes = run("ls", self.folder / "collide")["notes"]
        self.assertIn("were saved under the same name, 'a.b'", notes[0]["message"])
        items = subprocess.run([ESPALIER, "tree", self.folder / "items/1"], capture_output=True, text=True, check=True).stdout
        for line in ("params: dict", "opt: dict", "info: dict", "nan: float64 nan", "commit_timestamp_nsecs: int64"):
            self.assertIn(line, items)

    def test_steps_items_and_files(self) -> None:
        def first(path: str) -> str:
            command = [ESPALIER, "show", self.folder / path, "w"]
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout

        self.assertIn("[10.0, 10.0, 10.0]", first("manager"))  # the newest
        self.assertIn("[5.0, 5.0, 5.0]", first("manager/5"))
        for file in ("_CHECKPOINT_METADATA", "default/_METADATA", "default/manifest.ocdbt", "default"):
            self.assertIn("[10.0, 10.0, 10.0]", first(f"manager/10/{file}"))
        newest = max(path.name for path in (self.folder / "numbered").glob("manifest.0*"))
        self.assertEqual(len(run("ls", self.folder / "numbered" / newest)["nodes"]), 4)

    def test_verify_says_what_it_cannot(self) -> None:
        done = subprocess.run([ESPALIER, "verify", self.folder / "z3"], capture_output=True, text=True, check=True)
        self.assertIn("structure ok", done.stdout)
        self.assertIn("no checksums", done.stdout)

    def test_over_http(self) -> None:
        asked = []

        class Handler(http.server.SimpleHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                super().do_GET()

            def log_message(self, *arguments: object) -> None:
                pass

        def at_folder(*arguments: typing.Any) -> Handler:
            return Handler(*arguments, directory=self.folder)

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), at_folder) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                url = f"http://127.0.0.1:{server.server_address[1]}/manager/10/_CHECKPOINT_METADATA"
                self.assertEqual(list(tensors_of(url, self.folder)), ["w"])
            finally:
                server.shutdown()
                thread.join()
        self.assertTrue(any(path.startswith("/manager/10/default/") and "/d/" in path for path in asked), asked)


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent.parent / "support"))
    import report

    sys.exit(report.main())
