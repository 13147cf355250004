"""Runs the command line on good and on bad files: text, JSON and exit codes.

Usage: ESPALIER=path/to/espalier MAKE_SAMPLE=path/to/make_sample python3 test_cli.py
"""

import io
import json
import os
import pathlib
import random
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile
import zipfile

ESPALIER = os.environ["ESPALIER"]
MAKE_SAMPLE = os.environ["MAKE_SAMPLE"]
OK, CHECK_FAILED, USAGE, BAD_INPUT, IO, OUT_OF_MEMORY, INCOMPLETE = range(7)
# What diff says of files with hashes, without --verify.
EQUAL_BY_HASHES = "equal by recorded hashes, not verified\n"


def is_sanitized():
    """Whether the program was built with sanitizers."""
    with open(ESPALIER, "rb") as program:
        return re.search(b"__[at]san_init", program.read()) is not None


def measure(out, *args):
    """Runs the program with standard output in the file `out`; returns its exit code and its peak memory in bytes."""
    done = subprocess.run([sys.executable, "-c", SPAWN, out, ESPALIER, *args], stdout=subprocess.PIPE, check=True,
                          timeout=120)
    code, memory = map(int, done.stdout.split())
    return code, memory


# A process's peak begins with that of the one it was spawned from, which must be a small one.
SPAWN = """if True:
    import os, sys
    out = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    pid = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ,
                         file_actions=[(os.POSIX_SPAWN_DUP2, out, 1)])
    _, status, usage = os.wait4(pid, 0)
    print(os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024)
    """


class Cli(unittest.TestCase):
    """A folder with samples, made once; each test also gets a folder of its own."""

    @classmethod
    def setUpClass(cls):
        cls.samples = tempfile.mkdtemp()
        for name, change in {"sample": "", "element": "element", "value": "value", "order": "order",
                             "untied": "untied", "metadata": "metadata", "extra": "extra",
                             "large": "large", "large-changed": "large-changed"}.items():
            subprocess.run([MAKE_SAMPLE, cls.path(name), change], check=True)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.samples)

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.samples, name + ".espalier")

    def new(self, name):
        return os.path.join(self.folder, name)

    def write(self, content):
        with open(self.new("bad"), "wb") as file:
            file.write(content)
        return self.new("bad")

    def run_cli(self, *args, expect=OK, **options):
        """Runs the program; returns its standard output as bytes. Errors must be one clean line."""
        options.setdefault("stdout", subprocess.PIPE)
        done = subprocess.run([ESPALIER, *args], stderr=subprocess.PIPE, timeout=60, **options)
        self.stderr = done.stderr.decode("utf-8")
        if expect is None:  # The test says what it expects.
            self.code = done.returncode
            return done.stdout
        self.assertEqual(done.returncode, expect, (args, done.stderr))
        if expect in (USAGE, BAD_INPUT, IO, OUT_OF_MEMORY):
            self.assertRegex(self.stderr, r"\Aespalier: [^\n]+\n\Z")
            if args[:1] != ("verify",) and options["stdout"] == subprocess.PIPE:
                if "--json" in args and done.stdout:
                    self.assertIn("failure", json.loads(done.stdout))
                else:
                    self.assertEqual(done.stdout, b"", "printed before an error")
        else:
            self.assertEqual(self.stderr, "")
        return done.stdout

    def text(self, *args, **options):
        out = self.run_cli(*args, **options)
        for byte in out:
            self.assertTrue(byte == 0x0A or byte >= 0x20, "a control character was printed")
        return out.decode("utf-8")

    def json(self, *args, **options):
        out = self.run_cli(*args, "--json", **options)
        self.assertTrue(out.endswith(b"\n"))
        self.assertEqual(out.count(b"\n"), 1)

        def refuse(constant):
            raise AssertionError("not JSON: " + constant)

        return json.loads(out, parse_constant=refuse)

    def damaged(self, name, offset, data=None, source="sample"):
        """A copy of a sample with one byte flipped, or `data` written, at `offset`."""
        with open(self.path(source), "rb") as file:
            content = bytearray(file.read())
        content[offset:offset + len(data or b"x")] = data or bytes([content[offset] ^ 0x40])
        with open(self.new(name), "wb") as file:
            file.write(content)
        return self.new(name)

    def data_offset(self, key_path, source="sample"):
        return self.json("ls", "--long", self.path(source), key_path)["nodes"][0]["offset"]


