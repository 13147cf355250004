#!/usr/bin/env python3
"""Disables every check of the reference reader, one at a time, and finds the file of the kit that notices it.

    disable_checks.py write         looks for a file for each check, and writes checks.md
    disable_checks.py compare       checks checks.md: the file of each line notices its check, and no check lacks a line; and that a
                                    reader without the checks of one rule does not refuse the files that say they break that rule only
    disable_checks.py list [WORD]   prints the checks, or only those in whose line WORD stands, with all files that notice them

The last line of `compare` is "N passed, N failed". A check is a call of `need` or a `raise` of a FormatError. Where a condition has
several parts (`a and b`, `a < b < c`), each part is disabled alone, too. A file notices a disabled check if the reader then says
something else of it, or fails. It needs what ../reference needs.
"""

from __future__ import annotations

import ast
import functools
import json
import pathlib
import re
import resource
import signal
import sys
import types
from collections import Counter
from dataclasses import dataclass
from typing import Callable, Iterator

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
REFERENCE = HERE.parent / "reference"
TABLE = HERE / "checks.md"
LARGE = "large/"
sys.path[:0] = [str(REFERENCE), str(ROOT / "scripts/ci")]

SOURCE = (REFERENCE / "espalier_reference.py").read_text(encoding="utf-8")
RULE = re.compile(r"R-\d+\.\d+")
SECONDS, MEMORY = 10, 4 << 30  # Of the processor, and bytes. A reader without a check may go on and on.
# A function that checks several things by one `need`: what each is called, and when it is that thing.
VARIANTS = {
    "check_record": {"of a chunk": "records is file.index.chunks", "of a base": "records is not file.index.chunks"},
    "check_ends": {"of texts": "ends == 'text_ends'", "of shapes": "ends == 'shape_ends'"},
    "take_words": {"of a key": "offset == key_at", "of a value": "offset != key_at"},
}
# Checks that no file can show.
EXPLAINED = {
    "R-1.2 | version ....... is unknown. Only `minor <= 1`": "a minor version above 1 breaks R-1.6 as well",
    "R-1.3 | the file ends within its header": "without its last bytes, the header has no hash that is right (R-1.4)",
    "R-1.5 | the file requires unknown features ...": "no file uses an unknown feature, so R-1.11 is broken as well",
    "R-1.8 | the file is truncated: ... of ... bytes": "what is missing is part of the index or of a chunk, whose hash is then wrong (R-1.10, R-6.7)",
    "R-1.9 | the index is said to have ... bytes": "one part needs a file of 2 GiB, and the other breaks R-2.1 as well",
    "R-1.9 | the index is said to have ... bytes. Only `1 <= index_length`": "an index without bytes breaks R-2.1 as well",
    "R-1.9 | the index is said to have ... bytes. Only `index_length < 2 ** 31`": "it needs a file of 2 GiB",
    "R-1.9 | the index reaches beyond the file": "then the file does not end with its last chunk or its index (R-6.14)",
    "R-2.1 | the root table has no place in the index": "see its two parts",
    "R-2.1 | the root table has no place in the index. Only `8 + vtable_size <= table`": "the vtable would stand in the first 8 bytes, or before them (R-2.2)",
    "R-2.1 | the root table has no place in the index. Only `table <= len(index) - table_size`": "a field would lie outside the index (R-2.3)",
    "R-2.2 | ... lies outside the index": "R-2.1 has found a place for the vtable, which stands directly before the table",
    "R-2.3 | the vector `...` has no room for its ... elements": "then it does not stand in its place, either (R-2.3)",
    "R-3.1 | `...` decreases at ..., of texts": "Python reads a text of a negative length as an empty one, which R-3.3 refuses",
    "R-3.1 | `...` decreases at ..., of shapes": "Python reads a shape of a negative length as an empty one, which R-3.7 refuses",
    "R-3.1 | `...` leaves `...` at ..., of texts": "then the last end is not the size, or the ends decrease (R-3.1)",
    "R-3.1 | `...` leaves `...` at ..., of shapes": "then the last end is not the size, or the ends decrease (R-3.1)",
    "R-3.9 | there are too few words, of a value": "the reader counts them again at the end (R-3.9)",
    "R-3.10 | there are too few bytes": "the reader counts them again at the end (R-3.10)",
    "R-6.8 | the frame is too short for a seal": "fewer than 8 bytes equal no seal (R-6.8)",
    "R-6.9 | this is no zstd frame: wrong magic": "the decoder refuses it as well (R-6.10)",
    "R-6.9 | a block of the frame has the reserved type": "the decoder refuses it as well (R-6.10)",
    "R-6.11 | stream ... is cut short": "then the streams do not end with the chunk (R-6.11)",
    "R-12.6 | the patch has ... changes. Only `count <= len(elements)`": "more changes than elements need a gap beyond the chunk (R-12.8)",
    "R-12.6 | the gaps have ... bytes. Only `count <= gap_bytes unless dense`": "each gap takes a byte (R-12.8)",
    "R-12.7 | stream ... has the length .... Only `min(size, 1) <= length`": "no bytes are no sealed frame (R-6.8)",
    "R-12.7 | stream ... is cut short": "then the streams do not end with the patch (R-12.7)",
}  # fmt: skip

