"""What the plots draw: shares and distances that can be read off the axes again."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pytest

from dp_pipeline.estimators import plot_map, plot_marginals, plot_pairs
from dp_pipeline_tests.estimators.households import VILLAGE, copier, refusal
from dp_pipeline_tests.estimators.people import VILLAGES, private, quiet_fit

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
