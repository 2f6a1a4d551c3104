"""One charge in words that fit a narrow table; the bundle has every digit of it."""

from __future__ import annotations

import re
from fractions import Fraction

from dp_pipeline.reporting.number_text import number_text
from dp_pipeline.schema.epsilon import epsilon_text

LONGEST = 12
"""Characters of a cost that is told exactly."""

LONGEST_QUESTION = 60

_UNITS = re.compile(r", clip \d+ shift \d+$")
"""How a distance is counted: in units of the fixed-point grid, which nobody reads."""


def question_words(what: str) -> str:
    """The gate's words for a question, without those for programs, cut where they are many.

    >>> question_words("clipped squared distance to 3 released centres, clip 1352 shift 27")
    'clipped squared distance to 3 released centres'
    """
    words = _UNITS.sub("", what)
    return words if len(words) <= LONGEST_QUESTION else f"{words[: LONGEST_QUESTION - 1]}…"


def cost_text(cost: Fraction) -> str:
    """An ε or ρ: exact where that is short.

    >>> cost_text(Fraction(1, 3)), cost_text(Fraction(10**9 + 1, 3 * 10**9))
    ('1/3', '≈ 0.333')
    """
    text = epsilon_text(cost)
    return text if len(text) <= LONGEST else f"≈ {number_text(float(cost))}"


def count_text(count: int) -> str:
    """A whole number: every digit below a million, three above.

    >>> count_text(2), count_text(65536), count_text(2**32)
    ('2', '65,536', '4.29×10⁹')
    """
    return f"{count:,}" if abs(count) < 10**6 else number_text(float(count))
