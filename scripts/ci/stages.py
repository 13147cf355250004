"""The steps of each stage of scripts/test. Usage: see scripts/test."""
import argparse
import contextlib
import fcntl
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

import corpora
from runner import PROCESSORS, Step, junit, run, selected, summarise, tap, tap_if_any, timeline

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LOGS = ROOT / "build/test-logs"
# The processor seconds of each step on two processors, with a warm compiler cache: written by --record.
RECORDED = ROOT / "scripts/ci/times.json"
# Steps that keep every processor busy hold this lock. The other steps spend much of their time waiting.
BUSY = ("processors",)
# What must hold before a change lands; what tells soon after an edit; what is slow and rarely red. Minutes to aim at, on
# two processors with a warm compiler cache.
LAND, QUICK, ALL = ("land",), ("quick",), ("all",)
GOALS = {"quick": 5, "land": 25}
# The user's variables that choose what is tested, and are meant to.
KEPT = ("ESPALIER_PYTHON_FRAMEWORKS",)
# A skip is shown with its reason, and the same seed finds the same again.
PYTEST_OPTIONS = "-p no:cacheprovider --color=no -rs --hypothesis-seed=$ESPALIER_SEED"
PYTEST = f"build/python/environment/bin/pytest -q {PYTEST_OPTIONS}"


def ctest(preset, options, name, before=""):
    report = LOGS / f"{name}.xml"
    folder = f"build/{preset}"

    def again(names):
        return (f"cmake --build {folder} && "
                f"ctest --test-dir {folder} --output-on-failure -R {shlex.quote('^(' + '|'.join(map(re.escape, names)) + ')$')}")

    # One more than there are processors: servers and clients wait for each other.
    return {
        "command": f"{before}rm -f '{report}'; ctest --test-dir {folder} --parallel {PROCESSORS + 1} --output-on-failure "
                   f"--output-junit '{report}' {options}",
        "read": junit(report),
        "again": again,
    }


def npm(folder, script, browsers="", more=""):
    settings = f"ESPALIER='{ROOT}/build/release/espalier' ESPALIER_BROWSERS={browsers or 'chrome,firefox'}{more}"

    def again(names):
        # The script of package.json, with a pattern: NODE_OPTIONS takes none.
        command = json.loads((ROOT / folder / "package.json").read_text())["scripts"][script]
        pattern = shlex.quote(f"--test-name-pattern=^({'|'.join(map(re.escape, names))})$")
        return f"cd {folder} && {settings} npm exec -c {shlex.quote(command.replace('--test ', f'--test {pattern} ', 1))}"

    return {
        "command": f"cd {folder} && {settings} npm run --silent {script}",
        "read": tap,
        "again": again,
        # Each script compiles the tests into the same folder.
        "locks": (folder,),
    }


def tests_of_python(step, command, again, prefix="python/"):
    """`command` and `again` are followed by options of pytest, and the second by names of tests below `prefix`."""
    report = LOGS / f"{step}.xml"
    return {
        "command": f"rm -f '{report}'; {command} -o junit_family=xunit1 --junitxml='{report}'",
        "read": junit(report, prefix=prefix),
        "again": lambda names: f"{again.replace('$ESPALIER_SEED', os.environ.get('ESPALIER_SEED', '1'))} {shlex.join(names)}",
    }


# Two builds of the same source must give the same bytes, in any folder, and without a cache. The smallest module stands for
# all: they have the same flags, and what would differ (times, paths) comes from those.
WASM_AGAIN = """
export NODE_PATH=/usr/share/nodejs CCACHE_DISABLE=1
rm -rf build/wasm-again
emcmake cmake -S . -B build/wasm-again -G Ninja -DCMAKE_BUILD_TYPE=Release -DESPALIER_INSTALL=OFF
cmake --build build/wasm-again --target core
cmp build/wasm-again/core.wasm build/wasm/core.wasm
"""

# Without the statistics tests, whose reference computes in 80 bits where Valgrind has 64; without the test whose
# reference casts large integers to float, which Valgrind rounds twice; and without the tests of very many elements, which
# would take minutes.
VALGRIND = """
valgrind --quiet --error-exitcode=1 --leak-check=full build/release/unit_tests \
  --source-file-exclude='*statistics_test*' --test-case-exclude='\
Slices of tensors of several*,patterns: random*,value: a tree of any depth*,*trees that nothing can hold,\
convert: integers become floats*'
"""

# Not what was removed, and not committed yet.
FORMAT = r"""
git ls-files -coz --exclude-standard '*.h' '*.cpp' | while IFS= read -rd '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done |
  xargs -0 clang-format-14 --dry-run --Werror || { echo "to mend it: clang-format-14 -i FILE"; exit 1; }
"""

