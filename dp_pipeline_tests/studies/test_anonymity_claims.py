"""Each verdict of the study of k-anonymous tables can come out either way, by pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from dp_pipeline.studies.k_anonymity.claims import CLAIMS, Claim, Measured, Summary

GOOD, BAD = 0.9, 0.6
SHIFTS = (-0.3, -0.1, 0.0, 0.1, 0.3)
"""What a repetition's rows do to every system alike."""

every_measure = pytest.mark.parametrize(
    ("claim", "measured"),
    [(claim, measured) for claim in CLAIMS for measured in claim.measured],
    ids=lambda one: one.sentence[:60] if isinstance(one, Claim) else one.title,
)

Values = Mapping[tuple[str, int], Sequence[float]]


def summary_of(measured: Measured, values: Values) -> Summary:
    """One row a system, K and repetition, of one measure on ``answers``."""
    return Summary.of(
        {
            "dataset": "answers",
            "system": system,
            "use": measured.use,
            "repetition": repetition,
            "declared": "0",
            "by_k": {str(k): {measured.measure: number}},
        }
        for (system, k), numbers in values.items()
        for repetition, number in enumerate(numbers)
    )


def shifted(value: float, noise: Sequence[float] = (0.0,) * 5) -> list[float]:
    return [value + shift + more for shift, more in zip(SHIFTS, noise, strict=True)]


def values_for(claim: Claim, own: Sequence[float], other: Sequence[float]) -> Values:
    """One place where the claim is tested: K = 5."""
    if claim.at_most is not None:
        return {(claim.system, 5): own}
    if claim.against is None:
        return {(claim.system, 2): other, (claim.system, 5): own}
    return {(claim.system, 5): own, (claim.against, 5): other}


def sides(claim: Claim, measured: Measured) -> tuple[list[float], list[float]]:
    """Numbers of the claim's system and of the other that bear it out."""
    if claim.at_most is not None:
        return [claim.at_most] * 5, [0.0] * 5
    low, high = shifted(BAD), shifted(GOOD)
    return (low, high) if measured.lower_is_better is not claim.falls else (high, low)


@every_measure
def test_a_claim_holds_where_every_pair_bears_it_out(claim: Claim, measured: Measured) -> None:
    own, other = sides(claim, measured)
    found = claim.verdict(summary_of(measured, values_for(claim, own, other)), measured)
    assert found.held["answers", "5"]
    assert set(found.outcome.values()) == {"better"}


@every_measure
def test_the_contrary_holds_where_every_pair_is_the_other_way_round(
    claim: Claim, measured: Measured
) -> None:
    other, own = sides(claim, measured)
    if claim.at_most is not None:
        own = [claim.at_most] * 4 + [claim.at_most + 0.01]
    found = claim.verdict(summary_of(measured, values_for(claim, own, other)), measured)
    assert not found.held["answers", "5"]
    assert found.outcome["answers", "5"] == "worse"
    assert "the contrary" in found.short


@every_measure
def test_a_difference_within_three_standard_errors_says_nothing(
    claim: Claim, measured: Measured
) -> None:
    if claim.at_most is not None:
        return
    # The mean difference is 0.1 and its standard error 0.2.
    noise = (1.0, -0.2, -0.1, 0.0, -0.2)
    values = values_for(claim, shifted(GOOD, noise), shifted(GOOD))
    found = claim.verdict(summary_of(measured, values), measured)
    assert found.outcome["answers", "5"] == "alike"
    assert found.held["answers", "5"] is (claim.rule == "no worse")


@every_measure
def test_a_claim_is_not_measured_without_all_that_it_compares(
    claim: Claim, measured: Measured
) -> None:
    values = values_for(claim, *sides(claim, measured))
    for gone in values:
        kept = {place: numbers for place, numbers in values.items() if place != gone}
        found = claim.verdict(summary_of(measured, kept), measured).held
        assert ("answers", "5") not in found
    if claim.at_most is None:
        once = {place: numbers[:1] for place, numbers in values.items()}
        assert claim.verdict(summary_of(measured, once), measured).short == "not measured"


def test_what_rows_do_to_both_of_a_pair_does_not_hide_who_is_better() -> None:
    (claim,) = [one for one in CLAIMS if (one.system, one.rule) == ("kjig", "no worse")]
    measured = claim.measured[0]
    # Shifts of repetitions are thirty times the difference.
    for gain, outcome in ((0.01, "better"), (-0.01, "worse")):
        values = values_for(claim, shifted(GOOD + gain), shifted(GOOD))
        found = claim.verdict(summary_of(measured, values), measured)
        assert found.outcome["answers", "5"] == outcome


def test_repetitions_that_one_of_a_pair_lacks_are_left_aside() -> None:
    (claim,) = [one for one in CLAIMS if (one.system, one.rule) == ("kjig", "no worse")]
    measured = claim.measured[0]
    values = values_for(claim, [0.9, 0.8, 0.1, 0.1], [0.8, 0.7])
    found = claim.verdict(summary_of(measured, values), measured)
    assert found.outcome["answers", "5"] == "better"


def test_where_nothing_is_promised_nothing_is_compared() -> None:
    for claim in CLAIMS:
        measured = claim.measured[0]
        names = {claim.system, claim.against or claim.system}
        values = {(name, k): shifted(GOOD) for name in names for k in (0, 1)}
        assert claim.verdict(summary_of(measured, values), measured).short == "not measured"
