"""Every column of every table: whatever is changed in one, ``verify`` does not pass."""

import pytest

from dp_pipeline.config.errors import PipelineError
from dp_pipeline.ledger import Ledger, head
from dp_pipeline.ledger.journal import metadata
from dp_pipeline_tests.ledger.population import charge, raw, release, require_refused

COLUMNS = [
    (table.name, column.name) for table in metadata.sorted_tables for column in table.columns
]
NUMBERS = ("sequence", "nano_epsilon", "entry", "ordinal")
ROW = {"entries": "event = 'source'", "spends": "ordinal = 1", "state": "kind = 'source'"}
ANOTHER_ROW = {"key": "event = 'reserve'", "kind": "event = 'settled'"}
"""Of entries, for columns that are empty on the row of a claim."""


@pytest.fixture
def written(ledger: Ledger) -> Ledger:
    """A claim, a release by two spends, and one without any ε."""
    ledger.claim_source("trips", "file:a")
    release(ledger, charge("a"), "0.04", "0.06")
    release(ledger, charge("free", epsilon="0"))
    ledger.verify()
    return ledger


def change(ledger: Ledger, statement: str) -> None:
    """One statement, after every trigger and constraint that is in its way."""
    raw(ledger.folder, "PRAGMA foreign_keys = OFF", statement, checks=False)


@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_a_changed_column_is_found(written: Ledger, table: str, column: str):
    row = ANOTHER_ROW.get(column, ROW[table]) if table == "entries" else ROW[table]
    value = f"{column} + 7" if column in NUMBERS else f"{column} || '0'"
    change(written, f"UPDATE {table} SET {column} = {value} WHERE {row}")
    require_refused(PipelineError, r"^((?!trigger).)*$", written.verify)  # Not by a trigger.


@pytest.mark.parametrize(
    "plausible",
    [
        "UPDATE entries SET facts = replace(facts, 'grid', 'grad') WHERE event = 'reserve'",
        "UPDATE entries SET time = substr(time, 1, 20) || '999999+00:00' WHERE event = 'settled'",
        "UPDATE entries SET state = hash WHERE event = 'source'",
        "UPDATE entries SET source = 'file:b' WHERE event = 'source'",
        "UPDATE entries SET kind = 'dp' WHERE kind = 'not-dp'",
        "UPDATE entries SET event = 'retired' WHERE event = 'source'",
        "UPDATE spends SET scale = '7' WHERE ordinal = 1",
    ],
)
def test_a_plausible_value_is_found_as_changed(written: Ledger, plausible: str):
    change(written, plausible)
    require_refused(PipelineError, "does not match its hash: it was changed", written.verify)


def test_the_hash_covers_every_column():
    """What is hashed: every column but the hash, and every spend without its row's number."""
    entries, spends = metadata.tables["entries"], metadata.tables["spends"]
    assert {*head._COLUMNS, "hash"} == set(entries.columns.keys())
    assert {*head._SPEND_COLUMNS, "entry"} == set(spends.columns.keys())
