"""The steps of each stage of scripts/test. Usage: see scripts/test."""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys

from runner import Step, junit, pytest, run, selected, summarise, tap

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LOGS = ROOT / "build/test-logs"
# Steps that keep every processor busy hold this lock. The other steps spend much of their time waiting.
BUSY = ("processors",)


def ctest(preset, options=""):
    report = LOGS / f"{preset}.xml"
    return {
        "command": f"rm -f '{report}'; ctest --test-dir build/{preset} --parallel 2 --output-on-failure "
                   f"--output-junit '{report}' {options}",
        "read": junit(report),
    }


def npm(folder, script):
    return {
        "command": f"cd {folder} && ESPALIER='{ROOT}/build/release/espalier' npm run --silent {script}",
        "read": tap,
        # Each script compiles the tests into the same folder.
        "locks": (folder,),
    }


# Two builds of the same source must give the same bytes, in any folder, and without a cache. The smallest module stands for
# all: they have the same flags, and what would differ (times, paths) comes from those.
WASM_AGAIN = """
export NODE_PATH=/usr/share/nodejs CCACHE_DISABLE=1
rm -rf build/wasm-again
emcmake cmake -S . -B build/wasm-again -G Ninja -DCMAKE_BUILD_TYPE=Release -DESPALIER_INSTALL=OFF
cmake --build build/wasm-again --target decoder
cmp build/wasm-again/decoder.wasm build/wasm/decoder.wasm
"""

# Without the statistics tests, whose reference computes in 80 bits where Valgrind has 64, and without the tests of
# very many elements, which would take minutes.
VALGRIND = """
valgrind --quiet --error-exitcode=1 --leak-check=full build/release/unit_tests \
  --source-file-exclude='*statistics_test*' --test-case-exclude='\
Slices of tensors of several*,patterns: random*,value: a tree of any depth*,*trees that nothing can hold'
"""

# A free slot takes the first step that can start. The busy steps come first: one slot works through them, and the
# other works through the rest.
STEPS = [
    Step("release", "build", "cmake --preset release && cmake --build build/release", locks=BUSY),
    # One test installs the build, which copies web_demo/dist.
    Step("release", "tests", needs=("release build",), locks=(*BUSY, "web_demo"), **ctest("release")),
    Step("sanitize", "build", "cmake --preset fuzz && cmake --build build/fuzz", locks=BUSY),
    Step("sanitize", "tests", needs=("sanitize build",), locks=BUSY, **ctest("fuzz", "--label-exclude '^once$'")),
    Step("threads", "build", "cmake --preset tsan && "
         "cmake --build build/tsan --target native_tests roundtrip_test determinism_test delta_test map_test", locks=BUSY),
    Step("threads", "tests", needs=("threads build",), locks=BUSY,
         **ctest("tsan", "--tests-regex '^(property|native)'")),
    Step("fuzz", "smoke", "scripts/fuzz --jobs 2 20", needs=("sanitize build",), locks=BUSY),
    Step("lint", "format", "git ls-files '*.h' '*.cpp' | xargs clang-format-14 --dry-run --Werror"),
    # A new schema must still read the files of every released one.
    Step("lint", "schema", "for old in schema/released/*.fbs; do flatc --conform $old schema/espalier.fbs; done"),
    Step("lint", "tidy", "cmake --preset tidy && cmake --build build/tidy --target all espalier_no_encoder -- -k 0",
         locks=BUSY),
    Step("wasm", "build", "scripts/wasm", locks=("wasm",)),
    Step("wasm", "tests", needs=("release build", "wasm build"), **npm("wasm", "test")),
    Step("wasm", "browsers", needs=("release build", "wasm build"), **npm("wasm", "test:browser")),
    Step("wasm", "package", needs=("release build", "wasm build"), **npm("wasm", "test:package")),
    Step("wasm", "again", WASM_AGAIN, needs=("wasm build",)),
    Step("web", "build", "cd web_demo && npm install --no-save --no-audit --no-fund --silent && npm run --silent build",
         needs=("wasm build",), locks=("web_demo",)),
    Step("web", "tests", needs=("release build", "web build"), **npm("web_demo", "test")),
    Step("web", "browsers", needs=("release build", "web build"), **npm("web_demo", "test:browser")),
    Step("python", "build", "scripts/python --build"),
    Step("python", "tests", "build/python/environment/bin/pytest -q -p no:cacheprovider python", needs=("python build",),
         read=pytest),
    # What Python saves, in the other readers and in the viewer's page.
    Step("python", "readers", "build/python/environment/bin/pytest -q -p no:cacheprovider -c python/pyproject.toml "
         "--rootdir . tests/readers", needs=("python build", "release build", "wasm build", "web build"),
         locks=("web_demo",), read=pytest),
    Step("python", "sanitized", "scripts/python --sanitize", needs=("python build",), read=pytest),
    # The package as it is installed, with the stubs of the module.
    Step("python", "types", "cd build/python && environment/bin/mypy --config-file ../../python/pyproject.toml --strict "
         "-p espalier", needs=("python build",)),
    Step("valgrind", "unit", VALGRIND, needs=("release build",)),
]
STAGES = list(dict.fromkeys(step.stage for step in STEPS))


def compiler_settings():
    """Environment variables for CMake and ccache, so that one cache serves clones in any folder."""
    settings = {"CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count())}
    if shutil.which("ccache"):
        settings |= {"CMAKE_C_COMPILER_LAUNCHER": "ccache", "CMAKE_CXX_COMPILER_LAUNCHER": "ccache",
                     "CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1", "CCACHE_MAXSIZE": "20G"}
    return settings


def main():
    parser = argparse.ArgumentParser(prog="scripts/test", description="Runs every check, or those of some stages.")
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=f"one of: {', '.join(STAGES)}")
    parser.add_argument("--list", action="store_true", help="print the stages and their steps")
    options = parser.parse_args()
    unknown = [stage for stage in options.stages if stage not in STAGES]
    if unknown:
        parser.error(f"no stage {unknown[0]!r}; there are: {', '.join(STAGES)}")
    if options.list:
        for stage in STAGES:
            print(f"{stage:10}", ", ".join(step.task for step in STEPS if step.stage == stage))
        return 0
    os.chdir(ROOT)
    subprocess.run(["scripts/setup", "test"], check=False)
    # Keep the user's settings.
    os.environ |= compiler_settings() | os.environ
    return summarise(run(selected(STEPS, options.stages or STAGES), LOGS))


if __name__ == "__main__":
    sys.exit(main())
