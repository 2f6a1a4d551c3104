"""One value as the text that declared levels are compared with, whatever its type is."""

from __future__ import annotations

import math
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np

UNKNOWN = "\0"
"""The text of a value that is none of text, number and truth value: no level, no number."""

ALSO_CALLED = {"True": "1", "1": "True", "False": "0", "0": "False"}
"""A truth value is a number to Python, and the other way round."""


def text_of(value: object, *, truth_is_number: bool = False) -> str | None:
    """The text of a text, a number or a truth value; None where it is missing; never an error.

    Spaces around a text do not count, a whole number has no point: 1 and 1.0 are the text 1.

    truth_is_number   a truth value is 1 or 0, not the text True or False

    >>> text_of(" f "), text_of(2.0), text_of(True), text_of(float("nan"))
    ('f', '2', 'True', None)
    """
    if isinstance(value, str):
        # A half of a pair of surrogates cannot be stored as it is.
        text = value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
        return text.strip()
    if isinstance(value, bool | np.bool_):
        return str(int(value)) if truth_is_number else str(bool(value))
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if not isinstance(value, Real | Decimal):
        return UNKNOWN
    try:
        return _number(value)
    except (ValueError, TypeError, ArithmeticError):
        return UNKNOWN


def _number(value: Any) -> str | None:
    try:
        number = float(value)
    except OverflowError:
        # Larger than any float is larger than any bound.
        return "inf" if value > 0 else "-inf"
    if math.isnan(number):
        return None
    if isinstance(value, Integral):
        return str(int(value))
    return str(int(number)) if number.is_integer() else repr(number)
