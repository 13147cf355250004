"""Runs `espalier doctor` on a model in which faults are planted.

Usage: ESPALIER=path/to/espalier MAKE_SAMPLE=path/to/make_sample python3 test_doctor.py
"""

import array
import json
import pathlib
import pickle
import random
import sys
import tarfile

from test_cli import BAD_INPUT, CHECK_FAILED, IO, OK, USAGE
from test_write import Writing, safetensors

FOREIGN = pathlib.Path(__file__).resolve().parent.parent / "foreign"
ALONE = "; 1 matrix is like no other: compared with none\n"
LAYERS, ROWS, COLUMNS = 8, 64, 48


def f32(values):
    return array.array("f", values).tobytes()


class Doctor(Writing):
    def setUp(self):
        super().setUp()
        noise = random.Random(1)
        self.tensors = {}
        for layer in range(LAYERS):
            self.tensors[f"layers.{layer}.q.weight"] = ([ROWS, COLUMNS], [noise.gauss(0, 0.02) for _ in range(ROWS * COLUMNS)])
            self.tensors[f"layers.{layer}.norm.weight"] = ([COLUMNS], [1.0] * COLUMNS)

    def file(self, name="model.safetensors"):
        return self.write(name, safetensors([(name, "F32", shape, f32(values)) for name, (shape, values) in self.tensors.items()], {}))

    def values(self, name):
        return self.tensors[name][1]

    def test_nothing(self):
        self.assertEqual(self.text("doctor", self.file()),
                         f"{self.file()}: nothing found; 16 tensors examined, 97.5 KiB\n")

    def test_six_faults(self):
        self.values("layers.1.q.weight")[5 * COLUMNS + 7] = float("nan")
        self.values("layers.2.q.weight")[0] = float("-inf")
        for row in range(ROWS):
            self.values("layers.3.q.weight")[row * COLUMNS + 9] *= 40
        self.values("layers.4.q.weight")[:] = [0.0] * (ROWS * COLUMNS)
        self.values("layers.5.q.weight")[: 4 * COLUMNS] = [0.0] * (4 * COLUMNS)
        self.values("layers.6.norm.weight")[:] = [1e4] * COLUMNS
        self.values("layers.7.q.weight")[:] = self.values("layers.0.q.weight")
        file = self.file()
        document = self.json("doctor", file, expect=CHECK_FAILED)
        self.assertEqual([(f["severity"], f["rule"], f["path"], f.get("at")) for f in document["findings"]], [
            ("fault", "nan", "layers.1.q.weight", 5 * COLUMNS + 7),
            ("fault", "infinite", "layers.2.q.weight", 0),
            ("warning", "all_zero", "layers.4.q.weight", None),
            ("warning", "dead_rows", "layers.5.q.weight", 0),
            ("warning", "outlier_columns", "layers.3.q.weight", 9),
            ("warning", "norm", "layers.6.norm.weight", None),
            ("warning", "equal_tensors", "layers.7.q.weight", None)])
        self.assertEqual((document["faults"], document["warnings"], document["notes"]), (2, 5, 0))
        self.assertEqual(document["findings"][-1]["other"], "layers.0.q.weight")
        # The same, whatever the number of threads and the container.
        self.assertEqual(self.json("doctor", file, "--threads", "1", expect=CHECK_FAILED), document)
        self.run_cli("convert", file, self.new("model.espalier"))
        converted = self.json("doctor", self.new("model.espalier"), expect=CHECK_FAILED)
        self.assertEqual(converted["findings"], document["findings"])
        # Patterns choose the tensors; kinds are then compared among themselves.
        one = self.json("doctor", file, "layers.1.*", expect=CHECK_FAILED)
        self.assertEqual([f["rule"] for f in one["findings"]], ["nan"])
        self.run_cli("doctor", file, "layers.0.*")
        self.run_cli("doctor", file, "nothing", expect=USAGE)
        text = self.text("doctor", file, expect=CHECK_FAILED)
        self.assertIn("fault   layers.1.q.weight: 1 of 3,072 elements is NaN, the first at [5, 7] [nan]\n", text)
        self.assertIn("warning layers.7.q.weight: has the same bytes as layers.0.q.weight [equal_tensors]\n", text)
        self.assertTrue(text.endswith(": 2 faults, 5 warnings; 16 tensors examined, 97.5 KiB\n"))

    def test_damage_is_a_finding(self):
        self.run_cli("convert", self.file(), self.new("model.espalier"))
        with open(self.new("model.espalier"), "r+b") as file:
            content = file.read()
            at = content.index(f32(self.values("layers.2.q.weight"))[:16])
            file.seek(at)
            file.write(bytes([content[at] ^ 1]))
        found = self.json("doctor", self.new("model.espalier"), expect=CHECK_FAILED)["findings"]
        self.assertEqual([(f["rule"], f["path"]) for f in found], [("unreadable", "layers.2.q.weight")])

    def test_what_lies_in_a_missing_file_is_a_fault(self):
        first, second = sorted(self.tensors)[:4], sorted(self.tensors)[4:8]
        for name, keys in ("model-00001-of-00002.safetensors", first), ("model-00002-of-00002.safetensors", second):
            self.write(name, safetensors([(key, "F32", self.tensors[key][0], f32(self.values(key))) for key in keys], {}))
        weights = {key: f"model-0000{1 + (key in second)}-of-00002.safetensors" for key in first + second}
        index = self.write("model.safetensors.index.json", json.dumps({"metadata": {}, "weight_map": weights}).encode())
        self.run_cli("doctor", index)
        pathlib.Path(self.new("model-00002-of-00002.safetensors")).unlink()
        [found] = self.json("doctor", index, expect=CHECK_FAILED)["findings"]
        self.assertEqual((found["rule"], found["path"]), ("unreadable", second[0]))
        self.assertRegex(found["text"], "model-00002-of-00002.safetensors.*; so are 3 more$")

    def test_what_is_not_judged_is_said(self):
        file = self.file()
        self.assertNotIn("judged", self.text("doctor", file))
        self.assertTrue(self.text("doctor", file, "layers.0.*").endswith(
            "; 1 matrix is like no other: compared with none; compared with each other alone\n"))
        self.assertEqual(self.json("doctor", file, "layers.[01].*")["alone"], 2)

    def test_notes(self):
        self.tensors["layers.0.lora_B.weight"] = ([8, 8], [0.0] * 64)
        file = self.file()
        self.assertIn("note    layers.0.lora_B.weight: all 64 elements are zero", self.text("doctor", file))
        self.assertNotIn("lora_B", self.text("doctor", file, "-q"))
        self.run_cli("doctor", file, "--strict", expect=CHECK_FAILED)

    def test_patterns_choose_numbers(self):
        nan = float("nan")
        file = self.write("run.pkl", pickle.dumps({"a": {"lr": nan, "z": complex(nan, 1)}, "b": {"lr": nan}}, protocol=2))
        paths = lambda *patterns: [f["path"] for f in self.json("doctor", file, *patterns, expect=CHECK_FAILED)["findings"]]
        self.assertEqual(paths(), ["a/lr", "a/z", "b/lr"])
        self.assertEqual(paths("a/l*", "b"), ["a/lr", "b/lr"])

    def test_names_of_files_are_escaped(self):
        text = self.text("doctor", self.file("a\n\x1b[31m.safetensors"))
        self.assertEqual(text.count("\n"), 1)
        self.assertNotIn("\x1b", text)

    def test_many_findings_are_shortened(self):
        for name in [name for name in self.tensors if name.endswith("q.weight")]:
            del self.tensors[name]
        for i in range(30):
            self.tensors[f"t.{i}"] = ([2, 2], [float("nan")] * 3 + [i])
        file = self.file()
        text = self.text("doctor", file, expect=CHECK_FAILED)
        self.assertEqual(text.count("are NaN"), 20)
        self.assertIn("10 more of nan: use --all\n", text)
        self.assertEqual(self.text("doctor", file, "--all", expect=CHECK_FAILED).count("are NaN"), 30)

    def test_several_files_and_state(self):
        self.values("layers.1.q.weight")[0] = float("nan")
        ill = self.file("ill.safetensors")
        self.values("layers.1.q.weight")[0] = 0.05
        well = self.file("well.safetensors")
        self.assertEqual([len(f["findings"]) for f in self.json("doctor", well, ill, expect=CHECK_FAILED)["files"]], [0, 1])
        self.run_cli("doctor", well)

    def plant(self):
        """A NaN in layer 1, a warning in layer 4, a note in layer 0."""
        self.values("layers.1.q.weight")[5] = float("nan")
        self.values("layers.4.q.weight")[:] = [0.0] * (ROWS * COLUMNS)
        self.tensors["layers.0.lora_B.weight"] = ([8, 8], [0.0] * 64)

    def told(self, *args, expect=OK):
        """What is printed, and what the standard error says."""
        out = self.run_cli(*args, expect=None)
        self.assertEqual(self.code, expect, self.stderr)
        return out.decode(), self.stderr

    def test_fail_on(self):
        nothing = self.file("nothing.safetensors")
        self.tensors["layers.0.lora_B.weight"] = ([8, 8], [0.0] * 64)
        note = self.file("note.safetensors")
        self.values("layers.4.q.weight")[:] = [0.0] * (ROWS * COLUMNS)
        warning = self.file("warning.safetensors")
        self.plant()
        fault = self.file("fault.safetensors")
        files = nothing, note, warning, fault
        for options, fails in ((), (0, 0, 1, 1)), (("--strict",), (0, 1, 1, 1)), (("--fail-on", "note"), (0, 1, 1, 1)), (
                ("--fail-on", "warning"), (0, 0, 1, 1)), (("--fail-on=fault",), (0, 0, 0, 1)), (("--fail-on", "never"), (0, 0, 0, 0)):
            for file, failed in zip(files, fails):
                with self.subTest(options=options, file=file):
                    self.run_cli("doctor", file, *options, expect=CHECK_FAILED if failed else OK)
        self.run_cli("doctor", fault, "--fail-on", "faults", expect=USAGE)
        self.run_cli("doctor", fault, "--fail-on", "fault", "--strict", expect=USAGE)

    def test_ignored_findings_do_not_count(self):
        self.plant()
        file = self.file()
        ignoring = "--ignore", "nan:layers.1.*", "--ignore", "*:layers.4.q.weight"
        text = self.text("doctor", file, *ignoring)
        self.assertNotIn("layers.1", text)
        self.assertTrue(text.endswith(f": 1 note, 2 ignored; 17 tensors examined, 97.8 KiB{ALONE}"), text)
        text = self.text("doctor", file, *ignoring, "--all")
        self.assertRegex(text, r"\nignored fault   layers.1.q.weight: [^\n]* NaN[^\n]* \(nan:layers.1.\*\)\n")
        document = self.json("doctor", file, *ignoring)
        self.assertEqual((document["faults"], document["warnings"], document["notes"], document["ignored"]), (0, 0, 1, 2))
        self.assertEqual([f["rule"] for f in document["findings"]], ["all_zero"])
        self.assertEqual([(f["rule"], f["by"]) for f in document["ignored_findings"]],
                         [("nan", "nan:layers.1.*"), ("all_zero", "*:layers.4.q.weight")])
        # An entry is of its rule, and of its tensors.
        for entry in "infinite:**", "nan:layers.2.*", "nan:layers":
            self.told("doctor", file, "--ignore", entry, expect=CHECK_FAILED)
        # A container stands for all below it.
        self.run_cli("convert", file, "--nest", self.new("nested.espalier"))
        self.run_cli("doctor", self.new("nested.espalier"), "--ignore", "*:layers", "--strict")
        self.run_cli("doctor", self.new("nested.espalier"), "--ignore", "nan:layers.1", "--ignore", "all_zero:**", "--strict")

    def test_bad_entries(self):
        file = self.file()
        for entry, why in ("nann:x", "did you mean 'nan'"), ("dead_row:x", "did you mean 'dead_rows'"), ("qqqqqqqqq:x", "there is no rule"), (
                "nan", "RULE:PATTERN"), ("nan:", "RULE:PATTERN"), (":x", "RULE:PATTERN"), ("", "RULE:PATTERN"), ("nan:[a", "bad pattern"):
            self.run_cli("doctor", file, "--ignore", entry, expect=USAGE)
            self.assertIn(why, self.stderr)
            self.write("list", f"# ok\n\nnan:x\n  {entry or 'x'}  # y\n".encode())
            self.run_cli("doctor", file, "--ignore-file", self.new("list"), expect=USAGE)
            self.assertIn("list: line 4: ", self.stderr)
        self.run_cli("doctor", file, "--ignore-file", self.new("none"), expect=IO)

    def test_damage_is_ignored_by_its_name_alone(self):
        self.run_cli("convert", self.file(), self.new("model.espalier"))
        content = bytearray(self.read("model.espalier"))
        content[content.index(f32(self.values("layers.2.q.weight"))[:16])] ^= 1
        file = self.write("model.espalier", content)
        text, said = self.told("doctor", file, "--ignore", "*:**", expect=CHECK_FAILED)
        self.assertIn("fault   layers.2.q.weight", text)
        self.assertIn("--ignore: 1 entry matches no finding: *:**", said)
        self.run_cli("doctor", file, "--ignore", "unreadable:**")

    def test_files_of_entries(self):
        self.plant()
        file = self.file()
        entries = "# known\r\nnan:layers.1.* # it is reset\x1b\n\n\tall_zero:layers.4.* \n".encode()
        # Beside the model, and said to be; the model's own one wins.
        for name in "model.safetensors.doctor-ignore", ".doctor-ignore":
            self.write(".doctor-ignore", b"nan:layers.9\n")
            self.write(name, entries)
            text = self.text("doctor", file, "--all")
            self.assertIn(f"\n{self.new(name)}: 2 findings ignored\n", text)
            self.assertIn(f"(nan:layers.1.* (line 2 of {self.new(name)}): it is reset\\x1b)\n", text)
            self.assertIn(": 1 note, 2 ignored;", text)
            lists = self.json("doctor", file)["ignore_lists"]
            self.assertEqual(lists, [{"name": self.new(name), "beside": True, "ignored": 2, "unmatched": []}])
            self.run_cli("doctor", file, "--no-ignore-file", expect=CHECK_FAILED)
            pathlib.Path(self.new(name)).unlink()
        # The list of a folder lies in the folder.
        self.write("list", entries)
        text = self.text("doctor", file, "--ignore-file", self.new("list"))
        self.assertNotIn("findings ignored", text)
        self.assertIn("2 ignored;", text)
        # Not in silence: a list that cannot be read, or is too large.
        self.write(".doctor-ignore", b"x")
        self.run_cli("doctor", file, expect=USAGE)
        self.assertIn("--no-ignore-file", self.stderr)
        self.run_cli("doctor", file, "--no-ignore-file", "--fail-on", "never")
        self.write(".doctor-ignore", b"#" * (64 * 1024 + 1))
        self.run_cli("doctor", file, expect=BAD_INPUT)
        self.write(".doctor-ignore", b"#" * (64 * 1024))
        self.text("doctor", file, "--fail-on", "never")
        for count, expect in (1000, CHECK_FAILED), (1001, BAD_INPUT):
            self.write(".doctor-ignore", b"nan:x\n" * count)
            said = self.told("doctor", file, expect=expect)[1]
        self.assertIn("1000 entries", said)

    def test_entries_that_match_nothing_are_told(self):
        self.plant()
        file = self.file()
        other = self.file("other.safetensors")
        text, said = self.told("doctor", file, "--ignore", "nan:layers.1.*", "--ignore", "nan:x", "--ignore", "norm:**", "--fail-on=fault")
        self.assertEqual(said, "espalier: --ignore: 2 entries match no finding: nan:x, norm:**\n")
        self.assertIn(", 1 ignored; ", text.splitlines()[-1])
        # Two entries for one finding are both of use, and one that is of use in some file is.
        self.run_cli("doctor", file, "--ignore", "nan:**", "--ignore", "nan:layers.1.*", "--fail-on=never")
        self.values("layers.1.q.weight")[5] = 0.0
        self.run_cli("doctor", self.file("well.safetensors"), other, "--ignore", "nan:**", "--fail-on=never")
        self.write("well.safetensors.doctor-ignore", "".join(f"nan:{i}\n" for i in range(7)).encode())
        said = self.told("doctor", self.new("well.safetensors"), "--fail-on=never")[1]
        self.assertTrue(said.endswith(": 7 entries match no finding: nan:0 (line 1), nan:1 (line 2), nan:2 (line 3), nan:3 (line 4), "
                                      "nan:4 (line 5) and 2 more\n"), said)
        lists = json.loads(self.told("doctor", self.new("well.safetensors"), "--json", "--fail-on=never")[0])["ignore_lists"]
        self.assertEqual(lists[0]["unmatched"], [f"nan:{i}" for i in range(7)])

    def test_formats(self):
        self.plant()
        file = self.file()
        self.assertEqual(json.loads(self.run_cli("doctor", file, "--format", "json", expect=CHECK_FAILED)),
                         self.json("doctor", file, expect=CHECK_FAILED))
        self.assertEqual(self.text("doctor", file, "--format=text", expect=CHECK_FAILED), self.text("doctor", file, expect=CHECK_FAILED))
        self.run_cli("doctor", file, "--format", "sarif", "--json", expect=USAGE)
        # Errors are in JSON, too.
        self.run_cli("doctor", self.new("none"), "--format", "json", expect=None)
        for options in ("--format", "json"), ("--format=json",):
            failed = json.loads(self.run_cli("doctor", self.new("none"), *options, expect=None))
            self.assertEqual((self.code, failed["failure"]["code"]), (IO, "file_not_found"))

    def sarif(self, *args, expect=CHECK_FAILED):
        """The run of a document, after a look at what SARIF 2.1.0 requires of it, by sections of the standard."""
        document = json.loads(self.told("doctor", *args, "--format", "sarif", expect=expect)[0])
        self.assertEqual(document["version"], "2.1.0")  # 3.13.2
        self.assertEqual(document["$schema"], "https://json.schemastore.org/sarif-2.1.0.json")
        [run] = document["runs"]  # 3.13.4
        rules = run["tool"]["driver"]["rules"]  # 3.14.6, 3.18.2
        self.assertTrue(run["tool"]["driver"]["name"])  # 3.19.8
        for rule in rules:
            self.assertTrue(rule["id"])  # 3.49.3
            self.assertRegex(rule["shortDescription"]["text"], r"\A[A-Z].*\.\Z")  # 3.11.8, 3.49.9
        self.assertEqual(len({rule["id"] for rule in rules}), len(rules))
        for result in run["results"]:  # 3.14.23
            self.assertEqual(rules[result["ruleIndex"]]["id"], result["ruleId"])  # 3.27.5, 3.27.6
            self.assertIn(result["level"], ("error", "warning", "note"))  # 3.27.10
            self.assertTrue(result["message"]["text"])  # 3.27.11
            [location] = result["locations"]
            self.assertRegex(location["physicalLocation"]["artifactLocation"]["uri"], r"\A(file://)?[A-Za-z0-9._~%/-]+\Z")  # 3.10
            [logical] = location["logicalLocations"]
            self.assertIsInstance(logical["fullyQualifiedName"], str)  # 3.33.5
            self.assertIn(result.get("baselineState", "new"), ("new", "unchanged", "updated", "absent"))  # 3.27.24
            for suppression in result.get("suppressions", []):
                self.assertIn(suppression["kind"], ("inSource", "external"))  # 3.35.2
        for invocation in run["invocations"]:
            self.assertIsInstance(invocation["executionSuccessful"], bool)  # 3.20.14
            for notification in invocation["toolExecutionNotifications"]:
                self.assertTrue(notification["message"]["text"])  # 3.58.5
        self.assertEqual(run["invocations"][0]["exitCode"], expect)
        return run

    def test_sarif(self):
        self.plant()
        file = self.file("a b:%.safetensors")
        run = self.sarif(file)
        self.assertEqual(len(run["tool"]["driver"]["rules"]), 34)
        self.assertEqual([(r["ruleId"], r["level"], r["locations"][0]["logicalLocations"][0]["fullyQualifiedName"]) for r in run["results"]], [
            ("nan", "error", "layers.1.q.weight"), ("all_zero", "warning", "layers.4.q.weight"), ("all_zero", "note", "layers.0.lora_B.weight")])
        self.assertEqual(run["results"][0]["message"]["text"], "layers.1.q.weight: 1 of 3,072 elements is NaN, the first at [0, 5]")
        self.assertEqual(run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"],
                         "file://" + self.folder + "/a%20b%3A%25.safetensors")
        self.assertTrue(run["invocations"][0]["executionSuccessful"])
        self.write(".doctor-ignore", b"*:** # all is well\n")
        run = self.sarif(file, expect=OK)
        self.assertEqual([len(r["suppressions"]) for r in run["results"]], [1, 1, 1])
        self.assertRegex(run["results"][0]["suppressions"][0]["justification"], r"^\*:\*\* \(line 1 of .*doctor-ignore\): all is well$")
        [note] = run["invocations"][0]["toolExecutionNotifications"]
        self.assertEqual((note["level"], note["message"]["text"]), ("note", self.new(".doctor-ignore") + ": 3 findings ignored"))
        # Several files are one run, and what fails is in it.
        run = self.sarif(file, self.new("none.safetensors"), self.file("c.safetensors"), "--no-ignore-file", expect=IO)
        self.assertEqual(len(run["results"]), 6)
        self.assertFalse(run["invocations"][0]["executionSuccessful"])
        [failure] = run["invocations"][0]["toolExecutionNotifications"]
        self.assertEqual(failure["level"], "error")
        self.assertIn("none.safetensors", failure["message"]["text"])
        run = self.sarif(self.new("none"), expect=IO)
        self.assertEqual((run["results"], len(run["invocations"][0]["toolExecutionNotifications"])), ([], 1))

    def test_github(self):
        self.tensors["a,b:100%\r\n::error::x"] = ([8], [float("nan")] * 8)
        self.plant()
        file = self.file("x,y:50%\n::warning::.safetensors")
        lines = self.text("doctor", file, "--format", "github", expect=CHECK_FAILED).splitlines()
        name = self.folder + "/x%2Cy%3A50%25\\n%3A%3Awarning%3A%3A.safetensors"
        self.assertEqual(sorted(lines[:4]), sorted([
            f"::error file={name},title=nan::a,b:100%25\\x0d\\n::error::x: 8 of 8 elements are NaN, the first at [0]",
            f"::error file={name},title=nan::layers.1.q.weight: 1 of 3,072 elements is NaN, the first at [0, 5]",
            f"::warning file={name},title=all_zero::layers.4.q.weight: all 3,072 elements are zero, and those of others of its kind are not",
            f"::notice file={name},title=all_zero::layers.0.lora_B.weight: all 64 elements are zero"]))
        # All other lines begin with a word, so that no name is a command.
        self.assertEqual([line.split(": ")[0] for line in lines[4:]], ["doctor"])
        self.assertIn("2 faults, 1 warning, 1 note; ", lines[4])
        self.assertEqual(self.text("doctor", self.file("##[error]"), "--format", "github", expect=CHECK_FAILED).count("##[error]: 2 faults"), 0)
        self.assertEqual(self.text("doctor", file, "--format", "github", "-q", expect=CHECK_FAILED).count("::notice"), 0)
        out, said = self.told("doctor", self.new("none"), "--format", "github", expect=IO)
        self.assertRegex(out, r"\A::error file=[^\n]*/none,title=not examined::[^\n]*\n\Z")
        self.assertIn("none", said)

    def test_since(self):
        self.plant()
        before = self.file("before.safetensors")
        self.values("layers.2.q.weight")[0] = float("inf")
        self.values("layers.4.q.weight")[:] = self.values("layers.5.q.weight")[::-1]
        after = self.file("after.safetensors")
        text = self.text("doctor", after, "--since", before, expect=CHECK_FAILED)
        self.assertEqual([tuple(line.split(None, 3)[:3]) for line in text.splitlines()[:-1]], [
            ("new", "fault", "layers.2.q.weight:"), ("gone", "warning", "layers.4.q.weight:"),
            ("same", "fault", "layers.1.q.weight:"), ("same", "note", "layers.0.lora_B.weight:")])
        self.assertTrue(text.endswith(f": 1 new fault since {before}, 2 the same, 1 gone; 17 tensors examined, 97.8 KiB{ALONE}"), text)
        document = self.json("doctor", after, "--since", before, expect=CHECK_FAILED)
        self.assertEqual([(f["rule"], f["standing"]) for f in document["findings"]],
                         [("nan", "same"), ("infinite", "new"), ("all_zero", "same")])
        self.assertEqual(([f["path"] for f in document["gone"]], document["since"], document["faults"]), (["layers.4.q.weight"], before, 2))
        self.assertEqual([r["baselineState"] for r in self.sarif(after, "--since", before)["results"]], ["unchanged", "new", "unchanged", "absent"])
        self.assertEqual(self.text("doctor", after, "--since", before, "--format", "github", expect=CHECK_FAILED).count("\n::"), 0)
        # Old findings fail nothing.
        self.assertIn(": nothing new since ", self.text("doctor", before, "--since", before, "--strict"))
        self.run_cli("doctor", after, "--since", before, "--ignore", "infinite:**")
        # What was milder is new: a note that is a warning now.
        self.tensors = {name: content for name, content in self.tensors.items() if ".q." in name}
        for name in self.tensors:
            self.values(name)[:] = [0.0] * (ROWS * COLUMNS)
        all_zero = self.file("zero.safetensors")
        noise = random.Random(2)
        for name in sorted(self.tensors)[1:]:
            self.values(name)[:] = [noise.gauss(0, 0.02) for _ in range(ROWS * COLUMNS)]
        text = self.text("doctor", self.file("one.safetensors"), "--since", all_zero, expect=CHECK_FAILED)
        self.assertRegex(text, r"\Anew  warning layers.0.q.weight: [^\n]* \(it was a note\)\n")
        self.run_cli("doctor", after, "--since", self.new("none"), expect=IO)

    def steps(self, name_of):
        """Five checkpoints of a run: a NaN in layer 1 from step 200 on, in layers 2 and 3 one step later; dead layer 5 at 200 and 300."""
        for step in (100, 200, 300, 400, 1000):
            with open(self.path_of(name_of(step)), "wb") as file:
                values = {name: (shape, list(content)) for name, (shape, content) in self.tensors.items()}
                for layer in (1, 2, 3)[:0 if step == 100 else 1 if step == 200 else 3]:
                    values[f"layers.{layer}.q.weight"][1][0] = float("nan")
                if step in (200, 300):
                    values["layers.5.q.weight"][1][:] = [0.0] * (ROWS * COLUMNS)
                file.write(safetensors([(key, "F32", shape, f32(content)) for key, (shape, content) in values.items()], {}))

    def path_of(self, name):
        path = pathlib.Path(self.new(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def test_run(self):
        self.steps(lambda step: f"run/checkpoint-{step}/model.safetensors")
        self.path_of("run/checkpoint-1100/optimizer.txt").write_text("the save has not finished")
        self.path_of("run/config_1/x").write_text("")
        run = self.new("run")
        text, said = self.told("doctor", "--run", run, expect=CHECK_FAILED)
        self.assertEqual(said, "espalier: not examined, because there is no finished checkpoint in it: checkpoint-1100, config_1\n")
        lines = text.splitlines()
        self.assertEqual([line.split(";")[0] for line in lines[:5]], [
            "checkpoint-100: nothing found", "checkpoint-200: 1 fault, 1 warning", "checkpoint-300: 3 faults, 1 warning",
            "checkpoint-400: 3 faults", "checkpoint-1000: 3 faults"])
        self.assertEqual([(line.split(":")[0], line.split("; ")[-1]) for line in lines[5:9]], [
            ("fault   layers.1.q.weight", "since step 200"), ("fault   layers.2.q.weight", "since step 300"),
            ("fault   layers.3.q.weight", "since step 300"), ("warning layers.5.q.weight", "at steps 200 to 300, gone at 400")])
        self.assertEqual(lines[9], "NaN came first at step 200, in layers.1.q.weight; at step 300, it had spread to 2 more: "
                                   "layers.2.q.weight, layers.3.q.weight")
        self.assertEqual(lines[10:], [f"{run}: 5 steps examined; 3 findings at step 1000, 1 gone before"])
        document = json.loads(self.told("doctor", "--run", run, "--json", expect=CHECK_FAILED)[0])
        self.assertEqual([(s["step"], s["name"], s["faults"], s["warnings"]) for s in document["steps"]], [
            (step, f"checkpoint-{step}", *counts) for step, counts in
            ((100, (0, 0)), (200, (1, 1)), (300, (3, 1)), (400, (3, 0)), (1000, (3, 0)))])
        self.assertEqual([(f["rule"], f["path"], f["first"], f["last"], f["steps"], f["still"]) for f in document["findings"]], [
            ("nan", "layers.1.q.weight", 200, 1000, 4, True), ("nan", "layers.2.q.weight", 300, 1000, 3, True),
            ("nan", "layers.3.q.weight", 300, 1000, 3, True), ("all_zero", "layers.5.q.weight", 200, 300, 2, False)])
        self.assertEqual(document["nan"], {"first": 200, "paths": ["layers.1.q.weight"], "spread": [
            {"step": 300, "paths": ["layers.2.q.weight", "layers.3.q.weight"]}]})
        results = self.sarif("--run", run)["results"]
        self.assertEqual(results[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"],
                         "file://" + run + "/checkpoint-200/model.safetensors")
        self.assertTrue(results[3]["message"]["text"].endswith("; at steps 200 to 300, gone at 400"))
        lines = self.told("doctor", "--run", run, "--format", "github", expect=CHECK_FAILED)[0].splitlines()
        self.assertEqual([line.split(" ")[0] for line in lines], 5 * ["doctor:"] + 3 * ["::error"] + ["::warning"] + 2 * ["doctor:"])
        # Patterns choose tensors, and known findings do not count; those of the run lie beside it or in it.
        self.assertEqual(self.told("doctor", "--run", run, "layers.5.*", "--fail-on=fault")[0].count("NaN"), 0)
        self.path_of("run.doctor-ignore").write_text("nan:**\nall_zero:layers.5.*\n")
        self.assertIn("5 steps examined; nothing found, 4 ignored\n", self.told("doctor", "--run", run)[0])
        # --run refuses a file, a folder that is not there, and --since.
        self.run_cli("doctor", "--run", self.new("run/checkpoint-100/model.safetensors"), expect=USAGE)
        self.run_cli("doctor", "--run", self.new("nowhere/x"), expect=IO)
        self.run_cli("doctor", "--run", run, "--since", run, expect=USAGE)

    def test_a_step_that_fails_is_told(self):
        self.steps(lambda step: f"run/step_{step}.safetensors")
        self.path_of("run/step_300.safetensors").write_bytes(b"x" * 99)
        text, said = self.told("doctor", "--run", self.new("run"), expect=BAD_INPUT)
        self.assertIn("step_300.safetensors", said)
        self.assertIn(": 4 steps examined, 1 not; 3 findings at step 1000, 1 gone before\n", text)
        document = json.loads(self.told("doctor", "--run", self.new("run"), "--json", expect=BAD_INPUT)[0])
        self.assertEqual([s["step"] for s in document["steps"] if "failure" in s], [300])
        run = self.sarif("--run", self.new("run"), expect=BAD_INPUT)
        self.assertFalse(run["invocations"][0]["executionSuccessful"])
        # Step 300 was not examined, so what step 400 shows may be older: the text says so.
        self.assertIn("; since step 400 (step 300 could not be examined)\n", text)
        self.assertIn("; at step 400 (step 300 could not be examined), it had spread to 2 more: ", text)
        # A finding that comes and goes.
        self.path_of("run/step_300.safetensors").write_bytes(self.path_of("run/step_100.safetensors").read_bytes())
        text = self.told("doctor", "--run", self.new("run"), expect=CHECK_FAILED)[0]
        self.assertRegex(text, r"fault   layers.1.q.weight: [^\n]*; since step 200, but only at 3 of 4 steps\n")
        self.assertIn("; at step 300, there was none; at step 400, it had spread to 2 more: ", text)

    def test_what_a_run_says_of_each_finding(self):
        self.steps(lambda step: f"run/step_{step}.safetensors")
        run = self.new("run")
        # It grows, and the text says so.
        self.values("layers.1.q.weight")[:2] = [float("nan")] * 2
        self.path_of("run/step_1000.safetensors").write_bytes(pathlib.Path(self.file()).read_bytes())
        text = self.told("doctor", "--run", run, expect=CHECK_FAILED)[0]
        self.assertIn("1 of 3,072 elements is NaN, the first at [0, 0] [nan]; since step 200; at step 1000: 2 of 3,072 elements are NaN", text)
        # An ignored NaN is still where it came first.
        text = self.told("doctor", "--run", run, "--ignore", "nan:layers.1.*", expect=CHECK_FAILED)[0]
        self.assertIn("NaN came first at step 200, in layers.1.q.weight; ", text)
        self.assertIn(", 1 ignored\n", text)
        # Names without a number are told, and a second folder is no key path.
        self.path_of("run/best.safetensors").write_bytes(self.path_of("run/step_100.safetensors").read_bytes())
        said = self.told("doctor", "--run", run, expect=CHECK_FAILED)[1]
        self.assertEqual(said, "espalier: not examined, because its name does not end in a number after - or _: best.safetensors\n")
        self.run_cli("doctor", "--run", run, run, expect=USAGE)
        self.assertIn("takes one folder", self.stderr)
        self.run_cli("doctor", run, expect=BAD_INPUT)
        self.assertIn("; --run examines all of them", self.stderr)
        self.run_cli("doctor", self.new("run/best.safetensors"), "--map-reverse", expect=USAGE)
        self.assertIn("requires --map", self.stderr)

    def test_tensors_that_are_missing(self):
        base = self.file("step_1.safetensors")
        gone = self.tensors.pop("layers.6.norm.weight")
        file = self.file("step_2.safetensors")
        missing = [("warning", "missing", "layers.6.norm.weight", "is missing, and 7 layers like it have it, such as")]

        def findings(*args):
            return [(f["severity"], f["rule"], f["path"], f["text"]) for f in self.json("doctor", *args, expect=None)["findings"]]
        # The other layers tell, and another checkpoint does.
        self.assertEqual(findings(file), missing)
        self.assertEqual(findings(file, "--since", base), missing)
        self.assertEqual(findings("--run", self.new("step_")), missing)
        self.assertEqual(self.code, CHECK_FAILED)
        # It was lost before, and another one is new: that is no finding of the layers any more.
        lost = self.tensors.pop("layers.2.q.weight")
        newer = self.file("step_3.safetensors")
        text = self.text("doctor", newer, "--since", file, expect=CHECK_FAILED)
        self.assertIn("new  warning layers.2.q.weight: is missing [missing]", text)
        self.tensors["layers.2.q.weight"] = lost
        # An unset variable is no checkpoint.
        self.run_cli("doctor", newer, "--since", "", expect=USAGE)
        # What was not chosen is not missing.
        self.text("doctor", file, "*.q.weight")
        self.text("doctor", file, "*.q.weight", "--since", base)
        # With less than nine of ten in common, it is another model.
        self.tensors = {name: tensor for name, tensor in self.tensors.items() if "norm" not in name}
        other = self.file("other.safetensors")
        text = self.text("doctor", other, "--since", base)
        self.assertEqual(text.count("new  note    layers."), 8)
        # A finding of a tensor that is not here is not gone.
        self.tensors["layers.6.norm.weight"] = gone
        self.values("layers.6.norm.weight")[0] = float("nan")
        ill = self.file("ill.safetensors")
        text = self.text("doctor", other, "--since", ill)
        self.assertIn("open fault   layers.6.norm.weight: 1 of 48 elements is NaN", text)
        self.assertIn(", 1 open, for tensors that were not examined here; ", text)
        document = self.json("doctor", other, "--since", ill)
        self.assertEqual((document["gone"], [f["path"] for f in document["open"]]), ([], ["layers.6.norm.weight"]))

    def test_names_of_steps(self):
        def examined(*args, expect=CHECK_FAILED):
            return [line.split(":")[0] for line in self.told("doctor", "--run", *args, expect=expect)[0].splitlines() if "examined," in line]
        # Files of a CheckpointDir: by number, not by name.
        self.steps(lambda step: f"a/{step}.safetensors")
        for step, name in (100, "step_00000100"), (200, "step_00000200"), (1000, "step_100000000"):
            self.run_cli("convert", self.new(f"a/{step}.safetensors"), self.path_of(f"b/{name}.espalier"))
        self.assertEqual(examined(self.new("b")), ["step_00000100.espalier", "step_00000200.espalier", "step_100000000.espalier"])
        self.assertEqual(examined(self.new("a")), [f"{step}.safetensors" for step in (100, 200, 300, 400, 1000)])
        # Parts of a model, and other files, are no steps.
        for name in "model-00001-of-00002.safetensors", "notes-1.txt", "best.safetensors":
            self.path_of("a/" + name).write_bytes(self.path_of("a/100.safetensors").read_bytes())
        self.assertEqual(len(examined(self.new("a"))), 5)
        # Two kinds of names: one is chosen by its beginning.
        self.path_of("a/ema_100.safetensors").write_bytes(self.path_of("a/100.safetensors").read_bytes())
        self.run_cli("doctor", "--run", self.new("a"), expect=USAGE)
        self.assertIn("*.safetensors, ema_*.safetensors", self.stderr)
        self.assertEqual(examined(self.new("a/ema_"), expect=OK), ["ema_100.safetensors"])
        # Orbax's, and TensorFlow's, whose parts lie beside the index.
        with tarfile.open(FOREIGN / "orbax" / "files.tar.xz") as archive:
            archive.extractall(self.folder, [entry for entry in archive if entry.name.startswith("manager/")])
        self.assertEqual(examined(self.new("manager"), "--fail-on=never", expect=OK), ["5", "10"])
        self.assertIn("newest checkpoint, 10", self.told("doctor", self.new("manager"), "--fail-on=never")[1])
        for step in 9, 10:
            for ending in ".index", ".data-00000-of-00001":
                content = (FOREIGN / "tensorflow" / "files" / "dtypes.tensorflow" / ("ckpt" + ending)).read_bytes()
                self.path_of(f"t/ckpt-{step}{ending}").write_bytes(content)
        self.assertEqual(examined(self.new("t"), "--fail-on=never", expect=OK), ["ckpt-9.index", "ckpt-10.index"])
        # Without --run, a folder of steps opens as it does otherwise.
        self.run_cli("doctor", self.new("b"), expect=BAD_INPUT)


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
    import report
    sys.exit(report.main())
