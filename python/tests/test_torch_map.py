"""Training goes on, bit for bit, in another layout of the model and of the optimizer's state."""

import espalier
import pytest

torch = pytest.importorskip("torch")

# Fused, in another order of rotary pairs, transposed, and stacked.
RULES = {
    "espalier_map": 1,
    "name": "layouts",
    "along": {"left": ["optimizer.{param}.{slot}"], "right": ["optimizer.{param}.{slot}"]},
    "rules": [
        "layers.{i}.q [(h 2 p) n], layers.{i}.k [(h 2 p) n] <-> fused.{i}.qk [(h p 2)+(h p 2) n]",
        "layers.{i}.out [o n] <-> stacked.out [i n o]",
        "layers.{i}.norm [n] <-> stacked.norm [i n]",
    ],
}
LAYERS, HEADS, HALF, WIDTH = 3, 2, 4, 16


class Separate(torch.nn.Module):
    def __init__(self):
        super().__init__()
        random = torch.Generator().manual_seed(1)
        self.layers = torch.nn.ParameterDict()
        for i in range(LAYERS):
            for name, shape in {"q": (WIDTH, WIDTH), "k": (WIDTH, WIDTH), "out": (WIDTH, WIDTH), "norm": (WIDTH,)}.items():
                self.layers[f"{i}/{name}"] = torch.nn.Parameter(torch.randn(shape, generator=random) / 4)

    def named(self):
        return {f"layers.{name.replace('/', '.')}": value for name, value in self.layers.items()}

    def weights(self, i):
        return [self.layers[f"{i}/{name}"] for name in ("q", "k", "out", "norm")]


class Joined(torch.nn.Module):
    def __init__(self, state):
        super().__init__()
        self.parts = torch.nn.ParameterDict()
        for name, value in state.items():  # A dict it would sort, and the optimizer numbers them in this order.
            self.parts[name.replace(".", "/")] = torch.nn.Parameter(value)

    def named(self):
        return {name.replace("/", "."): value for name, value in self.parts.items()}

    def weights(self, i):
        """The same elements in the layout of Separate, so that sums add them in the same order."""
        q, k = self.parts[f"fused/{i}/qk"].chunk(2)
        halves = [w.reshape(HEADS, HALF, 2, WIDTH).transpose(1, 2).reshape(WIDTH, WIDTH) for w in (q, k)]
        return [*halves, self.parts["stacked/out"][i].t().contiguous(), self.parts["stacked/norm"][i]]


def train(model, optimizer, steps, seed):
    random = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        x = torch.randn((8, WIDTH), generator=random)
        y = torch.randn((8, WIDTH), generator=random)
        for i in range(LAYERS):
            q, k, out, norm = model.weights(i)
            x = x + ((x * norm) @ q.t() * ((x * norm) @ k.t()).tanh()) @ out.t()
        optimizer.zero_grad()
        (x - y).square().mean().backward()
        optimizer.step()


def adamw(model):
    return torch.optim.AdamW(list(model.named().values()), lr=3e-3, weight_decay=0.1, foreach=False)


@pytest.mark.parametrize("by", ["number", "name"])
def test_training_goes_on(tmp_path, by):
    model = Separate()
    optimizer = adamw(model)
    train(model, optimizer, 5, seed=2)
    names = list(model.named())
    saved = optimizer.state_dict()
    if by == "name":
        saved = {names[i]: state for i, state in saved["state"].items()}
    path = tmp_path / "run.espalier"
    espalier.save(path, {"model": dict(model.named()), "optimizer": saved})

    sizes = {"p": HALF}
    along = "optimizer.state.{param#}.{slot}" if by == "number" else ()
    mapped = espalier.map(path, RULES, at="model", along=along, sizes=sizes)
    mapped.save(tmp_path / "mapped.espalier")
    state = espalier.load(tmp_path / "mapped.espalier", framework="torch")
    other = Joined(state["model"])
    resumed = adamw(other)
    if by == "number":
        assert state["optimizer"]["param_groups"][0]["params"] == list(range(LAYERS + 2))
        resumed.load_state_dict(state["optimizer"])
    else:
        saved = resumed.state_dict()
        saved["state"] = {i: state["optimizer"][name] for i, name in enumerate(other.named())}
        resumed.load_state_dict(saved)

    train(model, optimizer, 20, seed=3)
    train(other, resumed, 20, seed=3)
    espalier.save(tmp_path / "end.espalier", {"model": dict(other.named())})
    back = espalier.map(tmp_path / "end.espalier", RULES, at="model", reverse=True, sizes=sizes).load(framework="torch")["model"]
    differences = [(back[name] - value).abs().max().item() for name, value in model.named().items()]
    assert max(differences) == 0
    if by == "number":
        espalier.save(tmp_path / "all.espalier", {"model": dict(other.named()), "optimizer": resumed.state_dict()})
        like = tmp_path / "run.espalier"  # Otherwise it numbers the parameters as it makes them.
        again = espalier.map(tmp_path / "all.espalier", RULES, at="model", along=along, reverse=True, sizes=sizes, like=like).load(framework="torch")
        mine = optimizer.state_dict()
        assert again["optimizer"]["param_groups"] == mine["param_groups"]
        for i, moments in mine["state"].items():
            assert all(torch.equal(again["optimizer"]["state"][i][slot], value) for slot, value in moments.items())
    # The state matters: with fresh moments, the same training ends elsewhere.
    fresh = Joined(espalier.load(tmp_path / "mapped.espalier", framework="torch")["model"])
    train(fresh, adamw(fresh), 20, seed=3)
    assert max((a - b).abs().max().item() for a, b in zip(fresh.parts.values(), other.parts.values(), strict=True)) > 1e-3
