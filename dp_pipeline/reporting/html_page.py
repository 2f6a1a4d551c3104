"""One HTML page that asks nothing of the network, written whole or not at all."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from dp_pipeline.release.durable import make_private, write_whole
from dp_pipeline.reporting.markup import Markup, element, joined
from dp_pipeline.reporting.page_style import STYLE

_CONTENT_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""The browser itself refuses scripts and everything from elsewhere."""


def write_page(path: Path, *, title: str, body: Markup) -> Path:
    """Write one self-contained page to ``path``, for its owner only, and return it; an older one
    is replaced whole.

    body   what ``main`` holds
    """
    content = element("html", _head(title), element("body", element("main", body)), lang="en")
    make_private(path.parent)
    write_whole(path, lambda file: file.write(f"<!doctype html>\n{content}\n".encode()))
    return path


def _head(title: str) -> Markup:
    return element(
        "head",
        element("meta", charset="utf-8"),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{_CONTENT_POLICY}">'),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("link", rel="icon", href="data:,"),
        element("title", title),
        element("style", Markup(STYLE)),
    )


def header(kind: str, *, title: str, lead: str) -> Markup:
    """The top of a page: what kind of page it is, its title, and one sentence."""
    return element(
        "header",
        element("p", kind, class_="eyebrow"),
        element("h1", title),
        element("p", lead, class_="lead"),
    )


def footer(words: str, written: datetime) -> Markup:
    """The end of a page, with the time at which it was written."""
    time = element("time", f"{written:%Y-%m-%d %H:%M %Z}".strip(), datetime=written.isoformat())
    return element("footer", element("p", joined([words, " Written ", time, "."]), class_="note"))
