"""The triggers that keep the tables of a ledger append-only in both databases, and their check.

A row of ``state`` may change only between the insert of a ledger row and the moment when the row
``ledger`` of ``state`` takes its number.

On a server the triggers fire ``ALWAYS``, also in a session that calls itself a replica. The owner
of the tables can drop them; ``guard_faults``, the hash chain or the head then shows it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from sqlalchemy import Connection, create_engine, text

from dp_pipeline.ledger.head import GENESIS
from dp_pipeline.ledger.journal import CHARGES, create_tables

_TIP = "(SELECT coalesce(max(sequence), 0) FROM entries)"
_SEAL = (
    "coalesce((SELECT entry FROM state "
    "WHERE kind = 'ledger' AND population = '' AND name = ''), -1)"
)
_IS_CLOSED = f"{_SEAL} = {_TIP}"
_NEW_IS_SEAL, _OLD_IS_SEAL = (
    f"({row}.kind = 'ledger' AND {row}.population = '' AND {row}.name = '')"
    for row in ("NEW", "OLD")
)
_BEFORE, _EACH_ROW = 2, 1
_EVENTS = {"INSERT": 4, "DELETE": 8, "UPDATE": 16, "TRUNCATE": 32}
"""Bits of ``pg_trigger.tgtype``."""
_REFUSAL = "the ledger is append-only"


@dataclass(frozen=True)
class Guard:
    """A database trigger that refuses one kind of change of a table.

    event       INSERT, UPDATE, DELETE or TRUNCATE
    condition   SQL condition of the refused rows, in both dialects; empty: every statement
    """

    name: str
    table: str
    event: str
    condition: str = ""

    def statements(self, dialect: str, schema: str = "") -> Iterator[str]:
        """Yield the SQL statements that create the trigger.

        dialect   "sqlite" or "postgresql"
        schema    on a server, that of the tables, so that no temporary tables are read instead
        """
        if dialect == "sqlite":
            when = f"WHEN {self.condition} " if self.condition else ""
            yield (
                f"CREATE TRIGGER {self.name} BEFORE {self.event} ON {self.table} {when}"
                f"BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END"
            )
            return
        level = "ROW" if self.condition else "STATEMENT"
        yield (
            f"CREATE OR REPLACE FUNCTION {self.name}() RETURNS trigger LANGUAGE plpgsql "
            f"SET search_path = {schema}, pg_temp AS $${self.body}$$"
        )
        yield (
            f"CREATE TRIGGER {self.name} BEFORE {self.event} ON {self.table} "
            f"FOR EACH {level} EXECUTE FUNCTION {self.name}()"
        )
        yield f"ALTER TABLE {self.table} ENABLE ALWAYS TRIGGER {self.name}"

    @property
    def body(self) -> str:
        refuse = f"RAISE EXCEPTION '{_REFUSAL}' USING ERRCODE = '23000';"
        if not self.condition:
            return f"BEGIN {refuse} END"
        return f"BEGIN IF {self.condition} THEN {refuse} END IF; RETURN coalesce(NEW, OLD); END"

    @property
    def catalogue_row(self) -> tuple[str, str, int, str]:
        """The trigger as the server's catalogue describes it: name, table, type bits and body."""
        level = _EACH_ROW if self.condition else 0
        return self.name, self.table, _BEFORE | level | _EVENTS[self.event], self.body


# INSERT OR REPLACE deletes without firing a DELETE trigger: hence the checks before an insert.
_GUARDS: Final = (
    *(
        Guard(f"{table}_not_{event.lower()}d", table, event)
        for table in ("entries", "spends")
        for event in ("UPDATE", "DELETE")
    ),
    *(Guard(f"{table}_not_emptied", table, "TRUNCATE") for table in ("entries", "spends", "state")),
    Guard(
        "entries_follow_the_tip",
        "entries",
        "INSERT",
        f"NEW.sequence <> {_TIP} + 1 OR {_SEAL} <> {_TIP} OR NEW.previous <> coalesce("
        f"(SELECT hash FROM entries ORDER BY sequence DESC LIMIT 1), '{GENESIS}') "
        "OR (NEW.event = 'reserve' AND EXISTS "
        "(SELECT 1 FROM entries WHERE key = NEW.key AND event = 'reserve')) "
        "OR (NEW.event IN ('settled', 'dead') AND EXISTS "
        "(SELECT 1 FROM entries WHERE key = NEW.key AND event IN ('settled', 'dead')))",
    ),
    Guard(
        "spends_belong_to_the_tip",
        "spends",
        "INSERT",
        f"NEW.entry <> {_TIP} OR {_IS_CLOSED} OR EXISTS "
        "(SELECT 1 FROM spends WHERE entry = NEW.entry AND ordinal = NEW.ordinal)",
    ),
    Guard(
        "state_not_inserted",
        "state",
        "INSERT",
        f"{_IS_CLOSED} OR (NEW.kind = 'ledger' "
        f"AND NOT ({_NEW_IS_SEAL} AND {_SEAL} = -1 AND NEW.entry = {_TIP}))",
    ),
    Guard(
        "state_sealed_once",
        "state",
        "UPDATE",
        f"{_IS_CLOSED} OR (({_OLD_IS_SEAL} OR NEW.kind = 'ledger') "
        f"AND NOT ({_NEW_IS_SEAL} AND {_OLD_IS_SEAL} AND NEW.entry = {_TIP}))",
    ),
    Guard("state_not_deleted", "state", "DELETE", f"{_OLD_IS_SEAL} OR {_IS_CLOSED}"),
)


