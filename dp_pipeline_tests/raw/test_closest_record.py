import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.metrics.marginals import MOST_PLACES
from dp_pipeline.raw import closest_record
from dp_pipeline.raw.closest_record import distance_to_closest_record, least_differences

codes = st.tuples(st.integers(0, 2), st.integers(0, 300), st.integers(0, 1))
rows = st.lists(codes, min_size=1, max_size=9)


def table(people: list[tuple[int, ...]]) -> dict[str, np.ndarray]:
    return dict(zip("abc", np.array(people, dtype=np.int64).reshape(-1, 3).T, strict=True))


@given(real=rows, released=rows)
def test_the_distance_is_that_of_a_loop_over_all_pairs_of_rows(real, released):
    nearest = by_loop(np.array(real).T, np.array(released).T)
    actual = distance_to_closest_record(table(real), table(released))
    assert actual == pytest.approx(np.mean(nearest) / 3)
    assert distance_to_closest_record(table(real), table(real)) == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(closest_record, "_ROWS_A_BLOCK", 2)
        assert distance_to_closest_record(table(real), table(released)) == actual


def by_loop(table, places):
    return [min(sum(x != y for x, y in zip(a, b, strict=True)) for b in table.T) for a in places.T]


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
    table, places = (np.array(some, dtype=np.uint8).T for some in (real, released))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(closest_record, "_A_LOOK", look)
        patch.setattr(closest_record, "_A_ROW", row)
        patch.setattr(closest_record, "_SPREAD", np.uint16(spread))
        patch.setattr(closest_record, "_ROWS_A_LOOK", 3)
        assert least_differences(table, places, far(places)).tolist() == by_loop(table, places)


def test_known_distances_only_ever_shrink():
    rows = np.array([[0, 1], [0, 1]], dtype=np.uint8)
    places = np.array([[0, 0], [0, 2]], dtype=np.uint8)
    assert least_differences(rows, places, np.array([2, 2])).tolist() == [0, 1]
    assert least_differences(rows, places, np.array([1, 0])).tolist() == [0, 0]


def test_nearer_row_than_parts_is_never_ruled_out(monkeypatch):
    monkeypatch.setattr(closest_record, "_A_LOOK", -(10**9))
    rng = np.random.default_rng(0)
    table = rng.integers(0, 4, size=(9, 300)).astype(np.uint8)
    places = rng.integers(0, 4, size=(9, 200)).astype(np.uint8)
    actual = least_differences(table, places, far(places)).tolist()
    assert actual == by_loop(table, places)
    assert len(set(actual)) > 2, "some are near and some are far"


def test_row_unlike_all_others_is_one_away():
    names = [f"x{index}" for index in range(300)]
    real, other = ({name: np.array([code]) for name in names} for code in (0, 1))
    assert distance_to_closest_record(real, other) == 1


def test_no_rows_on_either_side_are_no_number():
    for sides in ([(0, 0, 0)], []), ([], [(0, 0, 0)]):
        assert math.isnan(distance_to_closest_record(*map(table, sides)))


def test_of_many_rows_a_seeded_sample_is_compared():
    # A tenth of the rows is one attribute off: deviation of the sample's share is 0.0067.
    real = table([(0, 0, 0)])
    many = table([(int(index % 10 == 0), 0, 0) for index in range(10 * MOST_PLACES)])
    first = distance_to_closest_record(real, many)
    assert first == distance_to_closest_record(real, many)
    assert first == pytest.approx(1 / 30, abs=0.01)
    assert first * 3 * MOST_PLACES == pytest.approx(round(first * 3 * MOST_PLACES))
