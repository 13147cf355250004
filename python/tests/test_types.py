"""Every type that is saved comes back as it was; every other is an error that names its path."""

import argparse
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import math
import pathlib
import threading
import types
import typing
import uuid
import zoneinfo

import espalier
import ml_dtypes
import numpy as np
import pytest

F32 = np.arange(6, dtype=np.float32).reshape(2, 3)
ZONE = zoneinfo.ZoneInfo("Europe/Berlin")


class Point(typing.NamedTuple):
    x: int
    y: float


@dataclasses.dataclass(frozen=True)
class Config:
    width: int
    name: str = "base"


class Color(enum.Enum):
    RED = 1


def resaved(value, file, **options):
    espalier.save(file, {"value": value}, sync=False)
    return espalier.load(file, **options)["value"]


def same(a, b):
    if isinstance(a, np.ndarray) or isinstance(a, np.generic):
        return type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, float) and math.isnan(a):
        return math.isnan(b) and math.copysign(1, a) == math.copysign(1, b)
    if isinstance(a, (list, tuple, collections.deque)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return type(a) is type(b) and list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, decimal.Decimal):
        return type(a) is type(b) and str(a) == str(b)  # A signalling NaN does not compare.
    return type(a) is type(b) and a == b and repr(a) == repr(b)


EXACT = [
    None, True, False, 0, -(2**63), 2**63 - 1, 2**63, -(2**63) - 1, 2**100, -(2**100), -(2**71), 255, 0.1, -0.0,
    math.inf, -math.nan, 5e-324, 1 - 2j, complex(-0.0, math.inf), "", "é\0\U0001f600", b"", b"\0\xff", bytearray(b"x"),
    {}, {"a": 1, 0: 2, "0": 3, -1: 4, "": 5}, [], [[], [1]], (), ((1,), []), set(), {1, "a", (2, 3)}, frozenset({1}),
    collections.OrderedDict([("b", 1), ("a", 2)]), collections.Counter("abca"),
    collections.defaultdict(list, {"a": [1]}), collections.defaultdict(None, {"a": 1}),
    collections.deque([1, 2]), collections.deque([1], 3), collections.deque([], 0), range(1, 9, 2), slice(None, 3, -1),
    datetime.datetime(2026, 1, 2, 3, 4, 5, 6), datetime.datetime(2026, 10, 25, 2, 30, tzinfo=ZONE, fold=1),
    datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=5, minutes=30))),
    datetime.date(1, 1, 1), datetime.time(1, 2, 3, fold=1), datetime.timedelta(days=-1, microseconds=1),
    pathlib.PurePosixPath("a/b"), pathlib.PureWindowsPath("c:\\x"), pathlib.Path("/x"), uuid.UUID(int=7),
    decimal.Decimal("1.10"), decimal.Decimal("sNaN"), fractions.Fraction(1, 3), types.SimpleNamespace(a=1),
    argparse.Namespace(lr=0.1), np.dtype("float32"), np.dtype(">i2"), np.dtype(ml_dtypes.bfloat16), np.str_("x"),
    np.bytes_(b"x"),
    *(np.arange(5).astype(name) for name in ("b1 i1 u1 i2 u2 i4 u4 i8 u8 f2 f4 f8 c8 c16".split())),
    *(np.arange(4).astype(getattr(ml_dtypes, name)) for name in (
        "bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn "
        "float6_e2m3fn float6_e3m2fn uint4 uint2".split())),
    np.arange(-8, 8).astype(ml_dtypes.int4).reshape(4, 4), np.array([-2, -1, 0, 1]).astype(ml_dtypes.int2),
    np.array(1.5), np.zeros((0, 3)), np.zeros((2, 0, 3), np.int8), np.float32(1.5), np.int64(-1), np.bool_(True),
    ml_dtypes.bfloat16(2.5), np.complex64(1j),
    np.array(["2026-01-01", "NaT"], "M8[ns]"), np.array([1, 2], "m8[s]"), np.datetime64("2026-01-01"),
    np.timedelta64(3, "ms"),
]  # fmt: skip


@pytest.mark.parametrize("value", EXACT, ids=lambda value: f"{type(value).__name__}-{str(value)[:20]}")
def test_comes_back_as_it_was(value, file):
    assert same(value, resaved(value, file))
    espalier.save(file, value, sync=False)  # as the root
    back = espalier.load(file)
    assert same(value, back)


