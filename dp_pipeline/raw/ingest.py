"""Ingestion: reads a source once, into a snapshot that never changes again."""

import hmac
import json
import platform
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dp_pipeline
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import Damaged, DeclarationError, NotPrepared
from dp_pipeline.config.source import sha256_name
from dp_pipeline.config.windows import now
from dp_pipeline.files import sweep, temporary_folder
from dp_pipeline.raw.download import LocatedSource, delete_downloads, located_source
from dp_pipeline.raw.fingerprints import fingerprints_of
from dp_pipeline.raw.snapshot import (
    Snapshot,
    check_snapshot_id,
    current_snapshot,
    lock_dataset,
    make_current,
    snapshot_name,
)
from dp_pipeline.raw.sources import source_tables, stored_types
from dp_pipeline.raw.sources.parquet import parquet_batches, parquet_parts, parquet_tables
from dp_pipeline.raw.stages import BatchReader, file_mark, stage_batches, store_parts
from dp_pipeline.raw.units import join_batches
from dp_pipeline.raw.values import have_time, in_window

INGESTED = "ingested"  # The stage of the rows as the source has them
IN_PLACE = "in_place"  # Key of the manifest for the files of a snapshot without a copy of its rows
Claim = Callable[..., object]
"""Records the canonical names of a source before it is read; DeclarationError if it may not be."""
DOWNLOADS = ".downloads"  # Folder for downloads of benchmarks, beside those of data sets


def ingest(
    spec: DatasetSpec,
    store: Path,
    *,
    key: bytes,
    snapshot_id: str | None,
    today: date,
    claim: Claim | None = None,
) -> Snapshot:
    """Return the snapshot that releases read from now on; read it from the source if it is new.

    store         the raw store's folder; the snapshot is ``store/<data set>/<id>``
    key           the population's secret key
    snapshot_id   None: the current snapshot, or before the first one a new one named by ``today``
                  or its window. A name: that snapshot becomes the current one; in a window its name
                  begins with that of the window.
    claim         called with the names of every file and download, before rows are read and again
                  after, since the ends of links and the hashes of downloads are known only here;
                  of a stored snapshot, called once with its stored names; None without a ledger

    The id comes from the calendar or from a person and no content is compared, so it reveals
    nothing of the rows. A completely stored snapshot is never read again. An incomplete one was
    never current and is read again; a failed read leaves no new snapshot.

    Nothing else opens the network or, except for drafts of declarations, a database.

    It raises what ``claim`` raises; DeclarationError for an unsafe id, or if the stored snapshot is
    of another population or source, or lacks a declared column; NotPrepared for a window
    that is not closed; Damaged if a named snapshot is not as it was stored, or the current one has
    no readable manifest; SourceError if the source cannot be read.
    """
    spec.require_window()
    claim = claim or (lambda *_: None)
    name = None if snapshot_id is None else check_snapshot_id(snapshot_id)
    with lock_dataset(store / spec.name):
        sweep(store / spec.name, below=True)
        if spec.is_release:
            delete_downloads(store / spec.name)
        elif (store / DOWNLOADS).is_dir():
            sweep(store / DOWNLOADS)
        current = current_snapshot(store, spec.name, key, spec.window)
        if name is None and current is not None:
            _require_covers(current, spec)
            claim(*current.claimed)
            return current
        snapshot = Snapshot(store / spec.name / snapshot_name(spec, name or "", today), key)
        # ``ingested_at`` is the last fact that ``_read_source`` writes.
        if snapshot.exists() and "ingested_at" in snapshot.manifest:
            _require_covers(snapshot, spec)
            claim(*snapshot.claimed)
            check_ingested(spec, snapshot)
        elif spec.window and spec.time_windows.closing_time(spec.window) > now():
            # Late rows could still arrive.
            raise NotPrepared(
                f"{spec.name}: the window {spec.window} is not yet closed and is read from "
                f"{spec.time_windows.closing_text(spec.window)} on: `dp-pipeline run {spec.name}` "
                "takes the newest closed one"
            )
        else:
            _read_source(snapshot, spec, claim)
        make_current(snapshot, spec.window)
        return snapshot


