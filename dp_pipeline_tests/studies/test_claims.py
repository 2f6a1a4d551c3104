"""Each verdict can come out either way, by the rule of three standard errors, in every study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan
from typing import Any

import pytest

from benchmarks.papers.claims import Measured, PaperClaim, Verdict, compare
from benchmarks.papers.results import Factors, Mean, Place, Summary
from benchmarks.papers.shown import ANONYMITY, CLUSTERING, RELEASE, REPORTS

GOOD, BAD = 1.0, 2.0
SHIFTS = (-0.3, -0.1, 0.0, 0.1, 0.3)
"""What a repetition's rows do to every system of a pair alike."""

Values = Mapping[tuple[str, str], Sequence[float]]
"""(system, ε or K) → the numbers of its repetitions."""

LEVELS = {"epsilon": ("0.05", "0.1"), "k": ("2", "5")}

every_claim = pytest.mark.parametrize(
    ("factors", "claim", "measured"),
    [
        pytest.param(
            report.factors, claim, measured, id=f"{claim.sentence[:60]} {measured.measure}"
        )
        for report in REPORTS.values()
        for claim in report.claims
        for measured in claim.measured
    ],
)


def summary_of(factors: Factors, measured: Measured, values: Values) -> Summary:
    """One measure of some systems on ``points``; NICV and its ratio are the same."""
    rows: list[dict[str, Any]] = []
    for (system, level), numbers in values.items():
        plannings = getattr(factors.systems[system], "plannings", ("",))
        ways = {"planning": plannings[0], "use": measured.way or "table"}
        way = {name: text for name, text in ways.items() if name in factors.order}
        for repetition, number in enumerate(numbers):
            known = {"dataset": "points", "system": system, factors.level: level, **way}
            known |= {"repetition": repetition, "failure": ""}
            # What is derived is made of the NICV.
            measures = ("nicv", measured.measure) if measured.way is None else (measured.measure,)
            numeric = {name: number for name in measures if name not in factors.derived}
            rows.append({**known, **numeric})
    return Summary.of(factors, rows)


def numbers(value: float, error: float = 0.1, *, pairs: bool = False) -> list[float]:
    """Two numbers with this mean and standard error; five with the shifts of pairs."""
    return [value + shift for shift in SHIFTS] if pairs else [value - error, value + error]


def verdict(factors: Factors, claim: PaperClaim, measured: Measured, values: Values) -> Verdict:
    way = "declared" if measured.way is None else measured.way
    return claim.verdict(summary_of(factors, measured, values), measured, way)


def values_for(
    factors: Factors, claim: PaperClaim, own: Sequence[float], others: Sequence[float]
) -> Values:
    """One place where the claim is tested: the second of two levels."""
    smaller, level = LEVELS[factors.level]
    if claim.at_most is not None:
        return {(claim.system, level): own}
    if not claim.against:
        return {(claim.system, smaller): others, (claim.system, level): own}
    return {(claim.system, level): own, **{(other, level): others for other in claim.against}}


def sides(
    factors: Factors, claim: PaperClaim, measured: Measured
) -> tuple[list[float], list[float]]:
    """Numbers of the claim's system and of the others that bear it out."""
    if claim.at_most is not None:
        return [claim.at_most] * 5, []
    # The derived measure is higher where the NICV that it is made of is lower.
    is_lower = measured.lower_is_better is not claim.falls or measured.is_difference
    own, others = (GOOD, BAD) if is_lower else (BAD, GOOD)
    return numbers(own, pairs=factors.is_paired), numbers(others, pairs=factors.is_paired)


@every_claim
def test_a_claim_holds_where_the_difference_is_clear(
    factors: Factors, claim: PaperClaim, measured: Measured
) -> None:
    own, others = sides(factors, claim, measured)
    found = verdict(factors, claim, measured, values_for(factors, claim, own, others))
    assert found.short == "held in all 1"
    assert set(found.outcome.values()) == {"better"}


@every_claim
def test_the_contrary_holds_where_the_difference_is_clear_the_other_way(
    factors: Factors, claim: PaperClaim, measured: Measured
) -> None:
    others, own = sides(factors, claim, measured)
    if claim.at_most is not None:
        own = [claim.at_most] * 4 + [claim.at_most + 0.01]
    found = verdict(factors, claim, measured, values_for(factors, claim, own, others))
    assert found.short == "did not hold, the contrary in 1 of 1"
    assert found.text.endswith(f"the contrary at points: every {factors.letter}")


