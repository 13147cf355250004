#!/usr/bin/env python3
"""Trains the language model of train.py a little further, and saves its weights before and after: the pairs of bench/delta.py.

400 steps at a learning rate of 1e-3. Then, for each of three ways to go on, 20 steps to settle, the base, and 1, 10 and 100 steps more:
"rl" at 1e-6, as reinforcement learning does (the rate is that of RL, the loss is not), "tune" at 1e-5 on other text, and "train" at
1e-3. The other text is the repository's own Markdown. It needs torch and safetensors.
"""

import argparse
import pathlib
import sysconfig

import torch
from safetensors.torch import save_file

import train

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
STEPS, SETTLE, AFTER = 400, 20, (1, 10, 100)
WAYS = {"rl": (1e-6, "sources"), "tune": (1e-5, "documents"), "train": (1e-3, "sources")}


def texts():
    """The number of symbols, and both texts as numbers: those bytes of the documents that the sources have, too."""
    symbols, sources = train.text()
    files = sorted(pathlib.Path(sysconfig.get_path("stdlib")).glob("*.py"))
    joined = b"".join(file.read_bytes() for file in files)
    used = torch.tensor(bytearray(joined[:train.TEXT_BYTES])).unique()
    files = sorted(path for folder in ("", "docs", "docs/decisions") for path in (ROOT / folder).glob("*.md"))
    documents = torch.tensor(bytearray(b"".join(file.read_bytes() for file in files)))
    documents = documents[torch.isin(documents, used)]
    return symbols, {"sources": sources, "documents": torch.searchsorted(used, documents)}


class Trainer:
    def __init__(self, width, layers):
        torch.manual_seed(train.SEED)
        symbols, self.texts = texts()
        self.model = train.Model(symbols, width, layers)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def steps(self, n, rate, text, warm_up=0):
        tokens = self.texts[text]
        for step in range(n):
            for group in self.optimizer.param_groups:
                group["lr"] = rate * min(1, (step + 1) / warm_up) if warm_up else rate
            starts = torch.randint(len(tokens) - train.CONTEXT - 1, (train.BATCH,))
            rows = torch.stack([tokens[s:s + train.CONTEXT + 1] for s in starts])
            loss = torch.nn.functional.cross_entropy(self.model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()

    def state(self):
        return {"model": {k: v.clone() for k, v in self.model.state_dict().items()},
                "optimizer": {k: {n: t.clone() for n, t in s.items()} for k, s in self.optimizer.state_dict()["state"].items()},
                "random": torch.get_rng_state()}

    def restore(self, state):
        self.model.load_state_dict(state["model"])
        groups = self.optimizer.state_dict()["param_groups"]
        copies = {k: {n: t.clone() for n, t in s.items()} for k, s in state["optimizer"].items()}
        self.optimizer.load_state_dict({"state": copies, "param_groups": groups})
        torch.set_rng_state(state["random"])

    def save(self, folder, name):
        weights = {key: tensor.detach() for key, tensor in self.model.named_parameters()}
        for dtype in ("f32", "bf16"):
            save_file({key: train.cast(tensor, dtype, False) for key, tensor in weights.items()},
                      folder / f"{name}-{dtype}.safetensors")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--width", type=int, default=320)
    parser.add_argument("--layers", type=int, default=6)
    options = parser.parse_args()
    trainer = Trainer(options.width, options.layers)
    loss = trainer.steps(options.steps, 1e-3, "sources", warm_up=20)
    trained = trainer.state()
    for way, (rate, text) in WAYS.items():
        trainer.restore(trained)
        trainer.steps(SETTLE, rate, text)
        trainer.save(options.folder, f"{way}-base")
        done = 0
        for k in AFTER:
            trainer.steps(k - done, rate, text)
            done = k
            trainer.save(options.folder, f"{way}-{k}")
    parameters = sum(tensor.numel() for tensor in trainer.model.parameters())
    (options.folder / "steps.txt").write_text(f"{parameters:,} parameters, {options.steps} steps, loss {loss:.2f}")


if __name__ == "__main__":
    main()
