"""Compares the maps of maps/ with the converters of other projects, by the cases that make_cases.py made.

Usage: ESPALIER=path/to/espalier python3 test_maps.py. The last line is "N passed, N failed".
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import report

HERE = pathlib.Path(__file__).resolve().parent
MAPS = HERE.parent.parent / "maps"
ESPALIER = os.environ.get("ESPALIER") or sys.exit("ESPALIER must name the command line")


def check(name, condition, message):
    report.check(condition, f"{name}: {message}")


def run(*arguments):
    done = subprocess.run([ESPALIER, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def tensors(file):
    """The names of a file's tensors, sorted: some converters write them in another order."""
    code, text = run("ls", file, "--json")
    return sorted(node["path"] for node in json.loads(text)["nodes"]) if code == 0 else text


def compare(name, made, wanted, tolerance):
    check(name, tensors(made) == tensors(wanted), f"{tensors(made)} and not {tensors(wanted)}")
    options = ["--atol", tolerance, "--rtol", tolerance] if tolerance else []
    for path in tensors(wanted):
        # One by one: the order of the keys does not matter.
        code, text = run("diff", made, wanted, "--no-metadata", *options, path.replace("[", "\\["))
        check(name, code == 0, f"{path}: {text.strip()}")


def options_of(case, folder):
    options = []
    if "config" in case:
        config = folder / "config.json"
        config.write_text(json.dumps(case["config"]))
        options += ["--config", config]
    return options


def check_case(folder):
    name = folder.name
    case = json.loads((folder / "case.json").read_text())
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        options = ["--map", MAPS / f"{case['map']}.json", *options_of(case, work)]
        inputs = []
        for each in case["left"]:
            file = folder / each["file"]
            inputs += ["--in", f"{each['label']}={file}"] if each["label"] else [file]
        # With flat names, whatever the map makes.
        right = work / "right.safetensors"
        code, text = run("map", *inputs, "-o", right, "--no-metadata", *options)
        check(name, code == 0, text.strip())
        if code == 0:
            compare(name, right, folder / case["right"], case.get("tolerance"))
        if case.get("back", {}) is None:
            return
        for word, size in case.get("back", {}).items():
            options += ["--set", f"{word}={size}"]
        back = work / "back"
        is_folder = any(each["label"] for each in case["left"])
        if is_folder:
            back.mkdir()
        code, text = run("map", folder / case["right"], "-o", back, "--to", "safetensors", "--no-metadata", "--map-reverse",
                         *options)
        check(name, code == 0, f"--reverse: {text.strip()}")
        for each in case["left"] if code == 0 else ():
            compare(f"{name} --reverse", back / f"{each['label']}.safetensors" if is_folder else back, folder / each["file"], None)


def check_adapter():
    """The map of the base makes of an adapter what a map of adapters makes of it, byte for byte."""
    name = "llama-torchtune --lora"
    folder = HERE / "cases" / "peft-torchtune"
    case = json.loads((folder / "case.json").read_text())
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        options = [*options_of(case, work), "--no-metadata"]
        for reverse, source, wanted in [([], "left", "right"), (["--map-reverse"], "right", "left")]:
            source, wanted = (folder / f"{each}.safetensors" for each in (source, wanted))
            made, same = work / "made.safetensors", work / "same.safetensors"
            for out, words in [(same, ["--map", "peft-torchtune"]), (made, ["--map", "llama-torchtune", "--lora", "peft <-> torchtune"])]:
                code, text = run("map", source, "-o", out, *words, *reverse, *options, "--force")
                check(name, code == 0, text.strip())
            if not made.exists() or not same.exists():
                continue
            check(name, made.read_bytes() == same.read_bytes(), f"{source.name}: other bytes than those of peft-torchtune")
            compare(name, made, wanted, None)


def main():
    cases = {path.name for path in (HERE / "cases").iterdir()}
    maps = {path.stem for path in MAPS.glob("*.json")}
    check("cases", cases == maps, f"without a case or without a map: {', '.join(sorted(cases ^ maps))}")
    known = {each["name"] for each in json.loads(run("map", "--list", "--json")[1])["maps"]}
    check("--list", known == maps, f"differs from maps/: {', '.join(sorted(known ^ maps))}")
    for name in sorted(cases & maps):
        check_case(HERE / "cases" / name)
    check_adapter()
    return report.end_of_checks()


if __name__ == "__main__":
    sys.exit(main())
