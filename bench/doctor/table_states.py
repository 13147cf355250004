"""Masks, caches, buffers and tables, which are constant, periodic, infinite or half empty by their making. NumPy alone."""

import numpy as np

from catalog import number_of, state


def chance_of(name):
    return np.random.default_rng(number_of(name))


def f4(values):
    return np.asarray(values, "f4")


def angles(length=512, width=64):
    return np.arange(length)[:, None] * 10000.0 ** (-np.arange(0, width, 2) / width)


def table(name, family="masks and tables"):
    def keep(make):
        state(family, name)(lambda: make(chance_of(name)))
        return make
    return keep


def upper(size, value, dtype="f4"):
    return np.where(np.triu(np.ones((size, size)), 1) > 0, value, 0).astype(dtype)


@table("rotary")
def rotary(chance):
    both = np.concatenate([angles(), angles()], 1)
    return {"cos": f4(np.cos(both)), "sin": f4(np.sin(both)), "inv_freq": f4(10000.0 ** (-np.arange(0, 64, 2) / 64))}


@table("rotary by layer")
def rotary_by_layer(chance):
    return {f"layers/{i}/rope": {"cos": f4(np.cos(angles(128))), "sin": f4(np.sin(angles(128)))} for i in range(8)}


@table("sinusoids")
def sinusoids(chance):
    return {"pe": f4(np.stack([np.sin(angles()), np.cos(angles())], 2).reshape(512, 64))}


@table("time embedding")
def time_embedding(chance):
    steps = np.arange(1000)[:, None] * np.exp(-np.log(10000) * np.arange(64) / 64)
    return {"time/table": f4(np.concatenate([np.sin(steps), np.cos(steps)], 1)), "time/proj": f4(chance.standard_normal((128, 256)) * 0.02)}


@table("causal masks")
def causal(chance):
    return {"inf": upper(128, -np.inf), "least": upper(128, np.finfo("f4").min), "half": upper(128, -65504, "f2"), "ten thousand": upper(128, -1e4),
            "bool": np.tril(np.ones((128, 128), bool)), "ones": f4(np.tril(np.ones((128, 128)))), "bytes": np.tril(np.ones((128, 128), "u1"))}


@table("causal masks by layer")
def causal_by_layer(chance):
    return {f"h/{i}/attn": {"bias": upper(64, -np.inf), "weight": f4(chance.standard_normal((96, 96)) * 0.02)} for i in range(6)}


@table("padding masks")
def padding(chance):
    lengths = chance.integers(1, 256, (32, 1))
    inside = np.arange(256)[None] < lengths
    return {"ones": f4(inside), "inf": f4(np.where(inside, 0, -np.inf)), "least": f4(np.where(inside, 0, np.finfo("f4").min)), "bool": inside}


@table("window masks")
def windows(chance):
    group = np.arange(64) // 16
    return {f"blocks/{i}/attn_mask": f4(np.where(group[:, None] == group[None], 0, -100.0))[None].repeat(4, 0) for i in range(4)}


@table("alibi")
def alibi(chance):
    distance = -np.abs(np.arange(64)[None] - np.arange(64)[:, None])
    slopes = 2.0 ** -np.arange(1, 9)[:, None, None]
    return {"alibi": f4(distance * slopes), "causal": f4(np.where(np.tril(np.ones((64, 64))) > 0, distance * slopes, -np.inf))}


@table("relative positions")
def relative(chance):
    return {f"layers/{i}": {"index": chance.integers(0, 169, (49, 49)), "table": f4(chance.standard_normal((169, 4)) * 0.02)} for i in range(6)}


@table("mel filters")
def mel(chance):
    filters = np.zeros((80, 1025))
    centres = 4 + 1000 * (np.arange(82) / 82) ** 1.6
    for i in range(80):
        rise = (np.arange(1025) - centres[i]) / (centres[i + 1] - centres[i])
        fall = (centres[i + 2] - np.arange(1025)) / (centres[i + 2] - centres[i + 1])
        filters[i] = np.maximum(0, np.minimum(rise, fall))
    return {"mel": f4(filters), "window": f4(np.hanning(1024))}


@table("transforms")
def transforms(chance):
    t = np.arange(256)
    return {"stft_re": f4(np.cos(2 * np.pi * np.outer(np.arange(129), t) / 256)), "stft_im": f4(np.sin(2 * np.pi * np.outer(np.arange(129), t) / 256)),
            "dct": f4(np.cos(np.pi / 128 * np.outer(np.arange(40), np.arange(128) + 0.5)))}


@table("hadamard")
def hadamard(chance):
    matrix = np.ones((1, 1))
    for _ in range(7):
        matrix = np.kron(matrix, [[1, 1], [1, -1]])
    return {"hadamard": f4(matrix / np.sqrt(128)), "eye": f4(np.eye(256)), "one_hot": f4(np.eye(10)[chance.integers(0, 10, 500)])}


