"""Cell: one repetition of one system at one ε on one data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from dp_pipeline.schema.epsilon import epsilon_text
from dp_pipeline.studies.clustering.systems import Planning, System


@dataclass(frozen=True)
class Cell:
    """What is measured at once; names as in the data set file and in ``SYSTEMS``.

    epsilon   canonical text
    """

    dataset: str
    system: str
    planning: Planning
    epsilon: str
    repetition: int

    @property
    def key(self) -> str:
        """One text a cell: what a journal knows it by, and what decides its randomness.

        Systems are compared as independent samples, so no two of them share their noise.

        >>> Cell("birch3", "eug_kmeans", "paid", "0.5", 7).key
        'birch3/eug_kmeans/paid/0.5/7'
        """
        parts = (self.dataset, self.system, self.planning, self.epsilon, str(self.repetition))
        return "/".join(parts)


def all_cells(
    dataset: str, systems: Sequence[System], epsilons: Sequence[Fraction], *, repeats: int
) -> list[Cell]:
    """Every cell of one data set, in every planning of each system."""
    return [
        Cell(dataset, system.name, planning, epsilon_text(epsilon), repetition)
        for repetition, system, epsilon in product(range(repeats), systems, epsilons)
        for planning in system.plannings
    ]
