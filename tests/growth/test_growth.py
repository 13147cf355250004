"""Counts the instructions that commands take for n and for 10 n of something: tensors, names of equal prefix, levels, files,
chunks, rules. For ten times as much a command may take eleven times as many: room for a logarithm, and none for a square.
Valgrind counts them, because times depend on the machine.

Usage: ESPALIER=path/to/espalier python3 test_growth.py
"""

import json
import os
import pathlib
import random
import re
import struct
import subprocess
import tempfile
import unittest

ESPALIER = os.environ["ESPALIER"]
# What ten times as much may take.
MOST = 11


def safetensors(path, names, elements=4, seed=1):
    """A file of tensors of f32, like those of the reference library: sorted by name."""
    size = 4 * elements
    header = {name: {"dtype": "F32", "shape": [elements], "data_offsets": [i * size, (i + 1) * size]}
              for i, name in enumerate(sorted(names))}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    values = random.Random(seed)
    data = struct.pack(f"<{elements}f", *(values.gauss(0, 1) for _ in range(elements)))
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data[i % size:] + data[:i % size] for i in range(len(header))))
    return path


def run(*command, expect=(0,)):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode not in expect:
        raise AssertionError(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done


class Growth(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)

    def count(self, command):
        """Instructions of a command. A difference (1) is no failure."""
        done = run("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", ESPALIER, *command,
                   expect=(0, 1))
        return int(re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)[1].replace(",", ""))

    def check(self, n, make, commands):
        """`make` puts what `commands` work on into a folder, for a number; {} in a command is that folder."""
        sizes = (1, n, 10 * n)
        folders = []
        for size in sizes:
            folders.append(self.root / str(size))
            folders[-1].mkdir()
            make(folders[-1], size)
        for command in commands:
            with self.subTest(command):
                # Less what the program takes in any case.
                one, some, many = (self.count([part.replace("{}", str(folder)) for part in command.split()])
                                   for folder in folders)
                each, of_more = (some - one) / (n - 1), (many - one) / (10 * n - 1)
                print(f"{10 * of_more / each:6.2f} times for 10 times as much, {of_more:9,.0f} instructions each: {command}")
                self.assertLess(10 * of_more / each, MOST)

    def test_tensors(self):
        def make(folder, n):
            names = [f"model.layers.{i // 10:06}.block.{i % 10}.weight" for i in range(n)]
            old, new = safetensors(folder / "old.safetensors", names), safetensors(folder / "new.safetensors", names, seed=2)
            run(ESPALIER, "convert", old, "-o", folder / "old.espalier", "-q", "--no-sync")
            run(ESPALIER, "delta", folder / "old.espalier", new, "-o", folder / "new.espalier", "-q", "--no-sync", "--most", "100")
            run(ESPALIER, "convert", new, "-o", folder / "whole.espalier", "-q", "--no-sync")
            (folder / "map.json").write_text(json.dumps({"espalier_map": 1, "name": "wrap", "rules": ["{p...} <-> module.{p...}"]}))

        out = "-o {}/out.espalier -f -q --no-sync --threads 1"
        self.check(300, make, [
            "ls {}/old.espalier", "tree {}/old.espalier", "stats {}/old.espalier --threads 1",
            "doctor {}/old.espalier --threads 1", "verify {}/old.espalier --threads 1", "log {}/new.espalier",
            "needs {}/new.espalier", "diff {}/old.espalier {}/whole.espalier", "diff {}/old.safetensors {}/whole.espalier",
            "diff --stat {}/old.espalier {}/whole.espalier --threads 1",
            f"extract {{}}/old.espalier *.0.weight {out}", f"convert {{}}/old.safetensors {out}",
            f"convert {{}}/old.safetensors --nest {out}", f"convert {{}}/old.espalier --compress {out}",
            "convert {}/old.espalier -o {}/out.safetensors -f -q --no-sync --threads 1",
            f"delta {{}}/old.espalier {{}}/new.safetensors --most 100 {out}", f"flatten {{}}/new.espalier {{}}/out.espalier -f -q --no-sync",
            "merge {}/old.safetensors {}/whole.espalier -o {}/out.espalier -f -q --no-sync --threads 1",
            f"map {{}}/old.safetensors --map {{}}/map.json {out}",
            "index {}/old.safetensors -o {}/out.espalier -f -q --no-sync",
        ])

    def test_names_of_equal_prefix(self):
        def make(folder, n):
            for name, seed in (("old", 1), ("new", 2)):
                safetensors(folder / f"{name}.safetensors", [f"{'long' * 100}{i:06}" for i in range(n)], seed=seed)

        self.check(300, make, ["ls {}/old.safetensors", "diff {}/old.safetensors {}/new.safetensors",
                               "convert {}/old.safetensors -o {}/out.espalier -f -q --no-sync --threads 1"])

    def test_levels(self):
        def make(folder, n):
            safetensors(folder / "a.safetensors", [f"{i:02}." + "d." * n + "w" for i in range(20)])

        self.check(5, make, ["ls --nest {}/a.safetensors", "tree --nest {}/a.safetensors",
                             "convert --nest {}/a.safetensors -o {}/out.espalier -f -q --no-sync --threads 1"])

    def test_files(self):
        def make(folder, n):
            of_name = {}
            for i in range(n):
                file = f"model-{i + 1:05}-of-{n:05}.safetensors"
                safetensors(folder / file, [f"layer.{i}.w"])
                of_name[f"layer.{i}.w"] = file
            (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": of_name}))

        self.check(80, make, ["ls {}/model.safetensors.index.json", "verify {}/model.safetensors.index.json --threads 1",
                              "convert {}/model.safetensors.index.json -o {}/out.espalier -f -q --no-sync --threads 1"])

    def test_chunks(self):
        def make(folder, n):
            safetensors(folder / "a.safetensors", ["w"], n << 18)
            run(ESPALIER, "convert", folder / "a.safetensors", "-o", folder / "a.espalier", "-q", "--no-sync")

        self.check(4, make, ["verify {}/a.espalier --threads 1", "stats {}/a.espalier --threads 1",
                             "convert {}/a.safetensors -o {}/out.espalier -f -q --no-sync --threads 1"])

    def test_rules(self):
        def make(folder, n):
            safetensors(folder / "a.safetensors", [f"a{i}.w" for i in range(n)])
            rules = [f"a{i}.w <-> b{i}.v" for i in range(n)]
            (folder / "map.json").write_text(json.dumps({"espalier_map": 1, "name": "many", "rules": rules}))

        self.check(50, make, ["map {}/a.safetensors --map {}/map.json -o {}/out.espalier -f -q --no-sync --threads 1"])


if __name__ == "__main__":
    unittest.main()
