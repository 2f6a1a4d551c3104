"""What stands in the way of a good declaration here: files, variables, other populations."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from dp_pipeline.ledger import Ledger
from dp_pipeline.ledger.home import find_home
from dp_pipeline.orchestration.lineage import declared_account
from dp_pipeline.schema.discovery import DATASETS_VARIABLE
from dp_pipeline.schema.errors import DeclarationError, PipelineError
from dp_pipeline.schema.identity import overlap
from dp_pipeline.schema.spec import DatasetSpec


def warnings(spec: DatasetSpec, file: Path) -> list[str]:
    """One line each; none where everything is in place. Opens no source and writes nothing."""
    return [*_source(spec), *_folder(file), *_ledger(spec)]


def _source(spec: DatasetSpec) -> Iterator[str]:
    source = spec.source
    if source.needs is not None and not os.environ.get(source.needs):
        yield f"the variable {source.needs}, which the source needs, is not set"
    elif source.kind in ("csv", "parquet") and not source.is_remote and source.download is None:
        absent = (path for path in source.locations if not Path(path).exists())
        yield from (f"the source {path} is not there" for path in absent)


def _folder(file: Path) -> Iterator[str]:
    """No command but this one finds a file outside of the folders of data sets."""
    folder, named = file.resolve().parent, os.environ.get(DATASETS_VARIABLE)
    known = {Path(str(resources.files("dp_pipeline.datasets"))).resolve()}
    if named:
        known.add(Path(named).resolve())
    if folder not in known:
        yield f"commands and Dagster look for it with {DATASETS_VARIABLE}={folder} alone"


def _ledger(spec: DatasetSpec) -> Iterator[str]:
    """What the ledger of this home will refuse; nothing outside of a project."""
    try:
        ledger = find_home().ledger
    except DeclarationError:
        return
    try:
        opened = ledger.account(spec.lineage)
        if opened is not None:
            declared = declared_account(spec)
            declared.require_within(opened)
            if word := declared.difference_from(opened):
                yield word
        yield from _claims(spec, ledger)
    except PipelineError as error:
        yield str(error)


def _claims(spec: DatasetSpec, ledger: Ledger) -> Iterator[str]:
    """Sources that another lineage holds, so that this one may not open them."""
    held = {source: holder for source, holder in ledger.claims() if holder != spec.lineage}
    for source in spec.source.identities:
        if not spec.is_release:
            # Benchmarks share sources; what a release lineage holds is refused with a line.
            ledger.require_public(spec.lineage, source)
        elif spec.distinct_population is None:
            for holder in sorted({name for one, name in held.items() if overlap(one, source)}):
                yield (
                    f"source {source!r} belongs to lineage {holder}: lineage {spec.lineage} may "
                    "open it only with distinct_population: <reason>"
                )
