#!/usr/bin/env python3
"""Makes the conformance kit: its files, what readers must say of them, and the manifest.

    make_kit.py write FOLDER     writes everything
    make_kit.py compare FOLDER   makes everything anew and compares: the last line is "N passed, N failed"
    make_kit.py large FOLDER     writes the large files, which are not checked in
    make_kit.py pack FILE.tar.xz makes an archive of the kit that needs nothing else of this repository

See README.md.
"""

from __future__ import annotations

import io
import json
import lzma
import pathlib
import re
import sys
import tarfile

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parent
sys.path[:0] = [str(HERE), str(HERE / "readers"), str(TESTS / "reference"), str(TESTS / "support"), str(TESTS.parent / "scripts/ci")]

import corpora
import espalier_reference as reference
import kit_cases
import reference as reader

GOLDEN = {
    "empty": "an empty dict",
    "every_kind": "every kind of node",
    "every_dtype": "every dtype",
    "tied": "tied tensors",
    "chunks": "tensors of several chunks",
    "keys": "odd keys, and orders",
    "metadata": "metadata",
    "compressed": "zstd and planes, by the library",
    "compressed_9": "the same, compressed harder",
}


def described(data: bytes, beside: dict[str, bytes]) -> dict:
    """What the reference reader says of a file that it opens."""
    file = reference.open_file(data, beside)
    unreadable: list[int] = []
    reference.verify(file, unreadable)
    return reader.describe(file, set(unreadable))


def rule_of(case: kit_cases.KitCase) -> str:
    """The rule that a file breaks, which must be that of its name, if it has one."""
    try:
        reference.verify(reference.open_file(case.data, case.beside), [])
    except reference.FormatError as error:
        assert not case.name.startswith("only-") or case.name.startswith(f"only-{error.rule}-"), (case.name, str(error))
        return error.rule
    raise AssertionError(f"the reference reader accepts {case.name}")


def text_of(expected: dict) -> bytes:
    """A line for each part, so that a difference shows where it is."""
    parts = []
    for name, part in expected.items():
        if name == "tensors":
            parts.append(f'"{name}": [' + ",".join("\n " + json.dumps(tensor) for tensor in part) + "]")
        else:
            parts.append(f'"{name}": ' + json.dumps(part))
    return ("{" + ",\n".join(parts) + "}\n").encode("ascii")


def digest_of(data: bytes) -> str:
    """The tree digest that the header has."""
    return data[64:80].hex()


def make() -> dict[str, bytes]:
    """The contents of everything that is checked in, by path."""
    made: dict[str, bytes] = {}
    rows: list[dict] = []

    def add(name: str, file: str, about: str, data: bytes, beside: dict[str, bytes]) -> None:
        expected = described(data, beside)
        made[f"expected/{name}.json"] = text_of(expected)
        rows.append({"file": file, "verdict": expected["verdict"], "version": expected["version"], "expected": f"expected/{name}.json", "about": about})

    assert sorted(GOLDEN) == sorted(path.stem for path in (TESTS / "golden").glob("*.espalier"))
    for name, about in GOLDEN.items():
        add(f"golden-{name}", f"../golden/{name}.espalier", about, (TESTS / "golden" / f"{name}.espalier").read_bytes(), {})
    for case in kit_cases.cases():
        assert len(case.data) <= 80 << 10, f"{case.name} has {len(case.data)} bytes"
        path = f"files/{case.path()}"
        made[path] = case.data
        made |= {f"{pathlib.PurePosixPath(path).parent}/{name}": data for name, data in case.beside.items()}
        if case.verdict == kit_cases.REFUSE:
            rows.append({"file": path, "verdict": "refuse", "rule": rule_of(case), "about": case.about})
            continue
        if case.rule:
            rows.append({"file": path, "verdict": case.verdict, "rule": case.rule, "digest": digest_of(case.data), "about": case.about})
            continue
        add(case.name, path, case.about, case.data, case.beside)
        if case.verdict == kit_cases.EITHER:
            rows[-1]["verdict"] = case.verdict
        assert rows[-1]["verdict"] == case.verdict, case.name
    for name, data in kit_cases.zstd_frames().items():
        row = {"file": f"zstd-frames/{name}.espalier", "verdict": "either", "rule": "R-6.10", "digest": digest_of(data)}
        rows.append(row | {"about": name.replace("-", " ")})
    for case in kit_cases.large_cases():
        row = {"file": f"large/{case.path()}", "verdict": case.verdict}
        row |= {"rule": rule_of(case)} if case.verdict == kit_cases.REFUSE else {"digest": digest_of(case.data)}
        rows.append(row | {"about": case.about})
    rows += hostile_files()
    made["manifest.json"] = ("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n").encode("ascii")
    return made


