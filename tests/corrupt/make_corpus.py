#!/usr/bin/env python3
"""Makes the corpus: hostile files, each small and wrong in one way, and the table of expected verdicts.

    make_corpus.py write FOLDER     writes everything
    make_corpus.py compare FOLDER   makes everything anew and compares: the last line is "N passed, N failed"

See README.md.
"""

import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import espalier_cases
import safetensors_cases

LARGEST = 4096
# The suffix of most of its files, and a module of cases.
MODULES = [("espalier", espalier_cases), ("safetensors", safetensors_cases)]


def make():
    """The contents of every file of the corpus, by its path."""
    made, expected, rows = {}, [], []
    for usual_suffix, cases in MODULES:
        for case in cases.cases():
            suffix = case.suffix or usual_suffix
            file = f"{case.name}.{suffix}"
            assert (case.found_by == "opens") == (case.code == "-"), file
            assert f"files/{file}" not in made, f"{file} is there twice"
            assert len(case.data) <= LARGEST, f"{file} has {len(case.data)} bytes"
            made[f"files/{file}"] = case.data
            entry = {"file": file, "found_by": case.found_by, "code": case.code}
            if case.at is not None:
                entry["offset"] = case.offset()
            if case.path is not None:
                entry["path"] = case.path
            if case.says is not None:
                entry["says"] = case.says
            if case.limits:
                entry["limits"] = case.limits
            if suffix == "espalier":
                entry["reference"] = "accepts" if case.reference_accepts else "refuses"
            expected.append(entry)
            limits = ",".join(f"{name}={value}" for name, value in case.limits.items())
            rows.append([file, case.found_by, case.code, str(entry.get("offset", "-")), case.path or "-", limits or "-",
                         case.says or "-"])  # fmt: skip
    same = {}
    for file, data in made.items():
        assert data not in same, f"{file} and {same[data]} are the same"
        same[data] = file
    made["expected.json"] = ("[\n" + ",\n".join(map(json.dumps, expected)) + "\n]\n").encode()
    made["table.txt"] = "".join("\t".join(row) + "\n" for row in rows).encode()
    return made


def write(folder):
    (folder / "files").mkdir(parents=True, exist_ok=True)
    made = make()
    for old in (folder / "files").iterdir():
        if f"files/{old.name}" not in made:
            old.unlink()
    for path, data in made.items():
        (folder / path).write_bytes(data)
    print(f"{len(made) - 2} files written")
    return 0


def compare(folder):
    made = make()
    failures = [path for path, data in made.items() if not is_same(folder / path, data)]
    failures += [path.name for path in (folder / "files").iterdir() if f"files/{path.name}" not in made]
    for path in failures:
        print(f"{path} is not what this program makes")
    print(f"{len(made) - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


def is_same(path, data):
    return path.is_file() and path.read_bytes() == data


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("write", "compare"):
        sys.exit(__doc__)
    sys.exit({"write": write, "compare": compare}[sys.argv[1]](pathlib.Path(sys.argv[2])))
