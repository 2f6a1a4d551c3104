"""The plan of a run: its releases and costs, from declarations and ledger, without reading rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache
from pathlib import Path

from dp_pipeline.config.amounts import NANO, epsilon_text, nano_epsilon
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import Domain
from dp_pipeline.config.errors import BudgetExceeded, DeclarationError
from dp_pipeline.gate.mechanisms import gaussian_variance, laplace_scale
from dp_pipeline.ledger import Account, Balance
from dp_pipeline.models.base import Model
from dp_pipeline.models.tables.base import BYTES_A_CELL, TableModel
from dp_pipeline.raw.snapshot import Snapshot, current_snapshot, snapshot_name
from dp_pipeline.releases.account import declared_account, gains_windows, limits_note
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.home import Home
from dp_pipeline.releases.run_options import PREVIOUS, RunOptions
from dp_pipeline.reporting.text import table_text
from dp_pipeline.results.measurement import gaussian_moments, mean_noise

COLUMNS = ("model", "ε", "state", "cost")
"""Columns of planned releases, and of those that a run has made, as text."""


@dataclass(frozen=True)
class PlannedRelease:
    """A release of a plan, with its cost.

    cost    amount that it would charge to each of its time windows, in the population's currency:
            0 when it was charged before, or has no ε
    state   ``new``, ``settled``, ``unfinished`` or ``dead``; with ``, not-dp`` or
            ``, composed`` where the model does not promise the requested ε
    delta   its own δ, where it would charge one
    cells   largest number of cells that the tables of a table model can have together; else None
    windows its time windows; empty where rows have none
    noise   mean |noise| of one count of a one-way table that is paid with all of its ε, in rows;
            None where no finite ε holds, and for the discovery of a domain
    rows    ``nominal_rows`` of the data set, or None
    """

    model: str
    epsilon: Fraction
    cost: Fraction
    state: str
    cells: int | None = None
    delta: Fraction = Fraction(0)
    windows: tuple[str, ...] = ()
    noise: float | None = None
    rows: int | None = None

    @property
    def megabytes(self) -> float | None:
        """The memory for the release's cells, in MB; None without cells."""
        return None if self.cells is None else self.cells * BYTES_A_CELL / 1e6

    @property
    def noise_of_a_share(self) -> float | None:
        """The noise of one count as a share of the rows; None if either is unknown."""
        return self.noise / self.rows if self.noise is not None and self.rows else None


