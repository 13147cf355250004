"""Files that other libraries write open as what these load."""

import json
import pathlib
import tarfile

import espalier
import numpy as np
import pytest
from test_types import same as same_values

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.torch")
import torch.distributed.checkpoint as dcp  # noqa: E402
from test_torch import same  # noqa: E402
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save  # noqa: E402


def trained():
    torch.manual_seed(1)
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    return {"model": dict(model.state_dict()), "optimizer": optimizer.state_dict(), "epoch": 3, "seen": [1, None, "two"]}


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_a_distributed_checkpoint_of_torch(tmp_path):
    state = trained()
    dcp.save(state, checkpoint_id=tmp_path / "step-1", no_dist=True)
    dcp_to_torch_save(tmp_path / "step-1", tmp_path / "step-1.pt")
    for path in (tmp_path / "step-1", tmp_path / "step-1" / ".metadata"):
        same(espalier.load(path, framework="torch"), torch.load(tmp_path / "step-1.pt"))
    with espalier.open(tmp_path / "step-1") as file:
        assert file.format == "dcp" and file.at("model/weight").shape == (3, 4)
    (tmp_path / "step-1" / "__0_0.distcp").unlink()
    with pytest.warns(espalier.LossWarning, match="__0_0.distcp"):
        espalier.load(tmp_path / "step-1")


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_a_distributed_checkpoint_fills_an_optimizer(tmp_path):
    def made():
        model = torch.nn.Linear(2, 2)
        return model, torch.optim.AdamW(model.parameters())

    model, optimizer = made()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    dcp.save(state, checkpoint_id=tmp_path / "run", no_dist=True)
    other, fresh = made()
    assert espalier.torch.load_into({"model": other, "optimizer": fresh}, tmp_path / "run") == {}
    same(fresh.state_dict(), optimizer.state_dict())
    # By name, as FSDP keeps it: an optimizer would drop its state.
    named = {**optimizer.state_dict(), "state": {"weight": optimizer.state_dict()["state"][0]}}
    espalier.save(tmp_path / "named.espalier", {"optimizer": named})
    with pytest.raises(espalier.EspalierError, match="under 'weight' and the like"):
        espalier.torch.load_into({"optimizer": fresh}, tmp_path / "named.espalier")
    same(fresh.state_dict(), optimizer.state_dict())


def test_what_is_lost_is_told(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.arange(3), b=np.ones(2), c=np.array([None, "an object"]))
    with espalier.open(tmp_path / "x.npz") as file:
        assert file.format == "npz"
        (note,) = file.notes
        assert (note.kind, note.path) == ("code", "c") and "Python objects" in note.message
        with pytest.raises(espalier.Incomplete, match=r"Python objects.*elements_missing, in c"):
            file.verify()
    with pytest.warns(espalier.CodeWarning, match=r"x\.npz: c: this is an array of Python objects"):
        assert espalier.load(tmp_path / "x.npz")["b"].tolist() == [1, 1]
    # Damage makes verification fail, and the rest can be read.
    content = bytearray((tmp_path / "x.npz").read_bytes())
    content[content.index(b"\x93NUMPY", 200)] ^= 1
    (tmp_path / "x.npz").write_bytes(content)
    with espalier.open(tmp_path / "x.npz") as file:
        assert [(note.kind, note.path) for note in file.notes] == [("code", "c"), ("loss", "")]
        assert file["a"][:].tolist() == [0, 1, 2]
        with pytest.raises(espalier.Corrupt, match="this array cannot be read.* in b"):
            file.verify()
    espalier.save(tmp_path / "x.espalier", {"a": 1})
    with espalier.open(tmp_path / "x.espalier") as file:
        assert (file.format, file.notes) == ("espalier", [])


def test_an_element_without_a_type(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.array(["one", "two"]))
    with espalier.open(tmp_path / "x.npz") as file:
        assert isinstance(file["a"][0:1], espalier.Packed)
        with pytest.raises(IndexError, match=r"a: its elements have no type here"):
            file["a"][0]


