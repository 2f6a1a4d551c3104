"""`dp-pipeline plan`: the cost of a run, the noise that it buys, and the state of the account."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click

from dp_pipeline.cli.options import READER, Reader, amount_text, number_or_none, request_options

if TYPE_CHECKING:
    from dp_pipeline.config.amounts import Currency
    from dp_pipeline.config.dataset import DatasetSpec
    from dp_pipeline.releases.foreseen import PairForecast
    from dp_pipeline.releases.run_plan import PlannedRelease, RunPlan


@click.command()
@request_options
@READER
def plan(dataset: str, reader: Reader, **options: Any) -> None:
    """Show what a run would cost, and which noise that buys.

    It also shows what the account has spent, what is left, and its ceiling. Nothing is read or
    charged. Exit code 3 where the budget is too small.
    """
    from dp_pipeline.releases.foreseen import discovery_lines, forecast_pairs
    from dp_pipeline.releases.run_options import parse_request
    from dp_pipeline.releases.run_plan import plan_run, refined_cost

    request = parse_request(dataset, **options)
    planned, in_steps = plan_run(request), refined_cost(request)
    if in_steps is not None and in_steps >= planned.total_cost:
        in_steps = None
    unpaid = [release for release in planned.releases if release.state.startswith("new")]
    keys, foreseen = {(each.model, each.epsilon) for each in unpaid}, forecast_pairs(request)
    tables = [each for each in foreseen if (each.release.name, each.release.epsilon) in keys]
    is_open = any(release.model == "domain" for release in unpaid)
    discovery = list(discovery_lines(request.spec)) if is_open else []
    reader.print_output(
        lambda: {
            **plan_document(planned),
            "requested_in_steps": amount_text(in_steps),
            "pairs": [_pairs(table) for table in tables],
            "discovery": discovery,
        },
        lambda: _print_page(planned, in_steps, [*(table.text for table in tables), *discovery]),
    )
    planned.require_budget()


def _pairs(table: PairForecast) -> dict[str, Any]:
    pairs = table.pairs
    return {
        "model": table.release.name,
        "epsilon": amount_text(table.release.epsilon),
        "rows": table.rows,
        "of": pairs.total,
        "measured": pairs.likely,
        "at_no_dependence": pairs.measured[0],
        "at_strong_dependence": pairs.measured[-1],
        "error": number_or_none(pairs.error),
        "warning": table.warning,
    }


def _print_page(planned: RunPlan, in_steps: Fraction | None, foreseen: list[str]) -> None:
    spec = planned.spec
    print_plan(planned)
    for line in foreseen:
        click.echo(line)
    if in_steps is not None:
        words = "with `--refine previous`, each release made from the one before, it would cost"
        click.echo(f"{words} {spec.currency.text(in_steps)}")
    if spec.k_anonymity is not None:
        click.echo(k_anonymity_line(spec))


def plan_document(planned: RunPlan) -> dict[str, Any]:
    spec, balance = planned.spec, replace(planned.balance, window_ceiling=None)
    amounts = {**planned.amounts, "left": balance.remaining}
    if "left this month" in amounts:
        amounts["left this month"] = balance.month_remaining
    return {
        "dataset": spec.name,
        "currency": spec.currency.name,
        "releases": [_release(release) for release in planned.releases],
        "windows": [
            {
                "window": name,
                "requested": amount_text(planned.cost_of(name)),
                "spent": amount_text(window.window_spent),
                "left": amount_text(window.remaining),
                "ceiling": amount_text(window.window_ceiling),
            }
            for name, window in planned.windows.items()
        ],
        **{name.replace(" ", "_"): amount_text(amount) for name, amount in amounts.items()},
        "delta": str(planned.delta),
        "limits": planned.limits_note,
    }


def _release(planned: PlannedRelease) -> dict[str, Any]:
    return {
        "model": planned.model,
        "epsilon": amount_text(planned.epsilon),
        "windows": list(planned.windows),
        "state": planned.state,
        "cost": amount_text(planned.cost),
        "noise_of_a_count": number_or_none(planned.noise),
        "noise_of_a_share": number_or_none(planned.noise_of_a_share),
        "cells_at_most": planned.cells,
    }


def print_plan(planned: RunPlan) -> None:
    """Print a table with a line for each release or, if they end in several windows, for each
    window, then the amounts of the account."""
    if len({release.windows[-1] for release in planned.releases if release.windows}) > 1:
        _print_windows(planned)
    else:
        _print_releases(planned)
    if planned.limits_note:
        click.echo(planned.limits_note)


WINDOW_COLUMNS = ("window", "state", "requested", "left")


def _print_windows(planned: RunPlan) -> None:
    from dp_pipeline.reporting.text import print_table

    spec, currency, rows = planned.spec, planned.spec.currency, []
    for name, balance in planned.windows.items():
        states = ", ".join(dict.fromkeys(release.state for release in planned.releases_of(name)))
        budget = "no limit" if balance.remaining is None else currency.text(balance.remaining)
        rows.append([name, states, currency.text(planned.cost_of(name)), budget])
    print_table(f"Plan of {spec.name}, {len(rows)} windows", WINDOW_COLUMNS, rows)
    ceiling = planned.balance.ceiling
    limit = "no total" if ceiling is None else f"a total of {currency.text(ceiling)}"
    requested = currency.text(planned.total_cost)
    click.echo(f"requested {requested} of all windows together, under {limit}")


def _print_releases(planned: RunPlan) -> None:
    from dp_pipeline.config.errors import float_text
    from dp_pipeline.reporting.text import print_table

    currency, has_windows = planned.spec.currency, len(planned.windows) > 1
    cost = "cost" if currency.delta is None else f"cost ({currency.symbol})"
    cost = f"{cost} of each window" if has_windows else cost
    columns = ["model", "ε", "state", cost, "noise of a count", "of a share"]
    columns += ["cells at most", "MB at most"]
    rows = [_cells(release) for release in planned.releases]
    hidden = [] if planned.spec.nominal_rows else ["of a share"]
    hidden += [] if planned.has_tables else columns[-2:]
    places = [place for place, name in enumerate(columns) if name not in hidden]
    columns, rows = [columns[n] for n in places], [[row[n] for n in places] for row in rows]
    title = " ".join(("Plan of", planned.spec.name, *planned.spec.blocks))
    print_table(title, columns, rows)
    click.echo(NOISE_WORDS.format(items=planned.spec.domain.item_word))
    states = dict.fromkeys(release.state.partition(",")[0] for release in planned.releases)
    click.echo("; ".join(f"{state}: {STATES[state]}" for state in states))
    if has_windows:
        _print_windows(planned)
    click.echo(_account_line(planned))
    summary = planned.balance.delta_summary
    if planned.delta or summary:
        line = f"δ of discovered levels: requested {float_text(planned.delta)}"
        click.echo(f"{line}, {summary}" if summary else line)


def _cells(release: PlannedRelease) -> list[str]:
    """Return the cells of a release's line, a dash where a number does not apply."""
    from dp_pipeline.config.amounts import epsilon_text
    from dp_pipeline.reporting.text import number_text

    noise, cells, megabytes = release.noise, release.cells, release.megabytes
    share = release.noise_of_a_share
    has_table = cells is not None and megabytes is not None
    return [
        release.model,
        epsilon_text(release.epsilon),
        release.state,
        epsilon_text(release.cost),
        "–" if noise is None else number_text(noise),
        "–" if share is None else f"{number_text(100 * share)} %",
        f"{cells:,}" if has_table else "–",
        number_text(megabytes) if has_table and megabytes is not None else "–",
    ]


