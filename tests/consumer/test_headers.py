"""Holds which headers are installed: the public ones, and those that they include; and that each public header compiles
alone.

Usage: test_headers.py INCLUDE SOURCE COMPILER..., where INCLUDE is the installed folder. The last line is
"N passed, N failed".
"""
import pathlib
import re
import subprocess
import sys

INCLUDE, SOURCE, COMPILER = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
UMBRELLA = "espalier/espalier.h"
QUOTED = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)

failures = []
passed = 0


def check(condition, message):
    global passed
    if condition:
        passed += 1
    else:
        failures.append(message)


def main():
    installed = {path.relative_to(INCLUDE).as_posix() for path in INCLUDE.rglob("*") if path.is_file()}
    page = (SOURCE / "docs/versioning.md").read_text()
    public = set(re.findall(r"^- `([\w/]+\.h)`", page, re.M))
    check(UMBRELLA in public, "docs/versioning.md lists no public headers")
    included = set(QUOTED.findall((INCLUDE / UMBRELLA).read_text()))
    check(included <= public, f"espalier.h includes what docs/versioning.md does not list: {included - public}")
    reached, pending = set(), sorted(public)
    while pending:
        name = pending.pop()
        if name in reached:
            continue
        reached.add(name)
        check(name in installed, f"{name} is not installed")
        if name in installed:
            pending += QUOTED.findall((INCLUDE / name).read_text())
    check(installed == reached, f"installed, and no public header includes it: {sorted(installed - reached)}")
    for name in sorted(public):
        result = subprocess.run([*COMPILER, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{INCLUDE}",
                                 "-x", "c++", "-"], input=f"#include <{name}>\n", capture_output=True, text=True)
        check(result.returncode == 0, f"{name} does not compile alone:\n{result.stderr[:800]}")
    for failure in failures:
        print(failure)
    print(f"{passed} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
