"""Holds the architecture: which folder may include which, that every public header compiles alone, and that no
TypeScript modules import each other in a circle.

Without arguments, nothing is compiled.
Usage: test_layout.py [all|installed SOURCE GENERATED WORK COMPILER...], where the first word says which headers are
compiled, WORK is a folder for what is compiled and COMPILER a command line: a compiler cache may come first, which a folder
that stays the same lets find last time's results.
"""
import graphlib
import pathlib
import re
import subprocess
import sys

# Each folder, and those that its files may include besides their own. docs/architecture.md draws the picture.
BASE = {"base"}
ALLOWED = {
    "src/espalier/base": set(),
    "src/espalier/tree": BASE,
    "src/espalier/codec": BASE,
    "src/espalier/format": BASE | {"tree", "codec"},
    "src/espalier/read": BASE | {"tree", "codec", "format"},
    "src/espalier/report": BASE | {"tree", "codec", "format", "read"},
    "src/espalier/write": BASE | {"tree", "codec", "format"},
    "src/espalier/map": BASE | {"tree", "codec", "format", "read", "write"},
    "src/espalier/foreign": BASE | {"tree", "codec", "format", "read", "write"},
    "native/espalier/native": BASE | {"tree", "codec", "format", "read", "write", "foreign", "map"},
    "wasm": BASE | {"tree", "codec", "format", "read", "report", "write", "foreign", "map"},
    "native/c": BASE | {"tree", "codec", "format", "read", "report", "write", "foreign", "native"},
    "native/serve": BASE | {"native"},
    "native/http": BASE | {"native"},
    "native/libcurl": BASE | {"http"},
    "native/cli": BASE | {"tree", "codec", "format", "read", "report", "write", "foreign", "map", "native", "serve",
                                                                              "http", "libcurl"},
}
# The core does no I/O, holds no threads and knows no operating system.
FORBIDDEN_IN_CORE = re.compile(
    r"^(iostream|fstream|cstdio|stdio\.h|thread|mutex|shared_mutex|condition_variable|future|filesystem"
    r"|unistd\.h|fcntl\.h|windows\.h|sys/.*|pthread\.h|csignal|signal\.h)$")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
# Generated code and FlatBuffers are known to one file each way.
GENERATED_ALLOWED = {"src/espalier/format/index.cpp"}

# Relative imports that are there when the program runs: types are not.
IMPORT = re.compile(r"^(?:import|export)\s+(?!type\b)(?:[^'\"]*?\sfrom\s+)?['\"](\.{1,2}/[^'\"]+)['\"]", re.M)

failures = []
passed = 0


def check(condition, message):
    global passed
    if condition:
        passed += 1
    else:
        failures.append(message)


def check_no_circle(folder):
    modules = {path.resolve().with_suffix(""): path.read_text() for path in folder.rglob("*.ts*")}
    check(modules, f"{folder} holds no modules")
    imports = {module: [(module.parent / re.sub(r"\.js$", "", target)).resolve() for target in IMPORT.findall(text)]
               for module, text in modules.items()}
    try:
        graphlib.TopologicalSorter(imports).prepare()
        circle = []
    except graphlib.CycleError as error:
        circle = [module.name for module in error.args[1]]
    check(not circle, f"{folder} has a circle of imports: {', '.join(circle)}")


def installed(root):
    """The headers that the build installs, as the file sets list them."""
    texts = [(root / folder / "CMakeLists.txt").read_text() for folder in ("src", "native")]
    return {header for text in texts for header in re.findall(r"^ *(?:FILES )? *(espalier/\S+\.h)\)?$", text, re.M)}


def main():
    which, root, generated, work, *compiler = sys.argv[1:] or ["none", pathlib.Path(__file__).parents[2], "", ""]
    root, work = pathlib.Path(root).resolve(), pathlib.Path(work)
    headers = []
    for folder, allowed in ALLOWED.items():
        own = folder.rsplit("/", 1)[-1]
        files = sorted(p for p in (root / folder).glob("*") if p.suffix in (".h", ".cpp"))
        check(files, f"{folder} holds no sources")
        for path in files:
            name = path.relative_to(root).as_posix()
            if path.suffix == ".h" and folder != "native/cli":
                headers.append(path)
            for bracket, target in INCLUDE.findall(path.read_text()):
                match = re.match(r"(?:espalier/(\w+)|(serve|http))/", target)
                if match:
                    other = match[1] or match[2]
                    check(other == own or other in allowed,
                          f"{name} includes {target}: {own} must not depend on {other}")
                elif target.startswith("flatbuffers/") or target == "espalier_generated.h":
                    check(name in GENERATED_ALLOWED, f"{name} includes {target}")
                elif target.startswith("event2/"):
                    check(folder == "native/serve", f"{name} includes {target}")
                elif target.startswith("curl/"):
                    check(folder == "native/libcurl", f"{name} includes {target}")
                elif folder.startswith("src/"):
                    check(not FORBIDDEN_IN_CORE.match(target), f"{name} includes {target}")
    for folder in ("wasm/src", "web_demo/src"):
        check_no_circle(root / folder)
    if which == "none":
        headers = []
    else:
        work.mkdir(exist_ok=True)
    if which == "installed":
        names = installed(root)
        headers = [header for header in headers if header.relative_to(root).as_posix().partition("/")[2] in names]
        check(len(headers) > 40, f"only {len(headers)} headers are installed")
    for header in headers:
        base = root / header.relative_to(root).parts[0]
        source = work / f"{header.parent.name}_{header.stem}.cpp"
        source.write_text(f'#include "{header.relative_to(base).as_posix()}"\n')
        result = subprocess.run(
            [*compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror", f"-I{root}/src", f"-I{root}/native",
             f"-I{root}/wasm", f"-I{generated}", f"-I{generated}/../include", "-c", str(source), "-o", str(source.with_suffix(".o"))],
            capture_output=True, text=True)
        check(result.returncode == 0, f"{header.name} does not compile alone:\n{result.stderr[:800]}")
    for failure in failures:
        print(failure)
    print(f"{passed} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