def _require_covers(snapshot: Snapshot, spec: DatasetSpec) -> None:
    """Raise DeclarationError unless the rows have this population, source and all columns."""
    stored = snapshot.manifest
    missing = [column for column in spec.columns if column not in stored.get("columns", ())]
    if stored.get("population", spec.population) != spec.population:
        # Its fingerprints are under that population's key: every stage would appear damaged.
        mismatch = f"its rows are those of population {stored['population']}, not {spec.population}"
    elif stored.get("source") not in [source.identity for source in spec.source.alternatives]:
        mismatch = f"its source is {stored.get('source')}, not {spec.source.identity}"
    elif missing:
        mismatch = f"it was read without the column {missing[0]!r}"
    else:
        return
    raise DeclarationError(
        f"{spec.name}: snapshot {snapshot.id}: {mismatch}; name a new snapshot: "
        f"{snapshot.new_snapshot_hint}"
    )


def _read_source(snapshot: Snapshot, spec: DatasetSpec, claim: Claim) -> None:
    folder = snapshot.folder if spec.is_release else snapshot.folder.parent.parent / DOWNLOADS
    with located_source(spec, folder, _earlier_downloads(snapshot)) as located:
        try:
            claim(*_source_names(located))
        except DeclarationError:
            # Rows of a population do not stay among the downloads of benchmarks.
            for path in located.files or ():
                path.unlink(missing_ok=True)
            raise
        spec, started = replace(spec, source=located.source), datetime.now(UTC)
        tables = (_rows_of_window(spec, table) for table in source_tables(spec, located.files))
        # First, so that a source that cannot be read leaves nothing.
        first = next(tables)
        with _deleted_on_failure(snapshot):
            # The population is on disk before the first row, wherever a run is stopped.
            snapshot.record(population=spec.population)
            if spec.source.in_place:
                snapshot.record(in_place=_file_fingerprints(snapshot, spec))
            else:
                rows: Iterator[pa.Table] = chain([first], tables)
                with temporary_folder(snapshot.folder / INGESTED) as scratch:
                    if spec.source.parts is not None:
                        rows = join_batches(spec, rows, snapshot.key, scratch)
                    store_parts(snapshot, INGESTED, rows, compression="zstd")
            # A link may have changed before it was read.
            names = _source_names(located)
            claim(*names)
            # Without a row count or value, since stages that log read the manifest.
            snapshot.record(
                dataset=spec.name,
                population=spec.population,
                source=spec.source.identity,
                columns=first.column_names,
                types=stored_types(spec, located.files),
                claimed=names,
                downloaded=dict(located.sha256),
                # Later rows of the source may be missing.
                read_at=started.isoformat(),
                ingested_at=datetime.now(UTC).isoformat(timespec="seconds"),
                versions={
                    "dp_pipeline": dp_pipeline.__version__,
                    "python": platform.python_version(),
                    "pyarrow": pa.__version__,
                    "numpy": np.__version__,
                },
            )


def _source_names(located: LocatedSource) -> tuple[str, ...]:
    hashes = map(sha256_name, located.sha256.values())
    return (*located.source.current_identities, *hashes)


def _earlier_downloads(snapshot: Snapshot) -> dict[str, str]:
    """Return URL → SHA-256 of its latest download into a snapshot of the data set."""
    manifests = []
    for folder in snapshot.folder.parent.iterdir():
        try:
            manifests.append(Snapshot(folder, snapshot.key).manifest)
        except (NotPrepared, Damaged):
            # No snapshot, or a retired one. UnknownFormat is raised: it may have another hash.
            continue
    # ``read_at`` has parts of a second, so the order is unique.
    manifests.sort(key=lambda manifest: str(manifest.get("read_at", "")))
    return {url: sha256 for m in manifests for url, sha256 in m.get("downloaded", {}).items()}


