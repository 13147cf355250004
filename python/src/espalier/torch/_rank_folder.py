"""Steps that the processes of torch.distributed save together, into a folder that all of them see.

Each process writes its file, step_00000010.<id>.r00003.espalier. Then rank 0 writes step_00000010.espalier, an ordinary file of the
whole state, which refers to these: only with it the step exists. A process that dies leaves files to which nothing refers; the
next save removes them. torch.distributed.checkpoint plans which process writes what.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import re
import threading
import uuid
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch.distributed.checkpoint import DefaultSavePlanner
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import SavePlan, WriteItem
from torch.distributed.checkpoint.storage import WriteResult

from .. import _api, _core
from .._checkpoint import Checkpoint
from .._errors import Corrupt, EspalierError
from .._progress import Progress, Report
from .._step_store import Folder, OfRanks
from . import _rank_files
from ._gloo_ranks import GlooRanks, portable, raise_first
from ._split import Split, copied, rebuilt

# The 0 before the id lets the file of the step be the last one by name, as `espalier prune --keep-last` counts.
_RANK_FILE = re.compile(r"step_\d{8,19}\.0[0-9a-f]{32}\.r\d{5,}\.espalier")
_RANKS = "ranks"  # in the metadata of a step: the files of the ranks, in order
_PER_RANK = "per_rank"  # in the file of a rank


class _Plan(NamedTuple):
    """What one process does for a step, as rank 0 deals it."""

    id: str
    items: SavePlan
    runs: set[str]
    bases: list[str]


@dataclasses.dataclass
class _Work:
    """A save that was agreed on. What it needs of the state does not change any more if that was copied."""

    step: int
    plan: _Plan
    items: list[tuple[WriteItem, torch.Tensor]]
    own: dict[str, Any]
    split: Split
    metadata: dict[str, Any]
    described: Metadata | None  # in rank 0: all tensors and their parts
    options: dict[str, Any]


class RankFolder:
    """A StepStore of all processes, each of which calls the same methods in the same order.

    `steps` has the rules of what to keep. The state of a save is an OfRanks.
    """

    def __init__(self, steps: Folder, ranks: GlooRanks, incremental: bool, patches: bool):
        self._steps = steps
        self.ranks = ranks
        self._behind = GlooRanks()  # for saves in the background, which go on while `ranks` are used
        self._folder = pathlib.Path(os.fsdecode(steps.path(0))).parent
        self._incremental, self._patches = incremental, patches
        self._problems: list[Exception] = []

    def lock(self) -> None:
        self.ranks.from_first(self._steps.lock)

    def unlock(self) -> None:
        self._steps.unlock()

    def save(
        self,
        step: int,
        state: Any,
        metadata: Any,
        compression: int,
        sync: bool,
        threads: int,
        copy_views: bool,
        progress: Report | None,
    ) -> None:
        options = {"compression": compression, "sync": sync, "threads": threads}
        self._finish(self._agree(step, state, metadata, options, copies=False), self.ranks, progress)

    def save_async(
        self, step: int, state: Any, metadata: Any, compression: int, sync: bool, threads: int, copy_views: bool
    ) -> _Behind:
        options = {"compression": compression, "sync": sync, "threads": threads}
        work = self._agree(step, state, metadata, options, copies=True)
        return _Behind(lambda report: self._finish(work, self._behind, report))

    def steps(self) -> list[int]:
        return self._steps.steps()

    def path(self, step: int) -> bytes:
        return self._steps.path(step)

    def metrics(self, step: int) -> Mapping[str, float] | None:
        return self._steps.metrics(step)

    def check(self, step: int, progress: Progress) -> None:
        """In this process alone."""
        self._steps.check(step, progress)

    def reading(self, step: int) -> contextlib.AbstractContextManager[bytes]:
        return self._steps.reading(step)

    def latest(self, check: bool, progress: Report | None = None) -> tuple[int, list[tuple[int, Exception]]] | None:
        """Rank 0 looks, and tells the others. Only its result has the steps that were passed over."""

        skipped: list[tuple[int, Exception]] = []

        def look() -> tuple[int, str | None] | None:
            found = self._steps.latest(check, progress)
            if found is None:
                return None
            skipped.extend(found[1])
            with Checkpoint(self.path(found[0])) as file:
                return found[0], file.digest

        found = self.ranks.from_first(look)
        if found is None:
            return None
        with self.ranks.together(), Checkpoint(self.path(found[0])) as file:
            if file.digest != found[1]:
                raise EspalierError(f"{file.name}: this process sees another file than rank 0; do all see the same folder?")
        return found[0], skipped

    def problems(self) -> list[Exception]:
        return [*self._steps.problems(), *self._problems] if self.ranks.rank == 0 else []

    def of_rank(self, step: int) -> Any:
        """What the save of a step got as OfRanks.own in this process; None if others saved it, or nothing was given."""
        files = self._files(step)
        if len(files) != self.ranks.count:
            return None
        name, digest = files[self.ranks.rank]
        with Checkpoint(self._folder / name) as file:
            if file.digest != digest:
                raise Corrupt(f"{file.name}: this is not the file that step {step} was saved with: its digest is another", "file_changed")
            return _api.load(self._folder / name, at=_PER_RANK, framework="torch") if _PER_RANK in file else None

    def _agree(self, step: int, state: OfRanks, metadata: Any, options: dict[str, Any], copies: bool) -> _Work:
        """Lets torch plan who writes what. Nothing is written before all have agreed on the step."""
        planner = DefaultSavePlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
        described: Metadata | None = None

        def plan() -> SavePlan:
            planner.set_up_planner(split.tensors, is_coordinator=self.ranks.rank == 0)
            return planner.create_local_plan()

        def deal() -> list[_Plan]:
            nonlocal described
            raise_first([error for _, _, error in gathered])
            for rank, (other, _, _) in enumerate(gathered):
                if other != step:
                    raise EspalierError(f"rank {rank} saves step {other}, and rank 0 saves step {step}; save the same step in all")
            plans, described = planner.create_global_plan([plan for _, plan, _ in gathered])
            if unknown := sorted(described.state_dict_metadata.keys() - split.tensors.keys() - split.twins.keys()):
                raise EspalierError(
                    f"{', '.join(unknown[:3])}: rank 0 has no tensor there, and another rank has one; give all the same keys, or "
                    "save what is of one rank with per_rank=",
                    path=unknown[0],
                )
            name, runs, bases = f"0{uuid.uuid4().hex}", _rank_files.cut_in_rows(described), self._bases(step)
            own = [[base] for base in bases] if len(bases) == len(plans) else [bases] * len(plans)
            return [_Plan(name, each, runs, base) for each, base in zip(plans, own, strict=True)]

        failure, split, own, local = None, Split(None), {}, SavePlan([])
        try:
            split = Split(state.shared)
            if state.own is not None:
                own = {_PER_RANK: rebuilt(state.own, copied)}
            local = plan()
        except Exception as error:
            failure = error
        gathered = self.ranks.gather((step, local, None if failure is None else portable(failure)))
        dealt = self.ranks.deal(deal)
        planner.finish_plan(dealt.items)
        with self.ranks.together():
            data = [(item, planner.resolve_data(item).detach()) for item in dealt.items.items]
            if copies:
                data = [(item, value.to("cpu", copy=True)) for item, value in data]
        return _Work(step, dealt, data, own, split, metadata, described, options)

    def _bases(self, step: int) -> list[str]:
        """The files of the ranks of the newest step beside this one, in rank order."""
        for other in reversed(self._steps.steps() if self._incremental else []):
            if other == step:
                continue
            try:
                names = [name for name, _ in self._files(other)]
                for name in names:
                    Checkpoint(self._folder / name).close()
            except EspalierError:
                continue  # restore() would pass over it as well.
            return names
        return []

    def _files(self, step: int) -> list[tuple[str, str]]:
        """The names and digests of the files of the ranks that saved a step; none of a step that one process saved."""
        with Checkpoint(self.path(step)) as file:
            said = file.metadata
            files = said.get(_RANKS, []) if isinstance(said, dict) else []
        # A name with folders in it would read, and count as needed, what is not of this folder.
        for each in files if isinstance(files, list) else [files]:
            if not (isinstance(each, list) and len(each) == 2 and all(isinstance(part, str) for part in each) and _RANK_FILE.fullmatch(each[0])):
                raise Corrupt(f"{file.name}: its metadata name files of ranks that are none", "tree_invalid")
        return [(name, digest) for name, digest in files]

    def _finish(self, work: _Work, ranks: GlooRanks, progress: Report | None) -> None:
        name = f"{pathlib.Path(os.fsdecode(self.path(work.step))).stem}.{work.plan.id}.r{ranks.rank:05d}.espalier"
        written, failure = None, None
        try:
            written = _rank_files.write(
                self._folder / name,
                work.items,
                work.own,
                work.plan.runs,
                metadata={"step": work.step, "rank": ranks.rank, "ranks": ranks.count},
                base=[self._folder / base for base in work.plan.bases],
                patches=self._patches,
                progress=progress,
                **work.options,
            )
            with Checkpoint(self._folder / name) as file:
                digest = file.digest
        except Exception as error:
            failure = portable(error)
        # An error is told to all: otherwise the others would wait for this one.
        gathered = ranks.gather(((name, None if failure else digest), written, failure))
        ranks.from_first(lambda: self._commit(work, gathered))

    def _commit(self, work: _Work, gathered: list[Any]) -> None:
        """In rank 0: writes the file of the step, with which it exists, and removes what is not kept."""
        raise_first([failure for _, _, failure in gathered], f"step {work.step} was not saved: ")
        assert work.described is not None
        described = dataclasses.replace(
            work.described, storage_data={each.index: each.storage_data for _, written, _ in gathered for each in written}
        )
        path = pathlib.Path(os.fsdecode(self.path(work.step)))
        _rank_files.check_replaceable(path)
        names = [name for (name, _), _, _ in gathered]
        numbers = {name: number for number, name in enumerate(names)}
        parts = {key: _rank_files.whole(described, key, numbers)[1] for key in work.split.tensors}
        parts.update({key: parts[first] for key, first in work.split.twins.items()})
        _core.save_joined(
            os.fsencode(path),
            work.split.skeleton,
            {**work.metadata, _RANKS: [list(file) for file, _, _ in gathered]},
            work.options["compression"],
            work.options["sync"],
            work.options["threads"],
            [os.fsencode(self._folder / name) for name in names],
            list(parts.items()),
        )
        # The step is saved: nothing here makes that an error.
        try:
            self._steps.prune(work.step)
            used = {name for step in self._steps.steps() for name, _ in self._files(step)}
            self._problems = list(_rank_files.remove_unneeded(self._folder, _RANK_FILE, used))
        except EspalierError as error:
            self._problems = [error]


class _Behind:
    """A save in a thread of its own."""

    def __init__(self, save: Callable[[Report], None]):
        self._failure: Exception | None = None
        self._progress = (0, 0)
        self._thread = threading.Thread(target=self._run, args=(save,), name="espalier-save")
        self._thread.start()

    def _run(self, save: Callable[[Report], None]) -> None:
        try:
            save(self._report)
        except Exception as error:
            self._failure = error

    def _report(self, done: int, total: int) -> None:
        self._progress = done, total

    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def cancel(self) -> None:
        """Does nothing: the other processes go on."""

    def progress(self) -> tuple[int, int]:
        """Of the file of this process."""
        return self._progress

    def failure(self) -> Exception | None:
        return self._failure
