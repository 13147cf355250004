r"""Makes the PyTorch files in `files`, and beside each the tree that torch.load() gives, as JSON.

    python make_files.py [FILES [NAME...]]

Needs torch (2.6 or later) and numpy. The tree is in the words of `describe()` below, which the test prints of a
checkpoint too.

With a torch before 2.0, the script makes the files of OLD_CASES only, as NAME-torch-VERSION. Those in `files` are of the
torch 1.13 in Debian 12, in whose archives there is no `byteorder`:

    apt-get download $(apt-get install -s --no-install-recommends python3-torch | awk '/^Inst/{print $2}')
    for deb in *.deb; do dpkg-deb -x $deb root; done
    python3.11 -m venv env && env/bin/pip install 'numpy<2'
    LD_LIBRARY_PATH=$(find $PWD/root -name '*.so*' -printf '%h\n' | sort -u | paste -sd:) \
      PYTHONPATH=root/usr/lib/python3/dist-packages env/bin/python make_files.py
"""

import argparse
import collections
import contextlib
import dataclasses
import json
import pathlib
import pickle
import random
import sys

import numpy
import torch

HERE = pathlib.Path(__file__).resolve().parent
IS_OLD = torch.__version__.startswith("1.")


class Point(collections.namedtuple("Point", "x y")):
    pass


@dataclasses.dataclass
class Config:
    width: int = 3
    name: str = "tiny"
    rates: list = dataclasses.field(default_factory=lambda: [0.1, 1e-5])


class Scaler:
    """A class that defines what it is called with."""

    def __init__(self, scale):
        self.scale = scale

    def __reduce__(self):
        return (Scaler, (self.scale,))


def number(value):
    """Numbers as text, so that nothing is rounded and NaN is a value."""
    return repr(value)


def elements(tensor):
    """The elements of a tensor, as the bytes of a packed array in hexadecimal."""
    tensor = tensor.detach().resolve_neg().resolve_conj().contiguous()
    if tensor.numel() == 0:
        return ""
    return tensor.reshape(-1).view(torch.uint8).numpy().tobytes().hex()


NAMES = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32",
    "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "bool", "complex64": "c64", "complex128": "c128",
    "uint16": "u16", "uint32": "u32", "uint64": "u64", "float8_e4m3fn": "f8_e4m3fn", "float8_e5m2": "f8_e5m2",
    "float8_e4m3fnuz": "f8_e4m3fnuz", "float8_e5m2fnuz": "f8_e5m2fnuz", "float8_e8m0fnu": "f8_e8m0fnu",
    "complex32": "opaque torch.complex32",
}  # fmt: skip


