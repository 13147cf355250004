"""Makes the checkpoints of TensorFlow in `files`, and beside each the tree that is expected, as JSON.

    python make_files.py [NAME...]
    python make_files.py --describe PREFIX        prints the tree of any checkpoint

Needs tensorflow, tf_keras, keras and ml_dtypes; versions are in requirements.txt. Each checkpoint is a folder,
NAME.tensorflow. NAME.json is in the words of ../torch/make_files.py. Values are what tf.train.load_checkpoint() reads; where
they stand is what TensorFlow's own message of the object graph says, walked breadth first.
"""

import collections
import json
import os
import pathlib
import shutil
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

FILES = pathlib.Path(__file__).resolve().parent / "files"
GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
VARIABLE = "VARIABLE_VALUE"

NAMES = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32",
    "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "bool", "complex64": "c64", "complex128": "c128",
    "uint16": "u16", "uint32": "u32", "uint64": "u64", "float8_e4m3fn": "f8_e4m3fn", "float8_e5m2": "f8_e5m2",
    "float8_e4m3fnuz": "f8_e4m3fnuz", "float8_e5m2fnuz": "f8_e5m2fnuz",
    "float8_e4m3b11fnuz": "opaque float8_e4m3b11fnuz",
    "qint8": "i8", "quint8": "u8", "qint16": "i16", "quint16": "u16", "qint32": "i32",
}  # fmt: skip
NARROW = {"int4": ("i4", 4), "uint4": ("u4", 4), "int2": ("i2", 2), "uint2": ("u2", 2), "float4_e2m1fn": ("f4_e2m1fn", 4)}


# --- What is expected -----------------------------------------------------------------------------


def texts(value, label):
    """Strings as nested lists."""
    if isinstance(value, list):
        return ["list", label, [texts(each, None) for each in value]]
    try:
        return ["string", label, value.decode()]
    except UnicodeDecodeError:
        return ["bytes", label, value.hex()]


