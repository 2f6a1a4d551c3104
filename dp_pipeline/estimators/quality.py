"""What a fitted estimator's release is worth on rows that its user holds: exact, for her alone.

Without rows, what the release's own noisy answers say of it, which is as private as the release.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np

from dp_pipeline.estimators.declared import DeclaredColumn
from dp_pipeline.estimators.frames import features_of, numeric_columns, plain_frame
from dp_pipeline.estimators.rows import declared_values, prepared_rows
from dp_pipeline.metrics.clustering import nicv
from dp_pipeline.publish.quality import Comparison
from dp_pipeline.raw.evaluate import reference_of
from dp_pipeline.release.synthetic_table import SyntheticTable
from dp_pipeline.reporting.noisy_answers import NoisyAnswers
from dp_pipeline.reporting.quality import ClusteringQuality, QualityReport
from dp_pipeline.spec.domain import Domain
from dp_pipeline.spec.encoding import FloatArray
from dp_pipeline.spec.errors import DeclarationError


def table_report(
    table: SyntheticTable,
    columns: tuple[DeclaredColumn, ...],
    domain: Domain,
    *,
    real: Any,
    label: str | None,
) -> QualityReport:
    """Of the rows that were drawn when it was fitted.

    real   a frame or array as ``fit`` takes it, or None

    DeclarationError for a table without a declared column, for a label that classifiers cannot
    tell, and for a label without real rows.
    """
    codes = dict(zip(table.attributes, np.ascontiguousarray(table.codes.T), strict=True))
    answers = NoisyAnswers.of_table(table)
    released = QualityReport(
        rows=len(table.codes),
        measured=answers.compared(codes, domain),
        unmeasured=answers.unmeasured(codes),
    )
    if real is None:
        if label is not None:
            raise DeclarationError("label: expected none without real rows, got one")
        return released
    # Declared levels keep a cache of the texts that they have met: these columns are pickled.
    known = copy.deepcopy(columns)
    values = declared_values(features_of(real, typed=False), known)
    rows = prepared_rows(values, known, refuse=False, constraints=domain.constraints)
    exact = Comparison(domain, rows.codes, codes).report(label=label)
    return replace(exact, measured=released.measured, unmeasured=released.unmeasured)


def clustering_report(centres: FloatArray, bounds: FloatArray, real: Any) -> ClusteringQuality:
    """Of released centres; rows as a fit has them: clipped to the box, and none with NaN.

    DeclarationError for another number of columns, and for no row.
    """
    columns = numeric_columns(plain_frame(real))
    if len(columns) != len(bounds):
        raise DeclarationError(f"X: expected {len(bounds)} columns, got {len(columns)}")
    points = np.stack([column.astype(np.float64) for column in columns], axis=1)
    points = np.clip(points[~np.isnan(points).any(axis=1)], bounds[:, 0], bounds[:, 1])
    if not len(points):
        raise DeclarationError("X: expected a row without a missing number, got none")
    floor = nicv(points, reference_of(points, len(centres)))
    return ClusteringQuality(len(points), nicv(points, centres), floor)
