"""The rehearsal of a data set: its whole chain over artificial rows, at no cost.

It has a home of its own, so the ledger, rows and releases of the project are neither read nor
written. Its rows are public and its noise has a seed: every page says that nothing of it may leave.
"""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from numpy.typing import NDArray

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.source import Source
from dp_pipeline.files import make_private
from dp_pipeline.raw.generators.declared import draw_declared_rows
from dp_pipeline.releases.export import ExportRequest, export, find_newest_settled
from dp_pipeline.releases.home import Home
from dp_pipeline.results.synthetic_table import UNIT

FOLDER = "rehearsals"
"""The folder below a home with the homes of rehearsals."""

TITLE = "Rehearsal"
NOISE = "seeded:0"
ROWS = 10_000
"""Rows of a rehearsal where the file declares no ``nominal_rows``."""

_OF_PROJECT = ("DP_PIPELINE_DAGSTER", "DP_PIPELINE_PUBLISHED")
"""Variables of places outside the home, which a rehearsal does not touch."""


def rehearsed(
    spec: DatasetSpec, home: Home, project: Home, *, rows: int = 0, like: str = ""
) -> DatasetSpec:
    """Draw artificial rows of a data set into a file; return the declaration that reads them.

    home      home of the rehearsal, in which the file is written
    project   home of the project
    rows      number of rows; 0: ``nominal_rows``, or ROWS
    like      model whose newest release in the project the rows resemble; empty: the declaration
              alone decides

    Raises DeclarationError where there is no such release.
    """
    count = rows or spec.nominal_rows or ROWS
    columns = _released_columns(spec, project, like) if like else None
    table = draw_declared_rows(spec, count, seed=0, columns=columns)
    path = home.root / "rows.parquet"
    pq.write_table(table, path)
    origin = f"an earlier release of {like}" if like else "the declaration"
    return replace(
        spec,
        title=f"{TITLE}: {spec.title}",
        description=f"A rehearsal: its rows are drawn from {origin} and are nobody's, so it cost "
        f"nothing and says nothing about anybody. {spec.description}",
        population=f"rehearsal-{spec.population}"[:63],
        purpose="benchmark",
        source=Source("parquet", str(path)),
        # Of another data set that a model names there are no rows in this home.
        models={
            name: {key: text for key, text in values.items() if key != "prior"}
            for name, values in spec.models.items()
        },
    )


def _released_columns(spec: DatasetSpec, home: Home, model: str) -> Mapping[str, NDArray[Any]]:
    settled = find_newest_settled(spec, home, ExportRequest.of(spec, name=model))
    table = settled.bundle.tables.get("synthetic")
    if table is None:
        raise DeclarationError(
            f"{spec.name}: --like: the model must release a table, but {model} does not: choose "
            "another"
        )
    released = dict(table)
    for name, values in settled.bundle.tables.get("units", {}).items():
        released.setdefault(name, values[released[UNIT] - 1])
    # A column of the source has its own name, unless several attributes read it.
    return {
        attribute.column: released[name]
        for attribute in spec.domain
        for name in (attribute.name, attribute.column)
        if attribute.derived is None and name in released
    }


def export_rehearsal(spec: DatasetSpec, home: Home, models: Iterable[str]) -> Path:
    """Export the newest rehearsed release of each model; return the folder of the exports."""
    folder: Path = home.root / "export"
    for model in models:
        settled = find_newest_settled(spec, home, ExportRequest.of(spec, name=model))
        export(settled, folder / model, ending="csv")
    return folder


@contextmanager
def rehearsing(
    declared: DatasetSpec, project: Home, *, rows: int = 0, like: str = ""
) -> Iterator[tuple[DatasetSpec, Home]]:
    """Yield the declaration and the home of a rehearsal, after deleting the previous rehearsal.

    Dagster keeps its history there too, so a run in the block writes nothing outside that home.

    project      home of the project, below which that of the rehearsal is
    rows, like   as of ``rehearsed``
    """
    root = project.root / FOLDER / declared.name
    if root.is_dir():
        shutil.rmtree(root)
    make_private(root)
    home = Home(root)
    spec = rehearsed(declared, home, project, rows=rows, like=like)
    before = dict(os.environ)
    os.environ["DAGSTER_HOME"] = str(home.root / "dagster")
    for name in _OF_PROJECT:
        os.environ.pop(name, None)
    try:
        yield spec, home
    finally:
        os.environ.clear()
        os.environ.update(before)
