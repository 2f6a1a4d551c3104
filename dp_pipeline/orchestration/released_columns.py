"""Columns of what a model or a k-anonymous method releases, and what they were made from."""

from __future__ import annotations

import numpy as np

from dp_pipeline.models.base import Model, clustering_columns
from dp_pipeline.models.clustering import Clustering
from dp_pipeline.models.dp_kjig import DpKjig
from dp_pipeline.models.table import TableModel
from dp_pipeline.orchestration.column_metadata import Column, rules_of
from dp_pipeline.release.bundle import Bundle
from dp_pipeline.release.decoding import decoded
from dp_pipeline.schema.spec import DatasetSpec

_TYPES = {"i": "int64", "f": "float64"}


def released_columns(spec: DatasetSpec, model: Model) -> list[Column]:
    """Of the table that a reader of a release opens first: synthetic rows, centres, or the counts
    of published classes.
    """
    if isinstance(model, TableModel):
        return _synthetic(spec, model)
    if isinstance(model, DpKjig):
        return _classes(spec, model)
    return _centres(spec, model) if isinstance(model, Clustering) else []


def _synthetic(spec: DatasetSpec, model: TableModel) -> list[Column]:
    names = model.chosen(spec.domain)
    nobody = np.zeros((0, len(names)), dtype=np.int64)
    # Names and types by the code that writes the rows, in declared order.
    written = decoded(nobody, names, spec.domain, np.random.default_rng(0))
    declared = [name for name in spec.domain.names if name in names]
    return [
        Column(
            column,
            _TYPES.get(values.dtype.kind, "text"),
            f"synthetic {name}",
            [("discretized", name)],
            rules_of(spec.domain[name]),
            spec.domain[name].nullable,
        )
        for name, (column, values) in zip(declared, written.items(), strict=True)
    ]


def _centres(spec: DatasetSpec, model: Clustering) -> list[Column]:
    return [
        Column(
            name,
            "float64",
            f"{name} of a centre, in units of the data",
            [("normalized", name)],
            rules_of(spec.domain[name]),
        )
        for name in clustering_columns(model.columns, spec.domain)
    ]


def _classes(spec: DatasetSpec, model: DpKjig) -> list[Column]:
    (label,) = model.label
    told = [("discretized", name) for name in (*model.chosen(spec.domain), label)]
    levels = rules_of(spec.domain[label])
    return [
        Column("class", "int64", "number of a published class", told[:-1]),
        Column("level", "text", f"of the label, {label}", told[-1:], levels),
        Column("rows", "int64", "noisy count; noise may put it below 0", told),
    ]


def anonymous_columns(bundle: Bundle) -> list[Column]:
    """Of a released k-anonymous table: the columns that were kept, and the label."""
    kept = bundle.tables["columns"]
    lines = zip(*(values.tolist() for values in kept.values()), strict=True)
    label = bundle.facts["label"]
    columns = [
        Column(name, "text", rule, [("discretized", source)]) for name, source, rule in lines
    ]
    # Its levels are not told: the log of a run would name one that was left out.
    return [*columns, Column(label, "text", "the label", [("discretized", label)])]
