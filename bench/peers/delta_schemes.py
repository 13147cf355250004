"""How other programs encode the difference between two states of weights: re-stated from their descriptions, no code of theirs.

A state is a dict of names and arrays of unsigned integers, whose width is that of the elements. Each scheme has
`encode(base, new)`, which gives the bytes for one tensor, and `apply(stored, live)`, which patches `live` in place. SIZES are
the schemes of the table of sizes. PROTOCOLS add what a scheme checks, and when, for the table of outcomes.

- slime, xor and overwrite: docs/en/advanced/delta-weight-sync.md in THUDM/slime at 624b824a8, and the receiver that it patches into
  sglang. miles, SkyRL (weight_sync/delta_checkpoint.py in NovaSky-AI/SkyRL at a9564572e) and modelexpress store the same exclusive or.
- TRL: pull requests 5417 and 5937, huggingface/blog pull request 3386.
- PULSE: arXiv 2602.03839, and the checkpoints of its program grail, which hash the whole state.
- ZipNN: the package of that name, its delta mode. BitX: ZipLLM, NSDI 2026.
"""

import functools
import hashlib
import json
import struct

import numpy
import xxhash
import zstandard

MANTISSA = {2: 7, 4: 23}  # of bf16 and f32


def zstd(data, level=1):
    return zstandard.ZstdCompressor(level=level).compress(numpy.ascontiguousarray(data).tobytes())


def unzstd(data):
    return zstandard.ZstdDecompressor().decompress(bytes(data))


class Xor:
    """slime, miles, SkyRL, modelexpress: new ^ old, a tensor at a time, zstd's level 1."""
    def encode(self, base, new):
        return zstd(base ^ new)

    def apply(self, stored, live):
        found = numpy.frombuffer(unzstd(stored), live.dtype)
        live ^= found  # numpy refuses another length


class Overwrite:
    """slime: u32 count, u32 positions of changed bytes, and those bytes; zstd's level 1."""
    def encode(self, base, new):
        before, after = base.view(numpy.uint8), new.view(numpy.uint8)
        at = numpy.flatnonzero(before != after).astype("<u4")
        return zstd(numpy.concatenate([numpy.array([at.size], "<u4").view(numpy.uint8), at.view(numpy.uint8), after[at]]))

    def apply(self, stored, live):
        data = unzstd(stored)
        count, = struct.unpack_from("<I", data)
        at = numpy.frombuffer(data, "<u4", count, 4)
        live.view(numpy.uint8)[at] = numpy.frombuffer(data, numpy.uint8, count, 4 + 4 * count)


class Trl:
    """TRL: int32 positions and the new values, not compressed."""
    def encode(self, base, new):
        at = numpy.flatnonzero(base != new)
        return struct.pack("<Q", at.size) + at.astype("<i4").tobytes() + new[at].tobytes()

    def apply(self, stored, live):
        count, = struct.unpack_from("<Q", stored)
        at = numpy.frombuffer(stored, "<i4", count, 8)
        live[at] = numpy.frombuffer(stored, live.dtype, count, 8 + 4 * count)


class Pulse:
    """PULSE: gaps between positions in the narrowest type that holds them, and the new values; zstd's level 1."""
    def encode(self, base, new):
        at = numpy.flatnonzero(base != new)
        gaps = numpy.diff(at, prepend=0)
        width = next(w for w in (1, 2, 4) if at.size == 0 or gaps.max() < 1 << 8 * w)
        return bytes([width]) + zstd(numpy.concatenate([gaps.astype(f"<u{width}").view(numpy.uint8),
                                                        new[at].view(numpy.uint8)]))

    def apply(self, stored, live):
        width, data = stored[0], unzstd(stored[1:])
        count = len(data) // (width + live.itemsize)
        at = numpy.cumsum(numpy.frombuffer(data, f"<u{width}", count), dtype=numpy.int64)
        live[at] = numpy.frombuffer(data, live.dtype, count, count * width)


