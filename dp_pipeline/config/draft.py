"""Drafts of data set files, which a person completes in an editor.

A draft for sensitive rows depends on names and types of columns alone; every other decision is a
``TODO``, which the parser refuses. A draft for public rows is complete.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.formats import FORMAT
from dp_pipeline.config.yaml_text import TODO, Value, field_text, flow, flow_mapping, scalar

ColumnKind = Literal["number", "text", "boolean", "date", "timestamp", "unknown", "unusable"]

_LONGEST = 64


@dataclass(frozen=True)
class SourceColumn:
    """The facts about a source column from which a draft of a data set file is made.

    kind        kind of its type: ``number``, ``text``, ``boolean``, ``date``, ``timestamp``;
                ``unknown`` where the source has no types, as CSV; ``unusable`` for any other
    type        the source's own word for the type, or empty
    is_integer  whether the type holds integers alone
    proposal    fields of an attribute, proposed from public rows, or empty
    remark      reason why a column of public rows is left out, or empty
    """

    name: str
    kind: ColumnKind
    type: str = ""
    is_integer: bool = False
    proposal: Mapping[str, Value] = field(default_factory=dict)
    remark: str = ""


def attribute_names(columns: Sequence[SourceColumn]) -> dict[str, SourceColumn]:
    """Return the columns in their order, each under a valid attribute name of a-z, 0-9 and _.

    >>> list(attribute_names([SourceColumn("Trip (km)", "number"), SourceColumn("2nd", "text")]))
    ['trip_km', 'c_2nd']
    """
    columns_by_name: dict[str, SourceColumn] = {}
    for column in columns:
        ascii_text = unicodedata.normalize("NFKD", column.name).encode("ascii", "ignore").decode()
        base = re.sub(r"[^a-z0-9]+", "_", ascii_text.lower()).strip("_")
        if not base or not base[0].isalpha():
            base = f"c_{base}".rstrip("_")
        base = base[:_LONGEST]
        name, place = base, 1
        while name in columns_by_name:
            place += 1
            name = f"{base[: _LONGEST - 6]}_{place}"
        columns_by_name[name] = column
    return columns_by_name


Attributes = Mapping[str, SourceColumn]
"""Attribute name → column."""

_NUMBER: Mapping[str, Value] = {"bounds": [TODO, TODO], "bins": "10"}
_CATEGORY: Mapping[str, Value] = {"levels": [TODO, TODO, "other"], "other": "other"}
_WHOLE: Mapping[str, Value] = {"integer": "true"}
_DATE: Mapping[str, Value] = {"type": "date", "bounds": [TODO, TODO], "every": "month"}
_TIMESTAMP: Mapping[str, Value] = {"type": "timestamp", "bounds": [TODO, TODO], "every": "day"}
_COMPLETE: Mapping[str, Value] = {"nullable": "false"}
"""A place has all of its coordinates."""
_BOOLEAN: Mapping[str, Value] = {"levels": ["true", "false"]}

_LABELS = ("label", "class", "target", "diagnosis", "outcome", "income")
"""Column names that suggest the true class of a row, in order of preference."""


def may_be_axis(column: SourceColumn) -> bool:
    """Return whether a column is, or could be declared as, a number that is never missing."""
    if column.proposal:
        return "bounds" in column.proposal and {"nullable", "type"}.isdisjoint(column.proposal)
    return column.kind in ("number", "unknown") and not column.remark


def may_have_cells(column: SourceColumn) -> bool:
    """Return whether a column has, or could be declared with, levels or bins."""
    return bool(column.proposal) or (column.kind != "unusable" and not column.remark)


def _open(name: str, column: SourceColumn, *, is_axis: bool) -> Iterator[str]:
    if column.kind == "unusable":
        yield f"  # {scalar(column.name)}: {column.type}, neither text nor number: left out"
        return
    yield f"  {name}:" + (f"  # {column.type}" if column.type else "")
    if column.name != name:
        yield f"    column: {scalar(column.name)}"
    yield from (f"    {line}" for line in _choices(column))
    if is_axis:
        sign = "# " if column.kind == "unknown" else ""
        yield from (f"    {line}" for line in _fields(_COMPLETE, sign=sign))


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
"""Words in names of columns that suggest times, and money, often written with a decimal comma."""


def _words(name: str) -> frozenset[str]:
    return frozenset(re.split(r"[\W_]+", name.lower()))


def _fields(fields: Mapping[str, Value], *, sign: str = "") -> Iterator[str]:
    return (f"{sign}{name}: {flow(value)}" for name, value in fields.items())


def _proposed(name: str, column: SourceColumn, *, is_axis: bool) -> list[str]:
    if not column.proposal:
        why = column.remark or f"{column.type}, neither text nor number"
        return [f"  # {scalar(column.name)}: {why}: left out"]
    renamed = {"column": column.name} if column.name != name else {}
    complete = _COMPLETE if is_axis else {}
    return field_text(name, {**renamed, **column.proposal, **complete}, indent=2)


_PLACES = (("lat", "lon"), ("lat", "lng"), ("latitude", "longitude"), ("x", "y"))
"""Pairs of names that suggest the coordinates of a place."""

SCHEMA_FILE = "dataset.schema.json"


@dataclass(frozen=True)
class Outline:
    """The contents from which a draft of a data set file is written.

    name     name of the data set
    origin   name of the source for people, such as that of a file
    source   fields of the section ``source``
    columns  attribute name → column, without the person's
    person   column that names the person, or None
    """

    name: str
    origin: str
    source: Mapping[str, Value]
    columns: Attributes
    person: str | None = None

    def __post_init__(self) -> None:
        if not any(map(may_have_cells, self.columns.values())):
            other = ", other than the person's" if self.person is not None else ""
            raise DeclarationError(
                f"{self.origin} has no column that can be declared{other}: name a source with more "
                "columns"
            )

    @property
    def place(self) -> tuple[str, ...]:
        """The names of the two coordinates of a place, latitude or x first; () without a place."""
        axes = {name for name, column in self.columns.items() if may_be_axis(column)}
        return next((pair for pair in _PLACES if axes.issuperset(pair)), ())


def sensitive_draft(outline: Outline) -> str:
    """Return a draft for sensitive rows from names and types alone, with decisions left open."""
    return _draft(outline, f"The rows of {outline.origin}: sensitive.", is_public=False)


def public_draft(outline: Outline, *, rows: int) -> str:
    """Return the complete data set file for a benchmark of ``rows`` public rows."""
    names = [name for name, column in outline.columns.items() if "levels" in column.proposal]
    label = next((name for name in _LABELS if name in names), None)
    description = f"The {rows:,} rows of {outline.origin}: public."
    return _draft(outline, description, is_public=True, label=label, rows=max(rows, 1))


def _draft(outline: Outline, description: str, *, is_public: bool, **facts: Any) -> str:
    from jinja2 import Template

    columns, place = outline.columns.items(), outline.place
    lines_of = _proposed if is_public else _open
    lines = [line for name, each in columns for line in lines_of(name, each, is_axis=name in place)]
    person = {"unit": "rows_of_person", "column": outline.person or ""}
    person["at_most"] = "20" if is_public else TODO
    template = Path(__file__).with_name("draft.yaml.j2").read_text(encoding="utf-8")
    text: str = Template(template, keep_trailing_newline=True).render(
        facts,
        is_public=is_public,
        schema_file=SCHEMA_FILE,
        format=FORMAT,
        name=outline.name,
        title=scalar(outline.name.replace("_", " ").capitalize()),
        description=scalar(description),
        protection=flow_mapping(person) if outline.person is not None else "",
        source=flow_mapping(outline.source),
        attributes=lines,
        place=" ".join(place),
        has_table=any(map(may_have_cells, outline.columns.values())),
    )
    return text
