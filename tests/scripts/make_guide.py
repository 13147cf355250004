"""Makes a program of the blocks of docs/cpp.md, each a function of its own, called in their order.

Usage: make_guide.py GUIDE OUT
"""
import pathlib
import re
import sys

BLOCK = re.compile(r"^```cpp\n(.*?)^```", re.M | re.S)
HEAD = """#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory_resource>
#include <thread>
#include <vector>

#include <espalier/espalier.h>
using namespace espalier;

[[noreturn]] static void die(const std::string& message) {
  std::fprintf(stderr, "%s\\n", message.c_str());
  std::exit(1);
}
"""


def main():
    guide, out = map(pathlib.Path, sys.argv[1:])
    blocks = BLOCK.findall(guide.read_text())
    if len(blocks) < 5:
        sys.exit(f"{guide} has {len(blocks)} blocks of C++")
    functions = [f"static void block{i}() {{\n{block}}}\n" for i, block in enumerate(blocks)]
    calls = "".join(f"  block{i}();\n" for i in range(len(blocks)))
    out.write_text(HEAD + "\n" + "\n".join(functions) + f"\nint main() {{\n{calls}  std::puts(\"{len(blocks)} blocks passed\");\n  if (false) die(\"\");\n}}\n")


if __name__ == "__main__":
    main()
