"""Errors of the library as Dagster failures: one red line, never retried."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg

from dp_pipeline.schema.epsilon import epsilon_text
from dp_pipeline.schema.errors import BudgetExceeded, PipelineError
from dp_pipeline.schema.spec import DatasetSpec
from dp_pipeline.schema.system_errors import system_error


@contextmanager
def one_line_failures(spec: DatasetSpec) -> Iterator[None]:
    """Turn a PipelineError into a Failure that Dagster does not retry.

    The exit code travels in the metadata, and for a refused budget a small table. What the
    operating system refuses is told with its reason. Of any other error on release data only type
    and place are kept: its words may quote rows, and the event log is read by more people than
    the raw store.
    """
    try:
        yield
    except PipelineError as error:
        raise failure_of(error) from None
    except Exception as error:
        refused = system_error(error)
        if refused is not None:
            raise dg.Failure(f"{spec.name}: {refused}", allow_retries=False) from None
        if not spec.is_release:
            raise
        raise dg.Failure(_without_words(spec, error), allow_retries=False) from None


def failure_of(error: PipelineError) -> dg.Failure:
    """The line of an error with its exit code, never retried."""
    metadata: dict[str, dg.MetadataValue] = {"exit_code": dg.MetadataValue.int(error.exit_code)}
    if isinstance(error, BudgetExceeded):
        metadata["budget"] = _budget_table(error)
    return dg.Failure(str(error), metadata=metadata, allow_retries=False)


def _without_words(spec: DatasetSpec, error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(last.filename).name}:{last.lineno}"
    return f"{spec.name}: unexpected {type(error).__name__} at {place}; its words are left out"


def _budget_table(error: BudgetExceeded) -> dg.MetadataValue:
    amounts = {
        "asked": error.asked,
        "spent": error.spent,
        "left": error.left,
        "ceiling": error.ceiling,
    }
    records = [
        dg.TableRecord({error.symbol: name, "amount": epsilon_text(amount)})
        for name, amount in amounts.items()
    ]
    return dg.MetadataValue.table(records)
