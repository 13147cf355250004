"""Key maps: planned, read through, saved, and what is wrong with them."""

import collections
import json
import pickle
import re

import espalier
import numpy as np
import pytest
from espalier._errors import in_python

F32 = np.arange(6, dtype=np.float32).reshape(2, 3)

MAP = {
    "espalier_map": 1,
    "name": "example",
    "left": {"label": "a", "names": "dotted", "tree": "flat"},
    "right": {"label": "b", "names": "dotted", "tree": "nested"},
    "along": {"left": ["opt.{param}.{slot}"], "right": ["moments.{slot}.{param}"]},
    "rules": [
        "l.{i}.q [(h p 2) n], l.{i}.k [(h p 2) n] <-> layers.{i}.qk [(h 2 p)+(h 2 p) n]",
        "norm [n] <-> final_norm [n]",
        "? gone [n] -> drop",
    ],
}


def state():
    made = {f"l.{i}.{name}": np.arange(16, dtype=np.float32).reshape(8, 2) + 100 * i + 50 * (name == "k") for i in (0, 1) for name in "qk"}
    return {**made, "norm": np.ones(2, np.float32)}


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.safetensors"
    espalier.save_safetensors(path, state(), metadata={"by": "me"})
    return path


def test_a_mapped_checkpoint_is_a_checkpoint(source, tmp_path):
    mapped = espalier.map(source, MAP, sizes={"p": 2})
    assert [target.name for target in mapped.targets] == ["layers.0.qk", "layers.1.qk", "final_norm"]
    first = mapped.targets[0]
    assert (first.rule, first.work, first.dtype, first.shape) == (1, "strided", "f32", (16, 2))
    assert first.sources == ("l.0.q", "l.0.k")
    made = mapped.load()
    want = state()["l.1.q"].reshape(2, 2, 2, 2).transpose(0, 2, 1, 3).reshape(8, 2)
    assert np.array_equal(made["layers"]["1"]["qk"][:8], want)
    assert np.array_equal(mapped["layers"]["1"]["qk"][2:4], want[2:4])
    assert np.array_equal(mapped.load(at="layers/1/qk"), made["layers"]["1"]["qk"])
    with pytest.raises(espalier.TreeMismatch):
        mapped.load(like={"layers": {"0": {"qk": np.zeros((3, 2), np.float32)}}})

    for name in ("out.espalier", "out.safetensors"):
        if name.endswith("safetensors"):  # which has no nested dicts
            mapped = espalier.map(source, {**MAP, "right": {"tree": "flat"}}, sizes={"p": 2})
        mapped.save(tmp_path / name)
        with espalier.open(tmp_path / name) as saved:
            note = json.loads(saved.metadata["espalier.map"])
            assert (note["name"], note["sizes"], saved.metadata["by"]) == ("example", {"p": 2}, "me")
        back = espalier.map(tmp_path / name, {**MAP, "sizes": {"p": "head_dim / 2"}}, reverse=True, config={"head_dim": 4}).load()
        assert back.keys() == state().keys()
        assert all(np.array_equal(back[key], value) for key, value in state().items())
    with pytest.raises(espalier.EspalierError, match="not compressed"):
        mapped.save(tmp_path / "out.safetensors", compression=3)
    with pytest.raises(TypeError, match="does not pickle"):
        pickle.dumps(mapped)


def test_state_follows_its_parameters(tmp_path):
    moments = {name: {"exp_avg": value * 2, "step": np.float32(7)} for name, value in state().items()}
    path = tmp_path / "run.espalier"
    espalier.save(path, {"model": state(), "opt": moments, "epoch": 3})
    mapped = espalier.map(path, MAP, at="model", sizes={"p": 2})
    made = mapped.load()
    assert made["epoch"] == 3
    assert np.array_equal(made["moments"]["exp_avg"]["layers"]["0"]["qk"], made["model"]["layers"]["0"]["qk"] * 2)
    assert made["moments"]["step"]["layers"]["0"]["qk"] == 7

    # Names of parameters stay one key each where they are.
    rules = {key: value for key, value in MAP.items() if key not in ("left", "right")}
    flat = espalier.map(path, rules, at="model", sizes={"p": 2}).load()
    assert np.array_equal(flat["moments"]["exp_avg"]["layers.0.qk"], flat["model"]["layers.0.qk"] * 2)


