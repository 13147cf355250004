"""Checkpointer and save_async() in object stores: nothing is lost, nothing is read half-done."""

import asyncio
import datetime
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import warnings

import espalier
import numpy as np
import pytest
from espalier import _object_store, _retry, _temporary, _urls
from espalier._retention import Retention, number

fsspec = pytest.importorskip("fsspec")
pytest.importorskip("s3fs")
pytest.importorskip("moto")
import s3_server  # noqa: E402
import s3fs  # noqa: E402
from fsspec.implementations.memory import MemoryFileSystem  # noqa: E402

# How many saves are made under faults.
SAVES = int(os.environ.get("ESPALIER_SAVES", "10"))


@pytest.fixture(scope="module")
def server():
    with s3_server.serving() as address:
        s3fs.S3FileSystem(**s3_server.options("http://{}:{}".format(*address))).mkdir("bucket")
        yield address


@pytest.fixture
def proxy(server):
    with s3_server.proxied(server) as proxy:
        yield proxy


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """An empty file system of fsspec. Requests are repeated at once, and by this package alone."""
    monkeypatch.setattr(_retry, "DELAYS", (0,) * 8)
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    sleep = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda delay, *result: sleep(0, *result))  # of s3fs, which waits before it gives up
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]
    yield
    MemoryFileSystem.store.clear()


@pytest.fixture
def run(request):
    """A folder in the server's bucket that no other test has."""
    return f"s3://bucket/{request.node.name}"


def at(server):
    return s3_server.options("http://{}:{}".format(*server))


def files(url, options=None):
    fs, path = fsspec.url_to_fs(url, **(options or {}))
    fs.invalidate_cache()
    return sorted(name.rpartition("/")[2] for name in fs.find(path))


F32 = np.arange(6, dtype=np.float32)


@pytest.mark.parametrize("where", ["folder", "memory", "s3"])

def test_the_same_program_on_a_folder_and_in_stores(where, tmp_path, server, run):
    """Only the path changes; for S3 also what a program's environment would say."""
    folder = {"folder": tmp_path / "run", "memory": "memory://deep/run/", "s3": run}[where]
    options = at(server) if where == "s3" else None
    with espalier.Checkpointer(
        folder, every=10, keep=2, keep_every=50, best=("val/loss", "min"), storage_options=options
    ) as ck:
        assert ck.restore(like={"w": F32}) == ({"w": pytest.approx(F32)}, 0) and ck.latest is ck.best is None
        for step in range(1, 101):
            assert ck.save(step, {"w": F32 * step, "step": step}, metrics={"val/loss": abs(step - 30)}) == (step % 10 == 0)
        ck.wait()
        assert ck.steps == [30, 50, 90, 100] and ck.latest == 100 and ck.best == 30
        state, step = ck.restore(like={"w": F32, "step": 0})
        assert step == state["step"] == 100 and np.array_equal(state["w"], F32 * 100)
        assert ck.restore(best=True)[1] == 30 and ck.restore(step=50)[0]["step"] == 50
        with espalier.open(ck.path(30), storage_options=options) as file:
            assert file.metadata["metrics"] == {"val/loss": 0} and file.metadata["step"] == 30 and file.verify()
        with pytest.raises(espalier.CheckpointNotFound, match="no step 40; it has 30, 50, 90, 100"):
            ck.restore(step=40)
        with pytest.raises(espalier.TreeMismatch, match=r"step_00000100.*espalier: the file differs"):
            ck.restore(like={"v": F32})
        # A step that is saved again takes the place of the first.
        assert ck.save(100, {"w": F32, "step": -1}, force=True, metrics={"val/loss": 0})
    with espalier.Checkpointer(folder, storage_options=options, background=False) as ck:
        assert ck.restore()[0]["step"] == -1
        ck.save(100, {"step": -2})
        ck.save(101, {"step": 101})
        assert ck.restore()[1] == 101 and ck.restore(step=100)[0]["step"] == -2
    if where == "folder":
        return
    names = files(folder, options)
    assert len(names) == 7 and {"step_00000090.json", "step_00000100.2.json", "step_00000101.json", "LATEST"} < set(names)


