"""What keeps the tables append-only on a PostgreSQL server.

The triggers fire ``ALWAYS``: a session that calls itself a replica does not pass
them. Whoever may alter the tables can drop them, and is found by ``missing_guards``,
by the hash chain, or by the head. A row of ``state`` may change while the row of the ledger that
changes it is written, as in ``sqlite.py``.

Whether the indexes of a ledger on a PostgreSQL server tell what its tables hold.

Two comparisons. The first is always made: the columns of each index as an index-only scan reads
them, out of the index, against the same columns as a sequential scan reads them, out of the table.
It finds entries of the index that are damaged, missing or too many; it cannot see a damaged page
above them. The second is made where the extension ``amcheck`` is installed and may be called: it
checks the whole tree of each index, and that every row of the table is in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, text

from dp_pipeline.ledger.head import GENESIS
from dp_pipeline.ledger.journal import CHARGES
from dp_pipeline.spec.errors import Damaged

_REFUSED = "RAISE EXCEPTION 'the ledger is append-only' USING ERRCODE = '23000';"
_BEFORE, _EACH_ROW = 2, 1
_MOMENTS = {"INSERT": 4, "DELETE": 8, "UPDATE": 16, "TRUNCATE": 32}
"""Bits of ``pg_trigger.tgtype``."""

_TIP = "(SELECT coalesce(max(sequence), 0) FROM entries)"
_SEAL = (
    "coalesce((SELECT entry FROM state WHERE kind = 'ledger' AND lineage = '' AND name = ''), -1)"
)
_NEW_IS_SEAL, _OLD_IS_SEAL = (
    f"({row}.kind = 'ledger' AND {row}.lineage = '' AND {row}.name = '')" for row in ("NEW", "OLD")
)
_IS_CLOSED = f"{_SEAL} = {_TIP}"

# A reservation or an end twice is refused by the unique indexes, and what an upsert would
# put in its place by the guards against updates.
_FOLLOWS_THE_TIP = f"""BEGIN
IF NEW.sequence IS DISTINCT FROM {_TIP} + 1
OR NEW.previous IS DISTINCT FROM coalesce(
(SELECT hash FROM entries ORDER BY sequence DESC LIMIT 1), '{GENESIS}')
OR ({_SEAL} <> {_TIP} AND NEW.event NOT IN ('quarantined', 'restated'))
THEN {_REFUSED} END IF; RETURN NEW; END"""
_BELONGS_TO_THE_TIP = f"""BEGIN
IF NEW.entry IS DISTINCT FROM {_TIP} OR {_IS_CLOSED}
THEN {_REFUSED} END IF; RETURN NEW; END"""
_IS_OPEN = f"""BEGIN
IF {_IS_CLOSED} OR (NEW.kind = 'ledger'
AND NOT ({_NEW_IS_SEAL} AND {_SEAL} = -1 AND NEW.entry = {_TIP}))
THEN {_REFUSED} END IF; RETURN NEW; END"""
_SEALS_ONCE = f"""BEGIN
IF {_IS_CLOSED}
OR (({_OLD_IS_SEAL} OR NEW.kind = 'ledger')
AND NOT ({_NEW_IS_SEAL} AND {_OLD_IS_SEAL} AND NEW.entry = {_TIP}))
THEN {_REFUSED} END IF; RETURN NEW; END"""
_KEEPS_THE_SEAL = f"""BEGIN
IF {_OLD_IS_SEAL} OR {_IS_CLOSED}
THEN {_REFUSED} END IF; RETURN OLD; END"""


@dataclass(frozen=True)
class Guard:
    """One trigger and its function, which share a name.

    moment   INSERT, UPDATE, DELETE or TRUNCATE
    body     PL/pgSQL
    each     of each row, or of each statement, also of one that finds no row
    """

    name: str
    table: str
    moment: str
    body: str = f"BEGIN {_REFUSED} END"
    each: bool = False

    def create(self, connection: Connection) -> None:
        """Make function and trigger."""
        each = "ROW" if self.each else "STATEMENT"
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
        each = _EACH_ROW if self.each else 0
        return self.name, self.table, _BEFORE | each | _MOMENTS[self.moment], self.body


GUARDS: Final = (
    *(
        Guard(f"{table}_not_{moment.lower()}d", table, moment)
        for table in ("entries", "spends")
        for moment in ("UPDATE", "DELETE")
    ),
    *(Guard(f"{table}_not_emptied", table, "TRUNCATE") for table in ("entries", "spends", "state")),
    Guard("entries_follow_the_tip", "entries", "INSERT", _FOLLOWS_THE_TIP, each=True),
    Guard("spends_belong_to_the_tip", "spends", "INSERT", _BELONGS_TO_THE_TIP, each=True),
    Guard("state_not_inserted", "state", "INSERT", _IS_OPEN, each=True),
    Guard("state_sealed_once", "state", "UPDATE", _SEALS_ONCE, each=True),
    Guard("state_not_deleted", "state", "DELETE", _KEEPS_THE_SEAL, each=True),
)

_CATALOGUE = text(
    "SELECT tgname, relname, tgtype, prosrc FROM pg_trigger "
    "JOIN pg_class ON pg_class.oid = tgrelid JOIN pg_proc ON pg_proc.oid = tgfoid "
    "WHERE tgrelid IN (to_regclass('entries'), to_regclass('spends'), to_regclass('state')) "
    "AND tgenabled = 'A' AND tgqual IS NULL AND tgattr = ''"
)
_LIMITS = text(
    "SELECT pg_get_constraintdef(oid) FROM pg_constraint "
    "WHERE conrelid = to_regclass('entries') AND contype = 'c'"
)
_PRESENT = text(
    "SELECT tgname, relname, proname FROM pg_trigger "
    "JOIN pg_class ON pg_class.oid = tgrelid JOIN pg_proc ON pg_proc.oid = tgfoid "
    "WHERE tgrelid IN (to_regclass('entries'), to_regclass('spends')) AND NOT tgisinternal"
)


def missing_guards(connection: Connection) -> list[str]:
    """What should be there, word for word, and is not: triggers that are always on, and the limit
    of a charge.
    """
    present = {tuple(row) for row in connection.execute(_CATALOGUE)}
    missing = [f"trigger {guard.name}" for guard in GUARDS if guard.catalogued not in present]
    limits = {_words(text) for text in connection.execute(_LIMITS).scalars()}
    return missing if _words(CHARGES) in limits else [*missing, f"limit {CHARGES}"]


def _words(limit: str) -> str:
    """As the server may say it: with more parentheses, and whether older rows were looked at."""
    return limit.removesuffix(" NOT VALID").replace("(", "").replace(")", "")


def drop_guards(connection: Connection) -> None:
    """Take away the triggers that are there: those of an earlier format."""
    for name, table, function in connection.execute(_PRESENT).all():
        connection.exec_driver_sql(f'DROP TRIGGER "{name}" ON {table}')
        connection.exec_driver_sql(f'DROP FUNCTION "{function}"()')


_INDEXES: Final = {
    "entries_pkey": ("entries", "sequence", "true"),
    "entries_by_lineage": ("entries", "lineage, event, kind", "true"),
    "one_reserve_per_key": ("entries", "key", "event = 'reserve'"),
    "one_end_per_key": ("entries", "key", "event IN ('settled', 'dead')"),
    "spends_pkey": ("spends", "entry, ordinal", "true"),
    "state_pkey": ("state", "kind, lineage, name", "true"),
}
"""Index → table, columns, which rows."""

_FROM_THE_INDEX = {"seqscan": "off", "bitmapscan": "off", "sort": "off"}
_FROM_THE_TABLE = {"indexscan": "off", "indexonlyscan": "off", "bitmapscan": "off"}
_CALLABLE = text(
    "SELECT coalesce(has_function_privilege("
    "to_regprocedure('bt_index_check(regclass, boolean)'), 'EXECUTE'), false)"
)


def require_sound(connection: Connection, *, of: str) -> None:
    """Damaged, naming the index, where one does not tell what its table holds; ``of`` names the
    ledger.
    """
    for index, (table, columns, which) in _INDEXES.items():
        query = f"SELECT {columns} FROM {table} WHERE {which} ORDER BY {columns}"
        if _rows(connection, query, _FROM_THE_INDEX) != _rows(connection, query, _FROM_THE_TABLE):
            raise Damaged(
                f"ledger {of}: index {index} does not tell what its table holds: `REINDEX INDEX "
                f"{index}` in the database makes it anew"
            )
    if connection.execute(_CALLABLE).scalar_one():
        for index in _INDEXES:
            connection.execute(text("SELECT bt_index_check(:name, true)"), {"name": index})


def _rows(connection: Connection, query: str, plan: dict[str, str]) -> list[tuple[object, ...]]:
    """The answer of a query under a plan; of the values alone, so that an index answers it."""
    for name, value in plan.items():
        connection.exec_driver_sql(f"SET LOCAL enable_{name} = {value}")
    found = [tuple(row) for row in connection.execute(text(query))]
    for name in plan:
        connection.exec_driver_sql(f"SET LOCAL enable_{name} = on")
    return found
