"""Holds the shared library: what it exports, and that programs in C, Rust and Python can use its C interface.

Usage: test_abi.py SOURCE LIBRARY ESPALIER WORK EXPORT_CXX, where LIBRARY is libespalier.so, ESPALIER the command line, WORK a
folder to use, and EXPORT_CXX is 1 if the library was built with that option.
"""
import ctypes
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import traceback
import unittest
import zipfile

SOURCE, LIBRARY, ESPALIER, WORK = (pathlib.Path(argument).resolve() for argument in sys.argv[1:5])
EXPORTS_CXX = sys.argv[5] == "1"
HERE = SOURCE / "tests/abi"
HEADER = SOURCE / "include/espalier.h"
CHECKPOINT = SOURCE / "tests/data/digits/digits.safetensors"
WEIGHT = "model.layers.8.weight"


def run(*command, **options):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **options)
    assert result.returncode == 0, f"{command}: {result.stdout}{result.stderr}"
    return result.stdout


def exported():
    lines = run("nm", "-D", "--defined-only", LIBRARY).splitlines()
    names = {re.sub("@.*", "", line.split(" ", 2)[2]) for line in lines if " A " not in line}
    # Of C++, as ESPALIER_EXPORT_CXX says, the names are those of native/c/exports_cxx.map.
    return {name for name in names if not (EXPORTS_CXX and name.startswith("_Z"))}


class Exports(unittest.TestCase):
    maxDiff = None

    def test_what_is_exported_is_the_list(self):
        lines = (HERE / "exported.txt").read_text().splitlines()
        names = [line for line in lines if not line.startswith("#")]
        self.assertEqual(names, sorted(set(names)))
        self.assertEqual(sorted(exported()), names)

    def test_the_functions_are_those_of_the_header(self):
        declared = set(re.findall(r"ESPALIER_C_API [^;]*?\b(espalier_\w+)\(", HEADER.read_text()))
        self.assertGreater(len(declared), 50)
        self.assertEqual(exported(), declared)

    def test_the_soname_has_the_version(self):
        dynamic = run("objdump", "-p", LIBRARY)
        version = re.search(r"VERSION (\d+\.\d+)\.\d+", (SOURCE / "CMakeLists.txt").read_text())[1]
        self.assertIn(f"SONAME               libespalier.so.{version}\n", dynamic)


class Programs(unittest.TestCase):
    def setUp(self):
        self.folder = WORK / self._testMethodName
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.environment = {"LD_LIBRARY_PATH": str(LIBRARY.parent), "PATH": "/usr/bin:/bin"}

    def compile_c(self, compiler, *options, source="tour.c"):
        program = self.folder / "tour"
        run(*compiler, *options, "-Wall", "-Wextra", "-pedantic", "-Werror", "-I", HEADER.parent, HERE / source, "-o",
            program, "-L", LIBRARY.parent, "-lespalier")
        return program

    def test_c(self):
        for source in ("tour.c", "places.c"):
            with self.subTest(source):
                program = self.compile_c(["cc"], "-std=c99", source=source)
                self.assertEqual(run(program, self.new_folder("first"), env=self.environment), "ok\n")
                # Nothing leaks, and nothing is used after it is freed.
                run("valgrind", "-q", "--leak-check=full", "--error-exitcode=9", program, self.new_folder("second"),
                    env=self.environment)

    def new_folder(self, name):
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder

    def test_cpp_takes_the_header(self):
        unit = self.folder / "unit.cpp"
        unit.write_text('#include "espalier.h"\nint main() { return espalier_abi_version() ? 0 : 1; }\n')
        run("c++", "-std=c++11", "-Wall", "-Wextra", "-pedantic", "-Werror", "-I", HEADER.parent, unit, "-o",
            self.folder / "unit", "-L", LIBRARY.parent, "-lespalier")
        run(self.folder / "unit", env=self.environment)

    def test_rust(self):
        program = self.folder / "tour"
        run("rustc", "--edition", "2021", "-D", "warnings", HERE / "tour.rs", "-o", program, "-L", LIBRARY.parent)
        self.assertEqual(run(program, CHECKPOINT, WEIGHT, env=self.environment), self.expected())
        failed = subprocess.run([program, CHECKPOINT, "model/none"], env=self.environment, capture_output=True, text=True,
                                check=False)
        self.assertEqual(failed.returncode, 42)
        self.assertIn("code not_found", failed.stderr)

    def expected(self):
        """What tour.rs prints, from another reader."""
        import json
        import struct

        data = CHECKPOINT.read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        entry = json.loads(data[8 : 8 + length])[WEIGHT]
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        total = ctypes.c_float(0)
        for (element,) in struct.iter_unpack("<f", data[begin:end]):
            total = ctypes.c_float(total.value + element)
        import numpy

        return f"f32 {entry['shape']} {numpy.float32(total.value)!s}\n"

    def test_python(self):
        library = ctypes.CDLL(str(LIBRARY))
        library.espalier_error_text.restype = ctypes.c_char_p
        error, file, found = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        path = str(CHECKPOINT).encode()
        self.assertEqual(library.espalier_open(path, None, ctypes.byref(file), ctypes.byref(error)), 0)

        class Text(ctypes.Structure):
            _fields_ = [("data", ctypes.POINTER(ctypes.c_char)), ("size", ctypes.c_size_t)]

        library.espalier_list_path.restype = Text
        library.espalier_list_size.restype = ctypes.c_size_t
        self.assertEqual(library.espalier_find(file, b"model.layers.*.weight", ctypes.byref(found), None), 0)
        texts = [library.espalier_list_path(found, ctypes.c_size_t(i)) for i in range(library.espalier_list_size(found))]
        self.assertEqual({text.data[: text.size].decode() for text in texts},
                         {line.split()[-1] for line in run(ESPALIER, "ls", "-q", CHECKPOINT, "*.weight").splitlines()
                          if "model.layers" in line})
        library.espalier_list_free(found)
        self.assertEqual(library.espalier_find(file, b"a{", ctypes.byref(found), ctypes.byref(error)), 41)
        self.assertIn(b"never closed", library.espalier_error_text(error))
        library.espalier_error_free(error)
        library.espalier_close(file)


