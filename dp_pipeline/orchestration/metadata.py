"""Metadata of assets, of releases of every kind, and of an account.

What a raw asset shows comes from this file and ``columns.py`` alone: names, stages and
declarations. No value, no preview, and a count of public rows alone: what the event log holds is
read by more people than the raw store.
"""

from __future__ import annotations

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
from dp_pipeline.releases.k_anonymous_tables import TableFacts
from dp_pipeline.releases.publish import PublishedBundle
from dp_pipeline.releases.published_copy import PublishedCopy
from dp_pipeline.releases.release import Release
from dp_pipeline.reporting.figures import (
    BudgetHistory,
    Picture,
    budget_staircase,
    window_costs,
)
from dp_pipeline.reporting.metrics import QualityRow
from dp_pipeline.reporting.releases import steps_of
from dp_pipeline.reporting.text import (
    cost_text,
    count_text,
    number_text,
    plain,
    question_words,
)
from dp_pipeline.results.bundle import LEARNED, Bundle
from dp_pipeline.results.clusters import rows_in_batches

Metadata = dict[str, dg.MetadataValue]

ROW_COUNT = "dagster/row_count"
"""How Dagster calls the number of rows that an asset's table has: it is shown and plotted."""

PREVIEWED = 10
"""Synthetic rows that an asset's page shows."""

MOST_COLUMNS = 5
"""Dagster shows a table in a narrow window: more columns are cut off there."""


def raw_metadata(snapshot: Snapshot, *, rows: int | None = None, **facts: str) -> Metadata:
    """Metadata of a raw-side asset: the snapshot's name and declared facts, as text; and the number
    of its rows where they are public.
    """
    texts = {"snapshot": snapshot.id, **facts}
    told: Metadata = {name: dg.MetadataValue.text(text) for name, text in texts.items()}
    return told if rows is None else told | {ROW_COUNT: dg.MetadataValue.int(rows)}


def quality_metadata(rows: Sequence[QualityRow]) -> Metadata:
    """One number a model and metric: what the Plots tab draws over ε or K. Beside that of a sample
    of rows, its error.
    """
    told: Metadata = {f"{row.model}/{row.metric}": number(row.value) for row in rows}
    for row in rows:
        if row.error is not None:
            text = f"{row.text} of {MOST_COMPARED:,} rows"
            told[f"{row.model}/{row.metric}/sample"] = dg.MetadataValue.text(text)
    return told


def shelf_metadata(shelved: Mapping[str, PublishedCopy | None]) -> Metadata:
    """Of each published model what stands for readers now, and where."""
    told: Metadata = {}
    for model, one in shelved.items():
        if one is None:
            told[model] = dg.MetadataValue.text("nothing that is cleared was settled yet")
            continue
        is_folder = "://" not in one.place
        value = dg.MetadataValue.path if is_folder else dg.MetadataValue.text
        told[model] = dg.MetadataValue.text(one.release)
        told[f"{model}/place"] = value(one.place)
        told[f"{model}/version"] = dg.MetadataValue.text(one.version)
        told[f"{model}/digest"] = dg.MetadataValue.text(f"sha256:{one.digest}")
    return told


def number(value: float) -> dg.MetadataValue:
    """Four significant digits; text where there is no number."""
    if not math.isfinite(value):
        return dg.MetadataValue.text("not a number")
    return dg.MetadataValue.float(float(f"{value:.4g}"))


def picture(shown: Picture) -> dg.MetadataValue:
    """A small PNG, opened by a click in the UI."""
    data = base64.b64encode(shown.png).decode()
    return dg.MetadataValue.md(f"![{plain(shown.alt_text)}](data:image/png;base64,{data})")


def line_table(
    names: Sequence[str], lines: Sequence[Sequence[str | int | float]]
) -> dg.MetadataValue:
    """A table of at most five columns, that has its head without a line too."""
    records = [dg.TableRecord(dict(zip(names, line, strict=True))) for line in lines]
    columns = [dg.TableColumn(name) for name in names]
    return dg.MetadataValue.table(records, schema=dg.TableSchema(columns))


def record_table(table: Mapping[str, np.ndarray]) -> dg.MetadataValue:
    """A short released table, real numbers with four digits; as text where one is none. One of
    too many columns is turned on its side where it has one line, else its first columns are shown.
    """
    columns = [[_rounded(value) for value in values.tolist()] for values in table.values()]
    if len(table) <= MOST_COLUMNS:
        return line_table(list(table), list(zip(*columns, strict=True)))
    if all(len(values) == 1 for values in columns):
        turned = [(name, str(value)) for name, (value,) in zip(table, columns, strict=True)]
        return line_table(("name", "value"), turned)
    first = columns[:MOST_COLUMNS]
    return line_table(list(table)[:MOST_COLUMNS], list(zip(*first, strict=True)))


def _rounded(value: object) -> float | int | str:
    if not isinstance(value, float):
        return value if isinstance(value, int | str) else "" if value is None else str(value)
    return float(f"{value:.4g}") if math.isfinite(value) else str(value)


