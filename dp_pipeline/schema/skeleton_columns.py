"""The attributes of a drafted data set file: open decisions, or proposals of public rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from dp_pipeline.schema.fields import TODO
from dp_pipeline.schema.found_column import FoundColumn
from dp_pipeline.schema.yaml_text import Value, field, flow, scalar

Attributes = Mapping[str, FoundColumn]
"""Attribute name → column."""

_NUMBER: Mapping[str, Value] = {"bounds": [TODO, TODO], "bins": "10"}
_CATEGORY: Mapping[str, Value] = {"levels": [TODO, TODO, "other"], "other": "other"}
_WHOLE: Mapping[str, Value] = {"integer": "true"}
_BOOLEAN: Mapping[str, Value] = {"levels": ["true", "false"]}

_LABELS = ("label", "class", "target", "diagnosis", "outcome", "income")
"""Names that usually mean the true class of a row."""


def may_be_axis(column: FoundColumn) -> bool:
    """Whether it is, or may become, a number that is never missing."""
    if column.proposal:
        return "bounds" in column.proposal and "nullable" not in column.proposal
    return column.kind in ("number", "unknown") and not column.remark


def may_have_cells(column: FoundColumn) -> bool:
    """Whether it has, or may get, levels or bins."""
    return bool(column.proposal) or (column.kind != "unusable" and not column.remark)


def open_columns(attributes: Attributes) -> str:
    """One block of lines a column, in which what the type does not say is open."""
    return _text(line for name, column in attributes.items() for line in _open(name, column))


def _open(name: str, column: FoundColumn) -> Iterator[str]:
    if column.kind == "unusable":
        yield f"  # {scalar(column.name)}: {column.type}, neither text nor number: left out"
        return
    yield f"  {name}:" + (f"  # {column.type}" if column.type else "")
    if column.name != name:
        yield f"    column: {scalar(column.name)}"
    yield from (f"    {line}" for line in _choices(column))


def _choices(column: FoundColumn) -> Iterator[str]:
    if column.kind == "unknown":
        yield from _fields({**_NUMBER, **_WHOLE}, sign="# ")
        yield from _fields(_CATEGORY, sign="# ")
    elif column.kind == "number":
        yield from _fields({**_NUMBER, **(_WHOLE if column.whole else {})})
    else:
        yield from _fields(_BOOLEAN if column.kind == "boolean" else _CATEGORY)


def _fields(fields: Mapping[str, Value], *, sign: str = "") -> Iterator[str]:
    return (f"{sign}{name}: {flow(value)}" for name, value in fields.items())


def proposed_columns(attributes: Attributes) -> str:
    """One field a column, or a comment that says why there is none."""
    return _text(line for name, column in attributes.items() for line in _proposed(name, column))


def _proposed(name: str, column: FoundColumn) -> list[str]:
    if not column.proposal:
        why = column.remark or f"{column.type}, neither text nor number"
        return [f"  # {scalar(column.name)}: {why}: left out"]
    renamed = {"column": column.name} if column.name != name else {}
    return field(name, {**renamed, **column.proposal}, indent=2)


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def proposed_label(attributes: Attributes) -> str | None:
    """An attribute with levels whose name says that it is the true class, or None."""
    return next(
        (name for name in _LABELS if name in attributes and "levels" in attributes[name].proposal),
        None,
    )
