"""The name of a method, or a method → one that makes rows k-anonymous; nothing here sees a row.

Selection: what a method makes of some rows, what a release looks like, and what classifiers see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity import METHODS
from dp_pipeline.anonymity.method import (
    Bit,
    BitRecoding,
    Method,
    RowRule,
    Unchanged,
    cumulative_bits,
    one_hot_bits,
)
from dp_pipeline.anonymity.partition import CodedRows, KAnonymityGuarantee, TooFewRows
from dp_pipeline.estimators.frames import Features
from dp_pipeline.estimators.selector_columns import LabelValues, SelectorColumn, answers
from dp_pipeline.metrics.disclosure import DisclosureReport, disclosure_report
from dp_pipeline.spec.encoding import IntArray
from dp_pipeline.spec.errors import DeclarationError


def selector_method(method: object) -> Method:
    """The method that a selector is told to use; DeclarationError for what is none."""
    if isinstance(method, str) and method in METHODS:
        return METHODS[method]()
    if isinstance(method, tuple(METHODS.values())):
        return method  # type: ignore[return-value]
    raise DeclarationError(
        f"method: expected one of {', '.join(METHODS)}, or such a method with parameters, "
        f"got {method!r:.60}"
    )


@dataclass(frozen=True, eq=False)
class Selection:
    """The result of a method.

    recoding     what is released of a row
    bits         all that could have been kept, or that boxes could tell of
    support      (bits,) which of them are kept; of boxes, those that are not as likely in each
    suppressed   (n,) rows that are left out of the release
    release      the others as they are released, sorted. Rows live here
    report       of the release
    """

    recoding: RowRule
    bits: tuple[Bit, ...]
    support: NDArray[np.bool_]
    suppressed: NDArray[np.bool_]
    release: CodedRows
    report: DisclosureReport

    @classmethod
    def of(
        cls, rows: CodedRows, method: Method, promise: KAnonymityGuarantee, *, seed: int
    ) -> Selection:
        """Run a method; DeclarationError where not even one class of all rows is possible."""
        try:
            anonymized = method.recode(rows, promise, seed=seed)
        except TooFewRows as error:
            raise DeclarationError(str(error)) from None
        recoding = anonymized.recoding
        bits = _candidates(method, recoding, rows)
        release = anonymized.release(rows)
        report = disclosure_report(
            release.codes, release.target, labels=len(rows.target_levels), k=promise.k
        )
        support = _support(recoding, bits, rows)
        return cls(recoding, bits, support, anonymized.suppressed, release, report)


def _candidates(method: Method, recoding: RowRule, rows: CodedRows) -> tuple[Bit, ...]:
    """Those that the method may keep, or one a level where it kept levels, as kjig does where those
    of mutual information are best; what boxes tell of are cumulative ones.
    """
    asked = getattr(method, "bits", cumulative_bits)
    bits = tuple(asked(rows.columns))
    kept = recoding.bits if isinstance(recoding, BitRecoding) else ()
    return bits if set(kept) <= set(bits) else one_hot_bits(rows.columns)


def _support(recoding: RowRule, bits: Sequence[Bit], rows: CodedRows) -> NDArray[np.bool_]:
    if isinstance(recoding, BitRecoding):
        chosen = set(recoding.bits)
        return np.array([bit in chosen for bit in bits], dtype=np.bool_)
    if isinstance(recoding, Unchanged) or not len(rows):
        return np.ones(len(bits), dtype=np.bool_)
    features = recoding.features(rows)
    return np.asarray(features.max(axis=0) > features.min(axis=0))


@dataclass(frozen=True, eq=False)
class FittedRecoding:
    """A rule from rows of any type to what classifiers see of them. No row lives here.

    columns   how values become levels
    kept      the bits that are told of, and ``support``, which of all bits they are
    """

    columns: tuple[SelectorColumn, ...]
    recoding: RowRule
    kept: tuple[Bit, ...]
    support: NDArray[np.bool_]

    @classmethod
    def of(cls, columns: tuple[SelectorColumn, ...], selection: Selection) -> FittedRecoding:
        """What is left of a selection without its rows."""
        support = selection.support
        return cls(columns, selection.recoding, tuple(compress(selection.bits, support)), support)

    @property
    def keeps_bits(self) -> bool:
        """Whether columns of 0 and 1 are released, in place of boxes."""
        return isinstance(self.recoding, BitRecoding)

    def seen(self, features: Features) -> NDArray[Any]:
        """What is seen of every row (n, kept): 0 or 1, or how likely each bit is in its box."""
        both = zip(self.columns, features.columns, strict=True)
        coded = [column.coded(series) for column, series in both]
        if self.keeps_bits:
            return answers(self.columns, coded, self.kept, rows=features.rows)
        codes = stacked([one.codes for one in coded], rows=features.rows)
        declared = tuple(column.column for column in self.columns)
        nobody = np.zeros(features.rows, dtype=np.int64)
        rows = CodedRows(declared, codes, nobody, ("",))
        return self.recoding.features(rows)[:, self.support]


def stacked(codes: Sequence[IntArray], *, rows: int) -> NDArray[np.int16]:
    """Columns of codes, side by side (rows, columns)."""
    table = np.empty((rows, len(codes)), dtype=np.int16)
    for at, column in enumerate(codes):
        table[:, at] = column
    return table


def coded_rows(
    columns: Sequence[SelectorColumn], features: Features, labels: LabelValues
) -> CodedRows:
    """Rows that are fitted, as codes."""
    both = zip(columns, features.columns, strict=True)
    codes = stacked([column.coded(series).codes for column, series in both], rows=features.rows)
    declared = tuple(column.column for column in columns)
    return CodedRows(declared, codes, labels.codes, labels.texts)
