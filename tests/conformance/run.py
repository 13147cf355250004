#!/usr/bin/env python3
"""Runs a reader on the files of the conformance kit, and compares what it says with what it must say.

    run.py --reader "COMMAND {file}"

README.md describes what the command must print. It needs Python 3.9 alone. The archive of the kit has all files. The repository lacks the
large ones, and makes them when they are needed: where the packages for that (numpy, xxhash, zstandard) are missing, a line says how many
files were not run. --no-large leaves them out.
The last line is "N passed, N failed".
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
from typing import Iterator

HERE = pathlib.Path(__file__).resolve().parent
CORPORA = HERE.parent.parent / "scripts/ci/corpora.py"
VERDICTS = ("accept", "refuse", "incomplete")
PACKAGES = ("numpy", "xxhash", "zstandard")  # What make_kit.py of the repository needs.
LARGE = "large/"
PARTS = ("version", "digest", "tensors", "tree", "metadata")
BATCH = 64


class BadReader(Exception):
    """The reader broke the protocol: a sentence that says how."""


def command_for(reader: str, paths: list[pathlib.Path]) -> list[str]:
    command = []
    for word in shlex.split(reader):
        if word == "{files}":
            command += map(str, paths)
        else:
            command.append(word.replace("{file}", str(paths[0])))
    return command


def ask(reader: str, paths: list[pathlib.Path], timeout: float) -> list[dict]:
    """What the reader says of each file."""
    try:
        done = subprocess.run(command_for(reader, paths), capture_output=True, timeout=timeout * len(paths), check=False)
    except subprocess.TimeoutExpired:
        raise BadReader(f"no answer within {timeout * len(paths):g} s") from None
    errors = done.stderr.decode(errors="replace").strip().splitlines()[-3:]
    if done.returncode != 0:
        raise BadReader(f"exit code {done.returncode}, and not 0: {' / '.join(errors)}")
    # Only \n ends a line: str.splitlines() would also split at U+2028, which may stand in JSON.
    lines = done.stdout.decode(errors="replace").removesuffix("\n").split("\n") if done.stdout else []
    if len(lines) != len(paths):
        raise BadReader(f"{len(lines)} lines on standard output for {len(paths)} files")
    try:
        found = [json.loads(line) for line in lines]
    except ValueError as error:
        raise BadReader(f"standard output is not JSON: {error}") from None
    for each in found:
        if not isinstance(each, dict) or each.get("verdict") not in VERDICTS:
            raise BadReader(f'"verdict" is not one of {", ".join(VERDICTS)}')
    return found


def answers(reader: str, paths: list[pathlib.Path], timeout: float) -> Iterator[dict | BadReader]:
    size = BATCH if "{files}" in reader else 1
    for begin in range(0, len(paths), size):
        some = paths[begin : begin + size]
        try:
            yield from ask(reader, some, timeout)
        except BadReader as error:
            if len(some) == 1:
                yield error
                continue
            # One of them is at fault: ask for each alone.
            for path in some:
                yield from answers(reader, [path], timeout)


def first_difference(found: object, expected: object, where: str) -> str | None:
    if isinstance(found, dict) and isinstance(expected, dict):
        for key in [*expected, *(key for key in found if key not in expected)]:
            if key not in found or key not in expected:
                return f"{where}: {key!r} is {'missing' if key in expected else 'not expected'}"
            difference = first_difference(found[key], expected[key], f"{where}/{key}")
            if difference:
                return difference
        return None
    if isinstance(found, list) and isinstance(expected, list):
        if len(found) != len(expected):
            return f"{where}: {len(found)} elements, and not {len(expected)}"
        pairs = enumerate(zip(found, expected))
        return next(filter(None, (first_difference(a, b, f"{where}/{i}") for i, (a, b) in pairs)), None)
    if type(found) is type(expected) and found == expected:
        return None
    return f"{where}: {str(found)[:80]!r}, and not {str(expected)[:80]!r}"


def fault(row: dict, found: dict | BadReader) -> str | None:
    """What is wrong with an answer."""
    if isinstance(found, BadReader):
        return f"the reader failed: {found}"
    rule = f" ({row['rule']})" if "rule" in row else ""
    if row["verdict"] == "either" and found["verdict"] != "accept":
        return None if found["verdict"] == "refuse" else f"{found['verdict']}, and not accept or refuse{rule}"
    if row["verdict"] != "either" and found["verdict"] != row["verdict"]:
        why = f": {found['why']}" if "why" in found else ""
        return f"{found['verdict']}, and not {row['verdict']}{rule}{why}"
    if "digest" in row and found.get("digest") != row["digest"]:
        return f"the tree digest is {found.get('digest')}, and not {row['digest']}"
    if "expected" not in row:
        return None
    expected = json.loads((HERE / row["expected"]).read_text(encoding="ascii"))
    said = {key: found.get(key) for key in PARTS}
    return first_difference(said, {key: expected[key] for key in PARTS}, "")


def place_of(name: str, large: pathlib.Path) -> pathlib.Path:
    """Where a file of the manifest lies. A packed kit has the large ones; otherwise they are in the folder `large`."""
    here = HERE / name
    return here if not name.startswith(LARGE) or here.is_file() else large / name[len(LARGE) :]


def with_large_files(rows: list[dict], folder: pathlib.Path) -> list[dict]:
    """The rows whose files are there, after the large ones were made, if they can be."""
    is_missing = lambda row: not place_of(row["file"], folder).is_file()
    missing = [row for row in rows if row["file"].startswith(LARGE) and is_missing(row)]
    lacking = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing and not lacking:
        subprocess.run([sys.executable, str(HERE / "make_kit.py"), "large", str(folder)], check=True)
    elif missing:
        print(f"{len(missing)} large files were not run: this Python lacks {', '.join(lacking)}, which make them", flush=True)
        return [row for row in rows if row not in missing]
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs a reader on the files of the conformance kit.")
    parser.add_argument("--reader", required=True, metavar="COMMAND", help="with {file} for a path, or {files} for one or more")
    parser.add_argument("--only", default="", metavar="PATTERN", help="only files whose path this regular expression finds")
    parser.add_argument("--timeout", type=float, default=60, metavar="SECONDS", help="for each file (60)")
    parser.add_argument("--large", type=pathlib.Path, metavar="FOLDER", help="keep the large files there, or take them from there")
    parser.add_argument("--no-large", action="store_true", help="leave out the large files")
    options = parser.parse_args()
    if "{file}" not in options.reader and "{files}" not in options.reader:
        parser.error("the command needs {file} or {files}")
    sys.setrecursionlimit(20_000)

    rows = json.loads((HERE / "manifest.json").read_text(encoding="ascii"))
    rows = [row for row in rows if re.search(options.only, row["file"])]
    if options.no_large:
        rows = [row for row in rows if not row["file"].startswith(LARGE)]
    if any(row["file"].startswith("../corrupt/") for row in rows):
        subprocess.run([sys.executable, str(CORPORA), "corrupt"], check=True)
    failed, either = 0, []
    with tempfile.TemporaryDirectory() as temporary:
        large = options.large or pathlib.Path(temporary)
        rows = with_large_files(rows, large)
        paths = [place_of(row["file"], large).resolve() for row in rows]
        for row, found in zip(rows, answers(options.reader, paths, options.timeout)):
            problem = fault(row, found)
            if problem:
                failed += 1
                print(f"{row['file']}: {problem}", flush=True)
            elif row["verdict"] == "either":
                either.append(f"{pathlib.PurePosixPath(row['file']).stem} {found['verdict']}")
    if either:
        print(f"either is right: {', '.join(either)}")
    print(f"{len(rows) - failed} passed, {failed} failed")
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
