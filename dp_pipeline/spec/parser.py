"""The one parser of data set files: YAML in; DatasetSpec or one line about the mistake out.

The k-anonymous releases of a data set, as its file declares them.

What classifiers are asked to predict, as a data set file declares it.

Rules of a data set file that need more than one field.
"""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

from dp_pipeline.spec.amounts import epsilon_text, parse_delta
from dp_pipeline.spec.attribute_parser import (
    parse_attribute,
    parse_ceiling,
    parse_owners,
    parse_refresh,
    parse_updates,
)
from dp_pipeline.spec.dataset import (
    PARTITIONS,
    DatasetSpec,
    KAnonymity,
    Publication,
    Target,
    parse_k,
)
from dp_pipeline.spec.domain import Domain, OneRow, Protection, RowsOfPerson
from dp_pipeline.spec.encoding import Levels, Point
from dp_pipeline.spec.errors import DeclarationError
from dp_pipeline.spec.expectations import parse_expectations
from dp_pipeline.spec.fields import Fields, read_fields
from dp_pipeline.spec.formats import DATASET_FILE
from dp_pipeline.spec.name import EXPECTED_NAME, did_you_mean, is_name
from dp_pipeline.spec.source_parser import parse_source


def parse_k_anonymity(
    fields: Fields, domain: Domain, protection: Protection, *, label: str | None, is_release: bool
) -> KAnonymity:
    """Read the section ``k_anonymity`` of a data set file.

    fields       of the whole file
    label        the attribute that is predicted: it is released, and no quasi-identifier
    is_release   whether rows are sensitive: then ``allow_not_dp: true`` has to stand beside it,
                 and every K has to promise something; so do those that go without saying

    Methods and their parameters are checked where they are built. DeclarationError
    without a label, for attributes without cells, for more different labels in a
    class than there are, and where K rows may be fewer than K persons.
    """
    if label is None:
        fields.refuse("k_anonymity", "a `label` beside it, for rows to predict", "none")
    if domain[label].nullable:
        expected = "a label that is never missing: a missing one would pass for another label"
        fields.refuse("k_anonymity", expected, f"{label} with `nullable: true`")
    if protection.rows > 1:
        expected = "at most one row of a person beside it, for K rows to be K persons"
        fields.refuse("k_anonymity", expected, str(protection))
    if is_release and not fields.boolean("allow_not_dp"):
        expected = "`allow_not_dp: true` for k-anonymous releases of sensitive rows"
        fields.refuse("k_anonymity", expected, "false" if "allow_not_dp" in fields else "none")
    section = fields.section("k_anonymity")
    declared = KAnonymity(
        methods=_methods(section),
        attributes=_attributes(section, domain, label),
        partitions=_k_partitions(section, least=2 if is_release else 0),
        sensitive_label=_is_sensitive(section),
        diversity=_diversity(section, most=domain[label].size),
        suppress=_share(section, "suppress"),
        seed=section.integer("seed", at_least=0) if "seed" in section else 0,
    )
    section.finish()
    return declared


def _is_sensitive(section: Fields) -> bool:
    return section.text("sensitive_label", "true", choices=("true", "false")) == "true"


def _methods(section: Fields) -> dict[str, dict[str, str]]:
    named, methods = section.section("methods"), {}
    for name in named:
        parameters = named.section(name)
        methods[name] = {parameter: parameters.text(parameter) for parameter in parameters}
    if not methods:
        section.refuse("methods", "at least one method", "none")
    return methods


def _attributes(section: Fields, domain: Domain, label: str) -> tuple[str, ...]:
    """Those listed, in that order, or every attribute with cells but the label."""
    known = tuple(name for name in domain.discrete if name != label)
    if "attributes" not in section and known:
        return known
    names = tuple(section.text("attributes", "").split())
    if not names or len(set(names)) != len(names) or not set(names) <= set(known):
        expected = f"attributes with cells, each once: {', '.join(known) or 'there is none'}"
        unknown = next((name for name in names if name not in known), "")
        near = did_you_mean(unknown, known)
        section.refuse("attributes", expected, ", ".join(names) or "none", hint=near)
    return names


