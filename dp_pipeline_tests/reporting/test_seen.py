"""What a picture shows, in words, for whoever does not see it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dp_pipeline.reporting.figures.cluster_view import ClusterView
from dp_pipeline.reporting.figures.picture import encode_png
from dp_pipeline.reporting.figures.seen import (
    MOST_TOLD,
    Noisy,
    Picture,
    cliques_seen,
    k_anonymity_seen,
    maps_seen,
    marginals_seen,
    utility_seen,
    windows_seen,
)
from dp_pipeline.reporting.figures.tables import MOST_PANELS
from dp_pipeline_tests.reporting.samples import HALF, ONE, SQUARE, cliques, exact, marginals
from dp_pipeline_tests.reporting.test_report import Page, written


def test_lines_are_told_by_where_they_begin_and_end():
    rows = [exact("a", HALF, 3.0), exact("a", ONE, 1.0), exact("a", ONE, 2.0), exact("b", ONE, 5.0)]
    assert utility_seen(rows, ["nicv"]) == (
        "NICV over ε, lower is better. a: from 3.00 at ε = 0.5 to 1.50 at ε = 1; b: 5.00 at ε = 1."
    )
    values = {"a": [Noisy("2026-W01", 10.0, 1.0), Noisy("2026-W02", 20.0, 1.0)], "b": []}
    assert windows_seen("Noisy number of rows", values) == (
        "Noisy number of rows over time. a: from 10.0 at 2026-W01 to 20.0 at 2026-W02."
    )
    assert k_anonymity_seen({"kjig": {5: 0.5, 2: 0.75}}, figure="auc") == (
        "AUC over K. kjig: from 0.750 at K = 2 to 0.500 at K = 5."
    )


def test_of_many_lines_the_first_are_told_and_how_many_more_there_are():
    rows = [exact(f"m{at}", ONE, 1.0) for at in range(MOST_TOLD + 2)]
    assert utility_seen(rows, ["nicv"]).endswith("m7: 1.00 at ε = 1; and 2 more.")


def test_shares_are_told_by_the_most_frequent_level_of_each_attribute_of_the_picture():
    tables = {"a": marginals(x=[1, 3], y=[9, 1]), "b": marginals(z=[1, 0])}
    assert marginals_seen(tables) == (
        "Shares of levels of 2 releases. x: most often 1, 75 %; y: most often 0, 90 %; "
        "z: most often 0, 100 %."
    )
    many = {"a": marginals(**{f"x{at}": [1, 3] for at in range(MOST_PANELS + 1)})}
    assert marginals_seen(many, first=MOST_PANELS).endswith(
        f". x{MOST_PANELS}: most often 1, 75 %."
    )


def test_cliques_are_told_with_the_largest_table_first():
    table = cliques(("a, b", -1, ""), ("b, c", 0, "b"))
    table["cells"] = np.array([4, 6000])
    assert cliques_seen(table) == "2 cliques of attributes. b, c: 6,000 cells; a, b: 4 cells."


def test_a_map_is_told_by_its_axes_and_its_largest_centre():
    centres = {"x": np.array([1.0, 3.0]), "y": np.array([2.0, 2.5])}
    sized = {"centres": centres, "sizes": {"size": np.array([7.0, 1234.0])}}
    views = [ClusterView.of("a", sized, SQUARE), ClusterView.of("b", {"centres": centres}, SQUARE)]
    assert maps_seen(views) == (
        "Map of released centres: x runs to the right, y upwards. "
        "a: 2 centres, the largest at x = 3.00, y = 2.50 with 1,230 noisy rows; b: 2 centres."
    )
    strip = ClusterView.of("c", {"centres": {"x": np.array([1.0])}}, SQUARE[:1])
    assert maps_seen([strip]) == "Map of released centres: x runs to the right. c: 1 centres."


def test_what_a_picture_shows_is_its_text_on_the_page(tmp_path: Path):
    png = encode_png(np.zeros((2, 3, 3), dtype=np.uint8))
    text = written(tmp_path, pictures=[Picture("utility", png, "a: from 1 to 2.")])
    (image,) = [attributes for tag, attributes in Page(text).tags if tag == "img"]
    assert image["alt"] == "a: from 1 to 2."
