"""What a released table still tells of single rows, in its worst class: how far labels are from
those of the whole table, how many of them are left, and containment. Released codes in, numbers
out.

Rows go by place, so a permuted or filtered frame cannot change a measure, and none is left out for
what is missing in it. p(s) is the share of label s in the table, q(s) in a class. NaN for no rows;
0, to rounding, where all classes are like the table. A label that no row has counts for the steps
of an order only.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.encoding import FloatArray, IntArray
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.metrics.equivalence_classes import EquivalenceClasses, class_ids


def t_closeness(classes: EquivalenceClasses) -> float:
    """Return the t of labels without an order: the largest total variation ½ Σ_s |q(s) − p(s)|.

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
    """Return the t of labels in order: the largest Σ_i |Q_i − P_i|/(labels − 1), Q and P
    cumulative.

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
    earlier_rows = np.concatenate([[0], np.cumsum(classes.sizes)])[classes.groups]
    # Share of a class's rows up to the label of each entry (entries,), 1 at its last.
    reached = (np.cumsum(classes.counts) - earlier_rows) / classes.sizes[classes.groups]
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
    """Return the δ of δ-disclosure: the largest |ln(q(s)/p(s))|; it holds for every larger δ.

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
    """Return the β of basic β-likeness: the largest (q(s) − p(s))/p(s), gains only, so at least 0.

    How much likelier a label gets, at most, for who knows the class. Source: Cao, Karras,
    "Publishing microdata with a robust privacy guarantee", PVLDB 2012.

    >>> codes, target = np.array([[0], [0], [1], [1]]), np.array([0, 0, 1, 2])
    >>> beta_likeness(EquivalenceClasses.of(codes, target, labels=3))
    1.0
    """
    overall = classes.overall[classes.labels]
    return _most(np.maximum(classes.shares - overall, 0.0) / overall)


def _most(values: NDArray[Any]) -> float:
    return float(values.max()) if len(values) else float("nan")


def largest_share(classes: EquivalenceClasses) -> float:
    """Return the α of (α,k)-anonymity: the largest share of one label in one class, in 0..1.

    Of every label, as all of them count as sensitive. NaN for no rows. Source: Wong, Li, Fu,
    Wang, "(α, k)-anonymity", KDD 2006.

    >>> codes, target = np.array([[0], [0], [0], [0]]), np.array([0, 0, 1, 2])
    >>> largest_share(EquivalenceClasses.of(codes, target, labels=3))
    0.5
    """
    return float(classes.shares.max()) if len(classes) else float("nan")


def distinct_labels(classes: EquivalenceClasses) -> int:
    """Return the l of distinct l-diversity: the fewest different labels of a class; 0 for no rows.

    Source: Machanavajjhala, Kifer, Gehrke, Venkitasubramaniam, "l-Diversity", TKDD 2007.

    >>> codes, target = np.array([[0], [0], [1], [1]]), np.array([0, 1, 2, 2])
    >>> distinct_labels(EquivalenceClasses.of(codes, target, labels=3))
    1
    """
    return int(classes.labels_of_class.min()) if len(classes) else 0


def entropy_labels(classes: EquivalenceClasses) -> float:
    """Return the l of entropy l-diversity: exp of the least entropy of a class, to rounding.

    A class with l labels as frequent as each other has l, one in which a label prevails less:
    how many labels it is worth. In 1..labels; NaN for no rows. Source: as ``distinct_labels``.

    >>> codes, target = np.array([[0], [0], [0], [0]]), np.array([0, 0, 1, 2])
    >>> round(entropy_labels(EquivalenceClasses.of(codes, target, labels=3)), 3)
    2.828
    """
    if not len(classes):
        return float("nan")
    shares = classes.shares
    entropies = np.bincount(classes.groups, weights=-shares * np.log(shares))
    return float(np.exp(entropies.min()))


