"""Cards, reports and summaries of releases at an ε or a K, from the templates in ``templates/``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, NamedTuple

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.reporting.figures.picture import Picture
from dp_pipeline.reporting.metrics import (
    QualityRow,
    SummaryTable,
    metrics_of,
    pivot,
    sample_words,
)
from dp_pipeline.reporting.prices import BudgetForecast, Prices, prices_of
from dp_pipeline.reporting.releases import (
    ReportedKAnonymousRelease,
    ReportedRelease,
    Standing,
)
from dp_pipeline.reporting.rendering import render, write_page
from dp_pipeline.results.bundle import REFINES, TABLES


class Timeline(NamedTuple):
    """A table, as texts, with a line for each time window, the newest first."""

    head: list[str]
    lines: list[list[str]]


def card(release: ReportedRelease) -> str:
    """Return the card of one release in Markdown, at most 100 lines.

    The bundle of a private release does not have it: a bundle never changes, but the sum of all
    charges grows. Raises BoundaryViolation for what ``require_showable`` refuses."""
    release.require_showable()
    level = "k" if release.bundle.is_k_anonymous else "epsilon"
    return render(f"card_{level}.md.j2", release=release, tables=TABLES)


def write_report(  # noqa: PLR0913
    path: Path,
    *,
    level: Literal["epsilon", "k"] | Timeline,
    spec: DatasetSpec,
    releases: Sequence[ReportedRelease],
    pictures: Sequence[Picture] = (),
    rows: Sequence[QualityRow] = (),
    non_dp_releases: Sequence[str] = (),
    forecast: BudgetForecast | None = None,
    written: datetime | None = None,
) -> Path:
    """Write the HTML report of a data set over all ε, all K or all time windows; return its path.

    level             ``epsilon`` or ``k``; for a report over time windows the table of these
    releases          releases of that level; over K at most one for each method and K
    pictures          pictures of the releases
    rows              quality numbers, for a report over ε
    non_dp_releases   a text for each release of the same sensitive rows without ε
    forecast          what the population has spent and can afford; None over K
    written           the time on the page; None: now

    An older page is replaced. Raises BoundaryViolation for an exact number of data whose purpose is
    release, for pictures of such data over K, and for what ``require_showable`` refuses.
    """
    for release in releases:
        release.require_showable()
    timeline, name = (level, "window") if isinstance(level, Timeline) else (None, level)
    _require_noisy(spec, name, rows, pictures)
    facts = _k_anonymous_facts(releases) if level == "k" else _private_facts(releases, rows)
    return write_page(
        path,
        f"report_{name}.html.j2",
        spec=spec,
        releases=releases,
        warnings=_group_texts((text, r.name) for r in releases for text in r.warnings),
        missing=_group_texts((r.missing_line, r.name) for r in releases if r.missing_line),
        left_out=_group_texts(
            (r.omitted_rows_line, r.name) for r in releases if r.omitted_rows_line
        ),
        pictures=pictures,
        non_dp_releases=non_dp_releases,
        forecast=forecast,
        written=written or datetime.now(UTC),
        timeline=timeline,
        **facts,
    )


def summary_over_epsilon(rows: Sequence[QualityRow], prices: Prices) -> str | None:
    """Return a Markdown table of every model at the largest ε, best first; None without rows."""
    if (table := SummaryTable.of(rows, prices)) is None:
        return None
    return render("summary.md.j2", level="epsilon", summary=table).rstrip("\n")


def summary_over_k(releases: Sequence[ReportedKAnonymousRelease]) -> str:
    """Return a Markdown table of methods × K, with the AUC of each release that has one."""
    aucs = pivot([row for release in releases for row in release.exact], "auc")
    text = render("summary.md.j2", level="k", grid=Grid.of(releases), aucs=aucs)
    return text.rstrip("\n")


def _require_noisy(
    spec: DatasetSpec, level: str, rows: Sequence[QualityRow], pictures: Sequence[Picture]
) -> None:
    exact = sorted({row.metric for row in rows if row.scale is None})
    if spec.is_release and exact:
        raise BoundaryViolation(
            f"The report of {spec.name} must not show exact numbers of sensitive rows, but it has "
            f"{', '.join(exact)}"
        )
    if spec.is_release and level == "k" and pictures:
        raise BoundaryViolation(
            f"The report of {spec.name} must not show pictures of sensitive rows, but it has "
            f"{len(pictures)}"
        )


def _private_facts(releases: Sequence[Any], rows: Sequence[QualityRow]) -> dict[str, Any]:
    releasable = [release for release in releases if release.bundle.is_releasable]
    bundles = [release.bundle for release in releasable]
    keys = {bundle.key for bundle in bundles}
    # What a refinement shares with the release that it refines counts once.
    costs = (b.charged if b.facts.get(REFINES) in keys else b.charged_in_all for b in bundles)
    prices = prices_of(releases)
    caveats = {
        standing: _group_texts(
            (r.bundle.caveat, r.name) for r in releases if r.standing == standing
        )
        for standing in (Standing.NOT_DP, Standing.ANOTHER_EPSILON)
    }
    return {
        "fit": len(releasable),
        "spent": sum(costs, Fraction(0)),
        "drawable": [release.name for release in releases if release.is_unfit_by_noise],
        "caveats": {standing: texts for standing, texts in caveats.items() if texts},
        "prices": prices,
        "summary": SummaryTable.of(rows, prices),
        "tables": [pivot(rows, metric) for metric in metrics_of(rows)],
        "has_noisy_numbers": any(row.scale is not None for row in rows),
        "sample_words": sample_words(rows),
    }


class Grid(NamedTuple):
    """A table methods × K of k-anonymous releases.

    heads   a text for each K, ascending
    lines   (method, its release or None for each K); methods in the order of their releases
    """

    heads: list[str]
    lines: list[tuple[str, list[ReportedKAnonymousRelease | None]]]

    @classmethod
    def of(cls, releases: Sequence[ReportedKAnonymousRelease]) -> Grid:
        by_method_and_k = {(release.method, release.k): release for release in releases}
        ks = sorted({release.k for release in releases})
        methods = dict.fromkeys(release.method for release in releases)
        lines = [(method, [by_method_and_k.get((method, k)) for k in ks]) for method in methods]
        return cls([f"K = {k}" for k in ks], lines)


def _k_anonymous_facts(releases: Sequence[Any]) -> dict[str, Any]:
    rows = [row for release in releases for row in release.exact]
    by_method: dict[str, list[ReportedKAnonymousRelease]] = {}
    for release in sorted(releases, key=lambda release: release.k):
        by_method.setdefault(release.method, []).append(release)
    return {
        "grid": Grid.of(releases),
        "tables": [pivot(rows, metric) for metric in metrics_of(rows)],
        "by_method": {method: by_method[method] for method, _ in Grid.of(releases).lines},
        "diverse": _group_texts(
            (f"{r.method} {r.diversity}", str(r.k)) for r in releases if r.diversity > 1
        ),
    }


def _group_texts(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return first text of a pair → the second texts of all pairs with it, in their order."""
    groups: dict[str, list[str]] = {}
    for text, name in pairs:
        groups.setdefault(text, []).append(name)
    return groups
