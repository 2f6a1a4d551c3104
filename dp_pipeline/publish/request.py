"""RunRequest: what one command asks of one data set.

What a run would cost, from declarations and ledger alone: nothing is read or charged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

from dp_pipeline.gate.mechanisms import gaussian_variance, laplace_scale
from dp_pipeline.ledger import Account, Balance
from dp_pipeline.models.tables.base import BYTES_A_CELL, TableModel
from dp_pipeline.publish.account import declared_account, limits_word
from dp_pipeline.publish.domain_release import DomainRelease, with_discovered
from dp_pipeline.publish.epsilon_release import EpsilonRelease
from dp_pipeline.publish.home import Home, noise_name
from dp_pipeline.publish.release import Release
from dp_pipeline.raw.snapshot import Snapshot, current_snapshot, snapshot_name
from dp_pipeline.release.measurement import deviation, gaussian_moments
from dp_pipeline.spec.amounts import epsilon_text
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.errors import DeclarationError, NotPrepared
from dp_pipeline.spec.windows import MOST_TOGETHER


@dataclass(frozen=True)
class RunRequest:
    """Which releases to make, where.

    kind       of release: at an ε, or at a K
    names      models or methods
    levels     ε or K, ascending, as keys of partitions
    snapshot   a name for a new snapshot, or empty for the current one
    refine     an ε: every release is asked to refine the one at it. ``previous``: where the model
               can, the one at the next smaller declared ε. Empty: none is asked to
    published  whether each model is released at the one ε at which it is published, of windows
    span       how many windows each release is of; 0: as many as are published together
    """

    spec: DatasetSpec
    kind: type[Release]
    names: Sequence[str]
    levels: Sequence[str]
    home: Home
    noise_name: str = ""
    new_draw: bool = False
    snapshot: str = ""
    published: bool = False
    refine: str = ""
    span: int = 0

    @property
    def made(self) -> DatasetSpec:
        """The data set as it is released: with the domain that was discovered of the snapshot that
        is read; before that with the widest that may be found, for prices alone. Asked anew each
        time: a run of this request may have discovered it.
        """
        if self.snapshot:
            return self.spec.widest
        try:
            return with_discovered(self.spec, self.home)
        except NotPrepared:
            return self.spec.widest

    @property
    def discovery(self) -> DomainRelease | None:
        """The release of the domain, where something is left to be discovered."""
        noise = self.noise_name or noise_name()
        return DomainRelease(self.spec, self.home, noise) if self.spec.to_discover else None

    @property
    def releases(self) -> tuple[Release, ...]:
        """Every model or method at every level."""
        return tuple(one for level in self.levels for one in self.at(level))

    def at(self, level: str) -> tuple[Release, ...]:
        """Every model or method at one level; of windows, where so asked, those published at it."""
        made, names = self.made, self.names
        if self.published:
            levels = {one.model: epsilon_text(one.epsilon) for one in made.publications}
            names = [name for name in names if levels.get(name) == level]
        return tuple(self.release_of(made, name, level) for name in names)

    def release_of(
        self, made: DatasetSpec, name: str, level: str, run: Mapping[str, str] | None = None
    ) -> Release:
        """One model or method at one level, of as many windows as are asked for.

        made   the data set as it is released
        run    what the ledger notes of the run
        """
        release = self.kind.at(made, name, level, self.home, noise=self.noise_name, run=run)
        if not isinstance(release, EpsilonRelease):
            return release
        release = replace(release, span=self.span) if self.span else release
        return _refining(release, self.refine)

    def level_of(self, name: str) -> str:
        """The level of one of its models or methods, where that has one alone."""
        (level,) = [one.level for one in self.releases if one.name == name]
        return level

    def of_window(self, name: str) -> RunRequest:
        """The same request of the rows of one window."""
        return replace(self, spec=self.spec.at_window(name))


PREVIOUS = "previous"
"""The next smaller ε that is declared."""


def _refining(release: EpsilonRelease, refine: str) -> EpsilonRelease:
    """A release that is asked to refine the one at an ε, or at the ``PREVIOUS`` one where its model
    can and there is one; itself where nothing is said.
    """
    if not refine:
        return release
    if refine != PREVIOUS:
        return replace(release, refine=release.spec.partition(refine))
    smaller = [one for one in release.spec.partitions if one < release.epsilon]
    is_able = release.model.refines and not release.model.plans_from_earlier
    return replace(release, refine=smaller[-1]) if smaller and is_able else release


def require_span(many: int) -> int:
    """How many windows a release is asked to be of, 0 for as many as are published together;
    DeclarationError for what is neither.
    """
    if not 0 <= many <= MOST_TOGETHER:
        raise DeclarationError(f"span: expected 1 to {MOST_TOGETHER} windows, got {many}")
    return many


@dataclass(frozen=True)
class PlannedRelease:
    """One release of a plan.

    cost    what it would charge, in the population's currency, each of its windows: 0 when it was
            settled or reserved before, or has no ε
    state   ``new``, ``settled``, ``unfinished`` or ``dead``; with ``, not-dp`` or
            ``, composed`` where the model does not promise the ε that is asked
    delta   its own δ, where it would charge one
    cells   most cells that the tables of a model of a table can have together; else None
    windows   those that it is of, where rows are cut
    noise   mean |noise| of one count of a one-way table that is paid with all of its ε, in rows;
            None where there is no ε, or no count
    """

    model: str
    epsilon: Fraction
    cost: Fraction
    state: str
    cells: int | None = None
    delta: Fraction = Fraction(0)
    windows: tuple[str, ...] = ()
    noise: float | None = None

    @property
    def megabytes(self) -> float | None:
        """Memory for as many cells, in MB; None where there are none."""
        return None if self.cells is None else self.cells * BYTES_A_CELL / 1e6


@dataclass(frozen=True)
class Plan:
    """Planned releases against the account of their population.

    balance   before the run, under the limits of the account, or of the data set file where
              there is no account yet; all amounts in the population's currency
    windows   where rows are cut, each window that a release is of, with its balance, oldest first
    word      one line where the file declares other limits than the account has; else empty
    """

    spec: DatasetSpec
    releases: tuple[PlannedRelease, ...]
    balance: Balance
    windows: Mapping[str, Balance] = field(default_factory=dict)
    word: str = ""

    @property
    def asked(self) -> Fraction:
        """Σ of the costs; of all windows together, where rows are cut."""
        costs = (one.cost * max(1, len(one.windows)) for one in self.releases)
        return sum(costs, Fraction(0))

    @property
    def delta(self) -> Fraction:
        """Σ of the releases' own δ."""
        return sum((release.delta for release in self.releases), Fraction(0))

    @property
    def spent(self) -> Fraction:
        """What the account has spent before the run."""
        return self.balance.spent

    @property
    def left(self) -> Fraction | None:
        """What it has left before the run; None for a benchmark without a ceiling."""
        return self.balance.left

    @property
    def ceiling(self) -> Fraction | None:
        """The limit for ever; None for a benchmark without one."""
        return self.balance.ceiling

    @property
    def has_tables(self) -> bool:
        """Whether any release is of a model of a table."""
        return any(release.cells is not None for release in self.releases)

    @property
    def amounts(self) -> dict[str, Fraction | None]:
        """What is asked, spent, left and allowed, for ever and in this month; None for no limit."""
        amounts = {
            "asked": self.asked,
            "spent": self.spent,
            "left": self.left,
            "ceiling": self.ceiling,
        }
        if self.balance.per_month is None:
            return amounts
        return {
            **amounts,
            "spent this month": self.balance.month_spent,
            "left this month": self.balance.month_left,
            "a month": self.balance.per_month,
        }

    def require_budget(self) -> None:
        """BudgetExceeded when the whole plan does not fit: then no part of it is begun."""
        require_budget_of_all([self])