@every_claim
def test_a_difference_within_three_standard_errors_says_nothing(
    factors: Factors, claim: PaperClaim, measured: Measured
) -> None:
    if claim.at_most is not None:
        return
    own, others = numbers(GOOD, 1.0), numbers(BAD, 1.0)
    if factors.is_paired:
        # The mean difference is 0.1 and its standard error 0.2.
        noise = (1.0, -0.2, -0.1, 0.0, -0.2)
        own = [GOOD + shift + more for shift, more in zip(SHIFTS, noise, strict=True)]
        others = numbers(GOOD, pairs=True)
    found = verdict(factors, claim, measured, values_for(factors, claim, own, others))
    assert found.short == ("held in all 1" if claim.rule == "no worse" else "undecided")
    assert set(found.outcome.values()) == {"alike"}


@every_claim
def test_a_claim_is_not_measured_without_all_that_it_compares_or_without_errors(
    factors: Factors, claim: PaperClaim, measured: Measured
) -> None:
    values = values_for(factors, claim, *sides(factors, claim, measured))
    for gone in values:
        kept = {place: found for place, found in values.items() if place != gone}
        assert verdict(factors, claim, measured, kept).text == "not measured"
    if claim.at_most is None:
        once = {place: found[:1] for place, found in values.items()}
        assert verdict(factors, claim, measured, once).short == "not measured"


def test_claims_name_systems_that_there_are_and_none_as_published() -> None:
    for report in REPORTS.values():
        for claim in report.claims:
            systems = [report.factors.systems[name] for name in (claim.system, *claim.against)]
            assert not any(system.is_published for system in systems)


def clustering_claim(**wanted: object) -> PaperClaim:
    """The first with these fields."""
    return next(
        claim
        for claim in CLUSTERING.claims
        if all(getattr(claim, name) == value for name, value in wanted.items())
    )


def judged(claim: PaperClaim, values: Mapping[str, float], error: float = 0.1) -> Verdict:
    """Of a claim about clustering, at ε = 0.1."""
    each = {(system, "0.1"): numbers(value, error) for system, value in values.items()}
    return verdict(CLUSTERING.factors, claim, claim.measured[0], each)


def test_one_of_several_others_is_enough_to_refute_a_claim() -> None:
    claim = clustering_claim(against=("dp_kmeans", "idp_kmeans", "dp_kmeans_pp"))
    values = {claim.system: 2.0, **dict.fromkeys(claim.against, 3.0), claim.against[1]: 1.0}
    assert judged(claim, values).short == "did not hold, the contrary in 1 of 1"


def test_no_worse_is_judged_against_the_best_of_the_others() -> None:
    claim = clustering_claim(rule="no worse")
    best, middle, worst = claim.against
    values = {claim.system: 1.3, best: 1.0, middle: 1.2, worst: 9.0}
    assert judged(claim, values).short == "held in all 1"
    assert judged(claim, values, error=0.05).short.startswith("did not")


def test_a_claim_that_holds_somewhere_names_the_places() -> None:
    claim = CLUSTERING.claims[0]
    own, other = claim.system, claim.against[0]
    values = {(other, level): numbers(BAD) for level in ("0.1", "1")}
    values |= {(own, "0.1"): numbers(GOOD), (own, "1"): numbers(5.0)}
    found = verdict(CLUSTERING.factors, claim, claim.measured[0], values)
    assert found.text == "held only at points: 0.1 (1 of 2 places); the contrary at points: 1"


@pytest.mark.parametrize(("others", "words"), [(1, "1 other"), (2, "2 others")])
def test_a_verdict_counts_the_comparisons_that_ran(others: int, words: str) -> None:
    claim = CLUSTERING.claims[0]
    own, other = claim.system, claim.against[0]
    values = {(own, level): numbers(GOOD) for level in ("0.1", "0.5", "1")[: 1 + others]}
    values |= {(other, "0.1"): numbers(BAD)}
    found = verdict(CLUSTERING.factors, claim, claim.measured[0], values)
    assert found.text == f"held (1 of 1 places); not compared at {words}"
    assert found.short == "held in 1 of 1 that ran"


