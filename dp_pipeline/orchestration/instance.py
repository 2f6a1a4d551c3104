"""Dagster's own storage: run history and event log, apart from the ledger.

DAGSTER_HOME: Dagster's settings, and where its run history is. Imports no Dagster.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import dagster as dg
import yaml
from sqlalchemy import create_engine, make_url
from sqlalchemy.exc import DBAPIError

from dp_pipeline.config.errors import (
    DeclarationError,
    PipelineError,
    bounded_bytes,
    follow_links,
    system_line,
)
from dp_pipeline.files import close_folders, locked, make_private
from dp_pipeline.ledger.postgres import place, postgres_url
from dp_pipeline.releases.home import Home, find_workspace

STORAGE_VARIABLE = "DP_PIPELINE_DAGSTER"
_FOLDER_VARIABLE = "DAGSTER_HOME"
_MOST_BYTES = 1 << 20
"""Of Dagster's settings."""
_QUIET = "telemetry:\n  enabled: false\nnux:\n  enabled: false\n"
# The variable's name and not its value: no password stands in a file.
_ON_SERVER = f"storage:\n  postgres:\n    postgres_url:\n      env: {STORAGE_VARIABLE}\n"


def keep_files_private() -> None:
    """Whatever this process, or one that it starts, writes from now on is for its owner only.

    Dagster, Great Expectations and engines for files choose no mode for what they write.
    """
    os.umask(0o077)


def code_location() -> list[str]:
    """What Dagster's programs are told to load: the project's workspace, or the package alone."""
    workspace = find_workspace()
    if workspace is not None:
        return ["--workspace", str(workspace)]
    return ["--module-name", "dp_pipeline.definitions", "--working-directory", str(Path.cwd())]


def dagster_folder(home: Home) -> Path:
    """Where Dagster's settings and its run history are, or will be."""
    # Dagster itself wants an absolute path.
    return follow_links(os.environ.get(_FOLDER_VARIABLE) or home.root.parent / ".dagster_home")


def make_dagster_home(home: Home) -> Path:
    """The folder that ``$DAGSTER_HOME`` names, or ``.dagster_home`` beside the home, with its
    settings: the project's own where it declares some. This process's environment then says so,
    and whatever it writes from then on is for its owner only.

    Raises PipelineError where no such folder can be, DeclarationError where its settings keep
    the history elsewhere than ``$DP_PIPELINE_DAGSTER`` says.
    """
    keep_files_private()
    folder = dagster_folder(home)
    os.environ[_FOLDER_VARIABLE] = str(folder)
    server = _server()
    settings = folder / "dagster.yaml"
    try:
        make_private(folder)
        ours = follow_links(home.root.parent / ".dagster_home")
        close_folders(*home.folders, *([ours] if folder == ours else []))
        # Nobody reads what another has half written.
        with locked(folder / ".lock"):
            if not settings.exists():
                settings.write_text(_settings(home, on_server=server is not None), encoding="utf-8")
            declared = bounded_bytes(settings, most=_MOST_BYTES).decode()
    except OSError as error:
        raise PipelineError(f"{_FOLDER_VARIABLE}: {system_line(error, folder)}") from None
    except UnicodeDecodeError:
        raise _no_settings(settings) from None
    _require_agreement(declared, server, of=settings)
    return folder


def _server() -> str | None:
    """Where the run history is kept, without a password; None: in the folder."""
    named = os.environ.get(STORAGE_VARIABLE)
    if not named:
        return None
    url = postgres_url(named, of=STORAGE_VARIABLE)
    if find_spec("dagster_postgres") is None:
        raise PipelineError(
            f"{STORAGE_VARIABLE}: expected dagster-postgres, got none: "
            "`pip install 'dp-pipeline[postgresql]'`"
        )
    # Dagster hands it on as it is.
    os.environ[STORAGE_VARIABLE] = url.render_as_string(hide_password=False)
    return place(url)


def _settings(home: Home, *, on_server: bool) -> str:
    declared = home.root.parent / "dagster.yaml"
    settings = declared.read_text(encoding="utf-8") if declared.is_file() else _QUIET
    if not on_server or "storage" in _parsed(settings, of=declared):
        return settings
    return f"{settings.rstrip()}\n{_ON_SERVER}"


def _require_agreement(settings: str, server: str | None, *, of: Path) -> None:
    storage = _parsed(settings, of=of).get("storage")
    on_server = STORAGE_VARIABLE in str(storage)
    if server is not None and not on_server:
        named = storage if isinstance(storage, dict) else ["files in its folder"]
        raise DeclarationError(
            f"{STORAGE_VARIABLE}: names {server}, but {of} keeps the run history elsewhere: "
            f"expected its storage to be that variable, got {' and '.join(map(str, named))}"
        )
    if server is None and on_server:
        raise DeclarationError(
            f"{STORAGE_VARIABLE}: expected an address, as {of} keeps the run history there, "
            "got none"
        )


def _parsed(settings: str, *, of: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load(settings)
    except (yaml.YAMLError, RecursionError):
        raise _no_settings(of) from None
    # Dagster itself asks for an empty file, where none of its settings is to be another one.
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise _no_settings(of)
    return found


def _no_settings(of: Path) -> DeclarationError:
    return DeclarationError(f"{of}: expected Dagster's settings in YAML, got something else")


def dagster_instance(home: Home) -> dg.DagsterInstance:
    """The persistent instance of this project; ``DAGSTER_HOME`` where it is set, else made.

    Raises PipelineError where no such folder can be, or its server does not answer.
    """
    folder = make_dagster_home(home)
    _require_answer()
    # Several that find no tables make them all at once, and fail over what another has begun.
    with locked(folder / ".lock"):
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
