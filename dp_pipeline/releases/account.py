"""The ledger account of a data set's population, and the snapshot that is read under it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import NotPrepared
from dp_pipeline.config.source import dataset_name
from dp_pipeline.files import close_folders
from dp_pipeline.ledger import Account, Ledger
from dp_pipeline.raw.snapshot import Snapshot, current_snapshot, preparation_hint
from dp_pipeline.releases.home import Home
from dp_pipeline.releases.traces import require_no_history


def open_population(spec: DatasetSpec, home: Home) -> Ledger:
    """Open the account of a data set's population, claim its source, and return the ledger.

    Both are one transaction: a refused claim opens no account. Where the file declares lower
    limits, those of the account apply.

    Raises DeclarationError when the account has another unit, relation, purpose or delta, or lower
    limits than the file, or the source belongs to another population; Damaged when a new account
    would be opened although this home holds rows or releases of an unknown population: a lost
    ledger must not come back with a full budget.
    """
    ledger = home.ledger
    if ledger.account(spec.population) is None:
        require_no_history(spec, home)
    if not ledger.populations():
        # At its first use only: an owner who opens it later wants others to reach what is
        # published.
        close_folders(home.root)
    ledger.open_account(
        declared_account(spec),
        sources=names_to_claim(spec),
        distinct_population=spec.distinct_population,
    )
    return ledger


def names_to_claim(spec: DatasetSpec) -> tuple[str, ...]:
    """Return the names that a data set claims in the ledger: those of its source, and its own."""
    return (*spec.source.identities, dataset_name(spec.name))


def source_claimer(spec: DatasetSpec, ledger: Ledger) -> Callable[..., None]:
    """Return a function that claims more names of the source for the data set's population."""
    reason = spec.distinct_population
    return partial(ledger.claim_source, spec.population, distinct_population=reason)


def limits_note(spec: DatasetSpec, home: Home) -> str:
    """Return a line on limits of the file that differ from the account's; empty if none."""
    account, declared = home.ledger.account(spec.population), declared_account(spec)
    if account is None:
        return ""
    if not gains_windows(spec, account):
        return declared.difference_from(account)
    balance, text = home.ledger.balance(spec.population), spec.currency.text
    earlier = account.with_windows(declared).require_room_for_earlier(
        account, balance.spent, delta=balance.delta_spent
    )
    return (
        f"population {spec.population}: its account has no windows, so a run is refused: "
        f"`dp-pipeline budget add-windows {spec.name} --reason …` adds them once; what was "
        f"spent before, {text(balance.spent)}, then counts as {text(earlier)} in every window"
    )


def gains_windows(spec: DatasetSpec, account: Account) -> bool:
    """Return whether the file declares windows that the account of its population lacks."""
    return spec.windows is not None and not account.windows


def declared_account(spec: DatasetSpec) -> Account:
    """Return the account that a data set file declares."""
    return Account(
        population=spec.population,
        unit=str(spec.protection),
        relation=spec.relation,
        purpose=spec.purpose,
        ceiling=spec.ceiling,
        delta=spec.delta,
        per_month=spec.per_month,
        delta_ceiling=spec.delta_ceiling,
        windows="" if spec.windows is None else spec.windows.words,
        within=spec.within or "ever",
        each_window=spec.each_window,
    )


def require_snapshot(spec: DatasetSpec, home: Home, windows: Sequence[str] = ()) -> Snapshot:
    """Return the current snapshot of a data set, after opening its account.

    windows   time windows that are read together, ending with the declaration's own; default: that

    Raises what ``open_population`` raises, so that rows are read, and exact numbers shown, under
    the ledger's account only; NotPrepared if there is no snapshot.
    """
    spec.require_window()
    ledger = open_population(spec, home)
    key, claim = ledger.key(spec.population), source_claimer(spec, ledger)
    snapshots = []
    for window in windows or (spec.window,):
        snapshot = current_snapshot(home.raw, spec.name, key, window)
        if snapshot is None:
            of_window = f" of {window}" if window else ""
            raise NotPrepared(
                f"{spec.name}: expected a prepared snapshot{of_window}, got none: "
                f"{preparation_hint(spec.name)}"
            )
        # Since it was read, another population may have come to hold what it was read from.
        claim(*snapshot.claimed)
        snapshots.append(snapshot)
    return replace(snapshots[-1], earlier=tuple(snapshots[:-1]))
