#!/usr/bin/env python3
"""Makes files/: HDF5 files of h5py and models of Keras, and beside each what h5py reads in it, in the words of print_tree.

Usage: make_files.py (needs the packages of requirements.txt). Files differ from run to run in times alone.
"""

import io
import json
import os
import pathlib
import zipfile

os.environ["KERAS_BACKEND"] = "jax"
os.environ["JAX_PLATFORMS"] = "cpu"

import h5py
import keras
import ml_dtypes
import numpy as np
from h5py import h5d, h5p, h5s, h5t

FOLDER = pathlib.Path(__file__).resolve().parent / "files"
KINDS = {"f": "f", "i": "i", "u": "u", "c": "c"}


def short(dtype):
    """The library's name of a dtype of numbers."""
    return "bool" if dtype.kind == "b" else KINDS[dtype.kind] + str(8 * dtype.itemsize)


def number(value):
    if isinstance(value, np.bool_):
        return ["bool", None, bool(value)]
    label = "hdf5." + short(value.dtype)
    if value.dtype.kind in "iu":
        return ["int64" if value < 2**63 else "bigint", label, str(int(value))]
    if value.dtype.kind == "c":
        return ["complex128", label, [repr(float(value.real)), repr(float(value.imag))]]
    return ["float64", label, repr(float(value))]


def text(value):
    return ["string", None, value.decode() if isinstance(value, bytes) else value]


def nested(value, label):
    """Lists of the elements of an array of numbers or texts; inner ones have no label."""
    if not isinstance(value, np.ndarray):
        node = text(value) if isinstance(value, (str, bytes)) else number(value)
        return [node[0], None, node[2]]
    if value.size == 0:
        return ["list", label + "".join(f".{axis}" for axis in value.shape if value.ndim > 1), []]
    return ["list", label, [nested(each, None) for each in value]]


def attribute(value):
    if isinstance(value, h5py.Empty):
        return ["null", "hdf5.empty." + ("|S3" if value.dtype.kind == "S" else short(value.dtype)), None]
    if isinstance(value, (str, bytes)):
        return text(value)
    if isinstance(value, np.ndarray):
        return nested(value, None if value.dtype.kind in "SO" else "hdf5.array." + short(value.dtype))
    return number(value)


def attributes(value):
    return ["dict", None, [[key, attribute(value.attrs[key])] for key in value.attrs]]


class Described:
    def __init__(self, file, bfloat16=False):
        self.metadata, self.numbers, self.bfloat16 = [], {}, bfloat16
        self.seen = {h5py.h5o.get_info(file.id).addr}
        self.objects = [(file, "/")]
        self.state = self.group(file)
        self.metadata = [[path, attributes(value)] for value, path in self.objects if len(value.attrs)]

    def tensor(self, array, dataset, dtype=None, shape=None):
        address = h5py.h5o.get_info(dataset.id).addr
        shape = list(dataset.shape if shape is None else shape)
        return ["tensor", None, [dtype or short(array.dtype), shape, array.tobytes().hex(), self.numbers.setdefault(address, len(self.numbers))]]

    def dataset(self, dataset):
        if dataset.shape is None:
            return ["null", "hdf5.empty." + short(dataset.dtype), None]
        value = dataset[()]
        if h5py.check_string_dtype(dataset.dtype) and h5py.check_string_dtype(dataset.dtype).length is None:
            return nested(value, None)
        if h5py.check_vlen_dtype(dataset.dtype):
            return ["list", None, [["list", None, [nested(each, None) for each in row]] for row in value]]
        value = np.asarray(value)
        if dataset.dtype.kind == "V" and dataset.dtype.names is None and dataset.dtype.subdtype is None:
            size = dataset.dtype.itemsize
            is_bf16 = size == 2 and (self.bfloat16 or dataset.attrs.get("dtype") == "bfloat16")
            return self.tensor(value, dataset, "bf16" if is_bf16 else f"opaque |V{size}")
        if dataset.dtype.kind == "S":
            return self.tensor(value, dataset, f"opaque |S{dataset.dtype.itemsize}")
        if dataset.dtype.names:
            members = ", ".join(f"('{name}', '{part.str}', {offset})" for name, (part, offset) in dataset.dtype.fields.items())
            return self.tensor(value, dataset, f"opaque [{members}]")
        return self.tensor(value.astype(value.dtype.newbyteorder("=")), dataset, shape=value.shape)

    def group(self, group):
        """In the order of h5py, but numbers in theirs; Keras's names by model()."""
        names = list(group)
        if names and all(name.isdigit() for name in names):
            names.sort(key=int)
        groups, children = [], []
        for name in names:
            link = group.get(name, getlink=True)
            is_there = isinstance(link, h5py.HardLink) or (isinstance(link, h5py.SoftLink) and link.path in group)
            value = group[name] if is_there else None
            if isinstance(link, h5py.HardLink) and isinstance(value, h5py.Group):
                address = h5py.h5o.get_info(value.id).addr
                if address in self.seen:
                    children.append([name, ["null", None, None]])
                    continue
                self.seen.add(address)
                groups.append((len(children), value))
                self.objects.append((value, value.name))
                children.append([name, None])
            elif isinstance(value, h5py.Dataset):
                if h5py.h5o.get_info(value.id).addr not in self.numbers:
                    self.objects.append((value, value.name))
                children.append([name, self.dataset(value)])
            else:
                children.append([name, ["null", None, None]])
        for place, value in groups:
            children[place][1] = self.group(value)
        return ["dict", None, children]


