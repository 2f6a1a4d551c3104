"""The page of k-anonymous releases: self-contained, escaped, and clear about what it is not."""

from pathlib import Path

import pytest

from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.reporting.figures import Picture, line_chart
from dp_pipeline.reporting.figures.curves import k_anonymity_panel
from dp_pipeline.reporting.pages import write_report
from dp_pipeline_tests.reporting.samples import TEN, WRITTEN, k_anonymous, measures, spec
from dp_pipeline_tests.reporting.test_report import HOSTILE, Page, require_self_contained

SENSITIVE = spec(purpose="release", ceiling=TEN)


def written(folder: Path, **changes) -> str:
    arguments = {"spec": spec(), "releases": [k_anonymous()], "pictures": [], "written": WRITTEN}
    path = write_report(folder / "page.html", level="k", **{**arguments, **changes})
    return path.read_text(encoding="utf-8").replace("> <", "><")


def picture() -> Picture:
    panel = k_anonymity_panel({"kjig": {2: 0.9}}, figure="auc")
    return line_chart([panel], title="t", footnote="f")


def test_a_page_is_well_formed_and_asks_nothing_of_the_network(tmp_path):
    require_self_contained(written(tmp_path, releases=[k_anonymous(figures={"auc": 0.9})]))
    nothing = written(tmp_path, releases=[])
    require_self_contained(nothing)
    assert "Nothing has been released yet." in nothing


def test_every_hostile_text_is_escaped(tmp_path):
    release = k_anonymous(
        **dict.fromkeys(("model", "summary", "label"), HOSTILE),
        columns=[(HOSTILE, HOSTILE, HOSTILE)],
        measures={**measures("aa", "aab"), HOSTILE: 1.0},
    )
    hostile = spec(**dict.fromkeys(("name", "title", "description", "population"), HOSTILE))
    text = written(tmp_path, spec=hostile, releases=[release], non_dp_releases=[HOSTILE])
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "img" not in {tag for tag, _ in Page(text).tags}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"releases": [k_anonymous(k=3)]}, "must show 3 rows a class"),
        ({"spec": SENSITIVE, "releases": [], "pictures": [picture()]}, "must not show pictures of"),
    ],
    ids=["a broken promise", "pictures"],
)
def test_a_page_that_must_not_be_is_not_written(changes, message: str, tmp_path):
    with pytest.raises(BoundaryViolation, match=message):
        written(tmp_path, **changes)
    assert list(tmp_path.iterdir()) == []
