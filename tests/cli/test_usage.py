"""How the command line explains itself: help, versions, colours, and what it says of mistakes.

Usage: ESPALIER=path/to/espalier MAKE_SAMPLE=path/to/make_sample python3 test_usage.py
"""

import fcntl
import json
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import termios
import unittest

from test_cli import ESPALIER, IO, MAKE_SAMPLE, OK, USAGE, Cli
from test_write import safetensors

# All of them, as the program lists them; a column of help begins with a capital.
COMMANDS = re.findall(r"(?m)^  ([a-z]+) +[A-Z]", subprocess.run([ESPALIER, "--help"], capture_output=True, text=True, check=True).stdout)


DOCS = (pathlib.Path(__file__).resolve().parent.parent.parent / "docs/cli.md").read_text(encoding="utf-8")


class Terminal(Cli):
    def in_terminal(self, columns, *args, **environment):
        """What the program writes to a terminal."""
        ours, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        with subprocess.Popen([ESPALIER, *args], stdin=its, stdout=its, stderr=its,
                              env={"TERM": "xterm", **environment}) as program:
            os.close(its)
            written = b""
            while True:
                try:
                    data = os.read(ours, 65536)
                except OSError:  # the other side is closed
                    break
                if not data:
                    break
                written += data
        os.close(ours)
        self.assertEqual(program.returncode, OK, written)
        return written.replace(b"\r\n", b"\n").decode("utf-8")


