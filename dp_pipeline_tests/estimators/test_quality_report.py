"""What a fit is worth on rows that its user holds; and plots that can be read off again."""

import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.exceptions import NotFittedError

from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import Bins, Coordinate, Levels
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.estimators import PrivateSynthesizer, plot_map, plot_marginals, plot_pairs
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
    rows, domain = pd.DataFrame({"smokes": ["no", "yes"] * 500}), {"smokes": ["no", "yes"]}
    fits = (copier(domain=domain, epsilon=epsilon).fit(rows) for epsilon in (0.1, 1))
    much, little = (fit.quality_report().cost for fit in fits)
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


mpl.use("Agg")


@pytest.fixture(autouse=True)
def no_figure_stays_open():
    yield
    from matplotlib import pyplot as plt

    plt.close("all")


DRAWN = pd.DataFrame({"pet": ["cat", "cat", "dog", None], "age": [1.0, 2.0, 2.0, 2.0]})
TRUE = pd.DataFrame({"pet": ["cat", "cow", "dog", "dog"], "age": [1.0, 1.0, 1.0, 9.0]})


def bars(axes: Any) -> dict[str, float]:
    """Label → length of its bar."""
    labels = [label.get_text() for label in axes.get_yticklabels()]
    return dict(zip(labels, [bar.get_width() for bar in axes.patches], strict=True))


def test_bars_are_shares_of_synthetic_rows_and_dots_of_real_ones():
    pet, age = plot_marginals(DRAWN, TRUE)
    assert bars(pet) == {"cat": 0.5, "dog": 0.25, "other": 0.0, "missing": 0.25}
    assert pet.lines[0].get_xdata().tolist() == [0.25, 0.5, 0.25, 0.0]
    assert bars(age) == {"1": 0.25, "2": 0.75}
    assert age.lines[0].get_xdata().tolist() == [0.75, 0.25]
    alone = plot_marginals(DRAWN, columns=["pet"])
    assert bars(alone) == {"cat": 0.5, "dog": 0.25, "missing": 0.25}
    assert not alone.lines


def test_bins_and_levels_are_those_of_the_synthetic_rows():
    pets = [f"pet {index}" for index in range(100)]
    synthetic = pd.DataFrame({"age": np.arange(100.0), "pet": pets})
    real = pd.DataFrame({"age": [-1e9, 1e9], "pet": ["a secret", "another"]})
    age, pet = plot_marginals(synthetic, real)
    assert age.patches[0].get_width() == 0.05
    assert age.lines[0].get_xdata()[[0, -1]].tolist() == [0.5, 0.5]
    labels = [label.get_text() for label in pet.get_yticklabels()]
    assert not {"a secret", "another"} & set(labels)
    assert pet.lines[0].get_xdata()[-1] == 1.0


@pytest.mark.parametrize("kind", [pl.from_pandas, lambda frame: frame])
def test_frames_of_any_library_are_plotted(kind: Any):
    pet, _ = plot_marginals(kind(DRAWN), kind(TRUE))
    assert bars(pet)["cat"] == 0.5


def test_a_square_is_the_distance_of_a_pair():
    axes = plot_pairs(DRAWN, TRUE)
    # cat 1 | cat 2 | dog 2 | missing 2 against cat 1 | cow 1 | dog 1 | dog 9, which is as 2.
    assert axes.images[0].get_array().tolist() == [[0.5]]


def test_without_real_rows_a_square_is_how_much_a_pair_depends():
    same = pd.DataFrame({"a": [0, 0, 1, 1], "b": ["x", "x", "y", "y"], "c": [0, 1, 0, 1]})
    result = plot_pairs(same).images[0].get_array()
    assert result[0, 0] == pytest.approx(1.0)
    assert result[1].tolist() == [0.0, 0.0]
    assert result.mask[0, 1]


DAYS = pd.Series(pd.date_range("2025-01-01", periods=100))


@pytest.mark.parametrize(
    "days",
    [DAYS, DAYS.dt.date, DAYS.dt.tz_localize("Europe/Zurich"), DAYS.astype("date32[pyarrow]")],
    ids=["pandas", "dates", "zone", "arrow"],
)
def test_dates_are_plotted_in_bins_of_days(days: Any):
    axes = plot_marginals(pd.DataFrame({"day": days}), pd.DataFrame({"day": days[:5]}))
    assert [bar.get_width() for bar in axes.patches] == [0.05] * 20
    assert axes.lines[0].get_xdata().tolist() == [1.0] + [0.0] * 19
    assert axes.get_yticklabels()[0].get_text() == "from 2025-01-01"


def test_few_dates_and_times_have_a_bar_each():
    texts = ["2025-01-02", "2025-01-03 12:30", None, "2025-01-02"]
    moments = pd.to_datetime(texts, format="ISO8601")
    assert bars(plot_marginals(pd.DataFrame({"at": moments}))) == {
        "2025-01-02": 0.5,
        "2025-01-03 12:30": 0.25,
        "missing": 0.25,
    }


