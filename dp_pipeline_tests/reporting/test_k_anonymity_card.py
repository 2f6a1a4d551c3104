"""The card of a k-anonymous release: what it says first, with which figures; what it refuses."""

import re
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.metrics.disclosure import DisclosureReport
from dp_pipeline.reporting.metrics import FIGURES
from dp_pipeline.reporting.pages import card as card_of
from dp_pipeline_tests.reporting.samples import (
    MARKUP,
    k_anonymous,
    measures,
    require_no_markup,
    spec,
)

MOST_NAMED = 12
AUCS = {"auc_in_folds": 0.8, "auc_in_folds_with_one_label": 0.9}
SENSITIVE = {"spec": spec(purpose="release"), "allow_not_dp": "yes"}


def test_a_k_of_one_promises_nothing():
    card = card_of(k_anonymous(k=1, measures=measures("aaa", "aab", k=1)))
    assert card.startswith("# NOT DIFFERENTIALLY PRIVATE, NOT k-ANONYMOUS (K = 1)\n")
    assert "- Nothing. K = 1 asks for no size of a class" in card
    assert "in common with" not in card


def test_every_measure_has_a_line_in_plain_words():
    values = measures("aa", "aab")
    card = card_of(k_anonymous(measures={**values, "new_measure": 0.25}))
    assert "| new_measure | 0.250 |" in card
    assert list(values) == [field.name for field in fields(DisclosureReport)]
    for name in values:
        assert re.search(rf"^\| {name}: .+ .+ \| .+ \|$", card, flags=re.MULTILINE), name


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"left_out": [("zebra", 1, 1.0)]}, "must not show labels of suppressed sensitive rows"),
        ({"figures": {"auc": 0.9}}, "The card of squares/kjig at K = 2 must not show figures of"),
        (
            {"diversity": 2, "measures": {**measures("ab", "aab"), **AUCS}},
            "The card of squares/kjig at K = 2 must not show figures of",
        ),
    ],
    ids=["labels", "figures", "a measured figure"],
)
def test_figures_of_sensitive_rows_are_refused(changes, words: str):
    with pytest.raises(BoundaryViolation, match=words) as refusal:
        card_of(k_anonymous(**SENSITIVE, **changes))
    assert "zebra" not in str(refusal.value)


def test_many_columns_are_counted_by_attribute():
    columns = [(f"{n}={at}", n, f"1 where {n} is {at}") for n in "xy" for at in range(MOST_NAMED)]
    few, many = (card_of(k_anonymous(columns=some)) for some in (columns[:2], columns))
    assert "Released: colour; 1 where x is 0; 1 where x is 1." in few
    assert f"24 columns about x ({MOST_NAMED}), y ({MOST_NAMED})." in many
    assert "no column was kept" in card_of(k_anonymous(columns=()))
    # A common rule is written once.
    alike = card_of(k_anonymous(columns=[(name, name, "the level of a row") for name in "xy"]))
    assert "Released: colour; x, y, of each the level of a row." in alike


def test_the_longest_card_fits_on_two_pages():
    columns = [(f"x={index}", f"a{index}", "1 where it is") for index in range(MOST_NAMED)] * 30
    others = ["squares/k_anonymous/kjig at K=5"] * 90
    sensitive = {**SENSITIVE, "attributes": "", "non_dp_releases": others, "suppressed": 270}
    left_out = [(str(index), 3, 0.1) for index in range(90)]
    tried = {"figures": dict.fromkeys(FIGURES, 0.5), "left_out": left_out}
    for changes in (sensitive, tried):
        assert len(card_of(k_anonymous(**changes, columns=columns)).splitlines()) <= 80


@given(st.text(max_size=40) | st.sampled_from(MARKUP))
def test_no_text_becomes_markup(text: str):
    def lines(words: str) -> list[str]:
        facts = dict.fromkeys(("summary", "label", "snapshot", "parameters"), words)
        release = k_anonymous(
            spec=spec(title=words, population=words),
            columns=((words, words, words),) * 2,
            # A word before it: "k" is a measure that every card knows.
            measures={f"new {words}": 1.0, **measures("aa", "aab")},
            left_out=[(words, 1, 0.5)],
            **facts,
        )
        return card_of(release).split("\n")

    require_no_markup(lines(text), lines("x"))


@pytest.mark.parametrize(
    "broken",
    [{"k": 3}, {"diversity": 2}, {"diversity": 3, "measures": measures("ab", "aab")}],
    ids=["a class of two at K = 3", "a class with one label", "two labels for three"],
)
def test_a_card_that_the_measures_contradict_is_refused(broken):
    with pytest.raises(BoundaryViolation, match="a class, but a class has fewer"):
        card_of(k_anonymous(**broken))


def test_a_table_without_rows_keeps_every_promise():
    card_of(k_anonymous(k=5, diversity=2, measures=measures(k=5)))
