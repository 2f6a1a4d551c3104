"""Plots of synthetic rows, with real ones beside them where their user has some: matplotlib axes.

Bins and levels are those of the synthetic rows: what is drawn of them alone says nothing of a real
row. With real rows a plot is exact, as sensitive as they are, and not for publication.

Matplotlib is imported late: whoever plots nothing does not wait for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dp_pipeline.config.encoding import Coordinate, FloatArray, IntArray, Names
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.estimators.frames import (
    features_of,
    numbered,
    numeric_rows,
    plain_frame,
    text_of,
)
from dp_pipeline.estimators.parameters import InvalidParameter, invalid_parameters
from dp_pipeline.estimators.private_kmeans import PrivateKMeans
from dp_pipeline.estimators.private_synthesizer import PrivateSynthesizer
from dp_pipeline.raw.comparison import distances
from dp_pipeline.reporting.figures.cluster_map import draw_map
from dp_pipeline.reporting.figures.cluster_view import ClusterView
from dp_pipeline.reporting.figures.picture import COLOURS, INK, MUTED, RULE, plain, quiet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 20
"""Cells of a column of numbers."""

MOST_LEVELS = 20
"""Cells of a column of texts; those that are rarest among the synthetic rows are one."""

MOST_PAIRED = 30
"""Columns of a plot of pairs."""

OTHER, MISSING = "other", "missing"

Columns = str | int | Sequence[str | int] | None
"""Names of some columns, as a frame has them; None: all."""


def plot_marginals(
    synthetic: Any,
    real: Any = None,
    *,
    columns: Columns = None,
    ax: Any = None,
) -> Any:
    """Shares of the rows in each cell of some columns: bars of synthetic rows, dots of real ones.

    synthetic   a frame of pandas, polars or Arrow, such as ``sample()``
    real        another one with the same columns; None draws synthetic rows alone
    columns     one name or several; all where None, at most nine
    ax          axes to draw one column on; new ones where None

    Returns the axes of one column, or an array of them. Raises InvalidParameter for no frame, for
    columns that are not there, and for several columns on given axes.
    """
    with invalid_parameters():
        tables = _tables(synthetic, real, columns, most=9)
        if ax is not None and len(tables) > 1:
            raise DeclarationError(f"ax: expected None for several columns, got {len(tables)}")
    panels = [ax] if ax is not None else _panels(len(tables))
    for panel, (name, (labels, shares)) in zip(panels, tables.items(), strict=False):
        _draw_marginal(panel, name, labels, [_shares(one, len(labels)) for one in shares])
    drawn = np.array(panels[: len(tables)], dtype=object)
    return drawn[0] if len(drawn) == 1 else drawn


def plot_pairs(
    synthetic: Any,
    real: Any = None,
    *,
    columns: Columns = None,
    ax: Any = None,
) -> Any:
    """A square for every pair of columns. With real rows: total variation distance between their
    shares and the synthetic ones, 0 = alike, 1 = nothing in common. Without: how much the two
    depend on each other among the synthetic rows, Cramér's V.

    Arguments and errors are those of ``plot_marginals``; at least two columns and at most 30.
    Returns the axes.
    """
    with invalid_parameters():
        tables = _tables(synthetic, real, columns, most=MOST_PAIRED)
        if len(tables) < 2:
            raise DeclarationError(f"columns: expected at least two, got {len(tables)}")
    axes = _panels(1)[0] if ax is None else ax
    names, sizes = list(tables), {name: len(labels) for name, (labels, _) in tables.items()}
    ways: list[Names] = list(combinations(names, 2))
    drawn = {name: codes[0] for name, (_, codes) in tables.items()}
    if real is None:
        found = {way: _dependence(drawn[way[0]], drawn[way[1]]) for way in ways}
    else:
        rows = {name: codes[1] for name, (_, codes) in tables.items()}
        found = distances(rows, drawn, sizes, ways)
    square = np.full((len(names), len(names)), np.nan)
    for way, value in found.items():
        square[names.index(way[1]), names.index(way[0])] = value
    words = "Cramér's V of synthetic rows" if real is None else "distance from real rows"
    _draw_square(axes, names, square, words)
    return axes


def plot_map(kmeans: PrivateKMeans, real: Any = None, *, ax: Any = None) -> Any:
    """Released centres on a map of the noisy boxes that they were made from, where the method keeps
    some; real rows as points above them. Of more than two columns the two widest are shown.

    kmeans   fitted
    real     rows as ``fit`` takes them; None draws what was released alone

    Returns the axes. Raises InvalidParameter for what is no fitted PrivateKMeans, and for rows
    with other columns.
    """
    if not isinstance(kmeans, PrivateKMeans):
        raise InvalidParameter(f"kmeans: expected a PrivateKMeans, got {type(kmeans).__name__}")
    check_is_fitted(kmeans)
    named = getattr(kmeans, "feature_names_in_", None)
    names = numbered(0, kmeans.n_features_in_) if named is None else tuple(map(str, named))
    box = [Coordinate(low, high) for low, high in kmeans.bounds_.tolist()]
    tables: dict[str, Any] = {"centres": dict(zip(names, kmeans.cluster_centers_.T, strict=True))}
    if kmeans.synopsis_ is not None:
        tables["synopsis"] = replace(kmeans.synopsis_, columns=names).table()
    view = ClusterView.of("centres", tables, box)
    axes = _panels(1)[0] if ax is None else ax
    if real is not None:
        with invalid_parameters():
            points = _points(real, names, view)
        axes.plot(*points, ".", color=MUTED, markersize=2, alpha=0.4, zorder=3)
    draw_map(axes, view)
    return axes


Table = tuple[list[str], list[IntArray]]
"""Labels of the cells of a column, and the cell of every synthetic and every real row."""


def _tables(synthetic: Any, real: Any, columns: Columns, *, most: int) -> dict[str, Table]:
    """Column → its cells, for the columns that are asked for."""
    frames = [_named(one) for one in (synthetic, real) if one is not None]
    names = (
        [columns]
        if isinstance(columns, str | int)
        else list(frames[0] if columns is None else columns)
    )
    for frame, role in zip(frames, ("columns", "real"), strict=False):
        unknown = [name for name in names if name not in frame]
        if unknown and role == "real" and unknown[0] in frames[0]:
            raise DeclarationError(f"real: expected a column {unknown[0]!r:.60}, got none")
        if unknown:
            raise DeclarationError(
                f"columns: expected some of {', '.join(map(str, frame))}, got {unknown[0]!r:.60}"
            )
    if not 1 <= len(names) <= most or len(set(names)) < len(names):
        raise DeclarationError(
            f"columns: expected 1 to {most} different ones, got {len(names)}: name some of them"
        )
    return {str(name): _coded([frame[name] for frame in frames]) for name in names}


def _named(table: Any) -> Mapping[Any, Any]:
    """Name → values of a column, of a frame or an array."""
    import pandas as pd

    if isinstance(table, PrivateSynthesizer):
        raise DeclarationError(
            "plot: expected a frame, got PrivateSynthesizer: `sample()` makes one of it"
        )
    features = features_of(plain_frame(table))
    labels = features.labels or numbered(0, len(features.columns))
    return {name: pd.Series(one) for name, one in zip(labels, features.columns, strict=True)}


def _coded(given: Sequence[Any]) -> Table:
    """Cells of one column: bins of many numbers or dates, else levels. The first one decides."""
    for read, text in ((_numbers, _number_text), (_days, _day_text)):
        found = [read(one) for one in given]
        numbers = [one for one in found if one is not None]
        if len(numbers) == len(given):
            return _binned(numbers, text)
    return _levels(given)


def _binned(numbers: Sequence[FloatArray], text: Callable[[float], str]) -> Table:
    """Cells of numbers: each one where they are few, else bins of one width. That of whole numbers
    is whole: else some bins held more of them than others, and bars would go up and down by that.
    """
    known = np.unique(numbers[0][np.isfinite(numbers[0])])
    if len(known) <= MOST_LEVELS:
        cuts, labels = (known[:-1] + known[1:]) / 2, [text(value) for value in known]
    elif np.array_equal(known, np.rint(known)):
        width = np.ceil((known[-1] - known[0] + 1) / BINS)
        lows = np.arange(known[0], known[-1] + 1, width)
        cuts = lows[1:]
        labels = [_range_text(text, low, min(low + width - 1, known[-1])) for low in lows]
    else:
        edges = np.linspace(known[0], known[-1], BINS + 1)
        text = _text_of_edges(edges, text)
        cuts, labels = edges[1:-1], [_range_text(text, *ends) for ends in pairwise(edges)]
    codes = [
        np.where(np.isnan(one), len(labels), np.searchsorted(cuts, one, side="right"))
        for one in numbers
    ]
    return _with_missing(labels, codes)


def _range_text(text: Callable[[float], str], low: float, high: float) -> str:
    """Of days the first alone: two are longer than an axis has room for."""
    if low == high:
        return text(low)
    return f"from {text(low)}" if text is _day_text else f"{text(low)} to {text(high)}"


def _text_of_edges(edges: FloatArray, text: Callable[[float], str]) -> Callable[[float], str]:
    """``text``, or of numbers that lie close together as many digits as tell them apart."""
    if text is not _number_text or len({text(edge) for edge in edges}) == len(edges):
        return text
    different = (n for n in range(5, 17) if len({f"{edge:.{n}g}" for edge in edges}) == len(edges))
    digits = next(different, 17)
    return lambda value: f"{value:.{digits}g}"


def _number_text(value: float) -> str:
    """
    >>> _number_text(0.25), _number_text(11850.4), _number_text(2e9)
    ('0.25', '11850', '2e+09')
    """
    return f"{value:.0f}" if 1e3 <= abs(value) < 1e6 else f"{value:.4g}"


def _day_text(days: float) -> str:
    """
    >>> _day_text(20089), _day_text(20089.5)
    ('2025-01-01', '2025-01-01 12:00')
    """
    moment = np.datetime64(round(days * 1440), "m")
    return str(moment.astype("M8[D]") if days == int(days) else moment).replace("T", " ")


def _days(values: Any) -> FloatArray | None:
    """Dates and times, as the clocks there say it, as days since 1970, NaN where one is missing;
    None of other things.
    """
    import pandas as pd

    if values.dtype.kind not in "OM" or values.isna().all():
        return None
    if values.dtype.kind == "O" and pd.api.types.infer_dtype(values, skipna=True) not in (
        "date",
        "datetime",
    ):
        return None
    moments = pd.to_datetime(values, utc=values.dtype.kind == "O", errors="coerce")
    found = (moments.dt.tz_localize(None) - pd.Timestamp(0)) / pd.Timedelta(days=1)
    return np.asarray(found.to_numpy(dtype=np.float64, na_value=np.nan))


def _numbers(values: Any) -> FloatArray | None:
    """Numbers as floats, NaN where one is missing; None of other things."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    if is_bool_dtype(values.dtype) or not is_numeric_dtype(values.dtype):
        return None
    return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))


