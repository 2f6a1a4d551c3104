"""The questions that the gate asks of rows, and the sealed exact answers it gets.

``Counter`` is the port: the gate owns it, an engine in ``raw.counters``
implements it. No callable crosses it and every answer is whole numbers, so
all engines agree to the last digit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, Protocol

from dp_pipeline.gate.nearest_centre import NearestCentre
from dp_pipeline.schema.domain import Domain
from dp_pipeline.schema.encoding import IntArray

MOST_GRID_CELLS = 1 << 24
"""A dense grid above this size is refused: it is a public number times a public number."""


class Sealed:
    """An exact answer on its way to the noise: it shows nothing and cannot be stored."""

    __slots__ = ("_counts",)

    def __init__(self, counts: IntArray) -> None:
        self._counts = counts

    def __repr__(self) -> str:
        return "Sealed(exact counts)"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("exact counts are not stored: expected noise first, got pickle or copy")

    def __eq__(self, other: object) -> NoReturn:
        raise TypeError("exact counts are not compared: expected noise first")

    __hash__ = None  # type: ignore[assignment]

    def open_at_the_gate(self) -> IntArray:
        """The counts. Called between a charge and its noise, in ``gate`` and nowhere else."""
        return self._counts


class Counter(Protocol):
    """Exact whole numbers about the rows of one prepared data set."""

    @property
    def domain(self) -> Domain:
        """The declared attributes: public."""
        ...

    def count(self, marginals: Sequence[tuple[str, ...]]) -> list[Sealed]:
        """One table a marginal, in the order asked; () is the number of rows, shape ()."""
        ...

    def grid(self, columns: tuple[str, ...], cells: int) -> Sealed:
        """Counts of ``cells`` equal intervals an axis over the declared box, all cells included.

        Row cell of coordinate q: min(cells − 1, ((q + 2^16) · cells) >> 17). Shape (cells,) · d.
        """
        ...

    def distance_total(self, rule: NearestCentre, *, clip: int, shift: int) -> Sealed:
        """Σ over rows of min(D, clip) >> shift, shape (); D = min over centres of
        Σ_j (weight_j · (q_j − c_j))², in whole numbers.
        """
        ...
