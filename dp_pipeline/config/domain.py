"""The declared attributes of a data set and its protected unit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from dp_pipeline.config.clock import Clock
from dp_pipeline.config.constraints import AllowedCells, Constraint, allowed_cells
from dp_pipeline.config.encoding import Bins, Coordinate, IntArray, Levels
from dp_pipeline.config.errors import DeclarationError, did_you_mean, list_some
from dp_pipeline.config.reading import Derived, Signs

OnInvalid = Literal["keep", "clip", "other", "drop"]

MISSING = "missing"
"""The label of the cell of missing values."""

OTHER = "other"
"""The level of undeclared texts where a file names none."""


@dataclass(frozen=True)
class Undeclared:
    """The parts of an attribute that are to be discovered by private queries.

    levels      the most levels, or None
    bounds      whether bounds are to be discovered
    quantiles   the most bins between quantiles, or None
    bins        the number of bins of equal width between discovered bounds, or None
    unit        bounds and edges are multiples of it
    """

    levels: int | None = None
    bounds: bool = False
    quantiles: int | None = None
    bins: int | None = None
    unit: float = 1.0

    @property
    def is_number(self) -> bool:
        return self.levels is None

    @property
    def has_cells(self) -> bool:
        return not self.is_number or self.quantiles is not None or self.bins is not None


Pieces = tuple[tuple[float, float], ...]
"""(start, noisy rows) of parts of an interval, ascending."""


@dataclass(frozen=True)
class Attribute:
    """A declared attribute of the rows.

    name         name in models and releases
    column       name in the source, or of the derived column
    on_invalid   treatment of an invalid value: ``keep`` (it is missing), ``clip`` (a number goes to
                 the nearer bound), ``other`` (a text becomes the level ``other``), or ``drop`` (its
                 row is left out). What can be neither clipped nor renamed is missing where
                 ``nullable``, else its row is left out
    coordinate   the bounded interval of a numeric attribute, else None
    cells        levels or bins; None for a number that is never discretised
    other        the level that takes unknown texts, or None
    nullable     whether a missing value has a separate cell, the last one; else it is invalid.
                 Declared, so that the cells never depend on rows
    is_integer   whether synthetic numbers are integers; changes no measurement
    missing      texts that mean a missing value, in addition to empty ones
    decimals     how many synthetic numbers have; None: all of them. Changes no measurement
    aliases      (text, level): other spellings of declared levels, or of numbers
    names        (code, name) of bins that have a name; changes no measurement
    usable       share of the rows that checks require to be as declared; changes no measurement
    undeclared   the parts that are to be discovered, or None
    signs        decimal and thousands signs of numbers in texts
    clock        the conversion of dates or times to integers, or None
    derived      the function that computes the column, or None for a column of the source
    pieces       discovered distribution by which synthetic numbers are drawn inside their bins; ()
                 for an even one. Changes no measurement
    """

    name: str
    column: str
    on_invalid: OnInvalid
    coordinate: Coordinate | None = None
    cells: Levels | Bins | None = None
    other: str | None = None
    nullable: bool = False
    is_integer: bool = False
    decimals: int | None = None
    missing: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    names: tuple[tuple[int, str], ...] = ()
    usable: Fraction = Fraction(1)
    undeclared: Undeclared | None = None
    signs: Signs = Signs()
    clock: Clock | None = None
    derived: Derived | None = None
    pieces: Pieces = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.column,) if self.derived is None else self.derived.inputs

    @property
    def reads_times(self) -> bool:
        """Whether the attribute reads dates or times from the source."""
        return (self if self.derived is None else self.derived).clock is not None

    @property
    def reads_numbers(self) -> bool:
        """Whether the attribute reads numbers from the source."""
        if self.derived is not None:
            return self.derived.clock is None and not self.derived.is_text
        return self.is_numeric and self.clock is None

    def number_text(self, number: float) -> str:
        """Return a value as text: a number with six significant digits, or a date or time."""
        return f"{number:.6g}" if self.clock is None else self.clock.text(number)

    @property
    def range(self) -> tuple[str, str]:
        """The bounds as texts; DeclarationError for levels, and for bounds to be discovered."""
        if self.coordinate is None:
            if self.is_numeric:
                raise self.not_discovered("bounds")
            raise DeclarationError(
                f"The attribute {self.name!r} has levels and no range, which this needs: name "
                "one that has `bounds`"
            )
        return self.number_text(self.coordinate.lower), self.number_text(self.coordinate.upper)

    @property
    def is_size(self) -> bool:
        """Whether this is the number of parts of a unit, counted when rows are prepared."""
        return self.derived is not None and self.derived.function == SIZE

    @property
    def is_numeric(self) -> bool:
        """Whether values are numbers, dates or times between bounds, which may be undiscovered."""
        is_to_be = self.undeclared is not None and self.undeclared.is_number
        return self.coordinate is not None or is_to_be

    @property
    def has_cells(self) -> bool:
        """Whether the attribute has levels or bins, now or after a discovery."""
        is_to_be = self.undeclared is not None and self.undeclared.has_cells
        return self.cells is not None or is_to_be

    @property
    def is_axis(self) -> bool:
        """Whether this is a number, date or time that is never missing, as an axis must be."""
        return self.is_numeric and not self.nullable

    @property
    def keeps_rows(self) -> bool:
        """Whether every value has a code, so that no row is dropped because of it."""
        return self.on_invalid == "other" or (self.nullable and self.on_invalid != "drop")

    @property
    def size(self) -> int:
        """The number of cells, with that of missing values; DeclarationError without cells."""
        return self._cells.size + self.nullable

    def labels(self) -> tuple[str, ...]:
        """Return the names of the cells, in code order; DeclarationError without cells."""
        names = dict(self.names)
        labels = tuple(names.get(code, text) for code, text in enumerate(self._cells.labels()))
        return (*labels, MISSING) if self.nullable else labels

    @property
    def missing_code(self) -> int:
        """The code of missing values, which is the last; DeclarationError without such a cell."""
        if not self.nullable:
            raise DeclarationError(
                f"The attribute {self.name!r} has no code for missing values: declare "
                "`nullable: true`"
            )
        return self._cells.size

    def not_discovered(self, parts: str) -> DeclarationError:
        """Return the error for using parts that are still to be discovered.

        parts   their word in the message: levels, bins or bounds
        """
        return DeclarationError(
            f"The {parts} of attribute {self.name!r} are still to be discovered: `dp-pipeline run "
            "NAME` of its data set discovers them"
        )

    @property
    def measured(self) -> dict[str, Any]:
        """The fields of the attribute that change a measurement, by name."""
        unmeasured = ("is_integer", "decimals", "names", "usable", "pieces")
        return {name: value for name, value in asdict(self).items() if name not in unmeasured}

    @property
    def _cells(self) -> Levels | Bins:
        if self.cells is None:
            if self.has_cells:
                raise self.not_discovered("cells")
            raise DeclarationError(
                f"The attribute {self.name!r} has bounds but no cells: declare bins or edges for it"
            )
        return self.cells


SIZE = "size"
"""The attribute of a unit that is the number of its parts, which the program counts."""


UNIT_WEIGHT = 1 << 16
"""Weight of a unit in every table of units with parts: the distance of two data sets that differ in
one unit (``gate.parts``)."""


def pair_count(size: int, *, in_order: bool) -> int:
    """Return the number of pairs of a unit's parts, or of successive parts where they are in order.

    >>> pair_count(4, in_order=False), pair_count(4, in_order=True), pair_count(1, in_order=True)
    (6, 3, 0)
    """
    return size - 1 if in_order else size * (size - 1) // 2


@dataclass(frozen=True)
class Parts:
    """The declared parts of a unit, such as the persons of a household.

    name         name of the parts, for people
    attributes   the attributes of a part; all others, and ``size``, are of the unit
    at_most      most parts of a unit that count
    order        their number or date by which they are in order; empty: they are a set
    key          column of their own source that names their unit; empty: they have none, so that
                 every unit has a part
    single       (attribute, codes): at most one part of a unit has any of these codes
    """

    name: str
    attributes: tuple[str, ...]
    at_most: int
    order: str = ""
    key: str = ""
    single: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def fewest(self) -> int:
        """The smallest number of parts of a unit."""
        return 0 if self.key else 1

    def row_counts(self, sizes: IntArray) -> IntArray:
        """Return the number of rows of each unit (n,), from the codes (n,) of its size.

        Each part is a row. A unit without parts is one too, without values of a part.
        """
        return np.maximum(1, sizes.astype(np.int64) + self.fewest)

    def name_in_unit(self, attribute: str, position: int) -> str:
        """Return the name of a part's attribute in its unit's row: ``age 1`` at position 0."""
        return f"{attribute} {position + 1}"

    def absence_words(self, attribute: str) -> str:
        """Return the words of the constraint that a unit without parts lacks this attribute."""
        return f"no {attribute} in a unit without {self.name}"

    def of_units(self, domain: Domain) -> Domain:
        """Return the domain of rows that each hold a unit with all its parts.

        domain   attributes of units and of parts

        Its attributes are those of the unit, then those of a part once for every position. The last
        cell of the latter is for units without a part there.
        """
        attributes = [each for each in domain if each.name not in self.attributes]
        for position in range(self.at_most):
            for name in self.attributes:
                cells = Levels(tuple(map(str, range(domain[name].size + 1))))
                place = self.name_in_unit(name, position)
                attributes.append(Attribute(place, place, "drop", cells=cells))
        return Domain(tuple(attributes))


@dataclass(frozen=True)
class Domain:
    """The declared attributes in their order, and the constraints on them.

    constraints   combinations of cells that no row has, or of which every row has one
    parts         the parts of units, where a row is a part of one; None where it is a unit
    """

    attributes: tuple[Attribute, ...]
    constraints: tuple[Constraint, ...] = ()
    parts: Parts | None = None

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    def __getitem__(self, name: str) -> Attribute:
        for attribute in self.attributes:
            if attribute.name == name:
                return attribute
        raise DeclarationError(
            f"The data set has no attribute {name[:60]!r}: it declares "
            f"{list_some(self.names, most=500)}{did_you_mean(name, self.names)}"
        )

    @property
    def item_word(self) -> str:
        """The word for what is counted: ``rows``, or ``units`` where rows are parts of units."""
        return "rows" if self.parts is None else "units"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(attribute.name for attribute in self.attributes)

    @property
    def numeric(self) -> tuple[str, ...]:
        """The names of the attributes that are numbers, dates or times and never missing."""
        return tuple(attribute.name for attribute in self.attributes if attribute.is_axis)

    @property
    def discrete(self) -> tuple[str, ...]:
        """The names of the attributes with levels or bins, declared or still to be discovered."""
        return tuple(attribute.name for attribute in self.attributes if attribute.has_cells)

    @property
    def leaves_rows_out(self) -> bool:
        """Whether rows may be dropped because a value is not as declared."""
        return not all(attribute.keeps_rows for attribute in self.attributes)

    @property
    def row_constraints(self) -> tuple[Constraint, ...]:
        """The constraints but those on the size of a unit, which a single row does not show."""
        sizes = {each.name for each in self.attributes if each.is_size}
        return tuple(each for each in self.constraints if sizes.isdisjoint(each.attributes))

    def with_attributes(self, attributes: Mapping[str, Attribute]) -> Domain:
        """Return the domain with some attributes replaced by others.

        attributes   name in the domain → the attribute in its place; other names change nothing
        """
        return replace(self, attributes=tuple(attributes.get(each.name, each) for each in self))

    def allowed(self, names: tuple[str, ...]) -> tuple[AllowedCells, ...]:
        """Return the allowed cells of each set of ``names`` that constraints relate.

        A set has two or more attributes; one whose cells are all allowed is left out.
        """
        constrained = {name for constraint in self.constraints for name in constraint.attributes}
        sizes = {name: self[name].size for name in constrained}
        return allowed_cells(self.constraints, names, sizes)

    def shape(self, names: tuple[str, ...]) -> tuple[int, ...]:
        """Return the shape of the marginal over ``names``; () for no attribute."""
        return tuple(self[name].size for name in names)

    def cell_count(self, names: tuple[str, ...]) -> int:
        """Return the number of cells of the marginal over ``names``; 1 for no attribute."""
        return math.prod(self.shape(names))

    def box(self, names: tuple[str, ...]) -> tuple[Coordinate, ...]:
        """Return the interval of each of ``names``.

        DeclarationError for levels, for bounds to be discovered, and for a nullable attribute.
        """
        intervals = []
        for name in names:
            attribute = self[name]
            if not attribute.is_numeric:
                raise DeclarationError(
                    f"The attribute {name!r} must be a number with bounds to be used here, "
                    "but it has levels: choose another one"
                )
            if attribute.coordinate is None:
                raise attribute.not_discovered("bounds")
            if attribute.nullable:
                raise DeclarationError(
                    f"The attribute {name!r} may be missing, which is not allowed here: write "
                    "`nullable: false`"
                )
            intervals.append(attribute.coordinate)
        return tuple(intervals)


Relation = Literal["add_remove", "replace_one"]


@dataclass(frozen=True)
class Protection:
    """The rows that are protected together: one row, those of a person, or the parts of a unit.

    column    column whose value names the person or the unit; None for one row
    at_most   largest number of rows of a person, or of parts of a unit, that are used
    each      the period that ``at_most`` applies to, such as ``week``; empty without windows
    is_unit   whether the rows are parts of a unit, which are joined in one row
    """

    column: str | None = None
    at_most: int = 1
    each: str = ""
    is_unit: bool = False

    @property
    def rows(self) -> int:
        """The largest number of rows of one protected unit."""
        return 1 if self.is_unit else self.at_most

    def __str__(self) -> str:
        if self.column is None:
            return "one row"
        if self.is_unit:
            return f"one unit with at most {self.at_most} parts, column {self.column}"
        each = f" in each {self.each}" if self.each else ""
        return f"at most {self.at_most} rows of a person{each}, column {self.column}"