def test_other_dates_are_distant():
    synthetic = pd.DataFrame({"day": DAYS, "pet": "cat"})
    real = pd.DataFrame({"day": DAYS[:50], "pet": "cat"})
    assert plot_pairs(synthetic, real).texts[0].get_text() == "0.50"


def test_bins_hold_equally_many_integers():
    ages = pd.DataFrame({"age": np.arange(18, 92)})
    axes = plot_marginals(ages, columns="age")
    shares = [bar.get_width() for bar in axes.patches]
    assert shares[:-1] == [4 / 74] * 18
    assert axes.get_yticklabels()[0].get_text() == "18 to 21"


def test_bins_of_numbers_close_together_have_different_labels():
    places = pd.DataFrame({"lat": np.linspace(47.331, 47.4725, 1000)})
    labels = [item.get_text() for item in plot_marginals(places).get_yticklabels()]
    assert labels[0] == "47.331 to 47.338"
    for label in labels:
        low, high = label.split(" to ")
        assert float(low) < float(high)


def test_missing_and_other_bars_are_always_labelled():
    incomes, towns = np.linspace(0.5, 99.5, 90), [f"town {index % 30}" for index in range(99)]
    rows = {"income": [*incomes, *[None] * 10], "town": [*towns, None]}
    income, place_name = plot_marginals(pd.DataFrame(rows))
    assert [label.get_text() for label in income.get_yticklabels()][-1] == "missing"
    assert income.get_yticks()[-1] == 20
    assert [label.get_text() for label in place_name.get_yticklabels()][-2:] == ["other", "missing"]


@pytest.mark.parametrize("rows", [0, 1])
def test_few_rows_are_plotted(rows: int):
    plot_marginals(DRAWN[:rows], TRUE[:rows])
    plot_pairs(DRAWN[:rows])


@pytest.mark.parametrize("d", [1, 2, 3])
def test_map_draws_centres_and_rows_on_passed_axes(d: int):
    from matplotlib import pyplot as plt

    rows = np.tile(VILLAGES, (50, 1))[:, np.arange(d) % 2]
    fitted = quiet_fit(private(), rows)
    _, argument = plt.subplots()
    axes = plot_map(fitted, rows, ax=argument)
    assert axes is argument
    assert len(axes.lines[0].get_xdata()) == 300
    synthetic = np.concatenate([collection.get_offsets() for collection in axes.collections[-2:]])
    assert sorted(synthetic[:, 0]) == pytest.approx(sorted(fitted.cluster_centers_[:, 0]))
    assert axes.get_xlabel() == "x0"


@pytest.mark.chain
def test_matplotlib_is_imported_lazily():
    code = "import sys, dp_pipeline as dp; dp.plot_map; print('matplotlib' in sys.modules)"
    command = [sys.executable, "-c", code]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "False"


FITTED = quiet_fit(private(), VILLAGES)
WRONG_TYPES: list[tuple[dict[str, Any], str]] = [
    ({"columns": 1.5}, "columns: the frame of synthetic rows has no column 1.5: choose from"),
    ({"columns": pd.NA}, "columns: the frame of synthetic rows has no column <NA>: choose"),
    ({"columns": [["pet"]]}, "columns: the frame of synthetic rows has no column"),
    ({"synthetic": None}, "synthetic: expected two dimensions, .* got NoneType"),
    *(({"ax": ax}, "ax: expected .*, got") for ax in (1.5, "pet", pd.NA, [])),
]
REFUSED: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (plot_marginals, {"columns": ["shoe"]}, "no column 'shoe': choose from pet, age"),
    (plot_marginals, {"columns": []}, "columns: a plot takes 1 to"),
    (plot_marginals, {"columns": ["pet", "pet"]}, "different columns, but 'pet' is repeated"),
    (plot_marginals, {"ax": object()}, "ax: expected one column to draw on it, got 2"),
    (plot_marginals, {"columns": "pet", "ax": "a"}, "ax: expected matplotlib's axes, got"),
    (plot_marginals, {"real": TRUE[["age"]]}, "has no column 'pet': choose from age"),
    (plot_pairs, {"columns": ["pet"]}, "a plot of pairs needs at least two columns, got 1"),
    (plot_marginals, {"synthetic": copier().fit(VILLAGE)}, "must be a frame, not a PrivateS"),
    *((plot, *case) for plot in (plot_marginals, plot_pairs) for case in WRONG_TYPES),
    (plot_map, {"kmeans": DRAWN}, "kmeans: the value must be a fitted PrivateKMeans, not"),
    (plot_map, {"kmeans": FITTED, "real": np.ones((2, 3))}, "columns as in the fit, not"),
    *((plot_map, {"kmeans": FITTED, "ax": ax}, "ax: expected matplotlib's") for ax in (1.5, [])),
]


@pytest.mark.parametrize(("plot", "arguments", "words"), REFUSED)
def test_what_cannot_be_plotted_is_refused(plot: Any, arguments: dict[str, Any], words: str):
    standard = {} if plot is plot_map else {"synthetic": DRAWN}
    with refusal(match=words):
        plot(**{**standard, **arguments})
