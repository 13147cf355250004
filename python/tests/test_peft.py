"""Adapters of PEFT: saved and loaded bit for bit, on the base that they belong to."""

import copy
import os
import subprocess
import sys

import espalier
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")
import espalier.peft  # noqa: E402
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of the frameworks

SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 64}
WORDS = torch.arange(12).reshape(2, 6)


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)


def llama(seed=0, **options):
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(**{**SIZES, **options}, num_attention_heads=4, num_key_value_heads=4)
    return transformers.LlamaForCausalLM(config)


CONFIGS = {
    "lora": {},
    "dora": {"use_dora": True},
    "rslora": {"use_rslora": True, "rank_pattern": {"q_proj": 2}, "alpha_pattern": {"q_proj": 3}},
    "modules_to_save": {"modules_to_save": ["lm_head", "norm"]},
    "embeddings": {"target_modules": ["embed_tokens", "q_proj"]},
    "tokens": {"trainable_token_indices": [1, 5]},
    "bias": {"bias": "all"},
    "all": {"target_modules": "all-linear"},
    "pattern": {"target_modules": r"model\.layers\.\d+\..*\.(q|v)_proj"},
}


def tuned(base=None, seed=1, name="default", **options):
    """With numbers in all factors, as if it had been trained."""
    base = base or llama(attention_bias=options.get("bias") == "all")
    model = get_peft_model(base, LoraConfig(**{"r": 4, "target_modules": ["q_proj", "v_proj"], **options}), adapter_name=name)
    return shaken(model, name, seed)


def shaken(model, name="default", seed=1):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in get_peft_model_state_dict(model, adapter_name=name, save_embedding_layers=False).values():
            value += torch.randn(value.shape, generator=generator) * 0.1
    return model


def output(model):
    model.eval()
    with torch.no_grad():
        return model(WORDS).logits


def bits(model, name="default"):
    return espalier.save_bytes(espalier.peft._tensors(model, name))


@pytest.mark.parametrize("case", CONFIGS)
def test_an_adapter_comes_back_bit_for_bit(case, file):
    model = tuned(**CONFIGS[case])
    espalier.peft.save(file, model, metadata={"epoch": 3})
    wanted, words = bits(model), output(model)
    options = {"attention_bias": case == "bias"}
    again = llama(**options)
    state = torch.get_rng_state()
    again = espalier.peft.load(file, again)
    assert torch.equal(torch.get_rng_state(), state)
    assert bits(again) == wanted and torch.equal(output(again), words)
    trainable = {name for name, each in model.named_parameters() if each.requires_grad}
    assert {name for name, each in again.named_parameters() if each.requires_grad} == trainable and trainable
    # Into an adapter that is there, with other numbers.
    other = tuned(llama(**options), seed=2, **CONFIGS[case])
    assert bits(other) != wanted
    assert espalier.peft.load(file, other) is other and bits(other) == wanted
    assert espalier.open(file).metadata["epoch"] == 3


@pytest.mark.parametrize("kind", ["IA3Config", "LoHaConfig", "AdaLoraConfig", "VeraConfig"])
def test_other_kinds_of_adapters(kind, file):
    options = {"target_modules": ["q_proj", "v_proj"], **({"feedforward_modules": []} if kind == "IA3Config" else {})}
    if kind == "AdaLoraConfig":
        options["total_step"] = 10
    model = shaken(get_peft_model(llama(), getattr(peft, kind)(**options)))
    espalier.peft.save(file, model)
    again = espalier.peft.load(file, llama())
    assert bits(again) == bits(model) and torch.equal(output(again), output(model))


def test_half_precision_stays_what_it_was(file):
    for cast in (True, False):
        base = llama().to(torch.bfloat16)
        config = LoraConfig(r=4, target_modules=["q_proj"], modules_to_save=["lm_head"])
        model = shaken(get_peft_model(base, config, autocast_adapter_dtype=cast))
        espalier.peft.save(file, model)
        again = espalier.peft.load(file, llama().to(torch.bfloat16))
        assert bits(again) == bits(model)
        kept = {name: each.dtype for name, each in model.named_parameters()}
        assert {name: each.dtype for name, each in again.named_parameters()} == kept


def test_training_resumes_with_the_optimizer(tmp_path):
    def steps(model, optimizer, count):
        for _ in range(count):
            model(WORDS, labels=WORDS).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    def adam(model):
        return torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], 1e-2)

    model = tuned()
    optimizer = adam(model)
    steps(model, optimizer, 2)
    espalier.peft.save(tmp_path / "adapter.espalier", model)
    espalier.save(tmp_path / "optimizer.espalier", optimizer)
    steps(model, optimizer, 2)
    again = espalier.peft.load(tmp_path / "adapter.espalier", llama())
    other = adam(again)
    espalier.torch.load_into(other, tmp_path / "optimizer.espalier")
    steps(again, other, 2)
    assert bits(again) == bits(model) and espalier.save_bytes(other) == espalier.save_bytes(optimizer)


