"""What the browser tests rest on: nothing leaves this machine, and what goes wrong is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dp_pipeline_tests.ui.browser import watched_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.ui


@pytest.mark.parametrize("url", ["http://example.org/", "http://192.0.2.1/", "http://localhost/"])
def test_the_browser_finds_nothing_beyond_loopback(browser: Browser, url: str):
    with (
        watched_page(browser) as (page, watched),
        pytest.raises(Exception, match="ERR_NAME_NOT_RESOLVED"),
    ):
        page.goto(url)
    assert watched.elsewhere == [url]


def wait_for_events(page: Page, seen: list[str], many: int) -> None:
    """At most ten seconds, for a computer that is busy."""
    for _ in range(100):
        if len(seen) < many:
            page.wait_for_timeout(100)


def test_a_page_that_asks_elsewhere_is_seen(browser: Browser):
    with watched_page(browser) as (page, watched):
        page.evaluate("fetch('https://fonts.example.org/a.woff').catch(() => null)")
        page.evaluate("new WebSocket('ws://example.org/live')")
        wait_for_events(page, watched.elsewhere, 2)
    assert sorted(watched.elsewhere) == [
        "https://fonts.example.org/a.woff",
        "ws://example.org/live",
    ]


@pytest.mark.parametrize("mistake", ["console.error('lost')", "setTimeout(() => {throw 'lost'})"])
def test_a_page_that_logs_or_throws_an_error_is_seen(browser: Browser, mistake: str):
    with watched_page(browser) as (page, watched):
        page.evaluate(mistake)
        wait_for_events(page, watched.errors, 1)
    assert watched.errors == ["lost"]
