from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.metrics import marginals
from dp_pipeline.metrics.marginals import MOST_ROWS, distance_to_closest_record

codes = st.tuples(st.integers(0, 2), st.integers(0, 300), st.integers(0, 1))
rows = st.lists(codes, min_size=1, max_size=9)


def table(people: list[tuple[int, ...]]) -> dict[str, np.ndarray]:
    return dict(zip("abc", np.array(people, dtype=np.int64).reshape(-1, 3).T, strict=True))


@given(real=rows, released=rows)
def test_the_distance_is_that_of_a_loop_over_all_pairs_of_rows(real, released):
    nearest = [min(sum(x != y for x, y in zip(a, b, strict=True)) for b in real) for a in released]
    got = distance_to_closest_record(table(real), table(released))
    assert got == pytest.approx(np.mean(nearest) / 3)
    assert distance_to_closest_record(table(real), table(real)) == 0


@given(real=rows, released=rows)
def test_blocks_change_nothing(real, released):
    whole = distance_to_closest_record(table(real), table(released))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marginals, "_ROWS_A_BLOCK", 2)
        patch.setattr(marginals, "_PLACES_A_BLOCK", 3)
        assert distance_to_closest_record(table(real), table(released)) == whole


def test_a_row_unlike_every_other_is_one_away_however_many_attributes():
    names = [f"x{at}" for at in range(300)]
    real, other = ({name: np.array([code]) for name in names} for code in (0, 1))
    assert distance_to_closest_record(real, other) == 1


def test_no_rows_on_either_side_are_no_number():
    some, nothing = table([(0, 0, 0)]), table([])
    assert math.isnan(distance_to_closest_record(some, nothing))
    assert math.isnan(distance_to_closest_record(nothing, some))


def test_of_many_rows_a_seeded_sample_is_looked_at():
    # A tenth of the rows is one attribute off: deviation of the sample's share is 0.0067.
    real = table([(0, 0, 0)])
    many = table([(int(at % 10 == 0), 0, 0) for at in range(10 * MOST_ROWS)])
    first = distance_to_closest_record(real, many)
    assert first == distance_to_closest_record(real, many)
    assert first == pytest.approx(1 / 30, abs=0.01)
    assert first * 3 * MOST_ROWS == pytest.approx(round(first * 3 * MOST_ROWS))
