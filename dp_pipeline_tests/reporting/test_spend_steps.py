"""What the charges of a released table were for."""

from dataclasses import replace
from fractions import Fraction

import numpy as np

from dp_pipeline.reporting.releases import (
    EVALUATION,
    ONE_WAYS,
    PAIRS,
    ROWS,
    STRUCTURE,
    TABLES,
    steps_of,
)
from dp_pipeline.results.accountant import GAUSSIAN, LAPLACE, NOISY_MAX, Spend
from dp_pipeline.results.bundle import Bundle
from dp_pipeline.results.measurement import NoisyNumber

TENTH = Fraction(1, 10)


def laplace(kind: str, tenths: int) -> Spend:
    return Spend(kind, LAPLACE, tenths * TENTH, 1, 1 / (tenths * TENTH))


SPENDS = (
    laplace("number of rows", 1),
    laplace("marginal of a", 1),
    laplace("marginal of b", 1),
    laplace("scores of 3 tables", 1),
    Spend("edge 1", NOISY_MAX, TENTH, 1, 2 / TENTH),
    laplace("marginal of a, b", 3),
    laplace("cells of a, b from 4 rows on", 2),
)
TABLE = Bundle(
    key="k",
    facts={"kind": "dp", "evaluation": "none"},
    spends=SPENDS,
    quality={},
    tables={"cliques": {"attributes": np.array(["a, b"])}},
    transcript="chain",
)


def steps_by_name(bundle: Bundle) -> dict[str, tuple[int, Fraction, Fraction]]:
    return {step.name: (step.charges, step.cost, step.share) for step in steps_of(bundle)}


def test_charges_are_added_up_by_what_they_were_for():
    assert steps_by_name(TABLE) == {
        ROWS: (1, TENTH, TENTH),
        ONE_WAYS: (2, 2 * TENTH, 2 * TENTH),
        STRUCTURE: (2, 2 * TENTH, 2 * TENTH),
        TABLES: (2, 5 * TENTH, 5 * TENTH),
    }


def test_pairs_of_parts_of_one_unit_are_a_step_of_their_own():
    with_pairs = replace(TABLE, spends=(*SPENDS, laplace("pairs of persons by age", 1)))
    assert steps_by_name(with_pairs)[PAIRS] == (1, TENTH, Fraction(1, 11))


def test_what_bought_quality_is_a_step_of_its_own():
    bought = (laplace("number of rows", 2), laplace("error of 1 released marginals", 3))
    verdict = replace(
        TABLE,
        facts={"evaluation": "0.5"},
        spends=SPENDS + bought,
        quality={"avd_2": NoisyNumber(0.1, 0.01, "share")},
    )
    steps = steps_by_name(verdict)
    assert steps[ROWS] == (1, TENTH, TENTH / Fraction(3, 2))
    assert steps[EVALUATION] == (2, Fraction(1, 2), Fraction(1, 3))
    assert sum(share for _, _, share in steps.values()) == 1


def test_steps_are_counted_in_what_the_population_pays_in():
    paid = replace(
        TABLE,
        facts={"evaluation": "none", "delta": "0.000000001", "currency": "zcdp"},
        spends=(Spend("marginal of a, b", GAUSSIAN, TENTH, 1, 5 * Fraction(1), "zcdp"), SPENDS[0]),
    )
    steps = steps_by_name(paid)
    assert steps[TABLES][1] == TENTH
    assert sum(cost for _, cost, _ in steps.values()) == paid.spent == TENTH + TENTH**2 / 2


def test_a_release_without_cliques_has_no_steps():
    assert steps_of(replace(TABLE, tables={"centres": {"x": np.zeros(1)}})) == ()
