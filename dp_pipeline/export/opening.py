"""Opening of an exported table or clustering, to compute numbers from it without a home."""

from collections.abc import Mapping
from pathlib import Path

from dp_pipeline.answers.boxes import OpenClusters, open_clusters
from dp_pipeline.answers.tables import OpenTable
from dp_pipeline.answers.units import OpenUnits, open_tables
from dp_pipeline.config.clock import Clock
from dp_pipeline.config.errors import Damaged, DeclarationError
from dp_pipeline.config.system_errors import system_line, to_path
from dp_pipeline.export.folder import read_descriptor
from dp_pipeline.export.tables import read_resource
from dp_pipeline.results.clusters import Columns
from dp_pipeline.results.synthetic_table import noisy_table_names


def open_release(folder: str | Path) -> OpenTable | OpenUnits | OpenClusters:
    """Return an exported clustering or synthetic table, of rows or units, for computing numbers.

    folder   that ``dp-pipeline export`` wrote, in any of its formats

    OpenClusters if the export has centres; else OpenUnits for units with parts, OpenTable for rows.
    Damaged for a folder that is no export, or a changed one; DeclarationError for an export with
    neither centres nor a synthetic table with noisy counts, and for a value that is no path.
    """
    root = to_path(folder, of="folder")
    resources = read_descriptor(root)["resources"]
    tables = {file["name"]: _read(root, file) for file in resources if "schema" in file}
    needed = ("synthetic", "codes", *noisy_table_names(tables))
    missing = [name for name in needed if name not in tables]
    if missing and "centres" not in tables:
        raise DeclarationError(
            f"{root}: the folder must hold the export of a synthetic table with its noisy "
            f"counts, but it has no {missing[0]}, so no number of it has an interval: export "
            "a table of another model"
        )
    try:
        if "centres" in tables:
            return open_clusters(tables)
        clocks = {
            column: _clock(field)
            for file in resources
            if file["name"] in ("synthetic", "units")
            for column, field in zip(tables[file["name"]], file["schema"]["fields"], strict=True)
            if "format" in field
        }
        return open_tables(tables, clocks)
    except (LookupError, ValueError, TypeError):
        raise Damaged(
            f"{root} must hold tables of one release, but these do not belong together: fetch the "
            "export again"
        ) from None


def _clock(field: Mapping[str, str]) -> Clock:
    return Clock("date" if field["type"] == "date" else "timestamp", format=field["format"])


def _read(root: Path, resource: Mapping[str, object]) -> Columns:
    try:
        return read_resource(root, resource)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        path, fault = root / str(resource.get("path")), "is not a table as it was exported"
        if isinstance(error, FileNotFoundError):
            fault = "is missing"
        elif isinstance(error, OSError):
            raise Damaged(system_line(error, path)) from None
        raise Damaged(f"{path} {fault}: fetch the export again") from None