def test_of_two_manifests_of_a_step_the_later_counts():
    """A writer that is killed after the second save of a step leaves both."""
    store = MemoryFileSystem.store
    with espalier.Checkpointer("memory://run", background=False) as ck:
        ck.save(1, {"n": 1})
        before = dict(store)
        ck.save(1, {"n": 2})
        assert before.keys() & store.keys() == {"/run/LATEST"}
    latest = store["/run/LATEST"]
    store.update(before)
    store["/run/LATEST"] = latest
    with espalier.Checkpointer("memory://run", background=False) as ck:
        assert ck.restore() == ({"n": 2}, 1) and espalier.load(ck.path(1)) == {"n": 2}
        ck.save(2, {})
        assert ck.steps == [1, 2] and not (before.keys() & store.keys()) - {"/run/LATEST"}


def test_what_stays_is_what_stays_in_a_folder(tmp_path):
    chance = random.Random(3)
    for run in range(12):
        best = chance.choice([None, ("m", True, 1), ("m", False, 2), ("m", True, 3)])
        rule = Retention(chance.randrange(1, 4), chance.choice([0, 0, 3]), best)
        folder = tmp_path / str(run)
        named = best and (best[0], "max" if best[1] else "min", best[2])
        there = {}
        with espalier.Checkpointer(
            folder, keep=rule.last, keep_every=rule.every, best=named, background=False, sync=False
        ) as ck, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # no step has the metric yet
            for step in chance.sample(range(30), 10):
                metrics = chance.choice([None, {"m": chance.randrange(3)}, {"m": chance.random()}, {"m": float("nan")}])
                ck.save(step, {}, metrics=metrics)
                there[step] = metrics
                kept = rule.kept(there) | {step}
                there = {step: metrics for step, metrics in there.items() if step in kept}
                assert ck.steps == sorted(there), (rule, step)


def manifest_put(request):
    return request.method == "PUT" and ".json" in request.path


def test_saves_under_faults(server, proxy, run):
    """Each save that returns is there, and each checkpoint that is there is whole."""
    proxy.fault = faults = s3_server.Faults(7)
    give_up, chance = [False], random.Random(5)
    proxy.fault = lambda request: "503" if give_up[0] and manifest_put(request) else faults(request)
    ck = espalier.Checkpointer(run, keep=3, background=False, storage_options=s3_server.options(proxy.url))
    saved, gave_up, made_to = 0, 0, 0
    for step in range(1, SAVES + 1):
        give_up[0] = step > 2 and chance.random() < 0.1
        made_to += give_up[0]
        try:
            ck.save(step, {"w": np.full(3000, step, np.float32), "step": step})
            saved = step
        except OSError:
            gave_up += 1
        give_up[0] = False
        if step % 5 == 0:
            for options in (at(server), s3_server.options(proxy.url)):
                reader = espalier.Checkpointer(run, storage_options=options)
                with warnings.catch_warnings():
                    warnings.simplefilter("error")  # nothing is passed over
                    state, found = reader.restore()
                # A save whose error came may have been made.
                assert saved <= found <= step and state["step"] == found and (state["w"] == found).all()
                for each in reader.steps:
                    assert reader.restore(step=each)[0]["step"] == each
    print(f"{SAVES} saves: {gave_up} gave up, {made_to} were made to; requests {faults.counts}")
    # Nine bad answers to one request are rare.
    assert made_to <= gave_up <= made_to + 1 + SAVES // 50 and min(faults.counts.values()) > 0
    proxy.fault = lambda request: "ok"
    ck.save(SAVES + 1, {})
    assert ck.steps[-1] == SAVES + 1 and len(ck.steps) == 3


@pytest.mark.parametrize("fault", ["cut after", "twice"])
def test_a_manifest_whose_answer_is_lost_is_ours(proxy, run, fault):
    lost = []

    def fault_once(request):
        if manifest_put(request) and not lost:
            lost.append(request)
            return fault
        return "ok"

    proxy.fault = fault_once
    ck = espalier.Checkpointer(run, background=False, storage_options=s3_server.options(proxy.url))
    ck.save(1, {"a": 1})
    assert lost and ck.steps == [1] and "step_00000001.json" in files(run, s3_server.options(proxy.url))


