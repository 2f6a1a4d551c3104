"""All rows of a public source, to propose how they could be declared. Never of sensitive rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dp_pipeline.raw.proposals import proposed
from dp_pipeline.raw.sources import read_source
from dp_pipeline.schema.domain import Attribute, Domain
from dp_pipeline.schema.encoding import Coordinate
from dp_pipeline.schema.found_column import FoundColumn
from dp_pipeline.schema.protection import OneRow
from dp_pipeline.schema.source import Source
from dp_pipeline.schema.spec import DatasetSpec


def public_look(
    source: Source, columns: Sequence[FoundColumn], *, name: str
) -> tuple[int, tuple[FoundColumn, ...]]:
    """The number of rows, and every column with a proposal or a remark why there is none.

    name   of the data set, for messages

    Raises SourceError where the source cannot be read.
    """
    usable = [column for column in columns if column.kind != "unusable"]
    table = read_source(_readable(source, usable, name=name))
    looked = {one.name: proposed(one, table.column(one.name)) for one in usable}
    return table.num_rows, tuple(looked.get(one.name, one) for one in columns)


def _readable(source: Source, columns: Sequence[FoundColumn], *, name: str) -> DatasetSpec:
    """A declaration of nothing but columns, which is what reading asks for."""
    unbounded = Attribute("", "", "drop", coordinate=Coordinate(0.0, 1.0))
    attributes = [
        replace(unbounded, name=f"column_{place}", column=column.name)
        for place, column in enumerate(columns)
    ]
    return DatasetSpec(
        name=name,
        title=name,
        description="A first look at public rows.",
        lineage=name,
        purpose="benchmark",
        protection=OneRow(),
        relation="add_remove",
        ceiling=None,
        source=source,
        domain=Domain(tuple(attributes)),
        one_hot=False,
        nominal_rows=None,
        partitions=(),
        models={},
        publish=None,
        evaluation=None,
        distinct_population=None,
    )
