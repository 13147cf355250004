import pathlib

import pytest


@pytest.fixture
def file(tmp_path):
    return tmp_path / "run.espalier"


@pytest.fixture(scope="session")
def repository():
    return pathlib.Path(__file__).resolve().parent.parent.parent
