"""View: the rows of a ledger as one transaction sees them, and what they add up to, checked.

Balance: what a population has spent and may still spend, for ever and in this month.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqlalchemy import Connection, TextClause, delete, insert, select, update

from dp_pipeline.config.errors import Damaged
from dp_pipeline.ledger import journal
from dp_pipeline.ledger.account import Account
from dp_pipeline.ledger.balance import Balance, balance_of, no_account
from dp_pipeline.ledger.entries import CHARGING, Entry, entry_from
from dp_pipeline.ledger.head import Draft, Row, Tip, digest
from dp_pipeline.ledger.journal import ENDED, RESERVED, entries, state
from dp_pipeline.ledger.state import Held, Place, State

_VERIFY = "`dp-pipeline budget verify` says where"


class View:
    """One consistent view.

    state   what the rows add up to: read from its table, and the same as the newest row says
    tip     the newest row
    now     the moment of whatever is decided here, UTC in ISO 8601: never before the newest row,
            so that a clock that was put back frees no month

    Raises Damaged where the newest row, or the one that the head names, is not what its hash says,
    or the table is not what the newest row says; ``of`` names the ledger.
    """

    def __init__(self, connection: Connection, *, head: Tip, of: str) -> None:
        self.connection = connection
        self.state = read_state(connection)
        found = journal.newest_row(connection)
        self.now = journal.moment()
        if found is None:
            self.tip, expected = Tip(), State().digest
        else:
            row, _ = found
            _require_as_hashed(found, of=of)
            # After a crash between a commit and the head, or beside rows of others.
            if row["sequence"] != head.sequence:
                _require_as_hashed(journal.row_of(connection, head.sequence), of=of)
            self.tip, expected = Tip(row["sequence"], row["hash"]), row["state"]
            self.now = max(self.now, row["time"])
        if self.state.rows != self.tip.sequence or self.state.digest != expected:
            raise Damaged(
                f"ledger {of}: its sums are not those of row {self.tip.sequence}: {_VERIFY}"
            )

    @property
    def month(self) -> str:
        """The calendar month (UTC) that a charge made now would be of: "2026-11"."""
        return self.now[:7]

    def account(self, population: str) -> Account | None:
        """The account of a population as it is now; None if it was never opened."""
        return self.state.account(population)

    def require_account(self, population: str) -> Account:
        """The account of a population; DeclarationError if it was never opened."""
        found = self.account(population)
        if found is None:
            raise no_account(population)
        return found

    def balance(self, population: str, blocks: Sequence[str] = ()) -> Balance:
        """What a population has spent and has left; zero and no ceiling if it is unknown.

        blocks   the windows that are asked about
        """
        found = self.state.population(population)
        account = None if found is None else found.account(population)
        asked = {name: self.state.block(population, name) for name in blocks}
        deltas = asked
        if not blocks and account is not None and account.within == "window":
            # A window without a name has what counts in all of them.
            names = self.state.blocks(population) or ("",)
            deltas = {name: self.state.block(population, name) for name in names}
        return balance_of(account, found, month=self.month, blocks=asked, deltas=deltas)

    def release(self, key: str) -> tuple[Entry, ...]:
        """The row that reserved a release and, if there is one, the row that ended it.

        Each is found by an index of its own, and whether a release has ended is also known from
        the state: an index that is wrong about a key is contradicted, with Damaged. An index
        that has lost a row of a release that ended makes it unknown only if the other has lost
        its row too; then it is charged anew.
        """
        found = [*self._found(key, RESERVED), *self._found(key, ENDED)]
        events = [one.event for one in found]
        expected = self.state.unfinished(key) is not None
        ended = events in (["reserve", "settled"], ["reserve", "dead"])
        if not (ended and not expected) and events != ["reserve"] * expected:
            raise Damaged(f"ledger: its indexes disagree about the release {key[:12]}: {_VERIFY}")
        return tuple(found)

    def _found(self, key: str, which: TextClause) -> Iterator[Entry]:
        query = select(entries).where(entries.c.key == key, which)
        for row in map(dict, self.connection.execute(query).mappings().all()):
            children = journal.children_of(self.connection, row["sequence"])
            found = _entry(row, children)
            if found.key != key:
                raise Damaged(f"ledger: an index takes row {found.sequence} for another: {_VERIFY}")
            yield found

    def of_population(
        self, population: str, *, event: str = "", kind: str = ""
    ) -> tuple[Entry, ...]:
        """The rows of a population, oldest first, each as its hash says.

        event, kind   these alone
        """
        query = select(entries).where(entries.c.population == population)
        if event:
            query = query.where(entries.c.event == event)
        if kind:
            query = query.where(entries.c.kind == kind)
        rows = self.connection.execute(query.order_by(entries.c.sequence)).mappings().all()
        children = dict[int, list[Row]]()
        if event in ("", "settled"):
            children = journal.children_of_population(self.connection, population)
        return tuple(_entry(row, children.get(row["sequence"], [])) for row in map(dict, rows))

    def not_dp(self, population: str) -> tuple[Entry, ...]:
        """The rows that charged a population with releases that have no ε, oldest first; Damaged
        where they are not as many as the state says.
        """
        found = [
            one
            for event in CHARGING
            for one in self.of_population(population, event=event, kind="not-dp")
        ]
        standing = self.state.population(population)
        expected = 0 if standing is None else standing.not_dp
        if len(found) != expected:
            raise Damaged(
                f"ledger: expected {expected} releases of {population} without any ε, its index "
                f"has {len(found)}: {_VERIFY}"
            )
        return tuple(sorted(found, key=lambda one: one.sequence))

    def entries(self) -> tuple[Entry, ...]:
        """Every row in order."""
        return tuple(entry_from(*stored) for stored in journal.rows(self.connection))


class Page(View):
    """A view that writes: rows, and with each what all of them add up to."""

    def append(self, draft: Draft) -> None:
        """Write a row at the end of the chain, then the state that it names."""
        sequence = self.tip.sequence + 1
        changed = self.state.take(draft, sequence=sequence, time=self.now)
        self.tip = journal.write(
            self.connection, draft, after=self.tip, time=self.now, state=self.state.digest
        )
        write_state(self.connection, self.state, changed)


def _entry(row: Row, children: list[Row]) -> Entry:
    if row["hash"] != digest(row, children):
        raise Damaged(f"ledger row {row['sequence']} does not match its hash: it was changed")
    return entry_from(row, children)


def _require_as_hashed(found: tuple[Row, list[Row]] | None, *, of: str) -> None:
    if found is None:
        return
    row, children = found
    if row["hash"] != digest(row, children):
        raise Damaged(f"ledger row {row['sequence']} of {of} does not match its hash: {_VERIFY}")


def read_state(connection: Connection) -> State:
    """What the table says; whoever decides by it compares its digest."""
    return State(
        {
            Place(row["kind"], row["population"], row["name"]): Held(row["entry"], row["value"])
            for row in connection.execute(select(state)).mappings()
        }
    )


def write_state(connection: Connection, now: State, changed: Iterable[Place]) -> None:
    """Bring some rows of the table up to date; the seal last, which closes it until the next row
    of the ledger.
    """
    for place in sorted(changed, key=lambda one: (one.kind == "ledger", one)):
        at = [getattr(state.c, name) == text for name, text in place.columns().items()]
        held = now.held.get(place)
        if held is None:
            connection.execute(delete(state).where(*at))
            continue
        values = {"entry": held.entry, "value": held.value}
        done = connection.execute(update(state).where(*at).values(**values))
        if done.rowcount == 0:
            connection.execute(insert(state), {**place.columns(), **values})
