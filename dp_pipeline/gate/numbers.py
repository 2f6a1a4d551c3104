"""What passes the gate as a number: integers of int64, exact scales, floats rounded upwards."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from dp_pipeline.schema.encoding import IntArray
from dp_pipeline.schema.errors import BoundaryViolation

LARGEST_SCALE = 2**55
"""At this scale noise passes 2^62 with probability e^(−128): int64 answers still mean something."""


def int64_array(values: object, *, of: str) -> IntArray:
    """The array as int64, value for value; anything but an integer array is refused.

    Floats, booleans, dates and Python objects are refused by type, whatever they hold, and
    unsigned numbers above 2^63 − 1 by size: a wrapped number has no sensitivity.

    >>> int64_array(np.array([1, 2], np.uint8), of="counts")
    array([1, 2])
    >>> int64_array(np.array([1.0]), of="counts")
    Traceback (most recent call last):
    dp_pipeline.schema.errors.BoundaryViolation: counts: expected an integer array, got float64
    """
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "iu":
        got = values.dtype if isinstance(values, np.ndarray) else type(values).__name__
        raise BoundaryViolation(f"{of}: expected an integer array, got {got}")
    if values.dtype == np.uint64 and int(values.max(initial=0)) > np.iinfo(np.int64).max:
        raise BoundaryViolation(f"{of}: expected integers below 2^63, got larger ones")
    return np.asarray(values, np.int64)


def checked_scale(scale: Fraction) -> Fraction:
    """The scale itself; refused (by its public value alone) unless a Fraction, 0 < scale ≤ 2^55."""
    if not isinstance(scale, Fraction) or scale <= 0:
        raise BoundaryViolation(f"noise: expected a positive Fraction as scale, got {scale!r}")
    if scale > LARGEST_SCALE:
        raise BoundaryViolation(
            f"noise: expected a scale of at most 2^55, got 2^{int(scale).bit_length() - 1}"
        )
    return scale


def float_at_least(value: Fraction) -> float:
    """The smallest float that is not below a positive ``value`` (up to 2^1023).

    A scale rounded down would be less noise than was paid for.

    >>> float_at_least(Fraction(1, 10)) >= Fraction(1, 10)
    True
    """
    nearest = value.numerator / value.denominator
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)