def _k_partitions(section: Fields, *, least: int) -> tuple[int, ...]:
    if "partitions" not in section:
        return tuple(k for k in PARTITIONS if k >= least)
    texts = section.texts("partitions")
    try:
        partitions = tuple(map(parse_k, texts))
    except DeclarationError:
        partitions = ()
    if not partitions or list(partitions) != sorted(set(partitions)) or partitions[0] < least:
        expected = f"ascending K of at least {least}, each once, at least one"
        section.refuse("partitions", expected, ", ".join(texts) or "none")
    return partitions


def _diversity(section: Fields, *, most: int) -> int | None:
    if "diversity" not in section:
        return None
    diversity = section.integer("diversity", at_least=1)
    if diversity > most:
        section.refuse("diversity", f"at most the label's {most} levels", str(diversity))
    return diversity


def _share(section: Fields, name: str) -> Fraction:
    """An exact share below 1, as decimal text; 0 when not declared."""
    text = section.text(name, "0")
    if not re.fullmatch(r"0|0?\.[0-9]{1,9}", text):
        section.refuse(name, "a decimal number from 0 to below 1", repr(text[:60]))
    return Fraction(text)


def parse_targets(section: Fields, domain: Domain) -> tuple[Target, ...]:
    """The targets of one data set, in the order of the file.

    ``targets: {education: {positive: [MSc, PhD], without: [education_num]}}``. DeclarationError
    for an attribute without levels, and for levels of which some or none would be positive.
    """
    return tuple(_target(name, section, domain) for name in section)


def _target(name: str, section: Fields, domain: Domain) -> Target:
    nominal = [one.name for one in domain if isinstance(one.cells, Levels)]
    if name not in nominal:
        expected = f"an attribute with levels: {', '.join(nominal) or 'there is none'}"
        section.refuse(name, expected, "another", hint=did_you_mean(name, nominal))
    fields = section.section(name)
    positive, known = fields.texts("positive"), domain[name].labels()
    if len(set(positive)) != len(positive) or not set(positive) < set(known) or not positive:
        expected = f"some but not all levels of {name}, each once"
        fields.refuse("positive", expected, ", ".join(positive) or "none")
    without = fields.texts("without") if "without" in fields else ()
    if not set(without) <= set(domain.discrete) - {name}:
        expected = f"other attributes with cells than {name}"
        fields.refuse("without", expected, ", ".join(without))
    fields.finish()
    return Target(name, positive, without)


WATCHED = ("csv", "parquet")
"""Kinds of sources that say by themselves whether they changed: files, here or behind a URL."""


def check_together(spec: DatasetSpec, fields: Fields) -> None:
    """DeclarationError with file and line for fields that do not go together."""
    _check_publish(spec, fields)
    person = spec.protection.column
    if person is not None and person in {attribute.column for attribute in spec.domain}:
        fields.refuse("attributes", f"no attribute on the person's column {person!r}", "one")
    if spec.updates_public and spec.source.kind not in WATCHED:
        # A query has no stamp to watch: only its rows would tell that they changed.
        expected = f"a source that is watched without reading its rows: {' or '.join(WATCHED)}"
        fields.refuse("updates", expected, spec.source.kind)
    _check_limits(spec, fields)


def _check_publish(spec: DatasetSpec, fields: Fields) -> None:
    if spec.publish is None:
        return
    if spec.publish.model not in spec.models:
        expected, near = ", ".join(spec.models), did_you_mean(spec.publish.model, spec.models)
        fields.refuse("publish", f"a model of {expected}", spec.publish.model, hint=near)
    if spec.publish.epsilon not in spec.partitions:
        got = epsilon_text(spec.publish.epsilon)
        fields.refuse("publish", f"ε from {', '.join(spec.partition_keys)}", got)


def _check_limits(spec: DatasetSpec, fields: Fields) -> None:
    """What is paid in ρ depends on the model: ``models.build_model`` adds that up."""
    if spec.per_month is not None and spec.delta is None:
        largest = max(spec.partitions) + (spec.evaluation or Fraction(0))
        if largest > spec.per_month:
            expected = f"a per_month of at least {epsilon_text(largest)} for one release"
            fields.refuse("ceiling", expected, epsilon_text(spec.per_month))
    if not spec.is_release:
        return
    if spec.ceiling is None:
        fields.refuse("ceiling", "a total for data to be released", "nothing")
    if spec.delta is None and spec.cost_of_everything > spec.ceiling:
        total = f"{epsilon_text(spec.cost_of_everything)} for all models and partitions"
        fields.refuse("ceiling", f"a total of at least {total}", epsilon_text(spec.ceiling))


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
