"""Transformers and state-space models of the package transformers, from small configurations: as they are initialised, in three dtypes,
and after a few steps of training on random words."""

import numpy as np

import state_file
from catalog import add

SMALL = dict(hidden_size=128, num_attention_heads=4, intermediate_size=256, vocab_size=1000)
DEEP = dict(SMALL, num_hidden_layers=6)
GROUPED = dict(DEEP, num_key_value_heads=2)
VISION = dict(hidden_size=128, num_hidden_layers=6, num_attention_heads=4, intermediate_size=256, image_size=64, patch_size=8)
PAIR = dict(d_model=128, encoder_layers=6, decoder_layers=6, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=256,
            decoder_ffn_dim=256, vocab_size=1000)
SPEECH = dict(DEEP, conv_dim=(64,) * 7, num_conv_pos_embeddings=32, num_conv_pos_embedding_groups=4)

# By name: the class, its configuration and its options.
CAUSAL = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", GROUPED), "mistral": ("MistralForCausalLM", "MistralConfig", GROUPED),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", GROUPED), "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", GROUPED),
    "gemma": ("GemmaForCausalLM", "GemmaConfig", dict(GROUPED, head_dim=32)), "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", dict(GROUPED, head_dim=32)),
    "phi": ("PhiForCausalLM", "PhiConfig", DEEP), "phi3": ("Phi3ForCausalLM", "Phi3Config", dict(GROUPED, pad_token_id=0)),
    "gpt_neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", DEEP), "olmo2": ("Olmo2ForCausalLM", "Olmo2Config", GROUPED),
    "opt": ("OPTForCausalLM", "OPTConfig", dict(hidden_size=128, num_hidden_layers=6, num_attention_heads=4, ffn_dim=256, vocab_size=1000, word_embed_proj_dim=128)),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", dict(n_embd=128, n_layer=6, n_head=4, vocab_size=1000, n_positions=256)),
    "bloom": ("BloomForCausalLM", "BloomConfig", dict(hidden_size=128, n_layer=6, n_head=4, vocab_size=1000)),
    "gptj": ("GPTJForCausalLM", "GPTJConfig", dict(n_embd=128, n_layer=6, n_head=4, rotary_dim=16, vocab_size=1000, n_positions=128)),
    "falcon": ("FalconForCausalLM", "FalconConfig", DEEP), "stablelm": ("StableLmForCausalLM", "StableLmConfig", GROUPED),
    "cohere": ("CohereForCausalLM", "CohereConfig", GROUPED), "granite": ("GraniteForCausalLM", "GraniteConfig", GROUPED),
    "mamba": ("MambaForCausalLM", "MambaConfig", dict(hidden_size=128, num_hidden_layers=6, vocab_size=1000)),
    "mamba2": ("Mamba2ForCausalLM", "Mamba2Config", dict(hidden_size=128, num_hidden_layers=6, vocab_size=1000, num_heads=8, head_dim=32, n_groups=1)),
    "rwkv": ("RwkvForCausalLM", "RwkvConfig", dict(hidden_size=128, num_hidden_layers=6, vocab_size=1000)),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", dict(GROUPED, num_local_experts=4)),
    "qwen2_moe": ("Qwen2MoeForCausalLM", "Qwen2MoeConfig", dict(DEEP, num_experts=8, moe_intermediate_size=64, shared_expert_intermediate_size=128)),
    "deepseek_v3": ("DeepseekV3ForCausalLM", "DeepseekV3Config", dict(
        DEEP, n_routed_experts=8, moe_intermediate_size=64, q_lora_rank=32, kv_lora_rank=32, qk_rope_head_dim=16, v_head_dim=32, qk_nope_head_dim=16,
        first_k_dense_replace=1, n_group=2, topk_group=1, num_experts_per_tok=2)),
}
OTHERS = {
    "bert": ("BertForMaskedLM", "BertConfig", DEEP), "roberta": ("RobertaForMaskedLM", "RobertaConfig", DEEP),
    "electra": ("ElectraForMaskedLM", "ElectraConfig", dict(DEEP, embedding_size=128)), "albert": ("AlbertForMaskedLM", "AlbertConfig", dict(DEEP, embedding_size=64)),
    "distilbert": ("DistilBertForMaskedLM", "DistilBertConfig", dict(dim=128, n_layers=6, n_heads=4, hidden_dim=256, vocab_size=1000)),
    "deberta_v2": ("DebertaV2ForMaskedLM", "DebertaV2Config", DEEP), "modernbert": ("ModernBertForMaskedLM", "ModernBertConfig", dict(DEEP, pad_token_id=0)),
    "t5": ("T5ForConditionalGeneration", "T5Config", dict(d_model=128, d_ff=256, num_layers=6, num_heads=4, d_kv=32, vocab_size=1000, decoder_start_token_id=0)),
    "bart": ("BartForConditionalGeneration", "BartConfig", PAIR),
    "whisper": ("WhisperForConditionalGeneration", "WhisperConfig", dict(PAIR, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)),
    "vit": ("ViTForImageClassification", "ViTConfig", VISION), "beit": ("BeitForImageClassification", "BeitConfig", VISION),
    "dinov2": ("Dinov2Model", "Dinov2Config", dict(hidden_size=128, num_hidden_layers=6, num_attention_heads=4, image_size=64, patch_size=8)),
    "swin": ("SwinForImageClassification", "SwinConfig", dict(embed_dim=32, depths=[2, 2, 6, 2], num_heads=[2, 4, 4, 8], image_size=64, patch_size=2, window_size=4)),
    "convnext": ("ConvNextForImageClassification", "ConvNextConfig", dict(hidden_sizes=[32, 64, 128, 160], depths=[2, 2, 6, 2])),
    "resnet": ("ResNetForImageClassification", "ResNetConfig", dict(embedding_size=32, hidden_sizes=[64, 128, 256, 256], depths=[2, 2, 4, 2])),
    "segformer": ("SegformerForImageClassification", "SegformerConfig", dict(hidden_sizes=[32, 64, 96, 128], depths=[2, 2, 2, 2])),
    "vit_mae": ("ViTMAEForPreTraining", "ViTMAEConfig", dict(VISION, decoder_hidden_size=64, decoder_num_hidden_layers=2, decoder_num_attention_heads=4, decoder_intermediate_size=128)),
    "clip": ("CLIPModel", "CLIPConfig", dict(text_config=dict(DEEP), vision_config=dict(VISION))),
    "siglip": ("SiglipModel", "SiglipConfig", dict(text_config=dict(DEEP), vision_config=dict(VISION))),
    "wav2vec2": ("Wav2Vec2ForCTC", "Wav2Vec2Config", SPEECH), "hubert": ("HubertModel", "HubertConfig", SPEECH),
    "perceiver": ("PerceiverModel", "PerceiverConfig", dict(num_latents=32, d_latents=128, d_model=64, num_self_attends_per_block=6, num_self_attention_heads=4, num_cross_attention_heads=4)),
    "xlnet": ("XLNetLMHeadModel", "XLNetConfig", dict(d_model=128, n_layer=6, n_head=4, d_inner=256, vocab_size=1000)),
    "patchtst": ("PatchTSTForPrediction", "PatchTSTConfig", dict(d_model=128, num_hidden_layers=4, ffn_dim=256, num_attention_heads=4)),
    "encodec": ("EncodecModel", "EncodecConfig", dict(num_filters=8, codebook_size=256, hidden_size=64)),
    "vits": ("VitsModel", "VitsConfig", dict(vocab_size=40, hidden_size=64, ffn_dim=128, upsample_initial_channel=128, num_hidden_layers=4)),
}
IN_ALL_DTYPES = ("llama", "gpt2", "bert", "t5", "vit", "mixtral", "mamba", "swin")
TRAINED = ("llama", "gpt2", "mixtral", "mamba", "gpt_neox", "qwen3", "bert", "t5", "vit", "swin", "convnext", "resnet")
STEPS, BATCH, LENGTH = 25, 8, 32


