"""Declarations of how single cells are read: signs of numbers, and derived columns."""

from dataclasses import dataclass
from typing import Literal

from dp_pipeline.config.clock import Clock

SPACES = " \u00a0\u202f"
"""The space and the two no-break spaces, which look alike."""

THOUSANDS = (".", ",", "'", "\N{RIGHT SINGLE QUOTATION MARK}", " ")


@dataclass(frozen=True)
class Signs:
    """The decimal and thousands signs of numbers that are stored as texts.

    decimal    point or comma
    thousands  separator of groups of three digits, or empty; a space means any of SPACES
    """

    decimal: str = "."
    thousands: str = ""

    def localise(self, number: str) -> str:
        """Return the text of a number with the decimal sign of the source."""
        return number.replace(".", self.decimal)


Function = Literal["hour", "weekday", "month", "year", "difference", "product", "prefix"]
PARTS_OF_TIME = ("hour", "weekday", "month", "year")
SECONDS_OF_UNIT = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86_400, "weeks": 604_800}
"""Unit of a difference between two times → its seconds."""


@dataclass(frozen=True)
class Derived:
    """A column computed from others of its row; missing where one is missing or invalid.

    function   hour (0 to 23), weekday (Monday is 1), month (1 to 12) and year of a time, in its
               zone; ``difference`` of two columns; ``product`` of one with a constant; ``prefix``
               of a text; ``size`` of the unit that a row is a part of, counted at preparation
    inputs     one or two columns of the source
    clock      conversion of times; None where the inputs are numbers or texts
    signs      signs of numbers
    missing    texts that mean a missing value
    unit       unit of a difference of times, one of SECONDS_OF_UNIT
    factor     constant of a product
    letters    length of a prefix
    """

    function: Function | Literal["size"]
    inputs: tuple[str, ...]
    clock: Clock | None = None
    signs: Signs = Signs()
    missing: tuple[str, ...] = ()
    unit: str = ""
    factor: float = 1.0
    letters: int = 0

    @property
    def is_text(self) -> bool:
        """Whether the column has texts and not numbers."""
        return self.function in ("prefix", "size")
