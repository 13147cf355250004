"""Networks of the package diffusers, narrow: denoisers, an autoencoder and their relatives."""

import state_file
from catalog import add

CONDITIONED = dict(block_out_channels=(32, 64, 128, 128), cross_attention_dim=64, attention_head_dim=8, norm_num_groups=8)
NETWORKS = {
    "unet": ("UNet2DModel", dict(sample_size=32, block_out_channels=(32, 64, 128), down_block_types=("DownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
                                 up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D"), norm_num_groups=8)),
    "unet-conditioned": ("UNet2DConditionModel", dict(CONDITIONED, sample_size=32)),
    "autoencoder": ("AutoencoderKL", dict(block_out_channels=(32, 64), down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
                                          norm_num_groups=8)),
    "dit": ("DiTTransformer2DModel", dict(num_attention_heads=4, attention_head_dim=32, num_layers=6, sample_size=16)),
    "controlnet": ("ControlNetModel", CONDITIONED),
    "vq": ("VQModel", dict(block_out_channels=(32, 64), down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
                           norm_num_groups=8, num_vq_embeddings=128)),
    "pixart": ("PixArtTransformer2DModel", dict(num_attention_heads=4, attention_head_dim=24, num_layers=6, sample_size=16, cross_attention_dim=96, caption_channels=64)),
    "flux": ("FluxTransformer2DModel", dict(num_layers=4, num_single_layers=6, attention_head_dim=24, num_attention_heads=4, joint_attention_dim=64,
                                            pooled_projection_dim=64, axes_dims_rope=(4, 10, 10))),
    "sd3": ("SD3Transformer2DModel", dict(sample_size=16, num_layers=6, attention_head_dim=24, num_attention_heads=4, joint_attention_dim=64,
                                          caption_projection_dim=96, pooled_projection_dim=64)),
}


def network(name):
    import diffusers
    kind, options = NETWORKS[name]
    return getattr(diffusers, kind)(**options).state_dict()


for key in NETWORKS:
    add("diffusion", f"diffusers-{key}", lambda key=key: network(key))
for key in ("unet-conditioned", "dit"):
    add("diffusion", f"diffusers-{key}-bf16", lambda key=key: state_file.cast(state_file.leaves(network(key)), "BF16"))