def test_a_save_that_gave_up_may_be_made_again(proxy, run):
    """All answers are lost, so save() fails, and the step exists. That is no other process."""
    ck = espalier.Checkpointer(run, background=False, storage_options=s3_server.options(proxy.url))
    proxy.fault = lambda request: "cut after" if manifest_put(request) else "503" if ".json" in request.path else "ok"
    with pytest.raises(OSError, match="try again"):
        ck.save(1, {"a": 1})
    proxy.fault = lambda request: "ok"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ck.save(1, {"a": 2})
        ck.save(2, {"a": 3})
    assert ck.restore(step=1)[0] == {"a": 2} and ck.steps == [1, 2]


@pytest.mark.parametrize("scheme", ["memory", "s3"])
def test_two_processes_that_save_are_told(scheme, server, run):
    url, options = (run, at(server)) if scheme == "s3" else ("memory://run", None)
    first = espalier.Checkpointer(url, keep=1, background=False, storage_options=options)
    second = espalier.Checkpointer(url, keep=1, storage_options=options)
    first.save(1, {"by": 1})
    second.save(2, {"by": 2})
    second.wait()
    with pytest.warns(espalier.DamagedCheckpoint, match=f"process {os.getpid()} on the host .* saved step 2 meanwhile.*folder of its own"):
        first.save(3, {"by": 1})
    second.save(3, {"by": 2})
    with pytest.raises(espalier.CheckpointOSError, match="saved step 3 meanwhile") as refused:
        second.wait()
    assert refused.value.code == "folder_in_use"
    # The second removed step 1 before it could know of the first. Afterwards neither removes what the other goes on from.
    assert first.steps == [2, 3] and first.restore()[0] == {"by": 1} and second.restore(step=2)[0] == {"by": 2}


class Plain(MemoryFileSystem):
    """A store that looks whether an object exists, and then writes it: its put has no condition."""

    protocol = "plain"
    store, pseudo_dirs = {}, [""]

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.removeprefix("plain://"))


class Ignoring(Plain):
    """A store that takes conditions and does not keep them, as old servers of S3."""

    protocol = ("ignoring", "s3")
    store, pseudo_dirs = {}, [""]

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.removeprefix("ignoring://"))

    def pipe_file(self, path, value, mode="overwrite", **options):
        super().pipe_file(path, value)


class Old(Ignoring):
    """A store that has conditions, and an old package for it that has not."""

    protocol = ("old", "s3")
    store, pseudo_dirs = {}, [""]

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.removeprefix("old://"))

    def pipe_file(self, path, value):
        MemoryFileSystem.pipe_file(self, path, value)


@pytest.mark.parametrize(("cls", "says"), [(Plain, "has no conditional writes"), (Old, "has no conditional writes"), (Ignoring, "ignores conditions")])
def test_a_store_without_conditions_has_one_writer_and_a_warning(cls, says):
    scheme = cls.protocol if isinstance(cls.protocol, str) else cls.protocol[0]
    fsspec.register_implementation(scheme, cls, clobber=True)
    cls.store.clear()
    with pytest.warns(UserWarning, match=f"{says}.*only one does") as told:
        with espalier.Checkpointer(f"{scheme}://run", keep=2) as ck:
            for step in range(1, 5):
                ck.save(step, {"step": step})
    assert len(told) == 1 and not issubclass(told[0].category, espalier.DamagedCheckpoint)
    assert ck.steps == [3, 4] and ck.restore()[0]["step"] == 4 and len(cls.store) == 5


WRITER = """
import json, sys
import espalier, numpy as np, s3fs.core
s3fs.core.calculate_chunksize = lambda size, chunksize=None: 1 << 16
with espalier.Checkpointer(sys.argv[1], keep=1, storage_options=json.loads(sys.argv[2])) as ck:
    for step in (1, 2):
        ck.save(step, {"step": step, "w": np.full(50_000, step, np.float32)})
"""
# Of which requests a writer is killed, and what then is the newest step, which objects belong to none, and how many uploads are open.
KILLS = {
    "in the second part": (lambda step, request: step == 2 and "partNumber=2" in request.path, 1, 0, 1),
    "before the manifest": (lambda step, request: step == 2 and manifest_put(request), 1, 1, 0),
    "after the manifest": (lambda step, request: step == 2 and manifest_put(request), 2, 0, 0),
    "before the old data goes": (lambda step, request: step == 1 and request.method == "DELETE" and ".espalier" in request.path, 2, 1, 0),
}


