"""Section ``attributes`` of a data set file: categories with levels; numbers, dates and times
between bounds.

Levels or bounds that cannot be known without looking at rows are declared as ``discover``: a query
that is charged for finds them.
"""

import math
from collections import Counter
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from dp_pipeline.config import encoding, fields, reading_parser
from dp_pipeline.config.clock import Clock, ClockBins, Every
from dp_pipeline.config.domain import MISSING, OTHER, Attribute, OnInvalid, Undeclared
from dp_pipeline.config.encoding import MAX_CELLS, Bins, normal_text
from dp_pipeline.config.errors import FieldError
from dp_pipeline.config.fields import FormChoice, not_among, require, require_mapping
from dp_pipeline.config.level_texts import DISCOVER, DISCOVERED, EXPECTED, LEVELS, level_texts
from dp_pipeline.config.reading import Signs
from dp_pipeline.config.reading_parser import DEFAULT_READING, ReadingSection, require_time_format

DEFAULT_MAX_LEVELS = 1000
"""Most discovered levels of an attribute that declares no number."""

_EXPECTED_BOUNDS = "[lower, upper]"
_NO_SPACES = "a spelling without spaces around it"
_MAX_DECIMALS = 12


def _number_policy(policy: str, *, is_nullable: bool) -> OnInvalid:
    if policy == "keep" and is_nullable:
        return "keep"
    return "drop" if policy == "drop" else "clip"


class _ColumnSection(fields.Section):
    """The fields that attributes of all kinds have.

    column    The column of the source, where its name is another.
    nullable  Whether cells not as declared have a level, missing; absent: unless rows are dropped.
    missing   Texts that mean a missing value, in addition to an empty one.
    usable    The share of the rows that checks require to be as declared.
    """

    column: fields.Text | None = None
    nullable: fields.Switch | None = None
    missing: fields.ListOf[fields.Item] | None = None
    usable: fields.Share | None = None

    def with_default(self, nullable: bool | None) -> Self:
        """Return the section, with ``nullable`` as its value if it declares none.

        None changes nothing. A number without bins is never nullable by default.
        """
        if self.nullable is not None or nullable is None:
            return self
        return self.model_copy(update={"nullable": nullable and self._has_cells})

    @property
    def _has_cells(self) -> bool:
        return True

    @property
    def missing_texts(self) -> tuple[str, ...]:
        """The declared texts of missing values, sorted; () if the section declares none."""
        return tuple(sorted({normal_text(text) for text in self.missing or ()}))

    def _require_nullable(self, cells: str = "") -> None:
        is_nullable = self.missing is None or self.nullable is not False
        require(is_nullable, "no texts of missing values", "`nullable: false` as well", "missing")
        expected, got = f"{cells}, for missing values to be one more cell", "`nullable: true` alone"
        require(self._has_cells or not self.nullable, expected, got, "nullable")

    def _is_nullable(self, on_invalid: str) -> bool:
        # A part of the declaration: whether missing values have a level never depends on rows.
        return self._has_cells and on_invalid != "drop" if self.nullable is None else self.nullable

    def _attribute(
        self, name: str, on_invalid: OnInvalid, reading: ReadingSection, **values: Any
    ) -> Attribute:
        missing = reading.missing_texts if self.missing is None else self.missing_texts
        return Attribute(name, self.column or name, on_invalid, missing=missing, **values)


def _add_level(level: str) -> str:
    return f": add {level[:60]!r} to `levels`, in their file as a line of its own"


