"""Cell: one repetition of one system at one ε on one data set, for one use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Literal

from dp_pipeline.schema.epsilon import epsilon_text
from dp_pipeline.studies.release.systems import System
from dp_pipeline.studies.seeds import seed_of

Use = Literal["table", "classifier", "memory"]
"""``table``: fitted on all rows and compared with them; ``classifier``: fitted on four fifths,
and what classifiers learn from it tested on the others; ``memory``: fitted once more, slowly,
while what it allocates is added up.
"""

USES: tuple[Use, ...] = ("table", "classifier", "memory")

NO_PRIVACY, MAJORITY = "no_privacy", "majority"
BASELINES = (NO_PRIVACY, MAJORITY)
"""What classifiers are compared with: taught by true rows, or with one answer for all."""


@dataclass(frozen=True)
class Cell:
    """What is measured at once.

    system    a name of ``known_systems``, or of ``BASELINES``
    epsilon   canonical text; empty for a baseline
    """

    dataset: str
    system: str
    epsilon: str
    use: Use
    repetition: int

    @property
    def key(self) -> str:
        """One text a cell: what a journal knows it by, and what decides its randomness.

        >>> Cell("nltcs", "one_shot", "0.2", "table", 7).key
        'nltcs/one_shot/0.2/table/7'
        """
        return "/".join((self.dataset, self.system, self.epsilon, self.use, str(self.repetition)))

    @property
    def split(self) -> int:
        """Decides which rows are held out: the same ones for every system and ε."""
        return seed_of("held out", f"{self.dataset}/{self.repetition}")


def all_cells(
    dataset: str,
    systems: Sequence[System],
    epsilons: Sequence[Fraction],
    *,
    repeats: int,
    classify: bool,
) -> list[Cell]:
    """Every cell of one data set; ``classify`` where it has targets that classifiers learn."""
    uses = USES[:2] if classify else USES[:1]
    each = [
        Cell(dataset, system.name, epsilon_text(epsilon), use, repetition)
        for repetition, system, epsilon, use in product(range(repeats), systems, epsilons, uses)
    ]
    once = [
        Cell(dataset, system.name, epsilon_text(epsilon), "memory", 0)
        for system, epsilon in product(systems, epsilons)
    ]
    beside = [
        Cell(dataset, name, "", "classifier", repetition)
        for repetition, name in product(range(repeats if classify else 0), BASELINES)
    ]
    return [*each, *once, *beside]
