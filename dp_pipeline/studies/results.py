"""Results: the files of a study beside its journal, from finished cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from dp_pipeline.schema.errors import PipelineError
from dp_pipeline.studies.journal import Row
from dp_pipeline.studies.means import Mean
from dp_pipeline.studies.picture import Picture
from dp_pipeline.studies.tables import write_csv, write_parquet, write_whole


def write_results(
    folder: Path, *, rows: Sequence[Row], means: Sequence[Row], shown: Sequence[Picture], text: str
) -> Path:
    """Tables, pictures and report; the path of the report.

    rows    of ``results.csv`` and ``results.parquet``, with the names of the first one
    means   of ``summary.csv``
    text    of ``report.md``, which shows the pictures
    """
    write_csv(folder / "results.csv", rows)
    write_parquet(folder / "results.parquet", rows)
    write_csv(folder / "summary.csv", means)
    for picture in shown:
        write_whole(folder / picture.file, picture.content)
    path = folder / "report.md"
    write_whole(path, text.encode())
    return path


def require_measured(folder: Path, *, measured: bool, failures: Mapping[Any, str]) -> None:
    """PipelineError when every system refused."""
    if not measured:
        why = next(iter(failures.values()), "no cell")
        raise PipelineError(f"{folder}: expected a system that can be run, got: {why}")


def with_error(measure: str, mean: Mean | None) -> dict[str, float | None]:
    """Two columns of ``summary.csv``: a mean and its standard error, ``…_se``."""
    return {
        measure: None if mean is None else mean.value,
        f"{measure}_se": mean.error if mean and isfinite(mean.error) else None,
    }
