"""Holds the architecture: which room may include which, that every header compiles alone, and that no modules of Python or
TypeScript import each other in a circle. Also that links of the pages lead somewhere.

The rooms and what each stands on are those of the picture in docs/architecture.md. Without arguments, nothing is compiled.
Usage: test_layout.py [SOURCE GENERATED WORK COMPILER...], where WORK is a folder for what is compiled and COMPILER a command
line: a compiler cache may come first, which a folder that stays the same lets find last time's results.
"""
import ast
import graphlib
import itertools
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from report import check, end_of_checks

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The room of each public header: what a header says belongs to a layer, though all lie in one folder.
PUBLIC = {
    "base": "bytes error file_path limits version",
    "tree": "bigint dtype key_path kind pattern value",
    "format": "detail/catalog notes",
    "read": "checkpoint walker",
    "foreign/common": "unrepresentable",
    "map": "key_map",
    "files/open": "checkpoint_file mdspan source",
    "files/delta": "save_options",
    "files/save": "file_sink save save_async save_foreign sink",
    "files/folder": "checkpoint_dir",
    "files/map": "mapped_checkpoint",
    "c": "espalier",  # the umbrella
}
ROOM_OF_PUBLIC = {f"espalier/{name}.h": room for room, names in PUBLIC.items() for name in names.split()}
# A line of the picture: a room, what it stands on, and its job.
LINE = re.compile(r"^(\S+)(?: +<- (.+?))?(?:  +\S.*)?$")
# The core does no I/O, holds no threads and knows no operating system; but before it ends a program it says why.
FORBIDDEN_IN_CORE = re.compile(
    r"^(iostream|fstream|cstdio|stdio\.h|thread|mutex|shared_mutex|condition_variable|future|filesystem"
    r"|unistd\.h|fcntl\.h|windows\.h|sys/.*|pthread\.h|csignal|signal\.h)$")
MAY_SAY_WHY = "src/espalier/base/misuse.cpp"
CORE = {"base", "tree", "codec", "format", "read", "write", "report", "map", "foreign"}
# Whose headers only one room, or one file, may know.
ONLY_IN = {"flatbuffers/": "src/espalier/format/index.cpp", "espalier_generated.h": "src/espalier/format/index.cpp",
           "event2/": "native/serve/", "curl/": "native/libcurl/"}
# What comments of public headers name though it is not there: the user's own function, and the words of others.
NAMED_BY_OTHERS = {"train", "FlatBuffer", "LoRA", "MiB", "NaN", "NamedTuple", "NumPy", "PyTorch"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]', re.M)
# Relative imports that are there when the program runs: types are not.
IMPORT = re.compile(r"^(?:import|export)\s+(?!type\b)(?:[^'\"]*?\sfrom\s+)?['\"](\.{1,2}/[^'\"]+)['\"]", re.M)


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


def room_of(path):
    """Of a file of ours, by its folder; "espalier/" is the core's, and "include" has rooms by name."""
    if path.startswith("include/"):
        return ROOM_OF_PUBLIC.get(path.removeprefix("include/"), "")
    return re.sub(r"^(?:src/espalier/|native/)?", "", path).rpartition("/")[0]


def room_of_include(target):
    if target in ROOM_OF_PUBLIC:
        return ROOM_OF_PUBLIC[target]
    match = re.match(r"(?:espalier/)?((?:\w+/)+)\w+\.h$", target)
    return match[1].rstrip("/") if match else ""


def check_includes(rooms):
    headers = []
    for folder in ("include", "src", "native", "wasm", "python/core"):
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            if path.suffix not in (".h", ".cpp") or re.match(r"wasm/(build|node_modules|test)/", name) or name == "include/espalier.h":
                continue
            own = room_of(name) if folder != "python/core" else "python"
            check(own in rooms, f"{name} lies in the room {own!r}, which the picture of docs/architecture.md has not")
            if path.suffix == ".h" and folder != "python/core":
                headers.append(path)
            for bracket, target in INCLUDE.findall(path.read_text()):
                for start, only in ONLY_IN.items():
                    check(not target.startswith(start) or name.startswith(only), f"{name} includes {target}")
                if own.split("/")[0] in CORE:
                    check(name == MAY_SAY_WHY or not FORBIDDEN_IN_CORE.match(target), f"{name} includes {target}")
                other = room_of_include(target)
                if bracket == '"' and other in rooms:
                    check(other == own or other in rooms.get(own, ()),
                          f"{name} includes {target}: {own} must not depend on {other}")
                    check(folder != "include" or target in ROOM_OF_PUBLIC, f"{name} includes {target}, which is not installed")
    return headers


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


def check_no_circle(folder, imports):
    check(imports, f"{folder} holds no modules")
    try:
        graphlib.TopologicalSorter(imports).prepare()
        circle = []
    except graphlib.CycleError as error:
        circle = [str(module) for module in error.args[1]]
    check(not circle, f"{folder} has a circle of imports: {', '.join(circle)}")


def typescript_imports(folder):
    modules = {path.with_suffix(""): path.read_text() for path in folder.rglob("*.ts*")}
    return {module: [(module.parent / re.sub(r"\.js$", "", target)).resolve() for target in IMPORT.findall(text)]
            for module, text in modules.items()}


def python_imports(folder):
    """Of modules when they are loaded: those inside functions, and those for type checkers, come later or never."""
    found = {}
    for path in folder.rglob("*.py"):
        module = path.relative_to(folder).with_suffix("").parts
        package = module[:-1]
        name = ".".join(package if module[-1] == "__init__" else module)
        imports = found.setdefault(name, set())
        for node in ast.parse(path.read_text()).body:
            if not isinstance(node, ast.ImportFrom) or node.level == 0:
                continue
            base = package[:len(package) - (node.level - 1)] + tuple((node.module or "").split(".") if node.module else ())
            # `from . import a` names modules, `from .a import b` names what is in one.
            for alias in node.names:
                whole = (*base, alias.name)
                is_module = folder.joinpath(*whole).with_suffix(".py").is_file() or folder.joinpath(*whole, "__init__.py").is_file()
                imports.add(".".join(whole if is_module else base))
        imports.discard(name)
    return found


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
    for folder in ("wasm/src", "web_demo/src"):
        check_no_circle(folder, typescript_imports(ROOT / folder))
    check_no_circle("python/src/espalier", python_imports(ROOT / "python/src/espalier"))
    if len(sys.argv) > 1:
        check_headers(headers, pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]), sys.argv[4:])
    return end_of_checks()


if __name__ == "__main__":
    sys.exit(main())
