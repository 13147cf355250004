"""Makes libraries to link a wheel with, so that it runs with older C and C++ libraries than those of this system.

    python3 stubs.py FOLDER [--compiler g++] [--policy manylinux_2_28]

A stub has the name and the functions of a library of this system, but only those versions of them that the policy allows. The
linker writes the newest of these into the wheel, where it would have taken one that old systems lack. What is newer and needed
comes from `later_glibc.c` beside this file and from libstdc++.a, and goes into the wheel. Link with

    -LFOLDER -Wl,--exclude-libs,ALL

and a program also with `-Wl,--wrap=__libc_start_main FOLDER/later_start.o`.
auditwheel has the policies, and must be installed.
"""

import argparse
import importlib.resources
import json
import pathlib
import re
import subprocess

# Before glibc 2.34, these functions of libc.so.6 were in libraries of their own, which newer systems have, too.
ELSEWHERE = {
    "libpthread.so.0": re.compile("(pthread|sem)_"),
    "libdl.so.2": re.compile("dl(addr|close|error|info|mopen|open|sym|vsym)"),
    "librt.so.1": re.compile("(aio|lio|mq|shm|timer)_"),
}
POLICIES = importlib.resources.files("auditwheel.policy") / "manylinux-policy.json"
HERE = pathlib.Path(__file__).parent


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


class Toolchain:
    def __init__(self, compiler: str) -> None:
        self.compiler = compiler
        self.machine = output(compiler, "-dumpmachine").split("-")[0]
        self.readelf = output(compiler, "-print-prog-name=readelf")

    def library(self, name: str) -> pathlib.Path:
        found = pathlib.Path(output(self.compiler, f"-print-file-name={name}"))
        if not found.is_absolute():
            raise SystemExit(f"{self.compiler} has no {name}: install g++ for {self.machine}, with its C library")
        return found

    def compile(self, *arguments: str | pathlib.Path) -> None:
        subprocess.run([self.compiler, "-fPIC", *arguments], check=True)


def allowed_versions(policy: str, machine: str) -> set[str]:
    for entry in json.loads(POLICIES.read_text()):
        if entry["name"] == policy:
            versions = entry["symbol_versions"][machine]
            return {f"{prefix}_{version}" for prefix, all_versions in versions.items() for version in all_versions}
    raise SystemExit(f"auditwheel knows no policy {policy}")


def age(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


def exported(tools: Toolchain, library: pathlib.Path, allowed: set[str]) -> dict[str, tuple[str, str, int]]:
    """The type of each symbol, its newest version among those that are allowed, and its size."""
    found: dict[str, tuple[str, str, int]] = {}
    for line in output(tools.readelf, "--wide", "--dyn-syms", str(library)).splitlines():
        fields = line.split()
        if len(fields) < 8 or "@" not in fields[7] or fields[6] in ("UND", "ABS"):
            continue
        symbol, version = re.split("@+", fields[7])
        if version in allowed and (symbol not in found or age(found[symbol][1]) < age(version)):
            found[symbol] = fields[3], version, int(fields[2], 0)
    return found


def write_stub(tools: Toolchain, library: pathlib.Path, symbols: dict[str, tuple[str, str, int]]) -> None:
    """A library of names, versions and the sizes of data, without code."""
    code, data, thread = [".text"], [".data"], ['.section .tbss,"awT",@nobits']
    nodes: dict[str, list[str]] = {}
    for symbol, (kind, version, size) in symbols.items():
        place, kind = {"OBJECT": (data, "object"), "TLS": (thread, "tls_object")}.get(kind, (code, "function"))
        place.append(f'.globl "{symbol}"\n.type "{symbol}", %{kind}\n"{symbol}": .skip {max(size, 8) if place is not code else 8}\n'
                     f'.size "{symbol}", {size if place is not code else 8}')
        nodes.setdefault(version, []).append(f'"{symbol}";')
    source, script = library.with_name(library.name + ".s"), library.with_name(library.name + ".map")
    source.write_text("\n".join([*code, *data, *thread, '.section .note.GNU-stack,"",%progbits', ""]))
    script.write_text("".join(f"{version} {{ {' '.join(symbols)} }};\n" for version, symbols in nodes.items()))
    tools.compile("-shared", "-nostdlib", f"-Wl,-soname,{library.name},--version-script,{script}", source, "-o", library)


def make(folder: pathlib.Path, compiler: str, policy: str) -> None:
    tools = Toolchain(compiler)
    allowed = allowed_versions(policy, tools.machine)
    folder.mkdir(parents=True, exist_ok=True)
    loader = next(tools.library("libc.so.6").parent.glob("ld-linux-*.so.*")).name
    for name in ("libc.so.6", "libm.so.6", "libstdc++.so.6", loader):
        symbols = exported(tools, tools.library(name), allowed)
        for other, pattern in ELSEWHERE.items() if name == "libc.so.6" else ():
            moved = [symbol for symbol in symbols if pattern.match(symbol)]
            write_stub(tools, folder / other, {symbol: symbols.pop(symbol) for symbol in moved})
        write_stub(tools, folder / name, symbols)
    for name in ("later_glibc", "later_start"):
        tools.compile("-x", "c", "-O2", "-c", HERE / f"{name}.c", "-o", folder / f"{name}.o")
    # What the compiler's options -lstdc++, -lm and -lc then mean.
    for option, parts in {
        "libstdc++.so": f"libstdc++.so.6 {tools.library('libstdc++.a')}",
        "libm.so": "libm.so.6",
        "libc.so": f"later_glibc.o libc.so.6 {tools.library('libc_nonshared.a')} "
                   f"AS_NEEDED({' '.join(ELSEWHERE)} {loader})",
    }.items():
        (folder / option).write_text(f"INPUT({parts})\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=lambda text: pathlib.Path(text).absolute())
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--policy", default="manylinux_2_28")
    arguments = parser.parse_args()
    make(arguments.folder, arguments.compiler, arguments.policy)