def test_numbers_of_parameters_follow(tmp_path):
    """As an optimizer of torch counts them: in two groups. The first group has the second layer."""
    moments = {f"{name}": {"exp_avg": value * 2} for name, value in state().items()}
    names = ["l.1.q", "l.1.k", "l.0.q", "l.0.k", "norm"]
    optimizer = {
        "state": {number: moments[name] for number, name in enumerate(names)},
        "param_groups": [{"lr": 0.1, "params": [0, 1]}, {"lr": 0.2, "params": [2, 3, 4]}],
    }
    path = tmp_path / "run.espalier"
    rules = {key: value for key, value in MAP.items() if key not in ("left", "right", "along")}
    options = {"at": "model", "along": "opt.state.{param#}.{slot}", "sizes": {"p": 2}}
    espalier.save(path, {"model": state(), "opt": optimizer})
    made = espalier.map(path, rules, param_order=names, **options).load()
    assert [group["params"] for group in made["opt"]["param_groups"]] == [[0], [1, 2]]
    assert [group["lr"] for group in made["opt"]["param_groups"]] == [0.1, 0.2]
    for number, name in enumerate(["layers.1.qk", "layers.0.qk", "final_norm"]):
        assert np.array_equal(made["opt"]["state"][number]["exp_avg"], made["model"][name] * 2)
    # Without an order, that of the file counts if there is one group alone.
    with pytest.raises(espalier.EspalierError, match="param_order="):
        espalier.map(path, rules, **options)
    with pytest.raises(espalier.EspalierError, match="4 names, and the optimizer 5 parameters"):
        espalier.map(path, rules, param_order=names[1:], **options)
    with pytest.raises(espalier.EspalierError, match="a parameter 'm.norm', and the checkpoint has none below 'model'"):
        espalier.map(path, rules, param_order=[*names[:4], "m.norm"], **options)
    with pytest.raises(espalier.EspalierError, match="nothing lies along"):
        espalier.map(path, rules, at="model", along="optimizer.{param}.{slot}", sizes={"p": 2})

    for group, own in zip(optimizer["param_groups"], (names[:2], names[2:]), strict=True):
        group["param_names"] = own
    espalier.save(path, {"model": state(), "opt": optimizer})
    named = espalier.map(path, rules, **{**options, "along": "opt.state.{param#}.{slot} <-> opt.state.{param}.{slot}"}).load()
    assert named["opt"]["param_groups"][1]["params"] == ["layers.0.qk", "final_norm"]
    assert named["opt"]["param_groups"][1]["param_names"] == ["layers.0.qk", "final_norm"]
    assert np.array_equal(named["opt"]["state"]["final_norm"]["exp_avg"], state()["norm"] * 2)

    optimizer["param_groups"] = [{"params": [0, 3, 2, 1], "param_names": [names[i] for i in (0, 3, 2, 1)]}, {"params": [4], "param_names": ["norm"]}]
    joined = {"espalier_map": 1, "rules": ["l.{i}.{w:q|k} [a b] <-> l.{i}.{w:q|k} [b a]", "norm [2] <-> norm [2]"]}
    espalier.save(path, {"model": state(), "opt": optimizer})
    espalier.map(path, joined, **{**options, "sizes": {}})
    optimizer["param_groups"] = [{"params": [0], "param_names": ["l.1.q"]}, {"params": [1, 2, 3, 4], "param_names": names[1:]}]
    espalier.save(path, {"model": state(), "opt": optimizer})
    with pytest.raises(espalier.EspalierError, match="two groups"):
        espalier.map(path, rules, **options)
    optimizer["param_groups"] = [{"params": [0, 1, 2, 3, 4]}]
    espalier.save(path, {"model": state(), "opt": optimizer})
    made = espalier.map(path, rules, **options).load()
    assert np.array_equal(made["opt"]["state"][0]["exp_avg"], made["model"]["layers.1.qk"] * 2)  # as wrong as the file's order
    # State alone, without the options of the optimizer.
    espalier.save(path, {"model": state(), "opt": {"state": optimizer["state"]}})
    made = espalier.map(path, rules, param_order=names, **options).load()
    for number, name in enumerate(made["model"]):
        assert np.array_equal(made["opt"]["state"][number]["exp_avg"], made["model"][name] * 2)
    wrapped = {f"module.{name}": value for name, value in state().items()}
    optimizer["param_groups"] = [{"params": [0, 1, 2, 3, 4], "param_names": [f"module.{name}" for name in names]}]
    espalier.save(path, {"model": wrapped, "opt": optimizer})
    made = espalier.map(path, "unwrap", **{**options, "sizes": {}}).load()
    assert made["opt"]["param_groups"][0]["param_names"] == list(made["model"]) == list(state())
    assert all(np.array_equal(made["opt"]["state"][i]["exp_avg"], value * 2) for i, value in enumerate(made["model"].values()))
    with pytest.raises(espalier.EspalierError, match="like must be a file"):
        espalier.map(path, "unwrap", like={"a": espalier.ANY})


