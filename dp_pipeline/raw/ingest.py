"""Ingest: a source is read once, into a snapshot that never changes again.

What a source says of itself without being read as rows: whether its bytes may be others now.

For data alone whose changes are public: the answer decides when something is released.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import platform
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
from dp_pipeline.config.source import FILES, Source, sha256_name
from dp_pipeline.config.windows import now
from dp_pipeline.files import sweep
from dp_pipeline.raw.download import Located, forget_downloads, located
from dp_pipeline.raw.fingerprints import fingerprints_of
from dp_pipeline.raw.snapshot import (
    Snapshot,
    check_snapshot_id,
    current_snapshot,
    make_current,
    new_snapshot_hint,
    one_at_a_time,
    snapshot_name,
)
from dp_pipeline.raw.sources import parquet_batches, parquet_parts, parquet_tables, source_tables
from dp_pipeline.raw.stages import Read, file_mark, stage_batches, store_parts
from dp_pipeline.raw.values import have_time, in_window

INGESTED = "ingested"
"""The stage that holds the rows as the source had them."""

IN_PLACE = "in_place"
"""What a manifest calls the files of a snapshot that has no copy of its rows."""

Claim = Callable[..., object]
"""Says that the sources of some canonical names are about to be opened; raises DeclarationError
where they may not be."""

DOWNLOADS = ".downloads"
"""The folder beside the data sets' for downloads of benchmarks; no data set is called so."""


def ingest(
    spec: DatasetSpec,
    store: Path,
    *,
    key: bytes,
    snapshot_id: str | None,
    today: date,
    claim: Claim | None = None,
) -> Snapshot:
    """The snapshot that releases read from now on.

    store         the raw store's folder; the snapshot is ``store/<data set>/<id>``
    key           the population's secret key
    snapshot_id   None: the current snapshot, and nothing is read; before the first
                  one, a new one named by ``today``, or by the window where rows are cut. A name:
                  that snapshot, read from the source unless it was stored already, becomes the
                  current one; of a window its name begins with that of the window.
    claim         asked for every file and download that is read, because where a link leads and
                  which hash a download has may be known here alone; None where no ledger protects
                  anything

    The id comes from the calendar or from a person and no content is compared, so
    it tells nothing of the rows. A snapshot that was stored whole is never read
    again, whatever its source says today. One that was left half-written was never
    current and is read anew; a failed read leaves none behind.

    This alone opens the network or, but for drafts of declarations, a database, and only for a
    snapshot that is not there.

    Raises what ``claim`` raises; DeclarationError for an unsafe id, or when the
    stored snapshot is of another source or lacks a declared column; Damaged when
    it is not as it was stored; SourceError when the source cannot be read.
    """
    spec.require_window()
    name = None if snapshot_id is None else check_snapshot_id(snapshot_id)
    with one_at_a_time(store / spec.name):
        _sweep(store, spec)
        current = current_snapshot(store, spec.name, key, spec.window)
        if name is None and current is not None:
            _check_covers(current, spec)
            _claim(claim, current.claimed)
            return current
        snapshot = Snapshot(store / spec.name / snapshot_name(spec, name or "", today), key)
        if _is_whole(snapshot):
            _check_covers(snapshot, spec)
            _claim(claim, snapshot.claimed)
            check_ingested(spec, snapshot)
        else:
            require_closed(spec, now())
            _read(snapshot, spec, claim)
        make_current(snapshot, spec.window)
        return snapshot


def require_closed(spec: DatasetSpec, moment: int) -> None:
    """NotPrepared before a window is over and its grace too: it would be read without its last
    rows, and is read once. By the clock alone.

    moment   seconds since 1970 in UTC
    """
    if spec.window and spec.cut.closing_time(spec.window) > moment:
        closes = datetime.fromtimestamp(spec.cut.closing_time(spec.window), UTC)
        raise NotPrepared(
            f"{spec.name}: expected a window that is over, got {spec.window}, which is read from "
            f"{closes:%Y-%m-%d %H:%M} UTC on: `dp-pipeline run {spec.name}` takes the newest one "
            "that is over"
        )


def check_ingested(spec: DatasetSpec, snapshot: Snapshot) -> str:
    """A fingerprint of the ingested rows; Damaged where they are not as they were."""
    if IN_PLACE not in snapshot.manifest:
        snapshot.checked_path(INGESTED)
        return str(snapshot.manifest["fingerprints"][INGESTED])
    _files_in_place(spec, snapshot)
    return json.dumps(snapshot.manifest[IN_PLACE], sort_keys=True)


def ingested_schema(spec: DatasetSpec, snapshot: Snapshot) -> pa.Schema:
    """The columns of the ingested rows, and their types."""
    if IN_PLACE not in snapshot.manifest:
        return pq.read_schema(snapshot.checked_path(INGESTED))
    # The first table has no row.
    return next(parquet_tables(spec, _files_in_place(spec, snapshot))).schema


