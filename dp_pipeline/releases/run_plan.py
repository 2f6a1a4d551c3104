"""RunPlan: what a run would do and cost, from declarations and ledger alone: nothing is read or
charged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

from dp_pipeline.config.amounts import NANO, epsilon_text, nano_epsilon
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import BudgetExceeded, DeclarationError
from dp_pipeline.gate.mechanisms import gaussian_variance, laplace_scale
from dp_pipeline.ledger import Account, Balance
from dp_pipeline.models.tables.base import BYTES_A_CELL, TableModel
from dp_pipeline.raw.snapshot import Snapshot, current_snapshot, snapshot_name
from dp_pipeline.releases.account import declared_account, limits_word
from dp_pipeline.releases.domain_release import DomainRelease
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.home import Home
from dp_pipeline.releases.run_options import PREVIOUS, RunOptions
from dp_pipeline.reporting.text import table_text
from dp_pipeline.results.measurement import deviation, gaussian_moments

COLUMNS = ("model", "ε", "state", "cost")
"""Of a release that a run would make, or has made, as text."""


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


@dataclass(frozen=True, repr=False)
class RunPlan:
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
    def total_cost(self) -> Fraction:
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
    def remaining(self) -> Fraction | None:
        """What it has left before the run; None for a benchmark without a ceiling."""
        return self.balance.remaining

    @property
    def ceiling(self) -> Fraction | None:
        """The limit for ever; None for a benchmark without one."""
        return self.balance.ceiling

    @property
    def fits(self) -> bool:
        """Whether `run` would begin: else it raises BudgetExceeded before anything is charged."""
        try:
            self.require_budget()
        except BudgetExceeded:
            return False
        return True

    @property
    def has_tables(self) -> bool:
        """Whether any release is of a model of a table."""
        return any(release.cells is not None for release in self.releases)

    @property
    def is_of_many_windows(self) -> bool:
        """Whether its releases end with more than one window."""
        return len({one.windows[-1] for one in self.releases if one.windows}) > 1

    @property
    def amounts(self) -> dict[str, Fraction | None]:
        """What is asked, spent, left and allowed, for ever and in this month; None for no limit."""
        amounts = {
            "requested": self.total_cost,
            "spent": self.spent,
            "left": self.remaining,
            "ceiling": self.ceiling,
        }
        if self.balance.per_month is None:
            return amounts
        return {
            **amounts,
            "spent this month": self.balance.month_spent,
            "left this month": self.balance.month_remaining,
            "a month": self.balance.per_month,
        }

    def releases_of(self, window: str) -> list[PlannedRelease]:
        """Those that are of a window, among others."""
        return [one for one in self.releases if window in one.windows]

    def cost_of(self, window: str) -> Fraction:
        """Σ of what they would charge to it."""
        return sum((one.cost for one in self.releases_of(window)), Fraction(0))

    def require_budget(self) -> None:
        """BudgetExceeded when the whole plan does not fit: then no part of it is begun. A window
        has its own limit, and all of them may have one.
        """
        name, where = self.spec.name, f"population {self.spec.population}"
        for window, balance in self.windows.items():
            alone = replace(balance, ceiling=None, per_month=None)
            alone.require_budget(self.cost_of(window), release=name, account=where)
        whole = replace(self.balance, window_ceiling=None)
        whole.require_budget(self.total_cost, release=name, account=where, delta=self.delta)

    def __repr__(self) -> str:
        currency = self.spec.currency
        left = "no limit" if self.remaining is None else currency.text(self.remaining)
        end = f"requested {currency.text(self.total_cost)}, left {left}"
        rows = [
            [one.model, epsilon_text(one.epsilon), one.state, currency.text(one.cost)]
            for one in self.releases
        ]
        return table_text(f"Plan of {self.spec.name}", COLUMNS, rows, end)


def plan_run(options: RunOptions) -> RunPlan:
    """What a run would do, on the current snapshot or the one that is named. Only releases at an ε
    have a price. The ledger is looked at once, however many windows there are.

    Raises DeclarationError for a noise source that these releases may not use, and for a
    file that disagrees with the account of its population, or declares more than it has.
    """
    with options.home.ledger.consistent_view():
        plans = [_plan(one) for one in options.per_window]
    windows = {name: one for plan in plans for name, one in plan.windows.items()}
    releases = tuple(one for plan in plans for one in plan.releases)
    return replace(
        plans[0], releases=releases, windows={name: windows[name] for name in sorted(windows)}
    )


def refined_cost(options: RunOptions) -> Fraction | None:
    """What a run would cost if each release refined the one at the next smaller ε; None where
    it does so already, no model can, or one was refined otherwise; of one window at most.
    """
    if options.refine or options.new_draw or options.snapshot or len(options.windows) > 1:
        return None
    steps = replace(options, refine=PREVIOUS)
    if all(isinstance(one, EpsilonRelease) and one.refine is None for one in steps.releases):
        return None
    try:
        return plan_run(steps).total_cost
    except DeclarationError:
        return None


def _plan(options: RunOptions) -> RunPlan:
    spec, home, asked = options.spec, options.home, options.releases
    for release in asked:
        release.require_allowed()
    releases = tuple(one for one in asked if isinstance(one, EpsilonRelease))
    opened = home.ledger.account(spec.population)
    if opened is not None:
        declared_account(spec).require_within(opened)
    spec.require_window()
    reads = _snapshot(spec, home, options.snapshot)
    discovery = [] if options.discovery is None else [_discovery(options.discovery, reads)]
    planned = [
        _planned(one, beside=releases, last=reads, new_draw=options.new_draw) for one in releases
    ]
    windows = sorted({window for one in planned for window in one.windows})
    return RunPlan(
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
    # As the ledger will count it: in whole billionths, rounded up.
    nano = nano_epsilon(release.cost_beside(refined)) if state is None else 0
    cost = Fraction(nano, NANO)
    names = {None: "new", "settled": "settled", "dead": "dead"}
    words = release.guarantee.label_state(names.get(state, "unfinished"))
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
