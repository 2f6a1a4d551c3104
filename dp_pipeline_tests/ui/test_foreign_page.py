"""A page that the steward merely looks at changes nothing, and sees nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from dp_pipeline_tests.ui.browser import watched_page
from dp_pipeline_tests.ui.dagster_ui import DagsterUi
from dp_pipeline_tests.ui.foreign_page import ATTACKS, FRAME, WEBSOCKET, foreign_page, script

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.ui


@pytest.fixture
def foreign(browser: Browser) -> Iterator[Page]:
    """A tab on the foreign page; what it logs as an error is its own affair."""
    with foreign_page() as url, watched_page(browser) as (page, _):
        page.goto(url)
        yield page


@pytest.mark.parametrize("way", ATTACKS)
def test_a_foreign_page_launches_no_run(way: str, foreign: Page, ui: DagsterUi):
    before = {run.id for run in ui.stack.client.runs()}
    told = foreign.evaluate(script(ATTACKS[way], ui.stack.url))
    # What was asked of the server has been answered when a request of ours has been.
    assert {run.id for run in ui.stack.client.runs()} == before
    assert "LaunchRunSuccess" not in told


def test_a_foreign_page_opens_no_websocket(foreign: Page, ui: DagsterUi):
    assert foreign.evaluate(script(WEBSOCKET, ui.stack.url)) == "closed"


def test_a_foreign_page_frames_no_page_of_ours(foreign: Page, ui: DagsterUi):
    foreign.evaluate(script(FRAME, ui.stack.url))
    framed = [frame for frame in foreign.frames if frame != foreign.main_frame]
    assert [frame.url for frame in framed] == ["chrome-error://chromewebdata/"]


def test_a_link_of_a_foreign_page_opens_one_of_ours(foreign: Page, ui: DagsterUi):
    foreign.evaluate(f"location.href = '{ui.stack.url}/asset-groups'")
    foreign.wait_for_url(f"{ui.stack.url}/**")
    foreign.get_by_text("rides_2_release").first.wait_for()


def test_the_pages_hear_of_a_run_over_their_own_websocket(ui: DagsterUi):
    heard: list[str] = []
    ui.page.on(
        "websocket",
        lambda socket: socket.on("framereceived", lambda frame: heard.append(str(frame))),
    )
    (first, *_) = ui.stack.client.runs()
    ui.open(f"runs/{first.id}")
    # A page of many events is scrolled to its end.
    ui.sees("RUN_SUCCESS")
    assert any("pipelineRunLogs" in frame for frame in heard)
