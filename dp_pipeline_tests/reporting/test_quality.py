"""What noisy answers and public rows say of synthetic rows, by hand and on a page."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from dp_pipeline.config.amounts import PURE
from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import Levels, Names
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.models.tables.one_shot import OneShot
from dp_pipeline.reporting.noisy_answers import MeasuredTable, NoisyAnswers, missing_line
from dp_pipeline.reporting.pages import write_report
from dp_pipeline.reporting.plausibility import NoisyTotal, missing_shares
from dp_pipeline.reporting.quality import (
    NOT_FOR_PUBLICATION,
    ComparedTable,
    LearnedLabel,
    Likeness,
    QualityReport,
    sort_by_distance,
)
from dp_pipeline.reporting.releases import ReportedPrivateRelease
from dp_pipeline.results.bundle import Bundle
from dp_pipeline.results.clusters import LongColumns
from dp_pipeline.results.measurement import NoisyCounts, NoisyMarginal, least_noisy
from dp_pipeline.results.synthetic_table import SyntheticTable
from dp_pipeline_tests.models.contract import run
from dp_pipeline_tests.models.tables import counter_of, dependent_rows, domain_of, table_of
from dp_pipeline_tests.models.test_units import couples, fit
from dp_pipeline_tests.models.test_units import domain as units_domain
from dp_pipeline_tests.reporting.samples import TEN, WRITTEN, bundle, spec

SMOKES = Attribute("smokes", "smokes", "drop", cells=Levels(("no", "yes")))
SEX = Attribute("sex", "sex", "drop", cells=Levels(("f", "m")))
PET = Attribute("pet", "pet", "drop", cells=Levels(("cat", "dog", "none")))
DOMAIN, PEOPLE = Domain((SMOKES, SEX, PET)), Domain((SMOKES, PET))
SURE = NoisyTotal(100.0, 1.0)


def answers(*tables: NoisyCounts, total: NoisyTotal | None = SURE) -> NoisyAnswers:
    return NoisyAnswers(tables, {}, total)


def codes(smokes: list[int], sex: list[int], pet: list[int]) -> dict[str, np.ndarray]:
    return {"smokes": np.array(smokes), "sex": np.array(sex), "pet": np.array(pet)}


HALVES = codes([0, 1] * 5, [0, 1] * 5, [0] * 10)


def compared(rows: dict[str, np.ndarray], *tables: NoisyCounts) -> dict[Names, MeasuredTable]:
    return {table.attributes: table for table in answers(*tables).compare(rows, DOMAIN)}


def test_a_distance_is_that_of_the_shares_of_both():
    only = NoisyCounts(("smokes",), np.array([80, 20]), 0.5)
    assert compared(HALVES, only)["smokes",].distance == pytest.approx(0.3)
    # An empty table counts as uniform.
    empty = {name: column[:0] for name, column in HALVES.items()}
    assert compared(empty, only)["smokes",].distance == pytest.approx(0.3)
    # Rows below their noise are not compared.
    rough = NoisyCounts(("smokes",), np.array([3, 1]), 9.0)
    for total in (NoisyTotal(4.0, 9.0), None):
        assert answers(rough, total=total).compare(HALVES, DOMAIN) == ()


OPEN = Domain(tuple(replace(attribute, nullable=True) for attribute in PEOPLE))
ROUGH = NoisyCounts(("smokes",), np.array([50, 49, 1]), 3.0)


@pytest.mark.parametrize(
    ("shares", "tables", "line"),
    [
        ({}, [ROUGH], ""),
        ({"smokes": 0.25, "pet": 0.006}, [ROUGH], "smokes 25 %, pet 0.6 %"),
        # 1 + 4·3 of 100 rows.
        ({"pet": 0.25, "smokes": 0.0}, [ROUGH], "pet 25 %, at most 13 % in 1 other column"),
        # The mean of two tables has 1/√2 of the noise.
        ({"pet": 0.0, "smokes": 0.0}, [ROUGH, ROUGH], "at most 9.5 % in 2 columns"),
        ({"smokes": 0.0}, [replace(ROUGH, deviation=0.01)], "at most 1 % in 1 column"),
        ({"smokes": 0.0}, [replace(ROUGH, deviation=99.0)], "at most 100 % in 1 column"),
        # Levels are grouped, or not measured: nothing is known of them.
        ({"pet": 0.0}, [ROUGH], "in the synthetic rows less than 0.5 % in 1 column"),
        (
            {"smokes": 0.0},
            [NoisyCounts(("smokes", "pet"), np.ones((2, 4)), 1.0, is_grouped=True)],
            "in the synthetic rows less than 0.5 % in 1 column",
        ),
    ],
)
def test_line_of_missing_cells_says_how_many_noise_may_hide(
    shares: dict[str, float], tables: list[NoisyCounts], line: str
) -> None:
    assert missing_line(shares, answers(*tables), OPEN) == line


def test_line_without_stored_tables_is_of_the_synthetic_rows() -> None:
    line = "pet 25 %, in the synthetic rows less than 0.5 % in 1 other column"
    assert missing_line({"pet": 0.25, "smokes": 0.0}, None, OPEN) == line


@pytest.mark.parametrize("seed", range(4))
def test_missing_cells_that_a_release_drops_are_within_the_bound(seed: int) -> None:
    """A quarter of a column is missing, which noise hides from one_shot."""
    domain, rows = domain_of((5,) * 8, nullable=True), dependent_rows((4,) * 8, 300)
    rows[::4, 3] = domain["x3"].missing_code
    noise, model = SeededNoise(seed), OneShot()
    counter, epsilon = counter_of(domain, rows), Fraction("0.3")
    done = run(model, counter, domain=domain, epsilon=epsilon, distance=3, noise=noise)
    assert missing_shares(domain, table_of(done).tables())["x3"] == 0
    bound = NoisyAnswers.of_table(table_of(done)).most_missing(domain["x3"])
    assert bound is not None
    assert bound >= 0.25


def test_a_column_is_read_from_the_table_with_the_least_noise():
    single = NoisyCounts(("smokes",), np.array([50, 50]), 9.0)
    both = NoisyCounts(("sex", "smokes"), np.array([[20, 30], [30, 20]]), 1.0)
    tables = compared(HALVES, single, both)
    assert set(tables) == {("smokes",), ("sex",), ("smokes", "sex")}
    # Two counts are added up for each level: their noise has a deviation of √2, not of 9.
    assert tables["smokes",].noise < 0.02
    assert tables["smokes", "sex"].distance == pytest.approx(0.3 + 0.3)


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("terms", [1, 2, 6])
def test_noise_distance_is_as_predicted(gaussian: bool, terms: int):
    rng, draws, cells = np.random.default_rng(0), 20_000, 5
    shape = (draws, cells, terms)
    noise = rng.normal(0, 3, shape) if gaussian else rng.laplace(0, 3 / 2**0.5, shape)
    synthetic = np.abs(noise.sum(axis=2)).sum(axis=1) / 2 / 100
    counts = NoisyCounts(("a", "b"), np.zeros((cells, terms), dtype=np.int64), 3.0, gaussian)
    mean, spread = counts.summed(("a",)).noise_distance(100.0)
    assert mean == pytest.approx(synthetic.mean(), rel=0.02)
    assert spread == pytest.approx(synthetic.std(), rel=0.03)


def test_axes_of_a_sum_are_in_the_requested_order():
    table = NoisyCounts(("a", "b", "c"), np.arange(24).reshape(2, 3, 4), 1.0)
    result = least_noisy([table], ("c", "a"), (4, 2))
    assert result.table.tolist() == table.table.sum(axis=1).T.tolist()
    assert result.deviation == pytest.approx(3**0.5)
    assert least_noisy([table], ("c", "a"), (2, 2)) is None


def test_the_model_is_seen_only_beyond_what_noise_explains():
    near = MeasuredTable(("a",), distance=0.13, noise=0.1, spread=0.02)
    distant = MeasuredTable(("a",), distance=0.2, noise=0.1, spread=0.02)
    assert near.model_error == 0
    assert near.cells[3] == "not seen"
    assert distant.model_error == pytest.approx(0.06)
    assert distant.distance_bound == pytest.approx(0.3)
    assert MeasuredTable(("a",), distance=0.9, noise=0.4, spread=0.0).distance_bound == 1.0


def test_noisy_answers_about_the_true_rows_do_not_blame_a_model():
    rng, blamed = np.random.default_rng(1), 0
    rows = {"smokes": rng.integers(0, 2, 500), "pet": rng.integers(0, 3, 500)}
    truth = np.histogram2d(rows["smokes"], rows["pet"], bins=(2, 3))[0]
    for _ in range(200):
        noise = rng.laplace(0, 20, truth.shape).round()
        table = NoisyCounts(("smokes", "pet"), (truth + noise).astype(np.int64), 20 * 2**0.5)
        total = NoisyTotal(500.0, 1.0)
        result = answers(table, total=total).compare(rows, PEOPLE)
        blamed += sum(item.model_error > 0 for item in result)
    # Three tables a draw, of which two deviations leave one in twenty.
    assert 0 < blamed < 60


def test_rows_that_their_answers_do_not_explain_blame_the_model():
    wrong = codes([0] * 10, [0] * 10, [0] * 10)
    pair = NoisyCounts(("smokes", "sex"), np.array([[0, 50], [50, 0]]), 1.0)
    first, *_ = answers(pair).compare(wrong, DOMAIN)
    assert first.attributes == ("smokes", "sex")
    assert first.model_error > 0.9


def test_pairs_that_were_not_measured_are_counted():
    pair = NoisyCounts(("smokes", "sex"), np.full((2, 2), 25), 1.0)
    noisy = answers(pair, NoisyCounts(("pet",), np.array([100, 0, 0]), 1.0))
    assert noisy.count_unmeasured(HALVES) == 2
    report = QualityReport(rows=10, measured=noisy.compare(HALVES, DOMAIN), unmeasured=2)
    assert "2 pairs are in no measured table" in repr(report)


def test_a_release_in_memory_brings_its_own_noise():
    measured = NoisyMarginal(("smokes",), np.array([700, 300]), Fraction(5))
    rows = np.array([[0, 0, 0]] * 7 + [[1, 1, 1]] * 3)
    table = SyntheticTable(DOMAIN.names, rows, (measured,), (), (), DOMAIN, seed=1)
    content = dict(zip(DOMAIN.names, rows.T, strict=True))
    (result,) = NoisyAnswers.of_table(table).compare(content, DOMAIN)
    assert result.distance == pytest.approx(0.0)
    # Two cells, each with a mean |noise| of about 5 of 1,000 rows, and half of the sum.
    assert result.noise == pytest.approx(0.005, rel=0.02)


REPORT = QualityReport(
    rows=10,
    real=20,
    compared=(
        ComparedTable(("b",), 0.5, error=0.1),
        ComparedTable(("a",), 0.125),
        ComparedTable(("a", "b"), 0.75, correlation=-0.25),
    ),
    learned=(LearnedLabel("b", 0.75, 0.5, 1.0, 0.25, 0.625),),
    likeness=Likeness(copies=0.5, twins=0.25, dcr=0.125),
    measured=(MeasuredTable(("<b>",), 0.25, 0.125, 0.0625),),
)


def test_exact_report_starts_with_a_warning():
    title, warning, *lines = repr(REPORT).splitlines()
    assert title == "Quality of 10 synthetic rows against 20 real ones"
    assert warning.strip() == NOT_FOR_PUBLICATION
    for words in (
        "columns: total variation distance 0.312 on average; worst b 0.50 ± 0.10, a 0.125",
        "accuracy 0.750 learned from synthetic rows, 1.00 from real ones, 0.625 by",
        "synthetic rows that equal a real one: 50.0 %",
    ):
        assert words in "\n".join(lines)
    released = QualityReport(rows=10, measured=REPORT.measured)
    assert NOT_FOR_PUBLICATION not in repr(released) + released._repr_html_()
    assert not released.is_exact


def test_names_are_no_markup_in_a_notebook():
    page = REPORT._repr_html_()
    assert NOT_FOR_PUBLICATION in page
    assert "<b>" not in page.replace("<b>Quality", "").replace("<b>What", "")
    assert "&lt;b&gt;" in page
    assert "-0.250" in page


def test_a_frame_has_every_figure_with_what_it_is_of():
    frame = REPORT.to_frame()
    assert list(frame.columns) == ["of", "figure", "value", "deviation"]
    values = frame.set_index(["of", "figure"])["value"]
    assert values["a × b", "distance"] == 0.75
    assert values["a × b", "correlation difference"] == -0.25
    assert values["b", "real auc"] == 0.25
    assert values["all columns", "twins"] == 0.25
    assert frame.loc[frame["figure"] == "noise alone", "deviation"].tolist() == [0.0625]


def test_the_worst_stands_first_and_what_is_no_number_last():
    tables = [ComparedTable((name,), value) for name, value in (("a", 0.1), ("b", float("nan")))]
    result = sort_by_distance([*tables, ComparedTable(("c",), 0.2)])
    assert [item.attributes for item in result] == [("c",), ("a",), ("b",)]


def test_many_tables_fold_all_but_the_first():
    many = tuple(ComparedTable((f"column_{index}",), index / 100) for index in range(30))
    page = QualityReport(rows=1, real=1, compared=sort_by_distance(many))._repr_html_()
    seen, _, folded = page.partition("<details>")
    assert "column_29" in seen
    assert "column_17" not in seen
    assert "column_17" in folded
    assert "the other 18" in page


def test_rows_of_units_are_no_distance_from_exact_answers():
    population, declared = couples(60), units_domain()
    rows = np.array(population)
    owners, sizes = np.unique(rows[:, 0], return_counts=True)
    codes = {"region": rows[:, 1], "age": rows[:, 2], "sex": rows[:, 3]}
    codes["size"] = np.repeat(sizes - 1, sizes)
    assert np.array_equal(np.repeat(owners, sizes), rows[:, 0])
    # Noise is below one in 2^16 of a unit.
    released = fit(population, declared, Fraction(10**9))
    bundle = SimpleNamespace(tables=released.tables(), model_currency=PURE)
    answers = NoisyAnswers.of_bundle(cast(Bundle, bundle), declared)
    distances = {table.attributes: table.distance for table in answers.compare(codes, declared)}
    assert {("age", "age"), ("sex", "sex"), ("region",), ("size",)} <= {*distances}
    # A weight of a third is rounded down.
    assert max(distances.values()) < 1e-4
    apart = codes | {"sex": np.roll(codes["sex"], 1)}
    moved = {table.attributes: table.distance for table in answers.compare(apart, declared)}
    assert moved["sex", "sex"] > 0.1
    nobody = {name: column[:0] for name, column in codes.items()}
    without = {table.attributes: table.distance for table in answers.compare(nobody, declared)}
    # Half of the units have a pair.
    assert without["sex", "sex"] == pytest.approx(0.5 / 2)


TABLES = {
    "codes": {"smokes": np.array([0] * 60 + [1] * 40), "pet": np.array([2] * 100)},
    "measured": {
        "marginal": np.array(["smokes", "smokes, pet"]),
        "cells": np.array([2, 4]),
        "deviation": np.array([1.0, 2.0]),
    },
    "cells": {
        "marginal": np.repeat(["smokes", "smokes, pet"], [2, 4]),
        "cell": np.array([0, 1, 0, 1, 2, 3]),
        "noisy_count": np.array([61, 39, 30, 30, 20, 20]),
    },
    "groups": {
        "attribute": np.array(["pet"] * 3),
        "level": np.array(["cat", "dog", "none"]),
        "group": np.array([0, 1, 1]),
    },
}
"""Nobody was drawn with a pet, where the noisy answers have cats in half of the rows."""
COMPARED = (ComparedTable(("pet",), 0.5), ComparedTable(("smokes", "pet"), 0.625))


def released(tables: Any = TABLES, own: Any = None, **changes: Any) -> ReportedPrivateRelease:
    declared = spec(**{"domain": PEOPLE, **(own or {})})
    output = bundle(tables=tables)
    return ReportedPrivateRelease(spec=declared, bundle=output, state="charged", **changes)


def page(folder: Path, *releases: ReportedPrivateRelease) -> str:
    declared = {"spec": releases[0].spec, "releases": releases, "written": WRITTEN}
    path = write_report(folder / "report.html", level="epsilon", **declared)
    return path.read_text(encoding="utf-8")


def test_tables_over_groups_of_levels_are_compared_over_groups():
    quality = released().quality
    tables = {table.attributes: table for table in quality.measured}
    assert tables["smokes",].distance == pytest.approx(0.01, abs=2e-3)
    assert tables["smokes", "pet"].distance == pytest.approx(0.5, abs=0.01)
    assert tables["smokes", "pet"].model_error > 0.4
    assert tables["pet",].model_error > 0.4
    assert quality.unmeasured == 0


def test_a_column_of_many_rows_is_read_once_for_all_tables():
    read = Counter[str]()

    def batches(name: str) -> Iterator[np.ndarray]:
        read[name] += 1
        yield TABLES["codes"][name]

    codes = LongColumns({name: partial(batches, name) for name in TABLES["codes"]})
    assert released({**TABLES, "codes": codes}).quality == released().quality
    assert read == {"smokes": 1, "pet": 1}


def test_a_page_blames_the_model_where_noise_explains_too_little(tmp_path: Path):
    text = page(tmp_path, released())
    assert "Quality, table by table" in text
    assert "Columns against the real rows" not in text
    assert "smokes × pet" in text
    assert "at least 0.4" in text
    assert "the model is seen in 2 of them" in text
    # Several releases stand in one table and fold.
    text = page(tmp_path, released(), released())
    assert "mean over tables of columns and pairs" in text
    assert text.count("<details><summary>eug_kmeans at ε = 0.5</summary>") == 2
    # Public rows are compared on a page.
    text = page(tmp_path, released(compared=COMPARED))
    assert "Columns against the real rows, the worst first" in text
    assert "0.625" in text


def test_exact_comparison_of_sensitive_rows_is_refused(tmp_path: Path):
    own = {"purpose": "release", "ceiling": TEN}
    assert "Quality, table by table" in page(tmp_path, released(own=own))
    expected = r"The report of squares/eug_kmeans at ε = 0\.5 must not compare"
    with pytest.raises(BoundaryViolation, match=expected):
        page(tmp_path, released(own=own, compared=COMPARED))


@pytest.mark.parametrize("missing", ["codes", "measured", "cells"])
def test_release_without_stored_counts_has_no_quality(missing: str, tmp_path: Path):
    release = released({name: table for name, table in TABLES.items() if name != missing})
    assert release.quality is None
    assert "Quality, table by table" not in page(tmp_path, release)


def test_release_of_other_attributes_has_no_quality():
    other = Domain((Attribute("smokes", "smokes", "drop", cells=Levels(("no", "yes", "?"))),))
    for domain in (other, Domain(())):
        assert released(own={"domain": domain}).quality is None