def node_at(node, *path):
    for name in path:
        [node] = [child for key, child in node[2] if key == name]
    return node


def reorder(node, names):
    """The children of a dict in this order: pairs of the name in the file, and that in the tree."""
    children = dict(node[2])
    assert sorted(children) == sorted(old for old, _ in names), (sorted(children), names)
    node[2] = [[new, children[old]] for old, new in names]


def write(name, content, change=lambda described: None, documents=(), **options):
    with h5py.File(content) as file:
        described = Described(file, **options)
    change(described)
    wanted = {"state": described.state, "metadata": ["dict", None, [*map(list, documents), *sorted(described.metadata)]]}
    (FOLDER / f"{name}.json").write_text(json.dumps(wanted) + "\n")


def make(name, fill, **options):
    path = FOLDER / f"{name}.h5"
    path.unlink(missing_ok=True)
    with h5py.File(path, "w", **options) as file:
        fill(file)
    write(name, path)


def array(group, name, shape, maxshape=None, chunks=None, filters=(), value=None, fill=None, alloc=None, layout=None, dtype="u2"):
    """An array of a layout and filters; `value` alone is written."""
    properties = h5p.create(h5p.DATASET_CREATE)
    if layout is not None:
        properties.set_layout(layout)
    if chunks:
        properties.set_chunk(chunks)
    if alloc is not None:
        properties.set_alloc_time(alloc)
    if fill is not None:
        properties.set_fill_value(np.array(fill, dtype))
    for each in filters:
        {"deflate": lambda: properties.set_deflate(6), "shuffle": properties.set_shuffle, "fletcher32": properties.set_fletcher32}[each]()
    space = h5s.create_simple(shape, tuple(h5s.UNLIMITED if axis is None else axis for axis in maxshape) if maxshape else None)
    dataset = h5py.Dataset(h5d.create(group.id, name.encode(), h5t.py_create(np.dtype(dtype)), space, properties))
    whole = np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)
    for part in [np.s_[...]] if value is None else value:
        dataset[part] = whole[part]
    return dataset


def layouts(file):
    for filters in ((), ("deflate",), ("shuffle", "deflate", "fletcher32")):
        group = file.create_group("+".join(filters) or "none")
        array(group, "single", (5, 7), chunks=(5, 7), filters=filters)
        array(group, "fixed", (9, 7), chunks=(4, 3), filters=filters)
        array(group, "fixed_may_grow", (9, 7), (13, 11), (4, 3), filters, [np.s_[2:5, 1:4]], 9)
        array(group, "extensible", (7, 9), (7, None), (3, 4), filters)
        array(group, "extensible_holes", (120,), (None,), (1,), filters, [np.s_[:3], np.s_[70:74], np.s_[110:]], 3)
        array(group, "tree", (9, 7), (None, None), (4, 3), filters)
        shrunk = array(group, "shrunk", (9, 7), (None, None), (4, 3), filters)
        shrunk.resize((5, 2))
    group = file["none"]
    array(group, "compact", (3, 4), layout=h5d.COMPACT)
    array(group, "contiguous", (3, 4))
    array(group, "never_written", (3, 4), value=[], fill=7)
    array(group, "implicit", (9, 7), (11, 9), (4, 3), alloc=h5d.ALLOC_TIME_EARLY)
    array(group, "paged", (1100,), chunks=(1,), value=[np.s_[3:5], np.s_[1030:1040]], dtype="u1", fill=1)
    array(group, "empty", (0, 5), (None, 5), (2, 5), value=[])


def types(file):
    for dtype in ["i1", "u1", "<i2", ">i2", ">u4", "<i8", "<f2", ">f4", "<f8", "?", "<c8", ">c16", "S5", "V3"]:
        data = np.arange(1, 25, dtype="u1").tobytes()[: 4 * np.dtype(dtype).itemsize].ljust(4 * np.dtype(dtype).itemsize, b"\1")
        data = np.array([True, False, True, True]) if dtype == "?" else np.frombuffer(data, dtype)
        file[f"type_{dtype}"] = data
        if dtype not in ("V3", "S5"):
            file.attrs[f"attribute_{dtype}"] = data[:3]
    file["text"] = "é" * 10
    file["texts"] = ["a", "", "long " * 30]
    file.create_dataset("texts_in_chunks", data=[f"row {i}" for i in range(50)], chunks=(20,), dtype=h5py.string_dtype(), compression="gzip")
    lists = file.create_dataset("lists", (3,), dtype=h5py.vlen_dtype("f4"))
    lists[0], lists[2] = [1, 2], [3, 4, 5]
    file.create_dataset("enumeration", data=np.array([0, 2, 5], "i2"), dtype=h5py.enum_dtype({"A": 0, "B": 2, "C": 5}, "i2"))
    file["compound"] = np.array([(1, 2.5), (3, 4.5)], [("n", "<i8"), ("x", "<f4")])
    file.create_dataset("axes_of_the_type", (4,), dtype=np.dtype(("<i4", (3,))))[...] = np.arange(12).reshape(4, 3)
    file["scalar"] = np.float32(1.5)
    file["nothing"] = h5py.Empty("f4")
    file["type"] = np.dtype("f4")
    file["bfloat16"] = np.arange(8).astype(ml_dtypes.bfloat16)
    file["bfloat16_of_keras"] = np.arange(8).astype(ml_dtypes.bfloat16)
    file["bfloat16_of_keras"].attrs["dtype"] = "bfloat16"
    file.attrs.update({"text": "é", "fixed": np.bytes_(b"fixed"), "texts": ["a", "bb"], "number": np.float32(3.5), "large": np.uint64(2**64 - 1),
                       "matrix": np.ones((2, 3)), "nothing": h5py.Empty("S3"), "no_elements": np.zeros((0,))})  # fmt: skip


