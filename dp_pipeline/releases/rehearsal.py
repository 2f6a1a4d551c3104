"""The rehearsal of a data set: its whole chain over artificial rows, at no cost.

It has a home of its own, so the ledger, rows and releases of the project are neither read nor
written. Its rows are public and its noise has a seed: every page says that nothing of it may leave.
"""

import os
import shutil
from collections.abc import Callable, Mapping
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
from dp_pipeline.releases.home import Home, find_home
from dp_pipeline.releases.run_options import RunOptions, parse_request
from dp_pipeline.releases.run_result import RunResult
from dp_pipeline.results.synthetic_table import UNIT

FOLDER = "rehearsals"
"""The folder below a home with the homes of rehearsals."""

NOISE = "seeded:0"
ROWS = 10_000
"""Rows of a rehearsal where the file declares no ``nominal_rows``."""


def rehearse(
    spec: DatasetSpec,
    execute: Callable[[RunOptions], RunResult],
    *,
    rows: int = 0,
    like: str = "",
    **request: Any,
) -> tuple[RunResult, Path]:
    """Run a data set over artificial rows in a home of their own; return its result and the folder
    with an export of each model.

    The previous rehearsal is deleted. While ``execute`` runs, environment variables place Dagster's
    history and published copies in the home too, so that it writes nothing outside of it.

    rows      number of rows; 0: ``nominal_rows``, or ROWS
    like      model whose newest release in the project the rows resemble; empty: the declaration
              alone decides
    request   what to run, as for ``parse_request``

    Raises NotPrepared without that release, and DeclarationError if it has no synthetic rows.
    """
    project = find_home()
    home = Home(project.root / FOLDER / spec.name)
    if home.root.is_dir():
        shutil.rmtree(home.root)
    make_private(home.root)
    columns = _released_columns(spec, project, like) if like else None
    table = draw_declared_rows(spec, rows or spec.nominal_rows or ROWS, seed=0, columns=columns)
    path = home.root / "rows.parquet"
    pq.write_table(table, path)
    origin = f"an earlier release of {like}" if like else "the declaration"
    declared = replace(
        spec,
        title=f"Rehearsal: {spec.title}",
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
    before = dict(os.environ)
    os.environ["DAGSTER_HOME"] = str(home.root / "dagster")
    for name in ("DP_PIPELINE_DAGSTER", "DP_PIPELINE_PUBLISHED"):
        # Places outside of the home.
        os.environ.pop(name, None)
    try:
        options = replace(parse_request(declared, **request), home=home, noise_name=NOISE)
        result, folder = execute(options), home.root / "export"
        for model in options.names:
            wanted = ExportRequest.of(result.spec, name=model)
            settled = find_newest_settled(result.spec, home, wanted)
            export(settled, folder / model, ending="csv")
    finally:
        os.environ.clear()
        os.environ.update(before)
    return result, folder


def _released_columns(spec: DatasetSpec, home: Home, model: str) -> Mapping[str, NDArray[Any]]:
    settled = find_newest_settled(spec, home, ExportRequest.of(spec, name=model))
    table = settled.bundle.tables.get("synthetic")
    if table is None:
        raise DeclarationError(
            f"{spec.name}: --like: the model must release a table, but {model} does not: choose "
            "another"
        )
    released = dict(table)
    if not len(next(iter(released.values()))):
        raise DeclarationError(
            f"{spec.name}: --like: the release of {model} must have rows to draw from, but it has "
            "none: choose another, or leave --like out"
        )
    for name, values in settled.bundle.tables.get("units", {}).items():
        released.setdefault(name, values[released[UNIT] - 1])
    # A column of the source has its own name, unless several attributes read it.
    return {
        attribute.column: released[name]
        for attribute in spec.domain
        for name in (attribute.name, attribute.column)
        if attribute.derived is None and name in released
    }
