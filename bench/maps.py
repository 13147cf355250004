#!/usr/bin/env python3
"""Times `espalier map` beside plain copying and, where they are installed, the converters of torchtune and transformers.

    bench/maps.py                          # with build/release/espalier; some minutes on an idle machine
    PYTHON bench/maps.py --python PYTHON   # the converters of that Python's torch, torchtune and transformers, too

The model has the tensors of a small Llama in bf16. Every way is a process of its own, and the ways take turns; figures are medians.
Memory is the most that was anonymous at a time, sampled every 5 ms: pages of mapped files are the system's to drop. Files are in the
page cache and are not synced. A figure of the disk says little: give --work a folder in memory.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
HIDDEN, HEADS, KV_HEADS, INNER, VOCABULARY = 2048, 32, 8, 5632, 32000
CONFIG = {"hidden_size": HIDDEN, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS}


def touch_memory():
    """Writes to most of the free memory, once: on many virtual machines its first use ever takes ten times as long."""
    with open("/proc/meminfo") as lines:
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    block = bytearray(int(free * 0.8))
    block[::4096] = bytes(len(range(0, len(block), 4096)))


def tensors(layers):
    kv = HIDDEN // HEADS * KV_HEADS
    yield "model.embed_tokens.weight", (VOCABULARY, HIDDEN)
    for i in range(layers):
        at = f"model.layers.{i}."
        yield at + "self_attn.q_proj.weight", (HIDDEN, HIDDEN)
        yield at + "self_attn.k_proj.weight", (kv, HIDDEN)
        yield at + "self_attn.v_proj.weight", (kv, HIDDEN)
        yield at + "self_attn.o_proj.weight", (HIDDEN, HIDDEN)
        yield at + "mlp.gate_proj.weight", (INNER, HIDDEN)
        yield at + "mlp.up_proj.weight", (INNER, HIDDEN)
        yield at + "mlp.down_proj.weight", (HIDDEN, INNER)
        yield at + "input_layernorm.weight", (HIDDEN,)
        yield at + "post_attention_layernorm.weight", (HIDDEN,)
    yield "model.norm.weight", (HIDDEN,)
    yield "lm_head.weight", (VOCABULARY, HIDDEN)


def size_of(shape):
    size = 2
    for length in shape:
        size *= length
    return size


def layers_for(size):
    layers = 1
    while sum(size_of(shape) for _, shape in tensors(layers)) < size:
        layers += 1
    return layers


def make_model(path, size):
    """A safetensors file of about `size` bytes; gives its layers and bytes."""
    layers = layers_for(size)
    header, end = {}, 0
    for name, shape in tensors(layers):
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + size_of(shape)]}
        end += size_of(shape)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    # Numbers around 0.01 with random last bits.
    block = b"".join(bytes((byte, 0x3C)) for byte in os.urandom(1 << 20))
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        left = end
        while left > 0:
            file.write(block[: min(left, len(block))])
            left -= len(block)
    return layers, end


def anonymous(pid):
    try:
        with open(f"/proc/{pid}/status") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))
    except (OSError, StopIteration):
        return 0


def run(command):
    """Seconds and the most anonymous memory of a process."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    most = [0]
    done = threading.Event()

    def watch():
        while not done.is_set():
            most[0] = max(most[0], anonymous(process.pid))
            done.wait(0.005)

    watcher = threading.Thread(target=watch)
    watcher.start()
    _, errors = process.communicate()
    seconds = time.perf_counter() - start
    done.set()
    watcher.join()
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {errors.decode()[-2000:]}")
    return seconds, most[0]


def by_turns(ways, rounds):
    samples = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, command in ways.items():
            sample = run(command)
            if number > 0:  # The first round fills the page cache.
                samples[name].append(sample)
    return samples


def report(title, samples, size):
    rows = {}
    for name, each in samples.items():
        seconds = statistics.median(s for s, _ in each)
        rows[name] = {"s": round(seconds, 2), "GB/s": round(size / seconds / 1e9, 2), "MiB": max(m for _, m in each) >> 20}
    print(json.dumps({"figure": title, **rows}), flush=True)
    return rows


TORCHTUNE = """
import sys, types, importlib.util, pathlib, torch
from safetensors.torch import load_file, save_file
spec = importlib.util.find_spec("torchtune")
path = pathlib.Path(spec.submodule_search_locations[0]) / "models/convert_weights.py"
module = importlib.util.module_from_spec(importlib.util.spec_from_file_location("convert_weights", path))
module.__spec__.loader.exec_module(module)
state = load_file(sys.argv[1])
made = module.hf_to_tune(state, num_heads={heads}, num_kv_heads={kv}, dim={hidden})
save_file({{name: value.contiguous() for name, value in made.items()}}, sys.argv[2])
"""

