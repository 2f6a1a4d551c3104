"""Roll-ups: what was released of several windows, added up. It is public already: it costs nothing.

Tables that every window has measured are added cell by cell, boxes of trees and grids box by box.
Where windows cut boxes differently, those of one are first added up to the finest boxes of which
all tell (``release.trees``).

*Variance.* Windows are of different rows and their noise was drawn apart, so the variance of a sum
is the sum of the variances. One release of all of those rows at the same ε has the noise of one
window: the sum of m windows has √m times as much, which is stated beside it. Tables that were
smoothed share the noise of earlier windows, so they are not added up. Of boxes the noisy answers
are: they are as they were drawn, whatever was made of them. Where the boxes of a window follow
from the answers of the one before, this is the variance for boxes that are fixed, and the sums over
boxes that are not a choice (all of them together, or halves of the map) are unbiased.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from dp_pipeline.config.encoding import FloatArray, Names
from dp_pipeline.config.errors import DeclarationError, NotPrepared
from dp_pipeline.config.parameters import fact_text
from dp_pipeline.inference.earlier import EarlierTables
from dp_pipeline.models.clustering.base import Clustering
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.noisy_release import own
from dp_pipeline.releases.replay import (
    key_of,
    named_snapshot,
    pointed_bundle,
    pointer_path,
    read_document,
)
from dp_pipeline.releases.store import store_file
from dp_pipeline.results.bundle import Bundle
from dp_pipeline.results.clusters import Clusters
from dp_pipeline.results.derived_attribute import Grouping
from dp_pipeline.results.measurement import NoisyMarginal
from dp_pipeline.results.synthetic_table import MOST_CELLS_SHOWN
from dp_pipeline.results.trees import CountedBoxes, summed_boxes

HEAD = ("attributes", "cell", "rows", "deviation", "deviation of one release")


@dataclass(frozen=True)
class SummedTable:
    """One table over the rows of all windows.

    labels       of its levels or groups, or of boxes
    counts       float (cells,)
    deviations   float (cells,), of the noise in each
    windows      how many were added up
    """

    attributes: Names
    labels: tuple[str, ...]
    counts: FloatArray
    deviations: FloatArray
    windows: int

    @property
    def direct(self) -> FloatArray:
        """Of the noise that one release of all these rows would have had at the same ε, of the same
        cells.
        """
        return np.asarray(self.deviations / self.windows**0.5)


def roll_up(releases: Sequence[EpsilonRelease]) -> list[SummedTable]:
    """What every one of some releases has measured, added up cell by cell, or box by box.

    releases   of one model, one for each window

    Raises NotPrepared for a window that is not released, and DeclarationError for numbers that
    cannot be added up, those of other declarations or parameters too.
    """
    first = releases[0]
    where = f"{first.spec.name}: {first.name}"
    if first.span > 1:
        raise DeclarationError(
            f"{where}: expected releases of one window each, got some of {first.span}: their rows "
            "would count more than once"
        )
    if isinstance(first.model, Clustering):
        return [_summed_boxes(releases)]
    return _summed_tables(releases, where)


def _summed_boxes(releases: Sequence[EpsilonRelease]) -> SummedTable:
    total = summed_boxes([_counted(one, _bundle(one)) for one in releases])
    if total is None:
        raise DeclarationError(
            f"{'/'.join(releases[0].path)}: expected windows whose boxes lie in each other, got "
            "grids of different sizes: declare `nominal_rows`, which makes them all alike"
        )
    ends = np.stack([total.lower, total.upper], axis=2).tolist()
    labels = tuple(", ".join(f"{low:.10g} to {high:.10g}" for low, high in box) for box in ends)
    deviations = np.sqrt(total.variances)
    return SummedTable(total.columns, labels, total.counts, deviations, len(releases))


def _counted(release: EpsilonRelease, bundle: Bundle) -> CountedBoxes:
    """The noisy counts of a settled release, from its stored answers."""
    key = own(key_of(release, bundle))
    released = release.fitted(key)[0].released
    synopsis = released.synopsis if isinstance(released, Clusters) else None
    if synopsis is None or synopsis.counted is None:
        raise DeclarationError(
            f"{release.what}: expected boxes that were each counted once, got "
            f"{release.model.uncounted}"
        )
    return synopsis.counted


def _summed_tables(releases: Sequence[EpsilonRelease], where: str) -> list[SummedTable]:
    first = releases[0]
    if getattr(first.model, "smooth", "false") == "true":
        raise DeclarationError(
            f"{where}: expected noisy numbers of one window each, got smoothed ones, which share "
            "noise: declare `smooth: false` for what is to be added up"
        )
    known = [_known(one, _bundle(one)) for one in releases]
    every = dict.fromkeys(one.attributes for one in known[0].measured)
    sums = [table for names in every if (table := summed(known, names)) is not None]
    if not sums:
        raise DeclarationError(
            f"{where}: expected a table that all of these windows have measured, got none"
        )
    return [
        SummedTable(
            one.attributes,
            _labels(one.attributes, known[0], first),
            one.table.ravel().astype(np.float64),
            np.full(one.table.size, one.variance**0.5),
            len(known),
        )
        for one in sums
    ]


def _known(release: EpsilonRelease, bundle: Bundle) -> EarlierTables:
    """The noisy tables of a settled release."""
    known = EarlierTables.of(bundle.tables, release.spec.domain)
    if known is None:
        raise DeclarationError(
            f"{release.what}: expected noisy tables over attributes, got "
            f"{_instead(bundle) or release.model.uncounted}"
        )
    return known


def _instead(bundle: Bundle) -> str:
    """Why the tables of a release cannot be read cell by cell; empty where it has none."""
    if "measured" not in bundle.tables:
        return ""
    if "cells" not in bundle.tables:
        return f"more than {MOST_CELLS_SHOWN:,} cells, which are not stored one by one"
    return "tables over groups of levels that the release does not tell"


def _bundle(release: EpsilonRelease) -> Bundle:
    pointer = read_document(pointer_path(release))
    if pointer is None:
        raise NotPrepared(
            f"{release.what}: expected a release, got none: `dp-pipeline run {release.spec.name} "
            f"--window {release.spec.window}` makes it"
        )
    spec, home = release.spec, release.home
    bundle = pointed_bundle(spec, home, pointer, model=release.name, epsilon=release.level)
    _require_as_declared(release, bundle)
    return bundle


def _require_as_declared(release: EpsilonRelease, bundle: Bundle) -> None:
    """The same cell has to mean the same in all windows, and its noise has to be its own: a file
    that was edited since may have other levels, as many as before, or smooth no more.
    """
    key = own(release.key(named_snapshot(release.spec, release.home, bundle.facts["snapshot"])))
    declared = {"declaration": key.declaration, "measuring": fact_text(key.measuring)}
    if any(bundle.facts.get(name) != text for name, text in declared.items()):
        raise DeclarationError(
            f"{release.what}: expected a release with the declarations and parameters of today's "
            "file, got one with others: add up windows of one file at a time"
        )


def summed(known: Sequence[EarlierTables], names: Names) -> NoisyMarginal | None:
    """The sum of the tables over some attributes, and its variance; None where a window has none
    over the same groups of levels.
    """
    tables = [one.of_names(names) for one in known]
    # A table of one attribute is over its levels, whatever groups tables of several are over.
    grouped = names if len(names) > 1 else ()
    groups = [[one.groupings.get(name) for name in grouped] for one in known]
    parts = [one for one in tables if one is not None]
    if len(parts) < len(known) or any(one != groups[0] for one in groups):
        return None
    table = np.sum([one.table for one in parts], axis=0)
    variance = sum((Fraction(one.variance) for one in parts), Fraction(0))
    return NoisyMarginal(names, table, variance, gaussian=True)


def _labels(names: Names, known: EarlierTables, release: EpsilonRelease) -> tuple[str, ...]:
    """A name for each cell: its levels, or groups of levels in tables of several attributes."""
    axes = []
    for name in names:
        levels = release.spec.domain[name].labels()
        if len(names) > 1 and name in known.groupings:
            groups = known.groupings[name]
            levels = tuple(" or ".join(inside) for inside in _inside(levels, groups))
        axes.append(levels)
    cells = [""]
    for levels in axes:
        cells = [f"{before}, {level}" if before else level for before in cells for level in levels]
    return tuple(cells)


def _inside(levels: Sequence[str], groups: Grouping) -> list[list[str]]:
    """The levels of each group."""
    found: list[list[str]] = [[] for _ in range(groups.size)]
    for level, group in zip(levels, groups.groups, strict=True):
        found[group].append(level)
    return found


def write_roll_up(releases: Sequence[EpsilonRelease]) -> Path:
    """The sums as a CSV file below the reports; gives its path."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(HEAD)
    for table in roll_up(releases):
        attributes = ", ".join(table.attributes)
        noise = zip(table.deviations.tolist(), table.direct.tolist(), strict=True)
        for label, rows, (of_sum, direct) in zip(
            table.labels, table.counts.tolist(), noise, strict=True
        ):
            writer.writerow([attributes, label, f"{rows:.0f}", f"{of_sum:.3g}", f"{direct:.3g}"])
    one, last = releases[0], releases[-1]
    name = f"{one.name}.{one.spec.window}..{last.spec.window}.{one.level}.csv"
    path = one.home.reports / f"{one.spec.name}.roll_ups" / name
    store_file(path, text.getvalue().encode())
    return path
