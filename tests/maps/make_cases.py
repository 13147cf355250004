"""Makes the cases of this folder: small checkpoints and what the converters of other projects make of them.

Usage: PYTHONPATH=packages HF_HUB_OFFLINE=1 python3 make_cases.py [--compare]

Needs torch, numpy and safetensors, and without their dependencies transformers 4.46.3, torchtune 0.6.1, peft 0.13.2 (with
accelerate 1.1.1), and for one case flax. torchtune's files are loaded by their paths, as the package itself needs
torchao. With --compare it writes nothing, and fails if a file would become another one.

A case is a folder: case.json says which map, which inputs, the sizes, and what the right side was made by.
"""
import argparse
import importlib.util
import json
import math
import os
import pathlib
import sys
import tempfile
import types

import numpy as np
import torch
from safetensors.torch import save

HERE = pathlib.Path(__file__).resolve().parent
CASES = HERE / "cases"
CASE = {}


def case(function):
    CASE[function.__name__.replace("_", "-")] = function
    return function


def random(*shape, dtype=torch.float32):
    return torch.randn(*shape).to(dtype)


TORCHTUNE = importlib.util.find_spec("torchtune").submodule_search_locations[0]


def torchtune(module):
    """A module of torchtune by its path below models/."""
    for name in ("torchtune", "torchtune.models"):
        sys.modules.setdefault(name, types.ModuleType(name)).__path__ = []
    for path in ("convert_weights", module):
        name = "torchtune.models." + path.replace("/", ".")
        if name not in sys.modules:
            spec = importlib.util.spec_from_file_location(name, f"{TORCHTUNE}/models/{path}.py")
            sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


LAYERS, HEADS, KV_HEADS, HEAD, WIDTH, INNER, WORDS = 2, 4, 2, 4, 16, 12, 10
CONFIG = {"hidden_size": WIDTH, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS}


def llama(biases=False, head=True, more=(), inner=INNER):
    state = {"model.embed_tokens.weight": random(WORDS, WIDTH), "model.norm.weight": random(WIDTH)}
    if head:
        state["lm_head.weight"] = random(WORDS, WIDTH)
    for i in range(LAYERS):
        at = f"model.layers.{i}."
        for name, rows in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)):
            state[at + f"self_attn.{name}_proj.weight"] = random(rows * HEAD, WIDTH)
            if biases:
                state[at + f"self_attn.{name}_proj.bias"] = random(rows * HEAD)
        state[at + "self_attn.o_proj.weight"] = random(WIDTH, HEADS * HEAD)
        state[at + "mlp.gate_proj.weight"] = random(inner, WIDTH)
        state[at + "mlp.up_proj.weight"] = random(inner, WIDTH)
        state[at + "mlp.down_proj.weight"] = random(WIDTH, inner)
        for name in ("input_layernorm", "post_attention_layernorm", *more):
            state[at + name + ".weight"] = random(WIDTH)
    return state


@case
def llama_torchtune():
    left = {name: tensor.bfloat16() for name, tensor in llama().items()}
    right = torchtune("convert_weights").hf_to_tune(left, HEADS, KV_HEADS, WIDTH)
    return {"left": left, "right": right, "config": CONFIG, "by": "torchtune 0.6.1, hf_to_tune"}


@case
def qwen2_torchtune():
    left = llama(biases=True, head=False)
    right = torchtune("qwen2/_convert_weights").qwen2_hf_to_tune(left, HEADS, KV_HEADS, WIDTH, tie_word_embeddings=True)
    return {"left": left, "right": right, "by": "torchtune 0.6.1, qwen2_hf_to_tune"}


@case
def gemma2_torchtune():
    left = llama(head=False, more=("pre_feedforward_layernorm", "post_feedforward_layernorm"))
    right = torchtune("gemma2/_convert_weights").gemma2_hf_to_tune(left, HEADS, KV_HEADS, WIDTH, HEAD)
    return {"left": left, "right": right, "config": CONFIG | {"head_dim": HEAD}, "by": "torchtune 0.6.1, gemma2_hf_to_tune"}


