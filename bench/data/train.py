#!/usr/bin/env python3
"""Trains a small language model on the text of Python's own library, and saves what a trainer has.

The weights and Adam's two moments go to files of their own, each as f32 and cast to bf16, f16 and
f8_e4m3fn. bench/peers.py runs it in the peers' environment; it needs torch and safetensors.
"""

import argparse
import pathlib
import sysconfig

import torch
from safetensors.torch import save_file

CONTEXT, BATCH, TEXT_BYTES, SEED = 64, 8, 8 << 20, 20_240
CASTS = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "f8_e4m3fn": torch.float8_e4m3fn}
NARROW = ("f16", "f8_e4m3fn")  # Too narrow for moments as they are.


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).split(width, 2))
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x))))


class Model(torch.nn.Module):
    def __init__(self, symbols, width, layers):
        super().__init__()
        self.embed = torch.nn.Embedding(symbols, width)
        self.position = torch.nn.Embedding(CONTEXT, width)
        self.layers = torch.nn.ModuleList(Block(width, width // 64) for _ in range(layers))
        self.norm, self.head = torch.nn.LayerNorm(width), torch.nn.Linear(width, symbols)
        for module in self.modules():
            if isinstance(module, (torch.nn.Linear, torch.nn.Embedding)):
                torch.nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens):
        x = self.embed(tokens) + self.position.weight
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def text():
    """Bytes of the standard library's sources, as numbers without gaps: no row stays untrained."""
    files = sorted(pathlib.Path(sysconfig.get_path("stdlib")).glob("*.py"))
    joined = b"".join(file.read_bytes() for file in files)[:TEXT_BYTES]
    used, tokens = torch.tensor(bytearray(joined)).unique(return_inverse=True)
    return len(used), tokens


def train(steps, width, layers):
    torch.manual_seed(SEED)
    symbols, tokens = text()
    model = Model(symbols, width, layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * min(1, (step + 1) / 20)
        starts = torch.randint(len(tokens) - CONTEXT - 1, (BATCH,))
        rows = torch.stack([tokens[s:s + CONTEXT + 1] for s in starts])
        loss = torch.nn.functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model, optimizer, loss.item()


def cast(tensor, name, is_moment):
    """`tensor` in another type. Moments are scaled by a power of two first where the type is narrow."""
    if (name == "f8_e4m3fn" or (is_moment and name in NARROW)) and tensor.abs().max() > 0:
        top = torch.tensor(torch.finfo(CASTS[name]).max) / 2
        tensor = tensor * 2.0 ** torch.floor(torch.log2(top / tensor.abs().max()))
    return tensor.to(CASTS[name]).contiguous()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--width", type=int, default=320)
    parser.add_argument("--layers", type=int, default=6)
    options = parser.parse_args()
    model, optimizer, loss = train(options.steps, options.width, options.layers)
    state = {name: optimizer.state[tensor] for name, tensor in model.named_parameters()}
    sets = {"weights": {name: tensor.detach() for name, tensor in model.named_parameters()},
            "adam-m": {name: entry["exp_avg"] for name, entry in state.items()},
            "adam-v": {name: entry["exp_avg_sq"] for name, entry in state.items()}}
    for name, tensors in sets.items():
        for dtype in CASTS:
            converted = {key: cast(tensor, dtype, name != "weights") for key, tensor in tensors.items()}
            save_file(converted, options.folder / f"{name}-{dtype}.safetensors")
    parameters = sum(tensor.numel() for tensor in sets["weights"].values())
    (options.folder / "model.txt").write_text(
        f"{parameters:,} parameters, {options.steps} steps, loss {loss:.2f}")


if __name__ == "__main__":
    main()