class Category(_ColumnSection):
    """A categorical attribute, whose values are texts from a list of levels.

    levels      All its texts; 0..15 are the sixteen levels 0 to 15.
    at_most     The most levels that may be discovered.
    other       The level that replaces any other text.
    on_invalid  A text that is no level is missing (keep), is `other`, or drops its row (drop).
    aliases     Other spellings of levels.
    """

    levels: Annotated[fields.ListOf[fields.Item], BeforeValidator(level_texts), LEVELS]
    at_most: Annotated[int, fields.integer(1, MAX_CELLS - 1)] | None = None
    other: fields.Item | None = None
    on_invalid: Literal["keep", "other", "drop"] | None = None
    aliases: fields.MappingOf[fields.Item] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _require_consistent(self) -> Self:
        self._require_nullable()
        if not self.levels:
            return self._require_discoverable()
        levels, count = self.levels, len(self.levels)
        at_most = self.at_most
        require(at_most is None, "no at_most for declared levels", str(at_most), "at_most")
        is_several = 2 <= len(set(levels)) == count <= MAX_CELLS
        twice = next((level for level, times in Counter(levels).items() if times > 1), None)
        got = str(count) if twice is None else f"{count} with {twice[:60]!r} twice"
        require(is_several, EXPECTED, got, "levels")
        if self.other is not None and self.other not in levels:
            error = not_among(self.other, levels, field=("other",))
            error.hint = error.hint or _add_level(self.other)
            raise error
        has_other, expected = self.other is not None, "a level `other` for unknown texts"
        hint = f": write `other: {OTHER}` as well, and{_add_level(OTHER).removeprefix(':')}"
        is_usable = self.on_invalid != "other" or has_other
        require(is_usable, expected, "no `other`", "on_invalid", hint=hint)
        expected = f"no level {MISSING!r}, which is the name of missing values here"
        require(not self.nullable or MISSING not in levels, expected, repr(MISSING), "levels")
        expected = "`on_invalid: other`, as a level `other` is declared"
        require(self.on_invalid != "keep" or not has_other, expected, "keep", "on_invalid")
        for text, level in self.aliases.items():
            if level not in levels:
                raise not_among(level, levels, field=("aliases", text))
            got = repr(text[:60])
            require(text not in levels, "a spelling that is no level", got, "aliases", text)
            require(text == text.strip(), _NO_SPACES, got, "aliases", text)
        shared = ", ".join(sorted({*levels, *self.aliases} & {*self.missing_texts}))
        require(not shared, "texts that are neither levels nor aliases", shared[:60], "missing")
        return self

    def _require_discoverable(self) -> Self:
        is_used = self.other is None or self.on_invalid != "drop"
        require(is_used, "no level `other` with `on_invalid: drop`", repr(self.other), "other")
        is_text = self.other not in {"", MISSING, *self.missing_texts}
        expected = f"a level other than {MISSING!r} and missing texts"
        require(is_text, expected, repr(self.other), "other")
        for text, level in self.aliases.items():
            got = repr(text[:60])
            require(text != level, "another spelling than the level's", got, "aliases", text)
            require(text == text.strip(), _NO_SPACES, got, "aliases", text)
        return self

    def attribute(
        self, name: str, default_on_invalid: str, default_reading: ReadingSection
    ) -> Attribute:
        """Return the attribute that this section declares; the defaults are the data set's."""
        aliases = tuple(sorted((normal_text(text), level) for text, level in self.aliases.items()))
        if not self.levels:
            # Rare texts are never discovered: they get the level ``other`` unless rows are dropped.
            other = None if self.on_invalid == "drop" else self.other or OTHER
            undeclared = Undeclared(levels=self.at_most or DEFAULT_MAX_LEVELS)
            return self._attribute(
                name,
                "drop" if other is None else "other",
                default_reading,
                other=other,
                aliases=aliases,
                nullable=self._is_nullable("drop" if other is None else default_on_invalid),
                undeclared=undeclared,
            )
        policy, other = self.on_invalid or default_on_invalid, self.other
        is_nullable = self._is_nullable(policy)
        if self.nullable is None and MISSING in self.levels:
            # The file's own level of missing values takes what is not as declared.
            is_nullable, other = False, other or (None if policy == "drop" else MISSING)
        attribute = self._attribute(
            name,
            _text_policy(policy, other, is_nullable=is_nullable),
            default_reading,
            other=other,
            aliases=aliases,
            nullable=is_nullable,
            cells=encoding.Levels(self.levels),
        )
        names = {*self.levels, *self.aliases}
        missing = tuple(text for text in attribute.missing if text not in names)
        return replace(attribute, missing=missing)


def _text_policy(policy: str, other: str | None, *, is_nullable: bool) -> OnInvalid:
    if policy == "drop":
        return "drop"
    if other is not None:
        return "other"
    return "keep" if is_nullable else "drop"