def require_budget_of_all(plans: Sequence[Plan]) -> None:
    """BudgetExceeded when the plans of one data set do not fit together: then no part of any is
    begun.

    plans   one, or one for each window: a window has its own limit, and all of them may have one
    """
    spec = plans[0].spec
    where = f"population {spec.population}"
    for one in windows_of(plans):
        alone = replace(one.balance, ceiling=None, per_month=None)
        alone.require_room(one.asked, what=spec.name, where=where)
    asked = sum((one.asked for one in plans), Fraction(0))
    delta = sum((one.delta for one in plans), Fraction(0))
    whole = replace(plans[0].balance, window_ceiling=None)
    whole.require_room(asked, what=spec.name, where=where, delta=delta)


@dataclass(frozen=True)
class PlannedWindow:
    """A window that some releases of plans are of, and its balance before the run."""

    name: str
    balance: Balance
    releases: tuple[PlannedRelease, ...]

    @property
    def asked(self) -> Fraction:
        """Σ of what they would charge to it."""
        return sum((one.cost for one in self.releases), Fraction(0))


def windows_of(plans: Sequence[Plan]) -> tuple[PlannedWindow, ...]:
    """Every window that a release of some plans is of, oldest first."""
    balances = {name: one for plan in plans for name, one in plan.windows.items()}
    releases: dict[str, list[PlannedRelease]] = {name: [] for name in sorted(balances)}
    for plan in plans:
        for one in plan.releases:
            for name in one.windows:
                releases[name].append(one)
    return tuple(PlannedWindow(name, balances[name], tuple(of)) for name, of in releases.items())


def plan_requests(requests: Sequence[RunRequest]) -> list[Plan]:
    """The plans of all requests of one data set, such as one for each window, at one moment: the
    ledger is looked at once, however many windows there are.
    """
    with requests[0].home.ledger.one_look():
        return [plan_request(one) for one in requests]


def plan_request(request: RunRequest) -> Plan:
    """The plan of one request, on the current snapshot or the one it names. Only releases at an ε
    have a price.

    Raises DeclarationError for a noise source that these releases may not use, and for a
    file that disagrees with the account of its population, or declares more than it has.
    """
    with request.home.ledger.one_look():
        return _plan(request)


