"""How far labels in an equivalence class are from those of the whole table. Worst classes.

p(s) is the share of label s in the table, q(s) in a class. NaN for no rows; 0, to rounding, where
all classes are like the table. A label that no row has counts for the steps of an order only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.metrics.equivalence_classes import EquivalenceClasses
from dp_pipeline.schema.encoding import FloatArray


def t_closeness(classes: EquivalenceClasses) -> float:
    """The t of labels without an order: the largest total variation ½ Σ_s |q(s) − p(s)|.

    In 0..1, which is the earth mover's distance where all labels are as far from each other.
    Source: Li, Li, Venkatasubramanian, "t-Closeness", ICDE 2007.

    >>> codes, target = np.array([[0], [0], [1], [1]]), np.array([0, 0, 1, 2])
    >>> t_closeness(EquivalenceClasses.of(codes, target, labels=3))
    0.5
    """
    gains = classes.shares - classes.overall[classes.labels]
    # What some labels have more is what the others have less.
    return _most(np.bincount(classes.groups, weights=np.maximum(gains, 0.0)))


def ordered_t_closeness(classes: EquivalenceClasses) -> float:
    """The t of labels in order: the largest Σ_i |Q_i − P_i|/(labels − 1), Q and P cumulative.

    Earth mover's distance over the codes: moving all rows from the first label to the last costs
    1. Steps are those of the declared labels; 0 where there is one only. Source: as
    ``t_closeness``.

    >>> codes, target = np.array([[0], [0], [1], [1]]), np.array([0, 0, 1, 2])
    >>> ordered_t_closeness(EquivalenceClasses.of(codes, target, labels=3))
    0.375
    """
    if not len(classes):
        return float("nan")
    table = np.cumsum(classes.totals) / classes.rows
    sums = np.concatenate([[0.0], np.cumsum(table)])
    reached = _cumulated(classes)
    ends = np.append(classes.labels[1:], len(table))
    ends[np.append(classes.starts[1:], len(reached)) - 1] = len(table)
    # Q stays the same from one label of a class to the next and P ascends, so it is passed once.
    passed = np.clip(np.searchsorted(table, reached), classes.labels, ends)
    below = (passed - classes.labels) * reached - (sums[passed] - sums[classes.labels])
    above = sums[ends] - sums[passed] - (ends - passed) * reached
    moved = np.bincount(classes.groups, weights=below + above)
    before_first = sums[classes.labels[classes.starts]]
    return _most(np.maximum(moved + before_first, 0.0) / max(1, len(table) - 1))


def delta_disclosure(classes: EquivalenceClasses, *, absent: bool = True) -> float:
    """The δ of δ-disclosure: the largest |ln(q(s)/p(s))|; it holds for every larger δ.

    absent   whether labels count that other classes have and a class has not: it is then
             infinite, as in the source; without them only those that the class has count

    Source: Brickell, Shmatikov, "The cost of privacy", KDD 2008.

    >>> codes, target = np.array([[0], [0], [1], [1]]), np.array([0, 0, 1, 2])
    >>> classes = EquivalenceClasses.of(codes, target, labels=3)
    >>> delta_disclosure(classes), round(delta_disclosure(classes, absent=False), 3)
    (inf, 0.693)
    """
    if not len(classes):
        return float("nan")
    occurring = np.count_nonzero(classes.totals)
    if absent and classes.labels_of_class.min() < occurring:
        return float("inf")
    return _most(np.abs(np.log(classes.shares / classes.overall[classes.labels])))


def beta_likeness(classes: EquivalenceClasses) -> float:
    """The β of basic β-likeness: the largest (q(s) − p(s))/p(s), gains only, so at least 0.

    How much likelier a label gets, at most, for who knows the class. Source: Cao, Karras,
    "Publishing microdata with a robust privacy guarantee", PVLDB 2012.

    >>> codes, target = np.array([[0], [0], [1], [1]]), np.array([0, 0, 1, 2])
    >>> beta_likeness(EquivalenceClasses.of(codes, target, labels=3))
    1.0
    """
    overall = classes.overall[classes.labels]
    return _most(np.maximum(classes.shares - overall, 0.0) / overall)


def _cumulated(classes: EquivalenceClasses) -> FloatArray:
    """Share of a class's rows up to the label of each entry (entries,), 1 at its last."""
    counts = np.cumsum(classes.counts)
    before = np.concatenate([[0], np.cumsum(classes.sizes)])[classes.groups]
    return np.asarray((counts - before) / classes.sizes[classes.groups])


def _most(values: NDArray[Any]) -> float:
    return float(values.max()) if len(values) else float("nan")