def test_another_base_is_refused(file):
    model = tuned()
    espalier.peft.save(file, model)
    wide, other, half = llama(hidden_size=64), llama(seed=5), llama().to(torch.bfloat16)
    one = llama()
    with torch.no_grad():
        one.model.norm.weight[3] += 1e-6
    for base, message in ((wide, "names, dtypes or shapes"), (half, "names, dtypes"), (other, "other numbers"), (one, "other numbers")):
        before = espalier.save_bytes(base)
        with pytest.raises(espalier.EspalierError, match=rf"another base.*{message}.*check_base=False"):
            espalier.peft.load(file, base)
        assert espalier.save_bytes(base) == before
    assert bits(espalier.peft.load(file, one, check_base="names")) == bits(model)
    assert bits(espalier.peft.load(file, other, check_base=False)) == bits(model)
    with pytest.raises(espalier.EspalierError, match="another base"):
        espalier.peft.load(file, tuned(llama(seed=5)))
    espalier.peft.save(file, model, hash_base="names")
    assert espalier.open(file).metadata["espalier.peft"]["base"]["digest"] is None
    assert bits(espalier.peft.load(file, llama(seed=5))) == bits(model)
    with pytest.raises(espalier.EspalierError, match="another base"):
        espalier.peft.load(file, llama(hidden_size=64))


def test_the_base_is_named(file, tmp_path):
    llama().save_pretrained(tmp_path / "base")
    base = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "base")
    model = get_peft_model(base, LoraConfig(r=4, target_modules=["q_proj"]), revision="v2")
    espalier.peft.save(file, model)
    about = espalier.open(file).metadata["espalier.peft"]["base"]
    assert about["name"] == str(tmp_path / "base") and about["revision"] == "v2"
    with pytest.raises(espalier.EspalierError, match="'v2'.*other numbers"):
        espalier.peft.load(file, llama(seed=3))


def test_buffers_are_no_part_of_the_base(file):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.linear, self.norm = torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)

        def forward(self, x):
            return self.norm(self.linear(x))

    model = get_peft_model(Net(), LoraConfig(r=2, target_modules=["linear"]))
    model(torch.randn(8, 4))
    espalier.peft.save(file, model)
    assert bits(espalier.peft.load(file, Net())) == bits(model)


def test_resized_embeddings(file):
    base = llama()
    base.resize_token_embeddings(70)
    model = tuned(base)
    tensors = get_peft_model_state_dict(model, save_embedding_layers=True)
    assert len(tensors) > len(get_peft_model_state_dict(model, save_embedding_layers=False))
    real = espalier.peft._tensors
    try:  # as if the base's files had another vocabulary, which PEFT looks up
        espalier.peft._tensors = lambda model, name, embeddings="auto": real(model, name, embeddings if embeddings != "auto" else True)
        espalier.peft.save(file, model)
    finally:
        espalier.peft._tensors = real
    again = llama()
    again.resize_token_embeddings(70)
    with torch.no_grad():
        again.model.embed_tokens.weight += 1  # the file has these
    again = espalier.peft.load(file, again)
    assert torch.equal(output(again), output(model))


def test_several_adapters_by_name(file):
    model = tuned(name="a/b", seed=1)
    model.add_adapter("c", LoraConfig(r=2, target_modules=["k_proj"]))
    shaken(model, "c", 2)
    model.set_adapter("c")
    espalier.peft.save(file, model)
    again = espalier.peft.load(file, llama())
    assert list(again.peft_config) == ["a/b", "c"] and again.active_adapters == ["c"]
    assert bits(again, "c") == bits(model, "c") and bits(again, "a/b") == bits(model, "a/b")
    assert torch.equal(output(again), output(model))
    some = espalier.peft.load(file, llama(), adapters={"c": "d"})
    assert list(some.peft_config) == ["d"] and bits(some, "d") == bits(model, "c")
    assert espalier.peft.load(file, some, adapters="a/b") is some and bits(some, "a/b") == bits(model, "a/b")
    assert some.active_adapters == ["d"]
    espalier.peft.save(file, model, adapters=["c"])
    assert list(espalier.load(file)) == ["c"]
    for call, message in (
        (lambda: espalier.peft.save(file, model, adapters="x"), "no adapter 'x'; it has 'a/b', 'c'"),
        (lambda: espalier.peft.load(file, llama(), adapters="a/b"), "no adapter 'a/b'; it has 'c'"),
    ):
        with pytest.raises(espalier.EspalierError, match=message):
            call()


