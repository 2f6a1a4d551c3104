"""TableQuestions: what may be asked of contingency tables, each with its proof."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields
from fractions import Fraction

import numpy as np

from dp_pipeline.gate import mechanisms
from dp_pipeline.gate.admissible import require_released, require_table
from dp_pipeline.gate.counts import Counter
from dp_pipeline.gate.door import Door, question
from dp_pipeline.gate.scores import SCORES, Score
from dp_pipeline.release.accountant import NOISY_MAX, Spend
from dp_pipeline.release.measurement import NoisyMarginal
from dp_pipeline.schema.encoding import IntArray
from dp_pipeline.schema.errors import BoundaryViolation


class TableQuestions(Door):
    """Marginals, the choice among them, and how far released ones are off."""

    def measure(self, attributes: tuple[str, ...], *, epsilon: Fraction) -> NoisyMarginal:
        """The marginal over ``attributes``, every cell noisy; () is the number of rows.

        ⊕ one row is in one cell: Δ1 = 1 a row.
        """
        shape = require_table(self.domain, attributes)
        what = f"marginal of {', '.join(attributes)}" if attributes else "number of rows"
        table = self._laplace(
            what,
            lambda counter: counter.count([attributes])[0].open_at_the_gate(),
            l1_per_row=1,
            epsilon=epsilon,
        )
        return NoisyMarginal(attributes, table.reshape(shape), self._scale(1, epsilon))

    def choose(
        self, what: str, candidates: Mapping[tuple[str, ...], Score], *, epsilon: Fraction
    ) -> tuple[str, ...]:
        """The attributes whose marginal has a nearly highest score, by noisy max.

        No score moves by more than the largest Δ∞ among them, at this reach.
        """
        if not candidates:
            raise BoundaryViolation(f"{what}: expected candidates to choose from, got none")
        if not {type(score) for score in candidates.values()} <= set(SCORES):
            known = " or ".join(score.__name__ for score in SCORES)
            raise BoundaryViolation(f"{what}: expected {known} as score, got another")
        names = list(candidates)
        for attributes in names:
            require_table(self.domain, attributes)
        linf = max(score.linf(self.reach) for score in candidates.values())
        scale = mechanisms.choice_scale(linf=linf, epsilon=epsilon)

        def draw(counter: Counter) -> IntArray:
            tables = zip(candidates.values(), counter.count(names), strict=True)
            exact = [score.score(sealed.open_at_the_gate()) for score, sealed in tables]
            values = np.array(exact, dtype=np.int64)
            index = mechanisms.choose(values, linf=linf, epsilon=epsilon, noise=self._noise)
            return np.array(index, dtype=np.int64)

        spend = Spend(what, NOISY_MAX, epsilon, linf, scale)
        detail = "; ".join(f"{name} by {_content(score)}" for name, score in candidates.items())
        self.accountant.charge(spend)
        return names[int(self._stored(question(spend, detail), draw))]

    def measure_marginal_error(
        self, released: dict[tuple[str, ...], IntArray], *, epsilon: Fraction
    ) -> IntArray:
        """Σ over m released marginals of Σ over cells of |2^16·c − n·q|, noisy; shape ().

        released   attributes → int64 q ≥ 0 of the marginal's shape, Σ q = 2^16

        ⊕ one more row changes c in one cell by 1 and n by 1, so one marginal's sum by at
        most 2^16 + Σ q = 2^17, and the total by m · 2^17.
        """
        require_released(self.domain, released)

        def exact(counter: Counter) -> IntArray:
            tables = counter.count(list(released))
            total = 0
            for q, sealed in zip(released.values(), tables, strict=True):
                counts = sealed.open_at_the_gate()
                total += int(np.abs((counts << 16) - counts.sum() * q).sum())
            return np.array(total, dtype=np.int64)

        digest = hashlib.sha256(b"".join(q.tobytes() for q in released.values())).hexdigest()
        return self._laplace(
            f"error of {len(released)} released marginals",
            exact,
            l1_per_row=len(released) << 17,
            epsilon=epsilon,
            detail=f"{list(released)} {digest}",
        )


def _content(score: Score) -> str:
    """A score's type and fields: its repr would leave out the middle of a large table."""
    digest = hashlib.sha256()
    # Every score is a frozen dataclass.
    for field in fields(score):  # type: ignore[arg-type]
        values = np.asarray(getattr(score, field.name))
        digest.update(f"{field.name} {values.dtype} {values.shape} ".encode() + values.tobytes())
    return f"{type(score).__name__} {digest.hexdigest()}"
