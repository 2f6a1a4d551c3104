from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.metrics import marginals
from dp_pipeline.metrics.marginals import (
    MOST_PAIRS,
    MOST_TRIPLES,
    MOST_WAYS,
    average_distance,
    ways_of,
)
from dp_pipeline.spec.errors import DeclarationError

SIZES = {"a": 2, "b": 3, "c": 4}
ALL_WAYS = [way for k in (1, 2, 3) for way in combinations(SIZES, k)]
rows = st.lists(st.tuples(*[st.integers(0, size - 1) for size in SIZES.values()]), max_size=12)


def table(people: list[tuple[int, ...]]) -> dict[str, np.ndarray]:
    columns = np.array(people, dtype=np.int64).reshape(-1, len(SIZES)).T
    return dict(zip(SIZES, columns, strict=True))


def by_hand(real, released, way) -> float:
    """½ Σ over all cells, one cell after the other."""
    places = [list(SIZES).index(name) for name in way]
    total = 0.0
    for cell in product(*[range(SIZES[name]) for name in way]):
        shares = [
            sum(tuple(row[at] for at in places) == cell for row in some) / len(some)
            if some
            else 1 / math.prod(SIZES[name] for name in way)
            for some in (real, released)
        ]
        total += abs(shares[0] - shares[1]) / 2
    return total


@settings(deadline=None)
@given(real=rows.filter(bool), released=rows, ways=st.sets(st.sampled_from(ALL_WAYS), min_size=1))
def test_the_distance_is_the_mean_of_sums_over_cells(real, released, ways):
    ways = sorted(ways)
    expected = np.mean([by_hand(real, released, way) for way in ways])
    assert average_distance(table(real), table(released), SIZES, ways) == pytest.approx(expected)


@settings(deadline=None)
@given(real=rows.filter(bool), released=rows, way=st.sampled_from(ALL_WAYS))
def test_dense_and_sparse_tables_and_renumbered_cells_agree(real, released, way):
    answers = []
    for dense, most in [(10**6, 1 << 62), (0, 1 << 62), (0, 1)]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(marginals, "_DENSE_CELLS_A_ROW", dense)
            patch.setattr(marginals, "_MOST_KEYS", most)
            answers.append(average_distance(table(real), table(released), SIZES, [way]))
    assert answers == pytest.approx([answers[0]] * 3, abs=1e-12)


@given(real=rows.filter(bool), released=rows)
def test_every_distance_is_a_share_and_that_of_a_table_to_itself_is_nothing(real, released):
    assert 0 <= average_distance(table(real), table(released), SIZES, ALL_WAYS) <= 1
    assert average_distance(table(real), table(real), SIZES, ALL_WAYS) == 0


@given(real=rows.filter(bool), released=rows)
def test_more_attributes_are_never_nearer(real, released):
    one, other = table(real), table(released)
    distances = [average_distance(one, other, SIZES, [way]) for way in (("a",), ("a", "b"))]
    distances.append(average_distance(one, other, SIZES, [("a", "b", "c")]))
    assert distances == pytest.approx(sorted(distances), abs=1e-12)


def test_disjoint_tables_are_one_apart_whatever_their_lengths():
    one, other = [(0, 0, 0)] * 3 + [(0, 1, 0)] * 4, [(1, 0, 1)] * 6 + [(1, 2, 3)] * 5
    assert average_distance(table(one), table(other), SIZES, [("a", "b"), ("a",)]) == 1


def test_cells_beyond_whole_numbers_of_64_bits_are_compared():
    sizes = dict.fromkeys("abcdef", 60_000)
    rng = np.random.default_rng(0)
    real = {name: rng.integers(0, 60_000, 50) for name in sizes}
    half = {name: np.concatenate([column[:25], column[:25]]) for name, column in real.items()}
    assert average_distance(real, half, sizes, [tuple(sizes)]) == pytest.approx(0.5)
    nothing = {name: column[:0] for name, column in real.items()}
    assert average_distance(real, nothing, sizes, [tuple(sizes)]) == pytest.approx(1)


def test_no_real_row_is_no_number_and_no_marginal_or_uneven_columns_are_refused():
    some, nothing = table([(0, 0, 0)]), table([])
    assert math.isnan(average_distance(nothing, some, SIZES, [("a",)]))
    with pytest.raises(DeclarationError, match="expected at least one marginal"):
        average_distance(some, some, SIZES, [])
    with pytest.raises(DeclarationError, match="one length, got 2 lengths"):
        average_distance(some | {"a": np.zeros(2, int)}, some, SIZES, [("a", "b")])


def test_all_sets_are_compared_where_they_are_few():
    names = tuple("abcde")
    assert ways_of(names, 2) == tuple(combinations(names, 2))
    assert ways_of(names, 5) == (names,)
    assert ways_of(names, 6) == ()


@pytest.mark.parametrize(("k", "most"), [(2, MOST_PAIRS), (3, MOST_TRIPLES), (6, MOST_WAYS)])
def test_a_sample_of_sets_is_that_of_the_names_alone(k, most):
    names = tuple(f"x{at}" for at in range(86))
    chosen = ways_of(names, k)
    assert chosen == ways_of(names, k)
    assert len(chosen) == len(set(chosen)) == most
    assert all(way == tuple(sorted(set(way), key=names.index)) for way in chosen)
    assert {len(way) for way in chosen} == {k}
    assert chosen != ways_of(names[::-1], k)


def test_a_sample_takes_every_attribute_about_as_often():
    # Each of 40 attributes is in 3·500/40 = 37.5 of the sets, deviation 5.9: six of those.
    names = tuple(f"x{at}" for at in range(40))
    times = [sum(name in way for way in ways_of(names, 3)) for name in names]
    assert min(times) > 2
    assert max(times) < 73
