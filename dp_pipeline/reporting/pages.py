"""Cards, reports and summaries of releases, of an ε or of a K, from templates.

Facts go in, and nothing of them becomes markup: every sentence is in ``templates/``, and a value is
escaped where it is printed, for HTML by Jinja2, for Markdown by ``plain``. A name that no fact has
is an error, not an empty place.

A card as an HTML page: the same sentences as its Markdown, without a second set of templates.

Only the Markdown that ``pages.card`` makes is read: titles, points, tables and paragraphs of one
line each, strong words, and a backslash before every sign that is none of markup.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache
from html.parser import HTMLParser
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dp_pipeline.files import make_private, write_whole
from dp_pipeline.release.bundle import REFINES, Bundle
from dp_pipeline.reporting.figures.picture import SIGNATURE, is_tall
from dp_pipeline.reporting.figures.seen import Picture
from dp_pipeline.reporting.metrics import (
    FIGURES,
    QualityRow,
    SummaryTable,
    measure_text,
    metrics_of,
    pivot,
    sample_words,
    share_text,
)
from dp_pipeline.reporting.prices import Outlook, Prices, prices_of
from dp_pipeline.reporting.releases import KAnonymousRelease, Level, ReportedRelease, Standing
from dp_pipeline.reporting.text import cost_text, number_text, parameter_words, plain, times_text
from dp_pipeline.spec.amounts import delta_text, epsilon_text
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.errors import BoundaryViolation

if TYPE_CHECKING:
    from jinja2 import Environment


class Timeline(NamedTuple):
    """A table with one line a window, newest first; its cells are texts."""

    head: list[str]
    lines: list[list[str]]


def card(release: ReportedRelease) -> str:
    """The card of one release, in Markdown: at most 100 lines.

    It is no part of the bundle of a private release: the sum of all charges grows, and a bundle is
    the same bytes for ever.

    Raises BoundaryViolation for what ``require_showable`` refuses.
    """
    release.require_showable()
    return render(f"card_{release.level}.md.j2", release=release, figures=FIGURES)


def write_report(  # noqa: PLR0913
    path: Path,
    *,
    level: Level | Timeline,
    spec: DatasetSpec,
    releases: Sequence[ReportedRelease],
    pictures: Sequence[Picture] = (),
    rows: Sequence[QualityRow] = (),
    beside: Sequence[str] = (),
    outlook: Outlook | None = None,
    written: datetime | None = None,
) -> Path:
    """Write the report of a data set over every ε, every K or every window to ``path`` and return
    it; an older page is replaced whole.

    level      what the releases are over; a timeline: over windows
    releases   of that level; of a K at most one a method and K
    rows       quality numbers, over ε
    beside     releases of the same sensitive rows without ε, a text each
    outlook    what the population has spent, and what is left; of pages with an ε
    written    the time on the page; now when None

    Raises BoundaryViolation for an exact number of data whose purpose is release, for pictures of
    such data over K, and for what ``require_showable`` refuses.
    """
    for release in releases:
        release.require_showable()
    timeline = level if isinstance(level, Timeline) else None
    name = "window" if isinstance(level, Timeline) else level
    _require_noisy(spec, name, rows, pictures)
    own = _over_k(releases) if level == "k" else _over_epsilon(releases, rows)
    return write_page(
        path,
        f"report_{name}.html.j2",
        spec=spec,
        releases=releases,
        warnings=_grouped((text, one.name) for one in releases for text in one.warnings),
        pictures=[_embedded(one) for one in pictures],
        has_tall_picture=any(is_tall(one.png) for one in pictures),
        beside=beside,
        outlook=outlook,
        written=written or datetime.now(UTC),
        timeline=timeline,
        **own,
    )


def summary_over_epsilon(rows: Sequence[QualityRow], prices: Prices) -> str | None:
    """Every model at the largest ε, the best first, in Markdown; None without numbers."""
    table = SummaryTable.of(rows, prices)
    if table is None:
        return None
    return render("summary.md.j2", level="epsilon", summary=table).rstrip("\n")


def summary_over_k(releases: Sequence[KAnonymousRelease]) -> str:
    """Methods × K in Markdown: how well classifiers learn from each release, where that is known,
    and of whom it still tells the label.
    """
    has_auc = any("auc" in one.figures for one in releases)
    facts = {"grid": Grid.of(releases), "has_auc": has_auc}
    return render("summary.md.j2", level="k", **facts).rstrip("\n")


def _require_noisy(
    spec: DatasetSpec, level: str, rows: Sequence[QualityRow], pictures: Sequence[Picture]
) -> None:
    exact = sorted({row.metric for row in rows if row.scale is None})
    if spec.is_release and exact:
        raise BoundaryViolation(
            f"report of {spec.name}: expected noisy numbers of a private evaluation, got exact "
            f"{', '.join(exact)}"
        )
    if spec.is_release and level == "k" and pictures:
        raise BoundaryViolation(
            f"report of {spec.name}: expected no pictures of sensitive rows, got {len(pictures)}"
        )


def _over_epsilon(releases: Sequence[Any], rows: Sequence[QualityRow]) -> dict[str, Any]:
    """What the report over ε shows beside the releases themselves."""
    fit = [one for one in releases if one.bundle.fit_for_release]
    prices = prices_of(releases)
    standings = (Standing.NOT_DP, Standing.ANOTHER_EPSILON)
    caveats = {
        standing: _grouped(
            (one.bundle.caveat, one.name) for one in releases if one.standing == standing
        )
        for standing in standings
    }
    return {
        "fit": len(fit),
        "spent": _spent([one.bundle for one in fit]),
        "drawable": [one.name for one in releases if one.may_be_drawn_again],
        "caveats": {standing: found for standing, found in caveats.items() if found},
        "prices": prices,
        "summary": SummaryTable.of(rows, prices),
        "tables": [pivot(rows, metric) for metric in metrics_of(rows)],
        "has_noisy_numbers": any(row.scale is not None for row in rows),
        "sample_words": sample_words(rows),
    }


def _spent(bundles: Sequence[Bundle]) -> Fraction:
    """What some releases cost together at most: a refinement what it has added where the release
    that it refines is one of them, else with what that one has spent.
    """
    keys = {one.key for one in bundles}
    return sum(
        (one.charged if one.facts.get(REFINES) in keys else one.charged_in_all for one in bundles),
        Fraction(0),
    )


class Grid(NamedTuple):
    """Methods × K.

    heads   one text a K, ascending
    lines   method, and its release at every K or None; methods in the order of their releases
    """

    heads: list[str]
    lines: list[tuple[str, list[KAnonymousRelease | None]]]

    @classmethod
    def of(cls, releases: Sequence[KAnonymousRelease]) -> Grid:
        """The grid of some releases."""
        found = {(one.method, one.k): one for one in releases}
        ks = sorted({one.k for one in releases})
        methods = dict.fromkeys(one.method for one in releases)
        lines = [(method, [found.get((method, k)) for k in ks]) for method in methods]
        return cls([f"K = {k}" for k in ks], lines)


def _over_k(releases: Sequence[Any]) -> dict[str, Any]:
    """What the report over K shows beside the releases themselves."""
    tried = {name: [one for one in releases if name in one.figures] for name in FIGURES}
    by_method: dict[str, list[KAnonymousRelease]] = {}
    for one in sorted(releases, key=lambda one: one.k):
        by_method.setdefault(one.method, []).append(one)
    return {
        "grid": Grid.of(releases),
        "figures": FIGURES,
        "tried": {name: Grid.of(having) for name, having in tried.items() if having},
        "by_method": {method: by_method[method] for method, _ in Grid.of(releases).lines},
        "diverse": _grouped(
            (f"{one.method} {one.diversity}", str(one.k)) for one in releases if one.diversity > 1
        ),
    }


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """First text → all second ones that come with it, both in the order in which they come."""
    groups: dict[str, list[str]] = {}
    for text, name in pairs:
        groups.setdefault(text, []).append(name)
    return groups


def _embedded(picture: Picture) -> Mapping[str, str]:
    """A picture as the page itself holds it."""
    if not picture.png.startswith(SIGNATURE):
        raise BoundaryViolation(
            f"picture {picture.caption[:60]!r}: expected a PNG, got another format"
        )
    data = base64.b64encode(picture.png).decode()
    return {"caption": picture.caption, "data": data, "seen": picture.seen}


_TEMPLATES = Path(__file__).parent / "templates"
_MARKDOWN = ".md.j2"
_FILTERS: Mapping[str, Any] = {
    "cost": cost_text,
    "count": lambda number: f"{number:,.0f}",
    "delta": delta_text,
    "epsilon": epsilon_text,
    "measure": measure_text,
    "number": lambda number: number_text(float(number)),
    "parameters": parameter_words,
    "share": share_text,
    "times": times_text,
}


def write_page(path: Path, template: str, **facts: Any) -> Path:
    """Write one self-contained HTML page to ``path``, for its owner only, and return it; an older
    one is replaced whole.
    """
    content = render(template, **facts)
    make_private(path.parent)
    write_whole(path, lambda file: file.write(f"{content}\n".encode()))
    return path


def render(template: str, **facts: Any) -> str:
    """The text of a template of ``templates/`` with these facts in it."""
    is_markdown = template.endswith(_MARKDOWN)
    text = _environment(is_markdown=is_markdown).get_template(template).render(facts)
    return _unwrapped(text) if is_markdown else " ".join(text.split())


@cache
def _environment(*, is_markdown: bool) -> Environment:
    """Jinja2 is imported by whoever writes a page: the command line starts without it."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def as_markdown(value: Any) -> Markup:
        return value if isinstance(value, Markup) else Markup(plain(str(value)))

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


def _unwrapped(text: str) -> str:
    """Markdown in which a paragraph, a point and a line of a table are one line each, however they
    are wrapped in the template, and headings stand apart. No value can look like the beginning of
    one of them: it is escaped already.
    """
    lines = [""]
    for line in map(str.strip, text.splitlines()):
        if line.startswith("#"):
            lines += ["", line, ""]
        elif not line or not lines[-1] or line.startswith(("- ", "|")):
            lines.append(line)
        else:
            lines[-1] += f" {line}"
    kept = [line for before, line in pairwise(lines) if before or line]
    return "\n".join(kept).strip() + "\n"


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
