"""The scripts of `espalier completion` in the shells they are for, and the manual pages.

Usage: ESPALIER=path/to/espalier MAKE_SAMPLE=path/to/make_sample python3 test_completion.py
"""

import json
import os
import pathlib
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import time
import unittest

from test_cli import ESPALIER, MAKE_SAMPLE, OK, Cli

# Those of the table in docs/cli.md.
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/cli.md"
COMMANDS = tuple(re.findall(r"(?m)^\| \[?`([\w-]+)`.*\|$", PAGE.read_text(encoding="utf-8").partition("## Common to all")[0]))


def needs(program):
    return unittest.skipUnless(shutil.which(program), f"{program} is not installed")


class Shell(Cli):
    """A folder with a program `espalier`, a checkpoint and a script."""

    def setUp(self):
        super().setUp()
        os.symlink(ESPALIER, self.new("espalier"))
        shutil.copy(self.path("sample"), self.new("run.espalier"))
        self.environment = {"PATH": self.folder + ":" + os.environ["PATH"], "HOME": self.folder, "TERM": "dumb",
                            "LC_ALL": "C.UTF-8"}

    def script(self, shell):
        with open(self.new("script"), "w", encoding="utf-8") as file:
            file.write(self.text("completion", shell))
        return self.new("script")

    def shell(self, *command, text=None):
        done = subprocess.run(command, input=text, cwd=self.folder, env=self.environment, capture_output=True,
                              encoding="utf-8", timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""), command)
        return done.stdout

    def expect_completions(self, complete):
        """`complete` returns the set of candidates for a line whose last word is to be completed."""
        self.assertLessEqual({"ls", "convert", "completion"}, complete("espalier "))
        self.assertNotIn("man", complete("espalier "), "hidden")
        self.assertEqual(complete("espalier conv"), {"convert"})
        self.assertEqual(complete("espalier ls --so"), {"--sort"})
        self.assertEqual(complete("espalier ls --sort na"), {"name"})
        self.assertEqual(complete("espalier help st"), {"stats"})
        self.assertEqual(complete("espalier completion z"), {"zsh"})
        self.assertEqual(complete("espalier show run.espalier mod"), {"model/"})
        self.assertEqual(complete("espalier show --full run.espalier model/"), {"model/embed", "model/head"})
        self.assertEqual(complete("espalier ls run.espalier model args/n"), {"args/nesterov"})
        self.assertEqual(complete("espalier diff run.espalier run.espalier op"), {"optimizer/"})
        subprocess.run([MAKE_SAMPLE, self.new("run.espalier"), "prefixes"], check=True)
        self.assertEqual(complete("espalier show run.espalier a/"), {"a/-1", "a/10", "a/2", "a/b"})


class Bash(Shell):
    def complete(self, line):
        """What bash replies, from its own splitting of the line."""
        words = line.split(" ")
        # readline splits at the equals sign.
        words = [part for word in words for part in re.split(r"(=)", word) if part or not word]
        return set(self.shell("bash", "--norc", "-c", """
            source script
            COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
            _espalier
            printf '%s\\n' "${COMPREPLY[@]}" """, "bash", *words).split())

    def test_completions(self):
        self.shell("bash", "--norc", "-n", self.script("bash"))
        self.expect_completions(self.complete)
        self.assertEqual(self.complete("espalier ls --sort=si"), {"size"})
        self.assertEqual(self.complete("espalier convert run.espalier o"), set(), "bash completes file names")

    def test_in_a_terminal(self):
        """The whole way, through readline; also that bash loads it."""
        self.script("bash")
        text = in_terminal(["bash", "--norc", "-i"], self.folder, self.environment,
                           "source script; echo rea''dy\n", "ready\r\n", "espalier conv\trun.esp\tx\n",
                           "the name does not select a format")
        self.assertIn("espalier convert run.espalier x", text)


@needs("zsh")
class Zsh(Shell):
    def test_completions(self):
        self.shell("zsh", "-f", "-n", self.script("zsh"))
        shutil.move(self.new("script"), self.new("_espalier"))
        start = "fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -D; unsetopt beep; echo rea''dy\n"
        for typed, expected in {"conv\trun.esp\tx": "espalier convert run.espalier x",
                                "ls --so\tna\trun.esp\t": "espalier ls --sort=name run.espalier",
                                "ls --sort=si\trun.esp\t": "espalier ls --sort=size run.espalier",
                                "show run.esp\tmod\the\t": "espalier show run.espalier model/head",
                                "help st\t": "espalier help stats"}.items():
            text = in_terminal(["zsh", "-f", "-i"], self.folder, self.environment | {"PS1": "> "}, start, "ready\r\n",
                               # The line, as the shell has it, before it runs.
                               "preexec() { print -r -- \"ran: $1\" }\nespalier " + typed + "; exit\n", "ran: espalier")
            self.assertIn("ran: " + expected, " ".join(text.split()))


