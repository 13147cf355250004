"""What users of torch asked of checkpoints elsewhere: torchtune#674 and OLMo#388."""

import base64
import json
import os
import pickle
import subprocess
import sys

import espalier
import numpy as np
import pytest

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.torch")
from espalier.compat.safetensors.torch import load_file, save_file  # noqa: E402
from test_torch import same, tensor_of  # noqa: E402
from torch import nn  # noqa: E402

MIB = 1 << 20


def test_torchtune_674_a_model_in_two_files_is_written_back_as_it_came(tmp_path):
    parts = {
        "model-00001-of-00002.safetensors": {"embed": tensor_of(torch.bfloat16, 8, 4), "0.weight": tensor_of(torch.float32, 4, 4)},
        "model-00002-of-00002.safetensors": {"1.weight": torch.rand(4, 4), "head": tensor_of(torch.bfloat16, 4, 4)},
    }  # fmt: skip
    for name, part in parts.items():
        safetensors.save_file(part, tmp_path / name, {"format": "pt"})
    weight_map = {key: name for name, part in parts.items() for key in part}
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    before = {name: (tmp_path / name).read_bytes() for name in parts}
    # As a recipe does: all files are one state, which is split by the index again.
    state = {}
    for name in sorted(set(weight_map.values())):
        state |= load_file(tmp_path / name)
    assert sorted(state) == sorted(weight_map)
    state["1.weight"] += 1
    for name in parts:
        part = {key: state[key] for key, file in weight_map.items() if file == name}
        save_file(part, tmp_path / name, {"format": "pt"})  # over the file that is mapped
    assert sorted(os.listdir(tmp_path)) == [*parts, index.name]
    first, second = parts
    assert (tmp_path / first).read_bytes() == before[first] and (tmp_path / second).read_bytes() != before[second]
    changed = parts[second]["1.weight"]
    old, new = (tensor.numpy().tobytes() for tensor in (changed, changed + 1))
    assert (tmp_path / second).read_bytes() == before[second].replace(old, new)
    assert torch.equal(safetensors.load_file(tmp_path / second)["1.weight"], changed + 1)


def test_torchtune_674_a_meta_file_is_read_without_pickle_and_written_back(tmp_path, file, monkeypatch):
    names = ["tok_embeddings.weight", "layers.0.attention.wq.weight", "norm.weight", "output.weight"]
    model = {name: tensor_of(torch.bfloat16, 4, 8) for name in names}
    model["rope.freqs"] = torch.rand(4)
    meta = tmp_path / "consolidated.00.pth"
    torch.save(model, meta)
    with monkeypatch.context() as patched:
        for module, name in ((pickle, "load"), (pickle, "loads"), (pickle, "Unpickler"), (torch, "load")):
            patched.setattr(module, name, lambda *_, **__: pytest.fail("a pickle ran"))
        loaded = espalier.load(meta, framework="torch")
        assert list(loaded) == list(model) and same(loaded, model)
        loaded["norm.weight"][0] += 1
        espalier.save(file, loaded)
        changed = espalier.load(file, framework="torch")
    torch.save(changed, meta)  # in the form it came in, under the name it came with
    written = torch.load(meta, weights_only=True)
    assert same(written, loaded) and not same(written, model)


def recipe():
    """What a fine-tuning recipe keeps in the middle of a run."""
    torch.manual_seed(3)
    model = nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), foreach=None)
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    return model, optimizer


def test_torchtune_674_the_state_of_a_recipe_comes_back_exactly(file):
    model, optimizer = recipe()
    state = {
        "model": dict(model.state_dict()), "optimizer": optimizer.state_dict(), "epochs_run": 1, "total_epochs": 3,
        "max_steps_per_epoch": None, "seed": 2**63 - 1, "rng": torch.get_rng_state(), "rng_bytes": bytes(range(256)),
    }  # fmt: skip
    state["model"] = {name: tensor.detach() for name, tensor in state["model"].items()}
    espalier.save(file, state)
    loaded = espalier.load(file, framework="torch")
    assert same(loaded, state)
    [group] = loaded["optimizer"]["param_groups"]
    assert group["betas"] == (0.9, 0.95) and type(group["betas"]) is tuple and group["foreach"] is None
    step = loaded["optimizer"]["state"][0]["step"]
    assert step.shape == () and step == 1 and list(loaded["optimizer"]["state"]) == [0, 1]
    # It goes on.
    other, other_optimizer = recipe()
    rest = espalier.torch.load_into({"model": other, "optimizer": other_optimizer}, file)
    assert sorted(rest) == ["epochs_run", "max_steps_per_epoch", "rng", "rng_bytes", "seed", "total_epochs"]
    for each, tools in ((model, optimizer), (other, other_optimizer)):
        tools.zero_grad()
        torch.set_rng_state(rest["rng"])
        each(torch.randn(2, 4)).sum().backward()
        tools.step()
    assert same(other.state_dict(), model.state_dict())


