"""A headless Chromium that is installed already, driven by Playwright, on loopback, watched."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    # Whatever a page, or the browser itself, asks for elsewhere is found nowhere.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--no-first-run",
    "--no-proxy-server",
)
SIZE = (1400, 900)
PATIENCE = 120_000
"""Milliseconds that a page of a busy computer may take to show what is waited for."""
_LOCAL = ("data", "blob", "about", "file")


@dataclass
class Watched:
    """What pages did that they should not.

    errors     what they logged as an error, threw, or were answered with a status of 400 or more
    elsewhere  addresses beyond this machine that they asked for
    """

    errors: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)

    def watch(self, page: Page) -> None:
        page.on("console", lambda words: self._logged(words.type, words.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self._asked(request.url))
        page.on("response", lambda answer: self._answered(answer.status, answer.url))
        page.on("websocket", lambda socket: self._asked(socket.url))

    def _logged(self, kind: str, text: str) -> None:
        if kind == "error":
            self.errors.append(text)

    def _asked(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in _LOCAL and parts.hostname != "127.0.0.1":
            self.elsewhere.append(url)

    def _answered(self, status: int, url: str) -> None:
        if status >= 400:
            self.errors.append(f"{status} from {url}")


def chromium() -> Path | None:
    found = (shutil.which(name) for name in NAMES)
    return next((Path(path) for path in found if path), None)


@contextmanager
def open_browser(program: Path) -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def watched_page(browser: Browser) -> Iterator[tuple[Page, Watched]]:
    """A page without cookies, and what is seen of it."""
    width, height = SIZE
    context = browser.new_context(viewport={"width": width, "height": height})
    context.set_default_timeout(PATIENCE)
    watched = Watched()
    context.on("page", watched.watch)
    try:
        yield context.new_page(), watched
    finally:
        context.close()
