#!/usr/bin/env python3
"""Measures incremental checkpoints, of reinforcement learning above all, beside other encodings. bench/README.md explains it."""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from harness import (BUILD_OURS, GIB, MIB, OURS, ROOT, Row, as_list, build, first_line, find, machine_facts, one_of,
                     put_between_markers, working_folder)

GROUPS = ("size", "speed", "lora", "outcomes")
BEGIN, END = "<!-- figures begin: bench/delta.py writes the lines below -->", "<!-- figures end -->"
CLI = ROOT / "build/release/espalier"
HOME = ROOT / "build/bench-delta"
PYTHON = HOME / "venv/bin/python"
REQUIREMENTS = ROOT / "bench/requirements.txt"
PACKAGES = ("numpy", "zstandard", "xxhash", "safetensors", "torch", "zipnn")
DENSITIES = (0.001, 0.006, 0.015, 0.04, 0.2, 0.6)
SHARES_OF_RL = (0.5, 2)  # percent of changed elements between which the bars of RL hold
INTEGERS = {"BF16": "<u2", "F32": "<u4"}


def set_up():
    """Starts again in an environment that has the peers' packages, which it makes the first time."""
    if pathlib.Path(sys.prefix) == HOME / "venv":
        return
    pins = [line for line in REQUIREMENTS.read_text().splitlines() if line.split("==")[0] in PACKAGES]
    done = HOME / "requirements.txt"
    if not done.exists() or done.read_text() != "\n".join(pins):
        HOME.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "venv", HOME / "venv"], check=True)
        subprocess.run([PYTHON, "-m", "pip", "install", "--quiet", *pins], check=True)
        done.write_text("\n".join(pins))
    os.execv(PYTHON, [PYTHON, *sys.argv])


def read(file):
    """The tensors of a safetensors file by name, as integers."""
    data = file.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    return {name: numpy.frombuffer(data, INTEGERS[entry["dtype"]],
                                   (entry["data_offsets"][1] - entry["data_offsets"][0]) // int(INTEGERS[entry["dtype"]][-1]),
                                   8 + length + entry["data_offsets"][0])
            for name, entry in header.items() if name != "__metadata__"}


def run(*words, check=True):
    """Runs our program. Returns its exit status and the lines of its standard error."""
    done = subprocess.run([CLI, *map(str, words)], capture_output=True, text=True)
    if check and done.returncode:
        sys.exit(f"espalier {' '.join(map(str, words))}: {done.stderr.strip()}")
    return done.returncode, done.stderr.strip()


def own_chunks(file):
    """The stored lengths of the chunks that lie in this file: docs/format.md, section 2."""
    data = file.read_bytes()
    index = data[128:128 + int.from_bytes(data[40:48], "little")]

    def number(at, size=4):
        return int.from_bytes(index[at:at + size], "little")
    table = number(0)
    fields = table - number(table)  # the vtable; field 2 has the chunks
    chunks = table + number(fields + 4 + 2 * 2, 2)
    chunks += number(chunks)
    records = (index[chunks + 4 + 32 * i:][:32] for i in range(number(chunks)))
    return [int.from_bytes(record[24:28], "little") for record in records if record[28:30] == bytes(2)]


class Page:
    def __init__(self):
        self.rows, self.sections = [], []

    def add(self, figure, value, shown, bar=None):
        row = Row(figure, "", "", value, shown, bar)
        self.rows.append(row)
        print(": ".join(filter(None, (figure, shown, " ".join(row.verdict())))), file=sys.stderr, flush=True)

    def table(self, title, text, head, lines):
        cells = [head, ["---"] * len(head), *lines]
        self.sections.append(f"### {title}\n\n{text + chr(10) * 2 if text else ''}" + "\n".join("| " + " | ".join(line) + " |" for line in cells))

    def text(self):
        lines = ["| Figure | value | target | |", "|---|---|---|---|"]
        lines += ["| " + " | ".join((row.figure, row.shown, *row.verdict())) + " |" for row in self.rows]
        return "\n\n".join(["\n".join(lines), *self.sections])


# ---- pairs ----

