"""Two tables from the lines that clean.py and plant.py kept: what is found of each fault, and alarms by family of clean states."""

import collections
import importlib.metadata
import json
import platform
import subprocess

from namings import NAMINGS
from state_file import FLOATS

PACKAGES = ("numpy torch torchvision timm transformers diffusers peft jax flax optax equinox keras onnx lpips facenet-pytorch resemblyzer torchcrepe "
            "silero-vad pesto-pitch torchfcpe chgnet speechmos").split()


def read(path):
    return [json.loads(line) for line in path.open()] if path.exists() else []


def is_found(row, naming="as given"):
    return bool(row["results"][naming]["rules"])


def share(rows):
    """`95% (19)`: how many are found, and of how many."""
    if not rows:
        return ""
    return f"{100 * sum(map(is_found, rows)) / len(rows):.0f}% ({len(rows)})"


def table(head, lines):
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in [head, rule, *lines]) + "\n"


def cause(rows):
    rules = collections.Counter(rule for row in rows for rule in row["results"]["as given"]["rules"])
    return f"`{rules.most_common(1)[0][0]}`" if rules else ""


def recall(rows):
    """By fault and magnitude."""
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row["fault"], row["magnitude"]].append(row)
    lines = []
    for (fault, magnitude), members in groups.items():
        near = [row for row in members if row["group"] != "alone"]
        lines.append([f"{fault}, {magnitude}" if magnitude else fault, share(near), *[share([row for row in near if row["dtype"] == dtype]) for dtype in FLOATS],
                      share([row for row in members if row["group"] == "alone"]), cause(members)])
    return lines


def sums(rows):
    near = [row for row in rows if row["group"] == "siblings"]
    return ["**all**", share(near), *[share([row for row in near if row["dtype"] == dtype]) for dtype in FLOATS], share([row for row in rows if row["group"] == "alone"]), ""]


def by(rows, key):
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row[key]].append(row)
    return groups.items()


def bases(rows):
    return [[base, *[share([row for row in members if row["group"] == "siblings" and row["dtype"] == dtype]) for dtype in FLOATS],
             share([row for row in members if row["group"] == "alone"])] for base, members in by(rows, "base")]


def namings(rows):
    lines = []
    for naming in NAMINGS:
        renamed = [row for row in rows if naming in row["results"] and naming != "as given"]
        if not renamed:
            continue
        given, there = sum(map(is_found, renamed)), sum(is_found(row, naming) for row in renamed)
        same = sum(is_found(row) == is_found(row, naming) for row in renamed)
        lines.append([naming, len(renamed), f"{100 * given / len(renamed):.0f}%", f"{100 * there / len(renamed):.0f}%", f"{100 * same / len(renamed):.1f}%"])
    return lines


def alarms(rows):
    lines = []
    total = [0] * 7
    for family, members in by(rows, "family"):
        found = [[alarm for row in members for alarm in row["alarms"]["as given"] if alarm[0] == severity] for severity in ("fault", "warning")]
        notes = sum(row["notes"]["as given"] for row in members)
        with_alarms = sum(bool(row["alarms"]["as given"]) for row in members)
        renamed = sum(any(row["alarms"].values()) for row in members)
        counts = [len(members), sum(row["tensors"] for row in members), len(found[0]), len(found[1]), notes, with_alarms, renamed]
        total = [a + b for a, b in zip(total, counts)]
        lines.append([family, *counts])
    return lines + [["**all**", *total]]


def which(rows):
    """Every alarm on a clean state: under its own names, and what other names add, once for each rule."""
    lines = []
    for row in rows:
        seen = collections.defaultdict(list)
        for naming, found in row["alarms"].items():
            for severity, rule, tensor, text in found:
                seen[severity, rule].append((naming, tensor, text))
        for (severity, rule), found in seen.items():
            names = list(dict.fromkeys(naming for naming, _, _ in found))
            where = "any names" if len(names) == len(row["alarms"]) else ", ".join(names)
            tensors = len({tensor for _, tensor, _ in found})
            lines.append([row["name"], f"{severity} `{rule}`", tensors, where, f"{found[0][1]}: {found[0][2]}".replace("|", "\\|")[:220]])
    return lines