@contextmanager
def ingested_batches(spec: DatasetSpec, snapshot: Snapshot) -> Iterator[list[Read]]:
    """The rows of a snapshot as they were ingested, in batches of one schema, at least one: a copy,
    or the rows where they are. Raises what ``stage_batches`` does, when that does.
    """
    if IN_PLACE not in snapshot.manifest:
        with stage_batches(snapshot, INGESTED) as batches:
            yield batches
        return
    files = _files_in_place(spec, snapshot)
    before = [file_mark(path) for path in files]
    yield [partial(_read_of_window, spec, read) for read in parquet_batches(spec, files)]
    if [file_mark(path) for path in files] != before:
        raise _changed(snapshot)


def _read_of_window(spec: DatasetSpec, read: Read) -> pa.Table:
    return _of_window(spec, read())


def ingested_tables(spec: DatasetSpec, snapshot: Snapshot) -> Iterator[pa.Table]:
    """The rows of these batches, one after the other. Raises what ``ingested_batches`` does."""
    with ingested_batches(spec, snapshot) as batches:
        for read in batches:
            yield read()


def _files_in_place(spec: DatasetSpec, snapshot: Snapshot) -> list[Path]:
    """The files that a snapshot was taken of; Damaged unless each is what it was."""
    known: dict[str, str] = snapshot.manifest[IN_PLACE]
    files = {Path(spec.source.location) / name: print_ for name, print_ in known.items()}
    if not all(path.is_file() for path in files):
        raise _changed(snapshot)
    found = fingerprints_of(list(files), snapshot.secret)
    if not all(map(hmac.compare_digest, files.values(), found)):
        raise _changed(snapshot)
    return list(files)


def _changed(snapshot: Snapshot) -> Damaged:
    return Damaged(
        f"{snapshot!r}: expected the files that it was taken of as they were, got others: restore "
        f"them, or name a new snapshot: {new_snapshot_hint(snapshot.dataset)}"
    )


def _sweep(store: Path, spec: DatasetSpec) -> None:
    """Delete what killed runs on this data set left behind; alone, so no download is under way."""
    sweep(store / spec.name, below=True)
    if spec.is_release:
        forget_downloads(store / spec.name)
    elif (store / DOWNLOADS).is_dir():
        sweep(store / DOWNLOADS)


def _is_whole(snapshot: Snapshot) -> bool:
    """Whether the last thing that ``_store`` writes is there."""
    return snapshot.exists() and "ingested_at" in snapshot.manifest


def _check_covers(snapshot: Snapshot, spec: DatasetSpec) -> None:
    """The stored rows are those of the declared population and source, with all columns."""
    stored = snapshot.manifest
    lacking = [column for column in spec.columns if column not in stored.get("columns", ())]
    if stored.get("population", spec.population) != spec.population:
        # Its fingerprints are under that population's key: every stage would look damaged.
        mismatch = f"the population {spec.population}, got rows stored under {stored['population']}"
    elif stored.get("source") not in [one.identity for one in spec.source.alternatives]:
        mismatch = f"the source {spec.source.identity}, got {stored.get('source')}"
    elif lacking:
        mismatch = f"a column {lacking[0]!r}, got a snapshot that was read without it"
    else:
        return
    raise DeclarationError(
        f"{spec.name}: snapshot {snapshot.id}: expected {mismatch}; name a new snapshot: "
        f"{new_snapshot_hint(spec.name)}"
    )


def _read(snapshot: Snapshot, spec: DatasetSpec, claim: Claim | None) -> None:
    """Read the source, or the download in its place, into a snapshot."""
    folder = snapshot.folder if spec.is_release else snapshot.folder.parent.parent / DOWNLOADS
    with located(spec, folder, _downloaded_before(snapshot)) as found:
        try:
            _claim(claim, _names(found))
        except DeclarationError:
            # Somebody's rows are not kept among those of benchmarks.
            for path in found.files or ():
                path.unlink(missing_ok=True)
            raise
        spec, began = replace(spec, source=found.source), datetime.now(UTC)
        tables = (_of_window(spec, table) for table in source_tables(spec, found.files))
        # A source that cannot be read at all leaves nothing behind: so the first table comes first.
        first = next(tables)
        with _forgotten_when_it_fails(snapshot):
            if spec.source.in_place:
                _pin(snapshot, spec)
            else:
                _store(snapshot, spec, chain([first], tables))
            # A link may have been led elsewhere before it was read.
            names = _names(found)
            _claim(claim, names)
            _record(
                snapshot,
                spec,
                columns=first.column_names,
                claimed=names,
                downloaded=dict(found.sha256),
                # What is written to the source from then on may not be in it.
                read_at=began.isoformat(),
            )


def _names(found: Located) -> tuple[str, ...]:
    """By what the ledger knows what is read, as it is now."""
    hashes = map(sha256_name, found.sha256.values())
    return (*found.source.current_identities, *hashes)


@contextmanager
def _forgotten_when_it_fails(snapshot: Snapshot) -> Iterator[None]:
    """A read that fails in the middle leaves no snapshot behind that was not there before."""
    was_there = snapshot.exists()
    try:
        yield
    except Exception:
        if not was_there:
            shutil.rmtree(snapshot.folder, ignore_errors=True)
        raise


