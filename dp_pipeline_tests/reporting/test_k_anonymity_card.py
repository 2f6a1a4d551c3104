"""The card of a k-anonymous release: what it says first, with which figures; what it refuses."""

import math
import re
from dataclasses import fields
from fractions import Fraction

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


def test_number_of_suppressed_sensitive_rows_is_exact():
    some = card_of(k_anonymous(**SENSITIVE, suppressed=3, suppress=Fraction(3, 10)))
    assert "Left out to keep the guarantee: 3 rows, where at most 30 % could be. This n" in some
    none = card_of(k_anonymous(**SENSITIVE))
    assert "- No row was left out. This number is exact." in none
    for card in (some, none):
        assert "This number is exact.\n" in card
        assert "By label" not in card
        (line,) = re.findall(r"^- \*\*Two releases\.\*\* .*$", card, flags=re.MULTILINE)
        assert "none was recorded before this one for population square_people" in line


@pytest.mark.parametrize("k", range(4))
def test_a_promise_of_k_rows_is_k_less_one_others(k: int):
    card = card_of(k_anonymous(k=k, measures=measures("aaa", "aab", k=k)))
    if k < 2:
        assert card.startswith(f"# NOT DIFFERENTIALLY PRIVATE, NOT k-ANONYMOUS (K = {k})\n")
        assert f"- Nothing. K = {k} asks for no size of a class" in card
        assert "in common with" not in card
    else:
        words = {2: "at least 1 other.", 3: "at least 2 others."}[k]
        assert f"has its released columns in common with {words}" in card


def test_every_measure_has_a_line_in_plain_words():
    values = measures("aa", "aab")
    card = card_of(k_anonymous(measures={**values, "new_measure": 0.25}))
    assert "| new_measure | 0.250 |" in card
    assert list(values) == [field.name for field in fields(DisclosureReport)]
    for name, value in values.items():
        (line,) = re.findall(rf"^\| {name}: (.*) \|$", card, flags=re.MULTILINE)
        words, text = line.rsplit(" | ", 1)
        assert len(words.split()) > 1
        assert text == "–" if math.isnan(value) else text
        assert (text == "no bound") is math.isinf(value)


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


def test_card_has_figures_where_they_exist():
    card = card_of(k_anonymous(figures={"auc": 0.9, "seconds": 0.004}))
    assert f"| {FIGURES['auc'].title} | 0.900 |" in card
    assert "tried with it" not in card_of(k_anonymous())


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


def test_a_card_promises_what_the_measures_just_keep():
    card_of(k_anonymous(k=2, diversity=2, measures=measures("ab", "aab")))
    card_of(k_anonymous(k=5, diversity=2, measures=measures(k=5)))


def test_what_one_label_would_give_is_of_public_rows_alone():
    card = card_of(k_anonymous(**SENSITIVE, diversity=2, measures=measures("ab", "aab")))
    assert "(`diversity: 1`) would give is shown of public rows alone." in card
