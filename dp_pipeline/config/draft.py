"""The draft of a data set file, which a person finishes with an editor.

For sensitive rows it is a function of names and types alone, and every decision that they cannot
make is a ``TODO``, which the parser refuses. For public rows nothing is left open.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.formats import FORMAT
from dp_pipeline.config.yaml_text import TODO, Value, field_text, flow, flow_mapping, scalar

DRAFT = """\
#
# A draft of `dp-pipeline data init`: names and types of columns were read, and no row. Finish it
# without looking at one either: bounds and levels come from what everybody may know (units, forms,
# law), or they tell about the rows. Each TODO is a decision of yours, and nothing can be run before
# the last is made: `dp-pipeline data check` with this file names the next one.
"""

PROPOSED = """\
#
# A draft of `dp-pipeline data init --public`: levels and bounds were proposed by looking at all
# rows. That is right for rows that anyone may see, and for no others.
"""

POPULATION = """\
# The population of persons: one privacy account, for ever. Every other file about the same persons
# has to name the same population.
"""

PERSON = """\
# All rows with one value of this column are one person, of which at most so many count, drawn by
# chance. Noise grows with that number.
"""

UNIT = """\
# What is protected. one_row: nobody has more than one row. rows_of_person: all rows with one value
# of a column are one person, of which at most so many count: noise grows with that number. Where
# persons have several rows, one_row protects none of them.
protection:
  unit: TODO                    # one_row, or rows_of_person with the two lines below
  # column: PERSON_ID
  # at_most: 20
"""

CEILING = """\
# The most ε that these persons may ever cost, over all models, partitions and snapshots together.
# `per_month: 1` beside it would be a limit of each month. It is a limit for ever: rows that go on
# week by week want `windows: {column: TIME, every: week, first: 2026-W01}` (and `last: 2026-W20`
# where they end) and `ceiling: {each_window: 2}` before the first release: an account gets no
# windows later.
ceiling: {total: 4}
"""

ATTRIBUTES = """\
# What becomes of a row that is not as declared. clip: a number outside of its bounds becomes the
# nearer bound, so the row counts and the ends of the bounds look fuller than they are. drop: its
# row is left out, so the release is about fewer persons, and nothing says how many. In both, a text
# in place of a number drops the row; so does a text that is no level, unless `clip` stands here and
# the attribute has `other`. Below one attribute `on_invalid: clip | drop | other` is its own.
on_invalid: clip
# A column is a number or a category. Take the sign # from the lines that are to hold, put values in
# place of TODO, and delete the other lines; delete the columns that nobody needs: what is not
# declared is never read.
#   bounds: [0, 120]            a number: the lowest and the highest value that there can be
#   bins: 10                    in so many cells, for synthetic tables; without, for maps alone
#   edges: [18, 30, 65]         in place of bins: cuts between the bounds
#   integer: true               synthetic numbers are whole
#   levels: [red, blue, other]  a category: all texts that there can be; `0..15` for codes
#   other: other                the level that stands for any other text
#   levels: discover            unknown: texts of enough persons are discovered
#   bounds: discover            unknown; `bins: {quantiles: 16}` discovers bins, too
#   nullable: true              missing values have a cell; `missing: ["?", NA]` lists their texts
#   decimal: ","                numbers are texts such as 6,38; `thousands: "."` of 1.234,56
#   type: date                  a date, or `timestamp`; its bounds are [2026-01-01, 2026-12-31]
#   every: month                a cell for each year, month, week, day or hour of a date
#   format: "%d.%m.%Y"          how texts say a date that is not as 2026-10-05T14:30
# For all columns: `reading: {decimal: ",", missing: [N/A], zone: Europe/Zurich}` goes above
# `attributes`.
# `derive: {start_hour: {hour: START}}` makes one more column, of each row's own cells.
# `constraints: {never: [{age: "[0, 16)", state: married}]}` excludes rows that do not exist.
# An attribute with `discover` needs `discover: {epsilon: 0.1, delta: 0.000000001}`: the cost of its
# discovery, once a snapshot, beside all releases; levels need the delta.
attributes:
"""

PARTITIONS = """\
# The ε that may be requested. Each is a partition in Dagster.
partitions: [0.5, 1]
"""

MAP = """\
  # A map: k centres of the numbers; `columns: a b` chooses some of them.
"""

MAYBE_MAP = """\
  # Delete it where fewer than two attributes have bounds.
"""

TABLE = """\
  # A synthetic table of levels, bins and edges; `attributes: a b` chooses some of the attributes.
"""

MAYBE_TABLE = """\
  # Delete it, and its name in `publish`, where no attribute has any.
