"""Section ``parts`` of a data set file: the parts of each unit, such as persons of households."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from dp_pipeline.config import fields
from dp_pipeline.config.attribute_parser import Attributes
from dp_pipeline.config.constraints import Constraint
from dp_pipeline.config.domain import SIZE, Attribute, Domain, Parts
from dp_pipeline.config.encoding import Levels
from dp_pipeline.config.fields import below, not_among, require
from dp_pipeline.config.reading import Derived
from dp_pipeline.config.source import Source
from dp_pipeline.config.source_parser import AnySource, source_of

MAX_PARTS = 32
"""Parts of one unit that count, at most: a unit is stored as a row with a place for each."""


class PartsSection(fields.Section):
    """The declared parts of each unit, such as the persons of a household.

    at_most     The most parts of one unit that are used.
    order       The number or date of a part by which they are in order; without it they are a set.
    source      Where the parts are, if they are not rows of the data set's own source.
    key         The column of that source that names the unit of each part.
    attributes  The columns of a part; `attributes` of the data set are those of the unit.
    """

    at_most: Annotated[int, fields.integer(2, MAX_PARTS)]
    order: fields.Name | None = None
    source: AnySource | None = None
    key: fields.Text | None = None
    attributes: Attributes

    def declared(self, name: str) -> Parts:
        """Return the declared parts; ``name`` is their name in the file."""
        order, key = self.order or "", self.key or ""
        return Parts(name, tuple(self.attributes), self.at_most, order, key)


def parts_of(sections: Mapping[str, PartsSection]) -> tuple[str, PartsSection]:
    """Return (name, section) of the only parts; FieldError for none or several, and for only one
    of ``source`` and ``key``."""
    got = ", ".join(sections)
    require(len(sections) == 1, "one kind of parts", got or "none", "parts")
    ((name, section),) = sections.items()
    has_source, expected = section.source is not None, "the column of `source` that names the unit"
    require(section.key or not has_source, expected, "nothing", "parts", name, "key")
    expected = "no `key` without `source`: `protection` names that of one source"
    require(has_source or not section.key, expected, "one", "parts", name, "key")
    return name, section


def source_of_parts(
    units: Source, name: str, section: PartsSection, folder: Path, *, is_release: bool
) -> Source:
    """Return ``units`` with the source of its parts as ``parts``; unchanged if they have none.

    folder   folder of the data set file

    FieldError for a source that cannot be joined: a download, a sample, one read in place, or the
    source of the units itself.
    """
    if section.source is None:
        return units
    expected = "copy, as parts are joined to units"
    require(not units.in_place, expected, "in_place", "source", "snapshot")
    field = ("parts", name, "source")
    with below(*field):
        own = source_of(section.source, folder, is_release=is_release)
    is_sampled = getattr(section.source, "sample", None) is not None
    is_downloaded = own.is_remote or own.download is not None
    expected = "a source that is read here, in every row, as a copy"
    require(not is_downloaded, expected, "a download", *field)
    require(not is_sampled, expected, "a sample", *field)
    require(not own.in_place, expected, "rows in place", *field)
    expected = "another source than that of the units: without `source` both are rows of one"
    require(own != replace(units, sample=None), expected, "the same", *field)
    return replace(units, parts=own, needs=units.needs or own.needs)


def domain_of_parts(domain: Domain, parts: Parts, key: str) -> Domain:
    """Return the domain of rows that are parts: attributes of the unit, ``size``, those of a part.

    domain   all declared attributes
    key      column that names the unit

    FieldError unless all attributes have declared cells and names and columns of their own, none
    is the key, those that a row may lack can be missing, and ``order`` is a number or a date.
    """
    below_parts, names = ("parts", parts.name, "attributes"), domain.names
    twice = [name for name in parts.attributes if names.count(name) > 1]
    expected, got = "attributes either of the unit or of its parts", f"{', '.join(twice)} in both"
    require(not twice, expected, got, *below_parts)
    for attribute in domain:
        is_of_part = attribute.name in parts.attributes
        place = (*(below_parts if is_of_part else ("attributes",)), attribute.name)
        require(attribute.undeclared is None, "declared levels or bins", "discover", *place)
        require(attribute.has_cells, "levels, bins or edges", "bounds alone", *place)
        # A value that varies within a unit is missing: an error would be about rows.
        expected = "an attribute of the unit that may be missing, as where it varies within a unit"
        if is_of_part:
            expected = "an attribute that may be missing, as where a unit has no part"
        may_be_complete = is_of_part and not parts.key
        require(attribute.nullable or may_be_complete, expected, "one that may not", *place)
        is_apart = {key, parts.key}.isdisjoint(attribute.inputs)
        require(is_apart, "another column than the key", "the key", *place)
        expected = "another name, as the program counts the parts of a unit under this one"
        require(attribute.name != SIZE, expected, repr(SIZE), *place)
    of_unit = tuple(each for each in domain if each.name not in parts.attributes)
    of_parts = tuple(each for each in domain if each.name in parts.attributes)
    numbers = [each.name for each in of_parts if each.is_numeric]
    if parts.order and parts.order not in numbers:
        expected, place = "a number or a date of a part", ("parts", parts.name, "order")
        raise not_among(parts.order, numbers, expected=expected, field=place)
    if parts.key:
        _require_apart(of_unit, of_parts, below_parts)
    levels = Levels(tuple(map(str, range(parts.fewest, parts.at_most + 1))))
    size = Attribute(SIZE, SIZE, "drop", cells=levels, derived=Derived("size", (key,)))
    return Domain((*of_unit, size, *of_parts), empty_unit_constraints(parts, of_parts), parts)


def empty_unit_constraints(parts: Parts, attributes: Iterable[Attribute]) -> tuple[Constraint, ...]:
    """Return, for each attribute of a part, the constraint that a unit without parts lacks it.

    () if every unit has a part.
    """
    return tuple(
        Constraint(
            parts.absence_words(each.name),
            (SIZE, each.name),
            (((0,), tuple(range(each.missing_code))),),
            is_only=False,
        )
        for each in attributes
        if not parts.fewest
    )


def _require_apart(
    unit: Iterable[Attribute], of_parts: Iterable[Attribute], place: tuple[str, ...]
) -> None:
    """Raise FieldError if a column is read from both sources, which are joined to one table."""
    columns = {column for each in unit for column in each.inputs}
    for attribute in of_parts:
        both = sorted({*attribute.inputs} & {*columns})
        got = f"{', '.join(both)} of the units too"
        expected = "columns that no attribute of the unit has: rename them"
        require(not both, expected, got, *place, attribute.name)
