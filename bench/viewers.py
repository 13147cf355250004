#!/usr/bin/env python3
"""Opens the same files in Espalier's viewer and in others, and measures our page. bench/README.md explains it."""

import argparse
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile

from harness import (GIB, MIB, OURS, ROOT, as_list, attempt, build, first_line, machine_facts, one_of,
                     put_between_markers, working_folder)

GROUPS = ("load", "million", "large", "statistics", "run", "does", "small", "hostile", "big", "many")
OWN = GROUPS[:6]
BEGIN, END = "<!-- figures begin: bench/viewers.py writes the lines below -->", "<!-- figures end -->"
HERE, PAGE, WEB = ROOT / "bench/viewers", ROOT / "web_demo", ROOT / "bench/web"
CLI = ROOT / "build/release/espalier"
DIGITS = ROOT / "tests/data/digits/digits.safetensors"
KEPT = ROOT / "build/bench-viewers"
VENV = KEPT / "venv"
LARGE = 20 * GIB
MINIMUM_FREE = 4 * GIB
LIMIT = 60

# By group: the files to make, and the viewers that open each.
OPENED = {
    "small": (["small"], [
        ("espalier", "small.espalier"), ("espalier", "small.safetensors"), ("netron", "small.safetensors"),
        ("netron", "small.pt"), ("netron", "small.npz"), ("netron", "small.h5"), ("h5web", "small.h5"),
        ("hyperparam", "small.safetensors"), ("sft-cli", "small.safetensors"), ("safe-view", "small.safetensors"),
        ("espalier", "special.espalier"), ("netron", "special.safetensors"), ("sft-cli", "special.safetensors")]),
    "hostile": (["small"], [
        (viewer, file) for file in ("length.safetensors", "twice.safetensors", "beyond.safetensors")
        for viewer in ("espalier", "netron")]),
    "big": (["gib", "large"], [
        ("espalier", "gib.espalier"), ("espalier", "gib.safetensors"), ("netron", "gib.safetensors"),
        ("netron-served", "gib.safetensors"), ("h5web", "gib.h5"),
        ("espalier", "large.espalier"), ("espalier", "large.safetensors"), ("netron", "large.safetensors"),
        ("h5web", "large.h5"), ("sft-cli", "large.safetensors"), ("safe-view", "large.safetensors")]),
    "many": (["many", "million"], [
        ("espalier", "many.espalier"), ("espalier", "many.safetensors"), ("netron", "many.safetensors"),
        ("h5web", "many.h5"), ("espalier", "million.espalier"), ("espalier", "million.safetensors"),
        ("netron", "million.safetensors"), ("sft-cli", "many.safetensors"), ("safe-view", "many.safetensors")]),
}
NEEDS = {"load": [], "million": ["million"], "large": ["large"], "statistics": ["gib"], "run": [], "does": ["small"]}
# A name in the file, which a terminal shows once the file is open.
NAMES = {"gib": "weight", "large": "zeros", "special": "bf16", "length": "only_one", "twice": "only_one",
         "beyond": "only_one"}
TITLES = {"espalier": "Espalier", "netron": "Netron, file chosen", "netron-served": "Netron, `netron FILE`", "h5web": "h5web",
          "hyperparam": "Hyperparam", "sft-cli": "sft-cli", "safe-view": "safe-view"}


def size(count):
    for unit, one in (("GiB", GIB), ("MiB", MIB), ("KiB", 1024)):
        if count >= one:
            return f"{count / one:.3g} {unit}" if count < 1000 * one else f"{count / one:.0f} {unit}"
    return f"{count:.0f} B"


def time(ms):
    return f"{ms / 1e3:.3g} s" if ms >= 1000 else f"{ms:.0f} ms"


def make(work, kinds):
    """Makes missing files."""
    for kind in kinds:
        if (work / f"{kind}.safetensors").exists():
            continue
        subprocess.run([VENV / "bin/python", HERE / "files.py", work, CLI, OURS, DIGITS, kind], check=True)
        if kind == "large":
            subprocess.run(["node", WEB / "data.mjs", "sparse", work / "large.espalier", str(LARGE)], check=True,
                           stdout=subprocess.DEVNULL)
    for file in work.iterdir():
        # Read each file once, so that no viewer gains from an earlier one; not files that are nearly all holes.
        if file.stat().st_size < 2 * GIB:
            with open(file, "rb", buffering=0) as opened:
                while opened.read(MIB):
                    pass


