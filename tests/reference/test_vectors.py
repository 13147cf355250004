#!/usr/bin/env python3
"""Every test vector of docs/format.md is right: this reads the page, and computes each of them.

A vector is what stands between `<!-- vector: NAME -->` and the next vector or heading. The last line is
"N passed, N failed".
"""

from __future__ import annotations

import json
import math
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import unittest
from typing import Iterator

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

import espalier_reference as reference
import numpy as np
import report
import xxhash
from espalier_build import Array, ChunkRecord, Labelled, build, from_tree, h64, h128, patch, put_patch, refer, tree_digest
from random_trees import BITS

PAGE = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")
WORDS = " ".join(PAGE.split())  # For sentences, which go on in the next line.
MAGIC = ROOT / "packaging" / "espalier.magic"
INTS = re.compile("[iu][0-9]+")


def vectors() -> dict[str, str]:
    parts = re.split(r"<!-- vector: (.+?) -->", PAGE)[1:]
    return {name: re.split("\n#+ |\n\\*\\*", text)[0] for name, text in zip(parts[::2], parts[1::2], strict=True)}


VECTORS = vectors()


def table(name: str) -> Iterator[list[str]]:
    """The rows of the table of a vector: the first one after its mark."""
    lines = VECTORS[name].strip().split("\n\n")[0].splitlines()
    for line in lines[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def code(name: str) -> list[str]:
    """The lines of the code block of a vector."""
    return VECTORS[name].split("```")[1].strip("\n").splitlines()


def plain(cell: str) -> str:
    return cell.strip("`")


def leading_bytes(text: str) -> bytes:
    """The bytes at the beginning of a text, which single spaces separate."""
    return bytes.fromhex(re.match("(?:[0-9A-F]{2}(?: |$))*", text)[0])


def named_bytes(name: str) -> dict[str, bytes]:
    """The lines of a code block as `name  bytes`; a line without a name goes on."""
    found: dict[str, bytes] = {}
    last = ""
    for line in code(name):
        last = line[:10].strip() or last
        found[last] = found.get(last, b"") + bytes.fromhex(line[10:])
    return found


# --- Elements, by the table of section 13 alone -----------------------------------------------------


def float_types() -> dict[str, dict[str, str]]:
    columns = ("dtype", "sign", "exponent", "mantissa", "bias", "infinities", "nan", "largest", "by")
    return {row[0]: dict(zip(columns, row, strict=True)) for row in table("floats")}


FLOATS = float_types()


def number_of(dtype: str, element: int) -> float:
    """What an element of a floating-point type means."""
    row = FLOATS[dtype]
    exponent_bits, bits, bias = (int(row[key]) for key in ("exponent", "mantissa", "bias"))
    e, m = element >> bits & (1 << exponent_bits) - 1, element & (1 << bits) - 1
    sign = -1.0 if int(row["sign"]) and element >> (bits + exponent_bits) else 1.0
    is_high = e == (1 << exponent_bits) - 1
    holds = {
        "none": False,
        "`e` all ones, `m` 0": is_high and m == 0,
        "`e` all ones, `m` not 0": is_high and m != 0,
        "`e` and `m` all ones": is_high and m == (1 << bits) - 1,
        "only the code `80`": element == 0x80,
        "only the code `FF`": element == 0xFF,
    }
    if holds[row["nan"]]:
        return math.nan
    if holds[row["infinities"]]:
        return sign * math.inf
    if e == 0 and dtype != "f8_e8m0fnu":
        return sign * math.ldexp(m / 2**bits, 1 - bias)
    return sign * math.ldexp(1 + m / 2**bits, e - bias)


def values_of(dtype: str, data: bytes) -> list:
    """The elements of a tensor."""
    if dtype == "bool":
        return [byte != 0 for byte in data]
    if dtype in ("c64", "c128"):
        parts = values_of("f32" if dtype == "c64" else "f64", data)
        return [complex(*pair) for pair in zip(parts[::2], parts[1::2])]
    width = BITS[dtype]
    whole = int.from_bytes(data, "little")  # Bit k of it is bit k of the tensor.
    elements = [whole >> at & (1 << width) - 1 for at in range(0, 8 * len(data), width)]
    if INTS.fullmatch(dtype):
        return [each - (1 << width) if dtype[0] == "i" and each >> (width - 1) else each for each in elements]
    return [number_of(dtype, each) for each in elements]


def value_text(value: bool | int | float | complex) -> str:
    """A value as the page writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, complex):
        return f"({value_text(value.real)}, {value_text(value.imag)})"
    return repr(value).removesuffix(".0")


def element_rows() -> list[tuple[str, bytes, str]]:
    """(dtype, bytes, values as text)"""
    return [(dtype, bytes.fromhex(plain(data)), values) for dtype, data, values in table("elements")]


def file_of_version_11() -> tuple[bytes, dict[str, bytes]]:
    """The file of version 1.1 in section 17, and the file beside it."""
    model = bytes(range(64))
    base, new = model[32:], model[32:37] + b"\x26" + model[38:]
    tables = from_tree({"a": Array("u8", (4,), model[8:12]), "b": Array("u8", (32,), new)})
    refer(tables, {"model.bin": model}, {0: ("model.bin", 8)})
    put_patch(tables, 1, patch(1, base, new), [ChunkRecord(base, False, 32, h128(base), len(base), 1, 0)])
    return build(tables), {"model.bin": model}


class Elements(unittest.TestCase):
    def test_values(self):
        for dtype, data, values in element_rows():
            with self.subTest(dtype=dtype):
                self.assertEqual(", ".join(map(value_text, values_of(dtype, data))), values)

    def test_every_dtype_has_a_row(self):
        names = {name for name, bits in reference.DTYPES.values() if bits}
        self.assertEqual({dtype for dtype, _, _ in element_rows()}, names)
        self.assertEqual(set(FLOATS), {n for n in names if n[0] in "fb" and n != "bool"})

    def test_numpy_agrees(self):
        """With its own types, on every element of two bytes and on the rows."""
        every = np.arange(1 << 16, dtype="<u2")
        with np.errstate(all="ignore"):
            for dtype, numbers in (("f16", every.view("<f2")), ("bf16", (every.astype("<u4") << 16).view("<f4"))):
                ours = np.array(values_of(dtype, every.tobytes()))
                self.assertTrue(np.array_equal(ours, numbers.astype("f8"), equal_nan=True), dtype)
                is_number = ~np.isnan(ours)
                self.assertTrue(np.array_equal(np.signbit(ours)[is_number], np.signbit(numbers)[is_number]), dtype)
        for dtype, data, _ in element_rows():
            if dtype in ("f32", "f64", "c64", "c128") or INTS.fullmatch(dtype) and BITS[dtype] >= 8:
                kind = {"b": "f"}.get(dtype[0], dtype[0])
                found = np.frombuffer(data, f"<{kind}{BITS[dtype] // 8}")
                self.assertTrue(np.array_equal(np.array(values_of(dtype, data)), found, equal_nan=found.dtype.kind in "fc"))

    def test_largest_numbers_and_widths(self):
        for dtype, row in FLOATS.items():
            width = sum(int(row[key]) for key in ("sign", "exponent", "mantissa"))
            self.assertEqual(width, BITS[dtype], dtype)
            # The largest is one of the last codes.
            top = 1 << (width - int(row["sign"]))
            last = range(max(0, top - 2 - (1 << int(row["mantissa"])) if width <= 16 else top - 1), top)
            if width > 16:
                last = [((1 << int(row["exponent"])) - 1 << int(row["mantissa"])) - 1]
            numbers = [number for number in (number_of(dtype, each) for each in last) if math.isfinite(number)]
            self.assertEqual(max(numbers), float(row["largest"]), dtype)

    def test_packing(self):
        """The picture of four elements of six bits."""
        picture = re.search(r"^f6 codes .*$", PAGE, re.MULTILINE)[0]
        found = re.findall(r"byte \d: ([a-d]{8})", picture)
        for letter, number in zip("abcd", range(4)):
            codes = [0x3F if i == number else 0 for i in range(4)]
            whole = sum(value << 6 * i for i, value in enumerate(codes)).to_bytes(3, "little")
            drawn = bytes(int("".join("1" if c == letter else "0" for c in bits), 2) for bits in found)
            self.assertEqual(drawn, whole, letter)


# --- The rest --------------------------------------------------------------------------------------


class Vectors(unittest.TestCase):
    def test_none_is_forgotten(self):
        tested = {"floats", "elements", "labels", "blocks", "hashes", "hashes by length", "smallest file", "file of version 1.1",
                  "sealed frame", "planes", "sparse patch", "dense patch", "digest", "paths", "no paths", "magic"}  # fmt: skip
        self.assertEqual(set(VECTORS), tested)
        self.assertEqual(PAGE.count("<!-- vector:"), len(VECTORS))

    def test_hashes(self):
        rows = list(table("hashes"))
        self.assertEqual([row[0] for row in rows], ['""', '"abc"'])
        for text, number, stored, stored_128 in rows:
            data = json.loads(text).encode()
            self.assertEqual(int(plain(number), 16), xxhash.xxh3_64_intdigest(data))
            self.assertEqual(bytes.fromhex(plain(stored)), h64(data))
            self.assertEqual(bytes.fromhex(plain(stored_128)), h128(data))

    def test_hashes_by_length(self):
        rows = list(table("hashes by length"))
        # Both sides of each border between the cases of XXH3.
        self.assertEqual([int(row[0]) for row in rows], [*range(18), 128, 129, 240, 241, 1024, 1025, 4096])
        self.assertIn("Byte `i` of these inputs is `i` mod 251", WORDS)
        for length, number, stored in rows:
            data = bytes(i % 251 for i in range(int(length)))
            self.assertEqual(int(plain(number), 16), xxhash.xxh3_64_intdigest(data))
            self.assertEqual(bytes.fromhex(plain(stored)), h128(data))

    def bytes_of(self, name: str) -> bytes:
        """The bytes of a vector whose lines begin with where they stand."""
        data = b""
        for line in code(name):
            self.assertEqual(int(line[:3]), len(data), line)
            data += leading_bytes(line[5:].split("  ")[0])
        return data

    def test_file_of_version_11(self):
        data, model = self.bytes_of("file of version 1.1"), bytes(range(64))
        self.assertEqual((data, {"model.bin": model}), file_of_version_11())
        self.assertIn(f"The file has {len(data)} bytes. It is `files/vector-1.1`", WORDS)
        file = reference.open_file(data, {"model.bin": model})
        reference.verify(file)
        self.assertEqual(reference.read_tensor(file, 0), model[8:12])
        self.assertEqual(reference.read_tensor(file, 1), model[32:37] + b"\x26" + model[38:])
        said = re.findall(r"^ *(\d+)  (?:[0-9A-F]{2} )+ +(\w+): (\d+) (?:bytes further|elements)$", "\n".join(code("file of version 1.1")), re.MULTILINE)
        self.assertEqual(len(said), 17 + 9)
        for at, _, number in said:
            self.assertEqual(int.from_bytes(data[int(at) : int(at) + 4], "little"), int(number), at)
        chunk = file.index.chunks.rows[1]
        self.assertIn(f"chunk 1: offset {chunk[0]}", VECTORS["file of version 1.1"])
        self.assertIn(f"stored {chunk[2]}, file 0, codec 3", VECTORS["file of version 1.1"])

    def test_smallest_file(self):
        data = self.bytes_of("smallest file")
        self.assertEqual(data, build(from_tree({})))
        self.assertEqual(data, (HERE.parent / "golden" / "empty.espalier").read_bytes())
        reference.verify(reference.open_file(data))
        self.assertIn(f"The file has {len(data)} bytes", WORDS)
        # What is said of a field is what it holds.
        for at, said in re.findall(r"^ *(\d+)  .*: (\d+)(?: bytes further| elements)?$", "\n".join(code("smallest file")), re.MULTILINE):
            self.assertEqual(int.from_bytes(leading_bytes(self.line_at(int(at))), "little"), int(said), at)
        for at, number, name, place in re.findall(r"^ *(\d+) .*field (\d+), (\w+), at (\d+) of the table$", "\n".join(code("smallest file")), re.MULTILINE):
            self.assertEqual(reference.VECTORS[int(number)][0], name)
            self.assertEqual(int.from_bytes(leading_bytes(self.line_at(int(at))), "little"), int(place))

    def line_at(self, at: int) -> str:
        return next(line[5:] for line in code("smallest file") if int(line[:3]) == at)

    def test_sealed_frame(self):
        parts = [leading_bytes(line.split("  ")[0]) for line in code("sealed frame")]
        sealed = b"".join(parts)
        self.assertEqual(reference.decode_sealed_frame(sealed, 64, 0), bytes(64))
        head = int.from_bytes(parts[3], "little")
        self.assertEqual((head & 1, head >> 1 & 3, head >> 3), (1, 1, 64))
        self.assertIn(f"the {len(sealed) - 8} bytes before", VECTORS["sealed frame"])

    def test_planes(self):
        found = named_bytes("planes")
        numbers = [float(text) for text in re.search(r"A chunk of eight f32: ([-0-9., ]+)\. The", WORDS)[1].split(",")]
        self.assertEqual(found["elements"], struct.pack("<8f", *numbers))
        planes = [found[f"plane {k}"] for k in range(4)]
        moved = reference.elements_of(planes, 4)
        self.assertEqual(reference.move_signs_back(moved, 32).tobytes(), found["elements"])
        said = re.findall(r"its sign moved it is `(\w+)`, and the second, `BF800000`, is `(\w+)`", WORDS)[0]
        self.assertEqual([f"{number:08X}" for number in moved[:2].tolist()], list(said))
        self.assertEqual(reference.decode_planes(found["stored"], 4, True, 32, 0), found["elements"])
        self.assertEqual(struct.unpack_from("<4I", found["stored"]), (1, 1, 8, 1))
        self.assertIn(f"{len(found['stored'])} bytes for 32", WORDS)

    def test_sparse_patch(self):
        base = bytes(i % 256 for i in range(300))
        new = bytearray(base)
        for element, old, now in table("sparse patch"):
            self.assertEqual(base[int(element)], int(plain(old), 16))
            new[int(element)] = int(plain(now), 16)
        stored = b"".join(leading_bytes(line.split("  ")[0]) for line in code("sparse patch"))
        self.assertEqual(reference.apply_patch(stored, "u8", base, 0), bytes(new))
        said = [line.split("  ")[-1].strip() for line in code("sparse patch")]
        count, gap_bytes, gaps, plane = struct.unpack_from("<4I", stored)
        self.assertIn(f"count: {count} ", said[0])
        self.assertEqual(said[1:4], [f"gap_bytes: {gap_bytes}", f"stored length of the gaps: {gaps}, as they are",
                                     f"stored length of plane 0: {plane}, as it is"])  # fmt: skip
        self.assertEqual(said[4], "gaps: " + ", ".join(map(str, [200, 201 - 200 - 1])))

    def test_dense_patch(self):
        found = named_bytes("dense patch")
        self.assertEqual(reference.apply_patch(found["patch"], "u16", found["base"], 0), found["new"])
        self.assertEqual(struct.unpack_from("<5I", found["patch"]), (8, 0, 0, 8, 1))
        differences = np.frombuffer(found["new"], "<i2") - np.frombuffer(found["base"], "<i2")
        self.assertEqual(differences.tolist(), [1, -1, 0, 0, 5, 0, -3, 0])

    def test_digest(self):
        made: dict[str, bytes] = {}
        lines = code("digest")
        for line, result in zip(lines[::2], lines[1::2], strict=True):
            name, parts = re.fullmatch(r"(\w+) = H\((.*?)\)(?:   .*)?", line).groups()
            data = b"".join(self.part(part, made) for part in parts.split())
            made[name] = h128(data)
            self.assertEqual(result.strip(), "= " + made[name].hex().upper(), name)
        weights = Array("f32", (2,), struct.pack("<2f", 1.0, -2.0), ("x",))
        block = Array("opaque", (32,), bytes(range(18)), None, ("gguf.q4_0", 32, 18))
        tree = Labelled("run", {"w": weights, "n": [1, None], 7: block})
        self.assertEqual(made["root"], tree_digest(tree))
        data = build(from_tree(tree))
        reference.verify(reference.open_file(data))
        self.assertEqual(data[64:80], made["root"])

    def part(self, text: str, made: dict[str, bytes]) -> bytes:
        if text.startswith('"'):
            return json.loads(text).encode()
        return made[text] if text in made else bytes.fromhex(text)

    def test_paths(self):
        rows = list(table("paths"))
        self.assertGreater(len(rows), 10)
        for keys, printed in rows:
            keys, printed = json.loads(plain(keys)), printed.removesuffix(" (the empty text)").strip("`")
            self.assertEqual(reference.print_path(keys), printed)
            self.assertEqual(reference.parse_path(printed), keys)
        both = {path for _, path in reference.printed_paths(reference.open_file(build(from_tree({8: 1, "8": 2}))))}
        self.assertEqual(both, {"", "8", "~28"})
        one = {path for _, path in reference.printed_paths(reference.open_file(build(from_tree({"8": 2}))))}
        self.assertEqual(one, {"", "8"})

    def test_no_paths(self):
        found = re.findall("`(.+?)`", VECTORS["no paths"])
        self.assertGreater(len(found), 5)
        for text in found:
            with self.assertRaises(ValueError, msg=text):
                reference.parse_path(text)


class Registries(unittest.TestCase):
    SIZES = {"u8": 1, "i8": 1, "u16": 2, "i16": 2, "f16": 2, "f32": 4}

    def test_fields_of_blocks_fill_them(self):
        for name, _, size, fields in table("blocks"):
            with self.subTest(name=name):
                parts = [re.fullmatch(r"(\w+) (\w+)(?:\[(\d+)\])?", field.strip()) for field in fields.split(",")]
                self.assertEqual(sum(self.SIZES[part[1]] * int(part[3] or 1) for part in parts), int(size))

    def test_blocks_are_those_that_the_library_writes(self):
        source = (ROOT / "src/espalier/foreign/gguf/types.cpp").read_text(encoding="utf-8")
        made = re.findall(r'\{"(gguf\.\w+)", DType::kOpaque, (\d+), (\d+)\}', source)
        self.assertGreater(len(made), 20)
        self.assertEqual(sorted((plain(name), e, b) for name, e, b, _ in table("blocks")), sorted(made))

    def test_labels_are_those_that_the_package_knows(self):
        """Each label that stands in a table of the Python package is in the page."""
        listed = {plain(label) for row in table("labels") for label in row[0].split(", ")}
        source = (ROOT / "python/src/espalier/_standard.py").read_text(encoding="utf-8")
        known = set(re.findall(r'\((?:DICT|LIST|TUPLE|BYTES|STRING|RECORD|SET), "([\w.]+)"', source))
        self.assertGreater(len(known), 15)
        self.assertEqual(known - listed, set())

    def test_feature_bits_and_codecs(self):
        section = PAGE.split("## 14. Registries")[1]
        assigned = dict(re.findall(r"^\| (feature bits|codecs|dtypes|node kinds|key kinds) \|[^|]+\| (\d+-\d+) \|", section, re.MULTILINE))
        self.assertEqual(assigned["dtypes"], f"1-{max(reference.DTYPES)}")
        self.assertEqual(assigned["node kinds"], f"1-{max(reference.KINDS)}")
        self.assertEqual(assigned["codecs"], f"0-{max(reference.FEATURES)}")
        bits = sum(reference.FEATURES.values()) | reference.OTHER_FILES
        self.assertEqual(assigned["feature bits"], f"0-{bits.bit_length() - 1}")
        rows = re.findall(r"^\| (\d) \| (\w+) \| \d+ \| (\d|none) \| 1\.\d \|$", section, re.MULTILINE)
        self.assertEqual({int(c): 1 << int(bit) for c, _, bit in rows if bit != "none"}, reference.FEATURES)


class Magic(unittest.TestCase):
    def test_the_entry_has_the_magic(self):
        self.assertIn(r"\x89ESPL\r\n\x1a", MAGIC.read_text(encoding="ascii"))
        media_type = re.search(r"application/vnd\.[\w.]+", PAGE)[0]
        self.assertIn(media_type, MAGIC.read_text(encoding="ascii"))

    def test_the_page_has_the_entry(self):
        entry = [line for line in MAGIC.read_text(encoding="ascii").splitlines() if not line.startswith("#")]
        self.assertEqual(code("magic"), entry)

    def test_file_names_the_format(self):
        program = shutil.which("file")
        if program is None:
            return  # It is no part of the build; the entry is checked wherever it is installed.
        found = subprocess.run([program, "-b", "-m", str(MAGIC), str(HERE.parent / "golden" / "empty.espalier")],
                               capture_output=True, text=True, check=True).stdout  # fmt: skip
        self.assertEqual(found, "Espalier checkpoint, version 1.0, 328 bytes\n")


if __name__ == "__main__":
    sys.exit(report.main())
