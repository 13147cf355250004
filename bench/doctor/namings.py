"""Ten ways to name the tensors of a state. A name must not decide what the doctor says.

Each takes all names in their order and gives as many others, which differ from each other as the names did.
"""

import hashlib
import re

SEGMENTS = re.compile(r"[/.]")
# What modules are called in German, Chinese and Russian; any other word gets one of its hash.
FOREIGN = {
    "layers": "Schichten", "layer": "Schicht", "blocks": "块", "block": "块块", "encoder": "Kodierer", "decoder": "декодер", "weight": "вес",
    "bias": "смещение", "norm": "归一", "attention": "Aufmerksamkeit", "attn": "внимание", "self_attn": "自注意", "mlp": "сеть", "model": "Modell",
    "embed": "вложение", "q_proj": "查询", "k_proj": "键", "v_proj": "值", "o_proj": "输出", "experts": "Experten", "conv": "卷积", "head": "Kopf"}
SYLLABLES = "ba ko ri nu te sal mo vek dar lin po shi gra um fe zor".split()


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


def word_of(text):
    """A word without digits, which depends on nothing but the text."""
    number = int(digest(text)[:12], 16)
    return "".join(SYLLABLES[number >> (4 * i) & 15] for i in range(6))


def as_given(names):
    return list(names)


def flat_indices(names):
    return [f"p{number}" for number in range(len(names))]


def hashed(names):
    return [digest(name)[:24] for name in names]


def reversed_segments(names):
    return ["/".join(reversed(SEGMENTS.split(name))) for name in names]


def upper_case(names):
    return [name.upper() for name in names]


def foreign_words(names):
    return [re.sub(r"[A-Za-z_]+", lambda word: FOREIGN.get(word[0], "ж" + word_of(word[0])), name) for name in names]


def joined_by_dots(names):
    return [name.replace("/", ".") for name in names]


def with_prefix(names):
    return [f"_orig_mod/module.student/{name}" for name in names]


def random_words(names):
    """Numbers become words, too, so that nothing of a path counts anything."""
    return ["/".join(word_of(segment) for segment in SEGMENTS.split(name)) for name in names]


def order_alone(names):
    return [str(number) for number in range(len(names))]


NAMINGS = {"as given": as_given, "flat indices": flat_indices, "hashed": hashed, "reversed segments": reversed_segments,
           "upper case": upper_case, "other languages": foreign_words, "joined by dots": joined_by_dots, "prefixed": with_prefix,
           "random words": random_words, "order alone": order_alone}


def rename(naming, names):
    """The names under a naming; where it makes two the same, the later one is marked."""
    seen, result = set(), []
    for name in NAMINGS[naming](names):
        while name in seen:
            name += "'"
        seen.add(name)
        result.append(name)
    return result