# The tests of the library in one process each, which tell most within seconds, and the programs that Node's tests start.
EDIT_BUILD = """
cmake --preset release
cmake --build build/release --target unit_tests native_tests cli_tests corpus_test espalier make_sample
"""
EDIT_REPORTS = [LOGS / f"edit-{name}.xml" for name in ("unit_tests", "native_tests", "cli_tests", "ctest")]
UNIT_TESTS = f"""
rm -f '{LOGS}'/edit-*_tests.xml '{LOGS}/edit-ctest.xml'
status=0
for test in unit_tests native_tests cli_tests; do
  build/release/$test --reporters=junit --out='{LOGS}'/edit-$test.xml || status=1
done
ctest --test-dir build/release --output-on-failure --no-tests=error --output-junit '{LOGS}/edit-ctest.xml' \
  -R '^(corrupt.corpus|layout|layout.refused|scripts.runner)$' || status=1
exit $status
"""


def edit_again(names):
    """The tests of C++ with these names, or of CTest."""
    pattern = ",".join(name.replace("\\", "\\\\").replace(",", "\\,") for name in names)
    return (f"cmake --build build/release && for test in unit_tests native_tests cli_tests; do "
            f"build/release/$test -tc={shlex.quote(pattern)}; done; "
            f"ctest --test-dir build/release --output-on-failure -R {shlex.quote('^(' + '|'.join(map(re.escape, names)) + ')$')}")


# The Python tests that run with the module under sanitizers.
SANITIZED = ("types", "files", "like", "torch")
# What trains, has several processes, or belongs to another framework: the ends of the names of Python tests.
NOT_QUICK = ("training", "distributed", "seeds", "accelerate", "lightning", "peft", "transformers", "stores", "checkpointer_jax",
             "examples", "reader", "shards", "substituted", "fan_out", "servers", "program")

# The Node tests of what changed, with the modules that are built already.
CHANGED_NODE_TESTS = f"""
export ESPALIER='{ROOT}/build/release/espalier'
changed=$(git diff --name-only "$(git merge-base HEAD origin/HEAD 2>/dev/null || echo HEAD)"; git ls-files -o --exclude-standard)
case $changed in *wasm/* | *web_demo/*) ;; *) echo "nothing changed in wasm and web_demo"; exit ;; esac
[ -e wasm/dist/core-all.wasm ] || {{ echo "build the modules once: scripts/wasm"; exit 1; }}
status=0
case $changed in *wasm/*) (cd wasm && npm run --silent build && npm run --silent test) || status=1 ;; esac
case $changed in *web_demo/*) (cd web_demo && npm run --silent check && npm run --silent test) || status=1 ;; esac
exit $status
"""