@table("diffusion schedule")
def schedule(chance):
    betas = np.linspace(1e-4, 0.02, 1000)
    kept = np.cumprod(1 - betas)
    return {"betas": f4(betas), "alphas_cumprod": f4(kept), "sqrt_one_minus": f4(np.sqrt(1 - kept)), "sigmas": f4(np.geomspace(100, 0.01, 400)),
            "posterior_variance": f4(betas * (1 - np.append(1, kept[:-1])) / (1 - kept))}


@table("blur kernels")
def blur(chance):
    row = np.array([1, 3, 3, 1]) / 8
    return {f"up/{i}/kernel": f4(np.outer(row, row) * 4) for i in range(8)} | {f"up/{i}/weight": f4(chance.standard_normal((64, 64, 3, 3))) for i in range(8)}


@table("class weights")
def class_weights(chance):
    return {"weights": f4(chance.random(1000) * 10), "prior": f4(chance.dirichlet(np.ones(1000))), "counts": f4(chance.zipf(1.5, 1000).clip(0, 1e6)),
            "transitions": f4(np.where(chance.random((40, 40)) < 0.3, -np.inf, np.log(chance.random((40, 40)))))}


@table("half-full caches", "caches and buffers")
def caches(chance):
    def cache():
        return np.concatenate([chance.standard_normal((1, 4, 200, 32)), np.zeros((1, 4, 312, 32))], 2).astype("f2")
    return {f"layers/{i}": {"k": cache(), "v": cache()} for i in range(6)}


@table("empty caches", "caches and buffers")
def empty_caches(chance):
    return {f"layers/{i}": {"k": np.zeros((1, 4, 128, 32), "f4"), "v": np.zeros((1, 4, 128, 32), "f4")} for i in range(6)}


@table("one cache", "caches and buffers")
def one_cache(chance):
    k = np.zeros((2, 4, 256, 32), "f4")
    k[:, :, :77] = chance.standard_normal((2, 4, 77, 32))
    return {"past": {"key": k, "value": k * 0.5}, "length": np.int64(77)}


@table("replay buffer", "caches and buffers")
def replay(chance):
    def filled(values, count=437):
        values = f4(values)
        values[count:] = 0
        return values
    return {"obs": filled(chance.standard_normal((1000, 17))), "next": filled(chance.standard_normal((1000, 17))), "act": filled(chance.standard_normal((1000, 6))),
            "rew": filled(chance.standard_normal((1000, 1))), "done": filled(chance.random((1000, 1)) < 0.01),
            "image": filled(chance.integers(0, 256, (1000, 64)) / 255)}


@table("queue of keys", "caches and buffers")
def queue(chance):
    keys = chance.standard_normal((128, 2048))
    return {"queue": f4(keys / np.linalg.norm(keys, axis=0)), "queue_ptr": np.int64(512)}


@table("fresh codebooks", "caches and buffers")
def codebooks(chance):
    return {f"vq/{i}": {"embed": f4(chance.standard_normal((512, 64))), "cluster_size": np.zeros(512, "f4"), "embed_avg": np.zeros((512, 64), "f4"),
                        "inited": np.zeros(1, "f4")} for i in range(4)}


@table("used codebooks", "caches and buffers")
def used_codebooks(chance):
    def book():
        size = f4(chance.zipf(1.6, 512).clip(0, 5000))
        embed = f4(chance.standard_normal((512, 64)))
        return {"embed": embed, "cluster_size": size, "embed_avg": embed * size[:, None]}
    return {f"vq/{i}": book() for i in range(4)}


@table("statistics of observations", "caches and buffers")
def observations(chance):
    return {"mean": f4(chance.standard_normal(17)), "var": f4(chance.random(17) + 0.1), "count": np.float64(1e6), "ret_rms": {"mean": np.float64(0.3), "var": np.float64(2.0)}}


@table("histories", "caches and buffers")
def histories(chance):
    step = np.arange(1000.0)
    return {"loss": f4(3 * np.exp(-step / 200) + 0.1), "lr": f4(np.minimum(step / 100, 1) * 1e-3), "step": np.arange(1000),
            "noisy": f4(np.geomspace(1e4, 1e-3, 500) * (1 + 0.1 * chance.standard_normal(500))), "best": np.float32(np.inf)}


@table("observers before use", "caches and buffers")
def observers(chance):
    return {f"layers/{i}/observer": {"min_val": np.full(32, np.inf, "f4"), "max_val": np.full(32, -np.inf, "f4")} for i in range(6)} | {"best_loss": np.float32(np.inf)}


@table("amax histories", "caches and buffers")
def amax(chance):
    return {f"layers/{i}": {"amax_history": np.zeros((16, 8), "f4"), "scale": np.ones(8, "f4"), "weight": f4(chance.standard_normal((128, 96)) * 0.02)} for i in range(6)}


@table("gradient buffers", "caches and buffers")
def gradients(chance):
    return {f"layers/{i}": {"weight": f4(chance.standard_normal((96, 96)) * 0.02), "grad": np.zeros((96, 96), "f4")} for i in range(6)}


@table("flat parameters", "caches and buffers")
def flat(chance):
    parts = [np.concatenate([chance.standard_normal(30000) * 0.02, np.zeros(256), np.ones(1500)]) for _ in range(6)]
    return {"flat_param": f4(np.concatenate(parts)), "shards": {str(i): f4(part) for i, part in enumerate(parts)}}


