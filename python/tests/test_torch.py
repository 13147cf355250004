"""PyTorch: tensors, parameters and live objects, saved and loaded."""

import argparse
import collections
import copy
import gc
import pathlib

import espalier
import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

DTYPES = [
    torch.bool, torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64, torch.uint64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128, torch.float8_e4m3fn,
    torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu, torch.float4_e2m1fn_x2,
]  # fmt: skip


def tensor_of(dtype, *shape):
    count = torch.empty(shape, dtype=dtype, device="meta").nbytes
    flat = torch.arange(count, dtype=torch.int64).to(torch.uint8)
    return (flat % 2 if dtype == torch.bool else flat).view(dtype).reshape(shape)


def same(a, b):
    """The same type, dtype, shape and bytes."""
    if isinstance(a, torch.Tensor):
        as_bytes = lambda t: t.detach().contiguous().reshape(-1).view(torch.uint8)  # noqa: E731
        is_alike = type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape
        return is_alike and a.requires_grad == b.requires_grad and torch.equal(as_bytes(a), as_bytes(b))
    if isinstance(a, dict):
        return type(a) is type(b) and list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_of_every_dtype_come_back(file, dtype):
    state = {"few": tensor_of(dtype, 3, 4), "many": tensor_of(dtype, 600, 1000), "empty": tensor_of(dtype, 0, 2)}
    if dtype != torch.float4_e2m1fn_x2:
        state["scalar"] = tensor_of(dtype)
    espalier.save(file, state)
    assert same(espalier.load(file, framework="torch"), state)
    assert same(espalier.load(file, like=state), state)
    assert same(espalier.load(file, like=torch.utils._pytree.tree_map(lambda t: t.to("meta"), state)), state)
    with espalier.open(file) as checkpoint:
        assert same(checkpoint["few"].torch(), state["few"])


def test_a_state_has_the_same_digest_from_torch_and_from_numpy(file):
    arrays = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros(3, np.int64)}
    espalier.save(file, arrays)
    with espalier.open(file) as one:
        espalier.save(file.with_suffix(".torch.espalier"), {key: torch.from_numpy(a) for key, a in arrays.items()})
        with espalier.open(file.with_suffix(".torch.espalier")) as other:
            assert one.digest == other.digest


def test_what_is_loaded_may_be_written_to_and_nobody_else_sees_it(file):
    state = {"large": torch.zeros(1 << 20), "small": torch.zeros(3)}
    for compression in (0, 1):
        espalier.save(file, state, compression=compression)
        before = file.read_bytes()
        with espalier.open(file) as checkpoint:
            one, other = checkpoint.load(framework="torch"), checkpoint.load(framework="torch")
            for tensor in one.values():
                tensor += 1
            assert same(other, state)
            checkpoint.verify()
            assert same(checkpoint.load(framework="torch"), state)
        del checkpoint, other
        gc.collect()
        assert float(one["large"].sum()) == 1 << 20
        assert file.read_bytes() == before
        espalier.save(file, one)
        assert same(espalier.load(file, framework="torch"), one)


def test_each_tensor_has_a_storage_of_its_own(file):
    espalier.save(file, {"a": torch.ones(1000, 500), "b": torch.ones(1000, 500)})
    loaded = espalier.load(file, framework="torch")
    a, b = loaded["a"].requires_grad_(), loaded["b"]
    assert a.untyped_storage().nbytes() == a.nbytes and not a._is_view()
    loss = (a * a).sum()  # needs `a` as it was
    b += 1
    loss.backward()
    assert torch.equal(a.grad, 2 * a)


def test_parameters_and_gradients(file):
    state = {
        "parameter": nn.Parameter(torch.ones(2)), "frozen": nn.Parameter(torch.ones(2), requires_grad=False),
        "tracked": torch.ones(2, requires_grad=True), "plain": torch.ones(2),
    }  # fmt: skip
    espalier.save(file, state)
    assert same(espalier.load(file, framework="torch"), state)
    assert same(espalier.load(file, like=state), state)
    assert all(type(array) is np.ndarray for array in espalier.load(file).values())


