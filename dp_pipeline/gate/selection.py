"""Sessions of many paid questions about table scores, which are computed from the rows once."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

import numpy as np

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import IntArray, Names
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.gate.charge import CachedScan, QueryExecutor, digest_of
from dp_pipeline.gate.checks import require_table
from dp_pipeline.gate.counter import Counter, Sealed
from dp_pipeline.gate.mechanisms import choice_query, linf_query, vector_query
from dp_pipeline.gate.scores import SCORES, Score

MAX_SCORE = 1 << 61
"""Scores and penalties are cut to ±2^61, so that differences and noise fit int64."""

MAX_CELLS_AT_ONCE = 1 << 22
"""Cells that one scan counts, at most, since its exact tables are in memory together."""


def clip_score(score: int) -> int:
    return max(-MAX_SCORE, min(MAX_SCORE, score))


class ScoreSession:
    """A session of paid questions about the scores of candidate tables.

    The exact scores are computed at the first new answer and stay sealed. Every method charges for
    its own question first, in the release's currency, ε or ρ. Scores are integers in 1/2^16 row;
    Δ_i is the sensitivity of the score of candidate i (``gate.scores``). Cutting scores to
    ±MAX_SCORE moves no two values further apart: no sensitivity grows.

    scores    attributes → the score of their table, one of ``SCORES``; at least one
    distance  rows that two neighbouring data sets differ by
    """

    def __init__(
        self,
        scores: Mapping[Names, Score],
        executor: QueryExecutor[Counter],
        *,
        domain: Domain,
        distance: int,
    ) -> None:
        if not scores:
            raise BoundaryViolation(
                "A session of private scores needs one or more candidates, but it has none"
            )
        if not {type(score) for score in scores.values()} <= set(SCORES):
            names_of_scores = " or ".join(score.__name__ for score in SCORES)
            raise BoundaryViolation(
                f"The score of each candidate must be {names_of_scores}, but one is of "
                "another class"
            )
        for names, score in scores.items():
            score.require_shape(require_table(domain, names))
        self._executor, self._scores = executor, dict(scores)
        self._cells = [domain.cell_count(names) for names in self._scores]
        self._places = {names: position for position, names in enumerate(self._scores)}
        self._moves = {names: score.linf(distance) for names, score in self._scores.items()}
        self._exact = CachedScan(self._score_all)
        self._digest = digest_of(
            {names: (score.kind, score) for names, score in self._scores.items()}
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._scores)} candidates)"

    def measure_all(self, *, amount: Fraction) -> IntArray:
        """Charge once and return the noisy scores of all candidates, (m,), in their order.

        Δ1 = Σ Δ_i for an ε, Δ2² = Σ Δ_i² for a ρ.
        """
        moves = self._moves.values()
        query = vector_query(
            self._executor.currency,
            f"scores of {len(moves)} tables",
            l1=sum(moves),
            l2_squared=sum(move * move for move in moves),
            amount=amount,
        )
        return self._executor.charge_and_answer(query, ("scores", self._digest), self._exact)

    def measure_together(self, *, epsilon: Fraction) -> IntArray:
        """Charge ε and return the noisy scores of all candidates, (m,), by the L∞ mechanism.

        Δ∞ = max Δ_i. For equal Δ_i the noise of each is less than half of that of ``measure_all``.
        """
        moves = self._moves.values()
        words = f"scores of {len(moves)} tables together"
        query = linf_query(words, linf=max(moves), epsilon=epsilon)
        return self._executor.charge_and_answer(
            query, ("scores together", self._digest), self._exact
        )

    def measure_total(self, *, amount: Fraction) -> int:
        """Charge once and return the noisy sum of all scores, with Δ = Σ Δ_i; the exact sum is
        clipped to ±MAX_SCORE."""
        most = sum(self._moves.values())
        words = f"total of the scores of {len(self._scores)} tables"

        def count(counter: Counter) -> Sealed:
            # Python integers, since a wrapped sum would have no sensitivity.
            total = clip_score(sum(self._exact(counter).open_at_the_gate().tolist()))
            return Sealed(np.array(total, dtype=np.int64))

        query = vector_query(
            self._executor.currency, words, l1=most, l2_squared=most * most, amount=amount
        )
        key = ("total of scores", self._digest)
        return int(self._executor.charge_and_answer(query, key, count))

    def choose(
        self,
        words: str,
        among: Sequence[Names],
        *,
        amount: Fraction,
        penalties: Mapping[Names, int] | None = None,
    ) -> Names:
        """Charge once and return the attributes of a candidate with a nearly highest score −
        penalty.

        words       what is chosen, for the charge
        among       attributes of the candidates to choose from; Δ∞ = max Δ_i of them
        amount      the charge, in the release's currency: ε or ρ
        penalties   attributes → public integer in 1/2^16 row; 0 where none is given
        """
        names = tuple(among)
        is_repeated = len(set(names)) < len(names)
        if not names or is_repeated or not set(names) <= set(self._places):
            fault = "one is repeated" if is_repeated else "one has no score"
            fault = fault if names else "there is none"
            raise BoundaryViolation(
                f"A choice needs one or more candidates with scores, each once, but {fault}"
            )
        values = dict(penalties or {})
        if not all(type(value) is int and abs(value) <= MAX_SCORE for value in values.values()):
            raise BoundaryViolation("The penalties must be integers within ±2^61, but one is not")
        if not set(values) <= set(self._places):
            raise BoundaryViolation(
                "The penalties must be of candidates, but one is of another table"
            )
        places = [self._places[name] for name in names]
        offsets = np.array([values.get(name, 0) for name in names], dtype=np.int64)
        linf = max(self._moves[name] for name in names)
        query = choice_query(self._executor.currency, words, linf=linf, amount=amount)
        key = ("choice", self._digest, names, offsets)

        def count(counter: Counter) -> Sealed:
            return Sealed(self._exact(counter).open_at_the_gate()[places] - offsets)

        return names[int(self._executor.charge_and_answer(query, key, count))]

    def _score_all(self, counter: Counter) -> Sealed:
        scores = []
        for names in self._batches():
            tables = zip(names, counter.count(names), strict=True)
            scores += [
                self._scores[name].score(sealed.open_at_the_gate()) for name, sealed in tables
            ]
        return Sealed(np.array([clip_score(score) for score in scores], dtype=np.int64))

    def _batches(self) -> Iterator[list[Names]]:
        batch: list[Names] = []
        batch_cells = 0
        for names, cells in zip(self._scores, self._cells, strict=True):
            if batch and batch_cells + cells > MAX_CELLS_AT_ONCE:
                yield batch
                batch, batch_cells = [], 0
            batch.append(names)
            batch_cells += cells
        yield batch
