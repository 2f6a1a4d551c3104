"""Markup: HTML in which everything is escaped that was not made here.

One HTML page that asks nothing of the network, written whole or not at all.

The style sheet of a report: one column, two colour schemes, cards for tables on a phone.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

from dp_pipeline.files import make_private, write_whole

_VOID = frozenset({"img", "meta", "link", "br"})


class Markup(str):
    """Text that is HTML already. Any other text is escaped when it becomes part of an element.

    Joining or formatting gives an ordinary text again, which is escaped: a mistake
    shows as visible tags, never as somebody else's script.
    """

    __slots__ = ()


def element(name: str, /, *children: str, **attributes: str | None) -> Markup:
    """One element. ``class_`` is class, ``data_label`` is data-label, None is left out.

    >>> element("p", "1 < 2, ", element("b", "really"), class_="note")
    '<p class="note">1 &lt; 2, <b>really</b></p>'
    """
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{words}>")
    return Markup(f"<{name}{words}>{joined(children)}</{name}>")


def joined(children: Iterable[str]) -> Markup:
    """Children one after the other, escaped unless they are markup."""
    return Markup("".join(c if isinstance(c, Markup) else html.escape(c) for c in children))


def table(
    caption: str,
    head: Sequence[str],
    body: Iterable[Sequence[str]],
    *,
    foot: Sequence[str] = (),
    class_: str = "",
) -> Markup:
    """A table whose first column names its row; on a phone every row becomes a card.

    The roles say again what the elements mean: browsers forget it when a style sheet
    lays a table out as cards.
    """
    names = (element("th", name, scope="col", role="columnheader") for name in head)
    sections = [
        element("caption", caption),
        element("thead", element("tr", *names, role="row"), role="rowgroup"),
        element("tbody", *(_row(head, cells) for cells in body), role="rowgroup"),
    ]
    if foot:
        sections.append(element("tfoot", _row(head, foot), role="rowgroup"))
    whole = element("table", *sections, role="table", class_=class_ or None)
    # A wide table scrolls by itself, by keyboard too, and the page stays where it is.
    return element("div", whole, class_="wide", role="region", aria_label=caption, tabindex="0")


def _row(head: Sequence[str], cells: Sequence[str]) -> Markup:
    first = element("th", cells[0], scope="row", role="rowheader")
    others = (
        element("td", cell, role="cell", data_label=name)
        for name, cell in zip(head[1:], cells[1:], strict=True)
    )
    return element("tr", first, *others, role="row")


def details(summary: str, *children: str) -> Markup:
    """A part that opens on a click, without a script."""
    return element("details", element("summary", summary), *children)


STYLE = """
:root {
  color-scheme: light dark;
  --paper: #fbfbf9; --card: #ffffff; --ink: #1c2530; --muted: #5b6875; --rule: #dfe3e7;
  --accent: #0b5a92; --soft: #eaf2f8; --alarm: #a3210f; --alarm-soft: #fdeeeb; --good: #0a6b4b;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #12171d; --card: #1a2129; --ink: #e6eaee; --muted: #9aa7b4; --rule: #303a45;
    --accent: #7fc0ef; --soft: #1b2b3a; --alarm: #ff9d8c; --alarm-soft: #3a1c18; --good: #6fd3ab;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif;
}
main { max-width: 60rem; margin: 0 auto; padding: 3rem 1.5rem 4rem; }
h1 { font-size: clamp(1.7rem, 4.5vw, 2.5rem); line-height: 1.15; margin: .2rem 0 .7rem;
  letter-spacing: -.015em; text-wrap: balance; overflow-wrap: anywhere; }
h2 { font-size: 1.3rem; line-height: 1.3; margin: 3rem 0 .8rem; letter-spacing: -.005em; }
p { margin: .5rem 0; max-width: 44rem; overflow-wrap: anywhere; }
.eyebrow { color: var(--accent); font-weight: 650; font-size: .8rem; letter-spacing: .09em;
  text-transform: uppercase; margin: 0; }
.lead { font-size: 1.1rem; }
.note { color: var(--muted); font-size: .875rem; }
.alarm { margin: 1.8rem 0; padding: 1.1rem 1.3rem; border-radius: .6rem; color: var(--alarm);
  background: var(--alarm-soft); border: 2px solid currentColor; }
.alarm strong { display: block; font-size: clamp(1.6rem, 6vw, 2.6rem); line-height: 1.1;
  letter-spacing: .01em; }
