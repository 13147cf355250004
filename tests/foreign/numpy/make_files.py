#!/usr/bin/env python3
"""Makes the files of this folder with NumPy and ml_dtypes, and expected.json with what numpy.load gives for
them.

Usage: make_files.py FOLDER. Needs numpy and ml_dtypes; the tests do not.
"""

import io
import json
import pathlib
import struct
import sys
import zipfile
import zlib

import ml_dtypes
import numpy as np

NAMES = {
    "b1": "bool", "i1": "i8", "u1": "u8", "i2": "i16", "u2": "u16", "i4": "i32", "u4": "u32", "i8": "i64",
    "u8": "u64", "f2": "f16", "f4": "f32", "f8": "f64", "c8": "c64", "c16": "c128",
}  # fmt: skip


def arrays():
    rng = np.random.default_rng(1)
    result = {}
    for name in NAMES:
        raw = rng.integers(0, 256, 6 * np.dtype(name).itemsize, dtype=np.uint8)
        little = (raw & 1).view("?") if name == "b1" else raw.view("<" + name)
        result[f"little/{name}"] = little.reshape(2, 3)
        if np.dtype(name).itemsize > 1:
            big = little.byteswap().view(little.dtype.newbyteorder(">"))
            result[f"big/{name}"] = big.reshape(3, 2)
            result[f"big_fortran/{name}"] = np.asfortranarray(big.reshape(2, 1, 3))
    result["fortran"] = np.asfortranarray(np.arange(24, dtype="<i4").reshape(2, 3, 4))
    result["fortran_row"] = np.asfortranarray(np.arange(5, dtype="<f4"))
    result["zero_d"] = np.array(3.5)
    result["zero_d_big"] = np.array(-7, dtype=">i8")
    result["empty"] = np.zeros((0, 4), "<f4")
    result["empty_fortran"] = np.asfortranarray(np.zeros((3, 0, 2), ">f8"))
    result["text"] = np.array(["ab", "cde"])
    result["text_big"] = np.array(["ab", "cde"], dtype=">U3")
    result["text_zero_d"] = np.array("an argument")
    result["bytes"] = np.array([b"ab", b"cdef"])
    result["void"] = np.array([b"abc", b"def"], dtype="V3")
    result["date"] = np.array(["2024-05-01", "NaT"], dtype="M8[D]")
    result["delta"] = np.array([1, 2], dtype="m8[ns]")
    result["longdouble"] = np.arange(3, dtype=np.longdouble)
    fields = [("a", "<f4"), ("b", ">i2", (2, 3)), (("title", "c"), "|u1"), ("d", [("e", "<f8"), ("f", "S2")])]
    result["structured"] = np.frombuffer(bytes(range(27 * 2)), dtype=np.dtype(fields))
    result["structured_aligned"] = np.zeros(2, np.dtype([("x", "u1"), ("y", "<f8")], align=True))
    result["latin"] = np.zeros(2, np.dtype([("\xe9", "<f4")]))
    result["bfloat16"] = np.arange(4).astype(ml_dtypes.bfloat16)
    result["float8"] = np.arange(4).astype(ml_dtypes.float8_e4m3fn)
    result["int4"] = np.arange(4).astype(ml_dtypes.int4)
    result["many_axes"] = np.arange(2, dtype="<i2").reshape((1,) * 31 + (2,))
    return result


def described(array):
    """What a reader should say of an array: opaque where it has no dtype, contents as numpy loads them."""
    header = io.BytesIO()
    np.save(header, array)
    text = header.getvalue()
    length = struct.unpack("<H", text[8:10])[0]
    descr = text[10 : 10 + length].decode("latin1").split("'descr': ", 1)[1].split(", 'fortran_order'", 1)[0]
    shape = list(array.shape)
    number = array.dtype.str[1:] if array.dtype.names is None else ""
    if number in NAMES:
        native = array.astype(array.dtype.newbyteorder("<"))
        return {"dtype": NAMES[number], "shape": shape, "contents": native.tobytes()}
    name = "structured" if "\xe9" in descr else descr.strip("'")
    return {
        "dtype": "opaque",
        "shape": shape or [1],
        "block": [name, 1, array.dtype.itemsize],
        "contents": array.tobytes(),
    }


