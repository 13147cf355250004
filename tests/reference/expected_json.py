"""The `--json` of the command line, as docs/cli.md describes it, made by the independent reader."""

import math
import struct

import espalier_reference as reference
import numpy as np

# Dtypes that the command line decodes to numpy's numbers; test_cli.py checks the others.
NUMPY = {
    "bool": "?", "i8": "i1", "u8": "u1", "i16": "<i2", "u16": "<u2", "i32": "<i4", "u32": "<u4",
    "i64": "<i8", "u64": "<u8", "f16": "<f2", "f32": "<f4", "f64": "<f8", "c64": "<c8",
    "c128": "<c16",
}  # fmt: skip


def cli_int(value):
    return value if abs(value) < 2**53 else str(value)


def cli_float(word):
    value = struct.unpack("<d", struct.pack("<Q", word))[0]
    return finite_or_text(value)


def finite_or_text(value):
    if math.isfinite(value):
        return float(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def signed(raw):
    return int.from_bytes(raw, "little", signed=True)


def cli_value(file, i):
    """The value of a scalar node."""
    kind, _, _, _, value, count = file.index.nodes.rows[i]
    words, pool = file.index.words.rows, file.index.bytes.rows
    return {
        reference.NULL: lambda: None,
        reference.BOOL: lambda: bool(value),
        reference.INT64: lambda: cli_int(reference.to_signed(words[value])),
        reference.BIGINT: lambda: str(signed(pool[value : value + count])),
        reference.FLOAT64: lambda: cli_float(words[value]),
        reference.COMPLEX128: lambda: [cli_float(words[value]), cli_float(words[value + 1])],
        reference.STRING: lambda: file.texts[value],
        reference.BYTES: lambda: pool[value : value + count].hex(),
    }[kind]()


class Expected:
    """The nodes of one file as `docs/cli.md` describes them."""

    def __init__(self, data):
        self.file = reference.open_file(data)
        reference.verify(self.file)
        self.paths = dict(reference.printed_paths(self.file, 0))
        self.metadata_paths = dict(reference.printed_paths(self.file, 1))

    def path(self, i):
        return self.paths[i] if i in self.paths else self.metadata_paths[i]

    def node(self, i, stored=False):
        """A node as in `ls --all`; with `stored`, as in `ls --all --long`."""
        kind, _, _, _, value, count = self.file.index.nodes.rows[i]
        node = {"path": self.path(i), "kind": reference.KINDS[kind]}
        if i in self.file.labels:
            node["label"] = self.file.labels[i]
        if kind in reference.CONTAINERS:
            node["children"] = count
        elif kind in (reference.TENSOR, reference.PLACEHOLDER):
            node |= self.tensor(value)
            if stored:
                node |= self.stored(value)
        else:
            node["value"] = cli_value(self.file, i)
        return node

    def tensor(self, number):
        tensor = self.file.tensors[number]
        result = {"dtype": reference.DTYPES[tensor.dtype][0]}
        if tensor.block:
            result["block"] = dict(zip(("name", "elements", "bytes"), tensor.block))
        result["shape"] = [cli_int(axis) for axis in tensor.shape]
        if tensor.axis_names is not None:
            result["axis_names"] = list(tensor.axis_names)
        result["elements"] = cli_int(math.prod(tensor.shape))
        return result | {"bytes": cli_int(tensor.size), "tensor": number}

    def stored(self, number):
        tensor = self.file.tensors[number]
        chunks = [self.file.index.chunks.rows[c] for c, _ in reference.chunks_of(tensor)]
        names = {reference.RAW: "raw", reference.ZSTD: "zstd", reference.PLANES: "planes", reference.PATCH: "patch"}
        codecs = "+".join(names[codec] for codec in sorted({chunk[4] for chunk in chunks}))
        digest = None if tensor.placeholder else reference.tensor_digest(self.file, tensor).hex()
        return {"offset": chunks[0][0] if chunks else None, "chunks": len(chunks),
                "stored": cli_int(sum(chunk[2] for chunk in chunks)),
                "codec": codecs or "-", "hash": digest}  # fmt: skip

    def totals(self, numbers):
        held = [self.file.tensors[n] for n in numbers if not self.file.tensors[n].placeholder]
        elements = sum(math.prod(tensor.shape) for tensor in held)
        size = sum(tensor.size for tensor in held)
        return {"tensors": len(numbers), "elements": cli_int(elements), "bytes": cli_int(size)}

    def tree(self, root):
        nodes, tensors = {}, {}
        for i in reversed(range(len(self.file.parents))):
            kind, _, _, _, value, count = self.file.index.nodes.rows[i]
            nodes[i] = self.node(i)
            tensors[i] = {value} if kind in (reference.TENSOR, reference.PLACEHOLDER) else set()
            if kind in reference.CONTAINERS:
                children = range(value, value + count)
                tensors[i] = set().union(*(tensors[child] for child in children))
                nodes[i]["totals"] = self.totals(tensors[i])
                nodes[i]["children"] = [nodes[child] for child in children]
        return nodes[root]

    def list(self):
        """The nodes of `ls --all --long`: the tree in the order in which it is drawn."""
        result, stack = [], [0]
        while stack:
            i = stack.pop()
            result.append(self.node(i, stored=True))
            kind, _, _, _, first, count = self.file.index.nodes.rows[i]
            if kind in reference.CONTAINERS:
                stack.extend(range(first + count - 1, first - 1, -1))
        return result

    def shown(self, i):
        """A tensor or scalar as in `show`. Values are left out where numpy has no such dtype."""
        kind, _, _, _, number, _ = self.file.index.nodes.rows[i]
        node = self.node(i, stored=True)
        if kind not in (reference.TENSOR, reference.PLACEHOLDER):
            return node
        tied = [each["path"] for each in self.list() if each.get("tensor") == number]
        node["tied"] = tied if len(tied) > 1 else []
        tensor = self.file.tensors[number]
        dtype = reference.DTYPES[tensor.dtype][0]
        if tensor.placeholder or dtype == "opaque" or math.prod(tensor.shape) > 1000:
            node["values"] = None
        elif dtype in NUMPY:
            raw = np.frombuffer(reference.read_tensor(self.file, number), "u1")
            raw = raw != 0 if dtype == "bool" else raw.view(NUMPY[dtype])
            node["values"] = nest([cli_element(value) for value in raw.tolist()], tensor.shape)
        return node


def cli_element(value):
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return cli_int(value)
    if isinstance(value, complex):
        return [finite_or_text(value.real), finite_or_text(value.imag)]
    return finite_or_text(value)


def nest(values, shape):
    """Nested lists, in C order. (numpy has no arrays of 64 axes.)"""
    if not shape:
        return values[0]
    for axis in shape[:0:-1]:
        if not values:  # The command line prints no list of empty lists.
            return []
        values = [values[at : at + axis] for at in range(0, len(values), axis)]
    return values


def exact(value, narrow=False):
    """The same value with the bits of its floats, so that 0.0 and -0.0, and 1 and 1.0, differ.

    With `narrow`, floats are those of an f32: the command line prints no more digits of them.
    """
    if isinstance(value, dict):
        return {key: exact(item, narrow) for key, item in value.items()}
    if isinstance(value, list):
        return [exact(item, narrow) for item in value]
    if isinstance(value, float):
        return np.float32(value).tobytes() if narrow else struct.pack("<d", value)
    return (type(value), value)
