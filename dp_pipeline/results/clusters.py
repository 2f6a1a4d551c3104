"""The result of a clustering: centres, with a synopsis or sizes; and columns of many rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dp_pipeline.config.encoding import Coordinate, FloatArray, IntArray
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.results.measurement import NoisyNumber, variance
from dp_pipeline.results.trees import CountedBoxes

Columns = Mapping[str, np.ndarray]
"""Column name → values (rows,)."""

LEFT_OUT = "left_out"
"""The table of the noisy number of rows without a place."""
POINTS = 64
"""Points inside a box, about, at which it is asked what part of the box is in a region."""

ROWS_A_BATCH = 1 << 20
"""Rows of a table that are in memory at a time, where it has more."""

Batches = Callable[[], Iterator[np.ndarray]]
"""Yields a column from its beginning, in arrays of ``ROWS_A_BATCH`` rows and a shorter last one."""


class LongColumns(Mapping[str, np.ndarray]):
    """The columns of a long table, which are produced in batches to save memory.

    columns   name → its batches

    Each access to a whole column produces it anew. Tables of at most one batch are plain dicts
    instead.

    >>> long = LongColumns({"a": lambda: iter([np.array([1, 2]), np.array([3])])})
    >>> long["a"].tolist(), [part.tolist() for part in batches_of(long, "a")]
    ([1, 2, 3], [[1, 2], [3]])
    """

    def __init__(self, columns: Mapping[str, Batches]) -> None:
        self._columns = dict(columns)

    def __getitem__(self, name: str) -> np.ndarray:
        return np.concatenate(list(self._columns[name]()))

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def batches(self, name: str) -> Iterator[np.ndarray]:
        return self._columns[name]()


def batches_of(table: Columns, name: str) -> Iterator[np.ndarray]:
    """Yield a column in batches of ``ROWS_A_BATCH`` rows; without rows, one empty batch."""
    if isinstance(table, LongColumns):
        yield from table.batches(name)
        return
    values = table[name]
    for start in range(0, max(1, len(values)), ROWS_A_BATCH):
        yield values[start : start + ROWS_A_BATCH]


def row_count(table: Columns) -> int:
    """Return the number of rows of a table; 0 without columns."""
    return sum(len(values) for name in list(table)[:1] for values in batches_of(table, name))


def typed_batch(table: Columns, name: str) -> np.ndarray:
    """Return the first batch of a column that has a value and so shows its type; else the last."""
    for values in batches_of(table, name):
        if values.dtype.kind != "O" or any(value is not None for value in values.tolist()):
            break
    return values


def rows_in_batches(table: Columns) -> Iterator[dict[str, np.ndarray]]:
    """Yield name → column in batches of ``ROWS_A_BATCH`` rows.

    A table without rows gives one batch of empty columns, and one without columns an empty dict.
    """
    if not len(table):
        yield {}
    columns = [batches_of(table, name) for name in table]
    for values in zip(*columns, strict=True):
        yield dict(zip(table, values, strict=True))


@dataclass(frozen=True)
class Synopsis:
    """Disjoint boxes in data units with noisy weights, from which centres are computed for any k.

    lower, upper   corners of the boxes: float (m, d)
    weights        noisy numbers of rows, which may be negative: float (m,)
    deviations     standard deviation of the noise in each weight, by its own count: float (m,);
                   None where it is not known
    counted        the noisy counts from which the weights were made, if each box was counted once;
                   else None. They are not stored, as they follow from the answers
    """

    columns: tuple[str, ...]
    lower: FloatArray
    upper: FloatArray
    weights: FloatArray
    deviations: FloatArray | None = None
    counted: CountedBoxes | None = None

    @property
    def middles(self) -> FloatArray:
        """The centres of the boxes, (m, d)."""
        return (self.lower + self.upper) / 2

    def refined(self, *, target: int = 3000, most: int = 4) -> Synopsis:
        """Return the synopsis with its m boxes of positive weight cut into equal parts, if few.

        target   most parts of all boxes together: each is cut into ⌊(target/m)^{1/d}⌋ parts an
                 axis, at most ``most``; with fewer than 2 the synopsis is returned unchanged

        A large box is then not represented by its centre alone. Other boxes stay whole and come
        first. A synopsis that was cut has no ``deviations`` and no ``counted``."""
        positive = self.weights > 0
        d, m = self.lower.shape[1], max(1, int(positive.sum()))
        cuts = min(most, int((target / m) ** (1 / d) + 1e-9))
        if cuts < 2:
            return self
        corners = np.stack(np.unravel_index(np.arange(cuts**d), (cuts,) * d), axis=1)
        lower, upper = (ends[positive][:, None, :] for ends in (self.lower, self.upper))
        size = (upper - lower) / cuts
        parts = lower + corners * size
        # The last part may end a digit above its box.
        ends = np.minimum(parts + size, upper)
        return Synopsis(
            self.columns,
            np.concatenate([self.lower[~positive], parts.reshape(-1, d)]),
            np.concatenate([self.upper[~positive], ends.reshape(-1, d)]),
            np.concatenate(
                [self.weights[~positive], np.repeat(self.weights[positive] / cuts**d, cuts**d)]
            ),
        )

    def points(self) -> Iterator[FloatArray]:
        """Yield one point in every box, (m, d), at the same place in each, as often as there are
        places: of a grid, or the same random ones where a grid would have too many."""
        d, size = len(self.columns), self.upper - self.lower
        cuts = int(POINTS ** (1 / d))
        places = (np.stack(np.unravel_index(np.arange(cuts**d), (cuts,) * d), axis=1) + 0.5) / cuts
        if cuts < 2:
            places = np.random.default_rng(0).random((POINTS, d))
        return (self.lower + place * size for place in places)

    def fractions_nearest(self, centres: FloatArray) -> FloatArray:
        """Return the fraction of every box that is nearest to each centre (k, d): (k, m)."""
        nearest = np.array([nearest_centres(points, centres) for points in self.points()])
        return np.stack([(nearest == i).mean(axis=0) for i in range(len(centres))])

    def table(self) -> dict[str, np.ndarray]:
        """Return a table with a row for each box: bounds by axis, weight, deviation if known."""
        columns: dict[str, np.ndarray] = {}
        for axis, name in enumerate(self.columns):
            columns[f"{name}_lower"] = self.lower[:, axis]
            columns[f"{name}_upper"] = self.upper[:, axis]
        noise = {} if self.deviations is None else {"deviation": self.deviations}
        return {**columns, "weight": self.weights, **noise}

    @classmethod
    def of_table(cls, columns: tuple[str, ...], table: Columns) -> Synopsis:
        lower, upper = (
            np.stack([table[f"{name}_{end}"] for name in columns], axis=1)
            for end in ("lower", "upper")
        )
        return cls(columns, lower, upper, table["weight"], table.get("deviation"))

    @classmethod
    def of_grid(
        cls, table: FloatArray, columns: tuple[str, ...], box: tuple[Coordinate, ...]
    ) -> Synopsis:
        """Return the synopsis of a grid of equal cells, weighted by a table of shape (g,)·d."""
        positions = np.stack(np.unravel_index(np.arange(table.size), table.shape), axis=1)
        low = np.array([interval.lower for interval in box])
        high = np.array([interval.upper for interval in box])
        size = (high - low) / table.shape[0]
        lower = low + positions * size
        # The last box may end a digit above the declared bound.
        upper = np.minimum(lower + size, high)
        return cls(columns, lower, upper, table.ravel().astype(float))


_BLOCK_CELLS = 1 << 20


def nearest_centres(points: FloatArray, centres: FloatArray) -> IntArray:
    """Return the index of the centre (k, d) nearest to each point (N, d), as (N,).

    DeclarationError for other shapes and for no centre."""
    if points.ndim != 2 or centres.ndim != 2 or points.shape[1] != centres.shape[1]:
        raise DeclarationError(
            "The points and centres must be tables with equal numbers of columns, not of "
            f"shapes {points.shape} and {centres.shape}"
        )
    if len(centres) == 0:
        raise DeclarationError("A clustering needs one or more centres, but it has none")
    # The expanded square is fast but loses digits far from zero, so the origin is moved into the
    # data.
    origin = centres.mean(axis=0)
    c = centres - origin
    squares = (c * c).sum(axis=1)
    nearest = np.empty(len(points), dtype=np.int64)
    step = max(1, _BLOCK_CELLS // len(centres))
    for start in range(0, len(points), step):
        block = points[start : start + step] - origin
        nearest[start : start + step] = (squares - 2.0 * (block @ c.T)).argmin(axis=1)
    return nearest


Tables = Mapping[str, Columns]


@dataclass(frozen=True)
class Clusters:
    """The released centres of a clustering model.

    centres    float (k, d), data units, inside the declared box
    synopsis   noisy boxes behind the centres: another k needs no further ε; None without boxes
    sizes      float (k,), noisy rows of each centre, may be negative; None where not measured
    left_out   noisy number of rows without coordinates, which are in no cluster, may be negative;
               None where all rows have them
    """

    columns: tuple[str, ...]
    centres: FloatArray
    synopsis: Synopsis | None = None
    sizes: FloatArray | None = None
    left_out: NoisyNumber | None = None

    def tables(self) -> Tables:
        """Return the tables to store, by name: ``centres``, and the others that the model has.

        ``synopsis`` has one row for each box, ``sizes`` one for each centre, ``left_out`` a number
        of rows and the deviation of its noise."""
        tables = {"centres": dict(zip(self.columns, self.centres.T, strict=True))}
        if self.synopsis is not None:
            tables["synopsis"] = self.synopsis.table()
        if self.sizes is not None:
            tables["sizes"] = {"size": self.sizes}
        if self.left_out is not None:
            noise = variance(Fraction(self.left_out.scale)) ** 0.5
            tables[LEFT_OUT] = {
                "rows": np.array([self.left_out.value]),
                "deviation": np.array([noise]),
            }
        return tables
