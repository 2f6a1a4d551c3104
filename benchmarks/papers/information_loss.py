"""What a k-anonymous release gives up: sizes of classes and codes in, numbers out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.encoding import FloatArray, IntArray
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.metrics.equivalence_classes import class_ids


def information_loss(
    original: NDArray[Any],
    released: NDArray[Any],
    *,
    about: Sequence[int],
    k: int,
    suppressed: int = 0,
) -> dict[str, float]:
    """Return ``discernibility``, ``average_class_size`` and ``non_uniform_entropy``, in bits a row
    summed over the original columns, of one release; arguments as of the functions.

    >>> table = np.array([[0], [0], [1], [1]])
    >>> information_loss(table, table, about=[0], k=2)
    {'discernibility': 8.0, 'average_class_size': 1.0, 'non_uniform_entropy': 0.0}
    """
    bits = non_uniform_entropy(original, released, about=about)
    sizes = class_ids(released)[1]
    return {
        "discernibility": float(discernibility(sizes, suppressed=suppressed)),
        "average_class_size": average_class_size(sizes, k=k),
        "non_uniform_entropy": float(bits.sum() / len(original)) if len(original) else float("nan"),
    }


def discernibility(sizes: IntArray, *, suppressed: int = 0) -> int:
    """Discernibility metric: Σ size² over the classes + suppressed · n, n all rows.

    sizes        (classes,) rows of every released class
    suppressed   rows that were left out; each counts as alike all n

    Ordered pairs of rows that cannot be told apart: n where all can, n² where none. Source:
    Bayardo, Agrawal, "Data privacy through optimal k-anonymization", ICDE 2005.

    >>> discernibility(np.array([2, 3]), suppressed=1)
    19
    """
    return int((sizes * sizes).sum()) + suppressed * (int(sizes.sum()) + suppressed)


def average_class_size(sizes: IntArray, *, k: int) -> float:
    """Normalised average class size: released rows/classes/k, k as promised.

    1 where no class is larger than it must be. A k of 0 counts as 1: nothing is promised either
    way. NaN for no rows. Source: LeFevre, DeWitt, Ramakrishnan, "Mondrian multidimensional
    k-anonymity", ICDE 2006.

    >>> average_class_size(np.array([2, 4]), k=2)
    1.5
    """
    return float(sizes.sum() / len(sizes) / max(1, k)) if len(sizes) else float("nan")


def non_uniform_entropy(
    original: NDArray[Any], released: NDArray[Any], *, about: Sequence[int]
) -> FloatArray:
    """Non-uniform entropy of every original column, in bits over all rows: (d,).

    original   codes (n, d) of the same rows before
    released   codes (n, m) that were released of them; suppressed rows are in neither
    about      (m,) for every released column the original one that it tells of

    −Σ over rows of log2 P(original code | released codes of its column), P as frequent as in
    these rows. 0 for a column that can be read off the release; of one that is dropped, all
    its entropy. Missing values are a code like any other. DeclarationError for shapes that do
    not fit. Source: Gionis, Tassa, "k-Anonymization with minimal loss of information", TKDE
    2009; there a released column generalises one original column, here several may tell of it.

    >>> table = np.array([[0, 0], [1, 0], [2, 1], [2, 1]])
    >>> non_uniform_entropy(table, table[:, 0:1] > 0, about=[0]).round(3).tolist()
    [2.755, 4.0]
    """
    fits = original.ndim == 2 and released.shape == (len(original), len(about))
    if not fits or not all(0 <= index < original.shape[1] for index in about):
        raise DeclarationError(
            "non-uniform entropy: expected codes (n, d) before, codes (n, m) after and m "
            "columns that they tell of, got shapes that do not fit"
        )
    places = np.asarray(about, dtype=np.int64)
    parts = (
        (original[:, [index]], released[:, np.flatnonzero(places == index)])
        for index in range(original.shape[1])
    )
    return np.array([_bits_lost(*both) for both in parts], dtype=np.float64)


def _bits_lost(before: NDArray[Any], after: NDArray[Any]) -> float:
    """Rows times the entropy of one column before, given the columns after."""
    ids, sizes = class_ids(after)
    codes = class_ids(before)[0]
    both = class_ids(np.stack([ids, codes], axis=1))[1]
    # Classes with one code are left with a rounding error of either sign.
    return max(0.0, _weighted(sizes) - _weighted(both))


def _weighted(sizes: IntArray) -> float:
    return float((sizes * np.log2(sizes)).sum())
