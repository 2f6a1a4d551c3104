"""A curator over groups of levels: the same rows, the same budget, one row still one row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dp_pipeline.config.amounts import Currency
from dp_pipeline.config.errors import (
    BoundaryViolation,
    BudgetExceeded,
    DeclarationError,
    OtherQuestion,
)
from dp_pipeline.gate.scores import UNIT, Gap, Independence
from dp_pipeline.results.accountant import LAPLACE
from dp_pipeline.results.derived_attribute import Grouping
from dp_pipeline.results.transcript import Transcript
from dp_pipeline_tests.gate.questions import GROUPS, ONE, groupings, people
from dp_pipeline_tests.instruments import SILENT, ForcedNoise, RecordingNoise, curator_over
from dp_pipeline_tests.populations import TEN_PEOPLE, TOWN, GroupedLoopCounter, LoopCounter, Row

PAIR = ("colour", "smokes")


def test_the_domain_has_groups_as_levels_and_the_other_attributes_as_they_were() -> None:
    curator = curator_over(TEN_PEOPLE)
    coarse = curator.grouped(GROUPS)
    assert coarse.domain.names == TOWN.names
    assert coarse.domain.shape(("y", "colour", "smokes")) == (2, 2, 2)
    assert coarse.domain["colour"].labels() == ("group 0", "group 1")
    assert [coarse.domain[name] for name in ("x", "smokes")] == [TOWN["x"], TOWN["smokes"]]
    assert curator.domain == TOWN


def test_tables_over_groups_are_sums_of_tables_over_levels() -> None:
    curator = curator_over(TEN_PEOPLE)
    third = SILENT / 3
    table = curator.measure(PAIR, epsilon=third).table
    grouped = curator.grouped(GROUPS)
    assert grouped.measure(PAIR, epsilon=third).table.tolist() == [
        table[0].tolist(),
        table[1:].sum(axis=0).tolist(),
    ]
    assert int(grouped.measure((), epsilon=third).table) == len(TEN_PEOPLE)


def test_groups_are_put_into_groups_again() -> None:
    once = curator_over(TEN_PEOPLE).grouped({"colour": Grouping((0, 1, 1))})
    twice = once.grouped({"colour": Grouping((0, 0)), "smokes": Grouping((0, 0))})
    assert twice.measure(PAIR, epsilon=SILENT).table.tolist() == [[len(TEN_PEOPLE)]]


@pytest.mark.parametrize("currency", [Currency(), Currency(Fraction(1, 10**9))], ids=["ε", "ρ"])
def test_both_curators_pay_from_one_budget_for_one_transcript(currency: Currency) -> None:
    transcript = Transcript()
    curator = curator_over(
        TEN_PEOPLE, epsilon=ONE, distance=3, transcript=transcript, currency=currency
    )
    coarse = curator.grouped(GROUPS)
    (measured,) = coarse.tabulate({PAIR: ONE / 2})
    (same,) = curator.tabulate({("smokes",): ONE / 2})
    assert (coarse.distance, coarse.currency) == (3, currency)
    assert measured.scale == same.scale
    assert coarse.accountant is curator.accountant
    assert (len(curator.accountant.spends), len(transcript)) == (2, 2)
    curator.accountant.require_all_spent()
    with pytest.raises(BudgetExceeded):
        coarse.tabulate({(): ONE})


def test_scores_are_of_groups() -> None:
    coarse = curator_over(TEN_PEOPLE).grouped(GROUPS)
    gap = Gap(np.zeros((2, 2), np.int64))
    session = coarse.open_scores({PAIR: gap, ("y", "smokes"): Independence()})
    scored, _ = session.measure_all(amount=SILENT / 2)
    assert scored == pytest.approx(len(TEN_PEOPLE) * UNIT, abs=9)
    with pytest.raises(BoundaryViolation):
        coarse.open_scores({PAIR: Gap(np.zeros((3, 2), np.int64))})


def test_a_replay_needs_no_rows() -> None:
    transcript = Transcript()
    first = curator_over(TEN_PEOPLE, transcript=transcript).grouped(GROUPS)
    table = first.measure(PAIR, epsilon=ONE).table
    again = curator_over(None, transcript=transcript.rewind()).grouped(GROUPS)
    assert again.measure(PAIR, epsilon=ONE).table.tolist() == table.tolist()


@pytest.mark.parametrize("others", [{"colour": Grouping((0, 0, 1))}, {}], ids=["others", "none"])
def test_a_replay_with_other_groups_is_refused_although_its_words_are_the_same(
    others: dict[str, Grouping],
) -> None:
    transcript = Transcript()
    # Both have two groups of colours: the tables are of the same shape.
    first = curator_over(TEN_PEOPLE, transcript=transcript).grouped({"colour": Grouping((0, 1, 1))})
    first.measure(("smokes",), epsilon=ONE)
    again = curator_over(None, transcript=transcript.rewind())
    with pytest.raises(OtherQuestion):
        (again.grouped(others) if others else again).measure(("smokes",), epsilon=ONE)


def test_groups_of_groups_are_other_questions_than_groups() -> None:
    transcript = Transcript()
    groups = {"colour": Grouping((0, 1, 1))}
    first = curator_over(TEN_PEOPLE, transcript=transcript).grouped(groups)
    first.measure(("smokes",), epsilon=ONE)
    twice = curator_over(None, transcript=transcript.rewind()).grouped(groups)
    with pytest.raises(OtherQuestion):
        twice.grouped({"colour": Grouping((0, 1))}).measure(("smokes",), epsilon=ONE)


# Refusals.


class OwnGrouping(Grouping):
    """Groups that could be others the next time."""


REFUSED: dict[str, Mapping[str, Grouping]] = {
    "a level without a group": {"colour": Grouping((0, 1))},
    "a group of a level that is not there": {"smokes": Grouping((0, 1, 1))},
    "no groups": {"smokes": Grouping(())},
    "a group left out": {"colour": Grouping((0, 0, 2))},
    "the first group left out": {"colour": Grouping((1, 1, 2))},
    "groups that go back": {"colour": Grouping((0, 1, 0))},
    "a group below 0": {"colour": Grouping((-1, 0, 1))},
    "half a group": {"colour": Grouping((0, 0.5, 1))},  # type: ignore[arg-type]
    "groups of another kind": {"colour": OwnGrouping((0, 1, 1))},
    "levels without groups": {"colour": (0, 1, 1)},  # type: ignore[dict-item]
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("rows", [(), TEN_PEOPLE], ids=["nobody", "ten people"])
def test_what_is_no_grouping_is_refused_in_one_line_whatever_the_rows(
    name: str, rows: tuple[Row, ...]
) -> None:
    curator = curator_over(rows)
    with pytest.raises(BoundaryViolation, match="expected one for every level") as refused:
        curator.grouped(REFUSED[name])
    assert len(str(refused.value).splitlines()) == 1
    assert curator.accountant.spends == ()


@pytest.mark.parametrize("name", ["age", "x"])
def test_an_attribute_without_cells_has_no_groups(name: str) -> None:
    with pytest.raises(DeclarationError):
        curator_over(TEN_PEOPLE).grouped({name: Grouping((0,))})


# How far one person moves a table over groups.


@dataclass(frozen=True)
class CountsAGroupTwice(LoopCounter):
    """Everybody in the first group of colours is there twice."""

    def grouped(self, groupings: Mapping[str, Grouping]) -> LoopCounter:
        coarse = super().grouped(groupings)
        first = [row for row in self.rows if coarse.code(row, "colour") == 0]
        return GroupedLoopCounter((*self.rows, *first), coarse.domain, self, dict(groupings))


class TurnsRareGroups(GroupedLoopCounter):
    """A group's number depends on how many rows it has."""

    def code(self, row: Row, name: str) -> int:
        groups = [super(TurnsRareGroups, self).code(one, name) for one in self.rows]
        group = super().code(row, name)
        is_rare = 2 * groups.count(group) < len(groups)
        return self.domain[name].size - 1 - group if is_rare else group


