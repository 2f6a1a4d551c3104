"""Data sets written by hand: a declaration from a few lines, a snapshot from a few columns."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import Attribute, Domain, Protection
from dp_pipeline.config.encoding import Coordinate
from dp_pipeline.config.parser import load_spec
from dp_pipeline.config.reading import Signs
from dp_pipeline.raw.prepare import prepare
from dp_pipeline.raw.snapshot import Snapshot, mark_validated

KEY = b"k" * 32
PERSONS = "{unit: rows_of_person, column: rider, at_most: 2}"
X_AND_SEX = "{x: {bounds: [0, 10], bins: 4}, sex: {levels: [f, m]}}"

HEAD = """
name: {name}
description: Written by hand.
population: {name}
purpose: {purpose}
ceiling: {{total: 100}}
source: {source}
partitions: [1]
nullable: {nullable}
models: {{anything: }}
"""


def written_spec(
    folder,
    attributes,
    *,
    purpose="benchmark",
    protection="{unit: one_row}",
    source="{kind: csv, path: rows.csv}",
    more="",
    nullable="false",
):
    """The declaration with ``attributes`` given as one YAML mapping; a cell that is not as declared
    costs its row unless ``nullable`` says otherwise.
    """
    path = folder / "people.yaml"
    text = HEAD.format(name="people", purpose=purpose, source=source, nullable=nullable)
    path.write_text(f"{text}protection: {protection}\nattributes: {attributes}\n{more}\n")
    return load_spec(path)


def ingested(folder: Path, columns: dict[str, Any] | pa.Table, name: str = "day") -> Snapshot:
    """A snapshot with the stage ``ingested`` and nothing else; lists become text or numbers."""
    snapshot = Snapshot(folder / "raw" / "people" / name, KEY)
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    snapshot.store_table("ingested", lambda file: pq.write_table(table, file))
    return snapshot


def validated(spec, folder, columns, name="day"):
    """The same, whose checks refused nothing."""
    snapshot = ingested(folder, columns, name)
    mark_validated(spec, snapshot, structural=True, refused=False)
    return snapshot


def prepared_snapshot(spec, folder, columns, name="day"):
    """The same, with the stages that are declared."""
    snapshot = validated(spec, folder, columns, name)
    prepare(spec, snapshot)
    return snapshot


READ = Signs(".", "'")
"""With declared signs, texts of Parquet are read as numbers."""


def spec_of(source, *columns, person=None, purpose="benchmark"):
    """A data set `city` that reads ``columns`` and, if there is one, the ``person`` column."""
    attributes = tuple(
        Attribute(f"attribute_{place}", column, "clip", coordinate=Coordinate(0.0, 1.0), signs=READ)
        for place, column in enumerate(columns)
    )
    protection = Protection() if person is None else Protection(person, 2)
    declared = {"source": source, "protection": protection, "purpose": purpose}
    return DatasetSpec.of_domain("city", Domain(attributes), **declared)
