"""Files behind URLs: only what is needed is read, and several ranges at once. Servers that lie: test_lying_servers.py."""

import contextlib
import errno
import gc
import http.server
import itertools
import os
import pathlib
import pickle
import subprocess
import sys
import threading
import urllib.parse
import weakref

import espalier
import espalier.compat.safetensors.numpy as our_numpy
import numpy as np
import pytest
from espalier import _hub, _retry, _urls

fsspec = pytest.importorskip("fsspec")
from fsspec.implementations.memory import MemoryFileSystem  # noqa: E402

MIB = 1 << 20


@pytest.fixture(autouse=True)
def memory(monkeypatch):
    """An empty file system of fsspec. Requests are repeated at once."""
    monkeypatch.setattr(_retry, "DELAYS", (0, 0))
    fs = fsspec.filesystem("memory")
    fs.store.clear()
    yield fs
    fs.store.clear()


@pytest.fixture
def requests(monkeypatch):
    """The calls of cat_ranges(), each a list of (begin, end)."""
    calls = []
    of_memory = MemoryFileSystem.cat_ranges

    def cat_ranges(self, paths, starts, ends, **options):
        calls.append(list(zip(starts, ends, strict=True)))
        return of_memory(self, paths, starts, ends, **options)

    monkeypatch.setattr(MemoryFileSystem, "cat_ranges", cat_ranges)
    return calls


def count(calls):
    return sum(end - begin for call in calls for begin, end in call)


def random(*shape):
    return np.random.default_rng(1).standard_normal(shape, np.float32)


@pytest.mark.parametrize("compression", [0, 1])
def test_save_and_load(compression, file):
    state = {"a": random(700, 1000), "list": [random(3), 7, "text"], "none": np.zeros(0)}
    espalier.save("memory://folder/x.espalier", state, metadata={"k": 1}, compression=compression)
    espalier.save(file, state, metadata={"k": 1}, compression=compression)
    assert fsspec.filesystem("memory").cat("/folder/x.espalier") == file.read_bytes()
    loaded = espalier.load("memory://folder/x.espalier")
    assert np.array_equal(loaded["a"], state["a"]) and loaded["list"][1:] == [7, "text"]
    assert espalier.load("memory://folder/x.espalier", at="list/1") == 7
    with espalier.open("memory://folder/x.espalier") as opened:
        assert opened.verify().bytes > 0 and opened.metadata == {"k": 1} and "memory://" in repr(opened)
        assert np.array_equal(opened["a"][5:7, 3:], state["a"][5:7, 3:])
        again = pickle.loads(pickle.dumps(opened["a"]))
        assert np.array_equal(again.numpy(), state["a"])
    assert our_numpy.load_file("memory://folder/x.espalier").keys() == {"a", "list.0", "none"}


