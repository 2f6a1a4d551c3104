"""Export: what a reader may see of a ledger.

Left out are fingerprints, keys and hashes, sources, run ids, who did it, and
times: of a release only the day it was asked for stays, because from asking to
settling is as long as the rows took.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction

from dp_pipeline.ledger.audit import Audit
from dp_pipeline.ledger.entry import Entry
from dp_pipeline.ledger.state import CHARGING
from dp_pipeline.schema.epsilon import NANO, epsilon_text

COLUMNS = (
    "date",
    "event",
    "lineage",
    "release",
    "kind",
    "dataset",
    "model",
    "parameters",
    "epsilon",
    "evaluation",
    "snapshot",
    "replicate",
    "charged",
    "currency",
    "delta",
    "total",
    "state",
    "ceiling",
    "per_month",
    "unit",
    "relation",
    "purpose",
    "reason",
)
"""Of every line, as text; empty where an event has none."""

Line = dict[str, str]

_EVENTS = {
    "account": "opened",
    "raise": "raised",
    "reserve": "release",
    "retired": "retired",
    "quarantined": "quarantined",
    "restated": "restated",
}
_FACTS = {
    "model": ("model", "method"),
    "parameters": ("measuring", "parameters"),
    "snapshot": ("snapshot", "snapshots"),
    "reason": ("reason", "distinct_population"),
}
"""Column → the facts that it is told by, where that is not the fact of its own name."""


def exported(entries: Iterable[Entry]) -> list[tuple[Line, list[Line]]]:
    """Every line that may be shown, oldest first, each with its spends.

    Accounts opened and raised, releases with what they charged and the sum of their lineage so
    far, rows deleted, the reasons why persons of a shared source are others, and what was done
    about rows that the ledger did not write.
    """
    rows = list(entries)
    ends = {one.key: one for one in rows if one.event in ("settled", "dead")}
    totals: Counter[str] = Counter()
    accounts = Audit()
    lines = []
    for entry in rows:
        accounts.take(entry)
        totals[entry.lineage] += entry.nano_epsilon
        if entry.event in _EVENTS or "distinct_population" in entry.facts:
            end = ends.get(entry.key) if entry.event == "reserve" else None
            line = {**_line(entry), **_amounts(entry, accounts, totals[entry.lineage])}
            if entry.event == "reserve":
                line["state"] = end.event if end else "unfinished"
            lines.append((line, _spends(end)))
    return lines


def _line(entry: Entry) -> Line:
    facts: Mapping[str, str] = entry.facts
    told = {
        name: next((facts[one] for one in _FACTS.get(name, (name,)) if one in facts), "")
        for name in COLUMNS
    }
    return {
        **told,
        "date": entry.time[:10],
        "event": _EVENTS.get(entry.event, "distinct population"),
        "lineage": entry.lineage,
        "release": entry.what,
        "kind": entry.kind or "",
    }


def _amounts(entry: Entry, accounts: Audit, total: int) -> Line:
    if not entry.lineage:
        return {}  # About the ledger itself.
    currency = accounts.account(entry.lineage).currency
    charged = _text(entry.nano_epsilon) if entry.event in CHARGING else ""
    return {"charged": charged, "total": _text(total), "currency": currency.name}


def _text(nano: int) -> str:
    return epsilon_text(Fraction(nano, NANO))


def _spends(end: Entry | None) -> list[Line]:
    return [
        {
            "what": spend.what,
            "mechanism": spend.mechanism,
            "amount": str(spend.epsilon),
            "scale": str(spend.scale),
        }
        for spend in (end.spends if end else ())
    ]
