"""The only writer of asset metadata, with an allow-list a side; what is said of k-anonymous
releases stands in ``syntactic_metadata``.

Raw side: names, stages and verdicts. No count, no value, no preview: what the
event log holds is read by more people than the raw store.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import dagster as dg
import numpy as np

from dp_pipeline.ledger import Entry, Ledger
from dp_pipeline.orchestration.publishing import Published
from dp_pipeline.orchestration.release import code_version
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.release.bundle import Bundle
from dp_pipeline.reporting.rows import QualityRow
from dp_pipeline.reporting.spend_steps import steps_of
from dp_pipeline.schema.currency import Currency, delta_text
from dp_pipeline.schema.epsilon import NANO, epsilon_text

Metadata = dict[str, dg.MetadataValue]


def raw_metadata(snapshot: Snapshot, **facts: str) -> Metadata:
    """Metadata of a raw-side asset: the snapshot's name and declared facts, as text."""
    texts = {"snapshot": snapshot.id, **facts}
    return {name: dg.MetadataValue.text(text) for name, text in texts.items()}


def released_metadata(published: Published, beside: Sequence[str] = ()) -> Metadata:
    """What a release spent, from its accountant; how it was come by; where it comes from.

    beside   releases of the same sensitive rows without any ε
    """
    bundle = published.bundle
    return {
        **kind_metadata(bundle),
        **beside_metadata(beside),
        **_epsilon_metadata(bundle),
        f"privacy/nano-{bundle.currency.symbol} charged by this run": dg.MetadataValue.int(
            published.nano
        ),
        "privacy/state": dg.MetadataValue.text(published.state),
        # What is short stands first: there may be a hundred charges.
        **table_metadata(bundle),
        "privacy/mechanisms": spend_table(bundle),
        "older code": dg.MetadataValue.bool(bundle.facts["code"] != code_version()),
        "fit for release": dg.MetadataValue.bool(bundle.fit_for_release),
        "release key": dg.MetadataValue.text(bundle.key),
        "provenance": dg.MetadataValue.json(dict(bundle.facts)),
        **{f"quality/{name}": number(one.value) for name, one in bundle.quality.items()},
    }


def kind_metadata(bundle: Bundle) -> Metadata:
    """``dp`` or ``not-dp``, and why where it is not the ε that was asked."""
    texts = {"privacy/kind": bundle.kind}
    if bundle.caveat:
        texts["privacy/caveat"] = bundle.caveat
    return {name: dg.MetadataValue.text(text) for name, text in texts.items()}


def beside_metadata(beside: Sequence[str]) -> Metadata:
    """What was released of the same sensitive rows without any ε; nothing where nothing was."""
    if not beside:
        return {}
    text = f"not differentially private, of the same persons: {'; '.join(beside)}"
    return {"privacy/beside it": dg.MetadataValue.text(text)}


def _epsilon_metadata(bundle: Bundle) -> Metadata:
    """The ε that holds: a number to plot only where there is one; and the ρ that was paid."""
    exactly: Metadata = {"privacy/epsilon exactly": dg.MetadataValue.text(bundle.spent_text)}
    if bundle.is_dp:
        exactly["privacy/epsilon"] = dg.MetadataValue.float(float(bundle.epsilon))
    if bundle.is_dp and bundle.currency.delta is not None:
        exactly["privacy/rho"] = dg.MetadataValue.float(float(bundle.charged))
        exactly["privacy/delta"] = dg.MetadataValue.text(delta_text(bundle.currency.delta))
    return exactly


def spend_table(bundle: Bundle) -> dg.MetadataValue:
    """One row a charge, with what it cost in the lineage's currency."""
    return dg.MetadataValue.table(
        [
            dg.TableRecord(
                {
                    "question": spend.what,
                    "mechanism": spend.mechanism,
                    "sensitivity": spend.sensitivity,
                    "scale": f"{float(spend.scale):.6g}",
                    bundle.currency.symbol: epsilon_text(cost),
                }
            )
            for spend, cost in zip(bundle.spends, bundle.costs, strict=True)
        ]
    )


