"""Numbers of rows in regions and around centres, from noisy boxes."""

import numpy as np
import pytest

from dp_pipeline.answers.boxes import OpenClusters, open_clusters
from dp_pipeline.answers.questions import answer_question
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.export.intervals import added_columns
from dp_pipeline.results.clusters import Clusters, Synopsis

ENDS = np.arange(8.0)
TRUE = np.array([90, 40, 10, 0, 0, 20, 60, 80])
CENTRES = np.array([[1.0], [6.5]])
DEVIATION = 4.0


def clustering(weights: np.ndarray) -> Clusters:
    """Eight boxes of width 1, and two centres."""
    lower, noise = ENDS[:, None], np.full(8, DEVIATION)
    return Clusters(("x",), CENTRES, Synopsis(("x",), lower, lower + 1, weights, noise))


def opened(weights: np.ndarray) -> OpenClusters:
    return open_clusters(clustering(weights).tables())


def test_rows_of_regions_and_centres_lie_inside() -> None:
    """Of 600 intervals 30 may fail; more than 48 do so once in 1,000 runs."""
    rng, missed = np.random.default_rng(1), 0
    for _ in range(200):
        clusters = opened(TRUE + rng.normal(0, DEVIATION, 8))
        region = clusters.count("x >= 1 and x < 6")
        first, second = clusters.sizes()
        pairs = [(region, 70), (first, 140), (second, 160)]
        missed += sum(not estimate.low <= true <= estimate.high for estimate, true in pairs)
    assert missed <= 48


def test_part_of_a_box_has_the_error_of_that() -> None:
    clusters = opened(TRUE.astype(float))
    whole, half = clusters.count("x < 1"), clusters.count("x < 0.5")
    assert (whole.value, half.value) == (90, 45)
    assert half.high - half.value > whole.high - whole.value


def test_questions_of_clusters_are_counts_shares_and_sizes() -> None:
    clusters = opened(TRUE.astype(float))
    assert [line["value"] for line in answer_question(clusters, "sizes")] == [140, 160]
    (line,) = answer_question(clusters, "share where x < 4")
    assert line["low"] < 140 / 300 < line["high"]
    for question in ("mean x", "share where x < 4 among x < 5"):
        message = f"'{question}' is one that this release does not answer: write one such as count"
        with pytest.raises(DeclarationError, match=message) as refused:
            answer_question(clusters, question)
        assert "share" not in str(refused.value).partition(" such as ")[2]


@pytest.mark.parametrize("method", ["count", "share"])
def test_condition_on_clusters_that_is_no_text_is_refused(method: str) -> None:
    with pytest.raises(DeclarationError, match="A condition must be a text, not NoneType"):
        getattr(opened(TRUE.astype(float)), method)(None)


def test_an_export_adds_ends_to_boxes_sizes_and_centres() -> None:
    tables = clustering(TRUE.astype(float)).tables()
    assert list(added_columns("synopsis", tables)) == ["low", "high"]
    centres = added_columns("centres", tables)
    assert list(centres) == ["noisy rows", "low", "high", "x_low", "x_high"]
    assert (centres["x_low"] < CENTRES[:, 0]).all()
    assert added_columns("sizes", {"sizes": {"size": np.ones(2)}}) == {}


def test_a_clustering_without_boxes_is_refused() -> None:
    with pytest.raises(DeclarationError, match="must have boxes with the deviation of their noise"):
        open_clusters(Clusters(("x",), CENTRES).tables())
