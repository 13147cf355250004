"""Kills a training at random moments, and lets it go on from its newest checkpoint each time.

A training is a module with `train(folder, steps)`: it goes on from the newest checkpoint in the folder, saves each step, and
ends with the last one. `end_of_killed_training()` checks that its last checkpoint is that of an uninterrupted training,
bit for bit: weights, optimizer, schedule, random numbers, position in the data, losses.

ESPALIER_KILLS says how often it is killed; by default 8 times.
"""

import importlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import espalier
import numpy as np

KILLS = int(os.environ.get("ESPALIER_KILLS", "8"))
STEPS_PER_KILL = 20


class Batches:
    """A data loader that knows its position. A batch is numbers of 0 to 16, each one above that before it."""

    def __init__(self):
        self.order = np.random.default_rng(5)
        self.epoch, self.index, self.permutation = 0, 0, self.order.permutation(20)

    def __next__(self):
        if self.index == len(self.permutation):
            self.epoch, self.index, self.permutation = self.epoch + 1, 0, self.order.permutation(20)
        seed = int(self.permutation[self.index])
        self.index += 1
        return (np.arange(8)[:, None] + seed + np.arange(13)) % 17

    def state_dict(self):
        return {"epoch": self.epoch, "index": self.index, "permutation": self.permutation.copy(),
                "order": self.order.bit_generator.state}  # fmt: skip

    def load_state_dict(self, state):
        self.epoch, self.index = state["epoch"], state["index"]
        self.permutation = np.asarray(state["permutation"])
        self.order.bit_generator.state = state["order"]


def end_of_killed_training(module, folder, kills=KILLS):
    """Trains in the folder, with kills and without, and compares. Returns the path of the last checkpoint."""
    # A process of its own, without threads: only from such a one is it safe to fork.
    command = [sys.executable, __file__, module, str(folder), str(kills)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, done.stderr
    whole, killed = (digest(folder / name, kills) for name in ("whole", "killed"))
    assert killed == whole, "the last checkpoints differ"
    assert not [name for name in os.listdir(folder / "killed") if name.endswith(".tmp")]
    return last(folder / "killed", kills)


def last(folder, kills):
    return pathlib.Path(espalier.Checkpointer(folder, keep=None).path(kills * STEPS_PER_KILL))


def digest(folder, kills):
    with espalier.open(last(folder, kills)) as file:
        file.verify()
        return file.digest


def latest(folder):
    return espalier.Checkpointer(folder, keep=None).latest or 0


def start(train, folder, steps):
    """A process that trains. A fork, because importing the framework takes longer than the training."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        train(folder, steps)
        status = 0
    finally:
        os._exit(status)


def has_ended(child):
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def train_and_kill(train, folder, kills):
    steps = kills * STEPS_PER_KILL
    assert os.waitpid(start(train, folder / "whole", steps), 0)[1] == 0
    chance = random.Random(11)
    step = 0
    for kill in range(kills):
        child = start(train, folder / "killed", steps)
        # Of four kills, one may hit the start. The others come after some steps, and anywhere in one.
        goal = step + chance.randrange(1, STEPS_PER_KILL) if kill % 4 else step
        while latest(folder / "killed") < goal and not has_ended(child):
            time.sleep(0.001)
        time.sleep(chance.random() * (0.02 if kill % 4 else 0.15))
        os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL, "it ended before it was killed"
        step = latest(folder / "killed")
    assert step >= kills // 2
    assert os.waitpid(start(train, folder / "killed", steps), 0)[1] == 0


if __name__ == "__main__":
    train_and_kill(importlib.import_module(sys.argv[1]).train, pathlib.Path(sys.argv[2]), int(sys.argv[3]))