def test_groups_of_an_optimizer_in_a_list_are_written_anew(tmp_path):
    """As in a checkpoint of Lightning."""
    moments = {"a": np.full((2, 3), 1.0), "b": np.full(2, 2.0), "c": np.full(2, 3.0)}
    group = {"lr": 1.0, "params": [0, 1, 2], "param_names": ["c", "b", "a"]}
    optimizer = {"state": {i: {"exp_avg": moments[name]} for i, name in enumerate(group["param_names"])}, "param_groups": [group]}
    state = {"state_dict": {name: np.zeros_like(value) for name, value in moments.items()}, "optimizer_states": [{}, optimizer]}
    path = tmp_path / "run.espalier"
    espalier.save(path, state)
    rules = {"espalier_map": 1, "rules": ["a [m n] <-> x [n m]", "b [n], c [n] <-> y [n+n]"]}
    made = espalier.map(path, rules, at="state_dict", along="optimizer_states.1.state.{param#}.{slot}").load()["optimizer_states"][1]
    assert made["param_groups"] == [{"lr": 1.0, "params": [0, 1], "param_names": ["x", "y"]}]
    assert made["state"][0]["exp_avg"].shape == (3, 2) and list(made["state"][1]["exp_avg"]) == [2, 2, 3, 3]


def test_two_optimizers_with_numbers_are_refused(tmp_path):
    def optimizer(name):
        return {"state": {0: {"exp_avg": F32}}, "param_groups": [{"params": [0], "param_names": [name]}]}

    path = tmp_path / "run.espalier"
    espalier.save(path, {"m": {"a": F32, "b": F32}, "g": optimizer("a"), "d": optimizer("b")})
    rules = {"espalier_map": 1, "rules": ["a [m n] <-> x [n m]", "b [m n] <-> y [m n]"]}
    both = ["g.state.{param#}.{slot}", "d.state.{param#}.{slot}"]
    with pytest.raises(espalier.EspalierError, match="are of two optimizers, each with numbers of its own"):
        espalier.map(path, rules, at="m", along=both)
    with pytest.raises(espalier.EspalierError, match="are of two optimizers"):
        espalier.map(path, {**rules, "along": {"left": both, "right": both}}, at="m")
    one = ["g.state.{param#}.{slot}"]
    with pytest.raises(espalier.EspalierError, match="'d.state.0.exp_avg' looks like state of"):
        espalier.map(path, rules, at="m", along=one)


@pytest.mark.parametrize("slot", ["row_var", "col_var", "exp_avg_sq_row", "exp_avg_sq_col"])
def test_state_of_adafactor_that_would_stay_behind_is_an_error(slot, tmp_path):
    path = tmp_path / "run.espalier"
    rules = {"espalier_map": 1, "rest": "keep", "rules": ["w [m n] <-> w [n m]"]}
    for value in (np.zeros((2, 1), np.float32), np.zeros((1, 3), np.float32), np.zeros(3, np.float32)):
        espalier.save(path, {"model": {"w": F32}, "opt": {"state": {0: {slot: value}}}})
        with pytest.raises(espalier.EspalierError, match=f"'opt.state.0.{slot}' looks like state of 'model.w'.* along='opt.state.{{param#}}.{{slot}}'"):
            espalier.map(path, rules, at="model")
    espalier.save(path, {"model": {"w": F32}, "opt": {"state": {0: {slot: np.zeros(4, np.float32)}}}})
    espalier.map(path, rules, at="model")


