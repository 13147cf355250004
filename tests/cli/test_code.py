"""Every command tells what loading a checkpoint with its own program would run, runs nothing of it, and advises nobody to.

Usage: ESPALIER=path/to/espalier python3 test_code.py
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))

import code_pickles

ESPALIER = os.environ["ESPALIER"]
# Programs and functions that run what a file says.
ADVICE = re.compile(r"joblib\.load|load it with|torch\.load|pickle\.load|allow_pickle|load_model|saved_model\.load|unless you know|"
                    r"load it unless|dill|cloudpickle")  # fmt: skip
# How each command is run on a checkpoint, with the name of a file to write in place of OUT.
COMMANDS = {
    "ls": ["FILE"], "tree": ["FILE"], "show": ["FILE", ""], "stats": ["FILE"], "verify": ["FILE"], "doctor": ["FILE"],
    "convert": ["FILE", "OUT"], "extract": ["FILE", "-o", "OUT"], "merge": ["FILE", "PLAIN", "OUT"], "diff": ["FILE", "PLAIN"],
    "flatten": ["FILE", "OUT"], "delta": ["PLAIN", "FILE", "-o", "OUT"], "map": ["--map", "MAP", "FILE", "OUT"], "log": ["FILE"],
    "needs": ["FILE"], "apply": ["FILE", "PLAIN"], "fold": ["FILE", "OUT"], "rebase": ["FILE", "--onto", "PLAIN", "-o", "OUT"],
    "index": ["FILE", "OUT"], "view": ["FILE", "--no-browser"],
}  # fmt: skip
# These open no checkpoint of another format: `prune` reads a folder of Espalier files.
OTHERS = {"help", "completion", "prune"}


class Code(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = pathlib.Path(made.name)
        # Commands run here, so a canary would appear here.
        self.work = self.folder / "work"
        self.work.mkdir()
        source = code_pickles.Checkpoint("plain", {"plain.npy": code_pickles.npy()}, "plain.npy").write(self.folder)
        self.plain = self.folder / "plain.espalier"
        subprocess.run([ESPALIER, "convert", source, self.plain], check=True, capture_output=True)
        self.map = self.folder / "map.json"
        self.map.write_text(json.dumps({"espalier_map": 1, "rules": []}))

    def run_command(self, command, file, *more):
        # Some commands want all files in one folder.
        out, plain = file.parent / "out.espalier", file.parent / "plain.espalier"
        plain.write_bytes(self.plain.read_bytes())
        names = {"FILE": file, "PLAIN": plain, "MAP": self.map, "OUT": out}
        arguments = [names.get(each, each) for each in COMMANDS[command]]
        # `view` serves until it is ended; it ends at once if it cannot print its URL.
        with open("/dev/full", "wb") as full:
            done = subprocess.run([ESPALIER, command, *arguments, *more], stdin=subprocess.DEVNULL, cwd=self.work, timeout=120,
                                  stdout=full if command == "view" else subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
        out.unlink(missing_ok=True)
        self.code = done.returncode
        self.out = (done.stdout or b"").decode()
        self.err = done.stderr.decode()
        return self.out + self.err

    def write(self, checkpoint):
        place = self.folder / "file"
        for old in sorted(place.rglob("*"), reverse=True):
            old.rmdir() if old.is_dir() else old.unlink()
        return checkpoint.write(place)

    def check(self, said, checkpoint):
        """The note, or the error, and no advice; nothing ran."""
        self.assertIn(checkpoint.says, said)
        self.assertIsNone(ADVICE.search(said), said)
        self.assertEqual(os.listdir(self.work), [])

    def test_this_file_knows_every_command(self):
        usage = subprocess.run([ESPALIER, "--help"], check=True, capture_output=True, text=True).stdout
        commands = set(re.findall(r"^  ([a-z]+) {2,}", usage, re.M))
        self.assertGreater(len(commands), 20)
        self.assertEqual(commands, set(COMMANDS) | OTHERS)

    def test_every_file_is_told_by_ls(self):
        for checkpoint in code_pickles.checkpoints():
            with self.subTest(checkpoint.name):
                said = self.run_command("ls", self.write(checkpoint))
                self.check(said, checkpoint)
                self.assertEqual(self.code, 0 if checkpoint.is_open else 3, said)
                if checkpoint.is_open:
                    # In front of all other notes.
                    found = json.loads(self.run_command("ls", self.write(checkpoint), "--json") and self.out)
                    self.assertEqual(found["notes"][0]["kind"], "code")
                    named = [note["message"] for note in found["notes"] if note["kind"] == "code"]
                    self.assertEqual(sum(code_pickles.CODE in message for message in named), 1, named)

    def test_every_command_tells(self):
        wanted = {"call: GLOBAL REDUCE, .pt", "bare: STACK_GLOBAL, .pt", "bare: popped, pickle", "call: INST, .pt from before 1.6",
                  "call: NEWOBJ, item", "bare: GLOBAL, .metadata", "bare: in a list, shard", "a call behind a.pkl",
                  "a bare name behind a.pt", "only a call"}  # fmt: skip
        found = [each for each in code_pickles.checkpoints() if each.name in wanted]
        self.assertEqual({each.name for each in found}, wanted)
        for checkpoint in found:
            file = self.write(checkpoint)
            for command in COMMANDS:
                with self.subTest(checkpoint.name, command=command):
                    self.check(self.run_command(command, file), checkpoint)
                    # Of what opens, it is told once, and on the standard error where the output is data.
                    if checkpoint.is_open:
                        told = self.out + self.err
                        self.assertEqual(told.count(checkpoint.says), 1, told)
                        if command not in ("ls", "verify", "doctor"):
                            self.assertIn(": code: ", self.err)

    def test_quiet_does_not_hide_it(self):
        checkpoint = next(code_pickles.checkpoints())
        file = self.write(checkpoint)
        for command in ("ls", "verify", "doctor"):
            self.assertIn(checkpoint.says, self.run_command(command, file, "--quiet"))
            self.assertIn(checkpoint.says, self.run_command(command, file, "--json"))

    def test_doctor_lists_it_first(self):
        checkpoint = next(code_pickles.checkpoints())
        file = self.write(checkpoint)
        self.run_command("doctor", file)
        lines = self.out.splitlines()
        self.assertRegex(lines[0], r"code: .*posix\.system")
        self.assertNotIn("nothing found", self.out)
        self.assertIn("1 name of code", lines[-1])
        self.assertEqual(self.code, 0)
        found = json.loads(self.run_command("doctor", file, "--json") and self.out)
        self.assertEqual(found["code"][0]["kind"], "code")
        keys = list(found)
        self.assertLess(keys.index("code"), keys.index("findings"))
        # What a map makes of a file has no notes, and its file is told all the same.
        said = self.run_command("doctor", file, "--map", str(self.map))
        self.assertNotIn("nothing found", said)

    def test_completion_stays_silent(self):
        checkpoint = next(code_pickles.checkpoints())
        done = subprocess.run([ESPALIER, "complete-path", self.write(checkpoint), ""], capture_output=True)
        self.assertEqual(done.stderr, b"")

    def test_names_are_escaped_and_told_once_with_a_count(self):
        system = b"cposix\x1b[31m\nsys\x07tem\n"
        value = (system + b")R") * 3 + b"cm\nC\n"
        body = b"](" + code_pickles.tensor() + value + b"e"
        data = code_pickles.torch_archive(code_pickles.pickled(body, 4))
        file = self.write(code_pickles.Checkpoint("x", {"a.pt": data}, "a.pt"))
        for command in ("ls", "stats", "doctor"):
            said = self.run_command(command, file)
            self.assertNotIn("\x1b", said)
            self.assertIn(r"1: Loading this with pickle would call posix\x1b[31m.sys\x07tem, 3 times in all; nothing was run.", said)
            self.assertIn("4: Loading this with pickle would import m.C; nothing was run.", said)

    def test_a_thousand_losses_hide_no_code(self):
        # A list that holds itself is a loss.
        cycles = b"]q\x07h\x07a" * 1100
        body = b"](" + code_pickles.tensor() + cycles + code_pickles.BARE["GLOBAL"] + b"e"
        data = code_pickles.torch_archive(code_pickles.pickled(body, 4))
        file = self.write(code_pickles.Checkpoint("x", {"a.pt": data}, "a.pt"))
        for command in ("ls", "stats", "doctor"):
            self.assertIn(code_pickles.note("import"), self.run_command(command, file))


if __name__ == "__main__":
    unittest.main()
