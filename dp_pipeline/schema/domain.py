"""Attribute and Domain: names, declared levels or bounds, and sizes. All of it public."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from dp_pipeline.schema.encoding import Bins, Coordinate, Levels
from dp_pipeline.schema.errors import DeclarationError

OnInvalid = Literal["clip", "other", "drop"]


@dataclass(frozen=True)
class Attribute:
    """One declared column.

    name         how models and releases call it
    column       how the source calls it
    on_invalid   what happens to a row whose value breaks the declaration:
                 ``clip`` (numbers outside the bounds go to the nearer one),
                 ``other`` (unknown texts become the level ``other``), ``drop``.
                 Text where a number is declared, NaN and a missing value can
                 be neither clipped nor renamed without ``other``: such a row is dropped.
    coordinate   the bounded interval of a numeric attribute, else None
    cells        levels or bins; None for a number that is never discretised
    other        the level that takes unknown texts, or None
    """

    name: str
    column: str
    on_invalid: OnInvalid
    coordinate: Coordinate | None = None
    cells: Levels | Bins | None = None
    other: str | None = None

    @property
    def is_numeric(self) -> bool:
        """Whether values are numbers between declared bounds."""
        return self.coordinate is not None

    @property
    def size(self) -> int:
        """Number of cells; an error for a number that was declared without bins."""
        if self.cells is None:
            raise DeclarationError(
                f"attribute {self.name!r}: expected levels, bins or edges, got bounds only"
            )
        return self.cells.size


@dataclass(frozen=True)
class Domain:
    """The declared attributes in their order, and the sizes that follow from them."""

    attributes: tuple[Attribute, ...]

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    def __getitem__(self, name: str) -> Attribute:
        for attribute in self.attributes:
            if attribute.name == name:
                return attribute
        raise DeclarationError(
            f"attribute {name!r}: expected one of {', '.join(self.names)}, got a name not declared"
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Every declared attribute."""
        return tuple(attribute.name for attribute in self.attributes)

    @property
    def numeric(self) -> tuple[str, ...]:
        """Attributes that are coordinates of a box."""
        return tuple(attribute.name for attribute in self.attributes if attribute.is_numeric)

    @property
    def discrete(self) -> tuple[str, ...]:
        """Attributes with cells."""
        return tuple(a.name for a in self.attributes if a.cells is not None)

    def shape(self, names: tuple[str, ...]) -> tuple[int, ...]:
        """Shape of the marginal over ``names``; () for no attribute."""
        return tuple(self[name].size for name in names)

    def cell_count(self, names: tuple[str, ...]) -> int:
        """Number of cells of the marginal over ``names``; 1 for no attribute."""
        return math.prod(self.shape(names))

    def box(self, names: tuple[str, ...]) -> tuple[Coordinate, ...]:
        """The declared interval of every numeric attribute in ``names``."""
        intervals = []
        for name in names:
            coordinate = self[name].coordinate
            if coordinate is None:
                raise DeclarationError(f"attribute {name!r}: expected bounds, got levels")
            intervals.append(coordinate)
        return tuple(intervals)
