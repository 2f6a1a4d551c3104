"""Results of a study: the rows of finished cells, and their means at every place.

Factors say as data what the numbers of a study depend on. A place is one combination of them
without the repetition; a mean is over the repetitions there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import isfinite, nan, sqrt
from typing import Any, NamedTuple

from dp_pipeline.reporting.text import number_text

Row = Mapping[str, Any]
"""One finished cell: text, whole numbers, floats, None where there is no number, or such rows."""

_MOST_DECIMALS = 4


@dataclass(frozen=True)
class System:
    """One line of a comparison.

    name        in tables and on the command line
    title       as people call it
    algorithm   a name of ``models.MODELS``, or of ``anonymity.METHODS``
    parameters  what differs from the algorithm's defaults, as text
    """

    name: str
    title: str
    algorithm: str
    parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_published(self) -> bool:
        """Whether this is a variant as published, which costs another ε than the one asked for."""
        return self.parameters.get("variant") == "published"


class Place(NamedTuple):
    """Where a mean stands; texts.

    way     in which the system is measured; empty in a study that has one way
    level   ε or K
    """

    dataset: str
    way: str
    system: str
    level: str


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

    def times(self, factor: float) -> Mean:
        """The mean of the numbers times a factor above 0."""
        return Mean(factor * self.value, factor * self.error, self.repeats)

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
        value, error = (round(number, decimals) + 0.0 for number in (self.value, self.error))
        return f"{value:,.{max(0, decimals)}f} ± {error:,.{max(0, decimals)}f}"


@dataclass(frozen=True, kw_only=True)
class Factors:
    """What the numbers of a study depend on.

    systems      name → what is compared, in the order of tables and pictures
    level        column of what a system is shown over: ``epsilon`` or ``k``
    letter       what it is called: ε or K
    order        column → what its values are sorted by; rows are sorted by all of these columns,
                 by the first one first
    facts        the columns beside these that are no measures
    way          column of the ways in which one system is measured, and ``ways`` their order;
                 None where there is one way. What is measured in the way ``none`` stands in all
    baselines    name → the only level at which it is measured: it stands at every level
    paired       whether the systems of one repetition saw the same rows with the same seed
    least        levels below it promise nothing, so that no claim is about them
    derived      measure → how the means make it, at one place
    """

    systems: Mapping[str, System]
    level: str
    letter: str
    order: Mapping[str, Callable[[Any], Any]]
    facts: Sequence[str]
    way: str | None = None
    ways: tuple[str, ...] = ("",)
    baselines: Mapping[str, str] = field(default_factory=dict)
    paired: bool = False
    least: int = 0
    derived: Mapping[str, Callable[[Summary, Place], Mean | None]] = field(default_factory=dict)

    def place(self, row: Row) -> Place:
        """Where a row belongs."""
        way = row[self.way] if self.way else ""
        return Place(row["dataset"], way, row["system"], str(row[self.level]))

    def columns_of(self, place: Place) -> dict[str, str]:
        """The columns of a place, in their order."""
        way = {} if self.way is None else {self.way: place.way}
        known = {"dataset": place.dataset, "system": place.system, self.level: place.level, **way}
        return {name: known[name] for name in self.order if name in known}


@dataclass(frozen=True)
class Summary:
    """What came of finished cells.

    rows   one a place, use and repetition, sorted
    """

    factors: Factors
    rows: tuple[Row, ...]

    @classmethod
    def of(cls, factors: Factors, rows: Iterable[Row]) -> Summary:
        """The summary of rows in any order."""

        def rank(row: Row) -> list[Any]:
            return [of(row[name]) for name, of in factors.order.items()]

        return cls(factors, tuple(sorted(rows, key=rank)))

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Every column that a row has, in the order in which they come."""
        return tuple(dict.fromkeys(name for row in self.rows for name in row))

    @cached_property
    def measures(self) -> tuple[str, ...]:
        """Those that hold numbers."""
        no_measures = {*self.factors.order, *self.factors.facts, self.factors.level, "failure"}
        return tuple(name for name in self.columns if name not in no_measures)

    @cached_property
    def by_place(self) -> Mapping[Place, list[Row]]:
        """Place → its rows that hold numbers."""
        found: dict[Place, list[Row]] = {}
        for row in self.rows:
            if not row["failure"]:
                found.setdefault(self.factors.place(row), []).append(row)
        return found

    @cached_property
    def failures(self) -> Mapping[Place, str]:
        """Place → the line of a system that refused there."""
        return {self.factors.place(row): row["failure"] for row in self.rows if row["failure"]}

    @cached_property
    def means(self) -> Mapping[Place, Mapping[str, Mean]]:
        """Place → measure → mean, in the order of the rows; what was not measured is absent."""
        return {place: dict(self._means(rows)) for place, rows in self.by_place.items()}

    def _means(self, rows: Sequence[Row]) -> Iterator[tuple[str, Mean]]:
        for measure in self.measures:
            values = [row[measure] for row in rows if row.get(measure) is not None]
            if values:
                yield measure, Mean.of(values)

    @cached_property
    def datasets(self) -> tuple[str, ...]:
        """Data sets with a mean, by name."""
        return tuple(dict.fromkeys(place.dataset for place in self.means))

    @cached_property
    def ways(self) -> tuple[str, ...]:
        """The ways to show: ``none`` stands in each of them."""
        found = {place.way for place in self.means}
        return tuple(way for way in self.factors.ways if way in found) or self.factors.ways[:1]

    def systems(self, dataset: str) -> tuple[str, ...]:
        """Systems with a mean on a data set, in their order."""
        found = {place.system for place in self.means if place.dataset == dataset}
        return tuple(name for name in self.factors.systems if name in found)

    def levels(self, dataset: str) -> tuple[str, ...]:
        """ε or K of a data set with a mean, ascending; not those of baselines."""
        baselines = self.factors.baselines
        places = [p for p in self.means if p.dataset == dataset and p.system not in baselines]
        return tuple(sorted({place.level for place in places}, key=Fraction))

    def mean(self, place: Place, measure: str) -> Mean | None:
        """One mean: of a baseline the same at every level, of a system with one way the same in
        every way. None where nothing was measured.
        """
        if measure in self.factors.derived:
            return self.factors.derived[measure](self, place)
        level = self.factors.baselines.get(place.system, place.level)
        for way in (place.way, "none"):
            found = self.means.get(place._replace(way=way, level=level), {}).get(measure)
            if found is not None:
                return found
        return None

    def numbers(self, place: Place, measure: str) -> dict[int, float]:
        """Repetition → number."""
        rows = self.by_place.get(place, [])
        return {row["repetition"]: row[measure] for row in rows if row.get(measure) is not None}

    def difference(self, own: Place, other: Place, measure: str) -> Mean | None:
        """Mean of ``own`` less ``other`` over the repetitions that both have: they saw the same
        rows in the same folds, so what differs is what they did. None without such a repetition.
        """
        ours, theirs = self.numbers(own, measure), self.numbers(other, measure)
        pairs = [ours[at] - theirs[at] for at in ours if at in theirs]
        return Mean.of(pairs) if pairs else None

    def repeats(self, *, but: Sequence[str] = ()) -> tuple[int, int]:
        """Fewest and most repetitions of a number; ``but`` are measures that do not count."""
        found = [
            mean.repeats
            for means in self.means.values()
            for measure, mean in means.items()
            if measure not in but
        ]
        return min(found), max(found)