class Adapted(nn.Module):
    """A frozen layer, and beside it an adapter of low rank."""

    def __init__(self):
        super().__init__()
        self.base = nn.Linear(6, 6, bias=False).requires_grad_(False)
        self.lora_a, self.lora_b = nn.Linear(6, 2, bias=False), nn.Linear(2, 6, bias=False)

    def merged(self):
        return self.base.weight + self.lora_b.weight.detach() @ self.lora_a.weight.detach()

    def adapter(self):
        return {name: tensor for name, tensor in self.state_dict().items() if "lora" in name}


def test_torchtune_674_adapters_are_saved_beside_the_base_and_merged_by_the_program_alone(file, tmp_path):
    model = Adapted()
    espalier.save(file, {"base": model.base, "adapter": model.adapter()})
    espalier.save(tmp_path / "adapter.espalier", model.adapter())
    espalier.save(tmp_path / "merged.espalier", {"weight": model.merged()})
    with espalier.open(file) as whole, espalier.open(tmp_path / "adapter.espalier") as adapter:
        assert list(adapter) == ["lora_a.weight", "lora_b.weight"]
        assert np.array_equal(whole.at("base/weight"), model.base.weight)  # as it was: nothing is merged
        assert whole.at("adapter")["lora_a.weight"].hash == adapter["lora_a.weight"].hash
    other = Adapted()
    base = other.base.weight.clone()
    with pytest.raises(espalier.TreeMismatch, match="base.weight: missing in the file"):
        espalier.torch.load_into(other, tmp_path / "adapter.espalier")
    espalier.torch.load_into(other, tmp_path / "adapter.espalier", strict="file")
    assert same(other.adapter(), model.adapter()) and torch.equal(other.base.weight, base)
    assert not other.base.weight.requires_grad and other.lora_a.weight.requires_grad
    plain = nn.Linear(6, 6, bias=False)
    espalier.torch.load_into(plain, tmp_path / "merged.espalier")
    assert torch.equal(plain.weight, model.merged())


class Head(nn.Module):
    def __init__(self, tied):
        super().__init__()
        self.embed, self.output = nn.Embedding(7, 3), nn.Linear(3, 7, bias=False)
        if tied:
            self.output.weight = self.embed.weight


def test_torchtune_674_an_output_that_is_tied_in_one_file_and_absent_in_the_other_is_said(file):
    tied, untied = Head(True), Head(False)
    espalier.save(file, tied)
    loaded = espalier.load(file, framework="torch")
    assert loaded["output.weight"] is loaded["embed.weight"]
    # A file without the output: whether it is tied is nothing that a file can tell, but the model does.
    espalier.save(file, {"embed.weight": tied.embed.weight + 1})
    expected = tied.embed.weight + 1
    espalier.torch.load_into(tied, file)
    assert torch.equal(tied.output.weight, expected) and tied.output.weight is tied.embed.weight
    with pytest.raises(espalier.TreeMismatch) as error:
        espalier.torch.load_into(untied, file)
    assert error.value.ledger.missing == ["output.weight"] and error.value.ledger.unexpected == []
    # A file with an output of its own, for a model in which it is tied.
    espalier.save(file, untied)
    with pytest.raises(espalier.TreeMismatch, match="output.weight"):
        espalier.torch.load_into(tied, file)


@pytest.mark.parametrize("name", ["run.espalier", "model.safetensors"])
def test_torchtune_674_saving_over_the_mapped_file(tmp_path, name):
    file = tmp_path / name
    weight = torch.arange(4 * MIB)
    save_file({"a": torch.arange(0), "weight": weight}, file)
    for turn in range(1, 4):
        state = load_file(file)
        state["a"] = torch.arange(1000 * turn)  # moves the bytes of the weight, which is the mapping of the file
        save_file(state, file)
        assert same(load_file(file), state) and torch.equal(state["weight"], weight)


def run(program, *arguments):
    """The last line that a program prints, as JSON."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


# Prints how much memory that is not a file's came on top of what was there.
CONVERT = """
import re, sys, threading, time, torch, espalier
def memory():
    return 1024 * int(re.search(r"RssAnon:\\s+(\\d+)", open("/proc/self/status").read())[1])
state = torch.load(sys.argv[1], mmap=True, weights_only=True)
espalier.save(sys.argv[2] + ".warm", {"x": torch.zeros(1)})
before, most, done = memory(), 0, threading.Event()
def watch():
    global most
    while not done.wait(0.001):
        most = max(most, memory())
