"""Whether the indexes of a ledger on a PostgreSQL server tell what its tables hold.

Two comparisons. The first is always made: the columns of each index as an index-only scan reads
them, out of the index, against the same columns as a sequential scan reads them, out of the table.
It finds entries of the index that are damaged, missing or too many; it cannot see a damaged page
above them. The second is made where the extension ``amcheck`` is installed and may be called: it
checks the whole tree of each index, and that every row of the table is in it.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, text

from dp_pipeline.schema.errors import Damaged

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