class NearMisses(Cli):
    def named(self, *names):
        """A safetensors file of tensors with these names."""
        with open(self.new("named.safetensors"), "wb") as file:
            file.write(safetensors([(name, "U8", [1], b"x") for name in names]))
        return self.new("named.safetensors")

    def expect_error(self, *args, contains, without="did you mean nothing"):
        self.run_cli(*args, expect=USAGE)
        self.assertIn(contains, self.stderr)
        self.assertNotIn(without, self.stderr)

    def test_commands(self):
        for word, meant in {"convrt": "convert", "lss": "ls", "STATS": "stats", "vreify": "verify",
                            "conv": "convert", "shwo": "show"}.items():
            self.expect_error(word, "x", contains=f"there is no command '{word}'; did you mean '{meant}'?")
        self.expect_error("frobnicate", contains="there is no command 'frobnicate' (see", without="did you mean")
        self.expect_error(contains="no command was given (see")

    def test_options(self):
        sample = self.path("sample")
        for args, meant in {("convert", sample, "out", "--compres"): "--compress",
                            ("convert", sample, "out", "--compres=3"): "--compress",
                            ("ls", sample, "-long"): "--long", ("ls", sample, "--lnog"): "--long",
                            ("ls", sample, "--rev"): "--reverse", ("ls", "--jason"): "--json"}.items():
            self.expect_error(*args, contains=f"did you mean '{meant}'?")
        self.expect_error("ls", sample, "--frobnicate", contains="there is no option '--frobnicate'",
                          without="did you mean")
        self.expect_error("verify", sample, "--long", contains="there is no option '--long' here; ls, needs have it")
        self.expect_error("ls", sample, "--explain", contains="there is no option '--explain' here; map has it")
        self.expect_error("--json", "ls", sample, contains="write it after the command")
        self.expect_error("show", sample, "a", "b", contains="there is an argument too many: 'b'")
        # An escape in an argument must not reach the terminal.
        self.expect_error("ls", "--\x1b[31m", contains=r"'--\x1b[31m'")

    def test_json_of_mistakes(self):
        sample = self.path("sample")
        for args in (["ls", sample, "--frobnicate"], ["ls", sample, "--sort"], ["ls", sample, "--sort", "beauty"], ["ls", sample, "--limit", "x"],
                     ["ls"], ["show", sample, "a", "b"], ["frobnicate"], ["lss", sample], [], ["convert", sample, "out", "--compress="],
                     ["convert", sample, "out", "--compres"], ["ls", sample, "--long=maybe"], ["help", "ls", "--frobnicate"], ["ls", "--\x1b[31m"],
                     ["ls", "https://u:secret@host/x", "--oops"]):
            self.run_cli(*args, expect=USAGE)
            line = self.stderr
            # In every position, but not where the option before takes it for its value.
            for i in range(len(args) + 1):
                if args[i - 1:i] in (["--sort"], ["--limit"]):
                    continue
                out = self.run_cli(*args[:i], "--json", *args[i:], expect=USAGE)
                failure = {"code": "invalid_argument", "message": self.stderr[len("espalier: "):-1], "offset": None, "path": None}
                self.assertEqual(json.loads(out), {"file": None, "failure": failure}, args)
                self.assertNotIn(b"secret", out)
                if args and i > 0 and args[0] != "help" and "lss" not in args[0]:
                    self.assertEqual(self.stderr, line)
        with open("/dev/full", "w") as full:
            self.run_cli("ls", "--json", expect=IO, stdout=full)

    def test_what_asks_for_json(self):
        sample = self.path("sample")
        for args in (["ls", "--nope", "--", "--json"], ["ls", "--nope", sample, "--sort", "--json"],
                     ["extract", sample, "--nope", "-o", "--json"], ["extract", sample, "--nope", "-qo", "--json"],
                     ["extract", sample, "--nope", "--output=", "--json"], ["ls", "--nope", "--jsonx"]):
            self.assertEqual(self.run_cli(*args, expect=USAGE), b"", args)
        for args in (["ls", "--nope", sample, "--sort=size", "--json"], ["extract", sample, "--nope", "-oout", "--json"],
                     ["extract", sample, "--nope", "-q", "--json"], ["convert", sample, "out", "--nope", "--compress", "--json"],
                     ["ls", "--nope", "--json", "--", "x"], ["ls", "--nope", "--json=true"]):
            self.assertIn("failure", json.loads(self.run_cli(*args, expect=None) or "{}"), args)
            self.assertEqual(self.code, USAGE)

    def test_key_paths(self):
        sample = self.path("sample")
        for path, meant in {"modle/embed": "model/embed", "model/embde": "model/embed",
                            "layer/1/w": "layers/1/w", "Layers/1/W": "layers/1/w",
                            "opt/0/exp_av": "optimizer/0/exp_avg", "exp_avg": "optimizer/0/exp_avg",
                            "0/exp_avg": "optimizer/0/exp_avg", "model.embde": "model/embed",
                            "args/nestrov": "args/nesterov",
                            "types/f8_": "types/f8"}.items():
            for command in ("show", "tree", "ls", "stats"):
                self.expect_error(command, sample, path, contains=f"did you mean '{meant}'?")
            self.expect_error("extract", sample, "-o", self.new("out.espalier"), "--root", path,
                              contains=f"did you mean '{meant}'?")
        self.expect_error("show", sample, "--metadata", "epcoh", contains="did you mean 'epoch'?")
        self.expect_error("show", sample, "layers/2/w", contains="its elements are 0 to 1", without="did you mean")
        for path in ("frobnicate", "model/frobnicate", "types/9", "model/embed/x"):
            self.expect_error("show", sample, path, contains="no such key", without="did you mean")
        self.assertEqual(os.listdir(self.folder), [])

    def test_dotted_names(self):
        digits = str(pathlib.Path(__file__).resolve().parent.parent / "data/digits/digits.safetensors")
        self.expect_error("show", digits, "model/layers/0/weight", contains="did you mean 'model.layers.0.weight'?")
        self.expect_error("show", digits, "model.layers.0.wieght", contains="did you mean 'model.layers.0.weight'?")

    def test_names_with_slashes(self):
        """As Flax, JAX and TensorFlow give them."""
        file = self.named("enc/b", "enc/w", "a/b", "a/b/c", "params/Dense_0/bias", "params/Dense_0/kernel")
        for path, meant in {"enc/w": "enc~1w", "/enc/w/": "enc~1w", "a/b": "a~1b", "a/b/c": "a~1b~1c",
                            "params/Dense_0/kernel": "params~1Dense_0~1kernel",
                            "params/Dense_0/kernle": "params~1Dense_0~1kernel"}.items():
            for command in ("show", "ls", "stats"):
                self.expect_error(command, file, path, contains=f"did you mean '{meant}'?")
            self.expect_error("extract", file, "-o", self.new("out.espalier"), path, contains=f"did you mean '{meant}'?")
        # Below a container, and in several keys of one path.
        self.run_cli("extract", self.named("m.enc/w", "m.a/b.c/d"), "-o", self.new("out.espalier"), "--nest")
        self.expect_error("show", self.new("out.espalier"), "m/enc/w", contains="did you mean 'm/enc~1w'?")
        self.expect_error("show", self.new("out.espalier"), "m/a/b/c/d", contains="did you mean 'm/a~1b/c~1d'?")

    def test_patterns_of_names_with_dots_or_slashes(self):
        file = self.named("model.layers.0.weight", "model.layers.1.weight", "params/w")
        for command in ("ls", "stats"):
            self.expect_error(command, file, "model/layers/*/weight",
                              contains="did you mean 'model.layers.*.weight'? --nest reads the dots")
            self.expect_error(command, file, "model.layers[0].weight", contains="did you mean 'model.layers.0.weight'?")
            self.expect_error(command, file, "params/*", contains="did you mean 'params~1*'?")
            # Of several patterns, the one that matches nothing.
            self.expect_error(command, file, "model.*", "nope/*", contains="shows the key paths", without="did you mean")
        self.expect_error("show", file, "model.layers[0].weight", contains="did you mean 'model.layers.0.weight'?")
        self.expect_error("show", self.path("sample"), "layers[0]", contains="did you mean 'layers/0'?")
        self.expect_error("show", self.path("sample"), "layers[9]", contains="looks like a pattern", without="did you mean")

    def test_paths_in_the_metadata(self):
        file = self.new("named.safetensors")
        with open(file, "wb") as out:
            out.write(safetensors([("w", "U8", [1], b"x")], {"val/loss": "0.5"}))
        for command, name, path, there in (("show", self.path("sample"), "epoch", "epoch"),
                                           ("ls", self.path("sample"), "epoch", "epoch"),
                                           ("show", file, "val/loss", "val~1loss")):
            self.expect_error(command, name, path, without="did you mean",
                              contains=f"the metadata has it: `espalier show --metadata` shows '{there}'")
        self.expect_error("show", file, "--metadata", "nope", contains="no such key", without="the metadata has it")

    def test_patterns_for_paths(self):
        sample = self.path("sample")
        for pattern in ("model/*", "**", "layers/[01]/w", "model/{head,embed}", "model/hea?"):
            for args in (["show", sample, pattern], ["tree", sample, pattern],
                         ["extract", sample, "-o", self.new("out.espalier"), "--root", pattern]):
                self.expect_error(*args, contains="this looks like a pattern, and one key path is needed: ls, ")

    def test_huge_containers(self):
        """The search has a limit, and finds what it meets before."""
        subprocess.run([MAKE_SAMPLE, self.new("many"), "many:300000"], check=True)
        self.expect_error("show", self.new("many"), "model/layr_7/weight", contains="did you mean 'model/layer_7/weight'?")
        for path in ("model/" + "x" * 150, "model/" + "x" * 16_000, "layer_299999/w"):
            self.expect_error("show", self.new("many"), path, contains="no such key", without="did you mean")



