"""The interface of safetensors.torch, compared with safetensors itself."""

import inspect

import espalier
import espalier.compat.safetensors as ours
import numpy as np
import pytest

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors")
import espalier.compat.safetensors.torch as our_torch  # noqa: E402
import safetensors.torch as their_torch  # noqa: E402
from test_compat_safetensors import LISTS  # noqa: E402
from test_torch import DTYPES, same, tensor_of  # noqa: E402
from torch import nn  # noqa: E402


def many():
    made = {f"layer.{i}": tensor_of(dtype, 2, 4) for i, dtype in enumerate(DTYPES) if dtype != torch.complex128}
    return {**made, "none": torch.zeros(0, 3), "parameter": nn.Parameter(torch.ones(2)), "one": torch.tensor(1.5)}


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.b = nn.Linear(3, 3)
        self.a = nn.Linear(3, 3)
        self.a.weight = self.b.weight
        self.register_buffer("turned", torch.arange(6.0).reshape(2, 3).T)


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}, {}], ids=str)
def test_files_are_byte_for_byte_those_of_safetensors(tmp_path, metadata):
    assert our_torch.save(many(), metadata) == their_torch.save(many(), metadata)
    our_torch.save_file(many(), tmp_path / "x.safetensors", metadata)
    assert (tmp_path / "x.safetensors").read_bytes() == their_torch.save(many(), metadata)


@pytest.mark.parametrize("of", ["x.safetensors", "x.espalier"])
def test_reading_is_that_of_safetensors(tmp_path, of):
    their_torch.save_file(many(), tmp_path / "x.safetensors")
    our_torch.save_file(many(), tmp_path / "x.espalier")
    loaded = our_torch.load_file(tmp_path / of)
    with safetensors.safe_open(tmp_path / "x.safetensors", "pt") as theirs, ours.safe_open(tmp_path / of, "pt") as file:
        assert file.keys() == theirs.keys()
        for name in theirs.keys():
            assert same(file.get_tensor(name), theirs.get_tensor(name)) and same(loaded[name], theirs.get_tensor(name))
            assert file.get_slice(name).get_dtype() == theirs.get_slice(name).get_dtype()
            if "4" not in str(loaded[name].dtype) and loaded[name].numel() > 1:  # f4: safetensors does not slice it
                mine, other = file.get_slice(name), theirs.get_slice(name)
                for index in (0, slice(0, 1), ..., -1):
                    assert same(mine[index], other[index]), (name, index)
    loaded["one"] += 1
    data = (tmp_path / of).read_bytes()
    again = our_torch.load(data)
    again["one"] += 1
    assert again["one"] == loaded["one"] == 2.5 and data == (tmp_path / of).read_bytes()


def test_slices_by_lists_are_those_of_torch(tmp_path):
    made = {f"{dtype}": tensor_of(dtype, 3, 4, 5) for dtype in (torch.float32, torch.bfloat16, torch.bool, torch.int8)}
    our_torch.save_file(made, tmp_path / "x.safetensors")
    with ours.safe_open(tmp_path / "x.safetensors", "pt") as file:
        for name, tensor in made.items():
            part = file.get_slice(name)
            for index in LISTS:
                index = index.tolist() if isinstance(index, np.ndarray) else index
                assert same(part[index], tensor[index if isinstance(index, tuple) else (index,)]), index
            for index in (5, [3], ([0, 1], [0, 1, 2])):
                with pytest.raises(IndexError):
                    part[index]


NEW_AXES = [
    None, (None, 1), (slice(None), None), (1, None), (None, None), (..., None), (None, slice(None), None), (None, [0, 2]),
    (None, slice(0, 2), None, 1), (slice(1, 99), None), (slice(0, 2), ..., None, -1), (slice(7, 9), None), ([1], None, [0]),
]  # fmt: skip


@pytest.mark.parametrize("index", NEW_AXES, ids=repr)
def test_new_axes_are_those_of_safetensors(tmp_path, index):
    their_torch.save_file({"w": torch.arange(24.0).reshape(4, 3, 2)}, tmp_path / "x.safetensors")
    with safetensors.safe_open(tmp_path / "x.safetensors", "pt") as theirs, ours.safe_open(tmp_path / "x.safetensors", "pt") as file:
        assert same(file.get_slice("w")[index], theirs.get_slice("w")[index])


def test_deserialize():
    data = our_torch.save(many())
    assert dict(ours.deserialize(data)) == dict(safetensors.deserialize(data))  # theirs in any order