def test_what_may_be_wrong_is_a_warning(tmp_path):
    optimizer = {"state": {0: {"exp_avg": F32}, 1: {"exp_avg": F32}}, "param_groups": [{"params": [0, 1], "param_names": ["up", "down"]}]}
    path = tmp_path / "run.espalier"
    espalier.save(path, {"model": {"up": F32, "down": F32}, "opt": optimizer})
    rules = {"espalier_map": 1, "rest": "keep", "rules": ["up <-> w3", "down <-> w2"]}
    with pytest.warns(UserWarning, match=r"run.espalier: .*'opt.state.0.exp_avg' keeps its number, and parameters have new names") as told:
        mapped = espalier.map(path, rules, at="model")
    assert len(told) == 1 and len(mapped.map_notes) == 1 and mapped.map_notes[0] in str(told[0].message)
    assert mapped.map_notes[0].endswith(": along='opt.state.{param#}.{slot}' with like=")
    assert espalier.map(path, rules, at="model", along="opt.state.{param#}.{slot}").map_notes == []
    same = {"espalier_map": 1, "rest": "keep", "rules": ["up <-> up"]}
    assert espalier.map(path, same, at="model").map_notes == []


def test_numbers_that_a_map_wrote_are_read_as_the_same_parameters(tmp_path):
    """A nested tree brings p.a and p.b together, which the rules number apart."""
    rules = {"espalier_map": 1, "left": {"tree": "flat"}, "right": {"tree": "nested"}, "rules": ["x1 <-> p.a", "x2 <-> q.a", "x3 <-> p.b"]}
    moments = {name: np.full(2, 10.0 * i) for i, name in enumerate(("x1", "x2", "x3"), 1)}
    optimizer = {"state": {i: {"exp_avg": value} for i, value in enumerate(moments.values())}, "param_groups": [{"lr": 1.0, "params": [0, 1, 2]}]}
    path, made = tmp_path / "run.espalier", tmp_path / "made.espalier"
    espalier.save(path, {"model": {name: np.zeros(2) for name in moments}, "opt": optimizer})
    espalier.map(path, rules, at="model", along="opt.state.{param#}.{slot}").save(made)
    group = espalier.load(made)["opt"]["param_groups"][0]
    assert (group["params"], group["param_names"]) == ([0, 1, 2], ["p.a", "q.a", "p.b"])
    named = {"at": "model", "along": "opt.state.{param}.{slot} <-> opt.state.{param#}.{slot}", "reverse": True}
    back = espalier.map(made, rules, **named).load()["opt"]["state"]
    assert {name: value["exp_avg"][0] for name, value in back.items()} == {name: value[0] for name, value in moments.items()}


def test_what_is_wrong_is_named(source, tmp_path):
    def code_of(*arguments, **options):
        with pytest.raises(espalier.EspalierError) as error:
            espalier.map(*arguments, **options)
        return error.value.code, str(error.value)

    assert code_of(source, MAP) == ("map_undetermined", code_of(source, MAP)[1])
    assert "in.safetensors: the key map" in code_of(source, MAP)[1] and "sizes=" in code_of(source, MAP)[1]
    code, message = code_of(source, {"espalier_map": 1, "rules": ["a [n] <-> b [m]"]})
    assert code == "map_invalid" and "rule 1" in message
    assert "llama-meta" in code_of(source, "llama")[1]
    assert code_of(source, tmp_path / "none.json")[0] == "file_not_found"
    assert code_of(source, {"rules": [np.zeros(1)]})[0] == "map_invalid"
    assert code_of(source, MAP, sizes={"p": "2"})[0] == "invalid_argument"
    assert code_of(source, MAP, sizes={"p": float("nan")})[0] == "invalid_argument"
    assert code_of(source, MAP, config="{")[0] == "file_not_found"
    assert code_of(source, MAP, sizes={"p": 2}, rest="leave")[0] == "invalid_argument"
    like = tmp_path / "like.espalier"
    espalier.save(like, {"final_norm": np.zeros(2, np.float32)})
    assert code_of(source, MAP, sizes={"p": 2}, like=like)[0] == "map_template"
    rules = {"espalier_map": 1, "rest": "drop", "rules": ["norm [n] = l.0.q [n 2] <-> one [n]"]}
    assert code_of(source, rules)[0].startswith("map_")


