#!/usr/bin/env python3
"""Makes the corpus: hostile files, each small and wrong in one way, and the table of expected verdicts.

    make_corpus.py write     writes everything: files/, its archive, and the tables
    make_corpus.py compare   makes everything anew and compares: the last line is "N passed, N failed"

The cases are those of all modules NAME_cases.py here. See README.md.
"""

import importlib
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "scripts/ci")]

import corpora
from corpus_case import reference

LARGEST = 4096
# The tables begin with the cases of these, in this order. Those of other modules follow by their names.
FIRST = ["espalier", "safetensors", "zip", "pickle", "file_table", "patch", "gguf", "msgpack", "folder"]


def modules():
    """Each module of cases, and the suffix of most of its files: its SUFFIX, or its name."""
    names = sorted(path.stem.removesuffix("_cases") for path in HERE.glob("*_cases.py"))
    for name in sorted(names, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST)):
        module = importlib.import_module(f"{name}_cases")
        yield getattr(module, "SUFFIX", name), module


def make():
    """The contents of every file of the corpus, by its path."""
    made, expected, rows, same = {}, [], [], {}
    for usual_suffix, cases in modules():
        for case in cases.cases():
            suffix = case.suffix or usual_suffix
            file = f"{case.name}/{case.opens}" if case.opens else f"{case.name}.{suffix}"
            folder = {f"files/{case.name}/{other}": data for other, data in case.beside.items()}
            assert (case.found_by == "opens") == (case.code == "-"), file
            assert f"files/{file}" not in made, f"{file} is there twice"
            folder[f"files/{file}"] = case.data
            for path, data in folder.items():
                assert len(data) <= LARGEST, f"{path} has {len(data)} bytes"
            made |= folder
            # Nothing but the limits may differ: a file that is good without them is that of many cases.
            content = (case.opens, case.data, *sorted(case.beside.items()), *case.limits.items())
            assert content not in same, f"{file} and {same[content]} are the same"
            same[content] = file
            entry = {"file": file, "found_by": case.found_by, "code": case.code}
            if case.at is not None:
                entry["offset"] = case.offset()
            if case.path is not None:
                entry["path"] = case.path
            if case.says is not None:
                entry["says"] = case.says
            if case.limits:
                entry["limits"] = case.limits
            if file.endswith(".espalier"):
                entry["reference"] = "accepts" if case.reference_accepts else "refuses"
                rule = broken_rule(case)
                if rule:
                    entry["rule"] = rule
            expected.append(entry)
            limits = ",".join(f"{name}={value}" for name, value in case.limits.items())
            rows.append([file, case.found_by, case.code, str(entry.get("offset", "-")), case.path or "-", limits or "-",
                         case.says or "-"])  # fmt: skip
    made["expected.json"] = ("[\n" + ",\n".join(map(json.dumps, expected)) + "\n]\n").encode()
    made["table.txt"] = "".join("\t".join(row) + "\n" for row in rows).encode()
    return made


def broken_rule(case):
    """The number of the rule of docs/format.md that the independent reader finds broken first."""
    files = case.beside | {case.opens: case.data} if case.opens else {}
    try:
        reference.verify(reference.open_file(case.data, files))
    except reference.FormatError as error:
        return error.rule
    return None


def parts():
    """The files of the corpus by their names in the archive, and the tables by theirs."""
    made = make()
    files = {path.removeprefix("files/"): data for path, data in made.items() if path.startswith("files/")}
    return files, {path: data for path, data in made.items() if not path.startswith("files/")}


def write():
    files, tables = parts()
    count = corpora.replace("corrupt", files)
    for path, data in tables.items():
        (HERE / path).write_bytes(data)
    print(f"{count} files written")
    return 0


def compare():
    files, tables = parts()
    archived = corpora.contents(corpora.archive_of("corrupt"))
    failures = [path for path in files.keys() | archived.keys() if files.get(path) != archived.get(path)]
    failures += [path for path, data in tables.items() if (HERE / path).read_bytes() != data]
    for path in sorted(failures):
        print(f"{path} is not what this program makes")
    print(f"{len(files) + len(tables) - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in ("write", "compare"):
        sys.exit(__doc__)
    sys.exit({"write": write, "compare": compare}[sys.argv[1]]())
