"""Columns of assets and where each comes from, from declarations alone: before any run.

Dagster shows them on the asset's page, with what each is made from, from a synthetic column
back to the source's. Declared bounds and levels are public; nothing here was ever counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg
import numpy as np

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import Attribute
from dp_pipeline.config.encoding import COORDINATE_BITS
from dp_pipeline.models.base import Model, clustering_columns
from dp_pipeline.models.clustering.base import Clustering
from dp_pipeline.models.tables.base import TableModel
from dp_pipeline.models.tables.dp_kjig import DpKjig
from dp_pipeline.raw.prepare import CLIPPED, bit_names
from dp_pipeline.results.bundle import Bundle
from dp_pipeline.results.synthetic_table import decode_columns

SCHEMA, LINEAGE = "dagster/column_schema", "dagster/column_lineage"

MOST_SOURCES = 3
"""Columns that a column's words name as what it is made from."""

MOST_LEVELS = 8
"""Declared levels that are named one by one."""

_ONE = 1 << COORDINATE_BITS
"""The upper bound as a fixed-point coordinate."""


@dataclass(frozen=True)
class AssetColumn:
    """One column of an asset.

    type      of its values, in a word
    words     what it holds
    sources   (stage, column) that it is made from, of the same data set
    rules     declared constraints, in words
    nullable  whether a value may be missing
    """

    name: str
    type: str
    words: str
    sources: Sequence[tuple[str, str]] = ()
    rules: tuple[str, ...] = ()
    nullable: bool = False


def column_metadata(spec: DatasetSpec, columns: Iterable[AssetColumn]) -> dict[str, Any]:
    """Schema and lineage as Dagster shows them; no population where nothing is upstream."""
    listed = list(columns)
    shown = []
    for column in listed:
        # The open web server draws no population of columns, so their words name the sources too.
        sources = [f"{stage}.{name}" for stage, name in column.sources[:MOST_SOURCES]]
        more = len(column.sources) - len(sources)
        made_from = f"; from {', '.join(sources)}" if sources else ""
        words = f"{column.words}{made_from}{f' and {more} more' if more else ''}"
        constraints = dg.TableColumnConstraints(nullable=column.nullable, other=list(column.rules))
        shown.append(dg.TableColumn(column.name, column.type, words, constraints))
    schema = dg.TableSchema(shown)
    lineage = dg.TableColumnLineage(
        {
            column.name: [
                dg.TableColumnDep(dg.AssetKey([spec.name, stage]), name)
                for stage, name in column.sources
            ]
            for column in listed
            if column.sources
        }
    )
    return {SCHEMA: schema, LINEAGE: lineage} if lineage.deps_by_column else {SCHEMA: schema}


def raw_columns(spec: DatasetSpec, stage: str) -> list[AssetColumn]:
    """Of a stage of the raw chain that stores a table."""
    make = {
        "ingested": _ingested,
        "normalized": _normalized,
        "discretized": _discretized,
        "one_hot": _one_hot,
    }
    return make[stage](spec)


def _ingested(spec: DatasetSpec) -> list[AssetColumn]:
    """As the source has them: every cell is text or a number, and may be missing."""
    told: dict[str, list[Attribute]] = {}
    for attribute in spec.domain:
        for column in attribute.inputs:
            told.setdefault(column, []).append(attribute)
    columns = [
        AssetColumn(
            name,
            _kind(read),
            # Nothing was clipped or dropped yet: what is declared does not bind what is stored.
            f"read as {', '.join(f'{one.name} (declared: {_declared(one)})' for one in read)}",
            nullable=True,
        )
        for name, read in told.items()
    ]
    person = spec.protection.column
    if person is not None and person not in told:
        words = f"whose row it is; of a person at most {spec.protection.rows} are used"
        columns.append(AssetColumn(person, "text", words, nullable=True))
    return columns


def _kind(read: Sequence[Attribute]) -> str:
    if all(one.reads_times for one in read):
        return "date or time"
    return "number" if all(one.reads_numbers for one in read) else "text"


def _normalized(spec: DatasetSpec) -> list[AssetColumn]:
    columns = []
    for one in spec.widest.domain:
        declared = spec.domain[one.name]
        source, rules = [("ingested", name) for name in one.inputs], rules_of(declared)
        if one.coordinate is None:
            columns.append(AssetColumn(one.name, "text", "the level", source, rules, one.nullable))
            continue
        words = f"fixed-point coordinate: {_declared(declared)} as -{_ONE} to {_ONE}"
        around = (f"-{_ONE} to {_ONE}",)
        columns.append(AssetColumn(one.name, "int32", words, source, around, one.nullable))
        if one.cells is not None:
            unit = {"date": " of days since 1970", "timestamp": " of seconds since 1970"}
            of = unit[one.clock.kind] if one.clock else ""
            words = f"the number{of}, clipped to its bounds"
            clipped = (f"{one.name}{CLIPPED}", "float64", words)
            columns.append(AssetColumn(*clipped, source, rules, one.nullable))
    return columns