def test_only_what_is_needed_is_read(requests):
    espalier.save("memory://x", {"a": random(64, MIB // 4), "b": random(64, MIB // 4), "step": 7})
    with espalier.open("memory://x") as opened:
        assert opened["step"] == 7 and opened["b"].shape == (64, MIB // 4) and opened.digest
        assert requests == [[(0, 65536)]]  # the head, and the index with it
        requests.clear()
        assert np.array_equal(opened["b"][5, :10], random(64, MIB // 4)[5, :10])
        assert count(requests) == MIB and len(requests) == 1
        requests.clear()
        opened["a"][10:14, 100]
        assert count(requests) == 4 * MIB and len(requests) == 1  # of four ranges


def test_many_tensors_are_read_in_few_calls(requests):
    # 5,000 bytes between them: they are not neighbours for the library.
    state = {str(i): {"wanted": random(500), "other": random(2000)} for i in range(300)}
    espalier.save("memory://x", state)
    with espalier.open("memory://x") as opened:
        requests.clear()
        opened.load()
        assert len(requests) <= 4 and count(requests) < len(fsspec.filesystem("memory").cat("/x"))


def test_long_reads(requests):
    array = random(160, MIB // 4)
    espalier.save("memory://x", {"before": random(100), "a": array, "after": random(100)})
    with espalier.open("memory://x", threads=4) as opened:
        requests.clear()
        assert np.array_equal(opened["a"].numpy(), array)
        assert len(requests) <= 6 and max(map(len, requests)) == 8
        assert 160 * MIB <= count(requests) < 161 * MIB


def test_templates_and_threads(requests):
    state = {str(i): random(300, 300) for i in range(40)}
    espalier.save("memory://x", state)
    loaded = espalier.load("memory://x", like=state)
    assert all(np.array_equal(loaded[key], state[key]) for key in state)
    opened = espalier.open("memory://x")
    failures = []

    def read():
        for key in state:
            if not np.array_equal(opened[key].numpy(), state[key]):
                failures.append(key)

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


class Broken(Exception):
    pass


def test_what_the_file_system_raises_is_raised(monkeypatch):
    espalier.save("memory://x", {"a": random(30, MIB // 4), "b": 1})
    opened = espalier.open("memory://x")

    def cat_ranges(self, *arguments, **options):
        raise Broken("the network")

    monkeypatch.setattr(MemoryFileSystem, "cat_ranges", cat_ranges)
    for read in (
        opened.load,
        opened["a"].numpy,
        lambda: opened["a"][3],
        opened.verify,
        lambda: espalier.open("memory://x"),
    ):
        with pytest.raises(OSError, match="memory://x: .*the network; see that") as raised:
            read()
        assert isinstance(raised.value, espalier.EspalierError) and type(raised.value.__cause__) is Broken
    monkeypatch.setattr(MemoryFileSystem, "cat_ranges", lambda self, paths, *_, **__: [Broken("one")] * len(paths))
    with pytest.raises(espalier.EspalierError, match="one"):
        opened.load()
    monkeypatch.setattr(MemoryFileSystem, "cat_ranges", lambda self, paths, *_, **__: [b"short"] * len(paths))
    with pytest.raises(OSError, match="5 bytes came"):
        opened.load()
    monkeypatch.undo()
    assert opened.load()["b"] == 1  # nothing of the failures is kept


def test_what_passes_is_tried_again(monkeypatch):
    state = {"a": random(30, MIB // 4)}
    espalier.save("memory://x", state)
    of_memory, info, troubles = MemoryFileSystem.cat_ranges, MemoryFileSystem.info, []

    def cat_ranges(self, paths, *arguments, **options):
        troubles.append("answer")
        answers = of_memory(self, paths, *arguments, **options)
        if len(troubles) == 1:
            raise ConnectionResetError
        return [answers[0][:-1] if len(troubles) == 2 else TimeoutError() if len(troubles) == 3 else answers[0], *answers[1:]]

    def busy(self, path, **options):
        monkeypatch.setattr(MemoryFileSystem, "info", info)
        raise OSError(errno.EBUSY, "slow down")

    monkeypatch.setattr(_retry, "DELAYS", (0, 0, 0))
    monkeypatch.setattr(MemoryFileSystem, "cat_ranges", cat_ranges)
    monkeypatch.setattr(MemoryFileSystem, "info", busy)
    assert np.array_equal(espalier.load("memory://x")["a"], state["a"]) and len(troubles) > 4


def test_ctrl_c_during_a_read(monkeypatch):
    espalier.save("memory://x", {"a": random(4)})
    opened = espalier.open("memory://x")

    def cat_ranges(self, *arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(MemoryFileSystem, "cat_ranges", cat_ranges)
    with pytest.raises(KeyboardInterrupt):
        opened.load()
    with pytest.raises(KeyboardInterrupt):
        espalier.open("memory://x")


def test_errors(memory, tmp_path):
    with pytest.raises(FileNotFoundError):
        espalier.open("memory://none")
    espalier.save("memory://x", {"a": random(4)})
    for save in (espalier.save, espalier.save_async):
        with pytest.raises(FileExistsError):
            save("memory://x", {}, replace=False)
    with pytest.raises(espalier.EspalierError, match="safetensors"):
        espalier.save("memory://x.safetensors", {})
    with pytest.raises(espalier.Unsupported):
        espalier.save("memory://y", {"a": object()})
    data = memory.cat("/x")
    for damaged in (b"", data[:-1], data[:100], data[:70] + b"\xff" + data[71:]):
        memory.pipe("/z", damaged)
        with pytest.raises(espalier.Corrupt, match="memory://z: "):
            espalier.load("memory://z")
    for refused in (
        lambda: espalier.save_safetensors("memory://x", {}, max_shard_size="1GB"),
        lambda: espalier.save_safetensors(tmp_path / "x", {}, storage_options={}),
        lambda: espalier.save_async(tmp_path / "x", {}, storage_options={}),
        lambda: espalier.Checkpointer(tmp_path / "x", storage_options={}),
        lambda: our_numpy.save_file({}, "memory://x"),
        lambda: espalier.open(tmp_path / "x", storage_options={}),
        lambda: espalier.load(tmp_path / "x", storage_options={}),
        lambda: espalier.save(tmp_path / "x", {}, storage_options={}),
    ):
        with pytest.raises(espalier.EspalierError, match="URL"):
            refused()
    assert sorted(memory.store) == ["/x", "/z"] and not list(tmp_path.iterdir())


def test_other_saves_take_urls(tmp_path):
    state = {"w": random(4, 4)}
    assert espalier.save_safetensors("memory://x.safetensors", {**state, "s": "text"}, unrepresentable="drop") == [("s", "a string")]
    assert np.array_equal(espalier.load("memory://x.safetensors")["w"], state["w"])
    with pytest.raises(FileExistsError):
        espalier.save_safetensors("memory://x.safetensors", state, replace=False)
    mapped = espalier.map("memory://x.safetensors", {"espalier_map": 1, "rules": ["w [a b] <-> v [b a]"]})
    for name in ("y.safetensors", "y.espalier"):
        mapped.save(f"memory://{name}")
        assert np.array_equal(espalier.load(f"memory://{name}")["v"], state["w"].T)
    with pytest.raises(FileExistsError):
        mapped.save("memory://y.espalier", replace=False)
    with pytest.raises(espalier.EspalierError, match="are files of this machine"):
        espalier.map("memory://x.safetensors", "https://host/map.json")


def test_messages_have_no_secrets():
    assert _urls.shown("https://me:secret@host/x?token=secret") == "https://…@host/x?…"
    assert _urls.shown("simplecache::s3://key:secret@bucket/x") == "simplecache::s3://…@bucket/x"
    assert _urls.shown("s3://bucket/a@b") == "s3://bucket/a@b"


def test_what_a_file_system_says_shows_no_token():
    said = "Max retries: /webhdfs/v1/x?delegation=SECRET&op=OPEN; to ftp://user:SECRET@h/x?token=SECRET (refused)"
    message = str(_urls._explained(RuntimeError(said), "webhdfs://h/x"))
    assert "SECRET" not in message and "Max retries: /webhdfs/v1/x?… to ftp://…@h/x?… (refused)" in message
    # What it makes of the URL, and does not show as one.
    said = 'Invalid bucket name "KEY:SECRET%2F/@bucket": SECRET%2F/, SECRET// and SECRET%252F%2F'
    message = str(_urls._explained(ValueError(said), "s3://KEY:SECRET%2F/@bucket/run"))
    assert 'Invalid bucket name "…@bucket": …, … and …;' in message
    assert "SECRET" not in str(_urls._explained(ValueError("no key bucket/x#SECRET"), "s3://bucket/x#SECRET"))
    assert "no key" in str(_urls._explained(ValueError("no key"), "s3://:@bucket/x"))


def test_without_fsspec(tmp_path):
    code = (
        "import sys; sys.modules['fsspec'] = None; import espalier\n"
        "try: espalier.open('s3://bucket/x')\nexcept ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "s3://bucket/x is a URL, which needs the package fsspec: pip install fsspec" in done.stdout


def test_the_file_system_lives_as_long_as_it_is_needed():
    espalier.save("memory://x", {"a": random(4)})
    opened = espalier.open("memory://x")
    readers = [weakref.ref(each) for each in gc.get_objects() if type(each) is _urls.Reader]
    array = opened.load()["a"]
    opened.close()
    del opened
    gc.collect()
    assert array[0] == random(4)[0] and not any(reader() for reader in readers)


class Ranges(http.server.BaseHTTPRequestHandler):
    """A server that has ranges, as those of object stores."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self.answer(False)

    def do_GET(self):
        self.answer(True)

    def data(self):
        return self.server.data

    def answer(self, has_body):
        data = self.data()
        begin, end, status = 0, len(data), 200
        asked = self.headers.get("Range")
        if asked is not None:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            begin, end, status = int(first), min(len(data), int(last or len(data)) + 1), 206
        self.send_response(status)
        self.send_header("Content-Length", str(end - begin))
        self.send_header("Accept-Ranges", "bytes")
        if status == 206:
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(data)}")
        self.end_headers()
        if has_body:
            self.server.ranges.append((begin, end))
            self.wfile.write(data[begin:end])

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serving(data, handler=Ranges):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads, server.block_on_close = True, False
        server.data, server.ranges = data, []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server, f"http://127.0.0.1:{server.server_port}/x.espalier"
        finally:
            server.shutdown()
            thread.join()


def test_http():
    state = {str(i): random(3, MIB // 4) for i in range(5)}
    with serving(espalier.save_bytes(state)) as (server, url):
        assert np.array_equal(espalier.load(url)["3"], state["3"])
        server.ranges.clear()
        with espalier.open(url) as opened:
            assert server.ranges == [(0, 65536)]
            server.ranges.clear()
            assert np.array_equal(opened["2"][1], state["2"][1]) and len(server.ranges) == 1
            opened.verify()


SHARDS = pathlib.Path(__file__).resolve().parent.parent.parent / "tests/foreign/shards/model"


class Folder(Ranges):
    """A server of files, whose names are quoted in URLs."""

    def data(self):
        return (SHARDS / urllib.parse.unquote(self.path.split("?")[0].rpartition("/")[2])).read_bytes()


def test_further_files_lie_beside_the_first(memory):
    index = "model.safetensors.index.json"
    whole = espalier.load(SHARDS / index)
    for file in SHARDS.iterdir():
        memory.pipe(f"/m/{file.name}", file.read_bytes())

    def check(loaded):
        assert len(loaded) == 55 and loaded.keys() == whole.keys()
        assert all(loaded[name].tobytes() == array.tobytes() for name, array in whole.items())

    check(espalier.load(f"memory://m/{index}"))
    with serving(b"", Folder) as (server, url):
        check(espalier.load(url.replace("x.espalier", f"{index}?token=1")))
    memory.rm("/m/model-00003-of-00016.safetensors")
    with espalier.open(f"memory://m/{index}") as opened:
        assert "model-00003-of-00016.safetensors" in opened.notes[0].message and opened.notes[0].kind == "loss"
    for url, beside in {
        "https://user:pw@host/a%20b/x.json?k=v/w#f": "https://user:pw@host/a%20b/n/%3F%20",
        "s3://bucket/x.json": "s3://bucket/n/? ",
        "memory://x.json": "memory:///n/? ",
        "zip://in/x.json::https://host/a.zip": "zip://in/n/? ::https://host/a.zip",
        "simplecache::s3://bucket/a/x.json": "simplecache::s3://bucket/a/n/? ",
    }.items():
        assert _urls._beside(url, "n/? ") == beside


class Hub(Ranges):
    """One repository, with files model.safetensors and no index."""

    def answer(self, has_body):
        self.server.paths.append(self.path)
        if self.path.startswith("/org/one/resolve/") and self.path.endswith("/model.safetensors"):
            super().answer(has_body)
        else:
            self.send_error(404)


def test_models_of_the_hub_by_their_names(monkeypatch, tmp_path):
    espalier.save_safetensors(tmp_path / "x.safetensors", {"w": random(3)})
    with serving((tmp_path / "x.safetensors").read_bytes(), Hub) as (server, url):
        monkeypatch.setattr(_hub, "_HUB", url.removesuffix("/x.espalier"))
        server.paths = []
        assert espalier.load("hf:org/one")["w"].shape == (3,)
        assert [path.rpartition("/")[2] for path in server.paths[:2]] == ["model.safetensors.index.json", "model.safetensors"]
        server.paths.clear()
        with espalier.open("hf:org/one/sub/model.safetensors@v 1") as opened:
            assert set(server.paths) == {"/org/one/resolve/v%201/sub/model.safetensors"} and opened.name == "hf:org/one/sub/model.safetensors@v 1"
            assert pickle.loads(pickle.dumps(opened["w"])).numpy()[0] == random(3)[0]
        with pytest.raises(espalier.CheckpointNotFound, match="^hf:org/two: the server has no such file"):
            espalier.open("hf:org/two")
    monkeypatch.undo()
    assert _hub.addresses("hf:datasets/org/data/a/b.safetensors") == ["https://huggingface.co/datasets/org/data/resolve/main/a/b.safetensors"]
    for wrong in ("hf:", "hf:name", "hf:/org/name", "hf:org/name/a?b"):
        with pytest.raises(espalier.EspalierError, match="are named hf:org/name"):
            espalier.open(wrong)
    for save in (espalier.save, espalier.save_async, espalier.save_safetensors):
        with pytest.raises(espalier.EspalierError, match="models of the Hub are read here"):
            save("hf:org/name/x.safetensors", {})
    with pytest.raises(espalier.EspalierError, match="need a folder of one store"):
        espalier.Checkpointer("hf:org/name")


class NoRanges(Ranges):
    """One that sends all of a file whatever is asked for, as that of Python does."""

    def answer(self, has_body):
        data = self.server.data
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # The client has seen enough.
            for begin in range(0, len(data) if has_body else 0, MIB):
                self.wfile.write(data[begin : begin + MIB])
                self.server.ranges.append((begin, begin + MIB))


def test_servers_without_ranges():
    for state in ({"step": 7}, {"a": random(15, MIB // 4), "b": [random(5), 7]}):
        with serving(espalier.save_bytes(state), NoRanges) as (server, url):
            loaded = espalier.load(url)
            assert all(str(loaded[key]) == str(state[key]) for key in state)
            # Once, and whole.
            assert sum(end - begin for begin, end in server.ranges) <= len(server.data) + MIB
    with serving(espalier.save_bytes(random(64, MIB // 4)), NoRanges) as (server, url):
        with pytest.raises(OSError, match=r"x.espalier: .*does not support ranges.*67,?\d+.*download") as raised:
            espalier.open(url)
        assert isinstance(raised.value, espalier.EspalierError) and len(server.ranges) < 32


def test_errors_of_servers_are_errors_of_the_package(monkeypatch):
    with serving(espalier.save_bytes(7)) as (server, url):
        server.RequestHandlerClass = Missing
        with pytest.raises(FileNotFoundError, match="^http://127.*no such file .status 404.; check the link") as missing:
            espalier.open(url + "?token=secret")
    with pytest.raises(OSError, match="no response: .*check the link") as stopped:
        espalier.load(url)
    with pytest.raises(espalier.EspalierError, match="foo://x: .*Protocol not known: foo; correct") as unknown:
        espalier.load("foo://x")
    with pytest.raises(FileNotFoundError, match="memory://none: no file is there") as none:
        espalier.load("memory://none")
    assert isinstance(stopped.value, espalier.EspalierError) and not isinstance(stopped.value, FileNotFoundError)
    # What other file systems raise has causes, too, and is what it says.
    def info(self, *arguments, **options):
        raise FileNotFoundError("x") from Broken("404")

    monkeypatch.setattr(MemoryFileSystem, "info", info)
    with pytest.raises(FileNotFoundError, match="no file is there"):
        espalier.load("memory://none")
    for error in (missing, none):
        assert isinstance(error.value, espalier.EspalierError) and "secret" not in str(error.value)
    assert none.value.__cause__ is not None
    assert none.value.filename == "memory://none" and unknown.value.code == "invalid_argument"


def test_saving_to_a_web_server_is_for_fsspec():
    pytest.importorskip("aiohttp")
    with serving(espalier.save_bytes(7)) as (server, url):
        with pytest.raises(espalier.EspalierError, match="nothing can be saved to such a URL: 501 .*save a file") as refused:
            espalier.save(url + "?token=secret", 1)
    assert "secret" not in str(refused.value) and refused.value.__cause__ is not None


class Changing(MemoryFileSystem):
    """A store whose object is replaced by one of the same length, after a number of calls of cat_ranges()."""

    protocol = "changing"
    cachable = False
    calls_left = 0
    fields = {}

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.removeprefix("changing://"))

    def cat_ranges(self, *arguments, **options):
        answers = super().cat_ranges(*arguments, **options)
        type(self).calls_left -= 1
        if self.calls_left == 0:
            self.store["/x"] = type(self).later
        return answers

    def info(self, path, **options):
        found = {name: value for name, value in super().info(path, **options).items() if name != "created"}
        return found | {name: value(self) for name, value in self.fields.items()}


@pytest.mark.parametrize(
    ("fields", "is_seen"),
    [
        ({"ETag": lambda fs: f'"{hash(fs.cat("/x"))}"'}, True),
        ({"generation": lambda fs: hash(fs.cat("/x")), "mtime": lambda fs: 1}, True),
        ({"LastModified": lambda fs: hash(fs.cat("/x"))}, True),
        # What changes while the bytes stay.
        ({"ETag": lambda fs: "same", "mtime": lambda fs: next(COUNTER), "url": lambda fs: next(COUNTER)}, False),
    ],
)
def test_a_store_that_says_its_version(memory, monkeypatch, fields, is_seen):
    fsspec.register_implementation("changing", Changing, clobber=True)
    state = {"a": random(40, MIB // 4)}
    espalier.save("memory://x", state)
    espalier.save("memory://later", {"a": -state["a"]})
    monkeypatch.setattr(Changing, "later", memory.store["/later"], raising=False)
    monkeypatch.setattr(Changing, "fields", fields)
    # Here the hashes would say so at last; formats without them would give a state that never was.
    monkeypatch.setattr(Changing, "calls_left", 2)  # the head, and a part of the tensor
    with pytest.raises(espalier.EspalierError) as raised:
        espalier.load("changing://x", threads=1)
    assert raised.value.code == ("file_changed" if is_seen else "chunk_corrupt")
    if is_seen:
        assert "the file changed while it was read; open it again" in str(raised.value)


COUNTER = itertools.count()


def test_a_package_that_a_url_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(ImportError, match="gs://bucket/x: a package is missing.*[Ii]nstall gcsfs") as raised:
        espalier.open("gs://bucket/x")
    again = pickle.loads(pickle.dumps(raised.value))
    assert isinstance(raised.value, espalier.MissingPackage) and (type(again), str(again)) == (espalier.MissingPackage, str(raised.value))


class Missing(Ranges):
    def answer(self, has_body):
        self.send_error(404)


def test_importing_does_not_import_fsspec():
    code = "import sys, espalier; print([m for m in ('fsspec', 'tempfile', 'espalier._http') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_paths_that_are_no_urls(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    espalier.save("a:b.espalier", 1)
    assert os.listdir() == ["a:b.espalier"] and espalier.load(b"a:b.espalier") == 1


def test_long_reads_in_any_order(memory, requests):
    memory.pipe("/x", bytes(80 * MIB))
    reader = _urls.Reader("memory://x")
    reader.expect(True)
    for at in (5, 4, 38, 37, 6):  # as threads do
        assert len(reader.read(at * MIB, MIB)) == MIB
    ranges = sorted(each for call in requests for each in call)
    assert len(requests) == 3 and all(end <= begin for (_, end), (begin, _) in zip(ranges, ranges[1:], strict=False))


def test_what_is_fetched_is_not_kept_for_ever(memory):
    memory.pipe("/x", bytes(100 * MIB))
    reader = _urls.Reader("memory://x")
    for at in range(99):
        reader.prefetch(at * MIB, MIB + 1)  # more than is read of it
        reader.read(at * MIB, MIB)
    assert sum(len(block.data) for block in reader._blocks) <= 65 * MIB
    for at in range(3):
        assert reader.read(at * MIB, MIB) == bytes(MIB)
