"""Runs the commands that write files: formats, numpy's files, casts, what is left out.

Usage: ESPALIER=path/to/espalier MAKE_SAMPLE=path/to/make_sample python3 test_write.py
"""

import io
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import unittest

import numpy

import test_cli
from test_cli import BAD_INPUT, CHECK_FAILED, EQUAL_BY_HASHES, IO, OK, USAGE

DIGITS = os.path.join(test_cli.Safetensors.DATA, "digits", "digits.safetensors")


def safetensors(tensors, metadata=None):
    """The bytes of a file with these (name, dtype, shape, data), in this order."""
    header, blob = {}, b""
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, dtype, shape, data in tensors:
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(blob), len(blob) + len(data)]}
        blob += data
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + blob


class Writing(test_cli.Cli):
    def write(self, name, content):
        with open(self.new(name), "wb") as file:
            file.write(content)
        return self.new(name)

    def read(self, name):
        with open(self.new(name), "rb") as file:
            return file.read()

    def files(self):
        return sorted(os.listdir(self.folder))


class Formats(Writing):
    def test_endings(self):
        for ending, magic in ((".espalier", b"\x89ESPALIER"), (".safetensors", None), (".npy", b"\x93NUMPY"),
                              (".raw", None), (".bin", None), (".NPY", b"\x93NUMPY")):
            for command in (["extract", self.path("sample"), "types/f32", "-o", self.new("w" + ending)],
                            ["convert", self.write("one.safetensors", safetensors([("t", "F32", [1], b"abcd")])),
                             self.new("c" + ending)]):
                self.text(*command, "--unrepresentable=drop", "-f")
                if magic:
                    self.assertEqual(self.read(os.path.basename(command[-1]))[:len(magic)][1:4], magic[1:4])
        self.assertEqual(self.read("w.raw"), self.read("w.bin"))
        self.assertEqual(len(self.read("w.raw")), 24)
        self.assertIn("no hashes", self.text("verify", self.new("w.safetensors")))

    def test_to_wins(self):
        self.text("extract", self.path("sample"), "-o", self.new("w.npy"), "types/f32", "--to", "raw")
        self.assertEqual(len(self.read("w.npy")), 24)
        self.text("convert", self.path("sample"), self.new("w.safetensors"), "--to", "espalier")
        self.assertIn(": ok ", self.text("verify", self.new("w.safetensors")))

    def test_unknown_endings_are_refused(self):
        for command in ("extract", "convert"):
            for name in ("out", "out.ckpt", "out.npy.gz", ".npy"):
                self.run_cli(command, self.path("sample"), "-o", self.new(name), expect=USAGE)
                for known in (".espalier", ".safetensors", ".npy", ".raw", ".bin", "--to"):
                    self.assertIn(known, self.stderr)
                self.assertIn("code invalid_argument", self.stderr)
            self.run_cli(command, self.path("sample"), "-o", self.new("out.pt"), expect=USAGE)
            self.assertIn("a PyTorch file", self.stderr)
        self.assertEqual(self.files(), [])

    def test_a_missing_target_is_noticed(self):
        for pattern in ("model/**", "model", "layers/0/w", "{model,layers}"):
            self.run_cli("extract", self.path("sample"), pattern, "betas", expect=USAGE, cwd=self.folder)
            self.assertIn(f"{pattern}: OUT is missing: this is a pattern", self.stderr)
            # Nor does --to make it a name.
            for more in ((), ("betas",)):
                self.run_cli("extract", self.path("sample"), pattern, *more, "--to", "espalier", "-q", expect=USAGE, cwd=self.folder)
                self.assertIn(f"{pattern}: OUT is missing: this is a pattern", self.stderr)
        for command in ("extract", "convert"):
            self.run_cli(command, self.path("sample"), expect=USAGE)
            self.assertRegex(self.stderr, "OUT is (required|missing)")
        self.assertEqual(self.files(), [])


    def test_every_command_that_writes_takes_its_output_by_o(self):
        writing = set()
        for command in self.text("man", "--list").split():
            usage = self.text("help", command)
            if "Replace OUT if it exists" in " ".join(usage.split()):
                writing.add(command)
                self.assertIn("-o, --output OUT", usage)
        self.assertEqual(writing, {"extract", "convert", "delta", "flatten", "merge", "map", "index", "fold", "rebase"})

    def test_usage_says_how_many_names_are_meant(self):
        for command, names in (("flatten", "IN OUT"), ("fold", "FILE OUT"), ("rebase", "FILE --onto BASE -o OUT"), ("merge", "A B... OUT")):
            self.assertIn(f"Usage: espalier {command} [OPTIONS] {names}\n", self.text("help", command))
        self.run_cli("rebase", "a", "b", "--onto", "c", "-o", "d", expect=USAGE)
        self.assertIn("an argument too many", self.stderr)

    def test_old_forms_work_and_say_so(self):
        new, old, sample = self.new("new.espalier"), self.new("old.espalier"), self.path("sample")
        self.text("extract", sample, "model/**", "args", "-o", new)
        self.run_cli("extract", sample, old, "model/**", "args", expect=None)
        self.assertEqual(self.code, OK)
        self.assertRegex(self.stderr, r"\Aespalier: [^\n]+; write -o OUT\n\Z")
        self.assertEqual(self.read("old.espalier"), self.read("new.espalier"))
        self.run_cli("extract", sample, old, "model", "--quiet", "--force", expect=None)
        self.assertEqual(self.code, OK)
        self.assertRegex(self.stderr, r"\Aespalier: [^\n]+; write -o OUT\n\Z")


class Numpy(Writing):
    DTYPES = {"BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32",
              "I32": "int32", "U64": "uint64", "I64": "int64", "F16": "float16", "F32": "float32", "F64": "float64",
              "C64": "complex64"}

    def test_every_dtype_and_rank(self):
        for name, dtype in self.DTYPES.items():
            for shape in ((), (3,), (2, 3), (0, 4), (1,) * 20):
                data = bytes(i % 2 for i in range(int(numpy.prod(shape)) * numpy.dtype(dtype).itemsize))
                source = self.write("in.safetensors", safetensors([("a.b", name, shape, data)], {"k": "v"}))
                text = self.text("convert", source, self.new("out.npy"), "--force")
                array = numpy.load(self.new("out.npy"), allow_pickle=False)
                self.assertEqual((array.dtype, array.shape, array.tobytes()), (numpy.dtype(dtype), shape, data))
                expected = io.BytesIO()
                numpy.save(expected, array)
                self.assertEqual(self.read("out.npy"), expected.getvalue())
                self.assertIn("not kept: (metadata) (1 value)", text)
                self.text("convert", source, self.new("out.raw"), "--force")
                self.assertEqual(self.read("out.raw"), data)

    def test_large_tensors_are_copied_whole(self):
        self.text("extract", self.path("large"), "-o", self.new("x.npy"), "x")
        x = numpy.arange(1_000_000, dtype="f4").reshape(1000, 1000)
        self.assertTrue((numpy.load(self.new("x.npy"), mmap_mode="r") == x).all())
        self.text("extract", self.path("large"), "-o", self.new("part.npy"), "x", "--slice=-5:,::100")
        self.assertTrue((numpy.load(self.new("part.npy")) == x[-5:, ::100]).all())

    def test_report(self):
        text = self.text("extract", self.path("sample"), "-o", self.new("w.npy"), "model/head")
        self.assertEqual(text, f"{self.new('w.npy')}: 176 B written, f32 [4, 3]\n"
                               "not kept: model/head (axis names), (metadata) (2 values)\n")
        result = self.json("extract", self.path("sample"), "-o", self.new("w.raw"), "model/head", "--no-metadata")
        self.assertEqual(result, {"file": self.path("sample"), "written": self.new("w.raw"), "bytes": 48,
                                  "left_out": 1, "incomplete": False, "dtype": "f32", "shape": [4, 3]})

    def test_one_tensor_must_be_selected(self):
        def refused(message, *args):
            self.run_cli("extract", self.path("sample"), "-o", self.new("w.npy"), *args, expect=USAGE)
            self.assertIn(message, self.stderr)
            self.assertIn("code unrepresentable", self.stderr)

        refused("there are 2 (layers/0/w, layers/1/w); give the path of one, as in `espalier extract FILE PATH -o OUT`",
                "layers/*/w")
        refused("there are 22 (model/embed, layers/0/w, ", "**", "--unrepresentable=drop")
        refused("there is no tensor", "betas")
        refused("there is no tensor", "missing")
        refused("cannot hold layers/1/n (an int64)", "layers/1")
        self.assertEqual(self.files(), [])
        # Tied nodes are one tensor, and neighbours in a list are not selected.
        self.text("extract", self.path("sample"), "-o", self.new("w.npy"), "model")
        self.text("extract", self.path("sample"), "-o", self.new("n.npy"), "layers/1/w")
        text = self.text("extract", self.path("sample"), "-o", self.new("d.npy"), "layers/1", "--unrepresentable=drop")
        self.assertIn("layers/1/n (an int64)", text)
        self.assertEqual(self.read("n.npy"), self.read("d.npy"))

    def test_dtypes_that_numpy_lacks(self):
        for path, hint in (("types/bf16", "--cast f32"), ("types/opaque", "--to raw"), ("types/f6", "--cast f32")):
            self.run_cli("extract", self.path("sample"), "-o", self.new("w.npy"), path, expect=USAGE)
            self.assertIn("NumPy has no dtype", self.stderr)
            self.assertIn(hint, self.stderr)
            self.assertIn("in " + path, self.stderr)
            self.text("extract", self.path("sample"), "-o", self.new(path[6:] + ".raw"), path)
        self.text("extract", self.path("sample"), "-o", self.new("w.npy"), "types/bf16", "--cast", "f32")
        self.assertEqual(numpy.load(self.new("w.npy")).dtype, numpy.float32)

    def test_options_that_do_not_apply(self):
        for option, message in (("--compress", "files are never compressed"),
                                ("--unrepresentable=metadata", "have no metadata")):
            for name in ("w.npy", "w.raw"):
                self.run_cli("extract", self.path("sample"), "-o", self.new(name), "types/f32", option, expect=USAGE)
                self.assertIn(message, self.stderr)
        self.assertEqual(self.files(), [])

    def test_damage_and_failed_writes_leave_nothing(self):
        file = self.damaged("bad.espalier", self.data_offset("x", "large") + 3_000_000, source="large")
        old = self.write("x.npy", b"old")
        self.run_cli("extract", file, "-o", old, "x", "-f", expect=BAD_INPUT)
        self.assertIn("code chunk_corrupt", self.stderr)
        self.assertEqual(self.read("x.npy"), b"old")
        self.assertEqual(self.files(), ["bad.espalier", "x.npy"])


