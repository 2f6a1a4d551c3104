"""The ledger account of a data set's population, and the snapshot that is read under it."""

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import Damaged, NotPrepared, PipelineError
from dp_pipeline.config.source import dataset_name
from dp_pipeline.config.system_errors import system_line
from dp_pipeline.export.folder import RELEASE
from dp_pipeline.files import close_folders
from dp_pipeline.ledger import Account, Ledger
from dp_pipeline.raw.retirement import paths_with_population
from dp_pipeline.raw.snapshot import Snapshot, current_snapshot, preparation_hint
from dp_pipeline.releases.home import SHELF, Home
from dp_pipeline.releases.store import BUNDLE_FILE, POPULATION, TRANSCRIPT_FILE


def open_population(spec: DatasetSpec, home: Home) -> Ledger:
    """Open the account of a data set's population and claim its source; return the ledger.

    Both are one transaction: a refused claim opens no account. Where the file declares lower
    limits, those of the account apply.

    Raises DeclarationError when the account has another unit, relation, purpose or delta, or lower
    limits than the file, or the source belongs to another population; Damaged when a new account
    would be opened although this home holds rows or releases of an unknown population: a lost
    ledger must not come back with a full budget. The first account of a home also closes its
    folders to other users.
    """
    ledger = home.ledger
    if ledger.account(spec.population) is None:
        require_no_history(spec, home)
    if not ledger.populations():
        # At its first use only: an owner who opens it later lets others reach published copies.
        close_folders(home.root)
    account, names = declared_account(spec), names_to_claim(spec)
    ledger.open_account(account, sources=names, distinct_population=spec.distinct_population)
    return ledger


def names_to_claim(spec: DatasetSpec) -> tuple[str, ...]:
    """Return the names that a data set claims in the ledger: its own and those of its source."""
    return (*spec.source.identities, dataset_name(spec.name))


def source_claimer(spec: DatasetSpec, ledger: Ledger) -> Callable[..., None]:
    """Return a function that claims names in the ledger for the population of a data set.

    It takes the names as arguments, and raises what ``Ledger.claim_source`` raises.
    """
    reason = spec.distinct_population
    return partial(ledger.claim_source, spec.population, distinct_population=reason)


def limits_note(spec: DatasetSpec, home: Home) -> str:
    """Return a line on limits or time windows in which file and account differ; "" if none do.

    Without an account it is "" too. If the file adds windows to an account, it raises what
    ``Account.count_earlier_in_window`` raises, as where more was spent than a window may cost.
    """
    account, declared = home.ledger.account(spec.population), declared_account(spec)
    if account is None:
        return ""
    if not gains_windows(spec, account):
        return declared.difference_from(account)
    balance, text = home.ledger.balance(spec.population), spec.currency.text
    earlier = account.with_windows(declared).count_earlier_in_window(
        account, balance.spent, delta=balance.delta_spent
    )
    return (
        f"population {spec.population}: its account has no windows, so a run is refused: "
        f"`dp-pipeline budget add-windows {spec.name} --reason …` adds them once; what was "
        f"spent before, {text(balance.spent)}, then counts as {text(earlier)} in every window"
    )


def gains_windows(spec: DatasetSpec, account: Account) -> bool:
    """Return whether the file declares windows but the account of its population has none."""
    return spec.windows is not None and not account.windows


def declared_account(spec: DatasetSpec) -> Account:
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

    windows   time windows to read together, the declaration's own last: its snapshot then names
              those of the others as ``earlier``; empty: only the declaration's own

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
                f"{spec.name}: no snapshot{of_window} is prepared: "
                f"{preparation_hint(spec.name, window)}"
            )
        # Since it was read, another population may have come to hold what it was read from.
        claim(*snapshot.claimed)
        snapshots.append(snapshot)
    return replace(snapshots[-1], earlier=tuple(snapshots[:-1]))


def require_no_history(spec: DatasetSpec, home: Home) -> None:
    """Raise Damaged if the ledger does not know the population of rows or releases in the home.

    Also if it does not know this data set, but evaluations or reports of it are there. Any
    population counts: under another name the same persons would get a new budget.
    """
    ledger = home.ledger
    known_populations = ledger.populations()
    for path, population in find_traces(home):
        kind = "rows" if home.raw in path.parents else "releases"
        if population is None:
            raise Damaged(
                f"{spec.name}: the {kind} in {path} name no population, so the ledger cannot "
                f"know them: restore them from a backup, or put them outside of {home.root}"
            )
        if population not in known_populations:
            raise Damaged(
                f"{spec.name}: the ledger does not know population {population}, although "
                f"{kind} of it are in {path}: put the ledger and its head back, or those "
                f"{kind} outside of {home.root}"
            )
    reports = [home.reports / f"{spec.name}{ending}" for ending in (".html", ".cards")]
    paths = (home.internal / spec.name, *reports)
    results = [path for path in paths if (any(path.iterdir()) if path.is_dir() else path.exists())]
    if results and dataset_name(spec.name) not in {name for name, _ in ledger.claims()}:
        raise Damaged(
            f"{spec.name}: the ledger does not know this data set, although "
            f"{'evaluations' if results[0] == paths[0] else 'reports'} of it are in {results[0]}: "
            f"put the ledger and its head back, or move those outside of {home.root}"
        )


_BUNDLES = (BUNDLE_FILE, RELEASE)
"""The bundle of a release in the home, and of an export."""


def find_traces(home: Home) -> Iterator[tuple[Path, str | None]]:
    """Yield the path of every snapshot, release and published copy in a home, with its population.

    Several populations are yielded one by one; None stands for an unknown one.
    """
    yield from paths_with_population(home.raw)
    roots = (home.released, home.root / SHELF)
    walks = (os.walk(root, followlinks=True, onerror=_refuse_unlisted) for root in roots)
    for name, folders, files in chain.from_iterable(walks):
        if not {POPULATION, TRANSCRIPT_FILE, *_BUNDLES}.isdisjoint(files):
            # What lies below belongs to it.
            below, folders[:] = [Path(name, folder) for folder in folders], []
            paths = (folder / file for folder in (Path(name), *below) for file in _BUNDLES)
            populations = set(map(_bundle_population, paths))
            with contextlib.suppress(OSError, ValueError):
                populations.add(Path(name, POPULATION).read_text(encoding="utf-8").strip())
            owners: list[str | None] = [*sorted(filter(None, populations))]
            yield from ((Path(name), population) for population in owners or [None])


def _refuse_unlisted(error: OSError) -> None:
    """Raise PipelineError for a folder that cannot be listed; a missing folder counts as empty."""
    if not isinstance(error, FileNotFoundError):
        raise PipelineError(system_line(error)) from None


def _bundle_population(path: Path) -> str | None:
    try:
        population = json.loads(path.read_text(encoding="utf-8"))["facts"]["population"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return population if isinstance(population, str) else None
