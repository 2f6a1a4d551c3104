"""The ledger: accounts, claims, reservations and what is left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from dp_pipeline.config.amounts import NANO
from dp_pipeline.config.errors import Damaged
from dp_pipeline.ledger import head, reservation
from dp_pipeline.ledger import reservation as claims
from dp_pipeline.ledger.account import Account
from dp_pipeline.ledger.balance import Balance, no_account, this_month
from dp_pipeline.ledger.book import Book, Store
from dp_pipeline.ledger.entries import Charge, Entry, require_key, require_line
from dp_pipeline.ledger.head import Draft, Head, Tip
from dp_pipeline.ledger.reservation import Reservation
from dp_pipeline.ledger.sqlite import SqliteStore

if TYPE_CHECKING:
    from dp_pipeline.ledger.view import Page


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

    def format(self) -> int | None:
        """The number of the format that is stored, whether this program reads it or not; None
        where there is no ledger, Damaged where something else is in its place.
        """
        return self._book.format()

    def open_account(
        self,
        account: Account,
        *,
        sources: Sequence[str] = (),
        distinct_population: str | None = None,
    ) -> Account:
        """Open an account with its claims, or find it open; gives the account as it is.

        sources   what the population is about to open, as of ``claim_source``; all in the one
                  transaction that opens the account, so that a refused claim opens none

        The account rules: a declaration of lower limits than it has goes on under those of the
        account (``Account.difference_from`` says so in words). Raises DeclarationError, naming
        both, for another unit, relation, purpose or delta, for a higher limit, and whatever
        ``claim_source`` does.
        """
        # Asked before every stage, and seldom news: then nobody waits for the lock of all writers.
        as_it_is = self._found_open(account, sources, distinct_population)
        if as_it_is is not None:
            return as_it_is
        population = account.population
        self._book.create()
        with self._book.writing() as page:
            found = page.account(population)
            if found is None:
                key = head.ensure_key(self._book.keys, population=population)
                facts = {**account.facts(), "key": head.commit(key)}
                page.append(Draft(event="account", population=population, facts=facts))
            else:
                account.require_within(found)
            claims.claim(page, population, sources, distinct_population=distinct_population)
            return found or account

    def _found_open(
        self, account: Account, sources: Sequence[str], distinct_population: str | None
    ) -> Account | None:
        """The account as it is, where it is open and holds all sources; else None."""
        if not self._book.exists():
            return None
        with self._book.reading() as view:
            found = view.account(account.population)
            if found is None:
                return None
            account.require_within(found)
            new = claims.unclaimed(
                view,
                account.population,
                found.purpose,
                sources,
                distinct_population=distinct_population,
            )
            return None if new else found

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
        """Let a population spend more, for ever; give the account as it is from now on.

        total      the new ceiling, at least the old one; None where there is none, because each
                   window has a limit. Where rows are cut it may be added, as ``each_window`` may
        per_month  the new limit of a calendar month, or None for none
        reason     why, in one line; kept in the row, and exported
        by         who
        delta_ceiling   the new ceiling of the charges' own δ; None: as it is
        each_window     the new limit of each window, at least the old one; None: as it is

        Raises DeclarationError for a lower ceiling, for no change, and for a population without
        an account or without a ceiling.
        """
        require_line(reason, of=f"reason to raise the ceiling of population {population}")
        require_line(by, of=f"who raises the ceiling of population {population}")
        with self._writing_for(population) as page:
            now = page.require_account(population)
            raised = now.raised(
                total=total,
                per_month=per_month,
                delta_ceiling=delta_ceiling,
                each_window=each_window,
            )
            facts = {**raised.limits(), "reason": reason, "by": by}
            page.append(Draft("raise", population, facts=facts))
        return raised

    def retire(self, population: str, snapshots: Sequence[str], *, by: str) -> None:
        """Note that the rows of a population are about to be deleted; its account stays as it is.

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
        """Say that a population is about to open sources (a URI, a fingerprint: any text), all of
        them in one transaction with what is asked of them.

        Raises DeclarationError if another population holds one of them, unless both
        are benchmarks, or a release population gives the reason why its persons are
        different ones. A benchmark never opens what a release population holds.
        The table of cases and the proof are in ``ledger/reservation.py``.
        """
        if not self._book.exists():
            raise no_account(population)
        # Asked before every use of a snapshot, and seldom news.
        with self._book.reading() as view:
            purpose = view.require_account(population).purpose
            if not claims.unclaimed(
                view, population, purpose, sources, distinct_population=distinct_population
            ):
                return
        with self._book.writing() as page:
            claims.claim(page, population, sources, distinct_population=distinct_population)

    def claims(self) -> tuple[tuple[str, str], ...]:
        """Every claim, oldest first: the source and the population that holds it."""
        if not self._book.exists():
            return ()
        with self._book.reading() as view:
            return view.state.claims()

    def require_claimable(
        self,
        population: str,
        *sources: str,
        purpose: str = "benchmark",
        distinct_population: str | None = None,
    ) -> None:
        """Raise what ``claim_source`` does for a population of this purpose, known or not; write
        nothing. For whoever shows exact numbers without an account of their own, such as a study,
        and for whoever checks a declaration.
        """
        if not self._book.exists():
            return
        with self._book.reading() as view:
            claims.unclaimed(
                view, population, purpose, sources, distinct_population=distinct_population
            )

    @contextmanager
    def reserve(self, charge: Charge) -> Iterator[Reservation]:
        """Pay for a release before anyone looks; the block holds the lock of its key.

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
        with self._book.holding(charge.key) as still_held:
            with self._book.writing() as page:
                state = reservation.enter(page, charge)
            entered = Reservation(self._book, charge=charge, state=state, still_held=still_held)
            try:
                yield entered
            finally:
                entered.leave()

    def account(self, population: str) -> Account | None:
        """The account as it is now, raises and all; None if it was never opened."""
        if not self._book.exists():
            return None
        with self._book.reading() as view:
            return view.account(population)

    def balance(self, population: str, blocks: Sequence[str] = ()) -> Balance:
        """What a population has spent and has left, exactly, for ever and in this month; zero and
        no ceiling if it is unknown.

        blocks   the windows that are asked about, where rows are cut
        """
        if not self._book.exists():
            return Balance(ceiling=None, spent=Fraction(0), month=this_month())
        with self._book.reading() as view:
            return view.balance(population, blocks)

    def blocks(self, population: str) -> dict[str, Fraction]:
        """Every window that was ever charged, by name, and the sum of its charges, exactly."""
        if not self._book.exists():
            return {}
        with self._book.reading() as view:
            names = view.state.blocks(population)
            spent = {name: view.state.block(population, name).spent for name in names}
        return {name: Fraction(nano, NANO) for name, nano in spent.items()}

    def releases(self, population: str) -> int:
        """How many charges a population has, with an ε or without, settled or not."""
        if not self._book.exists():
            return 0
        with self._book.reading() as view:
            found = view.state.population(population)
        return 0 if found is None else found.releases

    def populations(self) -> tuple[str, ...]:
        """Every population with an account, in the order of opening."""
        if not self._book.exists():
            return ()
        with self._book.reading() as view:
            return view.state.populations()

    def state(self, key: str) -> str | None:
        """None, "reserved", "interrupted", "settled" or "dead".

        From the rows alone: "reserved" and "interrupted" do not tell whether
        somebody is still at work.
        """
        return self.states([key])[0]

    def states(self, keys: Sequence[str]) -> tuple[str | None, ...]:
        """The same of several releases, in one look at the ledger."""
        for key in keys:
            require_key(key)
        if not self._book.exists():
            return (None,) * len(keys)
        with self._book.reading() as view:
            return tuple(reservation.state_of(view, key) for key in keys)

    def consistent_view(self) -> AbstractContextManager[None]:
        """A block in which everything that is read is of one moment, as nothing is written."""
        return self._book.consistent_view()

    def unfinished(self) -> tuple[str, ...]:
        """The keys of all charged releases that have not ended, in their order."""
        if not self._book.exists():
            return ()
        with self._book.reading() as view:
            return view.state.unfinished_keys()

    def history(self, key: str) -> tuple[Entry, ...]:
        """Of one release the row that reserved it, and the row that settled it or says that it is
        dead, with its spends; neither where it was never asked for.
        """
        require_key(key)
        if not self._book.exists():
            return ()
        with self._book.reading() as view:
            return view.release(key)

    def entries(self, population: str | None = None) -> tuple[Entry, ...]:
        """Every row in order, settled ones with their spends; of one population if it is named. For
        whoever shows them all: what is asked of one release or one sum has a method of its own.
        """
        if not self._book.exists():
            return ()
        with self._book.reading() as view:
            return view.entries() if population is None else view.of_population(population)

    def not_dp_releases(self, population: str) -> tuple[Entry, ...]:
        """The rows that charged a population with releases that have no ε, oldest first, finished
        or not: whoever made them looked at the rows, and what they show adds to all others.
        """
        if not self._book.exists():
            return ()
        with self._book.reading() as view:
            return view.not_dp(population)

    def key(self, population: str) -> bytes:
        """The 32 secret random bytes of a population, for keyed fingerprints; never to be exported.

        Raises DeclarationError for a population without an account and Damaged if
        the key is not the one that the account was opened with.
        """
        if not self._book.exists():
            raise no_account(population)
        with self._book.reading() as view:
            found = view.state.population(population)
        if found is None:
            raise no_account(population)
        commitment = found.facts.get("key", "")
        return head.read_key(self._book.keys, population=population, commitment=commitment)

    def verify(self) -> Tip:
        """Recompute every hash and every sum; Damaged names the first bad row. Gives the newest
        row, which the head is not ahead of.

        Also checks that each row could have been written at its place (no charge
        beyond its ceiling or its month's, no outcome without a reservation, no row older than the
        one before), that the sums that admission asks are those of the rows, that tables and
        indexes tell the same, and that the triggers are there.
        """
        if not self._book.exists():
            return Tip()
        from dp_pipeline.ledger.guards import guard_faults
        from dp_pipeline.ledger.verify import verified
        from dp_pipeline.ledger.view import read_state

        with self._book.auditing() as (connection, head):
            found = verified(connection, head=head)
            self._book.require_intact(head, connection)
            if found.state != read_state(connection):
                raise Damaged(
                    f"ledger {self._book}: the table `state` is not what its rows add up to: "
                    "`dp-pipeline budget restore --reason …` computes it anew"
                )
            self._book.require_sound(connection)
            faults = guard_faults(connection)
        if faults:
            raise Damaged(f"ledger {self._book}: {faults[0]}")
        return found.tip

    def restore(self, named: Mapping[int, str] | None = None, *, reason: str, by: str) -> Tip:
        """Go on at the last row that holds: see ``ledger/verify.py``."""
        from dp_pipeline.ledger import verify

        return verify.restore(self._book, named or {}, reason=reason, by=by)

    def sweep_locks(self) -> int:
        """Remove the lock files that killed runs left; gives their number."""
        return self._book.sweep_locks() if self._book.exists() else 0