class Quantiles(fields.Section):
    """Bins with about equal numbers of rows, discovered by a query that costs ε.

    quantiles   The most bins.
    """

    quantiles: Annotated[int, fields.integer(2, 256)]


def _pair_or_discover(value: object) -> object:
    require(value != [], _EXPECTED_BOUNDS, "[]")
    return [] if value == DISCOVER else value


def _require_dates(value: object) -> object:
    expected = "[first, last] of dates: bounds of numbers alone can be discovered in a file"
    require(value != DISCOVER, expected, DISCOVER)
    return value


def _count_or_quantiles(value: object) -> int | Quantiles:
    if isinstance(value, dict):
        return Quantiles.model_validate(value)
    count: int = _COUNT.read(value)
    return count


def _unit(text: str) -> float | None:
    value = fields.finite(text)
    return value if value is not None and 1e-9 <= value <= 1e9 else None


_COUNT = fields.integer(1, MAX_CELLS)
_Count = Annotated[int, _COUNT]
_Cuts = Annotated[int | Quantiles, FormChoice(_Count | Quantiles, _count_or_quantiles)]
_PAIR = {"type": "array", "items": fields.NUMBER, "minItems": 2, "maxItems": 2}
_BOUNDS = WithJsonSchema({"anyOf": [_PAIR, DISCOVERED]})
_UNIT = fields.Scalar(_unit, "a number from 1e-09 to 1e+09", fields.NUMBER)