@pytest.mark.parametrize("moment", KILLS)
def test_a_writer_is_killed(moment, server, proxy, run, monkeypatch):
    """The last complete checkpoint loads, and nothing half-done is ever read. What is left goes after a day."""
    is_moment, restored, lost_files, open_uploads = KILLS[moment]
    run = run.partition("[")[0] + moment.replace(" ", "-")
    reached, killed = threading.Event(), threading.Event()

    def wait():
        reached.set()
        killed.wait(60)

    def fault(request):
        if killed.is_set() or not is_moment(2 if "step_00000002" in request.path else 1, request):
            return "ok"
        if moment == "after the manifest":
            return wait
        wait()
        return "cut before"

    proxy.fault = fault
    options = s3_server.options(proxy.url)
    with subprocess.Popen([sys.executable, "-c", WRITER, run, json.dumps(options)]) as writer:
        try:
            while not reached.wait(0.1):
                assert writer.poll() is None, "the writer did not come so far"
        finally:
            writer.send_signal(signal.SIGKILL)
            writer.wait()
            killed.set()

    # moto says of all uploads that they began in 2010.
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds").encode()
    proxy.edit = lambda data: data.replace(b"2010-11-10T20:48:33.000Z", now)
    fs = s3fs.S3FileSystem(**options)

    def left():
        uploads = fs.call_s3("list_multipart_uploads", Bucket="bucket", Prefix=run.removeprefix("s3://bucket/"))
        # Beside a checkpoint and a manifest for each step, and LATEST.
        return len(files(run, options)) - 2 * len(ck.steps) - 1, len(uploads.get("Uploads", []))

    ck = espalier.Checkpointer(run, keep=2, background=False, storage_options=options)
    state, step = ck.restore()
    assert step == state["step"] == restored and (state["w"] == step).all()
    ck.save(5, {"step": 5})
    assert left() == (lost_files, open_uploads)
    monkeypatch.setattr(_object_store, "_ABANDONED", -60)
    ck.save(6, {"step": 6})
    assert left() == (0, 0) and ck.steps == [5, 6] and ck.restore()[0]["step"] == 6


def test_trouble_of_the_network_is_no_damage(proxy, run):
    """A restore that cannot read the newest step does not go on from an older one."""
    options = s3_server.options(proxy.url)
    ck = espalier.Checkpointer(run, background=False, storage_options=options)
    for step in (1, 2):
        ck.save(step, {"step": step})
    proxy.fault = lambda request: "503" if request.method == "GET" and "step_00000002" in request.path and ".espalier" in request.path else "ok"
    with pytest.raises(espalier.CheckpointOSError, match="step_00000002.*see that it can be reached"):
        ck.restore()
    proxy.fault = lambda request: "ok"
    assert ck.restore()[1] == 2


def manifest_of(step, /, **changes):
    """The last manifest of a step in memory://run, changed."""
    names = [name for name in MemoryFileSystem.store if name.startswith(f"/run/step_{step:08}") and name.endswith(".json")]
    return json.dumps({**json.loads(MemoryFileSystem.store[max(names)].getvalue()), **changes}).encode()


@pytest.mark.parametrize("scheme", ["memory", "s3"])
def test_a_reader_sees_a_name_that_is_used_again(scheme, server, run):
    """Once no manifest of a step is left, the next one has the first name again."""
    url, options = (run, at(server)) if scheme == "s3" else ("memory://run", None)
    fs, path = fsspec.url_to_fs(url, **(options or {}))
    reader = espalier.Checkpointer(url, best=("loss", "min"), storage_options=options)
    for run_of, losses in (("first", (2.0, 1.0)), ("anew", (2.0, 3.0))):
        if run_of == "anew":
            fs.invalidate_cache()
            for name in fs.find(path):
                fs.rm_file(name)
        with espalier.Checkpointer(url, background=False, storage_options=options) as ck:
            for step, loss in enumerate(losses):
                ck.save(step, {"of": run_of}, metrics={"loss": loss})
        best = losses.index(min(losses))
        assert reader.best == best and reader.restore(best=True) == ({"of": run_of}, best)
        assert espalier.load(reader.path(1), storage_options=options) == {"of": run_of}


