"""Section ``attributes`` of a data set file: a category with levels, or a number, a date or a time
between bounds.

What nobody may declare without looking says ``discover``: a look that is paid for finds it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from dp_pipeline.config import fields
from dp_pipeline.config.clock import Clock, Every, Signs, Spans
from dp_pipeline.config.domain import MISSING, Attribute, Undeclared
from dp_pipeline.config.encoding import MOST_CELLS, Bins, Coordinate, Levels, is_interval
from dp_pipeline.config.errors import Refused, bounded_bytes, reason_of
from dp_pipeline.config.fields import OneForm, a_mapping, below, not_among, require
from dp_pipeline.config.reading_parser import (
    AS_IT_IS,
    ReadingSection,
    SignsSection,
    Zone,
    require_format,
)
from dp_pipeline.config.yaml_text import TODO

DISCOVER = "discover"
"""In place of levels or bounds: a look that is paid for finds them."""

AT_MOST = 1000
"""Levels that are discovered where an attribute does not say how many there may be."""

MOST_QUANTILES = 256
MOST_BYTES = 1 << 23
OTHER = "other"
_SEVERAL = f"2 to {MOST_CELLS} different levels"
_BOX = "lower < upper, both within ±1e15, wide enough for 2^17 steps"
_UNITS = (1e-9, 1e9)


def _levels(value: object) -> object:
    """A list of texts; ``0..15``: the whole numbers from the first to the last; or discover."""
    if value == DISCOVER:
        return []
    require(value != [], _SEVERAL, "0")
    if not isinstance(value, str) or value == TODO:
        return value
    ends = re.fullmatch(r"(\d{1,18})\.\.(\d{1,18})", value)
    numbers = range(int(ends[1]), int(ends[2]) + 1) if ends else range(0)
    require(0 < len(numbers) <= MOST_CELLS, "a list, or first..last", repr(value[:60]))
    return list(map(str, numbers))


_RANGE = {"type": "string", "pattern": r"^\d+\.\.\d+$"}
_FILE = {
    "type": "object",
    "properties": {"file": fields.TEXT},
    "required": ["file"],
    "additionalProperties": False,
}
_DISCOVERED = {"const": DISCOVER}
_LEVELS = {
    "anyOf": [{"type": "array", "items": fields.TEXT, "minItems": 2}, _RANGE, _FILE, _DISCOVERED]
}


def with_levels_of_files(texts: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A data set file's texts with the lines of a file in the place of ``levels: {file: …}``.

    folder   of the data set file
    """
    attributes = texts.get("attributes")
    if not isinstance(attributes, dict):
        return dict(texts)
    read = dict(attributes)
    for name, section in attributes.items():
        levels = section.get("levels") if isinstance(section, dict) else None
        if isinstance(levels, dict):
            with below("attributes", name, "levels"):
                read[name] = {**section, "levels": _lines(levels, folder)}
    return {**texts, "attributes": read}


