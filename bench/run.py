#!/usr/bin/env python3
"""Times Espalier beside its peers and judges the project's targets. bench/README.md explains it."""

import argparse
import dataclasses
import os
import pathlib
import sys
import tempfile

from harness import (BUILD_OURS, BUILD_PEER, GIB, MIB, OURS, PEER, PEER_FOLDER, ROOT, Row, as_list, at_most,
                     build, collect, compare, execute, interleave, machine_facts, middle, one_of,
                     put_between_markers, reload, require_programs, table, working_folder)

GROUPS = ("open", "read", "save", "memory")
BEGIN, END = "<!-- figures begin: bench/run.py writes the lines below -->", "<!-- figures end -->"
TENSORS = 64  # of the large files
MINIMUM_FREE = 8 * GIB


@dataclasses.dataclass
class Scale:
    """How much work a run does."""
    divisor: int  # of tensor counts above 1,000, and of bytes
    pairs: int
    address_space: int  # for the save from producers; large enough for the program itself

    def tensors(self, count):
        return count if count <= 1000 else count // self.divisor

    def bytes(self, count):
        return count // self.divisor


FULL, QUICK = Scale(1, 11, 512 * MIB), Scale(16, 3, 128 * MIB)


def open_figures(work, scale):
    targets = {1_000: 8, 100_000: 25, 1_000_000: 25}
    for names in ("training", "flat"):
        nested = ["--nested-names"] if names == "training" else []
        for nominal, target in targets.items():
            count = scale.tensors(nominal)
            if names == "training":
                count -= count % 3  # a weight and its two moments: as many tensors on both sides
            our_file, peer_file = work / "open.espalier", work / "open.safetensors"
            execute(OURS, "make", our_file, "--tensors", count, "--names", names)
            execute(PEER, "make", peer_file, "--tensors", count, "--elements", 4, *nested)
            # The crate's `open` refuses the header of a million tensors.
            peer_command = "parse" if nominal == 1_000_000 else "open"
            repeat = 101 if count <= 1000 else 7
            ours, peer = interleave(scale.pairs, (OURS, "open", our_file, "--repeat", repeat),
                                    (PEER, peer_command, peer_file, "--repeat", repeat))
            label = f"{names}, {count:,} tensors"
            both = [middle(r, "open_ns", "list_ns") for r in ours]
            if peer_command == "open":
                yield compare(f"open + list against open + list: {label}", both,
                              [middle(r, "open_ns", "list_ns") for r in peer], target)
            else:
                parse = [middle(r, "parse_ns") for r in peer]
                yield compare(f"open against parse: {label}",
                              [middle(r, "open_ns") for r in ours], parse, target)
                yield compare(f"open + list against parse: {label}", both, parse, target)
    for names in ("training", "model", "flat"):
        file = work / "open.espalier"
        execute(OURS, "make", file, "--tensors", scale.tensors(1_000_000), "--names", names)
        report = execute(OURS, "open", file)
        each = report["index_bytes"] / report["tensors"]
        yield Row(f"index bytes per tensor: {names}, {report['tensors']:,} tensors",
                  f"{report['index_bytes']:,} bytes", "", each, f"{each:.1f}",
                  at_most(80, "bytes") if names != "flat" else None)
    small, large = work / "small.espalier", work / "large.espalier"
    elements = scale.bytes(GIB) // 4 // 1024
    execute(OURS, "make", small, "--tensors", 1000, "--elements", 4, "--names", "training")
    execute(OURS, "make", large, "--tensors", 1000, "--elements", elements, "--names", "training")
    large_open, small_open = ([middle(r, "open_ns") for r in side] for side in interleave(
        scale.pairs, (OURS, "open", large, "--repeat", 101), (OURS, "open", small, "--repeat", 101)))
    yield compare(f"open alone: 1,000 tensors of {elements:,} elements (left) and of 4 (right)",
                  large_open, small_open)


def read_figures(work, scale):
    our_file, peer_file = work / "read.espalier", work / "read.safetensors"
    size = scale.bytes(GIB)
    content = ("--bytes", size, "--tensors", TENSORS, "--fresh")
    execute(OURS, "save", our_file, *content)
    execute(PEER, "save", peer_file, *content)
    reload(our_file)
    reload(peer_file)
    for threads in (1, 2):
        how = ("--threads", threads, "--repeat", 5)
        ours, peer = interleave(scale.pairs, (OURS, "read", our_file, *how),
                                (PEER, "read", peer_file, *how))
        if len({r["checksum"] for r in ours} | {int(r["checksum"], 16) for r in peer}) != 1:
            sys.exit("the two programs did not read the same bytes")
        label = f"{size // MIB:,} MiB, threads: {threads}"
        yield compare(f"read without check against read: {label}",
                      [middle(r, "read_ns") for r in ours],
                      [middle(r, "read_ns") for r in peer], 1.0, size)
        checked, verified, hashed = interleave(
            scale.pairs, (OURS, "read", our_file, "--check", *how),
            (OURS, "verify", our_file, *how), (OURS, "hash", our_file, *how))
        hashed = [middle(r, "hash_ns") for r in hashed]
        yield compare(f"read with check against XXH3-128 alone: {label}",
                      [middle(r, "read_ns") for r in checked], hashed, 0.8, size)
        yield compare(f"verify against XXH3-128 alone: {label}",
                      [middle(r, "verify_ns") for r in verified], hashed, size=size)


