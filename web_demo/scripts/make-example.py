"""Makes the checkpoints of public/ that the page shows on a first visit: a real training run, saved three times.

A small convolutional network learns scikit-learn's digits (1797 images of 8 x 8 grey pixels; 360 of them are held
out). Each file is the whole state of the run, nested as the program has it: the weights, AdamW's moments and its two
parameter groups, the learning-rate schedule, the order of the epoch under way, and the random generator.
example-run.json lists the files, so that the page can show the run.

    python3 -m venv venv
    venv/bin/pip install espalier torch numpy scikit-learn
    venv/bin/python make-example.py

It takes some seconds on one core. tests/data/digits has a larger network on the same images.
"""

import json
import os
import pathlib

# The same instructions on every x86-64 machine, so that sums round alike. Torch reads these when it is loaded.
os.environ["ATEN_CPU_CAPABILITY"] = "default"
os.environ["MKL_CBWR"] = "COMPATIBLE"

import espalier  # noqa: E402
import sklearn.datasets  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402

PUBLIC = pathlib.Path(__file__).resolve().parent.parent / "public"
SEED = 20260
BATCH = 64
TEST_IMAGES = 360
EPOCHS = 12
MAX_LEARNING_RATE = 1e-2
SAVES = {60: "example.espalier", 120: "example-step-120.espalier", 180: "example-step-180.espalier"}
MOST_BYTES = 150_000


class Digits(nn.Module):
    """Two convolutions and two fully connected layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(8 * 4 * 4, 18),
            nn.ReLU(),
            nn.Linear(18, 10),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images)


def nested(model: nn.Module) -> dict:
    """The tensors of a model by module, as its code nests them: torch itself joins the names with dots."""
    tree: dict = {}
    for name, tensor in model.state_dict().items():
        *modules, last = name.split(".")
        at = tree
        for module in modules:
            at = at.setdefault(int(module) if module.isdigit() else module, {})
        at[last] = tensor
    return tree


def main() -> None:
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.backends.mkldnn.enabled = False
    digits = sklearn.datasets.load_digits()
    images = torch.from_numpy(digits.images).float().div(16).unsqueeze(1)
    labels = torch.from_numpy(digits.target).long()
    split = torch.randperm(len(labels), generator=torch.Generator().manual_seed(SEED))
    test, train = split[:TEST_IMAGES], split[TEST_IMAGES:]
    per_epoch = -(-len(train) // BATCH)

    torch.manual_seed(SEED)
    model = Digits()
    # As usual, weight decay is for matrices and not for biases and norms.
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}], lr=MAX_LEARNING_RATE
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS * per_epoch)
    losses: list[float] = []
    order = torch.empty(0, dtype=torch.int64)

    for step in range(1, max(SAVES) + 1):
        position = (step - 1) % per_epoch
        if position == 0:
            order = torch.randperm(len(train))
        batch = train[order[position * BATCH : (position + 1) * BATCH]]
        model.train()
        loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses = [*losses, round(loss.item(), 6)][-10:]
        if step not in SAVES:
            continue
        model.eval()
        with torch.no_grad():
            accuracy = (model(images[test]).argmax(dim=1) == labels[test]).double().mean().item()
        state = {
            "step": step,
            "model": nested(model),
            "optimizer": optimizer,
            "schedule": {key: value for key, value in schedule.state_dict().items() if not key.startswith("_")},
            "data": {"order": order, "epoch": (step - 1) // per_epoch, "position": position + 1},
            "train": {"losses": losses, "test_accuracy": accuracy, "batch_size": BATCH, "seed": SEED},
            "rng": {"torch": torch.get_rng_state()},
        }
        metadata = {"task": "classify scikit-learn's digits", "torch": str(torch.__version__)}
        espalier.save(PUBLIC / SAVES[step], state, metadata=metadata, compression=9)
        print(f"{SAVES[step]}: step {step}, loss {losses[-1]:.4f}, test accuracy {accuracy:.4f}")

    run = [{"name": f"step-{step}.espalier", "url": name, "size": (PUBLIC / name).stat().st_size} for step, name in SAVES.items()]
    (PUBLIC / "example-run.json").write_text(json.dumps(run) + "\n")
    size = sum((PUBLIC / name).stat().st_size for name in SAVES.values())
    print(f"{size} bytes in all")
    if size > MOST_BYTES:
        raise SystemExit(f"these files have {size} bytes, which is too much for a page to begin with")


main()
