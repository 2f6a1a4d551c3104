"""Each verdict can come out either way, and those in docs/studies follow from their summaries."""

import re
from collections.abc import Mapping, Sequence
from math import nan
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks.papers.__main__ import main
from benchmarks.papers.claims import Measured, PaperClaim, Verdict, compare
from benchmarks.papers.report import FORMATS, claim_rows, csv_text
from benchmarks.papers.results import Factors, Mean, Place, Summary, summary_rows
from benchmarks.papers.shown import ANONYMITY, CLUSTERING, REPORTS

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
        attribute_sets = {"planning": plannings[0], "use": measured.variant or "table"}
        attributes = {name: text for name, text in attribute_sets.items() if name in factors.order}
        for repetition, number in enumerate(numbers):
            expected = {"dataset": "points", "system": system, factors.level: level, **attributes}
            expected |= {"repetition": repetition, "failure": ""}
            # What is derived is made of the NICV.
            measures = {measured.measure, *(["nicv"] if measured.variant is None else [])}
            numeric = dict.fromkeys(measures - {*factors.derived}, number)
            rows.append({**expected, **numeric})
    return Summary.of(factors, rows)


def numbers(value: float, error: float = 0.1, *, pairs: bool = False) -> list[float]:
    """Two numbers with this mean and standard error; five with the shifts of pairs."""
    return [value + shift for shift in SHIFTS] if pairs else [value - error, value + error]


def verdict(factors: Factors, claim: PaperClaim, measured: Measured, values: Values) -> Verdict:
    attributes = "declared" if measured.variant is None else measured.variant
    return claim.verdict(summary_of(factors, measured, values), measured, attributes)


def values_for(
    factors: Factors, claim: PaperClaim, own: Sequence[float], alternatives: Sequence[float]
) -> Values:
    """One place where the claim is tested: the second of two levels."""
    smaller, level = LEVELS[factors.level]
    if claim.at_most is not None:
        return {(claim.system, level): own}
    if not claim.against:
        return {(claim.system, smaller): alternatives, (claim.system, level): own}
    return {(claim.system, level): own, **{(other, level): alternatives for other in claim.against}}


def sides(factors: Factors, claim: PaperClaim, measured: Measured) -> list[list[float]]:
    """Numbers of the claim's system and of the others that bear it out."""
    if claim.at_most is not None:
        return [[claim.at_most] * 5, []]
    # The derived measure is higher where the NICV that it is made of is lower.
    is_lower = measured.lower_is_better is not claim.falls or measured.is_difference
    values = (GOOD, BAD) if is_lower else (BAD, GOOD)
    return [numbers(value, pairs=factors.is_paired) for value in values]


@every_claim
@pytest.mark.parametrize("is_held", [True, False])
def test_a_clear_difference_decides_a_claim(factors, claim, measured, is_held: bool) -> None:
    own, alternatives = sides(factors, claim, measured)[:: 1 if is_held else -1]
    if claim.at_most is not None and not is_held:
        own = [claim.at_most] * 4 + [claim.at_most + 0.01]
    result = verdict(factors, claim, measured, values_for(factors, claim, own, alternatives))
    contrary = "did not hold, the contrary in 1 of 1"
    assert result.short == ("held in all 1" if is_held else contrary)
    assert set(result.outcome.values()) == {"better" if is_held else "worse"}


@every_claim
def test_small_difference_decides_nothing(factors, claim, measured) -> None:
    if claim.at_most is not None:
        return
    own, alternatives = numbers(GOOD, 1.0), numbers(BAD, 1.0)
    if factors.is_paired:
        # The mean difference is 0.1 and its standard error 0.2.
        noise = (1.0, -0.2, -0.1, 0.0, -0.2)
        own = [GOOD + shift + error for shift, error in zip(SHIFTS, noise, strict=True)]
        alternatives = numbers(GOOD, pairs=True)
    result = verdict(factors, claim, measured, values_for(factors, claim, own, alternatives))
    assert result.short == ("held in all 1" if claim.rule == "no worse" else "undecided")
    assert set(result.outcome.values()) == {"alike"}


