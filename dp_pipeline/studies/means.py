"""Means of repetitions with their standard errors, and what may be said of a difference."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import isfinite, nan, sqrt
from typing import Literal, TypeVar

from dp_pipeline.reporting.number_text import number_text
from dp_pipeline.studies.journal import Row

SURE = 3.0
"""Standard errors beyond which a difference of two means counts: by chance, for one pair of
equal systems, in about 0.3 % of the cases (normal means)."""

_MOST_DECIMALS = 4

Outcome = Literal["better", "alike", "worse"]

Place = TypeVar("Place")


@dataclass(frozen=True)
class Mean:
    """The mean of ``repeats`` numbers; ``error`` is its standard error, NaN for fewer than two."""

    value: float
    error: float
    repeats: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        """NaN where there is no number.

        >>> Mean.of([1.0, 3.0])
        Mean(value=2.0, error=1.0, repeats=2)
        """
        n = len(values)
        mean = sum(values) / n if n else nan
        if n < 2:
            return cls(mean, nan, n)
        return cls(mean, sqrt(sum((v - mean) ** 2 for v in values) / (n - 1) / n), n)

    @property
    def text(self) -> str:
        """As a person reads it: both to the digits that the error leaves, at most four decimals.

        >>> Mean.of([1.0, 3.0]).text, Mean(1.00123, 0.0004, 9).text, Mean.of([2.0]).text
        ('2.0 ± 1.0', '1.0012 ± 0.0004', '2.00')
        """
        if not (isfinite(self.value) and isfinite(self.error)):
            return number_text(self.value)
        mantissa, _, exponent = f"{self.error:.1e}".partition("e")
        # One digit of 0.14 would be off by a third: a leading 1 keeps a second digit.
        decimals = min(_MOST_DECIMALS, (mantissa[0] == "1") - int(exponent))
        if self.error == 0:
            decimals = _MOST_DECIMALS
        value, error = (round(one, decimals) + 0.0 for one in (self.value, self.error))
        return f"{value:,.{max(0, decimals)}f} ± {error:,.{max(0, decimals)}f}"


def means_by_place(
    rows: Iterable[Row], place: Callable[[Row], Place], measures: Sequence[str]
) -> tuple[dict[Place, dict[str, Mean]], dict[Place, str]]:
    """Means of the measures at every place, in the order of the rows; and the line of each place
    where a system refused.
    """
    groups: dict[Place, list[Row]] = defaultdict(list)
    failures: dict[Place, str] = {}
    for row in rows:
        if row["failure"]:
            failures[place(row)] = row["failure"]
        else:
            groups[place(row)].append(row)
    means = {at: _means_of(group, measures) for at, group in groups.items()}
    return means, failures


def _means_of(rows: Sequence[Row], measures: Sequence[str]) -> dict[str, Mean]:
    known = {
        measure: [row[measure] for row in rows if row.get(measure) is not None]
        for measure in measures
    }
    return {measure: Mean.of(values) for measure, values in known.items() if values}


def compare(candidate: Mean, other: Mean, *, lower_is_better: bool) -> Outcome:
    """Whether the candidate's mean is better or worse beyond ``SURE`` standard errors of the
    difference; ``alike`` where that cannot be said.

    >>> compare(Mean(1.0, 0.1, 9), Mean(2.0, 0.1, 9), lower_is_better=True)
    'better'
    """
    gain = candidate.value - other.value
    gain = -gain if lower_is_better else gain
    needed = SURE * sqrt(candidate.error**2 + other.error**2)
    if gain > needed:
        return "better"
    return "worse" if gain < -needed else "alike"
