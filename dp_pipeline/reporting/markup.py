"""Markup: HTML in which everything is escaped that was not made here."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

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
