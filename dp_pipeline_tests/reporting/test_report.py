"""The HTML report: self-contained, escaped, honest."""

import base64
import re
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Literal

import pytest
from jinja2 import DictLoader, UndefinedError

from dp_pipeline.config.domain import Protection
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.releases.release import code_version
from dp_pipeline.reporting import pages, rendering
from dp_pipeline.reporting.figures.curves import utility_panels
from dp_pipeline.reporting.figures.lines import line_chart
from dp_pipeline.reporting.figures.picture import Picture, new_figure
from dp_pipeline.reporting.metrics import QualityRow
from dp_pipeline.reporting.pages import write_report
from dp_pipeline.reporting.releases import Standing
from dp_pipeline.results.accountant import LAPLACE, Spend
from dp_pipeline_tests.reporting.samples import (
    HALF,
    NOT_DP,
    ONE,
    SEEDED,
    TEN,
    WRITTEN,
    bought,
    exact,
    k_anonymous,
    measures,
    release,
    spec,
)

SENSITIVE = spec(purpose="release", ceiling=TEN)
HOSTILE = "<script>alert('x')</script>\"&'><img src=x onerror=y>"
MOST_OPEN = 12
"""Releases that a page lists without a click."""


class Page(HTMLParser):
    """Tags and their attributes; fails when an element is closed that is not open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "link", "img", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def written(folder: Path, level: Literal["epsilon", "k"] = "epsilon", **changes) -> str:
    own = {"releases": [k_anonymous()]}
    if level == "epsilon":
        rows = [exact("eug_kmeans", HALF, 1.5), exact("eug_kmeans", ONE, 1.25)]
        own = {"releases": [release()], "rows": rows}
    path = folder / "report.html"
    write_report(path, level=level, **{"spec": spec(), "written": WRITTEN, **own, **changes})
    return path.read_text(encoding="utf-8").replace("> <", "><")


def picture(rows: Sequence[QualityRow] = (), title: str = "t") -> Picture:
    return line_chart(utility_panels(rows, ["nicv"]), title=title, footnote="f")


def require_self_contained(text: str) -> list[tuple[str, dict[str, str | None]]]:
    """Fail if a page asks anything of the network or runs a script; return its tags."""
    assert "default-src 'none'" in text
    assert not re.search(r"https?:|url\(|@import|//\w", re.sub(r"base64,[\w+/=]+", "", text))
    tags = Page(text).tags
    for tag, attributes in tags:
        assert tag not in {"script", "iframe", "object", "embed", "form"}
        assert not any(name.startswith("on") for name in attributes)
        for name in ("src", "href"):
            assert (attributes.get(name) or "data:").startswith(("data:", "#"))
    return tags


def test_a_report_is_one_well_formed_page_of_its_own(tmp_path):
    text = written(tmp_path, pictures=[picture([exact("a", ONE, 1.0)])])
    names = {tag for tag, _ in require_self_contained(text)}
    assert text.startswith("<!doctype html>")
    assert {"main", "h1", "table", "caption", "thead", "tbody", "figure", "details"} <= names
    assert "prefers-color-scheme: dark" in text
    assert "width=device-width" in text
    require_self_contained(written(tmp_path, "k", pictures=[picture()]))


@pytest.mark.chain
def test_a_report_carries_its_pictures_with_what_they_show(tmp_path):
    displayed = picture([exact("a", ONE, 1.0)])
    text = written(tmp_path, pictures=[displayed])
    (image,) = [attributes for tag, attributes in Page(text).tags if tag == "img"]
    address, _, data = (image["src"] or "").partition(",")
    assert address == "data:image/svg+xml;base64"
    assert base64.b64decode(data) == displayed.svg
    assert image["alt"] == displayed.alt_text


def test_picture_has_no_link_and_no_script():
    text = picture([exact("a", ONE, 1.0)]).svg.decode()
    addresses = re.findall(r'(?:href|src)="([^"]*)"', text) + re.findall(r"url\(([^)]*)\)", text)
    assert all(addresse.startswith(("#", "data:image/png")) for addresse in addresses)
    assert not re.search(r"<script|@import|\son\w+=", text)


def test_tall_pictures_are_in_one_column(tmp_path):
    wide, high = (Picture("a", new_figure(*size), "a") for size in ((3, 2), (2, 3)))
    layouts = []
    for pictures in ([wide, wide], [wide, high]):
        tags = Page(written(tmp_path, pictures=pictures)).tags
        classes = [attributes.get("class") or "" for tag, attributes in tags if tag == "div"]
        layouts += [classe for classe in classes if classe.startswith("pictures")]
    assert layouts == ["pictures", "pictures large"]


@pytest.mark.parametrize("many", [MOST_OPEN, MOST_OPEN + 1])
def test_many_releases_are_listed_by_a_click(many: int, tmp_path):
    text = written(tmp_path, releases=[release(model=f"model_{index}") for index in range(many)])
    assert text.count("<details>") == many + (2 if many > MOST_OPEN else 0)
    assert (f"All {many} releases" in text) is (many > MOST_OPEN)
    assert all(f"model_{index}" in text for index in range(many))


def test_every_hostile_text_is_escaped(tmp_path):
    hostile_release = release(
        **dict.fromkeys(("model", "evaluation", "state", "snapshot", "noise"), HOSTILE),
        releasable="no",
        spends=(Spend(HOSTILE, HOSTILE, HALF, 1, Fraction(2)),),
    )
    texts = dict.fromkeys(("name", "title", "description", "population"), HOSTILE)
    text = written(
        tmp_path,
        spec=spec(**texts, protection=Protection(HOSTILE, 3)),
        rows=[exact(HOSTILE, ONE, 1.0, metric=HOSTILE)],
        pictures=[picture([exact(HOSTILE, ONE, 1.0)], HOSTILE)],
        releases=[hostile_release],
        non_dp_releases=[HOSTILE],
    )
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    images = [attributes for tag, attributes in Page(text).tags if tag == "img"]
    assert [set(attributes) for attributes in images] == [{"src", "alt"}]
    classes = k_anonymous(
        **dict.fromkeys(("model", "summary", "label"), HOSTILE),
        columns=[(HOSTILE, HOSTILE, HOSTILE)],
        measures={**measures("aa", "aab"), HOSTILE: 1.0},
    )
    own = {"spec": spec(**texts), "releases": [classes], "non_dp_releases": [HOSTILE]}
    text = written(tmp_path, "k", **own)
    assert "<script" not in text
    assert "img" not in {tag for tag, _ in Page(text).tags}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an exact number": (
        {"spec": SENSITIVE, "rows": [bought("a", ONE, 1.0, 0.1), exact("a", ONE, 1.0)]},
        "The report of squares must not show exact numbers of",
    ),
    "a broken promise": (
        {"level": "k", "releases": [k_anonymous(k=3)]},
        "must show 3 rows a class",
    ),
    "a picture": (
        {"level": "k", "spec": SENSITIVE, "releases": [], "pictures": [picture()]},
        "must not show pictures of",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_page_that_must_not_be_is_not_written(case: str, tmp_path):
    changes, message = REFUSED[case]
    with pytest.raises(BoundaryViolation, match=message):
        written(tmp_path, **changes)
    assert list(tmp_path.iterdir()) == []


def test_a_page_of_seeded_draws_promises_nothing(tmp_path):
    text = written(tmp_path, releases=[release(**SEEDED)])
    assert "Every draw on this page used noise that can be" in text
    assert "What is promised" not in text
    both = written(tmp_path, releases=[release(**{**SEEDED, **NOT_DP})])
    assert all(f"<strong>{mark}</strong>" in both for mark in ("NOT FOR RELEASE", Standing.NOT_DP))


def test_a_page_of_a_large_epsilon_bounds_little(tmp_path):
    many = [release(model=f"m{number}") for number in range(11)]
    text = " ".join(written(tmp_path, releases=many).split())
    assert "All 11 on this page together cost ε = 5.5: together they bound little" in text
    assert text.count('<a href="#guaranteed">') == text.count('id="guaranteed"') == 1


def test_what_was_spent_is_written_exactly(tmp_path):
    third = Spend("number of rows", LAPLACE, Fraction(1, 3), 1, Fraction(3))
    odd = Spend("odd", LAPLACE, Fraction(1000003, 7000000), 1, Fraction(7000000, 1000003))
    text = written(tmp_path, releases=[release(spends=(third, odd))])
    assert '<td role="cell" data-label="ε spent">10000009/21000000</td>' in text
    assert '<td role="cell" data-label="ε">1/3</td>' in text
    assert '≈ 0.143<span class="exact">1000003/7000000</span>' in text
    assert '<span class="exact">10000009/21000000</span>' in text  # the sum of both


def test_a_report_of_nothing_is_a_report(tmp_path):
    assert "No quality numbers yet." in written(tmp_path, rows=[])
    for level in ("epsilon", "k"):
        text = written(tmp_path, level, rows=[], releases=[])
        require_self_contained(text)
        assert "Nothing has been released yet." in text


def test_rho_and_delta_are_spoken_of_only_where_they_are_paid(tmp_path):
    pure = written(tmp_path, spec=SENSITIVE, rows=[])
    assert not {"ρ", "δ"} & set(pure)
    assert "together they cost ε = 0.5 at most" in pure


def test_failed_write_keeps_the_old_page(tmp_path, monkeypatch):
    folder = tmp_path / "new" / "folder"
    first, second = written(folder), written(folder, spec=spec(title="Other squares"))
    assert first != second
    old = (folder / "report.html").read_bytes()

    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="no space left"):
        written(folder)
    assert list(folder.iterdir()) == [folder / "report.html"]
    assert (folder / "report.html").read_bytes() == old


def test_time_is_an_argument_or_now(tmp_path):
    assert "2025-06-02 12:30 UTC" in written(tmp_path)
    before = datetime.now(UTC)
    page = written(tmp_path, written=None)
    assert any(f"{moment:%Y-%m-%d}" in page for moment in (before, datetime.now(UTC)))


def test_templates_escape_every_value_and_lose_no_spaces():
    """``safe`` would print a value as it is; ``~`` escapes for HTML what may be Markdown."""
    templates = [*Path(pages.__file__).parent.joinpath("templates").glob("*.j2")]
    assert {"card.md.j2", "report.html.j2"} < {template.name for template in templates}
    for path in templates:
        for code in re.findall(r"{[{%].*?[%}]}", path.read_text(encoding="utf-8"), re.DOTALL):
            assert not re.search(r"\|\s*safe\b|~|autoescape|forceescape", code), (path, code)
            if path.name.endswith((".md.j2", "words.j2")) and code.startswith("{{"):
                texts = re.findall('"([^"]*)"', re.sub(r"join\([^)]*\)", "", code))
                assert all(text == text.strip() for text in texts), (path, code)


@pytest.mark.parametrize(
    ("template", "text", "named"),
    [("planted.md.j2", "{{ release.nmae }}", "nmae"), ("planted.html.j2", "{{ tilte }}", "tilte")],
)
def test_misspelt_fact_is_an_error(template: str, text: str, named: str, monkeypatch):
    environment = rendering._environment(is_markdown=template.endswith(".md.j2"))
    monkeypatch.setattr(environment, "loader", DictLoader({template: text}))
    with pytest.raises(UndefinedError, match=named):
        rendering.render(template, release=release(), title="Squares")


def test_changed_template_changes_the_code_version(tmp_path, monkeypatch):
    package = Path(pages.__file__).parents[1]
    copied = shutil.copytree(package, tmp_path / "dp_pipeline")
    monkeypatch.setattr("importlib.resources.files", lambda _: copied)
    digest = code_version.__wrapped__
    before = digest(("reporting",)), digest()
    with (copied / "reporting" / "templates" / "words.j2").open("a") as template:
        template.write("One more.")
    assert digest(("reporting",)) != before[0]
    assert digest() == before[1]
    with pytest.raises(FileNotFoundError, match="has no code of the package: install it again"):
        code_version(("config", "publish"))
