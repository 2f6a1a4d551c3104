"""ε as Dagster partitions: canonical texts, ascending, one run each."""

from __future__ import annotations

from fractions import Fraction

import dagster as dg

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
    keys = context.partition_keys
    if len(keys) != 1:
        raise DeclarationError(
            f"{spec.name}: expected one ε partition a run, got {len(keys)}: launch one run each"
        )
    return spec.partition(keys[0])