def tensor(reader, dtype, name, number):
    """A tensor, or strings."""
    value = reader.get_tensor(name)
    if dtype == tf.string:
        array = numpy.asarray(value, object)
        return texts([] if array.size == 0 else array.tolist(), "tensorflow.string")
    array = numpy.asarray(value)
    shape, raw = list(array.shape), array.tobytes()
    label = "tensorflow." + dtype.name if dtype.name[0] == "q" or dtype.name.startswith("quint") else None
    if dtype.name in NARROW:
        ours, bits = NARROW[dtype.name]
        if array.size * bits % 8:
            is_signed = dtype.name.startswith("int")
            if not dtype.name.startswith("float"):
                raw = array.astype(numpy.int8 if is_signed else numpy.uint8).tobytes()
            ours, label = "i8" if is_signed else "u8", "tensorflow." + dtype.name
        else:
            packed = bytearray(array.size * bits // 8)
            for i, byte in enumerate(raw):
                packed[i * bits // 8] |= (byte & ((1 << bits) - 1)) << (i * bits % 8)
            raw = bytes(packed)
    else:
        ours = NAMES[dtype.name]
    if ours.startswith("opaque") and not shape:
        shape = [1]
    return ["tensor", label, [ours, shape, raw.hex(), number]]


class Graph:
    """The tree of the objects of a checkpoint."""

    def __init__(self, reader, graph):
        self.reader, self.nodes = reader, graph.nodes
        self.names = sorted(reader.get_variable_to_shape_map())
        attributes = {a.checkpoint_key for node in self.nodes for a in node.attributes}
        owners = [(a.checkpoint_key, number, a.name) for number, node in enumerate(self.nodes) for a in node.attributes]
        self.stored = {number: [] for number in range(len(self.nodes))}
        for number, node in enumerate(self.nodes):
            self.stored[number] = [(a.name, a.checkpoint_key) for a in node.attributes if a.checkpoint_key in self.names]
        for name in self.names:
            if name in attributes or name == GRAPH:
                continue
            for key, number, attribute in sorted(owners, key=lambda owner: -len(owner[0])):
                if name.startswith(key):
                    self.stored[number].append((attribute + name[len(key) :], name))
                    break
        self.useful = {number for number, stored in self.stored.items() if stored}
        size = -1
        while size != len(self.useful):
            size = len(self.useful)
            for number, node in enumerate(self.nodes):
                if any(child in self.useful for child in self.reached(node)):
                    self.useful.add(number)

    @staticmethod
    def reached(node):
        return [c.node_id for c in node.children] + [s.slot_variable_node_id for s in node.slot_variables]

    def is_variable(self, number):
        stored = self.stored[number]
        return [name for name, _ in stored] == [VARIABLE] and not self.useful.intersection(self.reached(self.nodes[number]))

    def tree(self):
        root, places, queue, variables = {}, {0: ((), None)}, collections.deque([0]), {}
        places[0] = ((), root)
        order = [0]
        while queue:
            number = queue.popleft()
            path, here = places[number]
            for child in self.nodes[number].children:
                if child.node_id not in self.useful:
                    continue
                if self.is_variable(child.node_id):
                    variables.setdefault(child.node_id, (*path, child.local_name))
                    here[child.local_name] = self.stored[child.node_id][0][1]
                elif child.node_id in places:
                    here[child.local_name] = places[child.node_id][0]
                else:
                    here[child.local_name] = {}
                    places[child.node_id] = ((*path, child.local_name), here[child.local_name])
                    queue.append(child.node_id)
                    order.append(child.node_id)
        for number in order:
            for slot in self.nodes[number].slot_variables:
                if slot.slot_variable_node_id not in self.useful:
                    continue
                here = places[number][1].setdefault("slots", {}).setdefault(slot.slot_name, {})
                *above, last = variables[slot.original_variable_node_id]
                for name in above:
                    here = here.setdefault(name, {})
                here[last] = self.stored[slot.slot_variable_node_id][0][1]
        used = {key for stored in self.stored.values() for _, key in stored}
        for number in order:
            for name, key in self.stored[number]:
                places[number][1][name] = key
        rest = [name for name in self.names if name not in used and name != GRAPH]
        if rest:
            root["unclaimed"] = {name: name for name in rest}
        return root


def describe(prefix):
    """The tree of a checkpoint: [kind, label, what it is]."""
    reader = tf.train.load_checkpoint(str(prefix))
    names = sorted(reader.get_variable_to_shape_map(), key=str.encode)
    numbers = {name: number for number, name in enumerate(names)}
    dtypes_of = reader.get_variable_to_dtype_map()
    if GRAPH in names:
        graph = trackable_object_graph_pb2.TrackableObjectGraph()
        graph.ParseFromString(reader.get_tensor(GRAPH))
        tree = Graph(reader, graph).tree()
    else:
        tree = {name: name for name in names}

    def told(node):
        if isinstance(node, dict):
            return ["dict", None, [[key, told(each)] for key, each in node.items()]]
        if isinstance(node, tuple):
            return ["null", "tensorflow.node:" + "/".join(node), None]
        if dtypes_of[node] == tf.variant:
            return ["variant", None, node]
        return tensor(reader, dtypes_of[node], node, numbers[node])

    return told(tree)


# --- What is made ---------------------------------------------------------------------------------


def write(folder, tensors, slices=None):
    """A checkpoint without a graph."""
    tf.raw_ops.SaveV2(prefix=f"{folder}/ckpt", tensor_names=[name for name, _ in tensors],
                      shape_and_slices=slices or [""] * len(tensors), tensors=[value for _, value in tensors])  # fmt: skip


def dtypes(folder):
    tensors = []
    for name in [*NAMES, *NARROW]:
        dtype = getattr(tf.dtypes, name, None) or getattr(tf.dtypes.experimental, name)
        low = 0 if name.startswith(("u", "q", "bool")) else -1
        top = 1 if name in ("bool", "int2") else 3
        for end, values in (("/even", [[0, 1, low, top], [1, 0, 1, low]]), ("/odd", [low, 0, 1]), ("/scalar", top)):
            values = numpy.array(values, "f4") if name != "bool" else numpy.array(values) != 0
            tensors.append((name + end, tf.constant(values.astype(dtype.as_numpy_dtype), dtype=dtype)))
        tensors.append((name + "/none", tf.zeros((0, 3), tf.float32)))
    write(folder, tensors)


def strings(folder):
    write(folder, [("nested", tf.constant([[b"", b"a"], [b"\0\xff", b"x" * 300]])), ("scalar", tf.constant("scal\u00e4r")),
                   ("none", tf.zeros((0,), tf.string)), ("a\0\xff", tf.constant([1.5]))])  # fmt: skip


def slices(folder):
    """Cut in place, across, and in the middle of a chunk."""
    rows = tf.reshape(tf.range(200, dtype=tf.float32), (100, 2))
    across = tf.constant(numpy.arange(24, dtype="i2").reshape(4, 6))
    write(folder, [("rows", rows[:70]), ("rows", rows[70:]), ("across", across[:, 4:]), ("across", across[:, :4]),
                   ("turned", rows[70:]), ("turned", rows[:70])],
          ["100 2 0,70:-", "100 2 70,30:-", "4 6 -:4,2", "4 6 -:0,4", "100 2 70,30:0,2", "100 2 0,70:0,2"])  # fmt: skip


def shards(folder):
    variables = {f"v{i}": tf.Variable(numpy.arange(10 * (i + 1), dtype="f4")) for i in range(4)}
    options = tf.train.CheckpointOptions(
        experimental_sharding_callback=tf.train.experimental.MaxShardSizePolicy(100))  # fmt: skip
    big = tf.Variable(numpy.arange(120, dtype="f4").reshape(12, 10))
    tf.train.Checkpoint(**variables, big=big).write(f"{folder}/ckpt", options=options)


def objects(folder):
    """Objects with keys of their own, ties, names with dots and slashes."""
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    table.insert(tf.constant(["a"]), tf.constant([1], tf.int64))
    shared = tf.Variable(9.0)
    loop = tf.train.Checkpoint(w=tf.Variable([2.0]))
    loop.itself = loop
    tf.train.Checkpoint(
        table=table, generator=tf.random.Generator.from_seed(3), listed=[tf.Variable(1.0), tf.Variable(2.0)],
        named={"a/b": tf.Variable(3.0), "x.y": tf.Variable(4.0)}, one=shared, two=shared, loop=loop, again=loop,
    ).write(f"{folder}/ckpt")  # fmt: skip


def keras_model(keras):
    keras.utils.set_random_seed(1)
    return keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(4), keras.layers.BatchNormalization(),
                             keras.layers.Dense(2)])  # fmt: skip


