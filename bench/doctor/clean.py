"""Examines every clean state under every naming, one after the other, and keeps a line of JSON for each."""

import json

import catalog
from examine import examine, serious
from namings import NAMINGS

# Larger states are examined under their own names and two others.
MOST_BYTES = 24 << 20
FOR_LARGE = ("as given", "flat indices", "random words")


def row_of(program, name, family):
    tensors = catalog.make(name)
    size = sum(len(tensor.data) for tensor in tensors)
    row = {"name": name, "family": family, "tensors": len(tensors), "bytes": size, "held_back": catalog.is_held_back(name), "alarms": {}, "notes": {}}
    if not tensors:
        raise ValueError("the state has no tensors")
    for naming, findings in examine(program, tensors, tuple(NAMINGS) if size <= MOST_BYTES else FOR_LARGE).items():
        row["alarms"][naming] = [[finding["severity"], finding["rule"], finding["tensor"] or finding["path"], finding["text"]] for finding in serious(findings)]
        row["notes"][naming] = len(findings) - len(row["alarms"][naming])
    return row


def run(program, output, only=()):
    done = {json.loads(line)["name"] for line in output.open()} if output.exists() else set()
    states = catalog.load()
    with output.open("a") as file:
        for number, (name, (family, _)) in enumerate(states.items()):
            if name in done or only and not any(part in name for part in only):
                continue
            try:
                row = row_of(program, name, family)
            except Exception as error:  # of a package, in whose code a state is made
                row = {"name": name, "family": family, "error": f"{type(error).__name__}: {error}"[:300]}
            print(f"{number + 1}/{len(states)} {name}: {row.get('error') or sum(map(len, row['alarms'].values()))}", flush=True)
            file.write(json.dumps(row) + "\n")
            file.flush()
