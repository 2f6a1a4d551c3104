"""Each verdict of the study of tables can come out either way, by three standard errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import nan

import pytest

from dp_pipeline.studies.fit import Mean
from dp_pipeline.studies.tables.claims import CLAIMS, MEASURE_TITLES, Claim, Summary

GOOD, BAD = 1.0, 2.0

every_claim = pytest.mark.parametrize("claim", CLAIMS, ids=lambda one: one.sentence[:60])


def summary_of(values: Mapping[tuple[str, str], float], *, error: float = 0.1) -> Summary:
    """The same number in every measure, for (system, ε) on ``answers``."""
    return Summary(
        {
            ("answers", system, epsilon): dict.fromkeys(MEASURE_TITLES, Mean(value, error, 30))
            for (system, epsilon), value in values.items()
        },
        {},
    )


def values_for(claim: Claim, own: float, others: float) -> dict[tuple[str, str], float]:
    """One place where the claim is tested."""
    if not claim.against:
        return {(claim.system, "0.1"): others, (claim.system, "1"): own}
    return {(claim.system, "1"): own, **{(other, "1"): others for other in claim.against}}


@every_claim
def test_a_claim_holds_where_the_difference_is_clear(claim: Claim) -> None:
    summary = summary_of(values_for(claim, GOOD, BAD))
    for measure in claim.measures:
        assert claim.verdict(summary, measure).short == "held in all 1"


@every_claim
def test_the_contrary_holds_where_the_difference_is_clear_the_other_way(claim: Claim) -> None:
    summary = summary_of(values_for(claim, BAD, GOOD))
    for measure in claim.measures:
        found = claim.verdict(summary, measure).short
        assert found == "did not hold, the contrary in 1 of 1"


@every_claim
def test_a_difference_within_three_standard_errors_says_nothing(claim: Claim) -> None:
    summary = summary_of(values_for(claim, GOOD, BAD), error=1.0)
    for measure in claim.measures:
        found = claim.verdict(summary, measure)
        assert found.short == ("held in all 1" if claim.rule == "no worse" else "undecided")
        assert set(found.outcome.values()) == {"alike"}


@every_claim
def test_a_claim_is_not_measured_without_one_of_its_systems_or_without_errors(claim: Claim) -> None:
    values = values_for(claim, GOOD, BAD)
    less: list[Callable[[], Summary]] = [lambda: summary_of(values, error=nan)]
    for gone in values:
        kept = {place: value for place, value in values.items() if place != gone}
        less.append(lambda kept=kept: summary_of(kept))
    for measure in claim.measures:
        for summary in less:
            assert claim.verdict(summary(), measure).short == "not measured"


def test_a_factor_gives_a_claim_so_much_room() -> None:
    (within,) = [claim for claim in CLAIMS if claim.factor == 1.15]
    found = {}
    for own in (1.1, 1.2):
        values = values_for(within, own, 1.0)
        found[own] = within.verdict(summary_of(values, error=1e-4), "avd_2").short
    assert found == {1.1: "held in all 1", 1.2: "did not hold, the contrary in 1 of 1"}


def test_a_claim_of_several_systems_is_held_against_the_best_of_them() -> None:
    (best,) = [claim for claim in CLAIMS if "independent_equal" in claim.against]
    values = values_for(best, 1.5, 2.0) | {(best.against[0], "1"): 1.0}
    assert best.verdict(summary_of(values), "avd_2").short == "did not hold, the contrary in 1 of 1"