class Exclude(Writing):
    def extract(self, *args, expect=OK, out="out.espalier", **options):
        return self.text("extract", self.path("sample"), "-o", self.new(out), *args, "--force", expect=expect, **options)

    def paths(self, out="out.espalier"):
        return [node["path"] for node in self.json("ls", "--all", self.new(out))["nodes"]]

    def test_leaves_out(self):
        everything = [node["path"] for node in self.json("ls", "--all", self.path("sample"))["nodes"]]
        self.extract("--exclude", "types", "--exclude=args/**")
        left = [path for path in everything
                if not path.startswith("types") and not path.startswith("args")]
        self.assertEqual(self.paths(), left, "in the same order")
        self.extract("model", "args", "--exclude", "**/{embed,lr}")
        self.assertEqual([p for p in self.paths() if p in ("model", "model/head", "model/embed", "args/lr")],
                         ["model", "model/head"])
        self.assertEqual(self.json("ls", self.new("out.espalier"))["nodes"][0]["kind"], "tensor")

    def test_patterns_after_it_are_patterns(self):
        self.extract("--exclude", "model/embed", "model")
        self.assertEqual(self.paths(), ["", "model", "model/head"])

    def test_lists_keep_positions(self):
        self.extract("layers", "--exclude", "layers/0")
        nodes = {node["path"]: node["kind"] for node in self.json("ls", self.new("out.espalier"))["nodes"]}
        self.assertEqual(nodes, {"layers/0/w": "placeholder", "layers/1/w": "tensor"})

    def test_root(self):
        self.extract("--root", "layers/1", "--exclude", "layers/1/n")
        self.assertEqual(self.paths(), ["", "w"])

    def test_attributes_of_dicts_follow_the_root(self):
        files = pathlib.Path(__file__).resolve().parent.parent / "foreign/torch/files"

        def attributes(*options):
            self.run_cli("extract", files / "training.pt", "-o", self.new("out.espalier"), "--force", *options, expect=None)
            self.assertEqual(self.code, OK)
            # Its instances are of classes, which loading it with pickle would call.
            self.assertIn("Loading this with pickle would call argparse.Namespace", self.stderr)
            lines = self.text("tree", "--metadata", self.new("out.espalier")).splitlines()
            return [line.split("\u2500 ")[1] for line in lines[1:4]]

        self.assertEqual(attributes()[:2], ["torch.attributes: dict", "model: dict"])
        # ~2 stands for the empty key: the root.
        self.assertEqual(attributes("--root", "/model/")[:2], ["torch.attributes: dict", "~2: dict"])
        self.assertEqual(attributes("--root", "optimizer"), [])

    def test_one_tensor(self):
        self.extract("layers", "--exclude", "layers/*/n", "--exclude", "layers/0/w", out="w.npy")
        self.assertEqual(numpy.load(self.new("w.npy")).shape, (2, 2))

    def test_mistakes(self):
        self.extract("--exclude", "modle", expect=USAGE)
        self.assertIn("modle", self.stderr)
        self.assertIn("code not_found", self.stderr)
        self.extract("--exclude", "{a", expect=USAGE)
        self.assertIn("code invalid_pattern", self.stderr)
        self.extract("model", "--exclude", "", expect=USAGE)
        self.assertIn("everything that is selected is left out", self.stderr)
        self.extract("model/embed", "--exclude", "model", expect=USAGE)
        self.assertIn("everything that is selected is left out", self.stderr)
        self.extract("nope", "--exclude", "model", expect=USAGE)
        self.assertIn("nope", self.stderr)
        self.assertEqual(self.files(), [])

    def test_what_is_lost_is_told(self):
        weights = {"a": "1.safetensors", "b": "2.safetensors"}
        index = self.write("model.safetensors.index.json", json.dumps({"weight_map": weights}).encode())
        self.write("1.safetensors", safetensors([("a", "F32", [1], b"abcd")]))
        self.run_cli("extract", index, "-o", self.new("a.npy"), "a", expect=None)
        self.assertEqual((self.code, self.stderr.count("\n"), self.stderr.count(f"espalier: {index}: loss: ")), (OK, 2, 2))
        self.assertIn("only the names are known of the 1 tensor in 2.safetensors", self.stderr)



def to_bf16(values):
    """Rounds f32 to bf16 codes, to nearest, ties to even."""
    bits = values.view("u4").astype("u8")
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("u2")
    return numpy.where(numpy.isnan(values), (bits >> 16).astype("u2") | 0x40, rounded)


