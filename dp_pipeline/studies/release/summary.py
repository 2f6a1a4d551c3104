"""Summary: means and standard errors over repetitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from dp_pipeline.studies.journal import Row
from dp_pipeline.studies.means import Mean, means_by_place
from dp_pipeline.studies.release.cell import BASELINES, USES
from dp_pipeline.studies.release.measuring import FACTS
from dp_pipeline.studies.release.systems import known_systems

Place = tuple[str, str, str]
"""Data set, system, ε as canonical text: empty for a baseline."""


@dataclass(frozen=True)
class Summary:
    """Means of every place.

    means      place → measure → mean
    failures   place → the line of a system that refused
    """

    means: Mapping[Place, Mapping[str, Mean]]
    failures: Mapping[Place, str]

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Summary:
        """The summary of finished cells, in the order of data sets, systems and ε."""
        in_order = sorted_rows(rows)

        def place(row: Row) -> Place:
            return row["dataset"], row["system"], row["epsilon"]

        means, failures = means_by_place(in_order, place, measures_of(in_order))
        return cls(means, failures)

    @cached_property
    def datasets(self) -> tuple[str, ...]:
        """Data sets with a mean, by name."""
        return tuple(dict.fromkeys(place[0] for place in self.means))

    @cached_property
    def measures(self) -> tuple[str, ...]:
        """Everything that has a mean somewhere."""
        return tuple(dict.fromkeys(name for means in self.means.values() for name in means))

    def systems(self, dataset: str) -> tuple[str, ...]:
        """Systems with a mean on a data set, in the order of ``known_systems``."""
        found = dict.fromkeys(place[1] for place in self.means if place[0] == dataset)
        return tuple(name for name in found if name not in BASELINES)

    def epsilons(self, dataset: str) -> tuple[str, ...]:
        """ε of a data set as text, ascending."""
        found = {place[2] for place in self.means if place[0] == dataset}
        return tuple(sorted(found - {""}, key=Fraction))

    def mean(self, dataset: str, system: str, epsilon: str, measure: str) -> Mean | None:
        """One mean; of a baseline, which has no ε, the same at every ε. None where nothing was
        measured.
        """
        at = "" if system in BASELINES else epsilon
        return self.means.get((dataset, system, at), {}).get(measure)

    def repeats(self) -> tuple[int, int]:
        """Fewest and most repetitions of a number, the memory's apart: it is measured once."""
        found = [
            mean.repeats
            for means in self.means.values()
            for measure, mean in means.items()
            if measure != "peak_mb"
        ]
        return min(found), max(found)


def measures_of(rows: Iterable[Row]) -> tuple[str, ...]:
    """The numbers that the rows hold, in the order in which they come."""
    names = dict.fromkeys(name for row in rows for name in row)
    return tuple(name for name in names if name not in FACTS)


def sorted_rows(rows: Iterable[Row]) -> list[Row]:
    """By data set, system in the order of ``known_systems``, ε, use and repetition."""
    order = {name: at for at, name in enumerate((*known_systems(), *BASELINES))}
    return sorted(
        rows,
        key=lambda row: (
            row["dataset"],
            order[row["system"]],
            Fraction(row["epsilon"] or 0),
            USES.index(row["use"]),
            row["repetition"],
        ),
    )
