"""Two tables from the lines that clean.py and plant.py kept: what is found of each fault, and alarms by family of clean states."""

import collections
import importlib.metadata
import json
import platform
import subprocess

from faults import FIRST, MATRIX, SQUARES, STEP, VECTOR
from namings import NAMINGS
from plant import BASES
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
    """Columns of numbers stand to the right."""
    are_numbers = [all(not str(line[column]) or str(line[column]).strip("*")[0].isdigit() for line in lines) for column in range(len(head))]
    rule = ["---:" if is_number and column else "---" for column, is_number in enumerate(are_numbers)]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in [head, rule, *lines]) + "\n"


def cause(rows):
    rules = collections.Counter(rule for row in rows for rule in row["results"]["as given"]["rules"])
    return f"`{rules.most_common(1)[0][0]}`" if rules else ""


def in_order(groups):
    """As the tables of faults.py have them."""
    order = [line[:2] for line in MATRIX + VECTOR + SQUARES + FIRST + STEP]
    return sorted(groups.items(), key=lambda group: order.index(group[0]))


def recall(rows):
    """By fault and magnitude."""
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row["fault"], row["magnitude"]].append(row)
    lines = []
    for (fault, magnitude), members in in_order(groups):
        near = [row for row in members if row["group"] != "alone"]
        lines.append([f"{fault}, {magnitude}" if magnitude else fault, share(near), *[share([row for row in near if row["dtype"] == dtype]) for dtype in FLOATS],
                      share([row for row in members if row["group"] == "alone"]), cause(members)])
    return lines


# Magnitudes below what the rules are made to tell: docs/health.md says so.
BELOW = {("scale", "×1.5"), ("scale", "×2"), ("scale", "÷2"), ("half of the rows scaled", "×2")}


def sums(title, rows):
    near = [row for row in rows if row["group"] == "siblings"]
    return [f"**{title}**", share(near), *[share([row for row in near if row["dtype"] == dtype]) for dtype in FLOATS], share([row for row in rows if row["group"] == "alone"]), ""]


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
    """Every alarm on a clean state under its own names."""
    return [[row["name"], f"{severity} `{rule}`", f"{tensor}: {text}".replace("|", "\\|")[:220]] for row in rows for severity, rule, tensor, text in row["alarms"]["as given"]]


def alarms_by_naming(rows):
    lines = []
    for naming in NAMINGS:
        examined = [row for row in rows if naming in row["alarms"]]
        rules = collections.Counter(rule for row in examined for rule in {rule for _, rule, _, _ in row["alarms"][naming]})
        lines.append([naming, len(examined), sum(bool(row["alarms"][naming]) for row in examined), ", ".join(f"`{rule}` {count}" for rule, count in rules.most_common())])
    return lines


def elsewhere(rows):
    counts = collections.Counter((row["fault"], rule) for row in rows for rule, _, _ in row["results"]["as given"]["elsewhere"])
    states = sum(bool(row["results"]["as given"]["elsewhere"]) for row in rows)
    return states, counts.most_common(8)


def missed(rows):
    """The faults that are found in fewer than 95 of 100 tensors with siblings: what is a note instead, and where they are missed."""
    groups = collections.defaultdict(list)
    for row in rows:
        if row["group"] == "siblings":
            groups[row["fault"], row["magnitude"]].append(row)
    lines = []
    for (fault, magnitude), members in in_order(groups):
        lost = [row for row in members if not is_found(row)]
        if 100 * len(lost) <= 5 * len(members):
            continue
        notes = sum(bool(row["results"]["as given"]["notes"]) for row in lost)
        where = collections.Counter(row["base"] for row in lost).most_common(3)
        lines.append([f"{fault}, {magnitude}" if magnitude else fault, share(members), len(lost), notes, ", ".join(f"{base} {count}" for base, count in where)])
    return lines


