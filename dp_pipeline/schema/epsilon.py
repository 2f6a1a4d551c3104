"""ε as exact text: read once into a ``Fraction``, written back in one canonical form."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

from dp_pipeline.schema.errors import DeclarationError

NANO = 10**9
"""The ledger counts in whole nano-ε."""

SMALLEST = Fraction(1, 10**6)
LARGEST = Fraction(10**6)

# Of the spellings that Decimal knows, those that a person reads as a plain number.
_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,9})?", re.ASCII | re.IGNORECASE)


def parse_epsilon(text: str, *, of: str = "epsilon") -> Fraction:
    """Read ε from decimal text, exactly.

    Raises DeclarationError unless ``text`` is a plain decimal number from 1e-6
    to 1e6 with at most nine decimals (the ledger's unit is 1e-9).

    >>> parse_epsilon("0.1") + parse_epsilon("0.2") == parse_epsilon("0.3")
    True
    """
    got = repr(text)[:62]
    expected = f"{of}: expected a decimal number from 0.000001 to 1000000, got {got}"
    if not isinstance(text, str) or not _PLAIN.fullmatch(text.strip()):
        raise DeclarationError(expected)
    decimal = Decimal(text.strip())
    value = Fraction(decimal) if abs(decimal.adjusted()) < 30 else Fraction(0)
    if not SMALLEST <= value <= LARGEST:
        raise DeclarationError(expected)
    if (value * NANO).denominator != 1:
        raise DeclarationError(f"{of}: expected at most nine decimals, got {got}")
    return value


def epsilon_text(value: Fraction) -> str:
    """The canonical text of ε: no exponent, no trailing zeros; the fraction itself if not decimal.

    >>> epsilon_text(Fraction(1)), epsilon_text(Fraction(1, 20)), epsilon_text(Fraction(1, 3))
    ('1', '0.05', '1/3')
    """
    nano = value * NANO
    if nano.denominator != 1:
        return str(value)
    whole, rest = divmod(nano.numerator, NANO)
    decimals = f"{rest:09d}".rstrip("0")
    return f"{whole}.{decimals}" if decimals else str(whole)


def nano_epsilon(value: Fraction) -> int:
    """⌈ε·10⁹⌉: what the ledger charges."""
    return -((-value.numerator * NANO) // value.denominator)
