"""Makes the ONNX models of this folder with the package `onnx`, and what it reads in them.

    pip install -r requirements.txt && python make_files.py

expected.json has each model as a tree; onnx.numpy_helper says what the tensors hold. graphs.json has the SHA-256 of each model without that.
"""

import hashlib
import json
import pathlib
import sys
import typing

import numpy as np
import onnx
from onnx import TensorProto as Type
from onnx import helper, numpy_helper

FOLDER = pathlib.Path(__file__).parent
Tree = dict[str, typing.Any]
# By number: our dtype and its bits.
DTYPES = {
    Type.FLOAT: ("f32", 32), Type.UINT8: ("u8", 8), Type.INT8: ("i8", 8), Type.UINT16: ("u16", 16),
    Type.INT16: ("i16", 16), Type.INT32: ("i32", 32), Type.INT64: ("i64", 64), Type.BOOL: ("bool", 8),
    Type.FLOAT16: ("f16", 16), Type.DOUBLE: ("f64", 64), Type.UINT32: ("u32", 32), Type.UINT64: ("u64", 64),
    Type.COMPLEX64: ("c64", 64), Type.COMPLEX128: ("c128", 128), Type.BFLOAT16: ("bf16", 16),
    Type.FLOAT8E4M3FN: ("f8_e4m3fn", 8), Type.FLOAT8E4M3FNUZ: ("f8_e4m3fnuz", 8), Type.FLOAT8E5M2: ("f8_e5m2", 8),
    Type.FLOAT8E5M2FNUZ: ("f8_e5m2fnuz", 8), Type.UINT4: ("u4", 4), Type.INT4: ("i4", 4),
    Type.FLOAT4E2M1: ("f4_e2m1fn", 4), Type.FLOAT8E8M0: ("f8_e8m0fnu", 8), Type.UINT2: ("u2", 2), Type.INT2: ("i2", 2),
    Type.FLOAT6E2M3: ("f6_e2m3fn", 6), Type.FLOAT6E3M2: ("f6_e3m2fn", 6),
}  # fmt: skip


# --- What onnx reads ------------------------------------------------------------------------------