class Help(Terminal):
    def test_every_command(self):
        listing = self.text("--help")
        self.assertIn("Exit codes: 0 ok, 1 the check failed (verify, diff, doctor), 2 wrong usage", " ".join(listing.split()))
        for command in COMMANDS:
            text = self.text(command, "--help")
            self.assertRegex(listing, rf"\n  {command} +[A-Z]")
            self.assertIn(f"\nUsage: espalier {command} [OPTIONS] ", text)
            self.assertTrue(f"| [`{command}`](#{command}) |" in DOCS or f"| `{command}` |" in DOCS, command)
            self.assertIn(f"\nExamples:\n  espalier {command} ", text)
            self.assertEqual(text, self.text("help", command))
            self.assertEqual(text, self.text(command, "-h"))
        self.assertEqual(listing, self.text("help"))
        self.run_cli("help", "convrt", expect=USAGE)
        self.assertIn("did you mean 'convert'?", self.stderr)

    def test_groups(self):
        text = self.text("ls", "--help")
        self.assertEqual(re.findall(r"(?m)^(\w+):$", text)[:2], ["Arguments", "Options"])
        reading = text[text.index("\nReading:"):]
        for option in ("--threads N", "--no-mmap", "--nest"):
            self.assertIn(option, reading)
        self.assertIn("--sort tree|name|", text)

    def test_synopses(self):
        for usage in ("merge [OPTIONS] A B... OUT", "convert [OPTIONS] IN... OUT", "verify [OPTIONS] FILE...",
                      "ls [OPTIONS] FILE [PATTERN...]", "extract [OPTIONS] FILE [PATTERN...]"):
            self.assertIn(f"\nUsage: espalier {usage}\n", self.text(usage.split()[0], "--help"))

    def test_examples_are_commands(self):
        """Each example parses: what fails is only that there is no such file, and some need none."""
        os.makedirs(self.new(".local/share/bash-completion/completions"))
        os.makedirs(self.new(".zfunc"))
        os.makedirs(self.new(".config/fish/completions"))
        needs_no_file = re.compile(r"espalier (map --list|help .*|completion .*)")
        for command in COMMANDS:
            examples = self.text(command, "--help").split("\nExamples:\n")[1].split("\n\n")[0].splitlines()
            self.assertGreaterEqual(len(examples), 1)
            for example in examples:
                line = example.strip().replace("espalier ", f"{ESPALIER} ", 1)
                done = subprocess.run(["bash", "-c", line], cwd=self.folder, capture_output=True, timeout=60, env={"HOME": self.folder})
                if needs_no_file.fullmatch(example.strip()):
                    self.assertEqual((done.returncode, done.stderr), (OK, b""), example)
                else:
                    self.assertIn(b"code file_not_found", done.stderr, example)

    def test_width(self):
        words = {}
        for columns in (40, 60, 80, 120, 200):
            for args in (["--help"], ["convert", "--help"], ["help", "ls"]):
                text = self.in_terminal(columns, *args)
                examples = text.partition("\nExamples:\n")[2].splitlines()
                for line in text.splitlines():
                    self.assertTrue(len(line) <= columns or line in examples or " " not in line.strip(), line)
                # Only the breaks differ.
                self.assertEqual(words.setdefault(tuple(args), text.split()), text.split())
        self.assertEqual(self.in_terminal(80, "--help"), self.text("--help"), "80 without a terminal")
        self.assertGreater(max(map(len, self.in_terminal(200, "convert", "--help").splitlines())), 120)

    def test_version(self):
        text = self.text("--version")
        self.assertEqual(text, self.text("-V"))
        self.assertRegex(text, r"\Aespalier \d+\.\d+\.\d+\nfile format 1\.\d+\nzstd 1\.\d+\.\d+\n\w+ build with .+ for .+\n\Z")


