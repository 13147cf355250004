"""Makes the two checkpoints in this folder: a real training run, saved in the middle of an epoch.

A small convolutional network learns scikit-learn's digits (1797 images of 8 x 8 grey pixels). The
run is planned for 20 epochs and saved twice on its way: `digits.safetensors` after 150 optimizer
steps and `digits-later.safetensors` after 153. A file holds all that the run needs to go on: the
weights, Adam's state, the position in the learning-rate schedule, the shuffled order of the epoch
under way, and the random generator. `--check` proves that: it resumes from the first file, takes
the steps up to the second, and compares every tensor and every metadata string.

    python3 -m venv venv
    venv/bin/pip install -r requirements.txt
    venv/bin/python train.py           # writes both files beside this script
    venv/bin/python train.py --check   # writes nothing; exit status 1 if anything differs

It takes some seconds on one core and needs no GPU.
"""

import argparse
import json
import os
import pathlib
import platform
import sys

# The same instructions on every x86-64 machine, so that the sums round alike everywhere. Both
# libraries read these when they are loaded, hence before the imports.
os.environ["ATEN_CPU_CAPABILITY"] = "default"
os.environ["MKL_CBWR"] = "COMPATIBLE"

import numpy  # noqa: E402
import safetensors  # noqa: E402
import safetensors.torch  # noqa: E402
import sklearn  # noqa: E402
import sklearn.datasets  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402

SEED = 20260
EPOCHS = 20
BATCH = 64
TEST_IMAGES = 360
MAX_LEARNING_RATE = 3e-3
SAVES = {150: "digits.safetensors", 153: "digits-later.safetensors"}


