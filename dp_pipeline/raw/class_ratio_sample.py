"""A sample of rows in which every class has its share, for benchmarks.

Whether a row is drawn depends on the rows beside it, which no protected row may
do: data to be released is never sampled.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dp_pipeline.raw.cells import level_codes
from dp_pipeline.schema.domain import Domain
from dp_pipeline.schema.encoding import INVALID, IntArray
from dp_pipeline.schema.source import Sample


def sampled(table: pa.Table, sample: Sample, domain: Domain) -> pa.Table:
    """The declared sample of a table with the columns of ``domain``, in the order of the table.

    Two spellings of a level are one class. A text that is no level is of one more class, so that
    a sample has the share of invalid rows that its source has.
    """
    attribute = domain[sample.by]
    classes = level_codes(attribute, table.column(attribute.column)) - INVALID
    return table.take(class_ratio_sample(classes, rows=sample.rows, seed=sample.seed))


def class_ratio_sample(classes: IntArray, *, rows: int, seed: int) -> IntArray:
    """Numbers of the rows drawn (rows,), ascending.

    classes   (n,) whole numbers of at least 0, n ≥ rows

    A class of n_c rows has rows·n_c/n of the sample, rounded by largest remainders, where ties go
    to the lower class. Every row has a key, and of each class those with the least are drawn.

    >>> class_ratio_sample(np.array([0, 0, 1, 0, 0, 1]), rows=3, seed=7)
    array([2, 3, 4])
    """
    # Raw words of a bit generator stay what they are in every version of NumPy.
    keys = np.random.PCG64(seed).random_raw(len(classes))
    order = np.lexsort((keys, classes))
    sizes = np.bincount(classes)
    starts = np.cumsum(sizes) - sizes
    places = np.arange(len(classes)) - np.repeat(starts, sizes)
    return np.sort(order[places < np.repeat(_quotas(sizes, rows), sizes)])


def _quotas(sizes: IntArray, rows: int) -> IntArray:
    """Rows to draw of each class (classes,), ``rows`` in all: never more than it has."""
    quotas, remainders = np.divmod(rows * sizes, sizes.sum())
    left = rows - int(quotas.sum())
    quotas[np.argsort(-remainders, kind="stable")[:left]] += 1
    return quotas