.alarm p, .alarm ul { color: var(--ink); margin-bottom: 0; }
.protected { margin: 1.8rem 0 0; padding: 1.2rem 1.4rem 1.3rem; border-radius: .6rem;
  background: var(--soft); border-left: .3rem solid var(--accent); }
.protected h2 { margin: 0 0 .7rem; font-size: 1.1rem; }
dl { display: grid; grid-template-columns: 9.5rem 1fr; gap: .5rem 1rem; margin: 0; }
dt { color: var(--muted); }
dd { margin: 0; overflow-wrap: anywhere; }
table { width: 100%; border-collapse: collapse; margin: 1rem 0 1.6rem; font-size: .92rem;
  font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
.wide:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
caption { text-align: left; font-weight: 650; padding: 0 0 .5rem; font-size: 1rem; }
th, td { padding: .5rem .9rem .5rem 0; text-align: left; vertical-align: baseline;
  border-bottom: 1px solid var(--rule); overflow-wrap: break-word; }
th:last-child, td:last-child { padding-right: 0; }
thead th { color: var(--muted); font-weight: 500; font-size: .82rem; vertical-align: bottom;
  border-bottom-color: var(--muted); }
tbody th { font-weight: 600; }
tfoot th, tfoot td { font-weight: 650; border-bottom: 0; }
.numbers td, .numbers thead th:not(:first-child) { text-align: right; white-space: nowrap; }
.charges th { font-weight: 400; width: 42%; }
.charges tfoot th { font-weight: 650; }
.charges td:nth-last-child(-n+3), .charges thead th:nth-last-child(-n+3) { text-align: right;
  white-space: nowrap; }
.releases td:not(:last-child) { white-space: nowrap; }
.exact { display: block; color: var(--muted); font-size: .8rem; font-weight: 400;
  white-space: normal; overflow-wrap: anywhere; max-width: 11rem; margin-left: auto; }
.words { display: block; color: var(--muted); font-size: .8rem; font-weight: 400; }
.measures tbody th { width: 38%; }
.fit { color: var(--good); font-weight: 650; }
.unfit { color: var(--alarm); font-weight: 800; font-size: 1.05rem; line-height: 1.15;
  display: inline-block; }
.pictures { display: grid; gap: 1.4rem; margin: 1rem 0;
  grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); align-items: start; }
figure { margin: 0; padding: .8rem .8rem .6rem; background: var(--card); border-radius: .6rem;
  border: 1px solid var(--rule); }
figure:only-child { max-width: 44rem; }
.pictures.large { grid-template-columns: minmax(0, 46rem); }
img { display: block; width: 100%; height: auto; mix-blend-mode: multiply; }
figcaption { color: var(--muted); font-size: .82rem; padding: .5rem .2rem 0; }
details { border-bottom: 1px solid var(--rule); }
details:first-of-type { border-top: 1px solid var(--rule); }
summary { cursor: pointer; padding: .7rem 0; font-weight: 600; overflow-wrap: anywhere; }
summary:hover { color: var(--accent); }
summary:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
.promise ul { padding-left: 1.2rem; max-width: 44rem; }
.promise li { margin: .45rem 0; }
footer { margin-top: 3rem; padding-top: 1rem; border-top: 1px solid var(--rule); }
@media (prefers-color-scheme: dark) {
  /* Paper becomes night and hues stay; black then melts into the card. */
  img { filter: invert(1) hue-rotate(180deg); mix-blend-mode: screen; }
}
@media (max-width: 44rem) {
  main { padding: 1.8rem 1.1rem 3rem; }
  dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: .7rem; }
  dd:last-child { margin-bottom: 0; }
  figure { padding: .5rem .4rem; }
  table, caption, tbody, tfoot, tr, th, td { display: block; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  tr { padding: .6rem 0; border-bottom: 1px solid var(--rule); }
  th, td { border: 0; padding: .15rem 0; }
  td { display: flex; justify-content: space-between; gap: 1.2rem; text-align: right; }
  td:empty { display: none; }
  td::before { content: attr(data-label); color: var(--muted); flex: none; font-weight: 400; }
  .charges th, .measures tbody th { width: auto; }
  .numbers { max-width: 24rem; }
}
@media print {
  :root { --paper: #fff; --card: #fff; }
  main { max-width: none; padding: 0; }
  figure, tr, .protected, .alarm { break-inside: avoid; }
}
"""


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
