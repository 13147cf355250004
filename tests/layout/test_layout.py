"""Holds the architecture: which room may include which, that every header compiles alone, and that no headers and no modules of
Python include each other in a circle. The packages in wasm/ and web_demo/ do the last for TypeScript: test/imports.test.mjs.
Also that links of the pages lead somewhere.

The rooms and what each stands on are those of the picture in docs/architecture.md. Without arguments, nothing is compiled.
Usage: test_layout.py [SOURCE GENERATED WORK COMPILER...], where WORK is a folder for what is compiled and COMPILER a command
line: a compiler cache may come first, which a folder that stays the same lets find last time's results.
"""
import graphlib
import itertools
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import cpp_rooms
import python_imports
from report import check, end_of_checks

ROOT = pathlib.Path(__file__).resolve().parents[2]
# A line of the picture: a room, what it stands on, and its job.
LINE = re.compile(r"^(\S+)(?: +<- (.+?))?(?:  +\S.*)?$")
# What comments of public headers name though it is not there: the user's own function, and the words of others.
NAMED_BY_OTHERS = {"train", "FlatBuffer", "LoRA", "MiB", "NaN", "NamedTuple", "NumPy", "PyTorch"}


def picture(text):
    """From each room to all that it stands on, directly or not."""
    block = re.search(r"^```rooms\n(.*?)^```", text, re.M | re.S)[1]
    direct = {}
    for line in filter(None, block.splitlines()):
        room, below = LINE.match(line).groups()
        direct[room] = set(re.split(r"[, ]+", below)) if below else set()
    found = {}
    for room in graphlib.TopologicalSorter(direct).static_order():
        check(room in direct, f"docs/architecture.md has no line for the room {room}")
        found[room] = set().union(direct.get(room, ()), *(found[other] for other in direct.get(room, ())))
    return found


def check_includes(rooms):
    """Returns the headers that must compile alone."""
    files = cpp_rooms.read_files(ROOT)
    check(len(files) > 500, "no sources are found")
    for fault in cpp_rooms.faults(files, rooms):
        check(False, fault)
    return [ROOT / name for name in files if name.endswith(".h") and not name.startswith("python/")]


def without_comments(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.S)


def check_comments():
    """That comments of public headers name only functions, members and types that a reader of these headers finds."""
    texts = {path: path.read_text() for path in sorted((ROOT / "include").rglob("*.h"))}
    code = " ".join(map(without_comments, texts.values()))
    # A type that is only declared says nothing to the reader.
    declared = set(re.findall(r"\b(?:class|struct|enum class) (\w+)(?: : [\w:]+)?;", code))
    defined = set(re.findall(r"\b(?:class|struct|enum class|concept|using) (\w+)[^;{]*[{=]", code))
    known = set(re.findall(r"\w+", code)) - (declared - defined)
    check(len(known) > 1000, "include/ has no code")
    for path, text in texts.items():
        if "detail" in path.parts:
            continue
        comments = " ".join(line or block for line, block in re.findall(r"//+([^\n]*)|/\*(.*?)\*/", text, re.S))
        comments = re.sub(r'"[^"]*"', "", comments)
        named = set(re.findall(r"(?<![\w:.])(\w+)\(\)|\b[Ss]ee ([A-Z]\w+)", comments))
        named = set(filter(None, itertools.chain(*named)))
        # Types, also several.
        named |= {name for name in re.findall(r"\b[A-Z][a-z]+[A-Z]\w*", comments) if name.removesuffix("s") not in known}
        for scope, member in re.findall(r"(?<![\w:])((?:\w+::)+)(\w+)", comments):
            if not scope.startswith("std::"):
                named |= {member, *filter(None, scope.split("::"))}
        for name in sorted(named - known - NAMED_BY_OTHERS):
            check(False, f"{path.relative_to(ROOT)}: a comment names {name}, which no public header has")


def check_umbrella():
    """That espalier/espalier.h lists the public headers that it includes, and then those that it does not."""
    def included(name):
        file = ROOT / "include/espalier" / name
        found = re.findall(r'^#include "espalier/(.+)"', file.read_text(), re.M) if file.is_file() else []
        return set(found).union(*map(included, found))

    listed, others = (set(re.findall(r"(\w+\.h)\b", part)) for part in re.search(
        r"^// What this header includes:\n(.*?)^// Few programs need these.*?\n(.*?)^// espalier/detail/", (ROOT / "include/espalier/espalier.h").read_text(),
        re.M | re.S).groups())
    really = {name for name in included("espalier.h") if not name.startswith("detail/")}
    check(listed == really, f"espalier.h lists other headers than it includes: {sorted(listed ^ really)}")
    every = {path.name for path in (ROOT / "include/espalier").glob("*.h")}
    check(others == every - really, f"espalier.h lists other headers than it leaves out: {sorted(others ^ (every - really))}")


def anchors(page):
    """What a link to a heading of the page may say, as GitHub makes it."""
    found = set()
    for heading in re.findall(r"^#+ +(.*?) *$", page, re.M):
        slug = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()).replace(" ", "-")
        found.add(next(each for each in itertools.chain([slug], (f"{slug}-{i}" for i in itertools.count(1))) if each not in found))
    return found


def check_links():
    """That links of Markdown pages to files and headings of the repository lead there."""
    def page(path):
        return re.sub(r"^```.*?^```", "", path.read_text(), flags=re.M | re.S)

    pages = {path for pattern in ("*.md", "*/*.md", "docs/*/*.md", "tests/*/*.md") for path in ROOT.glob(pattern)}
    check(len(pages) > 30, "there are no pages")
    for path in sorted(pages):
        for link in re.findall(r"\]\((?![a-z]+:)([^)\s]+)\)", page(path)):
            file, _, anchor = link.partition("#")
            target = path.parent / file if file else path
            check(target.exists() and (not anchor or target.suffix != ".md" or anchor in anchors(page(target))),
                  f"{path.relative_to(ROOT)}: nothing is at {link}")


def check_python(folder):
    texts = {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*.py")}
    check(len(texts) > 20, f"{folder} holds no modules")
    for fault in python_imports.faults(texts, folder.name):
        check(False, fault)


def check_headers(headers, generated, work, compiler):
    """That each header compiles alone."""
    work.mkdir(exist_ok=True)
    folders = [ROOT / "include", ROOT / "src", ROOT / "native", ROOT / "wasm", generated, generated.parent / "include"]
    for header in headers:
        name = header.relative_to(ROOT).as_posix().replace("/", "_")
        source = (work / name).with_suffix(".cpp")
        source.write_text(f'#include "{header}"\n')
        result = subprocess.run(
            [*compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror", *(f"-I{folder}" for folder in folders), "-c", str(source),
             "-o", str(source.with_suffix(".o"))], capture_output=True, text=True)
        check(result.returncode == 0, f"{header} does not compile alone:\n{result.stderr[:800]}")


def main():
    global ROOT
    if 1 < len(sys.argv) < 5:
        sys.exit(__doc__)
    if len(sys.argv) > 1:
        ROOT = pathlib.Path(sys.argv[1]).resolve()
    rooms = picture((ROOT / "docs/architecture.md").read_text())
    headers = check_includes(rooms)
    check_comments()
    check_umbrella()
    check_links()
    check_python(ROOT / "python/src/espalier")
    if len(sys.argv) > 1:
        check_headers(headers, pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]), sys.argv[4:])
    return end_of_checks()


if __name__ == "__main__":
    sys.exit(main())
