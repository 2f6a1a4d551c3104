"""Verdict: at which places a claim held, and where it was the other way round."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Literal

from dp_pipeline.studies.means import Mean, Outcome, compare

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
    """What came of one claim.

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
        count, contrary = sum(self.held.values()), Counter(self.outcome.values())["worse"]
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
