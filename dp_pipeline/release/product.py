"""ProductTable: a table of independent attributes, from their noisy one-way marginals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import combinations

import numpy as np

from dp_pipeline.release.clusters import Tables
from dp_pipeline.release.measurement import NoisyMarginal, variance
from dp_pipeline.release.simplex import project_to_simplex
from dp_pipeline.schema.domain import Domain
from dp_pipeline.schema.encoding import FloatArray, IntArray


@dataclass(frozen=True)
class ProductTable:
    """One-way marginals and synthetic rows drawn from their product.

    marginals   one noisy table an attribute
    codes       int64 (rows, attributes): synthetic rows
    domain      declared attributes, for names and labels
    """

    marginals: tuple[NoisyMarginal, ...]
    codes: IntArray
    domain: Domain

    def probabilities(self, attributes: tuple[str, ...]) -> FloatArray:
        """The released distribution over ``attributes``, of their marginal's shape."""
        by_name = {marginal.attributes[0]: marginal for marginal in self.marginals}
        rows = estimated_rows(self.marginals)
        ways = [shares(by_name[name], rows) for name in attributes]
        return np.asarray(reduce(np.multiply.outer, ways))

    def tables(self) -> Tables:
        """``marginals``, one row a cell, and ``synthetic``, one column an attribute."""
        names, levels, counts, probabilities = [], [], [], []
        for marginal in self.marginals:
            name = marginal.attributes[0]
            labels = self._labels(name)
            names += [name] * len(labels)
            levels += list(labels)
            counts.append(marginal.table)
            probabilities.append(self.probabilities((name,)))
        return {
            "marginals": {
                "attribute": np.array(names, dtype=np.str_),
                "level": np.array(levels, dtype=np.str_),
                "noisy_count": np.concatenate(counts),
                "probability": np.concatenate(probabilities),
            },
            "synthetic": {
                marginal.attributes[0]: np.array(self._labels(marginal.attributes[0]))[column]
                for marginal, column in zip(self.marginals, self.codes.T, strict=True)
            },
        }

    def _labels(self, name: str) -> tuple[str, ...]:
        cells = self.domain[name].cells
        return () if cells is None else cells.labels()


def estimated_rows(marginals: tuple[NoisyMarginal, ...]) -> int:
    """Inverse-variance mean of the tables' totals, at least 0: each total estimates n."""
    # At a very large ε the variance is 0 to every digit of a float.
    variances = np.array([m.table.size * max(variance(m.scale), 1e-100) for m in marginals])
    weights = 1 / variances
    totals = np.array([m.table.sum() for m in marginals], dtype=np.float64)
    return max(0, round(float((weights * totals).sum() / weights.sum())))


def shares(marginal: NoisyMarginal, rows: int) -> FloatArray:
    """Probabilities of the cells: the nearest counts that add up to ``rows``, divided by them.

    Projecting the counts themselves to a sum of 1 would leave their largest cell alone.
    """
    counts = project_to_simplex(marginal.table, total=float(max(1, rows)))
    return np.asarray(counts / counts.sum())


def sample_product(
    marginals: tuple[NoisyMarginal, ...], rows: int, rng: np.random.Generator
) -> IntArray:
    """Synthetic codes (rows, attributes), every attribute by itself."""
    estimate = estimated_rows(marginals)
    columns = [rng.choice(m.table.size, size=rows, p=shares(m, estimate)) for m in marginals]
    return np.stack(columns, axis=1).astype(np.int64)


def pair_probabilities(
    marginals: Mapping[str, np.ndarray], *, most_cells: int
) -> dict[tuple[str, ...], FloatArray]:
    """Released distributions of all pairs of attributes with at most ``most_cells`` cells.

    marginals   the table of that name of a stored release; one attribute makes one marginal
    """
    names = list(dict.fromkeys(marginals["attribute"].tolist()))
    ways = {name: marginals["probability"][marginals["attribute"] == name] for name in names}
    if len(names) == 1:
        return {(names[0],): ways[names[0]]}
    return {
        (left, right): np.outer(ways[left], ways[right])
        for left, right in combinations(names, 2)
        if len(ways[left]) * len(ways[right]) <= most_cells
    }
