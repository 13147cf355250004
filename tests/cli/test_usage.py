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

from test_cli import ESPALIER, MAKE_SAMPLE, OK, USAGE, Cli

COMMANDS = ("ls", "tree", "show", "stats", "verify", "diff", "extract", "convert", "view")


class NearMisses(Cli):
    def expect_error(self, *args, contains, without="did you mean nothing"):
        self.run_cli(*args, expect=USAGE)
        self.assertIn(contains, self.stderr)
        self.assertNotIn(without, self.stderr)

    def test_commands(self):
        for word, meant in {"convrt": "convert", "lss": "ls", "STATS": "stats", "vreify": "verify",
                            "conv": "convert", "shwo": "show"}.items():
            self.expect_error(word, "x", contains=f"there is no command '{word}'; did you mean '{meant}'?")
        self.expect_error("frobnicate", contains="there is no command 'frobnicate' (see", without="did you mean")
        self.expect_error(contains="there is no command (see")

    def test_options(self):
        sample = self.path("sample")
        for args, meant in {("convert", sample, "out", "--compres"): "--compress",
                            ("convert", sample, "out", "--compres=3"): "--compress",
                            ("ls", sample, "-long"): "--long", ("ls", sample, "--lnog"): "--long",
                            ("ls", sample, "--rev"): "--reverse", ("ls", "--jason"): "--json"}.items():
            self.expect_error(*args, contains=f"did you mean '{meant}'?")
        self.expect_error("ls", sample, "--frobnicate", contains="there is no option '--frobnicate'",
                          without="did you mean")
        self.expect_error("stats", sample, "--long", contains="there is no option '--long' here; ls have it")
        self.expect_error("--json", "ls", sample, contains="write it after the command")
        self.expect_error("show", sample, "a", "b", contains="there is an argument too many: 'b'")
        # An escape in an argument must not reach the terminal.
        self.expect_error("ls", "--\x1b[31m", contains=r"'--\x1b[31m'")

    def test_key_paths(self):
        sample = self.path("sample")
        for path, meant in {"modle/embed": "model/embed", "model/embde": "model/embed",
                            "layer/1/w": "layers/1/w", "Layers/1/W": "layers/1/w",
                            "opt/0/exp_av": "optimizer/0/exp_avg", "exp_avg": "optimizer/0/exp_avg",
                            "0/exp_avg": "optimizer/0/exp_avg", "model.embed": "model/embed",
                            "layers.1.w": "layers/1/w", "args/nestrov": "args/nesterov",
                            "types/f8_": "types/f8"}.items():
            for command in ("show", "tree", "ls", "stats"):
                self.expect_error(command, sample, path, contains=f"did you mean '{meant}'?")
            self.expect_error("extract", sample, self.new("out"), "--root", path,
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

    def test_patterns_for_paths(self):
        sample = self.path("sample")
        for pattern in ("model/*", "**", "layers/[01]/w", "model/{head,embed}", "model/hea?"):
            for args in (["show", sample, pattern], ["tree", sample, pattern],
                         ["extract", sample, self.new("out"), "--root", pattern]):
                self.expect_error(*args, contains="this looks like a pattern, and one key path is needed: ls, ")

    def test_huge_containers(self):
        """The search has a limit, and finds what it meets before."""
        subprocess.run([MAKE_SAMPLE, self.new("many"), "many:300000"], check=True)
        self.expect_error("show", self.new("many"), "model/layr_7/weight", contains="did you mean 'model/layer_7/weight'?")
        for path in ("model/" + "x" * 150, "model/" + "x" * 16_000, "layer_299999/w"):
            self.expect_error("show", self.new("many"), path, contains="no such key", without="did you mean")



if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
    import report
    sys.exit(report.main())
