"""Squared distances of fixed-point rows to their nearest centre, exact to the last digit."""

from __future__ import annotations

import numpy as np

from dp_pipeline.gate.nearest_centre import NearestCentre
from dp_pipeline.raw.counters.nearest import Assignment, Columns


def exact_distance_total(
    rule: NearestCentre, columns: Columns, *, rows: int, clip: int, shift: int
) -> int:
    """Σ over rows of min(D, clip) >> shift, D = min over centres of Σ (weight · (q − c))².

    columns   coordinates (rows,), in the order of the rule's
    """
    assignment = Assignment(rule)
    most = min(clip, rule.largest_distance)
    total = 0
    for block in assignment.blocks(rows):
        part = [column[block] for column in columns]
        exact = (assignment.differences(part, assignment.labels(part)) ** 2).sum(axis=0)
        total += int((np.minimum(exact, most) >> shift).sum())
    return total
