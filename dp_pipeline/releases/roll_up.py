"""Roll-ups: sums of the releases of several time windows, at no cost.

Tables that every window has measured are added cell by cell, boxes of trees and grids box by box;
boxes that windows cut differently are first added up to the finest boxes with counts in all
(``results.trees``).

*Variance.* Windows are of different rows and their noise was drawn apart, so the variance of a sum
is the sum of the variances: √m times the noise of one release of all rows of m windows at the same
ε, which is stated with it. Smoothed tables share the noise of earlier windows, so they are not
added up. Where the boxes of a window follow from the answers of the one before, this is the
variance for fixed boxes, and sums over boxes that are not a choice (all boxes, or halves of the
map) are unbiased.
"""

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
from dp_pipeline.files import write_private
from dp_pipeline.inference.earlier import StoredTables
from dp_pipeline.models.clustering.base import Clustering
from dp_pipeline.releases import replay
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.noisy_release import as_release_key
from dp_pipeline.results.bundle import Bundle
from dp_pipeline.results.clusters import Clusters
from dp_pipeline.results.measurement import NoisyMarginal
from dp_pipeline.results.synthetic_table import MOST_CELLS_SHOWN
from dp_pipeline.results.trees import CountedBoxes, summed_boxes

HEAD = ("attributes", "cell", "rows", "deviation", "deviation of one release")


@dataclass(frozen=True)
class SummedTable:
    """A table over the rows of all time windows, summed from their releases.

    labels       names of its cells
    counts       float (cells,)
    deviations   float (cells,), the standard deviation of the noise of each count
    windows      number of windows that were added up
    """

    attributes: Names
    labels: tuple[str, ...]
    counts: FloatArray
    deviations: FloatArray
    windows: int

    @property
    def single_release_deviations(self) -> FloatArray:
        """The standard deviations that one release of all these rows would have at the same ε."""
        return np.asarray(self.deviations / self.windows**0.5)


def roll_up(releases: Sequence[EpsilonRelease]) -> list[SummedTable]:
    """Return every table that all releases have measured, added up cell by cell.

    Of a clustering it is one table, of the finest boxes that all windows have in common.

    releases   of one model, one for each time window: at least one

    Raises NotPrepared for a window that is not released, and DeclarationError for numbers that
    cannot be added up, such as those of other declarations or parameters.
    """
    first = releases[0]
    where = f"{first.spec.name}: {first.name}"
    if first.span > 1:
        raise DeclarationError(
            f"{where}: releases to be added up must be of one window each, not of "
            f"{first.span}, whose rows would count more than once: choose a model that `publish` "
            "lists with span 1"
        )
    if isinstance(first.model, Clustering):
        return [_sum_boxes(releases)]
    return _sum_tables(releases, where)


def _sum_boxes(releases: Sequence[EpsilonRelease]) -> SummedTable:
    total = summed_boxes([_counted_boxes(release, _bundle(release)) for release in releases])
    if total is None:
        raise DeclarationError(
            f"{'/'.join(releases[0].path)}: the boxes of the windows have grids of different "
            "sizes, so they cannot be added up: choose windows of equal grids, or declare "
            "the parameter `nominal_rows` of the model and release all of them anew"
        )
    ends = np.stack([total.lower, total.upper], axis=2).tolist()
    labels = tuple(", ".join(f"{low:.10g} to {high:.10g}" for low, high in box) for box in ends)
    deviations = np.sqrt(total.variances)
    return SummedTable(total.columns, labels, total.counts, deviations, len(releases))


def _counted_boxes(release: EpsilonRelease, bundle: Bundle) -> CountedBoxes:
    released = release.replay_fit(as_release_key(replay.key_of(release, bundle))).released
    synopsis = released.synopsis if isinstance(released, Clusters) else None
    if synopsis is None or synopsis.counted is None:
        plans = release.model.plans_from_earlier
        raise DeclarationError(
            f"{release.what}: the boxes must each be counted once to be added up, but the model "
            f"releases {release.model.uncounted}: "
            + ("leave this window out" if plans else "choose another model")
        )
    return synopsis.counted


def _sum_tables(releases: Sequence[EpsilonRelease], where: str) -> list[SummedTable]:
    first = releases[0]
    if getattr(first.model, "smooth", "false") == "true":
        raise DeclarationError(
            f"{where}: smoothed numbers of several windows share noise, so they cannot be added "
            "up: choose another model, or declare `smooth: false` of this one, which charges the ε "
            "of each window once more"
        )
    windows = [_noisy_tables(release, _bundle(release)) for release in releases]
    names = dict.fromkeys(table.attributes for table in windows[0].measured)
    sums = [total for table in names if (total := sum_marginals(windows, table)) is not None]
    if not sums:
        raise DeclarationError(
            f"{where}: no table was measured in all of these windows, so nothing can be added up: "
            "choose other windows"
        )
    return [
        SummedTable(
            total.attributes,
            _labels(total.attributes, windows[0], first),
            total.table.ravel().astype(np.float64),
            np.full(total.table.size, total.variance**0.5),
            len(windows),
        )
        for total in sums
    ]


