"""Section ``attributes`` of a data set file: a category with levels, or a number, a date or a time
between bounds.
"""

from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from dp_pipeline.spec import fields
from dp_pipeline.spec.clock import Clock, Every, Spans
from dp_pipeline.spec.domain import MISSING, Attribute
from dp_pipeline.spec.encoding import MOST_CELLS, Bins, Coordinate, Levels, is_interval
from dp_pipeline.spec.errors import Refused
from dp_pipeline.spec.fields import OneForm, a_mapping, not_among, require
from dp_pipeline.spec.reading import Signs
from dp_pipeline.spec.reading_parser import (
    AS_IT_IS,
    ReadingSection,
    SignsSection,
    Zone,
    require_format,
)
from dp_pipeline.spec.yaml_text import TODO


def _levels(value: object) -> object:
    """A list of texts, or ``0..15``: the whole numbers from the first to the last."""
    if not isinstance(value, str) or value == TODO:
        return value
    ends = re.fullmatch(r"(\d{1,18})\.\.(\d{1,18})", value)
    numbers = range(int(ends[1]), int(ends[2]) + 1) if ends else range(0)
    require(0 < len(numbers) <= MOST_CELLS, "a list, or first..last", repr(value[:60]))
    return list(map(str, numbers))


_RANGE = {"type": "string", "pattern": r"^\d+\.\.\d+$"}
_LEVELS = {"anyOf": [{"type": "array", "items": fields.TEXT, "minItems": 2}, _RANGE]}


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


class Category(_Column):
    """A category: one of so many texts.

    levels      Every text that there can be; 0..15 are the sixteen levels 0 to 15.
    other       The level that stands for any other text.
    on_invalid  What becomes of a text that is no level; drop leaves its row out.
    aliases     Other spellings of levels.
    """

    levels: Annotated[fields.Listed[fields.Item], BeforeValidator(_levels), WithJsonSchema(_LEVELS)]
    other: fields.Item | None = None
    on_invalid: Literal["other", "drop"] | None = None
    aliases: fields.Named[fields.Item] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _fits(self) -> Category:
        levels, count = self.levels, len(self.levels)
        is_several = 2 <= len(set(levels)) == count <= MOST_CELLS
        require(is_several, f"2 to {MOST_CELLS} different levels", str(count), "levels")
        if self.other is not None and self.other not in levels:
            raise not_among(self.other, levels, field=("other",))
        has_other = self.on_invalid != "other" or self.other is not None
        require(has_other, "a declared level `other` to send values to", "none", "on_invalid")
        self._require_nullable()
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

    def attribute(self, name: str, default: str, reading: ReadingSection = AS_IT_IS) -> Attribute:
        """The attribute; ``default`` is the data set's rule for values that are not as declared,
        ``reading`` says how all columns are read.
        """
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


class Numeric(_Column, SignsSection):
    """A number between bounds.

    bounds      The lowest and the highest value that there can be, declared without looking.
    bins        So many cells of equal width, for tables.
    edges       In place of bins: ascending cuts inside the bounds.
    integer     Synthetic numbers are whole.
    on_invalid  What becomes of a number outside of its bounds; drop leaves its row out.
    """

    model_config = ConfigDict(json_schema_extra={"not": {"required": ["bins", "edges"]}})

    bounds: Annotated[fields.Listed[fields.Number], fields.pair(fields.NUMBER)]
    bins: fields.Count | None = None
    edges: fields.Listed[fields.Number] | None = None
    integer: fields.Switch = False
    on_invalid: Literal["clip", "drop"] | None = None

    @model_validator(mode="after")
    def _fits(self) -> Numeric:
        bounds, has_cells = self.bounds, self.bins is not None or self.edges is not None
        expected = "lower < upper, both within ±1e15, wide enough for 2^17 steps"
        is_box = len(bounds) == 2 and is_interval(*bounds)
        require(is_box, expected, str(list(bounds)), "bounds")
        require(self.bins is None or self.edges is None, "bins or edges", "both", "bins")
        self._cells()
        self._require_nullable()
        expected = "bins or edges, for missing values to be one more cell"
        require(has_cells or not self.nullable, expected, "none", "nullable")
        has_whole = math.ceil(bounds[0]) <= math.floor(bounds[1])
        is_whole = has_whole or not self.integer
        require(is_whole, "a whole number between the bounds", "none", "integer")
        return self

    def _cells(self) -> Bins | None:
        lower, upper = self.bounds
        if self.edges is not None:
            edges = (lower, *self.edges, upper)
            is_ascending = all(low < high for low, high in pairwise(edges))
            expected = "ascending cuts strictly inside the bounds"
            require(is_ascending, expected, str(list(self.edges)), "edges")
            return Bins(edges)
        if self.bins is None:
            return None
        bins = Bins.equal_width(lower, upper, self.bins) if self.bins <= MOST_CELLS else None
        is_wide = bins is not None and len(set(bins.edges)) == self.bins + 1
        require(is_wide, f"at most {MOST_CELLS} bins of positive width", str(self.bins), "bins")
        return bins

    def attribute(self, name: str, default: str, reading: ReadingSection = AS_IT_IS) -> Attribute:
        """The attribute; ``default`` is the data set's rule for values that are not as declared,
        ``reading`` says how all columns are read.
        """
        return Attribute(
            name,
            self.column or name,
            self.on_invalid or ("drop" if default == "drop" else "clip"),
            coordinate=Coordinate(*self.bounds),
            cells=self._cells(),
            nullable=self.nullable,
            whole=self.integer,
            missing=self._empties(reading),
            signs=self.signs(reading.signs(Signs())),
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