@pytest.mark.parametrize("array", [
    np.asfortranarray(F32), F32[:, ::2], F32[::-1], np.broadcast_to(np.float32(1), (2, 3)), F32.astype(">f4"),
    np.arange(8).astype(ml_dtypes.int4)[::2], np.array(["2026-01-01"], ">M8[D]"),
])  # fmt: skip
def test_arrays_come_back_in_c_order_and_native(array, file):
    back = resaved(array, file)
    assert back.flags.c_contiguous and back.dtype.isnative
    assert back.dtype == array.dtype.newbyteorder("=") and np.array_equal(back, array)


def test_arrays_are_read_only_views_of_the_file(file):
    back = resaved(F32, file)
    assert not back.flags.writeable and not back.flags.owndata
    with espalier.open(file) as checkpoint:
        mine = checkpoint["value"].numpy(writable=True)
    mine += 1
    assert np.array_equal(mine, F32 + 1) and np.array_equal(back, F32)


def test_ties(file):
    other = F32.copy()
    state = {"a": F32, "b": [F32, F32[:]], "c": other, "bf": (half := F32.astype(ml_dtypes.bfloat16)), "bf2": half}
    espalier.save(file, state)
    with espalier.open(file) as checkpoint:
        assert checkpoint.verify().chunks == 3
    back = espalier.load(file)
    assert back["a"] is back["b"][0] is back["b"][1] and back["a"] is not back["c"] and back["bf"] is back["bf2"]


def test_views_that_overlap(file):
    x = np.arange(10.0)
    espalier.save(file, [x[:5], x[5:]])  # parts that do not overlap
    with pytest.raises(espalier.Unsupported, match="a and b share some of their memory"):
        espalier.save(file, {"a": x, "b": x[2:4]})
    with pytest.raises(espalier.Unsupported, match='views="copy"'):
        espalier.save(file, {"a": x, "b": x.reshape(2, 5)})
    espalier.save(file, {"a": x, "b": x[2:4]}, views="copy")
    assert np.array_equal(espalier.load(file)["b"], [2, 3])


def test_records(file):
    back = resaved([Point(1, 2.5), Config(3)], file)
    assert [type(each) for each in back] == [espalier.Record] * 2
    assert back[0].x == 1 and back[0]["y"] == 2.5 and back[0].label.endswith("Point") and list(back[1]) == ["width", "name"]
    with pytest.raises(AttributeError, match="it has x, y"):
        back[0].z  # noqa: B018


def test_registered_classes(file):
    for cls in (Point, Config, Color):
        assert espalier.register(cls) is cls
    complex_class = type("Pair", (), {})
    espalier.register(complex_class, lambda value: vars(value), lambda fields: _with(complex_class(), fields), label="Pair")
    state = [Point(1, 2.5), Config(3), Color.RED, _with(complex_class(), {"a": F32})]
    back = resaved(state, file)
    assert back[:3] == state[:3] and np.array_equal(back[3].a, F32)
    data = espalier.save_bytes(espalier.Labelled(f"{__name__}.Point", espalier.Record(None, [("x", 1)])))
    file.write_bytes(data)
    with pytest.raises(espalier.EspalierError, match="missing y"):
        espalier.load(file)


def _with(value, fields):
    vars(value).update(fields)
    return value


def test_labels_from_strangers_are_data(file):
    for label, content in [
        ("collections.OrderedDict", [1]), ("range", (1, 2, 3, 4)), ("os.system", "true"), ("builtins.eval", "1+1"),
        ("datetime.date", "no date"), ("uuid.UUID", "x"), ("fractions.Fraction", (1, 0)), ("datetime64[ns]", F32),
        ("datetime.datetime", "2026-01-01T00:00:00[../../etc/passwd]"), ("numpy.float64", F32),
        ("collections.deque[99999999999999999999]", [1]), ("numpy.dtype", "V8"), ("", "empty"),
    ]:  # fmt: skip
        labelled = espalier.Labelled(label, content)
        assert same(resaved(labelled, file), content), label
        again = resaved(labelled, file, exact=True)
        assert again.label == label and same(again.value, content)


