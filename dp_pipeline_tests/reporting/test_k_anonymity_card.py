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
from dp_pipeline_tests.reporting.samples import MARKUP, bars, block, k_anonymous, measures, spec

MOST_LINES = 80
MOST_NAMED = 12
RELEASE = {"spec": spec(purpose="release")}
SENSITIVE = {**RELEASE, "allow_not_dp": "yes"}


def limit(text: str, name: str) -> str:
    """The line about one thing that is not promised."""
    (line,) = re.findall(rf"^- \*\*{name}\.\*\* .*$", text, flags=re.MULTILINE)
    return line


def test_card_starts_with_the_missing_guarantee():
    first = card_of(k_anonymous()).splitlines()[0]
    assert first == "# NOT DIFFERENTIALLY PRIVATE: k-anonymous (K = 2)"


def test_a_card_has_its_parts_in_the_order_in_which_they_matter():
    parts = re.findall(r"^## (.*)$", card_of(k_anonymous()), flags=re.MULTILINE)
    assert parts == [
        "What it guarantees",
        "What is in it",
        "Cleared for release?",
        "What it does not guarantee",
        "What was measured on this release",
        "Where it comes from",
    ]


@pytest.mark.parametrize("k", [0, 1])
def test_a_k_that_promises_nothing_is_called_so(k: int):
    card = card_of(k_anonymous(k=k, measures=measures("a", "ab", k=k)))
    assert card.startswith(f"# NOT DIFFERENTIALLY PRIVATE, NOT k-ANONYMOUS (K = {k})\n")
    assert f"- Nothing. K = {k} asks for no size of a class" in card
    assert "in common with" not in card


@pytest.mark.parametrize(("k", "words"), [(2, "at least 1 other."), (3, "at least 2 others.")])
def test_a_promise_of_k_rows_is_k_less_one_others(k: int, words: str):
    card = card_of(k_anonymous(k=k, measures=measures("aaa", "aab", k=k)))
    assert f"has its released columns in common with {words}" in card


def test_diversity_is_promised_only_on_request():
    diverse = card_of(k_anonymous(diversity=2, measures=measures("ab", "aab")))
    assert "Every class has at least 2 different labels (colour)" in diverse
    assert "different labels (colour)" not in card_of(k_anonymous())


def test_limits_come_with_figures_of_the_release():
    card = card_of(k_anonymous())
    assert "40.0 % of the rows (2 of 5) are in such classes" in limit(card, "Homogeneity")
    assert "up to 100 % of a class have the same label" in limit(card, "Guessing")
    assert "with a chance of 50.0 % at most, 40.0 % on average" in limit(card, "Guessing")
    assert "are 0.200 away from those of the table" in limit(card, "Closeness")
    assert "1.67 times as frequent in a class as there" in limit(card, "Closeness")
    assert "choice of 1 column and the sizes of 2 classes are exact" in limit(card, "Membership")
    other = card_of(k_anonymous(measures=measures("ab", "ab")))
    assert "0 % of the rows (0 of 4)" in limit(other, "Homogeneity")
    assert "up to 50.0 % of a class" in limit(other, "Guessing")


def test_every_measure_has_a_line_in_plain_words():
    card = card_of(k_anonymous())
    values = measures("aa", "aab")
    assert list(values) == [field.name for field in fields(DisclosureReport)]
    for name, value in values.items():
        (line,) = re.findall(rf"^\| {name}: (.*) \|$", card, flags=re.MULTILINE)
        words, text = line.rsplit(" | ", 1)
        assert len(words.split()) > 1
        assert text == "–" if math.isnan(value) else text
        assert (text == "no bound") is math.isinf(value)


def test_measure_without_words_has_its_name():
    card = card_of(k_anonymous(measures={**measures("aa", "aab"), "new_measure": 0.25}))
    assert "| new_measure | 0.250 |" in card


def test_earlier_releases_of_sensitive_rows_are_listed():
    earlier = ("squares/k_anonymous/rfka at K=5, snapshot 1", "others/k_anonymous/tree at K=9")
    line = limit(card_of(k_anonymous(**SENSITIVE, non_dp_releases=earlier)), "Two releases")
    assert "Here 2 came before, of population square_people" in line
    assert "rfka at K=5, snapshot 1; others/" in line
    first = limit(card_of(k_anonymous(**SENSITIVE)), "Two releases")
    assert "none was recorded before this one for population square_people" in first
    assert "not listed" in limit(card_of(k_anonymous()), "Two releases")


def test_card_names_population_and_permission():
    assert "Benchmark: the rows are public." in card_of(k_anonymous())
    allowed = card_of(k_anonymous(**SENSITIVE))
    assert "the data set file allows releases without ε (allow_not_dp)" in allowed
    assert "every later card of this population says that there was one" in allowed
    refused = card_of(k_anonymous(**RELEASE))
    assert "nobody allowed this, so it must not leave" in refused


def test_columns_outside_and_the_label_are_listed():
    assert "colour is released and is none of the counted columns; every other attribute" in limit(
        card_of(k_anonymous()), "Columns outside"
    )
    outside = limit(card_of(k_anonymous(attributes="")), "Columns outside")
    assert "2 attributes were not declared as known from elsewhere" in outside
    assert outside.endswith("x; y.**")