@contextlib.contextmanager
def process(*command, **options):
    """A server of a peer, on this machine alone."""
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
                               **options)
    try:
        yield started
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(started.pid, signal.SIGKILL)
        started.wait()


def address_in(started):
    for line in started.stdout:
        if found := re.search(r"http://\S+?:(\d+)", line):
            return f"http://127.0.0.1:{found.group(1)}"
    return None


def free_port():
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        return tried.getsockname()[1]


def opened(viewer, name, work):
    """The outcome of opening a file in a viewer."""
    program = ("node", "--no-warnings", HERE / "page.mjs", viewer, name)
    if viewer in ("espalier", "h5web"):
        return attempt(*program, PAGE / "dist" if viewer == "espalier" else KEPT / "h5web", work)
    if viewer in ("netron", "netron-served"):
        command = [VENV / "bin/netron", "--host", "127.0.0.1", "--port", str(free_port())]
        with process(*command, *([work / name] if viewer == "netron-served" else [])) as server:
            return attempt(*program, address_in(server), work)
    if viewer == "hyperparam":
        # By default it listens on all addresses.
        code = (f"import http from 'node:http'; const {{ listen }} = http.Server.prototype; "
                f"http.Server.prototype.listen = function (port, ...rest) {{ return listen.call(this, port, '127.0.0.1', ...rest) }}; "
                f"(await import('{HERE}/node_modules/hyperparam/bin/serve.js')).serve('{work}')")
        with process("node", "--input-type=module", "-e", code, env=os.environ | {"NODE_ENV": "development"}) as server:
            return attempt(*program, f"{address_in(server)}/files?key={name}", work)
    pattern = NAMES.get(name.split(".")[0], "layers")
    command = [VENV / "bin/sft", "browse"] if viewer == "sft-cli" else [VENV / "bin/safe-view"]
    return attempt(sys.executable, HERE / "terminal.py", LIMIT, pattern, *command, work / name)


def compared(group, work):
    """The lines of the table of viewers."""
    kinds, pairs = OPENED[group]
    make(work, kinds)
    for viewer, name in pairs:
        if not (work / name).exists():
            continue
        report = opened(viewer, name, work)
        print(json.dumps({"viewer": viewer, "file": name} | report), file=sys.stderr, flush=True)
        yield line(viewer, name, report, work)


def line(viewer, name, report, work):
    """A line of the table of viewers."""
    if "error" in report:
        report = {"outcome": f"could not be run: {report['error']}"}
    outcome = " ".join(report["outcome"].replace("|", "/").split())
    figures = ["", "", "", ""]
    if "ms" in report:
        served = viewer in ("netron-served", "hyperparam")
        figures = [time(report["ms"]), size(report["sent"] if served else report["read"]),
                   f"{report['requests']}" if served else "", size(max(0, report["peak"] - report["idle"]))]
    kind = f"`{name}` ({size((work / name).stat().st_size)})"
    return "| " + " | ".join([kind, TITLES[viewer], outcome[:180], *figures]) + " |"


def own(group, work):
    """The lines of the table of our page."""
    make(work, NEEDS[group])
    program = [HERE / "run.mjs"] if group == "run" else [HERE / "ours.mjs", group]
    report = attempt("node", "--no-warnings", *program, PAGE / "dist", work)
    print(json.dumps({group: report}), file=sys.stderr, flush=True)
    if "error" in report:
        yield group, f"could not be measured: {report['error']}", ""
        return
    yield from globals()[f"{group}_lines"](report)


def spread(values):
    return f"{time(statistics.median(values))} ({time(min(values))} - {time(max(values))})"