class Numeric(_ColumnSection, reading_parser.SignsSection):
    """A numeric attribute, whose values are numbers between bounds.

    bounds      The lowest and the highest value, declared without looking at rows.
    bins        The number of cells of equal width, for tables; or {quantiles: 16}.
    edges       In place of bins: ascending cuts inside the bounds.
    unit        Discovered bounds and edges are multiples of it.
    integer     Whether synthetic numbers are integers.
    decimals    The number of decimals of synthetic numbers.
    aliases     Texts that mean a number: {"90+": 90}.
    names       The name of the bin that a number is in: {90: 90 and over}.
    on_invalid  A number outside its bounds is missing (keep), clipped, or drops its row (drop).
    """

    model_config = ConfigDict(json_schema_extra={"not": {"required": ["bins", "edges"]}})

    bounds: Annotated[fields.ListOf[fields.Number], BeforeValidator(_pair_or_discover), _BOUNDS]
    bins: _Cuts | None = None
    edges: fields.ListOf[fields.Number] | None = None
    unit: Annotated[float, _UNIT] | None = None
    integer: fields.Switch = False
    decimals: Annotated[int, fields.integer(0, _MAX_DECIMALS)] | None = None
    aliases: fields.MappingOf[fields.Number] = Field(default_factory=dict)
    names: fields.MappingOf[fields.Item] = Field(default_factory=dict)
    on_invalid: Literal["keep", "clip", "drop"] | None = None

    @property
    def undeclared(self) -> Undeclared | None:
        """Which of bounds and bins are to be discovered; None if all are declared."""
        quantiles = self.bins.quantiles if isinstance(self.bins, Quantiles) else None
        if self.bounds and quantiles is None:
            return None
        # Bins of equal width inside declared bounds need no discovery.
        bins = None if self.bounds or quantiles is not None else self._count
        return Undeclared(None, not self.bounds, quantiles, bins, self.unit or 1.0)

    @property
    def _has_cells(self) -> bool:
        return self.bins is not None or self.edges is not None

    @property
    def _count(self) -> int | None:
        return self.bins if isinstance(self.bins, int) else None

    @model_validator(mode="after")
    def _require_consistent(self) -> Self:
        bounds = self.bounds
        if self.undeclared is not None:
            expected = "bounds that are declared, for cuts inside them"
            require(self.edges is None or self.bounds, expected, DISCOVER, "edges")
        else:
            expected = "`bounds: discover` or `bins: {quantiles: 16}` as well"
            require(self.unit is None, expected, "the unit alone", "unit")
        self._require_nullable("bins or edges")
        require(self.bins is None or self.edges is None, "bins or edges", "both", "bins")
        if bounds:
            got = str(list(bounds))
            require(len(bounds) == 2, _EXPECTED_BOUNDS, got, "bounds")
            require(bounds[0] < bounds[1], "lower < upper", got, "bounds")
            is_small = max(map(abs, bounds)) <= encoding.MAX_BOUND
            require(is_small, "bounds within ±1e15", got, "bounds")
            expected = "bounds that are wide enough for 2^17 steps between them"
            require(encoding.is_interval(*bounds), expected, got, "bounds")
            self._cells()
            has_integer = math.ceil(bounds[0]) <= math.floor(bounds[1])
            expected = "an integer between the bounds"
            require(has_integer or not self.integer, expected, str(list(bounds)), "integer")
            outside = [n for n in self.aliases.values() if not bounds[0] <= n <= bounds[1]]
            require(not outside, "numbers inside the bounds", f"{outside[:1]}", "aliases")
        self._names()
        return self

    def _names(self) -> tuple[tuple[int, str], ...]:
        """Return (code, name) of each named bin, by code.

        FieldError for a name without a bin, a second name of a bin, and a name that another bin or
        missing values have.
        """
        bins, names = self._cells(), dict[int, str]()
        for text, name in self.names.items():
            number = fields.finite(text)
            codes = [-1] if bins is None or number is None else bins.encode(np.array([number]))
            expected = "a number inside the bounds as the key of a name"
            if bins is None:
                expected = "declared bins or edges as well, for a name of one"
            require(codes[0] >= 0, expected, repr(text[:60]), "names", text)
            code, got = int(codes[0]), repr(name[:60])
            require(code not in names, "one name for each bin", f"another: {got}", "names", text)
            expected = f"a name of no other bin, and not {MISSING!r}"
            require(name not in (MISSING, *names.values()), expected, got, "names", text)
            names[code] = name
        return tuple(sorted(names.items()))

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
        bins = Bins.equal_width(lower, upper, count)
        is_wide = len(set(bins.edges)) == count + 1
        require(is_wide, "fewer bins, of positive width", str(count), "bins")
        return bins

    def attribute(
        self, name: str, default_on_invalid: str, default_reading: ReadingSection
    ) -> Attribute:
        """Return the attribute that this section declares; the defaults are the data set's."""
        policy = self.on_invalid or default_on_invalid
        is_nullable = self._is_nullable(policy)
        return self._attribute(
            name,
            # Bounds that are discovered cut off a tail: what lies beyond them is no mistake.
            _number_policy(policy, is_nullable=is_nullable and bool(self.bounds)),
            default_reading,
            coordinate=encoding.Coordinate(*self.bounds) if self.bounds else None,
            nullable=is_nullable,
            cells=self._cells(),
            is_integer=self.integer,
            decimals=self.decimals,
            aliases=tuple(sorted((normal_text(t), repr(n)) for t, n in self.aliases.items())),
            names=self._names(),
            signs=self.signs(default_reading.signs(Signs())),
            undeclared=self.undeclared,
        )


_MOMENT_CELLS = ("every", "bins", "edges")


