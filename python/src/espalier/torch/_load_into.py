"""load_into(): fills modules, optimizers and the like from a file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any, Literal

import torch

from .. import _core
from .._checkpoint import Checkpoint
from .._errors import EspalierError
from .._like import ANY, WRAPPERS, Matcher, Mismatch, Strict
from .._options import Check, Path, checks_hashes
from .._progress import Progress
from .._torch import by_number, local_part
from .._tree import DICT, DTYPE_NAMES, RECORD, below

# What a module's state_dict() has under names of this ending is any object that its set_extra_state() takes.
_EXTRA = "_extra_state"
# What the optimizers of torch keep for each parameter, element by element.
_OF_THE_PARAMETER_S_SHAPE = (
    "acc_delta", "ax", "exp_avg", "exp_avg_sq", "exp_inf", "grad_avg", "max_exp_avg_sq", "momentum_buffer", "prev", "square_avg",
    "step_size", "sum",
)  # fmt: skip


def load_into(
    objects: Any,
    path: Path | Checkpoint,
    *,
    at: str | None = None,
    strict: Strict = True,
    assign: bool | None = None,
    cast: Literal["float"] | None = None,
    check: Check = "hashes",
    mapped: bool = True,
    progress: Progress = None,
    threads: int = 0,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """Fills live objects from a file, and returns what else the file has.

    `path` may also be an open checkpoint, such as espalier.map() makes: `mapped`, `threads` and `storage_options` are then those
    that it was opened with. `objects` is a module, an optimizer, a tensor, or anything else that has load_state_dict(); or dicts and lists of these,
    as they were saved: `load_into({"model": model, "optimizer": optimizer}, path)`. What the file has beside them, such as
    a step, is the result: a dict, as load(framework="torch") gives it, in which elements of lists have their positions as
    keys.

    A module must find each of its tensors with the same dtype and shape, and no others; one that it ties to another, such as
    lm_head.weight to the embedding, may be missing. TreeMismatch lists all that differs, and then no object was changed. `strict="template"` lets the file have more for a module, `strict="file"` less;
    with `strict=False` the result is the rest and an espalier.Ledger. `cast="float"` converts floats. Other objects take
    what the file has for them and check it themselves: an optimizer needs no state yet, but as many parameters, and groups
    with what its class keeps. The file's tensors for a parameter must have the shapes of those that the optimizer has; before
    its first step, this is known of torch's own optimizers alone. If both have names of parameters (`param_names`, which
    `named_parameters()` gives), those of one number must be the same but for the wrappers of DDP, FSDP and compile(). An error of an object's own load_state_dict() or
    set_extra_state() passes through as it is; what was filled before it keeps what it got.

    Tensors are copied into those of a module. With `assign` they take their place, as they must in modules on the device
    "meta", where it is the default: their memory is then the page cache of the file until they are written to. Ctrl-C ends
    the read before any object changes; `progress` is that of load(). A path with "://" is a URL, as open() says.
    """
    if isinstance(objects, (str, bytes, os.PathLike)):
        raise TypeError("the objects come first: load_into(objects, path)")
    with contextlib.ExitStack() as opened:
        if isinstance(path, Checkpoint):
            checkpoint = path
            checkpoint._check_data()
        else:
            checkpoint = opened.enter_context(
                Checkpoint(path, mapped=mapped, threads=threads, storage_options=storage_options)
            )
        file = checkpoint._opened
        node, where = (file.state, "") if at is None else checkpoint._find_path(file.state, at)
        matcher = Matcher(checkpoint, "exact", cast, "torch")
        template = _Planner(file, matcher, strict, bool(assign)).plan(node, where, objects)
        loaded = matcher.load(node, where, template, strict, checks_hashes(check), progress, 3)
    # Modules come last: theirs cannot fail any more.
    _fill(objects, loaded, template, where, assign, of_modules=False)
    rest = _fill(objects, loaded, template, where, assign, of_modules=True)
    if rest is _TAKEN:
        rest = {}
    return rest if strict else (rest, matcher.ledger)


class _Planner:
    """Makes the template for live objects."""

    def __init__(self, file: _core.File, matcher: Matcher, strict: Strict, assign: bool):
        self._file = file
        self._matcher = matcher
        self._strict = strict
        self._assign = assign
        # By memory: the path of the first target there, what the file has for it, and its node.
        self._first: dict[Any, tuple[str, Any, int]] = {}

    def plan(self, node: int | None, path: str, objects: Any) -> Any:
        if isinstance(objects, torch.nn.Module):
            if node is not None:
                self._check_ties(node, path, objects)
            state = objects.state_dict()
            for name in self._missing_twins(node, objects):
                del state[name]
            for prefix, each in objects.named_modules(remove_duplicate=False):
                if type(each).get_extra_state is not torch.nn.Module.get_extra_state:
                    state[f"{prefix}.{_EXTRA}" if prefix else _EXTRA] = ANY
            return state
        if isinstance(objects, torch.optim.Optimizer):
            self._check_names(node, path, objects)
            self._check_states(node, path, objects)
            return self._optimizer(node, objects)
        if hasattr(objects, "load_state_dict"):
            return ANY
        if isinstance(objects, torch.Tensor):
            if objects.is_meta:
                raise EspalierError(f"{path or 'the root'}: a tensor on meta has no memory to load into", path=path)
            self._check_writable(path, objects)
            if node is not None and local_part(objects).numel():
                self._check_tie(node, path, _memory_of(objects))
            return objects.detach()
        if isinstance(objects, dict) and all(type(key) in (str, int) for key in objects):
            children = self._children(node)
            plan = {key: self.plan(children.get(key), below(path, key), value) for key, value in objects.items()}
            return {**plan, **{key: ANY for key in children if key not in plan}}
        if type(objects) in (list, tuple):
            children = self._children(node)
            return type(objects)(self.plan(children.get(i), below(path, i), value) for i, value in enumerate(objects))
        raise EspalierError(
            f"{path or 'the root'}: nothing can be loaded into a {type(objects).__name__}; leave it out, and take it from "
            "the result",
            path=path,
        )

    def _optimizer(self, node: int | None, optimizer: torch.optim.Optimizer) -> Any:
        """That the file's is of as many parameters, and has what this class keeps of each group: else it would fail in the
        middle, or later. Its state need not exist yet."""
        template: dict[str, Any] = optimizer.state_dict()
        there = self._children(self._children(node).get("param_groups"))
        groups = []
        for i, group in enumerate(template["param_groups"]):
            own = {key: value if key == "params" else ANY for key, value in group.items()}
            children = self._children(there.get(i))
            # More may come of a scheduler. But where something is missing, it is another optimizer, and both are told.
            if self._strict is True and any(key not in children for key in own):
                children = {}
            groups.append({**own, **{key: ANY for key in children if key not in own}})
        others = {key: ANY for key in [*template, *self._children(node)]}
        return {**others, **self._sharded_states(node, optimizer), "param_groups": groups}

    def _sharded_states(self, node: int | None, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """For parameters of which this process has a part: templates of what the file keeps in their shapes, so that no more of
        it is read. Empty without such parameters."""
        parameters = [each for group in optimizer.param_groups for each in group["params"]]
        if all(local_part(each) is each for each in parameters):
            return {}
        there = self._children(node)
        groups = self._children(there.get("param_groups")).values()
        places = [place for group in groups for place in self._children(self._children(group).get("params")).values()]
        numbers = {self._file.load(place, False, False): each for place, each in zip(places, parameters, strict=False)}
        by_text = {str(number): each for number, each in numbers.items()}
        states: dict[Any, Any] = {}
        for number, state in self._children(there.get("state")).items():
            parameter = by_text.get(str(number))
            kept = self._children(state)
            states[number] = {name: ANY if parameter is None else self._like(each, parameter) for name, each in kept.items()}
        return {"state": states} if states else {}

    def _like(self, node: int, parameter: torch.Tensor) -> Any:
        """A template for a tensor of the file that lies over the processes as a parameter does; ANY for others."""
        about = self._file.array(node)
        dtype = None if about is None else by_number()[about[1]]
        if about is None or dtype is None or tuple(about[2]) != tuple(parameter.shape):
            return ANY
        return torch.empty_like(parameter, dtype=dtype, device="meta", requires_grad=False)

    def _check_names(self, node: int | None, path: str, optimizer: torch.optim.Optimizer) -> None:
        """That parameters of the same number have the same name, where both sides have names: torch goes by the numbers alone, so
        each would get the state of another one if the module has its parameters in another order."""
        groups = self._children(self._children(node).get("param_groups"))
        for i, group in enumerate(optimizer.param_groups):
            there = self._children(groups.get(i)).get("param_names")
            own = group.get("param_names")
            kept = None if there is None else self._file.load(there, False, False)
            if not isinstance(kept, (list, tuple)) or not isinstance(own, (list, tuple)):
                continue
            where = below(below(below(path, "param_groups"), i), "param_names")
            differ = (pair for pair in enumerate(zip(own, kept, strict=False)) if _unwrapped(pair[1][0]) != _unwrapped(pair[1][1]))
            if (first := next(differ, None)) is not None:
                number, (mine, other) = first
                self._matcher.ledger.mismatched.append(Mismatch(below(where, number), repr(mine), repr(other)))

    def _check_states(self, node: int | None, path: str, optimizer: torch.optim.Optimizer) -> None:
        """That what the file keeps for a parameter has the shapes that it needs: torch takes any."""
        there = self._children(node)
        states, groups = self._children(there.get("state")), self._children(there.get("param_groups"))
        for i, group in enumerate(optimizer.param_groups if states else ()):
            numbers = self._children(self._children(groups.get(i)).get("params"))
            for parameter, place in zip(group["params"], numbers.values(), strict=False):  # The matcher compares how many.
                number = self._file.load(place, False, False)
                if type(number) not in (int, str):
                    continue
                found = number if number in states else str(number)
                wanted = _state_shapes(optimizer, parameter)
                for name, each in self._children(states.get(found)).items():
                    about = self._file.array(each) if name in wanted else None
                    if about is not None and about[2] != wanted[name]:
                        where = below(below(below(path, "state"), found), name)
                        kept = f"{DTYPE_NAMES[about[1]]} {list(about[2])}"
                        self._matcher.ledger.mismatched.append(Mismatch(where, f"{list(wanted[name])}", kept))

    def _children(self, node: int | None) -> dict[Any, int]:
        if node is None or not DICT <= self._file.kind(node) <= RECORD:
            return {}
        keys: list[Any] = self._file.keys(node)
        return dict(zip(keys, self._file.children(node), strict=True))

    def _missing_twins(self, node: int | None, module: torch.nn.Module) -> list[str]:
        """The names that the file lacks of parameters that it has under another name."""
        children = self._children(node)
        names_of = _names_of(module).values()
        return [name for names in names_of if not children.keys().isdisjoint(names) for name in names if name not in children]

    def _check_ties(self, node: int, path: str, module: torch.nn.Module) -> None:
        """That tensors which are one in the module are equal in the file: else the last of them would win in silence."""
        children = self._children(node)
        # On meta, tensors have no address.
        parameters = {name: id(each) for name, each in module.named_parameters(remove_duplicate=False)}
        for name, value in module.state_dict().items():
            there = children.get(name)
            if not isinstance(value, torch.Tensor) or there is None or local_part(value).numel() == 0:
                continue
            if value.is_meta and name not in parameters:
                continue
            if not self._assign:
                self._check_writable(below(path, name), value)
            self._check_tie(there, below(path, name), parameters[name] if value.is_meta else _memory_of(value))

    def _check_tie(self, node: int, path: str, same: Any) -> None:
        try:
            parts = self._file.tensor(node)
        except TypeError:  # not a tensor, which the matcher reports
            return
        content = parts[8] or parts[0]  # its hash, or its number
        other, before, first = self._first.setdefault(same, (path, content, node))
        if before != content and (parts[8] is not None or not self._are_equal(first, node)):
            self._matcher.ledger.mismatched.append(Mismatch(path, f"the same tensor as {other}", "another tensor"))

    def _are_equal(self, one: int, other: int) -> bool:
        """Of tensors without hashes, by their bytes."""
        about, others = self._file.array(one), self._file.array(other)
        if about is None or others is None or about[1:] != others[1:]:
            return False
        first, second = (self._file.load(each, False, False) for each in (one, other))
        return bool(first.tobytes() == second.tobytes())

    def _check_writable(self, path: str, tensor: torch.Tensor) -> None:
        """torch refuses to write to these once other tensors have changed."""
        is_expanded = any(size > 1 and step == 0 for size, step in zip(tensor.shape, tensor.stride(), strict=True))
        if not tensor.is_meta and (is_expanded or tensor.is_inference()):
            what = "is expanded" if is_expanded else "was made in inference mode"
            raise EspalierError(f"{path or 'the root'}: the tensor {what}, so nothing can be loaded into it; clone() it first", path=path)


def _unwrapped(name: object) -> str:
    """The name of a parameter without what torch's wrappers put into it."""
    return ".".join(part for part in str(name).split(".") if part not in WRAPPERS)


