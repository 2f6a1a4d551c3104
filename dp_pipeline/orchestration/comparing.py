"""Comparing the releases of one data set over ε: a table, pictures, and the HTML report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dp_pipeline.ledger.home import Home
from dp_pipeline.orchestration.documents import from_documents
from dp_pipeline.orchestration.io import pointed_bundle
from dp_pipeline.orchestration.lineage import open_lineage
from dp_pipeline.orchestration.storage import BundleStore
from dp_pipeline.release.bundle import Bundle
from dp_pipeline.reporting.charts import cluster_maps, marginal_bars, utility_plot
from dp_pipeline.reporting.cluster_view import ClusterView
from dp_pipeline.reporting.model_labels import model_labels
from dp_pipeline.reporting.relative import relative_rows
from dp_pipeline.reporting.report import write_report
from dp_pipeline.reporting.rows import QualityRow
from dp_pipeline.reporting.summary import ReleaseSummary
from dp_pipeline.reporting.summary_table import SummaryTable
from dp_pipeline.schema.spec import DatasetSpec

_TITLES = {
    "nicv": "Mean squared distance to the nearest released centre",
    "nicv_ratio": "NICV relative to k-means without privacy",
    "mean_tvd": "Total variation distance, mean over pairs of attributes",
}


@dataclass(frozen=True)
class Comparison:
    """What the comparison asset shows.

    summary    the best model first, a line and a table of at most five columns in markdown;
               None without numbers
    pictures   (title, PNG)
    path       the HTML report
    """

    rows: tuple[QualityRow, ...]
    summary: str | None
    pictures: tuple[tuple[str, bytes], ...]
    path: Path


def compare(spec: DatasetSpec, home: Home, evaluations: Mapping[str, Any]) -> Comparison:
    """Table, pictures and HTML report from what was evaluated, over all ε.

    Under the account that the file declares: a report says for whom it protects.
    """
    open_lineage(spec, home)
    ascending = [evaluations[key] for key in spec.partition_keys if key in evaluations]
    evaluated = [row for one in ascending for row in from_documents(one["rows"])]
    store = BundleStore(home.released)
    found = [
        (name, pointed_bundle(store, pointer), pointer["state"])
        for one in ascending
        for name, pointer in one["pointers"].items()
        if pointer is not None
    ]
    newest = {name: bundle for name, bundle, _ in found}
    labels = model_labels(newest.values())
    named = [replace(row, model=labels.get(row.model, row.model)) for row in evaluated]
    rows = (*named, *relative_rows(named))
    pictures = (*_utility_pictures(rows), *_pictures(spec, list(newest.values())))
    path = write_report(
        home.reports / f"{spec.name}.html",
        spec=spec,
        rows=rows,
        pictures=pictures,
        releases=[ReleaseSummary.of(bundle, state=state) for _, bundle, state in found],
    )
    summary = SummaryTable.of(rows)
    text = None if summary is None else f"{summary.caption}\n\n{summary.markdown()}"
    return Comparison(rows, text, pictures, path)


def _utility_pictures(rows: Sequence[QualityRow]) -> list[tuple[str, bytes]]:
    metrics = [row.metric for row in rows]
    shown = [m for m in ("nicv_ratio", "nicv", "mean_tvd") if m in metrics][:1]
    return [("utility over ε", utility_plot(rows, metric=m, title=_TITLES[m])) for m in shown]


def _pictures(spec: DatasetSpec, bundles: Sequence[Bundle]) -> list[tuple[str, bytes]]:
    """One picture with a map of every clustering, then one picture a table."""
    maps = [one for one in bundles if "centres" in one.tables]
    tables = [one for one in bundles if "centres" not in one.tables]
    bars = [(_title(b), marginal_bars(b.tables["marginals"], title=_title(b))) for b in tables]
    return [*_maps(spec, maps), *bars]


def _maps(spec: DatasetSpec, bundles: Sequence[Bundle]) -> list[tuple[str, bytes]]:
    """One picture of the clusterings, if there are any; ε stands where it is not the same."""
    if not bundles:
        return []
    epsilons = {bundle.facts["epsilon"] for bundle in bundles}
    views = [
        ClusterView.of(
            bundle.model if len(epsilons) == 1 else _title(bundle),
            bundle.tables,
            spec.domain.box(tuple(bundle.tables["centres"])),
        )
        for bundle in bundles
    ]
    title = _title(bundles[0])
    if len(bundles) > 1:
        where = f"ε={epsilons.pop()}" if len(epsilons) == 1 else "the largest ε of each"
        title = f"Centres of {len(bundles)} models at {where}"
    return [(title, cluster_maps(views, title=title))]


def _title(bundle: Bundle) -> str:
    return f"{bundle.model} at ε={bundle.facts['epsilon']}"