@every_claim
def test_claim_needs_all_systems_and_errors(factors, claim, measured) -> None:
    values = values_for(factors, claim, *sides(factors, claim, measured))
    for gone in values:
        remaining = {place: result for place, result in values.items() if place != gone}
        assert verdict(factors, claim, measured, remaining).short == "not measured"
    if claim.at_most is None:
        once = {place: result[:1] for place, result in values.items()}
        assert verdict(factors, claim, measured, once).short == "not measured"


def test_claims_name_existing_systems() -> None:
    for report in REPORTS.values():
        for claim in report.claims:
            systems = [report.factors.systems[name] for name in (claim.system, *claim.against)]
            assert not any(system.is_published for system in systems)


def test_no_worse_compares_with_the_best() -> None:
    claim = next(claim for claim in CLUSTERING.claims if claim.rule == "no worse")
    means = dict(zip((claim.system, *claim.against), (1.3, 1.0, 1.2, 9.0), strict=True))
    for error, start in ((0.1, "held in all 1"), (0.05, "did not")):
        values = {(system, "0.1"): numbers(mean, error) for system, mean in means.items()}
        result = verdict(CLUSTERING.factors, claim, claim.measured[0], values)
        assert result.short.startswith(start)


def test_a_claim_that_holds_somewhere_names_the_places() -> None:
    claim = CLUSTERING.claims[0]
    own, other = claim.system, claim.against[0]
    values = {(other, level): numbers(BAD) for level in ("0.1", "1")}
    values |= {(own, "0.1"): numbers(GOOD), (own, "1"): numbers(5.0)}
    result = verdict(CLUSTERING.factors, claim, claim.measured[0], values)
    assert result.outcome == {("points", "0.1"): "better", ("points", "1"): "worse"}
    assert result.short == "held in 1 of 2, the contrary in 1 of 2"


@pytest.mark.parametrize("alternatives", [1, 2])
def test_a_verdict_counts_the_comparisons_that_ran(alternatives: int) -> None:
    claim = CLUSTERING.claims[0]
    own, other = claim.system, claim.against[0]
    values = {(own, level): numbers(GOOD) for level in ("0.1", "0.5", "1")[: 1 + alternatives]}
    values |= {(other, "0.1"): numbers(BAD)}
    result = verdict(CLUSTERING.factors, claim, claim.measured[0], values)
    assert result.missing == alternatives
    assert result.short == "held in 1 of 1 that ran"


@pytest.mark.parametrize(
    ("own", "alternatives", "outcome"),
    [
        # Shifts of repetitions are thirty times the difference.
        (numbers(GOOD + 0.01, pairs=True), numbers(GOOD, pairs=True), "better"),
        (numbers(GOOD - 0.01, pairs=True), numbers(GOOD, pairs=True), "worse"),
        # Repetitions without a partner do not count.
        ([0.9, 0.8, 0.1, 0.1], [0.8, 0.7], "better"),
    ],
)
def test_pairs_of_repetitions_are_compared(own, alternatives, outcome: str) -> None:
    (claim,) = [c for c in ANONYMITY.claims if (c.system, c.rule) == ("kjig", "no worse")]
    values = values_for(ANONYMITY.factors, claim, own, alternatives)
    result = verdict(ANONYMITY.factors, claim, claim.measured[0], values)
    assert result.outcome["points", "5"] == outcome


def test_where_nothing_is_promised_nothing_is_compared() -> None:
    for claim in ANONYMITY.claims:
        names = {claim.system, *claim.against}
        values = {(name, k): numbers(GOOD) for name in names for k in ("0", "1")}
        result = verdict(ANONYMITY.factors, claim, claim.measured[0], values)
        assert result.short == "not measured"


