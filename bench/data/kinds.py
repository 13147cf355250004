#!/usr/bin/env python3
"""Makes tensors of the ten kinds that checkpoints hold, as one safetensors file: the inputs of bench/kinds.py.

Weights, moments and embeddings come from a language model that this script trains in half a minute, on the words
of Python's own library. Ids, masks and text come from the same words, images from the screenshots in docs/, and
tests/data/digits adds a real training state. Sines, counters and quantised codes follow the formulas that models use.
Names are `<kind>/<tensor>`. It needs numpy alone. The text differs between versions of Python, and so do the trained
tensors; everything else is the same everywhere.
"""

import argparse
import collections
import json
import pathlib
import re
import struct
import sysconfig
import zlib

import numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DIGITS = ROOT / "tests/data/digits/digits.safetensors"
SCREENSHOTS = ROOT / "docs/screenshots"
SEED = 20_260
TEXT_BYTES, VOCABULARY, ROWS = 8 << 20, 1_536, 2_048  # rows above the vocabulary are padding, as in real models
CONTEXT, WIDTH, HIDDEN, BATCH, STEPS = 4, 96, 768, 64, 60

NAMES = {"float32": "F32", "float16": "F16", "float64": "F64", "complex64": "C64", "bool": "BOOL", "int8": "I8",
         "uint8": "U8", "int16": "I16", "int32": "I32", "uint32": "U32", "int64": "I64"}


class Typed:
    """An array whose elements are of a type that NumPy lacks."""
    def __init__(self, name, array):
        self.name, self.array = name, array


def bf16(values):
    """The upper halves of f32 values, rounded to the nearest, ties to even."""
    bits = numpy.ascontiguousarray(values, numpy.float32).view(numpy.uint32)
    return Typed("BF16", ((bits + (0x7FFF + ((bits >> 16) & 1)).astype(numpy.uint32)) >> 16).astype(numpy.uint16))


def f8_e4m3(values):
    """Scaled to the type's range, as trainers do, and rounded to the nearest."""
    codes = numpy.arange(127, dtype=numpy.uint8)
    exponent, mantissa = codes >> 3, codes & 7
    table = numpy.where(exponent == 0, mantissa / 512.0, (8 + mantissa) * 2.0 ** (exponent - 10.0))
    scaled = numpy.abs(values) * 2.0 ** numpy.floor(numpy.log2(448 / numpy.abs(values).max()))
    nearest = numpy.searchsorted((table[1:] + table[:-1]) / 2, scaled).astype(numpy.uint8)
    return Typed("F8_E4M3", nearest | (numpy.signbit(values).astype(numpy.uint8) << 7))


def write(file, tensors):
    header, at, buffers = {}, 0, []
    for name, tensor in tensors.items():
        array = tensor.array if isinstance(tensor, Typed) else numpy.asarray(tensor)
        dtype = tensor.name if isinstance(tensor, Typed) else NAMES[array.dtype.name]
        data = numpy.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
        buffers.append(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(file, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        out.writelines(buffers)


def read_floats(file):
    """The F32 tensors of a safetensors file, by name."""
    data = file.read_bytes()
    size, = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + size])
    return {name: numpy.frombuffer(data, numpy.float32, (entry["data_offsets"][1] - entry["data_offsets"][0]) // 4,
                                   8 + size + entry["data_offsets"][0]).reshape(entry["shape"])
            for name, entry in header.items() if name != "__metadata__" and entry["dtype"] == "F32"}


