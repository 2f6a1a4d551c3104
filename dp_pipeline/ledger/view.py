"""View: the rows of a ledger as one transaction sees them, and what they add up to, checked.

Balance: what a population has spent and may still spend, for ever and in this month.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from sqlalchemy import Connection, TextClause, delete, insert, select, update

from dp_pipeline.ledger import journal
from dp_pipeline.ledger.account import Account
from dp_pipeline.ledger.entries import Entry, entry_from
from dp_pipeline.ledger.head import Tip
from dp_pipeline.ledger.state import CHARGING, Block, Held, Place, Population, State
from dp_pipeline.ledger.tables import ENDED, RESERVED, Row, digest, entries, state
from dp_pipeline.spec.amounts import NANO, PURE, Currency
from dp_pipeline.spec.errors import BudgetExceeded, Damaged, DeclarationError, float_text


@dataclass(frozen=True)
class Balance:
    """What a population has spent, exactly, in what its account counts in.

    ceiling      None if there is no limit, or no account yet
    spent        the sum of all charges, settled or not: nothing is ever refunded
    not_dp       how many releases without any ε were made
    currency     pure ε, or ρ with its δ
    per_month    what one month may cost, or None
    month        the calendar month (UTC) that ``month_spent`` is of: "2026-11"
    month_spent  the sum of the charges of that month
    delta_ceiling, delta_spent   of the charges' own δ; a ceiling of None is no limit. Where a
                 person's rows of one window are protected, of the fullest one that is asked about,
                 or of all where none is
    delta_window   that window; empty where ``delta_spent`` is of all charges
    window_ceiling   what one window may cost, or None
    window       of the windows that are asked about the fullest; empty where none is
    window_spent the sum of its charges

    >>> Balance(ceiling=Fraction(2), spent=Fraction(1), per_month=Fraction(1)).left
    Fraction(1, 1)
    """

    ceiling: Fraction | None
    spent: Fraction
    not_dp: int = 0
    currency: Currency = PURE
    per_month: Fraction | None = None
    month: str = ""
    month_spent: Fraction = Fraction(0)
    delta_ceiling: Fraction | None = None
    delta_spent: Fraction = Fraction(0)
    window_ceiling: Fraction | None = None
    window: str = ""
    window_spent: Fraction = Fraction(0)
    delta_window: str = ""

    @property
    def left(self) -> Fraction | None:
        """Ceiling − spent, and of the window that is asked about where that is less; None if there
        is no ceiling.
        """
        lefts = [] if self.ceiling is None else [self.ceiling - self.spent]
        if self.window_left is not None:
            lefts.append(self.window_left)
        return min(lefts, default=None)

    @property
    def window_left(self) -> Fraction | None:
        """What the window may still cost; None where none is asked about, or has no limit."""
        if not self.window or self.window_ceiling is None:
            return None
        return self.window_ceiling - self.window_spent

    @property
    def month_left(self) -> Fraction | None:
        """What this month may still cost, never more than what is left; None without a limit."""
        if self.per_month is None:
            return None
        left = self.per_month - self.month_spent
        return left if self.left is None else min(left, self.left)

    @property
    def delta_word(self) -> str:
        """What is spent and left of the charges' own δ, in words; empty where there is none."""
        if not self.delta_ceiling and not self.delta_spent:
            return ""
        if self.delta_ceiling is None:
            return f"spent {float_text(self.delta_spent)}"
        left = float_text(self.delta_ceiling - self.delta_spent)
        ceiling = float_text(self.delta_ceiling)
        return f"spent {float_text(self.delta_spent)}, left {left}, ceiling {ceiling}"

    def require_room(
        self,
        asked: Fraction,
        *,
        what: str,
        where: str,
        delta: Fraction = Fraction(0),
        windows: int = 1,
    ) -> None:
        """BudgetExceeded where ``asked`` is more than is left, for ever or in this month.

        delta     the δ that is asked for beside it
        what      is asked for, in words
        where     the account, in words
        windows   how many are charged so much: all of them count for ever and in the month
        """
        every = asked * windows
        limits = (
            (("total", ""), every, self.spent, self.ceiling),
            (("per_month", self.month), every, self.month_spent, self.per_month),
            (("each_window", self.window), asked, self.window_spent, self.window_ceiling),
        )
        for part, more, spent, limit in limits if self.window else limits[:2]:
            if limit is not None and spent + more > limit:
                raise BudgetExceeded(
                    what,
                    asked=more,
                    spent=spent,
                    ceiling=limit,
                    where=where,
                    symbol=self.currency.symbol,
                    part=part,
                )
        most = self.delta_ceiling
        if most is not None and self.delta_spent + delta > most and delta:
            raise BudgetExceeded(
                what,
                asked=delta,
                spent=self.delta_spent,
                ceiling=most,
                where=where,
                symbol="δ",
                part=("ceiling", self.delta_window),
            )


