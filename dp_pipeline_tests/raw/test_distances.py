import importlib.util
import math
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.metrics.marginals import MOST_PLACES
from dp_pipeline.raw import closest_record, comparison
from dp_pipeline.raw.closest_record import distance_to_closest_record, least_differences
from dp_pipeline.raw.comparison import distances, estimated_distances
from dp_pipeline.raw.counters import tables
from dp_pipeline.raw.counters.tables import (
    CAPS,
    cheapest_plan,
    contingency_table,
    count_plan,
    exact_marginals,
    fuse,
    summed_tables,
)

SIZES = {"a": 2, "b": 3, "c": 4}
ALL_WAYS = [way for k in (1, 2, 3) for way in combinations(SIZES, k)]
rows = st.lists(st.tuples(*[st.integers(0, size - 1) for size in SIZES.values()]), max_size=12)


def table(people: list[tuple[int, ...]]) -> dict[str, np.ndarray]:
    columns = np.array(people, dtype=np.int64).reshape(-1, len(SIZES)).T
    return dict(zip(SIZES, columns, strict=True))


def average_distance(real, released, sizes, ways) -> float:
    distance_of = distances(real, released, sizes, ways)
    return float(np.mean([distance_of[way] for way in ways]))


def by_hand(real, released, way) -> float:
    """½ Σ over all cells, one cell after the other."""
    places = [list(SIZES).index(name) for name in way]
    total = 0.0
    for cell in product(*[range(SIZES[name]) for name in way]):
        shares = [
            sum(tuple(row[place] for place in places) == cell for row in some) / len(some)
            if some
            else 1 / math.prod(SIZES[name] for name in way)
            for some in (real, released)
        ]
        total += abs(shares[0] - shares[1]) / 2
    return total


@given(real=rows.filter(bool), released=rows, ways=st.sets(st.sampled_from(ALL_WAYS), min_size=1))
def test_the_distance_is_the_mean_of_sums_over_cells(real, released, ways):
    ways = sorted(ways)
    expected = np.mean([by_hand(real, released, way) for way in ways])
    assert average_distance(table(real), table(released), SIZES, ways) == pytest.approx(expected)


@given(real=rows.filter(bool), released=rows, way=st.sampled_from(ALL_WAYS))
def test_all_ways_of_counting_agree(real, released, way):
    answers = []
    # Cells a row of a table that is made at all, and whether it is counted with others.
    for dense, is_fused in [(10**6, True), (10**6, False), (1, False), (0, False)]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(comparison, "_DENSE_CELLS_A_ROW", dense)
            patch.setattr(tables, "is_fusible", lambda *_, actual=is_fused: actual)
            answers.append(average_distance(table(real), table(released), SIZES, [way]))
    assert answers == pytest.approx([answers[0]] * 4, abs=1e-12)


def test_tables_of_over_2_to_the_64_cells_are_compared():
    sizes = dict.fromkeys("abcdef", 60_000)
    rng = np.random.default_rng(0)
    real = {name: rng.integers(0, 60_000, 50) for name in sizes}
    half = {name: np.concatenate([column[:25], column[:25]]) for name, column in real.items()}
    assert average_distance(real, half, sizes, [tuple(sizes)]) == pytest.approx(0.5)
    empty = {name: column[:0] for name, column in real.items()}
    assert average_distance(real, empty, sizes, [tuple(sizes)]) == pytest.approx(1)
    assert math.isnan(average_distance(empty, real, sizes, [("a",)]))
    with pytest.raises(DeclarationError, match="needs columns of one length, but they"):
        average_distance(real | {"a": np.zeros(2, int)}, real, sizes, [("a", "b")])


PAIRS = {"pairs": [("a", "b"), ("b", "c")], "all": [("a", "b", "c")]}


