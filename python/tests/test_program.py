"""The command line in the wheel: as pip installs it, it lists files and shows them in its page.

These tests install python/dist/espalier_checkpoint-*.whl, which scripts/python --build makes. A wheel that was built without the page
must say what to do; tests/readers/test_page.py wants one that has it.
"""

import json
import os
import platform
import re
import signal
import subprocess
import sys
import sysconfig
import urllib.request

import espalier
import numpy as np
import pytest


@pytest.fixture(scope="session")
def wheel(repository):
    found = sorted((repository / "python/dist").glob(f"espalier_checkpoint-*_{platform.machine()}.whl"))
    if len(found) != 1:
        pytest.fail(f"not one wheel for this machine: {found}; scripts/python --build makes it", pytrace=False)
    return found[0]


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def pip(python, *arguments, umask=0o022, **environment):
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", "--ignore-installed", *arguments,
        umask=umask, env={**clean_environment(), **environment})  # fmt: skip


def clean_environment():
    """Without what leads to another page or package."""
    return {name: value for name, value in os.environ.items() if name not in ("ESPALIER_VIEWER", "PYTHONPATH")}


def new_python(folder, *options):
    """Python of a fresh environment. What the package depends on lies in that of the tests."""
    run(sys.executable, "-m", "venv", "--without-pip", *options, folder)
    [site] = folder.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin/python"


class Installed:
    def __init__(self, package, command, **environment):
        self.package = package
        self.command = [str(part) for part in command]
        self.environment = {**clean_environment(), **environment}

    def run(self, *arguments, code=0):
        done = subprocess.run([*self.command, *map(str, arguments)], capture_output=True, text=True, env=self.environment, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr


def in_environment(wheel, folder, umask=0o022):
    python = new_python(folder)
    pip(python, wheel, umask=umask)
    [package] = folder.glob("lib/python*/site-packages/espalier")
    return Installed(package, [folder / "bin/espalier"])


def as_module(wheel, folder):
    installed = in_environment(wheel, folder)
    return Installed(installed.package, [folder / "bin/python", "-m", "espalier"])


def with_a_umask_of_groups(wheel, folder):
    return in_environment(wheel, folder, 0o002)


def of_a_user(wheel, folder):
    base = folder / "user"
    python = new_python(folder / "environment", "--system-site-packages")
    pip(python, "--user", wheel, umask=0o002, PYTHONUSERBASE=str(base))
    [package] = base.glob("lib/python*/site-packages/espalier")
    return Installed(package, [base / "bin/espalier"], PYTHONUSERBASE=str(base))


def in_a_target(wheel, folder):
    target = folder / "target"
    python = new_python(folder / "environment")
    pip(python, "--target", target, wheel)
    return Installed(target / "espalier", [python, "-m", "espalier"], PYTHONPATH=str(target))


def through_a_link(wheel, folder):
    """As pipx and uv put their tools on the PATH."""
    installed = in_environment(wheel, folder / "environment")
    (folder / "link").symlink_to(folder / "environment/bin/espalier")
    return Installed(installed.package, [folder / "link"])


WAYS = [in_environment, as_module, with_a_umask_of_groups, of_a_user, in_a_target, through_a_link]


@pytest.fixture(scope="module", params=WAYS, ids=lambda way: way.__name__)
def installed(request, wheel, tmp_path_factory):
    return request.param(wheel, tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    path = tmp_path_factory.mktemp("sample") / "run.espalier"
    espalier.save(path, {"model": {"bias": np.zeros(3, np.float32)}, "step": 7})
    return path


def test_it_is_the_program_of_this_package(installed):
    assert (installed.package / "program/espalier").is_file()
    assert installed.run("--version").startswith(f"espalier {espalier.__version__}")


def test_it_lists_and_helps(installed, sample):
    assert "model/bias" in installed.run("ls", sample)
    assert "--no-browser" in installed.run("view", "--help")


def test_it_shows_files_in_its_page(installed, sample):
    check_view(installed, sample)


def check_view(installed, sample):
    page = installed.package / "program/viewer"
    if not page.exists():
        said = installed.run("view", sample, "--no-browser", code=4)
        assert "page is not installed" in said and "run scripts/viewer" in said
        return
    # Such files are for other servers.
    assert not list(page.rglob("*.gz"))
    command = [*installed.command, "view", str(sample), "--no-browser", "--json", "--idle-timeout", "60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=installed.environment) as server:
        line = server.stdout.readline()
        try:
            if not line:
                pytest.fail(server.stderr.read())
            url = json.loads(line)["url"].split("#")[0]
            modules = [f"assets/{file.name}" for file in page.glob("assets/*.wasm")]
            names = {re.sub(r"assets/(.*)-.{8}\.wasm", r"\1", module) for module in modules}
            assert names == {"core", "core-all", "core-map", "engine", "writer"}
            for name in ("index.html", *modules):
                with urllib.request.urlopen(url + name) as answer:
                    assert answer.read() == (page / name).read_bytes()
            with urllib.request.urlopen(url) as answer:
                assert b"<html" in answer.read()
        finally:
            # To the process that was started: it has become the program.
            server.send_signal(signal.SIGTERM)
            server.wait(30)
    assert server.returncode == 0


def test_the_page_carries_its_licences(installed):
    page = installed.package / "program/viewer"
    assert not page.exists() or "Preact" in (page / "NOTICES.txt").read_text()


def test_urls_are_read(installed):
    """By the system's libcurl, which is not in the wheel. No server listens on this port."""
    said = installed.run("ls", "http://127.0.0.1:1/run.espalier", code=4)
    assert "127.0.0.1" in said and "onnect" in said


def test_without_libcurl_it_says_so(installed, tmp_path):
    for name in ("libcurl.so.4", "libcurl-gnutls.so.4"):
        run("cc", "-shared", "-x", "c", os.devnull, "-o", tmp_path / name)
    alone = Installed(installed.package, installed.command, **{**installed.environment, "LD_LIBRARY_PATH": str(tmp_path)})
    assert "needs libcurl 7.80 or later, which this system does not have" in alone.run("ls", "http://127.0.0.1:1/run.espalier", code=2)