def test_ties_stay_ties(file):
    model = nn.ModuleDict({"embed": nn.Embedding(8, 4), "head": nn.Linear(4, 8, bias=False)})
    model["head"].weight = model["embed"].weight
    wide = torch.arange(12.0).reshape(3, 4)
    state = {"model": model.state_dict(), "t": wide.t(), "again": wide.t(), "column": wide[:, 1]}
    espalier.save(file, state)
    with espalier.open(file) as checkpoint:
        assert file.stat().st_size < 2000
        loaded = checkpoint.load(framework="torch")
        assert loaded["model"]["embed.weight"] is loaded["model"]["head.weight"]
        assert loaded["t"] is loaded["again"]
        assert loaded["column"] is not loaded["t"]
    assert torch.equal(loaded["t"], wide.t()) and torch.equal(loaded["column"], wide[:, 1])
    cast = espalier.load(file, like={"model": {**model.half().state_dict()}, "t": espalier.ANY, "again": espalier.ANY,
                                     "column": espalier.ANY}, cast="float")  # fmt: skip
    assert cast["model"]["embed.weight"] is cast["model"]["head.weight"]
    assert cast["model"]["embed.weight"].dtype == torch.float16


def test_parts_of_one_storage(file):
    whole = torch.arange(10.0)
    espalier.save(file, {"front": whole[:4], "back": whole[4:]})
    loaded = espalier.load(file, framework="torch")
    assert torch.equal(loaded["back"], whole[4:]) and loaded["back"].untyped_storage().nbytes() == 24
    with pytest.raises(espalier.Unsupported, match="front and part share some of their memory") as error:
        espalier.save(file, {"front": whole[:4], "part": whole[2:]})
    assert error.value.path == "part"
    espalier.save(file, {"front": whole[:4], "part": whole[2:]}, views="copy")
    assert torch.equal(espalier.load(file, framework="torch")["part"], whole[2:])


def test_memory_in_another_order(file):
    state = {
        "t": torch.arange(6.0).reshape(2, 3).t(), "expanded": torch.ones(1).expand(3), "flip": torch.arange(3).flip(0),
        "conj": torch.tensor([1 + 2j]).conj(), "imag": torch.tensor([1 + 2j]).conj().imag,
        "channels": torch.arange(24.0).reshape(1, 2, 3, 4).to(memory_format=torch.channels_last),
    }  # fmt: skip
    espalier.save(file, state)
    loaded = espalier.load(file, framework="torch")
    for key, value in state.items():
        assert torch.equal(loaded[key], value), key
        assert loaded[key].is_contiguous() and not loaded[key].is_conj() and not loaded[key].is_neg()


def test_other_values_of_torch(file):
    state = {"size": torch.Size([1, 2]), "dtype": torch.bfloat16, "device": torch.device("cuda:1"), "cpu": torch.device("cpu")}
    espalier.save(file, state)
    assert same(espalier.load(file), state)
    assert same(espalier.load(file, like={**state, "size": torch.Size([5, 6])}), state)


def test_meta_tensors_are_placeholders(file):
    state = {"w": torch.empty(2, 3, dtype=torch.bfloat16, device="meta")}
    espalier.save(file, state)
    loaded = espalier.load(file, framework="torch")
    assert loaded["w"].is_meta and loaded["w"].dtype == torch.bfloat16 and loaded["w"].shape == (2, 3)
    assert espalier.load(file)["w"] == espalier.Placeholder("bf16", (2, 3))
    with pytest.raises(espalier.TreeMismatch, match=r"w: a placeholder bf16 \[2, 3\] in the file"):
        espalier.load(file, like=state)


class Tagged(torch.Tensor):
    pass


REFUSED = [
    (lambda: torch.eye(2).to_sparse(), "a sparse tensor; save to_dense"),
    (lambda: torch.eye(2).to_sparse_csr(), "a sparse tensor"),
    (lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), "a quantised tensor"),
    (lambda: torch.nested.nested_tensor([torch.ones(1), torch.ones(2)]), "a nested tensor"),
    (lambda: torch.ones(2).as_subclass(Tagged), "Tagged, a subclass of torch.Tensor"),
    (lambda: nn.LazyLinear(2).weight, "no shape yet"),
    (lambda: torch.ones(2, dtype=torch.complex32), "a tensor of torch.complex32"),
    (lambda: torch.Generator(), "save its get_state"),
    (lambda: torch.ones(2).untyped_storage(), "a storage"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=[message for _, message in REFUSED])
@pytest.mark.filterwarnings("ignore")
def test_what_no_file_can_hold_is_an_error_with_its_path(file, make, message):
    with pytest.raises(espalier.Unsupported, match=message) as error:
        espalier.save(file, {"a": [make()]})
    assert error.value.path == "a/0"
    assert not file.exists()


def test_a_label_that_a_tensor_cannot_have_is_no_error(file):
    for label in ("torch.nn.Parameter", "torch.Tensor[requires_grad]", "torch.Size"):
        espalier.save(file, {"w": espalier.Labelled(label, np.arange(3))})
        assert torch.equal(espalier.load(file, framework="torch")["w"], torch.arange(3))


