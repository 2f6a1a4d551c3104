"""The card of a release with an ε: what it says first, for whom it protects, at what price."""

import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.amounts import Currency
from dp_pipeline.config.domain import Domain
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.export.contents import lines_on_card
from dp_pipeline.ledger import Balance
from dp_pipeline.reporting.metrics import QualityRow
from dp_pipeline.reporting.pages import card, write_report
from dp_pipeline.reporting.releases import ReportedPrivateRelease
from dp_pipeline.results.measurement import NoisyNumber
from dp_pipeline_tests.reporting.samples import (
    HALF,
    MARKUP,
    NOT_DP,
    SEEDED,
    bundle,
    cliques,
    require_no_markup,
    spec,
    spend,
)

SENSITIVE = {"purpose": "release", "ceiling": Fraction(3)}
CENTRES = {"centres": {"x": np.array([1.0, 2.0]), "y": np.array([0.5, 3.0])}}


def release(**changes: Any) -> ReportedPrivateRelease:
    fields: dict[str, Any] = {
        "spec": spec(**changes.pop("spec", SENSITIVE)),
        "bundle": bundle(**changes.pop("bundle", {})),
        "summary": "counts of equal cells",
        "balance": Balance(ceiling=Fraction(3), spent=Fraction("0.7")),
    }
    return ReportedPrivateRelease(**{**fields, **changes})


def part(text: str, heading: str) -> str:
    """What stands below one heading."""
    return text.partition(f"## {heading}\n")[2].partition("\n## ")[0]


def test_card_explains_epsilon_as_a_number():
    times = "no result gets more than 1.65 times as likely (e to the power of ε)"
    pure = card(release())
    assert f"(add/remove), {times}. This holds" in pure
    assert "e^" not in pure
    large = card(release(bundle={"spends": (spend(epsilon=Fraction(6)),)}))
    assert "(add/remove), it bounds little. This" in large
    discovered = card(release(bundle={"facts": {"own_delta": "1/1000000000"}}))
    assert f"{times}, plus a chance of δ = 1e-9. This holds" in discovered


NUMBER = NoisyNumber(12.34, 0.29, "squared data units")


def test_card_has_the_quality_that_was_bought():
    bought = {"quality": {"nicv": NUMBER}, "facts": {"evaluation": "0.25"}}
    good = part(card(release(bundle=bought)), "How good it is")
    message = "Mean squared distance to the nearest released centre (NICV) | 12.3 ± 0.4 |"
    assert f"| {message} squared data units; lower is better |" in good
    assert "The number without noise is within twice that in about 19 of 20 draws." in good
    assert "public rows" not in good
    (line,) = [item for item in lines_on_card(bundle(**bought)) if "12.3" in item]
    assert line in good


def test_a_card_of_public_rows_has_exact_numbers_and_no_other():
    exact = [QualityRow("eug_kmeans", HALF, "ari_label", 0.75, None, "share")]
    good = part(card(release(spec={}, exact=exact)), "How good it is")
    assert "| 0.750 | 1 = the same sets; higher is better |" in good
    assert "Compared with the public rows, without noise." in good
    assert "It was not compared" in part(card(release(spec={})), "How good it is")
    expected = r"The card of squares/eug_kmeans at ε = 0\.5 must not show exact"
    with pytest.raises(BoundaryViolation, match=expected):
        card(release(exact=exact))
    assert "Nobody knows: no evaluation" in part(card(release()), "How good it is")
    assert "How good it is" not in card(release(bundle={"tables": {}}))


def test_card_describes_a_table():
    cells = cliques(("sex, age", -1, ""))
    tables = {"synthetic": {"sex": np.array(["f", "m"])}, "novel": {"a": np.arange(3)}}
    text = card(release(bundle={"tables": {**tables, "cliques": cells}}))
    assert "Columns of the synthetic rows: sex." in text
    assert "Model graph: sex, age (4 cells)." in text
    assert "A synthetic row is no person's row" in text
    assert "| novel | 3 |" in text
    # Without noisy tables on the card, it names none.
    assert "each is drawn from noisy tables, and what" in card(release(bundle={"tables": tables}))


def test_card_explains_centres_at_clipped_edges():
    clipped = release(bundle={"tables": CENTRES})
    message = "Rows outside of the declared bounds of x; y count at the nearer bound"
    assert message in part(card(clipped), "What is in it")
    dropped = [replace(item, on_invalid="drop") for item in clipped.spec.domain]
    spec_of = replace(clipped.spec, domain=Domain(tuple(dropped)))
    assert "nearer bound" not in card(replace(clipped, spec=spec_of))


@pytest.mark.parametrize(
    ("facts", "first", "fitness"),
    [
        (SEEDED, "NOT FOR RELEASE", "seeded:7 noise"),
        (NOT_DP, "NOT DIFFERENTIALLY PRIVATE", ": not differentially private: it reads records."),
        (
            {"composed": "0.75", "reason": "a round is not charged", "releasable": "no"},
            "NOT THE ε THAT WAS ASKED",
            "No, never: costs ε = 0.75, not the nominal 0.5: a round is not charged.",
        ),
    ],
    ids=["seeded", "without ε", "another ε"],
)
def test_unreleasable_card_starts_with_a_warning(facts: dict[str, str], first: str, fitness: str):
    text = card(release(bundle={"facts": facts}, spec={}))
    assert text.startswith(f"# {first}: ")
    assert fitness in part(text, "Cleared for release?")


def test_card_and_report_have_the_same_limits(tmp_path: Path):
    path = write_report(tmp_path / "report.html", level="epsilon", spec=spec(), releases=[])
    report = path.read_text(encoding="utf-8").partition("does not guarantee")[2]
    sentences = part(card(release()), "What it does not guarantee").strip().splitlines()
    assert len(sentences) == 5
    for sentence in sentences[1:]:
        assert sentence.removeprefix("- ") in report


