"""Plants every fault in every architecture, dtype and magnitude, and keeps a line of JSON for each: whether the doctor finds it, under two namings."""

import collections
import json
import re

import numpy as np

import catalog
import state_file
from examine import examine, serious, verdict
from faults import FIRST, MATRIX, SQUARES, STEP, UNSEEN, VECTOR, Site, applies, is_float, matrix
from namings import NAMINGS

# Clean states that faults are planted in.
BASES = ("transformers-llama-trained", "transformers-gpt2-trained", "transformers-mixtral-trained", "transformers-bert-trained", "transformers-t5-trained",
         "transformers-vit-trained", "transformers-swin-trained", "transformers-mamba-trained", "transformers-convnext-trained", "transformers-resnet-trained",
         "training-text-adam-60", "flax-text-adamw-20", "built-normal-moved")
LEAST_OF_MATRIX, LEAST_AXIS, LEAST_OF_VECTOR = 8192, 32, 64
SIBLINGS, OF_SHAPE = 4, 6
# Each fault is planted in one of so many combinations of model and dtype, by hash: all would take hours.
ONE_OF = 4


class Targets:
    """Where faults are planted: tensors that vary, sorted by what they are and whether others are like them."""

    def __init__(self, tensors):
        self.tensors = [tensor for tensor in tensors if is_float(tensor) and tensor.elements and tensor.data != tensor.data[:len(tensor.data) // tensor.elements] * tensor.elements]
        self.kinds, self.shapes = collections.defaultdict(list), collections.Counter()
        for tensor in tensors:
            self.kinds[self.kind(tensor)].append(tensor)
            self.shapes[tensor.shape, tensor.dtype] += 1

    @staticmethod
    def kind(tensor):
        return re.sub(r"\d+", "#", tensor.name), tensor.shape, tensor.dtype

    def matrices(self, are_alone):
        found = []
        for tensor in self.tensors:
            if len(tensor.shape) < 2 or tensor.elements < LEAST_OF_MATRIX or "exp_avg" in tensor.name or "opt/" in tensor.name:
                continue
            if min(matrix(np.empty(tensor.shape, "u1")).shape) >= LEAST_AXIS and self.fits(tensor, are_alone):
                found.append(tensor)
        return found

    def vectors(self):
        return [tensor for tensor in self.tensors if len(tensor.shape) == 1 and tensor.elements >= LEAST_OF_VECTOR and "opt/" not in tensor.name and self.fits(tensor, False)]

    def fits(self, tensor, are_alone):
        alike, of_shape = len(self.kinds[self.kind(tensor)]), self.shapes[tensor.shape, tensor.dtype]
        return alike < SIBLINGS and of_shape < SIBLINGS if are_alone else alike >= SIBLINGS and of_shape >= OF_SHAPE

    def named(self, ending, rank):
        return [tensor for tensor in self.kinds_flat() if tensor.name.endswith("/" + ending) and (len(tensor.shape) == rank)]

    def kinds_flat(self):
        return [tensor for members in self.kinds.values() for tensor in members]

    def beside(self, tensor):
        """Others that a part may be taken from: siblings, else those of the same shape, else any that are as large."""
        others = [other for other in self.kinds[self.kind(tensor)] if other.name != tensor.name]
        others = others or [other for other in self.tensors if (other.shape, other.dtype) == (tensor.shape, tensor.dtype) and other.name != tensor.name]
        return others or [other for other in self.tensors if other.dtype == tensor.dtype and other.elements >= tensor.elements // 2 and other.name != tensor.name]


def trials(targets, dtype):
    """(group, fault, magnitude, plant, possible targets)."""
    for group, table, where in (("siblings", MATRIX, targets.matrices(False)), ("siblings", VECTOR, targets.vectors()), ("alone", MATRIX, targets.matrices(True)),
                                ("unseen", UNSEEN, targets.matrices(False))):
        yield from ((group, *line, where) for line in table if not (group == "alone" and line[0] in ("shape", "copy of a sibling", "missing")))
    if dtype != "F16":  # squares of gradients are beyond its range
        for table, ending, rank in ((SQUARES, "exp_avg_sq", 2), (FIRST, "exp_avg", 2), (STEP, "step", 0)):
            yield from (("siblings", *line, targets.named(ending, rank)) for line in table)


def judged(findings, target, baseline):
    names = (target, target.replace("~", "~0").replace("/", "~1"))  # a flat name has no levels
    at_target = [finding for finding in serious(findings)
                 if target in (finding["tensor"], finding["partner"]) or finding["rule"] == "missing" and finding["path"] in names]
    elsewhere = [finding for finding in serious(findings) if finding not in at_target
                 and (finding["severity"], finding["rule"], finding["tensor"] or finding["path"]) not in baseline]
    new = [finding for finding in at_target if (finding["severity"], finding["rule"], finding["tensor"] or finding["path"]) not in baseline]
    return {"rules": sorted({finding["rule"] for finding in new}), "elsewhere": [[finding["rule"], finding["tensor"], finding["text"]] for finding in elsewhere],
            "notes": sorted({finding["rule"] for finding in findings if finding["severity"] == "note" and target in (finding["tensor"], finding["partner"])})}


def trials_of(program, base, made, dtype, done):
    tensors = state_file.cast(made, dtype)
    targets = Targets(tensors)
    baselines = {naming: verdict(findings) for naming, findings in examine(program, tensors, tuple(NAMINGS)).items()}
    others = [naming for naming in NAMINGS if naming != "as given"]
    for group, fault, magnitude, plant, where in trials(targets, dtype):
        key = f"{base}|{dtype}|{group}|{fault}|{magnitude}"
        number = catalog.number_of(key)
        chance = np.random.default_rng(number)
        where = [tensor for tensor in where if applies(fault, magnitude, tensor)]
        if key in done or not where or catalog.number_of("planted: " + key) % ONE_OF:
            continue
        target = where[chance.integers(len(where))]
        beside = targets.beside(target) or [target]
        changes = plant(Site(target, beside[chance.integers(len(beside))], chance))
        planted = [changes.get(tensor.name, tensor) for tensor in tensors]
        planted = [tensor for tensor in planted if tensor is not None]
        namings = ["as given"] if group != "siblings" else ["as given", others[number % len(others)]]
        yield {"key": key, "base": base, "dtype": dtype, "group": group, "fault": fault, "magnitude": magnitude, "target": target.name,
               "held_back": catalog.is_held_back(key),
               "results": {naming: judged(findings, target.name, baselines[naming]) for naming, findings in examine(program, planted, namings).items()}}


def run(program, output, only=()):
    done = {json.loads(line)["key"] for line in output.open()} if output.exists() else set()
    states = catalog.load()
    # First each model in one dtype: what is there is balanced when this is stopped early.
    pairs = [(base, state_file.FLOATS[(number + turn) % len(state_file.FLOATS)]) for turn in range(len(state_file.FLOATS)) for number, base in enumerate(BASES)]
    with output.open("a") as file:
        for base, dtype in pairs:
            if base not in states or only and not any(part in base for part in only):
                continue
            count = found = 0
            for row in trials_of(program, base, catalog.make(base), dtype, done):
                file.write(json.dumps(row) + "\n")
                count, found = count + 1, found + bool(row["results"]["as given"]["rules"])
            file.flush()
            print(f"{base} {dtype}: {found} of {count} found", flush=True)