def test_the_manifests_are_read_once(monkeypatch, server, run):
    """The listing tells which have not changed."""
    read, requests = _object_store.Objects.read, []
    monkeypatch.setattr(_object_store.Objects, "read", lambda self, name: requests.append(name) or read(self, name))
    with espalier.Checkpointer(run, background=False, best=("loss", "min"), keep=9, storage_options=at(server)) as ck:
        for step in range(1, 4):
            ck.save(step, {}, metrics={"loss": 1})
        requests.clear()
        ck.save(4, {}, metrics={"loss": 1})
        assert [name for name in requests if name != "LATEST"] == ["step_00000004.json"]
        ck._store._objects.write("step_00000009.json", b"")  # of which S3 has no range
        with pytest.raises(espalier.Corrupt, match="step_00000009.json: this is not the manifest"):
            ck.path(9)


def test_objects_of_strangers():
    """They neither end what the rules remove nor hide a save, and long ones are not read."""
    fs = MemoryFileSystem()
    ck = espalier.Checkpointer("memory://run", keep=1, background=False)
    ck.save(5, {"n": 1})
    fs.pipe("/run/step_00000005.999999999.json", manifest_of(5))
    with pytest.raises(espalier.CheckpointOSError, match="step_00000005.999999999.json: this has the last number.*remove it"):
        # Nothing says that it was saved.
        espalier.Checkpointer("memory://run", background=False).save(5, {"n": 2})
    fs.rm("/run/step_00000005.999999999.json")
    # Not one that this writer found at its first save.
    fs.pipe("/run/step_00000001.json", manifest_of(5, step=1, file="step_" + "\u0660" * 7 + "\u0661.0123456789abcdef.espalier"))
    fs.pipe("/run/step_00000002.json", b" " * (1 << 20) + manifest_of(5, step=2, file="step_00000002.0123456789abcdef.espalier"))
    with pytest.warns(espalier.DamagedCheckpoint) as told:
        ck.save(6, {"n": 6})
    assert {str(each.message).partition(" ")[0] for each in told} == {f"memory://run/step_0000000{step}.json:" for step in (1, 2)}
    assert ck.steps == [1, 2, 6] and json.loads(fs.cat("/run/LATEST")) == ["step_00000006.json"]
    with pytest.raises(espalier.Corrupt, match="step_00000002.json: this is not the manifest"):
        ck.path(2)
    ck.save(7, {"n": 7})
    assert ck.steps == [1, 2, 7]


def test_a_hint_is_read_in_part(monkeypatch):
    fs = MemoryFileSystem()
    ck = espalier.Checkpointer("memory://run", background=False)
    ck.save(5, {"n": 1})
    read, requests = _object_store.Objects.read, []
    monkeypatch.setattr(_object_store.Objects, "read", lambda self, name: requests.append(name) or read(self, name))
    for count, expected in ((1000, 17), (100_000, 1)):
        fs.pipe("/run/LATEST", json.dumps([f"step_{step:08}.json" for step in range(10, 10 + count)]).encode())
        requests.clear()
        assert espalier.Checkpointer("memory://run").steps == [5] and len(requests) == expected


@pytest.mark.parametrize("versions", [(), ("created",)])
def test_two_manifests_of_one_object(versions, monkeypatch):
    """In stores without and with versions of objects."""
    monkeypatch.setattr(_urls, "_VERSIONS", versions)
    fs = MemoryFileSystem()
    with espalier.Checkpointer("memory://run", background=False) as ck:
        ck.save(5, {"n": 1})
    fs.pipe("/run/step_00000005.1.json", manifest_of(5))
    with espalier.Checkpointer("memory://run", keep=2, background=False) as ck:
        ck.save(6, {})
        assert ck.restore(step=5)[0] == {"n": 1} and "step_00000005.json" not in files("memory://run")
    fs.pipe("/run/step_00000005.2.json", manifest_of(5))
    with espalier.Checkpointer("memory://run", keep=1, background=False) as ck:
        ck.save(7, {})
        assert len(files("memory://run")) == 3 and ck.steps == [7]


