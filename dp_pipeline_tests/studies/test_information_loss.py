import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.papers.information_loss import (
    average_class_size,
    discernibility,
    information_loss,
    non_uniform_entropy,
)
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.metrics.equivalence_classes import class_ids

# Ages in four bands and a sex: eight people.
PEOPLE = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 0], [3, 1], [3, 1]])

tables = st.integers(1, 3).flatmap(
    lambda columns: st.lists(st.tuples(*[st.integers(0, 3)] * columns), min_size=1, max_size=25)
)


def entropy_by_loops(original: np.ndarray, released: np.ndarray, about: list[int]) -> list[float]:
    totals = []
    for index, before in enumerate(original.T.tolist()):
        after = [
            tuple(code for code, place in zip(row, about, strict=True) if place == index)
            for row in released.tolist()
        ]
        both = list(zip(before, after, strict=True))
        totals.append(-sum(math.log2(both.count(item) / after.count(item[1])) for item in both))
    return totals


def test_people_lose_as_counted_on_fingers() -> None:
    halves = PEOPLE // [2, 1]
    loss = information_loss(PEOPLE, halves, about=[0, 1], k=2, suppressed=1)
    # Classes of 2, 2, 2 and 2 rows; a person left out is like all nine; ages lose one bit each.
    expected = {"discernibility": 4 * 4 + 9, "average_class_size": 1, "non_uniform_entropy": 1}
    assert loss == expected


@given(rows=tables, seed=st.integers(0, 999))
def test_the_entropy_is_that_of_loops(rows, seed: int) -> None:
    rng = np.random.default_rng(seed)
    original = np.array(rows)
    about = rng.integers(0, original.shape[1], rng.integers(0, 4)).tolist()
    released = original[:, about] // rng.integers(1, 4, len(about))
    result = non_uniform_entropy(original, released, about=about)
    assert result == pytest.approx(entropy_by_loops(original, released, about), abs=1e-9)
    assert (result >= 0).all()


@given(rows=tables, suppressed=st.integers(0, 5))
def test_discernibility_counts_pairs_of_rows_that_are_alike(rows, suppressed: int) -> None:
    sizes = class_ids(np.array(rows))[1]
    pairs = sum(row == other for row in rows for other in rows)
    expected = pairs + suppressed * (len(rows) + suppressed)
    assert discernibility(sizes, suppressed=suppressed) == expected


def test_the_average_class_is_measured_by_the_promise() -> None:
    sizes = np.array([4, 6, 8])
    assert [average_class_size(sizes, k=k) for k in (0, 1, 2, 3, 6)] == [6, 6, 3, 2, 1]


def test_no_rows_lose_no_pairs_and_nothing_else_is_a_number() -> None:
    loss = information_loss(np.zeros((0, 2)), np.zeros((0, 1)), about=[0], k=2, suppressed=3)
    assert loss["discernibility"] == 9
    assert math.isnan(loss["average_class_size"])
    assert math.isnan(loss["non_uniform_entropy"])


@pytest.mark.parametrize(
    ("original", "released", "about"),
    [((3, 2), (3, 1), [0, 1]), ((3, 2), (2, 1), [0]), ((3, 2), (3, 1), [2]), ((3,), (3, 1), [0])],
    ids=["a column too many", "another number of rows", "no such column", "no table"],
)
def test_shapes_that_do_not_fit_are_refused(original, released, about: list[int]) -> None:
    with pytest.raises(DeclarationError, match="non-uniform entropy: expected codes"):
        non_uniform_entropy(np.zeros(original, int), np.zeros(released, int), about=about)