# Readings of the page that are wrong and refuse too much, or let something pass: rule, what the reader does, and the change of its
# source. A file that a reader must accept may notice them, too.
MISREADINGS = [
    ("R-4.12", "an entry also for 8 children", "if count <= 8 or", "if count < 8 or"),
    ("R-4.12", "no entry for 9 children", "if count <= 8 or", "if count <= 9 or"),
    ("R-3.6", "at most 63 axes", "MAX_AXES = 64", "MAX_AXES = 63"),
    ("R-4.14", "the empty text is no label", "        file.labels[node] = file.use_text(text, offset + 4)",
     "        file.labels[node] = file.use_text(text, offset + 4)\n        need('R-4.14', file.labels[node], '', offset)"),
    ("R-5.13", "placeholders take chunks", "right = tensor.first_chunk == NO_CHUNK", "right = tensor.first_chunk == next_chunk"),
    ("R-6.12", "a chunk after one in another file is not aligned", "c == tensor.first_chunk or not was_here", "c == tensor.first_chunk"),
    ("R-6.12", "after a chunk in another file, all chunks of the tensor are aligned", "was_here, here = here, other_file == 0",
     "was_here, here = (c == tensor.first_chunk or was_here) and here, other_file == 0"),
    ("R-6.12", "the first chunk of a tensor is not aligned if the tensor before it ends in another file", "if c == tensor.first_chunk or not was_here",
     "if was_here == (c == tensor.first_chunk)"),
    ("R-11.4", "names are not told apart by case", "files.get(text)", "files.get(text.lower())"),
    ("R-11.8", "chunks of different tensors share no bytes, either", "        elsewhere = []\n", "        elsewhere = elsewhere if next_chunk > tensor.chunk_count else []\n"),
    ("R-11.9", "only the length tells whether it is the right file", " and h128(data[:head]) == head_hash", ""),
    ("R-12.2", "at most 31 bases", "MAX_BASES = 32", "MAX_BASES = 31"),
    ("R-12.10", "each base must have its hash", "    need(\"R-6.7\", h128(data) == stored_hash, f\"chunk {number} is damaged",
     "        need(\"R-6.7\", h128(data) == stored_hash, f\"chunk {number} is damaged"),
    ("R-12.10", "a base that is no patch must have its hash", "data = decode_chunk(raw, codec, dtype, length, offset)",
     "data = decode_chunk(raw, codec, dtype, length, offset)\n            need('R-12.10', h128(data) == stored_hash, '', offset)"),
    ("R-12.10", "a base that is a patch must have its hash", "data = apply_patch(raw, dtype, data, offset)",
     "data = apply_patch(raw, dtype, data, offset)\n            need('R-12.10', h128(data) == stored_hash, '', offset)"),
    ("R-4.9", "a child of a dict may have no key", "{DICT: (1, 2), RECORD: (1,)}", "{DICT: (0, 1, 2), RECORD: (1,)}"),
    ("R-4.9", "a child of a record may have no key", "{DICT: (1, 2), RECORD: (1,)}", "{DICT: (1, 2), RECORD: (0, 1)}"),
    ("R-4.9", "a child of a record may have an int key", "{DICT: (1, 2), RECORD: (1,)}", "{DICT: (1, 2), RECORD: (1, 2)}"),
    ("R-4.9", "an element of a list may have a key", "parent_kind, (0,))", "parent_kind, (0, 1))"),
    ("R-4.14", "a node may have two labels", 'need("R-4.14", node > previous', 'need("R-4.14", node >= previous'),
    ("R-5.6", "axes beside a 0 are multiplied", "    if 0 in shape:\n        return 0\n", ""),
    ("R-6.5", "a patch may be as long as its chunk, or longer", "else 1 <= stored < length", "else 1 <= stored and (stored < length or codec == PATCH)"),
    ("R-6.9", "the field of the content size is the shortest", "right = descriptor & 0b111111 == 0b100000",
     "right = descriptor & 0b111111 == 0b100000 and descriptor >> 6 == (size >= 256) + (size >= 65792)"),
    ("R-11.3", "the head is at most 65,535 bytes", "min(length, 65536)", "min(length, 65535)"),
    ("R-11.3", "the head is at least 128 bytes", "1 <= head <= min(length", "min(length, 128) <= head <= min(length"),
    ("R-11.5", "prn is a name", "(con|prn|aux|nul|", "(con|aux|nul|"),
    ("R-11.5", "aux is a name", "(con|prn|aux|nul|", "(con|prn|nul|"),
    ("R-11.5", "com0 is a name", "(com|lpt)[0-9]", "(com[1-9]|lpt[0-9])"),
    ("R-11.5", "lpt0 is a name", "(com|lpt)[0-9]", "(com[0-9]|lpt[1-9])"),
    ("R-11.5", "com0 and lpt0 are names", "(com|lpt)[0-9]", "(com|lpt)[1-9]"),
    ("R-11.5", "a device may have two dots", r"(\..*)?", r"(\.[^.]*)?"),
    ("R-11.5", "a name may have a +", "[A-Za-z0-9._-]{1,128}", "[A-Za-z0-9._+-]{1,128}"),
    ("R-11.5", "a name may have a ~", "[A-Za-z0-9._-]{1,128}", "[A-Za-z0-9._~-]{1,128}"),
    ("R-11.8", "only chunks that are neighbours share no bytes",
     "        elsewhere.sort()\n        for (name, _, before, _), (other, begin, _, c) in zip(elsewhere, elsewhere[1:]):\n"
     "            apart = name != other or before <= begin\n",
     "        for (name, at, before, _), (other, begin, after, c) in zip(elsewhere, elsewhere[1:]):\n"
     "            apart = name != other or before <= begin or after <= at\n"),
    ("R-11.8", "only chunks of the same bytes share bytes", "for (name, _, before, _), (other, begin, _, c) in zip(elsewhere, elsewhere[1:]):\n",
     "for (name, at, before, _), (other, begin, _, c) in zip(elsewhere, elsewhere[1:]):\n            before = before if at == begin else 0\n"),
    ("R-11.8", "only chunks that begin in order share bytes", "        elsewhere.sort()\n", "        elsewhere = elsewhere if elsewhere == sorted(elsewhere) else []\n"),
    ("R-12.4", "the hash is not compared", "same = record in file.index.chunks.rows[:chunk]",
     "same = (record[0], *record[2:]) in [(each[0], *each[2:]) for each in file.index.chunks.rows[:chunk]]"),
    ("R-12.4", "the offset is not compared", "same = record in file.index.chunks.rows[:chunk]", "same = record[1:] in [each[1:] for each in file.index.chunks.rows[:chunk]]"),
    ("R-12.4", "the codec and the stored length are not compared", "same = record in file.index.chunks.rows[:chunk]",
     "same = record[:2] in [each[:2] for each in file.index.chunks.rows[:chunk]]"),
    ("R-12.4", "a chunk may be its own base", "file.index.chunks.rows[:chunk]", "file.index.chunks.rows[: chunk + 1]"),
    ("R-12.4", "a later chunk may be a base", "file.index.chunks.rows[:chunk]", "file.index.chunks.rows"),
    ("R-12.4", "the base of a base has a lower number than that base", "same = record in file.index.chunks.rows[:chunk]",
     "above = [file.index.chunks.rows.index(each) for each in bases.rows[first:number] if each[3] == 0]\n"
     "            same = record in file.index.chunks.rows[: min([chunk, *above])]"),
    ("R-12.5", "the sum wraps around", "right = offset + stored <= file", "right = (offset + stored) % 2**64 <= file"),
    ("R-12.6", "a dense patch with gaps is sparse", "dense = count == len(elements)\n", "dense = count == len(elements) and gap_bytes == 0\n"),
    ("R-12.8", "a gap has at most two bytes", 'need("R-12.8", byte or shift == 7', 'need("R-12.8", shift <= 14 and (byte or shift == 7)'),
    ("R-12.11", "a base here has the length of the patch", "same = record in file.index.chunks.rows[:chunk]",
     "same = record in file.index.chunks.rows[:chunk]\n"
     "            lengths = {c: size for each in file.tensors for c, size in chunks_of(each)}\n"
     "            same = same and lengths[file.index.chunks.rows.index(record)] == length"),
    ("R-12.11", "a base here has the dtype of the patch", "same = record in file.index.chunks.rows[:chunk]",
     "same = record in file.index.chunks.rows[:chunk]\n"
     "            dtypes = {c: each.dtype for each in file.tensors for c, _ in chunks_of(each)}\n"
     "            same = same and dtypes[file.index.chunks.rows.index(record)] == tensor.dtype"),
]  # fmt: skip

