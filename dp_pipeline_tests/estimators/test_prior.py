"""What is public plans a fit: rows of others in ``fit``, vouched for there, or the fit before."""

import pickle
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
from sklearn.base import clone

from dp_pipeline.estimators import InvalidParameter, PrivateSynthesizer
from dp_pipeline.ledger import Ledger
from dp_pipeline_tests.estimators.households import VILLAGE, copier, refusal
from dp_pipeline_tests.estimators.people import private

LEVELS = [0, 1, 2, 3, 4, 5]
CHAIN = dict.fromkeys("abcdef", LEVELS)


def chain(rows: int, seed: int) -> pd.DataFrame:
    """Columns each of which mostly says again what the one before it says."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, 6, rows)]
    for _ in range(5):
        remaining = rng.random(rows) < 0.8
        columns.append(np.where(remaining, columns[-1], rng.integers(0, 6, rows)))
    return pd.DataFrame(dict(zip(CHAIN, columns, strict=True)))


OWN, OTHERS = chain(600, 1), chain(5_000, 2)


synthesizer = partial(copier, domain=CHAIN, epsilon="0.5")


def distance(fitted: PrivateSynthesizer) -> float:
    """Half the L1 distance of pairs, on average, between synthetic rows and those of the chain."""
    synthetic, distant = fitted.sample(5_000), []
    for first, second in pairwise(CHAIN):
        tables = [pd.crosstab(rows[first], rows[second]) for rows in (synthetic, OWN)]
        shares = [
            table.reindex(index=LEVELS, columns=LEVELS, fill_value=0) / table.to_numpy().sum()
            for table in tables
        ]
        distant.append(float((shares[0] - shares[1]).abs().to_numpy().sum()) / 2)
    return sum(distant) / len(distant)


def test_public_rows_bring_a_release_of_few_rows_nearer_to_them() -> None:
    without = synthesizer().fit(OWN)
    context = synthesizer().fit(OWN, prior=OTHERS)
    assert distance(context) < 0.6 * distance(without)


@pytest.mark.parametrize("delta", [0, "1e-9"])
def test_public_rows_cost_nothing_and_the_fit_all_of_its_epsilon(delta: Any) -> None:
    fitted = synthesizer(delta=delta).fit(OWN, prior=OTHERS)
    single = synthesizer(delta=delta).fit(OWN)
    paid, cold = (sum(spend.epsilon for spend in each.spends_) for each in (fitted, single))
    assert paid == cold
    assert not [spend for spend in fitted.spends_ if "gap" in spend.what]


def test_promise_calls_public_rows_unprotected_after_a_pickle() -> None:
    fitted = synthesizer().fit(OWN, prior=OTHERS)
    again = pickle.loads(pickle.dumps(fitted))
    assert "its public rows are not protected" in repr(again)
    assert fitted.sample(300).equals(again.sample(300))
    assert "public" not in repr(fitted.fit(OWN))


def test_public_rows_of_any_frame_are_the_same() -> None:
    kinds = [OTHERS, pa.table(OTHERS), OTHERS.to_numpy(), OTHERS.assign(more=1)[["more", *CHAIN]]]
    kinds.append(polars.from_pandas(OTHERS))
    tables = [synthesizer().fit(OWN, prior=kind).sample() for kind in kinds]
    assert all(kind.equals(tables[0]) for kind in tables)


def test_public_row_outside_the_domain_is_dropped() -> None:
    odd = OTHERS.astype(object)
    odd.loc[len(odd)] = ["row 271828", *[None] * 5]
    text = synthesizer(on_unknown="error").fit(OWN, prior=odd)
    assert text.sample().equals(synthesizer().fit(OWN, prior=OTHERS).sample())


DISCOVERED = {"domain": "discover", "discover": {"epsilon": "0.1", "delta": 1e-9}}
NAMED = {"method_params": {"prior": "census"}}
PREVIOUS = {"method_params": {"plan_from": "previous"}}
CHOSEN = "OneShot chooses tables by the public rows of `prior`, so"
REFUSED: dict[str, tuple[dict[str, Any], Any, str]] = {
    "a column missing": ({}, OTHERS.drop(columns="c"), "prior: expected a column 'c' as declared"),
    "five columns": ({}, OTHERS.to_numpy()[:, 1:], "prior: the table must have 6 columns"),
    "no table": ({}, "census", "prior: expected two dimensions"),
    "no rows": ({}, OTHERS[:0], "prior: at least one public row must have declared values, but"),
    "other levels": ({}, OTHERS + 10, "prior: at least one public row must have declared values"),
    "the rows themselves": ({}, OWN, "prior: the public rows must be of other persons than X, but"),
    "another method": ({"method": "independent"}, OTHERS, "uses no public rows: leave it out"),
    "rounds": ({"method_params": {"quality": "best_plus"}}, OTHERS, CHOSEN),
    "a fit to plan from": ({"plan_from": synthesizer().fit(OWN)}, OTHERS, CHOSEN),
    "a name": (NAMED, None, "prior must not be among them, as it is set by prior of fit"),
    "the window before": (PREVIOUS, None, "plan_from must not be among them"),
    "columns to discover": (DISCOVERED, OTHERS, "but a, b, c, d, e, f must be discovered: declare"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_prior_is_refused_before_any_noise(case: str) -> None:
    changes, prior, line = REFUSED[case]
    estimator = synthesizer(**changes)
    with pytest.raises(InvalidParameter, match=line) as caught:
        estimator.fit(OWN, prior=prior)
    assert "\n" not in str(caught.value)
    assert not hasattr(estimator, "spends_")


def test_public_rows_keep_constraints_as_all_rows_do() -> None:
    never = {"never": [{"tenure": "owner", "children": "3"}]}
    public = pd.concat([VILLAGE.assign(tenure="owner", children=[0, 1, 3, 3, 2, 1])] * 50)
    synthetic = copier(constraints=never).fit(VILLAGE, prior=public).sample(500)
    assert not ((synthetic["tenure"] == "owner") & (synthetic["children"] == 3)).any()


def test_ledger_stores_the_digest_of_public_rows(ledger: Ledger) -> None:
    paid = synthesizer(population="pure", noise="exact")
    digests = [
        paid.fit(OWN, prior=public) and ledger.entries("pure")[-2].facts["prior"]
        for public in (OTHERS, OTHERS[::-1])
    ]
    assert all(digest.startswith("frame ") for digest in digests)
    assert digests[0] != digests[1]
    assert ledger.balance("pure").spent == 1


SMOOTH = {"smooth": "true"}
RNG = np.random.default_rng(3)
PLACES = RNG.normal([[2.0, 2.0], [8.0, 7.0]], 0.3, (2000, 2, 2)).reshape(-1, 2)
PEOPLE = pd.DataFrame({"smokes": ["no", "yes", "yes", "no"] * 200, "age": [30, 60, 70, 20] * 200})
DOMAIN = {"smokes": ["no", "yes"], "age": {"bounds": [0, 100], "bins": 4, "integer": True}}


kmeans = partial(private, n_clusters=2, bounds=(0, 10))
table = partial(copier, domain=DOMAIN, on_unknown="keep")


@pytest.mark.parametrize("params", [None, SMOOTH])
def test_planned_centres_spend_all_epsilon_on_leaves(params: Any) -> None:
    last = kmeans().fit(PLACES)
    this = kmeans(plan_from=last, method_params=params, noise="seeded:8").fit(PLACES)
    assert sum(spend.epsilon for spend in this.spends_) == Fraction(1)
    assert [spend.what.split(" ")[0] for spend in this.spends_] == ["counts"]
    middles = np.sort(this.cluster_centers_.round())[np.argsort(this.cluster_centers_[:, 0])]
    assert middles.tolist() == [[2.0, 2.0], [7.0, 8.0]]


def test_tables_are_measured_again_with_all_of_epsilon() -> None:
    last = table().fit(PEOPLE)
    this = table(plan_from=last, method_params=SMOOTH, noise="seeded:8").fit(PEOPLE)
    assert sum(spend.epsilon for spend in this.spends_) == Fraction(1)
    assert this.marginal("smokes")["probability"].round(1).tolist() == [0.5, 0.5, 0.0]
    assert len(this.sample(50)) == 50


EUG = {"method": "eug_kmeans"}
NO_FIT = "must be a fitted PrivateKMeans"
OTHER_BOX = "plan_from: the other fit must have a synopsis over the same"
INVALID = [
    (lambda: kmeans(plan_from=kmeans()), NO_FIT),
    (lambda: kmeans(plan_from=table().fit(PEOPLE)), NO_FIT),
    (lambda: clone(kmeans(plan_from=kmeans().fit(PLACES))), NO_FIT),
    (lambda: kmeans(plan_from=kmeans(bounds=(0, 20)).fit(PLACES)), OTHER_BOX),
    (lambda: kmeans(**EUG, plan_from=kmeans(**EUG).fit(PLACES)), "plans from no other fit"),
    (lambda: kmeans(method_params=SMOOTH), "parameter `smooth` counts the same boxes or tables"),
]


@pytest.mark.parametrize(("make", "line"), INVALID)
def test_invalid_plan_is_refused_before_any_spend(make: Any, line: str) -> None:
    with refusal(match=line):
        make().fit(PLACES)
