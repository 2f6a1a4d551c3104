"""The three tables of a ledger (rows, spends, sums): how a row is written and read.

``entries`` and ``spends`` are never updated: the outcome of a charge is a row of its own. ``state``
has the sums of all rows, updated in the transaction of each row. Triggers (``guards.py``) stop
mistakes and casual edits; the hash chain shows other edits.
"""

import hashlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import sqlalchemy as sa

from dp_pipeline.config.errors import Damaged
from dp_pipeline.ledger.head import Draft, Row, Tip, canonical, digest

_LEAST = "nano_epsilon >= 0"
CHARGES: Final = f"CHECK ({_LEAST})"
"""The constraint against negative charges, in the words of both databases."""

metadata = sa.MetaData()


def _texts(*names: str, nullable: bool = False) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=nullable) for name in names]


entries = sa.Table(
    "entries",
    metadata,
    # Numbered by the writer, without gaps, so that a missing row is seen.
    sa.Column("sequence", sa.Integer, primary_key=True, autoincrement=False),
    *_texts("event", "time", "population"),
    *_texts("key", "source", "kind", nullable=True),
    sa.Column("nano_epsilon", sa.BigInteger, nullable=False),
    *_texts("what", "facts", "previous", "hash", "state"),
    sa.CheckConstraint(_LEAST),
)

spends = sa.Table(
    "spends",
    metadata,
    sa.Column("entry", sa.Integer, sa.ForeignKey("entries.sequence"), primary_key=True),
    sa.Column("ordinal", sa.Integer, primary_key=True),
    *_texts("what", "mechanism", "epsilon", "scale"),
)

state = sa.Table(
    "state",
    metadata,
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("population", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    # The number of the row that wrote it.
    sa.Column("entry", sa.Integer, nullable=False),
    sa.Column("value", sa.Text, nullable=False),
)

# Spelled out, not bound: a partial index answers a query that has its very words.
RESERVED: Final = sa.text("event = 'reserve'")
ENDED: Final = sa.text("event IN ('settled', 'dead')")

sa.Index("entries_by_population", entries.c.population, entries.c.event, entries.c.kind)
# Two indexes that share no row: a damaged page of one is contradicted by the other, or by `state`.
# In words that both databases take: SQLAlchemy's own would load all its drivers of PostgreSQL, for
# which every command would wait.
_PARTIAL: Final = tuple(
    f"CREATE UNIQUE INDEX {name} ON entries (key) WHERE {where.text}"
    for name, where in (("one_reserve_per_key", RESERVED), ("one_end_per_key", ENDED))
)


def create_tables(connection: sa.Connection) -> None:
    metadata.create_all(connection, checkfirst=False)
    for statement in _PARTIAL:
        connection.exec_driver_sql(statement)


def write_seal(connection: sa.Connection) -> None:
    """Write the row of the table ``state`` that says that a new ledger has 0 rows."""
    seal = {"kind": "ledger", "population": "", "name": "", "entry": 0, "value": "{}"}
    connection.execute(sa.insert(state), seal)


def current_time() -> str:
    """Return the current time in UTC as ISO 8601 text, which begins with the month."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def write(connection: sa.Connection, draft: Draft, *, after: Tip, time: str, state: str) -> Tip:
    """Insert a ledger row with its spends at the end of the chain; return its number and hash.

    after   the newest row before it
    time    of the new row; not before that of ``after``
    state   the digest of the sums of all rows, the new one included
    """
    row: dict[str, Any] = {
        **vars(draft),
        "sequence": after.sequence + 1,
        "time": time,
        "facts": canonical(dict(draft.facts)),
        "previous": after.hash,
        "state": state,
    }
    children = [
        {
            **vars(spend),
            "entry": row["sequence"],
            "ordinal": ordinal,
            "epsilon": str(spend.epsilon),
            "scale": str(spend.scale),
        }
        for ordinal, spend in enumerate(row.pop("spends"))
    ]
    row["hash"] = digest(row, children)
    connection.execute(sa.insert(entries), row)
    if children:
        connection.execute(sa.insert(spends), children)
    return Tip(row["sequence"], row["hash"])


def rows(connection: sa.Connection) -> Iterator[tuple[Row, list[Row]]]:
    """Yield every ledger row with its spends, in order; Damaged for a spend without a row."""
    children = _children(connection, sa.select(spends))
    for row in connection.execute(sa.select(entries).order_by(entries.c.sequence)).mappings():
        yield dict(row), children.pop(row["sequence"], [])
    if children:
        raise Damaged(
            f"The ledger row {min(children)} is missing, only its spends are there: put back a "
            "copy of the ledger"
        )


def row_of(connection: sa.Connection, sequence: int | None = None) -> tuple[Row, list[Row]] | None:
    """Return the ledger row with a number and its spends; None if there is no such row.

    sequence   None: the highest number
    """
    query = sa.select(entries).order_by(entries.c.sequence.desc()).limit(1)
    if sequence is not None:
        query = query.where(entries.c.sequence == sequence)
    row = connection.execute(query).mappings().first()
    return None if row is None else (dict(row), children_of(connection, row["sequence"]))


def children_of(connection: sa.Connection, sequence: int) -> list[Row]:
    query = sa.select(spends).where(spends.c.entry == sequence)
    return _children(connection, query).get(sequence, [])


def children_of_population(connection: sa.Connection, population: str) -> dict[int, list[Row]]:
    query = sa.select(spends).join(entries).where(entries.c.population == population)
    return _children(connection, query)


def _children(connection: sa.Connection, query: sa.Select[Any]) -> dict[int, list[Row]]:
    children: dict[int, list[Row]] = {}
    for child in connection.execute(query.order_by(spends.c.entry, spends.c.ordinal)).mappings():
        children.setdefault(child["entry"], []).append(dict(child))
    return children


def stored_digest(row: Row, children: Sequence[Row]) -> str:
    """Return the SHA-256 of all stored fields of a ledger row, its hash and spends included, as hex
    digits."""
    stored = [dict(row), [dict(child) for child in children]]
    return hashlib.sha256(canonical(stored).encode("ascii")).hexdigest()


def newest(connection: sa.Connection) -> Tip:
    """Return the number and hash of the newest ledger row, ``Tip()`` if there is none."""
    query = sa.select(entries.c.sequence, entries.c.hash).order_by(entries.c.sequence.desc())
    row = connection.execute(query.limit(1)).first()
    return Tip(row.sequence, row.hash) if row else Tip()


def require_row(tip: Tip, connection: sa.Connection, *, of: str) -> None:
    """Raise Damaged unless the ledger has the row ``tip`` that its head file names; the tip of an
    empty ledger, ``Tip()``, passes.

    of   name of the ledger, with which the message begins
    """
    if tip.sequence == 0:
        return
    query = sa.select(entries.c.hash).where(entries.c.sequence == tip.sequence)
    stored_hash = connection.execute(query).scalar_one_or_none()
    if stored_hash is None:
        raise Damaged(
            f"{of} has no row {tip.sequence}, which its head knows, and ends at row "
            f"{newest(connection).sequence}: rows were lost, or an older copy was put back, so put "
            "back the newest"
        )
    if stored_hash != tip.hash:
        raise Damaged(
            f"{of} has a row {tip.sequence} that is not the one its head knows: it is another "
            "ledger, or was changed, so put back a copy"
        )
