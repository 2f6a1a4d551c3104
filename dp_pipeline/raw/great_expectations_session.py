"""One short session with Great Expectations: expectations and a frame in, booleans out."""

from __future__ import annotations

import os
import sys
from typing import Any

import pandas as pd

from dp_pipeline.raw.expectations import Expectation
from dp_pipeline.schema.database import has_driver
from dp_pipeline.schema.encoding import Levels
from dp_pipeline.schema.errors import PipelineError
from dp_pipeline.schema.spec import DatasetSpec


def passed(
    spec: DatasetSpec, declared: tuple[Expectation, ...], frame: pd.DataFrame
) -> dict[str, bool]:
    """Name of each declared expectation → whether ``frame`` fulfils it.

    Every result format but BOOLEAN_ONLY puts offending values into the result.
    Raises PipelineError when an expectation has no result: the library drops
    what it does not know, and a suite without expectations passes.
    """
    suite = [_translated(spec, expectation) for expectation in declared]
    results = _batch(frame).validate(_suite(spec, suite), result_format="BOOLEAN_ONLY").results
    # Only the name and the boolean are taken: what the library says of an exception may quote rows.
    named = {str(one.expectation_config.meta["name"]): bool(one.success) for one in results}
    if len(results) != len(declared) or set(named) != {e.name for e in declared}:
        raise PipelineError(
            f"{spec.name}: expected {len(declared)} verdicts of Great Expectations, "
            f"got {len(results)}"
        )
    return named


def _library() -> Any:
    # Read by the library when it is imported: nothing about a data set may be sent anywhere.
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    if not has_driver():
        # The library looks for one of its own accord, and takes a broken one for an error.
        sys.modules["psycopg2"] = None  # type: ignore[assignment]
    import great_expectations

    return great_expectations


def _batch(frame: pd.DataFrame) -> Any:
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = _library().get_context(mode="ephemeral")
    bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    context.variables.progress_bars = bars
    asset = context.data_sources.add_pandas("memory").add_dataframe_asset("frame")
    definition = asset.add_batch_definition_whole_dataframe("all")
    return definition.get_batch(batch_parameters={"dataframe": frame})


def _suite(spec: DatasetSpec, expectations: list[Any]) -> Any:
    return _library().ExpectationSuite(name=spec.name, expectations=expectations)


def _translated(spec: DatasetSpec, expectation: Expectation) -> Any:
    """The library's expectation for ours."""
    kinds = _library().expectations
    column, meta = expectation.attribute, {"name": expectation.name}
    match expectation.rule:
        case "exists":
            return kinds.ExpectColumnToExist(column=column, meta=meta)
        case "type":
            types = ["str", "float64"]
            return kinds.ExpectColumnValuesToBeInTypeList(column=column, type_list=types, meta=meta)
        case "rows":
            return kinds.ExpectTableRowCountToBeBetween(min_value=1, meta=meta)
        case "present":
            return kinds.ExpectColumnValuesToNotBeNull(column=column, meta=meta)
        case "levels":
            levels = list(_levels(spec, str(column)))
            return kinds.ExpectColumnValuesToBeInSet(column=column, value_set=levels, meta=meta)
        case "bounds":
            box = spec.domain[str(column)].coordinate
            assert box is not None
            return kinds.ExpectColumnValuesToBeBetween(
                column=column, min_value=box.lower, max_value=box.upper, meta=meta
            )


def _levels(spec: DatasetSpec, attribute: str) -> tuple[str, ...]:
    cells = spec.domain[attribute].cells
    return cells.values if isinstance(cells, Levels) else ()
