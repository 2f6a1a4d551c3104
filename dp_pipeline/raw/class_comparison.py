"""Exact answers about released class tables, for internal evaluation: the steward's side only.

See ``raw.comparison`` for who may see the numbers.
"""

from __future__ import annotations

import numpy as np

from dp_pipeline.metrics.class_auc import ClassAuc
from dp_pipeline.metrics.class_tables import class_table
from dp_pipeline.raw.ingest import read_stage
from dp_pipeline.raw.readiness import require_prepared
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.release.class_table import ClassTable
from dp_pipeline.schema.spec import DatasetSpec


def class_quality(spec: DatasetSpec, snapshot: Snapshot, table: ClassTable) -> dict[str, float]:
    """How good a released class table is on the prepared rows.

    ``auc_class_rate/<label>``: AUC of the published classes' rates, and for all other rows of the
    rates of the published classes together, against the true labels; of more than two labels the
    mean over each against the rest. ``withheld``: share of the rows whose class is not published:
    exact, and of public rows alone. NaN with no prepared rows.

    NotPrepared unless the snapshot is prepared.
    """
    require_prepared(spec, snapshot)
    stored = read_stage(snapshot, "discretized")
    codes = {name: stored.column(name).to_numpy() for name in table.classes.groups}
    labels = stored.column(table.label).to_numpy().astype(np.int64)
    rates = table.rates
    counts = class_table(table.places_of(codes), labels, shape=rates.shape)
    rows = int(counts.sum())
    return {
        f"auc_class_rate/{table.label}": ClassAuc.of(counts, rates).value,
        "withheld": int(counts[-1].sum()) / rows if rows else float("nan"),
    }
