"""A curator over attributes that others decide: the same rows and budget, one row still one row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import Phase, given, settings

from dp_pipeline.config.amounts import Currency
from dp_pipeline.config.errors import (
    BoundaryViolation,
    BudgetExceeded,
    DeclarationError,
    OtherQuestion,
)
from dp_pipeline.gate.scores import UNIT, Purity
from dp_pipeline.results.accountant import LAPLACE, NOISY_MAX
from dp_pipeline.results.derived_attribute import DerivedAttribute
from dp_pipeline.results.transcript import Transcript
from dp_pipeline_tests.gate.questions import DERIVED, ONE, derivations, people
from dp_pipeline_tests.instruments import SILENT, ForcedNoise, RecordingNoise, curator_over
from dp_pipeline_tests.populations import TEN_PEOPLE, TOWN, DerivingLoopCounter, LoopCounter, Row

IS_RED = {"is red": DerivedAttribute(("colour",), (1, 0, 0))}


def test_the_domain_has_attributes_more_and_the_others_as_they_were() -> None:
    curator = curator_over(TEN_PEOPLE)
    finer = curator.with_attributes(DERIVED)
    assert finer.domain.names == (*TOWN.names, "ill")
    assert finer.domain["ill"].labels() == ("group 0", "group 1", "group 2")
    assert [finer.domain[name] for name in TOWN.names] == list(TOWN)
    assert curator.domain == TOWN


def test_a_row_is_in_the_group_of_its_cell() -> None:
    third = SILENT / 3
    curator = curator_over(TEN_PEOPLE)
    table = curator.measure(("colour", "smokes"), epsilon=third).table.ravel()
    finer = curator.with_attributes(DERIVED)
    groups = np.array(DERIVED["ill"].groups)
    expected = [int(table[groups == group].sum()) for group in range(3)]
    assert finer.measure(("ill",), epsilon=third).table.tolist() == expected
    assert int(finer.measure((), epsilon=third).table) == len(TEN_PEOPLE)


def test_attributes_are_derived_from_derived_ones() -> None:
    once = curator_over(TEN_PEOPLE).with_attributes(IS_RED)
    twice = once.with_attributes({"either": DerivedAttribute(("is red", "smokes"), (0, 1, 1, 1))})
    red_or_smoking = sum(row[2] == "red" or row[3] == "yes" for row in TEN_PEOPLE)
    assert twice.measure(("either",), epsilon=SILENT).table.tolist()[1] == red_or_smoking


@pytest.mark.parametrize("currency", [Currency(), Currency(Fraction(1, 10**9))], ids=["ε", "ρ"])
def test_both_curators_pay_from_one_budget_for_one_transcript(currency: Currency) -> None:
    transcript = Transcript()
    curator = curator_over(
        TEN_PEOPLE, epsilon=ONE, distance=3, transcript=transcript, currency=currency
    )
    finer = curator.with_attributes(DERIVED)
    (measured,) = finer.tabulate({("ill",): ONE / 2})
    (same,) = curator.tabulate({("smokes",): ONE / 2})
    assert (finer.distance, finer.currency, measured.scale) == (3, currency, same.scale)
    assert finer.accountant is curator.accountant
    assert (len(curator.accountant.spends), len(transcript)) == (2, 2)
    with pytest.raises(BudgetExceeded):
        finer.tabulate({(): ONE})


def test_scores_are_of_derived_attributes() -> None:
    finer = curator_over(TEN_PEOPLE).with_attributes(
        {"same": DerivedAttribute(("smokes",), (0, 1))}
    )
    session = finer.open_scores({("smokes", "same"): Purity()})
    half = UNIT // 2
    assert session.measure_total(amount=SILENT) == len(TEN_PEOPLE) * half


def test_a_replay_needs_no_rows() -> None:
    transcript = Transcript()
    first = curator_over(TEN_PEOPLE, transcript=transcript).with_attributes(DERIVED)
    table = first.measure(("ill",), epsilon=ONE).table
    again = curator_over(None, transcript=transcript.rewind()).with_attributes(DERIVED)
    assert again.measure(("ill",), epsilon=ONE).table.tolist() == table.tolist()


OTHERS = {
    "other groups": {"is red": DerivedAttribute(("colour",), (0, 1, 1))},
    "another attribute": {"is red": DerivedAttribute(("y",), (1, 0, 0))},
    "another name": {"is it red": DerivedAttribute(("colour",), (1, 0, 0))},
    "none": {},
}


@pytest.mark.parametrize("others", OTHERS.values(), ids=OTHERS.keys())
def test_a_replay_under_another_recoding_is_refused_although_its_words_are_the_same(
    others: Mapping[str, DerivedAttribute],
) -> None:
    transcript = Transcript()
    first = curator_over(TEN_PEOPLE, transcript=transcript).with_attributes(IS_RED)
    first.measure(("smokes",), epsilon=ONE)
    again = curator_over(None, transcript=transcript.rewind())
    with pytest.raises(OtherQuestion):
        (again.with_attributes(others) if others else again).measure(("smokes",), epsilon=ONE)


# Refusals.


class OwnAttribute(DerivedAttribute):
    """Groups that could be others the next time."""


REFUSED: dict[str, Mapping[str, DerivedAttribute]] = {
    "an attribute that is there": {"smokes": DerivedAttribute(("colour",), (1, 0, 0))},
    "a cell without a group": {"new": DerivedAttribute(("colour",), (0, 1))},
    "a group of a cell that is not there": {"new": DerivedAttribute(("smokes",), (0, 1, 1))},
    "of no attribute": {"new": DerivedAttribute((), (0,))},
    "of one attribute twice": {"new": DerivedAttribute(("smokes", "smokes"), (0, 1, 1, 0))},
    "a group left out": {"new": DerivedAttribute(("colour",), (0, 0, 2))},
    "a group below 0": {"new": DerivedAttribute(("smokes",), (-1, 0))},
    "half a group": {"new": DerivedAttribute(("smokes",), (0, 0.5))},  # type: ignore[arg-type]
    "groups that could change": {"new": DerivedAttribute(("smokes",), [0, 1])},  # type: ignore[arg-type]
    "another kind": {"new": OwnAttribute(("smokes",), (0, 1))},
    "groups alone": {"new": (0, 1)},  # type: ignore[dict-item]
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("rows", [(), TEN_PEOPLE], ids=["nobody", "ten people"])
def test_what_others_do_not_decide_is_refused_in_one_line_whatever_the_rows(
    name: str, rows: tuple[Row, ...]
) -> None:
    curator = curator_over(rows)
    with pytest.raises(BoundaryViolation, match="expected") as refused:
        curator.with_attributes(REFUSED[name])
    assert len(str(refused.value).splitlines()) == 1
    assert curator.accountant.spends == ()


@pytest.mark.parametrize("name", ["age", "x"])
def test_an_attribute_without_cells_decides_nothing(name: str) -> None:
    with pytest.raises(DeclarationError):
        curator_over(TEN_PEOPLE).with_attributes({"new": DerivedAttribute((name,), (0,))})


# How far one person moves a table or a score over derived attributes.


class NumbersGroupsByTheirRows(DerivingLoopCounter):
    """A group's number depends on how many rows it has."""

    def code(self, row: Row, name: str) -> int:
        group = super().code(row, name)
        if name not in self.derived:
            return group
        groups = [super(NumbersGroupsByTheirRows, self).code(one, name) for one in self.rows]
        is_rare = 2 * groups.count(group) < len(groups)
        return self.domain[name].size - 1 - group if is_rare else group


