"""The ledger: whether it is whole, and whether its head outside is in step and on another disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dp_pipeline.cli.doctor.finding import Finding
from dp_pipeline.ledger.head import Head
from dp_pipeline.ledger.home import HEAD_VARIABLE, Home

TOPIC = "ledger"


def ledger_and_head(home: Home) -> Iterator[Finding]:
    """The newest row, verified, and the external checkpoint."""
    ledger = home.ledger
    head = Head.of(home.ledger_folder, named=home.head)
    stored = head.read()
    tip = ledger.verify()
    if stored is None and not tip.sequence:
        yield Finding(TOPIC, "ok", "no ledger yet: nothing was ever charged here")
        return
    where = "rows on a server, format" if home.database is not None else "format"
    yield Finding(
        TOPIC,
        "ok",
        f"{where} {ledger.format()}; {tip.sequence} rows verified, newest {tip.hash[:16]}",
    )
    if stored is None:
        return
    behind = tip.sequence - stored.sequence
    step = "in step" if not behind else f"{behind} rows behind, which the next charge mends"
    yield Finding(TOPIC, "ok" if not behind else "note", f"head {head.path}: {step}")
    yield from _disk(home, head.path)


def _disk(home: Home, head: Path) -> Iterator[Finding]:
    if head.stat().st_dev != home.ledger_folder.stat().st_dev:
        return
    where = "beside the keys" if home.database is not None else "on the disk of the ledger"
    yield Finding(
        TOPIC,
        "note",
        f"head {head} is {where}: who puts back an older copy of that disk is not noticed",
        f"name a file on another disk in {HEAD_VARIABLE}, and move the head there",
    )
