"""What keeps the two tables append-only on a PostgreSQL server.

The triggers fire ``ALWAYS``: a session that calls itself a replica does not pass
them. Whoever may alter the tables can drop them, and is found by ``missing_guards``,
by the hash chain, or by the head.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, text

from dp_pipeline.ledger.tables import GENESIS

_REFUSED = "RAISE EXCEPTION 'the ledger is append-only' USING ERRCODE = '23000';"
_BEFORE, _EACH_ROW = 2, 1
_MOMENTS = {"INSERT": 4, "DELETE": 8, "UPDATE": 16, "TRUNCATE": 32}
"""Bits of ``pg_trigger.tgtype``."""

# A reservation or an account twice is refused by the unique indexes, and what an upsert would
# put in its place by the guards against updates.
_FOLLOWS_THE_TIP = f"""BEGIN
IF NEW.sequence IS DISTINCT FROM (SELECT coalesce(max(sequence), 0) + 1 FROM entries)
OR NEW.previous IS DISTINCT FROM coalesce(
(SELECT hash FROM entries ORDER BY sequence DESC LIMIT 1), '{GENESIS}')
THEN {_REFUSED} END IF; RETURN NEW; END"""
_BELONGS_TO_THE_TIP = f"""BEGIN
IF NEW.entry IS DISTINCT FROM (SELECT max(sequence) FROM entries)
THEN {_REFUSED} END IF; RETURN NEW; END"""


@dataclass(frozen=True)
class Guard:
    """One trigger and its function, which share a name.

    moment   INSERT (of each row), UPDATE, DELETE or TRUNCATE (of each statement, also of
             one that finds no row)
    body     PL/pgSQL
    """

    name: str
    table: str
    moment: str
    body: str = f"BEGIN {_REFUSED} END"

    def create(self, connection: Connection) -> None:
        """Make function and trigger."""
        each = "ROW" if self.moment == "INSERT" else "STATEMENT"
        for statement in (
            f"CREATE FUNCTION {self.name}() RETURNS trigger LANGUAGE plpgsql AS $${self.body}$$",
            f"CREATE TRIGGER {self.name} BEFORE {self.moment} ON {self.table} "
            f"FOR EACH {each} EXECUTE FUNCTION {self.name}()",
            f"ALTER TABLE {self.table} ENABLE ALWAYS TRIGGER {self.name}",
        ):
            connection.exec_driver_sql(statement)

    @property
    def catalogued(self) -> tuple[str, str, int, str]:
        """Its row as ``_CATALOGUE`` gives it."""
        each = _EACH_ROW if self.moment == "INSERT" else 0
        return self.name, self.table, _BEFORE | each | _MOMENTS[self.moment], self.body


GUARDS: Final = (
    *(
        Guard(f"{table}_not_{moment.lower()}d", table, moment)
        for table in ("entries", "spends")
        for moment in ("UPDATE", "DELETE")
    ),
    *(Guard(f"{table}_not_emptied", table, "TRUNCATE") for table in ("entries", "spends")),
    Guard("entries_follow_the_tip", "entries", "INSERT", _FOLLOWS_THE_TIP),
    Guard("spends_belong_to_the_tip", "spends", "INSERT", _BELONGS_TO_THE_TIP),
)

_CATALOGUE = text(
    "SELECT tgname, relname, tgtype, prosrc FROM pg_trigger "
    "JOIN pg_class ON pg_class.oid = tgrelid JOIN pg_proc ON pg_proc.oid = tgfoid "
    "WHERE tgrelid IN (to_regclass('entries'), to_regclass('spends')) "
    "AND tgenabled = 'A' AND tgqual IS NULL AND tgattr = ''"
)


def missing_guards(connection: Connection) -> list[str]:
    """The triggers that should be there, always on and word for word, and are not."""
    present = {tuple(row) for row in connection.execute(_CATALOGUE)}
    return [guard.name for guard in GUARDS if guard.catalogued not in present]
