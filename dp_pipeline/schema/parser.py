"""The one parser of data set files: YAML in; DatasetSpec or one line about the mistake out."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from dp_pipeline.schema.attribute_parser import parse_attribute
from dp_pipeline.schema.calendar_parser import (
    parse_ceiling,
    parse_owners,
    parse_refresh,
    parse_updates,
)
from dp_pipeline.schema.currency import parse_delta
from dp_pipeline.schema.domain import Domain
from dp_pipeline.schema.encoding import Levels
from dp_pipeline.schema.epsilon import epsilon_text
from dp_pipeline.schema.errors import DeclarationError
from dp_pipeline.schema.expectation_parser import parse_expectations
from dp_pipeline.schema.fields import Fields, read_fields
from dp_pipeline.schema.formats import DATASET_FILE
from dp_pipeline.schema.k_anonymity_parser import parse_k_anonymity
from dp_pipeline.schema.name import EXPECTED_NAME, did_you_mean, is_name
from dp_pipeline.schema.point import Point
from dp_pipeline.schema.protection import OneRow, Protection, RowsOfPerson
from dp_pipeline.schema.source_parser import parse_source
from dp_pipeline.schema.spec import DatasetSpec, Publication
from dp_pipeline.schema.target_parser import parse_targets
from dp_pipeline.schema.together import check_together


def load_spec(path: Path) -> DatasetSpec:
    """Read one data set file.

    Raises DeclarationError naming file, line, field, what was expected and what was got.
    """
    fields = read_fields(path)
    _require_format(fields)
    name = _name(fields, "name")
    if name != path.stem:
        fields.refuse("name", f"the file's own name {path.stem!r}", repr(name))
    purpose = fields.text("purpose", choices=("benchmark", "release"))
    protection, domain = _protection(fields), _domain(fields)
    label = _label(fields, domain)
    ceiling, per_month = parse_ceiling(fields)
    spec = DatasetSpec(
        name=name,
        title=fields.text("title", name),
        description=fields.text("description"),
        lineage=_name(fields, "lineage"),
        purpose=purpose,  # type: ignore[arg-type]
        protection=protection,
        relation=fields.text("relation", "add_remove", choices=("add_remove", "replace_one")),  # type: ignore[arg-type]
        ceiling=ceiling,
        source=parse_source(
            fields.section("source"), path.parent, domain, is_release=purpose == "release"
        ),
        domain=domain,
        one_hot=fields.boolean("one_hot"),
        nominal_rows=fields.integer("nominal_rows", at_least=1)
        if "nominal_rows" in fields
        else None,
        partitions=_partitions(fields),
        models=_models(fields),
        publish=_publish(fields),
        evaluation=_evaluation(fields),
        distinct_population=fields.text("distinct_population", "") or None,
        label=label,
        delta=_delta(fields),
        targets=parse_targets(fields.section("targets"), domain) if "targets" in fields else (),
        k_anonymity=parse_k_anonymity(
            fields, domain, protection, label=label, is_release=purpose == "release"
        )
        if "k_anonymity" in fields
        else None,
        allow_not_dp=fields.boolean("allow_not_dp"),
        per_month=per_month,
        refresh=parse_refresh(fields),
        updates_public=parse_updates(fields),
        owners=parse_owners(fields),
        usable=fields.share("usable"),
        expectations=parse_expectations(
            fields, domain, protection.column, is_release=purpose == "release"
        ),
        point=_point(fields, domain),
    )
    fields.finish()
    check_together(spec, fields)
    return spec


def _require_format(fields: Fields) -> None:
    """First of all: the fields of another format may mean something else."""
    text = fields.text("format", str(DATASET_FILE))
    if text != str(DATASET_FILE):
        is_newer = text.isdecimal() and int(text) > DATASET_FILE
        remedy = ": made for a newer dp_pipeline, so upgrade this one" if is_newer else ""
        fields.refuse("format", str(DATASET_FILE), f"{text[:9]!r}{remedy}")


def _name(fields: Fields, field: str) -> str:
    name = fields.text(field)
    if not is_name(name):
        fields.refuse(field, EXPECTED_NAME, repr(name[:60]))
    return name


def _protection(fields: Fields) -> Protection:
    section = fields.section("protection")
    unit = section.text("unit", choices=("one_row", "rows_of_person"))
    protection: Protection = OneRow()
    if unit == "rows_of_person":
        protection = RowsOfPerson(section.text("column"), section.integer("at_most", at_least=1))
    section.finish()
    return protection


def _domain(fields: Fields) -> Domain:
    section = fields.section("attributes")
    default = fields.text("on_invalid", "clip", choices=("clip", "drop"))
    usable = fields.share("usable")
    attributes = tuple(
        parse_attribute(name, section.section(name), default, usable=usable) for name in section
    )
    if not attributes:
        fields.refuse("attributes", "at least one attribute", "none")
    for attribute in attributes:
        if not is_name(attribute.name):
            expected = f"a name of {EXPECTED_NAME}"
            section.refuse(attribute.name, expected, repr(attribute.name[:60]))
    return Domain(attributes)


def _partitions(fields: Fields) -> tuple[Fraction, ...]:
    partitions = fields.epsilons("partitions")
    if not partitions or list(partitions) != sorted(set(partitions)):
        got = ", ".join(map(epsilon_text, partitions)) or "none"
        fields.refuse("partitions", "ascending ε, each once, at least one", got)
    return partitions


def _models(fields: Fields) -> dict[str, dict[str, str]]:
    section = fields.section("models")
    models = {}
    for name in section:
        parameters = section.section(name)
        models[name] = {parameter: parameters.text(parameter) for parameter in parameters}
    if not models:
        fields.refuse("models", "at least one model", "none")
    return models


def _publish(fields: Fields) -> Publication | None:
    if "publish" not in fields:
        return None
    section = fields.section("publish")
    publication = Publication(section.text("model"), section.epsilon("epsilon"))
    section.finish()
    return publication


def _evaluation(fields: Fields) -> Fraction | None:
    if "evaluation" not in fields:
        return None
    section = fields.section("evaluation")
    epsilon = section.epsilon("epsilon")
    section.finish()
    return epsilon


def _delta(fields: Fields) -> Fraction | None:
    if "delta" not in fields:
        return None
    text = fields.text("delta")
    try:
        return parse_delta(text)
    except DeclarationError as error:
        expected, _, got = str(error).partition("expected ")[2].partition(", got ")
        fields.refuse("delta", expected, got)


def _point(fields: Fields, domain: Domain) -> Point | None:
    """Two axes: what is no number, or may be missing, is no place."""
    if "point" not in fields:
        return None
    names = fields.texts("point")
    if len(names) != 2 or names[0] == names[1] or not set(names) <= set(domain.numeric):
        axes = ", ".join(domain.numeric) or "there is none"
        expected = f"[x, y], two attributes that are numbers and never missing: {axes}"
        fields.refuse("point", expected, ", ".join(names) or "none")
    return names[0], names[1]


def _label(fields: Fields, domain: Domain) -> str | None:
    """Classes are declared levels: bins of a number that is clustered would be no truth."""
    if "label" not in fields:
        return None
    nominal = [one.name for one in domain if isinstance(one.cells, Levels)]
    label = fields.text("label")
    if label not in nominal:
        expected = f"an attribute with levels: {', '.join(nominal) or 'there is none'}"
        fields.refuse("label", expected, repr(label[:60]), hint=did_you_mean(label, nominal))
    return label
