"""Trees for the builder: random ones of all kinds, and ones at the edges of the format."""

import math
import struct

from espalier_build import MIB, Array, Labelled, Placeholder, Record, Set

# Name: bits of an element.
BITS = {
    "bool": 8, "i8": 8, "u8": 8, "i16": 16, "u16": 16, "i32": 32, "u32": 32, "i64": 64, "u64": 64,
    "f16": 16, "bf16": 16, "f32": 32, "f64": 64, "c64": 64, "c128": 128, "f8_e4m3fn": 8,
    "f8_e5m2": 8, "f8_e4m3fnuz": 8, "f8_e5m2fnuz": 8, "f8_e8m0fnu": 8, "f4_e2m1fn": 4, "i4": 4,
    "u4": 4, "i2": 2, "u2": 2, "f6_e2m3fn": 6, "f6_e3m2fn": 6,
}  # fmt: skip
BLOCKS = [("q4_0", 32, 18), ("q8_0", 32, 34), ("q4_0", 16, 9), ("\u00e9", 1, 1)]
LETTERS = "abcxyz019-~/ ._\u00e9\u65e5\U0001f333\0\n\x1b\u202e\uffff\\\"*?[]{}"
TEXTS = ["", "0", "-1", "-0", "007", "~", "/", "~2", "a/b", "weight", "9223372036854775807"]
INTS = [0, 1, -1, 255, 256, -256, 2**53 - 1, 2**53, -(2**53), 2**63 - 1, -(2**63)]
WORDS = [0, 1 << 63, 1, 0x7FF0 << 48, 0xFFF0 << 48, 0x7FF8 << 48, 0x7FF0 << 48 | 1, 0x3FF0 << 48]


