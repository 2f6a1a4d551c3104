"""Dagster's own storage: run history and event log, apart from the ledger."""

from __future__ import annotations

import os

import dagster as dg
from sqlalchemy import create_engine, make_url
from sqlalchemy.exc import DBAPIError

from dp_pipeline.ledger.home import Home
from dp_pipeline.ledger.postgres_url import place
from dp_pipeline.orchestration.dagster_home import STORAGE_VARIABLE, alone_in, make_dagster_home
from dp_pipeline.schema.errors import PipelineError


def dagster_instance(home: Home) -> dg.DagsterInstance:
    """The persistent instance of this project; ``DAGSTER_HOME`` where it is set, else made.

    Raises PipelineError where no such folder can be, or its server does not answer.
    """
    folder = make_dagster_home(home)
    _require_answer()
    # Several that find no tables make them all at once, and fail over what another has begun.
    with alone_in(folder):
        return dg.DagsterInstance.get()


def _require_answer() -> None:
    """Dagster would try six times, and then say so in a hundred lines."""
    named = os.environ.get(STORAGE_VARIABLE)
    if not named:
        return
    engine = create_engine(named, connect_args={"connect_timeout": 10})
    try:
        engine.connect().close()
    except DBAPIError as error:
        reason = " ".join(str(error.orig).split())
        raise PipelineError(f"{STORAGE_VARIABLE}: {place(make_url(named))}: {reason}") from None
    finally:
        engine.dispose()