def _memory_of(tensor: torch.Tensor) -> Any:
    tensor = local_part(tensor)
    return tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


def _state_shapes(optimizer: torch.optim.Optimizer, parameter: torch.Tensor) -> dict[str, tuple[int, ...]]:
    """The shapes of the tensors that an optimizer keeps for a parameter, as far as they are known: those of the state that it
    has, or, before its first step, those of torch's own classes, which have the parameter's shape. Others may keep any."""
    kept = optimizer.state.get(parameter)
    if isinstance(kept, Mapping) and kept:
        return {name: tuple(value.shape) for name, value in kept.items() if isinstance(value, torch.Tensor)}
    is_of_torch = f"{type(optimizer).__module__}.".startswith("torch.optim.")
    return dict.fromkeys(_OF_THE_PARAMETER_S_SHAPE, tuple(parameter.shape)) if is_of_torch else {}


_TAKEN = object()  # All of it went into the objects.


def _fill(objects: Any, loaded: Any, template: Any, path: str, assign: bool | None, of_modules: bool) -> Any:
    """Gives modules, or all other live objects, what was loaded for them. Returns the rest."""
    if isinstance(objects, torch.nn.Module):
        if of_modules and loaded is not template:
            _fill_module(objects, {name: value for name, value in loaded.items() if value is not ANY}, assign)
    elif hasattr(objects, "load_state_dict"):
        if not of_modules and loaded is not ANY and loaded is not template:
            if isinstance(objects, torch.optim.Optimizer):
                loaded = _with_numbers(loaded, path)
            if isinstance(objects, torch.optim.lr_scheduler.LRScheduler):
                _check_attributes(objects, loaded, path)
            try:
                objects.load_state_dict(loaded)
            except Exception as error:
                raise EspalierError(
                    f"{path or 'the root'}: {type(objects).__name__} refuses what the file has for it ({error!r}); it may have "
                    "changed, and so may other objects, but no module",
                    path=path,
                ) from error
    elif isinstance(objects, torch.Tensor):
        if of_modules and loaded is not template:
            with torch.no_grad():
                objects.copy_(loaded)
    elif isinstance(loaded, dict):
        rest = {key: loaded[key] for key in loaded if key not in objects}
        return _fill_all(objects, loaded, template, rest, path, assign, of_modules)
    else:
        pairs = [dict(enumerate(each)) for each in (objects, loaded, template)]
        return _fill_all(pairs[0], pairs[1], pairs[2], {}, path, assign, of_modules)
    return _TAKEN


