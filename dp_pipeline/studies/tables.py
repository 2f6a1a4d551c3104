"""Rows of a study as files: CSV for people, Parquet for programs; whole or not at all."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from dp_pipeline.schema.csv_cells import plain_cells
from dp_pipeline.studies.journal import Row


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """One line a row under the names of the first row; empty where there is no number."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(plain_cells, rows))
    write_whole(path, text.getvalue().encode())


def write_parquet(path: Path, rows: Sequence[Row]) -> None:
    """The same rows; null where there is no number."""
    import pyarrow as pa
    import pyarrow.parquet

    columns = {name: [row[name] for row in rows] for name in rows[0]}
    file = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(columns), file)
    write_whole(path, file.getvalue())


def write_whole(path: Path, content: bytes) -> None:
    """A reader sees the old file or the new one, never half of it."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_bytes(content)
    temporary.replace(path)