def model_of(name):
    import transformers
    model, configuration, options = (CAUSAL | OTHERS)[name]
    return getattr(transformers, model)(getattr(transformers, configuration)(**options))


def batch_of(name, model):
    """Words by Zipf's law in pairs, or images with a pattern of their class: there is something to learn."""
    import torch
    if name in ("vit", "swin", "convnext", "resnet", "beit"):
        labels = torch.randint(0, 2, (BATCH,))
        size = getattr(model.config, "image_size", 64)
        images = torch.randn(BATCH, 3, size, size) * 0.5
        images[:, 0] += labels[:, None, None] * torch.linspace(-1, 1, size)
        return {"pixel_values": images, "labels": labels}
    words = torch.from_numpy(np.minimum(np.random.zipf(1.3, (BATCH, LENGTH)) + 2, 900))
    words[:, 1::2] = (words[:, ::2] * 7 + 3) % 900
    return {"input_ids": words, "labels": words.clone()}


def trained(name, dtype=None):
    import torch
    model = model_of(name).train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for _ in range(STEPS):
        model(**batch_of(name, model)).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.state_dict()


FAMILY = {"mamba": "state-space", "mamba2": "state-space", "rwkv": "state-space", "mixtral": "experts", "qwen2_moe": "experts", "deepseek_v3": "experts",
          "convnext": "convolutional", "resnet": "convolutional", "encodec": "convolutional"}


def family_of(name):
    if name in FAMILY:
        return FAMILY[name]
    is_vision = name in ("vit", "beit", "dinov2", "swin", "segformer", "vit_mae")
    return "vision transformers" if is_vision else "transformers"


for key in CAUSAL | OTHERS:
    add(family_of(key), f"transformers-{key}", lambda key=key: model_of(key).state_dict())
for key in IN_ALL_DTYPES:
    for kind in ("BF16", "F16"):
        add(family_of(key), f"transformers-{key}-{kind.lower()}",
            lambda key=key, kind=kind: state_file.cast(state_file.leaves(model_of(key).state_dict()), kind))
for key in TRAINED:
    add(family_of(key), f"transformers-{key}-trained", lambda key=key: trained(key))