def _check_attributes(scheduler: Any, state: Any, path: str) -> None:
    """Schedulers of torch take every key as an attribute: a hostile file would replace their optimizer and methods."""
    for key in state if isinstance(state, dict) else ():
        if not isinstance(key, str) or key in ("optimizer", "__class__") or callable(getattr(type(scheduler), key, None)):
            raise EspalierError(f"{below(path, key)}: no {type(scheduler).__name__} saves that; the file is damaged, or hostile", path=path)


def _with_numbers(state: dict[str, Any], path: str) -> dict[str, Any]:
    """With the numbers of parameters as torch has them: in files of torch.distributed.checkpoint they are texts, which an
    optimizer would take for no parameters of its own, and drop what it had."""
    kept = state.get("state")
    if not isinstance(kept, dict) or not kept:
        return state
    numbers = {number for group in state["param_groups"] for number in group["params"]}
    made = {int(key) if isinstance(key, str) and key.isascii() and key.isdecimal() else key: value for key, value in kept.items()}
    if numbers and not numbers & made.keys():
        raise EspalierError(
            f"{below(path, 'state')}: what the file keeps for each parameter is under {next(iter(made))!r} and the like, which "
            "are no parameters of the groups; load it with load(), and give it the optimizer's own keys",
            path=below(path, "state"),
        )
    return {**state, "state": made}