class Ls(Cli):
    def test_lists_tensors(self):
        lines = self.text("ls", self.path("sample")).splitlines()
        self.assertEqual(len(lines), 25)
        self.assertEqual(lines[0].split(), ["f32", "[4,", "3]", "48", "B", "model/embed"])
        self.assertIn("model/head = model/embed", lines[1])
        self.assertTrue(any("no data  missing" in line for line in lines))
        self.assertTrue(any(line.startswith("opaque(q4_0, 32 in 18 B)") for line in lines))
        self.assertEqual(lines[-1], "23 tensors, 1337 elements, 4.9 KiB")
        lines = self.text("ls", "--long", self.path("sample")).splitlines()
        self.assertEqual(lines[-1], "23 tensors, 1337 elements, 4.9 KiB, 4.9 KiB stored")

    def test_json(self):
        listing = self.json("ls", self.path("sample"), "model", "--long")
        self.assertEqual(listing["format"], "espalier")
        embed, head = listing["nodes"]
        self.assertEqual(
            {key: embed[key] for key in
             ("path", "kind", "dtype", "shape", "axis_names", "elements", "bytes", "chunks", "codec")},
            {"path": "model/embed", "kind": "tensor", "dtype": "f32", "shape": [4, 3],
             "axis_names": ["rows", ""], "elements": 12, "bytes": 48, "chunks": 1, "codec": "raw"})
        self.assertEqual(embed["offset"] % 64, 0)
        self.assertEqual(len(embed["hash"]), 32)
        self.assertEqual(embed["tensor"], head["tensor"])
        self.assertEqual(listing["totals"], {"tensors": 1, "elements": 12, "bytes": 48})

    def test_patterns(self):
        def paths(*patterns):
            return [node["path"] for node in self.json("ls", self.path("sample"), *patterns)["nodes"]]

        self.assertEqual(paths("**/w"), ["layers/0/w", "layers/1/w"])
        self.assertEqual(paths("layers"), ["layers/0/w", "layers/1/w"], "a container's whole subtree")
        self.assertEqual(paths("layers/[1-9]"), ["layers/1/w"])
        self.assertEqual(paths("model/{head,embed}"), ["model/embed", "model/head"])
        self.assertEqual(paths("betas"), [], "selected, but no tensor")
        self.assertEqual(len(paths("")), 24, "the root")
        self.assertEqual(len(paths("[m]issing", "[!o]?del/*")), 3)

    def test_bracketed_pattern_is_one_pattern(self):
        self.run_cli("ls", self.path("sample"), "[x]", expect=USAGE)
        self.assertIn("'[x]'", self.stderr)

    def test_all(self):
        nodes = {node["path"]: node for node in
                 self.json("ls", "--all", self.path("sample"))["nodes"]}
        self.assertEqual(nodes["big"]["value"], "-123456789012345678901234567890")
        self.assertEqual(nodes["large_int"]["value"], "9007199254740993")
        self.assertEqual(nodes["optimizer/0/step"]["value"], 100)
        self.assertEqual(nodes["nan"]["value"], "NaN")
        self.assertEqual(nodes["complex"]["value"], [1.0, -2.0])
        self.assertEqual(nodes["raw"]["value"], "00ff")
        self.assertEqual(nodes["nothing"], {"path": "nothing", "kind": "null", "value": None})
        self.assertEqual(nodes["args"]["label"], "optax.ScaleByAdamState")
        self.assertEqual(nodes[""]["children"], 16)
        self.assertIn("optimizer/~20", nodes)

    def test_sort(self):
        def sorted_by(*options):
            return self.json("ls", self.path("sample"), *options)["nodes"]

        sizes = [node["bytes"] for node in sorted_by("--sort", "size") if node["kind"] == "tensor"]
        self.assertEqual(sizes, sorted(sizes, reverse=True))
        names = [node["path"] for node in sorted_by("--sort", "path")]
        self.assertEqual(names, sorted(names))
        self.assertEqual([n["path"] for n in sorted_by("--sort", "path", "--reverse")], names[::-1])
        subprocess.run([MAKE_SAMPLE, self.new("prefixes"), "prefixes"], check=True)
        nodes = self.json("ls", self.new("prefixes"), "--all", "--sort", "path")["nodes"]
        self.assertEqual([node["path"] for node in nodes],
                         ["", "0", "a", "a-b", "a-b/~0", "a/-1", "a/10", "a/2", "a/b", "a0"])
        numbers = [node["tensor"] for node in sorted_by("--sort", "file")]
        self.assertEqual(numbers, sorted(numbers))

    def test_natural_order(self):
        """Layer 2 before layer 10, in flat names and in keys; containers before what they hold."""
        names = ["h.10.w", "h.2.w", "h.1.w", "h.02.w", "a", "h.1.w2", "h.1", "h.1.w10", "H"]
        header = {name: {"dtype": "U8", "shape": [1], "data_offsets": [i, i + 1]} for i, name in enumerate(names)}
        text = json.dumps(header).encode()
        with open(self.new("flat.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + bytes(len(names)))

        def listed(*options):
            return [node["path"] for node in self.json("ls", self.new("flat.safetensors"), *options)["nodes"]]

        self.assertEqual(listed(), names, "the order of the bytes")
        natural = ["H", "a", "h.1", "h.1.w", "h.1.w2", "h.1.w10", "h.02.w", "h.2.w", "h.10.w"]
        self.assertEqual(listed("--sort", "name"), natural)
        self.assertEqual(listed("--sort", "name", "-r"), natural[::-1])
        subprocess.run([MAKE_SAMPLE, self.new("prefixes"), "prefixes"], check=True)
        nodes = self.json("ls", self.new("prefixes"), "--all", "--sort", "name")["nodes"]
        self.assertEqual([node["path"] for node in nodes],
                         ["", "0", "a", "a/-1", "a/2", "a/10", "a/b", "a-b", "a-b/~0", "a0"])
        # Keys that are numbers count as numbers, in lists too.
        subprocess.run([MAKE_SAMPLE, self.new("many"), "many:30"], check=True)
        self.text("ls", self.new("many"), "--sort", "name")

    def test_filters(self):
        def paths(*options):
            return [node["path"] for node in self.json("ls", self.path("sample"), *options)["nodes"]]

        self.assertEqual(paths("--dtype", "f64"), ["types/f64"])
        self.assertEqual(paths("--dtype", "f64,i8"), ["types/i8", "types/f64"])
        self.assertEqual(paths("--dtype", "f64", "--dtype", "i8"), ["types/i8", "types/f64"])
        self.assertEqual(paths("--dtype=bf16"), ["missing", "types/bf16"])
        self.assertEqual(paths("--dtype=bf16", "--kind=placeholder"), ["missing"])
        self.assertEqual(paths("--dtype=opaque"), ["types/opaque"])
        self.assertEqual(paths("--larger", "48"), ["optimizer/0/exp_avg"])
        self.assertEqual(paths("--larger", "47", "model"), ["model/embed", "model/head"])
        self.assertEqual(paths("--larger", "4.5KiB"), ["optimizer/0/exp_avg"])
        self.assertEqual(paths("--larger", "5 kB"), [])
        self.assertEqual(paths("--smaller", "2"), ["types/empty"])
        self.assertEqual(paths("--smaller", "17", "--larger", "15", "layers"), ["layers/0/w", "layers/1/w"])
        self.assertEqual(paths("--kind", "int64", "layers"), ["layers/0/n", "layers/1/n"])
        self.assertEqual(paths("--kind", "tuple,set,record"), ["betas", "seen", "args"])
        self.assertEqual(paths("--kind", "int64", "--dtype", "f32"), [])
        listing = self.json("ls", self.path("sample"), "--dtype", "f64")
        self.assertEqual(listing["totals"], {"tensors": 1, "elements": 2, "bytes": 16})
        self.assertEqual(self.text("ls", self.path("sample"), "--dtype", "f64"),
                         "f64  [2]  16 B  types/f64\n1 tensor, 2 elements, 16 B\n")

    def test_bad_filters(self):
        for option, words in {"--dtype": {"bf61": "did you mean 'bf16'?", "float33": "there are bool i8 u8", "": "dtype"},
                              "--kind": {"tenser": "did you mean 'tensor'?", "x": "there are null bool"},
                              "--larger": {"1XB": "write for example 100, 64KiB", "-1": "size", "1e999": "size",
                                           "16EiB": "size", "": "SIZE missing", "KiB": "size", "nan": "size"}}.items():
            for word, message in words.items():
                self.run_cli("ls", self.path("sample"), f"{option}={word}", expect=USAGE)
                self.assertIn(message, self.stderr)

    def test_nothing_is_left(self):
        for args, reason in {("betas",): "the patterns select 3 nodes, and none is a tensor; --all lists them",
                             ("model", "--dtype", "i8"): "the patterns select 3 nodes, and the filters pass none",
                             ("--larger", "1GiB"): "the checkpoint has 53 nodes, and the filters pass none"}.items():
            lines = self.text("ls", self.path("sample"), *args).splitlines()
            self.assertEqual(lines[0], "0 tensors, 0 elements, 0 B")
            self.assertEqual(lines[1:], [reason])
            self.assertEqual(self.text("ls", "-q", self.path("sample"), *args), "")

    def test_titles(self):
        lines = self.text("ls", "--long", self.path("sample")).splitlines()
        self.assertEqual(lines[0].split(), ["dtype", "shape", "size", "offset", "stored", "chunks", "codec", "hash", "path"])
        # Each title stands over its column.
        self.assertEqual(lines[0].index("path"), lines[1].index("model/embed"))
        self.assertEqual(lines[0].index("hash"), re.search(r"[0-9a-f]{32}", lines[1]).start())
        self.assertEqual(lines[0].index("offset") + len("offset"), re.search(r"48 B +(\d+) +48 B", lines[1]).end(1))
        self.assertNotIn("dtype", self.text("ls", "--long", "-q", self.path("sample")))
        self.assertNotIn("dtype", self.text("ls", self.path("sample")))

    def test_quiet_leaves_totals_out(self):
        self.assertEqual(self.text("ls", "-q", self.path("sample"), "missing").count("\n"), 1)

    def test_reading_is_the_same_as_mapping(self):
        for command in (["ls", "-l"], ["tree"], ["stats"]):
            self.assertEqual(self.run_cli(*command, self.path("sample")),
                             self.run_cli(*command, self.path("sample"), "--no-mmap"))


class Tree(Cli):
    def test_draws(self):
        text = self.text("tree", self.path("sample"))
        self.assertTrue(text.startswith("state: dict (23 tensors, 4.9 KiB)\n├── model: dict "
                                        '"collections.OrderedDict" (1 tensor, 48 B)\n'))
        for line in ("│   └── head: tensor f32 [4, 3] = model/embed\n", "├── betas: tuple\n",
                     "│   ├── 0: float64 0.9\n", "├── missing: placeholder bf16 [1000, 1000]\n",
                     "├── args: record \"optax.ScaleByAdamState\"\n", "metadata: dict\n",
                     "├── big: bigint -123456789012345678901234567890\n"):
            self.assertIn(line, text)

    def test_untrusted_text_is_escaped(self):
        text = self.text("tree", self.path("sample"))
        self.assertIn(r'"line\nbreak \x1b[31mred\x1b[0m \u{202e}drow \u{200b}\u{85}\u{2028} "q" \"',
                      text)
        self.assertIn(r"evil\x1b]0;title\x07: null", text)
        raw = self.run_cli("ls", "--all", "--json", self.path("sample"))
        for escape in (b"\\u001b", b"\\u202e", b"\\u200b", b"\\u0085", b"\\u2028"):
            self.assertIn(escape, raw)
        nodes = {n["path"]: n for n in json.loads(raw)["nodes"]}
        self.assertEqual(nodes["a~1b~0c"]["value"],
                         "line\nbreak \x1b[31mred\x1b[0m \u202edrow \u200b\u0085\u2028 \"q\" \\")

    def test_depth_and_path(self):
        text = self.text("tree", self.path("sample"), "optimizer", "--depth", "1")
        self.assertEqual(text, 'optimizer: dict (1 tensor, 4.7 KiB)\n'
                               '├── 0: dict (1 tensor, 4.7 KiB)\n'
                               '│   └── ... 2 more nodes\n'
                               '└── ~20: string "a string key"\n')

    def test_json(self):
        tree = self.json("tree", self.path("sample"), "layers")["tree"]
        self.assertEqual(tree["kind"], "list")
        self.assertEqual(tree["totals"], {"tensors": 2, "elements": 8, "bytes": 32})
        self.assertEqual([child["path"] for child in tree["children"]], ["layers/0", "layers/1"])
        self.assertEqual(self.json("tree", self.path("sample"), "--depth", "0")["tree"]["children"], 16)

    def test_metadata(self):
        self.assertEqual(self.text("tree", self.path("sample"), "--metadata", "epoch"),
                         "epoch: int64 3\n")

    def test_no_such_path(self):
        self.run_cli("tree", self.path("sample"), "model/embed/x", expect=USAGE)
        self.assertIn("code not_found, in model/embed/x", self.stderr)


class Show(Cli):
    def test_scalars(self):
        for path, line in {"big": "bigint -123456789012345678901234567890", "betas/0": "float64 0.9",
                           "raw": "bytes 0x00ff", "nothing": "null", "nan": "float64 nan",
                           "args/nesterov": "bool true", "complex": "complex128 (1.0-2.0j)"}.items():
            self.assertEqual(self.text("show", self.path("sample"), path), line + "\n")

    def test_tensors(self):
        def last_lines(path, *options):
            return self.text("show", self.path("sample"), path, *options).split("\n", 2)[2]

        self.assertEqual(last_lines("types/f32"),
                         "[[  0.1,  -0.0,   nan],\n [  inf,  -inf, 1e+20]]\n")
        self.assertEqual(last_lines("types/bool"), "[ true, false,  true]\n")
        self.assertEqual(last_lines("types/i64"), "[-9223372036854775808,  9223372036854775807]\n")
        self.assertEqual(last_lines("types/u64"), "[                   0, 18446744073709551615]\n")
        self.assertEqual(last_lines("types/c64"), "[(3.0+4.0j), (0.0-1.0j)]\n")
        self.assertEqual(last_lines("types/scalar"), "2.5\n")
        self.assertEqual(last_lines("types/empty"), "[]\n")
        self.assertIn("opaque blocks", last_lines("types/opaque"))

    def test_facts(self):
        text = self.text("show", self.path("sample"), "model/head")
        self.assertTrue(text.startswith("tensor f32 [4, 3] (12 elements, 48 B)\naxes: rows, -\nhash: "))
        self.assertIn("tied: model/embed\ntied: model/head\n", text)
        self.assertIn("(a placeholder", self.text("show", self.path("sample"), "missing"))

    def test_summary(self):
        text = self.text("show", self.path("large"), "x")
        self.assertIn("[[     0.0,      1.0,      2.0, ...,    997.0,    998.0,    999.0],\n", text)
        self.assertIn("\n ...,\n", text)
        self.assertTrue(text.endswith(" 999999.0]]\n"))
        self.assertIsNone(self.json("show", self.path("large"), "x")["node"]["values"])

    def test_full(self):
        whole = self.json("show", self.path("sample"), "optimizer/0/exp_avg", "--full")["node"]
        self.assertEqual(whole["values"], [[float(40 * i + j) for j in range(40)] for i in range(30)])
        text = self.text("show", self.path("sample"), "optimizer/0/exp_avg", "--full")
        self.assertEqual(text.count(","), 1199 + 2)

    def test_slices(self):
        rows = [[float(40 * i + j) for j in range(40)] for i in range(30)]

        def values(spec, path="optimizer/0/exp_avg"):
            return self.json("show", self.path("sample"), path, "--slice=" + spec)["node"]["values"]

        self.assertEqual(values("0:4,::13"), [row[::13] for row in rows[0:4]])
        self.assertEqual(values("-2:,3"), [row[3:4] for row in rows[-2:]])
        self.assertEqual(values("-1"), rows[-1:])
        self.assertEqual(values("5:2"), [])
        self.assertEqual(values("100:200,0"), [])
        self.assertEqual(values(":,-3:-1:1")[0], rows[0][-3:-1])
        self.assertEqual(values("1:3", "types/f6"), values(":", "types/f6")[1:3])

    def test_bad_slices(self):
        for spec in ("x", "1:2:0", "::-1", "1:2:3:4", ",", "30", "-31", ":,:,:", "9" * 30,
                     "9223372036854775807"):
            self.run_cli("show", self.path("sample"), "optimizer/0/exp_avg", "--slice=" + spec,
                         expect=USAGE)
            self.assertIn("code invalid_slice", self.stderr)
        self.run_cli("show", self.path("sample"), "betas", "--slice", "0", expect=USAGE)
        self.assertIn("code wrong_kind", self.stderr)

    def test_nothing_is_printed_before_an_error(self):
        file = self.damaged("bad", self.data_offset("x", "large"), source="large")
        for options in ([], ["--json"]):
            self.run_cli("show", self.path("sample"), "model/head", "--slice", ":,:,:", *options,
                         expect=USAGE)
            self.run_cli("show", self.path("sample"), "missing", "--slice", ":,:,:", *options,
                         expect=USAGE)
            self.run_cli("show", file, "x", "--slice", "0,0", *options, expect=BAD_INPUT)
            self.assertIn("in x)", self.stderr)

    def test_json_of_errors(self):
        sample, gone = self.path("sample"), self.new("gone")
        for args, file in ((["show", sample, "zz"], sample), (["ls", gone], gone), (["diff", sample, sample, "--stat", "--rtol", "1"], None)):
            said = json.loads(self.run_cli(*args, "--json", expect=None))
            self.assertEqual(said["file"], file)
            self.assertIn(said["failure"]["message"], self.stderr)
            self.assertIn(f"code {said['failure']['code']}", self.stderr)
        # Without it, only the line.
        self.assertEqual(self.run_cli("show", sample, "zz", expect=USAGE), b"")

    def test_json_specials(self):
        node = self.json("show", self.path("sample"), "types/f32")["node"]
        self.assertEqual(node["values"], [[0.1, -0.0, "NaN"], ["Infinity", "-Infinity", 1e20]])
        node = self.json("show", self.path("sample"), "types/u64")["node"]
        self.assertEqual(node["values"], [0, "18446744073709551615"])

    def test_container_is_a_tree(self):
        self.assertTrue(self.text("show", self.path("sample"), "betas").startswith("betas: tuple\n"))


class Stats(Cli):
    def test_values(self):
        stats = {node["path"]: node["stats"] for node in
                 self.json("stats", self.path("sample"))["nodes"]}
        self.assertEqual(stats["types/f32"]["nans"], 1)
        self.assertEqual(stats["types/f32"]["infinities"], 2)
        self.assertEqual(stats["types/f32"]["finite"], 3)
        self.assertEqual(stats["types/i64"]["min"], "-9223372036854775808")
        self.assertEqual(stats["types/u64"]["max"], "18446744073709551615")
        self.assertEqual(stats["types/c64"]["max"], 5.0)
        self.assertEqual(stats["types/empty"]["min"], None)
        self.assertEqual(stats["types/bool"]["zeros"], 1)
        self.assertIsNone(stats["types/opaque"])
        self.assertIsNone(stats["missing"])

    def test_across_chunks(self):
        for threads in ("1", "4"):
            x, six = self.json("stats", self.path("large"), "--threads", threads)["nodes"]
            self.assertEqual(x["stats"]["mean"], 499999.5)
            self.assertEqual(x["stats"]["std"], 288675.1345946685)
            self.assertEqual(six["stats"]["finite"], 4194304)
            # Three bytes of 37 * i + 1 hold four codes; all 256 byte values come equally often.
            self.assertEqual((six["stats"]["min"], six["stats"]["max"]), (-28.0, 28.0))

    def test_extremes(self):
        """Finite numbers have finite statistics, though their sums and squares are not finite."""
        subprocess.run([MAKE_SAMPLE, self.new("extremes"), "extremes"], check=True)
        largest, least = sys.float_info.max, 5e-324
        expected = {"max": (largest, 0), "both": (0, largest), "apart": (0, largest),
                    "half": (largest / 2, largest / 2), "tiny": (2e-300, 1e-300),
                    "tiny_after_zeros": (least, least), "tiny_beside_large": (1.5e300, 1.5e300),
                    "ordinary_beside_large": (largest / 2, largest / 2),
                    "complex": (7.5e307, 2.5e307), "far": (largest, 0)}
        for threads in ("1", "3"):
            nodes = self.json("stats", self.new("extremes"), "--threads", threads)["nodes"]
            self.assertEqual(len(nodes), len(expected))
            for node in nodes:
                for name, value in zip(("mean", "std"), expected[node["path"]]):
                    self.assertIsInstance(node["stats"][name], (int, float), node["path"])
                    self.assertAlmostEqual(node["stats"][name] / (value or 1), value != 0, places=12,
                                           msg=f"{name} of {node['path']}")

    def test_damage_is_an_error(self):
        file = self.damaged("bad", self.data_offset("x", "large") + 3_000_000, source="large")
        self.run_cli("stats", file, "x", expect=BAD_INPUT)
        self.assertIn("code chunk_corrupt, at byte", self.stderr)
        self.assertIn("in x)", self.stderr)
        self.run_cli("stats", file, "six")

    def test_text(self):
        lines = self.text("stats", self.path("sample"), "types/i8", "missing").splitlines()
        self.assertEqual(lines[0].split()[:4], ["dtype", "shape", "min", "max"])
        self.assertIn("n/a", lines[1])
        self.assertEqual(lines[2].split(),
                         ["i8", "[3]", "-128", "127", "-0.333333", "104.104", "1", "0", "0", "types/i8"])


class Verify(Cli):
    def test_ok(self):
        text = self.text("verify", self.path("sample"), self.path("large"))
        self.assertRegex(text.splitlines()[0], r"sample\.espalier: ok \(23 tensors, 21 chunks, .* KiB\)$")
        self.assertEqual(self.text("verify", "-q", self.path("sample")), "")
        verdict = self.json("verify", self.path("sample"))["files"][0]
        self.assertEqual((verdict["ok"], verdict["hashes"], verdict["errors"]), (True, True, []))

    def test_every_flipped_byte_is_found(self):
        with open(self.path("sample"), "rb") as file:
            size = len(file.read())
        data = self.data_offset("model/embed")
        for offset in list(range(0, 128)) + list(range(128, size, 97)) + [size - 1]:
            expect = BAD_INPUT if offset < data - 63 else CHECK_FAILED
            file = self.damaged("bad", offset)
            done = subprocess.run([ESPALIER, "verify", file], capture_output=True, timeout=60)
            if data - 63 <= offset < data:  # the end of the index, or padding
                self.assertIn(done.returncode, (BAD_INPUT, CHECK_FAILED))
            else:
                self.assertEqual(done.returncode, expect, offset)
            converted = subprocess.run([ESPALIER, "convert", file, self.new("out.espalier")],
                                       capture_output=True, timeout=60)
            self.assertEqual(converted.returncode, BAD_INPUT, offset)
            self.assertEqual(sorted(os.listdir(self.folder)), ["bad"], "nothing is written")

    def test_report(self):
        offset = self.data_offset("layers/1/w")
        file = self.damaged("bad", offset)
        text = self.text("verify", file, expect=CHECK_FAILED)
        self.assertIn("DAMAGED (1 error)", text)
        self.assertIn(f"(code chunk_corrupt, at byte {offset}, in layers/1/w)", text)
        verdict = self.json("verify", file, expect=CHECK_FAILED)["files"][0]
        self.assertFalse(verdict["ok"])
        self.assertEqual(verdict["errors"][0]["path"], "layers/1/w")
        self.assertEqual(verdict["errors"][0]["offset"], offset)

    def test_long_reports_are_cut(self):
        subprocess.run([MAKE_SAMPLE, self.new("many"), "many:30"], check=True)
        nodes = self.json("ls", "--long", self.new("many"))["nodes"]
        with open(self.new("many"), "r+b") as file:
            for node in nodes:
                file.seek(node["offset"])
                file.write(b"\xff")
        text = self.text("verify", self.new("many"), expect=CHECK_FAILED)
        self.assertEqual(len(text.splitlines()), 22)
        self.assertTrue(text.endswith("  and 10 more\n"))
        verdict = self.json("verify", self.new("many"), expect=CHECK_FAILED)["files"][0]
        self.assertEqual(len(verdict["errors"]), 30)

    def test_checksums_of_zip_archives_are_compared(self):
        foreign = pathlib.Path(__file__).resolve().parent.parent / "foreign"
        for name in ("torch/files/training.pt", "numpy/all.npz", "numpy/all-compressed.npz"):
            line = self.text("verify", foreign / name).splitlines()[0]
            self.assertRegex(line, r": ok \(\d+ tensors, \d+ checksums, [^;]*\)$")
        # The storages of skip_data() have none; the other file has none at all.
        text = self.text("verify", foreign / "torch/files/training-skip-data.pt")
        self.assertRegex(text, r": ok \(25 tensors, 6 checksums, .*\); 532 bytes of tensors have none, and were not checked\n")
        text = self.text("verify", foreign / "torch/files/training-without-crc.pt")
        self.assertIn("structure ok (25 tensors, 8.9 KiB); this file has no hashes and no checksums", text)
        content = bytearray((foreign / "torch/files/training.pt").read_bytes())
        node = [each for each in self.json("ls", "--long", foreign / "torch/files/training.pt")["nodes"]
                if each.get("offset")][-1]
        content[node["offset"]] ^= 1
        verdict = self.json("verify", self.write(content), expect=CHECK_FAILED)["files"][0]
        self.assertEqual([verdict["error_count"], verdict["hashes"], verdict["bytes_unchecked"]], [1, False, 0])
        self.assertIn("CRC-32", verdict["errors"][0]["message"])
        self.assertEqual(verdict["errors"][0]["path"], node["path"])
        # A compressed entry is inflated, and that fails.
        content = bytearray((foreign / "numpy/all-compressed.npz").read_bytes())
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entry = max(archive.infolist(), key=lambda each: each.compress_size)
        content[entry.header_offset + 30 + len(entry.filename) + entry.compress_size - 4] ^= 1
        self.json("verify", self.write(content), expect=CHECK_FAILED)
        # Entries without a CRC-32 are counted, not passed over.
        with zipfile.ZipFile(self.new("half.npz"), "w") as archive:
            with zipfile.ZipFile(foreign / "numpy/all.npz") as source:
                for each in source.namelist()[:2]:
                    archive.writestr(each, source.read(each))
        content = bytearray(pathlib.Path(self.new("half.npz")).read_bytes())
        directory = content.rindex(b"PK\1\2")
        local = struct.unpack_from("<I", content, directory + 42)[0]
        content[directory + 16 : directory + 20] = content[local + 14 : local + 18] = bytes(4)
        self.assertRegex(self.text("verify", self.write(content)), r"1 checksum, .*; \d+ bytes of tensors have none")

    def test_elements_in_a_form_that_is_not_read(self):
        file = pathlib.Path(__file__).resolve().parent.parent / "foreign/numpy/objects.npz"
        text = self.text("verify", file, expect=INCOMPLETE)
        self.assertRegex(text, r": INCOMPLETE \(1 tensor whose elements are not read\); .* are right\n"
                               r"  this is an array of Python objects.*\(code elements_missing, in bad\)\n")
        verdict = self.json("verify", file, expect=INCOMPLETE)["files"][0]
        self.assertEqual([verdict["verdict"], verdict["missing"], verdict["missing_tensors"], verdict["error_count"]],
                         ["incomplete", [], 1, 1])
        # No script that goes by the exit code removes the only file that has them.
        out = self.new("objects.espalier")
        said = self.run_cli("convert", file, out, expect=None).decode()
        self.assertEqual(self.code, INCOMPLETE)
        self.assertRegex(said, r" written, INCOMPLETE\n$")
        self.assertIn("bad: this is an array of Python objects", self.stderr)
        said = json.loads(self.run_cli("convert", "-f", "--json", file, out, expect=None))
        self.assertEqual((self.code, said["incomplete"]), (INCOMPLETE, True))
        self.assertIn("placeholder", self.text("tree", out))

    def test_damaged_items_of_a_distributed_checkpoint(self):
        foreign = pathlib.Path(__file__).resolve().parent.parent / "foreign"
        folder = pathlib.Path(shutil.copytree(foreign / "dcp/files/flat.dcp", self.new("run")))
        self.text("verify", folder)
        with open(folder / "__0_0.distcp", "r+b") as file:
            file.truncate(100)
        self.assertIn("an item is lost: ", self.text("verify", folder, expect=CHECK_FAILED))
        self.run_cli("convert", folder, self.new("out.espalier"), expect=BAD_INPUT)
        self.assertFalse(os.path.exists(self.new("out.espalier")))
        for part in folder.glob("*.distcp"):
            part.unlink()
        self.assertRegex(self.text("verify", folder, expect=INCOMPLETE), r"\(\d files? missing\); no tensor was checked\n")

    def test_a_folder_of_espalier_writer(self):
        saved = pathlib.Path(__file__).resolve().parent.parent / "distributed/saved"
        folder = pathlib.Path(shutil.copytree(saved, self.new("run")))
        listed = self.text("ls", folder)
        for line in ("[4, 131072]  2.0 MiB  model/rows", "[4, 6]          96 B  model/columns", "history/1", "5 tensors"):
            self.assertIn(line, listed)
        self.assertIn("ok (5 tensors", self.text("verify", folder))
        self.assertIn("7", self.text("show", folder, "step"))
        self.assertEqual(len(self.text("needs", folder).splitlines()), 2)
        self.run_cli("flatten", folder, "-o", self.new("one.espalier"))
        self.assertEqual(self.text("diff", folder, self.new("one.espalier")), EQUAL_BY_HASHES)
        # As a base it is its file, and not one of the folder's name.
        self.run_cli("convert", self.new("one.espalier"), folder / "next.espalier", "--base", folder)
        self.assertIn("ok (5 tensors", self.text("verify", folder / "next.espalier"))
        self.assertNotIn("run", self.text("needs", folder / "next.espalier").splitlines())
        os.remove(folder / "next.espalier")
        self.assertEqual(self.text("needs", self.new("one.espalier")), "")
        for column, value in ((0, 6.0), (5, 11.0)):  # of two processes
            self.assertIn(f"{value:g}", self.text("show", folder, "model/columns", "--slice", f"1,{column}"))
        next(folder.glob("rank_1.*")).unlink()
        self.assertIn("file_missing", self.text("verify", folder, expect=INCOMPLETE))
        self.assertIn("7", self.text("show", folder, "step"))
        (folder / "index.espalier").unlink()
        self.run_cli("ls", folder, expect=BAD_INPUT)
        self.assertIn("this is a folder; it holds checkpoints; open one of them, such as rank_0.", self.stderr)

    def test_an_index_that_contradicts_its_files(self):
        foreign = pathlib.Path(__file__).resolve().parent.parent / "foreign"
        folder = pathlib.Path(shutil.copytree(foreign / "shards/model", self.new("model")))
        (index,) = folder.glob("*.index.json")
        self.assertNotIn("note", self.text("verify", index))
        content = json.loads(index.read_text())
        content["weight_map"]["gone"] = next(iter(content["weight_map"].values()))
        index.write_text(json.dumps(content))
        out = self.text("verify", index, expect=CHECK_FAILED)
        self.assertIn("DAMAGED (1 error)", out)
        self.assertIn("1 note:\n  loss: gone: the index says that this tensor is in ", out)
        self.assertEqual(self.json("verify", index, expect=CHECK_FAILED)["files"][0]["note_count"], 1)
        self.run_cli("convert", index, self.new("out.espalier"), expect=BAD_INPUT)

    def test_goes_on_after_a_bad_file(self):
        out = self.text("verify", self.new("none"), self.path("sample"), expect=IO)
        self.assertIn("sample.espalier: ok", out)


class BadInput(Cli):
    COMMANDS = (["ls"], ["tree"], ["stats"], ["verify"])

    def expect_all(self, file, code, message):
        for command in self.COMMANDS:
            self.run_cli(*command, file, expect=code)
            self.assertIn(message, self.stderr)
        self.run_cli("diff", file, self.path("sample"), expect=code)
        self.run_cli("diff", self.path("sample"), file, expect=code)
        self.run_cli("convert", file, self.new("out.espalier"), expect=code)
        self.run_cli("extract", file, "-o", self.new("out.espalier"), expect=code)

    def sample(self):
        with open(self.path("sample"), "rb") as file:
            return file.read()

    def test_missing(self):
        self.expect_all(self.new("none"), IO, "code file_not_found")

    def test_directory(self):
        self.expect_all(self.folder, BAD_INPUT, "code not_a_regular_file")

    def test_fifo_does_not_block(self):
        os.mkfifo(self.new("fifo"))
        self.expect_all(self.new("fifo"), BAD_INPUT, "code not_a_regular_file")

    def test_empty(self):
        self.expect_all(self.write(b""), BAD_INPUT, "the file is empty; nothing was ever written to it (code truncated")

    def test_garbage(self):
        self.expect_all(self.write(b"\x00" * 1000), BAD_INPUT, "code ")

    def test_other_formats(self):
        def zipped(name):
            contents = io.BytesIO()
            with zipfile.ZipFile(contents, "w") as archive:
                archive.writestr(name, bytes(100))
            return contents.getvalue()

        for content, what in {
                zipped("model.weights.h5"): "it is a Keras model", zipped("p/archive_format"): "it is a program of torch.export",
                zipped("serialized_exported_program.json"): "it is a program of torch.export",
                zipped("face.tflite"): "a task of MediaPipe", zipped("TF_LITE_PREFILL_DECODE"): "a task of MediaPipe",
                zipped("a.txt"): "it is a zip archive; unpack it first",
                b"\x28\xb5\x2f\xfd" + bytes(50): "zstd -dc", b"\xfd7zXZ\0" + bytes(50): "xz -dc",
                b"BZh9" + bytes(50): "bzip2 -dc", b"\x1f\x8b\x08" + bytes(50): "gzip -dc",
                b"\x04\x22\x4d\x18" + bytes(50): "lz4 -dc", b"name" + bytes(253) + b"ustar" + bytes(300): "tar -xf",
                # The signature of HDF5, where none may be.
                b"u" * 513 + b"\x89HDF\r\n\x1a\n" + bytes(50): "check that this is the right file",
                b"MATLAB 5.0 MAT-file" + b" " * 109 + bytes(50): "it is a file of MATLAB",
                b"PAR1" + bytes(50): "Parquet", b"ARROW1\0\0" + bytes(50): "Arrow",
                b"lmgg" + bytes(50): "it is a ggml file", b"fmgg\1\0\0\0" + bytes(50): "it is a ggml file",
                b"tjgg\3\0\0\0" + bytes(50): "it is a ggml file", b"algg\1\0\0\0" + bytes(50): "it is a ggml file",
                b"\x0c\xdb\x20\xde" + bytes(50): "it is a part of an Orbax checkpoint",
                b'{ "item_handlers": {}}': "it is a part of an Orbax checkpoint",
                b"\x18\0\0\0ORTM" + bytes(50): "it is a model in ONNX Runtime's own format",
                b"\x1c\0\0\0TFL3" + bytes(50): "it is a TensorFlow Lite model",
                b'model_checkpoint_path: "ckpt-1"\n': "it is a part of a TensorFlow checkpoint",
                b'{"error": 404}': "it looks like JSON", b'{"data":{"a":1}}': "it looks like JSON",
                b"<!DOCTYPE html>": "web page", b"\r\n <HTML lang='en'>": "web page", b"<?xml version='1.0'?>": "web page",
                b"<html>  {}": "web page",
                # The length of a header of 60 bytes or of 123, and no text.
                b"<" + bytes(7): "check that this is the right file", b"{" + bytes(7): "check that this is the right file",
                b"\x89PNG\r\n\x1a\n" + bytes(50): "it is an image", b"\xff\xd8\xff\xe0\0\x10JFIF" + bytes(50): "it is an image",
                b"GIF89a" + bytes(50): "it is an image",
                # As numbers, their first bytes fit the file.
                b"./" + bytes(255) + b"ustar" + bytes(20000): "tar -xf", b"\x1f\x8b\x08" + bytes(600_000): "gzip -dc",
                b"\x80": "check that this is the right file", b"class A {};": "check that this is the right file",
                b"version https://git-lfs.github.com/spec/v1\n": "git lfs pull",
                b"cat\ndog\nfox": "check that this is the right file",
                b"hello, world": "check that this is the right file"}.items():
            self.expect_all(self.write(content), BAD_INPUT, what)
            self.assertIn("no format that the library reads (Espalier, ", self.stderr)
            # What executes a file is no advice for a file of a stranger.
            self.assertNotRegex(self.stderr, r"load_model|saved_model\.load|joblib|allow_pickle|torch\.load|pickle\.load")
        for name, what in {"ckpt-1.index": "it is named as the index of a TensorFlow checkpoint and is none",
                           "ckpt-1.data-00000-of-00001": "it is a part of a TensorFlow checkpoint",
                           "saved_model.pb": "it is a graph of TensorFlow", "m.mlmodel": "it is a model of Core ML"}.items():
            pathlib.Path(self.new(name)).write_bytes(b"\0\0\x0e\x08\1" + bytes(50))
            self.expect_all(self.new(name), BAD_INPUT, what)
        # Zeros alone are what a download left; a shard of zeros is one by its name.
        pathlib.Path(self.new("ckpt-2.data-00000-of-00001")).write_bytes(bytes(1000))
        self.expect_all(self.new("ckpt-2.data-00000-of-00001"), BAD_INPUT, "it is a part of a TensorFlow checkpoint")
        self.expect_all(self.write(zipped("model/data.pkl")), BAD_INPUT, "the pickle is damaged")
        self.expect_all(self.write(b"\x80\x02cposix\nsystem\nX\x02\0\0\0idq\0\x85R."), BAD_INPUT,
                        "would call posix.system")
        self.expect_all(self.write(zipped("a.npy")[:-1]), BAD_INPUT, "the zip archive has no end record")
        self.expect_all(self.write(b"PK\x03\x04"), BAD_INPUT, "the zip archive has no end record")
        self.expect_all(self.write(b"\x93NUMPY" + bytes(50)), BAD_INPUT, "the .npy header has version 0")

    def test_truncated(self):
        content = self.sample()
        for size in (7, 127, 128, 500, len(content) - 1):
            self.run_cli("verify", self.write(content[:size]), expect=BAD_INPUT)

    def test_trailing_byte(self):
        self.expect_all(self.write(self.sample() + b"\0"), BAD_INPUT, "code trailing_bytes")

    def test_other_version_or_feature(self):
        content = bytearray(self.sample())
        content[8:10] = struct.pack("<H", 2)
        self.expect_all(self.write(bytes(content)), BAD_INPUT, "code unsupported_version")
        subprocess.run([MAKE_SAMPLE, self.new("feature"), "feature"], check=True)
        self.expect_all(self.new("feature"), BAD_INPUT, "code unsupported_feature, at byte 16")

    def test_names_in_messages_are_escaped(self):
        self.run_cli("ls", self.new("\x1b[31m\nred"), expect=IO)
        self.assertIn(r"\x1b[31m\nred", self.stderr)


class Usage(Cli):
    def test_mistakes(self):
        for args in ([], ["frob"], ["ls"], ["ls", "--frob"], ["show", "x"], ["diff", "a"],
                     ["ls", "x", "--threads", "many"], ["ls", "x", "--threads=-1"],
                     ["ls", "x", "--sort", "colour"], ["convert", "a", "b", "--to", "zip"]):
            self.run_cli(*args, expect=USAGE)
            self.assertIn("--help", self.stderr)

    def test_bad_requests(self):
        sample = self.path("sample")
        for args, code in {("ls", sample, "a//b"): "invalid_pattern",
                           ("ls", sample, "nothing_here"): "not_found",
                           ("stats", sample, "{a"): "invalid_pattern",
                           ("show", sample, "a//b"): "invalid_key_path",
                           ("diff", sample, sample, "nope/**"): "not_found",
                           ("extract", sample, "-o", self.new("o.espalier"), "nope"): "not_found",
                           ("extract", sample, "-o", self.new("o.espalier"), "--root", "nope"): "not_found",
                           ("convert", sample, self.new("out.zip")): "invalid_argument"}.items():
            self.run_cli(*args, expect=USAGE)
            self.assertIn("code " + code, self.stderr)
        self.assertEqual(os.listdir(self.folder), [])


class StandardOutput(Cli):
    def test_full_disk(self):
        for args in (["ls", self.path("sample")], ["verify", self.path("sample")], ["--help"],
                     ["diff", "--json", self.path("sample"), self.path("sample")]):
            with open("/dev/full", "wb") as full:
                self.run_cli(*args, expect=IO, stdout=full)
            self.assertIn("cannot write the results", self.stderr)

    def test_closed(self):
        done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", ESPALIER, "ls", self.path("sample")],
                              stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(done.returncode, IO)

    def test_broken_pipe_is_silent(self):
        subprocess.run([MAKE_SAMPLE, self.new("many"), "many:20000"], check=True)
        done = subprocess.run(["bash", "-c", '"$@" | head -1; exit ${PIPESTATUS[0]}', "bash", ESPALIER,
                               "ls", self.new("many")], capture_output=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (141, b""))
        self.assertEqual(done.stdout.count(b"\n"), 1)
        ignored = subprocess.run(["bash", "-c", 'trap "" PIPE; "$@" | head -1; exit ${PIPESTATUS[0]}',
                                  "bash", ESPALIER, "ls", self.new("many")],
                                 capture_output=True, timeout=60)
        self.assertEqual((ignored.returncode, ignored.stderr.count(b"espalier")), (141, 0))


class Memory(Cli):
    """A small file may name one tensor many times, at long paths; no command may hold that."""

    NODES = 6_000

    def setUp(self):
        super().setUp()
        self.file = self.new("ties.espalier")
        subprocess.run([MAKE_SAMPLE, self.file, f"ties:{self.NODES}"], check=True)
        self.assertLess(os.path.getsize(self.file), 250_000)
        self.limit = (64 << 20) * (10 if is_sanitized() else 1)  # The sanitizers take some themselves.

    def measure(self, *args, expect=OK):
        """The bytes of memory and of output that the program takes."""
        code, memory = measure(self.new("out"), *args)
        self.assertEqual(code, expect)
        return memory, os.path.getsize(self.new("out"))

    def test_commands_that_list(self):
        line = 16_000 + 550  # The node's own path, once, and all that is short.
        for args, longest in {("ls",): line, ("ls", "--json"): line, ("ls", "--long"): line,
                              ("ls", "--all", "--json", "--long"): line,
                              ("ls", "--sort", "path", "-r"): line, ("ls", "--sort", "size"): line,
                              ("stats",): line, ("stats", "--json"): line,
                              ("tree",): 500, ("tree", "--json"): line}.items():
            memory, size = self.measure(args[0], self.file, *args[1:])
            self.assertLess(memory, self.limit, args)
            self.assertLess(size, self.NODES * longest + 100_000, args)

    def test_all_nodes_of_one_tensor(self):
        path = "k" * 16000 + "/5999"
        for options in ([], ["--json"]):
            memory, size = self.measure("show", self.file, path, *options)
            self.assertLess(memory, self.limit)
            self.assertLess(size, (self.NODES / 2 + 1) * 16_100)
        text = self.text("show", self.file, path)
        self.assertEqual(text.count("\ntied: "), self.NODES / 2)

    def test_differences(self):
        other = self.new("other.espalier")
        subprocess.run([MAKE_SAMPLE, other, f"other-ties:{self.NODES}"], check=True)
        for options in ([], ["--json"]):
            memory, size = self.measure("diff", self.file, other, *options, expect=CHECK_FAILED)
            self.assertLess(memory, self.limit)
            self.assertLess(size, self.NODES * 3 * 16_500 + 100_000)

    def test_long_names_are_said_once(self):
        named, opaque, *others = self.json("ls", self.file, "*/{0,1,2,3}")["nodes"]
        self.assertEqual(named["axis_names"], ["r" * 8000, "c" * 8000])
        self.assertEqual(opaque["block"], {"name": "b" * 8000, "elements": 1, "bytes": 1})
        self.assertTrue(others[0]["axis_names"] is None)
        self.assertEqual(others[1]["block"], {"name": None, "elements": 1, "bytes": 1})
        self.assertEqual(others[0]["tensor"], named["tensor"])


class InflatedMemory(Cli):
    """A deflated entry is a thousand times as long as what is stored of it. None of these commands needs all of it at once."""

    SIDE = 8192

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({cls.SIDE}, {cls.SIDE})}}".ljust(117) + "\n"
        cls.file = os.path.join(cls.samples, "zeros.npz")
        with zipfile.ZipFile(cls.file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in ("a.npy", "b.npy"):
                with archive.open(name, "w", force_zip64=True) as entry:
                    entry.write(b"\x93NUMPY\1\0\x76\0" + header.encode())
                    for _ in range(cls.SIDE):
                        entry.write(bytes(4 * cls.SIDE))

    def test_commands(self):
        self.assertLess(os.path.getsize(self.file), 1 << 20)
        for args in (("verify", self.file), ("stats", self.file), ("doctor", self.file, "--strict"),
                     ("show", self.file, "a", "--slice", "0:2,0:2"), ("show", self.file, "b", "--slice", "8190:,0:2"),
                     ("convert", "-q", self.file, self.new("raw.safetensors")),
                     ("convert", "-q", self.file, self.new("packed.espalier"), "--compress"),
                     ("diff", self.file, self.file)):
            with self.subTest(args=args):
                code, memory = measure(self.new("out"), *args)
                self.assertIn(code, (OK, CHECK_FAILED) if args[0] == "doctor" else (OK,))
                # Of 512 MiB.
                self.assertLess(memory, (100 << 20) * (10 if is_sanitized() else 1))


class Diff(Cli):
    def differences(self, a, b, *options, expect=CHECK_FAILED):
        report = self.json("diff", self.path(a), self.path(b), *options, expect=expect)
        self.assertEqual(report["equal"], expect == OK)
        return [(d["tree"], d["path"], d["change"]) for d in report["differences"]], report

    def test_equal(self):
        self.assertEqual(self.differences("sample", "sample", expect=OK)[0], [])
        self.assertEqual(self.text("diff", self.path("sample"), self.path("sample")), EQUAL_BY_HASHES)

    def test_one_change_each(self):
        for name, expected in {
                "value": [("state", "optimizer/0/step", "value")],
                "order": [("state", "model", "key_order")],
                "untied": [("state", "model/head", "tie")],
                "metadata": [("metadata", "run", "value")],
                "extra": [("state", "extra", "only_in_b")]}.items():
            self.assertEqual(self.differences("sample", name)[0], expected)
        self.assertEqual(self.differences("extra", "sample")[0], [("state", "extra", "only_in_a")])

    def test_state_only(self):
        for name in ("order", "untied", "metadata"):
            self.differences("sample", name, "--state-only", expect=OK)
        self.differences("sample", "value", "--state-only")
        self.differences("sample", "metadata", "--no-metadata", expect=OK)

    def test_elements(self):
        changes, report = self.differences("sample", "element")
        self.assertEqual(changes, [("state", "model/embed", "data"), ("state", "model/head", "data")])
        first = report["differences"][0]
        self.assertEqual((first["differing_elements"], first["max_delta"], first["not_comparable"]),
                         (1, 0.5, 0))
        text = self.text("diff", self.path("sample"), self.path("element"), expect=CHECK_FAILED)
        self.assertEqual(text.splitlines()[0],
                         "~ model/embed: 1 of 12 elements differ, max |delta| 0.5")

    def test_extremes(self):
        for name in ("extremes", "extremes-negated"):
            subprocess.run([MAKE_SAMPLE, self.new(name), name], check=True)
        report = self.json("diff", self.new("extremes"), self.new("extremes-negated"), expect=CHECK_FAILED)
        deltas = {d["path"]: d["max_delta"] for d in report["differences"]}
        self.assertEqual(deltas["tiny"], 2e-300)
        self.assertEqual(deltas["tiny_beside_large"], 2e-300)
        self.assertEqual(deltas["complex"], 6e307)
        # Distances that no f64 holds, of elements that are finite all the same.
        self.assertEqual((deltas["max"], deltas["far"]), ("Infinity", "Infinity"))
        self.assertEqual([d["not_comparable"] for d in report["differences"]], [0] * len(deltas))

    def test_large(self):
        changes, report = self.differences("large", "large-changed")
        self.assertEqual(changes, [("state", "x", "data")])
        self.assertEqual(report["differences"][0]["max_delta"], 2 * 999999)

    def test_reads_only_chunks_that_differ(self):
        damaged = self.damaged("bad", self.data_offset("x", "large"), source="large")
        self.run_cli("diff", damaged, self.path("large-changed"), expect=CHECK_FAILED)
        damaged = self.damaged("bad", self.data_offset("x", "large") + 3_999_999, source="large")
        self.run_cli("diff", damaged, self.path("large-changed"), expect=BAD_INPUT)
        self.assertIn(damaged, self.stderr)
        self.run_cli("diff", self.path("large-changed"), damaged, expect=BAD_INPUT)
        self.assertIn(damaged, self.stderr)

    def test_patterns(self):
        self.differences("sample", "value", "model/**", expect=OK)
        self.assertEqual(self.differences("sample", "value", "**/step")[0],
                         [("state", "optimizer/0/step", "value")])
        self.assertEqual(self.differences("sample", "extra", "extra")[0],
                         [("state", "extra", "only_in_b")])

    def test_other_shapes(self):
        cut = self.new("cut.espalier")
        self.run_cli("extract", self.path("sample"), "-o", cut, "model", "--slice", "0:2")
        text = self.text("diff", self.path("sample"), cut, "model", expect=CHECK_FAILED)
        self.assertIn("~ model/embed: shape [4, 3] -> [2, 3]", text)

    def test_quiet(self):
        self.assertEqual(self.text("diff", "-q", self.path("sample"), self.path("value"),
                                   expect=CHECK_FAILED), "")


class SeveralFiles(Cli):
    """ls and stats of several files."""

    def test_text(self):
        for command in ("ls", "stats"):
            one, other = (self.text(command, self.path(name), "model") for name in ("sample", "element"))
            both = self.text(command, self.path("sample"), self.path("element"), "model")
            self.assertEqual(both, f"{self.path('sample')}:\n{one}\n{self.path('element')}:\n{other}")

    def test_json(self):
        for command in ("ls", "stats"):
            each = [self.json(command, self.path(name), "**/w") for name in ("sample", "element")]
            # Patterns and files may be mixed.
            self.assertEqual(self.json(command, self.path("sample"), "**/w", self.path("element")), {"files": each})

    def test_a_bad_file_does_not_stop_the_others(self):
        good = self.text("ls", self.path("sample"))
        for bad, code, name in ((self.new("none.espalier"), IO, "file_not_found"), (self.damaged("bad", 0), BAD_INPUT, "")):
            for files in ((self.path("sample"), bad), (bad, self.path("sample"))):
                text = self.text("ls", *files, expect=None)
                self.assertEqual(self.code, code)
                self.assertIn(good, text)
                self.assertTrue(self.stderr.startswith(f"espalier: {bad}: "), self.stderr)
                entries = self.json("ls", *files, expect=None)["files"]
                self.assertEqual([entry["file"] for entry in entries], list(files))
                self.assertIn(name, entries[files.index(bad)]["failure"]["code"])
        self.text("ls", self.path("sample"), self.path("extra"), "extra", "--all", expect=None)
        self.assertEqual(self.code, USAGE)
        self.assertIn("sample.espalier: ", self.stderr)

    def test_files_and_patterns_are_not_confused(self):
        shutil.copy(self.path("element"), self.new("model"))
        self.run_cli("ls", self.path("sample"), "model", expect=USAGE, cwd=self.folder)
        self.assertIn("model: this is a file here and a key path in", self.stderr)
        nodes = self.json("ls", self.path("sample"), "{model}", cwd=self.folder)["nodes"]
        self.assertEqual(len(nodes), 2)
        self.assertEqual(len(self.json("ls", self.path("sample"), "./model", cwd=self.folder)["files"]), 2)
        # A folder is a checkpoint, too, unless it has the name of a key, as many have.
        pathlib.Path(self.new("optimizer")).mkdir()
        self.assertIn("nodes", self.json("ls", self.path("sample"), "optimizer", cwd=self.folder))
        pathlib.Path(self.new("run")).mkdir()
        entries = self.json("ls", self.path("sample"), "run", cwd=self.folder, expect=None)["files"]
        self.assertEqual([entry["file"] for entry in entries], [self.path("sample"), "run"])
        # A file that is missing is no pattern, whatever its format; but a key may end like a file.
        endings = re.findall(r"(?<!with )\*(\.[.\w*]+)", self.text("help", "formats"))
        self.assertIn(".gguf", endings)
        for ending in endings:
            name = self.new("none" + ending.replace("*", "fp16"))
            for command in ("ls", "stats"):
                entries = self.json(command, self.path("sample"), name, "model", expect=None)["files"]
                self.assertEqual([entry.get("failure", {}).get("code") for entry in entries], [None, "file_not_found"], ending)
        key = self.new("keys.safetensors")
        header = json.dumps({"scale.bin": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}).encode()
        pathlib.Path(key).write_bytes(struct.pack("<Q", len(header)) + header + b"x")
        for pattern in ("scale.bin", "*.bin"):
            self.assertEqual([node["path"] for node in self.json("ls", key, pattern)["nodes"]], ["scale.bin"])
        # A folder is no file, and a name that does not exist is a pattern.
        os.mkdir(self.new("layers"))
        self.assertEqual(len(self.json("ls", self.path("sample"), "layers", cwd=self.folder)["nodes"]), 2)


class Tolerance(Cli):
    """numpy.allclose's rule, with equal NaNs."""

    def make(self, name, **tensors):
        header, blob = {}, b""
        for key, (dtype, shape, data) in tensors.items():
            header[key] = {"dtype": dtype, "shape": shape, "data_offsets": [len(blob), len(blob) + len(data)]}
            blob += data
        text = json.dumps(header).encode()
        with open(self.new(name), "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + blob)
        return self.new(name)

    def doubles(self, name, *values):
        return self.make(name, x=("F64", [len(values)], struct.pack(f"<{len(values)}d", *values)))

    def report(self, a, b, *options, expect=CHECK_FAILED):
        return self.json("diff", a, b, *options, expect=expect)

    def test_like_allclose(self):
        import numpy
        values = [0.0, -0.0, 1.0, 1.0 + 1e-7, -3.0, 1e300, -1e300, 1.7e308, -1.7e308, 5e-324, float("inf"),
                  float("-inf"), float("nan")]
        pairs = [(x, y) for x in values for y in values]
        a, b = ([pair[side] for pair in pairs] for side in (0, 1))
        one, other = self.doubles("a", *a), self.doubles("b", *b)
        for rtol, atol in ((0, 1e-6), (1e-6, 0), (1e-6, 1e-6), (0.5, 2), (3, 0)):
            with numpy.errstate(all="ignore"):
                far = ~numpy.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
            report = self.report(one, other, f"--rtol={rtol}", f"--atol={atol}")
            self.assertEqual((report["rtol"], report["atol"]), (rtol, atol))
            self.assertEqual(report["differences"][0]["differing_elements"], far.sum(), (rtol, atol))

    def test_b_is_the_reference(self):
        one, other = self.doubles("a", 100.0), self.doubles("b", 110.0)
        self.report(one, other, "--rtol=0.095", expect=OK)
        self.report(other, one, "--rtol=0.095")

    def test_other_dtypes(self):
        a = self.make("a", i=("I64", [2], struct.pack("<2q", 2**62, -5)), c=("C64", [1], struct.pack("<2f", 3, 4)),
                      u=("U64", [1], struct.pack("<Q", 2**64 - 1)), f=("F16", [1], struct.pack("<e", 1)))
        b = self.make("b", i=("I64", [2], struct.pack("<2q", 2**62 + 3, -5)), c=("C64", [1], struct.pack("<2f", 3, 5)),
                      u=("U64", [1], struct.pack("<Q", 2**64 - 2)), f=("F16", [1], struct.pack("<e", 1.001)))
        self.assertEqual(len(self.report(a, b)["differences"]), 4)
        self.assertEqual([d["path"] for d in self.report(a, b, "--atol=0.01")["differences"]], ["i", "c", "u"])
        self.assertEqual([d["path"] for d in self.report(a, b, "--atol=1")["differences"]], ["i"])
        self.report(a, b, "--atol=3", expect=OK)
        self.assertEqual(self.text("diff", a, b, "--rtol=0.2"), "equal\n")

    def test_values_and_the_rest(self):
        # A step of 100 and of 101; the structure is never close.
        self.run_cli("diff", self.path("sample"), self.path("value"), "--rtol", "0.05")
        self.run_cli("diff", self.path("sample"), self.path("value"), "--rtol", "0.001", expect=CHECK_FAILED)
        for name in ("order", "untied", "metadata", "extra"):
            self.run_cli("diff", self.path("sample"), self.path(name), "--atol", "1e300", expect=CHECK_FAILED)
        text = self.text("diff", self.path("sample"), self.path("element"), "--atol", "0.4", expect=CHECK_FAILED)
        self.assertIn("~ model/embed: 1 of 12 elements differ by more than the tolerance, max |delta| 0.5\n", text)
        self.assertEqual(self.text("diff", self.path("sample"), self.path("element"), "--atol", "0.5"), EQUAL_BY_HASHES)

    def test_bytes_alone_are_close(self):
        one, other = self.doubles("a", 0.0), self.doubles("b", -0.0)
        self.report(one, other)
        self.report(one, other, "--atol=1e-300", expect=OK)

    def test_mistakes(self):
        for option in ("--rtol=-1", "--atol=nan", "--rtol=inf", "--atol=x", "--atol="):
            self.run_cli("diff", self.path("sample"), self.path("sample"), option, expect=USAGE)


class Extract(Cli):
    def extract(self, *args, **options):
        self.out = self.new("out.espalier")
        self.text("extract", self.path("sample"), "-o", self.out, *args, **options)

    def nodes(self):
        return {n["path"]: n for n in self.json("ls", "--all", self.out)["nodes"]}

    def test_selection_keeps_paths_labels_ties_and_metadata(self):
        self.extract("model", "args/lr")
        nodes = self.nodes()
        self.assertEqual(list(nodes), ["", "model", "model/embed", "model/head", "args", "args/lr"])
        self.assertEqual(nodes["model"]["label"], "collections.OrderedDict")
        self.assertEqual(nodes["args"]["label"], "optax.ScaleByAdamState")
        self.assertEqual(nodes["model/embed"]["tensor"], nodes["model/head"]["tensor"])
        self.assertEqual(self.text("diff", self.path("sample"), self.out, "model"), EQUAL_BY_HASHES)
        self.assertEqual(self.text("show", self.out, "epoch", "--metadata"), "int64 3\n")
        self.assertIn(": ok (1 tensor,", self.text("verify", self.out))

    def test_lists_keep_positions(self):
        self.extract("layers/1/w")
        nodes = self.nodes()
        self.assertEqual(nodes["layers/0/w"]["kind"], "placeholder")
        self.assertEqual(nodes["layers/0/n"]["value"], 1)
        self.assertEqual(nodes["layers/1/w"]["kind"], "tensor")
        self.assertNotIn("layers/1/n", nodes)

    def test_sets_keep_only_what_is_selected(self):
        self.extract("seen/1")
        self.assertEqual([n["value"] for n in self.nodes().values() if "value" in n], ["two"])

    def test_slice(self):
        self.extract("optimizer/0", "model", "--slice=-1:,0")
        self.assertEqual(self.json("show", self.out, "optimizer/0/exp_avg")["node"]["values"], [[1160.0]])
        self.assertEqual(self.json("show", self.out, "model/head")["node"]["values"], [[9.0]])
        self.assertEqual(len(self.json("show", self.out, "model/head")["node"]["tied"]), 2)

    def test_slice_must_fit_all(self):
        self.extract("types/{f16,scalar}", "--slice", "0:1", expect=USAGE)
        self.assertIn("in types/scalar", self.stderr)

    def test_root(self):
        self.extract("--root", "layers/1", "--no-metadata")
        self.assertEqual(list(self.nodes()), ["", "w", "n"])
        self.assertEqual(self.json("tree", self.out, "--metadata")["tree"]["children"], [])
        self.extract("--root", "layers", "layers/*/n", "--force")
        self.assertEqual(list(self.nodes()), ["", "0", "0/n", "1", "1/n"])
        self.extract("--root", "layers", "model", "--force", expect=USAGE)

    def test_existing_target(self):
        self.extract("model")
        before = os.stat(self.out).st_mtime_ns
        self.extract("layers", expect=USAGE)
        self.assertIn("--force", self.stderr)
        self.assertEqual(os.stat(self.out).st_mtime_ns, before)
        self.extract("layers", "--force")
        self.assertEqual(self.text("extract", self.out, "-o", self.out, "layers/0", "-f", "-q"), "")
        self.assertEqual(self.json("ls", self.out)["nodes"][0]["path"], "layers/0/w")

    def test_damage_in_what_is_selected(self):
        file = self.damaged("bad", self.data_offset("layers/1/w"))
        self.run_cli("extract", file, "-o", self.new("out.espalier"), "layers", expect=BAD_INPUT)
        self.assertIn("bad: ", self.stderr)
        self.assertEqual(os.listdir(self.folder), ["bad"])
        self.run_cli("extract", file, "-o", self.new("out.espalier"), "model")

    def test_writing_fails(self):
        self.run_cli("extract", self.path("sample"), "-o", self.new("none/out.espalier"), "model", expect=IO)
        # Files of this process must not grow beyond a few bytes: a full disk. The signal that comes
        # with it would end the program with its temporary file left behind.
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        self.run_cli("extract", self.path("sample"), "-o", self.new("out.espalier"), "model", expect=IO,
                     preexec_fn=limit)
        self.assertEqual(os.listdir(self.folder), [])


class Convert(Cli):
    def test_is_the_identity(self):
        for name in ("sample", "large"):
            out = self.new(name + ".espalier")
            for options in (["--no-mmap", "--threads", "3"], ["--force"]):
                self.text("convert", self.path(name), out, *options)
                with open(self.path(name), "rb") as a, open(out, "rb") as b:
                    self.assertEqual(a.read(), b.read())

    def test_json(self):
        out = self.new("a.espalier")
        result = self.json("convert", self.path("sample"), out, "--no-sync")
        self.assertEqual(result, {"file": self.path("sample"), "written": out,
                                  "bytes": os.path.getsize(out), "left_out": 0, "incomplete": False})

    def test_target_that_is_a_link(self):
        os.symlink("none", self.new("link"))
        self.run_cli("convert", self.path("sample"), self.new("link"), "--to", "espalier", expect=USAGE)
        self.assertIn("this is a symbolic link; --force writes to the file that it names", self.stderr)
        self.run_cli("convert", self.path("sample"), self.new("link"), "--to", "espalier", "--force")
        self.assertTrue(os.path.islink(self.new("link")))
        size = os.path.getsize(self.new("none"))
        # The link of a descriptor goes on to name the old file.
        for options in ([], ["--compress"]):
            with open(self.new("old"), "wb") as old:
                target = f"/proc/self/fd/{old.fileno()}"
                result = self.json("convert", self.path("sample"), target, "--to", "espalier", "--force", *options,
                                   pass_fds=[old.fileno()])
            self.assertEqual(result["bytes"], os.path.getsize(self.new("old")))
        self.assertNotEqual(result["bytes"], size)

    def test_format(self):
        self.run_cli("convert", self.path("sample"), self.new("out"), "--to", "espalier")
        self.run_cli("verify", self.new("out"))

    def test_target_that_is_no_file(self):
        os.mkfifo(self.new("fifo"))
        os.symlink("fifo", self.new("link"))
        with tempfile.TemporaryFile() as nameless:
            for target in (self.new("none/"), self.new("fifo"), self.new("link"), "/dev/null",
                           f"/proc/self/fd/{nameless.fileno()}"):
                for command in ("convert", "extract"):
                    self.run_cli(command, "--to", "espalier", self.path("sample"), "-o", target, "--force", expect=USAGE,
                                 pass_fds=[nameless.fileno()])
                    self.assertTrue(self.stderr.startswith(f"espalier: {target}: "), self.stderr)
        # Nothing is read before, and the message has no useless hint.
        self.run_cli("convert", self.new("none"), self.new("fifo"), "--to", "espalier", expect=USAGE)
        self.assertIn("not a regular file", self.stderr)


class Patterns(Cli):
    def test_diff_below_containers_of_different_kinds(self):
        a, b = self.new("a.espalier"), self.new("b.espalier")
        self.text("extract", self.path("sample"), "-o", a, "--root", "layers")
        self.text("extract", self.path("sample"), "-o", b, "--root", "betas")
        self.assertIn("1 difference", self.text("diff", a, b, "0", expect=CHECK_FAILED))

    def test_empty_names(self):
        """The empty key path is the root; an empty file name is a mistake of a script."""
        sample = self.path("sample")
        self.assertEqual(self.text("ls", sample, ""), self.text("ls", sample))
        self.assertEqual(self.text("stats", sample, ""), self.text("stats", sample))
        self.assertEqual(self.text("tree", sample, ""), self.text("tree", sample))
        self.assertTrue(self.text("show", sample, "").startswith("state: dict"))
        self.text("extract", sample, "-o", self.new("all.espalier"), "", "--root", "")
        self.assertEqual(self.text("diff", sample, self.new("all.espalier"), ""), EQUAL_BY_HASHES)
        for args in (["ls", ""], ["ls", "", ""], ["verify", ""], ["diff", sample, ""], ["diff", "", sample],
                     ["extract", sample, "-o", ""], ["extract", sample, "-o", "", ""], ["convert", sample, ""],
                     ["convert", "", self.new("out.espalier")]):
            self.run_cli(*args, expect=USAGE)
            self.assertIn("name is empty", self.stderr)
            self.assertIn("code invalid_argument", self.stderr)

    def test_dash_is_no_file_name(self):
        sample = self.path("sample")
        for args in (["extract", sample, "-o", "-"], ["extract", sample, "model", "-f", "-o", "-"],
                     ["convert", sample, "-"], ["convert", sample, "-", "--to", "espalier"]):
            self.run_cli(*args, expect=USAGE, cwd=self.folder)
            self.assertIn("standard output is not supported", self.stderr)
            self.assertIn("./-", self.stderr)
        self.run_cli("ls", "-", expect=USAGE, cwd=self.folder)
        self.assertIn("standard input is not supported", self.stderr)
        self.assertEqual(os.listdir(self.folder), [])
        self.text("extract", sample, "-o", "./-", "--to", "espalier", cwd=self.folder)
        self.assertEqual(self.text("ls", "./-", cwd=self.folder), self.text("ls", sample))

    def test_patterns_that_are_key_paths_say_what_is_there(self):
        sample, out = self.path("sample"), self.new("out.espalier")
        for args in (["ls", sample], ["stats", sample], ["extract", sample, "-o", out], ["diff", sample, sample]):
            self.run_cli(*args, "model", "layers/~20", expect=USAGE)
            self.assertIn("did you mean 'layers/0', the int key?", self.stderr)
            self.assertIn("code not_found, in layers/~20)", self.stderr)
            self.run_cli(*args, "optimizer/~20/x", expect=USAGE)
            self.assertIn("'optimizer/~20' is a string", self.stderr)
            self.run_cli(*args, "layers/?/~20", expect=USAGE)
            self.assertIn("pattern 'layers/?/~20'", self.stderr)
        # It exists, but not below the new root.
        self.run_cli("extract", sample, "-o", out, "--root", "layers", "model", expect=USAGE)
        self.assertIn("pattern 'model'", self.stderr)
        # Nodes in only one of the two are compared too.
        self.text("diff", sample, self.path("extra"), "extra", expect=CHECK_FAILED)

    def test_paths_as_people_type_them(self):
        file = self.new("nested.espalier")
        self.text("convert", os.path.join(Safetensors.DATA, "digits", "digits.safetensors"), file, "--nest")
        path = "model/layers/8/weight"
        shown, listed = self.text("show", file, path), self.text("ls", file, path)
        self.assertIn("  " + path + "\n", listed)
        for typed in ("/model/layers/8/weight", "model/layers/8/weight/", "model/layers/~28/weight",
                      "model.layers.8.weight", "model/layers.8/weight"):
            self.assertEqual(self.text("show", file, typed), shown, typed)
            for command in ("ls", "tree", "stats"):
                self.assertEqual(self.text(command, file, typed), self.text(command, file, path), typed)
            self.assertEqual(self.text("diff", file, file, typed), EQUAL_BY_HASHES)
            out, root = self.new("out.espalier"), self.new("root.espalier")
            self.text("extract", file, "-o", out, typed, "--force")
            self.assertIn(path, self.text("ls", out))
            self.text("extract", file, "-o", root, "--root", typed.rstrip("/")[:-len("/weight")], "--force")
            self.assertIn("  weight\n", self.text("ls", root))
        self.assertEqual(self.text("ls", file, "/model/layers/{8,10}/weight/").count("weight"), 2)
        self.assertEqual(self.text("ls", file, "/"), self.text("ls", file))

    def test_one_thing_is_singular(self):
        sample = self.path("sample")
        for path, spec, message in (("types/scalar", "0", "has 1 part and the tensor has 0 axes"),
                                    ("types/i8", "0,0", "has 2 parts and the tensor has 1 axis"),
                                    ("types/i8", "9", "which has 3 elements")):
            self.run_cli("show", sample, path, "--slice", spec, expect=USAGE)
            self.assertIn(message + " (", self.stderr)
        with open(sample, "rb") as file:
            content = file.read()
        for more, message in ((b"x", "goes on for 1 byte after"), (b"xx", "goes on for 2 bytes after")):
            with open(self.new("longer"), "wb") as file:
                file.write(content + more)
            self.run_cli("ls", self.new("longer"), expect=BAD_INPUT)
            self.assertIn(message, self.stderr)

    def test_long_paths_in_messages_are_shortened(self):
        path = "/".join(["segment"] * 50)
        for args in (["show", self.path("sample"), path], ["ls", self.path("sample"), path]):
            self.run_cli(*args, expect=USAGE)
            self.assertRegex(self.stderr, r", in segment/segment/.*\[\.\.\.\].*/segment\)\n")
            self.assertLess(len(self.stderr), 500)
        self.run_cli("ls", self.path("sample"), "x" * 5000, expect=USAGE)
        self.assertLess(len(self.stderr), 2000)

    def test_other_spelling_of_a_key(self):
        self.run_cli("show", self.path("sample"), "optimizer/~21", expect=USAGE)
        self.assertNotIn("did you mean", self.stderr)
        self.run_cli("show", self.path("sample"), "optimizer/0/~20", expect=USAGE)
        self.run_cli("show", self.path("sample"), "layers/~20", expect=USAGE)
        self.assertIn("did you mean 'layers/0', the int key?", self.stderr)

    def test_extract_writes_the_format_of_the_name(self):
        out = self.new("out.safetensors")
        self.text("extract", self.path("sample"), "-o", out, "model", "--unrepresentable", "drop")
        self.assertIn("no hashes", self.text("verify", out))

    def test_foreign_files_are_named(self):
        for content, what in ((b"PK\x03\x04" + bytes(60), "zip"), (b"7z\xbc\xaf\x27\x1c" + bytes(60), "7z"),
                              (b"\x1f\x8b\x08" + bytes(60), "gzip"), (b"\x80\x04\x95" + b"p" * 60, "pickle"),
                              (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
                              (b"<!DOCTYPE html><title>404</title>", "web page"),
                              (b'{"error": "not found"}', "JSON"), (b"hello, world" * 9, "right file")):
            with open(self.new("foreign"), "wb") as file:
                file.write(content)
            self.run_cli("ls", self.new("foreign"), expect=BAD_INPUT)
            self.assertIn(what, self.stderr)


# Sanitizers map terabytes of their own, so the limit would stop them; other builds have this test.
if not is_sanitized():

    class AddressSpace(Cli):
        def test_a_file_that_does_not_fit(self):
            subprocess.run([MAKE_SAMPLE, self.new("zeros"), "zeros:3"], check=True)
            limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
            # Not the file's fault: no damage that `verify` found.
            for command in ("ls", "verify"):
                self.run_cli(command, self.new("zeros"), expect=OUT_OF_MEMORY, preexec_fn=limit)
                self.assertIn("cannot map the file: there is not enough address space", self.stderr)
                self.assertIn("--no-mmap reads it instead", self.stderr)
            self.run_cli("ls", self.new("zeros"), "--no-mmap", preexec_fn=limit)


class Safetensors(Cli):
    DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data")

    def real_files(self):
        """Files that the public package wrote."""
        for folder in ("digits", "safetensors"):
            for name in sorted(os.listdir(os.path.join(self.DATA, folder))):
                if name.endswith(".safetensors"):
                    yield os.path.join(self.DATA, folder, name)

    def same_bytes(self, a, b):
        with open(a, "rb") as left, open(b, "rb") as right:
            self.assertEqual(left.read(), right.read(), f"{a} and {b}")

    def test_there_and_back_is_the_identity(self):
        count = 0
        for path in self.real_files():
            there, back = self.new("there.espalier"), self.new("back.safetensors")
            self.text("convert", path, there, "--force")
            self.text("verify", there)
            self.text("diff", path, there)
            self.text("convert", there, back, "--force")
            self.same_bytes(path, back)
            count += 1
        self.assertGreaterEqual(count, 5)

    def test_nested_there_and_back_is_the_identity(self):
        path = os.path.join(self.DATA, "digits", "digits.safetensors")
        there, back = self.new("there.espalier"), self.new("back.safetensors")
        self.text("convert", path, there, "--nest", "--force")
        self.assertEqual(len(self.json("ls", there, "optimizer/state/0")["nodes"]), 3)
        self.text("convert", there, back, "--force")
        self.same_bytes(path, back)

    def test_reading_commands(self):
        path = os.path.join(self.DATA, "digits", "digits.safetensors")
        later = os.path.join(self.DATA, "digits", "digits-later.safetensors")
        name = "model.layers.1.bias"
        self.assertIn(name, self.text("ls", path))
        self.assertIn(name, self.text("tree", path))
        self.assertIn("f32 [16]", self.text("show", path, name))
        self.assertIn(name, self.text("stats", path))
        self.assertIn("no hashes", self.text("verify", path))
        self.assertIn(name, self.text("diff", path, later, expect=CHECK_FAILED))
        out = self.new("cut.espalier")
        self.text("extract", path, "-o", out, "model.*")
        self.text("diff", path, out, "model.*")

    def test_reading_nested(self):
        path = os.path.join(self.DATA, "digits", "digits.safetensors")
        layer = "model/layers/1"
        self.assertIn(layer + "/bias", self.text("ls", path, "--nest", layer))
        self.assertIn("f32 [16]", self.text("show", path, layer + "/bias", "--nest"))
        self.run_cli("ls", path, layer, expect=USAGE)
        # It is the tree that converting makes, and the names are those of the file.
        there, out = self.new("there.espalier"), self.new("out.safetensors")
        self.text("convert", path, there, "--nest", "--force")
        self.text("diff", path, there, "--nest")
        self.text("extract", path, "-o", out, layer, "--nest", "--force")
        self.assertIn("model.layers.1.bias", self.text("ls", out))
        # A file that stores dotted names nests too, and is not changed.
        flat = self.new("flat.espalier")
        self.text("convert", path, flat, "--force")
        self.text("diff", flat, there, "--nest")
        self.assertIn(": ok ", self.text("verify", flat, "--nest"))

    def test_unrepresentable(self):
        out = self.new("out.safetensors")
        self.run_cli("convert", self.path("sample"), out, expect=USAGE)
        self.assertIn("--unrepresentable=metadata", self.stderr)
        self.assertNotIn("kMetadata", self.stderr)
        self.assertFalse(os.path.exists(out))
        self.assertNotIn("--no-metadata", self.stderr)
        text = self.text("convert", self.path("sample"), out, "--unrepresentable", "drop")
        self.assertIn("not kept", text)
        text = self.text("extract", self.path("sample"), "-o", out, "optimizer", "--unrepresentable", "drop", "--force")
        # Its tensors are there.
        self.assertIn("optimizer (int keys become text)", text)

    def test_metadata_alone_does_not_fit(self):
        args = ("extract", self.path("sample"), "-o", self.new("out.safetensors"), "types/u8")
        self.run_cli(*args, expect=USAGE)
        self.assertIn("only metadata does not fit, so --no-metadata helps, too", self.stderr)
        self.assertNotIn("not kept", self.text(*args, "--no-metadata"))

    def test_names_beyond_the_safetensors_header(self):
        """No choice of --unrepresentable makes names shorter, so the error must not offer one."""
        path = self.new("ties.espalier")
        subprocess.run([MAKE_SAMPLE, path, "ties:6300"], check=True)
        self.run_cli("convert", path, self.new("out.safetensors"), expect=USAGE)
        self.assertIn("split the state into several files", self.stderr)
        self.assertNotIn("--unrepresentable", self.stderr)

    def test_carried_tree(self):
        carried, back = self.new("carried.safetensors"), self.new("back.espalier")
        self.text("convert", self.path("sample"), carried, "--unrepresentable", "metadata")
        self.text("convert", carried, back)
        self.same_bytes(self.path("sample"), back)
        flat = self.new("flat.espalier")
        self.text("convert", carried, flat, "--flat", "--no-metadata")
        self.assertNotIn("espalier.tree", self.text("tree", flat))
        self.assertIn("espalier.tree", self.text("tree", carried))
        again = self.new("again.safetensors")
        self.text("convert", carried, again)
        self.same_bytes(carried, again)

    def test_carried_tree_that_cannot_be_written(self):
        """Some of it only the writer finds; it is the source's fault all the same."""
        entry = {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}
        for wrong in ({"kind": "set", "items": [1, 1]}, {"kind": "dict", "items": [["a", 1], ["a", 2]]},
                      {"kind": "dict", "items": [["k" * 20_000, 1]]}):
            state = {"kind": "list", "items": [{"kind": "tensor", "name": "t"}, wrong]}
            tree = json.dumps({"version": 1, "state": state})
            header = json.dumps({"__metadata__": {"espalier.tree": tree}, "t": entry}).encode()
            with open(self.new("carried.safetensors"), "wb") as file:
                file.write(struct.pack("<Q", len(header)) + header)
            self.run_cli("convert", self.new("carried.safetensors"), self.new("out.espalier"),
                         expect=BAD_INPUT)
            self.assertIn("carried.safetensors: ", self.stderr)
            self.assertIn("--flat", self.stderr)
            self.assertIn("code safetensors_invalid", self.stderr)
            self.text("convert", "--flat", "-f", self.new("carried.safetensors"), self.new("flat.espalier"))
            self.assertEqual(sorted(os.listdir(self.folder)), ["carried.safetensors", "flat.espalier"])

    def test_damaged(self):
        path = os.path.join(self.DATA, "digits", "digits.safetensors")
        with open(path, "rb") as file:
            whole = file.read()
        bad = [whole[:size] for size in (0, 1, 7, 8, 9, 100, len(whole) - 1)] + [whole + b"x"]
        for content in bad:
            with open(self.new("bad"), "wb") as file:
                file.write(content)
            self.run_cli("ls", self.new("bad"), expect=BAD_INPUT)


class Compression(Cli):
    """The contents of a file do not depend on its compression."""

    DIGITS = os.path.join(Safetensors.DATA, "digits", "digits.safetensors")
    WEIGHT = "model.layers.0.weight"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, source, options in (("digits", cls.DIGITS, []), ("digits-1", cls.DIGITS, ["--compress"]),
                                      ("digits-9", cls.DIGITS, ["--compress=9"]),
                                      ("sample-1", cls.path("sample"), ["--compress"]),
                                      ("large-1", cls.path("large"), ["--compress=1"])):
            subprocess.run([ESPALIER, "convert", source, cls.path(name), *options], check=True,
                           stdout=subprocess.DEVNULL)

    PAIRS = (("digits", "digits-1"), ("digits", "digits-9"), ("sample", "sample-1"), ("large", "large-1"))

    def size(self, name):
        return os.path.getsize(self.path(name))

    def codecs(self, file):
        return {node["path"]: node["codec"] for node in self.json("ls", "--long", file)["nodes"]}

    def assert_same_file(self, a, b):
        with open(a, "rb") as left, open(b, "rb") as right:
            self.assertTrue(left.read() == right.read(), f"{a} and {b}")

    def test_levels(self):
        self.assertLess(self.size("digits-1"), self.size("digits") * 0.9)
        self.assertLess(self.size("digits-9"), self.size("digits-1"))
        self.assertLess(self.size("large-1"), self.size("large") * 0.9)
        for level in "19":
            out = self.new(level)
            written = self.json("convert", self.DIGITS, out, "--to=espalier", f"--compress={level}")
            self.assertEqual(written["bytes"], self.size("digits-" + level))
            self.assert_same_file(out, self.path("digits-" + level))

    def test_threads_change_nothing(self):
        for threads in ("1", "3"):
            out = self.new(threads + ".espalier")
            self.text("convert", self.path("large"), out, "--compress", "--threads", threads)
            self.assert_same_file(out, self.path("large-1"))

    def test_level_0_compresses_nothing(self):
        for command in ("convert", "extract"):
            self.text(command, self.DIGITS, "-o", self.new(command + "-0.espalier"), "--compress=0")
            self.text(command, self.DIGITS, "-o", self.new(command + ".espalier"))
            self.assert_same_file(self.new(command + "-0.espalier"), self.new(command + ".espalier"))

    def test_mistakes(self):
        for command in ("convert", "extract"):
            for level in ("", "10", "-1", "x", "1x"):
                self.run_cli(command, self.DIGITS, "-o", self.new("out.espalier"), f"--compress={level}", expect=USAGE)
            for target in (["out.safetensors"], ["out", "--to=safetensors"]):
                self.run_cli(command, self.DIGITS, "-o", self.new(target[0]), *target[1:], "--compress", expect=USAGE)
                self.assertIn("safetensors files are never compressed", self.stderr)
                self.assertIn("code invalid_argument", self.stderr)
        self.assertEqual(os.listdir(self.folder), [])

    def test_codecs_are_listed(self):
        self.assertEqual(set(self.codecs(self.path("digits")).values()), {"raw"})
        codecs = self.codecs(self.path("digits-1"))
        self.assertEqual(set(codecs.values()), {"raw", "zstd", "planes"})
        self.assertEqual(codecs[self.WEIGHT], "planes")
        self.assertIn("  planes  ", self.text("ls", "-l", self.path("digits-1"), self.WEIGHT))

    def test_several_codecs_in_one_tensor(self):
        self.assertEqual(self.codecs(self.mixed())["x"], "raw+zstd")
        self.assertIn("  raw+zstd  ", self.text("ls", "-l", self.mixed()))
        self.text("verify", self.mixed())

    def mixed(self):
        """A tensor of three chunks: noise, text, noise."""
        noise = random.Random(1).randbytes(1 << 20)
        data = noise + (b"a vine on a wall; " * 60_000)[:1 << 20] + noise[:1000]
        header = json.dumps({"x": {"dtype": "U8", "shape": [len(data)], "data_offsets": [0, len(data)]}})
        with open(self.new("mixed.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header.encode() + data)
        self.text("convert", "-f", self.new("mixed.safetensors"), self.new("mixed.espalier"), "--compress=5")
        return self.new("mixed.espalier")

    def test_same_answers(self):
        def answers(file):
            verdict = self.json("verify", file)["files"][0]
            del verdict["file"]
            return (verdict, self.text("stats", file), self.text("tree", file), self.text("ls", file))

        for plain, packed in self.PAIRS:
            plain, packed = self.path(plain), self.path(packed)
            expected, found = answers(plain), answers(packed)
            for key in expected[0].keys() | found[0].keys():
                if "bytes" not in key and "time" not in key and "second" not in key:
                    self.assertEqual(found[0].get(key), expected[0].get(key), key)
            self.assertEqual(found[1:], expected[1:])
            for options in ([], ["--no-mmap"], ["--threads=3"]):
                self.assertEqual(self.text("diff", plain, packed, *options), EQUAL_BY_HASHES)
                self.assertEqual(self.text("diff", packed, plain, *options), EQUAL_BY_HASHES)

    def test_show(self):
        for plain, packed in self.PAIRS[1:]:
            plain, packed = self.path(plain), self.path(packed)
            paths = [node["path"] for node in self.json("ls", plain)["nodes"] if node["kind"] == "tensor"]
            for path in paths[:8]:
                self.assertEqual(self.text("show", packed, path), self.text("show", plain, path))
        # Across the end of a chunk, and with steps.
        for part in ("262140:262150", "-3:", "0:1000000:250000"):
            show = [self.text("show", self.path(name), "x", "--slice", part) for name in ("large", "large-1")]
            self.assertEqual(*show)

    def test_diff_finds_what_differs(self):
        for a, b in (("large-1", "large-changed"), ("large-changed", "large-1")):
            report = self.json("diff", self.path(a), self.path(b), expect=CHECK_FAILED)
            self.assertEqual([d["path"] for d in report["differences"]], ["x"])
            self.assertEqual(report["differences"][0]["max_delta"], 2 * 999999)

    def test_extract(self):
        for options in (["x", "--slice", "262140:300000"], ["six"], []):
            outs = []
            for source in ("large", "large-1"):
                for level in ([], ["--compress=1"]):
                    out = self.new(f"{source}{len(level)}.espalier")
                    self.text("extract", self.path(source), "-o", out, *options, *level, "--force")
                    self.text("verify", out)
                    outs.append(out)
            # The source's codecs do not affect the output.
            self.assert_same_file(outs[0], outs[2])
            self.assert_same_file(outs[1], outs[3])
            self.text("diff", outs[0], outs[1])
        self.assertLess(os.path.getsize(outs[1]), os.path.getsize(outs[0]))

    def test_back(self):
        for name in ("digits-1", "digits-9"):
            back = self.new(name + ".safetensors")
            self.text("convert", self.path(name), back)
            self.assert_same_file(back, self.DIGITS)
        for plain, packed in self.PAIRS:
            out = self.new("out.espalier")
            self.text("convert", self.path(packed), out, "--force")
            self.assert_same_file(out, self.path(plain))

    def test_damage(self):
        node = self.json("ls", "--long", self.path("digits-1"), self.WEIGHT)["nodes"][0]
        for at in (0, 15, 16, 100, 300):
            file = self.damaged("bad", node["offset"] + at, source="digits-1")
            error, = self.json("verify", file, expect=CHECK_FAILED)["files"][0]["errors"]
            self.assertEqual((error["code"], error["offset"], error["path"]),
                             ("chunk_corrupt", node["offset"], self.WEIGHT))
            self.assertIn(f"at byte {node['offset']}", self.text("verify", file, expect=CHECK_FAILED))
            for args in (["show", file, self.WEIGHT], ["stats", file], ["convert", file, self.new("out.espalier")]):
                self.run_cli(*args, expect=BAD_INPUT)
                self.assertIn(f"code chunk_corrupt, at byte {node['offset']}, in {self.WEIGHT}", self.stderr)
            self.text("show", file, "model.layers.0.bias")
        self.assertEqual(os.listdir(self.folder), ["bad"])


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
    import report
    sys.exit(report.main())
