"""What classifiers are asked to predict, as a data set file declares it."""

from __future__ import annotations

from dp_pipeline.schema.domain import Domain
from dp_pipeline.schema.encoding import Levels
from dp_pipeline.schema.fields import Fields
from dp_pipeline.schema.name import did_you_mean
from dp_pipeline.schema.target import Target


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
