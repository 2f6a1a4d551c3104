"""Dagster's own storage: its settings and its run history, apart from the ledger."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import dagster as dg
import yaml
from sqlalchemy import create_engine, make_url
from sqlalchemy.exc import DBAPIError

from dp_pipeline.config.errors import DeclarationError, PipelineError
from dp_pipeline.config.system_errors import bounded_bytes, follow_links, system_line
from dp_pipeline.config.yaml_text import mistake_line
from dp_pipeline.files import close_folders, locked, make_private
from dp_pipeline.ledger.postgres import address_label, parse_postgres_url
from dp_pipeline.releases.home import Home, find_workspace

STORAGE_VARIABLE = "DP_PIPELINE_DAGSTER"
_FOLDER_VARIABLE = "DAGSTER_HOME"
_MAX_SETTINGS_BYTES = 1 << 20
_QUIET_SETTINGS = "telemetry:\n  enabled: false\nnux:\n  enabled: false\n"
# The variable's name and not its value: no password stands in a file.
_SERVER_STORAGE = f"storage:\n  postgres:\n    postgres_url:\n      env: {STORAGE_VARIABLE}\n"


def keep_files_private() -> None:
    """Bar other users from all files that this process and its children create from now on.

    Dagster, Great Expectations and engines for files choose no mode for what they write.
    """
    os.umask(0o077)


def code_location() -> list[str]:
    """Return the arguments that load the project's workspace, or else the package, in Dagster."""
    workspace = find_workspace()
    if workspace is not None:
        return ["--workspace", str(workspace)]
    return ["--module-name", "dp_pipeline.definitions", "--working-directory", str(Path.cwd())]


def dagster_folder(home: Home) -> Path:
    """Return the absolute path of Dagster's settings and run history, whether or not it exists."""
    return follow_links(os.environ.get(_FOLDER_VARIABLE) or home.root.parent / ".dagster_home")


def make_dagster_home(home: Home) -> Path:
    """Create the folder of Dagster's settings; return its path.

    It is the folder that ``$DAGSTER_HOME`` names, or ``.dagster_home`` next to the home, with the
    ``dagster.yaml`` of the project if there is one.

    The variable is set for this process, whose files are private from then on. Raises PipelineError
    where the folder cannot be created, DeclarationError where its settings keep the run history in
    another place than ``$DP_PIPELINE_DAGSTER``.
    """
    keep_files_private()
    folder = dagster_folder(home)
    os.environ[_FOLDER_VARIABLE] = str(folder)
    server = _set_storage_server()
    file = folder / "dagster.yaml"
    try:
        close_folders(*home.folders)
    except OSError as error:
        raise PipelineError(system_line(error)) from None
    try:
        make_private(folder)
        if folder == follow_links(home.root.parent / ".dagster_home"):
            close_folders(folder)
        # No process may read a file that another one is still writing.
        with locked(folder / ".lock"):
            if not file.exists():
                text = _new_settings(home, on_server=server is not None)
                file.write_text(text, encoding="utf-8")
            settings = _settings(file)
    except OSError as error:
        raise PipelineError(f"{_FOLDER_VARIABLE}: {system_line(error, folder)}") from None
    _require_agreement(settings, server, file)
    return folder


def _set_storage_server() -> str | None:
    """Replace the URL of the run history in its environment variable, which Dagster reads, by its
    full form.

    Return its server without its password; None if a folder holds the run history. Raise
    DeclarationError for an invalid URL, and PipelineError where dagster-postgres is not installed.
    """
    address = os.environ.get(STORAGE_VARIABLE)
    if not address:
        return None
    url = parse_postgres_url(address, of=STORAGE_VARIABLE)
    if find_spec("dagster_postgres") is None:
        raise PipelineError(
            f"The variable {STORAGE_VARIABLE} needs dagster-postgres, which is not installed: "
            "`pip install 'dp-pipeline[postgresql]'`"
        )
    # Dagster passes the variable on unchanged, so it must have the URL in its full form.
    os.environ[STORAGE_VARIABLE] = url.render_as_string(hide_password=False)
    return address_label(url)


def _new_settings(home: Home, *, on_server: bool) -> str:
    declared = home.root.parent / "dagster.yaml"
    text, has_storage = _QUIET_SETTINGS, False
    if declared.is_file():
        has_storage = "storage" in _settings(declared)
        text = declared.read_text(encoding="utf-8")
    if has_storage or not on_server:
        return text
    return f"{text.rstrip()}\n{_SERVER_STORAGE}"


def _settings(file: Path) -> dict[str, Any]:
    # All YAML that Dagster reads, unlike data set files: with aliases, merged fields and types.
    text = ""
    try:
        text = bounded_bytes(file, max_bytes=_MAX_SETTINGS_BYTES).decode()
        # Dagster itself takes an empty file for its default settings.
        settings = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        fault = f"line {mistake_line(error, text)} is not valid YAML"
    except UnicodeDecodeError:
        fault = "it is not UTF-8 text"
    except (ValueError, LookupError, AttributeError, ArithmeticError):
        fault = "one of its values, such as a date, is not valid"
    except RecursionError:
        fault = "its lists and mappings are nested too deeply"
    else:
        if isinstance(settings, dict):
            return settings
        fault = "it is not a mapping of fields, `name: value`"
    raise DeclarationError(f"{file} must hold Dagster's settings in YAML, but {fault}: correct it")


def _require_agreement(settings: dict[str, Any], server: str | None, file: Path) -> None:
    storage = settings.get("storage")
    on_server = STORAGE_VARIABLE in str(storage)
    if server is not None and not on_server:
        names = storage if isinstance(storage, dict) else ["files in its folder"]
        raise DeclarationError(
            f"The variable {STORAGE_VARIABLE} names {server}, but {file} keeps the run "
            f"history in {' and '.join(map(str, names))}: write `storage: {{postgres: "
            f"{{postgres_url: {{env: {STORAGE_VARIABLE}}}}}}}` there, or unset the variable"
        )
    if server is None and on_server:
        raise DeclarationError(
            f"The variable {STORAGE_VARIABLE} must hold an address, as {file} keeps the run "
            f"history there, but it is not set: `export {STORAGE_VARIABLE}=postgresql://…`"
        )


def dagster_instance(home: Home) -> dg.DagsterInstance:
    """Return the persistent Dagster instance of this project, creating its folder if needed.

    Raises PipelineError where the folder cannot be created or the server does not answer."""
    folder = make_dagster_home(home)
    if address := os.environ.get(STORAGE_VARIABLE):
        # Where the server does not answer, Dagster would try six times and print a hundred lines.
        engine = create_engine(address, connect_args={"connect_timeout": 10})
        try:
            engine.connect().close()
        except DBAPIError as error:
            reason = " ".join(str(error.orig).split())
            raise PipelineError(
                f"{STORAGE_VARIABLE}: the server {address_label(make_url(address))} must answer, "
                f"but it does not ({reason}): start it, or correct the variable"
            ) from None
        finally:
            engine.dispose()
    # Without the lock several processes would create the same tables at once, and fail.
    with locked(folder / ".lock"):
        return dg.DagsterInstance.get()
