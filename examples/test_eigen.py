"""Compares the sums of rows that eigen_view prints with numpy's. Usage: test_eigen.py PROGRAM."""
import json
import pathlib
import subprocess
import sys

import numpy

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
CHECKPOINT = pathlib.Path(__file__).parent.parent / "tests/data/digits/digits.safetensors"


def main():
    data = CHECKPOINT.read_bytes()
    size = int.from_bytes(data[:8], "little")
    entry = json.loads(data[8 : 8 + size])["model.layers.8.weight"]
    begin, end = (8 + size + offset for offset in entry["data_offsets"])
    expected = numpy.frombuffer(data[begin:end], "<f4").reshape(entry["shape"]).sum(axis=1, dtype="f8")
    done = subprocess.run([PROGRAM, CHECKPOINT, "model.layers.8.weight"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    printed = numpy.array(done.stdout.split(), "f8")
    assert printed.shape == expected.shape == (64,), printed.shape
    assert numpy.allclose(printed, expected, atol=1e-4), printed - expected
    wrong = subprocess.run([PROGRAM, CHECKPOINT, "model.layers.8.bias"], capture_output=True, text=True)
    assert wrong.returncode == 1 and "no matrix" in wrong.stderr, wrong.stderr
    print("ok")


if __name__ == "__main__":
    main()