def describe(value, ties):
    """A value of Python: [kind, label, what it is]."""
    if isinstance(value, torch.Tensor) and value.layout is torch.sparse_coo:
        # Not coalesced: values() would refuse it.
        parts = [["indices", describe(value._indices(), ties)], ["values", describe(value._values(), ties)],
                 ["size", describe(value.shape, ties)]]
        if not IS_OLD:  # Files of torch 1.13 do not say it.
            parts.append(["is_coalesced", describe(value.is_coalesced(), ties)])
        return ["record", "torch.sparse_coo", parts]
    if isinstance(value, torch.Tensor) and value.is_quantized:
        fields = [["data", tensor(value.int_repr(), None, ties)],
                  ["qscheme", ["string", "python.global", str(value.qscheme())]],
                  ["scale", describe(value.q_scale(), ties)], ["zero_point", describe(value.q_zero_point(), ties)]]
        return ["record", "torch.qtensor", fields]
    if isinstance(value, torch.nn.Parameter):
        return tensor(value, "torch.nn.Parameter" if value.requires_grad else "torch.nn.Parameter[frozen]", ties)
    if isinstance(value, torch.Tensor):
        return tensor(value, "torch.Tensor[requires_grad]" if value.requires_grad else None, ties)
    if isinstance(value, numpy.ndarray):
        return array(value, None, ties)
    if isinstance(value, numpy.generic):
        return array(numpy.asarray(value), "numpy." + value.dtype.name, ties)
    if value is None or isinstance(value, (bool, str)):
        kind = "null" if value is None else type(value).__name__.replace("str", "string")
        return [kind, None, value]
    if isinstance(value, int):
        return ["int64" if -(2**63) <= value < 2**63 else "bigint", None, number(value)]
    if isinstance(value, float):
        return ["float64", None, number(value)]
    if isinstance(value, complex):
        return ["complex128", None, [number(value.real), number(value.imag)]]
    if isinstance(value, (bytes, bytearray)):
        return ["bytes", "bytearray" if isinstance(value, bytearray) else None, value.hex()]
    if isinstance(value, torch.dtype):
        return ["string", "torch.dtype", str(value)]
    if isinstance(value, torch.device):
        return ["string", "torch.device", str(value)]
    if isinstance(value, type):
        return ["string", "python.global", f"{value.__module__}.{value.__qualname__}"]
    if isinstance(value, torch.Size):
        return ["tuple", "torch.Size", [describe(each, ties) for each in value]]
    if isinstance(value, Point):
        return ["tuple", "__main__.Point", [describe(each, ties) for each in value]]
    if isinstance(value, Scaler):
        args = ["tuple", None, [describe(value.scale, ties)]]
        return ["record", "call:__main__.Scaler", [["args", args]]]
    if isinstance(value, (slice, range)):
        parts = [value.start, value.stop, value.step]
        return ["tuple", type(value).__name__, [describe(each, ties) for each in parts]]
    if isinstance(value, collections.deque):
        label = "collections.deque" + ("" if value.maxlen is None else f"[{value.maxlen}]")
        return ["list", label, [describe(each, ties) for each in value]]
    if isinstance(value, (tuple, list)):
        return [type(value).__name__, None, [describe(each, ties) for each in value]]
    if isinstance(value, (set, frozenset)):
        label = "frozenset" if isinstance(value, frozenset) else None
        return ["set", label, sorted((describe(each, ties) for each in value), key=json.dumps)]
    if isinstance(value, dict):
        label = {dict: None, collections.OrderedDict: "collections.OrderedDict",
                 collections.Counter: "collections.Counter"}.get(type(value), "collections.defaultdict[list]")
        pairs = [[key, describe(each, ties)] for key, each in value.items()]
        if all(isinstance(key, (str, int)) for key in value):
            return ["dict", label, pairs]
        pairs = [["tuple", None, [describe(key, ties), describe(each, ties)]] for key, each in value.items()]
        return ["list", "dict.items", pairs]
    label = f"{type(value).__module__}.{type(value).__qualname__}"
    return ["record", label, [[key, describe(each, ties)] for key, each in vars(value).items()]]


def tensor(value, label, ties):
    name = NAMES[str(value.dtype).removeprefix("torch.")]
    if value.device.type == "meta":
        return ["placeholder", label, [name, list(value.shape), None, None]]
    # A torch before 2.0 has no untyped_storage().
    storage = value.untyped_storage() if hasattr(value, "untyped_storage") else value.storage()
    key = (storage.data_ptr(), value.storage_offset(), value.shape, value.stride(), value.dtype,
           value.is_neg(), value.is_conj())
    number = ties.setdefault(key, len(ties)) if value.numel() else None
    return ["tensor", label, [name, list(value.shape), elements(value), number]]


def array(value, label, ties):
    number = ties.setdefault(object(), len(ties)) if value.size else None
    if value.dtype.name in NAMES:
        packed = numpy.ascontiguousarray(value).astype(value.dtype.newbyteorder("<"))
        return ["tensor", label, [NAMES[value.dtype.name], list(value.shape), packed.tobytes().hex(), number]]
    if label:
        label = "numpy." + type(value[()]).__name__
    descr = numpy.lib.format.dtype_to_descr(value.dtype)
    name = "opaque " + (descr if isinstance(descr, str) else repr(descr))
    return ["tensor", label, [name, list(value.shape) or [1], value.tobytes().hex(), number]]


