"""The account of a data set's population, and the snapshot that is read under it.

Accounts of populations as plain values, for people and for programs.

What lies in a home of populations that its ledger does not know: then the ledger was lost.

Looked at before an account is opened, and never again: whoever is known pays for nothing here.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from pathlib import Path

from dp_pipeline.config.amounts import delta_text, epsilon_text
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import Damaged, NotPrepared, PipelineError
from dp_pipeline.config.source import dataset_name
from dp_pipeline.config.system_errors import system_line
from dp_pipeline.export.folder import RELEASE
from dp_pipeline.files import close_folders
from dp_pipeline.ledger import Account, Balance, Ledger
from dp_pipeline.raw.retirement import stored_populations
from dp_pipeline.raw.snapshot import Snapshot, current_snapshot, preparation_hint
from dp_pipeline.releases.home import SHELF, Home
from dp_pipeline.releases.store import BUNDLE_FILE, POPULATION, TRANSCRIPT_FILE


@dataclass(frozen=True)
class Budget:
    """One population.

    releases   charges, settled or not
    windows    what was charged to each window, where rows are cut; else empty
    """

    population: str
    releases: int
    balance: Balance
    windows: Mapping[str, Fraction] = field(default_factory=dict)

    @property
    def windows_word(self) -> str:
        """How full the windows are, in words; empty where there are none."""
        if not self.windows:
            return ""
        fullest, spent = max(self.windows.items(), key=lambda pair: pair[1])
        currency, most = self.balance.currency, self.balance.window_ceiling
        limit = "without a limit of each" if most is None else f"of {currency.text(most)} each"
        many = len(self.windows)
        return (
            f"{many} windows charged, {limit}; the fullest is {fullest} with {currency.text(spent)}"
        )

    def texts(self) -> dict[str, str]:
        """Exact amounts as text; ``none`` where there is no ceiling. An account in ρ also says
        its δ, and which ε there what was spent means.
        """
        texts, currency = self._texts(epsilon_text), self.balance.currency
        if self.balance.delta_summary:
            most = self.balance.delta_ceiling
            texts["own_delta_spent"] = str(self.balance.delta_spent)
            texts["own_delta_ceiling"] = "none" if most is None else str(most)
        if self.windows:
            limit = self.balance.window_ceiling
            texts["windows"] = str(len(self.windows))
            texts["fullest_window"] = epsilon_text(max(self.windows.values()))
            texts["each_window"] = "none" if limit is None else epsilon_text(limit)
        if currency.delta is None:
            return texts
        return {
            **texts,
            "currency": currency.name,
            "delta": delta_text(currency.delta),
            "spent_epsilon": epsilon_text(currency.epsilon_of(self.balance.spent)),
        }

    def cells(self) -> list[str]:
        """One line of a table for a person."""
        return list(self._texts(self.balance.currency.text).values())

    def _texts(self, text: Callable[[Fraction], str]) -> dict[str, str]:
        balance = self.balance
        amounts = {
            "spent": balance.spent,
            "left": balance.remaining,
            "ceiling": balance.ceiling,
            "per_month": balance.per_month,
            "month_left": balance.month_remaining,
        }
        return {
            "population": self.population,
            "releases": str(self.releases),
            "not_dp": str(balance.not_dp),
            **{name: "none" if one is None else text(one) for name, one in amounts.items()},
        }


def budgets(ledger: Ledger, dataset: str | None) -> Sequence[Budget]:
    """Every account, or the one of a data set's population; the ledger is verified first."""
    ledger.verify()
    populations = ledger.populations()
    if dataset is not None:
        wanted = population_of(dataset)
        populations = tuple(one for one in populations if one == wanted)
    return [_budget(ledger, population) for population in populations]


def population_of(dataset: str) -> str:
    """The population of a declared data set; DeclarationError where none is called so."""
    from dp_pipeline.config.catalogue import file_of
    from dp_pipeline.config.parser import load_spec

    return load_spec(file_of(dataset)).population


def _budget(ledger: Ledger, population: str) -> Budget:
    return Budget(
        population=population,
        releases=ledger.releases(population),
        balance=ledger.balance(population),
        windows=ledger.blocks(population),
    )


@dataclass(frozen=True)
class Trace:
    """Rows or releases of somebody.

    population   whose they are; None where nothing that can be read says so
    """

    path: Path
    population: str | None


def require_no_history(spec: DatasetSpec, home: Home) -> None:
    """Damaged, naming where, when a home holds rows or releases of a population that its ledger
    does not know, or of one that cannot be read, or evaluations or reports of a data set that its
    ledger does not know.

    Whatever population asks: under another name the same persons would get a new budget.
    """
    ledger = home.ledger
    known = ledger.populations()
    expected = f"{spec.name}: expected the ledger that knows"
    for trace in traces(home):
        if trace.population is None:
            raise Damaged(
                f"{expected} whose rows or releases lie in {trace.path}, got some that name no "
                f"population: run their data set again, or put them outside of {home.root}"
            )
        if trace.population not in known:
            raise Damaged(
                f"{expected} population {trace.population}, got one that does not, beside rows or "
                f"releases of it in {trace.path}: put the ledger and its head back, or the rows "
                f"and releases outside of {home.root}"
            )
    names = {source for source, _ in ledger.claims()}
    if dataset_name(spec.name) not in names and any(map(_holds, _of_dataset(spec, home))):
        raise Damaged(
            f"{expected} data set {spec.name}, got one that does not, beside evaluations or "
            f"reports of it in {home.root}: put the ledger and its head back, or those elsewhere"
        )


