"""SyntheticTable: rows drawn from a released model of a table, and what they were drawn from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from dp_pipeline.release.clusters import Tables
from dp_pipeline.release.decoding import decoded
from dp_pipeline.release.grouping import Grouping
from dp_pipeline.release.measurement import NoisyMarginal
from dp_pipeline.schema.domain import Domain
from dp_pipeline.schema.encoding import FloatArray, IntArray

Names = tuple[str, ...]

MOST_CELLS_SHOWN = 200_000
"""Cells of measured tables that are stored one by one; larger tables are in the transcript."""


@dataclass(frozen=True)
class SyntheticTable:
    """What a model of a table releases.

    attributes   in declared order
    codes        int64 (rows, attributes): synthetic rows
    measured     the noisy tables that were paid for
    cliques      attributes of the model graph's nodes
    links        (parent, child) places in ``cliques``; the separator is what they share
    domain       declared attributes, for levels and bins
    seed         of the numbers inside the bins
    groupings    attribute → groups of its levels in measured tables of several attributes

    >>> from dp_pipeline.schema.domain import Attribute
    >>> from dp_pipeline.schema.encoding import Levels
    >>> domain = Domain((Attribute("sex", "sex", "drop", cells=Levels(("f", "m"))),))
    >>> codes = np.array([[0], [1], [1], [1]])
    >>> table = SyntheticTable(("sex",), codes, (), (("sex",),), (), domain, seed=1)
    >>> table.probabilities(("sex",)).tolist(), table.tables()["synthetic"]["sex"].tolist()
    ([0.25, 0.75], ['f', 'm', 'm', 'm'])
    """

    attributes: Names
    codes: IntArray
    measured: tuple[NoisyMarginal, ...]
    cliques: tuple[Names, ...]
    links: tuple[tuple[int, int], ...]
    domain: Domain
    seed: int
    groupings: Mapping[str, Grouping] = field(default_factory=dict)

    def counts(self, attributes: Names) -> IntArray:
        """Synthetic rows in every cell over ``attributes``, of their marginal's shape."""
        shape = self.domain.shape(attributes)
        keys = np.zeros(len(self.codes), dtype=np.int64)
        for name, size in zip(attributes, shape, strict=True):
            keys = keys * size + self._column[name]
        counts = np.bincount(keys, minlength=int(np.prod(shape, dtype=np.int64)))
        return counts.astype(np.int64).reshape(shape)

    def probabilities(self, attributes: Names) -> FloatArray:
        """The synthetic distribution over ``attributes``; uniform where there is no row."""
        counts = self.counts(attributes)
        rows = len(self.codes)
        return counts / rows if rows else np.full(counts.shape, 1 / counts.size)

    @cached_property
    def _column(self) -> dict[str, IntArray]:
        return dict(zip(self.attributes, np.ascontiguousarray(self.codes.T), strict=True))

    def tables(self) -> Tables:
        """``synthetic``, in the source's columns; ``codes``, one column an attribute;
        ``marginals``, one row a level; ``cliques`` and ``measured``, one row each; ``cells``,
        one row a noisy count, where they are not too many; ``groups``, one row a level, where
        levels were grouped.
        """
        rng = np.random.default_rng(self.seed)
        tables = {
            "synthetic": decoded(self.codes, self.attributes, self.domain, rng),
            "codes": dict(self._column),
            "marginals": self._marginals(),
            "cliques": self._cliques(),
            "measured": self._measured(),
        }
        cells = self._cells()
        if cells:
            tables["cells"] = cells
        if self.groupings:
            tables["groups"] = self._groups()
        return tables

    def _groups(self) -> dict[str, np.ndarray]:
        """The group of every level: cells of tables of several attributes are over groups."""
        levels = {name: self.domain[name].labels() for name in self.groupings}
        pairs = [(name, label) for name, labels in levels.items() for label in labels]
        return {
            "attribute": np.array([name for name, _ in pairs], dtype=np.str_),
            "level": np.array([label for _, label in pairs], dtype=np.str_),
            "group": np.concatenate([one.labels for one in self.groupings.values()]),
        }

    def _marginals(self) -> dict[str, np.ndarray]:
        labels = [self.domain[name].labels() for name in self.attributes]
        names = np.repeat(np.array(self.attributes, np.str_), [len(one) for one in labels])
        return {
            "attribute": names,
            "level": np.array([label for one in labels for label in one], dtype=np.str_),
            "probability": np.concatenate([self.probabilities((n,)) for n in self.attributes]),
        }

    def _cliques(self) -> dict[str, np.ndarray]:
        parents = {child: parent for parent, child in self.links}
        shared = [
            [name for name in clique if name in self.cliques[parents[at]]] if at in parents else []
            for at, clique in enumerate(self.cliques)
        ]
        return {
            "attributes": _text(self.cliques),
            "cells": np.array([self.domain.cell_count(c) for c in self.cliques], dtype=np.int64),
            "parent": np.array([parents.get(at, -1) for at in range(len(self.cliques))], np.int64),
            "separator": _text(shared),
        }

    def _measured(self) -> dict[str, np.ndarray]:
        return {
            "marginal": _text([one.attributes for one in self.measured]),
            "cells": np.array([one.table.size for one in self.measured], dtype=np.int64),
            "deviation": np.array([one.variance**0.5 for one in self.measured], dtype=np.float64),
        }

    def _cells(self) -> dict[str, np.ndarray] | None:
        """The noisy counts, cell by cell in the order of the tables; None where there are many."""
        if sum(one.table.size for one in self.measured) > MOST_CELLS_SHOWN:
            return None
        sizes = [one.table.size for one in self.measured]
        return {
            "marginal": np.repeat(_text([one.attributes for one in self.measured]), sizes),
            "cell": np.concatenate([np.arange(size) for size in sizes]).astype(np.int64)
            if sizes
            else np.zeros(0, np.int64),
            "noisy_count": np.concatenate([one.table.ravel() for one in self.measured])
            if sizes
            else np.zeros(0, np.int64),
        }


def _text(cliques: object) -> np.ndarray:
    names = [", ".join(clique) for clique in cliques]  # type: ignore[attr-defined]
    return np.array(names, dtype=np.str_) if names else np.zeros(0, dtype="<U1")
