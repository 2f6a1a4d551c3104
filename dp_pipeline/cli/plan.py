"""`dp-pipeline plan`: what a run would cost, what noise it would buy, and what the account has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click

from dp_pipeline.cli.options import (
    READER,
    Document,
    Reader,
    amount_text,
    number_or_none,
    request_options,
)

if TYPE_CHECKING:
    from dp_pipeline.config.amounts import Currency
    from dp_pipeline.config.dataset import DatasetSpec
    from dp_pipeline.releases.run_plan import PlannedRelease, RunPlan


@click.command()
@request_options
@READER
def plan(dataset: str, reader: Reader, **options: Any) -> None:
    """Show what a run would cost, and which noise that buys.

    Beside it what the account has spent, what is left, and its ceiling. Nothing is read or charged.
    """
    from dp_pipeline.releases.run_options import requested
    from dp_pipeline.releases.run_plan import plan_run, refined_cost

    asked = requested(dataset, **options)
    planned, in_steps = plan_run(asked), refined_cost(asked)
    if in_steps is not None and in_steps >= planned.total_cost:
        in_steps = None
    reader.answer(
        lambda: {**plan_document(planned), "requested_in_steps": amount_text(in_steps)},
        lambda: _print_whole_plan(planned, in_steps),
    )
    planned.require_budget()


def _print_whole_plan(planned: RunPlan, in_steps: Fraction | None) -> None:
    """The plan, and what else there is: refinements, k-anonymous tables."""
    spec = planned.spec
    print_plan(planned)
    if in_steps is not None:
        text = spec.currency.text(in_steps)
        click.echo(f"each from the one before by `--refine previous`: {text} in place of that")
    if spec.k_anonymity is not None:
        click.echo(k_anonymity_line(spec))


def plan_document(planned: RunPlan) -> Document:
    """The plan of one data set for a program."""
    spec, balance = planned.spec, replace(planned.balance, window_ceiling=None)
    amounts = {**planned.amounts, "left": balance.remaining}
    if "left this month" in amounts:
        amounts["left this month"] = balance.month_remaining
    return {
        "dataset": spec.name,
        "currency": spec.currency.name,
        "releases": [_release(one) for one in planned.releases],
        "windows": [_window(planned, name) for name in planned.windows],
        **{name.replace(" ", "_"): amount_text(one) for name, one in amounts.items()},
        "delta": str(planned.delta),
        "limits": planned.word,
    }


def _release(planned: PlannedRelease) -> dict[str, Any]:
    return {
        "model": planned.model,
        "epsilon": amount_text(planned.epsilon),
        "windows": list(planned.windows),
        "state": planned.state,
        "cost": amount_text(planned.cost),
        "noise_of_a_count": number_or_none(planned.noise),
        "cells_at_most": planned.cells,
    }


def _window(planned: RunPlan, name: str) -> dict[str, str]:
    balance = planned.windows[name]
    return {
        "window": name,
        "requested": amount_text(planned.cost_of(name)),
        "spent": amount_text(balance.window_spent),
        "left": amount_text(balance.remaining),
        "ceiling": amount_text(balance.window_ceiling),
    }


def _print_windows(planned: RunPlan) -> None:
    """A line for each window that a release is of: all that would be charged to it."""
    from dp_pipeline.reporting.text import print_table

    spec, currency, rows = planned.spec, planned.spec.currency, []
    for name, balance in planned.windows.items():
        states = ", ".join(dict.fromkeys(one.state for one in planned.releases_of(name)))
        room = "no limit" if balance.remaining is None else currency.text(balance.remaining)
        rows.append([name, states, currency.text(planned.cost_of(name)), room])
    print_table(f"Plan of {spec.name}, {len(rows)} windows", WINDOW_COLUMNS, rows)
    ceiling = planned.balance.ceiling
    limit = "no total" if ceiling is None else f"a total of {currency.text(ceiling)}"
    click.echo(
        f"requested {currency.text(planned.total_cost)} of all windows together, under {limit}"
    )


WINDOW_COLUMNS = ("window", "state", "requested", "left")


def print_plan(planned: RunPlan) -> None:
    """A line a release, and what the account has; of several windows a line each."""
    if planned.is_of_many_windows:
        _print_windows(planned)
    else:
        _print_releases(planned)
    if planned.word:
        click.echo(planned.word)


def _print_releases(planned: RunPlan) -> None:
    from dp_pipeline.config.amounts import epsilon_text
    from dp_pipeline.config.errors import float_text
    from dp_pipeline.reporting.text import print_table

    rows = [
        [
            one.model,
            epsilon_text(one.epsilon),
            one.state,
            epsilon_text(one.cost),
            _noise(one),
            *_size(one),
        ]
        for one in planned.releases
    ]
    currency = planned.spec.currency
    cost = "cost" if currency.delta is None else f"cost ({currency.symbol})"
    if len(planned.windows) > 1:
        cost = f"{cost} of each window"
    columns = ["model", "ε", "state", cost, "noise of a count", "cells at most", "MB at most"]
    if not planned.has_tables:
        columns, rows = columns[:-2], [row[:-2] for row in rows]
    title = " ".join(("Plan of", planned.spec.name, *planned.spec.blocks))
    print_table(title, columns, rows)
    click.echo(NOISE_WORDS)
    click.echo(_states_line(one.state for one in planned.releases))
    if len(planned.windows) > 1:
        _print_windows(planned)
    click.echo(_account_line(planned))
    word = planned.balance.delta_summary
    if planned.delta or word:
        requested = float_text(planned.delta)
        click.echo(f"δ of discovered levels: requested {requested}{f', {word}' if word else ''}")


def _account_line(planned: RunPlan) -> str:
    """What is asked, spent, left and allowed. Of one window with a limit of its own first that of
    the window, else what is left of it would stand beside what all of them have spent.
    """
    balance, currency = planned.balance, planned.spec.currency
    if balance.window_remaining is None or len(planned.windows) > 1:
        return _amounts_line(planned.amounts, currency)
    of_window = {
        "requested": planned.total_cost,
        f"spent in {balance.window}": balance.window_spent,
        "left": planned.remaining,
        "each_window": balance.window_ceiling,
    }
    of_all = {name: it for name, it in planned.amounts.items() if name not in of_window}
    together = _amounts_line(of_all, currency)
    return f"{_amounts_line(of_window, currency)}; all windows together: {together}"


def _amounts_line(amounts: Mapping[str, Fraction | None], currency: Currency) -> str:
    texts = ("no limit" if one is None else currency.text(one) for one in amounts.values())
    return ", ".join(f"{name} {text}" for name, text in zip(amounts, texts, strict=True))


NOISE_WORDS = (
    "noise of a count: rows by which a count of a one-way table is wrong on average, if all of "
    "this ε pays for that table; a model shares its ε, so its counts are noisier"
)
"""What the column says, and what it does not."""

STATES = {
    "new": "a run draws it and pays the cost",
    "settled": "released before, shown again at no cost",
    "unfinished": "paid before, finished by a run at no cost",
    "dead": "paid before and cannot be finished; `--new-draw` pays again",
}
"""What a release is in the ledger → what a run would do."""


def _states_line(states: Iterable[str]) -> str:
    """What the states of a table mean, each once."""
    words = dict.fromkeys(state.partition(",")[0] for state in states)
    return "; ".join(f"{word}: {STATES[word]}" for word in words)


def _noise(planned: PlannedRelease) -> str:
    """As text; a dash where no noise on counts is bought."""
    from dp_pipeline.reporting.text import number_text

    return "–" if planned.noise is None else number_text(planned.noise)


def _size(planned: PlannedRelease) -> tuple[str, str]:
    """Cells and memory of a table, as text; dashes where the model releases none."""
    from dp_pipeline.reporting.text import number_text

    cells, megabytes = planned.cells, planned.megabytes
    if cells is None or megabytes is None:
        return "–", "–"
    return f"{cells:,}", number_text(megabytes)


def k_anonymity_line(spec: DatasetSpec) -> str:
    """The k-anonymous releases that a data set file declares, in a line."""
    from dp_pipeline.releases.k_anonymous_release import declared_k_anonymity

    declared = declared_k_anonymity(spec)
    methods, ks = ", ".join(declared.methods), ", ".join(declared.partition_keys)
    return f"k-anonymous, by `anonymize`, without any ε: {methods} at K = {ks}"
