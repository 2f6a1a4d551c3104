"""Results of a study: the rows of finished cells, and their means at every place.

Factors say as data what the numbers of a study depend on. A place is one combination of them
without the repetition; a mean is over the repetitions there.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import isfinite, nan, sqrt
from pathlib import Path
from typing import Any, NamedTuple

from dp_pipeline.reporting.text import number_text

Row = Mapping[str, Any]
"""One finished cell: text, integers, floats, None where there is no number, or such rows."""

_MAX_DECIMALS = 4


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
        """Whether this is a variant as published, which costs another ε than the requested one."""
        return self.parameters.get("variant") == "published"


class Place(NamedTuple):
    """Where a mean stands; texts.

    variant   the way in which the system is measured; empty in a study that has one way
    level     ε or K
    """

    dataset: str
    variant: str
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
        """Return the mean of at least one number.

        >>> Mean.of([1.0, 3.0])
        Mean(value=2.0, error=1.0, repeats=2)
        """
        n = len(values)
        mean = sum(values) / n
        if n < 2:
            return cls(mean, nan, n)
        return cls(mean, sqrt(sum((v - mean) ** 2 for v in values) / (n - 1) / n), n)

    def times(self, factor: float) -> Mean:
        """Return the mean of the numbers times a factor above 0."""
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
        decimals = min(_MAX_DECIMALS, (mantissa[0] == "1") - int(exponent))
        if self.error == 0:
            decimals = _MAX_DECIMALS
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
    facts        the columns alongside these that are no measures
    variant      column of the ways in which one system is measured, and ``variants`` their order;
                 None where there is one way. What is measured in the way ``none`` stands in all
    baselines    name → the only level at which it is measured: it stands at every level
    is_paired    whether the systems of one repetition saw the same rows with the same seed
    min_level    levels below it promise nothing, so that no claim is about them
    derived      measure → how the means make it, at one place
    is_counted_by_measure   whether measures of one place are repeated differently often
    """

    systems: Mapping[str, System]
    level: str
    letter: str
    order: Mapping[str, Callable[[Any], Any]]
    facts: Sequence[str]
    variant: str | None = None
    variants: tuple[str, ...] = ("",)
    baselines: Mapping[str, str] = field(default_factory=dict)
    is_paired: bool = False
    min_level: int = 0
    derived: Mapping[str, Callable[[Summary, Place], Mean | None]] = field(default_factory=dict)
    is_counted_by_measure: bool = False

    def place(self, row: Row) -> Place:
        """Return where a row belongs."""
        variant = row[self.variant] if self.variant else ""
        return Place(row["dataset"], variant, row["system"], str(row[self.level]))

    def columns_of(self, place: Place) -> dict[str, str]:
        """Return the columns of a place, in their order."""
        labels = {"dataset": place.dataset, "system": place.system, self.level: place.level}
        labels |= {self.variant: place.variant} if self.variant else {}
        return {name: labels[name] for name in self.order if name in labels}


