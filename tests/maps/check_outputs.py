"""Compares what models compute with mapped weights: a model of transformers, or of flax, and one that reads the other layout.

Usage: PYTHONPATH=packages HF_HUB_OFFLINE=1 python3 check_outputs.py [NAME...]

Needs espalier, torch, and those that make_cases.py names. Each check makes a tiny random model, computes its outputs, maps its
weights, and computes the outputs again by code for the other layout: another class of transformers, a module of torch or flax, or a
few lines here that say how that framework computes. The largest difference must be below 1e-5. Without names, it also counts how
many numbers of a merge in bf16 are the nearest ones.
"""
import importlib.util
import pathlib
import sys
import tempfile

import espalier
import torch
from torch.nn import functional as F

CHECKS = {}
WIDTH, HEADS, KV_HEADS, INNER, LAYERS, WORDS = 32, 4, 2, 48, 2, 20
LLAMA = {"hidden_size": WIDTH, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "intermediate_size": INNER,
         "num_hidden_layers": LAYERS, "vocab_size": WORDS, "max_position_embeddings": 32, "tie_word_embeddings": False}
TOKENS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6], [5, 3, 5, 8, 9, 7, 9, 3]])


def check(function):
    CHECKS[function.__name__] = function
    return function


def mapped(state, name, **options):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.safetensors"
        espalier.save_safetensors(path, {key: value.detach().clone() for key, value in state.items()})
        return flat(espalier.map(path, name, **options).load(framework="torch"))


def flat(value, name=""):
    """Some maps write nested dicts."""
    if not isinstance(value, dict):
        return {name: value.clone()}
    return {path: each for key, inside in value.items() for path, each in flat(inside, f"{name}.{key}" if name else key).items()}


def random_(model):
    """Weights that matter: those of a new model are near zero."""
    torch.manual_seed(0)
    with torch.no_grad():
        for name, value in model.named_parameters():
            value.copy_(torch.randn_like(value) * (0.3 if value.ndim > 1 else 0.1) + (1 if "norm" in name and "bias" not in name else 0))
    return model.eval()


def rms(x, weight):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight


def causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


