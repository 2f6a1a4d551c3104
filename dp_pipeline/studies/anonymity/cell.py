"""Cell: one repetition of one system on one data set, for one use, at every K."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from dp_pipeline.metrics.scorers import Scorer
from dp_pipeline.studies.anonymity.systems import NO_SELECTION, System
from dp_pipeline.studies.seeds import seed_of

Use = Literal["release", "paper", "nested"]
"""``release``: selected on all rows, timed, and what is released looked at; ``paper`` and
``nested``: what classifiers learn from releases, by ``anonymity.protocols``.
"""

USES: tuple[Use, ...] = ("release", "paper", "nested")

_SEED_BITS = 32
"""As scikit-learn has them."""


@dataclass(frozen=True)
class Cell:
    """What is measured at once: a forest's ranking is shared by every K.

    system       a name of ``known_systems``
    partitions   the K, ascending
    scorers      of the uses that teach classifiers; none for ``release``
    """

    dataset: str
    system: str
    use: Use
    partitions: tuple[int, ...]
    scorers: tuple[Scorer, ...]
    repetition: int

    @property
    def key(self) -> str:
        """One text a cell: what a journal knows it by.

        >>> Cell("wdbc", "rfka", "nested", (2, 5), ("logistic",), 3).key
        'wdbc/rfka/nested/2,5/logistic/3'
        """
        many = (",".join(map(str, self.partitions)), ",".join(self.scorers))
        return "/".join((self.dataset, self.system, self.use, *many, str(self.repetition)))

    @property
    def seed(self) -> int:
        """Of folds and forests: the same in one repetition for every system, use and K, so that
        they can be compared fold by fold.
        """
        return seed_of("folds and forests", f"{self.dataset}/{self.repetition}") % (1 << _SEED_BITS)


def all_cells(
    dataset: str,
    systems: Sequence[System],
    partitions: Sequence[int],
    *,
    uses: Sequence[Use],
    scorers: Sequence[Scorer],
    repeats: int,
) -> list[Cell]:
    """Every cell of one data set. What keeps everything has no K."""
    return [
        Cell(
            dataset,
            system.name,
            use,
            (0,) if system.name == NO_SELECTION else tuple(partitions),
            () if use == "release" else tuple(scorers),
            repetition,
        )
        for repetition, system, use in product(range(repeats), systems, uses)
    ]
