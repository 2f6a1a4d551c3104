"""What a fit is worth on rows that its user holds; and what it says of itself without them."""

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.exceptions import NotFittedError

from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import Bins, Coordinate, Levels
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.estimators import PrivateSynthesizer
from dp_pipeline.releases.evaluate import TableComparison
from dp_pipeline.reporting.quality import NOT_FOR_PUBLICATION
from dp_pipeline_tests.estimators.households import METHODS, VILLAGE, copier, refusal
from dp_pipeline_tests.estimators.people import VILLAGES, private, quiet_fit

MANY = pd.concat([VILLAGE] * 200, ignore_index=True)
MANY_PLACES = np.tile(VILLAGES, (200, 1))
NAN = float("nan")


@pytest.fixture(scope="module")
def fitted() -> PrivateSynthesizer:
    return copier(epsilon=100).fit(MANY)


def number(name: str, *edges: float, nullable: bool = False) -> Attribute:
    box = Coordinate(edges[0], edges[-1])
    return Attribute(name, name, "clip", box, Bins(edges), nullable=nullable)


def levels(name: str, *texts: str) -> Attribute:
    return Attribute(name, name, "drop", cells=Levels(texts))


PEOPLE = Domain(
    (levels("smokes", "no", "yes"), number("age", 0, 20, 40, 60), number("rent", 0, 100, 300))
)


def table(*rows: tuple[int, int, int]) -> dict[str, np.ndarray]:
    return dict(zip(PEOPLE.names, np.array(rows).T, strict=True))


REAL = table((0, 0, 0), (0, 0, 0), (1, 1, 1), (1, 2, 1))


def distances(result: TableComparison) -> dict[tuple[str, ...], float]:
    return {table.attributes: table.distance for table in result.compared()}


def test_distances_are_those_that_a_hand_computes():
    other = table((0, 0, 0), (0, 0, 1), (0, 1, 1), (1, 2, 1))
    result = distances(TableComparison(PEOPLE, REAL, other))
    assert result["smokes",] == 0.25
    assert result["age",] == 0.0
    assert result["age", "rent"] == 0.25
    assert result["smokes", "age"] == 0.25
    assert len(result) == 6


def test_table_is_at_distance_zero_from_itself():
    report = TableComparison(PEOPLE, REAL, REAL).report()
    assert {table.distance for table in report.compared} == {0.0}
    assert {table.correlation for table in report.pairs} == {None, 0.0}
    assert report.likeness is not None
    assert vars(report.likeness) == {"copies": 1.0, "twins": 0.5, "dcr": 0.0}


def test_a_correlation_is_that_of_the_middles_of_bins():
    other = table((0, 0, 1), (0, 1, 0), (1, 2, 0), (1, 1, 1))
    pairs = TableComparison(PEOPLE, REAL, other).compared()
    (result,) = (pair for pair in pairs if pair.correlation)
    by_hand = [
        np.corrcoef(
            np.array([10.0, 30.0, 50.0])[rows["age"]], np.array([50.0, 200.0])[rows["rent"]]
        )
        for rows in (other, REAL)
    ]
    assert result.attributes == ("age", "rent")
    assert result.correlation == pytest.approx((by_hand[0] - by_hand[1])[0, 1])


def test_a_missing_number_has_no_part_in_a_correlation():
    domain = Domain((number("age", 0, 20, 40, nullable=True), number("rent", 0, 100, 300)))
    real = {"age": np.array([0, 1, 2, 2]), "rent": np.array([0, 1, 0, 1])}
    other = {"age": np.array([0, 1, 0, 1]), "rent": np.array([0, 1, 0, 1])}
    pairs = TableComparison(domain, real, other).compared()
    (pair,) = (pair for pair in pairs if pair.correlation is not None)
    assert pair.correlation == pytest.approx(0.0)


def test_classifiers_learn_as_much_as_there_is_to_learn():
    rng = np.random.default_rng(0)
    smokes = rng.integers(0, 2, 400)
    real = {"smokes": smokes, "age": smokes * 2, "rent": rng.integers(0, 2, 400)}
    unrelated = {**real, "age": rng.integers(0, 3, 400)}
    good = TableComparison(PEOPLE, real, real).learned_label("smokes")
    assert (good.accuracy, good.auc, good.real_accuracy, good.real_auc) == (1.0, 1.0, 1.0, 1.0)
    assert 0.45 < good.majority < 0.6
    bad = TableComparison(PEOPLE, real, unrelated).learned_label("smokes")
    assert bad.real_accuracy == 1.0
    assert bad.accuracy < 0.9


def test_label_of_several_levels_has_a_classifier_each():
    rng = np.random.default_rng(0)
    age = rng.integers(0, 3, 300)
    rows = {"smokes": (age > 0).astype(int), "age": age, "rent": (age > 1).astype(int)}
    result = TableComparison(PEOPLE, rows, rows).learned_label("age")
    assert (result.accuracy, result.auc) == (1.0, 1.0)
    assert 0.2 < result.majority < 0.5


