"""Summary: means and standard errors over repetitions, and mean differences of pairs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dp_pipeline.studies.anonymity.cell import USES
from dp_pipeline.studies.anonymity.measuring import FACTS
from dp_pipeline.studies.anonymity.systems import NO_SELECTION, known_systems
from dp_pipeline.studies.journal import Row
from dp_pipeline.studies.means import Mean, means_by_place

Place = tuple[str, str, str, int]
"""Data set, use, system, K: 0 for what keeps everything."""


@dataclass(frozen=True)
class Summary:
    """What came of finished cells.

    rows   one a place and repetition, in the order of data sets, uses, systems and K
    """

    rows: tuple[Row, ...]

    @classmethod
    def of(cls, cells: Iterable[Row]) -> Summary:
        """The summary of finished cells. Cells that measured a K twice, each with scorers or
        other K of its own, are one row: what both have is the same but for the clock.
        """
        found: dict[tuple[Any, ...], dict[str, Any]] = {}
        for cell in cells:
            for k, numbers in cell["by_k"].items():
                facts = {**dict.fromkeys(FACTS, ""), **cell, "k": int(k)}
                del facts["by_k"]
                row = found.setdefault((*_place(facts), facts["repetition"]), facts)
                row |= {**numbers, **row, "failure": numbers.get("failure", "")}
        return cls(tuple(sorted(found.values(), key=_order)))

    @cached_property
    def _grouped(self) -> tuple[Mapping[Place, Mapping[str, Mean]], Mapping[Place, str]]:
        return means_by_place(self.rows, _place, self.measures)

    @property
    def means(self) -> Mapping[Place, Mapping[str, Mean]]:
        """Place → measure → mean."""
        return self._grouped[0]

    @property
    def failures(self) -> Mapping[Place, str]:
        """Place → the line of a system that refused."""
        return self._grouped[1]

    @cached_property
    def measures(self) -> tuple[str, ...]:
        """The numbers that the rows hold, in the order in which they come."""
        names = dict.fromkeys(name for row in self.rows for name in row)
        return tuple(name for name in names if name not in FACTS)

    @cached_property
    def datasets(self) -> tuple[str, ...]:
        """Data sets with a mean, by name."""
        return tuple(dict.fromkeys(place[0] for place in self.means))

    def systems(self, dataset: str) -> tuple[str, ...]:
        """Systems with a mean on a data set, in the order of ``known_systems``."""
        found = {place[2] for place in self.means if place[0] == dataset}
        return tuple(name for name in known_systems() if name in found)

    def partitions(self, dataset: str) -> tuple[int, ...]:
        """K of a data set with a mean, ascending; not that of what keeps everything."""
        found = {p[3] for p in self.means if p[0] == dataset and p[2] != NO_SELECTION}
        return tuple(sorted(found))

    def mean(self, dataset: str, use: str, system: str, k: int, measure: str) -> Mean | None:
        """One mean; of what keeps everything, the same at every K. None where nothing was
        measured.
        """
        at = 0 if system == NO_SELECTION else k
        return self.means.get((dataset, use, system, at), {}).get(measure)

    def numbers(
        self, dataset: str, use: str, system: str, k: int, measure: str
    ) -> dict[int, float]:
        """Repetition → number."""
        at = (dataset, use, system, k)
        return {
            row["repetition"]: row[measure]
            for row in self._by_place.get(at, ())
            if row.get(measure) is not None
        }

    def difference(
        self,
        dataset: str,
        use: str,
        measure: str,
        one: tuple[str, int],
        other: tuple[str, int],
    ) -> Mean | None:
        """Mean of ``one`` less ``other`` (each a system and its K) over the repetitions that both
        have: they saw the same rows in the same folds, so what differs is what they did. None
        without such a repetition.
        """
        ours, theirs = (self.numbers(dataset, use, *place, measure) for place in (one, other))
        pairs = [ours[at] - theirs[at] for at in ours if at in theirs]
        return Mean.of(pairs) if pairs else None

    @cached_property
    def _by_place(self) -> Mapping[Place, list[Row]]:
        found: dict[Place, list[Row]] = {}
        for row in self.rows:
            found.setdefault(_place(row), []).append(row)
        return found

    def repeats(self) -> tuple[int, int]:
        """Fewest and most repetitions of a number."""
        found = [mean.repeats for means in self.means.values() for mean in means.values()]
        return min(found), max(found)


def _place(row: Row) -> Place:
    return row["dataset"], row["use"], row["system"], row["k"]


def _order(row: Row) -> tuple[Any, ...]:
    systems = list(known_systems())
    return (
        row["dataset"],
        USES.index(row["use"]),
        systems.index(row["system"]),
        row["k"],
        row["repetition"],
    )
