"""load(like=): the template's types, and one error that names every difference."""

import collections
import dataclasses
import datetime
import pathlib
import pickle
import typing

import espalier
import ml_dtypes
import numpy as np
import pytest
from espalier import ANY, SKIP
from test_types import same

F32 = np.arange(6, dtype=np.float32).reshape(2, 3)


class Adam(typing.NamedTuple):
    count: int
    mu: dict


@dataclasses.dataclass
class Config:
    width: int
    path: pathlib.Path
    activation: object = None


STATE = {
    "model": {"layers": [{"w": F32, "b": F32[0].copy()}, {"w": F32 + 1, "b": F32[1].copy()}]},
    "opt": Adam(7, collections.OrderedDict(w=F32 * 2)),
    "config": Config(3, pathlib.Path("/x")),
    "when": datetime.timedelta(days=1),
    "lr": 0.1,
    0: (1, None),
}


@pytest.fixture
def saved(file):
    espalier.save(file, STATE, sync=False)
    return file


def test_the_template_s_types(saved):
    back = espalier.load(saved, like=STATE)
    assert type(back["opt"]) is Adam and type(back["opt"].mu) is collections.OrderedDict and back["opt"].count == 7
    assert back["config"] == STATE["config"] and back["when"] == STATE["when"] and back[0] == (1, None)
    assert same(back["model"]["layers"][1]["w"], F32 + 1) and list(back) == list(STATE)
    assert same(espalier.load(saved, at="model/layers/0", like={"b": ANY, "w": F32})["w"], F32)


def test_what_can_stand_for_an_array(saved):
    spec = espalier.spec((2, 3), "f32")
    assert spec == espalier.spec([2, 3], np.float32) and espalier.spec((), ml_dtypes.bfloat16).dtype == "bf16"
    back = espalier.load(saved, like={**STATE, "model": {"layers": [{"w": spec, "b": SKIP}, ANY]}})
    assert same(back["model"]["layers"][0]["w"], F32) and list(back["model"]["layers"][0]) == ["w"]
    assert same(back["model"]["layers"][1]["b"], F32[1])
    assert pickle.loads(pickle.dumps(ANY)) is ANY


def test_one_error_lists_every_difference(saved):
    template = {
        "model": {"layers": [{"w": F32.T.copy(), "b": F32[0].astype(np.int32)}]},
        "opt": Adam(1.5, collections.OrderedDict(v=F32)),
        "config": 5,
        "when": "text",
        "lr": F32,
        "new": {"x": 1},
        0: [1, None],
    }
    with pytest.raises(espalier.TreeMismatch) as caught:
        espalier.load(saved, like=template)
    assert str(caught.value).splitlines() == [
        f"{saved}: the file differs from the template at 11 places:",
        "  model/layers/0/w: f32 [2, 3] in the file, f32 [3, 2] in the template",
        "  model/layers/0/b: f32 [3] in the file, i32 [3] in the template",
        "  opt/count: int64 in the file, float64 in the template",
        "  config: record in the file, int64 in the template",
        "  when: tuple in the file, string in the template",
        "  lr: float64 in the file, f32 [2, 3] in the template",
        "  0: tuple in the file, list in the template",
        "  opt/mu/v: missing in the file",
        "  new: missing in the file",
        "  model/layers/1: in the file alone",
        "  opt/mu/w: in the file alone",
    ]
    assert caught.value.path == "model/layers/0/w" and len(caught.value.ledger.mismatched) == 7
    assert pickle.loads(pickle.dumps(caught.value)).ledger == caught.value.ledger
    with pytest.raises(espalier.TreeMismatch, match="and 80 more"):
        espalier.load(saved, like={f"new{i}": 1 for i in range(100)}, strict="template")


def test_strictness(saved):
    more = {**STATE, "new": F32}
    less = {"lr": 0.0}
    assert espalier.load(saved, like=less, strict="template") == {"lr": 0.1}
    assert espalier.load(saved, like=more, strict="file")["new"] is F32
    for template, strict in ((more, "template"), (more, True), (less, "file"), (less, True)):
        with pytest.raises(espalier.TreeMismatch):
            espalier.load(saved, like=template, strict=strict)
    with pytest.warns(UserWarning, match="nothing was loaded"):
        state, ledger = espalier.load(saved, like={"lr": "text", "new": 1, "model": SKIP}, strict=False)
    assert state == {"lr": "text", "new": 1} and ledger.missing == ["new"] and ledger.skipped == ["model"]
    assert [mismatch.path for mismatch in ledger.mismatched] == ["lr"] and "opt" in ledger.unexpected


