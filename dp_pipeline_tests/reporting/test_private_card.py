"""The card of a release with an ε: what it says first, for whom it protects, at what price."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.ledger import Balance
from dp_pipeline.reporting.metrics import QualityRow
from dp_pipeline.reporting.pages import card
from dp_pipeline.reporting.releases import ReportedPrivateRelease
from dp_pipeline.results.measurement import NoisyNumber
from dp_pipeline_tests.reporting.golden_pages import DEARER
from dp_pipeline_tests.reporting.samples import (
    HALF,
    MARKUP,
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


NUMBER = NoisyNumber(12.34, 0.29, "squared data units")


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


def test_centres_of_dropped_rows_are_at_no_clipped_edge():
    clipped = release(bundle={"tables": CENTRES})
    dropped = Domain(tuple(replace(item, on_invalid="drop") for item in clipped.spec.domain))
    of_dropped = replace(clipped, spec=replace(clipped.spec, domain=dropped))
    assert "nearer bound" in card(clipped)
    assert "nearer bound" not in card(of_dropped)


def test_a_card_of_another_epsilon_starts_with_a_warning():
    text = card(release(bundle={"facts": DEARER}, spec={}))
    assert text.startswith("# NOT THE ε THAT WAS ASKED: ")
    fitness = "No, never: costs ε = 0.75, not the nominal 0.5: a round is free."
    assert fitness in part(text, "Cleared for release?")


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