class Casting(Writing):
    def cast(self, dtype, source, *args, **options):
        return self.text("extract", source, "-o", self.new("out.safetensors"), "--cast", dtype, "--force", *args, **options)

    def codes(self, dtype):
        self.text("extract", self.new("out.safetensors"), "-o", self.new("out.raw"), "t", "-f")
        return numpy.frombuffer(self.read("out.raw"), dtype)

    def source(self, values, dtype):
        return self.write("in.safetensors", safetensors([("t", dtype, values.shape, values.tobytes())]))

    def test_rounds_like_numpy(self):
        random = numpy.random.default_rng(3)
        # Several chunks of every bit pattern, NaNs and subnormals too.
        f32 = random.integers(0, 1 << 32, 700_001, dtype="u4").view("f4")
        f32 = numpy.concatenate([f32, random.normal(size=300_000).astype("f4")])
        source = self.source(f32, "F32")
        with numpy.errstate(all="ignore"):
            f16 = f32.astype("f2")
        for threads in ("1", "3"):
            self.cast("f16", source, "--threads", threads)
            found = self.codes("f2")
            self.assertTrue((numpy.isnan(found) == numpy.isnan(f16)).all())
            self.assertTrue((found.view("u2") == f16.view("u2"))[~numpy.isnan(f16)].all())
            self.cast("bf16", source, "--threads", threads)
            self.assertTrue((self.codes("u2") == to_bf16(f32)).all())
        with numpy.errstate(all="ignore"):
            f64 = random.integers(0, 1 << 64, 300_001, dtype="u8").view("f8") * 2.0**-900
        f64 = numpy.concatenate([f64, random.normal(size=100_000)])
        self.cast("f32", self.source(f64, "F64"))
        with numpy.errstate(all="ignore"):
            expected = f64.astype("f4")
        found = self.codes("f4")
        self.assertTrue((found.view("u4") == expected.view("u4"))[~numpy.isnan(expected)].all())

    def test_widening_and_back_is_the_identity(self):
        f16 = numpy.arange(0x7C01, dtype="u2").view("f2")
        self.cast("f32", self.source(f16, "F16"))
        self.assertTrue((self.codes("f4") == f16.astype("f4")).all())
        back = self.write("wide.safetensors", self.read("out.safetensors"))
        self.cast("f16", back)
        self.assertEqual(self.codes("f2").tobytes(), f16.tobytes())

    def test_small_floats(self):
        """Six-bit elements across chunks, with any part asked for."""
        self.text("extract", self.path("large"), "-o", self.new("six.npy"), "six", "--cast", "f32")
        values = self.json("show", self.path("large"), "six", "--slice", "1398090:1398110")["node"]["values"]
        self.assertEqual(numpy.load(self.new("six.npy"))[1398090:1398110].tolist(), values)
        stats = self.json("stats", self.path("large"), "six")["nodes"][0]["stats"]
        self.assertEqual(numpy.load(self.new("six.npy")).astype("f8").mean(), stats["mean"])

    def test_says_what_it_leaves(self):
        out = self.new("out.espalier")
        text = self.text("extract", self.path("sample"), "-o", out, "types/{f32,f64,i64,u8,bool,c64,opaque,bf16}", "model",
                         "--cast", "bf16")
        self.assertIn("not cast: 1 bool, 1 c64, 1 i64, 1 opaque, 1 u8\n", text)
        nodes = {node["path"]: node for node in self.json("ls", out)["nodes"]}
        self.assertEqual({path: node["dtype"] for path, node in nodes.items()},
                         {"model/embed": "bf16", "model/head": "bf16", "types/bool": "bool", "types/u8": "u8",
                          "types/i64": "i64", "types/bf16": "bf16", "types/f32": "bf16", "types/f64": "bf16",
                          "types/c64": "c64", "types/opaque": "opaque"})
        self.assertEqual(nodes["model/embed"]["tensor"], nodes["model/head"]["tensor"], "still tied")
        self.assertEqual(nodes["model/embed"]["axis_names"], ["rows", ""])
        self.assertIn(": ok ", self.text("verify", out))
        self.assertIn("equal", self.text("diff", self.path("sample"), out, "types/{c64,opaque,bf16}"))

    def test_overflow_is_counted(self):
        values = numpy.array([65519.9, -65520, 7e4, numpy.inf, numpy.nan, 1], dtype="f4")
        self.assertIn("2 elements became infinite: beyond the range of f16\n", self.cast("f16", self.source(values, "F32")))
        result = self.json("extract", self.source(values, "F32"), "-o", self.new("out.npy"), "--cast", "f16")
        self.assertEqual(result["cast"], {"dtype": "f16", "tensors": 1, "not_cast": {}, "became_infinite": 2})
        self.assertNotIn("infinite", self.cast("bf16", self.source(values, "F32")))

    def test_slices_are_cast(self):
        self.text("extract", self.path("large"), "-o", self.new("x.npy"), "x", "--slice=3:5,::7", "--cast", "f16")
        x = numpy.arange(1_000_000, dtype="f4").reshape(1000, 1000)[3:5, ::7]
        self.assertTrue((numpy.load(self.new("x.npy")) == x.astype("f2")).all())

    def test_mistakes(self):
        self.cast("bf16", self.path("sample"), "types/i64", expect=USAGE)
        self.assertIn("applies to none of the tensors (1 i64)", self.stderr)
        for dtype in ("i8", "f8_e4m3fn", "", "BF16"):
            self.cast(dtype, self.path("sample"), "types/f32", expect=USAGE)
        self.assertEqual(self.files(), [])

    def test_memory_does_not_grow(self):
        """A cast of 64 MiB in the address space of a small file."""
        size = 64 << 20
        source = self.new("in.safetensors")
        header = json.dumps({"t": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}).encode()
        with open(source, "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header)
            file.truncate(8 + len(header) + size)
        code, memory = test_cli.measure(self.new("text"), "extract", source, "-o", self.new("out.espalier"), "--cast",
                                        "bf16", "--no-mmap", "--threads=1")
        self.assertEqual(code, OK)
        self.assertLess(memory, (32 << 20) * (10 if test_cli.is_sanitized() else 1))


class Folders(Writing):
    """convert with several inputs, as cp has them."""

    def setUp(self):
        super().setUp()
        os.mkdir(self.new("dir"))
        self.a = self.write("a.safetensors", safetensors([("t", "F32", [1], b"aaaa")]))
        self.b = self.write("b.1", safetensors([("t", "F32", [1], b"bbbb")]))

    def written(self):
        return sorted(os.listdir(self.new("dir")))

    def test_into_a_folder(self):
        for target in (self.new("dir"), self.new("dir/")):
            text = self.text("convert", self.a, self.b, target, "--to", "espalier", "-f")
            self.assertEqual(self.written(), ["a.espalier", "b.1.espalier"])
            self.assertEqual([line.split(":")[0] for line in text.splitlines()],
                             [os.path.join(target, "a.espalier"), os.path.join(target, "b.1.espalier")])
        self.text("convert", self.a, self.b, "-o", self.new("dir"), "--to=npy")
        self.text("convert", self.a, self.new("dir"), "--to=raw")
        self.assertEqual(self.written(), ["a.espalier", "a.npy", "a.raw", "b.1.espalier", "b.1.npy"])
        result = self.json("convert", self.a, self.b, "-o", self.new("dir"), "--to=espalier", "--force")
        self.assertEqual([(file["file"], os.path.basename(file["written"])) for file in result["files"]],
                         [(self.a, "a.espalier"), (self.b, "b.1.espalier")])

    def test_output_option_for_one_file(self):
        self.text("convert", self.a, "-o", self.new("out.espalier"))
        self.text("convert", self.a, self.new("other.espalier"))
        self.assertEqual(self.read("out.espalier"), self.read("other.espalier"))

    def test_a_bad_input_does_not_stop_the_others(self):
        bad = self.write("bad.safetensors", b"x" * 100)
        out = self.text("convert", bad, self.a, self.new("dir"), "--to=espalier", expect=None)
        self.assertEqual((self.code, self.written()), (BAD_INPUT, ["a.espalier"]))
        self.assertIn("a.espalier: ", out)
        self.assertIn(f"espalier: {bad}: ", self.stderr)
        for option in ((), ("--json",)):
            out = self.text("convert", self.new("none"), bad, self.new("dir"), "--to=raw", *option, expect=None)
            self.assertEqual(self.code, IO)
        self.assertEqual([file["failure"]["code"] for file in json.loads(out)["files"]][0], "file_not_found")

    def test_refused_before_anything_is_written(self):
        os.mkdir(self.new("other"))
        same = self.write("other/a.espalier", safetensors([("t", "F32", [1], b"cccc")]))
        for message, *args in (
                ("would both be written to this file", self.a, same, self.new("dir"), "--to=espalier"),
                ("pass --to", self.a, self.b, self.new("dir")),
                ("is not a folder, and 2 inputs need one", self.a, self.b, self.new("none"), "--to=espalier"),
                ("is not a folder, and 2 inputs need one", self.a, self.b, "-o", self.new("x.espalier")),
                ("there is no such folder", self.a, self.new("none/"), "--to=espalier"),
                ("name is empty", self.b, self.a, "-o", "", "--to=espalier", "-f"),
                ("name is empty", self.a, "", self.new("dir"), "--to=espalier"),
                ("OUT is missing", self.a)):
            self.run_cli("convert", *args, expect=USAGE)
            self.assertIn(message, self.stderr)
        for args in ((self.a, self.new("x.espalier"), "--compress", "9"),
                     (self.a, "--compress", "9", self.new("x.espalier"))):
            self.run_cli("convert", *args, expect=USAGE)
            self.assertIn("; if 9 is a level, write --compress=9 (code", self.stderr)
        # Links lead to one file, or to an input that is still to be read.
        os.symlink("b.1.espalier", self.new("dir/a.espalier"))
        self.run_cli("convert", self.a, self.b, self.new("dir"), "--to=espalier", "-f", expect=USAGE)
        self.assertIn("would both be written to this file", self.stderr)
        os.remove(self.new("dir/a.espalier"))
        self.assertEqual(self.written(), [])
        os.symlink("../b.1", self.new("dir/a.espalier"))
        self.run_cli("convert", self.a, self.b, self.new("dir"), "--to=espalier", "-f", expect=USAGE)
        self.assertIn(f"a.espalier: this file is the input {self.b}, and would be replaced", self.stderr)
        os.remove(self.new("dir/a.espalier"))
        self.assertEqual(self.written(), [])
        self.assertEqual(self.read("b.1")[-4:], b"bbbb")
        self.write("dir/b.1.espalier", b"old")
        self.run_cli("convert", self.a, self.b, self.new("dir"), "--to=espalier", expect=USAGE)
        self.assertIn("b.1.espalier: the file exists", self.stderr)
        self.assertEqual(self.written(), ["b.1.espalier"])
        self.assertEqual(self.read("a.safetensors")[-4:], b"aaaa")


class Models(Writing):
    """Models in several safetensors files."""

    INDEX = "model.safetensors.index.json"
    MODEL = pathlib.Path(__file__).parent.parent / "foreign/shards/model"  # by huggingface_hub

    def contents(self, folder):
        return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}

    def test_a_model_comes_back_in_the_files_that_it_had(self):
        one, folder = self.new("one.espalier"), pathlib.Path(self.new("again"))
        folder.mkdir()
        index = str(self.MODEL / self.INDEX)
        self.text("convert", index, one)
        said = self.text("convert", one, str(folder / self.INDEX), "--shards-like", index)
        self.assertIn(f"{self.INDEX}: 16 files, ", said)
        self.assertEqual(self.contents(folder), self.contents(self.MODEL))
        # Other files in their place.
        said = json.loads(self.text("convert", index, str(folder / "model.safetensors"), "--max-shard-size=5000", "-f", "--json"))
        files = self.contents(folder)
        self.assertEqual(sorted(files), sorted([self.INDEX, *said["shards"]]))
        self.assertEqual(said["bytes"], sum(map(len, files.values())))
        self.assertLess(len(files), 16)
        had, made = (json.loads(each) for each in ((self.MODEL / self.INDEX).read_text(), files[self.INDEX]))
        self.assertEqual(made["weight_map"].keys(), had["weight_map"].keys())
        self.assertEqual(made["metadata"], {**had["metadata"], "total_parameters": made["metadata"]["total_parameters"]})
        self.text("convert", index, self.new("had.safetensors"), "--no-metadata")
        self.text("convert", str(folder / self.INDEX), self.new("made.safetensors"), "--no-metadata")
        self.assertEqual(self.read("made.safetensors"), self.read("had.safetensors"))
        said = self.text("convert", index, str(folder / self.INDEX), "--max-shard-size", "10GB", "-f")
        self.assertIn("model.safetensors: ", said)
        self.assertIn("not kept: (metadata)/index/metadata/format", said)
        self.assertEqual(list(self.contents(folder)), ["model.safetensors"])
        self.text("convert", str(folder / "model.safetensors"), self.new("made.safetensors"), "--no-metadata", "-f")
        self.assertEqual(self.read("made.safetensors"), self.read("had.safetensors"))

    def test_a_map_writes_them_too(self):
        source = self.write("in.safetensors", safetensors([(f"module.{n}", "F32", [2], bytes(8)) for n in "abc"], {"format": "pt"}))
        said = self.text("map", source, self.new("model.safetensors"), "--map=unwrap", "--max-shard-size", "16B")
        self.assertIn(f"{self.INDEX}: 2 files, ", said)
        self.assertEqual(json.loads(self.read(self.INDEX)), {
            "metadata": {"total_parameters": 6, "total_size": 24},
            "weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00001-of-00002.safetensors",
                           "c": "model-00002-of-00002.safetensors"}})

    def test_refused(self):
        source = self.write("in.safetensors", safetensors([("a", "F32", [1], bytes(4)), ("b", "F32", [1], bytes(4))]))
        model = self.new("model.safetensors")
        self.write("like.json", b'{"weight_map": {"x": "x.safetensors"}}')
        for arguments, code, says in (
            ([self.new("x.espalier"), "--max-shard-size=4"], USAGE, "is for safetensors files"),
            ([model, "--max-shard-size=4", "--unrepresentable=metadata"], USAGE, "carries the tree in one file"),
            ([model, "--max-shard-size=0"], USAGE, "more than nothing"),
            ([model, "--max-shard-size=four"], USAGE, "is no size"),
            ([model, "--max-shard-size=4", "--shards-like=x"], USAGE, "excludes"),
            ([model, "--shards-like", self.new("like.json")], USAGE, "none of the names"),
            ([model, "--shards-like", self.new("none.json")], IO, "none.json"),
        ):
            self.run_cli("convert", source, *arguments, expect=code)
            self.assertIn(says, self.stderr)
        self.assertEqual(self.files(), ["in.safetensors", "like.json"])
        self.text("convert", source, model, "--max-shard-size=4")
        self.run_cli("convert", source, model, "--max-shard-size=9", expect=USAGE)
        self.assertIn("--force replaces the model", self.stderr)
        # Other checkpoints refer to a shard.
        self.text("convert", self.new(self.INDEX), self.new("run.espalier"), "--base", self.new(self.INDEX), "--most=100")
        before = self.contents(self.folder)
        self.run_cli("convert", source, model, "--max-shard-size=9", "-f", expect=USAGE)
        self.assertIn("refer to", self.stderr)
        self.assertEqual(self.contents(self.folder), before)


