"""ε, or K, as Dagster partitions: canonical texts, ascending, one run each."""

from __future__ import annotations

from fractions import Fraction

import dagster as dg

from dp_pipeline.orchestration.anonymity_rows import declared_anonymity
from dp_pipeline.schema.errors import DeclarationError
from dp_pipeline.schema.spec import DatasetSpec


def epsilon_partitions(spec: DatasetSpec) -> dg.StaticPartitionsDefinition:
    """The listed ε of one data set."""
    return dg.StaticPartitionsDefinition(list(spec.partition_keys))


def epsilon_of(context: dg.AssetExecutionContext, spec: DatasetSpec) -> Fraction:
    """The ε of this run; DeclarationError for a run over a range of partitions.

    One ε is one run: a failed run then has charged for one partition at most, and
    a green one has released exactly what it names.
    """
    return spec.partition(_only(context, spec, "ε"))


def k_partitions(spec: DatasetSpec) -> dg.StaticPartitionsDefinition:
    """The listed K of one data set's k-anonymous releases."""
    return dg.StaticPartitionsDefinition(list(declared_anonymity(spec).partition_keys))


def k_of(context: dg.AssetExecutionContext, spec: DatasetSpec) -> int:
    """The K of this run; DeclarationError for a run over a range of partitions."""
    return declared_anonymity(spec).partition(_only(context, spec, "K"))


def _only(context: dg.AssetExecutionContext, spec: DatasetSpec, symbol: str) -> str:
    keys = context.partition_keys
    if len(keys) != 1:
        raise DeclarationError(
            f"{spec.name}: expected one {symbol} partition a run, got {len(keys)}: "
            "launch one run each"
        )
    key: str = keys[0]
    return key


def when_anything_is_new() -> dg.AutomationCondition:  # type: ignore[type-arg]
    """For a free report over partitions of which nobody need ever ask for all: eager waits until
    none is missing.
    """
    return dg.AutomationCondition.eager().without(~dg.AutomationCondition.any_deps_missing())