def recursive_c(classes: EquivalenceClasses, *, diversity: int) -> float:
    """Return the c that recursive (c,l)-diversity needs: it holds for every larger c, not for this
    one.

    diversity   l, at least 1

    The largest r_1/(r_l + … + r_m) of a class whose labels have r_1 ≥ … ≥ r_m rows: how far the
    most frequent one outweighs what is left when an intruder has ruled l − 2 others out.
    Infinite where a class has less than l labels, NaN for no rows. DeclarationError for l < 1.
    Source: as ``distinct_labels``.

    >>> codes, target = np.array([[0], [0], [0], [0]]), np.array([0, 0, 1, 2])
    >>> recursive_c(EquivalenceClasses.of(codes, target, labels=3), diversity=2)
    1.0
    """
    if diversity < 1:
        raise DeclarationError(f"recursive diversity: expected l ≥ 1, got {diversity}")
    if not len(classes):
        return float("nan")
    order = np.lexsort((-classes.counts, classes.groups))
    descending = classes.counts[order]
    places = np.arange(len(order)) - classes.starts[classes.groups]
    remaining = np.add.reduceat(np.where(places >= diversity - 1, descending, 0), classes.starts)
    first = descending[classes.starts]
    return float(
        np.divide(first, remaining, out=np.full(len(first), np.inf), where=remaining > 0).max()
    )


def homogeneous_rows(classes: EquivalenceClasses) -> int:
    """Return rows of classes with one label only: whoever knows the class of a row knows its label.

    >>> codes, target = np.array([[0], [0], [1], [1]]), np.array([0, 1, 2, 2])
    >>> homogeneous_rows(EquivalenceClasses.of(codes, target, labels=3))
    2
    """
    return int(classes.sizes[classes.labels_of_class == 1].sum())


_CELLS_A_BLOCK = 1 << 22


def containment_k(bits: NDArray[Any]) -> int:
    """Return the largest k such that the ones of every row are also ones of at least k rows.

    bits   (n, m) of 0 and 1, or truth values

    A row is one of its own k. Never less than the k of k-anonymity, as equal rows contain each
    other, and often far more: a row that is alone in its class still counts all rows with more
    ones. So it is **not** k-anonymity: who knows zeros of a row as well finds it among fewer.
    n without columns, 0 without rows. DeclarationError for anything but 0 and 1.

    Time grows with the square of the different rows: 0.2 s for 4,000 of 200 bits. Source: Zhang,
    Mohammed, Dave, Al Hasan, "Feature Selection for Classification under Anonymity Constraint",
    Transactions on Data Privacy 2017, arXiv 1512.07158, of which only the abstract was read:
    the definition is reconstructed.

    >>> containment_k(np.array([[1, 0], [1, 1], [1, 1]]))
    2
    """
    if bits.ndim != 2 or not is_binary(bits):
        raise DeclarationError(
            f"containment: expected 0 and 1 of shape (n, m), got other {bits.dtype} "
            f"of {bits.ndim} dimensions"
        )
    ids, sizes = class_ids(bits)
    if not len(sizes):
        return 0
    some_row = np.empty(len(sizes), dtype=np.int64)
    some_row[ids] = np.arange(len(bits))
    different = bits[some_row].astype(np.float32)
    bit_counts, fewest = different.sum(axis=1), len(bits)
    step = max(1, _CELLS_A_BLOCK // len(bit_counts))
    for start in range(0, len(bit_counts), step):
        some = slice(start, start + step)
        # Single precision counts bits exactly, up to 2^24 of them.
        common = different[some] @ different.T
        # How many rows have all the ones of each of the different rows.
        containing = (common == bit_counts[some, None]) @ sizes
        fewest = min(fewest, int(containing.min()))
    return fewest


def is_binary(codes: NDArray[Any]) -> bool:
    """Return whether there are only 0 and 1, as integers or truth values, or nothing."""
    if codes.size == 0:
        return True
    return codes.dtype.kind in "iub" and not bool(((codes != 0) & (codes != 1)).any())


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
        """Return every number by its name; some may be infinite or NaN."""
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
    """Return all measures of a table as released.

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
    has_few_bits = bits and len(classes) <= MOST_DIFFERENT_ROWS and is_binary(codes)
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
        containment_k=float(containment_k(codes)) if has_few_bits else _NAN,
    )


def smallest_class(sizes: IntArray) -> int:
    """Return the k of k-anonymity: rows of the smallest of the classes (classes,); 0 for none.

    Source: Sweeney, "k-anonymity: a model for protecting privacy", 2002.
    """
    return int(sizes.min()) if len(sizes) else 0


def rows_in_small_classes(sizes: IntArray, *, k: int) -> int:
    """Return rows of classes with less than k rows.

    >>> rows_in_small_classes(np.array([1, 4, 2]), k=3)
    3
    """
    return int(sizes[sizes < k].sum())


def risks(sizes: IntArray) -> FloatArray:
    """Return for every class (classes,) the chance that a guess finds one of its rows: 1/size."""
    return np.asarray(1.0 / sizes)
