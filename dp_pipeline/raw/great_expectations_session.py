"""Short sessions with Great Expectations: expectations and frames in, booleans or its pages out.

Every result format but BOOLEAN_ONLY puts offending values into the result: none is asked for.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
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


_FORMAT = "BOOLEAN_ONLY"

Part = tuple[str, tuple[Expectation, ...], pd.DataFrame]
"""Name of a suite, its expectations, and what they are about."""


def passed(
    spec: DatasetSpec, declared: tuple[Expectation, ...], frame: pd.DataFrame
) -> dict[str, bool]:
    """Name of each declared expectation → whether ``frame`` fulfils it.

    Raises PipelineError when an expectation has no result: the library drops
    what it does not know, and a suite without expectations passes.
    """
    suite = [_translated(spec, expectation) for expectation in declared]
    results = _batch(frame).validate(_suite(spec.name, suite), result_format=_FORMAT).results
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
    return _definition(_context(), "frame").get_batch(batch_parameters={"dataframe": frame})


def _context() -> Any:
    """A project of the library in memory, which writes nothing and shows nothing."""
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = _library().get_context(mode="ephemeral")
    bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    context.variables.progress_bars = bars
    return context


def _definition(context: Any, name: str) -> Any:
    asset = context.data_sources.add_pandas(name).add_dataframe_asset(name)
    return asset.add_batch_definition_whole_dataframe("all")


def write_pages(spec: DatasetSpec, parts: Sequence[Part], folder: Path) -> None:
    """Write each suite into ``folder`` as JSON, NAME.json, and the library's pages about all of
    them into ``folder/data_docs``. They say whether each expectation is fulfilled.
    """
    context = _context()
    context.add_data_docs_site("steward", _site(folder / "data_docs"))
    for name, declared, frame in parts:
        translated = [_translated(spec, expectation) for expectation in declared]
        suite = context.suites.add(_suite(name, translated))
        text = json.dumps(suite.to_json_dict(), indent=1, ensure_ascii=False)
        (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        validation = context.validation_definitions.add(
            _library().ValidationDefinition(name=name, data=_definition(context, name), suite=suite)
        )
        validation.run(batch_parameters={"dataframe": frame}, result_format=_FORMAT)
    context.build_data_docs(site_names=["steward"])


def _site(folder: Path) -> dict[str, Any]:
    return {
        "class_name": "SiteBuilder",
        "show_how_to_buttons": False,
        "store_backend": {
            "class_name": "TupleFilesystemStoreBackend",
            "base_directory": str(folder),
        },
        "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
    }


def _suite(name: str, expectations: list[Any]) -> Any:
    return _library().ExpectationSuite(name=name, expectations=expectations)


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
    severity = "critical" if expectation.blocking else "warning"
    return kind(**arguments, severity=severity, meta={"name": expectation.name})


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
