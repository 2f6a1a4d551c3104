"""The ledger: accounts, claims, reservations and what is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from dp_pipeline.config.amounts import NANO
from dp_pipeline.config.errors import Damaged
from dp_pipeline.ledger import head, reservation
from dp_pipeline.ledger.account import Account
from dp_pipeline.ledger.balance import Balance, no_account, this_month
from dp_pipeline.ledger.book import Book, Store
from dp_pipeline.ledger.claims import Claim
from dp_pipeline.ledger.entries import Charge, Entry, require_key, require_line
from dp_pipeline.ledger.head import Draft, Head, Tip
from dp_pipeline.ledger.reservation import Reservation
from dp_pipeline.ledger.sqlite import SqliteStore

if TYPE_CHECKING:
    from dp_pipeline.ledger.view import Page, View

Answer = TypeVar("Answer")


class Ledger:
    """What was spent on whom, across all runs and processes that use one store.

    folder   holds locks/ and keys/, and ledger.sqlite where no store is named; 0700, its files
             0600
    head     the file that says how far the ledger has come, so that an older copy put back is
             refused; next to the folder where none is named, better on another disk
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
        self._book = Book(store or SqliteStore(folder), Head.of(folder, declared=head))

    def format(self) -> int | None:
        """Return the number of the stored format, whether this program reads it or not; None where
        there is no ledger, Damaged where something else is in its place.
        """
        return self._book.store.format() if self._book.exists() else None

    def open_account(
        self,
        account: Account,
        *,
        sources: Sequence[str] = (),
        distinct_population: str | None = None,
    ) -> Account:
        """Open an account with its claims unless it is open; return the account as it is.

        sources   what the population is about to open, as of ``claim_source``; all in the one
                  transaction that opens the account, so that a refused claim opens none

        The account rules: a declaration of lower limits goes on under those of the account
        (``Account.difference_from``). Raises DeclarationError, naming both, for another unit,
        relation, purpose or delta, for a higher limit, and whatever ``claim_source`` does.
        """
        population = account.population
        claim = Claim(population, sources, distinct_population)

        def complete(view: View) -> Account | None:
            """Return the account where it is open and holds all sources."""
            opened = view.account(population)
            if opened is None:
                return None
            account.require_within(opened)
            return None if claim.new(view, opened.purpose) else opened

        # Asked before every stage, and seldom news: then nobody waits for the lock of all writers.
        as_it_is = self._read(complete, empty=None)
        if as_it_is is not None:
            return as_it_is
        self._book.create()
        with self._book.writing() as page:
            opened = page.account(population)
            if opened is None:
                key = head.ensure_key(self._book.store.keys, population=population)
                facts = {**account.facts(), "key": head.commit(key)}
                page.append(Draft(event="account", population=population, facts=facts))
            else:
                account.require_within(opened)
            claim.write(page)
            return opened or account

    def raise_ceiling(
        self,
        population: str,
        *,
        total: Fraction | None,
        per_month: Fraction | None,
        reason: str,
        by: str,
        delta_ceiling: Fraction | None = None,
        each_window: Fraction | None = None,
    ) -> Account:
        """Let a population spend more, for ever; return the account as it is from now on.

        total, per_month, delta_ceiling, each_window   the new limits, as of ``Account.raised``
        reason     why, in one line; stored in the row, and exported
        by         who

        Raises DeclarationError for a lower ceiling, for no change, and for a population without
        an account or without a ceiling.
        """
        require_line(reason, of=f"reason to raise the ceiling of population {population}")
        require_line(by, of=f"who raises the ceiling of population {population}")
        with self._writing_for(population) as page:
            raised = page.require_account(population).raised(
                total=total,
                per_month=per_month,
                delta_ceiling=delta_ceiling,
                each_window=each_window,
            )
            facts = {**raised.limits(), "reason": reason, "by": by}
            page.append(Draft("raise", population, facts=facts))
        return raised

    def retire(self, population: str, snapshots: Sequence[str], *, by: str) -> None:
        """Record that the rows of a population are about to be deleted; its account stays.

        snapshots   "<data set>/<id>" of each; none may be used again
        by          who

        Raises DeclarationError for a population without an account.
        """
        require_line(by, of=f"who retires population {population}")
        facts = {"snapshots": ", ".join(snapshots), "by": by}
        with self._writing_for(population) as page:
            page.require_account(population)
            page.append(Draft("retired", population, facts=facts))

    @contextmanager
    def _writing_for(self, population: str) -> Iterator[Page]:
        if not self._book.exists():
            raise no_account(population)
        with self._book.writing() as page:
            yield page

    def claim_source(
        self, population: str, *sources: str, distinct_population: str | None = None
    ) -> None:
        """Claim sources that a population is about to open (a URI, a fingerprint: any text), in one
        transaction with the check whether it may.

        Raises DeclarationError if another population holds one of them, unless both
        are benchmarks, or a release population gives the reason why its persons are
        different ones. A benchmark never opens what a release population holds.
        The table of cases and the proof are in ``ledger/claims.py``.
        """
        if not self._book.exists():
            raise no_account(population)
        claim = Claim(population, sources, distinct_population)
        # Asked before every use of a snapshot, and seldom news.
        with self._book.reading() as view:
            is_new = bool(claim.new(view, view.require_account(population).purpose))
        if is_new:
            with self._book.writing() as page:
                claim.write(page)

    def require_claimable(
        self,
        population: str,
        *sources: str,
        purpose: str = "benchmark",
        distinct_population: str | None = None,
    ) -> None:
        """Raise what ``claim_source`` does for a population of this purpose, known or not; write
        nothing. It checks a declaration, and exact numbers without an account of their own, such
        as those of a study.
        """
        claim = Claim(population, sources, distinct_population)
        self._read(lambda view: claim.new(view, purpose), empty=list[str]())

    @contextmanager
    def reserve(self, charge: Charge) -> Iterator[Reservation]:
        """Pay for a release before any row is read; the block holds the lock of its key.

        A second process or thread with the same key waits, and then finds the
        release settled. The charge stays whatever happens inside the block.
        Reserving a key inside its own block waits for ever.

        Raises BudgetExceeded (asked, spent, left, ceiling; nothing is written),
        DeadRelease, DeclarationError for a population without an account or one
        that counts in another currency, and Damaged if the key was used for a
        different charge.
        """
        if not self._book.exists():
            raise no_account(charge.population)
        with self._book.store.holding(charge.key) as require_lock:
            with self._book.writing() as page:
                state = reservation.reserve_or_resume(page, charge)
            entered = Reservation(self._book, charge=charge, state=state, require_lock=require_lock)
            try:
                yield entered
            finally:
                entered.leave()

    def _read(self, question: Callable[[View], Answer], *, empty: Answer) -> Answer:
        """Return the answer of one view; of a ledger that does not exist, the empty one."""
        if not self._book.exists():
            return empty
        with self._book.reading() as view:
            return question(view)

    def claims(self) -> tuple[tuple[str, str], ...]:
        """Return every claim, oldest first: the source and the population that holds it."""
        return self._read(lambda view: view.state.claims(), empty=())

    def account(self, population: str) -> Account | None:
        """Return the account as it is now, raises and all; None if it was never opened."""
        return self._read(lambda view: view.account(population), empty=None)

    def balance(self, population: str, blocks: Sequence[str] = ()) -> Balance:
        """Return what a population has spent and has left, exactly, for ever and in this month;
        zero and no ceiling if it is unknown.

        blocks   the windows of the question, where rows are partitioned
        """
        nothing = Balance(ceiling=None, spent=Fraction(0), month=this_month())
        return self._read(lambda view: view.balance(population, blocks), empty=nothing)

    def blocks(self, population: str) -> dict[str, Fraction]:
        """Return every window that was ever charged, by name, and the sum of its charges."""

        def spent(view: View) -> dict[str, Fraction]:
            names = view.state.blocks(population)
            nanos = {name: view.state.block(population, name).spent for name in names}
            return {name: Fraction(nano, NANO) for name, nano in nanos.items()}

        return self._read(spent, empty={})

    def releases(self, population: str) -> int:
        """Return how many charges a population has, with an ε or without, settled or not."""

        def count(view: View) -> int:
            sums = view.state.population(population)
            return 0 if sums is None else sums.releases

        return self._read(count, empty=0)

    def populations(self) -> tuple[str, ...]:
        """Return every population with an account, in the order of opening."""
        return self._read(lambda view: view.state.populations(), empty=())

    def state(self, key: str) -> str | None:
        """Return None, "reserved", "interrupted", "settled" or "dead".

        From the rows alone: "reserved" and "interrupted" do not tell whether
        somebody is still at work.
        """
        return self.states([key])[0]

    def states(self, keys: Sequence[str]) -> tuple[str | None, ...]:
        """Return the same of several releases, from one view of the ledger."""
        for key in keys:
            require_key(key)
        return self._read(
            lambda view: tuple(reservation.state_of(view, key) for key in keys),
            empty=(None,) * len(keys),
        )

    def consistent_view(self) -> AbstractContextManager[None]:
        """Open a block in which all that is read is of one moment, and nothing is written."""
        return self._book.consistent_view()

    def unfinished(self) -> tuple[str, ...]:
        """Return the keys of all charged releases that have not ended, in their order."""
        return self._read(lambda view: view.state.unfinished_keys(), empty=())

    def history(self, key: str) -> tuple[Entry, ...]:
        """Return the row that reserved a release, and the row that settled it or says that it is
        dead, with its spends; neither where nobody asked for it.
        """
        require_key(key)
        return self._read(lambda view: view.release(key), empty=())

    def entries(self, population: str | None = None) -> tuple[Entry, ...]:
        """Return every row in order, settled ones with their spends; those of one population if it
        is named. A question about one release or one sum has a cheaper method of its own.
        """
        if population is None:
            return self._read(lambda view: view.entries(), empty=())
        return self._read(lambda view: view.of_population(population), empty=())

    def not_dp_releases(self, population: str) -> tuple[Entry, ...]:
        """Return the rows that charged a population with releases that have no ε, oldest first,
        finished or not: what they show adds to all others.
        """
        return self._read(lambda view: view.not_dp(population), empty=())

    def key(self, population: str) -> bytes:
        """Return the 32 secret random bytes of a population, for keyed fingerprints; never to be
        exported.

        Raises DeclarationError for a population without an account and Damaged if
        the key is not the one that the account was opened with.
        """
        sums = self._read(lambda view: view.state.population(population), empty=None)
        if sums is None:
            raise no_account(population)
        commitment = sums.facts.get("key", "")
        return head.read_key(self._book.store.keys, population=population, commitment=commitment)

    def verify(self) -> Tip:
        """Recompute every hash and every sum; return the newest row, which the head is not ahead
        of. Damaged names the first bad row.

        Also checks that each row could have been written at its place (no charge
        beyond its ceiling or its month's, no outcome without a reservation, no row older than the
        one before), that the sums that admission asks are those of the rows, that tables and
        indexes agree, and that the triggers are there.
        """
        if not self._book.exists():
            return Tip()
        from dp_pipeline.ledger.guards import guard_faults
        from dp_pipeline.ledger.verify import verify_rows
        from dp_pipeline.ledger.view import read_state

        with self._book.auditing() as (connection, head):
            intact = verify_rows(connection, head=head)
            self._book.require_head(head, connection)
            if intact.state != read_state(connection):
                raise Damaged(
                    f"ledger {self._book}: the table `state` is not what its rows add up to: "
                    "`dp-pipeline budget restore --reason …` computes it anew"
                )
            self._book.store.require_sound(connection)
            faults = guard_faults(connection)
        if faults:
            raise Damaged(f"ledger {self._book}: {faults[0]}")
        return intact.tip

    def restore(self, strays: Mapping[int, str] | None = None, *, reason: str, by: str) -> Tip:
        """Go on at the last row that holds: see ``ledger/verify.py``."""
        from dp_pipeline.ledger import verify

        return verify.restore(self._book, strays or {}, reason=reason, by=by)

    def sweep_locks(self) -> int:
        """Remove the lock files that killed runs left; return their number."""
        return self._book.store.sweep_locks() if self._book.exists() else 0
