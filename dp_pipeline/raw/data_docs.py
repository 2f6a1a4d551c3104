"""Great Expectations' own suite and pages of a snapshot, for the steward, beside its rows.

What they say of rows is no more than whether each expectation is fulfilled; of sensitive rows even
that is the steward's alone. So they are written into the snapshot's folder, which only its owner
can enter, and are deleted with its rows.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from dp_pipeline.raw.expectations import expectations_of
from dp_pipeline.raw.great_expectations_session import Part, passed, write_pages
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.raw.validation_frames import row_frame, schema_frame
from dp_pipeline.release.durable import temporary_folder
from dp_pipeline.schema.spec import DatasetSpec

FOLDER = "great_expectations"
INDEX = Path("data_docs", "index.html")
"""The page to begin with, inside of the folder."""

_NOTHING_FROM_ELSEWHERE = (
    b'<meta http-equiv="Content-Security-Policy" '
    b"content=\"default-src 'unsafe-inline' file: data:\">"
)
"""The library's pages ask other people's servers for their styles and scripts."""


def write_data_docs(spec: DatasetSpec, snapshot: Snapshot) -> Path:
    """Write the suites as JSON and the pages, in place of those of before; their folder.

    Rows are looked at only where the stored schema is as declared. Nothing is noted in the
    manifest: this validates nothing. NotPrepared where there are no rows, Damaged where they are
    not as they were stored.
    """
    with snapshot.alone():
        parts = _parts(spec, snapshot)
        folder = snapshot.folder / FOLDER
        with temporary_folder(folder) as made:
            write_pages(spec, parts, made)
            _make_private(made)
            if folder.exists():
                shutil.rmtree(folder)
            made.rename(folder)
    return folder


def _parts(spec: DatasetSpec, snapshot: Snapshot) -> list[Part]:
    declared = expectations_of(spec)
    structural = tuple(one for one in declared if one.structural)
    schema = schema_frame(spec, snapshot)
    parts: list[Part] = [(f"{spec.name}_schema", structural, schema)]
    if all(passed(spec, structural, schema).values()):
        rows = tuple(one for one in declared if not one.structural)
        parts.append((f"{spec.name}_rows", rows, row_frame(spec, snapshot)))
    return parts


def _make_private(folder: Path) -> None:
    """Nobody else may enter or read, and no page asks another server for anything."""
    for path in folder.rglob("*"):
        if path.suffix == ".html":
            text = path.read_bytes()
            path.write_bytes(text.replace(b"<head>", b"<head>" + _NOTHING_FROM_ELSEWHERE, 1))
        path.chmod(0o700 if path.is_dir() else 0o600)
