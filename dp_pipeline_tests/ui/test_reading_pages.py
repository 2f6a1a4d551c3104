"""Reports and cards can be read by everybody: by phone, in the dark, by ear and on paper.

axe, which looks for what keeps people from it, is no part of the project: DP_PIPELINE_AXE names
its file, …/axe.min.js; else it is looked for in the folders of npm: this one's and that of all.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dp_pipeline.ledger import Balance
from dp_pipeline.raw.data_docs import INDEX, write_data_docs
from dp_pipeline.reporting.figures.curves import NOISE_BARS, utility_panels
from dp_pipeline.reporting.figures.lines import line_chart
from dp_pipeline.reporting.pages import write_report
from dp_pipeline.reporting.prices import BudgetForecast
from dp_pipeline.reporting.rendering import card_page
from dp_pipeline_tests.raw.written import ingested, written_spec
from dp_pipeline_tests.reporting.golden_pages import OTHERS, PEOPLE, golden_texts
from dp_pipeline_tests.reporting.samples import (
    HALF,
    ONE,
    SEEDED,
    TEN,
    WRITTEN,
    bought,
    k_anonymous,
    measures,
    release,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.ui

VARIABLE = "DP_PIPELINE_AXE"
WIDTHS = (390, 1280)
SCHEMES = ("light", "dark")
_FILE = Path("axe-core/axe.min.js")
_GRAVE = ("serious", "critical")


def report(folder: Path) -> Path:
    """A report with an alarm, two models, a picture, charges, and an account."""
    rows = [bought(model, one, 1.0 + one, 0.1) for model in "ab" for one in (HALF, ONE)]
    panels = utility_panels(rows, ["nicv"])
    balance = Balance(ceiling=TEN, spent=ONE, currency=PEOPLE.currency)
    return write_report(
        folder / "report.html",
        level="epsilon",
        spec=PEOPLE,
        releases=[release(spec=PEOPLE), release(spec=PEOPLE, **SEEDED)],
        rows=rows,
        pictures=[line_chart(panels, title="NICV over ε", footnote=NOISE_BARS)],
        non_dp_releases=OTHERS,
        forecast=BudgetForecast(balance, price=HALF),
        written=WRITTEN,
    )


def k_report(folder: Path) -> Path:
    tried = [k_anonymous(figures={"auc": 0.5}), k_anonymous(k=5, measures=measures("aabab", k=5))]
    options = {"level": "k", "spec": tried[0].spec, "releases": tried, "written": WRITTEN}
    return write_report(folder / "k.html", **options)


def card(folder: Path) -> Path:
    """The card of a release, as an export has it."""
    markdown = dict(golden_texts())["card_epsilon.md"]
    path = folder / "card.html"
    path.write_text(card_page(markdown), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def script() -> str:
    file = axe_file()
    if file is None:
        pytest.skip(f"expected axe (npm install axe-core) or {VARIABLE}=…/axe.min.js, got none")
    return file.read_text(encoding="utf-8")


@pytest.mark.parametrize("made", [report, k_report, card], ids=["report", "k-anonymous", "card"])
def test_axe_finds_nothing_serious_on_any_page(browser, script, tmp_path, made):
    assert violations_on(browser, script, made(tmp_path)) == []


def test_axe_finds_nothing_in_data_docs_but_tabs(browser: Browser, script: str, tmp_path: Path):
    spec = written_spec(tmp_path, "{age: {bounds: [0, 100]}}", purpose="release")
    folder = write_data_docs(spec, ingested(tmp_path, {"age": ["5", "200"]}))
    pages = [page for page in folder.rglob("*.html") if page != folder / INDEX]
    assert len(pages) == 4, "two suites, and what came of each"
    assert [fault for page in pages for fault in violations_on(browser, script, page)] == []
    in_index = violations_on(browser, script, folder / INDEX)
    assert {violation.split(": ")[1].split()[0] for violation in in_index} == {
        "aria-required-children", "aria-required-parent", "listitem",
    }  # fmt: skip


def test_violations_that_axe_finds_are_listed(browser: Browser, script: str, tmp_path: Path):
    page = tmp_path / "bad.html"
    page.write_text("<!doctype html><title>t</title><img src='data:,'><p style='width:2000px'>x")
    violations = violations_on(browser, script, page)
    assert any("image-alt" in fault for fault in violations)
    assert any("wider than the window" in fault for fault in violations)


def test_paper_shows_every_charge_and_its_scale_in_dark_ink(browser: Browser, tmp_path: Path):
    context = browser.new_context(color_scheme="dark")
    try:
        page = context.new_page()
        page.goto(report(tmp_path).as_uri())
        charge = page.locator("table.charges tbody td").first
        assert not charge.is_visible()
        page.emulate_media(media="print", color_scheme="dark")
        assert charge.is_visible()
        assert charge.bounding_box() is not None
        ink = page.evaluate("getComputedStyle(document.body).color")
        assert ink == "rgb(28, 37, 48)"
    finally:
        context.close()


def axe_file() -> Path | None:
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    folders = [Path("node_modules"), *_of_npm()]
    return next((folder / _FILE for folder in folders if (folder / _FILE).is_file()), None)


def _of_npm() -> list[Path]:
    npm = shutil.which("npm")
    if npm is None:
        return []
    asked = subprocess.run([npm, "root", "--global"], capture_output=True, text=True, check=False)
    return [Path(asked.stdout.strip())] if asked.returncode == 0 else []


def violations_on(browser: Browser, script: str, page: Path) -> list[str]:
    """What axe calls serious or critical, or too wide, at both widths and in both colours."""
    found = []
    for scheme in SCHEMES:
        for width in WIDTHS:
            # The page itself refuses scripts.
            context = browser.new_context(
                viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True
            )
            try:
                tab = context.new_page()
                tab.goto(page.as_uri())
                tab.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
                tab.evaluate(f"{script};0")
                where = f"{page.name}, {scheme}, {width} px"
                told: dict[str, Any] = tab.evaluate("axe.run()")
                found += [
                    f"{where}: {one['id']} at {one['nodes'][0]['target']}"
                    for one in told["violations"]
                    if one["impact"] in _GRAVE
                ]
                if tab.evaluate("document.documentElement.scrollWidth > innerWidth"):
                    found.append(f"{where}: wider than the window")
            finally:
                context.close()
    return found