def table_metadata(bundle: Bundle) -> Metadata:
    """Of a released table: its cliques, the noise of what was measured, and what each step cost; of
    a class table its bits, its claims and how many classes are published; nothing of centres.
    """
    if "claims" in bundle.tables:
        return _class_metadata(bundle)
    if "cliques" not in bundle.tables:
        return {}
    cliques, measured = bundle.tables["cliques"], bundle.tables["measured"]
    cells = cliques["cells"].tolist()
    largest = max(zip(cells, cliques["attributes"].tolist(), strict=True), default=(0, "none"))
    return {
        "privacy/steps": _step_table(bundle),
        "table/synthetic rows": dg.MetadataValue.int(_rows(bundle.tables["codes"])),
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
        "table/published classes": dg.MetadataValue.int(_rows(tables["classes"])),
        "table/threshold": record_table(tables["threshold"]),
    }


def _step_table(bundle: Bundle) -> dg.MetadataValue:
    """One row a step."""
    return dg.MetadataValue.table(
        [
            dg.TableRecord(
                {
                    "step": step.name,
                    "charges": step.charges,
                    bundle.currency.symbol: epsilon_text(step.cost),
                    "share": f"{float(step.share):.1%}",
                }
            )
            for step in steps_of(bundle)
        ]
    )


def record_table(table: Mapping[str, np.ndarray]) -> dg.MetadataValue:
    """A short released table, real numbers with four digits; as text where one is none."""
    columns = [
        [_rounded(value) for value in values.tolist()]
        if values.dtype.kind == "f"
        else values.tolist()
        for values in table.values()
    ]
    rows = zip(*columns, strict=True)
    return dg.MetadataValue.table(
        [dg.TableRecord(dict(zip(table, row, strict=True))) for row in rows],
        schema=dg.TableSchema([dg.TableColumn(name) for name in table]),
    )


def _rounded(value: float) -> float | str:
    return float(f"{value:.4g}") if math.isfinite(value) else str(value)


def _rows(table: Mapping[str, np.ndarray]) -> int:
    return max((len(values) for values in table.values()), default=0)


def quality_metadata(rows: Sequence[QualityRow]) -> Metadata:
    """One number a model and metric: what the Plots tab draws over ε."""
    return {f"{row.model}/{row.metric}": number(row.value) for row in rows}


def number(value: float) -> dg.MetadataValue:
    """Four significant digits; text where there is no number."""
    if not math.isfinite(value):
        return dg.MetadataValue.text("not a number")
    return dg.MetadataValue.float(float(f"{value:.4g}"))


def budget_metadata(amounts: Mapping[str, Fraction | None], currency: Currency) -> Metadata:
    """Amounts of an account, exactly, as text; ``none`` where there is no ceiling."""
    return {
        f"privacy/{name}": dg.MetadataValue.text("none" if one is None else currency.text(one))
        for name, one in amounts.items()
    }


def picture(png: bytes) -> dg.MetadataValue:
    """A small PNG, opened by a click in the UI."""
    return dg.MetadataValue.md(f"![](data:image/png;base64,{base64.b64encode(png).decode()})")


def charge_table(ledger: Ledger, lineage: str) -> dg.MetadataValue:
    """One row a charge of a lineage, oldest first, with the sum so far."""
    records, total, symbol = [], 0, ledger.balance(lineage).currency.symbol
    for entry in ledger.entries(lineage):
        if entry.event == "reserve":
            total += entry.nano_epsilon
            records.append(
                dg.TableRecord(
                    {
                        "time": entry.time[:19],
                        "release": entry.what,
                        "kind": entry.kind or "",
                        symbol: _charged(entry),
                        "sum": epsilon_text(Fraction(total, NANO)),
                    }
                )
            )
    names = ("time", "release", "kind", symbol, "sum")
    return dg.MetadataValue.table(
        records, schema=dg.TableSchema([dg.TableColumn(name) for name in names])
    )


def _charged(entry: Entry) -> str:
    return epsilon_text(Fraction(entry.nano_epsilon, NANO)) if entry.kind == "dp" else "none"