class BitX:
    """ZipLLM: exclusive or, exponents apart from signs and mantissas, each stream by zstd at its default level."""
    def split(self, words):
        bits = 8 * words.itemsize
        mantissa = MANTISSA[words.itemsize]
        exponents = (words >> mantissa & 0xFF).astype(numpy.uint8)
        rest = (words >> (bits - 1) << mantissa) | (words & ((1 << mantissa) - 1))
        return exponents, rest.astype(words.dtype).view(numpy.uint8).reshape(-1, words.itemsize)[:, :words.itemsize - 1]

    def encode(self, base, new):
        exponents, rest = (zstd(part, 3) for part in self.split(base ^ new))
        return struct.pack("<Q", len(exponents)) + exponents + rest

    def apply(self, stored, live):
        length, = struct.unpack_from("<Q", stored)
        exponents = numpy.frombuffer(unzstd(stored[8:8 + length]), numpy.uint8).astype(live.dtype)
        rest = numpy.zeros((live.size, live.itemsize), numpy.uint8)
        rest[:, :-1] = numpy.frombuffer(unzstd(stored[8 + length:]), numpy.uint8).reshape(live.size, -1)
        rest = rest.reshape(-1).view(live.dtype)
        mantissa, one = MANTISSA[live.itemsize], live.dtype.type(1)
        live ^= rest >> mantissa << (8 * live.itemsize - 1) | exponents << mantissa | rest & ((one << mantissa) - one)


class Zipnn:
    """The delta mode of the package zipnn: exclusive or of two states of equal length, then its planes."""
    TYPES = {2: "bfloat16", 4: "float32"}

    def coder(self, width):
        import zipnn
        return zipnn.ZipNN(input_format="byte", bytearray_dtype=self.TYPES[width], threads=1, delta_compressed_type="byte")

    def encode(self, base, new):  # the package works in its caller's memory, so it gets copies
        return bytes(self.coder(base.itemsize).compress(bytearray(new.tobytes()), delta_second_data=bytearray(base.tobytes())))

    def apply(self, stored, live):
        found = self.coder(live.itemsize).decompress(bytes(stored), delta_second_data=bytearray(live.tobytes()))
        live[:] = numpy.frombuffer(bytes(found), live.dtype)


SIZES = {"XOR+zstd-1": Xor, "overwrite+zstd-1": Overwrite, "TRL": Trl, "PULSE": Pulse, "ZipNN delta": Zipnn, "BitX": BitX}


def limit_bits(base, new):
    """First-order entropies of one tensor: counts of each difference, where 0 stands for an unchanged element."""
    return numpy.unique(new - base, return_counts=True)


def entropy_limit(base, new):
    """Bytes that a code for single elements of the state needs: whether it has changed, and its difference if so."""
    counts = {}
    for name in base:
        for value, count in zip(*limit_bits(base[name], new[name])):
            counts[int(value)] = counts.get(int(value), 0) + int(count)
    found = numpy.array(list(counts.values()), float)
    return float(-(found * numpy.log2(found / found.sum())).sum() / 8)


# ---- outcomes ----

class Refused(Exception):
    """The program notices that something is wrong."""


def pack(header, payload):
    """A file as safetensors are: the length of the header, the header, all bytes. slime, SkyRL and TRL store deltas so."""
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(payload)


def unpack(file):
    """Returns the header and the offset of the bytes. Refuses invalid headers, as every reader of JSON does."""
    try:
        length, = struct.unpack_from("<Q", file)
        if length > len(file) - 8:
            raise Refused("header")
        header = json.loads(file[8:8 + length])
        if not isinstance(header["meta"], dict) or not isinstance(header["tensors"], dict):
            raise Refused("header")
        return header, 8 + length
    except (ValueError, KeyError, TypeError, struct.error) as error:
        raise Refused(str(error)) from error


