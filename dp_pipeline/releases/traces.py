"""Traces of populations in a home, which show that their ledger was lost: rows or releases of an
unknown population. They are looked for before an account is opened.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import Damaged, PipelineError
from dp_pipeline.config.source import dataset_name
from dp_pipeline.config.system_errors import system_line
from dp_pipeline.export.folder import RELEASE
from dp_pipeline.raw.retirement import stored_populations
from dp_pipeline.releases.home import SHELF, Home
from dp_pipeline.releases.store import BUNDLE_FILE, POPULATION, TRANSCRIPT_FILE


@dataclass(frozen=True)
class Trace:
    """The rows or a release of a population on disk.

    population   None where no readable file names it
    """

    path: Path
    population: str | None


def require_no_history(spec: DatasetSpec, home: Home) -> None:
    """Raise Damaged when a home holds rows or releases of a population, or evaluations of a data
    set, that its ledger does not know.

    Any population counts: under another name the same persons would get a new budget.
    """
    ledger = home.ledger
    known_populations = ledger.populations()
    expected = f"{spec.name}: expected the ledger that knows"
    for trace in find_traces(home):
        if trace.population is None:
            raise Damaged(
                f"{expected} the population of rows or releases in {trace.path}, which name "
                f"none: run their data set again, or put them outside of {home.root}"
            )
        if trace.population not in known_populations:
            raise Damaged(
                f"{expected} population {trace.population}, got one that does not, although rows "
                f"or releases of it are in {trace.path}: put the ledger and its head back, or "
                f"the rows and releases outside of {home.root}"
            )
    reports = [home.reports / f"{spec.name}{ending}" for ending in (".html", ".cards")]
    names = {source for source, _ in ledger.claims()}
    if dataset_name(spec.name) not in names and any(
        any(path.iterdir()) if path.is_dir() else path.exists()
        for path in (home.internal / spec.name, *reports)
    ):
        raise Damaged(
            f"{expected} data set {spec.name}, got one that does not, although "
            f"evaluations or reports of it are in {home.root}: put the ledger and its head "
            "back, or those elsewhere"
        )


def find_traces(home: Home) -> Iterator[Trace]:
    """Yield every snapshot, release and published copy of a home."""
    for path, population in stored_populations(home.raw):
        yield Trace(path, population)
    yield from _release_traces(home.released)
    yield from _release_traces(home.root / SHELF)


_BUNDLES = (BUNDLE_FILE, RELEASE)
"""The bundle of a release in the home, and of an export."""


def _release_traces(root: Path) -> Iterator[Trace]:
    """Yield every folder of a release, once for each population that it or its bundles name."""
    for name, folders, files in os.walk(root, followlinks=True, onerror=_refuse_unlisted):
        if not {POPULATION, TRANSCRIPT_FILE, *_BUNDLES}.isdisjoint(files):
            # What lies below belongs to it.
            below, folders[:] = [Path(name, folder) for folder in folders], []
            populations: list[str | None] = [*sorted(_populations(Path(name), below))]
            yield from (Trace(Path(name), population) for population in populations or [None])


def _refuse_unlisted(error: OSError) -> None:
    """Raise PipelineError for a folder that cannot be listed; a missing one is empty."""
    if not isinstance(error, FileNotFoundError):
        raise PipelineError(system_line(error)) from None


def _populations(folder: Path, below: list[Path]) -> set[str]:
    populations = {
        _bundle_population(path / file) for path in (folder, *below) for file in _BUNDLES
    }
    with contextlib.suppress(OSError, ValueError):
        populations.add((folder / POPULATION).read_text(encoding="utf-8").strip())
    return {population for population in populations if population}


def _bundle_population(path: Path) -> str | None:
    """Return the population that a bundle names; None if it is missing or unreadable."""
    try:
        population = json.loads(path.read_text(encoding="utf-8"))["facts"]["population"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return population if isinstance(population, str) else None
