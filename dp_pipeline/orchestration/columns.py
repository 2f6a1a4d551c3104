"""The columns of assets and their lineage for Dagster's pages, from declarations alone."""

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

MAX_NAMED_SOURCES = 3
"""Source columns that the description of a column names, at most."""

MAX_NAMED_LEVELS = 8
"""Declared levels that are listed by name; of more, only their number is shown."""

_BOUND = 1 << COORDINATE_BITS
"""The upper bound of an attribute as a fixed-point coordinate."""

_UNITS = {"date": " of days since 1970", "timestamp": " of seconds since 1970"}


@dataclass(frozen=True)
class AssetColumn:
    """A column of a Dagster asset, with its description and lineage.

    type      the type of its values, in a word
    sources   (stage, column) pairs that it is made from, in the same data set
    rules     declared constraints, in words
    nullable  whether a value may be missing
    """

    name: str
    type: str
    description: str
    sources: Sequence[tuple[str, str]] = ()
    rules: tuple[str, ...] = ()
    nullable: bool = False

    def dagster_column(self) -> dg.TableColumn:
        """Return the column for Dagster, whose pages show lineage in the description only."""
        description = self.description
        if self.sources:
            names = [f"{stage}.{name}" for stage, name in self.sources[:MAX_NAMED_SOURCES]]
            unnamed = len(self.sources) - len(names)
            description += f"; from {', '.join(names)}{f' and {unnamed} more' if unnamed else ''}"
        constraints = dg.TableColumnConstraints(nullable=self.nullable, other=list(self.rules))
        return dg.TableColumn(self.name, self.type, description, constraints)


def column_metadata(spec: DatasetSpec, columns: Iterable[AssetColumn]) -> dict[str, Any]:
    listed = list(columns)
    metadata: dict[str, Any] = {
        SCHEMA: dg.TableSchema([column.dagster_column() for column in listed])
    }
    lineage = {
        column.name: [
            dg.TableColumnDep(dg.AssetKey([spec.name, stage]), name)
            for stage, name in column.sources
        ]
        for column in listed
        if column.sources
    }
    return metadata | {LINEAGE: dg.TableColumnLineage(lineage)} if lineage else metadata


def raw_columns(spec: DatasetSpec, stage: str) -> list[AssetColumn]:
    """Return the columns of the table that a stage of the raw chain stores.

    stage   ``ingested``, ``normalized``, ``discretized`` or ``one_hot``
    """
    columns_of = {
        "ingested": _ingested,
        "normalized": _normalized,
        "discretized": _discretized,
        "one_hot": _one_hot,
    }
    return columns_of[stage](spec)


def _ingested(spec: DatasetSpec) -> list[AssetColumn]:
    attributes: dict[str, list[Attribute]] = {}
    for attribute in spec.domain:
        for column in attribute.inputs:
            attributes.setdefault(column, []).append(attribute)
    columns = []
    for name, readers in attributes.items():
        # Nothing was clipped or dropped yet, so stored values may be outside the declaration.
        declared = ", ".join(f"{reader.name} (declared: {_declared(reader)})" for reader in readers)
        type_ = "text"
        if all(reader.reads_times for reader in readers):
            type_ = "date or time"
        elif all(reader.reads_numbers for reader in readers):
            type_ = "number"
        columns.append(AssetColumn(name, type_, f"read as {declared}", nullable=True))
    person = spec.protection.column
    if person is not None and person not in attributes:
        description = f"whose row it is; of a person at most {spec.protection.at_most} are used"
        columns.append(AssetColumn(person, "text", description, nullable=True))
    return columns


def _normalized(spec: DatasetSpec) -> list[AssetColumn]:
    columns = []
    for attribute in spec.widest.domain:
        name, nullable = attribute.name, attribute.nullable
        declared = spec.domain[name]
        sources = [("ingested", column) for column in attribute.inputs]
        rules = (_declared(declared),)
        if attribute.coordinate is None:
            columns.append(AssetColumn(name, "text", "the level", sources, rules, nullable))
            continue
        bounds = f"-{_BOUND} to {_BOUND}"
        description = f"fixed-point coordinate: {_declared(declared)} as {bounds}"
        columns.append(AssetColumn(name, "int32", description, sources, (bounds,), nullable))
        if attribute.cells is not None:
            unit = _UNITS[attribute.clock.kind] if attribute.clock else ""
            description = f"the number{unit}, clipped to its bounds"
            clipped = f"{name}{CLIPPED}"
            columns.append(AssetColumn(clipped, "float64", description, sources, rules, nullable))
    return columns


