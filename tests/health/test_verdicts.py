#!/usr/bin/env python3
"""Examines small clean states and states with a planted fault, which bench/doctor makes with NumPy alone, under its ten namings:
what `espalier doctor` calls a fault or a warning must be what verdicts.json has, whatever the names.

Usage: ESPALIER=path/to/espalier test_verdicts.py. With `write`, the verdicts under the states' own names are recorded anew.
"""

import json
import os
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "bench/doctor"), str(HERE.parent / "support")]

import numpy as np

import catalog
import report
import state_file
from built_states import INITIALISERS, transformer
from examine import examine, verdict
from faults import MATRIX, VECTOR, Site
from namings import NAMINGS

PROGRAM = os.environ.get("ESPALIER") or sys.exit("ESPALIER must name the program")
VERDICTS = HERE / "verdicts.json"
CLEAN = ("rotary", "causal masks by layer", "half-full caches", "padded vocabulary", "int8")
MATRIX_AT, VECTOR_AT = "layers/3/attn/k/weight", "layers/4/mlp/down/bias"
MATRIX_BESIDE, VECTOR_BESIDE = "layers/5/attn/k/weight", "layers/5/mlp/down/bias"
# Fault, magnitude, dtype.
PLANTED = (("scale", "×100", "F32"), ("loud row", "×50", "F32"), ("loud column", "×10", "F16"), ("zeros inside rows", "5 KiB", "F32"),
           ("stretch of another tensor", "16 KiB", "F32"), ("equal rows", "40%", "F16"), ("few values", "2", "F32"), ("dead rows", "8", "BF16"),
           ("one element", "NaN", "F16"), ("one element", "×1000", "F32"), ("bytes", "moved by one", "F32"), ("sparse", "30%", "F32"),
           ("shifted", "1 deviation", "BF16"), ("rounded to bf16", "", "F32"), ("vector, one element", "NaN", "F32"))


def small(dtype):
    weights = transformer(np.random.default_rng(11), INITIALISERS["normal"], layers=6, width=48, trained=0.05)
    return state_file.cast(state_file.leaves(weights), dtype)


def planted(fault, magnitude, dtype):
    tensors = small(dtype)
    by_name = {tensor.name: tensor for tensor in tensors}
    is_vector = fault.startswith("vector")
    plant = next(plant for of, at, plant in MATRIX + VECTOR if (of, at) == (fault, magnitude))
    target, beside = (VECTOR_AT, VECTOR_BESIDE) if is_vector else (MATRIX_AT, MATRIX_BESIDE)
    changes = plant(Site(by_name[target], by_name[beside], np.random.default_rng(catalog.number_of(f"{fault} {magnitude} {dtype}"))))
    return [changes.get(tensor.name, tensor) for tensor in tensors]


def states():
    """Each state with its title, one after the other."""
    catalog.load(("built_states", "table_states", "quantised_states"))
    for name in CLEAN:
        yield name, catalog.make(name)
    for dtype in state_file.FLOATS:
        yield f"without a fault, {dtype}", small(dtype)
    for fault, magnitude, dtype in PLANTED:
        yield f"{fault} {magnitude}, {dtype}".replace(" ,", ","), planted(fault, magnitude, dtype)


class Verdicts(unittest.TestCase):
    maxDiff = None

    def test_verdicts(self):
        recorded = json.loads(VERDICTS.read_text())
        titles = []
        for title, tensors in states():
            titles.append(title)
            for naming, findings in examine(PROGRAM, tensors, tuple(NAMINGS)).items():
                with self.subTest(state=title, naming=naming):
                    self.assertEqual([list(line) for line in verdict(findings)], recorded.get(title))
        self.assertEqual(titles, list(recorded))

    def test_each_planted_fault_is_found_and_no_clean_state_has_one(self):
        recorded = json.loads(VERDICTS.read_text())
        self.assertEqual([title for title, lines in recorded.items() if not lines], [*CLEAN, *(f"without a fault, {dtype}" for dtype in state_file.FLOATS)])

    def test_namings_differ_and_lose_no_tensor(self):
        names = [tensor.name for tensor in small("F32")]
        renamed = {naming: make(names) for naming, make in NAMINGS.items()}
        self.assertEqual({naming: len(set(many)) for naming, many in renamed.items()}, dict.fromkeys(NAMINGS, len(names)))
        # These names have no dots.
        del renamed["as given"]
        self.assertEqual(len({tuple(many) for many in renamed.values()}), 9)
        self.assertNotIn(tuple(names), {tuple(many) for many in renamed.values()})


if __name__ == "__main__":
    if sys.argv[1:] == ["write"]:
        found = {title: verdict(examine(PROGRAM, tensors)["as given"]) for title, tensors in states()}
        VERDICTS.write_text("{\n" + ",\n".join(f" {json.dumps(title, ensure_ascii=False)}: {json.dumps(lines)}" for title, lines in found.items()) + "\n}\n")
    else:
        sys.exit(report.main())
