"""Small populations for k-anonymity, written by hand or by hypothesis."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from dp_pipeline.anonymity.partition import CodedRows, Column

LABELS = ("well", "ill")


def rows_of(
    *records: tuple[int, ...], columns: tuple[Column, ...], labels: tuple[str, ...] = LABELS
) -> CodedRows:
    """Rows from tuples of codes, the label last."""
    table = np.array(records, dtype=np.int64).reshape(len(records), len(columns) + 1)
    return CodedRows(columns, table[:, :-1], table[:, -1], labels)


def flags(many: int) -> tuple[Column, ...]:
    """Columns of two levels."""
    return tuple(Column(f"flag{at}", ("no", "yes")) for at in range(many))


WARD = (
    Column("sex", ("f", "m")),
    Column("age", ("young", "middle", "old", "missing"), ordered=True, missing=3),
)
"""Two quasi-identifiers, one ordered and with missing values."""

TEN = rows_of(
    (0, 0, 0),
    (0, 0, 0),
    (0, 0, 0),
    (0, 1, 1),
    (0, 1, 0),
    (1, 1, 1),
    (1, 1, 1),
    (1, 2, 1),
    (1, 2, 1),
    (1, 3, 0),
    columns=WARD,
)
"""Ten patients: women are younger and mostly well; one age is missing."""


@st.composite
def coded_rows(draw: st.DrawFn, *, most: int = 30, at_least: int = 0) -> CodedRows:
    """Few columns with few levels, ordered or not, with missing values or not; 2 or 3 labels."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=0, max_size=4))
    columns = tuple(_column(draw, at, size) for at, size in enumerate(sizes))
    labels = draw(st.integers(2, 3))
    n = draw(st.integers(at_least, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    codes = np.zeros((n, len(columns)), dtype=np.int64)
    for at, column in enumerate(columns):
        codes[:, at] = rng.integers(0, column.size, n)
    return CodedRows(columns, codes, rng.integers(0, labels, n), tuple("abc"[:labels]))


def _column(draw: st.DrawFn, at: int, size: int) -> Column:
    levels = tuple(f"level{code}" for code in range(size))
    missing = size - 1 if draw(st.booleans()) else None
    return Column(f"x{at}", levels, draw(st.booleans()), missing)