def read_png(file):
    """The pixels of a PNG with 8 bits per channel, not interlaced."""
    data, at, packed = file.read_bytes(), 8, b""
    while at < len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlaced = struct.unpack_from(">IIBBBBB", data, at + 8)
        elif kind == b"IDAT":
            packed += data[at + 8:at + 8 + length]
        at += 12 + length
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    assert depth == 8 and not interlaced, file
    lines = numpy.frombuffer(zlib.decompress(packed), numpy.uint8).reshape(height, 1 + width * channels)
    pixels = numpy.zeros((height + 1, width + 1, channels), numpy.int32)  # a border of zeros above and to the left
    for y in range(height):
        line = lines[y, 1:].reshape(width, channels).astype(numpy.int32)
        above, how = pixels[y], lines[y, 0]
        if how == 0:
            pixels[y + 1, 1:] = line
        elif how == 1:
            pixels[y + 1, 1:] = numpy.cumsum(line, axis=0) & 255
        elif how == 2:
            pixels[y + 1, 1:] = (line + above[1:]) & 255
        else:
            for x in range(width):
                a, b, c = pixels[y + 1, x], above[x + 1], above[x]
                if how == 3:
                    guess = (a + b) >> 1
                else:
                    to_a, to_b, to_c = abs(b - c), abs(a - c), abs(a + b - 2 * c)
                    guess = numpy.where((to_a <= to_b) & (to_a <= to_c), a, numpy.where(to_b <= to_c, b, c))
                pixels[y + 1, x + 1] = (line[x] + guess) & 255
    return pixels[1:, 1:].astype(numpy.uint8)


def read_text():
    """The text of Python's own library; its words as numbers, the most frequent first; and lengths of its lines."""
    files = sorted(pathlib.Path(sysconfig.get_path("stdlib")).glob("*.py"))
    text = b"".join(file.read_bytes() for file in files)[:TEXT_BYTES]
    lines = [re.findall(rb"\w+|[^\w\s]", line) for line in text.splitlines()]
    counts = collections.Counter(word for line in lines for word in line)
    number = {word: min(i + 1, VOCABULARY - 1) for i, (word, _) in enumerate(counts.most_common())}
    ids = numpy.array([number[word] for line in lines for word in line], numpy.int64)
    return text, ids, numpy.array([len(line) for line in lines if line], numpy.int64)


def train(ids):
    """Trains an n-gram model with a hidden layer and Adam. Returns parameters, first and second moments by name."""
    random = numpy.random.default_rng(SEED)

    def normal(*shape, scale=0.02):
        return (random.standard_normal(shape, dtype=numpy.float32) * numpy.float32(scale))
    parameters = {"embed": normal(ROWS, WIDTH), "hidden": normal(CONTEXT * WIDTH, HIDDEN, scale=0.05),
                  "bias": numpy.zeros(HIDDEN, numpy.float32), "head": normal(HIDDEN, ROWS)}
    parameters["embed"][VOCABULARY:] = 0
    first = {name: numpy.zeros_like(value) for name, value in parameters.items()}
    second = {name: numpy.zeros_like(value) for name, value in parameters.items()}
    for step in range(1, STEPS + 1):
        starts = random.integers(0, len(ids) - CONTEXT - 1, BATCH)
        words, wanted = ids[starts[:, None] + numpy.arange(CONTEXT)], ids[starts + CONTEXT]
        inputs = parameters["embed"][words].reshape(BATCH, -1)
        hidden = numpy.tanh(inputs @ parameters["hidden"] + parameters["bias"])
        scores = hidden @ parameters["head"]
        scores = numpy.exp(scores - scores.max(axis=1, keepdims=True))
        error = scores / scores.sum(axis=1, keepdims=True)
        error[numpy.arange(BATCH), wanted] -= 1
        error /= BATCH
        inner = (error @ parameters["head"].T) * (1 - hidden * hidden)
        embed = numpy.zeros_like(parameters["embed"])
        numpy.add.at(embed, words.reshape(-1), (inner @ parameters["hidden"].T).reshape(-1, WIDTH))
        gradients = {"embed": embed, "hidden": inputs.T @ inner, "bias": inner.sum(axis=0), "head": hidden.T @ error}
        for name, gradient in gradients.items():
            first[name] += numpy.float32(0.1) * (gradient - first[name])
            second[name] += numpy.float32(0.001) * (gradient * gradient - second[name])
            rate = 2e-3 * (1 - 0.999 ** step) ** 0.5 / (1 - 0.9 ** step)
            parameters[name] -= numpy.float32(rate) * first[name] / (numpy.sqrt(second[name]) + numpy.float32(1e-8))
    return parameters, first, second