# A free slot takes the first step that can start. One works through the busy steps, and the others through the rest, those of
# the longest chain first: the modules, the page, its browsers. The labels of CTest: tests of "all" are long forms of others, those of "once" have no need of
# a sanitizer, that of "page" comes after the page, and those of "processes" start the command line so often that a sanitizer makes them slow.
STEPS = [
    Step("release", "build", "cmake --preset release && cmake --build build/release", locks=BUSY, sets=LAND),
    Step("lint", "format", FORMAT, sets=LAND + QUICK),
    # A new schema must still read the files of every released one.
    Step("lint", "schema", "for old in schema/released/*.fbs; do flatc --conform $old schema/espalier.fbs; done", sets=LAND + QUICK),
    Step("wasm", "build", "scripts/wasm", locks=("wasm",), sets=LAND),
    # With the page, if that is built in the same run or was; the steps that need the page say so.
    Step("python", "build", "scripts/python --build", after=("web build",), locks=("web_demo",), sets=LAND),
    Step("release", "tests", needs=("release build",), locks=BUSY, sets=LAND,
         **ctest("release", "--label-exclude '^(all|page)$'", "release")),
    Step("web", "build", "cd web_demo && npm ci --no-audit --no-fund --loglevel=error && npm run --silent build",
         needs=("wasm build",), locks=("web_demo",), sets=LAND),
    Step("web", "browsers", needs=("release build", "web build"), sets=LAND, **npm("web_demo", "test:browser", "chrome")),
    Step("python", "tests", needs=("python build",), sets=LAND, **tests_of_python("python-tests", f"{PYTEST} python", PYTEST)),
    Step("wasm", "tests", needs=("release build", "wasm build"), sets=LAND, **npm("wasm", "test")),
    # The build is installed with the page.
    Step("release", "install", needs=("release build", "web build"), locks=("web_demo",), sets=LAND,
         **ctest("release", "--label-regex '^page$'", "release-install")),
    # The package as it is installed, with the stubs of the module.
    Step("python", "types", "cd build/python && environment/bin/mypy --config-file ../../python/pyproject.toml --strict "
         "-p espalier && environment/bin/mypy --config-file ../../python/pyproject.toml --strict ../../python/tests/typed_usage.py",
         needs=("python build",), sets=LAND),
    # What Python saves, in the other readers and in the viewer's page.
    Step("python", "readers", needs=("python build", "release build", "wasm build", "web build"), locks=("web_demo",), sets=LAND,
         **tests_of_python("python-readers", f"{PYTEST} -c python/pyproject.toml --rootdir . tests/readers",
                           f"{PYTEST} -c python/pyproject.toml --rootdir .", prefix="")),
    Step("web", "tests", needs=("release build", "web build"), sets=LAND, **npm("web_demo", "test")),
    Step("wasm", "browsers", needs=("release build", "wasm build"), sets=LAND, **npm("wasm", "test:browser", "chrome")),
    Step("wasm", "package", needs=("release build", "wasm build"), sets=LAND, **npm("wasm", "test:package")),
    Step("sanitize", "build", "cmake --preset fuzz && cmake --build build/fuzz", locks=BUSY, sets=LAND),
    Step("sanitize", "tests", needs=("sanitize build",), locks=BUSY, sets=LAND,
         **ctest("fuzz", "--label-exclude '^(all|once|page|processes)$'", "sanitize")),
    Step("threads", "build", "cmake --preset tsan && cmake --build build/tsan --target native_tests", locks=BUSY, sets=LAND),
    Step("threads", "tests", needs=("threads build",), locks=BUSY, sets=LAND,
         **ctest("tsan", "--tests-regex '^native'", "threads")),
    Step("fuzz", "smoke", f"scripts/fuzz --jobs {PROCESSORS} --runs 15000", needs=("sanitize build",), locks=BUSY, sets=LAND),
    Step("lint", "tidy", "cmake --preset tidy && cmake --build build/tidy -- -k 0",
         locks=BUSY, sets=LAND),
    Step("release", "rest", needs=("release build", "python build", "web build"), locks=(*BUSY, "web_demo"), sets=ALL, minutes=240,
         **ctest("release", "--label-regex '^all$'", "release-rest")),
    Step("sanitize", "rest", needs=("sanitize build",), locks=BUSY, sets=ALL, minutes=240,
         **ctest("fuzz", "--label-regex '^processes$'", "sanitize-rest")),
    Step("fuzz", "long", f"scripts/fuzz --jobs {PROCESSORS} 60", needs=("sanitize build",), locks=BUSY, sets=ALL, minutes=240),
    Step("threads", "rest", needs=("threads build",), locks=BUSY, sets=ALL, minutes=240,
         **ctest("tsan", "--tests-regex '^property' --label-exclude '^all$'", "threads-rest",
                 "cmake --build build/tsan --target roundtrip_test determinism_test delta_test map_test; ")),
    Step("wasm", "firefox", needs=("release build", "wasm build"), sets=ALL, **npm("wasm", "test:browser", "firefox")),
    Step("web", "firefox", needs=("release build", "web build"), sets=ALL, **npm("web_demo", "test:browser", "firefox", more=" PART=1")),
    Step("wasm", "again", WASM_AGAIN, needs=("wasm build",), sets=ALL),
    Step("python", "sanitized", needs=("python build",), sets=ALL, minutes=120,
         **tests_of_python("python-sanitized", f"scripts/python --sanitize {PYTEST_OPTIONS} {' '.join(f'python/tests/test_{name}.py' for name in SANITIZED)}", f"scripts/python --sanitize {PYTEST_OPTIONS}")),
    Step("valgrind", "unit", VALGRIND, needs=("release build",), sets=ALL, minutes=240),
    Step("checks", "mutants", "scripts/mutate-checks --corpus-only", needs=("release build",), locks=BUSY, sets=ALL, minutes=240),
    Step("edit", "build", EDIT_BUILD, locks=BUSY, sets=QUICK),
    Step("edit", "library", UNIT_TESTS, needs=("edit build",), locks=BUSY, sets=QUICK, read=junit(*EDIT_REPORTS), again=edit_again),
    Step("edit", "python", sets=QUICK,
         **tests_of_python("edit-python", f"scripts/python --quick {PYTEST_OPTIONS} {' '.join(f'--ignore-glob=*_{name}.py' for name in NOT_QUICK)}",
                           PYTEST)),
    Step("edit", "node", CHANGED_NODE_TESTS, needs=("edit build",), sets=QUICK, read=tap_if_any),
]
STAGES = list(dict.fromkeys(step.stage for step in STEPS))
# What of scripts/setup the steps need besides what all need, by their stage or name.
PACKAGES = {"wasm": "viewer", "web": "viewer", "wasm browsers": "browsers", "wasm firefox": "browsers", "wasm package": "browsers",
            "web browsers": "browsers", "web firefox": "browsers", "python readers": "browsers", "edit": "quick"}


