"""What papers claim, as data, and the verdict on each: where it held, where the contrary did."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import isfinite, sqrt
from typing import Literal

from benchmarks.papers.results import Mean, Place, Summary

SURE = 3.0
"""Standard errors beyond which a difference of two means counts: by chance, for one pair of
equal systems, in about 0.3 % of the cases (normal means)."""

OURS = "This project"

Outcome = Literal["better", "alike", "worse"]

Rule = Literal["better", "no worse"]
"""Better than every one of the others by more than 3 standard errors of the difference; or no
worse than the best of them, by no more than that.
"""

_NOTHING = Mean(0.0, 0.0, 0)


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


def standing(
    own: Mean | None, alternatives: Sequence[Mean | None], *, rule: Rule, lower_is_better: bool
) -> Outcome | None:
    """How a system stands against others: the least favourable of the comparisons, and with
    ``no worse`` that with the best mean. None where one of them was not measured.
    """
    comparable = [other for other in alternatives if other is not None and isfinite(other.error)]
    # Without a standard error nothing can be said, not even that there is no difference.
    if own is None or not isfinite(own.error) or len(comparable) < len(alternatives):
        return None
    if rule == "no worse":
        best = min if lower_is_better else max
        comparable = [best(comparable, key=lambda other: other.value)]
    outcomes = [compare(own, other, lower_is_better=lower_is_better) for other in comparable]
    return max(outcomes, key=("better", "alike", "worse").index)


@dataclass(frozen=True)
class Measured:
    """A number that claims are about.

    title           in the table of verdicts; empty: the titles of the ways
    measure         a column of the results, or one that is derived
    variant         in which it was measured; None: every way that was, each with its verdict
    is_difference   whether the number itself says how the system stands against the other, 0
                    where both are alike
    """

    title: str
    measure: str
    lower_is_better: bool = True
    variant: str | None = ""
    is_difference: bool = False


@dataclass(frozen=True)
class PaperClaim:
    """One sentence of a paper, or of ours, that a study can test.

    source     whose claim it is
    sentence   the claim
    system     whom it is about
    measured   each with a verdict of its own
    against    whom it is compared with; nobody: with itself at the next smaller level
    rule       of the comparison: of independent means, or where the repetitions of systems are
               pairs, of the mean difference of pairs
    factor     the numbers of the others are multiplied by it, where they are independent
    falls      the claim is that the number gets worse
    up_to      the claim is of levels up to this one; None for every level
    at_most    instead of all comparisons: every repetition's number is at most this
    """

    source: str
    sentence: str
    system: str
    measured: tuple[Measured, ...]
    against: tuple[str, ...] = ()
    rule: Rule = "better"
    factor: float = 1.0
    falls: bool = False
    up_to: Fraction | None = None
    at_most: float | None = None

    def verdict(self, summary: Summary, measured: Measured, variant: str) -> Verdict:
        """Over every data set and level where the system and all it is compared with were
        measured.
        """
        outcome, missing = {}, 0
        for dataset in summary.datasets:
            for own, alternatives in self._compared(summary, dataset, variant):
                result = self._outcome(summary, measured, own, alternatives)
                if result is None:
                    missing += 1
                else:
                    outcome[dataset, own.level] = result
        return Verdict.by(self.rule, outcome, missing=missing)

    def _compared(
        self, summary: Summary, dataset: str, variant: str
    ) -> Iterator[tuple[Place, list[Place]]]:
        """Every place that the claim is about, with those that it is compared with."""
        # Nothing is measured at the level before the first.
        for smaller, level in pairwise(("", *summary.levels(dataset))):
            own = Place(dataset, variant, self.system, level)
            is_claimed = self.up_to is None or Fraction(level) <= self.up_to
            if is_claimed and Fraction(level) >= summary.factors.min_level:
                alternatives = [own._replace(system=other) for other in self.against]
                if alternatives or smaller or self.at_most is not None:
                    yield own, alternatives or [own._replace(level=smaller)]

    def _outcome(
        self, summary: Summary, measured: Measured, own: Place, alternatives: Sequence[Place]
    ) -> Outcome | None:
        measure, lower = measured.measure, measured.lower_is_better is not self.falls
        if self.at_most is not None:
            numbers = summary.numbers(own, measure).values()
            within = max(numbers, default=0.0) <= self.at_most
            return ("better" if within else "worse") if numbers else None
        if summary.factors.is_paired:
            (other,) = alternatives
            gain = summary.difference(own, other, measure)
            return standing(gain, [_NOTHING], rule=self.rule, lower_is_better=lower)
        means = [
            _NOTHING if measured.is_difference else summary.mean(p, measure) for p in alternatives
        ]
        scaled = [None if mean is None else mean.times(self.factor) for mean in means]
        mean = summary.mean(own, measure)
        return standing(mean, scaled, rule=self.rule, lower_is_better=lower)


@dataclass(frozen=True)
class Verdict:
    """What came of one claim.

    is_held   (data set, ε or K as text) → whether the claim held there
    outcome   (data set, ε or K as text) → how the claim's system stood against the others
    missing   places that the claim is about and where a comparison did not run
    """

    is_held: Mapping[tuple[str, str], bool]
    outcome: Mapping[tuple[str, str], Outcome]
    missing: int = 0

    @classmethod
    def by(
        cls,
        rule: Rule,
        outcome: Mapping[tuple[str, str], Outcome],
        *,
        missing: int = 0,
    ) -> Verdict:
        """What came of a claim with this rule."""
        is_held = {
            place: stands == "better" if rule == "better" else stands != "worse"
            for place, stands in outcome.items()
        }
        return cls(is_held, outcome, missing)

    @property
    def _not_once(self) -> str:
        """A claim that held nowhere: refuted only where the contrary was seen."""
        return "did not hold" if "worse" in self.outcome.values() else "undecided"

    @property
    def short(self) -> str:
        """A few words for a table.

        >>> Verdict({("a", "1"): False}, {("a", "1"): "worse"}).short
        'did not hold, the contrary in 1 of 1'
        """
        count = sum(self.is_held.values())
        contrary = collections.Counter(self.outcome.values())["worse"]
        if not self.is_held:
            return "not measured"
        if count == len(self.is_held):
            every = f"{count} of {count} that ran" if self.missing else f"all {count}"
            return f"held in {every}"
        words = f"held in {count} of {len(self.is_held)}" if count else self._not_once
        return words + (f", the contrary in {contrary} of {len(self.is_held)}" if contrary else "")
