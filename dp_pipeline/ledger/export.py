"""The part of a ledger that readers may see, and the move of a ledger from its file to a server.

Fingerprints, keys, hashes, sources, run ids, users and times are left out. Of a release only its
day is shown: the time from reservation to settlement depends on the number of rows.
"""

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

from sqlalchemy import Connection, insert, select

from dp_pipeline.config.amounts import NANO, epsilon_text
from dp_pipeline.config.errors import Damaged, PipelineError
from dp_pipeline.files import sync
from dp_pipeline.ledger import journal
from dp_pipeline.ledger.audit import Audit
from dp_pipeline.ledger.entries import CHARGING, Entry
from dp_pipeline.ledger.head import Tip, file_errors
from dp_pipeline.ledger.journal import entries, newest, spends, state
from dp_pipeline.ledger.ledger import Ledger
from dp_pipeline.ledger.postgres import PostgresStore
from dp_pipeline.ledger.sqlite import MOVED, SqliteStore
from dp_pipeline.ledger.view import read_state

COLUMNS = (
    *("date", "event", "population", "release", "kind", "dataset", "model", "parameters"),
    *("epsilon", "evaluation", "snapshot", "replicate", "charged", "currency", "delta", "total"),
    *("state", "ceiling", "per_month", "each_window", "windows", "within", "unit", "relation"),
    *("purpose", "reason"),
)
"""The columns of every exported line, in order; a text is empty where an event has none."""

Line = dict[str, str]

_EVENTS = {
    "account": "opened",
    "raise": "raised",
    "reserve": "release",
    "retired": "retired",
    "restored": "restored",
    "windows": "windows added",
}
_FACTS = {
    "model": ("model", "method"),
    "parameters": ("measuring", "parameters"),
    "snapshot": ("snapshot", "snapshots"),
    "reason": ("reason", "distinct_population"),
    "windows": ("blocks", "windows"),
}
"""Column → the facts that it shows, where that is not the fact of its own name."""


def export_lines(entries: Iterable[Entry]) -> list[tuple[Line, list[Line]]]:
    """Return the public lines of a ledger, oldest first, each with the lines of its spends.

    A line, text by name of ``COLUMNS``, is about an account that was opened, raised or partitioned
    into windows; a release with its charge, its population's sum so far and its ``state``, which is
    "settled", "dead" or "unfinished"; snapshots that were deleted; a reason why persons of a shared
    source are others; or a foreign row that was taken out of the ledger. Only settled releases have
    spends.
    Raises Damaged for a row that the ledger could not have written.
    """
    rows = list(entries)
    ends = {row.key: row for row in rows if row.event in ("settled", "dead")}
    totals: Counter[str] = Counter()
    accounts = Audit()
    lines = []
    for entry in rows:
        accounts.take(entry)
        totals[entry.population] += entry.charge_in_all_windows
        if entry.event in _EVENTS or "distinct_population" in entry.facts:
            end = ends.get(entry.key) if entry.event == "reserve" else None
            line = {**_line(entry), **_amounts(entry, accounts, totals[entry.population])}
            if entry.event == "reserve":
                line["state"] = end.event if end else "unfinished"
            paid = [
                {
                    "what": spend.what,
                    "mechanism": spend.mechanism,
                    "amount": str(spend.epsilon),
                    "scale": str(spend.scale),
                }
                for spend in (end.spends if end else ())
            ]
            lines.append((line, paid))
    return lines


def _line(entry: Entry) -> Line:
    columns = {column: _FACTS.get(column, (column,)) for column in COLUMNS}
    return {
        **{
            column: next((entry.facts[name] for name in names if name in entry.facts), "")
            for column, names in columns.items()
        },
        "date": entry.time[:10],
        "event": _EVENTS.get(entry.event, "distinct population"),
        "population": entry.population,
        "release": entry.what,
        "kind": entry.kind or "",
    }


def _amounts(entry: Entry, accounts: Audit, total: int) -> Line:
    if not entry.population:
        return {}  # About the ledger itself.
    currency = accounts.account(entry.population).currency
    charged = _amount_text(entry.nano_epsilon) if entry.event in CHARGING else ""
    return {"charged": charged, "total": _amount_text(total), "currency": currency.name}


def _amount_text(nano_amount: int) -> str:
    return epsilon_text(Fraction(nano_amount, NANO))


def move_to_server(folder: Path, *, head: Path | None, url: str) -> Tip:
    """Move a ledger from its file in ``folder`` to an empty server database; return the newest row.

    url   address of the database

    The file stays under the name ``MOVED``. No other process may write meanwhile. The copy is one
    transaction, and the call may be repeated.
    Raises PipelineError where there is nothing to move or another ledger is on the server, and what
    ``Ledger.verify`` raises before and after.
    """
    file, server = SqliteStore(folder), PostgresStore(url, folder)
    Ledger(folder, head=head).verify()
    if not file.exists():
        raise PipelineError(
            f"There is no ledger at {file} to move to {server}: run this in the project that has "
            "it; a new project needs no move"
        )
    with file.exclusive():
        with file.transaction(writing=False) as old:
            tip = newest(old)
            server.receive(lambda new: _copy(old, new), tip)
        with file_errors(file.path):
            file.path.rename(folder / MOVED)
            sync(folder)
    return Ledger(folder, head=head, store=server).verify()


_MEND = "name a database without foreign triggers in DP_PIPELINE_LEDGER, and move again"


def _copy(old: Connection, new: Connection) -> None:
    """Copy all rows of the three tables; raise Damaged if a copy differs from its original."""
    sent = []
    for row, children in journal.rows(old):
        new.execute(insert(entries), dict(row))
        if children:
            new.execute(insert(spends), [dict(child) for child in children])
        sent.append((row["sequence"], journal.stored_digest(row, children)))
    new.execute(insert(state), [dict(row) for row in old.execute(select(state)).mappings()])
    arrived = [
        (row["sequence"], journal.stored_digest(row, children))
        for row, children in journal.rows(new)
    ]
    for row_sent, row_arrived in zip(sent, [*arrived, None], strict=False):
        if row_sent != row_arrived:
            raise Damaged(
                f"The ledger row {row_sent[0]} differs on the server from the row that was sent, "
                f"so nothing was moved: {_MEND}"
            )
    if read_state(old) != read_state(new):
        raise Damaged(
            "The sums of the ledger's rows differ on the server from those that were sent, so "
            f"nothing was moved: {_MEND}"
        )
