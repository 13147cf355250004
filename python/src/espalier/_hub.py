"""Models of the Hugging Face Hub by their names: hf:org/name[/file][@revision]."""

from __future__ import annotations

import re
import urllib.parse

from ._errors import EspalierError

_HUB = "https://huggingface.co"
# The file that opens a repository: the index of a model in several files, or the only file.
_MODELS = ("model.safetensors.index.json", "model.safetensors")
_NAME = re.compile(r"hf:(?!//)((?:datasets/|spaces/)?[\w.-]+/[\w.-]+)(?:/([^@?#]+))?(?:@([^@?#]+))?/?")


def is_name(path: str) -> bool:
    return path.startswith("hf:") and not path.startswith("hf://")


def addresses(name: str) -> list[str]:
    """The URLs that a name may mean: the first that exists."""
    found = _NAME.fullmatch(name)
    if found is None:
        raise EspalierError(f"{name}: models of the Hub are named hf:org/name, hf:org/name/file or hf:org/name/file@revision")
    repository, file, revision = found[1], found[2], urllib.parse.quote(found[3] or "main", safe="")
    files = [urllib.parse.quote(file)] if file else _MODELS
    return [f"{_HUB}/{repository}/resolve/{revision}/{each}" for each in files]
