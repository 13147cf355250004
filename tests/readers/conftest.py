import os
import shutil
import sys

import pytest
from builds import ROOT, needed

sys.path.insert(0, str(ROOT / "python/tests"))


@pytest.fixture(scope="session")
def command_line():
    return needed(os.environ.get("ESPALIER", ROOT / "build/release/espalier"), "build it, or let ESPALIER name it")


@pytest.fixture(scope="session")
def node():
    """Node with its options, to run a script that uses the built npm package."""
    needed(ROOT / "wasm/dist/index.js", "run scripts/wasm")
    # CONTRIBUTING.md says why.
    return [needed(shutil.which("node"), "install Node"), "--no-concurrent-recompilation"]
