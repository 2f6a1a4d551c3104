"""The large cells of one huge table: what is paid for them, what is refused, what is shown."""

import numpy as np
import pytest

from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import Levels
from dp_pipeline.config.errors import BoundaryViolation, DeclarationError
from dp_pipeline.gate.counter import Sealed
from dp_pipeline.results.accountant import LAPLACE
from dp_pipeline_tests.gate.questions import ONE
from dp_pipeline_tests.instruments import SILENT, curator_over
from dp_pipeline_tests.populations import TEN_PEOPLE, TOWN, LoopCounter

NAMES = ("smokes", "y", "colour")
WIDE = Domain(
    tuple(
        Attribute(f"a{index}", f"a{index}", "drop", cells=Levels(tuple(map(str, range(8)))))
        for index in range(21)
    )
)
"""Twenty of its attributes have 2^60 cells together, all of them 2^63."""


def test_without_noise_the_large_cells_are_the_true_ones() -> None:
    (exact,) = LoopCounter(TEN_PEOPLE).count([NAMES])
    counts = exact.open_at_the_gate()
    for threshold in (1, 2, 3):
        table = curator_over(TEN_PEOPLE).sparse_table(NAMES, threshold=threshold, epsilon=SILENT)
        assert table.codes.tolist() == np.argwhere(counts >= threshold).tolist()
        assert table.counts.tolist() == counts[counts >= threshold].tolist()


@pytest.mark.parametrize("distance", [1, 3])
def test_a_person_is_paid_for_in_one_cell_a_row(distance: int) -> None:
    curator = curator_over(TEN_PEOPLE, epsilon=ONE / 2, distance=distance)
    table = curator.sparse_table(NAMES, threshold=5, epsilon=ONE / 2)
    (spend,) = curator.accountant.spends
    assert (spend.mechanism, spend.sensitivity, spend.scale) == (LAPLACE, distance, 2 * distance)
    assert table.scale == spend.scale


def test_a_table_of_2_to_the_60_cells_is_answered() -> None:
    rows = (*[("7",) * 21] * 500, ("0",) * 21)
    curator = curator_over(LoopCounter(rows, WIDE), domain=WIDE)
    names = WIDE.names[:20]
    table = curator.sparse_table(names, threshold=50, epsilon=ONE)
    assert table.codes.tolist() == [[7] * 20]
    assert abs(int(table.counts[0]) - 500) < 100


class Untouched(LoopCounter):
    """Nobody may look."""

    def occupied(self, _: tuple[str, ...]) -> Sealed:
        raise AssertionError("it was looked at")


REFUSED = {
    "no attribute": ((), 1),
    "an attribute twice": (("a0", "a1", "a0"), 1),
    "too many cells": (WIDE.names, 10**9),
    "a threshold of nothing": (("a0",), 0),
    "a negative threshold": (("a0",), -5),
    "a threshold that is not whole": (("a0",), 1.5),
    "a threshold that is a truth value": (("a0",), True),
    "more scales than are proven": (("a0",), (1 << 32) + 1),
    "too many empty cells above it": (WIDE.names[:20], 3),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_proven_is_refused_before_any_charge(name: str) -> None:
    attributes, threshold = REFUSED[name]
    curator = curator_over(Untouched((), WIDE), domain=WIDE)
    with pytest.raises(BoundaryViolation) as refused:
        curator.sparse_table(attributes, threshold=threshold, epsilon=ONE)
    assert len(str(refused.value).splitlines()) == 1
    assert curator.accountant.spends == ()


def test_an_attribute_without_cells_is_refused() -> None:
    with pytest.raises(DeclarationError, match="'x'"):
        curator_over(Untouched(TEN_PEOPLE)).sparse_table(("x",), threshold=1, epsilon=ONE)
    assert TOWN["x"].cells is None