def load_lines(report):
    code = {kind: count for kind, count in report["bytes"].items() if kind != "data"}
    parts = ", ".join(f"{kind}: {size(count)}" for kind, count in code.items())
    yield "first load, gzipped copies, without the example's data", size(sum(code.values())), f"{parts}; {report['requests']} requests"
    for what, key in (("first paint", "paint"), ("tree of the example shown and main thread free", "tree")):
        yield f"first load: {what}", spread([s[key] for s in report["samples"]]), f"{len(report['samples'])} fresh browsers"
    yield "first load: longest block of the main thread", spread([s["longest"] for s in report["samples"]]), "tasks above 50 ms count"


def million_lines(report):
    fetched = f"{report['requests']} requests, {size(report['bytes'])}"
    label = "1,000,000 tensors: "
    yield label + "from the index's last byte sent to the tree shown", time(report["tree_after_index"]), fetched
    longest = max([0, *report["blocks"]])
    yield label + "longest block of the main thread while opening", time(longest), f"{len(report['blocks'])} above 50 ms"
    flat = report["flat"]
    yield (label + "as safetensors, names with dots: from the index's last byte sent to the nested tree shown",
           spread([one["tree_after_index"] for one in flat]),
           f"{len(flat)} fresh browsers, longest block {max(max(one['blocks']) for one in flat):.0f} ms")
    yield label + "expand all", time(report["expand"]["ms"]), f"{report['expand']['rows']:,} rows"
    for what, key in (("wheel, 120 turns", "wheel"), ("scroll bar dragged end to end", "drag"), ("100 jumps all over", "jumps")):
        frames = report[key]
        remark = f"median {frames['median']:.1f} ms, 99% {frames['p99']:.1f} ms, {frames['frames']} frames"
        if key == "drag" and frames["moved"] < 1000:
            remark += "; the bar did not move"
        yield label + f"longest frame, {what}", f"{frames['longest']:.1f} ms", remark
    for text, found in report["filters"].items():
        longest = max(one["longest"] for one in found)
        yield label + f"filter `{text}`", spread([one["ms"] for one in found]), f"{found[0]['said']}, longest block {longest:.0f} ms"
    if found := re.search(r"([\d.]+ [KMG]iB) of memory", report["said"]):
        yield label + "the module's memory, by the page's own meter", found.group(1), "not in what the browser tells"
    for when, key in (("opened", "open"), ("all open, after the filters", "end")):
        memory = report.get(f"memory_{key}")
        rise = report[f"peak_{key}"] - report["idle"]
        yield (label + f"memory by the browser, {when}", size(memory) if memory else "not told",
               f"peak of its process: {size(rise)} above the {size(report['idle'])} of an empty page")


def large_lines(report):
    label = f"{size(report['file'])}, sparse, from the disk: "
    meter = report["said"].split(", of a file")[0].strip()
    yield label + "tree shown", time(report["ms"]), f"its processes read {size(report['read'])}, the page says {meter}"
    meter = report["said_with_sample"].split(", of a file")[0].strip()
    yield (label + "statistics of a sample of 1 GiB", time(report["sample_ms"]),
           f"by then {size(report['read_with_sample'])} read, the page says {meter}")


def statistics_lines(report):
    run = report["exact"]
    label = "statistics of all of 1 GiB of bf16, warm: "
    handed = statistics.median(report["handed"])
    yield label + "time", f"{time(run['ms'])}, {GIB / run['ms'] / 1e6:.2f} GB/s", report["numbers"][:60]
    yield "reading all of it and nothing else, in the same page", time(handed), f"{GIB / handed / 1e6:.2f} GB/s; the statistics take {run['ms'] / handed:.2f} of that time"
    yield "health of 1 GiB of bf16, from opening the file on", time(report["examined"]), "it begins after a second"
    yield label + "longest time without a frame", f"{run['longest']:.0f} ms", f"a progress bar in {run['progress']} frames"
    yield (label + "memory", size(report["memory"]) if report.get("memory") else "not told",
           f"peak of its process rose by {size(report['peak_after'] - report['peak_before'])}")


def run_lines(report):
    samples = report["samples"]
    label = f"a run of {report['files']} checkpoints of {size(report['size'])}, by address: "
    middle = {key: statistics.median(s[key] for s in samples) for key in samples[0]}
    yield label + "first chart", spread([s["picture"] for s in samples]), f"{len(samples)} fresh browsers"
    yield (label + "all read", spread([s["whole"] for s in samples]),
           f"{middle['requests']:.0f} requests, {size(middle['bytes'])}; {middle['cpu']:.0f} s of a processor, by all of the browser")
    yield label + "longest block of the main thread", spread([s["longest"] for s in samples]), "tasks above 50 ms count"


