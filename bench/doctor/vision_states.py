"""Vision models of timm and torchvision, as their own code initialises them. Those of more than some 60 MB are left out."""

from catalog import add

TORCHVISION = ("resnet18 densenet121 mobilenet_v2 mobilenet_v3_small efficientnet_b0 squeezenet1_0 squeezenet1_1 shufflenet_v2_x0_5 shufflenet_v2_x1_0 "
               "regnet_y_400mf regnet_x_400mf mnasnet0_5 googlenet").split()
CONVOLUTIONAL = ("edgenext_xx_small ghostnet_050 repvgg_a0 tinynet_e lcnet_050 mnasnet_small efficientnet_lite0 semnasnet_075 mobilenetv4_conv_small_050 "
                 "regnetx_002 regnety_002 resnet10t rexnet_100 spnasnet_100 convnext_atto convnextv2_atto fastvit_t8 repghostnet_050 mobileone_s0 "
                 "starnet_s1 dla46_c selecsls42 hardcorenas_a").split()
TRANSFORMERS = ("deit_tiny_patch16_224 cait_xxs24_224 xcit_nano_12_p16_224 levit_128s mobilevit_xxs coat_tiny gmlp_ti16_224 vit_tiny_patch16_224 pit_ti_224 "
                "crossvit_tiny_240 convit_tiny pvt_v2_b0 efficientformerv2_s0 tiny_vit_5m_224 eva02_tiny_patch14_224 vit_tiny_r_s16_p8_224 mixer_s32_224 "
                "maxvit_rmlp_pico_rw_256 visformer_tiny").split()


def of_torchvision(name):
    import torchvision
    return getattr(torchvision.models, name)(weights=None, **({"init_weights": True} if name == "googlenet" else {})).state_dict()


def of_timm(name, **options):
    import timm
    return timm.create_model(name, pretrained=False, **options).state_dict()


for key in TORCHVISION:
    add("convolutional", f"torchvision-{key}", lambda key=key: of_torchvision(key))
for key in CONVOLUTIONAL:
    add("convolutional", f"timm-{key}", lambda key=key: of_timm(key))
for key in TRANSFORMERS:
    add("vision transformers", f"timm-{key}", lambda key=key: of_timm(key))
# Relative positions and gains by layer, as the large ones have them, but narrow.
add("vision transformers", "timm-beitv2-narrow", lambda: of_timm("beitv2_base_patch16_224", embed_dim=96, depth=8, num_heads=4))
add("vision transformers", "timm-swin-narrow", lambda: of_timm("swin_tiny_patch4_window7_224", embed_dim=24, depths=(2, 2, 6, 2), num_heads=(2, 2, 4, 4)))
add("vision transformers", "timm-cait-narrow", lambda: of_timm("cait_s24_224", embed_dim=96, depth=8, num_heads=4))