def packed(elements: bytes, bits: int) -> bytes:
    """Elements of a byte each, of which the low bits count, without the bits between them."""
    whole = sum((element & ((1 << bits) - 1)) << (bits * i) for i, element in enumerate(elements))
    return whole.to_bytes(len(elements) * bits // 8, "little")


def strings(shape: typing.Sequence[int], values: typing.Iterable[str | bytes]) -> Tree:
    texts = []
    for value in values:
        raw = value.encode() if isinstance(value, str) else value
        try:
            texts.append({"kind": "string", "value": raw.decode()})
        except UnicodeDecodeError:
            texts.append({"kind": "bytes", "value": raw.hex()})
    axes = [{"kind": "int64", "value": axis} for axis in shape]
    return {"kind": "record", "label": "onnx.string",
            "children": {"shape": {"kind": "list", "children": axes}, "values": {"kind": "list", "children": texts}}}


def array(values: np.ndarray, dtype: str, bits: int, name: str) -> Tree:
    data, shape = values.tobytes(), list(values.shape)
    if bits < 8 and len(data) * bits % 8:
        data = bytes(element & ((1 << bits) - 1) for element in data)
        dtype, shape = f"opaque {name}", shape or [1]
    elif bits < 8:
        data = packed(data, bits)
    return {"kind": "tensor", "dtype": dtype, "shape": shape, "sha256": hashlib.sha256(data).hexdigest()}


def tensor(proto: onnx.TensorProto, folder: str) -> Tree:
    values = numpy_helper.to_array(proto, base_dir=folder)
    if proto.data_type == Type.STRING:
        return strings(values.shape, values.ravel().tolist())
    name = "onnx." + Type.DataType.Name(proto.data_type).lower()
    return array(values, *DTYPES[proto.data_type], name)


def sparse(proto: onnx.SparseTensorProto, folder: str) -> Tree:
    axes = [{"kind": "int64", "value": axis} for axis in proto.dims]
    return {"kind": "record", "label": "onnx.sparse",
            "children": {"values": tensor(proto.values, folder), "indices": tensor(proto.indices, folder),
                         "shape": {"kind": "list", "children": axes}}}  # fmt: skip


def put(scope: Tree, key: str, value: Tree) -> None:
    assert key not in scope["children"], key
    scope["children"][key] = value


def add_node(scope: Tree, node: onnx.NodeProto, folder: str) -> None:
    is_constant = node.op_type == "Constant" and node.domain in ("", "ai.onnx")
    for one in node.attribute:
        name = (node.name or next(iter(filter(None, node.output)), "") or node.op_type) + "." + one.name
        if name in scope["children"]:
            name = f"{node.output[0]}.{one.name}"
        if is_constant:
            name = node.output[0]
            value = helper.get_attribute_value(one)
            if one.name in ("value_float", "value_floats"):
                put(scope, name, array(np.array(value, np.float32), "f32", 32, ""))
            elif one.name in ("value_int", "value_ints"):
                put(scope, name, array(np.array(value, np.int64), "i64", 64, ""))
            elif one.name == "value_string":
                put(scope, name, {"kind": "string", "value": value.decode()})
            elif one.name == "value_strings":
                put(scope, name, strings([len(value)], value))
        if one.HasField("t"):
            put(scope, name, tensor(one.t, folder))
        if one.HasField("sparse_tensor"):
            put(scope, name, sparse(one.sparse_tensor, folder))
        if one.HasField("g"):
            inner = graph(one.g, folder)
            if inner["children"]:
                put(scope, name, inner)
        many = [*(tensor(each, folder) for each in one.tensors), *(graph(each, folder) for each in one.graphs),
                *(sparse(each, folder) for each in one.sparse_tensors)]  # fmt: skip
        if many:
            put(scope, name, {"kind": "list", "children": many})


def graph(proto: onnx.GraphProto, folder: str) -> Tree:
    scope: Tree = {"kind": "dict", "children": {}}
    for node in proto.node:
        add_node(scope, node, folder)
    for each in proto.initializer:
        put(scope, each.name, tensor(each, folder))
    for one in proto.sparse_initializer:
        put(scope, one.values.name, sparse(one, folder))
    return scope


def read(path: pathlib.Path) -> Tree:
    model = onnx.load(path, load_external_data=False)
    folder = str(path.parent)
    scope = graph(model.graph, folder)
    for number, info in enumerate(model.training_info):
        for name in ("initialization", "algorithm"):
            inner = graph(getattr(info, name), folder)
            if inner["children"]:
                put(scope, f"training_info.{number}.{name}", inner)
    for function in model.functions:
        inner = {"kind": "dict", "children": {}}
        for node in function.node:
            add_node(inner, node, folder)
        for one in function.attribute_proto:
            if one.HasField("t"):
                put(inner, one.name, tensor(one.t, folder))
        if inner["children"]:
            put(scope, "::".join(filter(None, (function.domain, function.name, function.overload))), inner)
    return scope


# --- The files ------------------------------------------------------------------------------------


def elements(kind: int, shape: tuple[int, ...]) -> np.ndarray:
    count, random = int(np.prod(shape)), np.random.default_rng(kind)
    dtype, bits = DTYPES[kind]
    numpy_type = helper.tensor_dtype_to_np_dtype(kind)
    if dtype == "bool":
        values = random.integers(0, 2, count)
    elif dtype[0] == "c":
        values = random.standard_normal(count) + 1j * random.standard_normal(count)
    elif dtype[0] == "u":
        values = random.integers(0, 2**bits - 1, count, np.uint64, endpoint=True)
    elif dtype[0] == "i":
        values = random.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, count, np.int64, endpoint=True)
    else:
        values = random.standard_normal(count)
    return values.astype(numpy_type).reshape(shape)


def model_of(initializers: list[onnx.TensorProto], **options: typing.Any) -> onnx.ModelProto:
    return helper.make_model(helper.make_graph([], "graph", [], [], initializers), producer_name="make_files", **options)


def write_types() -> None:
    """Each type in each form that onnx writes: raw and typed; of no axes, of no elements, of an odd number of them."""
    shapes = {"raw": (2, 4), "typed": (2, 4), "scalar": (), "typed_scalar": (), "empty": (0, 3), "odd": (7,),
              "typed_odd": (7,)}  # fmt: skip
    made = []
    for kind, (name, _) in DTYPES.items():
        for form, shape in shapes.items():
            values = elements(kind, shape)
            if form.startswith("typed"):
                made.append(helper.make_tensor(f"{name}.{form}", kind, shape, values.ravel().tolist()))
            else:
                made.append(numpy_helper.from_array(values, f"{name}.{form}"))
            assert made[-1].data_type == kind
    texts = [b"a\0b", b"", "\u00fc".encode(), b"d", b"e", b"f"]
    made += [helper.make_tensor("string", Type.STRING, (2, 3), texts), helper.make_tensor("string.none", Type.STRING, (0,), [])]
    onnx.save(model_of(made), FOLDER / "types.onnx")


def write_external() -> None:
    made = [numpy_helper.from_array(elements(kind, shape), f"{name}.{len(shape)}")
            for kind, (name, _) in DTYPES.items() for shape in ((2, 4), (7,))]  # fmt: skip
    (FOLDER / "external.bin").unlink(missing_ok=True)
    onnx.save_model(model_of(made), FOLDER / "external.onnx", save_as_external_data=True, location="external.bin",
                    size_threshold=0)  # fmt: skip


def constant(name: str, **value: typing.Any) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], name="node of " + name, **value)