def training():
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.LayerNorm(3), torch.nn.Linear(3, 4))
    model[2].weight = torch.nn.Parameter(model[0].weight.detach().t().clone())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(2, 4)).square().sum().backward()
        optimizer.step()
        scheduler.step()
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "args": argparse.Namespace(lr=1e-3, layers=[1, 2], out=None),
        "config": Config(),
        "epoch": 3,
        "best": float("inf"),
        "shape": model[0].weight.shape,
        "dtype": torch.bfloat16,
        "device": torch.device("cuda", 1),
        "rng": {"torch": torch.get_rng_state()[:64].clone(), "python": random.Random(1).getstate()[:1]},
    }


def values():
    shared = [1, 2]
    return {
        "ints": [0, 255, 65535, -1, 2**31 - 1, -(2**31), 2**62, -(2**63), 2**63, -(2**80), 3**200],
        "floats": [0.0, -0.0, 1.5, float("nan"), float("-inf"), 1e-300],
        "texts": ["", "plain", "ünï ☃ 🎄", "x" * 300],
        "bytes": [b"", b"\x00\xff", bytearray(b"ab"), b"y" * 300],
        "complex": 1.5 - 2j,
        "containers": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), [], {}, set(), frozenset([1])],
        "range": range(1, 9, 2), "slice": slice(None, 3, None),
        "counter": collections.Counter("aab"), "deque": collections.deque([1, 2], 5),
        "defaultdict": collections.defaultdict(list, {"a": [1]}),
        "point": Point(1, "y"), "scaler": Scaler(2.0),
        "class": Config,
        "int keys": {0: "a", -5: "b", "0": "c"}, "odd keys": {(1, 2): "t", None: "n"},
        "shared": [shared, shared], "true": True, "none": None,
        "tensor": torch.arange(3),
    }


def dtypes():
    made = {}
    for name in NAMES:
        dtype = getattr(torch, name, None)
        if dtype is None or (IS_OLD and name == "complex32"):  # which torch 1.13 has, and cannot save
            continue
        size = torch.empty(0, dtype=dtype).element_size()
        raw = torch.arange(6 * size, dtype=torch.uint8)
        made[name] = (raw % 2).bool() if name == "bool" else raw.view(dtype).reshape(2, 3)
    made["empty"] = torch.empty(0, 4)
    made["scalar"] = torch.tensor(2.5)
    return made


def views():
    base = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
    complex_base = torch.arange(8, dtype=torch.float32).view(torch.complex64)
    return {
        "base": base, "tie": base, "same view": base[:], "transposed": base.transpose(0, 2), "row": base[1],
        "column": base[:, :, 1], "stepped": base[:, ::2], "expanded": torch.arange(3.0).expand(4, 3),
        "windows": torch.arange(6.0).unfold(0, 3, 1), "channels last": torch.arange(16.0).reshape(1, 2, 2, 4).to(
            memory_format=torch.channels_last),
        "conj": complex_base.conj(), "neg": torch._neg_view(base[0]),
        "slice of a large one": torch.arange(1000.0)[10:12],
        "parameter": torch.nn.Parameter(base[0].clone()),
        "frozen": torch.nn.Parameter(base[1].clone(), requires_grad=False),
        "tracked": torch.ones(2, requires_grad=True),
    }


def odd_tensors():
    made = {
        "sparse": torch.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3)).coalesce(),
        "meta": torch.empty(2, 3, device="meta"),
        "numpy": numpy.arange(6, dtype=numpy.int16).reshape(2, 3),
        "fortran": numpy.asfortranarray(numpy.arange(6.0).reshape(2, 3)),
        "big": numpy.arange(3, dtype=">i4"),
        "scalar": numpy.float64(2.5),
    }
    try:
        made["quantised"] = torch.quantize_per_tensor(torch.arange(4.0), 0.5, 1, torch.qint8)
    except (RuntimeError, AttributeError):
        pass  # a torch without quantised kernels
    return made