@dataclass(frozen=True)
class DerivesByExactCounts(LoopCounter):
    """Groups by what nobody has released."""

    def with_attributes(self, derived: Mapping[str, DerivedAttribute]) -> DerivingLoopCounter:
        finer = super().with_attributes(derived)
        return NumbersGroupsByTheirRows(self.rows, finer.domain, self, dict(derived))


@dataclass(frozen=True)
class CountsAGroupTwice(LoopCounter):
    """Everybody in the first group of an attribute is there twice."""

    def with_attributes(self, derived: Mapping[str, DerivedAttribute]) -> DerivingLoopCounter:
        finer = super().with_attributes(derived)
        first = [row for row in self.rows for name in derived if finer.code(row, name) == 0]
        return DerivingLoopCounter((*self.rows, *first), finer.domain, self, dict(derived))


def fuzz_sensitivity(kind: type[LoopCounter]) -> None:
    """Fail if a person is found who moves a table or a score by more than was paid for."""

    @settings(
        derandomize=True,
        deadline=None,
        max_examples=40,
        database=None,
        phases=[Phase.explicit, Phase.generate],
    )
    @given(derived=derivations(), rows=people, person=people.filter(bool))
    def moves_by_at_most_the_sensitivity(
        derived: dict[str, DerivedAttribute], rows: list[Row], person: list[Row]
    ) -> None:
        draws, spends = [], []
        for everybody in (rows, rows + person):
            noise = RecordingNoise(ForcedNoise(1))
            curator = curator_over(kind(everybody), distance=len(person), noise=noise)
            finer = curator.with_attributes(derived)
            finer.tabulate({("smokes", *derived): ONE, (): ONE})
            tables = dict.fromkeys([("smokes", "y", name) for name in derived], Purity())
            if tables:
                finer.choose("one", tables, epsilon=ONE)
            draws.append(noise.draws)
            spends.append(curator.accountant.spends)
        assert spends[0] == spends[1]
        for spend, here, there in zip(spends[0], *draws, strict=True):
            moved = np.abs(here.exact - there.exact)
            assert spend.mechanism in (LAPLACE, NOISY_MAX)
            most = moved.sum() if spend.mechanism == LAPLACE else moved.max()
            assert most <= spend.sensitivity

    moves_by_at_most_the_sensitivity()


def test_no_person_moves_a_derived_table_or_score_by_more_than_their_rows() -> None:
    fuzz_sensitivity(LoopCounter)


@pytest.mark.parametrize("kind", [CountsAGroupTwice, DerivesByExactCounts])
def test_an_engine_that_derives_wrongly_is_caught(kind: type[LoopCounter]) -> None:
    with pytest.raises(AssertionError):
        fuzz_sensitivity(kind)