def test_names_that_one_lacks_are_named_and_the_model_stays(file):
    model = tuned()
    espalier.peft.save(file, model)
    other = tuned(target_modules=["q_proj", "k_proj"])
    before = espalier.save_bytes(other)
    with pytest.raises(espalier.EspalierError, match=r"the file alone has .*v_proj.*the model alone has .*k_proj"):
        espalier.peft.load(file, other)
    assert espalier.save_bytes(other) == before
    with pytest.raises(espalier.EspalierError, match=r"\(4, 32\) in the file, and torch.float32 \(8, 32\) in the model"):
        espalier.peft.load(file, tuned(r=8))
    # A file whose configuration makes other names than it has.
    state, metadata = espalier.load(file), espalier.open(file).metadata
    state["default"]["more"] = state["default"].pop(next(iter(state["default"])))
    espalier.save(file, state, metadata=metadata)
    base = llama()
    before, words = espalier.save_bytes(base), output(base)
    with pytest.raises(espalier.EspalierError, match=r"configuration makes: the file alone has 'more'"):
        espalier.peft.load(file, base)
    assert espalier.save_bytes(base) == before and torch.equal(output(base), words) and not hasattr(base, "peft_config")
    wrapped = tuned(llama(), name="own")
    with pytest.raises(espalier.EspalierError, match="more"):
        espalier.peft.load(file, wrapped)
    assert list(wrapped.peft_config) == ["own"]


def test_unchanged_factors_are_not_written_again(tmp_path):
    base = torch.nn.Sequential(torch.nn.Linear(1 << 14, 16), torch.nn.Linear(16, 1 << 14))
    model = get_peft_model(base, LoraConfig(r=32, target_modules=["0", "1"]))
    espalier.peft.save(tmp_path / "1.espalier", model)
    with torch.no_grad():
        model.base_model.model[0].lora_B["default"].weight += 1
    espalier.peft.save(tmp_path / "2.espalier", model, previous=tmp_path / "1.espalier")
    first, second = ((tmp_path / f"{i}.espalier").stat().st_size for i in (1, 2))
    assert second < first / 50
    wanted = bits(model)
    assert bits(espalier.peft.load(tmp_path / "2.espalier", copy.deepcopy(model.unload()))) == wanted


def test_merged_and_foreign_models_are_refused(file):
    model = tuned()
    model.merge_adapter()
    with pytest.raises(espalier.EspalierError, match=r"unmerge_adapter\(\)"):
        espalier.peft.save(file, model)
    model.unmerge_adapter()
    for call, message in (
        (lambda: espalier.peft.save(file, llama()), "takes a PeftModel"),
        (lambda: espalier.peft.save(file, model, hash_base="x"), "hash_base"),
        (lambda: espalier.peft.save(file, model, metadata={"espalier.peft": 1}), "the place of"),
        (lambda: espalier.peft.load(file, model, check_base="x"), "check_base"),
        (lambda: espalier.peft.load(file, {}), "takes a module"),
        (lambda: espalier.peft.load(file, model.base_model.model), "no PeftModel"),
    ):
        with pytest.raises(espalier.EspalierError, match=message):
            call()
    espalier.save(file, {"a": 1})
    with pytest.raises(espalier.EspalierError, match="no adapters of espalier.peft"):
        espalier.peft.load(file, llama())


