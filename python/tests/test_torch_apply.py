"""Updates of live tensors and modules of torch."""

import espalier
import pytest

torch = pytest.importorskip("torch")


def model_at(step):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.LayerNorm(1024)).to(torch.bfloat16)
    for i in range(step):
        torch.manual_seed(100 + i)
        with torch.no_grad():
            bits = model[0].weight.view(torch.int16)
            bits += (torch.rand(bits.shape) < 0.01).to(torch.int16)
    return model


def test_a_module_is_updated_where_it_is(tmp_path):
    paths = [tmp_path / f"{step}.espalier" for step in range(3)]
    for step, path in enumerate(paths):
        espalier.save(path, {"model": model_at(step).state_dict(), "step": step}, base=paths[:step][-1:], sync=False)
    assert paths[2].stat().st_size < 30_000
    model = model_at(0)
    weight = model[0].weight
    update = espalier.apply(paths[2], {"model": model})
    assert (update.patched, update.read, update.values) == (1, 0, {"step": 2})
    assert model[0].weight is weight
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), model_at(2).state_dict().values(), strict=True))

    with pytest.raises(espalier.Unsupported, match="not contiguous"):
        espalier.apply(paths[2], {"0.weight": weight.detach().t()}, at="model", strict="template")
    with pytest.raises(espalier.Unsupported, match="on meta"):
        espalier.apply(paths[2], {"model": model.to("meta")})

    freed = torch.zeros(1024, dtype=torch.bfloat16)
    freed.untyped_storage().resize_(0)
    with pytest.raises(espalier.Unsupported, match="1.weight: a tensor whose storage was freed"):
        espalier.apply(paths[2], {"1.weight": freed}, at="model", strict="template")

    class Own(torch.Tensor):
        pass

    with pytest.raises(espalier.Unsupported, match="a subclass of torch.Tensor"):
        espalier.apply(paths[2], {"1.weight": torch.zeros(1024).as_subclass(Own)}, at="model", strict="template")
