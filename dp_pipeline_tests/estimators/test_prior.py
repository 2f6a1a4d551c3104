"""Public rows of others say which tables a fit measures: told in ``fit``, and vouched for there."""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone

from dp_pipeline.estimators import InvalidParameter, PrivateSynthesizer
from dp_pipeline.ledger import Ledger
from dp_pipeline_tests.estimators.households import VILLAGE, copier

LEVELS = [0, 1, 2, 3, 4, 5]
CHAIN = dict.fromkeys("abcdef", LEVELS)


def chain(rows: int, seed: int) -> pd.DataFrame:
    """Columns each of which mostly says again what the one before it says."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, 6, rows)]
    for _ in range(5):
        kept = rng.random(rows) < 0.8
        columns.append(np.where(kept, columns[-1], rng.integers(0, 6, rows)))
    return pd.DataFrame(dict(zip(CHAIN, columns, strict=True)))


OWN, OTHERS = chain(600, 1), chain(5_000, 2)


def synthesizer(**changes: Any) -> PrivateSynthesizer:
    standard = {"domain": CHAIN, "epsilon": "0.5", "noise": "seeded:7", "random_state": 0}
    return PrivateSynthesizer(**{**standard, **changes})


def distance(fitted: PrivateSynthesizer) -> float:
    """Half the L1 distance of pairs, on average, between synthetic rows and those of the chain."""
    drawn, far = fitted.sample(5_000), []
    for one, other in pairwise(CHAIN):
        tables = [pd.crosstab(each[one], each[other]) for each in (drawn, OWN)]
        shares = [
            table.reindex(index=LEVELS, columns=LEVELS, fill_value=0) / table.to_numpy().sum()
            for table in tables
        ]
        far.append(float((shares[0] - shares[1]).abs().to_numpy().sum()) / 2)
    return sum(far) / len(far)


def test_public_rows_bring_a_release_of_few_rows_nearer_to_them() -> None:
    without = synthesizer().fit(OWN)
    beside = synthesizer().fit(OWN, prior=OTHERS)
    assert distance(beside) < 0.6 * distance(without)


@pytest.mark.parametrize("delta", [0, "1e-9"])
def test_public_rows_cost_nothing_and_the_fit_all_of_its_epsilon(delta: Any) -> None:
    fitted = synthesizer(delta=delta).fit(OWN, prior=OTHERS)
    alone = synthesizer(delta=delta).fit(OWN)
    paid, cold = (sum(one.epsilon for one in each.spends_) for each in (fitted, alone))
    assert paid == cold
    assert not [one for one in fitted.spends_ if "gap" in one.what]


def test_a_fit_beside_public_rows_says_that_these_are_not_protected() -> None:
    fitted = synthesizer().fit(OWN, prior=OTHERS)
    assert "its public rows are not protected" in repr(fitted)
    assert "public" not in repr(fitted.fit(OWN))


def test_public_rows_of_any_kind_of_frame_are_the_same_public_rows() -> None:
    kinds = [OTHERS, pa.table(OTHERS), OTHERS.to_numpy(), OTHERS.assign(more=1)[["more", *CHAIN]]]
    tables = [synthesizer().fit(OWN, prior=one).sample() for one in kinds]
    assert all(one.equals(tables[0]) for one in tables)


def test_public_rows_of_polars_are_read_too() -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed: it is in extra test")
    told = synthesizer().fit(OWN, prior=polars.from_pandas(OTHERS)).sample()
    assert told.equals(synthesizer().fit(OWN, prior=OTHERS).sample())


def test_rows_are_drawn_anew_beside_the_same_public_rows_after_a_pickle_too() -> None:
    fitted = synthesizer().fit(OWN, prior=OTHERS)
    again = pickle.loads(pickle.dumps(fitted))
    assert fitted.sample(300).equals(again.sample(300))


def test_a_public_row_that_does_not_fit_is_left_out() -> None:
    odd = OTHERS.astype(object)
    odd.loc[len(odd)] = ["row 271828", *[None] * 5]
    told = synthesizer(on_unknown="error").fit(OWN, prior=odd)
    assert told.sample().equals(synthesizer().fit(OWN, prior=OTHERS).sample())


DISCOVERED = {"domain": "discover", "discover": {"epsilon": "0.1", "delta": 1e-9}}
REFUSED: dict[str, tuple[dict[str, Any], Any, str]] = {
    "a column missing": ({}, OTHERS.drop(columns="c"), r"prior: expected a column 'c' as declared"),
    "columns of another number": ({}, OTHERS.to_numpy()[:, 1:], "prior: expected 6 columns"),
    "no table": ({}, "census", "prior: expected two dimensions"),
    "no rows": ({}, OTHERS[:0], "prior: expected public rows with declared values, got none"),
    "other levels": ({}, OTHERS + 10, "prior: expected public rows with declared values"),
    "the rows themselves": ({}, OWN, "prior: expected public rows of others, got X itself"),
    "another method": (
        {"method": "independent"},
        OTHERS,
        r"prior: expected none for a method that uses no public rows \(one_shot does\), got one",
    ),
    "rounds": ({"method_params": {"quality": "best_plus"}}, OTHERS, "expected no `quality`"),
    "a fit to plan from": (
        {"plan_from": synthesizer().fit(OWN)},
        OTHERS,
        "expected no `plan_from` beside it",
    ),
    "a name": ({"method_params": {"prior": "census"}}, None, "no prior: it is set by prior of fit"),
    "the window before": (
        {"method_params": {"plan_from": "previous"}},
        None,
        "no plan_from: it is set by plan_from, got one",
    ),
    "columns to discover": (DISCOVERED, OTHERS, "prior: expected declared columns"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_prior_is_refused_in_one_line_before_anything_is_drawn(case: str) -> None:
    changes, prior, line = REFUSED[case]
    estimator = synthesizer(**changes)
    with pytest.raises(InvalidParameter, match=line) as caught:
        estimator.fit(OWN, prior=prior)
    assert "\n" not in str(caught.value)
    assert not hasattr(estimator, "spends_")


def test_a_clone_has_no_public_rows_and_a_parameter_is_none_of_them() -> None:
    fitted = synthesizer().fit(OWN, prior=OTHERS)
    assert "prior" not in fitted.get_params()
    assert not [name for name in vars(clone(fitted)) if name.endswith("_")]


def test_public_rows_keep_constraints_as_all_rows_do() -> None:
    never = {"never": [{"tenure": "owner", "children": "3"}]}
    public = pd.concat([VILLAGE.assign(tenure="owner", children=[0, 1, 3, 3, 2, 1])] * 50)
    drawn = copier(constraints=never).fit(VILLAGE, prior=public).sample(500)
    assert not ((drawn["tenure"] == "owner") & (drawn["children"] == 3)).any()


def test_the_ledger_is_told_which_public_rows_were_used(ledger: Ledger) -> None:
    paid = synthesizer(population="pure", noise="exact")
    told = [
        paid.fit(OWN, prior=one) and ledger.entries("pure")[-2].facts["prior"]
        for one in (OTHERS, OTHERS[::-1])
    ]
    assert all(one.startswith("frame ") for one in told)
    assert told[0] != told[1]
    assert ledger.balance("pure").spent == 1
