"""A large .pt file becomes one that opens at once: no pickle runs, no process holds it all, and all of it arrives (OLMo#388)."""

import espalier
import torch

model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.Linear(256, 256))
optimizer = torch.optim.AdamW(model.parameters())
model(torch.randn(8, 256)).square().mean().backward()
optimizer.step()
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "none": {}}, "run.pt")

# The pickle is read as data. Tensors are mapped, so that the save copies from one file to the other.
with espalier.open("run.pt") as old:
    espalier.save("run.espalier", old.load(framework="torch"))

# The optimizer's state without the model. The processes of a machine that read it share the pages of the file.
with espalier.open("run.espalier") as checkpoint:
    print(checkpoint.verify())
    moments = checkpoint.at("optimizer/state").load(framework="torch")
    print(len(moments), moments[0]["exp_avg"].shape, moments[0]["exp_avg"].dtype)

# All of it arrived, to the last bit: also empty dicts and integer keys.
state = espalier.load("run.espalier", framework="torch")
before = torch.load("run.pt", weights_only=True)
assert list(state) == list(before) and state["none"] == {} and list(state["optimizer"]["state"]) == [0, 1, 2, 3]
assert all(torch.equal(state["model"][name], tensor) for name, tensor in before["model"].items())
print("equal")
