"""What each measure of a k-anonymous release is called, and says, in plain words."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dp_pipeline.reporting.number_text import number_text


@dataclass(frozen=True)
class MeasureWords:
    """One line about a measure.

    words      what it says of a release
    is_count   whether it is a whole number
    """

    words: str
    is_count: bool = False


MEASURES = {
    "rows": MeasureWords("released rows", is_count=True),
    "classes": MeasureWords("groups of rows with equal released columns", is_count=True),
    "promised_k": MeasureWords("K that was asked for; 0 and 1 promise nothing", is_count=True),
    "k": MeasureWords("rows of the smallest class", is_count=True),
    "rows_in_small_classes": MeasureWords("rows of classes smaller than K", is_count=True),
    "highest_risk": MeasureWords("chance to pick a person's row out of the smallest class"),
    "mean_risk": MeasureWords("the same chance, mean over the rows"),
    "alpha": MeasureWords("largest share of one label in one class; 1: a class has one label"),
    "distinct_l": MeasureWords("fewest different labels of a class", is_count=True),
    "entropy_l": MeasureWords("fewest labels that a class is worth, by its entropy"),
    "recursive_c": MeasureWords("most times that one label outweighs all others in a class"),
    "homogeneous_rows": MeasureWords("rows of classes with one label", is_count=True),
    "t_closeness": MeasureWords("farthest labels of a class from the table's; 0 alike, 1 apart"),
    "ordered_t_closeness": MeasureWords("the same for labels in order"),
    "delta_disclosure": MeasureWords("largest change of a label's share in a class, as logarithm"),
    "present_delta_disclosure": MeasureWords("the same, over labels that the class has"),
    "beta_likeness": MeasureWords(
        "largest gain of a label's share in a class, relative to the table"
    ),
    "containment_k": MeasureWords("a weaker notion, by containment; no k-anonymity", is_count=True),
}
"""By the names of ``metrics.disclosure``, in their order."""


def measure_words(name: str) -> str:
    """What a measure says; nothing of one that is not known here."""
    return MEASURES[name].words if name in MEASURES else ""


def measure_text(name: str, value: float) -> str:
    """A value as a person reads it.

    >>> [measure_text("rows", 1234.0), measure_text("alpha", 0.25), measure_text("alpha", math.inf)]
    ['1,234', '0.250', 'no bound']
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "no bound"
    return f"{value:,.0f}" if name in MEASURES and MEASURES[name].is_count else number_text(value)


def share_text(part: float, whole: float) -> str:
    """Part of a whole in percent, to three digits; a dash of nothing.

    >>> share_text(1, 8), share_text(1, 40000), share_text(0, 8)
    ('12.5 %', '0.00250 %', '0 %')
    """
    return f"{number_text(100 * part / whole)} %" if whole else "–"