@check
def llama_meta():
    """As Meta computes: rotary pairs are neighbours, which are complex numbers."""
    from transformers import LlamaConfig, LlamaForCausalLM

    model = random_(LlamaForCausalLM(LlamaConfig(**LLAMA)))
    w = mapped(model.state_dict(), "llama-meta", reverse=True, config=LLAMA)
    head = WIDTH // HEADS
    angles = torch.outer(torch.arange(TOKENS.shape[1]).float(), 1.0 / 10000.0 ** (torch.arange(0, head, 2).float() / head))
    turns = torch.polar(torch.ones_like(angles), angles)

    def turn(x):
        return torch.view_as_real(torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * turns).flatten(-2)

    def heads(x, weight, count):
        return (x @ weight.t()).unflatten(-1, (count, head)).transpose(1, 2)

    x = w["tok_embeddings.weight"][TOKENS]
    for i in range(LAYERS):
        at = f"layers.{i}."
        h = rms(x, w[at + "attention_norm.weight"])
        q = turn(heads(h, w[at + "attention.wq.weight"], HEADS))
        k = turn(heads(h, w[at + "attention.wk.weight"], KV_HEADS)).repeat_interleave(HEADS // KV_HEADS, 1)
        v = heads(h, w[at + "attention.wv.weight"], KV_HEADS).repeat_interleave(HEADS // KV_HEADS, 1)
        x = x + causal(q, k, v).transpose(1, 2).flatten(-2) @ w[at + "attention.wo.weight"].t()
        h = rms(x, w[at + "ffn_norm.weight"])
        gate, up = h @ w[at + "feed_forward.w1.weight"].t(), h @ w[at + "feed_forward.w3.weight"].t()
        x = x + (F.silu(gate) * up) @ w[at + "feed_forward.w2.weight"].t()
    return model(TOKENS).logits, rms(x, w["norm.weight"]) @ w["output.weight"].t()


@check
def phi3_torchtune():
    """Phi-3 without its fused weights is a Llama: by two maps, through torchtune's names."""
    from transformers import LlamaConfig, LlamaForCausalLM, Phi3Config, Phi3ForCausalLM

    options = LLAMA | {"rms_norm_eps": 1e-6}
    model = random_(Phi3ForCausalLM(Phi3Config(**options, pad_token_id=0)))
    tuned = mapped(model.state_dict(), "phi3-torchtune", config=LLAMA)
    # torchtune computes Phi-3 in Hugging Face's order of rotary pairs, unlike Llama.
    names = {"tok_embeddings.weight": "model.embed_tokens.weight", "norm.scale": "model.norm.weight", "output.weight": "lm_head.weight"}
    parts = {"attn.q_proj": "self_attn.q_proj", "attn.k_proj": "self_attn.k_proj", "attn.v_proj": "self_attn.v_proj", "attn.output_proj": "self_attn.o_proj",
             "mlp.w1": "mlp.gate_proj", "mlp.w2": "mlp.down_proj", "mlp.w3": "mlp.up_proj", "sa_norm": "input_layernorm", "mlp_norm": "post_attention_layernorm"}
    for i in range(LAYERS):
        for old, new in parts.items():
            names[f"layers.{i}.{old}." + ("scale" if "norm" in old else "weight")] = f"model.layers.{i}.{new}.weight"
    other = LlamaForCausalLM(LlamaConfig(**options)).eval()
    other.load_state_dict({names[name]: value for name, value in tuned.items()})
    return model(TOKENS).logits, other(TOKENS).logits


@check
def mixtral_v5():
    """The experts as one tensor each for gate with up, and for down."""
    from transformers import MixtralConfig
    from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock

    config = MixtralConfig(**LLAMA, num_local_experts=4, num_experts_per_tok=2)
    block = random_(MixtralSparseMoeBlock(config))
    state = {f"model.layers.0.block_sparse_moe.{name}": value for name, value in block.state_dict().items()}
    w = mapped(state, "mixtral-v5")
    at = "model.layers.0.mlp."
    x = torch.randn(2, 8, WIDTH)
    chances, chosen = (x @ w[at + "gate.weight"].t()).softmax(-1).topk(2)
    gates = torch.zeros(*x.shape[:-1], 4).scatter(-1, chosen, chances / chances.sum(-1, keepdim=True))
    gate, up = torch.einsum("bsn,xfn->bsxf", x, w[at + "experts.gate_up_proj"]).chunk(2, -1)
    made = torch.einsum("bsxf,xnf,bsx->bsn", F.silu(gate) * up, w[at + "experts.down_proj"], gates)
    return block(x)[0], made


@check
def megatron_gpt2():
    """As Megatron computes: query, key and value of a head stand together, and weights are [out, in]."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=WORDS, n_positions=16, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, n_inner=INNER)
    model = random_(GPT2LMHeadModel(config))
    state = {name: value for name, value in model.state_dict().items() if name != "lm_head.weight"}
    w = mapped(state, "megatron-gpt2", reverse=True, config=config, sizes={"p": 4})
    w = {name.removeprefix("model.language_model."): value for name, value in w.items()}

    def linear(x, name):
        return F.linear(x, w[name + ".weight"], w[name + ".bias"])

    def norm(x, name):
        return F.layer_norm(x, (WIDTH,), w[name + ".weight"], w[name + ".bias"], 1e-5)

    words = w["embedding.word_embeddings.weight"]
    x = words[TOKENS] + w["embedding.position_embeddings.weight"][: TOKENS.shape[1]]
    for i in range(LAYERS):
        at = f"transformer.layers.{i}."
        fused = linear(norm(x, at + "input_layernorm"), at + "attention.query_key_value").unflatten(-1, (HEADS, 3, WIDTH // HEADS))
        q, k, v = (fused[..., n, :].transpose(1, 2) for n in range(3))
        x = x + linear(causal(q, k, v).transpose(1, 2).flatten(-2), at + "attention.dense")
        h = F.gelu(linear(norm(x, at + "post_attention_layernorm"), at + "mlp.dense_h_to_4h"), approximate="tanh")
        x = x + linear(h, at + "mlp.dense_4h_to_h")
    return model(TOKENS).logits, norm(x, "transformer.final_layernorm") @ words[:WORDS].t()


@check
def vit_timm():
    """Attention of torch.nn, whose weights for query, key and value are one tensor, as timm's are."""
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=INNER, image_size=8, patch_size=4,
                       num_labels=3)
    model = random_(ViTForImageClassification(config))
    w = mapped(model.state_dict(), "vit-timm", reverse=True)
    images = torch.randn(2, 3, 8, 8)

    def norm(x, name):
        return F.layer_norm(x, (WIDTH,), w[name + ".weight"], w[name + ".bias"], config.layer_norm_eps)

    x = F.conv2d(images, w["patch_embed.proj.weight"], w["patch_embed.proj.bias"], stride=4).flatten(2).transpose(1, 2)
    x = torch.cat([w["cls_token"].expand(2, -1, -1), x], 1) + w["pos_embed"]
    for i in range(LAYERS):
        at = f"blocks.{i}."
        attention = torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).eval()
        attention.load_state_dict({"in_proj_weight": w[at + "attn.qkv.weight"], "in_proj_bias": w[at + "attn.qkv.bias"],
                                   "out_proj.weight": w[at + "attn.proj.weight"], "out_proj.bias": w[at + "attn.proj.bias"]})
        h = norm(x, at + "norm1")
        x = x + attention(h, h, h, need_weights=False)[0]
        h = F.gelu(F.linear(norm(x, at + "norm2"), w[at + "mlp.fc1.weight"], w[at + "mlp.fc1.bias"]))
        x = x + F.linear(h, w[at + "mlp.fc2.weight"], w[at + "mlp.fc2.bias"])
    return model(images).logits, F.linear(norm(x, "norm")[:, 0], w["head.weight"], w["head.bias"])