def many(rows: int, *, seed: int) -> dict[str, np.ndarray]:
    """Rows in which b often follows a."""
    rng = np.random.default_rng(seed)
    columns = {name: rng.integers(0, size, rows) for name, size in SIZES.items()}
    return columns | {"b": np.where(rng.random(rows) < 0.5, columns["a"], columns["b"])}


@pytest.mark.parametrize("rows", [(400, 400), (3000, 100), (100, 3000), (3000, 3000)])
def test_sampled_distance_is_within_its_error(monkeypatch, rows):
    monkeypatch.setattr(comparison, "MOST_COMPARED", 400)
    for seed in range(20):
        first, second = (many(n, seed=2 * seed + index) for index, n in enumerate(rows))
        actual = estimated_distances(first, second, SIZES, PAIRS)
        assert actual == estimated_distances(first, second, SIZES, PAIRS), "the seed is fixed"
        for name, ways in PAIRS.items():
            exact, error = average_distance(first, second, SIZES, ways), actual[name].error
            if max(rows) <= 400:
                assert (actual[name].value, error) == (exact, None)
            else:
                # The error bounds an expectation: of these 20 samples none is beyond it.
                assert 0 < abs(actual[name].value - exact) <= error < 0.5


def test_sample_of_different_rows_states_a_large_error(monkeypatch):
    monkeypatch.setattr(comparison, "MOST_COMPARED", 100)
    table = {name: np.arange(1000) for name in SIZES}
    sizes = dict.fromkeys(SIZES, 1000)
    # The tables are equal, but half of them alone has none of the other half's rows.
    actual = estimated_distances(table, table, sizes, {"all": [("a", "b", "c")]})["all"]
    assert actual.error == 2


@pytest.mark.parametrize(("n", "m"), [(10**6, 10**6), (300, 7), (7, 300)])
def test_distances_are_integers_until_one_division(n, m):
    # n rows in one cell against m rows of which one is elsewhere: 1/m to the last digit.
    first = {"a": np.zeros(n, dtype=np.uint8)}
    second = {"a": (np.arange(m) == 0).astype(np.uint8)}
    assert average_distance(first, second, {"a": 2}, [("a",)]) == 1 / m


PETS = {"smokes": 2, "pet": 4, "age": 6}


def people(seed, rows):
    """Codes that depend on each other, the last pet in the first table alone."""
    rng = np.random.default_rng(seed)
    smokes = rng.integers(0, 2, rows)
    pet = (smokes + rng.integers(0, 2 + (seed == 0), rows)) % 4
    return {"smokes": smokes, "pet": pet, "age": rng.binomial(5, 0.3 + 0.1 * seed, rows)}


def test_distances_are_one_less_the_scores_of_sdmetrics():
    """TVComplement and ContingencySimilarity of sdmetrics 0.25.0, which many compare rows with."""
    ways = [way for k in (1, 2) for way in combinations(PETS, k)]
    values = [0.036666667, 0.270666667, 0.201333333, 0.334, 0.201333333, 0.336666667]
    actual = distances(people(0, 500), people(1, 300), PETS, ways)
    assert actual == pytest.approx(dict(zip(ways, values, strict=True)), abs=1e-8)
    if importlib.util.find_spec("sdmetrics") is None:
        return
    from sdmetrics.column_pairs import ContingencySimilarity
    from sdmetrics.single_column import TVComplement

    for seed in range(4):
        tables = [people(at, 200 + 50 * at) for at in (seed, seed + 1)]
        frames = [pd.DataFrame(table).astype(str) for table in tables]
        for names, distance in distances(*tables, PETS, ways).items():
            columns, metric = list(names), ContingencySimilarity
            if len(names) == 1:
                columns, metric = names[0], TVComplement
            score = metric.compute(*(frame[columns] for frame in frames))
            assert distance == pytest.approx(1 - score, abs=1e-8)


codes = st.tuples(st.integers(0, 2), st.integers(0, 300), st.integers(0, 1))
few_rows = st.lists(codes, min_size=1, max_size=9)


