import os
import pathlib
import signal

import pytest

# Read when JAX makes its first array, here and in the processes that tests start.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4".strip()


@pytest.fixture
def file(tmp_path):
    return tmp_path / "run.espalier"


@pytest.fixture
def handled_interrupts():
    """A shell's background job ignores them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def repository():
    return pathlib.Path(__file__).resolve().parent.parent.parent


def pytest_configure(config):
    config.addinivalue_line("markers", "gpu: needs a GPU that torch can use; not run without one")


def _has_gpu():
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def pytest_collection_modifyitems(config, items):
    """Leaves out tests that need a GPU where there is none, and says so: they neither pass nor fail."""
    of_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if of_gpu and not _has_gpu():
        items[:] = [item for item in items if item not in of_gpu]
        config.stash[_NOT_RUN] = [item.nodeid for item in of_gpu]


def pytest_terminal_summary(terminalreporter, config):
    for name in config.stash.get(_NOT_RUN, []):
        terminalreporter.write_line(f"not run, as there is no GPU: {name}")


_NOT_RUN = pytest.StashKey()
