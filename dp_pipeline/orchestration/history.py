"""What lies in a home of a population that its ledger does not know: then the ledger was lost.

Looked at before an account is opened, and never again: whoever is known pays for nothing here.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dp_pipeline.ledger.home import Home
from dp_pipeline.orchestration.storage import BUNDLE_FILE, POPULATION, TRANSCRIPT_FILE
from dp_pipeline.raw.retire import stored_populations
from dp_pipeline.schema.errors import Damaged, PipelineError
from dp_pipeline.schema.spec import DatasetSpec
from dp_pipeline.schema.system_errors import system_line


@dataclass(frozen=True)
class Trace:
    """Rows or releases of somebody.

    lineage   whose they are; None where nothing that can be read says so
    """

    path: Path
    lineage: str | None


def require_no_history(spec: DatasetSpec, home: Home) -> None:
    """Damaged, naming where, when a home holds rows, releases, evaluations or reports of a data
    set, or under any name rows or releases of its population, or of one that cannot be read.
    """
    expected = f"{spec.name}: expected the ledger that knows lineage {spec.lineage}, got one that"
    if any(_holds(path) for path in _of_dataset(spec, home)):
        raise Damaged(f"{expected} does not, beside rows or releases of {spec.name} in {home.root}")
    for trace in traces(home):
        if trace.lineage == spec.lineage:
            raise Damaged(f"{expected} does not, beside rows or releases of it in {trace.path}")
        if trace.lineage is None:
            raise Damaged(
                f"{expected} does not, beside rows or releases in {trace.path} that name no "
                f"population: run their data set again, or put them outside of {home.root}"
            )


def traces(home: Home) -> Iterator[Trace]:
    """Every snapshot and every release of a home."""
    for path, lineage in stored_populations(home.raw):
        yield Trace(path, lineage)
    yield from _releases(home.released)


def _of_dataset(spec: DatasetSpec, home: Home) -> tuple[Path, ...]:
    folders = (home.raw, home.released, home.internal)
    reports = (home.reports / f"{spec.name}{ending}" for ending in (".html", ".cards"))
    return (*(folder / spec.name for folder in folders), *reports)


def _holds(path: Path) -> bool:
    return any(path.iterdir()) if path.is_dir() else path.exists()


def _releases(root: Path) -> Iterator[Trace]:
    """Every folder of a release, for each whom it or its bundles name."""
    for name, folders, files in os.walk(root, followlinks=True, onerror=_refused):
        if not {POPULATION, TRANSCRIPT_FILE, BUNDLE_FILE}.isdisjoint(files):
            # What lies below belongs to it.
            below, folders[:] = [Path(name, one) for one in folders], []
            named = _named(Path(name), below)
            yield from (Trace(Path(name), one) for one in sorted(named))
            if not named:
                yield Trace(Path(name), None)


def _refused(error: OSError) -> None:
    """What cannot be listed may hold anybody's releases; what is not there holds none."""
    if not isinstance(error, FileNotFoundError):
        raise PipelineError(system_line(error)) from None


def _named(folder: Path, below: list[Path]) -> set[str]:
    named = {_in_bundle(one / BUNDLE_FILE) for one in (folder, *below)}
    with contextlib.suppress(OSError, ValueError):
        named.add((folder / POPULATION).read_text(encoding="utf-8").strip())
    return {one for one in named if one}


def _in_bundle(path: Path) -> str | None:
    """Whom a bundle names; None where there is none, or it cannot be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["facts"]["lineage"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if isinstance(found, str) else None