def _noisy_tables(release: EpsilonRelease, bundle: Bundle) -> StoredTables:
    tables = StoredTables.of(bundle.tables, release.spec.domain)
    if tables is not None:
        return tables
    if "measured" not in bundle.tables:
        why = release.model.uncounted
    elif "cells" not in bundle.tables:
        why = f"more than {MOST_CELLS_SHOWN:,} cells, which are not stored one by one"
    else:
        why = "tables over groups of levels that the release does not list"
    raise DeclarationError(
        f"{release.what}: the release must hold noisy tables over attributes to be added up, but "
        f"it has {why}: choose another model"
    )


def _bundle(release: EpsilonRelease) -> Bundle:
    """Return the settled bundle of a window; NotPrepared if there is none.

    DeclarationError if it was made with other declarations or parameters."""
    spec, home, pointer = (
        release.spec,
        release.home,
        replay.read_document(replay.pointer_path(release)),
    )
    if pointer is None:
        facts = {"model": release.name, "epsilon": release.level}
        command = replay.command_of(spec.name, facts, window=spec.window)
        raise NotPrepared(
            f"{release.what}: the window is not released: `dp-pipeline {command}` makes it"
        )
    bundle = replay.pointed_bundle(spec, home, pointer, model=release.name, epsilon=release.level)
    snapshot = replay.snapshot_by_name(spec, home, bundle.facts["snapshot"])
    key = as_release_key(release.key(snapshot))
    declared = {"declaration": key.declaration, "measuring": fact_text(key.measuring)}
    for name, text in declared.items():
        got = bundle.facts.get(name)
        if got != text:
            other = "other declarations than the file has now"
            if name == "measuring":
                other = f"the parameters {got}, but the file now has {text}"
            raise DeclarationError(
                f"{release.what}: the release was made with {other}: put back those it was made "
                "with, or choose windows released since"
            )
    return bundle


def sum_marginals(windows: Sequence[StoredTables], names: Names) -> NoisyMarginal | None:
    """Return the sum of the tables over ``names``, with the sum of their variances.

    It is marked as Gaussian whatever its noise, so that ``scale`` is that sum. None if a window has
    no such table, or has other groups of levels."""
    marginals = [window.of_names(names) for window in windows]
    # A table of one attribute is over its levels, whatever groups tables of several are over.
    grouped = names if len(names) > 1 else ()
    groupings = [[window.groupings.get(name) for name in grouped] for window in windows]
    measured = [marginal for marginal in marginals if marginal is not None]
    if len(measured) < len(windows) or any(other != groupings[0] for other in groupings):
        return None
    table = np.sum([marginal.table for marginal in measured], axis=0)
    variance = sum((Fraction(marginal.variance) for marginal in measured), Fraction(0))
    return NoisyMarginal(names, table, variance, gaussian=True)


def _labels(names: Names, tables: StoredTables, release: EpsilonRelease) -> tuple[str, ...]:
    """Return a name for each cell, made of its levels, or of groups of levels in large tables."""
    cells = [""]
    for name in names:
        labels = release.spec.domain[name].labels()
        if len(names) > 1 and name in tables.groupings:
            groups: dict[int, list[str]] = {}
            for label, group in zip(labels, tables.groupings[name].groups, strict=True):
                groups.setdefault(group, []).append(label)
            labels = tuple(" or ".join(inside) for inside in groups.values())
        cells = [f"{before}, {label}" if before else label for before in cells for label in labels]
    return tuple(cells)


def write_roll_up(releases: Sequence[EpsilonRelease]) -> Path:
    """Write the tables of ``roll_up`` to a CSV file in the folder of reports; return its path."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(HEAD)
    for table in roll_up(releases):
        attributes = ", ".join(table.attributes)
        deviations = zip(table.deviations, table.single_release_deviations, strict=True)
        for label, rows, pair in zip(table.labels, table.counts, deviations, strict=True):
            texts = [f"{deviation:.3g}" for deviation in pair]
            writer.writerow([attributes, label, f"{rows:.0f}", *texts])
    first, last = releases[0], releases[-1]
    name = f"{first.name}.{first.spec.window}..{last.spec.window}.{first.level}.csv"
    path = first.home.reports / f"{first.spec.name}.roll_ups" / name
    write_private(path, text.getvalue().encode())
    return path