class Text(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t)]


class Prototype:
    """A function of the header: its name, what it returns, and its parameters as (type, name)."""

    def __init__(self, returns, name, parameters):
        self.returns, self.name = returns.strip(), name
        self.parameters = [] if parameters == "void" else [
            re.fullmatch(r"(.*?)\s*(\w+)", each.strip()).groups() for each in parameters.split(",")]

    @staticmethod
    def all():
        text = re.sub(r"/\*.*?\*/|^#.*?(?<!\\)$", "", HEADER.read_text(), flags=re.S | re.M)
        found = re.findall(r"ESPALIER_C_API\s+([^;(]*?)\b(espalier_\w+)\(([^)]*)\);", text)
        return [Prototype(*(re.sub(r"\s+", " ", part) for part in each)) for each in found]

    def of(self, library):
        """The function of the library, with the types that it takes and returns."""
        function = getattr(library, self.name)
        function.argtypes = [self.ctype(type_, name) for type_, name in self.parameters]
        function.restype = None if self.returns == "void" else self.ctype(self.returns, "")
        return function

    @staticmethod
    def ctype(type_, name):
        if type_.endswith("*") or type_ == "espalier_progress":
            return ctypes.c_void_p
        return {"int": ctypes.c_int, "int64_t": ctypes.c_int64, "uint32_t": ctypes.c_uint32, "uint64_t": ctypes.c_uint64,
                "size_t": ctypes.c_size_t, "double": ctypes.c_double, "espalier_status": ctypes.c_int32,
                "espalier_node": ctypes.c_uint32, "espalier_dtype": ctypes.c_uint32, "espalier_kind": ctypes.c_uint32,
                "espalier_verdict": ctypes.c_uint32, "espalier_text": Text}[type_]


