"""What `data check`, `plan` and `run` do, as functions that return what the commands print.

The home, the noise and all else that the environment says to a command, it says here too; a run
in a notebook and one in a terminal are one history and one account.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dp_pipeline.orchestration.runner import Ran, run_dataset, run_windows
from dp_pipeline.publish.asking import requested
from dp_pipeline.publish.outcome import Outcome, outcomes, report_path
from dp_pipeline.publish.request import (
    Plan,
    PlannedRelease,
    RunRequest,
    plan_requests,
    require_budget_of_all,
)
from dp_pipeline.reporting.metrics import QualityRow
from dp_pipeline.spec.amounts import NANO, Currency, epsilon_text
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.discovery import load_dataset
from dp_pipeline.spec.errors import BudgetExceeded
from dp_pipeline.spec.windows import range_text

if TYPE_CHECKING:
    import pandas as pd

MAIN_TABLES = ("synthetic", "centres", "classes")
"""What a reader of a release takes first, by its name in the bundle."""


@dataclass(frozen=True, repr=False)
class PlannedRun:
    """What a run would cost.

    plans   one, or one a window
    """

    plans: tuple[Plan, ...]

    @property
    def releases(self) -> tuple[PlannedRelease, ...]:
        """Every release, with ``model``, ``epsilon``, ``cost`` and ``state``."""
        return tuple(one for plan in self.plans for one in plan.releases)

    @property
    def asked(self) -> Fraction:
        """Σ of the costs of all of them, in the population's currency."""
        return sum((one.asked for one in self.plans), Fraction(0))

    @property
    def left(self) -> Fraction | None:
        """What the account has left before the run; None for a benchmark without a ceiling."""
        return self.plans[0].left

    @property
    def fits(self) -> bool:
        """Whether `run` would begin: else it raises BudgetExceeded before anything is charged."""
        try:
            require_budget_of_all(self.plans)
        except BudgetExceeded:
            return False
        return True

    def __repr__(self) -> str:
        spec = self.plans[0].spec
        lines = [
            [one.model, epsilon_text(one.epsilon), one.state, spec.currency.text(one.cost)]
            for one in self.releases
        ]
        left = "no limit" if self.left is None else spec.currency.text(self.left)
        end = f"asked {spec.currency.text(self.asked)}, left {left}"
        head = f"Plan of {spec.name}"
        return "\n".join([head, *_aligned([["model", "ε", "state", "cost"], *lines]), end])


