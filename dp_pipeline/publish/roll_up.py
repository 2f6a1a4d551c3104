"""Roll-ups: what was released of several windows, added up. It is public already: it costs nothing.

*Variance.* Windows are of different rows and their noise was drawn apart, so the variance of a sum
is the sum of the variances. One release of all of those rows at the same ε has the noise of one
window: the sum of m windows has √m times as much, which is stated beside it. Numbers that were
smoothed share the noise of earlier windows, so they are not added up.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from dp_pipeline.inference.earlier import EarlierTables
from dp_pipeline.models import build_model
from dp_pipeline.publish.epsilon_release import EpsilonRelease
from dp_pipeline.publish.replay import pointed_bundle, pointer_path, read_json
from dp_pipeline.publish.store import write_atomically
from dp_pipeline.release.bundle import Bundle
from dp_pipeline.release.derived_attribute import Grouping
from dp_pipeline.release.measurement import NoisyMarginal
from dp_pipeline.spec.encoding import Names
from dp_pipeline.spec.errors import DeclarationError, NotPrepared

HEAD = ("attributes", "cell", "rows", "deviation", "deviation of one release")


@dataclass(frozen=True)
class SummedTable:
    """One table over the rows of all windows.

    counts      float (cells,), in the order of its levels or groups
    deviation   of the noise in each
    direct      of the noise that one release of all these rows would have had at the same ε
    """

    attributes: Names
    labels: tuple[str, ...]
    counts: np.ndarray
    deviation: float
    direct: float


def roll_up(releases: Sequence[EpsilonRelease]) -> list[SummedTable]:
    """The tables that every one of some releases has measured, added up cell by cell.

    releases   of one model, one for each window

    Raises NotPrepared for a window that is not released, and DeclarationError for a model whose
    numbers are smoothed, or that releases no tables.
    """
    first = releases[0]
    where = f"{first.spec.name}: {first.name}"
    if first.span > 1:
        raise DeclarationError(
            f"{where}: expected releases of one window each, got some of {first.span}: their rows "
            "would count more than once"
        )
    if getattr(build_model(first.spec, first.name), "smooth", "false") == "true":
        raise DeclarationError(
            f"{where}: expected noisy numbers of one window each, got smoothed ones, which share "
            "noise: declare `smooth: false` for what is to be added up"
        )
    found = [EarlierTables.of(_bundle(one).tables, one.spec.domain) for one in releases]
    known = [one for one in found if one is not None]
    if len(known) < len(found):
        raise DeclarationError(f"{where}: expected a model that releases noisy tables, got none")
    every = dict.fromkeys(one.attributes for one in known[0].measured)
    sums = [table for names in every if (table := summed(known, names)) is not None]
    return [
        SummedTable(
            one.attributes,
            _labels(one.attributes, known[0], first),
            one.table.ravel().astype(np.float64),
            one.variance**0.5,
            (one.variance / len(known)) ** 0.5,
        )
        for one in sums
    ]


def _bundle(release: EpsilonRelease) -> Bundle:
    pointer = read_json(pointer_path(release))
    if pointer is None:
        raise NotPrepared(
            f"{release.what}: expected a release, got none: `dp-pipeline run {release.spec.name} "
            f"--window {release.spec.window}` makes it"
        )
    spec, home = release.spec, release.home
    return pointed_bundle(spec, home, pointer, model=release.name, epsilon=release.level)


def summed(known: Sequence[EarlierTables], names: Names) -> NoisyMarginal | None:
    """The sum of the tables over some attributes, and its variance; None where a window has none
    over the same groups of levels.
    """
    tables = [one.of_names(names) for one in known]
    groups = [[one.groupings.get(name) for name in names] for one in known]
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
        for label, rows in zip(table.labels, table.counts.tolist(), strict=True):
            line = (", ".join(table.attributes), label, f"{rows:.0f}")
            writer.writerow([*line, f"{table.deviation:.3g}", f"{table.direct:.3g}"])
    one, last = releases[0], releases[-1]
    name = f"{one.name}.{one.spec.window}..{last.spec.window}.{one.level}.csv"
    path = one.home.reports / f"{one.spec.name}.roll_ups" / name
    write_atomically(path, text.getvalue().encode())
    return path
