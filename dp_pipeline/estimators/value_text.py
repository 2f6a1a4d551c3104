"""One value as the text that declared levels are compared with, whatever its type is."""

from __future__ import annotations

import math
from decimal import Decimal
from numbers import Complex, Integral, Real
from typing import Any

import numpy as np

UNKNOWN = "\0"
"""The text of a value that is none of text, number and truth value: no level, no number."""

_FIRST_ROUNDED = 2**53
"""The least size at which two whole numbers are one float: 2⁵³ + 1 is stored as 2⁵³."""

ALSO_CALLED = {"True": "1", "1": "True", "False": "0", "0": "False"}
"""A truth value is a number to Python, and the other way round."""


def text_of(value: object, *, truth_is_number: bool = False) -> str | None:
    """The text of a text, a number or a truth value; None where it is missing; never an error.

    Spaces around a text do not count, a whole number has no point: 1 and 1.0 are the text 1.
    So is 1 + 0j: one complex number makes pandas store a column of them. A value that raises
    when it is read is UNKNOWN.

    truth_is_number   a truth value is 1 or 0, not the text True or False

    >>> text_of(" f "), text_of(2.0), text_of(True), text_of(float("nan"))
    ('f', '2', 'True', None)
    """
    try:
        return _text_of(value, truth_is_number=truth_is_number)
    except Exception:  # noqa: BLE001 - a value may be of any class, with methods that raise
        return UNKNOWN


def _text_of(value: object, *, truth_is_number: bool) -> str | None:
    if isinstance(value, str):
        # A half of a pair of surrogates cannot be stored as it is, nor can what is no text:
        # a class of texts may strip them to anything.
        return str.encode(value.strip(), "utf-8", "backslashreplace").decode()
    if isinstance(value, bool | np.bool_):
        return str(int(value)) if truth_is_number else str(bool(value))
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, Real | Decimal):
        return _number(value)
    if isinstance(value, Complex) and not value.imag:
        return _number(value.real)
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


def is_rounded(text: str) -> bool:
    """Whether it is the text of a whole number that may become another one when it is a float.

    One missing value turns a column of whole numbers into floats.

    >>> is_rounded("9007199254740991"), is_rounded("9007199254740992"), is_rounded("a")
    (False, True, False)
    """
    digits = text.removeprefix("-")
    # A number has no zero in front: such a text is never the text of one.
    is_whole = digits.isascii() and digits.isdigit() and not digits.startswith("0")
    return is_whole and (len(digits) > 16 or int(digits) >= _FIRST_ROUNDED)
