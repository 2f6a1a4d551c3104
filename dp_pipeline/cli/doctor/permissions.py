"""Who may read what is private: the owner alone, or it is named."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

from dp_pipeline.cli.doctor.finding import Finding
from dp_pipeline.ledger.head import Head
from dp_pipeline.ledger.home import Home
from dp_pipeline.orchestration.dagster_home import dagster_folder

TOPIC = "permissions"


def private_places(home: Home) -> Iterator[Finding]:
    """One line a folder or file that others may enter or read, with the command that mends it."""
    places = [path for path in _places(home) if path.exists()]
    open_places = [path for path in places if _is_open(path)]
    for path in open_places:
        yield Finding(
            TOPIC,
            "fault",
            f"{path}: expected for its owner alone, got {stat.filemode(path.stat().st_mode)}",
            f"chmod go-rwx {shlex.quote(str(path))}",
        )
    for path in places:
        if path.stat().st_uid != os.geteuid():
            owner = f"user {path.stat().st_uid}"
            yield Finding(TOPIC, "fault", f"{path}: expected to be yours, got one of {owner}")
    if not open_places:
        yield Finding(TOPIC, "ok", f"{len(places)} private folders and files are their owner's")


def _places(home: Home) -> Iterator[Path]:
    ledger = home.ledger_folder
    yield from (home.root, ledger, ledger / "keys", home.raw, dagster_folder(home))
    yield Head.of(ledger, named=home.head).path
    yield from sorted(ledger.glob("ledger.sqlite*"))
    yield from sorted((ledger / "keys").glob("*"))
    # What lies deeper is reached through these alone.
    yield from sorted(path for path in home.raw.glob("*") if path.is_dir())


def _is_open(path: Path) -> bool:
    return bool(stat.S_IMODE(path.stat().st_mode) & (stat.S_IRWXG | stat.S_IRWXO))
