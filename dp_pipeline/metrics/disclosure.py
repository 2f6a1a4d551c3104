"""What a released table still tells of single rows. Released codes in, numbers out.

Tables are arrays, without an index: rows go by place, so a permuted or filtered frame cannot
change a measure, and no row is left out because something in it is missing.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.metrics.containment import containment_k, is_binary
from dp_pipeline.metrics.equivalence_classes import EquivalenceClasses
from dp_pipeline.metrics.label_closeness import (
    beta_likeness,
    delta_disclosure,
    ordered_t_closeness,
    t_closeness,
)
from dp_pipeline.metrics.label_diversity import (
    distinct_labels,
    entropy_labels,
    homogeneous_rows,
    largest_share,
    recursive_c,
)
from dp_pipeline.schema.encoding import FloatArray, IntArray

MOST_DIFFERENT_ROWS = 5000
"""Classes that a report looks for containment in at most: its time grows with their square."""

_NAN = float("nan")


@dataclass(frozen=True)
class DisclosureReport:
    """What was measured of one released table. Each is that of the worst class, or a sum.

    rows, classes             how many
    promised_k                that the table was asked for
    k                         rows of the smallest class; 0 for no rows
    rows_in_small_classes     rows of classes below the promised k
    highest_risk, mean_risk   of a row to be found by who knows its released columns: 1/size of
                              its class, the highest one, and the mean over rows, classes/rows
    alpha                     of (α,k)-anonymity
    distinct_l, entropy_l     of distinct and of entropy l-diversity
    recursive_c               of recursive (c,2)-diversity; infinite where a class has one label
    homogeneous_rows          rows of classes with one label
    t_closeness               of labels without an order
    ordered_t_closeness       of labels in order; NaN for others
    delta_disclosure          infinite where a class lacks a label that occurs
    present_delta_disclosure  over the labels of each class
    beta_likeness             basic
    containment_k             the weaker notion of ``containment_k``, which is no k-anonymity;
                              NaN for codes that are no bits and for many different rows

    NaN for no rows where nothing else is said. A measure says nothing of columns that are not in
    the table, nor of what a second release adds.
    """

    rows: int
    classes: int
    promised_k: int
    k: int
    rows_in_small_classes: int
    highest_risk: float
    mean_risk: float
    alpha: float
    distinct_l: int
    entropy_l: float
    recursive_c: float
    homogeneous_rows: int
    t_closeness: float
    ordered_t_closeness: float
    delta_disclosure: float
    present_delta_disclosure: float
    beta_likeness: float
    containment_k: float

    def facts(self) -> dict[str, float]:
        """Every number by its name, always the same names; some may be infinite or NaN."""
        return {name: float(value) for name, value in asdict(self).items()}


def disclosure_report(
    codes: NDArray[Any],
    target: NDArray[Any],
    *,
    labels: int,
    ordered: bool = False,
    k: int,
    bits: bool = True,
) -> DisclosureReport:
    """All measures of a table as released.

    codes     (n, m) whole numbers ≥ 0; a missing value is a level of its own and has a code
    target    (n,) codes of the sensitive label, in 0..labels − 1, a missing one likewise
    ordered   whether the labels ascend with their codes
    k         that was promised; 0 and 1 promise nothing
    bits      whether 0 and 1 are answers, no and yes; of other things containment says nothing,
              even where there are two

    Without columns all rows are one class. DeclarationError for what is no table of codes.

    >>> codes, target = np.array([[0], [0], [1], [1], [1]]), np.array([0, 1, 1, 1, 1])
    >>> report = disclosure_report(codes, target, labels=2, k=3)
    >>> report.k, report.rows_in_small_classes, report.distinct_l, report.homogeneous_rows
    (2, 2, 1, 3)
    """
    classes = EquivalenceClasses.of(codes, target, labels=labels)
    return DisclosureReport(
        rows=classes.rows,
        classes=len(classes),
        promised_k=k,
        k=smallest_class(classes.sizes),
        rows_in_small_classes=rows_in_small_classes(classes.sizes, k=k),
        highest_risk=float(risks(classes.sizes).max()) if len(classes) else _NAN,
        mean_risk=len(classes) / classes.rows if len(classes) else _NAN,
        alpha=largest_share(classes),
        distinct_l=distinct_labels(classes),
        entropy_l=entropy_labels(classes),
        recursive_c=recursive_c(classes, diversity=2),
        homogeneous_rows=homogeneous_rows(classes),
        t_closeness=t_closeness(classes),
        ordered_t_closeness=ordered_t_closeness(classes) if ordered else _NAN,
        delta_disclosure=delta_disclosure(classes),
        present_delta_disclosure=delta_disclosure(classes, absent=False),
        beta_likeness=beta_likeness(classes),
        containment_k=_containment(codes, len(classes)) if bits else _NAN,
    )


def smallest_class(sizes: IntArray) -> int:
    """The k of k-anonymity: rows of the smallest of the classes (classes,); 0 for none.

    Source: Sweeney, "k-anonymity: a model for protecting privacy", 2002.
    """
    return int(sizes.min()) if len(sizes) else 0


def rows_in_small_classes(sizes: IntArray, *, k: int) -> int:
    """Rows of classes with less than k rows.

    >>> rows_in_small_classes(np.array([1, 4, 2]), k=3)
    3
    """
    return int(sizes[sizes < k].sum())


def risks(sizes: IntArray) -> FloatArray:
    """For every class the chance that a guess finds one of its rows (classes,): 1/size."""
    return np.asarray(1.0 / sizes)


def _containment(codes: NDArray[Any], classes: int) -> float:
    if classes > MOST_DIFFERENT_ROWS or not is_binary(codes):
        return _NAN
    return float(containment_k(codes))