def test_what_no_file_holds_stays_the_template_s(file):
    espalier.save(file, {"a": 1})
    state, ledger = espalier.load(file, like={"a": 0, "f": len}, strict=False)
    assert state == {"a": 1, "f": len} and ledger.kept == ["f"] and not ledger.missing
    assert espalier.load(file, like={"a": 0, "f": len}) == {"a": 1, "f": len}


def test_casts_are_asked_for(file):
    espalier.save(file, {"w": F32, "i": np.arange(3)})
    template = {"w": espalier.spec((2, 3), "bf16"), "i": np.arange(3)}
    with pytest.raises(espalier.TreeMismatch, match="f32 .* bf16"):
        espalier.load(file, like=template)
    back = espalier.load(file, like=template, cast="float")
    assert back["w"].dtype == ml_dtypes.bfloat16 and np.array_equal(back["w"].astype(np.float32), F32)
    with pytest.raises(espalier.TreeMismatch):
        espalier.load(file, like={**template, "i": np.arange(3.0)}, cast="float")


def test_other_types_with_the_same_content(file):
    espalier.save(file, {"d": {"a": 1}, "s": np.float32(2), "array": np.array(3.0, np.float32)})
    template = {"d": collections.OrderedDict(a=0), "s": np.array(0, np.float32), "array": np.float32(0)}
    state, ledger = espalier.load(file, like=template, strict=False)
    assert type(state["d"]) is collections.OrderedDict and [each.path for each in ledger.relabelled] == ["d"]
    assert type(state["s"]) is np.ndarray and type(state["array"]) is np.float32
    espalier.save(file, {"t": np.array([1], "M8[s]"), "path": pathlib.Path("/x")})
    for wrong in ({"t": np.array([1], "M8[ns]"), "path": ANY}, {"t": np.array([1]), "path": ANY}, {"t": ANY, "path": "/x"}):
        with pytest.raises(espalier.TreeMismatch):
            espalier.load(file, like=wrong)


def test_a_dict_with_a_record_s_names_fills_it_and_one_of_positions_a_list(file):
    fields = {"count": 7, "mu": {"w": F32}}
    espalier.save(file, {"opt": fields, "list": {str(i): i * i for i in reversed(range(11))}, "tuple": {1: "b", 0: "a"}, "none": {}})
    template = {"opt": Adam(0, {"w": F32}), "list": list(range(11)), "tuple": ("", ""), "none": []}
    state, ledger = espalier.load(file, like=template, strict=False)
    assert type(state["opt"]) is Adam and state["opt"].count == 7 and state["list"] == [i * i for i in range(11)]
    assert state["tuple"] == ("a", "b") and state["none"] == []
    assert [str(each) for each in ledger.relabelled] == [
        "opt: dict in the file, record in the template", "list: dict in the file, list in the template",
        "tuple: dict in the file, tuple in the template", "none: dict in the file, list in the template",
    ]  # fmt: skip
    assert same(espalier.load(file, like=template), state)
    espalier.save(file, {"opt": Adam(7, {})})
    assert espalier.load(file, like={"opt": {"count": 0, "mu": {}}}) == {"opt": {"count": 7, "mu": {}}}
    # Names and positions are compared as in their own kinds.
    espalier.save(file, {"opt": {"count": 7, "nu": 1}, "list": {"0": 1, "1": 2}})
    with pytest.raises(espalier.TreeMismatch) as caught:
        espalier.load(file, like={"opt": Adam(0, {}), "list": [0]})
    assert caught.value.ledger.missing == ["opt/mu"] and caught.value.ledger.unexpected == ["opt/nu", "list/1"]
    for keys in ({"0": 1, "2": 2}, {"00": 1}, {"0": 1, "x": 2}):
        espalier.save(file, keys)
        with pytest.raises(espalier.TreeMismatch, match="the root: dict in the file, list in the template"):
            espalier.load(file, like=[0, 0])
    espalier.save(file, {"r": {0: 0, 1: 3, 2: 1}})
    with pytest.raises(espalier.TreeMismatch):
        espalier.load(file, like={"r": range(3)})


def test_keys_as_text(file):
    espalier.save(file, {"0": {"a": 1}, "1": 2})
    with pytest.raises(espalier.TreeMismatch, match="0: missing"):
        espalier.load(file, like={0: {"a": 0}, 1: 0})
    assert espalier.load(file, like={0: {"a": 0}, 1: 0}, keys="text") == {0: {"a": 1}, 1: 2}
    with pytest.raises(espalier.TreeMismatch):
        espalier.load(file, like={True: 0, "0": ANY})