def refined_cost(request: RunRequest) -> Fraction | None:
    """What the request would cost if each release refined the one at the next smaller ε; None where
    it does so already, no model can, or one was refined otherwise.
    """
    if request.refine or request.new_draw or request.snapshot:
        return None
    steps = replace(request, refine=PREVIOUS)
    if all(isinstance(one, EpsilonRelease) and one.refine is None for one in steps.releases):
        return None
    try:
        return plan_request(steps).asked
    except DeclarationError:
        return None


def _plan(request: RunRequest) -> Plan:
    spec, home, asked = request.spec, request.home, request.releases
    for release in asked:
        release.require_allowed()
    releases = tuple(one for one in asked if isinstance(one, EpsilonRelease))
    opened = home.ledger.account(spec.population)
    if opened is not None:
        declared_account(spec).require_within(opened)
    spec.require_window()
    reads = _snapshot(spec, home, request.snapshot)
    discovery = [] if request.discovery is None else [_discovery(request.discovery, reads)]
    planned = [
        _planned(one, beside=releases, last=reads, new_draw=request.new_draw) for one in releases
    ]
    windows = sorted({window for one in planned for window in one.windows})
    return Plan(
        spec=spec,
        releases=(*discovery, *planned),
        balance=_balance(spec, home, opened),
        windows={one: _balance(spec.at_window(one), home, opened) for one in windows},
        word=limits_word(spec, home),
    )


def _balance(spec: DatasetSpec, home: Home, opened: Account | None) -> Balance:
    account = declared_account(spec)
    balance = home.ledger.balance(spec.population, spec.blocks)
    if opened is not None:
        return balance
    return replace(
        balance,
        ceiling=account.limit,
        currency=account.currency,
        per_month=account.month_limit,
        delta_ceiling=account.most_delta,
        window_ceiling=account.window_limit,
        window=spec.window,
    )


def _snapshot(spec: DatasetSpec, home: Home, name: str) -> Snapshot:
    """The snapshot that a run would read. Only its name enters a plan, so no key is needed."""
    current = None if name else current_snapshot(home.raw, spec.name, b"", spec.window)
    named = snapshot_name(spec, name, datetime.now(UTC).date())
    return current or Snapshot(Path(home.raw, spec.name, named), b"")


def _discovery(release: DomainRelease, snapshot: Snapshot) -> PlannedRelease:
    """The domain: charged once a snapshot, whatever is released."""
    state = release.home.ledger.state(release.key(snapshot).digest)
    is_new = state is None
    words = {None: "new", "settled": "settled", "dead": "dead"}.get(state, "unfinished")
    return PlannedRelease(
        release.name,
        release.epsilon,
        release.cost if is_new else Fraction(0),
        words,
        delta=release.delta if is_new else Fraction(0),
    )


def _planned(
    release: EpsilonRelease, *, beside: Sequence[EpsilonRelease], last: Snapshot, new_draw: bool
) -> PlannedRelease:
    """beside   all that are asked for together"""
    spec, ledger = release.spec, release.home.ledger
    earlier = [_snapshot(spec.at_window(one), release.home, "") for one in release.windows[:-1]]
    reads = replace(last, earlier=tuple(earlier))
    key = release.key(reads, new_draw=new_draw)
    refined = release.refine
    if key.refines and not any(_refines(release, one) for one in beside):
        # Else what stands before it in the request would be charged, and the run would end here.
        coarse = release.refined(key)
        refined = None if coarse is None else coarse.epsilon
    state = ledger.state(key.digest)
    cost = release.cost_beside(refined) if state is None else Fraction(0)
    names = {None: "new", "settled": "settled", "dead": "dead"}
    words = release.guarantee.marked(names.get(state, "unfinished"))
    cells = _most_cells(release)
    return PlannedRelease(
        release.name,
        release.epsilon,
        cost,
        words,
        cells,
        windows=release.windows,
        noise=_noise_of_a_count(release),
    )


def _refines(release: EpsilonRelease, other: EpsilonRelease) -> bool:
    """Whether ``other``, which is asked for together with the release, is what it refines."""
    refined = release.name, release.windows, release.refine
    return (other.name, other.windows, other.epsilon) == refined


def _noise_of_a_count(release: EpsilonRelease) -> float | None:
    """Mean |noise| of one count, by what its ε buys at the declared distance; no row is read."""
    guarantee, distance = release.guarantee, release.spec.distance
    if not guarantee.is_dp:
        return None
    amount = guarantee.currency.amount_of(release.epsilon)
    if guarantee.currency.delta is None:
        return deviation(laplace_scale(l1=distance, epsilon=amount))
    return gaussian_moments(gaussian_variance(l2_squared=distance**2, rho=amount))[0]


_CELLS: dict[tuple[str, str, str], int | None] = {}


def _most_cells(release: EpsilonRelease) -> int | None:
    """Of a model of a table; kept, as it takes a second and is the same for every window and ε."""
    spec, model = release.spec.widest, release.model
    at = spec.digest, release.name, repr(model)
    if at not in _CELLS:
        _CELLS[at] = model.most_cells(spec.domain) if isinstance(model, TableModel) else None
    return _CELLS[at]