def test_a_device_and_a_dtype_are_chosen_when_loading(file):
    weight = torch.rand(3)
    state = {"w": weight, "tied": weight, "p": nn.Parameter(torch.rand(2)), "i": torch.arange(3), "n": np.float32(2), "s": 1.5}
    espalier.save(file, {**state, "none": torch.empty(2, device="meta")})
    for dtype in ("bf16", torch.bfloat16, "bfloat16"):
        if dtype == "bfloat16":
            pytest.importorskip("ml_dtypes")
        loaded = espalier.load(file, framework="torch", dtype=dtype)
        assert torch.equal(loaded["w"], weight.bfloat16()) and loaded["w"] is loaded["tied"]
        assert type(loaded["p"]) is nn.Parameter and loaded["p"].requires_grad and loaded["p"].dtype == torch.bfloat16
        assert loaded["i"].dtype == torch.int64 and type(loaded["n"]) is np.float32 and loaded["s"] == 1.5
        assert loaded["none"].is_meta and loaded["none"].dtype == torch.bfloat16
    assert espalier.load(file, framework="torch", at="w", dtype=torch.float64).dtype == torch.float64
    loaded = espalier.load(file, framework="torch", device="meta")
    assert all(loaded[name].is_meta for name in ("w", "p", "i", "none")) and type(loaded["p"]) is nn.Parameter
    assert espalier.load_bytes(file.read_bytes(), framework="torch", device="meta")["w"].is_meta
    assert espalier.load(file, framework="torch", device="cpu")["none"].is_meta
    for options, message in (
        ({"framework": "torch", "device": "none"}, "torch has no device 'none'"),
        ({"framework": "torch", "dtype": torch.int32}, "dtype must be one of floats"),
        ({"framework": "torch", "dtype": "half a float"}, "dtype must be one of floats"),
        ({"framework": "torch", "dtype": "f6_e2m3fn"}, "torch has no dtype for f6_e2m3fn"),
        ({"device": "cpu"}, "arrays of numpy have no device; pass framework="),
        ({"exact": True, "dtype": "f32"}, "leave out device= and dtype="),
        ({"like": state, "dtype": "f32"}, "leave out device= and dtype="),
    ):
        with pytest.raises(espalier.EspalierError, match=message):
            espalier.load(file, **options)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
        self.head.weight = self.embed.weight


@pytest.mark.parametrize("name", ["embed.weight", "head.weight"])
def test_a_tied_parameter_may_be_missing(file, name):
    weight = torch.rand(5, 3)
    espalier.save(file, {"model": {name: weight}})
    with torch.device("meta"):
        empty = Tied()
    for model, assign in ((Tied(), None), (Tied(), True), (empty, None)):
        kept = model.embed.weight
        espalier.torch.load_into({"model": model}, file, assign=assign)
        assert torch.equal(model.head.weight, weight)
        assert model.head.weight is model.embed.weight is kept
    # What is not tied, or has no twin in the file, must be there.
    untied = Tied()
    untied.head.weight = nn.Parameter(torch.rand(5, 3))
    with pytest.raises(espalier.TreeMismatch, match="model/.*weight: missing in the file"):
        espalier.torch.load_into({"model": untied}, file)
    espalier.save(file, {"model": {}})
    with pytest.raises(espalier.TreeMismatch, match="model/embed.weight: missing in the file\n.*model/head.weight: missing"):
        espalier.torch.load_into({"model": Tied()}, file)


def test_names_that_differ_by_wrappers_alone_are_told(file):
    module, other = nn.Linear(2, 2), nn.Linear(2, 2)
    says = "The names differ alone by what DDP or torch.compile\\(\\) put into them: load "
    for prefix in ("module.", "_orig_mod.", "module._orig_mod."):
        espalier.save(file, {"model": {prefix + name: value for name, value in module.state_dict().items()}, "step": 3})
        with pytest.raises(espalier.TreeMismatch, match=says + 'espalier.map\\(FILE, "unwrap"\\)'):
            espalier.torch.load_into({"model": other}, file)
        with pytest.raises(espalier.TreeMismatch, match=says + "espalier.map"):
            espalier.load(file, at="model", like=dict(other.state_dict()))
        mapped = espalier.map(file, "unwrap")
        assert espalier.torch.load_into({"model": other}, mapped) == {"step": 3}
        assert torch.equal(other.weight, module.weight) and mapped.state is not None  # It stays open.
        other = nn.Linear(2, 2)
    espalier.save(file, {"model": module})
    with pytest.raises(espalier.TreeMismatch, match=says + "into the module that is wrapped"):
        espalier.torch.load_into({"model": nn.DataParallel(other)}, file)
    # Another name, too.
    espalier.save(file, {"model": {"module.weight": module.weight, "module.b": module.bias}})
    with pytest.raises(espalier.TreeMismatch) as caught:
        espalier.torch.load_into({"model": other}, file)
    assert "The names differ" not in str(caught.value)