TRANSFORMERS = """
import sys, json, pathlib, torch
from transformers.models.llama.convert_llama_weights_to_hf import write_model
write_model(model_path=sys.argv[2], input_base_path=sys.argv[1], model_size="1B", safe_serialization=True, llama_version="1", vocab_size={vocabulary})
"""

META = """
import sys, json, pathlib, torch
from safetensors.torch import load_file
import espalier
folder = pathlib.Path(sys.argv[2])
folder.mkdir(exist_ok=True)
state = espalier.map(sys.argv[1], "llama-meta", reverse=True, config={config}).load(framework="torch")
torch.save(state, folder / "consolidated.00.pth")
(folder / "params.json").write_text(json.dumps({{"dim": {hidden}, "n_heads": {heads}, "n_kv_heads": {kv}, "n_layers": int(sys.argv[3]),
    "norm_eps": 1e-5, "vocab_size": {vocabulary}, "multiple_of": 256}}))
"""


def program(text):
    return text.format(heads=HEADS, kv=KV_HEADS, hidden=HIDDEN, vocabulary=VOCABULARY, config=CONFIG)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--espalier", default=ROOT / "build/release/espalier", help="the command line")
    parser.add_argument("--python", help="a Python with torch, torchtune, transformers and espalier")
    parser.add_argument("--gib", type=float, default=1, help="the size of the model")
    parser.add_argument("--large-gib", type=float, default=4, help="the size of the one that is transposed in 256 MiB")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work", help="where the files go; 20 GiB")
    options = parser.parse_args()
    ours = [str(options.espalier)]
    touch_memory()
    with tempfile.TemporaryDirectory(dir=options.work or ROOT / "build") as name:
        work = pathlib.Path(name)
        (work / "config.json").write_text(json.dumps(CONFIG))
        rules = {
            "rename": ["{p...} <-> x.{p...}"],
            "transpose": ["{p...}.{w:q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj|embed_tokens|lm_head}.weight [a b] <-> "
                          "{p...}.{w:q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj|embed_tokens|lm_head}.weight [b a]",
                          "lm_head.weight [a b] <-> lm_head.weight [b a]"],
        }
        for each, texts in rules.items():
            (work / f"{each}.json").write_text(json.dumps({"espalier_map": 1, "rest": "keep", "rules": texts}))
        model, out = work / "model.safetensors", work / "out.safetensors"
        layers, size = make_model(model, int(options.gib * 2**30))
        flags = ["--no-sync", "--force", "--quiet"]
        through = [*ours, "map", model, out, *flags, "--map"]
        report(f"{size / 2**30:.2f} GiB of bf16, {len(list(tensors(layers)))} tensors, to safetensors", by_turns({
            "copy": [*ours, "convert", model, out, *flags],
            "renamed": [*through, work / "rename.json"],
            "block gather": [*through, "llama-torchtune", "--config", work / "config.json"],
            "transposed": [*through, work / "transpose.json"],
        }, options.rounds), size)
        if options.python:
            of_references(options, work, model, out, layers, size, through)
        model.unlink()
        _, size = make_model(model, int(options.large_gib * 2**30))
        report(f"{size / 2**30:.2f} GiB with every weight transposed, --memory 256M", by_turns({
            "copy": [*ours, "convert", model, out, *flags],
            "transposed": [*through, work / "transpose.json", "--memory", "256M"],
        }, 1), size)


def of_references(options, work, model, out, layers, size, through):
    for each, text in {"torchtune": TORCHTUNE, "transformers": TRANSFORMERS, "meta": META}.items():
        (work / f"by_{each}.py").write_text(program(text))
    report("Hugging Face to torchtune", by_turns({
        "espalier": [*through, "llama-torchtune", "--config", work / "config.json"],
        "torchtune": [options.python, work / "by_torchtune.py", model, out],
    }, options.rounds), size)
    meta = work / "meta"
    run([options.python, work / "by_meta.py", model, meta, str(layers)])
    hf = work / "hf"
    report("Meta to Hugging Face", by_turns({
        "espalier": [through[0], "map", meta / "consolidated.00.pth", out, *through[4:-1], "--map", "llama-meta", "--config", work / "config.json"],
        "transformers": [options.python, work / "by_transformers.py", meta, hf],
    }, options.rounds), size)


main()