class Digits(nn.Module):
    """Two convolutions and two fully connected layers: 38 378 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(32 * 4 * 4, 64),
            nn.ReLU(),
            nn.Linear(64, 10),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images)


class Data:
    """The digits, split once into images to train on and images held out."""

    def __init__(self) -> None:
        digits = sklearn.datasets.load_digits()
        images = torch.from_numpy(digits.images).float().div(16).unsqueeze(1)
        labels = torch.from_numpy(digits.target).long()
        # A generator of its own: the split must not depend on how far a run has come.
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(SEED))
        test, train = order[:TEST_IMAGES], order[TEST_IMAGES:]
        self.images, self.labels = images[train], labels[train]
        self.test_images, self.test_labels = images[test], labels[test]

    @property
    def steps_per_epoch(self) -> int:
        return -(-len(self.labels) // BATCH)


class Run:
    """A training run and everything that it needs to continue: the contents of a checkpoint."""

    def __init__(self, data: Data) -> None:
        torch.manual_seed(SEED)
        self.data = data
        self.model = Digits()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=MAX_LEARNING_RATE)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizer, MAX_LEARNING_RATE, total_steps=EPOCHS * data.steps_per_epoch
        )
        self.step = 0
        self.order = torch.empty(0, dtype=torch.int64)
        self.loss = torch.tensor(0.0)

    def advance(self) -> None:
        """Takes one optimizer step."""
        position = self.step % self.data.steps_per_epoch
        if position == 0:
            self.order = torch.randperm(len(self.data.labels))
        batch = self.order[position * BATCH : (position + 1) * BATCH]
        self.model.train()
        output = self.model(self.data.images[batch])
        loss = nn.functional.cross_entropy(output, self.data.labels[batch])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.schedule.step()
        self.loss = loss.detach()
        self.step += 1

    def test_accuracy(self) -> float:
        """The share of the held-out images that the network names rightly now."""
        self.model.eval()
        with torch.no_grad():
            named = self.model(self.data.test_images).argmax(dim=1)
        return (named == self.data.test_labels).double().mean().item()

    def tensors(self) -> dict[str, torch.Tensor]:
        """Every tensor of the checkpoint under its dotted name."""
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        for index, state in self.optimizer.state_dict()["state"].items():
            for name, value in state.items():
                tensors[f"optimizer.state.{index}.{name}"] = value
        tensors["data.order"] = self.order
        tensors["rng.torch"] = torch.get_rng_state()
        tensors["train.loss"] = self.loss
        return tensors

    def metadata(self) -> dict[str, str]:
        """Everything but tensors: every value is a string, and some contain JSON."""
        return {
            "format": "pt",
            "task": "classify scikit-learn's digits",
            "step": str(self.step),
            "epoch": str(self.step // self.data.steps_per_epoch),
            "step_in_epoch": str(self.step % self.data.steps_per_epoch),
            "steps_per_epoch": str(self.data.steps_per_epoch),
            "epochs_planned": str(EPOCHS),
            "batch_size": str(BATCH),
            "seed": str(SEED),
            "schedule.name": "OneCycleLR",
            "learning_rate": repr(self.schedule.get_last_lr()[0]),
            "test_accuracy": f"{self.test_accuracy():.4f}",
            "train_loss": f"{self.loss.item():.6f}",
            "optimizer.param_groups": json.dumps(self.optimizer.state_dict()["param_groups"]),
            "schedule": json.dumps(self.schedule.state_dict()),
            "versions": json.dumps(
                {
                    "python": platform.python_version(),
                    "torch": torch.__version__,
                    "numpy": numpy.__version__,
                    "scikit-learn": sklearn.__version__,
                    "safetensors": safetensors.__version__,
                }
            ),
        }

    def load(self, path: pathlib.Path) -> None:
        """Goes back to the state that `path` holds."""
        with safetensors.safe_open(path, framework="pt") as file:
            metadata = file.metadata()
            tensors = {name: file.get_tensor(name) for name in file.keys()}
        self.model.load_state_dict(
            {
                name.removeprefix("model."): value
                for name, value in tensors.items()
                if name.startswith("model.")
            }
        )
        groups = json.loads(metadata["optimizer.param_groups"])
        state: dict[int, dict[str, torch.Tensor]] = {}
        for name, value in tensors.items():
            if name.startswith("optimizer.state."):
                _, _, index, field = name.split(".")
                state.setdefault(int(index), {})[field] = value
        self.optimizer.load_state_dict({"state": state, "param_groups": groups})
        self.schedule.load_state_dict(json.loads(metadata["schedule"]))
        self.step = int(metadata["step"])
        self.order = tensors["data.order"]
        self.loss = tensors["train.loss"]
        torch.set_rng_state(tensors["rng.torch"])


def save(folder: pathlib.Path) -> None:
    run = Run(Data())
    while run.step < max(SAVES):
        run.advance()
        if run.step in SAVES:
            path = folder / SAVES[run.step]
            safetensors.torch.save_file(run.tensors(), path, run.metadata())
            print(f"{path.name}: step {run.step}, test accuracy {run.test_accuracy():.4f}")


def differences(run: Run, path: pathlib.Path) -> list[str]:
    """The names of the tensors and metadata strings in which `run` and the file disagree."""
    with safetensors.safe_open(path, framework="pt") as file:
        stored_metadata = file.metadata()
        stored = {name: file.get_tensor(name) for name in file.keys()}
    tensors, metadata = run.tensors(), run.metadata()
    wrong = [name for name in stored.keys() ^ tensors.keys()]
    wrong += [name for name in stored_metadata.keys() ^ metadata.keys()]
    wrong += [
        name
        for name in stored.keys() & tensors.keys()
        if stored[name].dtype != tensors[name].dtype or not torch.equal(stored[name], tensors[name])
    ]
    wrong += [
        f"metadata {name}"
        for name in stored_metadata.keys() & metadata.keys()
        if stored_metadata[name] != metadata[name]
    ]
    return sorted(wrong)


def check(folder: pathlib.Path) -> bool:
    """Resumes from the first file and checks that the run arrives at the second."""
    first, last = min(SAVES), max(SAVES)
    run = Run(Data())
    run.load(folder / SAVES[first])
    good = True
    while True:
        if run.step in SAVES:
            wrong = differences(run, folder / SAVES[run.step])
            print(f"step {run.step}: {len(wrong)} differences from {SAVES[run.step]}")
            for name in wrong:
                print(f"  {name}")
            good = good and not wrong
        if run.step >= last:
            return good
        run.advance()


def main() -> int:
    parser = argparse.ArgumentParser(description="Makes the checkpoints, or checks them.")
    parser.add_argument("--check", action="store_true", help="resume, compare, write nothing")
    parser.add_argument(
        "--folder",
        type=pathlib.Path,
        default=pathlib.Path(__file__).resolve().parent,
        help="where the checkpoints are (default: beside this script)",
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.backends.mkldnn.enabled = False
    if arguments.check:
        return 0 if check(arguments.folder) else 1
    save(arguments.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
