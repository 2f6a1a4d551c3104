"""Small populations for k-anonymity, and the definitions that methods are held against."""

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from hypothesis import strategies as st

from dp_pipeline.anonymity.boxes import Box, BoxRule
from dp_pipeline.anonymity.coded_rows import CodedRows, Column, KAnonymityGuarantee, TooFewRows
from dp_pipeline.anonymity.method import Method, Recoding
from dp_pipeline.releases.k_anonymous_protocols import ProtocolResult, evaluate_over

LABELS = ("well", "ill")


def rows_of(
    *records: tuple[int, ...], columns: tuple[Column, ...], labels: tuple[str, ...] = LABELS
) -> CodedRows:
    """Rows from tuples of codes, the label last."""
    table = np.array(records, dtype=np.int64).reshape(len(records), len(columns) + 1)
    return CodedRows(columns, table[:, :-1], table[:, -1], labels)


def flags(count: int) -> tuple[Column, ...]:
    return tuple(Column(f"flag{i}", ("no", "yes")) for i in range(count))


def flagged(codes: np.ndarray, target: np.ndarray) -> CodedRows:
    return CodedRows(flags(codes.shape[1]), codes, target.astype(np.int64), LABELS)


SEX_AND_AGE = (
    Column("sex", ("f", "m")),
    Column("age", ("young", "middle", "old", "missing"), ordered=True, missing=3),
)
"""Two quasi-identifiers, one ordered and with missing values."""

PATIENTS = rows_of(
    *[(0, 0, 0)] * 3, (0, 1, 1), (0, 1, 0),
    *[(1, 1, 1)] * 2, *[(1, 2, 1)] * 2, (1, 3, 0), columns=SEX_AND_AGE,
)  # fmt: skip
"""Ten patients: women are younger and mostly well; one age is missing."""


@st.composite
def coded_rows(draw: st.DrawFn, *, most: int = 30, at_least: int = 0) -> CodedRows:
    """Few columns with few levels, ordered or not, with missing values or not; 2 or 3 labels."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=0, max_size=4))
    columns = tuple(_column(draw, i, size) for i, size in enumerate(sizes))
    labels = draw(st.integers(2, 3))
    n = draw(st.integers(at_least, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    codes = rng.integers(0, [column.size for column in columns], (n, len(columns)))
    return CodedRows(columns, codes, rng.integers(0, labels, n), tuple("abc"[:labels]))


def _column(draw: st.DrawFn, i: int, size: int) -> Column:
    levels = tuple(f"level{code}" for code in range(size))
    missing = size - 1 if draw(st.booleans()) else None
    return Column(f"x{i}", levels, draw(st.booleans()), missing)


def guarantees(*, k: int = 2, diversity: int = 2, shares: str = "0") -> st.SearchStrategy:
    """Guarantees of at least k, of up to so many labels, and of any of some shares left out."""
    return st.builds(
        KAnonymityGuarantee,
        k=st.integers(k, 5),
        diversity=st.integers(1, diversity),
        suppressed=st.sampled_from([Fraction(share) for share in shares.split()]),
    )


def is_possible(rows: CodedRows, guarantee: KAnonymityGuarantee) -> bool:
    labels = len(set(rows.target.tolist()))
    return guarantee.is_empty or (len(rows) >= guarantee.k and labels >= guarantee.diversity)


def is_anonymous(rows: CodedRows, guarantee: KAnonymityGuarantee) -> bool:
    """Whether every row is released together with enough equal ones: the definition."""
    by_codes: dict[tuple[int, ...], list[int]] = {}
    for codes, label in zip(rows.codes.tolist(), rows.target.tolist(), strict=True):
        by_codes.setdefault(tuple(codes), []).append(label)
    return guarantee.is_empty or all(
        len(labels) >= guarantee.k and len(set(labels)) >= guarantee.diversity
        for labels in by_codes.values()
    )


def attempt(method: Method, rows: CodedRows, guarantee: KAnonymityGuarantee) -> Recoding | None:
    """What the method finds, or None where the guarantee cannot be kept."""
    try:
        return method.recode(rows, guarantee, seed=5)
    except TooFewRows:
        return None


def evaluate(
    rows: CodedRows, method: Method, guarantee: KAnonymityGuarantee, **options: Any
) -> ProtocolResult:
    return evaluate_over(rows, method, [guarantee], **options)[0]


def every_row(columns: tuple[Column, ...]) -> CodedRows:
    """One row for each way to fill in the columns, all of one label."""
    records = list(product(*(range(column.size) for column in columns)))
    codes = np.array(records, dtype=np.int64).reshape(len(records), len(columns))
    return CodedRows(columns, codes, np.zeros(len(codes), dtype=np.int64), ("any",))


def boxes_of(rule: BoxRule, rows: CodedRows) -> list[Box]:
    return [rule.boxes[number] for number in rule.finder.box_numbers(rows.codes).tolist()]


def is_in(codes: tuple[int, ...], box: Box) -> bool:
    return all(code in allowed for code, allowed in zip(codes, box, strict=True))