def test_what_a_map_must_check_is_checked_before_modules_change(file):
    rules = {"espalier_map": 1, "rules": ["a = b <-> weight"]}
    espalier.save(file, {"a": torch.zeros(2, 2), "b": torch.ones(2, 2)})
    module = nn.Linear(2, 2, bias=False)
    before = module.weight.clone()
    with pytest.raises(espalier.EspalierError) as caught:
        espalier.torch.load_into(module, espalier.map(file, rules))
    assert caught.value.code == "map_data" and torch.equal(module.weight, before)


def test_a_state_dict_is_saved_as_safetensors_as_it_is(tmp_path):
    from safetensors.torch import save_file

    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))  # whose version is 2
    theirs, ours = tmp_path / "theirs.safetensors", tmp_path / "ours.safetensors"
    save_file(module.state_dict(), theirs)
    for state in (module, module.state_dict(), dict(module.state_dict())):
        assert espalier.save_safetensors(ours, state) == []
        assert ours.read_bytes() == theirs.read_bytes()
    save_file({f"model.{name}": value for name, value in module.state_dict().items()}, theirs)
    for nested in (module, module.state_dict()):
        espalier.save_safetensors(ours, collections.OrderedDict(model=nested))
        assert ours.read_bytes() == theirs.read_bytes()
    # "metadata" carries the types of dicts, too.
    espalier.save_safetensors(ours, module, unrepresentable="metadata")
    assert "espalier.tree" in espalier.open(ours).metadata
    noted = module.state_dict()
    noted.note = "mine"
    with pytest.raises(espalier.Unsupported, match="m: an OrderedDict with the attribute 'note'"):
        espalier.save_safetensors(ours, {"m": noted})


def test_safetensors_files_with_odd_offsets_load(tmp_path):
    header = b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}}'
    values = np.array([1.5, -2.5], np.float32)
    path = tmp_path / "odd.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\7" + values.tobytes())
    assert torch.equal(espalier.load(path, framework="torch")["b"], torch.from_numpy(values))


def test_numpy_s_own_values_stay_numpy_s(file):
    state = {"scalar": np.float32(1.5), "dates": np.array(["2026-01-01"], "datetime64[D]"), "t": torch.ones(2)}
    espalier.save(file, state)
    loaded = espalier.load(file, framework="torch")
    assert type(loaded["scalar"]) is np.float32 and loaded["dates"].dtype == "datetime64[D]"
    assert same(espalier.load(file, like=state)["t"], state["t"])


@pytest.mark.gpu
def test_a_device_is_chosen_when_loading(file):
    state = {"w": torch.ones(1000, 1000, device="cuda"), "tied": None}
    state["tied"] = state["w"]
    espalier.save(file, state)
    assert espalier.load(file, framework="torch")["w"].device.type == "cpu"
    loaded = espalier.load(file, like=state)
    assert loaded["w"].device.type == "cuda" and loaded["w"] is loaded["tied"] and same(loaded["w"].cpu(), state["w"].cpu())


def test_nothing_is_imported_for_a_file(tmp_path):
    import subprocess
    import sys

    path = tmp_path / "run.espalier"
    espalier.save(path, {"w": nn.Parameter(torch.ones(2)), "size": torch.Size([1])})
    program = f"import sys, espalier; s = espalier.load({str(path)!r}); assert 'torch' not in sys.modules; print(s)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "torch" not in done.stdout and "'size': (1,)" in done.stdout
    assert pathlib.Path(path).exists()