class KeptHeaders(Writing):
    """Another writer's safetensors file comes back byte for byte from an Espalier file."""

    def there_and_back(self, content, *options, back=()):
        source = self.write("in.safetensors", content)
        self.text("convert", source, self.new("there.espalier"), *options, "--force")
        self.assertIn(": ok ", self.text("verify", self.new("there.espalier")))
        self.text("convert", self.new("there.espalier"), self.new("back.safetensors"), *back, "--force")
        return self.read("back.safetensors")

    def file(self, header, data):
        text = header.encode()
        return struct.pack("<Q", len(text)) + text + data

    def test_other_writers(self):
        a = '"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
        b = '"b.c":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}'
        swapped = '"a":{"shape":[1],"data_offsets":[2,6],"dtype":"F32"},"b.c":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}'
        for header in ("{%s,%s}" % (a, b), "{%s,%s}" % (b, a), "{%s}" % swapped, "{%s,%s}     " % (a, b),
                       "{\n  %s,\r\n\t%s\n}" % (a, b), '{%s,"__metadata__":{"z":"1","y":"2"},%s}' % (a, b),
                       '{%s,%s,"__metadata__":{}}' % (a, b), '{"__metadata__":{"\\u0041":"\\/"},%s,%s}' % (a, b)):
            content = self.file(header, b"abcdef")
            for options in ((), ("--nest",), ("--compress",)):
                self.assertEqual(self.there_and_back(content, *options), content, header)
            source = self.new("in.safetensors")
            self.text("convert", source, self.new("there.espalier"), "--force")
            self.assertEqual(self.text("diff", source, self.new("there.espalier")), "equal\n")
            # A second step keeps it, and --no-metadata leaves it out.
            self.text("convert", self.new("there.espalier"), self.new("second.espalier"), "--force")
            self.assertEqual(self.read("second.espalier"), self.read("there.espalier"))
            self.text("convert", source, self.new("bare.espalier"), "--no-metadata", "--force")
            self.assertIn("safetensors.header", self.text("tree", "--metadata", self.new("there.espalier")))
            self.assertNotIn("safetensors.header", self.text("tree", "--metadata", self.new("bare.espalier")))

    def test_files_of_the_reference_library_need_none(self):
        usual = [("no.numbers", "F64", [0], b""), ("wide", "F64", [1], bytes(8)), ("a.b", "F32", [1], bytes(4)), ("a.c", "U8", [3], bytes(3))]
        sources = [DIGITS]
        for i, (tensors, metadata) in enumerate(((usual, None), (usual, {"k": "v \" \n"}), (usual, {}), ([], None))):
            sources.append(self.new(f"usual{i}.safetensors"))
            self.text("convert", self.write("any.safetensors", safetensors(tensors, metadata)), sources[-1])
        for source in sources:
            for options in ((), ("--nest",)):
                self.text("convert", source, self.new("there.espalier"), *options, "--force")
                self.assertNotIn("safetensors.header", self.text("tree", "--metadata", self.new("there.espalier")), (source, options))
            self.text("convert", source, self.new("same.safetensors"), "--force")

    def test_carried_tree(self):
        carried = self.new("carried.safetensors")
        self.text("convert", self.path("sample"), carried, "--unrepresentable=metadata")
        content = self.read("carried.safetensors")
        length, = struct.unpack("<Q", content[:8])
        spaced = b"{ " + content[9:8 + length]
        content = struct.pack("<Q", len(spaced)) + spaced + content[8 + length:]
        self.assertEqual(self.there_and_back(content, back=["--unrepresentable=metadata"]), content)
        self.assertEqual(self.text("diff", self.path("sample"), self.new("there.espalier")), EQUAL_BY_HASHES)

    def test_parts_do_not_keep_it(self):
        content = self.file('{ "a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
                            '"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}', b"xy")
        self.there_and_back(content)
        for args in (["extract", self.new("there.espalier"), "-o", self.new("part.espalier"), "a"],
                     ["merge", self.new("there.espalier"), DIGITS, self.new("part.espalier")]):
            self.text(*args, "--force")
            self.assertNotIn("safetensors.header", self.text("tree", self.new("part.espalier")))