def _account_line(planned: RunPlan) -> str:
    """Return the amounts requested, spent, left and allowed as one line.

    The limit of one window comes first, so that its rest is not read as that of all windows.
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
    of_all = {name: amount for name, amount in planned.amounts.items() if name not in of_window}
    together = _amounts_line(of_all, currency)
    return f"{_amounts_line(of_window, currency)}; all windows together: {together}"


def _amounts_line(amounts: Mapping[str, Fraction | None], currency: Currency) -> str:
    texts = {n: "no limit" if each is None else currency.text(each) for n, each in amounts.items()}
    return ", ".join(f"{name} {text}" for name, text in texts.items())


NOISE_WORDS = (
    "noise of a count: {items} by which a count of a one-way table is wrong on average, if all of "
    "this ε pays for that table; a model shares its ε, so its counts are noisier; of a share: the "
    "same in per cent of the declared nominal_rows"
)
"""The explanation of the columns `noise of a count` and `of a share`."""

STATES = {
    "new": "a run draws it and pays the cost",
    "settled": "released before, shown again at no cost",
    "unfinished": "paid before, finished by a run at no cost",
    "dead": "paid before and cannot be finished; `--new-draw` pays again",
}
"""State of a release in the ledger → what a run would do."""


def k_anonymity_line(spec: DatasetSpec) -> str:
    """Return the declared k-anonymous releases as one line; DeclarationError without any."""
    from dp_pipeline.releases.k_anonymous_release import declared_k_anonymity

    k_anonymity = declared_k_anonymity(spec)
    methods, ks = ", ".join(k_anonymity.methods), ", ".join(k_anonymity.partition_keys)
    return f"k-anonymous, by `anonymize`, without any ε: {methods} at K = {ks}"
