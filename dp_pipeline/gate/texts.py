"""Private selection of undeclared texts: those that enough persons share are released as levels.

That cannot be pure ε: a text of a single person can be released only if she is in the data, so with
a probability of at most δ.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction
from math import isqrt

import numpy as np

from dp_pipeline.config.amounts import rho_of
from dp_pipeline.config.encoding import IntArray
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.gate.noise import (
    NoiseSource,
    checked_scale,
    float_at_least,
    int64_array,
    root_at_least,
)
from dp_pipeline.results.accountant import GAUSSIAN_TEXTS, TRUNCATED_TEXTS, Spend

SINGLE_TEXT_WEIGHT = 1 << 20
"""Weight of a person for her text in the Gaussian rule, if she has a single one."""

_EXACT = Context(prec=120, Emin=MIN_EMIN, Emax=MAX_EMAX)
_ROUNDING_ALLOWANCE = Decimal(10) ** -30
"""Far above the error of 120 digits, for scales up to 2^55 and δ down to 10^(−30)."""


def pack_texts(texts: tuple[bytes, ...]) -> IntArray:
    """Return texts packed into an int64 vector: their number, the length of each, their bytes.

    >>> pack_texts((b"a", b"bc")).tolist()
    [2, 1, 2, 97, 98, 99]
    """
    lengths = [len(text) for text in texts]
    head = np.array([len(texts), *lengths], dtype=np.int64)
    return np.concatenate([head, np.frombuffer(b"".join(texts), np.uint8).astype(np.int64)])


def unpack_texts(array: IntArray) -> tuple[tuple[bytes, ...], IntArray]:
    """Return the texts that ``pack_texts`` packed, and the numbers that follow them.

    >>> unpack_texts(np.array([2, 1, 2, 97, 98, 99, 7, 8]))
    ((b'a', b'bc'), array([7, 8]))
    """
    many = int(array[0])
    lengths = array[1 : 1 + many]
    ends = np.cumsum(lengths)
    bytes_from = 1 + many
    bytes_to = bytes_from + (int(ends[-1]) if many else 0)
    content = array[bytes_from:bytes_to].astype(np.uint8).tobytes()
    places = zip((ends - lengths).tolist(), ends.tolist(), strict=True)
    return tuple(content[start:end] for start, end in places), array[bytes_to:]


def noise_bound(scale: Fraction, delta: Fraction) -> int:
    """Return the least k with P(X = k) ≤ δ for discrete Laplace noise X truncated to ±k.

    f(k) = q^k·(1 − q)/(1 + q − 2q^(k+1)) ≤ δ is q^k ≤ δ(1 + q)/(1 − q + 2δq), q = e^(−1/scale),
    solved for k and rounded up, so that no rounding can make it too small.

    >>> noise_bound(Fraction(1), Fraction(1, 1000))
    7
    """
    with localcontext(_EXACT):
        exact, share = _decimal(scale), _decimal(delta)
        q = (-1 / exact).exp()
        odds = (1 - q + 2 * share * q) / (share * (1 + q))
        return max(
            0, int((exact * odds.ln() + _ROUNDING_ALLOWANCE).to_integral_value(ROUND_CEILING))
        )


def gaussian_noise_bound(sigma2: Fraction, chance: Fraction) -> int:
    """Return ⌈√(2σ²·ln(1/chance))⌉, which Gaussian noise of variance σ² reaches with probability
    ``chance`` at most.

    >>> gaussian_noise_bound(Fraction(100), Fraction(1, 1000))
    38
    """
    with localcontext(_EXACT):
        square = 2 * _decimal(sigma2) * -_decimal(chance).ln()
        return int((square.sqrt() + _ROUNDING_ALLOWANCE).to_integral_value(ROUND_CEILING))


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


@dataclass(frozen=True)
class TextRule:
    """A rule that releases the texts of one attribute whose noisy weight reaches ``threshold``.

    weights     at j − 1, the weight of a person with j different texts for each of them
    spend       the charge, with the mechanism and the scale of its noise
    threshold   integer in the unit of the weights
    most        released texts, at most: those with the largest noisy weights
    """

    weights: tuple[int, ...]
    spend: Spend
    threshold: int
    most: int

    @property
    def persons(self) -> Fraction:
        """The number of persons whose shared text is released with a chance of about ½, where each
        of them has as many texts as one person may have rows."""
        return Fraction(self.threshold, self.weights[-1])

    @property
    def fewest_persons(self) -> Fraction:
        """The number of persons whose shared text is released with a chance of about ½, where none
        of them has another text."""
        return Fraction(self.threshold, self.weights[0])

    def select(self, exact: IntArray, noise: NoiseSource) -> IntArray:
        """Draw noise and return the at most ``most`` texts with the largest noisy weights from
        ``threshold`` on, packed by ``pack_texts`` in the order of their bytes.

        exact   texts and their weights, as ``UndeclaredDomainCounter.texts`` returns them
        """
        texts, numbers = unpack_texts(exact)
        noisy = self._noisy(numbers, noise)
        passed = np.flatnonzero(noisy >= self.threshold)
        # The largest first; equal ones in the order of their bytes.
        order = np.argsort(-noisy[passed], kind="stable")[: self.most]
        return pack_texts(tuple(sorted(texts[position] for position in passed[order])))

    def _noisy(self, numbers: IntArray, noise: NoiseSource) -> IntArray:
        if self.spend.mechanism == GAUSSIAN_TEXTS:
            return noise.discrete_gaussian(numbers, self.spend.scale)
        return numbers + draw_truncated_laplace(
            len(numbers), self.spend.scale, self.threshold - 1, noise
        )


def draw_truncated_laplace(size: int, scale: Fraction, most: int, noise: NoiseSource) -> IntArray:
    """Return ``size`` independent draws of discrete Laplace noise given that it is within ±most.

    Rejection depends on the noise alone, so its time depends on no row.
    """
    noise_drawn = np.zeros(size, dtype=np.int64)
    missing = np.arange(size)
    while missing.size:
        noise_drawn[missing] = noise.discrete_laplace(np.zeros(len(missing), dtype=np.int64), scale)
        missing = missing[np.abs(noise_drawn[missing]) > most]
    return int64_array(noise_drawn, of="noise")


def text_rule(
    words: str, *, rows: int, persons: int, epsilon: Fraction, delta: Fraction, most: int
) -> TextRule:
    """Return the rule by which the fewest persons must share a text for its release: that of
    truncated Laplace noise or, where a person may have several rows, that of Gaussian noise.

    words            what is released, for the charge
    rows             rows that one person can have
    persons          persons that neighbours differ by: 1, or 2 where one is replaced by another
    epsilon, delta   the charge
    most             texts to release, at most

    For all neighbours D and D', P(D releases S) ≤ e^ε · P(D' releases S) + δ for every set S of
    answers. BoundaryViolation for a scale above 2^55.
    """
    truncating = _truncated_rule(words, rows, persons, epsilon, delta, most)
    if rows == 1:
        return truncating
    gaussian = _gaussian_rule(words, rows, persons, epsilon, delta, most)
    return min(truncating, gaussian, key=lambda rule: rule.persons)


def _truncated_rule(
    words: str, rows: int, persons: int, epsilon: Fraction, delta: Fraction, most: int
) -> TextRule:
    """Return the rule that releases texts by truncated Laplace noise.

    Source: Desfontaines, Voss, Gipson, Mandayam, "Differentially Private Partition Selection",
    PoPETs 2022, their k-TSGD, which is optimal where its δ is met exactly. Let n be the persons of
    a text, s the scale, and X discrete Laplace of scale s given |X| ≤ k. The text is released where
    n + X > k, with n + X, of which only the order is used. A text of no person never is.

    *Proof.* One text first; one person more makes n to n + 1. P(X = x) is f(x) ∝ e^(−|x|/s), so
    f(x − 1)/f(x) is between e^(−1/s) and e^(1/s) wherever both are positive. Of the numbers that
    are possible at n and not at n + 1, or the reverse, each side has one, of probability f(k). So
    one text is (1/s, f(k))-DP, and for n = 0 it is never released, for n = 1 only with X = k. With
    q = e^(−1/s), f(k) = q^k·(1 − q)/(1 + q − 2q^(k+1)). Texts have independent noise. Neighbours
    differ in at most Δ pairs of a person and a text, Δ = ``spec.distance`` of the declaration; as Δ
    steps of one pair each on one text, or on several, they compose to (Δ/s, Δ·f(k)). k is the least
    with f(k) ≤ δ/Δ, and Δ/s ≤ ε. Steps on one text do not occur: a person is in its n once,
    whatever her rows; two persons that replace each other move the n of a text that both have by
    nothing. ∎
    """
    distance = rows * persons
    # A scale that is a float without rounding, so that every source of noise draws at exactly it.
    scale = Fraction(float_at_least(checked_scale(distance / epsilon)))
    spend = Spend(words, TRUNCATED_TEXTS, epsilon, distance, checked_scale(scale), delta=delta)
    threshold = noise_bound(scale, delta / distance) + 1
    return TextRule((1,) * rows, spend, threshold, most)


def _gaussian_rule(
    words: str, rows: int, persons: int, epsilon: Fraction, delta: Fraction, most: int
) -> TextRule:
    """Return the rule that releases texts by Gaussian noise on their weights.

    words, epsilon, delta and most are as for ``text_rule``. Below, L is ``rows``, u is ``persons``
    and W is ``SINGLE_TEXT_WEIGHT``.

    Source: Gopi, Gulhane, Kulkarni, Shen, Shokouhi, Yekhanin, "Differentially Private Set Union",
    ICML 2020; Swanberg, Desfontaines, Haney 2023 compare it. A person with j texts adds
    w_j = ⌊W/√j⌋ to each of them. A text is released where its sum plus discrete Gaussian noise of
    variance parameter σ² is at least τ. Let u = 1 under add or remove, and 2 where a person is
    replaced.

    *Proof.* What one person adds has a squared norm of at most j·w_j² ≤ W². Of two who replace each
    other, the difference a − b has |a|² + |b|² − 2ab ≤ 2W², since both are nowhere negative. So
    with all texts of the world, noise on every one of them has ρ = u·W²/(2σ²), which means (ε, δ/2)
    as ``config.amounts.rho_of`` proves. Texts of no person get no noise, though. Let C be the texts
    of both D and D', x = P'(released texts of C, at D', are S) and y the same at D: y ≤ e^ε·x +
    δ/2, and y ≤ 1. A text that only D has is one of at most L, and its sum is one person's w_j: it
    passes with probability P(w_j + N ≥ τ) ≤ P(N ≥ m_j) ≤ e^(−m_j²/2σ²) ≤ δ₂/j (Canonne, Kamath,
    Steinke 2020: the discrete Gaussian is subgaussian with σ²), where τ ≥ w_j + m_j for every j. So
    P(D gives S) ≤ y + δ₂. And P(D' gives S) ≥ (1 − δ₂)·x where only C's texts are in S, as only
    those matter for y. If e^ε·x ≤ 1, then e^ε·x − e^ε·(1 − δ₂)·x ≤ δ₂; else e^ε·(1 − δ₂)·x ≥ 1 − δ₂
    ≥ y − δ₂. Either way P(D gives S) ≤ e^ε·P(D' gives S) + δ/2 + δ₂ + δ₂. Under add or remove only
    one of the two has texts of its own, so one δ₂ falls away. With δ₂ = δ/(2u) it is (ε, δ). ∎
    """
    sensitivity = persons * SINGLE_TEXT_WEIGHT**2
    exact = Fraction(sensitivity) / (2 * rho_of(epsilon, delta / 2))
    # At least the exact variance, and a fixed point of ``root_at_least``, by which OpenDP draws:
    # more noise than in the proof would reach the threshold more often.
    root = root_at_least(exact)
    while root_at_least(root**2) != root:
        root = root_at_least(root**2)
    variance = checked_scale(root) ** 2
    spend = Spend(words, GAUSSIAN_TEXTS, epsilon, sensitivity, variance, delta=delta)
    weights = tuple(isqrt(SINGLE_TEXT_WEIGHT**2 // texts) for texts in range(1, rows + 1))
    failing = delta / (2 * persons)
    threshold = max(
        weights[first - 1] + gaussian_noise_bound(spend.scale, failing / last)
        for first, last in _blocks(rows)
    )
    return TextRule(weights, spend, threshold, most)


def _blocks(rows: int) -> Iterator[tuple[int, int]]:
    """Yield ranges (first, last) that divide 1 to ``rows``: 1; 2 to 3; 4 to 7; …"""
    first = 1
    while first <= rows:
        yield first, min(2 * first - 1, rows)
        first *= 2


def parse_texts(array: IntArray) -> tuple[str, ...]:
    """Return the texts that a packed answer of ``TextRule.select`` holds."""
    texts, remainder = unpack_texts(array)
    if len(remainder) or list(texts) != sorted(set(texts)):
        raise BoundaryViolation(
            "An answer of discovered texts must hold different texts in the order of their bytes "
            "and nothing after them, but it does not"
        )
    return tuple(text.decode() for text in texts)