def weights(parameters, digits):
    for name in ("hidden", "head"):
        yield f"{name} f32", parameters[name]
        yield f"{name} bf16", bf16(parameters[name])
        yield f"{name} f16", parameters[name].astype(numpy.float16)
    yield "hidden f64", parameters["hidden"].astype(numpy.float64)
    yield "hidden f32 of bf16", (bf16(parameters["hidden"]).array.astype(numpy.uint32) << 16).view(numpy.float32)
    for name, tensor in digits.items():
        if name.startswith("model."):
            yield name, tensor


def moments(first, second, digits):
    for name in ("hidden", "head"):
        for moment, values in (("m", first[name]), ("v", second[name])):
            yield f"{name} {moment} f32", values
            yield f"{name} {moment} bf16", bf16(values)
    for name, tensor in digits.items():
        if name.startswith("optimizer."):
            yield name, tensor


def sines():
    def table(rows, columns, base=10_000.0):
        return numpy.arange(rows)[:, None] * base ** (-numpy.arange(columns) / columns)
    n = numpy.arange(256)
    window = 0.5 - 0.5 * numpy.cos(2 * numpy.pi * n / 256)
    angles = 2 * numpy.pi * numpy.arange(129)[:, None] * n / 256
    yield "spectrogram basis", numpy.concatenate([numpy.cos(angles) * window, -numpy.sin(angles) * window]).astype("f4")
    angles = 2 * numpy.pi * ((numpy.arange(512)[:, None] * numpy.arange(512)) % 512) / 512
    yield "fourier matrix", (numpy.cos(angles) - 1j * numpy.sin(angles)).astype(numpy.complex64)
    angles = table(2048, 128)
    yield "positions", numpy.stack([numpy.sin(angles), numpy.cos(angles)], axis=2).reshape(2048, 256).astype("f4")
    angles = table(4096, 32)
    for name, turn in (("cos", numpy.cos(angles)), ("sin", numpy.sin(angles))):
        yield f"rotary {name}", numpy.concatenate([turn, turn], axis=1).astype("f4")
        yield f"rotary {name} bf16", bf16(numpy.concatenate([turn, turn], axis=1))
    mel = numpy.linspace(0, 40, 130)
    hertz = 700 * (10 ** (mel / 17) - 1)
    bins = numpy.linspace(0, hertz[-1], 201)
    rise, fall = (bins - hertz[:-2, None]) / numpy.diff(hertz)[:-1, None], (hertz[2:, None] - bins) / numpy.diff(hertz)[1:, None]
    yield "mel filters", numpy.maximum(0, numpy.minimum(rise, fall)).astype("f4")
    yield "window f64", 0.54 - 0.46 * numpy.cos(2 * numpy.pi * numpy.arange(16_384) / 16_384)


def masks(lengths, ids):
    random = numpy.random.default_rng(SEED + 1)
    yield "causal", numpy.tri(1024, dtype=bool)
    yield "causal f32", numpy.where(numpy.tri(768, dtype=bool), 0, -numpy.inf).astype("f4")
    yield "causal bf16", bf16(numpy.where(numpy.tri(768, dtype=bool), 0, -3.3895314e38))
    padding = numpy.arange(64) < lengths[:16_384, None]
    yield "padding", padding
    yield "padding i64", padding[:4096].astype(numpy.int64)
    yield "dropout", random.random((1024, 1024)) < 0.9
    yield "dropout f32", ((random.random((512, 512)) < 0.9) / 0.9).astype("f4")
    yield "pruned", (random.random((1024, 1024)) < 0.1).astype(numpy.uint8)
    yield "pruned blocks f32", numpy.kron(random.random((64, 64)) < 0.2, numpy.ones((8, 8))).astype("f4")
    yield "documents", (numpy.cumsum(ids[:1024] == 7)[:, None] == numpy.cumsum(ids[:1024] == 7))


