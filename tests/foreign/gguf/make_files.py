"""Makes the GGUF files of this folder with the package `gguf`, and what its reader finds in them.

    pip install -r requirements.txt && python make_files.py

The files are written by GGUFWriter. expected.json is read by GGUFReader, so it is the package that says what is in them.
"""

import hashlib
import json
import pathlib
import struct

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import GGUFValueType as V

FOLDER = pathlib.Path(__file__).parent
PLAIN = {T.F32: np.float32, T.F16: np.float16, T.F64: np.float64, T.I8: np.int8, T.I16: np.int16, T.I32: np.int32,
         T.I64: np.int64}
# The package has the size of older blocks, with two floats of 4 bytes; ggml's have had 2 since 2023.
WRONG_SIZE = {T.Q8_1}


def tensor(kind: T, seed: int) -> np.ndarray:
    """Two rows of one block each, or of 6 elements."""
    random = np.random.default_rng(seed)
    if kind in PLAIN:
        return (random.standard_normal((2, 6)) * 100).astype(PLAIN[kind])
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    values = random.standard_normal((2, elements)).astype(np.float32)
    try:
        return gguf.quants.quantize(values, kind)
    except NotImplementedError:  # it only reads these
        return random.integers(0, 256, (2, size)).astype(np.uint8)


def finish(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_types() -> None:
    writer = gguf.GGUFWriter(FOLDER / "types.gguf", "llama")
    for number, kind in enumerate(T):
        if kind in WRONG_SIZE:
            continue
        data = tensor(kind, number)
        writer.add_tensor(f"blk.{number}.{kind.name.lower()}", data, raw_dtype=None if kind in PLAIN else kind)
    writer.add_tensor("scalar", np.array(7.5, np.float32))
    writer.add_tensor("four.axes", np.arange(48, dtype=np.int16).reshape(2, 3, 4, 2))
    writer.add_tensor("five.axes", np.arange(16, dtype=np.float32).reshape(2, 2, 1, 2, 2))
    finish(writer)


def write_values() -> None:
    writer = gguf.GGUFWriter(FOLDER / "values.gguf", "gpt2")
    for kind, values in {
        V.UINT8: [0, 255], V.INT8: [-128, 127], V.UINT16: [65535], V.INT16: [-32768], V.UINT32: [2**32 - 1],
        V.INT32: [-(2**31)], V.FLOAT32: [0.1, -0.0, float("inf")], V.BOOL: [True, False],
        V.UINT64: [2**63 - 1, 2**63, 2**64 - 1], V.INT64: [-(2**63)], V.FLOAT64: [0.1],
        V.STRING: ["", "plain", "\u00e4 \u20ac \U0001f600", b"\xff\xfe not UTF-8"],
    }.items():
        for number, value in enumerate(values):
            writer.add_key_value(f"test.{kind.name.lower()}.{number}", value, kind)
        writer.add_key_value(f"test.array.{kind.name.lower()}", values * 2, V.ARRAY, sub_type=kind)
    writer.add_token_list([b"<s>", b"</s>", b"\xc3", *(f"token{i}" for i in range(60))])
    writer.add_token_scores([i / 7 for i in range(63)])
    writer.add_token_types([i % 4 for i in range(63)])
    writer.add_custom_alignment(128)
    writer.add_tensor("b", np.arange(5, dtype=np.int8))
    writer.add_tensor("a", np.arange(3, dtype=np.float64))
    finish(writer)


def write_version_2() -> None:
    """The same bytes as version 3, but for the number."""
    data = bytearray((FOLDER / "values.gguf").read_bytes())
    data[4:8] = struct.pack("<I", 2)
    (FOLDER / "version2.gguf").write_bytes(data)


def write_split() -> None:
    writer = gguf.GGUFWriter(FOLDER / "split.gguf", "llama", split_max_tensors=2)
    writer.add_block_count(5)
    for number in range(5):
        writer.add_tensor(f"blk.{number}.weight", np.full((2, 3), number, np.float32))
    finish(writer)


def read_value(field: gguf.ReaderField, kind: V, part: int) -> object:
    raw = field.parts[part]
    if kind == V.STRING:
        data = bytes(raw)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return {"bytes": data.hex()}
    value = raw.tolist()[0]
    if kind in (V.FLOAT32, V.FLOAT64):
        return {"float": struct.pack("<d", value).hex()}
    return str(value) if abs(value) >= 2**53 else value


def read(path: pathlib.Path) -> dict[str, object]:
    reader = gguf.GGUFReader(path)
    pairs = {}
    for name, field in reader.fields.items():
        if name.startswith("GGUF."):  # of the reader itself
            continue
        kind = field.types[-1]
        if field.types[0] == V.ARRAY:
            pairs[name] = {"array": kind.name, "values": [read_value(field, kind, part) for part in field.data]}
        else:
            pairs[name] = {"type": kind.name, "value": read_value(field, kind, field.data[0])}
    tensors = [
        {
            "name": one.name,
            "type": one.tensor_type.name,
            "shape": [int(axis) for axis in reversed(one.shape)],
            "offset": int(one.data_offset),
            "bytes": int(one.n_bytes),
            "sha256": hashlib.sha256(one.data.tobytes()).hexdigest(),
        }
        for one in reader.tensors
    ]
    return {"tensors": tensors, "metadata": pairs}


def main() -> None:
    for old in FOLDER.glob("*.gguf"):
        old.unlink()
    write_types()
    write_values()
    write_version_2()
    write_split()
    files = {path.name: read(path) for path in sorted(FOLDER.glob("*.gguf"))}
    (FOLDER / "expected.json").write_text(json.dumps(files, indent=1) + "\n")


if __name__ == "__main__":
    main()
