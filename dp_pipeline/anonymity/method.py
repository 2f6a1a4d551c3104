"""Method: what a way to a k-anonymous table is, and what it gives back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.bit import Bit
from dp_pipeline.anonymity.coded_rows import CodedRows, Column
from dp_pipeline.anonymity.promise import Promise
from dp_pipeline.anonymity.recoding import Recoding


@dataclass(frozen=True, eq=False)
class Anonymized:
    """How some rows can be released.

    recoding     the rule, public with the release
    suppressed   (n,) which of the rows must be left out for the promise to hold
    """

    recoding: Recoding
    suppressed: NDArray[np.bool_]

    def release(self, rows: CodedRows) -> CodedRows:
        """The rows that it was made of as they are released: recoded, the suppressed ones left
        out, sorted by what is released: their order in the source would link two releases.
        """
        kept = self.recoding.released(rows.some(~self.suppressed))
        keys = [kept.target, *kept.codes.T[::-1]]
        return kept.some(np.lexsort(keys))


class Method(Protocol):
    """A frozen dataclass whose fields are public parameters (``schema.parameters``).

    summary   one sentence for lists and the Dagster page

    Optional: ``sensitive_diversity``, different labels that it keeps in every class where the label
    is sensitive and nobody asks for another number; 1 for the papers' methods, which know none.
    """

    summary: ClassVar[str]

    def recode(self, rows: CodedRows, promise: Promise, *, seed: int) -> Anonymized:
        """A recoding under which the rows keep the promise. It reads them exactly: nothing of
        it is differentially private.

        Raises TooFewRows where even one class of all rows would break the promise.
        """
        ...


def sensitive_diversity(method: Method | type[Method], *, k: int) -> int:
    """Different labels in every class of a sensitive label, where nothing is said; a K that
    promises nothing promises none.
    """
    return int(getattr(method, "sensitive_diversity", 1)) if k > 1 else 1


class Selecting(Method, Protocol):
    """A method that keeps some of a number of bits, its recoding a ``BitRecoding``."""

    def bits(self, columns: Sequence[Column]) -> tuple[Bit, ...]:
        """All that it may keep."""
        ...


class Ranked(Selecting, Protocol):
    """A method that asks the rows for an order of bits, which does not depend on the promise, and
    then keeps those that the promise allows.
    """

    def ranking(self, rows: CodedRows, *, seed: int) -> Ranking:
        """The bits in the order in which they are tried."""
        ...

    def recode_by(self, ranking: Ranking, rows: CodedRows, promise: Promise) -> Anonymized:
        """``recode`` with a ranking of the same rows at hand."""
        ...


@dataclass(frozen=True)
class Ranking:
    """Bits, best first.

    places   of the method's bits, in the order of their worth
    worth    of each of its bits, in the bits' own order
    """

    places: tuple[int, ...]
    worth: tuple[float, ...]

    @classmethod
    def of(cls, worth: NDArray[np.float64]) -> Ranking:
        """By descending worth; a tie keeps the order of the bits.

        >>> Ranking.of(np.array([1.0, 3.0, 1.0])).places
        (1, 0, 2)
        """
        order = np.argsort(-worth, kind="stable")
        return cls(tuple(order.tolist()), tuple(worth.tolist()))
