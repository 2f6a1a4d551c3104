"""Exact codes of prepared rows, for what reads rows as they are: nothing here is private."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.raw.ingest import read_stage
from dp_pipeline.raw.prepare import stages_of
from dp_pipeline.raw.readiness import require_prepared
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.schema.errors import DeclarationError
from dp_pipeline.schema.spec import DatasetSpec

STAGE = "discretized"


def require_codes(spec: DatasetSpec, snapshot: Snapshot) -> None:
    """NotPrepared unless the snapshot is prepared, DeclarationError for a data set without cells.

    Reads the manifest alone.
    """
    require_prepared(spec, snapshot)
    if STAGE not in stages_of(spec):
        raise DeclarationError(f"{spec.name}: expected attributes with cells, got none")


def exact_codes(spec: DatasetSpec, snapshot: Snapshot, names: Sequence[str]) -> NDArray[np.integer]:
    """Cell codes of some discrete attributes (n, len(names)), in the order of the prepared rows.

    A missing value of a nullable attribute is its last code. Raises what ``require_codes`` does,
    and Damaged when the rows are not as they were stored.
    """
    require_codes(spec, snapshot)
    table = read_stage(snapshot, STAGE)
    codes = np.empty((table.num_rows, len(names)), dtype=_smallest(spec, names), order="F")
    for at, name in enumerate(names):
        codes[:, at] = table.column(name).to_numpy()
    return codes


def _smallest(spec: DatasetSpec, names: Sequence[str]) -> np.dtype[np.integer]:
    """The smallest unsigned type that holds every code."""
    most = max((spec.domain[name].size for name in names), default=1)
    return np.min_scalar_type(most - 1)
