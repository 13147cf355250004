"""What these tests use of other builds."""

import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def needed(path, how):
    """A program or a build that these tests cannot do without. If it is missing they fail: nothing here is left out."""
    if not path or not pathlib.Path(path).exists():
        pytest.fail(f"there is no {path or 'such program'}: {how}", pytrace=False)
    return str(path)