def table_metadata(bundle: Bundle) -> Metadata:
    """Of a released table: its cliques, the noise of what was measured, and what each step cost; of
    a class table its bits, its claims and how many classes are published; of centres how many.
    """
    if "claims" in bundle.tables:
        return _class_metadata(bundle)
    if "centres" in bundle.tables:
        return {ROW_COUNT: dg.MetadataValue.int(_rows(bundle.tables["centres"]))}
    if "cliques" not in bundle.tables:
        return {}
    cliques, measured = bundle.tables["cliques"], bundle.tables["measured"]
    cells = cliques["cells"].tolist()
    largest = max(zip(cells, cliques["attributes"].tolist(), strict=True), default=(0, "none"))
    lines = [
        (one.name, one.charges, cost_text(one.cost), f"{float(one.share):.1%}")
        for one in steps_of(bundle)
    ]
    return {
        "privacy/steps": line_table(("step", "charges", bundle.currency.symbol, "share"), lines),
        ROW_COUNT: dg.MetadataValue.int(_rows(bundle.tables["codes"])),
        **_preview(bundle),
        "table/cliques": dg.MetadataValue.int(len(cells)),
        "table/cells of all cliques": dg.MetadataValue.int(sum(cells)),
        "table/cells of the largest clique": dg.MetadataValue.int(largest[0]),
        "table/largest clique": dg.MetadataValue.text(largest[1]),
        "table/model graph": record_table(cliques),
        "table/noise": record_table(measured),
    }


def _class_metadata(bundle: Bundle) -> Metadata:
    """What is claimed stands beside what is not."""
    tables = bundle.tables
    return {
        "privacy/claims": record_table(tables["claims"]),
        "table/bits": record_table(tables["bits"]),
        ROW_COUNT: dg.MetadataValue.int(_rows(tables["classes"])),
        "table/threshold": record_table(tables["threshold"]),
    }


def _preview(bundle: Bundle) -> Metadata:
    """The first synthetic rows: they are released. Nothing of a method without an ε that holds."""
    if not bundle.is_dp or "synthetic" not in bundle.tables:
        return {}
    batch = next(rows_in_batches(bundle.tables["synthetic"]))
    first = {name: values[:PREVIEWED] for name, values in batch.items()}
    return {"table/first synthetic rows": record_table(first)}


def _rows(table: Mapping[str, np.ndarray]) -> int:
    return max((len(values) for values in table.values()), default=0)


def release_metadata(
    release: Release, published: PublishedBundle, card: Path, beside: Sequence[str] = ()
) -> Metadata:
    """What a release spent or promises, its origin, and its card.

    card     the file that says it in words
    beside   other releases of the same sensitive rows without any ε
    """
    bundle = published.bundle
    learned: Metadata = {}
    if LEARNED in bundle.facts:
        learned = {"privacy/planned from": dg.MetadataValue.text(bundle.facts[LEARNED])}
    own = _k_anonymous_metadata(bundle) if bundle.is_k_anonymous else _spent_metadata(published)
    return {
        "release card": dg.MetadataValue.md(card.read_text(encoding="utf-8")),
        **kind_metadata(bundle),
        **beside_metadata(beside),
        **learned,
        "privacy/state": dg.MetadataValue.text(published.state),
        **own,
        "older code": dg.MetadataValue.bool(bundle.facts["code"] != release.version()),
        "releasable": dg.MetadataValue.bool(bundle.is_releasable),
        "release key": dg.MetadataValue.text(bundle.key),
        "provenance": dg.MetadataValue.json(dict(bundle.facts)),
        **{f"quality/{name}": number(one.value) for name, one in bundle.quality.items()},
        "card": dg.MetadataValue.path(card),
    }


def _spent_metadata(published: PublishedBundle) -> Metadata:
    """The ε that holds, and the ρ that was paid; what this run charged, and every charge."""
    bundle = published.bundle
    charged = bundle.currency.text(Fraction(published.nano, NANO))
    exactly: Metadata = {"privacy/epsilon exactly": dg.MetadataValue.text(bundle.spent_text)}
    told = exactly
    # A number to plot only where there is one, and exactly where that number does not say it.
    if bundle.is_dp:
        plotted = number(float(bundle.epsilon))
        told = {"privacy/epsilon": plotted}
        if bundle.spent_text != epsilon_text(Fraction(str(plotted.value))):
            told |= exactly
        if bundle.currency.delta is not None:
            told["privacy/rho"] = number(float(bundle.charged))
            told["privacy/delta"] = dg.MetadataValue.text(delta_text(bundle.currency.delta))
    return {
        **told,
        "privacy/charged by this run": dg.MetadataValue.text(charged),
        # What is short stands first: there may be a hundred charges.
        **table_metadata(bundle),
        "privacy/mechanisms": spend_table(bundle),
    }