class Net(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.embed = nn.Embedding(11, width)
        self.norm = nn.BatchNorm1d(width)
        self.hidden = nn.Linear(width, width)
        self.head = nn.Linear(width, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        return self.head(torch.relu(self.hidden(self.norm(self.embed(tokens)))))


def training(seed):
    torch.manual_seed(seed)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50)
    return {"model": model, "optimizer": optimizer, "scheduler": scheduler}


def train(objects, steps):
    for _ in range(steps):
        tokens = torch.randint(0, 11, (32,))
        objects["optimizer"].zero_grad()
        nn.functional.cross_entropy(objects["model"](tokens), (tokens + 1) % 11).backward()
        objects["optimizer"].step()
        objects["scheduler"].step()
    return objects


def weights(objects):
    return {name: value.clone() for name, value in objects["model"].state_dict().items()}


def test_live_objects_are_saved_and_filled(file):
    objects = train(training(1), 5)
    espalier.save(file, {**objects, "rng": torch.get_rng_state(), "step": 5, "config": {"width": 16}})
    expected = weights(train(objects, 5))

    resumed = training(2)
    rest = espalier.torch.load_into(resumed, file)
    assert rest["step"] == 5 and rest["config"] == {"width": 16}
    torch.set_rng_state(rest["rng"])
    assert resumed["model"].head.weight is resumed["model"].embed.weight
    assert same(weights(train(resumed, 5)), expected)


def test_a_module_on_meta_gets_its_tensors(file):
    model = training(1)["model"]
    espalier.save(file, {"model": model})
    with torch.device("meta"):
        skeleton = Net()
    espalier.torch.load_into(skeleton, file, at="model")
    assert skeleton.head.weight is skeleton.embed.weight
    assert not any(value.is_meta for value in skeleton.state_dict().values())
    tokens = torch.arange(11)
    assert torch.equal(model.eval()(tokens), skeleton.eval()(tokens))
    assert all(isinstance(parameter, nn.Parameter) and parameter.requires_grad for parameter in skeleton.parameters())


def test_differences_are_listed_before_any_object_changes(file):
    espalier.save(file, {"model": Net(8), "optimizer": training(1)["optimizer"], "more": {"w": torch.ones(1)}})
    objects = training(1)
    before = weights(objects)
    with pytest.raises(espalier.TreeMismatch) as error:
        espalier.torch.load_into(objects, file)
    assert "model/hidden.weight: f32 [8, 8] in the file, f32 [16, 16] in the template" in str(error.value)
    assert "scheduler: missing in the file" in str(error.value)
    assert same(weights(objects), before) and not objects["optimizer"].state
    rest, ledger = espalier.torch.load_into(objects, file, strict=False)
    assert list(rest) == ["more"] and torch.equal(rest["more"]["w"], torch.ones(1))
    assert "scheduler" in ledger.missing and len(ledger.mismatched) == 8


def test_ties_of_a_module_must_be_ties_of_the_file(file):
    state = Net().state_dict()
    state["head.weight"] = state["head.weight"] + 1
    espalier.save(file, {"model": state})
    with pytest.raises(espalier.TreeMismatch, match="model/head.weight: another tensor in the file, the same tensor as"):
        espalier.torch.load_into({"model": Net()}, file)


def test_tensors_and_lists_are_filled(file):
    espalier.save(file, {"ema": [torch.ones(3), torch.zeros(2)], "lr": 0.1})
    ema = [torch.zeros(3), torch.ones(2)]
    assert espalier.torch.load_into({"ema": ema}, file) == {"lr": 0.1}
    assert torch.equal(ema[0], torch.ones(3)) and torch.equal(ema[1], torch.zeros(2))
    for wrong, text in (({"lr": 0.0}, "lr: nothing can be loaded into a float; leave it out"), ({(1,): ema[0]}, "into a dict")):
        with pytest.raises(espalier.EspalierError, match=text):
            espalier.torch.load_into(wrong, file)


class Counting(nn.Module):
    def __init__(self, count=0):
        super().__init__()
        self.count = count

    def get_extra_state(self):
        return {"count": self.count}

    def set_extra_state(self, state):
        self.count = state["count"]


def test_extra_state_of_modules(file):
    espalier.save(file, nn.Sequential(Counting(7)))
    model = nn.Sequential(Counting())
    espalier.torch.load_into(model, file)
    assert model[0].count == 7


def test_an_optimizer_of_another_kind_or_size_is_a_difference(file):
    model = Net()
    sgd = torch.optim.SGD(model.parameters(), momentum=0.9)
    espalier.save(file, {"model": model, "optimizer": sgd})
    other = Net()
    before = weights({"model": other})
    with pytest.raises(espalier.TreeMismatch, match="optimizer/param_groups/0/betas: missing in the file"):
        espalier.torch.load_into({"model": other, "optimizer": torch.optim.AdamW(other.parameters())}, file)
    with pytest.raises(espalier.TreeMismatch, match="optimizer/param_groups/0/params/1: in the file alone"):
        espalier.torch.load_into({"model": other, "optimizer": torch.optim.SGD([other.head.weight], momentum=0.9)}, file)
    assert same(weights({"model": other}), before)


class Swiglu(nn.Module):
    def __init__(self, names):
        super().__init__()
        for name in names:
            self.register_parameter(name, nn.Parameter(torch.rand(2, 2)))


def test_names_of_parameters_decide_where_both_optimizers_have_them(file):
    def adam(module):
        made = torch.optim.AdamW(module.named_parameters())
        for parameter in module.parameters():
            parameter.grad = torch.rand(2, 2)
        made.step()
        return made

    espalier.save(file, adam(Swiglu(["gate", "up", "down"])))
    for names in (["gate", "up", "down"], ["gate", "down", "up"], ["w1", "w2", "w3"]):
        other = adam(Swiglu(names))
        before = copy.deepcopy(other.state_dict())
        if names[1] == "up":
            espalier.torch.load_into(other, file)
            continue
        wrong = 1 if names[0] == "gate" else 0
        told = f"param_groups/0/param_names/{wrong}: {['gate', 'up'][wrong]!r} in the file, {names[wrong]!r} in the template"
        with pytest.raises(espalier.TreeMismatch, match=told):
            espalier.torch.load_into(other, file)
        assert same(other.state_dict(), before)
        espalier.torch.load_into(other, file, strict=False)
    # Wrappers put something into the names, and an optimizer without names goes by the numbers.
    espalier.torch.load_into(adam(torch.compile(Swiglu(["gate", "up", "down"]))), file)
    espalier.torch.load_into(torch.optim.AdamW(Swiglu(["w1", "w2", "w3"]).parameters()), file)


def test_all_that_another_optimizer_keeps_is_listed(file):
    model = Net()
    adam = torch.optim.AdamW(model.parameters())
    torch.optim.lr_scheduler.CosineAnnealingLR(adam, 5)
    espalier.save(file, adam)
    espalier.torch.load_into(torch.optim.AdamW(model.parameters()), file)  # what the scheduler put there is no difference
    with pytest.raises(espalier.TreeMismatch) as caught:
        espalier.torch.load_into(torch.optim.RMSprop(model.parameters()), file)
    told = str(caught.value)
    assert "param_groups/0/alpha: missing in the file" in told and "param_groups/0/centered: missing" in told
    assert "param_groups/0/betas: in the file alone" in told and "param_groups/0/amsgrad: in the file alone" in told


def stepped(make, width):
    parameters = [nn.Parameter(torch.ones(width, 3)), nn.Parameter(torch.ones(3))]
    optimizer = make(parameters)
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return optimizer


class OfAnother(torch.optim.AdamW):
    pass


@pytest.mark.parametrize("make", [torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad, torch.optim.Rprop, OfAnother])
@pytest.mark.parametrize("key", ["optimizer", "texts"])
def test_the_state_of_parameters_of_other_shapes_is_a_difference(file, make, key):
    saved = stepped(make, 4).state_dict()
    if key == "texts":  # as in files of torch.distributed.checkpoint
        saved["state"] = {str(number): kept for number, kept in saved["state"].items()}
    espalier.save(file, {"optimizer": saved})
    wrong = stepped(make, 5)
    before = {name: value.clone() for name, value in next(iter(wrong.state.values())).items()}
    with pytest.raises(espalier.TreeMismatch, match=r"optimizer/state/(~2)?0/\w+: f32 \[4, 3\] in the file, \[5, 3\] in the template"):
        espalier.torch.load_into({"optimizer": wrong}, file)
    assert same(next(iter(wrong.state.values())), before)
    espalier.torch.load_into({"optimizer": stepped(make, 4)}, file)
    fresh = make([nn.Parameter(torch.ones(5, 3)), nn.Parameter(torch.ones(3))])
    if make is OfAnother:  # whose state may be of any shape, and is not there yet
        espalier.torch.load_into({"optimizer": fresh}, file)
    else:
        with pytest.raises(espalier.TreeMismatch, match=r"\[5, 3\] in the template"):
            espalier.torch.load_into({"optimizer": fresh}, file)


def test_tensors_that_are_one_in_several_objects_must_be_equal_in_the_file(file):
    tensors = {"a": torch.ones(2, 2), "b": torch.zeros(2, 2)}
    espalier.save(file, {name: {"weight": value} for name, value in tensors.items()})
    shared = torch.nn.Linear(2, 2, bias=False)
    before = shared.weight.detach().clone()
    for objects in ({"a": shared, "b": shared}, {"a": {"weight": shared.weight}, "b": {"weight": shared.weight}}):
        with pytest.raises(espalier.TreeMismatch, match="b/weight.*the same tensor as a/weight"):
            espalier.torch.load_into(objects, file)
        assert torch.equal(shared.weight, before)


def test_tensors_that_torch_cannot_fill_are_refused_before_any_changes(file):
    espalier.save(file, {"a": {"weight": torch.ones(2, 2)}, "b": torch.ones(3)})
    module = torch.nn.Linear(2, 2, bias=False)
    before = module.weight.detach().clone()
    with torch.inference_mode():
        made = torch.zeros(3)
    for target, why in ((torch.zeros(1).expand(3), "is expanded"), (made, "inference mode")):
        with pytest.raises(espalier.EspalierError, match=f"b: the tensor .*{why}.*clone"):
            espalier.torch.load_into({"a": module, "b": target}, file)
        assert torch.equal(module.weight, before)


@pytest.mark.parametrize("move", ["free", "grow", "numpy"])
def test_memory_that_a_later_part_of_the_state_frees(move, file):
    """Reading it would end the process."""
    tensor, array = torch.ones(1_000_000), np.ones(1_000_000)

    class Moves:
        def state_dict(self):
            if move == "free":
                tensor.untyped_storage().resize_(0)
            elif move == "grow":
                tensor.resize_(4_000_000)
            else:
                array.resize(10, refcheck=False)
            return {}

    espalier.save(file, 1)
    before = file.read_bytes()
    for save in (espalier.save_bytes, lambda state: espalier.save(file, state)):
        tensor, array = torch.ones(1_000_000), np.ones(1_000_000)
        with pytest.raises(espalier.Unsupported, match="x/0.*changed its memory"):
            save({"x": [array if move == "numpy" else tensor], "y": Moves()})
    assert file.read_bytes() == before


def test_factored_states_load(file):
    espalier.save(file, stepped(torch.optim.Adafactor, 4))
    fresh = torch.optim.Adafactor([nn.Parameter(torch.ones(4, 3)), nn.Parameter(torch.ones(3))])
    espalier.torch.load_into(fresh, file)
    assert [tuple(kept["row_var"].shape) for kept in fresh.state.values() if "row_var" in kept] == [(4, 1)]


def test_an_object_that_refuses_is_named_and_modules_stay(file):
    class Picky:
        def load_state_dict(self, state):
            raise KeyError("betas")

    espalier.save(file, {"model": Net(), "picky": {"a": 1}})
    model = Net()
    before = weights({"model": model})
    with pytest.raises(espalier.EspalierError, match=r"picky: Picky refuses what the file has for it \(KeyError\('betas'\)\)"):
        espalier.torch.load_into({"model": model, "picky": Picky()}, file)
    assert same(weights({"model": model}), before)


def test_equal_copies_in_a_format_without_hashes_are_ties(tmp_path):
    model, path = Net(), tmp_path / "m.safetensors"
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    espalier.save_safetensors(path, state)
    espalier.torch.load_into(Net(), path)
    state["head.weight"][-1, -1] += 1
    espalier.save_safetensors(path, state)
    with pytest.raises(espalier.TreeMismatch, match="head.weight: another tensor"):
        espalier.torch.load_into(Net(), path)


def test_a_scheduler_keeps_its_optimizer_and_methods(file):
    optimizer = torch.optim.SGD(Net().parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for key in ("optimizer", "step", "__class__"):
        espalier.save(file, {"s": {**scheduler.state_dict(), key: 7}})
        with pytest.raises(espalier.EspalierError, match=f"s/{key}: no StepLR saves that"):
            espalier.torch.load_into({"s": scheduler}, file)
    assert scheduler.optimizer is optimizer and callable(scheduler.step)


def test_optimizers_and_ties_keep_the_parameters_of_a_module_on_meta(file):
    model = Net()
    espalier.save(file, {"model": model})
    with torch.device("meta"):
        skeleton = Net()
    optimizer = torch.optim.SGD(skeleton.parameters(), lr=0.1)
    espalier.torch.load_into({"model": skeleton}, file)
    held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    assert held == {id(parameter) for parameter in skeleton.parameters()}
    assert skeleton.head.weight is skeleton.embed.weight and not skeleton.head.weight.is_meta
    skeleton(torch.arange(11)).sum().backward()
    optimizer.step()

    state = model.state_dict()
    state["head.weight"] = state["head.weight"] + 1
    espalier.save(file, state)
    with torch.device("meta"):
        skeleton = Net()
    with pytest.raises(espalier.TreeMismatch, match="head.weight: another tensor"):
        espalier.torch.load_into(skeleton, file)
    with pytest.raises(espalier.EspalierError, match="a tensor on meta has no memory to load into"):
        espalier.torch.load_into({"head.weight": torch.empty(11, 16, device="meta")}, file)


def test_a_tie_in_a_template_of_which_one_place_is_tracked(file):
    tensor = torch.ones(3)
    espalier.save(file, {"plain": tensor, "tracked": tensor, "last": tensor})
    like = {"plain": torch.zeros(3), "tracked": torch.zeros(3, requires_grad=True), "last": torch.zeros(3)}
    state = espalier.load(file, like=like)
    assert [each.requires_grad for each in state.values()] == [False, True, False]
    assert state["plain"] is state["last"]
    assert torch.equal(state["tracked"], tensor)


def test_arguments_in_the_wrong_order_are_told(file):
    model = Net()
    with pytest.raises(TypeError, match=r"the objects come first: load_into\(objects, path\)"):
        espalier.torch.load_into(file, model)
    for call in (espalier.save, espalier.save_async, espalier.save_safetensors):
        with pytest.raises(TypeError, match=r"a path must be str, bytes or os.PathLike, not Net; the path comes first: save\(path, state\)"):
            call(model, file)


def test_load_into_takes_urls():
    pytest.importorskip("fsspec")
    url = "memory://load_into.espalier"
    espalier.save(url, {"w": torch.ones(3), "step": 7})
    target = torch.zeros(3)
    assert espalier.torch.load_into({"w": target}, url, storage_options={}) == {"step": 7}
    assert torch.equal(target, torch.ones(3))
    with pytest.raises(espalier.EspalierError, match="storage_options= are for URLs"):
        espalier.torch.load_into({"w": target}, "x.espalier", storage_options={})


def test_files_of_torch_open_as_what_torch_loads(tmp_path):
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    state = {
        "model": model.state_dict(), "optimizer": optimizer.state_dict(), "args": argparse.Namespace(lr=0.1, out=None),
        "view": model.weight.detach().t(), "size": model.weight.shape, "dtype": torch.bfloat16, "step": 7,
    }  # fmt: skip
    for options in ({}, {"_use_new_zipfile_serialization": False}):
        torch.save(state, tmp_path / "run.pt", **options)
        with pytest.warns(espalier.CodeWarning, match=r"args: Loading this with pickle would call argparse\.Namespace"):
            loaded = espalier.load(tmp_path / "run.pt", framework="torch")
        expected = torch.load(tmp_path / "run.pt", weights_only=False)
        assert list(loaded) == list(expected)
        assert loaded["args"] == expected["args"] and loaded["size"] == expected["size"]
        assert type(loaded["model"]) is type(expected["model"])
        assert loaded["dtype"] is torch.bfloat16 and loaded["step"] == 7
        assert torch.equal(loaded["view"], expected["view"])
        assert loaded["optimizer"]["param_groups"] == expected["optimizer"]["param_groups"]
        for number, one in expected["optimizer"]["state"].items():
            assert all(torch.equal(each, loaded["optimizer"]["state"][number][name]) for name, each in one.items())
        torch.nn.Linear(3, 2).load_state_dict(loaded["model"])


def test_the_metadata_of_a_state_dict_come_back(file):
    """BatchNorm looks at its version there."""
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    state = {"model": module.state_dict(), "all": [{"ema": module.state_dict()}], "plain": nn.Linear(1, 1).state_dict()}
    espalier.save(file, state, metadata={"run": "a"})
    expected = collections.OrderedDict({"1": {"version": 2}})
    assert espalier.open(file).metadata == {
        "run": "a",
        "torch.attributes": {"model": {"_metadata": expected}, "all/0/ema": {"_metadata": expected}},
    }
    loaded = espalier.load(file, framework="torch")
    assert loaded["model"]._metadata == loaded["all"][0]["ema"]._metadata == expected
    assert not hasattr(loaded["plain"], "_metadata")
    assert espalier.load(file, at="all/0", framework="torch")["ema"]._metadata == expected
    assert espalier.load(file, at="model", framework="torch")._metadata == expected
    assert espalier.load(file, like=state)["model"]._metadata == expected
    # A file is the same again, and a second round adds nothing.
    again = file.with_suffix(".again")
    espalier.save(again, loaded, metadata=espalier.open(file).metadata)
    assert espalier.open(again).digest == espalier.open(file).digest
    # Files choose no other names of attributes, and none for other types.
    hostile = {"model": {"items": 1, "_metadata": 3}, "": {"_metadata": {"a": 1}}, "x/y": 1, "all/7": {"_metadata": {}}}
    espalier.save(again, {"model": collections.OrderedDict(a=1), "x": 1}, metadata={"torch.attributes": hostile})
    assert vars(espalier.load(again)["model"]) == {}
    extra = module.state_dict()
    extra.note = 1
    with pytest.raises(espalier.Unsupported, match="^model: an OrderedDict with the attribute 'note'"):
        espalier.save(file, {"model": extra})


def test_load_into_tells_that_nothing_was_loaded(file):
    espalier.save(file, {"net": nn.Linear(3, 2).state_dict()})
    with pytest.warns(UserWarning, match="nothing was loaded.*weight: missing in the file") as told:
        espalier.torch.load_into(nn.Linear(3, 2), file, strict=False)
    assert [warning.filename for warning in told] == [__file__]
