"""Equivalence classes of equal rows, and the labels in each."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.encoding import FloatArray, IntArray
from dp_pipeline.config.errors import DeclarationError

_MOST_KEYS = 1 << 62
_DENSE_CELLS_A_ROW = 8


def class_ids(codes: NDArray[Any]) -> tuple[IntArray, IntArray]:
    """Return the equivalence class of every row, and the number of rows of every class.

    codes   (n, m) integers ≥ 0 or truth values; a missing value is a code like any other

    The classes (n,) are numbered from 0 in the order of their codes, the first column first; the
    sizes (classes,) are above 0. Rows without columns are one class. Nothing is hashed, since a
    collision would claim more anonymity. DeclarationError for an invalid table of codes.

    >>> ids, sizes = class_ids(np.array([[1, 0], [0, 7], [1, 0]]))
    >>> ids.tolist(), sizes.tolist()
    ([1, 0, 1], [1, 2])
    """
    if codes.ndim != 2 or (codes.size and codes.dtype.kind not in "iub"):
        raise DeclarationError(
            f"The codes of rows must be a table of integers, not {codes.dtype} of {codes.ndim} "
            "dimensions"
        )
    if codes.size and not _are_codes(codes):
        raise DeclarationError("The codes of rows must be at least 0, but one is negative")
    keys, cells = np.zeros(len(codes), dtype=np.int64), 1
    for column in codes.T if len(codes) else ():
        added, size = column, int(column.max()) + 1
        if cells * size > _MOST_KEYS:
            # Only equality matters, so the codes that occur are renumbered in order.
            keys, added = (np.unique(values, return_inverse=True)[1] for values in (keys, column))
            cells, size = int(keys.max()) + 1, int(added.max()) + 1
        # The new column is the fastest.
        keys, cells = keys * size, cells * size
        keys += added.astype(np.int64, copy=False)
    if cells > _DENSE_CELLS_A_ROW * len(keys):
        ids = np.unique(keys, return_inverse=True)[1]
    else:
        ids = (np.cumsum(np.bincount(keys, minlength=cells) > 0) - 1)[keys]
    return ids, np.bincount(ids)


def _are_codes(codes: NDArray[Any]) -> bool:
    return codes.dtype.kind in "iub" and bool(codes.min() >= 0)


@dataclass(frozen=True, eq=False)
class EquivalenceClasses:
    """The equivalence classes of a table, with the number of their rows by label.

    An entry is a class and a label that some of its rows have.

    sizes    (classes,) number of rows of every class
    totals   (labels,) number of rows of every label
    starts   (classes,) first entry of each class
    groups, labels, counts   (entries,) class, label and number of rows, at least 1, ascending by
             class and then by label

    >>> EquivalenceClasses.of(np.array([[0], [0], [1]]), np.array([2, 2, 0]), labels=3).counts
    array([2, 1])
    """

    sizes: IntArray
    totals: IntArray
    starts: IntArray
    groups: IntArray
    labels: IntArray
    counts: IntArray

    @classmethod
    def of(cls, codes: NDArray[Any], target: NDArray[Any], *, labels: int) -> Self:
        """Return the classes of released codes (n, m), with a label code (n,) for every row.

        DeclarationError for an invalid table of codes, for labels of another shape, and for label
        codes outside 0..labels − 1.
        """
        ids, sizes = class_ids(codes)
        if target.shape != (len(codes),):
            raise DeclarationError(
                f"Each of {len(codes)} rows must have one label, but the labels have shape "
                f"{target.shape}"
            )
        if target.size and not (_are_codes(target) and target.max() < labels):
            raise DeclarationError(
                f"The labels of rows must be codes from 0 to {labels - 1}, but one is not"
            )
        label = target.astype(np.int64, copy=False)
        keys, cells = ids * labels + label, len(sizes) * labels
        if cells > _DENSE_CELLS_A_ROW * len(keys):
            ordered = np.sort(keys)
            starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
            keys, counts = ordered[starts], np.diff(starts, append=len(keys))
        else:
            counts = np.bincount(keys, minlength=cells)
            keys = np.flatnonzero(counts)
            counts = counts[keys]
        groups = keys // max(1, labels)
        return cls(
            sizes,
            np.bincount(label, minlength=labels),
            np.searchsorted(groups, np.arange(len(sizes))),
            groups,
            keys - groups * labels,
            counts,
        )

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def rows(self) -> int:
        return int(self.sizes.sum())

    @property
    def shares(self) -> FloatArray:
        """The share of each entry's label among the rows of its class (entries,), above 0."""
        return np.asarray(self.counts / self.sizes[self.groups])

    @property
    def overall(self) -> FloatArray:
        """The share of every label in the whole table (labels,); 0 for no rows."""
        return np.asarray(self.totals / max(1, self.rows))

    @property
    def labels_of_class(self) -> IntArray:
        """The number of different labels that the rows of every class have (classes,)."""
        return np.bincount(self.groups, minlength=len(self))
