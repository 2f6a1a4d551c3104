"""A card as an HTML page: the same sentences as its Markdown, without a second set of templates.

Only the Markdown that ``pages.card`` makes is read: titles, points, tables and paragraphs of one
line each, strong words, and a backslash before every sign that is none of markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html.parser import HTMLParser
from itertools import groupby
from typing import NamedTuple

from dp_pipeline.reporting.pages import render

Cell = list[tuple[bool, str]]
"""Pieces of text, each with whether it is strong."""

_KINDS = (("# ", "title"), ("## ", "heading"), ("- ", "points"), ("|", "table"))
_RULE = re.compile(r"\|( :?-+:? \|)+")
"""The line under the head of a table."""
_BAR = re.compile(r"(?<!\\)\|")
_STRONG = re.compile(r"(?<!\\)\*\*")
_ESCAPED = re.compile(r"\\(.)")


class Block(NamedTuple):
    """What stands together on a page.

    kind    ``title``, ``heading``, ``paragraph``, ``points`` or ``table``
    lines   one a point or row, one cell each but in tables
    """

    kind: str
    lines: list[list[Cell]]

    @property
    def text(self) -> str:
        """Its words."""
        return " ".join(
            "".join(text for _, text in cell).strip() for line in self.lines for cell in line
        )


def card_page(markdown: str) -> str:
    """The page of a card in Markdown; it asks nothing of the network."""
    return render("card.html.j2", blocks=list(_blocks(markdown))) + "\n"


def says_the_same(page: str, markdown: str) -> bool:
    """Whether the words of a page and those of a card in Markdown are the same, in their order."""
    told = " ".join(block.text for block in _blocks(markdown))
    seen = _Words()
    seen.feed(page)
    return "".join("".join(seen.found).split()) == "".join(told.split())


def _blocks(markdown: str) -> Iterable[Block]:
    lines = [(_kind(line), line) for line in markdown.splitlines()]
    for kind, found in groupby(lines, key=lambda one: one[0]):
        together = [_cells(kind, line) for _, line in found if not _RULE.fullmatch(line)]
        if kind in ("points", "table"):
            yield Block(kind, together)
        elif kind:
            yield from (Block(kind, [line]) for line in together)


def _kind(line: str) -> str:
    if not line.strip():
        return ""
    return next((kind for sign, kind in _KINDS if line.startswith(sign)), "paragraph")


def _cells(kind: str, line: str) -> list[Cell]:
    signs = {kind: sign for sign, kind in _KINDS if kind != "table"}
    if kind == "table":
        return [_cell(text.strip()) for text in _BAR.split(line)[1:-1]]
    return [_cell(line.removeprefix(signs.get(kind, "")))]


def _cell(text: str) -> Cell:
    pieces = _STRONG.split(text)
    return [(at % 2 == 1, _ESCAPED.sub(r"\1", piece)) for at, piece in enumerate(pieces)]


class _Words(HTMLParser):
    """The words that a browser shows of the body of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._is_shown = False

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002
        self._is_shown = self._is_shown or tag == "body"

    def handle_data(self, data: str) -> None:
        if self._is_shown:
            self.found.append(data)
