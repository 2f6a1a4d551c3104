"""The rows of a data set as k-anonymous methods read them: quasi-identifiers and label, exactly."""

from __future__ import annotations

import numpy as np

from dp_pipeline.anonymity.coded_rows import CodedRows, Column
from dp_pipeline.raw.exact_codes import exact_codes
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.schema.domain import Attribute
from dp_pipeline.schema.errors import DeclarationError
from dp_pipeline.schema.k_anonymity import KAnonymity
from dp_pipeline.schema.spec import DatasetSpec


def declared_anonymity(spec: DatasetSpec) -> KAnonymity:
    """The declared k-anonymous releases; DeclarationError where there are none."""
    if spec.k_anonymity is None or spec.label is None:
        raise DeclarationError(f"{spec.name}: expected a section `k_anonymity`, got none")
    return spec.k_anonymity


def quasi_identifiers(spec: DatasetSpec) -> tuple[Column, ...]:
    """The declared quasi-identifiers, in their declared order."""
    return tuple(_column(spec.domain[name]) for name in declared_anonymity(spec).attributes)


def _column(attribute: Attribute) -> Column:
    """Bins ascend, levels have no order; missing values are a level of their own."""
    missing = attribute.missing_code if attribute.nullable else None
    return Column(attribute.name, attribute.labels(), attribute.is_numeric, missing)


def coded_rows(spec: DatasetSpec, snapshot: Snapshot) -> CodedRows:
    """Every prepared row: quasi-identifiers and label.

    NotPrepared unless the snapshot is prepared; DeclarationError without a section `k_anonymity`.
    """
    columns, label = quasi_identifiers(spec), spec.domain[str(spec.label)]
    codes = exact_codes(spec, snapshot, [*(one.name for one in columns), label.name])
    target = codes[:, -1].astype(np.int64)
    return CodedRows(columns, codes[:, :-1], target, label.labels())