def test_a_planning_without_numbers_is_not_measured() -> None:
    claim = CLUSTERING.claims[0]
    values = values_for(CLUSTERING.factors, claim, numbers(GOOD), numbers(BAD))
    summary = summary_of(CLUSTERING.factors, claim.measured[0], values)
    assert claim.verdict(summary, claim.measured[0], "paid").is_held == {}


def test_a_baseline_stands_at_every_level() -> None:
    factors = ANONYMITY.factors
    values = {("no_selection", "0"): [1.0, 3.0], ("kjig", "0"): [5.0, 7.0], ("kjig", "5"): [1.0]}
    summary = summary_of(factors, Measured("", "auc_svm", False, "nested"), values)
    assert summary.mean(Place("points", "nested", "no_selection", "5"), "auc_svm") == Mean(2, 1, 2)
    assert summary.mean(Place("points", "nested", "kjig", "7"), "auc_svm") is None


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
def test_a_mean_is_printed_to_the_digits_that_its_error_leaves(value, error, text: str) -> None:
    assert Mean(value, error, 30).text == text


FOLDER = Path(__file__).parents[2] / "docs/studies"
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")


UNPAIRED = [kind for kind in REPORTS if not REPORTS[kind].factors.is_paired]
"""Pairs of repetitions are in no summary."""


@pytest.mark.parametrize(("kind", "heading"), [("clustering", "Clustering"), ("release", "Tables")])
def test_the_page_has_the_verdict_on_each_claim(kind: str, heading: str) -> None:
    report = REPORTS[kind]
    verdicts: dict[int, dict[str, list[int]]] = {}
    for row in claim_rows(report, Summary.read(report.factors, FOLDER / kind / "summary.csv")):
        claim = verdicts.setdefault(int(str(row["claim"])), {})
        counts = claim.setdefault(str(row["measured_by"]), [0, 0])
        counts[0] += row["held"] == "yes"
        counts[1] += row["outcome"] == "worse"
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = dict(re.findall(r"^\| (\d+) \|(.*)$", section, re.MULTILINE))
    assert len(lines) == len(report.claims)
    for number, counted in verdicts.items():
        shown = re.findall(r"(\d+) / (\d+)", lines[str(number)])
        assert [[int(held), int(contrary)] for held, contrary in shown] == list(counted.values())


@pytest.mark.parametrize("kind", REPORTS)
def test_the_published_summary_is_written_as_it_is_read(kind: str) -> None:
    path = FOLDER / kind / "summary.csv"
    rows = list(summary_rows(Summary.read(REPORTS[kind].factors, path)))
    assert csv_text(list(rows[0]), rows) == path.read_bytes()


@pytest.mark.parametrize("kind", UNPAIRED)
def test_the_published_claims_follow_from_the_summary(kind: str) -> None:
    report, folder = REPORTS[kind], FOLDER / kind
    rows = list(claim_rows(report, Summary.read(report.factors, folder / "summary.csv")))
    assert csv_text(list(rows[0]), rows) == (folder / "claims.csv").read_bytes()


@pytest.mark.parametrize("form", FORMATS)
def test_figures_are_drawn_again_from_the_summary(form: str, tmp_path: Path, monkeypatch):
    monkeypatch.undo()  # the empty pictures of other tests
    summary = (FOLDER / "anonymity/summary.csv").read_text(encoding="utf-8").splitlines()
    few = [line for line in summary if line.startswith(("dataset,", "wdbc,release,"))]
    (tmp_path / "summary.csv").write_text("\n".join(few), encoding="utf-8")
    command = ["draw", "anonymity", str(tmp_path), "--format", form]
    assert CliRunner().invoke(main, command).exit_code == 0
    figure = tmp_path / f"wdbc_homogeneous.{form}"
    first = figure.read_bytes()
    assert first[:5] in (b"\x89PNG\r", b"<?xml", b"%PDF-")
    assert CliRunner().invoke(main, command).exit_code == 0
    assert figure.read_bytes() == first
