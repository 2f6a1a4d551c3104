"""Evaluation of expectations on frames with Great Expectations, which returns booleans and counts.

All of its other result formats list offending values.
"""

from __future__ import annotations

import gc
import os
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import pandas as pd

from dp_pipeline.config.database import has_driver
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import PipelineError
from dp_pipeline.raw.expectations import HAS_ROWS, Expectation
from dp_pipeline.raw.stages import BatchReader
from dp_pipeline.raw.validation_frames import row_frame
from dp_pipeline.raw.workers import ParallelMap

VERDICTS_ONLY = "BOOLEAN_ONLY"
_COUNTS_ONLY = {"result_format": "BASIC", "partial_unexpected_count": 0}
"""Result format with counts, and an empty list in place of values."""


def evaluate(
    spec: DatasetSpec, expectations: tuple[Expectation, ...], frame: pd.DataFrame
) -> dict[str, bool]:
    """Return the name of each expectation → whether a frame fulfils it.

    PipelineError if an expectation has no result, since the library drops unknown ones silently.
    """
    results = _results(spec, expectations, frame, VERDICTS_ONLY)
    return {name: bool(result.success) for name, result in results.items()}


def evaluate_batches(
    spec: DatasetSpec,
    expectations: tuple[Expectation, ...],
    batches: Sequence[BatchReader],
    parallel_map: ParallelMap,
) -> dict[str, Tally]:
    """Return the name of each expectation → its counts over all batches, read by workers."""
    totals = {expectation.name: Tally() for expectation in expectations}
    for tallies in parallel_map(partial(_tally_batch, spec, expectations), batches):
        totals = {name: total.plus(tallies[name]) for name, total in totals.items()}
    return totals


def _tally_batch(
    spec: DatasetSpec, expectations: tuple[Expectation, ...], read: BatchReader
) -> dict[str, Tally]:
    results = _results(spec, expectations, row_frame(spec, read()), _COUNTS_ONLY)
    tallies = {name: Tally.of(result) for name, result in results.items()}
    del results
    # The library's objects form cycles that keep the large frame alive.
    gc.collect()
    return tallies


class Tally(NamedTuple):
    """The counts of an expectation's evaluation, which can be added up.

    row_count    evaluated rows: those with a value, where missing values are not tested
    unexpected   rows that break it
    failed       whether the library failed on some rows
    """

    row_count: int = 0
    unexpected: int = 0
    failed: bool = False

    @classmethod
    def of(cls, result: Any) -> Tally:
        # Counts alone, since the library's text of an exception may quote rows.
        counts = result.result
        if "observed_value" in counts:
            return cls(row_count=int(counts["observed_value"]))
        if "unexpected_count" not in counts:
            return cls(failed=True)
        row_count = int(counts["element_count"]) - int(counts.get("missing_count") or 0)
        return cls(row_count, int(counts["unexpected_count"]))

    def plus(self, tally: Tally) -> Tally:
        return Tally(
            self.row_count + tally.row_count,
            self.unexpected + tally.unexpected,
            self.failed or tally.failed,
        )

    def is_fulfilled(self, expectation: Expectation) -> bool:
        if expectation.type == HAS_ROWS:
            return self.row_count > 0
        if self.failed or not self.row_count:
            return not self.failed
        # The library compares shares in the same way.
        return self.share >= float(expectation.share)

    @property
    def share(self) -> float:
        return (self.row_count - self.unexpected) / self.row_count if self.row_count else 1.0


def _results(
    spec: DatasetSpec, expectations: tuple[Expectation, ...], frame: pd.DataFrame, form: Any
) -> dict[str, Any]:
    """Return the name of each expectation → the library's result, which may quote rows.

    form   the library's format of results

    PipelineError unless there is one result for each expectation.
    """
    suite = library_suite(spec.name, expectations)
    definition = add_frame_source(library_context(), "frame")
    batch = definition.get_batch(batch_parameters={"dataframe": frame})
    results = batch.validate(suite, result_format=form)
    by_name = {str(r.expectation_config.meta["name"]): r for r in results.results}
    if len(results.results) != len(expectations) or set(by_name) != {e.name for e in expectations}:
        raise PipelineError(
            f"{spec.name}: Great Expectations must give one verdict on each of "
            f"{len(expectations)} expectations, but its {len(results.results)} verdicts are not "
            "those: install the version that this program was tested with, which its "
            "constraints.txt names"
        )
    return by_name


def load_library() -> Any:
    """Import Great Expectations with its analytics switched off, and return the module.

    PipelineError if PySpark is installed without Spark Connect."""
    # The library reads it when it is imported.
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    if not has_driver():
        # The library imports the driver itself, and fails at a broken one.
        sys.modules["psycopg2"] = None  # type: ignore[assignment]
    try:
        with warnings.catch_warnings():
            # PySpark's warning about pandas, which users of this package cannot act on.
            warnings.simplefilter("ignore", FutureWarning)
            import great_expectations
    except SystemExit:
        # The library imports PySpark if it is installed, which without Spark Connect ends the
        # process with exit code 0.
        raise PipelineError(
            "Great Expectations needs PySpark with Spark Connect, or no PySpark: `pip install "
            "'pyspark[connect]'`, or remove pyspark"
        ) from None
    return great_expectations


def library_context() -> Any:
    """Return a Great Expectations project in memory, without files or progress bars."""
    context = load_library().get_context(mode="ephemeral")
    from great_expectations.data_context.types.base import ProgressBarsConfig

    bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    context.variables.progress_bars = bars
    return context


def add_frame_source(context: Any, name: str) -> Any:
    """Add a pandas source to a project; return the definition of a batch that is a whole frame."""
    asset = context.data_sources.add_pandas(name).add_dataframe_asset(name)
    return asset.add_batch_definition_whole_dataframe("all")


def library_suite(name: str, expectations: Sequence[Expectation]) -> Any:
    """Return expectations as a suite of Great Expectations."""
    library, translated = load_library(), []
    for expectation in expectations:
        arguments = {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in expectation.arguments.items()
        }
        if "_values_" in expectation.type or "_value_" in expectation.type:
            arguments["mostly"] = float(expectation.share)
        # expect_column_to_exist → ExpectColumnToExist
        class_name = "".join(word.capitalize() for word in expectation.type.split("_"))
        severity = "critical" if expectation.blocking else "warning"
        make = getattr(library.expectations, class_name)
        translated.append(make(**arguments, severity=severity, meta={"name": expectation.name}))
    return library.ExpectationSuite(name=name, expectations=translated)