class Null(unittest.TestCase):
    """No function of the header crashes for a NULL, wherever it stands: what has no memory is NULL."""

    def setUp(self):
        self.library = ctypes.CDLL(str(LIBRARY))
        self.functions = {each.name: each.of(self.library) for each in Prototype.all()}
        self.kept = []  # memory that arguments point to
        WORK.mkdir(parents=True, exist_ok=True)
        self.path = WORK / "null.safetensors"
        header = b'{"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
        self.path.write_bytes(struct.pack("<Q", len(header)) + header + b"x")

    def memory(self, content):
        self.kept.append(ctypes.create_string_buffer(bytes(content)))  # with a NUL at its end
        return ctypes.addressof(self.kept[-1])

    def handle(self, name, *arguments):
        """What a function puts into its last argument but one."""
        out = ctypes.c_void_p()
        self.assertEqual(self.functions[name](*arguments, ctypes.addressof(out), None), 0, name)
        return out.value

    def file(self):
        return self.handle("espalier_open", self.memory(str(self.path).encode()), None)

    def error(self):
        error, out = ctypes.c_void_p(), ctypes.c_void_p()
        self.functions["espalier_open"](self.memory(b"/none"), None, ctypes.addressof(out), ctypes.addressof(error))
        return error.value

    def weight(self, file):
        node = ctypes.c_uint32()
        root = self.functions["espalier_state"](file)
        self.assertEqual(self.functions["espalier_at"](file, root, self.memory(b"w"), ctypes.addressof(node), None), 0)
        return node.value

    def container(self, name):
        return self.functions["espalier_new_container"](10 if name == "espalier_add" else 9)

    def argument(self, function, type_, name):
        """An argument that is right for this parameter of a function."""
        file = self.file()
        if type_ in ("const espalier_file*", "espalier_file*"):
            return file
        if "espalier_value*" in type_ and not type_.endswith("**"):
            return self.functions["espalier_new_null"]() if name in ("child", "value") else self.container(function)
        if type_ in ("const espalier_list*", "espalier_list*"):
            return self.handle("espalier_find", file, self.memory(b"**"))
        if type_ in ("const espalier_view*", "espalier_view*"):
            return self.handle("espalier_view_tensor", file, self.weight(file), 0)
        if type_ in ("const espalier_report*", "espalier_report*"):
            return self.handle("espalier_verify", file, None, None)
        if type_ in ("const espalier_error*", "espalier_error*"):
            return self.error()
        if type_ == "espalier_cancel*":
            return self.functions["espalier_new_cancel"]()
        if type_ in ("const espalier_dir*", "espalier_dir*"):
            return self.handle("espalier_dir_open", self.memory(str(WORK / "runs").encode()), None)
        if type_ in ("const espalier_saving*", "espalier_saving*"):
            path = self.memory(str(WORK / "made.espalier").encode())
            return self.handle("espalier_save_async", path, self.functions["espalier_new_null"](), 0, None)
        if type_ == "const espalier_source*":
            # size, bytes, data; the rest is 0.
            content = self.path.read_bytes()
            return self.memory(struct.pack("<QQQ", 56, len(content), self.memory(content)) + bytes(32))
        if type_ == "const espalier_sink*":
            # size, reserve, write, commit, context
            write = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t)(lambda *_: 0)
            commit = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(lambda *_: 0)
            self.kept += [write, commit]
            places = [ctypes.cast(each, ctypes.c_void_p).value for each in (write, commit)]
            return self.memory(struct.pack("<QQQQQ", 40, 0, *places, 0))
        if type_ == "espalier_node":
            tensors = ("espalier_get_tensor", "espalier_read", "espalier_view_tensor")
            return self.weight(file) if function in tensors else self.functions["espalier_state"](file)
        if type_ == "const espalier_tensor_spec*":
            # size, dtype, rank, shape, data, data_bytes; the rest is 0.
            u8 = self.functions["espalier_dtype_from_name"](self.memory(b"u8"))
            spec = struct.pack("<QIIQQQ", 112, u8, 1, self.memory(struct.pack("<Q", 2)), self.memory(b"ab"), 2)
            return self.memory(spec + bytes(112 - len(spec)))
        if type_ == "const espalier_read_request*":
            return self.memory(struct.pack("<IxxxxQQQQ", self.weight(file), 0, 0, self.memory(bytes(4096)), 1))
        if type_ == "const espalier_slice*":
            return self.memory(struct.pack("<IIqqq", 1, 1, 0, 1, 1))
        if type_ in ("espalier_node_info*", "espalier_key*", "espalier_tensor_info*"):
            return self.memory(struct.pack("<Q", 40) + bytes(32))
        if type_.endswith("**") or type_ in ("espalier_node*", "uint64_t*", "size_t*"):
            return self.memory(bytes(8))
        if type_ in ("const char*", "const void*", "void*", "char*"):
            ending = {"espalier_save": "made.espalier", "espalier_save_safetensors": "made.safetensors",
                      "espalier_save_async": "made.espalier"}.get(function)
            path = WORK / ending if ending else self.path if function == "espalier_open" else "w"
            return self.memory({"path": str(path).encode(), "folder": str(WORK / "runs").encode(), "pattern": b"**", "name": b"u8"}.get(name, bytes(8)))
        if type_ == "espalier_kind":
            return 9
        if type_ in ("size_t", "uint32_t", "uint64_t", "int64_t", "int", "double", "espalier_dtype"):
            return 0 if name == "i" else 1
        return None  # what may be NULL

    def test_every_function_takes_null(self):
        # What espalier.h says may be NULL.
        optional = {"options", "progress", "context", "error"}
        tried = 0
        for prototype in Prototype.all():
            for position, (type_, name) in enumerate(prototype.parameters):
                if not type_.endswith("*") and type_ != "espalier_progress":
                    continue
                with self.subTest(function=prototype.name, parameter=name):
                    tried += 1
                    self.check(prototype, position, must_fail=name not in optional)
        self.assertGreater(tried, 90)

    def check(self, prototype, position, must_fail):
        """Calls a function with one NULL, in a process of its own."""
        child = os.fork()
        if child == 0:
            code = 3
            try:
                arguments = [self.argument(prototype.name, *each) for each in prototype.parameters]
                arguments[position] = None
                result = self.functions[prototype.name](*arguments)
                if prototype.returns != "espalier_status" or prototype.name == "espalier_error_status":
                    code = 0
                else:
                    code = 0 if (result in (16, 45)) == must_fail else 4
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0)

    def test_values_that_there_was_no_memory_for(self):
        error = ctypes.c_void_p()
        child = self.functions["espalier_new_int"](1)
        status = self.functions["espalier_add_text"](None, self.memory(b"key"), 3, child, ctypes.addressof(error))
        self.assertEqual(status, 16)
        text = ctypes.string_at(self.functions["espalier_error_text"](error))
        self.assertIn(b"there was no memory", text)
        self.functions["espalier_error_free"](error)
        # Nor was there any for the error of a call.
        self.assertEqual(self.functions["espalier_error_status"](None), 16)
        self.assertEqual(ctypes.string_at(self.functions["espalier_error_code"](None)), b"out_of_memory")


