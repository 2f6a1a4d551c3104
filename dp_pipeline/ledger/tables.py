"""The three tables of a ledger: rows, the draws of noise that belong to them, and a small table
of what all rows so far add up to.

``entries`` and ``spends`` are never updated: a charge is a row, an outcome is a row of its own.
``state`` follows them, in the transaction of each row. Triggers (``sqlite.py`` and
``postgres_guards.py``) stop mistakes and casual edits; an edit behind their back is what the hash
chain is for.

The hash chain: every row carries the hash of the row before it.

A chain finds a row edited, removed from the middle or slipped in. It cannot
find a whole ledger rewritten from some row on, nor rows cut off at the end:
that is what the external checkpoint is for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Connection,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    func,
    insert,
    select,
    text,
)
from sqlalchemy.schema import CreateIndex, CreateTable

from dp_pipeline.spec.errors import Damaged

GENESIS: Final = "0" * 64
"""The hash before the first row."""
FORMAT: Final = 3
"""Of what this program writes; the second had no ``state``."""
_LEAST = "nano_epsilon >= 0"
CHARGES: Final = f"CHECK ({_LEAST})"
"""What stops a row that charges less than nothing, as the databases say it."""

metadata = MetaData()

entries = Table(
    "entries",
    metadata,
    # Numbered by the writer, without gaps, so that a missing row is seen.
    Column("sequence", Integer, primary_key=True, autoincrement=False),
    Column("event", Text, nullable=False),
    Column("time", Text, nullable=False),
    # A population: the word of the first format, which all later ones and their hashes keep.
    Column("lineage", Text, nullable=False),
    Column("key", Text),
    Column("source", Text),
    Column("kind", Text),
    Column("nano_epsilon", BigInteger, nullable=False),
    Column("what", Text, nullable=False),
    Column("facts", Text, nullable=False),
    Column("previous", Text, nullable=False),
    Column("hash", Text, nullable=False),
    # Last, because rows of the second format get it later, empty.
    Column("state", Text),
    CheckConstraint(_LEAST),
)

spends = Table(
    "spends",
    metadata,
    Column("entry", Integer, ForeignKey("entries.sequence"), primary_key=True),
    Column("ordinal", Integer, primary_key=True),
    Column("what", Text, nullable=False),
    Column("mechanism", Text, nullable=False),
    Column("epsilon", Text, nullable=False),
    Column("scale", Text, nullable=False),
)

state = Table(
    "state",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("lineage", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    # The number of the row that wrote it.
    Column("entry", Integer, nullable=False),
    Column("value", Text, nullable=False),
)

# Spelled out, not bound: a partial index answers a query that has its very words.
RESERVED: Final = text("event = 'reserve'")
ENDED: Final = text("event IN ('settled', 'dead')")

Index("entries_by_lineage", entries.c.lineage, entries.c.event, entries.c.kind)
# Two indexes that share no row: a damaged page of one is contradicted by the other, or by `state`.
# In words that both databases take: SQLAlchemy's own would load all its drivers of PostgreSQL, for
# which every command would wait.
_PARTIAL: Final = tuple(
    f"CREATE UNIQUE INDEX {name} ON entries (key) WHERE {where.text}"
    for name, where in (("one_reserve_per_key", RESERVED), ("one_end_per_key", ENDED))
)


def create_tables(connection: Connection) -> None:
    """Make all tables with their indexes."""
    metadata.create_all(connection, checkfirst=False)
    _add_partial(connection)


def _add_partial(connection: Connection) -> None:
    for statement in _PARTIAL:
        connection.exec_driver_sql(statement)


def add_state(connection: Connection) -> None:
    """Give the tables of the second format, without their indexes, what the third has more."""
    connection.exec_driver_sql("ALTER TABLE entries ADD COLUMN state TEXT")
    connection.execute(CreateTable(state))
    for index in entries.indexes:
        connection.execute(CreateIndex(index))
    _add_partial(connection)


def write_seal(connection: Connection) -> None:
    """The row of ``state`` that every ledger has: it closes the table at the newest row."""
    newest = connection.execute(select(func.coalesce(func.max(entries.c.sequence), 0))).scalar_one()
    seal = {"kind": "ledger", "lineage": "", "name": "", "entry": newest, "value": "{}"}
    connection.execute(insert(state), seal)


_COLUMNS = tuple(c.name for c in entries.columns if c.name != "hash")
_SPEND_COLUMNS = tuple(c.name for c in spends.columns if c.name != "entry")

Row = Mapping[str, Any]


def digest(row: Row, children: Sequence[Row]) -> str:
    """SHA-256 over the canonical JSON of every column but the hash, and of all child rows."""
    content = {name: row[name] for name in _COLUMNS}
    if row["state"] is None:
        # The second format had no such column, and its hashes no such word.
        del content["state"]
    content["spends"] = [[child[name] for name in _SPEND_COLUMNS] for child in children]
    return hashlib.sha256(canonical(content).encode("ascii")).hexdigest()


def canonical(value: object) -> str:
    """JSON with one spelling: sorted names, no spaces, ASCII."""
    # A planted blob or float must give another hash, not an exception: hence the default.
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=repr)


class Chain:
    """Checks rows one after the other, from the first.

    tip       the hash that the next row has to name as the one before
    followed  the hash of the newest row of the ledger itself: what a row that names one of
              nobody's binds, because the hash of that one binds nothing before it

    >>> Chain().expected_sequence
    1
    """

    def __init__(self) -> None:
        self.expected_sequence = 1
        self.tip = self.followed = GENESIS

    def follow(self, row: Row, children: Sequence[Row]) -> None:
        """Take the next row; Damaged if it is not what was once written there."""
        at = f"ledger row {self.expected_sequence}"
        if row["sequence"] != self.expected_sequence:
            raise Damaged(f"{at} is missing: the next row found is {row['sequence']}")
        if row["previous"] != self.tip:
            raise Damaged(f"{at} does not follow the row before it")
        if row["hash"] != digest(row, children):
            raise Damaged(f"{at} ({row['event']}) does not match its hash: it was changed")
        self.expected_sequence += 1
        self.tip = self.followed = row["hash"]

    def pass_over(self, row: Row) -> None:
        """Go on behind a row that another one names: whoever wrote it followed no rule, so it may
        stand anywhere.
        """
        if row["sequence"] >= self.expected_sequence:
            self.expected_sequence = row["sequence"] + 1
            self.tip = row["hash"]
