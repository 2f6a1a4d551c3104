"""Attribute and Domain: names, declared levels or bounds, and sizes. All of it public.

What neighbouring data sets differ by: the protected unit and the relation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Literal

from dp_pipeline.config.clock import Clock
from dp_pipeline.config.constraints import AllowedCells, Constraint, allowed_cells
from dp_pipeline.config.encoding import Bins, Coordinate, Levels
from dp_pipeline.config.errors import DeclarationError, did_you_mean
from dp_pipeline.config.reading import Derived, Signs

OnInvalid = Literal["clip", "other", "drop"]

MISSING = "missing"
"""The label of the cell of missing values."""


@dataclass(frozen=True)
class Undeclared:
    """What of an attribute nobody knows before a look at the rows was paid for. All of it public.

    levels      None, or most levels that may be found
    bounds      whether bounds are to be found
    quantiles   None, or most bins between quantiles that may be found
    bins        None, or the number of bins of equal width between bounds that are to be found
    unit        bounds and edges are whole multiples of it
    """

    levels: int | None = None
    bounds: bool = False
    quantiles: int | None = None
    bins: int | None = None
    unit: float = 1.0

    @property
    def is_number(self) -> bool:
        """Whether the attribute is a number."""
        return self.levels is None

    @property
    def has_cells(self) -> bool:
        """Whether the attribute will have cells."""
        return not self.is_number or self.quantiles is not None or self.bins is not None


Pieces = tuple[tuple[float, float], ...]
"""(start, rows): about how many rows there are from each of these places on, ascending."""


@dataclass(frozen=True)
class Attribute:
    """One declared column.

    name         how models and releases call it
    column       how the source calls it, or the file where it is derived
    on_invalid   what happens to a row whose value breaks the declaration:
                 ``clip`` (numbers outside the bounds go to the nearer one),
                 ``other`` (unknown texts become the level ``other``), ``drop``.
                 Text where a number is declared, NaN and a missing value can
                 be neither clipped nor renamed without ``other``: such a row is dropped.
    coordinate   the bounded interval of a numeric attribute, else None
    cells        levels or bins; None for a number that is never discretised
    other        the level that takes unknown texts, or None
    nullable     whether a missing value is a cell of its own, the last one; else it is invalid
    is_integer   whether synthetic numbers are integers; changes nothing that is measured
    missing      texts that mean a missing value, beside empty ones
    aliases      (text, level): other spellings of declared levels
    usable       share of the rows that checks on rows want to be as declared; changes nothing
                 that is measured
    undeclared   what of it is to be discovered, or None; ``discovered`` declares it
    signs        how a text says a number
    clock        how the column says a date or a time, which is a whole number here; else None
    derived      what the column is a function of, where it is none of the source; else None
    pieces       where numbers are inside their bins, from a look that was paid for; synthetic ones
                 are drawn by it, and evenly without it. Changes nothing that is measured
    """

    name: str
    column: str
    on_invalid: OnInvalid
    coordinate: Coordinate | None = None
    cells: Levels | Bins | None = None
    other: str | None = None
    nullable: bool = False
    is_integer: bool = False
    missing: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    usable: Fraction = Fraction(1)
    undeclared: Undeclared | None = None
    signs: Signs = Signs()
    clock: Clock | None = None
    derived: Derived | None = None
    pieces: Pieces = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns of the source that it is read from."""
        return (self.column,) if self.derived is None else self.derived.inputs

    @property
    def reads_times(self) -> bool:
        """Whether the columns of the source are dates or times to it."""
        return (self if self.derived is None else self.derived).clock is not None

    @property
    def reads_numbers(self) -> bool:
        """Whether the columns of the source are numbers to it."""
        if self.derived is not None:
            return self.derived.clock is None and not self.derived.is_text
        return self.is_numeric and self.clock is None

    def shown(self, number: float) -> str:
        """A number between the bounds as a person reads it: six digits, or a date."""
        return f"{number:.6g}" if self.clock is None else self.clock.text(number)

    @property
    def range(self) -> tuple[str, str]:
        """The declared bounds as a person reads them; an error for levels."""
        if self.coordinate is None:
            raise DeclarationError(f"attribute {self.name!r}: expected bounds, got levels")
        ends = (self.coordinate.lower, self.coordinate.upper)
        low, high = (f"{end:g}" if self.clock is None else self.clock.text(end) for end in ends)
        return low, high

    @property
    def is_numeric(self) -> bool:
        """Whether values are numbers, dates or times, between bounds that are declared or to be
        discovered.
        """
        is_to_be = self.undeclared is not None and self.undeclared.is_number
        return self.coordinate is not None or is_to_be

    @property
    def has_cells(self) -> bool:
        """Whether values have codes, or will have when its levels or bins are discovered."""
        is_to_be = self.undeclared is not None and self.undeclared.has_cells
        return self.cells is not None or is_to_be

    @property
    def is_axis(self) -> bool:
        """Whether every row has a place along it: a number that is never missing."""
        return self.is_numeric and not self.nullable

    @property
    def size(self) -> int:
        """Number of cells, with that of missing values where there is one; an error for a number
        that was declared without bins.
        """
        return self._cells.size + self.nullable

    def labels(self) -> tuple[str, ...]:
        """One name a cell, in code order; an error for a number without bins."""
        labels = self._cells.labels()
        return (*labels, MISSING) if self.nullable else labels

    @property
    def missing_code(self) -> int:
        """The cell of missing values: the last one. An error where there is none."""
        if not self.nullable:
            raise DeclarationError(
                f"attribute {self.name!r}: expected a nullable attribute, got one that is not"
            )
        return self._cells.size

    def not_discovered(self, parts: str) -> DeclarationError:
        """The refusal of a question whose answer is still to be discovered."""
        return DeclarationError(
            f"attribute {self.name!r}: expected {parts} that are declared or were discovered, got "
            "some to be discovered: `dp-pipeline run` discovers them first"
        )

    @property
    def measured(self) -> dict[str, Any]:
        """Every field that changes what is measured."""
        fields = asdict(self)
        del fields["is_integer"], fields["usable"], fields["pieces"]
        return fields

    @property
    def _cells(self) -> Levels | Bins:
        if self.cells is None and self.has_cells:
            raise self.not_discovered("cells")
        if self.cells is None:
            raise DeclarationError(
                f"attribute {self.name!r}: expected levels, bins or edges, got bounds only"
            )
        return self.cells