def state_hash(state):
    found = hashlib.sha256()
    for name in sorted(state):
        found.update(name.encode() + str(state[name].dtype).encode() + str(state[name].shape).encode() + state[name].tobytes())
    return found.hexdigest()


class Protocol:
    """Publishes a state's difference to its base as a file, and applies it to a live state that it may change in place."""
    orders_versions = False  # version n is applied to n - 1 alone
    checks_tensors = False   # XXH3-128 of each tensor that changed, after it was patched
    checks_state = False     # SHA-256 of all tensors, before the result is used
    resets_after_crash = False  # a flag says that an apply was under way: start again from a full copy of the base
    ignores_unknown = False  # a tensor that the state does not have is left out, with a warning
    in_place = True
    may_crash = False  # its decoder is native code, which damaged bytes have brought down

    def __init__(self, scheme):
        self.scheme = scheme()

    def publish(self, base, new, version):
        tensors, payload, at = {}, [], 0
        for name in new:
            if numpy.array_equal(base[name], new[name]):
                continue
            stored = self.scheme.encode(base[name], new[name])
            tensors[name] = {"offsets": [at, at + len(stored)]}
            if self.checks_tensors:
                tensors[name]["checksum"] = xxhash.xxh3_128_hexdigest(new[name])
            payload.append(stored)
            at += len(stored)
        meta = {"version": version, "base_version": version - 1}
        if self.checks_state:
            meta["sha256"] = state_hash(new)
        return pack({"meta": meta, "tensors": tensors}, payload)

    def apply(self, file, live, killed_after=None):
        """Patches `live`, a dict with the state and its version. Stops after some tensors if it is `killed_after` them."""
        header, begin = unpack(file)
        meta = header["meta"]
        if self.resets_after_crash and live["in_progress"]:
            live["state"] = {name: array.copy() for name, array in live["full_copy"].items()}
        if self.orders_versions:
            if live["version"] == meta.get("version"):
                return  # already done
            if live["version"] != meta.get("base_version"):
                raise Refused("out of order")
        live["in_progress"] = True
        target = live["state"] if self.in_place else {name: array.copy() for name, array in live["state"].items()}
        try:
            known = [(name, *entry["offsets"], entry.get("checksum")) for name, entry in header["tensors"].items()
                     if name in target or not self.ignores_unknown]
            unknown = [name for name, *_ in known if name not in target]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise Refused(str(error)) from error
        if unknown:
            raise Refused(f"no tensor {unknown[0]}")
        mismatches = 0
        for i, (name, first, last, checksum) in enumerate(known):
            if i == killed_after:
                return
            try:
                self.scheme.apply(file[begin + first:begin + last], target[name])
            except Exception as error:  # whatever the decoder notices
                raise Refused(str(error)) from error
            if self.checks_tensors and xxhash.xxh3_128_hexdigest(target[name]) != checksum:
                mismatches += 1
        if mismatches:
            raise Refused("checksums")
        if self.checks_state and state_hash(target) != meta.get("sha256"):
            raise Refused("hash of the state")
        live["state"], live["in_progress"], live["version"] = target, False, meta.get("version")


class Slime(Protocol):
    orders_versions = checks_tensors = True


class SkyRl(Protocol):
    orders_versions = checks_tensors = resets_after_crash = ignores_unknown = True


class Grail(Protocol):
    checks_state, in_place = True, False


class Unchecked(Protocol):
    pass


class Copied(Protocol):
    in_place = False


class Native(Copied):
    may_crash = True


PROTOCOLS = {"slime, xor": functools.partial(Slime, Xor), "slime, overwrite": functools.partial(Slime, Overwrite),
             "SkyRL": functools.partial(SkyRl, Xor), "TRL": functools.partial(Unchecked, Trl),
             "PULSE (grail)": functools.partial(Grail, Pulse), "ZipNN delta": functools.partial(Native, Zipnn),
             "BitX": functools.partial(Copied, BitX)}