class References(Writing):
    """Files that refer to chunks of files beside them."""

    def save(self, name, **tensors):
        self.write(name, safetensors([(key, "F32", array.shape, array.tobytes()) for key, array in tensors.items()]))

    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(3)
        self.frozen = random.standard_normal((3, 1 << 18), dtype="f4")  # 3 MiB
        self.first = random.standard_normal(1 << 18, dtype="f4")
        self.second = self.first.copy()
        self.second[7] += 1
        self.save("one.safetensors", frozen=self.frozen, trained=self.first)
        self.save("two.safetensors", frozen=self.frozen, trained=self.second)

    def size(self, name):
        return os.path.getsize(self.new(name))

    def needs(self, name):
        return self.json("needs", self.new(name))["files"][0]["needs"]

    def test_a_conversion_against_a_base_writes_what_changed(self):
        self.run_cli("convert", self.new("one.safetensors"), self.new("one.espalier"))
        self.run_cli("convert", self.new("two.safetensors"), self.new("two.espalier"),
                     "--base", self.new("one.espalier"), "--only-references")  # fmt: skip
        self.assertLess(self.size("two.espalier"), (1 << 20) + 2000)
        self.assertEqual(self.text("needs", self.new("two.espalier")), self.new("one.espalier") + "\n")
        need, = self.needs("two.espalier")
        self.assertEqual([need["name"], need["chunks"], need["bytes"]], ["one.espalier", 3, 3 << 20])
        self.assertIn(": ok (2 tensors, 4 chunks", self.text("verify", self.new("two.espalier")))
        # Made whole, it is the file that would have been written without the base.
        self.run_cli("convert", self.new("two.espalier"), self.new("flat.espalier"))
        self.run_cli("convert", self.new("two.safetensors"), self.new("whole.espalier"))
        self.assertEqual(*(pathlib.Path(self.new(name)).read_bytes() for name in ("flat.espalier", "whole.espalier")))
        self.assertEqual(self.text("needs", self.new("flat.espalier")), "")
        self.assertIn("equal", self.text("diff", self.new("two.espalier"), self.new("whole.espalier")))

    def test_an_index_seals_files_that_are_there(self):
        for options in ([self.new("two.safetensors"), self.new("two.espalier")],
                        [self.new("two.safetensors"), "-o", self.new("again.espalier")]):
            out = self.text("index", *options)
            self.assertIn("4.0 MiB of tensors lie in two.safetensors, 0 B here", out)
        self.assertLess(self.size("two.espalier"), 2000)
        self.assertIn(": ok", self.text("verify", self.new("two.espalier")))
        with open(self.new("two.safetensors"), "r+b") as file:
            file.seek(-5, os.SEEK_END)
            file.write(b"x")
        out = self.text("verify", self.new("two.espalier"), expect=CHECK_FAILED)
        self.assertIn("in file two.safetensors", out)
        self.assertIn("in trained)", out)

    def test_several_files_are_joined(self):
        self.save("a.safetensors", a=self.first)
        self.save("b.safetensors", b=self.second)
        files = [self.new("a.safetensors"), self.new("b.safetensors")]
        self.run_cli("index", *files, self.new("both.espalier"))
        self.assertEqual([need["name"] for need in self.needs("both.espalier")], ["a.safetensors", "b.safetensors"])
        out = self.json("ls", self.new("both.espalier"))
        self.assertEqual([node["path"] for node in out["nodes"]], ["a", "b"])
        self.run_cli("index", files[0], *files, self.new("twice.espalier"), expect=USAGE)
        self.assertIn("has the same key", self.stderr)

    def test_what_is_missing_is_said(self):
        self.run_cli("index", self.new("two.safetensors"), self.new("two.espalier"))
        os.rename(self.new("two.safetensors"), self.new("away"))
        self.assertIn("file_missing", self.text("needs", "--long", self.new("two.espalier"), expect=CHECK_FAILED))
        text = self.text("verify", self.new("two.espalier"), expect=test_cli.INCOMPLETE)
        self.assertRegex(text, r"INCOMPLETE \(1 file missing\); 4\.0 MiB of tensors were not checked")
        self.assertIn("file_missing", text)
        verdict, = self.json("verify", self.new("two.espalier"), expect=test_cli.INCOMPLETE)["files"]
        self.assertEqual((verdict["verdict"], verdict["missing"], verdict["ok"]), ("incomplete", ["two.safetensors"], False))
        self.run_cli("show", self.new("two.espalier"), "frozen", expect=test_cli.IO)
        self.assertEqual(len(self.json("ls", self.new("two.espalier"))["nodes"]), 2)
        self.save("two.safetensors", frozen=self.frozen)
        out = self.text("verify", self.new("two.espalier"), expect=test_cli.INCOMPLETE)
        self.assertIn("base_mismatch", out)
        # An unreadable file says more than an incomplete one, and damage does.
        self.run_cli("verify", self.new("two.espalier"), self.new("two.safetensors"), expect=test_cli.INCOMPLETE)
        bad = self.write("bad", b"no checkpoint")
        self.run_cli("verify", bad, self.new("two.espalier"), expect=BAD_INPUT)

    def test_mistakes(self):
        one, two = self.new("one.safetensors"), self.new("two.safetensors")
        self.run_cli("convert", two, self.new("two.npy"), "--base", one, expect=USAGE)
        self.assertIn("only Espalier files can refer", self.stderr)
        os.mkdir(self.new("sub"))
        self.run_cli("convert", two, self.new("sub/two.espalier"), "--base", one, expect=USAGE)
        self.assertIn("in another folder", self.stderr)
        self.run_cli("index", one, self.new("sub/one.espalier"), expect=USAGE)
        self.run_cli("index", one, expect=USAGE)
        self.assertIn("OUT is missing", self.stderr)
        self.run_cli("index", one, one, "--force", expect=USAGE)
        self.assertIn("this command writes Espalier files", self.stderr)
        whole = self.new("whole.espalier")
        self.run_cli("convert", one, whole)
        self.run_cli("index", whole, whole, "--force", expect=USAGE)
        self.assertIn("would replace one that it refers to", self.stderr)
        os.rename(one, self.new("my model.safetensors"))
        self.run_cli("index", self.new("my model.safetensors"), self.new("one.espalier"), expect=USAGE)
        self.assertIn("rename it", self.stderr)
        self.assertFalse(os.path.exists(self.new("one.espalier")))


