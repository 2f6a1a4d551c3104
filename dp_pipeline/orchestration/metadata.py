"""Metadata of assets, of releases of every kind, and of an account, for Dagster's pages.

A raw asset shows names, stages, declarations and public numbers of rows alone: more people read the
event log than the raw store.
"""

import base64
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import dagster as dg
import numpy as np

from dp_pipeline.config.amounts import NANO, Currency, delta_text, epsilon_text
from dp_pipeline.config.windows import Windows
from dp_pipeline.ledger import Balance, Ledger
from dp_pipeline.metrics.marginals import MOST_COMPARED
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.releases.k_anonymous_tables import table_facts
from dp_pipeline.releases.publish import PublishedBundle
from dp_pipeline.releases.published_copy import PublishedCopy
from dp_pipeline.releases.release import Release
from dp_pipeline.reporting.figures.budget import budget_staircase, window_costs
from dp_pipeline.reporting.figures.picture import Picture
from dp_pipeline.reporting.metrics import QualityRow
from dp_pipeline.reporting.releases import steps_of
from dp_pipeline.reporting.text import (
    cost_text,
    count_text,
    escape_markdown,
    number_text,
    question_words,
)
from dp_pipeline.results.bundle import LEARNED, Bundle
from dp_pipeline.results.clusters import row_count, rows_in_batches
from dp_pipeline.results.synthetic_table import noisy_table_names

Metadata = dict[str, dg.MetadataValue]

ROW_COUNT = "dagster/row_count"
"""Dagster's key for the number of rows of an asset's table: it is shown and plotted."""

PREVIEW_ROWS = 10
"""Synthetic rows on the page of an asset, at most."""

MAX_COLUMNS = 5
"""Columns of a table, at most: Dagster shows it in a narrow window, which cuts off further ones."""


def _text(value: str) -> dg.MetadataValue:
    return dg.MetadataValue.text(value)


def raw_metadata(snapshot: Snapshot, *, rows: int | None = None, **facts: str) -> Metadata:
    """Return the metadata of a raw asset: the name of its snapshot, and declared facts.

    rows   number of its rows, where they are public
    """
    texts = {"snapshot": snapshot.id, **facts}
    metadata: Metadata = {name: _text(text) for name, text in texts.items()}
    return metadata if rows is None else metadata | {ROW_COUNT: dg.MetadataValue.int(rows)}


def quality_metadata(rows: Sequence[QualityRow]) -> Metadata:
    """Return a number to plot for each model and metric, and a text with the error of samples."""
    metadata: Metadata = {f"{row.model}/{row.metric}": number(row.value) for row in rows}
    for row in rows:
        if row.error is not None:
            text = f"{row.text} of {MOST_COMPARED:,} rows"
            metadata[f"{row.model}/{row.metric}/sample"] = _text(text)
    return metadata


def published_metadata(copies: Mapping[str, PublishedCopy | None]) -> Metadata:
    """Return the release, place, version and digest of each model's published copy, by the name of
    the model; for a model without one only a note that there is none."""
    metadata: Metadata = {}
    for model, copy in copies.items():
        if copy is None:
            metadata[model] = _text("no releasable release was settled yet")
            continue
        is_url = "://" in copy.place
        metadata[model] = _text(copy.release)
        location = _text(copy.place) if is_url else dg.MetadataValue.path(copy.place)
        metadata[f"{model}/location"] = location
        metadata[f"{model}/version"] = _text(copy.version)
        metadata[f"{model}/digest"] = _text(f"sha256:{copy.digest}")
    return metadata


def number(value: float) -> dg.MetadataValue:
    """Return a number with four significant digits; the text “not a number” unless it is finite."""
    if not math.isfinite(value):
        return _text("not a number")
    return dg.MetadataValue.float(float(f"{value:.4g}"))


def picture(chart: Picture) -> dg.MetadataValue:
    """Return a chart as a small PNG that the Dagster UI shows."""
    data = base64.b64encode(chart.png).decode()
    return dg.MetadataValue.md(
        f"![{escape_markdown(chart.alt_text)}](data:image/png;base64,{data})"
    )


def line_table(
    names: Sequence[str], lines: Sequence[Sequence[str | int | float]]
) -> dg.MetadataValue:
    """Return a table for Dagster, with its head even where there are no lines."""
    records = [dg.TableRecord(dict(zip(names, line, strict=True))) for line in lines]
    columns = [dg.TableColumn(name) for name in names]
    return dg.MetadataValue.table(records, schema=dg.TableSchema(columns))


def record_table(table: Mapping[str, np.ndarray]) -> dg.MetadataValue:
    """Return a table's first five columns; a single row with more as lines of name and value."""
    columns = [[_rounded(value) for value in values.tolist()] for values in table.values()]
    if len(table) > MAX_COLUMNS and all(len(values) == 1 for values in columns):
        pairs = [(name, str(value)) for name, (value,) in zip(table, columns, strict=True)]
        return line_table(("name", "value"), pairs)
    lines = list(zip(*columns[:MAX_COLUMNS], strict=True))
    return line_table(list(table)[:MAX_COLUMNS], lines)


