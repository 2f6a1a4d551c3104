"""How cells are read, as declared and each by itself: signs of numbers, words for nothing, zones.

Derived columns: a public function of one row, as one more column of a source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dp_pipeline.spec.clock import Clock

SPACES = " \u00a0\u202f"
"""A space, and the two that do not break a line: nobody sees which one it is."""

THOUSANDS = (".", ",", "'", "\N{RIGHT SINGLE QUOTATION MARK}", " ")


@dataclass(frozen=True)
class Signs:
    """Of numbers that are texts.

    decimal    point or comma
    thousands  what groups of three digits may stand apart by, or nothing; a space is any of three
    """

    decimal: str = "."
    thousands: str = ""

    def written(self, number: str) -> str:
        """The text of a stored number as these signs have it, to be read like the others."""
        return number.replace(".", self.decimal)


PartOfTime = Literal["hour", "weekday", "month", "year"]
Function = Literal["hour", "weekday", "month", "year", "difference", "product", "first"]
PARTS_OF_TIME = ("hour", "weekday", "month", "year")
UNITS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86_400, "weeks": 604_800}
"""Unit of a difference between two times → its seconds."""


@dataclass(frozen=True)
class Derived:
    """A column that is a function of one row. An input that is missing or invalid gives a missing
    cell.

    function   hour (0 to 23), weekday (Monday is 1), month (1 to 12) and year of a time, in its
               zone; ``difference`` of two columns; ``product`` of one with a constant; ``first``
               letters of a text
    inputs     columns of the source, one or two
    clock      how times are read, and None where the inputs are numbers or texts
    signs      how numbers are read
    missing    texts that say nothing
    unit       of a difference of times: one of UNITS
    factor     of a product
    letters    how many of them
    """

    function: Function
    inputs: tuple[str, ...]
    clock: Clock | None = None
    signs: Signs = Signs()
    missing: tuple[str, ...] = ()
    unit: str = ""
    factor: float = 1.0
    letters: int = 0

    @property
    def is_text(self) -> bool:
        """Whether its cells are texts; else numbers."""
        return self.function == "first"