watcher = threading.Thread(target=watch)
watcher.start()
espalier.save(sys.argv[2], state, sync=False)
done.set()
watcher.join()
print(max(most, memory()) - before)
"""


def test_olmo_388_a_pt_file_becomes_ours_without_being_held_in_memory(file, tmp_path):
    state = {"model": {f"{i}": torch.full((8 * MIB,), float(i)) for i in range(6)}, "step": 3}
    torch.save(state, tmp_path / "state.pt")
    assert run(CONVERT, tmp_path / "state.pt", file) < 16 * MIB  # of 192 MiB
    assert same(espalier.load(file, framework="torch"), state)


# Prints, for each of 8 processes that use the whole file at the same time, the bytes that it maps of it, and those of them that
# are its own.
SHARE = """
import json, multiprocessing, re, sys, torch, espalier
torch.set_num_threads(1)
context = multiprocessing.get_context("fork")  # starts at once
barrier, queue = context.Barrier(8), context.SimpleQueue()
def rank():
    state = espalier.load(sys.argv[1], framework="torch", threads=1)
    assert all(bool((tensor == i).all()) for i, tensor in enumerate(state.values()))
    barrier.wait(120)
    rss = own = 0
    for mapping in re.split(r"^(?=[0-9a-f]+-)", open("/proc/self/smaps").read(), flags=re.M):
        if sys.argv[1] in mapping:
            size = lambda field: 1024 * int(re.search(rf"^{field}:\\s+(\\d+)", mapping, re.M)[1])
            rss += size("Rss")
            own += size("Private_Clean") + size("Private_Dirty") + size("Anonymous")
    barrier.wait(120)
    queue.put((rss, own))
processes = [context.Process(target=rank) for _ in range(8)]
for process in processes:
    process.start()
found = [queue.get() for _ in processes]
for process in processes:
    process.join()
print(json.dumps(found))
"""


def test_olmo_388_eight_processes_share_the_pages_of_one_file(file):
    state = {f"{i}": torch.full((2 * MIB,), float(i)) for i in range(4)}
    espalier.save(file, state)
    found = run(SHARE, file)
    assert len(found) == 8
    for mapped, own in found:
        assert mapped >= 32 * MIB and own < MIB


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("a key was unpickled",)


def test_olmo_388_keys_are_data_and_empty_dicts_stay(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keys = [base64.b64encode(pickle.dumps(key)).decode() for key in (("blocks", 0), ("exp_avg/=+", b"\xff" * 3), Bomb())]
    state = {"state": {key: {"step": torch.tensor(float(i)), "none": {}} for i, key in enumerate(keys)}, "hooks": {}}
    espalier.save(file, state)
    assert same(espalier.load(file, framework="torch"), state)
    with espalier.open(file) as checkpoint:
        assert checkpoint["state"].keys() == keys
        assert [checkpoint["state"][key]["step"].path for key in keys] == [path for path, _ in checkpoint.find("**/step")]
        assert checkpoint.at(checkpoint["state"][keys[1]]["step"].path).numpy() == 1
    assert os.listdir(tmp_path) == [file.name]


def test_olmo_388_a_ledger_proves_that_all_was_restored(file):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(5, 5), nn.BatchNorm1d(5))
            self.register_buffer("positions", torch.arange(9))  # no NaN can tell that an int was not written
            self.register_buffer("mask", torch.ones(3, dtype=torch.bool))

    model = Model()
    model.layers(torch.randn(4, 5))
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    espalier.save(file, model)
    for tensor in model.state_dict().values():
        tensor.copy_(tensor.logical_not())  # another value in each element
    rest, ledger = espalier.torch.load_into(model, file, strict=False)
    assert rest == {} and same(dict(model.state_dict()), state)
    assert ledger.loaded == list(state) and {"positions", "mask", "layers.1.num_batches_tracked"} < set(ledger.loaded)
    assert not (ledger.missing or ledger.unexpected or ledger.mismatched or ledger.kept or ledger.cast)
    # One element more or less is no "all".
    del state["mask"]
    espalier.save(file, {**state, "positions": torch.arange(8)})
    with pytest.raises(espalier.TreeMismatch) as error:
        espalier.torch.load_into(model, file)
    assert error.value.ledger.missing == ["mask"]
    assert [each.path for each in error.value.ledger.mismatched] == ["positions"]


def test_olmo_388_the_optimizer_s_state_loads_without_the_model(file):
    model, optimizer = recipe()
    espalier.save(file, {"model": model, "optimizer": optimizer})
    data = bytearray(file.read_bytes())
    data[data.index(model.weight.detach().numpy().tobytes())] ^= 1  # reading the model would be an error
    file.write_bytes(data)
    with pytest.raises(espalier.Corrupt):
        espalier.load(file)
    wanted = optimizer.state_dict()
    assert same(espalier.load(file, at="optimizer", framework="torch"), wanted)
    _, other = recipe()
    other.state.clear()
    assert espalier.torch.load_into(other, file, at="optimizer") == {}
    assert same(other.state_dict(), wanted)