@table("spectral norm", "caches and buffers")
def spectral(chance):
    def unit(size):
        values = chance.standard_normal(size)
        return f4(values / np.linalg.norm(values))
    return {f"conv/{i}": {"weight_orig": f4(chance.standard_normal((64, 32, 3, 3)) * 0.05), "u": unit(64), "v": unit(288)} for i in range(6)}


@table("padded vocabulary", "embeddings and experts")
def padded(chance):
    words = f4(chance.standard_normal((1000, 128)) * 0.02)
    words[0] = 0
    words[980:] = 0
    return {"wte": words, "head": words.copy()}


@table("new words by the mean", "embeddings and experts")
def mean_words(chance):
    words = f4(chance.standard_normal((1000, 128)) * 0.02)
    words[970:] = words[:970].mean(0)
    return {"wte": words}


@table("rare words", "embeddings and experts")
def rare(chance):
    return {"wte": f4(chance.standard_normal((2000, 64)) * np.geomspace(1, 0.1, 2000)[:, None]), "wpe": f4(chance.standard_normal((256, 64)) * 0.05)}


@table("loud first position", "embeddings and experts")
def first_position(chance):
    wpe = f4(chance.standard_normal((256, 128)) * 0.05)
    wpe[0] *= 9
    return {"wpe": wpe}


@table("several vocabularies", "embeddings and experts")
def vocabularies(chance):
    sizes = (1000, 1200, 800, 1000, 640, 1000)
    return {f"lang/{i}": {"embed": f4(chance.standard_normal((size, 64)) * 0.02), "head": f4(chance.standard_normal((size, 64)) * 0.02)} for i, size in enumerate(sizes)}


@table("copied experts", "embeddings and experts")
def experts(chance):
    state = {}
    for i in range(6):
        up, down = f4(chance.standard_normal((128, 96)) * 0.02), f4(chance.standard_normal((96, 128)) * 0.02)
        for e in range(8):
            state |= {f"layers/{i}/experts/{e}/up": up, f"layers/{i}/experts/{e}/down": down}
        state |= {f"layers/{i}/gate": f4(chance.standard_normal((8, 96)) * 0.02), f"layers/{i}/attn": f4(chance.standard_normal((96, 96)) * 0.02)}
    return state


@table("experts in one tensor", "embeddings and experts")
def fused_experts(chance):
    return {f"layers/{i}": {"experts": {"gate_up": f4(chance.standard_normal((8, 128, 64)) * 0.02), "down": f4(chance.standard_normal((8, 64, 64)) * 0.02)},
                            "router": f4(chance.standard_normal((8, 64)) * 0.02)} for i in range(6)}


@table("repeated heads", "embeddings and experts")
def heads(chance):
    return {f"h/{i}": {"k": f4(chance.standard_normal((2, 32, 128)) * 0.02).repeat(4, 0).reshape(256, 128), "q": f4(chance.standard_normal((256, 128)) * 0.02)} for i in range(6)}


@table("target networks", "embeddings and experts")
def targets(chance):
    net = {str(i): {"weight": f4(chance.standard_normal((256, 256 if i else 23)) * 0.06), "bias": f4(chance.standard_normal(256) * 0.06)} for i in range(4)}
    return {"critic": net, "target": {name: {key: value.copy() for key, value in layer.items()} for name, layer in net.items()}, "log_alpha": np.zeros(1, "f4")}


@table("two tied models", "embeddings and experts")
def tied(chance):
    model = {f"layers/{i}/w": f4(chance.standard_normal((96, 96)) * 0.02) for i in range(8)}
    return {"model": model, "ema": {name: value * np.float32(1) for name, value in model.items()}}


@table("stacked layers", "embeddings and experts")
def stacked(chance):
    return {"blocks": {name: f4(chance.standard_normal((8, *shape)) * 0.02) for name, shape in {"q": (64, 64), "k": (64, 16), "up": (64, 128), "down": (128, 64)}.items()}
            | {"norm": np.ones((8, 64), "f4"), "bias": np.zeros((8, 128), "f4")}}


@table("pruned", "embeddings and experts")
def pruned(chance):
    def weight():
        values = f4(chance.standard_normal((128, 96)) * 0.02)
        values[np.abs(values) < np.median(np.abs(values))] = 0
        return values
    return {f"layers/{i}/weight": weight() for i in range(8)}


@table("pruned in part", "embeddings and experts")
def pruned_in_part(chance):
    def weight(i):
        values = f4(chance.standard_normal((128, 96)) * 0.02)
        values[np.abs(values) < np.quantile(np.abs(values), 0.1 * i)] = 0
        return values
    return {f"layers/{i}/weight": weight(i) for i in range(8)}


@table("pruned by rows", "embeddings and experts")
def pruned_rows(chance):
    def weight():
        values = f4(chance.standard_normal((128, 96)) * 0.02)
        values[chance.choice(128, 32, replace=False)] = 0
        return values
    return {f"layers/{i}/weight": weight() for i in range(8)}