class Colors(Terminal):
    PATH, TYPE, DAMAGE, END = "\x1b[1m", "\x1b[36m", "\x1b[1m\x1b[31m", "\x1b[0m"

    def painted(self, *args, expect=OK):
        return self.run_cli(*args, "--color=always", expect=expect).decode("utf-8")

    def plain(self, text):
        return re.sub("\x1b\\[[0-9;]*m", "", text)

    def test_only_colours_differ(self):
        sample = self.path("sample")
        for args in (["ls", sample], ["ls", "-l", sample], ["ls", "--all", sample], ["tree", sample], ["stats", sample],
                     ["show", sample, "model/head"], ["show", sample, "layers"], ["verify", sample],
                     ["diff", sample, sample]):
            text = self.painted(*args)
            self.assertEqual(self.plain(text), self.text(*args), "columns stay where they are")
            self.assertEqual(self.text(*args, "--color", "never"), self.text(*args))

    def test_what_is_coloured(self):
        sample = self.path("sample")
        self.assertIn(f"{self.TYPE}f32{self.END}", self.painted("ls", sample))
        self.assertIn(f"{self.PATH}layers/0/w{self.END}\n", self.painted("ls", sample))
        self.assertIn(f"{self.PATH}embed{self.END}: tensor {self.TYPE}f32{self.END} [4, 3]", self.painted("tree", sample))
        self.assertIn(f"tensor {self.TYPE}f32{self.END} ", self.painted("show", sample, "model/head"))
        self.assertIn(f"{self.PATH}types/i8{self.END}\n", self.painted("stats", sample))
        bad = self.damaged("bad", self.data_offset("layers/1/w"))
        self.assertIn(f"bad: {self.DAMAGE}DAMAGED{self.END} (1 error)", self.painted("verify", bad, expect=1))

    def test_names_cannot_colour(self):
        """What a file brings stays escaped."""
        text = self.plain(self.painted("tree", self.path("sample")))
        self.assertNotIn("\x1b", text)
        self.assertIn(r"evil\x1b]0;title", text)

    def test_never_in_json(self):
        for command in ("ls", "tree", "stats", "verify"):
            document = self.run_cli(command, "--json", "--color=always", self.path("sample"))
            self.assertNotIn(b"\x1b", document)
            json.loads(document)

    def test_when(self):
        sample = self.path("sample")
        self.assertIn("\x1b", self.in_terminal(80, "ls", sample))
        self.assertIn("\x1b", self.in_terminal(80, "ls", sample, NO_COLOR=""))
        for variables in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            self.assertNotIn("\x1b", self.in_terminal(80, "ls", sample, **variables))
            self.assertIn("\x1b", self.in_terminal(80, "ls", sample, "--color=always", **variables))
        self.assertNotIn("\x1b", self.in_terminal(80, "ls", sample, "--color=never"))
        self.run_cli("ls", sample, "--color", "sometimes", expect=USAGE)


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
    import report
    sys.exit(report.main())
