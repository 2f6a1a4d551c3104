"""Dagster's run history: whether it can be read. Imports no Dagster, and makes nothing."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import create_engine
from sqlalchemy.exc import SQLAlchemyError

from dp_pipeline.cli.doctor.finding import Finding
from dp_pipeline.ledger.home import Home
from dp_pipeline.ledger.postgres_url import place, postgres_url
from dp_pipeline.orchestration.dagster_home import STORAGE_VARIABLE, dagster_folder

TOPIC = "dagster"
_SECONDS = 5


def run_history(home: Home) -> Iterator[Finding]:
    """One line; with what to do where the history is damaged. No budget is in it."""
    named = os.environ.get(STORAGE_VARIABLE)
    if named:
        yield _on_server(named)
        return
    folder = dagster_folder(home)
    databases = sorted([*folder.glob("*.db"), *folder.glob("*/*.db"), *folder.glob("*/runs/*.db")])
    broken = [path for path in databases if not _is_whole(path)]
    for path in broken:
        yield Finding(
            TOPIC,
            "fault",
            f"{path}: expected Dagster's history, got what is no whole database",
            f"move {folder} away: a new one is made, and no budget is lost with it",
        )
    if not broken:
        many = f"{len(databases)} databases can be read" if databases else "no history yet"
        yield Finding(TOPIC, "ok", f"{folder}: {many}")


def _is_whole(path: Path) -> bool:
    try:
        # mode=rw makes no file; a reader of mode=ro would leave its own two behind.
        connection = sqlite3.connect(
            f"file:{quote(str(path.absolute()))}?mode=rw", uri=True, timeout=_SECONDS
        )
    except sqlite3.Error:
        return False
    try:
        return bool(connection.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok")
    except sqlite3.Error:
        return False
    finally:
        connection.close()


def _on_server(named: str) -> Finding:
    url = postgres_url(named, of=STORAGE_VARIABLE)
    engine = create_engine(url, connect_args={"connect_timeout": _SECONDS})
    try:
        engine.connect().close()
    except SQLAlchemyError:
        return Finding(TOPIC, "fault", f"{place(url)}: expected the run history, got no answer")
    finally:
        engine.dispose()
    return Finding(TOPIC, "ok", f"{place(url)} answers")
