"""What `import espalier` does: little, until a name is used."""

import ast
import copy
import importlib.util
import pathlib
import pickle
import pydoc
import subprocess
import sys
import typing

import espalier
import pytest

SOURCE = pathlib.Path(espalier.__file__)


def names_for_type_checkers():
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    return {
        alias.name: each.module for each in block.body for alias in each.names if each.module is not None
    }


def test_type_checkers_see_what_python_imports():
    assert names_for_type_checkers() == espalier._MODULE_OF
    assert sorted(espalier._MODULE_OF) == sorted(set(espalier.__all__) - {"__version__"})


@pytest.mark.parametrize("name", espalier.__all__)
def test_each_name_is_what_its_module_has(name):
    found = getattr(espalier, name)
    if name != "__version__":
        assert found is getattr(sys.modules[f"espalier.{espalier._MODULE_OF[name]}"], name)
    assert getattr(espalier, name) is found


def test_a_name_that_there_is_not():
    with pytest.raises(AttributeError, match="module 'espalier' has no attribute 'lod'"):
        espalier.lod  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'lod' from 'espalier'"):
        from espalier import lod  # noqa: F401


def test_star_brings_all():
    names = {}
    exec("from espalier import *", names)
    assert set(espalier.__all__) <= set(names)


def test_help_shows_what_is_imported_when_it_is_used():
    text = pydoc.render_doc(espalier, renderer=pydoc.plaintext)
    assert "Loads a checkpoint, or what is `at` a key path of it." in text
    assert "class Checkpointer" in text
    assert typing.get_type_hints(espalier.open)["return"] is espalier.Checkpoint


def test_values_pickle_by_names_that_are_there(file):
    espalier.save(file, {"a": [1, 2]})
    with espalier.open(file) as checkpoint:
        node = pickle.loads(pickle.dumps(checkpoint["a"]))
    assert node.load() == [1, 2]
    for each in (espalier.ANY, espalier.Labelled("x", 1), espalier.Unsupported("no", path="a")):
        assert repr(pickle.loads(pickle.dumps(each))) == repr(each)
    assert copy.copy(espalier.SKIP) is espalier.SKIP


def fresh(program):
    """What a new process prints, in which only the package's own folder is added to the path."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_the_import_brings_none_of_the_modules_that_take_long():
    program = """
import sys
before = set(sys.modules)
import espalier
print(*set(sys.modules) - before)
"""
    brought = set(fresh(program))
    assert "espalier._core" in brought
    slow = {"numpy", "typing", "dataclasses", "inspect", "re", "enum", "threading", "asyncio", "torch", "espalier._api"}
    assert not brought & slow, brought & slow


def test_dir_lists_what_is_not_imported_yet():
    listed = fresh("import espalier; print(*dir(espalier))")
    assert {*espalier.__all__, "__doc__"} <= set(listed)
    # help() imports what is listed.
    assert ("torch" in listed) == (importlib.util.find_spec("torch") is not None)


def test_a_state_without_arrays_needs_no_numpy_to_be_saved(file):
    program = f"""
import sys
import espalier
espalier.save({str(file)!r}, {{"step": 7}})
print("numpy" in sys.modules)
"""
    assert fresh(program) == ["False"]


def test_threads_may_use_the_first_name_at_once():
    program = """
import threading
import espalier
found = []
start = threading.Barrier(8)
def use():
    start.wait()
    found.append((espalier.load, espalier.Checkpointer, espalier.ANY))
threads = [threading.Thread(target=use) for _ in range(8)]
[each.start() for each in threads], [each.join() for each in threads]
print(len(found), len(set(found)))
"""
    assert fresh(program) == ["8", "1"]
