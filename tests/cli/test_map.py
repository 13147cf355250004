"""Runs `espalier map`, and other commands through a key map.

Usage: ESPALIER=path/to/espalier MAKE_SAMPLE=path/to/make_sample python3 test_map.py
"""

import json
import math
import os
import pathlib
import resource
import shlex
import struct
import sys

from test_cli import BAD_INPUT, CHECK_FAILED, EQUAL_BY_HASHES, IO, OK, USAGE
from test_write import Writing, safetensors


def f32(*values):
    return struct.pack(f"<{len(values)}f", *values)


def flat(values):
    return [each for value in values for each in flat(value)] if isinstance(values, list) else [values]


def counting(count, first=0):
    return f32(*range(first, first + count))


# Rotary pairs, fused rows, a transpose, layers that are stacked, and a rename.
RULES = """{
  // Comments and trailing commas are allowed.
  "espalier_map": 1, "name": "example", "left": "a", "right": {"label": "b", "tree": "flat"},
  "sizes": {"p": "head_dim / 2"},
  "rules": [
    "l.{i}.q [(h 2 p) n], l.{i}.k [(h 2 p) n] <-> qk.{i} [(h p 2)+(h p 2) n]",
    "l.{i}.o [o n] <-> out [i n o]",
    "norm <-> final_norm",
    "l.{i}.inv_freq -> drop",
  ],
}"""


