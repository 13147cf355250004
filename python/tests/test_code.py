"""load() warns of what another program would run, open().notes lists it, and nothing is run."""

import contextlib
import pathlib
import sys
import warnings

import pytest

import espalier

SUPPORT = pathlib.Path(__file__).resolve().parents[2] / "tests/support"
sys.path.insert(0, str(SUPPORT))

import code_pickles  # noqa: E402

CHECKPOINTS = list(code_pickles.checkpoints())


@pytest.mark.parametrize("checkpoint", CHECKPOINTS, ids=[each.name for each in CHECKPOINTS])
def test_load_warns_and_runs_nothing(checkpoint, tmp_path, monkeypatch):
    file = checkpoint.write(tmp_path / "file")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if checkpoint.is_open:
            # A set of records is no set of Python: the error comes after the warning.
            with contextlib.suppress(espalier.Unsupported):
                espalier.load(file)
            told = [str(each.message) for each in caught if each.category is espalier.CodeWarning]
            assert len(told) == 1
            assert code_pickles.CODE in told[0] or "(open(...).notes has all)" in told[0]
            with espalier.open(file) as opened:
                assert opened.notes[0].kind == "code"
                named = [note.message for note in opened.notes if code_pickles.CODE in note.message]
                assert len(named) == 1 and checkpoint.says in named[0]
        else:
            with pytest.raises(espalier.EspalierError) as refused:
                espalier.load(file)
            assert checkpoint.says in str(refused.value)
            assert "load it" not in str(refused.value) and "joblib.load" not in str(refused.value)
    assert list(work.iterdir()) == []


def test_a_part_warns_too(tmp_path):
    checkpoint = next(each for each in CHECKPOINTS if each.name == "call: GLOBAL REDUCE, .pt")
    with espalier.open(checkpoint.write(tmp_path)) as opened, pytest.warns(espalier.CodeWarning, match="posix.system"):
        opened[1].load()


def test_several_names_are_told(tmp_path):
    names = b"".join(b"cmodule\nname%d\n" % number for number in range(7))
    file = tmp_path / "many.pkl"
    file.write_bytes(b"\x80\x02(" + names + b"t.")
    with pytest.warns(espalier.CodeWarning) as told:
        espalier.load(file)
    text = str(told[0].message)
    assert [f"module.name{number};" in text for number in range(7)] == [True] * 5 + [False] * 2
    assert text.endswith("And 2 more of this kind. (open(...).notes has all)")
