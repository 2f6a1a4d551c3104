"""Errors of the library as Dagster failures: one red line, never retried."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from dp_pipeline.schema.epsilon import epsilon_text
from dp_pipeline.schema.errors import BudgetExceeded, PipelineError


@contextmanager
def one_line_failures() -> Iterator[None]:
    """Turn a PipelineError into a Failure that Dagster does not retry.

    The exit code travels in the metadata, and for a refused budget a small table.
    """
    try:
        yield
    except PipelineError as error:
        metadata: dict[str, dg.MetadataValue] = {"exit_code": dg.MetadataValue.int(error.exit_code)}
        if isinstance(error, BudgetExceeded):
            metadata["budget"] = _budget_table(error)
        raise dg.Failure(str(error), metadata=metadata, allow_retries=False) from None


def _budget_table(error: BudgetExceeded) -> dg.MetadataValue:
    amounts = {
        "asked": error.asked,
        "spent": error.spent,
        "left": error.left,
        "ceiling": error.ceiling,
    }
    records = [
        dg.TableRecord({"ε": name, "amount": epsilon_text(amount)})
        for name, amount in amounts.items()
    ]
    return dg.MetadataValue.table(records)