def test_a_claim_of_small_levels_is_not_judged_above_them() -> None:
    (claim,) = [one for one in CLUSTERING.claims if one.up_to is not None]
    values = {(name, "0.5"): numbers(GOOD) for name in (claim.system, *claim.against)}
    assert verdict(CLUSTERING.factors, claim, claim.measured[0], values).held == {}


def test_a_factor_gives_a_claim_so_much_room() -> None:
    (within,) = [claim for claim in RELEASE.claims if claim.factor == 1.15]
    found = {}
    for own in (1.1, 1.2):
        values = values_for(RELEASE.factors, within, numbers(own, 1e-4), numbers(1.0, 1e-4))
        found[own] = verdict(RELEASE.factors, within, within.measured[0], values).short
    assert found == {1.1: "held in all 1", 1.2: "did not hold, the contrary in 1 of 1"}


def paired(claim: PaperClaim, own: Sequence[float], other: Sequence[float]) -> Verdict:
    """Of a claim about k-anonymous tables, at K = 5."""
    values = values_for(ANONYMITY.factors, claim, own, other)
    return verdict(ANONYMITY.factors, claim, claim.measured[0], values)


def test_what_rows_do_to_both_of_a_pair_does_not_hide_who_is_better() -> None:
    (claim,) = [c for c in ANONYMITY.claims if (c.system, c.rule) == ("kjig", "no worse")]
    # Shifts of repetitions are thirty times the difference.
    for gain, outcome in ((0.01, "better"), (-0.01, "worse")):
        found = paired(claim, numbers(GOOD + gain, pairs=True), numbers(GOOD, pairs=True))
        assert found.outcome["points", "5"] == outcome


def test_repetitions_that_one_of_a_pair_lacks_are_left_aside() -> None:
    (claim,) = [c for c in ANONYMITY.claims if (c.system, c.rule) == ("kjig", "no worse")]
    assert paired(claim, [0.9, 0.8, 0.1, 0.1], [0.8, 0.7]).outcome["points", "5"] == "better"


def test_where_nothing_is_promised_nothing_is_compared() -> None:
    for claim in ANONYMITY.claims:
        names = {claim.system, *claim.against}
        values = {(name, k): numbers(GOOD) for name in names for k in ("0", "1")}
        found = verdict(ANONYMITY.factors, claim, claim.measured[0], values)
        assert found.short == "not measured"


def test_a_planning_without_numbers_is_not_measured() -> None:
    claim = CLUSTERING.claims[0]
    values = values_for(CLUSTERING.factors, claim, numbers(GOOD), numbers(BAD))
    summary = summary_of(CLUSTERING.factors, claim.measured[0], values)
    assert claim.verdict(summary, claim.measured[0], "paid").held == {}


def test_a_system_without_n_stands_in_both_plannings() -> None:
    (measured,) = CLUSTERING.claims[0].measured
    values = {("htree_kmeans", "1"): [1.0, 3.0]}
    summary = summary_of(CLUSTERING.factors, measured, values)
    for planning in ("declared", "paid"):
        place = Place("points", planning, "htree_kmeans", "1")
        assert summary.mean(place, "nicv_ratio") == Mean(2.0, 1.0, 2)


def test_a_baseline_stands_at_every_level() -> None:
    factors = ANONYMITY.factors
    values = {("no_selection", "0"): [1.0, 3.0], ("kjig", "0"): [5.0, 7.0], ("kjig", "5"): [1.0]}
    summary = summary_of(factors, Measured("", "auc_svm", False, "nested"), values)
    assert summary.mean(Place("points", "nested", "no_selection", "5"), "auc_svm") == Mean(2, 1, 2)
    # What promises nothing is a level like any other.
    assert summary.mean(Place("points", "nested", "kjig", "7"), "auc_svm") is None
    assert summary.levels("points") == ("0", "5")


def test_rcp_has_the_error_of_a_quotient() -> None:
    (measured,) = CLUSTERING.claims[1].measured
    values = {("eug_kmeans", "1"): numbers(2.0), ("dpqt_kmeans", "1"): numbers(1.0)}
    summary = summary_of(CLUSTERING.factors, measured, values)
    found = summary.mean(Place("points", "declared", "dpqt_kmeans", "1"), "rcp")
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