def test_a_model_is_exported_from_a_training_checkpoint(tmp_path):
    path, out = tmp_path / "run.espalier", tmp_path / "out.safetensors"
    rules = {"espalier_map": 1, "rules": ["embed.weight <-> tok.weight", "layers.{i}.{p*} <-> blocks.{i}.{p*}"]}
    model = {"tok.weight": F32, "blocks.0.weight": F32 + 1, "blocks.1.bias": np.ones(2)}
    espalier.save(path, {"step": 7, "run": {"model": model, "ema": F32}, "optimizer": {"lr": 0.1}}, metadata={"by": "me"})
    mapped = espalier.map(path, rules, at="run.model", reverse=True)
    with pytest.warns(espalier.LossWarning, match="out.safetensors has what is at run/model alone, and not step, optimizer, run/ema; pass at="):
        mapped.save(out)
    names = {"embed.weight", "layers.0.weight", "layers.1.bias"}
    assert espalier.load(out).keys() == names and espalier.open(out).metadata["by"] == "me"
    out.unlink()
    mapped.save(out, at="run/model")  # said, so without a word
    assert espalier.load(out).keys() == names
    mapped.save(tmp_path / "whole.espalier")
    assert espalier.load(tmp_path / "whole.espalier").keys() == {"step", "run", "optimizer"}
    mapped.save(tmp_path / "part.espalier", at="optimizer")
    assert espalier.load(tmp_path / "part.espalier") == {"lr": 0.1}
    with pytest.raises(espalier.KeyPathError):
        mapped.save(out, at="none")
    with pytest.raises(espalier.Unsupported, match="safetensors cannot hold step .*; save it to a file that ends in .espalier, which holds all, or leave it out"):
        mapped.save(out, at="")
    assert espalier.load(out).keys() == names
    # A step of a Checkpointer has its number and time in the metadata, and a module has a label.
    step = collections.OrderedDict(model)
    espalier.save(path, {"model": step, "optimizer": {}}, metadata={"step": 7, "time": 1.5, "by": "me"})
    mapped = espalier.map(path, rules, at="model", reverse=True)
    with pytest.warns(espalier.LossWarning, match="out.safetensors lacks what safetensors cannot hold: .*step .int64.*time .float64"):
        mapped.save(out, at="model")
    assert espalier.load(out).keys() == names and espalier.open(out).metadata["by"] == "me"
    with pytest.raises(espalier.Unsupported, match="step .int64"):
        mapped.save(out, at="model", unrepresentable="error")
    # Nothing is beside it, or the names are flat.
    espalier.save(path, {"model": model})
    espalier.map(path, rules, at="model", reverse=True).save(out)
    assert espalier.load(out).keys() == names
    espalier.save(path, {f"model.{name}": value for name, value in model.items()})
    espalier.map(path, rules, at="model", reverse=True).save(out)
    assert espalier.load(out).keys() == {f"model.{name}" for name in names}


def test_errors_of_maps_name_arguments_of_python(repository, source):
    texts = [text for file in (repository / "src/espalier/map").glob("*.cpp") for text in re.findall(r'"((?:[^"\\]|\\.)*)"', file.read_text())]
    options = [text for text in texts if re.search(r"--[a-z]", text)]
    assert len(options) > 15 and not [text for text in options if re.search(r"--[a-z]", in_python(text))]
    said = "pass it as --config, or --set lora_alpha=..., or --set p=2, and --along 'a.{b}' or --along none with --partial"
    here = """pass it as config=, or sizes={"lora_alpha": ...}, or sizes={"p": 2}, and along='a.{b}' or along="none" with partial=True"""
    assert in_python(said) == here
    with pytest.raises(espalier.EspalierError, match=r'give it: sizes=\{"h": \.\.\.\}'):
        espalier.map(source, MAP)
    with pytest.raises(espalier.EspalierError, match=r"no tensor fits its right side: .*\{x\} is a whole number, \{x\*\} any text\), and at= if"):
        espalier.map(source, {"espalier_map": 1, "rules": ["fc.{p} <-> {p}"]}, reverse=True)


