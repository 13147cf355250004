"""Holds that the examples in comments of public headers compile.

An example is lines of a comment that are indented by three spaces or more, of which one ends in ";" or "{". Empty lines belong to it. What
it does not declare itself is the program's: see PROGRAM. "..." is what the reader adds.

Usage: test_examples.py SOURCE INCLUDE WORK COMPILER..., where INCLUDE has version.h and WORK is a folder for what is compiled. The last line
is "N passed, N failed".
"""
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from report import check, end_of_checks

SOURCE, INCLUDE, WORK = (pathlib.Path(argument) for argument in sys.argv[1:4])
COMPILER = sys.argv[4:]
# Needs C++23.
WITHOUT = {"mdspan.h"}
EXAMPLE = re.compile(r"(?:^ *///?(?: {3,}\S.*)?\n)+", re.M)
CODE = re.compile(r"[;{] *(?://.*)?$", re.M)

PROGRAM = """#include <filesystem>
#include <memory_resource>
#include <string>
#include <vector>
#include "espalier/espalier.h"
#include "espalier/file_sink.h"
#include "espalier/key_map.h"
#include "espalier/mapped_checkpoint.h"
using namespace espalier;
void report(const Error& error);
void train();
template <class... T> void use(const T&...);
bool get(std::uint64_t offset, MutableByteSpan out);
extern const CheckpointDir dir;
extern Result<CheckpointFile> file;
extern Value state;
extern std::uint64_t step, size_;
extern std::string path, text;
extern std::vector<std::byte> bytes;
extern std::vector<float> weight;
extern Threads::Run my_run;
extern std::pmr::monotonic_buffer_resource pmr_resource;
"""


def examples(text):
    """Each with the number of its first line."""
    for found in EXAMPLE.finditer(text):
        code = re.sub(r"^ *///? ?", "", found[0], flags=re.M)
        if CODE.search(code):
            yield text.count("\n", 0, found.start()) + 1, code


def function(name, number, code):
    """The example as a function; its classes may have members that are defined elsewhere, so they stand before it."""
    code = code.replace("(...)", "()").replace("{...}", "{}").replace(" ...", ";")
    classes = re.findall(r"^  class .*?^  };\n", code, re.M | re.S)
    for each in classes:
        code = code.replace(each, "\n" * each.count("\n"))
    own = re.sub(r"\W", "_", f"{name}_{number}")
    return f'namespace {own} {{\n{"".join(classes)}void example() {{\n#line {number} "{name}"\n{code}}}\n}}\n'


def main():
    WORK.mkdir(exist_ok=True)
    functions, headers = [], set()
    for path in sorted((SOURCE / "include/espalier").glob("*.h")):
        for number, code in examples(path.read_text()):
            if path.name not in WITHOUT:
                headers.add(path.name)
                functions.append((f"{path.name}:{number}", function(path.name, number, code)))
    check(len(headers) > 10, f"only these headers have examples: {sorted(headers)}")
    source = WORK / "examples.cpp"
    source.write_text(PROGRAM + "".join(text for _, text in functions))
    done = subprocess.run([*COMPILER, "-std=c++20", "-Werror=unused-result", f"-I{SOURCE}/include", f"-I{INCLUDE}", "-fsyntax-only", str(source)],
                          capture_output=True, text=True)
    check(done.returncode == 0, f"examples in comments of headers do not compile:\n{done.stderr[:4000]}")
    return end_of_checks()


if __name__ == "__main__":
    sys.exit(main())
