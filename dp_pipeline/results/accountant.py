"""The charges of one release, recorded by the code that draws the noise and never by the model.

Also exact shares of an ε, and the cost of charges to a population that pays in ρ.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Literal

from dp_pipeline.config.amounts import PURE, Currency, epsilon_of, epsilon_text, rho_of_pure
from dp_pipeline.config.errors import BoundaryViolation, BudgetExceeded

LAPLACE = "discrete Laplace"
NOISY_MAX = "noisy max"
TREE_PATHS = "discrete Laplace along tree paths"
GAUSSIAN = "discrete Gaussian"
EXPONENTIAL = "exponential mechanism"
LINF = "discrete L∞ mechanism"
REFINED = "refined discrete Laplace"
TRUNCATED_TEXTS = "truncated Laplace on texts"
GAUSSIAN_TEXTS = "weighted Gaussian on texts"

ROUNDED_UP = Fraction(1, 10**6)
"""Largest share by which an exponential mechanism may cost less than what is charged for it."""


def biased_splits_name(fan: int) -> str:
    """Return the name of the mechanism that decides on splits of a ``fan``-way tree (PrivTree)."""
    return f"biased splits in {fan}"


_LOSS = {
    LAPLACE: Fraction(1),
    NOISY_MAX: Fraction(2),
    TREE_PATHS: Fraction(1),
    LINF: Fraction(1),
    REFINED: Fraction(1),
    **{biased_splits_name(fan): Fraction(2 * fan - 1, fan - 1) for fan in (2, 4, 8, 16)},
}
"""Pure mechanism → ε of Δ/scale = 1. Their proofs: ``gate.mechanisms``, ``gate.trees``."""

_OF_TEXTS = (TRUNCATED_TEXTS, GAUSSIAN_TEXTS)
"""Mechanisms that cost an ε and a δ. Their proofs: ``gate.texts``."""

_CONCENTRATED = (GAUSSIAN, EXPONENTIAL)
"""Mechanisms that cost ρ. Their proofs: ``gate.mechanisms``."""


@dataclass(frozen=True)
class Spend:
    """A charge for one question about the rows.

    what          the question, in words
    mechanism     one of those above: pure ones cost ε, concentrated ones ρ
    epsilon       its cost, in ``currency``
    sensitivity   largest change of the answer by one protected unit: in L1 for Laplace noise and
                  trees, in L∞ for the L∞ mechanism, in squared L2 for Gaussian noise, and of any
                  one score for noisy max and the exponential mechanism
    scale         scale of the drawn noise, of the Gaussian σ²; of a tree, the scale of one count
                  that spends a whole path: 1/scale = Σ 1/scale over every path; of a refinement,
                  what it adds: 1/scale = 1/after − 1/before
    currency      ``pure`` for ε, ``zcdp`` for ρ
    delta         its cost in δ, for texts that are discovered; else 0
    """

    what: str
    mechanism: str
    epsilon: Fraction
    sensitivity: int
    scale: Fraction
    currency: str = "pure"
    delta: Fraction = Fraction(0)

    @property
    def epsilon_of_scale(self) -> Fraction:
        """The ε or ρ that an answer at the noise scale costs, as proved.

        Laplace, refined or not, and tree paths: Δ1/scale. L∞ mechanism: Δ∞/scale. Noisy max of
        scores that may move in either direction: 2Δ∞/scale. Biased splits in β:
        (2β − 1)/(β − 1) · Δ∞/scale.
        Gaussian: ρ = Δ2²/(2σ²). Exponential mechanism: ρ = (2Δ∞/scale)²/8. On texts: Δ1/scale,
        and the ε of that ρ of the Gaussian at half of the δ.
        """
        if self.mechanism == TRUNCATED_TEXTS:
            return self.sensitivity / self.scale
        if self.mechanism == GAUSSIAN_TEXTS:
            return epsilon_of(self.sensitivity / (2 * self.scale), self.delta / 2)
        if self.mechanism == GAUSSIAN:
            return self.sensitivity / (2 * self.scale)
        ratio = self.sensitivity / self.scale
        return ratio * ratio / 2 if self.mechanism == EXPONENTIAL else _LOSS[self.mechanism] * ratio


@dataclass(frozen=True)
class Disclosure:
    """A question about the rows that was answered exactly, so that no ε holds for the release.

    what     the question, in words
    reason   why a published method needs it
    """

    what: str
    reason: str


class Accountant:
    """The budget of one release, whose charges add up by basic composition.

    epsilon      the budget, in ``currency``
    currency     pure ε; or ρ, where a pure charge of ε enters as ε²/2
    delta        the budget of δ, for texts that are discovered; else 0
    free_spend   the charge for rows that no other charge is about, or None
    """

    def __init__(
        self, epsilon: Fraction, currency: Currency = PURE, *, delta: Fraction = Fraction(0)
    ) -> None:
        if not isinstance(epsilon, Fraction) or epsilon <= 0:
            raise BoundaryViolation(
                f"The amount of a budget must be a positive Fraction, not {epsilon!r:.40}"
            )
        if not isinstance(delta, Fraction) or not 0 <= delta < 1:
            raise BoundaryViolation(
                f"The δ of a budget must be a Fraction from 0 to below 1, not {delta!r:.40}"
            )
        self.epsilon, self.currency, self.delta = epsilon, currency, delta
        self.free_spend: Spend | None = None
        self._spends: list[Spend] = []
        self._disclosures: list[Disclosure] = []
        self._completion_checks: list[Callable[[], None]] = []

    @property
    def spends(self) -> tuple[Spend, ...]:
        return tuple(self._spends)

    @property
    def disclosures(self) -> tuple[Disclosure, ...]:
        return tuple(self._disclosures)

    @property
    def kind(self) -> Literal["dp", "not-dp"]:
        """``dp`` if every question had noise, else ``not-dp``."""
        return "not-dp" if self._disclosures else "dp"

    def disclose(self, disclosure: Disclosure) -> None:
        """Record a question that is answered exactly."""
        self._disclosures.append(disclosure)

    @property
    def spent(self) -> Fraction:
        """The sum of the charges, in the currency of the budget."""
        return sum(map(self.cost, self._spends), Fraction(0))

    @property
    def spent_delta(self) -> Fraction:
        return sum((spend.delta for spend in self._spends), Fraction(0))

    @property
    def remaining(self) -> Fraction:
        """The part of the budget that is left, in its currency."""
        return self.epsilon - self.spent

    def cost(self, spend: Spend) -> Fraction:
        """Return the cost of a charge in the budget's currency: of an ε in a budget of ρ, ε²/2.

        BoundaryViolation for a ρ in a budget of ε."""
        if spend.currency == self.currency.name:
            return spend.epsilon
        if self.currency == PURE:
            raise BoundaryViolation(
                f"The budget is in pure ε, as the data set declares no `delta`, but {spend.what} "
                "costs ρ"
            )
        return rho_of_pure(spend.epsilon)

    def charge(self, *spends: Spend, require_complete: Callable[[], None] | None = None) -> None:
        """Record some charges; raise BudgetExceeded and record none if they do not all fit.

        BoundaryViolation for a charge whose scale does not prove its cost, or for too much δ.

        require_complete   called by ``require_all_spent``: raises while a charge that is spent in
                           parts has an unspent part
        """
        spent, delta = self.spent, self.spent_delta
        for spend in spends:
            _require_proven(spend)
            delta += spend.delta
            if delta > self.delta:
                raise BoundaryViolation(
                    f"A release may spend δ of at most {self.delta} in all, not {delta} with "
                    f"{spend.what}"
                )
            cost = self.cost(spend)
            if spent + cost > self.epsilon:
                raise BudgetExceeded(
                    spend.what,
                    requested=cost,
                    spent=spent,
                    ceiling=self.epsilon,
                    where="this release",
                    symbol=self.currency.symbol,
                    account=False,
                )
            spent += cost
        self._spends += spends
        if require_complete is not None:
            self._completion_checks.append(require_complete)

    def record_free_spend(self, spend: Spend) -> None:
        """Record the charge for rows that no other charge is about; it adds nothing to ``spent``.

        Proof, of pure ε: ``Curator.measure_left_out``. BoundaryViolation for a second such charge,
        for one above the budget, and for a budget in ρ.
        """
        _require_proven(spend)
        fault = ""
        if self.free_spend is not None:
            fault = "a second one"
        elif self.currency != PURE:
            fault = "in another currency"
        elif self.cost(spend) > self.epsilon:
            fault = f"{self.cost(spend)}, of a budget of {self.epsilon}"
        if fault:
            raise BoundaryViolation(
                "One charge alone may be for rows that no other charge counts, in pure ε and "
                f"within the budget, but {spend.what} is {fault}"
            )
        self.free_spend = spend

    def require_all_spent(self) -> None:
        """Raise BoundaryViolation unless the charges add up to exactly the budget, also in δ.

        It also calls every ``require_complete``, which raises if part of a charge is unspent.
        """
        if self.remaining != 0:
            raise BoundaryViolation(
                "A release must spend exactly "
                f"{self.currency.symbol}={epsilon_text(self.epsilon)}, not "
                f"{epsilon_text(self.spent)}"
            )
        if self.spent_delta != self.delta:
            raise BoundaryViolation(
                f"A release must spend exactly δ={self.delta}, not {self.spent_delta}"
            )
        for require_complete in self._completion_checks:
            require_complete()


def _require_proven(spend: Spend) -> None:
    if not isinstance(spend.epsilon, Fraction) or spend.epsilon <= 0:
        raise BoundaryViolation(
            f"The amount of {spend.what} must be a positive Fraction, not {spend.epsilon!r:.40}"
        )
    is_concentrated, is_of_texts = spend.mechanism in _CONCENTRATED, spend.mechanism in _OF_TEXTS
    if not isinstance(spend.delta, Fraction) or (0 < spend.delta < 1) is not is_of_texts:
        raise BoundaryViolation(
            f"The δ of {spend.what} must be between 0 and 1 for discovered texts, and 0 for "
            f"all else, not {spend.delta!r:.40}"
        )
    if not is_concentrated and not is_of_texts and spend.mechanism not in _LOSS:
        raise BoundaryViolation(
            f"The mechanism of {spend.what} must be one of {', '.join(_LOSS)}, a concentrated "
            f"one or that of texts, not {spend.mechanism!r:.40}"
        )
    currency = "zcdp" if is_concentrated else "pure"
    if spend.currency != currency:
        raise BoundaryViolation(
            f"The currency of {spend.what} must be {currency!r}, that of {spend.mechanism}, not "
            f"{spend.currency!r:.40}"
        )
    if not isinstance(spend.scale, Fraction) or spend.scale <= 0:
        raise BoundaryViolation(
            f"The scale of {spend.what} must be a positive Fraction, not {spend.scale!r:.40}"
        )
    if not _proves(spend):
        symbol = "ρ" if is_concentrated else "ε"
        raise BoundaryViolation(
            f"The scale of {spend.what} must cost {symbol}={spend.epsilon}, not "
            f"{spend.epsilon_of_scale}"
        )


def _proves(spend: Spend) -> bool:
    """Return whether the ε or ρ that is charged is what the noise scale costs.

    The scale may cost a little less where it is rounded: the square root of the exponential
    mechanism, and on texts, whose scale is a float or comes from an ε by way of integer nano-ρ.
    """
    proven = spend.epsilon_of_scale
    if spend.mechanism in _OF_TEXTS:
        return proven <= spend.epsilon
    if spend.mechanism == EXPONENTIAL:
        return spend.epsilon * (1 - ROUNDED_UP) <= proven <= spend.epsilon
    return proven == spend.epsilon


def split(epsilon: Fraction, weights: Sequence[int | Fraction]) -> tuple[Fraction, ...]:
    """Return exact shares of ``epsilon`` in proportion to ``weights``.

    weights   positive, at least one; integers or fractions, never floats

    >>> split(Fraction(1), [1, 2])
    (Fraction(1, 3), Fraction(2, 3))
    """
    exact = [Fraction(weight) for weight in weights if not isinstance(weight, float)]
    if len(exact) != len(weights) or not exact or min(exact) <= 0:
        raise BoundaryViolation(
            "A budget must be split by one or more positive integers or Fractions, but "
            f"{'one weight is of another kind' if len(weights) else 'there is no weight'}"
        )
    total = sum(exact, Fraction(0))
    return tuple(epsilon * weight / total for weight in exact)


def root_weights(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return √size in thousandths, as integers: the weights by which tables of such sizes share ε.

    They minimise the total noise, Σ size/ε_i, subject to Σ ε_i = ε; no float is used.
    """
    return tuple(isqrt(size * 10**6) for size in sizes)


def rho_costs(spends: Sequence[Spend], *, currency: Currency) -> tuple[Fraction, ...]:
    """Return the ρ that every spend costs a population that pays in ρ.

    currency   the currency that the spends were accounted in

    In a budget of ρ every pure spend of ε was charged as ε²/2. A budget of pure ε costs
    (Σ ε_i)²/2, which was reserved before the ε_i were known, and each spend gets its share.

    >>> half = Spend("cells", "discrete Laplace", Fraction(1, 2), 1, Fraction(2))
    >>> rho_costs([half, half], currency=PURE)
    (Fraction(1, 4), Fraction(1, 4))
    """
    if currency == PURE:
        total = sum((spend.epsilon for spend in spends), Fraction(0))
        return tuple(spend.epsilon * total / 2 for spend in spends)
    return tuple(
        spend.epsilon if spend.currency == currency.name else rho_of_pure(spend.epsilon)
        for spend in spends
    )
