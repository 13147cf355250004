"""doctor(): what is wrong with the numbers of a checkpoint, or of a state before it is saved."""

from __future__ import annotations

import collections
import dataclasses
import os
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from . import _core
from ._checkpoint import Checkpoint, Note
from ._errors import EspalierError
from ._options import check_text, check_threads
from ._progress import Progress, reporting
from ._visible import visible

Severity = Literal["fault", "warning", "note"]
RawFinding = tuple[str, str, str, str, str, int | None]
_SHOWN = 20  # findings of one rule that str() lists


class Finding(NamedTuple):
    """Something that is wrong with a tensor, or with a number that is none."""

    severity: Severity
    """A fault is possible in no usable state, whatever the model. A warning contradicts the tensors that resemble this one, or how
    files are written. A note is usual in some sound model."""
    rule: str
    """The rule's name, such as "nan" or "dead_rows": docs/health.md lists them."""
    path: str
    """The key path of the tensor, or of the first one; of "missing", the one that it would have. Of more than 512 bytes, the beginning
    and the end, with a hash between them. Exact: escape it before you print it."""
    other: str
    """The key path of another tensor that it is about, or empty."""
    text: str
    """A sentence without the path, such as "2 of 64 elements are NaN, the first at [0, 5]"."""
    at: int | None
    """The element, row or column that it begins with, counted in row-major order."""

    def __str__(self) -> str:
        return f"{visible(self.path or '(root)')}: {visible(self.text)}{f' {visible(self.other)}' if self.other else ''}"


@dataclasses.dataclass(frozen=True, repr=False)
class Diagnosis:
    """What doctor() found. print() it to read it as `espalier doctor` says it: at most 20 findings of each rule. Immutable, so
    threads can share it."""

    name: str
    """What was examined: the file, or "the state"."""
    findings: tuple[Finding, ...]
    """Faults first, then warnings, then notes."""
    tensors: int
    """Tensors that were examined; one at several key paths counts once."""
    bytes: int
    """Bytes of their elements."""
    placeholders: int
    """Tensors without elements."""
    opaque: int
    """Tensors of quantised blocks, which are only compared for equality; `tensors` counts them, too."""
    alone: int
    """Matrices that no other tensor resembles, so that they are compared with none."""
    is_partial: bool = False
    """Whether patterns left tensors out: those chosen were then compared with each other alone."""
    code: tuple[Note, ...] = ()
    """What the file's own program would import or call: no findings, as they are not about numbers. Nothing was run."""

    def _of(self, severity: Severity) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity == severity)

    @property
    def faults(self) -> tuple[Finding, ...]:
        return self._of("fault")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        return self._of("warning")

    @property
    def notes(self) -> tuple[Finding, ...]:
        return self._of("note")

    @property
    def ok(self) -> bool:
        """Whether there is neither a fault nor a warning."""
        return not (self.faults or self.warnings)

    def _counts(self) -> str:
        found = [_counted(len(self.code), "name") + " of code"] if self.code else []
        found += [
            _counted(len(some), name)
            for name, some in (("fault", self.faults), ("warning", self.warnings), ("note", self.notes))
            if some
        ]
        return ", ".join(found) or "nothing found"

    def _summary(self) -> str:
        text = f"{self._counts()}; {_counted(self.tensors, 'tensor')} examined, {_size(self.bytes)}"
        if self.placeholders:
            text += f"; {_counted(self.placeholders, 'placeholder')} without elements"
        if self.alone:
            text += f"; {self.alone} {'matrix is' if self.alone == 1 else 'matrices are'} like no other: compared with none"
        if self.is_partial:
            text += "; compared with each other alone"
        if self.opaque:
            text += f"; {_counted(self.opaque, 'tensor')} of blocks that are not decoded: compared for equality only"
        return text

    def __str__(self) -> str:
        lines = [visible(f"  code: {note.path}{': ' if note.path else ''}{note.message}") for note in self.code[:_SHOWN]]
        if len(self.code) > _SHOWN:
            lines.append(f"        {len(self.code) - _SHOWN} more names of code: see code")
        counts: collections.Counter[str] = collections.Counter()
        for finding in self.findings:
            counts[finding.rule] += 1
            if counts[finding.rule] <= _SHOWN:
                lines.append(f"{finding.severity:<7} {finding}")
        for rule, count in counts.items():
            if count > _SHOWN:
                lines.append(f"        {count - _SHOWN} more of {rule}: see findings")
        return "\n".join([*lines, f"{visible(self.name)}: {self._summary()}"])

    def __repr__(self) -> str:
        return f"<diagnosis of {visible(self.name)}: {self._counts()}>"

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(str(self))}</pre>"


