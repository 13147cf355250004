"""Folders of checkpoints: when to save, what to keep, where to go on."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, overload

from . import _api, _urls
from ._async import AsyncSave, NotInThisProcess
from ._doctor import Finding, Unhealthy, as_findings, at_step, warning_of
from ._errors import CheckpointNotFound, EspalierError, KeyPathError
from ._options import Path, check_bool, check_compression, check_int, check_metadata, check_threads
from ._progress import Progress, reporting
from ._ranks import OneProcess, Ranks
from ._retention import Retention, is_int64, number
from ._step_store import OfRanks, StepStore, shared_store, step_store
from ._visible import visible

if TYPE_CHECKING:
    from ._like import Strict

T = TypeVar("T")

Best = tuple[str, Literal["min", "max"]] | tuple[str, Literal["min", "max"], int]


class DamagedCheckpoint(UserWarning):
    """A checkpoint that restore() passed over, or that could not be removed."""


class _Rule(NamedTuple):
    name: str
    is_greatest: bool
    kept: int


def _rule(best: Best | None) -> _Rule | None:
    if best is None:
        return None
    if not isinstance(best, tuple) or len(best) not in (2, 3) or not isinstance(best[0], str):
        raise EspalierError(f'best must be a metric and "min" or "max", such as ("loss", "min"), not {best!r}')
    name, order, count = (*best, 1)[:3]
    if order not in ("min", "max"):
        raise EspalierError(f'the order of `best` must be "min" or "max", not {order!r}')
    return _Rule(name, order == "max", check_int("the count of best", count, 1))


def _number(step: int, name: str, value: Any) -> float:
    try:
        as_float = float(value)
    except (OverflowError, RuntimeError, TypeError, ValueError) as error:
        raise EspalierError(
            f"the metric {name!r} of step {step} is not a number that a float can hold: {error}; leave it out, or put it into "
            "metadata="
        ) from error
    return value if type(value) is int and is_int64(value) else as_float


class Checkpointer:
    """Saves to a folder as training goes on, keeps the latest and the best, and finds where to go on.

    Each step is a file, step_00001000.espalier, with the metrics and the time in its metadata. A save is in the background
    unless `background=False`; its error is raised by the next call of save(), wait(), restore() or close(). A save() that
    raises it has begun its own save before, so whoever catches it loses no further step. One save goes on at a time: with
    `busy="wait"` the next one waits for it, with "skip" it is left out, with "raise" it is an error.

    `every` steps, or when `every_minutes` have passed, save() saves; with neither, always. `keep` is the number of latest
    steps to keep (None: all), `keep_every` keeps each step that is its multiple, and `best=("val_loss", "min", 2)` the best by
    a metric, which the `metrics` of a save then have; a save without any is of a step that was not measured. Old files go
    only once a new one is on the disk, and never a file that no Checkpointer wrote.

    With `incremental`, a save writes only what the newest step before it does not have: each MiB of an array that is equal
    there stays in that step's file, and the new file refers to it. That pays where much stays the same, as frozen weights
    under an adapter. A step to which others refer stays, whatever `keep` says; copy the folder as a whole, or make one
    step whole with `espalier flatten`. The steps share what they have in common, and so its damage, too. With `patches`, a
    MiB that differs a little is written as its differences, as by save(base=): a step of reinforcement learning then takes
    a hundredth. Each such step needs those before it, so up to 16 of them stay beside what `keep` says.

    With `check`, each save first looks for faults in the numbers of the state, as doctor() does: elements that are NaN or infinite
    where they cannot be, negative averages of squares. `check="raise"` does not save such a step: the error is Unhealthy, with the findings,
    and as no file is written, none is replaced or removed, so the best and the latest stay as they are. `check="warn"` saves it, and it then counts as any other, as the latest
    and by its metrics; a HealthWarning for each such step has the first findings. A save in the background looks at its copy of the
    arrays, in the background, and the error and the warning come with the next call, as its other errors do. This takes the time that
    doctor() takes; without `check`, nothing looks. Warnings and notes of doctor() do not count here. With `distributed`, each process
    looks at the parts that it writes, a fault in one of them is an error in all, and rank 0 warns.

    One process saves to a folder at a time. The first save() locks it until close(), or until the process ends in whatever
    way; a save() of another process raises CheckpointOSError with code "folder_in_use" and says which process has it. Reading
    locks nothing, and is always possible. A forked child has no lock: let it read, or make a folder of its own.

    With `distributed`, the processes of torch.distributed or jax.distributed save one checkpoint together, into a folder that all
    of them see. All of them make the Checkpointer, and call save(), restore(), load_per_rank() and close() in the same order;
    `steps`, `latest`, `best` and path() are free of that. DTensors (of FSDP2, or tensor parallelism) and sharded arrays of JAX
    are saved by the processes that have their parts. All else counts as rank 0 has it: tensors that all have (of DDP), values,
    metadata and metrics. A step is one file, which refers to the files of the ranks beside it (step_00001000.*.r00003.espalier),
    and opens as any other; copy it with them, or make it whole with `espalier flatten`. It exists once all of them are complete:
    a process that dies before leaves the steps as they were. An error of one process is raised in all. One Checkpointer of the job saves
    to a folder until close(), and forked children are refused. restore() reads of a
    DTensor the part that this process has, whatever the number of processes that saved.

    `folder` may be a URL of an object store, such as s3://bucket/run, for which `storage_options` are fsspec's. A step is then an
    object and a manifest, which is made last, and only if there is none: a step is there as a whole or not at all. Each save
    writes a temporary file (TMPDIR) and sends it; restore() fetches the step into one, and what it loads is mapped from there.
    Requests are repeated for about a minute while a server or the network is in trouble. There is no lock: a second process that
    saves the same step gets the error "folder_in_use", and while one sees steps of another, it warns and removes nothing. What killed
    saves left is removed after a day. Not for `incremental`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        every: int | None = None,
        every_minutes: float | None = None,
        keep: int | None = 3,
        keep_every: int = 0,
        best: Best | None = None,
        background: bool = True,
        busy: Literal["wait", "skip", "raise"] = "wait",
        compression: int = 0,
        incremental: bool = False,
        patches: bool = False,
        check: Literal["warn", "raise"] | None = None,
        sync: bool = True,
        threads: int = 0,
        distributed: bool = False,
        storage_options: Mapping[str, Any] | None = None,
    ):
        if busy not in ("wait", "skip", "raise"):
            raise EspalierError(f'busy must be "wait", "skip" or "raise", not {busy!r}')
        if check not in ("warn", "raise", None):
            raise EspalierError(f'check must be "warn", "raise" or None, not {check!r}')
        if keep is None and (keep_every or best):
            raise EspalierError("keep=None keeps every step; leave out keep_every and best, or say how many to keep")
        every = None if every is None else check_int("every", every, 1)
        keep = None if keep is None else check_int("keep", keep, 1)
        keep_every = check_int("keep_every", keep_every, 0)
        compression, threads = check_compression(compression), check_threads(threads)
        self.folder = os.fsdecode(folder)
        self._every, self._every_seconds = every, None if every_minutes is None else 60 * every_minutes
        self._best = _rule(best)
        self._background, self._busy, self._check = background, busy, check or ""
        self._compression, self._sync, self._threads = compression, check_bool("sync", sync), threads
        how = check_bool("incremental", incremental), check_bool("patches", patches)
        if patches and not incremental:
            raise EspalierError("patches=True is for incremental saves; set incremental=True as well")
        rules = Retention(keep, keep_every, self._best), *how, threads
        shared = check_bool("distributed", distributed)
        self._shared = shared_store(folder, *rules, storage_options) if shared else None
        self._store: StepStore = self._shared or step_store(folder, *rules, storage_options)
        self._ranks: Ranks = self._shared.ranks if self._shared else OneProcess()
        self._shown = _urls.shown(self.folder) if _urls.is_url(self.folder) else self.folder
        self._saving: AsyncSave | None = None
        self._failure: Exception | None = None  # of a save that is done, until it is raised
        self._is_closed = False
        self._not_due: tuple[int, int] | None = None  # the first and the last step of save(), until one is saved
        self._has_saved = False
        self._last_save = time.monotonic()
        self._untold: list[Exception] = []  # problems of saves, to warn of
        self._problems: set[str] = set()  # those that were told

    def is_due(self, step: int) -> bool:
        """Whether save() would save this step. With `distributed` and `every_minutes`, all processes ask, and the clock of rank 0
        tells."""
        if self._every is None and self._every_seconds is None:
            return True
        if self._every is not None and step % self._every == 0:
            return True
        seconds = self._every_seconds
        return seconds is not None and self._ranks.from_first(lambda: time.monotonic() - self._last_save >= seconds)

    def save(
        self,
        step: int,
        state: Any,
        *,
        metrics: Mapping[str, float] | None = None,
        metadata: Mapping[str, Any] | None = None,
        force: bool = False,
        views: Literal["error", "copy"] = "error",
        per_rank: Any = None,
    ) -> bool:
        """Saves the step if it is due, or with `force`, as for the last one. Returns whether it does.

        The state is copied, or saved, before the call returns. If the save before failed, raises its error, once this one
        has begun. With `distributed`, `per_rank` is what this process has for itself, such as random numbers and the position of
        its data loader, which load_per_rank() gives back to it.
        """
        if self._is_closed:
            raise EspalierError(f"{self._shown}: this checkpointer was closed, and step {step} would not be saved; make another")
        step = check_int("step", step, 0, 2**63 - 1)
        if not (force or self.is_due(step)):
            self._not_due = (self._not_due or (step, step))[0], step
            return False
        if self._shared is None and per_rank is not None:
            raise EspalierError("per_rank= is for distributed=True; a process on its own has it in its state")
        described = self._ranks.from_first(lambda: self._described(step, metadata, metrics))
        saving = self._saving
        if saving is not None and self._busy != "wait" and self._ranks.from_first(lambda: not saving.done()):
            if self._busy == "skip":
                return False
            raise EspalierError(f"{self._shown}: the save before step {step} goes on")
        copy = _api.copies_views(views)
        self._store.lock()  # The error is of this call, and not of a save in the background.
        self._finish()
        state = state if self._shared is None else OfRanks(state, per_rank)
        if self._background:
            begun = self._store.save_async(step, state, described, self._compression, self._sync, self._threads, copy, self._check)
            self._saving = AsyncSave(begun, self._name_of(step))
        else:
            self._save_now(step, state, described, copy)
        self._last_save = time.monotonic()
        self._has_saved = True
        self._warn()
        self._raise_failure(f"; the save of step {step} has {'begun' if self._background else 'been made'}")
        return True

    def _name_of(self, step: int) -> str:
        return f"{self._shown}, step {step}"

    def _save_now(self, step: int, state: Any, metadata: dict[str, Any], copy: bool) -> None:
        try:
            faults = self._store.save(
                step, state, metadata, self._compression, self._sync, self._threads, copy, self._check, None
            )
        except Unhealthy as error:
            raise at_step(error, self._name_of(step)) from None
        self._has_written(self._name_of(step), as_findings(faults))

    def _has_written(self, name: str, faults: tuple[Finding, ...]) -> None:
        """A save was made: keeps what there is to warn of."""
        self._untold += self._store.tidy()
        if faults:
            self._untold.append(warning_of(faults, name))

    def _described(self, step: int, metadata: Mapping[str, Any] | None, metrics: Mapping[str, float] | None) -> dict[str, Any]:
        """The metadata of the file."""
        given, measured = check_metadata(metadata), self._measured(step, metrics)
        reserved = {"step", "metrics", "time"} if self._shared is None else {"step", "metrics", "time", "ranks"}
        if taken := sorted(reserved & set(given)):
            raise EspalierError(f"the metadata have {', '.join(taken)}, which save() writes itself; choose another key")
        described = {"time": time.time(), **given, "step": step}
        return described if measured is None else {**described, "metrics": measured}

    def _measured(self, step: int, metrics: Mapping[str, float] | None) -> dict[str, float] | None:
        """The metrics as metadata hold them, which no scalars of numpy and of frameworks are."""
        if metrics is None:
            return None
        given = check_metadata(metrics, "metrics")
        if self._best is not None and self._best.name not in given:
            raise EspalierError(
                f"step {step} has the metrics {', '.join(map(repr, given)) or 'of an empty dict'}, and best= goes by "
                f"{self._best.name!r}; correct one of them, or leave out metrics= where it is not measured"
            )
        return {name: _number(step, name, value) for name, value in given.items()}

    def wait(self) -> None:
        """Waits for the save that goes on, and raises its error."""
        self._settle()
        self._warn()

    def _settle(self) -> None:
        """The same, and keeps what there is to warn of: a warning may be an error, and in rank 0 alone. So it comes once this process
        need not answer others any more."""
        self._finish()
        self._raise_failure()

    def _finish(self) -> None:
        """Waits for the save that goes on, and keeps its error."""
        if self._saving is None:
            return
        try:
            self._failure = self._saving.exception()  # Ctrl-C may end the wait, and the save is still ours.
        except NotInThisProcess:
            self._saving = None
            raise
        saving, self._saving = self._saving, None
        if self._failure is None:
            self._has_written(saving.name, saving._faults())

    def _raise_failure(self, note: str = "") -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            failure.args = (f"{failure}{note}",)
            raise failure

    def _warn(self, stacklevel: int = 3) -> None:
        while self._untold:
            problem = self._untold.pop(0)
            if str(problem) not in self._problems:
                self._problems.add(str(problem))
                if isinstance(problem, Warning):
                    warnings.warn(problem, stacklevel=stacklevel)
                    continue
                # Nothing is damaged where no file has the metric of best=, or by what a store cannot do.
                is_damage = type(problem) not in (EspalierError, KeyPathError)
                warnings.warn(str(problem), DamagedCheckpoint if is_damage else UserWarning, stacklevel=stacklevel)

    @property
    def steps(self) -> list[int]:
        """The steps that have a file, ascending; some may be damaged."""
        return self._store.steps()

    @property
    def latest(self) -> int | None:
        """The last of them."""
        return max(self.steps, default=None)

    @property
    def best(self) -> int | None:
        """The step with the best metric; of equal ones the last. None without `best=`, or without the metric anywhere."""
        if self._best is None:
            return None
        found: tuple[float, int] | None = None
        for step in self.steps:
            metric = number(self._store.metrics(step), self._best.name)
            if metric is None:
                continue
            value = -metric if self._best.is_greatest else metric
            if found is None or value <= found[0]:
                found = value, step
        return found[1] if found else None

    def path(self, step: int) -> str:
        """The file of a step, whether it exists or not. In an object store, the URL of a step that exists: CheckpointNotFound."""
        return os.fsdecode(self._store.path(check_int("step", step, 0, 2**63 - 1)))

    @overload
    def restore(
        self,
        *,
        step: int | None = None,
        best: bool = False,
        like: None = None,
        into: Any = None,
        strict: Strict = True,
        progress: Progress = None,
        **options: Any,
    ) -> tuple[Any, int]: ...
    @overload
    def restore(
        self,
        *,
        step: int | None = None,
        best: bool = False,
        like: T,
        into: None = None,
        strict: Strict = True,
        progress: Progress = None,
        **options: Any,
    ) -> tuple[T, int]: ...
    def restore(
        self,
        *,
        step: int | None = None,
        best: bool = False,
        like: Any = None,
        into: Any = None,
        strict: Strict = True,
        progress: Progress = None,
        **options: Any,
    ) -> tuple[Any, int]:
        """The newest step whose every byte is intact, as (state, step); (like, 0) if there is none at all.

        With `into`, fills live objects of torch, and gives what else the file has, as espalier.torch.load_into() does:
        (rest, step), or ({}, 0). Warns of newer steps that are damaged. If all are, the error is that of the newest: going
        on from nothing would remove what may still be repaired. `step` takes that step and no other: CheckpointNotFound if
        there is no file of it, Corrupt if it is damaged. `best=True` takes the step that `best` gives, in the same way. `progress` is that of load(), told of each file that is
        checked, and then of the load. With `distributed`, rank 0 alone checks every byte of a step, and chooses it; each other
        process checks the hash of each MiB that it reads, and an error of one is raised in all. Other options are those of
        load() and load_into().
        """
        if like is not None and into is not None:
            raise EspalierError("like= makes a new state, and into= fills live objects; choose one")
        if strict is False:
            raise EspalierError("strict=False gives a ledger; load() the file of a step with it: path(step)")
        load: Any = _api.load
        if into is not None:
            from .torch._load_into import load_into as load
        if unknown := sorted(set(options) - (set(load.__kwdefaults__) - {"storage_options"})):
            raise TypeError(f"restore() has no option {', '.join(map(repr, unknown))}: it has those of {load.__name__}() for a file")
        if best:
            if step is not None:
                raise EspalierError("step= and best=True are two choices of a step; leave one out")
            self._settle()
            if (step := self._ranks.from_first(lambda: self.best)) is None:
                why = "no step here has its metric" if self._best else "this Checkpointer has no best=, which says what is best"
                raise CheckpointNotFound(f"{self._shown}: there is no best step: {why}", "not_found")
        skipped: list[tuple[int, Exception]] = []
        if step is None:
            step, skipped = self._newest_intact(progress)
            if step is None:
                self._warn()
                return (like if into is None else {}), 0
        else:
            skipped = [(step, each) for each in self._check_step(check_int("step", step, 0, 2**63 - 1), progress)]
        # Rank 0 has checked every byte just now. Others check what they read: they may not see the same bytes.
        check = "nothing" if self._ranks.rank == 0 else "hashes"
        options = {"check": check, "strict": strict, "progress": progress, **options}
        opening: dict[str, Any] = {name: options.pop(name) for name in _api.OPENING if name in options}
        try:
            with self._ranks.together(), self._store.reading(step, opening) as file:
                return _api.load_open(file, like=like, **options) if into is None else load(into, file, **options), step
        finally:
            self._warn()
            for other, problem in skipped:
                what = f"an earlier save of step {step} is taken" if other == step else f"step {other} is passed over"
                warnings.warn(f"{what}: {problem}", DamagedCheckpoint, stacklevel=2)

    def load_per_rank(self, step: int) -> Any:
        """What this process gave as `per_rank` when the step was saved, as load(framework=) gives it for the framework.

        None if it gave nothing, or if another number of processes saved the step: then nothing tells whose part is whose. The
        files of the ranks have all of them, and any program reads these: `open(path(step)).metadata["ranks"]` has their names
        and digests by rank, in the folder of the step, and `load(file, at="per_rank")` gives what that rank gave.
        """
        if self._shared is None:
            raise EspalierError(
                'load_per_rank() is for distributed=True; any program reads what a rank gave with load(file, at="per_rank"), of '
                'the files that the metadata of the step name under "ranks"'
            )
        self._settle()
        with self._ranks.together():
            own = self._shared.of_rank(check_int("step", step, 0, 2**63 - 1))
        self._warn()
        return own

    def _check_step(self, step: int, progress: Progress) -> list[Exception]:
        """That there is a file of the step, and that its every byte is intact. Returns what is wrong with later saves of it."""
        self._settle()

        def verify() -> list[Exception]:
            if step not in self.steps:
                there = f"it has {', '.join(map(str, self.steps))}" if self.steps else "it has no steps"
                raise CheckpointNotFound(f"{self._shown}: there is no step {step}; {there}", "not_found")
            return self._store.check(step, progress)

        return self._ranks.from_first(verify)

    def _newest_intact(self, progress: Progress = None) -> tuple[int | None, list[tuple[int, Exception]]]:
        """The newest step whose every byte is intact, and the newer ones with what is wrong with them."""
        self._settle()
        with reporting(progress if self._ranks.rank == 0 else None, f"checking {self._shown}") as report:
            found = self._store.latest(True, report)
        return (None, []) if found is None else found

    def close(self) -> None:
        """Waits for the save that goes on, and raises its error. No save() may follow; other processes may save.

        Warns if no step of any save() was due, so that nothing was saved.
        """
        self._close(stacklevel=3)

    def _close(self, stacklevel: int) -> None:
        is_first, self._is_closed = not self._is_closed, True
        try:
            with self._ranks.together():
                self._settle()
        finally:
            self._store.unlock()
        self._warn(stacklevel + 1)
        if is_first and self._not_due is not None and not self._has_saved:
            first, last = self._not_due
            rules = [f"every={self._every}"] if self._every is not None else []
            rules += [f"every_minutes={self._every_seconds / 60:g}"] if self._every_seconds is not None else []
            warnings.warn(
                f"{self._shown}: nothing was saved, as no step from {first} to {last} was due by {' and '.join(rules)}; "
                "choose less, or save the last step with save(step, state, force=True)",
                UserWarning,
                stacklevel=stacklevel,
            )

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._close(stacklevel=3)
            return
        # The exception that ends the block is the one to see; the save is finished all the same.
        self._is_closed = True
        try:
            self._finish()
        finally:
            self._store.unlock()
        self._warn()
        failure, self._failure = self._failure, None
        if failure is not None:
            warnings.warn(f"the last save failed: {failure}", DamagedCheckpoint, stacklevel=2)

    def __repr__(self) -> str:
        # No request for a repr.
        return f"<checkpointer {visible(self._shown)}{'' if _urls.is_url(self.folder) else f': {len(self.steps)} steps'}>"
