"""Buying how good a class table is: what the rates of its classes say about true labels."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dp_pipeline.gate.curator import Curator
from dp_pipeline.metrics.class_auc import ClassAuc
from dp_pipeline.release.bit_classes import CLASS
from dp_pipeline.release.class_table import ClassTable
from dp_pipeline.release.derived_attribute import DerivedAttribute
from dp_pipeline.release.measurement import NoisyNumber

PUBLISHED = "published class"
"""A derived attribute: the place among the published classes, the others together at the end."""


def buy_class_quality(
    curator: Curator, table: ClassTable, *, epsilon: Fraction
) -> dict[str, NoisyNumber]:
    """``auc_class_rate/<label>``: AUC of the published classes' rates, and of the overall one for
    all other rows, against the true labels. Spends exactly ``epsilon``.

    The label's table over published classes, and the others as one, is measured once more: one row
    is in one cell, Δ1 = 1 a row. The released counts know their own noise, so they cannot tell
    how well their rates do.
    """
    counts = _measured(curator, table, epsilon)
    found = ClassAuc.of(counts, table.rates)
    if np.isnan(found.value):
        # As if nothing was known, and as far off as anything.
        return {f"auc_class_rate/{table.label}": NoisyNumber(0.5, 0.5, "share")}
    # To first order, with the same noise in every cell; an AUC is never further off than 1.
    scale = float(curator.reach / epsilon) * float(np.sqrt((found.gradient**2).sum()))
    value = min(1.0, max(0.0, found.value))
    return {f"auc_class_rate/{table.label}": NoisyNumber(value, min(1.0, scale), "share")}


def _measured(curator: Curator, table: ClassTable, epsilon: Fraction) -> np.ndarray:
    """Noisy counts (p + 1, C); of the last line 0 where every class is published."""
    classes = table.classes
    view = curator.with_attributes(classes.derived_groups())
    view = view.with_attributes(classes.derived_class())
    places = tuple(table.places.tolist())
    view = view.with_attributes({PUBLISHED: DerivedAttribute((CLASS,), places)})
    noisy = view.measure((table.label, PUBLISHED), epsilon=epsilon).table.T
    return np.vstack([noisy, np.zeros((len(table.rates) - len(noisy), noisy.shape[1]), np.int64)])
