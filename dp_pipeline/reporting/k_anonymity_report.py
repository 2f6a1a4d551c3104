"""The page of one data set's k-anonymous releases, methods × K: a single HTML file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from math import nan
from pathlib import Path

from dp_pipeline.reporting.html import (
    Markup,
    details,
    element,
    footer,
    header,
    joined,
    table,
    write_page,
)
from dp_pipeline.reporting.k_anonymous_promise import (
    LIMITS,
    NO_EPSILON,
    AnonymousRelease,
    Limit,
    columns_text,
    left_out_text,
    measure_text,
    measure_words,
)
from dp_pipeline.reporting.metrics import FIGURES, Metric
from dp_pipeline.reporting.report import Images
from dp_pipeline.reporting.sections import NOT_DP, pictures
from dp_pipeline.reporting.text import number_text
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.errors import BoundaryViolation

Releases = Sequence[AnonymousRelease]

_NONE = "–"


def write_anonymity_page(
    path: Path,
    *,
    spec: DatasetSpec,
    releases: Releases,
    pictures: Images,
    beside: Sequence[str] = (),
    written: datetime | None = None,
) -> Path:
    """Write one self-contained page to ``path`` and return it; an older page is replaced whole.

    releases   at most one a method and K
    pictures   (caption, PNG), shown in this order
    beside     every release of the same sensitive rows without ε, a text each
    written    the time on the page; now when None

    Raises BoundaryViolation where measures contradict a promise, and for figures or pictures
    of sensitive rows or labels of those that were left out.
    """
    for one in releases:
        one.require_honest()
    if spec.is_release and pictures:
        raise BoundaryViolation(
            f"page of {spec.name}: expected no pictures of sensitive rows, got {len(pictures)}"
        )
    body = _body(spec, releases, pictures, beside, written or datetime.now(UTC))
    return write_page(path, title=f"{spec.title}: k-anonymous releases", body=body)


def _body(
    spec: DatasetSpec,
    releases: Releases,
    images: Images,
    beside: Sequence[str],
    written: datetime,
) -> Markup:
    rows = "sensitive rows" if spec.is_release else "public rows, a benchmark"
    parts = (
        header(f"k-anonymous releases of {rows}", title=spec.title, lead=spec.description),
        _alarm(),
        _promised(releases),
        _tried(releases),
        pictures(images),
        _not_promised(releases, beside),
        _every(releases),
        footer(f"Data set {spec.name}, population {spec.lineage}.", written),
    )
    return joined(parts)


def _alarm() -> Markup:
    return element(
        "div", element("strong", NOT_DP), element("p", NO_EPSILON), class_="alarm", role="note"
    )


def _promised(releases: Releases) -> Markup:
    """What K and diversity say, and what was asked for."""
    facts = {
        "K": "Every released row has its released columns in common with at least K − 1 others; "
        "rows that have them in common are a class. A K of 0 or 1 promises nothing.",
        "Diversity": _diversity(releases),
        "Left out": "To keep the promise some rows may be left out, of one label more than of "
        "another. The rows of a release are those that are left. How many were left out is exact.",
    }
    return element(
        "section",
        element("h2", "What is promised", id="promised"),
        _listed(facts.items()),
        class_="protected",
        aria_labelledby="promised",
    )


def _diversity(releases: Releases) -> str:
    """How many labels a class has, and of which releases that is promised."""
    promised: dict[str, list[str]] = {}
    for one in releases:
        if one.diversity > 1:
            promised.setdefault(f"{one.method} {one.diversity}", []).append(str(one.k))
    if not promised:
        return "No release promises that a class has more than one label."
    named = (f"{many} at K = {', '.join(ks)}" for many, ks in promised.items())
    return f"Different labels that every class has: {'; '.join(named)}. Others promise none."


def _tried(releases: Releases) -> Markup:
    """The figures: the first at once, the others by a click."""
    tables = [
        _figure_table(name, figure, [one for one in releases if name in one.figures])
        for name, figure in FIGURES.items()
        if any(name in one.figures for one in releases)
    ]
    if not tables:
        tables = [element("p", "No figures: none yet, or the rows are sensitive.", class_="note")]
    others = [details("Other figures", *tables[1:])] if tables[1:] else []
    return element("section", element("h2", "Utility"), tables[0], *others)


def _figure_table(name: str, figure: Metric, releases: Releases) -> Markup:
    caption = f"{figure.title}; {figure.better}"
    return _over_k(caption, releases, lambda one: number_text(one.figures[name]))


def _not_promised(releases: Releases, beside: Sequence[str]) -> Markup:
    """Every limit in words; of the first, which most readers do not expect, the figures too, and
    of the others by a click.
    """
    tables = [
        _over_k(limit.caption, releases, limit.figure)
        for limit in LIMITS
        if limit.figure is not None and releases
    ]
    first, *others = (_words(limit) for limit in LIMITS)
    earlier = [element("li", one) for one in beside]
    parts = [first, *tables[:1], *others]
    if earlier:
        parts += [element("p", "Released of this population without ε:"), element("ul", *earlier)]
    if tables:
        parts.append(details("Guessing, closeness and membership in figures", *tables[1:]))
    return element("section", element("h2", "What is not promised"), *parts, class_="promise")


def _words(limit: Limit) -> Markup:
    return element("p", joined([element("b", f"{limit.name}. "), limit.words]))


def _every(releases: Releases) -> Markup:
    methods = list(dict.fromkeys(one.method for one in releases))
    parts = [_method([one for one in releases if one.method == name]) for name in methods]
    if not parts:
        parts = [element("p", "Nothing has been released yet.", class_="note")]
    return element("section", element("h2", "Every release"), *parts)


def _method(releases: Releases) -> Markup:
    """What was measured of one method's releases, and what left with each."""
    ordered = sorted(releases, key=lambda one: one.k)
    first = ordered[0]
    body = [
        (_named(name), *(measure_text(name, one.measures.get(name, nan)) for one in ordered))
        for name in first.measures
    ]
    head = ["Measure", *(f"K = {one.k}" for one in ordered)]
    left = [(f"K = {one.k}", f"{columns_text(one)} {left_out_text(one)}") for one in ordered]
    return details(
        f"{first.method}: {first.summary}",
        _listed(left),
        table("Measured on the released rows", head, body, class_="numbers measures"),
    )


def _listed(named: Iterable[tuple[str, str]]) -> Markup:
    parts = [part for name, text in named for part in (element("dt", name), element("dd", text))]
    return element("dl", *parts)


def _named(measure: str) -> Markup:
    return joined([measure, element("span", measure_words(measure), class_="words")])


def _over_k(caption: str, releases: Releases, text: Callable[[AnonymousRelease], str]) -> Markup:
    """A table of methods × K, methods in the order of the releases; nothing of no releases."""
    if not releases:
        return Markup()
    found = {(one.method, one.k): text(one) for one in releases}
    ks = sorted({k for _, k in found})
    body = [
        (method, *(found.get((method, k), _NONE) for k in ks))
        for method in dict.fromkeys(one.method for one in releases)
    ]
    return table(caption, ["Method", *(f"K = {k}" for k in ks)], body, class_="numbers")
