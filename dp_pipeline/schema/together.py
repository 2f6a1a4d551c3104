"""Rules of a data set file that need more than one field."""

from __future__ import annotations

from fractions import Fraction

from dp_pipeline.schema.epsilon import epsilon_text
from dp_pipeline.schema.fields import Fields
from dp_pipeline.schema.name import did_you_mean
from dp_pipeline.schema.spec import DatasetSpec

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