def _of_window(spec: DatasetSpec, table: pa.Table) -> pa.Table:
    """The rows of the window that is read, and those that say no time: whether many of them do is
    a check's to see, and preparation leaves them out. Rows of other windows are not kept.
    """
    if spec.windows is None or not spec.window:
        return table
    is_ours = in_window(spec.windows, spec.window, table) | ~have_time(spec.windows, table)
    return table.filter(pa.array(is_ours))


def _claim(claim: Claim | None, names: Sequence[str]) -> None:
    if claim is not None:
        claim(*names)


def _downloaded_before(snapshot: Snapshot) -> dict[str, str]:
    """Identity → hash of what the snapshots of the same data set were read from, the last one's
    where they differ.
    """
    others = []
    for folder in snapshot.folder.parent.iterdir():
        try:
            others.append(Snapshot(folder, snapshot.key).manifest)
        except (NotPrepared, Damaged):
            # No snapshot, or a retired one. One of another format may know another hash.
            continue
    # To a part of a second: a folder lists two snapshots of one second in any order.
    others.sort(key=lambda manifest: str(manifest.get("read_at", "")))
    return {url: sha256 for one in others for url, sha256 in one.get("downloaded", {}).items()}


def _store(snapshot: Snapshot, spec: DatasetSpec, tables: Iterable[pa.Table]) -> None:
    """The rows, behind whose they are: that is on disk before the first of them, wherever a run is
    stopped.
    """
    snapshot.record(population=spec.population)
    store_parts(snapshot, INGESTED, tables, compression="zstd")


def _pin(snapshot: Snapshot, spec: DatasetSpec) -> None:
    """The same without a copy: a keyed fingerprint of each file, by its path from the source's.

    What is added to the folder later is of no snapshot, and a file that changes makes this one
    Damaged.
    """
    place = Path(spec.source.location)
    paths = [place] if place.is_file() else parquet_parts(place)
    prints = fingerprints_of(paths, snapshot.secret)
    names = [str(path.relative_to(place)) for path in paths]
    in_place = dict(zip(names, prints, strict=True))
    snapshot.record(population=spec.population, in_place=in_place)


def _record(snapshot: Snapshot, spec: DatasetSpec, **facts: object) -> None:
    """The facts come last: ``ingested_at`` in the manifest says that all of it is there.

    The manifest holds no row count and no value: it is read by stages that log.
    """
    snapshot.record(
        dataset=spec.name,
        population=spec.population,
        source=spec.source.identity,
        ingested_at=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=_versions(),
        **facts,
    )


def _versions() -> dict[str, str]:
    """What read and wrote the rows."""
    return {
        "dp_pipeline": dp_pipeline.__version__,
        "python": platform.python_version(),
        "pyarrow": pa.__version__,
        "numpy": np.__version__,
    }


@dataclass(frozen=True)
class SourceStamp:
    """A cheap look at a source.

    text        another one when any file was written, came or went
    changed_at  when the newest file was written; None behind a URL
    """

    text: str
    changed_at: datetime | None


def is_watchable(source: Source) -> bool:
    """Whether it has a stamp at all: files here, or behind URLs with a declared hash. Decided by
    the declaration: nothing is opened.
    """
    return source.kind in FILES and any(
        not one.is_remote or _declared(one) for one in source.alternatives
    )


def source_stamp(source: Source) -> SourceStamp | None:
    """The stamp of what would be read now; None where that is not there, or not whole yet.

    Of files: names, sizes and times of writing. Of URLs, which are never opened for this: the
    hashes that the data set file declares.
    """
    for one in source.alternatives:
        if one.is_remote:
            declared = _declared(one)
            return SourceStamp(declared, None) if declared else None
        files = _files(one)
        if files:
            return _stamp_of(files)
    return None


def source_digest(source: Source) -> str | None:
    """Hash of the bytes that would be read now: of every file by itself, in order; None where
    there are none, or where they changed meanwhile.
    """
    before = source_stamp(source)
    if before is None or before.changed_at is None:
        return None if before is None else before.text
    files = next(found for found in map(_files, source.alternatives) if found)
    digest = hashlib.sha256()
    try:
        for path in files:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    except OSError:
        return None
    return digest.hexdigest() if source_stamp(source) == before else None


def _declared(source: Source) -> str:
    """Declared hashes of every URL; empty where one is missing."""
    hashes = [source.sha256.get(url, "") for url in source.locations]
    return " ".join(hashes) if all(hashes) else ""


def _files(source: Source) -> list[Path]:
    """Every file of a local source; none where one is missing."""
    if source.is_remote or not source.is_resolved:
        return []
    found: list[Path] = []
    for path in map(Path, source.locations):
        files = [path] if path.is_file() else parquet_parts(path)
        if not files:
            return []
        found += files
    return found


def _stamp_of(files: list[Path]) -> SourceStamp | None:
    try:
        states = [(path, path.stat()) for path in files]
    except OSError:
        return None
    lines = [f"{path} {state.st_size} {state.st_mtime_ns}" for path, state in states]
    text = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    newest = max(state.st_mtime for _, state in states)
    return SourceStamp(text, datetime.fromtimestamp(newest, UTC))