def test_exact_keeps_what_has_no_type(file):
    named = espalier.AxisNamed(F32, ("rows", ""))
    packed = espalier.Packed("opaque", (64,), np.arange(36, dtype=np.uint8), (), ("q4_0", 32, 18))
    missing = espalier.Placeholder("bf16", (3, 4), ("a", "b"))
    unhashable = espalier.OrderedSet(([1], [2]))
    espalier.save(file, [named, packed, missing, unhashable])
    back = espalier.load(file, exact=True)
    assert same(back[0].array, F32) and back[0].axis_names == ("rows", "") and back[2] == missing
    assert back[1].block == ("q4_0", 32, 18) and same(back[1].data, packed.data) and back[3] == unhashable
    with pytest.raises(espalier.Unsupported, match="OrderedSet"):
        espalier.load(file)


def itself():
    value = []
    value.append([value])
    return value


def deep():
    value = 1
    for _ in range(300):
        value = [value]
    return value


class Dict(dict):
    pass


REFUSED = [
    (object(), "object cannot be saved"), (lambda: 1, "is code"), (len, "is code"), (math, "cannot be saved"),
    ((i for i in ()), "list()"), (threading.Lock(), "cannot be saved"), ({(1, 2): 3}, "neither a str nor an int"),
    ({True: 1}, "neither a str nor an int"), ({2**63: 1}, "neither a str nor an int"), ({1.0: 1}, "neither"),
    ("\ud800", "surrogates"), ({"\ud800": 1}, "surrogates"), (itself(), "contains itself"), (deep(), "256 deep"),
    (Dict(), "subclass of dict"), (collections.defaultdict(lambda: 1), "factory"), (functools.partial(int), "code"),
    (np.array([object()]), "list"), (np.array(["x"]), "list of str"), (np.zeros(2, "V3"), "no elements"),
    (np.zeros(1, [("a", "f4")]), "no elements"), (np.longdouble(1), "no elements"), (np.ma.array([1]), "masked"),
    (np.zeros(1).view(np.recarray), "recarray"), (Color, "is code"), (memoryview(b"x"), "cannot be saved"),
    (np.zeros(3, ml_dtypes.int4), "multiple of 2, or save astype"), (np.zeros((2, 3), ml_dtypes.int2), "multiple of 4"),
    (1 << 9000, "an int of 1126 bytes, and a checkpoint has those of up to 1024; save what its to_bytes"),
    (collections.UserDict(), "^model/1: a collections.UserDict"), (iter([]), "^model/1: a list_iterator"),
    (datetime.datetime(2026, 1, 1, tzinfo=type("Zone", (datetime.tzinfo,), {})()), "time zone"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "reason"), REFUSED, ids=lambda value: value[:20] if type(value) is str else type(value).__name__)
def test_refused_with_its_path(value, reason, file):
    file.write_bytes(b"before")
    with pytest.raises(espalier.Unsupported, match=reason) as caught:
        espalier.save(file, {"good": 1, "model": [0, value]})
    assert caught.value.path.startswith("model/1") and str(caught.value).startswith("model/1")
    assert file.read_bytes() == b"before"


def test_whatever_has_a_state_dict(file):
    class Scheduler:
        def state_dict(self):
            return collections.OrderedDict(step=3)

    assert same(resaved(Scheduler(), file), collections.OrderedDict(step=3))


def test_classes_are_code(file):
    for cls in (Point, Config, Color, int):
        with pytest.raises(espalier.Unsupported, match="is code"):
            espalier.save(file, {"a": [cls]})


@pytest.mark.parametrize("name", ["M8[ns]", "m8", "M8[25s]", "U5", "S3", "O", ">f4", "f16", "bool"])
def test_dtypes_come_back(file, name):
    assert resaved(np.dtype(name), file) == np.dtype(name)


def test_a_dtype_of_structures_is_an_error(file):
    for dtype in ("V8", [("a", "f4")]):
        with pytest.raises(espalier.Unsupported, match="which is of structures"):
            espalier.save(file, np.dtype(dtype))
    espalier.save(file, espalier.Labelled("numpy.dtype", "i4,f4"))
    assert espalier.load(file) == "i4,f4"


class Mode(enum.Flag):
    READ = 1
    WRITE = 2


def test_flags_and_members_that_are_gone(file):
    for value in (Mode.READ | Mode.WRITE, Mode(0), Mode.READ):
        espalier.save(file, value)
        assert espalier.load(file) == value.value
    espalier.register(Mode)
    for value in (Mode.READ | Mode.WRITE, Mode(0), Mode.READ):
        assert resaved(value, file) is value
    espalier.register(Color)
    espalier.save(file, espalier.Labelled(espalier._registry.of_class(Color).label, "GONE"))
    with pytest.raises(espalier.EspalierError, match="the member 'GONE' of"):
        espalier.load(file)


