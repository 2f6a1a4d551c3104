"""What cards and reports say, word by word; how long cards get, and what they refuse."""

import re
from collections.abc import Callable
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.metrics.disclosure import DisclosureReport
from dp_pipeline.reporting.pages import card
from dp_pipeline.reporting.releases import ReportedRelease
from dp_pipeline.results.measurement import NoisyNumber
from dp_pipeline_tests.reporting.golden_pages import DEARER, GOLDEN, golden_texts
from dp_pipeline_tests.reporting.samples import (
    HALF,
    MARKUP,
    cliques,
    exact,
    k_anonymous,
    measures,
    release,
    require_no_markup,
    spec,
    spend,
)

MOST_NAMED = 12
SENSITIVE = spec(purpose="release", ceiling=Fraction(3))
ALLOWED = {"spec": SENSITIVE, "allow_not_dp": "yes"}
EXACT = [exact("eug_kmeans", HALF, 0.75, "ari_label")]
AUCS = {"auc_in_folds": 0.8, "auc_in_folds_with_one_label": 0.9}


def part(text: str, heading: str) -> str:
    """What stands below one heading."""
    return text.partition(f"## {heading}\n")[2].partition("\n## ")[0]


def test_a_card_of_public_rows_has_exact_numbers():
    good = part(card(release(exact=EXACT)), "How good it is")
    assert "| 0.750 | 1 = the same sets; higher is better |" in good
    assert "Compared with the public rows, without noise." in good
    assert "Nobody knows: no evaluation" in part(card(release(spec=SENSITIVE)), "How good it is")
    assert "How good it is" not in card(release(tables={}))


def test_centres_of_dropped_rows_are_at_no_clipped_edge():
    dropped = Domain(tuple(replace(item, on_invalid="drop") for item in SENSITIVE.domain))
    assert "nearer bound" in card(release(spec=SENSITIVE))
    assert "nearer bound" not in card(release(spec=replace(SENSITIVE, domain=dropped)))


def test_a_card_of_another_epsilon_starts_with_a_warning():
    text = card(release(**DEARER))
    assert text.startswith("# NOT THE ε THAT WAS ASKED: ")
    fitness = "No, never: costs ε = 0.75, not the nominal 0.5: a round is free."
    assert fitness in part(text, "Cleared for release?")


def test_a_k_of_one_promises_nothing():
    text = card(k_anonymous(k=1, measures=measures("aaa", "aab", k=1)))
    assert text.startswith("# NOT DIFFERENTIALLY PRIVATE, NOT k-ANONYMOUS (K = 1)\n")
    assert "- Nothing. K = 1 asks for no size of a class" in text
    assert "in common with" not in text


def test_every_measure_has_a_line_in_plain_words():
    values = measures("aa", "aab")
    text = card(k_anonymous(measures={**values, "new_measure": 0.25}))
    assert "| new_measure | 0.250 |" in text
    assert list(values) == [field.name for field in fields(DisclosureReport)]
    for name in values:
        assert re.search(rf"^\| {name}: .+ .+ \| .+ \|$", text, flags=re.MULTILINE), name


def test_many_columns_are_counted_by_attribute():
    columns = [(f"{n}={at}", n, f"1 where {n} is {at}") for n in "xy" for at in range(MOST_NAMED)]
    few, many = (card(k_anonymous(columns=some)) for some in (columns[:2], columns))
    assert "Released: colour; 1 where x is 0; 1 where x is 1." in few
    assert f"24 columns about x ({MOST_NAMED}), y ({MOST_NAMED})." in many
    assert "no column was kept" in card(k_anonymous(columns=()))
    # A common rule is written once.
    alike = card(k_anonymous(columns=[(name, name, "the level of a row") for name in "xy"]))
    assert "Released: colour; x, y, of each the level of a row." in alike


