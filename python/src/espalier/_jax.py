"""Values of JAX: arrays, typed PRNG keys, and what a program registered with jax.tree_util."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from . import _jax_memory, _registry
from ._errors import EspalierError, Unsupported
from ._frameworks import Leaf, Own, Stored
from ._tree import DICT, DTYPE_NUMBERS, PLACEHOLDER, RECORD, TENSOR, TUPLE, Parts, TensorParts, public_name

# The label of typed PRNG keys goes on with the name of their implementation.
_KEY = "jax.random.key/"
# Dtypes of ml_dtypes that JAX does not have.
_UNKNOWN = ("float6_e2m3fn", "float6_e3m2fn")


def encode(value: Any) -> Parts | None:
    import jax

    if isinstance(value, jax.Array):
        return _array(value) if not is_key(value) else _key(value)
    if isinstance(value, jax.ShapeDtypeStruct):
        return _placeholder(value)
    if isinstance(value, getattr(jax, "Ref", ())):
        raise Unsupported("a jax.Ref; save ref[...], its array")
    found = node(value)
    return None if found is None else node_parts(value, found)


def decode(kind: int, label: str, content: Any) -> Any:
    return _wrapped_key(label, content) if kind == TENSOR and label.startswith(_KEY) else NotImplemented


def tensor(array: Any, label: str | None, axis_names: tuple[str, ...] = ()) -> Any:
    made = put(array)
    if label is not None and label.startswith(_KEY):
        try:
            return _wrapped_key(label, made)
        except (TypeError, ValueError):  # no such key
            return made
    if axis_names and "haliax" in sys.modules:
        from . import _haliax

        return _haliax.named(made, axis_names)
    return made


def put(array: Any, sharding: Any = None) -> Any:
    """A jax.Array of an array of numpy: without a copy on a CPU, if nobody can write to that."""
    import jax

    if array.flags.writeable:
        array = array.copy()
    if array.dtype.name in _UNKNOWN:
        raise Unfit(f'JAX has no elements of dtype {array.dtype}; load with framework="numpy"', array)
    return _unnarrowed(jax.device_put(array, sharding), array.dtype)


def _unnarrowed(made: Any, dtype: Any) -> Any:
    import jax

    # JAX says nothing when it makes 32 bits of 64.
    if made.dtype != dtype:
        message = (
            f"JAX would make {made.dtype} of an array of {dtype} and shape {list(made.shape)}; call "
            'jax.config.update("jax_enable_x64", True), or load with framework="numpy"'
        )
        raise Unfit(message, jax.ShapeDtypeStruct(made.shape, dtype))
    return made


class Unfit(Unsupported):
    """JAX cannot have the array as it is."""

    def __init__(self, message: str, array: Any):
        from . import _dtypes

        super().__init__(message)
        self._spec = _dtypes.name_of(array.dtype), tuple(array.shape)

    def __reduce__(self) -> tuple[object, ...]:
        return Unsupported, (str(self), self.code, self.path, self.offset)

    def is_of(self, stored: Stored) -> bool:
        """Whether it may be the tensor that JAX cannot have."""
        return (stored.dtype, stored.shape) == self._spec


def sharded(stored: Stored, sharding: Any) -> Any:
    import jax

    from . import _dtypes

    parts: dict[Any, Any] = {}

    def part(index: tuple[slice, ...]) -> Any:
        key = tuple((each.start, each.stop) for each in index)
        if key not in parts:
            array = stored[index]
            array.flags.writeable = False
            parts[key] = array
        return parts[key]

    made = jax.make_array_from_callback(stored.shape, sharding, part)
    return _unnarrowed(made, _dtypes.numpy_dtype(stored.dtype))


def placeholder(dtype: str, shape: tuple[int, ...]) -> Any:
    import jax

    from . import _dtypes

    known = _dtypes.numpy_dtype(dtype)
    return NotImplemented if known is None or known.name in _UNKNOWN else jax.ShapeDtypeStruct(shape, known)


def cast(found: str, wanted: str) -> Callable[[Any], Any] | None:
    from . import _dtypes

    target = _dtypes.numpy_dtype(wanted)
    if target is None or _dtypes.numpy_dtype(found) is None:
        return None
    return lambda array: array.astype(target)


def dtype_name(dtype: Any) -> str | None:
    return None  # They are numpy's.


def moving(device: Any, dtype: str | None) -> Callable[[Any], Any]:
    import jax
    import jax.numpy as jnp

    from . import _dtypes

    target = None if dtype is None else _dtypes.numpy_dtype(dtype)
    if dtype is not None and (target is None or target.name in _UNKNOWN):
        raise EspalierError(f"JAX has no dtype for {dtype}")

    def moved(value: Any) -> Any:
        if not isinstance(value, jax.Array):
            return value
        if target is not None and jnp.issubdtype(value.dtype, jnp.floating):
            value = _unnarrowed(value.astype(target), target)
        try:
            return value if device is None else jax.device_put(value, device)
        except (TypeError, ValueError) as error:
            raise EspalierError(f"JAX cannot put an array of shape {list(value.shape)} on {device!r}: {error}") from error

    # A NamedArray of haliax has its array within.
    return lambda value: jax.tree.map(moved, value)


def leaf(template: Any) -> Leaf | None:
    import jax

    if isinstance(template, jax.ShapeDtypeStruct):
        sharding = template.sharding
    elif isinstance(template, jax.core.Tracer):
        # Not Unsupported, for which the template's own value would stay.
        raise EspalierError("the template has a tracer; load outside of jit, grad and vmap")
    elif isinstance(template, jax.Array):
        # A deleted array, such as a donated one, still has its shape, dtype and sharding.
        sharding = template.sharding if template.committed else None
    else:
        return None
    count = _device_count(sharding)
    if count == 0:
        sharding = None

    label, (number, shape) = None, spec_of(template)
    if is_key(template):
        label = _KEY + _implementation(template)

    def convert(value: Any) -> Any:
        import numpy as np

        if label is None:
            # A scalar of numpy is a tensor without axes.
            return put(np.asarray(value), sharding)
        return value if sharding is None else jax.device_put(value, sharding)

    return Leaf(
        dtype=_name(number),
        shape=shape,
        label=label,
        convert=convert,
        kind=("jax", sharding),
        read=(lambda stored: sharded(stored, sharding)) if count > 1 and label is None else None,
    )


def _device_count(sharding: Any) -> int:
    """0 if a sharding does not name devices, as that of an abstract mesh."""
    if sharding is None:
        return 0
    try:
        return len(sharding.device_set)
    except ValueError:
        return 0


def rebuild(template: Any, content: Any) -> Any:
    found = node(template)
    return NotImplemented if found is None else rebuilt(found, content)


# Arrays.


def is_key(value: Any) -> bool:
    import jax

    return bool(jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key))


def _name(number: int) -> str:
    from ._tree import DTYPE_NAMES

    return DTYPE_NAMES[number]


def spec_of(value: Any) -> tuple[int, tuple[int, ...]]:
    """The number of the dtype, and the shape, of what a file has for an array or a ShapeDtypeStruct."""
    import jax

    from . import _dtypes

    if is_key(value):
        value = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct(value.shape, value.dtype))
    name = _dtypes.name_of(value.dtype)
    if name is None:
        raise Unsupported(f"an array of {value.dtype}, which the format has no elements for; convert it with astype()")
    return DTYPE_NUMBERS[name], tuple(value.shape)


def _placeholder(value: Any) -> Parts:
    label = _KEY + _implementation(value) if is_key(value) else None
    return PLACEHOLDER, label, TensorParts(*spec_of(value))


def _array(value: Any) -> Parts:
    import numpy as np

    from ._encode import array_parts

    array, is_private, buffers, is_constant = _on_host(value)
    if array.dtype != value.dtype:  # int1, which becomes bool in numpy
        raise Unsupported(f"an array of {value.dtype}, which the format has no elements for; convert it with astype()")
    kind, label, parts = array_parts(np.asarray(array))
    if not (is_private or parts.is_private):
        return kind, label, parts._replace(is_constant=is_constant)
    tie = ("jax", buffers, str(value.dtype), value.shape)
    return kind, label, parts._replace(is_private=True, tie=tie)


def check_elements(value: Any) -> None:
    """That an array has elements."""
    import jax

    if isinstance(value, jax.core.Tracer):
        raise Unsupported(
            "a tracer, which has no elements yet; save outside of jit, grad and vmap, or from "
            "jax.experimental.io_callback"
        )
    if value.is_deleted():
        raise Unsupported("an array that was deleted, as by donating it to a function; save what the function returned")


def _on_host(value: Any) -> tuple[Any, bool, Any, Callable[[], bool] | None]:
    """The elements in an array of numpy; whether that is a copy, made for this save; where the elements lie; and what tells
    whether nothing changes them. As long as that array lives, JAX reuses its memory for no other, also if this one is donated."""
    import numpy as np

    check_elements(value)
    if not value.is_fully_addressable and not value.is_fully_replicated:
        raise Unsupported(
            "an array with parts in other processes; save with espalier.Checkpointer(folder, distributed=True), or in one process what "
            "jax.experimental.multihost_utils.process_allgather(array, tiled=True) returns"
        )
    if len(value.sharding.device_set) == 1 or value.is_fully_replicated:
        # JAX keeps the copy of an array on a GPU as long as the array that numpy asked, so ask one that ends here.
        data = value.addressable_data(0)
        is_copy = next(iter(data.sharding.device_set)).platform != "cpu"
        return np.asarray(data), is_copy, data.unsafe_buffer_pointer(), functools.partial(_jax_memory.is_own, value, data)
    array = np.empty(value.shape, value.dtype)
    buffers = []
    for shard in value.addressable_shards:
        if shard.replica_id == 0:
            array[shard.index] = np.asarray(shard.data)
            buffers.append((shard.device.id, shard.data.unsafe_buffer_pointer()))
    return array, True, tuple(buffers), None


# Typed keys.


def _implementation(value: Any) -> str:
    import jax

    found: list[Any] = []
    jax.eval_shape(lambda key: found.append(jax.random.key_impl(key)), jax.ShapeDtypeStruct(value.shape, value.dtype))
    if not isinstance(found[0], str):
        raise Unsupported("a PRNG key of an implementation that JAX does not have; save jax.random.key_data() of it")
    return found[0]


def _key(value: Any) -> Parts:
    import jax

    label = _KEY + _implementation(value)
    if not isinstance(value, jax.core.Tracer) and not value.is_deleted():
        value = jax.random.key_data(value)
    kind, _, parts = _array(value)
    return kind, label, parts


def _wrapped_key(label: str, data: Any) -> Any:
    import jax

    name = label.removeprefix(_KEY)
    if name.startswith("_"):
        raise ValueError(f"{name!r} is internal to JAX")
    return jax.random.wrap_key_data(data, impl=name)


# Classes that a program registered with jax.tree_util: Equinox modules, dataclasses of flax and chex, ...


class PyNode(NamedTuple):
    """A value as jax.tree_util has it. What is not a child, such as a static field, comes from a template."""

    keys: list[Any] | None  # None if the class does not name its children
    kind: int
    children: list[Any]
    structure: Any


def node(value: Any) -> PyNode | None:
    """What jax.tree_util makes of a value; None if it is a leaf there, or if others know more of it."""
    import jax

    cls = type(value)
    # JAX gives all fields of a NamedTuple the name of the first.
    if cls in (tuple, list, dict) or value is None or isinstance(value, tuple) and hasattr(cls, "_fields"):
        return None
    # JAX warns of iterators.
    if _registry.of_class(cls) is not None or isinstance(value, Iterator):
        return None
    items, structure = jax.tree_util.tree_flatten_with_path(value, is_leaf=lambda each: each is not value)
    if len(items) == 1 and not items[0][0]:
        return None
    children = [child for _, child in items]
    keys: list[Any] = []
    kinds = set()
    for (key, *_), _ in items:
        if isinstance(key, jax.tree_util.GetAttrKey):
            keys.append(key.name)
            kinds.add(RECORD)
        elif isinstance(key, jax.tree_util.DictKey) and type(key.key) in (str, int):
            keys.append(key.key)
            kinds.add(DICT)
        else:
            kinds.add(TUPLE)
    if len(kinds) > 1 or len(set(keys)) < len(keys) or TUPLE in kinds:
        return PyNode(None, TUPLE, children, structure)
    return PyNode(keys, kinds.pop() if kinds else RECORD, children, structure)


def node_parts(value: Any, found: PyNode) -> Parts:
    label = public_name(type(value))
    children = [_owned(child) for child in found.children]
    if found.keys is None:
        return TUPLE, label, children
    kept = persistent_children(value, found._replace(children=children))
    return found.kind, label, ([key for key, _ in kept], [child for _, child in kept])


def persistent_children(value: Any, found: PyNode) -> list[tuple[Any, Any]]:
    """The children with their keys, or positions, but for those whose field says that they are not persistent."""
    left_out = _not_persistent(value)
    keys = range(len(found.children)) if found.keys is None else found.keys
    return [(key, child) for key, child in zip(keys, found.children, strict=True) if key not in left_out]


def rebuilt(found: PyNode, content: Any) -> Any:
    import jax

    if found.keys is not None:
        # What a file does not have is the template's.
        content = [content.get(key, child) for key, child in zip(found.keys, found.children, strict=True)]
    return jax.tree_util.tree_unflatten(found.structure, [_disowned(child) for child in content])


def _not_persistent(value: Any) -> set[str]:
    if not dataclasses.is_dataclass(value):
        return set()
    return {field.name for field in dataclasses.fields(value) if field.metadata.get("persistent") is False}


def _owned(child: Any) -> Any:
    """The same with functions in it as Own."""
    if type(child) in (tuple, list):
        return type(child)(_owned(each) for each in child)
    if type(child) is dict:
        return {key: _owned(each) for key, each in child.items()}
    return Own(_name_of_code(child), child) if _is_code(child) else child


def _disowned(child: Any) -> Any:
    """The reverse, for lists that the file does not have."""
    if type(child) in (tuple, list):
        return type(child)(_disowned(each) for each in child)
    if type(child) is dict:
        return {key: _disowned(each) for key, each in child.items()}
    return child.value if type(child) is Own else child


def _is_code(value: Any) -> bool:
    """Whether a file has only the name of a value: a function, or what Equinox has in the place of a shared one."""
    # It marks a place that eqx.nn.Shared fills from another one, and has no data.
    if type(value).__name__ == "SharedNode" and type(value).__module__.startswith("equinox.nn."):
        return True
    if not callable(value) or dataclasses.is_dataclass(value) and not isinstance(value, type):
        return False
    return _registry.of_class(type(value)) is None and not hasattr(value, "state_dict") and node(value) is None


def _argument(value: Any) -> str:
    return repr(value) if type(value) in (bool, int, float, str, type(None)) else _name_of_code(value)


def _name_of_code(value: Any) -> str:
    """The name under which users import a function: "jax.nn.relu", not "jax._src.nn.functions.relu"."""
    if isinstance(value, functools.partial):
        given = [*map(_argument, value.args), *(f"{name}={_argument(each)}" for name, each in value.keywords.items())]
        return f"functools.partial({', '.join([_name_of_code(value.func), *given])})"
    module = getattr(value, "__module__", None) or "builtins"
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if name is None:
        return public_name(type(value))
    if module == "builtins":
        return str(name)
    parts = [part for part in module.split(".") if not part.startswith("_")]
    for length in range(1, len(parts) + 1):
        public = ".".join(parts[:length])
        if getattr(sys.modules.get(public), name, None) is value:
            return f"{public}.{name}"
    return f"{module}.{name}"
