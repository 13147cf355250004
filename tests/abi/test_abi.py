"""Holds the shared library: what it exports, and that programs in C, Rust and Python can use its C interface.

Usage: test_abi.py SOURCE LIBRARY ESPALIER WORK, where LIBRARY is libespalier.so, ESPALIER the command line and WORK a
folder to use.
"""
import ctypes
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

SOURCE, LIBRARY, ESPALIER, WORK = (pathlib.Path(argument).resolve() for argument in sys.argv[1:5])
HERE = SOURCE / "tests/abi"
HEADER = SOURCE / "native/c/espalier.h"
CHECKPOINT = SOURCE / "tests/data/digits/digits.safetensors"
WEIGHT = "model.layers.8.weight"


def run(*command, **options):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **options)
    assert result.returncode == 0, f"{command}: {result.stdout}{result.stderr}"
    return result.stdout


def exported(demangled):
    lines = run("nm", "-D", "--defined-only", *(["-C"] if demangled else []), LIBRARY).splitlines()
    return [line.split(" ", 2)[2] for line in lines if " A " not in line]


class Exports(unittest.TestCase):
    def test_c_functions_are_those_of_the_header(self):
        declared = set(re.findall(r"ESPALIER_C_API [^;]*?\b(espalier_\w+)\(", HEADER.read_text()))
        self.assertGreater(len(declared), 50)
        of_library = {name for name in exported(False) if not name.startswith("_Z")}
        self.assertEqual({re.sub("@.*", "", name) for name in of_library}, declared)

    def test_cpp_symbols_are_those_of_public_classes(self):
        allowed = (HERE / "exported.txt").read_text().split("\n")
        allowed = {line for line in allowed if line and not line.startswith("#")}
        found = set()
        for name in exported(True):
            if name.startswith("espalier_"):
                continue
            bare = re.sub(r"@.*|\[abi:\w+\]", "", name)
            bare = re.sub(r"^(vtable|typeinfo name|typeinfo|non-virtual thunk to|guard variable) for ", "", bare)
            match = re.match(r"(?:[\w:<>&*, ]+ )?(espalier::\w+)", bare)
            self.assertTrue(match, f"exported without need: {name}")
            found.add(match[1])
        self.assertEqual(found, allowed)

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

    def compile_c(self, compiler, *options):
        program = self.folder / "tour"
        run(*compiler, *options, "-Wall", "-Wextra", "-pedantic", "-Werror", "-I", HEADER.parent, HERE / "tour.c", "-o",
            program, "-L", LIBRARY.parent, "-lespalier")
        return program

    def test_c(self):
        program = self.compile_c(["cc"], "-std=c99")
        self.assertEqual(run(program, self.folder, env=self.environment), "ok\n")
        # Nothing leaks, and nothing is used after it is freed.
        for file in self.folder.glob("*.*"):
            file.unlink()
        run("valgrind", "-q", "--leak-check=full", "--error-exitcode=9", program, self.folder, env=self.environment)

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


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
