#!/usr/bin/env python3
"""Makes the sharded model in `model` with huggingface_hub, and what it holds in `expected.json`.

Usage: make_shards.py. Needs torch, huggingface_hub and safetensors from PyPI; the test of these files needs none of them.
"""

import hashlib
import json
import pathlib
import shutil

import torch
from huggingface_hub import save_torch_state_dict
from safetensors import safe_open

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE / "model"
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.uint8, torch.bool, torch.float8_e4m3fn]


def state_dict():
    torch.manual_seed(7)
    state = {"model.embed.weight": torch.randn(64, 16)}
    for layer in range(13):
        for i, name in enumerate(["q_proj", "k_proj", "mlp.up", "norm"]):
            dtype = DTYPES[(layer + i) % len(DTYPES)]
            shape = [(16, 16), (4, 16), (16, 32), (16,)][i]
            values = torch.randint(0, 2, shape) if dtype == torch.bool else torch.randn(shape) * 3
            state[f"model.layers.{layer}.{name}.weight"] = values.to(dtype)
    state["model.empty"] = torch.empty(0, 3)
    state["model.scalar"] = torch.tensor(2.5)
    state["lm_head.weight"] = state["model.embed.weight"]  # tied: stored once
    return state


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    save_torch_state_dict(state_dict(), FOLDER, max_shard_size=2000, metadata={"format": "pt", "made": "for a test"})
    index = json.loads((FOLDER / "model.safetensors.index.json").read_text())
    tensors, metadata = [], {}
    for name, file in index["weight_map"].items():
        with safe_open(FOLDER / file, framework="pt") as opened:
            metadata[file] = opened.metadata()
            part = opened.get_slice(name)
            tensor = opened.get_tensor(name).contiguous()
        content = tensor.flatten().view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
        tensors.append({"name": name, "dtype": part.get_dtype().lower(), "shape": part.get_shape(), "file": file,
                        "sha256": hashlib.sha256(content).hexdigest()})  # fmt: skip
    expected = {"index": index["metadata"], "metadata": metadata, "tensors": tensors}
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    print(f"{len(metadata)} files, {len(tensors)} tensors")


if __name__ == "__main__":
    main()
