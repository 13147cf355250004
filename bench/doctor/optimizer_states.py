"""Training states: two small models under eight optimizers, at some steps, with a running average of the weights."""

import math

from catalog import add

LENGTH, WORDS, USED = 24, 300, 250


def optimizers():
    from torch import optim
    return {"adam": lambda p: optim.Adam(p, 1e-3), "adamw_amsgrad": lambda p: optim.AdamW(p, 1e-3, amsgrad=True),
            "sgd": lambda p: optim.SGD(p, 0.05, momentum=0.9, weight_decay=1e-4), "rmsprop": lambda p: optim.RMSprop(p, 3e-4, momentum=0.9, centered=True),
            "adagrad": lambda p: optim.Adagrad(p, 0.01), "adamax": lambda p: optim.Adamax(p, 1e-3), "nadam": lambda p: optim.NAdam(p, 1e-3),
            "adadelta": lambda p: optim.Adadelta(p)}


def language_model(width=96, layers=6):
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(WORDS, width)
            self.places = nn.Parameter(torch.zeros(1, LENGTH, width))
            self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(width, 4, 2 * width, batch_first=True, norm_first=True, dropout=0) for _ in range(layers))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, WORDS)
            self.register_buffer("mask", torch.triu(torch.full((LENGTH, LENGTH), -math.inf), 1))

        def forward(self, x):
            x = self.words(x) + self.places
            for block in self.blocks:
                x = block(x, src_mask=self.mask)
            return self.head(self.norm(x))
    return Model()


def recurrent_model():
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.rnn, self.head = nn.Embedding(WORDS, 64, padding_idx=0), nn.LSTM(64, 96, 3, batch_first=True, bidirectional=True), nn.Linear(192, WORDS)

        def forward(self, x):
            return self.head(self.rnn(self.words(x))[0])
    return Model()


def convolutional_model():
    from torch import nn
    widths = [1, 16, 32, 32, 32, 32, 32]
    blocks = [nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU()) for a, b in zip(widths, widths[1:])]
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))


def text_batch():
    """Texts of made-up words. A few words are common and most are rare (Zipf's law); the last never occur. Every second word
    is given by the one before it, so there is something to learn."""
    import torch
    share = 1 / torch.arange(1, USED + 1.0)
    text = torch.multinomial(share / share.sum(), 16 * (LENGTH + 2), True).view(16, -1)
    text[:, 1::2] = (text[:, ::2] * 7 + 3) % USED
    return text[:, :LENGTH], text[:, 1:LENGTH + 1]


def image_batch():
    import torch
    classes = torch.randint(10, (32,))
    patterns = torch.randn(10, 1, 12, 12, generator=torch.Generator().manual_seed(3))
    return patterns[classes] + 0.5 * torch.randn(32, 1, 12, 12), classes


def training(model, batch, optimizer_of, steps, prune=False):
    import torch
    optimizer = optimizer_of(model.parameters())
    average = {name: value.clone() for name, value in model.state_dict().items()}
    for _ in range(steps):
        x, y = batch()
        torch.nn.functional.cross_entropy(model(x).flatten(0, -2) if y.dim() > 1 else model(x), y.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
        for name, value in model.state_dict().items():
            if value.is_floating_point() and torch.isfinite(value).all():
                average[name].mul_(0.99).add_(value, alpha=0.01)
            else:
                average[name].copy_(value)
    if prune:
        with torch.no_grad():
            for weight in model.parameters():
                if weight.dim() == 2:
                    weight[weight.abs() < weight.abs().median()] = 0
        return {"model": model.state_dict()}
    return {"model": model.state_dict(), "opt": optimizer.state_dict()["state"], "ema": average}


MODELS = {"text": (language_model, text_batch), "images": (convolutional_model, image_batch)}
NAMES = ("adam", "adamw_amsgrad", "sgd", "rmsprop", "adagrad", "adamax", "nadam", "adadelta")
for kind in MODELS:
    for key in NAMES:
        for count in (0, 1, 60) if key == "adam" else (1, 60):
            add("training states", f"training-{kind}-{key}-{count}",
                lambda kind=kind, key=key, count=count: training(MODELS[kind][0](), MODELS[kind][1], optimizers()[key], count))
add("training states", "training-text-long", lambda: training(language_model(64), text_batch, optimizers()["adam"], 400))
add("training states", "training-text-pruned", lambda: training(language_model(64), text_batch, optimizers()["adam"], 50, prune=True))
for count in (0, 60):
    add("training states", f"training-lstm-adam-{count}", lambda count=count: training(recurrent_model(), text_batch, optimizers()["adam"], count))