def identifiers(ids, lengths):
    random = numpy.random.default_rng(SEED + 2)
    yield "tokens i64", ids[:262_144]
    yield "tokens i32", ids[:262_144].astype(numpy.int32)
    yield "tokens i16", ids[:262_144].astype(numpy.int16)
    yield "order", random.permutation(131_072)
    yield "sorted", numpy.sort(random.choice(50_000_000, 131_072, replace=False))
    yield "row numbers", numpy.repeat(numpy.arange(len(lengths)), lengths)[:131_072]
    yield "row offsets", numpy.cumsum(lengths)[:131_072]
    yield "hashed", random.integers(0, 1 << 62, 65_536)
    yield "one-hot f32", (ids[:1024, None] == numpy.arange(512)).astype("f4")
    yield "one-hot u8", (ids[:1024, None] == numpy.arange(1024)).astype(numpy.uint8)
    yield "labels f32", (ids[:65_536] % 10).astype("f4")


def embeddings(parameters, first, second):
    random = numpy.random.default_rng(SEED + 3)
    yield "padded f32", parameters["embed"]
    yield "padded bf16", bf16(parameters["embed"])
    yield "m f32", first["embed"]
    yield "v f32", second["embed"]
    yield "v bf16", bf16(second["embed"])
    trained = parameters["embed"][:VOCABULARY]
    for percent in (1, 2, 4, 10, 50):
        rows = trained.copy()
        rows[random.random(len(rows)) < percent / 100] = 0
        yield f"{percent}% unused f32", rows
        yield f"{percent}% unused bf16", bf16(rows)
    resized = trained.copy()  # new tokens begin with the mean of the old ones
    resized[-200:] = trained.mean(axis=0)
    yield "resized f32", resized
    yield "resized bf16", bf16(resized)
    yield "shared rows f32", trained[random.integers(0, VOCABULARY // 2, VOCABULARY)]  # as tables of hashed words have them
    yield "shared rows bf16", bf16(trained[random.integers(0, VOCABULARY // 2, VOCABULARY)])
    yield "few shared rows bf16", bf16(numpy.concatenate([trained[:-36], trained[:36]]))


def codes(parameters):
    values = parameters["head"][:, :VOCABULARY]
    scale = numpy.abs(values).max(axis=1, keepdims=True)
    yield "int8", numpy.round(values / scale * 127).astype(numpy.int8)
    yield "int8 scales", scale / 127
    yield "f8", f8_e4m3(values)
    blocks = values.reshape(-1, 32)
    scales = numpy.abs(blocks).max(axis=1, keepdims=True) / 7
    four = (numpy.round(blocks / numpy.maximum(scales, 1e-9)) + 8).astype(numpy.uint8)
    packed = four[:, :16] | four[:, 16:] << 4
    yield "blocks of 4 bits", numpy.concatenate([scales.astype(numpy.float16).view(numpy.uint8), packed], axis=1)
    yield "4 bits in bytes", four
    yield "4 bits in i32", numpy.ascontiguousarray(packed).view(numpy.int32)
    yield "zero points", numpy.full((64, 256), 0x77777777, numpy.int32)
    yield "4 bits as f32", ((four.astype("f4") - 8) * scales)
    yield "4 bits as bf16", bf16((four.astype("f4") - 8) * scales)
    yield "ternary", (numpy.sign(values) * (numpy.abs(values) > scale / 4)).astype(numpy.int8)
    yield "levels of a codebook", numpy.searchsorted(numpy.quantile(values, numpy.linspace(0, 1, 257)[1:-1]),
                                                     values.reshape(-1)).astype(numpy.uint8)


def images():
    random = numpy.random.default_rng(SEED + 4)
    for name in ("map", "statistics"):
        pixels = read_png(SCREENSHOTS / f"{name}.png")[:768, :, :3]
        yield f"{name} u8", pixels
        small = pixels[::2, ::2]
        yield f"{name} f32", ((small.transpose(2, 0, 1) / 255.0 - 0.45) / 0.225).astype("f4")
        yield f"{name} bf16", bf16((small.transpose(2, 0, 1) / 255.0 - 0.45) / 0.225)
    # As in photographs, the amplitude falls with the frequency.
    frequency = numpy.hypot(numpy.fft.fftfreq(512)[:, None], numpy.fft.fftfreq(512))
    frequency[0, 0] = 1
    planes = numpy.fft.ifft2(numpy.fft.fft2(random.standard_normal((3, 512, 512))) / frequency).real
    planes = numpy.clip(128 + 40 * planes / planes.std(), 0, 255).astype(numpy.uint8)
    yield "landscape u8", planes
    yield "landscape f32", (planes / 255.0).astype("f4")
    yield "landscape f16", (planes / 255.0).astype(numpy.float16)


def counters(lengths):
    random = numpy.random.default_rng(SEED + 5)
    yield "positions i64", numpy.arange(131_072)
    yield "positions i32", numpy.arange(131_072, dtype=numpy.int32)
    yield "positions in rows", numpy.tile(numpy.arange(2048), (48, 1))
    yield "positions f32", numpy.arange(131_072, dtype="f4")
    yield "steps f32", numpy.full(65_536, 12_000, "f4")
    yield "times", 1_750_000_000_000_000_000 + numpy.cumsum(random.integers(90_000_000, 110_000_000, 65_536))
    yield "seen", numpy.cumsum(lengths)[:65_536] * 64
    yield "usage", numpy.bincount(random.zipf(1.3, 400_000) % 16_384, minlength=16_384)
    yield "learning rates f64", 1e-3 * 0.5 * (1 + numpy.cos(numpy.pi * numpy.arange(65_536) / 65_536))
    yield "loss f32", (2 + 8 * numpy.exp(-numpy.arange(65_536) / 9000) + 0.1 * random.standard_normal(65_536)).astype("f4")


def texts(text, ids):
    yield "sources", numpy.frombuffer(text[:2 << 20], numpy.uint8)
    words = sorted(set(re.findall(rb"\w+", text)))
    yield "vocabulary", numpy.frombuffer(json.dumps({word.decode(errors="replace"): i for i, word in enumerate(words)}).encode(),
                                         numpy.uint8)
    yield "code points", numpy.frombuffer(text[1 << 20:(1 << 20) + 200_000].decode("latin-1").encode("utf-32-le"), numpy.uint32)
    yield "names of fixed width", numpy.array(words[:20_000], "S32").view(numpy.uint8)
    yield "log", numpy.frombuffer("".join(f'{{"step": {i}, "loss": {2 + i % 997 / 1000:.4f}, "token": {t}}}\n'
                                          for i, t in enumerate(ids[:20_000])).encode(), numpy.uint8)


def make(only):
    text, ids, lengths = read_text()
    parameters, first, second = train(ids)
    digits = {name: tensor for name, tensor in read_floats(DIGITS).items() if tensor.size >= 1024}
    kinds = {"weights": weights(parameters, digits), "moments": moments(first, second, digits), "sines": sines(),
             "masks": masks(lengths, ids), "ids": identifiers(ids, lengths),
             "embeddings": embeddings(parameters, first, second), "codes": codes(parameters), "images": images(),
             "counters": counters(lengths), "text": texts(text, ids)}
    return {f"{kind}/{name}": tensor for kind in only or kinds for name, tensor in kinds[kind]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--only", type=lambda kinds: kinds.split(","), help="kinds, separated by commas (default: all)")
    options = parser.parse_args()
    write(options.file, make(options.only))


if __name__ == "__main__":
    main()