def test_card_has_exact_epsilon_with_evaluation():
    third = Fraction(1, 3)
    spends = (spend(3, third), spend(6, Fraction(1, 6)))
    text = card(release(bundle={"spends": spends, "facts": {"evaluation": "1/6"}}))
    assert "ε = 0.5 exactly, with ε = 1/6 for its private evaluation" in text
    mechanisms = part(text, "How the noise was drawn")
    assert "| discrete Laplace | 3.00 | 1 | 1/3 |" in mechanisms
    assert "the samplers of the OpenDP library" in mechanisms


def test_charges_of_one_scale_are_added_up_and_many_counted():
    text = card(release(bundle={"spends": (spend(10, Fraction(1, 10)),) * 5}))
    assert "| discrete Laplace | 10.0 | 5 | 0.5 |" in text
    spends = tuple(spend(index + 1, Fraction(1, 100)) for index in range(12 + 3))
    assert "and 3 more scales." in card(release(bundle={"spends": spends}))


def test_delta_comes_with_its_meaning():
    delta = Fraction(1, 10**9)
    account = Balance(ceiling=Fraction(1), spent=Fraction(1, 8), currency=Currency(delta))
    paid = {"facts": {"delta": "1e-9", "currency": "pure"}}
    text = card(release(spec={**SENSITIVE, "delta": delta}, bundle=paid, balance=account))
    # The release itself is pure: δ is that of the account.
    assert "chance of δ" not in text
    assert "ε = 0.5 (ρ=0.125) exactly" in text
    assert "at δ=1e-9" in text
    assert "δ" not in card(release())


def test_card_describes_classes():
    claims = np.array(["It is private.", "No class has fewer than 5 rows."])
    tables = {
        "bits": {"bit": np.array(["rooms at least 2"]), "attribute": np.array(["rooms"])},
        "classes": {"class": np.array([0]), "rows": np.array([7])},
        "claims": {"claim": claims, "promised": np.array(["yes", "no"])},
    }
    text = card(release(bundle={"tables": tables}))
    assert "Bits of the classes: rooms at least 2." in text
    limits = part(text, "What it does not guarantee")
    assert "Not guaranteed: No class has fewer than 5 rows." in limits


def test_the_longest_card_fits_on_two_pages():
    names = [f"attribute{index}" for index in range(90)]
    twice = {"attribute": np.repeat(names, 2), "level": np.tile(["f", "m"], 90)}
    cells = np.array([1, *[2] * 90])
    tables = {
        "other": {"a": np.arange(4)},
        "codes": {name: np.array([0]) for name in names},
        "cells": {"noisy_count": np.arange(181)},
        "marginals": {**twice, "probability": np.full(180, 0.5)},
        "measured": {"marginal": np.array(["", *names]), "cells": cells, "deviation": 2.0 * cells},
        "synthetic": {name: np.array(["x"]) for name in names},
        "cliques": cliques(*((name, -1, "") for name in names)),
    }
    many = {name: np.linspace(0, 4, 90) for name in names}
    places = {"centres": {"x": many[names[0]], "y": many[names[1]], **many}}
    parts = {
        "spends": tuple(spend(index + 1, Fraction(1, 1000)) for index in range(90)),
        "quality": {f"misclassified_svm/{name}": NUMBER for name in names},
        "facts": {"evaluation": "0.001"},
    }
    others = ["squares/k_anonymous/kjig at K=5, snapshot 1"] * 90
    for item in (tables, places):
        longest = release(bundle={"tables": item, **parts}, non_dp_releases=others)
        assert len(card(longest).splitlines()) <= 100


def test_card_lists_the_first_centres():
    tables = {**CENTRES, "sizes": {"size": np.array([1203.0, -4.0])}}
    inside = part(card(release(bundle={"tables": tables})), "What is in it")
    assert "| x | y | noisy rows |" in inside
    assert "| 1 | 0.5 | 1,200 |\n| 2 | 3 | -4 |" in inside


@given(st.text(max_size=40) | st.sampled_from(MARKUP))
def test_no_text_becomes_markup(text: str):
    def lines(words: str) -> list[str]:
        facts = dict.fromkeys(("snapshot", "model", "measuring", "noise"), words)
        tables = {"centres": {words: np.array([1.0])}, words: {"a": np.array([words])}}
        named = release(
            spec={**SENSITIVE, "title": words, "population": words},
            bundle={"facts": facts, "tables": tables, "spends": (spend(),)},
            summary=words,
            non_dp_releases=[words],
        )
        return card(named).split("\n")

    require_no_markup(lines(text), lines("x"))


def test_card_starts_with_warnings():
    def with_weights(weights: list[float]) -> str:
        columns = {"x_lower": [0, 2], "x_upper": [2, 4], "y_lower": [0, 0], "y_upper": [4, 4]}
        halves = {name: np.array(item, float) for name, item in columns.items()}
        tables = {**CENTRES, "synopsis": {**halves, "weight": np.array(weights)}}
        return card(release(bundle={"tables": tables}, spec=SENSITIVE | {"nominal_rows": 900}))

    text = with_weights([3.0, -2.0])
    first, second = re.findall("^## (.*)$", text, re.MULTILINE)[:2]
    assert (first, second) == ("What speaks against it", "Whom it protects")
    assert "Few rows: their noisy number is 1 ± 4, less than half of the 900" in part(text, first)
    assert len(text.splitlines()) <= 100
    assert first not in with_weights([500.0, 300.0])