def version_of(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


HEAD_OF_RECALL = ["fault", "with siblings", *[dtype.lower() for dtype in FLOATS], "alone", "most told by"]
HEAD_OF_ALARMS = ["family", "states", "tensors", "faults", "warnings", "notes", "states with alarms", "with alarms under any names"]


def page(work, program):
    clean, plants = read(work / "clean.jsonl"), read(work / "faults.jsonl")
    failed = [row for row in clean if "error" in row]
    clean = [row for row in clean if "error" not in row]
    versions = ", ".join(f"{package} {version}" for package in PACKAGES if (version := version_of(package)))
    own = subprocess.run([program, "--version"], capture_output=True, text=True).stdout.strip().replace("\n", ", ")
    parts = [INTRODUCTION.format(own=own, python=platform.python_version(), versions=versions, states=len(clean), bytes=sum(row["bytes"] for row in clean) / 1e9,
                                 plants=len(plants), bases=len({row["base"] for row in plants}),
                                 all_pairs=len(BASES) * len(FLOATS), pairs=len({(row["base"], row["dtype"]) for row in plants}))]
    for title, is_held_back in (("The two thirds that bounds may be chosen by", False), ("The third that is held back", True)):
        these = [row for row in plants if row["held_back"] == is_held_back]
        seen = [row for row in these if row["group"] != "unseen"]
        states = [row for row in clean if row["held_back"] == is_held_back]
        count, most = elsewhere(seen)
        lost = missed(seen)
        parts += [f"## {title}\n", "### Faults that are found\n", table(HEAD_OF_RECALL, recall(seen) + [sums("all", seen), sums("all but ×1.5, ×2 and ÷2", [row for row in seen if (row["fault"], row["magnitude"]) not in BELOW])]),
                  f"{count} of these {len(seen)} plants caused an alarm at another tensor, too" + (": " + ", ".join(f"`{rule}` {number} times after *{fault}*" for (fault, rule), number in most) if most else "") + ".\n",
                  "With siblings, fewer than 95% are found of these:\n", table(["fault", "found", "missed", "of them with a note", "most in"], lost),
                  "### Alarms on clean states\n", table(HEAD_OF_ALARMS, alarms(states))]
        found = which(states)
        if found:
            parts += ["Each of them, under the states' own names:\n", table(["state", "finding", "tensor"], found)]
        parts += ["With other names, in states, and by rule:\n", table(["naming", "states", "with alarms", "rules, each with its states"], alarms_by_naming(states))]
    seen = [row for row in plants if row["group"] != "unseen"]
    parts += ["## By architecture\n", table(["planted in", *[f"{dtype.lower()}, with siblings" for dtype in FLOATS], "alone"], bases(seen)),
              "## By names\n", NAMES, table(["naming", "plants", "found as given", "found so named", "the same verdict"], namings(seen)),
              "## What no rule is for\n", UNSEEN, table(["fault", "found"], [[fault, share(rows)] for fault, rows in by([row for row in plants if row["group"] == "unseen"], "fault")])]
    if failed:
        parts += ["## States that could not be made\n", table(["state", "why"], [[row["name"], "".join(c if c.isprintable() and c != "|" else " " for c in row["error"])[:100]] for row in failed])]
    return "\n".join(parts)


INTRODUCTION = """# What the doctor finds, and what it says of sound models

[`espalier doctor`](health.md) on {states} clean states ({bytes:.1f} GB) and {plants} planted faults in {bases} models ({pairs} of {all_pairs} pairs of a model and a dtype). `bench/doctor` makes both, with fixed seeds:

    PYTHON bench/doctor/run.py clean
    PYTHON bench/doctor/run.py faults
    PYTHON bench/doctor/run.py tables --output docs/doctor-benchmarks.md

- Program: {own}
- Python {python}; {versions}
- A plant is one fault of one magnitude, in one tensor of one model in one dtype. It is found if a fault or a warning names that tensor.
- *With siblings*: at least four tensors have the same path but for numbers and the same shape, and six the same shape. *Alone*: fewer than four of either.
- Each fault is planted in a quarter of these pairs, by a hash. Averages of gradients are planted in f32 and bf16 alone.
- A third of both, chosen by a hash of their names, is held back: no bound of a rule may be chosen by it. But these tables led to changes of
  the rules twice, and both thirds were seen then: the third that is held back is not independent any more.
- Clean states are examined under ten namings, those above 24 MiB under three. Nothing is a fault or a warning in a sound model, so each is a false alarm.
"""
NAMES = """Each plant with siblings is examined a second time, under one of nine other namings. *The same verdict*: found under both, or under neither.
"""
UNSEEN = """These are planted in tensors with siblings, and in no sum above.
"""
