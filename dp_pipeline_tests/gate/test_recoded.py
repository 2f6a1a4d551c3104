"""A curator of rows recoded by groups or derived attributes: the same rows and budget."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dp_pipeline.config.amounts import Currency
from dp_pipeline.config.errors import (
    BoundaryViolation,
    BudgetExceeded,
    DeclarationError,
    OtherQuestion,
)
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.scores import UNIT, DependenceScore, Independence, Purity
from dp_pipeline.results.derived_attribute import DerivedAttribute, Grouping
from dp_pipeline.results.transcript import Transcript
from dp_pipeline_tests.gate.questions import DERIVED, GROUPS, ONE
from dp_pipeline_tests.instruments import SILENT, curator_over
from dp_pipeline_tests.populations import TEN_PEOPLE, TOWN

PAIR = ("colour", "smokes")
Recoding = Mapping[str, Any]
by_recoding = pytest.mark.parametrize("recoding", [GROUPS, DERIVED], ids=["groups", "derived"])


def recoded(curator: Curator, recoding: Recoding) -> Curator:
    """The curator under groupings, or with derived attributes."""
    is_grouping = any(isinstance(value, Grouping) for value in recoding.values())
    return curator.grouped(recoding) if is_grouping else curator.with_attributes(recoding)


def test_a_recoded_domain_has_the_other_attributes_as_they_were() -> None:
    curator = curator_over(TEN_PEOPLE)
    coarse, finer = curator.grouped(GROUPS).domain, curator.with_attributes(DERIVED).domain
    assert (coarse.names, finer.names) == (TOWN.names, (*TOWN.names, "ill"))
    assert coarse.shape(("y", "colour", "smokes")) == (2, 2, 2)
    assert coarse["colour"].labels() == ("group 0", "group 1")
    assert finer["ill"].labels() == ("group 0", "group 1", "group 2")
    assert [coarse[name] for name in ("x", "smokes")] == [TOWN["x"], TOWN["smokes"]]
    assert [finer[name] for name in TOWN.names] == list(TOWN)
    assert curator.domain == TOWN


def test_tables_of_recoded_rows_are_sums_of_cells() -> None:
    part = SILENT / 5
    curator = curator_over(TEN_PEOPLE)
    table = curator.measure(PAIR, epsilon=part).table
    coarse, finer = curator.grouped(GROUPS), curator.with_attributes(DERIVED)
    merged = [table[0].tolist(), table[1:].sum(axis=0).tolist()]
    assert coarse.measure(PAIR, epsilon=part).table.tolist() == merged
    groups = np.array(DERIVED["ill"].groups)
    derived = [int(table.ravel()[groups == group].sum()) for group in range(3)]
    assert finer.measure(("ill",), epsilon=part).table.tolist() == derived
    for view in (coarse, finer):
        assert int(view.measure((), epsilon=part).table) == len(TEN_PEOPLE)


def test_recoded_rows_are_recoded_again() -> None:
    once = curator_over(TEN_PEOPLE).grouped({"colour": Grouping((0, 1, 1))})
    twice = once.grouped({"colour": Grouping((0, 0)), "smokes": Grouping((0, 0))})
    assert twice.measure(PAIR, epsilon=SILENT).table.tolist() == [[len(TEN_PEOPLE)]]
    red = curator_over(TEN_PEOPLE).with_attributes(IS_RED)
    either = red.with_attributes({"either": DerivedAttribute(("is red", "smokes"), (0, 1, 1, 1))})
    red_or_smoking = sum(row[2] == "red" or row[3] == "yes" for row in TEN_PEOPLE)
    assert either.measure(("either",), epsilon=SILENT).table.tolist()[1] == red_or_smoking


@by_recoding
@pytest.mark.parametrize("currency", [Currency(), Currency(Fraction(1, 10**9))], ids=["ε", "ρ"])
def test_both_curators_pay_from_one_budget_for_one_transcript(currency, recoding):
    transcript = Transcript()
    curator = curator_over(
        TEN_PEOPLE, epsilon=ONE, distance=3, transcript=transcript, currency=currency
    )
    view = recoded(curator, recoding)
    (measured,) = view.tabulate({("colour",): ONE / 2})
    (same,) = curator.tabulate({("smokes",): ONE / 2})
    assert (view.distance, view.currency, measured.scale) == (3, currency, same.scale)
    assert view.accountant is curator.accountant
    assert (len(curator.accountant.spends), len(transcript)) == (2, 2)
    curator.accountant.require_all_spent()
    with pytest.raises(BudgetExceeded):
        view.tabulate({(): ONE})


def test_scores_are_of_recoded_attributes() -> None:
    coarse = curator_over(TEN_PEOPLE).grouped(GROUPS)
    gap = DependenceScore(np.zeros((2, 2), np.int64))
    session = coarse.open_scores({PAIR: gap, ("y", "smokes"): Independence()})
    scored, _ = session.measure_all(amount=SILENT / 2)
    assert scored == pytest.approx(len(TEN_PEOPLE) * UNIT, abs=9)
    with pytest.raises(BoundaryViolation):
        coarse.open_scores({PAIR: DependenceScore(np.zeros((3, 2), np.int64))})
    same = {"same": DerivedAttribute(("smokes",), (0, 1))}
    finer = curator_over(TEN_PEOPLE).with_attributes(same)
    session = finer.open_scores({("smokes", "same"): Purity()})
    assert session.measure_total(amount=SILENT) == len(TEN_PEOPLE) * UNIT // 2


IS_RED = {"is red": DerivedAttribute(("colour",), (1, 0, 0))}
TWO_COLOURS = {"colour": Grouping((0, 1, 1))}
RECODINGS: dict[str, tuple[Recoding, ...]] = {
    "none": (),
    "groups": (TWO_COLOURS,),
    # Both have two groups of colours: the tables are of the same shape.
    "other groups": ({"colour": Grouping((0, 0, 1))},),
    "groups of groups": (TWO_COLOURS, {"colour": Grouping((0, 1))}),
    "derived": (IS_RED,),
    "other derived groups": ({"is red": DerivedAttribute(("colour",), (0, 1, 1))},),
    "derived from another attribute": ({"is red": DerivedAttribute(("y",), (1, 0, 0))},),
    "derived under another name": ({"is it red": DerivedAttribute(("colour",), (1, 0, 0))},),
}


@pytest.mark.parametrize("name", RECODINGS)
def test_an_answer_is_replayed_for_its_recoding_only(name: str) -> None:
    """The words of the question are the same under all of them."""

    def smokers(rows: object, recodings: tuple[Recoding, ...], transcript: Transcript) -> object:
        curator = curator_over(rows, transcript=transcript)  # type: ignore[arg-type]
        for recoding in recodings:
            curator = recoded(curator, recoding)
        return curator.measure(("smokes",), epsilon=ONE).table.tolist()

    transcript = Transcript()
    answer = smokers(TEN_PEOPLE, RECODINGS[name], transcript)
    for other, recodings in RECODINGS.items():
        if other == name:
            assert smokers(None, recodings, transcript.rewind()) == answer
            continue
        with pytest.raises(OtherQuestion):
            smokers(None, recodings, transcript.rewind())


class OwnGrouping(Grouping):
    """Groups that could be others the next time."""


class OwnAttribute(DerivedAttribute):
    """Groups that could be others the next time."""


BAD_GROUPS: dict[str, Recoding] = {
    "a level without a group": {"colour": Grouping((0, 1))},
    "a group of a level that is not there": {"smokes": Grouping((0, 1, 1))},
    "no groups": {"smokes": Grouping(())},
    "a group left out": {"colour": Grouping((0, 0, 2))},
    "the first group left out": {"colour": Grouping((1, 1, 2))},
    "groups that go back": {"colour": Grouping((0, 1, 0))},
    "a group below 0": {"colour": Grouping((-1, 0, 1))},
    "half a group": {"colour": Grouping((0, 0.5, 1))},  # type: ignore[arg-type]
    "groups of another kind": {"colour": OwnGrouping((0, 1, 1))},
}
BAD_ATTRIBUTES: dict[str, Recoding] = {
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
}
REFUSED = [("grouped", bad) for bad in BAD_GROUPS.values()]
REFUSED += [("with_attributes", bad) for bad in BAD_ATTRIBUTES.values()]


@pytest.mark.parametrize(("method", "recoding"), REFUSED, ids=[*BAD_GROUPS, *BAD_ATTRIBUTES])
@pytest.mark.parametrize("rows", [(), TEN_PEOPLE], ids=["no rows", "ten people"])
def test_a_wrong_recoding_is_refused_whatever_the_rows(method, recoding, rows):
    curator = curator_over(rows)
    with pytest.raises(BoundaryViolation, match=r"must|needs") as refusal:
        getattr(curator, method)(recoding)
    assert len(str(refusal.value).splitlines()) == 1
    assert curator.accountant.spends == ()


@pytest.mark.parametrize("name", ["age", "x"])
def test_an_attribute_without_cells_is_not_recoded(name: str) -> None:
    for recoding in ({name: Grouping((0,))}, {"new": DerivedAttribute((name,), (0,))}):
        with pytest.raises(DeclarationError):
            recoded(curator_over(TEN_PEOPLE), recoding)
