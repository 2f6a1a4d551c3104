"""A view: the rows of a ledger and their sums in one transaction; a page also writes rows."""

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, TextClause, delete, insert, select, update

from dp_pipeline.config.errors import Damaged
from dp_pipeline.ledger import journal
from dp_pipeline.ledger.account import Account
from dp_pipeline.ledger.balance import Balance, balance_of, no_account
from dp_pipeline.ledger.entries import CHARGING, Entry, entry_from
from dp_pipeline.ledger.head import Draft, Row, Tip, digest
from dp_pipeline.ledger.journal import ENDED, RESERVED, entries, state
from dp_pipeline.ledger.state import State, StateKey, StateValue

_VERIFY = "`dp-pipeline budget verify` says what is wrong and what to do"


class View:
    """A consistent view of a ledger at one moment.

    state   the sums of the rows, whose digest the newest row contains
    tip     the newest row
    now     the time of every decision here, UTC in ISO 8601; never before the newest row's, so that
            a clock that was put back opens no new month

    Raises Damaged where the newest row, or the one that the head names, does not match its hash, or
    the sums do not match the newest row; ``of`` names the ledger.
    """

    def __init__(self, connection: Connection, *, head: Tip, of: str) -> None:
        self.connection = connection
        self.state = read_state(connection)
        newest = journal.row_of(connection)
        self.now = journal.current_time()
        if newest is None:
            self.tip, expected = Tip(), State().digest
        else:
            row, _ = newest
            _require_as_hashed(newest, of=of)
            # After a crash between a commit and the head, or in front of rows of others.
            if row["sequence"] != head.sequence:
                _require_as_hashed(journal.row_of(connection, head.sequence), of=of)
            self.tip, expected = Tip(row["sequence"], row["hash"]), row["state"]
            self.now = max(self.now, row["time"])
        if self.state.sequence != self.tip.sequence or self.state.digest != expected:
            raise Damaged(
                f"The sums of ledger {of} are not those of row {self.tip.sequence}: {_VERIFY}"
            )

    @property
    def month(self) -> str:
        return self.now[:7]

    def require_account(self, population: str) -> Account:
        account = self.state.account(population)
        if account is None:
            raise no_account(population)
        return account

    def balance(self, population: str, blocks: Sequence[str] = ()) -> Balance:
        """Return the amounts that a population has spent and has left; all zero without an account.

        blocks   names of the windows to include
        """
        sums, account = self.state.population(population), self.state.account(population)
        of_blocks = {name: self.state.block(population, name) for name in blocks}
        of_deltas = of_blocks
        if not blocks and account is not None and account.within == "window":
            # A window without a name has what counts in all of them.
            names = self.state.blocks(population) or ("",)
            of_deltas = {name: self.state.block(population, name) for name in names}
        return balance_of(account, sums, month=self.month, blocks=of_blocks, delta_blocks=of_deltas)

    def rows_of_release(self, key: str) -> tuple[Entry, ...]:
        """Return the row that reserved a release and the row that ended it, if there are any.

        Each is found by an index of its own, and the state also says whether the release has ended:
        a damaged index contradicts them and raises Damaged. A release that ended is unknown only if
        both indexes lost it; then it is charged anew.
        """
        rows = [*self._of_key(key, RESERVED), *self._of_key(key, ENDED)]
        events = [row.event for row in rows]
        is_unfinished = self.state.unfinished(key) is not None
        has_ended = events in (["reserve", "settled"], ["reserve", "dead"])
        if not (has_ended and not is_unfinished) and events != ["reserve"] * is_unfinished:
            raise Damaged(
                f"The indexes of the ledger disagree about the release {key[:12]}: {_VERIFY}"
            )
        return tuple(rows)

    def _of_key(self, key: str, events: TextClause) -> list[Entry]:
        query = select(entries).where(entries.c.key == key, events)
        rows = list(map(dict, self.connection.execute(query).mappings().all()))
        for row in rows:
            if row["key"] != key:
                number = row["sequence"]
                raise Damaged(
                    f"An index of the ledger names row {number} for another release: {_VERIFY}"
                )
        return [_entry(row, journal.children_of(self.connection, row["sequence"])) for row in rows]

    def of_population(
        self, population: str, *, event: str = "", kind: str = ""
    ) -> tuple[Entry, ...]:
        """Return the ledger rows of a population, oldest first; Damaged if a hash does not match.

        event, kind   only rows with these values; empty: all
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
        rows = [
            row
            for event in CHARGING
            for row in self.of_population(population, event=event, kind="not-dp")
        ]
        sums = self.state.population(population)
        expected = 0 if sums is None else sums.not_dp
        if len(rows) != expected:
            raise Damaged(
                f"The index of the ledger must have {expected} releases of {population} without "
                f"any ε, but it has {len(rows)}: {_VERIFY}"
            )
        return tuple(sorted(rows, key=lambda row: row.sequence))

    def entries(self) -> tuple[Entry, ...]:
        """Return all ledger rows, oldest first, without checking their hashes; Damaged for one that
        cannot be parsed."""
        return tuple(_parsed(*stored) for stored in journal.rows(self.connection))


class Page(View):
    """A view of a ledger that can also append rows and update the stored sums."""

    def append(self, draft: Draft) -> None:
        """Append a ledger row with the time ``now``, and write the sums that it changes."""
        sequence = self.tip.sequence + 1
        changed = self.state.take(draft, sequence=sequence, time=self.now)
        self.tip = journal.write(
            self.connection, draft, after=self.tip, time=self.now, state=self.state.digest
        )
        write_state(self.connection, self.state, changed)


def _entry(row: Row, children: list[Row]) -> Entry:
    if row["hash"] != digest(row, children):
        raise Damaged(
            f"The ledger row {row['sequence']} does not match its hash, so it was changed: "
            f"{_VERIFY}"
        )
    return _parsed(row, children)


def _parsed(row: Row, children: list[Row]) -> Entry:
    try:
        return entry_from(row, children)
    except Damaged as fault:
        raise Damaged(f"{fault}: {_VERIFY}") from None


def _require_as_hashed(stored: tuple[Row, list[Row]] | None, *, of: str) -> None:
    if stored is not None and stored[0]["hash"] != digest(*stored):
        raise Damaged(
            f"The ledger row {stored[0]['sequence']} of {of} does not match its hash: {_VERIFY}"
        )


def read_state(connection: Connection) -> State:
    """Return the stored table ``state``, without comparing its digest with the newest row's."""
    return State(
        {
            StateKey(row["kind"], row["population"], row["name"]): StateValue(
                row["entry"], row["value"]
            )
            for row in connection.execute(select(state)).mappings()
        }
    )


def write_state(connection: Connection, now: State, changed: Iterable[StateKey]) -> None:
    """Write the rows with changed keys from ``now`` to the table ``state``, and delete those that
    ``now`` lacks; the row of kind "ledger" comes last.

    The triggers then refuse changes until the next ledger row.
    """
    for key in sorted(changed, key=lambda key: (key.kind == "ledger", key)):
        is_key = [getattr(state.c, name) == text for name, text in key._asdict().items()]
        row = now.rows.get(key)
        if row is None:
            connection.execute(delete(state).where(*is_key))
            continue
        done = connection.execute(update(state).where(*is_key).values(**vars(row)))
        if done.rowcount == 0:
            connection.execute(insert(state), {**key._asdict(), **vars(row)})
