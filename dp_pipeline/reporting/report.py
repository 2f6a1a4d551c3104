"""The report of one data set: a single HTML file that asks nothing of the network."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from dp_pipeline.reporting.html import Markup, footer, header, joined, write_page
from dp_pipeline.reporting.metrics import QualityRow
from dp_pipeline.reporting.promise import promise, protected_box
from dp_pipeline.reporting.sections import alarm, pictures, release_table, utility, warnings
from dp_pipeline.reporting.summary import ReleaseSummary
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.errors import BoundaryViolation

__all__ = ["ReleaseSummary", "write_report"]

Images = Sequence[tuple[str, bytes]]


def write_report(
    path: Path,
    *,
    spec: DatasetSpec,
    rows: Sequence[QualityRow],
    pictures: Images,
    releases: Sequence[ReleaseSummary],
    beside: Sequence[str] = (),
    written: datetime | None = None,
) -> Path:
    """Write one self-contained page to ``path`` and return it; an older page is replaced whole.

    pictures   (caption, PNG), shown in this order
    beside     releases of the same sensitive rows without ε, a text each
    written    the time on the page; now when None

    Raises BoundaryViolation for an exact number of data whose purpose is release.
    """
    _require_bought(spec, rows)
    body = _body(
        spec,
        rows=rows,
        images=pictures,
        releases=releases,
        beside=beside,
        written=written or datetime.now(UTC),
    )
    return write_page(path, title=f"{spec.title}: report", body=body)


def _require_bought(spec: DatasetSpec, rows: Sequence[QualityRow]) -> None:
    exact = sorted({row.metric for row in rows if row.scale is None})
    if spec.is_release and exact:
        raise BoundaryViolation(
            f"report of {spec.name}: expected numbers bought with ε, got exact {', '.join(exact)}"
        )


def _body(
    spec: DatasetSpec,
    *,
    rows: Sequence[QualityRow],
    images: Images,
    releases: Sequence[ReleaseSummary],
    beside: Sequence[str],
    written: datetime,
) -> Markup:
    kind = "Private release" if spec.is_release else "Benchmark on public rows"
    parts = (
        header(kind, title=spec.title, lead=spec.description),
        alarm(releases, beside=beside),
        warnings(releases),
        protected_box(spec, releases),
        utility(rows),
        pictures(images),
        release_table(releases),
        promise(spec),
        footer(f"Data set {spec.name}, population {spec.lineage}.", written),
    )
    return joined(parts)
