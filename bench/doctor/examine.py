"""Runs `espalier doctor` on a state, under a naming."""

import json
import os
import pathlib
import subprocess
import tempfile

import state_file
from namings import rename

# Memory, where there is such a folder: states are written, examined and removed one by one.
FOLDER = "/dev/shm" if os.path.isdir("/dev/shm") else None
SERIOUS = ("fault", "warning")


def unescaped(path):
    return path.replace("~1", "/").replace("~0", "~")


def examine(program, tensors, namings=("as given",)):
    """The findings by naming, each with the original names of its tensors (None where it is about no tensor alone)."""
    names = [tensor.name for tensor in tensors]
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        files, originals = [], []
        for number, naming in enumerate(namings):
            renamed = rename(naming, names)
            originals.append(dict(zip(renamed, names)))
            files.append(pathlib.Path(folder, f"{number}.safetensors"))
            state_file.write(files[-1], tensors, renamed)
        run = subprocess.run([program, "doctor", "--json", "--all", *files], capture_output=True, text=True)
    if run.returncode not in (0, 1):
        raise RuntimeError(f"doctor failed: {run.stderr.strip()}")
    document = json.loads(run.stdout)
    documents = document["files"] if len(files) > 1 else [document]
    for original, of_file in zip(originals, documents):
        for finding in of_file["findings"]:
            finding["tensor"] = original.get(unescaped(finding["path"]))
            finding["partner"] = original.get(unescaped(finding.get("other", "")))
    return {naming: of_file["findings"] for naming, of_file in zip(namings, documents)}


def serious(findings):
    return [finding for finding in findings if finding["severity"] in SERIOUS]


def verdict(findings):
    """What does not depend on names: severity and rule of each serious finding, and its tensor."""
    return sorted((finding["severity"], finding["rule"], finding["tensor"] or finding["path"]) for finding in serious(findings))
