#!/usr/bin/env python3
"""The hostile files before the command line, and before the independent reader of tests/reference.

Usage: test_cli_and_reference.py [N], for every Nth file alone.
Environment: ESPALIER, the program. The last line is "N passed, N failed".
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "reference"), str(HERE.parent / "support")]

import espalier_reference as reference
import report

ESPALIER = os.environ.get("ESPALIER") or sys.exit("ESPALIER must name the command line")
LINE = re.compile(r"\Aespalier: [\x20-\x7e\u0080-\uffff]+ \(code ([a-z_]+)(?:, in file [^,]+?)?(?:, at byte (\d+))?(?:, in (.+))?\)\n\Z")


def check(entry, condition, message):
    report.check(condition, f"{entry['file']}: {message}")


def run(*arguments):
    done = subprocess.run([ESPALIER, *arguments], capture_output=True, timeout=60, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def is_good_by_default(entry):
    """The command line knows the default limits only, and with those a file that only others refuse is good."""
    return entry["found_by"] == "opens" or ("limits" in entry and entry["code"] == "limit_exceeded")


def check_convert(entry, source, target):
    """`convert` reads everything: one clear line, exit code 3 (4 for a file that is missing), and nothing is written."""
    code, output, errors = run("convert", source, target)
    if is_good_by_default(entry):
        # What the new file lacks is said on the way, and elements that are not read in the exit code.
        is_said = not errors or entry["found_by"] == "opens"
        expected = 6 if "INCOMPLETE" in output else 0
        check(entry, code == expected and is_said and target.exists(), f"convert: exit code {code}, {output!r}, {errors!r}")
        check(entry, code == 0 or (entry["found_by"] == "opens" and errors), f"convert: exit code {code}, {errors!r}")
        target.unlink(missing_ok=True)
        return
    said = LINE.match(errors)
    expected = 4 if entry["code"] == "file_missing" else 3
    check(entry, code == expected and not output and said, f"convert: exit code {code}, {output!r}, {errors!r}")
    check(entry, not target.exists(), "convert wrote a file")
    target.unlink(missing_ok=True)
    if said:
        check(entry, said[1] == entry["code"], f"convert: {errors!r}, and not {entry['code']}")
        at = entry.get("offset", said[2])
        check(entry, said[2] == (at if at is None else str(at)), f"convert: {errors!r}, and not at byte {at}")
        check(entry, entry.get("says", "") in errors, f"convert: {errors!r}, and not: {entry.get('says')}")


def check_verify(entry, source):
    """`verify` answers "no" (exit code 1) for damage, misses files (6), and cannot answer (3, or 4 for a file) where nothing can be opened."""
    code, output, _ = run("verify", source)
    if entry["found_by"] == "opens" and "whose elements are not read" in output:
        check(entry, code == 6 and "elements_missing" in output, f"verify: exit code {code}, {output!r}")
        return
    expected = {"open": 3, "verify": 1, "read": 1, "restore": 0, "opens": 0}[entry["found_by"]]
    if expected == 1 and entry["code"] in ("file_missing", "base_mismatch"):
        expected = 6
    if expected == 3 and entry["code"] == "file_missing":
        expected = 4
    check(entry, code == (0 if is_good_by_default(entry) else expected), f"verify: exit code {code}")


def check_notes(entry, source):
    """`ls` prints what an opener noticed in a file that opens all the same."""
    code, output, errors = run("ls", source)
    check(entry, code == 0 and entry.get("says", "") in output + errors, f"ls: exit code {code}, {output!r}, {errors!r}")


def check_reference(entry, source):
    beside = source.parent.iterdir() if "/" in entry["file"] else ()
    files = {each.name: each.read_bytes() for each in beside if each.is_file()}
    try:
        reference.verify(reference.open_file(source.read_bytes(), files))
        said = "accepts"
    except reference.FormatError:
        said = "refuses"
    check(entry, said == entry["reference"], f"the independent reader {said} it")


def main():
    with tempfile.TemporaryDirectory() as folder:
        entries = json.loads((HERE / "expected.json").read_text(encoding="ascii"))
        for entry in entries[:: int(sys.argv[1]) if len(sys.argv) > 1 else 1]:
            source = HERE / "files" / entry["file"]
            check_convert(entry, source, pathlib.Path(folder) / "out.espalier")
            check_verify(entry, source)
            if entry["found_by"] == "opens":
                check_notes(entry, source)
            if "reference" in entry:
                check_reference(entry, source)
    return report.end_of_checks()


if __name__ == "__main__":
    sys.exit(main())
