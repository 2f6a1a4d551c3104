"""Amounts of ε, ρ and δ as exact fractions with one canonical text, and the currency of budgets.

ρ adds up over releases, as ε does, but under Gaussian noise m tables cost only √m times the ε of
one. A sum of ρ is converted once, at the declared δ, to an ε; never release by release.

Sources: Bun, Steinke 2016 (zero-concentrated differential privacy; a pure ε-DP
mechanism is ε²/2-zCDP: Proposition 1.4). Canonne, Kamath, Steinke 2020 (The
Discrete Gaussian for Differential Privacy): Proposition 12, from ρ to (ε, δ).
"""

import re
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Self

from dp_pipeline.config.errors import BoundaryViolation, DeclarationError, FieldError

NANO = 10**9
"""Units of 1: the ledger counts in whole nano-ε."""

SMALLEST = Fraction(1, 10**6)
LARGEST = Fraction(10**6)

# The spellings of Decimal that a person reads as a plain number.
_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,9})?", re.ASCII | re.IGNORECASE)


def parse_epsilon(text: str, *, of: str = "epsilon") -> Fraction:
    """Parse ε exactly from a decimal text.

    of   name of the amount, for messages

    DeclarationError unless it is a plain decimal number from 1e-6 to 1e6 with at most nine decimals
    (the ledger's unit is 1e-9).

    >>> parse_epsilon("0.1") + parse_epsilon("0.2") == parse_epsilon("0.3")
    True
    """
    got, value = repr(text)[:62], _plain_number(text)
    if not SMALLEST <= value <= LARGEST:
        raise FieldError("a decimal number from 0.000001 to 1000000", got, of=of)
    if (value * NANO).denominator != 1:
        raise FieldError("a number with at most nine decimals", got, of=of)
    return value


def _plain_number(text: str) -> Fraction:
    """Return the exact value of a plain decimal number; 0 for any other text, for a number of
    10¹⁰⁰ or more, and for one below 10⁻⁹⁹."""
    if not isinstance(text, str) or _PLAIN.fullmatch(text.strip()) is None:
        return Fraction(0)
    decimal = Decimal(text.strip())
    # The integers of a fraction would have as many digits as its exponent says.
    return Fraction(decimal) if abs(decimal.adjusted()) < 100 else Fraction(0)


def epsilon_text(value: Fraction) -> str:
    """Return the canonical text of ε: its shortest decimal of up to nine places, else a fraction.

    >>> epsilon_text(Fraction(1)), epsilon_text(Fraction(1, 20)), epsilon_text(Fraction(1, 3))
    ('1', '0.05', '1/3')
    """
    return _shortest_text(value, 9)


def _shortest_text(value: Fraction, places: int) -> str:
    units = abs(value) * 10**places
    if units.denominator != 1:
        return str(value)
    whole, decimal_units = divmod(units.numerator, 10**places)
    decimals = f"{decimal_units:0{places}d}".rstrip("0")
    sign = "-" if value < 0 else ""
    return f"{sign}{whole}.{decimals}" if decimals else f"{sign}{whole}"