@dataclass(frozen=True)
class Domain:
    """The declared attributes in their order, and the sizes that follow from them.

    constraints   which cells of several attributes there are together in one row
    """

    attributes: tuple[Attribute, ...]
    constraints: tuple[Constraint, ...] = ()

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    def __getitem__(self, name: str) -> Attribute:
        for attribute in self.attributes:
            if attribute.name == name:
                return attribute
        raise DeclarationError(
            f"attribute {name[:60]!r}: expected one of {', '.join(self.names)}, "
            f"got a name not declared{did_you_mean(name, self.names)}"
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Every declared attribute."""
        return tuple(attribute.name for attribute in self.attributes)

    @property
    def numeric(self) -> tuple[str, ...]:
        """Attributes that are coordinates of a box: numbers that are never missing."""
        return tuple(attribute.name for attribute in self.attributes if attribute.is_axis)

    @property
    def discrete(self) -> tuple[str, ...]:
        """Attributes with cells, discovered ones or those to be discovered too."""
        return tuple(a.name for a in self.attributes if a.has_cells)

    def with_attributes(self, attributes: Mapping[str, Attribute]) -> Domain:
        """The domain with other attributes under the names given."""
        replaced = tuple(attributes.get(attribute.name, attribute) for attribute in self.attributes)
        return Domain(replaced, self.constraints)

    def allowed(self, names: tuple[str, ...]) -> tuple[AllowedCells, ...]:
        """What the constraints say about some attributes, one entry a set of them."""
        constrained = {name for constraint in self.constraints for name in constraint.attributes}
        return allowed_cells(
            self.constraints, names, {name: self[name].size for name in constrained}
        )

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
            attribute = self[name]
            if not attribute.is_numeric:
                raise DeclarationError(f"attribute {name!r}: expected bounds, got levels")
            if attribute.coordinate is None:
                raise attribute.not_discovered("bounds")
            if attribute.nullable:
                raise DeclarationError(
                    f"attribute {name!r}: expected a number that is never missing, "
                    "got a nullable one"
                )
            intervals.append(attribute.coordinate)
        return tuple(intervals)


Relation = Literal["add_remove", "replace_one"]


@dataclass(frozen=True)
class OneRow:
    """A person is at most one row."""

    @property
    def rows(self) -> int:
        """Rows that one protected unit can have."""
        return 1

    @property
    def column(self) -> str | None:
        """The column that names the person: none, a row is a person."""
        return None

    def __str__(self) -> str:
        return "one row"


@dataclass(frozen=True)
class RowsOfPerson:
    """A person is all rows with one value of ``column``, of which ``at_most`` are kept.

    each   the window that ``at_most`` counts in, such as ``week``; empty where rows are not cut
    """

    column: str
    at_most: int
    each: str = ""

    @property
    def rows(self) -> int:
        """Rows that one protected unit can have."""
        return self.at_most

    def __str__(self) -> str:
        each = f" in each {self.each}" if self.each else ""
        return f"at most {self.at_most} rows of a person{each}, column {self.column}"


Protection = OneRow | RowsOfPerson


def distance(protection: Protection, relation: Relation) -> int:
    """How many rows two neighbouring data sets differ by, at most.

    Replacing a person is removing one and adding another, so a distance under
    ``replace_one`` is twice the one under ``add_remove``.

    >>> distance(RowsOfPerson("user", 20), "add_remove"), distance(OneRow(), "replace_one")
    (20, 2)
    """
    return protection.rows * (2 if relation == "replace_one" else 1)
