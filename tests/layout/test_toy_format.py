"""A format is a folder and a line: adds one to a copy of the project, and finds it in the commands, in Python, in the page, in the
docs' table and among the fuzz targets.

Usage: test_toy_format.py SOURCE WORK, with the tools of scripts/setup test and the Python environment of scripts/python in SOURCE.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys

SOURCE, WORK = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
COPY = WORK / "copy"
FILE = WORK / "a.toy"
FOLDER = COPY / "src/espalier/foreign/toy"
FORMATS = COPY / "src/espalier/foreign/formats.cpp"

ROW = """#ifndef ESPALIER_FOREIGN_TOY_FORMAT_H_
#define ESPALIER_FOREIGN_TOY_FORMAT_H_

#include "espalier/format/format_info.h"

namespace espalier {

inline constexpr FormatEnding kToyEndings[] = {{".toy", "a toy"}};
inline constexpr FormatInfo kToyFormat{"toy", "Toys", kToyEndings};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_TOY_FORMAT_H_
"""

HEADER = """#ifndef ESPALIER_FOREIGN_TOY_OPENER_H_
#define ESPALIER_FOREIGN_TOY_OPENER_H_

#include "espalier/foreign/toy/format.h"
#include "espalier/read/step_opener.h"

namespace espalier {

bool looks_like_toy(ByteSpan front, std::uint64_t file_size);

class ToyOpener final : public StepOpener {
 public:
  explicit ToyOpener(const OpenOptions& options) : StepOpener(options) {}

 private:
  [[nodiscard]] Result<void> step() override { return {}; }
  [[nodiscard]] Result<Checkpoint> build() override;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_TOY_OPENER_H_
"""

# The tensor is all that comes after four letters.
OPENER = """#include "espalier/foreign/toy/opener.h"

#include <utility>

#include "espalier/format/foreign_parts.h"
#include "espalier/format/table_builder.h"

namespace espalier {

bool looks_like_toy(ByteSpan front, std::uint64_t) { return as_text(front).starts_with("TOY!"); }

Result<Checkpoint> ToyOpener::build() {
  TableBuilder builder(options().limits);
  builder.tensor({DType::kU8, std::vector<std::uint64_t>{options().file_size - 4}});
  builder.place(0, 4);
  builder.container(Kind::kDict);
  builder.open(kMetadataRoot, 0);
  auto tables = builder.finish();
  if (!tables) return propagate(tables);
  auto catalog = Catalog::from_foreign({.format = &kToyFormat,
                                        .tables = std::move(*tables),
                                        .files = std::move(files()),
                                        .nest = options().nest},
                                       options().limits);
  if (!catalog) return propagate(catalog);
  return Checkpoint(std::move(*catalog));
}

}  // namespace espalier
"""

PYTHON = """
import sys, numpy, espalier
assert numpy.array_equal(espalier.load(sys.argv[1]), [1, 2, 3]), espalier.load(sys.argv[1])
"""

NODE = """
import { readFileSync } from 'node:fs'
const { formatOfName, FORMATS, open } = await import(process.argv[1])
const checkpoint = await open(new Uint8Array(readFileSync(process.argv[2])))
const { data } = await checkpoint.root.tensor.read()
console.log(JSON.stringify([checkpoint.format, [...data], formatOfName('b.TOY').title, FORMATS.length]))
"""


def run(*command, folder=COPY, **environment):
    """The output of a command, which must succeed."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True,
                          env={**os.environ, "CCACHE_BASEDIR": str(COPY), "CCACHE_NOHASHDIR": "1", **environment})
    assert done.returncode == 0, f"{command}: {done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout


def copy():
    """The project as it is, and the toy."""
    shutil.rmtree(WORK, ignore_errors=True)
    names = run("git", "ls-files", "-co", "--exclude-standard", folder=SOURCE).splitlines()
    for name in names:
        if (SOURCE / name).is_file():
            (COPY / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(SOURCE / name, COPY / name)
    # What was fetched for WebAssembly, and what tests of Python need.
    for name in ("zstd-source", "zlib-source"):
        if (SOURCE / "build" / name).is_dir():
            shutil.copytree(SOURCE / "build" / name, COPY / "build" / name)
    FILE.write_bytes(b"TOY!\1\2\3")
    FOLDER.mkdir()
    (FOLDER / "format.h").write_text(ROW)
    (FOLDER / "opener.h").write_text(HEADER)
    (FOLDER / "opener.cpp").write_text(OPENER)
    text = FORMATS.read_text()
    text = text.replace('#include "espalier/foreign/zip/opener.h"\n',
                        '#include "espalier/foreign/toy/opener.h"\n#include "espalier/foreign/zip/opener.h"\n')
    text = text.replace("constexpr FileKind kFiles[] = {\n",
                        "constexpr FileKind kFiles[] = {\n    {one(kToyFormat), looks_like_toy, make_machine<ToyOpener>},\n")
    FORMATS.write_text(text)


def check_commands():
    run("cmake", "--preset", "release")
    run("cmake", "--build", "build/release", "--target", "espalier")
    program = str(COPY / "build/release/espalier")
    listed = json.loads(run(program, "ls", "--json", str(FILE)))
    assert listed["format"] == "toy", listed
    assert "toy" in run(program, "help", "formats").split()
    refused = subprocess.run([program, "convert", str(FILE), str(WORK / "b.toy")], capture_output=True, text=True)
    assert "the name ends in .toy (a toy)" in refused.stderr, refused.stderr


def check_docs():
    test = str(COPY / "tests/cli/test_formats.py")
    program = {"ESPALIER": str(COPY / "build/release/espalier")}
    page = COPY / "docs/formats.md"
    before = page.read_text()
    run(sys.executable, test, "--write", **program)
    assert "toy" in page.read_text() and "toy" not in before
    run(sys.executable, test, **program)


def check_fuzz():
    assert "toy" in run("scripts/fuzz", "--list").split()


def check_python():
    python = str(SOURCE / "build/python/environment/bin/python")
    nanobind = run(python, "-m", "nanobind", "--cmake_dir").strip()
    run("cmake", "-S", "python", "-B", "build/module", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
        f"-DPython_EXECUTABLE={python}", f"-Dnanobind_DIR={nanobind}")
    run("cmake", "--build", "build/module", "--target", "_core")
    site = COPY / "build/site/espalier"
    shutil.copytree(COPY / "python/src/espalier", site)
    shutil.copy(COPY / "build/module/_core.abi3.so", site)
    run(python, "-c", PYTHON, str(FILE), folder=WORK, PYTHONPATH=str(site.parent))


def check_page():
    run("scripts/wasm")
    seen = json.loads(run("node", "--input-type=module", "-e", NODE, str(COPY / "wasm/dist/index.js"), str(FILE)))
    assert seen[:3] == ["toy", [1, 2, 3], "Toys"], seen
    run("npm", "ci", "--no-audit", "--no-fund", "--loglevel=error", folder=COPY / "web_demo")
    run("npm", "run", "--silent", "build", folder=COPY / "web_demo")
    assets = [path.read_text() for path in (COPY / "web_demo/dist/assets").glob("*.js")]
    # The page names it where it says what may be dropped, and where it says what can be opened.
    assert any('".toy"' in text and '"Toys"' in text for text in assets)


if __name__ == "__main__":
    copy()
    for check in (check_commands, check_docs, check_fuzz, check_python, check_page):
        check()
        print(f"{check.__name__}: the toy is there")
    shutil.rmtree(WORK)
