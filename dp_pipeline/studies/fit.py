"""Fit: one model on a curator in memory, timed, with the randomness of its cell.

Means of repetitions with their standard errors, and what may be said of a difference.

Verdict: at which places a claim held, and where it was the other way round.
"""

from __future__ import annotations

import collections
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite, nan, sqrt
from typing import Literal, TypeVar

import numpy as np

from dp_pipeline.gate.counter import Counter
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.models.base import Model, PrivacyGuarantee
from dp_pipeline.publish.fit import Fitted, fit
from dp_pipeline.release.accountant import Accountant
from dp_pipeline.release.transcript import Transcript
from dp_pipeline.reporting.text import number_text
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.studies.journal import Row
from dp_pipeline.studies.study import seed_of


def timed_fit(
    model: Model,
    counter: Counter,
    spec: DatasetSpec,
    guarantee: PrivacyGuarantee,
    *,
    epsilon: Fraction,
    key: str,
) -> tuple[Fitted, float]:
    """A fit with the noise that ``key`` decides, and its wall-clock seconds."""

    def ask(accountant: Accountant) -> Curator:
        return Curator(
            counter,
            domain=spec.domain,
            reach=spec.reach,
            accountant=accountant,
            transcript=Transcript(),
            noise=SeededNoise(seed_of("noise", key)),
            benchmark=not spec.is_release,
            relation=spec.relation,
        )

    rng = np.random.default_rng(seed_of("post-processing", key))
    began = time.perf_counter()
    fitted = fit(model, guarantee, ask, epsilon=epsilon, rng=rng)
    return fitted, time.perf_counter() - began


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


Rule = Literal["better", "no worse"]
"""Better than every one of the others by more than 3 standard errors of the difference; or no
worse than the best of them, by no more than that.
"""


def standing(
    own: Mean | None, others: Sequence[Mean | None], *, rule: Rule, lower_is_better: bool
) -> Outcome | None:
    """How a system stands against others: the least favourable of the comparisons, and with
    ``no worse`` that with the best mean. None where one of them was not measured.
    """
    known = [one for one in others if one is not None and isfinite(one.error)]
    # Without a standard error nothing can be said, not even that there is no difference.
    if own is None or not isfinite(own.error) or len(known) < len(others):
        return None
    if rule == "no worse":
        best = min if lower_is_better else max
        known = [best(known, key=lambda other: other.value)]
    outcomes = [compare(own, other, lower_is_better=lower_is_better) for other in known]
    return max(outcomes, key=("better", "alike", "worse").index)


@dataclass(frozen=True)
class Verdict:
    """What came of one guarantee.

    held      (data set, ε as text) → whether the claim held there
    outcome   (data set, ε as text) → how the claim's system stood against the others
    over      what stands in the place of ε, where it is another letter
    """

    held: Mapping[tuple[str, str], bool]
    outcome: Mapping[tuple[str, str], Outcome]
    over: str = "ε"

    @classmethod
    def by(
        cls, rule: Rule, outcome: Mapping[tuple[str, str], Outcome], *, over: str = "ε"
    ) -> Verdict:
        """What came of a claim with this rule."""
        held = {
            place: one == "better" if rule == "better" else one != "worse"
            for place, one in outcome.items()
        }
        return cls(held, outcome, over)

    @property
    def text(self) -> str:
        """One line: held, held only at these places, did not hold, undecided, or not measured.

        >>> places = {("a", "0.1"): True, ("a", "1"): False}
        >>> Verdict(places, {("a", "0.1"): "better", ("a", "1"): "worse"}).text
        'held only at a: 0.1 (1 of 2 places); the contrary at a: 1'
        """
        count = sum(self.held.values())
        if not self.held:
            return "not measured"
        if count == len(self.held):
            return f"held (all {count} places)"
        contrary = self._where(place for place, one in self.outcome.items() if one == "worse")
        tail = f"; the contrary at {contrary}" if contrary else "; nowhere the contrary"
        if count == 0:
            return f"{self._not_once} (0 of {len(self.held)} places){tail}"
        where = self._where(place for place, held in self.held.items() if held)
        return f"held only at {where} ({count} of {len(self.held)} places){tail}"

    @property
    def _not_once(self) -> str:
        """A claim that held nowhere: refuted only where the contrary was seen."""
        return "did not hold" if "worse" in self.outcome.values() else "undecided"

    def _where(self, places: Iterable[tuple[str, str]]) -> str:
        """Places by data set: the words of a sentence."""
        found, measured = _by_dataset(places), _by_dataset(self.held)
        return "; ".join(
            f"{name}: {f'every {self.over}' if one == measured[name] else ', '.join(one)}"
            for name, one in found.items()
        )

    @property
    def short(self) -> str:
        """A few words for a table.

        >>> Verdict({("a", "1"): False}, {("a", "1"): "worse"}).short
        'did not hold, the contrary in 1 of 1'
        """
        count = sum(self.held.values())
        contrary = collections.Counter(self.outcome.values())["worse"]
        if not self.held:
            return "not measured"
        if count == len(self.held):
            return f"held in all {count}"
        words = f"held in {count} of {len(self.held)}" if count else self._not_once
        return words + (f", the contrary in {contrary} of {len(self.held)}" if contrary else "")


def _by_dataset(places: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Data set → its ε in the order given."""
    found = defaultdict(list)
    for dataset, epsilon in places:
        found[dataset].append(epsilon)
    return found