def does_lines(report):
    for what, said in report.items():
        yield what, said.replace("|", "/"), ""


def prepare(wanted, groups):
    """Builds the page and installs the peers, or tells what is missing."""
    if wanted:
        build([["npm", "ci", "--no-audit", "--no-fund"], ["npx", "vite", "build"]], PAGE)
    for path in (OURS, CLI, PAGE / "dist/index.html", ROOT / "wasm/node_modules/puppeteer-core"):
        if not path.exists():
            sys.exit(f"{path.relative_to(ROOT)} is missing; scripts/viewer --build makes it, or --build (the page alone)")
    if not (WEB / "node_modules").exists():
        build([["npm", "ci", "--no-audit", "--no-fund"]], WEB)
    if not (VENV / "bin/netron").exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        build([[sys.executable, "-m", "venv", VENV], [VENV / "bin/pip", "install", "--quiet", "-r", HERE / "requirements.txt"]], KEPT)
    if set(groups) <= set(OWN):
        return
    if not (HERE / "node_modules").exists():
        build([["npm", "ci", "--no-audit", "--no-fund"]], HERE)
    folder = KEPT / "h5web"
    folder.mkdir(parents=True, exist_ok=True)
    build([["node_modules/.bin/esbuild", "h5web.jsx", "--bundle", "--minify", "--format=esm", "--jsx=automatic",
            f"--outfile={folder}/page.js", "--log-level=error"]], HERE)
    (folder / "index.html").write_text('<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="page.css">'
                                       '<div id="root"></div><script type="module" src="page.js"></script>\n')


def peers():
    chosen = json.loads((HERE / "package.json").read_text())["devDependencies"]
    pinned = [line.replace("==", " ") for line in (HERE / "requirements.txt").read_text().split()]
    return ", ".join([*(f"{name} {version}" for name, version in chosen.items()), *pinned])


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", type=one_of(GROUPS), default=GROUPS, help=",".join(GROUPS))
    parser.add_argument("--work", type=pathlib.Path, help="folder for the inputs")
    parser.add_argument("--files", type=pathlib.Path, help="folder of inputs that is kept, to be used again")
    parser.add_argument("--output", type=pathlib.Path, help="page to write the tables into")
    parser.add_argument("--build", action="store_true", help="build the page first")
    return parser.parse_args()


def measure(options, work):
    known = machine_facts(work)
    del known["Crate"]
    known["Command"] = "bench/viewers.py" + ("" if options.only == GROUPS else f" --only {','.join(options.only)}")
    chromium = os.environ.get("CHROMIUM", "/usr/bin/chromium")
    known |= {"Browser": first_line(chromium, "--version") + ", headless", "Node": first_line("node", "--version"),
              "Peers": peers(), "Hangs": f"after {LIMIT} s; a process that takes more than 6 GiB is stopped"}
    ours = [line for group in options.only if group in OWN for line in own(group, work)]
    others = [line for group in options.only if group not in OWN for line in compared(group, work)]
    parts = [as_list(known)]
    if ours:
        parts += ["### Espalier's page", "| What | Measured | |\n|---|---|---|\n" + "\n".join(f"| {' | '.join(line)} |" for line in ours)]
    if others:
        parts += ["### The same files in each viewer", "| File | Viewer | What came of it | Time | Read | Requests | Memory |\n"
                  "|---|---|---|---|---|---|---|\n" + "\n".join(others)]
    return "\n\n".join(parts)


def main():
    options = arguments()
    prepare(options.build, options.only)
    if options.files:
        text = measure(options, working_folder(options.files, MINIMUM_FREE))
    else:
        parent = working_folder(options.work, MINIMUM_FREE)
        with tempfile.TemporaryDirectory(prefix="bench-viewers-", dir=parent) as folder:
            text = measure(options, pathlib.Path(folder))
    print(text)
    if options.output:
        put_between_markers(options.output, text, BEGIN, END)


if __name__ == "__main__":
    main()
