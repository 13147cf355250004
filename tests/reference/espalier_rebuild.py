"""From an open file back to the tree that `espalier_build.from_tree` takes.

A tree determines every byte of its file but those of compressed chunks, so a file that is read, turned
back into a tree and built again with these must come out the same: `rebuild(data) == data`.
"""

import struct

import espalier_reference as reference
from espalier_build import Array, ChunkRecord, Labelled, Placeholder, Record, Set, build, from_tree, h128


def tree_of(file, root=0):
    """The state tree (root 0) or the metadata (root 1) as the classes of the builder."""
    tensors = [_tensor(file, number) for number in range(len(file.tensors))]
    nodes = file.index.nodes.rows
    values = {}
    for i in reversed(range(root, len(nodes))):  # Children have higher numbers than their parents.
        kind, _, _, _, value, count = nodes[i]
        children = range(value, value + count)
        if kind in (reference.DICT, reference.RECORD):
            fields = {file.keys[child]: values[child] for child in children}
            result = fields if kind == reference.DICT else Record(fields)
        elif kind in reference.CONTAINERS:
            make = {reference.LIST: list, reference.TUPLE: tuple, reference.SET: Set}[kind]
            result = make([values[child] for child in children])
        elif kind in (reference.TENSOR, reference.PLACEHOLDER):
            result = tensors[value]
        else:
            result = _leaf(file, i)
        values[i] = Labelled(file.labels[i], result) if i in file.labels else result
    return values[root]


def _leaf(file, i):
    kind, _, _, _, value, count = file.index.nodes.rows[i]
    words, pool = file.index.words.rows, file.index.bytes.rows
    if kind == reference.NULL:
        return None
    if kind == reference.BOOL:
        return bool(value)
    if kind == reference.INT64:
        return reference.to_signed(words[value])
    if kind == reference.BIGINT:
        return int.from_bytes(pool[value : value + count], "little", signed=True)
    if kind == reference.FLOAT64:
        return _float(words[value])
    if kind == reference.COMPLEX128:
        return complex(_float(words[value]), _float(words[value + 1]))
    if kind == reference.STRING:
        return file.texts[value]
    return pool[value : value + count]


def _float(word):
    return struct.unpack("<d", struct.pack("<Q", word))[0]


def _tensor(file, number):
    tensor = file.tensors[number]
    dtype = reference.DTYPES[tensor.dtype][0]
    if tensor.placeholder:
        return Placeholder(dtype, tensor.shape, tensor.axis_names, tensor.block)
    data = reference.read_tensor(file, number)
    return Array(dtype, tensor.shape, data, tensor.axis_names, tensor.block)


def rebuild(data, raw=False):
    """With `raw`, the file of the same state without compression."""
    file = reference.open_file(data)
    tables = from_tree(tree_of(file, 0), tree_of(file, 1))
    for chunk, row in zip(tables.chunks, file.index.chunks.rows, strict=True):
        offset, _, stored, _, codec, _ = row
        if codec != reference.RAW and not raw:
            chunk.hash = h128(chunk.data)
            chunk.codec, chunk.data = codec, data[offset : offset + stored]
    if file.header["version"] != "1.0" and not raw:
        assert not file.others, "the chunks of other files are not here"
        tables.files = []
        for offset, hash_, stored, _, codec, _ in file.index.bases.rows:
            tables.bases.append(ChunkRecord(b"", False, offset, hash_, stored, 0, codec))
    return build(tables)
