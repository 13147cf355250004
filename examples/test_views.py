"""Compares what eigen_view or xtensor_view computes with numpy.

Usage: test_views.py PROGRAM ESPALIER, where PROGRAM is one of the two, and ESPALIER the command line.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy

PROGRAM, ESPALIER = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
CHECKPOINT = pathlib.Path(__file__).parent.parent / "tests/data/digits/digits.safetensors"
WEIGHT = "model.layers.8.weight"


def weight():
    data = CHECKPOINT.read_bytes()
    size = int.from_bytes(data[:8], "little")
    entry = json.loads(data[8 : 8 + size])[WEIGHT]
    begin, end = (8 + size + offset for offset in entry["data_offsets"])
    return numpy.frombuffer(data[begin:end], "<f4").reshape(entry["shape"])


def run(*command):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True)


def eigen_view():
    done = run(PROGRAM, CHECKPOINT, WEIGHT)
    assert done.returncode == 0, done.stderr
    printed = numpy.array(done.stdout.split(), "f8")
    expected = weight().sum(axis=1, dtype="f8")
    assert printed.shape == expected.shape == (64,), printed.shape
    assert numpy.allclose(printed, expected, atol=1e-4), printed - expected
    wrong = run(PROGRAM, CHECKPOINT, "model.layers.8.bias")
    assert wrong.returncode == 1 and "no matrix" in wrong.stderr, wrong.stderr


def xtensor_view():
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "means.espalier"
        done = run(PROGRAM, CHECKPOINT, WEIGHT, out)
        assert done.returncode == 0, done.stderr
        npy = pathlib.Path(folder) / "means.npy"
        made = run(ESPALIER, "extract", out, "means", "-o", npy)
        assert made.returncode == 0, made.stderr
        means = numpy.load(npy)
        expected = weight().mean(axis=1, dtype="f8")
        assert means.dtype == numpy.float32 and means.shape == expected.shape == (64,), means
        assert numpy.allclose(means, expected, atol=1e-5), means - expected
    wrong = run(PROGRAM, CHECKPOINT, "model.layers.8.wieght", out)
    assert wrong.returncode == 1 and "did you mean" in wrong.stderr, wrong.stderr


if __name__ == "__main__":
    {"eigen_view": eigen_view, "xtensor_view": xtensor_view}[PROGRAM.name]()
    print("ok")