"""

PUBLISH = """\
# What the weekly schedule publishes, once somebody turns it on.
"""

AFTER_MODELS = """\
# ε for private numbers of quality with each release, on top of its ε. Delete it for none.
evaluation: {epsilon: 0.05}
# A number of rows to plan with, known to everybody; it need not be true. Never count for it.
# nominal_rows: 50000
# owners: [you@example.org, team:privacy]
"""

LABEL = """\
# label: NAME                   # an attribute with levels: the true classes of the rows
"""


ColumnKind = Literal["number", "text", "boolean", "date", "timestamp", "unknown", "unusable"]

_LONGEST = 64


@dataclass(frozen=True)
class SourceColumn:
    """A column of a source that no data set file declares yet.

    kind        of the declared type: ``unknown`` where there is none, as in CSV, and ``unusable``
                where it is neither text nor number
    type        the source's own word for the type; empty where there is none
    is_integer  whether the type holds integers alone
    proposal    fields of an attribute, proposed from public rows; empty without a proposal
    remark      why a column of public rows was left out
    """

    name: str
    kind: ColumnKind
    type: str = ""
    is_integer: bool = False
    proposal: Mapping[str, Value] = field(default_factory=dict)
    remark: str = ""


def attribute_names(columns: Sequence[SourceColumn]) -> dict[str, SourceColumn]:
    """Return attribute name → column, in order; names have a-z, 0-9 and _.

    >>> list(attribute_names([SourceColumn("Trip (km)", "number"), SourceColumn("2nd", "text")]))
    ['trip_km', 'c_2nd']
    """
    columns_by_name: dict[str, SourceColumn] = {}
    for column in columns:
        base, place = _plain(column.name), 1
        name = base
        while name in columns_by_name:
            place += 1
            name = f"{base[: _LONGEST - 6]}_{place}"
        columns_by_name[name] = column
    return columns_by_name


def _plain(text: str) -> str:
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    name = re.sub(r"[^a-z0-9]+", "_", ascii_text.lower()).strip("_")
    if not name or not name[0].isalpha():
        name = f"c_{name}".rstrip("_")
    return name[:_LONGEST]


Attributes = Mapping[str, SourceColumn]
"""Attribute name → column."""

_NUMBER: Mapping[str, Value] = {"bounds": [TODO, TODO], "bins": "10"}
_CATEGORY: Mapping[str, Value] = {"levels": [TODO, TODO, "other"], "other": "other"}
_WHOLE: Mapping[str, Value] = {"integer": "true"}
_DATE: Mapping[str, Value] = {"type": "date", "bounds": [TODO, TODO], "every": "month"}
_TIMESTAMP: Mapping[str, Value] = {"type": "timestamp", "bounds": [TODO, TODO], "every": "day"}
_BOOLEAN: Mapping[str, Value] = {"levels": ["true", "false"]}

_LABELS = ("label", "class", "target", "diagnosis", "outcome", "income")
"""Names of the true class of a row."""


def may_be_axis(column: SourceColumn) -> bool:
    """Return whether a column is, or may become, a number that is never missing."""
    if column.proposal:
        return "bounds" in column.proposal and {"nullable", "type"}.isdisjoint(column.proposal)
    return column.kind in ("number", "unknown") and not column.remark


def may_have_cells(column: SourceColumn) -> bool:
    """Return whether a column has, or may get, levels or bins."""
    return bool(column.proposal) or (column.kind != "unusable" and not column.remark)


def open_columns(attributes: Attributes) -> str:
    """Return a block of lines for each column, with its open decisions."""
    return _text(line for name, column in attributes.items() for line in _open(name, column))


def _open(name: str, column: SourceColumn) -> Iterator[str]:
    if column.kind == "unusable":
        yield f"  # {scalar(column.name)}: {column.type}, neither text nor number: left out"
        return
    yield f"  {name}:" + (f"  # {column.type}" if column.type else "")
    if column.name != name:
        yield f"    column: {scalar(column.name)}"
    yield from (f"    {line}" for line in _choices(column))


def _choices(column: SourceColumn) -> Iterator[str]:
    if column.kind == "unknown":
        if _words(column.name) & _TIME_WORDS:
            yield "# From its name it may be a time, or `date`:"
            yield from _fields(_TIMESTAMP, sign="# ")
        yield from _fields({**_NUMBER, **_WHOLE}, sign="# ")
        if _words(column.name) & _MONEY_WORDS:
            yield from _fields({"decimal": ","}, sign="# ")
        yield from _fields(_CATEGORY, sign="# ")
    elif column.kind == "number":
        yield from _fields({**_NUMBER, **(_WHOLE if column.is_integer else {})})
    else:
        fields_of_kind = {"boolean": _BOOLEAN, "date": _DATE, "timestamp": _TIMESTAMP}
        yield from _fields(fields_of_kind.get(column.kind, _CATEGORY))


_TIME_WORDS = {"date", "datum", "time", "timestamp", "datetime", "day", "birthday", "birthdate"}
_TIME_WORDS |= {"born", "dob", "created", "updated", "zeit"}
_MONEY_WORDS = {"fare", "price", "amount", "cost", "fee", "salary", "income", "revenue", "tip"}
_MONEY_WORDS |= {"preis", "betrag", "chf", "eur", "usd"}
"""Words of names of times, and of money, which is often written with a comma."""


def _words(name: str) -> frozenset[str]:
    return frozenset(re.split(r"[\W_]+", name.lower()))


def _fields(fields: Mapping[str, Value], *, sign: str = "") -> Iterator[str]:
    return (f"{sign}{name}: {flow(value)}" for name, value in fields.items())


def proposed_columns(attributes: Attributes) -> str:
    """Return a field for each column, or a comment why there is none."""
    return _text(line for name, column in attributes.items() for line in _proposed(name, column))


def _proposed(name: str, column: SourceColumn) -> list[str]:
    if not column.proposal:
        why = column.remark or f"{column.type}, neither text nor number"
        return [f"  # {scalar(column.name)}: {why}: left out"]
    renamed = {"column": column.name} if column.name != name else {}
    return field_text(name, {**renamed, **column.proposal}, indent=2)


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def proposed_label(attributes: Attributes) -> str | None:
    """Return an attribute with levels that is the true class by its name, or None."""
    return next(
        (name for name in _LABELS if name in attributes and "levels" in attributes[name].proposal),
        None,
    )


_PLACES = (("lat", "lon"), ("lat", "lng"), ("latitude", "longitude"), ("x", "y"))
"""Names of the coordinates of a place."""


def models(attributes: Attributes, *, is_open: bool) -> str:
    """Return the lines of ``models`` and ``publish``.

    is_open   whether kinds of columns are still to be decided: then a model may not fit later
    """
    axes = [name for name, column in attributes.items() if may_be_axis(column)]
    lines, published = "models:\n", "htree_kmeans"
    if len(axes) > 1:
        place = next((pair for pair in _PLACES if set(pair) <= set(axes)), None)
        columns = f", columns: {' '.join(place)}" if place else ""
        lines += f"{MAP}{MAYBE_MAP if is_open else ''}  htree_kmeans: {{k: 8{columns}}}\n"
    if any(may_have_cells(column) for column in attributes.values()):
        lines += f"{TABLE}{MAYBE_TABLE if is_open else ''}  one_shot:\n"
        published = "one_shot"
    return f"{lines}{PUBLISH}publish: {{model: {published}, epsilon: 0.5}}\n"


SCHEMA_FILE = "dataset.schema.json"


@dataclass(frozen=True)
class Outline:
    """The parts of a draft.

    name     of the data set
    origin   the name of the source for people, such as that of a file
    source   the fields of the section ``source``
    columns  attribute name → column, without the person's
    person   the column that names the person, or None
    """

    name: str
    origin: str
    source: Mapping[str, Value]
    columns: Attributes
    person: str | None = None

    def __post_init__(self) -> None:
        if not any(map(may_have_cells, self.columns.values())):
            raise DeclarationError(
                f"{self.origin}: expected a column to declare beside the person's, got none"
            )


def sensitive_draft(outline: Outline) -> str:
    """Return the draft of a release with open decisions, made of names and types alone."""
    return (
        _head(outline, DRAFT, f"The rows of {outline.origin}: sensitive.")
        + "purpose: release\n"
        + _protection(outline.person, at_most=TODO, without_person=UNIT)
        + CEILING
        + f"source: {flow_mapping(outline.source)}\n"
        + ATTRIBUTES
        + open_columns(outline.columns)
        + PARTITIONS
        + models(outline.columns, is_open=True)
        + AFTER_MODELS
    )


def public_draft(outline: Outline, *, rows: int) -> str:
    """Return the draft of a benchmark without open decisions, from ``rows`` public rows."""
    label = proposed_label(outline.columns)
    return (
        _head(outline, PROPOSED, f"The {rows:,} rows of {outline.origin}: public.")
        + "purpose: benchmark\n"
        + _protection(outline.person, at_most="20", without_person="protection: {unit: one_row}\n")
        + f"source: {flow_mapping(outline.source)}\n"
        + "attributes:\n"
        + proposed_columns(outline.columns)
        + (f"label: {label}\n" if label else LABEL)
        + f"nominal_rows: {max(rows, 1)}\n"
        + "partitions: [0.1, 0.5, 1]\n"
        + models(outline.columns, is_open=False)
    )


def _head(outline: Outline, draft: str, description: str) -> str:
    title = outline.name.replace("_", " ").capitalize()
    return (
        f"# yaml-language-server: $schema={SCHEMA_FILE}\n{draft}"
        f"format: {FORMAT}\nname: {outline.name}\n"
        f"title: {scalar(title)}\ndescription: {scalar(description)}\n"
        f"{POPULATION}population: {outline.name}\n"
    )


def _protection(person: str | None, *, at_most: str, without_person: str) -> str:
    if person is None:
        return without_person
    fields = {"unit": "rows_of_person", "column": person, "at_most": at_most}
    return f"{PERSON}protection: {flow_mapping(fields)}\n"