def _levels(given: Sequence[Any]) -> Table:
    """The most frequent texts of the first column, and one cell for all others."""
    import pandas as pd

    texts = []
    for one in given:
        places, values = pd.factorize(one)
        named = np.array([*(str(text_of(value)) for value in values), None], dtype=object)
        texts.append(pd.Series(named[places]))
    labels = texts[0].value_counts().index.tolist()
    is_cut = len(labels) > MOST_LEVELS
    kept = labels[: MOST_LEVELS - 1] if is_cut else labels
    at = {text: place for place, text in enumerate(kept)}
    codes = [
        np.where(one.isna(), len(kept) + 1, one.map(at).fillna(len(kept))).astype(np.int64)
        for one in texts
    ]
    if not any((one == len(kept)).any() for one in codes):
        return _with_missing(kept, [np.minimum(one, len(kept)) for one in codes])
    return _with_missing([*kept, OTHER], codes)


def _with_missing(labels: list[str], codes: list[IntArray]) -> Table:
    """With a cell for missing values, the last one, where there is one or nothing else."""
    is_there = not labels or any((one == len(labels)).any() for one in codes)
    return [*labels, *([MISSING] if is_there else [])], codes


def _shares(codes: IntArray, cells: int) -> FloatArray:
    return np.asarray(np.bincount(codes, minlength=cells) / max(1, len(codes)))