def links(file):
    group = file.create_group("group", track_order=True)
    for i in range(20):
        group[f"weight_{19 - i}_of_layer"] = np.float32(i)
    other = file.create_group("many")
    for i in range(20):
        other[f"name {i * 7 % 20}"] = np.float32(i)
        file.attrs[f"attribute {i * 7 % 20}"] = i
    file["array"] = np.arange(3)
    file["again"] = file["array"]
    file["group/cycle"] = file["group"]
    file["soft"] = h5py.SoftLink("/array")
    file["soft_group"] = h5py.SoftLink("/group")
    file["dangling"] = h5py.SoftLink("/nowhere")
    file["external"] = h5py.ExternalLink("other.h5", "/x")
    numbers = file.create_group("numbers")
    for i in range(12):
        numbers[str(i)] = np.int8(i)
    # Too large for a block of the heap.
    file["array"].attrs["big"] = np.bytes_(b"big" * 1500)


def model(dtype, count):
    keras.utils.set_random_seed(1)
    inputs = keras.Input((4, 4, 1))
    outputs = keras.layers.Conv2D(2, 3, dtype=dtype)(inputs)
    outputs = keras.layers.Flatten(dtype=dtype)(outputs)
    for i in range(count):
        outputs = keras.layers.Dense(2, dtype=dtype, name="head" if i == count - 1 else f"d{i}")(outputs)
    made = keras.Model(inputs, outputs, name="model")
    made.compile("sgd", "mse")
    return made


def reorder_layers(described, count):
    """The layers of model() under their names, in the order of the groups that Keras numbers."""
    dense = [("dense" if i == 0 else f"dense_{i}", "head" if i == count - 1 else f"d{i}") for i in range(count)]
    reorder(node_at(described.state, "layers"), [("conv2d", "conv2d"), *dense, ("flatten", "flatten"), ("input_layer", "input_layer")])


def of_keras(name, saved, dtype="float32", is_legacy=False, count=11):
    keras.backend.clear_session()
    made = model(dtype, count)
    path = FOLDER / f"{name}.{saved}"
    path.unlink(missing_ok=True)
    made.save_weights(path) if "weights" in saved else made.save(path)
    documents, content = [], path
    if saved == "keras":
        with zipfile.ZipFile(path) as archive:
            content = io.BytesIO(archive.read("model.weights.h5"))
            documents = [[each, ["string", None, archive.read(each).decode()]] for each in ("config.json", "metadata.json")]
    layers = [layer.name for layer in made.layers]

    def change(described):
        if is_legacy:
            weights = node_at(described.state, "model_weights")
            reorder(weights, [(layer, layer) for layer in [*layers, "top_level_model_weights"]])
            for layer in made.layers:
                if layer.weights:
                    reorder(node_at(weights, layer.name, layer.name), [(w.name, w.name) for w in layer.weights])
            optimizer = node_at(described.state, "optimizer_weights", made.optimizer.name)
            reorder(optimizer, [(v.name, v.name) for v in made.optimizer.variables])
            return
        reorder_layers(described, count)

    write(name, content, change, documents, bfloat16=is_legacy and dtype == "bfloat16")


def main():
    FOLDER.mkdir(exist_ok=True)
    for libver in ("earliest", "v110", "latest"):
        bounds = libver if libver != "v110" else ("v110", "v110")
        make(f"layouts-{libver}", layouts, libver=bounds)
    for libver in ("earliest", "latest"):
        make(f"types-{libver}", types, libver=libver)
        make(f"links-{libver}", links, libver=libver)
    make("user-block", lambda file: file.update({"a": np.arange(3)}) or file.attrs.update({"b": 1}), userblock_size=1024)
    of_keras("model", "keras")
    of_keras("weights", "weights.h5", count=3)
    of_keras("bfloat16", "weights.h5", "bfloat16", count=2)
    of_keras("legacy", "h5", is_legacy=True, count=3)
    of_keras("legacy-bfloat16", "h5", "bfloat16", is_legacy=True, count=1)


if __name__ == "__main__":
    main()