HEAD = """# Which file notices which check

`disable_checks.py write` makes this table: it disables each check of the reference reader ([../reference](../reference)), one at a time,
and looks for a kit file that then gives another result. The test `conformance.checks` repeats that for each line.

- The text is the reader's message, with `...` for what it fills in. "Only" names one part of a condition of several.
- `accepts`: without the check, the reader accepts the file. `fails`: it ends with an error that is no verdict, such as an index out of
  range, or takes more than {seconds} s of the processor. Other verdicts stand as they are.
- Lines with "Misread" are wrong readings of a rule. There, files that a reader must accept are tried as well.

{count} checks: {noticed} are noticed by {files} files, and for {rest} the table says why no file can.

| rule | check | file | without the check |
|---|---|---|---|
"""


@dataclass
class Check:
    """A check, and how to disable it in a copy of the tree. `key` stands in the table."""

    rule: str
    text: str
    line: int
    disable: Callable[[ast.Module], None]
    source: str = SOURCE
    is_misreading: bool = False

    @property
    def key(self) -> str:
        return f"{self.rule} | {self.text}"


# --- The checks of the source ---------------------------------------------------------------------


def message_of(node: ast.expr) -> str:
    """A sentence of the source, with `...` for what is filled in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "..." for part in node.values)
    return node.value if isinstance(node, ast.Constant) else "..."


def is_need(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "need"


def is_raise(node: ast.AST) -> bool:
    return isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and getattr(node.exc.func, "id", "") == "FormatError"


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def own_nodes(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions within it, in the order of the source."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, ast.FunctionDef):
            yield child
            yield from own_nodes(child)


def rules_of(argument: ast.expr, function: ast.FunctionDef, tree: ast.Module) -> list[str]:
    """The rules that the first argument of `need` may be: a text, or a name for several."""
    if isinstance(argument, ast.Constant):
        return [argument.value]
    assigned = [node.value for node in own_nodes(function) if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == argument.id]
    texts = [node.value for value in assigned for node in ast.walk(value) if isinstance(node, ast.Constant)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == function.name and isinstance(node.args[0], ast.Constant):
            texts.append(node.args[0].value)
    return sorted({text for text in texts if isinstance(text, str) and RULE.fullmatch(text)})


def parts_of(condition: ast.expr) -> list[tuple[str, ast.expr]]:
    """The condition without one of its parts, for each of them, with the text of that part. None if it has one."""
    if isinstance(condition, ast.BoolOp) and isinstance(condition.op, ast.And):
        values = condition.values
        rest = lambda i: ast.BoolOp(ast.And(), values[:i] + values[i + 1 :] + [ast.Constant(True)])
        return [(ast.unparse(value), rest(i)) for i, value in enumerate(values)]
    if isinstance(condition, ast.IfExp):
        test, yes, no = condition.test, condition.body, condition.orelse
        parts = [(f"{ast.unparse(yes)} if {ast.unparse(test)}", ast.IfExp(test, ast.Constant(True), no))]
        parts += [(f"{text} unless {ast.unparse(test)}", ast.IfExp(test, yes, rest)) for text, rest in parts_of(no)]
        return parts
    if isinstance(condition, ast.Compare) and len(condition.ops) > 1:
        terms = [condition.left, *condition.comparators]
        pairs = [ast.Compare(terms[i], [op], [terms[i + 1]]) for i, op in enumerate(condition.ops)]
        rest = lambda i: ast.BoolOp(ast.And(), pairs[:i] + pairs[i + 1 :] + [ast.Constant(True)])
        return [(ast.unparse(pair), rest(i)) for i, pair in enumerate(pairs)]
    return []


def at_line(tree: ast.Module, line: int, wanted: Callable[[ast.AST], bool]) -> ast.AST:
    return next(node for node in ast.walk(tree) if getattr(node, "lineno", 0) == line and wanted(node))


def weaken(line: int, allowed: str) -> Callable[[ast.Module], None]:
    """The `need` of this line holds also where the expression `allowed` does."""

    def change(tree: ast.Module) -> None:
        call = at_line(tree, line, is_need).value
        call.args[1] = ast.BoolOp(ast.Or(), [ast.parse(allowed, mode="eval").body, call.args[1]])

    return change


def remove_raise(line: int) -> Callable[[ast.Module], None]:
    def change(tree: ast.Module) -> None:
        for node in ast.walk(tree):
            for name in ("body", "orelse"):
                body = getattr(node, name, None)
                if isinstance(body, list):
                    setattr(node, name, [ast.Pass() if is_raise(each) and each.lineno == line else each for each in body])

    return change


def replace_condition(line: int, number: int, is_assignment: bool) -> Callable[[ast.Module], None]:
    """The condition of a `need`, or the value that is assigned in this line, without one of its parts."""

    def change(tree: ast.Module) -> None:
        if is_assignment:
            node = at_line(tree, line, lambda each: isinstance(each, ast.Assign))
            node.value = parts_of(node.value)[number][1]
        else:
            call = at_line(tree, line, is_need).value
            call.args[1] = parts_of(call.args[1])[number][1]

    return change


def condition_of(call: ast.Call, function: ast.FunctionDef) -> tuple[ast.expr, int, bool]:
    """The condition of a `need`: where it is a name, what was assigned to that name before it."""
    condition = call.args[1]
    if isinstance(condition, ast.Name):
        assigned = [node for node in own_nodes(function) if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == condition.id
                    and node.lineno < call.lineno]  # fmt: skip
        if assigned:
            last = max(assigned, key=lambda node: node.lineno)
            return last.value, last.lineno, True
    return condition, call.lineno, False


def checks_of_need(call: ast.Call, function: ast.FunctionDef, tree: ast.Module) -> Iterator[Check]:
    text, line = message_of(call.args[2]), call.lineno
    variants = VARIANTS.get(function.name, {"": "True"})
    rules = rules_of(call.args[0], function, tree)
    for rule in rules:
        for name, when in variants.items():
            allowed = when if len(rules) == 1 else f"({when}) and {call.args[0].id} == {rule!r}"
            if rule in ("R-11.7", "R-12.5") and name != {"R-11.7": "of a chunk", "R-12.5": "of a base"}[rule]:
                continue
            yield Check(rule, f"{text}{', ' + name if name else ''}", line, weaken(line, allowed))
    condition, where, is_assignment = condition_of(call, function)
    for number, (part, _) in enumerate(parts_of(condition)):
        yield Check(rules[0], f"{text}. Only `{part}`", line, replace_condition(where, number, is_assignment))


def all_checks(tree: ast.Module) -> list[Check]:
    found: list[Check] = []
    for function in functions(tree):
        if function.name == "need":
            continue
        for node in own_nodes(function):
            if is_need(node):
                found += checks_of_need(node.value, function, tree)
            elif is_raise(node):
                found.append(Check(node.exc.args[0].value, message_of(node.exc.args[1]), node.lineno, remove_raise(node.lineno)))
            elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "is_it":
                for number, (part, _) in enumerate(parts_of(node.value)):
                    change = replace_condition(node.lineno, number, True)
                    found.append(Check("R-11.9", f"a file beside this one is the right one. Only `{part}`", node.lineno, change))
    for rule, text, old, new in MISREADINGS:
        assert SOURCE.count(old) == 1, f"the reader has no such line, or several: {old}"
        line = SOURCE[: SOURCE.index(old)].count("\n") + 1
        found.append(Check(rule, f"Misread: {text}", line, lambda _: None, SOURCE.replace(old, new), True))
    found.sort(key=lambda check: check.line)
    for key, count in Counter(check.key for check in found).items():
        same = [check for check in found if check.key == key]
        for number, check in enumerate(same if count > 1 else [], 1):
            check.text += f" ({number} of {count})"
    return sorted(found, key=lambda check: [int(part) for part in check.rule[2:].split(".")])


# --- What the reader says without one -------------------------------------------------------------


def without(check: Check) -> types.ModuleType:
    """The reference reader without a check."""
    tree = ast.parse(check.source)
    check.disable(tree)
    module = types.ModuleType("espalier_reference_without_a_check")
    sys.modules[module.__name__] = module  # Data classes look for their module.
    exec(compile(ast.fix_missing_locations(tree), "espalier_reference.py", "exec"), module.__dict__)
    return module


def large_file(file: str) -> bytes:
    import kit_cases

    return next(case.data for case in kit_cases.large_refused() if LARGE + case.path() == file)


@functools.cache
def without_rule(rule: str) -> types.ModuleType:
    """The reference reader without all checks of a rule."""
    module = without(Check(rule, "", 0, lambda _: None))
    need = module.need
    module.need = lambda each, *rest: None if each == rule else need(each, *rest)  # type: ignore[attr-defined]
    return module


class Kit:
    """The files of the kit, but those with a choice and the large ones to accept, read once."""

    def __init__(self) -> None:
        import corpora

        corpora.unpack("corrupt")
        rows = json.loads((HERE / "manifest.json").read_text(encoding="ascii"))
        self.rows = [row for row in rows if row["verdict"] != "either" and not (row["verdict"] == "accept" and row["file"].startswith(LARGE))]
        self.by_file = {row["file"]: row for row in self.rows}
        self.data: dict[str, bytes] = {}
        self.folders: dict[pathlib.Path, dict[str, bytes]] = {}

    def bytes_of(self, file: str) -> bytes:
        if file not in self.data:
            self.data[file] = large_file(file) if file.startswith(LARGE) else (HERE / file).read_bytes()
        return self.data[file]

    def beside(self, file: str) -> dict[str, bytes]:
        """Further files of a file. A corpus of single files has none, and no large file of these."""
        folder = (HERE / file).parent
        if folder not in self.folders:
            paths = [] if folder.name in ("files", "large") else [path for path in folder.iterdir() if path.is_file()]
            self.folders[folder] = {path.name: path.read_bytes() for path in paths}
        return self.folders[folder]

    def answer(self, reader: types.ModuleType, file: str) -> str:
        def stop(*_: object) -> None:
            raise TimeoutError

        data = self.bytes_of(file)
        signal.signal(signal.SIGPROF, stop)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            unreadable: list[int] = []
            opened = reader.open_file(data, self.beside(file))
            reader.verify(opened, unreadable)
            return "incomplete" if unreadable else "accepts"
        except reader.FormatError:
            return "refuses"
        except Exception:  # Whatever it is, it is no verdict.
            return "fails"
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    def notices(self, reader: types.ModuleType, file: str) -> str | None:
        """What a reader says of a file, if that is wrong."""
        said = self.answer(reader, file)
        return None if said.rstrip("s") == self.by_file[file]["verdict"] else said

    def search(self, check: Check) -> Iterator[tuple[str, str]]:
        """The files that notice it, and what the reader says of them: those of the rule first."""
        reader = without(check)
        for row in sorted(self.rows, key=lambda row: (row.get("rule") != check.rule, "/only-" not in row["file"])):
            if row["file"].startswith(LARGE) and row["rule"] != check.rule or row["verdict"] == "accept" and not check.is_misreading:
                continue
            said = self.notices(reader, row["file"])
            if said:
                yield row["file"], said

    def best(self, check: Check) -> tuple[str, str] | None:
        """One that the reader accepts without the check, if there is one: a crash is the luck of Python."""
        second = None
        for file, said in self.search(check):
            if said != "fails":
                return file, said
            second = second or (file, said)
        return second


# --- The table ------------------------------------------------------------------------------------


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def lines_of_table() -> Iterator[tuple[str, str, str, str]]:
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        cells = [each.strip() for each in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 4 and RULE.fullmatch(cells[0]):
            yield cells[0], cells[1].replace("\\|", "|"), cells[2].strip("`"), cells[3]


def write(kit: Kit, checks: list[Check]) -> int:
    rows, lacking = [], 0
    for check in checks:
        found = kit.best(check)
        if found is None and check.key not in EXPLAINED:
            lacking += 1
            print(f"no file notices: {check.key}", flush=True)
            continue
        file, said = (f"`{found[0]}`", found[1]) if found else ("none", EXPLAINED[check.key])
        rows.append(f"| {check.rule} | {cell(check.text)} | {file} | {said} |\n")
    files = [row.split("|")[-3] for row in rows if row.split("|")[-3] != " none "]
    counts = {"count": len(rows), "noticed": len(files), "files": len(set(files)), "rest": len(rows) - len(files)}
    head = HEAD.format(seconds=SECONDS, **counts)
    TABLE.write_text(head + "".join(rows), encoding="utf-8")
    print(f"{len(rows)} checks written, {lacking} without a file")
    return 1 if lacking else 0


def compare(kit: Kit, checks: list[Check]) -> int:
    listed = {f"{rule} | {text}": (file, said) for rule, text, file, said in lines_of_table()}
    failures = [f"this line is of no check: {key}" for key in sorted(listed.keys() - {check.key for check in checks})]
    failures += [f"this explanation is of no check: {key}" for key in sorted(EXPLAINED.keys() - {check.key for check in checks})]
    wrong = [file for file in kit.by_file if "/only-" in file and kit.answer(without_rule(kit.by_file[file]["rule"]), file) in ("refuses", "fails")]
    failures += [f"{file} breaks more than one rule" for file in wrong]
    passed = 0
    for check in checks:
        file, said = listed.get(check.key, ("", ""))
        if file == "none" and said == EXPLAINED.get(check.key):
            found = said
        elif file in kit.by_file:
            found = kit.notices(without(check), file)
        else:
            failures.append(f"checks.md has no line with a file for: {check.key}")
            continue
        if found == said:
            passed += 1
        else:
            failures.append(f"{file} does not notice it as the line says, but {found}: {check.key}")
    for failure in failures:
        print(failure)
    print(f"{passed} passed, {len(failures)} failed")
    return 1 if failures or not passed else 0


def show(kit: Kit, checks: list[Check], word: str) -> int:
    for check in checks:
        if word in check.key:
            print(f"{check.key} (line {check.line})")
            if word:
                for file, said in kit.search(check):
                    print(f"    {said}: {file}")
    return 0


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1] not in ("write", "compare", "list"):
        sys.exit(__doc__)
    sys.setrecursionlimit(20_000)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    checks = all_checks(ast.parse(SOURCE))
    if sys.argv[1] == "list":
        return show(Kit(), checks, "".join(sys.argv[2:3]))
    return {"write": write, "compare": compare}[sys.argv[1]](Kit(), checks)


if __name__ == "__main__":
    sys.exit(main())
