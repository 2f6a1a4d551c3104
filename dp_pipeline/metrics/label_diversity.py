"""How many labels the rows of an equivalence class still have: figures of the worst class."""

from __future__ import annotations

import numpy as np

from dp_pipeline.metrics.equivalence_classes import EquivalenceClasses
from dp_pipeline.schema.errors import DeclarationError


def largest_share(classes: EquivalenceClasses) -> float:
    """The α of (α,k)-anonymity: the largest share of one label in one class, in 0..1.

    Of every label, as all of them count as sensitive. NaN for no rows. Source: Wong, Li, Fu,
    Wang, "(α, k)-anonymity", KDD 2006.

    >>> codes, target = np.array([[0], [0], [0], [0]]), np.array([0, 0, 1, 2])
    >>> largest_share(EquivalenceClasses.of(codes, target, labels=3))
    0.5
    """
    return float(classes.shares.max()) if len(classes) else float("nan")


def distinct_labels(classes: EquivalenceClasses) -> int:
    """The l of distinct l-diversity: the fewest different labels of a class; 0 for no rows.

    Source: Machanavajjhala, Kifer, Gehrke, Venkitasubramaniam, "l-Diversity", TKDD 2007.

    >>> codes, target = np.array([[0], [0], [1], [1]]), np.array([0, 1, 2, 2])
    >>> distinct_labels(EquivalenceClasses.of(codes, target, labels=3))
    1
    """
    return int(classes.labels_of_class.min()) if len(classes) else 0


def entropy_labels(classes: EquivalenceClasses) -> float:
    """The l of entropy l-diversity: exp of the least entropy of a class, to rounding.

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
    """The c that recursive (c,l)-diversity needs: it holds for every larger c, not for this one.

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
    rest = np.add.reduceat(np.where(places >= diversity - 1, descending, 0), classes.starts)
    first = descending[classes.starts]
    return float(np.divide(first, rest, out=np.full(len(first), np.inf), where=rest > 0).max())


def homogeneous_rows(classes: EquivalenceClasses) -> int:
    """Rows of classes with one label only: whoever knows the class of a row knows its label.

    >>> codes, target = np.array([[0], [0], [1], [1]]), np.array([0, 1, 2, 2])
    >>> homogeneous_rows(EquivalenceClasses.of(codes, target, labels=3))
    2
    """
    return int(classes.sizes[classes.labels_of_class == 1].sum())
