"""Measures of how much the worst class of a released table discloses about its labels.

p(s) is the share of label s in the table, q(s) in a class. A measure is NaN for no rows. Labels
without rows matter for ordered labels only.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.encoding import IntArray
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.metrics.equivalence_classes import EquivalenceClasses, class_ids


def t_closeness(classes: EquivalenceClasses) -> float:
    """Return the t of t-closeness for unordered labels: the largest ½ Σ_s |q(s) − p(s)|, in 0..1.

    It is the largest over all classes; q(s) is the share of label s in a class, p(s) that in the
    whole table. NaN for no rows.

    It is the earth mover's distance with all labels equally far apart.
    Source: Li, Li, Venkatasubramanian, "t-Closeness", ICDE 2007.

    >>> codes, target = np.array([[0], [0], [1], [1]]), np.array([0, 0, 1, 2])
    >>> t_closeness(EquivalenceClasses.of(codes, target, labels=3))
    0.5
    """
    gains = classes.shares - classes.overall[classes.labels]
    # The gains of some labels equal the losses of the others.
    return _most(np.bincount(classes.groups, weights=np.maximum(gains, 0.0)))


def ordered_t_closeness(classes: EquivalenceClasses) -> float:
    """Return the t of t-closeness for ordered labels: the largest Σ_i |Q_i − P_i|/(labels − 1).

    It is the largest over all classes; Q_i and P_i are the shares of the labels up to i in the
    class and in the whole table. NaN for no rows.

    It is the earth mover's distance over the declared codes, where moving all rows from the first
    label to the last costs 1; 0 for a single label. Source: as ``t_closeness``.

    >>> codes, target = np.array([[0], [0], [1], [1]]), np.array([0, 0, 1, 2])
    >>> ordered_t_closeness(EquivalenceClasses.of(codes, target, labels=3))
    0.375
    """
    if not len(classes):
        return float("nan")
    table = np.cumsum(classes.totals) / classes.rows
    sums = np.concatenate([[0.0], np.cumsum(table)])
    earlier_rows = np.concatenate([[0], np.cumsum(classes.sizes)])[classes.groups]
    # Share of a class's rows up to the label of each entry, (entries,).
    cumulative_shares = (np.cumsum(classes.counts) - earlier_rows) / classes.sizes[classes.groups]
    ends = np.append(classes.labels[1:], len(table))
    ends[np.append(classes.starts[1:], len(cumulative_shares)) - 1] = len(table)
    # Q is constant from one label of a class to the next and P ascends: they cross once.
    passed = np.clip(np.searchsorted(table, cumulative_shares), classes.labels, ends)
    below = (passed - classes.labels) * cumulative_shares - (sums[passed] - sums[classes.labels])
    above = sums[ends] - sums[passed] - (ends - passed) * cumulative_shares
    moved = np.bincount(classes.groups, weights=below + above)
    before_first = sums[classes.labels[classes.starts]]
    return _most(np.maximum(moved + before_first, 0.0) / max(1, len(table) - 1))


def delta_disclosure(classes: EquivalenceClasses, *, include_absent: bool = True) -> float:
    """Return the δ of δ-disclosure: the largest |ln(q(s)/p(s))|; it holds for every larger δ.

    include_absent   whether labels of the table that a class lacks make it infinite, as in the
                     source; else they are ignored

    It is the largest over all classes and labels, with q and p as in ``t_closeness``; NaN for no
    rows. Source: Brickell, Shmatikov, "The cost of privacy", KDD 2008.

    >>> codes, target = np.array([[0], [0], [1], [1]]), np.array([0, 0, 1, 2])
    >>> classes = EquivalenceClasses.of(codes, target, labels=3)
    >>> delta_disclosure(classes), round(delta_disclosure(classes, include_absent=False), 3)
    (inf, 0.693)
    """
    if not len(classes):
        return float("nan")
    occurring = np.count_nonzero(classes.totals)
    if include_absent and classes.labels_of_class.min() < occurring:
        return float("inf")
    return _most(np.abs(np.log(classes.shares / classes.overall[classes.labels])))


def beta_likeness(classes: EquivalenceClasses) -> float:
    """Return the β of basic β-likeness: the largest relative gain (q(s) − p(s))/p(s), at least 0.

    It is the most by which knowing the class makes a label likelier, with q and p as in
    ``t_closeness``; NaN for no rows. Source: Cao, Karras,
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
    """Return the α of (α,k)-anonymity: the largest share of a label in a class, in 0..1.

    All labels count as sensitive. NaN for no rows. Source: Wong, Li, Fu, Wang,
    "(α, k)-anonymity", KDD 2006.

    >>> codes, target = np.array([[0], [0], [0], [0]]), np.array([0, 0, 1, 2])
    >>> largest_share(EquivalenceClasses.of(codes, target, labels=3))
    0.5
    """
    return _most(classes.shares)


