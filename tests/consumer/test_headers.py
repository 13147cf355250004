"""Holds which headers are installed: those of include/ and no others, 30 at most; that each compiles alone without a warning, all of
them in both compilers and two versions of C++; and that the names that they had before still work.

Usage: test_headers.py HOW INCLUDE SOURCE COMPILER..., where INCLUDE is the installed folder. HOW is "each", or "every" to compile each
alone in every compiler and version, which takes minutes. The last line is "N passed, N failed".
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from report import check, end_of_checks

HOW, INCLUDE, SOURCE, COMPILER = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]), sys.argv[4:]
UMBRELLA = "espalier/espalier.h"
MOST = 30
# What this declared is gone.
WITHOUT_NEW_NAME = {"espalier/read/opening_machine.h"}
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]


def compiled(compiler, text, *options):
    return subprocess.run([*compiler, *options, f"-I{INCLUDE}", "-x", "c++", "-"], input=text, capture_output=True, text=True)


def old_names():
    lines = re.findall(r"^    ([\w/]+)=(\w+)\)?$", (SOURCE / "cmake/OldHeaders.cmake").read_text(), re.M)
    return {f"espalier/{old}.h": f"espalier/{new}.h" for old, new in lines}


def main():
    old = old_names()
    check(len(old) > 20, "cmake/OldHeaders.cmake has no names")
    installed = {path.relative_to(INCLUDE).as_posix() for path in INCLUDE.rglob("*") if path.is_file()}
    ours = {path.relative_to(SOURCE / "include").as_posix() for path in (SOURCE / "include").rglob("*.h")}
    headers = ours | {"espalier/version.h"}
    check(len(headers) <= MOST, f"{len(headers)} headers are installed, and {MOST} at most should be")
    check(installed == headers | set(old), f"not those of include/ are installed: {installed ^ (headers | set(old))}")
    public = set(re.findall(r"`(espalier(?:/\w+)?\.h)`", (SOURCE / "docs/versioning.md").read_text())) - set(old)
    details = {name for name in headers if "/detail/" in name}
    check(public == headers - details, f"docs/versioning.md does not list the public headers: {public ^ (headers - details)}")

    # The umbrella must not reach a header of ours outside the installed folder.
    reached = compiled(COMPILER, f"#include <{UMBRELLA}>\n", "-std=c++20", "-MM").stdout
    # make's own form: a space of a name has a backslash before it.
    for path in re.split(r"(?<!\\)\s+", reached.replace("\\\n", " ")):
        path = pathlib.Path(path.replace("\\ ", " "))
        if "espalier" in path.parts:
            check(path.is_relative_to(INCLUDE), f"{UMBRELLA} includes {path}, which is not installed")

    others = [[found] for name in ("g++", "clang++-14") if (found := shutil.which(name))]
    check(len(others) == 2, "g++ and clang++-14 are needed")
    units = {name: f"#include <{name}>\n" for name in sorted(headers)}
    together = {"the public headers together": "".join(units.values())}
    runs = [(compiler, version, units if HOW == "every" else together) for compiler in others for version in ("c++20", "c++2b")]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for compiler, version, texts in [(COMPILER, "c++20", units), *runs]:
            options = [f"-std={version}", *WARNINGS, "-fsyntax-only"]
            results = pool.map(lambda text: compiled(compiler, text, *options), texts.values())
            for name, result in zip(texts, results):
                check(result.returncode == 0, f"{name}: no clean compilation with {compiler[0]} -std={version}:\n{result.stderr[:800]}")
    result = compiled(COMPILER, "".join(f"#include <{name}>\n" for name in sorted(old)), "-std=c++20", "-Wall", "-Wextra", "-fsyntax-only")
    check(result.returncode == 0, f"the old names do not compile:\n{result.stderr[:800]}")
    for name, new in sorted(old.items()):
        said = f"{name} has no new name" if name in WITHOUT_NEW_NAME else f"{name} is {new} now"
        check(said in result.stderr, f"{name} does not say its new name: {result.stderr[:200]}")
    return end_of_checks()


if __name__ == "__main__":
    sys.exit(main())
