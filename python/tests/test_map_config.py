"""The maps that come with the library, and configurations that lack a word, or are another model's: the result is right, or refused."""

import functools
import itertools
import warnings

import espalier
import ml_dtypes
import numpy as np
import pytest

HEADS, GROUPS, HIDDEN, LAYERS, INNER, VOCABULARY, EXPERTS = 4, 2, 16, 3, 24, 40, 4


def halves_to_pairs(weight, size):
    """Rows of a head from [half 0, half 1] to neighbours: transformers' `permute` backwards."""
    rows, columns = weight.shape
    return weight.reshape(rows // size, 2, size // 2, columns).swapaxes(1, 2).reshape(rows, columns)


class Model:
    """A model whose heads have `size` elements, under the names of several projects."""

    def __init__(self, size):
        self.size = size
        self.random = np.random.default_rng(size)

    def made(self, *shape):
        return self.random.standard_normal(shape).astype(np.float32)

    def hf(self):
        state = {"model.embed_tokens.weight": self.made(VOCABULARY, HIDDEN), "model.norm.weight": self.made(HIDDEN), "lm_head.weight": self.made(VOCABULARY, HIDDEN)}
        for i in range(LAYERS):
            layer = {
                "self_attn.q_proj": (HEADS * self.size, HIDDEN), "self_attn.k_proj": (GROUPS * self.size, HIDDEN), "self_attn.v_proj": (GROUPS * self.size, HIDDEN),
                "self_attn.o_proj": (HIDDEN, HEADS * self.size), "mlp.gate_proj": (INNER, HIDDEN), "mlp.up_proj": (INNER, HIDDEN), "mlp.down_proj": (HIDDEN, INNER),
                "input_layernorm": (HIDDEN,), "post_attention_layernorm": (HIDDEN,),
            }  # fmt: skip
            state.update({f"model.layers.{i}.{name}.weight": self.made(*shape) for name, shape in layer.items()})
        return state


def renamed(state, names):
    """With parts of names replaced in turn."""
    made = {}
    for name, value in state.items():
        for old, new in names:
            name = name.replace(old, new)
        made[name] = value
    return made


def rotated(model, state):
    return {name: halves_to_pairs(value, model.size) if ".q_proj." in name or ".k_proj." in name else value for name, value in state.items()}


TORCHTUNE = [
    ("self_attn.o_proj", "attn.output_proj"), ("self_attn.", "attn."), ("mlp.gate_proj", "mlp.w1"), ("mlp.up_proj", "mlp.w3"), ("mlp.down_proj", "mlp.w2"),
    ("input_layernorm.weight", "sa_norm.scale"), ("post_attention_layernorm.weight", "mlp_norm.scale"), ("model.embed_tokens", "tok_embeddings"),
    ("model.norm.weight", "norm.scale"), ("lm_head", "output"), ("model.layers", "layers"),
]  # fmt: skip
META = [
    ("self_attn.q_proj", "attention.wq"), ("self_attn.k_proj", "attention.wk"), ("self_attn.v_proj", "attention.wv"), ("self_attn.o_proj", "attention.wo"),
    ("mlp.gate_proj", "feed_forward.w1"), ("mlp.up_proj", "feed_forward.w3"), ("mlp.down_proj", "feed_forward.w2"),
    ("input_layernorm", "attention_norm"), ("post_attention_layernorm", "ffn_norm"), ("model.embed_tokens", "tok_embeddings"),
    ("model.norm", "norm"), ("lm_head", "output"), ("model.layers", "layers"),
]  # fmt: skip


def llama_torchtune(model):
    state = model.hf()
    return state, renamed(rotated(model, state), TORCHTUNE)


def llama_meta(model):
    state = model.hf()
    return renamed(rotated(model, state), META), state


def phi3_torchtune(model):
    state = model.hf()
    fused = {name: value for name, value in state.items() if not any(part in name for part in ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"))}
    for i in range(LAYERS):
        layer = f"model.layers.{i}."
        fused[layer + "self_attn.qkv_proj.weight"] = np.concatenate([state[f"{layer}self_attn.{each}_proj.weight"] for each in "qkv"])
        fused[layer + "mlp.gate_up_proj.weight"] = np.concatenate([state[f"{layer}mlp.{each}_proj.weight"] for each in ("gate", "up")])
    return fused, renamed(state, TORCHTUNE)


def olmo_hf(model):
    state = {name: value for name, value in model.hf().items() if "norm" not in name}
    fused = {"transformer.wte.weight": state["model.embed_tokens.weight"], "transformer.ff_out.weight": state["lm_head.weight"]}
    for i in range(LAYERS):
        own, layer = f"transformer.blocks.{i}.", f"model.layers.{i}."
        fused[own + "att_proj.weight"] = np.concatenate([state[f"{layer}self_attn.{each}_proj.weight"] for each in "qkv"])
        fused[own + "ff_proj.weight"] = np.concatenate([state[f"{layer}mlp.{each}_proj.weight"] for each in ("up", "gate")])
        fused[own + "attn_out.weight"] = state[layer + "self_attn.o_proj.weight"]
        fused[own + "ff_out.weight"] = state[layer + "mlp.down_proj.weight"]
    return fused, state


def gpt2_haliax(model):
    wide = HEADS * model.size
    hf = {"transformer.wte.weight": model.made(VOCABULARY, HIDDEN), "transformer.wpe.weight": model.made(8, HIDDEN)}
    other = {"embeddings.token_embeddings.weight": hf["transformer.wte.weight"], "embeddings.position_embeddings.weight": hf["transformer.wpe.weight"]}
    for word in ("weight", "bias"):
        hf[f"transformer.ln_f.{word}"] = other[f"transformer.ln_f.{word}"] = model.made(HIDDEN)
    shapes = {
        "ln_1.weight": (HIDDEN,), "ln_1.bias": (HIDDEN,), "ln_2.weight": (HIDDEN,), "ln_2.bias": (HIDDEN,), "attn.c_attn.weight": (HIDDEN, 3 * wide), "attn.c_attn.bias": (3 * wide,),
        "attn.c_proj.weight": (wide, HIDDEN), "attn.c_proj.bias": (HIDDEN,), "mlp.c_fc.weight": (HIDDEN, INNER), "mlp.c_fc.bias": (INNER,), "mlp.c_proj.weight": (INNER, HIDDEN), "mlp.c_proj.bias": (HIDDEN,),
    }  # fmt: skip
    heads = {"attn.c_attn.weight": (HIDDEN, 3, HEADS, model.size), "attn.c_attn.bias": (3, HEADS, model.size), "attn.c_proj.weight": (HEADS, model.size, HIDDEN)}
    for name, shape in shapes.items():
        layers = [model.made(*shape) for _ in range(LAYERS)]
        hf.update({f"transformer.h.{i}.{name}": layer for i, layer in enumerate(layers)})
        other[f"transformer.blocks.{name}"] = np.stack([layer.reshape(heads.get(name, shape)) for layer in layers])
    return hf, other


def mixtral_v5(model, experts="block_sparse_moe.experts.{x}.w1 block_sparse_moe.experts.{x}.w3 block_sparse_moe.experts.{x}.w2"):
    gate, up, down = experts.split()
    old, new = {}, {}
    for i in range(LAYERS):
        layer = f"model.layers.{i}."
        made = [(model.made(INNER, HIDDEN), model.made(INNER, HIDDEN), model.made(HIDDEN, INNER)) for _ in range(EXPERTS)]
        for x, weights in enumerate(made):
            for name, weight in zip((gate, up, down), weights):
                old[layer + name.replace("{x}", str(x)) + ".weight"] = weight
        new[layer + "mlp.experts.gate_up_proj"] = np.stack([np.concatenate(each[:2]) for each in made])
        new[layer + "mlp.experts.down_proj"] = np.stack([each[2] for each in made])
        if "sparse" in gate:
            old[layer + "block_sparse_moe.gate.weight"] = new[layer + "mlp.gate.weight"] = model.made(EXPERTS, HIDDEN)
    return old, new


def qwen_moe_v5(model):
    return mixtral_v5(model, "mlp.experts.{x}.gate_proj mlp.experts.{x}.up_proj mlp.experts.{x}.down_proj")


def peft_torchtune(model):
    old, new = {}, {}
    for i in range(LAYERS):
        for name, other, rows in (("q_proj", "q_proj", HEADS * model.size), ("k_proj", "k_proj", GROUPS * model.size), ("v_proj", "v_proj", GROUPS * model.size)):
            a, b = model.made(2, HIDDEN), model.made(rows, 2)
            old[f"base_model.model.model.layers.{i}.self_attn.{name}.lora_A.weight"] = new[f"layers.{i}.attn.{other}.lora_a.weight"] = a
            old[f"base_model.model.model.layers.{i}.self_attn.{name}.lora_B.weight"] = b
            new[f"layers.{i}.attn.{other}.lora_b.weight"] = b if name == "v_proj" else halves_to_pairs(b, model.size)
    return old, new


def gemma2_torchtune(model):
    state = model.hf()
    for i in range(LAYERS):
        for name in ("post", "pre"):
            state[f"model.layers.{i}.{name}_feedforward_layernorm.weight"] = model.made(HIDDEN)
    names = [("post_attention_layernorm.weight", "sa_scale.scale"), ("post_feedforward_layernorm.weight", "mlp_norm.scale"),
             ("pre_feedforward_layernorm.weight", "mlp_scale.scale"), ("model.norm.weight", "norm.rms_norm.scale"), *TORCHTUNE]  # fmt: skip
    return state, renamed(rotated(model, state), names)


def gemma_maxtext(model):
    state = {name: value for name, value in model.hf().items() if name != "lm_head.weight"}
    layers = [f"model.layers.{i}." for i in range(LAYERS)]
    for name in ["model.norm.weight", *(f"{layer}{norm}_layernorm.weight" for layer in layers for norm in ("input", "post_attention"))]:
        state[name] = state[name].astype(ml_dtypes.bfloat16)

    def stacked(name, *shape, order=(1, 0)):
        weights = [state[layer + name + ".weight"].reshape(*shape) for layer in layers]
        return np.stack([weight.transpose(*order) if len(shape) > 1 else weight for weight in weights], 1)

    def norm(name):
        return np.stack([state[f"{layer}{name}.weight"].astype(np.float32) + 1 for layer in layers], 1)

    decoder = {
        "layers": {
            "self_attention": {
                "query": {"kernel": (stacked("self_attn.q_proj", HEADS, model.size, HIDDEN, order=(2, 0, 1)) / np.float64(model.size) ** 0.5).astype(np.float32)},
                "key": {"kernel": stacked("self_attn.k_proj", GROUPS, model.size, HIDDEN, order=(2, 0, 1))},
                "value": {"kernel": stacked("self_attn.v_proj", GROUPS, model.size, HIDDEN, order=(2, 0, 1))},
                "out": {"kernel": stacked("self_attn.o_proj", HIDDEN, HEADS, model.size, order=(1, 2, 0))},
            },
            "mlp": {"wi_0": {"kernel": stacked("mlp.gate_proj", INNER, HIDDEN)}, "wi_1": {"kernel": stacked("mlp.up_proj", INNER, HIDDEN)}, "wo": {"kernel": stacked("mlp.down_proj", HIDDEN, INNER)}},
            "pre_self_attention_norm": {"scale": norm("input_layernorm")}, "pre_ffw_norm": {"scale": norm("post_attention_layernorm")},
        },
        "decoder_norm": {"scale": state["model.norm.weight"].astype(np.float32) + 1},
    }  # fmt: skip
    # The square root of 16 is exact, and so is what it multiplies.
    return state, {"params": {"decoder": decoder, "token_embedder": {"embedding": state["model.embed_tokens.weight"] * np.float32(4)}}}


def megatron_gpt2(model):
    wide = HEADS * model.size
    hf, other = {}, {}
    hf["transformer.wte.weight"] = model.made(VOCABULARY, HIDDEN)
    hf["transformer.wpe.weight"] = other["embedding.position_embeddings.weight"] = model.made(8, HIDDEN)
    # Rows that pad the embedding are zeros on the way back.
    other["embedding.word_embeddings.weight"] = np.concatenate([hf["transformer.wte.weight"], np.zeros((8, HIDDEN), np.float32)])
    for word in ("weight", "bias"):
        hf[f"transformer.ln_f.{word}"] = other[f"transformer.final_layernorm.{word}"] = model.made(HIDDEN)
    for i in range(LAYERS):
        old, new = f"transformer.layers.{i}.", f"transformer.h.{i}."
        for ours, theirs in (("input_layernorm", "ln_1"), ("post_attention_layernorm", "ln_2")):
            for word in ("weight", "bias"):
                other[f"{old}{ours}.{word}"] = hf[f"{new}{theirs}.{word}"] = model.made(HIDDEN)
        for ours, theirs, rows, columns in (("attention.dense", "attn.c_proj", HIDDEN, wide), ("mlp.dense_h_to_4h", "mlp.c_fc", INNER, HIDDEN), ("mlp.dense_4h_to_h", "mlp.c_proj", HIDDEN, INNER)):
            other[f"{old}{ours}.weight"], other[f"{old}{ours}.bias"] = model.made(rows, columns), model.made(rows)
            hf[f"{new}{theirs}.weight"], hf[f"{new}{theirs}.bias"] = other[f"{old}{ours}.weight"].T.copy(), other[f"{old}{ours}.bias"]
        weight, bias = model.made(HEADS, 3, model.size, HIDDEN), model.made(HEADS, 3, model.size)
        other[f"{old}attention.query_key_value.weight"], other[f"{old}attention.query_key_value.bias"] = weight.reshape(-1, HIDDEN), bias.reshape(-1)
        hf[f"{new}attn.c_attn.weight"] = weight.swapaxes(0, 1).reshape(-1, HIDDEN).T.copy()
        hf[f"{new}attn.c_attn.bias"] = bias.swapaxes(0, 1).reshape(-1)
    state = {}
    for name, value in other.items():
        *way, last = ("model.language_model." + name).split(".")
        functools.reduce(lambda at, key: at.setdefault(key, {}), way, state)[last] = value
    return state, hf


def in_ranks(model, meta, embedding_axis):
    """What each of two processes has of a model of Meta's."""
    axes = {"attention.wo": 1, "feed_forward.w2": 1, "tok_embeddings": embedding_axis}
    ranks = {"rank0": {}, "rank1": {}}
    for name, value in meta.items():
        if "norm" in name:
            parts = [value, value]
        else:
            parts = np.split(value, 2, next((axis for part, axis in axes.items() if part in name), 0))
        for rank, part in zip(ranks.values(), parts):
            rank[name] = np.ascontiguousarray(part)
    return ranks


def llama_meta_shards(model):
    meta, state = llama_meta(model)
    return in_ranks(model, meta, 1), state


def llama3_meta_shards(model):
    meta, state = llama_meta(model)
    return in_ranks(model, meta, 0), state


HF_WORDS = {"head_dim": None, "hidden_size": HIDDEN, "num_attention_heads": HEADS, "num_key_value_heads": GROUPS}
META_WORDS = {"dim": HIDDEN, "n_heads": HEADS, "n_kv_heads": GROUPS, "n_layers": LAYERS}
CASES = {
    "llama-torchtune": (llama_torchtune, {**HF_WORDS, "num_hidden_layers": LAYERS}),
    "llama-meta": (llama_meta, HF_WORDS),
    "phi3-torchtune": (phi3_torchtune, HF_WORDS),
    "olmo-hf": (olmo_hf, {**HF_WORDS, "num_hidden_layers": LAYERS}),
    "gpt2-haliax": (gpt2_haliax, {"n_head": HEADS, "n_embd": HIDDEN, "n_layer": LAYERS, "num_attention_heads": HEADS}),
    "mixtral-v5": (mixtral_v5, {"num_local_experts": EXPERTS, "hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": LAYERS}),
    "qwen-moe-v5": (qwen_moe_v5, {"num_experts": EXPERTS, "hidden_size": HIDDEN, "moe_intermediate_size": INNER}),
    "peft-torchtune": (peft_torchtune, HF_WORDS),
    "gemma2-torchtune": (gemma2_torchtune, HF_WORDS),
    "gemma-maxtext": (gemma_maxtext, {**HF_WORDS, "intermediate_size": INNER}),
    "megatron-gpt2": (megatron_gpt2, {"n_head": HEADS, "n_embd": HIDDEN, "vocab_size": VOCABULARY, "num_hidden_layers": LAYERS}),
    "llama-meta-shards": (llama_meta_shards, HF_WORDS),
    "llama3-meta-shards": (llama3_meta_shards, HF_WORDS),
}
# What no name and no shape of the right side tells.
GIVEN_IN_REVERSE = {"megatron-gpt2": {"p": 8}, "llama-meta-shards": {"r": 2}, "llama3-meta-shards": {"r": 2}}
ABSENT = object()


def leaves(state, *before):
    """Arrays by their keys."""
    if not isinstance(state, dict):
        return {before: state}
    return {path: leaf for key, value in state.items() for path, leaf in leaves(value, *before, key).items()}


def saved(state, folder):
    """What map() takes for a state, or for one in several files."""
    if "rank0" not in state:
        espalier.save(folder / "state.espalier", state)
        return folder / "state.espalier"
    for label, part in state.items():
        espalier.save_safetensors(folder / label, part)
    return {label: folder / label for label in state}


def configurations(full):
    """Each word right, null or absent; and all right but one that is half or twice as large."""
    for chosen in itertools.product(*[(value, None, ABSENT) for value in full.values()]):
        yield {word: value for word, value in zip(full, chosen) if value is not ABSENT}
    for word, value in full.items():
        if word != "n_head":  # no shape of GPT-2 tells it
            yield {**full, word: value // 2}
            yield {**full, word: value * 2}


@pytest.mark.parametrize("name", CASES)
def test_the_result_is_right_or_refused(name, tmp_path):
    make, words = CASES[name]
    # Heads as large as hidden_size says, and smaller and larger ones, which only head_dim tells.
    for size in (HIDDEN // HEADS, HIDDEN // HEADS // 2, HIDDEN // HEADS * 2):
        left, right = make(Model(size))
        full = {word: size if value is None else value for word, value in words.items()}
        for reverse, (source, wanted) in enumerate([(left, right), (right, left)]):
            inputs = saved(source, tmp_path)
            given = GIVEN_IN_REVERSE.get(name, {}) if reverse else {}
            expected = leaves(wanted)
            # The root of the size of a head may be no float.
            equal = functools.partial(np.allclose, rtol=3e-7, atol=0) if name == "gemma-maxtext" and size != 4 else np.array_equal
            for config in configurations(full):
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("error", espalier.LossWarning)
                        made = leaves(espalier.map(inputs, name, config=config, reverse=bool(reverse), sizes=given).load())
                except espalier.LossWarning as lost:
                    # A smaller vocabulary may be meant: which rows pad it, no shape tells.
                    assert (name, config["vocab_size"]) == ("megatron-gpt2", VOCABULARY // 2), (size, reverse, config, lost)
                    continue
                except espalier.EspalierError as refused:
                    assert refused.code.startswith("map_"), (config, refused)
                    # A map that refuses everything would pass. OLMo's has no word for the size of a head.
                    assert config != full or (name == "olmo-hf" and size != HIDDEN // HEADS), (size, reverse, refused)
                    continue
                assert made.keys() == expected.keys(), (size, reverse, config)
                wrong = [key for key, value in expected.items() if made[key].dtype != value.dtype or not equal(made[key], value)]
                assert not wrong, (size, reverse, config, wrong[:4])


def test_a_number_is_a_size_and_a_word_of_the_map(tmp_path):
    left, _ = llama_torchtune(Model(4))
    path = tmp_path / "a.safetensors"
    espalier.save_safetensors(path, left)

    def refused(**options):
        with pytest.raises(espalier.EspalierError) as error:
            espalier.map(path, "llama-torchtune", **options)
        return str(error.value)

    assert "'p' would be 2.5 as given" in refused(sizes={"p": 2.5})
    assert "'p' would be -1 as given" in refused(sizes={"p": -1})
    assert "'partial_rotary_factor' is 0.5, and the map is right for 1 alone" in refused(config={"head_dim": 4, "partial_rotary_factor": 0.5})
    assert "'p' would be 1.5 by (head_dim/2.0)" in refused(config={"head_dim": 3})
    assert "did you mean 'head_dim'?" in refused(sizes={"head_dims": 4})
    assert "no such word; it has g, h, i, m, n, p, v" in refused(sizes={"p": 2, "zzz": 1})
    assert "{i} has 0 to 2, and would have 5 by num_hidden_layers" in refused(config={"head_dim": 4, "num_hidden_layers": 5})
    # As if it were missing, another size would be taken for it; a list is not its length.
    for there in ([4, 4], {"a": 1}, "4", []):
        assert "'p' cannot be computed by (head_dim/2.0): the configuration has a text or a list there" in refused(config={"head_dim": there})
    assert "h is 2 by num_attention_heads" in refused(config={"head_dim": 4, "num_attention_heads": 2})
    espalier.map(path, "llama-torchtune", config={"head_dim": 4, "num_hidden_layers": 5}, sizes={"i": 3})