def elsewhere(rows):
    counts = collections.Counter((row["fault"], rule) for row in rows for rule, _, _ in row["results"]["as given"]["elsewhere"])
    states = sum(bool(row["results"]["as given"]["elsewhere"]) for row in rows)
    return states, counts.most_common(8)


def version_of(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


HEAD_OF_RECALL = ["fault", "with siblings", "f32", "bf16", "f16", "alone", "most told by"]
HEAD_OF_ALARMS = ["family", "states", "tensors", "faults", "warnings", "notes", "states with alarms", "with alarms under any names"]


def page(work, program):
    clean, plants = read(work / "clean.jsonl"), read(work / "faults.jsonl")
    failed = [row for row in clean if "error" in row]
    clean = [row for row in clean if "error" not in row]
    versions = ", ".join(f"{package} {version}" for package in PACKAGES if (version := version_of(package)))
    own = subprocess.run([program, "--version"], capture_output=True, text=True).stdout.strip()
    parts = [INTRODUCTION.format(own=own, python=platform.python_version(), versions=versions, states=len(clean), bytes=sum(row["bytes"] for row in clean) / 1e9,
                                 plants=len(plants), bases=len({row["base"] for row in plants}))]
    for title, is_held_back in (("The two thirds that bounds may be chosen by", False), ("The third that is held back", True)):
        these = [row for row in plants if row["held_back"] == is_held_back]
        seen = [row for row in these if row["group"] != "unseen"]
        states = [row for row in clean if row["held_back"] == is_held_back]
        count, most = elsewhere(seen)
        parts += [f"## {title}\n", "### Faults that are found\n", table(HEAD_OF_RECALL, recall(seen) + [sums(seen)]),
                  f"{count} of these {len(seen)} plants caused an alarm at another tensor, too" + (": " + ", ".join(f"`{rule}` {number} times after *{fault}*" for (fault, rule), number in most) if most else "") + ".\n",
                  "### Alarms on clean states\n", table(HEAD_OF_ALARMS, alarms(states))]
        found = which(states)
        if found:
            parts += ["Each of them:\n", table(["state", "finding", "tensors", "under", "the first"], found)]
    seen = [row for row in plants if row["group"] != "unseen"]
    parts += ["## By architecture\n", table(["planted in", *[f"{dtype.lower()}, with siblings" for dtype in FLOATS], "alone"], bases(seen)),
              "## By names\n", NAMES, table(["naming", "plants", "found as given", "found so named", "the same verdict"], namings(seen)),
              "## What no rule is for\n", UNSEEN, table(["fault", "found"], [[fault, share(rows)] for fault, rows in by([row for row in plants if row["group"] == "unseen"], "fault")])]
    if failed:
        parts += ["## States that could not be made\n", table(["state", "why"], [[row["name"], row["error"].replace("|", "\\|").replace("\n", " ")[:160]] for row in failed])]
    return "\n".join(parts)


INTRODUCTION = """# What the doctor finds, and what it says of sound models

[`espalier doctor`](health.md) on {states} clean states ({bytes:.1f} GB) and {plants} planted faults in {bases} models. `bench/doctor` makes both, with fixed seeds:

    PYTHON bench/doctor/run.py clean
    PYTHON bench/doctor/run.py faults
    PYTHON bench/doctor/run.py tables --output docs/doctor-benchmarks.md

- Program: {own}
- Python {python}; {versions}
- A plant is one fault of one magnitude, in one tensor of one model in one dtype. It is found if a fault or a warning names that tensor.
- *With siblings*: at least four tensors have the same path but for numbers and the same shape, and six the same shape. *Alone*: fewer than four of either.
- A third of both, chosen by a hash of their names, is held back: no bound of a rule may be chosen by it. The rules of this version were chosen before
  these tables, on other states of the same packages.
- Clean states are examined under ten namings, those above 24 MiB under three. Nothing is a fault or a warning in a sound model, so each is a false alarm.
"""
NAMES = """Each plant with siblings is examined a second time, under one of nine other namings. *The same verdict*: found under both, or under neither.
"""
UNSEEN = """These are planted in tensors with siblings, and in no sum above.
"""