@dataclass(frozen=True, repr=False)
class FinishedRelease:
    """One release of a run.

    model, epsilon   which, and at the ε that was asked
    state            ``charged``, ``resumed`` or ``replayed``; with ``, not-dp`` or ``, composed``
                     where the model does not promise that ε
    cost             what this run added to the ledger for it, in the population's currency
    windows          those that it is of, where rows are cut
    quality          its quality numbers: private ones, or exact ones of a benchmark
    warnings         what its own noisy counts say against it
    folder           where its bundle and its card lie
    """

    model: str
    epsilon: Fraction
    state: str
    cost: Fraction
    currency: Currency
    windows: tuple[str, ...]
    quality: tuple[QualityRow, ...]
    warnings: tuple[str, ...]
    folder: Path
    _outcome: Outcome = field(compare=False)

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of all that was released as a table."""
        return tuple(self._outcome.bundle.tables)

    @property
    def table(self) -> pd.DataFrame:
        """The synthetic table, the centres of clusters with their noisy sizes, or the classes."""
        return self.table_named(next(one for one in MAIN_TABLES if one in self.tables))

    def table_named(self, name: str) -> pd.DataFrame:
        """One of ``tables``; KeyError for another name."""
        import pandas as pd

        return pd.DataFrame(dict(self._outcome.bundle.tables[name]))

    def __repr__(self) -> str:
        window = f" of {range_text(self.windows)}" if self.windows else ""
        cost = self.currency.text(self.cost)
        return f"{self.model} at ε={epsilon_text(self.epsilon)}{window}: {self.state}, cost {cost}"


@dataclass(frozen=True, repr=False)
class FinishedRun(Sequence[FinishedRelease]):
    """The releases of a run.

    charged         what the run added to the ledger in all, with the discovery of a domain
    report          the page with all of them
    failed_checks   names of the checks on rows that did not pass and stop nothing: for the
                    custodian of the rows alone
    """

    spec: DatasetSpec
    releases: tuple[FinishedRelease, ...]
    charged: Fraction
    report: Path
    failed_checks: tuple[str, ...]

    def __getitem__(self, at: Any) -> Any:
        return self.releases[at]

    def __len__(self) -> int:
        return len(self.releases)

    def __repr__(self) -> str:
        currency = self.spec.currency
        lines = [
            [one.model, epsilon_text(one.epsilon), one.state, currency.text(one.cost)]
            for one in self.releases
        ]
        end = f"charged by this run: {currency.text(self.charged)}; report: {self.report}"
        head = f"Run of {self.spec.name}"
        return "\n".join([head, *_aligned([["model", "ε", "state", "cost"], *lines]), end])


def _aligned(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        yield f"  {'  '.join(cells)}".rstrip()


def plan(
    dataset: str | Path | DatasetSpec,
    *,
    models: Sequence[str] = (),
    epsilons: Sequence[str | float | Fraction] = (),
    new_draw: bool = False,
    refine: str = "",
    snapshot: str = "",
    windows: str = "",
    span: int = 0,
) -> PlannedRun:
    """What `run` with the same arguments would cost, from declarations and ledger alone: nothing is
    read or charged. What does not fit is no error here; ``fits`` says so.

    dataset    a declaration, the name of one, or its file
    models     only these; all that are declared if none
    epsilons   only these; each has to be declared. A float is taken by its shortest decimal text
    new_draw   draw once more, at the full price
    refine     the smaller ε whose release is refined, or ``"previous"``
    snapshot   the name of a new snapshot to open
    windows    of rows that are cut: one, or ``"FIRST..LAST"``; the newest that is over if none
    span       how many windows to release together; as declared if 0

    Raises DeclarationError for what is not declared.

    >>> import os, tempfile
    >>> from unittest.mock import patch
    >>> import dp_pipeline as dp
    >>> with tempfile.TemporaryDirectory() as home, patch.dict(os.environ, DP_PIPELINE_HOME=home):
    ...     planned = dp.plan("census", models=["independent"], epsilons=[0.5])
    >>> planned.asked, planned.fits  # with the evaluation that its file declares
    (Fraction(11, 20), True)
    """
    asked = _asked(
        dataset,
        models,
        epsilons,
        new_draw=new_draw,
        refine=refine,
        snapshot=snapshot,
        windows=windows,
        span=span,
    )
    return PlannedRun(tuple(plan_requests(asked)))


def run(  # noqa: PLR0913
    dataset: str | Path | DatasetSpec,
    *,
    models: Sequence[str] = (),
    epsilons: Sequence[str | float | Fraction] = (),
    new_draw: bool = False,
    refine: str = "",
    snapshot: str = "",
    windows: str = "",
    span: int = 0,
    on_step: Callable[[str], None] | None = None,
) -> FinishedRun:
    """Run the chain of a data set in this process: rows, models, evaluation, report. It costs what
    ``plan`` says of the same arguments; what was released before is replayed and costs nothing. An
    example is in docs/python.md, and is run there.

    on_step   is told the name of each step before it starts

    Prints nothing. From its start on, whatever this process writes is for its owner only, and its
    variable DAGSTER_HOME names Dagster's folder.

    Raises DeclarationError before anything is begun for what is not declared, BudgetExceeded where
    all of it does not fit, and RunFailed with the line of the step that failed.
    """
    asked = _asked(
        dataset,
        models,
        epsilons,
        new_draw=new_draw,
        refine=refine,
        snapshot=snapshot,
        windows=windows,
        span=span,
    )
    told = on_step or (lambda _: None)
    is_cut = bool(asked[0].spec.window)
    results = run_windows(asked, told) if is_cut else [run_dataset(asked[0], told)]
    return _finished(asked, results)


def _asked(
    dataset: str | Path | DatasetSpec,
    models: Sequence[str],
    epsilons: Sequence[str | float | Fraction],
    **others: Any,
) -> list[RunRequest]:
    spec = dataset if isinstance(dataset, DatasetSpec) else load_dataset(dataset)
    levels = tuple(epsilon_text(e) if isinstance(e, Fraction) else str(e) for e in epsilons)
    return requested(spec, models=tuple(models), epsilons=levels, **others)


def _finished(asked: Sequence[RunRequest], results: Sequence[Ran]) -> FinishedRun:
    both = zip(asked, results, strict=True)
    found = [one for request, ran in both for one in outcomes(request, ran=ran.levels)]
    spec, nano = asked[-1].spec, sum(one.charged for one in found)
    nano += sum(one.discovery for one in results)
    failed = dict.fromkeys(name for one in results for name in one.failed_checks)
    return FinishedRun(
        spec,
        tuple(map(_finished_release, found)),
        Fraction(nano, NANO),
        report_path(asked[-1]),
        tuple(failed),
    )


def _finished_release(outcome: Outcome) -> FinishedRelease:
    release = outcome.release
    return FinishedRelease(
        release.name,
        Fraction(release.level),
        release.marked(outcome.state),
        Fraction(outcome.charged, NANO),
        release.spec.currency,
        release.windows,
        outcome.quality,
        tuple(outcome.warnings),
        outcome.folder,
        outcome,
    )
