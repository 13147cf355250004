"""Nothing that the package prints lets a name from a file do something to a terminal, or look like another name."""

import inspect
import json
import os
import re
import struct
import traceback
import warnings
import zipfile

import espalier
import numpy as np
import pytest

# A window's title, colours, a forged line, controls of eight bits, and text that runs backwards or has no width.
EVIL = "\x1b]0;owned\x07\x1b[31m\r\nFORGED\x7f\x85\x9b\u061c\u200b\u200e\u202e\u2066\u2069\ufeff"
# Line feeds are the package's own, where none is before the forged line.
RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]|\nFORGED")


def check(text, of):
    assert not RAW.search(text), f"{of}: {text!r}"


def check_object(made, of):
    texts = [repr(made), str(made), f"{made}", repr([made])]
    if hasattr(made, "_repr_html_"):
        texts.append(made._repr_html_())
    if isinstance(made, BaseException):
        texts += traceback.format_exception_only(made) + [str(argument) for argument in made.args]
    for text in texts:
        check(text, of)


def state():
    return {
        EVIL: np.ones(3, np.float32),
        "n": {EVIL: {EVIL + "x": 1, EVIL: EVIL}},
        "record": espalier.Record(EVIL, [(EVIL, EVIL), ("b", espalier.Labelled(EVIL, [EVIL]))]),
        "axes": espalier.AxisNamed(np.ones((2, 2), np.float32), (EVIL, EVIL + "y")),
        "hole": espalier.Placeholder("f32", (2,), (EVIL,)),
        "blocks": espalier.Packed("opaque", (32,), np.zeros(18, np.uint8), block=(EVIL, 32, 18)),
    }