def test_suppressed_rows_are_counted_by_label():
    left_out = [("a", 1, 0.125), ("b", 2, 1.0)]
    card = card_of(k_anonymous(left_out=left_out, suppress=Fraction(3, 10)))
    assert "Left out to keep the guarantee: 3 rows, where at most 30 % could be." in card
    assert "By label: a: 1 (12.5 % of them); b: 2 (100 % of them)." in card
    assert "No row was left out." in card_of(k_anonymous())


def test_number_of_suppressed_sensitive_rows_is_exact():
    some = card_of(k_anonymous(**SENSITIVE, suppressed=3, suppress=Fraction(3, 10)))
    assert (
        "- Left out to keep the guarantee: 3 rows, where at most 30 % could be. This number" in some
    )
    none = card_of(k_anonymous(**SENSITIVE))
    assert "- No row was left out. This number is exact." in none
    for card in (some, none):
        assert "This number is exact.\n" in card
        assert "By label" not in card


def test_labels_of_suppressed_sensitive_rows_are_refused():
    text = k_anonymous(**SENSITIVE, left_out=[("zebra", 1, 1.0)])
    with pytest.raises(
        BoundaryViolation, match="must not show labels of suppressed sensitive rows"
    ) as no:
        card_of(text)
    assert "zebra" not in str(no.value)


def test_many_columns_are_counted_by_attribute():
    columns = tuple(
        (f"{name}={index}", name, f"1 where {name} is {index}")
        for name in ("x", "y")
        for index in range(MOST_NAMED)
    )
    few, many = (card_of(k_anonymous(columns=some)) for some in (columns[:2], columns))
    assert "Released: colour; 1 where x is 0; 1 where x is 1." in few
    assert f"24 columns about x ({MOST_NAMED}), y ({MOST_NAMED})." in many
    assert "no column was kept" in card_of(k_anonymous(columns=()))


def test_common_rule_is_written_once():
    columns = tuple((name, name, "the level of a row") for name in ("x", "y"))
    card = card_of(k_anonymous(columns=columns))
    assert "Released: colour; x, y, of each the level of a row." in card


def test_card_has_figures_where_they_exist():
    card = card_of(k_anonymous(figures={"auc": 0.9, "seconds": 0.004}))
    assert f"| {FIGURES['auc'].title} | 0.900 |" in card
    assert "tried with it" not in card_of(k_anonymous())


def test_a_card_of_no_rows_is_a_card():
    card = card_of(k_anonymous(k=0, measures=measures(k=0)))
    assert limit(card, "Homogeneity").endswith("**Here no row was released.**")
    assert "nan" not in card


def test_the_longest_card_fits_on_two_pages():
    columns = tuple((f"x={index}", f"a{index}", "1 where it is") for index in range(MOST_NAMED))
    sensitive = {
        **SENSITIVE,
        "attributes": "",
        "non_dp_releases": ["squares/k_anonymous/kjig at K=5"] * 90,
    }
    longest = k_anonymous(**sensitive, columns=columns * 30, suppressed=270)
    left_out = [(str(index), 3, 0.1) for index in range(90)]
    tried = k_anonymous(
        figures=dict.fromkeys(FIGURES, 0.5), left_out=left_out, columns=columns * 30
    )
    for release in (longest, tried):
        assert len(card_of(release).splitlines()) <= MOST_LINES


@given(st.text(max_size=40) | st.sampled_from(MARKUP))
def test_no_text_becomes_markup(text: str):
    def card(words: str) -> str:
        return card_of(
            k_anonymous(
                spec=spec(title=words, population=words),
                summary=words,
                label=words,
                columns=((words, words, words),) * 2,
                # A word before it: "k" is a measure that every card knows.
                measures={f"new {words}": 1.0, **measures("aa", "aab")},
                left_out=[(words, 1, 0.5)],
                snapshot=words,
                parameters=words,
            )
        )

    written, plain = card(text).split("\n"), card("x").split("\n")
    assert [block(line) for line in written] == [block(line) for line in plain]
    assert not re.search(r"(?<!\\)(?:\\\\)*[<\[`&]", "\n".join(written))
    assert [bars(line) for line in written] == [bars(line) for line in plain]


def test_hostile_words_stay_words():
    card = card_of(k_anonymous(label="<img src=x>![a](b)\n# c"))
    assert r"\<img src=x\>!\[a\](b) # c" in card


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


def test_figures_of_sensitive_rows_are_refused():
    with pytest.raises(
        BoundaryViolation, match="The card of squares/kjig at K = 2 must not show figures of"
    ):
        card_of(k_anonymous(**SENSITIVE, figures={"auc": 0.9}))


def test_what_one_label_would_give_is_of_public_rows_alone():
    diverse = {"diversity": 2, "measures": measures("ab", "aab")}
    assert "(`diversity: 1`) would give is shown of public rows alone." in card_of(
        k_anonymous(**SENSITIVE, **diverse)
    )
    measured = {**diverse["measures"], "auc_in_folds": 0.8, "auc_in_folds_with_one_label": 0.9}
    with pytest.raises(
        BoundaryViolation, match="The card of squares/kjig at K = 2 must not show figures of"
    ):
        card_of(k_anonymous(**SENSITIVE, **{**diverse, "measures": measured}))
