"""Summary: means and standard errors over repetitions, and the papers' RCP."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import sqrt

from dp_pipeline.metrics.clustering import rcp
from dp_pipeline.studies.clustering.measuring import METRICS
from dp_pipeline.studies.clustering.systems import PLANNINGS, Planning, known_systems
from dp_pipeline.studies.journal import Row
from dp_pipeline.studies.means import Mean, means_by_place

MEASURES = (*METRICS, "seconds")
REFERENCE = "eug_kmeans"
"""RCP compares with it."""

Place = tuple[str, str, Planning, str]
"""Data set, system, planning, ε as canonical text."""


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
        """The summary of finished cells, in the order of data sets, systems, plannings and ε."""

        def place(row: Row) -> Place:
            return row["dataset"], row["system"], row["planning"], row["epsilon"]

        means, failures = means_by_place(sorted_rows(rows), place, MEASURES)
        return cls(means, failures)

    @cached_property
    def datasets(self) -> tuple[str, ...]:
        """Data sets with a mean, by name."""
        return tuple(dict.fromkeys(place[0] for place in self.means))

    @cached_property
    def plannings(self) -> tuple[Planning, ...]:
        """The plannings to show: ``none`` stands in each of them."""
        found = {place[2] for place in self.means}
        return tuple(one for one in PLANNINGS if one in found) or ("declared",)

    def systems(self, dataset: str) -> tuple[str, ...]:
        """Systems with a mean on a data set, in the order of ``SYSTEMS``."""
        return tuple(dict.fromkeys(place[1] for place in self.means if place[0] == dataset))

    def epsilons(self, dataset: str) -> tuple[str, ...]:
        """ε of a data set as text, ascending."""
        return tuple(sorted({p[3] for p in self.means if p[0] == dataset}, key=Fraction))

    def mean(
        self, dataset: str, system: str, planning: Planning, epsilon: str, measure: str
    ) -> Mean | None:
        """One mean, ``rcp`` too; of a system that plans with no N, the same in every planning.

        None where nothing was measured.
        """
        if measure == "rcp":
            return self._rcp(dataset, system, planning, epsilon)
        ways: tuple[Planning, ...] = (planning, "none")
        for way in ways:
            found = self.means.get((dataset, system, way, epsilon), {}).get(measure)
            if found is not None:
                return found
        return None

    def _rcp(self, dataset: str, system: str, planning: Planning, epsilon: str) -> Mean | None:
        """RCP of the mean NICVs, in percent; its error by the delta method, because the two
        means are independent: |X/E|·√((s_X/X)² + (s_E/E)²).
        """
        reference = self.mean(dataset, REFERENCE, planning, epsilon, "nicv")
        own = self.mean(dataset, system, planning, epsilon, "nicv")
        if own is None or reference is None or system == REFERENCE or not own.value:
            return None
        value = rcp(reference=reference.value, candidate=own.value)
        relative = sqrt((own.error / own.value) ** 2 + (reference.error / reference.value) ** 2)
        error = 100 * own.value / reference.value * relative
        return Mean(value, error, min(own.repeats, reference.repeats))


def sorted_rows(rows: Iterable[Row]) -> list[Row]:
    """By data set, system in the order of ``SYSTEMS``, planning, ε and repetition."""
    order = {name: index for index, name in enumerate(known_systems())}
    return sorted(
        rows,
        key=lambda row: (
            row["dataset"],
            order[row["system"]],
            row["planning"],
            Fraction(row["epsilon"]),
            row["repetition"],
        ),
    )
