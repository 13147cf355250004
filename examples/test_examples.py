"""Runs the examples as a user would, and kills them.

Usage: test_examples.py FOLDER ESPALIER, where FOLDER has the programs and ESPALIER is the command line. The last line
is "N passed, N failed".
"""
import array
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

PROGRAMS, ESPALIER = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
STREAMED_SAVE = PROGRAMS / "streamed_save"
HERE = pathlib.Path(__file__).parent
STEPS = 2000
failures = []
passed = 0


def check(condition, message):
    global passed
    if condition:
        passed += 1
    else:
        failures.append(message)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def train(program, folder, level):
    return subprocess.run([PROGRAMS / program, folder, str(STEPS), str(level)], capture_output=True, text=True)


def train_without_a_break(program, folder, level):
    done = train(program, folder, level)
    check(done.returncode == 0 and done.stdout, f"level {level}: {done.stderr}")
    kept = [name for name in names(folder) if name.startswith("step_")]
    check("step_00001000.espalier" in kept and kept[-1] == f"step_{STEPS:08}.espalier", f"kept: {kept}")
    check(len(kept) <= 5, f"kept: {kept}")
    return done.stdout


def train_and_be_killed(program, folder, level, expected):
    """The result is the same to the last bit, however often the program is killed."""
    delays = random.Random(1)
    kills = 0
    for _ in range(200):
        process = subprocess.Popen([PROGRAMS / program, folder, str(STEPS), str(level)], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        if kills < 8:
            time.sleep(delays.uniform(0.02, 0.2))
            process.kill()
        out, err = process.communicate()
        kills += process.returncode < 0
        check(process.returncode in (-9, 0), f"level {level}: {err}")
        if process.returncode == 0:
            break
    check(kills > 0, "the program was never killed")
    check(out == expected, f"level {level}: {out!r} after {kills} kills in place of {expected!r}")
    check(not [name for name in names(folder) if name.endswith(".tmp")], "temporary files are left")


def stream(folder):
    rows, columns = 700, 1000
    data = array.array("f", (i * 0.25 for i in range(rows * columns))).tobytes()
    command = [STREAMED_SAVE, folder / "file", str(rows), str(columns)]
    done = subprocess.run(command, input=data, capture_output=True)
    check(done.returncode == 0, done.stderr)
    check(data in (folder / "file").read_bytes(), "the file does not have the streamed bytes")
    before = (folder / "file").read_bytes()
    done = subprocess.run(command, input=data[:-1], capture_output=True, text=False)
    check(done.returncode == 1 and b"the input ends" in done.stderr, done.stderr)
    check((folder / "file").read_bytes() == before and names(folder) == ["file"], "the old file is not as it was")


def run(program, *arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True)


def read_and_edit(folder):
    """One checkpoint through the short programs, compared by the command line."""
    source = HERE.parent / "tests/data/digits/digits.safetensors"
    file, update, merged = folder / "file.espalier", folder / "update.espalier", folder / "merged.espalier"
    for options in ([], ["--compress"]):
        run(ESPALIER, "convert", source, file, "--nest", "--force", *options)
        done = run(PROGRAMS / "partial_load", file, "model/layers/1/weight", "model/layers/1/bias", "16", "1")
        check(done.returncode == 0 and len(done.stdout.split()) == 2, done.stderr)
        done = run(PROGRAMS / "partial_load", file, "model/layers/1/weight", "model/layers/1/bias", "8", "1")
        check(done.returncode == 1 and "has" in done.stderr, f"a wrong size: {done.stdout}{done.stderr}")

        before = run(ESPALIER, "ls", "--json", "--long", "--all", file).stdout
        metadata = run(ESPALIER, "tree", "--metadata", file).stdout
        done = run(PROGRAMS / "edit", file, "model/layers/1/bias", "step")
        check(done.returncode == 0, done.stderr)
        check(run(ESPALIER, "verify", file).returncode == 0, "the edited file is damaged")
        changed = run(ESPALIER, "show", file, "model/layers/1/bias").stdout
        check("f32 [8]" in changed and "[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]" in changed, changed)
        check(run(ESPALIER, "tree", "--metadata", file).stdout == metadata, "the metadata changed")
        sizes = [sum(node["stored"] < node["bytes"] for node in json.loads(text)["nodes"] if "stored" in node)
                 for text in (before, run(ESPALIER, "ls", "--json", "--long", "--all", file).stdout)]
        check(sizes[0] - 1 <= sizes[1] and (sizes[0] > 0) == bool(options), f"compressed tensors: {sizes}")

        done = run(PROGRAMS / "edit", file, "model/layers/1/bais")
        check(done.returncode == 1 and "not_found" in done.stderr, f"a misspelt path: {done.stderr}")

        run(ESPALIER, "convert", source, update, "--nest", "--force")
        done = run(PROGRAMS / "merge", file, update, merged)
        check(done.returncode == 0, done.stderr)
        check("f32 [16]" in run(ESPALIER, "show", merged, "model/layers/1/bias").stdout, "the update does not win")
        done = run(PROGRAMS / "inspect", merged)
        check(done.returncode == 0 and done.stdout.endswith("intact\n"), done.stdout + done.stderr)
        check("f32 64 model/layers/1/bias" in done.stdout, done.stdout)

    note, expected = folder / "note.safetensors", folder / "expected.espalier"
    header = json.dumps({"__metadata__": {"note": "new"}}).encode()
    note.write_bytes(len(header).to_bytes(8, "little") + header)
    done = run(PROGRAMS / "merge", file, note, merged)
    check(done.returncode == 0, done.stderr)
    run(ESPALIER, "merge", file, note, expected)
    check("note" in run(ESPALIER, "tree", "--metadata", merged).stdout, "the metadata is not merged")
    check(run(ESPALIER, "diff", "--verify", merged, expected).stdout == "equal\n", "`espalier merge` merges otherwise")

    flat = folder / "flat.safetensors"
    flat.write_bytes(source.read_bytes())
    done = run(PROGRAMS / "edit", flat, "model.layers.1.bias")
    check(done.returncode == 0, done.stderr)
    check("f32 [8]" in run(ESPALIER, "show", flat, "model.layers.1.bias").stdout, "the tensor did not change")
    show = [run(ESPALIER, "tree", "--metadata", name).stdout for name in (flat, source)]
    check(show[0] == show[1] and show[0] != "", f"the metadata changed: {show}")

    damaged = bytearray(merged.read_bytes())
    damaged[-1] ^= 1
    merged.write_bytes(damaged)
    done = run(PROGRAMS / "inspect", merged)
    check(done.returncode == 1 and "chunk_corrupt" in done.stdout, done.stdout)
    done = run(PROGRAMS / "inspect", source)
    check(done.returncode == 0 and done.stdout.endswith("no hashes\n"), done.stdout)


def espalier_lines(name):
    """The lines of an example that use the library, without includes and error messages."""
    text = (HERE / name).read_text()
    main = text[text.index("Result<void>" if "\nResult<void> edit" in text or "\nResult<void> merge" in text else "int main"):]
    main = main[:main.index("\n}\n")]
    words = r"Checkpoint|Retention|Best|latest|load_into|contents|merge\(|AsyncSave|saving|saved|loaded|Value|Tensor|DType|save\(|\{\"|\.(shape|data|metadata|compression_level)"
    return [line for line in main.splitlines() if re.search(words, line)]


def main():
    for name, most in (("train_loop.cpp", 20), ("streamed_save.cpp", 15), ("partial_load.cpp", 8), ("edit.cpp", 8),
                       ("merge.cpp", 6)):
        lines = espalier_lines(name)
        check(0 < len(lines) <= most, f"{name} has {len(lines)} lines of Espalier")
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary)
        for program, level in (("train_loop", 0), ("train_loop", 1), ("train_loop_c", 0)):
            expected = train_without_a_break(program, root / f"{program}-{level}", level)
            train_and_be_killed(program, root / f"{program}-killed-{level}", level, expected)
        (root / "stream").mkdir()
        stream(root / "stream")
        (root / "files").mkdir()
        read_and_edit(root / "files")
    for failure in failures:
        print(failure)
    print(f"{passed} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