@case
def phi3_torchtune():
    left = llama()
    for i in range(LAYERS):
        at = f"model.layers.{i}."
        left[at + "self_attn.qkv_proj.weight"] = torch.cat([left.pop(at + f"self_attn.{n}_proj.weight") for n in "qkv"])
        left[at + "mlp.gate_up_proj.weight"] = torch.cat([left.pop(at + f"mlp.{n}_proj.weight") for n in ("gate", "up")])
    right = torchtune("phi3/_convert_weights").phi3_hf_to_tune(left, HEADS, KV_HEADS, WIDTH)
    return {"left": left, "right": right, "config": CONFIG, "by": "torchtune 0.6.1, phi3_hf_to_tune"}


def meta(ranks, version):
    """Meta's files, and what the script of transformers makes of them."""
    from transformers.models.llama import convert_llama_weights_to_hf as script

    files = []
    shared = {}
    for rank in range(ranks):
        state = {}
        rows_of_words = version == "3"
        words, columns = (WORDS // ranks, WIDTH) if rows_of_words else (WORDS, WIDTH // ranks)
        state["tok_embeddings.weight"] = random(words, columns, dtype=torch.bfloat16)
        state["output.weight"] = random(WORDS // ranks, WIDTH, dtype=torch.bfloat16)
        shared.setdefault("norm.weight", random(WIDTH, dtype=torch.bfloat16))
        for i in range(LAYERS):
            at = f"layers.{i}."
            for name, rows in (("wq", HEADS), ("wk", KV_HEADS), ("wv", KV_HEADS)):
                state[at + f"attention.{name}.weight"] = random(rows * HEAD // ranks, WIDTH, dtype=torch.bfloat16)
            state[at + "attention.wo.weight"] = random(WIDTH, HEADS * HEAD // ranks, dtype=torch.bfloat16)
            for name in ("w1", "w3"):
                state[at + f"feed_forward.{name}.weight"] = random(256 // ranks, WIDTH, dtype=torch.bfloat16)
            state[at + "feed_forward.w2.weight"] = random(WIDTH, 256 // ranks, dtype=torch.bfloat16)
            for name in ("attention_norm", "ffn_norm"):
                shared.setdefault(at + name + ".weight", random(WIDTH, dtype=torch.bfloat16))
        files.append(state | {name: tensor.clone() for name, tensor in shared.items()})
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "params.json").write_text(json.dumps(
            {"dim": WIDTH, "n_layers": LAYERS, "n_heads": HEADS, "n_kv_heads": KV_HEADS, "norm_eps": 1e-5, "multiple_of": 256}))
        for rank, state in enumerate(files):
            torch.save(state, folder / f"consolidated.{rank:02}.pth")
        script.write_model(folder / "out", folder, llama_version=version, vocab_size=WORDS, num_shards=ranks)
        from safetensors.torch import load_file
        right = load_file(folder / "out/model.safetensors")
    by = "transformers 4.46.3, convert_llama_weights_to_hf.write_model"
    config = {"dim": WIDTH, "n_heads": HEADS}
    if ranks == 1:
        return {"left": files[0], "right": right, "config": config, "by": by}
    left = {f"rank{rank}": state for rank, state in enumerate(files)}
    return {"left": left, "labels": True, "right": right, "config": config, "back": {"r": ranks}, "by": by}


@case
def llama_meta():
    return meta(1, "2")


@case
def llama_meta_shards():
    return meta(2, "2")


@case
def llama3_meta_shards():
    return meta(2, "3")


@case
def olmo_hf():
    from safetensors.torch import load_file
    from transformers.models.olmo import convert_olmo_weights_to_hf as script

    left = {"transformer.wte.weight": random(WORDS, WIDTH), "transformer.ff_out.weight": random(WORDS, WIDTH)}
    for i in range(LAYERS):
        at = f"transformer.blocks.{i}."
        left[at + "att_proj.weight"] = random((HEADS + 2 * KV_HEADS) * HEAD, WIDTH)
        left[at + "ff_proj.weight"] = random(2 * INNER, WIDTH)
        left[at + "attn_out.weight"] = random(WIDTH, WIDTH)
        left[at + "ff_out.weight"] = random(WIDTH, INNER)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        torch.save(left, folder / "model.pt")
        (folder / "config.yaml").write_text(json.dumps({"model": {
            "n_layers": LAYERS, "n_heads": HEADS, "n_kv_heads": KV_HEADS, "d_model": WIDTH, "max_sequence_length": 8,
            "vocab_size": WORDS, "mlp_hidden_size": 2 * INNER, "pad_token_id": 1, "eos_token_id": 2, "weight_tying": False}}))
        script.write_model(folder / "out", folder)
        right = load_file(folder / "out/model.safetensors")
    return {"left": left, "right": right, "config": {"n_heads": HEADS, "n_kv_heads": KV_HEADS, "d_model": WIDTH},
            "by": "transformers 4.46.3, convert_olmo_weights_to_hf.write_model"}


@case
def megatron_gpt2():
    from transformers import GPT2Config
    from transformers.models.megatron_gpt2.convert_megatron_gpt2_checkpoint import convert_megatron_checkpoint

    padded, positions = 12, 6
    encoder = {}
    for i in range(LAYERS):
        at = f"layers.{i}."
        for name, rows, columns in (("attention.query_key_value", 3 * WIDTH, WIDTH), ("attention.dense", WIDTH, WIDTH),
                                    ("mlp.dense_h_to_4h", INNER, WIDTH), ("mlp.dense_4h_to_h", WIDTH, INNER)):
            encoder[at + name + ".weight"], encoder[at + name + ".bias"] = random(rows, columns), random(rows)
        for name in ("input_layernorm", "post_attention_layernorm"):
            encoder[at + name + ".weight"], encoder[at + name + ".bias"] = random(WIDTH), random(WIDTH)
    encoder["final_layernorm.weight"], encoder["final_layernorm.bias"] = random(WIDTH), random(WIDTH)
    words = random(padded, WIDTH)
    words[WORDS:] = 0
    nested = {"embedding": {"word_embeddings": {"weight": words}, "position_embeddings": {"weight": random(positions, WIDTH)}},
              "transformer": encoder}
    config = GPT2Config(vocab_size=WORDS, n_positions=positions, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, n_inner=INNER)
    right = convert_megatron_checkpoint(None, {"checkpoint_version": 3.0, "model": {"language_model": nested}}, config)
    # Without buffers of older versions of transformers, and the head, which is the embedding again.
    left_out = (".attn.bias", ".attn.masked_bias", "lm_head.weight")
    right = {name: tensor.contiguous() for name, tensor in right.items() if not name.endswith(left_out)}
    at = "model.language_model."
    left = {at + "embedding.word_embeddings.weight": words,
            at + "embedding.position_embeddings.weight": nested["embedding"]["position_embeddings"]["weight"]}
    left |= {at + "transformer." + name: tensor for name, tensor in encoder.items()}
    return {"left": left, "right": right, "config": {"n_head": HEADS, "vocab_size": WORDS}, "back": {"p": padded - WORDS},
            "by": "transformers 4.46.3, convert_megatron_checkpoint"}


@case
def vit_timm():
    from transformers import ViTConfig

    # The script imports what it loads models and pictures with.
    for name, members in (("timm", ()), ("timm.data", ("ImageNetInfo", "infer_imagenet_subset")), ("PIL", ("Image",))):
        if name not in sys.modules:
            sys.modules[name] = types.ModuleType(name)
            sys.modules[name].__dict__.update(dict.fromkeys(members))
    from transformers.models.vit import convert_vit_timm_to_pytorch as script

    config = ViTConfig(hidden_size=WIDTH, num_hidden_layers=LAYERS)
    left = {"cls_token": random(1, 1, WIDTH), "pos_embed": random(1, 5, WIDTH), "patch_embed.proj.weight": random(WIDTH, 3, 2, 2),
            "patch_embed.proj.bias": random(WIDTH), "norm.weight": random(WIDTH), "norm.bias": random(WIDTH),
            "head.weight": random(3, WIDTH), "head.bias": random(3)}
    for i in range(LAYERS):
        for name, rows, columns in (("attn.qkv", 3 * WIDTH, WIDTH), ("attn.proj", WIDTH, WIDTH), ("mlp.fc1", INNER, WIDTH),
                                    ("mlp.fc2", WIDTH, INNER)):
            left[f"blocks.{i}.{name}.weight"], left[f"blocks.{i}.{name}.bias"] = random(rows, columns), random(rows)
        for name in ("norm1", "norm2"):
            left[f"blocks.{i}.{name}.weight"], left[f"blocks.{i}.{name}.bias"] = random(WIDTH), random(WIDTH)
    right = dict(left)
    for old, new in script.create_rename_keys(config):
        script.rename_key(right, old, new)
    script.read_in_q_k_v(right, config)
    return {"left": left, "right": right, "by": "transformers 4.46.3, convert_vit_timm_to_pytorch"}


@case
def gpt2_haliax():
    left = {"transformer.wte.weight": random(WORDS, WIDTH), "transformer.wpe.weight": random(6, WIDTH)}
    left["transformer.ln_f.weight"], left["transformer.ln_f.bias"] = random(WIDTH), random(WIDTH)
    for i in range(LAYERS):
        for name, rows, columns in (("attn.c_attn", WIDTH, 3 * WIDTH), ("attn.c_proj", WIDTH, WIDTH), ("mlp.c_fc", WIDTH, INNER),
                                    ("mlp.c_proj", INNER, WIDTH)):
            left[f"transformer.h.{i}.{name}.weight"], left[f"transformer.h.{i}.{name}.bias"] = random(rows, columns), random(columns)
        for name in ("ln_1", "ln_2"):
            left[f"transformer.h.{i}.{name}.weight"], left[f"transformer.h.{i}.{name}.bias"] = random(WIDTH), random(WIDTH)
    right = {"embeddings.token_embeddings.weight": left["transformer.wte.weight"],
             "embeddings.position_embeddings.weight": left["transformer.wpe.weight"]}
    for name in ("transformer.ln_f.weight", "transformer.ln_f.bias"):
        right[name] = left[name]
    for name in {name.split(".", 3)[3] for name in left if ".h." in name}:
        stacked = np.stack([left[f"transformer.h.{i}.{name}"].numpy() for i in range(LAYERS)])
        if name.startswith("attn.c_attn"):
            stacked = stacked.reshape(*stacked.shape[:-1], 3, HEADS, HEAD)
        elif name == "attn.c_proj.weight":
            stacked = stacked.reshape(LAYERS, HEADS, HEAD, WIDTH)
        right["transformer.blocks." + name] = torch.from_numpy(stacked)
    return {"left": left, "right": right, "config": {"n_head": HEADS}, "by": "numpy, as haliax lays them out"}


def experts(at, names, gate):
    """Two layers with three experts, and stacked ones."""
    left, right = {}, {}
    for i in range(LAYERS):
        here, there = f"model.layers.{i}.{at}.", f"model.layers.{i}.mlp."
        for x in range(3):
            for name, shape in zip(names, ((INNER, WIDTH), (INNER, WIDTH), (WIDTH, INNER)), strict=True):
                left[f"{here}experts.{x}.{name}.weight"] = random(*shape, dtype=torch.bfloat16)
        all_of = lambda name: torch.stack([left[f"{here}experts.{x}.{name}.weight"] for x in range(3)])
        right[there + "experts.gate_up_proj"] = torch.cat([all_of(names[0]), all_of(names[1])], 1)
        right[there + "experts.down_proj"] = all_of(names[2])
        left[here + "gate.weight"] = right[there + "gate.weight"] = random(3, WIDTH, dtype=torch.bfloat16)
        left[f"model.layers.{i}.input_layernorm.weight"] = random(WIDTH, dtype=torch.bfloat16)
        right[f"model.layers.{i}.input_layernorm.weight"] = left[f"model.layers.{i}.input_layernorm.weight"]
    return {"left": left, "right": right, "by": "torch.stack and torch.cat, as transformers 5 lays them out"}


@case
def mixtral_v5():
    return experts("block_sparse_moe", ("w1", "w3", "w2"), True)


@case
def qwen_moe_v5():
    return experts("mlp", ("gate_proj", "up_proj", "down_proj"), False)


@case
def gemma_maxtext():
    left = {name: tensor.bfloat16() for name, tensor in llama(head=False).items()}
    stack = lambda name: torch.stack([left[f"model.layers.{i}.{name}.weight"] for i in range(LAYERS)])
    at = "params.decoder.layers."
    right = {}
    for name, to in (("q", "query"), ("k", "key"), ("v", "value")):
        # MaxText's attention does not divide by the root of the size of a head: its converters put that into the query.
        weight = stack(f"self_attn.{name}_proj") / (math.sqrt(HEAD) if name == "q" else 1)
        right[at + f"self_attention.{to}.kernel"] = weight.reshape(LAYERS, -1, HEAD, WIDTH).permute(3, 0, 1, 2).contiguous()
    right[at + "self_attention.out.kernel"] = stack("self_attn.o_proj").reshape(LAYERS, WIDTH, HEADS, HEAD).permute(2, 0, 3, 1).contiguous()
    right[at + "mlp.wi_0.kernel"] = stack("mlp.gate_proj").permute(2, 0, 1).contiguous()
    right[at + "mlp.wi_1.kernel"] = stack("mlp.up_proj").permute(2, 0, 1).contiguous()
    right[at + "mlp.wo.kernel"] = stack("mlp.down_proj").permute(2, 0, 1).contiguous()
    right[at + "pre_self_attention_norm.scale"] = (stack("input_layernorm").float() + 1).T.contiguous()
    right[at + "pre_ffw_norm.scale"] = (stack("post_attention_layernorm").float() + 1).T.contiguous()
    right["params.decoder.decoder_norm.scale"] = left["model.norm.weight"].float() + 1
    scale = torch.tensor(math.sqrt(WIDTH)).bfloat16().double()
    right["params.token_embedder.embedding"] = (left["model.embed_tokens.weight"].double() * scale).bfloat16()
    # WIDTH is a square, so nothing is rounded on the way back; norms are not rounded in f32.
    return {"left": left, "right": right, "config": {"head_dim": HEAD, "hidden_size": WIDTH}, "back_dtype": "bf16",
            "by": "torch, as MaxText's converters compute it"}


@case
def bert_tf():
    left, right = {}, {}

    def add(tf, hf, *shape):
        left[tf] = random(*shape)
        right[hf] = left[tf].T.contiguous() if tf.endswith("kernel") else left[tf]

    for name, rows in (("word", WORDS), ("position", 6), ("token_type", 2)):
        add(f"bert/embeddings/{name}_embeddings", f"bert.embeddings.{name}_embeddings.weight", rows, WIDTH)
    for tf, hf in [("bert/embeddings/LayerNorm", "bert.embeddings.LayerNorm")] + [
            (f"bert/encoder/layer_{i}/{at}output/LayerNorm", f"bert.encoder.layer.{i}.{at.replace('/', '.')}output.LayerNorm")
            for i in range(LAYERS) for at in ("attention/", "")]:
        add(tf + "/gamma", hf + ".weight", WIDTH)
        add(tf + "/beta", hf + ".bias", WIDTH)
    for i in range(LAYERS):
        for name, rows, columns in (("attention/self/query", WIDTH, WIDTH), ("attention/self/key", WIDTH, WIDTH),
                                    ("attention/self/value", WIDTH, WIDTH), ("attention/output/dense", WIDTH, WIDTH),
                                    ("intermediate/dense", WIDTH, INNER), ("output/dense", INNER, WIDTH)):
            hf = f"bert.encoder.layer.{i}.{name.replace('/', '.')}"
            add(f"bert/encoder/layer_{i}/{name}/kernel", hf + ".weight", rows, columns)
            add(f"bert/encoder/layer_{i}/{name}/bias", hf + ".bias", columns)
    add("bert/pooler/dense/kernel", "bert.pooler.dense.weight", WIDTH, WIDTH)
    add("bert/pooler/dense/bias", "bert.pooler.dense.bias", WIDTH)
    return {"left": left, "right": right, "by": "numpy, as load_tf_weights_in_bert of transformers 4.46.3 reads them"}


@case
def resnet_flax():
    left, right = {}, {}
    for at, shape in (("resnet.embedder.embedder", (4, 3, 7, 7)), ("resnet.encoder.stages.0.layers.0.layer.0", (4, 4, 3, 3)),
                      ("resnet.encoder.stages.0.layers.0.shortcut", (4, 4, 1, 1))):
        left[at + ".convolution.weight"] = random(*shape)
        right["params." + at + ".convolution.kernel"] = left[at + ".convolution.weight"].permute(2, 3, 1, 0).contiguous()
        for torch_name, to in (("weight", "params.{}.normalization.scale"), ("bias", "params.{}.normalization.bias"),
                               ("running_mean", "batch_stats.{}.normalization.mean"),
                               ("running_var", "batch_stats.{}.normalization.var")):
            left[f"{at}.normalization.{torch_name}"] = right[to.format(at)] = random(shape[0])
    left["classifier.1.weight"], left["classifier.1.bias"] = random(5, 4), random(5)
    right["params.classifier.1.kernel"] = left["classifier.1.weight"].T.contiguous()
    right["params.classifier.1.bias"] = left["classifier.1.bias"]
    return {"left": left, "right": right, "by": "torch, as modeling_flax_pytorch_utils of transformers 4.46.3 reshapes them"}


@case
def peft_torchtune():
    right = {}
    for i in range(LAYERS):
        for name, rows, columns in (("attn.q_proj", HEADS * HEAD, WIDTH), ("attn.k_proj", KV_HEADS * HEAD, WIDTH),
                                    ("attn.output_proj", WIDTH, WIDTH), ("mlp.w2", WIDTH, INNER)):
            right[f"layers.{i}.{name}.lora_a.weight"] = random(3, columns)
            right[f"layers.{i}.{name}.lora_b.weight"] = random(rows, 3)
    left = torchtune("convert_weights").tune_to_peft_adapter_weights(right, HEADS, KV_HEADS, WIDTH)
    return {"left": left, "right": right, "config": CONFIG, "by": "torchtune 0.6.1, tune_to_peft_adapter_weights"}


@case
def lora_merge():
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=LAYERS,
                         num_attention_heads=HEADS, num_key_value_heads=KV_HEADS)
    model = LlamaForCausalLM(config)
    base = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    adapted = get_peft_model(model, LoraConfig(r=3, lora_alpha=6, target_modules=["q_proj", "down_proj"], init_lora_weights=False))
    lora = {name.replace(".default", ""): tensor.clone() for name, tensor in adapted.state_dict().items() if "lora_" in name}
    merged = {name: tensor.clone() for name, tensor in adapted.merge_and_unload().state_dict().items()}
    return {"left": {"": base, "lora": lora}, "labels": True, "right": merged, "config": {"lora_alpha": 6}, "tolerance": 1e-6,
            "back": None, "by": "peft 0.13.2, merge_and_unload, whose sums are rounded in another order"}


@case
def unwrap():
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2))
    wrapped = torch.nn.DataParallel(torch.compile(module))
    return {"left": dict(wrapped.state_dict()), "right": dict(module.state_dict()), "back": None, "by": "torch: DataParallel, torch.compile"}


def files_of(name):
    """The files of a case, by their names."""
    torch.manual_seed(0)
    made = CASE[name]()
    files, inputs = {}, []
    lefts = made["left"] if made.get("labels") else {"": made["left"]}
    for label, state in lefts.items():
        file = f"left{'-' + label if label else ''}.safetensors"
        files[file] = save({key: tensor.detach().contiguous().clone() for key, tensor in state.items()})
        inputs.append({"label": label, "file": file})
    files["right.safetensors"] = save({key: tensor.detach().contiguous().clone() for key, tensor in made["right"].items()})
    said = {"map": name, "left": inputs, "right": "right.safetensors", "by": made["by"]}
    for member in ("config", "tolerance", "back"):
        if member in made:
            said[member] = made[member]
    files["case.json"] = (json.dumps(said, indent=1) + "\n").encode()
    return files


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    differ = []
    for name in options.names or CASE:
        for file, content in files_of(name).items():
            path = CASES / name / file
            if options.compare:
                if not path.exists() or path.read_bytes() != content:
                    differ.append(str(path))
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
    print("\n".join(f"another one: {path}" for path in differ) or f"{len(options.names or CASE)} cases")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
