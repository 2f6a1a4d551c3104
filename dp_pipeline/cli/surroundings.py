"""What stands in the way of a good declaration here: files, variables, other populations."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from dp_pipeline.cli.asked import request_for
from dp_pipeline.ledger import Ledger
from dp_pipeline.ledger.home import find_home
from dp_pipeline.orchestration.plan import plan_request
from dp_pipeline.schema.discovery import DATASETS_VARIABLE, dataset_files, require_available
from dp_pipeline.schema.errors import DeclarationError
from dp_pipeline.schema.identity import overlap
from dp_pipeline.schema.spec import DatasetSpec


def warnings(spec: DatasetSpec, file: Path) -> list[str]:
    """One line each; none where everything is in place. Opens no source and writes nothing."""
    return [*_source(spec), *_folder(file), *_home()]


def require_runnable(spec: DatasetSpec, file: Path) -> None:
    """Refuse what `plan` and `run` refuse before they read a row, in the same words.

    DeclarationError for a variable that is not set, a name that another file has, a source that
    another population holds, noise that is not fit for the rows, and an account that was opened
    otherwise; BudgetExceeded where all of it does not fit. Nothing is claimed. Where there is no
    project, there is no ledger to ask.
    """
    require_available(spec)
    _require_own_name(spec, file)
    if _has_home():
        _require_own_sources(spec, find_home().ledger)
        plan_request(request_for(spec)).require_budget()


def _has_home() -> bool:
    try:
        find_home()
    except DeclarationError:
        return False
    return True


def _home() -> Iterator[str]:
    try:
        find_home()
    except DeclarationError as error:
        yield f"`run` and `plan` will not know where to write: {error}"


def _source(spec: DatasetSpec) -> Iterator[str]:
    source = spec.source
    if source.kind in ("csv", "parquet") and not source.is_remote and source.download is None:
        absent = (path for path in source.locations if not Path(path).exists())
        yield from (f"the source {path} is not there" for path in absent)


def _require_own_name(spec: DatasetSpec, file: Path) -> None:
    other = dataset_files().get(spec.name)
    if other is not None and not other.samefile(file):
        raise DeclarationError(
            f"{file}: expected a name of its own, got that of {other}: rename the file and its name"
        )


def _folder(file: Path) -> Iterator[str]:
    """No command but this one finds a file outside of the folders of data sets."""
    folder, named = file.resolve().parent, os.environ.get(DATASETS_VARIABLE)
    known = {Path(str(resources.files("dp_pipeline.datasets"))).resolve()}
    if named:
        known.add(Path(named).resolve())
    if folder not in known:
        yield f"commands and Dagster look for it with {DATASETS_VARIABLE}={folder} alone"


def _require_own_sources(spec: DatasetSpec, ledger: Ledger) -> None:
    """DeclarationError where another lineage holds a source, so that this one may not open it."""
    claims = ledger.claims()
    for source in spec.source.identities:
        if not spec.is_release:
            # Benchmarks share sources; what a release lineage holds is refused with a line.
            ledger.require_public(spec.lineage, source)
        elif spec.distinct_population is None and (source, spec.lineage) not in claims:
            others = [
                holder
                for name, holder in claims
                if holder != spec.lineage and overlap(name, source)
            ]
            if others:
                raise DeclarationError(
                    f"source {source!r} belongs to lineage {others[0]}: lineage {spec.lineage} may "
                    "open it only with distinct_population: <reason>"
                )
