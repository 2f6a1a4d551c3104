"""The ledger: accounts, claims of sources, reservations of budget, and balances."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from dp_pipeline.config.amounts import NANO
from dp_pipeline.config.errors import Damaged
from dp_pipeline.ledger import head, reservation
from dp_pipeline.ledger.account import WINDOW_FACTS, Account
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
    """The record of what every population has spent, shared by all runs and processes.

    folder   contains locks/ and keys/, and ledger.sqlite if there is no ``store``; mode 0700
    head     the file that names the newest row, so that an older copy of the ledger is refused; by
             default next to the folder, safer on another disk
    store    the database of the rows; None: ledger.sqlite

    Nothing is created before ``open_account``; a ledger that does not exist gives empty results.
    Processes and threads may share a folder, on a file system with working flock (not every network
    share). Every method raises Damaged if rows are lost, changed, or older than the head.
    """

    def __init__(
        self, folder: Path, *, head: Path | None = None, store: Store | None = None
    ) -> None:
        self.folder = folder
        self._book = Book(store or SqliteStore(folder), Head.of(folder, declared=head))

    def format(self) -> int | None:
        """Return the number of the stored format, even one that this program cannot read; None
        without a ledger."""
        if not self._book.exists():
            return None
        with self._book.store.unchecked_transaction(writing=False) as connection:
            return self._book.store.format(connection)

    def open_account(
        self,
        account: Account,
        *,
        sources: Sequence[str] = (),
        distinct_population: str | None = None,
    ) -> Account:
        """Open an account unless it is open, claim its sources, and return the stored account; the
        first account creates the ledger, and each gets a secret key.

        sources   the sources that the population will read, claimed in the same transaction
        distinct_population   why its persons are others than those of another holder

        Lower declared limits are accepted, but the stored ones apply
        (``Account.difference_from``). Raises DeclarationError for a declaration that disagrees with
        the open account (``Account.require_within``), and as ``claim_source`` does.
        """
        population = account.population
        claim = Claim(population, sources, distinct_population)

        def find_complete(view: View) -> Account | None:
            opened = view.state.account(population)
            if opened is None:
                return None
            account.require_within(opened)
            return None if claim.find_new_sources(view, opened.purpose) else opened

        # Asked before every stage, and seldom news: then nobody waits for the lock of all writers.
        as_it_is = self._read(find_complete, empty=None)
        if as_it_is is not None:
            return as_it_is
        self._book.create()
        with self._book.writing() as page:
            opened = page.state.account(population)
            if opened is None:
                key = head.ensure_key(self._book.store.keys, population=population)
                facts = {**account.facts(), "key": head.key_commitment(key)}
                page.append(Draft(event="account", population=population, facts=facts))
            else:
                account.require_within(opened)
            claim.write(page)
            return opened or account

    def raise_ceiling(
        self, population: str, *, reason: str, by: str, **changed: Fraction | None
    ) -> Account:
        """Raise the ceiling of a population, or change another limit, permanently; return the
        account with the new limits.

        changed  the new ceiling, per_month, each_window or delta_ceiling; None: no limit
        reason   one line, stored in the row and exported
        by       name of the user, stored in the row

        Raises DeclarationError as ``Account.with_changed_limits``, and for a population without an
        account.
        """
        require_line(reason, of=f"reason to raise the ceiling of population {population}")
        require_line(by, of=f"name of who raises the ceiling of population {population}")
        with self._writing_for(population) as page:
            raised = page.require_account(population).with_changed_limits(changed)
            facts = {**raised.limits(), "reason": reason, "by": by}
            page.append(Draft("raise", population, facts=facts))
        return raised

    def add_windows(self, declared: Account, *, reason: str, by: str) -> Account:
        """Partition the rows of a population into windows from now on; return its account.

        declared   the account as the file with windows declares it
        reason     one line, stored in the row and exported
        by         name of the user, stored in the row

        What was spent before counts against every window, as often as ``times_in_windows`` says.
        Raises DeclarationError for a population without an account or with windows, where what it
        protected does not cover a window's rows, and where a window has no room for what was spent.
        """
        population = declared.population
        require_line(reason, of=f"reason to add windows to population {population}")
        require_line(by, of=f"name of who adds windows to population {population}")
        with self._writing_for(population) as page:
            before, balance = page.require_account(population), page.balance(population)
            after = before.with_windows(declared)
            after.count_earlier_in_window(before, balance.spent, delta=balance.delta_spent)
            facts = after.facts()
            facts = {name: facts[name] for name in (*WINDOW_FACTS, *after.limits())}
            facts |= {"reason": reason, "by": by}
            page.append(Draft("windows", population, facts=facts))
        return after

    def retire(self, population: str, snapshots: Sequence[str], *, by: str) -> None:
        """Record that rows of a population are about to be deleted; its account stays open.

        snapshots   "<data set>/<id>" of each; none may be used again
        by          name of the user, stored in the row

        Raises DeclarationError for a population without an account.
        """
        require_line(by, of=f"name of who retires population {population}")
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
        """Claim sources (URIs, fingerprints) for a population before it reads them, all or none.

        Raises DeclarationError if another population holds one of them, unless both are benchmarks,
        or a release population gives the reason why its persons are other persons. The table of
        cases and the proof are in ``ledger/claims.py``. Raises it too for a population without an
        account.
        """
        if not self._book.exists():
            raise no_account(population)
        claim = Claim(population, sources, distinct_population)
        # Asked before every use of a snapshot, and seldom news.
        with self._book.reading() as view:
            is_new = bool(claim.find_new_sources(view, view.require_account(population).purpose))
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
        """Raise the DeclarationError that ``claim_source`` would raise; write nothing.

        purpose   that of the population's account, which need not be open

        A ledger that does not exist refuses nothing.
        """
        claim = Claim(population, sources, distinct_population)
        self._read(lambda view: claim.find_new_sources(view, purpose), empty=list[str]())

    @contextmanager
    def reserve(self, charge: Charge) -> Iterator[Reservation]:
        """Charge a release, unless its key was charged before, and yield its reservation, whose
        ``state`` says which; the block holds the lock of the release's key.

        Rows are read inside the block only. A second process or thread with the same key waits for
        its end. The charge stays whatever happens inside. Reserving a key inside its own block
        waits for ever.

        Raises the errors of ``reservation.reserve_or_resume`` before the block is entered; nothing
        is written then.
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
        if not self._book.exists():
            return empty
        with self._book.reading() as view:
            return question(view)

    def claims(self) -> tuple[tuple[str, str], ...]:
        """Return every claim, oldest first, as a source and the population that holds it."""
        return self._read(lambda view: view.state.claims(), empty=())

    def account(self, population: str) -> Account | None:
        """Return the account of a population with its current limits; None if it was never
        opened."""
        return self._read(lambda view: view.state.account(population), empty=None)

    def balance(self, population: str, blocks: Sequence[str] = ()) -> Balance:
        """Return the exact amounts that a population has spent and has left; all zero without an
        account.

        blocks   names of the windows to include, where rows are partitioned into time windows
        """
        nothing = Balance(ceiling=None, spent=Fraction(0), month=this_month())
        return self._read(lambda view: view.balance(population, blocks), empty=nothing)

    def blocks(self, population: str) -> dict[str, Fraction]:
        """Return, by name, the ε or ρ spent in each window that was ever charged, including charges
        that count in every window."""

        def spent(view: View) -> dict[str, Fraction]:
            names = view.state.blocks(population)
            nanos = {name: view.state.block(population, name).spent for name in names}
            return {name: Fraction(nano, NANO) for name, nano in nanos.items()}

        return self._read(spent, empty={})

    def count_releases(self, population: str) -> int:
        """Return the number of charged releases of a population, including unsettled ones and those
        without ε."""
        sums = self._read(lambda view: view.state.population(population), empty=None)
        return 0 if sums is None else sums.releases

    def populations(self) -> tuple[str, ...]:
        """Return every population with an account, in the order of opening."""
        return self._read(lambda view: view.state.populations(), empty=())

    def state(self, key: str) -> str | None:
        """Return the state of the release with a key: "reserved", "interrupted", "settled" or
        "dead"; None if it was never reserved."""
        return self.states([key])[0]

    def states(self, keys: Sequence[str]) -> tuple[str | None, ...]:
        """Return the states of several releases, spelled as by ``state``, all at one moment and in
        the order of ``keys``."""
        for key in keys:
            require_key(key)
        return self._read(
            lambda view: tuple(reservation.state_of(view, key) for key in keys),
            empty=(None,) * len(keys),
        )

    def consistent_view(self) -> AbstractContextManager[None]:
        """Let all reads inside the block see the ledger at the moment of its beginning; to write
        there raises RuntimeError."""
        return self._book.consistent_view()

    def unfinished(self) -> tuple[str, ...]:
        """Return the keys of all reserved releases that are neither settled nor dead, sorted."""
        return self._read(lambda view: view.state.unfinished_keys(), empty=())

    def history(self, key: str) -> tuple[Entry, ...]:
        """Return the ledger row that reserved a release and, if it has ended, the row that settled
        it or says that it is dead; () for an unknown key."""
        require_key(key)
        return self._read(lambda view: view.rows_of_release(key), empty=())

    def entries(self, population: str | None = None) -> tuple[Entry, ...]:
        """Return the ledger rows of one population, or of all, oldest first and with their
        spends."""
        if population is None:
            return self._read(lambda view: view.entries(), empty=())
        return self._read(lambda view: view.of_population(population), empty=())

    def not_dp_releases(self, population: str) -> tuple[Entry, ...]:
        """Return the ledger rows that charge a population's releases without ε, of kind "not-dp",
        oldest first."""
        return self._read(lambda view: view.not_dp(population), empty=())

    def key(self, population: str) -> bytes:
        """Return the secret key of a population, 32 random bytes; never export it.

        Raises DeclarationError for a population without an account, and Damaged if the key is not
        the one that the account was opened with.
        """
        sums = self._read(lambda view: view.state.population(population), empty=None)
        if sums is None:
            raise no_account(population)
        commitment = sums.facts.get("key", "")
        return head.read_key(self._book.store.keys, population=population, commitment=commitment)

    def verify(self) -> Tip:
        """Recompute every hash and sum; return the number and hash of the newest ledger row, or
        ``Tip()`` if the ledger does not exist.

        Raises Damaged with the first row that is changed or could not have been written at its
        place (a charge above a limit, an outcome without a reservation, a row older than the one
        before), if the stored sums, indexes or triggers are wrong, or if the head is ahead of the
        rows.
        """
        if not self._book.exists():
            return Tip()
        from dp_pipeline.ledger.guards import guard_faults
        from dp_pipeline.ledger.verify import verify_rows
        from dp_pipeline.ledger.view import read_state

        with self._book.auditing() as (connection, head):
            try:
                intact = verify_rows(connection, head=head)
            except Damaged as fault:
                raise Damaged(f"ledger {self._book}: {fault}") from None
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
        """Replace invalid rows by charges, recompute all sums, and return the newest row.

        strays, reason, by   see ``verify.restore``
        """
        from dp_pipeline.ledger import verify

        return verify.restore(self._book, strays or {}, reason=reason, by=by)

    def sweep_locks(self) -> int:
        """Remove the lock files of releases that nobody holds, left by killed runs; return their
        number."""
        return self._book.store.sweep_locks() if self._book.exists() else 0