EXACT_OF = r"The card of squares/eug_kmeans at ε = 0\.5 must not show exact"
FIGURES_OF = "The card of squares/kjig at K = 2 must not show figures of"
FEWER = "a class, but a class has fewer"
DIVERSE = measures("ab", "aab")
REFUSED: dict[str, tuple[Callable[..., ReportedRelease], dict[str, Any], str]] = {
    "exact": (release, {"spec": SENSITIVE, "exact": EXACT}, EXACT_OF),
    "labels": (
        k_anonymous,
        {**ALLOWED, "left_out": [("zebra", 1, 1.0)]},
        "must not show labels of",
    ),
    "figures": (k_anonymous, {**ALLOWED, "figures": {"auc": 0.9}}, FIGURES_OF),
    "a measured figure": (k_anonymous, {**ALLOWED, "measures": {**DIVERSE, **AUCS}}, FIGURES_OF),
    "a class of two at K = 3": (k_anonymous, {"k": 3}, FEWER),
    "one label": (k_anonymous, {"diversity": 2}, FEWER),
    "two labels for three": (k_anonymous, {"diversity": 3, "measures": DIVERSE}, FEWER),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_card_that_must_not_be_is_refused(case: str):
    make, changes, words = REFUSED[case]
    with pytest.raises(BoundaryViolation, match=words) as refusal:
        card(make(**changes))
    assert "zebra" not in str(refusal.value)


def test_a_table_without_rows_keeps_every_promise():
    card(k_anonymous(k=5, diversity=2, measures=measures(k=5)))


def test_the_longest_private_card_fits_on_two_pages():
    names = [f"attribute{index}" for index in range(90)]
    twice = {"attribute": np.repeat(names, 2), "level": np.tile(["f", "m"], 90)}
    cells = np.array([1, *[2] * 90])
    table = {
        "other": {"a": np.arange(4)},
        "codes": {name: np.array([0]) for name in names},
        "cells": {"noisy_count": np.arange(181)},
        "marginals": {**twice, "probability": np.full(180, 0.5)},
        "measured": {"marginal": np.array(["", *names]), "cells": cells, "deviation": 2.0 * cells},
        "synthetic": {name: np.array(["x"]) for name in names},
        "cliques": cliques(*((name, -1, "") for name in names)),
    }
    number = NoisyNumber(12.34, 0.29, "squared data units")
    parts = {
        "spec": SENSITIVE,
        "spends": tuple(spend(index + 1, Fraction(1, 1000)) for index in range(90)),
        "quality": {f"misclassified_svm/{name}": number for name in names},
        "evaluation": "0.001",
        "non_dp_releases": ["squares/k_anonymous/kjig at K=5, snapshot 1"] * 90,
    }
    centres = {name: np.linspace(0, 4, 90) for name in ("x", "y", *names)}
    for tables in (table, {"centres": centres}):
        assert len(card(release(tables=tables, **parts)).splitlines()) <= 100


def test_the_longest_card_of_classes_fits_on_two_pages():
    columns = [(f"x={index}", f"a{index}", "1 where it is") for index in range(MOST_NAMED)] * 30
    others = ["squares/k_anonymous/kjig at K=5"] * 90
    sensitive = {**ALLOWED, "attributes": "", "non_dp_releases": others, "suppressed": 270}
    left_out = [(str(index), 3, 0.1) for index in range(90)]
    for changes in (sensitive, {"left_out": left_out}):
        assert len(card(k_anonymous(**changes, columns=columns)).splitlines()) <= 80


def private_card(words: str) -> str:
    """A card that has these words wherever a text may stand."""
    return card(
        release(
            spec=replace(SENSITIVE, title=words, population=words),
            tables={"centres": {words: np.array([1.0])}, words: {"a": np.array([words])}},
            summary=words,
            non_dp_releases=[words],
            **dict.fromkeys(("snapshot", "model", "measuring", "noise"), words),
        )
    )


def card_of_classes(words: str) -> str:
    return card(
        k_anonymous(
            spec=spec(title=words, population=words),
            columns=((words, words, words),) * 2,
            # A word before it: "k" is a measure that every card knows.
            measures={f"new {words}": 1.0, **measures("aa", "aab")},
            left_out=[(words, 1, 0.5)],
            **dict.fromkeys(("summary", "label", "snapshot", "parameters"), words),
        )
    )


@pytest.mark.parametrize("card_with", [private_card, card_of_classes])
@given(text=st.text(max_size=40) | st.sampled_from(MARKUP))
def test_no_text_becomes_markup(card_with: Callable[[str], str], text: str):
    require_no_markup(card_with(text).split("\n"), card_with("x").split("\n"))


TEXTS = dict(golden_texts())


def test_every_golden_text_is_that_of_a_page():
    assert {path.name for path in GOLDEN.iterdir()} == set(TEXTS)


@pytest.mark.parametrize("name", TEXTS)
def test_page_equals_its_golden_text(name: str):
    assert TEXTS[name] == (GOLDEN / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", TEXTS)
def test_no_template_leaves_a_gap_in_a_sentence(name: str):
    for line in TEXTS[name].splitlines():
        assert not re.search(r" [.,;:](\s|$)|\( | \)|,\w|(?<!0)\.\.|;;", line), line