def balance_of(
    account: Account | None,
    standing: Population | None,
    *,
    month: str,
    blocks: Mapping[str, Block] | None = None,
    deltas: Mapping[str, Block] | None = None,
) -> Balance:
    """The balance of an account that stands as the ledger says; zero and no ceiling without one.

    month    whose charges are ``month_spent``; not before the newest one that was charged
    blocks   the windows that are asked about, with what was charged to them
    deltas   those whose own δ counts, where a person's rows of one window are protected
    """
    if account is None or standing is None:
        return Balance(ceiling=None, spent=Fraction(0), month=month)
    month_spent = standing.month_spent if month == standing.month else 0
    asked = blocks or {}
    window = max(asked, key=lambda name: asked[name].spent, default="")
    of_delta = {"": Fraction(standing.delta_spent)}
    if account.within == "window":
        of_delta = {name: Fraction(one.delta_spent) for name, one in (deltas or {}).items()}
    delta_window = max(of_delta, key=lambda name: of_delta[name], default="")
    return Balance(
        ceiling=account.limit,
        spent=Fraction(standing.spent, NANO),
        not_dp=standing.not_dp,
        currency=account.currency,
        per_month=account.month_limit,
        month=month,
        month_spent=Fraction(month_spent, NANO),
        delta_ceiling=account.most_delta,
        delta_spent=of_delta.get(delta_window, Fraction(0)),
        delta_window=delta_window,
        window_ceiling=account.window_limit,
        window=window,
        window_spent=Fraction(asked[window].spent if window else 0, NANO),
    )


def this_month() -> str:
    """The calendar month in UTC, as the ledger's times begin: "2026-11"."""
    return datetime.now(UTC).strftime("%Y-%m")


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

    def is_claimed_by_strangers(self, key: str) -> bool:
        """Whether a row that is not the ledger's says something of a release."""
        odd = self.state.quarantined()
        if not odd:
            return False
        query = select(entries.c.key).where(entries.c.sequence.in_(odd))
        return key in set(self.connection.execute(query).scalars())

    def _found(self, key: str, which: TextClause) -> Iterator[Entry]:
        query = select(entries).where(entries.c.key == key, which)
        for row in self._kept(self.connection.execute(query).mappings().all()):
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
        query = select(entries).where(entries.c.lineage == population)
        if event:
            query = query.where(entries.c.event == event)
        if kind:
            query = query.where(entries.c.kind == kind)
        rows = self.connection.execute(query.order_by(entries.c.sequence)).mappings().all()
        kept, children = self._kept(rows), dict[int, list[Row]]()
        if event in ("", "settled"):
            children = journal.children_of_population(self.connection, population)
        return tuple(_entry(row, children.get(row["sequence"], [])) for row in kept)

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
        """Every row in order, but for those that are not the ledger's."""
        odd = self.state.quarantined()
        return tuple(
            entry_from(row, children)
            for row, children in journal.rows(self.connection)
            if row["sequence"] not in odd
        )

    def _kept(self, rows: Iterable[Any]) -> list[Row]:
        odd = self.state.quarantined()
        return [dict(row) for row in rows if row["sequence"] not in odd]


class Page(View):
    """A view that writes: rows, and with each what all of them add up to."""

    def append(self, draft: journal.Draft) -> None:
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
            Place(row["kind"], row["lineage"], row["name"]): Held(row["entry"], row["value"])
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


def no_account(population: str) -> DeclarationError:
    """What every request for an unknown population is answered with."""
    return DeclarationError(
        f"population {population}: no account was opened in this ledger: "
        "`dp-pipeline run` of one of its data sets opens it"
    )
