"""The steps of a Checkpointer in an object store.

    step_00000100.0123456789abcdef.espalier   the checkpoint, under a name of its own
    step_00000100.json                        its manifest, which names it: the step exists from then on
    step_00000100.1.json                      the manifest of a later save of the same step, which counts in its place; but not
                                              an object of such a name that is no manifest
    LATEST                                    the names of the manifests that were made last, for listings that come late

No object but LATEST is ever replaced: a request that is repeated writes the same bytes. A save makes the checkpoint first, then the
manifest, on condition that there is none. Removing takes the manifest first, then the checkpoint. So whoever is killed, and wherever, leaves checkpoints without a manifest at most, which nothing reads.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _core, _urls
from ._checkpoint import Checkpoint
from ._errors import (
    CheckpointExists,
    CheckpointNotFound,
    CheckpointOSError,
    Corrupt,
    EspalierError,
    Incomplete,
    KeyPathError,
    Unsupported,
)
from ._objects import Objects
from ._progress import Progress, Report, reporting
from ._retention import Retention, number
from ._step_store import Saving
from ._temporary import TemporaryFolder, told
from ._uploads import Upload

if TYPE_CHECKING:
    from ._doctor import RawFinding

_VERSION = 1
_HINT = "LATEST"
_HINTED = 16
_MANIFEST = re.compile(r"step_([0-9]{8,19})(?:\.([1-9][0-9]{0,8}))?\.json")
_LAST_GENERATION = 999_999_999
_DATA = re.compile(r"step_([0-9]{8,19})\.[0-9a-f]{16}\.espalier")
# What belongs to no step may be of a save that goes on. No upload takes longer.
_ABANDONED = 24 * 3600


class _Manifest(NamedTuple):
    name: str
    step: int
    file: str
    bytes: int
    digest: str
    writer: str
    saved_by: str
    metrics: Mapping[str, float] | None


class _Fetched(NamedTuple):
    step: int
    folder: TemporaryFolder
    file: str
    where: str
    wrong: list[Exception]
    """What is wrong with later manifests of the step."""


def _manifest_name(step: int, generation: int) -> str:
    return f"step_{step:08}.{generation}.json" if generation else f"step_{step:08}.json"


def _numbers(name: str) -> tuple[int, int] | None:
    """The step and the generation of a manifest of that name."""
    found = _MANIFEST.fullmatch(name)
    if found is None:
        return None
    step, generation = int(found[1]), int(found[2] or 0)
    return (step, generation) if _manifest_name(step, generation) == name and step < 2**63 else None


class ObjectStore:
    """A StepStore at a URL of fsspec. See its module, and docs/decisions/0039-checkpoints-in-object-stores.md."""

    def __init__(self, url: str, retention: Retention, threads: int, options: _urls.Options):
        self._objects = Objects(url, options)
        self._retention, self._threads = retention, threads
        self._id = uuid.uuid4().hex
        self._listed: dict[str, tuple[tuple[str, str], ...]] = {}  # the last listing, with versions where the store has them
        self._read_before: dict[str, tuple[tuple[tuple[str, str], ...], _Manifest]] = {}  # by name, with the version
        self._is_locked = False
        self._known: set[str] = set()  # the manifests that were there at lock(), and our own
        self._own: set[str] = set()  # which a listing may lack for a moment
        self._ignores_conditions: bool | None = None  # not known before the first save
        self._swept: float | None = None
        self._fetched: _Fetched | None = None
        self._problems: list[Exception] = []

    # Saving

    @property
    def _writer(self) -> str:
        """Who makes manifests here. A forked child is another one."""
        return f"{self._id}.{os.getpid()}"

    def lock(self) -> None:
        if self._is_locked:
            return
        self._known = {name for names in self._there().values() for name in names.values()}
        self._is_locked = True
        if not self._objects.is_conditional:
            warnings.warn(
                f"{self._objects.shown}: this store has no conditional writes, so nothing keeps a second process from saving here: "
                "see that only one does",
                UserWarning,
                stacklevel=3,
            )

    def unlock(self) -> None:
        self._is_locked = False

    def save(
        self, step: int, state: Any, metadata: Any, compression: int, sync: bool, threads: int, copy_views: bool,
        check: str, progress: Report | None,
    ) -> list[RawFinding]:  # fmt: skip
        with TemporaryFolder() as folder, told(folder):
            file = os.path.join(folder, f"step_{step:08}.espalier")
            faults = _core.save(
                os.fsencode(file), state, metadata, compression, False, True, threads, copy_views, [], False, progress, check
            )
            self._commit(step, file, metadata.get("metrics"), None)
        return faults

    def save_async(
        self, step: int, state: Any, metadata: Any, compression: int, sync: bool, threads: int, copy_views: bool, check: str
    ) -> Saving:
        def begin(file: str) -> Saving:
            return _core.save_async(os.fsencode(file), state, metadata, compression, False, True, threads, copy_views, check)

        metrics = metadata.get("metrics")
        return Upload(
            self._objects.url, f"step_{step:08}.espalier", begin, lambda file, report: self._commit(step, file, metrics, report)
        )

    def _commit(
        self, step: int, file: str, metrics: Mapping[str, float] | None, report: Callable[[int], None] | None
    ) -> None:
        with Checkpoint(file, threads=self._threads) as checkpoint:
            digest = checkpoint.digest
        name = f"step_{step:08}.{uuid.uuid4().hex[:16]}.espalier"
        about = {
            "espalier_step": _VERSION,
            "step": step,
            "file": name,
            "bytes": os.path.getsize(file),
            "digest": digest,
            "time": time.time(),
            "metrics": metrics,
            "writer": self._writer,
            "saved_by": f"process {os.getpid()} on the host {socket.gethostname()}",
        }
        self._objects.put(file, name, report)
        self._create(step, name, json.dumps(about).encode())
        self._problems = []
        with self._noting():
            self._tidy(step)
        with self._noting():
            self._sweep()

    def _create(self, step: int, file: str, manifest: bytes) -> None:
        """Makes the manifest, with which the step exists."""
        while True:
            earlier = [each[1] for name in self._known if (each := _numbers(name)) is not None and each[0] == step]
            if (last := max(earlier, default=-1)) == _LAST_GENERATION:
                where = _urls.shown(self._objects.url_of(_manifest_name(step, last)))
                raise CheckpointExists(
                    f"{where}: this has the last number that a manifest of step {step} can have, so the step cannot be saved; remove "
                    "it, and make the Checkpointer anew",
                    "file_exists",
                )
            name = _manifest_name(step, last + 1)
            is_made = self._objects.create(name, manifest)
            self._read_before.pop(name, None)
            found = None if is_made else self._manifest(name)
            if found is None or found.file == file:  # ours; its answer was lost
                break
            if found.writer != self._writer:
                raise self._taken(found)
            self._known.add(name)  # of a save of ours that gave up, and was made all the same
        self._known.add(name)
        self._own.add(name)
        if self._ignores_conditions is None:
            # Some servers take the condition and do not keep it. The same bytes do no harm.
            self._ignores_conditions = self._objects.is_conditional and self._objects.create(name, manifest)

    def _taken(self, manifest: _Manifest) -> CheckpointOSError:
        return CheckpointOSError(
            f"{self._objects.shown}: {manifest.saved_by} saved step {manifest.step} meanwhile, so two of them save to this folder; end "
            "one of them, or give each a folder of its own",
            "folder_in_use",
        )

    # Removing

    @contextlib.contextmanager
    def _noting(self) -> Iterator[None]:
        """The step is saved: what fails now is a problem, and the next save tries again."""
        try:
            yield
        except EspalierError as error:
            self._problems.append(error)

    def _tidy(self, saved: int) -> None:
        """Writes the hint, and removes what the rules do not keep."""
        hinted = self._hinted()
        there = self._there(hinted)
        if self._ignores_conditions:
            self._problems.append(
                EspalierError(
                    f"{self._objects.shown}: this server ignores conditions of writes (If-None-Match), so nothing keeps a second "
                    "process from saving here: see that only one does"
                )
            )
        other = self._of_another_writer(there)
        if other is not None:  # What it has saved may be what it goes on from.
            self._problems.append(self._taken(other))
        kept = self._kept(there) | {saved} if other is None else set(there)
        newest = {step: self._name_of_newest(there[step]) for step in sorted(kept & set(there))}
        # In the order of the saves. It may differ from that of the steps: training may go back, or save a step again.
        order = {name: i for i, name in enumerate(hinted)}
        in_order = sorted(newest, key=lambda step: (step == saved, order.get(newest[step], -1)))
        with self._noting():
            self._objects.write(_HINT, json.dumps([newest[step] for step in in_order[-_HINTED:]]).encode())
        for step in sorted(there):
            for name in sorted(there[step].values()):
                if name != newest.get(step):
                    with self._noting(), contextlib.suppress(CheckpointNotFound):
                        self._remove(name, set(there[step].values()) - {name})

    def _of_another_writer(self, there: Mapping[int, Mapping[int, str]]) -> _Manifest | None:
        """A step that another process has saved since lock()."""
        for name in {name for names in there.values() for name in names.values()} - self._known:
            # Unsupported ends it all: a later version saves here.
            with contextlib.suppress(CheckpointNotFound):
                try:
                    if (found := self._manifest(name)).writer != self._writer:
                        return found
                    self._known.add(name)  # of a save of ours that gave up, and was made all the same
                except Corrupt as error:  # No Checkpointer makes such ones.
                    self._problems.append(error)
        return None

    def _kept(self, there: Mapping[int, Mapping[int, str]]) -> set[int]:
        rule, metrics, unread = self._retention, dict[int, Mapping[str, float] | None](), set()
        for step in sorted(there, reverse=True):
            if rule.best is None and (rule.last is None or len(metrics) >= rule.last):
                metrics[step] = None  # It takes a request to read each.
                continue
            try:
                newest, wrong = self._newest_of(there[step])
                metrics[step] = newest.metrics
                self._problems += wrong
            except CheckpointNotFound:
                continue
            except (Corrupt, Unsupported) as error:  # It may be the best.
                unread.add(step)
                self._problems.append(error)
        if rule.best is not None and not any(number(each, rule.best[0]) is not None for each in metrics.values()):
            self._problems.append(
                KeyPathError(
                    f"{self._objects.shown}: no step has the metric {rule.best[0]!r}, so none is kept as the best; save it, or correct "
                    "the name in best=",
                    "not_found",
                )
            )
        return rule.kept(metrics) | unread

    def _remove(self, name: str, others: Iterable[str]) -> None:
        """Removes a manifest, and then what it names, unless others of its step name that, too."""
        manifest, needed = self._manifest(name), set[str]()
        for other in others:
            with contextlib.suppress(CheckpointNotFound, Corrupt):  # What is no manifest names nothing.
                needed.add(self._manifest(other).file)
        self._objects.remove(name)
        if manifest.file not in needed:
            self._objects.remove(manifest.file)
        self._read_before.pop(name, None)
        self._known.discard(name)
        self._own.discard(name)

    def _sweep(self) -> None:
        """Removes what killed saves have left, once a day."""
        if self._swept is not None and time.monotonic() - self._swept < _ABANDONED:
            return
        self._swept = time.monotonic()
        by_step: dict[int, list[str]] = {}
        for name in self._objects.versions():
            if found := _DATA.fullmatch(name):
                by_step.setdefault(int(found[1]), []).append(name)
        there = self._there()
        for step, files in by_step.items():
            if step in there and len(files) == 1:
                continue  # its checkpoint
            for file in files:
                age = self._objects.age(file)
                # The manifests are read after the age: an old object gets none any more.
                if age is not None and age > _ABANDONED and file not in self._files_of(step):
                    self._objects.remove(file)
        self._objects.remove_open_uploads("step_", _ABANDONED)

    def _files_of(self, step: int) -> set[str]:
        return {self._manifest(name).file for name in self._there().get(step, {}).values()}

    def tidy(self) -> list[Exception]:
        """A save has done it, in its own thread."""
        return list(self._problems)

    # Finding

    def _there(self, hinted: list[str] | None = None) -> dict[int, dict[int, str]]:
        """The names of the manifests, by step and generation."""
        self._listed = self._objects.versions()
        names = set(self._listed)
        missing = ({*(self._hinted() if hinted is None else hinted)} | self._own) - names
        found = {name for name in missing if self._objects.read(name) is not None}
        self._own -= missing - found  # another process has removed them
        there: dict[int, dict[int, str]] = {}
        for name in names | found:
            if (numbers := _numbers(name)) is not None:
                there.setdefault(numbers[0], {})[numbers[1]] = name
        return there

    def _hinted(self) -> list[str]:
        """The names of the manifests that were made last, in the order of their saves."""
        data = self._objects.read(_HINT) or b"[]"
        try:
            names = json.loads(data)
        except (ValueError, RecursionError):
            return []  # A hint, and the listing has all of it sooner or later.
        if not isinstance(names, list):
            return []
        return [name for name in names[-_HINTED:] if isinstance(name, str) and _numbers(name)]

    def steps(self) -> list[int]:
        return sorted(self._there())

    def _newest(self, step: int) -> tuple[_Manifest, list[Exception]]:
        """That of _newest_of() for a step."""
        there = self._there()
        if step not in there:
            has = f"it has {', '.join(map(str, sorted(there)))}" if there else "it has no steps"
            raise CheckpointNotFound(f"{self._objects.shown}: there is no step {step}; {has}", "not_found")
        return self._newest_of(there[step])

    def _newest_of(self, names: Mapping[int, str]) -> tuple[_Manifest, list[Exception]]:
        """The last manifest of a step, of those names by generation, and what is wrong with later objects. The error of the last
        one if none is a manifest; CheckpointNotFound."""
        wrong: list[Exception] = []
        for generation in sorted(names, reverse=True):
            try:
                return self._manifest(names[generation]), wrong
            except Corrupt as error:
                wrong.append(error)
        raise wrong[0]

    def _name_of_newest(self, names: Mapping[int, str]) -> str:
        """The same, by name. The last name where that does not tell."""
        if len(names) > 1:  # It takes a request to read each.
            with contextlib.suppress(CheckpointNotFound, Corrupt, Unsupported):
                return self._newest_of(names)[0].name
        return names[max(names)]

    def _manifest(self, name: str) -> _Manifest:
        """CheckpointNotFound; Corrupt."""
        # A name may be used again, by a later save of the step or by a run that was begun anew.
        version = self._listed.get(name)
        before = self._read_before.get(name)
        if version and before is not None and before[0] == version:
            return before[1]
        data = self._objects.read(name)
        if data is None:
            raise CheckpointNotFound(f"{_urls.shown(self._objects.url_of(name))}: the step was removed", "file_not_found")
        manifest = self._parsed(name, data)
        if version:
            self._read_before[name] = version, manifest
        return manifest

    def _parsed(self, name: str, data: bytes) -> _Manifest:
        where = _urls.shown(self._objects.url_of(name))
        numbers = _numbers(name)
        assert numbers is not None
        try:
            about = json.loads(data)
            if about["espalier_step"] > _VERSION:
                raise Unsupported(f"{where}: this manifest is of a later version; use a newer Espalier", "unsupported_version")
            metrics = about["metrics"]
            made = _Manifest(
                name, about["step"], about["file"], about["bytes"], about["digest"], about["writer"], about["saved_by"], metrics
            )
            data_step = _DATA.fullmatch(made.file)
            is_valid = (
                made.step == numbers[0]
                and data_step is not None
                and int(data_step[1]) == made.step
                and type(made.bytes) is int
                and made.bytes >= 0
                and all(isinstance(each, str) for each in (made.digest, made.writer, made.saved_by))
                and (metrics is None or isinstance(metrics, dict))
            )
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            if isinstance(error, EspalierError):
                raise
            is_valid = False
        if not is_valid:
            raise Corrupt(f"{where}: this is not the manifest of step {numbers[0]}; remove it, or save the step anew", "not_a_checkpoint")
        return made

    def path(self, step: int) -> bytes:
        return os.fsencode(self._objects.url_of(self._newest(step)[0].file))

    def metrics(self, step: int) -> Mapping[str, float] | None:
        with contextlib.suppress(Corrupt, Unsupported, CheckpointNotFound):
            return self._newest(step)[0].metrics
        return None

    def latest(self, check: bool, progress: Report | None = None) -> tuple[int, list[tuple[int, Exception]]] | None:
        self._forget_fetched()
        steps = self.steps()
        skipped: list[tuple[int, Exception]] = []
        while steps:
            step = steps[-1]
            try:
                if check:
                    self._fetched = self._fetch(step, progress)
                wrong = self._fetched.wrong if self._fetched else self._newest(step)[1]
                return step, [*skipped, *((step, each) for each in wrong)]
            except CheckpointNotFound as error:
                again = self.steps()
                if step not in again:  # It was removed, but only after a later one was saved.
                    steps, skipped = again, []
                    continue
                skipped.append((step, error))
            except (Corrupt, Unsupported, Incomplete) as error:
                skipped.append((step, error))
            # Any other error is of the network or the program, and says nothing about the checkpoint.
            steps.pop()
        if not skipped:
            return None
        first = skipped[0][1]
        first.args = (f"none of the {len(skipped)} checkpoints is intact; the latest: {first}",)
        raise first

    def _fetch(self, step: int, progress: Report | None = None) -> _Fetched:
        """The step in a file of this machine, whose every byte is intact. `progress` is of the bytes that come."""
        manifest, wrong = self._newest(step)
        where = _urls.shown(self._objects.url_of(manifest.file))
        folder = TemporaryFolder()
        file = os.path.join(folder.name, f"step_{step:08}.espalier")
        try:
            self._objects.get(manifest.file, manifest.bytes, file, progress)
            with _naming(file, where), Checkpoint(file, threads=self._threads) as checkpoint:
                if checkpoint.digest != manifest.digest:
                    raise Corrupt(f"{where}: this is not the checkpoint that {manifest.name} names", "digest_mismatch")
                checkpoint.verify()
        except BaseException:
            folder.cleanup()
            raise
        return _Fetched(step, folder, file, where, wrong)

    def check(self, step: int, progress: Progress) -> list[Exception]:
        self._forget_fetched()
        with reporting(progress, f"fetching step {step} from {self._objects.shown}") as report:
            self._fetched = self._fetch(step, report)
        return self._fetched.wrong

    def _forget_fetched(self) -> None:
        if self._fetched is not None:
            self._fetched.folder.cleanup()
            self._fetched = None

    @contextlib.contextmanager
    def reading(self, step: int, options: Mapping[str, Any]) -> Iterator[Checkpoint]:
        """What check() or latest() fetched, which goes at the end of the block."""
        if self._fetched is None or self._fetched.step != step:
            self.check(step, None)
        fetched, self._fetched = self._fetched, None
        assert fetched is not None
        with fetched.folder, _naming(fetched.file, fetched.where), Checkpoint(fetched.file, **options) as file:
            yield file


@contextlib.contextmanager
def _naming(file: str, where: str) -> Iterator[None]:
    """Errors name the object, and not the file that was made of it."""
    try:
        yield
    except EspalierError as error:
        error.args = (str(error).replace(file, where), *error.args[1:])
        raise