def _lines(section: Mapping[str, object], folder: Path) -> list[str]:
    """The levels that a file lists, one a line, without white space around them."""
    name = section.get("file")
    is_file = isinstance(name, str) and name and len(section) == 1
    require(is_file, "a list, first..last, discover, or {file: NAME}", "another mapping")
    try:
        content = bounded_bytes(folder / str(name), most=MOST_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise Refused("a file that can be read", reason_of(error), field=("file",)) from None
    except UnicodeDecodeError:
        raise Refused("a file of UTF-8 text", "other bytes", field=("file",)) from None
    return [line.strip() for line in content.splitlines() if line.strip()]


class _Column(fields.Section):
    """What all kinds of attributes may say.

    column    How the source calls it, where that is another name.
    nullable  A missing value is a cell of its own; what has bounds needs cells for it.
    missing   Texts that mean a missing value, beside an empty one.
    usable    Which share of the rows checks want to be as declared.
    """

    column: fields.Text | None = None
    nullable: fields.Switch = False
    missing: fields.Listed[fields.Item] | None = None
    usable: fields.Share | None = None

    @property
    def empties(self) -> tuple[str, ...]:
        """Texts that say that a value is missing, beside an empty one."""
        return tuple(sorted({text.strip() for text in self.missing or ()}))

    def _empties(self, reading: ReadingSection) -> tuple[str, ...]:
        """Its own texts, or those of all columns where it says none."""
        return reading.empties if self.missing is None else self.empties

    def _require_nullable(self) -> None:
        is_said = self.missing is None or self.nullable
        require(is_said, "`nullable: true` beside it", "none", "missing")


def _add(level: str) -> str:
    return f": add {level[:60]!r} to `levels`, in their file as a line of its own"


class Category(_Column):
    """A category: one of so many texts.

    levels      Every text that there can be; 0..15 are the sixteen levels 0 to 15.
    at_most     Levels that may be discovered.
    other       The level that stands for any other text.
    on_invalid  What becomes of a text that is no level; drop leaves its row out.
    aliases     Other spellings of levels.
    """

    levels: Annotated[fields.Listed[fields.Item], BeforeValidator(_levels), WithJsonSchema(_LEVELS)]
    at_most: fields.Count | None = None
    other: fields.Item | None = None
    on_invalid: Literal["other", "drop"] | None = None
    aliases: fields.Named[fields.Item] = Field(default_factory=dict)

    @property
    def is_to_discover(self) -> bool:
        """Whether the file says ``discover`` in place of levels."""
        return not self.levels

    @model_validator(mode="after")
    def _fits(self) -> Category:
        self._require_nullable()
        if self.is_to_discover:
            return self._fit_to_discover()
        expected = "no at_most beside levels that are declared"
        require(self.at_most is None, expected, "one", "at_most")
        levels, count = self.levels, len(self.levels)
        is_several = 2 <= len(set(levels)) == count <= MOST_CELLS
        require(is_several, _SEVERAL, str(count), "levels")
        if self.other is not None and self.other not in levels:
            refused = not_among(self.other, levels, field=("other",))
            refused.hint = refused.hint or _add(self.other)
            raise refused
        has_other = self.on_invalid != "other" or self.other is not None
        add = f": write `other: {OTHER}` beside it, and{_add(OTHER).removeprefix(':')}"
        require(has_other, "a level `other` for unknown texts", "none", "on_invalid", hint=add)
        expected = f"no level {MISSING!r}, which is the name of missing values here"
        require(not self.nullable or MISSING not in levels, expected, "one", "levels")
        for text, level in self.aliases.items():
            if level not in levels:
                raise not_among(level, levels, field=("aliases", text))
            expected = "a spelling that is no level, without spaces around it"
            is_other = text not in levels and text == text.strip()
            require(is_other, expected, "another", "aliases", text)
        are_others = {*levels, *self.aliases}.isdisjoint(self.empties)
        require(are_others, "texts that are neither levels nor aliases", "one that is", "missing")
        return self

    def _fit_to_discover(self) -> Category:
        most = self.at_most is None or self.at_most < MOST_CELLS
        require(most, f"at most {MOST_CELLS - 1} levels", str(self.at_most), "at_most")
        is_used = self.other is None or self.on_invalid != "drop"
        require(is_used, "no level `other` where rows are dropped", "one", "other")
        is_text = self.other is None or (self.other and self.other not in {MISSING, *self.empties})
        require(is_text, f"a level other than {MISSING!r} and missing texts", "one", "other")
        for text, level in self.aliases.items():
            is_spelling = text == text.strip() != level
            expected = "another spelling of a level, without spaces around it"
            require(is_spelling, expected, "another", "aliases", text)
        return self

    def attribute(self, name: str, default: str, reading: ReadingSection = AS_IT_IS) -> Attribute:
        """The attribute; ``default`` is the data set's rule for values that are not as declared,
        ``reading`` says how all columns are read.
        """
        if self.is_to_discover:
            return self._undeclared(name, reading)
        is_dropped = self.other is None or default == "drop"
        known = {*self.levels, *self.aliases}
        return Attribute(
            name,
            self.column or name,
            self.on_invalid or ("drop" if is_dropped else "other"),
            cells=Levels(self.levels),
            other=self.other,
            nullable=self.nullable,
            missing=tuple(one for one in self._empties(reading) if one not in known),
            aliases=tuple(sorted(self.aliases.items())),
        )

    def _undeclared(self, name: str, reading: ReadingSection) -> Attribute:
        """Rare texts are never discovered, so there is a level for them unless rows are dropped."""
        is_dropped = self.on_invalid == "drop"
        return Attribute(
            name,
            self.column or name,
            "drop" if is_dropped else "other",
            other=None if is_dropped else self.other or OTHER,
            nullable=self.nullable,
            missing=self._empties(reading),
            aliases=tuple(sorted(self.aliases.items())),
            undeclared=Undeclared(levels=self.at_most or AT_MOST),
        )


class Quantiles(fields.Section):
    """Bins that hold about as many rows each, found by a look that is paid for.

    quantiles   So many bins at most.
    """

    quantiles: fields.Count


def _pair_or_discover(value: object) -> object:
    require(value != [], _BOX, "[]")
    return [] if value == DISCOVER else value


def _count_or_quantiles(value: object) -> int | Quantiles:
    return Quantiles.model_validate(value) if isinstance(value, dict) else COUNT.read(value)


def _unit(text: str) -> float | None:
    value = fields.finite(text)
    return value if value is not None and _UNITS[0] <= value <= _UNITS[1] else None


COUNT = fields.whole(1)
_PAIR = {"type": "array", "items": fields.NUMBER, "minItems": 2, "maxItems": 2}
_BOUNDS = {"anyOf": [_PAIR, _DISCOVERED]}
_UNIT = fields.Scalar(_unit, f"a number from {_UNITS[0]:g} to {_UNITS[1]:g}", fields.NUMBER)


class Numeric(_Column, SignsSection):
    """A number between bounds.

    bounds      The lowest and the highest value that there can be, declared without looking.
    bins        So many cells of equal width, for tables; or {quantiles: 16}.
    edges       In place of bins: ascending cuts inside the bounds.
    unit        Bounds and edges that are discovered are whole multiples of it.
    integer     Synthetic numbers are whole.
    on_invalid  What becomes of a number outside of its bounds; drop leaves its row out.
    """

    model_config = ConfigDict(json_schema_extra={"not": {"required": ["bins", "edges"]}})

    bounds: Annotated[
        fields.Listed[fields.Number], BeforeValidator(_pair_or_discover), WithJsonSchema(_BOUNDS)
    ]
    bins: (
        Annotated[int | Quantiles, OneForm(fields.Count | Quantiles, _count_or_quantiles)] | None
    ) = None
    edges: fields.Listed[fields.Number] | None = None
    unit: Annotated[float, _UNIT] | None = None
    integer: fields.Switch = False
    on_invalid: Literal["clip", "drop"] | None = None

    @property
    def undeclared(self) -> Undeclared | None:
        """What is to be discovered."""
        quantiles = self.bins.quantiles if isinstance(self.bins, Quantiles) else None
        if self.bounds and quantiles is None:
            return None
        # Bins of equal width inside declared bounds are declared.
        bins = None if self.bounds or quantiles is not None else self._count
        return Undeclared(None, not self.bounds, quantiles, bins, self.unit or 1.0)

    @property
    def _count(self) -> int | None:
        return self.bins if isinstance(self.bins, int) else None

    @model_validator(mode="after")
    def _fits(self) -> Numeric:
        bounds, has_cells = self.bounds, self.bins is not None or self.edges is not None
        if self.undeclared is not None:
            self._fit_to_discover(self.undeclared)
        else:
            expected = "`bounds: discover` or `bins: {quantiles: 16}` beside it"
            require(self.unit is None, expected, "neither", "unit")
        self._require_nullable()
        expected = "bins or edges, for missing values to be one more cell"
        require(has_cells or not self.nullable, expected, "none", "nullable")
        require(self.bins is None or self.edges is None, "bins or edges", "both", "bins")
        if not bounds:
            return self
        is_box = len(bounds) == 2 and is_interval(*bounds)
        require(is_box, _BOX, str(list(bounds)), "bounds")
        self._cells()
        has_whole = math.ceil(bounds[0]) <= math.floor(bounds[1])
        is_whole = has_whole or not self.integer
        require(is_whole, "a whole number between the bounds", "none", "integer")
        return self

    def _fit_to_discover(self, undeclared: Undeclared) -> None:
        expected = "bounds that are declared, for cuts inside them"
        require(self.edges is None or self.bounds, expected, DISCOVER, "edges")
        most = (undeclared.quantiles or 2, MOST_QUANTILES)
        expected = f"2 to {MOST_QUANTILES} bins between quantiles"
        require(2 <= most[0] <= most[1], expected, str(most[0]), "bins", "quantiles")
        few = self._count is None or self._count <= MOST_CELLS
        require(few, f"at most {MOST_CELLS} bins", str(self._count), "bins")

    def _cells(self) -> Bins | None:
        if not self.bounds:
            return None
        lower, upper = self.bounds
        if self.edges is not None:
            edges = (lower, *self.edges, upper)
            is_ascending = all(low < high for low, high in pairwise(edges))
            expected = "ascending cuts strictly inside the bounds"
            require(is_ascending, expected, str(list(self.edges)), "edges")
            return Bins(edges)
        count = self._count
        if count is None:
            return None
        bins = Bins.equal_width(lower, upper, count) if count <= MOST_CELLS else None
        is_wide = bins is not None and len(set(bins.edges)) == count + 1
        require(is_wide, f"at most {MOST_CELLS} bins of positive width", str(count), "bins")
        return bins

    def attribute(self, name: str, default: str, reading: ReadingSection = AS_IT_IS) -> Attribute:
        """The attribute; ``default`` is the data set's rule for values that are not as declared,
        ``reading`` says how all columns are read.
        """
        return Attribute(
            name,
            self.column or name,
            self.on_invalid or ("drop" if default == "drop" else "clip"),
            coordinate=Coordinate(*self.bounds) if self.bounds else None,
            cells=self._cells(),
            nullable=self.nullable,
            whole=self.integer,
            missing=self._empties(reading),
            signs=self.signs(reading.signs(Signs())),
            undeclared=self.undeclared,
        )


class Moment(_Column):
    """A date, or a time, between bounds.

    type        date, or timestamp: a date with a time of day.
    bounds      The first and the last that there can be: 2026-10-05, or 2026-10-05T14:30.
    every       A cell for each year, month, week from Monday, day or hour, for tables.
    bins        In place of every: so many cells of equal width.
    edges       In place of both: ascending cuts inside the bounds, as texts like the bounds.
    format      How texts say it, where that is not ISO 8601: "%d.%m.%Y %H:%M".
    zone        Where clocks show the times that have no offset, and where days begin.
    on_invalid  What becomes of a date outside of its bounds; drop leaves its row out.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "not": {
                "anyOf": [
                    {"required": [one, other]}
                    for one, other in (("bins", "edges"), ("bins", "every"), ("edges", "every"))
                ]
            }
        }
    )

    type: Literal["date", "timestamp"]
    bounds: Annotated[fields.Listed[fields.Item], fields.pair(fields.TEXT)]
    every: Every | None = None
    bins: fields.Count | None = None
    edges: fields.Listed[fields.Item] | None = None
    format: fields.Text | None = None
    zone: Zone | None = None
    on_invalid: Literal["clip", "drop"] | None = None

    @model_validator(mode="after")
    def _fits(self) -> Moment:
        said = [name for name in ("every", "bins", "edges") if getattr(self, name) is not None]
        require(len(said) < 2, "one of every, bins and edges", " and ".join(said), *said[:1])
        is_there = self.type == "timestamp" or self.every != "hour"
        require(is_there, "year, month, week or day of a date", "hour", "every")
        require_format(self.format, self.type)
        self._require_nullable()
        expected = "every, bins or edges, for missing values to be one more cell"
        require(said or not self.nullable, expected, "none", "nullable")
        self._cells(self._clock("UTC"))
        return self

    def _clock(self, zone: str) -> Clock:
        return Clock(self.type, self.zone or zone, self.format or "")

    def _ends(self, clock: Clock) -> tuple[int, int]:
        expected = f"[first, last], both {_FORM[self.type]}, the first before the last"
        ends = [clock.first(self.bounds[0]), clock.last(self.bounds[-1])]
        if len(self.bounds) != 2 or ends[0] is None or ends[1] is None or ends[0] >= ends[1]:
            raise Refused(expected, str(list(self.bounds))[:62], field=("bounds",))
        return ends[0], ends[1]

    def _cells(self, clock: Clock) -> Spans | None:
        first, last = self._ends(clock)
        cells: Spans | None = None
        if self.edges is not None:
            cuts = [clock.first(text) for text in self.edges]
            known = [cut for cut in cuts if cut is not None]
            is_ascending = all(low < high for low, high in pairwise((first, *known, last + 1)))
            expected = f"ascending cuts inside the bounds, each {_FORM[self.type]}"
            is_good = is_ascending and len(known) == len(cuts)
            require(is_good, expected, str(list(self.edges))[:62], "edges")
            cells = Spans.cut(clock, first, last, known)
        elif self.bins is not None:
            most = min(MOST_CELLS, last - first + 1)
            require(self.bins <= most, f"at most {most} bins", str(self.bins), "bins")
            cells = Spans.equal(clock, first, last, self.bins)
        elif self.every is not None:
            cells = Spans.every_one(clock, first, last, self.every)
            expected = f"at most {MOST_CELLS} cells between the bounds"
            require(cells is not None, expected, f"one each {self.every}", "every")
        return cells

    def attribute(self, name: str, default: str, reading: ReadingSection = AS_IT_IS) -> Attribute:
        """The attribute; ``default`` is the data set's rule for values that are not as declared,
        ``reading`` says how all columns are read.
        """
        clock = self._clock(reading.zone)
        return Attribute(
            name,
            self.column or name,
            self.on_invalid or ("drop" if default == "drop" else "clip"),
            coordinate=Coordinate(*map(float, self._ends(clock))),
            cells=self._cells(clock),
            nullable=self.nullable,
            missing=self._empties(reading),
            clock=clock,
        )


_FORM = {"date": "as 2026-10-05", "timestamp": "as 2026-10-05 or 2026-10-05T14:30"}

_Any = Category | Numeric | Moment


def attribute_section(value: object) -> _Any:
    """A category, a number or a date, by what it says."""
    section = a_mapping(value)
    is_known = {"levels", "bounds", "type"} & set(section)
    require(is_known, "levels or bounds", "neither", "levels")
    if "type" in section:
        return Moment.model_validate(section)
    return (Category if "levels" in section else Numeric).model_validate(section)


AnyAttribute = Annotated[_Any, OneForm(_Any, attribute_section)]
