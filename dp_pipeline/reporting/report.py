"""The report of one data set: a single HTML file that asks nothing of the network."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from dp_pipeline.reporting.markup import Markup, element, joined
from dp_pipeline.reporting.page_style import STYLE
from dp_pipeline.reporting.promise import promise, protected_box
from dp_pipeline.reporting.rows import QualityRow
from dp_pipeline.reporting.sections import alarm, pictures, release_table, utility
from dp_pipeline.reporting.summary import ReleaseSummary
from dp_pipeline.schema.errors import BoundaryViolation
from dp_pipeline.schema.spec import DatasetSpec

__all__ = ["ReleaseSummary", "write_report"]

_CONTENT_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""The browser itself refuses scripts and everything from elsewhere."""

Images = Sequence[tuple[str, bytes]]


def write_report(
    path: Path,
    *,
    spec: DatasetSpec,
    rows: Sequence[QualityRow],
    pictures: Images,
    releases: Sequence[ReleaseSummary],
    written: datetime | None = None,
) -> Path:
    """Write one self-contained page to ``path`` and return it; an older page is replaced whole.

    pictures   (caption, PNG), shown in this order
    written    the time on the page; now when None

    Raises BoundaryViolation for an exact number of data whose purpose is release.
    """
    _require_bought(spec, rows)
    time = written or datetime.now(UTC)
    page = _page(spec, rows=rows, images=pictures, releases=releases, written=time)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        temporary.write_text(page, encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def _require_bought(spec: DatasetSpec, rows: Sequence[QualityRow]) -> None:
    exact = sorted({row.metric for row in rows if row.scale is None})
    if spec.is_release and exact:
        raise BoundaryViolation(
            f"report of {spec.name}: expected numbers bought with ε, got exact {', '.join(exact)}"
        )


def _page(
    spec: DatasetSpec,
    *,
    rows: Sequence[QualityRow],
    images: Images,
    releases: Sequence[ReleaseSummary],
    written: datetime,
) -> str:
    body = element(
        "main",
        _header(spec),
        alarm(releases),
        protected_box(spec, releases),
        utility(rows),
        pictures(images),
        release_table(releases),
        promise(spec),
        _footer(spec, written),
    )
    page = element("html", _head(spec), element("body", body), lang="en")
    return f"<!doctype html>\n{page}\n"


def _head(spec: DatasetSpec) -> Markup:
    return element(
        "head",
        element("meta", charset="utf-8"),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{_CONTENT_POLICY}">'),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("link", rel="icon", href="data:,"),
        element("title", f"{spec.title}: report"),
        element("style", Markup(STYLE)),
    )


def _header(spec: DatasetSpec) -> Markup:
    kind = "Private release" if spec.is_release else "Benchmark on public rows"
    return element(
        "header",
        element("p", kind, class_="eyebrow"),
        element("h1", spec.title),
        element("p", spec.description, class_="lead"),
    )


def _footer(spec: DatasetSpec, written: datetime) -> Markup:
    time = element("time", f"{written:%Y-%m-%d %H:%M %Z}".strip(), datetime=written.isoformat())
    words = joined([f"Data set {spec.name}, population {spec.lineage}. Written ", time, "."])
    return element("footer", element("p", words, class_="note"))