@dataclass(frozen=True, repr=False)
class RunPlan:
    """The planned releases of a run, with the account that pays for them.

    balance   before the run, under the limits of the account, or of the data set file where
              there is no account yet; all amounts in the population's currency
    windows   each time window of a release → its balance before the run, oldest first
    limits_note   one line where the file declares other limits than the account has; else empty
    """

    spec: DatasetSpec
    releases: tuple[PlannedRelease, ...]
    balance: Balance
    windows: Mapping[str, Balance] = field(default_factory=dict)
    limits_note: str = ""

    @property
    def total_cost(self) -> Fraction:
        """The sum of the costs of all releases, over all time windows."""
        costs = (release.cost * max(1, len(release.windows)) for release in self.releases)
        return sum(costs, Fraction(0))

    @property
    def delta(self) -> Fraction:
        return sum((release.delta for release in self.releases), Fraction(0))

    @property
    def remaining(self) -> Fraction | None:
        """The amount left in the account before the run; None without a limit."""
        return self.balance.remaining

    @property
    def fits(self) -> bool:
        """Whether the budget suffices for the whole plan."""
        try:
            self.require_budget()
        except BudgetExceeded:
            return False
        return True

    @property
    def has_tables(self) -> bool:
        return any(release.cells is not None for release in self.releases)

    @property
    def amounts(self) -> dict[str, Fraction | None]:
        """The amounts requested, spent, left and allowed, by name; None without a limit.

        Those of the current month follow if a month has a limit."""
        amounts: dict[str, Fraction | None] = {
            "requested": self.total_cost,
            "spent": self.balance.spent,
            "left": self.remaining,
            "ceiling": self.balance.ceiling,
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
        return [release for release in self.releases if window in release.windows]

    def cost_of(self, window: str) -> Fraction:
        """Return the total cost of the plan for one time window."""
        return sum((release.cost for release in self.releases_of(window)), Fraction(0))

    def require_budget(self) -> None:
        """Raise BudgetExceeded unless the budget suffices, in total and for each time window."""
        name, where = self.spec.name, f"population {self.spec.population}"
        for window, balance in self.windows.items():
            window_balance = replace(balance, ceiling=None, per_month=None)
            window_balance.require_budget(self.cost_of(window), release=name, account=where)
        total_balance = replace(self.balance, window_ceiling=None)
        total_balance.require_budget(self.total_cost, release=name, account=where, delta=self.delta)

    def __repr__(self) -> str:
        text = self.spec.currency.text
        remaining = "no limit" if self.remaining is None else text(self.remaining)
        end = f"requested {text(self.total_cost)}, left {remaining}"
        rows = [
            [release.model, epsilon_text(release.epsilon), release.state, text(release.cost)]
            for release in self.releases
        ]
        return table_text(f"Plan of {self.spec.name}", COLUMNS, rows, end)


def plan_run(options: RunOptions) -> RunPlan:
    """Return the plan of a run on the current or a named snapshot, with the discovery of a domain.

    K-anonymous releases are left out, as they cost nothing. No row is read, and nothing is charged.

    Raises DeclarationError for a release that is not allowed, an impossible refinement, and a file
    that disagrees with the account of its population, or declares higher limits.
    """
    with options.home.ledger.consistent_view():
        plans = [_plan_window(window) for window in options.per_window]
    windows = {name: balance for plan in plans for name, balance in plan.windows.items()}
    releases = tuple(release for plan in plans for release in plan.releases)
    return replace(plans[0], releases=releases, windows=dict(sorted(windows.items())))


def refined_cost(options: RunOptions) -> Fraction | None:
    """Return the total cost of the run if each release refined that at the next smaller ε.

    None if no release can, if that run would be refused by a DeclarationError, or if the options
    request a refinement, a new draw, a snapshot or several time windows.
    """
    if options.refine or options.new_draw or options.snapshot or len(options.windows) > 1:
        return None
    in_steps = replace(options, refine=PREVIOUS)
    releases = [each for each in in_steps.releases if isinstance(each, EpsilonRelease)]
    if all(release.refine is None for release in releases):
        return None
    try:
        return plan_run(in_steps).total_cost
    except DeclarationError:
        return None


def _plan_window(options: RunOptions) -> RunPlan:
    spec, home = options.spec, options.home
    for release in options.releases:
        release.require_allowed()
    releases = [release for release in options.releases if isinstance(release, EpsilonRelease)]
    account = home.ledger.account(spec.population)
    if account is not None and not gains_windows(spec, account):
        declared_account(spec).require_within(account)
    spec.require_window()
    snapshot, new_draw = _snapshot(spec, home, options.snapshot), options.new_draw
    discovery = options.discovery
    planned = [_plan_release(each, releases, snapshot, new_draw=new_draw) for each in releases]
    windows = sorted({window for release in planned for window in release.windows})
    if discovery is not None:
        state = _state_words(home.ledger.state(discovery.key(snapshot).digest))
        # A snapshot's discovery is charged once.
        is_new = state == "new"
        cost = discovery.cost if is_new else Fraction(0)
        delta = discovery.delta if is_new else Fraction(0)
        domain = PlannedRelease(discovery.name, discovery.epsilon, cost, state, delta=delta)
        planned = [domain, *planned]
    return RunPlan(
        spec=spec,
        releases=tuple(planned),
        balance=_balance(spec, home, account),
        windows={window: _balance(spec.at_window(window), home, account) for window in windows},
        limits_note=limits_note(spec, home),
    )


def _balance(spec: DatasetSpec, home: Home, account: Account | None) -> Balance:
    balance = home.ledger.balance(spec.population, spec.blocks)
    declared = declared_account(spec)
    if account is not None:
        if not gains_windows(spec, account):
            return balance
        declared = account.with_windows(declared)
        spent, delta = balance.spent, balance.delta_spent
        earlier = declared.count_earlier_in_window(account, spent, delta=delta)
        balance = replace(balance, window_spent=earlier)
    return replace(
        balance,
        ceiling=declared.limit,
        currency=declared.currency,
        per_month=declared.month_limit,
        delta_ceiling=declared.delta_limit,
        window_ceiling=declared.window_limit,
        window=spec.window,
    )


def _snapshot(spec: DatasetSpec, home: Home, name: str) -> Snapshot:
    """Return the snapshot that a run would read or open; nothing is read."""
    current = None if name else current_snapshot(home.raw, spec.name, b"", spec.window)
    default_name = snapshot_name(spec, name, datetime.now(UTC).date())
    return current or Snapshot(Path(home.raw, spec.name, default_name), b"")


def _plan_release(
    release: EpsilonRelease, together: Sequence[EpsilonRelease], last: Snapshot, *, new_draw: bool
) -> PlannedRelease:
    """Return the plan of a release.

    together   all releases of the run
    last       snapshot of its last time window
    """
    spec, ledger = release.spec, release.home.ledger
    earlier = [
        _snapshot(spec.at_window(window), release.home, "") for window in release.windows[:-1]
    ]
    key = release.key(replace(last, earlier=tuple(earlier)), new_draw=new_draw)
    refined = release.refine
    if key.refines and not any(
        (other.name, other.windows, other.epsilon) == (release.name, release.windows, refined)
        for other in together
    ):
        # Else the releases before it in the request would be charged, and the run would end here.
        coarse = release.refined(key)
        refined = None if coarse is None else coarse.key.epsilon
    state = ledger.state(key.digest)
    # As the ledger will count it: in whole billionths, rounded up.
    nano = nano_epsilon(release.refinement_cost(refined)) if state is None else 0
    return PlannedRelease(
        release.name,
        release.epsilon,
        Fraction(nano, NANO),
        release.guarantee.label_state(_state_words(state)),
        _most_cells(release.model, spec.widest.domain),
        windows=release.windows,
        noise=_mean_count_noise(release),
        rows=release.spec.nominal_rows,
    )


@cache
def _most_cells(model: Model, domain: Domain) -> int | None:
    """Return ``PlannedRelease.cells``, which takes a second to compute."""
    return model.most_cells(domain) if isinstance(model, TableModel) else None


def _state_words(state: str | None) -> str:
    return {None: "new", "settled": "settled", "dead": "dead"}.get(state, "unfinished")


def _mean_count_noise(release: EpsilonRelease) -> float | None:
    """Return the mean |noise| in rows of one count at the whole ε; None if no finite ε holds."""
    guarantee, distance = release.guarantee, release.spec.distance
    if not guarantee.is_dp:
        return None
    amount = guarantee.currency.amount_of(release.epsilon)
    if guarantee.currency.delta is None:
        return mean_noise(laplace_scale(l1=distance, epsilon=amount))
    return gaussian_moments(gaussian_variance(l2_squared=distance**2, rho=amount))[0]