class RandomTree:
    """`tree` and `metadata`, the same for the same `random.Random`.

    `compressible`: tensors are larger, and few are noise.
    """

    def __init__(self, random, compressible=False):
        self.random = random
        self.compressible = compressible
        self.budget = random.choice([3, 10, 30, 80])  # Nodes still to be made.
        self.made = []  # Tensors to name again.
        self.tensors = True
        self.tree = self.value(0)
        self.tensors = False
        self.budget = random.choice([0, 0, 4, 12])
        self.metadata = {self.text(): self.value(0) for _ in range(self.budget and 4)}
        if random.random() < 0.1:
            self.metadata = Labelled(self.text(), self.metadata)

    def text(self):
        if self.random.random() < 0.3:
            return self.random.choice(TEXTS)
        return "".join(self.random.choices(LETTERS, k=self.random.randrange(8)))

    def integer(self):
        if self.random.random() < 0.5:
            return self.random.choice(INTS)
        return self.random.randrange(-(2**63), 2**63) >> self.random.randrange(64)

    def real(self):
        if self.random.random() < 0.5:
            word = self.random.choice(WORDS)
        else:
            word = self.random.getrandbits(64)
        return struct.unpack("<d", struct.pack("<Q", word))[0]

    def value(self, depth):
        self.budget -= 1
        value = self.unlabelled(depth)
        return Labelled(self.text(), value) if self.random.random() < 0.15 else value

    def unlabelled(self, depth):
        choice = self.random.random()
        if (depth == 0 or choice < 0.45) and self.budget > 0 and depth < 12:
            return self.container(depth)
        if choice < 0.75 and self.tensors:
            if self.made and self.random.random() < 0.2:
                return self.random.choice(self.made)
            return self.tensor()
        return self.random.choice([
            lambda: None,
            lambda: self.random.random() < 0.5,
            self.integer,
            lambda: self.random.choice([1, -1]) * (2**63 + self.random.getrandbits(200) + 1),
            self.real,
            lambda: complex(self.real(), self.real()),
            self.text,
            lambda: self.random.randbytes(self.random.randrange(20)),
        ])()  # fmt: skip

    def container(self, depth):
        size = self.random.choice([0, 1, 2, 3, 5, 8, 9, 12])
        kind = self.random.randrange(5)
        if kind == 0 or kind == 1:
            key = lambda: self.integer() if self.random.random() < 0.4 else self.text()
            keys = {(key() if kind == 0 else self.text()): None for _ in range(size)}
            if self.random.random() < 0.3:
                keys = sorted(keys, key=lambda k: (isinstance(k, str), k))
            items = {key: self.value(depth + 1) for key in keys}
            return items if kind == 0 else Record(items)
        elements = [self.value(depth + 1) for _ in range(size)]
        if kind == 4:
            # No two elements may be equal; labels make sure of that.
            plain = [e.value if isinstance(e, Labelled) else e for e in elements]
            return Set([Labelled(f"element {n}", element) for n, element in enumerate(plain)])
        return elements if kind == 2 else tuple(elements)

    def tensor(self):
        dtype = self.random.choice([*BITS, "opaque"])
        block = self.random.choice(BLOCKS) if dtype == "opaque" else None
        axes = self.random.randrange(5)
        shape = tuple(self.random.choices([0, 1, 1, 2, 3, 4, 5], k=axes))
        if self.compressible:
            shape = tuple(axis for axis in shape if axis) + (self.random.choice([8, 24, 80]),)
        if block:
            shape += (self.random.randrange(4) * block[1],)
            size = math.prod(shape) // block[1] * block[2]
        else:
            while math.prod(shape) * BITS[dtype] % 8:
                shape += (2,)
            size = math.prod(shape) * BITS[dtype] // 8
        names = None
        if shape and self.random.random() < 0.3:
            names = tuple(self.text() for _ in shape)
        if self.random.random() < 0.2:
            return Placeholder(dtype, shape, names, block)
        data = self.random.randbytes(size)
        if self.compressible and size:
            data = self.compressible_data(size)
        if dtype == "bool" and self.random.random() < 0.5:
            data = bytes(byte & 1 for byte in data)
        made = Array(dtype, shape, data, names, block)
        self.made.append(made)
        return made


    def compressible_data(self, size):
        """Bytes that some codec makes shorter, or none does."""
        width = self.random.choice([1, 2, 4, 8])
        element = self.random.randbytes(width)
        data = bytearray(element * (size // width + 1))[:size]
        for k in self.random.sample(range(width), self.random.randrange(width + 1)):
            plane = len(data[k::width])
            values = self.random.choice([bytes(range(256)), b"\x3e\x3f", b"\xbf\x3f\x3f\x3f"])
            data[k::width] = bytes(self.random.choices(values, k=plane))
        return bytes(data)


def nested(value, depth):
    for _ in range(depth):
        value = [value]
    return value


def edge_trees():
    """Name: (tree, metadata). Each is valid by the page, and within the library's limits."""
    shared = Array("f32", (2,), b"12345678")
    large_block = ("q", 2**32 - 1, 1)
    everything = Set([shared, Placeholder("f32", (2,)), {}, [], (), Set([]), Record({}), None, b""])
    code_points = (0, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF)
    numbers = [n * 7919 % 2003 for n in range(2003)]
    trees = {
        "leaf": None,
        "tensor": shared,
        "placeholder": Placeholder("u8", (2**63 - 1,)),
        "set of everything": everything,
        "ties": {"a": shared, "b": [shared, (shared, {"c": shared})], "s": Set([shared])},
        "zeros": {"a": -0.0, "b": 0.0, "c": Set([0.0, -0.0, 0, False])},
        "64 axes": Array("u8", (1,) * 63 + (3,), b"abc", tuple(str(n) for n in range(64))),
        "no elements": [Array("f32", (0,), b""), Array("opaque", (3, 0), b"", None, large_block)],
        "long axes": [Array("f64", (2**64 - 1, 2**63, 0), b""), Placeholder("i2", (0, 2**64 - 1))],
        "2^64 - 4 elements": Placeholder("u2", (2**64 - 4,)),
        "elements in few bytes": Placeholder("opaque", (2**32, 2**32 - 1), None, large_block),
        "depth 250": nested(1, 250),
        "long keys": {"k" * 5000: {"l" * 5000: 1}, "~" * 3000: 2},
        "long values": ["\u00e9" * 40000, bytes(100000), 2**8000, -(2**8000)],
        "many children": {n: str(n) for n in numbers},
        "many fields": Record({f"f{n}": n for n in numbers}),
        "chunks": [Array("u8", (n,), bytes(n)) for n in (MIB, 1, MIB + 1, 63, MIB - 1)],
        "letters": {chr(n): chr(n) for n in code_points},
    }
    trees = {name: (tree, {}) for name, tree in trees.items()}
    trees["labelled roots"] = (Labelled("r", {}), Labelled("m", {}))
    trees["keys of metadata"] = ({}, {"": 1, 0: 2, "0": [Set([1, 2])], "~": {-1: b"x"}})
    return trees