@pytest.mark.parametrize("versions", [(), ("created",)])
def test_an_object_with_the_name_of_a_later_manifest_hides_none(versions, monkeypatch):
    monkeypatch.setattr(_urls, "_VERSIONS", versions)
    fs = MemoryFileSystem()
    with espalier.Checkpointer("memory://run", best=("loss", "min"), background=False) as ck:
        for step in (5, 6):
            ck.save(step, {"n": step}, metrics={"loss": step})
    for step in (5, 6):
        fs.pipe(f"/run/step_{step:08}.1.json", b"{}")
    ck = espalier.Checkpointer("memory://run", best=("loss", "min"))
    assert ck.best == 5 and espalier.load(ck.path(5)) == {"n": 5}
    for step, options in ((6, {}), (5, {"step": 5}), (5, {"best": True})):
        with pytest.warns(espalier.DamagedCheckpoint) as told:
            assert ck.restore(**options) == ({"n": step}, step)
        [warning] = told
        assert str(warning.message).startswith(f"an earlier save of step {step} is taken: memory://run/step_{step:08}.1.json: this is not")
    # The next save removes what the rules say, the checkpoint of step 5 too, and no object of strangers.
    with espalier.Checkpointer("memory://run", keep=2, background=False) as ck, pytest.warns(espalier.DamagedCheckpoint) as told:
        ck.save(7, {"n": 7})
    assert [str(each.message).partition(":")[2].split(":")[0][-21:] for each in told] == ["/step_00000006.1.json", "/step_00000005.1.json"]
    names = sorted(re.sub(r"[0-9a-f]{16}", "*", name) for name in files("memory://run"))
    assert names == [
        "LATEST", "step_00000005.1.json", "step_00000006.*.espalier", "step_00000006.1.json", "step_00000006.json",
        "step_00000007.*.espalier", "step_00000007.json",
    ]  # fmt: skip
    # A save of the step counts after all.
    with espalier.Checkpointer("memory://run", keep=2, background=False) as ck:
        with pytest.warns(espalier.DamagedCheckpoint):
            ck.save(6, {"n": "again"})
        assert ck.restore(step=6) == ({"n": "again"}, 6)


def test_damage_is_passed_over(monkeypatch):
    fs = MemoryFileSystem()
    ck = espalier.Checkpointer("memory://run", keep=5, background=False)
    for step in range(1, 6):
        ck.save(step, {"w": F32 * step})

    def change(step, what):
        path = ck.path(step).removeprefix("memory:/")
        fs.pipe(path, what(fs.cat(path)))

    whole = fs.cat(ck.path(5).removeprefix("memory:/"))
    change(5, lambda data: data[:-1] + b"x")
    change(4, lambda data: data[:100])
    change(3, lambda data: whole)  # an intact checkpoint of the same size
    fs.pipe("/run/step_00000002.json", b"[" * 200_000)
    ck = espalier.Checkpointer("memory://run")
    with pytest.warns(espalier.DamagedCheckpoint) as told:
        assert ck.restore()[1] == 1
    assert [str(each.message).split(" is")[0] for each in told] == [f"step {step}" for step in (5, 4, 3, 2)]
    assert "memory://run/step_00000005." in str(told[0].message) and "/tmp" not in str(told[0].message)
    fs.rm(ck.path(1).removeprefix("memory:/"))
    with pytest.raises(espalier.Corrupt, match="none of the 5 checkpoints is intact; the latest: memory://run/step_00000005"):
        ck.restore()
    # What cannot be read stays.
    with pytest.warns(espalier.DamagedCheckpoint, match="step_00000002.json: this is not the manifest"):
        ck2 = espalier.Checkpointer("memory://run", keep=4, best=("m", "min"), background=False)
        ck2.save(6, {}, metrics={"m": 1})
    assert ck2.steps == [2, 3, 4, 5, 6]


def test_a_bucket_that_is_not_there_is_no_empty_folder(server):
    ck = espalier.Checkpointer("s3://buckets/run", storage_options=at(server))
    for call in (ck.restore, lambda: ck.steps, lambda: ck.save(1, {})):
        with pytest.raises(espalier.CheckpointNotFound, match="there is no bucket 'buckets'"):
            call()


class Late(Plain):
    """A store whose listings lack what was made last, and have what was removed last."""

    protocol = ("late", "memory")
    store, pseudo_dirs = {}, [""]
    listed = ()

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.removeprefix("late://"))

    def ls(self, path, detail=True, **options):
        return [{"name": name, "type": "file", "size": 1} for name in self.listed]