def guards_of(dialect: str) -> tuple[Guard, ...]:
    """Return all triggers of a ledger in an SQL dialect, "sqlite" or "postgresql"; SQLite has no
    TRUNCATE."""
    return tuple(guard for guard in _GUARDS if dialect != "sqlite" or guard.event != "TRUNCATE")


def create_guards(connection: Connection) -> None:
    dialect, schema = connection.dialect.name, ""
    if dialect != "sqlite":
        schema = connection.exec_driver_sql("SELECT quote_ident(current_schema())").scalar_one()
    for guard in guards_of(dialect):
        for statement in guard.statements(dialect, schema):
            connection.exec_driver_sql(statement)


def drop_guards(connection: Connection) -> None:
    """Drop all triggers of the ledger's tables, also foreign ones; on a server, only the owner of
    the tables may."""
    quoted = connection.dialect.identifier_preparer.quote_identifier
    for name, table in _triggers(connection):
        on = "" if connection.dialect.name == "sqlite" else f" ON {table}"
        connection.exec_driver_sql(f"DROP TRIGGER {quoted(name)}{on}")


def _triggers(connection: Connection) -> list[tuple[str, str]]:
    query = _FILE_TRIGGERS if connection.dialect.name == "sqlite" else _SERVER_TRIGGERS
    return [(name, table) for name, table in connection.execute(query)]


_FILE_TRIGGERS = text("SELECT name, tbl_name FROM sqlite_master WHERE type = 'trigger'")
_TABLES = "(to_regclass('entries'), to_regclass('spends'), to_regclass('state'))"
_SERVER_TRIGGERS = text(
    "SELECT tgname, relname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid "
    f"WHERE tgrelid IN {_TABLES} AND NOT tgisinternal"
)
_CATALOGUE = text(
    "SELECT tgname, relname, tgtype, prosrc FROM pg_trigger "
    "JOIN pg_class ON pg_class.oid = tgrelid JOIN pg_proc ON pg_proc.oid = tgfoid "
    f"WHERE tgrelid IN {_TABLES} AND tgenabled = 'A' AND tgqual IS NULL AND tgattr = '' "
    "AND proconfig = ARRAY['search_path=' || relnamespace::regnamespace || ', pg_temp']"
)
_LIMITS = text(
    "SELECT pg_get_constraintdef(oid) FROM pg_constraint "
    "WHERE conrelid = to_regclass('entries') AND contype = 'c'"
)


def guard_faults(connection: Connection) -> list[str]:
    """Return a phrase, with its remedy, for each trigger, constraint, index or column that is not
    as in a new ledger; on a server only triggers and the constraint are compared."""
    own = {guard.name for guard in guards_of(connection.dialect.name)}
    triggers = [name for name, _ in _triggers(connection)]
    added = [name for name in triggers if name not in own]
    there = {f"trigger {name}" for name in triggers}
    if connection.dialect.name == "sqlite":
        there |= _parts_of_file(connection).keys()
    return [
        *(
            f"{name} was {'changed' if name in there else 'removed'}: {_remedy(name)}"
            for name in _missing(connection)
        ),
        *(f"trigger {name} was added: {_remedy('trigger')}" for name in added),
    ]


def _remedy(name: str) -> str:
    if name.startswith("trigger"):
        return "`dp-pipeline budget restore --reason …` makes the triggers anew"
    return "put back a copy with all rows"


def _missing(connection: Connection) -> list[str]:
    if connection.dialect.name == "sqlite":
        present = _parts_of_file(connection).items()
        return [name for name, part in _parts_of_new_file().items() if (name, part) not in present]
    catalogue = {tuple(row) for row in connection.execute(_CATALOGUE)}
    guards = guards_of(connection.dialect.name)
    missing = [f"trigger {guard.name}" for guard in guards if guard.catalogue_row not in catalogue]
    limits = {_bare(limit) for limit in connection.execute(_LIMITS).scalars()}
    return missing if _bare(CHARGES) in limits else [*missing, f"limit {CHARGES}"]


def _bare(limit: str) -> str:
    """Return the text of a constraint without the server's parentheses and NOT VALID."""
    return limit.removesuffix(" NOT VALID").replace("(", "").replace(")", "")


def _parts_of_file(connection: Connection) -> dict[str, object]:
    parts: dict[str, object] = {}
    objects = connection.exec_driver_sql("SELECT type, name, tbl_name, sql FROM sqlite_master")
    for kind, name, table, sql in objects:
        # A table whose column was added by hand has another definition, but the same columns.
        if kind != "table":
            parts[f"{kind} {name}"] = table, sql
        elif CHARGES in str(sql):
            parts[f"limit {CHARGES}"] = name
    for kind, pragma in (("column", "table_info"), ("reference", "foreign_key_list")):
        rows = connection.exec_driver_sql(
            f"SELECT tables.name, part.* FROM sqlite_master AS tables, pragma_{pragma}(tables.name)"
            " AS part WHERE tables.type = 'table'"
        )
        parts |= {f"{kind} {row[1]} of {row[0]}": tuple(row) for row in rows}
    return parts


@lru_cache(maxsize=1)
def _parts_of_new_file() -> dict[str, object]:
    with create_engine("sqlite://").begin() as connection:
        create_tables(connection)
        create_guards(connection)
        return _parts_of_file(connection)