def entry(path, array):
    value = {"path": path.replace("~", "~0").replace("/", "~1"), "kind": "tensor"} | described(array)
    contents = value.pop("contents")
    return value | {"crc32": zlib.crc32(contents), "bytes": len(contents)}


def check(path, given):
    """numpy.load must give what was saved, or the expectation is worth nothing."""
    with np.load(path) as loaded:
        assert list(loaded) == list(given), path
        for name, array in given.items():
            assert loaded[name].tobytes() == array.tobytes(), name


def main():
    folder = pathlib.Path(sys.argv[1])
    expected = {}
    all_arrays = arrays()
    for name, save in {"all.npz": np.savez, "all-compressed.npz": np.savez_compressed}.items():
        save(folder / name, **all_arrays)
        check(folder / name, all_arrays)
        expected[name] = [entry(key, array) for key, array in all_arrays.items()]

    zeros = np.zeros(700_000, "<f4")  # three chunks
    np.savez_compressed(folder / "large-compressed.npz", zeros=zeros)
    expected["large-compressed.npz"] = [entry("zeros", zeros)]

    np.savez(folder / "objects.npz", good=np.arange(3), bad=np.array([None, {}], dtype=object))
    expected["objects.npz"] = [
        entry("good", np.arange(3)),
        {"path": "bad", "kind": "placeholder", "dtype": "opaque", "shape": [2], "block": ["|O", 1, 8], "bytes": 16},
    ]
    np.savez(folder / "empty.npz")
    expected["empty.npz"] = []
    np.savez(folder / "positional.npz", np.arange(2), np.arange(3, dtype="<f4"))
    expected["positional.npz"] = [entry("arr_0", np.arange(2)), entry("arr_1", np.arange(3, dtype="<f4"))]

    for name in ("little/f4", "big/i2", "fortran", "zero_d", "empty", "bfloat16", "structured"):
        file = name.replace("/", "-") + ".npy"
        np.save(folder / file, all_arrays[name])
        assert np.load(folder / file).tobytes() == all_arrays[name].tobytes()
        expected[file] = [entry("", all_arrays[name])]
    for version in ((2, 0), (3, 0)):
        file = f"version-{version[0]}.npy"
        with open(folder / file, "wb") as out:
            np.lib.format.write_array(out, np.arange(4.0), version)
        expected[file] = [entry("", np.arange(4.0))]
    # What numpy wrote under Python 2: long integers, and keys in any order.
    header = b"{u'shape': (2L, 3L), 'descr': '<f4', 'fortran_order': False}"
    header += b" " * (-(10 + len(header) + 1) % 16) + b"\n"
    data = np.arange(6, dtype="<f4").reshape(2, 3)
    (folder / "python-2.npy").write_bytes(
        b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data.tobytes()
    )
    assert np.load(folder / "python-2.npy").tobytes() == data.tobytes()
    expected["python-2.npy"] = [entry("", data)]
    # A header longer than what is read of each array at first.
    many = np.zeros(2, np.dtype([(f"a field with a long name, number {i}", "<f4") for i in range(40)]))
    methods = {"long-header.npz": zipfile.ZIP_STORED, "long-header-deflated.npz": zipfile.ZIP_DEFLATED}
    for name, method in methods.items():
        with zipfile.ZipFile(folder / name, "w", method) as archive:
            inner = io.BytesIO()
            np.save(inner, many)
            archive.writestr("many.npy", inner.getvalue())
        check(folder / name, {"many": many})
        expected[name] = [entry("many", many)]
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
