"""A checkpoint as HTML, for notebooks: nested <details>, without scripts, styles from elsewhere, images or links."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ._tree import DICT, DTYPE_NAMES, KIND_NAMES, PLACEHOLDER, RECORD, TENSOR
from ._visible import visible

if TYPE_CHECKING:
    from . import _core

_NODES = 1000
# Levels that are shown: the page of a file with more would be hard on a browser, which nests elements.
_LEVELS = 60
_TEXT = 200


def text(value: object) -> str:
    """Text from a file, as HTML that shows it and does nothing else.

    Keys come from strangers. Markup is escaped, also for attributes, and so is what visible() escapes: a page cannot hold
    control characters, and some others make one key look like another.
    """
    shown = str(value)
    more = "…" if len(shown) > _TEXT else ""
    return html.escape(visible(shown[:_TEXT]) + more)


def _size(count: int) -> str:
    size = float(count)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{count:,} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def _shape(lengths: tuple[int, ...]) -> str:
    return " × ".join(map(str, lengths)) or "no axes"


def _described(file: _core.File, node: int) -> str:
    """What a node without children is, escaped."""
    kind = file.kind(node)
    if kind in (TENSOR, PLACEHOLDER):
        _, dtype, shape, *_, nbytes, _, _, _ = file.tensor(node)
        what = "placeholder, " if kind == PLACEHOLDER else ""
        return f"{what}{DTYPE_NAMES[dtype]}, {_shape(shape)}, {_size(nbytes)}"
    return text(_value(file, node))


def _value(file: _core.File, node: int) -> str:
    loaded = file.load(node, True, True)
    loaded = getattr(loaded, "value", loaded)  # a label's; it is shown beside
    if isinstance(loaded, (str, bytes)):
        return repr(loaded[: _TEXT + 1])
    if isinstance(loaded, int) and loaded.bit_length() > 600:  # Python refuses to print those of thousands of digits.
        return f"an integer of {loaded.bit_length():,} bits"
    return repr(loaded)


def _nodes(file: _core.File, root: int) -> str:
    """The children of a node as a list. Iterative, and only the first nodes in their order."""
    parts: list[str] = []
    left = _NODES
    # The open nodes: the children of each that are to come, and the text that closes it.
    stack = [(_children(file, root), file.size(root), "")]
    while stack:
        children, count, end = stack[-1]
        entry = next(children, None)
        if entry is None or left == 0:
            if left == 0 and count:
                parts.append(f"<div>… and {count:,} more</div>")
            parts.append(end)
            stack.pop()
            continue
        stack[-1] = (children, count - 1, end)
        left -= 1
        key, node = entry
        label = file.label(node)
        kind = file.kind(node)
        shown = f"<b>{text(key)}</b>" + (f" <i>{text(label)}</i>" if label else "")
        if not DICT <= kind <= RECORD:
            parts.append(f"<div>{shown}: {_described(file, node)}</div>")
            continue
        shown += f": {KIND_NAMES[kind]} of {file.size(node):,}"
        if len(stack) >= _LEVELS:
            parts.append(f"<div>{shown}</div>")
            continue
        parts.append(f'<details style="margin-left:1em"><summary>{shown}</summary>')
        stack.append((_children(file, node), file.size(node), "</details>"))
    return "".join(parts)


def _children(file: _core.File, node: int) -> Iterator[tuple[str | int, int]]:
    # Not all keys at once: a container may have millions.
    return ((key, file.child(node, i)) for i, key in enumerate(file.first_keys(node, _NODES)))


def of_node(file: _core.File, node: int, title: str) -> str:
    """`title` is escaped already."""
    kind = file.kind(node)
    label = file.label(node)
    shown = f"{title} <i>{text(label)}</i>" if label else title
    if not DICT <= kind <= RECORD:
        return f"<div>{shown}: {_described(file, node)}</div>"
    size = file.size(node)
    summary = f"<summary>{shown}: {KIND_NAMES[kind]} of {size:,}</summary>"
    return f"<details open>{summary}{_nodes(file, node)}</details>"


def of_tensor(file: _core.File, node: int, path: str, axis_names: tuple[str, ...], hash: str | None) -> str:
    names = f", axes {text(', '.join(axis_names))}" if axis_names else ""
    hashed = f", hash {hash}" if hash else ""
    shown = of_node(file, node, f"<b>{text(path or '(root)')}</b>")
    return shown.removesuffix("</div>") + f"{names}{hashed}</div>"


def of_checkpoint(name: str, file: _core.File | None) -> str:
    """`file` is None of a checkpoint that is closed."""
    title = f"<b>{text(name)}</b>"
    if file is None:
        return f"<div>{title}: closed</div>"
    digest = f"<div>digest {file.digest}</div>" if file.digest else ""
    metadata = of_node(file, file.metadata, "metadata").replace("<details open>", "<details>", 1)
    return f"<div>{of_node(file, file.state, title)}{metadata if file.size(file.metadata) else ''}{digest}</div>"
