"""Checkpoints as HTML: what a file holds is text, and stays text."""

import html.parser

import espalier
import ml_dtypes
import numpy as np
import pytest


class Page(html.parser.HTMLParser):
    """Collects the text, and refuses all but the tags that the package makes itself."""

    def __init__(self, source):
        super().__init__(convert_charrefs=True)
        self.text, self.open, self.opened = "", [], 0
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        assert tag in ("div", "details", "summary", "b", "i"), tag
        assert attributes in ([], [("open", None)], [("style", "margin-left:1em")]), attributes
        self.open.append(tag)
        self.opened += tag == "details"

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data

    def handle_comment(self, data):
        raise AssertionError(data)

    handle_decl = handle_pi = unknown_decl = handle_comment


HOSTILE = [
    "<script>alert(1)</script>", "</b></summary></details><img src=x onerror=alert(1)>",
    '"><a href="https://x">', "' onclick='x",
    "<!-- ", "&lt;b&gt;&#60;", "\0\x07\x1b[31m\r\n", "\u202eevil\u2066", "a\u200bb\u200d\ufeff",
    "\u2028\u2029", "\U000e0041",
    "javascript:alert(1)", "${x}", "{{x}}", "]]>", "x" * 5000, "",
]  # fmt: skip


def test_strangers_text_stays_text(tmp_path):
    path = tmp_path / "<img src=x>.espalier"
    state = {key: {key: key, 0: espalier.Labelled(key, key), 1: key.encode(), 2: np.ones(2)} for key in HOSTILE}
    state["axes"] = espalier.AxisNamed(np.ones(2), ("<b>x\u202e",))
    state["record"] = espalier.Record("<i>\u202e", [("<u>", 1)])
    espalier.save(path, state, metadata={"<script>": "</div><script>"})
    with espalier.open(path) as file:
        shown = [
            file,
            file["axes"],
            file["record"],
            *(file[key] for key in HOSTILE),
            *(file[key][2] for key in HOSTILE),
        ]
        for each in shown:
            source = each._repr_html_()
            page = Page(source)
            assert (
                "<script" not in source
                and "<img" not in source
                and "<a" not in source
                and "http" not in source.replace("https", "")
            )
            assert not any(
                ord(c) < 32 or c in "\u202e\u2066\u200b\u200d\ufeff\u2028\u2029\x7f\U000e0041" for c in source
            )
        text = Page(file._repr_html_()).text
        assert "<script>alert(1)</script>" in text and "\\u{202e}evil\\u{2066}" in text and "\\x1b[31m" in text
        assert "&lt;b&gt;&#60;" in text and "x" * 201 not in text and "x" * 200 + "…" in text
        assert "axes <b>x\\u{202e}" in Page(file["axes"]._repr_html_()).text
    assert Page(file._repr_html_()).text.endswith(": closed")


def test_it_shows_what_there_is(file):
    state = {
        "model": {"weight": np.zeros((1000, 300), ml_dtypes.bfloat16), "none": np.zeros(0), "one": np.array(1)},
        "step": 7, "rate": 0.1, "big": 2**5000, "name": "adam", "nothing": None, "list": [1, (2,)],
        "date": np.datetime64("2020"),
        "soon": espalier.Placeholder("f32", (2, 3)),
    }  # fmt: skip
    espalier.save(file, state, metadata={"epoch": 3})
    with espalier.open(file) as opened:
        page = Page(opened._repr_html_())
        for part in (
            "model: dict of 3", "weight: bf16, 1000 × 300, 585.9 KiB", "none: f64, 0, 0 bytes",
            "one: i64, no axes, 8 bytes",
            "step: 7", "rate: 0.1", "big: an integer of 5,001 bits", "name: 'adam'", "nothing: None", "list: list of 2",
            "1: tuple of 1", "soon: placeholder, f32, 2 × 3, 24 bytes", "metadata: dict of 1", "epoch: 3",
            opened.digest,
        ):  # fmt: skip
            assert part in page.text, part
        assert Page(opened["model"]["weight"]._repr_html_()).text.endswith(
            f"KiB, hash {opened['model']['weight'].hash}"
        )
        assert Page(opened["model"]._repr_html_()).text.startswith("model: dict of 3")
    espalier.save(file, 5)
    assert "5" in Page(espalier.open(file)._repr_html_()).text


def test_at_most_a_thousand_nodes(file):
    state = {"a": {str(i): i for i in range(700)}, "b": {str(i): i for i in range(700)}, "c": [0] * 50, "d": 1}
    espalier.save(file, state)
    page = Page(espalier.open(file)._repr_html_())
    assert "299: 299" not in page.text.partition("b: dict")[2] and "297: 297" in page.text.partition("b: dict")[2]
    assert "… and 402 more… and 2 more" in page.text
    espalier.save(file, [0] * 1001)
    assert "… and 1 more" in Page(espalier.open(file)._repr_html_()).text
    espalier.save(file, [0] * 1000)
    assert "more" not in Page(espalier.open(file)._repr_html_()).text


def test_deep_trees(file):
    state = 1
    for _ in range(200):
        state = [state]
    espalier.save(file, state)
    assert Page(espalier.open(file)._repr_html_()).opened < 70


@pytest.mark.parametrize("count", [1, 3])
def test_no_tensor_is_read(tmp_path, count):
    path = tmp_path / "x.espalier"
    espalier.save(path, {str(i): np.zeros(1000) for i in range(count)})
    data = bytearray(path.read_bytes())
    data[-1] ^= 1  # reading it would be an error
    path.write_bytes(data)
    assert "1000" in Page(espalier.open(path)._repr_html_()).text