def _fill_all(
    objects: Any, loaded: Any, template: Any, rest: Any, path: str, assign: bool | None, of_modules: bool
) -> Any:
    for key, value in objects.items():
        inside = _fill(value, loaded[key], template[key], below(path, key), assign, of_modules)
        if inside is not _TAKEN:
            rest[key] = inside
    return rest or _TAKEN


def _names_of(module: torch.nn.Module) -> dict[torch.nn.Parameter, list[str]]:
    """The names of each parameter: several of one that is tied."""
    names_of: dict[torch.nn.Parameter, list[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names_of.setdefault(parameter, []).append(name)
    return names_of


def _fill_module(module: torch.nn.Module, state: dict[str, Any], assign: bool | None) -> None:
    if assign is None:
        assign = any(value.is_meta for value in (*module.parameters(), *module.buffers()))
    names_of = _names_of(module)
    # torch 2.0 has no `assign`.
    module.load_state_dict(state, strict=False, **({"assign": True} if assign else {}))
    if not assign:
        return
    # torch assigns a new parameter to each name. Ties and optimizers need the ones that were there.
    for before, names in names_of.items():
        made = module.get_parameter(next((name for name in names if name in state), names[0]))
        if made is before:
            continue
        torch.utils.swap_tensors(before, made)
        for name in names:
            owner, _, attribute = name.rpartition(".")
            setattr(module.get_submodule(owner), attribute, before)
