"""Dividing an exact ε into exact shares."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import isqrt

from dp_pipeline.schema.errors import BoundaryViolation


def split(epsilon: Fraction, weights: Sequence[int | Fraction]) -> tuple[Fraction, ...]:
    """Shares of ``epsilon`` in proportion to ``weights``; they add up to it exactly.

    weights   positive, at least one; whole numbers or fractions, never floats

    >>> split(Fraction(1), [1, 2])
    (Fraction(1, 3), Fraction(2, 3))
    """
    exact = [Fraction(weight) for weight in weights if not isinstance(weight, float)]
    if len(exact) != len(weights) or not exact or min(exact) <= 0:
        raise BoundaryViolation(
            f"budget: expected positive whole or rational weights, got {len(weights)} others"
        )
    total = sum(exact, Fraction(0))
    return tuple(epsilon * weight / total for weight in exact)


def root_weights(sizes: Sequence[int]) -> tuple[int, ...]:
    """√size in whole thousandths: the shares that give tables of these sizes the least
    total noise (minimise Σ size/ε_i subject to Σ ε_i = ε), without a float.
    """
    return tuple(isqrt(size * 10**6) for size in sizes)
