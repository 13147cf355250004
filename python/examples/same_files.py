"""A model in several files is trained and written back into the same files, with the state of the run beside it (torchtune#674)."""

import pathlib

import espalier
import espalier.torch
import torch

model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64))
folder = pathlib.Path("model")
folder.mkdir(exist_ok=True)
index = folder / "model.safetensors.index.json"
espalier.save_safetensors(folder / "model.safetensors", model, max_shard_size="20KB", metadata={"format": "pt"})
files = sorted(each.name for each in folder.iterdir())
print(*files)

# All files are one model.
model.load_state_dict(espalier.load(index, framework="torch"))
optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95))
for _ in range(3):
    model(torch.randn(8, 64)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()

# Back in the form in which it came: the same names, and each tensor in the file that it was in.
espalier.save_safetensors(folder / "model.safetensors", model, like=index, metadata={"format": "pt"})
assert sorted(each.name for each in folder.iterdir()) == files

# The run goes on from one file: betas are a tuple, the step a tensor, and random numbers go on.
run = {"model": model, "optimizer": optimizer, "rng": espalier.torch.random_state(), "epochs_run": 1, "max_steps": None}
espalier.save("run.espalier", run)
rest = espalier.torch.load_into({"model": model, "optimizer": optimizer}, "run.espalier")
espalier.torch.set_random_state(rest["rng"])
print({key: value for key, value in rest.items() if key != "rng"})
