"""The two tables, and the triggers that keep them append-only.

Nothing is ever updated: a budget is the sum of its rows, an outcome is a row of
its own. The triggers stop mistakes and casual edits; an edit behind their back
is what the hash chain is for.
"""

from __future__ import annotations

from typing import Final

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
    event,
)

GENESIS: Final = "0" * 64
"""The hash before the first row."""

metadata = MetaData()

entries = Table(
    "entries",
    metadata,
    # Numbered by the writer, without gaps, so that a missing row is seen.
    Column("sequence", Integer, primary_key=True, autoincrement=False),
    Column("event", Text, nullable=False),
    Column("time", Text, nullable=False),
    Column("lineage", Text, nullable=False),
    Column("key", Text),
    Column("source", Text),
    Column("kind", Text),
    Column("nano_epsilon", BigInteger, nullable=False),
    Column("what", Text, nullable=False),
    Column("facts", Text, nullable=False),
    Column("previous", Text, nullable=False),
    Column("hash", Text, nullable=False),
    CheckConstraint("nano_epsilon >= 0"),
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

Index("entries_by_lineage", entries.c.lineage, entries.c.event, entries.c.nano_epsilon)
Index("entries_by_key", entries.c.key)
Index("entries_by_source", entries.c.source)
Index(
    "one_reserve_per_key",
    entries.c.key,
    unique=True,
    sqlite_where=entries.c.event == "reserve",
    postgresql_where=entries.c.event == "reserve",
)
Index(
    "one_account_per_lineage",
    entries.c.lineage,
    unique=True,
    sqlite_where=entries.c.event == "account",
    postgresql_where=entries.c.event == "account",
)


def _abort(name: str, moment: str, when: str = "") -> str:
    return (
        f"CREATE TRIGGER {name} BEFORE {moment} {when}"
        "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
    )


# INSERT OR REPLACE deletes without firing a DELETE trigger: hence the checks before an insert.
SQLITE_TRIGGERS: Final = (
    _abort("entries_not_updated", "UPDATE ON entries"),
    _abort("entries_not_deleted", "DELETE ON entries"),
    _abort("spends_not_updated", "UPDATE ON spends"),
    _abort("spends_not_deleted", "DELETE ON spends"),
    _abort(
        "entries_follow_the_tip",
        "INSERT ON entries",
        "WHEN NEW.sequence IS NOT (SELECT coalesce(max(sequence), 0) + 1 FROM entries) "
        "OR NEW.previous IS NOT coalesce("
        f"(SELECT hash FROM entries ORDER BY sequence DESC LIMIT 1), '{GENESIS}') ",
    ),
    _abort(
        "reserves_not_replaced",
        "INSERT ON entries",
        "WHEN NEW.event = 'reserve' AND EXISTS "
        "(SELECT 1 FROM entries WHERE key = NEW.key AND event = 'reserve') ",
    ),
    _abort(
        "accounts_not_replaced",
        "INSERT ON entries",
        "WHEN NEW.event = 'account' AND EXISTS "
        "(SELECT 1 FROM entries WHERE lineage = NEW.lineage AND event = 'account') ",
    ),
    _abort(
        "spends_belong_to_the_tip",
        "INSERT ON spends",
        "WHEN NEW.entry IS NOT (SELECT max(sequence) FROM entries) OR EXISTS "
        "(SELECT 1 FROM spends WHERE entry = NEW.entry AND ordinal = NEW.ordinal) ",
    ),
)


@event.listens_for(metadata, "after_create")
def _create_triggers(_: MetaData, connection: Connection, **__: object) -> None:
    if connection.dialect.name == "sqlite":
        for statement in SQLITE_TRIGGERS:
            connection.exec_driver_sql(statement)