class Unhealthy(EspalierError):
    """A state has faults in its numbers, and was not saved. `findings` has them; `code` is "tree_invalid", and `path` the key path
    of the first."""

    findings: tuple[Finding, ...] = ()

    def __reduce__(self) -> tuple[object, ...]:
        return _unhealthy, (str(self), self.findings)


class HealthWarning(UserWarning):
    """A state has faults in its numbers, and was saved all the same. `findings` has them."""

    findings: tuple[Finding, ...] = ()


def _unhealthy(message: str, findings: tuple[Finding, ...]) -> Unhealthy:
    made = Unhealthy(message, "tree_invalid", findings[0].path if findings else "")
    made.findings = findings
    return made


def as_findings(raw: Iterable[RawFinding]) -> tuple[Finding, ...]:
    made: Any = Finding._make
    return tuple(map(made, raw))


def _first(findings: tuple[Finding, ...]) -> str:
    """The first faults, in a sentence."""
    more = f"; and {len(findings) - 3} more" if len(findings) > 3 else ""
    return "; ".join(map(str, findings[:3])) + more


def refused(faults: Iterable[RawFinding]) -> Unhealthy:
    """The error of a save that these faults have ended. The extension module calls it."""
    found = as_findings(faults)
    return _unhealthy(f"the state has {_counted(len(found), 'fault')}, so it was not saved: {_first(found)}", found)


def at_step(error: Unhealthy, where: str) -> Unhealthy:
    """The same error, which says which save it is of."""
    return _unhealthy(f"{where}: {error}", error.findings)


def warning_of(faults: tuple[Finding, ...], where: str) -> HealthWarning:
    made = HealthWarning(visible(f"{where}: the state has {_counted(len(faults), 'fault')}, and was saved: {_first(faults)}"))
    made.findings = faults
    return made


def doctor(
    state_or_path: Any,
    *patterns: str,
    threads: int = 0,
    progress: Progress = None,
    nest: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Diagnosis:
    """Examines the numbers of a checkpoint or of a state: NaN, dead rows, outliers, stretches that stand twice, moments that do not
    fit, and more. docs/health.md has the rules.

    Takes a path, a URL or an open Checkpoint, of any format and also of map(); or a state as save() takes it, of arrays of numpy,
    PyTorch and JAX and of modules. A state and the file that is saved from it have the same findings. `patterns` choose what is
    examined: `doctor("run.espalier", "model/**")`. With `nest`, dotted names are nested as by open().

    Reads every chosen tensor once, in a file a MiB at a time. The arrays of a state are read where they are. Those that
    save() would copy (of a GPU, not in C order) are copied one for each thread, one after the other. Takes some 2 MiB for each thread,
    and some kilobytes for each tensor. `threads` is 0 for every processor, and changes no finding. `progress` is True, or a
    function of the bytes done and in total. Other Python threads go on; do not change the arrays meanwhile. Ctrl-C ends it.

    Damaged tensors, and those in a file that is missing, are findings ("unreadable"). Raises what open() raises;
    KeyPathError for a pattern that nothing matches; CheckpointOSError if a disk or a server fails; Unsupported, with the key
    path, for a state that save() would refuse. Nothing in a file is imported or executed.
    """
    chosen = [check_text("a pattern", pattern) for pattern in patterns]
    count = check_threads(threads)
    if isinstance(state_or_path, (str, bytes, os.PathLike)):
        with Checkpoint(state_or_path, nest=nest, threads=count, storage_options=storage_options) as checkpoint:
            return _of_file(checkpoint, chosen, count, progress)
    if nest or storage_options is not None:
        raise EspalierError("nest= and storage_options= are for a path that is opened; leave them out")
    if isinstance(state_or_path, Checkpoint):
        return _of_file(state_or_path, chosen, count, progress)
    with reporting(progress, "examining the state") as report:
        return _diagnosis("the state", _core.examine_state(state_or_path, chosen, count, report))


def _of_file(checkpoint: Checkpoint, patterns: list[str], threads: int, progress: Progress) -> Diagnosis:
    checkpoint._check_data()
    with reporting(progress, f"examining {checkpoint.name}") as report:
        raw = _core.examine_file(checkpoint._opened, patterns, threads, report, checkpoint.name)
    return _diagnosis(checkpoint.name, raw, tuple(note for note in checkpoint.notes if note.kind == "code"))


def _diagnosis(
    name: str, raw: tuple[list[RawFinding], int, int, int, int, int, bool], code: tuple[Note, ...] = ()
) -> Diagnosis:
    findings, *counts, is_partial = raw
    tensors, size, placeholders, opaque, alone = counts
    return Diagnosis(name, as_findings(findings), tensors, size, placeholders, opaque, alone, is_partial, code)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _size(count: int) -> str:
    if count < 1024:
        return f"{count} B"
    size = float(count)
    for unit in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        size /= 1024
        if size < 1023.95:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} EiB"