def _dependence(one: IntArray, other: IntArray) -> float:
    """Cramér's V of two columns; 0 where one is constant.

    >>> _dependence(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0]))
    1.0
    """
    from scipy.stats.contingency import association

    width = int(other.max(initial=0)) + 1
    counts = np.bincount(one * width + other, minlength=width)
    table = np.pad(counts, (0, -len(counts) % width)).reshape(-1, width)
    table = table[table.any(axis=1)][:, table.any(axis=0)]
    return float(association(table, method="cramer")) if min(table.shape) > 1 else 0.0


def _points(real: Any, names: Sequence[str], view: ClusterView) -> tuple[FloatArray, FloatArray]:
    """Where rows are on the two axes of a map: clipped to the box, and none with NaN."""
    rows = numeric_rows(real, len(names))
    x, y = (
        np.clip(rows[:, names.index(name)], side.lower, side.upper)
        if name in names
        else np.full(len(rows), side.middle)
        for name, side in zip(view.columns, view.box, strict=True)
    )
    known = ~(np.isnan(x) | np.isnan(y))
    return x[known], y[known]


def _panels(many: int) -> list[Axes]:
    """New axes, three beside each other, which a notebook shows."""
    from matplotlib import pyplot as plt

    across, down = min(3, many), math.ceil(many / 3)
    size = (5.4, 4.6) if many == 1 else (3.4 * across, 2.8 * down)
    _, grid = plt.subplots(down, across, figsize=size, squeeze=False, layout="constrained")
    panels = list(grid.ravel())
    for panel in panels[many:]:
        panel.set_axis_off()
    return panels


