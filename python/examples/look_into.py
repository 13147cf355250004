"""A look into a file, cell by cell: run it in an editor that knows `# %%`, or as a program with a file's name."""

# %% A file to look into
import sys

import espalier
import numpy as np

path = sys.argv[1] if len(sys.argv) > 1 else "run.espalier"
if len(sys.argv) < 2:
    layers = [{"weight": np.random.default_rng(i).standard_normal((64, 64), np.float32)} for i in range(4)]
    espalier.save(path, {"model": {"layers": layers}, "step": 7}, metadata={"epoch": 3})

# %% In a notebook, the last line of a cell shows the tree to open and close. Nothing of the tensors is read.
checkpoint = espalier.open(path)
checkpoint

# %% What takes the room
tensors = [(where, tensor) for where, tensor in checkpoint.find("**") if isinstance(tensor, espalier.Tensor)]
for where, tensor in sorted(tensors, key=lambda pair: -pair[1].nbytes)[:10]:
    print(f"{tensor.nbytes:>14,}  {tensor.dtype:6} {str(list(tensor.shape)):16} {where}")

# %% A part of one tensor: only its chunks are read.
where, tensor = tensors[0]
print(where, tensor[:2, :4] if tensor.ndim == 2 else tensor.numpy())

# %% Whether every byte is intact; not in formats without hashes.
print(checkpoint.verify())
