"""Plots of synthetic rows, alone or with real ones, on matplotlib axes.

Bins and levels are those of the synthetic rows: a plot of them alone shows nothing of a real row.
With real rows a plot is exact, as sensitive as they are, and not for publication. Matplotlib is
imported late, because it takes long.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dp_pipeline.config.clock import DAY, Clock
from dp_pipeline.config.encoding import Coordinate, FloatArray, IntArray, Names
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.estimators.column_types import kind_of_column, zone_of
from dp_pipeline.estimators.frames import (
    features_of,
    is_among,
    numbers_of,
    numeric_rows,
    plain_frame,
    position_names,
    to_arrow,
)
from dp_pipeline.estimators.parameters import InvalidParameter, invalid_parameters, name_argument
from dp_pipeline.estimators.private_kmeans import PrivateKMeans
from dp_pipeline.estimators.private_synthesizer import PrivateSynthesizer
from dp_pipeline.raw.comparison import distances
from dp_pipeline.raw.values import texts, times
from dp_pipeline.reporting.figures.cluster_map import draw_map
from dp_pipeline.reporting.figures.cluster_view import ClusterView
from dp_pipeline.reporting.figures.marginals import draw_shares
from dp_pipeline.reporting.figures.picture import COLOURS, INK, MUTED, shorten_label, style_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MOST_PAIRED = 30
"""Most columns of a plot of pairs."""

Columns = str | int | Sequence[str | int] | None
"""Names of some columns, as a frame has them; None: all."""


def plot_marginals(
    synthetic: Any, real: Any = None, *, columns: Columns = None, ax: Any = None
) -> Any:
    """Draw the shares of rows in each cell of some columns: synthetic bars, and real rows as dots.

    synthetic   a frame of pandas, polars or Arrow, such as ``sample()``
    real        another frame with the same columns; None draws synthetic rows alone
    columns     one name or several, at most nine; None: all
    ax          axes to draw one column on; None: new ones

    Returns the axes of one column, or an array of the axes of several. Raises InvalidParameter for
    no frame, for columns that are not there, and for several columns on given axes.
    """
    with invalid_parameters():
        cells_by_name = _cells_by_name(synthetic, real, columns, most=9)
        if ax is not None and len(cells_by_name) > 1:
            raise DeclarationError(
                f"ax: expected one column to draw on it, got {len(cells_by_name)} columns: "
                "leave ax out"
            )
    panels = [_axes(ax)] if ax is not None else _panels(len(cells_by_name))
    for panel, (name, cells) in zip(panels, cells_by_name.items(), strict=False):
        synthetic_shares, *real_shares = cells.shares()
        # Other and missing values always have a label: without one they read as the largest
        # numbers.
        count = len(cells.labels)
        scale = count - sum(label in (OTHER, MISSING) for label in cells.labels[-2:])
        ticks = [*range(0, scale, math.ceil(count / 10)), *range(scale, count)]
        draw_shares(panel, name, cells.labels, bars=synthetic_shares, ticks=ticks)
        for shares in real_shares:
            panel.plot(shares, range(count), "o", color=COLOURS[1], markersize=4, label="real")
            panel.legend(edgecolor="none", framealpha=0.85, fontsize=8, labelcolor=INK)
    axes = np.array(panels[: len(cells_by_name)], dtype=object)
    return axes[0] if len(axes) == 1 else axes


def plot_pairs(synthetic: Any, real: Any = None, *, columns: Columns = None, ax: Any = None) -> Any:
    """Draw a square for every pair of columns: its error, or its dependence without real rows.

    With real rows it is the total variation distance between their shares and the synthetic ones, 0
    = alike, 1 = nothing in common. Without them it is Cramér's V among the synthetic rows.

    Arguments and errors are those of ``plot_marginals``; at least two columns and at most 30.
    Returns the axes.
    """
    with invalid_parameters():
        cells_by_name = _cells_by_name(synthetic, real, columns, most=MOST_PAIRED)
        if len(cells_by_name) < 2:
            raise DeclarationError(
                f"columns: a plot of pairs needs at least two columns, got {len(cells_by_name)}: "
                "name another, or use `plot_marginals`"
            )
    axes = _axes(ax)
    names = list(cells_by_name)
    sizes = {name: len(cells.labels) for name, cells in cells_by_name.items()}
    pairs: list[Names] = list(combinations(names, 2))
    synthetic_codes = {name: cells.codes[0] for name, cells in cells_by_name.items()}
    if real is None:
        values = {pair: _cramers_v(*(synthetic_codes[name] for name in pair)) for pair in pairs}
    else:
        real_codes = {name: cells.codes[1] for name, cells in cells_by_name.items()}
        values = distances(real_codes, synthetic_codes, sizes, pairs)
    square = np.full((len(names), len(names)), np.nan)
    for (first, second), value in values.items():
        square[names.index(second), names.index(first)] = value
    words = "Cramér's V of synthetic rows" if real is None else "distance from real rows"
    _draw_square(axes, names, square, words)
    return axes


def plot_map(kmeans: PrivateKMeans, real: Any = None, *, ax: Any = None) -> Any:
    """Draw released centres on a map of their noisy boxes, where the method has some.

    Real rows are points above them. Of more than two columns longitude and latitude are shown if
    there are these, else the two with the widest bounds.

    kmeans   a fitted estimator
    real     rows as ``fit`` takes them; None draws what was released alone

    Returns the axes. Raises InvalidParameter for what is no fitted PrivateKMeans, and for rows
    with other columns.
    """
    if not isinstance(kmeans, PrivateKMeans):
        raise InvalidParameter(
            f"kmeans: the value must be a fitted PrivateKMeans, not {type(kmeans).__name__}"
        )
    check_is_fitted(kmeans)
    fitted_names = getattr(kmeans, "feature_names_in_", position_names(0, kmeans.n_features_in_))
    names = tuple(map(str, fitted_names))
    box = [Coordinate(low, high) for low, high in kmeans.bounds_.tolist()]
    tables: dict[str, Any] = {"centres": dict(zip(names, kmeans.cluster_centers_.T, strict=True))}
    if kmeans.synopsis_ is not None:
        tables["synopsis"] = replace(kmeans.synopsis_, columns=names).table()
    view = ClusterView.of("centres", tables, box)
    axes = _axes(ax)
    if real is not None:
        with invalid_parameters():
            points = _points(real, names, view)
        axes.plot(*points, ".", color=MUTED, markersize=2, alpha=0.4, zorder=3)
    draw_map(axes, view)
    return axes


def _cells_by_name(synthetic: Any, real: Any, columns: Columns, *, most: int) -> dict[str, Cells]:
    frames = [
        _columns_by_name(kind, table)
        for kind, table in (("synthetic", synthetic), ("real", real))
        if kind == "synthetic" or table is not None
    ]
    names: list[Any] = [columns]
    if columns is None:
        names = list(frames[0])
    elif isinstance(columns, Iterable) and not isinstance(columns, str):
        names = list(columns)
    for kind, frame in zip(("synthetic", "real"), frames, strict=False):
        unknown_names = [name for name in names if not is_among(name, frame)]
        if unknown_names:
            shared = [str(name) for name in frame if all(name in other for other in frames)]
            remedy = f"choose from {', '.join(shared)}" if shared else "pass rows with that column"
            raise DeclarationError(
                f"columns: the frame of {kind} rows has no column {unknown_names[0]!r:.60}: "
                f"{remedy}"
            )
    if not 1 <= len(names) <= most:
        raise DeclarationError(
            f"columns: a plot takes 1 to {most} columns, not {len(names)}: name some of them"
        )
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise DeclarationError(
            f"columns: a plot takes different columns, but {repeated!r:.60} is repeated: name each "
            "once"
        )
    return {str(name): code_cells([frame[name] for frame in frames]) for name in names}


def _columns_by_name(kind: str, table: Any) -> Mapping[Any, Any]:
    if isinstance(table, PrivateSynthesizer):
        raise DeclarationError(
            f"{kind}: the table must be a frame, not a PrivateSynthesizer: pass its `sample()`"
        )
    with name_argument(kind):
        features = features_of(plain_frame(table))
    labels = features.labels or position_names(0, len(features.columns))
    return dict(zip(labels, features.columns, strict=True))


def _cramers_v(first: IntArray, second: IntArray) -> float:
    """Return Cramér's V of two columns, a measure of their dependence; 0 if one is constant.

    >>> _cramers_v(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0]))
    1.0
    """
    import pandas as pd
    from scipy.stats.contingency import association

    table = pd.crosstab(first, second).to_numpy()
    return float(association(table, method="cramer")) if min(table.shape) > 1 else 0.0


def _points(real: Any, names: Sequence[str], view: ClusterView) -> tuple[FloatArray, FloatArray]:
    """Return x and y of real rows on a map, clipped to the box; rows with NaN in these are left
    out."""
    with name_argument("real"):
        rows = numeric_rows(real, len(names))
    x, y = (
        np.clip(rows[:, names.index(name)], side.lower, side.upper)
        if name in names
        else np.full(len(rows), side.middle)
        for name, side in zip(view.columns, view.box, strict=True)
    )
    is_number = ~(np.isnan(x) | np.isnan(y))
    return x[is_number], y[is_number]


def _axes(ax: Any) -> Axes:
    from matplotlib.axes import Axes

    if ax is not None and not isinstance(ax, Axes):
        raise InvalidParameter(
            f"ax: expected matplotlib's axes, got {type(ax).__name__}: leave it out for new ones"
        )
    return _panels(1)[0] if ax is None else ax


def _panels(count: int) -> list[Axes]:
    """Return ``count`` new pyplot axes, in rows of up to three, which a notebook shows."""
    from matplotlib import pyplot as plt

    across, down = min(3, count), math.ceil(count / 3)
    size = (5.4, 4.6) if count == 1 else (3.4 * across, 2.8 * down)
    _, grid = plt.subplots(down, across, figsize=size, squeeze=False, layout="constrained")
    panels = list(grid.ravel())
    for panel in panels[count:]:
        panel.set_axis_off()
    return panels


def _draw_square(axes: Axes, names: Sequence[str], square: NDArray[Any], words: str) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    shades = LinearSegmentedColormap.from_list("pairs", ["#ffffff", COLOURS[0]])
    image = axes.imshow(square[1:, :-1], cmap=shades, vmin=0.0, vmax=1.0)
    short = [shorten_label(name, width=19) for name in names]
    axes.set_xticks(range(len(names) - 1), short[:-1], rotation=45, ha="right")
    axes.set_yticks(range(len(names) - 1), short[1:])
    if len(names) <= 12:
        for (row, column), value in np.ndenumerate(square[1:, :-1]):
            if np.isfinite(value):
                ink = "white" if value > 0.6 else INK
                axes.text(
                    column, row, f"{value:.2f}", ha="center", va="center", fontsize=7.5, color=ink
                )
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.8)
    bar.set_label(words, color=MUTED, size=8.5)
    style_frame(axes)


BINS = 20
"""Bins of a column with more than ``MOST_LEVELS`` different numbers, at most."""

MOST_LEVELS = 20
"""Most cells of a column of texts, of which the rarest in the first table are one cell, or of
numbers that are shown one by one."""

OTHER, MISSING = "other", "missing"


class Cells(NamedTuple):
    """The cells that one column has in common in some tables.

    labels   a text for each cell
    codes    for each table, the position of every row's cell in ``labels``
    """

    labels: list[str]
    codes: list[IntArray]

    def shares(self) -> list[FloatArray]:
        """Return, for each table, the share of its rows in every cell (cells,)."""
        size = len(self.labels)
        return [
            np.asarray(np.bincount(codes, minlength=size) / max(1, len(codes)))
            for codes in self.codes
        ]


def code_cells(columns: Sequence[Any]) -> Cells:
    """Return cells for one column of some tables: bins of many numbers or dates, else levels.

    columns   the column in each table; its values in the first determine the cells

    Levels are the most frequent texts in the first table, one for all others, and one for missing
    values.
    """
    import pandas as pd

    kinds = set(map(kind_of_column, columns))
    if kinds <= {"whole", "numbers", "durations"}:
        return _bin_numbers([numbers_of(column)[0] for column in columns], _number_text)
    if kinds <= {"dates", "times"}:
        return _bin_numbers([_days(column) for column in columns], _day_text)
    rows = []
    for column in columns:
        places, words = texts(to_arrow(column))
        # The last entry is for missing values, whose place is −1.
        rows.append(pd.Series(np.array([*words, None], dtype=object)[places]))
    labels = rows[0].value_counts().index.tolist()
    if len(labels) > MOST_LEVELS:
        labels = labels[: MOST_LEVELS - 1]
    code_of, other = {text: code for code, text in enumerate(labels)}, len(labels)
    codes = [
        np.where(words.isna(), other + 1, words.map(code_of).fillna(other)).astype(np.int64)
        for words in rows
    ]
    if any((column == other).any() for column in codes):
        return _build_cells([*labels, OTHER], codes)
    return _build_cells(labels, [np.minimum(column, other) for column in codes])


def _bin_numbers(numbers: Sequence[FloatArray], text: Callable[[float], str]) -> Cells:
    """Return cells for the numbers of one column: each number if they are few, else bins of equal
    width; and a last one for missing values if any table has some.

    A number that the first table lacks is in the nearest cell.

    Bins of integers have an integer width: else some would hold more integers than others.

    numbers   the column in each table; the first determines the cells
    text      writes a number
    """
    distinct = np.unique(numbers[0][np.isfinite(numbers[0])])
    if len(distinct) <= MOST_LEVELS:
        cuts, labels = (distinct[:-1] + distinct[1:]) / 2, [text(value) for value in distinct]
    elif np.array_equal(distinct, np.rint(distinct)):
        width = np.ceil((distinct[-1] - distinct[0] + 1) / BINS)
        lows = np.arange(distinct[0], distinct[-1] + 1, width)
        cuts = lows[1:]
        labels = [_range_text(text, low, min(low + width - 1, distinct[-1])) for low in lows]
    else:
        edges = np.linspace(distinct[0], distinct[-1], BINS + 1)
        text = _text_of_edges(edges, text)
        cuts, labels = edges[1:-1], [_range_text(text, *ends) for ends in pairwise(edges)]
    codes = [
        np.where(np.isnan(values), len(labels), np.searchsorted(cuts, values, side="right"))
        for values in numbers
    ]
    return _build_cells(labels, codes)


def _range_text(text: Callable[[float], str], low: float, high: float) -> str:
    """Return the text ``low to high``; ``from low`` for days, as an axis has no room for two; one
    number if both are equal."""
    if low == high:
        return text(low)
    return f"from {text(low)}" if text is _day_text else f"{text(low)} to {text(high)}"


def _text_of_edges(edges: FloatArray, text: Callable[[float], str]) -> Callable[[float], str]:
    """Return ``text``, or for numbers that it does not tell apart a function with more digits."""
    if text is not _number_text or len({text(edge) for edge in edges}) == len(edges):
        return text
    different = (n for n in range(5, 17) if len({f"{edge:.{n}g}" for edge in edges}) == len(edges))
    digits = next(different, 17)
    return lambda value: f"{value:.{digits}g}"


def _number_text(value: float) -> str:
    """Return a number as text for a plot: an integer from 1,000 to a million, else four digits.

    >>> _number_text(0.25), _number_text(11850.4), _number_text(2e9)
    ('0.25', '11850', '2e+09')
    """
    return f"{value:.0f}" if 1e3 <= abs(value) < 1e6 else f"{value:.4g}"


def _day_text(days: float) -> str:
    """Return the date of a number of days since 1970, and the time unless it is midnight.

    >>> _day_text(20089), _day_text(20089.5)
    ('2025-01-01', '2025-01-01 12:00')
    """
    moment = np.datetime64(round(days * 1440), "m")
    return str(moment.astype("M8[D]") if days == int(days) else moment).replace("T", " ")


def _days(column: Any) -> FloatArray:
    """Return dates and times (n,) on local clocks as days since 1970, NaN for a missing one."""
    clock = Clock("timestamp", zone_of(column))
    days = times(to_arrow(column, "time"), clock)
    is_time = ~np.isnan(days)
    days[is_time] = clock.wall_times(days[is_time]).astype(np.int64) / DAY
    return days


def _build_cells(labels: list[str], codes: list[IntArray]) -> Cells:
    """Return cells with these labels, and a last one for missing values if there are any, or if
    there is no label.

    codes   for each table, the cell of every row; ``len(labels)`` is a missing value
    """
    is_needed = not labels or any((column == len(labels)).any() for column in codes)
    return Cells([*labels, *([MISSING] if is_needed else [])], codes)