def test_a_model_in_several_files(tmp_path):
    parts = {"model-1.safetensors": {"a": torch.rand(3)}, "model-2.safetensors": {"b": torch.arange(4).bfloat16()}}
    for name, part in parts.items():
        safetensors.save_file(part, tmp_path / name)
    weight_map = {key: name for name, part in parts.items() for key in part}
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 20}, "weight_map": weight_map}))
    same(espalier.load(index, framework="torch"), parts["model-1.safetensors"] | parts["model-2.safetensors"])
    espalier.save(tmp_path / "model.espalier", espalier.load(index, exact=True))
    same(espalier.load(tmp_path / "model.espalier", framework="torch"), espalier.load(index, framework="torch"))


def test_dicts_with_other_keys_are_dicts_again(tmp_path, file):
    state = {"x": {(0, "a"): torch.ones(2), 1.5: {None: 1, (): [{(2,): 3}]}}}
    torch.save(state, tmp_path / "a.pt")
    loaded = espalier.load(tmp_path / "a.pt", framework="torch")
    assert torch.equal(loaded["x"].pop((0, "a")), state["x"].pop((0, "a"))) and loaded == state
    pairs = espalier.load(tmp_path / "a.pt", exact=True)
    espalier.save(file, pairs)
    assert espalier.load(file, framework="torch")["x"].keys() == {(0, "a"), 1.5}
    # What Python cannot hold, or holds slowly, stays a list.
    for items in ([(1.5, 1), (1.5, 2)], [([], 1)], [(1, 2, 3)], [1], [((1 + i) * (2**61 - 1), i) for i in range(8, 1100)]):
        espalier.save(file, espalier.Labelled("dict.items", items))
        assert espalier.load(file) == items


def test_a_file_of_flax(tmp_path):
    serialization = pytest.importorskip("flax.serialization")
    state = {"params": {"kernel": np.arange(6, dtype=np.float32).reshape(2, 3)}, "step": 7}
    (tmp_path / "state.msgpack").write_bytes(serialization.to_bytes(state))
    same_values(espalier.load(tmp_path / "state.msgpack"), state)


def test_a_folder_of_steps_is_told(tmp_path):
    with espalier.Checkpointer(tmp_path, every=1) as checkpointer:
        for step in (9, 10):
            checkpointer.save(step, step)
    with pytest.raises(espalier.CheckpointOSError, match="such as the newest, step_00000010.espalier"):
        espalier.load(tmp_path)


FOREIGN = pathlib.Path(__file__).resolve().parents[2] / "tests/foreign"
EVERY = json.loads((FOREIGN / "every/every.json").read_text())


@pytest.mark.filterwarnings("ignore::espalier.LossWarning")
@pytest.mark.parametrize("case", EVERY, ids=lambda case: case["path"])
def test_one_file_of_every_kind(case, tmp_path):
    folder = FOREIGN
    if "archive" in case:
        folder = tmp_path
        with tarfile.open(FOREIGN / case["archive"]) as archive:
            archive.extractall(folder)
    with espalier.open(folder / case["path"]) as file:
        assert file.format == case["format"]
    loaded = espalier.load(folder / case["path"])
    # The same by way of our own format.
    espalier.save(tmp_path / "copy.espalier", loaded)
    same_values(espalier.load(tmp_path / "copy.espalier"), loaded)


def test_a_file_of_gguf(repository):
    folder = repository / "tests/foreign/gguf"
    files = sorted(folder.glob("**/*.gguf"))
    assert files
    with espalier.open(files[0]) as file:
        assert file.format == "gguf" and len(file.metadata) > 0


def test_elements_in_a_form_that_is_not_read():
    checkpoint = espalier.open(FOREIGN / "numpy/objects.npz")
    with pytest.raises(espalier.Incomplete, match="an array of Python objects.*; what is there is right") as raised:
        checkpoint.verify()
    assert (raised.value.code, raised.value.missing) == ("elements_missing", [])
    assert [(type(error), error.code, error.path) for error in raised.value.errors] == [(espalier.Unsupported, "elements_missing", "bad")]
