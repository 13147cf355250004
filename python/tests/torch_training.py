"""A small transformer in torch, with AdamW, a schedule, dropout and three generators of random numbers."""

import random

import espalier
import torch
from killed_training import Batches
from torch import nn


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(17, 32)
        self.position = nn.Parameter(torch.randn(12, 32))
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True) for _ in range(2))
        self.head = nn.Linear(32, 17, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        hidden = self.embed(tokens) + self.position
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(hidden)


def train(folder, steps):
    torch.set_num_threads(1)  # so that a step takes the time of one
    torch.manual_seed(0)
    random.seed(0)
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=steps)
    live = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "data": Batches()}
    losses = []
    with espalier.Checkpointer(folder, keep=2, sync=False) as checkpointer:
        rest, step = checkpointer.restore(into=live)
        if step:
            losses = rest["losses"]
            torch.set_rng_state(rest["rng"]["torch"])
            random.setstate(rest["rng"]["python"])
        for step in range(step + 1, steps + 1):
            tokens = torch.from_numpy(next(live["data"]))
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
            (loss * (1 + 0.01 * random.random())).backward()
            optimizer.step()
            scheduler.step()
            losses.append(float(loss.detach()))
            rng = {"torch": torch.get_rng_state(), "python": random.getstate()}
            checkpointer.save(step, {**live, "rng": rng, "losses": losses})
    assert len(losses) == steps
