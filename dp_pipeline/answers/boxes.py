"""Numbers of rows from released centres and boxes, each with an interval."""

from collections.abc import Callable, Mapping
from functools import cached_property

import numpy as np

from dp_pipeline.answers.conditions import Condition, is_stated
from dp_pipeline.answers.estimate import Estimate
from dp_pipeline.config.encoding import FloatArray, Names
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.results.clusters import Synopsis, Tables


class OpenClusters:
    """Released centres, with the noisy boxes from which they were made.

    centres    in the units of the data: float (k, d)
    synopsis   boxes with the deviation of their noise

    Rows are assumed to be uniform inside a box, and the noise of boxes to be independent. Sums over
    many boxes of a tree, whose levels were made consistent, have less noise than their intervals
    state.
    """

    def __init__(self, centres: FloatArray, synopsis: Synopsis) -> None:
        self.centres, self.columns, self._synopsis = centres, synopsis.columns, synopsis

    def __repr__(self) -> str:
        rows = f"about {self._synopsis.weights.sum():,.0f} rows"
        return f"OpenClusters({len(self.centres)} centres in {', '.join(self.columns)}, {rows})"

    def count(self, where: str = "", *, level: float = 0.95) -> Estimate:
        """Return the estimated number of rows in a region, such as ``x > 3 and y <= 7``.

        Without a condition it is the number of all rows. DeclarationError for another kind of
        condition or an unknown column."""
        if not is_stated(where):
            return self._sum(np.ones(len(self._synopsis.weights)), level)
        condition = Condition.parse(where, self.columns)
        return self._sum(self._parts(condition.rows), level)

    def share(self, where: str, *, level: float = 0.95) -> Estimate:
        """Return the estimated share of all rows that are in a region, from 0 to 1.

        DeclarationError for an empty or another kind of condition, or an unknown column."""
        parts = self._parts(Condition.parse(where, self.columns).rows)
        weights = self._synopsis.weights
        total = max(1.0, float(weights.sum()))
        value = float(parts @ weights) / total
        noise = float((((parts - value) * self._noise) ** 2).sum())
        uneven = float(((weights * parts * (1 - parts)) ** 2).sum()) / 3
        deviation = (noise + uneven) ** 0.5 / total
        return Estimate.within(value, deviation, level=level, basis="measured", least=0.0, most=1.0)

    def sizes(self, *, level: float = 0.95) -> list[Estimate]:
        """Return the estimated number of rows nearest to each centre."""
        return [self._sum(parts, level) for parts in self._nearest]

    @property
    def size_deviations(self) -> FloatArray:
        """The standard deviation of the size of every centre, in rows (k,)."""
        return np.array([self._variance(parts) ** 0.5 for parts in self._nearest])

    @property
    def centre_deviations(self) -> FloatArray:
        """The standard deviation of the noise in every coordinate of the centres (k, d).

        A centre is the mean of the points nearest to it, weighted by the noisy counts c of their
        boxes: to first order its variance is Σ σ²(x − centre)²/(Σ c)². Where a further noisy
        question moved the centre, the noise of that question is left out."""
        boxes, deviations = self._synopsis, []
        for centre, parts in zip(self.centres, self._nearest, strict=True):
            rows = max(1.0, float(parts @ boxes.weights))
            away = (boxes.middles - centre) * (parts * self._noise)[:, None]
            deviations.append(np.sqrt((away**2).sum(axis=0)) / rows)
        return np.array(deviations).reshape(self.centres.shape)

    def _sum(self, parts: FloatArray, level: float) -> Estimate:
        value = float(parts @ self._synopsis.weights)
        deviation = self._variance(parts) ** 0.5
        return Estimate.within(max(0.0, value), deviation, level=level, basis="measured", least=0.0)

    def _variance(self, parts: FloatArray) -> float:
        """Return the variance of the number of rows in given fractions of the boxes, in rows².

        It is of the noise, and of rows that are not uniform inside a box: a part f of a box of c
        rows has f·c ± f(1 − f)·c/√3 rows (``OpenTable.split_variance``)."""
        uneven = self._synopsis.weights * parts * (1 - parts)
        return float(((parts * self._noise) ** 2).sum() + (uneven**2).sum() / 3)

    @property
    def _noise(self) -> FloatArray:
        deviations = self._synopsis.deviations
        assert deviations is not None
        return deviations

    def _parts(self, inside: Callable[[Mapping[str, np.ndarray]], np.ndarray]) -> FloatArray:
        """Return the fraction of every box that is inside a region: (boxes,).

        inside   function from the coordinates of points by column to a mask of these points
        """
        of_points = [
            inside(dict(zip(self.columns, points.T, strict=True)))
            for points in self._synopsis.points()
        ]
        return np.asarray(np.mean(of_points, axis=0))

    @cached_property
    def _nearest(self) -> FloatArray:
        return self._synopsis.fractions_nearest(self.centres)


def open_clusters(tables: Tables) -> OpenClusters:
    """Return a clustering opened from the tables of its bundle.

    DeclarationError where boxes or the deviations of their noise are missing."""
    if "deviation" not in tables.get("synopsis", {}):
        raise DeclarationError(
            "The clustering must have boxes with the deviation of their noise, but it has "
            "centres alone, for which no interval is known: take a release of `htree_kmeans` "
            "or `eug_kmeans`"
        )
    boxes = tables["synopsis"]
    columns: Names = tuple(name for name in tables["centres"] if f"{name}_lower" in boxes)
    centres = np.stack([tables["centres"][name] for name in columns], axis=1)
    return OpenClusters(centres, Synopsis.of_table(columns, boxes))
