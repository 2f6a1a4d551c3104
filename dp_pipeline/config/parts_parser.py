"""Section ``parts`` of a data set file: the parts of each unit, such as persons of households."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from dp_pipeline.config import fields
from dp_pipeline.config.attribute_parser import AnyAttribute
from dp_pipeline.config.domain import SIZE, Attribute, Domain, Parts
from dp_pipeline.config.encoding import Levels
from dp_pipeline.config.fields import not_among, require, require_mapping
from dp_pipeline.config.reading import Derived

MAX_PARTS = 32
"""Parts of one unit that count, at most: a unit is stored as a row with a place for each."""


class PartsSection(fields.Section):
    """The parts of each unit.

    at_most     The most parts of one unit that are used.
    order       The number or date of a part by which they are in order; without it they are a set.
    attributes  The columns of a part; `attributes` of the data set are those of the unit.
    """

    at_most: fields.Count
    order: fields.Name | None = None
    attributes: Annotated[
        dict[fields.Name, AnyAttribute],
        BeforeValidator(require_mapping),
        Field(json_schema_extra={"minProperties": 1, "additionalProperties": False}),
    ]


_NOT_WITH_PARTS = (
    "windows",
    "k_anonymity",
    "discover",
    "evaluation",
    "point",
    "targets",
    "one_hot",
)
"""Sections about rows, which would have another meaning for parts."""


def require_no_other_rows(sections: Mapping[str, object]) -> None:
    """Raise FieldError for a section of the file that does not go with parts."""
    for name in _NOT_WITH_PARTS:
        require(not sections[name], f"no `{name}` with `parts`", "one", name)


def parts_of(
    sections: Mapping[str, PartsSection], of_unit: Collection[str]
) -> tuple[str, PartsSection]:
    """Return the one section and the name of the parts; FieldError for others.

    of_unit   names of the attributes of the unit
    """
    got = ", ".join(sections)
    require(len(sections) == 1, "one kind of parts", got or "none", "parts")
    ((name, section),) = sections.items()
    require(section.attributes, "at least one attribute", "none", "parts", name, "attributes")
    expected, most = f"2 to {MAX_PARTS} parts of a unit", section.at_most
    require(2 <= most <= MAX_PARTS, expected, str(most), "parts", name, "at_most")
    twice = sorted({*of_unit} & {*section.attributes})
    expected, got = "attributes either of the unit or of its parts", f"{', '.join(twice)} in both"
    require(not twice, expected, got, "parts", name, "attributes")
    return name, section


def domain_of_parts(
    domain: Domain, own: Mapping[str, Any], name: str, section: PartsSection, key: str
) -> Domain:
    """Return the domain of parts, with the attributes of their unit and its size.

    domain   all declared attributes
    own      those of the unit, by name
    key      column that names the unit

    FieldError for attributes without cells, and for ones of the unit that can never be missing.
    """
    for attribute in domain:
        field = ("attributes",) if attribute.name in own else ("parts", name, "attributes")
        place = (*field, attribute.name)
        require(attribute.undeclared is None, "declared levels or bins", "discover", *place)
        require(attribute.has_cells, "levels, bins or edges", "bounds alone", *place)
        # A value that varies within a unit is missing: an error would be about rows.
        is_varied = attribute.name in section.attributes or attribute.nullable
        expected = "an attribute of the unit that may be missing, as where it varies within a unit"
        require(is_varied, expected, "one that may not", *place)
    require(SIZE not in domain.names, f"no attribute {SIZE!r}, which is counted", "one", "parts")
    levels = Levels(tuple(str(size + 1) for size in range(section.at_most)))
    size = Attribute(SIZE, SIZE, "drop", cells=levels, derived=Derived("size", (key,)))
    numbers = [each.name for each in domain if each.is_numeric and each.name not in own]
    if section.order is not None and section.order not in numbers:
        expected = "a number or a date of a part"
        raise not_among(section.order, numbers, expected=expected, field=("parts", name, "order"))
    unit = [each for each in domain if each.name in own]
    of_parts = [each for each in domain if each.name not in own]
    parts = Parts(name, tuple(section.attributes), section.at_most, section.order or "")
    return Domain((*unit, size, *of_parts), domain.constraints, parts)