class Printable(unittest.TestCase):
    """What the interface calls printable cannot turn a terminal against its user, whatever is in a file."""

    EVIL = "\x1b]0;owned\x07\x1b[31m\r\n\x7f\x85\x9b\u061c\u200b\u200e\u202e\u2066\u2069\ufeff"
    RAW = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")

    def files(self, folder):
        evil = self.EVIL
        def header(tensors, data=b""):
            text = json.dumps(tensors).encode()
            return struct.pack("<Q", len(text)) + text + data
        f32 = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
        yield "dtype.safetensors", header({evil: {**f32, "dtype": evil}}, bytes(4))
        yield "shape.safetensors", header({evil: {**f32, "shape": [2]}}, bytes(4))
        yield "twice.safetensors", header({}).replace(b"{}", b"{}") and (lambda text: struct.pack("<Q", len(text)) + text)(
            b'{%s:{},%s:{}}' % (json.dumps(evil).encode(), json.dumps(evil).encode()))
        yield "model.safetensors.index.json", json.dumps({"weight_map": {evil: evil + ".safetensors"}}).encode()
        text = evil.encode()
        yield "keys.gguf", b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + 2 * (struct.pack("<Q", len(text)) + text + struct.pack("<Ii", 5, 1))
        with zipfile.ZipFile(folder / "made.npz", "w") as archive:
            archive.writestr(f"a{evil}.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", 40) + b"{'descr': '%s'" % text[:20])
            archive.writestr("b" + evil, b"none")
        yield "a.npz", (folder / "made.npz").read_bytes()
        with zipfile.ZipFile(folder / "made.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"x{evil}/data.pkl", b"\x80\x02c%s\nb\n." % text.replace(b"\n", b""))
        yield "a.pt", (folder / "made.npz").read_bytes()
        yield "b.pt", b"\x80\x02cos\x1b]0;x\x07\nsys\xe2\x80\xaetem\n."

    def test_errors(self):
        folder = WORK / self._testMethodName
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        library = ctypes.CDLL(str(LIBRARY))
        functions = {each.name: each.of(library) for each in Prototype.all()}
        seen = []

        def note(error, of):
            for name in ("espalier_error_text", "espalier_error_message"):
                text = ctypes.string_at(functions[name](error)).decode()
                self.assertNotRegex(text, self.RAW, f"{of}: {name}")
                if "owned" in text or "tem" in text:
                    seen.append(of)

        for name, content in self.files(folder):
            path = folder / name
            path.write_bytes(content)
            file, error, report, found = (ctypes.c_void_p() for _ in range(4))
            if functions["espalier_open"](str(path).encode(), None, ctypes.addressof(file), ctypes.addressof(error)) != 0:
                note(error, name)
                functions["espalier_error_free"](error)
                continue
            if functions["espalier_verify"](file, None, None, ctypes.addressof(report), ctypes.addressof(error)) == 0:
                i = 0
                while each := functions["espalier_report_error"](report, i):
                    note(each, name)
                    i += 1
                functions["espalier_report_free"](report)
            for call in (lambda: functions["espalier_load"](file, functions["espalier_state"](file), 0, ctypes.addressof(found), ctypes.addressof(error)),
                         lambda: functions["espalier_find"](file, self.EVIL.encode() + b"{", ctypes.addressof(found), ctypes.addressof(error))):
                if call() != 0:
                    note(error, name)
                    functions["espalier_error_free"](error)
            functions["espalier_close"](file)
        # Names did get into messages, or nothing was tested.
        self.assertGreater(len(set(seen)), 3, seen)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