def _discretized(spec: DatasetSpec) -> list[AssetColumn]:
    columns = []
    for name in spec.widest.domain.discrete:
        attribute, declared = spec.widest.domain[name], spec.domain[name]
        source = name if attribute.coordinate is None else f"{name}{CLIPPED}"
        code_type = str(np.min_scalar_type(attribute.size - 1))
        codes = f"0 to {attribute.size - 1}{' at most' if declared.undeclared else ''}"
        description = f"code of the cell (declared: {_declared(declared)})"
        sources = [("normalized", source)]
        if spec.domain.parts is not None:
            sources = [("ingested", column) for column in attribute.inputs]
        columns.append(AssetColumn(name, code_type, description, sources, (codes,)))
    return columns


def _one_hot(spec: DatasetSpec) -> list[AssetColumn]:
    columns = []
    for name in spec.domain.discrete:
        attribute, sources = spec.domain[name], [("discretized", name)]
        description = f"1 where {name} is in this cell, else 0"
        # Cells that are to be discovered have one name for all of them.
        bits = (f"{name}=…",) if attribute.undeclared else bit_names(attribute)
        columns += [AssetColumn(bit, "uint8", description, sources, ("0 | 1",)) for bit in bits]
    return columns


def _declared(attribute: Attribute) -> str:
    """Return the declared bounds or levels of an attribute as text.

    Discovered ones are never in the log of a run: their own asset shows them after the charge."""
    if attribute.undeclared is not None:
        return "discovered"
    if attribute.coordinate is not None:
        return " to ".join(attribute.range)
    levels = attribute.labels()[: attribute.size - attribute.nullable]
    return f"{len(levels)} levels" if len(levels) > MAX_NAMED_LEVELS else " | ".join(levels)


_TYPES = {"i": "int64", "f": "float64", "M": "date or time"}


def released_columns(spec: DatasetSpec, model: Model) -> list[AssetColumn]:
    """Return the columns of a release's synthetic rows, class counts or centres, else []."""
    if isinstance(model, TableModel):
        return _synthetic_columns(spec, model)
    if isinstance(model, DpKjig):
        return _class_columns(spec, model)
    return _centre_columns(spec, model) if isinstance(model, Clustering) else []


def _synthetic_columns(spec: DatasetSpec, model: TableModel) -> list[AssetColumn]:
    names = model.chosen_attributes(spec.widest.domain)
    no_codes = np.zeros((0, len(names)), dtype=np.int64)
    # Names and types by the code that writes the rows, in declared order.
    empty_table = decode_columns(no_codes, names, spec.widest.domain, np.random.default_rng(0))
    declared = [name for name in spec.domain.names if name in names]
    return [
        AssetColumn(
            column,
            _TYPES.get(values.dtype.kind, "text"),
            f"synthetic {name}",
            [("discretized", name)],
            (_declared(spec.domain[name]),),
            spec.domain[name].nullable,
        )
        for name, (column, values) in zip(declared, empty_table.items(), strict=True)
    ]


def _centre_columns(spec: DatasetSpec, model: Clustering) -> list[AssetColumn]:
    return [
        AssetColumn(
            name,
            "float64",
            f"{name} of a centre, in units of the data",
            [("normalized", name)],
            (_declared(spec.domain[name]),),
        )
        for name in clustering_columns(model.columns, spec.widest.domain)
    ]


def _class_columns(spec: DatasetSpec, model: DpKjig) -> list[AssetColumn]:
    (label,) = model.label
    sources = [
        ("discretized", name) for name in (*model.chosen_attributes(spec.widest.domain), label)
    ]
    levels = (_declared(spec.domain[label]),)
    return [
        AssetColumn("class", "int64", "number of a published class", sources[:-1]),
        AssetColumn("level", "text", f"of the label, {label}", sources[-1:], levels),
        AssetColumn("rows", "int64", "noisy count; noise may put it below 0", sources),
    ]


def k_anonymous_columns(bundle: Bundle) -> list[AssetColumn]:
    """Return the columns of a released k-anonymous table and its label.

    The levels of the label are left out: the log of a run would name a suppressed one.
    """
    retained = bundle.tables["columns"].values()
    columns = [
        AssetColumn(name, "text", rule, [("discretized", source)])
        for name, source, rule in zip(*(values.tolist() for values in retained), strict=True)
    ]
    label = bundle.facts["label"]
    return [*columns, AssetColumn(label, "text", "the label", [("discretized", label)])]
