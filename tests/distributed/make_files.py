"""Makes the folder `saved`, as two processes save it with espalier.torch.EspalierWriter.

    python make_files.py

Needs torch and the package. The names of the files in it are other ones each time.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from espalier.torch import EspalierWriter
from torch.distributed.tensor import Shard, distribute_tensor

TARGET = pathlib.Path(__file__).resolve().parent / "saved"
PROCESSES = 2


def state(mesh):
    rows = torch.arange(4).repeat_interleave(1 << 17).reshape(4, 1 << 17).float()  # of half a MiB: 1 MiB in each file
    columns = torch.arange(24).reshape(4, 6).float()
    uneven = torch.arange(5).float()
    model = {
        "rows": distribute_tensor(rows, mesh, [Shard(0)]),
        "columns": distribute_tensor(columns, mesh, [Shard(1)]),
        "uneven": distribute_tensor(uneven, mesh, [Shard(0)]),
        "whole": torch.ones(3, dtype=torch.bfloat16),
    }
    return {"model": model, "step": 7, "betas": (0.9, 0.999), "history": [{"loss": 1.5}, torch.zeros(2)]}


def worker(rank, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=PROCESSES)
    mesh = dist.device_mesh.init_device_mesh("cpu", (PROCESSES,))
    dcp.save(state(mesh), storage_writer=EspalierWriter(TARGET, compression=9))
    dist.destroy_process_group()


def main():
    shutil.rmtree(TARGET, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        program = [sys.executable, "-W", "ignore", __file__]
        processes = [subprocess.Popen([*program, str(rank), f"{folder}/store"]) for rank in range(PROCESSES)]
        if any(process.wait() for process in processes):
            sys.exit("a process failed")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        worker(int(sys.argv[1]), sys.argv[2])