def distinct_labels(classes: EquivalenceClasses) -> int:
    """Return the l of distinct l-diversity: the fewest different labels of a class; 0 for no rows.

    Source: Machanavajjhala, Kifer, Gehrke, Venkitasubramaniam, "l-Diversity", TKDD 2007.

    >>> codes, target = np.array([[0], [0], [1], [1]]), np.array([0, 1, 2, 2])
    >>> distinct_labels(EquivalenceClasses.of(codes, target, labels=3))
    1
    """
    return int(classes.labels_of_class.min()) if len(classes) else 0


def entropy_labels(classes: EquivalenceClasses) -> float:
    """Return the l of entropy l-diversity: exp of the least entropy of a class, in 1..labels.

    A class of l equally frequent labels has l, one with a prevailing label less. NaN for no rows.
    Source: as ``distinct_labels``.

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
    """Return the largest c that violates recursive (c,l)-diversity, which holds for every larger c.

    diversity   l, at least 1

    It is the largest r_1/(r_l + … + r_m) of a class whose labels have r_1 ≥ … ≥ r_m rows: the
    weight of the most frequent label after an intruder has ruled out l − 2 others. Infinite if a
    class has less than l labels, NaN for no rows. DeclarationError for l < 1. Source: as
    ``distinct_labels``.

    >>> codes, target = np.array([[0], [0], [0], [0]]), np.array([0, 0, 1, 2])
    >>> recursive_c(EquivalenceClasses.of(codes, target, labels=3), diversity=2)
    1.0
    """
    if diversity < 1:
        raise DeclarationError(f"The l of recursive diversity must be at least 1, not {diversity}")
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
    """Return the number of rows in classes with a single label, which the class discloses.

    >>> codes, target = np.array([[0], [0], [1], [1]]), np.array([0, 1, 2, 2])
    >>> homogeneous_rows(EquivalenceClasses.of(codes, target, labels=3))
    2
    """
    return int(classes.sizes[classes.labels_of_class == 1].sum())


_CELLS_A_BLOCK = 1 << 22  # pairs of rows that are compared in one array


def containment_k(bits: NDArray[Any]) -> int:
    """Return the largest k such that for every row at least k rows have all the ones of that row.

    bits   (n, m) of 0 and 1, or truth values

    A row counts itself. The result is never less than the k of k-anonymity, as equal rows
    contain each other, and often far more, as rows with more ones count too. So it is **not**
    k-anonymity: somebody who also knows zeros of a row finds it among fewer. It is n without
    columns, 0 without rows. DeclarationError for anything but 0 and 1.

    Time grows with the square of the different rows: 0.2 s for 4,000 of 200 bits. Source: Zhang,
    Mohammed, Dave, Al Hasan, "Feature Selection for Classification under Anonymity Constraint",
    Transactions on Data Privacy 2017, arXiv 1512.07158; the definition is reconstructed from the
    abstract.

    >>> containment_k(np.array([[1, 0], [1, 1], [1, 1]]))
    2
    """
    if bits.ndim != 2:
        raise DeclarationError(f"A containment needs 2 dimensions of bits, not {bits.ndim}")
    if not is_binary(bits):
        raise DeclarationError("A containment needs a table of 0 and 1, but it has other values")
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
        # The number of rows with all the ones of each different row.
        containing = (common == bit_counts[some, None]) @ sizes
        fewest = min(fewest, int(containing.min()))
    return fewest


def is_binary(codes: NDArray[Any]) -> bool:
    """Return whether all codes are 0 or 1, as integers or truth values."""
    if codes.size == 0:
        return True
    return codes.dtype.kind in "iub" and not bool(((codes != 0) & (codes != 1)).any())


MOST_DIFFERENT_ROWS = 5000
"""Classes up to which a report computes containment, whose time grows with their square."""

_NAN = float("nan")


@dataclass(frozen=True)
class DisclosureReport:
    """The disclosure measures of one released table.

    rows, classes             number of rows, and of classes of equal rows
    promised_k                K that was requested
    k                         rows of the smallest class; 0 for no rows
    rows_in_small_classes     rows of classes below the promised k
    highest_risk, mean_risk   probability of finding a row from its released columns: 1/size of its
                              class; the highest, and the mean over rows
    alpha                     α of (α,k)-anonymity
    distinct_l, entropy_l     l of distinct and of entropy l-diversity
    recursive_c               c of recursive (c,2)-diversity; infinite if a class has one label
    homogeneous_rows          rows of classes with one label
    t_closeness               t for unordered labels
    ordered_t_closeness       t for ordered labels; NaN for others
    delta_disclosure          δ; infinite if a class lacks a label that occurs
    present_delta_disclosure  δ over the labels of each class
    beta_likeness             β of basic β-likeness
    containment_k             k of containment, which is weaker than k-anonymity; NaN for codes that
                              are no bits and for more than 5,000 different rows

    For no rows, numbers of rows and classes, ``distinct_l`` and the k of containment are 0, and all
    other measures but ``promised_k`` are NaN. None covers columns outside the
    table, or a second release.
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
        """Return all fields as floats by name; they may be infinite or NaN."""
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
    """Return all disclosure measures of a released table.

    codes     (n, m) integers ≥ 0; a missing value has a separate code
    target    (n,) codes of the sensitive label, in 0..labels − 1
    ordered   whether the labels ascend with their codes
    k         promised k; 0 and 1 are no promise
    bits      whether codes 0 and 1 mean no and yes: only then ``containment_k`` is computed

    Without columns all rows are one class. DeclarationError for an invalid table of codes.

    >>> codes, target = np.array([[0], [0], [1], [1], [1]]), np.array([0, 1, 1, 1, 1])
    >>> report = disclosure_report(codes, target, labels=2, k=3)
    >>> report.k, report.rows_in_small_classes, report.distinct_l, report.homogeneous_rows
    (2, 2, 1, 3)
    """
    classes = EquivalenceClasses.of(codes, target, labels=labels)
    has_containment = bits and len(classes) <= MOST_DIFFERENT_ROWS and is_binary(codes)
    return DisclosureReport(
        rows=classes.rows,
        classes=len(classes),
        promised_k=k,
        k=smallest_class(classes.sizes),
        rows_in_small_classes=rows_in_small_classes(classes.sizes, k=k),
        highest_risk=1 / smallest_class(classes.sizes) if len(classes) else _NAN,
        mean_risk=len(classes) / classes.rows if len(classes) else _NAN,
        alpha=largest_share(classes),
        distinct_l=distinct_labels(classes),
        entropy_l=entropy_labels(classes),
        recursive_c=recursive_c(classes, diversity=2),
        homogeneous_rows=homogeneous_rows(classes),
        t_closeness=t_closeness(classes),
        ordered_t_closeness=ordered_t_closeness(classes) if ordered else _NAN,
        delta_disclosure=delta_disclosure(classes),
        present_delta_disclosure=delta_disclosure(classes, include_absent=False),
        beta_likeness=beta_likeness(classes),
        containment_k=float(containment_k(codes)) if has_containment else _NAN,
    )


def smallest_class(sizes: IntArray) -> int:
    """Return the k of k-anonymity, the number of rows of the smallest class; 0 without classes.

    Source: Sweeney, "k-anonymity: a model for protecting privacy", 2002.
    """
    return int(sizes.min()) if len(sizes) else 0


def rows_in_small_classes(sizes: IntArray, *, k: int) -> int:
    """Return the number of rows in classes of fewer than k rows.

    >>> rows_in_small_classes(np.array([1, 4, 2]), k=3)
    3
    """
    return int(sizes[sizes < k].sum())
