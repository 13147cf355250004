"""What processes of torch.distributed do together in the tests: forked from one process, which has imported torch.

Reads tasks from its input, a line of JSON each, and prints the exit codes of the ranks.
"""

import contextlib
import datetime
import itertools
import json
import os
import pathlib
import runpy
import signal
import subprocess
import sys
import threading
import traceback
import warnings

import espalier
import numpy as np
import pytest
import torch
import torch._dynamo  # FSDP and optimizers import it: here, once
import torch.distributed as dist
from espalier import _core, _rank_files, _rank_folder
from espalier.torch import _gloo_ranks, _plan, random_state, set_random_state
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

_numbers = itertools.count()


def run(task, folder, ranks, **arguments):
    """Forks the ranks; returns their exit codes, negative for signals."""
    store = f"file://{folder}/.store-{next(_numbers)}"
    pids = []
    for rank in range(ranks):
        pid = os.fork()
        if pid == 0:
            os._exit(_child(task, pathlib.Path(folder), store, rank, ranks, arguments))
        pids.append(pid)
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def _child(task, folder, store, rank, ranks, arguments):
    try:
        signal.alarm(120)
        os.dup2(2, 1)  # What the test reads are the exit codes.
        torch.set_num_threads(1)
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=ranks, timeout=datetime.timedelta(seconds=60))
        TASKS[task](folder, **arguments)
        return 0
    except BaseException:
        print(f"rank {rank} of {task} {arguments}:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
        return 1


def objects():
    """A sharded model with its optimizer, and a tensor that all ranks have."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 11), nn.Dropout(0.1), nn.Linear(11, 3))
    for layer in (model[0], model[2], model):
        fully_shard(layer)
    return model, torch.optim.AdamW(model.parameters(), lr=0.1), torch.zeros(300_000)


def train(folder, last, background=False, kill=None, **options):
    """Trains to a step, and saves each."""
    model, optimizer, average = objects()
    torch.manual_seed(100 + dist.get_rank())
    ck = espalier.Checkpointer(folder / "run", keep=2, distributed=True, background=background, **options)
    live = {"model": model, "optimizer": optimizer, "average": average}
    rest, done = ck.restore(into=live)
    assert rest == ({"step": done, "nested": [{"rank": 0}]} if done else {})
    if done:
        set_random_state(ck.load_per_rank(done)["random"])
    for step in range(done + 1, last + 1):
        optimizer.zero_grad()
        model(torch.ones(4, 5) * step).square().sum().backward()
        optimizer.step()
        average += step
        if kill and kill["step"] == step:
            ck.wait()
            die_at(kill["point"], kill["rank"])
        # Of what is no tensor, rank 0's counts; and nothing changes in a save that goes on.
        state = {**live, "step": step, "nested": [{"rank": dist.get_rank()}]}
        ck.save(step, state, metrics={"loss": float(step % 3)}, per_rank={"random": random_state("cpu")})
    ck.close()


def die_at(point, rank):
    """Lets one rank be killed at a point of its next save."""

    def die(*_, **__):
        os.kill(os.getpid(), signal.SIGKILL)

    def before(module, name):
        setattr(module, name, die)

    def after(module, name, then=die):
        plain = getattr(module, name)

        def called(*given, **options):
            result = plain(*given, **options)
            then()
            return result

        setattr(module, name, called)

    def while_writing():
        plain = _rank_files.write
        _rank_files.write = lambda *given, **options: plain(*given, **{**options, "progress": die})

    points = {
        "agreed": lambda: before(_rank_files, "write"),
        "writing": while_writing,
        "written": lambda: after(_rank_files, "write"),
        "told": lambda: after(_rank_files, "write", lambda: after(_gloo_ranks.GlooRanks, "gather")),
        "committing": lambda: before(_core, "save_joined"),
        "committed": lambda: after(_core, "save_joined"),
        "pruning": lambda: before(_rank_files, "remove_unneeded"),
        "removing": lambda: after(pathlib.Path, "unlink"),
        "pruned": lambda: after(_rank_files, "remove_unneeded"),
    }
    if dist.get_rank() == rank:
        points[point]()


def whole():
    """A state of tensors that ranks have parts of, and of others."""
    torch.manual_seed(3)
    rows, columns = torch.randn(4096, 1024), torch.randn(300, 400)
    return {
        "rows": rows, "columns": columns, "uneven": torch.randn(4095, 531).bfloat16(), "few": torch.arange(3), "all": torch.randn(100),
        "plain": torch.arange(9.0), "tied": {"rows": rows}, "empty": torch.zeros(0, 3), "scalar": torch.tensor(2.5),
        "kinds": [(1, None), {"x": np.arange(4), 7: "text"}, frozenset({1}), b"bytes"],
    }  # fmt: skip


PLACEMENTS = {"rows": [Shard(0)], "columns": [Shard(1)], "uneven": [Shard(0)], "few": [Shard(0)], "all": [Replicate()]}


def sharded(state):
    mesh = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),))
    made = {**state, **{name: distribute_tensor(state[name], mesh, each) for name, each in PLACEMENTS.items()}}
    return {**made, "tied": {"rows": made["rows"]}}


def template():
    """Of the same kinds, with other values."""
    return torch.utils._pytree.tree_map(lambda each: each + 1 if isinstance(each, torch.Tensor) else each, whole())


def check(state):
    for name, wanted in whole().items():
        found = state[name]
        assert isinstance(found, DTensor) == (name in PLACEMENTS), name
        if name in PLACEMENTS:
            found = found.full_tensor()
        if isinstance(wanted, torch.Tensor):
            assert torch.equal(found, wanted) and found.dtype == wanted.dtype, name
    assert torch.equal(state["tied"]["rows"].full_tensor(), whole()["rows"])
    assert str(state["kinds"]) == str(whole()["kinds"])


def save_whole(folder, **options):
    with espalier.Checkpointer(folder / "run", distributed=True, **options) as ck:
        state = sharded(whole())
        ck.save(1, state, metadata={"by": dist.get_rank()}, metrics={"loss": dist.get_rank()}, per_rank={"rank": dist.get_rank()})
        for each in (state["rows"], state["plain"]):
            each.zero_()
        state["kinds"][1]["x"][:] = 0


def load_whole(folder, is_same_count):
    ck = espalier.Checkpointer(folder / "run", distributed=True)
    state, step = ck.restore(like=sharded(template()))
    assert step == 1
    check(state)
    assert ck.load_per_rank(1) == ({"rank": dist.get_rank()} if is_same_count else None)
    ck.close()


def bytes_read():
    """By system calls of this process that read files."""
    return int(pathlib.Path("/proc/self/io").read_text().split()[1])


def read_parts(folder):
    """Reads no more than the parts of this rank: a mapping would hide what it reads."""
    mesh = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),))
    like = {"rows": distribute_tensor(torch.zeros(4096, 1024), mesh, PLACEMENTS["rows"])}
    path = espalier.Checkpointer(folder / "run").path(1)
    read = []
    for template in ({}, {}, like):
        before = bytes_read()
        state = espalier.load(path, like=template, strict="template", mapped=False)
        read.append(bytes_read() - before)
    assert torch.equal(state["rows"].full_tensor(), whole()["rows"])
    needed = like["rows"].to_local().nbytes
    assert needed <= read[2] <= 1.1 * needed, (needed, read)
    assert read[1] < 0.1 * needed


def read_columns(folder):
    """Of a tensor that is cut along its last axis, a rank reads from its own file what it saved, and no more."""
    rank = dist.get_rank()
    mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
    whole = torch.arange(64 << 16, dtype=torch.float32).reshape(64, 1 << 16)
    state = {"wide": distribute_tensor(whole, mesh, [Shard(1)])}
    like = {"wide": distribute_tensor(whole * 0, mesh, [Shard(1)])}
    ck = espalier.Checkpointer(folder / "run", distributed=True)
    ck.save(1, state, per_rank={"rank": rank})
    ck.wait()
    needed, read = state["wide"].to_local().nbytes, []
    for template in (like, like, {**like, "wide": distribute_tensor(whole * 0, mesh, [Shard(0)])}):
        before = bytes_read()
        found = ck.restore(like=template, mapped=False)[0]
        read.append(bytes_read() - before)
        assert torch.equal(found["wide"].full_tensor(), whole)
    # Rank 0 checks the step as well. The last template has what two files have parts of.
    assert rank == 0 or needed <= read[1] <= 1.1 * needed and needed <= read[2] <= 1.1 * needed, (needed, read)
    [own] = (folder / "run").glob(f"*.r{rank:05}.*")
    content = own.read_bytes()
    place = content.index(state["wide"].to_local()[7, :9].numpy().tobytes())
    damage = lambda: own.write_bytes(content[:place] + b"x" + content[place + 1 :]), lambda: own.write_bytes(content[:90]), own.unlink
    for spoil in damage:  # The step has all of it.
        spoil()
        dist.barrier()
        found = ck.restore(like=like)[0]["wide"].full_tensor()
        assert torch.equal(found, whole)
    ck.close()


def checked(folder):
    """Each rank checks what it reads: a cache of its machine may have other bytes than rank 0 has checked."""
    rank = dist.get_rank()
    mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
    state = {"array": np.full(1000, 3.5), "rows": distribute_tensor(torch.arange(600_000).float().reshape(600, 1000), mesh, [Shard(0)])}
    for name, where, some in (("array", "step_00000001.espalier", np.full(9, 3.5)), ("rows", "*.r00001.*", np.arange(599_900, 599_950, dtype="f4"))):
        with espalier.Checkpointer(folder / name, distributed=True) as ck:
            ck.save(1, state)
            ck.wait()
            [file] = (folder / name).glob(where)
            latest = ck._store._steps.latest

            def damaged_later(*given, latest=latest, file=file, some=some.tobytes()):
                found = latest(*given)
                place = file.read_bytes().index(some)
                with file.open("r+b") as opened:
                    opened.seek(place)
                    opened.write(b"x")
                return found

            if rank == 0:
                ck._store._steps.latest = damaged_later
            with pytest.raises(espalier.Corrupt, match=f"{'^rank 1: ' if rank == 0 else '^'}.*in {name}"):
                ck.restore(like=state)


def fail_in_one(folder):
    """What goes wrong in one process is an error of all, and the next save is made."""
    ck = espalier.Checkpointer(folder / "run", distributed=True, background=False)
    rank = dist.get_rank()
    ck.save(1, {"w": torch.ones(3)})

    def refused(*given, **options):
        raise OSError(28, "No space left on device")

    plain = _rank_files.write
    if rank == 1:
        _rank_files.write = refused
    with pytest.raises(OSError, match="step 2 was not saved: rank 1: .*No space left"):
        ck.save(2, {"w": torch.ones(3)})
    _rank_files.write = plain
    with pytest.raises(espalier.Unsupported, match="rank 1: f: .* is code"):
        ck.save(2, {"w": torch.ones(3), "f": print if rank == 1 else 0})
    with pytest.raises(espalier.EspalierError, match="rank 1 saves step 3, and rank 0 saves step 2"):
        ck.save(2 + rank, {"w": torch.ones(3)})
    with pytest.raises(espalier.EspalierError, match="u: rank 0 has no tensor there"):
        ck.save(2, {"w": torch.ones(3), "u": torch.ones(3) if rank == 1 else 3})
    for only_there in ({"n": torch.ones(3)}, {"n": 1}, {"at": [{}, {"n": 1}]}):
        with pytest.raises(espalier.EspalierError, match="^(at/1/)?n: rank 1 has this key, and rank 0 has not"):
            ck.save(2, {"w": torch.ones(3), "at": [{"seen": rank}, {}], **(only_there if rank == 1 else {})})
    mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
    for sums in ([Partial()], [Partial("avg")]):
        of_sums = DTensor.from_local(torch.ones(4, 3), mesh, sums, run_check=False)
        with pytest.raises(espalier.Unsupported, match="w: a DTensor of partial sums; redistribute"):
            ck.save(2, {"w": of_sums})
        with pytest.raises(espalier.Unsupported, match="w: a DTensor of partial sums; redistribute"):
            ck.save(2, {}, per_rank={"w": of_sums})
    with pytest.raises(espalier.EspalierError, match="the metadata have ranks"):
        ck.save(2, {}, metadata={"ranks": 1} if rank == 0 else {})
    with pytest.raises(espalier.EspalierError, match="w/0: a DTensor is of all processes"):
        ck.save(2, {}, per_rank={"w": [sharded(whole())["rows"]]})
    with pytest.raises(espalier.TreeMismatch if rank == 1 else espalier.EspalierError, match="w"):
        ck.restore(like={"w": torch.ones(4 if rank == 1 else 3)})
    assert ck.steps == [1]
    assert ck.save(2, {"w": torch.ones(3)}) and ck.steps == [1, 2]
    held = folder / "held"
    holds = "import sys, espalier; ck = espalier.Checkpointer(sys.argv[1], background=False); ck.save(1, {}); print(1, flush=True); input()"
    if rank == 0:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        holder = subprocess.Popen([sys.executable, "-c", holds, str(held)], **pipes)
        assert holder.stdout.readline() == b"1\n"
    refused_one = espalier.Checkpointer(held, distributed=True)
    with pytest.raises(espalier.CheckpointOSError) as error:
        refused_one.save(2, {"w": torch.ones(3)})
    assert error.value.code == "folder_in_use" and os.listdir(held).count("step_00000001.espalier") == 1
    assert not [name for name in os.listdir(held) if ".r0" in name]
    # So is a second one of this job, which would remove files of saves of the first.
    second = espalier.Checkpointer(folder / "run", distributed=True)
    with pytest.raises(espalier.CheckpointOSError, match="another Checkpointer of this program"):
        second.save(3, {})
    if rank == 0:
        holder.communicate(b"\n")
    # Another job on the folder is refused, and reads.
    other = "import sys, espalier; ck = espalier.Checkpointer(sys.argv[1]); assert ck.restore()[1] == 2; ck.save(3, {})"
    if rank == 0:
        done = subprocess.run([sys.executable, "-c", other, str(folder / "run")], capture_output=True, text=True)
        assert "(code folder_in_use)" in done.stderr.splitlines()[-1]
    assert second.restore(framework="torch")[1] == 2
    ck.close()
    assert second.save(3, {})
    second.close()
    assert second.steps == [1, 2, 3]


def forked(folder):
    """A child that one rank forks has no part in the group."""
    ck = espalier.Checkpointer(folder / "run", distributed=True)
    ck.save(1, {"w": torch.ones(3)})
    ck.wait()
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        for call in (lambda: ck.save(2, {}), ck.restore, lambda: ck.load_per_rank(1), ck.close):
            try:
                call()
            except espalier.EspalierError as error:
                if "which this one was forked from" in str(error):
                    continue
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert ck.save(2, {"w": torch.ones(3)})
    ck.close()
    assert ck.steps == [1, 2]


def warned(folder):
    """A warning that is an error in rank 0 does not keep the others waiting."""
    rank = dist.get_rank()
    ck = espalier.Checkpointer(folder / "run", distributed=True, keep=None)
    for step in (1, 2):
        ck.save(step, {"w": torch.ones(3)}, per_rank=rank)
    ck.wait()
    if rank == 0:
        os.truncate(ck.path(2), 100)
    dist.barrier()

    def told(call, text):
        """The result in other ranks."""
        with warnings.catch_warnings():
            warnings.simplefilter("error", espalier.DamagedCheckpoint)
            if rank != 0:
                return call()
            with pytest.raises(espalier.DamagedCheckpoint, match=text):
                call()
            return None

    assert told(lambda: ck.restore(framework="torch")[1], "step 2 is passed over") in (None, 1)
    ck.save(3, {"w": torch.ones(3)}, per_rank=rank)
    calls = lambda: ck.save(4, {}), ck.restore, lambda: ck.load_per_rank(1), ck.close
    for step, call in enumerate(calls, 5):
        # The save before could not tell what the damaged step needs.
        ck._problems.clear()
        told(call, "step_00000002.espalier")
        if call != ck.close:
            ck.save(step, {"w": torch.ones(3)}, per_rank=rank)
    assert ck.steps == [1, 2, 3, 4, 5, 6, 7]


def rules(folder):
    """When to save and what to keep, by the clock and the metrics of rank 0."""
    rank = dist.get_rank()
    state = sharded({**whole(), "frozen": torch.arange(3 << 18)})
    kept = {"keep": 1, "keep_every": 4, "best": ("loss", "min")}
    with espalier.Checkpointer(folder / "run", distributed=True, incremental=True, **kept) as ck:
        for step in range(1, 7):
            state["plain"] += 1
            ck.save(step, state, metrics={"loss": abs(step - 2) if rank == 0 else step})
            ck.wait()
        assert ck.best == 2 and ck.steps == [2, 4, 6]
        for step in ck.steps:
            with espalier.open(ck.path(step)) as file:
                assert file.verify().verdict == "ok" and file.metadata["metrics"] == {"loss": abs(step - 2)}
        loaded, step = ck.restore(like=state, best=True)
        assert step == 2 and torch.equal(loaded["plain"], whole()["plain"] + 2)
        assert ck.load_per_rank(2) is None
        # Only the first step has the frozen tensors; its files stay, though the step is gone.
        files = [path for path in (folder / "run").iterdir() if ".r0" in path.name]
        assert len(files) == 4 * dist.get_world_size()
        assert sum(path.stat().st_size > 500_000 for path in files) == dist.get_world_size()
    # A run of one process goes on with several.
    if rank == 0:
        with espalier.Checkpointer(folder / "alone") as ck:
            ck.save(1, {"w": torch.ones(3)}, metadata={"ranks": 8})
    dist.barrier()
    with espalier.Checkpointer(folder / "alone", distributed=True, incremental=True, patches=True, keep=None) as ck:
        assert ck.restore()[1] == 1 and ck.load_per_rank(1) is None
        values = sharded(whole())
        for step in (2, 3):
            values["rows"].to_local()[5, 5] += 1
            ck.save(step, values)
            ck.wait()
        assert ck.steps == [1, 2, 3] and not ck._store.tidy()
        with espalier.open(ck.path(3)) as file:
            assert file.verify().verdict == "ok"
        assert torch.equal(ck.restore(like=values)[0]["rows"].full_tensor(), values["rows"].full_tensor())
        assert sum(path.stat().st_size for path in (folder / "alone").glob("step_00000003.0*")) < 100_000
    # And one process with a run of several: their files go with their steps, once nothing refers to them.
    if rank == 0:
        alone = folder / "alone"
        for incremental in (True, False):
            with espalier.Checkpointer(alone, incremental=incremental, keep=1, background=False) as ck:
                [loaded, step] = ck.restore(framework="torch")
                ck.save(step + 1, loaded)
                with espalier.open(ck.path(step + 1)) as file:
                    assert file.verify().verdict == "ok"
                files = {name[:14] for name in os.listdir(alone) if name.startswith("step")}
                needed = {"step_00000002.", "step_00000003."} if incremental else set()
                assert files == {f"step_{step + 1:08}.", *needed}, files
    dist.barrier()
    clock = espalier.Checkpointer(folder / "clock", distributed=True, every_minutes=1)
    if rank == 1:
        clock._last_save -= 3600
    assert not clock.is_due(1) and not clock.save(1, state)
    if rank == 0:
        clock._last_save -= 3600
    assert clock.is_due(2) and clock.save(2, state) and not clock.save(3, state)
    clock.close()
    # One save goes on in rank 0, which decides what becomes of the next.
    ended = threading.Event()
    plain = _rank_files.write
    _rank_files.write = lambda *given, **options: (ended.wait(60), plain(*given, **options))[1]
    ck = espalier.Checkpointer(folder / "busy", distributed=True, busy="skip")
    assert ck.save(1, state) and not ck.save(2, state)
    ended.set()
    ck.close()
    assert ck.steps == [1]


def ties(folder):
    """Tensors that share memory, and those of which one rank alone says so."""
    rank = dist.get_rank()
    mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
    one_row, rows = (distribute_tensor(torch.ones(n, 3), mesh, [Shard(0)]) for n in (1, 4))
    numbers = torch.tensor([1 + 2j, 3 + 4j])
    array = np.arange(4.0)
    state = {
        "x": numbers, "conj": numbers.conj(), "imag": numbers.imag, "neg": numbers.conj().imag,
        "tied": [one_row, one_row, rows, rows],  # rank 1 has nothing of the one row
        "one": rows, "other": rows if rank == 0 else rows * 2,
        "arrays": [array, array, espalier.AxisNamed(array, ("x",)), espalier.Packed("i4", (8,), np.ones(4, np.uint8))],
        "set": frozenset({(1, 2)}),
    }  # fmt: skip
    begun, plain = threading.Event(), _rank_files.write
    _rank_files.write = lambda *given, **options: (begun.wait(60), plain(*given, **options))[1]
    ck = espalier.Checkpointer(folder / "run", distributed=True)
    ck.save(1, state, per_rank={"named": state["arrays"][2]})
    array += 5
    state["arrays"][3].data[:] = 0
    begun.set()
    ck.close()
    found = espalier.load(ck.path(1), exact=True)
    for name in ("x", "conj", "imag", "neg"):
        assert np.array_equal(found[name], state[name].resolve_conj().resolve_neg()), name
    assert [each.tolist() for each in found["tied"]] == [[[1] * 3] * n for n in (1, 1, 4, 4)]
    assert found["tied"][0] is found["tied"][1] and found["tied"][2] is found["tied"][3] is found["one"]
    assert found["one"].tolist() == [[1] * 3] * 4 and found["other"].tolist() == [[1] * 3] * 2 + [[2] * 3] * 2
    wanted = np.arange(4.0)
    first, second, named, packed = found["arrays"]
    assert np.array_equal(first, wanted) and first is second and np.array_equal(named.array, wanted) and named.axis_names == ("x",)
    assert packed.astype(int).tolist() == [1, 0] * 4 and found["set"].value.elements == ((1, 2),)
    assert np.array_equal(ck.load_per_rank(1)["named"], wanted)
    for name, wrap in (("parts", fully_shard), ("copies", nn.parallel.DistributedDataParallel)):
        tied_weights(folder / name, wrap)
    # What all have and what differs is rank 0's, of whatever size: the statistics of BatchNorm under DDP.
    with espalier.Checkpointer(folder / "own", distributed=True) as ck:
        ck.save(1, {name: torch.full((100 * (9 - i),), float(rank)) for i, name in enumerate("abcdef")})
        ck.wait()
        assert all(not each.any() for each in espalier.load(ck.path(1)).values())
        for other in (torch.ones(3 + rank), torch.ones(3, dtype=torch.float16 if rank else torch.float32)):
            with pytest.raises(espalier.EspalierError, match="^w: rank 1 has torch.*, and rank 0 torch.float32 .3.; what is of one process"):
                ck.save(2, {"w": other})
    with espalier.Checkpointer(folder / "parts", distributed=True) as ck, pytest.raises(espalier.EspalierError, match="w"):
        ck.save(1, {"w": DTensor.from_local(torch.ones(2 + rank, 3), mesh, [Shard(0)], run_check=False)})


class Tied(nn.Module):
    """A language model whose output weights are those of its embedding."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(700, 512), nn.Linear(512, 700, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        return self.head(self.embed(tokens))


def tied_weights(folder, wrap):
    """Weights that a model ties are one tensor in the file of a step, and after restore()."""
    made = [wrap(Tied()) for _ in range(2)]
    plain = [each.module if wrap is not fully_shard else each for each in made]
    for each in made:
        optimizer = torch.optim.SGD(each.parameters(), lr=0.1)
        each(torch.arange(5)).sum().backward()
        optimizer.step()
    with espalier.Checkpointer(folder, distributed=True) as ck:
        ck.save(1, {"model": plain[0]})
        ck.wait()
        with espalier.open(ck.path(1)) as file:
            assert file.verify().verdict == "ok" and dict(file.find("**/head.weight")).keys() == {"model/head.weight"}
        loaded = espalier.load(ck.path(1))["model"]
        assert loaded["head.weight"] is loaded["embed.weight"] and loaded["head.weight"].nbytes == 700 * 512 * 4
        # All ranks together store it once, but for the MiB that two ranks have.
        sizes = [path.stat().st_size for path in folder.iterdir() if path.suffix == ".espalier"]
        assert len(sizes) == 3 and sum(sizes) < loaded["head.weight"].nbytes + (1 << 20) + 20_000
        assert ck.restore(into={"model": plain[1]}) == ({}, 1)
        like = {"model": plain[1].state_dict()}
        state = ck.restore(like=like)[0]["model"]
    assert plain[1].head.weight is plain[1].embed.weight and state["head.weight"] is state["embed.weight"]
    wanted = plain[0].state_dict()["head.weight"]
    for weight in (plain[1].state_dict()["embed.weight"], state["embed.weight"], state["head.weight"]):
        if isinstance(weight, DTensor):
            assert torch.equal(weight.full_tensor(), wanted.full_tensor())
        else:
            assert torch.equal(weight, wanted)


def on_a_mesh(folder, saves):
    """Four ranks save a model that is cut by FSDP and by tensor parallelism; others take it over as they cut theirs."""
    torch.manual_seed(0 if saves else 1)
    ranks = dist.get_world_size()
    model = nn.Sequential(nn.Linear(6, 10), nn.ReLU(), nn.Linear(10, 6))
    if saves:
        mesh = dist.device_mesh.init_device_mesh("cpu", (2, 2), mesh_dim_names=("parts", "tensors"))
        parallelize_module(model, mesh["tensors"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
        fully_shard(model, mesh=mesh["parts"])
    else:
        fully_shard(model, mesh=dist.device_mesh.init_device_mesh("cpu", (2, ranks // 2), mesh_dim_names=("copies", "parts")))
    optimizer = torch.optim.AdamW(model.parameters())
    ck = espalier.Checkpointer(folder / "run", distributed=True)
    live = {"model": model, "optimizer": optimizer}
    if saves:
        model(torch.ones(2, 6)).square().sum().backward()
        optimizer.step()
        ck.save(1, live)
        ck.close()
    else:
        assert ck.restore(into=live) == ({}, 1)
    moments = {name: optimizer.state[each]["exp_avg"] for name, each in model.named_parameters()}
    values = [each.full_tensor() for each in (*model.state_dict().values(), *moments.values())]
    if saves and dist.get_rank() == 0:
        torch.save(values, folder / "values")
    if not saves:
        assert all(torch.equal(*pair) for pair in zip(values, torch.load(folder / "values"), strict=True))


def unhealthy(folder, background):
    """Of a state with NaN, in a shard of one rank and in an array of numpy."""
    rank = dist.get_rank()
    mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
    rows = torch.zeros(8, 4)
    rows[6, 1] = torch.nan  # of rank 1
    good = {"a/b": {"rows": distribute_tensor(torch.ones(8, 4), mesh, [Shard(0)])}, "plain": np.ones(3)}
    bad = {"a/b": {"rows": distribute_tensor(rows, mesh, [Shard(0)])}, "plain": np.array([1, np.inf])}
    ck = espalier.Checkpointer(folder / "run", keep=1, distributed=True, background=background, check="raise")
    ck.save(1, good)
    with pytest.raises(espalier.Unhealthy, match=r"step 2: .*rank 0 \(and 1 more\): the state has 1 fault, so it was not saved: plain: ") as error:
        ck.save(2, bad)
        ck.wait()
    assert [fault.path for fault in error.value.findings] == ["plain"]
    with pytest.raises(espalier.Unhealthy, match=r"rank 1: .*: a~1b/rows: 1 of 16 elements is NaN, the first at \[2, 1\]"):
        ck.save(2, {**bad, "plain": 1})
        ck.wait()
    assert ck.steps == [1]
    ck.close()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", espalier.HealthWarning)
        with espalier.Checkpointer(folder / "run", keep=1, distributed=True, background=background, check="warn") as ck:
            ck.save(2, bad)
        told = [each.message for each in caught if isinstance(each.message, espalier.HealthWarning)]
    assert [sorted(fault.path for fault in each.findings) for each in told] == ([["a~1b/rows", "plain"]] if rank == 0 else [])
    assert ck.steps == [2] and sorted(name[:13] for name in os.listdir(folder / "run") if name.startswith("step")) == ["step_00000002"] * 3


def example(folder):
    """Runs python/examples/train_ranks.py in these processes, once and once more."""
    os.chdir(folder)
    program = pathlib.Path(__file__).resolve().parents[1] / "examples/train_ranks.py"
    dist.init_process_group = dist.destroy_process_group = lambda *_: None
    for _ in range(2):
        with contextlib.redirect_stdout(sys.stderr):  # Standard output has the answers of this program.
            names = runpy.run_path(str(program))
        assert names["checkpointer"].steps == [15, 20]
    assert names["rest"] == {"seen": 20 * 32 * dist.get_world_size()} and names["own"] is not None


TASKS = {
    each.__name__: each
    for each in (train, save_whole, load_whole, read_parts, read_columns, checked, fail_in_one, forked, warned, rules, ties, on_a_mesh, unhealthy, example)
}


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # torch's own
    for line in sys.stdin:
        print(json.dumps(run(**json.loads(line))), flush=True)
