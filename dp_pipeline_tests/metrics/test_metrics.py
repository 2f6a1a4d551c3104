"""Distances to centres, sets of attributes that are compared, redrawn noise, and pairs of parts."""

import math
import pkgutil
from collections import Counter
from itertools import chain, combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dp_pipeline.metrics
from dp_pipeline.config.domain import SIZE, Attribute, Domain, Parts
from dp_pipeline.config.encoding import Levels
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.metrics.clustering import nicv, rcp
from dp_pipeline.metrics.marginals import (
    MOST_PAIRS,
    MOST_TRIPLES,
    MOST_WAYS,
    REDRAWS,
    attribute_sets,
    redraw_error,
)
from dp_pipeline.metrics.unit_tables import UnitTables
from dp_pipeline.results.clusters import nearest_centres
from dp_pipeline_tests.test_architecture import run_code

coordinate = st.floats(-1e6, 1e6)


@given(
    points=st.lists(st.tuples(coordinate, coordinate), min_size=1, max_size=9),
    centres=st.lists(st.tuples(coordinate, coordinate), min_size=1, max_size=4),
)
def test_nicv_is_the_mean_squared_distance_to_the_nearest_centre(points, centres):
    nearest = [min(math.dist(point, centre) ** 2 for centre in centres) for point in points]
    actual = nicv(np.array(points), np.array(centres))
    assert actual == pytest.approx(sum(nearest) / len(points), rel=1e-6, abs=1e-3)


def test_nicv_is_exact_at_large_offsets():
    points = np.array([[1e9, 1e9], [1e9 + 2, 1e9]])
    assert nicv(points, np.array([[1e9 + 1, 1e9]])) == 1.0


def test_nicv_of_many_rows_is_the_same_as_of_their_blocks():
    rng = np.random.default_rng(0)
    points, centres = rng.normal(size=(3 << 14, 2)), rng.normal(size=(100, 2))
    parts = [nicv(block, centres) for block in np.split(points, 3)]
    assert nicv(points, centres) == pytest.approx(np.mean(parts))


def test_every_point_goes_to_the_nearest_centre():
    points = np.array([[0.0, 0.0], [2.0, 0.0], [1.5, 5.0]])
    assert nearest_centres(points, np.array([[2.0, 0.0], [0.0, 0.0]])).tolist() == [1, 0, 0]


def test_nicv_of_no_rows_is_not_a_number():
    assert math.isnan(nicv(np.zeros((0, 2)), np.zeros((1, 2))))


@pytest.mark.parametrize(
    ("points", "centres"), [((3, 2), (1, 3)), ((3,), (1, 2)), ((3, 2), (2,)), ((3, 2), (0, 2))]
)
def test_nicv_refuses_shapes_that_do_not_fit(points, centres):
    with pytest.raises(DeclarationError, match="centres"):
        nicv(np.zeros(points), np.zeros(centres))


def test_rcp_is_positive_when_the_candidate_is_better():
    assert rcp(reference=4.0, candidate=1.0) == 75.0
    assert rcp(reference=4.0, candidate=6.0) == -50.0
    assert math.isnan(rcp(reference=0.0, candidate=1.0))
    assert math.isnan(rcp(reference=math.nan, candidate=1.0))


def test_metrics_load_nothing_heavier_than_numpy():
    files = pkgutil.iter_modules(dp_pipeline.metrics.__path__, "dp_pipeline.metrics.")
    imports = ", ".join(file.name for file in files)
    imported = set(run_code(f"import sys, {imports}; print(*sys.modules)").stdout.split())
    assert "numpy" in imported
    assert not {"pandas", "pyarrow", "sklearn", "scipy"} & imported


def test_all_sets_are_compared_where_they_are_few():
    names = tuple("abcde")
    assert attribute_sets(names, 2) == tuple(combinations(names, 2))
    assert attribute_sets(names, 5) == (names,)
    assert attribute_sets(names, 6) == ()


@pytest.mark.parametrize(("k", "most"), [(2, MOST_PAIRS), (3, MOST_TRIPLES), (6, MOST_WAYS)])
def test_sample_of_sets_depends_on_names_only(k, most):
    names = tuple(f"x{position}" for position in range(86))
    chosen = attribute_sets(names, k)
    assert chosen == attribute_sets(names, k)
    assert len(chosen) == len(set(chosen)) == most
    for attributes in chosen:
        assert attributes == tuple(sorted(set(attributes), key=names.index))
        assert len(attributes) == k
    assert chosen != attribute_sets(names[::-1], k)


def test_a_sample_takes_every_attribute_about_as_often():
    # Each of 40 attributes is in 3·500/40 = 37.5 of the sets, deviation 5.9: six of those.
    names = tuple(f"x{index}" for index in range(40))
    times = Counter(chain.from_iterable(attribute_sets(names, 3)))
    assert set(times) == set(names)
    assert min(times.values()) > 2
    assert max(times.values()) < 73


def total(table: np.ndarray) -> float:
    return float(table.sum())


def test_the_error_of_a_sum_is_its_standard_deviation():
    # √(2 · 9) · 5 = 21.2; the spread of 200 draws of a sum of nine is 6 %: four of those.
    first, again = (redraw_error(total, np.zeros((3, 3)), scale=5.0) for _ in range(2))
    assert first == again == pytest.approx(21.2, rel=0.24)
    assert REDRAWS >= 100
    # What noise does not move has no error.
    assert redraw_error(lambda _: 0.5, np.ones((2, 2)), scale=1.0) == 0.0


def test_a_bias_is_part_of_the_error():
    def biased(table: np.ndarray) -> float:
        return 0.0 if (table == 7).all() else 100.0

    assert redraw_error(biased, np.full(2, 7.0), scale=1.0) == 100.0


MOST, LEVELS = 4, 3
UNITS = st.lists(st.lists(st.integers(0, LEVELS - 1), max_size=MOST), max_size=8)


def tables(units: list[list[int]], *, order: str) -> UnitTables:
    """Units by the codes of their parts; some may have none."""
    sizes = Levels(tuple(map(str, range(MOST + 1))))
    attributes = [Attribute(SIZE, SIZE, "drop", cells=sizes)]
    levels = Levels(tuple(map(str, range(LEVELS))))
    attributes.append(Attribute("age", "age", "drop", cells=levels, nullable=True))
    domain = Domain(tuple(attributes), parts=Parts("persons", ("age",), MOST, order, key="home"))
    missing = domain["age"].missing_code
    rows = [(len(unit), age) for unit in units for age in unit or [missing]]
    codes = np.array(rows, dtype=np.int64).reshape(-1, 2).T
    return UnitTables(domain, dict(zip((SIZE, "age"), codes, strict=True)))


@given(units=UNITS)
@pytest.mark.parametrize("order", ["", "age"], ids=["a set", "in order"])
def test_pairs_are_counted_as_a_loop_over_units_does(order: str, units: list[list[int]]) -> None:
    counts = tables(units, order=order).pair_counts("age")
    pairs = Counter(
        (len(unit), *(pair if order else sorted(pair)))
        for unit in units
        for pair in (pairwise(unit) if order else combinations(unit, 2))
    )
    places = np.argwhere(counts).tolist()
    assert {tuple(place): int(counts[tuple(place)]) for place in places} == pairs


@given(units=UNITS)
def test_units_and_parts_are_each_counted_once(units: list[list[int]]) -> None:
    both = tables(units, order="")
    assert both.units[SIZE].tolist() == [len(unit) for unit in units]
    assert both.parts["age"].tolist() == [age for unit in units for age in unit]
    assert both.weights.sum() == pytest.approx(len(units))
