"""TableQuestions: what may be asked of contingency tables, each with its proof."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from dp_pipeline.gate.admissible import require_released, require_table
from dp_pipeline.gate.candidates import Candidates, Names
from dp_pipeline.gate.counts import Counter
from dp_pipeline.gate.door import Door
from dp_pipeline.gate.once import Once
from dp_pipeline.gate.paid_noise import PaidNoise
from dp_pipeline.gate.score_session import ScoreSession
from dp_pipeline.gate.scores import OF_PUBLIC_ROWS, Score
from dp_pipeline.release.accountant import GAUSSIAN
from dp_pipeline.release.measurement import NoisyMarginal
from dp_pipeline.schema.encoding import IntArray
from dp_pipeline.schema.errors import BoundaryViolation


class TableQuestions(Door):
    """Marginals, scores and choices among them, and how far released ones are off."""

    def measure(self, attributes: Names, *, epsilon: Fraction) -> NoisyMarginal:
        """The marginal over ``attributes``, every cell noisy; () is the number of rows.

        ⊕ one row is in one cell: Δ1 = 1 a row.
        """
        require_table(self.domain, attributes)
        paid = self._prices.of_laplace(_words(attributes), l1=self.reach, epsilon=epsilon)
        self.accountant.charge(paid.spend)
        return self._tabulated([attributes], [paid])[0]

    def measure_gaussian(self, attributes: Names, *, rho: Fraction) -> NoisyMarginal:
        """The marginal over ``attributes``, every cell with discrete Gaussian noise.

        ⊕ one row is in one cell, all rows of a person perhaps in the same: Δ2 = 1 a row.
        BoundaryViolation in a release that pays in ε.
        """
        require_table(self.domain, attributes)
        paid = self._prices.of_gaussian(_words(attributes), l2_squared=self.reach**2, rho=rho)
        self.accountant.charge(paid.spend)
        return self._tabulated([attributes], [paid])[0]

    def tabulate(self, amounts: Mapping[Names, Fraction]) -> tuple[NoisyMarginal, ...]:
        """Many marginals in one scan, each for its own amount of the release's currency.

        amounts   attributes → ε or ρ; () is the number of rows. Answers are in this order.

        A charge each, all of them made before the look. ⊕ one row is in one cell of every
        table: Δ1 = Δ2 = 1 a row, with discrete Laplace noise for an ε, Gaussian for a ρ.
        """
        asked = dict(amounts)
        for attributes in asked:
            require_table(self.domain, attributes)
        l1, l2_squared = self.reach, self.reach**2
        paid = [
            self._prices.of_vector(_words(names), l1=l1, l2_squared=l2_squared, amount=amount)
            for names, amount in asked.items()
        ]
        self.accountant.charge(*(one.spend for one in paid))
        return self._tabulated(list(asked), paid)

    def _tabulated(
        self, marginals: list[Names], paid: list[PaidNoise]
    ) -> tuple[NoisyMarginal, ...]:
        """Marginals that were charged: one scan, and an answer stored for each."""
        look = Once(lambda counter: counter.count(marginals))

        def table(at: int) -> IntArray:
            answer = self._answer(
                paid[at],
                ("marginal", marginals[at]),
                lambda counter: look(counter)[at].open_at_the_gate(),
            )
            return answer.reshape(self.domain.shape(marginals[at]))

        return tuple(
            NoisyMarginal(names, table(at), one.spend.scale, one.spend.mechanism == GAUSSIAN)
            for at, (names, one) in enumerate(zip(marginals, paid, strict=True))
        )

    def choose(self, what: str, candidates: Mapping[Names, Score], *, epsilon: Fraction) -> Names:
        """The attributes whose table has a nearly highest score, for an amount of the release's
        currency. No score moves by more than the largest Δ∞ among them, at this reach.
        """
        return self.open_scores(candidates).choose(what, tuple(candidates), amount=epsilon)

    def open_scores(self, candidates: Mapping[Names, Score]) -> ScoreSession:
        """Scores of tables, to be asked about as often as is paid for; this costs nothing.

        Proofs: ``gate.scores``, ``ScoreSession``. BoundaryViolation for a score that needs
        ``public_rows`` where there are none.
        """
        if any(isinstance(score, OF_PUBLIC_ROWS) for score in candidates.values()):
            self._require_public_rows("scores")
        known = Candidates(candidates, domain=self.domain, reach=self.reach)
        return ScoreSession(known, prices=self._prices, ask=self._ask)

    def public_rows(self) -> int:
        """The number of rows, where neighbours have the same: free, and recorded.

        Under ``replace_one``, where a person is one row, n is a function of what is public: a
        neighbour has another row, not one more. This is about prepared rows: a replaced row
        that preparation would drop makes no neighbour. So on benchmark rows alone;
        BoundaryViolation before any look on others.
        """
        self._require_public_rows("number of rows")
        return int(
            self._without_noise(
                "public, not noisy: number of rows",
                ("public number of rows",),
                lambda counter: counter.count([()])[0].open_at_the_gate(),
            )
        )

    def _require_public_rows(self, what: str) -> None:
        if not self._benchmark or self._relation != "replace_one" or self.reach != 2:
            raise BoundaryViolation(
                f"{what}: expected benchmark rows under replace_one with one row a person, where "
                "the number of rows is public, got others"
            )

    def measure_marginal_error(
        self, released: dict[Names, IntArray], *, epsilon: Fraction
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

        return self._laplace(
            f"error of {len(released)} released marginals",
            ("error of marginals", released),
            exact,
            l1_per_row=len(released) << 17,
            epsilon=epsilon,
        )


def _words(attributes: Names) -> str:
    return f"marginal of {', '.join(attributes)}" if attributes else "number of rows"