class Patches(Writing):
    """Files whose chunks are stored as their differences to those of files beside them."""

    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(4)
        weights = random.integers(0, 2**12, 3 << 19, dtype="u2")  # 3 MiB, which compress a little
        self.states = []
        for step in range(4):
            self.write(f"{step}.safetensors", safetensors([("w", "BF16", weights.shape, weights.tobytes())]))
            self.run_cli("convert", self.new(f"{step}.safetensors"), self.new(f"whole-{step}.espalier"))
            weights = weights + (random.random(weights.shape) < 0.01).astype("u2")
        self.run_cli("convert", self.new("0.safetensors"), self.new("0.espalier"))
        for step in (1, 2, 3):
            self.run_cli("delta", self.new(f"{step - 1}.espalier"), self.new(f"{step}.safetensors"), "-o", self.new(f"{step}.espalier"))

    def size(self, name):
        return os.path.getsize(self.new(name))

    def log(self, name, expect=0):
        entry, = self.json("log", self.new(name), expect=expect)["files"]
        return entry

    def check_whole(self, name, step):
        """That it is intact, and is made whole to what a conversion without a base gives."""
        self.assertIn(": ok", self.text("verify", self.new(name)))
        self.run_cli("flatten", self.new(name), self.new("flat.espalier"), "--force")
        whole = pathlib.Path(self.new(f"whole-{step}.espalier")).read_bytes()
        self.assertEqual(pathlib.Path(self.new("flat.espalier")).read_bytes(), whole)
        self.assertEqual(self.log(name)["digest"], self.log(f"whole-{step}.espalier")["digest"])

    def test_each_costs_what_changed(self):
        for step in (1, 2, 3):
            self.assertLess(self.size(f"{step}.espalier"), self.size("0.espalier") / 80)
            self.check_whole(f"{step}.espalier", step)
            entry = self.log(f"{step}.espalier")
            self.assertEqual([entry[key] for key in ("chunks_here", "chunks_referred", "chunks_patched", "layers")], [0, 0, 3, step])
        self.assertIn("3.0 MiB of tensors are patches of what lies in 0.espalier",
                      self.text("delta", self.new("0.espalier"), self.new("1.safetensors"), "-o", self.new("again.espalier")))  # fmt: skip

    def test_only_references_and_most(self):
        arguments = ["delta", self.new("0.espalier"), self.new("1.safetensors"), "-o", self.new("x.espalier"), "--force"]
        for more in (["--only-references"], ["--most", "0"]):
            self.assertIn("written whole", self.text(*arguments, *more))
            self.assertEqual(self.log("x.espalier")["chunks_here"], 3)
        self.run_cli(*arguments, "--most", "101", expect=USAGE)

    def test_fold_needs_no_base_and_frees_what_lies_between(self):
        os.rename(self.new("0.espalier"), self.new("away"))
        self.assertIn("not checked", self.text("fold", self.new("3.espalier"), self.new("folded.espalier")))
        os.rename(self.new("away"), self.new("0.espalier"))
        self.assertEqual(self.log("folded.espalier")["layers"], 1)
        self.assertEqual(self.text("needs", self.new("folded.espalier")), self.new("0.espalier") + "\n")
        self.check_whole("folded.espalier", 3)
        self.assertLess(self.size("folded.espalier"), sum(self.size(f"{step}.espalier") for step in (1, 2, 3)))

    def served(self, step, *options):
        """A copy of a step in a folder of its own, under another name."""
        os.makedirs(self.new("served"), exist_ok=True)
        self.run_cli("convert", self.new(f"whole-{step}.espalier"), self.new("served/model.espalier"), "--force", *options)
        return self.new("served/model.espalier")

    def check_served(self, step):
        self.run_cli("convert", self.new("served/model.espalier"), self.new("flat.espalier"), "--force")
        whole = pathlib.Path(self.new(f"whole-{step}.espalier")).read_bytes()
        self.assertEqual(pathlib.Path(self.new("flat.espalier")).read_bytes(), whole)
        self.assertEqual(self.text("needs", self.new("served/model.espalier")), "")

    def test_apply_replaces_any_copy_of_an_earlier_step(self):
        os.remove(self.new("0.espalier"))  # The copy stands in for it.
        for options in ([], ["--compress"]):
            for step in (0, 1, 2, 3):
                model = self.served(step, *options)
                self.assertIn("written", self.text("apply", self.new("3.espalier"), model))
                self.check_served(3)
                self.run_cli("apply", self.new("3.espalier"), model)  # It may be repeated.
                self.check_served(3)
            small = os.path.getsize(model) < os.path.getsize(self.new("whole-3.espalier"))
            self.assertEqual(small, bool(options))  # It stays compressed.
        self.assertEqual(os.listdir(self.new("served")), ["model.espalier"])

    def test_apply_refuses_what_it_was_not_made_for(self):
        model = self.served(0)
        before = pathlib.Path(model).read_bytes()
        os.remove(self.new("1.espalier"))
        os.remove(self.new("0.espalier"))
        self.run_cli("apply", self.new("3.espalier"), model, expect=IO)
        self.assertIn("apply the updates in between first (code file_missing, in file 1.espalier, in w)", self.stderr)
        # Of another run, although all that 3.espalier needs is there.
        model = self.served(0)
        os.rename(self.new("whole-1.espalier"), self.new("1.espalier"))
        self.write("other.safetensors", safetensors([("w", "BF16", (3 << 19,), bytes(3 << 20))]))
        self.run_cli("convert", self.new("other.safetensors"), model, "--force")
        self.run_cli("delta", self.new("whole-0.espalier"), self.new("3.safetensors"), "-o", self.new("from-0.espalier"))
        self.run_cli("apply", self.new("from-0.espalier"), model, expect=BAD_INPUT)
        self.assertIn("--read-others", self.stderr)
        self.run_cli("apply", self.new("from-0.espalier"), model, "--read-others")
        self.check_served(3)
        model = self.served(0)
        self.run_cli("apply", self.new("3.safetensors"), model, expect=USAGE)
        self.run_cli("apply", model, model, expect=USAGE)
        self.run_cli("apply", self.new("3.espalier"), self.new("3.safetensors"), expect=USAGE)
        self.run_cli("apply", self.new("none.espalier"), model, expect=IO)
        with open(self.new("3.espalier"), "r+b") as damaged:
            damaged.seek(-1, 2)
            last = damaged.read(1)
            damaged.seek(-1, 2)
            damaged.write(bytes([last[0] ^ 1]))
        self.run_cli("apply", self.new("3.espalier"), self.served(2), expect=BAD_INPUT)
        self.check_served(2)
        self.served(0)
        self.assertEqual(pathlib.Path(model).read_bytes(), before)

    def chain_of_zeros(self, folder):
        """Steps whose tensor has equal chunks, of which the last one changes, under the name of the base that apply uses itself."""
        os.mkdir(self.new(folder))
        zeros = numpy.zeros(3 << 19, "u2")
        names = [f"{folder}/base.espalier", f"{folder}/1.espalier", f"{folder}/2.espalier"]
        for step, name in enumerate(names):
            self.write("now.safetensors", safetensors([("w", "BF16", zeros.shape, zeros.tobytes()), ("v", "BF16", zeros.shape, (zeros + 5).tobytes())]))
            self.run_cli("convert", self.new("now.safetensors"), self.new(name), *(["--base", self.new(names[step - 1])] if step else []))
            self.run_cli("convert", self.new("now.safetensors"), self.new(f"zeros-{step}.espalier"), "--force")
            zeros[-1000::50] += 1
        return [self.new(name) for name in names]

    def test_equal_chunks_each_have_their_own_place(self):
        base, one, two = self.chain_of_zeros("zeros")
        self.run_cli("rebase", two, "--onto", base, "-o", self.new("zeros/rebased.espalier"))
        self.run_cli("fold", two, self.new("zeros/folded.espalier"))
        shutil.copy(one, self.new("served.espalier"))
        shutil.copy(base, self.new("base.espalier"))
        self.run_cli("apply", two, self.new("served.espalier"))
        self.run_cli("apply", two, self.new("base.espalier"))
        whole = pathlib.Path(self.new("zeros-2.espalier")).read_bytes()
        for name in ("zeros/rebased", "zeros/folded", "served", "base"):
            self.run_cli("flatten", self.new(f"{name}.espalier"), self.new("flat.espalier"), "--force")
            self.assertEqual(pathlib.Path(self.new("flat.espalier")).read_bytes(), whole, name)

    def test_links_do_not_hide_what_is_needed(self):
        before = pathlib.Path(self.new("0.espalier")).read_bytes()
        os.mkdir(self.new("alone"))
        alone, link = self.new("alone/0.espalier"), self.new("alone/link.espalier")
        shutil.copy(self.new("0.espalier"), alone)
        os.symlink("0.espalier", link)
        self.run_cli("delta", link, self.new("1.safetensors"), "-o", alone, "-f", expect=USAGE)
        self.assertIn("would replace one that it refers to", self.stderr)
        os.mkdir(self.new("elsewhere"))
        os.symlink("../0.espalier", self.new("elsewhere/link.espalier"))
        self.run_cli("apply", self.new("1.espalier"), self.new("elsewhere/link.espalier"), expect=USAGE)
        self.assertIn("would lose their base", self.stderr)
        # NEW itself needs what would be replaced.
        self.run_cli("delta", self.new("0.espalier"), self.new("3.espalier"), "-o", self.new("2.espalier"), "-f", expect=USAGE)
        self.assertIn("the input needs this file", self.stderr)
        shutil.copy(self.new("2.espalier"), self.new("elsewhere/2.espalier"))
        self.run_cli("flatten", self.new("3.espalier"), self.new("elsewhere/2.espalier"), "--force")
        self.assertEqual(pathlib.Path(self.new("0.espalier")).read_bytes(), before)

    def test_fold_and_rebase_check_what_they_can(self):
        with open(self.new("2.espalier"), "r+b") as damaged:
            damaged.seek(-5, 2)
            last = damaged.read(1)
            damaged.seek(-5, 2)
            damaged.write(bytes([last[0] ^ 1]))
        self.run_cli("fold", self.new("3.espalier"), self.new("x.espalier"), expect=BAD_INPUT)
        self.run_cli("rebase", self.new("3.espalier"), "--onto", self.new("whole-0.espalier"), "-o", self.new("x.espalier"), expect=BAD_INPUT)
        self.assertFalse(os.path.exists(self.new("x.espalier")))

    def test_apply_leaves_a_file_that_others_need(self):
        self.run_cli("apply", self.new("1.espalier"), self.new("0.espalier"), expect=USAGE)
        self.assertIn("would lose their base", self.stderr)
        os.remove(self.new("2.espalier"))
        os.remove(self.new("3.espalier"))
        # Only the update itself refers to it, and is of no further use.
        self.run_cli("apply", self.new("1.espalier"), self.new("0.espalier"))
        self.check_whole("0.espalier", 1)
        said = self.text("verify", self.new("1.espalier"), expect=test_cli.INCOMPLETE)
        self.assertRegex(said, r"(?s)\(1 file missing or unusable\); .*base_mismatch")

    def test_no_command_replaces_what_others_need(self):
        needed = self.new("0.espalier")
        before = pathlib.Path(needed).read_bytes()
        self.run_cli("delta", self.new("whole-0.espalier"), self.new("1.safetensors"), "-o", self.new("x.espalier"))
        with open(self.new("map.json"), "w", encoding="utf-8") as file:
            json.dump({"espalier_map": 1, "rules": ["w <-> w"]}, file)
        one, two, patched = self.new("1.safetensors"), self.new("2.safetensors"), self.new("x.espalier")
        # Each writes to that file, and reads none of those that need it. A new command must be here, too.
        writing = {
            "apply": [self.new("1.espalier"), needed],
            "convert": [one, needed, "--force"],
            "delta": [one, two, "-o", needed, "--force"],
            "extract": [one, "w", "-o", needed, "--force"],
            "flatten": [patched, needed, "--force"],
            "fold": [patched, needed, "--force"],
            "index": [one, needed, "--force"],
            "map": [one, needed, "--map", self.new("map.json"), "--force"],
            "merge": [one, two, needed, "--force"],
            "rebase": [patched, "--onto", self.new("whole-0.espalier"), "-o", needed, "--force"],
        }
        commands = re.findall(r"^  (\w+)  ", self.text("help"), re.MULTILINE)
        self.assertGreater(len(commands), 15)
        replacing = {each for each in commands if "Replace OUT" in re.sub(r"\s+", " ", self.text("help", each))}
        self.assertEqual(set(writing), replacing | {"apply"})
        for command, arguments in writing.items():
            with self.subTest(command=command):
                self.run_cli(command, *arguments, expect=USAGE)
                self.assertIn("other checkpoints of the folder refer to this file", self.stderr)
                self.assertEqual(pathlib.Path(needed).read_bytes(), before)
        # Nor a further file that a command writes.
        self.run_cli("map", one, self.new("mapped.espalier"), "--map", self.new("map.json"), "--ledger", needed, "--force",
                     expect=USAGE)
        self.assertIn("other checkpoints of the folder refer to this file", self.stderr)
        self.assertEqual(pathlib.Path(needed).read_bytes(), before)
        # A link to it, and one that leads in a circle beside it, change nothing; nor does an unknown need.
        os.symlink("loop.espalier", self.new("loop.espalier"))
        os.symlink("0.espalier", self.new("link.espalier"))
        self.run_cli("merge", one, two, self.new("link.espalier"), "--force", expect=USAGE)
        self.assertIn("other checkpoints of the folder refer to this file", self.stderr)
        with open(self.new("3.espalier"), "r+b") as damaged:
            damaged.seek(200)
            damaged.write(b"\xff" * 8)
        self.run_cli("merge", one, two, self.new("whole-3.espalier"), "--force", expect=BAD_INPUT)
        self.assertIn("it is unknown which files this one needs", self.stderr)
        for step in (1, 2, 3):
            os.remove(self.new(f"{step}.espalier"))
        self.run_cli("merge", one, two, needed, "--force")

    def test_rebase_onto_a_stranger_is_refused(self):
        subprocess.run([test_cli.MAKE_SAMPLE, self.new("stranger.espalier"), "many:3"], check=True)
        self.run_cli("rebase", self.new("2.espalier"), "--onto", self.new("stranger.espalier"), "-o", self.new("new.espalier"), expect=USAGE)
        self.assertIn("nothing that FILE needs is in these checkpoints", self.stderr)
        self.assertFalse(os.path.exists(self.new("new.espalier")))

    def test_fold_of_what_changed_back_has_nothing(self):
        self.run_cli("delta", self.new("1.espalier"), self.new("0.safetensors"), "-o", self.new("back.espalier"))
        self.run_cli("fold", self.new("back.espalier"), self.new("folded.espalier"))
        self.assertEqual(self.log("folded.espalier")["chunks_referred"], 3)
        self.check_whole("folded.espalier", 0)

    def test_rebase_finds_the_base_by_its_hashes(self):
        self.run_cli("convert", self.new("0.espalier"), self.new("small.espalier"), "--compress")
        os.remove(self.new("0.espalier"))
        self.run_cli("rebase", self.new("2.espalier"), "--onto", self.new("small.espalier"), "-o", self.new("new.espalier"))
        self.assertEqual([need["name"] for need in self.json("needs", self.new("new.espalier"))["files"][0]["needs"]],
                         ["1.espalier", "small.espalier"])  # fmt: skip
        self.check_whole("new.espalier", 2)
        # Onto a file in the middle: fewer layers.
        self.run_cli("rebase", self.new("3.espalier"), "--onto", self.new("whole-2.espalier"), "-o", self.new("near.espalier"))
        self.assertEqual(self.log("near.espalier")["layers"], 1)
        self.check_whole("near.espalier", 3)
        # Onto another format, whose hashes are not known.
        self.run_cli("rebase", self.new("3.espalier"), "--onto", self.new("2.safetensors"), "-o", self.new("flat-base.espalier"))
        self.check_whole("flat-base.espalier", 3)
        self.run_cli("rebase", self.new("3.espalier"), "--onto", self.new("3.espalier"), "-o", self.new("none.espalier"), expect=test_cli.IO)
        self.assertIn("file_missing", self.stderr)

    def test_verify_local_reads_no_other_file(self):
        os.remove(self.new("0.espalier"))
        self.assertIn("were not checked", self.text("verify", "--local", self.new("1.espalier")))
        self.text("verify", self.new("1.espalier"), expect=test_cli.INCOMPLETE)
        entry = self.log("1.espalier", expect=CHECK_FAILED)
        self.assertEqual([each["code"] for each in entry["missing"]], ["file_missing"])

    def test_mistakes(self):
        for command in (["fold", "3.espalier", "2.espalier"], ["fold", "0.safetensors", "x.espalier"],
                        ["fold", "3.espalier", "0.espalier"], ["rebase", "3.espalier", "--onto", "0.espalier", "-o", "1.espalier"]):  # fmt: skip
            arguments = [part if part.startswith("-") or part in ("fold", "rebase") else self.new(part) for part in command]
            before = {name: pathlib.Path(self.new(name)).read_bytes() for name in ("0.espalier", "1.espalier", "2.espalier")}
            self.run_cli(*arguments, expect=USAGE)
            # What FILE or OUT needs is never replaced.
            self.run_cli(*arguments, "--force", expect=USAGE)
            for name, data in before.items():
                self.assertEqual(pathlib.Path(self.new(name)).read_bytes(), data, command)


