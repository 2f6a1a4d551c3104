"""BitSelection: which bits a method keeps of some rows, and what a release with them looks like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.bit import Bit
from dp_pipeline.anonymity.coded_rows import CodedRows
from dp_pipeline.anonymity.method import Selecting
from dp_pipeline.anonymity.promise import Promise, TooFewRows
from dp_pipeline.anonymity.recoding import BitRecoding
from dp_pipeline.metrics.disclosure import DisclosureReport, disclosure_report
from dp_pipeline.schema.errors import DeclarationError


@dataclass(frozen=True, eq=False)
class BitSelection:
    """The result of a method.

    bits         all that could have been kept
    support      (bits,) which of them are
    suppressed   (n,) rows that are left out of the release
    release      the others with kept bits in the order of ``bits``, sorted. Rows live here
    report       of the release
    """

    bits: tuple[Bit, ...]
    support: NDArray[np.bool_]
    suppressed: NDArray[np.bool_]
    release: CodedRows
    report: DisclosureReport

    @classmethod
    def of(cls, rows: CodedRows, method: Selecting, promise: Promise, *, seed: int) -> BitSelection:
        """Run a method; DeclarationError where not even one class of all rows is possible."""
        try:
            anonymized = method.recode(rows, promise, seed=seed)
        except TooFewRows as error:
            raise DeclarationError(str(error)) from None
        bits, chosen = method.bits(rows.columns), set(_bits_of(anonymized.recoding))
        support = np.array([bit in chosen for bit in bits], dtype=np.bool_)
        release = anonymized.release(rows)
        report = disclosure_report(
            release.codes, release.target, labels=len(rows.target_levels), k=promise.k
        )
        return cls(bits, support, anonymized.suppressed, release, report)


def _bits_of(recoding: Any) -> tuple[Bit, ...]:
    assert isinstance(recoding, BitRecoding)
    return recoding.bits