def test_numbers_that_are_set_count_first(tmp_path):
    path = tmp_path / "a.espalier"
    espalier.save(path, {"a": np.float32([1, 2])})
    rules = {"espalier_map": 1, "sizes": {"k": "factor"}, "rules": ["a [n] * k -> b [n]"]}
    for number in (0.5, -2, 3):
        made = espalier.map(path, rules, sizes={"k": number}, config={"factor": 7}).load()
        assert np.array_equal(made["b"], np.float32([1, 2]) * np.float32(number))
    # A sum of nothing, which 2^40 steps of another axis would repeat.
    espalier.save(path, {"x": np.zeros((1, 2**40, 0), np.float32), "y": np.zeros((2**40, 0, 1), np.float32)})
    made = espalier.map(path, {"espalier_map": 1, "rules": ["x [o i j] * y [i j p] -> z [o p]"]}).load()
    assert np.array_equal(made["z"], np.zeros((1, 1), np.float32))


def test_groups_of_strangers_take_no_memory(tmp_path):
    path = tmp_path / "run.espalier"
    optimizer = {"state": {0: {"exp_avg": np.zeros(2)}}, "param_groups": {"999999999": {"params": [0]}}}
    espalier.save(path, {"model": {"a": np.zeros(2)}, "opt": optimizer})
    with pytest.raises(espalier.EspalierError, match="not numbered from 0"):
        espalier.map(path, "unwrap", at="model", along="opt.state.{param#}.{slot}")
    optimizer["param_groups"] = [{"params": [0]}]
    optimizer["state"][0]["deep"] = {"x": np.zeros(2)}
    espalier.save(path, {"model": {"a": np.zeros(2)}, "opt": optimizer})
    with pytest.raises(espalier.EspalierError, match="would stay with the old name"):
        espalier.map(path, "unwrap", at="model", along="opt.state.{param#}.{slot}")


def test_labels_make_files_of_a_folder(source, tmp_path):
    rules = {"espalier_map": 1, "rules": ["norm [n] <-> rest::norm [n]", "l.{i}.{w:q|k} <-> layers::{w:q|k}.{i}"]}
    mapped = espalier.map(source, rules)
    with pytest.raises(espalier.EspalierError, match="must be a folder"):
        mapped.save(tmp_path / "out.espalier")
    mapped.save(tmp_path)
    assert np.array_equal(espalier.load(tmp_path / "rest.espalier")["norm"], state()["norm"])
    files = {"rest": tmp_path / "rest.espalier", "layers": espalier.open(tmp_path / "layers.espalier")}
    back = espalier.map(files, rules, reverse=True).load()
    assert all(np.array_equal(back[key], value) for key, value in state().items())


def test_maps_follow_each_other_and_name_axes(tmp_path):
    path = tmp_path / "wrapped.safetensors"
    espalier.save_safetensors(path, {f"module.{name}": value for name, value in state().items()})
    rules = {**MAP, "right": {"tree": "flat", "axis_names": True}, "rules": ["l.{i}.{w:q|k} [o n] <-> {w:q|k} [i o n]", "norm [n] <-> norm [n]"]}
    mapped = espalier.map(espalier.map(path, "unwrap"), rules)
    assert (mapped["q"].axis_names, mapped["norm"].axis_names) == (("i", "o", "n"), ("n",))
    assert np.array_equal(mapped.load()["k"][1], state()["l.1.k"])
    note = json.loads(mapped.metadata["espalier.map"])
    assert (note["name"], note["before"]["name"]) == ("example", "unwrap")


def test_known_maps():
    maps = espalier.key_maps()
    assert "llama-torchtune" in maps
    assert all('"espalier_map": 1' in text for text in maps.values())