@check
def lora_merge():
    """peft's adapter beside the base, and merged."""
    import peft
    from transformers import LlamaConfig, LlamaForCausalLM

    model = random_(LlamaForCausalLM(LlamaConfig(**LLAMA)))
    base = {name: value.clone() for name, value in model.state_dict().items()}
    adapted = random_(peft.get_peft_model(model, peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "down_proj"])))
    with torch.no_grad():
        for name, value in adapted.named_parameters():
            if "lora_" not in name:
                value.copy_(base[name.removeprefix("base_model.model.").replace(".base_layer", "")])
    with tempfile.TemporaryDirectory() as folder:
        files = {"": pathlib.Path(folder) / "base.safetensors", "lora": pathlib.Path(folder) / "lora.safetensors"}
        espalier.save_safetensors(files[""], base)
        espalier.save_safetensors(files["lora"], peft.get_peft_model_state_dict(adapted))
        merged = espalier.map(files, "lora-merge", sizes={"alpha": 8}).load(framework="torch")
        other = LlamaForCausalLM(LlamaConfig(**LLAMA)).eval()
        other.load_state_dict({name: value.clone() for name, value in merged.items()})
    return adapted(TOKENS).logits, other(TOKENS).logits


def merged_by_torchtune(base, lora):
    """Its file alone: the package needs torchao."""
    found = importlib.util.find_spec("torchtune").submodule_search_locations[0]
    spec = importlib.util.spec_from_file_location("torchtune_peft", f"{found}/modules/peft/_utils.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    state = {name: value.clone() for name, value in base.items()}
    for name, value in lora.items():
        state[name.removeprefix("base_model.model.").replace("lora_A", "lora_a").replace("lora_B", "lora_b")] = value
    return module.get_merged_lora_ckpt(state, 16, 32)


def rounding():
    """The share of elements of a merge in bf16 that are nearest to the sum in float64. The peers round the product first."""
    import peft
    from transformers import LlamaConfig, LlamaForCausalLM

    options = LLAMA | {"hidden_size": 256, "intermediate_size": 512}
    model = random_(LlamaForCausalLM(LlamaConfig(**options))).bfloat16()
    base = {name: value.clone() for name, value in model.state_dict().items()}
    targets = ["q_proj", "o_proj", "gate_proj", "down_proj"]
    adapted = random_(peft.get_peft_model(model, peft.LoraConfig(r=16, lora_alpha=32, target_modules=targets), autocast_adapter_dtype=False))
    with torch.no_grad():
        for name, value in adapted.named_parameters():
            if "lora_" not in name:
                value.copy_(base[name.removeprefix("base_model.model.").replace(".base_layer", "")])
    lora = {name: value.clone() for name, value in peft.get_peft_model_state_dict(adapted).items()}
    with tempfile.TemporaryDirectory() as folder:
        files = {"": pathlib.Path(folder) / "base.safetensors", "lora": pathlib.Path(folder) / "lora.safetensors"}
        espalier.save_safetensors(files[""], base)
        espalier.save_safetensors(files["lora"], lora)
        ours = espalier.map(files, "lora-merge", sizes={"alpha": 32}).load(framework="torch")
    peers = {"espalier": ours, "peft": adapted.merge_and_unload().state_dict(), "torchtune": merged_by_torchtune(base, lora)}
    found = dict.fromkeys(peers, 0)
    total = 0
    for name in base:
        down = lora.get(f"base_model.model.{name.removesuffix('.weight')}.lora_A.weight")
        if down is None:
            continue
        up = lora[f"base_model.model.{name.removesuffix('.weight')}.lora_B.weight"]
        exact = base[name].double() + 2 * (up.double() @ down.double())
        nearest = exact.to(torch.bfloat16)
        total += nearest.numel()
        for peer, made in peers.items():
            found[peer] += (made[name] == nearest).sum().item()
    print(f"merged in bf16, nearest to float64, of {total} elements: " + ", ".join(f"{peer} {100 * n / total:.2f} %" for peer, n in found.items()))
    return found["espalier"] == total


def main():
    failed = 0
    for name in sys.argv[1:] or CHECKS:
        with torch.no_grad():
            torch.manual_seed(0)
            first, second = CHECKS[name]()
        scale = first.abs().max().item()
        difference = (first - second).abs().max().item() / scale
        failed += not difference <= 1e-5
        print(f"{name}: largest difference {difference:.1e} of {scale:.2f}{'' if difference <= 1e-5 else ', which is too much'}")
    if not sys.argv[1:]:
        with torch.no_grad():
            failed += not rounding()
    sys.exit(failed > 0)


main()
