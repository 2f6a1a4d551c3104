"""Each verdict can come out either way, by the rule of three standard errors."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan

import pytest

from dp_pipeline.studies.clustering.cells import SYSTEMS, Planning
from dp_pipeline.studies.clustering.claims import CLAIMS, Claim, Summary
from dp_pipeline.studies.fit import Mean, compare

GOOD, BAD = 1.0, 2.0
NAMES = {system.name for system in SYSTEMS}


def summary_of(
    values: Mapping[str, float], *, measure: str = "nicv_ratio", error: float = 0.1
) -> Summary:
    """One number of every system on ``points`` at ε = 0.1 and 1; NICV and ratio are the same."""
    means = {}
    for system, value in values.items():
        planning: Planning = next(one for one in SYSTEMS if one.name == system).plannings[0]
        mean = Mean(value, error, 30)
        measures = {"nicv": mean, "seconds": mean, measure: mean}
        means |= {("points", system, planning, epsilon): measures for epsilon in ("0.1", "1")}
    return Summary(means, {})


def values_for(claim: Claim, own: float, others: float) -> dict[str, float]:
    return {**dict.fromkeys(claim.against, others), claim.system: own}


def sides(claim: Claim) -> tuple[float, float]:
    """A number that the claim hopes for, and one that it hopes for in the others."""
    return (GOOD, BAD) if claim.measure in ("nicv_ratio", "rcp") else (BAD, GOOD)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda one: one.sentence[:60])
def test_a_claim_holds_where_the_difference_is_clear(claim: Claim) -> None:
    own, others = sides(claim)
    found = claim.verdict(
        summary_of(values_for(claim, own, others), measure=claim.measure), "declared"
    )
    places = 1 if claim.at_most else 2
    assert found.short == f"held in all {places}"
    assert len(found.held) == places


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda one: one.sentence[:60])
def test_the_contrary_holds_where_the_difference_is_clear_the_other_way(claim: Claim) -> None:
    others, own = sides(claim)
    found = claim.verdict(
        summary_of(values_for(claim, own, others), measure=claim.measure), "declared"
    )
    assert found.short.startswith("did not hold, the contrary in ")
    assert found.text.endswith("the contrary at points: every ε")


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda one: one.sentence[:60])
def test_a_difference_within_three_standard_errors_says_nothing(claim: Claim) -> None:
    own, others = sides(claim)
    values = values_for(claim, own, others)
    found = claim.verdict(summary_of(values, measure=claim.measure, error=0.4), "declared")
    assert found.short == ("held in all 2" if claim.rule == "no worse" else "undecided")
    assert set(found.outcome.values()) == {"alike"}


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda one: one.sentence[:60])
def test_a_claim_is_not_measured_without_one_of_its_systems_or_without_errors(claim: Claim) -> None:
    values = values_for(claim, *sides(claim))
    for name in (claim.system, *claim.against):
        less = {system: value for system, value in values.items() if system != name}
        assert claim.verdict(summary_of(less, measure=claim.measure), "declared").held == {}
    once = summary_of(values, measure=claim.measure, error=nan)
    assert claim.verdict(once, "declared").text == "not measured"


def test_one_of_several_others_is_enough_to_refute_a_claim() -> None:
    claim = next(one for one in CLAIMS if len(one.against) == 3 and one.measure == "nicv_ratio")
    values = values_for(claim, 2.0, 3.0) | {claim.against[1]: 1.0}
    assert claim.verdict(summary_of(values), "declared").short.startswith("did not hold, the con")


def test_no_worse_is_judged_against_the_best_of_the_others() -> None:
    claim = next(one for one in CLAIMS if one.rule == "no worse")
    best, middle, worst = claim.against
    values = {claim.system: 1.3, best: 1.0, middle: 1.2, worst: 9.0}
    assert claim.verdict(summary_of(values, error=0.1), "declared").short == "held in all 2"
    assert claim.verdict(summary_of(values, error=0.05), "declared").short.startswith("did not")


def test_a_claim_that_holds_somewhere_names_the_places() -> None:
    claim = CLAIMS[0]
    summary = summary_of(values_for(claim, GOOD, BAD))
    place = ("points", claim.system, "declared", "1")
    means = {**summary.means, place: {"nicv_ratio": Mean(5.0, 0.1, 30)}}
    found = claim.verdict(Summary(means, {}), "declared")
    assert found.text == "held only at points: 0.1 (1 of 2 places); the contrary at points: 1"


def test_claims_name_systems_that_there_are_and_none_as_published() -> None:
    for claim in CLAIMS:
        assert {claim.system, *claim.against} <= NAMES


def test_a_planning_without_numbers_is_not_measured() -> None:
    claim = CLAIMS[0]
    assert claim.verdict(summary_of(values_for(claim, GOOD, BAD)), "paid").held == {}


def test_a_system_without_n_stands_in_both_plannings() -> None:
    summary = summary_of({"htree_kmeans": GOOD})
    for planning in ("declared", "paid"):
        found = summary.mean("points", "htree_kmeans", planning, "1", "nicv_ratio")
        assert found == Mean(GOOD, 0.1, 30)


def test_rcp_has_the_error_of_a_quotient() -> None:
    summary = summary_of({"eug_kmeans": 2.0, "dpqt_kmeans": 1.0})
    found = summary.mean("points", "dpqt_kmeans", "declared", "1", "rcp")
    assert found is not None
    assert found.value == 50.0
    # 100 · ½ · √((0.1/1)² + (0.1/2)²)
    assert found.error == pytest.approx(5.5902, abs=1e-4)


def test_a_mean_has_the_standard_error_of_its_repetitions() -> None:
    mean = Mean.of([1.0, 2.0, 3.0, 4.0])
    assert (mean.value, mean.repeats) == (2.5, 4)
    assert mean.error == pytest.approx((5 / 3 / 4) ** 0.5)


def test_without_a_standard_error_two_means_are_alike() -> None:
    assert compare(Mean(1.0, nan, 1), Mean(9.0, 0.1, 9), lower_is_better=True) == "alike"
    assert compare(Mean(1.0, 0.0, 9), Mean(1.0, 0.0, 9), lower_is_better=True) == "alike"


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (1358.2, 123.0, "1,360 ± 120"),
        (20.04, 4.2, "20 ± 4"),
        (0.99997, 1e-9, "1.0000 ± 0.0000"),
        (-0.00001, 0.0002, "0.0000 ± 0.0002"),
        (0.9124, 0.0131, "0.912 ± 0.013"),
    ],
)
def test_a_mean_is_printed_to_the_digits_that_its_error_leaves(
    value: float, error: float, text: str
) -> None:
    assert Mean(value, error, 30).text == text
