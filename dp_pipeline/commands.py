"""The commands `plan` and `run` as functions that return the facts which the commands print.

The environment decides home and noise as it does for a command, so a run in a notebook and one in
a terminal share one history and one account.
"""

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.catalogue import load_dataset
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.orchestration.runner import execute
from dp_pipeline.releases import rehearsal
from dp_pipeline.releases.run_options import parse_request
from dp_pipeline.releases.run_plan import RunPlan, plan_run
from dp_pipeline.releases.run_result import RunResult


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
) -> RunPlan:
    """Return the steps and costs of `run` with the same arguments, without a look at the rows.

    Nothing is charged. A plan that does not fit the budget raises no error; its ``fits`` is False.

    dataset    a declaration, the name of one, or its file
    models     only these models; all declared ones if empty
    epsilons   only these declared ε, of which a float means its shortest decimal text; if empty,
               all, or with time windows the published ones
    new_draw   draw once more, at the full price
    refine     the smaller ε whose release is refined, or ``"previous"``
    snapshot   the name of a new snapshot to open
    windows    one time window, or ``"FIRST..LAST"``; the newest closed one if empty
    span       number of windows to release together; as declared if 0

    Raises DeclarationError for what is not declared.

    >>> import os, tempfile
    >>> from unittest.mock import patch
    >>> import dp_pipeline as dp
    >>> with tempfile.TemporaryDirectory() as home, patch.dict(os.environ, DP_PIPELINE_HOME=home):
    ...     planned = dp.plan("census", models=["independent"], epsilons=[0.5])
    >>> planned.total_cost, planned.fits  # with the evaluation that its file declares
    (Fraction(11, 20), True)
    """
    request = _request(
        models,
        epsilons,
        new_draw=new_draw,
        refine=refine,
        snapshot=snapshot,
        windows=windows,
        span=span,
    )
    return plan_run(parse_request(_spec_of(dataset), **request))


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
    rehearse: bool = False,
) -> RunResult:
    """Run all steps of a data set in this process: rows, models, evaluation and report.

    It costs what ``plan`` returns for the same arguments; earlier releases are replayed and cost
    nothing. docs/python.md has an example, which is tested.

    on_step    is called with the name of each step before it starts
    rehearse   run over rows that are drawn from the declaration, at no cost, in a separate home
               below this project's, and export into its folder ``export``; every page says so

    The other arguments are those of ``plan``. Nothing is printed. From the start on, all files that
    this process writes are for their owner only, and DAGSTER_HOME names Dagster's folder.

    Raises DeclarationError before anything starts for what is not declared, BudgetExceeded where
    all of it does not fit, and RunFailed with the message of the step that failed.
    """
    request = _request(
        models,
        epsilons,
        new_draw=new_draw,
        refine=refine,
        snapshot=snapshot,
        windows=windows,
        span=span,
    )
    spec, report = _spec_of(dataset), on_step or (lambda _: None)
    if rehearse:
        return rehearsal.rehearse(spec, lambda options: execute(options, report), **request)[0]
    return execute(parse_request(spec, **request), report)


def _request(
    models: Sequence[str], epsilons: Sequence[str | float | Fraction], **others: Any
) -> dict[str, Any]:
    """Return the arguments of ``parse_request``; DeclarationError for a text in place of a list."""
    for name, values in (("models", models), ("epsilons", epsilons)):
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise DeclarationError(f"{name}: expected a list, got {type(values).__name__}")
    levels = tuple(epsilon_text(e) if isinstance(e, Fraction) else str(e) for e in epsilons)
    return {"models": tuple(map(str, models)), "epsilons": levels, **others}


def _spec_of(dataset: str | Path | DatasetSpec) -> DatasetSpec:
    return dataset if isinstance(dataset, DatasetSpec) else load_dataset(dataset)