@dataclass(frozen=True)
class Summary:
    """The means of finished cells.

    measures   columns of numbers, in their order
    means      place → measure → mean, both in their order; an absent measure has no number there
    rows       one a place, use and repetition, sorted; none where the means were read from a file
    """

    factors: Factors
    measures: tuple[str, ...]
    means: Mapping[Place, Mapping[str, Mean]]
    rows: tuple[Row, ...] = ()

    @classmethod
    def of(cls, factors: Factors, rows: Iterable[Row]) -> Summary:
        """Summarise rows in any order."""

        def rank(row: Row) -> list[Any]:
            return [of(row[name]) for name, of in factors.order.items()]

        ordered = tuple(sorted(rows, key=rank))
        no_measures = {*factors.order, *factors.facts, factors.level, "failure"}
        columns = dict.fromkeys(name for row in ordered for name in row if name not in no_measures)
        numbers: dict[Place, dict[str, list[float]]] = {}
        for row in ordered:
            if not row["failure"]:
                here = numbers.setdefault(factors.place(row), {name: [] for name in columns})
                for name, values in here.items():
                    values.extend([row[name]] if row.get(name) is not None else [])
        return cls(
            factors,
            tuple(columns),
            {
                place: {name: Mean.of(values) for name, values in here.items() if values}
                for place, here in numbers.items()
            },
            ordered,
        )

    @classmethod
    def read(cls, factors: Factors, path: Path) -> Summary:
        """Read the means of a ``summary.csv``, which holds ``summary_rows``."""
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        columns = [name.removesuffix("_se") for name in rows[0] if name.endswith("_se")]
        measures = tuple(name for name in columns if name not in factors.derived)
        return cls(
            factors,
            measures,
            {
                factors.place(row): {
                    name: Mean(
                        float(row[name]),
                        float(row[f"{name}_se"] or nan),
                        int(row.get(f"{name}_repeats") or row["repeats"]),
                    )
                    for name in measures
                    if row[name]
                }
                for row in rows
            },
        )

    @cached_property
    def failures(self) -> Mapping[Place, str]:
        """Place → the line of a system that refused there."""
        return {self.factors.place(row): row["failure"] for row in self.rows if row["failure"]}

    @cached_property
    def datasets(self) -> tuple[str, ...]:
        """Data sets with a mean, by name."""
        return tuple(dict.fromkeys(place.dataset for place in self.means))

    @cached_property
    def variants(self) -> tuple[str, ...]:
        """The ways to show: ``none`` stands in each of them."""
        measured = {place.variant for place in self.means}
        return (
            tuple(variant for variant in self.factors.variants if variant in measured)
            or self.factors.variants[:1]
        )

    def systems(self, dataset: str) -> tuple[str, ...]:
        """Return the systems with a mean on a data set, in their order."""
        measured = {place.system for place in self.means if place.dataset == dataset}
        return tuple(name for name in self.factors.systems if name in measured)

    def levels(self, dataset: str) -> tuple[str, ...]:
        """Return ε or K of a data set with a mean, ascending; not those of baselines."""
        baselines = self.factors.baselines
        places = [p for p in self.means if p.dataset == dataset and p.system not in baselines]
        return tuple(sorted({place.level for place in places}, key=Fraction))

    def mean(self, place: Place, measure: str) -> Mean | None:
        """Return one mean, None where nothing was measured. That of a baseline is the same at every
        level, that of a system with one way the same in every way.
        """
        if measure in self.factors.derived:
            return self.factors.derived[measure](self, place)
        level = self.factors.baselines.get(place.system, place.level)
        for variant in (place.variant, "none"):
            means = self.means.get(place._replace(variant=variant, level=level), {})
            if measure in means:
                return means[measure]
        return None

    @cached_property
    def _rows_of(self) -> Mapping[Place, list[Row]]:
        rows = defaultdict(list)
        for row in self.rows:
            if not row["failure"]:
                rows[self.factors.place(row)].append(row)
        return rows

    def fact(self, place: Place, name: str) -> Any:
        """Return a fact of a place: the same in all of its rows."""
        return self._rows_of[place][0][name]

    def numbers(self, place: Place, measure: str) -> dict[int, float]:
        """Return repetition → number."""
        rows = self._rows_of.get(place, [])
        return {row["repetition"]: row[measure] for row in rows if row.get(measure) is not None}

    def difference(self, own: Place, other: Place, measure: str) -> Mean | None:
        """Return the mean of ``own`` less ``other`` over the repetitions that both have: they saw
        the same rows in the same folds, so what differs is what they did. None without any.
        """
        ours, theirs = self.numbers(own, measure), self.numbers(other, measure)
        pairs = [ours[index] - theirs[index] for index in ours if index in theirs]
        return Mean.of(pairs) if pairs else None

    def repeats(self, *, but: Sequence[str] = ()) -> tuple[int, int]:
        """Return the fewest and most repetitions of a number; measures of ``but`` do not count."""
        counts = [
            mean.repeats
            for means in self.means.values()
            for measure, mean in means.items()
            if measure not in but
        ]
        return min(counts), max(counts)


def summary_rows(summary: Summary) -> Iterator[Row]:
    """Return one row a place; ``…_se`` are standard errors. What is derived of a system with one
    way is derived in the first of the ways.
    """
    factors = summary.factors
    for place, means in summary.means.items():
        row: dict[str, Any] = dict(factors.columns_of(place))
        if not factors.is_counted_by_measure:
            row["repeats"] = max(mean.repeats for mean in means.values())
        first = place._replace(variant=factors.variants[0]) if place.variant == "none" else place
        for measure in (*summary.measures, *factors.derived):
            mean = summary.mean(first, measure)
            row[measure] = None if mean is None else mean.value
            row[f"{measure}_se"] = mean.error if mean and isfinite(mean.error) else None
            if factors.is_counted_by_measure:
                row[f"{measure}_repeats"] = 0 if mean is None else mean.repeats
        yield row
