"""The verdict on a table in words."""

import numpy as np
import pytest

from dp_pipeline.answers.verdict import verdict
from dp_pipeline_tests.answers.releases import tables_of

COUNTS = np.array([[400, 100, 60], [80, 300, 260]])
MARGINS = [(("a",), COUNTS.sum(axis=1), 3.0), (("b",), COUNTS.sum(axis=0), 3.0)]
UNREAD = "do not read relations between other columns from this table."


@pytest.mark.parametrize(
    ("measured", "dependence", "words"),
    [
        ([(("a", "b"), COUNTS, 3.0)], None, "Of 1 pair of columns 1 was measured, and shares"),
        (MARGINS, None, f"Nothing says how far the others are from the truth: {UNREAD}"),
        (MARGINS, {("a", "b"): 600.0}, UNREAD),
        (MARGINS, {("a", "b"): 3.0}, "By noisy scores the others are known to ±0."),
    ],
)
def test_the_verdict_says_what_may_be_read(measured, dependence, words: str) -> None:
    sentences = verdict(tables_of(COUNTS, measured, names="ab", dependence=dependence))
    assert words in " ".join(sentences)
    assert sentences[0].startswith("Shares of single columns are mostly good to ±0.")


@pytest.mark.parametrize(
    ("tables", "reason"),
    [
        ({"codes": {"a": np.zeros(3, int)}}, "its noisy counts are too many to be stored"),
        ({"centres": {"x": np.ones(2)}}, "rounds that move centres store no noise"),
        ({"classes": {"rows": np.ones(2)}}, "the noise of its counts is not stored"),
    ],
)
def test_a_release_says_why_it_has_no_intervals(tables, reason: str) -> None:
    assert verdict(tables) == (f"No interval says how sure these numbers are: {reason}.",)