def test_factors_of_an_adapter_follow_their_weights(tmp_path):
    rng = np.random.default_rng(3)
    base = {f"l.0.{name}": rng.integers(-9, 9, (8, 2)).astype(np.float32) for name in "qk"}
    factors = {}
    for name in "qk":
        factors[f"base_model.model.l.0.{name}.lora_A.weight"] = rng.integers(-9, 9, (3, 2)).astype(np.float32)
        factors[f"base_model.model.l.0.{name}.lora_B.weight"] = rng.integers(-9, 9, (8, 3)).astype(np.float32)
    merged = {}
    for name in "qk":
        a, b = (factors[f"base_model.model.l.0.{name}.lora_{each}.weight"] for each in "AB")
        merged[f"l.0.{name}"] = base[f"l.0.{name}"] + 2 * b @ a
    paths = {name: tmp_path / f"{name}.safetensors" for name in ("base", "merged", "adapter")}
    for name, tensors in (("base", base), ("merged", merged), ("adapter", factors)):
        espalier.save_safetensors(paths[name], tensors)
    rules = {key: value for key, value in MAP.items() if key != "along"} | {"right": {"tree": "flat"}, "rules": [MAP["rules"][0]]}
    config = tmp_path / "adapter_config.json"
    config.write_text(json.dumps({"r": 3, "lora_alpha": 6, "use_rslora": False}))
    mapped = espalier.map(paths["adapter"], rules, lora="peft <-> torchtune", config=[{"head_dim": 4}, config], sizes={"p": 2})
    assert mapped.lora == {"r": 6, "lora_alpha": 12, "use_rslora": False, "rank_pattern": {}, "alpha_pattern": {}, "target_modules": ["layers.0.qk"]}
    made = mapped.load()
    a, b = made["layers.0.qk.lora_a.weight"], made["layers.0.qk.lora_b.weight"]
    before, after = (espalier.map(paths[name], rules, sizes={"p": 2}).load()["layers.0.qk"] for name in ("base", "merged"))
    assert espalier.map(paths["base"], rules, sizes={"p": 2}).lora is None
    assert np.array_equal(before + 12 / 6 * b @ a, after)
    mapped.save(tmp_path / "out.safetensors")
    with espalier.open(tmp_path / "out.safetensors") as saved:
        assert json.loads(saved.metadata["espalier.map"])["lora"] == mapped.lora
    with pytest.raises(espalier.EspalierError, match="adapter_config.json") as error:
        espalier.map(paths["adapter"], rules, lora=["peft <-> torchtune"], sizes={"p": 2})
    assert error.value.code == "map_undetermined"
    with pytest.raises(espalier.EspalierError, match="config must be"):
        espalier.map(paths["adapter"], rules, lora="peft", config=[7])


def test_state_that_would_stay_behind_is_an_error(tmp_path):
    rules = {"espalier_map": 1, "rules": ["w [a b] <-> w [b a]", "? old <-> new"]}
    weight = np.arange(9, dtype=np.float32).reshape(3, 3)
    path = tmp_path / "run.espalier"

    def refused(tree, **options):
        espalier.save(path, tree)
        with pytest.raises(espalier.EspalierError) as error:
            espalier.map(path, rules, **{"at": "model", **options})
        assert error.value.code == "map_unmatched"
        return str(error.value)

    by_name = {"model": {"w": weight}, "optim": {"w": {"exp_avg": weight * 2, "step": 3}}}
    assert "take it along with along='optim.{param}.{slot}'" in refused(by_name)
    by_number = {"model": {"w": weight}, "optim": {"state": {0: {"exp_avg": weight * 2}}, "param_groups": [{"params": [0]}]}}
    assert "along='optim.state.{param#}.{slot}'" in refused(by_number)
    assert "'ema.w' looks like state of 'model.w'" in refused({"model": {"w": weight}, "ema": {"w": weight}})
    assert "'ema.old'" in refused({"model": {"w": weight, "old": weight}, "ema": {"old": weight}})
    assert "'moments.w'" in refused({"w": weight, "moments": {"w": weight}}, at="", rest="keep")

    espalier.save(path, by_name)
    moved = espalier.map(path, rules, at="model", along="optim.{param}.{slot}").load()
    assert np.array_equal(moved["optim"]["w"]["exp_avg"], weight.T * 2)
    kept = espalier.map(path, rules, at="model", along="none").load()
    assert np.array_equal(kept["model"]["w"], weight.T) and np.array_equal(kept["optim"]["w"]["exp_avg"], weight * 2)
    # No state of what changes: another shape, and a parameter that stays as it is.
    espalier.save(path, {"model": {"w": weight, "old": weight}, "ema": {"w": np.zeros(9), "other": weight}})
    with pytest.warns(UserWarning, match="'ema.other' has the shape of 'model.w', which the map changes, and stays as it is"):
        espalier.map(path, rules, at="model")


