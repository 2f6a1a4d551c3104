"""A fit of this week plans from that of last week, which is public: all of ε goes on numbers."""

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from dp_pipeline_tests.estimators.households import copier, refusal
from dp_pipeline_tests.estimators.people import private

SMOOTH = {"smooth": "true"}
RNG = np.random.default_rng(3)
PLACES = RNG.normal([[2.0, 2.0], [8.0, 7.0]], 0.3, (2000, 2, 2)).reshape(-1, 2)
PEOPLE = pd.DataFrame({"smokes": ["no", "yes", "yes", "no"] * 200, "age": [30, 60, 70, 20] * 200})
DOMAIN = {"smokes": ["no", "yes"], "age": {"bounds": [0, 100], "bins": 4, "integer": True}}


kmeans = partial(private, n_clusters=2, bounds=(0, 10))
synthesizer = partial(copier, domain=DOMAIN, on_unknown="keep")


@pytest.mark.parametrize("params", [None, SMOOTH])
def test_planned_centres_spend_all_epsilon_on_leaves(params: Any) -> None:
    last = kmeans().fit(PLACES)
    this = kmeans(plan_from=last, method_params=params, noise="seeded:8").fit(PLACES)
    assert sum(spend.epsilon for spend in this.spends_) == Fraction(1)
    assert [spend.what.split(" ")[0] for spend in this.spends_] == ["counts"]
    middles = np.sort(this.cluster_centers_.round())[np.argsort(this.cluster_centers_[:, 0])]
    assert middles.tolist() == [[2.0, 2.0], [7.0, 8.0]]


def test_tables_are_measured_again_with_all_of_epsilon() -> None:
    last = synthesizer().fit(PEOPLE)
    this = synthesizer(plan_from=last, method_params=SMOOTH, noise="seeded:8").fit(PEOPLE)
    assert sum(spend.epsilon for spend in this.spends_) == Fraction(1)
    assert this.marginal("smokes")["probability"].round(1).tolist() == [0.5, 0.5, 0.0]
    assert len(this.sample(50)) == 50


EUG = {"method": "eug_kmeans"}
NO_FIT = "must be a fitted PrivateKMeans"
OTHER_BOX = "plan_from: the other fit must have a synopsis over the same"
INVALID = [
    (lambda: kmeans(plan_from=kmeans()), NO_FIT),
    (lambda: kmeans(plan_from=synthesizer().fit(PEOPLE)), NO_FIT),
    (lambda: clone(kmeans(plan_from=kmeans().fit(PLACES))), NO_FIT),
    (lambda: kmeans(plan_from=kmeans(bounds=(0, 20)).fit(PLACES)), OTHER_BOX),
    (lambda: kmeans(**EUG, plan_from=kmeans(**EUG).fit(PLACES)), "plans from no other fit"),
    (lambda: kmeans(method_params=SMOOTH), "parameter `smooth` counts the same boxes or tables"),
]


@pytest.mark.parametrize(("make", "line"), INVALID)
def test_invalid_plan_is_refused_before_any_spend(make: Any, line: str) -> None:
    with refusal(match=line):
        make().fit(PLACES)