@given(real=few_rows, released=few_rows)
def test_the_distance_is_that_of_a_loop_over_all_pairs_of_rows(real, released):
    nearest = by_loop(np.array(real).T, np.array(released).T)
    actual = distance_to_closest_record(table(real), table(released))
    assert actual == pytest.approx(np.mean(nearest) / 3)
    assert distance_to_closest_record(table(real), table(real)) == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(closest_record, "_ROWS_A_BLOCK", 2)
        assert distance_to_closest_record(table(real), table(released)) == actual


def by_loop(rows, places):
    return [min(sum(x != y for x, y in zip(a, b, strict=True)) for b in rows.T) for a in places.T]


def far(places):
    return np.full(places.shape[1], len(places))


# Few codes and many attributes, so that rows share some parts and others none.
wide = st.lists(st.lists(st.integers(0, 2), min_size=6, max_size=6), min_size=1, max_size=12)


@pytest.mark.parametrize(("look", "row"), [(0, 0), (-(10**9), 0), (10**9, 10**9)])
@pytest.mark.parametrize("spread", [40503, 1, 0])
@settings(max_examples=30)
@given(real=wide, released=wide)
def test_bucket_search_finds_the_nearest_rows_of_all(look, row, spread, real, released):
    """Whatever the buckets are: perfect, with many strangers, or one for all rows; and whether
    they are looked into always, where they save work, or never.
    """
    known, places = (np.array(some, dtype=np.uint8).T for some in (real, released))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(closest_record, "_A_LOOK", look)
        patch.setattr(closest_record, "_A_ROW", row)
        patch.setattr(closest_record, "_SPREAD", np.uint16(spread))
        patch.setattr(closest_record, "_ROWS_A_LOOK", 3)
        assert least_differences(known, places, far(places)).tolist() == by_loop(known, places)


def test_known_distances_only_ever_shrink():
    rows = np.array([[0, 1], [0, 1]], dtype=np.uint8)
    places = np.array([[0, 0], [0, 2]], dtype=np.uint8)
    assert least_differences(rows, places, np.array([2, 2])).tolist() == [0, 1]
    assert least_differences(rows, places, np.array([1, 0])).tolist() == [0, 0]


def test_the_ends_of_a_distance_are_none_and_all_attributes():
    names = [f"x{index}" for index in range(300)]
    real, other = ({name: np.array([code]) for name in names} for code in (0, 1))
    assert distance_to_closest_record(real, other) == 1
    for sides in ([(0, 0, 0)], []), ([], [(0, 0, 0)]):
        assert math.isnan(distance_to_closest_record(*map(table, sides)))


def test_nearer_row_than_parts_is_never_ruled_out(monkeypatch):
    monkeypatch.setattr(closest_record, "_A_LOOK", -(10**9))
    rng = np.random.default_rng(0)
    known = rng.integers(0, 4, size=(9, 300)).astype(np.uint8)
    places = rng.integers(0, 4, size=(9, 200)).astype(np.uint8)
    actual = least_differences(known, places, far(places)).tolist()
    assert actual == by_loop(known, places)
    assert len(set(actual)) > 2, "some are near and some are far"


def test_of_many_rows_a_seeded_sample_is_compared():
    # A tenth of the few_rows is one attribute off: deviation of the sample's share is 0.0067.
    real = table([(0, 0, 0)])
    many = table([(int(index % 10 == 0), 0, 0) for index in range(10 * MOST_PLACES)])
    first = distance_to_closest_record(real, many)
    assert first == distance_to_closest_record(real, many)
    assert first == pytest.approx(1 / 30, abs=0.01)
    assert first * 3 * MOST_PLACES == pytest.approx(round(first * 3 * MOST_PLACES))


