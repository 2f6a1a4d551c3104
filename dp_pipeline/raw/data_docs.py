"""Data docs: Great Expectations' own suites and pages of a snapshot, for the data custodian.

They show only whether each expectation is fulfilled, which for sensitive rows is secret too. So
they are in the snapshot's folder, which only its owner can enter, and are deleted with its rows.
"""

import json
import shutil
from pathlib import Path

import pandas as pd
import pyarrow as pa

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.files import temporary_folder
from dp_pipeline.raw.expectations import Expectation, expectations_of
from dp_pipeline.raw.great_expectations_session import (
    VERDICTS_ONLY,
    add_frame_source,
    evaluate,
    library_context,
    library_suite,
    load_library,
)
from dp_pipeline.raw.ingest import ingested_tables
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.raw.validation_frames import row_frame, schema_frame

FOLDER = "great_expectations"
INDEX = Path("data_docs", "index.html")  # The first page, as a path in the folder
_NO_FOREIGN_CONTENT = (
    b'<meta http-equiv="Content-Security-Policy" '
    b"content=\"default-src 'unsafe-inline' file: data:\">"
)
"""Keeps the library's pages from requesting styles and scripts of other servers."""

_HIDDEN = b"<style>footer, .navbar-brand { display: none; }</style>"
"""Hides a footer that covers the last line, and a logo that is not fetched."""

Suite = tuple[str, tuple[Expectation, ...], pd.DataFrame]
"""Name of a suite, its expectations, and the frame that they are tested on."""


def write_data_docs(spec: DatasetSpec, snapshot: Snapshot) -> Path:
    """Write a snapshot's expectation suites as JSON with HTML pages, and return their folder.

    They replace earlier ones. Rows are read only if the stored schema is as declared. The manifest
    is not changed, since this is no validation. NotPrepared without rows, Damaged if they are not
    as they were stored.
    """
    with snapshot.locked():
        expectations = expectations_of(spec)
        structural = tuple(e for e in expectations if e.structural)
        schema = schema_frame(spec, snapshot)
        suites: list[Suite] = [(f"{spec.name}_schema", structural, schema)]
        if all(evaluate(spec, structural, schema).values()):
            row_dependent = tuple(e for e in expectations if not e.structural)
            # The library's pages need all rows in one frame.
            tables = map(_with_dictionaries, ingested_tables(spec, snapshot))
            frame = row_frame(spec, pa.concat_tables(tables))
            suites.append((f"{spec.name}_rows", row_dependent, frame))
        folder = snapshot.folder / FOLDER
        with temporary_folder(folder) as scratch:
            _validate_and_write(suites, scratch)
            _make_private(scratch)
            if folder.exists():
                shutil.rmtree(folder)
            scratch.rename(folder)
    return folder


def _with_dictionaries(table: pa.Table) -> pa.Table:
    for index, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            column = table.column(index).dictionary_encode()
            table = table.set_column(index, field.name, column)
    return table


def _validate_and_write(suites: list[Suite], folder: Path) -> None:
    context = library_context()
    site = {
        "class_name": "SiteBuilder",
        "show_how_to_buttons": False,
        "store_backend": {
            "class_name": "TupleFilesystemStoreBackend",
            "base_directory": str(folder / "data_docs"),
        },
        "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
    }
    context.add_data_docs_site("custodian", site)
    for name, expectations, frame in suites:
        suite = context.suites.add(library_suite(name, expectations))
        text = json.dumps(suite.to_json_dict(), indent=1, ensure_ascii=False)
        (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        definition = add_frame_source(context, name)
        validation = load_library().ValidationDefinition(name=name, data=definition, suite=suite)
        context.validation_definitions.add(validation).run(
            batch_parameters={"dataframe": frame}, result_format=VERDICTS_ONLY
        )
    context.build_data_docs(site_names=["custodian"])


def _make_private(folder: Path) -> None:
    """Restrict the files below a folder to their owner, and HTML pages to requests of files."""
    for path in folder.rglob("*"):
        if path.suffix == ".html":
            text = path.read_bytes().replace(b"<html>", b'<html lang="en">', 1)
            head = b"<head>" + _NO_FOREIGN_CONTENT + _HIDDEN
            path.write_bytes(text.replace(b"<head>", head, 1))
        path.chmod(0o700 if path.is_dir() else 0o600)