class Moment(_ColumnSection):
    """An attribute whose values are dates or times between bounds.

    type        date, or timestamp: a date with a time of day.
    bounds      The first and the last date or time: 2026-10-05, or 2026-10-05T14:30.
    every       A cell for each year, month, week from Monday, day or hour, for tables.
    bins        In place of every: the number of cells of equal width.
    edges       In place of every and bins: ascending cuts, written like the bounds.
    format      The format of its texts, if it is not ISO 8601: "%d.%m.%Y %H:%M".
    zone        The time zone of times without an offset, and of the begin of days.
    on_invalid  A date outside its bounds is missing (keep), clipped, or drops its row (drop).
    """

    model_config = ConfigDict(
        json_schema_extra={
            "not": {"anyOf": [{"required": list(pair)} for pair in combinations(_MOMENT_CELLS, 2)]}
        }
    )

    type: Literal["date", "timestamp"]
    bounds: Annotated[fields.ListOf[fields.Item], BeforeValidator(_require_dates), fields.PAIR]
    every: Every | None = None
    bins: fields.Count | None = None
    edges: fields.ListOf[fields.Item] | None = None
    format: fields.Text | None = None
    zone: reading_parser.Zone | None = None
    on_invalid: Literal["keep", "clip", "drop"] | None = None

    @model_validator(mode="after")
    def _require_consistent(self) -> Self:
        names = [name for name in _MOMENT_CELLS if getattr(self, name) is not None]
        require(len(names) < 2, "one of every, bins and edges", " and ".join(names), *names[:1])
        has_hours = self.type == "timestamp" or self.every != "hour"
        require(has_hours, "year, month, week or day of a date", "hour", "every")
        require_time_format(self.format, self.type)
        self._require_nullable("every, bins or edges")
        self._cells(self._clock(DEFAULT_READING))
        return self

    @property
    def _has_cells(self) -> bool:
        return any(getattr(self, name) is not None for name in _MOMENT_CELLS)

    def _clock(self, reading: ReadingSection) -> Clock:
        format_ = reading.format_of(self.type, self.format)
        return Clock(self.type, self.zone or reading.zone, format_)

    def _ends(self, clock: Clock) -> tuple[int, int]:
        first, last = clock.lower_bound(self.bounds[0]), clock.upper_bound(self.bounds[-1])
        got, expected = str(list(self.bounds))[:62], f"[first, last], both {_FORM[self.type]}"
        if len(self.bounds) != 2 or first is None or last is None:
            raise FieldError(expected, got, field=("bounds",))
        require(first < last, "[first, last], the first before the last", got, "bounds")
        return first, last

    def _cells(self, clock: Clock) -> ClockBins | None:
        first, last = self._ends(clock)
        if self.edges is not None:
            cuts = [clock.lower_bound(text) for text in self.edges]
            valid_cuts = [cut for cut in cuts if cut is not None]
            is_ascending = all(low < high for low, high in pairwise((first, *valid_cuts, last + 1)))
            got, expected = str(list(self.edges))[:62], f"cuts, each {_FORM[self.type]}"
            require(len(valid_cuts) == len(cuts), expected, got, "edges")
            require(is_ascending, "ascending cuts inside the bounds", got, "edges")
            return ClockBins.starting_at(clock, first, last, valid_cuts)
        if self.bins is not None:
            most = min(MAX_CELLS, last - first + 1)
            require(self.bins <= most, f"at most {most} bins", str(self.bins), "bins")
            return ClockBins.equal(clock, first, last, self.bins)
        if self.every is None:
            return None
        cells = ClockBins.periods(clock, first, last, self.every)
        expected = f"at most {MAX_CELLS} cells between the bounds"
        require(cells is not None, expected, f"one each {self.every}", "every")
        return cells

    def attribute(
        self, name: str, default_on_invalid: str, default_reading: ReadingSection
    ) -> Attribute:
        """Return the attribute that this section declares; the defaults are the data set's."""
        clock, policy = self._clock(default_reading), self.on_invalid or default_on_invalid
        is_nullable = self._is_nullable(policy)
        return self._attribute(
            name,
            _number_policy(policy, is_nullable=is_nullable),
            default_reading,
            nullable=is_nullable,
            coordinate=encoding.Coordinate(*map(float, self._ends(clock))),
            cells=self._cells(clock),
            clock=clock,
        )


_FORM = {"date": "as 2026-10-05", "timestamp": "as 2026-10-05 or 2026-10-05T14:30"}

_AttributeSection = Category | Numeric | Moment


def attribute_section(value: object) -> _AttributeSection:
    """Return the parsed section of an attribute: of a category, a number or a date, by its fields.

    FieldError for a section of no kind, ValidationError for other mistakes.
    """
    section = require_mapping(value)
    is_known = {"levels", "bounds", "type"} & set(section)
    require(is_known, "levels or bounds", ", ".join(map(str, section)) or "neither", "levels")
    if "type" in section:
        return Moment.model_validate(section)
    return (Category if "levels" in section else Numeric).model_validate(section)


Attributes = Annotated[
    dict[
        fields.Name, Annotated[_AttributeSection, FormChoice(_AttributeSection, attribute_section)]
    ],
    Field(min_length=1, json_schema_extra={"additionalProperties": False}),
    BeforeValidator(require_mapping),
]
"""Name → section of an attribute."""