@given(sizes=st.lists(st.integers(1, 70), max_size=40), cap=st.sampled_from(CAPS))
def test_every_column_is_in_one_super_column(sizes, cap):
    named = {f"a{index}": size for index, size in enumerate(sizes)}
    columns = fuse(named, cap=cap)
    names = [name for column in columns for name in column.names]
    assert sorted(names) == sorted(named)
    assert all(column.size <= cap or len(column.names) == 1 for column in columns)
    assert all(column.sizes == tuple(named[n] for n in column.names) for column in columns)


def some_tables(sizes: list[int], seed: int):
    """Names with sizes, 50 rows of codes, and every single, pair and triple."""
    named = {f"a{index}": size for index, size in enumerate(sizes)}
    rng = np.random.default_rng(seed)
    codes = {name: rng.integers(0, size, 50).astype(np.uint8) for name, size in named.items()}
    ways = [way for k in (1, 2, 3) for way in combinations(named, k)]
    return named, codes, ways


# Beside the sizes of today: blocks, steps and groups of tables that end inside of 50 rows, many
# rows to plan for, and a cap on fused tables that leaves some by themselves.
SMALL = {"_ROWS_A_BLOCK": 20, "_ROWS_A_STEP": 7, "_CELLS_AT_ONCE": 100, "_FUSED_CELLS": 40}


@settings(max_examples=30)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=7),
    seed=st.integers(0, 9),
    planned=st.sampled_from([50, 10**7]),
    small=st.sets(st.sampled_from(sorted(SMALL))),
)
def test_planned_tables_equal_direct_counts(sizes, seed, planned, small):
    named, codes, wanted = some_tables(sizes, seed)
    with pytest.MonkeyPatch.context() as patch:
        for name in small:
            patch.setattr(tables, name, SMALL[name])
        fused = cheapest_plan(named, wanted, rows=planned)
        actual = [summed_tables(*column) for column in count_plan(fused, codes, rows=50)]
    assert sum(map(len, actual)) == len(wanted)
    for names, table in (item for column in actual for item in column.items()):
        assert np.array_equal(table, contingency_table(codes, named, names, rows=50))


@settings(max_examples=30)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=4, max_size=6),
    seed=st.integers(0, 9),
    data=st.data(),
)
def test_marginals_of_any_size_and_order_equal_direct_counts(sizes, seed, data):
    named, codes, _ = some_tables(sizes, seed)
    way = st.lists(st.sampled_from(sorted(named)), unique=True, max_size=5).map(tuple)
    marginals = data.draw(st.lists(way, max_size=8))
    for names, table in zip(
        marginals, exact_marginals(codes, named, marginals, rows=50), strict=True
    ):
        expected = contingency_table(codes, named, names, rows=50) if names else np.array(50)
        assert np.array_equal(table, expected)


def test_few_fused_tables_hold_many_triples():
    levels = (2, 3, 42, 16, 7, 15, 6, 5, 2, 20, 10, 9, 8, 41)
    sizes = dict(zip("abcdefghijklmn", levels, strict=True))
    triples, pairs = (list(combinations(sizes, k)) for k in (3, 2))
    plan = cheapest_plan(sizes, triples, rows=1_000_000)
    assert len(plan) < len(triples) / 4
    # Pairs within triples need no table of their own, and large triples are never fused.
    assert len(cheapest_plan(sizes, triples + pairs, rows=1_000_000)) == len(plan)
    sizes = {"a": 5000, **{f"x{index}": 2 for index in range(18)}}
    wanted = [("a", *pair) for pair in combinations(sorted(sizes.keys() - {"a"}), 2)]
    assert max(column.size for column in cheapest_plan(sizes, wanted, rows=10**9)) <= 1 << 20
    # Few rows take a small cap and many a large one.
    pairs = list(combinations(sorted(sizes.keys() - {"a"}), 2))
    few, many = (cheapest_plan(sizes, pairs, rows=rows) for rows in (100, 10_000_000))
    assert max(column.size for column in few) < max(column.size for column in many)
    assert len(few) > len(many)
