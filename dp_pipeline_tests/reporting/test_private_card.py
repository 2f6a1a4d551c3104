"""The card of a release with an ε: what it says first, for whom it protects, at what price."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.ledger import Balance
from dp_pipeline.release.accountant import LAPLACE, Spend
from dp_pipeline.release.bundle import Bundle
from dp_pipeline.reporting.card import MOST_MECHANISMS, PrivateRelease, private_card
from dp_pipeline.reporting.promise import NOT_PROMISED, promise
from dp_pipeline.spec.amounts import Currency
from dp_pipeline.spec.domain import RowsOfPerson
from dp_pipeline_tests.reporting.samples import HALF, cliques, spec

MOST_LINES = 80
SENSITIVE = {"purpose": "release", "ceiling": Fraction(3)}
CENTRES = {"centres": {"x": np.array([1.0, 2.0]), "y": np.array([0.5, 3.0])}}
FACTS = {
    "dataset": "squares",
    "model": "eug_kmeans",
    "epsilon": "0.5",
    "evaluation": "none",
    "snapshot": "2026-11-21",
    "replicate": "0",
    "measuring": '{"cells": "4"}',
    "postprocessing": '{"k": "2"}',
    "noise": "opendp",
    "fit_for_release": "yes",
    "code": "dp_pipeline 0.1.0 abc",
}


def spend(scale: int = 2, epsilon: Fraction = HALF) -> Spend:
    return Spend("grid of 4 cells an axis over x, y", LAPLACE, epsilon, 1, Fraction(scale))


def bundle(**changes: Any) -> Bundle:
    """A release of two centres at ε = 0.5."""
    fields: dict[str, Any] = {
        "key": "ab" * 32,
        "facts": {**FACTS, **changes.pop("facts", {})},
        "spends": (spend(),),
        "quality": {},
        "tables": CENTRES,
        "transcript": "cd" * 32,
    }
    return Bundle(**{**fields, **changes})


def release(**changes: Any) -> PrivateRelease:
    fields: dict[str, Any] = {
        "spec": spec(**changes.pop("spec", SENSITIVE)),
        "bundle": bundle(**changes.pop("bundle", {})),
        "summary": "counts of equal cells",
        "balance": Balance(ceiling=Fraction(3), spent=Fraction("0.7")),
    }
    return PrivateRelease(**{**fields, **changes})


def part(card: str, heading: str) -> str:
    """What stands below one heading."""
    return card.partition(f"## {heading}\n")[2].partition("\n## ")[0]


def test_a_card_begins_with_what_the_release_is():
    first = private_card(release()).splitlines()[0]
    assert first == "# DIFFERENTIALLY PRIVATE: squares/eug_kmeans at ε = 0.5"


@pytest.mark.parametrize(
    ("facts", "first", "fitness"),
    [
        ({"noise": "seeded:7", "fit_for_release": "no"}, "NOT FOR RELEASE", "seeded:7 noise"),
        (
            {
                "kind": "not-dp",
                "composed": "none",
                "reason": "records leave",
                "fit_for_release": "no",
            },
            "NOT DIFFERENTIALLY PRIVATE",
            "No, never: not differentially private: records leave.",
        ),
        (
            {"composed": "0.75", "reason": "a round is not charged", "fit_for_release": "no"},
            "NOT THE ε THAT WAS ASKED",
            "No, never: costs ε = 0.75, not the nominal 0.5: a round is not charged.",
        ),
    ],
    ids=["seeded", "without ε", "another ε"],
)
def test_what_may_not_leave_says_so_first(facts: dict[str, str], first: str, fitness: str):
    card = private_card(release(bundle={"facts": facts}, spec={}))
    assert card.startswith(f"# {first}: ")
    assert fitness in part(card, "May it leave?")


def test_a_release_without_epsilon_promises_nobody_anything():
    facts = {"kind": "not-dp", "reason": "records leave", "fit_for_release": "no"}
    card = private_card(release(bundle={"facts": facts}, spec={}))
    protects = part(card, "Whom it protects")
    assert "Nobody: not differentially private: records leave." in protects
    assert "no ε bounds what it tells" in protects
    assert "times as likely" not in card


def test_a_seeded_release_says_that_it_protects_nobody_before_anything_else():
    facts = {"noise": "seeded:7", "fit_for_release": "no"}
    lines = part(private_card(release(bundle={"facts": facts}, spec={})), "Whom it protects")
    assert lines.strip().startswith("- Nobody yet")


def test_a_card_has_its_parts_in_the_order_in_which_they_matter():
    assert re.findall(r"^## (.*)$", private_card(release()), flags=re.MULTILINE) == [
        "Whom it protects",
        "What is in it",
        "How the noise was drawn",
        "May it leave?",
        "What it is not",
        "Where it comes from",
    ]


def test_unit_and_neighbours_are_those_of_the_report():
    declared = {**SENSITIVE, "protection": RowsOfPerson("rider", 20), "relation": "add_remove"}
    protects = part(private_card(release(spec=declared)), "Whom it protects")
    assert "all rows with the same rider, of which at most 20 are used" in protects
    assert "any one person is missing or added (add/remove)" in protects
    assert "any one person is missing or added (add/remove)" in promise(spec(**declared))


def test_what_is_not_promised_is_what_the_report_does_not_promise():
    card = private_card(release())
    for words in NOT_PROMISED:
        assert words in card
        assert words in promise(spec())


def test_epsilon_is_told_exactly_with_what_bought_the_quality_numbers():
    third = Fraction(1, 3)
    spends = (spend(3, third), spend(6, Fraction(1, 6)))
    card = private_card(release(bundle={"spends": spends, "facts": {"evaluation": "1/6"}}))
    assert "ε = 0.5 exactly, with ε = 1/6 for its quality numbers" in card
    mechanisms = part(card, "How the noise was drawn")
    assert "| discrete Laplace | 3.00 | 1 | 1/3 |" in mechanisms
    assert "the samplers of the OpenDP library" in mechanisms


def test_charges_of_one_scale_are_added_up():
    tenth = Fraction(1, 10)
    card = private_card(release(bundle={"spends": (spend(10, tenth),) * 5}))
    assert "| discrete Laplace | 10.0 | 5 | 0.5 |" in card


def test_many_scales_are_counted():
    part_of = Fraction(1, 100)
    spends = tuple(spend(at + 1, part_of) for at in range(MOST_MECHANISMS + 3))
    assert "and 3 more scales." in private_card(release(bundle={"spends": spends}))


def test_all_that_was_ever_drawn_from_the_population_is_told():
    card = private_card(release())
    assert "population square_people, added up when this card was written: ε=0.7; the" in card
    assert "the ceiling is ε=3" in card
    unlimited = Balance(ceiling=None, spent=Fraction(1))
    assert "no ceiling is declared" in private_card(release(balance=unlimited))


def test_what_was_released_beside_it_without_epsilon_is_told():
    beside = ["squares/k_anonymous/kjig at K=5, snapshot 1"]
    card = private_card(release(beside=beside))
    assert "Also released of the same rows without any ε, which no sum covers: squares/k" in card
    assert "without any ε" not in private_card(release())


def test_a_delta_stands_beside_what_it_bounds():
    delta = Fraction(1, 10**9)
    currency = Currency(delta)
    paid = {"delta": "1e-9", "currency": "pure"}
    account = Balance(ceiling=Fraction(1), spent=Fraction(1, 8), currency=currency)
    card = private_card(
        release(spec={**SENSITIVE, "delta": delta}, bundle={"facts": paid}, balance=account)
    )
    assert "by more than δ more likely where a δ stands beside the ε" in card
    assert "ε = 0.5 (ρ=0.125) exactly" in card
    assert "at δ=1e-9" in card
    assert "δ" not in private_card(release())


def test_parameters_are_told_in_words():
    facts = {"measuring": '{"columns": [], "cells": "4"}', "postprocessing": "{}"}
    card = private_card(release(bundle={"facts": facts}))
    origin = part(card, "Where it comes from")
    assert "Parameters: columns: all; cells: 4. Without a further look: none\n" in origin


def test_centres_are_told_by_their_columns_and_are_no_persons():
    card = private_card(release())
    assert "Centres in x; y." in part(card, "What is in it")
    assert "| centres: one line a centre, in the units of the data | 2 |" in card
    assert "A centre is no person's place" in part(card, "What it is not")


def test_a_table_is_told_by_its_columns_and_cliques_and_its_rows_are_no_persons():
    tables = {
        "synthetic": {"sex": np.array(["f", "m"])},
        "cliques": cliques(("sex, age", -1, "")),
    }
    card = private_card(release(bundle={"tables": tables}))
    assert "Columns of the synthetic rows: sex." in card
    assert "Model graph: sex, age (4 cells)." in card
    assert "A synthetic row is no person's row" in card


def test_classes_are_told_by_their_bits_and_what_is_not_promised_of_them():
    tables = {
        "bits": {"bit": np.array(["rooms at least 2"]), "attribute": np.array(["rooms"])},
        "classes": {"class": np.array([0]), "rows": np.array([7])},
        "claims": {
            "claim": np.array(["It is private.", "No class has fewer than 5 rows."]),
            "promised": np.array(["yes", "no"]),
        },
    }
    card = private_card(release(bundle={"tables": tables}))
    assert "Bits of the classes: rooms at least 2." in card
    assert "Not promised: No class has fewer than 5 rows." in part(card, "What it is not")


def test_an_unknown_table_is_named_without_words():
    card = private_card(release(bundle={"tables": {"novel": {"a": np.arange(3)}}}))
    assert "| novel | 3 |" in card


def test_the_longest_card_fits_on_two_pages():
    names = [f"attribute{at}" for at in range(90)]
    tables = {name: {"a": np.arange(4)} for name in ("codes", "groups", "other")}
    tables |= {
        "cells": {"noisy_count": np.arange(4)},
        "marginals": {"attribute": np.array(["x"]), "probability": np.ones(1)},
        "measured": {"cells": np.array([1, 3]), "deviation": np.array([2.0, 2.0])},
        "synthetic": {name: np.array(["x"]) for name in names},
        "cliques": cliques(*((name, -1, "") for name in names)),
    }
    spends = tuple(spend(at + 1, Fraction(1, 1000)) for at in range(90))
    beside = ["squares/k_anonymous/kjig at K=5, snapshot 1"] * 90
    longest = release(bundle={"tables": tables, "spends": spends}, beside=beside)
    assert len(private_card(longest).splitlines()) <= MOST_LINES
    many = {name: np.linspace(0, 4, 90) for name in names}
    places = {"centres": {"x": many[names[0]], "y": many[names[1]], **many}}
    of_places = release(bundle={"tables": places, "spends": spends}, beside=beside)
    assert len(private_card(of_places).splitlines()) <= MOST_LINES


def test_a_card_lists_the_first_centres_with_the_noisy_rows_of_each():
    tables = {**CENTRES, "sizes": {"size": np.array([1203.0, -4.0])}}
    inside = part(private_card(release(bundle={"tables": tables})), "What is in it")
    assert "| x | y | noisy rows |" in inside
    assert "| 1 | 0.5 | 1,200 |\n| 2 | 3 | -4 |" in inside


def test_the_same_release_and_account_give_the_same_card():
    assert private_card(release()) == private_card(release())


@given(st.text(max_size=40))
def test_no_text_becomes_markup(text: str):
    def card(words: str) -> str:
        facts = {"snapshot": words, "model": words, "measuring": words}
        return private_card(
            release(
                spec={**SENSITIVE, "title": words, "lineage": words},
                bundle={"facts": facts, "tables": {"centres": {words: np.array([1.0])}}},
                summary=words,
                beside=[words],
            )
        )

    written = card(text)
    assert len(written.split("\n")) == len(card("x").split("\n"))
    assert not re.search(r"(?<!\\)(?:\\\\)*[<\[`&]", written.replace("&#124;", ""))


def test_a_card_says_before_anything_else_what_speaks_against_the_release():
    tables = {**CENTRES, "synopsis": boxes(weights=[3.0, -2.0])}
    card = private_card(release(bundle={"tables": tables}, spec=SENSITIVE | {"nominal_rows": 900}))
    first, second = re.findall("^## (.*)$", card, re.MULTILINE)[:2]
    assert (first, second) == ("What speaks against it", "Whom it protects")
    assert "Few rows: their noisy number is 1 ± 4, less than half of the 900" in part(card, first)
    assert len(card.splitlines()) <= MOST_LINES


def test_a_card_of_a_plausible_release_has_no_such_heading():
    tables = {**CENTRES, "synopsis": boxes(weights=[500.0, 300.0])}
    card = private_card(release(bundle={"tables": tables}, spec=SENSITIVE | {"nominal_rows": 900}))
    assert "What speaks against it" not in card


def boxes(*, weights: list[float]) -> dict[str, np.ndarray]:
    """Two halves of the square."""
    columns = {"x_lower": [0, 2], "x_upper": [2, 4], "y_lower": [0, 0], "y_upper": [4, 4]}
    return {
        name: np.array(one, dtype=float) for name, one in {**columns, "weight": weights}.items()
    }