def _discretized(spec: DatasetSpec) -> list[AssetColumn]:
    columns = []
    for name in spec.widest.domain.discrete:
        one, declared = spec.widest.domain[name], spec.domain[name]
        source = name if one.coordinate is None else f"{name}{CLIPPED}"
        kind = str(np.min_scalar_type(one.size - 1))
        most = f"0 to {one.size - 1}{' at most' if declared.undeclared else ''}"
        words, codes = f"code of the cell (declared: {_declared(declared)})", (most,)
        columns.append(AssetColumn(name, kind, words, [("normalized", source)], codes))
    return columns


def _one_hot(spec: DatasetSpec) -> list[AssetColumn]:
    columns = []
    for name in spec.domain.discrete:
        one, source = spec.domain[name], [("discretized", name)]
        words = f"1 where {name} is in this cell, else 0"
        # Cells that are to be discovered have one name for all of them.
        bits = (f"{name}=…",) if one.undeclared else bit_names(one)
        columns += [AssetColumn(bit, "uint8", words, source, ("0 | 1",)) for bit in bits]
    return columns


def rules_of(attribute: Attribute) -> tuple[str, ...]:
    """What holds of a column that stores the attribute's own values."""
    return (_declared(attribute),)


def _declared(attribute: Attribute) -> str:
    """The declared bounds or levels, in words; a missing value is stored as none of them. What is
    to be discovered the log of a run never says: its asset does, once it is paid for.
    """
    if attribute.undeclared is not None:
        return "discovered"
    if attribute.coordinate is not None:
        return " to ".join(attribute.range)
    levels = attribute.labels()[: attribute.size - attribute.nullable]
    return f"{len(levels)} levels" if len(levels) > MOST_LEVELS else " | ".join(levels)


_TYPES = {"i": "int64", "f": "float64", "M": "date or time"}


def released_columns(spec: DatasetSpec, model: Model) -> list[AssetColumn]:
    """Of the table that a reader of a release opens first: synthetic rows, centres, or the counts
    of published classes.
    """
    if isinstance(model, TableModel):
        return _synthetic(spec, model)
    if isinstance(model, DpKjig):
        return _classes(spec, model)
    return _centres(spec, model) if isinstance(model, Clustering) else []


def _synthetic(spec: DatasetSpec, model: TableModel) -> list[AssetColumn]:
    names = model.chosen(spec.widest.domain)
    nobody = np.zeros((0, len(names)), dtype=np.int64)
    # Names and types by the code that writes the rows, in declared order.
    written = decode_columns(nobody, names, spec.widest.domain, np.random.default_rng(0))
    declared = [name for name in spec.domain.names if name in names]
    return [
        AssetColumn(
            column,
            _TYPES.get(values.dtype.kind, "text"),
            f"synthetic {name}",
            [("discretized", name)],
            rules_of(spec.domain[name]),
            spec.domain[name].nullable,
        )
        for name, (column, values) in zip(declared, written.items(), strict=True)
    ]


def _centres(spec: DatasetSpec, model: Clustering) -> list[AssetColumn]:
    return [
        AssetColumn(
            name,
            "float64",
            f"{name} of a centre, in units of the data",
            [("normalized", name)],
            rules_of(spec.domain[name]),
        )
        for name in clustering_columns(model.columns, spec.widest.domain)
    ]


def _classes(spec: DatasetSpec, model: DpKjig) -> list[AssetColumn]:
    (label,) = model.label
    told = [("discretized", name) for name in (*model.chosen(spec.widest.domain), label)]
    levels = rules_of(spec.domain[label])
    return [
        AssetColumn("class", "int64", "number of a published class", told[:-1]),
        AssetColumn("level", "text", f"of the label, {label}", told[-1:], levels),
        AssetColumn("rows", "int64", "noisy count; noise may put it below 0", told),
    ]


def k_anonymous_columns(bundle: Bundle) -> list[AssetColumn]:
    """Of a released k-anonymous table: the columns that were kept, and the label."""
    kept = bundle.tables["columns"]
    lines = zip(*(values.tolist() for values in kept.values()), strict=True)
    label = bundle.facts["label"]
    columns = [
        AssetColumn(name, "text", rule, [("discretized", source)]) for name, source, rule in lines
    ]
    # Its levels are not told: the log of a run would name one that was left out.
    return [*columns, AssetColumn(label, "text", "the label", [("discretized", label)])]
