"""The large cells of one huge table: what is paid for them, what is refused, what is shown."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.amounts import Currency
from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import Levels
from dp_pipeline.config.errors import BoundaryViolation, DeclarationError
from dp_pipeline.gate.counter import Sealed
from dp_pipeline.results.accountant import LAPLACE
from dp_pipeline.results.measurement import SparseTable
from dp_pipeline.results.transcript import Transcript
from dp_pipeline_tests.gate.questions import ONE, people
from dp_pipeline_tests.instruments import SILENT, ForcedNoise, RecordingNoise, curator_over
from dp_pipeline_tests.populations import TEN_PEOPLE, TOWN, LoopCounter, Row

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


@settings(derandomize=True, deadline=None, max_examples=30)
@given(
    rows=people,
    person=st.lists(people.filter(bool).map(lambda rows: rows[0]), min_size=1, max_size=3),
    seed=st.integers(0, 99),
)
def test_a_person_moves_a_table_by_at_most_their_rows(
    rows: list[Row], person: list[Row], seed: int
) -> None:
    draws, tables = [], []
    for everybody in (rows, [*rows, *person]):
        noise = RecordingNoise(ForcedNoise(seed))
        curator = curator_over(everybody, noise=noise, distance=3)
        tables.append(curator.sparse_table(NAMES, threshold=1, epsilon=ONE))
        draws += noise.draws
    assert np.abs(draws[0].exact - draws[1].exact).sum() == len(person)
    assert tables[0].table.tolist() == tables[1].table.tolist()


def test_in_a_release_that_pays_in_rho_it_costs_half_the_square() -> None:
    curator = curator_over(TEN_PEOPLE, currency=Currency(Fraction(1, 10**9)))
    curator.sparse_table(NAMES, threshold=5, epsilon=ONE / 2)
    assert curator.accountant.spent == Fraction(1, 8)


def test_the_stored_answer_is_replayed_without_rows() -> None:
    transcript = Transcript()
    first = ask(curator_over(TEN_PEOPLE, transcript=transcript))
    again = ask(curator_over(None, transcript=transcript.rewind()))
    assert again.table.tolist() == first.table.tolist()


def ask(curator) -> SparseTable:
    return curator.sparse_table(NAMES, threshold=2, epsilon=ONE)


def test_another_threshold_is_another_question() -> None:
    transcript = Transcript()
    curator = curator_over(TEN_PEOPLE, transcript=transcript)
    for threshold in (2, 3):
        curator.sparse_table(NAMES, threshold=threshold, epsilon=ONE)
    assert len({record.question for record in transcript.records}) == 2


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
