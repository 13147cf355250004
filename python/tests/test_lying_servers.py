"""Web servers that lie, or collect secrets: the ones that the command line refuses."""

import os
import pathlib
import subprocess
import sys
import time

import espalier
import numpy as np
import pytest

SUPPORT = pathlib.Path(__file__).resolve().parent.parent.parent / "tests/support"
sys.path.insert(0, str(SUPPORT))
import lying_servers  # noqa: E402
from odd_server import OddServer  # noqa: E402

MIB = 1 << 20
STATE = {"a": np.random.default_rng(1).standard_normal((7, MIB // 4), np.float32), "step": 7}


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    for name in ("ESPALIER_TOKEN", "HF_TOKEN", "ESPALIER_HTTP_TIMEOUT", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))  # No ~/.netrc of the user's own.
    return monkeypatch


@pytest.fixture
def server(tmp_path):
    espalier.save(tmp_path / "x.espalier", STATE)
    with OddServer(tmp_path) as server:
        yield server


def check_refused(server, manner, refusal, **options):
    with pytest.raises(espalier.EspalierError) as raised:
        espalier.load(server.url("x.espalier", manner), **options)
    assert (raised.value.code, refusal.text in str(raised.value)) == (refusal.code, True), str(raised.value)
    assert "http://127.0.0.1" in str(raised.value)


@pytest.mark.parametrize("manner", lying_servers.LIES)
def test_lies_are_refused(server, manner):
    check_refused(server, manner, lying_servers.LIES[manner])
    # A body is not read beyond what is wanted, however much the server would send.
    assert server.written < 40 * MIB and len(server.requests) < 30


@pytest.mark.parametrize("manner", lying_servers.STALLS)
def test_stalls_end(server, manner):
    check_refused(server, manner, lying_servers.STALLS[manner], storage_options={"timeout": 1})


@pytest.mark.parametrize("manner", lying_servers.GOOD)
def test_what_is_odd_and_no_lie(server, manner):
    loaded = espalier.load(server.url("x.espalier", manner))
    assert np.array_equal(loaded["a"], STATE["a"]) and loaded["step"] == 7


def test_random_responses(server):
    loaded = 0
    for seed in range(40):
        try:
            state = espalier.load(server.url("x.espalier", "random") + f"?{seed}", storage_options={"timeout": 1})
        except espalier.EspalierError:
            continue
        loaded += 1
        assert np.array_equal(state["a"], STATE["a"])
    assert 0 < loaded < 40


# The peak of a whole process: one for the honest load, and one for all attacks. Not getrusage(), whose peak may be that of
# the process that started this one.
PEAK = """
import re, sys
import espalier
for url in sys.argv[1:]:
    try:
        espalier.load(url)
    except espalier.EspalierError:
        pass
print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""


def test_lies_take_no_more_memory_than_an_honest_load(tmp_path):
    # Larger than what is kept of any file, so that the load itself is most of the peak.
    espalier.save_safetensors(tmp_path / "x.safetensors", {"a": np.ones((64, MIB // 4), np.float32)})

    def peak(server, manners):
        urls = [server.url("x.safetensors", manner) for manner in manners]
        return int(subprocess.run([sys.executable, "-c", PEAK, *urls], capture_output=True, check=True).stdout)

    with OddServer(tmp_path) as server:
        honest = peak(server, ["good"])
        attacked = peak(server, [manner for manner in lying_servers.LIES if manner != "limited"])
    assert attacked < 1.2 * honest


def secrets(server, start):
    return {request.headers.get("X-Api-Key") for request in server.requests if request.path.startswith(start)}


def test_headers_go_to_no_other_server(server, tmp_path):
    options = {"headers": {"X-Api-Key": "s3cret"}}
    espalier.load(server.url("x.espalier", "moved"), storage_options=options)
    assert secrets(server, "/") == {"s3cret"}
    server.forget()
    # To another host, which is this machine as well.
    espalier.load(server.url("x.espalier", "elsewhere"), storage_options=options)
    assert (secrets(server, "/elsewhere/"), secrets(server, "/good/")) == ({"s3cret"}, {None})
    # To another port, and a further file.
    with OddServer(tmp_path) as other:
        server.other = other
        server.forget()
        espalier.load(server.url("x.espalier", "to-other"), storage_options=options)
        assert (secrets(server, "/"), secrets(other, "/")) == ({"s3cret"}, {None})
    for name, value in {"Range": "bytes=0-1", "accept-encoding": "gzip", "X": "y\r\nHost: z", "X:": "y", "": "x"}.items():
        with pytest.raises(espalier.EspalierError, match="header"):
            espalier.load(server.url("x.espalier"), storage_options={"headers": {name: value}})


def test_further_files_have_the_rules_of_the_first(server, tmp_path):
    shards = SUPPORT.parent / "foreign/shards/model"
    (tmp_path / "m").symlink_to(shards)
    url = server.url("m/model.safetensors.index.json", "private")
    loaded = espalier.load(url, storage_options={"headers": {"Authorization": "Bearer s3cret"}})
    assert len(loaded) == 55 and len(server.requests) == len(list(shards.iterdir()))
    assert {request.headers["Authorization"] for request in server.requests} == {"Bearer s3cret"}


def test_options(server):
    for options, message in (
        ({"client_kwargs": {}, "x": 1}, "'headers' and 'timeout', without 'client_kwargs', 'x'"),
        ({"timeout": "1"}, "number of seconds"),
        ({"headers": ["X"]}, "dict"),
        ({"headers": {"X": 1}}, "dict"),
    ):
        with pytest.raises(espalier.EspalierError, match=message):
            espalier.load(server.url("x.espalier"), storage_options=options)
    assert not server.requests


def test_credentials_are_those_of_the_command_line(server, environment, tmp_path):
    url = server.url("x.espalier", "private")

    def authorizations(url=url):
        server.forget()
        assert espalier.load(url)["step"] == 7
        return {request.headers.get("Authorization") for request in server.requests}

    with pytest.raises(OSError, match="status 401.*set ESPALIER_TOKEN"):
        espalier.load(url)
    assert authorizations(server.url("x.espalier", "private", user="user:pa%20ss@")) == {"Basic dXNlcjpwYSBzcw=="}
    (tmp_path / ".netrc").write_text('machine 127.0.0.1 login user password "pa ss"\n')
    (tmp_path / ".netrc").chmod(0o600)
    assert authorizations() == {"Basic dXNlcjpwYSBzcw=="}
    environment.setenv("ESPALIER_TOKEN", "s3cret")
    assert authorizations() == {"Bearer s3cret"}
    # A proxy stands for a server that is not on this machine: no token goes there in the open.
    environment.setenv("http_proxy", f"http://me:pw@127.0.0.1:{server.server_port}")
    assert authorizations("http://host.example/good/x.espalier") == {None}
    assert {request.target for request in server.requests} == {"http://host.example/good/x.espalier"}
    assert {request.headers["Proxy-Authorization"] for request in server.requests} == {"Basic bWU6cHc="}
    environment.setenv("ESPALIER_TOKEN", "two words")
    with pytest.raises(espalier.EspalierError, match="ESPALIER_TOKEN holds spaces"):
        espalier.load(url)


@pytest.fixture
def secure(tmp_path, environment):
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    with open(certificate, "a") as file:
        file.write(key.read_text())
    environment.setenv("SSL_CERT_FILE", str(certificate))
    espalier.save(tmp_path / "x.espalier", STATE)
    with OddServer(tmp_path, certificate) as server:
        yield server


def test_https(secure, environment):
    environment.setenv("ESPALIER_TOKEN", "s3cret")
    assert np.array_equal(espalier.load(secure.url("x.espalier", "private"))["a"], STATE["a"])
    with pytest.raises(OSError, match="from https to http"):
        espalier.load(secure.url("x.espalier", "to-http"))
    secure.forget()
    with pytest.raises(OSError, match="certificate"):  # It is for another name.
        espalier.load(secure.url("x.espalier", host="localhost"))
    environment.delenv("SSL_CERT_FILE")
    with pytest.raises(OSError, match="certificate"):
        espalier.load(secure.url("x.espalier"))
    assert not secure.requests


def test_connections_are_used_again(server):
    with espalier.open(server.url("x.espalier", "good"), threads=1) as opened:
        for i in range(7):
            assert np.array_equal(opened["a"][i], STATE["a"][i])
    assert len(server.requests) == 8 and server.connections == 1


def test_a_connection_that_was_closed_meanwhile(server):
    with espalier.open(server.url("x.espalier", "good"), threads=1) as opened:
        server.close_connections()
        assert np.array_equal(opened["a"][3], STATE["a"][3])
    assert len(server.requests) == 2 and server.connections == 2


# A shell lets what it starts in the background ignore the signal.
INTERRUPTED = """
import signal
import sys
import espalier
signal.signal(signal.SIGINT, signal.default_int_handler)
url, what = sys.argv[1:]
try:
    if what == "load":
        espalier.load(url)
    else:
        espalier.open(url)["a"][5]
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize(("what", "manner", "requests"), [("load", "stalls", 2), ("slice", "stalls", 2), ("load", "silent", 1)])
def test_ctrl_c_ends_every_wait(server, what, manner, requests):
    child = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, server.url("x.espalier", manner), what],
        stdout=subprocess.PIPE,
        env=os.environ | {"ESPALIER_HTTP_TIMEOUT": "3600"},
    )
    with child:
        while len(server.requests) < requests:
            assert child.poll() is None
            time.sleep(0.02)
        child.send_signal(2)
        assert child.communicate(timeout=120)[0] == b"interrupted\n"