def trained(keras, optimizer):
    model = keras_model(keras)
    model.compile(optimizer, "mse")
    model.fit(numpy.ones((8, 3), "f4"), numpy.ones((8, 2), "f4"), epochs=2, verbose=0)
    return model


def keras_2(folder):
    """The legacy optimizer, whose slots only the graph names."""
    import tf_keras

    optimizer = tf_keras.optimizers.legacy.Adam(1e-3)
    model = trained(tf_keras, optimizer)
    step = tf.Variable(7, dtype=tf.int64)
    tf.train.Checkpoint(model=model, optimizer=optimizer, step=step).write(f"{folder}/ckpt")


def keras_3(folder):
    import keras

    optimizer = keras.optimizers.Adam(1e-3)
    model = trained(keras, optimizer)
    tf.train.Checkpoint(model=model, optimizer=optimizer).write(f"{folder}/ckpt")


def saved_model(folder):
    """What Keras 3 exports; only the variables are kept here."""
    import keras

    keras_model(keras).export(folder, verbose=False)
    for name in os.listdir(folder):
        if name != "variables":
            path = folder / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()


CASES = {case.__name__: case for case in (dtypes, strings, slices, shards, objects, keras_2, keras_3, saved_model)}


def main():
    if sys.argv[1:2] == ["--describe"]:
        print(json.dumps(describe(sys.argv[2])))
        return
    for name in sys.argv[1:] or CASES:
        folder = FILES / f"{name}.tensorflow"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        CASES[name](folder)
        prefix = folder / "ckpt"
        if name == "saved_model":
            prefix = folder / "variables" / "variables"
        else:
            (folder / "checkpoint").write_text('model_checkpoint_path: "ckpt"\nall_model_checkpoint_paths: "ckpt"\n')
        (FILES / f"{name}.json").write_text(json.dumps(describe(prefix)) + "\n")


if __name__ == "__main__":
    main()