def test_a_key_that_cannot_be_saved_is_named_with_its_dict(file):
    with pytest.raises(espalier.Unsupported, match="^a/b: the key 1000") as error:
        espalier.save(file, {"a": {"b": {"good": {"x": 1}, 10**30: 1}}})
    assert error.value.path == "a/b"


def test_bytes_are_loaded_as_they_were_saved():
    state = {"w": F32, "n": (1, "a")}
    loaded = espalier.load_bytes(espalier.save_bytes(state, compression=1))
    assert same(loaded, state)
    with pytest.raises(espalier.TreeMismatch):
        espalier.load_bytes(espalier.save_bytes(state), like={"w": F32})
    with pytest.raises(espalier.EspalierError, match="load_bytes.. reads them"):
        espalier.load(espalier.save_bytes(state))


BAD_OPTIONS = [
    (lambda f: espalier.save(f, 1, compression="zstd"), "compression must be an int, 0 to 9, not 'zstd'"),
    (lambda f: espalier.save(f, 1, compression=10), "compression must be 0 to 9, not 10"),
    (lambda f: espalier.save(f, 1, threads=-1), "threads must be 0 to 65536, not -1"),
    (lambda f: espalier.save(f, 1, metadata=[1]), "metadata must be a dict, not a list"),
    (lambda f: espalier.load(f, cast="float"), "pass like="),
    (lambda f: espalier.load(f, strict=False), "pass like="),
    (lambda f: espalier.Checkpointer(f.parent / "c", keep=0), "keep must be at least 1, not 0"),
    (lambda f: espalier.Checkpointer(f.parent / "c", every=1.5), "every must be an int, at least 1, not 1.5"),
    (lambda f: espalier.Checkpointer(f.parent / "c", best="loss"), "best must be a metric and"),
    (lambda f: espalier.Checkpointer(f.parent / "c").save(True, 1), "step must be an int, 0 to"),
    (lambda f: espalier.Checkpointer(f.parent / "c").save(1, 1, metadata={"step": 2}), "the metadata have step"),
    (lambda f: espalier.Checkpointer(f.parent / "c").save(1, 1, metrics=0.5), "metrics must be a dict, not a float"),
]


@pytest.mark.parametrize(("call", "message"), BAD_OPTIONS, ids=[message for _, message in BAD_OPTIONS])
def test_options_are_checked(file, call, message):
    espalier.save(file, {"a": 1})
    with pytest.raises(espalier.EspalierError, match=message):
        call(file)


def test_a_step_may_be_of_numpy(tmp_path):
    with espalier.Checkpointer(tmp_path / "c") as checkpointer:
        assert checkpointer.save(np.int64(5), {"a": 1})
    assert checkpointer.steps == [5]


def test_more_names_than_the_reader_remembers(file):
    state = {f"group{i}": {**{f"name{j}": j for j in range(2000)}, "again": i} for i in range(3)}
    espalier.save(file, state)
    assert espalier.load(file) == state


@pytest.mark.parametrize("label", [None, "frozenset"])
def test_elements_that_are_equal_in_python_are_not_lost(label):
    elements = espalier.OrderedSet((1, 1.0, True))
    state = elements if label is None else espalier.Labelled(label, elements)
    data = espalier.save_bytes({"a": state})
    with pytest.raises(espalier.Unsupported, match="3 elements, and only 1 would be left.*exact=True"):
        espalier.load_bytes(data)
    assert espalier.load_bytes(data, exact=True) == {"a": state}


def test_a_set_of_one_hash_does_not_take_long():
    numbers = [1 + (2**61 - 1) * i for i in range(1001)]
    assert len(set(map(hash, numbers))) == 1
    data = espalier.save_bytes(set(numbers))
    with pytest.raises(espalier.Unsupported, match="one hash.*exact=True"):
        espalier.load_bytes(data)
    assert set(espalier.load_bytes(data, exact=True).elements) == set(numbers)
    few = set(numbers[1:]) | set(range(2, 3000))
    assert espalier.load_bytes(espalier.save_bytes(few)) == few