@pytest.mark.parametrize("label", ["unheard_of", "wide"])
def test_label_that_cannot_be_predicted_is_refused(label: str):
    domain = Domain((levels("wide", *map(str, range(21))), levels("smokes", "no", "yes")))
    rows = {"wide": np.array([0, 1]), "smokes": np.array([0, 1])}
    with pytest.raises(DeclarationError, match="The label must"):
        TableComparison(domain, rows, rows).learned_label(label)


@pytest.mark.chain
@pytest.mark.parametrize("method", METHODS)
def test_every_method_can_be_reported_of(method: str):
    fitted = copier(method=method, epsilon=100).fit(MANY)
    report = fitted.quality_report(MANY, label="tenure")
    assert report.real == 1200
    assert len(report.columns) == 6
    assert len(report.pairs) == 15
    assert max(column.distance for column in report.columns) < 0.1
    assert report.learned[0].real_accuracy == 1.0
    assert NOT_FOR_PUBLICATION in repr(report)
    released = fitted.quality_report()
    assert released.measured == report.measured
    assert not released.is_exact


def test_rows_outside_the_domain_are_excluded(fitted: PrivateSynthesizer):
    strange = pd.concat([MANY, VILLAGE.assign(tenure="unheard of")], ignore_index=True)
    report = fitted.quality_report(strange)
    assert replace(report, left_out=0) == fitted.quality_report(MANY)
    words = f"Left out, as by a fit: {len(VILLAGE)} real rows with a value that is missing"
    assert words in repr(report)
    assert words in report._repr_html_()
    assert "Left out" not in repr(fitted.quality_report(MANY))


@pytest.mark.parametrize("kind", [pl.from_pandas, pa.Table.from_pandas])
def test_real_rows_may_be_a_frame_of_any_kind(fitted: PrivateSynthesizer, kind: Any):
    assert fitted.quality_report(kind(MANY)) == fitted.quality_report(MANY)


def test_a_report_leaves_no_row_in_the_estimator(fitted: PrivateSynthesizer):
    before = pickle.dumps(fitted)
    secret = VILLAGE.assign(heating="a secret of row 271828")
    fitted.quality_report(pd.concat([MANY, secret], ignore_index=True), label="tenure")
    assert pickle.dumps(fitted) == before


def test_report_of_empty_table_has_no_numbers(fitted: PrivateSynthesizer):
    report = fitted.quality_report(MANY[:0], label="tenure")
    assert report.real == 0
    assert np.isnan([table.distance for table in report.compared]).all()
    assert "n/a" in repr(report)


def test_a_report_needs_a_fit_columns_and_rows_for_a_label(fitted: PrivateSynthesizer):
    with pytest.raises(NotFittedError):
        copier().quality_report(MANY)
    with refusal(match="expected a column 'rent' as declared, got the columns "):
        fitted.quality_report(MANY.drop(columns="rent"))
    with refusal(match="label: a label can be evaluated only with real rows: pass"):
        fitted.quality_report(label="tenure")


def test_cost_of_noise_falls_with_epsilon():
    rows, standard = (
        pd.DataFrame({"smokes": ["no", "yes"] * 500}),
        {"domain": {"smokes": ["no", "yes"]}},
    )
    much, little = (
        copier(**standard, epsilon=epsilon).fit(rows).quality_report().cost for epsilon in (0.1, 1)
    )
    assert much.noise == pytest.approx(10 * little.noise, rel=0.3)
    assert (much.seen, little.seen) == (0, 0)


def test_centres_are_compared_with_exact_kmeans():
    report = quiet_fit(private(epsilon=100), MANY_PLACES).quality_report(MANY_PLACES)
    assert report.rows == 1200
    assert report.ratio == pytest.approx(1.0, abs=0.5)
    by_hand = report.nicv / report.floor
    assert report.to_frame().set_index("figure")["value"]["ratio"] == by_hand
    assert NOT_FOR_PUBLICATION in repr(report)
    assert NOT_FOR_PUBLICATION in report._repr_html_()


def test_rows_are_clipped_and_dropped_as_a_fit_has_them():
    fitted = quiet_fit(private(epsilon=100), MANY_PLACES)
    odd = np.array([[1.0, 1.0], [NAN, 1.0], [6.0, 9e9], [6.0, 6.0], [1.0, 2.0]])
    plain = np.array([[1.0, 1.0], [6.0, 8.0], [6.0, 6.0], [1.0, 2.0]])
    assert fitted.quality_report(odd) == fitted.quality_report(plain)
    for rows, words in (
        (np.ones((2, 3)), "columns as in the fit, not"),
        (np.array([[NAN, 1.0]]), "real: at least one row must have no missing number, but every"),
        (np.ones((0, 2)), "but there are no rows: pass other rows"),
    ):
        with refusal(match=words):
            fitted.quality_report(rows)