def _rounded(value: object) -> float | int | str:
    if not isinstance(value, float):
        return value if isinstance(value, int | str) else "" if value is None else str(value)
    return float(f"{value:.4g}") if math.isfinite(value) else str(value)


def table_metadata(bundle: Bundle) -> Metadata:
    """Return the row count of a release's table; {} for one of neither classes, centres nor rows.

    With classes come their claims, bits and threshold; with synthetic rows the costs of steps, the
    first rows, and the cliques."""
    tables = bundle.tables
    if "claims" in tables:
        return {
            "privacy/claims": record_table(tables["claims"]),
            "table/bits": record_table(tables["bits"]),
            ROW_COUNT: dg.MetadataValue.int(row_count(tables["classes"])),
            "table/threshold": record_table(tables["threshold"]),
        }
    if "centres" in tables:
        return {ROW_COUNT: dg.MetadataValue.int(row_count(tables["centres"]))}
    if "cliques" not in tables:
        return {}
    cliques = tables["cliques"]
    cells, noisy = cliques["cells"].tolist(), noisy_table_names(tables)[0]
    largest = max(zip(cells, cliques["attributes"].tolist(), strict=True), default=(0, "none"))
    lines = [
        (step.name, step.charges, cost_text(step.cost), f"{float(step.share):.1%}")
        for step in steps_of(bundle)
    ]
    return {
        "privacy/steps": line_table(("step", "charges", bundle.currency.symbol, "share"), lines),
        ROW_COUNT: dg.MetadataValue.int(
            row_count(tables["synthetic" if "units" in tables else "codes"])
        ),
        **_preview(bundle),
        "table/cliques": dg.MetadataValue.int(len(cells)),
        "table/cells of all cliques": dg.MetadataValue.int(sum(cells)),
        "table/cells of the largest clique": dg.MetadataValue.int(largest[0]),
        "table/largest clique": _text(largest[1]),
        "table/model graph": record_table(cliques),
        **({"table/noise": record_table(tables[noisy])} if noisy in tables else {}),
    }


def _preview(bundle: Bundle) -> Metadata:
    metadata: Metadata = {}
    for table, items in (("units", "units"), ("synthetic", "rows")):
        if bundle.is_dp and table in bundle.tables:
            batch = next(rows_in_batches(bundle.tables[table]))
            first = {name: values[:PREVIEW_ROWS] for name, values in batch.items()}
            metadata[f"table/first synthetic {items}"] = record_table(first)
    return metadata


def release_metadata(
    release: Release, published: PublishedBundle, card: Path, other_releases: Sequence[str] = ()
) -> Metadata:
    """Return the metadata of a release: its card, costs or K, state, facts and quality numbers.

    card             file with the release card, in Markdown
    other_releases   names of non-DP releases of the same sensitive rows
    """
    bundle = published.bundle
    texts = {}
    if other_releases:
        texts["privacy/other non-DP releases"] = (
            f"not differentially private, of the same persons: {'; '.join(other_releases)}"
        )
    if LEARNED in bundle.facts:
        texts["privacy/planned from"] = bundle.facts[LEARNED]
    texts["privacy/state"] = published.state
    costs = _k_anonymity_metadata(bundle) if bundle.is_k_anonymous else _cost_metadata(published)
    is_other_code = bundle.facts["code"] != release.version()
    return {
        "release card": dg.MetadataValue.md(card.read_text(encoding="utf-8")),
        **kind_metadata(bundle),
        **{name: _text(text) for name, text in texts.items()},
        **costs,
        "measured by other code": dg.MetadataValue.bool(is_other_code),
        "releasable": dg.MetadataValue.bool(bundle.is_releasable),
        "release key": _text(bundle.key),
        "provenance": dg.MetadataValue.json(dict(bundle.facts)),
        **{f"quality/{name}": number(noisy.value) for name, noisy in bundle.quality.items()},
        "card": dg.MetadataValue.path(card),
    }


def _cost_metadata(published: PublishedBundle) -> Metadata:
    bundle = published.bundle
    exact: Metadata = {"privacy/exact epsilon": _text(bundle.spent_text)}
    metadata: Metadata = {} if bundle.is_dp else exact
    if bundle.is_dp:
        # A number can be plotted; the exact text stands beside it where the two differ.
        plotted = number(float(bundle.epsilon))
        metadata["privacy/epsilon"] = plotted
        if bundle.spent_text != epsilon_text(Fraction(str(plotted.value))):
            metadata |= exact
        if bundle.currency.delta is not None:
            metadata["privacy/rho"] = number(float(bundle.charged))
            metadata["privacy/delta"] = _text(delta_text(bundle.currency.delta))
    charged = bundle.currency.text(Fraction(published.nano, NANO))
    return {
        **metadata,
        "privacy/charged by this run": _text(charged),
        # Short values stand first: there may be a hundred charges.
        **table_metadata(bundle),
        "privacy/mechanisms": _spend_table(bundle),
    }