def test_listings_that_come_late():
    fsspec.register_implementation("late", Late, clobber=True)
    ck = espalier.Checkpointer("late://run", keep=1, background=False)
    for step in (1, 2, 3):
        before = [name for name in Late.store if "LATEST" not in name]
        ck.save(step, {"step": step})
        Late.listed = tuple(before)  # as it was before this save: its manifest is missing, the removed one is there
    reader = espalier.Checkpointer("late://run")
    assert reader.restore() == ({"step": 3}, 3) and reader.latest == 3
    # Of the last saves, and not of the last steps.
    with espalier.Checkpointer("late://run", keep=None, background=False) as ck:
        for step in range(4, 30):
            ck.save(step, {"step": step})
        Late.listed = tuple(Late.store)
        ck.save(5, {"step": -5})
        ck.save(30, {})
    assert espalier.Checkpointer("late://run").restore(step=5) == ({"step": -5}, 5)


def test_saves_of_one_file(proxy, run):
    """They arrive in their order, and one that is given up leaves the old object."""
    url, options = f"{run}/x.espalier", s3_server.options(proxy.url)
    held, sent = threading.Event(), []

    def fault(request):
        if request.method == "PUT":
            sent.append(request)
            if len(sent) == 1:
                held.wait(60)
        return "ok"

    proxy.fault = fault
    array = np.ones(1 << 18)
    saves = [espalier.save_async(url, {"n": n, "a": array}, storage_options=options) for n in range(3)]
    array[:] = 2
    assert not saves[2].done()
    saves[1].cancel()
    held.set()
    saves[0].result()
    with pytest.raises(espalier.Cancelled):
        saves[1].result()
    saves[2].result()
    loaded = espalier.load(url, storage_options=options)
    assert loaded["n"] == 2 and (loaded["a"] == 1).all() and saves[2].progress()[0] == saves[2].progress()[1] > 0
    assert url in repr(saves[2])
    with pytest.raises(espalier.Unsupported, match="^a: "):
        espalier.save_async(url, {"a": object()}, storage_options=options)
    proxy.fault = lambda request: "503" if request.method == "PUT" else "ok"
    failed = espalier.save_async(url, {"n": 3}, storage_options=options)
    assert isinstance(failed.exception(), OSError) and espalier.load(url, storage_options=options)["n"] == 2


ENDING = """
import sys, json, espalier
espalier.Checkpointer(sys.argv[1], storage_options=json.loads(sys.argv[2])).save(1, {"step": 1})
"""


def test_the_program_s_end_waits_for_the_upload(server, proxy, run):
    """Also where a host's name must still be looked up, for which aiohttp needs a thread pool."""
    options = s3_server.options(proxy.url.replace("127.0.0.1", "localhost"))
    done = subprocess.run([sys.executable, "-c", ENDING, run, json.dumps(options)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert espalier.Checkpointer(run, storage_options=at(server)).restore() == ({"step": 1}, 1)


@pytest.mark.parametrize("where", ["folder", "memory"])
def test_metrics_are_numbers_that_a_float_holds(where, tmp_path):
    folder = str(tmp_path) if where == "folder" else "memory://run"
    with espalier.Checkpointer(folder, best=("loss", "min"), background=False) as ck:
        ck.save(1, {}, metrics={"loss": 10**300})
        for wrong in (10**400, None, "low", [1.0], np.ones(2)):
            with pytest.raises(espalier.EspalierError, match="the metric 'loss' of step 2 is not a number that a float can hold"):
                ck.save(2, {}, metrics={"loss": wrong})
        assert ck.steps == [1] and ck.best == 1
        # Of another program. The library takes ints of 64 bits.
        if where == "folder":
            espalier.save(tmp_path / "step_00000002.espalier", {}, metadata={"step": 2, "metrics": {"loss": -(10**20)}})
        else:
            data = manifest_of(1, step=2, file="step_00000002.0123456789abcdef.espalier", metrics={"loss": -(10**20)})
            MemoryFileSystem().pipe("/run/step_00000002.json", data)
    with espalier.Checkpointer(folder, best=("loss", "min"), keep=1, background=False) as ck:
        assert ck.steps == [1, 2] and ck.best == 1
        assert not any(number({"loss": each}, "loss") for each in (10**400, -(2**63) - 1, 2**63, float("nan"), True, "1", None))
        ck.save(3, {}, metrics={"loss": 10**301})
        assert ck.steps == [1, 3]


def test_no_temporary_file_can_be_written(monkeypatch, tmp_path):
    ck = espalier.Checkpointer("memory://run", background=False)
    ck.save(1, {"n": 1})
    file = ck.path(1)
    size = len(MemoryFileSystem().cat(file.removeprefix("memory:/")))
    for target, says in (("/dev/full", "No space left on device"), (str(tmp_path / "none" / "file"), "No such file or directory")):
        with pytest.raises(espalier.CheckpointOSError, match=f"{says}.*set TMPDIR"):
            _object_store.Objects("memory://run").get(os.path.basename(file), size, target)
    large, soft = {"a": np.ones(1 << 17)}, resource.getrlimit(resource.RLIMIT_FSIZE)
    for write in (
        lambda: ck.save(2, large), lambda: espalier.save("memory://x.espalier", large),
        lambda: espalier.save_async("memory://x.espalier", large).result(),
    ):  # fmt: skip
        with pytest.raises(espalier.CheckpointOSError, match="/espalier-.*File too large.*set TMPDIR"):
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, soft[1]))
            try:
                write()
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, soft)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    background = espalier.Checkpointer("memory://run")
    for write in (
        lambda: ck.save(2, {}), lambda: background.save(2, {}), lambda: espalier.save("memory://x.espalier", {}),
        lambda: espalier.save_async("memory://x.espalier", {}), ck.restore, lambda: ck.restore(step=1),
    ):  # fmt: skip
        with pytest.raises(espalier.CheckpointOSError, match="none: a temporary file cannot be written.*set TMPDIR") as told:
            write()
        # It is not the checkpoint that is missing.
        assert not isinstance(told.value, FileNotFoundError)