def packages(steps):
    found = {PACKAGES.get(step.name, PACKAGES.get(step.stage, "checks")) for step in steps}
    found |= {"viewer"} if "browsers" in found else set()
    # The checks that a quick run has need a formatter and a schema compiler alone.
    return sorted({"quick" if kind == "checks" and "edit" in {step.stage for step in steps} else kind for kind in found})


def settings(seed):
    """Environment variables: one compiler cache serves clones in any folder, and downloads are tried again."""
    found = {"CMAKE_BUILD_PARALLEL_LEVEL": str(PROCESSORS), "ESPALIER_SEED": str(seed), "npm_config_fetch_retries": "10"}
    if shutil.which("ccache"):
        found |= {"CMAKE_C_COMPILER_LAUNCHER": "ccache", "CMAKE_CXX_COMPILER_LAUNCHER": "ccache",
                  "CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1", "CCACHE_MAXSIZE": "20G"}
    return found


def recorded():
    return json.loads(RECORDED.read_text()) if RECORDED.is_file() else {}


def main():
    sets = ("quick", "land", "all")
    parser = argparse.ArgumentParser(
        prog="scripts/test", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Runs what must hold before a change lands, or the named sets, stages and steps.",
        epilog="sets: quick (after an edit), land (the default), all (land and what is slow)\n"
               f"stages: {', '.join(STAGES)}\na step: 'lint tidy'")  # fmt: skip
    parser.add_argument("names", nargs="*", metavar="NAME", help="a set, a stage, or a step in quotes")
    parser.add_argument("--list", action="store_true", help="print the steps, and the set of each")
    parser.add_argument("--seed", type=int, help="of everything random; the same seed gives the same run")
    parser.add_argument("--profile", action="store_true", help="write a timeline, build/test-logs/profile.json, for ui.perfetto.dev")
    parser.add_argument("--record", action="store_true", help="keep the times of this run as those that later runs are compared with")
    options = parser.parse_args()
    known = {*sets, *STAGES, *(step.name for step in STEPS)}
    for name in options.names:
        if name not in known:
            hint = "; a step is one argument, in quotes" if any(step.task == name for step in STEPS) else ""
            parser.error(f"no set, stage or step {name!r}; --list prints them{hint}")
    if options.list:
        with contextlib.suppress(BrokenPipeError):
            for step in STEPS:
                print(f"{step.name:18} {' '.join(step.sets)}", flush=True)
            return 0
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    wanted = options.names or ["land"]
    if "quick" in wanted and len(wanted) > 1:
        parser.error("quick goes alone: it builds into the folders that other steps test")
    steps = selected(STEPS, [*wanted, "land"] if "all" in wanted else wanted)
    # A check says the same every time; only a run of all looks for what no run has seen.
    given = os.environ.get("ESPALIER_SEED") or str(int(time.time()) if "all" in wanted else 1)
    if options.seed is None and not re.fullmatch(r"\d+", given):
        parser.error(f"ESPALIER_SEED is {given!r}, and a seed is a number")
    seed = options.seed if options.seed is not None else int(given)
    print(f"seed {seed}: {shlex.join(['scripts/test', *wanted, '--seed', str(seed)])} repeats this run", flush=True)
    os.chdir(ROOT)
    LOGS.mkdir(parents=True, exist_ok=True)
    other = (LOGS / "running").open("w")
    try:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        parser.error("another scripts/test runs in this clone, with the same folders")
    # The steps say what is missing.
    subprocess.run(["scripts/setup", *packages(steps)], check=False)
    # Keep the user's settings, but for what would make other tests of these.
    for name in ("PYTHONPATH", "PYTEST_ADDOPTS", "PART", *(name for name in os.environ if name.startswith("ESPALIER_"))):
        if name not in KEPT:
            os.environ.pop(name, None)
    os.environ |= settings(seed) | os.environ | {"ESPALIER_SEED": str(seed)}
    corpora.unpack_all()
    results = run(steps, LOGS)
    status = summarise(results, GOALS.get(wanted[0]) if len(wanted) == 1 else None, recorded())
    if options.profile:
        (LOGS / "profile.json").write_text(timeline(results))
    if options.record and status == 0:
        times = recorded() | {result.step.name: round(result.cpu_seconds) for result in results}
        RECORDED.write_text(json.dumps(dict(sorted(times.items())), indent=2) + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