class Parts(Writing):
    """No command replaces a part of a model in several files: its tensors would be lost."""

    def setUp(self):
        super().setUp()
        self.shards = [self.write(f"m-0000{i}-of-00002.safetensors", safetensors([(name, "F32", [1], name.encode() * 4)]))
                       for i, name in ((1, "v"), (2, "w"))]
        names = [os.path.basename(shard) for shard in self.shards]
        self.index = self.write("m.safetensors.index.json", json.dumps({"weight_map": dict(zip("vw", names))}).encode())
        self.before = [pathlib.Path(shard).read_bytes() for shard in self.shards]

    def refused(self, text, *args):
        self.run_cli(*args, expect=USAGE)
        self.assertIn(text, self.stderr)
        self.assertEqual([pathlib.Path(shard).read_bytes() for shard in self.shards], self.before)

    def test_of_an_input(self):
        other = self.write("b.safetensors", safetensors([("b", "F32", [1], b"bbbb")]))
        rename = self.write("rename.json", b'{"espalier_map": 1, "rules": ["v <-> v", "w <-> w"]}')
        whole = self.write("whole.safetensors", safetensors([(name, "F32", [1], b"new!") for name in "vw"]))
        # The shards lie elsewhere, behind links, so that no index stands beside the target.
        os.mkdir(self.new("linked"))
        os.mkdir(self.new("blobs"))
        index = shutil.move(self.index, self.new("linked"))
        for i, shard in enumerate(self.shards):
            os.symlink(os.path.join("..", "blobs", os.path.basename(shard)), self.new(f"linked/{os.path.basename(shard)}"))
            self.shards[i] = shutil.move(shard, self.new("blobs"))
        target = self.shards[0]
        for args in (["extract", index, "v", "-o", target], ["convert", index, target, "--to", "espalier"],
                     ["convert", index, "-o", target], ["merge", index, other, "-o", target],
                     ["map", index, "-o", target, "--map", rename],
                     ["map", index, self.new("new.espalier"), "--map", rename, "--ledger", target],
                     ["map", whole, self.new("new.espalier"), "--map", rename, "--like", index, "--ledger", target]):
            self.refused(f"{target}: the input needs this file", *args, "--force", "--no-metadata")
        self.assertFalse(os.path.exists(self.new("new.espalier")))

    def test_of_a_model_beside_the_target(self):
        os.remove(self.shards.pop())
        self.before.pop()
        other = self.write("b.safetensors", safetensors([("b", "F32", [1], b"bbbb")]))
        target, = self.shards
        refers = "other checkpoints of the folder refer to this file"
        for index in ("m.safetensors.index.json", "m.safetensors.index.fp16.json", "pytorch_model.bin.index.json"):
            os.rename(self.index, self.new(index))
            self.index = self.new(index)
            self.refused(refers, "convert", other, target, "--force")
        # Text that is no index means nothing, and an index that is damaged may mean everything.
        text = b'{"metadata": ["' + b"x" * 70_000 + b'"]}'
        os.rename(self.write("notes.json", text), self.new("notebook.json"))
        self.run_cli("convert", other, self.new("new.safetensors"))
        self.run_cli("convert", other, self.new("new.safetensors"), "--force")
        self.write("n.safetensors.index.json", text)
        self.run_cli("convert", other, self.new("new.safetensors"), "--force", expect=BAD_INPUT)
        self.assertIn("it is unknown which files this one needs", self.stderr)

    def test_of_a_distributed_checkpoint(self):
        folder = shutil.copytree(os.path.join(test_cli.Safetensors.DATA, "../foreign/dcp/files/flat.dcp"), self.new("run"))
        self.shards = sorted(str(part) for part in pathlib.Path(folder).glob("*.distcp"))
        self.before = [pathlib.Path(part).read_bytes() for part in self.shards]
        other = self.write("b.safetensors", safetensors([("b", "F32", [1], b"bbbb")]))
        self.refused("the input needs this file", "convert", folder, self.shards[0], "--to", "espalier", "--force")
        self.refused("other checkpoints of the folder refer", "convert", other, self.shards[0], "--to", "espalier", "--force")