def trained(cache, words):
    folder = cache / ("trained" + "".join(str(word).strip("-") for word in words))
    if not (folder / "steps.txt").exists():
        folder.mkdir(parents=True, exist_ok=True)
        print("training a small model", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, ROOT / "bench/data/steps.py", folder, *map(str, words)], check=True)
    return folder


def simulated(cache, elements):
    """A base, and for each density a state after one step: as espalier_bench patch makes them, in four tensors of bf16."""
    folder = cache / f"simulated{elements}"
    if (folder / "done").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    generator = numpy.random.default_rng(7)
    scales = 0.02 * numpy.exp(0.3 * generator.standard_normal((elements // 4096, 1), dtype=numpy.float32))
    weights = (generator.standard_normal((elements // 4096, 4096), dtype=numpy.float32) * scales).reshape(-1)
    steps = numpy.clip(generator.standard_normal(elements, dtype=numpy.float32), -1, 1)
    base = bf16(weights).array

    def save(name, array):
        write(folder / f"{name}.safetensors", {f"w{i}": Typed("BF16", part) for i, part in enumerate(numpy.split(array, 4))})
    save("base", base)
    some = slice(None, None, 61)
    for density in DENSITIES:
        low, high = 1e-9, 1.0
        for _ in range(40):
            rate = numpy.float32((low * high) ** 0.5)
            share = numpy.mean(bf16(weights[some] - rate * steps[some]).array != base[some])
            low, high = (rate, high) if share < density else (low, rate)
        save(f"{density}", bf16(weights - rate * steps).array)
    (folder / "done").write_text("")
    return folder


def pairs(cache, scale):
    model = trained(cache, scale["training"])
    for dtype in ("bf16", "f32"):
        for way in ("rl", "tune", "train"):
            for k in (1, 10, 100):
                yield (f"{way}, {k} step{'s' * (k > 1)}", dtype, model / f"{way}-base-{dtype}.safetensors",
                       model / f"{way}-{k}-{dtype}.safetensors")
    made = simulated(cache, scale["simulated"])
    for density in DENSITIES:
        yield f"simulated, {100 * density:g}%", "bf16", made / "base.safetensors", made / f"{density}.safetensors"


# ---- sizes ----

def measure_sizes(work, base_file, new_file, keep):
    """Bytes by encoding. Each is decoded, and must give the new state."""
    base, new = read(base_file), read(new_file)
    raw = sum(array.nbytes for array in new.values())
    changed = sum(int(numpy.count_nonzero(base[name] != new[name])) for name in new)
    sizes = {"raw": raw, "changed": changed / sum(array.size for array in new.values())}
    for name in ("base", "new"):
        run("convert", "-q", "--no-sync", "--no-metadata", "--force", {"base": base_file, "new": new_file}[name], work / f"{name}.espalier")
    for column, words in (("espalier", ()), ("espalier -m", ("--most", "100")), ("espalier -c", ("--compress", "--most", "100"))):
        out = work / "out.espalier"
        run("delta", "-q", "--no-sync", "--force", work / "base.espalier", work / "new.espalier", "-o", out, *words)
        sizes[column], sizes[f"{column}, chunks"] = out.stat().st_size, sum(own_chunks(out))
        sizes[f"{column}, whole"] = not json.loads(subprocess.run([CLI, "needs", "--json", out], check=True, capture_output=True,
                                                                  text=True).stdout)["files"][0]["needs"]
        run("flatten", "-q", "--no-sync", "--force", out, work / "again.espalier")
        same = (work / "again.espalier").read_bytes() == (work / "new.espalier").read_bytes()
        if not same:
            sys.exit(f"{out} does not give {new_file} back")
    run("convert", "-q", "--no-sync", "--no-metadata", "--force", "--compress", new_file, work / "planes.espalier")
    sizes["planes"] = (work / "planes.espalier").stat().st_size
    for column, kind in SIZES.items():
        scheme, total, entries, checksums = kind(), 0, {}, {}
        for name in new:
            if numpy.array_equal(base[name], new[name]):
                continue
            stored = scheme.encode(base[name], new[name])
            live = base[name].copy()
            scheme.apply(stored, live)
            if not numpy.array_equal(live, new[name]):
                sys.exit(f"{column} does not give {name} back")
            entries[name] = {"dtype": "U8", "shape": [len(stored)], "data_offsets": [total, total + len(stored)]}
            checksums[name] = xxhash.xxh3_128_hexdigest(new[name])
            total += len(stored)
        sizes[column] = total
        # As slime stores them: a safetensors file with a checksum for each tensor. Its index beside it does not count.
        sizes[f"{column}, file"] = 8 + len(json.dumps({"__metadata__": checksums, **entries}, separators=(",", ":"))) + total
    sizes["limit"] = entropy_limit(base, new)
    return sizes


def size_figures(page, work, scale):
    found = []
    for name, dtype, base, new in pairs(scale["cache"], scale):
        sizes = measure_sizes(work, base, new, scale)
        found.append((name, dtype, sizes))
        print(f"{dtype} {name}: {json.dumps(sizes)}", file=sys.stderr, flush=True)
    columns = ("planes", "TRL", "overwrite+zstd-1", "XOR+zstd-1", "ZipNN delta", "BitX", "PULSE", "espalier", "espalier -m", "espalier -c", "limit")
    for dtype in ("bf16", "f32"):
        # Of f32, nearly every difference is another one, so their counts say nothing.
        has_limit = dtype == "bf16"
        shown = columns if has_limit else columns[:-1]
        lines, wire = [], []
        for name, kind, sizes in found:
            if kind != dtype:
                continue
            lines.append([name, f"{100 * sizes['changed']:.3g}%", *(ratio(sizes, column) for column in shown)])
            in_bytes = ["raw", "espalier", "espalier, chunks", "espalier -m", "XOR+zstd-1, file", "XOR+zstd-1", "PULSE", "limit"]
            wire.append([name, *(f"{sizes[column]:,.0f}" for column in in_bytes[:8 if has_limit else 7])])
        page.table(f"{dtype} weights: raw bytes by bytes on the wire",
                   "(whole) marks files that the command wrote without the base, as they would take more than 60% of that."
                   if any("(whole)" in cell for line in lines for cell in line) else "",
                   ["pair", "changed", *(heads(column) for column in shown)], lines)
        head = ["pair", "raw", "`espalier delta`", "its chunks", "`--most 100`", "XOR+zstd-1 in slime's file",
                "its streams", "PULSE", "entropy limit"]
        page.table(f"{dtype} weights: bytes", "", head[:9 if has_limit else 8], wire)
    low, high = SHARES_OF_RL
    for name, dtype, sizes in found:
        if dtype == "bf16" and low <= 100 * sizes["changed"] <= high:
            for what, ours, theirs in (("file by file", "espalier", "XOR+zstd-1, file"),
                                       ("streams by chunks", "espalier, chunks", "XOR+zstd-1")):
                page.add(f"XOR+zstd-1 by ours, {what}: {name}", sizes[theirs] / sizes[ours], f"{sizes[theirs] / sizes[ours]:.2f}x",
                         (">=", 1.7, "1.7x"))
            page.add(f"our chunks by the entropy limit: {name}", sizes["espalier, chunks"] / sizes["limit"],
                     f"{sizes['espalier, chunks'] / sizes['limit']:.2f}x; the whole file {sizes['espalier'] / sizes['limit']:.2f}x",
                     ("<=", 1.2, "1.2x"))
        if dtype == "bf16" and 60 <= 100 * sizes["changed"] <= 95:
            page.add(f"BitX by ours: {name}", sizes["BitX"] / sizes["espalier"], f"{sizes['BitX'] / sizes['espalier']:.2f}x",
                     (">=", 1.15, "1.15x"))


def heads(column):
    return {"espalier": "**`espalier delta`**", "espalier -m": "`--most 100`", "espalier -c": "`--compress --most 100`", "limit": "entropy limit",
            "planes": "no base, planes"}.get(column, column)


def ratio(sizes, column):
    value = sizes["raw"] / sizes[column]
    shown = f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    return shown + (" (whole)" if sizes.get(f"{column}, whole") else "")


# ---- speed ----

def speed_figures(page, work, scale):
    runs = []
    for _ in range(scale["rounds"]):
        done = subprocess.run([OURS, "patch", "--repeat", str(scale["repeat"])], check=True, capture_output=True, text=True)
        runs.append([json.loads(line) for line in done.stdout.splitlines()])
    lines = []
    for reports in zip(*runs):
        def middle(name):
            return statistics.median(report[name] for report in reports)

        def spread(name):
            values = [report[name] for report in reports]
            return f"{statistics.median(values):.2f} ({min(values):.2f} - {max(values):.2f})"
        share = reports[0]["changed_percent"]
        lines.append([f"{share:.3g}%", f"{middle('encode_gb_per_s'):.2f}", spread("encode_by_xor_zstd"),
                      f"{middle('apply_gb_per_s'):.1f}", spread("apply_by_xor_zstd"), spread("apply_by_copy"),
                      spread("checked_apply_by_xor_zstd"), f"{middle('copy_gb_per_s'):.1f}"])
        low, high = SHARES_OF_RL
        if share < 5:
            page.add(f"encode, XOR+zstd-1's time by ours: {share:.3g}%", middle("encode_by_xor_zstd"),
                     spread("encode_by_xor_zstd"), (">=", 1.5, "1.5x"))
        if low <= share <= high:
            page.add(f"apply, XOR+zstd-1's time by ours: {share:.3g}%", middle("apply_by_xor_zstd"), spread("apply_by_xor_zstd"),
                     (">=", 5, "5x"))
            page.add(f"apply, a copy's time by ours: {share:.3g}%", middle("apply_by_copy"), spread("apply_by_copy"),
                     (">=", 0.7, "0.7x"))
    page.table("Speed of one thread, simulated bf16 weights",
               f"GB/s of raw bytes; ratios are the peer's processor time by ours, medians of {scale['rounds']} runs (lowest - highest).",
               ["changed", "encode, GB/s", "XOR+zstd-1 by ours", "apply, GB/s", "XOR+zstd-1 by ours", "memcpy by ours",
                "with XXH3-128 on both sides: XOR+zstd-1 by ours", "memcpy, GB/s"], lines)


# ---- a frozen model with an adapter ----

FIRST_READ = 64 << 10  # opening a file reads at least this much at once, whether the index is as long or not
CALLS = "trace=openat,read,readv,pread64,preadv,preadv2,mmap,io_uring_enter,sendfile,copy_file_range,splice"

def reads_of(log, name, head):
    """How many bytes of a file the calls in strace's log have read, how many of those lie beyond its `head`, and how many
    calls mapped it."""
    total = beyond = maps = 0
    for line in log.read_text(errors="replace").splitlines():
        if f"/{name}>" not in line or "openat(" in line:
            continue
        if "mmap(" in line:
            maps += 1
        elif found := re.search(r"(\w+)\(.*?(\d+)\)\s+= (\d+)$", line):
            size = int(found[3])
            total += size
            # Only pread64() says where it reads.
            beyond += size if found[1] != "pread64" else max(0, min(size, int(found[2]) + size - head))
    return total, beyond, maps


def index_bytes(file):
    with open(file, "rb") as opened:
        return 128 + int.from_bytes(opened.read(128)[40:48], "little")


def lora_figures(page, work, scale):
    size, saves = scale["frozen"], 10
    generator = numpy.random.default_rng(11)
    frozen = {f"model.layers.{i}.weight": Typed("BF16", generator.integers(0, 1 << 16, 8 * MIB, numpy.uint16))
              for i in range(size // (16 * MIB))}
    adapter = {f"zz_adapter.layers.{i}.{side}": (generator.standard_normal(32 * 1024, numpy.float32) * 0.02).astype(numpy.float32)
               for i in range(len(frozen)) for side in ("a", "b")}
    write(work / "frozen.safetensors", frozen)
    run("convert", "-q", "--no-sync", "--no-metadata", work / "frozen.safetensors", work / "frozen.espalier")
    run("delta", "-q", "--no-sync", "--no-metadata", work / "frozen.espalier", work / "frozen.safetensors", "-o", work / "none.espalier")
    per_mebibyte = (work / "none.espalier").stat().st_size / (size / MIB)
    page.add(f"a model of {size / MIB:,.0f} MiB that equals its base: bytes of the file by MiB", per_mebibyte, f"{per_mebibyte:.1f} B",
             ("<=", 40, "40 B"))
    for file in work.iterdir():
        file.unlink()
    source = work / "state.safetensors"
    write(source, {**frozen, **adapter})
    frozen.clear()
    names, own = list(adapter), []
    for i in range(saves):
        if i > 0:  # a step; the adapter's bytes are the last ones of the file
            for name in names:
                adapter[name] = adapter[name] - numpy.float32(1e-4) * generator.standard_normal(32 * 1024, numpy.float32)
            with open(source, "r+b") as file:
                file.seek(-sum(array.nbytes for array in adapter.values()), os.SEEK_END)
                file.writelines(adapter[name].tobytes() for name in names)
        out = work / f"save-{i}.espalier"
        base = ("--base", work / f"save-{i - 1}.espalier") if i else ()
        run("convert", "-q", "--no-sync", "--no-metadata", source, out, *base)
        own.append(out.stat().st_size)
    whole, incremental = saves * own[0], sum(own)
    last = work / f"save-{saves - 1}.espalier"
    run("verify", "-q", last)
    run("flatten", "-q", "--no-sync", last, work / "flat.espalier")
    run("convert", "-q", "--no-sync", "--no-metadata", source, work / "direct.espalier")
    same = subprocess.run(["cmp", work / "flat.espalier", work / "direct.espalier"]).returncode == 0
    (work / "flat.espalier").unlink()
    adapter_bytes = sum(array.nbytes for array in adapter.values())
    lines = [["ten whole saves", f"{whole:,}", "1.00"], ["one whole save and nine against it", f"{incremental:,}", f"{whole / incremental:.1f}"],
             ["one of the nine (median)", f"{statistics.median(own[1:]):,.0f}", f"{own[0] / statistics.median(own[1:]):.0f}"],
             ["the adapter alone, raw", f"{adapter_bytes:,}", ""]]
    page.table("A frozen model with an adapter that changes",
               f"Each save by `espalier convert --base` against the one before it; the last one flattened is "
               f"{'byte for byte the whole save' if same else 'NOT EQUAL to the whole save'}.",
               ["files", "bytes", "smaller"], lines)
    if not shutil.which("strace"):
        return
    base, lines = work / "direct.espalier", []
    for title, words in (("`--only-references`", ("--only-references",)), ("with patches of the adapter", ())):
        log, target = work / "log", work / "traced.espalier"
        target.unlink(missing_ok=True)
        with open(source, "r+b") as file:  # another step
            file.seek(-adapter_bytes, os.SEEK_END)
            file.writelines((adapter[key] + numpy.float32(1e-4)).tobytes() for key in names)
        subprocess.run(["strace", "-f", "-y", "-e", CALLS, "-o", log, CLI, "convert", "-q", "--no-sync", "--no-metadata", "--no-mmap", source, target,
                        "--base", base, *words], check=True)
        total, beyond, maps = reads_of(log, base.name, max(index_bytes(base), FIRST_READ))
        lines.append([title, f"{total:,}", f"{beyond:,}", f"{maps}", f"{base.stat().st_size:,}"])
        if words:
            page.add("bytes of tensors read of the base, if no patches are wanted (strace)", beyond, f"{beyond:,}", ("<=", 0, "0"))
        else:
            page.add("bytes of tensors read of the base beyond those of the adapter (strace)", max(0, beyond - adapter_bytes),
                     f"{max(0, beyond - adapter_bytes):,}", ("<=", 0, "0"))
    page.table("What is read of the base", "Bytes that the calls of one save with `--no-mmap` return, by strace.",
               ["save", "bytes read of the base", "beyond its first 64 KiB and its index", "mappings", "its size"], lines)


# ---- outcomes ----

TENSORS, FROZEN, ELEMENTS = 12, 4, MIB // 4


def chain_of_states(seed):
    """Four states in a row; of each tensor that is trained, 1% changes at each step."""
    generator = numpy.random.default_rng(seed)
    state = {f"layers.{i}.weight": bf16(generator.standard_normal(ELEMENTS, numpy.float32) * numpy.float32(0.02)).array
             for i in range(TENSORS)}
    states = [state]
    for _ in range(3):
        state = {name: array.copy() for name, array in state.items()}
        for name in list(state)[FROZEN:]:
            at = generator.choice(ELEMENTS, ELEMENTS // 100, replace=False)
            state[name][at] += generator.choice(numpy.array([1, 65535], numpy.uint16), at.size)
        states.append(state)
    return states


def equal(a, b):
    return a.keys() == b.keys() and all(numpy.array_equal(a[name], b[name]) for name in a)


def with_a_flipped_bit(data, first, last, chance):
    flipped = bytearray(data)
    bit = chance.randrange(8 * first, 8 * last)
    flipped[bit // 8] ^= 1 << bit % 8
    return bytes(flipped)


VERDICTS = ("right", "refused, state as before", "refused, a repeat repairs", "refused, state damaged", "crash", "silently wrong")


def summary(counts):
    total = sum(counts.values())
    return "; ".join(f"{verdict}" if counts[verdict] == total else f"{verdict} {counts[verdict]}/{total}"
                     for verdict in VERDICTS if counts[verdict])


class PeerTrials:
    """Faults of one protocol, each tried some times."""
    def __init__(self, make, states, others, trials):
        self.protocol, self.trials, self.chance = make(), trials, random.Random(3)
        self.states, self.others = states, others
        self.patches = [self.protocol.publish(a, b, i + 1) for i, (a, b) in enumerate(zip(states, states[1:]))]
        self.header = 8 + int.from_bytes(self.patches[0][:8], "little")

    def live(self, state=None, version=0):
        state = self.states[0] if state is None else state
        return {"state": {name: array.copy() for name, array in state.items()}, "version": version, "in_progress": False,
                "full_copy": state}

    def verdict(self, live, patch, number=0):
        """What comes of applying `patch`, which is that of `number`, or a damaged one."""
        if not self.protocol.may_crash:
            return self.applied(live, patch, number)
        reader, writer = os.pipe()
        if (child := os.fork()) == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            os.write(writer, self.applied(live, patch, number).encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            found = pipe.read()
        return found if os.waitpid(child, 0)[1] == 0 else "crash"

    def applied(self, live, patch, number):
        wanted = self.states[number + 1]
        before = {name: array.copy() for name, array in live["state"].items()}
        try:
            self.protocol.apply(patch, live)
            return "right" if equal(live["state"], wanted) else "silently wrong"
        except Refused:
            if equal(live["state"], before):
                return "refused, state as before"
        try:
            self.protocol.apply(self.patches[number], live)
        except Refused:
            return "refused, state damaged"
        return "refused, a repeat repairs" if equal(live["state"], wanted) else "refused, state damaged"

    def tried(self, once):
        return summary(collections.Counter(once() for _ in range(self.trials)))

    def wrong_base(self):
        return self.verdict(self.live(self.others), self.patches[0])

    def other_frozen_part(self):
        live = self.live()
        live["state"]["layers.0.weight"] ^= numpy.uint16(1)
        return self.verdict(live, self.patches[0])

    def twice(self):
        live = self.live()
        self.protocol.apply(self.patches[0], live)
        return self.verdict(live, self.patches[0])

    def killed(self):
        def once():
            live = self.live()
            self.protocol.apply(self.patches[0], live, killed_after=self.chance.randrange(1, TENSORS - FROZEN))
            return self.verdict(live, self.patches[0])
        return self.tried(once)

    def flipped_base(self):
        def once():
            live = self.live()
            array = live["state"][self.chance.choice(list(live["state"]))]
            array[self.chance.randrange(array.size)] ^= numpy.uint16(1 << self.chance.randrange(16))
            return self.verdict(live, self.patches[0])
        return self.tried(once)

    def flipped_patch(self):
        patch = self.patches[0]
        return self.tried(lambda: self.verdict(self.live(), with_a_flipped_bit(patch, self.header, len(patch), self.chance)))

    def flipped_index(self):
        patch = self.patches[0]
        return self.tried(lambda: self.verdict(self.live(), with_a_flipped_bit(patch, 0, self.header, self.chance)))

    def missing_link(self):
        live = self.live()
        self.protocol.apply(self.patches[0], live)
        return self.verdict(live, self.patches[2], 2)


class OurTrials:
    """The same faults with files: `flatten` applies a chain of patches to a new file."""
    def __init__(self, work, states, others, trials):
        self.work, self.trials, self.chance, self.messages = work, trials, random.Random(3), {}
        for i, state in enumerate(states):
            self.make(f"s{i}", state)
        self.make("other", others)
        self.run("delta", "s0", "s1", "-o", "d1")
        self.run("delta", "d1", "s2", "-o", "d2")
        self.run("delta", "d2", "s3", "-o", "d3")
        self.wanted = {i: self.path(f"s{i}").read_bytes() for i in range(4)}
        self.kept = {name: self.path(name).read_bytes() for name in ("s0", "d1", "d2", "d3")}

    def path(self, name):
        return self.work / f"{name}.espalier"

    def make(self, name, state):
        write(self.work / "state.safetensors", {key: Typed("BF16", array) for key, array in state.items()})
        run("convert", "-q", "--no-sync", "--no-metadata", self.work / "state.safetensors", self.path(name))

    def run(self, command, *words):
        run(command, "-q", "--no-sync", *(word if word.startswith("-") else self.path(word) for word in words))

    def verdict(self, fault, delta="d1", wanted=1):
        out = self.path("out")
        out.unlink(missing_ok=True)
        status, message = run("flatten", "-q", "--no-sync", self.path(delta), out, check=False)
        if status:
            code = re.search(r"\(code (\w+)", message)
            key = f"exit {status}: {code[1] if code else message[-80:]}"
            self.messages.setdefault(fault, collections.Counter())[key] += 1
            return "refused, state damaged" if out.exists() else "refused, state as before"
        return "right" if out.read_bytes() == self.wanted[wanted] else "silently wrong"

    def restore(self):
        for name, data in self.kept.items():
            self.path(name).write_bytes(data)

    def tried(self, fault, once):
        counts = collections.Counter()
        for _ in range(self.trials):
            counts[once()] += 1
            self.restore()
        return self.with_messages(fault, summary(counts))

    def with_messages(self, fault, text):
        found = self.messages.get(fault)
        return text + (f" ({'; '.join(sorted(found))})" if found else "")

    def once(self, fault, change, **more):
        change()
        text = self.with_messages(fault, self.verdict(fault, **more))
        self.restore()
        again = self.verdict("again", **more)
        return text + ("" if again == "right" else f"; then {again}")

    def wrong_base(self):
        return self.once("wrong base", lambda: shutil.copy(self.path("other"), self.path("s0")))

    def other_frozen_part(self):
        def change():
            state = {name: array.copy() for name, array in self.first.items()}
            state["layers.0.weight"] ^= numpy.uint16(1)
            self.path("s0").unlink()
            self.make("s0", state)
        return self.once("frozen", change)

    def twice(self):
        served = self.path("served")
        served.write_bytes(self.kept["s0"])
        for _ in range(2):
            self.run("apply", "d1", "served")
        is_right = served.read_bytes() == self.wanted[1]
        served.unlink()
        return "right" if is_right else "silently wrong"

    def killed(self):
        out, counts = self.path("out"), collections.Counter()
        out.unlink(missing_ok=True)
        begin = time.monotonic()
        self.run("flatten", "d1", "out")
        whole = time.monotonic() - begin
        ended_before = 0
        for _ in range(self.trials):
            out.unlink(missing_ok=True)
            program = subprocess.Popen([CLI, "flatten", "-q", "--no-sync", self.path("d1"), out])
            time.sleep(self.chance.random() * whole)
            program.send_signal(signal.SIGKILL)
            ended_before += program.wait() == 0
            if out.exists() and out.read_bytes() != self.wanted[1]:
                counts["silently wrong"] += 1
                continue
            counts[self.verdict("killed")] += 1
        for rest in self.work.glob(".espalier-*"):
            rest.unlink()
        return summary(counts) + f" ({self.trials - ended_before} of {self.trials} were killed before they ended)"

    def flipped(self, fault, name, first, last):
        def once():
            self.path(name).write_bytes(with_a_flipped_bit(self.kept[name], first, last, self.chance))
            return self.verdict(fault)
        return self.tried(fault, once)

    def flipped_base(self):
        return self.flipped("base", "s0", 0, len(self.kept["s0"]))

    def flipped_patch(self):
        return self.flipped("patch", "d1", index_bytes(self.path("d1")), len(self.kept["d1"]))

    def flipped_index(self):
        return self.flipped("index", "d1", 0, index_bytes(self.path("d1")))

    def missing_link(self):
        return self.once("link", lambda: self.path("d2").unlink(), delta="d3", wanted=3)

    def deleted_base(self):
        return self.once("deleted", lambda: self.path("s0").unlink())


def outcome_figures(page, work, scale):
    states, others = chain_of_states(1), chain_of_states(2)[0]
    trials = scale["trials"]
    ours = OurTrials(work, states, others, trials)
    ours.first = states[0]
    faults = {"wrong base, of the same names and shapes": "wrong_base", "base that differs in a frozen tensor": "other_frozen_part",
              "applied twice": "twice", "killed midway, then repeated": "killed", "one bit of the base flipped": "flipped_base",
              "one bit of the patch flipped": "flipped_patch", "one bit of header or index flipped": "flipped_index",
              "base deleted": "deleted_base", "a link of the chain missing": "missing_link"}
    peers = {name: PeerTrials(make, states, others, trials) for name, make in PROTOCOLS.items()}
    lines = []
    for fault, method in faults.items():
        cells = [getattr(ours, method)()]
        for trial in peers.values():
            cells.append(getattr(trial, method)() if hasattr(trial, method) else "refused")
        lines.append([fault, *cells])
        print(f"{fault}: {cells}", file=sys.stderr, flush=True)
    wrong = sum("silently" in line[1] for line in lines)
    page.add("faults after which ours is silently wrong", wrong, f"{wrong} of {len(lines)}", ("<=", 0, "0"))
    page.table("Outcomes", f"{trials} tries of each fault with chance in it.",
               ["fault", "**espalier**", *peers], lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small inputs, one round: to try the script out, not for results")
    parser.add_argument("--only", type=one_of(GROUPS), default=GROUPS, help=",".join(GROUPS))
    parser.add_argument("--cache", type=pathlib.Path, default=HOME / "pairs", help="folder that keeps the trained and made pairs (default: below build)")
    parser.add_argument("--work", type=pathlib.Path, help="folder for the temporary files (default: below build)")
    parser.add_argument("--output", type=pathlib.Path, help="write the figures between the markers in this file")
    parser.add_argument("--build", action="store_true", help="build the programs first")
    options = parser.parse_args()
    if options.build:
        build([*BUILD_OURS, ["cmake", "--build", "build/release", "--target", "espalier"]], ROOT)
    scale = {"training": (), "simulated": 8 << 20, "rounds": 5, "repeat": 11, "frozen": GIB, "trials": 100}
    if options.quick:
        scale = {"training": ("--steps", 20, "--width", 128, "--layers", 2), "simulated": 1 << 20, "rounds": 1, "repeat": 3,
                 "frozen": 64 * MIB, "trials": 20}
    scale["cache"] = options.cache.resolve()
    page = Page()
    with tempfile.TemporaryDirectory(prefix="delta-", dir=working_folder(options.work, 8 * GIB)) as folder:
        known = machine_facts(pathlib.Path(folder))
        known.pop("Crate")
        for group in options.only:
            work = pathlib.Path(folder) / group
            work.mkdir()
            globals()[{"outcomes": "outcome"}.get(group, group) + "_figures"](page, work, scale)
            shutil.rmtree(work)
    if "size" in options.only:
        known["Trained pairs"] = (trained(scale["cache"], scale["training"]) / "steps.txt").read_text()
    versions = [f"{name} {importlib.metadata.version(name)}" for name in PACKAGES]
    known["Python packages"] = ", ".join(versions)
    text = as_list(known) + "\n\n" + page.text()
    if options.quick:
        text = "**A quick run: small inputs, one round. Not results.**\n\n" + text
    print(text)
    if options.output:
        put_between_markers(options.output, text, BEGIN, END)


if __name__ == "__main__":
    set_up()
    import importlib.metadata
    import warnings

    import numpy
    import xxhash

    warnings.filterwarnings("ignore", category=FutureWarning)  # of torch, which zipnn imports

    sys.path[:0] = [str(ROOT / "bench/data"), str(ROOT / "bench/peers")]
    from delta_schemes import PROTOCOLS, SIZES, Refused, entropy_limit
    from kinds import Typed, bf16, write
    main()