def safetensors(header, data=b""):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def raised(call):
    """The errors and warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = []
        try:
            call()
        except Exception as error:  # noqa: BLE001
            found.append(error)
            found += getattr(error, "errors", ())
    return found + [each.message for each in caught]


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / EVIL
    made.mkdir()
    return made


@pytest.fixture
def file(folder):
    path = folder / f"a{EVIL}.espalier"
    espalier.save(path, state(), metadata={EVIL: EVIL, "step": 1})
    return path


@pytest.fixture
def lossy(folder):
    """A file of another format of which something is lost."""
    path = folder / f"{EVIL}.npz"
    with zipfile.ZipFile(path, "w") as archive:
        header = b"{'descr': '" + EVIL.encode() + b"', 'fortran_order': False, 'shape': (1,), }\n"
        archive.writestr(f"{EVIL}.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(8))
        with archive.open("good.npy", "w") as member:
            np.save(member, np.ones(2))
    return path


def damaged(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    copy = path.with_name(f"damaged{EVIL}.espalier")
    copy.write_bytes(content)
    return copy


def instances(folder, file, lossy):
    """Objects of every public class, as the package makes them of such files."""
    opened = espalier.open(file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        noted = espalier.open(lossy)
        noted.load()
    yield from (opened, opened.state, opened[EVIL], opened["n"], opened["axes"], opened["hole"], opened["record"], opened["n"][EVIL])
    yield from noted.notes
    yield opened.verify()
    yield opened.metadata
    exact = opened.load(exact=True)
    yield from (exact, exact["record"], exact["record"]["b"], exact["axes"], exact["hole"], exact["blocks"])
    yield espalier.OrderedSet((EVIL,))
    mapped = espalier.map(file, {"espalier_map": 1, "rules": [], "rest": "keep"})
    yield mapped
    yield from mapped.targets
    with pytest.warns(UserWarning, match="nothing was loaded") as told:
        ledger = espalier.load(file, like={EVIL: np.ones(4, np.float32), EVIL + "z": 1}, strict=False)[1]
    yield from (warning.message for warning in told)
    yield from (ledger, *ledger.mismatched, *ledger.differences(True))
    saving = espalier.save_async(folder / f"b{EVIL}.espalier", state())
    yield saving
    saving.result()
    yield saving
    checkpointer = espalier.Checkpointer(folder / f"run{EVIL}")
    yield checkpointer
    espalier.save(folder / f"c{EVIL}.espalier", {EVIL: np.ones(3, np.float32)})
    arrays = {EVIL: np.zeros(3, np.float32)}
    yield espalier.prepare_update(folder / f"c{EVIL}.espalier", arrays, read_others=True)
    yield from (espalier.ANY, espalier.SKIP, espalier.spec((1,), "f32", (EVIL,)))
    found = espalier.doctor({EVIL: np.array([np.nan]), "x": [np.array([np.nan])] * 3})
    yield from (found, *found.findings, espalier.doctor(lossy), espalier.doctor(damaged(file)))
    closed = espalier.open(file)
    closed.close()
    yield closed


def failures(folder, file, lossy):
    """The errors and warnings of every public function and method, by what they are of."""
    missing = folder / f"missing{EVIL}"
    bad = folder / f"bad{EVIL}.safetensors"
    bad.write_bytes(safetensors({EVIL: {"dtype": EVIL, "shape": [1], "data_offsets": [0, 4]}}, bytes(4)))
    other = folder / f"other{EVIL}.safetensors"
    other.write_bytes(safetensors({EVIL: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, bytes(4)))
    broken = damaged(file)

    def run_ill(check):
        with espalier.Checkpointer(folder / f"ill{EVIL}", check=check) as ck:
            ck.save(1, {EVIL: np.array([np.nan])})

    def run_again():
        with espalier.Checkpointer(folder / f"run{EVIL}", background=False) as ck:
            ck.save(1, {EVIL: 1})
            ck.save(2, {EVIL: np.ones(9)})
            name = ck.path(2)
            with open(name, "r+b") as step:
                step.seek(-1, os.SEEK_END)
                step.write(b"\xff")
            ck.restore()

    opened = espalier.open(file)
    calls = {
        "load": [
            lambda: espalier.load(missing), lambda: espalier.load(bad), lambda: espalier.load(broken), lambda: espalier.load(lossy),
            lambda: espalier.load(file, at=f"n/{EVIL}zz"), lambda: espalier.load(file, like={EVIL: 1, EVIL + "y": np.ones(2)}),
            lambda: espalier.load(file, framework="torch"),
        ],
        "load_bytes": [lambda: espalier.load_bytes(bad.read_bytes())],
        "open": [
            lambda: espalier.open(missing), lambda: espalier.open(bad), lambda: espalier.open(folder),
            lambda: espalier.open(f"file://{missing}"), lambda: opened["n"][EVIL + "zz"], lambda: opened.at(EVIL + "/zz"),
            lambda: opened.find(EVIL + "{"), lambda: opened[EVIL][9], lambda: opened["hole"].numpy(), lambda: opened["blocks"].numpy(),
            lambda: espalier.open(broken).verify(), lambda: opened["record"].load()["zz"], lambda: opened["record"].load().zz,
        ],
        "save": [
            lambda: espalier.save(folder / EVIL / "none", 1), lambda: espalier.save(file, {EVIL: lambda: 0}),
            lambda: espalier.save(file, 1, replace=False), lambda: espalier.save(file, {EVIL: "\ud800"}),
            lambda: espalier.save(file, 1, base=missing), lambda: espalier.save(file, 1, metadata={EVIL: np.ones(1)}),
        ],
        "save_async": [lambda: espalier.save_async(folder / EVIL / "none", 1).result(), lambda: espalier.save_async(file, {EVIL: len})],
        "save_bytes": [lambda: espalier.save_bytes({EVIL: {EVIL: open}})],
        "save_safetensors": [lambda: espalier.save_safetensors(folder / f"s{EVIL}.safetensors", {EVIL: {EVIL: 1}})],
        "save_orbax": [lambda: espalier.save_orbax(other, {})],
        "map": [
            lambda: espalier.map(other, {"espalier_map": 1, "rules": [f"{EVIL} <-> b"]}),
            lambda: espalier.map(other, {"espalier_map": 1, "rules": ["a <-> b"]}), lambda: espalier.map(missing, EVIL),
            lambda: espalier.map(other, missing.with_suffix(".json")),
            lambda: espalier.map(other, {"espalier_map": 1, "rules": [], "rest": "keep"}).__reduce__(),
        ],
        "doctor": [
            lambda: espalier.doctor(missing), lambda: espalier.doctor(bad), lambda: espalier.doctor(file, f"{EVIL}zz"),
            lambda: espalier.doctor({EVIL: len}), lambda: espalier.doctor({EVIL: 1}, EVIL + "{"),
        ],
        "key_maps": [],
        "apply": [lambda: espalier.apply(file, {EVIL: np.ones(4, np.float32)}), lambda: espalier.apply(missing, {})],
        "prepare_update": [lambda: espalier.prepare_update(file, {EVIL + "a": np.ones(3, np.float32)})],
        "register": [],
        "spec": [lambda: espalier.spec((1,), "f32 " + EVIL)],
        "Checkpointer": [
            run_again, lambda: run_ill("warn"), lambda: run_ill("raise"), lambda: espalier.Checkpointer(file), lambda: espalier.Checkpointer(folder / "x", best=(EVIL, "min")).save(1, 1, metrics={EVIL + "b": 1}),
        ],
    }
    for name, each in calls.items():
        for call in each:
            for error in raised(call):
                yield name, error


def test_no_object_prints_what_a_terminal_obeys(folder, file, lossy):
    shown = set()
    for made in instances(folder, file, lossy):
        check_object(made, type(made).__name__)
        shown.add(type(made))
    public = {each for each in (getattr(espalier, name) for name in espalier.__all__) if inspect.isclass(each)}
    assert {each.__name__ for each in public - shown if not issubclass(each, Exception)} == set()


def test_no_error_or_warning_prints_what_a_terminal_obeys(folder, file, lossy):
    seen = {}
    for name, error in failures(folder, file, lossy):
        check_object(error, f"{name}: {type(error).__name__}")
        seen.setdefault(name, set()).add(type(error))
    functions = {name for name in espalier.__all__ if inspect.isroutine(getattr(espalier, name))}
    # Neither has a name from a file in its errors.
    assert functions - set(seen) == {"key_maps", "register"}
    classes = {each for each in map(lambda name: getattr(espalier, name), espalier.__all__) if inspect.isclass(each) and issubclass(each, Exception)}
    for each in classes:  # What a program makes of them is as safe.
        if issubclass(each, espalier.EspalierError) and each is not espalier.TreeMismatch:
            check_object(each(f"no {EVIL}", path=EVIL), each.__name__)
            assert each("x", path=EVIL).path == EVIL
    caught = set().union(*seen.values())
    assert {each.__name__ for each in caught} >= {
        "CheckpointExists", "CheckpointNotFound", "CheckpointOSError", "Corrupt", "DamagedCheckpoint", "EspalierError", "HealthWarning",
        "KeyPathError", "LossWarning", "SliceError", "TreeMismatch", "Unhealthy", "Unsupported",
    }  # fmt: skip


def test_data_stays_exact(file):
    with espalier.open(file) as opened:
        assert opened[EVIL].path == opened.at(opened[EVIL].path).path != ""
        assert EVIL in opened and opened["n"].keys() == [EVIL] and opened["record"].label == EVIL
        with pytest.raises(espalier.KeyPathError) as missing:
            opened.at(f"n/{EVIL}/none")
        assert missing.value.path.startswith(f"n/{EVIL}")
    assert espalier.load(file)["n"][EVIL][EVIL] == EVIL


def test_progress_and_background_lines(file, monkeypatch, capsys):
    from espalier import _progress

    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with _progress.reporting(True, f"loading {EVIL}") as report:
        report(1, 2)
    told = capsys.readouterr()
    # The bar begins its line anew with a carriage return, and may colour it.
    assert "FORGED" in told.err and "\nFORGED" not in told.err and "\x1b]" not in told.err and "\u202e" not in told.err


def test_names_of_files_need_not_be_text(tmp_path):
    path = os.fsencode(tmp_path) + b"/a\xff\x1b.espalier"
    espalier.save(path, {"a": 1})
    with espalier.open(path) as opened:
        assert "a\\xff\\x1b.espalier" in repr(opened)
    with pytest.raises(espalier.CheckpointNotFound, match=re.escape("b\\xff\\x1b")):
        espalier.open(os.fsencode(tmp_path) + b"/b\xff\x1b")
    assert str(espalier.EspalierError("\ud800\udcff")) == "\\ud800\\udcff"
