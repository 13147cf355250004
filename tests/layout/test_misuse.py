"""Holds that misuse of the C++ interface does not compile, and that its right use does.

Usage: test_misuse.py SOURCE INCLUDE WORK COMPILER..., where INCLUDE has version.h and WORK is a folder for what is compiled. The last line is
"N passed, N failed".
"""
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from report import check, end_of_checks

SOURCE, INCLUDE, WORK = (pathlib.Path(argument) for argument in sys.argv[1:4])
COMPILER = sys.argv[4:]

# What it is about, a statement that compiles, one that must not, and what the compiler says of it.
CASES = [
    ("the tree of a temporary file",
     "const File file = open(); use(file.state());", "use(open().state());", "deleted"),
    ("the metadata of a temporary file",
     "const File file = open(); use(file.metadata());", "use(open().metadata());", "deleted"),
    ("the source of a temporary file",
     "const File file = open(); use(&file.source());", "use(&open().source());", "deleted"),
    ("the tree of a temporary checkpoint",
     "const File f = open(); const Checkpoint checkpoint = f.checkpoint_copy(); use(checkpoint.state());",
     "const File f = open(); use(f.checkpoint_copy().state());", "deleted"),
    ("the tree of a result that is a temporary",
     "const auto file = try_open(); use(file->state());", "use(try_open()->state());", "deleted"),
    ("the tree of a temporary result's file", "const File file = open(); use(file.state());", "use(try_open().value().state());", "deleted"),
    ("a span of temporary elements",
     "const auto e = look().as<float>(); const std::span<const float> s = *e; use(s);",
     "const std::span<const float> s = *look().as<float>(); use(s);", "deleted"),
    ("a result of a span of temporary elements",
     "const Result<Elements<float>> e = look().as<float>(); use(e);",
     "const Result<std::span<const float>> s = look().as<float>(); use(s);", "onver"),
    ("a span of a temporary file's elements",
     "const File f = open(); for (float x : *f.elements<float>(\"w\")) use(x);",
     "const File f = open(); const std::span<const float> s = f.elements<float>(\"w\").value(); use(s);", "deleted"),
    ("a span of a temporary view's bytes",
     "const auto bytes = look().bytes(); const ByteSpan s = bytes; use(s);", "const ByteSpan s = look().bytes(); use(s);", "deleted"),
    ("a pointer to temporary elements",
     "const auto e = look().as<float>(); use(e->data());", "use((*look().as<float>()).data());", "deleted"),
    ("a pointer to the elements of a temporary result",
     "const auto e = look().as<float>(); use(e->begin());", "use(look().as<float>()->begin());", "deleted"),
    ("elements that are borrowed without a word",
     "std::vector<float> v; use(Value::tensor(borrow(v), {0}));", "std::vector<float> v; use(Value::tensor(v, {0}));", "deleted"),
    ("a span of elements that is borrowed without a word",
     "std::span<float> v; use(Value::tensor(own(v), {0}));", "std::span<float> v; use(Value::tensor(v, {0}));", "deleted"),
    ("elements that go at once, borrowed", "use(own(std::vector<float>(1)));", "use(borrow(std::vector<float>(1)));", "constraint"),
    ("text for a value by its first letter", "use(Value(\"a\"));", "use(Value('a'));", "Value"),
    ("reading into memory that goes at once",
     "std::vector<float> v; const File f = open(); use(f.load_into({{\"a\", v}}));",
     "const File f = open(); use(f.load_into({{\"a\", std::vector<float>(1)}}));", "outlive"),
    ("a dtype that no C++ type has",
     "std::vector<int> v; use(borrow(v));", "std::vector<void*> v; use(borrow(v));", "constraint"),
    ("a save whose result is ignored",
     "use(save(\"x\", Value()));", "save(\"x\", Value());", "nodiscard"),
    ("a background save that is dropped",
     "use(save_async(\"x\", Value(), Snapshot::kCopy));", "save_async(\"x\", Value(), Snapshot::kCopy);", "nodiscard"),
    ("nodes of a temporary file", "const File f = open(); use(f.find(\"*\"));", "use(open().find(\"*\"));", "deleted"),
    ("a child of a temporary value", "const Value v = tree(); use(v.at(\"a\"));", "use(tree().at(\"a\"));", "deleted"),
    ("a key of a temporary value", "Value v = tree(); use(v.find(Key(1)));", "use(tree().find(Key(1)));", "deleted"),
    ("the children of a temporary value", "Value v = tree(); use(v.children());", "use(tree().children());", "deleted"),
    ("text of a temporary value", "const Value v = tree(); use(v.as_string());", "use(tree().as_string());", "deleted"),
    ("the tree of temporary contents", "const File f = open(); const auto c = f.contents(); use(c->state.children());",
     "const File f = open(); for (auto [key, value] : f.contents()->state) use(value);", "deleted"),
    ("a child of a tree in a temporary result", "const File f = open(); const auto v = f.load(f.state()); use(v->find(Key(1)));",
     "const File f = open(); use(f.load(f.state())->find(Key(1)));", "deleted"),
    ("a bool for a key", "Value d = Value::dict(); d.add(Key(1), Value());", "Value d = Value::dict(); d.add(Key(true), Value());",
     "Key"),
]

FRAME = """#include <vector>
#include "espalier/espalier.h"
using namespace espalier;
struct File : CheckpointFile {{
  explicit File(CheckpointFile file) : CheckpointFile(std::move(file)) {{}}
  Checkpoint checkpoint_copy() const& {{ return checkpoint(); }}
}};
File open();
Result<CheckpointFile> try_open();
TensorView look();
Value tree();
template <class T> void use(T&&) {{}}
{}
"""


def compiled(statements):
    """Compiles all of them at once, each on a line of its own. Returns the status, the numbers of their lines, and the errors."""
    functions = [f"void test{i}() {{ {statement} }}" for i, statement in enumerate(statements)]
    lines = FRAME.format("\n".join(functions)).splitlines()
    source = WORK / "misuse.cpp"
    source.write_text("\n".join(lines) + "\n")
    done = subprocess.run([*COMPILER, "-std=c++20", "-Wall", "-Werror", f"-I{SOURCE}/include", f"-I{INCLUDE}",
                           "-fsyntax-only", str(source)], capture_output=True, text=True)
    return done.returncode, [lines.index(function) + 1 for function in functions], done.stderr


def said_of(line, errors):
    """The errors about a line. GCC begins a group of them with where it is, and Clang with the error, perhaps in a header."""
    begin = r"^(?=\S+: In )" if ": In function" in errors else r"^(?=\S+: error: )"
    return "".join(each for each in re.split(begin, errors, flags=re.M) if re.search(rf"misuse\.cpp:{line}:", each))


def main():
    WORK.mkdir(exist_ok=True)
    status, _, errors = compiled([right for _, right, _, _ in CASES])
    check(status == 0, f"a right way does not compile:\n{errors[:2000]}")
    _, lines, errors = compiled([wrong for _, _, wrong, _ in CASES])
    for (about, _, wrong, said), line in zip(CASES, lines):
        found = said_of(line, errors)
        check("error: " in found, f"{about}: {wrong} compiles")
        check("error: " not in found or said in found, f"{about}: refused for another reason:\n{found[:2000]}")
    return end_of_checks()


if __name__ == "__main__":
    sys.exit(main())