def nano_epsilon(value: Fraction) -> int:
    """Return an amount of ε or ρ in billionths, rounded up, as the ledger charges it: ⌈ε·10⁹⌉."""
    return -((-value.numerator * NANO) // value.denominator)


MIN_DELTA = Fraction(1, 10**99)
MAX_DELTA = Fraction(1, 1000)
MOST_DECIMALS = 12

_MICRO = 10**6
_ARITHMETIC = Context(prec=50)
_ALLOWANCE = Decimal(10) ** -20
"""Far above the error of fifty digits; see ``epsilon_of``."""


@dataclass(frozen=True)
class Currency:
    """The currency of a privacy budget: pure ε, or the ρ of zero-concentrated DP.

    delta   None for pure ε; else the δ at which ρ is converted to an ε

    >>> Currency().name, Currency(Fraction(1, 10**9)).symbol
    ('pure', 'ρ')
    """

    delta: Fraction | None = None

    def __post_init__(self) -> None:
        if self.delta is not None and not MIN_DELTA <= self.delta <= MAX_DELTA:
            raise DeclarationError(
                f"The δ of a release must be from 1e-99 to 0.001, not {self.delta}: declare "
                "another `delta`"
            )

    @property
    def name(self) -> str:
        """The name of the currency: ``pure`` or ``zcdp``."""
        return "pure" if self.delta is None else "zcdp"

    @property
    def symbol(self) -> str:
        """The symbol of the currency: ``ε`` or ``ρ``."""
        return "ε" if self.delta is None else "ρ"

    def amount_of(self, epsilon: Fraction) -> Fraction:
        """Return a pure ε unchanged; else the largest ρ that implies at most this ε at ``delta``.

        DeclarationError where not even 10⁻⁹ ρ does.
        """
        return epsilon if self.delta is None else rho_of(epsilon, self.delta)

    def cost_of(self, amount: Fraction, paid_in: Self) -> Fraction:
        """Return an amount of the currency ``paid_in`` in this currency.

        A pure ε costs ρ = ε²/2; an amount of the same name is unchanged, also at another δ.
        BoundaryViolation for a ρ in pure ε, which has no finite cost.
        """
        if self.name == paid_in.name:
            return amount
        if self.delta is None:
            raise BoundaryViolation(
                "A charge in ρ has no finite price in pure ε, so a budget without `delta` "
                "cannot pay it"
            )
        return rho_of_pure(amount)

    def epsilon_of(self, amount: Fraction) -> Fraction:
        """Return the ε of an amount in this currency: ε unchanged, or that of a ρ, rounded up."""
        return amount if self.delta is None else epsilon_of(amount, self.delta)

    def text(self, amount: Fraction) -> str:
        """Return an amount as text: ε as a number, ρ together with the ε that it implies.

        >>> Currency().text(Fraction(1, 2))
        '0.5'
        >>> Currency(Fraction(1, 10**9)).text(rho_of(Fraction(1), Fraction(1, 10**9)))
        'ρ=0.014973057 (ε=1 at δ=1e-9)'
        """
        if self.delta is None:
            return epsilon_text(amount)
        return self.labelled_text(amount)

    def labelled_text(self, amount: Fraction) -> str:
        """Return an amount as text with its symbol, such as ``ε=0.5``; a ρ also with its ε at δ."""
        if self.delta is None:
            return f"ε={epsilon_text(amount)}"
        micro = -(-epsilon_of(amount, self.delta) * _MICRO // 1)
        meaning = f"ε={epsilon_text(Fraction(micro, _MICRO))} at δ={delta_text(self.delta)}"
        return f"ρ={epsilon_text(amount)} ({meaning})"


PURE = Currency()


def parse_delta(text: str, *, of: str = "delta") -> Fraction:
    """Parse δ exactly from a decimal text.

    of   name of the amount, for messages

    DeclarationError unless it is a plain decimal number from 1e-99 to 0.001, and has at most twelve
    decimals or is a power of ten.

    >>> parse_delta("0.000000001") == parse_delta("1e-9") == Fraction(1, 10**9)
    True
    """
    got, value = repr(text)[:62], _plain_number(text)
    if not MIN_DELTA <= value <= MAX_DELTA:
        raise FieldError("a decimal number from 1e-99 to 0.001, such as 1e-9", got, of=of)
    if (value * 10**MOST_DECIMALS).denominator != 1 and not _is_power_of_ten(value):
        expected = f"at most {MOST_DECIMALS} decimals, or a power of ten such as 1e-9"
        raise FieldError(expected, got, of=of)
    return value


def delta_text(value: Fraction) -> str:
    """Return the canonical text of δ: a power of ten below 1 as 1e-9, else the shortest decimal of
    up to 12 places, else a fraction.

    >>> delta_text(Fraction(1, 10**9)), delta_text(Fraction(25, 10**7))
    ('1e-9', '0.0000025')
    """
    if value < 1 and _is_power_of_ten(value):
        return f"1e-{len(str(value.denominator)) - 1}"
    return _shortest_text(value, MOST_DECIMALS)


def _is_power_of_ten(value: Fraction) -> bool:
    return value.numerator == 1 and str(value.denominator).strip("0") == "1"


def rho_of_pure(epsilon: Fraction) -> Fraction:
    """Return the ρ of a pure ε-DP mechanism, exactly ε²/2 (Bun, Steinke 2016).

    >>> rho_of_pure(Fraction(1, 2))
    Fraction(1, 8)
    """
    return epsilon * epsilon / 2


@lru_cache(maxsize=4096)
def epsilon_of(rho: Fraction, delta: Fraction) -> Fraction:
    """Return the ε at which ρ-zCDP is (ε, δ)-DP, rounded up to billionths.

    It is the least over α > 1 of ρα + log(1/(αδ))/(α − 1) + log(1 − 1/α) (Canonne, Kamath, Steinke
    2020, Proposition 12, solved for ε), and at least 0. It holds at *every* α > 1, so an early end
    of the search would cost accuracy, not validity.

    *Never below the formula.* Each operation of ``decimal`` is correctly rounded to 50
    digits, on every machine alike. For 0 ≤ ρ ≤ 10^13 and δ ≥ 10^-99 no term exceeds
    10^20 and fewer than twenty of them are combined, so the sum is within 10^-27 of the
    formula's value at the α that was used; 10^-20 is added before rounding up. ∎

    >>> epsilon_of(Fraction(1, 2), Fraction(1, 10**6))
    Fraction(1044306889, 200000000)
    """
    if rho <= 0:
        return Fraction(0)
    with localcontext(_ARITHMETIC):
        exact_rho = Decimal(rho.numerator) / Decimal(rho.denominator)
        log = -(Decimal(delta.numerator) / Decimal(delta.denominator)).ln()
        beyond = _best_order(exact_rho, log)
        order = beyond + 1
        epsilon = exact_rho * order + (log - order.ln()) / beyond + (beyond / order).ln()
        nano = ((epsilon + _ALLOWANCE) * NANO).to_integral_value(ROUND_CEILING)
    return Fraction(max(0, int(nano)), NANO)


def _best_order(rho: Decimal, log: Decimal) -> Decimal:
    """Return α − 1 for the α that gives the least ε: the root t of ρt² + log(1 + t) = log(1/δ).

    There the derivative of the bound by α vanishes. The left side grows with t, and √(log(1/δ)/ρ)
    lies above the root.
    """
    t = (log / rho).sqrt()
    for _ in range(60):
        step = (rho * t * t + (1 + t).ln() - log) / (2 * rho * t + 1 / (1 + t))
        # Where the logarithm dominates, a step may leave the positive numbers.
        t, last = max(t - step, t / 16), t
        if abs(t - last) <= last * Decimal("1e-15"):
            break
    return t


@lru_cache(maxsize=4096)
def rho_of(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest ρ, in steps of 10⁻⁹, whose rounded-up ε at δ is at most ``epsilon``.

    DeclarationError where even one nano-ρ, the unit of the ledger, is more.

    >>> rho_of(Fraction(1), Fraction(1, 10**9))
    Fraction(14973057, 1000000000)
    """

    def fits(nano: int) -> bool:
        return epsilon_of(Fraction(nano, NANO), delta) <= epsilon

    if not fits(1):
        raise DeclarationError(
            f"The ε of a release must be worth at least 1e-9 ρ at δ={delta_text(delta)}, which "
            f"{epsilon_text(epsilon)} is not: declare a larger ε"
        )
    low, high = 1, 2
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return Fraction(low, NANO)