def test_axis_names_are_compared_where_both_have_them(file):
    espalier.save(file, espalier.AxisNamed(F32[:, :2].copy(), ("heads", "dim")))
    for names in (("heads", "dim"), ()):
        assert same(espalier.load(file, like=espalier.spec((2, 2), "f32", names)), F32[:, :2])
    with pytest.raises(espalier.TreeMismatch, match="dim.*heads"):
        espalier.load(file, like=espalier.spec((2, 2), "f32", ("dim", "heads")))


def test_ties_stay(file):
    espalier.save(file, {"a": F32, "b": F32})
    back = espalier.load(file, like={"a": F32, "b": F32.copy()})
    assert back["a"] is back["b"]


def test_unread_bytes_are_not_checked(file):
    espalier.save(file, {"a": F32, "z": F32 + 1})
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    assert same(espalier.load(file, like={"a": F32, "z": SKIP})["a"], F32)
    with pytest.raises(espalier.Corrupt):
        espalier.load(file, like={"a": F32, "z": F32})


def test_wrong_arguments(saved):
    for wrong in ({"strict": "all"}, {"keys": "any"}, {"cast": "int"}, {"exact": True}):
        with pytest.raises(espalier.EspalierError, match=next(iter(wrong))):
            espalier.load(saved, like=STATE, **wrong)


def test_a_class_in_a_template_hides_nothing(file):
    espalier.save(file, {"w": np.ones(2, np.float32), "step": 3, "nothing": None})
    with pytest.raises(espalier.TreeMismatch, match=r"w: f32 \[2\] in the file, what no file holds \(type\) in the template"):
        espalier.load(file, like={"w": np.float32, "step": 0, "nothing": None})
    assert espalier.load(file, like={"w": espalier.ANY, "step": 0, "nothing": print})["nothing"] is print


class Moments(typing.NamedTuple):
    mu: int


class Belief(typing.NamedTuple):
    mu: int


def test_records_of_another_class_are_a_difference(file):
    espalier.save(file, [Moments(1)])
    with pytest.raises(espalier.TreeMismatch, match="0: record .*Moments in the file, record .*Belief in the template"):
        espalier.load(file, like=[Belief(0)])
    state, ledger = espalier.load(file, like=[Belief(0)], strict=False)
    assert state == [Belief(1)] and [each.path for each in ledger.reclassed] == ["0"]
    espalier.save(file, [espalier.Record("elsewhere.Moments", [("mu", 1)])])
    assert espalier.load(file, like=[Moments(0)]) == [Moments(1)]


def test_a_load_of_nothing_is_told(file):
    espalier.save(file, {"state": {"w": np.ones(3, np.float32)}})
    with pytest.warns(UserWarning, match="nothing was loaded, as nothing in the file matches the template: w: missing in") as told:
        state, ledger = espalier.load(file, like={"w": np.zeros(3, np.float32)}, strict=False)
    assert [warning.filename for warning in told] == [__file__]
    assert not state["w"].any() and ledger.unexpected == ["state"]
    espalier.load(file, like={"w": np.zeros(3, np.float32), "state": espalier.ANY}, strict=False)
    espalier.save(file, {})
    espalier.load(file, like={}, strict=False)
    # strict="file" gives no ledger, so nobody would see it.
    with pytest.raises(espalier.TreeMismatch, match="the file has nothing of the template.* w and so on; pass strict=False") as caught:
        espalier.load(file, like={"w": F32}, strict="file")
    assert caught.value.ledger.missing == ["w"]
    assert espalier.load(file, like={"f": max}, strict="file") == {"f": max}


class Nothing(typing.NamedTuple):
    """As optax's EmptyState."""


def test_a_list_stands_for_a_tuple_and_null_for_what_has_no_values(file):
    # What Orbax saves of optax's states: tuples are lists, named tuples are dicts or None.
    espalier.save(file, {"opt": [{"count": 3, "mu": {"w": F32}}, None]}, sync=False)
    back, ledger = espalier.load(file, like={"opt": (Adam(0, {"w": F32}), Nothing())}, strict=False)
    assert type(back["opt"]) is tuple and type(back["opt"][0]) is Adam and back["opt"][0].count == 3
    assert same(back["opt"][0].mu["w"], F32) and back["opt"][1] == Nothing()
    assert "opt/1" in ledger.kept and "opt" in [each.path for each in ledger.relabelled]
    # A record with values is not null, and a tuple not a list.
    for template in ({"opt": [ANY, Adam(0, {"w": F32})]}, {"opt": (ANY, (F32,))}):
        with pytest.raises(espalier.TreeMismatch, match="opt/1: null in the file"):
            espalier.load(file, like=template)