def write_nested() -> None:
    def floats(*values: float, name: str = "") -> onnx.TensorProto:
        return numpy_helper.from_array(np.array(values, np.float32), name)

    def output(name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, Type.FLOAT, [2])

    inner = helper.make_graph([constant("k", value=floats(1, 2)), helper.make_node("Add", ["k", "w"], ["o"])], "inner", [],
                              [output("o")], [floats(5, 6, name="w")])  # fmt: skip
    plain = helper.make_graph([helper.make_node("Identity", ["x"], ["o"])], "plain", [], [output("o")])
    both = helper.make_graph([helper.make_node("If", ["c"], ["o"], name="if2", then_branch=inner, else_branch=plain)],
                             "both", [], [output("o")])  # fmt: skip
    flat = helper.make_sparse_tensor(floats(1, 2, 3, name="flat"), numpy_helper.from_array(np.array([1, 4, 5])), [2, 3])
    pairs = helper.make_sparse_tensor(floats(1, 2, name="pairs"), numpy_helper.from_array(np.array([[0, 1], [1, 2]])), [2, 3])
    nodes = [
        helper.make_node("If", ["c"], ["y"], name="if", then_branch=inner, else_branch=both),
        helper.make_node("If", ["c"], ["y2"], then_branch=inner, else_branch=plain),
        # Names of nodes need not be unique.
        helper.make_node("ConstantOfShape", ["s"], ["a"], name="fill", value=floats(7)),
        helper.make_node("ConstantOfShape", ["s"], ["b"], name="fill", value=floats(8)),
        helper.make_node("Many", ["y"], ["m"], domain="d", name="many", tensors=[floats(1), floats(2, 3)]),
        helper.make_node("Graphs", ["y"], ["gs"], domain="d", name="graphs", graphs=[plain, inner]),
        helper.make_node("Sparse", ["y"], ["sp"], domain="d", name="sparse", one=flat),
        constant("sparse_value", sparse_value=flat),
        constant("float", value_float=1.5),
        constant("floats", value_floats=[1.0, -2.0]),
        constant("int", value_int=-3),
        constant("ints", value_ints=[1, -2, 2**40]),
        constant("text", value_string="t\u00fc"),
        constant("texts", value_strings=["a", b"\xff"]),
        # Not one of ONNX's.
        helper.make_node("Constant", [], ["other"], domain="d", name="other", value=floats(9)),
        helper.make_node("LSTM", ["x"], ["l"], name="numbers", activation_alpha=[1.0, 2.0], hidden_size=3),
    ]
    main = helper.make_graph(nodes, "main", [output("x")], [output("y")], [floats(1, 1, name="top")],
                             sparse_initializer=[flat, pairs])  # fmt: skip
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("d", 1)]
    function = helper.make_function("d", "F", ["x"], ["y"], [constant("k", value=floats(3)), helper.make_node("Add", ["x", "k"], ["y"])],
                                    opsets[:1], attribute_protos=[helper.make_attribute("default", floats(4))])  # fmt: skip
    second = helper.make_function("d", "F", ["x"], ["y"], [constant("k", value=floats(5))], opsets[:1])
    second.overload = "2"
    empty = helper.make_function("d", "E", ["x"], ["y"], [helper.make_node("Identity", ["x"], ["y"])], opsets[:1])
    model = helper.make_model(main, functions=[function, second, empty], opset_imports=opsets, producer_name="make_files",
                              producer_version="1", model_version=7, doc_string="A model.")  # fmt: skip
    helper.set_model_props(model, {"author": "nobody", "note": "two\nlines"})
    training = model.training_info.add()
    training.algorithm.CopyFrom(helper.make_graph([], "train", [], [], [floats(0.5, name="rate")]))
    onnx.save(model, FOLDER / "nested.onnx")


def without_numbers(message: typing.Any) -> typing.Any:
    """The message, after its tensors have lost what they hold."""
    for field, value in message.ListFields():
        if field.message_type:
            for each in value if hasattr(value, "add") else [value]:
                without_numbers(each)
    if message.DESCRIPTOR.name == "TensorProto":
        for name in ("raw_data", "float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data"):
            message.ClearField(name)
    return message


def describe_graphs() -> None:
    """What is left of each model without the numbers of its tensors."""
    graphs = {}
    for path in sorted(FOLDER.glob("*.onnx")):
        left = without_numbers(onnx.load(path, load_external_data=False)).SerializeToString()
        graphs[path.name] = hashlib.sha256(left).hexdigest()
    (FOLDER / "graphs.json").write_text(json.dumps(graphs, indent=0) + "\n")


def main() -> None:
    for old in FOLDER.glob("*.onnx"):
        old.unlink()
    write_types()
    write_external()
    write_nested()
    files = {path.name: read(path) for path in sorted(FOLDER.glob("*.onnx"))}
    (FOLDER / "expected.json").write_text(json.dumps(files, indent=0) + "\n")
    describe_graphs()


if __name__ == "__main__":
    sys.exit(main())
