"""Makes a file of 20 GiB that takes about 4 MiB of a disk: make_sparse.py FILE

Nearly all bytes of its tensors are zero. One chunk of each is not, so that a reader who looks at a
wrong place sees it:

    before   i8, 9 GiB, which lies below and above 4 GiB
    middle   f32, 1 GiB
    after    bf16 of two axes, 10 GiB

Prints the lengths of the file and of its index as JSON.
"""

import functools
import json
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "tests" / "reference"))
import espalier_build as builder  # noqa: E402

MIB = builder.MIB
GIB = 1 << 30

# Each MiB of zeros is the same object and is hashed once. The builder looks the function up anew.
builder.h128 = functools.lru_cache(maxsize=64)(builder.h128)


class Sparse:
    """Bytes that are zero but for some chunks, given by their numbers."""

    zeros = bytes(MIB)

    def __init__(self, length: int, chunks: dict):
        self.length = length
        self.chunks = chunks

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, part: slice) -> bytes:
        return self.chunks.get(part.start // MIB, self.zeros)


ramp_i8 = bytes((i * 7) % 251 for i in range(MIB))
ramp_f32 = struct.pack(f"<{MIB // 4}f", *(float(i % 1000 - 500) for i in range(MIB // 4)))
# The upper halves of floats.
ramp_bf16 = b"".join(struct.pack("<f", float(i % 128))[2:] for i in range(MIB // 2))

tree = {
    "before": builder.Array("i8", (9 * GIB,), Sparse(9 * GIB, {7 * 1024: ramp_i8})),
    "middle": builder.Array("f32", (GIB // 4,), Sparse(GIB, {1000: ramp_f32})),
    "after": builder.Array("bf16", (10 * GIB // 8192, 4096), Sparse(10 * GIB, {10 * 1024 - 1: ramp_bf16})),
}
tables = builder.from_tree(tree)

# Like build(), which would join the bytes of all chunks in memory.
length = len(builder.lay_out_index(tables))
places, end = [], 128 + length
for chunk in tables.chunks:
    end += -end % 64 if chunk.starts_tensor else 0
    places.append(end)
    end += len(chunk.data)
index = builder.lay_out_index(tables, places)
values = {
    "magic": b"\x89ESPL\r\n\x1a", "major": 1, "minor": 0, "zero": 0, "features": 0, "file_length": end,
    "index_offset": 128, "index_length": len(index), "index_hash": builder.h128(index),
    "tree_digest": tables.tree_digest, "zeros": bytes(40),
}  # fmt: skip
front = struct.pack("<" + "".join(code for _, code in builder.HEADER), *(values[n] for n, _ in builder.HEADER))

with open(sys.argv[1], "wb") as file:
    file.write(front + builder.h64(front) + index)
    for chunk, place in zip(tables.chunks, places):
        if chunk.data is not Sparse.zeros:
            file.seek(place)
            file.write(chunk.data)
    file.truncate(end)
print(json.dumps({"length": end, "index": len(index)}))