def _draw_marginal(
    axes: Axes, name: str, labels: Sequence[str], shares: Sequence[FloatArray]
) -> None:
    places = np.arange(len(labels))
    axes.barh(places, shares[0], height=0.78, color=COLOURS[0], label="synthetic")
    if len(shares) > 1:
        axes.plot(shares[1], places, "o", color=COLOURS[1], markersize=4, label="real")
        axes.legend(edgecolor="none", framealpha=0.85, fontsize=8, labelcolor=INK)
    named = _named_places(labels)
    axes.set_yticks(named, [plain(labels[place], width=19) for place in named])
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(lambda share, _: f"{100 * share:.3g}%")
    axes.set_title(plain(name, width=30), loc="left", fontsize=9.5, color=INK)
    axes.grid(axis="x", color=RULE, linewidth=0.6)
    quiet(axes)


def _named_places(labels: Sequence[str]) -> list[int]:
    """Where there is room for a label. The last cells are none of the scale where
    they hold other or missing values: a bar without a word would be read as the largest numbers.
    """
    scale = len(labels) - sum(label in (OTHER, MISSING) for label in labels[-2:])
    return [*range(0, scale, math.ceil(len(labels) / 10)), *range(scale, len(labels))]


def _draw_square(axes: Axes, names: Sequence[str], square: NDArray[Any], words: str) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    shades = LinearSegmentedColormap.from_list("pairs", ["#ffffff", COLOURS[0]])
    image = axes.imshow(square[1:, :-1], cmap=shades, vmin=0.0, vmax=1.0)
    short = [plain(name, width=19) for name in names]
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
    quiet(axes)
