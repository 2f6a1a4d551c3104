"""The page of k-anonymous releases: self-contained, escaped, and clear about what it is not."""

import base64
import re
from pathlib import Path

import pytest

from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.reporting.figures import Picture, line_chart
from dp_pipeline.reporting.figures.curves import k_anonymity_panel
from dp_pipeline.reporting.pages import write_report
from dp_pipeline_tests.reporting.samples import TEN, WRITTEN, k_anonymous, measures, spec
from dp_pipeline_tests.reporting.test_report import HOSTILE, Page, require_self_contained

SENSITIVE_SPEC = spec(purpose="release", ceiling=TEN)


def written(folder: Path, **changes) -> str:
    arguments = {"spec": spec(), "releases": [k_anonymous()], "pictures": [], "written": WRITTEN}
    path = write_report(folder / "page.html", level="k", **{**arguments, **changes})
    return path.read_text(encoding="utf-8").replace("> <", "><")


def picture() -> Picture:
    panel = k_anonymity_panel({"kjig": {2: 0.9}}, figure="auc")
    return line_chart([panel], title="t", footnote="f")


def cells(page: str, caption: str) -> dict[str, list[str]]:
    """Row → cells of the table with a caption."""
    table = re.search(rf"<caption>{re.escape(caption)}</caption>(.*?)</table>", page)
    assert table
    rows = re.findall(r"<tr.*?>(.*?)</tr>", table.group(1).partition("<tbody")[2])
    names_and_values = [re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row) for row in rows]
    return {name: values for name, *values in names_and_values}


def test_a_page_is_well_formed_and_asks_nothing_of_the_network(tmp_path):
    pictures = [picture()]
    text = written(tmp_path, releases=[k_anonymous(figures={"auc": 0.9})], pictures=pictures)
    assert "default-src 'none'" in text
    require_self_contained(text)
    (source,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', text)
    assert base64.b64decode(source) == pictures[0].svg


def test_grid_has_a_dash_without_a_release(tmp_path):
    releases = [
        k_anonymous(),
        k_anonymous(k=5, measures=measures("aaabb", k=5)),
        k_anonymous(model="tree", k=5, measures=measures("aaaaa", k=5)),
    ]
    table = cells(written(tmp_path, releases=releases), "Rows in classes with one label")
    assert table == {"kjig": ["40.0 %", "0 %"], "tree": ["–", "100 %"]}


def test_only_releases_with_figures_have_them(tmp_path):
    releases = [k_anonymous(figures={"auc": 0.9, "seconds": 0.25}), k_anonymous(model="tree")]
    text = written(tmp_path, releases=releases)
    caption = "AUC of logistic regression, columns chosen inside each fold; higher is better"
    assert cells(text, caption) == {"kjig": ["0.900"]}
    assert "Other figures" in text
    assert "No figures: none yet" in written(tmp_path)


def test_every_measure_of_every_release_is_on_the_page(tmp_path):
    older = {name: value for name, value in measures("aab", "bba").items() if name != "entropy_l"}
    releases = [k_anonymous(), k_anonymous(k=3, measures=older)]
    table = cells(written(tmp_path, releases=releases), "Measured on the released rows")
    result = {name.partition("<")[0]: values for name, values in table.items()}
    assert list(result) == list(measures("a"))
    assert result["k"] == ["2", "3"]
    assert result["entropy_l"] == ["1.00", "–"]


def test_releases_with_diversity_are_listed(tmp_path):
    diverse = k_anonymous(diversity=2, measures=measures("ab", "aab"))
    text = written(tmp_path, releases=[diverse, k_anonymous(model="tree")])
    assert "every class has: kjig 2 at K = 2. Others guarantee none." in text
    assert "No release guarantees that a class has more than one label." in written(tmp_path)
    nothing = written(tmp_path, releases=[])
    Page(nothing)
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
        ({"figures": {"auc": 0.9}}, "must not show figures of"),
        ({"left_out": [("a", 1, 1.0)]}, "must not show labels of suppressed sensitive rows"),
        ({"pictures": [picture()]}, "must not show pictures of sensitive rows"),
    ],
    ids=["a broken promise", "figures", "labels", "pictures"],
)
def test_a_page_that_must_not_be_is_not_written(changes, message: str, tmp_path):
    if "releases" not in changes:
        own = {name: value for name, value in changes.items() if name != "pictures"}
        release = k_anonymous(spec=SENSITIVE_SPEC, allow_not_dp="yes", **own)
        pictures = changes.get("pictures", [])
        changes = {"spec": SENSITIVE_SPEC, "releases": [release], "pictures": pictures}
    with pytest.raises(BoundaryViolation, match=message):
        written(tmp_path, **changes)
    assert list(tmp_path.iterdir()) == []
