"""One short session with Great Expectations: expectations and a frame in, booleans out."""

from __future__ import annotations

import os
import sys
from typing import Any

import pandas as pd

from dp_pipeline.raw.expectations import Expectation, Rule, frame_column
from dp_pipeline.schema.database import has_driver
from dp_pipeline.schema.encoding import Levels
from dp_pipeline.schema.errors import PipelineError
from dp_pipeline.schema.expectation import Argument
from dp_pipeline.schema.spec import DatasetSpec

_TYPES: dict[Rule, str] = {
    "exists": "expect_column_to_exist",
    "type": "expect_column_values_to_be_in_type_list",
    "rows": "expect_table_row_count_to_be_between",
    "present": "expect_column_values_to_not_be_null",
    "levels": "expect_column_values_to_be_in_set",
    "bounds": "expect_column_values_to_be_between",
}
"""Rule → the library's name of it; one that is declared has its own."""


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
    """The library's expectation for ours, or for one of the data set file."""
    arguments: dict[str, Any] = {}
    if expectation.attribute is not None:
        arguments["column"] = expectation.attribute
    match expectation.rule:
        case "type":
            arguments["type_list"] = ["str", "float64"]
        case "rows":
            arguments["min_value"] = 1
        case "levels":
            arguments["value_set"] = list(_levels(spec, str(expectation.attribute)))
        case "bounds":
            box = spec.domain[str(expectation.attribute)].coordinate
            assert box is not None
            arguments |= {"min_value": box.lower, "max_value": box.upper}
    type_ = _TYPES.get(expectation.rule, "")
    if expectation.declared is not None:
        type_ = expectation.declared.type
        columns = expectation.declared.columns.items()
        arguments = {key: frame_column(spec, one) for key, one in columns}
        arguments |= {key: _listed(one) for key, one in expectation.declared.arguments.items()}
    if "_values_" in type_ or "_value_" in type_:
        arguments["mostly"] = float(expectation.share)
    kind = getattr(_library().expectations, _class_name(type_))
    return kind(**arguments, meta={"name": expectation.name})


def _class_name(type_: str) -> str:
    """The library's class of a type.

    >>> _class_name("expect_column_pair_values_a_to_be_greater_than_b")
    'ExpectColumnPairValuesAToBeGreaterThanB'
    """
    return "".join(word.capitalize() for word in type_.split("_"))


def _listed(value: Argument) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _levels(spec: DatasetSpec, attribute: str) -> tuple[str, ...]:
    cells = spec.domain[attribute].cells
    return cells.values if isinstance(cells, Levels) else ()