def test_nothing_is_imported_by_a_name_in_the_file(file, tmp_path, monkeypatch):
    (tmp_path / "evil.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    espalier.peft.save(file, tuned())
    state, metadata = espalier.load(file), espalier.open(file).metadata
    for changes, message in (
        ({"megatron_config": {"a": 1}, "megatron_core": "evil"}, "megatron_config"),
        ({"peft_type": "PROMPT_TUNING", "tokenizer_name_or_path": "evil"}, "tokenizer_name_or_path"),
        ({"peft_type": "XLORA", "adapters": {"a": "evil"}}, "of the type 'XLORA'"),
        ({"peft_type": "SHADOW", "shadow_model": "evil/evil"}, "of the type 'SHADOW'"),
        ({"peft_type": "evil"}, "of the type 'evil'"),
        ({"peft_type": "PROMPT_TUNING", "prompt_tuning_init_state_dict_path": "evil"}, "prompt_tuning_init_state_dict_path"),
        ({"target_modules": "x", "layers_to_transform": [1]}, "does not take the configuration"),
        ({"layer_replication": [[0, 5000]]}, "layer_replication"),
        ({"layer_replication": [[0, "x"]]}, "layer_replication"),
        # PEFT fails in the middle of these, when it has changed the model already.
        ({"layer_replication": [[0, 2], [0, 2]]}, "is another one than that|cannot add the adapter 'default'"),
        ({"bias": "x"}, "cannot add the adapter 'default'"),
        ({"init_lora_weights": "loftq", "r": 3}, "is another one than that"),
        ({"r": "evil"}, "cannot add the adapter 'default'"),
        ({"target_modules": ["evil"]}, "cannot add the adapter 'default'"),
        # Matching takes a time that doubles with each letter of a name, or grows by a high power of its length.
        ({"target_modules": "([a-z_.0-9]+)+!"}, "may take hours"),
        ({"target_modules": "(?x:(.+) +)z"}, "may take hours"),
        ({"rank_pattern": {f"a{i}": 1 for i in range(1000)}}, "1,000 'rank_pattern'"),
        ({"exclude_modules": "(.|.)(.|.)(.|.)(.|.)(.|.)(.|.)!"}, "may take hours"),
        ({"rank_pattern": {".*.*.*.*!": 4}}, "may take hours"),
        ({"layers_pattern": ["x", "(?:.{1,40}){1,40}!"]}, "may take hours"),
    ):
        changed = copy.deepcopy(metadata)
        changed["espalier.peft"]["adapters"]["default"]["config"].update(changes)
        espalier.save(file, state, metadata=changed)
        # Beside an adapter that is active, PEFT does not look at the other's biases.
        for base in (llama(), tuned(name="own")) if "bias" not in changes else (llama(),):
            before = espalier.save_bytes(base)
            trained = [each.requires_grad for each in base.parameters()]
            layers, settings, adapters = str(base), vars(base.config).copy(), list(getattr(base, "peft_config", []))
            with pytest.raises(espalier.EspalierError, match=message):
                espalier.peft.load(file, base)
            assert espalier.save_bytes(base) == before and [each.requires_grad for each in base.parameters()] == trained
            assert str(base) == layers and vars(base.config) == settings and list(getattr(base, "peft_config", [])) == adapters
    changed = copy.deepcopy(metadata)
    changed["espalier.peft"]["adapters"]["default"]["config"].update(
        auto_mapping={"base_model_class": "evil", "parent_library": "evil"}, base_model_name_or_path="evil/evil"
    )
    espalier.save(file, state, metadata=changed)
    for model in (llama(), tuned(name="own")):
        config = espalier.peft.load(file, model).peft_config["default"]
        assert config.base_model_name_or_path is None and config.auto_mapping is None
    for damage in ({"adapters": []}, {"base": 1}, {"active": [1]}, {"version": 2}):
        changed = {"espalier.peft": {**metadata["espalier.peft"], **damage}}
        espalier.save(file, state, metadata=changed)
        with pytest.raises(espalier.EspalierError, match="damaged|version 2"):
            espalier.peft.load(file, llama())


SUBSTITUTED = """
import sys
import espalier.compat.safetensors
espalier.compat.safetensors.substitute()
import espalier.compat.safetensors.torch as ours_torch
import torch, transformers, peft
assert peft.utils.save_and_load.safe_load_file is ours_torch.load_file
theirs, ours = sys.argv[1:]
base = transformers.LlamaForCausalLM.from_pretrained(theirs + "/base")
model = peft.PeftModel.from_pretrained(base, theirs)
model.save_pretrained(ours)
print(float(model.eval()(torch.arange(6)[None]).logits.double().sum()).hex())
"""


def test_peft_s_own_files_with_the_compat_module_in_place_of_safetensors(tmp_path):
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    llama().save_pretrained(theirs / "base")
    model = tuned()
    model.save_pretrained(theirs)
    command = [sys.executable, "-W", "ignore", "-c", SUBSTITUTED, str(theirs), str(ours)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    assert done.returncode == 0, done.stderr
    name = "adapter_model.safetensors"
    assert (ours / name).read_bytes() == (theirs / name).read_bytes()  # read and written by ours
    again = peft.PeftModel.from_pretrained(llama(), ours)
    assert bits(again) == bits(model) and torch.equal(output(again), output(model))
    with torch.no_grad():
        words = again(torch.arange(6)[None]).logits
    assert done.stdout.split()[-1] == float(words.double().sum()).hex()


def test_a_way_to_begin_does_not_change_the_base(tmp_path):
    base = llama()
    model = tuned(base, init_lora_weights="pissa")  # which takes the largest components out of the base
    path = tmp_path / "adapter.espalier"
    espalier.peft.save(path, model)
    again = copy.deepcopy(model).unload()
    before = {name: value.clone() for name, value in again.state_dict().items()}
    loaded = espalier.peft.load(path, again)
    assert torch.equal(loaded(WORDS).logits, model(WORDS).logits)
    kept = peft.get_base_model_state_dict(loaded)
    assert all(torch.equal(value, kept[name]) for name, value in before.items())
    assert loaded.peft_config["default"].init_lora_weights == "pissa"
