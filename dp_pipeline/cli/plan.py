"""`dp-pipeline plan`: what a run would cost, what noise it would buy, and what the account has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
from dp_pipeline.publish.asking import requested

if TYPE_CHECKING:
    from dp_pipeline.publish.request import Plan, PlannedRelease, PlannedWindow
    from dp_pipeline.spec.amounts import Currency
    from dp_pipeline.spec.dataset import DatasetSpec


@click.command()
@request_options
@READER
def plan(dataset: str, reader: Reader, **options: Any) -> None:
    """Show what `run` would cost, what noise that buys, and what the account has: asked, spent,
    left, ceiling. Nothing is read or charged.
    """
    from dp_pipeline.publish.request import plan_requests, refined_cost, require_budget_of_all

    requests = requested(dataset, **options)
    planned = plan_requests(requests)
    in_steps = refined_cost(requests[0]) if len(requests) == 1 else None
    if in_steps is not None and in_steps >= planned[0].asked:
        in_steps = None
    reader.answer(
        lambda: {**plan_document(planned), "asked_in_steps": amount_text(in_steps)},
        lambda: _print_whole_plan(planned, in_steps),
    )
    require_budget_of_all(planned)


def _print_whole_plan(planned: Sequence[Plan], in_steps: Fraction | None) -> None:
    """The plans, and what else there is: refinements, k-anonymous tables."""
    spec = planned[0].spec
    print_plans(planned)
    if in_steps is not None:
        text = spec.currency.text(in_steps)
        click.echo(f"each from the one before by `--refine previous`: {text} in place of that")
    if spec.k_anonymity is not None:
        click.echo(k_anonymity_line(spec))


def plan_document(planned: Sequence[Plan]) -> Document:
    """The plans of one data set for a program: one, or one for each window."""
    from dp_pipeline.publish.request import windows_of

    spec, balance = planned[0].spec, replace(planned[0].balance, window_ceiling=None)
    asked = sum((one.asked for one in planned), Fraction(0))
    amounts = {
        **planned[0].amounts,
        "asked": asked,
        "left": balance.left,
        "left this month": balance.month_left,
    }
    known = [name for name in amounts if name in planned[0].amounts]
    delta = sum((one.delta for one in planned), Fraction(0))
    return {
        "dataset": spec.name,
        "currency": spec.currency.name,
        "releases": [_release(one) for each in planned for one in each.releases],
        "windows": [_window(one) for one in windows_of(planned)],
        **{name.replace(" ", "_"): amount_text(amounts[name]) for name in known},
        "delta": str(delta),
        "limits": planned[0].word,
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


def _window(planned: PlannedWindow) -> dict[str, str]:
    balance = planned.balance
    return {
        "window": planned.name,
        "asked": amount_text(planned.asked),
        "spent": amount_text(balance.window_spent),
        "left": amount_text(balance.left),
        "ceiling": amount_text(balance.window_ceiling),
    }


def print_plans(plans: Sequence[Plan]) -> None:
    """The one plan, or a line a window and what all of them ask for."""
    if len(plans) == 1:
        print_plan(plans[0])
        return
    print_windows(plans)
    if plans[0].word:
        click.echo(plans[0].word)


def print_windows(plans: Sequence[Plan]) -> None:
    """A line for each window that a release is of: all that would be charged to it."""
    from dp_pipeline.publish.request import windows_of
    from dp_pipeline.reporting.text import print_table

    spec, currency = plans[0].spec, plans[0].spec.currency
    rows, windows = [], windows_of(plans)
    for window in windows:
        states = ", ".join(dict.fromkeys(one.state for one in window.releases))
        left = window.balance.left
        room = "no limit" if left is None else currency.text(left)
        rows.append([window.name, states, currency.text(window.asked), room])
    print_table(f"Plan of {spec.name}, {len(windows)} windows", WINDOW_COLUMNS, rows)
    asked = sum((one.asked for one in plans), Fraction(0))
    ceiling = plans[0].balance.ceiling
    limit = "no total" if ceiling is None else f"a total of {currency.text(ceiling)}"
    click.echo(f"asked {currency.text(asked)} of all windows together, under {limit}")


WINDOW_COLUMNS = ("window", "state", "asked", "left")


def print_plan(planned: Plan) -> None:
    """A line a release, and what the account has."""
    from dp_pipeline.reporting.text import print_table
    from dp_pipeline.spec.amounts import epsilon_text
    from dp_pipeline.spec.errors import float_text

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
        print_windows([planned])
    click.echo(_account_line(planned))
    word = planned.balance.delta_word
    if planned.delta or word:
        asked = float_text(planned.delta)
        click.echo(f"δ of discovered levels: asked {asked}{f', {word}' if word else ''}")
    if planned.word:
        click.echo(planned.word)


def _account_line(planned: Plan) -> str:
    """What is asked, spent, left and allowed. Of one window with a limit of its own first that of
    the window, else what is left of it would stand beside what all of them have spent.
    """
    balance, currency = planned.balance, planned.spec.currency
    if balance.window_left is None or len(planned.windows) > 1:
        return _amounts_line(planned.amounts, currency)
    of_window = {
        "asked": planned.asked,
        f"spent in {balance.window}": balance.window_spent,
        "left": planned.left,
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
    from dp_pipeline.publish.k_anonymous_release import declared_k_anonymity

    declared = declared_k_anonymity(spec)
    methods, ks = ", ".join(declared.methods), ", ".join(declared.partition_keys)
    return f"k-anonymous, by `anonymize`, without any ε: {methods} at K = {ks}"