HOLDER = """
import os, sys
from espalier import _temporary
folder = _temporary.TemporaryFolder()
if os.fork() == 0:
    sys.exit()
os.wait()
print(*os.listdir(os.path.dirname(folder.name)), flush=True)
sys.stdin.read()
"""


def test_temporary_folders_of_killed_processes_go(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "espalier-of-another-program").mkdir()

    def left():
        monkeypatch.setattr(_temporary, "_has_swept", False)
        with _temporary.TemporaryFolder() as own:
            return set(os.listdir(tmp_path)) - {os.path.basename(own)}

    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as holder:
        try:
            held = set(holder.stdout.readline().split())  # after a forked child has ended
            assert len(held) == 2 and left() == held
        finally:
            holder.kill()
    assert left() == {"espalier-of-another-program"}


def test_what_cannot_be_a_folder_of_checkpoints(tmp_path):
    for url, options, says in (
        ("memory://run", {"incremental": True}, "incremental=True is for folders of this machine"),
        ("simplecache::memory://run", {}, "a folder of one store"),
        ("s3://", {}, "a folder of one store"),
        ("https://host/run", {}, "a web server takes no checkpoints"),
        (f"file://{tmp_path}", {}, "leave out file://"),
        ("nothing://run", {}, "Protocol not known"),
    ):
        with pytest.raises(espalier.EspalierError, match=says):
            espalier.Checkpointer(url, **options)


def error(kind, cause=None, **fields):
    made = kind("x")
    for name, value in fields.items():
        setattr(made, name, value)
    made.__cause__ = cause
    return made


def test_which_errors_pass():
    class ClientPayloadError(Exception):
        """One of aiohttp's name."""

    def answered(status):
        return error(Exception, response={"ResponseMetadata": {"HTTPStatusCode": status}})

    passing = [error(Exception, status=429), error(OSError, errno=121), error(OSError, answered(503), errno=22), TimeoutError(),
               ConnectionResetError(), ClientPayloadError(), error(Exception, code=500), error(Exception, status_code=502)]  # fmt: skip
    lasting = [error(Exception, status=404), PermissionError(), FileNotFoundError(), FileExistsError(), ValueError(), TypeError(),
               error(OSError, answered(412), errno=22), error(OSError, answered(403), errno=5), error(OSError, errno=28),
               error(FileNotFoundError, answered(503)), error(Exception, code="500"), NotImplementedError()]  # fmt: skip
    assert all(map(_retry.is_passing, passing)) and not any(map(_retry.is_passing, lasting))