def kind_metadata(bundle: Bundle) -> Metadata:
    """Return ``dp`` or ``not-dp``, and a caveat if the requested ε does not hold."""
    metadata = {"privacy/kind": _text(bundle.kind)}
    return metadata | ({"privacy/caveat": _text(bundle.caveat)} if bundle.caveat else {})


def _spend_table(bundle: Bundle) -> dg.MetadataValue:
    lines = [
        (
            question_words(spend.what),
            cost_text(cost),
            spend.mechanism,
            number_text(float(spend.scale)),
            count_text(spend.sensitivity),
        )
        for spend, cost in zip(bundle.spends, bundle.costs, strict=True)
    ]
    # A narrow window cuts off what stands last.
    names = ("question", bundle.currency.symbol, "mechanism", "scale", "sensitivity")
    return line_table(names, lines)


def _k_anonymity_metadata(bundle: Bundle) -> Metadata:
    facts = table_facts(bundle)
    counts = {
        "K": facts["k"],
        "diversity": facts["diversity"],
        "retained columns": facts["columns"],
        "classes": facts["classes"],
        "smallest class": facts["smallest"],
        "suppressed rows": facts["left_out"],
    }
    return {
        **{f"k_anonymity/{name}": dg.MetadataValue.int(count) for name, count in counts.items()},
        "k_anonymity/homogeneous share": number(facts["homogeneous"]),
        "columns": record_table(bundle.tables["columns"]),
        "measures": record_table(bundle.tables["measures"]),
    }


def budget_report(ledger: Ledger, population: str, windows: Windows | None = None) -> Metadata:
    """Verify the ledger; return the metadata of one population's budget report.

    windows   the time windows of its rows, for a picture of their costs; None: there are none

    Raises Damaged if the ledger was changed after it was written."""
    verified = ledger.verify()
    balance, entries = ledger.balance(population), ledger.entries(population)
    staircase = budget_staircase(population, entries, balance.currency)
    window_chart: Metadata = {}
    if windows is not None:
        chart = window_costs(
            ledger.blocks(population),
            windows,
            ceiling=balance.window_ceiling,
            symbol=balance.currency.symbol,
        )
        window_chart["privacy/windows"] = picture(chart)
    return {
        **balance_metadata(balance),
        **window_chart,
        "ledger/verified rows": dg.MetadataValue.int(verified.sequence),
        "privacy/spending over time": picture(staircase),
        "privacy/releases": charge_table(ledger, population),
    }


def balance_metadata(balance: Balance) -> Metadata:
    """Return the amounts spent, left and allowed in total; the same of the balance's month where
    months have a limit; and the amounts spent and allowed of its window if it has one."""
    amounts = {"spent": balance.spent, "left": balance.remaining, "ceiling": balance.ceiling}
    if balance.per_month is not None:
        amounts |= {
            f"spent in {balance.month}": balance.month_spent,
            f"left in {balance.month}": balance.month_remaining,
            "limit of a month": balance.per_month,
        }
    if balance.window:
        amounts |= {
            f"spent of {balance.window}": balance.window_spent,
            "limit of a window": balance.window_ceiling,
        }
    metadata = amount_metadata(amounts, balance.currency)
    if balance.delta_summary:
        metadata["δ of discovered levels"] = _text(balance.delta_summary)
    return metadata


def amount_metadata(amounts: Mapping[str, Fraction | None], currency: Currency) -> Metadata:
    """Return amounts as numbers to plot, and as exact text if rounded; ``none`` for no limit."""
    metadata: Metadata = {}
    for name, amount in amounts.items():
        if amount is None:
            metadata[f"privacy/{name}"] = _text("none")
            continue
        plotted = metadata[f"privacy/{name}"] = number(float(amount))
        if currency.text(amount) != epsilon_text(Fraction(str(plotted.value))):
            metadata[f"privacy/exact {name}"] = _text(currency.text(amount))
    return metadata


def charge_table(ledger: Ledger, population: str) -> dg.MetadataValue:
    """Return a table with a row for each charge of a population, oldest first, and running sums,
    which count a charge once for each of its windows."""
    lines, total = [], 0
    for entry in ledger.entries(population):
        if entry.is_charge:
            total += entry.charge_in_all_windows
            time = entry.time[:19].replace("T", " ")
            sum_so_far = epsilon_text(Fraction(total, NANO))
            epsilon = Fraction(entry.nano_epsilon, NANO)
            cost = epsilon_text(epsilon) if entry.kind == "dp" else "none"
            lines.append((time, entry.what, cost, sum_so_far, entry.kind or ""))
    symbol = ledger.balance(population).currency.symbol
    # A narrow window cuts off what stands last.
    return line_table(("time", "release", symbol, "sum", "kind"), lines)
