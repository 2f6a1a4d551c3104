"""Buying how good a class table is: what the rates of its classes say about true labels."""

from __future__ import annotations

from dataclasses import replace
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
    """``auc_class_rate/<label>``: AUC of the published classes' rates, and for all other rows of
    the rates of the published classes together, against the true labels. Spends exactly
    ``epsilon``.

    The label's table over published classes, and the others as one, is measured once more: one row
    is in one cell, Δ1 = 1 a row. The released counts know their own noise, so they cannot tell
    how well their rates do.

    The others may be a single class, whose counts can be computed from a bought number that they
    are in. So they must be as large as a published class, by this noise, or count as none; what
    they may have changed is added to the scale. A class of fewer than K persons that is withheld
    alone is in the number with a probability of β at most.
    """
    counts, left_out = _measured(curator, table, epsilon)
    found = ClassAuc.of(counts, table.rates)
    if np.isnan(found.value):
        # As if nothing was known, and as far off as anything.
        return {f"auc_class_rate/{table.label}": NoisyNumber(0.5, 0.5, "share")}
    # To first order, with the same noise in every cell; an AUC is never further off than 1.
    scale = float(curator.reach / epsilon) * float(np.sqrt((found.gradient**2).sum()))
    scale += left_out * float(np.abs(found.gradient[-1]).max())
    value = min(1.0, max(0.0, found.value))
    return {f"auc_class_rate/{table.label}": NoisyNumber(value, min(1.0, scale), "share")}


def _measured(curator: Curator, table: ClassTable, epsilon: Fraction) -> tuple[np.ndarray, int]:
    """Noisy counts (p + 1, C), of the last line 0 where every class is published or the others are
    too small, and how many rows may so be left out.
    """
    classes = table.classes
    view = curator.with_attributes(classes.derived_groups())
    view = view.with_attributes(classes.derived_class())
    places = tuple(table.places.tolist())
    view = view.with_attributes({PUBLISHED: DerivedAttribute((CLASS,), places)})
    noisy = view.measure((table.label, PUBLISHED), epsilon=epsilon)
    counts, published = noisy.table.T, len(table.published)
    least = replace(table.promise, rows=curator.reach, scale=noisy.scale).least_size
    if counts[published:].sum() >= least:
        return counts, 0
    nothing = np.zeros((1, counts.shape[1]), dtype=np.int64)
    return np.vstack([counts[:published], nothing]), (len(counts) - published) * least
