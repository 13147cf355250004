"""Models in several safetensors files: the bytes that transformers and diffusers write."""

import fcntl
import json
import os
import pathlib

import espalier
import numpy as np
import pytest
from espalier import _shards

pytestmark = pytest.mark.filterwarnings("ignore")  # of the frameworks

INDEX = "model.safetensors.index.json"
FORMAT = {"format": "pt"}


def contents(folder):
    return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir() if ".safetensors" in path.name}


def equal(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def arrays(count=6, fill=0):
    return {f"layers.{i}.weight": np.full((10, 10), i + fill, np.float32) for i in range(count)}


@pytest.fixture(scope="module")
def llama():
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "vocab_size": 128}
    config = transformers.LlamaConfig(**sizes, num_attention_heads=4, num_key_value_heads=4, tie_word_embeddings=True)
    return transformers.LlamaForCausalLM(config)


def untied(model):
    return {name: value for name, value in model.state_dict().items() if name != "lm_head.weight"}


def test_the_bytes_are_those_of_transformers(llama, tmp_path):
    import torch
    import transformers

    for size in ("100KB", "40KB", 33_000, "1MB"):
        theirs, ours = tmp_path / f"theirs-{size}", tmp_path / f"ours-{size}"
        llama.save_pretrained(theirs, max_shard_size=size)
        ours.mkdir()
        assert espalier.save_safetensors(ours / "model.safetensors", untied(llama), max_shard_size=size, metadata=FORMAT) == []
        assert contents(ours) == contents(theirs)
        assert sorted(os.listdir(ours)) == sorted(contents(theirs))  # and nothing else
        for name in ("config.json", "generation_config.json"):
            (ours / name).write_bytes((theirs / name).read_bytes())
        loaded = transformers.LlamaForCausalLM.from_pretrained(ours)
        assert all(torch.equal(value, loaded.state_dict()[name]) for name, value in llama.state_dict().items())
    assert len(contents(tmp_path / "ours-40KB")) > len(contents(tmp_path / "ours-100KB")) > 3
    assert list(contents(tmp_path / "ours-1MB")) == ["model.safetensors"]


def test_a_model_comes_back_in_the_files_that_it_had(llama, tmp_path):
    import torch

    llama.save_pretrained(tmp_path / "a", max_shard_size="100KB")
    (tmp_path / "b").mkdir()
    state = espalier.load(tmp_path / "a" / INDEX, framework="torch")
    espalier.save_safetensors(tmp_path / "b" / INDEX, state, like=tmp_path / "a" / INDEX, metadata=FORMAT)
    assert contents(tmp_path / "b") == contents(tmp_path / "a")
    # Another order, in place, and a new name, which goes to its nearest sibling.
    more = {"model.layers.1.self_attn.q_proj.bias": torch.ones(64), **dict(reversed(state.items()))}
    del more["model.norm.weight"]
    espalier.save_safetensors(tmp_path / "b/model.safetensors", more, like=tmp_path / "b" / INDEX, metadata=FORMAT)
    old, new = (json.loads((tmp_path / each / INDEX).read_bytes()) for each in "ab")
    places = {**old["weight_map"], "model.layers.1.self_attn.q_proj.bias": old["weight_map"]["model.layers.1.self_attn.q_proj.weight"]}
    del places["model.norm.weight"]
    assert new["weight_map"] == places
    assert new["metadata"] == old["metadata"]  # 64 elements more, and 64 less
    assert contents(tmp_path / "b").keys() == contents(tmp_path / "a").keys()
    loaded = espalier.load(tmp_path / "b" / INDEX, framework="torch")
    assert loaded.keys() == more.keys() and all(torch.equal(loaded[name], more[name]) for name in more)


def test_the_files_are_those_of_diffusers(tmp_path):
    diffusers = pytest.importorskip("diffusers")
    blocks = {"down_block_types": ("DownBlock2D",), "up_block_types": ("UpBlock2D",), "block_out_channels": (32,)}
    model = diffusers.UNet2DModel(sample_size=8, in_channels=1, out_channels=1, layers_per_block=1, **blocks)
    model.save_pretrained(tmp_path / "a", max_shard_size="100KB")
    [index] = [name for name in contents(tmp_path / "a") if name.endswith(".json")]
    (tmp_path / "b").mkdir()
    espalier.save_safetensors(tmp_path / "b" / index, model, like=tmp_path / "a" / index, metadata=FORMAT)
    assert contents(tmp_path / "b") == contents(tmp_path / "a") and len(contents(tmp_path / "a")) > 3
    (tmp_path / "c").mkdir()
    name = index.removesuffix(".index.json")
    espalier.save_safetensors(tmp_path / "c" / name, model, max_shard_size="100KB", metadata=FORMAT)
    ours, theirs = contents(tmp_path / "c"), contents(tmp_path / "a")
    assert json.loads(ours.pop(index))["weight_map"] == json.loads(theirs.pop(index))["weight_map"]
    assert ours == theirs


