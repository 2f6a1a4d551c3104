"""The network of overlapping views that rows are drawn from."""

from fractions import Fraction
from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.inference.clique_join import sample_network
from dp_pipeline.inference.views import view_network, view_tables
from dp_pipeline.results.measurement import NoisyMarginal, marginal_of

SIZES = {"a": 2, "b": 3, "c": 2, "d": 1}
VIEWS = (("a", "b", "c"), ("b", "d"), ("a", "c", "d"))
SHAPES = [tuple(SIZES[name] for name in view) for view in VIEWS]


@st.composite
def noisy_views(draw: st.DrawFn) -> list[NoisyMarginal]:
    scale = Fraction(draw(st.integers(1, 1000)))
    tables = []
    for view, shape in zip(VIEWS, SHAPES, strict=True):
        many = int(np.prod(shape))
        cells = draw(st.lists(st.integers(-5000, 5000), min_size=many, max_size=many))
        tables.append(NoisyMarginal(view, np.array(cells).reshape(shape), scale))
    return tables


def exact_views(rng: np.random.Generator) -> list[NoisyMarginal]:
    whole = rng.integers(0, 50, tuple(SIZES.values()))
    return [
        NoisyMarginal(view, marginal_of(whole, tuple(SIZES), view).astype(np.int64), Fraction(1, 9))
        for view in VIEWS
    ]


def test_rows_of_a_network_with_room_for_a_view_have_its_table():
    for seed in range(5):
        tables = view_tables(exact_views(np.random.default_rng(seed)))
        network = view_network(tables, SIZES, most_cells=12)
        rows = round(tables["b", "d"].sum())
        codes = sample_network(network, rows, np.random.default_rng(1), SIZES)
        for pair in combinations(SIZES, 2):
            view = next(one for one in VIEWS if {*pair} <= {*one})
            expected = marginal_of(tables[view], view, pair)
            found = np.zeros(expected.shape)
            np.add.at(found, tuple(codes[:, list(SIZES).index(name)] for name in pair), 1)
            assert np.abs(found - expected).max() < 6


@settings(max_examples=30)
@given(noisy_views(), st.integers(1, 12))
def test_every_attribute_comes_once_after_its_parents(measured: list[NoisyMarginal], cells: int):
    network = view_network(view_tables(measured), SIZES, most_cells=cells)
    seen: set[str] = set()
    for one in network:
        assert set(one.parents) <= seen
        assert one.table.shape == tuple(SIZES[name] for name in (*one.parents, one.child))
        assert one.table.size <= max(cells, SIZES[one.child])
        assert np.isfinite(one.table).all()
        seen.add(one.child)
    assert seen == set(SIZES)
