"""Adapters of the package peft on a small model, before training and after a few steps; alone, and with the model that they adapt."""

from catalog import add
from transformer_states import batch_of, model_of

# By name: the class of the configuration, and its options.
ADAPTERS = {
    "lora": ("LoraConfig", dict(r=8)), "rslora": ("LoraConfig", dict(r=8, use_rslora=True)), "dora": ("LoraConfig", dict(r=8, use_dora=True)),
    "pissa": ("LoraConfig", dict(r=8, init_lora_weights="pissa")), "olora": ("LoraConfig", dict(r=8, init_lora_weights="olora")),
    "loha": ("LoHaConfig", dict(r=4)), "lokr": ("LoKrConfig", dict(r=4)), "ia3": ("IA3Config", dict(feedforward_modules=[])),
    "vera": ("VeraConfig", dict(r=16)), "oft": ("OFTConfig", dict(r=0, oft_block_size=32)), "adalora": ("AdaLoraConfig", dict(init_r=8, target_r=4, total_step=10)),
}
STEPS = 15


def adapted(name, steps, alone):
    import peft
    import torch
    kind, options = ADAPTERS[name]
    model = peft.get_peft_model(model_of("llama"), getattr(peft, kind)(target_modules=["q_proj", "v_proj"], **options))
    optimizer = torch.optim.AdamW([parameter for parameter in model.parameters() if parameter.requires_grad], 2e-3)
    for _ in range(steps):
        model(**batch_of("llama", model)).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return peft.get_peft_model_state_dict(model) if alone else model.state_dict()


for key in ADAPTERS:
    add("adapters", f"peft-{key}", lambda key=key: adapted(key, 0, False))
for key in ("lora", "dora", "lokr", "vera"):
    add("adapters", f"peft-{key}-alone", lambda key=key: adapted(key, 0, True))
    add("adapters", f"peft-{key}-trained", lambda key=key: adapted(key, STEPS, True))
