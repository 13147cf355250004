"""Makes the checkpoints of torch.distributed.checkpoint in `files`, and beside each the tree that torch loads, as JSON.

    python make_files.py [FOLDER [NAME...]]

Needs torch and numpy. Each checkpoint is a folder, NAME.dcp. NAME.json is in the words of ../torch/make_files.py.
"""

import datetime
import importlib.util
import json
import os
import pathlib
import shutil
import sys
import warnings

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner, _EmptyStateDictLoadPlanner
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

HERE = pathlib.Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("torch_files", HERE.parent / "torch" / "make_files.py")
torch_files = importlib.util.module_from_spec(spec)
spec.loader.exec_module(torch_files)

PROCESSES = 4


def numbered(shape, dtype=torch.float32):
    count = 1
    for axis in shape:
        count *= axis
    return torch.arange(count, dtype=torch.float32).reshape(shape).to(dtype)


def training():
    """A run of one process: what users pass to dcp.save()."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.LayerNorm(3), torch.nn.Linear(3, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(2, 4)).square().sum().backward()
        optimizer.step()
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": 3,
        "loss": 0.25,
        "name": "tiny",
        "nothing": None,
        "flags": {"resumed": True, "shape": model[0].weight.shape, "dtype": torch.bfloat16},
        "list": [torch.arange(3), torch.ones(2, 2), {"deep": [torch.zeros(1), 7]}],
        "plain list": [1, "two", None],
        "tuple": (1, torch.arange(2)),
        "empty list": [],
        "empty dict": {},
        "integer keys": {0: torch.tensor(1.5), -5: "text", 10: torch.arange(2)},
        "dotted.name": torch.arange(2, dtype=torch.int16),
        "bfloat16": numbered((3, 5), torch.bfloat16),
        "float8": numbered((2, 4)).to(torch.float8_e4m3fn),
        "complex": torch.tensor([1 + 2j, -3j]),
        "bool": torch.tensor([True, False, True]),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
        "no elements": torch.empty(0, 4),
        "transposed": numbered((3, 4)).t(),
        "part": numbered((100,))[10:12],
    }


def flat():
    """Saved without flattening: there is no planner data, and names are the keys."""
    return {"a.weight": numbered((2, 3)), "a.bias": numbered((3,)), "step": torch.tensor(7), "config": {"lr": 0.1, "betas": (0.9, 0.99)}}


def sharded():
    """A run of four processes with a mesh of 2 x 2, and a line of 4."""
    square = init_device_mesh("cpu", (2, 2), mesh_dim_names=("rows", "columns"))
    line = init_device_mesh("cpu", (PROCESSES,))
    rank = torch.distributed.get_rank()

    def cut(tensor, mesh, *placements):
        return distribute_tensor(tensor, mesh, placements)

    return {
        "model": {
            "both": cut(numbered((6, 10)), square, Shard(0), Shard(1)),
            "both, bfloat16": cut(numbered((4, 3, 8), torch.bfloat16), square, Shard(2), Shard(0)),
            "rows": cut(numbered((8, 3)), line, Shard(0)),
            "columns": cut(numbered((3, 8), torch.int32), line, Shard(1)),
            "uneven": cut(numbered((7, 2)), line, Shard(0)),
            "fewer rows than processes": cut(numbered((2, 3)), line, Shard(0)),
            "twice": cut(numbered((8, 2)), square, Shard(0), Shard(0)),
            "replicated": cut(numbered((2, 2)), line, Replicate()),
            "half replicated": cut(numbered((4, 2)), square, Replicate(), Shard(0)),
            "no elements": cut(torch.empty(0, 4), line, Shard(0)),
            "plain": numbered((5,)),
        },
        "optimizer": {"state": [{"exp_avg": cut(numbered((6, 2)), line, Shard(0)), "step": torch.tensor(3.0)}]},
        "rng": {f"rank {rank}": torch.full((2,), rank)},
        "world": PROCESSES,
    }


# Parameters, views, strides: DCP saves each as a tensor of its own, and parameters as plain ones.
CASES = {
    "training": (training, 1, {}),
    "views": (torch_files.views, 1, {}),
    "flat": (flat, 1, {"flatten_state_dict": False}),
    "sharded": (sharded, PROCESSES, {}),
}


def save(make, folder, options):
    writer = dcp.FileSystemWriter(folder, single_file_per_rank=True)
    no_dist = not torch.distributed.is_initialized()
    dcp.save(make(), storage_writer=writer, planner=DefaultSavePlanner(**options), no_dist=no_dist)


def run(rank, name, folder, port):
    make, count, options = CASES[name]
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.distributed.init_process_group("gloo", rank=rank, world_size=count, timeout=datetime.timedelta(seconds=120))
    save(make, folder, options)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def load(folder):
    """All that torch can load without a state to load into, as dcp_to_torch_save() does."""
    state = {}
    _load_state_dict(state, storage_reader=dcp.FileSystemReader(folder), planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    return state


def main():
    warnings.simplefilter("ignore")
    files = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else HERE / "files"
    files.mkdir(exist_ok=True)
    for number, name in enumerate(sys.argv[2:] or CASES):
        make, count, options = CASES[name]
        folder = files / f"{name}.dcp"
        shutil.rmtree(folder, ignore_errors=True)
        # The writer keeps the path in .metadata.
        os.chdir(files)
        if count == 1:
            save(make, folder.name, options)
        else:
            torch.multiprocessing.spawn(run, (name, folder.name, 29510 + number), nprocs=count)
        expected = torch_files.describe(load(folder.name), {})
        (files / f"{name}.json").write_text(json.dumps(expected, indent=0, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    main()
