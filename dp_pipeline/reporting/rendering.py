"""Text from Jinja2 templates, and a card's Markdown as an HTML page.

A value is escaped where it is printed, for HTML by Jinja2, for Markdown by ``escape_markdown``, so
that no fact becomes markup, and a name without a fact is an error.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dp_pipeline.config.amounts import delta_text, epsilon_text
from dp_pipeline.files import write_private
from dp_pipeline.reporting.metrics import level_text, measure_text, share_text
from dp_pipeline.reporting.text import (
    cost_text,
    escape_markdown,
    number_text,
    parameter_words,
    times_text,
)

if TYPE_CHECKING:
    from jinja2 import Environment
    from markdown_it.token import Token

_TEMPLATES = Path(__file__).parent / "templates"
_MARKDOWN = ".md.j2"
_FILTERS: Mapping[str, Any] = {
    "base64": lambda content: b64encode(content).decode(),
    "cost": cost_text,
    "count": lambda number: f"{number:,.0f}",
    "delta": delta_text,
    "epsilon": epsilon_text,
    "level": level_text,
    "measure": measure_text,
    "number": lambda number: number_text(float(number)),
    "parameters": parameter_words,
    "share": share_text,
    "times": times_text,
}


def write_page(path: Path, template: str, **facts: Any) -> Path:
    """Write a page from a template of ``templates/`` and facts, and return its path.

    An older page is replaced; only the owner can enter the folder.
    """
    write_private(path, f"{render(template, **facts)}\n".encode())
    return path


def render(template: str, **facts: Any) -> str:
    """Return the text of a template in ``templates/``, filled with facts by name.

    It is Markdown if the file name ends in ``.md.j2``, else HTML on one line.
    """
    is_markdown = template.endswith(_MARKDOWN)
    text = _environment(is_markdown=is_markdown).get_template(template).render(facts)
    if not is_markdown:
        return " ".join(text.split())
    # Each paragraph, list item and table line becomes a single line.
    lines = [""]
    for line in map(str.strip, text.splitlines()):
        if line.startswith("#"):
            lines += ["", line, ""]
        elif not line or not lines[-1] or line.startswith(("- ", "|")):
            lines.append(line)
        else:
            lines[-1] += f" {line}"
    collapsed = [line for before, line in pairwise(lines) if before or line]
    return "\n".join(collapsed).strip() + "\n"


@cache
def _environment(*, is_markdown: bool) -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def as_markdown(value: Any) -> Markup:
        return value if isinstance(value, Markup) else Markup(escape_markdown(str(value)))

    environment = Environment(
        autoescape=True,
        finalize=as_markdown if is_markdown else None,
        loader=FileSystemLoader(_TEMPLATES),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= _FILTERS
    return environment


_RULES = ("heading", "list", "table", "emphasis", "escape")
"""Rules of Markdown beyond paragraphs; links, pictures and HTML stay text."""


def card_page(markdown: str) -> str:
    """Return a card in Markdown as an HTML page, which loads nothing from the network."""
    from markupsafe import Markup

    title, body = _html_of(markdown)
    return render("card.html.j2", title=title, body=Markup(body)) + "\n"


def has_same_words(page: str, markdown: str) -> bool:
    """Return whether an HTML page and a card in Markdown have the same text without markup."""
    return _words_of(page) == _words_of(f"<body>{_html_of(markdown)[1]}")


def _html_of(markdown: str) -> tuple[str, str]:
    from markdown_it import MarkdownIt

    reader = MarkdownIt("zero").enable(_RULES)
    reader.add_render_rule("table_open", lambda *_: '<div class="wide" tabindex="0"><table>')
    reader.add_render_rule("table_close", lambda *_: "</table></div>")
    tokens = reader.parse(markdown)
    # A heading gets a scope; another cell its column's name, as a phone shows rows as lists.
    heads, column = list[str](), 0
    for token, content in pairwise(tokens):
        if token.type == "table_open":
            heads = []
        elif token.type == "tr_open":
            column = 0
        elif token.type == "th_open":
            token.attrs = {"scope": "col"}
            heads.append(_text_of(content))
        elif token.type == "td_open":
            token.attrs = {"data-label": heads[column]}
            column += 1
    title = next((_text_of(token) for token in tokens if token.type == "inline"), "")
    return title, reader.renderer.render(tokens, reader.options, {})


def _text_of(token: Token) -> str:
    return "".join(child.content for child in token.children or ())


def _words_of(page: str) -> str:
    reader = _Words()
    reader.feed(page)
    return "".join("".join(reader.texts).split())


class _Words(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._is_body = False

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002
        self._is_body = self._is_body or tag == "body"

    def handle_data(self, data: str) -> None:
        if self._is_body:
            self.texts.append(data)
