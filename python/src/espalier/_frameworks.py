"""The frameworks whose values the package knows, each by a module of its own: an adapter.

An adapter is used once the program has imported its framework. Nothing is imported for the sake of a value, and least of
all for the sake of a file.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from ._errors import EspalierError
from ._tree import STRING, Parts

Framework = Literal["numpy", "torch", "jax"]


class Stored(Protocol):
    """A tensor in a file, as far as adapters know it: the package's Tensor."""

    @property
    def dtype(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __getitem__(self, index: Any) -> Any:
        """The elements at slices, as an array of numpy."""

    def sliced(self, index: Any, framework: Framework) -> Any:
        """The same as an array of a framework."""


class Leaf(NamedTuple):
    """What a template has in the place of a tensor."""

    dtype: str
    shape: tuple[int, ...]
    axis_names: tuple[str, ...] = ()
    label: str | None = None
    """The label of a tensor that is more than an array of its dtype, such as a date."""
    framework: Framework = "numpy"
    """Whose arrays the file's tensor is loaded as."""
    convert: Callable[[Any], Any] = lambda array: array
    """Makes the template's value of such an array."""
    kind: Hashable = None
    """Leaves of one kind are given one object for a tensor that is at both places; those of None each its own."""
    read: Callable[[Stored], Any] | None = None
    """Makes the template's value of the tensor in the file, instead: by slices, for a part of it."""
    level: str | int | None = None
    """The one key that other libraries have between this place and its tensor."""


class Own(NamedTuple):
    """Code in a template, such as an activation function: a file has its name, and it stays the template's own."""

    name: str
    value: Any

    def is_named(self, other: str) -> bool:
        """Whether a file's name is that of the same code. The program that saved it may have been another one."""
        if self.name.startswith("__main__.") or other.startswith("__main__."):
            return self.name.rpartition(".")[2] == other.rpartition(".")[2]
        return self.name == other


class Values(Protocol):
    """What is known of the values of a package."""

    def encode(self, value: Any) -> Parts | None:
        """What to save for a value; None if it is none of the framework's."""

    def decode(self, kind: int, label: str, content: Any) -> Any:
        """The value of a label of the framework; NotImplemented for others. ValueError or TypeError if it is no such."""

    def leaf(self, template: Any) -> Leaf | None:
        """What an array of the framework in a template stands for; None if it is none."""

    def rebuild(self, template: Any, content: Any) -> Any:
        """A container like the template, of a dict or list of new children; NotImplemented for others."""


class Adapter(Values, Protocol):
    """What is known of a framework."""

    def tensor(self, array: Any, label: str | None, axis_names: tuple[str, ...]) -> Any:
        """The framework's array for one that was loaded: of numpy, or of the framework if the core makes these."""

    def cast(self, found: str, wanted: str) -> Callable[[Any], Any] | None:
        """What converts arrays from one dtype to another; None if the framework has not both."""

    def moving(self, device: Any, dtype: str | None) -> Callable[[Any], Any]:
        """What moves arrays to a device, and converts those of floats; EspalierError if the framework has not both."""

    def dtype_name(self, dtype: Any) -> str | None:
        """The format's name of a dtype of the framework; None if it is none."""

    def sharded(self, stored: Stored, sharding: Any) -> Any:
        """An array over several devices: reads the parts for this process's, each part once. TypeError if the framework has
        no such arrays.
        """

    def placeholder(self, dtype: str, shape: tuple[int, ...]) -> Any:
        """The framework's array without data; NotImplemented if it has none of such elements."""


_adapters: dict[str, Adapter] = {}
_packages: dict[str, Values] = {}
_MODULES = {"torch": "_torch", "jax": "_jax"}
# Packages on top of the frameworks. They come first, and the more special ones of them before the others.
_PACKAGES = {"haliax": "_haliax", "flax": "_flax", "equinox": "_equinox"}
CODE = "callable"  # the label of Own


def adapter(framework: str) -> Adapter:
    """The adapter that makes arrays of a framework that the program asked for by name, and so imports."""
    if framework in _adapters:
        return _adapters[framework]
    if framework not in _MODULES:
        raise EspalierError(f'framework must be "numpy", {", ".join(map(repr, _MODULES))}, not {framework!r}')
    module: Any = importlib.import_module(f".{_MODULES[framework]}", __package__)
    made: Adapter = module
    return _adapters.setdefault(framework, made)


def _package(name: str) -> Values:
    if name in _packages:
        return _packages[name]
    module: Any = importlib.import_module(f".{_PACKAGES[name]}", __package__)
    made: Values = module
    return _packages.setdefault(name, made)


def imported() -> list[Values]:
    """Those of the packages and frameworks that the program has imported."""
    packages = [_package(name) for name in _PACKAGES if name in sys.modules]
    return packages + [adapter(name) for name in _MODULES if name in sys.modules]


def cast(framework: str, found: str, wanted: str) -> Callable[[Any], Any] | None:
    """What converts arrays of a framework from one dtype to another; None if nothing does."""
    if framework != "numpy":
        return adapter(framework).cast(found, wanted)
    from . import _dtypes

    target = _dtypes.numpy_dtype(wanted)
    if target is None or _dtypes.numpy_dtype(found) is None:
        return None
    return lambda array: array.astype(target)


def dtype_name(dtype: Any) -> str | None:
    """The format's name of a dtype, of numpy or of a framework that the program has imported."""
    for name in _MODULES:
        if name in sys.modules and (found := adapter(name).dtype_name(dtype)) is not None:
            return found
    import numpy as np

    from . import _dtypes

    try:
        return _dtypes.name_of(np.dtype(dtype))
    except TypeError:
        return None


def encode(value: Any) -> Parts | None:
    if type(value) is Own:
        return STRING, CODE, value.name
    for each in imported():
        parts = each.encode(value)
        if parts is not None:
            return parts
    return None


def decode(kind: int, label: str, content: Any) -> Any:
    for each in imported():
        value = each.decode(kind, label, content)
        if value is not NotImplemented:
            return value
    return NotImplemented


def leaf(template: Any, known: Sequence[Values] | None = None) -> Leaf | None:
    """What an array stands for, of any framework. `known` is imported(), for callers that ask for many."""
    for each in imported() if known is None else known:
        found = each.leaf(template)
        if found is not None:
            return found
    return None


def rebuild(template: Any, content: Any) -> Any:
    for each in imported():
        value = each.rebuild(template, content)
        if value is not NotImplemented:
            return value
    return NotImplemented
