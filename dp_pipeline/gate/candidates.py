"""Candidates: tables and their scores, how far a person moves each, and the exact ones, sealed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from dp_pipeline.gate.admissible import require_table
from dp_pipeline.gate.counts import Counter, Sealed
from dp_pipeline.gate.once import Once
from dp_pipeline.gate.question import digest_of
from dp_pipeline.gate.scores import SCORES, Score
from dp_pipeline.schema.domain import Domain
from dp_pipeline.schema.encoding import IntArray
from dp_pipeline.schema.errors import BoundaryViolation

Names = tuple[str, ...]

LARGEST = 1 << 61
"""Scores and penalties are cut to ±2^61: their differences and the noise on them fit int64."""

MOST_CELLS_AT_ONCE = 1 << 22
"""Cells counted by one call: the exact tables of one scan are in memory together."""


class Candidates:
    """What is scored. Everything but the exact scores is public.

    scores   attributes → the score of their table
    reach    rows that two neighbouring data sets differ by

    Cutting a score to ±LARGEST moves no two values further apart: no sensitivity grows.
    """

    def __init__(self, scores: Mapping[Names, Score], *, domain: Domain, reach: int) -> None:
        self._scores = dict(scores)
        _require_scores(self._scores, domain)
        self._cells = [domain.cell_count(names) for names in self._scores]
        self._places = {names: at for at, names in enumerate(self._scores)}
        self._moves = [score.linf(reach) for score in self._scores.values()]
        self._exact = Once(self._look)
        self.digest = digest_of({names: (one.kind, one) for names, one in self._scores.items()})

    def __len__(self) -> int:
        return len(self._scores)

    @property
    def names(self) -> tuple[Names, ...]:
        """The candidates, in their order."""
        return tuple(self._scores)

    def places(self, names: Sequence[Names]) -> list[int]:
        """Positions of some candidates; BoundaryViolation for none, one twice, or another."""
        if not names or len(set(names)) < len(names) or not set(names) <= set(self._places):
            raise BoundaryViolation("scores: expected different candidates, got others")
        return [self._places[one] for one in names]

    def moves(self, places: Sequence[int]) -> list[int]:
        """Most that one protected unit moves each of these scores by, in 1/2^16 row."""
        return [self._moves[at] for at in places]

    def penalties(self, penalties: Mapping[Names, int]) -> IntArray:
        """A vector of public penalties, 0 where none is given."""
        values = dict(penalties)
        whole = all(type(value) is int and abs(value) <= LARGEST for value in values.values())
        if not whole or not set(values) <= set(self._places):
            raise BoundaryViolation(
                "penalties: expected candidates with whole numbers of at most 2^61, got others"
            )
        return np.array([values.get(names, 0) for names in self._scores], dtype=np.int64)

    def exact(self, counter: Counter) -> IntArray:
        """Every score, int64, in the order of ``names``: between a charge and its noise only."""
        return self._exact(counter).open_at_the_gate()

    def _look(self, counter: Counter) -> Sealed:
        found = []
        for names in self._batches():
            tables = zip(names, counter.count(names), strict=True)
            found += [self._scores[one].score(sealed.open_at_the_gate()) for one, sealed in tables]
        return Sealed(np.array([cut(score) for score in found], dtype=np.int64))

    def _batches(self) -> Iterator[list[Names]]:
        batch: list[Names] = []
        held = 0
        for names, cells in zip(self._scores, self._cells, strict=True):
            if batch and held + cells > MOST_CELLS_AT_ONCE:
                yield batch
                batch, held = [], 0
            batch.append(names)
            held += cells
        yield batch


def cut(score: int) -> int:
    """The score, cut to ±LARGEST."""
    return max(-LARGEST, min(LARGEST, score))


def _require_scores(scores: Mapping[Names, Score], domain: Domain) -> None:
    """BoundaryViolation unless there are candidates, all with a score that was proven."""
    if not scores:
        raise BoundaryViolation("scores: expected candidates, got none")
    if not {type(score) for score in scores.values()} <= set(SCORES):
        known = " or ".join(score.__name__ for score in SCORES)
        raise BoundaryViolation(f"scores: expected {known}, got another")
    for names, score in scores.items():
        score.require_shape(require_table(domain, names))