def numpy_kinds():
    fields = numpy.array([(1, 2.5, [1, 2, 3])], [("a", "<i4"), ("b", ">f8"), ("c", "u1", (3,))])
    inner = numpy.zeros(2, [("p", [("q", "<f4"), ("r", "S3", (2, 2))])])
    return {
        "empty": numpy.zeros((0, 3), numpy.float32), "no axes": numpy.array(3), "text": numpy.array(["abc", "de"]),
        "bytes": numpy.array([b"abc"]), "days": numpy.array(["2020-01-01", "NaT"], "M8[D]"),
        "spans": numpy.array([5], "m8[25s]"), "span": numpy.array([5], "m8"), "fields": fields, "inner": inner,
        "padded": numpy.zeros(3, numpy.dtype([("x", "u1"), ("y", "<f4")], align=True)), "raw": numpy.zeros(2, "V5"),
        "date": numpy.datetime64("2020-01-01T00:00:00"), "word": numpy.str_("hi"), "record": fields[0],
        "long double": numpy.array([1.5], numpy.longdouble), "tensor": torch.ones(2),
    }  # fmt: skip


CASES = {
    "training": (training, {}),
    "training-legacy": (training, {"_use_new_zipfile_serialization": False}),
    "training-protocol-4": (training, {"pickle_protocol": 4}),
    "values": (values, {}),
    "values-protocol-3": (values, {"pickle_protocol": 3}),
    "values-protocol-5": (values, {"pickle_protocol": 5}),
    "values-legacy": (values, {"_use_new_zipfile_serialization": False}),
    "dtypes": (dtypes, {}),
    "views": (views, {}),
    "views-legacy": (views, {"_use_new_zipfile_serialization": False}),
    "odd-tensors": (odd_tensors, {}),
    "odd-tensors-protocol-5": (odd_tensors, {"pickle_protocol": 5}),
    "numpy-kinds": (numpy_kinds, {}),
    "numpy-kinds-protocol-5": (numpy_kinds, {"pickle_protocol": 5}),
    "tensor": (lambda: torch.arange(4), {}),
    "list": (lambda: [torch.arange(4), 3], {}),
}


OLD_CASES = ["training", "training-legacy", "values", "dtypes", "views", "odd-tensors", "numpy-kinds"]


@contextlib.contextmanager
def without_crc():
    """No CRC-32: torch writes 0 for each."""
    torch.serialization.set_crc32_options(False)
    yield
    torch.serialization.set_crc32_options(True)


# Saved under these.
CONTEXTS = {
    "training-without-crc": (training, without_crc),
    "views-without-crc": (views, without_crc),
    # The storages are holes in the file: zeros.
    "training-skip-data": (training, lambda: torch.serialization.skip_data()),
}


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "files"
    folder.mkdir(exist_ok=True)
    wanted = sys.argv[2:]
    if IS_OLD:
        suffix = "-torch-" + ".".join(torch.__version__.split(".")[:2])
        cases = {name + suffix: (*CASES[name], contextlib.nullcontext) for name in OLD_CASES}
    else:
        cases = {name: (*case, contextlib.nullcontext) for name, case in CASES.items()}
        cases |= {name: (make, {}, context) for name, (make, context) in CONTEXTS.items()}
    for name, (make, options, context) in cases.items():
        if wanted and name not in wanted:
            continue
        state = make()
        path = folder / f"{name}.pt"
        with context():
            torch.save(state, path, **options)
        loaded = torch.load(path, weights_only=False)
        expected = describe(loaded, {})
        (folder / f"{name}.json").write_text(json.dumps(expected, indent=0, ensure_ascii=True) + "\n")
    if IS_OLD or "plain" not in (wanted or ["plain"]):
        return
    state = {"a": [1, 2], "b": numpy.arange(4.0), "c": torch.arange(3)}
    (folder / "plain.pkl").write_bytes(pickle.dumps(state, protocol=4))
    (folder / "plain.json").write_text(json.dumps(describe(state, {}), indent=0) + "\n")


if __name__ == "__main__":
    main()