def save_figures(work, scale):
    size = scale.bytes(GIB)
    file = work / "save"

    def settle():
        """Leaves no dirty page of one process to be written out during the next."""
        file.unlink(missing_ok=True)
        os.sync()

    for mode in ("--fresh", "--overwrite"):
        how = (file, "--bytes", size, "--tensors", TENSORS, mode, "--repeat", 4)
        save, write, peer = interleave(
            scale.pairs, (OURS, "save", *how, "--threads", 2), (OURS, "write", *how),
            (PEER, "save", *how), settle=settle)
        save = [middle(r, "save_ns") for r in save]
        label = f"{size // MIB:,} MiB, {mode[2:]}"
        yield compare(f"save with 2 threads against write(2): {label}", save,
                      [middle(r, "write_ns") for r in write], 0.9, size)
        yield compare(f"save with 2 threads against save: {label}", save,
                      [middle(r, "save_ns") for r in peer], 1.0, size)


def memory_figures(work, scale):
    def growth(figure, report, index_bytes):
        grown = report["peak_growth_kib"] / 1024
        allowed = index_bytes / MIB + 64
        return Row(figure, f"{grown:.1f} MiB", f"index: {index_bytes / MIB:.1f} MiB", grown,
                   f"{grown:.1f} MiB", at_most(allowed, "MiB (index + 64)"))

    file = work / "memory.espalier"

    def index_bytes():
        return execute(OURS, "open", file)["index_bytes"]

    size = scale.bytes(GIB)
    report = execute(OURS, "save", file, "--bytes", size, "--tensors", TENSORS, "--threads", 2,
                     "--fresh")
    yield growth(f"memory that a save adds: {size // MIB:,} MiB in {TENSORS} tensors", report,
                 index_bytes())
    for names in ("training", "flat"):
        report = execute(OURS, "make", file, "--tensors", scale.tensors(1_000_000), "--names",
                         names, "--threads", 2)
        yield growth(f"memory that a save adds: {names}, {report['tensors']:,} tensors", report,
                     index_bytes())
    size = scale.bytes(4 * GIB)
    state = (OURS, "save", file, "--bytes", size, "--tensors", TENSORS, "--threads", 2, "--fresh")
    produced = execute(*state, "--produced", address_space=scale.address_space)
    in_memory = execute(*state, address_space=scale.address_space)
    label = f"{size // MIB:,} MiB with {scale.address_space // MIB} MiB of address space"
    if produced is None or in_memory is not None:
        yield Row(f"save from producers: {label}", "failed" if produced is None else "saved",
                  "from memory: failed, as it must" if in_memory is None else
                  "from memory: saved, so that the limit shows nothing", 1, "",
                  ("<=", 0, "the limit"))
        return
    yield growth(f"save from producers (from memory it fails, as it must): {label}", produced,
                 index_bytes())


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a sixteenth of the size, three "
                        "pairs: to try the script out, not for results")
    parser.add_argument("--only", type=one_of(GROUPS), default=GROUPS, help=",".join(GROUPS))
    parser.add_argument("--work", type=pathlib.Path, help="folder for the inputs")
    parser.add_argument("--output", type=pathlib.Path, help="page to write the table into")
    parser.add_argument("--build", action="store_true", help="build both programs first")
    return parser.parse_args()


def main():
    options = arguments()
    if options.build:
        build(BUILD_OURS, ROOT)
        build(BUILD_PEER, PEER_FOLDER)
    require_programs()
    parent = working_folder(options.work, MINIMUM_FREE)
    scale = QUICK if options.quick else FULL
    with tempfile.TemporaryDirectory(prefix="bench-", dir=parent) as folder:
        work = pathlib.Path(folder)
        known = machine_facts(work) | {"Pairs": f"{scale.pairs} of each figure"}
        rows = collect([globals()[f"{group}_figures"] for group in options.only], work, scale)
    text = as_list(known) + "\n\n" + table(rows)
    if options.quick:
        text = "**A quick run: small inputs, few pairs. Not results.**\n\n" + text
    print(text)
    if options.output:
        put_between_markers(options.output, text, BEGIN, END)


if __name__ == "__main__":
    main()
