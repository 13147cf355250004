"""Training by several processes that can be killed at any time, with FSDP2:

    torchrun --nproc-per-node 2 train_ranks.py

Run it again after a kill, with as many processes as you like: it goes on after the last complete step.
"""

import espalier
import espalier.torch
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")  # "cpu:gloo,cuda:nccl" with GPUs
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Dropout(0.1), torch.nn.Linear(64, 4))
for layer in (*model, model):
    fully_shard(layer)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
torch.manual_seed(dist.get_rank())  # Each process has its own data and dropout.

with espalier.Checkpointer("run", every=5, keep=2, distributed=True) as checkpointer:
    rest, step = checkpointer.restore(into={"model": model, "optimizer": optimizer})
    # What each process had for itself; nothing in a new folder, or if another number of processes saved.
    own = checkpointer.load_per_rank(step) if step else None
    if own is not None:
        espalier.torch.set_random_state(own["random"])
    for step in range(step + 1, 21):
        x = torch.randn(32, 16)
        loss = (model(x) - x[:, :4]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        checkpointer.save(
            step,
            {"model": model, "optimizer": optimizer, "seen": 32 * step * dist.get_world_size()},
            metrics={"loss": loss.item()},
            per_rank={"random": espalier.torch.random_state()},
        )

if dist.get_rank() == 0:
    # One file, as that of one process: here with the whole weight, of any program.
    print(checkpointer.steps, espalier.load(checkpointer.path(20), at="model")["0.weight"].shape)
dist.destroy_process_group()
