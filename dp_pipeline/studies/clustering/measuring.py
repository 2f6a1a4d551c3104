"""Measuring one cell: fit the system on a curator in memory, then compare with the rows."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from dp_pipeline.models.base import claim_of
from dp_pipeline.raw.comparison import clustering_quality
from dp_pipeline.release.clusters import Clusters
from dp_pipeline.schema.errors import BoundaryViolation, DeclarationError
from dp_pipeline.schema.spec import DatasetSpec
from dp_pipeline.studies.benchmark import opened
from dp_pipeline.studies.clustering.cell import Cell
from dp_pipeline.studies.clustering.systems import known_systems, shared_parameters
from dp_pipeline.studies.fit import Fit
from dp_pipeline.studies.journal import Row

METRICS = ("nicv", "nicv_floor", "nicv_ratio", "f_kmeans", "ari_kmeans", "f_label", "ari_label")
"""Of ``raw.comparison.clustering_quality``; those with a label only where one is declared."""


@dataclass(frozen=True)
class Measuring:
    """Measures cells over the benchmarks that were prepared in a study's folder."""

    folder: Path

    def __call__(self, cell: Cell) -> Row:
        """One row: the cell, what it claims and costs, its metrics, and seconds of the fit.

        A system that refuses a data set at some ε gives a row with a ``failure`` and no
        metrics: hours of other cells are not lost for it.
        """
        benchmark, epsilon = opened(self.folder, cell.dataset), Fraction(cell.epsilon)
        model = known_systems()[cell.system].build(benchmark.spec, cell.planning)
        claim = claim_of(model, epsilon)
        row: dict[str, Any] = {
            **asdict(cell),
            "declared": declared_digest(benchmark.spec),
            "claim": claim.kind,
            "epsilon_charged": claim.composed,
            "reason": claim.reason,
            **dict.fromkeys((*METRICS, "seconds")),
            "failure": "",
        }
        try:
            fit = Fit.of(
                model,
                benchmark.counter(),
                benchmark.spec,
                epsilon=epsilon,
                claim=claim,
                key=cell.key,
            )
        except (BoundaryViolation, DeclarationError) as error:
            return {**row, "failure": str(error)}
        fit.require_claimed(claim, cell.key)
        assert isinstance(fit.released, Clusters)
        columns, centres = fit.released.columns, fit.released.centres
        quality = clustering_quality(benchmark.spec, benchmark.snapshot, columns, centres)
        known = {name: quality[name] for name in METRICS if name in quality}
        finite = {name: value for name, value in known.items() if math.isfinite(value)}
        return {**row, **finite, "seconds": fit.seconds}


def declared_digest(spec: DatasetSpec) -> str:
    """12 hex digits of what the file of a data set says to a study; other cells than these are
    of another data set with the same name.
    """
    said = [spec.digest, spec.source.identity, spec.nominal_rows, spec.label]
    text = json.dumps([*said, shared_parameters(spec)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
