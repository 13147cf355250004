"""Libraries that import safetensors, with espalier.compat.safetensors in its place: the same files, read and written."""

import json
import os
import pathlib
import subprocess
import sys

import espalier

if __name__ == "__main__":  # before the others are imported
    import espalier.compat.safetensors

    espalier.compat.safetensors.substitute()
import pytest

torch = pytest.importorskip("torch")
diffusers = pytest.importorskip("diffusers")
huggingface_hub = pytest.importorskip("huggingface_hub")
from torch import nn  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of the frameworks


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 16)
        self.norm = nn.BatchNorm1d(16)
        self.head = nn.Linear(16, 20, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("turned", torch.arange(12.0).reshape(3, 4).T)


def image_of(pipeline):
    images = pipeline(num_inference_steps=2, generator=torch.Generator().manual_seed(0), output_type="np").images
    return images.ravel().tolist()


def pipeline_of(seed):
    torch.manual_seed(seed)
    blocks = {"down_block_types": ("DownBlock2D",), "up_block_types": ("UpBlock2D",), "block_out_channels": (32,)}
    unet = diffusers.UNet2DModel(sample_size=8, in_channels=1, out_channels=1, layers_per_block=1, **blocks)
    pipeline = diffusers.DDPMPipeline(unet, diffusers.DDPMScheduler(num_train_timesteps=10))
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.safetensors*")}


def parsed(data):
    """The header and the bytes of the tensors."""
    length = int.from_bytes(data[:8], "little")
    return length, json.loads(data[8 : 8 + length]), data[8 + length :]


def equal(model, other):
    state, wanted = model.state_dict(), other.state_dict()
    return state.keys() == wanted.keys() and all(torch.equal(state[name], wanted[name]) for name in state)


SIZES = {"whole": "5GB", "shards": "1KB"}


def substituted(theirs, mine):
    """What the child does: reads what the libraries wrote with safetensors, and writes it again."""
    for name in ("pipeline", "sharded"):
        pipeline = diffusers.DDPMPipeline.from_pretrained(theirs / name)
        pipeline.set_progress_bar_config(disable=True)
        print(json.dumps(image_of(pipeline)))
        pipeline.save_pretrained(mine / name, max_shard_size="100KB" if name == "sharded" else "10GB")
    for name, size in SIZES.items():
        model = Tied()
        missing, unexpected = huggingface_hub.load_torch_model(model, theirs / name, strict=False)
        assert not unexpected and set(missing) <= {"head.weight", "embedding.weight"}
        (mine / name).mkdir()
        huggingface_hub.save_torch_model(model, mine / name, max_shard_size=size, metadata={"by": "hand"})
    assert "safetensors._safetensors_rust" not in sys.modules
    huggingface_hub.save_torch_model(model, mine, filename_pattern="model{suffix}.espalier")


def test_pipelines_and_models_are_read_and_written(tmp_path):
    theirs, mine = tmp_path / "theirs", tmp_path / "mine"
    mine.mkdir()
    pipeline = pipeline_of(seed=1)
    pipeline.save_pretrained(theirs / "pipeline")
    pipeline.save_pretrained(theirs / "sharded", max_shard_size="100KB")
    model = Tied()
    for name, size in SIZES.items():
        (theirs / name).mkdir()
        huggingface_hub.save_torch_model(model, theirs / name, max_shard_size=size, metadata={"by": "hand"})
    command = [sys.executable, "-W", "ignore", __file__, str(theirs), str(mine)]
    done = subprocess.run(command, env={**os.environ, "HF_HUB_OFFLINE": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # Not to the last bit: how tensors lie in memory decides how torch adds up.
    for line in done.stdout.splitlines():
        assert json.loads(line) == pytest.approx(image_of(pipeline), abs=1e-5)
    assert len(done.stdout.splitlines()) == 2
    written, again = contents(theirs), contents(mine)
    several = "whole/model.safetensors"  # pairs of metadata, which safetensors shuffles
    assert parsed(again.pop(several)) == parsed(written.pop(several))
    assert again == written and len(written) > 12
    for name in ("pipeline", "sharded"):
        assert equal(diffusers.DDPMPipeline.from_pretrained(mine / name).unet, pipeline.unet)
    for name in SIZES:
        loaded = Tied()
        huggingface_hub.load_torch_model(loaded, mine / name)
        assert equal(loaded, model)
    with espalier.open(mine / "model.espalier") as file:
        assert file.verify().has_hashes and file.metadata["format"] == "pt"
        assert torch.equal(file.load(framework="torch")["embedding.weight"], model.embedding.weight)


if __name__ == "__main__":
    substituted(*map(pathlib.Path, sys.argv[1:]))
