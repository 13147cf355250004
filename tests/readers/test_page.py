"""The wheel, where the page was built before it, has the page: python/tests/test_program.py shows files in it."""

import pathlib

import espalier
from builds import ROOT, needed


def test_the_wheel_has_the_page_that_was_built():
    built = ROOT / "web_demo/dist"
    needed(built / "sources.txt", "run scripts/viewer --build, then scripts/python --build")
    page = pathlib.Path(needed(pathlib.Path(espalier.__file__).parent / "program/viewer", "run scripts/python --build"))
    assert (page / "sources.txt").read_bytes() == (built / "sources.txt").read_bytes()
    assert sorted(path.name for path in page.glob("assets/*.wasm")) == sorted(path.name for path in built.glob("assets/*.wasm"))
