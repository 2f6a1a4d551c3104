"""Numbers as text: three significant digits, and no more digits than the noise leaves standing."""

from __future__ import annotations

import math
from decimal import Decimal

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

NO_NUMBER = "n/a"


def number_text(value: float) -> str:
    """Three significant digits; a power of ten for the very small and the very large.

    >>> number_text(12.345), number_text(1234.5), number_text(0.00001234)
    ('12.3', '1,230', '1.23×10⁻⁵')
    """
    if not math.isfinite(value):
        return NO_NUMBER
    power = _power(value)
    if power:
        return f"{_fixed(_shifted(value, power), 2)}×10{_raised(power)}"
    return _fixed(value, _decimals(value, 3))


def noisy_text(value: float, deviation: float) -> str:
    """A value and the standard deviation of its noise, both to the digits that the noise leaves.

    >>> noisy_text(12.345, 0.4), noisy_text(0.3456, 0.2), noisy_text(2345678.0, 40000.0)
    ('12.3 ± 0.4', '0.3 ± 0.2', '(2.35 ± 0.04)×10⁶')
    """
    if not (math.isfinite(value) and math.isfinite(deviation)):
        return NO_NUMBER
    power = _power(max(abs(value), deviation))
    if power:
        scaled = _both(_shifted(value, power), _shifted(deviation, power))
        return f"({scaled})×10{_raised(power)}"
    return _both(value, deviation)


def _both(value: float, deviation: float) -> str:
    if deviation == 0:
        return f"{number_text(value)} ± 0"
    # One digit of 0.14 would be off by a third: a leading 1 keeps a second digit.
    digits = 2 if f"{deviation:.1e}".startswith("1") else 1
    left_standing = _decimals(deviation, digits)
    decimals = min(_decimals(value, 3), left_standing) if value else left_standing
    return f"{_fixed(value, decimals)} ± {_fixed(deviation, left_standing)}"


def _power(value: float) -> int:
    """The power of ten to write in front; 0 where plain digits are easy to read."""
    size = abs(value)
    return 0 if size == 0 or 1e-4 <= size < 1e6 else _exponent(value, 3)


def _shifted(value: float, power: int) -> float:
    """value / 10^power, also where 10^power is no float."""
    return float(Decimal(value).scaleb(-power))


def _exponent(value: float, digits: int) -> int:
    return int(f"{value:.{digits - 1}e}".partition("e")[2])


def _decimals(value: float, digits: int) -> int:
    """Decimals that show ``digits`` significant digits; negative when tens are rounded."""
    return digits - 1 - _exponent(value, digits) if value else 0


def _fixed(value: float, decimals: int) -> str:
    rounded = round(value, decimals) + 0.0  # −0 becomes 0
    return f"{rounded:,.{max(0, decimals)}f}"


def _raised(power: int) -> str:
    return str(power).translate(_SUPERSCRIPT)