def test_tied_tensors_and_views_of_one_storage_lie_together(tmp_path):
    torch = pytest.importorskip("torch")
    from huggingface_hub import split_torch_state_dict_into_shards

    both = torch.arange(200.0)
    state = {"a": both[:100], "b": torch.ones(150), "c": both[100:], "d": torch.zeros(90), "e": torch.zeros(2000)}
    for limit in (400, 800, 801, 1000, 1200, "2KB", 5000):
        theirs = split_torch_state_dict_into_shards(state, max_shard_size=limit)
        leaves, _ = _shards._flatten(state, "")
        ours = _shards._split(leaves, _shards.size_of(limit), "model.safetensors", 0)
        assert {file: list(names) for file, names in theirs.filename_to_tensors.items()} == ours.files
        if ours.listing is not None:
            assert ours.listing["metadata"]["total_size"] == theirs.metadata["total_size"]
    tied = {"a": torch.ones(300), "b": torch.zeros(300)}
    tied["c"] = tied["a"]
    with pytest.raises(espalier.Unsupported, match="tied"):
        espalier.save_safetensors(tmp_path / "model.safetensors", tied, max_shard_size="1KB")
    assert espalier.save_safetensors(tmp_path / "model.safetensors", tied, max_shard_size="1.3KB", unrepresentable="drop")
    places = json.loads((tmp_path / INDEX).read_bytes())["weight_map"]
    assert places["a"] == places["c"] != places["b"]


def test_states_of_numpy_and_jax(tmp_path):
    jax = pytest.importorskip("jax")
    nested = {"model": {"layers": {"a": np.ones((4, 4)), "b": np.zeros(16)}, "c": np.arange(20.0)}}
    espalier.save_safetensors(tmp_path / "model.safetensors", nested, max_shard_size=200)
    index = json.loads((tmp_path / INDEX).read_bytes())
    first, last = (f"model-{i:05}-of-00003.safetensors" for i in (1, 3))
    assert index["weight_map"]["model.layers.a"] == first and index["weight_map"]["model.c"] == last
    assert index["metadata"] == {"total_parameters": 52, "total_size": 52 * 8}
    ours = jax.tree.map(jax.numpy.float32, nested)
    espalier.save_safetensors(tmp_path / "jax.safetensors", ours, max_shard_size=100)
    loaded = espalier.load(tmp_path / "jax.safetensors.index.json")
    assert {name: value.shape for name, value in loaded.items()} == {"model.c": (20,), "model.layers.a": (4, 4), "model.layers.b": (16,)}
    assert equal({"x": loaded["model.c"]}, {"x": np.arange(20, dtype=np.float32)})


def test_a_module_and_its_state_dict(tmp_path):
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8))
    espalier.save_safetensors(tmp_path / "model.safetensors", model, max_shard_size=256)
    assert json.loads((tmp_path / INDEX).read_bytes())["metadata"] == {"total_parameters": 88, "total_size": 256 + 32 * 5 + 8}
    before = contents(tmp_path)
    espalier.save_safetensors(tmp_path / INDEX, model.state_dict(), like=tmp_path / INDEX)
    assert contents(tmp_path) == before


def test_an_earlier_save_with_another_number_of_files(tmp_path):
    path = tmp_path / "model.safetensors"
    other = tmp_path / "model-00001-of-00009.safetensors"
    other.write_bytes(b"of another program")
    for limit, count in ((400, 7), (800, 4), (10_000, 1), (1200, 3), (400, 7)):
        espalier.save_safetensors(path, arrays(), max_shard_size=limit)
        assert len(contents(tmp_path)) == count + 1
        assert equal(espalier.load(path if count == 1 else tmp_path / INDEX), arrays())
        assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]
    assert other.read_bytes() == b"of another program"


def test_what_it_refuses(tmp_path):
    path, save = tmp_path / "model.safetensors", espalier.save_safetensors
    index = tmp_path / "like.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"layers.0.weight": "../x.safetensors"}}))
    text = tmp_path / "text.json"
    text.write_text("[]")
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"weight_map": {"x": "x.safetensors"}}))
    for message, options in {
        "max_shard_size must be a number of bytes": {"max_shard_size": "5 apples"},
        "not True": {"max_shard_size": True},
        "not 0": {"max_shard_size": 0},
        "not both": {"max_shard_size": 5, "like": index},
        "metadata of one file": {"max_shard_size": 5, "unrepresentable": "metadata"},
        r"plain names": {"like": index},
        "no index of a model": {"like": text},
        "none of the names": {"like": other},
        "no file is there": {"like": tmp_path / "absent.json"},
    }.items():
        with pytest.raises(espalier.EspalierError, match=message):
            save(path, arrays(), **options)
    for name in ("model.espalier", ".safetensors", "model.json"):
        with pytest.raises(espalier.EspalierError, match="not the name of a model"):
            save(tmp_path / name, arrays(), max_shard_size=5)
    with pytest.raises(espalier.Unsupported, match="step") as refused:
        save(path, {**arrays(), "step": 7}, max_shard_size=400)
    assert refused.value.path == "step"
    with pytest.raises(espalier.EspalierError, match="would both get the name"):
        save(path, {"a.b": np.ones(2), "a": {"b": np.ones(2)}}, max_shard_size=400)
    with pytest.raises(espalier.Unsupported, match="c128"):
        save(path, {**arrays(), "z": np.ones(2, complex)}, max_shard_size=400)
    assert not [name for name in os.listdir(tmp_path) if name.startswith(("model", ".espalier"))]
    assert save(path, {**arrays(), "step": 7}, max_shard_size=400, unrepresentable="drop") == [("step", "a value of int")]
    with pytest.raises(FileExistsError):
        save(path, arrays(), max_shard_size=400, replace=False)
    handle = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)  # as another save has it
    with pytest.raises(espalier.CheckpointOSError, match="another save"):
        save(path, arrays(), max_shard_size=400)
    os.close(handle)


def test_progress_counts_all_files(tmp_path):
    seen = []
    espalier.save_safetensors(tmp_path / INDEX, arrays(), max_shard_size=400, progress=lambda *each: seen.append(each))
    assert seen[-1][0] >= 2400 and all(a[0] <= b[0] for a, b in zip(seen, seen[1:], strict=False))