def hostile_files() -> list[dict]:
    """The Espalier files of ../corrupt, which stay where they are."""
    corpora.unpack("corrupt")
    rows = []
    for entry in json.loads((TESTS / "corrupt" / "expected.json").read_text(encoding="ascii")):
        if not entry["file"].endswith(".espalier"):
            continue
        row = {"file": f"../corrupt/files/{entry['file']}"}
        if "rule" in entry:
            # A file that is missing, or another one, is no error of this file.
            verdict = "incomplete" if entry["rule"] == "R-11.9" else "refuse"
            row |= {"verdict": verdict, "rule": entry["rule"]}
        elif "limits" in entry:
            row |= {"verdict": "accept", "about": "within the limits that every reader has"}
        else:
            row |= {"verdict": "either", "about": "beyond the limits that every reader has"}
        if row["verdict"] != "refuse":
            row["digest"] = digest_of((HERE / row["file"]).read_bytes())
        rows.append(row)
    return rows


# --- The kit alone --------------------------------------------------------------------------------

PACKED = "espalier-conformance-kit"
FOLDERS = {"../golden/": "golden/", "../corrupt/files": "hostile"}  # Those of the repository, and those of the archive.


def renamed(text: str) -> str:
    for old, new in FOLDERS.items():
        text = text.replace(old, new)
    return text


def packed_files() -> dict[str, bytes]:
    """What the archive has, by path: the format's page, the runner, and every file with what to say of it."""
    made = make()
    rows = json.loads(made.pop("manifest.json"))
    for row in rows:
        if row["file"].startswith("../"):
            made[renamed(row["file"])] = (HERE / row["file"]).read_bytes()
            beside = (HERE / row["file"]).parent
            if beside.name not in ("files", "golden"):  # A checkpoint in several files.
                made |= {renamed(f"../corrupt/files/{beside.name}/{path.name}"): path.read_bytes() for path in beside.iterdir()}
        elif row["file"].startswith("zstd-frames/"):
            made[row["file"]] = (HERE / row["file"]).read_bytes()
        row["file"] = renamed(row["file"])
    made |= large_files("large/")
    made["manifest.json"] = ("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n").encode("ascii")
    readme = (HERE / "README.md").read_text(encoding="utf-8").split("\n## How it is made")[0] + "\n"
    readme = re.sub(r"<!-- repository -->.*?<!-- end -->\n*", "", readme, flags=re.DOTALL)
    made["README.md"] = renamed(readme).replace("../../docs/format.md", "format.md").encode()
    for name, path in (("format.md", "docs/format.md"), ("LICENSE", "LICENSE"), ("run.py", "tests/conformance/run.py")):
        made[name] = (TESTS.parent / path).read_bytes()
    # The page's links to other parts of the repository lead nowhere here.
    page = re.sub(r"\[([^\]]*)\]\(\.\./[^)]*\)", r"`\1` of the repository", made["format.md"].decode("utf-8"))
    made["format.md"] = page.encode("utf-8")
    return made


def pack(archive: pathlib.Path) -> int:
    made = packed_files()
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w", format=tarfile.PAX_FORMAT) as out:
        for path, data in sorted(made.items()):
            entry = tarfile.TarInfo(f"{PACKED}/{path}")
            entry.size, entry.mode = len(data), 0o644
            out.addfile(entry, io.BytesIO(data))
    archive.write_bytes(lzma.compress(tar.getvalue(), preset=6))
    print(f"{archive}: {len(made)} files, {archive.stat().st_size} bytes")
    return 0


def large_files(prefix: str) -> dict[str, bytes]:
    made: dict[str, bytes] = {}
    for case in kit_cases.large_cases():
        path = prefix + case.path()
        made[path] = case.data
        made |= {f"{path.rsplit('/', 1)[0]}/{name}": data for name, data in case.beside.items()}
    return made


def write_large(folder: pathlib.Path) -> None:
    for path, data in large_files("").items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)


def files_of(folder: pathlib.Path) -> list[str]:
    """The paths of all made files that are there."""
    return [path.relative_to(folder).as_posix() for part in ("files", "expected") for path in (folder / part).rglob("*") if path.is_file()]


def write(folder: pathlib.Path) -> int:
    made = make()
    for old in files_of(folder):
        if old not in made:
            (folder / old).unlink()
    for path, data in made.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    print(f"{len(made)} files written")
    return 0


def compare(folder: pathlib.Path) -> int:
    made = make()
    failures = [path for path, data in made.items() if not (folder / path).is_file() or (folder / path).read_bytes() != data]
    failures += [path for path in files_of(folder) if path not in made]
    for path in failures:
        print(f"{path} is not what this program makes")
    print(f"{len(made) - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("write", "compare", "large", "pack"):
        sys.exit(__doc__)
    sys.setrecursionlimit(20_000)
    sys.exit({"write": write, "compare": compare, "large": write_large, "pack": pack}[sys.argv[1]](pathlib.Path(sys.argv[2])))
