"""Makes the torch of this Python environment work on the CPU without its 2.4 GB of NVIDIA packages.

For Linux on x86-64, PyPI has only builds of torch with CUDA. Their libraries load those of cuBLAS, cuDNN, NCCL and so
on when `import torch` runs, though the CPU never calls them. This script compiles a stub for each library that is not
there: a library of the same name that defines the functions that torch wants from it. A call of one ends the process.

It makes no stub of a library that is installed, nor of the NVIDIA driver, which torch loads only for a GPU.

    pip install --no-deps torch nvidia-cuda-runtime nvidia-cuda-cupti
    python scripts/torch_for_tests.py
"""
import collections
import pathlib
import re
import subprocess
import sys
import sysconfig
import tempfile

SITE = pathlib.Path(sysconfig.get_path("platlib"))
# The RPATH of torch's libraries names this folder. The CUDA runtime lies there: `import torch` does call that one.
FOLDER = SITE / "nvidia/cu13/lib"
DRIVER = "libcuda.so.1"

STUB = """
static void stop(const char *name) {
  fprintf(stderr, "%s: this torch works on the CPU only (see scripts/torch_for_tests.py)\\n", name);
  abort();
}
"""


def what_is_missing() -> tuple[set[str], dict[str, str | None]]:
    """The libraries that torch's libraries do not find, and the symbols with their versions."""
    libraries: set[str] = set()
    symbols: dict[str, str | None] = {}
    # The module's library, and the two that torch loads later, for a GPU. They load all others.
    for name in ("libtorch_python.so", "libtorch_cuda_linalg.so", "libcaffe2_nvrtc.so"):
        found = subprocess.run(["ldd", "-r", SITE / "torch/lib" / name], capture_output=True, text=True, check=False)
        output = found.stdout + found.stderr
        libraries.update(re.findall(r"(\S+) => not found", output))
        for symbol, version in re.findall(r"undefined symbol: (\w+)(?:, version (\S+))?", output):
            symbols[symbol] = version or symbols.get(symbol)
    return libraries - {DRIVER}, symbols


def owner(symbol: str, version: str | None, libraries: set[str]) -> str | None:
    """The library of a symbol. Most versions are the library's name. Else the symbol begins with it, as ncclSend."""
    if version in libraries:
        return version
    # libnvshmem_host.so.3 has nvshmem_malloc. cusparseLtInit is of libcusparseLt, and not of libcusparse.
    prefixes = {library: re.split(r"[._]", library)[0].removeprefix("lib").lower() for library in libraries}
    matches = [library for library in libraries if symbol.lower().startswith(prefixes[library])]
    return max(matches, key=lambda library: len(prefixes[library]), default=None)


def make_stub(library: str, symbols: list[str], version: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        source, script = pathlib.Path(name, "stub.c"), pathlib.Path(name, "versions")
        functions = (f'void {symbol}(void) {{ stop("{symbol}"); }}\n' for symbol in symbols)
        source.write_text("#include <stdio.h>\n#include <stdlib.h>\n" + STUB + "".join(functions))
        # Without the version that torch asks for, the loader prints a warning.
        script.write_text(f"{version} {{ global: *; }};\n")
        subprocess.run(["gcc", "-shared", "-fPIC", f"-Wl,-soname,{library}", f"-Wl,--version-script,{script}",
                        "-o", FOLDER / library, source], check=True)


def main() -> int:
    libraries, symbols = what_is_missing()
    wanted: dict[str, list[str]] = collections.defaultdict(list)
    versions: dict[str, str] = {}
    for symbol, version in sorted(symbols.items()):
        library = owner(symbol, version, libraries)
        if library:
            wanted[library].append(symbol)
            versions[library] = version or versions.get(library, library)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for library in sorted(libraries):
        make_stub(library, wanted[library], versions.get(library, library))
    return subprocess.run([sys.executable, "-W", "error", "-c", "import torch"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
