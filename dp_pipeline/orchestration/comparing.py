"""Comparing the releases of one data set over ε: a table, pictures, and the HTML report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dp_pipeline.orchestration.documents import from_documents
from dp_pipeline.orchestration.home import Home
from dp_pipeline.orchestration.io import pointed_bundle
from dp_pipeline.orchestration.lineage import open_lineage
from dp_pipeline.orchestration.storage import BundleStore
from dp_pipeline.release.bundle import Bundle
from dp_pipeline.reporting.charts import cluster_map, marginal_bars, utility_plot
from dp_pipeline.reporting.report import write_report
from dp_pipeline.reporting.rows import QualityRow
from dp_pipeline.reporting.summary import ReleaseSummary
from dp_pipeline.schema.spec import DatasetSpec

_TITLES = {
    "nicv": "Mean squared distance to the nearest released centre",
    "nicv_ratio": "NICV relative to k-means without privacy",
    "mean_tvd": "Total variation distance, mean over pairs of attributes",
}


@dataclass(frozen=True)
class Comparison:
    """What the comparison asset shows.

    pictures   (title, PNG)
    path       the HTML report
    """

    rows: tuple[QualityRow, ...]
    pictures: tuple[tuple[str, bytes], ...]
    path: Path


def compare(spec: DatasetSpec, home: Home, evaluations: Mapping[str, Any]) -> Comparison:
    """Table, pictures and HTML report from what was evaluated, over all ε.

    Under the account that the file declares: a report says for whom it protects.
    """
    open_lineage(spec, home)
    ascending = [evaluations[key] for key in spec.partition_keys if key in evaluations]
    rows = tuple(row for one in ascending for row in from_documents(one["rows"]))
    store = BundleStore(home.released)
    found = [
        (name, pointed_bundle(store, pointer), pointer["state"])
        for one in ascending
        for name, pointer in one["pointers"].items()
        if pointer is not None
    ]
    newest = {name: bundle for name, bundle, _ in found}
    pictures = (*_utility_pictures(rows), *(_picture(spec, b) for b in newest.values()))
    path = write_report(
        home.reports / f"{spec.name}.html",
        spec=spec,
        rows=rows,
        pictures=pictures,
        releases=[ReleaseSummary.of(bundle, state=state) for _, bundle, state in found],
    )
    return Comparison(rows, pictures, path)


def _utility_pictures(rows: Sequence[QualityRow]) -> list[tuple[str, bytes]]:
    metrics = [row.metric for row in rows]
    shown = [m for m in ("nicv_ratio", "nicv", "mean_tvd") if m in metrics][:1]
    return [("utility over ε", utility_plot(rows, metric=m, title=_TITLES[m])) for m in shown]


def _picture(spec: DatasetSpec, bundle: Bundle) -> tuple[str, bytes]:
    title = f"{bundle.facts['model']} at ε={bundle.facts['epsilon']}"
    if "centres" not in bundle.tables:
        return title, marginal_bars(bundle.tables["marginals"], title=title)
    centres = bundle.tables["centres"]
    columns = tuple(centres)
    points = np.stack(list(centres.values()), axis=1)
    box = spec.domain.box(columns)
    return title, cluster_map(columns, points, bundle.tables["synopsis"], box, title=title)
