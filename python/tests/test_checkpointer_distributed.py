"""Checkpointer(distributed=True): real processes of torch.distributed with gloo, FSDP2, and ranks that are killed."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import espalier
import numpy as np
import pytest
from espalier import _rank_folder

pytest.importorskip("torch")

KILLED, FAILED = -signal.SIGKILL, 1


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs a task of rank_tasks.py in so many ranks, and returns how they ended."""
    log = tmp_path_factory.mktemp("ranks") / "log"
    script = pathlib.Path(__file__).with_name("rank_tasks.py")
    with log.open("w") as errors, subprocess.Popen(
        [sys.executable, "-W", "ignore", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
    ) as process:  # fmt: skip

        def run(task, folder, ranks=2, **arguments):
            folder.mkdir(exist_ok=True)
            process.stdin.write(json.dumps({"task": task, "folder": str(folder), "ranks": ranks, **arguments}) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        def run_well(task, folder, ranks=2, **arguments):
            assert run(task, folder, ranks, **arguments) == [0] * ranks, log.read_text()

        run.well = run_well
        yield run
        process.stdin.close()


def same(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return np.array_equal(one, other)


def load(folder, step):
    """A step, opened as any file by one process."""
    path = folder / f"run/step_{step:08d}.espalier"
    with espalier.open(path) as file:
        assert file.verify().verdict == "ok"
    return espalier.load(path)


@pytest.fixture(scope="module")
def three_steps(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("training")
    run.well("train", folder, last=3)
    return folder


@pytest.fixture(scope="module")
def five_steps(run, tmp_path_factory):
    """Of a run that nothing ended."""
    folder = tmp_path_factory.mktemp("undisturbed")
    run.well("train", folder, last=5)
    return load(folder, 5)


@pytest.mark.parametrize(
    ("rank", "point", "background", "newest"),
    [
        (0, "writing", False, {3}), (0, "told", True, {3}), (0, "committed", False, {4}), (0, "removing", True, {4}),
        (1, "agreed", True, {3}), (1, "writing", True, {3}), (1, "written", False, {3}),
        # What it told may still be on its way, and gloo drops it with the connection.
        (1, "told", False, {3, 4}),
    ],
)  # fmt: skip
def test_a_rank_that_is_killed_leaves_the_last_complete_step(
    rank, point, background, newest, run, three_steps, five_steps, tmp_path
):
    shutil.copytree(three_steps / "run", tmp_path / "run")
    ended = run("train", tmp_path, last=5, background=background, kill={"rank": rank, "point": point, "step": 4})
    assert ended == ([KILLED, FAILED] if rank == 0 else [FAILED, KILLED])
    step = espalier.Checkpointer(tmp_path / "run").restore()[1]
    assert step in newest and load(tmp_path, step)["step"] == step
    # The next run goes on as if nothing had happened, and leaves the files of two steps.
    run.well("train", tmp_path, last=5, background=background)
    assert same(load(tmp_path, 5), five_steps)
    names = sorted(name[:13] for name in os.listdir(tmp_path / "run") if name.startswith("step"))
    assert names == ["step_00000004"] * 3 + ["step_00000005"] * 3


def test_four_ranks_save_and_two_and_one_go_on(run, tmp_path):
    run.well("save_whole", tmp_path, ranks=4)
    run.well("load_whole", tmp_path, ranks=4, is_same_count=True)
    run.well("load_whole", tmp_path, ranks=2, is_same_count=False)
    run.well("load_whole", tmp_path, ranks=1, is_same_count=False)
    run.well("read_parts", tmp_path, ranks=2)
    # A step is a file as any other, with the metadata of rank 0.
    state = load(tmp_path, 1)
    assert state["rows"].shape == (4096, 1024) and np.array_equal(state["tied"]["rows"], state["rows"])
    assert str(state["kinds"]) == str([(1, None), {"x": np.arange(4), 7: "text"}, frozenset({1}), b"bytes"])
    with espalier.open(tmp_path / "run/step_00000001.espalier") as file:
        assert file.metadata["by"] == 0 and file.metadata["metrics"] == {"loss": 0} and len(file.metadata["ranks"]) == 4
        for rank, (name, digest) in enumerate(file.metadata["ranks"]):
            with espalier.open(tmp_path / "run" / name) as of_rank:
                assert of_rank.digest == digest and of_rank["per_rank"].load() == {"rank": rank}
    # Each element is written once, in the file of a rank. Columns, and MiB that two ranks have, are in the file of the step, too.
    sizes = [path.stat().st_size for path in (tmp_path / "run").glob("*.r0*")]
    assert len(sizes) == 4 and max(sizes) < 1.2 * min(sizes)
    assert sum(sizes) < sum(state[name].nbytes for name in ("rows", "columns", "uneven")) + 50_000
    assert (tmp_path / "run/step_00000001.espalier").stat().st_size < 480_000 + 3 * 2**20 + 50_000


def test_ranks_take_over_what_others_cut_in_another_way(run, tmp_path):
    run.well("on_a_mesh", tmp_path, ranks=4, saves=True)
    run.well("on_a_mesh", tmp_path, ranks=2, saves=False)


def test_an_error_of_one_rank_is_raised_in_all(run, tmp_path):
    run.well("fail_in_one", tmp_path)


def test_a_rank_reads_its_columns_from_its_own_file(run, tmp_path):
    run.well("read_columns", tmp_path)


def test_each_rank_checks_what_it_reads(run, tmp_path):
    run.well("checked", tmp_path)


def test_a_forked_child_is_refused(run, tmp_path):
    run.well("forked", tmp_path)


def test_a_warning_that_is_an_error_keeps_no_rank_waiting(run, tmp_path):
    run.well("warned", tmp_path)


def test_files_with_other_names_are_none_of_ranks():
    name = f"step_00000001.0{'a' * 32}.r00000.espalier"
    others = (name.replace("1", "\u0661"), name.replace(".r00000", ".r0000\u0660"), f"{name}\n", f"x{name}")
    assert _rank_folder._RANK_FILE.fullmatch(name) and not any(map(_rank_folder._RANK_FILE.fullmatch, others))


def test_rank_0_decides(run, tmp_path):
    run.well("rules", tmp_path)


def test_what_is_tied_and_what_only_seems_so(run, tmp_path):
    run.well("ties", tmp_path)


@pytest.mark.parametrize("background", [True, False])
def test_a_fault_in_one_part_is_one_of_the_step(background, run, tmp_path):
    run.well("unhealthy", tmp_path, background=background)


def test_the_example_resumes(run, tmp_path):
    run.well("example", tmp_path)


def test_a_group_of_processes_is_needed(tmp_path):
    with pytest.raises(espalier.EspalierError, match="init_process_group"):
        espalier.Checkpointer(tmp_path, distributed=True)
    ck = espalier.Checkpointer(tmp_path)
    with pytest.raises(espalier.EspalierError, match="for distributed=True"):
        ck.save(1, {}, per_rank={})
    with pytest.raises(espalier.EspalierError, match="for distributed=True.*load.file, at="):
        ck.load_per_rank(1)