def kind_metadata(bundle: Bundle) -> Metadata:
    """``dp`` or ``not-dp``, and why where it is not the ε that was asked."""
    texts = {"privacy/kind": bundle.kind}
    if bundle.caveat:
        texts["privacy/caveat"] = bundle.caveat
    return {name: dg.MetadataValue.text(text) for name, text in texts.items()}


def beside_metadata(beside: Sequence[str]) -> Metadata:
    """What was released of the same sensitive rows without any ε; empty if nothing was."""
    if not beside:
        return {}
    text = f"not differentially private, of the same persons: {'; '.join(beside)}"
    return {"privacy/other non-DP releases": dg.MetadataValue.text(text)}


def spend_table(bundle: Bundle) -> dg.MetadataValue:
    """One row a charge, with what it cost in the population's currency, in words and short numbers:
    the bundle has every digit.
    """
    lines = [
        (
            question_words(one.what),
            cost_text(cost),
            one.mechanism,
            number_text(float(one.scale)),
            count_text(one.sensitivity),
        )
        for one, cost in zip(bundle.spends, bundle.costs, strict=True)
    ]
    # A narrow window cuts off what stands last.
    names = ("question", bundle.currency.symbol, "mechanism", "scale", "sensitivity")
    return line_table(names, lines)


def _k_anonymous_metadata(bundle: Bundle) -> Metadata:
    """What the released table promises, and what was measured of it."""
    shown = TableFacts.of(bundle)
    return {
        "k_anonymity/K": dg.MetadataValue.int(shown.k),
        "k_anonymity/diversity": dg.MetadataValue.int(shown.diversity),
        "k_anonymity/kept columns": dg.MetadataValue.int(shown.columns),
        "k_anonymity/classes": dg.MetadataValue.int(shown.classes),
        "k_anonymity/smallest class": dg.MetadataValue.int(shown.smallest),
        "k_anonymity/homogeneous share": number(shown.homogeneous),
        "k_anonymity/rows left out": dg.MetadataValue.int(shown.left_out),
        "columns": record_table(bundle.tables["columns"]),
        "measures": record_table(bundle.tables["measures"]),
    }


def budget_report(ledger: Ledger, population: str, windows: Windows | None = None) -> Metadata:
    """Everything that the budget report shows of one population. The ledger is verified first:
    Damaged where a row is not as it was written.

    windows   how its rows are cut, where they are: then each has a bar of its own
    """
    verified = ledger.verify()
    balance, entries = ledger.balance(population), ledger.entries(population)
    history = BudgetHistory.of(population, entries, balance.currency)
    strip: Metadata = {}
    if windows is not None:
        shown = window_costs(
            ledger.blocks(population),
            windows,
            ceiling=balance.window_ceiling,
            symbol=balance.currency.symbol,
        )
        strip["privacy/windows"] = picture(shown)
    return {
        **balance_metadata(balance),
        **strip,
        "ledger/verified rows": dg.MetadataValue.int(verified.sequence),
        "privacy/staircase": picture(budget_staircase(history)),
        "privacy/releases": charge_table(ledger, population),
    }


def balance_metadata(balance: Balance) -> Metadata:
    """What is spent, left and allowed for ever, in this month where that has a limit, and of the
    window that is asked about.
    """
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
        metadata["δ of discovered levels"] = dg.MetadataValue.text(balance.delta_summary)
    return metadata


def limits_metadata(word: str) -> Metadata:
    """One line where the data set file declares other limits than the account has; else nothing."""
    return {"privacy/limits": dg.MetadataValue.text(word)} if word else {}


def amount_metadata(amounts: Mapping[str, Fraction | None], currency: Currency) -> Metadata:
    """Amounts in a currency as numbers, to be plotted, and exactly as text where the number does
    not say it; ``none`` where there is no limit.
    """
    told: Metadata = {}
    for name, one in amounts.items():
        if one is None:
            told[f"privacy/{name}"] = dg.MetadataValue.text("none")
            continue
        plotted = told[f"privacy/{name}"] = number(float(one))
        if currency.text(one) != epsilon_text(Fraction(str(plotted.value))):
            told[f"privacy/{name} exactly"] = dg.MetadataValue.text(currency.text(one))
    return told


def charge_table(ledger: Ledger, population: str) -> dg.MetadataValue:
    """One row a charge of a population, oldest first, with the sum so far."""
    lines, total = [], 0
    for entry in ledger.entries(population):
        if entry.is_charge:
            total += entry.counted
            time = entry.time[:19].replace("T", " ")
            so_far = epsilon_text(Fraction(total, NANO))
            own = epsilon_text(Fraction(entry.nano_epsilon, NANO)) if entry.kind == "dp" else "none"
            lines.append((time, entry.what, own, so_far, entry.kind or ""))
    symbol = ledger.balance(population).currency.symbol
    # A narrow window cuts off what stands last.
    return line_table(("time", "release", symbol, "sum", "kind"), lines)
