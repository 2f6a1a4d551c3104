"""ε, or K, as Dagster partitions: canonical texts, ascending, one run each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import dagster as dg

from dp_pipeline.orchestration.anonymity_rows import declared_anonymity
from dp_pipeline.schema.errors import DeclarationError
from dp_pipeline.schema.spec import DatasetSpec

_RANGE = "dagster/asset_partition_range"
_TAGS = ("dagster/partition", f"{_RANGE}_start", f"{_RANGE}_end")
"""Where a run says which partitions it is for."""


def epsilon_partitions(spec: DatasetSpec) -> dg.StaticPartitionsDefinition:
    """The listed ε of one data set."""
    return dg.StaticPartitionsDefinition(list(spec.partition_keys))


def epsilon_of(context: dg.AssetExecutionContext, spec: DatasetSpec) -> Fraction:
    """The ε of this run; DeclarationError for a run over none, over one that is not declared, or
    over a range of partitions.

    One ε is one run: a failed run then has charged for one partition at most, and
    a green one has released exactly what it names.
    """
    return Fraction(_only(context.run.tags, spec, "ε", spec.partition_keys))


def k_partitions(spec: DatasetSpec) -> dg.StaticPartitionsDefinition:
    """The listed K of one data set's k-anonymous releases."""
    return dg.StaticPartitionsDefinition(list(declared_anonymity(spec).partition_keys))


def k_of(context: dg.AssetExecutionContext, spec: DatasetSpec) -> int:
    """The K of this run; DeclarationError as for an ε."""
    return int(_only(context.run.tags, spec, "K", declared_anonymity(spec).partition_keys))


def _only(tags: Mapping[str, str], spec: DatasetSpec, symbol: str, declared: Sequence[str]) -> str:
    """The one partition that the tags of a run name, as it is declared.

    Who asks by GraphQL names any text, or none, and Dagster looks it up only where it is used:
    its own errors would say so in many lines.
    """
    named = sorted({tags[name] for name in _TAGS if name in tags})
    if len(named) == 1 and named[0] in declared:
        return named[0]
    got = " and ".join(repr(key[:20]) for key in named) or "none"
    raise DeclarationError(
        f"{spec.name}: expected one {symbol} partition a run, of {', '.join(declared)}, got {got}: "
        "launch one run for each"
    )


def when_anything_is_new() -> dg.AutomationCondition:  # type: ignore[type-arg]
    """For a free report over partitions of which nobody need ever ask for all: eager waits until
    none is missing.
    """
    return dg.AutomationCondition.eager().without(~dg.AutomationCondition.any_deps_missing())
