"""Steps that the processes of a job save together, into a folder that all of them see.

Each process writes its file, step_00000010.<id>.r00003.espalier. Then rank 0 writes step_00000010.espalier, an ordinary file of the
whole state, which refers to these: only with it the step exists. A process that dies leaves files to which nothing refers; the
next save removes them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import re
import threading
import uuid
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from . import _api, _core, _rank_files
from ._checkpoint import Checkpoint
from ._doctor import RawFinding, doctor, refused
from ._errors import CheckpointOSError, Corrupt, EspalierError
from ._frameworks import Framework
from ._own_parts import StepOfRank
from ._progress import Progress, Report
from ._rank_files import Item, Numbers, Place, Whole
from ._ranks import Group, portable, raise_first
from ._split import Split, rebuilt, twins_of
from ._step_store import Folder, OfRanks

# The 0 before the id lets the file of the step be the last one by name, as `espalier prune --keep-last` counts.
_RANK_FILE = re.compile(r"step_[0-9]{8,19}\.0[0-9a-f]{32}\.r[0-9]{5,}\.espalier")
_RANKS = "ranks"  # in the metadata of a step: the files of the ranks, in order
_PER_RANK = "per_rank"  # in the file of a rank


class Plan(Protocol):
    """Which process writes what of one state: the part that a framework has in a save."""

    def split(self, state: Any) -> Split:
        """The state without tensors, and the tensors of the framework."""

    def local(self, tensors: Mapping[str, Any]) -> Any:
        """What this process has of these, to be sent to rank 0."""

    def deal(self, plans: Sequence[Any], twins: Mapping[str, str]) -> tuple[Sequence[Any], dict[str, Whole]]:
        """In rank 0: what each process writes, to be sent to it, and all tensors; without `twins`, which are others of these."""

    def items(self, dealt: Any, copies: bool) -> list[Item]:
        """What this process writes; with `copies`, nothing in it changes when the state does."""

    def own_copy(self, value: Any) -> Any:
        """A copy of a tensor in the state that this process has for itself; None for other values."""


class _Told(NamedTuple):
    """What one process has for a step, as it tells rank 0. `plan` is that of Plan.local()."""

    step: int
    plan: Any
    ties: dict[str, str]
    keys: list[str]
    failure: Exception | None


class _Dealt(NamedTuple):
    """What one process does for a step, as rank 0 tells it."""

    id: str
    items: Any
    runs: set[str]
    bases: list[str]


@dataclasses.dataclass
class _Work:
    """A save that the processes have agreed on. With `copies`, it has copies of the state, which the program may change."""

    step: int
    dealt: _Dealt
    items: list[Item]
    own: dict[str, Any]
    split: Split
    metadata: dict[str, Any]
    tensors: dict[str, Whole]  # in rank 0, and so are the twins
    twins: dict[str, str]
    options: dict[str, Any]
    check: str


# The one that saves to a folder, by its path, from its first save to its end.
_savers: weakref.WeakValueDictionary[str, RankFolder] = weakref.WeakValueDictionary()


class RankFolder:
    """A StepStore of all processes, each of which calls the same methods in the same order.

    `steps` has the rules of what to keep. The state of a save is an OfRanks. Saves in the background use the group `behind`, while the
    program uses `ranks`.
    """

    def __init__(
        self,
        steps: Folder,
        ranks: Group,
        behind: Group,
        plan: Callable[[], Plan],
        framework: Framework,
        incremental: bool,
        patches: bool,
    ):
        self._steps = steps
        self.ranks = ranks
        self._behind = behind
        self._plan = plan
        self._framework: Framework = framework
        self._folder = _path_of(steps)
        self._incremental, self._patches = incremental, patches
        self._problems: list[Exception] = []

    def lock(self) -> None:
        self.ranks.from_first(self._lock)

    def _lock(self) -> None:
        """In rank 0. The lock of the folder is one of the process, and another one here would remove files that no step names yet."""
        folder = os.path.realpath(self._folder)
        if _savers.get(folder, self) is not self:
            raise CheckpointOSError(
                f"{self._folder}: another Checkpointer of this program saves to this folder; close() that one first", "folder_in_use"
            )
        self._steps.lock()
        _savers[folder] = self

    def unlock(self) -> None:
        self._steps.unlock()
        if _savers.get(folder := os.path.realpath(self._folder)) is self:
            del _savers[folder]

    def save(
        self,
        step: int,
        state: Any,
        metadata: Any,
        compression: int,
        sync: bool,
        threads: int,
        copy_views: bool,
        check: str,
        progress: Report | None,
    ) -> list[RawFinding]:
        options = {"compression": compression, "sync": sync, "threads": threads}
        return self._finish(self._agree(step, state, metadata, options, check, copies=False), self.ranks, progress)

    def save_async(
        self, step: int, state: Any, metadata: Any, compression: int, sync: bool, threads: int, copy_views: bool, check: str
    ) -> _Behind:
        options = {"compression": compression, "sync": sync, "threads": threads}
        work = self._agree(step, state, metadata, options, check, copies=True)
        return _Behind(lambda report: self._finish(work, self._behind, report))

    def steps(self) -> list[int]:
        return self._steps.steps()

    def path(self, step: int) -> bytes:
        return self._steps.path(step)

    def metrics(self, step: int) -> Mapping[str, float] | None:
        return self._steps.metrics(step)

    def check(self, step: int, progress: Progress) -> list[Exception]:
        """In this process alone."""
        return self._steps.check(step, progress)

    def reading(self, step: int, options: Mapping[str, Any]) -> contextlib.AbstractContextManager[Checkpoint]:
        files = _files_of(self.path(step))
        if len(files) != self.ranks.count:
            return self._steps.reading(step, options)
        name, digest = files[self.ranks.rank]
        return StepOfRank(self.path(step), self._folder / name, digest, **options)

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

    def tidy(self) -> list[Exception]:
        """The save has done it, before it told the others."""
        return [*self._steps.problems(), *self._problems] if self.ranks.rank == 0 else []

    def of_rank(self, step: int) -> Any:
        """What the save of a step got as OfRanks.own in this process; None if others saved it, or nothing was given."""
        files = _files_of(self.path(step))
        if len(files) != self.ranks.count:
            return None
        name, digest = files[self.ranks.rank]
        with Checkpoint(self._folder / name) as file:
            if file.digest != digest:
                raise Corrupt(f"{file.name}: this is not the file that step {step} was saved with: its digest is another", "file_changed")
            return _api.load(self._folder / name, at=_PER_RANK, framework=self._framework) if _PER_RANK in file else None

    def _agree(self, step: int, state: OfRanks, metadata: Any, options: dict[str, Any], check: str, copies: bool) -> _Work:
        """Plans who writes what. Nothing is written before all have agreed on the step."""
        plan = self._plan()
        tensors: dict[str, Whole] = {}
        twins: dict[str, str] = {}

        def deal() -> list[_Dealt]:
            raise_first([each.failure for each in gathered])
            for rank, each in enumerate(gathered):
                if each.step != step:
                    raise EspalierError(
                        f"rank {rank} saves step {each.step}, and rank 0 saves step {step}; save the same step in all"
                    )
                # What rank 0 has counts, and what it has not would be lost.
                if unknown := sorted({*each.keys} - {*split.keys}):
                    raise EspalierError(
                        f"{', '.join(unknown[:3])}: rank {rank} has this key, and rank 0 has not; give all the same keys, or "
                        "save what is of one rank with per_rank=",
                        path=unknown[0],
                    )
            twins.update(twins_of(split.tensors, [each.ties for each in gathered]))
            dealt, found = plan.deal([each.plan for each in gathered], twins)
            tensors.update(found)
            if unknown := sorted(tensors.keys() - split.tensors.keys()):
                raise EspalierError(
                    f"{', '.join(unknown[:3])}: rank 0 has no tensor there, and another rank has one; give all the same keys, or "
                    "save what is of one rank with per_rank=",
                    path=unknown[0],
                )
            name, bases = f"0{uuid.uuid4().hex}", self._bases(step)
            runs = {key for key, each in tensors.items() if _rank_files.can_be_runs(each)}
            own = [[base] for base in bases] if len(bases) == len(dealt) else [bases] * len(dealt)
            return [_Dealt(name, items, runs, base) for items, base in zip(dealt, own, strict=True)]

        failure, split, own, local = None, plan.split(None), {}, None
        try:
            split = plan.split(state.shared)
            if state.own is not None:
                own = {_PER_RANK: rebuilt(state.own, lambda value, _: plan.own_copy(value))}
            local = plan.local(split.tensors)
        except Exception as error:
            failure = portable(error)
        gathered = self.ranks.gather(_Told(step, local, split.ties, split.keys, failure))
        dealt = self.ranks.deal(deal)
        with self.ranks.together():
            items = plan.items(dealt.items, copies)
        return _Work(step, dealt, items, own, split, metadata, tensors, twins, options, check)

    def _bases(self, step: int) -> list[str]:
        """The files of the ranks of the newest step beside this one, in rank order."""
        for other in reversed(self._steps.steps() if self._incremental else []):
            if other == step:
                continue
            try:
                names = [name for name, _ in _files_of(self.path(other))]
                for name in names:
                    Checkpoint(self._folder / name).close()
            except EspalierError:
                continue  # restore() would pass over it as well.
            return names
        return []

    def _finish(self, work: _Work, ranks: Group, progress: Report | None) -> list[RawFinding]:
        """Returns the faults that the processes have found in their parts: in rank 0."""
        name = f"{pathlib.Path(os.fsdecode(self.path(work.step))).stem}.{work.dealt.id}.r{ranks.rank:05d}.espalier"
        written, digest, failure = None, None, None
        faults: list[RawFinding] = []
        try:
            if work.check:
                faults = _faults_of(work, ranks.rank == 0)
                if faults and work.check == "raise":
                    raise refused(faults)
            places = _rank_files.write(
                self._folder / name,
                work.items,
                work.own,
                work.dealt.runs,
                metadata={"step": work.step, "rank": ranks.rank, "ranks": ranks.count},
                base=[self._folder / base for base in work.dealt.bases],
                patches=self._patches,
                progress=progress,
                **work.options,
            )
            written = [((item.name, item.offsets), place) for item, place in zip(work.items, places, strict=True)]
            with Checkpoint(self._folder / name) as file:
                digest = file.digest
        except Exception as error:
            failure = portable(error)
        # An error is told to all: otherwise the others would wait for this one.
        gathered = ranks.gather(((name, digest), written, failure, faults))
        ranks.from_first(lambda: self._commit(work, gathered))
        return [fault for each in gathered for fault in each[3]] if ranks.rank == 0 else []

    def _commit(self, work: _Work, gathered: list[Any]) -> None:
        """In rank 0: writes the file of the step, with which it exists, and removes what is not kept."""
        raise_first([failure for _, _, failure, _ in gathered], f"step {work.step} was not saved: ")
        places: dict[str, dict[Numbers, Place]] = {}
        for _, written, _, _ in gathered:
            for (key, offsets), place in written:
                places.setdefault(key, {})[offsets] = place
        path = pathlib.Path(os.fsdecode(self.path(work.step)))
        _rank_files.check_replaceable(path)
        names = [name for (name, _), *_ in gathered]
        numbers = {name: number for number, name in enumerate(names)}
        # A tensor that is at several places is one.
        paths: dict[str, list[str]] = {}
        for key in work.split.tensors:
            paths.setdefault(work.twins.get(key, key), []).append(key)
        _core.save_joined(
            os.fsencode(path),
            work.split.skeleton,
            {**work.metadata, _RANKS: [list(file) for file, *_ in gathered]},
            work.options["compression"],
            work.options["sync"],
            work.options["threads"],
            [os.fsencode(self._folder / name) for name in names],
            [
                (keys, _rank_files.parts_of(work.tensors[first], places.get(first, {}), numbers)[1])
                for first, keys in paths.items()
            ],
        )
        # The step is saved: nothing here makes that an error.
        try:
            self._steps.prune(work.step)
            self._problems = _remove_unneeded(self._steps)
        except Exception as error:
            self._problems = [error]


def _faults_of(work: _Work, is_first: bool) -> list[RawFinding]:
    """What is wrong with the numbers that this process writes, by the key paths of the whole state. The first also writes what is no
    tensor of the framework."""
    threads = work.options["threads"]
    parts: dict[str, list[Any]] = {}
    for item in work.items:
        parts.setdefault(item.name, []).append(item.data)
    # Each key of this dict is a whole path.
    found = [
        fault._replace(path=fault.path.split("/")[0].removeprefix("~2").replace("~1", "/").replace("~0", "~"))
        for fault in doctor(parts, threads=threads).faults
    ]
    return [*found, *(doctor(work.split.skeleton, threads=threads).faults if is_first else ())]


def remove_files_of_ranks(steps: Folder) -> list[Exception]:
    """For a folder to which one process saves: removes what saves of several processes left there once their steps are gone."""
    folder = _path_of(steps)
    # The lock of the folder is one of the process, and a save of several may go on.
    if os.path.realpath(folder) in _savers:
        return []
    try:
        if any(map(_RANK_FILE.fullmatch, os.listdir(folder))):
            return _remove_unneeded(steps)
    except (EspalierError, OSError) as error:
        return [error]
    return []


def _path_of(steps: Folder) -> pathlib.Path:
    return pathlib.Path(os.fsdecode(steps.path(0))).parent


def _files_of(step: bytes) -> list[tuple[str, str]]:
    """The names and digests of the files of the ranks that saved the file of a step; none if one process saved it."""
    with Checkpoint(step) as file:
        said = file.metadata
    files: Any = said.get(_RANKS) if isinstance(said, dict) else None
    # The program may have metadata of that name in a step of one process.
    is_ours = isinstance(files, list) and all(
        isinstance(each, list) and len(each) == 2 and all(isinstance(text, str) for text in each) and _RANK_FILE.fullmatch(each[0])
        for each in files
    )
    return [(name, digest) for name, digest in files] if is_ours else []


def _remove_unneeded(steps: Folder) -> list[Exception]:
    """Removes the files of ranks that no step names, and to which no file refers."""
    used = {name for step in steps.steps() for name, _ in _files_of(steps.path(step))}
    return list(_rank_files.remove_unneeded(_path_of(steps), _RANK_FILE, used))


class _Behind:
    """A save in a thread of its own."""

    def __init__(self, save: Callable[[Report], list[RawFinding]]):
        self._faults: list[RawFinding] = []
        self._failure: Exception | None = None
        self._progress = (0, 0)
        self._thread = threading.Thread(target=self._run, args=(save,), name="espalier-save")
        self._thread.start()

    def _run(self, save: Callable[[Report], list[RawFinding]]) -> None:
        try:
            self._faults = save(self._report)
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

    def faults(self) -> list[RawFinding]:
        return self._faults