def _rows_of_window(spec: DatasetSpec, table: pa.Table) -> pa.Table:
    # A check counts the rows without a time, and preparation drops them.
    if spec.windows is None or not spec.window:
        return table
    is_kept = in_window(spec.windows, spec.window, table) | ~have_time(spec.windows, table)
    return table.filter(pa.array(is_kept))


@contextmanager
def _deleted_on_failure(snapshot: Snapshot) -> Iterator[None]:
    was_there = snapshot.exists()
    try:
        yield
    except Exception:
        if not was_there:
            shutil.rmtree(snapshot.folder, ignore_errors=True)
        raise


def _file_fingerprints(snapshot: Snapshot, spec: DatasetSpec) -> Mapping[str, str]:
    source = Path(spec.source.location)
    paths = [source] if source.is_file() else parquet_parts(source)
    fingerprints = fingerprints_of(paths, snapshot.secret)
    names = [str(path.relative_to(source)) for path in paths]
    return dict(zip(names, fingerprints, strict=True))


def check_ingested(spec: DatasetSpec, snapshot: Snapshot) -> str:
    """Check the ingested rows; return their fingerprints as text. Damaged if they have changed."""
    if IN_PLACE not in snapshot.manifest:
        snapshot.checked_path(INGESTED)
        return snapshot.fingerprint(INGESTED)
    _files_in_place(spec, snapshot)
    return json.dumps(snapshot.manifest[IN_PLACE], sort_keys=True)


def ingested_schema(spec: DatasetSpec, snapshot: Snapshot) -> pa.Schema:
    """Return the schema of the ingested rows; Damaged if their files have changed."""
    if IN_PLACE not in snapshot.manifest:
        return pq.read_schema(snapshot.checked_path(INGESTED))
    # The first table has no row.
    return next(parquet_tables(spec, _files_in_place(spec, snapshot))).schema


@contextmanager
def ingested_batch_readers(spec: DatasetSpec, snapshot: Snapshot) -> Iterator[list[BatchReader]]:
    """Yield functions that each read one batch of the ingested rows, for use inside the block.

    They read the snapshot's copy or the files in place. It raises what ``stage_batches`` does.
    """
    if IN_PLACE not in snapshot.manifest:
        with stage_batches(snapshot, INGESTED) as batches:
            yield batches
        return
    files = _files_in_place(spec, snapshot)
    marks = [file_mark(path) for path in files]
    yield [partial(_read_rows_of_window, spec, read) for read in parquet_batches(spec, files)]
    if [file_mark(path) for path in files] != marks:
        raise _changed(snapshot)


def _read_rows_of_window(spec: DatasetSpec, read: BatchReader) -> pa.Table:
    return _rows_of_window(spec, read())


def ingested_tables(spec: DatasetSpec, snapshot: Snapshot) -> Iterator[pa.Table]:
    """Yield the ingested rows as tables of one schema, at least one.

    It raises what ``stage_batches`` does."""
    with ingested_batch_readers(spec, snapshot) as batches:
        for read in batches:
            yield read()


def _files_in_place(spec: DatasetSpec, snapshot: Snapshot) -> list[Path]:
    """Return the files of a snapshot that has no copy of them; Damaged if one has changed."""
    stored: dict[str, str] = snapshot.manifest[IN_PLACE]
    files = [Path(spec.source.location) / name for name in stored]
    if not all(path.is_file() for path in files):
        raise _changed(snapshot, f"a file of {spec.source.location} is not there any more")
    fingerprints = fingerprints_of(files, snapshot.secret)
    if not all(map(hmac.compare_digest, stored.values(), fingerprints)):
        raise _changed(snapshot)
    return files


def _changed(snapshot: Snapshot, fault: str = "its files were changed in their place") -> Damaged:
    # No file is named, since names of folders may be values of rows.
    return Damaged(
        f"{snapshot!r}: {fault}: restore them, or name a new snapshot: {snapshot.new_snapshot_hint}"
    )
