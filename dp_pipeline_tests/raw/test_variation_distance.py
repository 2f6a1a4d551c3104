import importlib.util
import math
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.raw import comparison
from dp_pipeline.raw.comparison import distances, estimated_distances

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
            patch.setattr(comparison, "is_fusible", lambda *_, actual=is_fused: actual)
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


def test_no_real_row_has_no_distance():
    some, empty = table([(0, 0, 0)]), table([])
    assert math.isnan(average_distance(empty, some, SIZES, [("a",)]))
    with pytest.raises(DeclarationError, match="needs columns of one length, but they"):
        average_distance(some | {"a": np.zeros(2, int)}, some, SIZES, [("a", "b")])


PAIRS = {"pairs": [("a", "b"), ("b", "c")], "all": [("a", "b", "c")]}


def many(rows: int, *, seed: int) -> dict[str, np.ndarray]:
    """Rows in which b often follows a."""
    rng = np.random.default_rng(seed)
    columns = {name: rng.integers(0, size, rows) for name, size in SIZES.items()}
    return columns | {"b": np.where(rng.random(rows) < 0.5, columns["a"], columns["b"])}


def test_a_distance_of_few_rows_is_exact_without_error(monkeypatch):
    monkeypatch.setattr(comparison, "MOST_COMPARED", 100)
    first, second = many(100, seed=1), many(100, seed=2)
    actual = estimated_distances(first, second, SIZES, PAIRS)
    for name, ways in PAIRS.items():
        assert actual[name].value == average_distance(first, second, SIZES, ways)
        assert actual[name].error is None


@pytest.mark.parametrize("rows", [(3000, 100), (100, 3000), (3000, 3000)])
def test_sampled_distance_is_within_its_error(monkeypatch, rows):
    monkeypatch.setattr(comparison, "MOST_COMPARED", 400)
    for seed in range(20):
        first, second = (many(n, seed=2 * seed + index) for index, n in enumerate(rows))
        actual = estimated_distances(first, second, SIZES, PAIRS)
        assert actual == estimated_distances(first, second, SIZES, PAIRS), "the seed is fixed"
        for name, ways in PAIRS.items():
            exact, error = average_distance(first, second, SIZES, ways), actual[name].error
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
    scores = dict(zip(ways, values, strict=True))
    actual = distances(people(0, 500), people(1, 300), PETS, list(scores))
    assert actual == pytest.approx(scores, abs=1e-8)
    if importlib.util.find_spec("sdmetrics") is None:
        return
    from sdmetrics.column_pairs import ContingencySimilarity
    from sdmetrics.single_column import TVComplement

    for seed in range(4):
        tables = [people(at, 200 + 50 * at) for at in (seed, seed + 1)]
        real, second = (pd.DataFrame(table).astype(str) for table in tables)
        for names, distance in distances(*tables, PETS, list(scores)).items():
            if len(names) == 1:
                score = TVComplement.compute(real[names[0]], second[names[0]])
            else:
                score = ContingencySimilarity.compute(real[list(names)], second[list(names)])
            assert distance == pytest.approx(1 - score, abs=1e-8)