class Prune(Writing):
    """Removing checkpoints that nothing needs."""

    def setUp(self):
        super().setUp()
        os.mkdir(self.new("run"))
        weights = numpy.random.default_rng(5).integers(0, 2**16, 1 << 17, dtype="u2")
        for step in range(1, 13):
            self.write("now.safetensors", safetensors([("w", "BF16", weights.shape, weights.tobytes())]))
            against = ["--base", self.step(10)] if step > 10 else []
            self.run_cli("convert", self.new("now.safetensors"), self.step(step), *against)
            weights[step::100] += 1
        self.write("run/notes.txt", b"not a checkpoint")
        self.age()

    def step(self, step):
        return self.new(f"run/step_{step}.espalier")

    def age(self):
        for name in os.listdir(self.new("run")):
            os.utime(os.path.join(self.new("run"), name), (0, 0))

    def steps(self):
        return sorted(int(name[5:-9]) for name in os.listdir(self.new("run")) if name.startswith("step_"))

    def prune(self, *options, **more):
        return self.json("prune", self.new("run"), *options, **more)

    def test_rules_and_what_is_needed(self):
        everything = self.steps()
        found = self.prune("--keep-last", "1", "--keep-every", "4")
        self.assertEqual(self.steps(), everything)  # Nothing goes without --delete.
        self.assertEqual({each["file"]: each["kept_by"] for each in found["files"] if not each["removed"]},
                         {"step_4.espalier": "its number", "step_8.espalier": "its number",
                          "step_10.espalier": "needed", "step_12.espalier": "one of the last"})  # fmt: skip
        self.prune("--keep-last", "1", "--keep-every", "4", "--delete")
        self.assertEqual(self.steps(), [4, 8, 10, 12])
        self.assertIn(": ok", self.text("verify", self.step(12)))
        self.assertTrue(os.path.exists(self.new("run/notes.txt")))

    def test_the_root_of_a_distributed_checkpoint_stays(self):
        saved = pathlib.Path(__file__).resolve().parent.parent / "distributed/saved"
        shutil.rmtree(self.new("run"))
        shutil.copytree(saved, self.new("run"))
        self.age()
        before = sorted(os.listdir(self.new("run")))
        found = self.prune("--keep-last", "1", "--delete")
        self.assertEqual(sorted(name for name in os.listdir(self.new("run")) if not name.startswith(".")), before)
        self.assertEqual({each["kept_by"] for each in found["files"]}, {"the folder opens by it", "one of the last", "needed"})
        self.text("verify", self.new("run"))
        # A folder that two checkpoints name is none of them.
        self.write("run/.metadata", b"x")
        self.run_cli("ls", self.new("run"), expect=BAD_INPUT)
        self.assertIn("a folder of two checkpoints", self.stderr)

    def test_files_of_other_formats_stay_whatever_their_names(self):
        array = io.BytesIO()
        numpy.save(array, numpy.arange(3))
        self.write("run/step_91.espalier", array.getvalue())
        self.write("run/step_92.espalier", safetensors([("w", "F32", [1], b"aaaa")]))
        self.age()
        found = json.loads(self.run_cli("prune", self.new("run"), "--keep-last", "1", "--delete", "--json", expect=None))
        self.assertEqual(self.code, OK)
        # Nor does one count as the last.
        self.assertEqual(self.steps(), [10, 12, 91, 92])
        self.assertNotIn("step_91.espalier", [each["file"] for each in found["files"]])
        for step, what in ((91, "NumPy"), (92, "safetensors")):
            self.assertIn(f"{self.step(step)}: this is no Espalier file ({what}), and stays\n", self.stderr)

    def test_what_an_index_needs_stays(self):
        self.write("run/m.index.json", json.dumps({"weight_map": {"w": "step_2.espalier"}}).encode())
        self.prune("--keep-last", "1", "--delete")
        self.assertEqual(self.steps(), [2, 10, 12])

    def test_names_links_and_young_files(self):
        os.rename(self.step(3), self.new("run/best.espalier"))
        self.prune("--keep", "best*", "--delete")
        self.assertEqual(self.steps(), [])
        self.assertTrue(os.path.exists(self.new("run/best.espalier")))
        self.remake()
        # The base under another name, which is a link to it.
        os.rename(self.step(10), self.new("run/kept.bin"))
        os.symlink("kept.bin", self.step(10))
        self.age()
        self.prune("--keep-last", "1", "--delete")
        self.assertTrue(os.path.exists(self.new("run/kept.bin")))
        self.assertIn(": ok", self.text("verify", self.step(12)))
        self.remake()
        os.symlink("step_5.espalier", self.new("run/latest.espalier"))
        self.prune("--keep-last", "1", "--delete")
        self.assertEqual(self.steps(), [5, 10, 12])
        self.remake()
        os.utime(self.step(5))
        self.prune("--keep-last", "1", "--delete")
        self.assertEqual(self.steps(), [5, 10, 12])

    def remake(self):
        shutil.rmtree(self.new("run"))
        os.mkdir(self.new("run"))
        weights = numpy.random.default_rng(5).integers(0, 2**16, 1 << 17, dtype="u2")
        for step in (5, 10, 12):
            self.write("now.safetensors", safetensors([("w", "BF16", weights.shape, weights.tobytes())]))
            self.run_cli("convert", self.new("now.safetensors"), self.step(step), *(["--base", self.step(10)] if step > 10 else []))
            weights[step::100] += 1
        self.age()

    def test_nothing_is_removed_on_a_guess(self):
        everything = self.steps()
        with open(self.step(7), "r+b") as file:
            file.truncate(100)
        self.age()
        self.run_cli("prune", self.new("run"), "--keep-last", "1", "--delete", expect=test_cli.BAD_INPUT)
        self.assertIn("nothing was removed", self.stderr)
        self.assertEqual(self.steps(), everything)
        self.run_cli("prune", self.new("run"), "--delete", expect=USAGE)
        self.assertIn("say what to keep", self.stderr)

    def test_rules_that_keep_nothing_are_slips(self):
        everything = self.steps()
        for rule, what in ((("--keep", "step_1"), "nothing there has a name like --keep step_1"), (("--keep-every", "1000"), "keep no checkpoint at all")):
            self.run_cli("prune", self.new("run"), *rule, "--delete", expect=USAGE)
            self.assertIn(what, self.stderr)
        self.assertEqual(self.steps(), everything)

    def test_what_is_needed_stays_whole(self):
        shutil.rmtree(self.new("run"))
        os.mkdir(self.new("run"))
        random = numpy.random.default_rng(6)
        parts = {name: random.bytes(1 << 18) for name in "ab"}
        # Step 3 needs step 2 for "b" alone, and step 2 needs step 1 for "a".
        for step, changed in ((1, ""), (2, "b"), (3, "a")):
            parts |= {name: random.bytes(1 << 18) for name in changed}
            self.write("now.safetensors", safetensors([(name, "U8", [1 << 18], data) for name, data in parts.items()]))
            against = ["--base", self.step(step - 1)] if changed else []
            self.run_cli("convert", self.new("now.safetensors"), self.step(step), *against)
        self.age()
        self.assertEqual(self.text("needs", self.step(3)), self.step(2) + "\n")
        self.prune("--keep-last", "1", "--delete")
        self.assertEqual(self.steps(), [1, 2, 3])
        self.assertIn(": ok", self.text("verify", self.step(2)))


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
    import report
    sys.exit(report.main())