@pytest.mark.filterwarnings("ignore:.*stays as it is")
def test_lists_and_integer_keys_stay_what_they_are(tmp_path):
    path = tmp_path / "run.espalier"
    ones = np.ones((2, 3), np.float32)
    tree = {"w": ones, "runs": [{"a": ones, "b": 1}, (2, "x")], "by_step": {0: ones * 2, 7: None}, "plain": {"deep": {"t": ones * 3}}}
    espalier.save(path, tree)

    def check(made, wanted):
        assert type(made) is type(wanted)
        if isinstance(wanted, dict):
            assert list(made) == list(wanted)
        if isinstance(wanted, (dict, list, tuple)):
            for key in wanted if isinstance(wanted, dict) else range(len(wanted)):
                check(made[key], wanted[key])
        else:
            assert np.array_equal(made, wanted)

    for tree_kind in ("nested", None):
        side = {"tree": tree_kind} if tree_kind else {}
        check(espalier.map(path, {"espalier_map": 1, "right": side, "rules": ["{p...} <-> {p...}"]}).load(), tree)
        transposed = {**tree, "w": ones.T, "by_step": {0: ones * 2, 7: None}}
        rules = {"espalier_map": 1, "right": side, "rest": "keep", "rules": ["w [a b] <-> w [b a]"]}
        check(espalier.map(path, rules).load(), transposed)
    # A flat state has the names of dicts, and what a name cannot say as it is.
    flat = espalier.map(path, {"espalier_map": 1, "right": {"tree": "flat"}, "rest": "keep", "rules": ["w <-> v"]})
    check(flat.load(), {"v": ones, "plain.deep.t": ones * 3, "runs": tree["runs"], "by_step": tree["by_step"]})
    flat.save(tmp_path / "flat.espalier")
    back = espalier.map(tmp_path / "flat.espalier", {"espalier_map": 1, "right": {"tree": "flat"}, "rest": "keep", "rules": ["w <-> v"]}, reverse=True).load()
    check({**back, "w": back["w"]}, {**back, "runs": tree["runs"], "by_step": tree["by_step"], "w": ones})
    # A rule that renames a part of a list leaves the rest where it was.
    part = espalier.map(path, {"espalier_map": 1, "rest": "keep", "rules": ["runs.0.a <-> runs.0.c"]}).load()
    check(part["runs"], [{"b": 1, "c": ones}, (2, "x")])
    with pytest.raises(espalier.EspalierError, match="both what a rule makes and a container"):
        espalier.map(path, {"espalier_map": 1, "right": {"tree": "flat"}, "rest": "keep", "rules": ["w <-> runs"]}).load()


@pytest.mark.parametrize("state", [[1, 2], (3,), {0: 1, 1: 2}, {"a": 1, 0: 2}, [1, {"a": 2}]])
def test_what_stands_at_the_root_under_a_number_is_kept(tmp_path, state):
    """Each once vanished, or ended the program."""
    def arrays(value):
        if isinstance(value, dict):
            return {key: arrays(each) for key, each in value.items()}
        return type(value)(map(arrays, value)) if isinstance(value, (list, tuple)) else np.full((2, 3), value, np.float32)

    whole = arrays(state)
    espalier.save(tmp_path / "in.espalier", whole, sync=False)
    made = espalier.map(tmp_path / "in.espalier", "unwrap").load()
    assert repr(made) == repr(whole) if not isinstance(state, dict) else made.keys() == whole.keys() and all(np.array_equal(made[key], whole[key]) for key in whole)
