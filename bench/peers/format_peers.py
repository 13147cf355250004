#!/usr/bin/env python3
"""Writes and lists files with the library that a format comes from, for bench/formats.py, which says how it is run.

    format_peers.py make FORMAT PATH --tensors N --bytes N [--compressed]
    format_peers.py list FORMAT PATH --repeat N         names, shapes and types of all tensors
    format_peers.py decode FORMAT PATH --repeat N       decompression of all chunks alone, from memory to memory

A run prints one JSON object. Times are nanoseconds, without the start of Python and of the library: `wall_ns` of the
monotonic clock, `cpu_ns` of the processor, in all threads of the process.
"""

import argparse
import ctypes
import json
import logging
import os
import pathlib
import time
import zlib

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="", JAX_PLATFORMS="cpu")

import numpy  # noqa: E402


def arrays(tensors, size):
    """Names as models have them, and f32 that compress a little, as weights do."""
    weights = numpy.random.default_rng(1).standard_normal(size // tensors // 4, numpy.float32)
    for i in range(tensors):
        yield f"layers/{i // 10}/part{i % 10}/weight", weights + numpy.float32(i)


def nested(named):
    tree = {}
    for name, value in named:
        *parents, last = name.split("/")
        into = tree
        for part in parents:
            into = into.setdefault(part, {})
        into[last] = value
    return tree


class Hdf5:
    package = "h5py"

    @staticmethod
    def make(path, tensors, compressed):
        import h5py
        with h5py.File(path, "w") as file:
            for name, array in tensors:
                if compressed:
                    file.create_dataset(name, data=array, chunks=(min(len(array), 1 << 18),), compression="gzip", shuffle=True)
                else:
                    file[name] = array

    @staticmethod
    def list(path):
        import h5py
        found = []

        def visit(name, item):
            if isinstance(item, h5py.Dataset):
                found.append((name, item.shape, item.dtype))

        with h5py.File(path, "r") as file:
            file.visititems(visit)
        return found

    @staticmethod
    def chunks(path):
        import h5py
        with h5py.File(path, "r") as file:
            for name, _, _ in Hdf5.list(path):
                data = file[name]
                for chunk in data.iter_chunks():
                    yield data.id.read_direct_chunk([part.start for part in chunk])[1], 0

    @staticmethod
    def decoder():
        return lambda chunk, _: zlib.decompress(chunk)


class Onnx:
    package = "onnx"

    @staticmethod
    def make(path, tensors, compressed):
        import onnx
        graph = onnx.helper.make_graph([], "graph", [], [], [onnx.numpy_helper.from_array(a, name) for name, a in tensors])
        onnx.save(onnx.helper.make_model(graph), path)

    @staticmethod
    def list(path):
        import onnx
        model = onnx.load(path, load_external_data=False)
        return [(each.name, list(each.dims), each.data_type) for each in model.graph.initializer]


class OnnxExternal(Onnx):
    @staticmethod
    def make(path, tensors, compressed):
        import onnx
        Onnx.make(path, tensors, compressed)
        onnx.save(onnx.load(path), path, save_as_external_data=True, location=path.name + ".data", size_threshold=0)


class TensorFlow:
    package = "tensorflow"

    @staticmethod
    def make(path, tensors, compressed):
        import tensorflow as tf
        tf.train.Checkpoint(model=nested((name, tf.Variable(array)) for name, array in tensors)).write(str(path))

    @staticmethod
    def list(path):
        import tensorflow as tf
        reader = tf.train.load_checkpoint(str(path).removesuffix(".index"))
        types = reader.get_variable_to_dtype_map()
        # The object graph is no tensor, and Espalier's tree is made of it.
        return [(name, shape, types[name]) for name, shape in reader.get_variable_to_shape_map().items()
                if types[name] != tf.string]


class Orbax:
    package = "orbax-checkpoint"

    @staticmethod
    def make(path, tensors, compressed):
        import orbax.checkpoint as ocp
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_compression=compressed)) as saver:
            saver.save(path, args=ocp.args.PyTreeSave(nested(tensors)))

    @staticmethod
    def list(path):
        import jax
        import orbax.checkpoint as ocp
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as reader:
            tree = reader.metadata(path).item_metadata.tree
        return [(name, leaf.shape, leaf.dtype) for name, leaf in jax.tree_util.tree_flatten_with_path(
            tree, is_leaf=lambda each: hasattr(each, "shape"))[0]]

    @staticmethod
    def chunks(path):
        import tensorstore as ts
        store = ts.KvStore.open({"driver": "ocdbt", "base": f"file://{path}/"}).result()
        for key in store.list().result():
            if not key.endswith(b".zarray"):
                spec = json.loads(store[key.rsplit(b"/", 1)[0] + b"/.zarray"])
                yield store[key], 4 * int(numpy.prod(spec["chunks"]))

    @staticmethod
    def decoder():
        zstd = ctypes.CDLL("libzstd.so.1")
        zstd.ZSTD_decompress.restype = ctypes.c_size_t

        def decode(chunk, size):
            out = ctypes.create_string_buffer(size)
            zstd.ZSTD_decompress(out, ctypes.c_size_t(size), chunk, ctypes.c_size_t(len(chunk)))
            return out

        return decode


class TensorStore(Orbax):
    """Opens the array of each tensor, all at once, and is told their names: what Orbax's index has is not read."""
    package = "tensorstore"

    @staticmethod
    def list(path):
        import tensorstore as ts
        base = {"driver": "ocdbt", "base": f"file://{path}/"}
        store = ts.KvStore.open(base).result()
        names = [key.decode().removesuffix(".zarray") for key in store.list().result() if key.endswith(b".zarray")]
        context = ts.Context({"cache_pool": {"total_bytes_limit": 1 << 28}})
        opening = [ts.open({"driver": "zarr", "kvstore": {**base, "path": name}}, context=context, open=True, read=True)
                   for name in names]
        return [(name, array.result().shape, array.result().dtype) for name, array in zip(names, opening)]


FORMATS = {"hdf5": Hdf5, "onnx": Onnx, "onnx-external": OnnxExternal, "tensorflow": TensorFlow, "orbax": Orbax,
           "tensorstore": TensorStore}


def timed(work, repeat):
    wall, cpu = [], []
    result = None
    for _ in range(repeat):
        result = None
        starts = time.monotonic_ns(), time.process_time_ns()
        result = work()
        cpu.append(time.process_time_ns() - starts[1])
        wall.append(time.monotonic_ns() - starts[0])
    return result, {"wall_ns": wall, "cpu_ns": cpu}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("command", choices=("make", "list", "decode"))
    parser.add_argument("format", choices=FORMATS)
    parser.add_argument("path", type=pathlib.Path)
    parser.add_argument("--tensors", type=int)
    parser.add_argument("--bytes", type=int)
    parser.add_argument("--compressed", action="store_true")
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    peer = FORMATS[options.format]
    options.path = options.path.resolve()
    if options.command == "make":
        peer.make(options.path, arrays(options.tensors, options.bytes), options.compressed)
        report = {}
    elif options.command == "list":
        found, report = timed(lambda: peer.list(options.path), options.repeat)
        report["tensors"] = len(found)
    else:
        chunks, decode = list(peer.chunks(options.path)), peer.decoder()

        def all_of_them():
            for chunk, size in chunks:
                decode(chunk, size)

        report = timed(all_of_them, options.repeat)[1]
    print(json.dumps(report))


if __name__ == "__main__":
    main()
