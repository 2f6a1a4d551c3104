"""The ledger: accounts, claims, reservations and what is left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

from sqlalchemy import Connection

from dp_pipeline.ledger import journal, keys, reservation, sources
from dp_pipeline.ledger.account import Account
from dp_pipeline.ledger.audit import Audit
from dp_pipeline.ledger.balance import Balance, read_balance, this_month
from dp_pipeline.ledger.book import Book
from dp_pipeline.ledger.chain import Chain
from dp_pipeline.ledger.charge import Charge, require_key
from dp_pipeline.ledger.entry import Entry, entry_from
from dp_pipeline.ledger.head import Head, Tip
from dp_pipeline.ledger.reservation import Reservation
from dp_pipeline.ledger.sqlite_store import SqliteStore
from dp_pipeline.ledger.store import Store
from dp_pipeline.ledger.words import require_line
from dp_pipeline.schema.errors import Damaged

_STATES = {"reserve": "reserved"}


class Ledger:
    """What was spent on whom, across all runs and processes that use one store.

    folder   holds locks/ and keys/, and ledger.sqlite where no store is named; 0700, its files
             0600
    head     the file that says how far the ledger has come, so that an older copy put back is
             refused; beside the folder where none is named, better on another disk
    store    where the rows are; None: in ledger.sqlite

    Nothing is made before ``open_account``; reading a ledger that does not exist
    gives empty results. Any number of processes and threads may use the same
    folder, on a file system with working flock (not every network share).
    Every method raises Damaged if the rows are lost, are no ledger's, or lack one that the
    head names.
    """

    def __init__(
        self, folder: Path, *, head: Path | None = None, store: Store | None = None
    ) -> None:
        self.folder = folder
        self._book = Book(store or SqliteStore(folder), Head.of(folder, named=head))

    def open_account(self, account: Account) -> None:
        """Open an account, or find it open with the same declaration.

        Raises DeclarationError, naming both, if it was opened with another unit,
        relation, purpose, delta or other limits: opening never changes anything.
        """
        self._book.create()
        with self._book.writing() as connection:
            found = journal.find_account(connection, account.lineage)
            if found is not None:
                account.require_same_as(found[0])
                return
            key = keys.ensure_key(self._book.keys, lineage=account.lineage)
            facts = {**account.facts(), "key": keys.commit(key)}
            draft = journal.Draft(event="account", lineage=account.lineage, facts=facts)
            journal.append(connection, draft)

    def raise_ceiling(
        self, lineage: str, *, total: Fraction, per_month: Fraction | None, reason: str, by: str
    ) -> Account:
        """Let a lineage spend more, for ever; give the account as it is from now on.

        total      the new ceiling, at least the old one
        per_month  the new limit of a calendar month, or None for none
        reason     why, in one line; kept in the row, and exported
        by         who

        Raises DeclarationError for a lower ceiling, for no change, and for a lineage without
        an account or without a ceiling.
        """
        require_line(reason, of=f"reason to raise the ceiling of lineage {lineage}")
        require_line(by, of=f"who raises the ceiling of lineage {lineage}")
        with self._writing_for(lineage) as connection:
            now = journal.require_account(connection, lineage)
            raised = now.raised(total=total, per_month=per_month)
            facts = {**raised.limits(), "reason": reason, "by": by}
            journal.append(connection, journal.Draft("raise", lineage, facts=facts))
        return raised

    def retire(self, lineage: str, snapshots: Sequence[str], *, by: str) -> None:
        """Note that the rows of a lineage are about to be deleted; its account stays as it is.

        snapshots   "<data set>/<id>" of each; none may be used again
        by          who

        Raises DeclarationError for a lineage without an account.
        """
        require_line(by, of=f"who retires lineage {lineage}")
        facts = {"snapshots": ", ".join(snapshots), "by": by}
        with self._writing_for(lineage) as connection:
            journal.require_account(connection, lineage)
            journal.append(connection, journal.Draft("retired", lineage, facts=facts))

    @contextmanager
    def _writing_for(self, lineage: str) -> Iterator[Connection]:
        if not self._book.exists():
            raise journal.no_account(lineage)
        with self._book.writing() as connection:
            yield connection

    def claim_source(
        self, lineage: str, source: str, *, distinct_population: str | None = None
    ) -> None:
        """Say that a lineage is about to open a source (a URI, a fingerprint: any text).

        Raises DeclarationError if another lineage holds the source, unless both
        are benchmarks, or a release lineage gives the reason why its persons are
        different ones. A benchmark never opens what a release lineage holds.
        The table of cases and the proof are in ``ledger/sources.py``.
        """
        with self._writing_for(lineage) as connection:
            sources.claim(
                connection, lineage, source=source, distinct_population=distinct_population
            )

    def require_public(self, lineage: str, source: str) -> None:
        """DeclarationError if exact numbers about a source would be about protected rows: the
        lineage was opened for releases, or a release lineage holds the source. For whoever
        shows such numbers without an account of their own, such as a study; writes nothing.
        """
        if not self._book.exists():
            return
        with self._book.reading() as connection:
            sources.require_public(connection, lineage, source=source)

    @contextmanager
    def reserve(self, charge: Charge) -> Iterator[Reservation]:
        """Pay for a release before anyone looks; the block holds the lock of its key.

        A second process or thread with the same key waits, and then finds the
        release settled. The charge stays whatever happens inside the block.
        Reserving a key inside its own block waits for ever.

        Raises BudgetExceeded (asked, spent, left, ceiling; nothing is written),
        DeadRelease, DeclarationError for a lineage without an account or one
        that counts in another currency, and Damaged if the key was used for a
        different charge.
        """
        if not self._book.exists():
            raise journal.no_account(charge.lineage)
        with self._book.holding(charge.key) as still_held:
            with self._book.writing() as connection:
                state = reservation.enter(connection, charge)
            entered = Reservation(self._book, charge=charge, state=state, still_held=still_held)
            try:
                yield entered
            finally:
                entered.leave()

    def account(self, lineage: str) -> Account | None:
        """The account as it is now, raises and all; None if it was never opened."""
        if not self._book.exists():
            return None
        with self._book.reading() as connection:
            found = journal.find_account(connection, lineage)
        return None if found is None else found[0]

    def balance(self, lineage: str) -> Balance:
        """What a lineage has spent and has left, exactly, for ever and in this month; zero and no
        ceiling if it is unknown.
        """
        if not self._book.exists():
            return Balance(ceiling=None, spent=Fraction(0), month=this_month())
        with self._book.reading() as connection:
            return read_balance(connection, lineage)

    def lineages(self) -> tuple[str, ...]:
        """Every lineage with an account, in the order of opening."""
        return tuple(entry.lineage for entry in self.entries() if entry.event == "account")

    def state(self, key: str) -> str | None:
        """None, "reserved", "interrupted", "settled" or "dead".

        From the rows alone: "reserved" and "interrupted" do not tell whether
        somebody is still at work.
        """
        require_key(key)
        if not self._book.exists():
            return None
        with self._book.reading() as connection:
            past = journal.history(connection, key)
        return _STATES.get(past[-1]["event"], past[-1]["event"]) if past else None

    def entries(self, lineage: str | None = None) -> tuple[Entry, ...]:
        """Every row in order, settled ones with their spends; of one lineage if it is named."""
        if not self._book.exists():
            return ()
        with self._book.reading() as connection:
            found = tuple(journal.read_entries(connection))
        return tuple(entry for entry in found if lineage in (None, entry.lineage))

    def not_dp_releases(self, lineage: str) -> tuple[Entry, ...]:
        """The reserve rows of a lineage's releases that have no ε, oldest first, finished or not:
        whoever made them looked at the rows, and what they show adds to every other release.
        """
        found = self.entries(lineage)
        return tuple(one for one in found if one.event == "reserve" and one.kind == "not-dp")

    def key(self, lineage: str) -> bytes:
        """The 32 secret random bytes of a lineage, for keyed fingerprints; never to be exported.

        Raises DeclarationError for a lineage without an account and Damaged if
        the key is not the one that the account was opened with.
        """
        if not self._book.exists():
            raise journal.no_account(lineage)
        with self._book.reading() as connection:
            found = journal.find_account(connection, lineage)
        if found is None:
            raise journal.no_account(lineage)
        commitment = found[1].get("key", "")
        return keys.read_key(self._book.keys, lineage=lineage, commitment=commitment)

    def verify(self) -> Tip:
        """Recompute every hash and every sum; Damaged names the first bad row. Gives the newest
        row, which the head is not ahead of.

        Also checks that each row could have been written at its place (no charge
        beyond its ceiling or its month's, no outcome without a reservation) and that the
        triggers are there.
        """
        if not self._book.exists():
            return Tip()
        chain, audit = Chain(), Audit()
        with self._book.auditing() as connection:
            for row, children in journal.rows(connection):
                chain.follow(row, children)
                audit.take(entry_from(row, children))
            absent = self._book.missing_guards(connection)
        if absent:
            raise Damaged(f"ledger {self._book}: trigger {absent[0]} was removed")
        return Tip(chain.expected_sequence - 1, chain.tip)
