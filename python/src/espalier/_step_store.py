"""Where a Checkpointer keeps its steps. The Checkpointer says when to save; a store writes, keeps and finds."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from . import _core, _urls
from ._checkpoint import Checkpoint
from ._errors import EspalierError
from ._options import Path
from ._progress import Progress, Report
from ._retention import Retention
from ._tree import below

if TYPE_CHECKING:
    from ._doctor import RawFinding
    from ._frameworks import Framework
    from ._rank_folder import Plan, RankFolder
    from ._ranks import Group


class Saving(Protocol):
    """A save in the background."""

    def is_done(self) -> bool: ...

    def cancel(self) -> None:
        """Gives up the save, and does not wait."""

    def progress(self) -> tuple[int, int]:
        """Bytes done, and in total."""

    def failure(self) -> Exception | None:
        """The error of a save that is done."""

    def faults(self) -> list[RawFinding]:
        """What the check of a save that is done has found."""


class OfRanks(NamedTuple):
    """The state that processes save together: what they share, and what each has for itself, or None."""

    shared: Any
    own: Any


class StepStore(Protocol):
    """Holds one checkpoint for each step, and removes those that its rules do not keep once a newer one is complete."""

    def lock(self) -> None:
        """Keeps other processes from saving here until unlock(). An error, at once, if one does already."""

    def unlock(self) -> None: ...

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
        """Saves the step, completely or not at all. The metadata have the step and the metrics. `check` is "warn", "raise" or empty:
        with "raise", Unhealthy in place of a save if the state has faults; with "warn", returns these."""

    def save_async(
        self, step: int, state: Any, metadata: Any, compression: int, sync: bool, threads: int, copy_views: bool, check: str
    ) -> Saving:
        """The same in the background: arrays are copied before the call returns."""

    def steps(self) -> list[int]:
        """The steps that are complete, ascending; some may be damaged."""

    def path(self, step: int) -> bytes:
        """What open() opens the step by. Where that does not say whether the step exists, CheckpointNotFound if it does not."""

    def metrics(self, step: int) -> Mapping[str, float] | None:
        """The metrics of a step; None if it has none, is damaged or is gone."""

    def check(self, step: int, progress: Progress) -> list[Exception]:
        """That every byte of the step is as its hash says: Corrupt. CheckpointNotFound without such a step. Returns what is wrong
        with later saves of it, in whose place this one is taken."""

    def reading(self, step: int, options: Mapping[str, Any]) -> contextlib.AbstractContextManager[Checkpoint]:
        """The step, opened with these options until the block ends; what is mapped of it stays. Call check() or latest()
        before."""

    def latest(self, check: bool, progress: Report | None = None) -> tuple[int, list[tuple[int, Exception]]] | None:
        """The newest step that is intact, and each newer one, or later save of this one, with what is wrong with it; None
        without any step.

        With `check`, every byte is compared with its hash. An error, that of the newest, if none is intact.
        """

    def tidy(self) -> list[Exception]:
        """Once a save was made: removes files that belong to no step any more. Returns what could not be removed or read."""


class Folder(_core.Folder):
    """A folder of files."""

    def metrics(self, step: int) -> Mapping[str, float] | None:
        with contextlib.suppress(EspalierError), Checkpoint(self.path(step)) as checkpoint:
            found = checkpoint.metadata.get("metrics")
            return found if isinstance(found, dict) else None
        return None

    def check(self, step: int, progress: Progress) -> list[Exception]:
        with Checkpoint(self.path(step)) as checkpoint:
            checkpoint.verify(progress=progress)
        return []

    @contextlib.contextmanager
    def reading(self, step: int, options: Mapping[str, Any]) -> Iterator[Checkpoint]:
        with Checkpoint(self.path(step), **options) as file:
            yield file

    def tidy(self) -> list[Exception]:
        """Also of steps that several processes saved here before."""
        from ._rank_folder import remove_files_of_ranks

        return [*self.problems(), *remove_files_of_ranks(self)]


def step_store(
    folder: Path,
    retention: Retention,
    incremental: bool,
    patches: bool,
    threads: int,
    storage_options: Mapping[str, Any] | None = None,
) -> StepStore:
    """The store for a folder."""
    if _urls.is_url(folder):
        from ._object_store import ObjectStore

        url = os.fsdecode(folder)
        if incremental:
            raise EspalierError(
                f"{_urls.shown(url)}: incremental=True is for folders of this machine, whose steps refer to each other; leave it out, as "
                "each step in a store is whole"
            )
        return ObjectStore(url, retention, threads, storage_options)
    _urls.check_options(storage_options)
    return _folder(folder, retention, incremental, patches, threads)


def shared_store(
    folder: Path,
    retention: Retention,
    incremental: bool,
    patches: bool,
    threads: int,
    storage_options: Mapping[str, Any] | None = None,
) -> RankFolder:
    """The same for all processes of torch.distributed or jax.distributed together. The states to save are OfRanks."""
    from ._rank_folder import RankFolder

    ranks, behind, plan, framework = _job()
    with ranks.together():
        _urls.check_local(folder, "a Checkpointer with distributed=True")
        _urls.check_options(storage_options)
        steps = _folder(folder, retention, incremental, patches, threads)
    return RankFolder(steps, ranks, behind, plan, framework, incremental, patches)


def _folder(
    folder: Path,
    retention: Retention,
    incremental: bool,
    patches: bool,
    threads: int,
) -> Folder:
    best = retention.best and (below("metrics", retention.best[0]), *retention.best[1:])
    return Folder(os.fsencode(folder), retention.last, retention.every, best, incremental, patches, threads)


def _job() -> tuple[Group, Group, Callable[[], Plan], Framework]:
    """The processes that save together: a group for the program's thread, one for saves in the background, and who plans."""
    torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
    if torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized():
        from .torch._gloo_ranks import GlooRanks
        from .torch._plan import TorchPlan

        ranks = GlooRanks()
        return ranks, GlooRanks(), lambda: TorchPlan(ranks.rank == 0), "torch"
    if jax is not None:
        from ._jax_ranks import JaxRanks, client

        if client() is not None:
            from ._jax_plan import JaxPlan

            group = JaxRanks()
            return group, JaxRanks(), lambda: JaxPlan(group.rank, group.count), "jax"
    raise EspalierError(
        "distributed=True saves with the processes of torch.distributed or jax.distributed; call "
        "torch.distributed.init_process_group() or jax.distributed.initialize() first"
    )