class Map(Writing):
    def setUp(self):
        super().setUp()
        self.map = self.write("example.json", RULES.encode())
        self.input = self.write("in.safetensors", safetensors(
            [(f"l.{i}.{name}", "F32", [4, 2], counting(8, 100 * i + 10 * k)) for i in range(2) for k, name in enumerate("qk")]
            + [(f"l.{i}.o", "F32", [2, 3], counting(6, 1000 + 100 * i)) for i in range(2)]
            + [("norm", "F32", [2], f32(1, 2))], {"by": "me"}))

    def values(self, name, path):
        return flat(self.json("show", self.new(name), path)["node"]["values"])

    def errors(self, *args, expect=USAGE):
        self.run_cli(*args, expect=expect)
        return self.stderr

    def run_map(self, *args, out="out.espalier"):
        return self.text("map", *args, self.new(out), "--map", self.map)

    def map_errors(self, *args, out="none.espalier", expect=USAGE):
        return self.errors("map", *args, self.new(out), "--map", self.map, expect=expect)

    def test_both_ways(self):
        text = self.run_map(self.input, "--set", "p=2")
        self.assertEqual(text.splitlines()[1], "4 targets: 1 renamed, 3 gathered, 0 computed; 0 sources dropped")
        # Rows 0 2 1 3 of each: pairs of halves become pairs of neighbours.
        self.assertEqual(self.values("out.espalier", "qk.1"),
                         [100, 101, 104, 105, 102, 103, 106, 107, 110, 111, 114, 115, 112, 113, 116, 117])
        self.assertEqual(self.values("out.espalier", "out"),
                         [1000, 1003, 1001, 1004, 1002, 1005, 1100, 1103, 1101, 1104, 1102, 1105])
        self.assertIn(": ok ", self.text("verify", self.new("out.espalier")))
        said = {node["path"]: node["value"] for node in
                self.json("tree", self.new("out.espalier"), "--metadata")["tree"]["children"]}
        self.assertEqual(said["by"], "me")
        note = json.loads(said["espalier.map"])
        self.assertEqual((note["name"], note["reverse"], note["sizes"]), ("example", False, {"p": 2}))
        self.run_map(self.new("out.espalier"), "--set", "p=2", "--map-reverse", out="back.espalier")
        self.assertEqual(self.text("diff", self.input, self.new("back.espalier"), "--no-metadata"), "equal\n")

    def test_sizes_from_a_configuration(self):
        config = self.write("config.json", b'{"head_dim": 4, "text": {"head_dim": 8}}')
        self.run_map(self.input, "--config", config)
        self.assertEqual(self.values("out.espalier", "qk.0")[:4], [0, 1, 4, 5])
        self.assertIn("code map_undetermined", self.map_errors(self.input))

    def test_other_commands_read_through_a_map(self):
        self.run_map(self.input, "--set", "p=2")
        mapped, sizes = self.new("out.espalier"), ("--map", self.map, "--set", "p=2")
        self.assertEqual(self.text("diff", self.input, mapped, *sizes, "--no-metadata"), "equal\n")
        # From right to left, without being told.
        self.assertEqual(self.text("diff", mapped, self.input, *sizes, "--no-metadata"), "equal\n")
        self.assertIn("; from right to left the map fits: --map-reverse", self.errors("map", mapped, self.new("no.espalier"), *sizes))
        # The note of a map is no difference, and neither are dots in place of nested dicts.
        self.assertEqual(self.text("diff", mapped, self.input, *sizes), "equal\n")
        self.text("convert", mapped, self.new("nested.espalier"), "--nest")
        self.assertEqual(self.text("diff", self.input, self.new("nested.espalier"), *sizes), "equal\n")
        self.assertEqual(self.text("diff", self.new("nested.espalier"), self.input, *sizes), "equal\n")
        other = self.write("other.safetensors", self.read("in.safetensors").replace(f32(1, 2), f32(1, 3)))
        self.assertIn("final_norm", self.text("diff", other, mapped, *sizes, "--no-metadata", expect=CHECK_FAILED))
        names = [node["path"] for node in self.json("ls", self.input, *sizes)["nodes"]]
        self.assertEqual(sorted(names), ["final_norm", "out", "qk.0", "qk.1"])
        self.assertEqual(self.json("show", self.input, "final_norm", *sizes)["node"]["values"], [1, 2])
        self.assertIn("final_norm", self.text("stats", self.input, *sizes))
        self.assertIn("final_norm", self.text("tree", self.input, *sizes))

    def test_one_map_after_the_other(self):
        wrap = self.write("wrap.json", b'{"espalier_map": 1, "name": "wrap", "rules": ["{p...} <-> module.{p...}"]}')
        self.text("map", self.input, self.new("wrapped.espalier"), "--map", wrap)
        maps = ("--map", "unwrap", "--map", self.map, "--set", "p=2")
        self.run_map(self.input, "--set", "p=2")
        self.text("map", self.new("wrapped.espalier"), self.new("both.espalier"), *maps, "--ledger", self.new("ledger.jsonl"))
        self.assertEqual(self.text("diff", self.new("both.espalier"), self.new("out.espalier"), "--no-metadata"), EQUAL_BY_HASHES)
        self.assertEqual(self.text("diff", self.new("wrapped.espalier"), self.new("out.espalier"), *maps, "--no-metadata"), "equal\n")
        lines = [json.loads(line) for line in self.read("ledger.jsonl").decode().splitlines()]
        self.assertEqual([line["map"] for line in lines if "map" in line], ["unwrap", "example"])
        # From right to left, the last one comes first.
        maps = ("--map", self.map, "--map", wrap, "--set", "p=2")
        self.text("map", self.input, self.new("there.espalier"), *maps)
        self.text("map", self.new("there.espalier"), self.new("back.espalier"), *maps, "--map-reverse")
        self.assertEqual(self.text("diff", self.input, self.new("back.espalier"), "--no-metadata"), "equal\n")
        self.assertIn(f"--map {self.map}: ", self.errors("map", self.new("there.espalier"), self.new("no.espalier"), *maps))

    def test_plan_and_explanation_write_nothing(self):
        text = self.text("map", self.input, self.new("no.espalier"), "--map", self.map, "--set", "p=2", "--plan")
        self.assertEqual(text.splitlines()[0], "example: a -> b; exact; invertible")
        self.assertIn("rule 1  4  -> 2  strided", text)
        self.assertFalse(os.path.exists(self.new("no.espalier")))
        plan = self.json("map", self.input, "--map", self.map, "--set", "p=2", "--plan")
        self.assertEqual((plan["totals"]["sources"], plan["totals"]["targets"], plan["exact"]), (7, 4, True))
        text = self.text("map", self.input, "--map", self.map, "--set", "p=2", "--explain", "qk.1")
        self.assertIn("rule 1: strided", text)
        self.assertIn("from l.1.k f32 [4, 2]", text)
        self.assertIn("code not_found", self.errors("map", self.input, "--map", self.map, "--set", "p=2", "--explain", "nix"))

    def test_a_plan_takes_names_as_a_run_does(self):
        pair = self.write("pair.json", b'{"espalier_map": 1, "rules": ["a <-> A"], "rest": "keep"}')
        a, b = (self.write(f"{name}.safetensors", safetensors([(name, "F32", [1], f32(1))])) for name in "ab")
        for last in (b, self.new("typo.safetensors")):
            line = ("map", a, last, "--map", pair, "--to", "safetensors", "--force")
            for more in (("--plan",), ("--explain", "A")):
                self.assertIn(f"\n{last} is OUT, and was not read; with -o OUT, all names are inputs\n", self.text(*line, *more))
                self.assertEqual(self.json(*line, *more)["output"], last)
            plan = self.json(*line, "--plan")
            self.run_cli(*line[:2], self.new("run.safetensors"), *line[3:])
            self.assertEqual((plan["totals"]["sources"], len(self.json("ls", self.new("run.safetensors"))["nodes"])), (1, 1))
            # A rule that lacks its tensor says it, too.
            self.assertIn(f"; {last} was taken for OUT and not read", self.errors(*line, "--explain", "A", "--map-reverse"))
        both = ("map", a, b, "-o", self.new("typo.safetensors"), "--map", pair)
        self.assertEqual(self.json(*both, "--plan")["totals"]["sources"], 2)
        self.assertNotIn("OUT", self.text(*both, "--plan"))
        self.assertIn("code file_not_found", self.errors("map", a, self.new("typo.safetensors"), *both[3:], "--plan", expect=IO))
        # With --in, one name is OUT, and without it an input.
        self.assertEqual(self.json("map", a, "--map", pair, "--plan")["totals"]["sources"], 1)
        labelled = self.write("labelled.json", b'{"espalier_map": 1, "rules": ["x::a <-> A"]}')
        self.assertEqual(self.json("map", b, "--in", f"x={a}", "--map", labelled, "--plan")["output"], b)

    def test_ledger(self):
        ledger = self.new("ledger.jsonl")
        self.run_map(self.input, "--set", "p=2", "--ledger", ledger)
        lines = [json.loads(line) for line in self.read("ledger.jsonl").decode().splitlines()]
        self.assertEqual({line["target"]: line["rule"] for line in lines[:-1]}, {"qk.0": 1, "qk.1": 1, "out": 2, "final_norm": 3})
        self.assertEqual([source["name"] for source in lines[0]["sources"]], ["l.0.q", "l.0.k"])
        self.assertEqual(lines[-1]["totals"]["bytes"], 4 * (32 + 12 + 2))
        # A file that is there is not lost to a wrong name, and neither is the one that is made.
        self.map_errors(self.input, "--set", "p=2", "--ledger", self.input)
        self.map_errors(self.input, "--set", "p=2", "--force", "--ledger", self.input)
        self.assertIn("a name of its own", self.map_errors(self.input, "--set", "p=2", "--ledger", self.new("none.espalier")))
        self.assertTrue(self.read("in.safetensors"))

    def test_a_ledger_replaces_nothing_that_is_read_or_written(self):
        labels = self.write("labels.json", b'{"espalier_map": 1, "rules": ["a <-> x::a", "b <-> y::b"]}')
        both = self.write("both.safetensors", safetensors([("a", "F32", [1], f32(1)), ("b", "F32", [1], f32(2))]))
        os.mkdir(self.new("dir"))
        into = ("map", both, "-o", self.new("dir"), "--map", labels)
        self.assertIn("a name of its own", self.errors(*into, "--ledger", self.new("dir/x.espalier")))
        self.assertEqual(os.listdir(self.new("dir")), [])
        # A link to the file that is made leads nowhere yet; and two results may lead to one file.
        os.symlink("none.espalier", self.new("link"))
        self.assertIn("a name of its own", self.map_errors(self.input, "--set", "p=2", "--force", "--ledger", self.new("link")))
        os.symlink("y.espalier", self.new("dir/x.espalier"))
        self.assertIn("two labels would make this file", self.errors(*into, "--force"))
        self.assertFalse(os.path.exists(self.new("none.espalier")))
        self.assertEqual(os.listdir(self.new("dir")), ["x.espalier"])

    def test_what_is_read_beside_checkpoints_is_not_replaced(self):
        self.run_map(self.input, "--set", "p=2", out="like.espalier")
        texts = {"--map": self.map, "--config": self.write("config.json", b'{"head_dim": 4}'),
                 "--param-order": self.write("order.txt", b"norm\n"), "--like": self.new("like.espalier")}
        options = [each for option in texts.items() for each in option] + ["--to", "espalier", "--force"]
        for option, file in texts.items():
            before = pathlib.Path(file).read_bytes()
            for results in (("-o", file), ("-o", self.new("none.espalier"), "--ledger", file)):
                self.assertIn(f"{file}: this file is read as {option}, ", self.errors("map", self.input, *options, *results))
            self.assertEqual(pathlib.Path(file).read_bytes(), before)
        self.assertFalse(os.path.exists(self.new("none.espalier")))

    def test_a_ledger_is_replaced_whole_or_not_at_all(self):
        ledger = self.write("ledger.jsonl", b"old")
        rename = self.write("rename.json", b'{"espalier_map": 1, "rules": ["t{i} <-> u{i}"]}')
        tensors = self.write("tensors.safetensors", safetensors([(f"t{i}", "U8", [1], b"x") for i in range(10)]))
        small = ("map", tensors, self.new("small.safetensors"), "--map", rename, "--no-metadata")
        self.run_cli(*small, "--force", "--ledger", ledger, expect=IO,
                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024)))
        self.assertEqual(self.read("ledger.jsonl"), b"old")
        self.assertTrue(self.stderr.startswith(f"espalier: {ledger}: "), self.stderr)
        # A folder that is missing is noticed first.
        os.remove(self.new("small.safetensors"))
        self.assertIn("code file_not_found", self.errors(*small, "--ledger", self.new("none/ledger.jsonl"), expect=IO))
        self.assertEqual([name for name in self.files() if name.startswith(("small", ".espalier-"))], [])

    def test_texts_come_from_regular_files(self):
        fifo = self.new("fifo.json")
        os.mkfifo(fifo)
        for option in ("--map", "--config", "--param-order"):
            for file in (fifo, "/dev/zero", self.folder + "/"):
                errors = self.errors("map", self.input, "--plan", "--map", self.map, "--set", "p=2", option, file, expect=BAD_INPUT)
                self.assertIn(f"{file}: this is not a regular file; ", errors)
            errors = self.errors("map", self.input, "--plan", "--map", self.map, "--set", "p=2", option, self.new("no.json"), expect=IO)
            self.assertIn("code file_not_found", errors)

    def test_several_optimizers(self):
        """As docs/key-maps.md says: each numbers its parameters from 0 on, in an order of its own."""
        networks = {"g": ("generator", ("b", "a"), 0), "d": ("discriminator", ("a", "b"), 100)}
        tensors = []
        for letter, (network, order, first) in networks.items():
            tensors += [(f"{network}.a", "F32", [2, 3], counting(6, first)), (f"{network}.b", "F32", [3], counting(3, first + 10))]
            tensors += [(f"optim_{letter}.state.{number}.exp_avg", "F32", [2, 3] if name == "a" else [3],
                         counting(6 if name == "a" else 3, first + (20 if name == "a" else 30))) for number, name in enumerate(order)]
            self.write(f"{letter}.txt", "\n".join(order).encode())
        self.write("gan.safetensors", safetensors(tensors))
        self.write("net.json", b'{"espalier_map": 1, "rules": ["a [o i] <-> kernel [i o]", "b <-> scale"]}')
        page = (pathlib.Path(__file__).resolve().parents[2] / "docs/key-maps.md").read_text(encoding="utf-8")
        commands = page[page.index("**Several optimizers**"):].split("```")[1].strip().splitlines()
        self.assertEqual(len(commands), 5)
        for command in commands:
            words = shlex.split(command.removeprefix("$ espalier "))
            self.run_cli(*words, cwd=self.folder)
        made = {node["path"]: node["shape"] for node in self.json("ls", self.new("gan2.safetensors"))["nodes"]}
        for letter, (network, _, first) in networks.items():
            at = {"kernel": [3, 2], "scale": [3]}
            self.assertEqual({made[f"{network}.{name}"] == shape for name, shape in at.items()}, {True})
            # Numbers follow the order in which the map makes the parameters.
            moved = [first + 20 + i for i in (0, 3, 1, 4, 2, 5)]
            self.assertEqual(self.values("gan2.safetensors", f"{network}.kernel"), [first + i for i in (0, 3, 1, 4, 2, 5)])
            self.assertEqual(self.values("gan2.safetensors", f"optim_{letter}.state.0.exp_avg"), moved)
            self.assertEqual(self.values("gan2.safetensors", f"optim_{letter}.state.1.exp_avg"), [first + 30 + i for i in range(3)])
        self.assertEqual(len(made), 8)

    def test_errors_say_where_names_are(self):
        file = self.write("ac.safetensors", safetensors([(name, "F32", [2], f32(1, 2)) for name in ("a", "c")]))

        def said(*args, rules, rest="error"):
            name = self.write("said.json", json.dumps({"espalier_map": 1, "rules": rules, "rest": rest}).encode())
            return self.errors("map", *args, self.new("none.espalier"), "--map", name)

        end = "; drop one of them with a rule, or give it another name (code name_collision)\n"
        self.assertEqual(said(file, rules=["a -> d", "c -> d"]), f"espalier: {file}: 'a' (rule 1) and 'c' (rule 2) both make 'd'{end}")
        self.assertEqual(said(file, rules=["a -> c"], rest="keep"), f"espalier: {file}: 'a' (rule 1) and 'c' (no rule) both make 'c'{end}")
        # Which side of the rule was looked for.
        self.assertIn(f"{file}: rule 1: no tensor fits its left side: b <-> d; ", said(file, rules=["b <-> d"]))
        self.assertIn(f"{file}: rule 1: no tensor fits its right side: b <-> d; ", said(file, "--map-reverse", rules=["b <-> d"]))
        self.assertIn("two tensors are called 'q::a'; give inputs different labels",
                      said("--in", f"q={file}", "--in", f"q={file}", rules=["q::a -> d"]))

    def test_errors_name_rules_and_tensors(self):
        lacks = self.write("lacks.safetensors", safetensors(
            [("l.0.q", "F32", [4, 2], counting(8)), ("norm", "F32", [2], f32(1, 2))]))
        errors = self.map_errors(lacks, "--set", "p=2")
        self.assertIn("rule 1: found l.0.q but not l.0.k", errors.replace("'", ""))
        self.assertIn("code map_incomplete", errors)
        bad = self.write("bad.json", b'{"espalier_map": 1, "rules": ["a [n] <-> b [m]"]}')
        self.assertIn("code map_invalid", self.errors("map", self.input, self.new("x.espalier"), "--map", bad))
        self.assertIn("--list", self.errors("map", self.input, self.new("x.espalier"), "--map", "nix"))
        self.assertIn("--map", self.errors("map", self.input, self.new("x.espalier")))
        self.assertFalse(os.path.exists(self.new("x.espalier")))

    def test_damage_is_found_and_the_old_file_stays(self):
        self.run_map(self.input, "--set", "p=2")
        content = bytearray(self.read("out.espalier"))
        at = content.index(f32(100, 101))
        content[at] ^= 1
        damaged = self.write("damaged.espalier", bytes(content))
        target = self.write("target.espalier", b"old")
        self.assertIn("code chunk_corrupt", self.map_errors(damaged, "--set", "p=2", "--map-reverse", "--force",
                                                            out="target.espalier", expect=BAD_INPUT))
        self.assertEqual(self.read("target.espalier"), b"old")

    def test_template(self):
        self.run_map(self.input, "--set", "p=2", out="like.espalier")
        self.run_map(self.input, "--set", "p=2", "--like", self.new("like.espalier"))
        self.assertEqual(self.text("diff", self.new("like.espalier"), self.new("out.espalier")), EQUAL_BY_HASHES)
        other = self.write("other.safetensors", safetensors([("final_norm", "F32", [3], f32(1, 2, 3))]))
        errors = self.map_errors(self.input, "--set", "p=2", "--like", other)
        self.assertIn("code map_template", errors)

    def test_ties_are_compared(self):
        tie = self.write("tie.json", b'{"espalier_map": 1, "rules": ["a = b <-> c"]}')
        same = self.write("same.safetensors", safetensors([(n, "F32", [2], f32(1, 2)) for n in "ab"]))
        self.text("map", same, self.new("c.espalier"), "--map", tie)
        self.assertEqual(self.values("c.espalier", "c"), [1, 2])
        differ = self.write("differ.safetensors", safetensors([("a", "F32", [2], f32(1, 2)), ("b", "F32", [2], f32(1, 3))]))
        errors = self.errors("map", differ, self.new("d.espalier"), "--map", tie, expect=BAD_INPUT)
        self.assertIn("differ from element 1 on", errors)
        self.assertFalse(os.path.exists(self.new("d.espalier")))

    def test_embeddings_that_are_padded_differently_are_noted(self):
        trim = self.write("trim.json", b'{"espalier_map": 1, "sizes": {"v": 3}, "rules": '
                          b'["{w:in|out} [v+p n] <-> {w:a|b} [v n], pad [p n]", "? pos [v+p n] <-> c [v n], pad [p n]"]}')
        name = self.new("embeddings.safetensors")

        def plan(*rows, names=("in", "out"), columns=2):
            self.write("embeddings.safetensors", safetensors(
                [(each, "F32", [count, columns + k], counting(count * (columns + k))) for k, (each, count) in enumerate(zip(names, rows))]))
            return self.text("map", name, "--plan", "--map", trim)

        said = "note: 'out' [3 3] has a padding p of 0, and 'in' [5 2] one of 2; if they are padded alike, one of them was trimmed before, or has lost rows\n"
        self.assertIn(said, plan(5, 3))
        self.assertIn("note: 'out' [5 3] has a padding p of 2, and 'in' [3 2] one of 0", plan(3, 5))
        self.assertIn("note: 'pos' [4 4] has a padding p of 1, and 'in' [5 2] one of 2", plan(5, 5, 4, names=("in", "out", "pos")))
        for rows in ((5, 5), (3, 3)):
            self.assertNotIn("note", plan(*rows))
        # Below --at, too, and once.
        below = self.write("below.safetensors", safetensors(
            [(f"m.{each}", "F32", [count, 2], counting(2 * count)) for each, count in (("in", 5), ("out", 3))]
            + [(f"o.{each}.exp_avg", "F32", [count, 2], counting(2 * count)) for each, count in (("in", 5), ("out", 3))]))
        notes = self.json("map", below, "--plan", "--map", trim, "--at", "m", "--along", "o.{param}.{slot}")["notes"]
        self.assertEqual(len(notes), 1)

    def test_labels_are_files(self):
        shards = self.write("shards.json", b'{"espalier_map": 1, "rules": ["rank{r}::w [m n] <-> w [m (r n)]"]}')
        ranks = [self.write(f"r{i}.safetensors", safetensors([("w", "F32", [2, 2], counting(4, 10 * i))])) for i in range(2)]
        self.text("map", "-o", self.new("whole.espalier"), "--map", shards, "--in", f"rank0={ranks[0]}", "--in", f"rank1={ranks[1]}")
        self.assertEqual(self.values("whole.espalier", "w"), [0, 1, 10, 11, 2, 3, 12, 13])
        os.mkdir(self.new("folder"))
        self.text("map", self.new("whole.espalier"), "-o", self.new("folder"), "--map", shards, "--map-reverse", "--set", "r=2",
                  "--to", "safetensors", "--no-metadata")
        for i in range(2):
            self.assertEqual(self.text("diff", ranks[i], self.new(f"folder/rank{i}.safetensors")), "equal\n")

    def test_labels_do_not_make_one_file_twice(self):
        labels = self.write("labels.json", b'{"espalier_map": 1, "rules": ["a <-> model::a", "b <-> b"]}')
        both = self.write("both.safetensors", safetensors([("a", "F32", [1], f32(1)), ("b", "F32", [1], f32(2))]))
        os.mkdir(self.new("folder"))
        self.assertIn("two labels", self.errors("map", both, "-o", self.new("folder"), "--map", labels))
        self.assertEqual(os.listdir(self.new("folder")), [])

    def test_state_follows_its_parameter(self):
        state = self.write("state.safetensors", safetensors(
            [(f"model.{p}", "F32", [2, 2], counting(4, at)) for at, p in ((0, "a"), (10, "b"))]
            + [(f"opt.{p}.{slot}", "F32", [2, 2], counting(4, at)) for at, p, slot in
               ((20, "a", "exp_avg"), (30, "b", "exp_avg"), (40, "a", "exp_avg_sq"), (50, "b", "exp_avg_sq"))]
            + [(f"opt.{p}.step", "F32", [], f32(7)) for p in "ab"] + [("rng", "F32", [1], f32(9))]))
        join = self.write("join.json", b'{"espalier_map": 1, "rules": ["a [o n], b [o n] <-> ab [n o+o]"]}')
        options = ("--map", join, "--at", "model", "--along", "opt.{param}.{slot}")
        self.text("map", state, self.new("ab.espalier"), *options)
        self.assertEqual(self.values("ab.espalier", "model.ab"), [0, 2, 10, 12, 1, 3, 11, 13])
        self.assertEqual(self.values("ab.espalier", "opt.ab.exp_avg_sq"), [40, 42, 50, 52, 41, 43, 51, 53])
        self.assertEqual((self.values("ab.espalier", "opt.ab.step"), self.values("ab.espalier", "rng")), ([7], [9]))
        self.text("map", self.new("ab.espalier"), self.new("again.espalier"), "--map-reverse", "--no-metadata", *options)
        self.assertEqual(self.text("diff", state, self.new("again.espalier"), "--no-metadata"), "equal\n")
        differ = self.write("steps.safetensors", self.read("state.safetensors").replace(f32(7, 7), f32(7, 8)))
        self.assertIn("code map_data", self.errors("map", differ, self.new("no.espalier"), *options, expect=BAD_INPUT))
        scale = self.write("scale.json", b'{"espalier_map": 1, "rules": ["a * 2 <-> A", "b <-> B"]}')
        scaled = ("--map", scale, "--at", "model", "--along", "opt.{param}.{slot}")
        self.assertIn("--along-scaled", self.errors("map", state, self.new("no.espalier"), *scaled))
        self.text("map", state, self.new("scaled.espalier"), *scaled, "--along-scaled")
        self.assertEqual(self.values("scaled.espalier", "model.A"), [0, 2, 4, 6])
        self.assertEqual(self.values("scaled.espalier", "opt.A.exp_avg"), [10, 10.5, 11, 11.5])
        self.assertEqual(self.values("scaled.espalier", "opt.A.exp_avg_sq"), [10, 10.25, 10.5, 10.75])

    def test_state_of_another_shape_than_its_parameter(self):
        turn = self.write("turn.json", b'{"espalier_map": 1, "sizes": {"h": 2}, "rules": '
                          b'["w [(h 2 p) n] <-> w [(h p 2) n]", "v [n] <-> u [n]", "? x -> drop"]}')
        options = ("--map", turn, "--at", "m", "--along", "o.{param}.{slot}")

        def state(*tensors, parameters=(("m.w", [8, 2]), ("m.v", [4]))):
            return self.write("state.safetensors", safetensors(
                [(name, "F32", shape, counting(math.prod(shape))) for name, shape in (*parameters, *tensors)]))

        def refused(*tensors, **more):
            return self.errors("map", state(*tensors, **more), self.new("no.espalier"), *options)

        # The rule would find other sizes for it, and move other elements.
        moved = "'o.w.exp_avg' is [4 2] and lies along 'w' of [8 2]: state of another shape can be renamed, and the map does more"
        self.assertIn(moved, refused(("o.w.exp_avg", [4, 2])))
        self.assertIn("code map_not_invertible", self.stderr)
        # Of state without parameters, that of another slot tells the shape.
        self.assertIn("'o.w.exp_avg_sq' is [4 2] and lies along 'w' of [8 2]",
                      refused(("o.w.exp_avg", [8, 2]), ("o.w.exp_avg_sq", [4, 2]), parameters=()))
        # Adafactor's, of rows and columns, and what is no slot.
        for slot, shape in (("row_var", [8, 1]), ("col_var", [2]), ("own", []), ("own", [4, 2])):
            self.assertIn(f"'o.w.{slot}' is [{' '.join(map(str, shape))}] and lies along 'w'", refused((f"o.w.{slot}", shape)))
        # What is one number for each parameter, and is not.
        self.assertIn("'o.w.step' is [8 2], and 'step' is one number for each parameter", refused(("o.w.step", [8, 2])))
        # State of no parameter has no shape to follow.
        self.assertIn("'o.z.exp_avg' lies along 'z', and there is no such parameter", refused(("o.z.exp_avg", [8, 2])))
        # Of a parameter that is renamed, and of one that is dropped, it may have any shape.
        parameters = (("m.w", [8, 2]), ("m.v", [4]), ("m.x", [3]))
        made = state(("o.v.exp_avg", [2, 2]), ("o.v.row_var", [1]), ("o.v.step", [3]), ("o.x.exp_avg", [7]), ("o.w.exp_avg", [8, 2]),
                     ("o.w.step", [1]), parameters=parameters)
        self.text("map", made, self.new("made.espalier"), *options)
        shapes = {node["path"]: node["shape"] for node in self.json("ls", self.new("made.espalier"))["nodes"]}
        self.assertEqual(shapes, {"m.w": [8, 2], "m.u": [4], "o.u.exp_avg": [2, 2], "o.u.row_var": [1], "o.u.step": [3],
                                  "o.w.exp_avg": [8, 2], "o.w.step": [1]})

    def test_state_that_would_stay_behind(self):
        turn = self.write("turn.json", b'{"espalier_map": 1, "rest": "keep", "rules": '
                          b'["{p...}.weight [a b] <-> {p...}.weight [b a]", "{p...}.bias <-> {p...}.bias"]}')
        parameters = [("m.a.weight", [2, 3]), ("m.a.bias", [2]), ("m.b.weight", [3, 2]), ("m.b.bias", [3]), ("m.c.d.weight", [4, 2])]

        def file(*tensors):
            return self.write("state.safetensors", safetensors(
                [(name, "F32", shape, counting(math.prod(shape))) for name, shape in (*parameters, *tensors)]))

        def refused(*tensors):
            errors = self.errors("map", file(*tensors), "--plan", "--map", turn, "--at", "m")
            self.assertIn("code map_unmatched", errors)
            return errors

        def noted(*tensors):
            text = self.text("map", file(*tensors), "--plan", "--map", turn, "--at", "m")
            notes = [line for line in text.splitlines() if line.startswith("note: ")]
            self.assertEqual(self.json("map", self.new("state.safetensors"), "--plan", "--map", turn, "--at", "m").get("notes", []),
                             [note.removeprefix("note: ") for note in notes])
            return "".join(notes)

        # The name of the parameter, as it is or with dots as other signs, and with that of --at.
        self.assertIn("with --along 'o.{param}.{slot}'", refused(("o.a.weight.exp_avg", [2, 3])))
        for name in ("o.a_weight.exp_avg", "o.exp_avg.a_weight", "o.m_c_d_weight.own", "o.c/d/weight.v", "a-weight.v"):
            shape = [4, 2] if "c" in name.split("exp_avg")[0] else [2, 3]
            said = refused((name, shape))
            self.assertIn(f"'{name}' looks like state of 'm.{'c.d' if shape[0] == 4 else 'a'}.weight'", said)
            self.assertIn("would stay as it is; --along takes it if it has the name of the parameter as it is", said)
        # A slot beside its parameter, whose name may stand before it.
        for name in ("m.a.exp_avg", "m.a.weight_exp_avg", "m.a.weight-momentum_buffer"):
            self.assertIn(f"'{name}' looks like state of 'm.a.weight'", refused((name, [2, 3])))
        # Numbers: below the slot, at the root, and with a slot that is not known.
        self.assertIn("with --along 'o.{slot}.{param#}'", refused(("o.exp_avg.0", [2, 3])))
        self.assertIn("with --along '{slot}.{param#}'", refused(("exp_avg.0", [2, 3])))
        self.assertIn("with --along 'o.{param#}.{slot}'", refused(("o.0.exp_avg", [2, 3])))
        for name, along in (("o.{}.own", "o.{param#}.{slot}"), ("o.own.{}", "o.{slot}.{param#}"), ("o.s.{}.own", "o.s.{param#}.{slot}"), ("o.p{}", "")):
            own = [(name.format(i), shape) for i, (_, shape) in enumerate(parameters)]
            self.assertIn(f"--along '{along}'" if along else "looks like state of", refused(*own))
            self.assertIn("looks like state of", refused(*own[:3]))
            # Two of five, or one more: not told.
            self.assertIn(f"'{own[0][0]}' has the shape of 'm.a.weight', which the map changes, and stays as it is", noted(*own[:2]))
            self.assertIn("(and 3 more)", noted(*own, (name.format(9), [2, 3])))
        # What may be another thing is named in a note.
        self.assertIn("'x.y' has the shape of 'm.a.weight'", noted(("x.y", [2, 3])))
        self.assertIn("'m.a.other' has the shape of 'm.a.weight'", noted(("m.a.other", [2, 3])))
        cast = self.write("cast.json", b'{"espalier_map": 1, "rest": "keep", "dtypes": {"*": "f16"}, "rules": ["{p...}.weight [a b] <-> {p...}.weight [a b]"]}')
        self.assertNotIn("note", self.text("map", file(("x.y", [2, 3]), ("o.0.own", [2, 3]), ("o.1.exp_avg", [3, 2])), "--plan", "--map", cast, "--at", "m"))
        # Another shape, that of what stays, and what is asked for.
        self.assertEqual(noted(("x.y", [6]), ("o.0.exp_avg", [5]), ("o.1.own", [2]), ("m.a.exp_avg", [2])), "")
        self.assertNotIn("note", self.text("map", file(("x.y", [2, 3])), "--plan", "--map", turn, "--at", "m", "--along", "none"))

    def test_factors_of_an_adapter_follow_their_weights(self):
        base = "base_model.model.l.0."
        names = ("--map", self.map, "--set", "p=2", "--lora", "peft <-> torchtune", "--no-metadata")
        adapter = self.write("adapter.safetensors", safetensors(
            [(f"{base}{name}.lora_A.weight", "F32", [2, 2], counting(4, 10 * k)) for k, name in enumerate("qk")]
            + [(f"{base}{name}.lora_B.weight", "F32", [4, 2], counting(8, 100 * k)) for k, name in enumerate("qk")]))
        self.assertIn("adapter_config.json", self.errors("map", adapter, self.new("no.espalier"), *names))
        config = self.write("config.json", b'{"r": 9, "lora_alpha": 3}')
        adapter_config = self.write("adapter_config.json", b'{"r": 2, "lora_alpha": 4, "alpha_pattern": {"0.k": 8}, "rank_pattern": {}}')
        # The first that has a word counts, and the pattern is before both.
        options = (*names, "--config", adapter_config, "--config", config)
        plan = self.text("map", adapter, *options, "--plan").splitlines()
        self.assertEqual(plan[-1], "adapter: rank 4, alpha 8: 1 module")
        joined = "factors of 1 module are joined from several; taken apart again, each part has the joined rank, and the product that it had"
        self.assertTrue(plan[0].endswith("; not invertible"), plan[0])
        self.assertIn(f"no inverse: {joined}", plan)
        self.assertEqual(self.text("map", adapter, self.new("made.espalier"), *options).splitlines()[1:],
                         ["2 targets: 0 renamed, 1 gathered, 1 computed; 0 sources dropped", "adapter: rank 4, alpha 8: 1 module"])
        self.assertEqual(self.values("made.espalier", "qk.0.lora_a.weight"), [0, 1, 2, 3, 10, 11, 12, 13])
        rows = [[0, 1, 0, 0], [4, 5, 0, 0], [2, 3, 0, 0], [6, 7, 0, 0]]
        # Twice those of the file, because alpha is that of q.
        rows += [[0, 0, 200, 202], [0, 0, 208, 210], [0, 0, 204, 206], [0, 0, 212, 214]]
        self.assertEqual(self.values("made.espalier", "qk.0.lora_b.weight"), flat(rows))
        made = self.json("map", adapter, *options, "--plan")
        self.assertEqual(made["not_invertible"], [joined])
        self.assertEqual(made["lora"], {"r": 4, "lora_alpha": 8.0, "use_rslora": False, "rank_pattern": {}, "alpha_pattern": {},
                                        "target_modules": ["qk.0"]})
        self.text("map", adapter, self.new("noted.espalier"), *options[:-5], *options[-4:])
        said = {node["path"]: node["value"] for node in
                self.json("tree", self.new("noted.espalier"), "--metadata")["tree"]["children"]}
        self.assertEqual(json.loads(said["espalier.map"])["lora"], {**made["lora"], "lora_alpha": 8})
        # Another map reads what the first one made, with its alpha.
        split = self.write("split.json", b'{"espalier_map": 1, "rules": ["qk.{i} [a+a n] <-> q.{i} [a n], k.{i} [a n]"]}')
        chained = self.text("map", adapter, "--map", self.map, "--map", split, *options[2:], "--plan").splitlines()
        self.assertEqual(chained[-1], "adapter: rank 4, alpha 8: 2 modules")
        self.assertIn("is no factor as 'torchtune <-> peft' says", self.errors("map", adapter, *names[:4], "--lora", "torchtune <-> peft", "--plan"))
        # Other commands read through the map, too.
        self.assertIn("[8, 4]", self.text("ls", adapter, *names[:-1], "--config", adapter_config))

    def test_adapters_of_some_layers_and_words_that_are_wrong(self):
        def adapter(name, modules, peft=False, more=()):
            tensors = []
            for k, (module, o, i) in enumerate(modules):
                a, b = ("base_model.model.{}.lora_A.weight", "base_model.model.{}.lora_B.weight") if peft else ("{}.LA", "{}.LB")
                tensors += [(a.format(module), "F32", [1, i], counting(i, 10 * k + 1)), (b.format(module), "F32", [o, 1], counting(o, 100 * k + 1))]
            return self.write(name, safetensors(tensors + list(more)))

        def rules(name, *texts, **more):
            return self.write(name, json.dumps({"espalier_map": 1, "rules": list(texts), **more}).encode())

        def config(**words):
            return self.write("words.json", json.dumps(words).encode())

        names = ("--lora", "{module}.L{A|B}")
        out = self.new("some.espalier")
        # The second map reads weights as the first one laid them out.
        turned = adapter("turned.safetensors", [("a", 4, 4)])
        first = rules("first.json", "a.weight [o i] <-> b.weight [i o]")
        second = rules("second.json", "b.weight [i (h 2 p)] <-> c.weight [i (h p 2)]")
        self.text("map", turned, out, "--force", "--map", first, "--map", second, "--set", "p=2", *names)
        self.assertEqual(self.values("some.espalier", "c.LA"), [1, 2, 3, 4])
        self.assertEqual(self.values("some.espalier", "c.LB"), [1, 3, 2, 4])
        # Layers without factors.
        stack = rules("stack.json", "l.{i}.w.weight [o n] <-> w [i o n]")
        some = adapter("layers.safetensors", [("l.0.w", 2, 2), ("l.1.w", 2, 2)])
        self.text("map", some, out, "--force", "--map", stack, "--set", "lora_alpha=1", "--set", "i=3", *names)
        self.assertEqual(self.values("some.espalier", "w.LB"), [1, 2, 101, 102, 0, 0])
        self.assertNotIn("note:", self.text("map", some, "--map", stack, "--set", "lora_alpha=1", "--set", "i=3", *names, "--plan"))
        self.assertIn("note: the adapter has {i} from 0 to 1, and nothing says whether its base has more; if so, give how many: --set i=...\n",
                      self.text("map", some, "--map", stack, "--set", "lora_alpha=1", *names, "--plan"))
        self.assertEqual(len(self.json("map", some, "--map", stack, "--set", "lora_alpha=1", *names, "--plan")["notes"]), 1)
        gaps = adapter("gaps.safetensors", [("l.2.w", 2, 2)])
        self.text("map", gaps, out, "--force", "--map", stack, "--set", "lora_alpha=1", "--set", "i=3", *names)
        self.assertEqual(self.values("some.espalier", "w.LB"), [0, 0, 0, 0, 1, 2])
        self.assertIn("the adapter has {i} 2 alone, and how many its base has is not known; give it: --set i=...",
                      self.errors("map", gaps, "--map", stack, "--set", "lora_alpha=1", *names, "--plan"))
        # Words of the configuration.
        join = rules("join.json", "q.weight [a n], k.weight [b n] <-> qk.weight [a+b n]")
        pair = adapter("pair.safetensors", [("q", 2, 2), ("k", 2, 2)])
        for words, said in [
                ({"lora_alpha": [16]}, '"lora_alpha" of the configuration is a list, and not a finite number above 0'),
                ({"lora_alpha": {"a": 1}}, '"lora_alpha" of the configuration is an object, and not'),
                ({"lora_alpha": "16"}, "\"lora_alpha\" of the configuration is '16', and not"),
                ({"lora_alpha": -1}, '"lora_alpha" of the configuration is -1, and not'),
                ({"lora_alpha": 1, "use_rslora": "true"}, "\"use_rslora\" of the configuration is 'true', and not true or false"),
                ({"lora_alpha": 1, "alpha_pattern": {"q": 0}}, "'q' in \"alpha_pattern\" of the configuration is 0, and not"),
                ({"lora_alpha": 1e308}, "and their alpha would be larger than 1e308 and too large a number"),
                ({"lora_alpha": 1e308, "use_rslora": True}, "are too large or too small")]:
            self.assertIn(said, self.errors("map", pair, "--map", join, *names, "--config", config(**words), "--plan"))
        self.assertIn('"lora_alpha" is set to 0', self.errors("map", pair, "--map", join, *names, "--set", "lora_alpha=0", "--plan"))
        # Ties have one alpha, and magnitudes no sums.
        tied = rules("tied.json", "q.weight [o i] = k.weight [o i] <-> w.weight [o i]")
        same = self.write("same.safetensors", safetensors(
            [(f"{m}.L{f}", "F32", s, f32(1, 2)) for m in "qk" for f, s in (("A", [1, 2]), ("B", [2, 1]))]))
        self.assertIn("factors or alphas are not alike", self.errors(
            "map", same, "--map", tied, *names, "--config", config(lora_alpha=4, alpha_pattern={"k": 8}), "--plan"))
        added = rules("added.json", "q.weight [o i] + 1 <-> w.weight [o i]", rest="keep")
        dora = adapter("dora.safetensors", [("q", 2, 2)], peft=True,
                       more=[("base_model.model.q.lora_magnitude_vector", "F32", [2], f32(1, 2))])
        self.assertIn("and the rule adds to 'w.weight'", self.errors("map", dora, "--map", added, "--lora", "peft", "--plan"))
        # Patterns fit the ends of names.
        ends = rules("ends.json", "x.weight <-> q.weight", "y.weight <-> e.q.weight", "z.weight <-> z.weight")
        made = self.json("map", adapter("ends.safetensors", [("x", 2, 2), ("y", 2, 2), ("z", 2, 2)]), "--map", ends, *names,
                         "--config", config(lora_alpha=4, alpha_pattern={"x": 8, "gone": 2}), "--plan")
        self.assertEqual(list(made["lora"]["alpha_pattern"].items()), [("e.q", 4.0), ("q", 8.0)])
        self.assertEqual(made["lora"]["lora_alpha"], 4)
        self.assertEqual(made["notes"], ["'gone' in \"alpha_pattern\" is the end of no module's name"])
        # What PEFT writes beside factors.
        keep = rules("keep.json", "q.{w:weight|bias} <-> w.{w:weight|bias}", rest="keep")
        biased = adapter("biased.safetensors", [("q", 2, 2)], peft=True, more=[("base_model.model.q.base_layer.bias", "F32", [2], f32(1, 2))])
        self.text("map", biased, out, "--force", "--map", keep, "--lora", "peft <-> torchtune")
        self.assertEqual(self.values("some.espalier", "w.bias"), [1, 2])
        self.text("map", biased, out, "--force", "--map", keep, "--lora", "peft")
        self.assertEqual(self.values("some.espalier", "base_model.model.w.base_layer.bias"), [1, 2])
        saved = adapter("saved.safetensors", [("q", 2, 2)], peft=True,
                        more=[("base_model.model.h.modules_to_save.default.weight", "F32", [2], f32(1, 2))])
        self.assertIn("is in a state_dict of PEFT alone", self.errors("map", saved, "--map", keep, "--lora", "peft", "--plan"))
        # Texts that would be read in part, and weights that lie the other way.
        for text in ("{module}.{module}.L{A|B}", "{module}.L{A|B}?", "{module}.L{A|B} as f32"):
            self.assertIn("is no name with {module} and {A|B} alone", self.errors("map", pair, "--map", join, "--lora", text, "--plan"))
        wide = adapter("wide.safetensors", [("c", 6, 4)])
        self.assertIn("fan_in_fan_out", self.errors("map", wide, "--map", rules("wide.json", "c.weight [(3 n) i] <-> d.weight [(n 3) i]",
                                                                             sizes={"n": 3}), *names, "--plan"))
        none = rules("none.json", "q.weight -> drop", "k.weight -> drop")
        self.assertIn("adapter: no module\n", self.text("map", pair, "--map", none, *names, "--plan"))

    def test_factors_of_parameters_of_peft(self):
        experts = "base_model.model.model.layers.0.mlp.experts"

        def adapter(*modules):
            return self.write("adapter.safetensors", safetensors(
                [(f"{module}.lora_{f}.weight", "F32", shape, counting(math.prod(shape)))
                 for module, o, i in modules for f, shape in (("A", [8, i]), ("B", [o, 8]))]))

        reverse = ("--map", "mixtral-v5", "--map-reverse", "--lora", "peft", "--plan")
        said = f"'{experts}.lora_A.weight' and '{experts}.lora_B.weight' are of a parameter of their module, such as 'model.layers.0.mlp.experts."
        self.assertIn(said, self.errors("map", adapter((experts, 6, 5)), *reverse))
        self.assertIn("PEFT lays the factors of \"target_parameters\" side by side along the rank, which maps do not read; merge the adapter", self.stderr)
        self.assertIn("are of a parameter of their module", self.errors("map", adapter((f"{experts}.base_layer", 10, 6)), *reverse))
        # A rule that renames the module renames them, and another module is kept.
        self.text("map", adapter((experts, 6, 5)), "--map", "unwrap", "--lora", "peft", "--plan")
        self.text("map", adapter(("base_model.model.other", 6, 5)), *reverse)
        # PEFT does not read what is stacked, either.
        old = "base_model.model.model.layers.0.block_sparse_moe.experts"
        split = adapter(*((f"{old}.{x}.w{w}", *((6, 10) if w == 2 else (10, 6))) for x in range(2) for w in (1, 2, 3)))
        line = ("map", split, "--map", "mixtral-v5", "--set", "lora_alpha=4", "--set", "i=1", "--set", "x=2", "--plan", "--lora")
        note = "note: 'model.layers.0.mlp.experts.gate_up_proj' has stacked factors, which PEFT does not read"
        said = self.text(*line, "peft")
        self.assertIn(note, said)
        self.assertEqual(said.count("stacked factors"), 1)
        self.assertNotIn("note", self.text(*line, "peft <-> torchtune"))

    def test_numbers_of_an_adapter_that_is_merged(self):
        base = self.write("base.safetensors", safetensors([("q.weight", "F32", [2, 2], counting(4))]))
        lora = self.write("lora.safetensors", safetensors(
            [(f"base_model.model.q.lora_{f}.weight", "F32", s, f32(1, 2)) for f, s in (("A", [1, 2]), ("B", [2, 1]))]))
        line = ("map", base, "--in", f"lora={lora}", "-o", self.new("merged.espalier"), "--map", "lora-merge", "--force")

        def config(**words):
            return ("--config", self.write("words.json", json.dumps(words).encode()))

        for number in (0, -4, -0.5):
            said = f"'alpha' is {number}, and the map is right for numbers above 0 alone"
            self.assertIn(said, self.errors(*line, *config(lora_alpha=number)))
            self.assertIn("code map_invalid", self.stderr)
            for word in ("alpha", "lora_alpha"):
                self.assertIn(said, self.errors(*line, "--set", f"{word}={number}"))
        # Of what the map requires, a number that is given counts as one of the configuration.
        self.assertIn("'use_rslora' is 1, and the map is right for 0 alone", self.errors(*line, "--set", "lora_alpha=4", "--set", "use_rslora=1"))
        self.assertIn("'use_rslora' is 1, and the map is right for 0 alone", self.errors(*line, *config(lora_alpha=4, use_rslora=True)))
        # PEFT scales by the rank of its configuration.
        self.assertIn("r is 5 by r", self.errors(*line, *config(lora_alpha=2, r=5)))
        self.text(*line, "--set", "use_rslora=0", *config(lora_alpha=2, use_rslora=True, r=1))
        self.assertEqual(self.values("merged.espalier", "q.weight"), [2, 5, 6, 11])

    def test_known_maps(self):
        maps = {each["name"] for each in self.json("map", "--list")["maps"]}
        self.assertIn("llama-torchtune", maps)
        self.assertIn("unwrap", maps)
        wrapped = self.write("wrapped.safetensors", safetensors([("module._orig_mod.a.w", "F32", [1], f32(1))]))
        self.text("map", wrapped, self.new("plain.espalier"), "--map", "unwrap")
        self.assertEqual(self.values("plain.espalier", "a.w"), [1])


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
    import report
    sys.exit(report.main())
