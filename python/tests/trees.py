"""Random states of plain Python and numpy, made by hypothesis."""

import espalier
import hypothesis.strategies as st
import numpy as np
from hypothesis.extra import numpy as hnp
from test_types import same

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-(2**200), 2**200), st.floats(), st.complex_numbers(),
    st.text(), st.binary(max_size=50),
)  # fmt: skip
ARRAYS = hnp.arrays(
    st.one_of(
        hnp.boolean_dtypes(), hnp.integer_dtypes(), hnp.unsigned_integer_dtypes(), hnp.floating_dtypes(sizes=(16, 32, 64)),
        hnp.complex_number_dtypes(sizes=(64, 128)),
    ),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5),
)  # fmt: skip
KEYS = st.one_of(st.text(), st.integers(-(2**63), 2**63 - 1))
TREES = st.recursive(
    st.one_of(SCALARS, ARRAYS),
    lambda children: st.one_of(
        st.lists(children, max_size=4),
        st.lists(children, max_size=4).map(tuple),
        st.dictionaries(KEYS, children, max_size=4),
        st.lists(st.tuples(st.text(), children), max_size=3, unique_by=lambda pair: pair[0]).map(
            lambda pairs: espalier.Record("a.Label", pairs)
        ),
        children.map(lambda child: [child, child]),
    ),
    max_leaves=20,
)


def equal(a, b):
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and same(a.astype(a.dtype.newbyteorder("=")), b)
    if isinstance(a, espalier.Record):
        return a.label == b.label and list(a) == list(b) and all(equal(a[name], b[name]) for name in a)
    if isinstance(a, dict):
        return type(b) is dict and list(a) == list(b) and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, (float, complex)):
        return type(a) is type(b) and repr(a) == repr(b)
    return same(a, b)