def traces(home: Home) -> Iterator[Trace]:
    """Every snapshot, every release and every export on the shelf of a home."""
    for path, population in stored_populations(home.raw):
        yield Trace(path, population)
    yield from _releases(home.released)
    yield from _releases(home.root / SHELF)


def _of_dataset(spec: DatasetSpec, home: Home) -> tuple[Path, ...]:
    reports = (home.reports / f"{spec.name}{ending}" for ending in (".html", ".cards"))
    return (home.internal / spec.name, *reports)


def _holds(path: Path) -> bool:
    return any(path.iterdir()) if path.is_dir() else path.exists()


_BUNDLES = (BUNDLE_FILE, RELEASE)
"""Of a release in the home, and of an export."""


def _releases(root: Path) -> Iterator[Trace]:
    """Every folder of a release, for each whom it or its bundles name."""
    for name, folders, files in os.walk(root, followlinks=True, onerror=_refused):
        if not {POPULATION, TRANSCRIPT_FILE, *_BUNDLES}.isdisjoint(files):
            # What lies below belongs to it.
            below, folders[:] = [Path(name, one) for one in folders], []
            named = _named(Path(name), below)
            yield from (Trace(Path(name), one) for one in sorted(named))
            if not named:
                yield Trace(Path(name), None)


def _refused(error: OSError) -> None:
    """What cannot be listed may hold anybody's releases; what is not there holds none."""
    if not isinstance(error, FileNotFoundError):
        raise PipelineError(system_line(error)) from None


def _named(folder: Path, below: list[Path]) -> set[str]:
    named = {_in_bundle(one / file) for one in (folder, *below) for file in _BUNDLES}
    with contextlib.suppress(OSError, ValueError):
        named.add((folder / POPULATION).read_text(encoding="utf-8").strip())
    return {one for one in named if one}


def _in_bundle(path: Path) -> str | None:
    """Whom a bundle names; None where there is none, or it cannot be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["facts"]["population"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if isinstance(found, str) else None


def open_population(spec: DatasetSpec, home: Home) -> Ledger:
    """Open the account of a data set's population, claim its source for it, give the ledger.

    Both are one transaction of the ledger: a refused claim opens no account. The account rules: a
    file that declares lower limits goes on, and ``limits_word`` says so.

    Raises DeclarationError when the account has another unit, relation, purpose or delta, or lower
    limits than the file, or the source belongs to another population; Damaged when this home
    holds rows or releases of a population that its ledger has never heard of, or of nobody knows
    whom, and a new account would be opened: a ledger that is gone must not come back with a full
    budget.
    """
    ledger = home.ledger
    if ledger.account(spec.population) is None:
        require_no_history(spec, home)
    if not ledger.populations():
        # At its first use only: whoever opens it later wants others to reach what is published.
        close_folders(home.root)
    ledger.open_account(
        declared_account(spec),
        sources=names_to_claim(spec),
        distinct_population=spec.distinct_population,
    )
    return ledger


def names_to_claim(spec: DatasetSpec) -> tuple[str, ...]:
    """By what the ledger knows a data set: the names of its source, and what it is called."""
    return (*spec.source.identities, dataset_name(spec.name))


def claiming(spec: DatasetSpec, ledger: Ledger) -> Callable[..., None]:
    """Claims more names of a data set's source for its population, as the declared ones are: of
    files behind links, and the hash of a download that nobody declared.
    """
    reason = spec.distinct_population
    return partial(ledger.claim_source, spec.population, distinct_population=reason)


def limits_word(spec: DatasetSpec, home: Home) -> str:
    """One line where the data set file declares other limits than the account has; else empty."""
    opened = home.ledger.account(spec.population)
    return "" if opened is None else declared_account(spec).difference_from(opened)


def declared_account(spec: DatasetSpec) -> Account:
    """The account as the data set file declares it."""
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
    """The snapshot that is read now, under the account that the file declares.

    windows   those that are read together, the last of them the declaration's own; none: that alone

    Raises what ``open_population`` does, so that no stage reads rows, and no evaluation
    shows exact numbers, under a declaration that the ledger does not know; NotPrepared
    before the first snapshot.
    """
    spec.require_window()
    ledger = open_population(spec, home)
    names = windows or (spec.window,)
    found = [_current(spec, home, ledger, name) for name in names]
    return replace(found[-1], earlier=tuple(found[:-1]))


def _current(spec: DatasetSpec, home: Home, ledger: Ledger, window: str) -> Snapshot:
    snapshot = current_snapshot(home.raw, spec.name, ledger.key(spec.population), window)
    if snapshot is None:
        of = f" of {window}" if window else ""
        raise NotPrepared(
            f"{spec.name}: expected a prepared snapshot{of}, got none: "
            f"{preparation_hint(spec.name)}"
        )
    # Since it was read, another population may have come to hold what it was read from.
    claiming(spec, ledger)(*snapshot.claimed)
    return snapshot