@needs("fish")
class Fish(Shell):
    def complete(self, line):
        out = self.shell("fish", "--no-config", "-c", "source script; complete -C $argv[1]", line)
        return {candidate.split("\t")[0] for candidate in out.splitlines()}

    def test_completions(self):
        self.shell("fish", "--no-config", "--no-execute", self.script("fish"))
        self.expect_completions(self.complete)
        self.assertEqual(self.complete("espalier ls --sort=si"), {"--sort=size"})
        self.assertIn("run.espalier", self.complete("espalier ls run"))


def in_terminal(command, folder, environment, *steps):
    """Types into a program in a terminal, and waits for what it must show. Returns all that it shows."""
    program, ours = pty.fork()
    if program == 0:
        os.chdir(folder)
        os.execvpe(command[0], command, environment)
    shown = b""
    try:
        for typed, awaited in zip(steps[::2], steps[1::2]):
            os.write(ours, typed.encode())
            begin, deadline = len(shown), time.monotonic() + 60
            while awaited.encode() not in shown[begin:]:
                if not select.select([ours], [], [], deadline - time.monotonic())[0]:
                    raise AssertionError(f"{awaited!r} did not come: {shown!r}")
                shown += os.read(ours, 65536)
    finally:
        os.kill(program, 9)
        os.waitpid(program, 0)
        os.close(ours)
    return shown.decode("utf-8", "replace")


class Script(Cli):
    def test_every_command_and_option(self):
        """Nothing that --help shows is missing, in any shell."""
        for shell in ("bash", "zsh", "fish"):
            script = self.text("completion", shell)
            for command in COMMANDS:
                self.assertIn(command, script)
                for option in re.findall(r"(?m)^ +(?:-\w, )?--([\w-]+)", self.text("help", command)):
                    self.assertRegex(script, rf"(--|-l ){option}\b")
        self.run_cli("completion", "tcsh", expect=2)

    def test_hostile_keys(self):
        """A shell that inserts a key as it is must find nothing but a word."""
        names = ["$(touch PWN)", "`id`", "a b", "a;b", "-rf", "a'b", 'a"b', "a\nb", "a|b", "a&b", "a*", "é", "a\\b", "ok", "!p"]
        header = json.dumps({name: {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]} for name in names}).encode()
        with open(self.new("keys.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header)
        self.assertEqual(len(self.json("ls", self.new("keys.safetensors"))["nodes"]), len(names))
        self.assertEqual(self.text("complete-path", self.new("keys.safetensors"), ""), "ok\n")
        self.assertEqual(self.text("complete-path", self.path("sample"), "ev"), "")
        self.assertEqual(self.text("complete-path", self.path("sample"), "frob/x"), "")
        self.assertEqual(self.text("complete-path", self.new("none"), ""), "")


class Page(unittest.TestCase):
    def test_every_command_has_a_section(self):
        """A row is a link, which the test `layout` follows."""
        linked = re.findall(r"(?m)^\| \[`([\w-]+)`\]\(#\1\) \|", PAGE.read_text(encoding="utf-8"))
        self.assertEqual(set(COMMANDS) - set(linked), {"help"})


class ManualPages(Cli):
    @needs("groff")
    def test_pages(self):
        self.assertEqual(tuple(self.text("man", "--list").split()), COMMANDS)
        for command in ("", *COMMANDS):
            page = self.text("man", *filter(None, [command]))
            done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-P-cbou"], input=page, capture_output=True,
                                  encoding="utf-8", timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, ""), command)
            words = " ".join(re.sub("\u2010\n *", "", done.stdout).split())
            for option in re.findall(r"(?m)^ +(?:-\w, )?(--[\w-]+)", self.text("help", *filter(None, [command]))):
                self.assertIn(option, words)
            self.assertIn("EXIT STATUS", words)
            self.assertRegex(words, rf"NAME espalier{'-' + command if command else ''} - [A-Z]")


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
    import report
    sys.exit(report.main())
