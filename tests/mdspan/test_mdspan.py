"""Compiles mdspan_test.cpp with the first compiler that has std::mdspan, and runs it. Exits with 77 if there is none.

Usage: test_mdspan.py SOURCE INCLUDE WORK COMPILER, where INCLUDE has version.h.
"""
import pathlib
import subprocess
import sys

SOURCE, INCLUDE, WORK = (pathlib.Path(argument) for argument in sys.argv[1:4])
COMPILERS = [[sys.argv[4]], ["clang++-19", "-stdlib=libc++"]]
PROBE = "#include <version>\n#ifndef __cpp_lib_mdspan\n#error\n#endif\n"


def has_mdspan(compiler):
    try:
        return subprocess.run([*compiler, "-std=c++23", "-DNDEBUG", "-fsyntax-only", "-x", "c++", "-"], input=PROBE, text=True,
                              capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def main():
    compiler = next((compiler for compiler in COMPILERS if has_mdspan(compiler)), None)
    if compiler is None:
        print("not tested: no compiler with std::mdspan; install clang-19 and libc++-19-dev")
        return 77
    WORK.mkdir(exist_ok=True)
    program = WORK / "mdspan_test"
    command = [*compiler, "-std=c++23", "-DNDEBUG", "-Wall", "-Wextra", "-Werror", f"-I{SOURCE}/include", f"-I{SOURCE}/src", f"-I{SOURCE}/native",
               f"-I{INCLUDE}", str(SOURCE / "tests/mdspan/mdspan_test.cpp"), "-o", str(program),
               # What makes errors: the libraries are built with another standard library.
               *(str(SOURCE / "src/espalier/base" / name) for name in ("error.cpp", "escaped.cpp", "utf8.cpp"))]
    return subprocess.run(command).returncode or subprocess.run([program]).returncode


if __name__ == "__main__":
    sys.exit(main())