@dataclass(frozen=True)
class GroupsByExactCounts(LoopCounter):
    """Groups by what nobody has released."""

    def grouped(self, groupings: Mapping[str, Grouping]) -> LoopCounter:
        coarse = super().grouped(groupings)
        return TurnsRareGroups(self.rows, coarse.domain, self, dict(groupings))


def fuzz_sensitivity(kind: type[LoopCounter]) -> None:
    """Fail if a person is found who moves a table over groups by more than was paid for."""

    @settings(
        derandomize=True,
        deadline=None,
        max_examples=40,
        database=None,
        phases=[Phase.explicit, Phase.generate],
    )
    @given(groups=groupings(), rows=people, person=people.filter(bool))
    def moves_by_at_most_the_sensitivity(
        groups: dict[str, Grouping], rows: list[Row], person: list[Row]
    ) -> None:
        draws, spends = [], []
        for everybody in (rows, rows + person):
            noise = RecordingNoise(ForcedNoise(1))
            curator = curator_over(kind(everybody), distance=len(person), noise=noise)
            curator.grouped(groups).tabulate({("colour",): ONE, PAIR: ONE, (): ONE})
            draws.append(noise.draws)
            spends.append(curator.accountant.spends)
        assert spends[0] == spends[1]
        for spend, here, there in zip(spends[0], *draws, strict=True):
            assert spend.mechanism == LAPLACE
            assert np.abs(here.exact - there.exact).sum() <= spend.sensitivity

    moves_by_at_most_the_sensitivity()


def test_no_person_moves_a_table_over_groups_by_more_than_their_rows() -> None:
    fuzz_sensitivity(LoopCounter)


@pytest.mark.parametrize("kind", [CountsAGroupTwice, GroupsByExactCounts])
def test_an_engine_that_groups_wrongly_is_caught(kind: type[LoopCounter]) -> None:
    with pytest.raises(AssertionError):
        fuzz_sensitivity(kind)


@settings(derandomize=True, deadline=None, max_examples=30)
@given(groups=groupings(), rows=people, names=st.permutations(TOWN.discrete))
def test_every_row_is_in_one_cell_of_every_table_over_groups(
    groups: dict[str, Grouping], rows: list[Row], names: list[str]
) -> None:
    coarse = curator_over(rows).grouped(groups)
    table = coarse.measure(tuple(names), epsilon=SILENT).table
    assert table.shape == coarse.domain.shape(tuple(names))
    assert table.sum() == len(rows)
