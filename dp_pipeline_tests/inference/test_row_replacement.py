from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.encoding import FloatArray, IntArray
from dp_pipeline.inference import row_replacement
from dp_pipeline.inference.row_replacement import replace_rows

SIZES = {"a": 2, "b": 3, "c": 2, "d": 4, "e": 2}
PAIRS = [*combinations(SIZES, 2)]


def draw(rows: int, seed: int) -> IntArray:
    """Rows whose attributes all depend on the first."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 2, rows)
    others = [
        np.where(rng.random(rows) < 0.5, first, rng.integers(0, size, rows))
        for size in [*SIZES.values()][1:]
    ]
    return np.stack([first, *others], axis=1).astype(np.int8)


def count_pairs(codes: IntArray) -> dict[tuple[str, ...], FloatArray]:
    columns = dict(zip(SIZES, codes.T, strict=True))
    return {
        pair: np.histogram2d(*(columns[n] for n in pair), [range(SIZES[n] + 1) for n in pair])[0]
        for pair in PAIRS
    }


def largest_difference(codes: IntArray, goals: dict[tuple[str, ...], FloatArray]) -> float:
    counts, scale = count_pairs(codes), len(codes) / goals["a", "b"].sum()
    return max(float(np.abs(counts[pair] - scale * goals[pair]).max()) for pair in PAIRS)


@pytest.mark.parametrize(("rows", "least"), [(300, 10), (20_000, 50)])
def test_pairs_come_within_few_rows_of_their_goals(rows: int, least: float):
    goals, codes = count_pairs(draw(100_000, 1)), draw(rows, 2)
    replaced = replace_rows(codes, SIZES, lambda: goals, 0.0, np.random.default_rng(3))
    assert largest_difference(codes, goals) > least
    assert largest_difference(replaced, goals) < 3


def test_a_pair_without_a_goal_is_left_to_the_others():
    goals, codes = {("a", "d"): np.array([[60.0, 0, 0, 40], [0, 0, 90, 10]])}, draw(2000, 4)
    counts = count_pairs(replace_rows(codes, SIZES, lambda: goals, 0.0, np.random.default_rng(5)))
    cells = np.flatnonzero(goals["a", "d"] > 0)
    assert counts["a", "d"].ravel()[cells] == pytest.approx([600, 400, 900, 100], abs=1)


@settings(max_examples=25, deadline=None)
@given(rows=st.integers(0, 60), seed=st.integers(0, 99), variance=st.sampled_from([0.0, 1.0, 9.0]))
def test_rows_are_copies_and_pairs_never_farther(rows: int, seed: int, variance: float):
    goals, codes = count_pairs(draw(500, seed + 1)), draw(rows, seed)
    before = codes.copy()

    def squares(of: IntArray) -> float:
        counts = count_pairs(of)
        # A goal is rounded to eighths of a row.
        goal = {pair: np.floor(goals[pair] * rows / 500 * 8 + 0.382) / 8 for pair in PAIRS}
        return sum(float(((counts[pair] - goal[pair]) ** 2).sum()) for pair in PAIRS)

    replaced = replace_rows(codes, SIZES, lambda: goals, variance, np.random.default_rng(seed))
    assert (codes == before).all()
    assert replaced.shape == codes.shape and replaced.dtype == codes.dtype
    assert {*map(tuple, replaced.tolist())} <= {*map(tuple, codes.tolist())}
    assert squares(replaced) <= squares(codes)
    again = replace_rows(codes, SIZES, lambda: goals, variance, np.random.default_rng(seed))
    assert (again == replaced).all()


def test_rows_stay_where_noise_outweighs_rounding():
    codes = draw(300, 2)
    goals = count_pairs(draw(100_000, 1))
    noisy = replace_rows(codes, SIZES, lambda: goals, 1e4, np.random.default_rng(3))
    assert (noisy == codes).all()


@pytest.mark.parametrize("limit", ["MOST_ROW_LEVELS", "MOST_LEVELS"])
def test_rows_above_a_limit_stay_at_no_cost(limit: str, monkeypatch: pytest.MonkeyPatch):
    codes = draw(300, 2)
    monkeypatch.setattr(row_replacement, limit, 12)

    def goals() -> dict[tuple[str, ...], FloatArray]:
        raise AssertionError("no goals are computed")

    assert replace_rows(codes, SIZES, goals, 0.0, np.random.default_rng(3)) is codes