def test_what_other_libraries_import():
    assert our_torch.safe_open is ours.safe_open
    x, y = torch.zeros(4, 4), torch.ones(3)
    tensors = {
        "part": torch.ones(9)[2:5], "strided": torch.ones(16)[::4], "whole": x, "again": x, "row": x[0], "other": y,
        "none": torch.zeros(0), "no row": x[:0], "meta": x.to("meta"), "parameter": nn.Parameter(y),
        "start": torch.empty(0).set_(x.untyped_storage()[:16], 0, (4,)),  # of a storage of its own, at the same address
    }  # fmt: skip
    for name, tensor in tensors.items():
        for function in ("storage_ptr", "storage_size", "_is_complete", "_end_ptr"):
            if name == "meta" and function in ("storage_ptr", "_end_ptr"):
                continue
            assert getattr(our_torch, function)(tensor) == getattr(their_torch, function)(tensor), (name, function)

    def ordered(sets):
        return sorted(sorted(names) for names in sets)

    assert ordered(our_torch._find_shared_tensors(tensors)) == ordered(their_torch._find_shared_tensors(tensors))
    assert our_torch._find_shared_tensors({"b": x[:2], "c": x[2:], "a": x[:1]}) == [{"a", "b"}, {"c"}]
    for partial in ("part", "strided"):
        with pytest.raises(RuntimeError):
            our_torch._remove_duplicate_names({partial: tensors.pop(partial)})
    del tensors["no row"]
    for options in (
        {}, {"preferred_names": ["whole"]}, {"discard_names": ["again"]}, {"discard_names": ["again", "whole"]},
        {"preferred_names": ["row", "whole"], "discard_names": ["whole", "other"]},
    ):  # fmt: skip
        mine, theirs = (module._remove_duplicate_names(tensors, **options) for module in (our_torch, their_torch))
        assert mine == theirs, options
    with pytest.raises(RuntimeError):
        our_torch._remove_duplicate_names({"a": x[0], "b": x[0]})


def test_devices(tmp_path):
    our_torch.save_file({"a": torch.ones(2)}, tmp_path / "x.safetensors")
    for device in ("cpu", torch.device("cpu")):
        assert our_torch.load_file(tmp_path / "x.safetensors", device=device)["a"].device.type == "cpu"
    with pytest.raises(ours.SafetensorError, match="nonsense"):
        ours.safe_open(tmp_path / "x.safetensors", "pt", device="nonsense")


def test_what_is_saved_by_espalier_opens_as_plain_tensors(file):
    espalier.save(file, {"layer": nn.Linear(2, 3), "step": 3})
    loaded = our_torch.load_file(file)
    assert loaded.keys() == {"layer.weight", "layer.bias"}
    assert all(type(tensor) is torch.Tensor and not tensor.requires_grad for tensor in loaded.values())


def test_refusals_are_of_the_same_kinds():
    x = torch.zeros(3, 4)
    for refused in (
        {"a": x, "b": x}, {"a": x, "b": x[1]}, {"a": x.T}, {"a": x[:, :2]}, {"a": 1}, [x], {"a": x.to_sparse()},
    ):  # fmt: skip
        with pytest.raises((RuntimeError, ValueError)) as theirs:
            their_torch.save(refused)
        with pytest.raises(theirs.type):
            our_torch.save(refused)
    assert our_torch.save({"a": x[0], "b": x[1]}) == their_torch.save({"a": x[0], "b": x[1]})
    for refused in ({"a": x.to("meta")}, {"a": torch.zeros(2, dtype=torch.complex128)}):
        with pytest.raises(espalier.Unsupported):
            our_torch.save(refused)
    with pytest.raises(RuntimeError, match="'a': Cannot copy out of meta tensor"):
        our_torch.save({"a": x.to("meta")})


@pytest.mark.parametrize("metadata", [None, {"b.weight": "mine"}], ids=str)
def test_models_are_saved_and_loaded_as_safetensors_does(tmp_path, metadata):
    path, other = tmp_path / "x.safetensors", tmp_path / "y.safetensors"
    model = Tied()
    our_torch.save_model(model, path, metadata)
    their_torch.save_model(model, other, None if metadata is None else dict(metadata))
    assert path.read_bytes() == other.read_bytes()
    for load in (our_torch.load_model, their_torch.load_model):
        fresh = Tied()
        assert load(fresh, path) == (set(), [])
        assert same(fresh.state_dict(), model.state_dict()) and fresh.a.weight is fresh.b.weight
    with pytest.raises(ValueError, match=r"'turned' is not contiguous; use save_model\(..., force_contiguous=True\)"):
        our_torch.save_model(model, path, force_contiguous=False)
    linear = nn.Linear(3, 3)
    missing = r'Missing key\(s\) in state_dict: "bias", "weight"\s+Unexpected key\(s\) .*"turned"'
    with pytest.raises(RuntimeError, match=missing):
        our_torch.load_model(linear, path)
    mine, theirs = (
        load(nn.Linear(3, 3), path, strict=False) for load in (our_torch.load_model, their_torch.load_model)
    )
    assert mine == theirs and mine[0] == {"weight", "bias"}


def test_signatures_are_those_of_safetensors():
    for name in ("save", "save_file", "load", "load_file", "save_model", "load_model"):
        mine, theirs = (inspect.signature(getattr(module, name)) for module in (our_torch, their_torch))
        assert [(p.name, p.kind, p.default) for p in mine.parameters.values()] == [
            (p.name, p.kind, p.default) for p in theirs.parameters.values()
        ]
