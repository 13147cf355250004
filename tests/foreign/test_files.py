"""Files that other packages made open as the trees that those packages load from them.

Usage: test_files.py PRINT_TREE FOLDER...

Each FOLDER has files, and beside each NAME.json: what the format's own package loads, as the script in the folder above
describes it: the state, or a dict of "state" and "metadata". In a tensor, the last entry is a number that is the same for tensors that are one.
"""

import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from report import check, end_of_checks


def normal(node, numbers):
    """The same for equal trees: sets sorted, tensors numbered as they come."""
    kind, label, content = node
    if kind in ("list", "tuple"):
        content = [normal(each, numbers) for each in content]
    elif kind == "set":
        content = sorted((normal(each, numbers) for each in content), key=json.dumps)
    elif kind in ("dict", "record"):
        content = [[key, normal(each, numbers)] for key, each in content]
    elif kind == "tensor":
        dtype, shape, data, number = content
        if 0 in shape or number is None:
            number = None
        else:
            number = numbers.setdefault(number, len(numbers))
        content = [dtype, shape, data, number]
    return [kind, label, content]


def numberless(node):
    kind, label, content = node
    if kind in ("list", "tuple", "set"):
        content = [numberless(each) for each in content]
    elif kind in ("dict", "record"):
        content = [[key, numberless(each)] for key, each in content]
    elif kind == "tensor":
        content = content[:3]
    return [kind, label, content]


def difference(path, got, wanted):
    """The first place where two trees differ."""
    if got[:2] != wanted[:2]:
        return f"{path}: {got[:2]} and not {wanted[:2]}"
    if got[0] in ("list", "tuple", "set", "dict", "record"):
        named = got[0] in ("dict", "record")
        if named and [key for key, _ in got[2]] != [key for key, _ in wanted[2]]:
            return f"{path}: keys {[key for key, _ in got[2]]} and not {[key for key, _ in wanted[2]]}"
        if len(got[2]) != len(wanted[2]):
            return f"{path}: {len(got[2])} elements and not {len(wanted[2])}"
        for number, (one, other) in enumerate(zip(got[2], wanted[2])):
            key, one, other = (one[0], one[1], other[1]) if named else (number, one, other)
            if found := difference(f"{path}/{key}", one, other):
                return found
        return None
    return None if got == wanted else f"{path}: {got[2]} and not {wanted[2]}"


def has_numbers(node):
    kind, _, content = node
    if kind in ("dict", "record"):
        return any(has_numbers(each) for _, each in content)
    if kind in ("list", "tuple", "set"):
        return any(has_numbers(each) for each in content)
    return kind == "tensor" and content[3] is not None


def main():
    print_tree, *folders = sys.argv[1:]
    for folder in folders:
        cases = sorted(pathlib.Path(folder).glob("*.json"))
        check(cases, f"{folder} has no cases")
        for case in cases:
            [path] = [each for each in case.parent.glob(case.stem + ".*") if each != case]
            run = subprocess.run([print_tree, path], capture_output=True, text=True, timeout=60)
            if run.returncode != 0 or '"state"' not in run.stdout:
                check(False, f"{path}: {run.stderr}{run.stdout}")
                continue
            trees = json.loads(case.read_text())
            for part, wanted in trees.items() if isinstance(trees, dict) else [("state", trees)]:
                got = json.loads(run.stdout)[part]
                if not has_numbers(wanted):
                    wanted, got = numberless(wanted), numberless(got)
                else:
                    wanted, got = normal(wanted, {}), normal(got, {})
                found = difference("", got, wanted)
                check(not found, f"{path}: {part}{found}")
    return end_of_checks()


if __name__ == "__main__":
    sys.exit(main())
