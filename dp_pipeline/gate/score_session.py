"""ScoreSession: many paid questions about scores that were looked up once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import numpy as np

from dp_pipeline.gate.candidates import Candidates, Names, cut
from dp_pipeline.gate.counts import Counter
from dp_pipeline.gate.forest_plan import ForestPlan
from dp_pipeline.gate.paid_noise import PaidNoise, Prices
from dp_pipeline.gate.question import Asked
from dp_pipeline.schema.encoding import IntArray
from dp_pipeline.schema.errors import BoundaryViolation

Ask = Callable[[PaidNoise, Asked, Callable[[Counter], IntArray]], IntArray]
"""``ask(paid, asked, exact)``: charge, look, noise, store."""


class ScoreSession:
    """Scores of candidate tables, asked about as often as is paid for.

    The exact scores are computed at the first answer that is drawn, and stay sealed behind the
    gate: every method is a question of its own, charged before it looks. Amounts are in the
    release's currency, ε or ρ. Scores are whole numbers in 1/2^16 row.

    Δ_i is the most that one protected unit moves the score of candidate i by (``gate.scores``).
    """

    def __init__(self, candidates: Candidates, *, prices: Prices, ask: Ask) -> None:
        self._candidates, self._prices, self._ask = candidates, prices, ask

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._candidates)} candidates)"

    def measure_all(self, *, amount: Fraction) -> IntArray:
        """Every score, noisy, (m,), in the order of the candidates: Δ1 = Σ Δ_i, Δ2² = Σ Δ_i²."""
        moves = self._moves(self._candidates.names)
        paid = self._prices.of_vector(
            f"scores of {len(moves)} tables",
            l1=sum(moves),
            l2_squared=sum(move * move for move in moves),
            amount=amount,
        )
        return self._ask(paid, ("scores", self._candidates.digest), self._candidates.exact)

    def measure_total(self, *, amount: Fraction) -> int:
        """Σ of all scores, noisy: Δ = Σ Δ_i."""
        most = sum(self._moves(self._candidates.names))
        what = f"total of the scores of {len(self._candidates)} tables"

        def exact(counter: Counter) -> IntArray:
            # Python integers: a sum that wrapped would have no sensitivity.
            total = cut(sum(self._candidates.exact(counter).tolist()))
            return np.array(total, dtype=np.int64)

        return self._measure_number(what, ("total of scores",), most, amount, exact)

    def measure_one(self, attributes: Names, *, amount: Fraction) -> int:
        """The score of one candidate, noisy: Δ = Δ_i."""
        (place,), (most,) = self._candidates.places([attributes]), self._moves([attributes])
        return self._measure_number(
            f"score of {', '.join(attributes)}",
            ("score", attributes),
            most,
            amount,
            lambda counter: self._candidates.exact(counter)[[place]].reshape(()),
        )

    def choose(
        self,
        what: str,
        among: Sequence[Names],
        *,
        amount: Fraction,
        penalties: Mapping[Names, int] | None = None,
    ) -> Names:
        """The candidate of ``among`` with a nearly highest score − penalty: Δ∞ = max Δ_i.

        penalties   public whole numbers in 1/2^16 row; 0 where none is given
        """
        names = tuple(among)
        places = self._candidates.places(names)
        minus = self._candidates.penalties(penalties or {})[places]
        paid = self._prices.of_choice(what, linf=max(self._moves(names)), amount=amount)
        asked = ("choice", self._candidates.digest, names, minus)
        chosen = self._ask(
            paid, asked, lambda counter: self._candidates.exact(counter)[places] - minus
        )
        return names[int(chosen)]

    def choose_plan(self, what: str, plans: Sequence[ForestPlan], *, amount: Fraction) -> int:
        """The index of a plan with a nearly highest score, the candidates being pairs:
        Δ∞ = max over plans of ⌈weight · edges · max Δ_i⌉ (``ForestPlan``).
        """
        pairs, fixed = self._candidates.names, tuple(plans)
        if not fixed or not {type(plan) for plan in fixed} <= {ForestPlan}:
            raise BoundaryViolation(f"{what}: expected plans to choose from, got others")
        if any(len(pair) != 2 for pair in pairs):
            raise BoundaryViolation(f"{what}: expected pairs as candidates, got others")
        minus = [self._candidates.penalties(plan.penalties) for plan in fixed]
        of_pair = max(self._moves(pairs))
        # Without any edge in any plan all is public, and still charged.
        linf = max(1, *(plan.linf(of_pair) for plan in fixed))

        def exact(counter: Counter) -> IntArray:
            scores = self._candidates.exact(counter)
            worth = [
                plan.score(pairs, scores - less) for plan, less in zip(fixed, minus, strict=True)
            ]
            return np.array([cut(one) for one in worth], dtype=np.int64)

        paid = self._prices.of_choice(what, linf=linf, amount=amount)
        public = [(plan.edges, plan.weight, plan.offset, plan.cycles) for plan in fixed]
        asked = ("choice of a plan", self._candidates.digest, public, minus)
        return int(self._ask(paid, asked, exact))

    def _moves(self, names: Sequence[Names]) -> list[int]:
        return self._candidates.moves(self._candidates.places(names))

    def _measure_number(
        self,
        what: str,
        asked: Asked,
        most: int,
        amount: Fraction,
        exact: Callable[[Counter], IntArray],
    ) -> int:
        paid = self._prices.of_vector(what, l1=most, l2_squared=most * most, amount=amount)
        return int(self._ask(paid, (*asked, self._candidates.digest), exact))
